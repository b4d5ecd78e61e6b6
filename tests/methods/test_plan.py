"""The plan: which posterior a fit has, from what the user chose and what the rows are like."""

import subprocess
import sys
import textwrap
from math import inf

import inside
import numpy as np
import pytest
from inside import ArrayDataset, Facts, PosteriorSelection, Request, UncertainInputs, plan
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared
from test_posteriors_of_users import SubsetOfData

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import Titsias
from skgp_sparse.kernels import Categorical, Columns
from skgp_sparse.posteriors import Exact, FourierFeatures, InducingPoints, IterativeExact, Neighbors

AUTO = PosteriorSelection()
FEW, SOME, MORE, MANY = (Facts(n, n) for n in (1000, 4000, 5200, 20_000))
MANY = MANY._replace(n_distinct=inf)
FAR = {"reaches_far": True}


def method_of(facts, posterior=None, **chosen):
    return plan.plan(Request(posterior or AUTO, **chosen), facts).posterior_method


@pytest.mark.parametrize(
    "facts, chosen, expected",
    [
        (FEW, {}, Exact),
        (FEW._replace(n_rows=50_000), {}, Exact),  # the distinct ones count
        (FEW, {"bound": "titsias"}, Exact),
        (FEW, {"n_inducing": 100}, InducingPoints),
        (FEW, {"n_inducing": 1000}, Exact),
        (FEW, {"inducing_init": np.zeros((3, 1))}, InducingPoints),
        (FEW._replace(is_differentiable=False), {}, InducingPoints),
        (FEW, {"has_sites": True}, InducingPoints),
        (FEW._replace(n_levels=101), {"has_sites": True}, PosteriorSelection),
        (SOME, {}, PosteriorSelection),
        (SOME, {"bound": "titsias"}, InducingPoints),
        (SOME, {"bound": "titsias", "has_sites": True}, InducingPoints),
        (SOME, {"optimizer": None}, InducingPoints),
        (SOME, {"n_latent": 3, "has_sites": True}, InducingPoints),
        (SOME._replace(in_memory=False), {}, InducingPoints),
        (MANY._replace(in_memory=False), {}, InducingPoints),
        (MANY, {"bound": "titsias"}, InducingPoints),
        (FEW, {"metric": "full"}, Neighbors),
        (FEW, {"metric": "full", "has_sites": True}, Neighbors),
        (MANY, {"metric": "full"}, PosteriorSelection),
        (FEW._replace(n_distinct=4), {"metric": "full"}, Exact),
        (MANY, {"metric": "full", "bound": "titsias"}, InducingPoints),
        (MANY._replace(inputs_are_known=False), {}, UncertainInputs),
        (MANY, {"posterior": Exact()}, Exact),
        (FEW, {"posterior": FourierFeatures()}, FourierFeatures),
        (FEW, {"posterior": InducingPoints()}, Exact),
        (MANY, {"posterior": InducingPoints()}, InducingPoints),
        (SOME, {"posterior": InducingPoints()}, InducingPoints),
        (SOME, {"posterior": InducingPoints(1000)}, InducingPoints),
        (FEW, {"posterior": InducingPoints(1000)}, Exact),
        (FEW, {"posterior": IterativeExact()}, Exact),
        (SOME, {"posterior": IterativeExact()}, IterativeExact),
        (FEW, {"posterior": Neighbors()}, Neighbors),
        (FEW, {"posterior": Neighbors(n_neighbors=1000)}, Exact),
        (FEW, {"posterior": Neighbors(1000), "inducing_init": np.zeros((3, 1))}, Exact),
        (MORE._replace(**FAR), {}, Exact),
        (MANY._replace(**FAR), {}, InducingPoints),
        (MORE._replace(**FAR), {"has_sites": True}, InducingPoints),
        (MORE._replace(**FAR), {"bound": "titsias"}, InducingPoints),
        (MORE._replace(**FAR), {"metric": "full"}, PosteriorSelection),
        (MORE._replace(**FAR), {"posterior": Neighbors()}, Neighbors),
    ],
)
def test_methods(facts, chosen, expected):
    assert type(method_of(facts, **chosen)) is expected


class FirstRows(InducingPoints):
    """Inducing points as a user may extend them."""


def test_methods_of_users_are_never_replaced_but_where_they_ask_for_it():
    assert type(method_of(FEW, SubsetOfData())) is SubsetOfData
    assert type(method_of(SOME, FirstRows())) is FirstRows
    X, y = table(40)
    model = SparseGPRegressor(posterior=SubsetOfData(20), random_state=0).fit(X, y)
    assert model.n_inducing_ == 20 and model.selection_.plan == "subset: it was chosen"


def test_the_exact_process_is_the_rival_up_to_a_number_of_rows():
    assert method_of(SOME).rival is inside.ExactRival
    assert method_of(MORE).rival is inside.RivalOfPoints
    assert method_of(SOME, has_sites=True).rival is inside.RivalOfPoints


def test_numbers_of_inducing_points():
    def number(facts, posterior=None, **chosen):
        return plan.plan(Request(posterior or AUTO, **chosen), facts).n_inducing

    assert number(MANY) == plan.POINTS and number(MANY, n_inducing=7) == 7
    assert number(MANY, has_sites=True) == plan.POINTS_OF_LABELS
    assert number(MANY._replace(inputs_are_known=False)) == plan.POINTS_OF_UNCERTAIN_INPUTS
    assert number(MANY, FourierFeatures(40)) == 40


def test_rows_of_the_start():
    def number(n, **chosen):
        return plan.plan(Request(AUTO, **chosen), MANY._replace(n_rows=n)).start_rows

    assert [number(n) for n in (100, 10_000)] == [500, 500]
    assert [number(n, has_sites=True) for n in (400, 1600, 10_000)] == [125, 200, 250]


def test_logarithms_of_skewed_columns():
    def tries(facts, posterior=None, **chosen):
        return "logarithms" in plan.plan(Request(posterior or AUTO, **chosen), facts).steps

    assert tries(FEW) and tries(MANY, has_sites=True) and tries(MANY, metric="ard")
    assert tries(MANY, InducingPoints())
    assert not tries(MANY) and not tries(FEW, metric="full")
    assert not tries(FEW, kernel=RBF()) and not tries(FEW, optimizer=None)
    assert not tries(FEW, FourierFeatures()) and not tries(FEW._replace(in_memory=False))


@pytest.mark.parametrize(
    "given",
    [
        {"bound": "titsias_new"},
        {"bound": Titsias()},
        {"n_inducing": 500},
        {"inducing_init": "k-means"},
        {"inducing_init": np.ones((5, 2))},
        {"solver": "lbfgs"},
    ],
    ids=str,
)
def test_what_concerns_inducing_points_asks_for_them(given):
    X, y = table(600)
    model = SparseGPRegressor(RBF(), optimizer=None, alpha=0.1, **given).fit(X, y)
    of_default = SparseGPRegressor(RBF(), optimizer=None, alpha=0.1).fit(X, y)
    few = "n_inducing" not in given and not isinstance(given.get("inducing_init"), np.ndarray)
    assert of_default.posterior_ == "exact"
    assert model.posterior_ == ("exact" if few else "inducing")
    rows = SparseGPRegressor(RBF(), posterior="neighbors", optimizer=None, alpha=0.1).fit(X, y)
    assert rows.selection_.plan == "neighbors: it was chosen"


def table(n):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def test_facts_of_a_table():
    X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [2.0, 0.0]])
    rows = ArrayDataset(X, X[:, :1])
    kernel = Columns(Categorical(), [0])
    facts = plan.facts_of(rows, kernel, Request(AUTO))
    assert facts == Facts(n_rows=4, n_distinct=3, weight=4.0, n_numbers=8, n_free=0.25)
    assert plan.facts_of(rows, kernel, Request(AUTO, has_sites=True)).n_levels == 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "EXACT_QUIET", 2)
        assert plan.facts_of(rows, kernel, Request(AUTO)).n_distinct == inf
        assert plan.facts_of(rows, kernel, Request(AUTO, n_inducing=3)).n_distinct == 3


def test_steps_of_a_plan():
    def steps(facts, posterior=None, **chosen):
        chosen = {"mean": "auto", "noise": "auto", "calibration": "auto"} | chosen
        return plan.plan(Request(posterior or AUTO, **chosen), facts).steps

    some = FEW._replace(n_rows=300, n_distinct=300, weight=300.0, n_numbers=900)
    assert steps(some) == ("likely scale", "logarithms", "noise", "mean", "warnings")
    assert steps(some, mean=None, noise="constant") == ("likely scale", "logarithms", "warnings")
    assert steps(some, mean="linear") == ("likely scale", "logarithms", "noise", "warnings")
    assert steps(some._replace(weight=150.0)) == ("likely scale", "logarithms", "noise", "warnings")
    assert steps(some, kernel=RBF(), optimizer=None) == ()
    assert steps(some, kernel=RBF()) == ("warnings",)
    assert steps(some, kernel=RBF(), mean="boosting") == ("residuals", "warnings")
    assert steps(some, kernel=RBF(), mean="linear", noise="learned") == ("noise", "warnings")
    labels = {"has_sites": True, "n_classes": 3}
    several = steps(MANY._replace(weight=1e4), **labels, starts_together=True)
    assert several[0] == "common start" and several[-3:] == ("mean", "calibration", "warnings")
    assert steps(some, **labels, mean="linear")[-2:] == ("calibration", "warnings")
    assert "mean" not in steps(some, **labels, have_all_rows=False)
    assert "mean" not in steps(some._replace(has_offset=True), has_sites=True)
    assert "mean" not in steps(some, are_passed=False)
    wide = some._replace(n_free=0.5)
    assert steps(wide)[-2:] == steps(wide, kernel=RBF()) == ("deviations", "warnings")
    assert steps(wide, **labels)[-2:] == ("deviations", "warnings")
    for others in (labels | {"calibration": None}, labels | {"kernel": RBF()}, {"optimizer": None}):
        assert "deviations" not in steps(wide, **others)
    assert "deviations" not in steps(wide._replace(n_distinct=20))
    assert set(plan.STEPS) >= {*several, *steps(wide)}
    named = {"kernel": RBF(), "posterior": InducingPoints()}
    assert steps(SOME, **named) == ("exact if quiet", "warnings")
    assert steps(MANY, **named) == steps(SOME, **named, n_inducing=100) == ("warnings",)
    assert steps(SOME, **named, has_sites=True) == steps(FEW, **named) == ("warnings",)


@pytest.mark.second
def test_a_fit_without_steps_reads_no_file_of_them():
    code = """
        import sys
        import numpy as np
        from sklearn.gaussian_process.kernels import RBF
        from skgp_sparse import SparseGPClassifier, SparseGPRegressor
        X = np.linspace(0, 5, 50)[:, None]
        for model in (SparseGPRegressor, SparseGPClassifier):
            model(RBF(), optimizer=None).fit(X, X[:, 0] > 2).predict(X)
        assert not [name for name in sys.modules if name.startswith("skgp_sparse.steps")]
        SparseGPRegressor().fit(X, np.sin(X[:, 0]))
        read = {name for name in sys.modules if name.startswith("skgp_sparse.steps.")}
        assert read == {"skgp_sparse.steps.initial_values", "skgp_sparse.steps.fit_warnings"}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_the_plan_is_told(capsys):
    X, y = table(40)
    model = SparseGPRegressor(RBF(), alpha=0.1, optimizer=None, verbose=1).fit(X, y)
    told = "exact: 40 distinct rows are at most 2000"
    assert model.selection_ == [] and model.selection_.plan == told
    assert f"[SparseGPRegressor] plan: {told}\n" in capsys.readouterr().out
    model = SparseGPRegressor(ExpSineSquared()).fit(X[:, :1], y)
    told = "exact: 40 distinct rows are at most 5500, as rows far away matter in the kernel"
    assert model.selection_.plan == told
    model = SparseGPClassifier(RBF(), optimizer=None, verbose=1).fit(X, np.arange(40) % 3)
    assert [one.plan for one in model.selection_] == ["exact: 40 distinct rows are at most 300"] * 3
    assert capsys.readouterr().out.count("plan:") == 1

"""Training on parts of the rows, through the estimators."""

import warnings

import numpy as np
import pytest
from conftest import NAMED_BOUNDS, Recorder, raising
from inside import ArrayDataset, CollapsedObjective, InducingBasis, Options, Samples, stochastic
from inside import dataset as engine_table
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import log_loss

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, bounds
from skgp_sparse.likelihoods import BY_NAME as LIKELIHOODS
from skgp_sparse.solvers import LBFGS, Stochastic

N, M = 2000, 16  # 125 rows per inducing point: more than the largest sample of the tests
SHIPPED = stochastic.STAGES
STAGES = (stochastic.Stage(10, 15, False), stochastic.Stage(40, np.inf, True))


@pytest.fixture
def small_stages(monkeypatch):
    monkeypatch.setattr(stochastic, "STAGES", STAGES)


pytestmark = [
    pytest.mark.usefixtures("without_means"),
    pytest.mark.usefixtures("small_stages"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def full(*cases):
    """Cases that only the full tier has."""
    return [pytest.param(case, marks=pytest.mark.full) for case in cases]


def table(n=N, d=2, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, size=(n, d))
    f = np.sin(2 * X[:, 0]) + np.cos(X[:, 1])
    return X, f, rng


def numbers(n=N):
    X, f, rng = table(n)
    return X, f + 0.2 * rng.normal(size=n)


def labels():
    X, f, rng = table()
    return X, np.where(f + 0.3 * rng.normal(size=N) > 0, "yes", "no")


def given(parameters):
    chosen = {"n_inducing": M, "solver": "stochastic", "random_state": 0, "max_iter": 60}
    return chosen | parameters


def regressor(**parameters):
    return SparseGPRegressor(**given({"noise": "constant"} | parameters))


def classifier(**parameters):
    return SparseGPClassifier(**given(parameters))


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("bound", NAMED_BOUNDS)
def test_every_bound_is_nearly_as_good_as_on_all_rows(bound):
    X, y = numbers()
    found = regressor(bound=bound).fit(X[400:], y[400:])
    whole = regressor(bound=bound, solver="lbfgs").fit(X[400:], y[400:])
    mine = found.log_predictive_density(X[:400], y[:400]).mean()
    its = whole.log_predictive_density(X[:400], y[:400]).mean()
    assert mine > its - 0.1
    value = found.log_marginal_likelihood(found.kernel_.theta)
    assert_allclose(found.log_marginal_likelihood_value_, value, rtol=1e-10)


@pytest.mark.second
def test_the_posterior_is_that_of_all_rows():
    X, y = numbers()
    found = regressor().fit(X, y)
    Z = found.inducing_points_
    again = SparseGPRegressor(
        found.kernel_, inducing_init=Z, optimizer=None, n_inducing=M, optimize_inducing=False
    ).fit(X, y)
    for mine, its in zip(found.predict(X[:50], return_std=True), again.predict(X[:50], True)):
        assert_allclose(mine, its, rtol=1e-9)


@pytest.mark.second
@pytest.mark.parametrize("bound", ["titsias_new", "gfitc-ep", *full("titsias", "pep")])
def test_classifiers(bound):
    X, y = labels()
    found = classifier(bound=bound).fit(X[400:], y[400:])
    whole = classifier(bound=bound, solver="lbfgs").fit(X[400:], y[400:])
    assert found.score(X[:400], y[:400]) > whole.score(X[:400], y[:400]) - 0.03
    again = found.log_marginal_likelihood(found.kernel_.theta)
    assert_allclose(found.log_marginal_likelihood_value_, again, rtol=1e-4)


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one", "softmax"])
def test_several_classes(multi_class):
    X, f, _ = table()
    y = np.digitize(f, [-0.7, 0.7])
    model = classifier(multi_class=multi_class, max_iter=15).fit(X[400:], y[400:])
    assert model.score(X[:400], y[:400]) > 0.8


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_likelihoods_of_numbers(likelihood):
    X, f, rng = table()
    y = rng.poisson(np.exp(f)) + 1.0
    if likelihood == "beta":
        y = y / (y.max() + 1.0)
    offset = 0.1 * X[:, 0]
    found = regressor(likelihood=likelihood).fit(X[400:], y[400:], offset=offset[400:])
    whole = regressor(likelihood=likelihood, solver="lbfgs")
    whole.fit(X[400:], y[400:], offset=offset[400:])
    held = X[:400], y[:400], offset[:400]
    mine = found.log_predictive_density(*held).mean()
    assert mine > whole.log_predictive_density(*held).mean() - 0.05


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("solver", ["stochastic", Stochastic()])
@pytest.mark.parametrize("make, data", [(regressor, numbers), (classifier, labels)])
def test_the_same_seed_gives_the_same_fit_whatever_n_jobs(make, data, solver, monkeypatch):
    monkeypatch.setattr(engine_table, "_WORTH_SHARING", 256)  # samples have several blocks, too
    X, y = data()
    fits = [make(solver=solver, max_iter=20, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 3, 1)]
    for other in fits[1:]:
        assert_array_equal(other.inducing_points_, fits[0].inducing_points_)
        assert_array_equal(other.predict(X[:20]), fits[0].predict(X[:20]))


@pytest.mark.second
def test_weights_are_counts():
    """Rows that count a hundred times are learned as if they were there a hundred times."""
    X, f, rng = table()
    y = np.where(X[:, 0] > 0, f, -f) + 0.2 * rng.normal(size=N)
    weight = np.where(X[:, 0] > 0, 100.0, 1.0)
    right, left = (X[:, 0] > 0.2), (X[:, 0] < -0.2)
    even = regressor(alpha=0.04, inducing_init="random").fit(X, y)
    skewed = regressor(alpha=0.04, inducing_init="random").fit(X, y, weight)
    gain = [skewed.score(X[side], y[side]) - even.score(X[side], y[side]) for side in (right, left)]
    assert gain[0] > gain[1]


@pytest.mark.second
def test_rows_without_weight_are_not_there():
    X, y = numbers()
    weight = np.zeros(N)
    weight[::2] = 1.0
    found = regressor(max_iter=10).fit(X, y, weight)
    again = regressor(max_iter=10).fit(X[::2], y[::2])
    assert_allclose(found.log_marginal_likelihood_value_, again.log_marginal_likelihood_value_)


def samples_of(weight=None, kinds=None, n=1000):
    X = np.arange(n, dtype=float)[:, None]
    rows = ArrayDataset(X, X.copy(), 0.0, weight)
    return Samples(rows, kinds, np.random.RandomState(0))


def test_samples_have_none_of_the_rows_held_aside():
    samples = samples_of()
    held = set(samples.held.X[:, 0])
    assert len(held) == 50
    assert not held & set(samples.draw(1000).X[:, 0])
    assert len(np.unique(samples.draw(100).X)) == 100


@pytest.mark.parametrize("few", [1, 30, 500])
def test_samples_of_weighted_rows_are_copies(few):
    weight = np.zeros(1000)
    weight[:few] = np.arange(1.0, few + 1.0)
    samples = samples_of(weight)
    assert len(samples.held) == max(few // 20, 1)
    if few == 1:
        return
    drawn = samples.draw(20_000)
    assert drawn.weight.sum() == 20_000
    expected = weight[drawn.X[:, 0].astype(int)]
    expected *= 20_000 / np.delete(weight, samples.held_out).sum()
    assert_allclose(drawn.weight, expected, atol=6 * np.sqrt(expected.max()))


def test_samples_have_rows_of_every_kind_and_weights_that_undo_it():
    kinds = np.zeros(10_000, dtype=int)
    kinds[:100] = 1
    sample = samples_of(kinds=kinds, n=10_000).draw(500)
    rare = sample.X[:, 0] < 100
    assert rare.sum() == 50
    assert_allclose(sample.weight[rare].sum() / sample.weight.sum(), 0.01, rtol=0.1)
    assert samples_of(kinds=np.arange(10_000) % 2, n=10_000).draw(500).weight is None


@pytest.mark.second
def test_a_rare_class_is_learned(monkeypatch):
    monkeypatch.setattr(stochastic, "STAGES", SHIPPED)
    X, f, _ = table(6000)
    y = (f > 1.93).astype(int)
    assert 20 < y.sum() < 400
    models = [classifier(max_iter=30, solver=solver) for solver in ("stochastic", "lbfgs")]
    mine, its = (log_loss(y, model.fit(X, y).predict_proba(X)) for model in models)
    nothing = log_loss(y, np.full(len(y), y.mean()))
    assert mine < 0.8 * nothing
    assert mine < its + 0.1 * nothing


def losing(monkeypatch, by=1.0, after=1):
    """Every state after the first ones is worse by so much, as far as held-out rows tell."""
    count = []
    log_densities = CollapsedObjective.log_densities

    def worse(*args):
        count.append(1)
        return log_densities(*args) - by * max(len(count) - after, 0)

    monkeypatch.setattr(CollapsedObjective, "log_densities", worse)
    return count


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("by", [1.0, np.nan])
def test_a_stage_that_loses_is_undone(monkeypatch, by):
    X, y = numbers()
    start = regressor(max_iter=1000)
    monkeypatch.setattr(stochastic, "STAGES", (stochastic.Stage(10, 0, True),))
    start.fit(X, y)
    monkeypatch.setattr(stochastic, "STAGES", STAGES)
    losing(monkeypatch, by)
    found = regressor(max_iter=1000).fit(X, y)
    assert_allclose(found.kernel_.theta, start.kernel_.theta, rtol=1e-10)


@pytest.mark.second
def test_what_fails_is_told_and_left_out(monkeypatch):
    X, y = numbers()
    error = np.linalg.LinAlgError("It is not positive definite.")
    monkeypatch.setattr(stochastic.Search, "_climb", raising(error))
    words = "rows could not be fitted, so that the fit goes on from what it had before"
    with pytest.warns(ConvergenceWarning, match=words):
        model = regressor().fit(X, y)
    assert np.isfinite(model.predict(X[:5])).all()


def test_a_callback_ends_a_fit_within_a_stage():
    pytest.importorskip("sklearn.callback")
    X, y = numbers()
    model = regressor(max_iter=1000).set_callbacks(Recorder(at=5, action=lambda: True)).fit(X, y)
    assert model.n_iter_ < 10
    assert np.isfinite(model.predict(X[:5])).all()


def test_few_rows_are_a_full_batch():
    X, y = (part[:300] for part in numbers())
    found, whole = regressor().fit(X, y), regressor(solver="lbfgs").fit(X, y)
    assert_array_equal(found.inducing_points_, whole.inducing_points_)
    assert_array_equal(found.predict(X), whole.predict(X))


@pytest.mark.second(share=0.1, thin=1)
@pytest.mark.parametrize("solver, name", [(LBFGS(), "lbfgs"), (Stochastic(), "stochastic")])
@pytest.mark.parametrize("make, data", [(regressor, numbers), (classifier, labels)])
def test_an_object_is_what_its_name_is(make, data, solver, name):
    X, y = (part[:1800] for part in data())
    mine, its = (make(solver=one, max_iter=5).fit(X, y) for one in (solver, name))
    assert_array_equal(mine.inducing_points_, its.inducing_points_)
    assert_array_equal(mine.predict(X[:20]), its.predict(X[:20]))


@pytest.mark.second
def test_auto_goes_by_the_rows_per_inducing_point(monkeypatch):
    X, y = numbers(8000)  # 500 rows per inducing point
    auto, parts = regressor(solver="auto", max_iter=5), regressor(max_iter=5)
    auto.fit(X, y), parts.fit(X, y)
    assert_array_equal(auto.inducing_points_, parts.inducing_points_)
    auto.fit(X[:1000], y[:1000])
    whole = regressor(solver="lbfgs", max_iter=5).fit(X[:1000], y[:1000])
    assert_array_equal(auto.inducing_points_, whole.inducing_points_)


def test_progress_shows_passes_seconds_and_the_density_held_aside(capsys):
    X, y = numbers()
    regressor(verbose=5, max_iter=10).fit(X, y)
    lines = [line for line in capsys.readouterr().out.splitlines() if "passes" in line]
    assert lines
    assert all("passes over the rows" in line and " s, log density" in line for line in lines)


@pytest.mark.second
def test_no_warning_unless_the_last_sample_did_not_converge():
    X, y = numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor(max_iter=1000).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        regressor(max_iter=2).fit(X, y)


def test_inducing_points_stay_where_they_are_put():
    X, y = numbers()
    Z = X[:M].copy()
    found = regressor(inducing_init=Z, optimize_inducing=False).fit(X, y)
    assert_array_equal(found.inducing_points_, Z)


def test_a_kernel_of_the_user_and_several_targets():
    X, f, rng = table()
    Y = np.column_stack([f, -f]) + 0.2 * rng.normal(size=(N, 2))
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    model = regressor(kernel=kernel).fit(X[400:], Y[400:])
    assert model.score(X[:400], Y[:400]) > 0.8


@pytest.mark.parametrize(
    "parameters, match",
    [
        ({"solver": "adam"}, "must be one of .*'stochastic'"),
        ({"solver": None}, "solver"),
        ({"solver": Stochastic}, "solver"),
    ],
)
@pytest.mark.parametrize("make, data", [(regressor, numbers), (classifier, labels)])
def test_wrong_parameters(make, data, parameters, match):
    X, y = data()
    with pytest.raises(ValueError, match=match):
        make(**parameters).fit(X, y)


def test_noise_that_is_too_small_for_a_sample_is_named():
    X, y = numbers(200)
    rows = ArrayDataset(X, y[:, None], noise=-0.1)  # has no factor, as little noise by rounding
    basis, options = InducingBasis(X[:10]), Options()
    objective = CollapsedObjective(rows, bounds.TitsiasNew(), basis, options)
    with pytest.raises(np.linalg.LinAlgError, match="Raise alpha or the noise bounds"):
        objective.of_sample(RBF())

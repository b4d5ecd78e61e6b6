"""Refusals and warnings that no other test provokes: each has some words of its message."""

import importlib
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from chunked_arrays import Arrays
from dask import array
from inside import (
    RawRows,
    Softmax,
    choices,
    cholesky,
    contracts,
    fitted_view,
    functions,
    moments,
    optimizers,
    site_loop,
    site_objective,
    without_negative,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, WhiteKernel

from skgp_sparse import (
    BayesianGPLVM,
    SparseGPClassifier,
    SparseGPRegressor,
    gplvm,
    kernels,
    solvers,
)
from skgp_sparse.dask import DaskSparseGPRegressor, _distributed_rows
from skgp_sparse.hyperpriors import LogNormalLengthScales
from skgp_sparse.kernels import Categorical, HeteroscedasticNoise, LogScale, Sphere
from skgp_sparse.likelihoods import Probit
from skgp_sparse.posteriors import Neighbors

X = np.random.RandomState(0).uniform(-2, 2, (30, 2))
Y = np.sin(X[:, 0]) + 0.1 * np.cos(9 * X[:, 1])
LABELS, STD, NAN = np.digitize(Y, [-0.5, 0.5]), np.full(X.shape, 0.1), np.full((2, 1), np.nan)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
LEVELS, GAP = FRAME.assign(c=pd.Categorical(["u", "v", "w"] * 10)), FRAME.assign(b=np.nan)


class Plain(RBF):
    """A kernel without a rule of derivatives."""


class LazyFrame:
    """What polars has not computed."""


def fit(X=X, y=Y, rows=None, **parameters):
    """A regressor with fixed hyperparameters."""
    parameters = {"kernel": RBF() + WhiteKernel(), "optimizer": None, **parameters}
    return SparseGPRegressor(**parameters).fit(X, y, **(rows or {}))


def points(**parameters):
    return fit(n_inducing=5, **parameters)


def learned(**parameters):
    return fit(**{"optimizer": "fmin_l_bfgs_b", "max_iter": 1, **parameters})


def uncertain():
    return learned(rows={"X_std": STD}, n_inducing=5)


def robust(**parameters):
    return fit(kernel=RBF(), likelihood="student_t", **parameters)


def labelled(X=X, y=LABELS, rows=None, **parameters):
    return SparseGPClassifier(RBF(), optimizer=None, **parameters).fit(X, y, **(rows or {}))


def latent(**parameters):
    return BayesianGPLVM(**{"n_inducing": 5, "max_iter": 2} | parameters).fit(X)


def from_a_stream():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "_SMALL_TABLE", 0)
        return fit(Arrays(X, Y), None, n_inducing=5)


def collection(values=X):
    return array.from_array(values, chunks=(15, *values.shape[1:]))


def overflows():
    with contracts.arithmetic():
        return 10.0**400


def start_of_search(value, gradient):
    limits = np.array([[-1.0, 1.0]])
    return optimizers._Minimand(lambda x: (value, gradient), limits, 1.0).start(np.zeros(1))


PARAMETERS = [  # of a regressor
    ("'metric' parameter of SparseGPRegressor must be one of", {"metric": 2}),
    ("'noise' parameter of SparseGPRegressor must be one of", {"noise": "white"}),
    ("skgp_sparse.hyperpriors, or a list of these. Got [1]", {"prior": [1]}),
    ("None, an object of skgp_sparse.hyperpriors, or a list", {"prior": 1}),
    ("must be 'scaled' or a float. Got", {"prior": LogNormalLengthScales("big")}),
    ("'posterior__n_neighbors' parameter", {"posterior": Neighbors(0)}),
    ("'posterior__n_neighbors_fit' parameter", {"posterior": Neighbors(n_neighbors_fit="few")}),
]
OF_KERNELS = [
    ("is not a covariance. Add", lambda: kernels.diagonal(CompoundKernel([RBF()]), X)),
    (
        "Gradient can only be evaluated when Y is None",
        lambda: Categorical()(np.zeros((2, 1)), np.zeros((2, 1)), eval_gradient=True),
    ),
    ("has correlations for 2", lambda: Categorical(correlation=[0.1, 0.2])(np.zeros((2, 1)))),
    ("needs a number in lows and a positive one", lambda: LogScale(RBF(), [0], lows=[0.0, 1.0])(X)),
    ("must be an instance of a KernelRule", lambda: kernels.register(RBF, 1)),
    ("distance of Sphere must be 'chord'", lambda: Sphere(RBF(), distance="arc")(X)),
    (
        "of HeteroscedasticNoise has no gradient with respect to inputs",
        lambda: kernels.diagonal(RBF() + HeteroscedasticNoise(len), X)[2](
            np.ones(30), np.ones(30), True
        ),
    ),
]


class Everywhere:
    """A process whose mean is infinite."""

    def with_fewer_neighbors(self, most):
        return self

    def mean(self, X, n_jobs):
        return np.full((len(X), 1), np.inf)


OF_SCORES = [
    ("Softmax has no sites. Use", lambda: Softmax(3).tilted(*np.zeros((3, 3, 2)))),
    ("Class labels have no mean. Use", lambda: Softmax(3).response(*np.ones((2, 3, 2)))),
    ("Use SparseGPClassifier, which enc", lambda: Probit().check(np.array([2.0]), "it")),
    ("is not finite", lambda: functions.sobol_indices([Everywhere()], np.ones((9, 2)), 1)),
]
OF_FITS = [
    ("skgp_sparse.likelihoods.Binary. Got", lambda: labelled(likelihood="probits")),
    ("class in classes", lambda: SparseGPClassifier().partial_fit(X, LABELS, classes=[1])),
    ("every row of class 0 has", lambda: labelled(rows={"sample_weight": (LABELS > 0) * 1.0})),
    ("is too small or too large for", lambda: choices.of_numbers(np.array([1e-308]))),
    ("Found array with 0 sample(s)", lambda: fit(FRAME.head(0), Y[:0])),
    ("are no levels", lambda: fit(LEVELS.assign(a=[(1,), (2,)] * 15), kernel=None)),
    (
        "column 1 of X of SparseGPRegressor has 30 infinite values. Replace",
        lambda: fit(X * [1, np.inf]),
    ),
    (
        "categories and a linear mean add parts",
        lambda: fit(LEVELS, posterior="fourier", kernel=None),
    ),
    ("X_std needs a kernel", lambda: learned(rows={"X_std": STD}, kernel=Plain(), n_inducing=5)),
]
OF_PREDICTIONS = [
    ("'n_functions' parameter", lambda: fit().sample_functions(0)),
    ("'n_frequencies' parameter", lambda: fit().sample_functions(n_frequencies=0)),
    ("one sampled function, which has no length", lambda: len(fit().sample_functions(2)[0])),
    ("one sampled function. Call it", lambda: fit().sample_functions(2)[0][0]),
    ("evidence_bounds takes inputs as known", lambda: uncertain().evidence_bounds()),
    ("partial_fit takes inputs as known", lambda: uncertain().partial_fit(X, Y)),
    ("There were none in the column", lambda: fit(FRAME, kernel=None).evidence_bounds(GAP, Y)),
    (
        "return_gradient is not available",
        lambda: fit(FRAME, kernel=None).predict(GAP, return_gradient=True),
    ),
    ("impute those of X", lambda: fit(FRAME, kernel=None).predict(GAP, X_std=np.zeros(X.shape))),
    ("takes an array. Pass the inputs of", lambda: fit().predict(Arrays(X, Y))),
    ("needs training rows in memory", lambda: from_a_stream().feature_importances_),
    ("which a graph does not encode", lambda: fitted_view(fit(LEVELS, kernel=None))),
]
OF_ROWS_ELSEWHERE = [
    ("is a LazyFrame of polars. Pass X.collect()", lambda: fit(LazyFrame())),
    (
        "y has 3 rows. Pass 4, as many as X has.",
        lambda: _distributed_rows.aligned(np.zeros(3), "y", None, [], (2, 2)),
    ),
    (
        "y has 3 rows and X has 30. The k-th partitions",
        lambda: _distributed_rows.checked(0, None, X, y=Y[:3]),
    ),
    (
        "X_std is available for rows in memory",
        lambda: DaskSparseGPRegressor()._read(
            SimpleNamespace(name="it"), RawRows(collection(), X_std=1.0), None, True
        ),
    ),
]
OF_NUMBERS = [
    ("The objective is not", lambda: solvers._fit_of(RBF(), SimpleNamespace(value=np.nan), 1)),
    (
        "The sites overflow",
        lambda: optimizers.solve_fixed_point(
            lambda state: SimpleNamespace(gap=np.nan), None, None, tol=1.0, max_iter=1
        ),
    ),
    ("is too large or too small to compute with", overflows),
    ("variance is negative or no number", lambda: site_loop.check_moments(*-np.ones((3, 2)))),
    ("gradient of the objective is not fin", lambda: start_of_search(0.0, np.full(1, np.nan))),
    ("The Nyström matrix is not finite or definite", lambda: cholesky(np.full((2, 2), np.nan))),
]
CALLS = OF_KERNELS + OF_SCORES + OF_FITS + OF_PREDICTIONS + OF_ROWS_ELSEWHERE + OF_NUMBERS


@pytest.mark.parametrize("text, parameters", PARAMETERS)
def test_parameters_that_are_refused(text, parameters):
    with pytest.raises(ValueError, match=re.escape(text)):
        fit(**parameters)


@pytest.mark.parametrize("text, call", CALLS)
def test_calls_that_are_refused(text, call):
    errors = ValueError, TypeError, AttributeError, NotImplementedError, np.linalg.LinAlgError
    with pytest.raises(errors) as caught:
        call()
    assert text in f"{caught.value} {caught.value.__cause__}"


def test_a_cluster_that_lost_rows_says_so():
    with pytest.raises(RuntimeError, match="The cluster lost rows of the table and cannot compute"):
        with _distributed_rows.in_words(SimpleNamespace(status="running")):
            raise _distributed_rows._LOST[0]("rows")


@pytest.mark.parametrize("room, package", [("dask", "distributed"), ("onnx", "skl2onnx")])
def test_packages_that_are_missing(room, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(f"skgp_sparse.{room}")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=f"{room} needs .*{package}, which are not installed"):
        importlib.import_module(f"skgp_sparse.{room}")


# -- warnings ---------------------------------------------------------------------------

WARNED = [
    ("Predicted variances smaller than 0", lambda: without_negative(-np.ones(1), 1.0)),
    ("The solve for the bounds ended", lambda: points().set_params(max_iter=1).evidence_bounds()),
    ("had no time left, and the noise is constant", lambda: learned(noise="learned", time_limit=0)),
    ("The inducing points are not", lambda: learned(kernel=Plain() + WhiteKernel(), n_inducing=5)),
    (
        "leave a variance",
        lambda: learned(kernel=RBF(0.1), alpha=1e-10, n_inducing=3, max_iter=1000),
    ),
]


@pytest.mark.parametrize("text, call", WARNED)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_warnings(text, call):
    with pytest.warns(UserWarning, match=re.escape(text)):
        call()


def test_positions_that_have_not_converged(monkeypatch):
    fitted = latent()
    monkeypatch.setattr(gplvm, "_LOOSE", -1.0)
    with pytest.warns(ConvergenceWarning, match="positions of 30 rows have not converged. Their"):
        fitted.transform(X)


def on_samples():
    """A fit on parts of the rows, of a likelihood."""
    parameters = {"n_inducing": 2, "max_iter": 2, "random_state": 0, "likelihood": "student_t"}
    X = np.random.RandomState(0).uniform(-2, 2, (200, 2))
    return SparseGPRegressor(solver="stochastic", **parameters).fit(X, np.sin(3 * X[:, 0]))


@pytest.mark.second
def test_sites_of_all_rows_that_do_not_converge(monkeypatch):
    monkeypatch.setattr(site_objective, "_PASSES", 1)
    with pytest.warns(ConvergenceWarning, match="sites of all rows did not converge in 1 passes"):
        on_samples()


@pytest.mark.second
def test_a_bound_of_all_rows_that_is_not_finite(monkeypatch):
    conclude = site_objective.SiteObjective.conclude_from

    def without_total(*args):
        monkeypatch.setattr(site_objective.Variational, "total", lambda *args: np.nan)
        return conclude(*args)

    monkeypatch.setattr(site_objective.SiteObjective, "conclude_from", without_total)
    with pytest.raises(np.linalg.LinAlgError, match="The bound of all rows is not finite. Check"):
        on_samples()


SITES = [
    ("max_iter_predict", "the best state is used. Raise max_iter_predict (now 3), or lower the up"),
    ("", "the best state is used. Lower the upper bound of the kernel's variance"),
]


@pytest.mark.parametrize("parameter, text", SITES)
def test_sites_that_do_not_converge(parameter, text):
    inner = SimpleNamespace(parameter=parameter, max_iter=3)
    solution = SimpleNamespace(n_iter=3, step=SimpleNamespace(gap=1.0))
    with pytest.warns(ConvergenceWarning, match=re.escape(text)):
        site_objective.SiteObjective._warn_of(SimpleNamespace(inner=inner), solution)

"""Files of fitted estimators name classes by paths that stay: `skgp_sparse.fitted.PATHS`."""

import importlib
import io
import pickle

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgp_sparse import BayesianGPLVM, SparseGPClassifier, SparseGPRegressor, fitted
from skgp_sparse.families import sites
from skgp_sparse.posteriors import FourierFeatures, InducingPoints

PARTS = """
    CollapsedObjective ColumnTypes DecoupledPosterior DistinctRows ExactObjective
    ExpectationPropagation Fit FourierBasis Groups Harmonics InducingBasis InducingFeatures
    InducingPosterior Inner InnerState Jitter JoinedRows Knowledge LabelView LatentModel LeaveOneOut
    LocalSiteObjective Moments NeighborsObjective NeighborsPosterior Normals Options Part
    PerRow Posterior Posteriors ProcessInMetric Reservoir ResponseView Rows
    RowsPosterior Run RunningSums Scores SiteObjective SiteRows Softmax Starts StreamState Sums
    TableRows TargetView TightPosterior Units Variational Watch join_rows
"""
OF_USERS = {
    "kernels": "Categorical Columns LogFactor LogScale Missing OrthogonalAdditive Sphere "
    "VaryingNoise",
    "bounds": "Artemev DTC FITC PEP Titsias TitsiasNew",
    "likelihoods": "Gamma Logit NegativeBinomial Poisson Probit StudentT",
    "posteriors": "AllRows Candidate Exact FourierFeatures InducingPoints Neighbors",
    "solvers": "LBFGS Minibatches Stochastic",
    "classification": "SparseGPClassifier",
    "gplvm": "BayesianGPLVM",
    "dask": "DaskSparseGPClassifier DaskSparseGPRegressor",
    "regression": "SparseGPRegressor",
}
RNG = np.random.RandomState(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
LABELS, COUNTS = np.digitize(Y, [-0.5, 0.5]), np.exp(Y).round() + 1


def regressor(**parameters):
    return SparseGPRegressor(**{"n_inducing": 10, "optimizer": None} | parameters)


def classifier(**parameters):
    return SparseGPClassifier(**{"n_inducing": 10, "optimizer": None} | parameters)


FITS = [
    regressor().fit(X, Y),
    regressor(n_inducing="auto").fit(X, np.column_stack([Y, Y**2])),
    regressor(posterior="rows").fit(X, Y),
    regressor(posterior=InducingPoints(n_mean=20), kernel=RBF() + WhiteKernel()).fit(X, Y),
    regressor(posterior=InducingPoints(tight_variance=True)).fit(X, Y),
    regressor(posterior=FourierFeatures(10), n_inducing="auto").fit(X, Y),
    *(regressor(likelihood=one).fit(X, COUNTS) for one in ("negative_binomial", "student_t")),
    *(regressor(likelihood=one, n_inducing="auto").fit(X, COUNTS) for one in ("poisson", "gamma")),
    *(classifier(multi_class=one).fit(X, LABELS) for one in ("softmax", "one_vs_one")),
    *(classifier(n_inducing=99, bound=one).fit(X, LABELS) for one in ("vfe", "gfitc-ep", "pep")),
    classifier(n_inducing=99, multi_class="softmax", likelihood="probit").fit(X, LABELS),
    classifier(likelihood="logit").fit(X, LABELS),
    BayesianGPLVM(n_inducing=5, n_restarts_optimizer=0, tol=1.0).fit(X),
]


class Reader(pickle.Unpickler):
    """Collects the paths that a pickle names."""

    def __init__(self, model):
        super().__init__(io.BytesIO(pickle.dumps(model)))
        self.paths = set()
        self.load()

    def find_class(self, module, name):
        self.paths.add(f"{module}.{name}")
        return super().find_class(module, name)


def test_paths_stay():
    """Files name them: a path may be added here, but none may leave or change."""
    rooms = {"fitted": PARTS, **OF_USERS}
    expected = {f"skgp_sparse.{room}.{one}" for room in rooms for one in rooms[room].split()}
    assert {path for path in fitted.PATHS if path.startswith("skgp_sparse")} == expected


@pytest.mark.parametrize("path", fitted.PATHS)
def test_paths_lead_to_what_is_named_so(path):
    module, name = path.rsplit(".", 1)
    part = getattr(importlib.import_module(module), name)
    assert (part.__module__, part.__name__) == (module, name)


@pytest.mark.parametrize("model", FITS, ids=str)
def test_pickles_name_these_paths(model):
    assert {one for one in Reader(model).paths if not one.startswith("numpy.")} <= set(fitted.PATHS)


@pytest.mark.parametrize("model", [regressor(), regressor(likelihood="poisson"), classifier()])
def test_pickles_of_streams_name_these_paths(model, monkeypatch):
    monkeypatch.setattr(sites, "MOST_TOGETHER", 80)
    monkeypatch.setattr(sites, "WINDOW", 20)
    for _ in range(3):
        y = LABELS if isinstance(model, SparseGPClassifier) else COUNTS
        model.partial_fit(X, y, classes=[0, 1, 2])
    ours = {one for one in Reader(model).paths if one.startswith("skgp_sparse")}
    assert "skgp_sparse.fitted.StreamState" in ours and ours <= set(fitted.PATHS)


@pytest.mark.parametrize("model", FITS, ids=str)
def test_skops_trusts_these_paths(model):
    skops = pytest.importorskip("skops.io")
    again = skops.loads(skops.dumps(model), trusted=fitted.PATHS)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert hasattr(again, "X_train_") == hasattr(model, "X_train_")

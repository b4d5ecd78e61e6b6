"""The parts of fitted estimators, by paths that stay the same from version to version.

A file that holds a fitted estimator, made by pickle, joblib, skops or MLflow, names the classes of
its parts. Wherever these are defined, their path is ``skgp_sparse.fitted``; likelihoods,
posteriors, bounds and solvers, which users make themselves, have the path by which users import
them. `PATHS` lists all of them, scikit-learn's kernels included, for loaders that ask whom to
trust: ``skops.io.load(file, trusted=PATHS)``. Kernels, bounds and likelihoods of your own are not
among them.
"""

from sklearn.gaussian_process import kernels as sklearn_kernels

from skgp_sparse import bounds, kernels, likelihoods, posteriors, solvers
from skgp_sparse._engine.decoupled import DecoupledPosterior
from skgp_sparse._engine.exact import Groups
from skgp_sparse._engine.exact_sites import join_rows
from skgp_sparse._engine.fourier_basis import FourierBasis, Harmonics
from skgp_sparse._engine.inducing_basis import InducingBasis, InducingFeatures
from skgp_sparse._engine.left_out import LeaveOneOut
from skgp_sparse._engine.local_sites import SiteRows
from skgp_sparse._engine.metric import ProcessInMetric
from skgp_sparse._engine.moments import Moments
from skgp_sparse._engine.nearest import DistinctRows
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.normal_inputs import InducingPosterior, Normals
from skgp_sparse._engine.per_row import PerRow
from skgp_sparse._engine.posterior import Posterior, Posteriors
from skgp_sparse._engine.problem import Options
from skgp_sparse._engine.rows_posterior import RowsPosterior
from skgp_sparse._engine.running_sums import RunningSums
from skgp_sparse._engine.table import Rows
from skgp_sparse._engine.tight_posterior import TightPosterior
from skgp_sparse._engine.visited_rows import JoinedRows, TableRows
from skgp_sparse._engine.visits import Sums
from skgp_sparse._ground.linalg import Jitter
from skgp_sparse._progress import Run
from skgp_sparse.classification import SparseGPClassifier
from skgp_sparse.families.intervals import Scores
from skgp_sparse.families.streams import StreamState, Watch
from skgp_sparse.families.views import LabelView, ResponseView, TargetView
from skgp_sparse.gplvm import BayesianGPLVM
from skgp_sparse.inference.latent_queries import LatentModel
from skgp_sparse.inference.local_site_objective import LocalSiteObjective
from skgp_sparse.inference.methods import ExpectationPropagation, Variational
from skgp_sparse.inference.neighbors_objective import NeighborsObjective
from skgp_sparse.inference.objectives import CollapsedObjective, ExactObjective
from skgp_sparse.inference.reservoir import Reservoir
from skgp_sparse.inference.site_loop import Inner, InnerState
from skgp_sparse.inference.site_objective import SiteObjective, Starts
from skgp_sparse.likelihoods._softmax import Softmax
from skgp_sparse.posteriors._moves import Knowledge
from skgp_sparse.regression import SparseGPRegressor
from skgp_sparse.rows.part import Part, Units
from skgp_sparse.rows.types import ColumnTypes
from skgp_sparse.solvers import Fit

_NEIGHBORS = (DistinctRows, JoinedRows, LeaveOneOut, LocalSiteObjective, NeighborsObjective)
_NEIGHBORS += (NeighborsPosterior, ProcessInMetric, SiteRows, TableRows)
_LATENT = (InducingPosterior, LatentModel, Normals)
_VIEWS = (LabelView, ResponseView, Run, Scores, TargetView)
_PROCESSES = (DecoupledPosterior, InducingFeatures, Posterior, Posteriors, RowsPosterior)
_PROCESSES += (TightPosterior,)
_OBJECTIVES = (CollapsedObjective, ExactObjective, ExpectationPropagation, Fit, Groups)
_OBJECTIVES += (
    InducingBasis,
    Inner,
    InnerState,
    Jitter,
    Options,
    PerRow,
    Rows,
    SiteObjective,
    Starts,
)
_OBJECTIVES += (FourierBasis, Harmonics, Softmax, Units, Variational, join_rows)
_OBJECTIVES += (ColumnTypes,)
_STREAMS = (Knowledge, Moments, Part, Reservoir, RunningSums, StreamState, Sums, Watch)
_PARTS = _LATENT + _VIEWS + _PROCESSES + _NEIGHBORS + _OBJECTIVES + _STREAMS
_OF_USERS = {
    bounds: "Titsias TitsiasNew Artemev FITC PEP DTC",
    likelihoods: "Gamma Logit NegativeBinomial Poisson Probit StudentT",
    posteriors: "AllRows Candidate Exact FourierFeatures InducingPoints Neighbors",
    solvers: "LBFGS Minibatches Stochastic",
    kernels: "Categorical Columns LogFactor LogScale Missing OrthogonalAdditive Sphere "
    "VaryingNoise",
    sklearn_kernels: "CompoundKernel ConstantKernel DotProduct Exponentiation ExpSineSquared "
    "Matern PairwiseKernel Product RBF RationalQuadratic Sum WhiteKernel",
}

for _part in _PARTS:
    _part.__module__ = __name__
for _room, _names in (
    (kernels, _OF_USERS[kernels].split()),
    (likelihoods, likelihoods.__all__),
    (posteriors, posteriors.__all__),
):
    for _name in _names:
        _part = getattr(_room, _name)
        _part.__module__ = _room.__name__
        if "__firstlineno__" in vars(_part):  # Python 3.13: a line of the file that it left
            del _part.__firstlineno__

PATHS = [
    f"{one.__module__}.{one.__name__}"
    for one in (BayesianGPLVM, SparseGPClassifier, SparseGPRegressor)
]
PATHS += [f"{__name__}.{part.__name__}" for part in _PARTS]
PATHS += [f"{room.__name__}.{name}" for room, names in _OF_USERS.items() for name in names.split()]
PATHS += ["skgp_sparse.dask.DaskSparseGPClassifier", "skgp_sparse.dask.DaskSparseGPRegressor"]
PATHS += ["functools.partial"]

"""Private names of the package that tests use, so that a file which moves changes this one only."""

from skgp_sparse import _estimator
from skgp_sparse._estimator import fitted_view
from skgp_sparse.choices import choices, plan
from skgp_sparse.choices.choices import BOUNDS, StandardisedColumns
from skgp_sparse.choices.plan import Facts, UncertainInputs
from skgp_sparse.data import arrays, dataset, moments
from skgp_sparse.data import classes as class_problems
from skgp_sparse.data.arrays import ArrayDataset, DistinctInputs, PerRow, by_row
from skgp_sparse.data.checks import RawRows
from skgp_sparse.data.classes import Task
from skgp_sparse.data.columns import ColumnTable, types_of
from skgp_sparse.data.dataset import Batch, Dataset
from skgp_sparse.data.door import ChunkedDataset, OpenSource
from skgp_sparse.data.moments import TargetScaler, spread_of_the_shortest_quarter
from skgp_sparse.engine import (
    basis,
    collapsed,
    collapsed_sites,
    exact,
    functions,
    iterative,
    normal_inputs,
    posterior,
)
from skgp_sparse.engine import neighbors as neighbors_of_engine
from skgp_sparse.engine.basis import (
    Basis,
    Features,
    FourierBasis,
    InducingBasis,
    Options,
    Problem,
    sobol_draws,
)
from skgp_sparse.engine.collapsed import Sums
from skgp_sparse.engine.collapsed_sites import Cores
from skgp_sparse.engine.exact import correlation_length, lag_correlation, profile_evidence
from skgp_sparse.engine.feature_posterior import FeaturePosterior, Normals
from skgp_sparse.engine.functions import sobol_indices
from skgp_sparse.engine.iterative import IterativePosterior, preconditioner, products, solve
from skgp_sparse.engine.neighbors import (
    LeaveOneOut,
    NearestRows,
    NeighborsPosterior,
    SiteRows,
    distinct_rows,
)
from skgp_sparse.engine.normal_inputs import LatentRows, patterns_of
from skgp_sparse.engine.posterior import (
    GRADIENTS,
    IndependentPosteriors,
    Posterior,
    PosteriorAround,
    Prior,
    pivoted_root,
    without_negative,
)
from skgp_sparse.engine.posteriors_around import (
    CombinationWeights,
    CombinedPosterior,
    MeanWeights,
    PosteriorWithMean,
    PosteriorWithMissingValues,
    normal_mixture,
    spread_values,
    tightened,
)
from skgp_sparse.explain import weighted_means
from skgp_sparse.explain.leave_one_out import LeftOutRows, left_out, some_rows, width_of
from skgp_sparse.explain.views import TargetView
from skgp_sparse.explain.weighted_means import Calibration, WeightedMean, calibrated, centred_logs
from skgp_sparse.ground import integrals, linalg, parallel
from skgp_sparse.ground.integrals import log_moments
from skgp_sparse.ground.linalg import (
    Jitter,
    back_substituted,
    cholesky,
    jittered_cholesky,
    whitened,
)
from skgp_sparse.ground.parallel import (
    Deadline,
    for_each,
    ordered_map,
    resolve_n_jobs,
    single_threaded_blas,
)
from skgp_sparse.ground.validation import IterationReporter, as_text, check_number
from skgp_sparse.inference import (
    contracts,
    local_site_objective,
    optimizers,
    site_loop,
    site_objective,
    starts,
    stochastic,
)
from skgp_sparse.inference.contracts import Settings, Solver, VectorFunction, if_possible
from skgp_sparse.inference.local_site_objective import (
    LocalSiteObjective,
    MetricPrior,
    NeighborsObjective,
)
from skgp_sparse.inference.objectives import CollapsedObjective, GaussianObjectives, LatentObjective
from skgp_sparse.inference.optimizers import End, Step, maximise, solve_fixed_point
from skgp_sparse.inference.site_loop import Inner, NextSites
from skgp_sparse.inference.site_objective import (
    ExpectationPropagation,
    SiteObjective,
    SiteObjectives,
    Surrogate,
    Variational,
)
from skgp_sparse.inference.starts import restarts
from skgp_sparse.inference.stochastic import Reservoir, Samples
from skgp_sparse.kernels import _differentiable, _leaves, _nodes, _sklearn_kernels
from skgp_sparse.kernels._expectations import gauss_hermite
from skgp_sparse.kernels._sklearn_kernels import RationalQuadraticRule
from skgp_sparse.likelihoods._base import Parametric, best_constant
from skgp_sparse.likelihoods._labels import EachClass, Softmax, clipped_moments, log_probability
from skgp_sparse.methods import exact as methods_exact
from skgp_sparse.methods import neighbors as neighbors_of_methods
from skgp_sparse.methods import small_fits
from skgp_sparse.methods.contract import (
    Job,
    Points,
    Problems,
    Request,
    ValidationScore,
    ValidationSet,
)
from skgp_sparse.methods.exact import Exact
from skgp_sparse.methods.neighbors import NearestNeighborSearch, full
from skgp_sparse.methods.selection import ExactRival, PosteriorSelection, RivalOfPoints
from skgp_sparse.methods.small_fits import on_subsets, with_likeliest_noise, within_reach
from skgp_sparse.steps import fit_warnings, heteroscedastic_noise, initial_values
from skgp_sparse.steps import mean as mean_functions
from skgp_sparse.steps.fit_warnings import warn_at_bounds
from skgp_sparse.targets import model, streams
from skgp_sparse.targets.model import ObservationModel
from skgp_sparse.testing._posteriors import check_predictions

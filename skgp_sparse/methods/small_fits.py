"""Where the search for hyperparameters begins: at those of small exact fits, or of an earlier fit.

`on_subset` and `on_subsets` take a `Job` and return the job that begins at the hyperparameters of
small exact fits. `best_start` chooses between them and an earlier fit. (Steps of the plan change
where a job begins before a method sees it: see `steps/initial_values.py`.)
"""

from itertools import chain
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.ground.validation import Kernel, Rng
from skgp_sparse.hyperpriors import ThetaPrior
from skgp_sparse.inference import contracts
from skgp_sparse.inference.contracts import Objective, Settings, VectorFunction, value_or_minus_inf
from skgp_sparse.inference.optimizers import climb
from skgp_sparse.inference.starts import fit_exact
from skgp_sparse.methods.contract import Job
from skgp_sparse.solvers import LBFGS, Stochastic

_ITERATIONS, _COARSER = 200, 10.0  # of `on_subset`; its tolerance, in units of that of the job
_SUBSETS = (1, 100), (2, 40)  # rows, in units of those of a start, and iterations at most
_WORTH_A_SUBSET = 1.3  # rows, in units of those of a subset, from which it is fitted first
_TOL = 2e-3  # nats per row
_LONGEST_LENGTH_SCALE = 5.0  # typical distances between rows
_NEAR, _MORE_NOISE = 0.1, (1.0, 3.0, 6.0)  # in logarithms: to a lower bound, and factors of noise
_O = TypeVar("_O", bound=Objective)


def on_subset(job: Job, random_state: Rng) -> Job:
    """The job with objectives and kernel of a small exact fit, where restarts happen."""
    if job.is_started:
        return job
    small = job.with_settings(max_iter=_ITERATIONS, tol=_COARSER * job.settings.tol, progress=None)
    function, maximum = _fit_to_some(small, job.settings.start_rows, random_state)
    objective, learned = function.at(maximum.x)
    objectives = job.objectives.informed_by(objective)
    job = job._replace(objectives=objectives, kernel=within_reach(learned, job.kernel, job.rows))
    return job.with_settings(n_restarts=0, find_periods=False)._replace(is_started=True)


def on_subsets(job: Job, random_state: Rng) -> tuple[Job, object]:
    """The job with the hyperparameters of exact fits to random subsets, and the curvature there.

    Each fit goes on from the one before, and hands on its curvature. Of few rows the noise may
    seem to be next to nothing, and more rows would end in another optimum from there: where more
    noise is likelier with more rows, it is taken, and the curvature is forgotten. Where the noise
    ends at its lower bound, one more fit, to as many other rows, goes on within wider bounds.
    """
    few, curvature = job.with_settings(tol=max(_TOL, job.settings.tol), progress=None), None
    for starts, most in _SUBSETS:
        rows = starts * job.settings.start_rows
        if curvature is not None and len(job.rows) < _WORTH_A_SUBSET * rows:
            break
        size, few = rows, few.with_settings(max_iter=most)
        few, curvature = _gone_on(few, size, random_state, curvature)
    wide = few._replace(kernel=with_next_to_no_noise(few.kernel, job))
    if has_least_noise(few.kernel) and not has_least_noise(wide.kernel):
        few, curvature = _gone_on(wide, size, random_state, curvature)
    job = job._replace(kernel=few.kernel, is_started=True)
    return job.with_settings(n_restarts=0, find_periods=False), curvature


def _gone_on(job: Job, size: int, random_state: Rng, curvature: object) -> tuple[Job, Any]:
    """The job with the hyperparameters of a fit to random rows, and the curvature there."""
    function, maximum = _fit_to_some(job, size, random_state, curvature)
    return job._replace(kernel=function.at(maximum.x)[1]), maximum.curvature


def with_next_to_no_noise(kernel: Kernel, job: Job) -> Kernel:
    """The kernel within the bounds of small fits: as little noise for many rows as for few."""
    return (job.thorough.kernel if job.thorough else kernel).clone_with_theta(kernel.theta)


def as_variable(kernel: Kernel) -> Kernel:
    """A default kernel whose variance has to stay at least half of what it is."""
    return with_variance(kernel, least=0.5 * variance_of(kernel))


def variance_of(kernel: Kernel) -> float:
    """The variance of a default kernel."""
    return next(v for key, v in kernel.get_params().items() if key.endswith("constant_value"))


def with_variance(kernel: Kernel, least: float = 0.0, most: float = np.inf) -> Kernel:
    """A default kernel whose variance has to stay between two numbers, too."""
    parameters = kernel.get_params()
    name = next(key for key in parameters if key.endswith("constant_value_bounds"))
    low, high = parameters[name]
    return clone(kernel).set_params(**{name: (max(low, least), min(high, most))})


def has_least_noise(kernel: Kernel) -> bool:
    """Whether the noise is learned, and all of it at its lower bound."""
    places = [*chain(*kernels.positions_of(kernel, "noise_level"))]
    return bool(places) and bool(np.all(kernel.theta[places] < kernel.bounds[places, 0] + _NEAR))


def best_start(objective: _O, kernel: Kernel, warm: _O, job: Job) -> tuple[_O, Kernel]:
    """The objective and the kernel of the cold or of the warm start, where it is higher."""
    cold, prior = (objective, kernel), job.settings.prior
    if job.before is None or not job.settings.solver.moves:
        return cold
    starts = (warm, job.before[0]), cold
    return max(starts, key=lambda pair: value_or_minus_inf(pair[0], pair[1], prior=prior))


def of_few_rows(solver: contracts.Solver) -> contracts.Solver:
    """The solver for a sample of bounded size, where parts of it would save next to nothing."""
    return LBFGS() if isinstance(solver, Stochastic) else solver


def _fit_to_some(job: Job, size: int, random_state: Rng, curvature: object = None) -> Any:
    """The `VectorFunction` and the `Maximum` of a fit to random rows, from a curvature, if any."""
    rows = job.rows.sampled(job.objectives.sample(job.rows, size, random_state))
    objective = job.objectives.exact(rows, job.settings.options, rough=True)
    if curvature is not None:
        return goes_on(objective, job.kernel, job.settings, curvature)
    return fit_exact(contracts.Start(objective, job.kernel, job.settings, random_state))


def goes_on(objective: Objective, kernel: Kernel, settings: Settings, curvature: object) -> Any:
    """The `VectorFunction` and the `Maximum` of a search that goes on from one of fewer rows."""
    likelier = with_likeliest_noise(objective, kernel, settings.prior)
    function = VectorFunction(objective, likelier, prior=settings.prior)
    return function, climb(function, settings, curvature=curvature if likelier is kernel else None)


def with_likeliest_noise(objective: Objective, kernel: Kernel, prior: ThetaPrior) -> Kernel:
    """The kernel with the likeliest of its own noise and of three amounts of more noise."""
    if not kernels.positions_of(kernel, "noise_level"):
        return kernel
    found = [kernel, *(contracts.with_more_noise(kernel, more) for more in _MORE_NOISE)]
    return max(found, key=lambda other: value_or_minus_inf(objective, other, prior=prior))


def within_reach(learned: Kernel, kernel: Kernel, rows: Dataset) -> Kernel:
    """The learned kernel, its length scales at most a few typical distances or the other's."""
    theta, scale = learned.theta, rows.scale()
    for positions, columns in kernels.length_scale_places(kernel, rows.n_features):
        spread = scale[columns] if len(positions) > 1 else scale[columns].max()
        longest = np.log(_LONGEST_LENGTH_SCALE * spread * np.sqrt(len(columns)))
        longest = np.maximum(longest, kernel.theta[positions])
        theta[positions] = np.minimum(theta[positions], longest)
    return learned.clone_with_theta(theta)

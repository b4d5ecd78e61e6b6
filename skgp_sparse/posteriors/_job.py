"""Job of a fit, and the small exact fit with which every fit begins.

Rows that arrive later: when theta and Z move, and how.

A move is a fit of few iterations on a sample of the rows that came, from where the last one ended.
Rows that come without a move cost one visit. When it pays to move is a question to the stream
(`skgp_sparse.observations.streams`).

As long as there are no more distinct rows than inducing points are wanted, all of them are inducing
points. A move is then a fit from the start, which costs little.

Hyperparameters of exact fits to more and more rows, each of which goes on from the one before.

A fit hands on its curvature, so that the next one needs few iterations. Of few rows the noise may
seem to be next to nothing, and more rows would end in another optimum from there: where more noise
is likelier with more rows, it is taken, and the curvature is forgotten.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse._engine.dataset import Dataset
from skgp_sparse.exceptions import collected, warn
from skgp_sparse.hyperpriors import NO_PRIOR, joined
from skgp_sparse.inference.contracts import ObjectiveFactory, Settings, Solver, ThoroughSearch
from skgp_sparse.inference.optimizers import climb
from skgp_sparse.inference.parameter_vectors import VectorFunction, raise_noise, value_or_minus_inf
from skgp_sparse.inference.starts import fit_exact
from skgp_sparse.posteriors._scales import at_likely_scale
from skgp_sparse.solvers import LBFGS, KeepParameters, Stochastic

_ITERATIONS = 200  # of the small exact fit
_LONGEST_LENGTH_SCALE = 5.0  # typical distances between rows
_COARSER = 10.0  # the tolerance of a start, in units of that of the fit


class Points(NamedTuple):
    """Which inducing points are wanted."""

    size: int
    initialise: Callable  # (rows, kernel, random_state) -> Z
    is_auto: bool = False  # whether nobody asked for this size
    are_given: bool = False  # Z comes from the user

    def of_size(self, size):
        """`Points` of another number, where nobody asked for one."""
        return self._replace(size=size, initialise=partial(self.initialise, n_inducing=size))


class Job(NamedTuple):
    """Job of a fit: plain data, which may travel to another thread or process."""

    name: str  # for messages; "" if there is no other job
    rows: Dataset  # with the units of its targets
    kernel: Kernel  # to start with
    model: ObjectiveFactory
    posterior_method: Any  # a `PosteriorMethod`
    points: Points
    settings: Settings
    before: tuple | None = None  # (kernel, Z) of an earlier fit, to go on from
    is_complete: bool = True  # whether there is something to learn
    thorough: ThoroughSearch | None = None  # for settings, should an evaluation be cheap
    is_free: bool = False  # whether the kernel is the default one, of any smoothness
    is_alone: bool = True  # whether no mean may be beside the process
    tries_logarithms: bool = False  # of skewed columns
    plan: str = ""  # which method this is, and why, in words
    metric: str | int = "auto"  # how columns may be mixed
    priors: tuple = ()  # of hyperparameters, whose form for a kernel is in the settings
    is_started: bool = False  # whether hyperparameters are those of a small fit
    spreads: Any = None  # (d,) of the columns, in which length scales and their priors are measured

    def are_few(self, most):
        """Whether there are so few distinct rows."""
        return bool(most) and self.rows.distinct(most=most) is not None

    def within(self, share):
        """A copy of the job with one of so many shares of the time that is left."""
        return self.with_settings(deadline=self.settings.deadline.share(share))

    def with_priors(self, priors):
        """A copy of the job with priors of its kernel's hyperparameters, in units of its rows."""
        of_theta = joined(priors, self.kernel, self.spreads) if priors else NO_PRIOR
        return self._replace(priors=tuple(priors)).with_settings(prior=of_theta)

    def with_settings(self, **changes):
        """A copy of the job with other settings."""
        return self._replace(settings=self.settings._replace(**changes))


def start_on_subset(job, random_state):
    """The job with model and hyperparameters of a small exact fit, where restarts happen."""
    if job.is_started:
        return job
    model, kernel = fit_subset(job.rows, job.kernel, job.model, job.settings, random_state)
    job = job._replace(model=model, kernel=kernel, is_started=True)
    return job.with_settings(n_restarts=0, find_periods=False)


def best_start(objective, kernel, warm, job):
    """The objective and the kernel of the cold or of the warm start, where it is higher.

    `warm` is the objective at the inducing points of an earlier fit. It may be flat where that fit
    ended, if the rows have other units now.
    """
    cold = objective, kernel
    if job.before is None or not job.settings.solver.moves:
        return cold
    prior = job.settings.prior
    return max(
        (warm, job.before[0]),
        cold,
        key=lambda start: value_or_minus_inf(*start, False, prior=prior),
    )


def fit_subset(rows, kernel, model, settings, random_state):
    """The model and the kernel with the hyperparameters of an exact fit to some random rows."""
    few = rows.sampled(model.sample(rows, settings.start_rows, random_state))
    objective = model.exact(few, settings.options, rough=True)
    settings = settings._replace(max_iter=_ITERATIONS, tol=_COARSER * settings.tol, progress=None)
    function, maximum = fit_exact(objective, kernel, settings, random_state)
    objective, learned = function.at(maximum.x)
    return model.informed_by(objective), within_reach(learned, kernel, rows)


def within_reach(learned, kernel, rows):
    """A kernel that was learned from another one, ready for a fit to go on from it.

    Length scales that ran away, as those of irrelevant inputs do, are brought back to where the
    objective has a slope: at most a few typical distances, or the other kernel's value.
    """
    theta, scale = learned.theta, rows.scale()
    for positions, columns in kernels.length_scale_places(kernel, rows.n_features):
        spread = scale[columns] if len(positions) > 1 else scale[columns].max()
        longest = np.log(_LONGEST_LENGTH_SCALE * spread * np.sqrt(len(columns)))
        longest = np.maximum(longest, kernel.theta[positions])
        theta[positions] = np.minimum(theta[positions], longest)
    return learned.clone_with_theta(theta)


_ITERATIONS_OF_A_MOVE = 50  # of a move
_ROWS_PER_POINT = 400  # that a move looks at, per inducing point ...
_FEWEST_ROWS = 5000  # ... if there are not fewer


class Action(Enum):
    """Action that follows the arrival of rows."""

    START = "fit from the start"
    GROW = "all rows are inducing points, or inducing points are chosen; theta stays"
    MOVE = "theta and Z move"
    HOLD = "theta and Z stay"


class WarmStart(NamedTuple):
    """Values of theta and Z that are known so far."""

    kernel: object
    Z: np.ndarray | None  # None: of another size than is wanted
    likelihood: object = None  # with its parameters; None: Gaussian noise
    few: bool = False  # every row is an inducing point


def warm_start_of(fit, job):
    """The `WarmStart` of a fit to the rows of a job, as far as it is what is asked for now."""
    Z = fit.objective.inducing_points
    usable = Z is not None and (job.points.are_given or len(Z) <= job.points.size)
    return WarmStart(fit.kernel, Z if usable else None, _likelihood_of(fit), are_few(job))


def next_action(job, warm_start, due):
    """The `Action` that the rows of a job ask for. `due`: theta and Z should move."""
    moves = job.settings.solver.moves
    if warm_start is None:
        return Action.START
    if warm_start.few:
        return Action.START if moves and (due or not are_few(job)) else Action.GROW
    if moves and (due or warm_start.Z is None):
        return Action.MOVE
    return Action.GROW if warm_start.Z is None else Action.HOLD


def take(action, job, warm_start, random_state, fit):
    """Take an `Action` by ``fit(job, random_state)``; returns the `Fit` and the `WarmStart`."""
    if action in (Action.START, Action.MOVE):
        job = at_likely_scale(job)
    points, settings = job.points, job.settings
    Z = None if action in (Action.START, Action.GROW) else warm_start.Z

    def choose(rows, kernel, random_state):
        """All distinct rows where they are few, or inducing points chosen from more of them."""
        distinct = None if points.are_given else rows.distinct(most=points.size)
        return points.initialise(rows, kernel, random_state) if distinct is None else distinct

    solver = settings.solver if action is Action.START else KeepParameters()
    if action is Action.MOVE:
        free = settings.move_basis and not points.are_given and settings.solver.starts_on_subset
        solver = Move(settings.solver, job.kernel, choose if free else None)
    initialise = choose if Z is None else lambda rows, kernel, random_state: Z
    begun = job._replace(
        kernel=job.kernel if action is Action.START else warm_start.kernel,
        points=points._replace(initialise=initialise, is_auto=False),  # others may need more
    )
    fit = fit(begun.with_settings(solver=solver), random_state)
    if action is Action.HOLD:
        return fit, warm_start._replace(likelihood=_likelihood_of(fit))
    Z = fit.objective.inducing_points
    return fit, WarmStart(fit.kernel, Z, _likelihood_of(fit), are_few(job))


class Move(Solver):
    """Moves theta and Z a little, from where they are or, if that is better, from a new start.

    Parameters
    ----------
    solver : Solver
    initial : sklearn kernel
        With which a new start begins.
    fresh : callable or None
        ``(rows, kernel, random_state) -> Z``, where inducing points may be chosen anew.
    """

    def __init__(self, solver, initial, fresh):
        self.solver, self.initial, self.fresh = solver, initial, fresh

    def solve(self, objective, kernel, settings, random_state, model=None):
        """A `Fit` of all rows where few iterations on some of them ended."""
        rows, starts = objective.rows, [(objective, kernel)]
        if self.fresh is not None:
            starts += self._fresh_starts(objective, kernel, model, settings, random_state)
        objective, kernel = max(
            starts, key=lambda start: value_or_minus_inf(*start, False, prior=settings.prior)
        )
        size = max(_FEWEST_ROWS, _ROWS_PER_POINT * len(objective.inducing_points))
        part = objective.on(rows.sampled(model.sample(rows, size, random_state)))
        most = min(settings.max_iter, _ITERATIONS_OF_A_MOVE)
        settings = settings._replace(max_iter=most, n_restarts=0, find_periods=False)
        with collected() as warnings:
            fit = of_few_rows(self.solver).solve(part, kernel, settings, random_state, model)
        for message, category in warnings:
            if not issubclass(category, ConvergenceWarning):  # a move need not end at an optimum
                warn(message, category)
        blocks = fit.objective.blocks(fit.kernel, move_basis=True)
        values = {block.name: block.value for block in blocks if block.name != "kernel"}
        of_all = KeepParameters().solve(objective.at(**values), fit.kernel, settings, random_state)
        return of_all._replace(n_iter=fit.n_iter)

    def _fresh_starts(self, objective, kernel, model, settings, random_state):
        """The objective at other inducing points, and after a small exact fit, as a fit begins."""
        rows = objective.rows
        chosen = objective.at(basis=self.fresh(rows, kernel, random_state))
        yield chosen, raise_noise(kernel, chosen)
        settings = settings._replace(n_restarts=0)
        model, kernel = fit_subset(rows, self.initial, model, settings, random_state)
        Z = self.fresh(rows, kernel, random_state)
        begun = model.sparse(rows, Z, settings.options)
        yield begun, raise_noise(kernel, begun)


def of_few_rows(solver):
    """The solver for a sample of bounded size, where parts of it would save next to nothing."""
    return LBFGS() if isinstance(solver, Stochastic) else solver


def are_few(job):
    """Whether there are no more distinct rows than inducing points are wanted."""
    return not job.points.are_given and job.are_few(job.points.size)


def _likelihood_of(fit):
    return getattr(fit.objective, "likelihood", None)


_SUBSETS = (1, 100), (2, 40)  # rows, in units of those of a start, and iterations at most
_WORTH_A_SUBSET = 1.3  # rows, in units of those of a subset, from which it is fitted first
_TOL = 2e-3  # nats per row
_MORE_NOISE = 1.0, 3.0, 6.0  # logarithms of factors


def started_on_subsets(job, random_state):
    """The `Job` with the hyperparameters of exact fits to random subsets, and the curvature there.

    Parameters
    ----------
    job : Job
        Whose noise is Gaussian.
    random_state : RandomState

    Returns
    -------
    job : Job
    curvature : object
        For `maximise`.
    """
    kernel, curvature, settings = job.kernel, None, job.settings
    settings = settings._replace(tol=max(_TOL, settings.tol), progress=None, thorough=None)
    n = len(job.rows)
    for starts, most in _SUBSETS:
        size = starts * settings.start_rows
        if curvature is not None and n < _WORTH_A_SUBSET * size:
            break
        subset = job.rows.sampled(job.model.sample(job.rows, size, random_state))
        objective = job.model.exact(subset, settings.options, rough=True)
        settings = settings._replace(max_iter=most)
        if curvature is None:
            function, maximum = fit_exact(objective, kernel, settings, random_state)
        else:
            function, maximum = goes_on(objective, kernel, settings, curvature)
        kernel, curvature = function.at(maximum.x)[1], maximum.curvature
    job = job._replace(kernel=kernel).with_settings(n_restarts=0, find_periods=False)
    return job, curvature


def goes_on(objective, kernel, settings, curvature):
    """The `VectorFunction` and the `Maximum` of a fit that goes on from one to fewer rows."""
    likelier = _with_likelier_noise(objective, kernel, settings.prior)
    curvature = curvature if likelier is kernel else None
    function = VectorFunction(objective, likelier, prior=settings.prior)
    return function, climb(function, settings, curvature=curvature)


def _with_likelier_noise(objective, kernel, prior):
    """The kernel, or the same with more noise where that is likelier."""
    places = np.concatenate([*kernels.positions_of(kernel, "noise_level"), []]).astype(int)
    if not len(places):
        return kernel

    def value(candidate):
        return value_or_minus_inf(objective, candidate, False, prior=prior)

    return max([kernel, *(with_noise(kernel, places, more) for more in _MORE_NOISE)], key=value)


def with_noise(kernel, places, more):
    """The kernel whose noise has other logarithms, within its bounds."""
    theta = kernel.theta
    theta[places] += more
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))

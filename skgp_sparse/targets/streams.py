"""Rows that arrive later: what an estimator keeps of a stream, and what a call of partial_fit does.

A `StreamState` is plain data of bounded size, which pickles keep. It never changes: a call makes
another one, so that a call that fails leaves the estimator as it was. All rows count the same. Some
of them stay in a reservoir, with weights that stand for all that came.

Theta and Z move when the rows have doubled since the last move, as the model then knows little of
half of them. A move is a fit of few iterations on a sample of the reservoir, from where the last
one ended or, if that is better, from a new start. As long as there are no more distinct rows than
inducing points are wanted, all of them are inducing points, and a move is a fit from the start.

Between moves, rows with Gaussian noise are added to sums over all rows, and nothing is lost. Sites
of other rows depend on each other: those of all rows in the reservoir are inferred together.
"""

from dataclasses import replace
from enum import Enum
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse.choices.choices import with_noise_floor
from skgp_sparse.data.arrays import ArrayDataset as Table
from skgp_sparse.data.copies import in_units
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import Moments, TargetScaler, merge, moments_of
from skgp_sparse.engine.basis import InducingBasis, Problem
from skgp_sparse.engine.collapsed import RunningSums
from skgp_sparse.exceptions import about, collected, warn_again
from skgp_sparse.ground.validation import Array
from skgp_sparse.inference.contracts import value_or_minus_inf
from skgp_sparse.inference.objectives import CollapsedObjective
from skgp_sparse.inference.stochastic import Reservoir
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.methods.contract import Fits, FittedJob, Job
from skgp_sparse.methods.inducing_points import InducingPoints
from skgp_sparse.methods.small_fits import of_few_rows
from skgp_sparse.solvers import Fit, KeepParameters
from skgp_sparse.targets.model import ObservationModel as Model
from skgp_sparse.targets.model import Problems, step_named

_MOST_ROWS, _MOST_WITH_SITES = 100_000, 20_000  # that the reservoir holds ...
_SHARE_OF_MEMORY = 1 / 16  # ... in this share of scikit-learn's working_memory
_GROWTH = 2.0  # of the number of rows, after which theta and Z move
_ITERATIONS = 50  # of a move
_FEWEST_ROWS = 5000  # that a move looks at, or 400 per inducing point
_LIKELY_SCALE = "likely scale"  # the step of a fit that a stream takes, too


class Action(Enum):
    """Action that follows the arrival of rows."""

    START = "fit from the start"
    GROW = "all rows are inducing points, or inducing points are chosen; theta stays"
    MOVE = "theta and Z move"
    HOLD = "theta and Z stay"


class WarmStart(NamedTuple):
    """Values of theta and Z that are known so far."""

    kernel: Kernel
    Z: Any  # (m, d), None: of another size than is wanted
    likelihood: Likelihood | None = None  # with its parameters; None: Gaussian noise
    few: bool = False  # every row is an inducing point


class StreamState(NamedTuple):
    """State of a stream of rows that is kept between two calls."""

    reservoir: Reservoir
    seed: int
    unit: Array | None  # (p,) of the targets in the first call, where noise is Gaussian
    moments: Moments = Moments()  # of the targets in this unit
    weights: Moments = Moments()  # of the weights of users
    are_counts: bool = True  # all weights are whole numbers
    mean_weight: float = 1.0  # that is one row in a fit, where weights are relative
    scaler: TargetScaler | Any = None  # in which theta was learned
    warm_starts: tuple[Any, ...] = ()  # `WarmStart` of every problem, or None
    sums: RunningSums | None = None  # over all rows, where noise is Gaussian
    at_last_move: float = 0.0  # weight of the rows
    calls: int = 0
    n_iter: int = 0

    def random_state(self) -> RandomState:
        """Random state of the next call."""
        return RandomState([self.seed, self.calls])

    def part(self) -> Table:
        """The rows in the reservoir, weighted so that they stand for all that came."""
        X, y, *rest = self.reservoir.columns
        own, offset = in_units(self.reservoir.weights(), self.mean_weight), None
        weight, noise = None if np.all(own == 1) else own, 0.0
        if rest:
            offset = rest[0] if rest[0].any() else None
            noise = rest[1] if np.ptp(rest[1]) else float(rest[1][0])
        return Table(X, y, noise, weight, offset=offset)

    def with_rows(self, observations: Model, part: Table) -> "StreamState":
        """The stream with the rows of a part in its reservoir, and in its moments."""
        reservoir, columns, weight = self.reservoir, _columns_of(part), part.row_weights()
        bytes_of_a_row = sum(column.nbytes for column in columns) / len(weight) + 16
        memory = _SHARE_OF_MEMORY * get_config()["working_memory"] * 2**20
        most = _MOST_WITH_SITES if observations.has_sites else _MOST_ROWS
        capacity = max(1, int(min(most, memory / bytes_of_a_row)))
        random_state = self.random_state()
        for start in range(0, len(weight), capacity):
            some = slice(start, start + capacity)
            few = tuple(column[some] for column in columns)
            reservoir = reservoir.plus(few, weight[some], capacity, random_state)
        weights = self.weights.merged(Moments(len(weight), weight.mean()))
        are_counts = self.are_counts and np.array_equal(weight, np.rint(weight))
        is_free = observations.parameters.kernel is None
        is_relative = is_free and not (observations.has_sites and are_counts)
        stream = self._replace(reservoir=reservoir, weights=weights, are_counts=are_counts)
        stream = stream._replace(mean_weight=float(weights.mean) if is_relative else 1.0)
        if observations.has_sites:
            return stream
        moments = merge([self.moments, moments_of(part.y / self.unit, part.weight)])
        return stream._replace(moments=moments)


Step = tuple[Fit, WarmStart | None, RunningSums | None]  # of one problem


def new_stream(observations: Model, part: Table, random_state: RandomState) -> StreamState:
    """A stream to which no row has come, for parts like this one."""
    unit, seed = None, random_state.randint(2**31 - 1)
    if not observations.has_sites:
        parameters = observations.parameters
        name, shared = observations.name, np.ndim(parameters.alpha) > 0
        unit = TargetScaler.of(part, parameters.normalize_y, name, shared).with_constants().scale
    return StreamState(Reservoir.empty(_columns_of(part)), seed, unit)


def stream_of(
    observations: Model, fits: Fits, n_iter: int, random_state: RandomState
) -> StreamState:
    """The stream whose rows so far are those of fits, one for every problem."""
    part = observations.rows_of(fits)
    stream = new_stream(observations, part, random_state).with_rows(observations, part)
    rows = fits[0].rows
    weights = Moments(part.row_weights().sum() / rows.mean_weight, rows.mean_weight)
    are_counts = stream.are_counts and not rows.relative
    stream = stream._replace(weights=weights, mean_weight=rows.mean_weight, are_counts=are_counts)
    objectives: Any = None  # nothing is fitted
    jobs = [observations.job(fit.rows, fit.kernel, objectives, "") for fit in fits]
    warm_starts = tuple(map(_warm_start_of, fits, jobs))
    scaler, total = jobs[0].rows.scaler, stream.reservoir.total
    stream = stream._replace(scaler=scaler, at_last_move=total, calls=1, n_iter=n_iter)
    if fits[0].posterior.metric is not None:  # in which inducing points are not
        return stream
    if not observations.has_sites and warm_starts[0].Z is not None:
        problem = _problem(observations, jobs[0], warm_starts[0], jobs[0].rows)
        stream = stream._replace(sums=RunningSums.of(problem))
    return stream._replace(warm_starts=warm_starts)


def advance(observations: Model, stream: StreamState, part: Table) -> tuple[StreamState, Fits]:
    """Learn from a part of any number of rows: the next `StreamState`, and a fit per problem."""
    before, stream = stream.mean_weight, stream.with_rows(observations, part)
    total, held, unit = stream.reservoir.total, stream.part(), stream.mean_weight
    part = part if unit == 1.0 else replace(part, weight=in_units(part.row_weights(), unit))
    steps: list[Step] = []
    everything = held if stream.reservoir.is_complete or stream.calls > 0 else part
    jobs = observations.jobs_of_part(everything, stream)
    latest, scaler = jobs[0].rows.scaler, stream.scaler
    begins_to_vary = scaler is not None and np.any((latest.scale > 0) & (scaler.scale == 0))
    has_grown = stream.calls == 0 or total >= _GROWTH * stream.at_last_move
    due = bool(begins_to_vary or (has_grown and observations.moves()))
    random_state = stream.random_state()
    for job, warm_start in zip(jobs, stream.warm_starts or repeat(None)):
        job, action = job.within(len(jobs) - len(steps)), _next_action(job, warm_start, due)
        with about(job.name):
            job = _prepared(observations, stream, job, warm_start, action)
            if action is Action.HOLD and stream.sums is not None:
                sums = stream.sums.scaled(before / unit)
                steps.append(_added(observations, sums, part, job, warm_start))
            else:
                steps.append(_learned(observations, job, warm_start, action, random_state))
    fits, warm_starts, sums = zip(*steps)
    scaler = fits[0].objective.rows.scaler
    if everything is part:  # whose rows do not stay
        jobs = observations.jobs_of_part(held, stream)
        objectives = [fit.objective.on(_in_units(job.rows, scaler)) for fit, job in zip(fits, jobs)]
        fits = tuple(fit._replace(objective=one) for fit, one in zip(fits, objectives))
    return stream._replace(
        scaler=scaler,
        warm_starts=warm_starts,
        sums=sums[0],
        at_last_move=total if due else stream.at_last_move,
        calls=stream.calls + 1,
        n_iter=stream.n_iter + due * int(max(fit.n_iter for fit in fits)),
    ), [FittedJob(fit) for fit in fits]


def _next_action(job: Job, warm_start: WarmStart | None, due: bool) -> Action:
    """The `Action` that the rows of a job ask for. `due`: theta and Z should move."""
    moves = job.settings.solver.moves
    if warm_start is None:
        return Action.START
    if warm_start.few:
        return Action.START if moves and (due or not _are_few(job)) else Action.GROW
    if moves and (due or warm_start.Z is None):
        return Action.MOVE
    return Action.GROW if warm_start.Z is None else Action.HOLD


def _prepared(
    observations: Model, stream: StreamState, job: Job, warm_start: WarmStart, action: Action
) -> Job:
    """The job in the units in which theta is or will be learned, with what is known."""
    if action in (Action.START, Action.MOVE):
        if _LIKELY_SCALE in job.steps:
            (job,) = step_named(_LIKELY_SCALE)(Problems(observations, job.rows, [job], [])).jobs
    elif stream.scaler is not None and observations.moves():
        job = job._replace(rows=_in_units(job.rows, stream.scaler))
    if action is Action.START or not observations.moves() or warm_start.likelihood is None:
        return job
    method = replace(job.objectives.site_method, likelihood=warm_start.likelihood)
    return job._replace(objectives=replace(job.objectives, site_method=method))


def _added(
    observations: Model, sums: RunningSums, part: Table, job: Job, warm_start: WarmStart
) -> Step:
    """The fit of sums to which a part is added, at the same theta and Z."""
    sums = sums.plus(_problem(observations, job, warm_start, part.in_units(job.rows.scaler)))
    return _of_sums(sums, _problem(observations, job, warm_start, job.rows), 0), warm_start, sums


def _of_sums(sums: RunningSums, problem: Problem, n_iter: int) -> Fit:
    """The fit that follows from sums, with an objective of the rows of a problem."""
    value, posterior, jitter = sums.solved(problem, problem.rows.scaler)
    objective = CollapsedObjective(problem.rows, problem.bound, problem.basis, problem.options)
    return Fit(problem.kernel, objective, posterior, value, n_iter, jitter)


def _learned(
    observations: Model, job: Job, warm_start: WarmStart, action: Action, random_state: RandomState
) -> Step:
    """The fit after an `Action`, what it knows, and the sums of its rows if noise is Gaussian."""
    fit: Any  # a `Fit` with an objective
    if action is Action.START:
        fit = InducingPoints().fit(_at(job, None, job.kernel), random_state)
    else:
        kernel, Z, n_iter = warm_start.kernel, warm_start.Z, 0
        if action is Action.MOVE:
            moved = _moved(job, warm_start, random_state)
            kernel, Z, n_iter = moved.kernel, moved.objective.inducing_points, moved.n_iter
            job = job._replace(objectives=job.objectives.informed_by(moved.objective))
        kept = _at(job, None if action is Action.GROW else Z, kernel)
        fit = InducingPoints().fit(kept.with_settings(solver=KeepParameters()), random_state)
        fit = fit._replace(n_iter=n_iter)
    objective, few = fit.objective, _are_few(job)
    warm_start = WarmStart(fit.kernel, objective.inducing_points, objective.likelihood, few)
    if observations.has_sites:
        has_one_kind = observations.rules.labels and not np.ptp(job.rows.targets())
        return fit, None if has_one_kind else warm_start, None
    problem = _problem(observations, job, warm_start, job.rows)
    sums = RunningSums.of(problem)
    return _of_sums(sums, problem, fit.n_iter), warm_start, sums


def _moved(job: Job, warm_start: WarmStart, random_state: RandomState) -> Fit:
    """A fit of few iterations to some of the rows, which need not end at an optimum."""
    rows, settings, size = job.rows, job.settings, max(_FEWEST_ROWS, 400 * job.points.size)
    solver = of_few_rows(settings.solver)
    is_free = settings.move_basis and not job.points.are_given and solver.starts_on_subset
    kernel = job.kernel if solver.starts_on_subset else warm_start.kernel
    begun = _at(job, None if is_free else warm_start.Z, kernel)
    few = rows.sampled(job.objectives.sample(rows, size, random_state))
    before = warm_start.kernel, warm_start.Z
    if is_free:  # the last inducing points, or others for the rows of now
        fresh = begun.points.initialise(few, warm_start.kernel, random_state)
        places = [Z for Z in (warm_start.Z, fresh) if Z is not None]
        starts = [job.objectives.sparse(few, Z, settings.options) for Z in places]
        values = [value_or_minus_inf(one, before[0], prior=settings.prior) for one in starts]
        before = before[0], places[int(np.argmax(values))]
    most, may_jump = min(settings.max_iter, _ITERATIONS), solver.starts_on_subset
    begun = begun.with_settings(max_iter=most, n_restarts=0, solver=solver, find_periods=may_jump)
    begun = begun._replace(rows=few, before=before)
    with collected() as warnings:
        fit = InducingPoints().fit(begun, random_state)
    warn_again(warnings, but=(ConvergenceWarning,))
    return fit


def _at(job: Job, Z: Array | None, kernel: Kernel) -> Job:
    """The job at a kernel and inducing points; None: all distinct rows where these are few."""
    points = job.points

    def choose(rows: Dataset, kernel: Kernel, random_state: RandomState) -> Array:
        distinct = None if points.are_given else rows.distinct(most=points.size)
        return points.initialise(rows, kernel, random_state) if distinct is None else distinct

    chosen = points._replace(initialise=choose) if Z is None else points.at(Z)
    return job._replace(kernel=kernel, points=chosen._replace(is_auto=False))  # others need more


def _problem(observations: Model, job: Job, warm_start: WarmStart, rows: Dataset) -> Problem:
    """The question that sums over rows with Gaussian noise answer."""
    rows, basis = with_noise_floor(rows, warm_start.kernel), InducingBasis(warm_start.Z)
    return Problem(warm_start.kernel, basis, rows, observations.bound, job.settings.options)


def _warm_start_of(fit: FittedJob, job: Job) -> WarmStart:
    """The `WarmStart` of a fit to the rows of a job, as far as it is what is asked for now."""
    Z = getattr(fit.objective, "inducing_points", None)
    usable = Z is not None and (job.points.are_given or len(Z) <= job.points.size)
    return WarmStart(fit.kernel, Z if usable else None, fit.likelihood, _are_few(job))


def _are_few(job: Job) -> bool:
    """Whether there are no more distinct rows than inducing points are wanted."""
    return not job.points.are_given and job.are_few(job.points.size)


def _in_units(rows: Dataset, scaler: TargetScaler) -> Dataset:
    """A table whose targets have other units."""
    offset = None if rows.offset is None else rows.offset * (rows.scaler.scale[0] / scaler.scale[0])
    return replace(rows, scaler=scaler, offset=offset)


def _columns_of(part: Table) -> tuple:
    """Arrays of numbers of every row, but for the weights."""
    if part.y.ndim == 1:  # labels
        return part.X, part.y
    rest = (0.0 if column is None else column for column in (part.offset, part.noise))
    return part.X, part.y, *(np.broadcast_to(column, len(part)) for column in rest)

"""Where a fit begins: length scales of the default kernel, logarithms, small noise, classes.

Each step asks a small exact fit, or the evidence of some rows: where length scales begin
(`likely_scale`), whether skewed columns are seen by their logarithms (`logarithms`), whether noise
is so small that all rows are fitted exactly (`exact_if_quiet`), and where several classes begin
together (`common_start`).
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse.choices.choices import StandardisedColumns
from skgp_sparse.data.classes import Task
from skgp_sparse.data.columns import ColumnTable
from skgp_sparse.data.dataset import Batch, Dataset, at
from skgp_sparse.data.moments import spread_of_the_shortest_quarter
from skgp_sparse.engine import exact
from skgp_sparse.exceptions import collected
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import Array, Ints, Kernel, Pair, Rng, Scalars
from skgp_sparse.inference.contracts import Start, ThoroughSearch
from skgp_sparse.inference.starts import fit_exact
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.likelihoods._labels import EachClass
from skgp_sparse.methods.contract import Job, Problems
from skgp_sparse.methods.exact import Exact
from skgp_sparse.methods.small_fits import on_subset
from skgp_sparse.solvers import LBFGS, FewIterations

Place = Pair  # theta or logarithms of length scales, and spreads of columns
_QUIET = 1e-2  # noise variance, as a share of that of the targets, below which there is little
_SOME_ROWS = 10_000  # that tell
_SHARES_OF_TIME = 12  # of the time that is left, one of which is for each fit that is compared
_ITERATIONS, _COARSER = 100, 10.0  # of the fits that are compared


def skew_of(rows: Dataset, columns: ColumnTable) -> Any:
    """Skewed columns as `LogScale` takes them, shift and moments; None where no column is skewed.

    The shift (d,) is that of the logarithms of spreads, from a column to its logarithms, and the
    moments (2, d) are means and standard deviations of logarithms: both are 0 of other columns.
    """
    some = rows.subset(rows.sample(_SOME_ROWS, np.random.RandomState(0)))
    X = np.asarray(some.stored_inputs(), dtype=np.float64)
    numbers = np.setdiff1d(np.arange(X.shape[1]), columns.codes())
    known = {j: X[~np.isnan(X[:, j]), j] for j in numbers.tolist()}
    chosen = [j for j, x in known.items() if _is_skewed(x)]
    if not chosen:
        return None
    lows, units, shifts, *logs = map(np.array, zip(*[_logs_of(known[j]) for j in chosen]))
    shift, moments = np.zeros(X.shape[1]), np.zeros((2, X.shape[1]))
    shift[chosen], moments[:, chosen] = shifts, logs
    names = [columns.label(j) for j in chosen]
    by_name = dict(zip(names, chosen)) if isinstance(names[0], str) else None
    return (names, lows.tolist(), units.tolist(), by_name), shift, moments


def _is_skewed(x: Array) -> bool:
    if len(np.unique(x)) <= 10:  # a scale of a few grades
        return False
    deviation = (x - x.mean()) / np.ptp(x)
    return bool(np.mean(deviation**3) > np.mean(deviation**2) ** 1.5)


def _logs_of(x: Array) -> tuple[np.floating, ...]:
    """Smallest value, unit, logarithm of the ratio of spreads, and moments of the logarithms."""
    low = x.min()
    unit = np.median(x - low) or np.mean(x - low)
    logs = low + unit * np.log1p((x - low) / unit)
    return low, unit, np.log(np.std(logs) / np.std(x)), np.mean(logs), np.std(logs)


def likely_scale(problems: Problems) -> Problems:
    """The problems with length scales of the default kernel where the evidence is highest.

    Structure that is much finer than the spread of the columns looks like noise to a search from
    there. Candidates are all length scales shorter by a factor; single columns as short as the
    variogram says; those from spreads that ignore outliers. The usual start stays unless
    another gains a fifth of what it explains beyond a linear trend, or something oscillates about
    a trend along a column. With a likelihood, targets are normal scores of the derivatives of the
    log likelihood at a constant latent value.
    """
    with single_threaded_blas():
        return problems._replace(jobs=[at_likely_scale(job) for job in problems.jobs])


def logarithms(problems: Problems) -> Problems:
    """The problems with skewed columns on a `LogScale`, where the evidence gains by it."""
    columns = problems.observations.columns()
    with single_threaded_blas():
        return problems._replace(jobs=[with_logarithms(job, columns) for job in problems.jobs])


def exact_if_quiet(problems: Problems) -> Problems:
    """The problem with an exact process where a small fit finds next to no noise."""
    with single_threaded_blas():
        job = on_subset(problems.jobs[0], problems.random_states[0])
    some = job.rows.block(slice(2000))
    noise = np.mean(kernels.diagonal(job.kernel, some.X)[1]) + np.mean(some.noise)
    is_quiet = noise < _QUIET * job.rows.target_variance()
    return problems._replace(jobs=[job._replace(posterior_method=Exact()) if is_quiet else job])


def with_logarithms(job: Job, columns: ColumnTable) -> Job:
    """The job, whose skewed columns are on a scale of logarithms if the evidence says so."""
    if "logarithms" not in job.steps or job.before is not None or job.is_started:
        return job
    if (skew := skew_of(job.rows, columns)) is None:
        return job
    chosen, shift, moments = skew
    usual = np.log(job.rows.scale() / job.spreads)  # 0 but where far rows have moved spreads
    shift = np.where(shift == 0.0, 0.0, shift + usual)
    other = job._replace(kernel=on_logs(job.kernel, chosen, shift, moments))
    if job.thorough is not None:  # whose starts differ from the first in the noise
        moved = other.kernel.theta - job.kernel.theta
        starts = tuple(start + moved for start in job.thorough.starts)
        quiet = on_logs(job.thorough.kernel, chosen, shift, moments)
        other = other._replace(thorough=ThoroughSearch(quiet, starts))
    other = other.with_priors(job.priors)
    return other if _evidence(other) > _evidence(job) + 3.0 else job  # nats


def on_logs(kernel: Kernel, chosen: tuple, shift: Array, moments: Array) -> Kernel:
    """The kernel, its first summand with skewed columns on a scale of logarithms; see `skew_of`."""
    theta = kernel.theta
    for places, columns in kernels.length_scale_places(kernel, len(shift)):
        theta[places] += shift[columns] if len(places) > 1 else shift[columns].mean()
    kernel = kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))
    part: Any  # a `Missing` with units
    for part, columns in kernels.parts_by_columns(kernel, len(shift), kernels.Missing):
        are_logs, pairs = moments[1, columns] > 0, zip(part.units, moments[:, columns])
        part.units = tuple(np.where(are_logs, logs, own) for own, logs in pairs)
    signal, *others = kernels.summands(kernel)
    return sum(others, kernels.LogScale(signal, *chosen))


def _evidence(job: Job) -> float:
    """The objective of a small exact fit, prior included; -inf where there is none."""
    settings = job.within(_SHARES_OF_TIME).settings._replace(
        max_iter=_ITERATIONS, tol=_COARSER * job.settings.tol, progress=None, n_restarts=0
    )
    rows = job.objectives.sample(job.rows, settings.start_rows, np.random.RandomState(0))
    objective = job.objectives.exact(job.rows.sampled(rows), settings.options, rough=True)
    try:
        with collected():  # the fits that follow warn
            return fit_exact(Start(objective, job.kernel, settings, Rng(0)))[1].value
    except np.linalg.LinAlgError:
        return -np.inf


_FACTORS = 0.3, 0.1, 0.03, 0.01, 0.003  # of all length scales
_SHORT = 0.15  # of a length scale, below which that of a variogram is a candidate
_FAR_IN_SPREADS = 5.0  # of near rows, beyond which far rows have moved a standard deviation
_ROWS, _MANY = 500, 20_000  # rows whose evidence tells, and those whose variogram does
_NATS, _SHARE = 3.0, 0.2  # that a start has to gain, in nats and of the evidence beyond a trend
_MOST_COLUMNS = 2  # that are candidates on their own


def at_likely_scale(job: Job) -> Job:
    """The `Job`, whose default kernel begins where the evidence of some rows is highest."""
    if not job.is_free or job.before is not None or job.is_started:
        return job
    places = kernels.length_scale_places(job.kernel, job.rows.n_features)
    if not (places and job.settings.solver.moves):
        return job
    positions, columns = places[0]  # of the one kernel of numbers
    rows = sampled_batch(job, _ROWS)
    if kernels.parts(job.kernel, StandardisedColumns):
        rows = rows._replace(y=exact.linear_residual(rows.X, rows.y))
    if not rows.y.any():
        return job
    best = _clearly_better(job, rows, positions, _candidates(job, positions, columns), _SHARE)
    is_alone = best is None
    if is_alone and len(columns) <= 3:  # panels of more are alike along an id without a cycle
        best = _beside_a_trend(job, positions, columns)
    return job if best is None else _at_place(job, best, positions, columns, is_alone)


def _clearly_better(
    job: Job, rows: Batch, positions: Ints, candidates: Iterator[Place], share: float
) -> Place | None:
    """Theta and spreads of the best candidate if it gains such a share of what it explains."""
    usual, _ = _start_at(job, rows, positions, (job.kernel.theta[positions], job.spreads))
    value, best = max((_start_at(job, rows, positions, c) for c in candidates), key=itemgetter(0))
    trend = exact.trend_evidence(exact.linear_residual(rows.X, rows.y))
    return best if value - max(usual, trend) > _NATS + share * (value - trend) else None


def _beside_a_trend(job: Job, positions: Ints, columns: Ints) -> Place | None:
    """Theta and spreads at the scale of what oscillates along a column about a trend, or None."""
    first, rows = job.kernel.theta[positions], sampled_batch(job, _MANY)
    parts = [_consecutive(rows, column) for column in columns]
    found = [exact.correlation_length(part.X[:, j], part.y) for j, part in zip(columns, parts)]
    shorter = np.log(found) - first
    short = np.flatnonzero(shorter < np.log(_SHORT))
    for j in short[np.argsort(shorter[short])][:_MOST_COLUMNS]:
        # a square wave ends more sharply than it lasts
        moved = np.outer(shorter[j] + np.log([1.0, 0.4]), np.arange(len(first)) == j)
        candidates = ((first + one, job.spreads) for one in moved)
        if best := _clearly_better(job, parts[j], positions, candidates, 0.7):
            return best
    return None


def _consecutive(rows: Batch, column: int) -> Batch:
    """At most 500 rows in the middle of a column, without their linear trend."""
    x = rows.X[:, column]
    skipped = max(int(np.count_nonzero(np.isfinite(x))) - _ROWS, 0) // 2
    middle = np.argsort(x, kind="stable")[skipped:][:_ROWS]  # missing ones come last
    part = Batch(*(at(values, middle) for values in rows[:4]))
    return part._replace(y=exact.linear_residual(part.X, part.y))


def _candidates(job: Job, positions: Ints, columns: Ints) -> Iterator[Place]:
    """Logarithms of length scales, and the spreads of the columns in which they are measured."""
    first, spreads, rows = job.kernel.theta[positions], job.spreads, sampled_batch(job, _MANY)
    yield from ((first + np.log(factor), spreads) for factor in _FACTORS)
    quarters = np.array([spread_of_the_shortest_quarter(x) for x in rows.X.T])
    if np.any(quarters[columns] < spreads[columns] / _FAR_IN_SPREADS):
        near = np.where(quarters < spreads / _FAR_IN_SPREADS, quarters, spreads)
        moved = first + np.log(near / spreads)[columns]
        yield from ((moved + np.log(factor), near) for factor in (1.0, *_FACTORS))
    yield from ((one, spreads) for one in _of_single_columns(rows, first, columns))


def _of_single_columns(rows: Batch, first: Array, columns: Ints) -> Iterator[Array]:
    """Logarithms of length scales, some of which are those that a variogram finds."""
    residual = exact.linear_residual(rows.X, rows.y)
    found = np.log([exact.correlation_length(rows.X[:, j], residual) for j in columns])
    short = np.flatnonzero(found < first + np.log(_SHORT))
    short = short[np.argsort((found - first)[short])]
    together = [short] if len(short) > 1 else []
    for chosen in [*short[:_MOST_COLUMNS, None], *together]:
        yield np.where(np.isin(np.arange(len(first)), chosen), found, first)


def _start_at(job: Job, rows: Batch, positions: Ints, place: Place) -> tuple[float, Place]:
    """Evidence at logarithms of length scales, theta with its likeliest variances, and spreads."""
    theta, (lengths, spreads) = job.kernel.theta, place
    theta[positions] = lengths
    kernel = job.kernel.clone_with_theta(theta)
    process = kernels.summands(kernel)[0]
    variance = kernels.diagonal(process, rows.X)[0]
    unit = np.mean(variance)
    K = kernels.evaluate(process, rows.X, rows.X.copy()) / unit
    K.flat[:: len(K) + 1] = variance / unit
    prior = job._replace(spreads=spreads).with_priors(job.priors).settings.prior.log_density(theta)
    found = [(*exact.profile_evidence(K, rows, ratio), ratio) for ratio in (0.3, 0.01)]  # of noise
    value, variance, ratio = max(found, key=itemgetter(0))
    if not job.objectives.has_sites:
        (signal, *_), *_ = kernels.positions_of(kernel, "constant_value")
        *_, (noise, *_) = kernels.positions_of(kernel, "noise_level")
        theta[signal] += np.log(variance / unit)
        theta[noise] = np.log(ratio * variance)
    return value + prior, (theta, spreads)


def _at_place(job: Job, best: Place, positions: Ints, columns: Ints, is_alone: bool) -> Job:
    """The `Job` that begins at a theta; unless it is alone, beside the usual start."""
    theta, spreads = best
    ratio = (spreads / job.spreads)[columns]
    kernel, thorough = _within(job.kernel, theta, positions, ratio), job.thorough
    if thorough is not None:
        quiet = _within(thorough.kernel, theta, positions, ratio)
        usual = () if is_alone else (np.clip(job.kernel.theta, *kernel.bounds.T),)
        thorough = thorough._replace(kernel=quiet, starts=usual)
    rows = max(job.settings.start_rows, _ROWS)  # fewer would not see it
    job = job._replace(kernel=kernel, thorough=thorough, spreads=spreads)
    return job.with_settings(start_rows=rows).with_priors(job.priors)


def _within(kernel: Kernel, theta: Array, positions: Ints, ratio: Array) -> Kernel:
    """The kernel at a theta, with bounds of length scales that are as many times shorter."""
    (name,) = (key for key in kernel.get_params() if key.endswith("length_scale_bounds"))
    low, high = kernel.get_params()[name].T * ratio
    low = np.minimum(low, 1e-2 * np.exp(theta[positions]))
    kernel = clone(kernel).set_params(**{name: np.column_stack([low, high])})
    return kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))


def sampled_batch(job: Job, size: int) -> Batch:
    """At most so many rows of a job, whose noise is a share of the variance of their targets."""
    block = job.rows.some(size).everything()
    weight, noise, n = _of_each(block.weight, block), _of_each(block.noise, block), len(block.X)
    if not job.objectives.has_sites:
        return Batch(block.X, block.y, noise / job.rows.target_variance(), weight)
    scores = _scores(job.objectives.site_method.likelihood, block)
    return Batch(block.X, scores, np.zeros(n), weight)


def _of_each(values: Scalars, block: Batch) -> Array:
    return np.broadcast_to(np.asarray(values, dtype=np.float64), len(block.X))


def _scores(likelihood: Likelihood, block: Batch) -> Array:
    """Normal scores (n, 1) of the derivatives of a log likelihood; of several classes, (n, k)."""
    y, k = block.observed, likelihood.n_latent
    if k > 1:
        is_of_class = (y[:, None] == np.arange(k)).astype(np.float64)
        return is_of_class - is_of_class.mean(axis=0)
    offset = _of_each(block.offset, block)
    slope = likelihood.expected(y, offset, np.full(len(offset), 1e-6))[1]
    scores = ndtri((rankdata(slope) - 0.5) / len(slope))
    return (scores - scores.mean())[:, None]


# -- several classes that begin together, with hyperparameters and inducing points in common -------
# 1. A small exact fit has a latent value for each class. Its objective is the sum of those of the
#    problems, one class against all others, at common hyperparameters.
# 2. Each problem goes on from there for a few iterations of its own, inducing points included.

_CLASSES = 8  # that have a latent value in the small fit
_ROWS_OF_ALL = 250  # of the small fit
_ITERATIONS_OF_EACH = 5  # of each problem


def common_start(problems: Problems) -> Problems:
    """The problems, begun by a small fit of all classes, where all rows are seen at once."""
    jobs = problems.jobs
    if type(jobs[0].settings.solver) is not LBFGS:
        return problems
    random_state = deepcopy(problems.random_states[0])
    together = job_of_all(jobs[0], problems.rows, len(jobs))
    with single_threaded_blas():
        together = with_logarithms(at_likely_scale(together), problems.observations.columns())
        start = on_subset(together.with_settings(start_rows=_ROWS_OF_ALL), random_state)
        Z = start.points.initialise(start.rows, start.kernel, random_state)
    most = jobs[0].settings.max_iter
    settings = {"n_restarts": 0, "find_periods": False, "solver": FewIterations(most)}
    settings["max_iter"] = min(_ITERATIONS_OF_EACH, most)
    jobs = [job.started_at(start.kernel, Z)._replace(spreads=start.spreads) for job in jobs]
    jobs = [job.with_priors(job.priors).with_settings(**settings) for job in jobs]
    return problems._replace(jobs=jobs)


def job_of_all(job: Job, rows: Dataset, n_classes: int) -> Job:
    """The `Job` of all classes, of some where they are many, from that of one problem."""
    some = np.linspace(0, n_classes - 1, min(n_classes, _CLASSES)).round().astype(int)
    labels = np.full(n_classes, float(len(some)))
    labels[some] = np.arange(len(some))
    method, inner = job.objectives.site_method, job.objectives.inner.roughly()
    method = replace(method, likelihood=EachClass(method.likelihood, len(some)))
    objectives = replace(job.objectives, site_method=method, inner=inner)
    rows = rows.of_problem(Task(tuple(labels.tolist()))).in_one_form()
    job = job._replace(name="", rows=rows, objectives=objectives)
    return job.with_settings(tol=n_classes * job.settings.tol)

"""Gaussian noise whose variance varies with the inputs.

1. Every row is left out of the fit. Its squared error, in units of the predicted variance, tells
   what the noise is there.
2. A second process follows the logarithms of these squares, at a few inducing points. Its mean f
   is the `LogNoiseFunction` of a `HeteroscedasticNoise`, which takes the place of the white noise.
   Both steps are taken twice, hyperparameters held: errors in units of the new noise tell what is
   left.
3. The fit goes on from where it ended, with the level of the noise among the hyperparameters.

Rows with equal inputs are one row of the second process, with their mean squared error: the noise
there is that of all of them. Whether noise that varies pays is judged by rows that are left out of
both processes: the noise of a row follows from the errors at other inputs, as the error of its copy
would tell its own. Where noise is next to nothing beside what rows that are left out do not know,
errors say nothing of it.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse import bounds, kernels
from skgp_sparse.choices.choices import resolve_inducing, resolve_kernel
from skgp_sparse.choices.parameter_checks import why_noise_is_constant
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import Distinct, TargetScaler
from skgp_sparse.exceptions import collected, warn, warn_again
from skgp_sparse.explain import leave_one_out
from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import Array, Ints, Kernel, Rng
from skgp_sparse.hyperpriors import CorrelationPrior, LogNormalLengthScales, MissingValuePrior
from skgp_sparse.inference.contracts import Start, if_possible
from skgp_sparse.inference.objectives import GaussianObjectives
from skgp_sparse.methods.contract import FittedJob, Job, Problems, with_fewer_neighbors
from skgp_sparse.posteriors import Exact, InducingPoints
from skgp_sparse.solvers import LBFGS, Fit, KeepParameters, fit_at

Left = leave_one_out.LeftOutRows
_NATS = 3.0  # that rows which are left out have to gain
_MOST_ROWS = 4000  # that are left out; a mean needs fewer of them
_ERRORS = 1000  # of them, from which the second process learns its hyperparameters
_FEWER = 30, 4  # neighbours of the second pass, at least, and part of those of predictions
_LEVELS = np.exp(np.linspace(-1.5, 2.0, 15))  # factors of noise that varies
_POINTS, _FEW = 100, 200  # inducing points of the second process; distinct rows that all are
_ITERATIONS, _COARSER = 100, 5.0  # of their search, and its tolerance in units of that of the fit
_FEW_ROWS = 600  # up to which hyperparameters of a default fit are learned anew
_PRIORS = LogNormalLengthScales(variance=0.3), CorrelationPrior(), MissingValuePrior()
_ADDED_TO_SQUARES = 0.1  # added to squared errors: a small one says little, a mean of many more


def learned_noise(problems: Problems) -> Problems:
    """The problem with noise that varies with the inputs, where that is wanted and pays."""
    (job,), (fit,), observations = problems.jobs, problems.fits, problems.observations
    is_wanted = observations.parameters.noise == "learned"
    reason = leave_one_out.why_unknown(fit) or why_noise_is_constant(job)
    if reason is not None and is_wanted:
        raise ValueError(f"{observations.name}: noise='learned' {reason}")
    if reason is not None:
        return problems
    is_asked = is_wanted or np.ptp(fit.rows.y, axis=0).all()
    is_late = not job.settings.deadline.allows(0.0 if is_wanted else 0.4)
    if is_wanted and is_late:
        warn(
            f"{observations.name}: noise='learned' had no time left, and the noise is "
            f"constant. Raise time_limit (now {observations.parameters.time_limit:g}).",
            ConvergenceWarning,
        )
    if not is_asked or is_late:
        return problems
    with single_threaded_blas(), collected() as warnings:
        if is_wanted:
            fit = _seen(fit, job)
            other = _varied(job, fit, problems)
        else:
            fit = if_possible(_seen, fit, job, otherwise=fit)
            other = if_possible(_varied, job, fit, problems)
    if other is not None:
        warn_again(warnings)
    return problems._replace(fits=[other or fit])


def _seen(fit: FittedJob, job: Job) -> FittedJob:
    """The fit with leave-one-out predictions of some of its rows, of all if it is exact."""
    knows_all = fit.posterior.is_exact and fit.used_rows is fit.rows
    chosen = leave_one_out.some_rows(fit.rows, len(fit.rows) if knows_all else _MOST_ROWS)
    few = fit.with_fit(posterior=with_fewer_neighbors(fit.posterior))
    return fit._replace(left_out=leave_one_out.left_out(few, chosen, job.settings.options.n_jobs))


def _varied(job: Job, fit: FittedJob, problems: Problems) -> FittedJob | None:
    """The fit whose noise varies, or None where nobody wants it and rows gain nothing by it."""
    is_wanted = problems.observations.parameters.noise == "learned"
    n_jobs = job.settings.options.n_jobs
    before = _predicted(fit, fit.left_out.chosen, n_jobs)
    if not is_wanted and np.median(fit.left_out.noise / before.total) < 0.01:
        return None
    copies = _Copies.of(fit.rows, before)
    first = _step(fit, problems, copies, _logarithms(before, copies))
    if not (is_wanted or first.gain > _NATS):
        return None
    left = _left_again(fit, first.kernel, before, copies, n_jobs)
    logs = first.factor(copies.X) + _logarithms(left, copies)
    varying = _step(fit, problems, copies, logs, first.process)
    if not (is_wanted or varying.gain > _NATS):
        return None
    other = _seen(_fit_again(job, fit, varying.kernel, problems.random_states[0]), job)
    left = _predicted(other, before.chosen, n_jobs)
    change = np.expm1(varying.of_others - varying.factor(copies.X))[copies.index] * left.noise
    if not (is_wanted or _gain(before, left.mean, left.total + left.known + change) > _NATS):
        return None
    known = other.left_out
    return other._replace(left_out=known._replace(noise=known.noise + change))


class _VaryingNoise(NamedTuple):
    """Noise that varies, after a step of the second process."""

    process: Any  # `Fit` of logarithms of squared errors
    factor: kernels.LogNoiseFunction  # what it says of the noise, in units of that of the fit
    of_others: Array  # (u,) the same at distinct inputs, by the errors at other inputs
    kernel: Kernel  # of the fit, with the likeliest level of such noise
    gain: float  # nats that it promises


def _step(
    fit: FittedJob, problems: Problems, copies: "_Copies", logs: Array, last: Fit | None = None
) -> _VaryingNoise:
    """The state after a second process of logarithms (u,), which goes on from the last one."""
    y, table, white = logs[:, None], copies.table, fit.kernel.k2
    scaler = TargetScaler(np.average(y, axis=0, weights=table.weight), np.ones(1))
    table = replace(table, y=y, noise=0.0, scaler=scaler, least_noise=0.0, offset=None)
    (job,) = problems.jobs
    process = _second_process(job, table, problems, last)
    k, posterior, mean = process.kernel.k1, process.posterior, scaler.mean
    factor = kernels.LogNoiseFunction(k, posterior.features.Z, posterior.u[:, 0], float(mean[0]))
    n_jobs, every = job.settings.options.n_jobs, np.arange(len(logs))
    of_others = factor.mean + leave_one_out.left_out(FittedJob(process), every, n_jobs).mean[:, 0]
    level, gain = _likeliest_level(copies.before, fit.left_out.noise, of_others[copies.index])
    level = np.clip(level * white.noise_level, *white.noise_level_bounds)
    noise = kernels.HeteroscedasticNoise(factor, level, white.noise_level_bounds)
    return _VaryingNoise(process, factor, of_others, fit.kernel.k1 + noise, gain)


class _Copies(NamedTuple):
    """Rows that are left out, by distinct input."""

    table: Any  # of the first row of each input, as heavy as all of them on average
    X: Array  # (u, d) distinct inputs
    index: Any  # (k,) the distinct input of each row
    share: Array  # (k,) of each row in the weight of its input
    before: Any = None  # `LeftOutRows` as they were before noise varied

    @classmethod
    def of(cls, rows: Dataset, left_out: Left) -> "_Copies":
        """Rows of a table that are left out; distinct inputs stay in the order of the rows."""
        same = Distinct(left_out.block.X, is_sorted=False)
        weight = np.broadcast_to(left_out.block.weight, len(same.index))
        total, table = same.copies(weight), rows.subset(left_out.chosen[same.first])
        if np.any(total != 1.0):
            table = replace(table, weight=total / total.mean(), relative=True)
        share = weight / total[same.index]
        return cls(table, left_out.block.X[same.first], same.index, share, left_out)

    def mean(self, values: Array) -> Any:
        """Weighted means (u,) of numbers (k,) of the rows."""
        return np.bincount(self.index, self.share * values)


def _predicted(fit: FittedJob, chosen: Ints, n_jobs: int) -> Left:
    """`LeftOutRows` of chosen rows that the fit knows."""
    return leave_one_out.left_out(leave_one_out.as_left_out(fit), chosen, n_jobs)


def _left_again(fit: FittedJob, kernel: Kernel, before: Left, copies: _Copies, n_jobs: int) -> Left:
    """`LeftOutRows` with other noise; of many exact rows, the errors of before in its units."""
    if fit.posterior.is_exact and len(fit.used_rows) > _FEW_ROWS:
        noise = np.asarray(kernels.diagonal(kernel, copies.X)[1])
        noise = (noise - fit.posterior.noise_variance(copies.X))[copies.index]
        return before._replace(variance=before.total + noise, noise=0.0)
    if fit.fit.refit is None:
        other = fit._replace(fit=fit_at(fit.objective, kernel, 0))
    else:
        near = with_fewer_neighbors(fit.posterior, *_FEWER)
        other = fit.with_fit(kernel=kernel, posterior=near.with_noise_of(kernel))
    return leave_one_out.left_out(other, before.chosen, n_jobs)


def _likeliest_level(before: Left, noise: Array, logs: Array) -> tuple[float, float]:
    """The factor of varying noise that promises the most, all else held, and its nats."""
    latent = np.maximum(before.total - noise, 0.0) + before.known

    def promised(level: float) -> float:
        return _gain(before, before.mean, latent + level * noise * np.exp(logs))

    level = max(_LEVELS, key=promised)
    return level, promised(level)


def _gain(before: Left, mean: Array, variance: Array) -> float:
    """Nats that rows gain which are left out; -inf where they are not finite."""
    with np.errstate(invalid="ignore"):
        gains = log_normal_density(before.block.y, mean, np.sqrt(variance)[:, None])
        gains -= before.log_density()
        gain = np.sum(np.reshape(before.block.weight, (-1, 1)) * gains)
    return gain if np.isfinite(gain) else -np.inf


def _logarithms(found: Left, copies: _Copies) -> Array:
    """Logarithms (u,) of mean squared errors, 0 on average where the noise is as it is said."""
    squares = (found.block.y - found.mean) ** 2 / (found.total + found.known)[:, None]
    count, shares = 1.0 / copies.mean(copies.share), (np.arange(1000) + 0.5) / 1000
    counts = np.geomspace(1.0, 100.0, 20)  # of more, the logarithm is as good as known
    degrees = counts[:, None] * squares.shape[1]
    logs = np.log(chi2.ppf(shares, degrees) / degrees + _ADDED_TO_SQUARES / counts[:, None])
    expected = np.interp(count, counts, logs.mean(axis=1))
    return np.log(copies.mean(squares.mean(axis=1)) + _ADDED_TO_SQUARES / count) - expected


def _second_process(job: Job, table: Dataset, problems: Problems, before: Fit | None) -> Any:
    """The `Fit` to all logarithms, whose hyperparameters are those of some of them."""
    size, random_state = min(len(table), _ERRORS), problems.random_states[0]
    some = table.subset(np.sort(np.random.RandomState(0).permutation(len(table))[:size]))
    columns = problems.observations.columns()._replace(has_linear_mean=False)
    kernel = resolve_kernel(None, None, table, columns)
    objectives, tol = GaussianObjectives(bounds.TitsiasNew()), _COARSER * job.settings.tol
    points = resolve_inducing("auto", _POINTS, table.n_features, problems.observations.name)
    other = job._replace(rows=some, kernel=kernel, objectives=objectives, points=points)
    other = other._replace(thorough=None).with_priors(_PRIORS)
    other = other.with_settings(solver=LBFGS(), n_restarts=0, move_basis=False, start_rows=_FEW)
    other = other.with_settings(max_iter=_ITERATIONS, tol=tol, believes_noise=True, progress=None)
    fit = (Exact() if other.are_few(_FEW) else InducingPoints()).fit
    started = lambda job, fit: job.started_at(fit.kernel, fit.posterior.features.Z)
    with collected():  # it need not converge
        found = fit(other if before is None else started(other, before), random_state)
        if size < len(table):
            other = started(other._replace(rows=table), found)
            found = fit(other.with_settings(solver=KeepParameters()), random_state)
    return found


def _fit_again(job: Job, fit: FittedJob, kernel: Kernel, random_state: Rng) -> FittedJob:
    """The fit that goes on from another one with a kernel of other noise."""
    before = fit.fit
    if before.refit is not None:
        return fit._replace(fit=before.refit(job, before, kernel))
    settings = job.settings._replace(n_restarts=0, find_periods=False)
    if job.is_free and len(fit.used_rows) > _FEW_ROWS:
        settings = settings._replace(solver=KeepParameters())
    objectives = None if fit.posterior.is_exact else job.objectives
    other = settings.solver.solve(Start(fit.objective, kernel, settings, random_state, objectives))
    other = other._replace(n_iter=before.n_iter + other.n_iter, selection=before.selection)
    return fit._replace(fit=other)

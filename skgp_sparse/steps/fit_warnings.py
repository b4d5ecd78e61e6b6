"""Warnings of fits that explain no more than a constant, and of hyperparameters close to a bound.

What is judged is what is predicted, the mean or the calibration beside processes included, of rows
that are left out where this is possible. A fit explains nothing where neither its density nor its
squared errors are better than those of a constant: of the shares of the classes, or of a normal
distribution of latent values that is the same everywhere.

Rows are alike where the correlation c of the targets of near rows is clearly positive: of rows that
are next to each other in the order of a column, or of nearest rows in all columns. A share of about
c of the variance can be explained then.
"""

from collections.abc import Iterator

import numpy as np
from scipy.optimize import minimize
from scipy.special import xlogy
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.copies import has_copies
from skgp_sparse.data.moments import or_one
from skgp_sparse.engine.exact import lag_correlation, linear_residual
from skgp_sparse.exceptions import ConstantFitWarning, about, warn
from skgp_sparse.explain.leave_one_out import LeftOutRows, left_out, left_out_labels, why_unknown
from skgp_sparse.explain.weighted_means import WeightedMean, logs_of_labels
from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.parallel import openmp_threads, single_threaded_blas
from skgp_sparse.ground.validation import Array, Bools, Ints, Kernel
from skgp_sparse.kernels import has_noise, length_scale_places
from skgp_sparse.methods.contract import FittedJob, Job, Problems
from skgp_sparse.methods.small_fits import has_least_noise
from skgp_sparse.steps.initial_values import sampled_batch


def warn_of_fits(found: Problems) -> Problems:
    """The problems as they are, after warnings: fits may explain nothing, or end at a bound."""
    given = found.observations.parameters.kernel
    for job, fit in () if given is None else zip(found.jobs, found.fits):
        appended = has_noise(fit.kernel) and not has_noise(given)
        with about(job.name):
            kernel = fit.kernel.k1 if appended else fit.kernel
            warn_at_bounds(kernel, found.observations.feature_names())
            warn_of_copies(job, fit)
    if found.observations.compares_near_rows:
        warn_of_constant_fits(found)
    return found


def warn_of_copies(job: Job, fit: FittedJob) -> None:
    """Warn where rows that are copies of others have driven the noise to its bound."""
    rows = job.rows
    if isinstance(rows, ArrayDataset) and has_least_noise(fit.kernel) and has_copies(rows):
        warn(
            "The noise is at its lower bound, as rows are copies of others. Remove the copies, or "
            "set kernel to None: the default kernel takes them as one row.",
            ConvergenceWarning,
        )


def warn_at_bounds(kernel: Kernel, columns: list[str] | None = None) -> None:
    """Warn, in the words of scikit-learn, of every hyperparameter close to a bound."""
    called = {} if columns is None else _columns_of(kernel, columns)
    free = [hyper for hyper in kernel.hyperparameters if not hyper.fixed]
    names = [(hyper, dim) for hyper in free for dim in range(hyper.n_elements)]
    close = np.isclose(kernel.bounds, kernel.theta[:, None])
    for place, ((hyper, dim), (at_lower, at_upper)) in enumerate(zip(names, close)):
        if hyper.name.split("__")[-1] == "correlation":  # learned downwards; 1 says: no matter
            at_lower, at_upper = at_upper, False
        if not (at_lower or at_upper):
            continue
        side, remedy = ("lower", "Decreasing") if at_lower else ("upper", "Increasing")
        column = f", that of column {called[place]!r}," if place in called else ""
        warn(
            f"The optimal value found for dimension {dim} of parameter {hyper.name}{column} is "
            f"close to the specified {side} bound {hyper.bounds[dim][0 if at_lower else 1]}. "
            f"{remedy} the bound and calling fit again may find a better value.",
            ConvergenceWarning,
        )


def _columns_of(kernel: Kernel, columns: list[str]) -> dict[int, str]:
    """Names of the columns of length scales, by place in theta."""
    found: dict[int, str] = {}
    for places, numbers in length_scale_places(kernel, len(columns)):
        if len(places) == len(numbers):
            found.update(zip(places.tolist(), np.asarray(columns, dtype=object)[numbers]))
    return found


_FEWEST_ROWS = 20  # that can tell, also of a class
_ROWS = 500  # that are predicted
_LITTLE, _SHARE = 0.05, 0.25  # a fit explains nothing below these shares of the variance, and of c
_MOST = 3.0  # nats that a row can gain or lose
_FAR, _FEW = 8.0, 0.1  # median deviations of a target that is far, and share of rows that are few


# What constants have missed, and what to do then.
_ALIKE = (
    "rows that are near to each other are more alike than others. It may have missed structure "
    "that is finer than the length scales at which the search began. Pass a kernel that begins "
    "with shorter length scales, set n_restarts_optimizer, raise n_inducing where it is set, or "
    "set posterior='neighbors'."
)
_OUTLYING = (
    "without a few targets that are far from all others, near rows are more alike than others. Set "
    "likelihood='student_t', or remove these rows."
)
_LINEAR = "the targets are linear in X. Standardise X, and pass DotProduct() + WhiteKernel()."


def warn_of_constant_fits(found: Problems) -> None:
    """Warn of all classes or targets of which fits explain no more than a constant."""
    observations = found.observations
    with single_threaded_blas(), np.errstate(all="ignore"):
        named = [*_unexplained(found)]
    for missed in dict.fromkeys(missed for _, missed in named):
        listed = ", ".join(name for name, one in named if name and one == missed)
        of = f" of {listed}" if listed else ""
        text = f"{observations.name}: the fit{of} explains no more than a constant, but {missed}"
        warn(text, ConstantFitWarning)


def _unexplained(found: Problems) -> Iterator[tuple[str, str]]:
    """Names of the targets that fits have missed, of a single one that of its job, and of what."""
    observations, codes = found.observations, found.observations.columns().codes()
    for job, shares in zip(found.jobs, _explained(found)):
        if min(shares) >= _SHARE:
            continue
        some = sampled_batch(job, 2000)
        X = np.delete(some.X, codes, axis=1)  # codes of levels have no order
        for k, share in enumerate(shares):
            missed = _missed(job, X, some.y[:, k] - some.y[:, k].mean(), share)
            if missed:
                yield job.name if len(shares) == 1 else observations.target_name(k), missed


def _missed(job: Job, X: Array, y: Array, share: float) -> str:
    """Words for what a constant misses of targets (n,), of which a fit explains a share; or ""."""
    is_numeric, least = not job.objectives.has_sites, max(0.1, share / _SHARE)
    if job.rows.total_weight() < _FEWEST_ROWS:
        return _LINEAR if is_numeric and share < _LITTLE and _is_linear(X, y) else ""
    if share < _LITTLE and _likeness(X, y) > least:
        return _ALIKE
    usual = _are_usual(y) if is_numeric else np.ones(len(y), dtype=bool)
    alike = 0.0 if usual.all() else _likeness(X[usual], y[usual] - y[usual].mean())
    return _OUTLYING if alike > least else ""


def _is_linear(X: Array, y: Array) -> bool:
    """Whether centred targets (n,) are linear in X (n, d), which not any of as many are."""
    rank = np.linalg.matrix_rank(np.nan_to_num(X - np.nanmean(X, axis=0)))
    rest = linear_residual(X, y[:, None])
    return bool(y.any() and len(y) > rank + 1 and np.abs(rest).max() < 1e-8 * np.abs(y).max())


def _are_usual(y: Array) -> Bools:
    """Which targets (n,) are not far from all others; all of them unless few are."""
    apart = np.abs(y - np.median(y))
    usual = apart <= _FAR * np.median(apart)
    return usual | (np.mean(usual) < 1.0 - _FEW)


def _explained(found: Problems) -> list[list[float]]:
    """For every job, shares of the variance of its targets or classes that are explained."""
    fits, observations, rows = found.fits, found.observations, found.rows
    has_labels = rows.classes is not None and observations.have_all_rows
    if not has_labels or any(map(why_unknown, fits)):
        return [_of_fit(job, fit, found.blend) for job, fit in zip(found.jobs, fits)]
    labels = np.ravel(rows.y)
    chosen, weight = _some_of_each(labels, rows.row_weights(), len(rows.classes))
    view = observations.view(fits, found.scaler)._replace(calibration=found.blend)
    probabilities = left_out_labels(fits, view, chosen, observations.parameters.n_jobs)
    if len(fits) == 1 and observations.multi_class != "softmax":
        return [[_of_labels(probabilities, labels[chosen], weight)]]
    each = _of_each_class(probabilities, labels[chosen], weight)
    return [each] if observations.multi_class == "softmax" else [[share] for share in each]


def _some_of_each(labels: Ints, weight: Array, n_classes: int) -> tuple[Ints, Array]:
    """Numbers (k,) of some rows of every class, and weights with which they stand for all."""
    most = max(_FEWEST_ROWS, _ROWS // n_classes)
    order = np.random.RandomState(0).permutation(np.flatnonzero(weight > 0))
    every = [order[labels[order] == k] for k in range(n_classes)]
    some = [of_class[:most] for of_class in every]
    stand = [weight[s] * (weight[e].sum() / weight[s].sum()) for s, e in zip(some, every)]
    return np.concatenate(some), np.concatenate(stand)


def _of_each_class(probabilities: Array, labels: Ints, weight: Array) -> list[float]:
    """Shares that probabilities (k, n_classes) explain of every class against the others."""
    return [
        _of_labels(np.column_stack([1.0 - p, p]), (labels == k).astype(int), weight)
        for k, p in enumerate(probabilities.T)
    ]


def _of_labels(probabilities: Array, labels: Ints, weight: Array) -> float:
    """The share of labels (k,) from 0 to c - 1 that probabilities (k, c) explain."""
    truth = np.eye(probabilities.shape[1])[labels]
    share = np.average(truth, axis=0, weights=weight)
    gain = logs_of_labels(probabilities, labels) - np.log(share[labels])
    squares = np.sum((truth - share) ** 2 - (truth - probabilities) ** 2, axis=1)
    squares /= or_one(np.sum(share * (1.0 - share)))
    return max(_of_gain(gain, weight, -np.sum(xlogy(share, share))), _at_most(squares, weight))


def _of_fit(job: Job, fit: FittedJob, blend: WeightedMean | None) -> list[float]:
    """Shares of the variances of its targets that a fit explains of some rows."""
    chosen = job.rows.sample(_ROWS, np.random.RandomState(0))
    n_jobs = job.settings.options.n_jobs
    if why_unknown(fit) is None:
        found = left_out(fit, chosen, n_jobs, blend and blend.weights)
    else:
        X = job.rows.block(chosen).X
        found = LeftOutRows.of(fit, chosen, fit.posterior.mean_and_variance(X, n_jobs))
        if fit.likelihood is not None and fit.likelihood.n_latent > 1:
            probabilities = fit.likelihood.probability(found.mean.T, found.variance.T).T
            labels = np.ravel(found.block.y).astype(int)
            return _of_each_class(probabilities, labels, np.ones(len(chosen)))
    columns = zip(found.block.y.T, found.responses()[0].T, found.log_density().T)
    return [_of_numbers(found, *column) for column in columns]


def _of_numbers(found: LeftOutRows, y: Array, mean: Array, density: Array) -> float:
    """The share of the variance of a target (k,) that its predictions explain."""
    weight, likelihood = np.ones(len(y)), found.likelihood
    if np.ptp(y) == 0.0:
        return 1.0
    constant = _constant(found, y)
    has_density = likelihood is None or np.any(likelihood.is_density(y))
    most = np.inf if has_density else -float(np.mean(constant))
    squares = ((y - y.mean()) ** 2 - (y - mean) ** 2) / np.var(y)
    share = max(_of_gain(density - constant, weight, most), _at_most(squares, weight))
    usual = _are_usual(y)
    if likelihood is None and not usual.all():  # far targets would hide what is predicted of others
        return float(max(1.0 - np.var((y - mean)[usual]) / np.var(y[usual]), squares.mean()))
    return share


def _constant(found: LeftOutRows, y: Array) -> Array:
    """Log densities (k,) of a target at the likeliest latent distribution that all rows share."""
    centre, variance, likelihood = 0.0, 1.0, found.likelihood
    if likelihood is None:
        variance = float(np.var(y))
        centre, variance = y.mean(), max(variance - found.known.mean(), 0.01 * variance)

    def densities(theta: Array) -> Array:
        spread = np.full(len(y), np.exp(theta[1]))
        if likelihood is None:
            return log_normal_density(y, theta[0], np.sqrt(spread + found.known))
        latent = theta[0] + np.broadcast_to(found.block.offset, len(y))
        return likelihood.tilted(y, latent, spread)[0]

    start = np.array([centre, np.log(variance)])
    simplex = start + np.array([[0.0, 0.0], [0.5 * np.sqrt(variance), 0.0], [0.0, -0.5]])
    options = {"maxfev": 60, "initial_simplex": simplex}
    best = minimize(lambda t: -np.mean(densities(t)), start, method="Nelder-Mead", options=options)
    return densities(best.x)


def _of_gain(gain: Array, weight: Array, most: float) -> float:
    """The share of a variance that gains (k,) of at most so many nats are worth (Nagelkerke)."""
    likely = _at_most(np.clip(gain, -_MOST, _MOST), weight)
    return float(-np.expm1(-2.0 * likely) / or_one(-np.expm1(-2.0 * most)))


def _at_most(values: Array, weight: Array) -> float:
    """The mean of values (k,) with what it may be more by chance."""
    values, share = np.nan_to_num(values), weight / weight.sum()
    mean = np.sum(share * values)
    return float(mean + 2.0 * np.sqrt(np.sum((share * (values - mean)) ** 2)))


def _likeness(X: Array, y: Array) -> float:
    """The correlation of targets (n,) of near rows; 0 where it is not clearly positive."""
    variance = np.mean(y**2)
    if variance == 0.0:
        return 0.0
    shuffled = np.random.RandomState(0).permutation(len(X))  # of equal rows, any may be nearest
    X, y = X[shuffled], y[shuffled]
    there = ~np.isnan(X).any(axis=0) & (np.ptp(X, axis=0) > 0)
    X = X[:, there] / np.std(X[:, there], axis=0)
    found = [(lag_correlation(x, y), len(y)) for x in X.T]
    if X.shape[1] > 1:
        from sklearn.neighbors import NearestNeighbors  # an import that takes .1 s

        with openmp_threads():
            near = NearestNeighbors(n_neighbors=1).fit(X).kneighbors(return_distance=False)[:, 0]
        likeness = 1.0 - 0.5 * np.mean((y - y[near]) ** 2) / variance
        found.append((likeness, len(np.unique(near))))  # of equal rows, all may be near to one
    clear = (likeness for likeness, n in found if likeness > 4.0 / np.sqrt(n))
    return max(clear, default=0.0)  # from four standard errors on

"""Leave-one-out predictions of training rows, hyperparameters held, and conformal intervals.

The score of a training row is ``(y - m)/s``, with the mean m and the standard deviation s that all
other rows give it. A conformal interval has as many standard deviations of its own as the wanted
share of scores has at most (Barber, Candès, Ramdas and Tibshirani 2021, with scores in units of s).
"""

from numbers import Real
from typing import NamedTuple

import numpy as np

from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.dataset import Batch, Dataset, at
from skgp_sparse.data.moments import places_among
from skgp_sparse.engine.posterior import LEAVE_ONE_OUT, Posterior, noise_in_blocks
from skgp_sparse.engine.posteriors_around import CombinationWeights, MeanWeights
from skgp_sparse.explain.views import LabelView, Offset, RealView, centre_and_scale
from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse.ground.validation import BOOLS, Array, Ints, Pair, Scalars, is_name, require
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.methods.contract import Fits, FittedJob


class LooPrediction(NamedTuple):
    """Predictions of training rows, each given all others; see `SparseGPRegressor.loo_predict`.

    Parameters
    ----------
    mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
        In units of y.
    std : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Standard deviations, the noise included.
    log_density : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Log densities of the targets, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[20] += 1.0
    >>> loo = SparseGPRegressor(random_state=0).fit(X, y).loo_predict()
    >>> int(loo.log_density.argmin())
    20
    """

    mean: np.ndarray
    std: np.ndarray
    log_density: np.ndarray


class LeftOutRows(NamedTuple):
    """Latent values of some training rows, each predicted from all others, and the rows."""

    posterior: Posterior  # that was asked
    likelihood: Likelihood | None  # None: the noise is Gaussian
    chosen: Ints  # (k,) numbers of the rows in the table of the fit, sorted
    block: Batch  # the rows themselves, with standardised targets
    mean: Array  # (k, p)
    variance: Array  # (k,), or of several classes (k, c)
    noise: Scalars  # (k,) learned, 0 with a likelihood

    @classmethod
    def of(cls, fit: FittedJob, chosen: Ints, moments: Pair) -> "LeftOutRows":
        """The rows with moments of latent values, and noise as the posterior has it."""
        block, noise = fit.rows.block(chosen), np.zeros(len(chosen))
        if fit.likelihood is None:
            noise = noise_in_blocks(fit.posterior, block.X)
        return cls(fit.posterior, fit.likelihood, chosen, block, *moments, noise)

    @property
    def total(self) -> Array:
        """Variance (k,) with the learned noise."""
        return np.maximum(self.variance + self.noise, np.finfo(float).tiny)

    @property
    def known(self) -> Array:
        """Known noise variance (k,)."""
        return np.broadcast_to(self.block.noise, len(self.chosen))

    @property
    def latent(self) -> Pair:
        """Moments (k,) of what a likelihood sees."""
        return self.mean[:, 0] + self.block.offset, self.variance

    def responses(self) -> Pair:
        """Means (k, p) and variances (k,) of the targets."""
        if self.likelihood is None:
            return self.mean, self.total
        mean, variance = self.likelihood.response(*self.latent)
        return mean[:, None], variance

    def log_density(self) -> Array:
        """Log densities (k, p) of the targets."""
        if self.likelihood is not None:
            return self.likelihood.tilted(self.block.observed, *self.latent)[0][:, None]
        std = np.sqrt(self.total + self.known)
        return log_normal_density(self.block.y, self.mean, std[:, None])

    def without_own_noise(self, other: "LeftOutRows") -> "LeftOutRows":
        """The rows with noise from errors of other rows, where this is known."""
        place = np.minimum(np.searchsorted(other.chosen, self.chosen), len(other.chosen) - 1)
        is_known = other.chosen[place] == self.chosen
        return self._replace(noise=np.where(is_known, at(other.noise, place), self.noise))

    def beside(self, predicted: Array, weights: MeanWeights) -> "LeftOutRows":
        """The rows with moments of the weighted mean of the process and predictions (k, p)."""
        moments = weights.beside((self.mean, self.variance, self.noise), predicted)
        return self._replace(**dict(zip(("mean", "variance", "noise"), moments)))

    def combined(self, other: "LeftOutRows", weights: CombinationWeights) -> "LeftOutRows":
        """The rows with moments of a combination with a global process."""
        own, others = ((one.mean, one.variance, one.noise) for one in (self, other))
        mean, total, _ = weights.combined(own, others)
        return self._replace(mean=mean, variance=np.maximum(total - self.noise, 0.0))


def some_rows(rows: Dataset, most: int) -> Ints:
    """Numbers of at most so many rows of positive weight, the first of one fixed random order."""
    chosen = np.flatnonzero(rows.row_weights() > 0)
    if len(chosen) > most:
        chosen = np.sort(np.random.RandomState(0).permutation(chosen)[:most])
    return chosen


Weights = MeanWeights | None  # of another prediction beside the process; None: there is none


def left_out(
    fit: FittedJob, some: Ints, n_jobs: int | None, weights: Weights = None, own_noise: bool = True
) -> LeftOutRows:
    """`LeftOutRows` of some rows of a table, beside another prediction where it has weights.

    With `own_noise` False, noise that varies comes from the errors of other rows only.
    """
    with np.errstate(all="ignore"), single_threaded_blas():
        left = LeftOutRows.of(fit, some, _moments(fit, some, resolve_n_jobs(n_jobs)))
    if not own_noise and fit.left_out is not None:
        left = left.without_own_noise(fit.left_out)
    if not (weights is None or weights.is_added):
        left = left.beside(fit.mean[some], weights)
    if (both := fit.fit.combination) is None or both.weights is None:
        return left
    return left.combined(left_out(FittedJob(both.fit), some, n_jobs), both.weights)


def as_left_out(fit: FittedJob) -> FittedJob:
    """The fit as its rows were left out, which may be with fewer neighbours."""
    return fit if fit.left_out is None else fit.with_fit(posterior=fit.left_out.posterior)


def left_out_labels(fits: Fits, view: LabelView, some: Ints, n_jobs: int | None) -> Array:
    """Probabilities (k, n_classes) of some of the rows of fits to labels, as a view has them."""
    columns = []
    for fit in fits:
        known, place = np.unique(places_of(fit.rows)[some], return_inverse=True)
        left = left_out(fit, known, n_jobs)
        mean, variance = np.squeeze(left.mean.T), np.squeeze(left.variance.T)
        with np.errstate(all="ignore"):
            columns.append(fit.likelihood.probability(mean, variance).T[place])
    probabilities, mean = view.of_classes(np.column_stack(columns)), fits[0].mean
    if view.calibration is not None:
        latent = None if mean is None else mean[places_of(fits[0].rows)[some]]
        probabilities = view.calibration.combined(probabilities, latent)
    return view.weighted(probabilities)


def places_of(rows: ArrayDataset) -> Ints:
    """Number (n,) of each of the user's rows in the table of a fit, -1 if it is not there."""
    return np.arange(len(rows)) if rows.places is None else rows.places


def loo_prediction(
    fit: FittedJob, weights: Weights, n_jobs: int | None, name: str
) -> LooPrediction:
    """The `LooPrediction` of the user's own rows, in their order; raises where it is not known."""
    rows = _rows_of(fit, name)
    scaler, places, likelihood = rows.scaler, places_of(rows), fit.likelihood
    chosen, places = np.unique(places, return_inverse=True)
    left = left_out(fit, chosen, n_jobs, weights)
    mean, variance = left.responses()
    mean = scaler.inverse(mean)
    if weights is not None and weights.is_added and fit.mean is not None:
        mean = mean + fit.mean[chosen]
    std = scaler.inverse_std(np.sqrt(variance + left.known)[:, None])
    is_density = 1.0 if likelihood is None else likelihood.is_density(left.block.observed)
    with np.errstate(divide="ignore"):  # infinite where targets are constant
        log_scale = np.log(scaler.scale)
    density = scaler.among_constants(left.log_density()) - np.multiply.outer(is_density, log_scale)
    columns = mean, np.broadcast_to(std, mean.shape), density
    return LooPrediction(*(c[places, 0] if mean.shape[1] == 1 else c[places] for c in columns))


def loo_probabilities(fits: Fits, view: LabelView, n_jobs: int | None, name: str) -> Array:
    """Probabilities (n, n_classes) of the user's own rows, in their order."""
    if view.n_classes > 2 and view.multi_class == "one_vs_one":
        raise ValueError(
            f"{name} needs problems that have all rows. Got multi_class='one_vs_one'. Set it to "
            "'one_vs_rest' or 'softmax'."
        )
    rows = [_rows_of(fit, name) for fit in fits][0]  # which refuses fits that keep no rows
    return left_out_labels(fits, view, np.arange(len(places_of(rows))), n_jobs)


def _rows_of(fit: FittedJob, name: str) -> ArrayDataset:
    """The table of a fit, all rows of which can be left out; raises otherwise."""
    if (reason := why_unknown(fit)) is not None:
        raise ValueError(f"{name} {reason}")
    rows, places = fit.rows, places_of(fit.rows)
    if np.any(places < 0) or not rows.row_weights()[places].all():
        raise ValueError(
            f"{name} cannot leave out rows of weight zero, which were not in the fit. Fit without "
            "them, and predict these rows."
        )
    return rows


def why_no_rows(fit: FittedJob, remedy: str = "Call fit again with arrays.") -> str | None:
    """Why the rows of a fit cannot be read as known inputs, as part of an error; None: they can."""
    if fit.rows is None or not fit.rows.in_memory:
        return (
            "needs the training rows, which this estimator does not contain: it was fitted on a "
            f"cluster or from a large source, or loaded from a pickle. {remedy}"
        )
    known = "takes inputs as known, but fit was called with X_std. Call fit without X_std."
    return None if fit.rows.X_std is None else known


def why_unknown(fit: FittedJob) -> str | None:
    """Why rows cannot be left out of a fit, as part of an error; None: they can."""
    if (reason := why_no_rows(fit)) is not None:
        return reason
    if fit.terms.site_method is not None and fit.terms.sites is None:
        return "needs a fit to all rows at once, but this one saw samples. Set solver to 'lbfgs'."
    return fit.posterior.why_not(LEAVE_ONE_OUT)


def _moments(fit: FittedJob, chosen: Ints, n_jobs: int) -> Pair:
    """Moments of chosen rows, each given all others; a row that was not given is predicted."""
    posterior, used, given, known = fit.posterior, fit.used_rows, fit.rows, fit.left_out
    if known is not None and known.posterior is posterior and np.isin(chosen, known.chosen).all():
        place = np.searchsorted(known.chosen, chosen)
        return known.mean[place], known.variance[place]
    if used is given:
        return posterior.leave_one_out(used, chosen, fit.terms, n_jobs)
    rows, others = used.everything(), given.block(chosen)
    own, wanted = (np.column_stack([part.X, part.y]).astype(float) for part in (rows, others))
    place = places_among(own, wanted)
    is_there = place >= 0
    there, of_row = np.unique(place[is_there], return_inverse=True)
    mean, variance = posterior.mean_and_variance(others.X, n_jobs)
    left = posterior.leave_one_out(used, there, fit.terms, n_jobs)
    mean[is_there], variance[is_there] = (moment[of_row] for moment in left)
    return mean, variance


_MOST_ROWS = 5000  # whose scores are kept
Scores = tuple[Array, Array | None]  # (k, p) of rows, and how often (k,) these count; None: once


def scores_of(
    fit: FittedJob, weights: Weights, weight: Array | None, is_learned: bool, n_jobs: int | None
) -> Scores | None:
    """`Scores` of some rows of a fit, weighted as the user's (n,); None where they are unknown."""
    if why_unknown(fit) is not None:
        return None
    rows = fit.rows
    left = left_out(fit, some_rows(rows, _MOST_ROWS), n_jobs, weights, own_noise=False)
    centre, scale = left.mean, np.sqrt(left.total)
    if fit.likelihood is not None:
        centre, scale = centre_and_scale(fit.likelihood, *left.latent)
    optimism = _optimism(fit) if is_learned else 1.0
    values = (left.block.y - centre.reshape(left.mean.shape)) / scale[:, None] * optimism
    if not np.isfinite(values).all():
        return None
    place = np.full(len(rows) + 1, -1)  # of rows of the table, the last one of those without weight
    place[left.chosen] = np.arange(len(left.chosen))
    of_row = place[places_of(rows)]
    kept = of_row >= 0
    return values[of_row[kept]], None if weight is None else weight[kept]


def _optimism(fit: FittedJob) -> float:
    """Factor by which errors of new rows exceed those of rows that parameters have seen.

    Squared errors are larger by ``(n + p)/(n - p)`` for n numbers and p parameters (Akaike 1969),
    of which at most 0.6 n count. Inducing points and a metric are not counted.
    """
    rows, p = fit.used_rows, len(fit.kernel.theta)
    if p and fit.likelihood is not None:
        p += len(fit.likelihood.theta)
    n = rows.total_weight() * rows.n_targets
    p = min(p, 0.6 * n)
    return np.sqrt((n + p) / (n - p))


def check_interval(coverage: float, kind: str, side: str, name: str) -> None:
    """Raise unless an interval can be what is asked for."""
    is_right = isinstance(coverage, Real) and not isinstance(coverage, BOOLS) and 0 < coverage < 1
    require(is_right, "coverage", coverage, name, "a float between 0 and 1, both excluded")
    methods, sides = ("model", "conformal"), ("both", "lower", "upper")
    require(is_name(kind, *methods), "method", kind, name, f"one of {methods}")
    require(is_name(side, *sides), "side", side, name, f"one of {sides}")


def interval(
    view: RealView, X: Array, offset: Offset, coverage: float, side: str, width: Array | None
) -> Pair:
    """Ends, (n,) or (n, p), of intervals of the predictive distribution, or of a `width_of`."""
    if width is None:
        tail = 0.5 * (1.0 - coverage) if side == "both" else 1.0 - coverage
        lower, upper = np.moveaxis(view.quantiles(X, np.array([tail, 1.0 - tail]), offset), -1, 0)
    else:
        mean, std = view.centre_and_scale(X, offset)
        width = width[0] if mean.ndim == 1 else view.scaler.among_constants(width[None])
        lower, upper = mean - width * std, mean + width * std
    lower = np.full(lower.shape, -np.inf) if side == "upper" else lower
    upper = np.full(upper.shape, np.inf) if side == "lower" else upper
    return view.within_domain(lower), view.within_domain(upper)


def width_of(fit: FittedJob, scores: Scores | None, coverage: float, side: str, name: str) -> Array:
    """Standard deviations (p,) between mean and end: scores that enough rows do not exceed."""
    if scores is None:
        reason = why_unknown(fit) or (
            "needs rows that came by fit, not by partial_fit, and standard deviations above 0. Set "
            "method to 'model', or call fit."
        )
        raise ValueError(f"{name}: method='conformal' {reason}")
    values, weight = scores
    weight = np.ones(len(values)) if weight is None else weight
    needed = coverage * (weight.sum() + 1.0)
    if needed > weight.sum():
        fewest = int(np.ceil(coverage / (1.0 - coverage)))
        raise ValueError(
            f"{name}: the fit has {weight.sum():g} training rows, but a coverage of {coverage:g} "
            f"needs at least {fewest}. Lower coverage, or set method to 'model'."
        )
    targets = np.arange(values.shape[1])
    values = {"both": np.abs(values), "lower": -values, "upper": values}[side]
    order = np.argsort(values, axis=0)
    first = np.argmax(np.cumsum(weight[order], axis=0) >= needed * (1.0 - 1e-12), axis=0)
    return values[order[first, targets], targets]

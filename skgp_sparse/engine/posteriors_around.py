"""Posteriors around another one: beside a mean, at rows that lack values, less uncertain.

Each asks the other posterior and changes what it says: `PosteriorWithMissingValues` averages over
values of the columns that are missing, and `PosteriorWithMean` adds another prediction with a
weight that follows the variance. `TightPosterior` has the variances of the whole posterior given
inducing points.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit
from scipy.stats import norm, qmc

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Batch, row_blocks
from skgp_sparse.engine import posterior as contract
from skgp_sparse.engine.feature_posterior import SparsePosterior
from skgp_sparse.engine.posterior import Posterior, PosteriorAround, Slopes, float64
from skgp_sparse.ground.linalg import TINY, weighted_quantile
from skgp_sparse.ground.parallel import slices
from skgp_sparse.ground.validation import AnyArray, Array, Bools, Pair, Rng, Scalars

Moments = tuple[Array, Array, Any]  # means (n, p), latent variances (n,) and noise (n,)
_NOISE_SHARE = 0.02  # s
_VALUES = 32  # K
_ROWS_PER_BLOCK = 1024  # rows whose moments with all values are computed together
_ROWS = 20_000  # of training, which tell how values are spread


def spread_values(X: AnyArray, weight: Array | None) -> Array:
    """Values (K, d) that are spread as those of columns, independent; NaN where one is missing."""
    few = np.unique(np.linspace(0, len(X) - 1, _ROWS).astype(int))
    X, weight = float64(X[few]), np.ones(len(few)) if weight is None else weight[few]
    columns, random_state = [], np.random.RandomState(0)
    for x in X.T:
        values = weighted_quantile(x, weight, (random_state.permutation(_VALUES) + 0.5) / _VALUES)
        columns.append(np.full(_VALUES, np.nan) if np.isnan(x).any() else values)
    return np.column_stack(columns)


def missing_entries(X: Array, values: Array) -> Bools:
    """Whether entries (n, d) of rows are missing in columns that have `spread_values`."""
    return np.isnan(X) & ~np.isnan(values[0])


def averaged(function: Callable[[Array], Array], X: Array, values: Array | None) -> Array:
    """A function (n, q) of rows (n, d), averaged over the `spread_values` of missing entries."""
    if values is None:
        return function(X)
    is_missing = missing_entries(X, values)
    found = function(np.where(is_missing, values[0], X))
    rows = np.flatnonzero(is_missing.any(axis=1))
    for block in slices(len(rows), _ROWS_PER_BLOCK):
        some = rows[block]
        every = np.where(is_missing[some], values[:, None], X[some]).reshape(-1, X.shape[1])
        found[some] = function(every).reshape(len(values), len(some), -1).mean(axis=0)
    return found


# Queries may lack values of columns in which no training row lacked one. A missing value is taken
# to be one of K values that are spread as those of its column in training, whatever the row is
# otherwise. With the moments m_k and C_k of rows x_k that have these values,
#
#     mean = Σ m_k / K,     var = Σ (v_k + (m_k - mean)²) / K + s u · (number of missing values).
#
# Off the diagonal, the covariance is the mean of C_k, where rows have values that are independent
# of each other's. What it may say that a value is missing is noise: a share s, that of the start
# of the noise of `Missing`, of the variance u of means of rows whose values are those of all
# columns.
@dataclass(frozen=True, eq=False)
class PosteriorWithMissingValues(PosteriorAround):
    """A posterior at rows in which values may be missing."""

    values: Array  # (K, d), as of `spread_values`

    remedy = "No value was missing in these columns in fit: impute those of X."

    def noise_variance(self, X: AnyArray) -> Scalars:
        """Learned noise variance where missing values are medians."""
        X, medians = float64(X), np.sort(self.values, axis=0)[_VALUES // 2]
        return self.posterior.noise_variance(np.where(missing_entries(X, self.values), medians, X))

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Mean, in the shape of that of the process."""
        return averaged(lambda rows: self.posterior.mean(rows, n_jobs), float64(X), self.values)

    def inputs(self, X: AnyArray) -> Array:
        """Rows with one of the values where they lack one."""
        return self._filled(float64(X), 0)

    def outputs(self, X: AnyArray, mean: Array, variance: Array, n_jobs: int = 1) -> Pair:
        """Mean and latent variance, averaged over the values where rows lack one."""
        X = float64(X)
        lacking = np.flatnonzero(missing_entries(X, self.values).any(axis=1))
        for block in slices(len(lacking), _ROWS_PER_BLOCK):
            rows = lacking[block]
            every = np.where(np.isnan(X[rows]), self.values[:, None], X[rows])
            moments = self.posterior.mean_and_variance(every.reshape(-1, X.shape[1]), n_jobs)
            means, variances = (one.reshape(_VALUES, -1, *one.shape[1:]) for one in moments)
            mean[rows] = means.mean(axis=0)
            variance[rows] = variances.mean(axis=0) + self._own(X[rows], means, variance.ndim)
        return mean, variance

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance."""
        X = float64(X)
        filled = [self._filled(X, k) for k in range(_VALUES)]
        cov = sum((self.posterior.covariance(one) for one in filled), np.zeros(())) / _VALUES
        means = np.stack([self.posterior.mean(one) for one in filled])
        rows = np.arange(len(X))
        cov[rows, rows] += self._own(X, means, cov.ndim - 1)
        return cov

    def deviations(self, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
        """Latent samples minus the mean, each with values that are drawn."""
        X, mean = float64(X), self.mean(X)
        of_missing = np.random.RandomState(random_state.randint(2**31))
        drawn, parts = random_state.randint(_VALUES, size=n_samples), []
        for k in np.unique(drawn):
            own, filled = np.flatnonzero(drawn == k), self._filled(X, k)
            draws = self.posterior.deviations(filled, len(own), random_state)
            apart = self.posterior.mean(filled) - mean
            targets = own * mean.shape[1] // n_samples  # one after the other
            parts.append(draws + (apart[:, targets] if draws.ndim == 2 else apart[:, None]))
        draws = np.concatenate(parts, axis=1)
        draws[:, np.argsort(drawn, kind="stable")] = draws.copy()
        noise = np.sqrt(self._noise(X, draws.ndim - 1))
        normal = of_missing.normal(size=(n_samples, *draws.shape[2:], len(X)))
        return draws + np.moveaxis(normal, -1, 0) * noise.reshape(len(X), *[1] * (draws.ndim - 1))

    def _filled(self, X: Array, k: int) -> Array:
        """Rows with the value number k, and others in other rows, where they lack one."""
        return np.where(np.isnan(X), self.values[(k + np.arange(len(X))) % _VALUES], X)

    def _own(self, X: Array, means: Array, ndim: int) -> Array:
        """Additional variance (n,) or (n, k) of rows because of their missing values."""
        spread = means.var(axis=0)
        return (spread.max(axis=1) if ndim == 1 else spread) + self._noise(X, ndim)

    def _noise(self, X: Array, ndim: int) -> Array:
        count = missing_entries(X, self.values).sum(axis=1)
        noise = _NOISE_SHARE * self._unit
        return count * noise.max() if ndim == 1 else count[:, None] * noise

    @cached_property
    def _unit(self) -> Array:
        """Variances of means over rows like those of training, of each target or process."""
        return self.posterior.mean(self.values).var(axis=0)


_ANSWERS = frozenset([contract.FUNCTIONS, contract.NORMALS])  # where the process has them
_LEAST_LEVEL = 1e-4  # of a quantile
_INPUTS = 64  # inputs that stand for one that has a normal distribution


class MeanWeights(NamedTuple):
    """Weights w of another prediction, and factors φ² of variances."""

    intercept: Array  # (p,) a
    slope: Array  # (p,) b, zero where the weight is the same everywhere
    error: Array  # (p,) e, mean squared error of the other prediction
    log_factor: tuple[float, float] = (0.0, 0.0)  # c and d, which multiplies an average of weights
    is_added: bool = False  # the other prediction, with a weight of one, to that of the process

    @classmethod
    def added(cls, p: int) -> "MeanWeights":
        """The weights of a prediction of p targets that is added to that of a process."""
        return cls(np.full(p, np.inf), np.zeros(p), np.ones(p), is_added=True)

    def of(self, variance: Array) -> Array:
        """Weights (n, p) where the predictive variance is (n,)."""
        ratio = np.maximum(variance, TINY)[:, None] / np.maximum(self.error, TINY)
        return expit(self.intercept + self.slope * np.log(ratio))

    def of_process(self, weight: Array) -> Array:
        """Weights (n, p) of the process, from those of the other prediction."""
        return np.ones_like(weight) if self.is_added else 1.0 - weight

    def beside(self, moments: Moments, predicted: Array) -> Moments:
        """Mean (n, p), latent variance and noise (n,) beside another prediction (n, p)."""
        mean, variance, noise = moments
        weight = self.of(variance + noise)
        factor = self.factor(weight)
        mean = self.of_process(weight) * mean + weight * predicted
        return mean, factor * variance, factor * noise

    def factor(self, weight: Array) -> Array:
        """Factors (n,) of variances, from weights (n, p)."""
        constant, of_weight = self.log_factor
        return np.exp(constant + of_weight * weight.mean(axis=1))


# The weight of another prediction follows the variance. A process knows where it does not know:
# its predictive variance v(x), noise included, is large there. With the mean μ of the process g
# and another prediction m,
#
#     w(x) = s(a + b log(v(x) / e)),    s(z) = 1 / (1 + exp(-z)),
#     f(x) = (1 - w(x)) μ(x) + w(x) m(x) + φ(x) (g(x) - μ(x)),    φ(x)² = exp(c + d w(x)),
#
# where e is the mean squared error of m. The numbers a, b, c and d are learned from rows that are
# left out (stacked regression, Breiman 1996, with weights that depend on the query). Where the
# process is that of residuals of m, both are added: f(x) = g(x) + m(x).
@dataclass(frozen=True, eq=False)
class PosteriorWithMean(PosteriorAround):
    """A weighted mean of a process and of another prediction."""

    predict: Callable[[np.ndarray], np.ndarray]  # m (n, p) of rows (n, d), standardised
    weights: MeanWeights
    is_flat: bool = True  # whether the gradient of m is zero nearly everywhere, as that of trees

    remedy = "Set mean to None."

    @property
    def answers(self) -> frozenset[str]:  # type: ignore[override]
        """Names of questions, without gradients of other predictions that have some."""
        more = {contract.GRADIENTS} if self.is_flat else set[str]()
        return self.posterior.answers & (_ANSWERS | more)

    def why_not(self, question: str) -> str | None:
        """Reason of the process, or that the other prediction has no such answer."""
        return self.posterior.why_not(question) or super().why_not(question)

    def outputs(self, X: AnyArray, mean: Array, variance: Array, n_jobs: int = 1) -> Pair:
        """Weighted mean and latent variance."""
        moments = mean, variance, contract.noise_in_blocks(self.posterior, X)
        return self.weights.beside(moments, self.predict(float64(X)))[:2]

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Weighted mean (n, p)."""
        return self.mean_and_variance(X, n_jobs)[0]

    def moments(self, X: AnyArray, n_jobs: int = 1) -> tuple[Array, Array, Array]:
        """Weighted mean, latent variance and variance of the noise."""
        return self.weights.beside(self.posterior.moments(X, n_jobs), self.predict(float64(X)))

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance."""
        std = np.sqrt(self._factor(X))
        return std[:, None] * std * self.posterior.covariance(X)

    def deviations(self, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
        """Latent samples minus the mean."""
        drawn = self.posterior.deviations(X, n_samples, random_state)
        return np.sqrt(self._factor(X))[:, None] * drawn

    def noise_variance(self, X: AnyArray) -> Scalars:
        """Learned noise variance, which has the factor of all variances."""
        return self._factor(X) * self.posterior.noise_variance(X)

    def prior_variance(self, X: AnyArray) -> Scalars:
        """Variance before any data, where the process knows least."""
        prior = np.broadcast_to(self.posterior.prior_variance(X), len(X))
        weight = self.weights.of(prior + contract.noise_in_blocks(self.posterior, X))
        return self.weights.factor(weight) * prior

    def weight(self, X: AnyArray) -> Array:
        """Weights (n, p) of the other prediction."""
        _, variance, noise = self.posterior.moments(X)
        return self.weights.of(variance + noise)

    def gradients(self, X: AnyArray, latent: bool, n_jobs: int = 1) -> Slopes:
        """`Slopes`, where that of the other prediction is zero."""
        X = float64(X)
        total = self.posterior.gradients(X, False, n_jobs)
        found = self.posterior.gradients(X, True, n_jobs) if latent else total
        weight, weight_slope = self._weight_and_slope(total)
        predicted, share = self.predict(X), self.weights.of_process(weight)
        change = (predicted - found.mean)[:, :, None]
        factor = self.weights.factor(weight)
        of_factor = factor[:, None] * self.weights.log_factor[1] * weight_slope.mean(axis=1)
        return Slopes(
            share * found.mean + weight * predicted,
            factor * found.variance,
            share[:, :, None] * found.mean_slope + change * weight_slope,
            factor[:, None] * found.variance_slope + found.variance[:, None] * of_factor,
        )

    def sample_functions(self, n_functions: int, n_frequencies: int, random_state: Rng) -> Any:
        """`SampledFunctions`, which share the weighted mean."""
        found = self.posterior.sample_functions(n_functions, n_frequencies, random_state)
        u = self.posterior.points[1]
        found.coefficients = found.coefficients - np.repeat(u, n_functions, axis=1)
        found.shared, found.factors = self, np.repeat(np.eye(u.shape[1]), n_functions, axis=1)
        return found

    def mean_and_factor(self, X: Array) -> Pair:
        """Weighted means (n, p) and factors φ (n,), which sampled functions share."""
        moments = self.posterior.moments(X)
        mean = self.weights.beside(moments, self.predict(float64(X)))[0]
        return mean, np.sqrt(self.weights.factor(self.weights.of(moments[1] + moments[2])))

    def slopes_of_mean_and_factor(self, X: Array) -> Pair:
        """Derivatives (n, p, d) and (n, d) of `mean_and_factor`."""
        weight, slope = self._weight_and_slope(self.posterior.gradients(X, False))
        half = 0.5 * self.weights.log_factor[1] * np.sqrt(self.weights.factor(weight))
        return self.gradients(X, False).mean_slope, half[:, None] * slope.mean(axis=1)

    def predict_normals(self, X: AnyArray, X_std: AnyArray, n_jobs: int = 1) -> Pair:
        """Moments of the mixture of predictions at inputs of a Sobol sequence."""
        return normal_mixture(self, X, X_std, n_jobs)

    def _factor(self, X: AnyArray) -> Array:
        """Factors (n,) of variances."""
        return self.weights.factor(self.weight(X))

    def _weight_and_slope(self, total: Slopes) -> Pair:
        """Weights (n, p) and their derivatives (n, p, d), from `Slopes` with the noise."""
        weight = self.weights.of(total.variance)
        of_log = self.weights.slope * weight * (1.0 - weight)
        relative = total.variance_slope / np.maximum(total.variance, TINY)[:, None]
        return weight, of_log[:, :, None] * relative[:, None]


def normal_mixture(posterior: Posterior, X: AnyArray, X_std: AnyArray, n_jobs: int) -> Pair:
    """Moments (n, p) of the mixture of predictions at inputs with a normal distribution each."""
    X, X_std = float64(X), float64(X_std)
    levels = qmc.Sobol(X.shape[1], seed=0).random(_INPUTS)
    normal = norm.ppf(np.clip(levels, _LEAST_LEVEL, 1.0 - _LEAST_LEVEL))
    moments = [posterior.mean_and_variance(X + X_std * z, n_jobs) for z in normal]
    means, variances = (np.stack(one) for one in zip(*moments))
    return means.mean(axis=0), variances.mean(axis=0)[:, None] + means.var(axis=0)


class CombinationWeights(NamedTuple):
    """Weights w of a first posterior beside a global process."""

    intercept: float  # a
    slope: float  # b
    noise: float  # typical noise variance of the first one

    def combined(self, first: Moments, other: Moments) -> tuple[Array, Array, Array]:
        """Means (n, p), variances (n,) with noise, and weights (n,)."""
        local, t0 = self.totals(first, other)
        weight = expit(self.intercept + self.slope * np.log(t0 / local))
        mean = weight[:, None] * first[0] + (1.0 - weight)[:, None] * other[0]
        return mean, (weight * np.sqrt(local) + (1.0 - weight) * np.sqrt(t0)) ** 2, weight

    def totals(self, first: Moments, other: Moments) -> Pair:
        """Variances (n,) of both, noise included."""
        ratio = (first[2] + TINY) / (self.noise + TINY)
        return np.maximum(first[1] + first[2], TINY), np.maximum(other[1] + ratio * other[2], TINY)


# With means m and variances t, noise included, of neighbours (1) and of a global process (0),
#
#     w = s(a + b log(t_0 / t_1)),    m = w m_1 + (1 - w) m_0,    std = w t_1^½ + (1 - w) t_0^½.
#
# The noise is that of neighbours; where it varies, that of the global process does in proportion.
@dataclass(frozen=True, eq=False)
class CombinedPosterior(PosteriorAround):
    """Predictions from neighbours where rows are near, and of a global process elsewhere."""

    other: Posterior
    weights: CombinationWeights

    name = "neighbors+inducing"
    remedy = "Set posterior to 'exact' or 'inducing'."
    answers = property(lambda self: self.posterior.answers & {contract.GRADIENTS})
    both = property(lambda self: (self.posterior, self.other))

    deviations = Posterior.deviations  # with the covariance of both

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Combined mean (n, p)."""
        return self.moments(X, n_jobs)[0]

    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> Pair:
        """Combined mean and latent variance."""
        return self.moments(X, n_jobs)[:2]

    def moments(self, X: AnyArray, n_jobs: int = 1) -> tuple[Array, Array, Array]:
        """Combined mean, latent variance and variance of the noise."""
        return self._combined(*(one.moments(X, n_jobs) for one in self.both))

    def noise_variance(self, X: AnyArray) -> Scalars:
        """Learned noise variance."""
        return self.posterior.noise_variance(X)

    def prior_variance(self, X: AnyArray) -> Scalars:
        """Variance before any data."""
        variances = [np.broadcast_to(one.prior_variance(X), len(X)) for one in self.both]
        noises = [contract.noise_in_blocks(one, X) for one in self.both]
        return self._combined(*zip([np.zeros((len(X), 1))] * 2, variances, noises))[1]

    def weight(self, X: AnyArray) -> Array:
        """Weights (n, p) of another prediction beside neighbours."""
        share = self.weights.combined(*(one.moments(X) for one in self.both))[2]
        return share[:, None] * self.both[0].weight(X)

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance, with the correlations of both."""
        moments = [one.moments(X) for one in self.both]
        weight, variance = self.weights.combined(*moments)[2], self._combined(*moments)[1]
        parts = zip((weight, 1.0 - weight), self.both)
        cov: Array | Any = sum(w[:, None] * w * one.covariance(X) for w, one in parts)
        ratio = np.sqrt(variance / np.maximum(cov.diagonal(), TINY))
        cov *= ratio[:, None] * ratio
        cov.flat[:: len(cov) + 1] = variance
        return cov

    def gradients(self, X: AnyArray, latent: bool, n_jobs: int = 1) -> Slopes:
        """`Slopes` of the combined predictions."""
        near, known = (self.posterior.gradients(X, one, n_jobs) for one in (False, True))
        far, noise_0 = self.other.gradients(X, True, n_jobs), self.other.noise_variance(X)
        noise = near.variance - known.variance
        noise_slope = near.variance_slope - known.variance_slope
        first, other = (near.mean, known.variance, noise), (far.mean, far.variance, noise_0)
        mean, total, weight = self.weights.combined(first, other)
        local, t0 = self.weights.totals(first, other)
        share = np.broadcast_to(noise_0 / (self.weights.noise + TINY), len(X))
        of_local = near.variance_slope / local[:, None]  # slopes of logarithms
        of_other = (far.variance_slope + share[:, None] * noise_slope) / t0[:, None]
        rest, std, std_0 = 1.0 - weight, np.sqrt(local), np.sqrt(t0)
        weight_slope = (self.weights.slope * weight * rest)[:, None] * (of_other - of_local)
        std_slope = (0.5 * weight * std)[:, None] * of_local
        std_slope += (0.5 * rest * std_0)[:, None] * of_other
        std_slope += (std - std_0)[:, None] * weight_slope
        mean_slope = weight[:, None, None] * near.mean_slope + rest[:, None, None] * far.mean_slope
        mean_slope += (near.mean - far.mean)[:, :, None] * weight_slope[:, None]
        slope = 2.0 * np.sqrt(total)[:, None] * std_slope
        if latent:
            slope -= noise_slope
            total = np.maximum(total - noise, np.finfo(float).eps * total)
        return Slopes(mean, total, mean_slope, slope)

    def _combined(self, first: Moments, other: Moments) -> tuple[Array, Array, Array]:
        """Mean, latent variance and noise from the moments of both."""
        mean, total, _ = self.weights.combined(first, other)
        return mean, np.maximum(total - first[2], np.finfo(float).eps * total), first[2]


_SMALLEST_SHARE = 1e-8  # variance of a direction that is told from none, as a share of the process


# With the residual process ``R = K - V Vᵀ`` of the rows, ``N = diag(σ²/w)``, ``x = r/σ²``, and
# the slope of a variational objective, ``v = -2 ∂F/∂x = 2 φ' reduce'``, the posterior of the rows
# is
#
#     q(f | u) = N( Kfu Kuu⁻¹ u,  N^½ S v S N^½ ),     S = (N^-½ R N^-½)^½
#
# instead of ``R``, which is the case v = 1 (Titsias 2025, eq. 13, where N is the same for all
# rows and cancels). The mean is that of v = 1, and so is q(u). At any place ``*`` the residual
# process is ``R_*f R⁻¹ (f - Kfu Kuu⁻¹ u)`` plus a rest that is independent of f, so that (eq. 17)
#
#     var = var of v = 1  -  ‖(1 - v)^½ S⁻¹ N^-½ R_f*‖².
#
# The variances take the eigenvalues of an n × n matrix. Directions in which the residual process
# hardly varies, the jitter of ``Kuu`` among them, keep v = 1.
@dataclass(frozen=True, eq=False)
class TightPosterior(PosteriorAround):
    """The process given data, with smaller variances than those of its inducing points alone."""

    X: np.ndarray  # (n, d) of training
    weights: np.ndarray  # (n, n) ``N^-½ S⁻¹ (1 - v)^½``
    explained: np.ndarray  # (m, n) ``Vᵀ`` times these

    name = "inducing"
    answers = frozenset([contract.BOUNDS])
    remedy = "Set tight_variance to False, and call fit, not partial_fit."
    holds_rows = True

    features = property(attrgetter("posterior.features"))
    width = n_rows_kept = property(lambda self: len(self.X))

    def outputs(self, X: AnyArray, mean: Array, variance: Array, n_jobs: int = 1) -> Pair:
        """Mean (n, p) and smaller latent variance (n,)."""
        blocks = row_blocks(len(X), self.width)
        gain = contract.by_blocks(lambda X: (self._gains(X) ** 2).sum(axis=1), X, blocks, n_jobs)
        signal = np.broadcast_to(kernels.diagonal(self.kernel, float64(X))[0], len(X))
        return mean, contract.without_negative(variance - gain, signal)

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance (n, n)."""
        gains = self._gains(float64(X))
        cov = self.posterior.covariance(X) - gains @ gains.T
        signal = kernels.diagonal(self.kernel, float64(X))[0]
        cov.flat[:: len(cov) + 1] = contract.without_negative(cov.diagonal(), signal)
        return cov

    def deviations(self, X: AnyArray, n_samples: int, random_state: Rng) -> Array:
        """Latent samples minus the mean (n, n_samples), of many rows correlated as for v = 1."""
        if len(X) <= contract.JOINT_ROWS:
            return contract.joint_deviations(self, X, n_samples, random_state)
        before, now = (one.mean_and_variance(X)[1] for one in (self.posterior, self))
        shrunk = np.sqrt(np.divide(now, before, out=np.zeros_like(now), where=before > 0))
        return shrunk[:, None] * self.posterior.deviations(X, n_samples, random_state)

    def _gains(self, X: Array) -> Array:
        """``R_*f N^-½ S⁻¹ (1 - v)^½`` (q, n)."""
        V = self.features.whiten(self.features.raw(X))
        return kernels.evaluate(self.kernel, X, self.X) @ self.weights - V @ self.explained


def tightened(plain: SparsePosterior, rows: Batch, bound: Any) -> TightPosterior:
    """The `TightPosterior` given all rows and a variational bound without a noise share."""
    X, _, noise, weight, _ = rows.used()
    signal, learned, _ = kernels.diagonal(plain.kernel, X)
    s2 = noise + learned
    V = plain.features.whiten(plain.features.raw(X))
    residual = plain.features.residual_covariance(X, V)
    x = np.maximum(residual.diagonal(), 0.0) / s2
    root = np.sqrt(weight / s2)  # N^-½
    residual *= root
    residual *= root[:, None]
    values, directions = eigh(residual, overwrite_a=True, check_finite=False, driver="evd")
    kept = values > _SMALLEST_SHARE * np.mean(signal * root**2)
    directions = directions[:, kept]
    weights = (directions / np.sqrt(values[kept])) @ directions.T  # S⁻¹
    weights *= root[:, None]
    phi, slope = bound.for_weights(weight).penalty(x)
    # 2 φ' reduce', at x = r/σ²
    v = 2.0 * bound.reduce(float(weight @ phi), np.sum(weight))[1] * slope
    weights *= np.sqrt(np.maximum(1.0 - v, 0.0))
    return TightPosterior(plain, X, weights, V.T @ weights)

"""Likelihoods of counts.

The gamma likelihood.
"""

from typing import Any

import numpy as np

from skgp_sparse._ground.quadrature import log_moments
from skgp_sparse._ground.validation import Array, Limits, Scalars, Triple
from skgp_sparse.likelihoods import _special as special
from skgp_sparse.likelihoods._base import Domain, LogLink, best_constant, log_of_mean
from skgp_sparse.likelihoods._quantiles import count_quantile, gamma_quantile


class Gamma(special.Exponential):
    r"""Gamma likelihood of positive numbers with mean ``μ = exp(f + level)``.

    The standard deviation is ``μ / √shape``. A shape of one is the exponential distribution. The
    expected log likelihood has the closed form

        E[log p] = k log k - log Γ(k) + (k - 1) log y - k m - k y exp(-m + s/2),

    where ``k`` is the shape, ``m = mean + level`` and ``s = variance``. `tilted` is a numerical
    integral.

    Parameters
    ----------
    shape : float, default=1.0
        The shape of the distribution.
    shape_bounds : pair of float or "fixed", default=(1e-3, 1e5)
        The lower and upper bound on `shape`. If set to "fixed", the shape is not learned.
    level : float, default=None
        The logarithm of the mean at ``f = 0``. If None, a fit starts with the logarithm of the mean
        observation.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Gamma
    >>> Gamma(shape=4.0).response(np.zeros(1), np.zeros(1))
    (array([1.]), array([0.25]))
    >>> Gamma().quantile(0.5, np.zeros(1), np.zeros(1)).round(4)
    array([0.6931])
    """

    domain = Domain(
        "observations y > 0",
        low=0.0,
        without=(0.0,),
        remedy='Use likelihood="poisson" if there are zeros, or likelihood="student_t".',
    )
    parameters = ("level", "shape")
    sign = -1.0
    _share = property(lambda self: 1.0 / self.shape)

    def __init__(
        self,
        shape: float = 1.0,
        shape_bounds: Limits = (1e-3, 1e5),
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(level, level_bounds)
        self.shape = shape
        self.shape_bounds = shape_bounds

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return sites whose mode is the observation; see `Likelihood.first_sites`."""
        precision = np.full(len(y), float(self.shape))
        return precision * (np.log(y) - self.intercept), precision

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the quantile of a continuous distribution; see `Likelihood.quantile`."""
        return gamma_quantile(q, self._shifted(mean), variance, self.shape)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw positive numbers, none of which is rounded to zero; see `Likelihood.sample`."""
        return np.maximum(self._draw_means(f, random_state), np.finfo(float).tiny)

    def _best_level(self, y: Array, weight: Array, offset: Array) -> float:
        return log_of_mean(y * np.exp(-offset), weight, np.zeros(len(y)))

    def _form(self, y: Array, mean: Array) -> tuple[Any, ...]:
        k = self.shape
        return k, k, np.log(y) - self._shifted(mean), special.gamma_peak(k) - np.log(y)

    def _others(self, y: Array, slope: Array, power: Scalars, exponent: Array) -> dict[str, Array]:  # type: ignore[override]
        return {"shape": power * (self.shape * special.digamma_rest(self.shape) + exponent)}


_LOG_2PI = np.log(2.0 * np.pi)
_LARGEST_RATE = 1e15  # that NumPy draws Poisson numbers of exactly enough
_STRIP = 0.5 * np.pi  # beyond which powers of the sigmoid grow like the size and the count


class _Count(LogLink):
    """Likelihoods of observations that are not negative, whose mean is ``exp(f + level)``."""

    domain = Domain(
        "counts y >= 0", low=0.0, remedy='Use likelihood="student_t" or likelihood="gaussian".'
    )

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return sites whose mode is the observation; see `Likelihood.first_sites`."""
        precision = y + 0.5
        return precision * (np.log(precision) - self.intercept), precision

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of a count; see `Likelihood.response`."""
        rate, spread = super().response(mean, variance)
        return rate, rate + spread


class Poisson(_Count, special.Exponential):
    r"""Poisson likelihood of counts, ``p(y | f) = r^y exp(-r) / y!`` with ``r = exp(f + level)``.

    The expected log likelihood has the closed form

        E[log p] = y m - exp(m + s/2) - log y!,    m = mean + level,    s = variance.

    `tilted` is a numerical integral. Observations that are not integers are allowed; the factorial
    is then a gamma function.

    Parameters
    ----------
    level : float, default=None
        The logarithm of the rate at ``f = 0``. If None, a fit starts with the logarithm of the mean
        observation.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Poisson
    >>> rate, variance = Poisson().response(np.zeros(1), np.ones(1))
    >>> rate.round(3), variance.round(3)
    (array([1.649]), array([6.319]))
    >>> Poisson().quantile(0.95, np.zeros(1), np.ones(1))
    array([6.])
    """

    _share = 0.0

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the smallest such integers; see `Likelihood.quantile`."""
        return count_quantile(q, self._shifted(mean), variance)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw counts, from a normal distribution if the rate exceeds 1e15."""
        with np.errstate(over="ignore"):
            return _draw(np.exp(self._shifted(f)), random_state)

    def _form(self, y: Array, mean: Array) -> tuple[Any, ...]:
        scale = np.where(y > 0.0, y, 1.0)
        peak = -0.5 * (_LOG_2PI + np.log(scale)) - special.stirling_rest(scale)
        v = self._shifted(mean) - np.log(scale)
        return y, scale, v, np.where(y > 0.0, peak, -1.0)


class NegativeBinomial(_Count):
    r"""Negative binomial likelihood of counts with mean ``μ = exp(f + level)``.

    Its variance is ``μ + μ² / size``, more than that of the Poisson likelihood, which is the limit
    of a large size. With ``x = f + level - log(size)`` and the sigmoid ``s``,

        p(y | f) = Γ(y + size) / (Γ(size) y!) s(x)^y s(-x)^size.

    Expectations are computed by numerical integrals. Observations that are not integers are
    allowed; the factorial is then a gamma function.

    Parameters
    ----------
    size : float, default=10.0
        The number that determines how much the variance exceeds the mean.
    size_bounds : pair of float or "fixed", default=(1e-3, 1e5)
        The lower and upper bound on `size`. If set to "fixed", the size is not learned. Counts with
        the variance of Poisson counts lead to the upper bound.
    level : float, default=None
        The logarithm of the mean at ``f = 0``. If None, a fit starts with the logarithm of the mean
        observation.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import NegativeBinomial
    >>> mean, variance = NegativeBinomial(size=2.0).response(np.zeros(1), np.zeros(1))
    >>> mean, variance
    (array([1.]), array([1.5]))
    """

    parameters = ("level", "size")
    _share = property(lambda self: 1.0 / self.size)

    def __init__(
        self,
        size: float = 10.0,
        size_bounds: Limits = (1e-3, 1e5),
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(level, level_bounds)
        self.size = size
        self.size_bounds = size_bounds

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant mean; see the base class."""

        def log_likelihood(y: Array, f: Array) -> Triple:
            value, *derivatives, _ = self._log_sigmoids(self._logit(f), y)
            return value + self._log_binomial(y), *derivatives

        level, most = log_of_mean(y, weight, offset), 200 if weight @ y > 0.0 else 0
        return best_constant(log_likelihood, y, weight, offset, level, max_iter=most)

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the smallest such integers; see `Likelihood.quantile`."""
        return count_quantile(q, self._shifted(mean), variance, self.size)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw counts, from a normal distribution if the rate exceeds 1e15."""
        return _draw(self._draw_means(f, random_state), random_state)

    def _others(self, y: Array, slope: Array, power: Scalars, low: Array) -> dict[str, Array]:  # type: ignore[override]
        return {"size": power * self.size * (self._rise(y) - low) - slope}

    def _logit(self, mean: Array) -> Array:
        return self._shifted(mean) - np.log(self.size)

    def _expected(self, y: Array, mean: Array, variance: Array) -> tuple[Any, ...]:
        """`expected`, and the expectation of ``log(1 + e^x)``."""
        sigmoids = special.expected_sigmoids(self._logit(mean), variance)
        value, *means = special.of_counts(y, self.size, *sigmoids)
        return value + self._log_binomial(y), *means

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> tuple[Any, ...]:
        """`tilted`, and the expectation of ``log(1 + e^x)`` under the tilted distribution."""
        x = self._logit(mean)
        value, *means = log_moments(self._log_sigmoids, x, variance, power, _STRIP, y)
        return value + power * self._log_binomial(y), *means

    def _log_sigmoids(self, x: Array, y: Array) -> tuple[Any, ...]:
        return special.of_counts(y, self.size, *special.softplus_and_sigmoid(x))

    def _log_binomial(self, y: Array) -> Array:
        """``log Γ(y + size) - log Γ(size) - log Γ(y + 1)``, whose large parts cancel."""
        size, safe = self.size, np.where(y > 0.0, y, 1.0)
        rest = special.stirling_rest
        log_binomial = (size - 0.5) * np.log1p(safe / size) + safe * np.log1p(size / safe)
        half = 0.5 * (_LOG_2PI + np.log(safe))
        log_binomial += rest(safe + size) - rest(size) - rest(safe) - half
        return np.where(y > 0.0, log_binomial, 0.0)

    def _rise(self, y: Array) -> Array:
        """``ψ(y + size) - ψ(size)``."""
        rest = special.digamma_rest
        return np.log1p(y / self.size) + rest(self.size) - rest(y + self.size)


def _draw(rate: Array, random_state: np.random.RandomState) -> Array:
    """Poisson numbers, or normal ones where the rate is too large for NumPy."""
    rate = np.asarray(rate)
    count = np.array(random_state.poisson(np.minimum(rate, _LARGEST_RATE)), dtype=float)
    is_large = rate > _LARGEST_RATE
    factor = 1.0 + random_state.normal(size=is_large.sum()) / np.sqrt(rate[is_large])
    count[is_large] = np.rint(rate[is_large] * factor)
    return count

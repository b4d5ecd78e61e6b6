"""Likelihoods of counts, of positive numbers (gamma), and of numbers between 0 and 1 (beta)."""

from typing import Any

import numpy as np
from scipy.special import betainc, digamma, expit, gammainc, gammaln, log_expit, logit, ndtri, zeta

from skgp_sparse.ground.integrals import expectation, log_moments, log_moments_of_one_top
from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import Array, Index, Limits, Scalars, Triple
from skgp_sparse.likelihoods import _special as special
from skgp_sparse.likelihoods._base import (
    Domain,
    LevelLikelihood,
    Likelihood,
    LogLink,
    best_constant,
    expect,
    log_of_mean,
)
from skgp_sparse.likelihoods._special import count_quantile, mixture_cdf, solve_quantile


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
        centre, width = self._shifted(mean), np.sqrt(variance + 1.0 / self.shape)

        def given(v: Array) -> Array:
            return gammainc(self.shape, self.shape * np.exp(-v))

        def cdf(t: Array, rows: Index) -> Array:
            return mixture_cdf(given, centre[rows] - t, variance[rows], self.shape**-0.5)

        with np.errstate(over="ignore"):
            return np.exp(solve_quantile(cdf, q, centre + ndtri(q) * width, width))

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
        peak = -0.5 * (LOG_2PI + np.log(scale)) - special.stirling_rest(scale)
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
        half = 0.5 * (LOG_2PI + np.log(safe))
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


_BETA_STRIP = 0.5 * np.pi  # beyond which powers of the sigmoid grow like the counts
_LEAST_PRECISION = 1e-6  # of a site to start with
_HALVINGS, _REACH = 30, 10.0  # of an interval that contains the top
_FURTHEST, _WIDEST_GUESS = 700.0, 100.0  # logits of quantiles to start with
_TINY = 1e-300
_LEAST, _MOST = np.finfo(float).tiny, 1.0 - 0.5 * np.finfo(float).eps  # numbers between 0 and 1


class Beta(LevelLikelihood):
    r"""Beta likelihood of numbers between 0 and 1 with mean ``μ = s(f + level)``.

    Its variance is ``μ (1 - μ) / (1 + precision)``, and ``s`` is the logistic sigmoid. With
    ``a = precision μ`` and ``b = precision (1 - μ)``,

        p(y | f) = y^(a - 1) (1 - y)^(b - 1) Γ(a + b) / (Γ(a) Γ(b)).

    Expectations are computed by numerical integrals. The likelihood is not log-concave: see
    Ferrari and Cribari-Neto (2004), "Beta regression for modelling rates and proportions". The
    numbers 0 and 1 have no finite density, and are refused.

    Parameters
    ----------
    precision : float, default=10.0
        The precision of an observation: the larger, the less it varies.
    precision_bounds : pair of float or "fixed", default=(1e-2, 1e5)
        The lower and upper bound on `precision`. If set to "fixed", the precision is not learned.
    level : float, default=None
        The logit of the mean at ``f = 0``. If None, a fit starts with the logit of the mean
        observation.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Beta
    >>> Beta(precision=4.0).response(np.zeros(1), np.zeros(1))
    (array([0.5]), array([0.05]))
    >>> Beta().quantile(0.5, np.zeros(1), np.ones(1)).round(6)
    array([0.5])
    """

    is_log_concave = False
    latent_variance = (1e-2, 50.0)  # means saturate beyond
    domain = Domain(
        "numbers 0 < y < 1",
        low=0.0,
        high=1.0,
        without=(0.0, 1.0),
        remedy="Replace y by (y (n - 1) + 0.5) / n for n rows (Smithson and Verkuilen 2006).",
    )
    parameters = ("level", "precision")
    _share = property(lambda self: 1.0 / (1.0 + self.precision))  # of mean (1 - mean)

    def __init__(
        self,
        precision: float = 10.0,
        precision_bounds: Limits = (1e-2, 1e5),
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(level, level_bounds)
        self.precision = precision
        self.precision_bounds = precision_bounds

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Set a missing level to the logit of the mean observation; see `Likelihood.started`."""
        if self.level is not None:
            return self
        return self._with({"level": self._within("level", self._best_level(y, weight, offset))})

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return sites whose mode is near the observation; see `Likelihood.first_sites`."""
        count = 1.0 / self._share
        mean = (count * y + 0.5) / (count + 1.0)
        precision = np.maximum(count * mean * (1.0 - mean), _LEAST_PRECISION)
        return precision * (logit(mean) - self.intercept), precision

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant mean, but for offsets; see the base class."""
        level = self._best_level(y, weight, offset)
        return best_constant(self._at_level, y, weight, offset, level)

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation; see `Likelihood.response`."""
        p, slope = expectation(_sigmoid_and_slope, self._shifted(mean), variance)
        p = np.minimum(p, 1.0)  # weights add up to 1 but for rounding
        return p, np.maximum(p * (1.0 - p) - slope * (1.0 - self._share), 0.0)

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute a quantile, which is not rounded to 0 or 1; see `Likelihood.quantile`."""
        mean = self._shifted(mean)
        a, b = self._shapes(mean)
        width = np.minimum(np.sqrt(variance + zeta(2.0, a) + zeta(2.0, b)), _WIDEST_GUESS)
        guess = np.clip(digamma(a) - digamma(b), -_FURTHEST, _FURTHEST) + ndtri(q) * width

        def cdf(t: Array, rows: Index) -> Array:
            return self._cdf(t, mean[rows], variance[rows])

        return np.clip(expit(solve_quantile(cdf, q, guess, width)), _LEAST, _MOST)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw numbers, none of which is rounded to 0 or 1; see `Likelihood.sample`."""
        return np.clip(random_state.beta(*self._shapes(self._shifted(f))), _LEAST, _MOST)

    def _best_level(self, y: Array, weight: Array, offset: Array) -> float:
        count = weight / self._share
        mean = (count @ y + 0.5) / (count.sum() + 1.0)  # never 0 or 1
        return float(logit(mean) - np.average(offset, weights=weight))

    def _expected(self, y: Array, mean: Array, variance: Array) -> tuple[Any, ...]:
        """`expected`, and its derivative with respect to the logarithm of the precision."""
        return expect(self._at, self._shifted(mean), variance, y, strip=np.pi)

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> tuple[Any, ...]:
        """`tilted`, and its derivative with respect to the logarithm of the precision."""
        if np.any(np.asarray(power) != 1.0):
            raise NotImplementedError("Beta has no moments of powers. Use a variational bound.")
        tops, mean = self._tops(logit(y)), self._shifted(mean)
        return log_moments_of_one_top(self._at, mean, variance, _BETA_STRIP, y, tops=tops)

    def _at_level(self, y: Array, f: Array) -> Triple:
        value, slope, *_ = self._at(f, y)
        return value, slope, self._information(f)

    def _shapes(self, f: Array) -> tuple[Array, Array]:
        sizes = self.precision * expit(f), self.precision * expit(-f)
        return np.maximum(sizes[0], _TINY), np.maximum(sizes[1], _TINY)

    def _at(self, f: Array, y: Array) -> tuple[Array, ...]:
        """``log p``, its slope, its curvature, and its slope in the log of the precision.

        With ``A = a ψ(a)``, which is -1 where a is 0, no sum has an infinite part.
        """
        size, s, rest = self.precision, expit(f), expit(-f)
        a, b, log, log_rest = size * s, size * rest, np.log(y), np.log1p(-y)
        value = (a - 1.0) * log + (b - 1.0) * log_rest + gammaln(size) - gammaln(1.0 + a)
        value += 2.0 * np.log(size) + log_expit(f) + log_expit(-f) - gammaln(1.0 + b)
        A, B = a * digamma(1.0 + a) - 1.0, b * digamma(1.0 + b) - 1.0
        slope = a * rest * (log - log_rest) - rest * A + s * B
        curvature = (s - rest) * slope + self._information(f)
        rise = a * log + b * log_rest - A - B + size * digamma(size)
        return value, slope, curvature, rise

    def _information(self, f: Array) -> Array:
        """Expected curvature of an observation, ``a² ψ'(a) (1 - μ)² + b² ψ'(b) μ²``."""
        s, rest = expit(f), expit(-f)
        a, b = self.precision * s, self.precision * rest
        own, other = (1.0 + x * x * special.trigamma(1.0 + x) for x in (a, b))
        return rest * rest * own + s * s * other

    def _tops(self, t: Array) -> tuple[Array, Array]:
        """Latent values of highest density of observations with these logits, and curvatures."""
        reach = np.abs(t) + abs(np.log(self.precision)) + _REACH
        low, high = -reach, reach
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            a, b = self._shapes(middle)
            is_left = digamma(a) - digamma(b) < t
            low, high = np.where(is_left, middle, low), np.where(is_left, high, middle)
        return middle, self._information(middle)

    def _cdf(self, t: Array, mean: Array, variance: Array) -> Array:
        """Probability that the logit of an observation is at most t."""
        top, gain = self._tops(t)

        def given(v: Array, top: Array, t: Array) -> Array:
            a, b = self._shapes(top + v)
            return np.where(t < 0, betainc(a, b, expit(t)), 1.0 - betainc(b, a, expit(-t)))

        return mixture_cdf(given, mean - top, variance, gain**-0.5, top, t)


def _sigmoid_and_slope(f: Array) -> tuple[Array, Array]:
    s = expit(f)
    return s, s * expit(-f)

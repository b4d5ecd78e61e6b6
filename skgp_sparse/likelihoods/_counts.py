"""Likelihoods of counts."""

import numpy as np

from skgp_sparse._ground.tilted import log_moments
from skgp_sparse.likelihoods import _special as special
from skgp_sparse.likelihoods._base import Domain
from skgp_sparse.likelihoods._parametric import LogLink, best_level, log_of_mean
from skgp_sparse.likelihoods._quantiles import count_quantile

_LOG_2PI = np.log(2.0 * np.pi)
_LARGEST_RATE = 1e15  # that NumPy draws Poisson numbers of exactly enough
_STRIP = 0.5 * np.pi  # beyond which powers of the sigmoid grow like the size and the count


class _Count(LogLink):
    """Likelihoods of observations that are not negative, whose mean is ``exp(f + level)``."""

    domain = Domain(
        "counts y >= 0",
        low=0.0,
        remedy='Use likelihood="student_t" or likelihood="gaussian", which take any numbers.',
    )

    def first_sites(self, y):
        """Return sites whose mode is the observation; see `Likelihood.first_sites`."""
        precision = y + 0.5
        return precision * (np.log(precision) - self._shifted(0.0)), precision


class Poisson(_Count):
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

    parameters = ("level",)

    def __init__(self, level=None, level_bounds=(-np.inf, np.inf)):
        self.level = level
        self.level_bounds = level_bounds

    def constant_log_likelihood(self, y, weight, offset):
        """Compute the log likelihood of a constant rate; see the base class."""
        level = log_of_mean(y, weight, offset)
        scale, centre, peak = _at_peak(y)
        rows = special.expected_exponential(y, scale, level + offset - centre, 0.0)[0]
        return weight @ (rows + peak)

    def expected(self, y, mean, variance):
        """Compute the closed form; see `Likelihood.expected`."""
        scale, centre, peak = _at_peak(y)
        v = self._shifted(mean) - centre
        value, slope, curvature = special.expected_exponential(y, scale, v, variance)
        return value + peak, slope, curvature

    def tilted(self, y, mean, variance, power=1.0):
        """Compute a numerical integral; see `Likelihood.tilted`."""
        scale, centre, peak = _at_peak(y)
        v = self._shifted(mean) - centre
        value, *derivatives, _ = special.tilted_exponential(y, scale, v, variance, power)
        return value + power * peak, *derivatives

    def response(self, mean, variance):
        """Compute the mean and variance of a count; see `Likelihood.response`."""
        with np.errstate(over="ignore"):
            rate = self._rate(mean, variance)
            return rate, rate + self._spread(mean, variance, 0.0)

    def quantile(self, q, mean, variance):
        """Compute the smallest such integers; see `Likelihood.quantile`."""
        return count_quantile(q, self._shifted(mean), variance)

    def sample(self, f, random_state):
        """Draw counts, from a normal distribution if the rate exceeds 1e15."""
        with np.errstate(over="ignore"):
            return _draw(np.exp(self._shifted(f)), random_state)

    def expected_slopes(self, y, mean, variance):
        """Compute the gradient of `expected` with respect to the level."""
        return self._slopes(len(y), level=self.expected(y, mean, variance)[1])

    def tilted_slopes(self, y, mean, variance, power=1.0):
        """Compute the gradient of `tilted` with respect to the level."""
        return self._slopes(len(y), level=self.tilted(y, mean, variance, power)[1])


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

    def __init__(
        self, size=10.0, size_bounds=(1e-3, 1e5), level=None, level_bounds=(-np.inf, np.inf)
    ):
        self.size = size
        self.size_bounds = size_bounds
        self.level = level
        self.level_bounds = level_bounds

    def constant_log_likelihood(self, y, weight, offset):
        """Compute the log likelihood of a constant mean; see the base class."""

        def derivatives(level):
            _, _, up, down, bend = special.softplus_and_sigmoid(self._logit(level + offset))
            return weight @ (y * down - self.size * up), weight @ ((y + self.size) * bend)

        level = log_of_mean(y, weight, offset)
        if weight @ y > 0.0:
            level = best_level(derivatives, level)
        low, high, *_ = special.softplus_and_sigmoid(self._logit(level + offset))
        return weight @ (self._log_binomial(y) - y * high - self.size * low)

    def expected(self, y, mean, variance):
        """Compute the expectation by quadrature; see `Likelihood.expected`."""
        return self._expected(y, mean, variance)[:3]

    def tilted(self, y, mean, variance, power=1.0):
        """Compute a numerical integral; see `Likelihood.tilted`."""
        return self._tilted(y, mean, variance, power)[:3]

    def response(self, mean, variance):
        """Compute the mean and variance of a count; see `Likelihood.response`."""
        with np.errstate(over="ignore"):
            rate = self._rate(mean, variance)
            return rate, rate + self._spread(mean, variance, 1.0 / self.size)

    def quantile(self, q, mean, variance):
        """Compute the smallest such integers; see `Likelihood.quantile`."""
        return count_quantile(q, self._shifted(mean), variance, self.size)

    def sample(self, f, random_state):
        """Draw counts, from a normal distribution if the rate exceeds 1e15."""
        share = random_state.gamma(self.size, size=np.shape(f)) / self.size
        with np.errstate(over="ignore", divide="ignore"):
            return _draw(np.exp(self._shifted(f) + np.log(share)), random_state)

    def expected_slopes(self, y, mean, variance):
        """Compute the gradient of `expected`; see `Likelihood.expected_slopes`."""
        _, slope, _, low = self._expected(y, mean, variance)
        return self._slopes(len(y), level=slope, size=self.size * (self._rise(y) - low) - slope)

    def tilted_slopes(self, y, mean, variance, power=1.0):
        """Compute the gradient of `tilted`; see `Likelihood.tilted_slopes`."""
        _, slope, _, low = self._tilted(y, mean, variance, power)
        size = power * self.size * (self._rise(y) - low) - slope
        return self._slopes(len(y), level=slope, size=size)

    def _logit(self, mean):
        return self._shifted(mean) - np.log(self.size)

    def _expected(self, y, mean, variance):
        """`expected`, and the expectation of ``log(1 + e^x)``."""
        x = self._logit(mean)
        low, high, up, down, bend = special.expected_sigmoids(x, variance)
        value = self._log_binomial(y) - y * high - self.size * low
        return value, y * down - self.size * up, (y + self.size) * bend, low

    def _tilted(self, y, mean, variance, power):
        """`tilted`, and the expectation of ``log(1 + e^x)`` under the tilted distribution."""
        x = self._logit(mean)
        value, *means = log_moments(self._log_sigmoids, x, variance, power, _STRIP, y)
        return value + power * self._log_binomial(y), *means

    def _log_sigmoids(self, x, y):
        low, high, up, down, bend = special.softplus_and_sigmoid(x)
        value = -y * high - self.size * low
        return value, y * down - self.size * up, (y + self.size) * bend, low

    def _log_binomial(self, y):
        """``log Γ(y + size) - log Γ(size) - log Γ(y + 1)``, whose large parts cancel."""
        size, safe = self.size, np.where(y > 0.0, y, 1.0)
        rest = special.stirling_rest
        log_binomial = (size - 0.5) * np.log1p(safe / size) + safe * np.log1p(size / safe)
        log_binomial += (
            rest(safe + size) - rest(size) - rest(safe) - 0.5 * (_LOG_2PI + np.log(safe))
        )
        return np.where(y > 0.0, log_binomial, 0.0)

    def _rise(self, y):
        """``ψ(y + size) - ψ(size)``."""
        rest = special.digamma_rest
        return np.log1p(y / self.size) + rest(self.size) - rest(y + self.size)


def _at_peak(y):
    """Scale and centre of the exponential, so that ``v = 0`` is its top, and its constant."""
    scale = np.where(y > 0.0, y, 1.0)
    return scale, np.log(scale), np.where(y > 0.0, special.poisson_peak(y), -1.0)


def _draw(rate, random_state):
    """Poisson numbers, or normal ones where the rate is too large for NumPy."""
    rate = np.asarray(rate)
    count = np.array(random_state.poisson(np.minimum(rate, _LARGEST_RATE)), dtype=float)
    is_large = rate > _LARGEST_RATE
    if is_large.any():
        factor = 1.0 + random_state.normal(size=is_large.sum()) / np.sqrt(rate[is_large])
        count[is_large] = np.rint(rate[is_large] * factor)
    return count

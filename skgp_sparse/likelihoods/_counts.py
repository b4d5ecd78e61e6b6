"""Likelihoods of counts, of positive numbers (gamma), and of numbers between 0 and 1 (beta)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from scipy.special import digamma, expit, gammaln, log_expit, ndtri

from skgp_sparse.exceptions import warn
from skgp_sparse.ground.integrals import SMALLEST_VARIANCE, expectation, log_moments
from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import Array, Limits, Scalars, Triple

from ._base import Domain, LevelLikelihood, best_constant, expect
from ._special import digamma_rest, gamma_peak, mixture_cdf, stirling_rest, trigamma

_LARGEST_RATE = 1e15  # that NumPy draws Poisson numbers of exactly enough
_STRIP = 0.5 * np.pi  # beyond which powers of the sigmoid grow, and exp(-exp(f)) is not bounded
_REACH_IN_STDS = 7.5  # standard deviations, of quadrature
_NEARLY_EXP = -36.0  # below which log(1 + exp(x)) is exp(x)
_TINY = 1e-300
_IF_ZEROS = 'Use likelihood="poisson" if there are zeros, or likelihood="student_t".'
_IF_ENDS = "Replace y by (y (n - 1) + 0.5) / n for n rows (Smithson and Verkuilen 2006)."
_LARGEST_SHAPE = 1e14  # beyond which the noise of a count is too narrow to matter


class LogLink(LevelLikelihood):
    """A likelihood whose mean is ``exp(f + level)``, of counts unless a subclass says otherwise.

    Up to a constant, the logarithm is ``count v - scale (exp(v) - 1)``, where ``v`` is ``f`` or
    ``-f``, as `sign` says, shifted so that ``v = 0`` is the best value of an observation: large
    counts and shapes lose no digits. A subclass defines `_form`: count, scale, ``v`` at the mean,
    and the constant; or `_expected` and `_tilted`.
    """

    latent_variance = (1e-3, 100.0)  # exp overflows beyond
    domain = Domain("counts y >= 0", low=0.0, remedy='Use likelihood="student_t" or "gaussian".')
    sign = 1.0
    _is_count = True
    _forward: Any = staticmethod(lambda y: np.log1p(np.floor(y)))
    _inverse: Any = np.expm1

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return sites whose mode is the observation; see `Likelihood.first_sites`."""
        precision = y + 0.5
        return precision * (np.log(precision) - self.intercept), precision

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation; see `Likelihood.response`."""
        with np.errstate(over="ignore", divide="ignore"):
            factor = np.log(self._share - np.expm1(-variance))
            spread = np.exp(2.0 * (self._shifted(mean) + variance) + factor)
            rate = np.exp(self._shifted(mean) + 0.5 * variance)
            return rate, rate + spread if self._is_count else spread

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant mean; see the base class."""
        level = log_of_mean(y, weight, offset)
        at = lambda f: self._expected(y, f - self.intercept, np.zeros(len(y)))[:3]
        if weight @ y == 0.0:  # the best level is minus infinity
            return weight @ at(level + offset)[0]
        return best_constant(at, weight, offset, level)

    def _expected(self, y: Array, mean: Array, variance: Array) -> tuple[Any, ...]:
        """`expected`, and the expectation of the function of ``v``, in closed form."""
        count, scale, v, peak = self._form(y, mean)
        rise = np.expm1(v + 0.5 * variance)
        value, slope = count * v - scale * rise, self.sign * ((count - scale) - scale * rise)
        return value + peak, slope, scale * (1.0 + rise), value

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> tuple[Any, ...]:
        """`tilted`, and the expectation of the function of ``v`` under the tilted distribution."""
        count, scale, v, peak = self._form(y, mean)
        variance = np.maximum(variance, SMALLEST_VARIANCE)
        push = variance * power * count + v
        start = push - special.wrightomega(np.log(variance * power * scale) + push)
        by_row = np.broadcast_arrays(count, scale, v)[:2]
        moments = log_moments(_exponential, v, variance, power, _STRIP, *by_row, start=start)
        value, slope, *means = moments
        return value + power * peak, self.sign * slope, *means

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the smallest such integers; see `Likelihood.quantile`."""
        y = super().quantile(q, mean, variance)
        count = np.maximum(np.ceil(np.minimum(y, _LARGEST_SHAPE) - 1e-6), 1.0) - 1.0
        for _ in range(3):  # the root may be one or two integers off
            count += self.cdf(count, mean, variance) < q
        return np.where(y < _LARGEST_SHAPE, count, y)

    def _cdf(self, t: Array, mean: Array, variance: Array) -> Array:
        """``P(Y + 1 <= e^t)``, continued between the integers."""
        share, t = self._share, np.maximum(t, np.log(_TINY))
        shape = np.exp(np.minimum(t, np.log(_LARGEST_SHAPE)))

        def given(v: Array, shape: Array) -> Array:
            if share == 0.0:
                return special.gammaincc(shape, shape * np.exp(v))
            return special.betainc(1.0 / share, shape, 1.0 / (1.0 + share * shape * np.exp(v)))

        width = np.sqrt(1.0 / shape + share)
        return mixture_cdf(given, self._shifted(mean) - t, variance, width, shape)

    def _first_level(self, y: Array, weight: Array, offset: Array) -> float:
        if weight @ y == 0.0:
            warn("All observations are 0. The level starts at the rate of half an observation.")
        return log_of_mean(y, weight, offset)

    def _draw_means(self, f: Array, random_state: np.random.RandomState) -> Array:
        """``exp(f + level)`` times gamma variables of mean one with variance `_share`."""
        size = 1.0 / self._share
        factor = random_state.gamma(size, size=np.shape(f)) / size
        with np.errstate(over="ignore", divide="ignore"):
            return np.exp(self._shifted(f) + np.log(factor))


def log_of_mean(y: Array, weight: Array, offset: Array) -> float:
    """Level of the rate of all rows together, of half an observation if there is none."""
    total = weight @ y
    return np.log(total if total > 0.0 else 0.5) - special.logsumexp(offset, b=weight)


@dataclass(eq=False, repr=False)
class Gamma(LogLink):
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

    shape: float = 1.0
    shape_bounds: Limits = (1e-3, 1e5)
    level: float | None = None
    level_bounds: Limits = (-np.inf, np.inf)

    domain = Domain("observations y > 0", low=0.0, without=(0.0,), remedy=_IF_ZEROS)
    parameters = ("level", "shape")
    sign = -1.0
    _is_count = False
    _share = property(lambda self: 1.0 / self.shape)
    _forward, _inverse = np.log, np.exp
    quantile = LevelLikelihood.quantile  # no whole numbers

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return sites whose mode is the observation; see `Likelihood.first_sites`."""
        precision = np.full(len(y), float(self.shape))
        return precision * (np.log(y) - self.intercept), precision

    def _cdf(self, t: Array, mean: Array, variance: Array) -> Array:
        given = lambda v: special.gammainc(self.shape, self.shape * np.exp(-v))
        return mixture_cdf(given, self._shifted(mean) - t, variance, self.shape**-0.5)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw positive numbers, none of which is rounded to zero; see `Likelihood.sample`."""
        return np.maximum(self._draw_means(f, random_state), np.finfo(float).tiny)

    def _form(self, y: Array, mean: Array) -> tuple[Any, ...]:
        k = self.shape
        return k, k, np.log(y) - self._shifted(mean), gamma_peak(k) - np.log(y)

    def _by_theta(self, y: Array, slope: Array, power: Scalars, *means: Array) -> Array:
        return self._of_learned(slope, power * (self.shape * digamma_rest(self.shape) + means[0]))


@dataclass(eq=False, repr=False)
class Poisson(LogLink):
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

    level: float | None = None
    level_bounds: Limits = (-np.inf, np.inf)

    _share = 0.0

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw counts, from a normal distribution if the rate exceeds 1e15."""
        with np.errstate(over="ignore"):
            return _draw(np.exp(self._shifted(f)), random_state)

    def _form(self, y: Array, mean: Array) -> tuple[Any, ...]:
        scale = np.where(y > 0.0, y, 1.0)
        peak = -0.5 * (LOG_2PI + np.log(scale)) - stirling_rest(scale)
        return y, scale, self._shifted(mean) - np.log(scale), np.where(y > 0.0, peak, -1.0)


@dataclass(eq=False, repr=False)
class NegativeBinomial(LogLink):
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

    size: float = 10.0
    size_bounds: Limits = (1e-3, 1e5)
    level: float | None = None
    level_bounds: Limits = (-np.inf, np.inf)

    parameters = ("level", "size")
    _share = property(lambda self: 1.0 / self.size)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw counts, from a normal distribution if the rate exceeds 1e15."""
        return _draw(self._draw_means(f, random_state), random_state)

    def _by_theta(self, y: Array, slope: Array, power: Scalars, *means: Array) -> Array:
        # ψ(y + size) - ψ(size)
        rise = np.log1p(y / self.size) + digamma_rest(self.size) - digamma_rest(y + self.size)
        return self._of_learned(slope, power * self.size * (rise - means[0]) - slope)

    def _logit(self, mean: Array) -> Array:
        return self._shifted(mean) - np.log(self.size)

    def _expected(self, y: Array, mean: Array, variance: Array) -> tuple[Any, ...]:
        """`expected`, and the expectation of ``log(1 + e^x)``."""
        value, *means = _of_counts(y, self.size, *_expected_sigmoids(self._logit(mean), variance))
        return value + self._log_binomial(y), *means

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> tuple[Any, ...]:
        """`tilted`, and the expectation of ``log(1 + e^x)`` under the tilted distribution."""
        at = lambda x, y: _of_counts(y, self.size, *_softplus_and_sigmoid(x))
        value, *means = log_moments(at, self._logit(mean), variance, power, _STRIP, y)
        return value + power * self._log_binomial(y), *means

    def _log_binomial(self, y: Array) -> Array:
        """``log Γ(y + size) - log Γ(size) - log Γ(y + 1)``, whose large parts cancel."""
        size, safe = self.size, np.where(y > 0.0, y, 1.0)
        rest = stirling_rest
        log_binomial = (size - 0.5) * np.log1p(safe / size) + safe * np.log1p(size / safe)
        log_binomial += rest(safe + size) - rest(size) - rest(safe) - 0.5 * (LOG_2PI + np.log(safe))
        return np.where(y > 0.0, log_binomial, 0.0)


def _draw(rate: Array, random_state: np.random.RandomState) -> Array:
    """Poisson numbers, or normal ones where the rate is too large for NumPy."""
    rate = np.asarray(rate)
    count = np.array(random_state.poisson(np.minimum(rate, _LARGEST_RATE)), dtype=float)
    is_large = rate > _LARGEST_RATE
    factor = 1.0 + random_state.normal(size=is_large.sum()) / np.sqrt(rate[is_large])
    count[is_large] = np.rint(rate[is_large] * factor)
    return count


def _exponential(v: Array, count: Array, scale: Array) -> tuple[Any, ...]:
    fall = scale * np.expm1(v)
    value = count * v - fall
    return value, (count - scale) - fall, scale + fall, value


def _expected_sigmoids(mean: Array, variance: Array) -> Any:
    """Expectations of `_softplus_and_sigmoid` for ``x ~ N(mean, variance)``, with all digits."""
    is_left = np.maximum(_REACH_IN_STDS * np.sqrt(variance), variance) < -mean
    sigmoids, rest = np.empty((5, len(mean))), ~is_left
    if rest.any():
        sigmoids[:, rest] = expectation(_softplus_and_sigmoid, mean[rest], variance[rest])
    if is_left.any():
        m, s = mean[is_left], variance[is_left]
        scale = np.exp(m + 0.5 * s)
        low, up, bend = (scale * part for part in expectation(_sigmoids_over_exp, m + s, s))
        sigmoids[:, is_left] = low, low - m, up, 1.0 - up, bend
    return sigmoids


def _of_counts(
    ups: Array, downs: Scalars, low: Array, high: Array, up: Array, down: Array, bend: Array
) -> tuple[Any, ...]:
    """``log(s(x)^ups s(-x)^downs)``, its slope and curvature, and ``log(1 + e^x)``."""
    return -ups * high - downs * low, ups * down - downs * up, (ups + downs) * bend, low


def _sigmoids_over_exp(x: Array) -> Triple:
    """``log(1 + e^x)``, the sigmoid of x and its derivative, all times ``exp(-x)``."""
    near, down = np.maximum(x, _NEARLY_EXP), expit(-x)
    return -log_expit(-near) * np.exp(-near), down, down**2


def _softplus_and_sigmoid(x: Array) -> tuple[Any, ...]:
    """``log(1 + e^x)`` and ``log(1 + e^-x)``, the sigmoid of x and -x, and their product."""
    small = np.exp(-np.abs(x))
    rest, large = np.log1p(small), 1.0 / (1.0 + small)
    small = small * large
    positive = x > 0.0
    up, down = np.where(positive, large, small), np.where(positive, small, large)
    return rest + np.maximum(x, 0.0), rest + np.maximum(-x, 0.0), up, down, small * large


_LEAST_PRECISION = 1e-6  # of a site to start with
_HALVINGS, _REACH = 30, 10.0  # of an interval that contains the top
_FURTHEST, _WIDEST_GUESS = 700.0, 100.0  # logits of quantiles to start with
_LEAST, _MOST = np.finfo(float).tiny, 1.0 - 0.5 * np.finfo(float).eps  # numbers between 0 and 1


@dataclass(eq=False, repr=False)
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

    precision: float = 10.0
    precision_bounds: Limits = (1e-2, 1e5)
    level: float | None = None
    level_bounds: Limits = (-np.inf, np.inf)

    is_log_concave = False
    latent_variance = (1e-2, 50.0)  # means saturate beyond
    domain = Domain("numbers 0 < y < 1", 0.0, 1.0, without=(0.0, 1.0), remedy=_IF_ENDS)
    parameters = ("level", "precision")
    _share = property(lambda self: 1.0 / (1.0 + self.precision))  # of mean (1 - mean)
    _forward, _inverse = special.logit, staticmethod(lambda t: np.clip(expit(t), _LEAST, _MOST))

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return sites whose mode is near the observation; see `Likelihood.first_sites`."""
        count = 1.0 / self._share
        mean = (count * y + 0.5) / (count + 1.0)
        precision = np.maximum(count * mean * (1.0 - mean), _LEAST_PRECISION)
        return precision * (special.logit(mean) - self.intercept), precision

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant mean, but for offsets; see the base class."""
        at = lambda f: (*self._at(f, y)[:2], self._information(f))
        return best_constant(at, weight, offset, self._first_level(y, weight, offset))

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation; see `Likelihood.response`."""
        both = lambda f: (expit(f), expit(f) * expit(-f))
        p, slope = expectation(both, self._shifted(mean), variance)
        p = np.minimum(p, 1.0)  # weights add up to 1 but for rounding
        return p, np.maximum(p * (1.0 - p) - slope * (1.0 - self._share), 0.0)

    def _cdf(self, t: Array, mean: Array, variance: Array) -> Array:
        def given(v: Array, top: Array, t: Array) -> Array:
            a, b = self._shapes(top + v)
            from_above = 1.0 - special.betainc(b, a, expit(-t))
            return np.where(t < 0, special.betainc(a, b, expit(t)), from_above)

        top, gain = self._tops(t)
        return mixture_cdf(given, self._shifted(mean) - top, variance, gain**-0.5, top, t)

    def _guess(self, q: float, mean: Array, variance: Array) -> tuple[Array, Array]:
        a, b = self._shapes(self._shifted(mean))
        spread = np.sqrt(variance + special.zeta(2.0, a) + special.zeta(2.0, b))
        width = np.minimum(spread, _WIDEST_GUESS)
        return np.clip(digamma(a) - digamma(b), -_FURTHEST, _FURTHEST) + ndtri(q) * width, width

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw numbers, none of which is rounded to 0 or 1; see `Likelihood.sample`."""
        return np.clip(random_state.beta(*self._shapes(self._shifted(f))), _LEAST, _MOST)

    def _first_level(self, y: Array, weight: Array, offset: Array) -> float:
        count = weight / self._share
        mean = (count @ y + 0.5) / (count.sum() + 1.0)  # never 0 or 1
        return float(special.logit(mean) - np.average(offset, weights=weight))

    def _expected(self, y: Array, mean: Array, variance: Array) -> tuple[Any, ...]:
        """`expected`, and its derivative with respect to the logarithm of the precision."""
        return expect(self._at, self._shifted(mean), variance, y, strip=np.pi)

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> tuple[Any, ...]:
        """`tilted`, and its derivative with respect to the logarithm of the precision."""
        if np.any(np.asarray(power) != 1.0):
            raise NotImplementedError("Beta has no moments of powers. Use a variational bound.")
        tops, mean = self._tops(special.logit(y)), self._shifted(mean)
        return log_moments(self._at, mean, variance, 1.0, _STRIP, y, tops=tops)

    def _shapes(self, f: Array) -> tuple[Array, Array]:
        sizes = self.precision * expit(f), self.precision * expit(-f)
        return np.maximum(sizes[0], _TINY), np.maximum(sizes[1], _TINY)

    def _at(self, f: Array, y: Array) -> tuple[Array, ...]:
        """``log p`` and its slopes, one in the log precision; ``A = a ψ(a)`` is -1 where a is 0."""
        size, s, rest = self.precision, expit(f), expit(-f)
        a, b, log, log_rest = size * s, size * rest, np.log(y), np.log1p(-y)
        value = (a - 1.0) * log + (b - 1.0) * log_rest + gammaln(size) - gammaln(1.0 + a)
        value += 2.0 * np.log(size) + log_expit(f) + log_expit(-f) - gammaln(1.0 + b)
        A, B = a * digamma(1.0 + a) - 1.0, b * digamma(1.0 + b) - 1.0
        slope = a * rest * (log - log_rest) - rest * A + s * B
        curvature = (s - rest) * slope + self._information(f)
        return value, slope, curvature, a * log + b * log_rest - A - B + size * digamma(size)

    def _information(self, f: Array) -> Array:
        """Expected curvature of an observation, ``a² ψ'(a) (1 - μ)² + b² ψ'(b) μ²``."""
        s, rest = expit(f), expit(-f)
        a, b = self.precision * s, self.precision * rest
        own, other = (1.0 + x * x * trigamma(1.0 + x) for x in (a, b))
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

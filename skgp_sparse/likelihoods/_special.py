"""Functions and a base class that several likelihoods with a log link share."""

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, wrightomega

from skgp_sparse._ground.quadrature import expectation
from skgp_sparse._ground.tilted import SMALLEST_VARIANCE, log_moments
from skgp_sparse._ground.typing import Array, Scalars
from skgp_sparse.likelihoods._base import LogLink, log_of_mean

_LOG_2PI = np.log(2.0 * np.pi)
_SERIES_FROM = 16.0
_OF_GAMMALN = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)  # z^-1, z^-3, ...
_OF_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)  # z^-2, z^-4, ...
_OF_TRIGAMMA = tuple(2.0 * (k + 1.0) * c for k, c in enumerate(_OF_DIGAMMA))
_SHIFT = 7  # of the argument, to where this series serves
_REACH_IN_STDS = 7.5  # standard deviations, of quadrature
_TINY = 1e-300
_STRIP = 0.5 * np.pi  # beyond which exp(-exp(f)) is not bounded


def _series(coefficients: tuple[float, ...], z: Scalars) -> Any:
    """Polynomial in ``1 / z²``."""
    return np.polynomial.polynomial.polyval(1.0 / z**2, coefficients)


def _stirling_rest(z: Scalars) -> Any:
    return gammaln(z) - (z - 0.5) * np.log(z) + z - 0.5 * _LOG_2PI


def stirling_rest(z: Scalars) -> Any:
    """``log Γ(z) - (z - 1/2) log z + z - log(2π)/2`` for positive numbers: about 1 / (12 z)."""
    z = np.asarray(z, dtype=float)
    parts = _stirling_rest, lambda z: _series(_OF_GAMMALN, z) / z
    return np.piecewise(z, [z < _SERIES_FROM], parts)


def digamma_rest(z: Scalars) -> Any:
    """``log z - ψ(z)`` for positive numbers: about 1 / (2 z)."""
    z = np.asarray(z, dtype=float)
    parts = lambda z: np.log(z) - digamma(z), lambda z: 0.5 / z + _series(_OF_DIGAMMA, z) / z**2
    return np.piecewise(z, [z < _SERIES_FROM], parts)


def trigamma(x: Array) -> Array:
    """``ψ'(x)`` for x >= 1, to 1e-13: by its series further out, much faster than SciPy's."""
    total, z = np.zeros_like(x), x + _SHIFT
    for k in range(_SHIFT):
        total += 1.0 / (x + k) ** 2
    return total + (1.0 + 0.5 / z + _series(_OF_TRIGAMMA, z) / z**2) / z


def gamma_peak(shape: Scalars) -> Any:
    """``k log k - k - log Γ(k)``: the constant of a gamma distribution with mean one."""
    return 0.5 * (np.log(shape) - _LOG_2PI) - stirling_rest(shape)


class Exponential(LogLink):
    """Poisson and gamma likelihoods, which are the same function of ``v``, up to a constant.

    It is ``count v - scale (exp(v) - 1)``, where ``v`` is ``f`` or ``-f``, as `sign` says, shifted
    so that ``v = 0`` is the best value of an observation: large counts and shapes lose no digits.
    A subclass defines `_form`: count, scale, ``v`` at the mean, and the constant.
    """

    sign = 1.0

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant mean; see the base class."""
        level = self._best_level(y, weight, offset)
        return weight @ self._expected(y, level + offset - self.intercept, 0.0)[0]

    def _best_level(self, y: Array, weight: Array, offset: Array) -> float:
        return log_of_mean(y, weight, offset)

    def _expected(self, y: Array, mean: Array, variance: Scalars) -> tuple[Any, ...]:
        """`expected`, and the expectation of the function of ``v``, in closed form."""
        count, scale, v, peak = self._form(y, mean)
        rise = np.expm1(v + 0.5 * variance)
        value, slope = count * v - scale * rise, self.sign * ((count - scale) - scale * rise)
        return value + peak, slope, scale * (1.0 + rise), value

    def _tilted(self, y: Array, mean: Array, variance: Scalars, power: Scalars) -> tuple[Any, ...]:
        """`tilted`, and the expectation of the function of ``v`` under the tilted distribution."""
        count, scale, v, peak = self._form(y, mean)
        variance = np.maximum(variance, SMALLEST_VARIANCE)
        push = variance * power * count + v
        start = push - wrightomega(np.log(variance * power * scale) + push)
        by_row = np.broadcast_arrays(count, scale, v)[:2]
        moments = log_moments(_exponential, v, variance, power, _STRIP, *by_row, start=start)
        value, slope, *means = moments
        return value + power * peak, self.sign * slope, *means


def _exponential(v: Array, count: Array, scale: Array) -> tuple[Any, ...]:
    rise = np.expm1(v)
    fall = scale * rise
    value = count * v - fall
    return value, (count - scale) - fall, scale + fall, value


def expected_sigmoids(mean: Array, variance: Array) -> Any:
    """Expectations of what `softplus_and_sigmoid` returns, for ``x ~ N(mean, variance)``.

    Far to the left, all digits are those of ``exp(x)``, whose mass lies at ``mean + variance``.
    """
    is_left = np.maximum(_REACH_IN_STDS * np.sqrt(variance), variance) < -mean
    sigmoids, rest = np.empty((5, len(mean))), ~is_left
    if rest.any():
        sigmoids[:, rest] = expectation(softplus_and_sigmoid, mean[rest], variance[rest])
    if is_left.any():
        m, s = mean[is_left], variance[is_left]
        scale = np.exp(m + 0.5 * s)
        low, up, bend = (scale * part for part in expectation(_sigmoids_over_exp, m + s, s))
        sigmoids[:, is_left] = low, low - m, up, 1.0 - up, bend
    return sigmoids


def of_counts(
    ups: Array, downs: Scalars, low: Array, high: Array, up: Array, down: Array, bend: Array
) -> tuple[Any, ...]:
    """``log(s(x)^ups s(-x)^downs)``, its slope and curvature, and ``log(1 + e^x)``."""
    return -ups * high - downs * low, ups * down - downs * up, (ups + downs) * bend, low


def _sigmoids_over_exp(x: Array) -> tuple[Any, ...]:
    """``log(1 + e^x)``, the sigmoid of x and its derivative, all times ``exp(-x)``."""
    negative = np.exp(np.minimum(x, 0.0))  # e^x or 1
    positive = np.exp(np.minimum(-x, 0.0))  # e^-x or 1
    down = positive / (positive + negative)
    low = np.log1p(np.minimum(negative, positive)) + np.maximum(x, 0.0)
    with np.errstate(invalid="ignore"):  # 0 / 0 far to the left
        low = np.where(negative > _TINY, low / negative, 1.0) * positive
    return low, down, down * (positive / (positive + negative))


def softplus_and_sigmoid(x: Array) -> tuple[Any, ...]:
    """``log(1 + e^x)`` and ``log(1 + e^-x)``, the sigmoid of x and -x, and their product."""
    small = np.exp(-np.abs(x))
    rest, large = np.log1p(small), 1.0 / (1.0 + small)
    small = small * large
    positive = x > 0.0
    up, down = np.where(positive, large, small), np.where(positive, small, large)
    return rest + np.maximum(x, 0.0), rest + np.maximum(-x, 0.0), up, down, small * large

r"""Functions that several likelihoods with a log link share.

Poisson and gamma likelihoods are the same function of ``v``, up to a constant:
``count v - scale (exp(v) - 1)``, where ``v`` is ``f`` or ``-f``, shifted so that ``v = 0`` is the
best value of an observation. In this form, large counts and shapes lose no digits.
"""

import numpy as np
from scipy.special import digamma, gammaln, wrightomega

from skgp_sparse._ground.quadrature import expectation
from skgp_sparse._ground.tilted import SMALLEST_VARIANCE, log_moments

_LOG_2PI = np.log(2.0 * np.pi)
_SERIES_FROM = 16.0
_OF_GAMMALN = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)  # z^-1, z^-3, ...
_OF_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)  # z^-2, z^-4, ...
_REACH = 7.5  # standard deviations, of quadrature
_TINY = 1e-300
_STRIP = 0.5 * np.pi  # beyond which exp(-exp(f)) is not bounded


def _series(coefficients, z):
    """Polynomial in ``1 / z²``."""
    return np.polynomial.polynomial.polyval(1.0 / z**2, coefficients)


def stirling_rest(z):
    """``log Γ(z) - (z - 1/2) log z + z - log(2π)/2`` for positive numbers: about 1 / (12 z)."""
    z = np.asarray(z, dtype=float)
    far = np.maximum(z, _SERIES_FROM)
    near = np.minimum(z, _SERIES_FROM)
    exact = gammaln(near) - (near - 0.5) * np.log(near) + near - 0.5 * _LOG_2PI
    return np.where(z < _SERIES_FROM, exact, _series(_OF_GAMMALN, far) / far)


def digamma_rest(z):
    """``log z - ψ(z)`` for positive numbers: about 1 / (2 z)."""
    z = np.asarray(z, dtype=float)
    far = np.maximum(z, _SERIES_FROM)
    near = np.minimum(z, _SERIES_FROM)
    series = 0.5 / far + _series(_OF_DIGAMMA, far) / far**2
    return np.where(z < _SERIES_FROM, np.log(near) - digamma(near), series)


def gamma_peak(shape):
    """``k log k - k - log Γ(k)``: the constant of a gamma distribution with mean one."""
    return 0.5 * (np.log(shape) - _LOG_2PI) - stirling_rest(shape)


def poisson_peak(y):
    """``y log y - y - log Γ(y + 1)``: the largest log probability of a count."""
    safe = np.where(y > 0.0, y, 1.0)
    return np.where(y > 0.0, -0.5 * (_LOG_2PI + np.log(safe)) - stirling_rest(safe), 0.0)


def expected_exponential(count, scale, mean, variance):
    """``E[count v - scale (exp(v) - 1)]`` for ``v ~ N(mean, variance)``, slope and curvature."""
    rise = np.expm1(mean + 0.5 * variance)
    return count * mean - scale * rise, (count - scale) - scale * rise, scale * (1.0 + rise)


def tilted_exponential(count, scale, mean, variance, power):
    """``log E[exp(count v - scale (exp(v) - 1))^power]``, its slope and its curvature.

    The fourth result is the expectation of the exponent under the tilted distribution.
    """
    variance = np.maximum(variance, SMALLEST_VARIANCE)
    push = variance * power * count + mean
    start = push - wrightomega(np.log(variance * power * scale) + push)
    by_row = np.broadcast_arrays(count, scale, mean)[:2]
    return log_moments(_exponential, mean, variance, power, _STRIP, *by_row, start=start)


def _exponential(v, count, scale):
    rise = np.expm1(v)
    fall = scale * rise
    value = count * v - fall
    return value, (count - scale) - fall, scale + fall, value


def expected_sigmoids(mean, variance):
    """Expectations of what `softplus_and_sigmoid` returns, for ``x ~ N(mean, variance)``.

    Far to the left, all digits are those of ``exp(x)``, whose mass lies at ``mean + variance``.
    """
    is_left = np.maximum(_REACH * np.sqrt(variance), variance) < -mean
    sigmoids, rest = np.empty((5, len(mean))), ~is_left
    if rest.any():
        sigmoids[:, rest] = expectation(softplus_and_sigmoid, mean[rest], variance[rest])
    if is_left.any():
        m, s = mean[is_left], variance[is_left]
        scale = np.exp(m + 0.5 * s)
        low, up, bend = (scale * part for part in expectation(_sigmoids_over_exp, m + s, s))
        sigmoids[:, is_left] = low, low - m, up, 1.0 - up, bend
    return sigmoids


def _sigmoids_over_exp(x):
    """``log(1 + e^x)``, the sigmoid of x and its derivative, all times ``exp(-x)``."""
    negative = np.exp(np.minimum(x, 0.0))  # e^x or 1
    positive = np.exp(np.minimum(-x, 0.0))  # e^-x or 1
    down = positive / (positive + negative)
    low = np.log1p(np.minimum(negative, positive)) + np.maximum(x, 0.0)
    with np.errstate(invalid="ignore"):  # 0 / 0 far to the left
        low = np.where(negative > _TINY, low / negative, 1.0) * positive
    return low, down, down * (positive / (positive + negative))


def softplus_and_sigmoid(x):
    """``log(1 + e^x)`` and ``log(1 + e^-x)``, the sigmoid of x and -x, and their product."""
    small = np.exp(-np.abs(x))
    rest, large = np.log1p(small), 1.0 / (1.0 + small)
    small = small * large
    positive = x > 0.0
    up, down = np.where(positive, large, small), np.where(positive, small, large)
    return rest + np.maximum(x, 0.0), rest + np.maximum(-x, 0.0), up, down, small * large

r"""Probabilities of intervals under a normal distribution, and its moments between limits.

With the normal density ``φ``, its upper tail ``Q`` and the hazard ``λ = φ/Q``, the share
``r = Q(b)/Q(a)`` and its odds ``k = r/(1 - r)``, the logarithm of ``P(a < z < b)`` as a function of
a shift of both ends is

    log P = log Q(a) + log(1 - r),    slope = λ(a) - k δ,    δ = λ(b) - λ(a),
    curvature = c(a) - k (c(b) - c(a)) + k (1 + k) δ²,    c = λ (λ - t),

which keeps its digits in the tails if the interval is turned to the positive side and r is not near
one. Narrow intervals have r near one: there, ``exp(-c t - t²/2)`` is integrated around the middle
``c`` by a Gauss-Legendre rule, and the curvature is one minus the variance of ``t``.
"""

import numpy as np
from scipy.special import ndtr

from skgp_sparse._ground.normal import LOG_2PI
from skgp_sparse._ground.typing import Array, Triple
from skgp_sparse.likelihoods._binary import Probit

_FAR = 40.0  # standard deviations, beyond which there is no probability in double precision
_NARROW = 1.0  # width of an interval times one plus its distance, from where r is below 1/2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_LEAST_VARIANCE = 1e-16  # of what is nearly always at a limit


def log_probability(lower: Array, upper: Array, width: Array) -> Triple:
    """Logarithm of the probability of an interval, its slope and curvature.

    Parameters
    ----------
    lower, upper : ndarray
        Ends, in standard deviations from the mean; they may be infinite.
    width : ndarray
        Their difference, with all of its digits.

    Returns
    -------
    value, slope, curvature : ndarray
        The slope and the negative second derivative are those with respect to the mean.
    """
    sign, a, b = _turned(lower, upper)
    value, hazard, bend = Probit().log_sigmoid(-a)
    beyond, other, end = Probit().log_sigmoid(-b)
    share = np.exp(beyond - value)
    odds = share / (1.0 - share)
    rise = odds * (other - hazard)
    value = value + np.log1p(-share)
    slope = hazard - rise
    curvature = bend - odds * (end - bend) + rise * (other - hazard) * (1.0 + odds)
    middle = 0.5 * (a + b)
    narrow = width * (1.0 + middle) < _NARROW
    if np.any(narrow):
        width = np.broadcast_to(width, narrow.shape)
        found = _narrow(middle[narrow], 0.5 * width[narrow])
        value[narrow], slope[narrow], curvature[narrow] = found
    return value, sign * slope, curvature


def _turned(lower: Array, upper: Array) -> Triple:
    """The sign that turns intervals to the positive side, and their ends there, finite."""
    sign = np.where(upper < -lower, -1.0, 1.0)
    a = np.maximum(np.where(sign < 0.0, -upper, lower), -_FAR)
    b = np.where(sign < 0.0, -lower, upper)
    return sign, a, np.minimum(b, 2.0 * np.maximum(a, 0.0) + _FAR)


def _narrow(middle: Array, half: Array) -> Triple:
    """Value, slope and curvature for narrow intervals (n,), whose middle is not negative."""
    t = half[:, None] * _NODES
    parts = _WEIGHTS * np.exp(-t * (middle[:, None] + 0.5 * t))
    total = parts.sum(axis=1)
    mean, square = ((parts * power).sum(axis=1) / total for power in (t, t * t))
    value = np.log(half * total) - 0.5 * (middle**2 + LOG_2PI)
    return value, middle + mean, 1.0 - (square - mean**2)


def clipped_moments(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Mean and variance of a standard normal number that limits replace beyond them.

    Parameters
    ----------
    lower, upper : ndarray
        Limits, which may be infinite.

    Returns
    -------
    mean, variance : ndarray
        The variance is never zero.
    """
    sign, a, b = _turned(lower, upper)
    tails = [ndtr(-a), ndtr(-b)]
    heights = [np.exp(-0.5 * (t * t + LOG_2PI)) for t in (a, b)]
    above, beyond = (height - t * tail for t, height, tail in zip((a, b), heights, tails))
    squares = [(1.0 + t * t) * tail - t * p for t, p, tail in zip((a, b), heights, tails)]
    mean = above - beyond
    square = squares[0] - squares[1] - 2.0 * (b - a) * beyond
    return sign * (a + mean), np.maximum(square - mean**2, _LEAST_VARIANCE)

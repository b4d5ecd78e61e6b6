"""Functions that several likelihoods share: intervals, counts with a log link, and quantiles.

- `log_probability` and `clipped_moments` are those of a normal variable and an interval.
- `Exponential` and `of_counts` are logarithms of likelihoods of counts and positive numbers.
- `count_quantile`, `gamma_quantile` and `solve_quantile` are quantiles of observations whose latent
  values are uncertain.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import (
    betainc,
    digamma,
    gammaincc,
    gammaln,
    ndtr,
    ndtri,
    wrightomega,
)

from skgp_sparse.ground.integrals import SMALLEST_VARIANCE, expectation, log_moments
from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import Array, Index, Ints, Scalars, Triple
from skgp_sparse.likelihoods._base import LogLink, log_of_mean
from skgp_sparse.likelihoods._binary import Probit

# -- probabilities of intervals under a normal distribution, and moments between limits ------------

_FAR = 40.0  # standard deviations, beyond which there is no probability in double precision
_NARROW = 1.0  # width of an interval times one plus its distance, from where r is below 1/2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_LEAST_VARIANCE = 1e-16  # of what is nearly always at a limit


def log_probability(lower: Array, upper: Array, width: Array) -> Triple:
    """Logarithm of the probability of an interval, its slope and curvature.

    With the normal density ``φ``, its upper tail ``Q`` and the hazard ``λ = φ/Q``, the share
    ``r = Q(b)/Q(a)`` and its odds ``k = r/(1 - r)``, the logarithm of ``P(a < z < b)`` as a
    function of a shift of both ends is

        log P = log Q(a) + log(1 - r),    slope = λ(a) - k δ,    δ = λ(b) - λ(a),
        curvature = c(a) - k (c(b) - c(a)) + k (1 + k) δ²,    c = λ (λ - t),

    which keeps its digits in the tails if the interval is turned to the positive side and r is not
    near one. Narrow intervals have r near one: there, ``exp(-c t - t²/2)`` is integrated around the
    middle ``c`` by a Gauss-Legendre rule, and the curvature is one minus the variance of ``t``.

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
    return gammaln(z) - (z - 0.5) * np.log(z) + z - 0.5 * LOG_2PI


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
    return 0.5 * (np.log(shape) - LOG_2PI) - stirling_rest(shape)


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


# -- quantiles of observations whose latent values are uncertain -----------------------------------
# The distribution function of an observation is the expectation of that given the latent value. In
# units of its width, the latter is a step at 0 that serves for `expectation`. With a log link, the
# observation is at most ``y`` if ``f + level`` is at most ``log y`` plus a noise whose distribution
# is known: a count ``Y ~ Poisson(r)`` is at most ``y`` if ``r < G``, where ``G`` has a gamma
# distribution of shape ``y + 1``.

_OfRows = Callable[[Array, Ints], Array]  # (points, indices of their rows) -> values

_WIDEST = 0.56  # width that a step counts as at most: π/2, where expectation assumes 2.8
_LARGEST_SHAPE = 1e14  # beyond which the noise is too narrow to matter
_MOST_ITERATIONS = 300
_QUANTILE_TOLERANCE = 1e-11  # to the quantile of the normal distribution
_FURTHEST = 37.0  # normal quantile that a probability of 0 or 1 counts as


def count_quantile(q: float, mean: Array, variance: Array, size: float = np.inf) -> Array:
    """The smallest integers that counts do not exceed with probability `q`.

    The mean of a count is ``exp(f)``, its variance ``exp(f) + exp(2f) / size``.
    """
    t, every = np.zeros(len(mean)), slice(None)

    def given(v: Array, shape: Array) -> Array:
        if np.isinf(size):
            return gammaincc(shape, shape * np.exp(v))
        return betainc(size, shape, 1.0 / (1.0 + shape / size * np.exp(v)))

    def cdf(t: Array, rows: Index) -> Array:
        """``P(Y + 1 <= e^t)``, continued between the integers."""
        shape = np.exp(np.minimum(t, np.log(_LARGEST_SHAPE)))
        width = np.sqrt(1.0 / shape + 1.0 / size)
        return mixture_cdf(given, mean[rows] - t, variance[rows], width, shape)

    with np.errstate(all="ignore"):
        rows = np.flatnonzero(cdf(t, every) < q)
        centre = mean[rows] + ndtri(q) * np.sqrt(variance[rows] + 1.0 / size)
        width = np.sqrt(variance[rows] + np.exp(-np.maximum(centre, 0.0)) + 1.0 / size)
        some = lambda t, those: cdf(t, rows[those])
        t[rows] = solve_quantile(some, q, np.maximum(centre, 0.1), width)
        y = np.expm1(t)
        count = np.maximum(np.ceil(np.minimum(y, _LARGEST_SHAPE) - 1e-6), 1.0) - 1.0
        for _ in range(3):  # the root may be one or two integers off
            count += cdf(np.log1p(count), every) < q
        return np.where(y < _LARGEST_SHAPE, count, y)


def mixture_cdf(
    given: Callable[..., Array], distance: Array, variance: Array, width: Scalars, *by_row: Array
) -> Array:
    """``E[given(v)]`` for ``v ~ N(distance, variance)``, of steps of this width at ``v = 0``."""
    unit = np.broadcast_to(np.minimum(width, _WIDEST), distance.shape)

    def in_units(x: Array, unit: Array, *by_row: Array) -> tuple[Array]:
        return (given(unit * x, *by_row),)

    return expectation(in_units, distance / unit, variance / unit**2, unit, *by_row)[0]


def solve_quantile(cdf: _OfRows, q: float, guess: Array, width: Array) -> Array:
    """Where increasing functions of all rows have the value `q`.

    Parameters
    ----------
    cdf : callable
        Takes points and the indices of their rows, and returns probabilities.
    q : float
        Probability, in (0, 1).
    guess, width : ndarray of shape (n,)
        Where to start, and the scale of the distribution there.

    Returns
    -------
    ndarray of shape (n,)
        The points, far out where the probability of all others is too small or too large.
    """
    t, unknown = guess.astype(float), np.full(len(guess), np.nan)
    ends = np.full(len(t), -np.inf), np.full(len(t), np.inf)
    state = np.arange(len(t)), t.copy(), 0.5 * width, unknown, unknown, *ends
    with np.errstate(all="ignore"):
        for count in range(_MOST_ITERATIONS):
            rows, x, width, last, before, low, high = state
            if len(rows) == 0:
                break
            t[rows] = x
            # in units in which a normal distribution function is a straight line
            p = ndtri(np.clip(cdf(x, rows), 0.0, 1.0))
            excess = np.clip(p, -_FURTHEST, _FURTHEST) - ndtri(q)
            low, high = np.where(excess < 0.0, x, low), np.where(excess < 0.0, high, x)
            ratio = (x - last) / (excess - before)
            width = np.where(ratio > 0.0, np.minimum(ratio, 4.0 * width), 2.0 * width)
            new, middle = x - excess * width, 0.5 * (low + high)
            leaves = (new <= low) | (new >= high) | (count % 8 == 7)
            new = np.where(np.isfinite(middle) & leaves, middle, new)
            narrow = (high - low <= 4e-16 * np.abs(middle)) & np.isfinite(middle)
            left = ~(narrow | (np.abs(excess) <= _QUANTILE_TOLERANCE))
            state = [part[left] for part in (rows, new, width, x, excess, low, high)]
    return t

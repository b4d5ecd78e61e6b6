"""Functions that several likelihoods share: intervals, counts with a log link, and quantiles.

- `log_probability` and `clipped_moments` are those of a normal variable and an interval.
- `Exponential` and `of_counts` are logarithms of likelihoods of counts and positive numbers.
- `count_quantile`, `gamma_quantile` and `solve_quantile` are quantiles of observations whose latent
  values are uncertain.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import (
    betainc,
    digamma,
    gammainc,
    gammaincc,
    gammaln,
    ndtr,
    ndtri,
    wrightomega,
    zeta,
)

from skgp_sparse.ground.integrals import SMALLEST_VARIANCE, alike, expectation, log_moments, means
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
# With a log link, an observation is at most ``y`` if ``f + level`` is at most ``log y`` plus a
# noise whose distribution is known. A count ``Y ~ Poisson(r)`` is at most ``y`` if ``r < G``, where
# ``G`` has a gamma distribution of shape ``y + 1``. The rate of a negative binomial count is itself
# multiplied by a gamma variable of mean one, and so is the mean of a gamma observation. Therefore
#
#     P(Y <= y) = E[Φ((t + v - mean) / std)] = E[P(noise > f - t)],
#
# where ``v`` is the noise. The first form is used where the noise is narrower than ``f``, the
# second where it is wider. Both need a few dozen nodes, however large the counts.

_Given = Callable[[Array, Array, Array], Array]  # (noise, shape, size)
_OfRows = Callable[[Array, Ints], Array]  # (points, indices of their rows) -> values

_FALL = 34.0  # of the log density of the noise, to where sums go
_STEPS = 2.4  # of the sums, in widths of the noise
_WIDEST = 0.56  # width that a noise counts as at most: π/2, where expectation assumes 2.8
_SMALLEST_SHAPE = 0.5  # below which the tail of the noise is too long for a sum
_LARGEST_SHAPE = 1e14  # beyond which the noise is too narrow to matter
_MOST_ITERATIONS, _MOST_DOUBLINGS = 200, 1100
_QUANTILE_TOLERANCE = 1e-11  # to the quantile of the normal distribution
_FURTHEST = 37.0  # normal quantile that a probability of 0 or 1 counts as


def count_quantile(q: float, mean: Array, variance: Array, size: float = np.inf) -> Array:
    """The smallest integers that counts do not exceed with probability `q`.

    The mean of a count is ``exp(f)``, its variance ``exp(f) + exp(2f) / size``.
    """
    quantiles = np.zeros(len(mean))

    def cdf(t: Array, rows: Index) -> Array:
        return _cdf_of_count(t, mean[rows], variance[rows], size)

    with np.errstate(all="ignore"):
        rows = np.flatnonzero(cdf(quantiles, slice(None)) < q)
        centre = mean[rows] + ndtri(q) * np.sqrt(variance[rows] + 1.0 / size)
        width = np.sqrt(variance[rows] + np.exp(-np.maximum(centre, 0.0)) + 1.0 / size)
        t = solve_quantile(lambda t, some: cdf(t, rows[some]), q, np.maximum(centre, 0.1), width)
        y = np.expm1(t)
        near = np.flatnonzero(y < _LARGEST_SHAPE)
        count = np.maximum(np.ceil(y[near] - 1e-6), 1.0) - 1.0
        for _ in range(3):  # the root may be one or two integers off
            count += cdf(np.log1p(count), rows[near]) < q
        y[near] = count
        quantiles[rows] = y
    return quantiles


def gamma_quantile(q: float, mean: Array, variance: Array, shape: float) -> Array:
    """Quantiles of gamma observations of this shape, whose mean is ``exp(f)``."""

    def given(v: Array, shape: Array, size: Array) -> Array:
        return gammainc(shape, shape * np.exp(-v))

    def cdf(t: Array, rows: Index) -> Array:
        shapes = np.full_like(t, shape)
        return _cdf(t - mean[rows], variance[rows], -1.0, shapes, np.inf, given)

    width = np.sqrt(variance + zeta(2.0, shape))
    with np.errstate(over="ignore"):
        return np.exp(solve_quantile(cdf, q, mean + ndtri(q) * width, width))


def _given_beta(v: Array, shape: Array, size: Array) -> Array:
    return betainc(size, shape, 1.0 / (1.0 + shape / size * np.exp(v)))


def _cdf_of_count(t: Array, mean: Array, variance: Array, size: float) -> Array:
    """``P(Y + 1 <= e^t)``, continued between the integers."""

    def given(v: Array, shape: Array, size: Array) -> Array:
        return gammaincc(shape, shape * np.exp(v))

    shape = np.exp(np.minimum(t, np.log(_LARGEST_SHAPE)))
    return _cdf(t - mean, variance, 1.0, shape, size, given if np.isinf(size) else _given_beta)


def _cdf(
    distance: Array, variance: Array, sign: float, shape: Array, size: Scalars, given: _Given
) -> Array:
    """``P(f <= mean + distance + sign noise)``, by the sum over the narrower variable.

    The noise is the log of a gamma variable of mean one and this shape, minus the log of another
    one whose shape is the size. For ``f = mean + distance + v``, `given` is the probability that
    the observation is not exceeded.
    """
    probability, std = np.empty(len(distance)), np.sqrt(variance)
    size = np.broadcast_to(size, shape.shape)
    width = np.sqrt(zeta(2.0, shape) + np.where(np.isinf(size), 0.0, zeta(2.0, size)))
    unit = np.minimum(width, _WIDEST)
    long_tail = np.minimum(shape, size) < _SMALLEST_SHAPE
    narrow = np.flatnonzero((std <= unit) | long_tail)
    if len(narrow):
        u, below = unit[narrow], lambda x, u, a, b: (given(u * x, a, b),)
        by_row = (-distance[narrow] / u, variance[narrow] / u**2, u, shape[narrow], size[narrow])
        (probability[narrow],) = expectation(below, *by_row)
    rest = np.flatnonzero((std > unit) & ~long_tail)
    for part, v, weights in _noise(shape[rest], size[rest], unit[rest]):
        rows = rest[part]
        below = ndtr((distance[rows, None] + sign * v) / std[rows, None])
        probability[rows] = means(weights, below)
    return probability


def _noise(shape: Array, size: Array, unit: Array) -> Iterator[tuple[Ints, Array, Array]]:
    """Nodes and weights of the noise, for some rows at a time."""
    guess = np.sqrt(2.0 * _FALL * (1.0 / shape + 1.0 / size))
    falls = (-_log_noise(sign * guess, shape, size) for sign in (-1, 1))
    left, right = (guess * np.maximum(1.0, _FALL / fall) for fall in falls)
    step = unit / _STEPS
    first = np.ceil(left / step)
    for rows, number in alike(first + np.ceil(right / step) + 1.0):
        v = step[rows, None] * (np.arange(number) - first[rows, None])
        weights = np.exp(_log_noise(v, shape[rows, None], size[rows, None]))
        yield rows, v, weights / weights.sum(axis=1, keepdims=True)


def _log_noise(v: Array, shape: Array, size: Array) -> Array:
    """Log density of the noise, relative to its top at zero."""
    rise = np.expm1(v)
    if np.isinf(size).any():  # of all rows then
        return shape * (v - rise)
    return shape * v - (shape + size) * np.log1p(shape / (shape + size) * rise)


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
        The points, infinite where the probability of all finite ones is too small or too large.
    """
    target = ndtri(q)

    def excess(t: Array, rows: Ints) -> Array:
        """In units in which a normal distribution function is a straight line."""
        p = np.clip(cdf(t, rows), 0.0, 1.0)
        return np.clip(ndtri(p), -_FURTHEST, _FURTHEST) - target

    with np.errstate(all="ignore"):
        return _shrink(excess, *_find_bracket(excess, guess.astype(float), width))


def _find_bracket(excess: _OfRows, t: Array, width: Array) -> tuple[Array, ...]:
    """Two points of every row and their excesses, of opposite signs unless it has run off."""
    rows = np.arange(len(t))
    value = excess(t, rows)
    step = -np.clip(1.1 * value + np.copysign(0.01, value), -5.0, 5.0) * width
    other = t + step
    other_value = excess(other, rows)
    for _ in range(_MOST_DOUBLINGS):
        left = np.flatnonzero((value * other_value > 0.0) & np.isfinite(other))
        if len(left) == 0:
            break
        t[left], value[left] = other[left], other_value[left]
        step[left] *= 2.0
        other[left] += step[left]
        other_value[left] = excess(other[left], left)
    return t, value, other, other_value


def _shrink(excess: _OfRows, a: Array, at_a: Array, b: Array, at_b: Array) -> Array:
    """The Illinois method, with a bisection now and then; overwrites the bracket."""
    active = np.flatnonzero(np.isfinite(b))
    for count in range(_MOST_ITERATIONS):
        x, y = a[active], b[active]
        fx, fy = at_a[active], at_b[active]
        new = x - fx * (y - x) / (fy - fx)
        inside = (new - x) * (new - y) < 0.0
        new = np.where(inside & (count % 4 < 3), new, 0.5 * (x + y))
        value = excess(new, active)
        crossed = value * fy < 0.0
        a[active], at_a[active] = np.where(crossed, y, x), np.where(crossed, fy, 0.5 * fx)
        b[active], at_b[active] = new, value
        narrow = np.abs(y - x) <= 4e-16 * (np.abs(x) + np.abs(y))
        active = active[~(narrow | (np.abs(value) <= _QUANTILE_TOLERANCE))]
        if len(active) == 0:
            break
    return b

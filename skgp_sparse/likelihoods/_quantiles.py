r"""Quantiles of observations whose latent values are uncertain.

With a log link, an observation is at most ``y`` if ``f + level`` is at most ``log y`` plus a noise
whose distribution is known. A count ``Y ~ Poisson(r)`` is at most ``y`` if ``r < G``, where ``G``
has a gamma distribution of shape ``y + 1``. The rate of a negative binomial count is itself
multiplied by a gamma variable of mean one, and so is the mean of a gamma observation. Therefore

    P(Y <= y) = E[Φ((t + v - mean) / std)] = E[P(noise > f - t)],

where ``v`` is the noise. The first form is used where the noise is narrower than ``f``, the second
where it is wider. Both need a few dozen nodes, however large the counts.
"""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import betainc, gammainc, gammaincc, ndtr, ndtri, zeta

from skgp_sparse._ground.quadrature import alike, expectation, means
from skgp_sparse._ground.validation import Array, Index, Ints, Scalars

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

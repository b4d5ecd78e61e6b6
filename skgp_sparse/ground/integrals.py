"""Expectations under one normal distribution per row, to about 1e-12 relative.

- `expectation`: of any smooth function, ``E[g(f)]``;
- `log_moments`: of a power of a likelihood, ``log E[p(f)^a]``, and moments of the tilted
  distribution ``p(f)^a N(f; mean, variance)``;
- `log_sum_exp`: of a softmax and of its normaliser, under independent values.

All of them are sums over nodes, which converge exponentially where the integrand is analytic in a
strip around the real axis. Rows that need similar nodes are summed together. Each section says
how its nodes are chosen.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from skgp_sparse.ground.linalg import LOG_2PI, row_dots
from skgp_sparse.ground.parallel import empty, slices
from skgp_sparse.ground.validation import AnyArray, Array, Bools, Index, Ints, Pair, Scalars, Triple

Function = Callable[..., tuple[Array, ...]]

STRIP = 2.8
_FEW_NODES = ((0.1, 6), (0.25, 9))  # largest standard deviation, Gauss-Hermite nodes
_NODE_SPACING = 0.5  # of the trapezoidal rule: singularities at 2.8 cost exp(2.8²/2s² - 2π 2.8/0.5)
_LARGEST_STEP = 0.7  # in standard deviations: exp(-2π² / 0.7²) is 3e-18
_REACH_IN_STDS = 7.5  # standard deviations
_WIDE, _WIDE_BY_ROW = 1.0, 4.0  # from which sinh pays, if g is the same for all rows or not
_NEAR = 8.5  # largest |mean|, in standard deviations, of a row that is not far from 0
_STEP_OF_SINH = _LARGEST_STEP / _NEAR  # a row at _NEAR has in u a width of at least 1 / _NEAR
_VALUES_PER_BLOCK = 1 << 16  # values of g
_FEW_ROWS = 200  # which share a rule where they could have several: calls cost more than values


# The function ``g`` must be analytic in a strip of half-width `STRIP` around the real axis. This
# holds for the logarithms, slopes and curvatures of the probit and the logit, whose nearest
# singularities are at ``±2.8i`` and ``±πi``. The standard deviation s of a row says which nodes
# it has:
#
# - small: Gauss-Hermite rules;
# - up to 1: the trapezoidal rule, which converges exponentially here, with a step that follows
#   the width of the singularity; a fixed number of Gauss-Hermite nodes loses digits as s grows;
# - wider, but not far from 0: the trapezoidal rule in u, ``f = sinh(u)``, whose nodes are dense
#   where g bends and which needs few of them however wide the row. They are the same for many
#   rows, so that g is evaluated once;
# - wide and far from 0: a coarse trapezoidal rule, as g has no singularity near by.
#
# The function takes arrays (n, k), and `by_row` as (n, 1), to a tuple of arrays (n, k).
def expectation(g: Function, mean: Array, variance: Array, *by_row: Array) -> tuple[Array, ...]:
    """``E[g(f)]`` (n,) for ``f ~ N(mean_i, variance_i)``, of each result of an elementwise g."""
    std, found = np.sqrt(variance), []
    for rows, f, weights in _rules(mean, std, _WIDE_BY_ROW if by_row else _WIDE):
        values = g(f, *(column[rows, None] for column in by_row))
        found.append((rows, [_weighted_sum(value, weights) for value in values]))
    return from_parts(found)


def from_parts(parts: Iterable[tuple[Ints, Sequence[Array]]]) -> tuple[Array, ...]:
    """Arrays (n,) from what they hold for some rows at a time: indices, and a part of each."""
    rows, values = zip(*parts)
    order = np.argsort(np.concatenate(rows))
    return tuple(np.concatenate(column)[order] for column in zip(*values))


def _weighted_sum(value: Array, weights: Array) -> Array:
    """Weighted sum of every row; values, weights or both may be the same for all rows."""
    if weights.ndim == 1:
        return value @ weights
    return weights @ value[0] if len(value) == 1 else row_dots(value, weights)


def _rules(mean: Array, std: Array, wide: float) -> Iterator[tuple[Ints, Array, Array]]:
    """Some rows, with the nodes and weights that serve them."""
    is_wide = std >= wide
    is_near = np.abs(mean) <= _NEAR * std
    yield from _narrow(mean, std, np.flatnonzero(~is_wide))
    coarse = _rule(_NODE_SPACING / _LARGEST_STEP)
    for rows in _parts(np.flatnonzero(is_wide & ~is_near), len(coarse[0])):
        yield rows, mean[rows, None] + std[rows, None] * coarse[0], coarse[1]
    reach = np.ceil(np.arcsinh((_NEAR + _REACH_IN_STDS) * std))
    if len(std) <= _FEW_ROWS:
        reach = np.full_like(reach, reach.max(initial=0.0))
    for limit in sorted(set(reach[is_wide & is_near])):
        f, slopes = _sinh_rule(limit)
        for rows in _parts(np.flatnonzero(is_wide & is_near & (reach == limit)), len(f)):
            weights = np.exp(-0.5 * ((f - mean[rows, None]) / std[rows, None]) ** 2) * slopes
            yield rows, f[None], weights / weights.sum(axis=1, keepdims=True)


def _narrow(mean: Array, std: Array, rows: Ints) -> Iterator[tuple[Ints, Array, Array]]:
    """Rows of similar standard deviation, with nodes around their means."""
    edges = [edge for edge, _ in _FEW_NODES]
    largest = std[rows].max(initial=0.0)
    while edges[-1] < largest:
        edges.append(max(np.sqrt(2.0) * edges[-1], _NODE_SPACING / _LARGEST_STEP))
    which = np.searchsorted(edges, std[rows])
    if len(std) <= _FEW_ROWS:
        which = np.full_like(which, which.max(initial=0))
    for index in sorted(set(which)):
        nodes, weights = _rule(edges[index])
        for some in _parts(rows[which == index], len(nodes)):
            yield some, mean[some, None] + std[some, None] * nodes, weights


def _parts(rows: Ints, n_nodes: int) -> Iterator[Ints]:
    return (rows[part] for part in slices(len(rows), max(1, _VALUES_PER_BLOCK // n_nodes)))


@lru_cache(maxsize=64)
def _sinh_rule(limit: float) -> Pair:
    """Nodes, and their weights before those of the normal distribution."""
    u = np.linspace(-limit, limit, 2 * int(np.ceil(limit / _STEP_OF_SINH)) + 1)
    return np.sinh(u), np.cosh(u)


@lru_cache(maxsize=64)
def _rule(std: float) -> Pair:
    """Nodes and weights of a rule for a standard normal, finer where ``std`` is larger."""
    for edge, count in _FEW_NODES:
        if std <= edge:
            nodes, weights = np.polynomial.hermite_e.hermegauss(count)
            return nodes, weights / weights.sum()
    count = int(np.ceil(_REACH_IN_STDS / min(_LARGEST_STEP, _NODE_SPACING / std)))
    nodes = np.linspace(-_REACH_IN_STDS, _REACH_IN_STDS, 2 * count + 1)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


SMALLEST_VARIANCE = 1e-290  # of which the square root can be divided by
_FALL = 40.0  # of the log integrand, to where the sum ends
_LARGEST_FALL = 70.0  # beyond which an end moves inwards
_MOST_MOVES = 60  # of the ends
_STEPS_PER_WIDTH, _STEPS_PER_STRIP = 2.2, 7.0
_MOST_ITERATIONS = 150  # of Newton's method, a third of which are bisections
_DISTANCE_TO_TOP = 0.03  # to the top, in widths
_MOST_NODES = 5000  # enough for variances up to 1e4, and crude sums beyond
_RATIO = 1.2  # of the numbers of nodes of rows that are summed together
_VALUES_OF_TILTED = 1 << 15  # values of the log density
# to find an interval: in widths of two tops, and from one to the other
_FAR_OUT = 10.0 * 2.0 ** np.arange(9)
_NODES = np.concatenate([-_FAR_OUT, np.linspace(-9.0, 9.0, 19), _FAR_OUT])
_BETWEEN = np.linspace(0.0, 1.0, 17)


class _Rows(NamedTuple):
    """Integrands of some rows; all arrays have the shape (n, 1)."""

    log_density: Function
    mean: Array
    std: Array
    power: Array
    by_row: tuple[Array, ...]

    def where(self, rows: Index) -> "_Rows":
        by_row = tuple(column[rows] for column in self.by_row)
        return _Rows(self.log_density, self.mean[rows], self.std[rows], self.power[rows], by_row)

    def at(self, z: Array) -> tuple[Array, list[Array]]:
        """Logarithm of the integrand, and what the log density returns besides its value."""
        value, *extras = self.log_density(self.mean + self.std * z, *self.by_row)
        return self.power * value - 0.5 * z * z, extras


# The function ``log p`` must be concave, so that the integrand has one top, unless `tops` are
# given. The integral of a row is a trapezoidal sum about that top:
#
# - The top comes from Newton's method with a bracket. A crude top is enough.
# - The step follows the width of the top and the strip around the real axis in which the
#   integrand is analytic and bounded.
# - The sum ends on both sides where the integrand has fallen to ``exp(-40)`` of its top. Left and
#   right may differ: ``exp(-exp(f))`` falls at once on the right, and with the normal density on
#   the left.
#
# With `tops`, ``p`` has one top and falls on both sides, but is not log-concave: crude nodes on
# all scales, between its top and the mean and around both, find the interval where it counts.
#
# Everything is computed in ``z = (f - mean) / std``, where the negative logarithm of the
# integrand has a second derivative of at least one.
#
# `log_density` takes arrays (n, k), and `by_row` as (n, 1), to the concave ``log p``, its first
# derivative, its negative second derivative, and any others. Returned are the logarithm, its first
# derivative wrt `mean`, its negative second derivative (which may be negative if there are `tops`),
# and the expectations of the others under the tilted distribution. ``p^a`` is analytic and bounded
# in a strip of half-width `strip`. Near `start` is the top of the integrand, which is needed if
# `log_density` overflows at `mean`. `tops` are where ``p`` is largest, and the negative second
# derivative of ``log p`` there.
def log_moments(
    log_density: Function,
    mean: Array,
    variance: Array,
    power: Scalars,
    strip: float,
    *by_row: Array,
    start: Array | None = None,
    tops: Pair | None = None,
) -> tuple[Array, ...]:
    """``log E[p(f)^a]`` for ``f ~ N(mean_i, variance_i)``, with its derivatives."""
    power = np.broadcast_to(np.asarray(power, dtype=float), mean.shape)
    std = np.sqrt(np.maximum(variance, SMALLEST_VARIANCE))
    all_columns = tuple(column[:, None] for column in by_row)
    rows = _Rows(log_density, mean[:, None], std[:, None], power[:, None], all_columns)
    with np.errstate(all="ignore"):
        if tops is None:
            z = np.zeros_like(rows.mean)
            z = z if start is None else (start[:, None] - rows.mean) / rows.std
            top, gain = _find_top(rows, z)
            left, right = _find_ends(rows, top, gain).T
        else:
            peak, width = (tops[0] - mean) / std, tops[1] ** -0.5 / std
            parts = slices(len(mean), _VALUES_OF_TILTED // 100)
            found = [_find_interval(rows.where(some), peak[some], width[some]) for some in parts]
            top, gain, left, right = map(np.concatenate, zip(*found))
        most = np.minimum(gain[:, 0] ** -0.5 / _STEPS_PER_WIDTH, strip / (_STEPS_PER_STRIP * std))
        count = np.fmin(np.ceil((left + right) / most) + 1.0, _MOST_NODES)
        sums = []
        for part, number in alike(count):  # rows with similar numbers of nodes together
            step = (left[part] + right[part]) / (number - 1)
            offset = step[:, None] * np.arange(number) - left[part][:, None]
            sums.append((part, _sum(rows.where(part), top[part], gain[part, 0], step, offset)))
        value, slope, curvature, *rest = from_parts(sums)
        return value, slope, (np.maximum(curvature, 0.0) if tops is None else curvature), *rest


def _find_interval(rows: _Rows, peak: Array, width: Array) -> tuple[Array, ...]:
    """A top, the largest second derivative, and how far from the top the integrands count (n,)."""
    own = np.broadcast_to(_NODES, (len(peak), len(_NODES)))
    around, between = peak[:, None] + width[:, None] * _NODES, peak[:, None] * _BETWEEN
    z = np.sort(np.hstack([own, around, between]), axis=1)
    exponent, (_, curvature, *_) = rows.at(z)
    every, best, index = np.arange(len(z)), np.argmax(exponent, axis=1), np.arange(z.shape[1])
    counts = exponent > exponent[every, best, None] - _FALL
    first = np.maximum(np.argmax(counts, axis=1) - 1, 0)
    last = np.minimum(len(index) - np.argmax(counts[:, ::-1], axis=1), len(index) - 1)
    inside = (index >= first[:, None]) & (index <= last[:, None])
    gain = 1.0 + rows.std[:, 0] ** 2 * np.max(np.where(inside, curvature, 0.0), axis=1)
    top = z[every, best]
    return top[:, None], gain[:, None], top - z[every, first], z[every, last] - top


def _find_top(rows: _Rows, z: Array) -> Pair:
    """Where the integrands are largest, and the negative second derivative of the logarithm."""
    top, gain = z.copy(), np.ones_like(z)
    active, low, high = np.arange(len(z)), np.full_like(z, -np.inf), np.full_like(z, np.inf)
    for count in range(_MOST_ITERATIONS):
        slope, curvature = rows.at(z)[1][:2]
        excess = z - rows.power * rows.std * slope
        bend = 1.0 + rows.power * rows.std**2 * curvature
        low = np.maximum(low, np.where(excess < 0.0, z, z - excess))  # as bend >= 1
        high = np.minimum(high, np.where(excess > 0.0, z, z - excess))
        newton = z - excess / bend
        top[active], gain[active] = newton, bend
        left = np.flatnonzero(~(np.abs(excess) <= _DISTANCE_TO_TOP * np.sqrt(bend)))
        if len(left) == 0:
            break
        inside = (low < newton) & (newton < high) & (count % 3 < 2)
        z = np.where(inside, newton, 0.5 * (low + high))[left]
        active, low, high, rows = active[left], low[left], high[left], rows.where(left)
    return top, gain


def _find_ends(rows: _Rows, top: Array, gain: Array) -> Array:
    """How far from the top the integrands have fallen enough, to the left and right (n, 2)."""
    sides = np.array([-1.0, 1.0])
    height = rows.at(top)[0]
    largest = np.sqrt(2.0 * _FALL)  # as the second derivative is at least one
    outer = np.broadcast_to(largest / np.sqrt(gain), (len(top), 2))
    fall = height - rows.at(top + sides * outer)[0]
    further = np.minimum(outer * _FALL / np.maximum(fall, 1e-300), largest)  # by concavity
    inner = np.where(fall < _FALL, outer, 0.0)
    outer = np.where(fall < _FALL, further, outer)
    active = np.arange(len(top))
    for _ in range(_MOST_MOVES):
        fall = height[active] - rows.where(active).at(top[active] + sides * outer[active])[0]
        active = active[(fall > _LARGEST_FALL).any(axis=1)]
        if len(active) == 0:
            break
        middle = 0.5 * (inner[active] + outer[active])
        is_far = height[active] - rows.where(active).at(top[active] + sides * middle)[0] >= _FALL
        outer[active] = np.where(is_far, middle, outer[active])
        inner[active] = np.where(is_far, inner[active], middle)
    return outer


def alike(count: Array) -> Iterator[tuple[Ints, int]]:
    """Rows that can share a number of nodes, each at least its `count` (n,), in small parts."""
    which = np.ceil(np.log(count) / np.log(_RATIO))
    for index in np.unique(which):
        number = int(np.ceil(_RATIO**index))
        rows = np.flatnonzero(which == index)
        for part in slices(len(rows), max(1, _VALUES_OF_TILTED // number)):
            yield rows[part], number


def _sum(rows: _Rows, top: Array, gain: Array, step: Array, offset: Array) -> tuple[Array, ...]:
    """Results of some rows, whose nodes lie at these distances from the top."""
    exponent, (slope, curvature, *extras) = rows.at(top + offset)
    value, weights = trapezoid(exponent, step)
    std, power = rows.std[:, 0], rows.power[:, 0]
    shift = row_dots(weights, offset)
    mean, rest = top[:, 0] + shift, 1.0 - row_dots(weights, (offset - shift[:, None]) ** 2)
    mean_slope = row_dots(weights, slope)
    bend = power * row_dots(weights, curvature)
    bend -= power**2 * row_dots(weights, (slope - mean_slope[:, None]) ** 2)
    # moments lose the digits of rows that say little, derivatives those of rows that say much
    says_much = gain > 2.0
    first = np.where(says_much, mean / std, power * mean_slope)
    second = np.where(says_much, rest / std**2, bend)
    return value, first, second, *(row_dots(weights, other) for other in extras)


def trapezoid(exponent: Array, step: Scalars) -> Pair:
    """Log of the sums of exponentials over ``√(2π) / step``, and their weights, which add to 1."""
    highest = exponent.max(axis=1)
    weights = np.exp(exponent - highest[:, None])
    total = weights.sum(axis=1)
    weights /= total[:, None]
    return highest + np.log(step * total) - 0.5 * LOG_2PI, weights


_CUT = 31.0  # what is left out is smaller than exp(-31) = 3e-14
_STEP = 0.31  # of the nodes: the relative error is about exp(-π² / 0.31) = 1e-14
_LATTICE_STEP = 0.36  # the error of ψ is about exp(-π² / 0.36) = 1e-12
_SHARPENED = 0.08  # twice the variance that a convolution of E takes away at most
_STRIP_OF_E = 0.5 * np.pi  # in which E is bounded
_FLAT = 6.0  # E and its derivatives vanish from here on
_LEVELS = 3  # values of h between a number and its double
_SOFTMAX_VALUES = 1 << 17  # values of ψ
_COLUMNS = 64  # tables have multiples of this number of columns on both sides of 0
_TINY = 1e-300


# -- expectations of a softmax ---------------------------------------------------------------------
# For ``f_c ~ N(m_c, s_c)``, the functions here compute ``L = E[log Σ exp f_c]`` and the derivatives
# ``p_c = ∂L/∂m_c = E[softmax_c]`` and ``β_c = ∂²L/∂m_c² = E[softmax_c (1 - softmax_c)]``. All three
# are integrals over one variable. Let ``E(x) = exp(-exp(x))`` and ``ψ_c(u) = E[E(u + f_c)]``. Then
#
# - ``L = -γ - ∫ (Π ψ_c - [u < 0]) du``, because ``Π ψ_c(u)`` is the probability that the sum of
#   ``log Σ exp f_c`` and a Gumbel variable of mean γ does not exceed ``-u``;
# - ``p_c = -∫ ψ_c' Π_{j≠c} ψ_j du`` and ``β_c = -∫ ψ_c'' Π_{j≠c} ψ_j du``.
#
# **Nodes.** The integrals are sums over ``u = hk``. Since ``|ψ(u + iy)|`` is at most
# ``ψ(u + log cos a) exp((y - a)² / 2s)`` for all ``a < π/2``, the error of the sums is about
# ``exp(-π²/h - 2π² S/h²)``, where ``1/S = Σ 1/s_c``. Every row gets the h for which this bound is
# ``exp(-π²/step)``. To the left of the nodes, ``1 - Π ψ_c`` is nearly
# ``exp(u) Σ exp(m_c + s_c/2)``, whose sum is known.
#
# **ψ at all nodes** is a matrix product. Let ``m_c = hn + ε``. Then
# ``ψ(hk + ε) = Σ_l w_l E_σ(hk + gl)`` with ``w_l = g N(gl; ε, s - σ²)``, where E_σ is E after
# convolution with ``N(0, σ²)``. For small s, the variance σ² is negative: ``E_σ(x)`` is the
# expectation of ``E(x + i|σ|z)`` for a standard normal z. The matrix ``E_σ(hk + gl)`` is a constant
# for all values of similar variance, and n shifts its products. The sums for p and β multiply by
# ``E_σ'`` from the other side.


def log_sum_exp(mean: Array, variance: Array) -> Triple:
    """L (n,), p and β (C, n) of values with these means and variances (C, n)."""
    value, p, curvature = np.empty(mean.shape[1]), np.empty(mean.shape), np.empty(mean.shape)
    for rows, part in _softmax_parts(mean, variance):
        value[rows], p[:, rows], curvature[:, rows] = _softmax_sums(*part)
    return value + mean.max(axis=0), p / p.sum(axis=0), curvature


def _softmax_parts(mean: Array, variance: Array) -> Iterator[tuple[Ints, tuple]]:
    """Divide the rows into parts that need similar nodes."""
    n_classes, n = mean.shape
    x, left, right, has_tail = _ranges(mean, variance)
    with np.errstate(divide="ignore", over="ignore"):
        narrow = 1.0 / (1.0 / variance).sum(axis=0)
    level = np.log2(0.5 + 0.5 * np.sqrt(1.0 + 8.0 * narrow / _STEP))
    h = _STEP * 2.0 ** (np.floor(_LEVELS * level) / _LEVELS)
    before, after = np.ceil(left / h).astype(int), np.ceil(right / h).astype(int)
    order = np.lexsort((-before - after, h))
    ends = np.append(np.flatnonzero(np.diff(h[order])) + 1, n)
    start = 0
    while start < n:
        count = before[order[start]] + after[order[start]] + 1  # nearly the largest of its part
        size = max(1, _SOFTMAX_VALUES // (count * n_classes))
        stop = min(start + size, ends[np.searchsorted(ends, start, side="right")])
        rows = order[start:stop]
        nodes = float(h[rows[0]]), before[rows].max(), after[rows].max()
        yield rows, (x[:, rows], variance[:, rows], has_tail[rows], *nodes)
        start = stop


def _ranges(mean: Array, variance: Array) -> tuple[Array, Array, Array, Bools]:
    """Means relative to the largest, the range of u, and whether the left tail is added."""
    largest = mean.argmax(axis=0)
    x = mean - np.take_along_axis(mean, largest[None], axis=0)
    cut_all, reach = _CUT + np.log(len(mean)), np.sqrt(2.0 * _CUT)
    both = variance + np.take_along_axis(variance, largest[None], axis=0)
    x = np.maximum(x, -cut_all - np.minimum(0.5 * both, reach * np.sqrt(both)))
    spread = reach * np.sqrt(variance)
    left = cut_all + (x + np.minimum(0.5 * variance, spread)).max(axis=0)
    left_of_tail = cut_all - 0.5 * _CUT + (x + variance).max(axis=0)
    right = (np.log(_CUT) + spread - x).min(axis=0)
    return x, np.minimum(left, left_of_tail), right, left_of_tail < left


def _softmax_sums(
    x: Array, variance: Array, has_tail: Bools, h: float, before: int, after: int
) -> Triple:
    """L (n,), p and β (C, n) by nodes ``hk``, ``-before <= k <= after``; the largest x is 0."""
    n_nodes, shape = before + after + 1, x.shape
    # h / (exp(h) - 1), whose exponential would overflow for wide steps
    log_tail = np.log(h / -np.expm1(-h)) - h * (before + 1)
    tail = np.exp(np.where(has_tail, x + 0.5 * variance + log_tail, -np.inf))
    x, variance = x.ravel(), variance.ravel()
    shift = np.rint(-x / h).astype(int)
    epsilon, pad, every = x + h * shift, shift.max(), np.arange(len(x))
    level = np.floor(np.log2(1.0 + variance / _SHARPENED))
    unshifted, known = empty((len(x), n_nodes + pad)), []
    most = [-(-count // _COLUMNS) * _COLUMNS for count in (before + pad, after)]
    columns = slice(most[0] - before - pad, most[0] + after + 1)
    for one in np.unique(level):
        rows = np.flatnonzero(level == one)
        points, smoothed, *tables = _lattice(one, h, *most)
        values, slopes = (table[:, columns] for table in tables)
        weights = _normal_weights(points, epsilon[rows], variance[rows] - smoothed)
        unshifted[rows] = weights @ values
        known.append((rows, points, smoothed, weights, slopes))
    windows = sliding_window_view(unshifted.reshape(-1), n_nodes)
    psi = windows[every * (n_nodes + pad) + pad - shift].reshape(*shape, n_nodes)
    product = psi.prod(axis=0)
    others = np.zeros((*shape, n_nodes + 2 * pad))
    np.divide(product, psi + _TINY, out=others[:, :, pad : pad + n_nodes])
    windows = sliding_window_view(others.reshape(-1), n_nodes + pad)
    p, beta = np.empty(len(x)), np.empty(len(x))
    for rows, points, smoothed, weights, slopes in known:
        weights *= windows[rows * (n_nodes + 2 * pad) + shift[rows]] @ slopes.T
        p[rows], first = weights.sum(axis=1), weights @ points
        beta[rows] = (first - epsilon[rows] * p[rows]) / (variance[rows] - smoothed)
    p, beta = (h * one.reshape(shape) + tail for one in (p, beta))
    value = h * (0.5 + before) - np.euler_gamma - h * product.sum(axis=1) + tail.sum(axis=0)
    return value, np.minimum(p, 1.0), np.maximum(beta, 0.0)


def _normal_weights(points: Array, mean: Array, variance: Array) -> Array:
    """Spacing of the points times normal densities, an array (n, points)."""
    weights = (points - mean[:, None]) ** 2
    weights *= -0.5 / variance[:, None]
    np.exp(weights, out=weights)
    weights *= ((points[1] - points[0]) / np.sqrt(2.0 * np.pi * variance))[:, None]
    return weights


# The narrowest weights have the variance w. The error of their sums is ``exp(-π²/step)`` if the
# transforms of these weights and of E_σ are together that small at the frequency ``2π/g``.
@lru_cache(maxsize=128)
def _lattice(level: float, h: float, before: int, after: int) -> tuple[Array, float, Array, Array]:
    """Points ``gl``, σ², and ``E_σ(hk + gl)`` and its slope: for variances of this level."""
    low = _SHARPENED * 2.0**level
    w, smoothed = 0.5 * low, 0.5 * low - _SHARPENED
    rate = np.pi**2 * (0.125 / w + (1.0 + smoothed / w) / _LATTICE_STEP)
    root = np.sqrt(max(0.25 * np.pi**2 + 2.0 * smoothed * rate, 0.0))
    spacing = np.pi * (0.5 * np.pi + root) / rate
    unit = 0.125 * h / np.ceil(0.125 * h / spacing)  # of which points and nodes are multiples
    stride = int(spacing / unit)
    count = np.ceil((np.sqrt(3.0 * _CUT * low) + 0.5 * h) / (stride * unit))
    number = stride * np.arange(-count, count + 1.0)
    columns = np.rint(h / unit) * np.arange(-before, after + 1)
    places, index = np.unique(number[:, None] + columns, return_inverse=True)
    tables = [table[index.reshape(len(number), -1)] for table in _smoothed(unit * places, smoothed)]
    return unit * number, smoothed, tables[0], tables[1]


def _smoothed(x: Array, variance: float) -> Sequence[Array]:
    """E and -E' at `x` after convolution with ``N(0, variance)``, which may be negative."""
    if variance > 0.0:
        unit = _STRIP_OF_E / STRIP
        spread = np.full(len(x), variance / unit**2)
        return expectation(lambda f: _gumbel(unit * f), x / unit, spread)
    z, weights = _rule(1.0)
    return [part.real @ weights for part in _gumbel(x[:, None] + 1j * np.sqrt(-variance) * z)]


def _gumbel(x: AnyArray) -> tuple[AnyArray, AnyArray]:
    """``E(x) = exp(-exp x)`` and minus its derivative, of real or complex numbers."""
    a = np.exp(np.where(x.real < _FLAT, x, _FLAT))
    return np.exp(-a), a * np.exp(-a)

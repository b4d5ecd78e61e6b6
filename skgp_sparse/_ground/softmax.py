r"""Expectations of the softmax function and of its normaliser, under independent normal values.

For ``f_c ~ N(m_c, s_c)``, the functions here compute ``L = E[log Σ exp f_c]`` and the derivatives
``p_c = ∂L/∂m_c = E[softmax_c]`` and ``β_c = ∂²L/∂m_c² = E[softmax_c (1 - softmax_c)]``. All three
are integrals over one variable. Let ``E(x) = exp(-exp(x))`` and ``ψ_c(u) = E[E(u + f_c)]``. Then

- ``L = -γ - ∫ (Π ψ_c - [u < 0]) du``, because ``Π ψ_c(u)`` is the probability that the sum of
  ``log Σ exp f_c`` and a Gumbel variable of mean γ does not exceed ``-u``;
- ``p_c = -∫ ψ_c' Π_{j≠c} ψ_j du`` and ``β_c = -∫ ψ_c'' Π_{j≠c} ψ_j du``.

**Nodes.** The integrals are sums over ``u = hk``. Since ``|ψ(u + iy)|`` is at most
``ψ(u + log cos a) exp((y - a)² / 2s)`` for all ``a < π/2``, the error of the sums is about
``exp(-π²/h - 2π² S/h²)``, where ``1/S = Σ 1/s_c``. Every row gets the h for which this bound is
``exp(-π²/step)``. To the left of the nodes, ``1 - Π ψ_c`` is nearly ``exp(u) Σ exp(m_c + s_c/2)``,
whose sum is known.

**ψ at all nodes** is a matrix product. Let ``m_c = hn + ε``. For ``s > σ²``,
``ψ(hk + ε) = Σ_l w_l E_σ(hk + gl)``, where E_σ is E after convolution with ``N(0, σ²)``, and where
``w_l = g N(gl; ε, s - σ²)``. For nearly constant values, it is a Taylor series of E at ``hk``. The
matrix ``E_σ(hk + gl)`` is a constant for all values of similar variance, and n shifts its products.
The sums for p and β multiply by ``E_σ'`` from the other side.
"""

from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtr

from skgp_sparse._ground.parallel import empty, slices

_CUT = 31.0  # what is left out is smaller than exp(-31) = 3e-14
_ERROR_MARGIN = 4.0  # added to it where the error of ψ at all nodes adds up
_NARROW = 0.0025  # variance below which Taylor series serve
_TERMS = 24  # of a Taylor series
_SMOOTHED = 0.125  # variance from which σ is half of the variance, otherwise 0
_FINE = 0.25  # step of the rule for E_σ
_FLAT = 6.0  # E and its derivatives vanish from here on
_LEVELS = 3  # values of h between a number and its double
_VALUES_PER_BLOCK = 1 << 17  # values of ψ
_COLUMNS = 64  # tables have multiples of this number of columns on both sides of 0


def log_sum_exp(mean, variance, step=0.3):
    """Compute ``E[log Σ exp f_c]`` for ``f_c ~ N(mean_c, variance_c)``, with its derivatives.

    Parameters
    ----------
    mean, variance : ndarray of shape (C, n)
        Means and variances of C values in each of n rows.
    step : float, default=0.3
        The relative error of the nodes is about ``exp(-π²/step)``.

    Returns
    -------
    value : ndarray of shape (n,)
        The expectation L.
    p, curvature : ndarray of shape (C, n)
        The expectations of ``softmax_c`` and ``softmax_c (1 - softmax_c)``, which are the first
        and second derivatives of L with respect to `mean`.
    """
    value, p, curvature = np.empty(mean.shape[1]), np.empty(mean.shape), np.empty(mean.shape)
    for rows, part in _parts(mean, variance, step):
        product, p[:, rows], curvature[:, rows] = part.sums()
        value[rows] = part.log_sum_exp(product)
    return value + mean.max(axis=0), p / p.sum(axis=0), curvature


def probabilities(mean, variance, step=0.35):
    """Compute ``E[softmax_c]`` for ``f_c ~ N(mean_c, variance_c)``.

    Parameters
    ----------
    mean, variance : ndarray of shape (C, n)
        Means and variances of C values in each of n rows.
    step : float, default=0.35
        The relative error of the nodes is about ``exp(-π²/step)``.

    Returns
    -------
    ndarray of shape (C, n)
        Probabilities, which add up to 1.
    """
    p = np.empty(mean.shape)
    for rows, part in _parts(mean, variance, step):
        p[:, rows] = part.sums(curvature=False)[1]
    return p / p.sum(axis=0)


def _parts(mean, variance, step):
    """Divide the rows into parts that need similar nodes."""
    n_classes, n = mean.shape
    x, left, right, has_tail = _ranges(mean, variance)
    with np.errstate(divide="ignore", over="ignore"):
        narrow = 1.0 / (1.0 / variance).sum(axis=0)
    level = np.log2(0.5 + 0.5 * np.sqrt(1.0 + 8.0 * narrow / step))
    h = step * 2.0 ** (np.floor(_LEVELS * level) / _LEVELS)
    before, after = np.ceil(left / h).astype(int), np.ceil(right / h).astype(int)
    order = np.lexsort((-before - after, h))
    ends = np.append(np.flatnonzero(np.diff(h[order])) + 1, n)
    start = 0
    while start < n:
        count = before[order[start]] + after[order[start]] + 1  # nearly the largest of its part
        size = max(1, _VALUES_PER_BLOCK // (count * n_classes))
        stop = min(start + size, ends[np.searchsorted(ends, start, side="right")])
        rows = order[start:stop]
        nodes = float(h[rows[0]]), before[rows].max(), after[rows].max()
        yield rows, _Part(x[:, rows], variance[:, rows], has_tail[rows], *nodes, step)
        start = stop


def _ranges(mean, variance):
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


class _Part:
    """Rows with the same nodes.

    Parameters
    ----------
    x, variance : ndarray of shape (C, n)
        Means, the largest of which is 0, and variances.
    has_tail : ndarray of shape (n,)
        Whether to add the sum to the left of the nodes.
    h : float
    before, after : int
        The nodes are ``hk`` for ``-before <= k <= after``.
    step : float
        The accuracy of what is summed over them.
    """

    def __init__(self, x, variance, has_tail, h, before, after, step):
        self.h, self.before, self.after, self.step = h, before, after, step
        n_shifts = np.rint(x / h).astype(int)
        self.shift = -n_shifts.ravel()
        self.x, self.epsilon = x, (x - h * n_shifts).ravel()
        self.variance = variance.ravel()
        self.n_nodes = before + after + 1
        self.pad = self.shift.max()
        # h / (exp(h) - 1), whose exponential would overflow for wide steps
        log_tail = np.log(h / -np.expm1(-h)) - h * (before + 1)
        self.tail = np.exp(np.where(has_tail, x + 0.5 * variance + log_tail, -np.inf))
        # Values of similar variance are neighbours in `order`.
        with np.errstate(divide="ignore"):
            group = np.maximum(np.floor(np.log2(self.variance / _NARROW)), -1.0)
        self.order = np.argsort(group, kind="stable")
        self.groups, starts = np.unique(group[self.order], return_index=True)
        self.slices = [slice(*ends) for ends in zip(starts, [*starts[1:], len(group)])]

    def log_sum_exp(self, product):
        """L, given the sums of the products of all ψ."""
        centre = self.h * (0.5 + self.before) - np.euler_gamma
        return centre - self.h * product + self.tail.sum(axis=0)

    def sums(self, curvature=True):
        """Sums over the nodes: of the products of all ψ, p and β (unless not needed)."""
        expansions = [_expansion(g, self.h, self.step) for g in self.groups]
        weights, psi = self._psi(expansions)
        product, all_but_one = _products_of_others(psi, self.pad)
        width = self.n_nodes + self.pad
        starts = self.order * all_but_one.shape[-1] + self.shift[self.order]
        all_but_one = sliding_window_view(all_but_one.reshape(-1), width)[starts]
        p, beta = np.empty(self.shift.shape), np.empty(self.shift.shape)
        for some, expansion, weight in zip(self.slices, expansions, weights):
            table = self._columns(expansion, 1)
            moved = np.matmul(all_but_one[some], table.T, out=empty(weight.shape))
            rows = self.order[some]
            p[rows] = np.einsum("ij,ij->i", weight, moved)
            if curvature:
                beta[rows] = expansion.slope(weight, moved, self.epsilon[rows], self.variance[rows])
        p, beta = (self.h * array.reshape(self.x.shape) + self.tail for array in (p, beta))
        return product, np.minimum(p, 1.0), np.maximum(beta, 0.0)

    def _psi(self, expansions):
        """Weights of the values in `order`, and ψ, an array of shape (C, n, nodes)."""
        width = self.n_nodes + self.pad
        unshifted, weights = empty((len(self.order), width)), []
        for some, expansion in zip(self.slices, expansions):
            rows = self.order[some]
            weights.append(expansion.weights(self.epsilon[rows], self.variance[rows]))
            np.matmul(weights[-1], self._columns(expansion, 0), out=unshifted[some])
        starts = np.argsort(self.order) * width + self.pad - self.shift
        windows = sliding_window_view(unshifted.reshape(-1), self.n_nodes)
        return weights, windows[starts.reshape(self.x.shape)]

    def _columns(self, expansion, derivative):
        """The table of an expansion, with columns from the leftmost shifted node to the last."""
        before = self.before + self.pad
        n_left, n_right = (-(-count // _COLUMNS) * _COLUMNS for count in (before, self.after))
        table = expansion.table(n_left, n_right)[derivative]
        return table[:, n_left - before : n_left + self.after + 1]


def _products_of_others(psi, pad):
    """Sums of the products of all classes, and products of all but one, between zeros."""
    n_classes, n, n_nodes = psi.shape
    out = empty((n_classes, n, n_nodes + 2 * pad))
    out[:, :, :pad] = 0.0
    out[:, :, pad + n_nodes :] = 0.0
    all_but_one = out[:, :, pad : pad + n_nodes]
    all_but_one[-1] = 1.0
    for c in range(n_classes - 1, 0, -1):
        np.multiply(all_but_one[c], psi[c], out=all_but_one[c - 1])
    product = psi[0]
    for c in range(1, n_classes):
        all_but_one[c] *= product
        product *= psi[c]
    return product.sum(axis=1), out


@lru_cache(maxsize=128)
def _expansion(group, h, step):
    """How values of similar variance give ψ from a table."""
    return _Taylor(h) if group < 0 else _Lattice(_NARROW * 2.0**group, h, step)


class _Taylor:
    """Taylor series of E at the nodes, whose weights are the moments of a value."""

    def __init__(self, h):
        self.h = h
        self.table = lru_cache(maxsize=8)(self._table)

    def weights(self, epsilon, variance):
        """Moments, an array of shape (n, terms)."""
        moments = np.ones((_TERMS, len(epsilon)))
        moments[1] = epsilon
        for d in range(2, _TERMS):
            moments[d] = epsilon * moments[d - 1] + (d - 1) * variance * moments[d - 2]
        return np.ascontiguousarray(moments.T)

    def slope(self, weights, moved, epsilon, variance):
        """Derivative with respect to ε of the sum of ``weights * moved``."""
        return (weights[:, :-1] * moved[:, 1:]) @ np.arange(1.0, _TERMS)

    def _table(self, before, after):
        """Coefficients of E and -E' at the nodes."""
        a = np.exp(np.minimum(self.h * np.arange(-before, after + 1), _FLAT))
        polynomial = np.polynomial.Polynomial([1.0])  # the derivative of E, divided by E, in -a
        coefficients = np.empty((_TERMS + 1, len(a)))
        factorial = 1.0
        for d in range(_TERMS + 1):
            coefficients[d] = np.exp(-a) * polynomial(-a) / factorial
            polynomial = np.polynomial.Polynomial([0.0, 1.0]) * (polynomial + polynomial.deriv())
            factorial *= d + 1
        return coefficients[:-1], -coefficients[1:] * np.arange(1.0, _TERMS + 1)[:, None]


class _Lattice:
    """Sums over a lattice, for variances from `low` to twice as much."""

    def __init__(self, low, h, step):
        self.h = h
        self.smoothed = 0.5 * low if low >= _SMOOTHED else 0.0
        spacing = _largest_spacing(low, step)
        # Nodes and lattice are multiples of a unit.
        self.unit = h if spacing > 4.0 * h else 0.25 * h
        self.unit /= np.ceil(self.unit / spacing)
        self.stride = int(spacing / self.unit)
        reach = np.sqrt(2.0 * (_CUT + _ERROR_MARGIN) * (2.0 * low - self.smoothed)) + 0.5 * h
        self.count = int(np.ceil(reach / (self.stride * self.unit)))
        self.points = self.stride * self.unit * np.arange(-self.count, self.count + 1)
        self.powers = np.stack([np.ones_like(self.points), self.points, self.points**2])
        self.table = lru_cache(maxsize=8)(self._table)

    def weights(self, epsilon, variance):
        """Weights of the lattice, an array of shape (n, points)."""
        precision = 1.0 / (variance - self.smoothed)
        scale = np.log(self.stride * self.unit) + 0.5 * np.log(precision / (2.0 * np.pi))
        exponents = [scale - 0.5 * precision * epsilon**2, precision * epsilon, -0.5 * precision]
        weights = np.stack(exponents, axis=1) @ self.powers
        return np.exp(weights, out=weights)

    def slope(self, weights, moved, epsilon, variance):
        """Derivative with respect to ε of the sum of ``weights * moved``."""
        moments = np.multiply(weights, moved, out=moved) @ self.powers[:2].T
        return (moments[:, 1] - epsilon * moments[:, 0]) / (variance - self.smoothed)

    def _table(self, before, after):
        """E_σ and -E_σ' at sums of a lattice point and a node."""
        per_node = round(self.h / self.unit)
        columns = per_node * np.arange(-before, after + 1)
        rows = self.stride * np.arange(-self.count, self.count + 1)
        first, last = rows[0] + columns[0], rows[-1] + columns[-1]
        values = _smoothed(self.unit * np.arange(first, last + 1), self.smoothed)
        index = rows[:, None] + columns - first
        return values[0][index], values[1][index]


def _largest_spacing(variance, step):
    """Spacing of a lattice for `variance` whose error is ``exp(-π²/step)``."""
    if variance < 0.125 * step:
        return np.sqrt(2.0 * variance * step)
    needed = 1.0 / step + 0.125 / variance
    if variance < _SMOOTHED:
        return 1.0 / needed
    return variance / (np.sqrt(0.25 + 2.0 * variance * needed) - 0.5)


def _smoothed(x, variance):
    """E and -E' at `x` after convolution with ``N(0, variance)``.

    Because E is the probability that a variable of density -E' is larger, the convolution is
    ``-∫ E'(g) Φ((g - x) / σ) dg``.
    """
    if not variance:
        a = np.exp(np.minimum(x, _FLAT))
        return np.exp(-a), a * np.exp(-a)
    step, std = 1.0 / (1.0 / _FINE + 0.125 / variance), np.sqrt(variance)
    first, last = -_CUT - 2.0 * _ERROR_MARGIN, np.log(_CUT) + 1.0
    g = step * np.arange(np.floor(first / step), np.ceil(last / step))
    weights = np.exp(g - np.exp(g))
    weights /= weights.sum()  # the error of their sum would add up over all nodes
    value, slope = np.empty_like(x), np.empty_like(x)
    size = max(1, _VALUES_PER_BLOCK // len(g))
    for some in slices(len(x), size):
        z = (g - x[some, None]) / std
        value[some] = ndtr(z) @ weights
        slope[some] = np.exp(-0.5 * z**2) @ weights / (np.sqrt(2.0 * np.pi) * std)
    return value, slope

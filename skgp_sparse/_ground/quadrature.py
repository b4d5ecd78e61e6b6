r"""Expectations under one normal distribution per row, to about 1e-12 relative.

For ``g`` analytic in a strip of half-width `STRIP` around the real axis, which holds for the
logarithms, slopes and curvatures of the probit and the logit (their nearest singularities are at
``±2.8i`` and ``±πi``). By the standard deviation s of a row:

- small: Gauss-Hermite rules;
- up to 1: the trapezoidal rule, which converges exponentially here, with a step that follows the
  width of the singularity; a fixed number of Gauss-Hermite nodes loses digits as s grows;
- wider, but not far from 0: the trapezoidal rule in u, ``f = sinh(u)``, whose nodes are dense where
  g bends and which needs few of them however wide the row. They are the same for many rows, so that
  g is evaluated once;
- wide and far from 0: a coarse trapezoidal rule, as g has no singularity near by.
"""

from functools import lru_cache

import numpy as np

from skgp_sparse._ground.parallel import slices

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


def expectation(g, mean, variance, *by_row):
    """``E[g(f)]`` for ``f ~ N(mean_i, variance_i)``.

    Parameters
    ----------
    g : callable
        Elementwise: array (n, k), and `by_row` as (n, 1), to a tuple of arrays (n, k).
    mean, variance : ndarray of shape (n,)
    *by_row : ndarray of shape (n,)
        Further arguments of `g`.

    Returns
    -------
    tuple of ndarray of shape (n,)
        One for each result of `g`.
    """
    std = np.sqrt(variance)

    def parts():
        for rows, f, weights in _rules(mean, std, _WIDE_BY_ROW if by_row else _WIDE):
            values = g(f, *(column[rows, None] for column in by_row))
            yield rows, [_weighted_sum(value, weights) for value in values]

    return from_parts(parts())


def from_parts(parts):
    """Arrays (n,) from what they hold for some rows at a time: indices, and a part of each."""
    rows, values = zip(*parts)
    order = np.argsort(np.concatenate(rows))
    return tuple(np.concatenate(column)[order] for column in zip(*values))


def _weighted_sum(value, weights):
    """Weighted sum of every row; values, weights or both may be the same for all rows."""
    if weights.ndim == 1:
        return value @ weights
    if len(value) == 1:
        return weights @ value[0]
    return np.einsum("ij,ij->i", value, weights)


def _rules(mean, std, wide):
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


def _narrow(mean, std, rows):
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


def _parts(rows, n_nodes):
    return (rows[part] for part in slices(len(rows), max(1, _VALUES_PER_BLOCK // n_nodes)))


@lru_cache(maxsize=64)
def _sinh_rule(limit):
    """Nodes, and their weights before those of the normal distribution."""
    count = int(np.ceil(limit / _STEP_OF_SINH))
    u = np.linspace(-limit, limit, 2 * count + 1)
    return np.sinh(u), np.cosh(u)


@lru_cache(maxsize=64)
def _rule(std):
    for edge, count in _FEW_NODES:
        if std <= edge:
            nodes, weights = np.polynomial.hermite_e.hermegauss(count)
            return nodes, weights / weights.sum()
    count = int(np.ceil(_REACH_IN_STDS / min(_LARGEST_STEP, _NODE_SPACING / std)))
    nodes = np.linspace(-_REACH_IN_STDS, _REACH_IN_STDS, 2 * count + 1)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()

r"""Expectations under one normal distribution per row, to about 1e-12 relative.

For ``g`` analytic in a strip of half-width about 2.8 around the real axis, which holds for the
logarithms, slopes and curvatures of the probit and the logit (their nearest singularities are at
``±2.8i`` and ``±πi``). Gauss-Hermite rules where the standard deviation is small; the trapezoidal
rule, which converges exponentially here, where it is not, with a step that follows the width of
the singularity: a fixed number of Gauss-Hermite nodes loses digits as the variance grows.
"""

from functools import lru_cache

import numpy as np

_FEW_NODES = ((0.1, 6), (0.25, 9))  # largest standard deviation, Gauss-Hermite nodes
_STEP = 0.5  # of the trapezoidal rule: singularities at 2.8 cost exp(2.8²/2s² - 2π 2.8/0.5)
_LARGEST_STEP = 0.7  # in standard deviations: exp(-2π² / 0.7²) is 3e-18
_REACH = 7.5  # standard deviations
_WIDEST = 512.0  # standard deviation from which the step grows with it: 1e-7 relative then
_AT_ONCE = 1 << 16  # values of g


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
    found = None
    for rows, nodes, weights in _rules(std):
        f = mean[rows, None] + std[rows, None] * nodes
        values = g(f, *(column[rows, None] for column in by_row))
        if found is None:
            found = tuple(np.empty(len(mean)) for _ in values)
        for out, value in zip(found, values):
            out[rows] = value @ weights
    return found


def _rules(std):
    """Rows of similar standard deviation, with the nodes and weights that serve them."""
    edges = [edge for edge, _ in _FEW_NODES]
    largest = std.max(initial=0.0)
    while edges[-1] < largest:
        edges.append(max(np.sqrt(2.0) * edges[-1], _STEP / _LARGEST_STEP))
    which = np.searchsorted(edges, std)
    for index in np.unique(which):
        nodes, weights = _rule(edges[index])
        rows = np.flatnonzero(which == index)
        size = max(1, _AT_ONCE // len(nodes))
        for start in range(0, len(rows), size):
            yield rows[start : start + size], nodes, weights


@lru_cache(maxsize=64)
def _rule(std):
    for edge, count in _FEW_NODES:
        if std <= edge:
            nodes, weights = np.polynomial.hermite_e.hermegauss(count)
            return nodes, weights / weights.sum()
    count = int(np.ceil(_REACH / min(_LARGEST_STEP, _STEP / min(std, _WIDEST))))
    nodes = np.linspace(-_REACH, _REACH, 2 * count + 1)
    weights = np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()

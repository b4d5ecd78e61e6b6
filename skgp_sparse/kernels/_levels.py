"""Rows of levels in several columns: how much they agree, by a product of matrices.

With weights w_j = -log ρ_j, the product of equal correlations over columns j is

    Π_j (ρ_j + (1 - ρ_j) [a_j = b_j]) = exp(Σ_j w_j [a_j = b_j] - Σ_j w_j),

and the sum over columns is that over their indicators of levels, ``A diag(w) Bᵀ``.
"""

from functools import partial

import numpy as np
from scipy.sparse import csr_array

_FARTHEST = 1e15  # code, beyond which there are no whole numbers
_WEIGHTS = 1e-14, 700.0  # whose correlations are neither 0 nor 1
_FEW = 4  # rows, which are compared with all others sooner than the others are sorted
_DENSE = 512  # indicators of levels, beyond which few of them are 1


def agreement(a, b, w):
    """Return ``Π_j ρ_j^[a_j ≠ b_j]`` of codes and its pullback.

    Parameters
    ----------
    a : ndarray of shape (..., n, q) of int
    b : ndarray of shape (..., m, q) of int
    w : ndarray of shape (q,)
        Minus the logarithms of the correlations ρ.

    Returns
    -------
    K : ndarray of shape (..., n, m)
    pull : callable
        ``pull(H) -> (q,)``: the gradient with respect to log ρ, from ``H = G * K``.
    """
    if a.ndim > 2 or len(a) <= _FEW:  # many small sets, or one
        return _one_by_one(a, b, w)
    places = [np.unique(b[:, j], return_inverse=True) for j in range(len(w))]
    edges = np.cumsum([0, *(len(levels) for levels, _ in places)])
    of_b = np.column_stack([start + index for start, (_, index) in zip(edges, places)])
    of_a, known = np.zeros_like(a), np.zeros(a.shape, dtype=bool)
    for j, (levels, _) in enumerate(places):
        index = np.minimum(np.searchsorted(levels, a[:, j]), len(levels) - 1)
        known[:, j] = levels[index] == a[:, j]
        of_a[:, j] = edges[j] + index
    A = _indicators(of_a, known, np.ones(len(w)), edges[-1])
    B = _indicators(of_b, np.ones(b.shape, dtype=bool), w, edges[-1])
    K = A @ B.T
    K = K if isinstance(K, np.ndarray) else K.toarray()
    K -= w.sum()
    return np.exp(K, out=K), partial(_pull, A, of_b)


def log_weights(correlation):
    """Return ``log(-log ρ)``, in which correlations are learned."""
    return np.log(-np.log(np.asarray(correlation, dtype=float)))


def correlations(theta):
    """Return the correlations of values of `log_weights`, which are between 0 and 1 in any case."""
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(-np.clip(np.exp(theta), *_WEIGHTS))


def as_codes(X):
    """Return codes as whole numbers; those beyond all whole numbers are one level."""
    return np.clip(np.rint(np.nan_to_num(X, nan=-_FARTHEST)), -_FARTHEST, _FARTHEST).astype(np.intp)


def _indicators(places, known, values, size):
    """Indicators (n, size) of the levels of rows, times a value for each column."""
    if size <= _DENSE:
        out = np.zeros((len(places), size))
        rows = np.arange(len(places))[:, None]
        out[np.broadcast_to(rows, known.shape)[known], places[known]] = np.broadcast_to(
            values, known.shape
        )[known]
        return out
    edges = np.append(0, np.cumsum(known.sum(axis=1)))
    values = np.broadcast_to(values, known.shape)[known]
    return csr_array((values, places[known], edges), (len(places), size))


def _pull(A, of_b, H):
    agreed = (A.T @ H)[of_b, np.arange(len(of_b))[:, None]].sum(axis=0)
    return H.sum() - agreed


def _one_by_one(a, b, w):
    K = np.zeros((*a.shape[:-1], b.shape[-2]))
    for j, weight in enumerate(w):
        K -= weight * (a[..., :, None, j] != b[..., None, :, j])
    return np.exp(K, out=K), partial(_pull_one_by_one, a, b)


def _pull_one_by_one(a, b, H):
    columns = range(a.shape[-1])
    return np.array([H[a[..., :, None, j] != b[..., None, :, j]].sum() for j in columns])

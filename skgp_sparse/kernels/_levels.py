"""Rows of levels in several columns: how much they agree, by the patterns in which they differ.

A bit for each column says whether two rows differ there, and eight columns make a byte. So few
columns have only 256 products of correlations, which are read from a table:

    Π_j (ρ_j + (1 - ρ_j) [a_j = b_j]) = Π_j ρ_j^[a_j ≠ b_j] = Π_g T_g[byte_g].

The gradient with respect to ρ_j is a sum over the pairs that differ in column j, from the sums over
the pairs of each byte. Neither depends on the number of levels.
"""

from functools import partial
from math import prod

import numpy as np

from skgp_sparse._ground.parallel import empty, slices

from ._differentiable import Transform

_FARTHEST = 1e15  # code, beyond which there are no whole numbers
_WEIGHTS = 1e-14, 700.0  # whose correlations are neither 0 nor 1
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_BITS = _BITS.astype(float)  # (256, 8) of all bytes
_PAIRS_AT_ONCE = 1 << 18
_COLUMNS_ONE_BY_ONE = 2  # columns that are summed one by one


def agreement(a, b, w):
    """Return ``Π_j ρ_j^[a_j ≠ b_j]`` of codes and its pullback.

    Parameters
    ----------
    a : ndarray of shape (..., n, q) of int or bool
    b : ndarray of shape (..., m, q) of int or bool
        Two dimensions are two point sets, and three are many small ones.
    w : ndarray of shape (q,)
        Minus the logarithms of the correlations ρ.

    Returns
    -------
    K : ndarray of shape (..., n, m)
    pull : callable
        ``pull(H) -> (q,)``: the gradient with respect to log ρ, from ``H = G * K``.
    """
    differences = _differences(a, b)
    exponents = np.zeros((len(differences), 8))
    exponents.reshape(-1)[: len(w)] = -w
    first, *others = np.exp(exponents @ _BITS.T)
    K = empty(differences.shape[1:])
    differences = differences.reshape(len(differences), -1)
    for part in slices(K.size, _PAIRS_AT_ONCE):
        product = K.reshape(-1)[part]
        np.take(first, differences[0, part], out=product, mode="clip")  # it checks no index
        for table, which in zip(others, differences[1:, part]):
            product *= np.take(table, which, mode="clip")
    return K, partial(_pull, differences, len(w))


def log_weights(correlation):
    """Return ``log(-log ρ)``, in which correlations are learned."""
    return np.log(-np.log(np.asarray(correlation, dtype=float)))


def correlations(theta):
    """Return the correlations of values of `log_weights`, which are between 0 and 1 in any case."""
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(-np.clip(np.exp(theta), *_WEIGHTS))


CORRELATION = Transform(log_weights, correlations)


def as_codes(X):
    """Return codes as whole numbers; those beyond all whole numbers are one level."""
    codes = np.clip(np.rint(X), -_FARTHEST, _FARTHEST)
    codes[np.isnan(codes)] = -_FARTHEST
    return codes.astype(np.intp)


def _differences(a, b):
    """Bytes (g, ..., n, m) whose bits say in which columns, eight each, pairs of rows differ."""
    codes = (a,) if a is b else (a, b)
    low, high = min(int(c.min(initial=0)) for c in codes), max(int(c.max(initial=0)) for c in codes)
    narrow = np.min_scalar_type(high - low)  # which tells codes apart, though it may wrap them
    columns = [c.T.astype(narrow, order="C") for c in codes]  # (q, n) or (q, k, s)
    first, second = columns[0], columns[-1]
    (q, n), shape = first.shape[:2], second.shape[1:]
    found = np.zeros((-(-q // 8), n, *shape), dtype=np.uint8)
    for rows in slices(n, max(_PAIRS_AT_ONCE // max(prod(shape), 1), 1)):
        differ = np.empty(found[0, rows].shape, dtype=bool)
        for j in reversed(range(q)):
            byte = found[j // 8, rows]
            np.add(byte, byte, out=byte)
            np.not_equal(first[j, rows, None], second[j], out=differ)
            byte |= differ.view(np.uint8)
    return found if a.ndim == 2 else np.ascontiguousarray(np.moveaxis(found, -1, 1))


def _pull(differences, q, H):
    H, slopes = H.reshape(-1), np.zeros(q)
    for part in slices(len(H), _PAIRS_AT_ONCE):
        for of_byte, which in zip(np.split(slopes, range(8, q, 8)), differences[:, part]):
            of_byte += _sums_by_bit(which, H[part], len(of_byte))
    return slopes


def _sums_by_bit(which, H, q):
    """Sums of H (q,) over the pairs whose bytes have a bit."""
    if q <= _COLUMNS_ONE_BY_ONE:
        return [(which >> j & 1) @ H for j in range(q)]
    return np.bincount(which, H, 256) @ _BITS[:, :q]

"""Inputs in which rows are near that a kernel finds near, for searches of near rows."""

import numpy as np

from ._categorical import categories
from ._functions import evaluate
from ._levels import as_codes
from ._registry import node

_DIMENSIONS = 64  # one for each of so many levels; more of them are about as far from each other
_SEVERAL = 50  # levels that tell how near levels are
_SMALLEST, _LARGEST = 1e-4, 0.999  # correlations between them


def in_units(kernel, X, scale):
    """Return inputs in which rows are near that a kernel finds near.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X : ndarray of shape (n, d)
    scale : ndarray of shape (d,)
        As `length_scales` returns it.

    Returns
    -------
    ndarray of shape (n, r)
        Inputs in units of `scale`, if all parts of the kernel see all columns alike. Otherwise what
        every part sees, in units of its length scales. Levels of a category are as far from each
        other as numbers of their mean correlation in an RBF kernel.
    """
    tree, found = node(kernel), categories(kernel, X.shape[1])
    if not found and not any(part.is_map for part, _ in tree.walk(None)):
        return X / scale
    parts = tree.places(X)
    for column in dict.fromkeys(column for _, column in found):
        distance = np.sqrt(-np.log(_correlation(kernel, X.shape[1], column)))
        parts.append(distance * _places(as_codes(X[:, column])))
    return np.hstack(parts) if parts else X / scale


def _correlation(kernel, d, column):
    """Mean correlation of rows that are in different levels, and the same otherwise."""
    rows = np.zeros((_SEVERAL, d))
    rows[:, column] = np.arange(_SEVERAL)
    K = evaluate(kernel, rows, rows)
    mean = np.mean(K[~np.eye(_SEVERAL, dtype=bool)]) / np.mean(K.diagonal())
    return np.clip(mean, _SMALLEST, _LARGEST)


def _places(codes):
    """Vectors of length 1 (n, 64) of codes, 0 of negative ones.

    The first 64 codes are orthogonal. Others are drawn at random, and nearly so.
    """
    levels, index = np.unique(codes, return_inverse=True)
    vectors = np.array([_vector(level) for level in levels]).reshape(-1, _DIMENSIONS)
    return vectors[index.reshape(len(codes))]


def _vector(code):
    if code < _DIMENSIONS:
        return (np.arange(_DIMENSIONS) == code).astype(float)
    draw = np.random.RandomState(code % 2**32).normal(size=_DIMENSIONS)
    return draw / np.linalg.norm(draw)

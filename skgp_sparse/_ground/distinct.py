"""Distinct rows of arrays whose missing values, NaN, are equal to each other."""

from typing import NamedTuple

import numpy as np

_SMALL_TABLE = 1_000_000  # numbers: 8 MB, sorted in less than 0.1 s


class Distinct(NamedTuple):
    """Distinct rows of an array, sorted, and where each row is among them."""

    first: np.ndarray  # (u,) the number of the first of equal rows
    index: np.ndarray  # (n,) the distinct row of each row

    @classmethod
    def of(cls, key):
        """The distinct rows of an array (n, d)."""
        _, first, index = unique_rows(key, return_index=True, return_inverse=True)
        return cls(first, index.ravel())

    def sum(self, values=None):
        """Sums over equal rows of values (n,) or (n, p); None: their number."""
        return sums_by(self.index, values, len(self.first))


def sums_by(index, values, size):
    """Sums (size,) or (size, p) of values (n,) or (n, p) of rows with the same index."""
    if np.ndim(values) < 2:
        return np.bincount(index, values, minlength=size)
    return np.stack([sums_by(index, column, size) for column in values.T], axis=1)


def unique_rows(X, **returned):
    """Sorted distinct rows, as ``numpy.unique(X, axis=0)``; missing values come last.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Without infinities.
    **returned : bool
        ``return_index`` and ``return_inverse`` of `numpy.unique`.
    """
    missing = np.isnan(X)
    if not missing.any():
        return np.unique(X, axis=0, **returned)
    found = np.unique(np.where(missing, np.inf, X), axis=0, **returned)
    rows, *others = found if returned else (found,)
    rows = np.where(np.isinf(rows), np.nan, rows)
    return (rows, *others) if returned else rows


def is_small(size):
    """Whether rows of so many numbers are sorted, so that equal tables have one form."""
    return size <= _SMALL_TABLE

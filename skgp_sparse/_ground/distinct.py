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
        """The distinct rows of an array (n, d) without infinities; missing values come last."""
        missing = np.isnan(key)
        key = np.where(missing, np.inf, key) if missing.any() else key
        _, first, index = np.unique(key, axis=0, return_index=True, return_inverse=True)
        return cls(first, index.ravel())

    def copies(self, weight=None):
        """How often each distinct row is there, by weights (n,) of the rows if they have any."""
        return np.bincount(self.index, weight, minlength=len(self.first))


def unique_rows(X):
    """Sorted distinct rows of an array (n, d) without infinities."""
    return X[Distinct.of(X).first]


def is_small(size):
    """Whether rows of so many numbers are sorted, so that equal tables have one form."""
    return size <= _SMALL_TABLE

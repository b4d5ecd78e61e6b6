"""Distinct rows of arrays whose missing values, NaN, are equal to each other."""

import numpy as np


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

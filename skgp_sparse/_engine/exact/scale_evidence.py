r"""Evidence of targets at several scales, values alone: which scale does their structure have?

With a kernel matrix v K of the signal, and noise of variance v D, D = diag((ρ + d_i) / w_i), the
evidence of p targets at the most likely v̂ is, up to a constant,

.. math:: -\tfrac{np}2 \log \hat v - \tfrac p2 \log |K + D|,
    \qquad \hat v = \tfrac1{np} \operatorname{tr} y^\top (K + D)^{-1} y

(Rasmussen and Williams 2006, eq. 5.8). That of a linear trend and noise is
``-np/2 log v̂`` with the mean square v̂ of the residuals of least squares.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

_FEWEST_PAIRS = 4  # shares of the rows that the longest lag of a variogram leaves
_STANDARD_ERRORS = 4.0  # by which near rows must be more alike than any
_SILL = 0.63  # of the way from the shortest lag to the sill: 1 - exp(-1)


class ProfileEvidence(NamedTuple):
    """Evidence at the most likely variance of the signal."""

    value: float
    variance: float = 1.0  # of the signal, in units of that of the kernel
    noise_ratio: float = 1.0  # ρ


class SomeRows(NamedTuple):
    """Rows whose evidence tells, with targets that need not be those of the table."""

    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n, p)
    noise: np.ndarray  # (n,) known, in units of the variance of y
    weight: np.ndarray  # (n,)


def profile_evidence(K, rows, ratio):
    """`ProfileEvidence` of targets; -inf where the matrix has no Cholesky factor.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix without noise.
    rows : SomeRows
    ratio : float
        Variance ρ of the noise that is learned, in units of that of the signal.
    """
    A, y = K.astype(np.float32), rows.y.astype(np.float32)  # half the time, and digits enough
    A.flat[:: len(A) + 1] += ((ratio + rows.noise) / rows.weight).astype(np.float32)
    try:
        L = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return ProfileEvidence(-np.inf)
    whitened = solve_triangular(L, y, lower=True, check_finite=False)  # (n, p)
    variance = np.mean(whitened**2, dtype=np.float64)
    log_root = np.log(np.diagonal(L)).sum(dtype=np.float64)
    value = -0.5 * y.size * np.log(variance) - y.shape[1] * log_root
    return ProfileEvidence(float(value), float(variance), ratio)


def trend_evidence(residual):
    """Evidence of the residuals (n, p) of a linear trend as noise."""
    return -0.5 * residual.size * np.log(np.mean(residual**2) + np.finfo(float).tiny)


def linear_residual(X, y):
    """Residuals (n, p) of least squares on the columns of X (n, d); missing values are means."""
    there = ~np.isnan(X)
    count = np.maximum(there.sum(axis=0), 1)
    X = np.where(there, X - np.where(there, X, 0.0).sum(axis=0) / count, 0.0)
    X = X / np.maximum(np.abs(X).max(axis=0), np.finfo(float).tiny)
    design = np.column_stack([np.ones(len(X)), X])
    return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]


def correlation_length(x, y):
    """The distance along a column (n,) at which targets (n, p) lose their correlation.

    The variogram of the rows in their order along the column tells, at lags of 1, 2, 4, ... places.
    Infinite where near rows are not clearly more alike than any.
    """
    x, y = _in_order(x, y)
    n = len(x)
    if n < _STANDARD_ERRORS**2 or not y.any():
        return np.inf
    nearest = _variogram(y, 1)
    if nearest > 1.0 - _STANDARD_ERRORS / np.sqrt(n):
        return np.inf
    lags = 2 ** np.arange(int(np.log2(n / _FEWEST_PAIRS)) + 1)
    sill = nearest + _SILL * (1.0 - nearest)
    lag = next((lag for lag in lags if _variogram(y, lag) >= sill), lags[-1])
    length = np.median(x[lag:] - x[:-lag])
    return length if length > 0 else np.inf


def lag_correlation(x, y):
    """The correlation of centred targets (n,) of rows next to each other along a column (n,)."""
    return 1.0 - _variogram(_in_order(x, y)[1], 1)


def _in_order(x, y):
    """A column and targets of the rows that have a value, in its order; equal ones in a random one.

    A table may be sorted by its targets, or by time, which would make rows of one value alike.
    """
    there = np.flatnonzero(np.isfinite(x))
    there = np.random.RandomState(0).permutation(there)
    order = there[np.argsort(x[there], kind="stable")]
    return x[order], y[order]


def _variogram(y, lag):
    """Half the mean squared difference of rows so many places apart, in units of the variance."""
    return 0.5 * np.mean((y[lag:] - y[:-lag]) ** 2) / np.mean(y**2)

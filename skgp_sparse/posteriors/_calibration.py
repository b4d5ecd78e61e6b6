"""Common factor of all variances, from rows that were predicted without their targets."""

import numpy as np
from scipy.optimize import minimize_scalar

from skgp_sparse._ground.normal import LOG_2PI

_LIMIT = 1.959964**2  # of normal deviates, 95 % have squares below this
_ENOUGH = 100  # rows that tell a share
_DOUBT = 20  # rows that speak for a factor of 1
_LARGEST = 1e6  # factor


def variance_factor(errors, variance, known, weight, central, least):
    """The factor of predicted variances that makes some rows most likely.

    A few rows more, which would have it 1, have a say where there are not many. Where errors are
    not normal, it may be larger, so that intervals of 95 % contain a share of these rows.

    Parameters
    ----------
    errors : ndarray of shape (n, p)
        Squared.
    variance : ndarray of shape (n,)
        Predicted, learned noise included.
    known : ndarray of shape (n,)
        Known noise, which has no factor.
    weight : ndarray of shape (n,)
    central : float
        The share.
    least : float
        The smallest factor.

    Returns
    -------
    float
    """
    squares, limits = errors.mean(axis=1), (least, _LARGEST)

    def loss(log_factor):
        total = np.exp(log_factor) * variance + known
        of_rows = weight @ (np.log(total) + squares / total) / weight.mean()
        return of_rows + _DOUBT * (log_factor + np.exp(-log_factor))

    likely = np.exp(minimize_scalar(loss, bounds=np.log(limits), method="bounded").x)
    if len(errors) < _ENOUGH:
        return float(likely)
    needed = ((errors / _LIMIT - known[:, None]) / variance[:, None]).ravel()
    order = np.argsort(needed)
    total = np.cumsum(np.repeat(weight, errors.shape[1])[order])
    needed = needed[order[np.searchsorted(total, central * total[-1])]]
    return float(np.clip(max(likely, needed), *limits))


def log_densities(errors, variance):
    """Log N(y; m, v) of rows (n,), the mean over targets, from squared errors (n, p) and v (n,)."""
    return -0.5 * (np.log(variance) + LOG_2PI + errors.mean(axis=1) / variance)

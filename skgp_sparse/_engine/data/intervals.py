"""Targets that are intervals: two columns of ends, of one target.

A dataset has intervals if its targets have more columns than units.
"""

import numpy as np

from skgp_sparse._engine.data.moments import Moments, moments_of
from skgp_sparse._ground.typing import Array


def observed(y: Array) -> Array:
    """Targets as a likelihood takes them: (n,) for (n, 1), and ends of intervals (2, n)."""
    return y[:, 0] if y.shape[1] == 1 else y.T


def points(lower: Array, upper: Array) -> Array:
    """The middle of each interval, or its finite end, or NaN if there is none."""
    low = np.where(np.isfinite(lower), lower, upper)
    high = np.where(np.isfinite(upper), upper, lower)
    middle = np.where(low == high, low, low + 0.5 * (high - low))
    return np.where(np.isfinite(middle), middle, np.nan)


def moments_of_targets(y: Array, weight: Array | None, n_targets: int) -> Moments | None:
    """`Moments` of targets (n, p), of intervals those of the `points`; None if there are none."""
    if y.shape[1] == n_targets:
        return moments_of(y, weight)
    middle = points(*y.T)
    known = np.isfinite(middle)
    return moments_of(middle[known, None], None if weight is None else weight[known])

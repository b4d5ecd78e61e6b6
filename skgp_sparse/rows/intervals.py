"""Checks of targets that are known up to an interval."""

import numpy as np

from skgp_sparse.likelihoods import Censored, is_censored
from skgp_sparse.rows.contents import check_numbers


def interval_ends(y, likelihood, name):
    """Ends of intervals (n, 2), which may be infinite; None where targets are numbers.

    Raises where the likelihood takes no intervals, or an end is missing.
    """
    y = np.asarray(y)
    if not (likelihood.takes_intervals and y.ndim == 2 and y.shape[1] == 2):
        return None
    check_numbers(y, "y", name)
    ends = y.astype(np.float64)
    if np.isnan(ends).any():
        raise ValueError(
            f"{name}: the ends of intervals in y contain NaN. Use -inf or inf for an open end, and "
            "equal ends for an exact number."
        )
    return ends


def check_scored(y, likelihood, name):
    """Targets of which R² is computed, those beyond a limit at it; raises for intervals."""
    if not is_censored(likelihood):
        return y
    likelihood = Censored() if isinstance(likelihood, str) else likelihood
    if interval_ends(y, likelihood, name) is not None:
        raise ValueError(
            f"{name} is R², which intervals do not have. Use log_predictive_density, as a scorer "
            "skgp_sparse.metrics.log_predictive_density_scorer, or pass exact targets (n,)."
        )
    return np.clip(np.asarray(y, dtype=np.float64), *likelihood.ends)

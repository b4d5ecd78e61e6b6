"""Conformal intervals: as wide as rows that were left out would have needed, in their own units.

The score of a training row is ``(y - m)/s``, with the mean m and the standard deviation s that all
other rows give it (`leave_one_out`). An interval has as many standard deviations of its own as the
wanted share of scores has at most (Barber, Candès, Ramdas and Tibshirani 2021, with scores in units
of s).

The hyperparameters are not learned again without the row. Squared errors of new rows are larger by
the factor ``(n + p)/(n - p)`` than those of the n numbers that p parameters were learned from
(Akaike 1969), and scores grow by its root. The parameters are those of the kernel and of the
likelihood. Others, such as inducing points and a metric, are not counted.
"""

from numbers import Real
from typing import NamedTuple

import numpy as np

from skgp_sparse._ground.parallel import resolve_n_jobs
from skgp_sparse._ground.validation import BOOLS, require
from skgp_sparse.explain.leave_one_out import predicted, why_unknown

_METHODS, _SIDES = ("model", "conformal"), ("both", "lower", "upper")
_MOST_ROWS = 5000  # whose scores are kept


class Scores(NamedTuple):
    """Scores of training rows that were left out, and how often each of them counts."""

    values: np.ndarray  # (k, p)
    weight: np.ndarray | None  # (k,); None: once


class ScoredRows(NamedTuple):
    """Weights of the user's rows, in their order, which scores of a fit need."""

    weight: np.ndarray | None  # (n,)
    are_training_rows: bool  # whether hyperparameters were learned from them

    @classmethod
    def of(cls, rows, parameters):
        """Scored rows of a `Dataset`, None where its rows are not in memory."""
        is_learned = parameters.optimizer is not None
        return cls(rows.weight, is_learned) if rows.in_memory else None


def scores_of(fit, scored, n_jobs):
    """The `Scores` of the rows of a fit, of random ones if they are many; None: unknown.

    Parameters
    ----------
    fit : Fit
    scored : ScoredRows or None
    n_jobs : int or None
    """
    if scored is None or why_unknown(fit) is not None:
        return None
    rows = fit.rows
    chosen = np.arange(len(rows)) if rows.weight is None else np.flatnonzero(rows.weight > 0)
    if len(chosen) > _MOST_ROWS:
        chosen = np.sort(np.random.RandomState(0).permutation(chosen)[:_MOST_ROWS])
    found = predicted(fit, resolve_n_jobs(n_jobs), chosen)
    optimism = _optimism(fit) if scored.are_training_rows else 1.0
    values = (found.y - found.centre) / found.scale * optimism
    place = np.full(len(rows) + 1, -1)  # of rows of the table, the last one of those without weight
    place[chosen] = np.arange(len(chosen))
    of_row = place[:-1] if rows.places is None else place[rows.places]
    kept = of_row >= 0
    if not np.isfinite(values).all():
        return None
    weight = None if scored.weight is None else scored.weight[kept]
    return Scores(values[of_row[kept]], weight)


def _optimism(fit):
    """By which errors of new rows are larger than those of rows that hyperparameters have seen."""
    rows, p = fit.used_rows, len(fit.kernel.theta)
    if p and fit.likelihood is not None:
        p += len(fit.likelihood.theta)
    n = rows.total_weight() * rows.n_targets
    return np.sqrt((n + p) / max(n - p, 1.0))


def check_interval(coverage, method, side, name):
    """Raise unless an interval can be what is asked for."""
    is_number = isinstance(coverage, Real) and not isinstance(coverage, BOOLS)
    is_share = is_number and 0.0 < coverage < 1.0
    require(is_share, "coverage", coverage, name, "a float between 0 and 1, both excluded")
    for parameter, value, names in (("method", method, _METHODS), ("side", side, _SIDES)):
        is_right = isinstance(value, str) and value in names
        require(is_right, parameter, value, name, f"one of {names}")


def interval_of_model(view, X, coverage, side, offset):
    """Ends of the intervals of the predictive distribution, each (n,) or (n, p)."""
    tail = 0.5 * (1.0 - coverage) if side == "both" else 1.0 - coverage
    ends = view.quantiles(X, np.array([tail, 1.0 - tail]), offset)
    return _open(ends[..., 0], ends[..., 1], side)


def conformal_interval(view, X, fit, scores, coverage, side, offset, name):
    """Ends of conformal intervals; see `widths` for the parameters. `scores` may be None."""
    if scores is None:
        raise ValueError(f"{name}: {_no_scores(fit)}")
    mean, std = view.centre_and_scale(X, offset)
    below, above = widths(scores, coverage, side, name)
    if mean.ndim == 1:
        below, above = below[..., 0], above[..., 0]
    else:
        below, above = (view.units.among_constants(np.atleast_2d(one)) for one in (below, above))
    lower, upper = _open(mean - below * std, mean + above * std, side)
    return view.within_domain(lower), view.within_domain(upper)


def _open(lower, upper, side):
    if side == "both":
        return lower, upper
    open_end = np.full(lower.shape, np.inf)
    return (lower, open_end) if side == "lower" else (-open_end, upper)


def _no_scores(fit):
    """Why a fit has no `Scores`, as part of an error."""
    reason = why_unknown(fit)
    if reason is None:
        reason = (
            "needs rows that came by fit, not by partial_fit, and standard deviations above 0. Set "
            "method to 'model', or call fit."
        )
    return f"method='conformal' {reason}"


def widths(scores, coverage, side, name):
    """Numbers (p,) of standard deviations below and above the mean.

    Parameters
    ----------
    scores : Scores
    coverage : float
    side : {"both", "lower", "upper"}
    name : str
        Of the method, for errors.
    """
    values = scores.values
    weight = np.ones(len(values)) if scores.weight is None else scores.weight
    if side == "both":
        width = _quantile(np.abs(values), weight, coverage, name)
        return width, width
    nothing = np.zeros(values.shape[1])  # of the end that is open
    if side == "lower":
        return _quantile(-values, weight, coverage, name), nothing
    return nothing, _quantile(values, weight, coverage, name)


def _quantile(values, weight, coverage, name):
    """The smallest scores (p,) that a share of the rows, and of one more, does not exceed."""
    needed = coverage * (weight.sum() + 1.0)
    if needed > weight.sum():
        fewest = int(np.ceil(coverage / (1.0 - coverage)))
        raise ValueError(
            f"{name}: the fit has {weight.sum():g} training rows, but a coverage of {coverage:g} "
            f"needs at least {fewest}. Lower coverage, or set method to 'model'."
        )
    order = np.argsort(values, axis=0)
    total = np.cumsum(weight[order], axis=0)
    first = np.argmax(total >= needed * (1.0 - 1e-12), axis=0)
    sorted_values = np.take_along_axis(values, order, axis=0)
    return np.take_along_axis(sorted_values, first[None], axis=0)[0]

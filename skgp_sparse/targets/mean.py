"""The mean of a fit: a mean of residuals, or one with weights from rows that are left out.

Where the user passes a kernel, the process explains what the mean does not, and a mean "linear" is
a part of the kernel. The default kernel sees all columns, as the mean
does: both predict the same, and their weighted mean is better than either
(`explain.weighted_means`). Probabilities of labels are calibrated by the same rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from skgp_sparse.choices.choices import check_numbers
from skgp_sparse.choices.mean_functions import cross_fitted
from skgp_sparse.choices.plan import compares_approximations
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.engine.posteriors_around import MeanWeights
from skgp_sparse.explain.leave_one_out import (
    as_left_out,
    left_out_labels,
    left_out_numbers,
    some_rows,
    why_unknown,
)
from skgp_sparse.explain.weighted_means import (
    Calibration,
    LeftOutMean,
    StackedRows,
    WeightedMean,
    calibrated,
)
from skgp_sparse.ground.validation import as_text, is_auto, is_name
from skgp_sparse.likelihoods import Censored
from skgp_sparse.methods.contract import Job
from skgp_sparse.solvers import Fit
from skgp_sparse.targets.model import ObservationModel

FEWEST_ROWS = 200  # of which a fifth tells enough of a mean
_MOST_NUMBERS = 20_000_000  # of X, for each class, beyond which boosting takes minutes
_ROWS = 2000  # that are left out
_NUMBERS_LEFT_OUT = 60_000  # of X, where rows are wide and a process takes longer
_FIRST_SHARE = 0.25  # of the least gain, which the first of five fits has to show
_STANDARD_ERRORS = 2.0  # by which a gain is more than chance
_LEAST_GAIN, _OF_LABELS = 0.004, 0.001  # nats per row that a mean has to be worth, and of labels
_LEAST_SHARE = 0.002  # of the loss of means that a mean of numbers has to save
_MOST = 3.0  # nats that a row can gain or lose
_LEAST_PROBABILITY = 1e-4  # of a label: one row should not decide


class FittedProblems(NamedTuple):
    """Fits of all problems, and what is predicted beside their processes.

    Parameters
    ----------
    family : ObservationModel
    fits : list of Fit
    units : TargetScaler
    beside : WeightedMean, Calibration or None
        What changes predictions of the processes.
    jobs : list of Job
        What was fitted.
    """

    family: ObservationModel
    fits: list[Fit]
    units: TargetScaler
    beside: WeightedMean | Calibration | None = None
    jobs: Sequence[Job] = ()


def fit_with_mean(
    fit: Callable[[ObservationModel, Any], FittedProblems],
    family: ObservationModel,
    rows: ArrayDataset,
) -> FittedProblems:
    """Fit rows, with the mean that the user has chosen, or with one that pays.

    Parameters
    ----------
    fit : callable
        ``(family, rows) -> FittedProblems``.
    family : ObservationModel
        Its parameters have a mean.
    rows : ArrayDataset
        As the user passed them.
    """
    parameters = family.parameters
    mean, is_linear = parameters.mean, is_name(parameters.mean, "linear")
    if is_linear:
        check_numbers(family.columns(), rows, family.name)
    if parameters.kernel is not None:
        is_added = _is_chosen(family) and not is_linear
        return _of_residuals(fit, family, rows) if is_added else fit(family, rows)
    found = fit(family, rows)
    if not _may_leave_out(found, rows):
        if _is_chosen(family):
            _refuse(found, mean)
        return found
    function, latent, is_alone = None, None, compares_approximations(parameters)
    if _is_chosen(family):
        function, latent = _cross_fitted(found.family, rows)
    elif is_auto(mean) and not is_alone and _may_have_mean(found, rows):
        function, latent = _optional_mean(found, rows)
    if rows.classes is not None and (function is not None or not is_alone):
        return _of_labels(found, rows, function, latent)
    return found if function is None else _of_numbers(found, rows, function, latent)


def _of_residuals(fit, family, rows):
    """The fit of a process to what the mean does not explain, which a likelihood has as offsets."""
    function, latent = _cross_fitted(family, rows)
    is_gaussian, weights = family.likelihood is None, MeanWeights.added(rows.n_targets)
    seen = {"y": rows.y - latent} if is_gaussian else {"offset": latent[:, 0]}
    found = fit(family, replace(rows, **seen))
    if not found.units.scale.all():
        raise ValueError(
            f"{family.name}: mean={as_text(family.parameters.mean)} explains one of several "
            "targets exactly, which may be constant. Leave it out, or set mean to None."
        )
    units, (fit,) = found.units._replace(mean=np.zeros(rows.n_targets)), found.fits
    if is_gaussian:
        fit = fit._replace(mean=LeftOutMean(_in_table(fit, latent), weights))
    return found._replace(fits=[fit], beside=WeightedMean(function, units, 0.0, weights))


def _optional_mean(found, rows):
    """A mean that nobody asked for; None twice where it does not pay, or cannot be fitted."""
    pays = None if rows.classes is None else partial(_may_pay, found, rows)
    try:
        return _cross_fitted(found.family, rows, pays)
    except MemoryError:
        raise
    except Exception as error:  # whatever its model raises, the processes are there
        reason = f"{type(error).__name__}: {error}"
        found.family.progress.tell(f"no mean, as boosting cannot be fitted ({reason})")
        return None, None


def _cross_fitted(family, rows, pays=None):
    given, codes = family.parameters, family.columns().codes()
    mean = "boosting" if is_auto(given.mean) else given.mean
    random_state = check_random_state(given.random_state)
    return cross_fitted(mean, rows, given, random_state, codes, family.name, pays)


def _is_chosen(family):
    """Whether the user has chosen a mean."""
    mean = family.parameters.mean
    return not (mean is None or is_auto(mean))


def _may_leave_out(found, rows):
    """Whether rows can be left out of fits, each of which has all of them."""
    multi_class = getattr(found.family, "multi_class", "one_vs_rest")
    is_plain = rows.in_memory and rows.X_std is None and multi_class != "one_vs_one"
    is_plain = is_plain and (_is_chosen(found.family) or rows.total_weight() >= FEWEST_ROWS)
    return is_plain and all(why_unknown(fit) is None for fit in found.fits)


def _refuse(found, mean):
    reason = next(filter(None, map(why_unknown, found.fits)), "needs problems that have all rows.")
    raise ValueError(
        f"{found.family.name}: mean={as_text(mean)} has a weight from rows that are left out, "
        f"which {reason} Set mean to None, or change this."
    )


def _may_have_mean(found, rows):
    """Whether "auto" looks for a mean: where there is enough to learn from, and time."""
    n_fits = rows.n_targets if rows.classes is None else len(rows.classes)
    given = found.family.parameters
    is_open = given.optimizer is not None and rows.offset is None
    is_open = is_open and not isinstance(given.likelihood, Censored)
    is_open = is_open and found.family.deadline.left() > 0.0
    is_open = is_open and n_fits * rows.X.size <= _MOST_NUMBERS
    return is_open and rows.distinct(most=FEWEST_ROWS - 1) is None


# -- numbers ---------------------------------------------------------------------------


def _of_numbers(found, rows, function, latent):
    """The fit beside a mean, unless "auto" finds that it does not pay."""
    (fit,), n_jobs = found.fits, found.family.parameters.n_jobs
    most = max(FEWEST_ROWS, _NUMBERS_LEFT_OUT // rows.n_features)
    left = left_out_numbers(as_left_out(fit), min(most, _ROWS), n_jobs)
    level = 0.0 if fit.likelihood is None else fit.likelihood.intercept
    mean = WeightedMean(function, found.units, level)
    predicted = _in_table(fit, mean.standardised(latent))
    row_weight = np.broadcast_to(left.block.weight, len(left.chosen))
    stacking = StackedRows(left, predicted[left.chosen], row_weight, fit.likelihood)
    weights = stacking.weights()
    if not _is_chosen(found.family) and not _pays(stacking, weights):
        return found
    fit = fit._replace(mean=LeftOutMean(predicted, weights))
    return found._replace(fits=[fit], beside=mean._replace(weights=weights))


def _pays(stacking, weights):
    """Whether rows that are left out are predicted better than by the process alone.

    With Gaussian noise, means have to be better, too: where weights are next to zero, only a factor
    of variances is left.
    """
    alone = stacking.without_mean()
    gain = stacking.densities(weights) - stacking.densities(alone)
    if stacking.likelihood is not None:
        return _is_clear(gain)
    is_closer = stacking.loss(weights) < (1.0 - _LEAST_SHARE) * stacking.loss(alone)
    return bool(is_closer and np.mean(stacking.share * gain) > 0.0)


def _in_table(fit, values):
    """Values (n, q) in the order of the rows of a fit, from those of the user's rows."""
    places = fit.rows.places
    if places is None:
        return values
    table = np.zeros((len(fit.rows), values.shape[1]))
    table[places[places >= 0]] = values[places >= 0]
    return table


# -- labels ----------------------------------------------------------------------------


def _of_labels(found, rows, function, latent):
    """The fits, whose probabilities are calibrated with or without a mean, where this pays."""
    given = found.family.parameters
    chosen = some_rows(rows, _ROWS)
    view = found.family.view(found.fits, found.units)
    own = left_out_labels(found.fits, view, chosen, given.n_jobs)
    labels, weight = np.ravel(rows.y)[chosen], rows.row_weights()[chosen]
    best, density = None, _logs(own, labels)
    options = [(None, None)] if given.calibration is not None else []
    options += [(function, latent[chosen])] if function is not None else []
    for other, others in options:
        calibration = calibrated(own, labels, weight, other, others)
        changed = _logs(calibration.combined(own, others), labels)
        is_wanted = other is not None and _is_chosen(found.family)
        if is_wanted:
            calibration = calibration._replace(function=other)
        if is_wanted or _is_clear(changed - density, _OF_LABELS):
            best, density = calibration, changed
    if best is None:
        return found
    fits = found.fits
    if best.function is not None:
        mean = LeftOutMean(_in_table(fits[0], latent))
        fits = [fits[0]._replace(mean=mean), *fits[1:]]
    return found._replace(fits=fits, beside=best)


def _may_pay(found, rows, chosen, latent):
    """Whether predictions (k, q) of some rows gain beside the processes, as far as they tell."""
    some = slice(None, None, -(-len(chosen) // _ROWS))
    chosen, latent = chosen[some], latent[some]
    given, view = found.family.parameters, found.family.view(found.fits, found.units)
    own = left_out_labels(found.fits, view, chosen, given.n_jobs)
    known = own, np.ravel(rows.y)[chosen], rows.row_weights()[chosen]
    alone = own if given.calibration is None else calibrated(*known).combined(own, None)
    beside = calibrated(*known, None, latent).combined(own, latent)
    return np.mean(_logs(beside, known[1]) - _logs(alone, known[1])) > _FIRST_SHARE * _OF_LABELS


def _logs(probabilities, labels):
    of_labels = probabilities[np.arange(len(labels)), labels]
    return np.log(np.maximum(of_labels, _LEAST_PROBABILITY))


def _is_clear(gain, least=_LEAST_GAIN):
    """Whether gains (k,) of rows, in nats, are more than chance, and worth a mean.

    Gains of single rows are limited, as a few outliers should not decide.
    """
    limited = np.clip(gain, -_MOST, _MOST)
    error = np.std(limited) / np.sqrt(len(gain))
    is_more = np.mean(limited) > max(least, _STANDARD_ERRORS * error)
    return bool(is_more and np.mean(gain) > 0.0)

"""Deviations of a fit with nearly as many hyperparameters as rows, or more.

A length scale for every column adapts to few rows so well that a row looks well predicted by all
others, hyperparameters held. Here, each third of the rows is predicted by fits to the others, with
hyperparameters of their own. The errors, in units of the predicted deviations, tell a factor of all
deviations, and are the scores of conformal intervals. Labels are calibrated by these predictions.
"""

from contextlib import suppress
from typing import Any, cast

import numpy as np

from skgp_sparse.data.arrays import ArrayDataset as Table
from skgp_sparse.data.moments import Distinct
from skgp_sparse.exceptions import collected
from skgp_sparse.explain.leave_one_out import places_of
from skgp_sparse.explain.weighted_means import Calibration, calibrated
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import Array, Bools, Ints
from skgp_sparse.methods.contract import FittedJob, Problems

_FOLDS, _SECONDS = 3, 2.5  # and those that their fits take, in units of those of the fit


def from_folds(found: Problems) -> Problems:
    """The problems with a factor of variances, or a calibration, unless folds cannot be fitted.

    Equal inputs are in the same fold, and neighbours in the order of y are not.
    """
    rows, observations = found.rows.counting(), found.observations
    if observations.progress.asked_to_stop or not observations.deadline.allows(_SECONDS):
        return found
    same = Distinct(rows.X)
    y = np.bincount(same.index, rows.y.reshape(len(rows), -1)[:, 0]) / same.copies()
    folds = (np.argsort(np.argsort(y, kind="stable")) % _FOLDS)[same.index]
    with collected(), suppress(ValueError, ArithmeticError), single_threaded_blas():
        parts = [_predicted(found, rows, folds == k) for k in range(_FOLDS)]
        predicted = np.concatenate(parts)[np.argsort(np.argsort(folds, kind="stable"))]
        return (_scaled if rows.classes is None else _calibrated)(found, rows, predicted)
    return found


def _places(found: Problems, table: Any) -> Ints:
    """Numbers of the rows of positive weight in the table of a job."""
    return places_of(table)[found.rows.row_weights() > 0]


def _predicted(found: Problems, rows: Table, is_out: Bools) -> Array:
    """Means and deviation (k, q + 1), or probabilities (k, n_classes), of rows left out of fits."""
    fits, X = [], rows.X[is_out].astype(float)
    for job, random_state in zip(found.jobs, found.random_states):
        others = np.unique(_places(found, job.rows)[~is_out])
        part = job._replace(rows=job.rows.subset(others), before=None).with_settings(progress=None)
        fits.append(FittedJob(job.posterior_method.fit(part, random_state)))
    if rows.classes is not None:
        return found.observations.view(fits, found.scaler).probabilities(X)
    mean, variance, noise = fits[0].posterior.moments(X)
    return np.column_stack([mean, np.sqrt(variance + noise)])


def _scaled(found: Problems, rows: Table, predicted: Array) -> Problems:
    """The problem of numbers with a factor of its variances, and scores of its rows."""
    (fit,), weight, std = found.fits, rows.row_weights(), predicted[:, -1]
    block, posterior = fit.rows.block(_places(found, fit.rows)), cast(Any, fit.posterior)
    scores, known = (block.y - predicted[:, :-1]) / std[:, None], block.noise / std**2
    # known noise has no factor
    needed = np.average((scores**2).mean(axis=1) - known, weights=weight / (1.0 + known) ** 2)
    factor = max(1.0, needed)
    fit = fit.with_fit(posterior=posterior.scaled(factor))
    scores /= np.sqrt(factor if known.any() else needed or 1.0)
    return found._replace(fits=[fit], scores=(scores, rows.weight))


def _calibrated(found: Problems, rows: Table, predicted: Array) -> Problems:
    """The problems of labels with a calibration, after that which they may have."""
    own = calibrated(predicted, np.ravel(rows.y), rows.row_weights())
    scale, bias, weight, function = found.blend or Calibration(1.0, np.zeros(1))
    bias, weight = own.scale * bias + own.bias, own.scale * weight
    return found._replace(blend=Calibration(own.scale * scale, bias, weight, function))

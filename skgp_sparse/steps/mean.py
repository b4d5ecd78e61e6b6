"""The mean of a fit: added to its process, or beside it with weights from rows that are left out.

A mean "linear" is a part of the kernel. Beside a user's kernel, the process explains what any other
mean does not (`residuals`). The default kernel sees all columns, as the mean does: both predict the
same, and their weighted mean is better than either (`explain.weighted_means`). Probabilities of
labels are calibrated by the same rows.

Training rows have predictions of fits without them (cross-fitting, three folds, five of labels),
queries those of a fit to all rows. Rows with equal inputs are in the same fold. Latent values are
numbers as they are, logarithms where a likelihood has a logarithmic link, and logits of classes and
proportions.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from skgp_sparse.choices.plan import ROWS_OF_A_MEAN, is_chosen
from skgp_sparse.data.arrays import ArrayDataset as Table
from skgp_sparse.data.moments import Distinct
from skgp_sparse.engine.posteriors_around import MeanWeights, spread_values
from skgp_sparse.explain import leave_one_out, weighted_means
from skgp_sparse.explain.weighted_means import MeanFunction, StackedRows
from skgp_sparse.ground.parallel import openmp_threads, resolve_n_jobs
from skgp_sparse.ground.validation import Array, Ints, Rng, as_text, is_name
from skgp_sparse.likelihoods import Likelihood, domain_of
from skgp_sparse.methods.contract import Problems

Pays = Callable[..., bool] | None
CrossFitted = tuple[Any, Any]  # `MeanFunction` and latent values (n, q)
_NO_MEAN: CrossFitted = None, None
_ROWS = 2000  # that are left out
_STANDARD_ERRORS = 2.0  # by which a gain is more than chance
_LEAST_GAIN, _GAIN_OF_LABELS = 0.004, 0.001  # nats per row that a mean is worth, at least
_MOST = 3.0  # nats that a row can gain or lose


def residuals(problems: Problems) -> Problems:
    """The problem of a process that explains what a mean leaves, as residuals or beside offsets."""
    observations, rows = problems.observations, problems.rows
    function, latent = cross_fitted(problems)
    is_gaussian = observations.likelihood is None
    seen = {"y": rows.y - latent} if is_gaussian else {"offset": latent[:, 0]}
    jobs = observations.jobs(replace(rows, **seen))
    if not jobs[0].rows.scaler.scale.all():
        raise ValueError(
            f"{observations.name}: mean={as_text(observations.parameters.mean)} explains one "
            "of several targets exactly, which may be constant. Leave it out, or set mean to None."
        )
    scaler = jobs[0].rows.scaler._replace(mean=np.zeros(rows.n_targets))
    blend = weighted_means.WeightedMean(function, scaler, 0.0, MeanWeights.added(rows.n_targets))
    mean = _in_table(jobs[0].rows, latent) if is_gaussian else None
    return problems._replace(jobs=jobs, blend=blend, mean=mean)


def mean_of_numbers(found: Problems) -> Problems:
    """The fit of numbers beside a mean, unless "auto" finds that it does not pay."""
    if found.rows.classes is not None:
        return found
    function, latent = mean_beside(found)
    if function is None:
        return found
    (fit,), n_jobs = found.fits, found.observations.parameters.n_jobs
    most = max(ROWS_OF_A_MEAN, 60_000 // fit.rows.n_features)  # of wide rows, they take longer
    some, seen = leave_one_out.some_rows(fit.rows, min(most, _ROWS)), leave_one_out.as_left_out(fit)
    left = leave_one_out.left_out(seen, some, n_jobs, own_noise=False)
    level = 0.0 if fit.likelihood is None else fit.likelihood.intercept
    predicted = _in_table(fit.rows, found.scaler.forward(latent) - level)
    stacking = StackedRows(left, predicted[left.chosen])
    weights = stacking.weights()
    pays = is_chosen(found.observations.parameters.mean) or _pays(stacking, weights)
    if not pays and fit.fit.combination is None:
        return found
    mean = weighted_means.WeightedMean(function, found.scaler, level, weights, pays)
    return found._replace(fits=[fit._replace(mean=predicted)], blend=mean)


def calibrated_labels(found: Problems) -> Problems:
    """The fits with the calibration of labels, with or without a mean, that pays most, if any."""
    has_mean = any("mean" in job.steps for job in found.jobs)
    function, latent = mean_beside(found) if has_mean else _NO_MEAN
    if why_not_left_out(found):
        return found
    chosen, fits = leave_one_out.some_rows(found.rows, _ROWS), found.fits
    own, labels, weight = _known(found, chosen)
    best, density = None, weighted_means.logs_of_labels(own, labels)
    options = [] if found.observations.parameters.calibration is None else [_NO_MEAN]
    options += [] if function is None else [(function, latent[chosen])]
    for other, others in options:
        calibration = weighted_means.calibrated(own, labels, weight, others)
        changed = weighted_means.logs_of_labels(calibration.combined(own, others), labels)
        is_wanted = other is not None and is_chosen(found.observations.parameters.mean)
        if is_wanted or calibration.weight:
            calibration = calibration._replace(function=other)
        if is_wanted or _is_clear(changed - density, _GAIN_OF_LABELS):
            best, density = calibration, changed
    if best is not None and best.function is not None:
        fits = [fits[0]._replace(mean=_in_table(fits[0].rows, latent)), *fits[1:]]
    return found._replace(fits=fits, blend=best)


def why_not_left_out(found: Problems) -> str | None:
    """Why rows cannot be left out of all fits, as part of an error; None: they can."""
    if not found.observations.have_all_rows:
        return "needs problems that have all rows."
    return next(filter(None, map(leave_one_out.why_unknown, found.fits)), None)


def mean_beside(found: Problems) -> CrossFitted:
    """A `MeanFunction` and latent values (n, q) by fits without the rows; None where none pays."""
    observations, reason = found.observations, why_not_left_out(found)
    if is_chosen(observations.parameters.mean):
        if reason is not None:
            raise ValueError(
                f"{observations.name}: mean={as_text(observations.parameters.mean)} has a weight "
                f"from rows that are left out, which {reason} Set mean to None, or change this."
            )
        return cross_fitted(found)
    if reason is not None or observations.deadline.left() <= 0.0:
        return _NO_MEAN
    pays = None if found.rows.classes is None else partial(_may_pay, found)
    try:
        return cross_fitted(found, pays)
    except MemoryError:
        raise
    except Exception as error:  # whatever its model raises, the processes are there
        reason = f"{type(error).__name__}: {error}"
        observations.progress.tell(f"no mean, as boosting cannot be fitted ({reason})")
        return _NO_MEAN


def _pays(stacking: StackedRows, weights: MeanWeights) -> bool:
    """Whether rows that are left out, and their means, are predicted better than by the process."""
    alone = stacking.without_mean()
    gain = stacking.densities(weights) - stacking.densities(alone)
    if stacking.left_out.likelihood is not None:
        return _is_clear(gain)
    is_closer = stacking.loss(weights) < 0.998 * stacking.loss(alone)
    return bool(is_closer and np.mean(stacking.share * gain) > 0.0)


def _in_table(rows: Table, values: Array) -> Array:
    """Values (n, q) in the order of the rows of a fit, from those of the user's rows."""
    places, table = leave_one_out.places_of(rows), np.zeros((len(rows), values.shape[1]))
    table[places[places >= 0]] = values[places >= 0]
    return table


def _may_pay(found: Problems, chosen: Ints, latent: Array) -> bool:
    """Whether predictions (k, q) of some rows gain beside the processes, as far as they tell."""
    some = slice(None, None, -(-len(chosen) // _ROWS))
    latent = latent[some]
    alone, labels, weight = _known(found, chosen[some])
    beside = weighted_means.calibrated(alone, labels, weight, latent).combined(alone, latent)
    if found.observations.parameters.calibration is not None:
        alone = weighted_means.calibrated(alone, labels, weight).combined(alone, None)
    logs = [weighted_means.logs_of_labels(one, labels) for one in (alone, beside)]
    return bool(np.mean(logs[1] - logs[0]) > 0.25 * _GAIN_OF_LABELS)  # of the first of five fits


def _known(found: Problems, chosen: Ints) -> tuple[Array, Ints, Array]:
    """Probabilities (k, n_classes) of rows that are left out, their labels and weights."""
    view = found.observations.view(found.fits, found.scaler)
    n_jobs = found.observations.parameters.n_jobs
    own = leave_one_out.left_out_labels(found.fits, view, chosen, n_jobs)
    return own, np.ravel(found.rows.y)[chosen], found.rows.row_weights()[chosen]


def _is_clear(gain: Array, least: float = _LEAST_GAIN) -> bool:
    """Whether gains (k,) in nats, outliers limited, are more than chance, and worth a mean."""
    limited = np.clip(gain, -_MOST, _MOST)
    error = np.std(limited) / np.sqrt(len(gain))
    return bool(np.mean(limited) > max(least, _STANDARD_ERRORS * error) and np.mean(gain) > 0.0)


# -- cross-fitting ---------------------------------------------------------------------

_FEWEST_ROWS = 10
_OF_SEVERAL_CLASSES = {"learning_rate": 0.2, "max_iter": 50}  # half of the time, as good


def cross_fitted(problems: Problems, pays: Pays = None) -> CrossFitted:
    """A `MeanFunction`, and latent values (n, q) by fits without rows; None: `pays` says no."""
    observations, rows = problems.observations, problems.rows
    given, name = observations.parameters, observations.name
    form = rows.in_one_form().counting()
    seed = check_random_state(given.random_state).randint(2**31 - 1)
    template = _prepared(given, rows, observations.columns().codes(), seed)
    if form.weight is not None and _name_of_weight(template) is None:
        raise ValueError(
            f"{name}: rows have weights (or are repeated), which mean={as_text(given.mean)} does "
            "not take. Pass a mean whose fit has sample_weight, or set mean to None."
        )
    folds = _folds(form, np.random.RandomState(seed), name)
    for fold in range(folds.max() + 1):
        left_out = folds == fold
        part = _fitted(template, form, np.flatnonzero(~left_out), given)
        own = part.latent(form.X[left_out].astype(np.float64))
        if fold == 0:
            latent = np.zeros((len(form), own.shape[1]))
        latent[left_out] = own
        if fold == 0 and pays is not None:
            is_left_out = _of_user(1.0 * left_out[:, None], form, rows)[:, 0]
            chosen = np.flatnonzero(is_left_out * rows.row_weights())
            if not pays(chosen, _of_user(latent, form, rows)[chosen]):
                return _NO_MEAN
    if not np.isfinite(latent).all():
        raise ValueError(
            f"{name}: mean={as_text(given.mean)} predicts numbers that are not finite. Pass "
            "another mean, or set mean to None."
        )
    found = _fitted(template, form, np.arange(len(form)), given)
    found = found._replace(values=spread_values(form.X, form.weight))
    return found, _of_user(latent, form, rows)


def fitted_to(problems: Problems, table: Table) -> MeanFunction:
    """The `MeanFunction` of another table."""
    given, codes = problems.observations.parameters, problems.observations.columns().codes()
    return _fitted(_prepared(given, table, codes, 0), table, np.arange(len(table)), given)


def _of_user(latent: Array, form: Table, rows: Table) -> Array:
    """Latent values of the user's own rows; those without weight have zeros."""
    if form.places is not None:
        return np.vstack([latent, np.zeros_like(latent[:1])])[form.places]
    full = np.zeros((len(rows), latent.shape[1]))
    full[rows.row_weights() > 0] = latent
    return full if rows.places is None else full[rows.places]


def _prepared(parameters: BaseEstimator, rows: Table, codes: list[int], seed: int) -> BaseEstimator:
    """An unfitted copy of the mean, with a random state."""
    mean = parameters.mean
    if isinstance(mean, str):
        return boosting(rows, parameters, codes, seed)
    template = clone(mean)
    free = [key for key, value in template.get_params().items() if value is None]
    return template.set_params(**{k: seed for k in free if k.split("__")[-1] == "random_state"})


def boosting(rows: Table, parameters: BaseEstimator, codes: list[int], seed: int) -> BaseEstimator:
    """Gradient boosting on histograms, with the loss of the likelihood."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    few = [j for j in codes if np.nanmax(rows.X[:, j], initial=0) < 255]  # levels, at most
    options: dict[str, Any] = {"categorical_features": few or None, "random_state": seed}
    if len(rows) > 10_000:  # of which boosting leaves some out to stop early
        options["max_iter"] = 300
    if rows.classes is not None:
        options["l2_regularization"] = 0.03  # without which leaves of a rare class diverge
        options |= _OF_SEVERAL_CLASSES if len(rows.classes) > 2 else {}
        return HistGradientBoostingClassifier(**options)
    loss = _loss(parameters.likelihood)  # 15 leaves take half of the time of 31
    return HistGradientBoostingRegressor(loss=loss, max_leaf_nodes=15, **options)


def _loss(likelihood: Likelihood | str) -> str:
    """The loss of boosting whose predictions are means of responses."""
    domain = domain_of(likelihood)
    if not domain.is_never_negative or domain.high < np.inf:
        return "squared_error"
    return "gamma" if 0.0 in domain.without else "poisson"


def _folds(form: Table, random_state: Rng, name: str) -> Ints:
    """Numbers of folds (n,); equal inputs are together, classes are in all of them."""
    index = Distinct(form.X).index
    first = np.unique(index, return_index=True)[1]
    if len(first) < _FEWEST_ROWS:
        raise ValueError(
            f"{name}: a mean is fitted without a part of the rows, and again, which needs at "
            f"least {_FEWEST_ROWS} different rows. Got {len(first)}. Set mean to None."
        )
    order = random_state.permutation(len(first))
    if form.classes is not None:
        order = order[np.argsort(form.y[first[order]], kind="stable")]
    fold = np.empty(len(first), int)
    fold[order] = np.arange(len(first)) % (3 if form.classes is None else 5)
    return fold[index]


def _name_of_weight(estimator: BaseEstimator) -> str | None:
    """The parameter of fit for weights, of a pipeline that of its last step; None without one."""
    name = "sample_weight"
    if isinstance(estimator, Pipeline):
        name, estimator = f"{estimator.steps[-1][0]}__{name}", estimator[-1]
    return name if has_fit_parameter(estimator, "sample_weight") else None


def _fitted(new: BaseEstimator, form: Table, some: Ints, parameters: BaseEstimator) -> MeanFunction:
    """The `MeanFunction` of some rows."""
    X, y = form.X[some].astype(np.float64), form.y[some]
    X[:, np.isnan(X).all(axis=0)] = 0.0  # boosting refuses columns without a value
    counts, one, mean = np.unique(y, return_counts=True)[1], clone(new), parameters.mean
    if form.classes is None and not np.any(y):
        one = DummyRegressor()  # zero counts tell losses no rate
    elif form.classes is not None and len(counts) == 1:
        one = DummyClassifier()
    elif form.classes is not None and counts.min() < 10 and is_name(mean, "auto", "boosting"):
        one.set_params(early_stopping=False)
    weight = {} if form.weight is None else {str(_name_of_weight(one)): form.weight[some]}
    columns = np.reshape(y, (len(y), -1)).T
    with openmp_threads(resolve_n_jobs(parameters.n_jobs), X.size):
        estimators = tuple(clone(one).fit(X, column, **weight) for column in columns)
    if form.classes is not None:
        return MeanFunction(estimators, len(form.classes))
    domain = domain_of(parameters.likelihood)
    if not domain.is_never_negative:
        return MeanFunction(estimators)
    least = 1e-6 * max(np.average(y), np.finfo(float).tiny)
    return MeanFunction(estimators, 0, least, most=domain.high)

"""The mean of a fit: added to its process, or beside it with weights from rows that are left out.

Beside a user's kernel, the process explains what the mean does not (`Residuals`); a mean "linear"
is a part of the kernel. The default kernel sees all columns, as the mean does: both predict the
same, and their weighted mean is better than either (`explain.weighted_means`). Probabilities of
labels are calibrated by the same rows.

Training rows have predictions of fits without them (cross-fitting, three folds, five of labels),
queries those of a fit to all rows. Rows with equal inputs are in the same fold. Latent values are
numbers as they are, logarithms where a likelihood has a logarithmic link, and logits of classes.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, TweedieRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from skgp_sparse.choices.plan import ROWS_OF_A_MEAN
from skgp_sparse.data.checks import is_gaussian
from skgp_sparse.data.moments import Distinct
from skgp_sparse.engine.posteriors_around import (
    MeanWeights,
    spread_values,
)
from skgp_sparse.explain.leave_one_out import (
    as_left_out,
    left_out_labels,
    left_out_numbers,
    some_rows,
    why_unknown,
)
from skgp_sparse.explain.weighted_means import (
    LeftOutMean,
    MeanFunction,
    StackedRows,
    WeightedMean,
    calibrated,
)
from skgp_sparse.ground.validation import Array, as_text, is_auto, is_name
from skgp_sparse.likelihoods import domain_of
from skgp_sparse.steps import FitStep

_ROWS = 2000  # that are left out
_NUMBERS_LEFT_OUT = 60_000  # of X, where rows are wide and a process takes longer
_FIRST_SHARE = 0.25  # of the least gain, which the first of five fits has to show
_STANDARD_ERRORS = 2.0  # by which a gain is more than chance
_LEAST_GAIN, _GAIN_OF_LABELS = (
    0.004,
    0.001,
)  # nats per row that a mean is worth, at least
_LEAST_SAVING = 0.002  # of the loss of means that a mean of numbers has to save
_MOST = 3.0  # nats that a row can gain or lose
_LEAST_PROBABILITY = 1e-4  # of a label: one row should not decide


class Residuals(FitStep):
    """A mean beside a user's kernel: the process explains what it does not.

    Residuals are the targets or, with a likelihood, the predictions are offsets of latent values.
    """

    def before(self, jobs):
        """The job of the residuals."""
        observations, rows = self.observations, self.rows
        self.function, self.latent = _cross_fitted(observations, rows)
        is_gaussian = observations.likelihood is None
        seen = {"y": rows.y - self.latent} if is_gaussian else {"offset": self.latent[:, 0]}
        jobs = observations.jobs(replace(rows, **seen), None)
        if not jobs[0].rows.units.scale.all():
            raise ValueError(
                f"{observations.name}: mean={as_text(observations.parameters.mean)} explains one "
                "of several targets exactly, which may be constant. Leave it out, or set mean to "
                "None."
            )
        return jobs

    def after(self, found):
        """The fit, to which the mean is added."""
        weights, (fit,) = MeanWeights.added(self.rows.n_targets), found.fits
        units = found.units._replace(mean=np.zeros(self.rows.n_targets))
        if self.observations.likelihood is None:
            fit = fit._replace(mean=LeftOutMean(_in_table(fit, self.latent), weights))
        beside = WeightedMean(self.function, units, 0.0, weights)
        return found._replace(fits=[fit], beside=beside)


class BesideMean(FitStep):
    """A mean beside the process of the default kernel, with a weight from rows that are left out.

    It is the user's, or one that "auto" keeps where it pays.
    """

    def after(self, found):
        """The fit beside the mean; with labels, `CalibratedLabels` weighs them."""
        observations, rows = self.observations, self.rows
        reason = why_not_left_out(found)
        if reason is not None:
            if _is_chosen(observations):
                mean = as_text(observations.parameters.mean)
                raise ValueError(
                    f"{observations.name}: mean={mean} has a weight from rows that are left out, "
                    f"which {reason} Set mean to None, or change this."
                )
            return found
        if _is_chosen(observations):
            function, latent = _cross_fitted(observations, rows)
        else:
            function, latent = _optional_mean(found, rows)
        if function is None:
            return found
        if rows.classes is not None:
            return found._replace(beside=function, latent=latent)
        return _of_numbers(found, rows, function, latent)


class CalibratedLabels(FitStep):
    """Probabilities of labels, calibrated with or without a mean, where this pays."""

    def after(self, found):
        """The fits with the calibration."""
        if why_not_left_out(found) is not None:
            return found
        return _of_labels(found._replace(beside=None), self.rows, found.beside, found.latent)


def why_not_left_out(found):
    """Why rows cannot be left out of all fits, as part of an error; None: they can."""
    if not found.observations.have_all_rows:
        return "needs problems that have all rows."
    return next(filter(None, map(why_unknown, found.fits)), None)


def _optional_mean(found, rows):
    """A mean that nobody asked for; None twice where it does not pay, or cannot be fitted."""
    if found.observations.deadline.left() <= 0.0:
        return None, None
    pays = None if rows.classes is None else partial(_may_pay, found, rows)
    try:
        return _cross_fitted(found.observations, rows, pays)
    except MemoryError:
        raise
    except Exception as error:  # whatever its model raises, the processes are there
        reason = f"{type(error).__name__}: {error}"
        found.observations.progress.tell(f"no mean, as boosting cannot be fitted ({reason})")
        return None, None


def _cross_fitted(observations, rows, pays=None):
    given, codes = observations.parameters, observations.columns().codes()
    mean = "boosting" if is_auto(given.mean) else given.mean
    random_state = check_random_state(given.random_state)
    return cross_fitted(mean, rows, given, random_state, codes, observations.name, pays)


def _is_chosen(observations):
    """Whether the user has chosen a mean."""
    mean = observations.parameters.mean
    return not (mean is None or is_auto(mean))


# -- numbers ---------------------------------------------------------------------------


def _of_numbers(found, rows, function, latent):
    """The fit beside a mean, unless "auto" finds that it does not pay."""
    (fit,), n_jobs = found.fits, found.observations.parameters.n_jobs
    most = max(ROWS_OF_A_MEAN, _NUMBERS_LEFT_OUT // rows.n_features)
    left = left_out_numbers(as_left_out(fit), min(most, _ROWS), n_jobs)
    level = 0.0 if fit.likelihood is None else fit.likelihood.intercept
    mean = WeightedMean(function, found.units, level)
    predicted = _in_table(fit, mean.standardised(latent))
    stacking = StackedRows(left, predicted[left.chosen])
    weights = stacking.weights()
    if not _is_chosen(found.observations) and not _pays(stacking, weights):
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
    if stacking.left.fit.likelihood is not None:
        return _is_clear(gain)
    is_closer = stacking.loss(weights) < (1.0 - _LEAST_SAVING) * stacking.loss(alone)
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
    given = found.observations.parameters
    chosen = some_rows(rows, _ROWS)
    view = found.observations.view(found.fits, found.units)
    own = left_out_labels(found.fits, view, chosen, given.n_jobs)
    labels, weight = np.ravel(rows.y)[chosen], rows.row_weights()[chosen]
    best, density = None, _logs(own, labels)
    options = [(None, None)] if given.calibration is not None else []
    options += [(function, latent[chosen])] if function is not None else []
    for other, others in options:
        calibration = calibrated(own, labels, weight, other, others)
        changed = _logs(calibration.combined(own, others), labels)
        is_wanted = other is not None and _is_chosen(found.observations)
        if is_wanted:
            calibration = calibration._replace(function=other)
        if is_wanted or _is_clear(changed - density, _GAIN_OF_LABELS):
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
    given, view = found.observations.parameters, found.observations.view(found.fits, found.units)
    own = left_out_labels(found.fits, view, chosen, given.n_jobs)
    known = own, np.ravel(rows.y)[chosen], rows.row_weights()[chosen]
    alone = own if given.calibration is None else calibrated(*known).combined(own, None)
    beside = calibrated(*known, None, latent).combined(own, latent)
    return (
        np.mean(_logs(beside, known[1]) - _logs(alone, known[1])) > _FIRST_SHARE * _GAIN_OF_LABELS
    )


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


# -- cross-fitting ---------------------------------------------------------------------

_FOLDS, _FOLDS_OF_LABELS, _FEWEST_ROWS = 3, 5, 10
_MOST_LEVELS = 255  # of a category that boosting takes
_STOPPED_EARLY, _MOST_TREES = 10_000, 300  # rows of which boosting leaves some out to stop early
_LEAVES = 15  # of a tree of numbers: with three folds, .45 of the seconds of 31 and five folds
_FEWEST_OF_A_CLASS = 10  # of which some can be left out to stop early
_OF_CLASSES = {"l2_regularization": 0.03}  # without which leaves of a rare class diverge
_OF_SEVERAL_CLASSES = {"learning_rate": 0.2, "max_iter": 50}  # half of the time, as good
_POWERS = {"poisson": 1, "gamma": 2}  # of the mean, as which variances grow with these losses
_RIDGE, _ITERATIONS = 1e-3, 1000  # of a linear function on the scale of a link
_LEAST_SHARE = 1e-6  # of the mean of targets, below which no logarithm is taken


def _for_labels(template, y, is_boosting):
    """An unfitted classifier that takes these labels, however rare some of them are."""
    counts = np.unique(y, return_counts=True)[1]
    if len(counts) == 1:
        return DummyClassifier()
    is_rare = is_boosting and counts.min() < _FEWEST_OF_A_CLASS
    return clone(template).set_params(**{"early_stopping": False} if is_rare else {})


def cross_fitted(mean, rows, parameters, random_state, codes, name, pays=None):
    """A `MeanFunction`, and the latent values (n, q) that fits without them predict of rows.

    Both are None where the first fit without some rows does not pay.

    Parameters
    ----------
    mean : "boosting", "linear" or estimator
    rows : ArrayDataset
        Rows as users passed them, labels as indices of classes.
    parameters : estimator
        That has the mean.
    random_state : RandomState
        It draws folds, and the random states of fits.
    codes : list of int
        Columns that are categories.
    name : str
        Of the estimator, for errors.
    pays : callable or None
        ``(chosen, latent) -> bool`` of the user's rows that the first fit leaves out.

    Raises
    ------
    ValueError
        If there are too few rows, or the mean takes no weights and there are some.
    """
    form = rows.in_one_form().counting()
    seed = random_state.randint(2**31 - 1)
    template = _prepared(mean, rows, parameters, codes, seed)
    if form.weight is not None and _name_of_weight(template) is None:
        raise ValueError(
            f"{name}: rows have weights (or are repeated), which mean={as_text(mean)} does not "
            "take. Pass a mean whose fit has sample_weight, or set mean to None."
        )
    folds, latent = _folds(form, np.random.RandomState(seed), name), None
    for fold in range(folds.max() + 1):
        left_out = folds == fold
        part = _fitted(template, form, np.flatnonzero(~left_out), rows, parameters)
        own = part.latent(form.X[left_out].astype(np.float64))
        latent = np.zeros((len(form), own.shape[1])) if latent is None else latent
        latent[left_out] = own
        if fold == 0 and pays is not None:
            chosen = np.flatnonzero(_of_user(1.0 * left_out[:, None], form, rows))
            if not pays(chosen, _of_user(latent, form, rows)[chosen]):
                return None, None
    if not np.isfinite(latent).all():
        raise ValueError(
            f"{name}: mean={as_text(mean)} predicts numbers that are not finite. Pass another "
            "mean, or set mean to None."
        )
    found = _fitted(template, form, np.arange(len(form)), rows, parameters)
    found = found._replace(values=spread_values(form.X, form.weight))
    return found, _of_user(latent, form, rows)


def _of_user(latent, form, rows):
    """Latent values of the user's own rows; those without weight have zeros."""
    if form.places is not None:
        return np.vstack([latent, np.zeros_like(latent[:1])])[form.places]
    full = np.zeros((len(rows), latent.shape[1]))
    full[rows.row_weights() > 0] = latent
    return full


def _prepared(mean, rows, parameters, codes, seed):
    """An unfitted copy of the mean, with a random state."""
    if is_name(mean, "linear"):
        return _linear(rows, parameters, codes)
    if isinstance(mean, str):
        return boosting(rows, parameters, codes, seed)
    template = clone(mean)
    states = {
        key: seed
        for key, value in template.get_params().items()
        if (key == "random_state" or key.endswith("__random_state")) and value is None
    }
    return template.set_params(**states)


def _linear(rows, parameters, codes):
    """A linear function of numbers, whose missing values are the mean, on the scale of the link."""
    numbers = np.setdiff1d(np.arange(rows.n_features), codes)
    chosen = ColumnTransformer([("numbers", StandardScaler(), numbers)])
    if rows.classes is not None:
        last = LogisticRegression(max_iter=_ITERATIONS)
    elif (loss := _loss(parameters.likelihood)) == "squared_error":
        last = LinearRegression()
    else:
        last = TweedieRegressor(power=_POWERS[loss], alpha=_RIDGE, max_iter=_ITERATIONS)
    return make_pipeline(chosen, FunctionTransformer(zero_if_missing), last)


def zero_if_missing(X: Array) -> Array:
    """Numbers, of which those that are missing are zero."""
    return np.nan_to_num(X)


def boosting(rows, parameters, codes, seed):
    """Gradient boosting on histograms, with the loss of the likelihood."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    few = [j for j in codes if np.nanmax(rows.X[:, j], initial=0) < _MOST_LEVELS]
    options = {"categorical_features": few or None, "random_state": seed}
    if len(rows) > _STOPPED_EARLY:
        options["max_iter"] = _MOST_TREES
    if rows.classes is not None:
        steps = _OF_SEVERAL_CLASSES if len(rows.classes) > 2 else {}
        return HistGradientBoostingClassifier(**options | _OF_CLASSES | steps)
    loss = _loss(parameters.likelihood)
    return HistGradientBoostingRegressor(loss=loss, max_leaf_nodes=_LEAVES, **options)


def _loss(likelihood):
    """The loss of boosting whose predictions are means of responses."""
    domain = None if is_gaussian(likelihood) else domain_of(likelihood)
    if domain is None or not domain.is_never_negative or domain.high < np.inf:
        return "squared_error"
    return "gamma" if 0.0 in domain.without else "poisson"


def _folds(form, random_state, name):
    """Numbers of folds (n,); equal inputs are together, classes are in all of them."""
    index = Distinct.of(np.asarray(form.X, np.float64)).index
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
    fold[order] = np.arange(len(first)) % (_FOLDS if form.classes is None else _FOLDS_OF_LABELS)
    return fold[index]


def _name_of_weight(estimator):
    """The parameter of fit for weights, of a pipeline that of its last step; None without one."""
    name = "sample_weight"
    if isinstance(estimator, Pipeline):
        name, estimator = f"{estimator.steps[-1][0]}__{name}", estimator[-1]
    return name if has_fit_parameter(estimator, "sample_weight") else None


def _weights(estimator, form, chosen):
    """Weights of some rows as a parameter of fit, where there are some."""
    return {} if form.weight is None else {_name_of_weight(estimator): form.weight[chosen]}


def _fitted(template, form, chosen, rows, parameters):
    """The `MeanFunction` of some rows."""
    X, y = form.X[chosen].astype(np.float64), form.y[chosen]
    X[:, np.isnan(X).all(axis=0)] = 0.0  # boosting refuses columns without a value
    if rows.classes is not None:
        is_boosting = parameters.mean in ("auto", "boosting")
        classifier = _for_labels(template, y, is_boosting)
        classifier.fit(X, y.ravel(), **_weights(classifier, form, chosen))
        return MeanFunction((classifier,), len(rows.classes))
    one = template if np.any(y) else DummyRegressor()  # zero counts tell losses no rate
    weight = _weights(one, form, chosen)
    estimators = tuple(clone(one).fit(X, column, **weight) for column in y.T)
    domain = None if is_gaussian(parameters.likelihood) else domain_of(parameters.likelihood)
    if domain is None or not domain.is_never_negative:
        return MeanFunction(estimators)
    least = _LEAST_SHARE * max(np.average(y), np.finfo(float).tiny)
    return MeanFunction(estimators, 0, least, most=domain.high)

"""Mean functions: what other estimators predict of a row, as latent values.

Training rows have predictions of fits without them (cross-fitting, three folds, five of labels),
queries those of a fit to all rows. Rows with equal inputs are in the same fold. Latent values are
numbers as they are, logarithms where a likelihood has a logarithmic link, and logits of classes.
"""

from typing import NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, TweedieRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.validation import has_fit_parameter

from skgp_sparse.choices.choices import is_gaussian
from skgp_sparse.data.moments import Distinct
from skgp_sparse.engine.posteriors_around import averaged, missing_entries, spread_values
from skgp_sparse.ground.validation import Array, as_text, is_name, require
from skgp_sparse.likelihoods import Domain, domain_of

NAMES = "auto", "boosting", "linear"
_N_FOLDS, _OF_LABELS, FEWEST_ROWS = 3, 5, 10
_OF_TREES = ("HistGradientBoosting", "GradientBoosting", "RandomForest", "ExtraTrees")
_MOST_LEVELS = 255  # of a category that boosting takes
_STOPPED_EARLY, _MOST_TREES = 10_000, 300  # rows of which boosting leaves some out to stop early
_LEAVES = 15  # of a tree of numbers: with three folds, .45 of the seconds of 31 and five folds
_FEWEST_OF_A_CLASS = 10  # of which some can be left out to stop early
_OF_CLASSES = {"l2_regularization": 0.03}  # without which leaves of a rare class diverge
_OF_SEVERAL_CLASSES = {"learning_rate": 0.2, "max_iter": 50}  # half of the time, as good
LEAST_PROBABILITY = 1e-6  # of which a logarithm is taken
_POWERS = {"poisson": 1, "gamma": 2}  # of the mean, as which variances grow with these losses
_RIDGE, _ITERATIONS = 1e-3, 1000  # of a linear function on the scale of a link
_LEAST_SHARE = 1e-6  # of the mean of targets, below which no logarithm is taken


class MeanFunction(NamedTuple):
    """A fitted mean.

    Parameters
    ----------
    estimators : tuple
        Fitted regressors, one for each target, or one classifier.
    n_classes : int
        Number of classes, 0 of numbers.
    least : float or None
        Smallest prediction of which a logarithm is taken; None: predictions as they are.
    values : ndarray of shape (K, d) or None
        Values that take the place of one that is missing in a query, as of `spread_values`.
    most : float
        Upper end of the targets. Where it is finite, the logarithm is a logit.
    """

    estimators: tuple
    n_classes: int = 0
    least: float | None = None
    values: Array | None = None
    most: float = np.inf

    def latent(self, X: Array) -> Array:
        """Latent values (n, q) of rows (n, d), averaged over values that only queries lack."""
        if self.values is not None and missing_entries(X, self.values).any():
            return averaged(self._of_complete_rows, X, self.values)
        return self._of_complete_rows(X)

    def _of_complete_rows(self, X):
        if self.n_classes:
            return self._logits(self.estimators[0], X)
        values = np.column_stack([np.ravel(one.predict(X)) for one in self.estimators])
        if self.least is None:
            return values
        values = np.clip(values, self.least, self.most * (1.0 - LEAST_PROBABILITY))
        return np.log(values) - np.log1p(-values / self.most)

    @property
    def is_flat(self) -> bool:
        """Whether the gradient is zero nearly everywhere, as that of trees is."""
        return all(type(one).__name__.startswith(_OF_TREES) for one in self.estimators)

    def _logits(self, classifier, X):
        known = np.full((len(X), self.n_classes), LEAST_PROBABILITY)
        known[:, classifier.classes_] = classifier.predict_proba(X)
        logs = np.log(np.maximum(known, LEAST_PROBABILITY))
        if self.n_classes == 2:
            return logs[:, 1:] - logs[:, :1]
        return logs - logs.mean(axis=1, keepdims=True)


def check_mean(mean, labels, name):
    """Raise unless a mean is one."""
    if mean is None or (isinstance(mean, str) and mean in NAMES):
        return
    kind, is_right = ("classifier", is_classifier) if labels else ("regressor", is_regressor)
    takes = hasattr(mean, "fit") and not isinstance(mean, type) and is_right(mean)
    takes = takes and hasattr(mean, "predict_proba" if labels else "predict")
    must = f"None, one of {NAMES}, or a {kind} object" + " with predict_proba" * labels
    require(takes, "mean", mean, name, must)


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
    if len(first) < FEWEST_ROWS:
        raise ValueError(
            f"{name}: a mean is fitted without a part of the rows, and again, which needs at "
            f"least {FEWEST_ROWS} different rows. Got {len(first)}. Set mean to None."
        )
    order = random_state.permutation(len(first))
    if form.classes is not None:
        order = order[np.argsort(form.y[first[order]], kind="stable")]
    fold = np.empty(len(first), int)
    fold[order] = np.arange(len(first)) % (_N_FOLDS if form.classes is None else _OF_LABELS)
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
    domain = Domain() if is_gaussian(parameters.likelihood) else domain_of(parameters.likelihood)
    least = _LEAST_SHARE * max(np.average(y), np.finfo(float).tiny)
    least = least if domain.is_never_negative else None
    return MeanFunction(estimators, 0, least, most=domain.high)

"""The laws: what must not change, whatever the rows are.

A law is a function of a fit, which returns what is predicted and what should be, {name: array}. Its
docstring states the law. `law` enters it in the table `LAWS`, with how closely both agree, and of
which fits it is asked.
"""

import pickle
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from fits import arrays
from sklearn.base import clone

EXACT = 0.0  # the same bits
ROUNDING = 1e-6  # the same path of the search, in rounded numbers
PATH = 0.1  # another path of the search to the same optimum
DRAWN = 0.25  # the same, where rows or features that are drawn at random decide what it finds


class Law(NamedTuple):
    """A law, how closely it holds, and of which fits."""

    check: Callable  # (fit) -> what should be predicted, what is predicted
    tolerance: float
    asked_of: Callable  # (fit) -> bool

    def tolerance_of(self, fit):
        """How closely the law holds of a fit."""
        return DRAWN if self.tolerance == PATH and fit.draws else self.tolerance


LAWS = {}


def law(tolerance, asked_of=lambda fit: True):
    """A decorator that enters a function in the table of laws."""

    def enter(check):
        LAWS[check.__name__] = Law(check, tolerance, asked_of)
        return check

    return enter


def distance(expected, actual):
    """Root of the mean squared difference, in predicted standard deviations where there are any."""
    unit = expected.get("std", 1.0)
    assert expected.keys() == actual.keys()
    gaps = [(actual[name] - expected[name]) / unit for name in expected]
    return max(np.sqrt(np.mean(gap**2)) for gap in gaps)


def shuffled(n):
    return np.random.default_rng(1).permutation(n)


def stacked(answers):
    """Answers of several questions as those of one."""
    return {name: np.concatenate([one[name] for one in answers]) for name in answers[0]}


# -- rows ------------------------------------------------------------------------------


def is_relative(fit):
    """Whether copies and weights say how much a row matters, and do not count it."""
    return not fit.counted


def has_ties(fit):
    """Whether rows with equal inputs are measurements of their own, which no copy is told from."""
    return "repeated" in fit.options


@law(ROUNDING)
def rows_permuted(fit):
    """The order of the rows does not matter."""
    return fit.answers, fit.again(fit.table.rows(shuffled(len(fit.table.y))))


@law(ROUNDING, lambda fit: is_relative(fit) and not has_ties(fit))
def all_rows_twice(fit):
    """All rows twice say what they say once."""
    return fit.answers, fit.again(fit.table.rows(np.tile(np.arange(len(fit.table.y)), 2)))


@law(ROUNDING, is_relative)
def weights_times_three(fit):
    """Weights have no unit."""
    table = fit.table
    return fit.answers, fit.again(table._replace(weight=3.0 * table.weights))


@law(ROUNDING)
def rows_of_weight_zero(fit):
    """A row of weight 0 is no row, whatever its target is."""
    n = len(fit.table.y)
    more = fit.table.rows(np.r_[:n, :5])
    more.y[n:] = fit.table.y[n - 5 :]
    return fit.answers, fit.again(more._replace(weight=np.r_[fit.table.weights, np.zeros(5)]))


@law(ROUNDING)
def a_weight_of_two_and_a_copy(fit):
    """A row of weight 2 is the row and its copy."""
    table, n = fit.table, len(fit.table.y)
    factor = np.where(np.arange(n) < 10, 2.0, 1.0)
    copied = table._replace(weight=table.weights).rows(np.r_[:n, :10])
    return fit.again(table._replace(weight=factor * table.weights)), fit.again(copied)


# -- targets ---------------------------------------------------------------------------


def has_units(fit):
    """Whether targets may have any unit and any origin."""
    return fit.targets in ("numbers", "columns", "skewed", "outliers")


def in_units(fit, a, b):
    """Predictions of a fit to a + b y, in the units of y."""
    answers = fit.again(fit.table._replace(y=a + b * fit.table.y))
    return {"mean": (answers["mean"] - a) / b, "std": answers["std"] / abs(b)}


@law(PATH, has_units)
def targets_in_other_units(fit):
    """Targets may have any unit and any origin."""
    return fit.answers, in_units(fit, 32.0, 1.8)


@law(PATH, lambda fit: fit.targets == "positive")
def positive_targets_in_other_units(fit):
    """Positive targets may have any unit."""
    return fit.answers, in_units(fit, 0.0, 1.8)


@law(ROUNDING, has_units)
def targets_with_another_sign(fit):
    """What holds for y holds for -y."""
    return fit.answers, in_units(fit, 0.0, -1.0)


@law(ROUNDING, lambda fit: fit.is_classifier)
def labels_renamed(fit):
    """Labels are names, which are sorted in any order."""
    classes, codes = np.unique(fit.table.y, return_inverse=True)
    answers = fit.again(fit.table._replace(y=len(classes) - 1 - codes))
    return fit.answers, {"probability": answers["probability"][:, ::-1]}


# -- columns ---------------------------------------------------------------------------


def has_default_kernel(fit):
    """Whether the kernel is the default one, which has no units."""
    return fit.model.kernel is None


@law(PATH, has_default_kernel)
def columns_in_other_units(fit):
    """Each column may have a unit of its own."""
    change = lambda X: X.assign(a=2.54 * X["a"], b=1e-3 * X["b"])
    return fit.answers, fit.again(fit.table.columns(change))


@law(PATH)
def columns_permuted(fit):
    """The order of the columns does not matter."""
    return fit.answers, fit.again(fit.table.columns(lambda X: X[X.columns[::-1]]))


@law(PATH, has_default_kernel)
def a_column_copied(fit):
    """A column twice says what it says once."""
    return fit.answers, fit.again(fit.table.columns(lambda X: X.assign(copy=X["a"])))


@law(PATH)
def constant_columns(fit):
    """Columns that are constant say nothing, however many there are."""
    constant = {f"constant {number}": 7.0 for number in range(20)}
    return fit.answers, fit.again(fit.table.columns(lambda X: X.assign(**constant)))


@law(EXACT, lambda fit: "kinds" in fit.options)
def a_category_without_rows(fit):
    """A category may have levels that no row has."""
    levels = pd.CategoricalDtype(["a", "and none", "b", "c"])
    return fit.answers, fit.again(fit.table.columns(lambda X: X.astype({"kind": levels})))


# -- doors -----------------------------------------------------------------------------


@law(EXACT)
def a_frame_and_its_array(fit):
    """A frame says what its array says."""
    if "kind" in fit.table.X:
        coded = lambda X: X.assign(kind=X["kind"].map({"a": 0, "b": 1, "c": 2})).to_numpy()
        return fit.answers, fit.again(fit.table, coded, categorical_features=[2])
    return fit.answers, fit.again(fit.table, lambda X: X)


@law(EXACT)
def a_frame_and_its_polars_twin(fit):
    """A frame of polars says what its twin of pandas says."""
    polars = pytest.importorskip("polars")
    return fit.answers, fit.again(fit.table, polars.from_pandas)


@law(EXACT)
def single_precision(fit):
    """Inputs of float32 are those of float64 that they are equal to."""
    door = lambda X: X.astype({"a": np.float32, "b": np.float32})
    return fit.answers, fit.again(fit.table, door)


@law(EXACT)
def threads(fit):
    """Two threads predict what one predicts."""
    return fit.answers, fit.again(fit.table, n_jobs=2)


# -- fits ------------------------------------------------------------------------------


@law(EXACT)
def a_pickle(fit):
    """What was pickled predicts what it predicted before."""
    return fit.answers, fit.ask(pickle.loads(pickle.dumps(fit.fitted)), fit.table.queries)


@law(EXACT)
def a_clone(fit):
    """A clone that is fitted again predicts the same."""
    table = fit.table
    again = clone(fit.fitted).fit(arrays(table.X), table.y, sample_weight=table.weight)
    return fit.answers, fit.ask(again, table.queries)


@law(ROUNDING)
def queries_one_by_one(fit):
    """The prediction of a row does not depend on the rows that are predicted with it."""
    rows = [fit.table.queries.iloc[[i]] for i in range(len(fit.table.queries))]
    return fit.answers, stacked([fit.ask(fit.fitted, row) for row in rows])


# -- rows that are left out --------------------------------------------------------------


def is_held(fit):
    """Whether parameters can say all that a fit has learned."""
    params = fit.model.get_params()
    if not fit.is_classifier:
        return params["mean"] is None and params["noise"] == "constant"
    is_one_problem = fit.targets == "labels" or params["multi_class"] == "softmax"
    return params["mean"] is params["calibration"] is None and is_one_problem


def has_sites(fit):
    """Whether a likelihood is not Gaussian, so that a row has a site in place of its noise."""
    return fit.is_classifier or fit.model.likelihood != "gaussian"


def held(fit, table):
    """The estimator with what its fit has learned, fitted to rows that teach it nothing more."""
    model = fit.fitted
    kept = {"kernel": model.kernel_, "optimizer": None}
    if model.posterior_ == "inducing":
        points = model.inducing_points_
        kept |= {"inducing_init": points, "n_inducing": len(points)}
    if not fit.is_classifier:
        kept |= {"likelihood": model.likelihood_} if has_sites(fit) else {"normalize_y": False}
    return fit.of(table, **kept)


def as_fitted(fit):
    """The rows with standardised numbers and relative weights, the mean and the scale of y."""
    table, weight, mean, scale = fit.table, fit.table.weights, 0.0, 1.0
    if not fit.counted:  # their mean over distinct rows is one
        weight = weight * len(table.X.assign(y=table.y).drop_duplicates()) / weight.sum()
    if not has_sites(fit):
        mean = np.average(table.y, weights=weight)
        scale = np.sqrt(np.average((table.y - mean) ** 2, weights=weight))
        table = table._replace(y=(table.y - mean) / scale)
    return table._replace(weight=weight), mean, scale


def from_others(fit, i):
    """Predictions of a row by the others, with what the fit has learned."""
    table, mean, scale = as_fitted(fit)
    is_row, lost = np.arange(len(table.y)) == i, 1.0
    if not fit.counted:  # its copies and all of its weight are left out with it
        is_row, lost = (
            (table.X == table.X.iloc[i]).all(axis=1) & (table.y == table.y[i]),
            table.weight,
        )
    others = table._replace(weight=table.weight - np.where(is_row, lost, 0.0))
    answers = fit.ask(held(fit, others), table.X.iloc[[i]])
    if fit.is_classifier:
        return answers
    factor = np.sqrt(getattr(fit.fitted, "variance_factor_", 1.0))
    return {"mean": mean + scale * answers["mean"], "std": factor * scale * answers["std"]}


def left_out(fit):
    """Predictions of some rows by all others, with refits and without."""
    some, model = [0, 7, len(fit.table.y) // 2], fit.fitted
    if fit.is_classifier:
        found = {"probability": model.loo_predict_proba()[some]}
    else:
        found = {"mean": (loo := model.loo_predict()).mean[some], "std": loo.std[some]}
    return stacked([from_others(fit, i) for i in some]), found


@law(ROUNDING, lambda fit: is_held(fit) and not has_sites(fit))
def a_row_left_out(fit):
    """Leaving a row out is a fit without it that keeps the kernel."""
    return left_out(fit)


@law(PATH, lambda fit: is_held(fit) and has_sites(fit))
def a_row_left_out_of_sites(fit):
    """The same with a likelihood, where the sites of the other rows do not move."""
    return left_out(fit)


# -- distributions ---------------------------------------------------------------------


def nested(fit, method):
    """Ends of intervals of falling and then of rising coverage, sorted and as they are."""
    queries = arrays(fit.table.queries)
    ask = lambda share: fit.fitted.predict_interval(queries, coverage=share, method=method)
    ends = np.array([ask(share) for share in (0.95, 0.8, 0.5)])
    ends = np.concatenate([ends[:, 0], ends[::-1, 1]])
    return {"ends": np.sort(ends, axis=0)}, {"ends": ends}


@law(EXACT, lambda fit: not fit.is_classifier)
def intervals_nest(fit):
    """An interval of more coverage contains one of less."""
    return nested(fit, "model")


@law(EXACT, lambda fit: not fit.is_classifier)
def conformal_intervals_nest(fit):
    """So do conformal intervals."""
    return nested(fit, "conformal")


@law(ROUNDING, lambda fit: fit.is_classifier)
def probabilities_of_classes(fit):
    """Probabilities of all classes are not negative, and sum to one."""
    found = fit.answers["probability"]
    positive = np.maximum(found, 0.0)
    return {"probability": positive / positive.sum(axis=1, keepdims=True)}, fit.answers


@law(ROUNDING, lambda fit: fit.targets == "counts")
def probabilities_of_counts(fit):
    """Probabilities of all counts sum to one."""
    query, counts = arrays(fit.table.queries.iloc[:1]), np.arange(1000)
    found = fit.fitted.log_predictive_density(np.repeat(query, len(counts), axis=0), counts)
    return {"total": np.ones(1)}, {"total": np.exp(found).sum(keepdims=True)}

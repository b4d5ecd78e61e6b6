"""The fits of the laws: estimators and the rows that they are fitted to, by name.

A new estimator, posterior or likelihood is one more line of `FITS`, and every law that can be asked
of it is.
"""

from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.tree import DecisionTreeRegressor

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.likelihoods import Censored

N_QUERIES = 30

# -- tables ----------------------------------------------------------------------------


class Table(NamedTuple):
    """Rows of a fit, and rows to predict."""

    X: pd.DataFrame
    y: np.ndarray
    queries: pd.DataFrame
    weight: np.ndarray | None = None

    def rows(self, which):
        """The rows with these numbers, which may occur more than once."""
        weight = None if self.weight is None else self.weight[which]
        return self._replace(X=self.X.iloc[which], y=self.y[which], weight=weight)

    def columns(self, change):
        """The table with columns that a function changes, in rows to predict, too."""
        return self._replace(X=change(self.X), queries=change(self.queries))

    @property
    def weights(self):
        """The weights, which are ones where there are none."""
        return np.ones(len(self.y)) if self.weight is None else self.weight


def smooth(X):
    """A smooth function of two columns, and of a category where there is one."""
    level = 0.5 * (X["kind"] == "b") if "kind" in X else 0.0
    return np.asarray(np.sin(2.0 * X["a"]) + 0.5 * X["b"] + level)


TARGETS = {  # of a function and a generator of random numbers
    "numbers": lambda f, rng: f + 0.3 * rng.normal(size=len(f)),
    "columns": lambda f, rng: np.stack([f, np.cos(f)], 1) + 0.3 * rng.normal(size=(len(f), 2)),
    "skewed": lambda f, rng: f + (0.1 + 0.2 * np.abs(f)) * (rng.exponential(size=len(f)) - 1.0),
    "outliers": lambda f, rng: f + 0.2 * rng.standard_t(3, len(f)),
    "limited": lambda f, rng: np.maximum(f + 0.3 * rng.normal(size=len(f)), -0.5),
    "positive": lambda f, rng: rng.gamma(3.0, np.exp(f) / 3.0),
    "shares": lambda f, rng: rng.beta(8.0 / (1.0 + np.exp(-f)), 8.0 / (1.0 + np.exp(f))),
    "counts": lambda f, rng: rng.poisson(np.exp(1.0 + f)),
    "labels": lambda f, rng: np.where(f + 0.5 * rng.normal(size=len(f)) > 0.0, "yes", "no"),
    "classes": lambda f, rng: np.digitize(f + 0.5 * rng.normal(size=len(f)), [-0.5, 0.5]),
}


def make(targets, n, *, kinds=False, repeated=False, weights=None, copies=0):
    """A random table: with a category, few different inputs, weights, or rows that come twice."""
    rng = np.random.default_rng(n)
    values = rng.uniform(-2.0, 2.0, (n + N_QUERIES, 2)).astype(np.float32).astype(float)
    X = pd.DataFrame(np.round(2.0 * values) / 2.0 if repeated else values, columns=["a", "b"])
    if kinds:
        X["kind"] = rng.choice(["a", "b", "c"], len(X))
    y = TARGETS[targets](smooth(X), rng)[:n]
    weight = None if weights is None else rng.choice(weights, n)
    return Table(X[:n], y, X[n:], weight).rows(np.r_[:n, :copies])


# -- fits ------------------------------------------------------------------------------


def arrays(X):
    """What most users pass: an array where all columns are numbers."""
    return X if "kind" in X else X.to_numpy()


class Fit:
    """An estimator, and the rows that it is fitted to.

    Parameters
    ----------
    model : estimator
    targets : str
        A name of `TARGETS`.
    n : int
        The number of rows.
    counted : bool
        Whether copies of a row and its weight count it, as those of grouped trials do, and all with
        a kernel of the user's own. Otherwise weights are relative, and copies are one row.
    **options
        Of `make`.
    """

    def __init__(self, model, targets, n, counted, **options):
        self.model, self.targets, self.n, self.counted = model, targets, n, counted
        self.options, self.is_classifier = options, is_classifier(model)

    @property
    def draws(self):
        """Whether rows or features that are drawn at random decide what is predicted."""
        return self.n > 2000 or self.model.posterior in ("neighbors", "fourier", "rows")

    @cached_property
    def table(self):
        return make(self.targets, self.n, **self.options)

    @cached_property
    def fitted(self):
        """The estimator, fitted to its rows."""
        return self.of(self.table)

    @cached_property
    def answers(self):
        """What it predicts."""
        return self.ask(self.fitted, self.table.queries)

    def of(self, table, door=arrays, **params):
        """The estimator with other parameters, fitted to other rows that come through a `door`."""
        model = clone(self.model).set_params(**{"random_state": 0, "n_jobs": 1} | params)
        return model.fit(door(table.X), table.y, sample_weight=table.weight)

    def ask(self, model, queries, door=arrays):
        """Predictions {name: array} of an estimator."""
        if self.is_classifier:
            return {"probability": model.predict_proba(door(queries))}
        return dict(zip(("mean", "std"), model.predict(door(queries), return_std=True)))

    def again(self, table, door=arrays, **params):
        """Predictions of a fit to other rows."""
        return self.ask(self.of(table, door, **params), table.queries, door)


ALONE = {"mean": None, "noise": "constant"}  # a process without anything beside it
LABELS_ALONE = {"mean": None, "calibration": None}
OWN = ConstantKernel() * RBF()  # a kernel of the user's own
UNEVEN, WHOLE = (0.5, 1.0, 1.7), (1.0, 2.0, 3.0)  # weights
N = 150  # rows, where nothing depends on their number


def numbers(n=N, targets="numbers", *, counted=False, rows=(), **params):
    """A regressor with these parameters; `rows` are the options of its table."""
    return Fit(SparseGPRegressor(**params), targets, n, counted, **dict(rows))


def labels(n=N, targets="labels", *, counted=False, rows=(), **params):
    """A classifier with these parameters."""
    return Fit(SparseGPClassifier(**params), targets, n, counted, **dict(rows))


process = partial(numbers, **ALONE)
process_of_labels = partial(labels, **LABELS_ALONE)

SMALL = {"numbers, 60": numbers(60), "labels, 60": labels(60)}
FITS = {
    **SMALL,
    "numbers, 400": numbers(400),
    "labels, 400": labels(400),
    "classes": labels(targets="classes"),
    "several targets": numbers(targets="columns"),
    # categories, repeated inputs, weights, copies
    "numbers, categories": numbers(rows={"kinds": True}),
    "labels, categories": labels(rows={"kinds": True}),
    "numbers, repeated inputs": numbers(400, targets="skewed", rows={"repeated": True}),
    "labels, repeated inputs": labels(counted=True, rows={"repeated": True}),
    "numbers, weights": process(rows={"weights": UNEVEN}),
    "labels, weights": process_of_labels(rows={"weights": UNEVEN}),
    "counts, weights": process(likelihood="poisson", targets="counts", rows={"weights": UNEVEN}),
    "counted counts": process(
        likelihood="poisson",
        targets="counts",
        counted=True,
        rows={"repeated": True, "weights": WHOLE},
    ),
    "numbers, copies": process(rows={"copies": 40}),
    "labels, copies": process_of_labels(rows={"copies": 40}),
    # kernels of the user's own
    "numbers, own kernel": process(kernel=OWN, counted=True, rows={"weights": WHOLE}),
    "labels, own kernel": process_of_labels(kernel=OWN, counted=True),
    # posteriors
    "exact": process(posterior="exact"),
    "exact, labels": process_of_labels(posterior="exact"),
    "inducing": process(posterior="inducing", n_inducing=20),
    "inducing, labels": process_of_labels(posterior="inducing", n_inducing=20),
    "fourier": process(posterior="fourier"),
    "fourier, labels": process_of_labels(posterior="fourier"),
    "neighbors": process(400, posterior="neighbors", metric="ard"),
    "neighbors, labels": process_of_labels(400, posterior="neighbors"),
    "rows": process(700, posterior="rows", n_inducing=60),
    # likelihoods
    "poisson": process(likelihood="poisson", targets="counts"),
    "negative binomial": process(likelihood="negative_binomial", targets="counts"),
    "gamma": process(likelihood="gamma", targets="positive"),
    "beta": process(likelihood="beta", targets="shares"),
    "student t": process(likelihood="student_t", targets="outliers"),
    "censored": process(likelihood=Censored(lower=-0.5), targets="limited"),
    "logit": process_of_labels(likelihood="logit"),
    "ordinal": process_of_labels(likelihood="ordinal", targets="classes"),
    "softmax": process_of_labels(multi_class="softmax", targets="classes"),
    "one vs one": process_of_labels(multi_class="one_vs_one", targets="classes"),
    # means, and noise that varies
    "linear mean": numbers(mean="linear"),
    "boosting": numbers(mean="boosting"),
    "boosting, labels": labels(mean="boosting"),
    "tree": numbers(mean=DecisionTreeRegressor(max_depth=3, random_state=0)),
    "linear mean, own kernel": numbers(mean="linear", kernel=OWN, counted=True),
    "learned noise": numbers(noise="learned"),
    "learned noise, repeated inputs": numbers(
        targets="skewed", noise="learned", rows={"repeated": True}
    ),
}
LARGE = {
    "numbers, 2,600": numbers(2600),
    "labels, 2,600": labels(2600),
    "repeated inputs, 2,600": numbers(2600, targets="skewed", rows={"repeated": True}),
    "numbers, 6,000": numbers(6000),
    "labels, 6,000": labels(6000),
}
FITS |= LARGE

"""The door: the only place that reads what users pass as X, y, weights and offsets.

An array is one chunk, a source is many, and a call of partial_fit has one. Every chunk is checked
by the same `Rules`. The answer is a `Dataset` in the units of the user; labels are indices of its
classes. Small sources become the arrays that their chunks make up, so that the fit is the same to
the last bit. (`skgp_sparse.dask` reads partitions, each on its worker, by the same rules.)
"""

from contextlib import closing, nullcontext
from dataclasses import replace

import numpy as np
from sklearn.utils.validation import validate_data

from skgp_sparse._engine.data.chunked_dataset import Reader
from skgp_sparse.rows.checks import check_classes, check_in_memory, is_lazy
from skgp_sparse.rows.chunks import chunked
from skgp_sparse.rows.columns import as_table
from skgp_sparse.rows.survey import survey
from skgp_sparse.rows.types import types_of
from skgp_sparse.sources import is_source


def read(estimator, rules, X, y, sample_weight, offset, reset, X_std, types):
    """All rows that an estimator is fitted to, as a `Dataset`.

    Parameters
    ----------
    estimator : estimator
        It is told the number of its features and their names, or asked for them if not `reset`.
    rules : Rules
    X : array-like of shape (n, d), or OpenSource
    y, sample_weight, offset : array-like or None
    reset : bool
    X_std : array-like of shape (n, d) or None
    types : ColumnTypes or None
        Of the columns of X; None: all are numbers.
    """
    given = {"y": y, "X_std": X_std, "sample_weight": sample_weight, "offset": offset}
    alpha = getattr(estimator, "alpha", None)
    check_in_memory(rules.name, X=X, **given)
    if isinstance(X, OpenSource):
        return _read_source(estimator, rules, X, alpha, **given)
    if X_std is not None and types is not None:
        raise ValueError(
            f"{rules.name}: X_std is for arrays and data frames of numbers, but columns of X are "
            "categories or times. Leave X_std out, or encode X before."
        )
    X = as_table(X)
    numbers = X if types is None else types.encoded(X, rules.name)
    rules = rules if types is None else rules._replace(names=types.names)
    rows = rules.check(numbers, **given, alpha=alpha, all_rows=True)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return encoded(rows, rules)


def read_chunk(estimator, rules, X, y, sample_weight, offset, reset, types=None):
    """The `ArrayDataset` of the rows of a call of partial_fit that count."""
    given = {"X": X, "y": y, "sample_weight": sample_weight, "offset": offset}
    name = f"{rules.name}.partial_fit"
    if is_source(X):
        _refuse_source(
            X,
            name,
            "Pass its chunks one by one, such as partial_fit(*source.chunk(k)[:2]) for the arrays "
            "X and y of chunk number k, or the source itself to fit.",
        )
    for argument, value in given.items():
        if is_lazy(value):
            raise TypeError(
                f"{argument} is a dask collection ({type(value).__name__}), but {name} takes one "
                "chunk of rows in memory in every call. Pass the partitions one by one, each after "
                "compute(), or all rows to fit of DaskSparseGPRegressor or DaskSparseGPClassifier "
                "of skgp_sparse.dask."
            )
    if types is not None or types_of(X, estimator.categorical_features, name) is not None:
        raise ValueError(
            f"{name} takes numbers, but columns of X are categories or times, or were so in fit. "
            "Pass all rows to fit, or encode them before, by the transformers of "
            "sklearn.preprocessing."
        )
    if not reset:
        rules = rules._replace(names=getattr(estimator, "feature_names_in_", None))
    part = rules.check(**given, alpha=getattr(estimator, "alpha", None), all_rows=True)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return part.counting()


def encoded(rows, rules):
    """The table in memory, whose labels are replaced by indices of at least two classes."""
    if not rules.labels:
        return rows
    classes, index = check_classes(rows.y, rows.weight, rules.name)
    return replace(rows, y=index.ravel(), classes=classes)


def _read_source(estimator, rules, X, alpha, **given):
    passed = [argument for argument, value in given.items() if value is not None]
    if passed:
        raise ValueError(
            f"{rules.name}: {' and '.join(passed)} cannot be passed beside a source of rows. Leave "
            "them out, and let the chunks of the source be (X, y, sample_weight, offset)."
        )
    summary = survey(X.source, rules, alpha)
    estimator.n_features_in_ = summary.n_features
    vars(estimator).pop("feature_names_in_", None)
    if summary.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(summary.feature_names, dtype=object)
    if summary.rows is not None:
        return encoded(summary.rows, rules)
    return chunked(X, summary, rules)


class OpenSource:
    """A source during a fit."""

    def __init__(self, source):
        self.source, self.reader = source, None

    def reads(self, read, sizes):
        """The `Reader` of checked chunks, which is closed with the source."""
        self.reader = Reader(read, sizes)
        return self.reader

    def close(self):
        """Give back chunks in memory, and what the source has open."""
        if self.reader is not None:
            self.reader.forget()
        if callable(getattr(self.source, "close", None)):
            self.source.close()


def opened(X):
    """Context with an `OpenSource` if X is a source, otherwise with X itself."""
    return closing(OpenSource(X)) if is_source(X) else nullcontext(X)


def as_passed(X):
    """Inputs as the user passed them as X, for callbacks."""
    return X.source if isinstance(X, OpenSource) else X


def check_query(X, name):
    """Raise if points at which an estimator is evaluated come from a source."""
    if is_source(X):
        remedy = "Pass the inputs of its chunks one by one, such as source.chunk(k)[0]."
        _refuse_source(X, f"a prediction or score of {name}", remedy)


def _refuse_source(X, what, remedy):
    raise TypeError(
        f"X is a source of rows ({type(X).__name__}), but {what} takes an array of rows. {remedy}"
    )

"""Types of the columns of a table: numbers, times, or categories, whose levels become codes."""

import re
from contextlib import contextmanager
from functools import cached_property

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import OrdinalEncoder

from skgp_sparse._ground.plain_text import as_text
from skgp_sparse._ground.warnings import TextColumnWarning, warn
from skgp_sparse.rows.columns import (
    CATEGORY,
    EMPTY,
    NUMBER,
    columns_of,
    objects_of,
)
from skgp_sparse.rows.missing import MISSING_LATER, is_frame, is_missing, missing_among

FROM_DTYPE = "from_dtype"
_TEXTS_READ = 10_000  # of a column, to see what they spell
_SPELLED = 0.95  # of them at least, if they are told of
_ISO_DATE = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])(?:-[0-3]\d)?"  # 2020-01-31, 2020-01
    r"(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[-+]\d\d:?(?:\d\d)?))?)?"
)


def levels_of(values):
    """The levels of a column, sorted, a missing value last."""
    distinct = {*values.tolist()}
    there = [one for one in distinct if not is_missing(one)]
    found = objects_of(there + [np.nan] * (len(there) < len(distinct)))
    levels = OrdinalEncoder().fit(found[:, None]).categories_[0]
    if levels.ndim > 1:
        raise TypeError("lists and tuples are no levels")
    return levels


def _codes_of(levels):
    codes = {one: float(k) for k, one in enumerate(levels.tolist())}
    last = next(reversed(codes), None)
    return codes | dict.fromkeys((np.nan, None), codes[last]) if last != last else codes


def _coded(values, codes):
    """Codes (n,) of values; every level that is not known has a negative one of its own."""
    found = values.tolist()
    try:
        return np.fromiter(map(codes.__getitem__, found), float, len(found))
    except KeyError:
        found = np.array([*map(codes.get, found)], dtype=float)
    others = np.flatnonzero(np.isnan(found))
    missing = missing_among(values[others])
    _check_kind(values[others[~missing]], [one for one in codes if not is_missing(one)])
    texts = np.where(missing, "", values[others]).astype(str)
    unseen = -2.0 - np.unique(texts, return_inverse=True)[1]
    found[others] = np.where(missing, codes.get(None, MISSING_LATER), unseen)
    return found


def _check_kind(given, known):
    """Raise if levels are text where those in fit were not, or the other way round."""
    if len(given) and known and isinstance(given[0], str) != isinstance(known[0], str):
        raise TypeError(
            f"the levels in fit were {as_text(known[0])}, ..., but now {as_text(given[0])}, ..."
        )


class ColumnTypes:
    """The types of the columns of the training rows, and the levels of categories.

    Parameters
    ----------
    names : list
        Of the columns; their numbers in an array.
    kinds : list of str
    values : dict of int to ndarray
        Levels by the number of the category.
    """

    def __init__(self, names, kinds, values):
        self.names, self.kinds, self.values = names, kinds, values

    def __getstate__(self):
        return {name: one for name, one in vars(self).items() if name != "codes"}

    @cached_property
    def codes(self):
        """The codes of levels, of a missing value among them, by the number of the category."""
        return {j: _codes_of(levels) for j, levels in self.values.items()}

    def by_name(self):
        """Levels of the categories, by name or number; a missing value is one, the last."""
        keys = self.names if is_named(self.names) else range(len(self.names))
        return {keys[j]: values.copy() for j, values in self.values.items()}

    def encoded(self, X, name):
        """The numbers (n, d) of a table: codes of levels, days of times, NaN of missing values."""
        if len(X) == 0:
            raise ValueError(
                f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required "
                f"by {name}."
            )
        columns = columns_of(X, self.kinds)
        numbers = np.column_stack([self._numbers(j, one, name) for j, one in enumerate(columns)])
        infinite = np.isinf(numbers).any(axis=0)
        if infinite.any():
            raise ValueError(
                f"Input X contains infinity: column {self.names[np.argmax(infinite)]!r} of X of "
                f"{name}. Replace it by NaN if the value is missing."
            )
        return numbers

    def _numbers(self, j, column, name):
        with _about(self.names[j], name):
            values = column.read()
            if j in self.codes:
                return _coded(values, self.codes[j])
        if column.kind in (self.kinds[j], EMPTY):
            return values
        if missing_among(values).all():
            return np.full(len(values), np.nan)  # everything is missing, of whatever type
        raise ValueError(
            f"Column {self.names[j]!r} of X of {name} is {column.kind}, but it was "
            f"{self.kinds[j]} in fit. Convert it."
        )


def numbers_only(X):
    """The `ColumnTypes` of a data frame in which every column is a number."""
    return ColumnTypes([*X.columns], [NUMBER] * X.shape[1], {})


def types_of(X, categorical_features, name, warns=False):
    """The `ColumnTypes` of a table, None where every column is a plain number.

    Parameters
    ----------
    X : data frame or array-like of shape (n, d)
    categorical_features : "from_dtype", None, or a list of bool, int or str
    name : str
        Of the estimator, for errors.
    warns : bool
        Whether columns are told of that are hardly meant as categories.
    """
    frame = is_frame(X)
    from_dtype = isinstance(categorical_features, str) and categorical_features == FROM_DTYPE
    if not frame and (from_dtype or categorical_features is None):
        return None
    shape = X.shape if frame else np.shape(X)
    if issparse(X) or min(shape, default=0) == 0 or len(shape) != 2:
        return None  # refused elsewhere
    columns = columns_of(X)
    names = [*X.columns] if frame else [*range(len(columns))]
    if from_dtype:
        chosen = [j for j, column in enumerate(columns) if column.kind in (CATEGORY, EMPTY)]
    else:
        chosen = _chosen(categorical_features, names, name)
    if not chosen and all(column.is_plain for column in columns):
        return None
    kinds = [_kind(column, j in chosen) for j, column in enumerate(columns)]
    stray = [names[j] for j, kind in enumerate(kinds) if kind == CATEGORY and j not in chosen]
    if stray:
        raise ValueError(
            f"Column {stray[0]!r} of X of {name} contains text or categories, but "
            f"categorical_features={as_text(categorical_features)} does not name it. Name it, set "
            "categorical_features to 'from_dtype', or convert it to numbers."
        )
    as_kinds, values = columns_of(X, kinds), {}
    for j in chosen:
        with _about(names[j], name):
            values[j] = levels_of(as_kinds[j].read())
    if warns and from_dtype:
        texts = [(names[j], as_kinds[j].read()) for j in chosen if columns[j].is_text]
        _warn_of_text(texts, name)
    return ColumnTypes(names, kinds, values)


def _warn_of_text(columns, name):
    """Tell once of columns of text, names and values, that spell numbers or dates."""
    found = [words for one in columns if (words := _finding(*one))]
    if found:
        warn(
            f"{name}: text in X is a category, whose levels have no order. {' '.join(found)} Name "
            "columns that should stay categories in categorical_features, or filter this "
            "TextColumnWarning of skgp_sparse.exceptions.",
            TextColumnWarning,
        )


def _finding(column, values):
    """Text of the warning about a column, None if there is none."""
    some = values[:: -(-len(values) // _TEXTS_READ)].tolist()
    texts = [one for one in some if isinstance(one, str)]
    for what, spells, remedy in (
        ("numbers", _spells_number, "pandas.to_numeric, or cast of polars"),
        ("dates", _spells_date, "pandas.to_datetime, or str.to_datetime of polars"),
    ):
        share = np.mean([spells(one.strip()) for one in texts]) if texts else 0.0
        if share >= _SPELLED:
            return (
                f"Column {column!r} spells {what} in {share:.0%} of its values, first "
                f"{texts[0]!r}: convert it by {remedy}."
            )
    return None


def _spells_number(text):
    """Whether a text is a number, with commas, a currency or a per cent sign perhaps."""
    try:
        float(text.strip("$€£%").replace(",", ""))
    except ValueError:
        return False
    return any(map(str.isdigit, text))


def _spells_date(text):
    return _ISO_DATE.fullmatch(text) is not None


def _kind(column, is_chosen):
    """Kind of a column: category if it is chosen, number if it is not and has no value."""
    if is_chosen:
        return CATEGORY
    return NUMBER if column.kind == EMPTY else column.kind


def _chosen(categorical_features, names, name):
    """Numbers of the columns that a mask, numbers or names choose."""
    if categorical_features is None:
        return []
    given, d = np.asarray(categorical_features), len(names)
    if given.size == 0:
        return []
    if given.dtype.kind == "b" and given.shape == (d,):
        return np.flatnonzero(given).tolist()
    if given.dtype.kind in "iu" and given.ndim == 1 and np.all((given >= 0) & (given < d)):
        return sorted({*given.tolist()})
    if given.dtype.kind in "UO" and given.ndim == 1 and {*given} <= {*names}:
        return sorted({names.index(one) for one in given})
    raise ValueError(
        f"The 'categorical_features' parameter of {name} must be 'from_dtype', None, a mask of "
        f"{d} bools, or a list of numbers or names of columns of X, which are "
        f"{names if is_named(names) else f'0 to {d - 1}'}. Got {as_text(categorical_features)}."
    )


def is_named(names):
    """Whether columns have names, and not only numbers."""
    return all(isinstance(name, str) for name in names)


@contextmanager
def _about(column, name):
    """Context whose errors say which column they are about."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"Column {column!r} of X of {name} cannot be read as numbers, times, or levels of one "
            f"type, text or numbers ({error}). Convert it, for example by astype(str)."
        ) from error

"""Columns of tables of any library: values as numbers, types, missing values, orders of labels.

Columns of pandas whose values NumPy reads as they are, and those that are categories, are read
together: reading a table with many columns one by one takes longer than a prediction. Levels of
categories become codes.
"""

import re
from collections.abc import Callable
from contextlib import contextmanager
from datetime import date, time, timedelta, timezone
from decimal import Decimal
from functools import cache, cached_property, partial
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import OrdinalEncoder

from skgp_sparse.data.checks import MISSING_LATER, is_frame, is_missing, missing_among
from skgp_sparse.exceptions import TextColumnWarning, warn
from skgp_sparse.ground.validation import BOOLS, as_text

NUMBER, TIME, DURATION, CATEGORY = "a number", "a time", "a duration", "a category"
TIME_OF_DAY, EMPTY = "a time of day", "a column without a value"
_NUMPY_TIMES = {"m": "timedelta64[us]", "M": "datetime64[us]"}
_DAY = np.timedelta64(1, "D")
_HOUR = 3.6e12  # nanoseconds
_FEW_ROWS = 256  # of which all values are read as objects: to choose columns would take longer


class Column(NamedTuple):
    """A column of a table that a user passed."""

    kind: str
    read: Callable  # () -> values (n,): float64 with NaN of numbers, objects of categories
    is_plain: bool = False  # whether NumPy reads it as it is
    is_text: bool = False  # whether its type is text, not that of a category


def as_table(X):
    """X or, if it is a list of numbers and text, the array (n, d) of its objects."""
    if not isinstance(X, (list, tuple)):
        return X
    values = np.asarray(X)
    return np.array(X, dtype=object) if values.dtype.kind in "US" else values


def columns_of(X, kinds=None):
    """The `Column` of every column; those of an array are what `kinds` says they should be."""
    if hasattr(X, "get_columns"):
        return [_of_polars(series, kind) for series, kind in _with(X.get_columns(), kinds)]
    if is_frame(X):
        return _of_frame(X, kinds)
    return [_of_array(one, kind) for one, kind in _with(np.asarray(X).T, kinds)]


def _with(columns, kinds):
    columns = [*columns]
    return zip(columns, [None] * len(columns) if kinds is None else kinds)


def _of_array(values, kind):
    if kind == CATEGORY:
        return Column(CATEGORY, lambda: values.astype(object))
    return _of_objects(values) if values.dtype.kind == "O" else _of_numpy(values)


def _of_numpy(values):
    """The column of an array of one type."""
    if values.dtype.kind in "mM":
        return Column(_kind_of_times(values.dtype), lambda: _days(values))
    if values.dtype.kind in "biuf":
        return Column(NUMBER, lambda: values.astype(np.float64), is_plain=True)
    return Column(CATEGORY, lambda: values.astype(object), is_text=True)


def _of_objects(values, missing=None):
    """The column of Python objects: numbers or times if all of them are, otherwise levels."""
    missing = missing_among(values) if missing is None else missing
    kinds = {*map(type, values[~missing])}
    if not kinds:
        return Column(EMPTY, lambda: np.full(len(values), np.nan))
    if all(issubclass(kind, (Real, Decimal, *BOOLS)) for kind in kinds):
        return Column(NUMBER, lambda: _filled(values, missing).astype(np.float64))
    for what, (of_python, read) in _PYTHON_TIMES.items():
        if all(issubclass(kind, of_python) for kind in kinds):
            return Column(what, partial(read, values, missing))
    return Column(CATEGORY, lambda: _real(values, kinds), is_text=True)


def _real(values, kinds):
    if any(issubclass(kind, (complex, np.complexfloating)) for kind in kinds):
        raise TypeError("complex numbers are no levels")
    return values


def _days_of_times(unit, values, missing):
    """Days of Python's times, as those of NumPy, which are in UTC."""
    times = np.full(len(values), np.array("NaT", dtype=unit))
    times[~missing] = [_in_utc(one) for one in values[~missing]]
    return _days(times)


def _in_utc(one):
    is_aware = getattr(one, "tzinfo", None) is not None
    return one.astimezone(timezone.utc).replace(tzinfo=None) if is_aware else one


def _hours_of_times(values, missing):
    """Hours since midnight of Python's times of the day."""
    hours = np.full(len(values), np.nan)
    hours[~missing] = [_nanoseconds(one) / _HOUR for one in values[~missing]]
    return hours


def _nanoseconds(one):
    seconds = 60 * (60 * one.hour + one.minute) + one.second
    return 1000 * (1_000_000 * seconds + one.microsecond)


_PYTHON_TIMES = {
    TIME: ((date, np.datetime64), partial(_days_of_times, _NUMPY_TIMES["M"])),
    DURATION: ((timedelta, np.timedelta64), partial(_days_of_times, _NUMPY_TIMES["m"])),
    TIME_OF_DAY: (time, _hours_of_times),
}


def _of_frame(X, kinds):
    """Columns of a data frame of pandas; plain numbers are read together, and so are categories."""
    dtypes, kinds = [*X.dtypes], [None] * X.shape[1] if kinds is None else kinds
    plain = [j for j, one in enumerate(dtypes) if isinstance(one, np.dtype) and one.kind in "biuf"]
    plain = [j for j in plain if kinds[j] != CATEGORY]
    levels = [j for j, kind in enumerate(kinds) if kind == CATEGORY]
    objects = cache(lambda: X.to_numpy(dtype=object)) if len(X) <= _FEW_ROWS else None
    columns = dict(zip(plain, _together(X, plain, np.float64, objects)))
    columns |= dict(zip(levels, _together(X, levels, object, objects)))
    others = (j for j in range(len(dtypes)) if j not in columns)
    columns |= {j: _of_pandas(X.iloc[:, j], dtypes[j]) for j in others}
    return [columns[j] for j in range(len(dtypes))]


def _together(X, chosen, dtype, objects):
    """Columns of a data frame that are read as an array of one type when one of them is.

    `objects` is a function that returns all values of X; None where they are many.
    """
    if objects is None:
        read = cache(lambda: X.iloc[:, chosen].to_numpy(dtype=dtype))
    else:
        read = cache(lambda: objects()[:, chosen].astype(dtype))
    kind = CATEGORY if dtype is object else NUMBER
    return [Column(kind, partial(_column, read, k), kind == NUMBER) for k in range(len(chosen))]


def _column(read, k):
    return read()[:, k]


def _of_pandas(series, dtype):
    if str(dtype).startswith("period["):
        series = series.dt.to_timestamp()  # when it begins
        dtype = series.dtype
    if str(dtype) == "category" or dtype.kind not in "biufmMO":
        read = partial(series.to_numpy, dtype=object)
        return Column(CATEGORY, read, is_text=str(dtype) != "category")
    if dtype.kind == "M" and getattr(dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return _of_numpy(series.to_numpy())
    if dtype.kind in "biuf":
        return Column(NUMBER, lambda: series.to_numpy(dtype=np.float64, na_value=np.nan))
    if dtype.kind in "mM":
        unit = _NUMPY_TIMES[dtype.kind]
        return Column(_kind_of_times(dtype), lambda: _days(series.to_numpy(dtype=unit)))
    return _of_objects(series.to_numpy(dtype=object), series.isna().to_numpy())


def _of_polars(series, kind):
    dtype = series.dtype
    if kind != CATEGORY and (dtype.is_temporal() or dtype.is_numeric() or str(dtype) == "Boolean"):
        return _of_polars_numbers(series, dtype)
    if kind != CATEGORY and str(dtype) in ("Object", "Null"):
        return _of_objects(objects_of(series.to_list()))
    return Column(CATEGORY, lambda: objects_of(series.to_list()), is_text=str(dtype) == "String")


def _of_polars_numbers(series, dtype):
    if str(dtype) == "Time":
        return Column(TIME_OF_DAY, lambda: series.to_physical().cast(float).to_numpy() / _HOUR)
    if dtype.is_temporal():
        what = DURATION if str(dtype).startswith("Duration") else TIME
        return Column(what, lambda: _days(series.to_numpy()))
    is_plain = dtype.is_numeric() and not series.null_count()
    return Column(NUMBER, lambda: series.cast(float).to_numpy(), is_plain)


def objects_of(values):
    """A list as an array (n,), whatever its items are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _kind_of_times(dtype):
    return DURATION if dtype.kind == "m" else TIME


def _days(times):
    """Days since 1970, or days of a duration; NaN where the time is missing."""
    if times.dtype.kind == "M":
        times = times - np.datetime64(0, "D")
    return np.where(np.isnat(times), np.nan, times / _DAY)


def _filled(values, missing):
    """Objects with NaN in the place of all kinds of missing values."""
    return np.where(missing, np.nan, values.astype(object))


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
        ("dates", _ISO_DATE.fullmatch, "pandas.to_datetime, or str.to_datetime of polars"),
    ):
        share = np.mean([bool(spells(one.strip())) for one in texts]) if texts else 0.0
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


class ColumnTable(NamedTuple):
    """Names, categories and missing values of the columns of X, before its rows are read."""

    names: list | None = None
    categories: tuple = ()  # by name or, where there are no names, by number
    missing: np.ndarray | None = None  # (d,) whether values are missing; None: none are
    has_linear_mean: bool = False  # whether the kernel of a user has a linear function beside it

    def codes(self):
        """Numbers of the categories."""
        names = self.names
        return sorted(one if names is None else names.index(one) for one in self.categories)

    def label(self, j):
        """The name of a column or, where there are none, its number."""
        return int(j) if self.names is None else self.names[j]

    def misses(self, numbers):
        """Whether a value of these columns is missing."""
        return self.missing is not None and bool(self.missing[numbers].any())


NUMBERS = ColumnTable()  # all columns, without names


def order_of(y):
    """Labels of an ordered category of pandas or polars, lowest first; None: y is none."""
    if is_frame(y) and np.shape(y)[1:] == (1,):
        y = y[y.columns[0]]
    dtype = getattr(y, "dtype", None)
    is_ordered = getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum"
    return [*dtype.categories] if is_ordered else None


def ranks_of(classes, named, known, name):
    """The place of each class among all of them, in their order.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted labels.
    named : array-like or None
        Labels in the order of `ordinal_classes`; those without rows are left out.
    known : list or None
        Labels in the order of a category, or of earlier rows.
    name : str
        Of the estimator, for errors.

    Returns
    -------
    tuple of int
    """
    order = known if named is None else _named(named, name)
    if order is None:
        if classes.dtype.kind not in "biuf":
            raise ValueError(
                f"{name}: likelihood='ordinal' needs the order of the labels, and labels such as "
                f"{as_text(classes[0])} have none. Pass all of them, lowest first, as "
                "ordinal_classes, or y as an ordered category of pandas or an Enum of polars."
            )
        return tuple(range(len(classes)))
    place = {label: k for k, label in enumerate(order)}
    without = [label for label in classes.tolist() if label not in place]
    if without:
        raise ValueError(
            f"{name}: the label {as_text(without[0])} is not in the order of the labels, "
            f"{as_text([*place])}. Pass all labels, lowest first, as ordinal_classes."
        )
    places = [place[label] for label in classes.tolist()]
    return tuple(np.argsort(np.argsort(places)).tolist())


def _named(named, name):
    """Labels that a user names, as a list; raises unless they are distinct."""
    labels = np.asarray(named, dtype=object)
    listed = labels.tolist() if labels.ndim == 1 else []
    if len(listed) < 2 or len(set(listed)) < len(listed):
        raise ValueError(
            f"The 'ordinal_classes' parameter of {name} must be None or a list of distinct labels, "
            f"lowest first. Got {as_text(named)} instead."
        )
    return listed

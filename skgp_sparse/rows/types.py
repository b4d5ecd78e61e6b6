"""What the columns of a table are: numbers, times, or categories, whose levels become codes."""

from collections.abc import Callable
from contextlib import contextmanager
from datetime import date, timedelta, timezone
from decimal import Decimal
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import OrdinalEncoder

from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.rows.checks import BOOLS
from skgp_sparse.rows.gaps import is_frame

FROM_DTYPE = "from_dtype"
_NUMBER, _TIME, _DURATION, _CATEGORY = "a number", "a time", "a duration", "a category"
_PYTHON_TIMES = {
    "datetime64[us]": (_TIME, (date, np.datetime64)),
    "timedelta64[us]": (_DURATION, (timedelta, np.timedelta64)),
}
_NUMPY_TIMES = {"m": "timedelta64[us]", "M": "datetime64[us]"}
_DAY = np.timedelta64(1, "D")


class Column(NamedTuple):
    """A column of a table that a user passed."""

    kind: str
    read: Callable  # () -> values (n,): float64 with NaN of numbers, object of categories
    is_plain: bool = False  # whether NumPy reads it as it is


class ColumnTypes:
    """The types of the columns of the training rows, and the levels of categories.

    Parameters
    ----------
    names : list
        Of the columns; their numbers in an array.
    kinds : list of str
    encoders : dict of int to OrdinalEncoder
        By the number of the category.
    """

    def __init__(self, names, kinds, encoders):
        self.names, self.kinds, self.encoders = names, kinds, encoders

    def levels(self):
        """Levels of the categories, by name or number; a missing value is one, the last."""
        keys = self.names if is_named(self.names) else range(len(self.names))
        return {keys[j]: encoder.categories_[0].copy() for j, encoder in self.encoders.items()}

    def encoded(self, X, name):
        """The numbers (n, d) of a table: codes of levels, days of times, NaN of missing values."""
        if len(X) == 0:
            raise ValueError(
                f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required "
                f"by {name}."
            )
        columns = columns_of(X, self.kinds)
        numbers = [self._numbers(j, one, name) for j, one in enumerate(columns)]
        for column, values in zip(self.names, numbers):
            if np.isinf(values).any():
                raise ValueError(
                    f"Input X contains infinity: column {column!r} of X of {name}. Replace it by "
                    "NaN if the value is missing."
                )
        return np.column_stack(numbers)

    def _numbers(self, j, column, name):
        with _about(self.names[j], name):
            values = column.read()
            if j in self.encoders:
                return _codes(self.encoders[j], values)
        if column.kind != self.kinds[j]:
            if column.kind == _NUMBER and np.isnan(values).all():
                return values  # everything is missing, of whatever type
            raise ValueError(
                f"Column {self.names[j]!r} of X of {name} is {column.kind}, but it was "
                f"{self.kinds[j]} in fit. Convert it."
            )
        return values


def types_of(X, categorical_features, name):
    """The `ColumnTypes` of a table, None where every column is a plain number.

    Parameters
    ----------
    X : data frame or array-like of shape (n, d)
    categorical_features : "from_dtype", None, or a list of bool, int or str
    name : str
        Of the estimator, for errors.
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
        chosen = [j for j, column in enumerate(columns) if column.kind == _CATEGORY]
    else:
        chosen = _chosen(categorical_features, names, name)
    if not chosen and all(column.is_plain for column in columns):
        return None
    kinds = [_CATEGORY if j in chosen else column.kind for j, column in enumerate(columns)]
    stray = [names[j] for j, kind in enumerate(kinds) if kind == _CATEGORY and j not in chosen]
    if stray:
        raise ValueError(
            f"Column {stray[0]!r} of X of {name} contains text or categories, but "
            f"categorical_features={as_text(categorical_features)} does not name it. Name it, set "
            "categorical_features to 'from_dtype', or convert it to numbers."
        )
    as_kinds, encoders = columns_of(X, kinds), {}
    for j in chosen:
        values = as_kinds[j].read()
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        with _about(names[j], name):
            encoders[j] = encoder.fit(values[:, None])
    return ColumnTypes(names, kinds, encoders)


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


def columns_of(X, kinds=None):
    """The `Column` of every column; those of an array are what `kinds` says they should be."""
    if hasattr(X, "get_columns"):
        return [_of_polars(series, kind) for series, kind in _with(X.get_columns(), kinds)]
    if is_frame(X):
        series = (X.iloc[:, j] for j in range(X.shape[1]))
        return [_of_pandas(one, kind) for one, kind in _with(series, kinds)]
    values = np.asarray(X)
    values = values[:, None] if values.ndim < 2 else values
    return [_of_array(one, kind) for one, kind in _with(values.T, kinds)]


def _with(columns, kinds):
    columns = [*columns]
    return zip(columns, [None] * len(columns) if kinds is None else kinds)


def _of_array(values, kind):
    if kind == _CATEGORY:
        missing = _missing_among(values)
        return Column(_CATEGORY, lambda: _filled(values, missing))
    return _of_objects(values) if values.dtype.kind == "O" else _of_numpy(values)


def _of_numpy(values):
    """The column of an array of one type."""
    if values.dtype.kind in "mM":
        return Column(_kind_of_times(values.dtype), lambda: _days(values))
    if values.dtype.kind in "biuf":
        return Column(_NUMBER, lambda: values.astype(np.float64), is_plain=True)
    return Column(_CATEGORY, lambda: values.astype(object))


def _of_objects(values, missing=None):
    """The column of Python objects: numbers or times if all of them are, otherwise levels."""
    missing = _missing_among(values) if missing is None else missing
    kinds = {*map(type, values[~missing])}
    if all(issubclass(kind, (Real, Decimal, *BOOLS)) for kind in kinds):  # also without any
        return Column(_NUMBER, lambda: _filled(values, missing).astype(np.float64))
    for unit, (what, of_python) in _PYTHON_TIMES.items():
        if all(issubclass(kind, of_python) for kind in kinds):
            return Column(what, lambda: _days(_times(values, missing, unit)))  # noqa: B023
    return Column(_CATEGORY, lambda: _filled(_real(values, kinds), missing))


def _real(values, kinds):
    if any(issubclass(kind, (complex, np.complexfloating)) for kind in kinds):
        raise TypeError("complex numbers are no levels")
    return values


def _times(values, missing, unit):
    """Python's times as those of NumPy, which are in UTC."""
    times = np.full(len(values), np.array("NaT", dtype=unit))
    times[~missing] = [_in_utc(one) for one in values[~missing]]
    return times


def _in_utc(time):
    is_aware = getattr(time, "tzinfo", None) is not None
    return time.astimezone(timezone.utc).replace(tzinfo=None) if is_aware else time


def _missing_among(values):
    """Which objects are one of the many missing values."""
    if values.dtype.kind != "O":
        return values != values
    return np.array([_is_missing(one) for one in values], dtype=bool)


def _is_missing(value):
    if value is None or value is np.ma.masked or str(value) == "<NA>":
        return True
    return isinstance(value, (float, np.generic, date)) and bool(value != value)


def _of_pandas(series, kind):
    if str(series.dtype).startswith("period["):
        series = series.dt.to_timestamp()  # when it begins
    dtype = series.dtype
    if kind == _CATEGORY or str(dtype) == "category" or dtype.kind not in "biufmMO":
        missing = series.isna().to_numpy()
        return Column(_CATEGORY, lambda: _filled(series.to_numpy(dtype=object), missing))
    if dtype.kind == "M" and getattr(dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return _of_numpy(series.to_numpy())
    if dtype.kind in "biuf":
        return Column(_NUMBER, lambda: series.to_numpy(dtype=np.float64, na_value=np.nan))
    if dtype.kind in "mM":
        unit = _NUMPY_TIMES[dtype.kind]
        return Column(_kind_of_times(dtype), lambda: _days(series.to_numpy(dtype=unit)))
    return _of_objects(series.to_numpy(dtype=object), series.isna().to_numpy())


def _of_polars(series, kind):
    dtype = series.dtype
    if str(dtype) == "Null":
        return Column(_NUMBER, lambda: np.full(len(series), np.nan))
    if dtype.is_temporal() and kind != _CATEGORY and str(dtype) != "Time":
        what = _DURATION if str(dtype).startswith("Duration") else _TIME
        return Column(what, lambda: _days(series.to_numpy()))
    if (dtype.is_numeric() or str(dtype) == "Boolean") and kind != _CATEGORY:
        is_plain = dtype.is_numeric() and not series.null_count()
        return Column(_NUMBER, lambda: series.cast(float).to_numpy(), is_plain)
    missing = series.is_null().to_numpy()
    if str(dtype) == "Object" and kind != _CATEGORY:
        return _of_objects(_objects(series.to_list()), missing)
    return Column(_CATEGORY, lambda: _filled(_objects(series.to_list()), missing))


def _objects(values):
    """A list as an array (n,), whatever its items are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _kind_of_times(dtype):
    return _DURATION if dtype.kind == "m" else _TIME


def _days(times):
    """Days since 1970, or days of a duration; NaN where the time is missing."""
    if times.dtype.kind == "M":
        times = times - np.datetime64(0, "D")
    return np.where(np.isnat(times), np.nan, times / _DAY)


def _filled(values, missing):
    """Objects with NaN in the place of all kinds of missing values."""
    return np.where(missing, np.nan, values.astype(object))


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


def _codes(encoder, values):
    """Codes of levels; every level that was not seen in training has a negative code of its own."""
    levels = encoder.categories_[0]
    known, given = levels[levels == levels], values[values == values]
    if len(known) and len(given) and _has_text(given) != _has_text(known):
        raise TypeError(
            f"the levels in fit were {as_text(known[0])}, ..., but now {as_text(given[0])}, ..."
        )
    codes = encoder.transform(values[:, None])[:, 0]
    codes[np.isnan(codes)] = len(levels) - 1  # missing values are the last level
    unknown = codes < 0
    if unknown.any():
        codes[unknown] = -2.0 - np.unique(values[unknown].astype(str), return_inverse=True)[1]
    return codes


def _has_text(levels):
    return any(issubclass(kind, str) for kind in {*map(type, levels)})

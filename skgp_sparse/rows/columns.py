"""Columns of tables of any library, read as numbers, times or levels.

Columns of pandas whose values NumPy reads as they are, and those that are categories, are read
together: reading a table with many columns one by one takes longer than a prediction.
"""

from collections.abc import Callable
from datetime import date, time, timedelta, timezone
from decimal import Decimal
from functools import cache, partial
from numbers import Real
from typing import NamedTuple

import numpy as np

from skgp_sparse._ground.validation import BOOLS
from skgp_sparse.rows.missing import is_frame, missing_among

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
    plain = [j for j, one in enumerate(dtypes) if _is_plain(one) and kinds[j] != CATEGORY]
    levels = [j for j, kind in enumerate(kinds) if kind == CATEGORY]
    objects = cache(lambda: X.to_numpy(dtype=object)) if len(X) <= _FEW_ROWS else None
    columns = dict(zip(plain, _together(X, plain, np.float64, objects)))
    columns |= dict(zip(levels, _together(X, levels, object, objects)))
    others = (j for j in range(len(dtypes)) if j not in columns)
    columns |= {j: _of_pandas(X.iloc[:, j], dtypes[j]) for j in others}
    return [columns[j] for j in range(len(dtypes))]


def _is_plain(dtype):
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


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

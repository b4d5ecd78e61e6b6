"""Columns of tables of any library: values as numbers, types, missing values, orders of labels.

Columns of pandas whose values NumPy reads as they are, and those that are categories, are read
together: reading a table with many columns one by one takes longer than a prediction. Levels of
categories become codes.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache, cached_property, partial
from itertools import repeat
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.preprocessing import OrdinalEncoder

from skgp_sparse.data import checks
from skgp_sparse.data.checks import is_frame, is_missing
from skgp_sparse.exceptions import TextColumnWarning, warn
from skgp_sparse.ground.validation import BOOLS, AnyArray, Array, Bools, Index, as_text, require

if TYPE_CHECKING:
    from pandas import DataFrame, Series

NUMBER, TIME, DURATION, CATEGORY = "a number", "a time", "a duration", "a category"
TIME_OF_DAY, EMPTY = "a time of day", "a column without a value"
_TIMES = {TIME: (date, np.datetime64), DURATION: (timedelta, np.timedelta64), TIME_OF_DAY: (time,)}
_FEW_ROWS = 256  # of which all values are read as objects: to choose columns would take longer


class Column(NamedTuple):
    """A column of a table that a user passed."""

    kind: str
    read: Callable[[], AnyArray]  # values (n,): float64 with NaN of numbers, objects of categories
    is_plain: bool = False  # whether NumPy reads it as it is
    is_text: bool = False  # whether its type is text, not that of a category


def as_table(X: object) -> Any:
    """X or, if it is a list of numbers and text, the array (n, d) of its objects."""
    if not isinstance(X, (list, tuple)):
        return X
    values = np.asarray(X)
    return np.array(X, dtype=object) if values.dtype.kind in "US" else values


def columns_of(X: object, kinds: Sequence[str | None] | None = None) -> list[Column]:
    """The `Column` of every column; those of an array are what `kinds` says they should be."""
    if hasattr(X, "get_columns"):
        return [*map(_of_polars, X.get_columns(), kinds or repeat(None))]
    if is_frame(X):
        return _of_pandas(X, kinds or [None] * X.shape[1])
    return [*map(_of_array, np.asarray(X).T, kinds or repeat(None))]


def _of_array(values: AnyArray, kind: str | None = None) -> Column:
    """The column of an array (n,)."""
    if kind == CATEGORY:
        return Column(CATEGORY, lambda: values.astype(object))
    if values.dtype.kind == "O":
        return _of_objects(values)
    if values.dtype.kind in "mM":
        return Column(DURATION if values.dtype.kind == "m" else TIME, lambda: _days(values))
    if values.dtype.kind in "biuf":
        return Column(NUMBER, lambda: values.astype(np.float64), is_plain=True)
    return Column(CATEGORY, lambda: values.astype(object), is_text=True)


def _of_objects(values: AnyArray) -> Column:
    """The column of Python objects: numbers or times if all of them are, otherwise levels."""
    missing = checks.missing_among(values)
    kinds = {*map(type, values[~missing])}
    if not kinds:
        return Column(EMPTY, lambda: np.full(len(values), np.nan))
    if all(issubclass(kind, (Real, Decimal, *BOOLS)) for kind in kinds):
        return Column(NUMBER, lambda: np.where(missing, np.nan, values).astype(np.float64))
    for what, of_python in _TIMES.items():
        if all(issubclass(kind, of_python) for kind in kinds):
            return Column(what, partial(_days_of_objects, values, missing, what))
    return Column(CATEGORY, lambda: values, is_text=True)


def _days_of_objects(values: AnyArray, missing: Bools, kind: str) -> Array:
    """Days (n,) of Python's times, as those of NumPy, in UTC; hours of times of the day."""
    unit = "datetime64[us]" if kind == TIME else "timedelta64[us]"
    times = np.full(len(values), np.array("NaT", dtype=unit))
    times[~missing] = [_without_zone(one) for one in values[~missing]]
    return 24.0 * _days(times) if kind == TIME_OF_DAY else _days(times)


def _without_zone(value: object) -> Any:
    """A time in UTC; of a time of the day, how long it is after midnight."""
    if isinstance(value, time):
        return datetime.combine(date.min, value.replace(tzinfo=None)) - datetime.min
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc).replace(tzinfo=None)
    return value


def _of_pandas(X: "DataFrame", kinds: Sequence[str | None]) -> list[Column]:
    """Columns of a data frame of pandas; plain numbers are read together, and so are categories."""
    dtypes = [*X.dtypes]
    plain = [j for j, one in enumerate(dtypes) if isinstance(one, np.dtype) and one.kind in "biuf"]
    plain = [j for j in plain if kinds[j] != CATEGORY]
    levels = [j for j, kind in enumerate(kinds) if kind == CATEGORY]
    objects = cache(lambda: X.to_numpy(dtype=object)) if len(X) <= _FEW_ROWS else None
    columns = dict(zip(plain, _together(X, plain, np.float64, objects)))
    columns |= dict(zip(levels, _together(X, levels, object, objects)))
    others = (j for j in range(len(dtypes)) if j not in columns)
    columns |= {j: _of_series(X.iloc[:, j]) for j in others}
    return [columns[j] for j in range(len(dtypes))]


def _together(X: "DataFrame", chosen: list, dtype: type, objects: Callable | None) -> list[Column]:
    """Columns of a data frame that are read as one array, of all `objects` where they are few."""
    if objects is None:
        read = cache(lambda: X.iloc[:, chosen].to_numpy(dtype=dtype))
    else:
        read = cache(lambda: objects()[:, chosen].astype(dtype))
    kind = CATEGORY if dtype is object else NUMBER
    readers = (partial(lambda k: read()[:, k], k) for k in range(len(chosen)))
    return [Column(kind, one, kind == NUMBER) for one in readers]


def _of_series(series: "Series") -> Column:
    """The column of a series of pandas, if it is no array of numbers."""
    dtype = series.dtype
    if str(dtype) == "category":
        return Column(CATEGORY, partial(series.to_numpy, dtype=object))
    if str(dtype).startswith("period["):
        series = series.dt.to_timestamp()  # when it begins
    elif getattr(dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if dtype.kind in "biuf":
        return Column(NUMBER, lambda: series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _of_array(series.to_numpy())


def _of_polars(series: "Series", kind: str | None) -> Column:
    if str(series.dtype) == "Null" and kind is None:
        return Column(EMPTY, lambda: np.full(len(series), np.nan))
    if kind == CATEGORY or str(series.dtype).startswith(("Categorical", "Enum")):
        return Column(CATEGORY, lambda: objects_of(series.to_list()))
    return _of_array(series.to_numpy())


def objects_of(values: Sequence) -> AnyArray:
    """A list as an array (n,), whatever its items are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _days(times: AnyArray) -> Array:
    """Days since 1970, or days of a duration; NaN where the time is missing."""
    if times.dtype.kind == "M":
        times = times - np.datetime64(0, "D")
    return np.where(np.isnat(times), np.nan, times / np.timedelta64(1, "D"))


FROM_DTYPE = "from_dtype"
_TEXTS_READ = 10_000  # of a column, to see what they spell
_SPELLED = 0.95  # of them at least, if they are told of
_ISO_DATE = re.compile(r"\d{4}-[01]\d(-[0-3]\d)?([T ]\d\d:\d\d.*)?")


def levels_of(values: AnyArray) -> AnyArray:
    """The levels of a column, sorted, a missing value last."""
    distinct = {*values.tolist()}
    there = [one for one in distinct if not is_missing(one)]
    found = objects_of(there + [np.nan] * (len(there) < len(distinct)))
    levels = OrdinalEncoder().fit(found[:, None]).categories_[0]
    if levels.ndim > 1:
        raise TypeError("lists and tuples are no levels")
    return levels


def _codes_of(levels: AnyArray) -> dict[Any, float]:
    codes = {one: float(k) for k, one in enumerate(levels.tolist())}
    last = next(reversed(codes), None)
    return codes | dict.fromkeys((np.nan, None), codes[last]) if last != last else codes


def _coded(values: AnyArray, codes: dict) -> Array:
    """Codes (n,) of values; every level that is not known has a negative one of its own."""
    found = values.tolist()
    try:
        return np.fromiter(map(codes.__getitem__, found), float, len(found))
    except KeyError:
        others = sorted({one for one in found if one not in codes and not is_missing(one)}, key=str)
    known = [one for one in codes if not is_missing(one)]
    if others and known and isinstance(others[0], str) != isinstance(known[0], str):
        raise TypeError(
            f"the levels in fit were {as_text(known[0])}, ..., but now {as_text(others[0])}, ..."
        )
    codes = codes | {one: -2.0 - k for k, one in enumerate(others)}
    return np.array([codes.get(one, codes.get(None, checks.MISSING_LATER)) for one in found])


class ColumnTypes:
    """The types of the columns of the training rows, and the levels of categories."""

    def __init__(self, names: list, kinds: list[str], values: dict | None = None) -> None:
        self.names, self.kinds, self.values = names, kinds, values or {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: one for name, one in vars(self).items() if name != "codes"}

    @cached_property
    def codes(self) -> dict[int, dict[Any, float]]:
        """The codes of levels, of a missing value among them, by the number of the category."""
        return {j: _codes_of(levels) for j, levels in self.values.items()}

    def by_name(self) -> dict[Any, AnyArray]:
        """Levels of the categories, by name or number; a missing value is one, the last."""
        keys = self.names if is_named(self.names) else range(len(self.names))
        return {keys[j]: values.copy() for j, values in self.values.items()}

    def encoded(self, X: object, name: str) -> Array:
        """The numbers (n, d) of a table: codes of levels, days of times, NaN of missing values."""
        columns = columns_of(X, self.kinds)
        return np.column_stack([self._numbers(j, one, name) for j, one in enumerate(columns)])

    def _numbers(self, j: int, column: Column, name: str) -> Array:
        """Numbers (n,) of column j, codes if it has categories; raises at other types."""
        with _about(self.names[j], name):
            values = column.read()
            if j in self.codes:
                return _coded(values, self.codes[j])
        if column.kind in (self.kinds[j], EMPTY):
            return values
        if checks.missing_among(values).all():
            return np.full(len(values), np.nan)  # everything is missing, of whatever type
        raise ValueError(
            f"Column {self.names[j]!r} of X of {name} is {column.kind}, but it was "
            f"{self.kinds[j]} in fit. Convert it."
        )


def types_of(
    X: npt.ArrayLike, categorical_features: object, name: str, warns: bool = False
) -> ColumnTypes | None:
    """The `ColumnTypes` of a table, None where every column is a plain number."""
    from_dtype = isinstance(categorical_features, str) and categorical_features == FROM_DTYPE
    if not is_frame(X) and (from_dtype or categorical_features is None):
        return None
    shape = np.shape(X)
    if issparse(X) or min(shape, default=0) == 0 or len(shape) != 2:
        return None  # refused elsewhere
    columns = columns_of(X)
    names = [*X.columns] if is_frame(X) else [*range(len(columns))]
    if from_dtype:
        chosen = [j for j, column in enumerate(columns) if column.kind in (CATEGORY, EMPTY)]
    else:
        chosen = _chosen(categorical_features, names, name)
    if not chosen and all(column.is_plain for column in columns):
        return None
    kinds = [NUMBER if column.kind == EMPTY else column.kind for column in columns]
    kinds = [CATEGORY if j in chosen else kind for j, kind in enumerate(kinds)]
    if stray := [names[j] for j, kind in enumerate(kinds) if kind == CATEGORY and j not in chosen]:
        raise ValueError(
            f"Column {stray[0]!r} of X of {name} contains text or categories, but "
            f"categorical_features={as_text(categorical_features)} does not name it. Name it, set "
            "categorical_features to 'from_dtype', or convert it to numbers."
        )
    as_kinds, values = columns_of(X, kinds), {}
    for j in chosen:
        with _about(names[j], name):
            values[j] = levels_of(as_kinds[j].read())
    for j in chosen if warns and from_dtype else ():
        if columns[j].is_text:
            _warn_of_text(names[j], as_kinds[j].read(), name)
    return ColumnTypes(names, kinds, values)


def _warn_of_text(column: object, values: AnyArray, name: str) -> None:
    """Tell of a column of text that spells numbers or dates."""
    some = values[:: -(-len(values) // _TEXTS_READ)].tolist()
    texts = [one.strip() for one in some if isinstance(one, str)]
    for what, spells, remedy in (
        ("numbers", checks.spells_number, "pandas.to_numeric, or cast of polars"),
        ("dates", _ISO_DATE.fullmatch, "pandas.to_datetime, or str.to_datetime of polars"),
    ):
        share = np.mean([bool(spells(one)) for one in texts]) if texts else 0.0
        if share >= _SPELLED:
            warn(
                f"{name}: text in X is a category, whose levels have no order. Column {column!r} "
                f"spells {what} in {share:.0%} of its values, first {texts[0]!r}: convert it by "
                f"{remedy}, or name it in categorical_features.",
                TextColumnWarning,
            )


def _chosen(categorical_features: object, names: list, name: str) -> list[int]:
    """Numbers of the columns that a mask, numbers or names choose."""
    given, d = np.asarray(categorical_features), len(names)
    if categorical_features is None or given.size == 0:
        return []
    if given.dtype.kind == "b" and given.shape == (d,):
        return np.flatnonzero(given).tolist()
    if given.dtype.kind in "iu" and given.ndim == 1 and np.all((given >= 0) & (given < d)):
        return sorted({*given.tolist()})
    must = (
        f"'from_dtype', None, a mask of {d} bools, or a list of numbers or names of columns of X, "
        f"which are {names if is_named(names) else f'0 to {d - 1}'}"
    )
    are_names = given.dtype.kind in "UO" and given.ndim == 1 and {*given} <= {*names}
    require(are_names, "categorical_features", categorical_features, name, must)
    return sorted({names.index(one) for one in given})


def is_named(names: list) -> bool:
    """Whether columns have names, and not only numbers."""
    return all(isinstance(name, str) for name in names)


@contextmanager
def _about(column: object, name: str) -> Iterator[None]:
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

    names: list[Any] | None = None
    categories: tuple[Any, ...] = ()  # by name or, where there are no names, by number
    missing: Bools | None = None  # (d,) whether values are missing; None: none are
    has_linear_mean: bool = False  # whether the kernel has a linear function beside it

    def codes(self) -> list[int]:
        """Numbers of the categories."""
        return sorted(
            one if self.names is None else self.names.index(one) for one in self.categories
        )

    def label(self, j: int) -> Any:
        """The name of a column or, where there are none, its number."""
        return int(j) if self.names is None else self.names[j]

    def misses(self, numbers: Index) -> bool:
        """Whether a value of these columns is missing."""
        return self.missing is not None and bool(self.missing[numbers].any())


NUMBERS = ColumnTable()  # all columns, without names


def order_of(y: object) -> list[Any] | None:
    """Labels of an ordered category of pandas or polars, lowest first; None: y is none."""
    if is_frame(y) and np.shape(y)[1:] == (1,):
        y = y[y.columns[0]]
    dtype: Any = getattr(y, "dtype", None)
    is_ordered = getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum"
    return [*dtype.categories] if is_ordered else None


def ranks_of(classes: AnyArray, named: object, order: list | None, name: str) -> tuple[int, ...]:
    """The place of each class among all of them, in their order."""
    if named is not None:
        labels = np.asarray(named, dtype=object)
        order = labels.tolist() if labels.ndim == 1 else []
        must = "None or a list of distinct labels, lowest first"
        require(2 <= len(order) == len(set(order)), "ordinal_classes", named, name, must)
    if order is None:
        if classes.dtype.kind not in "biuf":
            raise ValueError(
                f"{name}: labels such as {as_text(classes[0])} have no order. Pass all of them, "
                "lowest first, as ordinal_classes, or y as an ordered category or Enum of polars."
            )
        return tuple(range(len(classes)))
    place = {label: k for k, label in enumerate(order)}
    for label in classes.tolist():
        if label not in place:
            raise ValueError(
                f"{name}: the label {as_text(label)} is not in the order of the labels, "
                f"{as_text([*place])}. Pass all labels, lowest first, as ordinal_classes."
            )
    return tuple(np.argsort(np.argsort([place[label] for label in classes.tolist()])).tolist())

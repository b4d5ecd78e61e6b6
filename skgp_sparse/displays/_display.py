"""The axes, what all displays share, and values to draw of a column of any type."""

from collections.abc import Callable, Container
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from skgp_sparse.data import columns
from skgp_sparse.data.checks import is_frame, missing_among
from skgp_sparse.ground.validation import BOOLS, AnyArray, Array, as_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from pandas import DataFrame

    Table: TypeAlias = DataFrame | AnyArray


class Display:
    """Base class of all displays: axes, and errors about values that cannot be drawn."""

    def _axes(self, ax: "Axes | AnyArray | None", count: int = 1) -> AnyArray:
        """The axes to draw on, new ones if none are given."""
        import matplotlib.pyplot as plt

        if ax is None:
            width = 6.4 if count == 1 else 5.0 * count
            _, ax = plt.subplots(1, count, figsize=(width, 4.8), constrained_layout=True)
        axes = np.atleast_1d(np.asarray(ax))
        if axes.shape != (count,):
            raise ValueError(
                f"{type(self).__name__} needs {count} axes. Got {len(axes)}. Pass as many, or none."
            )
        self.ax_, self.figure_ = ax, axes[0].figure
        return axes


def shorten_dates(*axes: "Axis") -> None:
    """Write dates of axes, if they have some, in short labels."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    for axis in axes:
        locator = axis.get_major_locator()
        if isinstance(locator, AutoDateLocator):
            axis.set_major_formatter(ConciseDateFormatter(locator, tz=locator.tz))


_MOST_VALUES = 20  # values of a column, above which they are points of a grid
_EDGE = 0.01  # share of the rows on both sides of a grid
_DAY = 86400e6  # microseconds
# units of durations, the largest first
_UNITS = {"days": "D", "hours": "h", "minutes": "m", "seconds": "s", "microseconds": "us"}


class DrawnColumn(NamedTuple):
    """Values of a column that are drawn, and the entries of a table that stand for them."""

    values: AnyArray  # (k,) of its own type
    cells: Any  # (k,) what a table has, of its own type
    is_curve: bool = True  # whether values may be connected


def table_and_names(X: object) -> tuple[Any, list]:
    """A data frame as it is, all else as an array (n, d), and the names of its columns."""
    if is_frame(X):
        return X, [*X.columns]
    values = np.asarray(columns.as_table(X))
    values = values[:, None] if values.ndim == 1 else values
    return values, [*range(values.shape[1])]


class Range(NamedTuple):
    """A column of numbers or times, as estimators see it, and a grid of its values."""

    kind: str
    example: Any  # an entry of the column
    numbers: Array  # (n,) entries of all rows
    grid: Array  # (k,) in the same units

    def cells(self, numbers: Array) -> AnyArray:
        """Values of the column in a table: times, which are in UTC, and durations."""
        if self.kind == columns.TIME_OF_DAY:
            return np.array([_time_of_day(hours) for hours in numbers.tolist()], dtype=object)
        if self.kind not in (columns.TIME, columns.DURATION):
            return numbers
        whole = np.rint(_DAY * numbers).astype(np.int64)
        return whole.view("datetime64[us]" if self.kind == columns.TIME else "timedelta64[us]")

    def shown(self, numbers: Array) -> AnyArray:
        """Values of the type of the column, whose times may be in a zone; hours of a day."""
        if self.kind == columns.TIME_OF_DAY:
            return numbers
        cells, zone = self.cells(numbers), getattr(self.example, "tzinfo", None)
        if self.kind != columns.TIME or zone is None:
            return cells
        utc = [time.replace(tzinfo=timezone.utc) for time in cells.tolist()]
        return np.array([time.astimezone(zone) for time in utc], dtype=object)


def drawn_column(X: "Table", names: list, place: int, codes: Container, most: int) -> DrawnColumn:
    """The `DrawnColumn` of a table: a curve or points."""
    is_level = (names[place] if columns.is_named(names) else place) in codes
    kinds: list[str | None] = [None] * len(names)
    kinds[place] = columns.CATEGORY if is_level else None
    column = columns.columns_of(X, kinds)[place]
    if column.kind == columns.CATEGORY:
        levels: Any = getattr(_column(X, place).dtype, "categories", None)
        order = [*levels] if hasattr(levels, "__len__") else None  # of the type of the column
        return _points(X, place, _rows_of_levels(column.read(), order, most))
    numbers = column.read()
    distinct, rows = np.unique(numbers, return_index=True)
    if np.isnan(distinct[0]) or isinstance(_cell(X, rows[0], place), BOOLS):
        return _points(X, place, rows)
    rows, distinct = rows[~np.isnan(distinct)], distinct[~np.isnan(distinct)]
    example = _cell(X, rows[0], place)
    drawn = Range(column.kind, example, numbers, distinct)
    if len(distinct) <= _MOST_VALUES:
        return DrawnColumn(drawn.shown(distinct), _cells(X, rows, place))
    grid = _grid(numbers[~np.isnan(numbers)], distinct, most, hasattr(example, "to_timestamp"))
    return DrawnColumn(drawn.shown(grid), drawn.cells(grid))


def range_of_column(X: "Table", place: int, n_points: int, margin: float) -> Range:
    """The `Range` of a column; raises if it has levels, booleans among them, or no value."""
    column = columns.columns_of(X)[place]
    numbers = np.empty(0) if column.kind == columns.CATEGORY else column.read()
    known = np.flatnonzero(~np.isnan(numbers))
    example = _cell(X, known[0], place) if len(known) else False
    if isinstance(example, BOOLS):
        raise ValueError(
            f"Column {as_text([*X.columns][place] if is_frame(X) else place)} of X has levels or "
            "no values. Draw what it does with EffectDisplay."
        )
    low, high = numbers[known].min(), numbers[known].max()
    grid = np.linspace(low - margin * (high - low), high + margin * (high - low), n_points)
    return Range(column.kind, example, numbers, grid)


def axis_of(values: AnyArray, name: str | None) -> tuple[str | None, Callable[[Any], Any]]:
    """The label of an axis, and a function that puts values there: durations in a unit."""
    if values.dtype.kind != "m":
        return name, lambda values: values
    units = {name: np.array(1, f"timedelta64[{code}]") for name, code in _UNITS.items()}
    unit = next((one for one, size in units.items() if size <= np.abs(values).max()), "days")
    return f"{name} ({unit})", lambda values: values.astype("timedelta64[us]") / units[unit]


def _points(X: "Table", place: int, rows: AnyArray) -> DrawnColumn:
    values = columns.objects_of([_cell(X, row, place) for row in rows])
    return DrawnColumn(values, _cells(X, rows, place), is_curve=False)


def _rows_of_levels(values: AnyArray, order: list | None, most: int) -> AnyArray:
    """Rows in which the most frequent levels stand, in their order; the missing one is last."""
    missing = missing_among(values)
    known = np.flatnonzero(~missing)
    levels, first, counts = np.unique(values[known], return_index=True, return_counts=True)
    chosen = np.sort(np.argsort(-counts, kind="stable")[:most])
    if order is not None:
        chosen = np.array(sorted(chosen, key=lambda j: order.index(levels[j])), dtype=int)
    return np.concatenate([known[first[chosen]], np.flatnonzero(missing)[:1]])


def _grid(values: Array, distinct: Array, n_points: int, is_period: bool) -> Array:
    """Numbers between the edges of a column: whole ones of whole numbers, and true periods."""
    low, high = np.quantile(values, [_EDGE, 1.0 - _EDGE])
    grid = np.linspace(low, high, n_points)
    if is_period:
        return np.unique(distinct[np.minimum(np.searchsorted(distinct, grid), len(distinct) - 1)])
    return np.unique(np.rint(grid)) if np.array_equal(distinct, np.rint(distinct)) else grid


def _time_of_day(hours: float) -> Any:
    """The time of the day so many hours after midnight, at most its last one."""
    since = np.clip(hours, 0.0, 24.0)
    return (datetime.min + min(timedelta(hours=since), timedelta(days=1, microseconds=-1))).time()


def _column(X: "Table", place: int) -> Any:
    if is_frame(X):
        return X.to_series(place) if hasattr(X, "get_columns") else X.iloc[:, place]
    return X[:, place]


def _cell(X: "Table", row: int, place: int) -> Any:
    """The entry of a table, of its own type."""
    return _cells(X, np.array([row]), place)[0]


def _cells(X: "Table", rows: AnyArray, place: int) -> Any:
    """Entries of a column, of its own type."""
    column = _column(X, place)
    return column.iloc[rows].array if hasattr(column, "iloc") else column[rows.tolist()]


def with_column(X: "Table", rows: AnyArray, place: int, drawn: DrawnColumn, k: int) -> Any:
    """Rows of a table in which a column has the value number k."""
    cells = drawn.cells[np.repeat(k, len(rows))]
    if hasattr(X, "get_columns"):
        column = _column(X, place)
        return X[rows.tolist()].with_columns(type(column)(column.name, cells))
    if is_frame(X):
        table = X.iloc[rows].copy()
        table.isetitem(place, cells)
        return table
    table = X[rows].astype(X.dtype if X.dtype.kind in "OmM" else np.result_type(X, cells))
    table[:, place] = cells
    return table

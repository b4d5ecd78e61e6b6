"""Checks of tables and targets for text, times and missing targets, by column."""

from datetime import date, time, timedelta

import numpy as np

from skgp_sparse.rows.missing import is_frame, is_missing

_TEXT = (str, bytes)
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)


def check_dimensions(X, name):
    """Raise if X has one dimension, as a row of a data frame has."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) == 1:
        raise ValueError(
            f"Expected 2D array, got 1D array instead: X of {name} is a {type(X).__name__} of "
            f"shape {shape}. Pass X.iloc[[0]] for a row of a data frame, not X.iloc[0], and "
            "X[['name']] for a column. Reshape your data if it is an array: X.reshape(1, -1) is "
            "one row, and X.reshape(-1, 1) is one column."
        )


def check_numbers(values, argument, name):
    """Raise if there is text, or times that would be read as nanoseconds."""
    table = np.asarray(values)
    if table.dtype.kind not in "USmMO":
        return
    some = table[:1] if table.dtype.kind in "USmM" else table
    first = next((one for one in some.ravel() if isinstance(one, _TEXT + _TIMES)), None)
    if first is None:
        return
    if table.ndim == 2:
        j, first = _first_column(table)
        argument = f"Column {_label(values, j)!r} of {argument}"
    if isinstance(first, _TEXT):
        raise ValueError(
            f"{argument} of {name} contains text, first {str(first)!r}, but must be numbers. "
            "Convert it before, by astype(float) if the text spells numbers, or by an encoder of "
            "sklearn.preprocessing. Text in X of fit is a category if X is a data frame (of a "
            "ColumnTransformer by set_output(transform='pandas'), of a table of pyarrow by "
            "to_pandas()), or if categorical_features names its column."
        )
    raise ValueError(
        f"{argument} of {name} contains times, first {str(first)!r}, which are numbers only in a "
        "unit. Choose one, such as days: (t - t[0]) / numpy.timedelta64(1, 'D')."
    )


def _first_column(table):
    """Number of the first column with text or times, and the first of these in it.

    In an array of text, numbers are text, too: columns in which all values spell numbers come last.
    """
    found = [
        (j, one)
        for j, column in enumerate(table.T)
        if (one := next((v for v in column if isinstance(v, _TEXT + _TIMES)), None)) is not None
    ]
    return min(found, key=lambda pair: _spells_numbers(table[:, pair[0]]))


def _spells_numbers(column):
    try:
        column.astype(str).astype(float)
    except ValueError:
        return False
    return True


def _label(X, j):
    """The name of a column or, where there are none, its number."""
    names = X.columns if is_frame(X) else getattr(X, "column_names", None)
    return j if names is None else [*names][j]


def check_no_missing(y):
    """Raise if a target is missing."""
    values = np.asarray(y) if isinstance(y, (list, tuple)) or hasattr(y, "__array__") else None
    if values is None or values.ndim == 0 or not values.size or values.dtype.kind not in "fO":
        return
    table = values.reshape(len(values), -1)
    rows, columns = np.nonzero(_is_missing(table))
    if len(rows):
        what = "None" if table[rows[0], columns[0]] is None else "NaN"
        raise ValueError(
            f"Input y contains {what} in {len({*rows})} rows, first in row {rows[0]}"
            f"{_of_column(y, columns[0])}. Remove the rows without a target from X and y, such as "
            "by y.notna() of pandas."
        )


def _is_missing(table):
    """Whether targets (n, p) are missing."""
    if table.dtype.kind == "f":
        return np.isnan(table)
    return np.array([is_missing(one) for one in table.ravel()]).reshape(table.shape)


def _of_column(y, j):
    """Words that name a column of targets, empty where it has no name."""
    name = [*y.columns][j] if hasattr(y, "columns") else getattr(y, "name", "")
    return f" of column {name!r}" if name not in ("", None) else ""

"""Kernels on chosen columns."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.plain_text import as_text

from ._mapped import MappedKernel
from ._rules import Array, Ints

ColumnChoice = int | str | Sequence[int | str] | Ints  # numbers or names


class Columns(MappedKernel):
    """A kernel on chosen columns of the inputs.

    The other columns do not matter to it. Sums and products of such kernels say how columns act
    together: ``Columns(RBF(), 0) + Columns(RBF(), 1)`` is additive, and
    ``Columns(RBF(), 0) * Columns(Matern(), 1)`` is an RBF in the first column times a Matern in
    the second one. With ``ExpSineSquared(periodicity=24, periodicity_bounds="fixed")`` as kernel, a
    column is the hour of the day.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel of the chosen columns. It has one length scale, or one for each of them.
    columns : int, str, or list of int or str
        The numbers of the columns, counted from 0, or their names in a data frame. Estimators of
        this package look names up in `fit`. `GaussianProcessRegressor` takes numbers only.
    numbers : dict of str to int, default=None
        The numbers of columns by name. `fit` sets them in `kernel_`, and you need not.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import Columns
    >>> kernel = Columns(RBF(2.0), 0) + Columns(RBF(), [1, 2])
    >>> kernel(np.zeros((1, 3)), np.array([[2.0, 0.0, 1.0]])).round(4)
    array([[1.2131]])

    Columns of a data frame have names:

    >>> from skgp_sparse import SparseGPRegressor
    >>> import pandas as pd
    >>> X = pd.DataFrame({"hour": np.arange(48) % 24, "day": np.arange(48) // 24})
    >>> model = SparseGPRegressor(Columns(RBF(5.0), "hour"), alpha=0.01)
    >>> model.fit(X, np.sin(X["hour"] / 4)).kernel_.columns
    'hour'
    """

    def __init__(
        self, kernel: Kernel, columns: ColumnChoice, numbers: dict[str, int] | None = None
    ) -> None:
        self.kernel = kernel
        self.columns = columns
        self.numbers = numbers

    def __repr__(self) -> str:
        return f"Columns({self.kernel!r}, {as_text(self.columns)})"

    def chosen(self, d: int) -> Ints:
        """Return the numbers of the chosen columns of d."""
        numbers = self.numbers or {}
        columns: list[Any] = [
            numbers.get(column, column) if isinstance(column, str) else column
            for column in _as_list(self.columns)
        ]
        kinds = {*map(type, columns)}
        if any(issubclass(kind, str) for kind in kinds):
            raise ValueError(
                f"{self} chooses columns by name, but these inputs have no names. Pass the numbers "
                "of the columns, or a data frame to the fit of an estimator of skgp_sparse."
            )
        are_numbers = all(issubclass(kind, Integral) and kind is not bool for kind in kinds)
        if not (are_numbers and len(columns) and len({*columns}) == len(columns)):
            raise ValueError(
                f"columns of {type(self).__name__} must be a number or a name of a column, or a "
                f"list of different ones. Got {as_text(self.columns)}."
            )
        if not (0 <= min(columns) and max(columns) < d):
            raise ValueError(
                f"{self} needs columns that the inputs do not have. They have {d}, counted from 0. "
                "Choose some of these."
            )
        return np.array(columns, dtype=np.intp)

    def transform(self, X: Array) -> Array:
        """Return the chosen columns of points (..., d)."""
        return np.take(X, self.chosen(np.shape(X)[-1]), axis=-1)

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to all columns."""
        X_bar = np.zeros(X.shape)
        X_bar[..., self.chosen(X.shape[-1])] = bar
        return X_bar

    def sources(self, columns: Ints) -> Ints | None:
        """Return the chosen ones."""
        return columns[self.chosen(len(columns))]

    def width(self, d: int) -> int:
        """Return the number of chosen columns."""
        return len(self.chosen(d))

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (d,), inf for columns that are not chosen."""
        scales = np.full(d, np.inf)
        scales[self.chosen(d)] = scale
        return scales


def _as_list(columns: ColumnChoice) -> list[int | str]:
    choice: Any = columns
    return [choice] if np.ndim(choice) == 0 else list(choice)


def named(kernel: Kernel, names: Sequence[str] | None) -> Kernel:
    """Return a kernel in which the names of columns have their numbers.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.
    names : sequence of str or None
        Names of the columns of the inputs; None if they have none.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        A clone if there is a name in the kernel, the kernel itself otherwise.

    Raises
    ------
    ValueError
        If there is no column of that name, or no column has one.
    """
    parts = {"": kernel, **kernel.get_params()}
    found = {
        f"{path}__numbers" if path else "numbers": _numbers(part, names)
        for path, part in parts.items()
        if isinstance(part, Columns) and any(isinstance(c, str) for c in _as_list(part.columns))
    }
    return clone(kernel).set_params(**found) if found else kernel


def _numbers(part: Columns, names: Sequence[str] | None) -> dict[str, int]:
    """Numbers of the columns of a part that have names, by name."""
    columns = [column for column in _as_list(part.columns) if isinstance(column, str)]
    if names is None:
        if part.numbers is not None:  # of an earlier fit, to inputs in the same order
            return part.numbers
        raise ValueError(
            f"{part} chooses columns by name, but X has no names of columns. Pass a data frame, or "
            "choose columns by number."
        )
    names = list(names)
    unknown = [column for column in columns if column not in names]
    if unknown:
        raise ValueError(
            f"{part} chooses {unknown}, but the columns of X are {names}. Choose some of these."
        )
    return {column: names.index(column) for column in columns}

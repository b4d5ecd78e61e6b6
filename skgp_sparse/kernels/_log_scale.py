"""A kernel of inputs of which some columns are seen on a scale of logarithms."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.plain_text import as_text

from ._columns import ColumnChoice, Columns
from ._rules import Array, Ints


class LogScale(Columns):
    r"""A kernel of inputs of which some columns are seen on a scale of logarithms.

    A chosen column is seen as

    .. math:: m(x) = l + s \,\mathrm{sign}(u) \log(1 + |u|), \qquad u = (x - l) / s,

    with numbers l and s of the column, and the other columns as they are. Near l, m(x) is x, so
    that length scales have the unit of x there. Values below l are no error. It suits columns with
    a few large values, such as amounts of money.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel of all columns.
    columns : int, str, or list of int or str
        Those on a scale of logarithms, as in `Columns`.
    lows : array-like of shape (n_chosen,), default=None
        The numbers l, such as the smallest values. None means 0.
    units : array-like of shape (n_chosen,), default=None
        The numbers s, such as the median of x - l. None means 1.
    numbers : dict of str to int, default=None
        The numbers of columns by name. `fit` sets them in `kernel_`, and you need not.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import LogScale
    >>> X = np.array([[0.0], [1.0], [1000.0]])
    >>> LogScale(RBF(3.0), 0)(X).round(3)
    array([[1.   , 0.974, 0.071],
           [0.974, 1.   , 0.117],
           [0.071, 0.117, 1.   ]])
    """

    lows: Any
    units: Any

    def __init__(
        self,
        kernel: Kernel,
        columns: ColumnChoice,
        lows: npt.ArrayLike | None = None,
        units: npt.ArrayLike | None = None,
        numbers: dict[str, int] | None = None,
    ) -> None:
        super().__init__(kernel, columns, numbers)
        self.lows = lows
        self.units = units

    def __repr__(self) -> str:
        return f"LogScale({self.kernel!r}, {as_text(self.columns)})"

    def transform(self, X: Array) -> Array:
        """Return points (..., d) with the chosen columns on their scale."""
        chosen, u, low, unit = self._scaled(X)
        X = np.array(X, dtype=float)
        X[..., chosen] = low + unit * np.sign(u) * np.log1p(np.abs(u))
        return X

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to points from that of what is seen."""
        chosen, u, _, _ = self._scaled(X)
        X_bar = np.array(np.broadcast_to(bar, np.shape(X)))
        X_bar[..., chosen] /= 1.0 + np.abs(np.where(np.isnan(u), 0.0, u))
        return X_bar

    def sources(self, columns: Ints) -> Ints | None:
        """Return all columns."""
        return columns

    def width(self, d: int) -> int:
        """Return d."""
        return d

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (d,), those of the chosen columns at a distance s from l."""
        scales = np.array(np.broadcast_to(scale, (d,)), dtype=float)
        scales[self.chosen(d)] *= 2.0
        return scales

    def _scaled(self, X: Array) -> tuple[Any, ...]:
        """Numbers of the chosen columns, their values u, l and s."""
        chosen = self.chosen(np.shape(X)[-1])
        low = np.zeros(len(chosen)) if self.lows is None else np.asarray(self.lows, dtype=float)
        unit = np.ones(len(chosen)) if self.units is None else np.asarray(self.units, dtype=float)
        if low.shape != (len(chosen),) or unit.shape != low.shape or not np.all(unit > 0):
            raise ValueError(
                f"{self} needs a number in lows and a positive one in units for each of its "
                f"{len(chosen)} columns. Got lows={as_text(self.lows)} and "
                f"units={as_text(self.units)}. Pass as many, or None."
            )
        return chosen, (np.asarray(X)[..., chosen] - low) / unit, low, unit

"""The mean "linear" beside a kernel of the user: a part of the kernel, with a wide prior.

    f(x) = g(x) + β_0 + β' h(x),        β ~ N(0, B I),

with the numbers h of x, standardised, has the predictions of universal kriging, which are those of
B to infinity: generalised least squares, whose uncertainty is part of the variance (Rasmussen and
Williams 2006, section 2.7).
"""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Kernel

from skgp_sparse import kernels
from skgp_sparse._engine.data.dataset import Dataset
from skgp_sparse._engine.data.moments import or_one
from skgp_sparse._ground.typing import Array
from skgp_sparse.rows.columns import ColumnTable

_WIDE = 1000.0  # B, in units of the variance of the targets


class StandardisedColumns(kernels.Columns):
    """A kernel on chosen columns that have mean 0 and variance 1; missing values are the mean.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    columns : list of int or str
    numbers : dict of str to int, default=None
        As those of `Columns`.
    centre, spread : ndarray of shape (n_columns,) or float
        Means and standard deviations.
    """

    def __init__(
        self,
        kernel: Kernel,
        columns: list[int | str],
        numbers: dict[str, int] | None = None,
        centre: Array | float = 0.0,
        spread: Array | float = 1.0,
    ) -> None:
        super().__init__(kernel, columns, numbers)
        self.centre, self.spread = centre, spread

    def __repr__(self) -> str:
        return super().__repr__().replace("Columns", "StandardisedColumns", 1)

    def transform(self, X: Array) -> Array:
        """Return the chosen columns of points (..., d), standardised."""
        return np.nan_to_num((super().transform(X) - self.centre) / self.spread)

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to all columns, 0 of missing values."""
        return np.where(np.isnan(X), 0.0, super().pull(X, bar / self.spread))

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (d,), inf for columns that are not chosen."""
        return super().scales(scale * self.spread, d)

    def as_node(self) -> Any:
        """Return the node of this kernel, which takes missing values."""
        node = super().as_node()
        node.takes_missing = True
        return node


def check_numbers(columns: ColumnTable, rows: Dataset, name: str) -> None:
    """Raise where no column of rows is one of numbers."""
    if len(columns.codes()) == rows.n_features:
        raise ValueError(
            f"{name}: mean='linear' is linear in columns of numbers, and all columns of X are "
            "categories. Set mean to None."
        )


def with_linear_mean(
    kernel: Kernel, variance: float, rows: Dataset, columns: ColumnTable
) -> Kernel:
    """The kernel of a user, with a linear function of the numbers where that is its mean.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    variance : float
        Of the targets.
    rows : Dataset
    columns : ColumnTable
    """
    if not columns.has_linear_mean:
        return kernel
    chosen = np.setdiff1d(np.arange(rows.n_features), columns.codes())
    mean, spread, _ = rows.input_moments()
    linear = ConstantKernel(_WIDE * variance, "fixed") * DotProduct(1.0, "fixed")
    units = mean[chosen], or_one(spread[chosen])
    part = StandardisedColumns(linear, [columns.label(j) for j in chosen], None, *units)
    return kernel + kernels.named(part, columns.names)

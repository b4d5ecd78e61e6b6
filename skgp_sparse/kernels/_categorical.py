"""A kernel of the levels of categories, which are whole numbers, the codes, in one column each.

With the correlation ρ, two different levels have the covariance ρ, and equal ones 1. The kernel of
several columns is the product of those of each.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.plain_text import as_text

from ._differentiable import DifferentiableKernel
from ._levels import CORRELATION, agreement, as_codes
from ._registry import node
from ._rules import Array, Bools, Ints, Pull, Scalars, constant_diag


class Categorical(DifferentiableKernel):
    r"""A kernel of the levels of a category, or of several ones.

    It takes a column of codes, which are whole numbers from 0 on, and is

    .. math:: k(a, b) = \rho + (1 - \rho)\, [a = b],

    so that all different levels have the correlation ρ, also those that were not seen in training.
    Put it into `Columns` to choose the column of the category. Of several columns it is the product
    over them, where each can have its own ρ: those with ρ near 1 hardly matter.

    Parameters
    ----------
    correlation : float or ndarray of shape (n_columns,), default=0.5
        The correlation ρ of different levels; an array has one for each column.
    correlation_bounds : pair of floats or "fixed", default=(1e-3, 0.999)
        The bounds of ρ.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.kernels import Categorical
    >>> codes = np.array([[0.0], [1.0], [2.0]])
    >>> Categorical(correlation=0.3)(codes)
    array([[1. , 0.3, 0.3],
           [0.3, 1. , 0.3],
           [0.3, 0.3, 1. ]])
    >>> Categorical(correlation=np.array([0.3, 0.9]))(np.array([[0, 0], [0, 1], [1, 1]]))
    array([[1.  , 0.9 , 0.27],
           [0.9 , 1.  , 0.3 ],
           [0.27, 0.3 , 1.  ]])
    """

    footprint = 2  # bytes of differences are less than an array for up to 64 columns
    _transforms = {"correlation": CORRELATION}
    correlation: Any

    def __init__(
        self,
        correlation: npt.ArrayLike = 0.5,
        correlation_bounds: tuple[float, float] | Literal["fixed"] = (1e-3, 0.999),
    ) -> None:
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback, without a gradient of codes."""
        return self._of_codes(self.codes(X), self.codes(Z))

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        """Return the values of ``k(P_i, P_i)`` and their pullback, without a gradient of codes."""
        codes = self.codes(P)
        return self._of_codes(codes, codes)

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return ``k(x, x)``, which is 1, and its pullback."""
        return constant_diag(1.0)

    def _of_codes(self, a: Ints, b: Ints) -> tuple[Scalars, Pull]:
        K, pull = agreement(a, b, self.weights(a.shape[-1]))
        return K, partial(_pull_agreement, self, K, pull)

    def codes(self, X: Array) -> Ints:
        """Return the codes of points (..., d) as whole numbers (..., d)."""
        rho = np.atleast_1d(self.correlation)
        if not (rho.ndim == 1 and np.all((rho > 0) & (rho < 1))):
            raise ValueError(
                "Categorical needs correlations between 0 and 1. Got "
                f"correlation={as_text(self.correlation)}."
            )
        d, expected = np.shape(X)[-1], np.size(self.correlation)
        if np.ndim(self.correlation) and expected != d:
            raise ValueError(
                f"{self} has correlations for {expected} columns, but the inputs have {d}. Choose "
                f"as many, as in Columns({self}, {list(range(expected))})."
            )
        return as_codes(X)

    def weights(self, d: int) -> Array:
        """Return minus the logarithms of the correlations of d columns."""
        return -np.log(np.broadcast_to(np.asarray(self.correlation, dtype=float), (d,)))

    def values(self, a: Ints, b: Ints) -> Array:
        """Return k of codes (..., n, d) and (..., m, d), as an array (..., n, m)."""
        return agreement(a, b, self.weights(a.shape[-1]))[0]


def _pull_agreement(
    kernel: Categorical, K: Array, pull: Callable[..., Array], G: Array, inputs: bool
) -> tuple[Any, Any]:
    slopes = pull(np.multiply(G, K, out=G))
    slopes *= -kernel.weights(len(slopes))
    return {"correlation": slopes if np.ndim(kernel.correlation) else slopes.sum()}, 0.0


def categories(kernel: Kernel, d: int) -> list[tuple[Categorical, int]]:
    """Return the `Categorical` parts of a kernel, each with each of its columns.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int
        Number of input columns.

    Returns
    -------
    list of tuple of (Categorical, int)
    """
    return [
        (leaf.kernel, int(column))
        for leaf, columns in node(kernel).walk(np.arange(d))
        if isinstance(leaf.kernel, Categorical) and columns is not None
        for column in leaf.inputs(columns)
    ]


def as_numbers(kernel: Kernel, d: int) -> Bools:
    """Return which of d columns a part of a kernel sees that is no `Categorical`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int

    Returns
    -------
    ndarray of shape (d,) of bool
    """
    pairs = node(kernel).walk(np.arange(d))
    others = [(part, own) for part, own in pairs if not isinstance(part.kernel, Categorical)]
    read = [part.inputs(own) for part, own in others if own is not None]
    return np.isin(np.arange(d), np.concatenate([np.arange(0), *read]))

"""A kernel of the levels of categories, which are whole numbers, the codes, in one column each.

With the correlation ρ and the similarity s of two levels, it is ``ρ + (1 - ρ) s(a, b)``:

    rank 0         s = [a = b]                  all levels are equally similar
    rank r > 0     s = exp(-|z_a - z_b|^2 / 2)  levels are points z in r dimensions, learned

A level that was not seen in training is as similar to others as all levels are on average, and to
another such level as all pairs are. At rank 0, s is 0. The kernel of several columns is the product
of those of each.
"""

from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.plain_text import as_text

from ._differentiable import DifferentiableKernel
from ._levels import CORRELATION, agreement, as_codes
from ._registry import node
from ._rules import Array, Bools, Ints, Pull, Scalars, constant_diag

_MOST_LEVELS = 10_000  # that are points
_START = 0.03  # spread of the first points: levels that are alike at first pass each other freely


class Categorical(DifferentiableKernel):
    r"""A kernel of the levels of a category, or of several ones.

    It takes a column of codes, which are whole numbers from 0 on, and is

    .. math:: k(a, b) = \rho + (1 - \rho)\, s(a, b),

    where the similarity s is 1 of equal levels. Of different ones it is 0, so that all of them have
    the correlation ρ, or with a rank ``exp(-|z_a - z_b|^2 / 2)``, where levels are points that are
    learned. Put it into `Columns` to choose the column of the category. Of several columns it is
    the product over them, where each can have its own ρ: those with ρ near 1 hardly matter.

    Parameters
    ----------
    n_levels : int or "auto", default="auto"
        The number of levels. With "auto", the `fit` of an estimator of this package counts them up
        to the largest code. It matters for a rank above 0 and for ``handle_unknown="error"`` only.
        `GaussianProcessRegressor` needs a number there.
    rank : int, default=0
        The number of dimensions in which levels are points. Ranks of 1 to 3 suit categories whose
        levels resemble each other in groups or have an order, and have many rows each. A rank
        above 0 is for one column, and so is ``handle_unknown="error"``.
    correlation : float or ndarray of shape (n_columns,), default=0.5
        The correlation ρ of levels that are not similar; an array has one for each column.
    correlation_bounds : pair of floats or "fixed", default=(1e-3, 0.999)
        The bounds of ρ.
    positions : ndarray of shape (n_levels * rank,), default=None
        Exponentials of the coordinates of the points, those of a level together. By default,
        learning begins at fixed draws next to each other.
    positions_bounds : pair of floats or "fixed", default=(1e-2, 1e2)
        Their bounds.
    handle_unknown : {"ignore", "error"}, default="ignore"
        What becomes of a code that is not from 0 to ``n_levels - 1``: with "ignore", it is a level
        of its own. It has the correlation ρ with all others or, with a rank, the mean of the
        correlations that they have with all levels, themselves included.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.kernels import Categorical
    >>> codes = np.array([[0.0], [1.0], [2.0]])
    >>> Categorical(correlation=0.3)(codes)
    array([[1. , 0.3, 0.3],
           [0.3, 1. , 0.3],
           [0.3, 0.3, 1. ]])
    >>> Categorical(2, rank=1, correlation=0.3, positions=np.exp([0.0, 1.0]))(codes).round(3)
    array([[1.   , 0.725, 0.862],
           [0.725, 1.   , 0.862],
           [0.862, 0.862, 1.   ]])
    >>> Categorical(correlation=np.array([0.3, 0.9]))(np.array([[0, 0], [0, 1], [1, 1]]))
    array([[1.  , 0.9 , 0.27],
           [0.9 , 1.  , 0.3 ],
           [0.27, 0.3 , 1.  ]])
    """

    footprint = 2  # bytes of differences are less than an array for up to 64 columns
    _transforms = {"correlation": CORRELATION}
    n_levels: Any
    correlation: Any
    positions: Any

    def __init__(
        self,
        n_levels: int | Literal["auto"] = "auto",
        rank: int = 0,
        correlation: npt.ArrayLike = 0.5,
        correlation_bounds: tuple[float, float] | Literal["fixed"] = (1e-3, 0.999),
        positions: npt.ArrayLike | None = None,
        positions_bounds: tuple[float, float] | Literal["fixed"] = (1e-2, 1e2),
        handle_unknown: Literal["ignore", "error"] = "ignore",
    ) -> None:
        self.n_levels = n_levels
        self.rank = rank
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds
        self.positions = positions
        self.positions_bounds = positions_bounds
        self.handle_unknown = handle_unknown

    def __repr__(self) -> str:
        levels = self.n_levels if self.rank == 0 else f"{self.n_levels}, rank={self.rank}"
        shown = ", ".join(f"{one:.3g}" for one in np.ravel(self.correlation))
        shown = f"[{shown}]" if np.ndim(self.correlation) else shown
        return f"Categorical({levels}, correlation={shown})"

    def _current(self, name: str) -> Any:
        """Value of a hyperparameter; there are no positions where levels are equal."""
        if name == "correlation":
            return self.correlation
        if not self.has_points():
            return np.zeros(0)
        if self.positions is not None:
            return self.positions
        return np.exp(_START * np.random.RandomState(0).normal(size=self.n_levels * self.rank))

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
        if self.has_points():
            K = self.values(a, b)
            return K, partial(_pull_points, self, K, a[..., 0], b[..., 0])
        K, pull = agreement(a, b, self.weights(a.shape[-1]))
        return K, partial(_pull_agreement, self, K, pull)

    def has_points(self) -> bool:
        """Return whether levels are points: there are several, and their number is known."""
        return self.rank > 0 and not isinstance(self.n_levels, str) and self.n_levels > 1

    def points(self) -> Array:
        """Return the points of the levels (n_levels, rank); none where they are equally similar."""
        if not self.has_points():
            return np.zeros((0, 0))
        positions = self._current("positions")
        if np.size(positions) != self.n_levels * self.rank:
            raise ValueError(
                f"positions of {self} must have {self.n_levels} * {self.rank} numbers. Got "
                f"{np.size(positions)}. Set positions to None, if they are of another kernel."
            )
        return np.log(np.reshape(positions, (self.n_levels, self.rank)))

    def codes(self, X: Array) -> Ints:
        """Return the codes of points (..., d) as whole numbers (..., d)."""
        self._check()
        d, expected = np.shape(X)[-1], np.size(self.correlation)
        if np.ndim(self.correlation) and expected != d:
            raise ValueError(
                f"{self} has correlations for {expected} columns, but the inputs have {d}. Choose "
                f"as many, as in Columns({self}, {list(range(expected))})."
            )
        if d != 1 and self.takes_one_column():
            raise ValueError(
                f"{self} takes one column of codes, but the inputs have {d}. Choose one of them, "
                f"as in Columns({self}, 0)."
            )
        codes = as_codes(X)
        is_error = self.handle_unknown == "error"
        unknown = codes[(codes < 0) | (codes >= self.n_levels)] if is_error else codes[:0]
        if np.size(unknown):
            first = unknown.flat[0]
            raise ValueError(
                f"{self} knows the codes 0 to {self.n_levels - 1}, but got {first:.0f}. Set "
                "handle_unknown='ignore' for a level of its own."
            )
        return codes

    def takes_one_column(self) -> bool:
        """Return whether the levels of one column are learned or checked."""
        return self.rank > 0 or self.handle_unknown == "error"

    def weights(self, d: int) -> Array:
        """Return minus the logarithms of the correlations of d columns."""
        return -np.log(np.broadcast_to(np.asarray(self.correlation, dtype=float), (d,)))

    def similarities(self) -> Array:
        """Return s of all levels and, last, the mean over them (n_levels + 1, ...)."""
        z = self.points()
        squares = np.sum(z**2, axis=1)
        s = np.exp(-0.5 * np.maximum(squares[:, None] + squares - 2.0 * z @ z.T, 0.0))
        s = np.vstack([s, s.mean(axis=0)])
        return np.column_stack([s, s.mean(axis=1)])

    def values(self, a: Ints, b: Ints) -> Array:
        """Return k of codes (..., n, d) and (..., m, d), as an array (..., n, m)."""
        if not self.has_points():
            return agreement(a, b, self.weights(a.shape[-1]))[0]
        a, b = a[..., 0], b[..., 0]
        same = a[..., :, None] == b[..., None, :]
        s = self.similarities()[self.index(a)[..., :, None], self.index(b)[..., None, :]]
        return np.where(same, 1.0, self.correlation + (1.0 - self.correlation) * s)

    def index(self, codes: Ints) -> Ints:
        """Return codes in which all levels that were not seen are one, the last."""
        return np.where((codes >= 0) & (codes < self.n_levels), codes, self.n_levels)

    def _check(self) -> None:
        levels, unknown = self.n_levels, self.handle_unknown
        is_auto = isinstance(levels, str) and levels == "auto"
        is_right = _is_count(self.rank, 0) and (is_auto or _is_count(levels, 1))
        rho = np.atleast_1d(self.correlation)
        is_right &= rho.ndim == 1 and bool(np.all((rho > 0) & (rho < 1)))
        if not (is_right and unknown in ("ignore", "error")):
            raise ValueError(
                "Categorical needs n_levels='auto' or an int of at least 1, a rank of at least 0, "
                "correlations between 0 and 1, and handle_unknown='ignore' or 'error'. Got "
                f"n_levels={as_text(levels)}, rank={as_text(self.rank)}, "
                f"correlation={as_text(self.correlation)} and handle_unknown={as_text(unknown)}."
            )
        if is_auto and (self.rank > 0 or unknown == "error"):
            raise ValueError(
                f"{self} needs the number of levels. Pass n_levels, or fit an estimator of "
                "skgp_sparse, which counts them."
            )


def _is_count(value: Any, least: int) -> bool:
    is_int = isinstance(value, Integral) and not isinstance(value, bool)
    return is_int and value >= least


def _pull_agreement(
    kernel: Categorical, K: Array, pull: Callable[..., Array], G: Array, inputs: bool
) -> tuple[Any, Any]:
    slopes = pull(np.multiply(G, K, out=G))
    slopes *= -kernel.weights(len(slopes))
    return {"correlation": slopes if np.ndim(kernel.correlation) else slopes.sum()}, 0.0


def _pull_points(
    kernel: Categorical, K: Array, a: Ints, b: Ints, G: Array, inputs: bool
) -> tuple[Any, Any]:
    rho = kernel.correlation
    gradients = {"correlation": rho * np.log(rho) / (1.0 - rho) * (np.sum(G) - np.vdot(G, K))}
    if kernel.positions_bounds != "fixed":
        z, s, S = kernel.points(), kernel.similarities()[:-1, :-1], _by_levels(kernel, a, b, G)
        n = len(z)
        S = S[:-1, :-1] + S[:-1, -1:] / n + S[-1:, :-1] / n + S[-1, -1] / n**2
        W = (1.0 - rho) * s * S
        W = W + W.T
        gradients["positions"] = W @ z - W.sum(axis=1)[:, None] * z
    return gradients, 0.0


def _by_levels(kernel: Categorical, a: Ints, b: Ints, G: Array) -> Array:
    """Sums of G over all pairs of rows in two levels (n_levels + 1, ...), without equal ones."""
    size = kernel.n_levels + 1
    G = np.where(a[..., :, None] == b[..., None, :], 0.0, G)
    pairs = size * kernel.index(a)[..., :, None] + kernel.index(b)[..., None, :]
    sums: Any = np.bincount(pairs.reshape(-1), G.reshape(-1), size**2)
    return sums.reshape(size, size)


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
        if type(leaf.kernel) is Categorical and columns is not None
        for column in columns
    ]


def as_numbers(kernel: Kernel, d: int) -> Bools:
    """Return which of d columns a part of a kernel sees that is not for categories.

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
    others = [(part, own) for part, own in pairs if type(part.kernel) is not Categorical]
    read = [part.inputs(own) for part, own in others if own is not None]
    return np.isin(np.arange(d), np.concatenate([np.arange(0), *read]))


def with_levels(kernel: Kernel, d: int, codes: Callable[[int], Array]) -> Kernel:
    """Return a kernel whose categories know how many levels they have, where that matters.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, of which the caller has the only copy.
    d : int
        Number of input columns.
    codes : callable
        ``column -> codes`` in training.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        The kernel.

    Raises
    ------
    ValueError
        If codes are not whole numbers, or there are too many of them for points.
    """
    for part, column in categories(kernel, d):
        is_auto = isinstance(part.n_levels, str) and part.n_levels == "auto"
        if not is_auto or not part.takes_one_column():
            continue
        largest = codes(column).max()
        if not 0 <= largest < _MOST_LEVELS:
            raise ValueError(
                f"The largest code of a category in column {column} is {largest:g}, but levels are "
                f"points for codes from 0 to {_MOST_LEVELS - 1}. Encode the category by "
                "OrdinalEncoder of scikit-learn, or set the rank to 0."
            )
        part.n_levels = int(np.rint(largest)) + 1
    return kernel

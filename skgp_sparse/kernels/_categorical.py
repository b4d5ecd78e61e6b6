"""A kernel of the levels of categories, which are whole numbers, the codes, in one column each.

With the correlation ρ and the similarity s of two levels, it is ``ρ + (1 - ρ) s(a, b)``:

    rank 0         s = [a = b]                  all levels are equally similar
    rank r > 0     s = exp(-|z_a - z_b|^2 / 2)  levels are points z in r dimensions, learned

A level that was not seen in training is as similar to others as all levels are on average, and to
another such level as all pairs are. At rank 0, s is 0. The kernel of several columns is the product
of those of each.
"""

from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from skgp_sparse._ground.plain_text import as_text

from ._formulas import UnitRule
from ._levels import agreement, as_codes, correlations, log_weights
from ._rules import Array, Pull, Scalars

_START = 0.03  # spread of the first points: levels that are alike at first pass each other freely


class Categorical(Kernel):
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

    @property
    def hyperparameter_correlation(self) -> Hyperparameter:
        """The correlation ρ."""
        size = np.size(self.correlation) if np.ndim(self.correlation) else 1
        return Hyperparameter("correlation", "numeric", self.correlation_bounds, size)

    @property
    def hyperparameter_positions(self) -> Hyperparameter:
        """The positions of the levels; fixed where there are none yet."""
        if not self.has_points():
            return Hyperparameter("positions", "numeric", "fixed")
        size = self.n_levels * self.rank
        return Hyperparameter("positions", "numeric", self.positions_bounds, size)

    @property
    def theta(self) -> Any:
        """Free hyperparameters as they are learned: ``log(-log ρ)`` and coordinates of levels."""
        values = {"correlation": log_weights(self.correlation), "positions": self.points()}
        free = [np.ravel(values[one.name]) for one in self.hyperparameters if not one.fixed]
        return np.concatenate([np.zeros(0), *free])

    @theta.setter
    def theta(self, theta: Array) -> Any:
        start = 0
        for one in self.hyperparameters:
            if one.fixed:
                continue
            part = theta[start : start + one.n_elements]
            value = correlations(part) if one.name == "correlation" else np.exp(part)
            is_one = one.name == "correlation" and np.ndim(self.correlation) == 0
            self.set_params(**{one.name: float(value[0]) if is_one else value})
            start += one.n_elements

    @property
    def bounds(self) -> Array:
        """Their bounds."""
        free = [one for one in self.hyperparameters if not one.fixed]
        limits = [
            log_weights(one.bounds[:, ::-1]) if one.name == "correlation" else np.log(one.bounds)
            for one in free
        ]
        return np.vstack([np.zeros((0, 2)), *limits])

    @property
    def requires_vector_input(self) -> bool:
        """True: codes are numbers."""
        return True

    def __repr__(self) -> str:
        levels = self.n_levels if self.rank == 0 else f"{self.n_levels}, rank={self.rank}"
        shown = ", ".join(f"{one:.3g}" for one in np.ravel(self.correlation))
        shown = f"[{shown}]" if np.ndim(self.correlation) else shown
        return f"Categorical({levels}, correlation={shown})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, its = self.get_params(), other.get_params()
        return all(np.array_equal(mine[name], its[name]) for name in mine)

    def is_stationary(self) -> bool:
        """Return False: codes are names, not places."""
        return False

    def diag(self, X: Array) -> Array:
        """Return ``k(x, x)``, which is 1.

        Parameters
        ----------
        X : array-like of shape (n, 1)

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.ones(len(X))

    def __call__(self, X: Array, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix ``k(X, Y)``, and its gradient if that is wanted.

        Parameters
        ----------
        X : array-like of shape (n, 1)
        Y : array-like of shape (m, 1), default=None
            None means `X`.
        eval_gradient : bool, default=False
            Whether the gradient with respect to theta is returned. `Y` must be None then.

        Returns
        -------
        K : ndarray of shape (n, m)
        K_gradient : ndarray of shape (n, n, p)
            Only if `eval_gradient` is True.
        """
        a = self.codes(np.atleast_2d(X))
        b = a if Y is None else self.codes(np.atleast_2d(Y))
        K = self.values(a, b)
        if not eval_gradient:
            return K
        if Y is not None:
            raise ValueError("Gradient can only be evaluated when Y is None.")
        return K, self._gradient(K, a)

    def has_points(self) -> bool:
        """Return whether levels are points: there are several, and their number is known."""
        return self.rank > 0 and not isinstance(self.n_levels, str) and self.n_levels > 1

    def points(self) -> Array:
        """Return the points of the levels (n_levels, rank); none where they are equally similar."""
        if not self.has_points():
            return np.zeros((0, 0))
        shape = self.n_levels, self.rank
        if self.positions is None:
            return _START * np.random.RandomState(0).normal(size=shape)
        if np.size(self.positions) != self.n_levels * self.rank:
            raise ValueError(
                f"positions of {self} must have {self.n_levels} * {self.rank} numbers. Got "
                f"{np.size(self.positions)}. Set positions to None, if they are of another kernel."
            )
        return np.log(np.reshape(self.positions, shape))

    def codes(self, X: Array) -> Any:
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

    def values(self, a: Any, b: Any) -> Array:
        """Return k of codes (..., n, d) and (..., m, d), as an array (..., n, m)."""
        if not self.has_points():
            return agreement(a, b, self.weights(a.shape[-1]))[0]
        a, b = a[..., 0], b[..., 0]
        same = a[..., :, None] == b[..., None, :]
        s = self.similarities()[self.index(a)[..., :, None], self.index(b)[..., None, :]]
        return np.where(same, 1.0, self.correlation + (1.0 - self.correlation) * s)

    def index(self, codes: Any) -> Any:
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

    def _gradient(self, K: Any, a: Any) -> Array:
        parts = []
        if not self.hyperparameter_correlation.fixed:
            parts.append(self._gradient_of_correlations(K, a))
        if not self.hyperparameter_positions.fixed:
            parts.append(self._gradient_of_positions(a[:, 0]).reshape(*K.shape, -1))
        return np.concatenate([np.zeros((*K.shape, 0)), *parts], axis=2)

    def _gradient_of_correlations(self, K: Any, a: Any) -> Array:
        """Slopes (n, n, d) in ``log(-log ρ)`` of every column, or their sum (n, n, 1)."""
        if self.has_points():
            rho = self.correlation
            return (rho * np.log(rho) / (1.0 - rho) * (1.0 - K))[:, :, None]
        slopes = -self.weights(a.shape[-1]) * K[:, :, None] * (a[:, None] != a)
        return slopes if np.ndim(self.correlation) else slopes.sum(axis=2, keepdims=True)

    def _gradient_of_positions(self, a: Any) -> Array:
        """Slopes (n, n, n_levels, rank) in the points, from those of every row alone."""
        z, index = self.points(), self.index(a)
        pull = (
            (1.0 - self.correlation) * self.similarities()[:-1, :-1, None] * (z[None] - z[:, None])
        )
        first = np.zeros((len(a), len(z), len(z), self.rank))  # of a level, with another one
        known = index < len(z)
        first[np.flatnonzero(known), index[known]] = pull[index[known]]
        first[~known] = pull / len(z)
        P = np.vstack([np.eye(len(z)), np.full(len(z), 1.0 / len(z))])[index]
        slopes = np.einsum("ilbk,jb->ijlk", first, P, optimize=True)
        slopes = slopes + slopes.transpose(1, 0, 2, 3)
        slopes[a[:, None] == a] = 0.0
        return slopes


def _is_count(value: Any, least: int) -> bool:
    is_int = isinstance(value, Integral) and not isinstance(value, bool)
    return is_int and value >= least


class CategoricalRule(UnitRule):
    """The rule of `Categorical`: no gradient with respect to codes."""

    footprint = 2  # bytes of differences are less than an array for up to 64 columns

    def cross(self, kernel: Kernel, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        return self._of_codes(kernel, kernel.codes(X), kernel.codes(Z))

    def stack(self, kernel: Kernel, P: Array) -> tuple[Scalars, Pull]:
        codes = kernel.codes(P)
        return self._of_codes(kernel, codes, codes)

    @staticmethod
    def _of_codes(kernel: Kernel, a: Any, b: Any) -> tuple[Scalars, Pull]:
        if kernel.has_points():
            K = kernel.values(a, b)
            return K, partial(_pull, kernel, K, a[..., 0], b[..., 0])
        K, pull = agreement(a, b, kernel.weights(a.shape[-1]))
        return K, partial(_pull_agreement, kernel, K, pull)


def _pull_agreement(kernel: Kernel, K: Any, pull: Pull, G: Any, inputs: bool) -> tuple[Any, Any]:
    slopes = pull(np.multiply(G, K, out=G))
    slopes *= -kernel.weights(len(slopes))
    return {"correlation": slopes if np.ndim(kernel.correlation) else slopes.sum()}, 0.0


def _pull(kernel: Kernel, K: Any, a: Any, b: Any, G: Any, inputs: bool) -> tuple[Any, Any]:
    rho = kernel.correlation
    gradients = {"correlation": rho * np.log(rho) / (1.0 - rho) * (np.sum(G) - np.vdot(G, K))}
    if not kernel.hyperparameter_positions.fixed:
        z, s, S = kernel.points(), kernel.similarities()[:-1, :-1], _by_levels(kernel, a, b, G)
        n = len(z)
        S = S[:-1, :-1] + S[:-1, -1:] / n + S[-1:, :-1] / n + S[-1, -1] / n**2
        W = (1.0 - rho) * s * S
        W = W + W.T
        gradients["positions"] = W @ z - W.sum(axis=1)[:, None] * z
    return gradients, 0.0


def _by_levels(kernel: Kernel, a: Any, b: Any, G: Any) -> Any:
    """Sums of G over all pairs of rows in two levels (n_levels + 1, ...), without equal ones."""
    size = kernel.n_levels + 1
    G = np.where(a[..., :, None] == b[..., None, :], 0.0, G)
    pairs = size * kernel.index(a)[..., :, None] + kernel.index(b)[..., None, :]
    return np.bincount(pairs.reshape(-1), G.reshape(-1), size**2).reshape(size, size)

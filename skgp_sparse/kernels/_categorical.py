"""A kernel of the levels of a category, which are whole numbers, the codes, in one column.

With the correlation ρ and the similarity s of two levels, it is ``ρ + (1 - ρ) s(a, b)``:

    rank 0         s = [a = b]                  all levels are equally similar
    rank r > 0     s = exp(-|z_a - z_b|^2 / 2)  levels are points z in r dimensions, learned

A level that was not seen in training is as similar to others as these are on average: with ``P``
that takes the mean of all levels for it, its s is that of ``P s Pᵀ``. At rank 0 it is 0.
"""

from functools import partial
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from ._formulas import UnitRule
from ._nodes import evaluate, node

_DIMENSIONS = 64  # in which thousands of levels are about as far from each other
_SEVERAL = 50  # levels that tell how near levels are
_SMALLEST, _LARGEST = 1e-4, 0.999  # correlations between them
_START = 0.03  # spread of the first points: levels that are alike at first pass each other freely


class Categorical(Kernel):
    r"""A kernel of the levels of a category.

    It takes one column of codes, which are whole numbers from 0 on, and is

    .. math:: k(a, b) = \rho + (1 - \rho)\, s(a, b),

    where the similarity s is 1 of equal levels. Of different ones it is 0, so that all of them have
    the correlation ρ, or with a rank ``exp(-|z_a - z_b|^2 / 2)``, where levels are points that are
    learned. Put it into `Columns` to choose the column of the category.

    Parameters
    ----------
    n_levels : int or "auto", default="auto"
        The number of levels. With "auto", the `fit` of an estimator of this package counts them up
        to the largest code. It matters for a rank above 0 and for ``handle_unknown="error"`` only.
        `GaussianProcessRegressor` needs a number there.
    rank : int, default=0
        The number of dimensions in which levels are points. Ranks of 1 to 3 suit categories whose
        levels resemble each other in groups or have an order, and have many rows each.
    correlation : float, default=0.5
        The correlation ρ of levels that are not similar.
    correlation_bounds : pair of floats or "fixed", default=(1e-3, 0.999)
        The bounds of ρ.
    positions : ndarray of shape (n_levels * rank,), default=None
        Exponentials of the coordinates of the points, those of a level together. By default,
        learning begins at fixed draws next to each other.
    positions_bounds : pair of floats or "fixed", default=(1e-2, 1e2)
        Their bounds.
    handle_unknown : {"ignore", "error"}, default="ignore"
        What becomes of a code that is not below `n_levels`: with "ignore", it is a level of its
        own. It has the correlation ρ with all others or, with a rank, their mean correlation.

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
    """

    def __init__(
        self,
        n_levels="auto",
        rank=0,
        correlation=0.5,
        correlation_bounds=(1e-3, 0.999),
        positions=None,
        positions_bounds=(1e-2, 1e2),
        handle_unknown="ignore",
    ):
        self.n_levels = n_levels
        self.rank = rank
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds
        self.positions = positions
        self.positions_bounds = positions_bounds
        self.handle_unknown = handle_unknown

    @property
    def hyperparameter_correlation(self):
        """The correlation ρ."""
        return Hyperparameter("correlation", "numeric", self.correlation_bounds)

    @property
    def hyperparameter_positions(self):
        """The positions of the levels; fixed where there are none yet."""
        if not self.has_points():
            return Hyperparameter("positions", "numeric", "fixed")
        size = self.n_levels * self.rank
        return Hyperparameter("positions", "numeric", self.positions_bounds, size)

    @property
    def theta(self):
        """Logarithms of the free hyperparameters."""
        values = {"correlation": np.log(self.correlation), "positions": self.points().ravel()}
        free = [np.ravel(values[one.name]) for one in self.hyperparameters if not one.fixed]
        return np.concatenate([np.zeros(0), *free])

    @theta.setter
    def theta(self, theta):
        Kernel.theta.fset(self, theta)

    @property
    def requires_vector_input(self):
        """True: codes are numbers."""
        return True

    def __repr__(self):
        levels = self.n_levels if self.rank == 0 else f"{self.n_levels}, rank={self.rank}"
        return f"Categorical({levels}, correlation={self.correlation:.3g})"

    def __eq__(self, other):
        if type(self) is not type(other):
            return False
        mine, its = self.get_params(), other.get_params()
        return all(np.array_equal(mine[name], its[name]) for name in mine)

    def is_stationary(self):
        """Return False: codes are names, not places."""
        return False

    def diag(self, X):
        """Return ``k(x, x)``, which is 1.

        Parameters
        ----------
        X : array-like of shape (n, 1)

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.ones(len(X))

    def __call__(self, X, Y=None, eval_gradient=False):
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

    def has_points(self):
        """Return whether levels are points, whose number is known."""
        return self.rank > 0 and not isinstance(self.n_levels, str)

    def points(self):
        """Return the points of the levels (n_levels, rank); none where they are equally similar."""
        if not self.has_points():
            return np.zeros((0, 0))
        shape = self.n_levels, self.rank
        if self.positions is None:
            return _START * np.random.RandomState(0).normal(size=shape)
        return np.log(np.reshape(self.positions, shape))

    def codes(self, X):
        """Return the codes of points (..., 1) as whole numbers (...)."""
        if np.shape(X)[-1] != 1:
            raise ValueError(
                f"{self} takes one column of codes, but the inputs have {np.shape(X)[-1]}. Choose "
                f"one of them, as in Columns({self}, 0)."
            )
        self._check()
        codes = np.rint(X[..., 0])
        levels = np.inf if isinstance(self.n_levels, str) else self.n_levels
        is_known = (codes >= 0) & (codes < levels)
        if self.handle_unknown == "error" and not np.all(is_known):
            first = codes[~is_known].flat[0]
            raise ValueError(
                f"{self} knows the codes 0 to {self.n_levels - 1}, but got {first:.0f}. Set "
                "handle_unknown='ignore' for a level of its own."
            )
        return codes.astype(np.intp)

    def similarities(self):
        """Return s of all levels and, last, of one that was not seen (n_levels + 1, ...)."""
        z = self.points()
        P, s = self.averages(), np.exp(-0.5 * np.sum((z[:, None] - z) ** 2, axis=2))
        return P @ s @ P.T

    def averages(self):
        """Return P (n_levels + 1, n_levels): levels, and the mean of them."""
        return np.vstack([np.eye(self.n_levels), np.full(self.n_levels, 1.0 / self.n_levels)])

    def values(self, a, b):
        """Return k of codes (..., n) and (..., m), as an array (..., n, m)."""
        same = a[..., :, None] == b[..., None, :]
        if self.rank == 0:
            return np.where(same, 1.0, self.correlation)
        if not self.has_points():
            raise ValueError(
                f"{self} needs the number of levels. Pass n_levels, or fit an estimator of "
                "skgp_sparse, which counts them."
            )
        s = self.similarities()[self.index(a)[..., :, None], self.index(b)[..., None, :]]
        return np.where(same, 1.0, self.correlation + (1.0 - self.correlation) * s)

    def index(self, codes):
        """Return codes in which all levels that were not seen are one, the last."""
        return np.where((codes >= 0) & (codes < self.n_levels), codes, self.n_levels)

    def _check(self):
        is_right = isinstance(self.rank, Integral) and self.rank >= 0
        levels, unknown = self.n_levels, self.handle_unknown
        is_right &= levels == "auto" if isinstance(levels, str) else levels >= 1
        if not (is_right and unknown in ("ignore", "error") and 0 < self.correlation < 1):
            raise ValueError(
                "Categorical needs n_levels='auto' or an int of at least 1, a rank of at least 0, "
                "a correlation between 0 and 1, and handle_unknown='ignore' or 'error'. Got "
                f"n_levels={levels!r}, rank={self.rank!r}, correlation={self.correlation!r} and "
                f"handle_unknown={unknown!r}."
            )

    def _gradient(self, K, a):
        parts = []
        if not self.hyperparameter_correlation.fixed:
            slope = self.correlation / (1.0 - self.correlation)
            parts.append((slope * (1.0 - K))[:, :, None])
        if not self.hyperparameter_positions.fixed:
            z, P, one = self.points(), self.averages(), np.eye(self.n_levels)
            s = (1.0 - self.correlation) * self.similarities()[:-1, :-1]
            pull = s[:, :, None] * (z[None] - z[:, None])  # of the first of two levels
            pull = one[:, None, :, None] * pull[:, :, None] - one[:, :, None] * pull[:, :, None]
            pull = np.einsum("xa,yb,ablk->xylk", P, P, pull)
            index = self.index(a)
            slopes = pull[index[:, None], index].reshape(*K.shape, -1)
            slopes[a[:, None] == a] = 0.0
            parts.append(slopes)
        return np.concatenate([np.zeros((*K.shape, 0)), *parts], axis=2)


class CategoricalRule(UnitRule):
    """The rule of `Categorical`: no gradient with respect to codes."""

    footprint = 1

    def cross(self, kernel, X, Z):
        return self._of_codes(kernel, kernel.codes(X), kernel.codes(Z))

    def stack(self, kernel, P):
        codes = kernel.codes(P)
        return self._of_codes(kernel, codes, codes)

    @staticmethod
    def _of_codes(kernel, a, b):
        K = kernel.values(a, b)
        return K, partial(_pull, kernel, K, a, b)


def _pull(kernel, K, a, b, G, inputs):
    rho = kernel.correlation
    gradients = {"correlation": rho / (1.0 - rho) * (np.sum(G) - np.vdot(G, K))}
    if not kernel.hyperparameter_positions.fixed:
        z, s, P = kernel.points(), kernel.similarities()[:-1, :-1], kernel.averages()
        W = (1.0 - rho) * s * (P.T @ _by_levels(kernel, a, b, G) @ P)
        W = W + W.T
        gradients["positions"] = W @ z - W.sum(axis=1)[:, None] * z
    return gradients, 0.0


def _by_levels(kernel, a, b, G):
    """Sums of G over all pairs of rows in two levels (n_levels + 1, ...), without equal ones."""
    if G.ndim == 3:
        return sum(_by_levels(kernel, *one) for one in zip(a, b, G))
    size = kernel.n_levels + 1
    G = np.where(a[:, None] == b, 0.0, G)
    first, second = (
        csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), (len(codes), size))
        for codes in (kernel.index(a), kernel.index(b))
    )
    return first.T @ (G @ second)


def categories(kernel, d):
    """Return the `Categorical` parts of a kernel, and the column of each.

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
        (leaf.kernel, int(columns[0]))
        for leaf, columns in node(kernel).seen(np.arange(d))
        if type(leaf.kernel) is Categorical and columns is not None and len(columns) == 1
    ]


def with_levels(kernel, d, largest):
    """Return a kernel whose categories know how many levels they have.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, of which the caller has the only copy.
    d : int
        Number of input columns.
    largest : callable
        ``column -> largest code`` in training.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        The kernel.
    """
    for part, column in categories(kernel, d):
        if isinstance(part.n_levels, str):
            part.n_levels = int(np.rint(largest(column))) + 1
    return kernel


def in_units(kernel, X, scale):
    """Return inputs in which rows are near that a kernel finds near.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X : ndarray of shape (n, d)
    scale : ndarray of shape (d,)
        Of the columns of numbers, as `length_scales` returns it.

    Returns
    -------
    ndarray of shape (n, r)
        Numbers in units of their length scales.  Levels of a category are as far from each other as
        numbers of the same correlation in an RBF kernel.
    """
    found = categories(kernel, X.shape[1])
    x = X / scale
    if not found:
        return x
    of_column = {column: part for part, column in found}
    parts = [np.delete(x, list(of_column), axis=1)]
    for column, part in of_column.items():
        distance = np.sqrt(-np.log(_correlation(kernel, X.shape[1], column, part)))
        parts.append(distance * _places(part.codes(X[:, [column]])))
    return np.hstack(parts)


def _correlation(kernel, d, column, part):
    """Mean correlation of rows that are in different levels, and the same otherwise."""
    rows = np.zeros((_SEVERAL if isinstance(part.n_levels, str) else part.n_levels, d))[:_SEVERAL]
    rows[:, column] = np.arange(len(rows))
    K = evaluate(kernel, rows, rows)
    different = ~np.eye(len(rows), dtype=bool)
    mean = np.mean(K[different]) / np.mean(K.diagonal()) if len(rows) > 1 else 1.0
    return np.clip(mean, _SMALLEST, _LARGEST)


def _places(codes):
    """Random vectors of length 1 (n, 64) of codes, nearly orthogonal; 0 of negative codes."""
    draws = np.random.RandomState(0).normal(size=(max(codes.max(initial=0), 0) + 1, _DIMENSIONS))
    draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    return np.where(codes[:, None] >= 0, draws[codes], 0.0)

"""A kernel of inputs with missing values, which are NaN.

A missing value of column j is a level of its own. A neutral value v_j takes its place, and it has a
correlation ρ_j with values that are there:

    k(x, z) = k'(x̃, z̃) Π_j ρ_j^[m_j(x) ≠ m_j(z)],    m_j(x) = [x_j is missing],
    x̃_j = x_j or, if it is missing, v_j = mean_j + std_j log(neutral_j).

What a missing value would have told varies from row to row. Its row has noise Σ_j s_j m_j(x) for
that, which is on the diagonal as that of a `WhiteKernel` is.
"""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse.ground.parallel import applied
from skgp_sparse.ground.validation import Array, Bools, Scalars, as_text

from ._categorical import CORRELATION, agreement
from ._differentiable import DifferentiableKernel, Pull, Pulled, node, parts_by_columns, shown
from ._mapped import MappedKernel, MappedNode

PullFactor = Callable[[Array], Array]  # from H = G * K to slopes of all columns
# hyperparameters of columns where training had no missing values; of noise, the mean of the others
_OTHERS = {"correlation": 0.5, "neutral": 1.0}


class Missing(MappedKernel):
    r"""A kernel of inputs with missing values, which are NaN.

    A missing value is a level of its own: it is seen as a neutral value, which is learned, and it
    has a correlation ρ with values that are there. With m = 1 of a missing value and 0 otherwise,

    .. math:: k(x, z) = k'(\tilde x, \tilde z) \prod_j \rho_j^{|m_j(x) - m_j(z)|}
        + [x \text{ and } z \text{ are the same row}] \sum_j s_j m_j(x).

    The variances s are noise of rows with missing values: what a missing value would have told.
    Nothing has to be imputed before. `GaussianProcessRegressor` refuses NaN itself.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel k' of complete inputs.
    correlation : float or ndarray of shape (n_missing,), default=0.7
        The correlations ρ. `fit` sets one for each column in which values are missing, and learns
        them. A value that is missing in another column later has the correlation 0.5, and counts as
        the mean of its column.
    correlation_bounds : pair of floats or "fixed", default=(1e-3, 0.9999)
        Their bounds.
    neutral : ndarray of shape (n_missing,), default=None
        The neutral values, as exponentials of their distances from the mean of the column in
        standard deviations, because hyperparameters are positive: 1 is the mean, where learning
        begins, and ``exp(-1)`` one standard deviation below it.
    neutral_bounds : pair of floats or "fixed", default=(0.05, 20)
        Their bounds, which are three standard deviations from the mean.
    noise : float or ndarray of shape (n_missing,), default=0.0
        The variances s, in units of those of `kernel`. 0 means none, and a positive number is where
        learning begins. A value that is missing in another column later has their mean.
    noise_bounds : pair of floats or "fixed", default=(1e-5, 1e2)
        Their bounds.
    columns : "auto" or sequence of int, default="auto"
        The numbers of the columns in which values are missing, of those that `kernel` sees. `fit`
        finds them with "auto".
    units : pair of ndarray of shape (n_columns,), default=None
        Means and standard deviations of the values that are there, which `fit` sets. None means 0
        and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import Missing
    >>> X = np.array([[0.0], [1.0], [np.nan]])
    >>> Missing(RBF(), columns=[0], correlation=np.array([0.6]))(X).round(3)
    array([[1.   , 0.607, 0.6  ],
           [0.607, 1.   , 0.364],
           [0.6  , 0.364, 1.   ]])

    Estimators find the columns, and learn what missing values mean there:

    >>> from skgp_sparse import SparseGPRegressor
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> X[::4] = np.nan
    >>> model = SparseGPRegressor(Missing(RBF()), alpha=0.01).fit(X, y)
    >>> model.kernel_.columns
    [0]
    """

    takes_missing = True
    _transforms = {"correlation": CORRELATION}
    correlation: Any
    neutral: Any
    noise: Any

    def __init__(
        self,
        kernel: Kernel,
        correlation: npt.ArrayLike = 0.7,
        correlation_bounds: tuple[float, float] | Literal["fixed"] = (1e-3, 0.9999),
        neutral: npt.ArrayLike | None = None,
        neutral_bounds: tuple[float, float] | Literal["fixed"] = (0.05, 20.0),
        noise: npt.ArrayLike | None = 0.0,
        noise_bounds: tuple[float, float] | Literal["fixed"] = (1e-5, 1e2),
        columns: Literal["auto"] | Sequence[int] = "auto",
        units: tuple[Array, Array] | None = None,
    ) -> None:
        self.kernel = kernel
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds
        self.neutral = neutral
        self.neutral_bounds = neutral_bounds
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.columns = columns
        self.units = units

    def __repr__(self) -> str:
        if not self.missing_columns():
            return f"Missing({self.kernel!r})"
        noise = f", noise={shown(self._current('noise'))}" if self.is_noisy() else ""
        return f"Missing({self.kernel!r}, correlation={shown(self._current('correlation'))}{noise})"

    def is_stationary(self) -> bool:
        """Return False: a missing value is no place."""
        return False

    def as_node(self) -> "MissingNode":
        """Return the node of this kernel, above that of `kernel`."""
        return MissingNode(self)

    def _current(self, name: str) -> Array:
        """Values of a hyperparameter, one for each column with missing values; none of no noise."""
        if name == "noise" and not self.is_noisy():
            return np.zeros(0)
        value, size = getattr(self, name), len(self.missing_columns())
        value = np.asarray(1.0 if value is None else value, dtype=float)
        if value.ndim > 0 and value.shape != (size,):
            raise ValueError(
                f"{name} of Missing must be a number, or an array of one for each of its columns "
                f"with missing values, columns={as_text(self.columns)}. Got {as_text(value)}."
            )
        return np.broadcast_to(value, (size,))

    theta_gradient = DifferentiableKernel.theta_gradient

    def of_columns(self, name: str, d: int) -> Array:
        """Return the values of a hyperparameter for all columns (d,)."""
        columns = self.missing_columns()
        if max(columns, default=0) >= d:
            raise ValueError(
                f"columns={columns} of Missing are not among the {d} of its inputs. Choose some of "
                "these, counted from 0."
            )
        values = np.full(d, _OTHERS[name] if name in _OTHERS else np.mean(self.noise))
        values[columns] = self._current(name)
        return values

    def is_noisy(self) -> bool:
        """Return whether rows with missing values have noise."""
        if np.min(self.noise) < 0 or 0 < np.count_nonzero(self.noise) < np.size(self.noise):
            raise ValueError(
                "noise of Missing must be 0, or positive for every column. Got "
                f"{as_text(self.noise)}."
            )
        return bool(np.any(self.noise))

    def transform(self, X: Array) -> Array:
        """Return inputs (..., d) with neutral values in the place of missing ones."""
        missing = np.isnan(X)
        if not missing.any():
            return X
        mean, std = self._units()
        neutral = self.of_columns("neutral", np.shape(X)[-1])
        return np.where(missing, mean + std * np.log(neutral), X)

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to the values that are there, 0 of others."""
        return np.where(np.isnan(X), 0.0, bar)

    def missing_columns(self) -> list[int]:
        """Return the numbers of the columns with missing values, once they are known."""
        if isinstance(self.columns, str) and self.columns == "auto":
            return []
        is_list = np.ndim(self.columns) == 1 and all(isinstance(c, Integral) for c in self.columns)
        if not is_list or min(self.columns, default=0) < 0:
            raise ValueError(
                "columns of Missing must be 'auto' or a list of numbers of the columns that its "
                f"kernel sees. Got {as_text(self.columns)}."
            )
        return [*map(int, self.columns)]

    def factor(self, X: Array, Z: Array) -> tuple[Scalars, PullFactor | None]:
        """Return the product of correlations, 1 where nothing is missing, and its pullback.

        The pullback is that of `agreement`, for the logarithms of the correlations of all columns.
        """
        a = np.isnan(X)
        b = a if Z is X else np.isnan(Z)
        axes = tuple(range(a.ndim - 1))
        used = np.any(a, axis=axes) | np.any(b, axis=axes)
        if not used.any():
            return 1.0, None
        w = -np.log(self.of_columns("correlation", len(used))[used])
        K, pull = agreement(a[..., used], b[..., used], w)
        return K, partial(_pull_used, used, pull)

    def own_gradient(
        self, slopes: Array, *bars: tuple[Array, Scalars], of_noise: Scalars = 0.0
    ) -> Array:
        """Return the gradient with respect to the own hyperparameters that are free.

        Parameters
        ----------
        slopes : ndarray of shape (d,)
            In the logarithms of the correlations of all columns.
        *bars : pair of ndarray of shape (..., d)
            Inputs, and gradients with respect to what `transform` returns of them.
        of_noise : float or ndarray of shape (d,)
            In the variances of noise of all columns.
        """
        d, columns = len(slopes), self.missing_columns()
        neutral = np.zeros(d)
        for X, bar in bars:
            neutral += np.where(np.isnan(X), bar, 0.0).reshape(-1, d).sum(axis=0)
        found = {
            "correlation": (slopes * np.log(self.of_columns("correlation", d)))[columns],
            "neutral": (neutral * self._units()[1])[columns],
            "noise": np.broadcast_to(of_noise, d)[columns] * np.asarray(self.noise),
        }
        return np.concatenate([np.zeros(0), *(found[name] for name in self._free())])

    def learns_neutral(self) -> bool:
        """Return whether neutral values are free."""
        return not isinstance(self.neutral_bounds, str) and len(self.missing_columns()) > 0

    def _units(self) -> tuple[Scalars, Scalars]:
        return (0.0, 1.0) if self.units is None else self.units


def _pull_used(used: Bools, pull: PullFactor, H: Array) -> Array:
    """Slopes (d,) of all columns, which are 0 where nothing is missing."""
    slopes = np.zeros(len(used))
    slopes[used] = pull(H)
    return slopes


def with_missing(kernel: Kernel, d: int, is_missing: Bools, mean: Array, std: Array) -> Kernel:
    """Return a kernel whose parts know in which columns values are missing.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, of which the caller has the only copy.
    d : int
        Number of input columns.
    is_missing : ndarray of shape (d,) of bool
        Whether a column has missing values in training.
    mean, std : ndarray of shape (d,)
        Of the values that are there.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        The kernel.
    """
    for part, columns in parts_by_columns(kernel, d, Missing):
        if part.units is None:
            part.units = mean[columns], std[columns]
        if isinstance(part.columns, str):
            part.columns = np.flatnonzero(is_missing[columns]).tolist()
            size = len(part.columns)
            part.correlation = np.full(size, part.correlation) if size else part.correlation
    return kernel


class MissingNode(MappedNode):
    """The node of a kernel of inputs with missing values."""

    def __init__(self, kernel: Missing) -> None:
        super().__init__(kernel)
        self.arrays, self.noisy = 2, kernel.is_noisy()

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        transform, factor = self.kernel.transform, self.kernel.factor(X, Z)
        K, pull = self.child.linearize(transform(X), transform(Z))
        value = K if factor[1] is None else applied(np.multiply, K, factor[0])
        return value, partial(self._pull_cross, X, Z, value, factor, pull)

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        factor, pull_factor = self.kernel.factor(X, Z)
        K = super().evaluate(X, Z)
        return K if pull_factor is None else K * factor

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        signal, noise, pull = self.child.diagonal(self.kernel.transform(X))
        if self.noisy:
            noise = noise + np.isnan(X) @ self.kernel.of_columns("noise", X.shape[1])
        return signal, noise, partial(self._pull_diag, X, pull)

    def places(self, X: Array) -> list[Array]:
        correlation = self.kernel.of_columns("correlation", X.shape[1])
        return [*super().places(X), np.isnan(X) * np.sqrt(-np.log(correlation))]

    def _pull_cross(
        self, X: Array, Z: Array, value: Scalars, factor: Any, pull: Pull, G: Array, inputs: bool
    ) -> Pulled:
        kernel, slopes, bars = self.kernel, np.zeros(X.shape[-1]), []
        learns = factor[1] is not None and kernel.learns_neutral()
        if factor[1] is not None:
            slopes = factor[1](applied(np.multiply, G, value))
            G = np.multiply(G, factor[0], out=G)
        rows = np.isnan(X).any(axis=-1)
        if learns and X.ndim == 2 and rows.any():  # the pullback is of the second of two arguments
            first = kernel.transform(X[rows])
            pull_first = node(kernel.kernel).linearize(kernel.transform(Z), first)[1]
            bars.append((X[rows], pull_first(np.ascontiguousarray(G[rows].T), True)[1]))
        theta_bar, bar = pull(G, inputs or learns)
        if learns:
            bars.append((Z, bar))
        return self._joined(theta_bar, kernel.own_gradient(slopes, *bars), Z, bar, inputs)

    def _pull_diag(
        self, X: Array, pull: Pull, g_signal: Array, g_noise: Scalars, inputs: bool
    ) -> Pulled:
        learns = self.kernel.learns_neutral() and np.isnan(X).any()
        theta_bar, bar = pull(g_signal, g_noise, inputs or learns)
        of_noise = np.broadcast_to(g_noise, len(X)) @ np.isnan(X) if self.noisy else 0.0
        bars, slopes = [(X, bar)] if learns else [], np.zeros(X.shape[-1])
        own = self.kernel.own_gradient(slopes, *bars, of_noise=of_noise)
        return self._joined(theta_bar, own, X, bar, inputs)

    def _joined(self, theta_bar: Array, own: Array, X: Array, bar: Any, inputs: bool) -> Pulled:
        theta_bar = np.concatenate([theta_bar, own])
        return theta_bar, self.kernel.pull(X, bar) if inputs and np.ndim(bar) else 0.0

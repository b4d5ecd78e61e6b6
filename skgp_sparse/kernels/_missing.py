"""A kernel of inputs with missing values, which are NaN.

A missing value of column j is a level of its own. It is seen as a neutral value v_j, and it has a
correlation ρ_j with values that are there:

    k(x, z) = k'(x̃, z̃) Π_j ρ_j^[m_j(x) ≠ m_j(z)],    m_j(x) = [x_j is missing],
    x̃_j = x_j or, if it is missing, v_j = mean_j + std_j log(neutral_j).

What a missing value would have told varies from row to row. Its row has noise Σ_j s_j m_j(x) for
that, which is on the diagonal as that of a `WhiteKernel` is.
"""

from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from skgp_sparse._ground.plain_text import as_text

from ._levels import agreement, correlations, log_weights
from ._mapped import MappedKernel
from ._missing_node import MissingNode
from ._nodes import node
from ._rules import Array, Bools, Ints, Pull, Scalars

_OTHERS = 0.5  # correlation of missing values in columns where training had none


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
        columns: Any = "auto",
        units: npt.ArrayLike | None = None,
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
        if not self.gaps():
            return f"Missing({self.kernel!r})"
        noise = f", noise=[{_listed(self._noise())}]" if self.is_noisy() else ""
        rho = _listed(self._correlations())
        return f"Missing({self.kernel!r}, correlation=[{rho}]{noise})"

    def is_stationary(self) -> bool:
        """Return False: a missing value is no place."""
        return False

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Those of `kernel`, and those of columns with missing values."""
        return [*super().hyperparameters, *self.own_hyperparameters()]

    def own_hyperparameters(self) -> list[Hyperparameter]:
        """Return correlations, neutral values and noise, fixed where nothing is missing."""
        size = len(self.gaps())
        names = {
            "correlation": self.correlation_bounds,
            "neutral": self.neutral_bounds,
            "noise": self.noise_bounds if self.is_noisy() else "fixed",
        }
        if not size:
            return [Hyperparameter(name, "numeric", "fixed") for name in names]
        return [Hyperparameter(name, "numeric", bounds, size) for name, bounds in names.items()]

    @property
    def theta(self) -> Any:
        """That of `kernel`, and the own ones: ``log(-log ρ)``, and logarithms of the others."""
        found = {"correlation": self._correlations, "neutral": self._neutral, "noise": self._noise}
        own = [
            (log_weights if one.name == "correlation" else np.log)(found[one.name]())
            for one in self._free()
        ]
        return np.concatenate([self.kernel.theta, *own])

    @theta.setter
    def theta(self, theta: Array) -> Any:
        start = len(self.kernel.theta)
        self.kernel.theta = theta[:start]
        for one in self._free():
            part = theta[start : start + one.n_elements]
            value = correlations(part) if one.name == "correlation" else np.exp(part)
            self.set_params(**{one.name: value})
            start += one.n_elements

    @property
    def bounds(self) -> Array:
        """Their bounds."""
        limits = [
            log_weights(one.bounds[:, ::-1]) if one.name == "correlation" else np.log(one.bounds)
            for one in self._free()
        ]
        return np.vstack([np.reshape(self.kernel.bounds, (-1, 2)), *limits])

    def __call__(self, X: Array, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix ``k(X, Y)``, and its gradient if that is wanted.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d), default=None
            None means `X`.
        eval_gradient : bool, default=False
            Whether the gradient with respect to theta is returned. `Y` must be None then, and no
            value may be missing.

        Returns
        -------
        K : ndarray of shape (n, m)
        K_gradient : ndarray of shape (n, n, p)
            Only if `eval_gradient` is True.
        """
        X = np.atleast_2d(X)
        if not eval_gradient:
            Z = X if Y is None else np.atleast_2d(Y)
            seen = None if Y is None else self.see(Z)
            K = self.kernel(self.see(X), seen) * self.factor(X, Z)[0]
            return K if Y is not None else K + np.diag(self.own_noise(X))
        if np.isnan(X).any():
            raise ValueError(
                "The gradient of the matrix of Missing needs inputs without missing values. Use "
                "an estimator of skgp_sparse, which takes them and has gradients of its own."
            )
        K, gradient = self.kernel(X, Y, eval_gradient=True)
        own = len(self.theta) - gradient.shape[2]
        return K, np.concatenate([gradient, np.zeros((*K.shape, own))], axis=2)

    def diag(self, X: Array) -> Array:
        """Return ``k(x, x)`` of every row of X, its noise included.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return super().diag(X) + self.own_noise(np.atleast_2d(X))

    def own_noise(self, X: Array) -> Scalars:
        """Return ``Σ_j s_j m_j(x)`` of inputs (n, d), an array (n,)."""
        if not self.is_noisy():
            return np.zeros(len(X))
        levels = np.full(X.shape[1], np.mean(self.noise))
        levels[self._gaps_of(len(levels))] = self._noise()
        return np.isnan(X) @ levels

    def is_noisy(self) -> bool:
        """Return whether rows with missing values have noise."""
        if np.min(self.noise) < 0 or 0 < np.count_nonzero(self.noise) < np.size(self.noise):
            raise ValueError(
                "noise of Missing must be 0, or positive for every column. Got "
                f"{as_text(self.noise)}."
            )
        return bool(np.any(self.noise))

    def see(self, X: Array) -> Array:
        """Return inputs (..., d) with neutral values in the place of missing ones."""
        missing = np.isnan(X)
        if not missing.any():
            return X
        mean, std = self._units(np.shape(X)[-1])
        values = np.array(mean, dtype=float)
        gaps = self._gaps_of(len(values))
        values[gaps] += std[gaps] * np.log(self._neutral())
        return np.where(missing, values, X)

    def pull(self, X: Array, bar: Any) -> Array:
        """Return the gradient with respect to the values that are there, 0 of others."""
        return np.where(np.isnan(X), 0.0, bar)

    def sources(self, columns: Ints) -> Ints | None:
        """Return all columns."""
        return columns

    def width(self, d: int) -> int:
        """Return d."""
        return d

    def scales(self, scale: Any, d: int) -> Array:
        """Return the same length scales."""
        return scale

    def gaps(self) -> Any:
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

    def factor(self, X: Array, Z: Array) -> tuple[Any, Pull | None]:
        """Return the product of correlations, 1 where nothing is missing, and its pullback.

        The pullback is that of `agreement`, for all columns.
        """
        a = np.isnan(X)
        b = a if Z is X else np.isnan(Z)
        used = _columns_of_any(a) | _columns_of_any(b)
        if not used.any():
            return 1.0, None
        K, pull = agreement(a[..., used], b[..., used], -np.log(self.rho(len(used))[used]))
        return K, partial(_pull_used, used, pull)

    def rho(self, d: int) -> Any:
        """Return the correlations of d columns."""
        rho = np.full(d, _OTHERS)
        rho[self._gaps_of(d)] = self._correlations()
        return rho

    def _gaps_of(self, d: int) -> Any:
        gaps = self.gaps()
        if max(gaps, default=0) >= d:
            raise ValueError(
                f"columns={gaps} of Missing are not among the {d} of its inputs. Choose some of "
                "these, counted from 0."
            )
        return gaps

    def own_gradient(self, slopes: Any, *bars: Any, of_noise: Any = 0.0) -> Any:
        """Return the gradient with respect to the own hyperparameters that are free.

        Parameters
        ----------
        slopes : ndarray of shape (d,)
            In the logarithms of the correlations of all columns.
        *bars : pair of ndarray of shape (..., d)
            Inputs, and gradients with respect to what `see` returns of them.
        of_noise : float or ndarray of shape (d,)
            In the variances of noise of all columns.
        """
        d, gaps = len(slopes), self.gaps()
        neutral = np.zeros(d)
        for X, bar in bars:
            neutral += np.where(np.isnan(X), bar, 0.0).reshape(-1, d).sum(axis=0)
        slopes = slopes * np.log(self.rho(d))
        found = {
            "correlation": slopes[gaps],
            "neutral": (neutral * self._units(d)[1])[gaps],
            "noise": np.broadcast_to(of_noise, d)[gaps] * self._noise(),
        }
        return np.concatenate([np.zeros(0), *(found[one.name] for one in self._free())])

    def learns_neutral(self) -> bool:
        """Return whether neutral values are free."""
        return any(one.name == "neutral" for one in self._free())

    def _free(self) -> Any:
        return [one for one in self.own_hyperparameters() if not one.fixed]

    def _correlations(self) -> Any:
        return self._of_gaps("correlation", self.correlation)

    def _neutral(self) -> Any:
        return self._of_gaps("neutral", 1.0 if self.neutral is None else self.neutral)

    def _noise(self) -> Any:
        return self._of_gaps("noise", self.noise)

    def _of_gaps(self, name: str, values: Any) -> Any:
        values, size = np.asarray(values, dtype=float), len(self.gaps())
        if values.ndim > 0 and values.shape != (size,):
            raise ValueError(
                f"{name} of Missing must be a number, or an array of one for each of its columns "
                f"with missing values, columns={as_text(self.columns)}. Got {as_text(values)}."
            )
        return np.broadcast_to(values, (size,))

    def _units(self, d: int) -> Any:
        return (np.zeros(d), np.ones(d)) if self.units is None else self.units


def _columns_of_any(gaps: Bools) -> Any:
    """Whether a column (d,) has a gap in any of the rows (..., n, d)."""
    return np.any(gaps, axis=tuple(range(gaps.ndim - 1)))


def _pull_used(used: Bools, pull: Pull, H: Any) -> Any:
    """Slopes (d,) of all columns, which are 0 where nothing is missing."""
    slopes = np.zeros(len(used))
    slopes[used] = pull(H)
    return slopes


def _listed(values: Any) -> Any:
    return ", ".join(f"{one:.3g}" for one in values)


def missing_parts(kernel: Kernel, d: int) -> Any:
    """Return the `Missing` parts of a kernel, and the columns of each.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int
        Number of input columns.

    Returns
    -------
    list of tuple of (Missing, ndarray)
    """
    return [
        (part.kernel, columns)
        for part, columns in node(kernel).walk(np.arange(d))
        if isinstance(part, MissingNode)
    ]


def has_missing(kernel: Kernel) -> bool:
    """Return whether a kernel has a part for missing values.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
    """
    parts = kernel.get_params().values()
    return isinstance(kernel, Missing) or any(isinstance(part, Missing) for part in parts)


def bare(kernel: Kernel, d: int) -> Any:
    """Return which of d columns a kernel sees without a `Missing` around it.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int

    Returns
    -------
    ndarray of shape (d,) of bool
    """
    return np.isin(np.arange(d), node(kernel).bare(np.arange(d)))


def with_gaps(kernel: Kernel, d: int, lacks: Any, mean: Any, std: Any) -> Kernel:
    """Return a kernel whose parts know in which columns values are missing.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, of which the caller has the only copy.
    d : int
        Number of input columns.
    lacks : ndarray of shape (d,) of bool
        Whether a column has missing values in training.
    mean, std : ndarray of shape (d,)
        Of the values that are there.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        The kernel.
    """
    for part, columns in missing_parts(kernel, d):
        if part.units is None:
            part.units = mean[columns], std[columns]
        if isinstance(part.columns, str):
            part.columns = np.flatnonzero(lacks[columns]).tolist()
            size = len(part.columns)
            part.correlation = np.full(size, part.correlation) if size else part.correlation
    return kernel

"""A kernel of inputs with missing values, which are NaN.

A missing value of column j is a level of its own. It is seen as a neutral value v_j, and it has a
correlation ρ_j with values that are there:

    k(x, z) = k'(x̃, z̃) Π_j ρ_j^[m_j(x) ≠ m_j(z)],    m_j(x) = [x_j is missing],
    x̃_j = x_j or, if it is missing, v_j = mean_j + std_j log(neutral_j).
"""

from functools import partial
from numbers import Integral
from types import SimpleNamespace

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter

from ._levels import agreement, correlations, log_weights
from ._mapped import MappedKernel, MappedNode
from ._nodes import node

_OTHERS = 0.5  # correlation of missing values in columns where training had none


class Missing(MappedKernel):
    r"""A kernel of inputs with missing values, which are NaN.

    A missing value is a level of its own: it is seen as a neutral value, which is learned, and it
    has a correlation ρ with values that are there. With m = 1 of a missing value and 0 otherwise,

    .. math:: k(x, z) = k'(\tilde x, \tilde z) \prod_j \rho_j^{|m_j(x) - m_j(z)|}.

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

    def __init__(
        self,
        kernel,
        correlation=0.7,
        correlation_bounds=(1e-3, 0.9999),
        neutral=None,
        neutral_bounds=(0.05, 20.0),
        columns="auto",
        units=None,
    ):
        self.kernel = kernel
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds
        self.neutral = neutral
        self.neutral_bounds = neutral_bounds
        self.columns = columns
        self.units = units

    def __repr__(self):
        if not self.gaps():
            return f"Missing({self.kernel!r})"
        rho = ", ".join(f"{one:.3g}" for one in self._correlations())
        return f"Missing({self.kernel!r}, correlation=[{rho}])"

    def is_stationary(self):
        """Return False: a missing value is no place."""
        return False

    @property
    def hyperparameters(self):
        """Those of `kernel`, and those of columns with missing values."""
        return [*super().hyperparameters, *self.own_hyperparameters()]

    def own_hyperparameters(self):
        """Return the correlations and the neutral values, fixed where nothing is missing."""
        size = len(self.gaps())
        names = ("correlation", self.correlation_bounds), ("neutral", self.neutral_bounds)
        if not size:
            return [Hyperparameter(name, "numeric", "fixed") for name, _ in names]
        return [Hyperparameter(name, "numeric", bounds, size) for name, bounds in names]

    @property
    def theta(self):
        """That of `kernel`, and the own ones: ``log(-log ρ)``, and neutral values."""
        values = {
            "correlation": log_weights(self._correlations()),
            "neutral": np.log(self._neutral()),
        }
        own = [values[one.name] for one in self._free()]
        return np.concatenate([self.kernel.theta, *own])

    @theta.setter
    def theta(self, theta):
        start = len(self.kernel.theta)
        self.kernel.theta = theta[:start]
        for one in self._free():
            part = theta[start : start + one.n_elements]
            value = correlations(part) if one.name == "correlation" else np.exp(part)
            self.set_params(**{one.name: value})
            start += one.n_elements

    @property
    def bounds(self):
        """Their bounds."""
        limits = [
            log_weights(one.bounds[:, ::-1]) if one.name == "correlation" else np.log(one.bounds)
            for one in self._free()
        ]
        return np.vstack([np.reshape(self.kernel.bounds, (-1, 2)), *limits])

    def __call__(self, X, Y=None, eval_gradient=False):
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
            return self.kernel(self.see(X), seen) * self.factor(X, Z)[0]
        if np.isnan(X).any():
            raise ValueError(
                "The gradient of the matrix of Missing needs inputs without missing values. The "
                "estimators of skgp_sparse take them, and have gradients of their own."
            )
        K, gradient = self.kernel(X, Y, eval_gradient=True)
        own = len(self.theta) - gradient.shape[2]
        return K, np.concatenate([gradient, np.zeros((*K.shape, own))], axis=2)

    def see(self, X):
        """Return inputs (..., d) with neutral values in the place of missing ones."""
        missing = np.isnan(X)
        if not missing.any():
            return X
        mean, std = self._units(np.shape(X)[-1])
        values = np.array(mean, dtype=float)
        gaps = self._gaps_of(len(values))
        values[gaps] += std[gaps] * np.log(self._neutral())
        return np.where(missing, values, X)

    def pull(self, X, bar):
        """Return the gradient with respect to the values that are there, 0 of others."""
        return np.where(np.isnan(X), 0.0, bar)

    def sources(self, columns):
        """Return all columns."""
        return columns

    def width(self, d):
        """Return d."""
        return d

    def scales(self, scale, d):
        """Return the same length scales."""
        return scale

    def gaps(self):
        """Return the numbers of the columns with missing values, once they are known."""
        if isinstance(self.columns, str) and self.columns == "auto":
            return []
        is_list = np.ndim(self.columns) == 1 and all(isinstance(c, Integral) for c in self.columns)
        if not is_list or min(self.columns, default=0) < 0:
            raise ValueError(
                "columns of Missing must be 'auto' or a list of numbers of the columns that its "
                f"kernel sees. Got {self.columns!r}."
            )
        return [*map(int, self.columns)]

    def factor(self, X, Z):
        """Return the product of correlations, 1 where nothing is missing, and its pullback.

        The pullback is that of `agreement`, for all columns.
        """
        first, second = np.isnan(X), np.isnan(Z)
        if not (first.any() or second.any()):
            return 1.0, None
        w = -np.log(self.rho(np.shape(X)[-1]))
        return agreement(first.astype(np.intp), second.astype(np.intp), w)

    def rho(self, d):
        """Return the correlations of d columns."""
        rho = np.full(d, _OTHERS)
        rho[self._gaps_of(d)] = self._correlations()
        return rho

    def _gaps_of(self, d):
        gaps = self.gaps()
        if max(gaps, default=0) >= d:
            raise ValueError(f"columns={gaps} of Missing are not among the {d} of its inputs.")
        return gaps

    def own_gradient(self, slopes, *bars):
        """Return the gradient with respect to the own hyperparameters that are free.

        Parameters
        ----------
        slopes : ndarray of shape (d,)
            In the logarithms of the correlations of all columns.
        *bars : pair of ndarray of shape (..., d)
            Inputs, and gradients with respect to what `see` returns of them.
        """
        d, gaps = len(slopes), self.gaps()
        neutral = np.zeros(d)
        for X, bar in bars:
            neutral += np.where(np.isnan(X), bar, 0.0).reshape(-1, d).sum(axis=0)
        slopes = slopes * np.log(self.rho(d))
        found = {"correlation": slopes[gaps], "neutral": (neutral * self._units(d)[1])[gaps]}
        return np.concatenate([np.zeros(0), *(found[one.name] for one in self._free())])

    def learns_neutral(self):
        """Return whether neutral values are free."""
        return any(one.name == "neutral" for one in self._free())

    def _free(self):
        return [one for one in self.own_hyperparameters() if not one.fixed]

    def _correlations(self):
        return self._of_gaps("correlation", self.correlation)

    def _neutral(self):
        return self._of_gaps("neutral", 1.0 if self.neutral is None else self.neutral)

    def _of_gaps(self, name, values):
        values, size = np.asarray(values, dtype=float), len(self.gaps())
        if values.ndim > 0 and values.shape != (size,):
            raise ValueError(
                f"{name} of Missing must be a number, or an array of one for each of its columns "
                f"with missing values, columns={self.columns!r}. Got {values}."
            )
        return np.broadcast_to(values, (size,))

    def _units(self, d):
        return (np.zeros(d), np.ones(d)) if self.units is None else self.units


class MissingNode(MappedNode):
    """A kernel of inputs with missing values."""

    def __init__(self, kernel):
        super().__init__(kernel)
        self.arrays = 2

    def cross(self, X, Z):
        K, pull = self.child.cross(self.kernel.see(X), self.kernel.see(Z))
        factor, pull_factor = self.kernel.factor(X, Z)
        value = K if pull_factor is None else K * factor
        return value, partial(_pull, self.kernel, X, Z, value, factor, pull_factor, pull)

    def value(self, X, Z):
        factor, pull_factor = self.kernel.factor(X, Z)
        K = super().value(X, Z)
        return K if pull_factor is None else K * factor

    def stack(self, P):
        K, pull = self.child.stack(self.kernel.see(P))
        factor, pull_factor = self.kernel.factor(P, P)
        value = K if pull_factor is None else K * factor
        return value, partial(_pull_stack, self.kernel, P, value, factor, pull_factor, pull)

    def diag(self, X):
        signal, noise, pull = self.child.diag(self.kernel.see(X))
        return signal, noise, partial(_pull_diag, self.kernel, X, pull)

    def places(self, X):
        return [*super().places(X), np.isnan(X) * np.sqrt(-np.log(self.kernel.rho(X.shape[1])))]

    def bare(self, columns):
        return columns[:0]

    def seen(self, columns):
        own = SimpleNamespace(hyperparameters=self.kernel.own_hyperparameters())
        return [*super().seen(columns), (SimpleNamespace(kernel=own), columns)]


def _pull(kernel, X, Z, value, factor, pull_factor, pull, G, inputs):
    slopes, bars = np.zeros(X.shape[-1]), []
    learns = pull_factor is not None and kernel.learns_neutral()
    if pull_factor is not None:
        slopes, G = pull_factor(G * value), G * factor
    rows = np.isnan(X).any(axis=-1)
    if learns and rows.any():  # pullbacks are about the second argument
        pull_first = node(kernel.kernel).cross(kernel.see(Z), kernel.see(X[rows]))[1]
        bars.append((X[rows], pull_first(np.ascontiguousarray(G[rows].T), True)[1]))
    theta_bar, bar = pull(G, inputs or learns)
    if learns:
        bars.append((Z, bar))
    return _joined(kernel, Z, theta_bar, kernel.own_gradient(slopes, *bars), bar, inputs)


def _pull_stack(kernel, P, value, factor, pull_factor, pull, G, inputs):
    slopes, bars = np.zeros(P.shape[-1]), []
    learns = pull_factor is not None and kernel.learns_neutral()
    if pull_factor is not None:
        slopes, G = pull_factor(G * value), G * factor
    theta_bar, bar = pull(G, inputs or learns)
    if learns:
        bars.append((P, bar))
    return _joined(kernel, P, theta_bar, kernel.own_gradient(slopes, *bars), bar, inputs)


def _pull_diag(kernel, X, pull, g_signal, g_noise, inputs):
    learns = kernel.learns_neutral() and np.isnan(X).any()
    theta_bar, bar = pull(g_signal, g_noise, inputs or learns)
    own = kernel.own_gradient(np.zeros(X.shape[-1]), *([(X, bar)] if learns else []))
    return _joined(kernel, X, theta_bar, own, bar, inputs)


def _joined(kernel, points, theta_bar, own, bar, inputs):
    theta_bar = np.concatenate([theta_bar, own])
    return theta_bar, kernel.pull(points, bar) if inputs and np.ndim(bar) else 0.0


def missing_parts(kernel, d):
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


def has_missing(kernel):
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


def bare(kernel, d):
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


def with_gaps(kernel, d, lacks, mean, std):
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

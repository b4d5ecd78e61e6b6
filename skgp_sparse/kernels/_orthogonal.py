"""An additive kernel whose parts of different columns are orthogonal."""

from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from skgp_sparse._ground.plain_text import as_text

from ._nodes import node
from ._orthogonal_rule import ColumnFactor, others_of, symmetric_sums
from ._rules import Array


class OrthogonalAdditive(Kernel):
    r"""An additive kernel of columns, pairs of columns and so on, which are orthogonal.

    .. math:: k(x, z) = \sum_{r=0}^{R} \sigma_r^2 \sum_{|S| = r} \prod_{j \in S}
        \tilde k_j(x_j, z_j)

    where S are sets of r columns, and :math:`\tilde k_j` is an `RBF` kernel of one column that is
    constrained to functions whose mean is 0 if the column is normal, :math:`N(\mu_j, \delta_j^2)`:

    .. math:: \tilde k_j(x, z) = e^{-(x - z)^2 / 2 l^2} - \frac{l \sqrt{l^2 + 2 \delta^2}}
        {l^2 + \delta^2} \, e^{-((x - \mu)^2 + (z - \mu)^2) / 2 (l^2 + \delta^2)}.

    A part of the function is then what its columns do together, and not what fewer of them do
    already. `SparseGPRegressor.components` tells the parts. The kernel is for reading: the full
    default kernel is mostly more accurate.

    Parameters
    ----------
    order : int, default=2
        The largest number R of columns that act together.
    length_scale : float or ndarray of shape (d,), default=1.0
        The length scales l.
    length_scale_bounds : pair of floats or "fixed", default=(1e-2, 1e3)
        Their bounds.
    variances : float or ndarray of shape (order + 1,), default=1.0
        The variances :math:`\sigma_0^2` to :math:`\sigma_R^2`.
    variances_bounds : pair of floats or "fixed", default=(1e-6, 1e4)
        Their bounds.
    units : pair of ndarray of shape (d,), default=None
        The means μ and standard deviations δ of the columns, which `fit` sets. None means 0 and 1.

    References
    ----------
    Lu, Boukouvalas, Hensman (2022). "Additive Gaussian processes revisited." ICML, equations 8, 9.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.kernels import OrthogonalAdditive
    >>> X = np.random.RandomState(0).normal(size=(200, 3))
    >>> y = np.sin(X[:, 0]) + X[:, 0] * X[:, 1]
    >>> kernel = OrthogonalAdditive(length_scale=np.ones(3))
    >>> parts = SparseGPRegressor(kernel, random_state=0).fit(X, y).components(X)
    >>> parts.columns
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    >>> parts.share.round(1)
    array([0.3, 0. , 0. , 0.7, 0. , 0. ])
    """

    def __init__(
        self,
        order: int = 2,
        length_scale: npt.ArrayLike = 1.0,
        length_scale_bounds: tuple[float, float] | Literal["fixed"] = (1e-2, 1e3),
        variances: npt.ArrayLike | None = 1.0,
        variances_bounds: tuple[float, float] | Literal["fixed"] = (1e-6, 1e4),
        units: Any = None,
    ) -> None:
        self.order = order
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds
        self.variances = variances
        self.variances_bounds = variances_bounds
        self.units = units

    @property
    def hyperparameter_length_scale(self) -> Hyperparameter:
        """Those of the columns, or of all of them."""
        size = np.size(self.length_scale)
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds, size)

    @property
    def hyperparameter_variances(self) -> Hyperparameter:
        """Those of the orders, 0 included."""
        self.check_order()
        return Hyperparameter("variances", "numeric", self.variances_bounds, self.order + 1)

    @property
    def theta(self) -> Any:
        """Logarithms of the free hyperparameters."""
        values = {"length_scale": self.length_scale, "variances": self.of_orders()}
        own = [np.log(np.ravel(values[one.name])) for one in self.hyperparameters if not one.fixed]
        return np.concatenate([np.zeros(0), *own])

    @theta.setter
    def theta(self, theta: Array) -> Any:
        start = 0
        for one in self.hyperparameters:
            if one.fixed:
                continue
            value = np.exp(theta[start : start + one.n_elements])
            is_number = one.name == "length_scale" and np.ndim(self.length_scale) == 0
            self.set_params(**{one.name: value[0] if is_number else value})
            start += one.n_elements

    def __repr__(self) -> str:
        scales = ", ".join(f"{one:.3g}" for one in np.ravel(self.length_scale))
        variances = ", ".join(f"{one:.3g}" for one in self.of_orders())
        return f"OrthogonalAdditive(length_scale=[{scales}], variances=[{variances}])"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, its = self.get_params(), other.get_params()
        return all(np.array_equal(mine[name], its[name]) for name in mine)

    def is_stationary(self) -> bool:
        """Return False: it knows where the columns are."""
        return False

    def __call__(self, X: Array, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix ``k(X, Y)``, and its gradient if that is wanted.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d), default=None
            None means `X`.
        eval_gradient : bool, default=False
            Whether the gradient with respect to theta is returned. `Y` must be None then.

        Returns
        -------
        K : ndarray of shape (n, m)
        K_gradient : ndarray of shape (n, n, p)
            Only if `eval_gradient` is True.
        """
        X = np.atleast_2d(X)
        factors = [
            factor.cross(X, X if Y is None else np.atleast_2d(Y)) for factor in self.factors(X)
        ]
        sums, v = symmetric_sums(factors, self.order), self.of_orders()
        K = np.tensordot(v, sums, axes=1)
        if not eval_gradient:
            return K
        slopes = [
            others_of(sums, one, v) * factor.slope(X, X)
            for factor, one in zip(self.factors(X), factors)
        ]
        slopes = slopes if np.ndim(self.length_scale) else [sum(slopes)]
        found = {"length_scale": slopes, "variances": [a * E for a, E in zip(v, sums)]}
        own = [one for name in self._free() for one in found[name]]
        return K, np.stack(own, axis=2) if own else np.zeros((*K.shape, 0))

    def diag(self, X: Array) -> Array:
        """Return ``k(x, x)`` of every row of X.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        X = np.atleast_2d(X)
        factors = [factor.diag(X) for factor in self.factors(X)]
        return self.of_orders() @ symmetric_sums(factors, self.order)

    def of_orders(self) -> Any:
        """Return the variances (order + 1,)."""
        self.check_order()
        return np.broadcast_to(np.asarray(self.variances, dtype=float), self.order + 1)

    def factors(self, X: Array) -> Any:
        """Return the `ColumnFactor` of every column of inputs (n, d)."""
        d = X.shape[1]
        mean, std = (np.zeros(d), np.ones(d)) if self.units is None else self.units
        scales = np.broadcast_to(self.length_scale, d)
        return [ColumnFactor(j, *one) for j, one in enumerate(zip(scales, mean, std))]

    def check_order(self) -> None:
        """Raise unless the order is a number of columns."""
        if not isinstance(self.order, Integral) or self.order < 1:
            raise ValueError(
                f"order of OrthogonalAdditive must be a positive int. Got {as_text(self.order)}."
            )

    def _free(self) -> Any:
        return [one.name for one in self.hyperparameters if not one.fixed]


def with_units(kernel: Kernel, d: int, mean: Any, std: Any) -> Kernel:
    """Return a kernel whose `OrthogonalAdditive` parts know how columns are distributed.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, of which the caller has the only copy.
    d : int
        Number of input columns.
    mean, std : ndarray of shape (d,)
        Of the columns.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        The kernel.
    """
    for part, columns in additive_parts(kernel, d):
        if part.units is None:
            part.units = mean[columns], std[columns]
    return kernel


def additive_parts(kernel: Kernel, d: int) -> Any:
    """Return the `OrthogonalAdditive` parts of a kernel, and the columns of each.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int
        Number of input columns.

    Returns
    -------
    list of tuple of (OrthogonalAdditive, ndarray)
    """
    pairs = node(kernel).seen(np.arange(d))
    return [
        (part.kernel, columns)
        for part, columns in pairs
        if type(part.kernel) is OrthogonalAdditive and columns is not None
    ]

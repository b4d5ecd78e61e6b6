"""An additive kernel whose parts of different columns are orthogonal."""

from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.plain_text import as_text

from ._differentiable import DifferentiableKernel
from ._functions import parts_by_columns
from ._rules import Array, Pull, Scalars


class OrthogonalAdditive(DifferentiableKernel):
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

    footprint = 4

    def __init__(
        self,
        order: int = 2,
        length_scale: npt.ArrayLike = 1.0,
        length_scale_bounds: tuple[float, float] | Literal["fixed"] = (1e-2, 1e3),
        variances: npt.ArrayLike | None = 1.0,
        variances_bounds: tuple[float, float] | Literal["fixed"] = (1e-6, 1e4),
        units: tuple[Array, Array] | None = None,
    ) -> None:
        self.order = order
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds
        self.variances = variances
        self.variances_bounds = variances_bounds
        self.units = units

    def _current(self, name: str) -> Any:
        """Value of a hyperparameter; the variances have one element for each order."""
        return self.of_orders() if name == "variances" else self.length_scale

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback."""
        sums = symmetric_sums([one.cross(X, Z) for one in self.factors(X)], self.order)
        return np.tensordot(self.of_orders(), sums, axes=1), partial(_pull, self, X, Z, sums)

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(x, x)`` for every row of X, and its pullback."""
        sums = symmetric_sums([one.diag(X) for one in self.factors(X)], self.order)
        return self.of_orders() @ sums, partial(_pull_diag, self, X, sums)

    def of_orders(self) -> Array:
        """Return the variances (order + 1,)."""
        self.check_order()
        return np.broadcast_to(np.asarray(self.variances, dtype=float), self.order + 1)

    def factors(self, X: Array) -> "list[ColumnFactor]":
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


def with_units(kernel: Kernel, d: int, mean: Array, std: Array) -> Kernel:
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
    for part, columns in parts_by_columns(kernel, d, OrthogonalAdditive):
        if part.units is None:
            part.units = mean[columns], std[columns]
    return kernel


class ColumnFactor:
    """The constrained kernel of one column."""

    def __init__(self, j: int, scale: float, mean: float, std: float) -> None:
        self.j, self.scale, self.mean = j, scale, mean
        self.wide = scale**2 + std**2
        wider = scale**2 + 2.0 * std**2
        self.constant = scale * np.sqrt(wider) / self.wide
        self.of_constant = 1.0 + scale**2 / wider - 2.0 * scale**2 / self.wide  # d log c / d log l

    def bump(self, X: Array) -> Array:
        """``exp(-(x - μ)²/2(l² + δ²))`` (n,)."""
        return np.exp(-0.5 * (X[:, self.j] - self.mean) ** 2 / self.wide)

    def distances(self, X: Array, Z: Array) -> Array:
        """``(x - z)/l`` (n, m)."""
        return (X[:, self.j, None] - Z[:, self.j]) / self.scale

    def cross(self, X: Array, Z: Array) -> Array:
        """Values (n, m)."""
        K = np.exp(-0.5 * self.distances(X, Z) ** 2)
        return K - np.outer(self.constant * self.bump(X), self.bump(Z))

    def slope(self, X: Array, Z: Array) -> Array:
        """Derivatives (n, m) with respect to log l."""
        D, a, b = self.distances(X, Z) ** 2, self.bump(X), self.bump(Z)
        share = (self.scale / self.wide) ** 2
        from_x = a * (self.of_constant + share * (X[:, self.j] - self.mean) ** 2)
        from_z = b * share * (Z[:, self.j] - self.mean) ** 2
        return D * np.exp(-0.5 * D) - self.constant * (np.outer(from_x, b) + np.outer(a, from_z))

    def input_slope(self, X: Array, Z: Array) -> Array:
        """Derivatives (n, m) with respect to z."""
        D = self.distances(X, Z)
        of_z = self.bump(Z) * (Z[:, self.j] - self.mean) / self.wide
        return np.exp(-0.5 * D**2) * D / self.scale + np.outer(self.constant * self.bump(X), of_z)

    def diag(self, X: Array) -> Array:
        """Values (n,)."""
        return 1.0 - self.constant * self.bump(X) ** 2

    def diag_slopes(self, X: Array) -> tuple[Array, Array]:
        """Derivatives (n,) of these with respect to log l, and to x."""
        x, b = X[:, self.j] - self.mean, self.constant * self.bump(X) ** 2
        of_scale = self.of_constant + 2.0 * (self.scale * x / self.wide) ** 2
        return -b * of_scale, 2.0 * b * x / self.wide


def symmetric_sums(factors: list[Array], order: int) -> Array:
    """Elementary symmetric polynomials of orders 0 to `order`, an array (order + 1, ...)."""
    sums = np.zeros((order + 1, *factors[0].shape))
    sums[0] = 1.0
    for factor in factors:
        for r in range(order, 0, -1):
            sums[r] += factor * sums[r - 1]
    return sums


def others_of(sums: Array, factor: Array, variances: Array) -> Array:
    """``Σ_r σ_r² E_{r-1}`` of the other columns: the derivative with respect to a factor."""
    others, total = np.ones_like(factor), variances[1] * np.ones_like(factor)
    for r in range(2, len(variances)):
        others = sums[r - 1] - factor * others
        total += variances[r] * others
    return total


def _pull(
    kernel: OrthogonalAdditive, X: Array, Z: Array, sums: Array, G: Array, inputs: bool
) -> tuple[Any, Any]:
    v, slopes, Z_bar = kernel.of_orders(), [], np.zeros(Z.shape)
    for j, factor in enumerate(kernel.factors(X)):
        H = G * others_of(sums, factor.cross(X, Z), v)
        slopes.append(np.vdot(H, factor.slope(X, Z)))
        if inputs:
            Z_bar[:, j] = np.einsum("ij,ij->j", H, factor.input_slope(X, Z))
    of_orders = v * np.tensordot(sums, G, axes=G.ndim)
    return _gradients(kernel, slopes, of_orders), Z_bar if inputs else 0.0


def _pull_diag(
    kernel: OrthogonalAdditive, X: Array, sums: Array, g: Array, inputs: bool
) -> tuple[Any, Any]:
    v, slopes, X_bar = kernel.of_orders(), [], np.zeros(X.shape)
    for j, factor in enumerate(kernel.factors(X)):
        h = g * others_of(sums, factor.diag(X), v)
        of_scale, of_x = factor.diag_slopes(X)
        slopes.append(h @ of_scale)
        X_bar[:, j] = h * of_x
    return _gradients(kernel, slopes, v * (sums @ g)), X_bar if inputs else 0.0


def _gradients(kernel: OrthogonalAdditive, slopes: list[Any], of_orders: Array) -> dict[str, Any]:
    of_scale = np.array(slopes) if np.ndim(kernel.length_scale) else np.sum(slopes)
    return {"length_scale": of_scale, "variances": of_orders}

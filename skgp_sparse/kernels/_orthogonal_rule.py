"""The rule of `OrthogonalAdditive`: kernels of one column, and sums of their products."""

from functools import partial

import numpy as np

from ._rules import KernelRule


class ColumnFactor:
    """The constrained kernel of one column."""

    def __init__(self, j, scale, mean, std):
        self.j, self.scale, self.mean = j, scale, mean
        self.wide = scale**2 + std**2
        wider = scale**2 + 2.0 * std**2
        self.constant = scale * np.sqrt(wider) / self.wide
        self.of_constant = 1.0 + scale**2 / wider - 2.0 * scale**2 / self.wide  # d log c / d log l

    def bump(self, X):
        """``exp(-(x - μ)²/2(l² + δ²))`` (n,)."""
        return np.exp(-0.5 * (X[:, self.j] - self.mean) ** 2 / self.wide)

    def distances(self, X, Z):
        """``(x - z)/l`` (n, m)."""
        return (X[:, self.j, None] - Z[:, self.j]) / self.scale

    def cross(self, X, Z):
        """Values (n, m)."""
        K = np.exp(-0.5 * self.distances(X, Z) ** 2)
        return K - np.outer(self.constant * self.bump(X), self.bump(Z))

    def slope(self, X, Z):
        """Derivatives (n, m) with respect to log l."""
        D, a, b = self.distances(X, Z) ** 2, self.bump(X), self.bump(Z)
        share = (self.scale / self.wide) ** 2
        from_x = a * (self.of_constant + share * (X[:, self.j] - self.mean) ** 2)
        from_z = b * share * (Z[:, self.j] - self.mean) ** 2
        return D * np.exp(-0.5 * D) - self.constant * (np.outer(from_x, b) + np.outer(a, from_z))

    def input_slope(self, X, Z):
        """Derivatives (n, m) with respect to z."""
        D = self.distances(X, Z)
        of_z = self.bump(Z) * (Z[:, self.j] - self.mean) / self.wide
        return np.exp(-0.5 * D**2) * D / self.scale + np.outer(self.constant * self.bump(X), of_z)

    def diag(self, X):
        """Values (n,)."""
        return 1.0 - self.constant * self.bump(X) ** 2

    def diag_slopes(self, X):
        """Derivatives (n,) of these with respect to log l, and to x."""
        x, b = X[:, self.j] - self.mean, self.constant * self.bump(X) ** 2
        of_scale = self.of_constant + 2.0 * (self.scale * x / self.wide) ** 2
        return -b * of_scale, 2.0 * b * x / self.wide


def symmetric_sums(factors, order):
    """Elementary symmetric polynomials of orders 0 to `order`, an array (order + 1, ...)."""
    sums = np.zeros((order + 1, *factors[0].shape))
    sums[0] = 1.0
    for factor in factors:
        for r in range(order, 0, -1):
            sums[r] += factor * sums[r - 1]
    return sums


def others_of(sums, factor, variances):
    """``Σ_r σ_r² E_{r-1}`` of the other columns: the derivative with respect to a factor."""
    others, total = np.ones_like(factor), variances[1] * np.ones_like(factor)
    for r in range(2, len(variances)):
        others = sums[r - 1] - factor * others
        total += variances[r] * others
    return total


class OrthogonalRule(KernelRule):
    """The rule of `OrthogonalAdditive`."""

    footprint = 4

    def cross(self, kernel, X, Z):
        sums = symmetric_sums([one.cross(X, Z) for one in kernel.factors(X)], kernel.order)
        return np.tensordot(kernel.of_orders(), sums, axes=1), partial(_pull, kernel, X, Z, sums)

    def diag(self, kernel, X):
        sums = symmetric_sums([one.diag(X) for one in kernel.factors(X)], kernel.order)
        return kernel.of_orders() @ sums, partial(_pull_diag, kernel, X, sums)


def _pull(kernel, X, Z, sums, G, inputs):
    v, slopes, Z_bar = kernel.of_orders(), [], np.zeros(Z.shape)
    for j, factor in enumerate(kernel.factors(X)):
        H = G * others_of(sums, factor.cross(X, Z), v)
        slopes.append(np.vdot(H, factor.slope(X, Z)))
        if inputs:
            Z_bar[:, j] = np.einsum("ij,ij->j", H, factor.input_slope(X, Z))
    of_orders = v * np.tensordot(sums, G, axes=G.ndim)
    return _gradients(kernel, slopes, of_orders), Z_bar if inputs else 0.0


def _pull_diag(kernel, X, sums, g, inputs):
    v, slopes, X_bar = kernel.of_orders(), [], np.zeros(X.shape)
    for j, factor in enumerate(kernel.factors(X)):
        h = g * others_of(sums, factor.diag(X), v)
        of_scale, of_x = factor.diag_slopes(X)
        slopes.append(h @ of_scale)
        X_bar[:, j] = h * of_x
    return _gradients(kernel, slopes, v * (sums @ g)), X_bar if inputs else 0.0


def _gradients(kernel, slopes, of_orders):
    slopes = np.array(slopes) if np.ndim(kernel.length_scale) else np.sum(slopes)
    return {"length_scale": slopes, "variances": of_orders}

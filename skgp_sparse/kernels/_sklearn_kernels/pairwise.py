"""scikit-learn's PairwiseKernel, one rule per metric; g is gamma.

    linear         t = x.z             poly, sigmoid   (g t + c0)^q,  tanh(g t + c0)
    cosine         t / (|x| |z|)       dk/dz = (x / |x| - k z / |z|) / |z|
    rbf            exp(-g |x - z|^2)   a squared exponential with l = (2 g)^(-1/2)
    laplacian      exp(-g S),  S = sum_d |x_d - z_d|
    chi2           exp(-g S),  S = sum_d (x_d - z_d)^2 / (x_d + z_d)
    additive_chi2  -S          dS/dz = -(x - z) (3 x + z) / (x + z)^2

gamma is in theta for every metric; where a metric ignores it, its gradient is 0.
"""

from functools import partial

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from .._rules import KernelRule, constant_diag
from .formulas import RBF_RULE, UnitRule


class InnerProductRule(KernelRule):
    """``f(g x.z)`` for a scalar function f.

    Parameters
    ----------
    function : callable
        ``function(u, **options) -> (value, slope)``, where ``slope()`` returns ``f'(u)``.
    uses_gamma : bool
        If not, ``u = x.z``.
    """

    footprint = 3

    def __init__(self, function, uses_gamma):
        self.function, self.uses_gamma = function, uses_gamma

    def linearize(self, kernel, X, Z):
        gamma, options = self._parameters(kernel)
        u = X @ Z.T
        u *= gamma
        K, slope = self.function(u, **options)
        return K, partial(self._pull_cross, gamma, X, u, slope)

    def linearize_diag(self, kernel, X):
        gamma, options = self._parameters(kernel)
        u = gamma * np.einsum("ij,ij->i", X, X)
        value, slope = self.function(u, **options)
        return value, partial(self._pull_diag, gamma, X, u, slope)

    def _pull_cross(self, gamma, X, u, slope, G, inputs):
        np.multiply(G, slope(), out=G)
        return {"gamma": np.vdot(G, u)} if self.uses_gamma else {}, gamma * (G.T @ X)

    def _pull_diag(self, gamma, X, u, slope, g, inputs):
        weights = g * slope()
        gradients = {"gamma": weights @ u} if self.uses_gamma else {}
        return gradients, 2.0 * gamma * weights[:, None] * X

    def _parameters(self, kernel):
        gamma = float(kernel.gamma) if self.uses_gamma else 1.0
        return gamma, kernel.pairwise_kernels_kwargs or {}


def _identity(u, **_):
    return u, _one


def _one():
    return 1.0


def _polynomial(u, degree=3, coef0=1, **_):
    base = u + coef0
    return np.power(base, degree), partial(_power_slope, base, degree)


def _power_slope(base, degree):
    return degree * np.power(base, degree - 1)


def _tanh(u, coef0=1, **_):
    value = np.tanh(u + coef0)
    return value, partial(_tanh_slope, value)


def _tanh_slope(value):
    return 1.0 - value**2


class CosineRule(KernelRule):
    """Inner product of the directions; a zero row has direction 0."""

    footprint = 1

    def linearize(self, kernel, X, Z):
        x, (z, norms) = _directions(X)[0], _directions(Z)
        return x @ z.T, partial(_pull_cosine, x, z, norms)

    def linearize_diag(self, kernel, X):
        return constant_diag(np.any(X, axis=1).astype(np.float64))


def _pull_cosine(x, z, norms, G, inputs):
    C = G.T @ x
    return {}, (C - np.sum(C * z, axis=1, keepdims=True) * z) / norms


def _directions(X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    norms[norms == 0.0] = 1.0
    return X / norms, norms


class GaussianRule(UnitRule):
    """``exp(-g r^2)``, the rule of RBF; dk/dlog g = -1/2 dk/dlog l."""

    footprint = RBF_RULE.footprint

    def linearize(self, kernel, X, Z):
        K, pull = RBF_RULE.linearize(RBF((2.0 * float(kernel.gamma)) ** -0.5), X, Z)
        return K, partial(_pull_gaussian, pull)


def _pull_gaussian(pull, G, inputs):
    gradients, Z_bar = pull(G, inputs)
    return {"gamma": -0.5 * gradients["length_scale"]}, Z_bar


class ExponentialRule(UnitRule):
    """``exp(-g S)`` for a distance S that is a sum over columns.

    Parameters
    ----------
    column : callable
        ``column(x, z) -> S_d`` and
    slope : callable
        ``slope(x, z) -> -dS_d/dz``, both for ``(n, 1)`` and ``(1, m)`` columns.
    """

    footprint = 2

    def __init__(self, column, slope):
        self.column, self.slope = column, slope

    def linearize(self, kernel, X, Z):
        gamma = float(kernel.gamma)
        S = _sum_of_columns(self.column, X, Z)
        K = np.exp(-gamma * S)
        return K, partial(self._pull, gamma, X, Z, S, K)

    def _pull(self, gamma, X, Z, S, K, G, inputs):
        np.multiply(G, K, out=G)
        Z_bar = gamma * _pull_columns(self.slope, X, Z, G) if inputs else 0.0
        return {"gamma": -gamma * np.vdot(G, S)}, Z_bar


class AdditiveChi2Rule(KernelRule):
    """``-S`` of chi2."""

    footprint = 1

    def linearize(self, kernel, X, Z):
        S = _sum_of_columns(_chi2, X, Z)
        return np.negative(S, out=S), partial(_pull_chi2, X, Z)

    def linearize_diag(self, kernel, X):
        return constant_diag(0.0)


def _pull_chi2(X, Z, G, inputs):
    return {}, _pull_columns(_chi2_slope, X, Z, G) if inputs else 0.0


def _sum_of_columns(column, X, Z):
    S = np.zeros((len(X), len(Z)))
    for x, z in zip(X.T, Z.T, strict=True):
        S += column(x[:, None], z)
    return S


def _pull_columns(slope, X, Z, W):
    columns = [
        np.einsum("ij,ij->j", W, slope(x[:, None], z)) for x, z in zip(X.T, Z.T, strict=True)
    ]
    return np.stack(columns, axis=1)


def _absolute(x, z):
    return np.abs(x - z)


def _sign(x, z):
    return np.sign(x - z)


def _chi2(x, z):
    lowest = min(x.min(initial=0.0), z.min(initial=0.0))
    if lowest < 0.0:
        raise ValueError(
            f"The chi2 kernels need inputs >= 0, but one input is {lowest}. Shift the columns, or "
            "use another kernel."
        )
    return (x - z) ** 2 / _nonzero(x + z)


def _chi2_slope(x, z):
    return (x - z) * (3.0 * x + z) / _nonzero(x + z) ** 2


def _nonzero(total):
    # 0 / 0 counts as 0: both entries are 0
    total[total == 0.0] = 1.0
    return total


_POLYNOMIAL = InnerProductRule(_polynomial, uses_gamma=True)
_RULES = {
    "linear": InnerProductRule(_identity, uses_gamma=False),
    "poly": _POLYNOMIAL,
    "polynomial": _POLYNOMIAL,
    "sigmoid": InnerProductRule(_tanh, uses_gamma=True),
    "cosine": CosineRule(),
    "rbf": GaussianRule(),
    "laplacian": ExponentialRule(_absolute, _sign),
    "chi2": ExponentialRule(_chi2, _chi2_slope),
    "additive_chi2": AdditiveChi2Rule(),
}


def rule(kernel):
    """Return the rule for the metric of a PairwiseKernel, None for a callable metric."""
    return _RULES.get(kernel.metric) if isinstance(kernel.metric, str) else None

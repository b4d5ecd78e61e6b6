"""The constant kernel, the dot product, and the stationary kernels.

    Constant           c                                    dk/dlog c = c
    DotProduct         s0^2 + x.z                           dk/dlog s0 = 2 s0^2,  dk/dz = x

A stationary kernel is a formula of ``H = -r^2/2``, and its slope ``h(r) = -(1/r) dk/dr``:

    RBF, Matern(inf)   exp(H)                                   h = k
    Matern(1/2)        exp(-r)                                  h = k / r
    Matern(3/2)        (1 + s) exp(-s),            s = sqrt(3) r    h = 3 exp(-s)
    Matern(5/2)        (1 + s + s^2/3) exp(-s),    s = sqrt(5) r    h = 5/3 (1 + s) exp(-s)
    RationalQuadratic  b^-a,  b = 1 - H / a                     h = k / b
    ExpSineSquared     exp(-2 sin^2(t) / l^2),  t = pi |x-z| / p    h = k (2 / l^2) sin(2t) / t

A profile takes ``H``, may overwrite it, and returns the value and ``weigh(G) -> factor``, which
leaves ``W = G * h / factor`` in ``G``. Exponents end at -230: products of values below 1e-100 would
underflow, and processors multiply subnormal numbers twenty times as slowly.
"""

from functools import partial

import numpy as np
from scipy.spatial.distance import squareform

from skgp_sparse._ground.parallel import empty

from .._nodes import KernelRule, constant_diag
from .distances import LARGEST, PointSets, Separation, half_of_pairs

LOWEST = 230.0  # minus the exponent of the smallest value


def squared_exponential(H):
    """Profile of RBF."""
    K = np.exp(H, out=H)
    return K, partial(_times, K, 1.0)


def matern_12(H):
    """Profile of Matern with nu = 1/2."""
    r = _distance(H, 1.0)
    K = np.negative(r, out=empty(r.shape))
    np.exp(K, out=K)
    return K, partial(_weigh_12, K, r)


def _weigh_12(K, r, G):
    G *= K
    # coincident pairs: Separation.pull drops them
    with np.errstate(divide="ignore", invalid="ignore"):
        G /= r
    return 1.0


def matern_32(H):
    """Profile of Matern with nu = 3/2."""
    s = _distance(H, 3.0)
    e = np.negative(s, out=empty(s.shape))
    np.exp(e, out=e)
    s += 1.0
    s *= e
    return s, partial(_times, e, 3.0)


def matern_52(H):
    """Profile of Matern with nu = 5/2."""
    s = _distance(H, 5.0)
    e = np.negative(s, out=empty(s.shape))
    np.exp(e, out=e)
    se = np.multiply(s, e, out=empty(s.shape))
    e += se
    s *= se
    s *= 1.0 / 3.0
    s += e
    return s, partial(_times, e, 5.0 / 3.0)


def _times(h, factor, G):
    np.multiply(G, h, out=G)
    return factor


def _distance(H, squared_factor):
    """Turn ``H`` into ``sqrt(squared_factor) r`` in place."""
    H *= -2.0 * squared_factor
    return np.sqrt(H, out=H)


class UnitRule(KernelRule):
    """A kernel with ``k(x, x) = 1``; abstract."""

    def linearize_diag(self, kernel, X):
        return constant_diag(1.0)


class LengthScaleRule(UnitRule):
    """A stationary kernel whose only hyperparameter is its length scale.

    Parameters
    ----------
    profile : callable
        ``profile(H) -> (K, weigh)``.
    roots : bool
        Whether the profile takes the root of ``H``.
    footprint : int
        Arrays kept alive.
    nu : float
        Of a Matern kernel, where ``H`` enters by its root; infinite where it enters itself.
    """

    def __init__(self, profile, roots, footprint, nu=np.inf):
        self.profile, self.roots, self.footprint, self.nu = profile, roots, footprint, nu
        self.far = max(LOWEST, LOWEST**2 / (4.0 * nu))

    def linearize(self, kernel, X, Z):
        scale = length_scale(kernel, X.shape[1])
        return self._of_pairs(kernel, Separation(X, Z, scale, self.roots, self.far))

    def linearize_stack(self, kernel, P):
        scale = length_scale(kernel, P.shape[2])
        return self._of_pairs(kernel, PointSets(P, scale, self.roots, self.far))

    def _of_pairs(self, kernel, pairs):
        K, weigh = self.profile(pairs.half)
        del pairs.half
        return K, partial(_pull_length_scale, kernel, pairs, weigh)

    def evaluate(self, kernel, X, Z):
        half = None
        if self.roots and X is Z:
            half = half_of_pairs(X, length_scale(kernel, X.shape[1]), self.far)
        if half is None:
            return super().evaluate(kernel, X, Z)
        K = squareform(self.profile(half)[0], checks=False)
        np.fill_diagonal(K, 1.0)
        return K


def _pull_length_scale(kernel, pairs, weigh, G, inputs):
    log_scale, Z_bar = pairs.pull(G, weigh(G))
    isotropic = np.size(kernel.length_scale) == 1
    return {"length_scale": log_scale.sum() if isotropic else log_scale}, Z_bar


def length_scale(kernel, d):
    """Return the length scale of `kernel` per column, (d,)."""
    scale = np.atleast_1d(np.squeeze(np.asarray(kernel.length_scale, dtype=np.float64)))
    if scale.shape not in ((1,), (d,)):
        raise ValueError(
            f"{type(kernel).__name__} has a length_scale of shape {scale.shape}, but the inputs "
            f"have {d} columns. Pass one length scale, or one per column."
        )
    return np.zeros(d) + scale


class RationalQuadraticRule(UnitRule):
    """``(1 + c)^-a`` with ``c = r^2 / (2 a)``, which keeps its digits where a is large."""

    footprint = 2

    def linearize(self, kernel, X, Z):
        return self._of_pairs(kernel, Separation(X, Z, float(kernel.length_scale), roots=False))

    def linearize_stack(self, kernel, P):
        return self._of_pairs(kernel, PointSets(P, float(kernel.length_scale), roots=False))

    def _of_pairs(self, kernel, pairs):
        alpha, c = float(kernel.alpha), pairs.half
        del pairs.half
        c *= -1.0 / alpha
        np.clip(c, 0.0, LARGEST, out=c)
        K = np.log1p(c)
        K *= -alpha
        np.exp(K, out=K)
        return K, partial(_pull_rational_quadratic, kernel, pairs, alpha, c, K)


def _pull_rational_quadratic(kernel, pairs, alpha, c, K, G, inputs):
    np.multiply(G, K, out=G)
    log_alpha = 0.0
    if not kernel.hyperparameter_alpha.fixed:  # dk/dlog a = a k (c / (1 + c) - log(1 + c))
        slope = c / (1.0 + c)
        slope -= np.log1p(c)
        log_alpha = alpha * np.vdot(G, slope)
    c += 1.0
    np.divide(G, c, out=G)
    log_scale, Z_bar = pairs.pull(G, 1.0)
    return {"alpha": log_alpha, "length_scale": log_scale.sum()}, Z_bar


class ExpSineSquaredRule(UnitRule):
    """``exp(-2 sin^2(t) / l^2)``: stationary in t, where p / pi is the length scale."""

    footprint = 2

    def linearize(self, kernel, X, Z):
        return self._of_pairs(kernel, Separation(X, Z, _period(kernel), roots=True))

    def linearize_stack(self, kernel, P):
        return self._of_pairs(kernel, PointSets(P, _period(kernel), roots=True))

    def _of_pairs(self, kernel, pairs):
        rate = 2.0 / float(kernel.length_scale) ** 2
        t = _distance(pairs.half, 1.0)
        del pairs.half
        K = np.sin(t)
        np.multiply(K, K, out=K)
        K *= -rate
        np.exp(K, out=K)
        return K, partial(_pull_sine, pairs, rate, t, K)


def _period(kernel):
    """Return the length scale of t."""
    return float(kernel.periodicity) / np.pi


def _pull_sine(pairs, rate, t, K, G, inputs):
    np.multiply(G, K, out=G)
    sine = np.sin(t)
    cosine = np.cos(t)
    cosine *= sine
    sine *= sine
    log_length = 2.0 * rate * np.vdot(G, sine)
    G *= cosine
    # coincident pairs: Separation.pull drops them
    with np.errstate(divide="ignore", invalid="ignore"):
        G /= t
    log_period, Z_bar = pairs.pull(G, 2.0 * rate)
    return {"length_scale": log_length, "periodicity": log_period.sum()}, Z_bar


RBF_RULE = LengthScaleRule(squared_exponential, roots=False, footprint=1)
_MATERN = {
    0.5: LengthScaleRule(matern_12, roots=True, footprint=2, nu=0.5),
    1.5: LengthScaleRule(matern_32, roots=True, footprint=2, nu=1.5),
    2.5: LengthScaleRule(matern_52, roots=True, footprint=2, nu=2.5),
    np.inf: RBF_RULE,
}


def matern_rule(kernel):
    """Return the rule for the nu of a Matern kernel, None for those without one."""
    return _MATERN.get(float(kernel.nu))


class ConstantRule(KernelRule):
    """A scalar everywhere."""

    footprint = 0

    def linearize(self, kernel, X, Z):
        return self.linearize_diag(kernel, X)

    def linearize_stack(self, kernel, P):
        return self.linearize_diag(kernel, P)

    def linearize_diag(self, kernel, X):
        value = float(kernel.constant_value)
        return value, partial(_pull_constant, kernel, value)


def _pull_constant(kernel, value, G, inputs):
    # a fixed constant needs no pass over G
    fixed = kernel.hyperparameter_constant_value.fixed
    return ({} if fixed else {"constant_value": value * np.sum(G)}), 0.0


class DotProductRule(KernelRule):
    """``s0^2 + x.z``; not centred, for the kernel is not stationary."""

    footprint = 1

    def linearize(self, kernel, X, Z):
        variance = float(kernel.sigma_0) ** 2
        K = X @ Z.T
        K += variance
        return K, partial(_pull_product, variance, X)

    def linearize_diag(self, kernel, X):
        variance = float(kernel.sigma_0) ** 2
        return variance + np.einsum("ij,ij->i", X, X), partial(_pull_square, variance, X)


def _pull_product(variance, X, G, inputs):
    return {"sigma_0": 2.0 * variance * np.sum(G)}, G.T @ X if inputs else 0.0


def _pull_square(variance, X, g, inputs):
    return {"sigma_0": 2.0 * variance * np.sum(g)}, 2.0 * g[:, None] * X

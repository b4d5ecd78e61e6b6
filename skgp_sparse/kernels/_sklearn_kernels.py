"""Rules and nodes of scikit-learn's kernels: leaves, sums, products and powers.

A stationary kernel is a formula of ``H = -r^2/2``, and its slope ``h(r) = -(1/r) dk/dr``:

    RBF, Matern(inf)   exp(H)                                   h = k
    Matern(1/2)        exp(-r)                                  h = k / r
    Matern(3/2)        (1 + s) exp(-s),            s = sqrt(3) r    h = 3 exp(-s)
    Matern(5/2)        (1 + s + s^2/3) exp(-s),    s = sqrt(5) r    h = 5/3 (1 + s) exp(-s)
    RationalQuadratic  b^-a,  b = 1 - H / a                     h = k / b
    ExpSineSquared     exp(-2 sin^2(t) / l^2),  t = pi |x-z| / p    h = k (2 / l^2) sin(2t) / t

Their ``H`` comes from `Separation`, for two point sets, or from `PointSets`, for many small ones. A
profile turns it into values and weights.

Rules and nodes are registered here, by the exact types of kernels. PairwiseKernel and Matern of
other nu than 1/2, 3/2, 5/2 and inf have no rule.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as _sk

from skgp_sparse.ground.parallel import applied, empty, slices
from skgp_sparse.ground.validation import Array, Kernel, Pair, Scalars

from ._differentiable import BUILDERS, KernelRule, Leaf, node
from ._nodes import Diagonal, Linearized, Node, Opaque, Pull, Pulled, White, free, no_gradient

Weigh = Callable[[Array], float]
Profiled = tuple[Array, Weigh]
Profile = Callable[..., Profiled]  # of H in any precision

# Below this share of |x|^2 the expanded square has lost too many digits for its root.
_CLOSE = 1e-10
_FEW_COLUMNS = 3  # whose differences are squared one by one, which loses no digit
_FAR = 2.0**20  # |x|^2 from which rows are subtracted directly: off by some 1e-10 below
_EXTREME = 1e50  # |z|^2 from which all rows are
_PAIRS_AT_ONCE = 1 << 16
LARGEST = 1e300  # -H
_REACH = 1e150  # difference of two coordinates in the pullback, whose square is a number


# With ``x = (X - c) / l``, ``z = (Z - c) / l`` and one common centre ``c`` (the median of Z),
#
#     H = -|x - z|^2 / 2 = [x, -|x|^2/2, 1] . [z, 1, -|z|^2/2],
#
# which is one matrix product. For ``h(r) = -(1/r) dk/dr`` and ``W = G * h``,
#
#     dF/dlog l_d = sum_ij W_ij (x_id - z_jd)^2,      dF/dZ_jd = sum_i W_ij (x_id - z_jd) / l_d.
#
# Both come from ``W' [x, x^2, 1]``, one more matrix product and no (n, m, d) array.
#
# The expanded square is off by some ``eps |x|^2``, which matters in few columns, where many rows
# are alike and the variance that is left may be tiny: there, differences are squared one by one.
# Rows so far from the centre that it always matters are subtracted from Z directly, one column
# after the other, here and in the pullback: one centre cannot serve two groups of points that are
# far apart.
#
# Where `roots`, the slope h is infinite at 0, where the kernel has a kink: pairs closer than
# rounding allows are subtracted directly, here and in `pull`. Pairs further apart than -H = `far`
# count as this far.
class Separation:
    """``H = -|x - z|^2 / 2`` of all pairs; `half` is the caller's to overwrite."""

    def __init__(self, X: Array, Z: Array, scale: Scalars, roots: bool, far: float = LARGEST):
        self.scale, self.far = np.zeros(X.shape[1]) + scale, far
        self.half = half = empty((len(X), len(Z)))
        with np.errstate(over="ignore", invalid="ignore"):  # of what is too far, or no number
            centre = np.median(Z, axis=0)
            x, z = self.x, self.z = (X - centre) / self.scale, (Z - centre) / self.scale
            norms, of_z = (np.einsum("ij,ij->i", one, one) for one in (x, z))
            self.distant = np.flatnonzero(~(norms <= _FAR) | ~(of_z.max() <= _EXTREME))
            self.X_distant, self.Z = X[self.distant], Z
            if X.shape[1] <= _FEW_COLUMNS:
                cdist(x, z, "sqeuclidean", out=half)
                half *= -0.5
            else:
                first = np.hstack([x, -0.5 * norms[:, None], np.ones((len(x), 1))])
                second = np.hstack([z, np.ones((len(z), 1)), -0.5 * of_z[:, None]])
                np.matmul(first, second.T, out=half)
            if len(self.distant):
                half[self.distant] = self._half_of_distant()
            np.clip(half, -far, 0.0, out=half)
            self.rows = self.cols = np.zeros(0, dtype=int)
            if roots:
                self._repair(norms)
            elif X is Z or np.array_equal(X, Z):
                np.fill_diagonal(half, 0.0)

    def pull(self, W: Array, factor: float) -> Pair:
        """Return the gradients of log l (d,) and of Z (m, d) for weights ``factor * W``."""
        if len(self.rows):
            near = W[self.rows, self.cols]
            W[self.rows, self.cols] = 0.0
        log_scale, Z_bar = self._pull_expanded(W)
        if len(self.rows):
            offsets = self.x[self.rows] - self.z[self.cols]
            near[~offsets.any(axis=1)] = 0.0  # coincident pairs pull on nothing
            log_scale += near @ offsets**2
            np.add.at(Z_bar, self.cols, near[:, None] * offsets)
        if len(self.distant):
            self._add_distant(W, log_scale, Z_bar)
        return factor * log_scale, Z_bar * (factor / self.scale)

    def _pull_expanded(self, W: Array) -> Pair:
        """Gradients of log l (d,) and of Z (m, d) by products of matrices, for pairs not near."""
        x, d = self.x, self.x.shape[1]
        if len(self.distant):
            x, W = np.delete(x, self.distant, axis=0), np.delete(W, self.distant, axis=0)
        moments = W.T @ np.hstack([x, x**2, np.ones((len(x), 1))])
        first, second, w = moments[:, :d], moments[:, d:-1], moments[:, -1:]
        z = self.z if len(x) else 0.0
        return np.sum(second + z * (w * z - 2.0 * first), axis=0), first - w * z

    def _half_of_distant(self) -> Array:
        """``H``; the difference comes first, and then the scale, so that no digit is lost."""
        w = np.maximum(self.scale, 1.0 / _REACH) ** -2.0
        return -0.5 * cdist(self.X_distant, self.Z, "sqeuclidean", w=w)

    def _add_distant(self, W: Array, log_scale: Array, Z_bar: Array) -> None:
        """Add the gradients of the rows far away, pair by pair."""
        W = np.where(-self._half_of_distant() < self.far, W[self.distant], 0.0)
        for column, (x, z, scale) in enumerate(zip(self.X_distant.T, self.Z.T, self.scale)):
            with np.errstate(over="ignore"):
                offsets = np.clip((x[:, None] - z) / scale, -_REACH, _REACH)
            pulled = W * offsets
            Z_bar[:, column] += pulled.sum(axis=0)
            log_scale[column] += np.vdot(pulled, offsets)

    def _repair(self, norms: Array) -> None:
        """Compute the entries of close pairs, which cancel in products of matrices, one by one."""
        # a pair is close only if its norms are alike, so each row has its own threshold
        limit = -_CLOSE * norms
        limit[self.distant] = 0.0
        close = np.flatnonzero(self.half >= limit[:, None])
        self.rows, self.cols = np.divmod(close, len(self.z))
        flat = self.half.reshape(-1)
        for part in slices(len(close), _PAIRS_AT_ONCE):
            offsets = self.x[self.rows[part]] - self.z[self.cols[part]]
            direct = -0.5 * np.einsum("ij,ij->i", offsets, offsets)
            flat[close[part]] = np.maximum(direct, -self.far)


# Within many small point sets P, with ``x = (P - p) / l``, where p is the first point of each
# set, and symmetric ``W = G * h``,
#
#     dF/dP_a = -2 sum_b W_ab (x_a - x_b) / l,        dF/dlog l = -sum_a (dF/dP_a) P_a.
#
# Both come from one product ``W x`` of every set: the kernel is a function of ``P / l``.
class PointSets:
    """``H = -|x - z|^2 / 2`` of all pairs within each set; `half` is the caller's to overwrite."""

    def __init__(self, P: Array, scale: Scalars, roots: bool, far: float = LARGEST):
        self.scale, d = np.broadcast_to(scale, P.shape[2:]), P.shape[2]
        x = self.x = np.subtract(P, P[:, :1], out=empty(P.shape))
        x /= self.scale
        if d <= _FEW_COLUMNS:
            H: Array | Any = sum((x[:, :, None, j] - x[:, None, :, j]) ** 2 for j in range(d))
            H *= -0.5
        else:
            turned = np.ascontiguousarray(x.transpose(0, 2, 1))  # a view would be slower by half
            H = np.matmul(x, turned, out=empty((*P.shape[:2], P.shape[1])))
            norms = -0.5 * np.einsum("skk->sk", H)
            H += norms[:, :, None]
            H += norms[:, None, :]
            np.einsum("skk->sk", H)[:] = 0.0
        self.half = np.clip(H, -far, 0.0, out=H)
        self.coincident = np.flatnonzero(H == 0.0) if roots else None

    def pull(self, W: Array, factor: float) -> Pair:
        """Return the gradients of log l (d,) and of P (s, k, d) for weights ``factor * W``."""
        if self.coincident is not None:
            W.reshape(-1)[self.coincident] = 0.0
        np.einsum("skk->sk", W)[:] -= np.einsum("ski->sk", W)
        P_bar = np.matmul(W, self.x, out=empty(self.x.shape))
        P_bar *= 2.0 * factor
        log_scale = -np.einsum("ski,ski->i", P_bar, self.x)
        P_bar /= self.scale
        return log_scale, P_bar


Pairs = Separation | PointSets


# -- profiles --------------------------------------------------------------------------------------
# A profile takes ``H``, may overwrite it, and returns the value and ``weigh(G) -> factor``, which
# leaves ``W = G * h / factor`` in ``G``. Exponents end at -230: products of values below 1e-100
# would underflow, and processors multiply subnormal numbers twenty times as slowly.

LOWEST = 230.0  # minus the exponent of the smallest value


def squared_exponential(H: Array) -> Profiled:
    """Profile ``exp(H)`` of RBF, and its pullback; H is overwritten."""
    K = np.exp(H, out=H)
    return K, partial(_times, K, 1.0)


def matern_12(H: Array) -> Profiled:
    """Profile of Matern with nu = 1/2."""
    r = _distance(H, 1.0)
    K = np.negative(r, out=_like(r))
    np.exp(K, out=K)
    return K, partial(_weigh_12, K, r)


def _weigh_12(K: Array, r: Array, G: Array) -> float:
    G *= K
    # coincident pairs: Separation.pull drops them
    with np.errstate(divide="ignore", invalid="ignore"):
        G /= r
    return 1.0


def matern_32(H: Array) -> Profiled:
    """Profile of Matern with nu = 3/2."""
    s = _distance(H, 3.0)
    e = np.negative(s, out=_like(s))
    np.exp(e, out=e)
    s += 1.0
    s *= e
    return s, partial(_times, e, 3.0)


def matern_52(H: Array) -> Profiled:
    """Profile of Matern with nu = 5/2."""
    s = _distance(H, 5.0)
    e = np.negative(s, out=_like(s))
    np.exp(e, out=e)
    se = np.multiply(s, e, out=_like(s))
    e += se
    s *= se
    s *= 1.0 / 3.0
    s += e
    return s, partial(_times, e, 5.0 / 3.0)


def _like(H: Array) -> Array:
    return empty(H.shape) if H.dtype == np.float64 else np.empty_like(H)


def _times(h: Array, factor: float, G: Array) -> float:
    np.multiply(G, h, out=G)
    return factor


def _distance(H: Array, squared_factor: float) -> Array:
    """Turn ``H`` into ``sqrt(squared_factor) r`` in place."""
    H *= -2.0 * squared_factor
    return np.sqrt(H, out=H)


# A subclass defines ``_of_pairs(kernel, pairs)``: the value and its pullback, from ``H``.
class StationaryRule(KernelRule):
    """A function of distances in units of a length scale, with ``k(x, x) = 1``; abstract."""

    roots, far = False, LARGEST
    _of_pairs: Callable[..., Linearized]

    def linearize(self, kernel: Kernel, X: Array, Z: Array) -> Linearized:
        pairs = Separation(X, Z, self._scale(kernel, X.shape[1]), self.roots, self.far)
        return self._of_pairs(kernel, pairs)

    def linearize_stack(self, kernel: Kernel, P: Array) -> Linearized:
        pairs = PointSets(P, self._scale(kernel, P.shape[2]), self.roots, self.far)
        return self._of_pairs(kernel, pairs)

    def linearize_diag(self, kernel: Kernel, X: Array) -> Linearized:
        return 1.0, no_gradient

    def _scale(self, kernel: Kernel, d: int) -> Scalars:
        return length_scale(kernel, d)


class LengthScaleRule(StationaryRule):
    """A stationary kernel whose only hyperparameter is its length scale."""

    def __init__(self, profile: Profile, footprint: int, nu: float = np.inf) -> None:
        self.profile, self.footprint, self.nu = profile, footprint, nu
        self.roots, self.far = nu == 0.5, self.farthest(LOWEST)

    def farthest(self, lowest: float) -> float:
        """Return the ``-H`` from which values are below ``exp(-lowest)``."""
        return max(lowest, lowest**2 / (4.0 * self.nu))

    def _of_pairs(self, kernel: Kernel, pairs: Pairs) -> Linearized:
        K, weigh = self.profile(pairs.half)
        del pairs.half
        return K, partial(_pull_lengths, kernel, pairs, weigh)


def _pull_lengths(kernel: Kernel, pairs: Pairs, weigh: Weigh, G: Array, inputs: bool) -> Pulled:
    log_scale, Z_bar = pairs.pull(G, weigh(G))
    isotropic = np.size(kernel.length_scale) == 1
    return {"length_scale": log_scale.sum() if isotropic else log_scale}, Z_bar


def length_scale(kernel: Kernel, d: int) -> Array:
    """Return the length scale of `kernel` per column, (d,)."""
    scale = np.atleast_1d(np.squeeze(np.asarray(kernel.length_scale, dtype=np.float64)))
    if scale.shape not in ((1,), (d,)):
        raise ValueError(
            f"{type(kernel).__name__} has a length_scale of shape {scale.shape}, but the inputs "
            f"have {d} columns. Pass one length scale, or one per column."
        )
    return np.zeros(d) + scale


class RationalQuadraticRule(StationaryRule):
    """``(1 + c)^-a`` with ``c = r^2 / (2 a)``, which keeps its digits where a is large."""

    footprint = 2

    def _of_pairs(self, kernel: Kernel, pairs: Pairs) -> Linearized:
        alpha, c = float(kernel.alpha), pairs.half
        del pairs.half
        c *= -1.0 / alpha
        np.clip(c, 0.0, LARGEST, out=c)
        K = np.log1p(c)
        K *= -alpha
        np.exp(K, out=K)
        return K, partial(_pull_rational_quadratic, kernel, pairs, alpha, c, K)


def _pull_rational_quadratic(
    kernel: Kernel, pairs: Pairs, alpha: float, c: Array, K: Array, G: Array, inputs: bool
) -> Pulled:
    """Gradients wrt ``alpha``, length scales and Z from a cotangent G, which is overwritten."""
    np.multiply(G, K, out=G)
    log_alpha = 0.0
    if not kernel.hyperparameter_alpha.fixed:  # dk/dlog a = a k (c / (1 + c) - log(1 + c))
        slope = c / (1.0 + c)
        slope -= np.log1p(c)
        log_alpha = alpha * float(np.vdot(G, slope))
    c += 1.0
    np.divide(G, c, out=G)
    log_scale, Z_bar = pairs.pull(G, 1.0)
    return {"alpha": log_alpha, "length_scale": log_scale.sum()}, Z_bar


class ExpSineSquaredRule(StationaryRule):
    """``exp(-2 sin^2(t) / l^2)``: stationary in t, where p / pi is the length scale."""

    footprint, roots = 2, True

    def _scale(self, kernel: Kernel, d: int) -> Scalars:
        return float(kernel.periodicity) / np.pi  # of t

    def _of_pairs(self, kernel: Kernel, pairs: Pairs) -> Linearized:
        rate = 2.0 / float(kernel.length_scale) ** 2
        t = _distance(pairs.half, 1.0)
        del pairs.half
        K = np.sin(t)
        np.multiply(K, K, out=K)
        K *= -rate
        np.exp(K, out=K)
        return K, partial(_pull_sine, pairs, rate, t, K)


def _pull_sine(pairs: Pairs, rate: float, t: Array, K: Array, G: Array, inputs: bool) -> Pulled:
    """Gradients wrt length scale, period and Z from a cotangent G, which is overwritten."""
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


RBF_RULE = LengthScaleRule(squared_exponential, footprint=1)
MATERN = {
    0.5: LengthScaleRule(matern_12, footprint=2, nu=0.5),
    1.5: LengthScaleRule(matern_32, footprint=2, nu=1.5),
    2.5: LengthScaleRule(matern_52, footprint=2, nu=2.5),
    np.inf: RBF_RULE,
}


class ConstantRule(KernelRule):
    """A scalar everywhere: ``c``, and ``dk/dlog c = c``."""

    footprint = 0

    def linearize(self, kernel: Kernel, X: Array, Z: Array | None = None) -> Linearized:
        value = float(kernel.constant_value)
        return value, partial(_pull_constant, kernel, value)

    linearize_stack = linearize_diag = linearize  # type: ignore[assignment]


def _pull_constant(kernel: Kernel, value: float, G: Array, inputs: bool) -> Pulled:
    # a fixed constant needs no pass over G
    fixed = kernel.hyperparameter_constant_value.fixed
    return ({} if fixed else {"constant_value": value * np.sum(G)}), 0.0


class DotProductRule(KernelRule):
    """``s0^2 + x.z``, not centred; ``dk/dlog s0 = 2 s0^2`` and ``dk/dz = x``."""

    footprint = 1

    def linearize(self, kernel: Kernel, X: Array, Z: Array) -> Linearized:
        variance = float(kernel.sigma_0) ** 2
        K = np.matmul(X, Z.T, dtype=float)
        K += variance
        return K, partial(_pull_dot, variance, X)

    def linearize_diag(self, kernel: Kernel, X: Array) -> Linearized:
        variance = float(kernel.sigma_0) ** 2
        return variance + np.einsum("ij,ij->i", X, X), partial(_pull_square, variance, X)


def _pull_dot(variance: float, X: Array, G: Array, inputs: bool) -> Pulled:
    return {"sigma_0": 2.0 * variance * np.sum(G)}, G.T @ X if inputs else 0.0


def _pull_square(variance: float, X: Array, g: Array, inputs: bool) -> Pulled:
    return {"sigma_0": 2.0 * variance * np.sum(g)}, 2.0 * g[:, None] * X


# -- sums, products and powers ---------------------------------------------------------------------
# Reverse mode for two children with values ``K1, K2`` and cotangent ``G``:
#
#     K1 + K2 : G, G            K1 * K2 : G * K2, G * K1            K ** p : G * p * K ** (p - 1)
#
# The diagonal carries white noise as a second component, ``(signal, noise)`` with
# ``signal + noise = kernel.diag``, so that noise nested in products is still told apart.
#
# A child with a scalar value never overwrites its cotangent, and needs only its sum: it goes first
# and costs no copy.


def _is_scalar(value: Scalars) -> bool:
    return getattr(value, "ndim", 0) == 0


def _is_zero(value: Scalars) -> bool:
    return _is_scalar(value) and value == 0.0


def _join(left: Pulled, right: Pulled) -> Pulled:
    return np.concatenate([left[0], right[0]]), left[1] + right[1]


def _both_times(factor: Scalars, pulled: Pulled) -> Pulled:
    return factor * pulled[0], factor * pulled[1]


class _Pair(Node):
    """Base of the nodes of two kernels that are added or multiplied."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.children = self.left, self.right = node(kernel.k1), node(kernel.k2)
        self.arrays = 0 if any(isinstance(one, White) for one in self.children) else 1

    @abstractmethod
    def combined(self, K1: Scalars, K2: Scalars) -> Scalars:
        """Return the value, from those of the children."""

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        return self.combined(self.left.evaluate(X, Z), self.right.evaluate(X, Z))


class SumNode(_Pair):
    """Node of a sum ``k1 + k2``."""

    combine = np.add

    def linearize(self, X: Array, Z: Array) -> Linearized:
        (K1, pull1), (K2, pull2) = self.left.linearize(X, Z), self.right.linearize(X, Z)
        scalars = _is_scalar(K1), _is_scalar(K2)
        return self.combined(K1, K2), partial(_pull_sum, pull1, pull2, scalars)

    def combined(self, K1: Scalars, K2: Scalars) -> Scalars:
        if _is_zero(K1):
            return K2
        return K1 if _is_zero(K2) else applied(np.add, K1, K2)

    def diagonal(self, X: Array) -> Diagonal:
        s1, n1, pull1 = self.left.diagonal(X)
        s2, n2, pull2 = self.right.diagonal(X)
        return s1 + s2, n1 + n2, partial(_pull_sum_diag, pull1, pull2)


def _pull_sum(pull1: Pull, pull2: Pull, scalars: tuple, G: Array, inputs: bool) -> Pulled:
    if scalars[1]:
        right = pull2(G, inputs)
        return _join(pull1(G, inputs), right)
    left = pull1(G if scalars[0] else applied(np.positive, G), inputs)
    return _join(left, pull2(G, inputs))


def _pull_sum_diag(pull1: Pull, pull2: Pull, *args: object) -> Pulled:
    return _join(pull1(*args), pull2(*args))


class ProductNode(_Pair):
    """Node of a product ``k1 * k2``."""

    combine = np.multiply

    def linearize(self, X: Array, Z: Array) -> Linearized:
        (K1, pull1), (K2, pull2) = self.left.linearize(X, Z), self.right.linearize(X, Z)
        K = self.combined(K1, K2)
        if _is_zero(K):
            return K, partial(_pull_zero, self.kernel)
        if _is_scalar(K1):
            return K, partial(_pull_scaled, True, free(self.left.kernel), K, K1, (pull1, pull2))
        if _is_scalar(K2):
            return K, partial(_pull_scaled, False, free(self.right.kernel), K, K2, (pull2, pull1))
        return K, partial(_pull_product, K1, K2, (pull1, pull2))

    def combined(self, K1: Scalars, K2: Scalars) -> Scalars:
        return 0.0 if _is_zero(K1) or _is_zero(K2) else applied(np.multiply, K1, K2)

    def diagonal(self, X: Array) -> Diagonal:
        left, right = self.left.diagonal(X), self.right.diagonal(X)
        (s1, n1, _), (s2, n2, _) = left, right
        noise = _multiply(n1, s2) + _multiply(s1, n2) + _multiply(n1, n2)
        return _multiply(s1, s2), noise, partial(_pull_product_diag, left, right)


def _pull_zero(kernel: Kernel, G: Array, inputs: bool) -> Pulled:
    return np.zeros(len(kernel.theta)), 0.0


def _pull_scaled(
    first: bool, names: list, K: Scalars, factor: Scalars, pulls: tuple, G: Array, inputs: bool
) -> Pulled:
    """Pull on ``K = factor * other``, scaling the other's results instead of `G`."""
    g_factor = np.asarray(_dot(G, K) / factor) if names else np.zeros(())
    pulled = pulls[0](g_factor, False)
    other = _both_times(factor, pulls[1](G, inputs))
    return _join(pulled, other) if first else _join(other, pulled)


def _pull_product(K1: Scalars, K2: Scalars, pulls: tuple, G: Array, inputs: bool) -> Pulled:
    left = pulls[0](applied(np.multiply, G, K2), inputs)
    return _join(left, pulls[1](np.multiply(G, K1, out=G), inputs))


def _pull_product_diag(
    left: Diagonal, right: Diagonal, g_signal: Array, g_noise: Scalars, inputs: bool
) -> Pulled:
    (s1, n1, pull1), (s2, n2, pull2) = left, right
    pulled = pull1(g_signal * s2 + g_noise * n2, g_noise * (s2 + n2), inputs)
    return _join(pulled, pull2(g_signal * s1 + g_noise * n1, g_noise * (s1 + n1), inputs))


def _multiply(a: Scalars, b: Scalars) -> Scalars:
    # a scalar zero stays one
    return 0.0 if _is_zero(a) or _is_zero(b) else a * b


def _dot(G: Array, K: Scalars) -> Any:
    return K * np.sum(G) if _is_scalar(K) else np.vdot(G, K)


class PowerNode(Node):
    """``k ** exponent``; scikit-learn does not optimise the exponent."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.children = (self.base,) = (node(kernel.kernel),)
        self.exponent = float(kernel.exponent)

    def linearize(self, X: Array, Z: Array) -> Linearized:
        base, pull_base = self.base.linearize(X, Z)
        return np.power(base, self.exponent), partial(_pull_power, self.exponent, base, pull_base)

    def diagonal(self, X: Array) -> Diagonal:
        s, n, pull_base = self.base.diagonal(X)
        signal = np.power(s, self.exponent)
        noise = 0.0 if _is_zero(n) else np.power(s + n, self.exponent) - signal
        return signal, noise, partial(_pull_power_diag, self.exponent, s, n, pull_base)


def _pull_power(exponent: float, base: Scalars, pull_base: Pull, G: Array, inputs: bool) -> Pulled:
    slope = _slope(exponent, base)
    if _is_scalar(base):
        return _both_times(slope, pull_base(G, inputs))
    return pull_base(np.multiply(G, slope, out=G), inputs)


def _pull_power_diag(
    p: float, s: Scalars, n: Scalars, pull: Pull, g_signal: Array, g_noise: Scalars, inputs: bool
) -> Pulled:
    at_signal, at_sum = _slope(p, s), _slope(p, s + n)
    return pull(g_signal * at_signal + g_noise * (at_sum - at_signal), g_noise * at_sum, inputs)


def _slope(exponent: float, base: Scalars) -> Scalars:
    with np.errstate(divide="ignore"):
        slope = exponent * np.power(base, exponent - 1.0)
    # a kernel value that underflowed to 0 must not turn a zero gradient into NaN
    return np.where(np.equal(base, 0.0), 0.0, slope) if exponent < 1.0 else slope


def _refuse_compound(kernel: Kernel) -> Node:
    raise ValueError("CompoundKernel is not a covariance. Add or multiply its kernels instead.")


def _matern(kernel: Kernel) -> Node:
    rule = MATERN.get(float(kernel.nu))
    return Opaque(kernel) if rule is None else Leaf(kernel, rule)


BUILDERS |= {
    _sk.ConstantKernel: partial(Leaf, rule=ConstantRule()),
    _sk.DotProduct: partial(Leaf, rule=DotProductRule()),
    _sk.RBF: partial(Leaf, rule=RBF_RULE),
    _sk.RationalQuadratic: partial(Leaf, rule=RationalQuadraticRule()),
    _sk.ExpSineSquared: partial(Leaf, rule=ExpSineSquaredRule()),
    _sk.Matern: _matern,
    _sk.WhiteKernel: White,
    _sk.Sum: SumNode,
    _sk.Product: ProductNode,
    _sk.Exponentiation: PowerNode,
    _sk.CompoundKernel: _refuse_compound,
}

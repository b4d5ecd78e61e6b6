"""The constant kernel, the dot product, and the stationary kernels.

A stationary kernel is a formula of ``H = -r^2/2``, and its slope ``h(r) = -(1/r) dk/dr``:

    RBF, Matern(inf)   exp(H)                                   h = k
    Matern(1/2)        exp(-r)                                  h = k / r
    Matern(3/2)        (1 + s) exp(-s),            s = sqrt(3) r    h = 3 exp(-s)
    Matern(5/2)        (1 + s + s^2/3) exp(-s),    s = sqrt(5) r    h = 5/3 (1 + s) exp(-s)
    RationalQuadratic  b^-a,  b = 1 - H / a                     h = k / b
    ExpSineSquared     exp(-2 sin^2(t) / l^2),  t = pi |x-z| / p    h = k (2 / l^2) sin(2t) / t

Their ``H`` comes from `Separation`, for two point sets, or from `PointSets`, for many small ones. A
profile turns it into values and weights.
"""

from functools import partial

import numpy as np
from scipy.spatial.distance import cdist, pdist, squareform

from skgp_sparse.ground.parallel import empty

from ._differentiable import KernelRule, no_gradient

# Below this share of |x|^2 the expanded square has lost too many digits for its root.
_CLOSE = 1e-10
_FEW_COLUMNS = 3  # whose differences are squared one by one, which loses no digit
_FAR = 2.0**20  # |x|^2 from which rows are subtracted directly: off by some 1e-10 below
_EXTREME = 1e50  # |z|^2 from which all rows are
_FEW = 512  # rows whose pairs are subtracted one by one, if only the value at roots is wanted
_PAIRS_AT_ONCE = 1 << 16
LARGEST = 1e300  # -H
_REACH = 1e150  # difference of two coordinates in the pullback, whose square is a number


class Separation:
    """``H = -|x - z|^2 / 2`` of all pairs; `half` is the caller's to overwrite.

    With ``x = (X - c) / l``, ``z = (Z - c) / l`` and one common centre ``c`` (the median of Z),

        H = -|x - z|^2 / 2 = [x, -|x|^2/2, 1] . [z, 1, -|z|^2/2],

    which is one matrix product. For ``h(r) = -(1/r) dk/dr`` and ``W = G * h``,

        dF/dlog l_d = sum_ij W_ij (x_id - z_jd)^2,      dF/dZ_jd = sum_i W_ij (x_id - z_jd) / l_d.

    Both come from ``W' [x, x^2, 1]``, one more matrix product and no (n, m, d) array.

    The expanded square is off by some ``eps |x|^2``, which matters in few columns, where many rows
    are alike and the variance that is left may be tiny: there, differences are squared one by one.
    Rows so far from the centre that it always matters are subtracted from Z directly, one column
    after the other, here and in the pullback: one centre cannot serve two groups of points that are
    far apart.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        First point set.
    Z : ndarray of shape (m, d)
        Second point set.
    scale : float or ndarray of shape (d,)
        Length scales.
    roots : bool
        Whether the kernel is a function of the distance itself, not of its square. Then pairs
        closer than rounding allows are subtracted directly, here and in `pull`.
    far : float
        Largest ``-H``; pairs that are further apart count as this far.
    """

    def __init__(self, X, Z, scale, roots, far=LARGEST):
        self.scale = np.zeros(X.shape[1]) + scale
        self.far = far
        with np.errstate(over="ignore", invalid="ignore"):  # of what is too far, or no number
            centre = np.median(Z, axis=0)
            self.x, self.z = (X - centre) / self.scale, (Z - centre) / self.scale
            norms = np.einsum("ij,ij->i", self.x, self.x)
            self.distant = _rows_to_subtract(norms, self.z)
            self.X_distant, self.Z = X[self.distant], Z
            if roots and X.shape[1] == 1:
                self.half = _subtracted(X, Z, self.scale)
            else:
                half_of = _squared if X.shape[1] <= _FEW_COLUMNS else _expanded
                self.half = half_of(self.x, self.z)
                if len(self.distant):
                    self.half[self.distant] = _subtracted(self.X_distant, Z, self.scale)
            np.clip(self.half, -far, 0.0, out=self.half)
            self.rows = self.cols = None
            if roots:
                self._repair(norms, far)
            elif X is Z or np.array_equal(X, Z):
                np.fill_diagonal(self.half, 0.0)

    def pull(self, W, factor):
        """Return the gradients of log l (d,) and of Z (m, d) for weights ``factor * W``."""
        near, (log_scale, Z_bar) = self._take_close(W), self._pull_expanded(W)
        if near is not None:
            offsets = self.x[self.rows] - self.z[self.cols]
            log_scale += near @ offsets**2
            np.add.at(Z_bar, self.cols, near[:, None] * offsets)
        if len(self.distant):
            self._add_distant(W, log_scale, Z_bar)
        return factor * log_scale, Z_bar * (factor / self.scale)

    def _pull_expanded(self, W):
        x, d = self.x, self.x.shape[1]
        if len(self.distant):
            x, W = np.delete(x, self.distant, axis=0), np.delete(W, self.distant, axis=0)
        moments = W.T @ np.hstack([x, x**2, np.ones((len(x), 1))])
        first, second, w = moments[:, :d], moments[:, d:-1], moments[:, -1:]
        z = self.z if len(x) else 0.0
        return np.sum(second + z * (w * z - 2.0 * first), axis=0), first - w * z

    def _add_distant(self, W, log_scale, Z_bar):
        with np.errstate(over="ignore", invalid="ignore"):
            H = _subtracted(self.X_distant, self.Z, self.scale)
        W = np.where(-H < self.far, W[self.distant], 0.0)
        for column, (x, z, scale) in enumerate(zip(self.X_distant.T, self.Z.T, self.scale)):
            with np.errstate(over="ignore"):
                offsets = np.clip((x[:, None] - z) / scale, -_REACH, _REACH)
            pulled = W * offsets
            Z_bar[:, column] += pulled.sum(axis=0)
            log_scale[column] += np.vdot(pulled, offsets)

    def _repair(self, norms, far):
        # a pair is close only if its norms are alike, so each row has its own threshold
        limit = -_CLOSE * norms
        limit[self.distant] = 0.0
        close = np.flatnonzero(self.half >= limit[:, None])
        self.rows, self.cols = np.divmod(close, len(self.z))
        flat = self.half.reshape(-1)
        for start in range(0, len(close), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            offsets = self.x[self.rows[part]] - self.z[self.cols[part]]
            direct = -0.5 * np.einsum("ij,ij->i", offsets, offsets)
            flat[close[part]] = np.maximum(direct, -far)

    def _take_close(self, W):
        """Move the weights of close pairs out of `W`; coincident pairs pull on nothing."""
        if self.rows is None or not len(self.rows):
            return None
        near = W[self.rows, self.cols]
        W[self.rows, self.cols] = 0.0
        return np.where(np.any(self.x[self.rows] != self.z[self.cols], axis=1), near, 0.0)


class PointSets:
    """``H = -|x - z|^2 / 2`` of all pairs within each set; `half` is the caller's to overwrite.

    Within many small point sets P, with ``x = (P - p) / l``, where p is the first point of each
    set, and symmetric ``W = G * h``,

        dF/dP_a = -2 sum_b W_ab (x_a - x_b) / l,        dF/dlog l = -sum_a (dF/dP_a) P_a.

    Both come from one product ``W x`` of every set: the kernel is a function of ``P / l``.

    Parameters
    ----------
    P : ndarray of shape (s, k, d)
        Point sets.
    scale : float or ndarray of shape (d,)
        Length scales.
    roots : bool
        Whether the kernel is a function of the distance itself, not of its square. Then pairs that
        coincide pull on nothing.
    far : float
        Largest ``-H``; pairs that are further apart count as this far.
    """

    def __init__(self, P, scale, roots, far=LARGEST):
        self.scale, d = np.broadcast_to(scale, P.shape[2:]), P.shape[2]
        x = self.x = np.subtract(P, P[:, :1], out=empty(P.shape))
        x /= self.scale
        if d <= _FEW_COLUMNS:
            H = sum((x[:, :, None, j] - x[:, None, :, j]) ** 2 for j in range(d))
            H *= -0.5
        else:
            H = np.matmul(x, x.transpose(0, 2, 1), out=empty((*P.shape[:2], P.shape[1])))
            norms = -0.5 * np.einsum("skk->sk", H)
            H += norms[:, :, None]
            H += norms[:, None, :]
            np.einsum("skk->sk", H)[:] = 0.0
        self.half = np.clip(H, -far, 0.0, out=H)
        self.coincident = np.flatnonzero(H == 0.0) if roots else None

    def pull(self, W, factor):
        """Return the gradients of log l (d,) and of P (s, k, d) for weights ``factor * W``."""
        if self.coincident is not None:
            W.reshape(-1)[self.coincident] = 0.0
        np.einsum("skk->sk", W)[:] -= W.sum(axis=2)
        P_bar = np.matmul(W, self.x, out=empty(self.x.shape))
        P_bar *= 2.0 * factor
        log_scale = -np.einsum("ski,ski->i", P_bar, self.x)
        P_bar /= self.scale
        return log_scale, P_bar


def half_of_pairs(X, scale, far):
    """``H`` of all pairs of rows, once for each; None unless rows are few and close together."""
    if not 1 < len(X) <= _FEW:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        x = (X - X.mean(axis=0)) / scale
        if not np.einsum("ij,ij->i", x, x).max() <= _FAR:
            return None
    half = pdist(x, "sqeuclidean")
    half *= -0.5
    return np.maximum(half, -far, out=half)


def _rows_to_subtract(norms, z):
    if not np.einsum("ij,ij->i", z, z).max() <= _EXTREME:
        return np.arange(len(norms))
    return np.flatnonzero(~(norms <= _FAR))


def _squared(x, z):
    half = cdist(x, z, "sqeuclidean", out=empty((len(x), len(z))))
    half *= -0.5
    return half


def _expanded(x, z):
    half = empty((len(x), len(z)))
    np.matmul(_augmented(x, False), _augmented(z, True).T, out=half)
    return half


def _augmented(points, ones_first):
    n, d = points.shape
    out = np.ones((n, d + 2))
    out[:, :d] = points
    out[:, d + ones_first] = -0.5 * np.einsum("ij,ij->i", points, points)
    return out


def _subtracted(X, Z, scale):
    """``H``; the difference comes first, and then the scale, so that no digit is lost."""
    half = 0.0
    for x, z, unit in zip(X.T, Z.T, scale):
        offsets = x[:, None] - z
        offsets /= unit
        np.multiply(offsets, offsets, out=offsets)
        offsets += half
        half = offsets
    return np.multiply(half, -0.5, out=half)


# -- profiles --------------------------------------------------------------------------------------
# A profile takes ``H``, may overwrite it, and returns the value and ``weigh(G) -> factor``, which
# leaves ``W = G * h / factor`` in ``G``. Exponents end at -230: products of values below 1e-100
# would underflow, and processors multiply subnormal numbers twenty times as slowly.

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


class StationaryRule(KernelRule):
    """A function of distances in units of a length scale, with ``k(x, x) = 1``; abstract.

    A subclass defines ``_of_pairs(kernel, pairs)``: the value and its pullback, from ``H``.
    """

    roots, far = False, LARGEST

    def linearize(self, kernel, X, Z):
        pairs = Separation(X, Z, self._scale(kernel, X.shape[1]), self.roots, self.far)
        return self._of_pairs(kernel, pairs)

    def linearize_stack(self, kernel, P):
        pairs = PointSets(P, self._scale(kernel, P.shape[2]), self.roots, self.far)
        return self._of_pairs(kernel, pairs)

    def linearize_diag(self, kernel, X):
        return 1.0, no_gradient

    def _scale(self, kernel, d):
        return length_scale(kernel, d)


class LengthScaleRule(StationaryRule):
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


class RationalQuadraticRule(StationaryRule):
    """``(1 + c)^-a`` with ``c = r^2 / (2 a)``, which keeps its digits where a is large."""

    footprint = 2

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


class ExpSineSquaredRule(StationaryRule):
    """``exp(-2 sin^2(t) / l^2)``: stationary in t, where p / pi is the length scale."""

    footprint, roots = 2, True

    def _scale(self, kernel, d):
        return float(kernel.periodicity) / np.pi  # of t

    def _of_pairs(self, kernel, pairs):
        rate = 2.0 / float(kernel.length_scale) ** 2
        t = _distance(pairs.half, 1.0)
        del pairs.half
        K = np.sin(t)
        np.multiply(K, K, out=K)
        K *= -rate
        np.exp(K, out=K)
        return K, partial(_pull_sine, pairs, rate, t, K)


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
MATERN = {
    0.5: LengthScaleRule(matern_12, roots=True, footprint=2, nu=0.5),
    1.5: LengthScaleRule(matern_32, roots=True, footprint=2, nu=1.5),
    2.5: LengthScaleRule(matern_52, roots=True, footprint=2, nu=2.5),
    np.inf: RBF_RULE,
}


class ConstantRule(KernelRule):
    """A scalar everywhere.

    It is ``c``, and ``dk/dlog c = c``.
    """

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
    """``s0^2 + x.z``; not centred, for the kernel is not stationary.

    Its derivatives are ``dk/dlog s0 = 2 s0^2`` and ``dk/dz = x``.
    """

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

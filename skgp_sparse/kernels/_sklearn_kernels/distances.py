"""Scaled distances between point sets, and the pullback that all stationary kernels share.

With ``x = (X - c) / l``, ``z = (Z - c) / l`` and one common centre ``c`` (the median of Z),

    H = -|x - z|^2 / 2 = [x, -|x|^2/2, 1] . [z, 1, -|z|^2/2],

one matrix product. For ``h(r) = -(1/r) dk/dr`` and ``W = G * h``,

    dF/dlog l_d = sum_ij W_ij (x_id - z_jd)^2,      dF/dZ_jd = sum_i W_ij (x_id - z_jd) / l_d,

both from ``W' [x, x^2, 1]``, one more matrix product and no (n, m, d) array.

The expanded square is off by some ``eps |x|^2``, which matters in few columns, where many rows are
alike and the variance that is left may be tiny: there, differences are squared one by one. Rows so
far from the centre that it always matters are subtracted from Z directly, one column after the
other, here and in the pullback: one centre cannot serve two groups of points that are far apart.

Within many small point sets P, with ``x = (P - p) / l``, where p is the first point of each set,
and symmetric ``W = G * h``,

    dF/dP_a = -2 sum_b W_ab (x_a - x_b) / l,        dF/dlog l = -sum_a (dF/dP_a) P_a,

both from one product ``W x`` of every set: the kernel is a function of ``P / l``.
"""

import numpy as np
from scipy.spatial.distance import cdist, pdist

from skgp_sparse._ground.parallel import empty

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

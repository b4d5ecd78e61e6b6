"""Scaled distances within many small point sets, and their pullback.

With ``x = (P - p) / l``, where p is the first point of each set, and symmetric ``W = G * h``,

    dF/dP_a = -2 sum_b W_ab (x_a - x_b) / l,        dF/dlog l = -sum_a (dF/dP_a) P_a,

both from one product ``W x`` of every set: the kernel is a function of ``P / l``.
"""

import numpy as np

from skgp_sparse._ground.parallel import empty

from ._distances import FEW_COLUMNS, LARGEST


class PointSets:
    """``H = -|x - z|^2 / 2`` of all pairs within each set; `half` is the caller's to overwrite.

    Parameters
    ----------
    P : ndarray of shape (s, k, d)
        Point sets.
    scale : float or ndarray of shape (d,)
        Length scales.
    roots : bool
        Whether the kernel is a function of the distance itself, not of its square.  Then pairs that
        coincide pull on nothing.
    far : float
        Largest ``-H``; pairs that are further apart count as this far.
    """

    def __init__(self, P, scale, roots, far=LARGEST):
        self.scale, d = np.broadcast_to(scale, P.shape[2:]), P.shape[2]
        x = self.x = np.subtract(P, P[:, :1], out=empty(P.shape))
        x /= self.scale
        if d <= FEW_COLUMNS:
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

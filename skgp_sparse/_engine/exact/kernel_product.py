"""``k(X, X) V`` in tiles: the matrix is never there, and only its lower triangle is computed."""

from dataclasses import dataclass

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._ground.parallel import ordered_map, slices

_TILE = 768  # rows and columns: a tile fits the cache of a core


@dataclass(frozen=True, eq=False)
class KernelProduct:
    """The kernel matrix of some rows, without white noise, as something that multiplies.

    Parameters
    ----------
    kernel : sklearn kernel
    X : ndarray of shape (n, d)
        Inputs, float64.
    n_jobs : int
    """

    kernel: object
    X: np.ndarray
    n_jobs: int = 1

    def __call__(self, V):
        """``K V`` (n, p), in double precision."""
        kernel, X = self.kernel, self.X
        return self._product(lambda *at: kernels.evaluate(kernel, *(X[rows] for rows in at)), V)

    def rough(self):
        """Product ``V -> K V`` in single precision, or None where the kernel has no such tiles."""
        tile = kernels.single(self.kernel, self.X)
        return None if tile is None else lambda V: self._product(tile, V.astype(np.float32))

    def with_noise(self, noise):
        """``V -> (K + D) V`` for noise variances (n,), in double precision, and `rough` or None."""
        rough = self.rough()
        return _plus_noise(self, noise), rough and _plus_noise(rough, noise)

    def _product(self, tile, V):
        """Sums over strips of tiles, added in order: they do not depend on the threads."""
        n = len(V)
        edges = slices(n, _TILE)
        out = np.zeros(V.shape)

        def strip(index):
            rows = edges[index]
            below = np.zeros((rows.stop, V.shape[1]))
            for columns in edges[:index]:
                K = tile(rows, columns)
                below[rows] += K @ V[columns]
                below[columns] += K.T @ V[rows]
            below[rows] += tile(rows, rows) @ V[rows]
            return below

        for below in ordered_map(strip, range(len(edges)), self.n_jobs):
            out[: len(below)] += below
        return out


def _plus_noise(product, noise):
    return lambda V: product(V) + noise[:, None] * V

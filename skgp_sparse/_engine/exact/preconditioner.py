r"""A matrix close to ``K + D`` that is cheap to solve with: the one of FITC.

With features ``V`` of the rows, of whatever basis, and ``r`` what they leave of ``diag K``,

    P = V Vᵀ + Λ,     Λ = diag(r) + D,     B = I + Vᵀ Λ⁻¹ V = LB LBᵀ,
    P⁻¹ = Λ⁻¹ - Λ⁻¹ V B⁻¹ Vᵀ Λ⁻¹.

Its diagonal is that of ``K + D``, which is worth a factor of ten in iterations beside ``V Vᵀ + D``.
Features may be kept in single precision, for which conjugate gradients allow, unless the noise is
so small that their rounding would outweigh it.
"""

from dataclasses import dataclass, replace

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.data.dataset import row_blocks
from skgp_sparse._ground.linalg import cholesky, inverse_lower, weighted_gram
from skgp_sparse._ground.parallel import ordered_map

_FOR_SINGLE = 1e-5  # smallest noise, as a share of the process, that rounding does not outweigh


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """``P⁻¹`` as something that multiplies.

    Parameters
    ----------
    blocks : list of slice
    V : list of ndarray of shape (rows, m)
        Features of every block.
    lam : ndarray of shape (n,)
        Λ.
    residual : ndarray of shape (n,)
        r.
    TB : ndarray of shape (m, m)
        ``LB⁻¹``.
    n_jobs : int
    """

    blocks: list
    V: list
    lam: np.ndarray
    residual: np.ndarray
    TB: np.ndarray
    n_jobs: int

    def log_det(self):
        """``log |P|``."""
        return np.log(self.lam).sum() - 2.0 * np.log(self.TB.diagonal()).sum()

    def with_noise(self, noise):
        """The preconditioner, with r as part of Λ, where some rows have other noise (n,)."""
        lam = self.residual + noise
        change, B = 1.0 / lam - 1.0 / self.lam, inverse_lower(self.TB, self.n_jobs)
        B = B @ B.T
        for rows, V in zip(self.blocks, self.V):
            changed = np.flatnonzero(change[rows])
            B += weighted_gram(V[changed].astype(float), change[rows][changed])
        TB = inverse_lower(cholesky(B, self.n_jobs), self.n_jobs)
        return replace(self, lam=lam, TB=TB)

    def __call__(self, R):
        """``P⁻¹ R`` (n, p)."""
        out = R / self.lam[:, None]
        pieces = list(zip(self.blocks, self.V))
        sums = ordered_map(lambda at: at[1].T @ out[at[0]].astype(at[1].dtype), pieces, self.n_jobs)
        weights = self.TB.T @ (self.TB @ sum(sums, np.zeros((len(self.TB), 1))))
        weights = weights.astype(self.V[0].dtype)
        parts = ordered_map(lambda at: at[1] @ weights, pieces, self.n_jobs)
        for rows, part in zip(self.blocks, parts):
            out[rows] -= part / self.lam[rows, None]
        return out


def precision(noise, signal):
    """Type of features whose rounding does not outweigh noise variances, at this variance."""
    return np.dtype(np.float32 if np.min(noise) >= _FOR_SINGLE * signal else np.float64)


def preconditioner(kernel, features, X, noise, n_jobs, with_residual=True, dtype=np.float64):
    """The `Preconditioner` of ``k(X, X) + diag(noise)``.

    Parameters
    ----------
    kernel : sklearn kernel
    features : Features
    X : ndarray of shape (n, d)
    noise : ndarray of shape (n,)
    n_jobs : int
    with_residual : bool
        Whether r is part of Λ. Without it, P is not larger than ``k(X, X) + diag(noise)``.
    dtype : dtype
        In which features are kept.
    """

    def of_block(rows):
        V = features.whiten(features.raw(X[rows]))
        rest = features.residual_variance(X[rows], V, kernels.diagonal(kernel, X[rows])[0])
        residual = np.maximum(rest, 0.0)
        lam = residual * with_residual + noise[rows]
        return V.astype(dtype), lam, residual, weighted_gram(V, 1.0 / lam)

    B, waiting, blocks = np.eye(features.size), [], row_blocks(len(X), features.size)
    for *of_rows, gram in ordered_map(of_block, blocks, n_jobs):
        B += gram
        waiting.append(of_rows)
    V, *columns = zip(*waiting)
    TB = inverse_lower(cholesky(B, n_jobs), n_jobs)
    return Preconditioner(blocks, list(V), *map(np.concatenate, columns), TB, n_jobs)

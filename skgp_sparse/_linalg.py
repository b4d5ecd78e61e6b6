"""Dense linear algebra on arrays, and nothing else.

A positive definite matrix ``K`` enters every formula through its Cholesky factor, ``K + jitter I =
L Lᵀ``, and through ``T = L⁻¹``. The triangular inverse costs ``m³/3`` once; with it every O(n m²)
step is a matrix product, which NumPy runs outside the interpreter lock, so that blocks of rows can
be processed by Python threads. Errors of ``K Tᵀ`` are of order ``eps ‖T‖ ‖K‖``, as for a triangular
solve; only products with ``K⁻¹`` itself would lose more.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from skgp_sparse._parallel import ordered_map

_PANEL = 64  # columns a triangular product takes at a time, twice as many of large ones:
# 9/16 of the full flops at m = 512 and 1024
_LARGE = 512  # columns beyond which wide panels pay, and from which threads do
_LARGEST_JITTER = 1e-2


@dataclass(frozen=True)
class Jitter:
    """What is added to the diagonal before a Cholesky factorisation.

    Attributes
    ----------
    start : float
        First amount tried; multiplied by 10 until the factorisation succeeds.
    relative : bool
        Whether amounts are fractions of the mean of the diagonal. A relative jitter scales with
        the kernel and therefore has a derivative; an absolute one has none.
    """

    start: float = 1e-8
    relative: bool = True

    def amounts(self):
        """Amounts to try, smallest first."""
        yield self.start
        amount = max(10 * self.start, 1e-12)
        while amount <= _LARGEST_JITTER:
            yield amount
            amount *= 10


def jittered_cholesky(K, jitter):
    """Lower Cholesky factor of ``K + amount I`` for the first amount that succeeds.

    Returns
    -------
    L : ndarray of shape (m, m), Fortran-ordered lower triangle
    amount : float
        In the units of `jitter`: a fraction of the mean diagonal when that is relative.

    Raises
    ------
    numpy.linalg.LinAlgError
        If K holds NaN or infinities, or is not positive definite with the largest jitter.
    """
    diagonal = K.diagonal()
    if not np.isfinite(K.sum()):
        raise np.linalg.LinAlgError(
            "The kernel matrix contains NaN or infinite values. Check the scale of X and the "
            "bounds of the kernel's hyperparameters."
        )
    unit = (diagonal.mean() or 1.0) if jitter.relative else 1.0
    trial = np.array(K.T, order="F")
    for amount in jitter.amounts():
        np.einsum("ii->i", trial)[:] = diagonal + amount * unit
        L, info = lapack.dpotrf(trial, lower=1, clean=1)
        if info == 0 and np.isfinite(L.diagonal()).all():
            return L, amount
    raise np.linalg.LinAlgError(
        f"The kernel matrix is not positive definite, even with {amount:.0e} of its "
        f"{'mean diagonal' if jitter.relative else 'diagonal'} added. Use a positive definite "
        "kernel, or raise the noise (a WhiteKernel, or 'alpha')."
    )


def cholesky(B):
    """Lower Cholesky factor of a matrix that is at least the identity."""
    L, info = lapack.dpotrf(B.T, lower=1, clean=1)
    if info != 0 or not np.isfinite(L.diagonal()).all():
        raise np.linalg.LinAlgError(
            "The weighted Nyström matrix is not finite: the noise variance is too small for the "
            "scale of the kernel. Raise the lower bound of the noise."
        )
    return L


def inverse_lower(L):
    """Inverse of a lower triangular matrix (LAPACK trtri)."""
    return lapack.dtrtri(L, lower=1)[0]


def inverse_from_cholesky(L):
    """``(L Lᵀ)⁻¹``, both triangles (LAPACK potri)."""
    return mirror_lower(lapack.dpotri(L, lower=1)[0])


def congruence(S, T, n_jobs=1):
    """``Tᵀ S T`` for symmetric S and lower triangular T."""
    ST = times_lower(S, T, n_jobs)
    out = np.empty_like(ST)

    def fill(rows):
        tail = slice(rows.start, None)
        np.matmul(T[tail, rows].T, ST[tail, : rows.stop], out=out[rows, : rows.stop])

    _for_each_panel(fill, len(T), n_jobs)
    return mirror_lower(out)


def mirror_lower(A):
    """Symmetric matrix of a lower triangle, filled in place, C-ordered.

    LAPACK answers in Fortran order; elementwise arithmetic that mixes orders is ten times slower.
    """
    for rows in _panels(len(A)):
        square = A[rows, rows]
        square[:] = np.tril(square) + np.tril(square, -1).T
        A[: rows.start, rows] = A[rows, : rows.start].T
    return A if A.flags.c_contiguous else A.T


def times_lower(A, T, n_jobs=1):
    """``A T`` for lower triangular T, skipping the blocks of zeros."""
    out = np.empty_like(A, order="C")

    def fill(columns):
        tail = slice(columns.start, None)
        np.matmul(A[:, tail], T[tail, columns], out=out[:, columns])

    _for_each_panel(fill, len(T), n_jobs)
    return out


def times_lower_transposed(A, T, out=None):
    """``A Tᵀ`` for lower triangular T, skipping the blocks of zeros; in `out`, not A, if given."""
    out = np.empty_like(A, order="C") if out is None else out

    def fill(columns):
        head = slice(0, columns.stop)
        np.matmul(A[:, head], T[columns, head].T, out=out[:, columns])

    _for_each_panel(fill, len(T), n_jobs=1)
    return out


def product_norms(A, T):
    """``‖T a_i‖²`` for every row a_i of A and lower triangular T, without the whole product."""
    total = np.zeros(len(A))
    for columns in _panels(len(T)):
        panel = A[:, : columns.stop] @ T[columns, : columns.stop].T
        total += row_dots(panel, panel)
    return total


def weighted_gram(V, a):
    """``Vᵀ diag(a) V`` as rank-k updates; `a` is a scalar, or an array of any signs."""
    if np.ndim(a) == 0:
        return a * (V.T @ V)
    if np.all(a >= 0):
        return _gram_of_scaled(V, a)
    positive = a > 0
    return _gram_of_scaled(V[positive], a[positive]) - _gram_of_scaled(V[~positive], -a[~positive])


def row_dots(A, B):
    """``sum_j A_ij B_ij`` for every row i."""
    return np.einsum("ij,ij->i", A, B)


def log_det_from_cholesky(L):
    """``log |L Lᵀ|``."""
    return 2.0 * np.log(L.diagonal()).sum()


def _gram_of_scaled(V, a):
    scaled = V * np.sqrt(a)[:, None]
    return scaled.T @ scaled  # NumPy recognises A.T @ A and calls syrk


def _for_each_panel(function, m, n_jobs):
    n_jobs = n_jobs if m >= _LARGE else 1
    deque(ordered_map(function, _panels(m), n_jobs), maxlen=0)


def _panels(m):
    size = _PANEL if m <= _LARGE else 2 * _PANEL
    return [slice(start, min(start + size, m)) for start in range(0, m, size)]

"""Linear algebra of many small matrices at once: one call of NumPy for all of them.

NumPy factorises stacks outside the interpreter lock, but has no triangular solve for them. Forward
substitution comes with the factorisation, of the matrix with the right-hand sides below it,

    [A  B]   [L  0] [Lᵀ  V]
    [Bᵀ C] = [Vᵀ *] [0   *],        V = L⁻¹ B,

for any C that is large enough. Back substitution goes from column to column of all matrices.
"""

import numpy as np

from skgp_sparse._ground.linalg import Jitter, raise_indefinite
from skgp_sparse._ground.parallel import empty

_LARGE_DIAGONAL = 1e200  # C, whose size has no say in L and V
_AMOUNTS = tuple(Jitter(0.0).amounts())


def whitened(A, B, unit, noise=0.0):
    """``L`` and ``L⁻¹ B`` of every matrix ``A + noise = L Lᵀ``.

    A matrix that is not positive definite gets jitter, as little as it takes.

    Parameters
    ----------
    A : ndarray of shape (s, k, k)
        Only lower triangles are read.
    B : ndarray of shape (s, k, c)
    unit : float
        Of the jitter.
    noise : float or ndarray of shape (s, k)
        On the diagonals.

    Returns
    -------
    L : ndarray of shape (s, k, k)
    V : ndarray of shape (s, k, c)
    """
    s, k, c = B.shape
    corner = np.arange(k, k + c)
    bordered = empty((s, k + c, k + c))
    bordered[:, :k, :k] = A
    np.einsum("skk->sk", bordered)[:, :k] += noise
    bordered[:, k:, :k] = B.transpose(0, 2, 1)
    bordered[:, k:, k:] = 0.0
    bordered[:, corner, corner] = _LARGE_DIAGONAL
    try:
        L = np.linalg.cholesky(bordered)
    except np.linalg.LinAlgError:
        L = np.linalg.cholesky(_repaired(bordered, k, unit))
    return L[:, :k, :k], L[:, k:, :k].transpose(0, 2, 1)


def _repaired(bordered, k, unit):
    """Matrices, with jitter on the diagonal of those that have no factor without it."""
    for matrix in bordered:
        diagonal = np.einsum("kk->k", matrix)[:k]
        without = diagonal.copy()
        for amount in _AMOUNTS:
            diagonal[:] = without + amount * unit
            if _has_factor(matrix):
                break
        else:
            raise_indefinite(matrix[:k, :k], amount, "variance")
    return bordered


def _has_factor(matrix):
    """Whether NumPy, which factorises the stack, factorises this matrix."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def back_substituted(L, V):
    """``L⁻ᵀ V`` of every lower triangle.

    Parameters
    ----------
    L : ndarray of shape (s, k, k)
    V : ndarray of shape (s, k, c)

    Returns
    -------
    ndarray of shape (s, k, c)
    """
    X = np.ascontiguousarray(V.transpose(1, 2, 0))  # passes are long, from matrix to matrix
    for j in range(len(X) - 1, -1, -1):
        X[j] /= L[:, j, j]
        X[:j] -= np.ascontiguousarray(L[:, j, :j].T)[:, None] * X[j]
    return X.transpose(2, 0, 1)

"""The prior of the inducing variables: ``Kuu + jitter I = L Lᵀ`` and ``T = L⁻¹``."""

from typing import NamedTuple

import numpy as np

from skgp_sparse._linalg import inverse_lower, jittered_cholesky
from skgp_sparse.kernels import linearize


class Prior(NamedTuple):
    """Factorised ``Kuu`` of one evaluation."""

    Z: np.ndarray
    T: np.ndarray  # L⁻¹
    jitter: float  # as used, in the units of the Jitter that was asked for
    pull: callable  # cotangent of Kuu (m, m), symmetric → gradients wrt theta and Z


def factorise(kernel, Z, jitter, n_jobs=1):
    """Factorise the kernel at the inducing points.

    Parameters
    ----------
    kernel : sklearn kernel
    Z : ndarray of shape (m, d)
    jitter : Jitter
    n_jobs : int

    Returns
    -------
    Prior
    """
    K, pullback = linearize(kernel, Z, Z)
    L, used = jittered_cholesky(K, jitter, n_jobs)

    def pull(K_bar, inputs=True):
        if jitter.relative:  # jitter = used · mean(diag Kuu) moves with the diagonal
            K_bar.flat[:: len(Z) + 1] += used * np.trace(K_bar) / len(Z)
        theta_bar, Z_bar = pullback(K_bar, inputs=inputs)
        return theta_bar, 2.0 * Z_bar if inputs else None  # both arguments of k(Z, Z) move

    return Prior(Z, inverse_lower(L, n_jobs), used, pull)

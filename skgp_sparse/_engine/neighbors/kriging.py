r"""Predictions of rows, each given a few rows of its own: many small solves at once.

For a row x and the rows N that are near to it, with noise variances D,

    A = K_NN + D = L Lᵀ,    w = A⁻¹ k_N,    a = A⁻¹ y_N,    m = k_Nᵀ a,    v = k(x, x) - k_Nᵀ w.

With ``u = (-w; 1)`` and ``b = (a; 0)``, and K of the rows of N and x, the last one,

    dv = uᵀ dK u + w² · dD,    dm = uᵀ dK b - (w a) · dD,    dm = w · dy,

so that the cotangent of K is of rank two.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._ground.parallel import empty
from skgp_sparse._ground.small_matrices import back_substituted, whitened

_BLOCK = 1 << 18  # entries of the kernel matrices of a block, whose memory is used again


class LocalPrediction(NamedTuple):
    """Predictive mean, variance and prior variance of each row, given a few other rows."""

    mean: np.ndarray  # (s, p) m
    variance: np.ndarray  # (s,) v, latent; not negative but for rounding
    signal: np.ndarray  # (s,) k(x, x)


def block_size(k):
    """Number of rows that are predicted together, each from k others."""
    return max(_BLOCK // (k + 1) ** 2, 8)


def krige(kernel, P, y, noise):
    """Mean and variance of the last row of every point set, given the others.

    Parameters
    ----------
    kernel : sklearn kernel
    P : ndarray of shape (s, k + 1, d)
    y : ndarray of shape (s, k, p)
    noise : ndarray of shape (s, k)
        D.

    Returns
    -------
    LocalPrediction
    """
    return solve(kernels.stacked(kernel, P), y, noise)


def solve(K, y, noise):
    """`LocalPrediction` as of `krige`, from kernel matrices (s, k + 1, k + 1) of point sets."""
    return _solve(K, y, noise)[0]


def linearise(kernel, P, y, noise):
    """`LocalPrediction` as of `krige`, and its pullback.

    Returns
    -------
    local : LocalPrediction
    pull : callable
        ``(g_mean (s, p), g_variance (s,), inputs) -> (theta_bar, P_bar, noise_bar (s, k))``.
    """
    K, pull = kernels.linearize_stack(kernel, P)
    local, L, V = _solve(K, y, noise)
    return local, partial(_pull, pull, L, V)


def _solve(K, y, noise):
    """The `LocalPrediction`, the factor L, and ``L⁻¹ (k_N, y_N)``."""
    A, across, signal = K[:, :-1, :-1], K[:, :-1, -1:], K[:, -1, -1]
    L, V = whitened(A, np.concatenate([across, y], axis=2), np.mean(signal), noise)
    h, z = V[:, :, 0], V[:, :, 1:]
    mean = np.einsum("sk,skp->sp", h, z)
    return LocalPrediction(mean, signal - np.einsum("sk,sk->s", h, h), signal), L, V


def _pull(pull, L, V, g_mean, g_variance, inputs):
    X = back_substituted(L, V)
    u = np.append(-X[:, :, 0], np.ones((len(X), 1)), axis=1)
    q = g_variance[:, None] * u
    q[:, :-1] += np.einsum("skp,sp->sk", X[:, :, 1:], g_mean)
    noise_bar = u[:, :-1] * q[:, :-1]
    q *= 0.5
    G = empty((*u.shape, u.shape[1]))
    np.matmul(np.stack([u, q], axis=2), np.stack([q, u], axis=1), out=G)
    return *pull(G, inputs), noise_bar

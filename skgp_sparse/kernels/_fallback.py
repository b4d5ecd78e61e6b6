"""Kernels without a rule, through scikit-learn's public interface alone.

``kernel(A, eval_gradient=True)`` differentiates one point set with itself.  With ``A = [X_c; Z]``
its off-diagonal block is ``d k(X_c, Z) / d theta``, at ``(c + m)^2`` cost: hence the chunks.
"""

from __future__ import annotations

import numpy as np

_ROWS = 64
# kernel.diag and the diagonal of kernel(X, X) may be rounded differently
_ROUNDING = 1e-10


def cross(kernel, X, Z):
    """Return ``k(X, Z)`` as float64."""
    return np.ascontiguousarray(kernel(X, Z), dtype=np.float64)


def cross_gradient(kernel, X, Z, G):
    """Return the gradient of ``sum(G * k(X, Z))`` with respect to theta."""
    total = np.zeros(len(kernel.theta))
    if total.size == 0:
        return total
    for rows in _chunks(len(X), max(len(Z), _ROWS)):
        block = _gradient(kernel, X[rows], Z)
        total += np.einsum("ij,ijp->p", G[rows], block[: len(X[rows]), len(X[rows]) :])
    return total


def diag(kernel, X):
    """Return the noise-free ``k(x, x)`` and what ``kernel.diag`` adds to it."""
    # two separate arguments: white noise inside an unknown kernel then stays out
    parts = [np.diagonal(kernel(X[rows], X[rows])) for rows in _chunks(len(X), _ROWS)]
    signal = np.concatenate([np.zeros(0), *parts])
    noise = kernel.diag(X) - signal
    noise[np.abs(noise) <= _ROUNDING * np.abs(signal)] = 0.0
    return signal, noise if noise.any() else 0.0


def diag_gradient(kernel, X, g_signal, g_noise):
    """Return the gradient of ``g_signal @ signal + g_noise @ noise`` with respect to theta."""
    total = np.zeros(len(kernel.theta))
    if total.size == 0:
        return total
    for rows in _chunks(len(X), _ROWS):
        block = _gradient(kernel, X[rows], X[rows])
        at = np.arange(len(X[rows]))
        signal, both = block[at, at + len(at)], block[at, at]
        total += g_signal[rows] @ signal + g_noise[rows] @ (both - signal)
    return total


def _gradient(kernel, A, B):
    return kernel(np.vstack([A, B]), eval_gradient=True)[1]


def _chunks(n, size):
    return [slice(start, start + size) for start in range(0, n, size)]

"""Kernels without a rule, through scikit-learn's public interface alone.

``kernel(A, eval_gradient=True)`` differentiates one point set with itself. With ``A = [X_c; Z]``
its off-diagonal block is ``d k(X_c, Z) / d theta``, at ``(c + m)^2`` cost: hence the chunks.
"""

from functools import partial

import numpy as np

from ._nodes import Node

_ROWS = 64
# kernel.diag and the diagonal of kernel(X, X) may be rounded differently
_ASYMMETRY_TOLERANCE = 1e-10


class Opaque(Node):
    """A kernel without a rule, which has no gradient with respect to the inputs."""

    differentiable = False

    def __init__(self, kernel):
        super().__init__(kernel, arrays=1)

    def linearize(self, X, Z):
        K = np.ascontiguousarray(self.kernel(X, Z), dtype=np.float64)
        return K, partial(self._pull_cross, X, Z)

    def evaluate(self, X, Z):
        return np.array(self.kernel(X, Z), dtype=np.float64)  # the kernel may keep its own

    def linearize_stack(self, P):
        values = np.array([self.kernel(points, points) for points in P], dtype=np.float64)
        return values, partial(self._pull_stack, P)

    def diagonal(self, X):
        # two separate arguments: white noise inside an unknown kernel then stays out
        parts = [np.diagonal(self.kernel(X[rows], X[rows])) for rows in _chunks(len(X))]
        signal = np.concatenate([np.zeros(0), *parts])
        noise = self.kernel.diag(X) - signal
        noise[np.abs(noise) <= _ASYMMETRY_TOLERANCE * np.abs(signal)] = 0.0
        return signal, noise if noise.any() else 0.0, partial(self._pull_diag, X)

    def inputs(self, columns):
        return columns

    def _pull_cross(self, X, Z, G, inputs):
        def of_rows(rows):
            n = len(X[rows])
            return np.einsum("ij,ijp->p", G[rows], self._gradient(X[rows], Z)[:n, n:])

        return self._sum(of_rows, _chunks(len(X), max(len(Z), _ROWS)), inputs)

    def _pull_stack(self, P, G, inputs):
        def of_set(index):
            n = P.shape[1]
            return np.einsum("ij,ijp->p", G[index], self._gradient(P[index], P[index])[:n, n:])

        return self._sum(of_set, range(len(P)), inputs)

    def _pull_diag(self, X, g_signal, g_noise, inputs):
        def of_rows(rows):
            gradient, at = self._gradient(X[rows], X[rows]), np.arange(len(X[rows]))
            signal, both = gradient[at, at + len(at)], gradient[at, at]
            return g_signal[rows] @ signal + g_noise[rows] @ (both - signal)

        return self._sum(of_rows, _chunks(len(X)), inputs)

    def _gradient(self, A, B):
        return self.kernel(np.vstack([A, B]), eval_gradient=True)[1]

    def _sum(self, of_rows, chunks, inputs):
        """Gradients with respect to theta, summed over chunks, and to the inputs."""
        if inputs:
            raise TypeError(
                f"{type(self.kernel).__name__} has no derivative rule. Use "
                "optimize_inducing=False, or add a rule with skgp_sparse.kernels.register."
            )
        total = np.zeros(len(self.kernel.theta))
        return sum(map(of_rows, chunks), total) if total.size else total, 0.0


def _chunks(n, size=_ROWS):
    return [slice(start, start + size) for start in range(0, n, size)]

"""Mean and variance of a latent process, as nodes of a graph.

    mean = K u,     variance = k** + noise - ‖V‖² + ‖V TBᵀ‖²,     V = K L⁻ᵀ

with the kernel matrix K between queries and the inducing points, or all rows of an exact process,
where the last term is absent. The kernels are stationary, so that ``k**`` is a number. Random
features take the place of V where there are some, and only the last term is left of the variance.

ONNX has no triangular solve. With ``T = L⁻¹``, the product ``K Tᵀ`` loses digits where L is
ill-conditioned, and a step of refinement, ``V + (K - V Lᵀ) Tᵀ``, gives them back.
"""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.predictions.feature_posterior import ExactPosterior, SparsePosterior
from skgp_sparse._ground.linalg import inverse_lower, is_well_conditioned
from skgp_sparse.onnx import _kernel_formulas


class PosteriorGraph:
    """A process at the queries.

    Parameters
    ----------
    ops : Operators
    process : ExactPosterior or SparsePosterior
    X : node of shape (n, d)
    name : str
        That of the estimator, for errors.
    """

    def __init__(self, ops, process, X, name):
        _check(process, name)
        self.ops, self.process = ops, process
        self.X, self.K = X, _raw_features(ops, process.features, X)

    def mean(self):
        """Mean (n, p)."""
        return self.ops.MatMul(self.K, self.process.u)

    def variance(self):
        """Variance (n, 1), that of the noise of the kernel included."""
        features = self.process.features
        place = features.basis.origin[None] if features.complete else features.Z[:1]
        noise = _kernel_formulas.noise(self.ops, self.process.kernel, self.X, place)
        return self.ops.Add(self.ops.Max(self._latent(), 0.0), noise)

    def _latent(self):
        ops, features = self.ops, self.process.features
        TB = None if self.process.is_exact else self.process.TB
        if features.complete:
            return self._norms(_times_transposed(ops, self.K, TB))
        V = self._whitened(features.L)
        signal = kernels.diagonal(self.process.kernel, features.Z[:1])[0]
        rest = ops.Sub(float(np.squeeze(signal)), self._norms(V))
        return rest if TB is None else ops.Add(rest, self._norms(_times_transposed(ops, V, TB)))

    def _whitened(self, L):
        """V (n, m)."""
        ops, T = self.ops, inverse_lower(L)
        V = _times_transposed(ops, self.K, T)
        if is_well_conditioned(L, T):
            return V
        rest = ops.Sub(self.K, _times_transposed(ops, V, L))
        return ops.Add(V, _times_transposed(ops, rest, T))

    def _norms(self, V):
        """Squared norms (n, 1) of rows."""
        return self.ops.row_norms(V, self.process.features.size)


def _times_transposed(ops, A, B):
    return ops.MatMul(A, np.ascontiguousarray(B.T))


def _raw_features(ops, features, X):
    """Kernel functions, or cosines and sines (n, m)."""
    if not features.complete:
        return _kernel_formulas.cross(ops, features.kernel, X, features.Z)
    offsets = ops.Sub(X, features.basis.origin[None])
    phase = ops.MatMul(offsets, np.ascontiguousarray(features.frequencies.T))
    cosine = ops.Sin(ops.Add(phase, np.pi / 2))  # runtimes of Python 3.10 have no double cosine
    waves = ops.Concat(cosine, ops.Sin(phase), axis=1)
    return ops.Mul(waves, np.tile(features.amplitudes, 2)[None])


def _check(process, name):
    if type(process) not in (ExactPosterior, SparsePosterior):
        raise NotImplementedError(
            f"A {name} whose prediction is a {type(process).__name__} cannot be converted to ONNX. "
            "Set posterior to 'exact', 'fourier' or 'inducing' (without parameters), metric to "
            "'ard' and mean to None, and fit again."
        )
    if not process.features.complete:
        _kernel_formulas.check(process.kernel, name)

"""Mean and variance of a latent process, as nodes of a graph.

    mean = K u,     variance = k** + noise - ‖K Tᵀ‖² + ‖K (TB T)ᵀ‖²

with the kernel matrix K between queries and the inducing points, or all rows of an exact process,
where the last term is absent. The kernels are stationary, so that ``k**`` is a number.
"""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse.onnx import _kernel_formulas


class ProcessGraph:
    """A process at the queries.

    Parameters
    ----------
    ops : Operators
    process : Posterior
    X : node of shape (n, d)
    name : str
        That of the estimator, for errors.
    """

    def __init__(self, ops, process, X, name):
        _check(process, name)
        self.ops, self.process = ops, process
        self.K = _kernel_formulas.cross(ops, process.kernel, X, process.features.Z)

    def mean(self):
        """Mean (n, p)."""
        return self.ops.MatMul(self.K, self.process.u)

    def variance(self):
        """Variance (n, 1), that of the white noise of the kernel included."""
        ops, features, TB = self.ops, self.process.features, self.process.TB
        signal, noise, _ = kernels.diagonal(self.process.kernel, features.Z[:1])
        variance = ops.Sub(float(np.squeeze(signal)), self._norms(features.T))
        if TB is not None:
            variance = ops.Add(variance, self._norms(TB @ features.T))
        return ops.Add(ops.Max(variance, 0.0), float(np.squeeze(noise)))

    def _norms(self, T):
        """Squared norms (n, 1) of ``K Tᵀ``."""
        ops = self.ops
        return ops.row_norms(ops.MatMul(self.K, np.ascontiguousarray(T.T)), len(T))


def _check(process, name):
    if type(process) is not Posterior or process.kind not in ("exact", "inducing"):
        raise NotImplementedError(
            f"A {name} whose prediction is a {type(process).__name__} (posterior_ is "
            f"{process.kind!r}) cannot be converted to ONNX. Set posterior to 'exact' or to "
            "'inducing' (without n_mean) and metric to 'ard', and fit again."
        )
    _kernel_formulas.check(process.kernel, name)

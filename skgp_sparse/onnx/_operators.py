"""Nodes of a graph of ONNX."""

from functools import partial

import numpy as np
from skl2onnx.algebra import onnx_ops


class Operators:
    """The operators of one version of ONNX: ``ops.Add(a, b)`` is a node.

    Parameters
    ----------
    version : int
        The version of the operator set.
    """

    def __init__(self, version):
        self.version = version

    def __getattr__(self, name):
        return partial(self._node, getattr(onnx_ops, f"Onnx{name}"))

    def _node(self, operator, *inputs, **attributes):
        inputs = [np.array([one]) if isinstance(one, float) else one for one in inputs]
        return operator(*inputs, op_version=self.version, **attributes)

    def row_norms(self, A, size):
        """Squared norms (n, 1) of the rows of a matrix (n, size)."""
        return self.MatMul(self.Mul(A, A), np.ones((size, 1)))

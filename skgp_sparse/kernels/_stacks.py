"""Kernel matrices of many small point sets, all at once.

Where a matrix has a few thousand entries, a call of a function costs as much as its arithmetic,
and threads wait for the interpreter. Kernels with a formula here are evaluated on the whole stack.
"""

import numpy as np

from ._composites import PowerNode, ProductNode, SumNode
from ._formulas import ConstantRule, LengthScaleRule, length_scale
from ._nodes import Leaf, White, node


def stacked(kernel, P):
    """Evaluate ``k(P_i, P_i)`` without white noise.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    P : ndarray of shape (s, k, d)
        Point sets, float64.  Those of a set should be close to its first one, in units of their
        distances: the formulas lose as many digits as they are further away.

    Returns
    -------
    K : ndarray of shape (s, k, k)
        A new array.
    """
    shape = (*P.shape[:2], P.shape[1])
    K = _stack(node(kernel), P)
    return K if np.shape(K) == shape else np.full(shape, K)


def _stack(at, P):
    """The matrices, or a number that is the same for all pairs."""
    if isinstance(at, White):
        return 0.0
    if isinstance(at, SumNode | ProductNode):
        return at.combine(_stack(at.left, P), _stack(at.right, P))
    if isinstance(at, PowerNode):
        return _stack(at.base, P) ** at.exponent
    rule = at.rule if isinstance(at, Leaf) else None
    if isinstance(rule, ConstantRule):
        return float(at.kernel.constant_value)
    if isinstance(rule, LengthScaleRule):
        return _stationary(rule, P, length_scale(at.kernel, P.shape[2]))
    each = (P.shape[1], P.shape[1])
    return np.array([np.broadcast_to(at.cross(points, points)[0], each) for points in P])


def _stationary(rule, P, scale):
    x = (P - P[:, :1]) / scale
    norms = -0.5 * np.einsum("ski,ski->sk", x, x)
    H = x @ x.transpose(0, 2, 1)
    H += norms[:, :, None]
    H += norms[:, None, :]
    np.clip(H, -rule.far, 0.0, out=H)
    np.einsum("skk->sk", H)[:] = 0.0
    return rule.profile(H)[0]

"""A kernel of bits, such as the fingerprints of molecules, and of counts."""

from functools import partial
from typing import Any

import numpy as np

from ._differentiable import DifferentiableKernel
from ._nodes import Array, Pull, Scalars, constant_diag


class Tanimoto(DifferentiableKernel):
    r"""The Tanimoto kernel of bits or counts, as of molecular fingerprints.

    .. math:: k(x, z) = \frac{x \cdot z}{|x|^2 + |z|^2 - x \cdot z}.

    For bits, it is the share that two rows have in common of the bits that are set in either of
    them (the Jaccard index). It has no hyperparameters: multiply it by a `ConstantKernel`. It is
    positive definite for bits [1]_ and for all other numbers [2]_, so that inducing points move
    between rows. A row of zeros has the correlation 1 with itself, and 0 with all others.

    References
    ----------
    .. [1] Ralaivola, Swamidass, Saigo and Baldi (2005). Graph kernels for chemical informatics.
       Neural Networks 18, 1093-1110.
    .. [2] Tripp, Bacallado, Singh and Hernández-Lobato (2023). Tanimoto random features for
       scalable molecular machine learning. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.kernels import Tanimoto
    >>> bits = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    >>> Tanimoto()(bits).round(3)
    array([[1.   , 0.667, 0.   ],
           [0.667, 1.   , 0.   ],
           [0.   , 0.   , 1.   ]])
    """

    footprint = 1

    def __init__(self) -> None:
        pass  # scikit-learn reads the signature

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback, of points (..., n, d)."""
        X, Z = (np.asarray(one, np.result_type(one, np.float32)) for one in (X, Z))
        K, either = X @ np.swapaxes(Z, -1, -2), _squares(X, Z)
        either -= K
        np.divide(K, either, out=K, where=either > 0.0)
        K[either == 0.0] = 1.0  # of two rows of zeros
        return K, partial(_pull, X, Z, K)

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        """Return the values of ``k(P_i, P_i)`` for many small point sets, and their pullback."""
        K, pull = self.linearize(P, P)
        return K, partial(_pull_both, pull)

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return ``k(x, x)``, which is 1, and its pullback."""
        return constant_diag(1.0)


def _squares(X: Array, Z: Array) -> Array:
    """Return ``|x|² + |z|²`` of all pairs of points (..., n, d) and (..., m, d)."""
    return np.sum(X**2, axis=-1)[..., :, None] + np.sum(Z**2, axis=-1)[..., None, :]


def _pull(X: Array, Z: Array, K: Array, G: Array, inputs: bool) -> tuple[Any, Any]:
    """Gradients by ``dk/d(x.z) = (1 + k)² / s`` and ``dk/ds = -k (1 + k) / s`` of s = |x|²+|z|²."""
    if not inputs:
        return {}, 0.0
    total = _squares(X, Z)
    np.multiply(G, 1.0 + K, out=G)
    slope = np.divide(G, total, out=np.zeros_like(total), where=total > 0.0)
    own = np.einsum("...ij,...ij->...j", slope, K)
    slope *= 1.0 + K
    return {}, np.swapaxes(slope, -1, -2) @ X - 2.0 * own[..., None] * Z


def _pull_both(pull: Pull, G: Array, inputs: bool) -> tuple[Any, Any]:
    """Gradients of symmetric cotangents with respect to points that are both arguments."""
    gradients, bar = pull(G, inputs)
    return gradients, 2.0 * bar

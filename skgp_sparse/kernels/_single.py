"""Tiles of ``k(X, X)`` in single precision, for iterations that check themselves.

Their entries are off by some ``1e-7 |x|^2``, where x is in units of the length scales: enough to
lead conjugate gradients the right way, not enough to say where they are. Kernels without a formula
here, and rows that are spread over many length scales, have no such tiles.
"""

import numpy as np

from ._categorical import Categorical
from ._mapped import MappedNode
from ._missing import MissingNode
from ._nodes import Leaf, White
from ._registry import node
from ._sklearn_kernels.composites import ProductNode, SumNode
from ._sklearn_kernels.formulas import ConstantRule, LengthScaleRule, length_scale

_WIDEST = 1e3  # largest |x|^2 whose rounding does no harm
_LOWEST = np.float32(80.0)  # minus the exponent of the smallest value
_CLOSED_FORMS = {0.5: 1.0, 1.5: 3.0, 2.5: 5.0}  # s^2 / r^2 of Matern kernels, by nu


def single(kernel, X):
    """Return a function that makes tiles of ``k(X, X)`` in single precision.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X : ndarray of shape (n, d)
        Point set, float64.

    Returns
    -------
    tile : callable or None
        The function ``tile(rows, columns)`` returns the noise-free kernel matrix between the rows
        of X that two slices select, as a new float32 array. It is None if the kernel has no such
        tiles, or if they would be too inexact.
    """
    tile = _tile(node(kernel), X)
    return None if np.isscalar(tile) else tile


def _tile(at, X):
    """A function of two slices, a number that is the same for all pairs, or None."""
    if isinstance(at, White):
        return 0.0
    if isinstance(at, SumNode | ProductNode):
        return _combined(at.combine, _tile(at.left, X), _tile(at.right, X))
    if isinstance(at, MissingNode):
        complete = _tile(at.child, at.kernel.transform(X))
        return _combined(np.multiply, complete, _of_missing(at.kernel, X))
    if isinstance(at, MappedNode):
        return _tile(at.child, at.kernel.transform(X))
    rule = at.rule if isinstance(at, Leaf) else None
    if type(at.kernel) is Categorical:
        codes, kernel = at.kernel.codes(X), at.kernel
        return lambda rows, columns: kernel.values(codes[rows], codes[columns]).astype(np.float32)
    if isinstance(rule, ConstantRule):
        return float(at.kernel.constant_value)
    if isinstance(rule, LengthScaleRule):
        return _stationary(rule.nu, X, length_scale(at.kernel, X.shape[1]))
    return None


def _of_missing(kernel, X):
    """The tile of the correlations of missing values, 1 where there are none."""
    if not np.isnan(X).any():
        return 1.0
    return lambda rows, columns: np.float32(kernel.factor(X[rows], X[columns])[0])


def _combined(combine, left, right):
    if left is None or right is None:
        return None
    if np.isscalar(left) and np.isscalar(right):
        return float(combine(left, right))
    tiles, numbers = (left, right) if callable(left) else (right, left)

    def tile(*at):
        out = tiles(*at)
        return combine(out, numbers(*at) if callable(numbers) else np.float32(numbers), out=out)

    return tile


def _stationary(nu, X, scale):
    x = (X - np.median(X, axis=0)) / scale
    norms = np.einsum("ij,ij->i", x, x)
    if not norms.max() <= _WIDEST:
        return None
    factor = _CLOSED_FORMS.get(nu, -0.5)
    one = np.ones(len(x))
    first = np.column_stack([-2.0 * factor * x, factor * norms, one]).astype(np.float32)
    second = np.column_stack([x, one, factor * norms]).astype(np.float32)

    def tile(rows, columns):
        squares = first[rows] @ second[columns].T  # -r^2 / 2 of RBF, s^2 of Matern kernels
        if rows == columns:
            np.fill_diagonal(squares, 0.0)
        if np.isinf(nu):
            np.clip(squares, -_LOWEST, 0.0, out=squares)
            return np.exp(squares, out=squares)
        s = np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
        K = np.exp(np.maximum(-s, -_LOWEST))
        if nu == 0.5:
            return K
        if nu == 1.5:
            s += 1.0
        else:  # 1 + s + s^2 / 3
            s *= s / 3.0 + 1.0
            s += 1.0
        K *= s
        return K

    return tile

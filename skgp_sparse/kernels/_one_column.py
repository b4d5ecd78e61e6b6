"""Kernel matrices of rows in which one column is replaced, from those of the rows as they are.

Parts of a kernel that do not see the column stay. A stationary part adds the change of its squared
distances, and a part for levels multiplies by the change of one factor:

    H' = H + ((x_j - z_j)² - (x'_j - z_j)²) / (2 l_j²),
    k' = k ρ_j^([x'_j ≠ z_j] - [x_j ≠ z_j]).

This is right to rounding, and costs as much as one column, however many there are.

Tiles of ``k(X, X)`` in single precision, for iterations that check themselves.

Their entries are off by some ``1e-7 |x|^2``, where x is in units of the length scales: enough to
lead conjugate gradients the right way, not enough to say where they are. Kernels without a formula
here, and rows that are spread over many length scales, have no such tiles.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ._categorical import Categorical, as_codes
from ._differentiable import node
from ._mapped import MappedNode
from ._missing import Missing, MissingNode
from ._nodes import Array, Leaf, Node, Scalars, White, columns_read
from ._sklearn_kernels.composites import ProductNode, SumNode, _Pair
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


_FAR_IN_LENGTH_SCALES = (
    1e3  # distance in length scales from which squares lose digits: the part is computed anew
)
_LARGEST_WEIGHT = 300.0  # the sum of -log ρ, from which a factor may be too small to be changed

Replace = Callable[[int, Array], Scalars]  # (column, its other values (n,)) -> matrix


def replacing(kernel: Kernel, X: Array, Z: Array) -> Replace:
    """Return a function that computes ``k(X', Z)``, where X' is X with another column.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.
    X : ndarray of shape (n, d)
        Rows, float64.
    Z : ndarray of shape (m, d)
        Points, float64.

    Returns
    -------
    callable
        ``(j, values) -> K``: the noise-free matrix (n, m), or a number if all entries are equal,
        where column j has other values (n,). The caller must not overwrite it.
    """
    return _replacing(node(kernel), X, Z)[1]


def _replacing(part: Node, X: Array, Z: Array) -> tuple[Scalars, Replace]:
    """Return ``k(X, Z)`` of a node, and the function that replaces a column.

    That function returns the very same matrix where the node does not see the column, and a new one
    otherwise.
    """
    d = X.shape[1]
    if isinstance(part, _Pair):
        return _of_pair(part, X, Z)
    if isinstance(part, MappedNode) and part.kernel.sources(np.arange(d)) is not None:
        return _of_map(part, X, Z)
    value = part.evaluate(X, Z)
    if isinstance(part, Leaf):
        if type(part.kernel) is Categorical and part.kernel.weights(d).sum() < _LARGEST_WEIGHT:
            return value, _of_levels(part.kernel, X, Z, value)
        if isinstance(part.rule, LengthScaleRule) and d > 1:
            return value, _of_distances(part.kernel, part.rule, X, Z)
    return value, partial(_anew, part, X, Z, value)


def _anew(part: Node, X: Array, Z: Array, value: Scalars, j: int, values: Array) -> Scalars:
    is_read = j in columns_read(part, np.arange(X.shape[1]))
    return part.evaluate(_with(X, j, values), Z) if is_read else value


def _with(X: Array, j: int, values: Array) -> Array:
    """Return rows with another column."""
    X = X.copy()
    X[:, j] = values
    return X


def _of_pair(part: _Pair, X: Array, Z: Array) -> tuple[Scalars, Replace]:
    combine = np.add if isinstance(part, SumNode) else np.multiply
    children = [_replacing(child, X, Z) for child in part.children]
    own: list[Any] = [value for value, _ in children]
    together = combine(*own)

    def replace(j: int, values: Array) -> Scalars:
        new: list[Any] = [replace(j, values) for _, replace in children]
        changed = [one for one, before in zip(new, own) if one is not before]
        if not changed:
            return together
        shape = np.broadcast_shapes(*map(np.shape, new))
        return combine(*new, out=next((one for one in changed if np.shape(one) == shape), None))

    return together, replace


def _of_map(part: MappedNode, X: Array, Z: Array) -> tuple[Scalars, Replace]:
    kernel, sources = part.kernel, part.kernel.sources(np.arange(X.shape[1]))
    value, replace_transformed = _replacing(part.child, kernel.transform(X), kernel.transform(Z))

    def replace(j: int, values: Array) -> Scalars:
        (places,) = np.nonzero(sources == j)
        if not len(places):
            return value
        return replace_transformed(places[0], kernel.transform(_with(X, j, values))[:, places[0]])

    return (
        _with_missing(kernel, X, Z, value, replace)
        if isinstance(part, MissingNode)
        else (value, replace)
    )


def _with_missing(
    kernel: Missing, X: Array, Z: Array, value: Scalars, replace: Replace
) -> tuple[Any, Replace]:
    """Return the same times the factor of `Missing`."""
    factor = kernel.factor(X, Z)[0]
    product = value * factor

    def replace_missing(j: int, values: Array) -> Scalars:
        new, missing = replace(j, values), np.isnan(values)
        if np.array_equal(np.isnan(X[:, j]), missing):
            return product if new is value else np.multiply(new, factor)
        return new * kernel.factor(_with(X, j, values), Z)[0]

    return product, replace_missing


def _of_levels(kernel: Categorical, X: Array, Z: Array, value: Scalars) -> Replace:
    before, w = kernel.codes(X), kernel.weights(X.shape[1])
    places = [np.unique(codes, return_inverse=True) for codes in kernel.codes(Z).T]

    def replace(j: int, values: Array) -> Scalars:
        levels, of_level = places[j]
        gained = (as_codes(values)[:, None] == levels).astype(float)
        gained -= before[:, j, None] == levels
        changed = np.take(np.exp(w[j] * gained), of_level, axis=1)
        changed *= value
        return changed

    return replace


def _of_distances(kernel: Kernel, rule: LengthScaleRule, X: Array, Z: Array) -> Replace:
    scale, centre = length_scale(kernel, X.shape[1]), np.median(Z, axis=0)
    x, z = (X - centre) / scale, (Z - centre) / scale
    half = x @ z.T - 0.5 * (np.sum(x**2, axis=1)[:, None] + np.sum(z**2, axis=1))
    are_near = max(np.abs(x).max(), np.abs(z).max()) < _FAR_IN_LENGTH_SCALES

    def replace(j: int, values: Array) -> Scalars:
        before, after = x[:, j], (values - centre[j]) / scale[j]
        if not (are_near and np.abs(after).max() < _FAR_IN_LENGTH_SCALES):
            return rule.evaluate(kernel, _with(X, j, values), Z)
        rows = np.column_stack([after - before, 0.5 * (before**2 - after**2)])
        moved = rows @ np.stack([z[:, j], np.ones(len(z))])
        moved += half
        return rule.profile(np.clip(moved, -rule.far, 0.0, out=moved))[0]

    return replace

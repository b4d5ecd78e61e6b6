"""Answers from the tree of a kernel: single precision, frequencies, and inputs of searches.

- `single` has tiles of a kernel matrix in single precision, for iterative solvers.
- `spectrum` has the terms of a kernel from whose spectra random features draw their frequencies.
- `reaches_far` says whether a kernel does not fall with distance.
- `in_units` has inputs in which rows are near that a kernel finds near, for searches of near rows.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincinv
from sklearn.gaussian_process import kernels as _sk

from skgp_sparse.ground.validation import Array, Ints, Kernel, NDArray

from ._differentiable import Leaf, fourth_order_slope, node
from ._functions import evaluate
from ._leaves import Categorical, HeteroscedasticNoise, as_codes, categories
from ._mapped import Columns, MappedNode, MissingNode
from ._nodes import Node, White, assemble
from ._sklearn_kernels import ConstantRule, LengthScaleRule, ProductNode, SumNode, length_scale

_WIDEST = 1e3  # largest |x|^2 whose rounding does no harm
_LOWEST = 80.0  # minus the exponent of the smallest value


Single = NDArray[np.float32]
Tile = Callable[[slice, slice], Single]
Values = Tile | float | None  # a number that is the same for all pairs; None: there are none


# ``tile(rows, columns)`` is a new float32 array, without noise. It is None if the kernel has no
# such tiles, or if they would be too inexact.
def single(kernel: Kernel, X: Array) -> Tile | None:
    """Return a function that makes tiles of ``k(X, X)`` in single precision, or None."""
    tile = _tile(node(kernel), X)
    return tile if callable(tile) else None


def _tile(at: Node, X: Array) -> Values:
    """The values of a node."""
    if isinstance(at, White):
        return 0.0
    if isinstance(at, SumNode | ProductNode):
        return _combined(at.combine, _tile(at.left, X), _tile(at.right, X))
    if isinstance(at, MappedNode):
        inside, kernel = _tile(at.child, at.kernel.transform(X)), at.kernel
        if not (isinstance(at, MissingNode) and np.isnan(X).any()):
            return inside
        factor = lambda *some: np.asarray(kernel.factor(*(X[rows] for rows in some))[0], np.float32)
        return _combined(np.multiply, inside, factor)
    rule = at.rule if isinstance(at, Leaf) else None
    if type(at.kernel) is Categorical:
        return lambda rows, columns: np.asarray(at.evaluate(X[rows], X[columns]), np.float32)
    if isinstance(rule, ConstantRule):
        return float(at.kernel.constant_value)
    if isinstance(rule, LengthScaleRule):
        return _stationary(rule, X, length_scale(at.kernel, X.shape[1]))
    return None


def _combined(combine: np.ufunc, left: Values, right: Values) -> Values:
    """Tiles of a sum or product of kernels, a number of numbers; None: one of them has none."""
    if left is None or right is None:
        return None
    if np.isscalar(left) and np.isscalar(right):
        return float(combine(left, right))

    def tile(*at: slice) -> Single:
        first, second = (one(*at) if callable(one) else np.float32(one) for one in (left, right))
        return combine(first, second, out=first if np.ndim(first) else second)

    return tile


def _stationary(rule: LengthScaleRule, X: Array, scale: Array) -> Tile | None:
    """Tiles (rows, columns) in single precision; None where rows are too far for it."""
    x = (X - np.median(X, axis=0)) / scale
    norms, one = np.einsum("ij,ij->i", x, x), np.ones(len(x))
    if not norms.max() <= _WIDEST:
        return None
    first = np.column_stack([x, -0.5 * norms, one]).astype(np.float32)
    second = np.column_stack([x, one, -0.5 * norms]).astype(np.float32)
    far = np.float32(rule.farthest(_LOWEST))

    def tile(rows: slice, columns: slice) -> Single:
        half = first[rows] @ second[columns].T
        np.clip(half, -far, 0.0, out=half)
        if rows == columns:
            np.fill_diagonal(half, 0.0)
        return np.asarray(rule.profile(half)[0], dtype=np.float32)

    return tile


_WHOLE = 1, 2, 3, 4  # exponents; more make too many terms
_SPECTRAL = _sk.RBF, _sk.Matern, _sk.RationalQuadratic


class Factor:
    """A kernel of variance one that is no sum or product, and where its hyperparameters are."""

    # `place` is in theta of the expression; `Columns` around it choose columns, the outermost first
    def __init__(self, kernel: Kernel, place: slice, around: tuple[Columns, ...]) -> None:
        self.kernel, self.place, self.around = kernel, place, around

    def columns(self, d: int) -> Ints:
        """Return the numbers of its columns of d."""
        columns = np.arange(d)
        for one in self.around:
            columns = columns[one.chosen(len(columns))]
        return columns

    def frequencies(self, normal: Array, level: Array) -> Array:
        """Return frequencies (k, d) of draws ``e`` (k, d) and ``u`` (k,)."""
        frequencies, own = np.zeros_like(normal), self.columns(normal.shape[1])
        scaled = normal[:, own] / self.kernel.length_scale
        frequencies[:, own] = _radii(self.kernel, level)[:, None] * scaled
        return frequencies

    def pull(self, normal: Array, level: Array, bar: Array) -> Array:
        """Return the gradient with respect to the hyperparameters from `bar` (k, d)."""
        kernel, own = self.kernel, self.columns(normal.shape[1])
        direction = bar[:, own] * normal[:, own] / kernel.length_scale  # sums to that of the radius
        of_scale = -_radii(kernel, level) @ direction
        slopes = {"length_scale": of_scale if np.ndim(kernel.length_scale) else of_scale.sum()}
        if hasattr(kernel, "alpha"):
            # differences of fourth order in log alpha are good to ten digits
            slope = fourth_order_slope(partial(_radii, kernel, level))
            slopes["alpha"] = slope @ direction.sum(axis=1)
        return assemble(kernel, slopes)


class Term(NamedTuple):
    """A product of constants and of kernels of variance one."""

    constants: tuple[Factor, ...] = ()
    factors: tuple[Factor, ...] = ()

    def variance(self) -> float:
        """Return the product of the constants."""
        return float(np.prod([one.kernel.constant_value for one in self.constants]))

    def frequencies(self, normal: Array, level: Array) -> Array:
        """Return frequencies (k, d) of draws (k, ., d) and (k, .), one for each factor at least."""
        parts = (one.frequencies(normal[:, j], level[:, j]) for j, one in enumerate(self.factors))
        return sum(parts, start=np.zeros_like(normal[:, 0]))

    def pull(
        self, normal: Array, level: Array, bar: Array, log_variance_bar: float, theta_bar: Array
    ) -> None:
        """Add the gradient with respect to the hyperparameters to `theta_bar`."""
        for one in self.constants:
            theta_bar[one.place] += assemble(one.kernel, {"constant_value": log_variance_bar})
        for j, factor in enumerate(self.factors):
            theta_bar[factor.place] += factor.pull(normal[:, j], level[:, j], bar)


def spectrum(kernel: Kernel) -> list[Term] | Any:
    """Return the terms of a kernel expression, from whose spectral measures one can draw.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    list of Term or None
        The terms, whose sum is the kernel without its white noise. It is None if a part of the
        expression is neither RBF, Matern, RationalQuadratic, ConstantKernel or WhiteKernel, nor a
        sum, product, power with a whole exponent, or `Columns` of these.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
    >>> from skgp_sparse import kernels
    >>> term, constant = kernels.spectrum(2.0 * RBF() * RBF(3.0) + ConstantKernel() + WhiteKernel())
    >>> term.variance(), len(term.factors), len(constant.factors)
    (2.0, 2, 0)
    >>> kernels.spectrum(RBF() + DotProduct()) is None
    True
    """
    try:
        return _terms(kernel)
    except _NoTerms:
        return None


class _NoTerms(Exception):
    """A kernel is no sum of products of leaves."""


def _terms(kernel: Kernel, start: int = 0, around: tuple[Columns, ...] = ()) -> list[Term]:
    """The terms of a part whose hyperparameters begin at `start` in theta."""
    kind = type(kernel)
    if kind in (_sk.Sum, _sk.Product):
        left = _terms(kernel.k1, start, around)
        right = _terms(kernel.k2, start + kernel.k1.n_dims, around)
        return left + right if kind is _sk.Sum else [*map(_joined, product(left, right))]
    if kind is _sk.Exponentiation and kernel.exponent in _WHOLE:
        inside = _terms(kernel.kernel, start, around)
        return [*map(_joined, product(inside, repeat=int(kernel.exponent)))]
    if kind is Columns:
        return _terms(kernel.kernel, start, (*around, kernel))
    if kind in (_sk.WhiteKernel, HeteroscedasticNoise):
        return []
    factor = Factor(kernel, slice(start, start + kernel.n_dims), around)
    if kind is _sk.ConstantKernel:
        return [Term(constants=(factor,))]
    if kind in _SPECTRAL:  # a subclass may have another formula
        return [Term(factors=(factor,))]
    raise _NoTerms


def _joined(terms: tuple[Term, ...]) -> Term:
    """The product of terms."""
    return Term(*(sum(parts, start=()) for parts in zip(*terms)))


def _radii(kernel: Kernel, level: Array, step: float = 0.0) -> Any:
    """``radius(u)`` of uniform numbers, of a rational quadratic kernel at a step in log alpha."""
    if type(kernel) is _sk.RationalQuadratic:
        alpha = kernel.alpha * np.exp(step)
        return np.sqrt(gammaincinv(alpha, level) / alpha)
    if type(kernel) is _sk.Matern and kernel.nu < np.inf:
        return np.sqrt(kernel.nu / gammaincinv(kernel.nu, level))
    return np.ones_like(level)


_FAR = np.outer([1e2, 1e4], np.linspace(1.0, 2.0, 64) ** 2)  # in units of scales or spreads
_LITTLE, _STILL = 1e-6, 0.5  # share of the variance, and of what covariances vary nearer by


# Covariances along a column still vary where rows are far apart, as periodic and linear ones do; a
# constant does not. Columns that a map mixes, such as places on a sphere, are not asked, and
# neither are codes.
def reaches_far(kernel: Kernel, row: Array, scale: Array) -> bool:
    """Return whether a kernel does not fall with distance, at a row (1, d) and of scales (d,)."""
    tree, d = node(kernel), row.shape[1]
    pairs = tree.walk(np.arange(d))
    seen = [part.inputs(own) for part, own in pairs if own is not None and not part.is_map]
    units = np.max([scale, *np.nan_to_num(tree.scales(d), posinf=0.0)], axis=0)
    codes = [column for _, column in categories(kernel, d)]
    for j in np.setdiff1d(np.concatenate([np.arange(0), *seen]), codes):
        X = np.repeat(row, 1 + _FAR.size, axis=0)
        X[:, j] = units[j] * (1.0 + np.r_[0.0, _FAR.ravel()])
        with suppress(LookupError, ValueError):  # of a kernel that takes known rows only
            near, *far = np.split(evaluate(kernel, X[:1], X)[0], [1, 1 + _FAR.shape[1]])
            varies, still = np.ptp(far, axis=1)
            if varies > _LITTLE * near[0] and still > _STILL * varies:
                return True
    return False


_DIMENSIONS = 64  # one for each of so many levels; more of them are about as far from each other
_SEVERAL = 50  # levels that tell how near levels are
_SMALLEST, _LARGEST = 1e-4, 0.999  # correlations between them


# Inputs are in units of `scale`, as of `length_scales`, if all parts of the kernel see all columns
# alike. Otherwise they are what every part sees, in units of its length scales. Levels of a
# category are as far from each other as numbers of their mean correlation in an RBF kernel.
def in_units(kernel: Kernel, X: Array, scale: Array) -> Array:
    """Return inputs (n, r) in which rows are near that a kernel finds near."""
    tree, found = node(kernel), categories(kernel, X.shape[1])
    if not found and not any(part.is_map for part, _ in tree.walk(None)):
        return X / scale
    parts = tree.places(X)
    for column in dict.fromkeys(column for _, column in found):
        distance = np.sqrt(-np.log(_correlation(kernel, X.shape[1], column)))
        parts.append(distance * _places(as_codes(X[:, column])))
    return np.hstack(parts) if parts else X / scale


def _correlation(kernel: Kernel, d: int, column: int) -> Any:
    """Mean correlation of rows that are in different levels, and the same otherwise."""
    rows = np.zeros((_SEVERAL, d))
    rows[:, column] = np.arange(_SEVERAL)
    K = evaluate(kernel, rows, rows)
    mean = np.mean(K[~np.eye(_SEVERAL, dtype=bool)]) / np.mean(K.diagonal())
    return np.clip(mean, _SMALLEST, _LARGEST)


def _places(codes: Ints) -> Array:
    """Vectors of length 1 (n, 64) of codes, orthogonal or random and nearly so; 0 if negative."""
    levels, index = np.unique(codes, return_inverse=True)
    vectors = np.array([_vector(level) for level in levels]).reshape(-1, _DIMENSIONS)
    return vectors[index.reshape(len(codes))]


def _vector(code: int) -> Any:
    if code < _DIMENSIONS:
        return (np.arange(_DIMENSIONS) == code).astype(float)
    draw = np.random.RandomState(code % 2**32).normal(size=_DIMENSIONS)
    return draw / np.linalg.norm(draw)

"""Tiles in single precision, and frequencies, from the tree of a kernel.

Random features draw their frequencies from the spectra of stationary kernels.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv
from sklearn.gaussian_process import kernels as _sk
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse.ground.validation import Array, Ints

from ._categorical import Categorical
from ._differentiable import Leaf, Node, White, assemble, fourth_order_slope, node
from ._heteroscedastic_noise import HeteroscedasticNoise
from ._mapped import Columns, MappedNode, Missing, MissingNode
from ._sklearn_kernels import ConstantRule, LengthScaleRule, ProductNode, SumNode, length_scale

_WIDEST = 1e3  # largest |x|^2 whose rounding does no harm
_LOWEST = 80.0  # minus the exponent of the smallest value


Single = npt.NDArray[np.float32]
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
    if isinstance(at, MissingNode):
        complete = _tile(at.child, at.kernel.transform(X))
        return _combined(np.multiply, complete, _of_missing(at.kernel, X))
    if isinstance(at, MappedNode):
        return _tile(at.child, at.kernel.transform(X))
    rule = at.rule if isinstance(at, Leaf) else None
    if type(at.kernel) is Categorical:
        return lambda rows, columns: np.asarray(at.evaluate(X[rows], X[columns]), np.float32)
    if isinstance(rule, ConstantRule):
        return float(at.kernel.constant_value)
    if isinstance(rule, LengthScaleRule):
        return _stationary(rule, X, length_scale(at.kernel, X.shape[1]))
    return None


def _of_missing(kernel: Missing, X: Array) -> Tile | float:
    """The tile of the correlations of missing values, 1 where there are none."""
    if not np.isnan(X).any():
        return 1.0
    return lambda rows, columns: np.asarray(kernel.factor(X[rows], X[columns])[0], np.float32)


def _combined(combine: np.ufunc, left: Values, right: Values) -> Values:
    if left is None or right is None:
        return None
    if np.isscalar(left) and np.isscalar(right):
        return float(combine(left, right))

    def tile(*at: slice) -> Single:
        first, second = (one(*at) if callable(one) else np.float32(one) for one in (left, right))
        return combine(first, second, out=first if np.ndim(first) else second)

    return tile


def _stationary(rule: LengthScaleRule, X: Array, scale: Array) -> Tile | None:
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


class Factor(NamedTuple):
    """A kernel of variance one that is no sum or product, and where its hyperparameters are."""

    kernel: Kernel
    place: slice  # in theta of the expression
    around: tuple[Columns, ...] = ()  # `Columns` that choose its columns, the outermost first

    def columns(self, d: int) -> Ints:
        """Return the numbers of its columns of d."""
        columns = np.arange(d)
        for one in self.around:
            columns = columns[one.chosen(len(columns))]
        return columns

    def within(self, columns: Columns) -> "Factor":
        """Return the factor inside `Columns`."""
        return self._replace(around=(columns, *self.around))

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
            slopes["alpha"] = _slope_in_alpha(kernel, level) @ direction.sum(axis=1)
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
        parts = (
            factor.frequencies(normal[:, j], level[:, j]) for j, factor in enumerate(self.factors)
        )
        return sum(parts, start=np.zeros_like(normal[:, 0]))

    def pull(
        self, normal: Array, level: Array, bar: Array, log_variance_bar: float, theta_bar: Array
    ) -> None:
        """Add the gradient with respect to the hyperparameters to `theta_bar`."""
        for one in self.constants:
            theta_bar[one.place] += assemble(one.kernel, {"constant_value": log_variance_bar})
        for j, factor in enumerate(self.factors):
            theta_bar[factor.place] += factor.pull(normal[:, j], level[:, j], bar)


def spectrum(kernel: Kernel) -> list[Term] | None:
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
        return _terms(kernel, 0)
    except _NoTerms:
        return None


class _NoTerms(Exception):
    """A kernel is no sum of products of leaves."""


def _terms(kernel: Kernel, start: int) -> list[Term]:
    """The terms of a part whose hyperparameters begin at `start` in theta."""
    kind = type(kernel)
    if kind in (_sk.Sum, _sk.Product):
        left = _terms(kernel.k1, start)
        right = _terms(kernel.k2, start + kernel.k1.n_dims)
        return left + right if kind is _sk.Sum else [*map(_joined, product(left, right))]
    if kind is _sk.Exponentiation and kernel.exponent in _WHOLE:
        inside = _terms(kernel.kernel, start)
        return [*map(_joined, product(inside, repeat=int(kernel.exponent)))]
    if kind is Columns:
        inside = _terms(kernel.kernel, start)
        return [Term(c, tuple(one.within(kernel) for one in factors)) for c, factors in inside]
    if kind in (_sk.WhiteKernel, HeteroscedasticNoise):
        return []
    factor = Factor(kernel, slice(start, start + kernel.n_dims))
    if kind is _sk.ConstantKernel:
        return [Term(constants=(factor,))]
    if kind in _SPECTRAL:  # a subclass may have another formula
        return [Term(factors=(factor,))]
    raise _NoTerms


def _joined(terms: tuple[Term, ...]) -> Term:
    """The product of terms."""
    return Term(*(sum(parts, start=()) for parts in zip(*terms)))


def _radii(kernel: Kernel, level: Array, alpha: float | None = None) -> Any:
    """``radius(u)`` of uniform numbers, of a rational quadratic kernel with another alpha."""
    if type(kernel) is _sk.RationalQuadratic:
        alpha = kernel.alpha if alpha is None else alpha
        return np.sqrt(gammaincinv(alpha, level) / alpha)
    if type(kernel) is _sk.Matern and kernel.nu < np.inf:
        return np.sqrt(kernel.nu / gammaincinv(kernel.nu, level))
    return np.ones_like(level)


def _slope_in_alpha(kernel: Kernel, level: Array) -> Array:
    """Derivative of the radius by log alpha: differences of fourth order, good to ten digits."""
    return fourth_order_slope(lambda t: _radii(kernel, level, kernel.alpha * np.exp(t)))

"""Sums, products and powers of kernels.

Reverse mode for two children with values ``K1, K2`` and cotangent ``G``:

    K1 + K2 : G, G            K1 * K2 : G * K2, G * K1            K ** p : G * p * K ** (p - 1)

The diagonal carries white noise as a second component, ``(signal, noise)`` with
``signal + noise = kernel.diag``, so that noise nested in products is still told apart.

A child with a scalar value never overwrites its cotangent, and needs only its sum: it goes first
and costs no copy.

The rules and nodes of scikit-learn's kernels are registered here, by their exact types.
PairwiseKernel and Matern of other nu than 1/2, 3/2, 5/2 and inf have no rule.
"""

from abc import abstractmethod
from functools import partial

import numpy as np
from sklearn.gaussian_process import kernels as _sk

from skgp_sparse.ground.parallel import applied

from . import _sklearn_leaves
from ._differentiable import BUILDERS, Leaf, Node, Opaque, White, free, node


def _is_scalar(value):
    return getattr(value, "ndim", 0) == 0


def _is_zero(value):
    return _is_scalar(value) and value == 0.0


def _join(left, right):
    return np.concatenate([left[0], right[0]]), left[1] + right[1]


def _times(factor, pulled):
    return factor * pulled[0], factor * pulled[1]


class _Pair(Node):
    """Two children; abstract."""

    def __init__(self, kernel):
        self.children = self.left, self.right = node(kernel.k1), node(kernel.k2)
        is_noise = any(isinstance(child, White) for child in self.children)
        super().__init__(kernel, arrays=0 if is_noise else 1)

    @abstractmethod
    def join(self, left, right):
        """Return a value and its pullback, from those of the children."""

    def linearize(self, X, Z):
        return self.join(self.left.linearize(X, Z), self.right.linearize(X, Z))


class SumNode(_Pair):
    """``k1 + k2``."""

    combine = np.add

    def join(self, left, right):
        (K1, pull1), (K2, pull2) = left, right
        scalars = _is_scalar(K1), _is_scalar(K2)
        return _add(K1, K2, applied), partial(_pull_sum, pull1, pull2, scalars)

    def evaluate(self, X, Z):
        return _add(self.left.evaluate(X, Z), self.right.evaluate(X, Z), _applied_within)

    def diagonal(self, X):
        s1, n1, pull1 = self.left.diagonal(X)
        s2, n2, pull2 = self.right.diagonal(X)
        return s1 + s2, n1 + n2, partial(_pull_sum_diag, pull1, pull2)


def _pull_sum(pull1, pull2, scalars, G, inputs):
    if scalars[1]:
        right = pull2(G, inputs)
        return _join(pull1(G, inputs), right)
    left = pull1(G if scalars[0] else applied(np.positive, G), inputs)
    return _join(left, pull2(G, inputs))


def _pull_sum_diag(pull1, pull2, g_signal, g_noise, inputs):
    return _join(pull1(g_signal, g_noise, inputs), pull2(g_signal, g_noise, inputs))


def _add(K1, K2, apply):
    if _is_zero(K1):
        return K2
    return K1 if _is_zero(K2) else apply(np.add, K1, K2)


def _applied_within(function, K1, K2):
    """The function of two values, in the place of one of them that is an array."""
    arrays = [K for K in (K1, K2) if not _is_scalar(K)]
    return function(K1, K2, out=arrays[0] if arrays else None)


class ProductNode(_Pair):
    """``k1 * k2``."""

    combine = np.multiply

    def join(self, left, right):
        (K1, pull1), (K2, pull2) = left, right
        if _is_zero(K1) or _is_zero(K2):
            return 0.0, partial(_pull_zero, self.kernel)
        K = applied(np.multiply, K1, K2)
        if _is_scalar(K1):
            return K, partial(_pull_scaled, True, self.left.kernel, K, K1, pull1, pull2)
        if _is_scalar(K2):
            return K, partial(_pull_scaled, False, self.right.kernel, K, K2, pull2, pull1)
        return K, partial(_pull_product, K1, K2, pull1, pull2)

    def evaluate(self, X, Z):
        K1, K2 = self.left.evaluate(X, Z), self.right.evaluate(X, Z)
        return 0.0 if _is_zero(K1) or _is_zero(K2) else _applied_within(np.multiply, K1, K2)

    def diagonal(self, X):
        left, right = self.left.diagonal(X), self.right.diagonal(X)
        (s1, n1, _), (s2, n2, _) = left, right
        noise = _multiply(n1, s2) + _multiply(s1, n2) + _multiply(n1, n2)
        return _multiply(s1, s2), noise, partial(_pull_product_diag, left, right)


def _pull_zero(kernel, G, inputs):
    return np.zeros(len(kernel.theta)), 0.0


def _pull_scaled(scalar_first, scalar, K, factor, pull_scalar, pull_other, G, inputs):
    """Pull on ``K = factor * other``, scaling the other's results instead of `G`."""
    g_factor = np.asarray(_dot(G, K) / factor) if free(scalar) else np.zeros(())
    pulled = pull_scalar(g_factor, False)
    other = _times(factor, pull_other(G, inputs))
    return _join(pulled, other) if scalar_first else _join(other, pulled)


def _pull_product(K1, K2, pull1, pull2, G, inputs):
    left = pull1(applied(np.multiply, G, K2), inputs)
    return _join(left, pull2(np.multiply(G, K1, out=G), inputs))


def _pull_product_diag(left, right, g_signal, g_noise, inputs):
    (s1, n1, pull1), (s2, n2, pull2) = left, right
    pulled = pull1(g_signal * s2 + g_noise * n2, g_noise * (s2 + n2), inputs)
    return _join(pulled, pull2(g_signal * s1 + g_noise * n1, g_noise * (s1 + n1), inputs))


def _multiply(a, b):
    # a scalar zero stays one
    return 0.0 if _is_zero(a) or _is_zero(b) else a * b


def _dot(G, K):
    return K * np.sum(G) if _is_scalar(K) else np.vdot(G, K)


class PowerNode(Node):
    """``k ** exponent``; scikit-learn does not optimise the exponent."""

    def __init__(self, kernel):
        super().__init__(kernel, arrays=1)
        self.base, self.exponent = node(kernel.kernel), float(kernel.exponent)
        self.children = (self.base,)

    def linearize(self, X, Z):
        base, pull_base = self.base.linearize(X, Z)
        return np.power(base, self.exponent), partial(_pull_power, self.exponent, base, pull_base)

    def diagonal(self, X):
        s, n, pull_base = self.base.diagonal(X)
        signal = np.power(s, self.exponent)
        noise = 0.0 if _is_zero(n) else np.power(s + n, self.exponent) - signal
        return signal, noise, partial(_pull_power_diag, self.exponent, s, n, pull_base)


def _pull_power(exponent, base, pull_base, G, inputs):
    slope = _slope(exponent, base)
    if _is_scalar(base):
        return _times(slope, pull_base(G, inputs))
    return pull_base(np.multiply(G, slope, out=G), inputs)


def _pull_power_diag(exponent, s, n, pull_base, g_signal, g_noise, inputs):
    at_signal, at_sum = _slope(exponent, s), _slope(exponent, s + n)
    g_base = g_signal * at_signal + g_noise * (at_sum - at_signal)
    return pull_base(g_base, g_noise * at_sum, inputs)


def _slope(exponent, base):
    with np.errstate(divide="ignore"):
        slope = exponent * np.power(base, exponent - 1.0)
    # a kernel value that underflowed to 0 must not turn a zero gradient into NaN
    return np.where(np.equal(base, 0.0), 0.0, slope) if exponent < 1.0 else slope


def _refuse_compound(kernel):
    raise ValueError("CompoundKernel is not a covariance. Add or multiply its kernels instead.")


def _matern(kernel):
    rule = _sklearn_leaves.MATERN.get(float(kernel.nu))
    return Opaque(kernel) if rule is None else Leaf(kernel, rule)


_RULES = {
    _sk.ConstantKernel: _sklearn_leaves.ConstantRule(),
    _sk.DotProduct: _sklearn_leaves.DotProductRule(),
    _sk.RBF: _sklearn_leaves.RBF_RULE,
    _sk.RationalQuadratic: _sklearn_leaves.RationalQuadraticRule(),
    _sk.ExpSineSquared: _sklearn_leaves.ExpSineSquaredRule(),
}
BUILDERS.update({kernel: partial(Leaf, rule=rule) for kernel, rule in _RULES.items()})
BUILDERS[_sk.Matern] = _matern
BUILDERS[_sk.WhiteKernel] = White
BUILDERS[_sk.Sum] = SumNode
BUILDERS[_sk.Product] = ProductNode
BUILDERS[_sk.Exponentiation] = PowerNode
BUILDERS[_sk.CompoundKernel] = _refuse_compound

"""Sums, products and powers of kernels.

Reverse mode for two children with values ``K1, K2`` and cotangent ``G``:

    K1 + K2 : G, G            K1 * K2 : G * K2, G * K1            K ** p : G * p * K ** (p - 1)

The diagonal carries white noise as a second component, ``(signal, noise)`` with
``signal + noise = kernel.diag``, so that noise nested in products is still told apart.

A child with a scalar value never overwrites its cotangent, and needs only its sum: it goes first
and costs no copy.
"""

from __future__ import annotations

import numpy as np

from skgp_sparse._buffers import empty

from ._nodes import Node, White, node


def _is_scalar(value):
    return np.ndim(value) == 0


def _is_zero(value):
    return _is_scalar(value) and value == 0.0


def _join(left, right):
    return np.concatenate([left[0], right[0]]), left[1] + right[1]


def _times(factor, pulled):
    return factor * pulled[0], factor * pulled[1]


class _Pair(Node):
    """Two children; abstract."""

    def __init__(self, kernel):
        super().__init__(kernel)
        self.left, self.right = node(kernel.k1), node(kernel.k2)

    def leaves(self):
        return self.left.leaves() + self.right.leaves()


class SumNode(_Pair):
    """``k1 + k2``."""

    def cross(self, X, Z):
        K1, pull1 = self.left.cross(X, Z)
        K2, pull2 = self.right.cross(X, Z)
        alone = _is_scalar(K1) or _is_scalar(K2)
        scalar_last = _is_scalar(K2)

        def pull(G, inputs):
            if scalar_last:
                right = pull2(G, inputs)
                return _join(pull1(G, inputs), right)
            left = pull1(G if alone else G.copy(), inputs)
            return _join(left, pull2(G, inputs))

        return _add(K1, K2), pull

    def diag(self, X):
        s1, n1, pull1 = self.left.diag(X)
        s2, n2, pull2 = self.right.diag(X)
        return s1 + s2, n1 + n2, lambda *args: _join(pull1(*args), pull2(*args))

    def footprint(self):
        children = self.left.footprint() + self.right.footprint()
        silent = any(type(child) is White for child in (self.left, self.right))
        return children + (0 if silent or not children else 1)


def _add(K1, K2):
    if _is_zero(K1):
        return K2
    return K1 if _is_zero(K2) else K1 + K2


class ProductNode(_Pair):
    """``k1 * k2``."""

    def cross(self, X, Z):
        K1, pull1 = self.left.cross(X, Z)
        K2, pull2 = self.right.cross(X, Z)
        if _is_zero(K1) or _is_zero(K2):
            return 0.0, lambda G, inputs: (np.zeros(len(self.kernel.theta)), 0.0)
        K = _product(K1, K2)
        if _is_scalar(K1):
            return K, lambda G, i: _join(*_pull_scaled(G, i, K, K1, self.left, pull1, pull2))
        if _is_scalar(K2):
            return K, lambda G, i: _join(*_pull_scaled(G, i, K, K2, self.right, pull2, pull1)[::-1])
        return K, lambda G, i: _join(pull1(G * K2, i), pull2(np.multiply(G, K1, out=G), i))

    def diag(self, X):
        s1, n1, pull1 = self.left.diag(X)
        s2, n2, pull2 = self.right.diag(X)

        def pull(gs, gn, inputs):
            left = pull1(gs * s2 + gn * n2, gn * (s2 + n2), inputs)
            return _join(left, pull2(gs * s1 + gn * n1, gn * (s1 + n1), inputs))

        noise = _multiply(n1, s2) + _multiply(s1, n2) + _multiply(n1, n2)
        return _multiply(s1, s2), noise, pull

    def footprint(self):
        children = self.left.footprint() + self.right.footprint()
        return children + 1 if children else 0


def _pull_scaled(G, inputs, K, factor, scalar, pull_scalar, pull_other):
    """Pull on ``K = factor * other``, scaling the other's results instead of `G`."""
    theta = len(scalar.kernel.theta)
    g_factor = np.asarray(_dot(G, K) / factor) if theta else np.zeros(())
    pulled = pull_scalar(g_factor, False)
    return pulled, _times(factor, pull_other(G, inputs))


def _product(K1, K2):
    if _is_scalar(K1) and _is_scalar(K2):
        return K1 * K2
    return np.multiply(K1, K2, out=empty(np.broadcast_shapes(np.shape(K1), np.shape(K2))))


def _multiply(a, b):
    # a scalar zero stays one
    return 0.0 if _is_zero(a) or _is_zero(b) else a * b


def _dot(G, K):
    return K * np.sum(G) if _is_scalar(K) else np.vdot(G, K)


class PowerNode(Node):
    """``k ** exponent``; scikit-learn does not optimise the exponent."""

    def __init__(self, kernel):
        super().__init__(kernel)
        self.base, self.exponent = node(kernel.kernel), float(kernel.exponent)

    def cross(self, X, Z):
        base, pull_base = self.base.cross(X, Z)

        def pull(G, inputs):
            slope = self._slope(base)
            if _is_scalar(base):
                return _times(slope, pull_base(G, inputs))
            return pull_base(np.multiply(G, slope, out=G), inputs)

        return np.power(base, self.exponent), pull

    def diag(self, X):
        s, n, pull_base = self.base.diag(X)

        def pull(gs, gn, inputs):
            at_signal, at_sum = self._slope(s), self._slope(s + n)
            g_signal = gs * at_signal + gn * (at_sum - at_signal)
            return pull_base(g_signal, gn * at_sum, inputs)

        signal = np.power(s, self.exponent)
        noise = 0.0 if _is_zero(n) else np.power(s + n, self.exponent) - signal
        return signal, noise, pull

    def footprint(self):
        children = self.base.footprint()
        return children + 1 if children else 0

    def leaves(self):
        return self.base.leaves()

    def _slope(self, base):
        with np.errstate(divide="ignore"):
            slope = self.exponent * np.power(base, self.exponent - 1.0)
        # a kernel value that underflowed to 0 must not turn a zero gradient into NaN
        return np.where(np.equal(base, 0.0), 0.0, slope) if self.exponent < 1.0 else slope

"""Kernel matrices between queries and fixed points, as nodes of a graph.

A kernel that is the same for all pairs is a number. Distances are differences of one column after
the other, which lose no digit where two points are close.
"""

import numpy as np
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import kernels


def cross(ops, kernel, X, Z):
    """The kernel matrix (n, m) between the node X (n, d) and the points Z (m, d), without noise."""
    K = _formula(ops, kernel, X, Z)
    if isinstance(K, float):
        return ops.Add(ops.MatMul(X, np.zeros(Z.T.shape)), K)
    return K


def check(kernel, name, noise_only):
    """Raise if a part of the kernel, or only its noise, has no formula here."""
    for part in _leaves(kernel):
        is_known = type(part) in _FORMULAS and getattr(part, "nu", 0.5) in _OF_MATERN
        if type(part) is kernels.HeteroscedasticNoise or not (is_known or noise_only):
            raise NotImplementedError(
                f"A {name} whose kernel has the part {part} cannot be converted to ONNX. "
                f"Use sums and products of {_NAMES}, or predict in Python."
            )


def _leaves(kernel):
    if type(kernel) in (sk.Sum, sk.Product):
        return [*_leaves(kernel.k1), *_leaves(kernel.k2)]
    is_around = type(kernel) in (sk.Exponentiation, kernels.Columns)
    return _leaves(kernel.kernel) if is_around else [kernel]


def _formula(ops, kernel, X, Z):
    """A node (n, m), or a number."""
    return _FORMULAS[type(kernel)](ops, kernel, X, Z)


def _sum(ops, kernel, X, Z):
    one, two = _formula(ops, kernel.k1, X, Z), _formula(ops, kernel.k2, X, Z)
    return one + two if _are_numbers(one, two) else ops.Add(one, two)


def _product(ops, kernel, X, Z):
    one, two = _formula(ops, kernel.k1, X, Z), _formula(ops, kernel.k2, X, Z)
    return one * two if _are_numbers(one, two) else ops.Mul(one, two)


def _power(ops, kernel, X, Z):
    base, exponent = _formula(ops, kernel.kernel, X, Z), float(kernel.exponent)
    return base**exponent if _are_numbers(base) else ops.Pow(base, exponent)


def _columns(ops, kernel, X, Z):
    chosen = kernel.chosen(Z.shape[1])
    return _formula(ops, kernel.kernel, ops.Gather(X, chosen, axis=1), Z[:, chosen])


def _are_numbers(*values):
    return all(isinstance(value, float) for value in values)


def _rbf(ops, kernel, X, Z):
    return ops.Exp(ops.Mul(_squares(ops, X, Z, kernel.length_scale), -0.5))


def _matern(ops, kernel, X, Z):
    return _OF_MATERN[kernel.nu](ops, kernel, X, Z)


def _matern_of_roots(degree, ops, kernel, X, Z):
    """``exp(-s) (1 + s + ...)`` with ``s = √(2ν) r``, a polynomial of degree 0, 1 or 2."""
    squares = _squares(ops, X, Z, kernel.length_scale / np.sqrt(2.0 * kernel.nu))
    s = ops.Sqrt(squares)
    decay = ops.Exp(ops.Neg(s))
    if degree == 0:
        return decay
    polynomial = ops.Add(s, 1.0)
    if degree == 2:
        polynomial = ops.Add(polynomial, ops.Div(squares, 3.0))
    return ops.Mul(decay, polynomial)


def _rational_quadratic(ops, kernel, X, Z):
    scale = kernel.length_scale * np.sqrt(2.0 * kernel.alpha)
    return ops.Pow(ops.Add(_squares(ops, X, Z, scale), 1.0), -float(kernel.alpha))


def _exp_sine_squared(ops, kernel, X, Z):
    distance = ops.Sqrt(_squares(ops, X, Z, kernel.periodicity / np.pi))
    sine = ops.Div(ops.Sin(distance), float(kernel.length_scale))
    return ops.Exp(ops.Mul(ops.Mul(sine, sine), -2.0))


def _squares(ops, X, Z, scale):
    """Squared distances (n, m) in units of the length scales."""
    total = None
    for column, (z, unit) in enumerate(zip(Z.T, np.broadcast_to(scale, Z.shape[1]))):
        x = ops.Gather(X, np.array([column]), axis=1)
        offsets = ops.Div(ops.Sub(x, z[None]), float(unit))
        square = ops.Mul(offsets, offsets)
        total = square if total is None else ops.Add(total, square)
    return total


_OF_MATERN = {
    0.5: lambda *given: _matern_of_roots(0, *given),
    1.5: lambda *given: _matern_of_roots(1, *given),
    2.5: lambda *given: _matern_of_roots(2, *given),
    np.inf: _rbf,
}
_FORMULAS = {  # by exact type: a subclass may have another formula
    sk.ConstantKernel: lambda ops, kernel, X, Z: float(kernel.constant_value),
    sk.WhiteKernel: lambda ops, kernel, X, Z: 0.0,
    sk.RBF: _rbf,
    sk.Matern: _matern,
    sk.RationalQuadratic: _rational_quadratic,
    sk.ExpSineSquared: _exp_sine_squared,
    sk.Sum: _sum,
    sk.Product: _product,
    sk.Exponentiation: _power,
    kernels.Columns: _columns,
}
_NAMES = (
    "ConstantKernel, WhiteKernel, RBF, Matern (nu 0.5, 1.5, 2.5 or inf), RationalQuadratic, "
    "ExpSineSquared and Columns"
)

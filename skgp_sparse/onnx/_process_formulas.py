"""Mean and variance of a latent process, as nodes of a graph.

    mean = K u,     variance = k** + noise - ‖V‖² + ‖V TBᵀ‖²,     V = K L⁻ᵀ

with the kernel matrix K between queries and the inducing points, or all rows of an exact process,
where the last term is absent. The kernels are stationary, so that ``k**`` is a number. Random
features take the place of V where there are some, and only the last term is left of the variance.

ONNX has no triangular solve. With ``T = L⁻¹``, the product ``K Tᵀ`` loses digits where L is
ill-conditioned, and a step of refinement, ``V + (K - V Lᵀ) Tᵀ``, gives them back.

The normal distribution function is ``Φ(x) = ½ t g(t) exp(-x²/2)`` for negative x, with
``t = 1 / (1 - x/√8)``, where g is nearly a polynomial. So the probability of an unlikely class has
as many digits as that of any other.

Kernel matrices between queries and fixed points, as nodes of a graph.

A kernel that is the same for all pairs is a number. Distances are differences of one column after
the other, which lose no digit where two points are close.
"""

from functools import partial

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from scipy.special import erfcx
from skl2onnx.algebra import onnx_ops
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import kernels
from skgp_sparse._engine.predictions.feature_posterior import ExactPosterior, SparsePosterior
from skgp_sparse._ground.linalg import inverse_lower, is_well_conditioned


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


_DEGREE = 14  # of g, which is then off by 2e-10


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


class PosteriorGraph:
    """A process at the queries.

    Parameters
    ----------
    ops : Operators
    process : ExactPosterior or SparsePosterior
    X : node of shape (n, d)
    name : str
        That of the estimator, for errors.
    """

    def __init__(self, ops, process, X, name):
        _check(process, name)
        self.ops, self.process = ops, process
        self.X, self.K = X, _raw_features(ops, process.features, X)

    def mean(self):
        """Mean (n, p)."""
        return self.ops.MatMul(self.K, self.process.u)

    def variance(self):
        """Variance (n, 1), that of the noise of the kernel included."""
        features = self.process.features
        place = features.basis.origin[None] if features.complete else features.Z[:1]
        noise = float(np.squeeze(kernels.diagonal(self.process.kernel, place)[1]))
        return self.ops.Add(self.ops.Max(self._latent(), 0.0), noise)

    def _latent(self):
        ops, features = self.ops, self.process.features
        TB = None if self.process.is_exact else self.process.TB
        if features.complete:
            return self._norms(_times_transposed(ops, self.K, TB))
        V = self._whitened(features.L)
        signal = kernels.diagonal(self.process.kernel, features.Z[:1])[0]
        rest = ops.Sub(float(np.squeeze(signal)), self._norms(V))
        return rest if TB is None else ops.Add(rest, self._norms(_times_transposed(ops, V, TB)))

    def _whitened(self, L):
        """V (n, m)."""
        ops, T = self.ops, inverse_lower(L)
        V = _times_transposed(ops, self.K, T)
        if is_well_conditioned(L, T):
            return V
        rest = ops.Sub(self.K, _times_transposed(ops, V, L))
        return ops.Add(V, _times_transposed(ops, rest, T))

    def _norms(self, V):
        """Squared norms (n, 1) of rows."""
        ops = self.ops
        return ops.MatMul(ops.Mul(V, V), np.ones((self.process.features.size, 1)))


def _times_transposed(ops, A, B):
    return ops.MatMul(A, np.ascontiguousarray(B.T))


def _raw_features(ops, features, X):
    """Kernel functions, or cosines and sines (n, m)."""
    if not features.complete:
        return cross(ops, features.kernel, X, features.Z)
    offsets = ops.Sub(X, features.basis.origin[None])
    phase = ops.MatMul(offsets, np.ascontiguousarray(features.frequencies.T))
    cosine = ops.Sin(ops.Add(phase, np.pi / 2))  # runtimes of Python 3.10 have no double cosine
    waves = ops.Concat(cosine, ops.Sin(phase), axis=1)
    return ops.Mul(waves, np.tile(features.amplitudes, 2)[None])


def _check(process, name):
    if type(process) not in (ExactPosterior, SparsePosterior):
        raise NotImplementedError(
            f"A {name} whose prediction is a {type(process).__name__} cannot be converted to ONNX. "
            "Set posterior to 'exact', 'fourier' or 'inducing' (without parameters), metric to "
            "'ard' and mean to None, and fit again."
        )
    check(process.kernel, name, process.features.complete)


def normal_cdf(ops, x):
    """``Φ(x)`` of a node (n, 1)."""
    t = ops.Div(1.0, ops.Add(ops.Mul(ops.Abs(x), 8.0**-0.5), 1.0))
    g = Chebyshev.interpolate(lambda t: erfcx(2.0 / t - 2.0) / t, _DEGREE, domain=[0.0, 1.0])
    series = 0.5 * g.convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1]).coef
    tail = ops.Mul(t, float(series[-1]))
    for coefficient in series[-2::-1]:  # Horner
        tail = ops.Mul(t, ops.Add(tail, float(coefficient)))
    tail = ops.Mul(tail, ops.Exp(ops.Mul(ops.Mul(x, x), -0.5)))
    return ops.Where(ops.Greater(x, 0.0), ops.Sub(1.0, tail), tail)

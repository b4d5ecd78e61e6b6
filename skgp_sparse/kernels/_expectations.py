"""Expectations and covariances of a kernel whose first argument has a normal distribution.

For rows ``x_i ~ N(μ_i, diag s_i)`` and points ``Z``:

    prior_i = E k(x_i, x_i),        cross_ij = E k(x_i, z_j) = P_ij,        C_i = Cov k(x_i, Z),

which are known as ψ0, ψ1 and ``ψ2_i - ψ1_i ψ1_iᵀ``. They have a closed form for one RBF
(`RbfExpectations`), and are numerical integrals (`NodeExpectations`) for all other kernels. The
rule of integration is part of the definition then, and does not depend on the rows.

The matrices ``C_i`` (m, m) are never returned. What is asked of them are sums over rows and inner
products with a few matrices, and a cotangent of each is a combination of a few matrices, too.
"""

from functools import cache

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import norm, qmc
from sklearn.gaussian_process.kernels import RBF, Kernel

from skgp_sparse.ground.parallel import empty
from skgp_sparse.ground.validation import Array, Ints, Pair

from ._functions import diagonal, linearize
from ._nodes import assemble
from ._visitors import Term, spectrum

Rule = Pair  # nodes (h, d) and weights (h,) for expectations under N(0, I)
Gradients = tuple[Array, Array, Array, Array]  # wrt theta, Z, mean and variance


# Rows have means and variances (n, d), and there are points Z (m, d). A rule of nodes (h, d) and
# weights (h,) for N(0, I), where there is no closed form, has Gauss-Hermite nodes for up to three
# columns, and quasi-random ones for more. Both classes have the members
#
#     prior (n,) and cross (n, m)
#     sums(coef)                  Σ_i coef_ig C_i (g, m, m), from coefficients (n, g)
#     inner(matrices)             tr(A_g C_i) (n, g), from symmetric A (g, m, m)
#     pull(prior_bar, cross_bar, coef, matrices)     gradients wrt theta, Z, mean and variance,
#                                 where the cotangent of C_i is Σ_g coef_ig A_g
def expectations(
    kernel: Kernel, mean: Array, variance: Array, Z: Array
) -> "RbfExpectations | NodeExpectations":
    """The `RbfExpectations` or `NodeExpectations` of a kernel without noise, of rows and points."""
    if (terms := _terms_of_rbf(kernel)) is None:
        return NodeExpectations(kernel, mean, variance, Z, rule_of(Z.shape[1]))
    return RbfExpectations(kernel.n_dims, terms, mean, variance, Z)


def expectation_width(kernel: Kernel, m: int, d: int) -> int:
    """Count the numbers per row of the largest array that `expectations` makes."""
    return len(rule_of(d)[1]) * m if _terms_of_rbf(kernel) is None else m * (m + 1) // 2


def _terms_of_rbf(kernel: Kernel) -> list[Term] | None:
    """The term with the RBF, then the constant ones; None if the kernel is not one RBF."""
    terms = sorted(spectrum(kernel) or (), key=lambda term: -len(term.factors))
    factors = [factor for term in terms for factor in term.factors]
    if len(factors) != 1 or type(factors[0].kernel) is not RBF or factors[0].around:
        return None
    return terms


_MOST_COLUMNS = 3  # of a product of Gauss-Hermite rules
_QUASI_RANDOM = 128  # nodes


@cache
def rule_of(d: int) -> Rule:
    """Nodes (h, d) and weights (h,) for expectations under N(0, I)."""
    if d <= _MOST_COLUMNS:
        return gauss_hermite(9 if d == 1 else 5, d)
    nodes = norm.ppf(qmc.Sobol(d, seed=0).random(_QUASI_RANDOM // 2))
    nodes = np.concatenate([nodes, -nodes])
    return nodes / np.sqrt(np.mean(nodes**2, axis=0)), np.full(len(nodes), 1.0 / len(nodes))


def gauss_hermite(per_column: int, d: int) -> Rule:
    """Nodes (h, d) and weights (h,) of a product of one-dimensional rules."""
    x, w = np.polynomial.hermite_e.hermegauss(per_column)
    nodes = np.stack(np.meshgrid(*[x] * d, indexing="ij"), axis=-1).reshape(-1, d)
    weights = np.stack(np.meshgrid(*[w / w.sum()] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return nodes, weights.prod(axis=1)


# With nodes ``ξ_h`` and weights ``ω_h``, which sum to 1, row i becomes the rows
# ``μ_i + √s_i ξ_h``:
#
#     P = Σ ω_h k_h,      C = Σ ω_h (k_h - P) (k_h - P)ᵀ,      k_h = k(μ + √s ξ_h, Z)
#
# and a gradient wrt μ and s is ``Σ_h`` and ``Σ_h ξ_h / (2 √s)`` of that wrt the rows.
class NodeExpectations:
    """Expectations of a kernel under one normal per row, by nodes of a quadrature rule."""

    def __init__(self, kernel: Kernel, mean: Array, variance: Array, Z: Array, rule: Rule) -> None:
        self.kernel, self.Z, (self.nodes, self.weights) = kernel, Z, rule
        self.shape, self.root = mean.shape, np.sqrt(variance)
        self.rows = (mean[:, None] + self.root[:, None] * self.nodes).reshape(-1, mean.shape[1])
        K, self.pull_points = linearize(kernel, self.rows, Z)
        signal, _, self.pull_prior = diagonal(kernel, self.rows)
        self.prior = np.broadcast_to(signal, len(self.rows)).reshape(len(mean), -1) @ self.weights
        K = K.reshape(len(mean), -1, len(Z))
        self.cross = np.einsum("h,ihm->im", self.weights, K)
        self.apart = (K - self.cross[:, None]).reshape(-1, len(Z))  # (n h, m)

    def sums(self, coef: Array) -> Array:
        """``Σ_i coef_ig C_i`` (g, m, m)."""
        return np.array([self.apart.T @ (self._weighted(one) * self.apart) for one in coef.T])

    def inner(self, matrices: Array) -> Array:
        """``tr(A_g C_i)`` (n, g)."""
        of_nodes = [np.sum((self.apart @ matrix) * self.apart, axis=1) for matrix in matrices]
        shape = len(self.root), len(self.weights)
        return np.stack([values.reshape(shape) @ self.weights for values in of_nodes], axis=1)

    def pull(self, prior_bar: Array, cross_bar: Array, coef: Array, matrices: Array) -> Gradients:
        """Gradients wrt theta, Z, mean and variance."""
        of_nodes = np.repeat(cross_bar, len(self.weights), axis=0)
        G = self._weighted(np.ones(len(prior_bar))) * of_nodes
        for one, matrix in zip(coef.T, matrices):
            G += 2.0 * self._weighted(one) * (self.apart @ matrix)
        _, pull_rows = linearize(self.kernel, self.Z, self.rows)
        rows_bar = pull_rows(np.ascontiguousarray(G.T))[1]
        theta_bar, Z_bar = self.pull_points(G)
        of_nodes = self._weighted(prior_bar)[:, 0]
        of_theta, of_rows = self.pull_prior(of_nodes, np.zeros(len(of_nodes)), inputs=True)
        rows_bar = (rows_bar + of_rows).reshape(self.shape[0], -1, self.shape[1])
        root_bar = np.einsum("ihd,hd->id", rows_bar, self.nodes)
        variance_bar = root_bar / (2.0 * np.where(self.root > 0, self.root, np.inf))
        return theta_bar + of_theta, Z_bar, rows_bar.sum(axis=1), variance_bar

    def _weighted(self, of_rows: Array) -> Array:
        """Numbers of rows times the weights of their nodes (n h, 1)."""
        return np.outer(of_rows, self.weights).reshape(-1, 1)


_LARGE_RATIO = 20.0  # of ρ


@cache
def _pairs(m: int) -> tuple[Ints, Ints, Array, csr_array, csr_array]:
    """Pairs j ≥ k, how often they stand in C, and matrices (m, pairs) of sums ``Σ_j ± Σ_k``."""
    j, k = np.tril_indices(m)
    ones, pairs = np.ones(len(j)), np.arange(len(j))
    of_j, of_k = (csr_array((ones, (at, pairs)), shape=(m, len(j))) for at in (j, k))
    return j, k, np.where(j == k, 1.0, 2.0), of_j + of_k, of_j - of_k


# With ``A = l²``, ``z̄ = (z_j + z_k)/2`` and ``e = (z_j - z_k)/2``, per column:
#
#     log P_j = log c - ½ log(1 + s/A) - ½ (μ - z_j)² / (A + s)
#     C_jk = P_j P_k expm1(ρ_jk),      ρ_jk = ½ log(1 + s²/(A (A + 2s))) + f (μ - z̄)² - g e²
#     f = s / ((A + s) (A + 2s)),      g = s / (A (A + s))
#
# so that no digit is lost where s is small. For the rows of a block, ρ is one matrix product of
# functions of (z_j, z_k), for pairs j ≥ k, and of functions of (μ, s).
class RbfExpectations:
    """Expectations of ``c RBF(l)`` plus constants."""

    def __init__(self, n_theta: int, terms: list[Term], mean: Array, variance: Array, Z: Array):
        self.n_theta, self.terms, self.rbf = n_theta, terms, terms[0].factors[0]
        self.mean, self.variance, self.Z, self.j, self.k, *rest = mean, variance, Z, *_pairs(len(Z))
        self.count, self.plus, self.minus = rest
        scale = np.asarray(self.rbf.kernel.length_scale, dtype=np.float64)
        self.A = A = np.broadcast_to(scale**2, Z.shape[1:])
        self.near, self.far = near, far = 1.0 / (A + variance), 1.0 / (A + 2.0 * variance)
        distance = np.sum(near * mean**2, axis=1)[:, None] + near @ (Z**2).T
        distance -= 2.0 * (near * mean) @ Z.T
        spread = np.sum(np.log1p(variance / A), axis=1)[:, None]
        self.variances = [term.variance() for term in terms]
        self.log_P = np.log(self.variances[0]) - 0.5 * (spread + distance)
        self.P = np.exp(self.log_P)
        self.cross = self.P + sum(self.variances[1:])
        self.prior = np.full(len(mean), sum(self.variances))
        self.f, self.g = variance * near * far, variance * near / A
        constant = (0.5 * np.log1p(variance**2 * far / A) + self.f * mean**2).sum(axis=1)
        self.middle, self.half = 0.5 * (self.plus.T @ Z), 0.5 * (self.minus.T @ Z)
        self.of_rows = np.hstack([constant[:, None], -2.0 * self.f * mean, self.f, -self.g])
        ones = np.ones((len(self.j), 1))
        self.of_pairs = np.hstack([ones, self.middle, self.middle**2, self.half**2])
        self.C, self.second = self._values()

    def _values(self) -> Pair:
        """C and ``C + P Pᵀ`` of all pairs (pairs, n)."""
        shape = len(self.j), len(self.mean)
        C, second, other = empty(shape), empty(shape), empty(shape)
        np.matmul(self.of_pairs, self.of_rows.T, out=C)
        P = np.ascontiguousarray(self.P.T)
        np.take(P, self.j, axis=0, out=second, mode="clip")
        np.take(P, self.k, axis=0, out=other, mode="clip")
        second *= other
        if C.max(initial=0.0) > _LARGE_RATIO:  # ``expm1`` may overflow where P P underflows
            whole = np.exp(C + self.log_P.T[self.j] + self.log_P.T[self.k])
            small = np.expm1(np.minimum(C, _LARGE_RATIO)) * second
            C = np.where(C > _LARGE_RATIO, whole - second, small)
        else:
            np.expm1(C, out=C)
            C *= second
        second += C
        return C, second

    def sums(self, coef: Array) -> Array:
        """``Σ_i coef_ig C_i`` (g, m, m)."""
        out = np.empty((coef.shape[1], len(self.Z), len(self.Z)))
        out[:, self.j, self.k] = out[:, self.k, self.j] = (self.C @ coef).T
        return out

    def inner(self, matrices: Array) -> Array:
        """``tr(A_g C_i)`` (n, g)."""
        return self.C.T @ self._packed(matrices).T

    def _packed(self, matrices: Array) -> Array:
        return np.asarray(matrices)[:, self.j, self.k] * self.count

    # With ``E1 = A + s`` and ``E2 = A + 2s``, the slopes of ρ follow from those of its parts,
    #
    #     ∂/∂s:  f,          (A² - 2s²) / (E1 E2)²,      1 / E1²
    #     ∂/∂A:  -s f / A,   -f (1/E1 + 1/E2),           -g (1/A + 1/E1)
    #
    # of half the logarithm, of f and of g.
    def pull(self, prior_bar: Array, cross_bar: Array, coef: Array, matrices: Array) -> Gradients:
        """Gradients wrt theta, Z, mean and variance."""
        mean, s, A, near, far = self.mean, self.variance, self.A, self.near, self.far
        W = np.matmul(self._packed(matrices).T, coef.T, out=empty(self.C.shape))
        log_bar = cross_bar * self.P + (self.plus @ (W * self.C)).T
        W *= self.second
        total, first, square, halves = self._split(W.T @ self.of_pairs)
        away = mean**2 * total - 2.0 * mean * first + square  # Σ W (μ - z̄)²
        of_mean = 2.0 * self.f * (mean * total - first)
        of_s = self.f * total + (A**2 - 2.0 * s**2) * (near * far) ** 2 * away - near**2 * halves
        of_A = self.g * (1.0 / A + near) * halves - self.f * (s / A * total + (near + far) * away)
        _, of_middle, of_square, of_halves = self._split(W @ self.of_rows)
        of_middle = of_middle + 2.0 * self.middle * of_square
        Z_bar = 0.5 * (self.plus @ of_middle) + self.minus @ (self.half * of_halves)

        total, first = log_bar.sum(axis=1)[:, None], log_bar @ self.Z
        away = mean**2 * total - 2.0 * mean * first + log_bar @ self.Z**2  # Σ W (μ - z)²
        Z_bar += log_bar.T @ (near * mean) - self.Z * (log_bar.T @ near)
        of_mean += near * (first - mean * total)
        of_s += 0.5 * near * (near * away - total)
        of_A += 0.5 * near * (near * away + total * s / A)
        return self._theta_bar(prior_bar, cross_bar, log_bar, of_A), Z_bar, of_mean, of_s

    def _theta_bar(self, prior_bar: Array, cross_bar: Array, log_bar: Array, of_A: Array) -> Array:
        """Gradient wrt theta, from those wrt the logarithm of P, and A."""
        theta_bar, scale = np.zeros(self.n_theta), self.rbf.kernel.length_scale
        slope = 2.0 * self.A * of_A.sum(axis=0)
        slopes = {"length_scale": slope if np.size(scale) > 1 else np.sum(slope)}
        theta_bar[self.rbf.place] = assemble(self.rbf.kernel, slopes)
        for number, (term, variance) in enumerate(zip(self.terms, self.variances)):
            slope = variance * np.sum(prior_bar)
            slope += variance * np.sum(cross_bar) if number else np.sum(log_bar)
            for one in term.constants:
                theta_bar[one.place] += assemble(one.kernel, {"constant_value": slope})
        return theta_bar

    def _split(self, of_parts: Array) -> list[Array]:
        """Columns of 1, z̄, z̄² and e²."""
        d = len(self.A)
        return np.split(of_parts, [1, 1 + d, 1 + 2 * d], axis=1)

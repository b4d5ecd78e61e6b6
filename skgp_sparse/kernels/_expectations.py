"""Expectations and covariances of a kernel whose first argument has a normal distribution.

For rows ``x_i ~ N(μ_i, diag s_i)`` and points ``Z``:

    prior_i = E k(x_i, x_i),        cross_ij = E k(x_i, z_j) = P_ij,        C_i = Cov k(x_i, Z),

which are known as ψ0, ψ1 and ``ψ2_i - ψ1_i ψ1_iᵀ``. There are closed forms (`ClosedExpectations`)
of some kernels, and numerical integrals (`NodeExpectations`) of all others.
"""

from functools import cache, cached_property
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import norm, qmc
from sklearn.gaussian_process import kernels as _sk

from skgp_sparse.ground.parallel import empty

from ._differentiable import assemble, diagonal, linearize
from ._visitors import Term, spectrum


class ClosedTerm(NamedTuple):
    """A product of constants, and of one other kernel at most."""

    constant: float
    leaf: object  # RBF, DotProduct, or None
    constants: tuple  # positions in theta of the constants that are free
    start: int  # position in theta of the first hyperparameter of the leaf


# -- what is asked of C, and which kernels have a closed form --------------------------------------
# The matrices ``C_i`` (m, m) are never returned. What is asked of them are sums over rows and inner
# products with a few matrices, and a cotangent of each is a combination of a few matrices, too.
#
# A closed form exists for sums of terms ``c k``, where k is an RBF, a DotProduct or 1. Every other
# kernel is integrated numerically. The rule of integration is part of the definition then, and does
# not depend on the rows.


def expectations(kernel, mean, variance, Z, rule=None):
    """Expectations of a kernel under one normal distribution for each row.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression. Its white noise is left out.
    mean, variance : ndarray of shape (n, d)
        Of the rows, float64.
    Z : ndarray of shape (m, d)
        Second point set, float64.
    rule : tuple of ndarray (h, d) and ndarray (h,), default=None
        Nodes and weights for expectations under N(0, I), where there is no closed form. None means
        Gauss-Hermite nodes for up to three columns, and quasi-random ones for more.

    Returns
    -------
    ClosedExpectations or NodeExpectations
        An object with the following members:

        - ``prior`` (n,) and ``cross`` (n, m).
        - ``sums(coef)``: the matrices ``Σ_i coef_ig C_i`` (g, m, m), from coefficients (n, g).
        - ``inner(matrices)``: the numbers ``tr(A_g C_i)`` (n, g), from symmetric ``A`` (g, m, m).
        - ``pull(prior_bar, cross_bar, coef, matrices)``: the gradients ``theta``, ``Z``, ``mean``
          and ``variance``, where the cotangent of ``C_i`` is ``Σ_g coef_ig A_g``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse import kernels
    >>> at = kernels.expectations(RBF(1.0), np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))
    >>> at.cross.round(4).tolist(), at.sums(np.ones((1, 1))).round(4).tolist()
    ([[0.7071]], [[[0.0774]]])
    """
    terms = closed_terms(kernel)
    if terms is None:
        rule = rule_of(Z.shape[1]) if rule is None else rule
        return NodeExpectations(kernel, mean, variance, Z, rule)
    return ClosedExpectations(kernel, terms, mean, variance, Z)


def expectation_width(kernel, m, d):
    """Count the numbers per row of the largest array that `expectations` makes."""
    if closed_terms(kernel) is None:
        return len(rule_of(d)[1]) * m
    return m * (m + 1) // 2


def closed_terms(kernel):
    """The terms whose sum a kernel is without its noise; None if it is no such sum."""
    terms = spectrum(kernel, (_sk.RBF, _sk.DotProduct))
    found = [None] if terms is None else [_closed_term(*term) for term in terms]
    return None if any(one is None for one in found) else found


def _closed_term(constants, factors):
    free = [c.place.start for c in constants if not c.kernel.hyperparameter_constant_value.fixed]
    if len(factors) > 1 or any(one.around for one in factors) or len({*free}) < len(free):
        return None
    leaf, place = factors[0][:2] if factors else (None, slice(0))
    return ClosedTerm(Term(constants).variance(), leaf, tuple(free), place.start)


_MOST_NODES = 125  # nodes of a product of Gauss-Hermite rules
_PER_COLUMN = {1: 9}  # nodes; otherwise ...
_FEW = 5
_QUASI_RANDOM = 128


class Bars(NamedTuple):
    """Gradients, which parts add to in place."""

    theta: np.ndarray
    Z: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def add_theta(self, term, constant_bar, **gradients):
        """Add those of a term: wrt the logarithms of its constant and of what its leaf has."""
        self.theta[list(term.constants)] += constant_bar
        if gradients:
            of_leaf = assemble(term.leaf, gradients)
            self.theta[term.start : term.start + len(of_leaf)] += of_leaf


@cache
def rule_of(d):
    """Nodes (h, d) and weights (h,) for expectations under N(0, I)."""
    per_column = _PER_COLUMN.get(d, _FEW)
    if per_column**d <= _MOST_NODES:
        return gauss_hermite(per_column, d)
    uniform = qmc.Sobol(d, seed=0).random(_QUASI_RANDOM // 2)
    nodes = norm.ppf(uniform)
    nodes = np.concatenate([nodes, -nodes])
    return nodes / np.sqrt(np.mean(nodes**2, axis=0)), np.full(len(nodes), 1.0 / len(nodes))


def gauss_hermite(per_column, d):
    """Nodes (h, d) and weights (h,) of a product of one-dimensional rules."""
    x, w = np.polynomial.hermite_e.hermegauss(per_column)
    nodes = np.stack(np.meshgrid(*[x] * d, indexing="ij"), axis=-1).reshape(-1, d)
    weights = np.stack(np.meshgrid(*[w / w.sum()] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return nodes, weights.prod(axis=1)


class NodeExpectations:
    """Expectations by nodes; see `skgp_sparse.kernels.expectations`.

    With nodes ``ξ_h`` and weights ``ω_h``, which sum to 1, row i becomes the rows
    ``μ_i + √s_i ξ_h``:

        P = Σ ω_h k_h,      C = Σ ω_h (k_h - P) (k_h - P)ᵀ,      k_h = k(μ + √s ξ_h, Z)

    and a gradient wrt μ and s is ``Σ_h`` and ``Σ_h ξ_h / (2 √s)`` of that wrt the rows.
    """

    def __init__(self, kernel, mean, variance, Z, rule):
        self.kernel, self.Z, (self.nodes, self.weights) = kernel, Z, rule
        self.shape, self.root = mean.shape, np.sqrt(variance)
        rows = mean[:, None] + self.root[:, None] * self.nodes
        self.rows = rows.reshape(-1, mean.shape[1])
        K, self.pull_points = linearize(kernel, self.rows, Z)
        signal, _, self.pull_prior = diagonal(kernel, self.rows)
        self.prior = np.broadcast_to(signal, len(self.rows)).reshape(len(mean), -1) @ self.weights
        K = K.reshape(len(mean), -1, len(Z))
        self.cross = np.einsum("h,ihm->im", self.weights, K)
        self.apart = K - self.cross[:, None]

    def sums(self, coef):
        """``Σ_i coef_ig C_i`` (g, m, m)."""
        flat = self.apart.reshape(-1, len(self.Z))
        return np.array([flat.T @ (self._weighted(one) * flat) for one in coef.T])

    def inner(self, matrices):
        """``tr(A_g C_i)`` (n, g)."""
        of_nodes = [np.sum((self.apart @ matrix) * self.apart, axis=2) for matrix in matrices]
        return np.stack([values @ self.weights for values in of_nodes], axis=1)

    def pull(self, prior_bar, cross_bar, coef, matrices):
        """Gradients wrt theta, Z, mean and variance."""
        flat = self.apart.reshape(-1, len(self.Z))
        G = self._weighted(np.ones(len(prior_bar))) * np.repeat(
            cross_bar, len(self.weights), axis=0
        )
        for one, matrix in zip(coef.T, matrices):
            G += 2.0 * self._weighted(one) * (flat @ matrix)
        _, pull_rows = linearize(self.kernel, self.Z, self.rows)
        rows_bar = pull_rows(np.ascontiguousarray(G.T))[1]
        theta_bar, Z_bar = self.pull_points(G)
        of_nodes = self._weighted(prior_bar)[:, 0]
        of_theta, of_rows = self.pull_prior(of_nodes, np.zeros(len(of_nodes)), inputs=True)
        rows_bar = (rows_bar + of_rows).reshape(self.shape[0], -1, self.shape[1])
        root_bar = np.einsum("ihd,hd->id", rows_bar, self.nodes)
        variance_bar = root_bar / (2.0 * np.where(self.root > 0, self.root, np.inf))
        return Bars(theta_bar + of_theta, Z_bar, rows_bar.sum(axis=1), variance_bar)

    def _weighted(self, of_rows):
        """Numbers of rows times the weights of their nodes (n h, 1)."""
        return np.outer(of_rows, self.weights).reshape(-1, 1)


# -- covariances of pairs of terms of a kernel, in closed form -------------------------------------
# With ``A = l²`` of one RBF, ``B`` that of another or of the same, and ``δ_j = μ - z_j``, per
# column:
#
#     RBF, RBF           C_jk = P_j P'_k expm1(ρ_jk)
#                        ρ_jk = κ + w δ_j δ_k - p δ_j² - p' δ_k²
#     DotProduct twice   C_jk = c c' Σ s z_j z_k
#     RBF, DotProduct    C_jk = P_j c' Σ h (z_j - μ) z_k,     h = s / (A + s)
#
#     D = AB + s (A + B),    κ = ½ log(1 + s²/D),    w = s/D,    p = s² / (2D (A + s))
#
# so that no digit is lost where s is small. For the rows of a block, ρ is one matrix product of
# functions of (μ, s) and of functions of (z_j, z_k). Where both terms are the same, pairs j ≥ k are
# enough. ``expm1`` may overflow where ``P_j P_k`` underflows: beyond ρ = 20, the logarithms add up
# before they are taken back.

_LARGE_RATIO = 20.0  # of ρ


def pair_of(left, right):
    """Share of two terms, or of one with itself, in C."""
    if left.is_linear and right.is_linear:
        return _LinearPair(left, right)
    if not (left.is_linear or right.is_linear):
        return _RbfPair(left, right)
    return _MixedPair(*((right, left) if left.is_linear else (left, right)))


class _LinearPair:
    """``c c' Z diag(s) Zᵀ``, twice if the terms are not the same."""

    def __init__(self, left, right):
        self.left, self.right = left, right
        self.factor = left.term.constant * right.term.constant * (1.0 if left is right else 2.0)

    def sums(self, coef):
        """``Σ_i coef_ig C_i`` (g, m, m)."""
        Z = self.left.Z
        return self.factor * ((Z * (coef.T @ self.left.variance)[:, None]) @ Z.T)

    def inner(self, matrices):
        """``tr(A_g C_i)`` (n, g)."""
        return self.left.variance @ (self.factor * self._diagonals(matrices)).T

    def pull(self, coef, matrices, bars):
        """Add the gradients of C."""
        left, Z = self.left, self.left.Z
        weight = coef.T @ left.variance  # (g, d)
        value = self.factor * np.vdot(weight, self._diagonals(matrices))
        for term in (left.term, self.right.term):
            bars.add_theta(term, value)
        bars.variance[:] += coef @ (self.factor * self._diagonals(matrices))
        bars.Z[:] += 2.0 * self.factor * np.sum((matrices @ Z) * weight[:, None], axis=0)

    def _diagonals(self, matrices):
        """Diagonals of ``Zᵀ A_g Z`` (g, d)."""
        return np.sum(self.left.Z * (matrices @ self.left.Z), axis=1)


class _MixedPair:
    """``P_j c' Σ h (z_j - μ) z_k`` and its transpose, P being that of an RBF."""

    def __init__(self, rbf, linear):
        self.rbf, self.linear, self.c = rbf, linear, linear.term.constant
        self.h = rbf.variance * rbf.h

    def sums(self, coef):
        """``Σ_i coef_ig C_i`` (g, m, m)."""
        P, Z, h = self.rbf.cross, self.rbf.Z, self.h
        halves = [
            (Z * (P.T @ (one[:, None] * h)) - P.T @ (one[:, None] * h * self.rbf.mean)) @ Z.T
            for one in coef.T
        ]
        return self.c * np.array([half + half.T for half in halves])

    def inner(self, matrices):
        """``tr(A_g C_i)`` (n, g)."""
        return np.stack([self._of_one(matrix)[0] for matrix in matrices], axis=1)

    def pull(self, coef, matrices, bars):
        """Add the gradients of C."""
        P, Z, h, mean = self.rbf.cross, self.rbf.Z, self.h, self.rbf.mean
        for one, matrix in zip(coef.T, matrices):
            value, MZ, of_h = self._of_one(matrix)
            weight = 2.0 * self.c * one[:, None]
            bars.add_theta(self.linear.term, one @ value)
            self.rbf.cross_bar += weight * (h @ (Z * MZ).T - (h * mean) @ MZ.T)
            h_bar = weight * of_h
            bars.mean[:] -= weight * h * (P @ MZ)
            bars.variance[:] += h_bar * self.rbf.squares * self.rbf.h**2
            self.rbf.add_scales(-np.sum(h_bar * h * self.rbf.h, axis=0), bars)
            apart = Z * (P.T @ (weight * h)) - P.T @ (weight * h * mean)  # Σ weight P h (z - μ)
            bars.Z[:] += MZ * (P.T @ (weight * h)) + matrix @ apart

    def _of_one(self, matrix):
        """``tr(A C_i)`` (n,), ``A Z``, and ``Σ_j P_j (z_j - μ) (A Z)_j`` (n, d)."""
        MZ = matrix @ self.rbf.Z
        of_h = self.rbf.cross @ (self.rbf.Z * MZ) - self.rbf.mean * (self.rbf.cross @ MZ)
        return 2.0 * self.c * np.sum(self.h * of_h, axis=1), MZ, of_h


class _Places(NamedTuple):
    """Pairs of points: j ≥ k where C is symmetric, otherwise all."""

    j: np.ndarray
    k: np.ndarray
    count: np.ndarray  # how often a pair stands in C, or in C and its transpose
    onto_j: csr_array  # (m, pairs): sums over the pairs of a point
    onto_k: csr_array


@cache
def _places(m, symmetric):
    j, k = np.tril_indices(m) if symmetric else np.divmod(np.arange(m * m), m)
    count = np.where(j == k, 1.0, 2.0) if symmetric else np.full(len(j), 2.0)
    ones, pairs = np.ones(len(j)), np.arange(len(j))
    onto = [csr_array((ones, (index, pairs)), shape=(m, len(j))) for index in (j, k)]
    return _Places(j, k, count, *onto)


class _RbfPair:
    """``P_j P'_k expm1(ρ_jk)``, and its transpose if the terms are not the same.

    Numbers of pairs have the shape (pairs, n), so that those of a point are whole lines.
    """

    def __init__(self, left, right):
        self.left, self.right, self.same = left, right, left is right
        self.places = _places(len(left.Z), self.same)
        A, B, s, mean = left.squares, right.squares, left.variance, left.mean
        self.D = D = A * B + s * (A + B)
        self.w, shift = s / D, s**2 / (2.0 * D)
        self.p, self.q = shift * left.h, shift * right.h
        constant = 0.5 * np.log1p(s**2 / D) + (self.w - self.p - self.q) * mean**2
        of_j, of_k = ((2.0 * part - self.w) * mean for part in (self.p, self.q))
        linear, square = ([of_j], [-self.p]) if self.same else ([of_j, of_k], [-self.p, -self.q])
        self.of_rows = np.hstack([constant.sum(axis=1)[:, None], *linear, *square, self.w])
        self.zj, self.zk = left.Z[self.places.j], left.Z[self.places.k]
        ones, products = np.ones((len(self.zj), 1)), self.zj * self.zk
        sides = [*self._sides(self.zj, self.zk), *self._sides(self.zj**2, self.zk**2)]
        self.of_points = np.hstack([ones, *sides, products])
        self.C, self.second = self._values()

    def _sides(self, of_j, of_k):
        """Functions of z_j and z_k: their sum where the terms are the same."""
        return [of_j + of_k] if self.same else [of_j, of_k]

    def _values(self):
        """C and ``C + P P'`` of all pairs (pairs, n)."""
        (j, k), (left, right) = self.places[:2], (self.left, self.right)
        shape = len(j), len(left.mean)
        C, second, other = empty(shape), empty(shape), empty(shape)
        np.matmul(self.of_points, self.of_rows.T, out=C)
        np.take(np.ascontiguousarray(left.cross.T), j, axis=0, out=second, mode="clip")
        np.take(np.ascontiguousarray(right.cross.T), k, axis=0, out=other, mode="clip")
        second *= other
        if C.max(initial=0.0) > _LARGE_RATIO:
            return self._values_where_far(C, second)
        np.expm1(C, out=C)
        C *= second
        second += C
        return C, second

    def _values_where_far(self, rho, products):
        """C and ``C + P P'``, with sums of logarithms where ρ is large."""
        (j, k), far = self.places[:2], np.nonzero(rho > _LARGE_RATIO)
        logs = self.left.log_cross[far[1], j[far[0]]] + self.right.log_cross[far[1], k[far[0]]]
        whole = np.exp(logs + rho[far])
        rho[far] = 0.0
        C = np.expm1(rho) * products
        C[far] = whole - products[far]
        return C, C + products

    def sums(self, coef):
        """``Σ_i coef_ig C_i`` (g, m, m)."""
        m = len(self.left.Z)
        out = np.zeros((coef.shape[1], m, m))
        out[:, self.places.j, self.places.k] = (self.C @ coef).T
        if self.same:
            out[:, self.places.k, self.places.j] = out[:, self.places.j, self.places.k]
            return out
        return out + out.transpose(0, 2, 1)

    def inner(self, matrices):
        """``tr(A_g C_i)`` (n, g)."""
        return self.C.T @ self._packed(matrices).T

    def _packed(self, matrices):
        return np.asarray(matrices)[:, self.places.j, self.places.k] * self.places.count

    def pull(self, coef, matrices, bars):
        """Add the gradients of C; those of the logarithms of P wait in the terms."""
        W = np.matmul(self._packed(matrices).T, coef.T, out=empty(self.C.shape))
        WC = np.multiply(W, self.C, out=empty(W.shape))
        self.left.log_bar = self.left.log_bar + (self.places.onto_j @ WC).T
        self.right.log_bar = self.right.log_bar + (self.places.onto_k @ WC).T
        W *= self.second
        self._pull_rows(W.T @ self.of_points, bars)
        self._pull_points(W @ self.of_rows, bars)

    def _pull_points(self, bar, bars):
        """From the cotangent of the functions of points (pairs, ...)."""
        d = self.zj.shape[1]
        parts = np.split(bar[:, 1:], range(d, bar.shape[1] - 1, d), axis=1)
        lin_j, lin_k, sq_j, sq_k, both = np.repeat(parts, [2, 2, 1], axis=0) if self.same else parts
        bars.Z[:] += self.places.onto_j @ (lin_j + 2.0 * self.zj * sq_j + self.zk * both)
        bars.Z[:] += self.places.onto_k @ (lin_k + 2.0 * self.zk * sq_k + self.zj * both)

    def _pull_rows(self, bar, bars):
        """From the cotangent of the functions of rows (n, ...)."""
        left, right, mean, s = self.left, self.right, self.left.mean, self.left.variance
        total, d = bar[:, :1], mean.shape[1]
        parts = np.split(bar[:, 1:], range(d, bar.shape[1] - 1, d), axis=1)
        if self.same:
            parts = [0.5 * parts[0], 0.5 * parts[0], 0.5 * parts[1], 0.5 * parts[1], parts[2]]
        lin_j, lin_k, sq_j, sq_k, both = parts
        jk = mean**2 * total - mean * (lin_j + lin_k) + both  # Σ W δ_j δ_k ...
        jj, kk = (
            mean**2 * total - 2.0 * mean * lin + sq for lin, sq in ((lin_j, sq_j), (lin_k, sq_k))
        )
        away_j, away_k = mean * total - lin_j, mean * total - lin_k  # ... and Σ W δ_j
        bars.mean[:] += self.w * (away_j + away_k) - 2.0 * (self.p * away_j + self.q * away_k)
        A, B, D, a, b = left.squares, right.squares, self.D, left.h, right.h  # a = 1 / (A + s)
        AB, half = A * B, 0.5 * s / D**2
        w_s, k_s = AB / D**2, 0.5 * s * (AB + D) * a * b / D  # slopes wrt s
        p_s, q_s = (half * h * (2.0 * D - s * (A + B + D * h)) for h in (a, b))
        bars.variance[:] += w_s * jk + k_s * total - p_s * jj - q_s * kk
        other = -half * s  # ∂p/∂B = ∂q/∂A
        p_A, q_B = other * (a / b + D * a**2), other * (b / a + D * b**2)
        of_A = -s / (b * D**2) * jk - self.p * total - p_A * jj - other * kk
        of_B = -s / (a * D**2) * jk - self.q * total - q_B * kk - other * jj
        left.add_scales(of_A.sum(axis=0), bars)
        right.add_scales(of_B.sum(axis=0), bars)


class ClosedExpectations:
    """Expectations of a sum of terms; see `skgp_sparse.kernels.expectations`.

    Its terms are ``c RBF(l)``, ``c DotProduct(σ0)`` and ``c``. With ``A = l²`` and
    ``δ_j = μ - z_j``, per column:

        RBF          log P_j = log c - ½ log(1 + s/A) - ½ δ_j² / (A + s),        prior = c
        DotProduct   P_j = c (σ0² + μᵀ z_j),         prior = c (σ0² + ‖μ‖² + Σ s)

    and C is a sum over pairs of terms, without those that are constant.
    """

    def __init__(self, kernel, terms, mean, variance, Z):
        self.n_theta = kernel.n_dims
        self.mean, self.variance, self.Z = mean, variance, Z
        self.parts = [_KINDS[type(term.leaf)](term, mean, variance, Z) for term in terms]
        self.prior = sum((part.prior for part in self.parts), np.zeros(len(mean)))
        self.cross = sum((part.cross for part in self.parts), np.zeros((len(mean), len(Z))))

    @cached_property
    def pairs(self):
        """Share of each pair of terms in C."""
        moving = [part for part in self.parts if not isinstance(part, ConstantTerm)]
        return [pair_of(*two) for two in combinations_with_replacement(moving, 2)]

    def sums(self, coef):
        """``Σ_i coef_ig C_i`` (g, m, m)."""
        shape = coef.shape[1], len(self.Z), len(self.Z)
        return sum((pair.sums(coef) for pair in self.pairs), np.zeros(shape))

    def inner(self, matrices):
        """``tr(A_g C_i)`` (n, g)."""
        shape = len(self.mean), len(matrices)
        return sum((pair.inner(matrices) for pair in self.pairs), np.zeros(shape))

    def pull(self, prior_bar, cross_bar, coef, matrices):
        """Gradients wrt theta, Z, mean and variance."""
        bars = Bars(np.zeros(self.n_theta), *map(np.zeros_like, (self.Z, self.mean, self.variance)))
        for part in self.parts:
            part.cross_bar = np.array(cross_bar)
        for pair in self.pairs:
            pair.pull(coef, matrices, bars)
        for part in self.parts:
            part.pull(prior_bar, bars)
        return bars


class ConstantTerm:
    """``c``."""

    def __init__(self, term, mean, variance, Z):
        self.term = term
        self.prior = np.full(len(mean), term.constant)
        self.cross = np.full((len(mean), len(Z)), term.constant)

    def pull(self, prior_bar, bars):
        """Add the gradients of prior and cross."""
        total = np.sum(self.cross_bar) + np.sum(prior_bar)
        bars.add_theta(self.term, self.term.constant * total)


class LinearTerm:
    """``c (σ0² + xᵀz)``."""

    is_linear = True

    def __init__(self, term, mean, variance, Z):
        self.term, self.mean, self.variance, self.Z = term, mean, variance, Z
        self.offset = float(term.leaf.sigma_0) ** 2
        norms = np.sum(mean**2, axis=1) + np.sum(variance, axis=1)
        self.prior = term.constant * (self.offset + norms)
        self.cross = term.constant * (self.offset + mean @ Z.T)

    def pull(self, prior_bar, bars):
        """Add the gradients of prior and cross."""
        c, G = self.term.constant, self.cross_bar
        of_offset = 2.0 * c * self.offset * (np.sum(G) + np.sum(prior_bar))
        of_constant = np.vdot(G, self.cross) + prior_bar @ self.prior
        bars.add_theta(self.term, of_constant, sigma_0=of_offset)
        of_prior = c * prior_bar[:, None]
        bars.Z[:] += c * (G.T @ self.mean)
        bars.mean[:] += c * (G @ self.Z) + 2.0 * of_prior * self.mean
        bars.variance[:] += of_prior


class RbfTerm:
    """``c RBF(l)``; cotangents of its cross may arrive as those of the logarithm, `log_bar`."""

    is_linear = False

    def __init__(self, term, mean, variance, Z):
        self.term, self.mean, self.variance, self.Z = term, mean, variance, Z
        scale = np.asarray(term.leaf.length_scale, dtype=np.float64)
        self.squares = np.broadcast_to(scale**2, Z.shape[1:])
        self.h = h = 1.0 / (self.squares + variance)
        distance = np.sum(h * mean**2, axis=1)[:, None] - 2.0 * (h * mean) @ Z.T + h @ (Z**2).T
        spread = np.sum(np.log1p(variance / self.squares), axis=1)[:, None]
        self.log_cross = np.log(term.constant) - 0.5 * (spread + distance)
        self.cross = np.exp(self.log_cross)
        self.prior = np.full(len(mean), term.constant)
        self.log_bar = 0.0

    def add_scales(self, squares_bar, bars):
        """Add a gradient wrt the squares of the length scales (d,)."""
        slope = 2.0 * self.squares * squares_bar
        one = np.ndim(self.term.leaf.length_scale) == 0 or np.size(self.term.leaf.length_scale) == 1
        bars.add_theta(self.term, 0.0, length_scale=np.sum(slope) if one else slope)

    def pull(self, prior_bar, bars):
        """Add the gradients of prior and cross."""
        W, h, mean = self.cross_bar * self.cross + self.log_bar, self.h, self.mean
        total, first = W.sum(axis=1)[:, None], W @ self.Z
        second = mean**2 * total - 2.0 * mean * first + W @ self.Z**2  # Σ_j W δ²
        self.log_bar = 0.0
        bars.add_theta(self.term, np.sum(W) + self.term.constant * np.sum(prior_bar))
        of_squares = 0.5 * (second * h**2 + total * h * self.variance / self.squares)
        self.add_scales(of_squares.sum(axis=0), bars)
        bars.Z[:] += W.T @ (h * mean) - self.Z * (W.T @ h)
        bars.mean[:] += h * (first - mean * total)
        bars.variance[:] += 0.5 * h * (h * second - total)


_KINDS = {type(None): ConstantTerm, _sk.RBF: RbfTerm, _sk.DotProduct: LinearTerm}

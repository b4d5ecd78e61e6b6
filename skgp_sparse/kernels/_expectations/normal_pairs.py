r"""Covariances of pairs of terms of a kernel, in closed form, for `_expectations`.

With ``A = l²`` of one RBF, ``B`` that of another or of the same, and ``δ_j = μ - z_j``, per column:

    RBF, RBF           C_jk = P_j P'_k expm1(ρ_jk),         ρ_jk = κ + w δ_j δ_k - p δ_j² - p' δ_k²
    DotProduct twice   C_jk = c c' Σ s z_j z_k
    RBF, DotProduct    C_jk = P_j c' Σ h (z_j - μ) z_k,     h = s / (A + s)

    D = AB + s (A + B),    κ = ½ log(1 + s²/D),    w = s/D,    p = s² / (2D (A + s))

so that no digit is lost where s is small. For the rows of a block, ρ is one matrix product of
functions of (μ, s) and of functions of (z_j, z_k). Where both terms are the same, pairs j ≥ k are
enough. ``expm1`` may overflow where ``P_j P_k`` underflows: beyond ρ = 20, the logarithms add up
before they are taken back.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from skgp_sparse._ground.parallel import empty

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

r"""Closed forms of `_expectations`: sums of terms ``c RBF(l)``, ``c DotProduct(σ0)`` and ``c``.

With ``A = l²`` and ``δ_j = μ - z_j``, per column:

    RBF          log P_j = log c - ½ log(1 + s/A) - ½ δ_j² / (A + s),        prior = c
    DotProduct   P_j = c (σ0² + μᵀ z_j),         prior = c (σ0² + ‖μ‖² + Σ s)

and C is a sum over pairs of terms, without those that are constant (`normal_pairs`).
"""

from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from sklearn.gaussian_process import kernels as _sk

from .normal_nodes import Bars
from .normal_pairs import pair_of


class ClosedExpectations:
    """Expectations of a sum of terms; see `skgp_sparse.kernels.expectations`."""

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

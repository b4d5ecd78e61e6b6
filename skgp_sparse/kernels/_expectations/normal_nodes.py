r"""Numerical integrals of `_expectations`, for any kernel with a derivative rule.

With nodes ``ξ_h`` and weights ``ω_h``, which sum to 1, row i becomes the rows ``μ_i + √s_i ξ_h``:

    P = Σ ω_h k_h,      C = Σ ω_h (k_h - P) (k_h - P)ᵀ,      k_h = k(μ + √s ξ_h, Z)

and a gradient wrt μ and s is ``Σ_h`` and ``Σ_h ξ_h / (2 √s)`` of that wrt the rows.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, qmc

from .._functions import diagonal, linearize
from .._theta import assemble

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
    """Expectations by nodes; see `skgp_sparse.kernels.expectations`."""

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

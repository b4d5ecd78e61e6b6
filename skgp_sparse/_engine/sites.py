r"""Rows with Gaussian sites ``exp(λ1 f - ½ λ2 f²)``: everything O(n) of an inner iteration.

Where the noise of a row is not a number but a likelihood, an inner loop looks for the sites that
stand in for it. ``V`` does not change meanwhile: `project_rows` computes it once. With precision
``a`` and linear term ``b`` of every row, as the method makes them from its sites,

    B = I + V diag(a) Vᵀ = LB LBᵀ,    c = LB⁻¹ V b,    v = LB⁻ᵀ c,
    μ_i = V_iᵀ v,    h_i = ‖LB⁻¹ V_i‖².

`Projected` and `Core` are what an inner loop works on; `skgp_sparse._engine.exact_sites` has others
of the same methods, where nothing needs to be projected.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine import collapsed
from skgp_sparse._engine.forward import project, without_pullbacks
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._engine.prior import Prior
from skgp_sparse._engine.problem import Problem
from skgp_sparse._linalg import (
    cholesky,
    inverse_lower,
    log_det_from_cholesky,
    product_norms,
    weighted_gram,
)
from skgp_sparse._parallel import ordered_map


class Projected(NamedTuple):
    """The rows of a problem as its inducing points see them."""

    problem: Problem
    prior: Prior
    blocks: list
    projections: list  # of the blocks, None where memory did not suffice
    residual: np.ndarray  # (n,)

    def map(self, function):
        """Yield ``function(rows, V)`` of every block, in order."""

        def run(index):
            rows, seen = self.blocks[index], self.projections[index]
            if seen is None:
                seen = project(self.problem, self.prior, self.problem.rows.block(rows).X)
            return function(rows, seen.V)

        threads = self.problem.threads(self.blocks)
        return ordered_map(run, range(len(self.blocks)), threads)

    @property
    def jitter(self):
        """What the prior took, in the units of its `Jitter`."""
        return self.prior.jitter

    def solve(self, a, b):
        """The `Core` for precisions `a` (n,), not negative, and linear terms `b` (n,)."""

        def run(rows, V):
            return weighted_gram(V, a[rows]), V.T @ b[rows, None]

        B, Vb = 0.0, 0.0
        for gram, linear in self.map(run):
            B, Vb = B + gram, Vb + linear
        B.flat[:: len(B) + 1] += 1.0
        n_jobs = self.problem.options.n_jobs
        LB = cholesky(B, n_jobs)
        TB = inverse_lower(LB, n_jobs)
        c = TB @ Vb
        return Core(TB, c, TB.T @ c, log_det_from_cholesky(LB))

    def visit(self, core, function):
        """Results of ``function(rows, μ, h)`` for every block, in order."""

        def run(rows, V):
            return function(rows, (V @ core.v)[:, 0], product_norms(V, core.TB))

        return list(self.map(run))

    def gradient(self, core, state, bound, inputs):
        """Gradient wrt theta and, if `inputs`, wrt Z: of the Gaussian `bound` with sites held.

        It reads the sites from their natural parameters ``state = (λ1, λ2)`` (2, n).
        """
        linear, precision = state
        rows = replace(self.problem.rows, y=(linear / precision)[:, None], noise=1.0 / precision)
        problem = self.problem._replace(rows=rows, bound=bound)
        found = collapsed.value_and_gradient(problem, inputs, self.prior, self.projections)
        return found.theta_bar, found.Z_bar

    def posterior(self, core):
        """The `Posterior` over the process."""
        problem, T = self.problem, self.prior.T
        return Posterior(problem.kernel, problem.Z, T.T @ core.v, T, core.TB)


class Core(NamedTuple):
    """The Gaussian posterior over the inducing variables, given all sites."""

    TB: np.ndarray  # LB⁻¹
    c: np.ndarray  # (m, 1)
    v: np.ndarray  # (m, 1)
    log_det: float  # log |B|

    def divergence(self):
        """``KL[q(u) ‖ p(u)]``."""
        trace = np.vdot(self.TB, self.TB)
        return 0.5 * (trace - len(self.c) + np.vdot(self.v, self.v) + self.log_det)

    def log_normaliser(self):
        """``log E[exp(Σ b f - ½ a f²)]`` under the Nyström prior."""
        return 0.5 * (np.vdot(self.c, self.c) - self.log_det)


def project_rows(problem):
    """Factorise the prior and project every row, keeping what memory allows.

    Where it does not allow everything, ``V`` has precedence: the inner loop reads it many times,
    and the backward pass the rest once. It is one array, which goes back to the system as a whole.
    """
    prior = problem.prior()
    blocks = problem.blocks()
    whole = all(problem.keepers(blocks))
    kept = problem.keepers(blocks, arrays=1)
    n_kept = max((rows.stop for rows, keep in zip(blocks, kept) if keep), default=0)
    V = np.empty((n_kept, len(problem.Z)))

    def run(index):
        rows, keep = blocks[index], kept[index]
        seen = project(problem, prior, problem.rows.block(rows).X, V[rows] if keep else None)
        if not whole:
            seen = without_pullbacks(seen, problem, prior, rows)
        return seen if keep else None, seen.residual

    found = ordered_map(run, range(len(blocks)), problem.threads(blocks))
    projections, residual = zip(*found)
    return Projected(problem, prior, blocks, list(projections), np.concatenate(residual))

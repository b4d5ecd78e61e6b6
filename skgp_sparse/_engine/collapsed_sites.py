r"""Rows with Gaussian sites ``exp(λ1 f - ½ λ2 f²)``: everything O(n) of an inner iteration.

Where the noise of a row is not a number but a likelihood, an inner loop looks for the sites that
stand in for it. Features V do not change meanwhile: `project_rows` computes them once. With the
linear term ``b`` and the precision ``a`` of every row, as the method makes them from its site,

    B = I + V diag(a) Vᵀ = LB LBᵀ,    c = LB⁻¹ V b,    v = LB⁻ᵀ c,
    μ_i = V_iᵀ v,    h_i = ‖LB⁻¹ V_i‖².

Several processes may share the kernel and the basis; each has sites of its own.

`ProjectedRows` and `Cores` are what an inner loop uses; `skgp_sparse._engine.exact_sites` has the
same methods where nothing needs to be projected.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse._engine import collapsed
from skgp_sparse._engine.basis import Features
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._engine.problem import Observations, Problem
from skgp_sparse._engine.table import Layout, PerRow
from skgp_sparse._ground.linalg import (
    cholesky,
    inverse_lower,
    log_det_from_cholesky,
    product_norms,
    weighted_gram,
)


class ProjectedRows(NamedTuple):
    """The rows of a problem as its basis sees them."""

    problem: Problem
    features: Features
    layout: Layout
    projections: list  # of the blocks, None where memory did not suffice
    observed: Observations  # of `PerRow`
    settled: "FrozenSites | None" = None  # what rows say that are no longer here

    @property
    def jitter(self):
        """What the features took, in the units of their `Jitter`."""
        return self.features.jitter

    def solve(self, natural):
        """The `Cores` for linear terms and precisions of the rows, a `PerRow` (2, k, n)."""

        features_of = self._features_of()

        def run(read, seen, site):
            V = features_of(read, seen)
            return (V.T @ site[0].T, *(weighted_gram(V, a) for a in site[1])), None

        (Vb, *VaV), _ = self._visit(run, natural, keep=[False] * len(natural))
        n_jobs, pairs = self.problem.options.n_jobs, zip(VaV, Vb.T[:, :, None])
        if self.settled is None:
            return Cores(core_of(*pair, n_jobs) for pair in pairs)
        return Cores(core_of(*pair, n_jobs, own) for pair, own in zip(pairs, self.settled.each()))

    def moments(self, cores):
        """Means ``μ`` and variances ``h`` of the rows, a `PerRow` (2, k, n)."""

        features_of = self._features_of()

        def run(read, seen):
            V = features_of(read, seen)
            mean = [(V @ core.v)[:, 0] for core in cores]
            return (), np.stack([mean, [product_norms(V, core.TB) for core in cores]])

        return PerRow(self._visit(run)[1])

    def gradient(self, cores, sites, bounds, inputs):
        """Gradients by the name of the block: of the Gaussian `bounds`, sites held.

        `sites` are natural parameters (λ1, λ2), a `PerRow` (2, k, n).
        """
        return collapsed.gradient_at_sites(
            self.problem, self.features, self.layout, self.projections, sites, cores, bounds, inputs
        )

    def posterior(self, core):
        """The `Posterior` over one of the processes."""
        u = self.features.weights(core.v)
        return Posterior(self.problem.kernel, self.features.for_prediction(), u, core.TB)

    def _visit(self, function, *states, keep=None):
        kept, reads = (self.projections, *states), [seen is None for seen in self.projections]
        return self.problem.rows.visit(function, self.layout, *kept, keep=keep, reads=reads)

    def _features_of(self):
        """``(read, seen) -> V``, which holds no numbers of rows: it may go where the rows are."""
        problem, features = self.problem, self.features

        def features_of(read, seen):
            return problem.project(features, read().X).V if seen is None else seen.V

        return features_of


class Core(NamedTuple):
    """The Gaussian posterior over the inducing variables of a process, given all sites."""

    VaV: np.ndarray  # B - I
    TB: np.ndarray  # LB⁻¹
    c: np.ndarray  # (m, 1)
    v: np.ndarray  # (m, 1)
    log_det: float  # log |B|
    settled: float = 0.0  # E_q of the logarithms of settled sites

    def divergence(self):
        """``KL[q(u) ‖ p(u)]``, p with the settled sites, up to a constant."""
        trace = np.vdot(self.TB, self.TB)
        prior = 0.5 * (trace - len(self.c) + np.vdot(self.v, self.v) + self.log_det)
        return prior - self.settled

    def log_normaliser(self):
        """``log E[exp(Σ b f - ½ a f²)]`` under the Nyström prior."""
        return 0.5 * (np.vdot(self.c, self.c) - self.log_det)


class Cores(tuple):
    """The posteriors of independent processes."""

    def divergence(self):
        """``KL[q ‖ p]`` of all processes."""
        return sum(core.divergence() for core in self)

    def log_normaliser(self):
        """``log E[exp(Σ b f - ½ a f²)]`` of all processes under the prior."""
        return sum(core.log_normaliser() for core in self)


class FrozenSites(NamedTuple):
    """Sites that stay as they are: sums over their rows, for every process."""

    VaV: np.ndarray  # (k, m, m)
    Vb: np.ndarray  # (k, m)

    def __add__(self, other):
        return FrozenSites(self.VaV + other.VaV, self.Vb + other.Vb)

    def times(self, factor):
        """The same with every weight multiplied."""
        return FrozenSites(factor * self.VaV, factor * self.Vb)

    def each(self):
        """The pair of every process, linear terms as a column."""
        return zip(self.VaV, self.Vb[:, :, None])


def settle(problem, sites, as_seen):
    """The `FrozenSites` sites of all rows of a problem.

    Parameters
    ----------
    problem : Problem
    sites : ndarray of shape (2, k, n)
        Natural parameters of every row.
    as_seen : callable
        ``(site, residual, weight) -> (2, k, n)``: linear terms and precisions as the basis sees
        them, of all copies of a row.
    """
    features, layout = problem.features(), problem.layout()
    parts = [sites[..., rows] for rows in layout.blocks]

    def run(read, site):
        block = read()
        seen = problem.project(features, block.X)
        linear, precision = as_seen(site, seen.residual, block.weight)
        return (np.stack([weighted_gram(seen.V, a) for a in precision]), linear @ seen.V), None

    return FrozenSites(*problem.rows.visit(run, layout, parts)[0])


def core_of(VaV, Vb, n_jobs, settled=None):
    """The `Core` of ``V diag(a) Vᵀ`` and ``V b``, settled sites; may raise ``LinAlgError``."""
    if settled is not None:
        VaV, Vb = VaV + settled[0], Vb + settled[1]
    B = VaV.copy()
    B.flat[:: len(B) + 1] += 1.0
    try:
        LB = cholesky(B, n_jobs)
    except np.linalg.LinAlgError:
        raise np.linalg.LinAlgError(
            "There is no posterior for the sites of the rows, because they are not finite, or too "
            "many precisions are negative. Check the scale of X and y and the bounds of the "
            "hyperparameters."
        ) from None
    TB = inverse_lower(LB, n_jobs)
    c = TB @ Vb
    core = Core(VaV, TB, c, TB.T @ c, log_det_from_cholesky(LB))
    return core if settled is None else core._replace(settled=_expected(core, *settled))


def _expected(core, VaV, Vb):
    """``E_q[vᵀ Vb - ½ vᵀ VaV v]``."""
    squares = np.vdot(core.v, VaV @ core.v) + np.vdot(core.TB, core.TB @ VaV)
    return np.vdot(core.v, Vb) - 0.5 * squares


def project_rows(problem, settled=None):
    """Find the features of every row, keeping what memory allows.

    Where it does not allow everything, features have precedence: the inner loop reads them many
    times, and the backward pass the rest once. They are one array, which goes back to the system as
    a whole.
    """
    features, layout = problem.features(), problem.layout()
    whole = all(layout.whole)
    kept = [rows.stop for rows, keep in zip(layout.blocks, layout.features) if keep]
    V = np.empty((max(kept, default=0), problem.basis.size))
    places = [V[rows] if keep else None for rows, keep in zip(layout.blocks, layout.features)]

    def run(read, place):
        block = read()
        seen = problem.project(features, block.X, place)
        observed = observe(block, seen.residual)
        waiting = None if place is None else seen if whole else seen._replace(tape=None)
        return (), (waiting, observed)

    _, found = problem.rows.visit(run, layout, places)
    projections, observed = zip(*found)
    return ProjectedRows(
        problem,
        features,
        layout,
        list(projections),
        Observations(*map(PerRow, zip(*observed))),
        settled,
    )


def observe(block, residual):
    """The `Observations` of a block, every part an array (n,)."""
    y = block.y[:, 0]
    offset, weight = (np.broadcast_to(one, y.shape) for one in (block.offset, block.weight))
    return Observations(y, offset, weight, residual)

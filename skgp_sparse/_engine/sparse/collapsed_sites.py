r"""Rows with Gaussian sites ``exp(λ1 f - ½ λ2 f²)``: everything O(n) of an inner iteration.

Where the noise of a row is not a number but a likelihood, an inner loop looks for the sites that
stand in for it. Features V do not change meanwhile: `project_rows` computes them once. With the
linear term ``b`` and the precision ``a`` of every row, as the method makes them from its site,

    B = I + V diag(a) Vᵀ = LB LBᵀ,    c = LB⁻¹ V b,    v = LB⁻ᵀ c,
    μ_i = V_iᵀ v,    h_i = ‖LB⁻¹ V_i‖².

Several processes may share the kernel and the basis; each has sites of its own.

`ProjectedRows` and `Cores` are what an inner loop uses; `skgp_sparse._engine.exact.exact_sites` has
the same methods where nothing needs to be projected.
"""

from functools import partial
from itertools import repeat
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.data.dataset import Layout
from skgp_sparse._engine.data.per_row import PerRow, by_row
from skgp_sparse._engine.features.basis import Features
from skgp_sparse._engine.features.problem import Observations, Problem
from skgp_sparse._engine.sparse import collapsed
from skgp_sparse._engine.sparse.collapsed import core_of
from skgp_sparse._engine.sparse.passes import Sums
from skgp_sparse._ground.linalg import product_norms, weighted_gram

NO_POSTERIOR = (
    "There is no posterior: the sites of the rows are not finite, or too many precisions negative. "
    "Check the scale of X and y and the bounds of the hyperparameters."
)


class ProjectedRows(NamedTuple):
    """The rows of a problem as its basis sees them."""

    problem: Problem
    features: Features
    layout: Layout
    projections: list  # of the blocks, None where memory did not suffice
    observed: Observations  # of `PerRow`
    frozen_sites: Sums | None = None  # over rows that are no longer here, for every process

    jitter = property(lambda self: self.features.jitter)

    def sums(self, natural):
        """`Sums` over rows for linear terms and precisions, a `PerRow` (2, k, n), VaV as a list."""
        features_of = self._features_of()

        def run(read, projection, site):
            V = features_of(read, projection)
            return (V.T @ site[0].T, *(weighted_gram(V, a) for a in site[1])), None

        (Vb, *VaV), _ = self._visit(run, natural, keep=[False] * len(natural))
        return Sums(VaV, Vb.T)

    def solve(self, natural):
        """The `Cores` for the same."""
        frozen_sites = repeat(None) if self.frozen_sites is None else _by_process(self.frozen_sites)
        n_jobs = repeat(self.problem.options.n_jobs)
        return Cores(map(core_at_sites, _by_process(self.sums(natural)), n_jobs, frozen_sites))

    def moments(self, cores):
        """Means ``μ`` and variances ``h`` of the rows, a `PerRow` (2, k, n)."""

        features_of = self._features_of()

        def run(read, projection):
            return (), cores.moments(features_of(read, projection))

        return PerRow(self._visit(run)[1])

    def covariance(self, core):
        """Posterior covariance (n, n) of what the basis says of the rows."""
        features_of = self._features_of()

        def run(read, projection):
            return (), (features_of(read, projection) @ core.TB.T).T

        root = np.asarray(PerRow(self._visit(run)[1]))
        return root.T @ root

    def gradient(self, cores, sites, bounds, inputs):
        """Gradients by the name of the block: of the Gaussian `bounds`, sites held.

        `sites` are natural parameters (λ1, λ2), a `PerRow` (2, k, n).
        """
        return collapsed.gradient_at_sites(
            self.problem, self.features, self.layout, self.projections, sites, cores, bounds, inputs
        )

    def posterior(self, core):
        """The `SparsePosterior` over one of the processes."""
        return collapsed.posterior_of(self.features, core, self.problem)

    def _visit(self, function, *states, keep=None):
        kept, reads = (self.projections, *states), [one is None for one in self.projections]
        return self.problem.rows.visit(function, self.layout, *kept, keep=keep, reads=reads)

    def _features_of(self):
        """``(read, projection) -> V``, without numbers of rows: it may go where the rows are."""
        project = partial(self.problem.project, self.features)
        return lambda read, projection: project(read().X).V if projection is None else projection.V


class Cores(tuple):
    """The posteriors of independent processes."""

    def moments(self, V):
        """Means ``μ`` and variances ``h`` of rows with these features (2, k, n)."""
        means = [(V @ core.v)[:, 0] for core in self]
        return np.stack([means, [product_norms(V, core.TB) for core in self]])

    def divergence(self):
        """``KL[q ‖ p]`` of all processes."""
        return sum(core.divergence() for core in self)

    def log_normaliser(self):
        """``log E[exp(Σ b f - ½ a f²)]`` of all processes under the prior."""
        return sum(core.log_normaliser() for core in self)


def sums_at_sites(problem, sites, to_natural):
    """`Sums` over the sites of all rows of a problem, (k, m, m) and (k, m), which stay as they are.

    Parameters
    ----------
    problem : Problem
    sites : ndarray of shape (2, k, n)
        Natural parameters of every row.
    to_natural : callable
        ``(site, residual, weight) -> (2, k, n)``: linear terms and precisions of all
        copies of a row.
    """
    rows = project_rows(problem)
    parts = [sites[..., block] for block in rows.layout.blocks]
    natural = by_row(to_natural, parts, rows.observed.residual, rows.observed.weight)
    return Sums(*map(np.stack, rows.sums(natural)[:2]))


def _by_process(sums):
    """`Sums` of every process, whose linear terms are columns, from those with an axis for them."""
    return map(Sums, sums.VaV, sums.Vay[:, :, None])


def core_at_sites(sums, n_jobs, frozen_sites=None):
    """The `Core` given `Sums` over sites, and over frozen ones; may raise ``LinAlgError``."""
    if frozen_sites is not None:
        sums = Sums(sums.VaV + frozen_sites.VaV, sums.Vay + frozen_sites.Vay)
    core = core_of(sums, n_jobs, failure=NO_POSTERIOR)
    return (
        core if frozen_sites is None else core._replace(frozen_sites=_expected(core, frozen_sites))
    )


def _expected(core, sums):
    """``E_q[vᵀ Vb - ½ vᵀ VaV v]``."""
    squares = np.vdot(core.v, sums.VaV @ core.v) + np.vdot(core.TB, core.TB @ sums.VaV)
    return np.vdot(core.v, sums.Vay) - 0.5 * squares


def project_rows(problem, frozen_sites=None):
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
        complete = problem.project(features, block.X, place)
        observed = observe(block, complete.residual)
        projection = None if place is None else complete if whole else complete._replace(tape=None)
        return (), (projection, observed)

    _, waiting = problem.rows.visit(run, layout, places)
    projections, observed = zip(*waiting)
    observed = Observations(*map(PerRow, zip(*observed)))
    return ProjectedRows(problem, features, layout, list(projections), observed, frozen_sites)


def observe(block, residual):
    """The `Observations` of a block, every part an array (n,)."""
    n = len(block.X)
    offset, weight = (np.broadcast_to(one, n) for one in (block.offset, block.weight))
    return Observations(block.observed, offset, weight, residual)

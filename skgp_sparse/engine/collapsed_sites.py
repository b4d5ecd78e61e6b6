"""Rows with Gaussian sites ``exp(λ1 f - ½ λ2 f²)``: everything O(n) of an inner iteration.

Where the noise of a row is not a number but a likelihood, an inner loop looks for the sites that
stand in for it. Features V do not change meanwhile: `project_rows` computes them once. With the
linear term ``b`` and the precision ``a`` of every row, as the method makes them from its site,

    B = I + V diag(a) Vᵀ = LB LBᵀ,    c = LB⁻¹ V b,    v = LB⁻ᵀ c,
    μ_i = V_iᵀ v,    h_i = ‖LB⁻¹ V_i‖².

Several processes may share the kernel and the basis; each has sites of its own.

`ProjectedRows` and `Cores` are what an inner loop uses; `skgp_sparse.engine.exact.JointRows` has
the same methods where nothing needs to be projected.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse.data.arrays import PerRow
from skgp_sparse.data.dataset import Batch, Layout
from skgp_sparse.engine import collapsed
from skgp_sparse.engine.basis import Features, Observations, Problem, Projection
from skgp_sparse.engine.collapsed import Core, Forward, Sums, Visit, core_of, pull_back
from skgp_sparse.engine.feature_posterior import SparsePosterior
from skgp_sparse.engine.posterior import IndependentPosteriors, Posterior
from skgp_sparse.ground.linalg import product_norms, weighted_gram
from skgp_sparse.ground.validation import Array, Kernel

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
    jitter: float  # of the features

    def sums(self, natural: PerRow) -> Sums:
        """`Sums` over rows for linear terms and precisions, a `PerRow` (2, k, n), VaV as a list."""
        features_of = self._features_of()

        def run(read: Callable, projection: Projection | None, site: Array) -> tuple:
            V = features_of(read, projection)
            return (V.T @ site[0].T, *(weighted_gram(V, a) for a in site[1])), None

        (Vb, *VaV), _ = self._visit(run, natural.parts, keep=[False] * len(natural))
        return Sums(VaV, Vb.T)

    def solve(self, natural: PerRow) -> "Cores":
        """The `Cores` for the same."""
        n_jobs, sums = self.problem.options.n_jobs, self.sums(natural)
        of_processes = map(Sums, sums.VaV, sums.Vay[:, :, None])  # linear terms are columns
        return Cores(core_of(one, n_jobs, failure=NO_POSTERIOR) for one in of_processes)

    def moments(self, cores: "Cores") -> PerRow:
        """Means ``μ`` and variances ``h`` of the rows, a `PerRow` (2, k, n)."""

        features_of = self._features_of()
        run = lambda read, projection: ((), cores.moments(features_of(read, projection)))
        return PerRow(self._visit(run)[1])

    def covariance(self, core: Core) -> Array:
        """Posterior covariance (n, n) of what the basis says of the rows."""
        features_of = self._features_of()
        run = lambda read, projection: ((), (features_of(read, projection) @ core.TB.T).T)
        root = np.asarray(PerRow(self._visit(run)[1]))
        return root.T @ root

    def gradient(self, cores: "Cores", sites: PerRow, bounds: list, inputs: bool) -> dict:
        """Gradients by the name of the block, sites (λ1, λ2) held, a `PerRow` (2, k, n)."""
        problem, features = self.problem, self.features
        problems = [problem._replace(bound=bound) for bound in bounds]

        def see(block: Batch, projection: Projection | None, site: Array) -> list[Forward]:
            projection = projection or problem.project(features, block.X)
            pairs = zip(problems, site.swapaxes(0, 1))
            return [collapsed.forward_block(at, projection, block, one) for at, one in pairs]

        probe = see(problem.rows.block(slice(0, 1)), None, sites[0][..., :1])
        kept = self.projections, [*sites.parts]  # which are used up
        return pull_back(Visit(problems, features, self.layout), see, cores, probe, inputs, kept)

    def posterior(self, core: Core) -> SparsePosterior:
        """The `SparsePosterior` over one of the processes."""
        return collapsed.posterior_of(self.features, core, self.problem.kernel)

    def _visit(self, function: Callable, *states: list, keep: list[bool] | None = None) -> tuple:
        kept, reads = (self.projections, *states), [one is None for one in self.projections]
        return self.problem.rows.visit(function, self.layout, *kept, keep=keep, reads=reads)

    def _features_of(self) -> Callable:
        """``(read, projection) -> V``, without numbers of rows: it may go where the rows are."""
        project = partial(self.problem.project, self.features)
        return lambda read, projection: project(read().X).V if projection is None else projection.V


class Cores(tuple):
    """The posteriors of independent processes."""

    def moments(self, V: Array) -> Array:
        """Means ``μ`` and variances ``h`` of rows with these features (2, k, n)."""
        means = [(V @ core.v)[:, 0] for core in self]
        return np.stack([means, [product_norms(V, core.TB) for core in self]])

    def process(self, features: Features, kernel: Kernel) -> Posterior:
        """The posterior process, one with `IndependentPosteriors` where there are several."""
        features = features.for_prediction()
        each = tuple(collapsed.posterior_of(features, core, kernel) for core in self)
        return each[0] if len(each) == 1 else IndependentPosteriors(each)

    def divergence(self) -> float:
        """``KL[q ‖ p]`` of all processes."""
        return sum(core.divergence() for core in self)

    def log_normaliser(self) -> float:
        """``log E[exp(Σ b f - ½ a f²)]`` of all processes under the prior."""
        return sum(core.log_normaliser() for core in self)


# Where memory does not allow everything, features have precedence: the inner loop reads them many
# times, and the backward pass the rest once. They are one array, which goes back to the system as
# a whole.
def project_rows(problem: Problem) -> ProjectedRows:
    """The `ProjectedRows` of a problem, which keep what memory allows."""
    features, layout = problem.features(), problem.layout()
    whole = all(layout.whole)
    kept = [rows.stop for rows, keep in zip(layout.blocks, layout.features) if keep]
    V = np.empty((max(kept, default=0), problem.basis.size))
    places = [V[rows] if keep else None for rows, keep in zip(layout.blocks, layout.features)]

    def run(read: Callable, place: Array | None) -> tuple:
        block = read()
        complete = problem.project(features, block.X, place)
        projection = None if place is None else complete if whole else complete._replace(tape=None)
        return (), (projection, observe(block, complete.residual))

    _, waiting = problem.rows.visit(run, layout, places)
    projections, observed = zip(*waiting)
    observed = Observations(*map(PerRow, zip(*observed)))
    return ProjectedRows(problem, features, layout, list(projections), observed, features.jitter)


def observe(block: Batch, residual: Array) -> Observations:
    """The `Observations` of a block, every part an array (n,)."""
    offset, weight = (np.broadcast_to(one, len(residual)) for one in (block.offset, block.weight))
    return Observations(block.observed, offset, weight, residual)


class RowSums(NamedTuple):
    """Sums over rows whose sites follow from the posteriors of the processes."""

    of_processes: list  # `Sums` of each process
    n: float  # Σ w
    value: float  # sum of the values of the rows
    residual: Array  # (k,) Σ w λ2 r


def with_sites(visit: Visit, cores: Cores, update: Callable, v: Array) -> RowSums:
    """The `RowSums` of a visit; `update` of a `SiteMethod` needs no last site; shares `v`."""
    (problem, *_), features, layout = visit

    def run(read: Callable) -> tuple:
        block = read()
        projection = problem.project(features, block.X)
        V, rows = projection.V, observe(block, projection.residual)
        found = update(rows, *cores.moments(V), None, v)
        VaV = (weighted_gram(V, rows.weight * precision) for precision in found.precision)
        Vb = (V.T @ (rows.weight * linear)[:, None] for linear in found.linear)
        residual = found.precision @ (rows.weight * rows.residual)
        return (rows.weight.sum(), rows.weight @ found.value, residual, *VaV, *Vb), None

    keep, k = [False] * len(layout.blocks), len(cores)
    (n, value, residual, *parts), _ = problem.rows.visit(run, layout, keep=keep)
    return RowSums(list(map(Sums, parts[:k], parts[k:])), n, value, residual)

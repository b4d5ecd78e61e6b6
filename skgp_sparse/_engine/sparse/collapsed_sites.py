r"""Rows with Gaussian sites ``exp(λ1 f - ½ λ2 f²)``: everything O(n) of an inner iteration.

Where the noise of a row is not a number but a likelihood, an inner loop looks for the sites that
stand in for it. Features V do not change meanwhile: `project_rows` computes them once. With the
linear term ``b`` and the precision ``a`` of every row, as the method makes them from its site,

    B = I + V diag(a) Vᵀ = LB LBᵀ,    c = LB⁻¹ V b,    v = LB⁻ᵀ c,
    μ_i = V_iᵀ v,    h_i = ‖LB⁻¹ V_i‖².

Several processes may share the kernel and the basis; each has sites of its own.

`ProjectedRows` and `Cores` are what an inner loop uses; `skgp_sparse._engine.exact.exact_sites` has
the same methods where nothing needs to be projected.

Gradients from some of the rows, with the posterior of the weights of the features held.

A collapsed objective is the best value, over ``q(w) = N(v, S)``, of a sum over rows,

    F = Σ w [ log N(y; Vᵀv, λ) - h/2λ ] - reduce(Σ w φ) - KL[q ‖ N(0, I)],        h = Vᵀ S V,

so that some rows, weighted up to all of them, say where it increases (Hensman, Fusi and Lawrence
2013; Titsias 2025, eq. 18, 19 and 23). The optimum of q given theta and the basis is that of
`skgp_sparse._engine.sparse.collapsed`,

    S = B⁻¹,    v = B⁻¹ V (a y),    B = I + V diag(a) Vᵀ,

here with means over many rows in the place of the sums. Through the features ``V = T K``, q held,

    W = V_bar Vᵀ = v (V a e)ᵀ - P S V diag(a) Vᵀ - 2 V diag(t) Vᵀ,      Kuu_bar = -Tᵀ sym Φ(W) T,

where Φ takes the lower triangle and half of its diagonal. At the optimum for all rows W is
symmetric, and this is the gradient of the collapsed objective.
"""

from functools import partial
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.data.array_dataset import PerRow, by_row
from skgp_sparse._engine.data.dataset import Layout
from skgp_sparse._engine.features.basis import Features
from skgp_sparse._engine.features.inducing_basis import Observations, Problem
from skgp_sparse._engine.sparse import collapsed, passes
from skgp_sparse._engine.sparse.collapsed import core_of, pull_back
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


class Minibatch(NamedTuple):
    """Some rows at one kernel and one basis, and what waits for their gradients."""

    features: object
    layout: object
    waiting: list  # of the `Forward` of every process, for each block
    sums: list  # of `Sums`, one for each process
    n: float  # Σ w
    totals: np.ndarray  # Σ w φ, or what the view adds up


def look(problem, view, keep=True):
    """Visit rows.

    Parameters
    ----------
    problem : Problem
    view : callable
        ``(block, Projection) -> (list of Forward, totals)``: the rows as every process sees them,
        and numbers of any kind to add up.
    keep : bool
        Whether gradients follow.
    """
    features, layout = problem.features(), problem.layout()

    def run(read):
        block = read()
        forwards, totals = view(block, problem.project(features, block.X))
        sums = chain.from_iterable(passes.posterior_sums(forward, block) for forward in forwards)
        totals = np.asarray(totals, dtype=float)
        return (passes.sum_of(block.weight, block), totals, *sums), forwards if keep else None

    kept = None if keep else [False] * len(layout.blocks)
    (n, totals, *parts), waiting = problem.rows.visit(run, layout, keep=kept)
    size = len(Sums._fields)
    sums = [Sums(*parts[k : k + size]) for k in range(0, len(parts), size)]
    return Minibatch(features, layout, waiting, sums, n, totals)


def with_noise(problem):
    """The `look` at rows with Gaussian noise; adds up their penalties."""

    def view(block, projection):
        forward = passes.forward_block(problem, projection, block)
        weight = np.broadcast_to(block.weight, len(block.X))
        return [forward], weight @ np.broadcast_to(forward.phi, len(block.X))

    return view


def with_sites(problem, cores, update, bounds):
    """The `look` at rows with a likelihood, whose sites follow from the posteriors of now.

    Adds up the values of the rows, ``λ2 r`` in every process, and what the update adds up.

    Parameters
    ----------
    problem : Problem
    cores : Cores
    update : callable
        ``(Observations, mean, h) -> (SiteUpdate, sums)``.
    bounds : list of Bound
        Of each process, sites held.
    """
    problems = [problem._replace(bound=bound) for bound in bounds]

    def view(block, projection):
        observed = observe(block, projection.residual)
        by_row, totals = update(observed, *cores.moments(projection.V))
        sites = np.stack([by_row.linear, by_row.precision], axis=1)
        pairs = zip(problems, sites)
        forwards = [passes.forward_block(p, projection, block, site) for p, site in pairs]
        weight = observed.weight
        of_residual = by_row.precision @ (weight * projection.residual)
        return forwards, [weight @ by_row.value, *of_residual, *totals]

    return view


def posterior_of(means, n, n_jobs):
    """The `Core` of a process, from means over rows that stand for n."""
    return core_at_sites(means.times(n), n_jobs)


def gradient(problem, batch, cores, bounds, reduce_slope, inputs):
    """Gradients by the name of the block from the rows of a batch, the posteriors held.

    Parameters
    ----------
    problem : Problem
    batch : Batch
        Used up.
    cores : list of Core
        One for each process.
    bounds : list of Bound
        Of each process.
    reduce_slope : float
        By which penalties count.
    inputs : bool
    """
    features, layout, waiting, sums, *_ = batch
    problems, see = [problem._replace(bound=bound) for bound in bounds], lambda _, kept: kept
    kept = [list(waiting)]
    return pull_back(
        problems, features, layout, see, cores, waiting[0], inputs, kept, 1.0, reduce_slope, sums
    )

r"""Gradients from some of the rows, with the posterior of the weights of the features held.

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

from itertools import chain
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.sparse import passes
from skgp_sparse._engine.sparse.collapsed import pull_back
from skgp_sparse._engine.sparse.collapsed_sites import core_at_sites, observe
from skgp_sparse._engine.sparse.passes import Sums


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

"""First visit to the rows: blocks become sums, and blocks add.

Per block: features V (for inducing points one triangular product, n m²), ``Vᵀ diag(a) V`` (one
rank-k update, n m²), and a second rank-k update where the penalty's slope differs between rows.

A row is seen through its natural parameters, the precision ``1/σ²`` and the linear term ``y/σ²``:
those of its known and learned noise, or those of a Gaussian site. Nothing is divided by a precision
that may be 0.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.problem import Tape
from skgp_sparse._ground.linalg import weighted_gram

_LOG_2PI = np.log(2.0 * np.pi)


class Forward(NamedTuple):
    """What the first visit to a block knows that the second one needs."""

    V: np.ndarray
    tape: Tape | None
    precision: float | np.ndarray  # 1/σ², or λ2 of a site
    linear: np.ndarray  # y/σ² (n, p), or λ1
    x: np.ndarray  # r/σ²
    own: float | np.ndarray  # λ/σ²
    a: float | np.ndarray  # w/λ
    phi: np.ndarray
    slope: float | np.ndarray  # φ'


class Statistics(NamedTuple):
    """Sums over rows."""

    VaV: np.ndarray  # Vᵀ diag(a) V
    Vay: np.ndarray  # Vᵀ diag(a) y
    VsV: np.ndarray | float  # Vᵀ diag(w φ'/σ²) V, where φ' differs between rows
    yay: float  # Σ a y²
    log_noise: float  # Σ w (log 2π + log λ)
    phi: float  # Σ w φ
    n: float  # Σ w
    a: float  # Σ a


def first_visit(problem, features, layout, gradient, projections=None, sites=None):
    """Sum the statistics of all blocks.

    Parameters
    ----------
    problem : Problem
    features : Features
    layout : Layout
    gradient : bool
        Whether a gradient follows, for which blocks wait as far as memory allows.
    projections : list of Projection or None
        Of the blocks, None where they are not known; taken out of the list as they are used.
    sites : PerRow or None
        Natural parameters (2, n) that stand for the noise and the targets of the rows.

    Returns
    -------
    Statistics
    list of Forward or None
        The blocks that wait for the second visit.
    """
    nothing = [None] * len(layout.blocks)
    known = nothing if projections is None else projections
    keep = layout.whole if projections is None else [one is not None for one in projections]
    sites = nothing if sites is None else list(sites)

    def run(read, seen, site):
        block = read()
        forward = forward_block(problem, features, block, seen, site)
        slopes = gradient and not problem.bound.noise_share and np.ndim(forward.slope) > 0
        return _statistics(forward, block, slopes, site is None), forward

    keep = keep if gradient else nothing
    sums, waiting = problem.rows.visit(run, layout, known, sites, keep=keep, spend=True)
    return Statistics(*sums), waiting


def forward_block(problem, features, block, projection=None, site=None):
    """Everything about a block that does not depend on the other rows."""
    seen = projection or problem.project(features, block.X)
    if site is None:
        precision = 1.0 / (seen.noise + block.noise)
        linear = block.y * np.reshape(precision, (-1, 1))
    else:
        linear, precision = site[0][:, None], site[1]
    x = seen.residual * precision
    share = problem.bound.noise_share
    own = 1.0 + share * x if share else 1.0
    phi, slope = problem.bound.penalty(x)
    a = block.weight * precision / own
    return Forward(seen.V, seen.tape, precision, linear, x, own, a, phi, slope)


def _statistics(forward, block, slopes, observed):
    """The sums of a block; of sites only what a gradient needs: their value is known elsewhere."""
    V, precision, weight = forward.V, forward.precision, block.weight
    ay = forward.linear * np.reshape(weight / forward.own, (-1, 1))
    n = _sum(weight, block)
    yay = np.vdot(block.y, ay) if observed else 0.0
    logs = _sum(weight * np.log(forward.own / precision), block) if observed else 0.0
    return Statistics(
        VaV=weighted_gram(V, forward.a),
        Vay=V.T @ ay,
        VsV=weighted_gram(V, weight * forward.slope * precision) if slopes else 0.0,
        yay=yay,
        log_noise=logs + n * _LOG_2PI,
        phi=_sum(weight * forward.phi, block),
        n=n,
        a=_sum(forward.a, block),
    )


def _sum(values, block):
    return np.broadcast_to(values, len(block.X)).sum()

"""First visit to the rows: blocks become sums, and blocks add.

Per block: features V (for inducing points one triangular product, n m²) and ``Vᵀ diag(a) V`` (one
rank-k update, n m²).

A row is seen through its natural parameters, the precision ``1/σ²`` and the linear term ``y/σ²``:
those of its known and learned noise, or those of a Gaussian site. Nothing is divided by a precision
that may be 0, or negative where it is that of a site.
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
    share: float | np.ndarray  # of r in λ
    phi: np.ndarray
    slope: float | np.ndarray  # φ'


class Statistics(NamedTuple):
    """Sums over rows."""

    VaV: np.ndarray  # Vᵀ diag(a) V
    Vay: np.ndarray  # Vᵀ diag(a) y
    yay: float  # Σ a y²
    log_noise: float  # Σ w (log 2π + log λ)
    phi: float  # Σ w φ
    n: float  # Σ w
    a: float  # Σ a


def first_visit(problem, features, layout, gradient):
    """Sum the statistics of all blocks.

    Parameters
    ----------
    problem : Problem
    features : Features
    layout : Layout
    gradient : bool
        Whether a gradient follows, for which blocks wait as far as memory allows.

    Returns
    -------
    Statistics
    list of Forward or None
        The blocks that wait for the second visit.
    """

    def run(read):
        block = read()
        forward = forward_block(problem, problem.project(features, block.X), block)
        return block_statistics(forward, block), forward

    keep = layout.whole if gradient else [False] * len(layout.blocks)
    sums, waiting = problem.rows.visit(run, layout, keep=keep)
    return Statistics(*sums), waiting


def forward_block(problem, seen, block, site=None):
    """Everything about a block that does not depend on the other rows.

    Parameters
    ----------
    problem : Problem
    seen : Projection
    block : Block
    site : ndarray of shape (2, n) or None
        Natural parameters that stand for noise and targets.
    """
    if site is None:
        precision = 1.0 / (seen.noise + block.noise)
        linear = block.y * np.reshape(precision, (-1, 1))
    else:
        linear, precision = site[0][:, None], site[1]
    x = seen.residual * precision
    bound = problem.bound.for_weights(block.weight)
    share = bound.noise_share
    own = 1.0 + share * x if np.any(share) else 1.0
    phi, slope = bound.penalty(x)
    a = block.weight * precision / own
    return Forward(seen.V, seen.tape, precision, linear, x, own, a, share, phi, slope)


def block_statistics(forward, block):
    """The `Statistics` of one block."""
    V, weight = forward.V, block.weight
    ay = forward.linear * np.reshape(weight / forward.own, (-1, 1))
    n = _sum(weight, block)
    logs = _sum(weight * np.log(forward.own / forward.precision), block)
    return Statistics(
        VaV=weighted_gram(V, forward.a),
        Vay=V.T @ ay,
        yay=np.vdot(block.y, ay),
        log_noise=logs + n * _LOG_2PI,
        phi=_sum(weight * forward.phi, block),
        n=n,
        a=_sum(forward.a, block),
    )


def _sum(values, block):
    return np.broadcast_to(values, len(block.X)).sum()

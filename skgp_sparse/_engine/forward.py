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
from skgp_sparse._ground.normal import LOG_2PI


class Forward(NamedTuple):
    """What the first visit to a block knows that the second one needs."""

    V: np.ndarray
    tape: Tape | None
    precision: float | np.ndarray  # 1/σ², or λ2 of a site
    linear: np.ndarray  # y/σ² (n, p), or λ1
    x: np.ndarray  # r/σ²
    inflation: float | np.ndarray  # λ/σ²
    a: float | np.ndarray  # w/λ
    share: float | np.ndarray  # of r in λ
    phi: np.ndarray
    slope: float | np.ndarray  # φ'

    def weighted_targets(self, weight):
        """``a y`` (n, p)."""
        return self.linear * np.reshape(weight / self.inflation, (-1, 1))


class Sums(NamedTuple):
    """Sums over rows, or means; of several processes with a leading axis of these."""

    VaV: np.ndarray  # Vᵀ diag(a) V
    Vay: np.ndarray  # Vᵀ diag(a) y
    a: float = 0.0  # Σ a
    yay: float = 0.0  # Σ a y²; this and the rest are what an objective wants to know
    log_noise: float = 0.0  # Σ w (log 2π + log λ)
    phi: float = 0.0  # Σ w φ
    n: float = 0.0  # Σ w

    def __add__(self, more):
        return Sums(*(a + b for a, b in zip(self, more)))

    def times(self, factor):
        """The same with every weight multiplied."""
        return Sums(*(factor * part for part in self))


def first_visit(problem, features, layout, gradient):
    """Sum over all blocks.

    Parameters
    ----------
    problem : Problem
    features : Features
    layout : Layout
    gradient : bool
        Whether a gradient follows, for which blocks wait as far as memory allows.

    Returns
    -------
    Sums
    list of Forward or None
        The blocks that wait for the second visit.
    """

    def run(read):
        block = read()
        forward = forward_block(problem, problem.project(features, block.X), block)
        return block_sums(forward, block), forward

    keep = layout.whole if gradient else [False] * len(layout.blocks)
    sums, waiting = problem.rows.visit(run, layout, keep=keep)
    return Sums(*sums), waiting


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
    inflation = 1.0 + share * x if np.any(share) else 1.0
    phi, slope = bound.penalty(x)
    a = block.weight * precision / inflation
    return Forward(seen.V, seen.tape, precision, linear, x, inflation, a, share, phi, slope)


def posterior_sums(forward, block):
    """The `Sums` of one block, those that a posterior wants to know only."""
    V, ay = forward.V, forward.weighted_targets(block.weight)
    return Sums(weighted_gram(V, forward.a), V.T @ ay, sum_of(forward.a, block))


def block_sums(forward, block):
    """The `Sums` of one block."""
    weight, n = block.weight, sum_of(block.weight, block)
    logs = sum_of(weight * np.log(forward.inflation / forward.precision), block)
    return posterior_sums(forward, block)._replace(
        yay=np.vdot(block.y, forward.weighted_targets(weight)),
        log_noise=logs + n * LOG_2PI,
        phi=sum_of(weight * forward.phi, block),
        n=n,
    )


def sum_of(values, block):
    """Sum over the rows of a block of numbers (n,), or of one number for each."""
    return np.broadcast_to(values, len(block.X)).sum()

"""First pass over the rows: blocks become sums, and blocks add.

Per block: ``V = L⁻¹ Kuf`` (one triangular product, n m²), ``V diag(a) Vᵀ`` (one rank-k update,
n m²), and a second rank-k update where the penalty's slope differs between rows.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.problem import Forward, Projection
from skgp_sparse._linalg import row_dots, times_lower_transposed, weighted_gram
from skgp_sparse._parallel import ordered_map

_LOG_2PI = np.log(2.0 * np.pi)


class Statistics(NamedTuple):
    """Sums over rows."""

    VaV: np.ndarray  # V diag(a) Vᵀ
    Vay: np.ndarray  # V diag(a) y
    VsV: np.ndarray | float  # V diag(w φ'/σ²) Vᵀ, where φ' differs between rows
    yay: float  # Σ a y²
    log_noise: float  # Σ w (log 2π + log λ)
    phi: float  # Σ w φ
    n: float  # Σ w
    a: float  # Σ a

    def add(self, other):
        """Sum of two, made in place of this one."""
        for mine, its in ((self.VaV, other.VaV), (self.Vay, other.Vay)):
            mine += its
        return Statistics(*self[:2], *(mine + its for mine, its in zip(self[2:], other[2:])))


def first_pass(problem, prior, blocks, kept, gradient, projections=None):
    """Sum the statistics of all blocks.

    Parameters
    ----------
    projections : list of Projection or None
        Of the blocks, None where they are not known; taken out of the list as they are used.

    Returns
    -------
    Statistics
    list of Forward or None
        The blocks that `kept` says to hold for the second pass.
    """

    def run(index):
        block = problem.rows.block(blocks[index])
        known = None
        if projections is not None:
            known, projections[index] = projections[index], None
        forward = forward_block(problem, prior, block, known)
        statistics = _statistics(forward, block, problem.bound, gradient)
        return statistics, forward if kept[index] else None

    total, tape = None, []
    for statistics, forward in ordered_map(run, range(len(blocks)), problem.threads(blocks)):
        total = statistics if total is None else total.add(statistics)
        tape.append(forward)
    return total, tape


def project(problem, prior, X, out=None):
    """The `Projection` of some rows, its V in `out` if given."""
    K, pull_cross = kernels.linearize(problem.kernel, X, prior.Z)
    V = times_lower_transposed(K, prior.T, out)
    signal, noise, pull_diagonal = _diagonal(problem, X)
    residual = np.maximum(signal - row_dots(V, V), 0.0)
    return Projection(V, pull_cross, pull_diagonal, residual, noise)


def without_pullbacks(projection, problem, prior, rows):
    """The same projection, holding V only: what pulls back is made from the rows when called."""

    def pull_cross(K_bar, inputs):
        X = problem.rows.block(rows).X
        return kernels.linearize(problem.kernel, X, prior.Z)[1](K_bar, inputs=inputs)

    def pull_diagonal(g_signal, g_noise):
        return _diagonal(problem, problem.rows.block(rows).X)[2](g_signal, g_noise)

    return projection._replace(pull_cross=pull_cross, pull_diagonal=pull_diagonal)


def _diagonal(problem, X):
    """Signal and noise variance of some rows, and what pulls them back."""
    signal, noise, pull = kernels.diagonal(problem.kernel, X)
    if problem.latent_noise:
        return signal + noise, 0.0, lambda g_signal, _: pull(g_signal, g_signal)
    return signal, noise, pull


def forward_block(problem, prior, block, projection=None):
    """Everything about a block that does not depend on the other rows."""
    seen = projection or project(problem, prior, block.X)
    s2 = seen.noise + block.noise
    x = seen.residual / s2
    share = problem.bound.noise_share
    lam = s2 * (1.0 + share * x) if share else s2
    phi, slope = problem.bound.penalty(x)
    return Forward(*seen[:3], s2, x, lam, block.weight / lam, phi, slope)


def _statistics(forward, block, bound, gradient):
    V, a, weight = forward.V, forward.a, block.weight
    ay = block.y * np.reshape(a, (-1, 1))
    n = _sum(weight, block)
    slopes_differ = gradient and not bound.noise_share and np.ndim(forward.slope)
    return Statistics(
        VaV=weighted_gram(V, a),
        Vay=V.T @ ay,
        VsV=weighted_gram(V, weight * forward.slope / forward.s2) if slopes_differ else 0.0,
        yay=np.vdot(block.y, ay),
        log_noise=_sum(weight * np.log(forward.lam), block) + n * _LOG_2PI,
        phi=_sum(weight * forward.phi, block),
        n=n,
        a=_sum(a, block),
    )


def _sum(values, block):
    return np.broadcast_to(values, len(block.X)).sum()

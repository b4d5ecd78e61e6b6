"""Second pass over the rows: the gradient, pulled back through the kernel block by block.

Where ``t = P τ a`` with one τ for all rows, the bracket of ``∂F/∂Kuf`` is one m×m matrix times V
(2 n m²). Elsewhere ``B⁻¹ V`` is formed first, which also yields ``h``, and the triangle applied
after (3 n m²); with a noise share one more rank-k update gives ``V diag(t) Vᵀ``.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse._buffers import empty
from skgp_sparse._engine.forward import forward_block
from skgp_sparse._linalg import (
    congruence,
    inverse_from_triangle,
    row_dots,
    square_times_lower,
    times_lower,
    weighted_gram,
)
from skgp_sparse._parallel import ordered_map


class Cotangents(NamedTuple):
    """The m×m part of the gradient, the same for every block."""

    n_targets: int
    noise_share: float
    reduce_slope: float
    v: np.ndarray  # LB⁻ᵀ c: the mean at the rows is Vᵀ v
    u: np.ndarray  # L⁻ᵀ v
    T: np.ndarray  # L⁻¹
    Binv: np.ndarray
    shared: np.ndarray | None  # P (B⁻¹ + 2 τ I) L⁻¹, where one τ serves all rows
    mean_h: float  # Σ a h / Σ a: all of h that uniform noise needs to know


def cotangents(problem, prior, solution, tau):
    """Matrices that the backward pass over every block multiplies with."""
    n_jobs = problem.options.n_jobs
    v = solution.TB.T @ solution.c
    Binv = inverse_from_triangle(solution.TB, n_jobs)
    n_targets = v.shape[1]
    shared = None
    if tau is not None:
        bracket = n_targets * Binv
        bracket.flat[:: len(bracket) + 1] += 2.0 * tau * n_targets
        shared = square_times_lower(bracket, prior.T, n_jobs)
    return Cotangents(
        n_targets=n_targets,
        noise_share=problem.bound.noise_share,
        reduce_slope=solution.reduce_slope,
        v=v,
        u=prior.T.T @ v,
        T=prior.T,
        Binv=Binv,
        shared=shared,
        mean_h=(len(Binv) - np.trace(Binv)) / solution.statistics.a,
    )


def second_pass(problem, prior, blocks, tape, cot, inputs):
    """Sum over blocks of the gradients wrt theta and Z (not through Kuu) and of ``V diag(t) Vᵀ``.

    The last one is 0 unless there is a noise share: without it the first pass knows ``t``.
    """

    def run(index):
        block = problem.rows.block(blocks[index])
        forward = tape[index] or forward_block(problem, prior, block)
        tape[index] = None  # frees what of the block is its own as soon as it is used
        return _backward_block(forward, block, cot, inputs)

    total = None
    for parts in ordered_map(run, range(len(blocks)), problem.threads(blocks)):
        total = parts if total is None else tuple(mine + its for mine, its in zip(total, parts))
    return total


def cotangent_of_Kuu(cot, VtV, n_jobs):
    """``-½ u uᵀ + ½ L⁻ᵀ [P (I - B⁻¹) + 2 V diag(t) Vᵀ] L⁻¹``."""
    S = cot.Binv * (-0.5 * cot.n_targets)
    S += VtV
    S.flat[:: len(S) + 1] += 0.5 * cot.n_targets
    K_bar = congruence(S, cot.T, n_jobs)
    K_bar -= (0.5 * cot.u) @ cot.u.T
    return K_bar


def _backward_block(forward, block, cot, inputs):
    V, a, n_targets = forward.V, forward.a, cot.n_targets
    e = block.y - V @ cot.v
    if cot.shared is None:
        BV = np.matmul(V, cot.Binv, out=empty(V.shape))
        h = row_dots(BV, V)
    else:
        BV, h = None, cot.mean_h
    g = 0.5 * a * ((row_dots(e, e) + n_targets * h) / forward.lam - n_targets)
    penalty_bar = n_targets * cot.reduce_slope * block.weight * forward.slope / forward.s2
    t = cot.noise_share * g - penalty_bar
    K_bar = _cotangent_of_Kuf(V, e, BV, t, a, cot)
    theta_bar, Z_bar = forward.pull_cross(K_bar, inputs=inputs)
    n = len(V)
    noise_bar = np.broadcast_to(g + penalty_bar * forward.x, n)
    theta_bar += forward.pull_diagonal(np.broadcast_to(t, n), noise_bar)[0]
    VtV = weighted_gram(V, t) if cot.noise_share else 0.0
    return theta_bar, Z_bar if inputs else 0.0, VtV


def _cotangent_of_Kuf(V, e, BV, t, a, cot):
    a = np.reshape(a, (-1, 1))
    if BV is None:
        K_bar = np.matmul(V, cot.shared, out=empty(V.shape))
        K_bar -= np.matmul(e, cot.u.T, out=empty(V.shape))
        K_bar *= -a
        return K_bar
    BV *= -cot.n_targets * a
    other = np.multiply(V, 2.0 * np.reshape(t, (-1, 1)), out=empty(V.shape))
    BV -= other
    BV += np.matmul(a * e, cot.v.T, out=other)
    return times_lower(BV, cot.T, BV)

r"""Value, gradient and posterior of the collapsed Gaussian objectives.

With ``V = L⁻¹ Kuf`` (held by rows: a block stores ``Vᵀ``), ``r = kff - diag VᵀV``, ``λ`` and ``φ``
as the bound says, ``a = w/λ`` for rows of weight w:

    B = I + V diag(a) Vᵀ = LB LBᵀ,        c = LB⁻¹ V (a y)
    log N = -½ [ Σ w (log 2π + log λ) + 2 Σ log diag LB + Σ a y² - cᵀc ]
    F = log N - reduce(Σ w φ)

and, with ``v = LB⁻ᵀ c``, ``u = L⁻ᵀ v``, ``e = y - Kfu u``, ``h_i = V_iᵀ B⁻¹ V_i``, P targets:

    g = ∂log N/∂λ = ½ a ( (Σ_p e² + P h)/λ - P )
    t = ∂F/∂r     = share g - P w φ' reduce' / σ²
    ∂F/∂σ²        = g + P w φ' reduce' x / σ²
    ∂F/∂Kuf       = u (a e)ᵀ - L⁻ᵀ [ P B⁻¹ V diag(a) + 2 V diag(t) ]
    ∂F/∂Kuu       = -½ u uᵀ + ½ L⁻ᵀ [ P (I - B⁻¹) + 2 V diag(t) Vᵀ ] L⁻¹

Two passes over the rows. The first keeps its blocks for the second as far as the memory budget
goes; the others are computed again.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.backward import cotangent_of_Kuu, cotangents, second_pass
from skgp_sparse._engine.forward import Statistics, first_pass, forward_block
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._engine.problem import Evaluation
from skgp_sparse._linalg import cholesky, inverse_lower, log_det_from_cholesky


class _Solution(NamedTuple):
    value: float
    TB: np.ndarray  # LB⁻¹
    c: np.ndarray
    reduce_slope: float
    statistics: Statistics


def value(problem):
    """Objective at ``(problem.kernel.theta, problem.Z)``."""
    return _value_pass(problem)[1].value


def value_and_gradient(problem, inputs=True, prior=None, projections=None):
    """Objective and gradient at ``(problem.kernel.theta, problem.Z)``.

    Parameters
    ----------
    problem : Problem
    inputs : bool
        Whether the gradient with respect to Z is wanted.
    prior, projections : Prior, list of Projection or None
        Of the blocks of the problem, where they are known already: those stay in memory until the
        second pass, and no others. The list is used up.

    Returns
    -------
    Evaluation
    """
    prior = prior or problem.prior()
    blocks = problem.blocks()
    known = projections is not None
    kept = [one is not None for one in projections] if known else problem.keepers(blocks)
    statistics, tape = first_pass(problem, prior, blocks, kept, True, projections)
    solution = _solve(statistics, problem)
    tau, by_row = _route(problem, prior, solution.reduce_slope)
    cot = cotangents(problem, prior, solution, None if by_row else tau)
    theta_bar, Z_bar, VtV = second_pass(problem, prior, blocks, tape, cot, inputs)
    if tau is not None:
        VtV = cot.n_targets * tau * statistics.VaV
    elif not problem.bound.noise_share:
        VtV = -cot.n_targets * solution.reduce_slope * statistics.VsV
    K_bar = cotangent_of_Kuu(cot, VtV, problem.options.n_jobs)
    theta_uu, Z_uu = prior.pull(K_bar, inputs=inputs)
    return Evaluation(
        solution.value, theta_bar + theta_uu, Z_bar + Z_uu if inputs else None, prior.jitter
    )


def posterior(problem):
    """The `Posterior` at ``(problem.kernel.theta, problem.Z)`` and the jitter that it took."""
    prior, solution = _value_pass(problem)
    weights = prior.T.T @ (solution.TB.T @ solution.c)
    return Posterior(problem.kernel, problem.Z, weights, prior.T, solution.TB), prior.jitter


def mean_noise_and_residual(problem, rows):
    """Mean noise variance σ² and mean residual variance r over the rows of a slice."""
    prior = problem.prior()
    forward = forward_block(problem, prior, problem.rows.block(rows))
    return np.mean(forward.s2), np.mean(forward.x * forward.s2)


def _value_pass(problem):
    prior = problem.prior()
    blocks = problem.blocks()
    statistics, _ = first_pass(problem, prior, blocks, [False] * len(blocks), False)
    return prior, _solve(statistics, problem)


def _solve(statistics, problem):
    B = statistics.VaV.copy()
    B.flat[:: len(B) + 1] += 1.0
    LB = cholesky(B, problem.options.n_jobs)
    TB = inverse_lower(LB, problem.options.n_jobs)
    c = TB @ statistics.Vay
    n_targets = c.shape[1]
    log_n = -0.5 * n_targets * (statistics.log_noise + log_det_from_cholesky(LB))
    log_n -= 0.5 * (statistics.yay - np.vdot(c, c))
    penalty, reduce_slope = problem.bound.reduce(statistics.phi, statistics.n)
    return _Solution(log_n - n_targets * penalty, TB, c, reduce_slope, statistics)


def _route(problem, prior, reduce_slope):
    """τ of ``t = P τ a`` where one serves all rows (else None); whether rows need their own h."""
    probe = forward_block(problem, prior, problem.rows.block(slice(0, 1)))
    if problem.bound.noise_share or np.ndim(probe.slope):
        return None, True
    learned = kernels.has_noise(problem.kernel) and not problem.latent_noise
    by_row = np.ndim(probe.s2) > 0 and learned
    return -probe.slope * reduce_slope, by_row

r"""Value, gradient and posterior of the collapsed Gaussian objectives.

With features ``V`` of the rows (columns here, rows in a block of the code), for inducing points
``V = L⁻¹ Kuf`` and ``r = kff - diag VᵀV``, with ``λ`` and ``φ`` as the bound says, and ``a = w/λ``
for rows of weight w:

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
from skgp_sparse._engine.backward import cotangents, pull_whitening, second_visit
from skgp_sparse._engine.forward import Statistics, first_visit, forward_block
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._engine.problem import Evaluation
from skgp_sparse._ground.linalg import cholesky, inverse_lower, log_det_from_cholesky


class _Solution(NamedTuple):
    value: float
    TB: np.ndarray  # LB⁻¹
    c: np.ndarray
    reduce_slope: float
    statistics: Statistics


def value(problem):
    """Objective at the kernel and the basis of the problem."""
    return _solve_forward(problem)[1].value


def value_and_gradient(problem, inputs=True):
    """Objective and gradient at the kernel and the basis of the problem.

    Parameters
    ----------
    problem : Problem
    inputs : bool
        Whether the gradient with respect to the parameters of the basis is wanted.

    Returns
    -------
    Evaluation
    """
    features, layout = problem.features(), problem.layout()
    value, gradient = _evaluate(problem, features, layout, inputs)
    return Evaluation(value, gradient, features.jitter)


def gradient_at_sites(problem, features, layout, projections, sites, inputs):
    """Gradients by the name of the block, where Gaussian sites stand for noise and targets.

    Parameters
    ----------
    problem : Problem
    features : Features
    layout : Layout
    projections : list of Projection or None
        Those that are known stay in memory until the second visit, and no others. The list is used
        up.
    sites : PerRow
        Natural parameters (λ1, λ2) of every row.
    inputs : bool
    """
    return _evaluate(problem, features, layout, inputs, projections, sites)[1]


def posterior(problem):
    """The `Posterior` at the kernel and the basis of the problem, and the jitter that it took."""
    features, solution = _solve_forward(problem)
    weights = features.weights(solution.TB.T @ solution.c)
    found = Posterior(problem.kernel, features.for_prediction(), weights, solution.TB)
    return found, features.jitter


def mean_noise_and_residual(problem, rows):
    """Mean noise variance σ² and mean residual variance r over the rows of a slice."""
    forward = forward_block(problem, problem.features(), problem.rows.block(rows))
    return np.mean(1.0 / forward.precision), np.mean(forward.x / forward.precision)


def _solve_forward(problem):
    features = problem.features()
    statistics, _ = first_visit(problem, features, problem.layout(), gradient=False)
    return features, _solve(statistics, problem)


def _evaluate(problem, features, layout, inputs, projections=None, sites=None):
    statistics, waiting = first_visit(problem, features, layout, True, projections, sites)
    solution = _solve(statistics, problem)
    tau, by_row = _route(problem, features, solution.reduce_slope, sites)
    cot = cotangents(problem, features, solution, None if by_row else tau)
    sums = second_visit(problem, features, layout, waiting, cot, inputs, sites)
    theta_bar, own_bar, VtV = sums
    if features.complete:
        VtV = 0.0
    elif tau is not None:
        VtV = cot.n_targets * tau * statistics.VaV
    elif not problem.bound.noise_share:
        VtV = -cot.n_targets * solution.reduce_slope * statistics.VsV
    of_whitening = pull_whitening(cot, VtV, inputs)
    gradient = {"kernel": theta_bar + of_whitening[0]}
    if inputs:
        gradient["basis"] = own_bar + of_whitening[1]
    return solution.value, gradient


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


def _route(problem, features, reduce_slope, sites):
    """τ of ``t = P τ a`` where one serves all rows (else None); whether rows need their own h."""
    site = None if sites is None else sites[0][:, :1]
    probe = forward_block(problem, features, problem.rows.block(slice(0, 1)), site=site)
    if problem.bound.noise_share or np.ndim(probe.slope):
        return None, True
    learned = kernels.has_noise(problem.kernel) and not problem.latent_noise
    by_row = np.ndim(probe.precision) > 0 and learned
    return -probe.slope * reduce_slope, by_row

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

from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.backward import cotangents, pull_whitening, second_visit
from skgp_sparse._engine.forward import first_visit, forward_block
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._engine.problem import Evaluation
from skgp_sparse._ground.linalg import cholesky, inverse_lower, log_det_from_cholesky


class FeatureWeights(NamedTuple):
    """The posterior of the weights of the features, and what a gradient wants to know of it."""

    value: float | None
    TB: np.ndarray  # LB⁻¹
    c: np.ndarray
    VaV: np.ndarray
    total_a: float  # Σ a
    reduce_slope: float = 1.0


def value(problem):
    """Objective at the kernel and the basis of the problem."""
    return solve_forward(problem)[1].value


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
    statistics, waiting = first_visit(problem, features, layout, gradient=True)
    solution = solve(statistics, problem)
    probe = _see(problem, features, problem.rows.block(slice(0, 1)), None)[0]
    tau = common_slope(problem, probe, solution.reduce_slope)
    learned = kernels.has_noise(problem.kernel) and not problem.latent_noise
    by_row = np.ndim(probe.precision) > 0 and learned
    cot = cotangents(problem, features, solution, None if by_row else tau)
    see = partial(_see, problem, features)
    sums = second_visit(problem, features, layout, see, [cot], inputs, tau is None, waiting)
    VtV = None if tau is None else cot.n_targets * tau * solution.VaV
    gradient = _add_whitening(features, [cot], sums, VtV, inputs)
    return Evaluation(solution.value, gradient, features.jitter)


def gradient_at_sites(problem, features, layout, projections, sites, cores, bounds, inputs):
    """Gradients by the name of the block, where Gaussian sites stand for noise and targets.

    Processes with the same kernel and features add up.

    Parameters
    ----------
    problem : Problem
        Its bound is not used.
    features : Features
    layout : Layout
    projections : list of Projection or None
        Those that are known stay in memory until this visit. The list is used up.
    sites : PerRow
        Natural parameters (λ1, λ2) of every row in every process, (2, k, n).
    cores : sequence of Core
        Posteriors given the sites, one for each process.
    bounds : list of Bound
        Of each process; their penalties just add up.
    inputs : bool
    """
    problems = [problem._replace(bound=bound) for bound in bounds]

    def see(block, projection, site):
        seen = projection or problem.project(features, block.X)
        return [forward_block(p, seen, block, own) for p, own in zip(problems, _by_process(site))]

    solutions = [FeatureWeights(None, core.TB, core.c, core.VaV, 1.0) for core in cores]
    block = problem.rows.block(slice(0, 1))
    probes = see(block, None, sites[0][..., :1])
    taus = [common_slope(one, probe, 1.0) for one, probe in zip(problems, probes)]
    cots = [cotangents(problem, features, *pair) for pair in zip(solutions, taus)]
    one_by_one = None in taus
    kept = projections, list(sites)
    sums = second_visit(problem, features, layout, see, cots, inputs, one_by_one, *kept)
    VtV = None if one_by_one else sum(tau * core.VaV for tau, core in zip(taus, cores))
    return _add_whitening(features, cots, sums, VtV, inputs)


def posterior(problem):
    """The `Posterior` at the kernel and the basis of the problem, and the jitter that it took."""
    return conclude(problem)[1:]


def conclude(problem):
    """Objective, `Posterior` and the jitter that it took, from one visit to the rows."""
    features, solution = solve_forward(problem)
    return solution.value, posterior_of(features, solution, problem), features.jitter


def solve(statistics, problem):
    """The `FeatureWeights` that belong to sums over rows, at the bound of the problem."""
    B = statistics.VaV.copy()
    B.flat[:: len(B) + 1] += 1.0
    LB = cholesky(B, problem.options.n_jobs)
    TB = inverse_lower(LB, problem.options.n_jobs)
    c = TB @ statistics.Vay
    n_targets = c.shape[1]
    log_n = -0.5 * n_targets * (statistics.log_noise + log_det_from_cholesky(LB))
    log_n -= 0.5 * (statistics.yay - np.vdot(c, c))
    penalty, reduce_slope = problem.bound.reduce(statistics.phi, statistics.n)
    value = log_n - n_targets * penalty
    return FeatureWeights(value, TB, c, statistics.VaV, statistics.a, reduce_slope)


def posterior_of(features, solution, problem):
    """The `Posterior` of a solution."""
    weights = features.weights(solution.TB.T @ solution.c)
    return Posterior(problem.kernel, features.for_prediction(), weights, solution.TB)


def mean_noise_and_residual(problem, rows):
    """Mean noise variance σ² and mean residual variance r over the rows of a slice."""
    forward = _see(problem, problem.features(), problem.rows.block(rows), None)[0]
    return np.mean(1.0 / forward.precision), np.mean(forward.x / forward.precision)


def solve_forward(problem):
    """The features of a problem, and the `FeatureWeights` given its rows."""
    features = problem.features()
    statistics, _ = first_visit(problem, features, problem.layout(), gradient=False)
    return features, solve(statistics, problem)


def _by_process(site):
    """Natural parameters (2, n) of each process, from those of all (2, k, n)."""
    return site.swapaxes(0, 1)


def _see(problem, features, block, forward):
    """What the second visit wants to know of a block, as a list of one."""
    return [forward or forward_block(problem, problem.project(features, block.X), block)]


def common_slope(problem, probe, reduce_slope):
    """τ of ``t = P τ a`` where one serves all rows, else None."""
    if problem.bound.noise_share or np.ndim(probe.slope):
        return None
    return -probe.slope * reduce_slope


def _add_whitening(features, cots, sums, VtV, inputs):
    """Gradients by name: those through the raw features, and those through their whitening.

    `VtV` is None if the visit has summed it.
    """
    theta_bar, own_bar, summed = sums
    VtV = summed if VtV is None else VtV
    of_whitening = pull_whitening(cots, 0.0 if features.complete else VtV, inputs)
    gradient = {"kernel": theta_bar + of_whitening[0]}
    if inputs:
        gradient["basis"] = own_bar + of_whitening[1]
    return gradient

"""Rows whose inputs have a normal distribution each: bound, gradient and predictions.

With ``x_i ~ N(μ_i, diag s_i)``, the expectations ``P_i`` and covariances ``C_i`` of
`skgp_sparse.kernels.expectations`, weights ``w_i``, and ``o_id = 1`` where column d of row i was
observed, otherwise 0 (Titsias and Lawrence 2010; Titsias 2025, appendix B.5):

    V_i = T P_i,    G_i = V_i V_iᵀ + T C_i Tᵀ,    r_i = E k(x_i, x_i) - tr G_i
    B_g = I + Σ_i a_ig G_i = LB LBᵀ,    c_d = LB⁻¹ Σ_i a_id V_i y_id
    a_id = w_i o_id / σ_i²,    n_i = w_i Σ_d o_id

    F = -½ [ Σ_i n_i log 2πσ_i² + Σ_d log |B_d| + Σ a_id y_id² - Σ ‖c_d‖² ]
        - reduce(Σ_i n_i φ(r_i/σ_i²))

Columns of a group g were observed in the same rows, and share ``B_g``.

Where ``s = 0`` and every entry was observed, this is `skgp_sparse.engine.collapsed`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Batch, Layout
from skgp_sparse.engine.basis import Evaluation, InducingFeatures, Problem
from skgp_sparse.engine.collapsed import Sums, core_of
from skgp_sparse.engine.feature_posterior import InducingPosterior, Normals
from skgp_sparse.ground.linalg import LOG_2PI, TINY, row_dots, weighted_gram
from skgp_sparse.ground.validation import Array, Bools, Ints, Scalars

_FOOTPRINT = 2  # arrays of the largest kind that `kernels.expectations` holds


class LatentRows(NamedTuple):
    """Distributions of the inputs of rows, and which targets are missing, by groups of columns."""

    inputs: Normals
    patterns: Array  # (n, k) 1 where the columns of a group were observed, otherwise 0
    of_column: Ints  # (p,) the group of a column

    def of(self, rows: slice | Ints) -> "LatentRows":
        """`LatentRows` of some rows."""
        return self._replace(inputs=self.inputs.of(rows), patterns=self.patterns[rows])

    def weights(self, block: Batch) -> Array:
        """Weights (n, k) of the rows in the groups."""
        return self.patterns * np.reshape(block.weight, (-1, 1))


def patterns_of(mask: Bools) -> tuple[Array, Ints]:
    """Patterns (n, k) of the columns of a mask (n, p), each once, and whose they are (p,)."""
    columns = [column.tobytes() for column in mask.T]
    _, first, of_column = np.unique(columns, return_index=True, return_inverse=True)
    return mask[:, first].astype(np.float64), of_column


class LatentBlock(NamedTuple):
    """A block of rows at a kernel and at inducing points."""

    expected: Any  # of `kernels.expectations`
    V: Array  # (n, m)
    residual: Array  # (n,)
    precision: Array  # (n,) 1/σ²
    phi: Array
    slope: Scalars  # φ'


# Given the posterior of the inducing points, ``v_d = LB⁻ᵀ c_d``, ``u_d = Tᵀ v_d`` and
# ``e = y - V v``, a row adds
#
#     R_i = -½ n_i log 2πσ_i² - ½ q_i / σ_i² - n_i φ,
#     q_i = w_i Σ_d o_id [ e_id² + u_dᵀ C_i u_d + V_iᵀ B_d⁻¹ V_i + tr(A_d C_i) ],
#     A = Tᵀ B⁻¹ T
#
# and its gradient is that of F, as F is at a maximum over the posterior:
#
#     t = ∂F/∂r     = -n φ' reduce' / σ²
#     ∂F/∂σ²        = ½ q/σ⁴ - ½ n/σ² - t r/σ²
#     ∂F/∂P         = [ Σ_d a_d (e_d v_d - B_d⁻¹ V) - 2 t V ]ᵀ T
#     ∂F/∂C         = -½ Σ_d a_d (A_d + u_d u_dᵀ) - t Tᵀ T
#     ∂F/∂Kuu       = Tᵀ [ ½ Σ_d (I - B_d⁻¹) + Σ_i t_i G_i ] T - ½ Σ_d u_d u_dᵀ
def value_and_gradient(problem: Problem, latent: LatentRows, move: bool = True) -> Evaluation:
    """Bound and gradient wrt kernel, mean and variance of rows, and the basis if it may `move`."""
    features, penalty = problem.features(), problem.bound.penalty
    value, posterior, slope, layout, waiting = _solve(problem, latent, features, gradient=True)

    def run(read: Callable[[], Batch], some: LatentRows, at: LatentBlock | None) -> tuple:
        block = read()
        at = at or _latent_block(penalty, features, posterior.Kinv, block, some.inputs)
        q, t, (theta_bar, Z_bar, *of_inputs) = _pull(posterior, slope, block, some, at)
        n = some.weights(block)[:, some.of_column].sum(axis=1)
        noise_bar = at.precision * (0.5 * at.precision * q - 0.5 * n - t * at.residual)
        _, _, pull_noise = kernels.diagonal(features.kernel, some.inputs.mean)
        theta_bar += pull_noise(np.zeros(len(t)), noise_bar)[0]
        G = weighted_gram(at.V, t) + features.T @ at.expected.sums(t[:, None])[0] @ features.T.T
        return (theta_bar, Z_bar, G), tuple(of_inputs)

    parts = [latent.of(rows) for rows in layout.blocks]
    (theta_bar, Z_bar, S), left = problem.rows.visit(run, layout, parts, waiting, spend=True)
    S -= 0.5 * np.tensordot(np.bincount(latent.of_column), posterior.Binv, 1)
    S.flat[:: len(S) + 1] += 0.5 * len(latent.of_column)
    of_theta, of_Z = features.pull_whitening(S, posterior.u, move)
    gradient = {"kernel": theta_bar + of_theta}
    gradient["mean"], gradient["variance"] = (np.concatenate(parts) for parts in zip(*left))
    if move:
        gradient["basis"] = Z_bar + of_Z
    return Evaluation(value, gradient, features.jitter)


def conclude(problem: Problem, latent: LatentRows) -> tuple[float, InducingPosterior, float]:
    """The bound, the `InducingPosterior`, and the jitter that it took."""
    features = problem.features()
    value, posterior, *_ = _solve(problem, latent, features, gradient=False)
    return value, posterior._replace(features=features.for_prediction()), features.jitter


def mean_noise_and_residual(problem: Problem, latent: LatentRows, rows: slice) -> tuple:
    """Mean noise variance σ² and mean residual variance r over the rows of a slice."""
    features, block, some = problem.features(), problem.rows.block(rows), latent.of(rows).inputs
    at = _latent_block(problem.bound.penalty, features, features.inverse(), block, some)
    return np.mean(1.0 / at.precision), np.mean(at.residual)


def log_likelihoods(
    bound: Any, posterior: InducingPosterior, block: Batch, latent: LatentRows
) -> tuple[Array, Array, Array]:
    """Bounds (n,) of the log likelihood of new rows, the posterior held, and gradients (n, d)."""
    at = _latent_block(bound.penalty, posterior.features, posterior.Kinv, block, latent.inputs)
    n = latent.weights(block)[:, latent.of_column].sum(axis=1)
    penalty, slope = bound.reduce(n * at.phi, np.maximum(n, TINY))
    q, _, (*_, mean_bar, variance_bar) = _pull(posterior, slope, block, latent, at)
    value = -0.5 * n * (LOG_2PI - np.log(at.precision)) - penalty - 0.5 * at.precision * q
    return value, mean_bar, variance_bar


def _solve(
    problem: Problem, latent: LatentRows, features: InducingFeatures, gradient: bool
) -> tuple[float, InducingPosterior, float, Layout, list[LatentBlock | None]]:
    """Bound, posterior, slope of the penalties' function, the layout, and blocks that wait."""
    width = kernels.expectation_width(problem.kernel, *features.Z.shape)
    layout = problem.rows.layout(width, _FOOTPRINT, problem.options)
    bound, Kinv = problem.bound, features.inverse()

    def run(read: Callable[[], Batch], some: LatentRows) -> tuple:
        block = read()
        at = _latent_block(bound.penalty, features, Kinv, block, some.inputs)
        weights = some.weights(block)
        a = weights * at.precision[:, None]
        ay = a[:, some.of_column] * block.y
        sums = Sums(
            np.array([weighted_gram(at.V, one) for one in a.T]),
            at.V.T @ ay,
            a.sum(axis=0),
            float(np.vdot(ay, block.y)),
            (LOG_2PI - np.log(at.precision)) @ weights,
            at.phi @ weights,
            weights.sum(axis=0),
        )
        return (*sums, at.expected.sums(a)), at

    keep = layout.whole if gradient else [False] * len(layout.blocks)
    parts = [latent.of(rows) for rows in layout.blocks]
    (*sums, CaC), waiting = problem.rows.visit(run, layout, parts, keep=keep)
    sums = Sums(sums[0] + features.T @ CaC @ features.T.T, *sums[1:])
    v, TB, value = np.empty(sums.Vay.shape), [], -0.5 * np.sum(sums.yay)
    sizes = np.bincount(latent.of_column)
    for g, size in enumerate(sizes):
        mine = latent.of_column == g
        core = core_of(Sums(sums.VaV[g], sums.Vay[:, mine]), problem.options.n_jobs)
        value += size * -0.5 * (sums.log_noise[g] + core.log_det) + 0.5 * np.sum(core.c**2)
        v[:, mine] = core.v
        TB.append(core.TB)
    penalty, slope = bound.reduce(sizes @ sums.phi, sizes @ sums.n)
    u = features.weights(v)
    posterior = InducingPosterior.of(features, latent.of_column, v, u, np.array(TB))
    return value - penalty, posterior, slope, layout, waiting


def _latent_block(
    penalty: Callable, features: InducingFeatures, Kinv: Array, block: Batch, inputs: Normals
) -> LatentBlock:
    """The `LatentBlock` of a block."""
    expected = kernels.expectations(features.kernel, inputs.mean, inputs.variance, features.Z)
    V = features.whiten(expected.cross)
    residual = np.maximum(expected.prior - row_dots(V, V) - expected.inner(Kinv[None])[:, 0], 0.0)
    noise = kernels.diagonal(features.kernel, inputs.mean)[1] + block.noise
    precision = np.broadcast_to(1.0 / noise, len(V))
    return LatentBlock(expected, V, residual, precision, *penalty(residual * precision))


def _pull(
    posterior: InducingPosterior, slope: Scalars, block: Batch, latent: LatentRows, at: LatentBlock
) -> tuple[Array, Array, tuple[Array, Array, Array, Array]]:
    """``q`` and ``t`` (n,) as above, and gradients wrt theta, Z and the inputs."""
    V, precision, weights = at.V, at.precision[:, None], latent.weights(block)
    of_entries, error = weights[:, latent.of_column], block.y - V @ posterior.v
    counts = of_entries @ np.eye(len(posterior.A))[posterior.of_column]  # of groups with one B
    BV = sum(one[:, None] * (V @ Binv) for one, Binv in zip(counts.T, posterior.Binv))
    groups = (posterior.u[:, latent.of_column == g] for g in range(weights.shape[1]))
    matrices = np.array([*posterior.A, *(u @ u.T for u in groups), posterior.Kinv])
    coef = np.hstack([counts, weights])
    q = row_dots(of_entries * error, error) + row_dots(BV, V)
    q += row_dots(coef, at.expected.inner(matrices[:-1]))
    t = -counts.sum(axis=1) * slope * at.slope * at.precision
    V_bar = (precision * of_entries * error) @ posterior.v.T
    V_bar -= 2.0 * t[:, None] * V + precision * BV
    cross_bar = posterior.features.through_whitening(V_bar, V_bar)
    coef = np.hstack([-0.5 * precision * coef, -t[:, None]])
    return q, t, at.expected.pull(t, cross_bar, coef, matrices)

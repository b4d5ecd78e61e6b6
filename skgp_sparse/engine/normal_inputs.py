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

from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine.basis import Basis, Evaluation, Options
from skgp_sparse.engine.collapsed import Sums, core_of
from skgp_sparse.engine.feature_posterior import InducingPosterior, Normals
from skgp_sparse.ground.linalg import LOG_2PI, TINY, row_dots, weighted_gram

_FOOTPRINT = 2  # arrays of the largest kind that `kernels.expectations` holds


class MissingTargets(NamedTuple):
    """Which targets are missing: groups of columns, each of which was observed in some rows."""

    patterns: np.ndarray | None  # (n, k) 1 where observed, otherwise 0; None: there is none missing
    of_column: np.ndarray  # (p,) the group of a column

    @classmethod
    def everything(cls, p):
        """All entries of p columns."""
        return cls(None, np.zeros(p, dtype=int))

    @classmethod
    def of_mask(cls, mask):
        """The entries where a mask (n, p) is True."""
        if mask.all():
            return cls.everything(mask.shape[1])
        patterns, of_column = np.unique(mask, axis=1, return_inverse=True)
        return cls(patterns.astype(np.float64), of_column.ravel())

    def of(self, rows):
        """Missing targets of some rows, as `MissingTargets`."""
        return self if self.patterns is None else self._replace(patterns=self.patterns[rows])

    def weights(self, weight, n):
        """Weights (n, k) of the rows in the groups."""
        patterns = np.ones((n, 1)) if self.patterns is None else self.patterns
        return patterns * np.reshape(weight, (-1, 1))


class LatentProblem(NamedTuple):
    """A model and rows whose inputs have distributions; those of the table are not read."""

    kernel: object  # white noise included
    basis: Basis
    rows: Dataset
    bound: object
    inputs: Normals
    missing: MissingTargets
    options: Options = Options()

    def layout(self):
        """How the rows are cut, and what may wait between two visits."""
        width = kernels.expectation_width(self.kernel, *self.basis.parameters.shape)
        return self.rows.layout(width, _FOOTPRINT, self.options)


class LatentBlock(NamedTuple):
    """A block of rows at a kernel and at inducing points."""

    expected: object  # of `kernels.expectations`
    V: np.ndarray  # (n, m)
    residual: np.ndarray  # (n,)
    precision: np.ndarray  # (n,) 1/σ²
    phi: np.ndarray
    slope: float | np.ndarray  # φ'


class Errors(NamedTuple):
    """Weighted errors and expected squared errors of rows, given the inducing points."""

    weights: np.ndarray  # (n, k) in groups of columns that were observed together
    counts: np.ndarray  # (n, g) weights of observed entries in groups that share B
    we: np.ndarray  # (n, p) w o e
    BV: np.ndarray  # (n, m) ``V B⁻¹``, summed over the groups with these counts
    q: np.ndarray  # (n,)

    n = property(lambda self: self.counts.sum(axis=1))


def value_and_gradient(problem, inputs=True):
    """Bound and gradient with respect to kernel, basis, mean and variance of the rows.

    Parameters
    ----------
    problem : LatentProblem
    inputs : bool
        Whether the gradient with respect to the inducing points is wanted.

    Returns
    -------
    Evaluation
        Its gradient has the blocks "kernel", "mean", "variance" and, if `inputs`, "basis".
    """
    features = problem.basis.at(problem.kernel, problem.options)
    value, posterior, slope, layout, waiting = _solve(problem, features, gradient=True)
    outer = outer_products(posterior, problem.missing)
    run = partial(_backward_pass, problem, posterior, outer, slope)
    (theta_bar, Z_bar, VtV), left = problem.rows.visit(
        run, layout, _parts(problem, layout), waiting, spend=True
    )
    sizes = np.bincount(posterior.of_column)
    S = VtV - 0.5 * np.tensordot(sizes, posterior.Binv, 1)
    S.flat[:: len(S) + 1] += 0.5 * len(posterior.of_column)
    of_theta, of_Z = features.pull_whitening(S, posterior.u, inputs)
    gradient = {"kernel": theta_bar + of_theta}
    gradient["mean"], gradient["variance"] = (np.concatenate(parts) for parts in zip(*left))
    if inputs:
        gradient["basis"] = Z_bar + of_Z
    return Evaluation(value, gradient, features.jitter)


def conclude(problem):
    """The bound, the `InducingPosterior`, and the jitter that it took."""
    features = problem.basis.at(problem.kernel, problem.options)
    value, posterior, *_ = _solve(problem, features, gradient=False)
    return value, posterior._replace(features=features.for_prediction()), features.jitter


def mean_noise_and_residual(problem, rows):
    """Mean noise variance σ² and mean residual variance r over the rows of a slice."""
    features = problem.basis.at(problem.kernel, problem.options)
    Kinv, block = features.inverse(), problem.rows.block(rows)
    inputs = problem.inputs.of(rows)
    latent = _latent_block(problem.kernel, problem.bound, features, Kinv, block, inputs)
    return np.mean(1.0 / latent.precision), np.mean(latent.residual)


def log_likelihoods(kernel, bound, posterior, outer, block, inputs, missing):
    """Bounds (n,) of the log likelihood of each row, the posterior held, and their gradient.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    bound : Bound
        Each row is reduced on its own.
    posterior : InducingPosterior
    outer : ndarray of shape (k, m, m)
        `outer_products` of the missing targets.
    block : Batch
        New rows, whose inputs are not read.
    inputs : Normals
    missing : MissingTargets
        Of the new rows.

    Returns
    -------
    ndarray of shape (n,)
    dict
        With the blocks "mean" and "variance" (n, d).
    """
    latent = _latent_block(kernel, bound, posterior.features, posterior.Kinv, block, inputs)
    row = _errors(posterior, outer, latent, block, missing)
    penalty, slope = bound.reduce(row.n * latent.phi, np.maximum(row.n, TINY))
    value = -0.5 * row.n * (LOG_2PI - np.log(latent.precision)) - penalty
    value -= 0.5 * latent.precision * row.q
    bars, _ = _pull(posterior, outer, latent, row, slope)
    return value, {"mean": bars.mean, "variance": bars.variance}


def _parts(problem, layout):
    """Distributions and missing targets of the rows of each block."""
    return [(problem.inputs.of(rows), problem.missing.of(rows)) for rows in layout.blocks]


def _solve(problem, features, gradient):
    """Bound, posterior, slope of the penalties' function, the layout, and blocks that wait."""
    layout, Kinv = problem.layout(), features.inverse()
    run = partial(_forward_pass, problem, features, Kinv)
    keep = layout.whole if gradient else [False] * len(layout.blocks)
    (*sums, CaC), waiting = problem.rows.visit(run, layout, _parts(problem, layout), keep=keep)
    sums = Sums(sums[0] + features.T @ CaC @ features.T.T, *sums[1:])
    of_column = problem.missing.of_column
    columns = [np.flatnonzero(of_column == g) for g in range(of_column.max() + 1)]
    v, TB, value = np.empty(sums.Vay.shape), [], -0.5 * np.sum(sums.yay)
    for g, mine in enumerate(columns):
        of_group = Sums(sums.VaV[g], sums.Vay[:, mine])
        core = core_of(of_group, problem.options.n_jobs)
        value += len(mine) * -0.5 * (sums.log_noise[g] + core.log_det) + 0.5 * np.sum(core.c**2)
        v[:, mine] = core.v
        TB.append(core.TB)
    sizes = np.bincount(of_column)
    penalty, slope = problem.bound.reduce(sizes @ sums.phi, sizes @ sums.n)
    posterior = InducingPosterior.of(features, of_column, v, features.weights(v), np.array(TB))
    return value - penalty, posterior, slope, layout, waiting


def _latent_block(kernel, bound, features, Kinv, block, inputs):
    """The `LatentBlock` of a block."""
    expected = kernels.expectations(kernel, *inputs, features.Z)
    V = features.whiten(expected.cross)
    rest = expected.prior - row_dots(V, V) - expected.inner([Kinv])[:, 0]
    residual = np.maximum(rest, 0.0)
    noise = kernels.diagonal(kernel, inputs.mean)[1] + block.noise
    precision = np.broadcast_to(1.0 / noise, len(V))
    return LatentBlock(expected, V, residual, precision, *bound.penalty(residual * precision))


def _forward_pass(problem, features, Kinv, read, part):
    """Sums over the rows of a block: those of `Sums` for each group, and ``Σ a C``."""
    (inputs, missing), block = part, read()
    latent = _latent_block(problem.kernel, problem.bound, features, Kinv, block, inputs)
    weights = missing.weights(block.weight, len(block.y))
    a = weights * latent.precision[:, None]
    ay = a[:, missing.of_column] * block.y
    sums = Sums(
        np.array([weighted_gram(latent.V, one) for one in a.T]),
        latent.V.T @ ay,
        a.sum(axis=0),
        np.vdot(ay, block.y),
        (LOG_2PI - np.log(latent.precision)) @ weights,
        latent.phi @ weights,
        weights.sum(axis=0),
    )
    return (*sums, latent.expected.sums(a)), latent


def outer_products(posterior, missing):
    """Sums of ``u uᵀ`` (k, m, m) over columns that were observed together."""
    groups = range(missing.of_column.max() + 1)
    parts = (posterior.u[:, missing.of_column == group] for group in groups)
    return np.array([part @ part.T for part in parts])


def _errors(posterior, outer, latent, block, missing):
    """The `Errors` of a block."""
    weights = missing.weights(block.weight, len(block.y))
    shape = len(outer), len(posterior.A)
    together = np.zeros(shape)
    np.add.at(together, (missing.of_column, posterior.of_column), 1.0)
    counts, e = weights @ together, block.y - latent.V @ posterior.v
    we = weights[:, missing.of_column] * e
    BV = sum(one[:, None] * (latent.V @ Binv) for one, Binv in zip(counts.T, posterior.Binv))
    inner = latent.expected.inner(np.concatenate([posterior.A, outer]))
    q = row_dots(we, e) + row_dots(BV, latent.V) + row_dots(counts, inner[:, : len(posterior.A)])
    return Errors(weights, counts, we, BV, q + row_dots(weights, inner[:, len(posterior.A) :]))


def _pull(posterior, outer, latent, row, reduce_slope):
    """Gradients wrt theta, Z and the rows through P and C, and ``t`` (n,)."""
    V, precision = latent.V, latent.precision[:, None]
    t = -row.n * reduce_slope * latent.slope * latent.precision
    V_bar = (precision * row.we) @ posterior.v.T - 2.0 * t[:, None] * V - precision * row.BV
    coef = np.hstack([-0.5 * precision * row.counts, -0.5 * precision * row.weights, -t[:, None]])
    matrices = np.concatenate([posterior.A, outer, posterior.Kinv[None]])
    cross_bar = posterior.features.through_whitening(V_bar, V_bar)
    return latent.expected.pull(t, cross_bar, coef, matrices), t


def _backward_pass(problem, posterior, outer, reduce_slope, read, part, latent):
    """Gradients through the rows of a block, ``Σ t G``, and the gradient wrt the rows.

    Given the posterior of the inducing points, ``v_d = LB⁻ᵀ c_d``, ``u_d = Tᵀ v_d`` and
    ``e = y - V v``, a row adds

        R_i = -½ n_i log 2πσ_i² - ½ q_i / σ_i² - n_i φ,
        q_i = w_i Σ_d o_id [ e_id² + u_dᵀ C_i u_d + V_iᵀ B_d⁻¹ V_i + tr(A_d C_i) ],
        A = Tᵀ B⁻¹ T

    and its gradient is that of F, as F is at a maximum over the posterior:

        t = ∂F/∂r     = -n φ' reduce' / σ²
        ∂F/∂σ²        = ½ q/σ⁴ - ½ n/σ² - t r/σ²
        ∂F/∂P         = [ Σ_d a_d (e_d v_d - B_d⁻¹ V) - 2 t V ]ᵀ T
        ∂F/∂C         = -½ Σ_d a_d (A_d + u_d u_dᵀ) - t Tᵀ T
        ∂F/∂Kuu       = Tᵀ [ ½ Σ_d (I - B_d⁻¹) + Σ_i t_i G_i ] T - ½ Σ_d u_d u_dᵀ
    """
    (inputs, missing), block = part, read()
    latent = latent or _latent_block(
        problem.kernel, problem.bound, posterior.features, posterior.Kinv, block, inputs
    )
    row = _errors(posterior, outer, latent, block, missing)
    bars, t = _pull(posterior, outer, latent, row, reduce_slope)
    precision, T = latent.precision, posterior.features.T
    noise_bar = precision * (0.5 * precision * row.q - 0.5 * row.n - t * latent.residual)
    of_noise = kernels.diagonal(problem.kernel, inputs.mean)[2](np.zeros(len(t)), noise_bar)[0]
    G = weighted_gram(latent.V, t) + T @ latent.expected.sums(t[:, None])[0] @ T.T
    return (bars.theta + of_noise, bars.Z, G), (bars.mean, bars.variance)

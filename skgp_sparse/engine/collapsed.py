"""Value, gradient and posterior of the collapsed Gaussian objectives, in two visits to the rows.

With features ``V`` of the rows (columns here, rows in a block of the code), for inducing points
``V = L⁻¹ Kuf`` and ``r = kff - diag VᵀV``, with ``λ`` and ``φ`` as the bound says, and ``a = w/λ``
for rows of weight w:

    B = I + V diag(a) Vᵀ = LB LBᵀ,        c = LB⁻¹ V (a y)
    log N = -½ [ Σ w (log 2π + log λ) + 2 Σ log diag LB + Σ a y² - cᵀc ]
    F = log N - reduce(Σ w φ)

The first visit turns blocks into sums and keeps blocks for the second as far as the memory budget
goes; the others are computed again. The second visit pulls the gradient back block by block. With
these sums go those over rows that keep coming (`RunningSums`), and a basis of its own for the mean
(`decoupled_conclude`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Batch, Layout, row_blocks
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.engine.basis import Evaluation, Features, Gradients, Problem, Projection
from skgp_sparse.engine.feature_posterior import SparsePosterior
from skgp_sparse.engine.posterior import BOUNDS, PosteriorAround, by_blocks
from skgp_sparse.ground import linalg
from skgp_sparse.ground.parallel import empty
from skgp_sparse.ground.validation import AnyArray, Array, Kernel, Scalars


class Visit(NamedTuple):
    """A visit to the rows of problems that differ by their bounds only, one for each process."""

    problems: list[Problem]
    features: Features
    layout: Layout


def visit_of(problem: Problem) -> Visit:
    """The `Visit` to the rows of a problem."""
    return Visit([problem], problem.features(), problem.layout())


class Forward(NamedTuple):
    """Quantities of a block that the first pass computes and the second one needs."""

    V: np.ndarray
    tape: Any  # of a `Projection`
    precision: float | np.ndarray  # 1/σ², or λ2 of a site
    linear: np.ndarray  # y/σ² (n, p), or λ1
    x: np.ndarray  # r/σ²
    inflation: float | np.ndarray  # λ/σ²
    a: float | np.ndarray  # w/λ
    share: float | np.ndarray  # of r in λ
    phi: np.ndarray
    slope: float | np.ndarray  # φ'

    def weighted_targets(self, weight: Scalars) -> Array:
        """``a y`` (n, p)."""
        return self.linear * np.reshape(weight / self.inflation, (-1, 1))


class Sums(NamedTuple):
    """Sums over rows, or means; of several processes with a leading axis of these."""

    VaV: np.ndarray  # Vᵀ diag(a) V
    Vay: np.ndarray  # Vᵀ diag(a) y
    a: Any = 0.0  # Σ a
    yay: Any = 0.0  # Σ a y²; this and the rest are what an objective wants to know
    log_noise: Any = 0.0  # Σ w (log 2π + log λ)
    phi: Any = 0.0  # Σ w φ
    n: Any = 0.0  # Σ w

    def __add__(self, more: "Sums") -> "Sums":  # type: ignore[override]
        return Sums(*(a + b for a, b in zip(self, more)))

    def times(self, factor: float) -> "Sums":
        """Sums with every weight multiplied by a factor."""
        return Sums(*(factor * part for part in self))


# A block takes features V (for inducing points one triangular product, n m²) and ``Vᵀ diag(a) V``
# (one rank-k update, n m²).
#
# A row is seen through its natural parameters, the precision ``1/σ²`` and the linear term
# ``y/σ²``: those of its known and learned noise, or those of a Gaussian site. Nothing is divided
# by a precision that may be 0, or negative where it is that of a site.
def forward_pass(visit: Visit, gradient: bool) -> tuple:
    """`Sums` over all rows, and each block's `Forward` where it waits for a gradient, or None."""

    (problem, *_), features, layout = visit

    def run(read: Callable) -> tuple[Sums, Forward]:
        block = read()
        forward = forward_block(problem, problem.project(features, block.X), block)
        return block_sums(forward, block), forward

    keep = layout.whole if gradient else [False] * len(layout.blocks)
    sums, waiting = problem.rows.visit(run, layout, keep=keep)
    return Sums(*sums), waiting


def forward_block(
    problem: Problem, projection: Projection, block: Batch, site: Array | None = None
) -> Forward:
    """The `Forward` of a block, of which a `site` (2, n) may stand for noise and targets."""
    if site is None:
        precision = 1.0 / (projection.noise + block.noise)
        linear = block.y * np.reshape(problem.targets * precision, (-1, 1))
    else:
        linear, precision = site[0][:, None], site[1]
    x = projection.residual * precision
    bound = problem.bound.for_weights(block.weight)
    share = bound.noise_share
    inflation = 1.0 + share * x if np.any(share) else 1.0
    phi, slope = bound.penalty(x)
    a = block.weight * precision / inflation
    V, tape = projection.V, projection.tape
    return Forward(V, tape, precision, linear, x, inflation, a, share, phi, slope)


def block_sums(forward: Forward, block: Batch) -> Sums:
    """The `Sums` of one block."""
    weight, n = block.weight, sum_of(block.weight, block)
    logs = sum_of(weight * np.log(forward.inflation / forward.precision), block)
    log_noise, phi = logs + n * linalg.LOG_2PI, sum_of(weight * forward.phi, block)
    V, ay, a = forward.V, forward.weighted_targets(weight), sum_of(forward.a, block)
    yay = np.vdot(block.y, ay)
    return Sums(linalg.weighted_gram(V, forward.a), V.T @ ay, a, yay, log_noise, phi, n)


def sum_of(values: Scalars, block: Batch) -> float:
    """Sum over the rows of a block of numbers (n,), or of one number for each."""
    return np.broadcast_to(values, len(block.X)).sum()


class Cotangents(NamedTuple):
    """The m×m part of the gradient of a process, the same for every block."""

    features: Features
    slope: float  # reduce'
    v: np.ndarray  # (m, P) LB⁻ᵀ c: the mean at the rows is V v
    u: np.ndarray  # Tᵀ v: it is K u
    Binv: Array | Any  # None where the rows do not need it
    shared: Array | Any  # P (B⁻¹ + 2 τ I) T; None where no τ serves all rows
    mean_h: Array | Any  # Σ a h / Σ a: all of h that uniform noise needs to know


def cotangents(
    visit: Visit, core: "Core", tau: Scalars | None, total_a: float, slope: float
) -> Cotangents:
    """Matrices that the visit to every block multiplies with."""
    Binv = linalg.inverse_from_triangle(core.TB, visit.problems[0].options.n_jobs)
    features, n_targets = visit.features, core.v.shape[1]
    mean_h, shared = (len(Binv) - np.trace(Binv)) / total_a, None
    if tau is not None:
        bracket = n_targets * Binv
        bracket.flat[:: len(bracket) + 1] += 2.0 * n_targets * tau * (not features.complete)
        shared = features.through_whitening(bracket)
    return Cotangents(features, slope, core.v, features.weights(core.v), Binv, shared, mean_h)


# Where ``t = P τ a`` with one τ for all rows, the bracket of ``∂F/∂K`` is one m×m
# matrix times V (2 n m²). Elsewhere ``B⁻¹ V`` is formed first, which also yields ``h``, and the
# whitening applied after (3 n m²); where t is not known before, one rank-k update gives
# ``Vᵀ diag(t) V``. Processes with the same features add their brackets, which are pulled back
# together.
#
# With the symbols at the top of this file, ``v = LB⁻ᵀ c``, ``u = L⁻ᵀ v``, ``e = y - Kfu u``,
# ``h_i = V_iᵀ B⁻¹ V_i`` and P targets:
#
#     g = ∂log N/∂λ = ½ a ( (Σ_p e² + P h)/λ - P )
#     t = ∂F/∂r     = share g - P w φ' reduce' / σ²
#     ∂F/∂σ²        = g + P w φ' reduce' x / σ²
#     ∂F/∂Kuf       = u (a e)ᵀ - L⁻ᵀ [ P B⁻¹ V diag(a) + 2 V diag(t) ]
#     ∂F/∂Kuu       = -½ u uᵀ + ½ L⁻ᵀ [ P (I - B⁻¹) + 2 V diag(t) Vᵀ ] L⁻¹
#
# The gradients are those through the raw features, not through their whitening.
#
# There is one of `cots` for each process, and ``see(block, *waiting)`` returns the `Forward` of
# each from what `kept` has for the block, which is used up.
def backward_pass(
    visit: Visit, see: Callable, cots: list[Cotangents], inputs: bool, want_gram: bool, *kept: list
) -> tuple:
    """Sum over blocks of the gradients wrt theta and the basis, and of ``Σ Vᵀ diag(t) V``."""
    (problem, *_), features, layout = visit
    cots_of_rows = [cot if cot.shared is None else cot._replace(Binv=None) for cot in cots]

    def run(read: Callable, *waiting: object) -> tuple:
        block = read()
        forwards = see(block, *waiting)
        tape, pull_diagonal = forwards[0].tape or problem.tape(features, block.X)
        pairs = zip(forwards, cots_of_rows)
        parts = (_cotangents_of_block(problem, block, want_gram, *pair) for pair in pairs)
        K_bar, t, noise_bar, VtV = reduce(_added, parts)
        theta_bar, basis_bar = features.pull(tape, K_bar, inputs)
        n = len(block.X)
        theta_bar += pull_diagonal(np.broadcast_to(t, n), np.broadcast_to(noise_bar, n))[0]
        return (theta_bar, basis_bar if inputs else 0.0, VtV), None

    return problem.rows.visit(run, layout, *kept, keep=[False] * len(layout.blocks), spend=True)[0]


# Its cotangent is ``Tᵀ S T - ½ u uᵀ`` with ``S = ½ P (I - B⁻¹) + Vᵀ diag(t) V``, summed over
# processes.
def pull_whitening(cots: list[Cotangents], VtV: Scalars, inputs: bool) -> Gradients:
    """Gradients wrt theta and the basis through the whitening of the features."""
    features, n_targets = cots[0].features, cots[0].v.shape[1]
    S = cots[0].Binv * (-0.5 * n_targets)
    for cot in cots[1:]:
        S -= (0.5 * n_targets) * cot.Binv
    S += VtV
    S.flat[:: len(S) + 1] += 0.5 * n_targets * len(cots)
    return features.pull_whitening(S, np.hstack([cot.u for cot in cots]), inputs)


def _cotangents_of_block(
    problem: Problem, block: Batch, want_gram: bool, forward: Forward, cot: Cotangents
) -> tuple:
    """Gradients wrt raw features, residual and noise of the rows, and ``Vᵀ diag(t) V``."""
    V, a, n_targets, precision = forward.V, forward.a, cot.v.shape[1], forward.precision
    e = forward.linear - np.reshape(precision, (-1, 1)) * (V @ cot.v)  # (y - mean)/σ²
    if cot.shared is None:
        BV = np.matmul(V, cot.Binv, out=empty(V.shape))
        h = linalg.row_dots(BV, V)
    else:
        BV, h = None, cot.mean_h
    weight = block.weight
    g = linalg.row_dots(e, e) + n_targets * precision * (precision * h - forward.inflation)
    g *= 0.5 * weight / forward.inflation**2
    penalty_bar = n_targets * cot.slope * weight * forward.slope * precision
    t: Scalars = forward.share * g - penalty_bar
    ae = e * np.reshape(weight / forward.inflation, (-1, 1))
    noise_bar = t if problem.latent_noise else g + penalty_bar * forward.x
    t = 0.0 * t if cot.features.complete else t
    K_bar = _cotangent_of_features(V, ae, BV, t, a, cot)
    return K_bar, t, noise_bar, linalg.weighted_gram(V, t) if want_gram else 0.0


def _added(totals: Iterable, parts: Iterable) -> Any:
    """Sums over processes, matrices in place of the first ones."""
    return [np.add(a, b, out=a if np.ndim(a) == 2 else None) for a, b in zip(totals, parts)]


def _cotangent_of_features(
    V: Array, ae: Array, BV: Array | None, t: Scalars, a: Scalars, cot: Cotangents
) -> Array:
    """``v (a e)ᵀ - P B⁻¹ V diag(a) - 2 V diag(t)``, through the whitening."""
    a = np.reshape(a, (-1, 1))
    if BV is None:
        K_bar = np.matmul(V, cot.shared, out=empty(V.shape))
        K_bar *= -a
        K_bar += np.matmul(ae, cot.u.T, out=empty(V.shape))
        return K_bar
    BV *= -cot.v.shape[1] * a
    other = np.multiply(V, 2.0 * np.reshape(t, (-1, 1)), out=empty(V.shape))
    BV -= other
    BV += np.matmul(ae, cot.v.T, out=other)
    return cot.features.through_whitening(BV, BV)


class Core(NamedTuple):
    """The Gaussian posterior of the weights of the features of a process, given sums over rows."""

    VaV: np.ndarray  # B - I
    TB: np.ndarray  # LB⁻¹
    c: np.ndarray  # (m, p)
    v: np.ndarray  # (m, p)
    log_det: float  # log |B|

    def divergence(self) -> float:
        """Divergence ``KL[q(u) ‖ p(u)]`` of the posterior of the features from their prior."""
        trace = np.vdot(self.TB, self.TB)
        return 0.5 * (trace - len(self.c) + np.vdot(self.v, self.v) + self.log_det)

    def log_normaliser(self) -> float:
        """``log E[exp(Σ b f - ½ a f²)]`` under the Nyström prior."""
        return 0.5 * (np.vdot(self.c, self.c) - self.log_det)


def value(problem: Problem) -> float:
    """Objective at the kernel and the basis of the problem."""
    return solve_forward(problem)[1][0]


def value_and_gradient(problem: Problem, inputs: bool = True) -> Evaluation:
    """`Evaluation` at the kernel and the basis of the problem, which may move for `inputs`."""
    visit = visit_of(problem)
    sums, waiting = forward_pass(visit, gradient=True)
    value, core, slope = solve(sums, problem)
    see = partial(_see, problem, visit.features)
    probe = see(problem.rows.block(slice(0, 1)), None)
    gradient = pull_back(
        visit, see, [core], probe, inputs=inputs, kept=[waiting], total_a=sums.a, slope=slope
    )
    return Evaluation(value, gradient, visit.features.jitter)


# There is a problem (the same but for its bound), a core and a part of the `probe`, which `see`
# makes of some rows, for each process. Penalties count by their `slope`.
def pull_back(
    visit: Visit,
    see: Callable,
    cores: Sequence[Core],
    probe: list[Forward],
    inputs: bool,
    kept: Sequence,
    total_a: float = 1.0,
    slope: float = 1.0,
) -> dict:
    """Gradients by the name of the block."""
    (problem, *_), features, _ = visit
    taus = [  # τ of ``t = P τ a`` where one serves all rows, else None
        None if at.bound.noise_share or np.ndim(one.slope) else -one.slope * slope
        for at, one in zip(visit.problems, probe)
    ]
    is_noisy = kernels.is_noisy(problem.kernel) and not problem.latent_noise
    by_row = is_noisy and np.ndim(probe[0].precision) > 0  # h of every row is wanted
    pairs = zip(cores, [None] * len(taus) if by_row else taus)
    cots = [cotangents(visit, core, tau, total_a, slope) for core, tau in pairs]
    wants_gram = None in taus
    theta_bar, basis_bar, VtV = backward_pass(visit, see, cots, inputs, wants_gram, *kept)
    if features.complete:
        VtV = 0.0
    elif not wants_gram:
        pairs = zip(cores, taus)
        VtV = sum(core.v.shape[1] * tau * core.VaV for core, tau in pairs)
    of_theta, of_basis = pull_whitening(cots, VtV, inputs)
    gradient = {"kernel": theta_bar + of_theta}
    return {**gradient, "basis": basis_bar + of_basis} if inputs else gradient


def conclude(problem: Problem) -> tuple[float, SparsePosterior, float]:
    """Objective, `SparsePosterior` and the jitter that it took, from one visit to the rows."""
    features, (value, core, _) = solve_forward(problem)
    return value, posterior_of(features, core, problem.kernel), features.jitter


def core_of(sums: Sums, n_jobs: int, **failure: str) -> Core:
    """The `Core` that belongs to `Sums` of one process; `failure` is that of `cholesky`."""
    B = sums.VaV.copy()
    B.flat[:: len(B) + 1] += 1.0
    LB = linalg.cholesky(B, n_jobs, **failure)
    TB = linalg.inverse_lower(LB, n_jobs)
    c = TB @ sums.Vay
    return Core(sums.VaV, TB, c, TB.T @ c, linalg.log_det_from_cholesky(LB))


def solve(sums: Sums, problem: Problem) -> tuple[float, Core, float]:
    """Objective, `Core` and slope of penalties of `Sums`, at the bound of the problem."""
    core = core_of(sums, problem.options.n_jobs)
    n_targets = core.c.shape[1]
    log_n = -0.5 * n_targets * (sums.log_noise + core.log_det)
    log_n -= 0.5 * (sums.yay - np.vdot(core.c, core.c))
    penalty, reduce_slope = problem.bound.reduce(sums.phi, sums.n)
    return log_n - n_targets * penalty, core, reduce_slope


def posterior_of(features: Features, core: Core, kernel: Kernel) -> SparsePosterior:
    """The `SparsePosterior` of a process whose weights have this one."""
    return SparsePosterior(kernel, features.for_prediction(), features.weights(core.v), core.TB)


def mean_noise_and_residual(problem: Problem, rows: slice) -> tuple:
    """Mean noise variance σ² and mean residual variance r over the rows of a slice."""
    forward = _see(problem, problem.features(), problem.rows.block(rows), None)[0]
    return np.mean(1.0 / forward.precision), np.mean(forward.x / forward.precision)


def solve_forward(problem: Problem) -> tuple[Features, tuple[float, Core, float]]:
    """The features of a problem, and what `solve` returns given its rows."""
    visit = visit_of(problem)
    return visit.features, solve(forward_pass(visit, gradient=False)[0], problem)


def _see(problem: Problem, features: Features, block: Batch, forward: Forward | None) -> list:
    """List with the `Forward` of a block, computed unless the first pass has kept it."""
    return [forward or forward_block(problem, problem.project(features, block.X), block)]


# The sums of the collapsed objectives add up, whatever the order in which rows come. Their
# targets are standardised with the mean and the spread of all rows, which change with every row.
# The sums are therefore kept in the units of an origin, ``z = (y - μ₀)/s₀``, with a column of
# ones beside the targets. In any other units
#
#     (y - μ)/s = [z 1] C,        C = [ diag(s₀/s) ; (μ₀ - μ)/s ],
#     V a y = (V a [z 1]) C,      Σ a y² = tr Cᵀ ([z 1]ᵀ a [z 1]) C,
#
# and nothing else depends on the targets, so that the sums in other units are exact. Known noise
# is in units of y², which is why its scale has to stay.
@dataclass(frozen=True, eq=False)
class RunningSums:
    """The sums over all rows that came, in the units of an origin."""

    sums: Sums | Any  # with targets ``[z 1]``; ``yay`` is the matrix ``[z 1]ᵀ a [z 1]``
    features: Features
    origin: TargetScaler  # targets that were constant there have sums, as they may vary later

    @classmethod
    def of(cls, problem: Problem) -> "RunningSums":
        """Sums of a problem whose rows are `ArrayDataset`; its units become the origin."""
        features = problem.features().for_prediction()
        return cls(None, features, problem.rows.scaler.with_constants()).plus(problem)

    def plus(self, problem: Problem) -> "RunningSums":
        """Sums to which the rows of a problem with the same kernel and basis are added."""
        y = np.column_stack([problem.rows.y, np.ones(len(problem.rows))])
        scaler = TargetScaler(np.append(self.origin.mean, 0.0), np.append(self.origin.scale, 1.0))
        rows = replace(problem.rows, y=y, scaler=scaler)
        problem, layout = problem._replace(rows=rows), problem.layout()

        def run(read: Callable) -> tuple[Sums, None]:
            block = read()
            forward = forward_block(problem, problem.project(self.features, block.X), block)
            yay = block.y.T @ forward.weighted_targets(block.weight)
            return block_sums(forward, block)._replace(yay=yay), None

        sums = Sums(*rows.visit(run, layout, keep=[False] * len(layout.blocks))[0])
        return replace(self, sums=sums if self.sums is None else self.sums + sums)

    def scaled(self, factor: float) -> "RunningSums":
        """Sums of the rows with so many times their weights."""
        return replace(self, sums=self.sums.times(factor))

    def solved(self, problem: Problem, scaler: TargetScaler) -> tuple:
        """Value, `SparsePosterior` and jitter where targets have these units; no row is read."""
        varies, origin = scaler.scale > 0, self.origin
        C = np.vstack([np.diag(origin.scale), origin.mean - scaler.mean])
        C = C[:, varies] / scaler.scale[varies]
        sums = self.sums._replace(Vay=self.sums.Vay @ C, yay=np.vdot(C, self.sums.yay @ C))
        value, core, _ = solve(sums, problem)
        return value, posterior_of(self.features, core, problem.kernel), self.features.jitter


# -- a basis of its own for the mean, larger than the one for the covariance -----------------------
# The mean ``Q_Mff (Q_Mff + D)⁻¹ y`` of the basis M is the best one in its span, and any mean of the
# span gives a bound (Cheng and Boots 2017, eq. 14, with another log-determinant):
#
#     F = -½ [ (y - μ)ᵀ D⁻¹ (y - μ) + ‖μ‖² + n log 2π + log |Q_m + D| ] - reduce(Σ φ)
#       = F_m(0) + F_M(y) - F_M(0)
#
# with ``‖μ‖`` the norm of the process, and F_m, F_M the collapsed bounds of either basis, whose
# noise is D, for the targets y or for zeros. It is the bound F_m with the quadratic term of F_M.


@dataclass(frozen=True, eq=False)
class DecoupledPosterior(PosteriorAround):
    """The process given data, its mean in another basis than its covariance."""

    mean_features: Features  # of the larger basis, without what a mean does not need
    u: np.ndarray  # (M, p) weights of their raw features in the mean

    name = "inducing"
    answers = frozenset([BOUNDS])
    remedy = "Set n_mean to None, and call fit, not partial_fit."

    features = property(attrgetter("posterior.features"))
    width = property(attrgetter("mean_features.size"))

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Mean (n, p)."""
        of_block = lambda block: self.mean_features.raw(block) @ self.u
        return by_blocks(of_block, X, row_blocks(len(X), self.width), n_jobs)


def decoupled_conclude(of_mean: Problem, of_covariance: Problem) -> tuple:
    """The bound, the `DecoupledPosterior` posterior and the jitter, from a visit for each basis."""
    larger, (_, of_larger, _) = solve_forward(of_mean)
    features, (value, core, _) = solve_forward(of_covariance)
    value += 0.5 * (of_larger.c**2).sum() - 0.5 * (core.c**2).sum()
    posterior = posterior_of(features, core, of_covariance.kernel)
    u, larger = larger.weights(of_larger.v), larger.for_prediction(mean_only=True)
    return value, DecoupledPosterior(posterior, larger, u), max(larger.jitter, features.jitter)


def decoupled_value_and_gradient(of_mean: Problem, of_covariance: Problem) -> Evaluation:
    """`Evaluation` with the gradient wrt theta."""
    problems = of_covariance._replace(targets=0.0), of_mean, of_mean._replace(targets=0.0)
    plus, also, minus = (value_and_gradient(problem, False) for problem in problems)
    value, jitter = plus.value + also.value - minus.value, max(plus.jitter, also.jitter)
    return Evaluation(value, {"kernel": plus.theta_bar + also.theta_bar - minus.theta_bar}, jitter)

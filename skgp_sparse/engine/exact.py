"""The exact Gaussian process on few distinct rows, with Gaussian noise or sites; evidence.

Every objective of the family is exact once the inducing points are the distinct training rows; the
dense formulas then keep digits that ``1/σ²`` would cost the collapsed ones when the noise is tiny.
Rows that coincide are one observation of their precision-weighted mean ȳ, of variance D
(`skgp_sparse.data.arrays`):

    log p(y) = log N(ȳ; 0, K + D) - ½ P Σ w_i log 2πσ_i² + ½ P Σ log 2πD_j
               - ½ Σ w_i (y_i - ȳ_j)²/σ_i²

`JointRows` are rows with Gaussian sites, seen by the process at all distinct inputs.
`profile_evidence` compares scales of the targets by values alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from skgp_sparse import kernels
from skgp_sparse.data.arrays import DistinctInputs, GroupMeans, PerRow
from skgp_sparse.data.dataset import Batch, Layout, row_blocks
from skgp_sparse.engine.basis import Evaluation, InducingFeatures, Observations, Problem
from skgp_sparse.engine.collapsed_sites import NO_POSTERIOR, Cores, observe, project_rows
from skgp_sparse.engine.feature_posterior import ExactPosterior, SparsePosterior
from skgp_sparse.ground import linalg
from skgp_sparse.ground.parallel import for_each, ordered_map, worth
from skgp_sparse.ground.validation import Array, Bools, Kernel, Pair, Scalars

_FEWEST_PAIRS = 4  # shares of the rows that the longest lag of a variogram leaves
_STANDARD_ERRORS = 4.0  # by which near rows must be more alike than any
_SILL = 0.63  # of the way from the shortest lag to the sill: 1 - exp(-1)


# -- evidence of targets at several scales: which scale does their structure have? -----------------


# With a kernel matrix v K of the signal, and noise of variance v D, D = diag((ρ + d_i) / w_i), the
# evidence of p targets at the most likely v̂ is, up to a constant,
#
#     -½ n p log v̂ - ½ p log |K + D|,        v̂ = tr yᵀ (K + D)⁻¹ y / (n p)
#
# (Rasmussen and Williams 2006, eq. 5.8). That of a linear trend and noise is -½ n p log v̂ with the
# mean square v̂ of the residuals of least squares. Known noise d is in units of the variance of y.
def profile_evidence(K: Array, rows: Batch, ratio: float) -> tuple[float, float]:
    """Evidence of targets, -inf where the matrix has no factor, and v̂; the noise has ratio ρ."""
    A, y = K.astype(np.float32), rows.y.astype(np.float32)  # half the time, and digits enough
    A.flat[:: len(A) + 1] += np.asarray((ratio + rows.noise) / rows.weight, np.float32)
    try:
        L = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return -np.inf, 1.0
    whitened = solve_triangular(L, y, lower=True, check_finite=False)  # (n, p)
    variance = np.mean(whitened**2, dtype=np.float64)
    log_root = np.log(np.diagonal(L)).sum(dtype=np.float64)
    return float(-0.5 * y.size * np.log(variance) - y.shape[1] * log_root), float(variance)


def trend_evidence(residual: Array) -> float:
    """Evidence of the residuals (n, p) of a linear trend as noise."""
    return -0.5 * residual.size * np.log(np.mean(residual**2) + linalg.TINY)


def linear_residual(X: Array, y: Array) -> Array:
    """Residuals (n, p) of least squares on the columns of X (n, d); missing values are means."""
    there = ~np.isnan(X)
    count = np.maximum(there.sum(axis=0), 1)
    X = np.where(there, X - np.where(there, X, 0.0).sum(axis=0) / count, 0.0)
    X = X / np.maximum(np.abs(X).max(axis=0), linalg.TINY)
    design = np.column_stack([np.ones(len(X)), X])
    return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]


# The variogram of the rows in their order along the column tells, at lags of 1, 2, 4, ... places.
# Infinite where near rows are not clearly more alike than any.
def correlation_length(x: Array, y: Array) -> float:
    """The distance along a column (n,) at which targets (n, p) lose their correlation."""
    x, y = _in_order(x, y)
    n = len(x)
    if n < _STANDARD_ERRORS**2 or not y.any():
        return np.inf
    nearest = _variogram(y, 1)
    if nearest > 1.0 - _STANDARD_ERRORS / np.sqrt(n):
        return np.inf
    lags = [2**power for power in range(int(np.log2(n / _FEWEST_PAIRS)) + 1)]
    sill = nearest + _SILL * (1.0 - nearest)
    lag = next((lag for lag in lags if _variogram(y, lag) >= sill), lags[-1])
    length = np.median(x[lag:] - x[:-lag])
    return length if length > 0 else np.inf


def lag_correlation(x: Array, y: Array) -> float:
    """The correlation of centred targets (n,) of rows next to each other along a column (n,)."""
    return 1.0 - _variogram(_in_order(x, y)[1], 1)


# A table may be sorted by its targets, or by time, which would make rows of one value alike.
def _in_order(x: Array, y: Array) -> Pair:
    """A column and targets of rows that have a value, in its order; equal ones in a random one."""
    there = np.random.RandomState(0).permutation(np.flatnonzero(np.isfinite(x)))
    order = there[np.argsort(x[there], kind="stable")]
    return x[order], y[order]


def _variogram(y: Array, lag: int) -> float:
    """Half the mean squared difference of rows so many places apart, in units of the variance."""
    return 0.5 * ((y[lag:] - y[:-lag]) ** 2).mean() / (y**2).mean()


_JITTER = linalg.Jitter(0.0)  # the noise is on the diagonal already
_WORTH_SHARING = 1 << 16  # entries of K for which a block of its own pays
_PICKLED = 1000  # rows of which a pickle has the factor
_ROWS_WITHOUT_TILES = 512  # rows whose value alone needs no tiles
_MOST_BLOCKS = 8  # blocks that K is cut into at most ...
_LARGEST = 1 << 18  # ... unless they had more entries


# A pickle of many rows has no factor, which would take n² numbers: it is computed again.
@dataclass(frozen=True, eq=False)
class ExactFeatures(InducingFeatures):
    """The distinct rows at one kernel, where L is the factor of the noisy kernel matrix."""

    D: np.ndarray | None = None  # (m,) noise variances of the distinct rows

    def __getstate__(self) -> dict[str, object]:
        """Without the factor of many rows."""
        state = super().__getstate__()
        return {**state, "L": None} if self.size > _PICKLED and self.L is not None else state

    def __setstate__(self, state: dict) -> None:
        """With the factor as it was."""
        vars(self).update(state)
        if self.L is None and self.D is not None:
            vars(self)["L"] = _factor(self.kernel, self.Z, self.D, self.n_jobs, gradient=False)[0]

    def for_prediction(self, mean_only: bool = False) -> "ExactFeatures":
        """A copy of the features for prediction, without L and D if only means are wanted."""
        D, L = (None, None) if mean_only else (self.D, self.L)
        return replace(self, L=L, T=None, pull_Kuu=None, D=D)


# -- value and gradient given all rows -------------------------------------------------------------
# With ``A = (K + D)⁻¹``, ``α = A ȳ``, ``e_i = y_i - ȳ_j + D_j α_j``:
#
#     ∂/∂K    = ½ (α αᵀ - P A)
#     ∂/∂σ_i² = ½ w_i ( Σ_p e_i²/σ_i⁴ - P/σ_i² + P (D_j - D_j² A_jj)/σ_i⁴ )
#
# An evaluation takes ``u³`` multiplications and additions (factor, its inverse, ``A``) and at most
# 4 arrays (u, u). Only the lower triangles of ``K`` and ``A`` are computed, in blocks of rows: a
# block is two rectangles, the rows beside all earlier ones and the rows among themselves. The
# second one is where a kernel meets its own arguments, and keeps a diagonal without rounding.


def value(kernel: Kernel, groups: DistinctInputs, n_jobs: int = 1) -> float:
    """Exact log marginal likelihood."""
    if len(groups.X) <= _ROWS_WITHOUT_TILES:
        means, K = GroupMeans(kernel, groups), kernels.evaluate(kernel, groups.X, groups.X)
        K.flat[:: len(K) + 1] += means.D
        if (solution := linalg.log_det_and_whitened(K, means.mean)) is not None:
            return means.value(*solution)
    return _solve(kernel, groups, n_jobs, gradient=False)[0]


def value_and_gradient(kernel: Kernel, groups: DistinctInputs, n_jobs: int = 1) -> Evaluation:
    """Exact log marginal likelihood and its gradient wrt theta, as an `Evaluation`."""
    value, means, L, alpha, jitter, pulls = _solve(kernel, groups, n_jobs)
    n_targets = alpha.shape[1]
    T = linalg.inverse_lower(L, n_jobs)
    del L
    A = linalg.lower_gram(T, n_jobs)
    del T

    def cotangent(rows: slice, columns: slice) -> Array:
        G = (-0.5 * n_targets) * A[rows, columns]
        G += (0.5 * alpha[rows]) @ alpha[columns].T
        return G

    theta_bar = pull_back(pulls, cotangent, n_jobs)
    e = means.rest + (means.D[:, None] * alpha)[groups.index]
    squares = (e**2).sum(axis=1) + n_targets * (means.D - means.D**2 * A.diagonal())[groups.index]
    noise_bar = groups.sum(0.5 * groups.weight * (squares / means.s2 - n_targets) / means.s2)
    theta_bar += means.pull_diagonal(np.zeros(len(groups.X)), noise_bar)[0]
    return Evaluation(value, {"kernel": theta_bar}, jitter)


def conclude(kernel: Kernel, groups: DistinctInputs, n_jobs: int = 1) -> tuple:
    """Log marginal likelihood, posterior, whose inducing points are the distinct rows, jitter."""
    value, means, L, alpha, jitter, _ = _solve(kernel, groups, n_jobs, gradient=False)
    features = ExactFeatures(kernel, groups.X, L, D=means.D)
    return value, ExactPosterior(kernel, features, alpha), jitter


def _solve(kernel: Kernel, groups: DistinctInputs, n_jobs: int, gradient: bool = True) -> tuple:
    """Value, `GroupMeans`, L, α (u, p), jitter, and the pullbacks of K."""
    means = GroupMeans(kernel, groups)
    L, jitter, pulls = _factor(kernel, groups.X, means.D, n_jobs, gradient)
    half = linalg.over_lower_transposed(means.mean.T, L)
    value = means.value(linalg.log_det_from_cholesky(L), half)
    return value, means, L, linalg.over_lower(half, L).T, jitter, pulls


def _factor(kernel: Kernel, X: Array, D: Array, n_jobs: int, gradient: bool) -> tuple:
    """The factor of ``K + D``, its jitter, and the pullbacks of K."""
    K, pulls = kernel_matrix(kernel, X, n_jobs, gradient)
    K.flat[:: len(K) + 1] += D
    return *linalg.jittered_cholesky(K, _JITTER, n_jobs), pulls


# Of a slice of rows, these pull back to theta the cotangent of the rows among themselves, and
# beside earlier rows, or None.
def kernel_matrix(kernel: Kernel, X: Array, n_jobs: int, gradient: bool = True) -> tuple:
    """Kernel matrix (u, u) without white noise, its lower triangle only, and its pullbacks."""
    K = np.zeros((len(X), len(X)))

    def fill(rows: slice) -> tuple | None:
        before = None
        K[rows, rows], among = kernels.linearize(kernel, X[rows], X[rows])
        if rows.start:
            K[rows, : rows.start], before = kernels.linearize(kernel, X[rows], X[: rows.start])
        return (rows, among, before) if gradient else None

    return K, list(ordered_map(fill, _blocks(kernel, len(X)), worth(n_jobs, K.size)))


# The `pulls` of `kernel_matrix` are used up. ``cotangent(rows, columns)`` is a new array, and only
# the lower triangle of G is read.
def pull_back(pulls: list, cotangent: Callable, n_jobs: int) -> Array:
    """Gradient wrt theta of ``Σ G_ij K_ij`` over all i and j, for symmetric G."""

    def run(index: int) -> Array:
        (rows, among, before), pulls[index] = pulls[index], None
        theta_bar = among(linalg.mirror_lower(cotangent(rows, rows)), inputs=False)[0]
        if before is not None:
            head = slice(0, rows.start)
            theta_bar = theta_bar + 2.0 * before(cotangent(rows, head), inputs=False)[0]
        return theta_bar

    return sum(ordered_map(run, range(len(pulls)), worth(n_jobs, pulls[-1][0].stop ** 2)))


def _blocks(kernel: Kernel, n: int) -> list[slice]:
    """Slices of rows with equal shares of the lower triangle; one for a kernel without a rule."""
    count = max(min(n**2 // _WORTH_SHARING, _MOST_BLOCKS), n**2 // (2 * _LARGEST), 1)
    if count == 1 or not kernels.differentiable(kernel):
        return [slice(0, n)]
    edges = [round(n * (share / count) ** 0.5) for share in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


_FLAT = 1e-4  # a_g K_gg below which 1 - [B⁻¹]_gg has lost digits
_NO_KERNEL = (
    "The kernel matrix of the rows is not finite, or not positive definite. Check the kernel, the "
    "bounds of its hyperparameters, and the scale of X."
)


# -- the exact process on few distinct inputs, seen through Gaussian sites -------------------------
# Where every distinct input is an inducing point there is nothing to project: sites act on the
# kernel matrix K of the distinct inputs. Rows of the same input share its latent value; white noise
# comes on top, of variance ``r_i`` and for every copy of a row its own, and is integrated. With the
# natural parameters ``λ1, λ2`` of the sites and ``γ_i = 1 + r_i λ2``, sums over the rows i of group
# g,
#
#     a_g = Σ w_i λ2/γ_i,    b_g = Σ w_i λ1/γ_i,    s = √a,
#     B = I + diag(s) K diag(s) = L Lᵀ,    T = L⁻¹,    α = s B⁻¹ (b/s),    μ = K α,
#     h_g = (1 - [B⁻¹]_gg)/a_g                                   (posterior variance of the process)
#     m_i = (μ + r_i λ1)/γ_i,    v_i = r_i/γ_i + h/γ_i²          (marginal of a row, noise included)
#     KL = ½ (tr B⁻¹ - u + μᵀα + log|B|)
#          + ½ Σ w_i (1/γ_i - 1 + log γ_i + r_i ((λ1 - λ2 μ)² + λ2² h)/γ_i²)
#     log normaliser = ½ (bᵀμ - log|B|) + ½ Σ w_i (r_i λ1²/γ_i - log γ_i).
#
# The gradient is that of ``log N(λ1/λ2; 0, Cov)``, where every row has noise ``r_i + 1/λ2``:
#
#     ∂/∂K = ½ (α αᵀ - diag(s) B⁻¹ diag(s)),
#     ∂/∂r_i = ½ w_i ((λ1 - λ2 μ)² - λ2 γ_i + λ2² h)/γ_i².
#
# B is at least the identity, so that no jitter is needed however close inputs are. See Rasmussen
# and Williams (2006), sections 3.4 and 3.6; their ``α = b - s B⁻¹ (s K b)`` loses digits where the
# variance is large. An inner iteration takes ``⅔ u³`` multiplications and additions.
#
# Where precisions are negative, ``s = √|a|``, and their signs σ take the place of the identity in
# B. With the negative ones last, ``B⁻¹ = Tᵀ D T`` with ``D = ±1`` and
# ``h_g = (σ_g - [B⁻¹]_gg)/s_g²``. There is a posterior if as many of D as of σ are negative.


class JointCore(NamedTuple):
    """The Gaussian posterior over the process at the distinct inputs, given all sites."""

    T: np.ndarray  # (u, u) L⁻¹, lower triangular if no precision is negative
    s: np.ndarray  # (u,)
    a: np.ndarray  # (u,)
    b: np.ndarray  # (u,)
    alpha: np.ndarray  # (u,)
    mean: np.ndarray  # (u,) μ
    variance: np.ndarray  # (u,) h
    log_det: float  # log |B|
    noise: "Noise"

    def divergence(self) -> float:
        """``KL[q ‖ p]`` of the process and of its white noise at the rows."""
        process = self.mean @ self.alpha - self.a @ self.variance + self.log_det
        return 0.5 * process + self.noise.divergence(self)

    def log_normaliser(self) -> float:
        """``log E[exp(Σ b f - ½ a f²)]`` under the prior."""
        return 0.5 * (self.b @ self.mean - self.log_det) + self.noise.log_normaliser()


class Noise(NamedTuple):
    """White noise of every row, integrated: what it makes of the sites."""

    index: Any  # (n,) group of each row
    r: np.ndarray  # (n,)
    weight: np.ndarray  # (n,) copies of a row that have noise of their own
    linear: np.ndarray  # (n,) λ1, and ...
    precision: np.ndarray  # (n,) ... λ2 of one copy
    gain: np.ndarray  # (n,) γ

    def marginals(self, rows: slice, core: JointCore) -> Pair:
        """Mean and variance of some rows, their noise included."""
        r, gain = self.r[rows], self.gain[rows]
        mean, variance = core.mean[self.index[rows]], core.variance[self.index[rows]]
        return (mean + r * self.linear[rows]) / gain, r / gain + variance / gain**2

    def divergence(self, core: JointCore) -> float:
        """Mean divergence of the noise, given the process."""
        spread = 1.0 / self.gain - 1.0 + np.log(self.gain)
        return 0.5 * self.weight @ (spread + self.r * self._squares(core))

    def log_normaliser(self) -> float:
        """The part of the log normaliser that is not seen by the process."""
        return 0.5 * self.weight @ (self.r * self.linear**2 / self.gain - np.log(self.gain))

    def gradient(self, core: JointCore) -> Array:
        """Gradient of the surrogate wrt r."""
        return 0.5 * self.weight * (self._squares(core) - self.precision / self.gain)

    def _squares(self, core: JointCore) -> Array:
        mean, variance = core.mean[self.index], core.variance[self.index]
        slope = self.linear - self.precision * mean
        return (slope**2 + self.precision**2 * variance) / self.gain**2


class JointRows(NamedTuple):
    """The rows of a problem as the process at all inputs; as `ProjectedRows`."""

    problem: Problem
    layout: Layout
    groups: DistinctInputs
    K: np.ndarray  # (u, u)
    pulls: list
    r: np.ndarray  # (n,) white noise
    pull_diagonal: Any  # of `kernels.diagonal`
    jitter: float = 0.0

    @property
    def observed(self) -> Observations:
        """The rows; the residual is 0, as nothing is left that the process does not know."""
        blocks = map(self.problem.rows.block, self.layout.blocks)
        of_blocks = (observe(block, np.zeros(len(block.X))) for block in blocks)
        return Observations(*map(PerRow, zip(*of_blocks)))

    def solve(self, natural: PerRow) -> Cores:
        """The `Cores` for linear terms and precisions of the rows, a `PerRow` (2, k, n)."""
        return Cores(self._solve(*pair) for pair in np.asarray(natural).swapaxes(0, 1))

    def moments(self, cores: Cores) -> PerRow:
        """Means and variances of the rows, their noise included, a `PerRow` (2, k, n)."""
        return PerRow(
            np.stack([core.noise.marginals(rows, core) for core in cores], axis=1)
            for rows in self.layout.blocks
        )

    def covariance(self, core: JointCore) -> Array:
        """Posterior covariance of the rows, their noise included (n, n)."""
        root = core.T @ (core.s[:, None] * self.K)
        noise, index = core.noise, self.groups.index
        S = (self.K - root.T @ root)[np.ix_(index, index)]
        S /= noise.gain[:, None] * noise.gain
        S.flat[:: len(S) + 1] += noise.r / noise.gain
        return S

    def gradient(self, cores: Cores, sites: PerRow, bounds: list, inputs: bool) -> dict:
        """Gradients by the name of the block; without a residual, all bounds have the same."""
        n_jobs = self.problem.options.n_jobs
        inverses = [_inverse(core, n_jobs) for core in cores]

        def cotangent(*at: slice) -> Scalars:
            return sum(_cotangent(*pair, *at) for pair in zip(cores, inverses))

        of_process = pull_back(self.pulls, cotangent, n_jobs)
        noise_bar = sum(self.groups.sum(core.noise.gradient(core)) for core in cores)
        return {"kernel": of_process + self.pull_diagonal(np.zeros(len(self.K)), noise_bar)[0]}

    def posterior(self, core: JointCore) -> ExactPosterior | SparsePosterior:
        """The `ExactPosterior` of a process; by all rows as features where a < 0."""
        if np.any(core.a < 0.0):
            noise = core.noise
            natural = noise.weight * np.stack([noise.linear, noise.precision])[:, None]
            rows = project_rows(self.problem)
            blocks = PerRow(natural[..., block] for block in rows.layout.blocks)
            return rows.posterior(rows.solve(blocks)[0])
        L = _factor_of_sites(self.K, core.s, self.problem.options.n_jobs) / core.s[:, None]
        features = InducingFeatures(self.problem.kernel, self.groups.X, L)
        return ExactPosterior(self.problem.kernel, features, core.alpha[:, None])

    def _solve(self, b: Array, a: Array) -> JointCore:
        """The `JointCore` for linear terms and precisions (n,) of sites."""
        n_jobs = self.problem.options.n_jobs
        noise = self._noise(a, b)
        a, b = self.groups.sum(a / noise.gain), self.groups.sum(b / noise.gain)
        s = np.sqrt(np.maximum(np.abs(a), linalg.TINY))
        if np.any(a < 0.0):
            T, log_det = _inverse_with_signs(self.K, s, a < 0.0, n_jobs)
        else:
            L = _factor_of_sites(self.K, s, n_jobs)
            log_det = linalg.log_det_from_cholesky(L)
            T = linalg.inverse_lower(L, n_jobs)
            del L
        alpha = s * (T.T @ (_signs(a) * (T @ (np.where(a < 0.0, -b, b) / s))))
        variance = _variances(self.K, s, a, T, n_jobs)
        return JointCore(T, s, a, b, alpha, self.K @ alpha, variance, log_det, noise)

    def _noise(self, a: Array, b: Array) -> Noise:
        """The `Noise` of rows, integrated, given their sites (n,); raises without a posterior."""
        index, weight = self.groups.index, self.groups.weight
        copies = np.maximum(weight, 1.0)  # less than one is one that says less
        linear, precision = b / copies, a / copies
        gain = 1.0 + self.r * precision
        if np.any(gain <= 0.0):
            raise np.linalg.LinAlgError(NO_POSTERIOR)
        return Noise(index, self.r, copies * (weight > 0), linear, precision, gain)


def _cotangent(core: JointCore, inverse: Array, rows: slice, columns: slice) -> Array:
    """Gradient wrt some entries of K, from the lower triangle of ``B⁻¹``."""
    G = inverse[rows, columns] * (-0.5 * core.s[rows, None])
    G *= core.s[columns]
    G += (0.5 * core.alpha[rows, None]) * core.alpha[columns]
    return G


def join_rows(groups: DistinctInputs, problem: Problem) -> JointRows:
    """The `JointRows` of a problem whose basis are the distinct inputs of its `DistinctInputs`."""
    K, pulls = kernel_matrix(problem.kernel, groups.X, problem.options.n_jobs)
    _, noise, pull_diagonal = kernels.diagonal(problem.kernel, groups.X)
    r = np.broadcast_to(noise, len(groups.X))[groups.index]
    K = linalg.mirror_lower(K)
    return JointRows(problem, problem.layout(), groups, K, pulls, r, pull_diagonal)


def _factor_of_sites(K: Array, s: Array, n_jobs: int) -> Array:
    """Cholesky factor of ``B``, of which only the lower triangle is made."""
    B = np.zeros(K.shape)

    def fill(rows: slice) -> None:
        head = slice(0, rows.stop)
        np.multiply(K[rows, head], s[head], out=B[rows, head])
        B[rows, head] *= s[rows, None]

    for_each(fill, row_blocks(*K.shape), n_jobs)
    B.flat[:: len(B) + 1] += 1.0
    return linalg.cholesky(B, n_jobs, failure=_NO_KERNEL)


def _inverse_with_signs(K: Array, s: Array, negative: Bools, n_jobs: int) -> tuple[Array, float]:
    """``T`` where some precisions are negative, its columns in the order of K, and ``log |B|``."""
    p, q = np.flatnonzero(~negative), np.flatnonzero(negative)
    L = _factor_of_sites(K[np.ix_(p, p)], s[p], n_jobs)
    first = linalg.inverse_lower(L, n_jobs)
    C = (s[q, None] * K[np.ix_(q, p)] * s[p]) @ first.T
    rest = C @ C.T - s[q, None] * K[np.ix_(q, q)] * s[q]
    rest.flat[:: len(q) + 1] += 1.0
    last = linalg.cholesky(rest, n_jobs, failure=NO_POSTERIOR)
    log_det = linalg.log_det_from_cholesky(L) + linalg.log_det_from_cholesky(last)
    last = linalg.inverse_lower(last, n_jobs)
    T = np.zeros(K.shape)
    T[: len(p), p] = first
    T[len(p) :, p] = -last @ (C @ first)
    T[len(p) :, q] = last
    return T, log_det


def _signs(a: Array) -> Array:
    """``D``: those of the precisions, where the negative ones come last."""
    return np.where(np.arange(len(a)) < np.count_nonzero(a >= 0.0), 1.0, -1.0)


def _inverse(core: JointCore, n_jobs: int) -> Array:
    """``B⁻¹``, of which the lower triangle is known."""
    if np.any(core.a < 0.0):
        return (core.T.T * _signs(core.a)) @ core.T
    return linalg.lower_gram(core.T, n_jobs)


def _variances(K: Array, s: Array, a: Array, T: Array, n_jobs: int) -> Array:
    """``h``, from what is left of the prior variance where a site hardly changes it."""
    prior, signs = np.array(K.diagonal()), _signs(a)
    if s**2 @ prior < np.finfo(float).eps:  # a bound of the relative change of all of them
        return prior
    h = (np.where(a < 0.0, -1.0, 1.0) - signs @ T**2) / s**2
    flat = np.flatnonzero(s**2 * prior < _FLAT)
    blocks = [flat[rows] for rows in row_blocks(len(flat), len(K))]
    lost = ordered_map(lambda block: (K[block] * s @ T.T) ** 2 @ signs, blocks, n_jobs)
    for block, change in zip(blocks, lost):
        h[block] = prior[block] - change
    return h

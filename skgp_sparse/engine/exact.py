"""The exact Gaussian process on few distinct rows, evidence at several scales, smaller variances.

Every objective of the family is exact once the inducing points are the distinct training rows; the
dense formulas then keep digits that ``1/σ²`` would cost the collapsed ones when the noise is tiny.
Rows that coincide are one observation of their precision-weighted mean ȳ, of variance D
(`skgp_sparse.data.arrays`):

    log p(y) = log N(ȳ; 0, K + D) - ½ P Σ w_i log 2πσ_i² + ½ P Σ log 2πD_j
               - ½ Σ w_i (y_i - ȳ_j)²/σ_i²

`profile_evidence` compares scales of the targets by values alone. `TightPosterior` has the
variances of the whole posterior given inducing points.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
from scipy.linalg import eigh, solve_triangular
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse.data.arrays import DistinctInputs, GroupMeans
from skgp_sparse.data.dataset import Batch, row_blocks
from skgp_sparse.engine import posterior as contract
from skgp_sparse.engine.basis import Evaluation, InducingFeatures
from skgp_sparse.engine.feature_posterior import ExactPosterior, SparsePosterior
from skgp_sparse.engine.posterior import BOUNDS, JOINT_ROWS, PosteriorAround, float64
from skgp_sparse.ground import linalg
from skgp_sparse.ground.parallel import ordered_map
from skgp_sparse.ground.validation import AnyArray, Array

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
    value = -0.5 * y.size * np.log(variance) - y.shape[1] * log_root
    return float(value), float(variance)


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
def _in_order(x: Array, y: Array) -> tuple[Array, Array]:
    """A column and targets of rows that have a value, in its order; equal ones in a random one."""
    there = np.random.RandomState(0).permutation(np.flatnonzero(np.isfinite(x)))
    order = there[np.argsort(x[there], kind="stable")]
    return x[order], y[order]


def _variogram(y: Array, lag: int) -> float:
    """Half the mean squared difference of rows so many places apart, in units of the variance."""
    return 0.5 * ((y[lag:] - y[:-lag]) ** 2).mean() / (y**2).mean()


_SMALLEST_SHARE = 1e-8  # variance of a direction that is told from none, as a share of the process


# With the residual process ``R = K - V Vᵀ`` of the rows, ``N = diag(σ²/w)``, ``x = r/σ²``, and
# the slope of a variational objective, ``v = -2 ∂F/∂x = 2 φ' reduce'``, the posterior of the rows
# is
#
#     q(f | u) = N( Kfu Kuu⁻¹ u,  N^½ S v S N^½ ),     S = (N^-½ R N^-½)^½
#
# instead of ``R``, which is the case v = 1 (Titsias 2025, eq. 13, where N is the same for all
# rows and cancels). The mean is that of v = 1, and so is q(u). At any place ``*`` the residual
# process is ``R_*f R⁻¹ (f - Kfu Kuu⁻¹ u)`` plus a rest that is independent of f, so that (eq. 17)
#
#     var = var of v = 1  -  ‖(1 - v)^½ S⁻¹ N^-½ R_f*‖².
#
# The variances take the eigenvalues of an n × n matrix. Directions in which the residual process
# hardly varies, the jitter of ``Kuu`` among them, keep v = 1.
@dataclass(frozen=True, eq=False)
class TightPosterior(PosteriorAround):
    """The process given data, with smaller variances than those of its inducing points alone."""

    X: np.ndarray  # (n, d) of training
    weights: np.ndarray  # (n, n) ``N^-½ S⁻¹ (1 - v)^½``
    explained: np.ndarray  # (m, n) ``Vᵀ`` times these

    name = "inducing"
    answers = frozenset([BOUNDS])
    remedy = "Set tight_variance to False, and call fit, not partial_fit."
    holds_rows = True

    features = property(attrgetter("posterior.features"))
    width = n_rows_kept = property(lambda self: len(self.X))

    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> tuple[Array, Array]:
        """Mean (n, p) and latent variance (n,)."""
        mean, variance = self.posterior.mean_and_variance(X, n_jobs)
        blocks = row_blocks(len(X), self.width)
        gain = contract.by_blocks(lambda X: (self._gains(X) ** 2).sum(axis=1), X, blocks, n_jobs)
        signal = np.broadcast_to(kernels.diagonal(self.kernel, float64(X))[0], len(X))
        return mean, contract.without_negative(variance - gain, signal)

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance (n, n)."""
        gains = self._gains(float64(X))
        cov = self.posterior.covariance(X) - gains @ gains.T
        signal = kernels.diagonal(self.kernel, float64(X))[0]
        cov.flat[:: len(cov) + 1] = contract.without_negative(cov.diagonal(), signal)
        return cov

    def deviations(self, X: AnyArray, n_samples: int, random_state: np.random.RandomState) -> Array:
        """Latent samples minus the mean (n, n_samples), of many rows correlated as for v = 1."""
        if len(X) <= JOINT_ROWS:
            return contract.joint_deviations(self, X, n_samples, random_state)
        before, now = (one.mean_and_variance(X)[1] for one in (self.posterior, self))
        shrunk = np.sqrt(np.divide(now, before, out=np.zeros_like(now), where=before > 0))
        return shrunk[:, None] * self.posterior.deviations(X, n_samples, random_state)

    def _gains(self, X: Array) -> Array:
        """``R_*f N^-½ S⁻¹ (1 - v)^½`` (q, n)."""
        V = self.features.whiten(self.features.raw(X))
        return kernels.evaluate(self.kernel, X, self.X) @ self.weights - V @ self.explained


def tightened(plain: SparsePosterior, rows: Batch, bound: Any) -> TightPosterior:
    """The `TightPosterior` given all rows and a variational bound without a noise share."""
    X, _, noise, weight, _ = rows.used()
    signal, learned, _ = kernels.diagonal(plain.kernel, X)
    s2 = noise + learned
    V = plain.features.whiten(plain.features.raw(X))
    residual = plain.features.residual_covariance(X, V)
    x = np.maximum(residual.diagonal(), 0.0) / s2
    root = np.sqrt(weight / s2)  # N^-½
    residual *= root
    residual *= root[:, None]
    values, directions = eigh(residual, overwrite_a=True, check_finite=False, driver="evd")
    kept = values > _SMALLEST_SHARE * np.mean(signal * root**2)
    directions = directions[:, kept]
    weights = (directions / np.sqrt(values[kept])) @ directions.T  # S⁻¹
    weights *= root[:, None]
    phi, slope = bound.for_weights(weight).penalty(x)
    # 2 φ' reduce', at x = r/σ²
    v = 2.0 * bound.reduce(float(weight @ phi), np.sum(weight))[1] * slope
    weights *= np.sqrt(np.maximum(1.0 - v, 0.0))
    return TightPosterior(plain, X, weights, V.T @ weights)


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

    def __getstate__(self):
        """Without the factor of many rows."""
        state = super().__getstate__()
        return {**state, "L": None} if self.size > _PICKLED and self.L is not None else state

    def __setstate__(self, state):
        """With the factor as it was."""
        vars(self).update(state)
        if self.L is None and self.D is not None:
            vars(self)["L"] = _factor(self.kernel, self.Z, self.D, self.n_jobs, gradient=False)[0]

    def for_prediction(self, mean_only=False):
        """A copy of the features for prediction, without L and D if only means are wanted."""
        return replace(super().for_prediction(mean_only), D=None if mean_only else self.D)


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
        solution = linalg.log_det_and_whitened(K, means.mean)
        if solution is not None:
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
    variance = (means.D - means.D**2 * A.diagonal())[groups.index]
    squares = (e**2).sum(axis=1) + n_targets * variance
    noise_bar = groups.sum(0.5 * groups.weight * (squares / means.s2 - n_targets) / means.s2)
    theta_bar += means.pull_diagonal(np.zeros(len(groups.X)), noise_bar)[0]
    return Evaluation(value, {"kernel": theta_bar}, jitter)


def conclude(
    kernel: Kernel, groups: DistinctInputs, n_jobs: int = 1
) -> tuple[float, ExactPosterior, float]:
    """Log marginal likelihood, posterior, whose inducing points are the distinct rows, jitter."""
    value, means, L, alpha, jitter, _ = _solve(kernel, groups, n_jobs, gradient=False)
    features = ExactFeatures(kernel, groups.X, L, D=means.D)
    return value, ExactPosterior(kernel, features, alpha), jitter


def _solve(kernel, groups, n_jobs, gradient=True):
    """Value, `GroupMeans`, L, α (u, p), jitter, and the pullbacks of K."""
    means = GroupMeans(kernel, groups)
    L, jitter, pulls = _factor(kernel, groups.X, means.D, n_jobs, gradient)
    half = linalg.over_lower_transposed(means.mean.T, L)
    value = means.value(linalg.log_det_from_cholesky(L), half)
    return value, means, L, linalg.over_lower(half, L).T, jitter, pulls


def _factor(kernel, X, D, n_jobs, gradient):
    """The factor of ``K + D``, its jitter, and the pullbacks of K."""
    K, pulls = kernel_matrix(kernel, X, n_jobs, gradient)
    K.flat[:: len(K) + 1] += D
    return *linalg.jittered_cholesky(K, _JITTER, n_jobs), pulls


# Of a slice of rows, these pull back to theta the cotangent of the rows among themselves, and
# beside earlier rows, or None.
def kernel_matrix(kernel, X, n_jobs, gradient=True):
    """Kernel matrix (u, u) without white noise, its lower triangle only, and its pullbacks."""
    K = np.zeros((len(X), len(X)))

    def fill(rows):
        before = None
        K[rows, rows], among = kernels.linearize(kernel, X[rows], X[rows])
        if rows.start:
            K[rows, : rows.start], before = kernels.linearize(kernel, X[rows], X[: rows.start])
        return (rows, among, before) if gradient else None

    return K, list(ordered_map(fill, _blocks(kernel, len(X)), n_jobs))


# The `pulls` of `kernel_matrix` are used up. ``cotangent(rows, columns)`` is a new array, and only
# the lower triangle of G is read.
def pull_back(pulls, cotangent, n_jobs):
    """Gradient wrt theta of ``Σ G_ij K_ij`` over all i and j, for symmetric G."""

    def run(index):
        (rows, among, before), pulls[index] = pulls[index], None
        theta_bar = among(linalg.mirror_lower(cotangent(rows, rows)), inputs=False)[0]
        if before is not None:
            head = slice(0, rows.start)
            theta_bar = theta_bar + 2.0 * before(cotangent(rows, head), inputs=False)[0]
        return theta_bar

    return sum(ordered_map(run, range(len(pulls)), n_jobs))


def _blocks(kernel, n):
    """Slices of rows with equal shares of the lower triangle; one for a kernel without a rule."""
    count = max(min(n**2 // _WORTH_SHARING, _MOST_BLOCKS), n**2 // (2 * _LARGEST), 1)
    if count == 1 or not kernels.differentiable(kernel):
        return [slice(0, n)]
    edges = [round(n * (share / count) ** 0.5) for share in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]

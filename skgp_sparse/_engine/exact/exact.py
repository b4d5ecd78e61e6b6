r"""The exact Gaussian process on few distinct rows.

Every objective of the family is exact once the inducing points are the distinct training rows; the
dense formulas then keep digits that ``1/σ²`` would cost the collapsed ones when the noise is tiny.
Rows that coincide are one observation of their precision-weighted mean ȳ, of variance D
(`skgp_sparse._engine.data.distinct_inputs`):

    log p(y) = log N(ȳ; 0, K + D) - ½ P Σ w_i log 2πσ_i² + ½ P Σ log 2πD_j
               - ½ Σ w_i (y_i - ȳ_j)²/σ_i²

and, with ``A = (K + D)⁻¹``, ``α = A ȳ``, ``e_i = y_i - ȳ_j + D_j α_j``:

    ∂/∂K = ½ (α αᵀ - P A),     ∂/∂σ_i² = ½ w_i ( Σ_p e_i²/σ_i⁴ - P/σ_i² + P (D_j - D_j² A_jj)/σ_i⁴ )

An evaluation takes ``u³`` multiplications and additions (factor, its inverse, ``A``) and at most 4
arrays (u, u). Only the lower triangles of ``K`` and ``A`` are computed, in blocks of rows: a block
is two rectangles, the rows beside all earlier ones and the rows among themselves. The second one is
where a kernel meets its own arguments, and keeps a diagonal without rounding.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.data.distinct_inputs import GroupMeans, means_of
from skgp_sparse._engine.features.inducing_basis import InducingFeatures
from skgp_sparse._engine.features.problem import Evaluation
from skgp_sparse._engine.predictions.feature_posterior import ExactPosterior
from skgp_sparse._ground import linalg
from skgp_sparse._ground.parallel import ordered_map

_JITTER = linalg.Jitter(0.0)  # the noise is on the diagonal already
_WORTH_SHARING = 1 << 16  # entries of K for which a block of its own pays
_PICKLED = 1000  # rows of which a pickle has the factor
_ROWS_WITHOUT_TILES = 512  # rows whose value alone needs no tiles
_MOST_BLOCKS = 8  # blocks that K is cut into at most ...
_LARGEST = 1 << 18  # ... unless they had more entries


@dataclass(frozen=True, eq=False)
class ExactFeatures(InducingFeatures):
    """The distinct rows at one kernel, where L is the factor of the noisy kernel matrix.

    A pickle of many rows has no factor, which would take n² numbers: it is computed again.

    Parameters
    ----------
    D : ndarray of shape (m,) or None
        Noise variances of the distinct rows.
    """

    D: np.ndarray | None = None

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

    def first(self, size):
        """Features of the first `size` distinct rows only."""
        return replace(super().first(size), D=self.D[:size])


class _State(NamedTuple):
    means: GroupMeans
    value: float
    L: np.ndarray
    alpha: np.ndarray
    jitter: float
    pulls: list


def value(kernel, groups, n_jobs=1):
    """Exact log marginal likelihood."""
    if len(groups.X) <= _ROWS_WITHOUT_TILES:
        means, K = means_of(kernel, groups), kernels.evaluate(kernel, groups.X, groups.X)
        K.flat[:: len(K) + 1] += means.D
        solution = linalg.log_det_and_whitened(K, means.mean)
        if solution is not None:
            return means.value(*solution)
    return _solve(kernel, groups, n_jobs, gradient=False).value


def value_and_gradient(kernel, groups, n_jobs=1):
    """Exact log marginal likelihood and its gradient wrt theta, as an `Evaluation`."""
    state = _solve(kernel, groups, n_jobs)
    means, alpha, n_targets = state.means, state.alpha, state.alpha.shape[1]
    T = linalg.inverse_lower(state.L, n_jobs)
    state = state._replace(L=None)
    A = linalg.lower_gram(T, n_jobs)
    del T

    def cotangent(rows, columns):
        G = (-0.5 * n_targets) * A[rows, columns]
        G += (0.5 * alpha[rows]) @ alpha[columns].T
        return G

    theta_bar = pull_back(state.pulls, cotangent, n_jobs)
    e = means.rest + (means.D[:, None] * alpha)[groups.index]
    variance = (means.D - means.D**2 * A.diagonal())[groups.index]
    squares = (e**2).sum(axis=1) + n_targets * variance
    noise_bar = groups.sum(0.5 * groups.weight * (squares / means.s2 - n_targets) / means.s2)
    theta_bar += means.pull_diagonal(np.zeros(len(groups.X)), noise_bar)[0]
    return Evaluation(state.value, {"kernel": theta_bar}, state.jitter)


def conclude(kernel, groups, n_jobs=1):
    """Log marginal likelihood, posterior, whose inducing points are the distinct rows, jitter."""
    state = _solve(kernel, groups, n_jobs, gradient=False)
    features = ExactFeatures(kernel, groups.X, state.L, D=state.means.D)
    return state.value, ExactPosterior(kernel, features, state.alpha), state.jitter


def posterior(kernel, groups, n_jobs=1):
    """The exact posterior, and its jitter."""
    return conclude(kernel, groups, n_jobs)[1:]


def _solve(kernel, groups, n_jobs, gradient=True):
    means = means_of(kernel, groups)
    L, jitter, pulls = _factor(kernel, groups.X, means.D, n_jobs, gradient)
    half = linalg.over_lower_transposed(means.mean.T, L)
    value = means.value(linalg.log_det_from_cholesky(L), half)
    return _State(means, value, L, linalg.over_lower(half, L).T, jitter, pulls)


def _factor(kernel, X, D, n_jobs, gradient):
    """The factor of ``K + D``, its jitter, and the pullbacks of K."""
    K, pulls = kernel_matrix(kernel, X, n_jobs, gradient)
    K.flat[:: len(K) + 1] += D
    return *linalg.jittered_cholesky(K, _JITTER, n_jobs), pulls


def kernel_matrix(kernel, X, n_jobs, gradient=True):
    """Kernel matrix without white noise, and its pullbacks.

    Parameters
    ----------
    kernel : sklearn kernel
    X : ndarray of shape (u, d)
    n_jobs : int
    gradient : bool
        Whether pullbacks are wanted.

    Returns
    -------
    K : ndarray of shape (u, u)
        What is above the lower triangle has no meaning.
    pulls : list of tuple
        Of a slice of rows, what pulls back to theta the cotangent of those among themselves, and
        beside earlier rows, or None.
    """
    K = np.zeros((len(X), len(X)))

    def fill(rows):
        before = None
        K[rows, rows], among = kernels.linearize(kernel, X[rows], X[rows])
        if rows.start:
            K[rows, : rows.start], before = kernels.linearize(kernel, X[rows], X[: rows.start])
        return (rows, among, before) if gradient else None

    return K, list(ordered_map(fill, _blocks(kernel, len(X)), n_jobs))


def pull_back(pulls, cotangent, n_jobs):
    """Gradient wrt theta of ``Σ G_ij K_ij`` over all i and j, for symmetric G.

    Parameters
    ----------
    pulls : list of tuple
        Of `kernel_matrix`; used up.
    cotangent : callable
        ``(rows, columns) -> G[rows, columns]``, a new array. Only the lower triangle of G is read.
    n_jobs : int
    """

    def run(index):
        (rows, among, before), pulls[index] = pulls[index], None
        theta_bar = among(linalg.mirror_lower(cotangent(rows, rows)), inputs=False)[0]
        if before is not None:
            head = slice(0, rows.start)
            theta_bar = theta_bar + 2.0 * before(cotangent(rows, head), inputs=False)[0]
        return theta_bar

    return sum(ordered_map(run, range(len(pulls)), n_jobs))


def _blocks(kernel, n):
    """Slices of rows whose parts of the lower triangle are of equal size.

    A kernel without a rule is asked only once.
    """
    count = max(min(n**2 // _WORTH_SHARING, _MOST_BLOCKS), n**2 // (2 * _LARGEST), 1)
    if count == 1 or not kernels.differentiable(kernel):
        return [slice(0, n)]
    edges = [round(n * (share / count) ** 0.5) for share in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]

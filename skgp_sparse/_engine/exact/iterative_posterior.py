r"""The process given all training rows, without inducing points in its mean.

    mean = K*f α,     (K + D) α = y,

with ``D = σ²/w`` and α from conjugate gradients. A variance would need a solve per query. Here it
is the one given some of the rows only, a few leading ones, which are spread over the table, and
those nearest to the query. It is at least the variance given all rows:

    V = L⁻¹ K_L·,   L Lᵀ = K_LL + D_L,      C = K - VᵀV         given the leading rows
    var = C** - C*N (C_NN + D_N)⁻¹ C_N*                         given the nearest rows N, too

Nearest is in units of the length scales. Joint covariances have the correlations given the leading
rows and all those that are near to any of the queries, and the variances above.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.gaussian_process.kernels import ConstantKernel

from skgp_sparse import kernels
from skgp_sparse._engine.data.dataset import row_blocks
from skgp_sparse._engine.features.inducing_basis import InducingFeatures
from skgp_sparse._engine.neighbors.nearest import known_rows
from skgp_sparse._engine.neighbors.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.predictions import posterior as contract
from skgp_sparse._engine.predictions.posterior import (
    BOUNDS,
    JOINT_ROWS,
    LEAVE_ONE_OUT,
    LeftOut,
    Posterior,
    float64,
)
from skgp_sparse._ground.linalg import Jitter, jittered_cholesky
from skgp_sparse._ground.parallel import for_each, ordered_map, slices

_NEAREST = 100  # rows given which a variance is computed
_SEEN = 64_000  # rows whose features are in memory at a time ...
_STRIP = 1024  # ... computed by so many
_QUERIES = 16  # rows of X whose variances are computed together
_ACROSS = 512  # rows of X in a tile of the mean


def leading_rows(kernel, X, noise, n_jobs=1):
    """Features of the process given noisy rows, and the jitter that these took."""
    K = kernels.evaluate(kernel, X, X)
    K.flat[:: len(K) + 1] += noise
    L, jitter = jittered_cholesky(K, Jitter(0.0), n_jobs)
    return InducingFeatures(kernel, X, L), jitter


@dataclass(frozen=True, eq=False)
class IterativePosterior(Posterior):
    """The process given all rows.

    Parameters
    ----------
    prior : sklearn kernel, its white noise included
        Of the process before any data.
    X : ndarray of shape (n, d)
        Training inputs.
    noise : ndarray of shape (n,)
        D.
    alpha : ndarray of shape (n, p)
    features : InducingFeatures
        Given the leading rows.
    rest : ndarray of int
        Training rows that are not among these.
    scale : ndarray of shape (d,)
        Units in which near is near.
    factor : float
        Of all variances, those of the noise included: ``factor * prior`` has the same mean.
    """

    prior: object
    X: np.ndarray
    noise: np.ndarray
    alpha: np.ndarray
    features: InducingFeatures
    rest: np.ndarray
    scale: np.ndarray
    factor: float = 1.0

    name = "rows"
    answers = frozenset([LEAVE_ONE_OUT, BOUNDS])
    holds_rows = True

    # the kernel of the predicted variances
    kernel = property(lambda self: ConstantKernel(self.factor, "fixed") * self.prior)
    width = n_rows_kept = property(lambda self: len(self.X))  # all rows

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""

        def of_block(block):
            mean = 0.0
            for part in row_blocks(len(self.X), len(block)):
                K = kernels.evaluate(self.prior, block, float64(self.X[part]))
                mean = mean + K @ self.alpha[part]
            return mean

        return contract.by_blocks(of_block, X, slices(len(X), _ACROSS), n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, p) and latent variance (n,)."""
        return self.mean(X, n_jobs), self.variance(X, self.nearest(X, n_jobs), n_jobs)

    def covariance(self, X):
        """Latent covariance (n, n)."""
        X, near = float64(X), self.nearest(X)
        used = near[:, : max(JOINT_ROWS // len(X), 1)]
        cov = self._covariance_given(X, np.unique(used))
        signal = kernels.diagonal(self.prior, X)[0]
        return contract.with_variances(cov, self.variance(X, near), signal)

    def leave_one_out(self, rows, chosen, terms, n_jobs=1):
        """`LeftOut` of chosen rows, whose variances are those that neighbours give.

        The mean is ``y - α/A``, with the diagonal A of ``(K + D)⁻¹`` from these variances. It is as
        exact as they are.
        """
        known = known_rows(rows)
        near = NeighborsPosterior.of(self.prior, known, _NEAREST, None, self.factor)
        variance = near.leave_one_out(rows, chosen, terms, n_jobs).variance / near.factor
        used = np.arange(len(rows)) if rows.weight is None else np.cumsum(rows.weight > 0) - 1
        place = used[chosen]  # the posterior has no other rows
        error = self.alpha[place] * (variance + self.noise[place])[:, None]
        return LeftOut(rows.block(chosen).y - error, self.factor * variance)

    def nearest(self, X, n_jobs=1):
        """Training rows (n, k) that are nearest to those of X, the leading ones left out."""
        most = min(_NEAREST, len(self.rest))
        if most == 0:
            return np.empty((len(X), 0), dtype=int)
        from sklearn.neighbors import NearestNeighbors  # an import that takes .1 s

        search = NearestNeighbors(n_neighbors=most, n_jobs=n_jobs)
        search.fit(kernels.in_units(self.prior, self.X[self.rest], self.scale))
        places = kernels.in_units(self.prior, X, self.scale)
        return self.rest[search.kneighbors(places, return_distance=False)]

    def variance(self, X, near, n_jobs=1):
        """Latent variance (n,) given the leading rows and those `near` each row of X (n, k)."""
        at_once = len(X) if len(self.X) <= _SEEN else _SEEN // _NEAREST
        strips = slices(len(X), at_once)
        parts = [self._variances(float64(X[some]), near[some], n_jobs) for some in strips]
        signal = np.broadcast_to(kernels.diagonal(self.prior, float64(X))[0], len(X))
        return self.factor * contract.without_negative(np.concatenate(parts), signal)

    def _variances(self, X, near, n_jobs):
        """Latent variances of queries, which share the features of the rows near to any."""
        rows, places = np.unique(near, return_inverse=True)
        places = places.reshape(near.shape)
        V = np.empty((len(rows), self.features.size))

        def fill(strip):
            V[strip] = self._with_features(self.X[rows[strip]])[1]

        def of_few(few):
            return self._given_nearest(X[few], near[few], V[places[few]])

        for_each(fill, slices(len(rows), _STRIP), n_jobs)
        return np.concatenate(list(ordered_map(of_few, slices(len(X), _QUERIES), n_jobs)))

    def _given_nearest(self, X, near, V):
        """Variances of few queries, given features (n, k, m) of the rows near to each."""
        X, VX = self._with_features(X)
        C, across = -(V @ V.transpose(0, 2, 1)), -(V @ VX[:, :, None])
        K = kernels.stacked(self.prior, np.hstack([float64(self.X[near]), X[:, None]]))
        C += K[:, :-1, :-1]
        across += K[:, :-1, -1:]
        half = self._halves(C, near, across)
        variance = self.features.residual_variance(X, VX, kernels.diagonal(self.prior, X)[0])
        return variance - np.einsum("nki,nki->n", half, half)

    def _halves(self, C, near, across):
        """`_half` of every query: all at once, unless one of them needs jitter."""
        noisy = C.copy()
        np.einsum("nii->ni", noisy)[:] += self.noise[near]
        try:
            return np.linalg.solve(np.linalg.cholesky(noisy), across)
        except np.linalg.LinAlgError:
            return np.array([self._half(*of_one) for of_one in zip(C, near, across)])

    def _covariance_given(self, X, rows):
        X, VX = self._with_features(X)
        cov = self.features.residual_covariance(X, VX)
        if len(rows) == 0:
            return cov
        known, V = self._with_features(self.X[rows])
        C = self.features.residual_covariance(known, V)
        half = self._half(C, rows, (kernels.evaluate(self.prior, known, X) - V @ VX.T))
        return cov - half.T @ half

    def _with_features(self, X):
        X = float64(X)
        return X, self.features.whiten(self.features.raw(X))

    def _half(self, C, rows, across):
        """``L⁻¹ across`` with ``L Lᵀ = C + D``.

        Jitter is in units of the prior, whose rounding is in C. More noise than there is can only
        enlarge the variance that follows.
        """
        unit = np.mean(kernels.diagonal(self.prior, float64(self.X[rows]))[0])
        C.flat[:: len(C) + 1] = np.maximum(C.diagonal(), 0.0) + self.noise[rows]
        L = jittered_cholesky(C / unit, Jitter(0.0, relative=False))[0]
        return solve_triangular(L, across, lower=True, check_finite=False) / np.sqrt(unit)

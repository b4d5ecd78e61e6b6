r"""The process given, for every query, the training rows that are nearest to it.

    mean = k_Nᵀ a,     var = k(x, x) - k_Nᵀ w,     (K_NN + D_N) (w, a) = (k_N, y_N),

with ``D = σ²/weight``; see `kriging`. A prediction takes O(k³) time, however many rows there are.
Joint covariances have the correlations given all rows that are near to any of the queries, and the
variances above.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel

from skgp_sparse import kernels
from skgp_sparse._engine import kriging, process
from skgp_sparse._engine.metric import in_metric, scale_of, seen
from skgp_sparse._engine.nearest import DistinctRows
from skgp_sparse._engine.process import JOINT_ROWS, Process
from skgp_sparse._engine.visited_rows import JoinedRows, TableRows
from skgp_sparse._ground.linalg import Jitter, jittered_cholesky
from skgp_sparse._ground.parallel import ordered_map, slices

_TOGETHER = 1 << 14  # queries whose neighbours are looked for together


@dataclass(frozen=True, eq=False)
class NeighborsPosterior(Process):
    """The process given the nearest rows.

    Parameters
    ----------
    prior : sklearn kernel, its white noise included
        Of the process before any data, in the metric.
    rows : DistinctRows, JoinedRows or TableRows
        In memory, in pieces, or looked for in a table.
    noise : ndarray of shape (u,) or None
        D; None: that of the kernel and of the rows that are found.
    k : int
        Rows that a prediction is given.
    scale : ndarray of shape (r,)
        Units in which near is near, in the metric.
    metric : ndarray of shape (r, d) or None
        W, where inputs are seen as ``W x``; None: as they are.
    factor : float
        Of all variances, those of the noise included: ``factor * prior`` has the same mean.
    """

    prior: object
    rows: DistinctRows | JoinedRows | TableRows
    noise: np.ndarray | None
    k: int
    scale: np.ndarray
    metric: np.ndarray | None = None
    factor: float = 1.0

    kind = "neighbors"

    @classmethod
    def of(cls, prior, rows, k, metric=None, factor=1.0):
        """That of known rows, near in units of the length scales of the kernel."""
        scale = scale_of(prior, metric, rows.n_features)
        return cls(prior, rows, rows.variances(prior), min(k, rows.n_places), scale, metric, factor)

    # of the predicted variances
    kernel = property(lambda self: ConstantKernel(self.factor, "fixed") * self.prior)
    width = property(lambda self: (self.k + 1) ** 2)
    table = property(lambda self: getattr(self.rows, "table", None))  # that is visited
    n_rows_kept = property(lambda self: self.rows.n_kept)

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""
        return self.mean_and_variance(X, n_jobs)[0]

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, p) and latent variance (n,)."""
        parts = [self._local(X[some], n_jobs) for some in slices(len(X), _TOGETHER)]
        mean, variance, signal = (np.concatenate(one) for one in zip(*parts))
        return mean, self.factor * process.without_negative(variance, signal)

    def covariance(self, X):
        """Latent covariance (n, n)."""
        rows, near = self.around(X)
        known = np.unique(near[:, : max(JOINT_ROWS // len(X), 1)])
        Q, N, noise = self.inputs(X), self.inputs(rows.X[known]), self.noise_of(rows)[known]
        cov, across = kernels.evaluate(self.prior, Q, Q), kernels.evaluate(self.prior, N, Q)
        A, unit = kernels.evaluate(self.prior, N, N), np.mean(cov.diagonal())
        A.flat[:: len(A) + 1] += noise
        L = jittered_cholesky(A / unit, Jitter(0.0, relative=False))[0]
        half = np.linalg.solve(L, across) / np.sqrt(unit)
        cov -= half.T @ half
        return process.with_variances(cov, self.mean_and_variance(X)[1], unit)

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean (n, n_samples), independent where there are many rows.

        Given the training rows near to it, the process is correlated over short distances only.
        """
        if len(X) <= JOINT_ROWS:
            return process.joint_deviations(self, X, n_samples, random_state)
        std = np.sqrt(self.mean_and_variance(X)[1])
        return std[:, None] * random_state.normal(size=(n_samples, len(X))).T

    def plus(self, rows):
        """The same process given more `DistinctRows`."""
        return self._given(JoinedRows(self._pieces).plus(rows))

    def forgetting(self, factor):
        """The same process whose rows count less."""
        return self._given(JoinedRows(self._pieces).times(factor))

    @property
    def _pieces(self):
        return getattr(self.rows, "pieces", (self.rows,))

    def _given(self, rows):
        """The same process given other rows; searches of pieces that stay are used again."""
        other = replace(self, rows=rows, noise=None)
        if "search" in vars(self):
            see = partial(seen, self.prior, self.metric, self.scale)
            vars(other)["search"] = rows.search(see, self.search.parts)
        return other

    def inputs(self, X):
        """Inputs in the metric, float64."""
        return in_metric(self.metric, X)

    def around(self, X, n_jobs=1, k=None):
        """Distinct rows, and the numbers (n, k) of those that are nearest to the rows of X."""
        places = seen(self.prior, self.metric, self.scale, X)
        return self.search.around(places, k or self.k, n_jobs)

    def noise_of(self, rows):
        """D of distinct rows."""
        return rows.variances(self.prior) if self.noise is None else self.noise

    @cached_property
    def search(self):
        """Of the nearest rows."""
        return self.rows.search(partial(seen, self.prior, self.metric, self.scale))

    def __getstate__(self):
        return {name: one for name, one in vars(self).items() if name != "search"}

    def _local(self, X, n_jobs):
        """Mean (n, p), variance (n,) and prior variance (n,)."""
        rows, near = self.around(X, n_jobs)
        noise = self.noise_of(rows)

        def of_block(block):
            P = np.concatenate([rows.X[near[block]], X[block, None]], axis=1, dtype=float)
            if self.metric is not None:
                P = (P - P[:, -1:]) @ self.metric.T
            of_query = near[block]
            return kriging.krige(self.prior, P, rows.y[of_query], noise[of_query])

        blocks = slices(len(X), kriging.block_size(near.shape[1]))
        return [np.concatenate(one) for one in zip(*ordered_map(of_block, blocks, n_jobs))]

r"""The process given, for every query, the training rows that are nearest to it.

    mean = k_Nᵀ a,     var = k(x, x) - k_Nᵀ w,     (K_NN + D_N) (w, a) = (k_N, y_N),

with ``D = σ²/weight``; see `left_out`. A prediction takes O(k³) time, however many rows there are.
Joint covariances have the correlations given all rows that are near to any of the queries, and the
variances above.

Rows with Gaussian sites, each predicted by the sites of the rows that are near to it.

A place where rows i have the sites ``(λ1, λ2)_i`` and the weights w has the sum of these,

    λ1 = Σ w λ1_i,    λ2 = Σ w λ2_i,    target λ1/λ2,    noise 1/λ2,

which is all that `krige` takes. A place where no row says anything (``λ2 = 0``) has next to
endless noise. What is left at the place of a row without one copy of it is near to this row, too.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel

from skgp_sparse import kernels
from skgp_sparse._engine.neighbors import left_out
from skgp_sparse._engine.neighbors.left_out import LeaveOneOut
from skgp_sparse._engine.neighbors.nearest import DistinctRows, NearestRows, distinct_rows
from skgp_sparse._engine.predictions import posterior as contract
from skgp_sparse._engine.predictions.posterior import (
    GRADIENTS,
    JOINT_ROWS,
    LEAVE_ONE_OUT,
    LeftOut,
    Posterior,
    Slopes,
    float64,
    in_metric,
    scale_of,
    scaled_inputs,
)
from skgp_sparse._ground.linalg import Jitter, jittered_cholesky
from skgp_sparse._ground.parallel import slices

_SMALLEST_PRECISION = 1e-30  # precision of a place that says nothing
_PLACES_PER_SEARCH = 1 << 14  # places whose neighbours are looked for together
_PRECISION_TOLERANCE = 1e-9  # of a precision, that is left where a row is alone at its place


class SiteRows(NamedTuple):
    """Rows at places, and the places that are near to each of these."""

    X: np.ndarray  # (u, d) distinct places, float64
    place: np.ndarray  # (n,) of every row
    y: np.ndarray  # (n, p) observations
    offset: np.ndarray  # (n,) known, of the latent value
    weight: np.ndarray  # (n,)
    near: np.ndarray | None = None  # (u, k + 1) places near to a place, itself included

    @classmethod
    def of(cls, rows):
        """`SiteRows` of the rows with weight, and `DistinctRows` of them in the user's numbers."""
        block = rows.everything()
        used = np.broadcast_to(block.weight, len(rows)) > 0
        X, block = rows.stored_inputs(), block.used()
        distinct = distinct_rows(X if used.all() else X[used], block)
        place = distinct.of(np.arange(len(block.X)))
        X = np.asarray(distinct.X, dtype=np.float64)
        return cls(X, place, block.y, block.offset, block.weight), distinct

    n_rows = property(lambda self: len(self.y))

    def with_neighbors(self, k, X, n_jobs):
        """A copy in which every place has k others as neighbours, nearest in its inputs X (u, r).

        `scaled_inputs` says what X is.
        """
        search, k = NearestRows(X), min(k + 1, len(X))
        near = np.empty((len(X), k), dtype=np.int32)
        for some in slices(len(X), _PLACES_PER_SEARCH):
            near[some] = search.nearest(X[some], k, n_jobs)[0]
        return self._replace(near=near)

    def at_places(self, sites):
        """Sums (2, u) of the sites (2, n) of the rows at every place."""
        u = len(self.X)
        return np.stack([np.bincount(self.place, self.weight * one, u) for one in sites])

    def left_out(self, rows, sites, total):
        """`LeaveOneOut` of some rows, given the sites of the others.

        Its targets (s, p + 1) are observations and offsets.

        Parameters
        ----------
        rows : ndarray of shape (s,) or slice
        sites : ndarray of shape (2, n)
        total : ndarray of shape (2, u)
            What `at_places` makes of them.
        """
        own, weight = self.place[rows], self.weight[rows]
        near, share = self.near[own], np.minimum(weight, 1.0)
        here = near == own[:, None]
        linear, precision = (
            one[near] - here * (share * site[rows])[:, None] for one, site in zip(total, sites)
        )
        silent = precision <= here * _PRECISION_TOLERANCE * total[1][near] + _SMALLEST_PRECISION
        targets, noise = targets_and_noise(
            np.where(silent, 0.0, linear), np.where(silent, 0.0, precision)
        )
        y = np.column_stack([self.y[rows], self.offset[rows]])
        ones, known = np.ones(near.shape), np.zeros(len(own))
        return LeaveOneOut(self.X, own, near, y, known, weight, targets[:, :, None], noise, ones)


def targets_and_noise(linear, precision):
    """Targets and noise of places from their sites."""
    noise = 1.0 / np.maximum(precision, _SMALLEST_PRECISION)
    return linear * noise, noise


_QUERIES_PER_SEARCH = 1 << 14  # queries whose neighbours are looked for together
_ROWS_LEFT_OUT = 1 << 13  # rows that are left out together, given their neighbours


@dataclass(frozen=True, eq=False)
class NeighborsPosterior(Posterior):
    """The process given the nearest rows.

    Parameters
    ----------
    prior : sklearn kernel, its white noise included
        Of the process before any data, in the metric.
    rows : DistinctRows
    noise : ndarray of shape (u,)
        D.
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
    rows: DistinctRows
    noise: np.ndarray
    k: int
    scale: np.ndarray
    metric: np.ndarray | None = None
    factor: float = 1.0

    name = "neighbors"
    answers = frozenset([LEAVE_ONE_OUT, GRADIENTS])
    holds_rows = True

    @classmethod
    def of(cls, prior, rows, k, metric=None, factor=1.0):
        """Posterior given known rows, near in units of the length scales of the kernel."""
        scale = scale_of(prior, metric, rows.X.shape[1])
        return cls(prior, rows, rows.variances(prior), min(k, len(rows.X)), scale, metric, factor)

    # the kernel of the predicted variances
    kernel = property(lambda self: ConstantKernel(self.factor, "fixed") * self.prior)
    width = property(lambda self: (self.k + 1) ** 2)
    n_rows_kept = property(lambda self: len(self.rows.X))

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""
        return self.mean_and_variance(X, n_jobs)[0]

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, p) and latent variance (n,)."""
        parts = [self._local(X[some], n_jobs) for some in slices(len(X), _QUERIES_PER_SEARCH)]
        mean, variance, signal = (np.concatenate(one) for one in zip(*parts))
        return mean, self.factor * contract.without_negative(variance, signal)

    def covariance(self, X):
        """Latent covariance (n, n)."""
        known = np.unique(self.around(X)[:, : max(JOINT_ROWS // len(X), 1)])
        Q, N, noise = self.inputs(X), self.inputs(self.rows.X[known]), self.noise[known]
        cov, across = kernels.evaluate(self.prior, Q, Q), kernels.evaluate(self.prior, N, Q)
        A, unit = kernels.evaluate(self.prior, N, N), np.mean(cov.diagonal())
        A.flat[:: len(A) + 1] += noise
        L = jittered_cholesky(A / unit, Jitter(0.0, relative=False))[0]
        half = np.linalg.solve(L, across) / np.sqrt(unit)
        cov -= half.T @ half
        return contract.with_variances(cov, self.mean_and_variance(X)[1], unit)

    def leave_one_out(self, rows, chosen, terms, n_jobs=1):
        """`LeftOut` of chosen rows: the nearest others predict each."""
        if terms.cavities is not None:
            mean, variance = terms.cavities(chosen)
            return LeftOut(mean[:, None], variance)

        def of_block(some):
            numbers = chosen[some]
            block = rows.block(numbers)
            near = self.around(block.X, n_jobs, self.k + 1)
            left = left_out.left_out(self.rows, block, numbers, near, np.ones(len(numbers)))
            mean, variance = left_out.moments(self.prior, left, self.metric, n_jobs)
            own = kernels.diagonal(self.prior, block.X)[1] + block.noise
            return mean, self.factor * np.maximum(variance - own, 0.0)

        return LeftOut(*contract.joined(of_block, slices(len(chosen), _ROWS_LEFT_OUT), 1))

    def gradients(self, X, latent, n_jobs=1):
        """`Slopes` at the rows of X, the neighbours of a query held.

        Predictions jump where other rows become the nearest ones.
        """
        X = float64(X)
        rows, near, metric = self.rows, self.around(X, n_jobs), self.metric

        def of_block(some):
            P = self._together(near[some], X[some])
            given = self.prior, P, rows.y[near[some]], self.noise[near[some]]
            local, n_targets = left_out.krige(*given), rows.y.shape[1]

            def slope(g_mean, g_variance):
                bars = np.tile(g_mean, (len(P), 1)), np.full(len(P), g_variance)
                found = left_out.linearise(*given)[1](*bars, True)[1][:, -1]
                return found if metric is None else found @ metric

            own = np.full(len(P), 0.0 if latent else 1.0)
            _, learned, pull_diagonal = kernels.diagonal(self.kernel, X[some])
            variance_slope = pull_diagonal(np.zeros(len(P)), own, inputs=True)[1]
            variance_slope = variance_slope + self.factor * slope(np.zeros(n_targets), 1.0)
            variance = self.factor * np.maximum(local.variance, 0.0) + own * learned
            each = [slope(target, 0.0) for target in np.eye(n_targets)]
            return Slopes(local.mean, variance, np.stack(each, axis=1), variance_slope)

        blocks = slices(len(X), left_out.block_size(near.shape[1]))
        return Slopes(*contract.joined(of_block, blocks, n_jobs))

    def with_fewer_neighbors(self, most):
        """A copy of the posterior that predicts from at most so many neighbours."""
        if self.k <= most:
            return self
        other = replace(self, k=most)
        vars(other)["search"] = self.search
        return other

    def with_noise_of(self, prior):
        """A copy of the posterior with a prior of other noise, whose near rows are the same."""
        other = replace(self, prior=prior, noise=self.rows.variances(prior))
        vars(other)["search"] = self.search
        return other

    def inputs(self, X):
        """Inputs in the metric, float64."""
        return in_metric(self.metric, X)

    def around(self, X, n_jobs=1, k=None):
        """Numbers (n, k) of the distinct rows that are nearest to the rows of X."""
        places = scaled_inputs(self.prior, self.metric, self.scale, X)
        return self.search.nearest(places, k or self.k, n_jobs)[0]

    @cached_property
    def search(self):
        """Search for the rows that are nearest to points."""
        return NearestRows(scaled_inputs(self.prior, self.metric, self.scale, self.rows.X))

    def __getstate__(self):
        return {name: one for name, one in vars(self).items() if name != "search"}

    def _local(self, X, n_jobs):
        """Mean (n, p), variance (n,) and prior variance (n,)."""
        near = self.around(X, n_jobs)

        def of_block(block):
            of_query = near[block]
            P = self._together(of_query, X[block])
            return left_out.krige(self.prior, P, self.rows.y[of_query], self.noise[of_query])

        blocks = slices(len(X), left_out.block_size(near.shape[1]))
        return contract.joined(of_block, blocks, n_jobs)

    def _together(self, near, X):
        """Neighbours and queries (n, k + 1, r), in a metric around the query."""
        P = np.concatenate([self.rows.X[near], X[:, None]], axis=1, dtype=float)
        return P if self.metric is None else (P - P[:, -1:]) @ self.metric.T

r"""Rows with Gaussian sites, each predicted by the sites of the rows that are near to it.

A place where rows i have the sites ``(λ1, λ2)_i`` and the weights w has the sum of these,

    λ1 = Σ w λ1_i,    λ2 = Σ w λ2_i,    target λ1/λ2,    noise 1/λ2,

which is all that `kriging` takes. A place where no row says anything (``λ2 = 0``) has next to
endless noise. What is left at the place of a row without one copy of it is near to this row, too.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.neighbors.left_out import LeaveOneOut
from skgp_sparse._engine.neighbors.nearest import NearestRows, distinct_rows
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

        `metric.scaled_inputs` says what X is.
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

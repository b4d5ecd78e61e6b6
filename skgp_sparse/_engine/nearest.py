"""The rows nearest to any points, and distinct rows.

Nearest is in units of the length scales. Rows that coincide are one row of their mean target, whose
weight is the sum of theirs, so that k rows are k distinct places. Of rows that are equally far, the
one that comes first is nearer.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from skgp_sparse import kernels

_FEW_COLUMNS = 8.0  # that matter, up to which a tree is faster than all distances
_TIES = 12  # rows beyond the last one that is wanted, among which there may be as near ones
_SHARE_OF_MEMORY = 1 / 4  # of the working memory, in which the rows of a source become arrays
_CHUNK = 1 << 16  # rows whose codes are computed together


class NearestRows:
    """Finds the rows nearest to any points.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows, in units in which near is near.
    """

    def __init__(self, X):
        self.n = len(X)
        self.varies = np.ptp(X, axis=0) > 0 if len(X) else np.ones(X.shape[1], dtype=bool)
        self.varies[:1] |= not self.varies.any()
        self.common = X[0, ~self.varies] if len(X) else np.zeros(0)
        X = X if self.varies.all() else np.ascontiguousarray(X[:, self.varies])
        spread = X.var(axis=0) if len(X) else np.ones(X.shape[1])
        columns = spread.sum() ** 2 / max(np.sum(spread**2), np.finfo(float).tiny)
        self.X = self.tree = None
        if columns <= _FEW_COLUMNS:
            self.tree = cKDTree(X, balanced_tree=False, compact_nodes=False)
        else:
            self.X = X

    def nearest(self, Q, k, n_jobs=1):
        """Numbers of the rows (q, k) that are nearest to the points Q (q, d), and distances."""
        wanted = min(k + _TIES, self.n)
        if not wanted:
            return np.empty((len(Q), 0), dtype=int), np.empty((len(Q), 0))
        apart = ((Q[:, ~self.varies] - self.common) ** 2).sum(axis=1)  # from all rows alike
        Q = Q if self.varies.all() else np.ascontiguousarray(Q[:, self.varies])
        if self.tree is not None:
            distances, rows = self.tree.query(Q, k=[*range(1, wanted + 1)], workers=n_jobs)
        else:
            from sklearn.neighbors import NearestNeighbors  # an import that takes .1 s

            search = NearestNeighbors(n_neighbors=wanted, algorithm="brute", n_jobs=n_jobs)
            distances, rows = search.fit(self.X).kneighbors(Q)
        rows, distances = first_of(distances, rows, k)
        return rows, np.sqrt(distances**2 + apart[:, None])


def first_of(distances, rows, k):
    """The k nearest (q, k) of more rows, and their distances; ties by the number of the row."""
    order = np.argsort(rows, axis=1)
    rounded = np.take_along_axis(distances, order, axis=1).astype(np.float32)
    nearest = np.argsort(rounded, axis=1, kind="stable")[:, :k]
    order = np.take_along_axis(order, nearest, axis=1)
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(distances, order, axis=1)


class DistinctRows(NamedTuple):
    """Rows of which no two coincide, unless their known noise differs."""

    X: np.ndarray  # (u, d), of the type of the user's
    y: np.ndarray  # (u, p) mean of the standardised targets
    noise: np.ndarray  # (u,) known noise variance
    weight: np.ndarray  # (u,)
    index: np.ndarray | None  # (n,) the distinct row of every row; None: every row is distinct

    def of(self, rows):
        """The distinct rows of some rows."""
        return rows if self.index is None else self.index[rows]

    def variances(self, kernel):
        """Variances D (u,) of the noise, that of the kernel included."""
        learned = kernels.diagonal(kernel, self.X)[1]
        return (learned + self.noise) / self.weight


def known_rows(table, memory=np.inf):
    """The rows of a table as `DistinctRows`; raises where they take too much of the memory."""
    if not table.in_memory:
        if 8 * len(table) * (table.n_features + table.n_targets) > _SHARE_OF_MEMORY * memory:
            raise ValueError(
                f"posterior='neighbors' keeps rows in memory, and {len(table)} rows of a source "
                "take more than a quarter of working_memory. Raise it by sklearn.set_config, or "
                "set posterior='inducing'."
            )
        table = table.subset(np.arange(len(table)))
    return distinct_rows(table.stored_inputs(), table.everything())


def distinct_rows(X, block):
    """`DistinctRows` of a `Batch`, whose inputs X are as the user passed them.

    Rows of weight zero are left out; they belong to the first distinct row.
    """
    n = len(X)
    noise, weight = (np.array(np.broadcast_to(c, n), float) for c in (block.noise, block.weight))
    codes = _codes(X, noise)
    used = weight > 0
    _, first, index = np.unique(codes[used], return_index=True, return_inverse=True)
    if len(first) == n:
        return DistinctRows(X, block.y, noise, weight, None)
    first = np.flatnonzero(used)[first]
    order = np.argsort(first)  # distinct rows in the order in which they came
    group = np.zeros(n, dtype=np.intp)
    group[used] = np.argsort(order)[index]
    first = first[order]
    total = np.bincount(group, weight, minlength=len(first))
    sums = [np.bincount(group, weight * column, minlength=len(first)) for column in block.y.T]
    y = np.stack(sums, axis=1) / total[:, None]
    return DistinctRows(X[first], y, noise[first], total, group)


def _codes(X, noise):
    """A number for every row: equal for equal rows, and for one in 1e19 pairs of others."""
    codes = np.empty(len(X), dtype=np.uint64)
    for rows in (slice(k, k + _CHUNK) for k in range(0, len(X), _CHUNK)):
        code = np.zeros(len(X[rows]), dtype=np.uint64)
        for column in (*X[rows].T, noise[rows]):
            code = _mixed(code + np.uint64(0x9E3779B97F4A7C15) ^ _bits(column))
        codes[rows] = code
    return codes


def _bits(column):
    return (column.astype(np.float64) + 0.0).view(np.uint64)  # -0 is 0


def _mixed(code):
    """All bits of the result depend on all of the code (Steele, Lea and Flood 2014, SplitMix)."""
    code = (code ^ (code >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    code = (code ^ (code >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return code ^ (code >> np.uint64(31))

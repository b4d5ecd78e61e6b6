"""Neighbours among rows that are not in one array.

Every block of a table answers which of its distinct rows are nearest to each of some points, and
the answers are added up: copies of a row in different blocks become one row with a weight, and of
all rows those that are nearest stay. So a search is one visit, and blocks may be chunks of a source
or parts on the workers of a cluster.

Rows that arrive later are pieces, too. A new piece is joined with the last ones as long as they are
not much larger: rows change their piece, and its tree is built anew, only log n times.
"""

import pickle
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.data.dataset import Dataset
from skgp_sparse._engine.features.problem import Options
from skgp_sparse._engine.neighbors.nearest import DistinctRows, distinct_rows, first_of

_SHARE_OF_MEMORY = 1 / 4  # of the working memory, in which the rows of a source become arrays
_LARGER = 2.0  # a piece that stays, in units of the one that comes
_COLUMNS = 8  # of a block that has as many rows as one of an array (rows, 1)


def known_rows(table, memory=np.inf):
    """The rows of a table as `DistinctRows`, as `TableRows` where they exceed a share of memory."""
    numbers = len(table) * (table.n_features + table.n_targets)
    if not table.in_memory and 8 * numbers > _SHARE_OF_MEMORY * memory:
        return TableRows(table)
    if not table.in_memory:
        table = table.subset(np.arange(len(table)))
    return distinct_rows(table.stored_inputs(), table.everything())


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table, which are visited whenever neighbours are looked for.

    It has the methods of `DistinctRows`. A pickle of it holds the table, thus its source; rows on
    a cluster do not travel.

    Parameters
    ----------
    table : Dataset
    """

    table: Dataset

    n_kept = 0
    n_features = property(lambda self: self.table.n_features)
    n_places = property(lambda self: len(self.table))  # at most

    def variances(self, kernel):
        """None: they are computed for the rows that are found."""
        return None

    def search(self, scaled):
        """`TableSearch` in the units that a function makes of inputs."""
        return TableSearch(self.table, scaled)

    def __getstate__(self):
        if not self.table.travels:
            raise TypeError(
                "A model with posterior='neighbors' predicts from its rows, which are on a "
                "cluster: it predicts arrays, such as X.compute(), and has no pickle. Raise "
                "working_memory by sklearn.set_config, until a quarter of it holds the rows, and "
                "fit again, or set posterior='inducing'."
            )
        try:
            pickle.dumps(self.table)
        except Exception as error:
            raise TypeError(
                "A model with posterior='neighbors' predicts from the rows of its source, which "
                f"cannot be pickled ({error}). Make the source of objects that can, such as "
                "sources.Files of paths, or set posterior='inducing', whose pickles have no rows."
            ) from error
        return vars(self)


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """Distinct rows in pieces, to which others may come; it has the methods of `DistinctRows`.

    Parameters
    ----------
    pieces : tuple of DistinctRows
    """

    pieces: tuple

    n_features = property(lambda self: self.pieces[0].n_features)
    n_places = n_kept = property(lambda self: sum(len(piece.X) for piece in self.pieces))

    def plus(self, rows):
        """Joined rows to which other `DistinctRows` are added."""
        pieces = list(self.pieces)
        while pieces and len(pieces[-1].X) <= _LARGER * len(rows.X):
            rows = _merged(pieces.pop(), rows)[0]
        return JoinedRows((*pieces, rows))

    def times(self, factor):
        """Joined rows with weights multiplied by a factor; no rows if the factor is 0."""
        if not factor:
            return JoinedRows(tuple(piece.take(slice(0)) for piece in self.pieces[:1]))
        scaled = (piece._replace(weight=factor * piece.weight) for piece in self.pieces)
        return JoinedRows(tuple(scaled))

    def variances(self, kernel):
        """None: they are computed for the rows that are found."""
        return None

    def search(self, scaled, before=()):
        """`JoinedSearch`, in which searches that were made before are used again."""
        made = {id(part.rows): part for part in before}
        return JoinedSearch(tuple(made.get(id(one)) or one.search(scaled) for one in self.pieces))


class JoinedSearch(NamedTuple):
    """Finds the distinct rows nearest to any points, piece by piece."""

    parts: tuple  # of `PlaceSearch`

    def around(self, Q, k, n_jobs=1):
        """`FoundRows`, and the numbers (q, k) of those that are nearest to Q (q, r)."""
        first, *others = (Nearest.of(part, Q, k, n_jobs) for part in self.parts)
        nearest = sum(others, first)
        return FoundRows(*nearest.rows), nearest.near


class TableSearch(NamedTuple):
    """Finds the distinct rows nearest to any points, in one visit of a table."""

    table: Dataset
    scaled: object  # inputs (n, d) -> (n, r), in units in which near is near

    def around(self, Q, k, n_jobs=1):
        """`FoundRows`, and the numbers (q, k) of those that are nearest to Q (q, r)."""
        layout = self.table.layout(-(-self.table.n_features // _COLUMNS), 0, Options(n_jobs=n_jobs))
        function = partial(_nearest_of_block, Q, k, self.scaled)
        (nearest,), _ = self.table.visit(function, layout, keep=[False] * len(layout.blocks))
        return FoundRows(*nearest.rows), nearest.near


class FoundRows(DistinctRows):
    """Distinct rows that were found near to some points."""

    def of(self, rows, block):
        """The distinct rows of some rows, -1 where they were not found."""
        noise = np.array(np.broadcast_to(block.noise, len(block.X)), float)
        place, known = _places(self, self._replace(X=block.X, noise=noise))
        return np.where(known, place, -1)


@dataclass(frozen=True, eq=False)
class Nearest:
    """The distinct rows of some blocks that are nearest to each of some points.

    Parameters
    ----------
    rows : DistinctRows
        In the order in which they came.
    near : ndarray of shape (q, k)
        Their numbers; fewer columns where there are fewer rows.
    distances : ndarray of shape (q, k)
    k : int
        How many are wanted.
    """

    rows: DistinctRows
    near: np.ndarray
    distances: np.ndarray
    k: int

    @classmethod
    def of(cls, search, Q, k, n_jobs=1):
        """Nearest rows to the points Q, found by a `PlaceSearch`."""
        k_here = min(k, search.rows.n_places)
        near, distances = search.tree.nearest(Q, k_here, n_jobs)
        return cls(search.rows, near, distances, k).without_others()

    def __add__(self, later):
        rows, index = _merged(self.rows, later.rows)
        near = np.hstack([self.near, index[later.near]])
        distances = np.hstack([self.distances, later.distances])
        distances[_repeated(near)] = np.inf
        near, distances = first_of(distances, near, min(self.k, len(rows.X)))
        return Nearest(rows, near, distances, self.k).without_others()

    def without_others(self):
        """A copy without the rows that are near to none of the points."""
        used, near = np.unique(self.near, return_inverse=True)
        return Nearest(self.rows.take(used), near.reshape(self.near.shape), self.distances, self.k)


def _nearest_of_block(Q, k, scaled, read):
    """The `Nearest` rows of a block, as a sum of `Dataset.visit`."""
    block = read()
    return (Nearest.of(distinct_rows(block.X, block).search(scaled), Q, k),), None


def _merged(first, later):
    """Distinct rows of both, and the number that each of the later ones has among them."""
    place, known = _places(first, later)
    weight, y = first.weight.copy(), first.y.copy()
    at, copies = place[known], later.weight[known]
    weight[at] += copies
    y[at] += (copies / weight[at])[:, None] * (later.y[known] - y[at])
    place[~known] = len(weight) + np.arange(np.count_nonzero(~known))
    first = first._replace(y=y, weight=weight)
    columns = (np.concatenate([a, b[~known]]) for a, b in zip(first[:4], later[:4]))
    return DistinctRows(*columns, None), place


def _places(first, later):
    """Numbers of the later rows among the first ones, and which of them are there."""
    codes, wanted = first.codes(), later.codes()
    order = np.argsort(codes)
    place = np.searchsorted(codes[order], wanted)
    if not len(codes):
        return place, np.zeros(len(place), dtype=bool)
    place = order[np.minimum(place, len(codes) - 1)]
    return place, codes[place] == wanted


def _repeated(near):
    """Whether a number (q, k) is further left in its row, too."""
    order = np.argsort(near, axis=1, kind="stable")
    sorted_ = np.take_along_axis(near, order, axis=1)
    again = np.zeros(near.shape, dtype=bool)
    np.put_along_axis(again, order[:, 1:], sorted_[:, 1:] == sorted_[:, :-1], axis=1)
    return again

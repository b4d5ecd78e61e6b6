"""The table whose rows are parts on the workers of a cluster.

A visit is one task for each part, which runs its blocks in order, and a fixed tree of sums: the
result depends on the parts, not on the workers. Nothing of the size of an array (rows, m) waits for
a second visit, so that features are computed again; numbers of every row (sites) wait in the client
and travel with the tasks.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np

from skgp_sparse._engine.table import (
    Layout,
    Rows,
    Table,
    block_budget,
    check_squares,
    row_blocks,
    spread_or_one,
)
from skgp_sparse.dask import _tasks
from skgp_sparse.dask._partitions import Partitions
from skgp_sparse.dask._tasks import ColumnMoments, View
from skgp_sparse.rows.part import joined

_MOST_INPUTS = 1 << 27  # numbers (1 GB) of one kind for each row that the client has at a time


@dataclass(frozen=True, eq=False)
class DaskTable(Table):
    """A training table whose rows stay on the workers.

    Parameters
    ----------
    parts : Partitions
    sizes : list of int
        Rows of each part.
    n_features, n_targets : int
    inputs_moments : ColumnMoments
        Of the columns of X.
    reading : View
        How the parts are read.
    weighted, shifted : bool
        Whether rows have weights, and offsets.
    least_noise : float
        As in `Rows`.
    """

    parts: Partitions
    sizes: list
    n_features: int
    n_targets: int
    inputs_moments: ColumnMoments
    reading: View
    weighted: bool = False
    shifted: bool = False
    least_noise: float = 0.0

    in_memory = False

    def __len__(self):
        return sum(self.sizes)

    def __reduce__(self):
        """What travels with a function that is to visit the rows: nothing."""
        return type(None), ()

    @property
    def view(self):
        """How workers read the parts."""
        return self.reading._replace(least_noise=self.least_noise)

    @property
    def y_mean(self):
        """Mean (p,) with which targets are standardised."""
        return self.reading.units.mean

    @property
    def y_scale(self):
        """Scale (p,) with which targets are standardised."""
        return self.reading.units.scale

    @cached_property
    def weight(self):
        """Weights of all rows (n,), which come to the client; None where there are none."""
        return self._column("weight") if self.weighted else None

    @cached_property
    def offset(self):
        """Offsets of all rows (n,), which come to the client; None where there are none."""
        return self._column("offset") if self.shifted else None

    def block(self, rows):
        """The `Block` of some rows, which come to the client."""
        if isinstance(rows, slice):
            if rows == slice(0, 1):
                return self._first
            rows = np.arange(*rows.indices(len(self)))
        return self.subset(rows).everything()

    def subset(self, rows):
        """The table of some rows, selected by an index array, in the memory of the client."""
        rows = np.asarray(rows)
        part = np.searchsorted(self._edges, rows, side="right") - 1
        order = np.argsort(part, kind="stable")
        chosen, first = np.unique(part[order], return_index=True)
        local = np.split(rows[order] - self._edges[part[order]], first[1:])
        own = dict(zip(chosen.tolist(), local))
        some = joined(self.parts.of_some(_tasks.take, own, self.view))
        X, y, weight, offset, noise = some.take(np.argsort(order))
        return Rows(X, y, noise, weight, self.y_mean, self.y_scale, self.least_noise, offset)

    def inputs(self):
        """Inputs of all rows, or of every k-th one where they are too many for the client."""
        step = -(-len(self) * self.n_features // _MOST_INPUTS)
        return self.subset(np.arange(0, len(self), step)).X

    def layout(self, width, footprint, options):
        """The `Layout`: no block crosses a part, and nothing waits."""
        key = width, block_budget(footprint, options), options.n_jobs
        if key not in self._layouts:
            self._layouts.clear()
            self._layouts[key] = self._cut(*key)
        return self._layouts[key]

    def _cut(self, width, budget, threads):
        blocks = [
            slice(start + block.start, start + block.stop)
            for start, size in zip(self._edges.tolist(), self.sizes)
            for block in row_blocks(size, width, budget)
        ]
        nothing = [False] * len(blocks)
        layout = CutLayout(blocks, threads, nothing, nothing)
        layout.cut = width, budget
        return layout

    def visit(self, function, layout, *kept, keep=None, spend=False, reads=None):
        """Apply a function to every block where its rows are; see `Table.visit`."""
        leave = keep is None or any(keep)
        if any(map(_holds_something, kept)) or leave:
            own = [
                ([items[i:j] for items in kept], keep and keep[i:j]) for i, j in self._of(layout)
            ]
        else:
            own = [([], [])] * len(self.sizes)
        if spend:
            for items in kept:
                items[:] = [None] * len(items)
        asked = function, self.view, layout.cut, len(kept)
        total, left = self.parts.sums(asked, own, leave)
        return total, [*chain.from_iterable(left)] if leave else [None] * len(layout.blocks)

    def targets(self, rows=None):
        """Standardised targets (n, p), which come to the client; see `Table.targets`."""
        return (self._column("y", rows or slice(None)) - self.y_mean) / self.y_scale

    def total_weight(self):
        """Number of rows, each counted as often as its weight says."""
        return float(self.inputs_moments.moments.weight)

    @cached_property
    def _target_variance(self):
        found = self.parts.each(_tasks.mean_square, self.view)
        weight, roots = map(np.array, zip(*found))
        largest = roots.max()
        check_squares(largest)
        if largest == 0:
            return 1.0
        return largest**2 * np.average((roots / largest) ** 2, axis=0, weights=weight).mean()

    def target_variance(self):
        """Mean square of the standardised targets, 1 where they are all zero."""
        return self._target_variance

    def scale(self):
        """Spread of every input column, 1 where it is constant."""
        (_, mean, spread), low, high = self.inputs_moments
        unit = np.maximum(high - mean, mean - low)
        unit = np.where(unit > 0, unit, 1.0)
        with np.errstate(all="ignore"):
            return spread_or_one(spread / unit, unit)

    def distinct(self, most=np.inf):
        """Distinct inputs of positive weight, sorted; None where there are more than `most`."""
        first = self.parts.each(_tasks.distinct, self.view, most, only=[0])
        others = range(1, len(self.parts))
        if first[0] is None:
            return None
        found = first[0]
        for one in self.parts.each(_tasks.distinct, self.view, most, only=others):
            if one is None:
                return None
            found = np.unique(np.vstack([found, one]), axis=0)
            if len(found) > most:
                return None
        return found

    @cached_property
    def _layouts(self):
        """The one layout that was asked for last: there are a million blocks in 1e9 rows."""
        return {}

    @cached_property
    def _edges(self):
        return np.cumsum([0, *self.sizes[:-1]])

    @cached_property
    def _first(self):
        return self.subset(np.array([0])).everything()

    def _column(self, name, rows=slice(None)):
        """A column of the rows of a slice, from the parts that overlap it."""
        start, stop, _ = rows.indices(len(self))
        first = np.searchsorted(self._edges, start, side="right") - 1
        last = np.searchsorted(self._edges, stop, side="left")
        own = {
            part: slice(max(start - edge, 0), stop - edge)
            for part, edge in enumerate(self._edges.tolist())
            if first <= part < last
        }
        return np.concatenate(self.parts.of_some(_tasks.column, own, self.view, name))

    def _of(self, layout):
        """The first block of each part, and the one behind its last."""
        starts = np.array([block.start for block in layout.blocks])
        edges = np.searchsorted(starts, [*self._edges, len(self)]).tolist()
        return pairwise(edges)


class CutLayout(Layout):
    """A `Layout` whose blocks workers cut again: those of a billion rows would be a long message.

    Attributes
    ----------
    cut : tuple
        What `row_blocks` wants besides the rows of a part.
    """


def _holds_something(items):
    return any(item is not None for item in items)

"""The table whose rows are parts on the workers of a cluster.

A visit is one task for each part, which runs its blocks in order, and a fixed tree of sums: the
result depends on the parts, not on the workers. Nothing of the size of an array (rows, m) waits for
a second visit, so that features are computed again; numbers of every row (sites) wait in the client
and travel with the tasks.
"""

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain, pairwise

import numpy as np

from skgp_sparse._engine.data.array_dataset import joined
from skgp_sparse._engine.data.dataset import Dataset, Layout, block_budget, row_blocks
from skgp_sparse._engine.data.moments import merge, or_one, spread_or_zero
from skgp_sparse._ground.distinct import unique_rows
from skgp_sparse.dask import _tasks
from skgp_sparse.dask._partitions import Partitions
from skgp_sparse.dask._tasks import View

_MOST_INPUTS = 1 << 27  # numbers (1 GB) of one kind for each row that the client has at a time


@dataclass(frozen=True, eq=False)
class DaskDataset(Dataset):
    """A training table whose rows stay on the workers.

    Parameters
    ----------
    parts : Partitions
    n_features : int
    summaries : list of Summary
        Of each part.
    reading : View
        How the parts are read.
    weighted, shifted : bool
        Whether rows have weights, and offsets.
    least_noise : float
        As in `ArrayDataset`.
    """

    parts: Partitions
    n_features: int
    summaries: list
    reading: View
    weighted: bool = False
    shifted: bool = False
    least_noise: float = 0.0

    in_memory = False

    n_targets = property(lambda self: self.units.n_varying)
    units = property(lambda self: self.reading.units)
    classes = property(lambda self: None if self.reading.task else self.reading.classes)
    sizes = property(lambda self: [summary.rows for summary in self.summaries])
    noise = property(lambda self: max(summary.largest_noise for summary in self.summaries))

    @classmethod
    def of(cls, parts, n_features, reading, weighted, shifted):
        """The table of parts, of which those without rows are left out."""
        summaries = parts.each(_tasks.summarise, reading)
        full = [pair for pair in zip(parts.futures, summaries) if pair[1].rows]
        futures, summaries = map(list, zip(*full))
        parts = replace(parts, futures=futures)
        return cls(parts, n_features, summaries, reading, weighted, shifted)

    def __len__(self):
        return sum(self.sizes)

    def __reduce__(self):
        """Pickle as None: no rows travel with a function that is to be applied to them."""
        return type(None), ()

    @property
    def view(self):
        """How workers read the parts."""
        return self.reading._replace(least_noise=self.least_noise)

    def in_units(self, units):
        """The table with targets in other units than those of the user."""
        return replace(self, reading=self.reading._replace(units=units))

    def of_problem(self, task):
        """The table of a `Task` with its labels."""
        has = self.weighted, self.shifted
        return self.of(self.parts, self.n_features, self.reading._replace(task=task), *has)

    def target_moments(self):
        """`Moments` of the targets without their offsets."""
        return merge(summary.targets for summary in self.summaries)

    @cached_property
    def weight(self):
        """Weights of all rows (n,), which come to the client; None where there are none."""
        return self._column("weight") if self.weighted else None

    @cached_property
    def offset(self):
        """Offsets of all rows (n,), which come to the client; None where there are none."""
        return self._column("offset") if self.shifted else None

    def block(self, rows):
        """The `Batch` of some rows, which come to the client."""
        if isinstance(rows, slice):
            if rows == slice(0, 1):
                return self._first
            rows = np.arange(*rows.indices(len(self)))
        return self.subset(rows).everything()

    def subset(self, rows):
        """The table of some rows, selected by an index array, in the memory of the client."""
        rows = np.asarray(rows)
        part = np.searchsorted(self._edges, rows, side="right") - 1
        chosen = {k: rows[part == k] - self._edges[k] for k in np.unique(part).tolist()}
        back = np.argsort(np.argsort(part, kind="stable"))
        return joined(self.parts.each(_tasks.take, self.view, rows=chosen)).subset(back)

    def inputs(self):
        """Inputs of all rows, or of every k-th one where they are too many for the client."""
        step = -(-len(self) * self.n_features // _MOST_INPUTS)
        return self.subset(np.arange(0, len(self), step)).X

    def layout(self, width, footprint, options):
        """The `Layout`: no block crosses a part, and nothing waits."""
        cut = width, block_budget(footprint, options)
        blocks = [
            slice(start + block.start, start + block.stop)
            for start, size in zip(self._edges.tolist(), self.sizes)
            for block in row_blocks(size, *cut)
        ]
        nothing = [False] * len(blocks)
        layout = CutLayout(blocks, options.n_jobs, nothing, nothing)
        layout.cut = cut
        return layout

    def visit(self, function, layout, *kept, keep=None, spend=False, reads=None):
        """Apply a function to every block where its rows are; see `Dataset.visit`."""
        starts = [block.start for block in layout.blocks]
        edges = np.searchsorted(starts, [*self._edges, len(self)]).tolist()
        own = [([items[i:j] for items in kept], keep and keep[i:j]) for i, j in pairwise(edges)]
        if spend:
            for items in kept:
                items[:] = [None] * len(items)
        leave = keep is None or any(keep)
        total, left = self.parts.sums((function, self.view, layout.cut), own, leave)
        return total, [*chain.from_iterable(left)] if leave else [None] * len(starts)

    def targets(self, rows=None):
        """Standardised targets (n, p), which come to the client; see `Dataset.targets`."""
        return self.units.forward(self._column("y", rows or slice(None)))

    def spread(self):
        """Spread of every input column, 0 where it is constant."""
        _, mean, spread = merge(summary.inputs for summary in self.summaries)
        low = reduce(np.minimum, (summary.low for summary in self.summaries))
        high = reduce(np.maximum, (summary.high for summary in self.summaries))
        unit = or_one(np.maximum(high - mean, mean - low))
        return spread_or_zero(spread / unit, unit)

    def distinct(self, most=np.inf):
        """Distinct inputs of positive weight, sorted; None where there are more than `most`."""
        inputs = self.parts.each(_tasks.distinct, self.view, most)
        if any(one is None for one in inputs):
            return None
        inputs = unique_rows(np.vstack(inputs))
        return inputs if len(inputs) <= most else None

    def _squares(self):
        return self._moments.root_mean_square(), self._moments.root_mean_square() ** 2

    @cached_property
    def _moments(self):
        return merge(self.parts.each(_tasks.target_moments, self.view))

    @cached_property
    def _edges(self):
        return np.cumsum([0, *self.sizes[:-1]])

    @cached_property
    def _first(self):
        return self.subset(np.array([0])).everything()

    def _column(self, name, rows=slice(None)):
        """A column of the rows of a slice, from the parts that overlap it."""
        start, stop, _ = rows.indices(len(self))
        chosen = {
            part: slice(max(start - edge, 0), stop - edge)
            for part, (edge, size) in enumerate(zip(self._edges.tolist(), self.sizes))
            if start < edge + size and edge < stop
        }
        return np.concatenate(self.parts.each(_tasks.column, self.view, name, rows=chosen))


class CutLayout(Layout):
    """A `Layout` whose blocks workers cut again: those of a billion rows would be a long message.

    Attributes
    ----------
    cut : tuple
        What `row_blocks` wants besides the rows of a part.
    """

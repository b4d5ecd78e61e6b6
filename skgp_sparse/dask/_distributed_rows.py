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

from skgp_sparse._engine.dataset import Dataset, Layout, block_budget, row_blocks
from skgp_sparse._engine.moments import merge, standardised
from skgp_sparse.dask import _tasks
from skgp_sparse.dask._partitions import Partitions
from skgp_sparse.dask._tasks import View
from skgp_sparse.rows.part import joined

_MOST_INPUTS = 1 << 27  # numbers (1 GB) of one kind for each row that the client has at a time


@dataclass(frozen=True, eq=False)
class DaskDataset(Dataset):
    """A training table whose rows stay on the workers.

    Parameters
    ----------
    parts : Partitions
    sizes : list of int
        Rows of each part.
    n_features, n_targets : int
    spreads : ndarray of shape (n_features,)
        Of the columns of X; 0 of a constant column.
    reading : View
        How the parts are read.
    weighted, shifted : bool
        Whether rows have weights, and offsets.
    least_noise : float
        As in `ArrayDataset`.
    """

    parts: Partitions
    sizes: list
    n_features: int
    n_targets: int
    spreads: np.ndarray
    reading: View
    weighted: bool = False
    shifted: bool = False
    least_noise: float = 0.0

    in_memory = travels = False

    def __len__(self):
        return sum(self.sizes)

    def __reduce__(self):
        """Pickle as None: no rows travel with a function that is to be applied to them."""
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
        columns = joined(self.parts.each(_tasks.take, self.view, rows=chosen))
        back = np.argsort(np.argsort(part, kind="stable"))
        return self.view.table(columns.take(back))

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
        return standardised(self._column("y", rows or slice(None)), self.y_mean, self.y_scale)

    def spread(self):
        """Spread of every input column, 0 where it is constant."""
        return self.spreads

    def distinct(self, most=np.inf):
        """Distinct inputs of positive weight, sorted; None where there are more than `most`."""
        inputs = self.parts.each(_tasks.distinct, self.view, most)
        if any(one is None for one in inputs):
            return None
        inputs = np.unique(np.vstack(inputs), axis=0)
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

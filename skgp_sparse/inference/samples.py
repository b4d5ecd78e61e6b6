"""Random rows of a table: those held out, samples of the rest, and batches."""

from dataclasses import replace
from functools import cached_property

import numpy as np

_HELD, _HELD_SHARE = 8000, 20  # held-out rows: at most so many, and this part of all
_OF_A_KIND = 0.1  # of a sample, where there are so many
MOST = 1 << 20  # rows that are in memory for batches, where the table is not


class Samples:
    """Draws rows that count; some of them are held out, and never drawn.

    Parameters
    ----------
    rows : Dataset
    kinds : ndarray of shape (n,) or None
        Number of the kind of every row, so that samples have rows of all kinds.
    random_state : RandomState
    hold_out : bool
        Whether any rows are held out.
    """

    def __init__(self, rows, kinds, random_state, hold_out=True):
        self.rows, self.random_state = rows, random_state
        self.held_out = self._choose_held_out() if hold_out else np.empty(0, dtype=np.intp)
        self.edges = self._edges()
        self.kinds = kinds if rows.weight is None else None

    @cached_property
    def held(self):
        """Table of the held-out rows."""
        return replace(self.rows.subset(self.held_out), weight=None)

    def draw(self, size):
        """The table of about so many rows; a row of weight w counts as w rows."""
        if self.edges is not None:
            index, counts = np.unique(self._copies(size), return_counts=True)
            return replace(self.rows.subset(index), weight=counts.astype(float))
        index, weight = self._distinct(size), None
        if self.kinds is not None:
            index, weight = self._with_all_kinds(index)
        return replace(self.rows.subset(index), weight=weight)

    def for_all(self, sample):
        """A copy of a sample, with weights scaled to add up to those of all rows."""
        share = self.rows.total_weight() / sample.total_weight()
        weight = 1.0 if sample.weight is None else sample.weight
        return replace(sample, weight=np.broadcast_to(share * weight, len(sample)))

    def batches(self, size):
        """A function of no argument that draws batches: tables in memory of so many rows."""
        pool = self
        if not self.rows.in_memory:
            pool = Samples(self.draw(MOST), None, self.random_state, hold_out=False)
        return lambda: replace(pool.rows.subset(pool._batch(size)), weight=None)

    def _choose_held_out(self):
        weight = self.rows.weight
        n = len(self.rows) if weight is None else np.count_nonzero(weight)
        size = max(min(_HELD, n // _HELD_SHARE), 1)
        if weight is None:
            return self.rows.sample(size, self.random_state)
        return np.sort(self.random_state.choice(np.flatnonzero(weight), size, replace=False))

    def _edges(self):
        """Cumulated weights of the rows that may be drawn, None where all weights are one."""
        if self.rows.weight is None:
            return None
        weight = self.rows.weight.copy()
        weight[self.held_out] = 0.0
        return np.cumsum(weight, out=weight)

    def _copies(self, size):
        """Rows, drawn as often as their weights say."""
        places = self.random_state.uniform(0.0, self.edges[-1], size)
        return np.searchsorted(self.edges, places, "right")

    def _distinct(self, size):
        """Sorted rows, drawn without replacement."""
        size = min(size, len(self.rows) - len(self.held_out))
        drawn = self.rows.sample(size + len(self.held_out), self.random_state)
        drawn = np.setdiff1d(drawn, self.held_out, assume_unique=True)
        surplus = len(drawn) - size
        if surplus > 0:
            drawn = np.delete(drawn, self.random_state.choice(len(drawn), surplus, replace=False))
        return drawn

    def _batch(self, size):
        """Sorted rows, drawn with replacement."""
        if self.edges is not None:
            return np.sort(self._copies(size))
        drawn = self.random_state.randint(len(self.rows), size=size)
        while np.any(again := np.isin(drawn, self.held_out)):
            drawn[again] = self.random_state.randint(len(self.rows), size=again.sum())
        return np.sort(drawn)

    def _with_all_kinds(self, index):
        """The sample and more rows of rare kinds, whose weights undo that there are more of them.

        The weights are None where no kind is missing.
        """
        total = np.bincount(np.delete(self.kinds, self.held_out), minlength=self.kinds.max() + 1)
        drawn = np.bincount(self.kinds[index], minlength=len(total))
        missing = np.minimum(total, int(_OF_A_KIND * len(index))) - drawn
        if not np.any(missing > 0):
            return index, None
        for kind in np.flatnonzero(missing > 0):
            spare = np.setdiff1d(
                np.flatnonzero(self.kinds == kind), np.append(self.held_out, index)
            )
            more = self.random_state.choice(spare, missing[kind], replace=False)
            index = np.append(index, more)
        index = np.sort(index)
        drawn = np.bincount(self.kinds[index], minlength=len(total))
        share = total / np.maximum(drawn, 1) * (len(index) / total.sum())
        return index, share[self.kinds[index]]

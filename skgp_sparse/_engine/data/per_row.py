"""Numbers of every row, which wait between two visits, and blocks of them taken together."""

from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np


class Bundles(NamedTuple):
    """Blocks taken together, for functions that cost less per row the more rows they see."""

    groups: list  # slices of blocks
    sizes: list  # rows of each block

    @classmethod
    def of(cls, blocks, least):
        """Bundles of about so many rows."""
        sizes = [block.stop - block.start for block in blocks]
        which = np.cumsum([0, *sizes[:-1]]) // max(least, 1)
        edges = [*np.flatnonzero(np.diff(which, prepend=-1)), len(sizes)]
        return cls([slice(*pair) for pair in pairwise(edges)], sizes)

    def join(self, values):
        """Numbers of every row, from a `PerRow` by blocks to one by bundles."""
        return PerRow(np.concatenate(values.parts[group], axis=-1) for group in self.groups)

    def split(self, values):
        """The other way."""
        edges = (np.cumsum(self.sizes[group])[:-1] for group in self.groups)
        parts = (np.split(piece, edge, axis=-1) for piece, edge in zip(values.parts, edges))
        return PerRow(chain.from_iterable(parts))


class PerRow:
    """Numbers of every row, kept by blocks: arrays whose last axis are the rows of a block."""

    __array_ufunc__ = None  # NumPy leaves arithmetic to the methods below

    def __init__(self, parts):
        self.parts = list(parts)

    def __getitem__(self, block):
        return self.parts[block]

    def __len__(self):
        return len(self.parts)

    def __add__(self, other):
        return by_row(np.add, self, other)

    def __sub__(self, other):
        return by_row(np.subtract, self, other)

    def __rmul__(self, factor):
        return PerRow(factor * part for part in self.parts)

    def __array__(self, dtype=None, copy=None):
        return np.concatenate(self.parts, axis=-1).astype(dtype or np.float64)


def by_row(function, *values):
    """``function(part, ...)`` of the parts of every block, as a `PerRow`."""
    return PerRow(map(function, *values))

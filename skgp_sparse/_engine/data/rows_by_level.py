"""The table whose rows are sorted by the levels of a column, so that a block has whole levels."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from skgp_sparse._engine.data.array_dataset import ArrayDataset
from skgp_sparse._ground.typing import Array, Index, Ints


@dataclass(frozen=True, eq=False)
class RowsByLevel(ArrayDataset):
    """Rows of which those of a level follow each other, and are in one block.

    Parameters
    ----------
    starts : ndarray of shape (k,)
        The first row of each level.
    """

    starts: Ints | None = None

    def whole(self, blocks: list[slice]) -> list[slice]:
        """Blocks that end where a level ends; one level may be larger than a block was."""
        starts = np.append(self.starts, len(self))
        stops = starts[np.searchsorted(starts, [block.stop for block in blocks])]
        return [slice(int(a), int(b)) for a, b in pairwise(np.unique([0, *stops]))]

    def subset(self, rows: Index) -> Any:
        """The table of some rows, in any order."""
        raise NotImplementedError


def starts_of(levels: Array) -> Ints:
    """The first place of each of some levels (n,), whose equals follow each other."""
    return np.flatnonzero(np.append(True, levels[1:] != levels[:-1]))


def sorted_by_level(rows: Any, effect: Any) -> RowsByLevel:
    """The rows of a table, sorted by the levels of a `RandomEffect`.

    Parameters
    ----------
    rows : Dataset
    effect : RandomEffect

    Raises
    ------
    ValueError
        If the rows are not in memory.
    """
    if not isinstance(rows, ArrayDataset):
        raise ValueError(
            f"{effect} sorts the rows by their levels, which takes arrays or data frames in "
            f"memory. Got {type(rows).__name__}. Pass all rows at once."
        )
    levels = effect.levels(np.asarray(rows.X, dtype=float))
    order = np.argsort(levels, kind="stable")
    return RowsByLevel(**vars(rows.subset(order)), starts=starts_of(levels[order]))

"""Table of the columns of X: names, categories, missing values."""

from typing import NamedTuple

import numpy as np


class ColumnTable(NamedTuple):
    """Names, categories and missing values of the columns of X, before its rows are read."""

    names: list | None = None
    categories: tuple = ()  # by name or, where there are no names, by number
    missing: np.ndarray | None = None  # (d,) whether values are missing; None: none are
    has_linear_mean: bool = False  # whether the kernel of a user has a linear function beside it

    def codes(self):
        """Numbers of the categories."""
        names = self.names
        return sorted(one if names is None else names.index(one) for one in self.categories)

    def label(self, j):
        """The name of a column or, where there are none, its number."""
        return int(j) if self.names is None else self.names[j]

    def misses(self, numbers):
        """Whether a value of these columns is missing."""
        return self.missing is not None and bool(self.missing[numbers].any())


NUMBERS = ColumnTable()  # all columns, without names

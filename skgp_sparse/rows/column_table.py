"""Table of the columns of X: names, categories, missing values."""

from typing import NamedTuple

import numpy as np


class ColumnTable(NamedTuple):
    """Names, categories and missing values of the columns of X, before its rows are read."""

    names: list | None = None
    categories: tuple = ()  # by name or, where there are no names, by number
    missing: np.ndarray | None = None  # (d,) whether values are missing; None: none are
    n_drift: int = 0  # number of the last columns, of which the mean is a linear function

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


def unused_names(names: list[str], count: int) -> list[str]:
    """Names of columns of a drift, none of which is among others."""
    word = "mean"
    while any(name.startswith(word) for name in names):
        word += "_"
    return [word] if count == 1 else [f"{word}{k}" for k in range(count)]

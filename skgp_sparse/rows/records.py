"""All rows that an estimator is fitted to, valid, whatever holds them: `Records`.

Stores differ in where rows are: here in arrays, in a source (`skgp_sparse.rows.chunks`), or on the
workers of a cluster (`skgp_sparse.dask`). Tables are made of them in the same two ways: of numbers,
whose units follow from all rows, and of the labels of a problem.
"""

from abc import ABC, abstractmethod

import numpy as np

from skgp_sparse.rows.part import Units


class Records(ABC):
    """The contract of a store.

    Attributes
    ----------
    name : str
        Of the estimator, for errors.
    classes : ndarray of shape (n_classes,)
        Sorted labels. Defined where rows have labels.
    """

    @abstractmethod
    def numbers(self, normalize):
        """The `Table` of rows with numbers as targets; `normalize` says whether in units of y."""

    @abstractmethod
    def labels(self, task):
        """The `Table` of a problem, a `Task`, with its labels as targets."""


class ArrayRecords(Records):
    """Rows in memory.

    Parameters
    ----------
    part : Part
    name : str
    """

    def __init__(self, part, name):
        self.part, self.name = part, name

    @classmethod
    def labelled(cls, part, name):
        """The same of rows with labels, of which there are at least two."""
        classes, index = check_classes(part.y, part.weight, name)
        records = cls(part._replace(y=index.ravel()), name)
        records.classes = classes
        return records

    def numbers(self, normalize, one_form=True):
        """The `Rows`; small tables come in the one form of all equal ones, if wanted."""
        part = self.part.in_one_form() if one_form else self.part
        units = Units.of(part.moments(), part.noise, normalize, self.name)
        return part.table(units, self.part.X, merged=self.part.weight is None)

    def labels(self, task, one_form=True):
        """The `Rows` of a problem; see `numbers`."""
        part = self.part.of_task(task)
        original, merged = part.X, part.weight is None
        part = part.in_one_form() if one_form else part
        return part.table(Units.none(1), original, merged)


def check_classes(y, weight, name):
    """Sorted labels and the index of each row's; raises unless at least two have weight."""
    classes, index = np.unique(y, return_inverse=True)
    seen = np.unique(index if weight is None else index[weight > 0])
    if len(seen) < 2:
        only = classes[seen[0]]
        raise ValueError(
            f"{name} requires 2 or more distinct classes; got {len(seen)} class (only class "
            f"{only} is present{'' if weight is None else ' with positive sample_weight'})"
        )
    if len(seen) < len(classes):
        raise ValueError(
            f"{name}: every row of class {classes[np.setdiff1d(range(len(classes)), seen)[0]]} has "
            "sample_weight 0. Remove these rows."
        )
    return classes, index

"""Valid rows of a user: some of them in memory (`Part`), or all, whatever holds them (`Records`).

Stores differ in where rows are: here in arrays, in a source (`skgp_sparse.rows.chunks`), or on the
workers of a cluster (`skgp_sparse.dask`). Tables are made of them in the same two ways: of numbers,
whose units follow from all rows, and of the labels of a problem.

A table is a multiset of rows: their order says nothing, and a row of weight w is w rows. Small
tables are brought into the one form that all equal multisets share (sorted, with repeated rows
merged into weights), so that equal tables give equal fits, to the last bit. Large ones are kept by
reference.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.dataset import ArrayDataset
from skgp_sparse._engine.moments import moments_of, root_mean_square, rounding_of
from skgp_sparse._ground.distinct import unique_rows

_SMALL_TABLE = 1_000_000  # numbers in X: 8 MB, sorted in less than 0.1 s
FEW_ROWS = 2  # that differ, up to which equal targets have no known scale


class TargetScaler(NamedTuple):
    """Means and scales of the targets, which are standardised as ``(y - mean) / scale``.

    One that is constant beside others has the scale 0, and is predicted as that constant.
    """

    mean: np.ndarray  # (p,)
    scale: np.ndarray  # (p,)

    @property
    def n_varying(self):
        """The number of targets that are not constant."""
        return np.count_nonzero(self.scale)

    @classmethod
    def none(cls, n_targets):
        """The units of the user."""
        return cls(np.zeros(n_targets), np.ones(n_targets))

    @classmethod
    def of(cls, moments, noise, normalize, name, shared=False, few=False):
        """Units in which targets have mean 0 and variance 1, if they are to be normalised.

        Targets of known noise share one scale: `noise` is in units of y², the same for all of them.
        They also do if it is `shared`, as noise may come with later rows. If rows are so `few` that
        equal targets are no constant, these are in units of their size.
        """
        if not normalize:
            units = cls.none(len(moments.mean))
        else:
            shared = shared or bool(np.any(noise))
            units = cls(moments.mean, scale_of(moments.mean, moments.spread, shared, few))
        _check_noise(np.max(noise), units.scale, name)
        return units


class Part(NamedTuple):
    """Some rows in memory."""

    X: np.ndarray  # (n, d) float32 or float64
    y: np.ndarray  # (n, p) float64; labels, or indices of classes, (n,)
    weight: np.ndarray | None = None  # (n,)
    offset: np.ndarray | None = None  # (n,) known, of the latent value
    noise: float | np.ndarray = 0.0  # known variance, in units of y²
    X_std: np.ndarray | None = None  # (n, d) known standard deviations of the inputs

    def take(self, rows):
        """Some of the rows."""
        return Part(*(column if np.ndim(column) == 0 else column[rows] for column in self))

    def counting(self):
        """The rows of positive weight."""
        return self if self.weight is None or self.weight.all() else self.take(self.weight > 0)

    def weights(self):
        """Weights of all rows (n,)."""
        return np.ones(len(self.X)) if self.weight is None else self.weight

    def moments(self):
        """`Moments` of the targets without their offsets; None if no row has weight."""
        y = self.y if self.offset is None else self.y - self.offset[:, None]
        return moments_of(y, self.weight)

    def label_weights(self):
        """Labels, sorted, and the sum of the weights of each."""
        labels, index = np.unique(self.y, return_inverse=True)
        return labels, np.bincount(index, self.weight, minlength=len(labels))

    def of_task(self, task):
        """The rows of a `Task` with its labels, from indices of classes."""
        rows, label = task.labels(self.y)
        part = self if rows is None else self.take(rows)
        return part._replace(y=label[:, None])

    def in_one_form(self):
        """A small table as sorted distinct rows, weighted by how often each of them is there.

        Also returns their numbers for every row, -1 for rows of weight zero; None for a large
        table, which stays as it is.
        """
        if not is_small(self.X.size):
            return self, None
        merged, index = self.counting().merged()
        places = np.full(len(self.X), -1)
        places[self.weights() > 0] = index
        return merged, places

    def merged(self):
        """Sorted distinct rows, weighted, and their numbers for every row."""
        columns = [0.0 if column is None else column for column in (self.noise, self.offset)]
        columns = [np.broadcast_to(column, len(self.X)) for column in columns]
        columns += [] if self.X_std is None else [self.X_std]
        rows = np.column_stack([self.X, self.y, *columns])
        _, first, index = unique_rows(rows, return_index=True, return_inverse=True)
        total = np.bincount(index.ravel(), self.weight, minlength=len(first))
        weight = None if np.all(total == 1) else total.astype(float)
        return self._replace(weight=None).take(first)._replace(weight=weight), index.ravel()

    def table(self, units, original=None, merged=False, places=None):
        """The `ArrayDataset` in these units.

        `original` is the part before it was brought into its form, and `places` are the numbers of
        its rows in this one.
        """
        if original is self:
            original = None
        offset = None if self.offset is None else self.offset / units.scale[0]
        return ArrayDataset(
            self.X,
            self.y,
            self.noise,
            self.weight,
            *units,
            offset=offset,
            original=original and (np.array(original.X), np.array(original.y)),
            merged=merged,
            X_std=self.X_std,
            places=places,
        )


def part_of(rows):
    """The `Part` of a table of arrays."""
    offset = None if rows.offset is None else rows.offset * rows.y_scale[0]
    return Part(rows.X, rows.y, rows.weight, offset, rows.noise, rows.X_std)


class Records(ABC):
    """The contract of a store.

    Attributes
    ----------
    name : str
        Of the estimator, for errors.
    classes : ndarray of shape (n_classes,)
        Sorted labels. Defined where rows have labels.
    part : Part or None
        All rows, in the user's order; None where they are not in memory.
    """

    part = None

    def lacking(self):
        """Whether values of a column (d,) are missing; None: none are."""
        return None

    def size(self):
        """The number of rows, 0 where they are not in memory."""
        return 0 if self.part is None else len(self.part.X)

    @abstractmethod
    def numbers(self, normalize):
        """The `Dataset` of rows with numbers as targets; `normalize` says whether in units of y."""

    @abstractmethod
    def labels(self, task):
        """The `Dataset` of a problem, a `Task`, with its labels as targets."""


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
        """Records of rows in memory with labels of at least two classes."""
        classes, index = check_classes(part.y, part.weight, name)
        records = cls(part._replace(y=index.ravel()), name)
        records.classes = classes
        return records

    def lacking(self):
        """Whether values of a column (d,) are missing, in rows of any problem."""
        return np.isnan(self.part.X).any(axis=0)

    def numbers(self, normalize, one_form=True):
        """The `ArrayDataset`; small tables come in the one form of all equal ones, if wanted."""
        part, places = self.part.in_one_form() if one_form else (self.part, None)
        few = has_few_rows(part.X)
        units = TargetScaler.of(part.moments(), part.noise, normalize, self.name, few=few)
        return part.table(units, self.part, self.part.weight is None, places)

    def labels(self, task, one_form=True):
        """The `ArrayDataset` of a problem; see `numbers`."""
        original = self.part.of_task(task)
        part, places = original.in_one_form() if one_form else (original, None)
        return part.table(TargetScaler.none(1), original, original.weight is None, places)


def joined(parts):
    """Parts of the same form as one."""
    columns = zip(*parts)
    return Part(*(one[0] if np.ndim(one[0]) == 0 else np.concatenate(one) for one in columns))


def is_small(size):
    """Whether a table with so many numbers in X is brought into its one form."""
    return size <= _SMALL_TABLE


def has_few_rows(X):
    """Whether rows are so few that equal targets do not say that all targets are equal."""
    return len(X) <= FEW_ROWS or (is_small(X.size) and len(unique_rows(X)) <= FEW_ROWS)


def scale_of(mean, std, shared=False, few=False):
    """Scale (p,) of targets with these means and standard deviations; 0 where some are constant.

    Where all of them are, it is 1 or, of `few` rows, the size of the target unless that is 0.
    """
    rounding = rounding_of(mean)
    std = np.where(std <= rounding, 0.0, std)
    if not std.any():
        size = np.abs(mean) if few else std
        std = np.where(size > 0, size, np.maximum(rounding, 1.0))
    varies = std > 0
    if shared:
        std = np.where(varies, root_mean_square(std[varies, None], None), 0.0)
    return std


def _check_noise(noise, scale, name):
    """Raise if known noise overflows in units of the standardised targets."""
    scale = scale.max()  # one for all, where noise is known
    if not np.isfinite(noise / scale / scale):
        raise ValueError(
            f"The 'alpha' parameter of {name} is too large for y: its largest value is "
            f"{noise:.1e}, and y has a standard deviation of {scale:.1e}. Rescale y, or lower "
            "alpha."
        )


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

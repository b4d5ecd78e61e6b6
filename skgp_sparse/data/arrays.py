"""The table whose rows are in memory.

A table is a multiset of rows: their order says nothing, and a row of weight w is w rows. Small
tables are brought into the one form that all equal multisets share (sorted, with repeated rows
merged into weights), so that equal tables give equal fits, to the last bit. Large ones are kept by
reference.

`DistinctInputs` groups such rows by their input, and `PerRow` has numbers of every row that wait
between two visits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skgp_sparse import kernels
from skgp_sparse.data.classes import Task
from skgp_sparse.data.dataset import Batch, Dataset, at
from skgp_sparse.data.moments import Distinct, TargetScaler, is_small, moments_of
from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import AnyArray, Array, Index, Ints, Kernel, Scalars


class DistinctInputs(NamedTuple):
    """Training rows by distinct input."""

    X: Array  # (u, d) distinct rows, sorted
    index: Any  # (n,) the distinct input of each row
    y: Array  # (n, p) standardised
    noise: Array  # (n,) known noise variance
    weight: Array  # (n,)

    @classmethod
    def of(cls, rows: Dataset) -> "DistinctInputs":
        """Distinct inputs of a `Dataset`, of many rows a million at a time."""
        parts = [cls.of_block(rows.block(piece)) for piece in rows.pieces()]
        if len(parts) == 1:
            return parts[0]
        X = np.vstack([part.X for part in parts])
        same = Distinct(X)
        place = np.append(same.index, 0)  # a last part without rows points there
        starts = np.cumsum([0, *(len(part.X) for part in parts[:-1])])
        index = np.concatenate([place[start + part.index] for start, part in zip(starts, parts)])
        return cls(X[same.first], index, *map(np.concatenate, zip(*(part[2:] for part in parts))))

    @classmethod
    def of_block(cls, block: Batch) -> "DistinctInputs":
        """Distinct inputs of a `Batch`; rows of weight zero do not count: they are at the first."""
        n = len(block.X)
        noise, weight = (np.full(n, column) for column in (block.noise, block.weight))
        X = block.X[weight > 0]
        same, index = Distinct(X), np.zeros(n, dtype=np.intp)
        index[weight > 0] = same.index
        return cls(X[same.first], index, block.y, noise, weight)

    def sum(self, values: Array) -> Any:
        """Sum of row values (n,) or (n, p) over each distinct input."""
        if values.ndim == 1:
            return np.bincount(self.index, values, minlength=len(self.X))
        return np.stack([self.sum(column) for column in values.T], axis=1)


class GroupMeans:
    """Precision-weighted means of rows that coincide, and their noise variances.

    Rows that coincide are one observation of their precision-weighted mean, with sums over the rows
    i of group j:

        1/D_j = Σ w_i/σ_i²,      ȳ_j = D_j Σ w_i y_i/σ_i²

    Of n rows and u groups, `s2` (n,) are the noise variances σ², `mean` (u, p) is ȳ, and `rest`
    (n, p) ``y_i - ȳ_j``.
    """

    def __init__(self, kernel: Kernel, groups: DistinctInputs) -> None:
        _, learned, self.pull_diagonal = kernels.diagonal(kernel, groups.X)
        self.s2 = np.broadcast_to(learned, len(groups.X))[groups.index] + groups.noise
        precision = groups.weight / self.s2
        self.D = 1.0 / groups.sum(precision)
        self.mean = self.D[:, None] * groups.sum(precision[:, None] * groups.y)
        self.rest = groups.y - self.mean[groups.index]
        logs = groups.weight @ (np.log(self.s2) + LOG_2PI) - np.log(self.D).sum()
        quadratic = (precision[:, None] * self.rest**2).sum()
        self.constant = -0.5 * (self.mean.shape[1] * logs + quadratic)

    def value(self, log_det: float, half: Array) -> float:
        """Log marginal likelihood from ``log |K + D|`` and ``L⁻¹ ȳ``."""
        return self.constant - 0.5 * (self.mean.shape[1] * log_det + np.vdot(half, half))


class Bundles:
    """Blocks taken together, for functions that cost less per row the more rows they see.

    A bundle has about `least` rows. `groups` are slices of blocks, and `sizes` rows of each block.
    """

    def __init__(self, blocks: list[slice], least: int) -> None:
        self.sizes = [block.stop - block.start for block in blocks]
        which = np.cumsum([0, *self.sizes[:-1]]) // max(least, 1)
        edges = [*np.flatnonzero(np.diff(which, prepend=-1)), len(blocks)]
        self.groups = [slice(*pair) for pair in pairwise(edges)]

    def join(self, values: "PerRow") -> "PerRow":
        """Numbers of every row, from a `PerRow` by blocks to one by bundles."""
        return PerRow(np.concatenate(values.parts[group], axis=-1) for group in self.groups)

    def split(self, values: "PerRow") -> "PerRow":
        """Numbers of every row, from a `PerRow` by bundles to one by blocks, as before `join`."""
        edges = (np.cumsum(self.sizes[group])[:-1] for group in self.groups)
        parts = (np.split(piece, edge, axis=-1) for piece, edge in zip(values.parts, edges))
        return PerRow(chain.from_iterable(parts))


class PerRow:
    """Numbers of every row between two visits: arrays, whose last axis are the rows of a block."""

    __array_ufunc__ = None  # NumPy leaves arithmetic to the methods below

    def __init__(self, parts: Iterable) -> None:
        self.parts = list(parts)

    def __getitem__(self, block: int) -> Any:
        return self.parts[block]

    def __len__(self) -> int:
        return len(self.parts)

    def __add__(self, other: "PerRow") -> "PerRow":
        return by_row(np.add, self, other)

    def __sub__(self, other: "PerRow") -> "PerRow":
        return by_row(np.subtract, self, other)

    def __rmul__(self, factor: float) -> "PerRow":
        return PerRow(factor * part for part in self.parts)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: object = None) -> AnyArray:
        return np.concatenate(self.parts, axis=-1).astype(dtype or np.float64)


def by_row(function: Callable, *values: PerRow) -> PerRow:
    """``function(part, ...)`` of the parts of every block, as a `PerRow`."""
    return PerRow(map(function, *(value.parts for value in values)))


_COLUMNS = "X", "y", "noise", "weight", "offset", "X_std"


@dataclass(frozen=True, eq=False)
class ArrayDataset(Dataset):
    """A training table by reference, in the units of the user if no others are given."""

    X: AnyArray  # (n, d), float32 or float64
    y: AnyArray  # (n, p), or labels, or indices of classes (n,), of which problems make targets
    noise: Scalars = 0.0  # known variance in units of y², or (n,)
    weight: Array | None = None
    scaler: TargetScaler = None  # type: ignore[assignment]  # those of the user
    least_noise: float = 0.0  # known noise variance of the standardised targets is at least this
    offset: Array | None = None  # (n,) of latent values, in units of the standardised targets
    original: tuple[AnyArray, AnyArray] | None = None  # the user's X and y, if those are others
    merged: bool = False
    X_std: Array | None = None
    places: Ints | None = None  # (k,) the row of each of the user's own, -1 of one without weight
    classes: AnyArray | None = None
    class_weight: Array | None = None
    relative: bool = False
    mean_weight: float = 1.0  # of users, that is one here

    in_memory = True

    def __post_init__(self) -> None:
        if self.scaler is None:
            object.__setattr__(self, "scaler", TargetScaler.none(int(np.prod(self.y.shape[1:]))))

    def __len__(self) -> int:
        return len(self.X)

    n_features = property(lambda self: self.X.shape[1])
    n_targets = property(lambda self: self.scaler.n_varying)

    def block(self, rows: Index) -> Batch:
        """Rows selected by a slice or an index array, as a `Batch`."""
        noise, unit = at(self.noise, rows), self.scaler.scale.max()  # one, where noise is known
        return Batch(
            np.ascontiguousarray(self.X[rows], dtype=np.float64),
            self.scaler.forward(self.y[rows]),
            np.maximum(noise / unit / unit, self.least_noise),
            1.0 if self.weight is None else self.weight[rows],
            0.0 if self.offset is None else self.offset[rows],
        )

    def stored_inputs(self) -> AnyArray:
        """The inputs by reference."""
        return self.X

    def inputs(self) -> Any:
        """The user's own inputs."""
        return self.as_passed()[0]

    def as_passed(self) -> tuple[AnyArray, AnyArray]:
        """The user's own inputs and targets, in their order."""
        return self.original or (self.X, self.y)

    def subset(self, rows: Index) -> "ArrayDataset":
        """The table of some rows, selected by an index array, a mask or a slice."""
        columns = {name: at(getattr(self, name), rows) for name in _COLUMNS}
        return replace(self, **columns, original=None, places=None)

    def counting(self) -> "ArrayDataset":
        """The table of the rows of positive weight."""
        if self.weight is None or self.weight.all():
            return self
        return self.subset(np.flatnonzero(self.weight))

    def in_units_of_y(self) -> "ArrayDataset":
        """The table with targets in the units of the user, as if these rows had been passed."""
        offset = None if self.offset is None else self.offset * self.scaler.scale[0]
        weight = self.weight if self.mean_weight == 1.0 else self.mean_weight * self.row_weights()
        return ArrayDataset(self.X, self.y, self.noise, weight, offset=offset, X_std=self.X_std)

    def of_problem(self, task: Task) -> "ArrayDataset":
        """The table of the rows of a problem with its labels."""
        rows, label = task.labels(self.y)
        return replace(self if rows is None else self.subset(rows), y=label[:, None], classes=None)

    def target_moments(self) -> Any:
        """`Moments` of the targets without their offsets; None if no row has weight."""
        y = self.y if self.offset is None else self.y - self.offset[:, None]
        return moments_of(y, self.weight)

    def label_weights(self) -> tuple[AnyArray, AnyArray]:
        """Labels, sorted, and the sum of the weights of each."""
        labels, index = np.unique(self.y, return_inverse=True)
        return labels, np.bincount(index, self.weight, minlength=len(labels))

    def in_one_form(self) -> "ArrayDataset":
        """A small table as sorted distinct rows, weighted by how often each of them is there.

        Rows stay apart where weights are relative, as copies are one row already.
        """
        if not is_small(self.X.size):
            return self
        dataset = self.counting()
        columns = [getattr(dataset, name) for name in _COLUMNS if self.relative or name != "weight"]
        same = Distinct(np.column_stack([one for one in columns if np.ndim(one)]))
        first, index, total = same.first, same.index, same.copies(dataset.weight)
        if self.relative:
            first = np.argsort(index, kind="stable")
            index, total = np.argsort(first), dataset.row_weights()[first]
        places = np.full(len(self), -1)
        places[self.row_weights() > 0] = index
        return replace(
            dataset.subset(first),
            weight=None if np.all(total == 1) else total.astype(float),
            original=(np.array(self.as_passed()[0]), np.array(self.as_passed()[1])),
            merged=not self.relative and bool(np.all(dataset.row_weights() == 1)),
            places=places if self.places is None else places[self.places],
        )


def joined(datasets: Sequence[ArrayDataset]) -> ArrayDataset:
    """Datasets of the same form as one."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(dataset, name) for dataset in datasets])
        for name in _COLUMNS
        if np.ndim(getattr(datasets[0], name))
    }
    return replace(datasets[0], **columns)

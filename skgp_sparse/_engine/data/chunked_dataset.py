"""The table whose rows are chunks that something else reads: files, a stream, anything.

A block of rows is cut out of the chunks that overlap it. Only the last of these stays in memory.
Chunks are read in order as far as the visits are in order, and by the thread that visits: threads
that compute are given blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from skgp_sparse._engine.data.array_dataset import ArrayDataset
from skgp_sparse._engine.data.dataset import Dataset, at
from skgp_sparse._engine.data.moments import Moments, TargetScaler

_INPUTS = 100_000  # rows that a user's own function sees


class Reader:
    """Chunks on demand, of which the last one waits in memory.

    Parameters
    ----------
    read : callable
        ``k -> (X, y)``: inputs (n_k, d) and targets (n_k, p) of a chunk.
    sizes : sequence of int
        Rows of all chunks.
    """

    def __init__(self, read, sizes):
        self.read = read
        self.edges = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.forget()

    def __reduce__(self):
        return Reader, (self.read, np.diff(self.edges))

    def __len__(self):
        return int(self.edges[-1])

    def forget(self):
        """Give back the chunk that waits."""
        self._last = None, None  # its number and its columns

    def at(self, index):
        """Yield (X, y) of rows whose sorted indices are given, piece by piece."""
        chunks = np.searchsorted(self.edges, index, "right") - 1
        chunks, first = np.unique(chunks, return_index=True)
        for number, rows in zip(chunks.tolist(), np.split(index, first[1:])):
            yield tuple(column[rows - self.edges[number]] for column in self.chunk(number))

    def chunk(self, number):
        """(X, y) of a chunk."""
        if number != self._last[0]:
            self.forget()
            self._last = number, self.read(number)
        return self._last[1]


@dataclass(frozen=True, eq=False)
class ChunkedDataset(Dataset):
    """A training table that is read chunk by chunk.

    Parameters
    ----------
    reader : Reader
    n_features : int
    units : TargetScaler
        Of the standardised targets.
    noise : float or ndarray of shape (n,)
        Known noise variance in units of y².
    weight : ndarray of shape (n,) or None
        A row of weight w counts as w rows.
    least_noise : float
        Known noise variance of the standardised targets is at least this.
    offset : ndarray of shape (n,) or None
        Known offsets of the latent values, for likelihoods, in units of the standardised targets.
    moments : Moments or None
        Of the targets without their offsets, in the units of the user; None of labels.
    classes : ndarray of shape (n_classes,) or None
        As of `Dataset`.
    relabel : callable or None
        From the targets of the reader to those of the table: numbers (n, p) for numbers (n, p).
    index : ndarray of shape (n,) or None
        Sorted numbers of the rows of the reader that are those of the table; None: all of them.
    known : dict
        What all rows had to be read for.
    """

    reader: Reader
    n_features: int
    units: TargetScaler
    noise: float | np.ndarray = 0.0
    weight: np.ndarray | None = None
    least_noise: float = 0.0
    offset: np.ndarray | None = None
    moments: Moments | None = None
    classes: np.ndarray | None = None
    relabel: Callable | None = None
    index: np.ndarray | None = None
    known: dict = field(default_factory=dict)

    n_targets = property(lambda self: self.units.n_varying)

    def __len__(self):
        return len(self.reader) if self.index is None else len(self.index)

    def block(self, rows):
        """Rows selected by a slice or an index array, as a `Batch`."""
        return self.subset(rows).everything()

    def block_reader(self, rows):
        """Rows are read here, by the thread that visits; see `Dataset.block_reader`."""
        return self.subset(rows).everything

    def subset(self, rows):
        """The table of some rows, selected by a slice or an index array, in memory."""
        X, y = self._taken(rows)
        y = y if self.relabel is None else self.relabel(y)
        columns = self.noise, self.weight, self.offset
        noise, weight, offset = (at(column, rows) for column in columns)
        return ArrayDataset(X, y, noise, weight, self.units, self.least_noise, offset)

    def in_units(self, units):
        """The table with targets in other units than those of the user."""
        return replace(super().in_units(units), known={})

    def of_problem(self, task):
        """The table of a `Task` with its labels; that of a pair of classes skips other rows."""
        index = None
        if task.negative is not None:
            index = task.labels(self._once("labels", self._labels))[0]
        weight, relabel = self.weight, partial(_labels_of, task)
        weight = weight if weight is None or index is None else weight[index]
        new = {"weight": weight, "index": index, "relabel": relabel, "classes": None}
        return replace(self, **new, known={})

    def target_moments(self):
        """`Moments` of the targets without their offsets, as they were when all rows were read."""
        return self.moments

    def inputs(self):
        """Inputs of at most 100,000 rows, drawn by weight."""
        return self.subset(self.sample(_INPUTS, np.random.RandomState(0))).X

    def spread(self):
        """As of all tables, read once."""
        return self._once("spread", super().spread)

    def target_variance(self):
        """As of all tables, read once."""
        return self._once("target_variance", super().target_variance)

    def _once(self, name, find):
        if name not in self.known:
            self.known[name] = find()
        return self.known[name]

    def _labels(self):
        """Index of the class of every row, a byte or two each."""
        smallest = np.min_scalar_type(len(self.classes))
        chunks = map(self.reader.chunk, range(len(self.reader.edges) - 1))
        return np.concatenate([y[:, 0].astype(smallest) for _, y in chunks])

    def _taken(self, rows):
        """Inputs and targets as the reader has them."""
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        index = rows if self.index is None else self.index[rows]
        order = np.argsort(index, kind="stable")
        pieces = list(self.reader.at(index[order]))
        if not pieces:
            return np.empty((0, self.n_features)), np.empty((0, len(self.units.mean)))
        return (np.concatenate(column)[np.argsort(order)] for column in zip(*pieces))


def _labels_of(task, index):
    """Labels of rows all of which take part."""
    return task.labels(index[:, 0])[1][:, None]

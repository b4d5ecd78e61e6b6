"""The door: the only place that reads what users pass as X, y, weights and offsets.

An array is one chunk, a source is many, and a call of partial_fit has one. Every chunk is checked
by the same `Rules`. The answer is a `Dataset` in the units of the user; labels are indices of its
classes. Small sources become the arrays that their chunks make up, so that the fit is the same to
the last bit. (`skgp_sparse.dask` reads partitions, each on its worker, by the same rules.)

A source that is too large for memory is passed through once (`survey`), which checks every chunk
and notes what is to be remembered. Then it is a table that reads its chunks again
(`ChunkedDataset`).
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skgp_sparse.data import checks
from skgp_sparse.data.arrays import ArrayDataset, joined
from skgp_sparse.data.checks import RawRows, Rules
from skgp_sparse.data.classes import Task
from skgp_sparse.data.columns import ColumnTypes, as_table, types_of
from skgp_sparse.data.copies import MOST_HASHED, RowHashes, counted, row_weights
from skgp_sparse.data.dataset import Batch, Dataset, at
from skgp_sparse.data.moments import Moments, TargetScaler, is_small, merge
from skgp_sparse.ground import validation
from skgp_sparse.ground.validation import AnyArray, Array, Index, Ints, MaybeArray, Scalars
from skgp_sparse.sources import Chunk, Source, is_source

_SAME = "in the first pass. Give the same chunks each time."


class OpenSource:
    """A source during a fit, of which the last chunk that was read again waits in memory."""

    encode: Callable[[AnyArray], AnyArray]
    n_features: int

    def __init__(self, source: Source, name: str) -> None:
        self.source, self.name, self.sizes = source, name, list[int]()
        self.words = f"source ({type(source).__name__})"  # in errors
        self._last: tuple = None, None  # the number of a chunk and its columns

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": (None, None)}

    @cached_property
    def edges(self) -> Ints:
        """Rows before every chunk, and all rows."""
        return np.cumsum([0, *self.sizes])

    def close(self) -> None:
        """Give back the chunk that waits, and what the source has open."""
        self._last = None, None
        if callable(close := getattr(self.source, "close", None)):
            close()

    def first_pass(self, rules: Rules) -> Iterator[ArrayDataset]:
        """Yield the `ArrayDataset` of every chunk that has rows, which must be of one form."""
        announced, first = self.source.chunk_sizes, None
        while announced is None or len(self.sizes) < len(announced):
            number = len(self.sizes)
            with self._naming(number):
                chunk = self.source.chunk(number)
                if chunk is None and announced is None:
                    return
                chunk = as_chunk(chunk)
                size = (*np.shape(chunk.X), 1)[0]  # what has no shape is refused by the rules
                if announced is not None and announced[number] != size:
                    raise ValueError(
                        f"X has {size} rows, but chunk_sizes has {announced[number]}. Make them "
                        "agree, or set it to None."
                    )
                self.sizes.append(size)
                if size > 0:
                    dataset = rules.check(RawRows(*chunk))
                    first = dataset.subset(slice(0)) if first is None else first
                    check_form(dataset, first)
                    self.n_features = dataset.n_features
            if size > 0:
                yield dataset

    def at(self, index: Ints) -> Iterator[tuple[AnyArray, ...]]:
        """Yield (X, y) of rows whose sorted indices are given, piece by piece."""
        chunks = np.searchsorted(self.edges, index, "right") - 1
        chunks, first = np.unique(chunks, return_index=True)
        for number, rows in zip(chunks.tolist(), np.split(index, first[1:])):
            yield tuple(column[rows - self.edges[number]] for column in self.chunk(number))

    def chunk(self, number: int) -> tuple[AnyArray, AnyArray]:
        """(X, y) of a chunk that has rows, as in the first pass."""
        if number != self._last[0]:
            self._last = None, None
            with self._naming(number):
                self._last = number, self._read(number)
        return self._last[1]

    def _naming(self, number: int) -> Any:
        return checks.naming(f"{self.name}: chunk {number} of the {self.words}")

    def _read(self, number: int) -> tuple[AnyArray, AnyArray]:
        """Copies: some sources fill the same array again and again."""
        if (chunk := self.source.chunk(number)) is None:
            raise ValueError(f"It is missing, but there were {len(self.sizes)} {_SAME}")
        chunk = as_chunk(chunk)
        X = np.asarray(chunk.X)
        X = X.astype(X.dtype if X.dtype in checks.FLOATS else np.float64)
        y, shape = self.encode(_targets_of(chunk)), (self.sizes[number], self.n_features)
        if X.shape != shape or len(y) != len(X):
            raise ValueError(
                f"X has shape {X.shape} and y has {len(y)} rows, but X had {shape} {_SAME}"
            )
        return X, y


def survey(source: OpenSource, rules: Rules, alpha: MaybeArray) -> Dataset:
    """The table of a source, of which every chunk is checked in a first pass."""
    names, n, d, p = getattr(source.source, "feature_names", None), 0, 0, 1
    notes, known, datasets, found = list[Any](), [], list[ArrayDataset](), list[RowHashes]()
    for dataset in source.first_pass(rules._replace(names=names)):
        n, d, p = n + len(dataset), dataset.n_features, int(np.prod(dataset.y.shape[1:]))
        notes.append(dataset.label_weights() if rules.labels else dataset.target_moments())
        every = np.arange(len(dataset))  # for copies: sources may fill an array again
        known.append((at(dataset.weight, every), at(dataset.offset, every)))
        datasets = [*datasets, dataset.subset(every)] if is_small(n * d) else []
        if rules.kernel is None:
            found = [*found, RowHashes.of(dataset)] if n <= MOST_HASHED else []
    if n == 0:
        raise ValueError(f"{rules.name}: the {source.words} has no rows. Give at least one chunk.")
    if names is not None and len(names) != d:
        raise ValueError(
            f"{rules.name}: feature_names of the {source.words} has {len(names)} names, but the "
            f"chunks have {d} columns. Give a name to each column."
        )
    noise = checks.check_alpha(alpha, n, rules.name)
    weight, offset = (None if one[0] is None else np.concatenate(one) for one in zip(*known))
    validation.check_any_weight(weight is None or weight.any())
    if datasets:
        return encoded(replace(joined(datasets), noise=noise), rules)
    rows = ChunkedDataset(source, d, TargetScaler.none(p), noise, weight, offset=offset)
    hashed = RowHashes.joined(found)
    if not rules.labels:
        ends = (-np.inf, np.inf) if rules.likelihood is None else rules.likelihood.ends
        source.encode = partial(_as_numbers, ends)
        return _weighted(replace(rows, moments=merge(notes)), rules, hashed)
    labels, weights = map(np.concatenate, zip(*notes))
    classes = checks.check_classes(labels, None if weight is None else weights, rules.name)[0]
    source.encode = partial(_as_indices, classes)
    return _weighted(replace(rows, classes=classes), rules, hashed)


def _weighted(rows: "ChunkedDataset", rules: Rules, hashed: RowHashes | None) -> "ChunkedDataset":
    """The table of a source with the weights that its rows have in a fit."""
    labels = None if hashed is None or rows.classes is None else hashed.indices(rows.classes)
    weight, relative, _, class_weight, _ = row_weights(rules, hashed, rows.weight, labels)
    return replace(rows, weight=weight, relative=relative, class_weight=class_weight)


def check_form(dataset: ArrayDataset, first: ArrayDataset) -> None:
    """Raise unless a table has the columns of another one, which may have no rows."""

    def form(dataset: ArrayDataset) -> dict[str, Any]:
        return {
            "number of columns of X": dataset.n_features,
            "columns of y": dataset.y.shape[1:],
            "kind of sample_weight": "None" if dataset.weight is None else "numbers",
            "kind of offset": "None" if dataset.offset is None else "numbers",
            "kind of labels": "text" if dataset.y.dtype.kind in "OSU" else "numbers",
        }

    for (what, now), before in zip(form(dataset).items(), form(first).values()):
        if now != before:
            raise ValueError(f"All chunks must have the same {what}. Got {now}, before {before}.")


def as_chunk(chunk: object) -> Chunk:
    """A `Chunk` of what a source gives."""
    if not isinstance(chunk, tuple) or not 2 <= len(chunk) <= 4:
        raise TypeError(
            "A chunk must be a tuple (X, y), (X, y, sample_weight) or (X, y, sample_weight, "
            f"offset). Got {type(chunk).__name__}"
            f"{f' of length {len(chunk)}' if isinstance(chunk, tuple) else ''}."
        )
    return Chunk(*chunk)


def _targets_of(chunk: Chunk) -> Any:
    """The targets, where rows without weight, which may have any, have that of another row."""
    counts = np.ravel(1.0 if chunk.sample_weight is None else chunk.sample_weight) != 0.0
    if counts.all() or not counts.any():
        return chunk.y
    y = np.array(chunk.y)
    y[~counts] = y[counts][0]
    return y


def _as_numbers(ends: tuple[float, float], y: AnyArray) -> Array:
    """Targets (n, p) within the ends of a likelihood."""
    return np.clip(np.asarray(y, dtype=np.float64).reshape(len(y), -1), *ends)


def _as_indices(classes: AnyArray, y: AnyArray) -> Ints:
    """Indices of labels (n, 1)."""
    y = np.asarray(y).ravel()
    index = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if not np.all(classes[index] == y):
        other = y[np.flatnonzero(classes[index] != y)[0]]
        raise ValueError(f"There is a label {other}, which was not there {_SAME}")
    return index[:, None].astype(np.int32)


def read(
    estimator: BaseEstimator, rules: Rules, raw: RawRows, types: ColumnTypes | None, reset: bool
) -> Dataset:
    """All rows that an estimator is fitted to, as a `Dataset`."""
    alpha = getattr(estimator, "alpha", None)
    if isinstance(raw.X, OpenSource):
        return _read_source(estimator, rules, raw, alpha)
    if raw.X_std is not None and types is not None:
        raise ValueError(
            f"{rules.name}: X_std is for arrays and data frames of numbers, but columns of X are "
            "categories or times. Leave X_std out, or encode X before."
        )
    X = raw.X if checks.are_floats(raw.X) else as_table(raw.X)
    numbers = X if types is None else types.encoded(X, rules.name)
    rules = rules if types is None else rules._replace(names=types.names)
    rows = rules.check(raw._replace(X=numbers), alpha, all_rows=True)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return encoded(rows, rules)


def read_chunk(
    model: BaseEstimator, rules: Rules, raw: RawRows, reset: bool, types: ColumnTypes | None = None
) -> ArrayDataset:
    """The `ArrayDataset` of the rows of a call of partial_fit that count."""
    name, X = f"{rules.name}.partial_fit", raw.X
    refuse_source(X, name, "Pass its chunks one by one, or the source itself to fit.")
    checks.check_readable(name, **raw._asdict())
    if types is not None or types_of(X, model.categorical_features, name) is not None:
        raise ValueError(
            f"{name} takes numbers, but columns of X are categories or times, or were so in fit. "
            "Pass all rows to fit, or encode them before, by sklearn.preprocessing."
        )
    if not reset:
        rules = rules._replace(names=getattr(model, "feature_names_in_", None))
    dataset = rules.check(raw, getattr(model, "alpha", None), all_rows=True)
    validate_data(model, X, reset=reset, skip_check_array=True)
    return dataset.counting()


def encoded(rows: ArrayDataset, rules: Rules) -> ArrayDataset:
    """The table in memory as it is fitted: labels are indices of at least two classes."""
    if rules.labels:
        classes, index = checks.check_classes(rows.y, rows.weight, rules.name)
        rows = replace(rows, y=index.ravel(), classes=classes)
    return counted(rows, rules)


def _read_source(model: BaseEstimator, rules: Rules, raw: RawRows, alpha: MaybeArray) -> Dataset:
    """The `Dataset` of a source, whose columns the estimator then knows."""
    named = raw._asdict()
    X = named.pop("X")
    if passed := [argument for argument, value in named.items() if value is not None]:
        raise ValueError(
            f"{rules.name}: {' and '.join(passed)} cannot be passed beside a source of rows, whose "
            "chunks are (X, y, sample_weight, offset)."
        )
    rows = survey(X, rules, alpha)
    model.n_features_in_ = rows.n_features
    vars(model).pop("feature_names_in_", None)
    if (names := getattr(X.source, "feature_names", None)) is not None:
        model.feature_names_in_ = np.asarray(names, dtype=object)
    return rows


@contextmanager
def opened(raw: RawRows, name: str) -> Iterator[RawRows]:
    """Context with rows of a user, in which a source is an `OpenSource`."""
    if isinstance(raw.X, np.ndarray) or not is_source(raw.X):
        yield raw
    else:
        with closing(OpenSource(raw.X, name)) as X:
            yield raw._replace(X=X)


def check_query(X: object, name: str) -> None:
    """Raise if points at which an estimator is evaluated come from a source."""
    remedy = "Pass the inputs of its chunks one by one, such as source.chunk(k)[0]."
    refuse_source(X, f"a prediction or score of {name}", remedy)


def refuse_source(X: object, what: str, remedy: str) -> None:
    """Raise if rows come from a source where an array is wanted."""
    if is_source(X):
        raise TypeError(
            f"X is a source of rows ({type(X).__name__}), but {what} takes an array. {remedy}"
        )


_INPUTS = 100_000  # rows that a user's own function sees


# -- the table whose rows are chunks that something else reads: files, a stream, anything ----------
# A block of rows is cut out of the chunks that overlap it. Only the last of these stays in memory.
# Chunks are read in order as far as the visits are in order, and by the thread that visits: threads
# that compute are given blocks.


@dataclass(frozen=True, eq=False)
class ChunkedDataset(Dataset):
    """A training table that is read chunk by chunk."""

    source: OpenSource
    n_features: int
    scaler: TargetScaler
    noise: Scalars = 0.0
    weight: Array | None = None
    least_noise: float = 0.0
    offset: Array | None = None  # (n,) of latent values, in units of the standardised targets
    moments: Moments | None = None  # of the targets without their offsets, in the user's units
    classes: AnyArray | Any = None
    class_weight: Array | None = None
    relative: bool = False
    relabel: Callable[[AnyArray], AnyArray] | None = None  # targets (n, p) of those of the source
    index: Ints | None = None  # (n,) sorted numbers of rows of the source; None: all of them

    n_targets = property(lambda self: self.scaler.n_varying)

    def __len__(self) -> int:
        return int(self.source.edges[-1]) if self.index is None else len(self.index)

    def block(self, rows: Index) -> Batch:
        """Rows selected by a slice or an index array, as a `Batch`."""
        return self.subset(rows).everything()

    def block_reader(self, rows: Index) -> Callable[[], Batch]:
        """Rows are read here, by the thread that visits; see `Dataset.block_reader`."""
        return self.subset(rows).everything

    def subset(self, rows: Index) -> ArrayDataset:
        """The table of some rows, selected by a slice or an index array, in memory."""
        X, y = self._taken(rows)
        y = y if self.relabel is None else self.relabel(y)
        noise, weight, offset = (at(one, rows) for one in (self.noise, self.weight, self.offset))
        found = ArrayDataset(X, y, noise, weight, self.scaler, self.least_noise, offset)
        return replace(found, relative=self.relative)

    def of_problem(self, task: Task) -> "ChunkedDataset":
        """The table of a `Task` with its labels; that of a pair of classes skips other rows."""
        index = None if task.has_all_rows else task.labels(self._labels)[0]
        weight, relabel = self.weight, partial(_labels_of, task)
        weight = weight if weight is None or index is None else weight[index]
        return replace(self, weight=weight, index=index, relabel=relabel, classes=None)

    def target_moments(self) -> Any:
        """`Moments` of the targets without their offsets, as they were when all rows were read."""
        return self.moments

    def inputs(self) -> AnyArray:
        """Inputs of at most 100,000 rows, drawn by weight."""
        return self.subset(self.sample(_INPUTS, np.random.RandomState(0))).X

    @cached_property
    def _labels(self) -> AnyArray:
        """Index of the class of every row, a byte or two each."""
        smallest = np.min_scalar_type(len(self.classes))
        chunks = (self.source.chunk(k) for k, size in enumerate(self.source.sizes) if size)
        return np.concatenate([y[:, 0].astype(smallest) for _, y in chunks])

    def _taken(self, rows: Index) -> Any:
        """Inputs and targets as the source has them."""
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        index = rows if self.index is None else self.index[rows]
        order = np.argsort(index, kind="stable")
        pieces = list(self.source.at(index[order]))
        if not pieces:
            return np.empty((0, self.n_features)), np.empty((0, len(self.scaler.mean)))
        return (np.concatenate(column)[np.argsort(order)] for column in zip(*pieces))


def _labels_of(task: Task, index: AnyArray) -> AnyArray:
    """Labels of rows all of which take part."""
    return task.labels(index[:, 0])[1][:, None]

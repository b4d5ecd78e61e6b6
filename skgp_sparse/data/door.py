"""The door: the only place that reads what users pass as X, y, weights and offsets.

An array is one chunk, a source is many, and a call of partial_fit has one. Every chunk is checked
by the same `Rules`. The answer is a `Dataset` in the units of the user; labels are indices of its
classes. Small sources become the arrays that their chunks make up, so that the fit is the same to
the last bit. (`skgp_sparse.dask` reads partitions, each on its worker, by the same rules.)

A source that is too large for memory is passed through once (`survey`), which checks every chunk
and notes what is to be remembered. Then it is a table that reads and checks its chunks again
(`ChunkedDataset`).
"""

from collections.abc import Callable
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from skgp_sparse.data.arrays import ArrayDataset, joined
from skgp_sparse.data.checks import (
    Given,
    are_floats,
    check_alpha,
    check_classes,
    check_in_memory,
    is_lazy,
)
from skgp_sparse.data.columns import as_table, types_of
from skgp_sparse.data.dataset import Dataset, at
from skgp_sparse.data.moments import Moments, TargetScaler, is_small, merge
from skgp_sparse.ground.validation import check_any_weight
from skgp_sparse.sources import Chunk, is_source


class Survey(NamedTuple):
    """Results of the first pass over the chunks of a source."""

    sizes: list  # rows of every chunk
    n_features: int
    n_targets: int
    weight: np.ndarray | None  # (n,)
    offset: np.ndarray | None  # (n,)
    noise: float | np.ndarray  # known variance, scalar or (n,)
    notes: list  # of every chunk that has rows: `Moments`, or labels and their weights
    rows: ArrayDataset | None  # all of them, where they are few
    feature_names: list | None


def survey(source, rules, alpha):
    """First pass through a source, as a `Survey`; every chunk is checked.

    Parameters
    ----------
    source : source
    rules : Rules
    alpha : float, array-like of shape (n,) or None
        Known noise variance.
    """
    sizes, notes, known, parts, few, outline, n = [], [], [], [], True, None, 0
    rules = rules._replace(names=getattr(source, "feature_names", None))
    for number, chunk in _all_chunks(source, rules.name):
        with about_chunk(number, source, rules.name):
            chunk = as_chunk(chunk)
            sizes.append(_size(chunk, number, source))
            n += sizes[-1]
            if sizes[-1] == 0:
                continue
            part = rules.check(Given(*chunk))
            outline = outline or Outline.of(part)
            outline.check(Outline.of(part))
            notes.append(part.label_weights() if rules.labels else part.target_moments())
        every = np.arange(len(part))  # for copies: some readers fill the same array again and again
        known.append((at(part.weight, every), at(part.offset, every)))
        few = few and is_small(n * outline.n_features)
        parts = [*parts, part.subset(every)] if few else []
    if outline is None:
        raise ValueError(
            f"{rules.name}: the {kind_of(source)} has no rows, but at least one is required. "
            "Give a chunk with rows."
        )
    noise = check_alpha(alpha, n, rules.name)
    weight, offset = map(_joined, zip(*known))
    check_any_weight(weight is None or weight.any())
    return Survey(
        sizes=sizes,
        n_features=outline.n_features,
        n_targets=int(np.prod(outline.columns_of_y)),
        weight=weight,
        offset=offset,
        noise=noise,
        notes=notes,
        rows=replace(joined(parts), noise=noise) if few else None,
        feature_names=_names_of(source, outline.n_features, rules.name),
    )


@contextmanager
def about_rows(which):
    """Errors say which rows they are about; those of other kinds say it in a note."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{which}: {error}") from error
    except Exception as error:
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"{which} was asked for.")
        raise


def about_chunk(number, source, name):
    """Context whose errors are about a chunk of a source."""
    return about_rows(f"{name}: chunk {number} of the {kind_of(source)}")


class Outline(NamedTuple):
    """Properties that all chunks, or parts on the workers of a cluster, have in common."""

    n_features: int
    columns_of_y: tuple
    has_weight: bool
    has_offset: bool
    has_text: bool

    @classmethod
    def of(cls, part):
        """Outline of an `ArrayDataset`."""
        return cls(
            part.X.shape[1],
            part.y.shape[1:],
            part.weight is not None,
            part.offset is not None,
            part.y.dtype.kind in "OSU",
        )

    def check(self, other):
        """Raise if another outline is different."""
        if other == self:
            return
        now, before = (", ".join(map(str, one.columns_of_y)) for one in (other, self))
        words = {
            "n_features": f"X has {other.n_features} columns, before {self.n_features}",
            "columns_of_y": f"y has shape (n, {now}), before shape (n, {before})",
            "has_weight": "some chunks have a sample_weight, others have none",
            "has_offset": "some chunks have an offset, others have none",
            "has_text": "some labels are text, others are numbers",
        }
        which = next(key for key in words if getattr(self, key) != getattr(other, key))
        raise ValueError(
            f"All chunks must be of the same form, but {words[which]}. Give all of them the same."
        )


def _all_chunks(source, name):
    """Numbers and chunks, in order."""
    sizes, number = source.chunk_sizes, 0
    while sizes is None or number < len(sizes):
        with about_chunk(number, source, name):
            chunk = source.chunk(number)
        if chunk is None and sizes is None:
            return
        yield number, chunk
        number += 1


def as_chunk(chunk):
    """A `Chunk` of what a source gives."""
    if not isinstance(chunk, tuple) or not 2 <= len(chunk) <= 4:
        raise TypeError(
            "A chunk must be a tuple (X, y), (X, y, sample_weight) or (X, y, sample_weight, "
            f"offset). Got {type(chunk).__name__}"
            f"{f' of length {len(chunk)}' if isinstance(chunk, tuple) else ''}."
        )
    return Chunk(*chunk)


def _size(chunk, number, source):
    """Number of rows, which must be that which the source has announced."""
    size = (*np.shape(chunk.X), 1)[0]  # what has no shape is refused later
    if source.chunk_sizes is not None and source.chunk_sizes[number] != size:
        announced = source.chunk_sizes[number]
        raise ValueError(
            f"X has {size} rows, but chunk_sizes has {announced}. Make them agree, or set "
            "it to None."
        )
    return size


def _joined(columns):
    """Arrays one after the other; numbers and None are the same for all rows."""
    return columns[0] if np.ndim(columns[0]) == 0 else np.concatenate(columns)


def _names_of(source, n_features, name):
    names = getattr(source, "feature_names", None)
    if names is not None and len(names) != n_features:
        raise ValueError(
            f"{name}: feature_names of the {kind_of(source)} has {len(names)} names, but the "
            f"chunks have {n_features} columns. Give a name to each column."
        )
    return names


def kind_of(source):
    return f"source ({type(source).__name__})"


_SAME = "in the first pass. Give the same chunks each time."


def chunked(source, survey, rules):
    """The `ChunkedDataset` of rows that a source gives again and again.

    Parameters
    ----------
    source : OpenSource
    survey : Survey
    rules : Rules
    """
    moments = classes = None
    encode = _as_targets
    if rules.labels:
        labels, weights = map(np.concatenate, zip(*survey.notes))
        weights = None if survey.weight is None else weights
        classes = check_classes(labels, weights, rules.name)[0]
        encode = partial(_as_indices, classes)
    else:
        moments = merge(survey.notes)
        if rules.likelihood is not None:
            encode = partial(_as_observations, rules)
    shape = survey.sizes, survey.n_features, survey.n_targets
    chunks = _SameChunks(source.source, rules.name, *shape, encode)
    return ChunkedDataset(
        source.reads(chunks, survey.sizes),
        survey.n_features,
        TargetScaler.none(survey.n_targets),
        survey.noise,
        survey.weight,
        offset=survey.offset,
        moments=moments,
        classes=classes,
    )


class _SameChunks(NamedTuple):
    """Chunks of a source that was surveyed, as a `Reader` wants them."""

    source: object
    name: str
    sizes: list
    n_features: int
    n_targets: int
    encode: object  # y as numbers (n, p)

    def __call__(self, k):
        size, d = self.sizes[k], self.n_features
        if size == 0:
            return np.empty((0, d)), np.empty((0, self.n_targets))
        with about_chunk(k, self.source, self.name):
            chunk = self.source.chunk(k)
            if chunk is None:
                raise ValueError(f"It is missing, but there were {len(self.sizes)} {_SAME}")
            chunk = as_chunk(chunk)
            X, y = _as_floats(chunk.X), self.encode(_targets_of(chunk))
            if X.shape != (size, d) or len(y) != size:
                raise ValueError(
                    f"X has shape {X.shape} and y has {len(y)} rows, but X had {(size, d)} {_SAME}"
                )
            return X, y


def _targets_of(chunk):
    """The targets, where rows without weight, which may have any, have that of another row."""
    counts = np.ravel(1.0 if chunk.sample_weight is None else chunk.sample_weight) != 0.0
    if counts.all() or not counts.any():
        return chunk.y
    y = np.array(chunk.y)
    y[~counts] = y[counts][0]
    return y


def _as_floats(X):
    """A copy: some readers fill the same array again and again."""
    X = np.asarray(X)
    return X.astype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)


def _as_targets(y):
    y = np.array(y, dtype=np.float64)
    return y.reshape(len(y), -1)


def _as_observations(rules, y):
    return np.clip(_as_targets(y), *rules.likelihood.ends)


def _as_indices(classes, y):
    """Indices of labels (n, 1)."""
    y = np.asarray(y).ravel()
    index = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if not np.all(classes[index] == y):
        other = y[np.flatnonzero(classes[index] != y)[0]]
        raise ValueError(f"There is a label {other}, which was not there {_SAME}")
    return index[:, None].astype(np.int32)


def read(estimator, rules, given, types, reset):
    """All rows that an estimator is fitted to, as a `Dataset`.

    Parameters
    ----------
    estimator : estimator
        It is told the number of its features and their names, or asked for them if not `reset`.
    rules : Rules
    given : Given
    types : ColumnTypes or None
        Of the columns of X; None: all are numbers.
    reset : bool
    """
    alpha = getattr(estimator, "alpha", None)
    check_in_memory(rules.name, **given._asdict())
    if isinstance(given.X, OpenSource):
        return _read_source(estimator, rules, given, alpha)
    if given.X_std is not None and types is not None:
        raise ValueError(
            f"{rules.name}: X_std is for arrays and data frames of numbers, but columns of X are "
            "categories or times. Leave X_std out, or encode X before."
        )
    X = given.X if are_floats(given.X) else as_table(given.X)
    numbers = X if types is None else types.encoded(X, rules.name)
    rules = rules if types is None else rules._replace(names=types.names)
    rows = rules.check(given._replace(X=numbers), alpha, all_rows=True)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return encoded(rows, rules)


def read_chunk(estimator, rules, given, reset, types=None):
    """The `ArrayDataset` of the rows of a call of partial_fit that count."""
    name, X = f"{rules.name}.partial_fit", given.X
    if is_source(X):
        _refuse_source(
            X,
            name,
            "Pass its chunks one by one, such as partial_fit(*source.chunk(k)[:2]) for the arrays "
            "X and y of chunk number k, or the source itself to fit.",
        )
    for argument, value in given._asdict().items():
        if is_lazy(value):
            raise TypeError(
                f"{argument} is a dask collection ({type(value).__name__}), but {name} takes one "
                "chunk of rows in memory in every call. Pass the partitions one by one, each after "
                "compute(), or all rows to fit of DaskSparseGPRegressor or DaskSparseGPClassifier "
                "of skgp_sparse.dask."
            )
    if types is not None or types_of(X, estimator.categorical_features, name) is not None:
        raise ValueError(
            f"{name} takes numbers, but columns of X are categories or times, or were so in fit. "
            "Pass all rows to fit, or encode them before, by the transformers of "
            "sklearn.preprocessing."
        )
    if not reset:
        rules = rules._replace(names=getattr(estimator, "feature_names_in_", None))
    part = rules.check(given, getattr(estimator, "alpha", None), all_rows=True)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return part.counting()


def encoded(rows, rules):
    """The table in memory, whose labels are replaced by indices of at least two classes."""
    if not rules.labels:
        return rows
    classes, index = check_classes(rows.y, rows.weight, rules.name)
    return replace(rows, y=index.ravel(), classes=classes)


def _read_source(estimator, rules, given, alpha):
    named = given._asdict()
    X = named.pop("X")
    passed = [argument for argument, value in named.items() if value is not None]
    if passed:
        raise ValueError(
            f"{rules.name}: {' and '.join(passed)} cannot be passed beside a source of rows. Leave "
            "them out, and let the chunks of the source be (X, y, sample_weight, offset)."
        )
    summary = survey(X.source, rules, alpha)
    estimator.n_features_in_ = summary.n_features
    vars(estimator).pop("feature_names_in_", None)
    if summary.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(summary.feature_names, dtype=object)
    if summary.rows is not None:
        return encoded(summary.rows, rules)
    return chunked(X, summary, rules)


class OpenSource:
    """A source during a fit."""

    def __init__(self, source):
        self.source, self.reader = source, None

    def reads(self, read, sizes):
        """The `Reader` of checked chunks, which is closed with the source."""
        self.reader = Reader(read, sizes)
        return self.reader

    def close(self):
        """Give back chunks in memory, and what the source has open."""
        if self.reader is not None:
            self.reader.forget()
        if callable(getattr(self.source, "close", None)):
            self.source.close()


@contextmanager
def opened(given):
    """Context with rows of a user, in which a source is an `OpenSource`."""
    if isinstance(given.X, np.ndarray) or not is_source(given.X):
        yield given
    else:
        with closing(OpenSource(given.X)) as X:
            yield given._replace(X=X)


def as_passed(given):
    """Inputs and targets as the user passed them, for callbacks."""
    return given.X.source if isinstance(given.X, OpenSource) else given.X, given.y


def check_query(X, name):
    """Raise if points at which an estimator is evaluated come from a source."""
    if is_source(X):
        remedy = "Pass the inputs of its chunks one by one, such as source.chunk(k)[0]."
        _refuse_source(X, f"a prediction or score of {name}", remedy)


def _refuse_source(X, what, remedy):
    raise TypeError(
        f"X is a source of rows ({type(X).__name__}), but {what} takes an array of rows. {remedy}"
    )


_INPUTS = 100_000  # rows that a user's own function sees


# -- the table whose rows are chunks that something else reads: files, a stream, anything ----------
# A block of rows is cut out of the chunks that overlap it. Only the last of these stays in memory.
# Chunks are read in order as far as the visits are in order, and by the thread that visits: threads
# that compute are given blocks.


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
        if not task.has_all_rows:
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

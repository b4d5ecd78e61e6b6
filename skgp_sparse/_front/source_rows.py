"""A source in the place of X becomes rows, after a first pass through its chunks.

A small source becomes the arrays that its chunks make up, and goes their way, so that the fit is
the same to the last bit. A large one becomes a `ChunkedTable` table.
"""

from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.chunked import ChunkedTable, Reader
from skgp_sparse._engine.moments import merge, moments_of
from skgp_sparse._front.surveys import about_chunk, as_chunk
from skgp_sparse._front.targets import scale_of
from skgp_sparse._front.training_rows import check_alpha, check_noise
from skgp_sparse.sources import is_source


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
def opened(X):
    """Context with an `OpenSource` if X is a source, otherwise with X itself."""
    if not is_source(X):
        yield X
        return
    source = OpenSource(X)
    try:
        yield source
    finally:
        source.close()


def as_passed(X):
    """What the user passed as X, for callbacks."""
    return X.source if isinstance(X, OpenSource) else X


def check_no_source(X, what, remedy):
    """Raise if X is a source, where rows have to be an array."""
    if is_source(X):
        raise TypeError(
            f"X is a source of rows ({type(X).__name__}), but {what} takes an array of rows. "
            f"{remedy}"
        )


def check_query(X, name):
    """Raise if points at which an estimator is evaluated come from a source."""
    remedy = "Pass the inputs of its chunks one by one, such as source.chunk(k)[0]."
    check_no_source(X, f"a prediction or score of {name}", remedy)


def check_alone(name, **others):
    """Raise if something was passed that the chunks of a source have themselves."""
    passed = [other for other, value in others.items() if value is not None]
    if passed:
        raise ValueError(
            f"{name}: {' and '.join(passed)} cannot be passed beside a source of rows. Leave them "
            "out, and let the chunks of the source be (X, y, sample_weight, offset)."
        )


def check_alpha_of_source(alpha, name):
    """Known noise variance as a float, the same for all rows; 0 where there is none."""
    if np.size(alpha) > 1:
        raise ValueError(
            f"The 'alpha' parameter of {name} must be a number or None if the rows come from a "
            f"source. Got an array of shape {np.shape(alpha)}. For known noise that differs "
            "between rows, pass arrays or memory maps."
        )
    return check_alpha(alpha, 1, name)


def moments_of_targets(chunk):
    """`Moments` of the targets of a chunk without their offsets, None if no row has weight."""
    y = _as_targets(chunk.y)
    return moments_of(y if chunk.offset is None else y - chunk.offset[:, None], chunk.sample_weight)


def chunked_rows(opened, found, *, alpha, normalize, name):
    """The table of a large source with numbers as targets; see `training_rows`."""
    noise, offset = check_alpha_of_source(alpha, name), found.offset
    mean, scale = np.zeros(found.n_targets), np.ones(found.n_targets)
    if normalize:
        _, mean, spread = merge(found.notes)
        scale = scale_of(mean, spread, shared=noise > 0)
    check_noise(noise, scale, name)
    return ChunkedTable(
        reader=opened.reads(_Checked.of(opened, found, _as_targets, name), found.sizes),
        n_features=found.n_features,
        n_targets=found.n_targets,
        noise=noise,
        weight=found.weight,
        y_mean=mean,
        y_scale=scale,
        offset=None if offset is None else offset / scale[0],
    )


def labels_and_weights(chunk):
    """Labels of a chunk, sorted, and the sum of the weights of each."""
    labels, index = np.unique(chunk.y, return_inverse=True)
    return labels, np.bincount(index, chunk.sample_weight, minlength=len(labels))


def labelled_chunks(opened, found, classes, name):
    """The `LabelledChunks` of a large source with labels as targets."""
    read = _Checked.of(opened, found, partial(_as_indices, classes), name)
    reader = opened.reads(read, found.sizes)
    return LabelledChunks(reader, found.n_features, found.weight, classes)


class LabelledChunks(NamedTuple):
    """Rows of several classes, from which the table of a problem of all rows can be made."""

    reader: Reader  # of the class indices
    n_features: int
    weight: np.ndarray | None
    classes: np.ndarray

    def table(self, task, name):
        """The `ChunkedTable` table of a `multiclass.Task`."""
        if task.negative is not None:
            raise ValueError(
                f"{name}: multi_class='one_vs_one' takes the rows of two classes out of all, which "
                "would read a large source again for every pair. Use multi_class='one_vs_rest' or "
                "'softmax', or pass arrays or memory maps."
            )
        nothing, one = np.zeros(1), np.ones(1)
        relabel = partial(_labels_of, task)
        own = self.n_features, 1, 0.0, self.weight, nothing, one
        return ChunkedTable(self.reader, *own, relabel=relabel)


class _Checked(NamedTuple):
    """Chunks of a source that was surveyed, as a `Reader` wants them."""

    source: object
    name: str
    sizes: list
    n_features: int
    n_targets: int
    encode: object  # y as numbers (n, p)

    @classmethod
    def of(cls, opened, found, encode, name):
        return cls(opened.source, name, found.sizes, found.n_features, found.n_targets, encode)

    def __call__(self, k):
        size, d = self.sizes[k], self.n_features
        if size == 0:
            return np.empty((0, d)), np.empty((0, self.n_targets))
        chunk = self.source.chunk(k)
        with about_chunk(k, self.source, self.name):
            if chunk is None:
                raise ValueError(f"It is missing, but there were {len(self.sizes)} {_SAME}")
            chunk = as_chunk(chunk)
            X, y = _as_floats(chunk.X), self.encode(chunk.y)
            if X.shape != (size, d) or len(y) != size:
                raise ValueError(
                    f"X has shape {X.shape} and y has {len(y)} rows, but X had {(size, d)} {_SAME}"
                )
            return X, y


_SAME = "in the first pass. A source must give the same chunks each time."


def _as_floats(X):
    """A copy: some readers fill the same array again and again."""
    X = np.asarray(X)
    return X.astype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)


def _as_targets(y):
    y = np.array(y, dtype=np.float64)
    return y.reshape(len(y), -1)


def _as_indices(classes, y):
    """Indices of labels (n, 1)."""
    y = np.asarray(y).ravel()
    index = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if not np.all(classes[index] == y):
        other = y[np.flatnonzero(classes[index] != y)[0]]
        raise ValueError(f"There is a label {other}, which was not there {_SAME}")
    return index[:, None].astype(np.int32)


def _labels_of(task, index):
    return task.labels(index[:, 0])[1][:, None]

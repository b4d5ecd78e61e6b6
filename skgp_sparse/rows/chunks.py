"""Rows of a source that is too large for memory: a store that reads them chunk by chunk."""

from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.chunked_dataset import ChunkedDataset
from skgp_sparse._engine.moments import merge
from skgp_sparse.rows.part import Records, TargetScaler, check_classes
from skgp_sparse.rows.survey import about_chunk, as_chunk

_SAME = "in the first pass. Give the same chunks each time."


class SourceRecords(Records):
    """Rows that a source gives again and again.

    Parameters
    ----------
    source : OpenSource
    survey : Survey
    rules : Rules
    """

    def __init__(self, source, survey, rules):
        self.survey, self.name = survey, rules.name
        encode = _as_targets
        if rules.labels:
            labels, weights = map(np.concatenate, zip(*survey.notes))
            weights = None if survey.weight is None else weights
            self.classes = check_classes(labels, weights, self.name)[0]
            encode = partial(_as_indices, self.classes)
        shape = survey.sizes, survey.n_features, survey.n_targets
        chunks = _SameChunks(source.source, self.name, *shape, encode)
        self.reader = source.reads(chunks, survey.sizes)

    def numbers(self, normalize):
        """The `ChunkedDataset` of numbers."""
        survey = self.survey
        units = TargetScaler.of(merge(survey.notes), survey.noise, normalize, self.name)
        offset = None if survey.offset is None else survey.offset / units.scale[0]
        return self._table(units, survey.weight, noise=survey.noise, offset=offset)

    def labels(self, task):
        """The `ChunkedDataset` of a problem; that of a pair of classes skips the rows of others."""
        index, weight = None, self.survey.weight
        if task.negative is not None:
            index = task.labels(self._index_of_labels())[0]
            weight = None if weight is None else weight[index]
        return self._table(
            TargetScaler.none(1), weight, relabel=partial(_labels_of, task), index=index
        )

    def _table(self, units, weight, noise=0.0, **columns):
        shape = self.survey.n_features, units.n_varying
        return ChunkedDataset(self.reader, *shape, noise, weight, *units, **columns)

    def _index_of_labels(self):
        """Index of the class of every row, a byte or two each."""
        if not hasattr(self, "_index"):
            smallest = np.min_scalar_type(len(self.classes))
            chunks = map(self.reader.chunk, range(len(self.survey.sizes)))
            self._index = np.concatenate([y[:, 0].astype(smallest) for _, y in chunks])
        return self._index


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
            X, y = _as_floats(chunk.X), self.encode(chunk.y)
            if X.shape != (size, d) or len(y) != size:
                raise ValueError(
                    f"X has shape {X.shape} and y has {len(y)} rows, but X had {(size, d)} {_SAME}"
                )
            return X, y


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
    """Labels of rows all of which take part."""
    return task.labels(index[:, 0])[1][:, None]

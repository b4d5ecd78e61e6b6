"""Rows of a source that is too large for memory: a table that reads and checks its chunks."""

from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.data.chunked_dataset import ChunkedDataset
from skgp_sparse._engine.data.moments import merge
from skgp_sparse._engine.data.target_scaler import TargetScaler
from skgp_sparse.rows.checks import check_classes
from skgp_sparse.rows.survey import about_chunk, as_chunk

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

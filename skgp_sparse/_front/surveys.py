"""The first pass through a source: every chunk is checked, and what is to be remembered noted."""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from skgp_sparse._front.sklearn_compat import check_any_weight
from skgp_sparse._front.training_rows import is_small
from skgp_sparse.sources import Chunk


class Survey(NamedTuple):
    """What the first pass finds out."""

    sizes: list  # rows of every chunk
    n_features: int
    n_targets: int
    weight: np.ndarray | None  # (n,)
    offset: np.ndarray | None  # (n,)
    notes: list  # of every chunk that has rows
    arrays: Chunk | None  # all rows, where they are few
    feature_names: list | None

    def describe(self, estimator):
        """Set what an estimator says about its features."""
        estimator.n_features_in_ = self.n_features
        vars(estimator).pop("feature_names_in_", None)
        if self.feature_names is not None:
            estimator.feature_names_in_ = np.asarray(self.feature_names, dtype=object)


def survey(source, check, note, name):
    """First pass through a source, as a `Survey`.

    Parameters
    ----------
    source : source
    check : callable
        ``chunk -> chunk``: the same rows as arrays, all of which are valid; or an error.
    note : callable
        ``chunk -> object``: what is to be remembered of valid rows.
    name : str
        Of the estimator, for errors.
    """
    sizes, notes, others, few, outline, n = [], [], [], [], None, 0
    for number, chunk in enumerate(_all_chunks(source)):
        with about_chunk(number, source, name):
            chunk = as_chunk(chunk)
            sizes.append(_size(chunk, number, source))
            if sizes[-1] == 0:
                continue
            chunk = Chunk(*map(_copied, check(chunk)))
            outline = outline or _Outline.of(chunk)
            outline.check(chunk)
            notes.append(note(chunk))
        others.append((chunk.sample_weight, chunk.offset))
        n += sizes[-1]
        if not is_small(n * outline.n_features):
            few = None
        elif few is not None:
            few.append(chunk)
    if outline is None:
        raise ValueError(f"{name}: the {_kind(source)} has no rows, but at least one is required.")
    return Survey(
        sizes=sizes,
        n_features=outline.n_features,
        n_targets=int(np.prod(outline.columns_of_y)),
        **_joined_others(others),
        notes=notes,
        arrays=few and Chunk(*map(_joined, zip(*few))),
        feature_names=_names_of(source, outline.n_features, name),
    )


@contextmanager
def about_chunk(number, source, name):
    """Errors say which chunk they are about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{name}: chunk {number} of the {_kind(source)}: {error}") from error


class _Outline(NamedTuple):
    """What all chunks have in common."""

    n_features: int
    columns_of_y: tuple
    has_weight: bool
    has_offset: bool
    has_text: bool

    @classmethod
    def of(cls, chunk):
        return cls(
            chunk.X.shape[1],
            chunk.y.shape[1:],
            chunk.sample_weight is not None,
            chunk.offset is not None,
            chunk.y.dtype.kind in "OSU",
        )

    def shape_of_y(self):
        """In words."""
        return f"shape (n, {', '.join(map(str, self.columns_of_y))})"

    def check(self, chunk):
        """Raise if a chunk has another outline."""
        others = _Outline.of(chunk)
        if others == self:
            return
        words = {
            "n_features": f"X has {others.n_features} columns, before {self.n_features}",
            "columns_of_y": f"y has {others.shape_of_y()}, before {self.shape_of_y()}",
            "has_weight": "some chunks have a sample_weight, others have none",
            "has_offset": "some chunks have an offset, others have none",
            "has_text": "some labels are text, others are numbers",
        }
        which = next(key for key in words if getattr(self, key) != getattr(others, key))
        raise ValueError(f"All chunks must be of the same form, but {words[which]}.")


def _all_chunks(source):
    """All chunks, in order."""
    if source.chunk_sizes is not None:
        yield from map(source.chunk, range(len(source.chunk_sizes)))
        return
    number = 0
    while (chunk := source.chunk(number)) is not None:
        yield chunk
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
        raise ValueError(f"X has {size} rows, but chunk_sizes has {source.chunk_sizes[number]}.")
    return size


def _copied(column):
    """A copy: some readers fill the same array again and again."""
    return None if column is None else np.array(column)


def _joined(columns):
    return None if columns[0] is None else np.concatenate(columns)


def _joined_others(others):
    weight, offset = map(_joined, zip(*others))
    check_any_weight(weight is None or weight.any())
    return {"weight": weight, "offset": offset}


def _names_of(source, n_features, name):
    names = getattr(source, "feature_names", None)
    if names is not None and len(names) != n_features:
        raise ValueError(
            f"{name}: feature_names of the {_kind(source)} has {len(names)} names, but the chunks "
            f"have {n_features} columns."
        )
    return names


def _kind(source):
    return f"source ({type(source).__name__})"

"""The first pass through a source: every chunk is checked, and what is to be remembered noted."""

from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.data.array_dataset import ArrayDataset, joined
from skgp_sparse._engine.data.dataset import at
from skgp_sparse._ground.distinct import is_small
from skgp_sparse._ground.sklearn_compat import check_any_weight
from skgp_sparse.rows.checks import check_alpha
from skgp_sparse.sources import Chunk


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
            part = rules.check(*chunk)
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

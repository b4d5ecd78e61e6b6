"""The check of sources, which reads all chunks several times as a fit does."""

import pickle
from itertools import count

import numpy as np

from skgp_sparse.sources import Chunk, is_source
from skgp_sparse.testing import _require as require


def check_source(source, pickles=False):
    """Check that an object meets the requirements of `skgp_sparse.sources`.

    All chunks are read in order three times, as in the evaluations of a fit, and then every other
    chunk. They must be the same every time, also after `close`, if the source has this method.
    Their numbers of rows must be those in `chunk_sizes`, and all chunks must have the same columns,
    weights or none, and offsets or none. All chunks of the first pass stay in memory: check a
    source of few rows.

    Parameters
    ----------
    source : object
        The source to check.
    pickles : bool, default=False
        Whether the source must give the same chunks after it was pickled. A fit does not need it,
        and the pickle of a fitted estimator leaves the source out.

    Raises
    ------
    AssertionError
        If a requirement is not met. The message says which one, and names the chunk.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.testing import check_source
    >>> class Squares:
    ...     chunk_sizes = [100, 50]
    ...     def chunk(self, k):
    ...         X = np.random.RandomState(k).normal(size=(self.chunk_sizes[k], 2))
    ...         return X, (X**2).sum(axis=1)
    >>> check_source(Squares())
    """
    name = type(source).__name__
    require.that(is_source(source), f"{name} must have the members chunk_sizes and chunk.")
    chunks = _chunks(source)
    require.that(any(len(chunk.X) for chunk in chunks), f"{name} has no rows.")
    names, columns = getattr(source, "feature_names", None), chunks[0].X.shape[1]
    if names is not None:
        sentence = f"{name}.feature_names has {len(names)} names, expected {columns}."
        require.that(len(names) == columns, sentence)
    _compare(_chunks(source), chunks, f"{name} in a second pass")
    _compare(_chunks(source, 2), chunks[::2], f"{name} after chunks were left out", step=2)
    if callable(getattr(source, "close", None)):
        for _ in range(2):
            require.call(f"{name}.close()", source.close)
    _compare(_chunks(source), chunks, f"{name} after close")
    if pickles:
        copy = require.call(f"pickling {name}", lambda: pickle.loads(pickle.dumps(source)))
        _compare(_chunks(copy), chunks, f"{name} from a pickle")


def _chunks(source, step=1):
    """Copies of every step-th chunk, as some sources fill the same array again, checked."""
    sizes, found = source.chunk_sizes, []
    for number in count(0, step) if sizes is None else range(0, len(sizes), step):
        what = f"{type(source).__name__}.chunk({number})"
        chunk = require.call(what, source.chunk, number)
        if chunk is None and sizes is None:
            break
        is_chunk, kind = isinstance(chunk, tuple) and 2 <= len(chunk) <= 4, type(chunk).__name__
        require.that(is_chunk, f"{what} is a {kind}, expected a tuple (X, y) or a Chunk.")
        chunk = Chunk(*(None if column is None else np.array(column) for column in chunk))
        found.append(chunk)
        axes, rows = chunk.X.ndim, len(chunk.X)
        require.that(axes == 2, f"{what}: X has {axes} axes, expected 2.")
        expected = rows if sizes is None else sizes[number]
        require.that(
            rows == expected, f"{what} has {rows} rows, expected {expected} (chunk_sizes)."
        )
        for part, column, first in zip(Chunk._fields, chunk, found[0]):
            good = column is None or len(column) == rows
            require.that(good, f"{what}: {part} has another number of rows than X, {rows}.")
            form, expected = (None if one is None else one.shape[1:] for one in (column, first))
            sentence = f"{what}: {part} has columns of shape {form}, expected {expected}."
            require.that(form == expected, sentence)
    return found


def _compare(actual, chunks, what, step=1):
    """Compare chunks, of which these are every step-th one, with those of the first pass."""
    sentence = f"{what} has {len(actual)} chunks, expected {len(chunks)}."
    require.that(len(actual) == len(chunks), sentence)
    for index, pair in enumerate(zip(actual, chunks)):
        for part, again, before in zip(Chunk._fields, *pair):
            sentence = f"{what}: chunk({step * index}) has another {part} than the first time."
            require.that(np.array_equal(again, before), sentence)

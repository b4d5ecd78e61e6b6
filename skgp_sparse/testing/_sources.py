"""The check of sources, which reads all chunks several times as a fit does."""

import pickle
from itertools import count, takewhile

import numpy as np

from skgp_sparse.sources import Chunk, is_source
from skgp_sparse.testing import _require as require

_PARTS = Chunk._fields


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
    chunks = _all_chunks(source)
    require.that(any(len(chunk.X) for chunk in chunks), f"{name} has no rows.")
    _check_form(chunks, name)
    names, columns = getattr(source, "feature_names", None), chunks[0].X.shape[1]
    if names is not None:
        sentence = f"{name}.feature_names has {len(names)} names, expected {columns}."
        require.that(len(names) == columns, sentence)
    _compare(_all_chunks(source), chunks, f"{name} in a second pass")
    some = [_chunk(source, number) for number in range(0, len(chunks), 2)]
    _compare(some, chunks[::2], f"{name} after chunks were left out", step=2)
    if callable(getattr(source, "close", None)):
        for what in (f"{name}.close()", f"a second {name}.close()"):
            with require.no_error(what):
                source.close()
    _compare(_all_chunks(source), chunks, f"{name} after close")
    if pickles:
        with require.no_error(f"pickling {name}"):
            copy = pickle.loads(pickle.dumps(source))
        _compare(_all_chunks(copy), chunks, f"{name} from a pickle")


def _all_chunks(source):
    """Copies of all chunks, asked for in order."""
    numbers = count() if source.chunk_sizes is None else range(len(source.chunk_sizes))
    chunks = (_chunk(source, number) for number in numbers)
    return list(takewhile(lambda chunk: chunk is not None, chunks))


def _chunk(source, number):
    """A copy of a chunk, as some sources fill the same array again; None after the last one."""
    sizes, what = source.chunk_sizes, f"{type(source).__name__}.chunk({number})"
    with require.no_error(what):
        chunk = source.chunk(number)
    if chunk is None and sizes is None:
        return None
    is_chunk, kind = isinstance(chunk, tuple) and 2 <= len(chunk) <= 4, type(chunk).__name__
    require.that(is_chunk, f"{what} is a {kind}, expected a tuple (X, y) or a Chunk.")
    chunk = Chunk(*(None if column is None else np.array(column) for column in chunk))
    rows = len(chunk.X)
    expected = rows if sizes is None else sizes[number]
    require.that(rows == expected, f"{what} has {rows} rows, expected {expected} (chunk_sizes).")
    for part, column in zip(_PARTS, chunk):
        good = column is None or len(column) == rows
        require.that(good, f"{what}: {part} has another number of rows than X, {rows}.")
    return chunk


def _check_form(chunks, name):
    """Check that all chunks have the same columns."""
    forms = [[None if c is None else c.shape[1:] for c in chunk] for chunk in chunks]
    for number, (chunk, form) in enumerate(zip(chunks, forms)):
        what = f"{name}.chunk({number})"
        require.that(chunk.X.ndim == 2, f"{what}: X has {chunk.X.ndim} axes, expected 2.")
        for part, columns, expected in zip(_PARTS, form, forms[0]):
            sentence = f"{what}: {part} has columns of shape {columns}, expected {expected}."
            require.that(columns == expected, sentence)


def _compare(actual, chunks, what, step=1):
    """Compare chunks, of which these are every step-th one, with those of the first pass."""
    sentence = f"{what} has {len(actual)} chunks, expected {len(chunks)}."
    require.that(len(actual) == len(chunks), sentence)
    for index, pair in enumerate(zip(actual, chunks)):
        for part, again, before in zip(_PARTS, *pair):
            sentence = f"{what}: chunk({step * index}) has another {part} than the first time."
            require.that(np.array_equal(again, before), sentence)

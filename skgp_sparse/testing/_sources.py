"""The check of sources, which reads all chunks several times as a fit does."""

import pickle

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
    chunks = _all_chunks(source, name)
    require.that(any(len(chunk.X) for chunk in chunks), f"{name} has no rows.")
    _check_form(chunks, name)
    names = getattr(source, "feature_names", None)
    columns = next(np.shape(chunk.X)[1] for chunk in chunks if len(chunk.X))
    if names is not None:
        sentence = f"{name}.feature_names has {len(names)} names, expected {columns}."
        require.that(len(names) == columns, sentence)
    _compare(_all_chunks(source, name), chunks, f"{name} in a second pass")
    for number in range(0, len(chunks), 2):
        again = _chunk(source, number, name)
        _compare_one(again, chunks[number], f"{name}.chunk({number}) after chunks were left out")
    if callable(getattr(source, "close", None)):
        for what in (f"{name}.close()", f"a second {name}.close()"):
            with require.no_error(what):
                source.close()
    _compare(_all_chunks(source, name), chunks, f"{name} after close")
    if pickles:
        with require.no_error(f"pickling {name}"):
            copy = pickle.loads(pickle.dumps(source))
        _compare(_all_chunks(copy, name), chunks, f"{name} from a pickle")


def _all_chunks(source, name):
    """Copies of all chunks, asked for in order, after a check of their numbers of rows."""
    sizes, chunks = source.chunk_sizes, []
    while sizes is None or len(chunks) < len(sizes):
        chunk = _chunk(source, len(chunks), name)
        if chunk is None and sizes is None:
            break
        what = f"{name}.chunk({len(chunks)})"
        require.that(chunk is not None, f"{what} is None, expected a chunk.")
        rows = len(chunk.X)
        if sizes is not None:
            expected = sizes[len(chunks)]
            sentence = f"{what} has {rows} rows, expected {expected}, as chunk_sizes says."
            require.that(rows == expected, sentence)
        for part, column in zip(_PARTS, chunk):
            given = column is None or len(column) == rows
            require.that(given, f"{what}: {part} has another number of rows than X, {rows}.")
        chunks.append(chunk)
    return chunks


def _chunk(source, number, name):
    """A copy of a chunk, as some sources fill the same array again and again."""
    with require.no_error(f"{name}.chunk({number})"):
        chunk = source.chunk(number)
    if chunk is None:
        return None
    good = isinstance(chunk, tuple) and 2 <= len(chunk) <= 4
    kind = type(chunk).__name__
    sentence = f"{name}.chunk({number}) is a {kind}, expected a tuple (X, y) or a Chunk."
    require.that(good, sentence)
    return Chunk(*(None if column is None else np.array(column) for column in chunk))


def _check_form(chunks, name):
    """Check that all chunks have the same columns."""
    forms = [[None if c is None else np.shape(c)[1:] for c in chunk] for chunk in chunks]
    for number, (chunk, form) in enumerate(zip(chunks, forms)):
        what = f"{name}.chunk({number})"
        require.that(np.ndim(chunk.X) == 2, f"{what}: X has {np.ndim(chunk.X)} axes, expected 2.")
        for part, columns, expected in zip(_PARTS, form, forms[0]):
            sentence = (
                f"{what}: {part} has columns of shape {columns}, expected {expected}, as in "
                "chunk 0 (None where it is missing)."
            )
            require.that(columns == expected, sentence)


def _compare(actual, chunks, what):
    sentence = f"{what} has {len(actual)} chunks, expected {len(chunks)}."
    require.that(len(actual) == len(chunks), sentence)
    for number, (again, chunk) in enumerate(zip(actual, chunks)):
        _compare_one(again, chunk, f"{what}: chunk({number})")


def _compare_one(actual, chunk, what):
    for part, again, before in zip(_PARTS, actual, chunk):
        is_same = np.array_equal(again, before) if before is not None else again is None
        require.that(is_same, f"{what} has another {part} than the first time.")

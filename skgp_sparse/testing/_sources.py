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
    right = names is None or len(names) == columns
    require.that(right, f"{name}.feature_names has {len(names or ())} names, expected {columns}.")

    def compare(source, when, step=1):
        again, before = _chunks(source, step), chunks[::step]
        counts = f"{len(again)} chunks, expected {len(before)}"
        require.that(len(again) == len(before), f"{name} {when} has {counts}.")
        for k, one, other in zip(count(0, step), again, before):
            for part, values, first in zip(Chunk._fields, one, other):
                sentence = f"{name} {when}: chunk({k}) has another {part} than the first time."
                require.that(np.array_equal(values, first), sentence)

    compare(source, "in a second pass")
    compare(source, "after chunks were left out", step=2)
    for _ in range(2 if callable(getattr(source, "close", None)) else 0):
        require.call(f"{name}.close()", source.close)
    compare(source, "after close")
    if pickles:
        copy = require.call(f"pickling {name}", lambda: pickle.loads(pickle.dumps(source)))
        compare(copy, "from a pickle")


def _chunks(source, step=1):
    """Copies of every step-th chunk, as some sources fill the same array again, checked."""
    sizes, found = source.chunk_sizes, []
    for number in count(0, step) if sizes is None else range(0, len(sizes), step):
        what = f"{type(source).__name__}.chunk({number})"
        chunk = require.call(what, source.chunk, number)
        if chunk is None and sizes is None:
            break
        sentence = f"{what} is a {type(chunk).__name__}, expected a tuple (X, y) or a Chunk."
        require.that(isinstance(chunk, tuple) and 2 <= len(chunk) <= 4, sentence)
        chunk = Chunk(*(None if column is None else np.array(column) for column in chunk))
        found.append(chunk)
        rows, axes = len(chunk.X), chunk.X.ndim
        size = rows if sizes is None else sizes[number]
        require.that(rows == size, f"{what} has {rows} rows, expected {size} (chunk_sizes).")
        require.that(axes == 2, f"{what}: X has {axes} axes, expected 2.")
        for part, column, first in zip(Chunk._fields, chunk, found[0]):
            expected = None if first is None else (rows, *first.shape[1:])
            shape = None if column is None else column.shape
            sentence = f"{what}: {part} has shape {shape}, expected {expected}."
            require.that(shape == expected, sentence)
    return found

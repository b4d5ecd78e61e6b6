"""Checks of sources of rows."""

from itertools import count

import numpy as np

from skgp_sparse.data.checks import Rules
from skgp_sparse.data.door import OpenSource, as_chunk, survey
from skgp_sparse.sources import Chunk, Source, is_source

from ._comparisons import call, pickled, that


def check_source(source: Source, pickles: bool = False) -> None:
    """Check that an object meets the requirements of `skgp_sparse.sources`.

    All chunks are read in order three times, as in the evaluations of a fit, and then every other
    chunk. They must be the same every time, also after `close`, if the source has this method.
    Those of the first pass must be what `fit` takes: as many rows as `chunk_sizes` says, numbers
    without gaps, and in all chunks the same columns, weights or none, and offsets or none. They
    stay in memory: check a source of few rows.

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
    that(is_source(source), f"{name} must have the members chunk_sizes and chunk.")
    chunks = _chunks(source)
    rules = Rules(name, None, any(chunk.y.dtype.kind in "OSU" for chunk in chunks))
    members: dict[str, object] = {"chunk": {**dict(enumerate(chunks)), len(chunks): None}.get}
    members |= {one: getattr(source, one, None) for one in ("chunk_sizes", "feature_names")}
    call(f"a fit to {name}", survey, OpenSource(type(name, (), members)(), name), rules, None)

    def compare(source: Source, when: str, step: int = 1) -> None:
        now, first = _chunks(source, step), chunks[::step]
        that(len(now) == len(first), f"{name} {when} has {len(now)} chunks, expected {len(first)}.")
        for k, one, other in zip(count(0, step), now, first):
            for part, values, before in zip(Chunk._fields, one, other):
                sentence = f"{name} {when}: chunk({k}) has another {part} than the first time."
                that(np.array_equal(values, before), sentence)

    compare(source, "in a second pass")
    compare(source, "after chunks were left out", step=2)
    call(f"{name}.close()", OpenSource(source, name).close)
    compare(source, "after close")
    if pickles:
        compare(call(f"pickling {name}", pickled, source), "from a pickle")


def _chunks(source: Source, step: int = 1) -> list[Chunk]:
    """Copies of every step-th chunk, as some sources fill the same array again."""
    sizes, found = source.chunk_sizes, []
    for number in count(0, step) if sizes is None else range(0, len(sizes), step):
        what = f"{type(source).__name__}.chunk({number})"
        chunk = call(what, source.chunk, number)
        if chunk is None and sizes is None:
            break
        columns = call(what, as_chunk, chunk)
        found.append(Chunk(*(None if one is None else np.array(one) for one in columns)))
    return found

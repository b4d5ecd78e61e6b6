"""Training rows that are not an array: sources of chunks, which an estimator reads one by one.

Pass a source in the place of X, and no y: ``SparseGPRegressor().fit(source)``. At any time a few
chunks of it are in memory, and a fit reads them in order, many times. `Stream` takes a function
that starts an iterator of chunks, of files for instance. Memory maps are arrays. Sources of at most
a million numbers are read into memory, so that their fits are those of arrays.

A source of your own is any object with the two members of `Source`, which
`skgp_sparse.testing.check_source` checks.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

_END = object()  # of an iterator


class Chunk(NamedTuple):
    """Some consecutive training rows.

    The estimator copies what it keeps of a chunk, and changes nothing in it.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Inputs.
    y : array-like of shape (n,) or (n, p)
        Targets or class labels.
    sample_weight : array-like of shape (n,), default=None
        Sample weights.
    offset : array-like of shape (n,), default=None
        Known offsets of the latent values, for likelihoods.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.sources import Chunk
    >>> Chunk(np.zeros((3, 2)), np.zeros(3)).X.shape
    (3, 2)
    """

    X: Any
    y: Any
    sample_weight: Any = None
    offset: Any = None


class Source(Protocol):
    """Source of training rows in the place of X: an object that gives them chunk by chunk.

    Any object with these two members is a source. It need not be a subclass.

    `chunk` may give a `Chunk` or a tuple. If `chunk_sizes` is None, the first pass finds out how
    many rows there are.

    `skgp_sparse.testing.check_source` checks an object. A source may have ``feature_names``, a
    list of strings, and ``close()``, which is called after a fit and gives back what is open;
    chunks may be asked for again later. All chunks have the same columns. Either all or none of
    them have weights, or offsets; these are as in `fit`. Weights and offsets are kept in memory, 8
    bytes per row each, and for classifiers a byte or two for every label. The fitted estimator
    holds the source for `log_marginal_likelihood`, but its pickle does not, unless predictions come
    from neighbours.

    Attributes
    ----------
    chunk_sizes : sequence of int, or None
        The number of rows of every chunk. None means that it is not known before the first pass.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.sources import Chunk, Source, Stream
    >>> source: Source = Stream(lambda: iter([Chunk(np.zeros((3, 2)), np.zeros(3))]))
    >>> source.chunk(0).X.shape
    (3, 2)
    """

    @property
    def chunk_sizes(self) -> Sequence[int] | None:
        """The number of rows of every chunk, or None."""

    def chunk(self, k: int, /) -> Any:
        """Return a chunk, the same one every time.

        The estimator keeps no chunk and changes none. A source may return an array that it
        overwrites when the next chunk is asked for, or views of arrays that it keeps.

        Parameters
        ----------
        k : int
            Number of the chunk. Numbers come in ascending order, again and again, from the thread
            that called the estimator.

        Returns
        -------
        Chunk or tuple
            The columns ``(X, y)``, ``(X, y, sample_weight)`` or ``(X, y, sample_weight, offset)``:
            inputs of shape (n, d), targets of shape (n,) or (n, p), and weights and offsets of
            shape (n,), which may be None. If `chunk_sizes` is None, it is None after the last
            chunk.
        """


def is_source(rows: object) -> bool:
    """Tell whether an object is a source of chunks.

    Parameters
    ----------
    rows : object
        Anything that could be passed to `fit` as X.

    Returns
    -------
    bool
        Whether it has the members of a source. Arrays and data frames are no sources.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.sources import Stream, is_source
    >>> is_source(Stream(lambda: iter([]))), is_source(np.zeros((3, 2)))
    (True, False)
    """
    if isinstance(rows, type) or hasattr(rows, "shape") or hasattr(rows, "__array__"):
        return False
    return hasattr(rows, "chunk_sizes") and callable(getattr(rows, "chunk", None))


class Stream:
    """Source that runs through an iterator of chunks, and starts another one to go back.

    Parameters
    ----------
    factory : callable
        ``factory()`` returns an iterator of chunks, for example a generator, from the first chunk
        on. It is called once or a few times in every evaluation of the objective, and has to give
        the same chunks every time. `close` is called on iterators that have this method, unless
        they are exhausted.

    Attributes
    ----------
    chunk_sizes : None
        The sizes of the chunks are not known before they are read.

    Raises
    ------
    TypeError
        If `factory` cannot be called. An iterator itself could not be started again.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.sources import Stream
    >>> def days():
    ...     for day in range(5):
    ...         X = np.random.RandomState(day).uniform(-3, 3, size=(200, 1))
    ...         yield X, np.sin(X[:, 0])
    >>> model = SparseGPRegressor(n_inducing=10, random_state=0).fit(Stream(days))
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(0.5)) < 0.01)
    True
    """

    chunk_sizes: None = None
    _count: int | None
    _iterator: Any

    def __init__(self, factory: Callable[[], Iterable]) -> None:
        if not callable(factory):
            raise TypeError(
                "Stream takes a function that returns a new iterator of chunks, as a fit reads the "
                f"rows many times. Got {factory!r}. Pass the generator function without calling it."
            )
        self.factory, self._count = factory, None
        self._iterator, self._next = None, 0

    def __getstate__(self) -> dict[str, Any]:
        return vars(Stream(self.factory))  # iterators cannot be pickled, and start again

    def chunk(self, k: int) -> Any:
        """Run to a chunk, from the first one if it is not ahead.

        Parameters
        ----------
        k : int
            Number of the chunk.

        Returns
        -------
        Chunk, tuple or None
            What the iterator gives; None if it has ended.

        Raises
        ------
        TypeError
            If the iterator gives None in the place of a chunk.
        ValueError
            If the iterator goes on after the chunk that was the last one before.
        """
        if self._iterator is None or k < self._next:
            self.close()
            self._iterator = iter(self.factory())
        try:
            chunk = None
            for chunk in islice(self._iterator, k + 1 - self._next):
                if chunk is None:
                    raise TypeError(
                        f"Stream: the iterator gave None in the place of chunk {self._next}. Give "
                        "a tuple such as (X, y)."
                    )
                self._next += 1
            if self._next <= k:
                self._count, chunk = self._next, None
            if self._next == self._count:  # nothing may follow the last chunk
                if next(self._iterator, _END) is not _END:
                    raise ValueError(
                        f"Stream went on after {self._next} chunks. Give the same chunks each time."
                    )
                self.close()
        except BaseException:
            self.close()
            raise
        return chunk

    def close(self) -> None:
        """Close the iterator, so that what it has opened is given back."""
        iterator, self._iterator, self._next = self._iterator, None, 0
        if hasattr(iterator, "close"):
            iterator.close()

"""Training rows that are not an array: sources of chunks, which an estimator reads one by one.

Pass a source in the place of X, and no y: ``SparseGPRegressor().fit(source)``. At any time a few
chunks of it are in memory, and a fit reads them in order, many times. `Arrays` cuts arrays and
memory maps, `Files` reads lists of files, and `Stream` takes a function that starts an iterator of
chunks. Sources of at most a million numbers are read into memory, so that their fits are those of
arrays.

A source of your own is any object with the two members of `Source`, which
`skgp_sparse.testing.check_source` checks.
"""

import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from skgp_sparse.ground.validation import as_text

FilePath = str | Path
Names = str | Sequence[str] | None
Reader = Callable[[], "Chunk"]
_ROWS, _NUMBERS = 65_536, 1 << 22  # of a chunk at most, where nothing is said
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
    >>> from skgp_sparse.sources import Arrays, Source
    >>> source: Source = Arrays(np.zeros((3, 2)), np.zeros(3))
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
    >>> from skgp_sparse.sources import Arrays, is_source
    >>> is_source(Arrays(np.zeros((3, 2)), np.zeros(3))), is_source(np.zeros((3, 2)))
    (True, False)
    """
    if isinstance(rows, type) or hasattr(rows, "shape") or hasattr(rows, "__array__"):
        return False
    return hasattr(rows, "chunk_sizes") and callable(getattr(rows, "chunk", None))


class Arrays:
    """Source that cuts arrays: memory maps, or whatever has a shape and can be sliced.

    Parameters
    ----------
    X : array of shape (n, d)
        Inputs. Only slices of rows are read.
    y : array of shape (n,) or (n, p)
        Targets or class labels.
    sample_weight : array of shape (n,), default=None
        Sample weights.
    offset : array of shape (n,), default=None
        Known offsets of the latent values, for likelihoods.
    chunk_size : int, default=None
        Number of rows of a chunk. None means 65536, or fewer if X has more than 64 columns.

    Attributes
    ----------
    chunk_sizes : list of int
        Number of rows of every chunk.

    Raises
    ------
    ValueError
        If the arrays have different numbers of rows, or `chunk_size` is not a positive int.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.sources import Arrays
    >>> X = np.random.RandomState(0).uniform(-3, 3, size=(2000, 1))
    >>> source = Arrays(X, np.sin(X[:, 0]), chunk_size=500)
    >>> source.chunk_sizes
    [500, 500, 500, 500]
    >>> model = SparseGPRegressor(n_inducing=10, random_state=0).fit(source)
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(0.5)) < 0.01)
    True
    """

    def __init__(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        offset: npt.ArrayLike | None = None,
        *,
        chunk_size: int | None = None,
    ) -> None:
        columns = Chunk(X, y, sample_weight, offset)._asdict()
        self.columns = {name: _sliceable(c) for name, c in columns.items() if c is not None}
        self.slices = _slices(self.columns, chunk_size, "Arrays")
        self.chunk_sizes = [rows.stop - rows.start for rows in self.slices]

    def chunk(self, k: int) -> Chunk:
        """Return some consecutive rows.

        Parameters
        ----------
        k : int
            Number of the chunk.

        Returns
        -------
        Chunk
            Slices of the arrays.
        """
        return Chunk(**{name: column[self.slices[k]] for name, column in self.columns.items()})


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

    def __init__(self, factory: Callable[[], Iterable[Any]]) -> None:
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
            while self._next < k and self._step() is not None:
                pass
            chunk = self._step() if self._next == k else None
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

    def _step(self) -> Any:
        """The next chunk, None after the last one."""
        chunk = next(self._iterator, _END)
        if chunk is _END:
            self._count = self._next
            return None
        if chunk is None:
            raise TypeError(
                f"Stream: the iterator gave None in the place of chunk {self._next}. Give a tuple "
                "such as (X, y)."
            )
        self._next += 1
        return chunk


class Files:
    """Source that reads a list of files: .npy, .npz or Parquet, all of the same kind.

    Files are opened when a chunk is read, and closed after.

    Parameters
    ----------
    paths : sequence
        Paths of .npz files or of .parquet files; or pairs of .npy files ``(X, y)``, which may go
        on with files of the weights and the offsets, ``(X, y, sample_weight, offset)``. The pairs
        are cut into chunks of `chunk_size` rows. Every .npz file is a chunk, and so is every row
        group of a .parquet file.
    target : str or list of str, default=None
        Name of the column of y, or names if there are several. It is needed for Parquet files. In
        .npz files, it is the name of an array, by default "y".
    features : str or list of str, default=None
        Names of the columns of X, by default all that have no other role. In .npz files, it is the
        name of an array, by default "X".
    sample_weight : str, default=None
        Name of the column or array of the weights.
    offset : str, default=None
        Name of the column or array of the offsets.
    chunk_size : int, default=None
        Number of rows of a chunk of .npy files. None means 65536, or fewer if X has more than 64
        columns.

    Attributes
    ----------
    chunk_sizes : list of int
        Number of rows of every chunk.
    feature_names : list of str or None
        Names of the columns of X in Parquet files.

    Raises
    ------
    ValueError
        If there are no files, or files of another kind, if a name is missing, or if an argument is
        given that files of this kind do not use.
    ImportError
        If there are Parquet files and pyarrow is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from skgp_sparse.sources import Files
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "X.npy", np.zeros((100, 2)))
    >>> np.save(folder / "y.npy", np.zeros(100))
    >>> Files([(folder / "X.npy", folder / "y.npy")], chunk_size=60).chunk_sizes
    [60, 40]
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath | Sequence[FilePath]],
        *,
        target: Names = None,
        features: Names = None,
        sample_weight: npt.ArrayLike | None = None,
        offset: npt.ArrayLike | None = None,
        chunk_size: int | None = None,
    ) -> None:
        files: list[Any] = [paths] if isinstance(paths, (str, Path)) else list(paths)
        kind, names = _kind_of(files), Chunk(features, target, sample_weight, offset)
        roles = {"sample_weight": sample_weight, "offset": offset, "chunk_size": chunk_size}
        _check_used(kind, target=target, features=features, **roles)
        self.feature_names = None
        if kind == ".parquet":
            names = _columns_of(files[0], names)
            self.feature_names = names.X
        pieces = [piece for path in files for piece in _CUT[kind](path, names, chunk_size)]
        self.chunk_sizes = [rows for rows, _ in pieces]
        self.readers = [read for _, read in pieces]

    def chunk(self, k: int) -> Chunk:
        """Read some consecutive rows.

        Parameters
        ----------
        k : int
            Number of the chunk.

        Returns
        -------
        Chunk
            Arrays in memory.
        """
        return self.readers[k]()


# -- .npy ------------------------------------------------------------------------------


def _cut_npy(
    paths: Sequence[FilePath], names: Chunk, chunk_size: int | None
) -> Iterator[tuple[int, Reader]]:
    """Numbers of rows, and readers, of the chunks of some .npy files that belong together."""
    columns = {str(path): _mapped(path) for path in paths}
    for rows in _slices(columns, chunk_size, "Files"):
        yield rows.stop - rows.start, partial(_read_npy, paths, rows)


def _read_npy(paths: Sequence[FilePath], rows: slice) -> Chunk:
    return Chunk(*(np.array(_mapped(path)[rows]) for path in paths))


def _mapped(path: FilePath) -> Any:
    """A .npy file without its rows; it is open as long as the array lives."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


# -- .npz ------------------------------------------------------------------------------


def _cut_npz(path: FilePath, names: Chunk, chunk_size: int | None) -> Iterator[tuple[int, Reader]]:
    names = names._replace(X=names.X or "X", y=names.y or "y")
    with zipfile.ZipFile(path) as archive:
        present = [name.removesuffix(".npy") for name in archive.namelist()]
        _check_names(path, filter(None, names), present, "arrays")
        with archive.open(f"{names.X}.npy") as file:
            major, _ = np.lib.format.read_magic(file)
            shape = getattr(np.lib.format, f"read_array_header_{major}_0")(file)[0]
    yield shape[0], partial(_read_npz, path, names)


def _read_npz(path: FilePath, names: Chunk) -> Chunk:
    with np.load(path, allow_pickle=False) as arrays:
        return Chunk(*(None if name is None else arrays[name] for name in names))


# -- Parquet ---------------------------------------------------------------------------


def _columns_of(path: FilePath, names: Chunk) -> Chunk:
    """Names of the columns of Parquet files, as lists; those of weights may be empty."""
    if names.y is None:
        raise ValueError("Files: target must be the name of the column of y in Parquet files.")
    X, *others = ([name] if isinstance(name, str) else list(name or ()) for name in names)
    with _parquet(path) as file:
        present = file.schema_arrow.names
    return Chunk(X or [name for name in present if name not in sum(others, [])], *others)


def _cut_parquet(
    path: FilePath, names: Chunk, chunk_size: int | None
) -> Iterator[tuple[int, Reader]]:
    with _parquet(path) as file:
        _check_names(path, sum(names, []), file.schema_arrow.names, "columns")
        for k in range(file.num_row_groups):
            yield file.metadata.row_group(k).num_rows, partial(_read_parquet, path, names, k)


def _read_parquet(path: FilePath, names: Chunk, k: int) -> Chunk:
    with _parquet(path) as file:
        table = file.read_row_group(k, columns=sum(names, []))
    X, *others = ([table[name].to_numpy() for name in part] for part in names)
    columns = (c[0] if len(c) == 1 else np.stack(c, axis=1) if c else None for c in others)
    return Chunk(np.stack(X, axis=1), *columns)


def _parquet(path: FilePath) -> Any:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(
            f"Files: reading {path} needs the package pyarrow. Install it, for example by "
            'pip install "skgp-sparse[parquet]", or convert the files to .npy.'
        ) from error
    return ParquetFile(path)


# -- what they share -------------------------------------------------------------------

_CUT: dict[str, Callable[..., Iterator[tuple[int, Reader]]]] = {
    ".npy": _cut_npy,
    ".npz": _cut_npz,
    ".parquet": _cut_parquet,
}
_INSTEAD = {
    ".npy": "Pass tuples of files (X, y, sample_weight, offset).",
    ".npz": "For smaller chunks, write smaller files: every file is a chunk.",
    ".parquet": "For smaller chunks, write smaller row groups: each is a chunk.",
}


def _kind_of(paths: Sequence[FilePath | Sequence[FilePath]]) -> str:
    """The one ending of all files; a tuple of paths has that of .npy files."""
    kinds = {_ending(path) for path in paths}
    if len(kinds) == 1 and kinds <= _CUT.keys():
        return kinds.pop()
    raise ValueError(
        "Files: paths must be a list of pairs of .npy files, of .npz files or of .parquet files. "
        f"Got {' beside '.join(sorted(kinds)) or 'no files'}."
    )


def _ending(path: FilePath | Sequence[FilePath]) -> str:
    if isinstance(path, (str, Path)):
        ending = Path(path).suffix
        return "a single .npy file" if ending == ".npy" else ending
    is_group = 2 <= len(path) <= 4 and all(Path(part).suffix == ".npy" for part in path)
    return ".npy" if is_group else f"the group {path}"


def _check_used(kind: str, **given: object) -> None:
    """Raise if something is given that files of a kind do not use."""
    unused = [
        f"{name}={as_text(value)}"
        for name, value in given.items()
        if value is not None and (name == "chunk_size") != (kind == ".npy")
    ]
    if unused:
        raise ValueError(f"Files: {kind} files do not use {', '.join(unused)}. {_INSTEAD[kind]}")


def _check_names(path: FilePath, wanted: Iterable[Any], present: list[str], what: str) -> None:
    missing = [name for name in wanted if name not in present]
    if missing:
        raise ValueError(
            f"Files: {path} has no {what} {missing}. It has {sorted(present)}. Pass the names as "
            "target, features, sample_weight and offset."
        )


def _slices(columns: dict[str, Any], chunk_size: int | None, owner: str) -> list[slice]:
    """Chunks of some columns, which must have as many rows."""
    is_int = isinstance(chunk_size, Integral) and not isinstance(chunk_size, bool)
    if chunk_size is not None and not (is_int and chunk_size >= 1):
        raise ValueError(
            f"The 'chunk_size' parameter of {owner} must be None or an int in the range [1, inf). "
            f"Got {as_text(chunk_size)} instead."
        )
    sizes = {name: column.shape[0] for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{rows} of {name}" for name, rows in sizes.items())
        raise ValueError(f"{owner}: arrays must have as many rows. Got {listed}.")
    n, *shape = next(iter(columns.values())).shape
    size = chunk_size or max(1, min(_ROWS, _NUMBERS // max(math.prod(shape), 1)))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _sliceable(column: Any) -> Any:
    """Rows by position: data frames have `iloc`, lists become arrays."""
    if hasattr(column, "iloc"):
        return column.to_numpy()
    return column if hasattr(column, "shape") else np.asarray(column)

"""Conversion of the user's dask arrays and dataframes to `Partitions` on the workers.

Partitions stay where they are. Empty ones are left out, and one that is far larger than the rest is
cut into several parts, which dask may move to idle workers.
"""

from contextlib import ExitStack
from itertools import pairwise

import numpy as np
from dask import delayed

from skgp_sparse._engine.data.array_dataset import ArrayDataset
from skgp_sparse.dask import _tasks
from skgp_sparse.dask._partitions import Partitions, ask, once, release, send
from skgp_sparse.rows.checks import is_lazy
from skgp_sparse.rows.door import about_rows

_FEWEST_PARTS = 32  # a part is at most this share of the table ...
_FEWEST_ROWS = 1 << 14  # ... unless it has fewer rows, ...
_MOST_NUMBERS = 1 << 24  # ... and it has at most so many numbers


def load(client, rules, held, X, **columns):
    """The `Partitions` of the user's collections, the number of their rows, and their `Outline`.

    Parameters
    ----------
    client : Client
    rules : Rules
    held : ExitStack
        Which lets the cluster forget them, when it is closed.
    X : dask array or dataframe
    **columns : dask collection, ndarray, number or None
        ``y``, ``sample_weight``, ``offset`` and ``alpha``: one value or row for each row of X.
    """
    with ExitStack() as until_loaded:
        blocks, sizes = blocks_of_inputs(X, rules.name), None
        if any(np.ndim(column) and not is_lazy(column) for column in columns.values()):
            blocks = _hold(client, blocks, until_loaded)
            sizes = ask(client, [delayed(len, pure=False)(block) for block in blocks])
        for what, column in columns.items():
            given = column, f"{rules.name}: {what}", X, blocks, sizes
            columns[what] = aligned(*given) if np.ndim(column) else [column] * len(blocks)
        shared, call = once(rules), delayed(_tasks.checked, pure=False)
        wanted = [
            call(number, shared, block, **dict(zip(columns, values)))
            for number, (block, *values) in enumerate(zip(blocks, *columns.values()))
        ]
        parts = _hold(client, wanted, held)
        outlines = ask(client, [delayed(_tasks.outline_of, pure=False)(part) for part in parts])
    return _in_good_parts(client, parts, outlines, held, rules.name)


def blocks_of_inputs(X, name):
    """The partitions of X; raises unless it is a dask array or dataframe."""
    if is_lazy(X) and hasattr(X, "to_delayed") and getattr(X, "ndim", None) == 2:
        return blocks_of(X)
    raise TypeError(
        f"{name}: if one argument is a dask collection, X must be a dask array of shape "
        f"(n_samples, n_features) or a dask dataframe. Got {type(X).__name__}"
        f"{f' with {X.ndim} dimensions' if hasattr(X, 'ndim') else ''}."
    )


def blocks_of(collection):
    """The partitions of a dask array or dataframe, as delayed objects."""
    if hasattr(collection, "chunks"):
        if collection.ndim == 2 and collection.numblocks[1] > 1:
            collection = collection.rechunk({1: -1})
        return list(collection.to_delayed().ravel())
    return list(collection.to_delayed())


def known_sizes(collection):
    """Rows of each partition of a dask array, None where they are not known."""
    chunks = getattr(collection, "chunks", None)
    return None if chunks is None or np.isnan(chunks[0]).any() else chunks[0]


def aligned(column, what, X, blocks, sizes):
    """Parts of a column for each block of X: partitions of a collection, or slices of an array.

    `sizes` are the numbers of rows of the blocks, None if they are not known.
    """
    if not is_lazy(column) and sizes is None:
        raise TypeError(
            f"{what} must be a dask collection or a number, because the sizes of the partitions of "
            f"X are not known. Got {type(column).__name__}."
        )
    if not is_lazy(column):
        if len(column) != sum(sizes):
            raise ValueError(
                f"{what} has {len(column)} rows and X has {sum(sizes)}. Pass one for each row of X."
            )
        return [once(part) for part in np.split(np.asarray(column), np.cumsum(sizes)[:-1])]
    if known_sizes(X) and known_sizes(column) and len(column) == len(X):
        column = column.rechunk({0: X.chunks[0]})
    partitions = blocks_of(column)
    if len(partitions) != len(blocks):
        raise ValueError(
            f"{what} has {len(partitions)} partitions and X has {len(blocks)}. {_tasks.SAME_ROWS}"
        )
    return partitions


def _hold(client, wanted, held):
    futures = send(client, wanted)
    held.callback(release, futures)
    return futures


def _in_good_parts(client, parts, outlines, held, name):
    """The parts that have rows, the large ones cut; the number of rows; their `Outline`."""
    full = [(number, *outline) for number, outline in enumerate(outlines) if outline is not None]
    if not full:
        raise ValueError(
            f"{name}: all partitions of X are empty, but a fit needs rows. Pass a collection with "
            "rows."
        )
    outline = full[0][2]
    for number, _, other in full:
        with about_rows(f"Partition {number}"):
            outline.check(other)
    n, wanted = sum(rows for _, rows, _ in full), []
    n_columns = outline.n_features + int(np.prod(outline.columns_of_y))
    most = min(max(-(-n // _FEWEST_PARTS), _FEWEST_ROWS), max(_MOST_NUMBERS // n_columns, 1))
    cut = delayed(ArrayDataset.subset, pure=False)
    for number, rows, _ in full:
        edges = np.linspace(0, rows, -(-rows // most) + 1).astype(int).tolist()
        pieces = [cut(parts[number], slice(*pair)) for pair in pairwise(edges)]
        wanted += pieces if len(pieces) > 1 else [parts[number]]
    return Partitions(client, _hold(client, wanted, held)), n, outline

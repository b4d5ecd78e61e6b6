"""What the user passes, dask arrays and dataframes, becomes `Partitions` on the workers.

Partitions stay where they are. Empty ones are left out, and one that is far larger than the rest is
cut into several parts, which dask may move to idle workers.
"""

from contextlib import ExitStack

import numpy as np
from dask import delayed

from skgp_sparse.dask import _tasks
from skgp_sparse.dask._partitions import Partitions, ask, once, release, send
from skgp_sparse.rows.checks import is_lazy

_SHARES = 32  # a part is at most this share of the table ...
_FEWEST_ROWS = 1 << 14  # ... unless it has fewer rows, ...
_MOST_NUMBERS = 1 << 24  # ... and it has at most so many numbers


def load(client, rules, held, X, **others):
    """The `Partitions` of the user's collections, the rows of each of them, and their `Outline`.

    Parameters
    ----------
    client : Client
    rules : Rules
    held : ExitStack
        Which lets the cluster forget them, when it is closed.
    X : dask array or dataframe
    **others : dask collection, ndarray, number or None
        ``y``, ``weight``, ``offset`` and ``noise``: one value or row for each row of X.
    """
    with ExitStack() as until_loaded:
        blocks = _blocks_of_inputs(X, rules.name)
        if any(np.ndim(one) and not is_lazy(one) for one in others.values()):
            blocks = _hold(client, blocks, until_loaded)
        columns = [_aligned(client, one, what, X, blocks, rules) for what, one in others.items()]
        shared = once(rules)
        names = tuple(others)
        call = delayed(_load, pure=False)
        wanted = [
            call(number, shared, names, *row) for number, row in enumerate(zip(blocks, *columns))
        ]
        parts = _hold(client, wanted, held)
        outlines = ask(client, [delayed(_tasks.outline_of, pure=False)(part) for part in parts])
    return _in_good_parts(client, parts, outlines, held, rules.name)


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


def _load(number, rules, names, X, *columns):
    return _tasks.load(number, rules, X, **dict(zip(names, columns)))


def _hold(client, wanted, held):
    futures = send(client, wanted)
    held.callback(release, futures)
    return futures


def _blocks_of_inputs(X, name):
    if not (is_lazy(X) and hasattr(X, "to_delayed") and getattr(X, "ndim", None) == 2):
        raise TypeError(
            f"{name}: if one argument is a dask collection, X must be a dask array of shape "
            f"(n_samples, n_features) or a dask dataframe. Got {type(X).__name__}"
            f"{f' with {X.ndim} dimensions' if hasattr(X, 'ndim') else ''}."
        )
    return blocks_of(X)


def _aligned(client, column, what, X, blocks, rules):
    """What belongs to each block of X: partitions, slices of an array, or the same value."""
    if np.ndim(column) == 0 and not is_lazy(column):
        return [column] * len(blocks)
    if not is_lazy(column):
        return _slices(client, np.asarray(column), what, blocks, rules.name)
    if hasattr(column, "chunks") and hasattr(X, "chunks") and column.chunks[0] != X.chunks[0]:
        if known_sizes(X) and known_sizes(column) and len(column) == len(X):
            column = column.rechunk({0: X.chunks[0]})
    found = blocks_of(column)
    if len(found) != len(blocks):
        raise ValueError(
            f"{rules.name}: {what} has {len(found)} partitions and X has {len(blocks)}. They must "
            "hold the same rows: make them from one collection, or repartition them alike."
        )
    return found


def _slices(client, column, what, blocks, name):
    sizes = ask(client, [delayed(_tasks.size_of, pure=False)(block) for block in blocks])
    if len(column) != sum(sizes):
        raise ValueError(f"{name}: {what} has {len(column)} rows and X has {sum(sizes)}.")
    return [once(part) for part in np.split(column, np.cumsum(sizes)[:-1])]


def _in_good_parts(client, parts, outlines, held, name):
    """The parts that have rows, the large ones cut; the rows of each of them; their `Outline`."""
    full = [(number, *outline) for number, outline in enumerate(outlines) if outline is not None]
    if not full:
        raise ValueError(f"{name}: all partitions of X are empty, but a fit needs rows.")
    outline = full[0][2]
    for number, _, other in full:
        try:
            outline.check(other)
        except ValueError as error:
            raise ValueError(f"{name}: partition {number}: {error}") from error
    most = _most_rows(sum(rows for _, rows, _ in full), outline)
    futures, sizes = [], []
    for number, rows, _ in full:
        edges = np.linspace(0, rows, -(-rows // most) + 1).astype(int).tolist()
        part = parts[number]
        futures += [part] if len(edges) == 2 else _pieces(client, part, edges, held)
        sizes += np.diff(edges).tolist()
    return Partitions(client, futures), sizes, outline


def _most_rows(n, outline):
    by_share = max(-(-n // _SHARES), _FEWEST_ROWS)
    n_targets = int(np.prod(outline.columns_of_y))
    return max(min(by_share, _MOST_NUMBERS // (outline.n_features + n_targets)), 1)


def _pieces(client, part, edges, held):
    call = delayed(_tasks.cut, pure=False)
    return _hold(client, [call(part, *pair) for pair in zip(edges[:-1], edges[1:])], held)

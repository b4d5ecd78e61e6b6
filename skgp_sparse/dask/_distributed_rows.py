"""The table whose rows are parts on the workers of a cluster.

A visit is one task for each part, which runs its blocks in order, and a fixed tree of sums: the
result depends on the parts, not on the workers. Nothing of the size of an array (rows, m) waits for
a second visit, so that features are computed again; numbers of every row (sites) wait in the client
and travel with the tasks.

Dask arrays and dataframes become `Partitions` (`load`), workers are asked in one way (`ask`), and
their tasks are functions of arrays, without any state.
"""

import asyncio
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain, pairwise
from operator import add
from threading import Lock
from typing import NamedTuple

import cloudpickle
import dask
import numpy as np
from dask import delayed
from distributed import Client, get_client
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from skgp_sparse.data.arrays import ArrayDataset, joined
from skgp_sparse.data.checks import Given, is_lazy
from skgp_sparse.data.dataset import Dataset, Layout, block_budget, row_blocks
from skgp_sparse.data.door import Outline, about_rows
from skgp_sparse.data.moments import (
    Moments,
    TargetScaler,
    merge,
    moments_of,
    or_one,
    spread_or_zero,
    unique_rows,
)
from skgp_sparse.explain.views import Task
from skgp_sparse.ground.parallel import single_threaded_blas, slices
from skgp_sparse.ground.validation import as_text

SAME_ROWS = (
    "Partitions of X and of what belongs to its rows must hold the same rows. Make them from one "
    "collection, or repartition them alike."
)


class View(NamedTuple):
    """How a part is read: the units of its targets, and the problem whose labels they are."""

    units: TargetScaler
    least_noise: float = 0.0
    task: Task | None = None  # of a classifier
    classes: np.ndarray | None = None

    def rows(self, part):
        """The `ArrayDataset` of a part."""
        if self.classes is not None:
            part = replace(part, y=np.searchsorted(self.classes, part.y))
        rows = part if self.task is None else part.of_problem(self.task)
        return replace(rows.in_units(self.units), least_noise=self.least_noise)


class Summary(NamedTuple):
    """Summary of a part for the client, of the rows that have weight, if there are any."""

    rows: int
    inputs: Moments | None = None
    low: np.ndarray | float = np.inf  # range of the inputs
    high: np.ndarray | float = -np.inf
    targets: object = None  # `Moments`, or labels and their weights
    largest_noise: float = 0.0


# -- tasks of workers on a part of the rows: functions of arrays, without any state ----------------
# A task may run twice, on any worker, and gives the same answer: a worker may die.


def checked(number, rules, X, alpha=None, **columns):
    """The `ArrayDataset` of what the user's partition holds, None if that has no rows.

    Raises what a local fit would.
    """
    with about_rows(f"Partition {number}"):
        if 0 == len(X) == len(columns["y"]):
            return None
        if np.ndim(columns["y"]) and len(columns["y"]) != len(X):
            raise ValueError(f"y has {len(columns['y'])} rows and X has {len(X)}. {SAME_ROWS}")
        return rules.check(Given(X, **columns), alpha)


def outline_of(part):
    """Number of rows and `Outline`; None where there are no rows."""
    return None if part is None else (len(part), Outline.of(part))


def take(part, view, rows):
    """The table of the rows that an index array or a slice selects."""
    return view.rows(part).subset(rows)


def column(part, view, name, rows):
    """`weight`, `offset` or `y` of a slice of the rows of a table."""
    return getattr(view.rows(part), name)[rows]


def distinct(part, view, most):
    """Distinct inputs of positive weight, None where there are more than `most`."""
    return view.rows(part).distinct(most)


def target_moments(part, view):
    """`Moments` of the standardised targets; None where no row has weight."""
    rows = view.rows(part)
    return moments_of(rows.targets(), rows.weight)


def summarise(part, view):
    """The `Summary` of the rows of a table."""
    rows = view.rows(part)
    with np.errstate(all="ignore"):  # an overflow ends as NaN, for the client
        targets = rows.label_weights() if rows.y.ndim == 1 else rows.target_moments()
        counting = rows.counting()
        if not len(counting):
            return Summary(len(rows), targets=targets)
        X = counting.X.astype(np.float64)
        inputs, noise = moments_of(X, counting.weight), float(np.max(rows.noise))
    return Summary(len(rows), inputs, X.min(axis=0), X.max(axis=0), targets, noise)


def visit(asked, part, own):
    """Visit the blocks of a part in order, as `Dataset.visit` does.

    Parameters
    ----------
    asked : tuple
        The function, the `View`, and how rows are cut into blocks: the same for all parts.
    part : ArrayDataset
    own : bytes
        A pickle of what earlier visits left for each block, and of which of them are to leave
        something (None: all).
    """
    function, view, cut = asked
    kept, keep = cloudpickle.loads(own)
    rows = view.rows(part)
    layout = Layout(row_blocks(len(rows), *cut), 1, [], [])
    with single_threaded_blas(), np.errstate(all="ignore"):
        return rows.visit(function, layout, *kept, keep=keep)


def sums_of_visit(asked, part, own):
    """The sums of a visit that leaves nothing."""
    return visit(asked, part, own)[0]


def total(*sums):
    """Sums of visits, in order."""
    return tuple(reduce(add, values) for values in zip(*sums))


# -- futures of the parts of the rows, and the one way to ask workers for something ----------------
# Only these futures live as long as a fit. Those of an answer are released when it has come, or has
# not. What is lost with a worker is computed again by dask: nothing is scattered.

_LOST = (asyncio.CancelledError, CancelledError, CommClosedError)
_FAN_IN = 8  # sums that are added at once: a tree that depends on nothing but their number
_CONFIG = Lock()  # what dask.config sets for a while, it sets for all threads
_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # it is meant to be large


def resolve_client(client, name):
    """The user's client, or the one that is current."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise RuntimeError(
                f"{name} works on a cluster of dask, and there is no client. Create one before, "
                "for example distributed.Client(), or pass it as client."
            ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(
            f"The 'client' parameter of {name} must be None or a distributed.Client that is not "
            f"asynchronous. Got {as_text(client)} instead."
        )
    _check_running(client)
    return client


def ask(client, wanted):
    """Results that workers compute of a list of delayed objects; none stays on the cluster."""
    futures = send(client, wanted)
    try:
        with in_words(client):
            return client.gather(futures)
    finally:
        release(futures)


def send(client, wanted):
    """Futures of delayed objects."""
    with in_words(client), _CONFIG, dask.config.set(_QUIET):
        return client.compute(wanted, optimize_graph=False)


def release(futures):
    """Let the cluster forget, whether it is still there or not."""
    for future in futures:
        with suppress(Exception):
            future.release()


@contextmanager
def in_words(client):
    """Context in which an error that comes from the cluster says what to do."""
    _check_running(client)
    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"{error.allowed_failures + 1} workers of the cluster died in the same task of the "
            "fit. In most cases they lack memory. Use smaller partitions, fewer threads per "
            "worker, or more memory per worker. The logs of the workers say more."
        ) from error
    except _LOST as error:
        _check_running(client)
        raise RuntimeError(
            "The cluster lost rows of the table and cannot compute them again, or cancelled the "
            f"fit: {error}. Persist or load the table again, and call fit again."
        ) from error
    except Exception:
        _check_running(client)
        raise


def _check_running(client):
    if client.status not in ("running", "connecting"):
        raise RuntimeError(
            f"The client of the cluster is not connected (its status is {client.status!r}). Pass "
            "a client that is open until fit is over, and call fit again."
        )


def once(thing):
    """Anything as one delayed object, which the workers hand to each other and unpickle once."""
    return delayed(cloudpickle.loads, pure=False)(cloudpickle.dumps(thing))


@dataclass(frozen=True, eq=False)
class Partitions:
    """Parts of the rows on the workers, none of which is empty.

    Parameters
    ----------
    client : Client
    futures : list of Future of ArrayDataset
    """

    client: Client
    futures: list

    def each(self, function, *args, rows=None):
        """``function(part, *args)`` of all parts, in order.

        With `rows`, a dict, it is ``function(part, *args, rows[k])`` of the parts whose numbers k
        are its keys.
        """
        call, shared = delayed(function, pure=False), [once(arg) for arg in args]
        if rows is None:
            return ask(self.client, [call(part, *shared) for part in self.futures])
        wanted = [call(self.futures[k], *shared, selected) for k, selected in rows.items()]
        return ask(self.client, wanted)

    def sums(self, asked, own, leave):
        """Sums of a visit, and what it left of each part.

        Parameters
        ----------
        asked : tuple
            What `visit` wants for all parts.
        own : list of tuple
            What `visit` wants for each part.
        leave : bool
            Whether anything is left.
        """
        call = delayed(visit if leave else sums_of_visit, pure=False, nout=2)
        shared, left = once(asked), []
        sums = [call(shared, part, cloudpickle.dumps(one)) for part, one in zip(self.futures, own)]
        if leave:
            sums, left = zip(*sums)
        add = delayed(total, pure=False)
        while len(sums) > 1:
            sums = [add(*sums[some]) for some in slices(len(sums), _FAN_IN)]
        whole, *left = ask(self.client, [*sums, *left])
        return whole, left


# -- conversion of the user's dask arrays and dataframes to `Partitions` ---------------------------
# Partitions stay where they are. Empty ones are left out, and one that is far larger than the rest
# is cut into several parts, which dask may move to idle workers.

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
        shared, call = once(rules), delayed(checked, pure=False)
        wanted = [
            call(number, shared, block, **dict(zip(columns, values)))
            for number, (block, *values) in enumerate(zip(blocks, *columns.values()))
        ]
        parts = _hold(client, wanted, held)
        outlines = ask(client, [delayed(outline_of, pure=False)(part) for part in parts])
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
            f"{what} has {len(partitions)} partitions and X has {len(blocks)}. {SAME_ROWS}"
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


_MOST_INPUTS = 1 << 27  # numbers (1 GB) of one kind for each row that the client has at a time


@dataclass(frozen=True, eq=False)
class DaskDataset(Dataset):
    """A training table whose rows stay on the workers.

    Parameters
    ----------
    parts : Partitions
    n_features : int
    summaries : list of Summary
        Of each part.
    reading : View
        How the parts are read.
    weighted, shifted : bool
        Whether rows have weights, and offsets.
    least_noise : float
        As in `ArrayDataset`.
    """

    parts: Partitions
    n_features: int
    summaries: list
    reading: View
    weighted: bool = False
    shifted: bool = False
    least_noise: float = 0.0

    in_memory = False

    n_targets = property(lambda self: self.units.n_varying)
    units = property(lambda self: self.reading.units)
    classes = property(lambda self: None if self.reading.task else self.reading.classes)
    sizes = property(lambda self: [summary.rows for summary in self.summaries])
    noise = property(lambda self: max(summary.largest_noise for summary in self.summaries))

    @classmethod
    def of(cls, parts, n_features, reading, weighted, shifted):
        """The table of parts, of which those without rows are left out."""
        summaries = parts.each(summarise, reading)
        full = [pair for pair in zip(parts.futures, summaries) if pair[1].rows]
        futures, summaries = map(list, zip(*full))
        parts = replace(parts, futures=futures)
        return cls(parts, n_features, summaries, reading, weighted, shifted)

    def __len__(self):
        return sum(self.sizes)

    def __reduce__(self):
        """Pickle as None: no rows travel with a function that is to be applied to them."""
        return type(None), ()

    @property
    def view(self):
        """How workers read the parts."""
        return self.reading._replace(least_noise=self.least_noise)

    def in_units(self, units):
        """The table with targets in other units than those of the user."""
        return replace(self, reading=self.reading._replace(units=units))

    def of_problem(self, task):
        """The table of a `Task` with its labels."""
        has = self.weighted, self.shifted
        return self.of(self.parts, self.n_features, self.reading._replace(task=task), *has)

    def target_moments(self):
        """`Moments` of the targets without their offsets."""
        return merge(summary.targets for summary in self.summaries)

    @cached_property
    def weight(self):
        """Weights of all rows (n,), which come to the client; None where there are none."""
        return self._column("weight") if self.weighted else None

    @cached_property
    def offset(self):
        """Offsets of all rows (n,), which come to the client; None where there are none."""
        return self._column("offset") if self.shifted else None

    def block(self, rows):
        """The `Batch` of some rows, which come to the client."""
        if isinstance(rows, slice):
            if rows == slice(0, 1):
                return self._first
            rows = np.arange(*rows.indices(len(self)))
        return self.subset(rows).everything()

    def subset(self, rows):
        """The table of some rows, selected by an index array, in the memory of the client."""
        rows = np.asarray(rows)
        part = np.searchsorted(self._edges, rows, side="right") - 1
        chosen = {k: rows[part == k] - self._edges[k] for k in np.unique(part).tolist()}
        back = np.argsort(np.argsort(part, kind="stable"))
        return joined(self.parts.each(take, self.view, rows=chosen)).subset(back)

    def inputs(self):
        """Inputs of all rows, or of every k-th one where they are too many for the client."""
        step = -(-len(self) * self.n_features // _MOST_INPUTS)
        return self.subset(np.arange(0, len(self), step)).X

    def layout(self, width, footprint, options):
        """The `Layout`: no block crosses a part, and nothing waits."""
        cut = width, block_budget(footprint, options)
        blocks = [
            slice(start + block.start, start + block.stop)
            for start, size in zip(self._edges.tolist(), self.sizes)
            for block in row_blocks(size, *cut)
        ]
        nothing = [False] * len(blocks)
        layout = CutLayout(blocks, options.n_jobs, nothing, nothing)
        layout.cut = cut
        return layout

    def visit(self, function, layout, *kept, keep=None, spend=False, reads=None):
        """Apply a function to every block where its rows are; see `Dataset.visit`."""
        starts = [block.start for block in layout.blocks]
        edges = np.searchsorted(starts, [*self._edges, len(self)]).tolist()
        own = [([items[i:j] for items in kept], keep and keep[i:j]) for i, j in pairwise(edges)]
        if spend:
            for items in kept:
                items[:] = [None] * len(items)
        leave = keep is None or any(keep)
        total, left = self.parts.sums((function, self.view, layout.cut), own, leave)
        return total, [*chain.from_iterable(left)] if leave else [None] * len(starts)

    def targets(self, rows=None):
        """Standardised targets (n, p), which come to the client; see `Dataset.targets`."""
        return self.units.forward(self._column("y", rows or slice(None)))

    def spread(self):
        """Spread of every input column, 0 where it is constant."""
        _, mean, spread = merge(summary.inputs for summary in self.summaries)
        low = reduce(np.minimum, (summary.low for summary in self.summaries))
        high = reduce(np.maximum, (summary.high for summary in self.summaries))
        unit = or_one(np.maximum(high - mean, mean - low))
        return spread_or_zero(spread / unit, unit)

    def distinct(self, most=np.inf):
        """Distinct inputs of positive weight, sorted; None where there are more than `most`."""
        inputs = self.parts.each(distinct, self.view, most)
        if any(one is None for one in inputs):
            return None
        inputs = unique_rows(np.vstack(inputs))
        return inputs if len(inputs) <= most else None

    def _squares(self):
        return self._moments.root_mean_square(), self._moments.root_mean_square() ** 2

    @cached_property
    def _moments(self):
        return merge(self.parts.each(target_moments, self.view))

    @cached_property
    def _edges(self):
        return np.cumsum([0, *self.sizes[:-1]])

    @cached_property
    def _first(self):
        return self.subset(np.array([0])).everything()

    def _column(self, name, rows=slice(None)):
        """A column of the rows of a slice, from the parts that overlap it."""
        start, stop, _ = rows.indices(len(self))
        chosen = {
            part: slice(max(start - edge, 0), stop - edge)
            for part, (edge, size) in enumerate(zip(self._edges.tolist(), self.sizes))
            if start < edge + size and edge < stop
        }
        return np.concatenate(self.parts.each(column, self.view, name, rows=chosen))


class CutLayout(Layout):
    """A `Layout` whose blocks workers cut again: those of a billion rows would be a long message.

    Attributes
    ----------
    cut : tuple
        What `row_blocks` wants besides the rows of a part.
    """

"""The table whose rows are parts on the workers of a cluster.

A visit is one task for each part, which runs its blocks in order, and a fixed tree of sums: the
result depends on the parts, not on the workers. Nothing of the size of an array (rows, m) waits for
a second visit, so that features are computed again; numbers of every row (sites) wait in the client
and travel with the tasks.

Dask arrays and dataframes become futures of parts (`load`), workers are asked in one way (`ask`),
and their tasks are functions of tables, without any state.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain, pairwise
from operator import add
from threading import Lock
from typing import Any, NamedTuple

import cloudpickle
import dask
import numpy as np
from dask import delayed
from dask.delayed import Delayed
from distributed import Client, Future, get_client
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from skgp_sparse.data import moments
from skgp_sparse.data.arrays import ArrayDataset, joined
from skgp_sparse.data.checks import RawRows, Rules, is_lazy, naming
from skgp_sparse.data.copies import RowWeights
from skgp_sparse.data.dataset import Batch, Dataset, Layout, block_budget, even_slices, row_blocks
from skgp_sparse.data.door import check_form
from skgp_sparse.engine.basis import Options
from skgp_sparse.ground.parallel import single_threaded_blas, slices
from skgp_sparse.ground.validation import AnyArray, Array, Index, MaybeArray, as_text

SAME_ROWS = (
    "The k-th partitions of X and of all other arguments must hold the same rows. Make these from "
    "one collection, or repartition them alike."
)


class Summary(NamedTuple):
    """Summary of a part for the client, of the rows that have weight, if there are any."""

    rows: int
    inputs: moments.Moments | None = None
    low: AnyArray | float = np.inf  # range of the inputs
    high: AnyArray | float = -np.inf
    targets: Any = None  # `Moments`, or labels and their weights
    largest_noise: float = 0.0


# -- tasks of workers on a part of the rows: functions of tables, without any state ----------------
# A task may run twice, on any worker, and gives the same answer: a worker may die.


def checked(
    number: int, rules: Rules, X: Sequence, alpha: MaybeArray = None, **columns: Sequence
) -> ArrayDataset | None:
    """The `ArrayDataset` of the user's partition, None without rows; raises as a local fit."""
    with naming(f"Partition {number}"):
        if 0 == len(X) == len(columns["y"]):
            return None
        if np.ndim(columns["y"]) and len(columns["y"]) != len(X):
            raise ValueError(f"y has {len(columns['y'])} rows and X has {len(X)}. {SAME_ROWS}")
        return rules.check(RawRows(X, **columns), alpha)


def outline_of(dataset: ArrayDataset | None) -> tuple[int, ArrayDataset] | None:
    """Number of rows, and the table without them; None where there are none."""
    return None if dataset is None else (len(dataset), dataset.subset(slice(0)))


def read(dataset: ArrayDataset, view: dict) -> Dataset:
    """A part as `DaskDataset.view` says."""
    if view["labels"] is not None:
        dataset = replace(dataset, y=np.searchsorted(view["labels"], dataset.y))
    rows = dataset if view["task"] is None else dataset.of_problem(view["task"])
    return replace(rows.in_units(view["scaler"]), least_noise=view["least_noise"])


def read_and(dataset: ArrayDataset, view: dict, function: Callable, *args: object) -> Any:
    """``function(rows, *args)`` of the rows of a part."""
    return function(read(dataset, view), *args)


def summarise(rows: ArrayDataset) -> Summary:
    """The `Summary` of a table."""
    with np.errstate(all="ignore"):  # an overflow ends as NaN, for the client
        targets = rows.label_weights() if rows.y.ndim == 1 else rows.target_moments()
        counting = rows.counting()
        if not len(counting):
            return Summary(len(rows), targets=targets)
        X = counting.X.astype(np.float64)
        inputs, noise = moments.moments_of(X, counting.weight), float(np.max(rows.noise))
    return Summary(len(rows), inputs, X.min(axis=0), X.max(axis=0), targets, noise)


def visit(asked: tuple[Callable, dict, bool], dataset: ArrayDataset, own: bytes) -> Any:
    """Visit the blocks of a part in order, as `Dataset.visit` does; its sums if nothing is left."""
    function, view, leave = asked
    count, kept, keep = cloudpickle.loads(own)
    rows = read(dataset, view)
    layout = Layout(even_slices(len(rows), count), 1, [], [])
    with single_threaded_blas(), np.errstate(all="ignore"):
        found = rows.visit(function, layout, *kept, keep=keep)
    return found if leave else found[0]


def total(*sums: tuple) -> tuple:
    """Sums of visits, in order."""
    return tuple(reduce(add, values) for values in zip(*sums))


# -- futures of the parts of the rows, and the one way to ask workers for something ----------------
# Only these futures live as long as a fit. Those of an answer are released when it has come, or has
# not. What is lost with a worker is computed again by dask: nothing is scattered.

_LOST = (asyncio.CancelledError, CancelledError, CommClosedError)
_FAN_IN = 8  # sums that are added at once: a tree that depends on nothing but their number
_CONFIG = Lock()  # what dask.config sets for a while, it sets for all threads
_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # it is meant to be large


def resolve_client(client: Client | None, name: str) -> Client:
    """The user's client, or the one that is current."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise RuntimeError(
                f"{name}: there is no client. Create one before, such as distributed.Client()."
            ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(
            f"The 'client' parameter of {name} must be None or a distributed.Client, not "
            f"asynchronous. Got {as_text(client)} instead."
        )
    _check_running(client)
    return client


def ask(client: Client, wanted: list[Delayed]) -> list:
    """Results that workers compute of a list of delayed objects; none stays on the cluster."""
    futures = send(client, wanted)
    try:
        with in_words(client):
            return client.gather(futures)
    finally:
        release(futures)


def ask_each(
    client: Client, parts: Sequence, function: Callable, *args: object, rows: dict | None = None
) -> list:
    """``function(part, *args)`` of all parts, or ``function(part, *args, rows[k])`` of the k-th."""
    call, shared = delayed(function, pure=False), [once(arg) for arg in args]
    if rows is None:
        return ask(client, [call(part, *shared) for part in parts])
    return ask(client, [call(parts[k], *shared, selected) for k, selected in rows.items()])


def send(client: Client, wanted: list[Delayed]) -> list[Future]:
    """Futures of delayed objects."""
    with in_words(client), _CONFIG, dask.config.set(_QUIET):
        return client.compute(wanted, optimize_graph=False)


def release(futures: list[Future]) -> None:
    """Let the cluster forget, whether it is still there or not."""
    for future in futures:
        with suppress(Exception):
            future.release()


@contextmanager
def in_words(client: Client) -> Iterator[None]:
    """Context in which an error that comes from the cluster says what to do."""
    _check_running(client)
    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"{error.allowed_failures + 1} workers of the cluster died in the same task of the "
            "fit. In most cases they lack memory: use smaller partitions, or more memory."
        ) from error
    except _LOST as error:
        _check_running(client)
        raise RuntimeError(
            "The cluster lost rows of the table and cannot compute them again, or cancelled "
            f"the fit: {error}. Load the table again, and call fit again."
        ) from error
    except Exception:
        _check_running(client)
        raise


def _check_running(client: Client) -> None:
    if client.status not in ("running", "connecting"):
        raise RuntimeError(
            f"The client of the cluster is not connected (its status is {client.status!r}). Pass "
            "a client that is open until fit is over, and call fit again."
        )


def once(thing: object) -> Delayed:
    """Anything as one delayed object, which the workers hand to each other and unpickle once."""
    return delayed(cloudpickle.loads, pure=False)(cloudpickle.dumps(thing))


# -- conversion of the user's dask arrays and dataframes to parts ----------------------------------
# Partitions stay where they are. Empty ones are left out, and one that is far larger than the rest
# is cut into several parts, which dask may move to idle workers.

_FEWEST_PARTS = 32  # a part is at most this share of the table ...
_FEWEST_ROWS = 1 << 14  # ... unless it has fewer rows, ...
_MOST_NUMBERS = 1 << 24  # ... and it has at most so many numbers


Loaded = tuple[list[Future], int, ArrayDataset]  # parts, how many rows they have, one without


def load(client: Client, rules: Rules, held: ExitStack, X: Sized, **columns: Any) -> Loaded:
    """Futures of parts of the user's collections, how many rows they have, and one without rows."""
    with ExitStack() as until_loaded:
        blocks, sizes = blocks_of_inputs(X, rules.name), None
        if any(np.ndim(column) and not is_lazy(column) for column in columns.values()):
            blocks = _hold(client, blocks, until_loaded)
            sizes = ask_each(client, blocks, len)
        for what, column in columns.items():
            columns[what] = [column] * len(blocks)
            if np.ndim(column):
                columns[what] = aligned(column, f"{rules.name}: {what}", X, blocks, sizes)
        shared, call = once(rules), delayed(checked, pure=False)
        each = [dict(zip(columns, values)) for values in zip(*columns.values())]
        wanted = [call(k, shared, block, **own) for k, (block, own) in enumerate(zip(blocks, each))]
        parts = _hold(client, wanted, held)
        outlines = ask_each(client, parts, outline_of)
    return _good_parts(client, parts, outlines, held, rules.name)


def blocks_of_inputs(X: object, name: str) -> list:
    """The partitions of X; raises unless it is a dask array or dataframe."""
    if is_lazy(X) and hasattr(X, "to_delayed") and getattr(X, "ndim", None) == 2:
        return blocks_of(X)
    raise TypeError(
        f"{name}: if one argument is a dask collection, X must be a dask array of shape "
        f"(n_samples, n_features) or a dask dataframe. Got {type(X).__name__}."
    )


def blocks_of(collection: Any) -> list[Delayed]:
    """The partitions of a dask array or dataframe, as delayed objects."""
    if hasattr(collection, "chunks"):
        if collection.ndim == 2 and collection.numblocks[1] > 1:
            collection = collection.rechunk({1: -1})
        return list(collection.to_delayed().ravel())
    return list(collection.to_delayed())


def known_sizes(collection: object) -> Any:
    """Rows of each partition of a dask array, None where they are not known."""
    chunks = getattr(collection, "chunks", None)
    return None if chunks is None or np.isnan(chunks[0]).any() else chunks[0]


def aligned(column: Any, what: str, X: Sized, blocks: list, sizes: Sequence | None) -> list:
    """Parts of a column for each block of X: partitions of a collection, or slices of an array."""
    if not is_lazy(column):
        if sizes is None:
            raise TypeError(
                f"{what} must be a dask collection or a number. Got {type(column).__name__}, which "
                "cannot be split like X: the sizes of the partitions of X are not known."
            )
        if len(column) != sum(sizes):
            raise ValueError(f"{what} has {len(column)} rows. Pass {sum(sizes)}, as many as X has.")
        return [once(part) for part in np.split(np.asarray(column), np.cumsum(sizes)[:-1])]
    if known_sizes(X) and known_sizes(column) and len(column) == len(X):
        column = column.rechunk({0: known_sizes(X)})
    parts = blocks_of(column)
    if len(parts) != len(blocks):
        raise ValueError(f"{what} has {len(parts)} partitions and X has {len(blocks)}. {SAME_ROWS}")
    return parts


def _hold(client: Client, wanted: list[Delayed], held: ExitStack) -> list[Future]:
    futures = send(client, wanted)
    held.callback(release, futures)
    return futures


def _good_parts(client: Client, parts: list, outlines: list, held: ExitStack, name: str) -> Loaded:
    """The parts that have rows, the large ones cut; the number of rows; a table without them."""
    full = [(number, *outline) for number, outline in enumerate(outlines) if outline is not None]
    if not full:
        raise ValueError(f"{name}: all partitions of X are empty. Pass a collection with rows.")
    outline = full[0][2]
    for number, _, other in full:
        with naming(f"Partition {number}"):
            check_form(other, outline)
    n, wanted = sum(rows for _, rows, _ in full), []
    n_columns = outline.n_features + int(np.prod(outline.y.shape[1:]))
    most = min(max(-(-n // _FEWEST_PARTS), _FEWEST_ROWS), max(_MOST_NUMBERS // n_columns, 1))
    cut = delayed(ArrayDataset.subset, pure=False)
    for number, rows, _ in full:
        pieces = [cut(parts[number], piece) for piece in even_slices(rows, -(-rows // most))]
        wanted += pieces if len(pieces) > 1 else [parts[number]]
    return _hold(client, wanted, held), n, outline


_MOST_INPUTS = 1 << 27  # numbers (1 GB) of one kind for each row that the client has at a time


@dataclass(frozen=True, eq=False)
class DaskDataset(Dataset):
    """A training table whose rows stay on the workers."""

    client: Client
    parts: list[Future]  # of `ArrayDataset`, none of which is empty
    n_features: int
    summaries: list[Summary]  # of each part
    scaler: moments.TargetScaler
    weighted: bool = False  # whether rows have weights, ...
    shifted: bool = False  # ... and offsets
    labels: AnyArray | None = None  # (n_classes,) those of which the targets are indices
    class_weight: Array | None = None
    relative: bool = False
    task: Any = None  # the problem of a classifier whose labels are the targets
    least_noise: float = 0.0

    n_targets = property(lambda self: self.scaler.n_varying)
    classes = property(lambda self: None if self.task else self.labels)
    sizes = property(lambda self: [summary.rows for summary in self.summaries])
    noise = property(lambda self: max(summary.largest_noise for summary in self.summaries))

    def summarised(self) -> "DaskDataset":
        """The table with summaries of its parts, of which those without rows are left out."""
        full = [pair for pair in zip(self.parts, self._ask(summarise)) if pair[1].rows]
        parts, summaries = map(list, zip(*full))
        return replace(self, parts=parts, summaries=summaries)

    def __len__(self) -> int:
        return sum(self.sizes)

    def __reduce__(self) -> Any:
        """Pickle as None: no rows travel with a function that is to be applied to them."""
        return type(None), ()

    @property
    def view(self) -> dict[str, Any]:
        """How workers read the parts."""
        return {name: getattr(self, name) for name in ("labels", "task", "scaler", "least_noise")}

    def in_units(self, scaler: moments.TargetScaler) -> "DaskDataset":
        """The table with targets in other units than those of the user."""
        return replace(self, scaler=scaler)

    def of_problem(self, task: object) -> "DaskDataset":
        """The table of a `Task` with its labels."""
        return replace(self, task=task).summarised()

    def with_weights(self, weights: RowWeights, held: ExitStack) -> "DaskDataset":
        """The table with the weights that its rows have in a fit."""
        rows = replace(self, class_weight=weights.class_weight, relative=weights.relative)
        if weights.weight is self.weight and not weights.relative:
            return rows
        call, weight, n = delayed(replace, pure=False), weights.weight, len(self.parts)
        each = [None] * n if weight is None else np.split(weight, self._edges[1:])
        options = ({"weight": once(own), "relative": weights.relative} for own in each)
        wanted = [call(part, **one) for part, one in zip(self.parts, options)]
        parts = _hold(self.client, wanted, held)
        return replace(rows, parts=parts, weighted=weight is not None).summarised()

    def target_moments(self) -> Any:
        """`Moments` of the targets without their offsets."""
        return moments.merge(summary.targets for summary in self.summaries)

    @cached_property
    def weight(self) -> Array | None:  # type: ignore[override]
        """Weights of all rows (n,), which come to the client; None where there are none."""
        return self._column("weight") if self.weighted else None

    @cached_property
    def offset(self) -> Array | None:  # type: ignore[override]
        """Offsets of all rows (n,), which come to the client; None where there are none."""
        return self._column("offset") if self.shifted else None

    def block(self, rows: Index) -> Batch:
        """The `Batch` of some rows, which come to the client."""
        if isinstance(rows, slice):
            if rows == slice(0, 1):
                return self._first
            rows = np.arange(*rows.indices(len(self)))
        return self.subset(rows).everything()

    def subset(self, rows: Index) -> ArrayDataset:
        """The table of some rows, selected by an index array, in the memory of the client."""
        rows = np.asarray(rows)
        part = np.searchsorted(self._edges, rows, side="right") - 1
        chosen = {k: rows[part == k] - self._edges[k] for k in np.unique(part).tolist()}
        back = np.argsort(np.argsort(part, kind="stable"))
        return joined(self._ask(ArrayDataset.subset, rows=chosen)).subset(back)

    def inputs(self) -> AnyArray:
        """Inputs of all rows, or of every k-th one where they are too many for the client."""
        step = -(-len(self) * self.n_features // _MOST_INPUTS)
        return self.subset(np.arange(0, len(self), step)).X

    def layout(self, width: int, footprint: int, options: Options) -> Layout:
        """The `Layout`: no block crosses a part, and nothing waits."""
        budget = block_budget(footprint, options.memory)
        blocks = [
            slice(start + block.start, start + block.stop)
            for start, size in zip(self._edges.tolist(), self.sizes)
            for block in row_blocks(size, width, budget)
        ]
        nothing = [False] * len(blocks)
        return Layout(blocks, options.n_jobs, nothing, nothing)

    def visit(
        self,
        function: Callable,
        layout: Layout,
        *kept: list,
        keep: list[bool] | None = None,
        spend: bool = False,
        reads: list[bool] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Apply a function to every block where its rows are; see `Dataset.visit`."""
        starts = [block.start for block in layout.blocks]
        own = [
            cloudpickle.dumps((j - i, [items[i:j] for items in kept], keep and keep[i:j]))
            for i, j in pairwise(np.searchsorted(starts, [*self._edges, len(self)]).tolist())
        ]
        for items in kept if spend else ():
            items[:] = [None] * len(items)
        leave, left = keep is None or any(keep), []
        call, shared = delayed(visit, pure=False, nout=2), once((function, self.view, leave))
        sums = [call(shared, part, one) for part, one in zip(self.parts, own)]
        if leave:
            sums, left = map(list, zip(*sums))
        while len(sums) > 1:
            sums = [delayed(total, pure=False)(*sums[some]) for some in slices(len(sums), _FAN_IN)]
        whole, *left = ask(self.client, [*sums, *left])
        return whole, [*chain.from_iterable(left)] if leave else [None] * len(starts)

    def targets(self, rows: slice | None = None) -> Array:
        """Standardised targets (n, p), which come to the client; see `Dataset.targets`."""
        return self.scaler.forward(self._column("y", rows or slice(None)))

    @cached_property
    def spread(self) -> Array:
        """Spread of every input column, 0 where it is constant."""
        _, mean, spread = moments.merge(summary.inputs for summary in self.summaries)
        low = reduce(np.minimum, (summary.low for summary in self.summaries))
        high = reduce(np.maximum, (summary.high for summary in self.summaries))
        unit = moments.or_one(np.maximum(high - mean, mean - low))
        return moments.spread_or_zero(spread / unit, unit)

    def distinct(self, most: float = np.inf) -> Array | None:
        """Distinct inputs of positive weight, sorted; None where there are more than `most`."""
        found = self._ask(ArrayDataset.distinct, most)
        if any(one is None for one in found):
            return None
        inputs = moments.unique_rows(np.vstack(found))
        return inputs if len(inputs) <= most else None

    @cached_property
    def _squares(self) -> tuple[Any, Any]:
        found = self._ask(lambda rows: moments.moments_of(rows.targets(), rows.weight))
        size = moments.merge(found).root_mean_square()
        return size, size**2

    @cached_property
    def _edges(self) -> Any:
        return np.cumsum([0, *self.sizes[:-1]])

    @cached_property
    def _first(self) -> Batch:
        return self.subset(np.array([0])).everything()

    def _ask(self, function: Callable, *args: object, rows: dict | None = None) -> list:
        """``function(table, *args)`` of the tables of all parts, or of `rows`; see `ask_each`."""
        return ask_each(self.client, self.parts, read_and, self.view, function, *args, rows=rows)

    def _column(self, name: str, rows: slice = slice(None)) -> Array:
        """A column of the rows of a slice, from the parts that overlap it."""
        start, stop, _ = rows.indices(len(self))
        chosen = {
            part: slice(max(start - edge, 0), stop - edge)
            for part, (edge, size) in enumerate(zip(self._edges.tolist(), self.sizes))
            if start < edge + size and edge < stop
        }
        columns = self._ask(lambda table, which: getattr(table, name)[which], rows=chosen)
        return np.concatenate(columns)

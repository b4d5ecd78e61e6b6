"""The contract of a training table, and the one way to visit its rows.

Everything that is O(n) happens in `Dataset.visit`: a function is applied to every block of rows in
order, what it returns is added up, and what the next visit wants to see again waits in memory as
far as the plan (`Layout`) allows. What waits is plain data: arrays, numbers and pullbacks that can
be pickled. A table need not be an array: it only has to make any block of its rows on demand.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import Field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.random import sample_without_replacement

from skgp_sparse.data import moments
from skgp_sparse.data.classes import Task
from skgp_sparse.ground.parallel import ordered_map, slices, worth
from skgp_sparse.ground.validation import AnyArray, Array, Index, Ints, Rng, Scalars, Triple

_SQUARE_LIMITS = (1e-140, 1e140)  # mean squares of y whose own squares are numbers, too
_BLOCK_BYTES = 5 * 2**20  # of one (rows, m) array: large enough for BLAS, small enough for caches
_FEWEST_ROWS, _SHARES = 64, 8  # of a block; blocks of a table at least, for threads to share ...
_WORTH_SHARING = 1 << 16  # ... unless their (rows, m) arrays had fewer entries, or m / 2 rows
_SCRATCH = 5  # (rows, m) arrays that a thread works on at a time, besides those it keeps
_SQUARES = 12  # (m, m) arrays of an evaluation
_THREADS = 4  # whose scratch arrays fit half the memory, however little that is
_ROWS_PER_COMPARISON = 2000  # rows among which distinct inputs are looked for
_ROWS_PER_PIECE = 1 << 20  # rows of which numbers of every row are in memory at a time


class Batch(NamedTuple):
    """Some training rows, ready for arithmetic.

    A row of weight w counts as w rows. The noise is in the units of the standardised targets.
    """

    X: Array  # (n, d)
    y: Array  # (n, p) standardised
    noise: Scalars  # known noise variance, scalar or (n,)
    weight: Scalars  # 1.0 or (n,)
    offset: Scalars = 0.0  # known, of the latent value that a likelihood sees; or (n,)

    @property
    def observed(self) -> Array:
        """Targets (n,) as a likelihood takes them."""
        return self.y[:, 0]

    def used(self) -> "Batch":
        """The rows of positive weight; noise, weights and offsets as arrays."""
        noise, weight, offset = (np.broadcast_to(column, len(self.X)) for column in self[2:])
        keep = weight > 0
        X = self.X if keep.all() else self.X[keep]
        return Batch(X, self.y[keep], noise[keep], weight[keep], offset[keep])


class Layout(NamedTuple):
    """How a table is cut, and what may wait between two visits."""

    blocks: list[slice]  # slices of rows; the number of threads has no say in them
    threads: int
    whole: list[bool]  # blocks of which everything that a gradient wants may wait ...
    features: list[bool]  # ... and those whose features may, if nothing else waits


def at(values: object, rows: Index) -> Any:
    """Values of some rows, from an array (n, ...); a number or None as it is."""
    return values[rows] if isinstance(values, np.ndarray) and values.ndim else values


class Dataset(ABC):
    """Training rows, of which only one block at a time needs to be in memory.

    Subclasses give ``len``, `n_features`, `n_targets`, `weight`, `block` and `subset`; the rest
    follows. Tables that users pass also have `in_units`, `target_moments` and, where targets are
    labels, `of_problem`. A table never changes. It may keep whatever it needs to make its rows
    again, and nobody overwrites an array that it returns, unless the docstring of the method says
    so.

    Attributes
    ----------
    n_features, n_targets : int
    weight : ndarray of shape (n,) or None
        A row of weight w counts as w rows; None where all weights are one.
    relative : bool
        Whether a row is left out with all of its weight, and not with that of one row.
    class_weight : ndarray of shape (n_classes,) or None
        Factors of the probabilities of the classes; None where all are one.
    scaler : TargetScaler
        Mean and scale of the targets, which are standardised by them.
    classes : ndarray of shape (n_classes,) or None
        Sorted labels, of which targets are the indices; None of numbers.
    merged : bool
        Whether weights are numbers of equal rows, and nothing else.
    in_memory : bool
        Whether rows are at hand: a few are read as quickly from anywhere as in order, and several
        problems may read them at the same time.
    X_std : ndarray of shape (n, d) or None
        Known standard deviations of the inputs, which are known exactly otherwise.
    """

    n_features: int
    n_targets: int
    weight: Array | None
    scaler: moments.TargetScaler
    offset: Array | None  # of tables that users pass
    X: Any  # of tables in memory, and ...
    y: Any  # ... their targets in the units of the user
    classes: AnyArray | None = None
    class_weight: Array | None = None
    relative: bool = False
    in_memory: bool = False
    merged: bool = False
    X_std: Array | Any = None
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # tables are dataclasses

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def block(self, rows: Index) -> Batch:
        """Make some rows, ready for arithmetic.

        Parameters
        ----------
        rows : slice or ndarray of shape (k,)
            The rows that are wanted: a slice, or indices in any order.

        Returns
        -------
        Batch
            Inputs (k, d) in float64, C-ordered, standardised targets (k, p), and noise, weights
            and offsets, each one number or (k,). The arrays may be views of what the table keeps.
        """

    def everything(self) -> Batch:
        """Make all rows, for posteriors and solves that keep them all.

        Returns
        -------
        Batch
            O(n d) bytes, as of `block`.
        """
        return self.block(slice(None))

    def stored_inputs(self) -> AnyArray:
        """Return the inputs as they are held.

        Returns
        -------
        ndarray of shape (n, d)
            Of all rows, in any type of numbers.
        """
        return self.everything().X

    @abstractmethod
    def subset(self, rows: Index) -> Any:
        """Make a table in memory of some rows.

        Parameters
        ----------
        rows : ndarray of shape (k,)
            Indices of the rows, in the order of the new table. They are few enough for memory.

        Returns
        -------
        ArrayDataset
            The rows in memory, in the same units.
        """

    def in_units(self, scaler: moments.TargetScaler) -> "Dataset":
        """Return the table, whose targets are in the units of the user, in other units.

        Parameters
        ----------
        scaler : TargetScaler
            Those by which its targets will be standardised.

        Returns
        -------
        Dataset
            The same rows, by reference.
        """
        offset = None if self.offset is None else self.offset / scaler.scale[0]
        return replace(self, scaler=scaler, offset=offset)

    def of_problem(self, task: Task) -> "Dataset":
        """Make the table of a problem, in which rows with indices of classes have its labels.

        Parameters
        ----------
        task : Task
            It makes labels of indices of classes, and chooses rows.

        Returns
        -------
        Dataset
            Its targets are numbers.
        """
        raise NotImplementedError

    def target_moments(self) -> moments.Moments:
        """Compute moments of the targets, without their offsets.

        Returns
        -------
        Moments
            Of targets (p,) in the units of the user.
        """
        raise NotImplementedError

    def in_one_form(self) -> "Dataset":
        """Return the table in the form that all equal small tables share.

        Returns
        -------
        Dataset
            A large table as it is.
        """
        return self

    def block_reader(self, rows: Index) -> Callable[[], Batch]:
        """Return what makes some rows, for another thread to call.

        A table that only one thread may read reads here: this is the thread that visits.

        Parameters
        ----------
        rows : slice
            The rows of a block.

        Returns
        -------
        callable
            ``() -> Batch``, which any thread may call.
        """
        return partial(self.block, rows)

    def inputs(self) -> Any:
        """Return inputs for a user's own function.

        Returns
        -------
        ndarray of shape (n, d)
            Of all rows, or of some if they are too many.
        """
        return self.everything().X

    def sampled(self, rows: Ints) -> "Dataset":
        """Make the table of rows that `sample` drew.

        Parameters
        ----------
        rows : ndarray of shape (k,)
            Their indices.

        Returns
        -------
        Dataset
            In memory. Rows are drawn by weight: only a sample of all of them keeps its weights.
        """
        few = self.subset(rows)
        spent = self.weight is not None and len(rows) < np.count_nonzero(self.weight)
        return replace(few, weight=None) if spent else few

    def some(self, size: int) -> "Dataset":
        """Make the table of some rows, always the same ones.

        Parameters
        ----------
        size : int
            How many at most.

        Returns
        -------
        Dataset
            In memory, as of `sampled`.
        """
        return self.sampled(self.sample(size, np.random.RandomState(0)))

    def layout(self, width: int, footprint: int, options: Any) -> Layout:
        """Say how the table is cut.

        Parameters
        ----------
        width : int
            Number of features, m.
        footprint : int
            Arrays (rows, m) that the pullback of a block holds.
        options : Options
            Number of threads and memory.

        Returns
        -------
        Layout
            Blocks of features (rows, width), threads, and what may wait in memory.
        """
        arrays = _SCRATCH + footprint
        blocks = row_blocks(len(self), width, block_budget(footprint, options.memory))
        sizes = np.array([block.stop - block.start for block in blocks])
        fitting_threads = 0.5 * options.memory / (8 * width * arrays * sizes.max())
        threads = int(max(1, min(worth(options.n_jobs, len(self) * width), fitting_threads)))
        scratch = (arrays + 1) * threads * sizes.max() + _SQUARES * width

        def fitting(held: int) -> list[bool]:
            return list(8 * width * (held * np.cumsum(sizes) + scratch) <= options.memory)

        return Layout(blocks, threads, fitting(1 + footprint), fitting(1))

    def visit(
        self,
        function: Callable,
        layout: Layout,
        *kept: list,
        keep: list[bool] | None = None,
        spend: bool = False,
        reads: list[bool] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Apply a function to every block, in order; add up, and keep what is to be kept.

        Parameters
        ----------
        function : callable
            ``(read, *waiting) -> (sums, left)``: ``read()`` is the `Batch`, `waiting` is what each
            of `kept` holds for it, `sums` a tuple of numbers and of arrays that no one else holds,
            `left` plain data.
        layout : Layout
            As `layout` returns it.
        *kept : sequence
            What earlier visits left, one item per block.
        keep : list of bool or None
            Blocks of which `left` waits for the next visit; None: all.
        spend : bool
            Whether this visit is the last one that wants `kept`, lists whose items are dropped as
            they are used.
        reads : list of bool or None
            Blocks whose rows the function reads; None: all.

        Returns
        -------
        sums : tuple
            The sums of all blocks, added in their order.
        left : list
            What is kept of each block, None for the others.
        """

        def prepare(index: int) -> tuple[int, Any]:
            is_read = reads is None or reads[index]
            return index, self.block_reader(layout.blocks[index]) if is_read else None

        def run(task: tuple) -> tuple[Any, Any]:
            index, read = task
            own = [items[index] for items in kept]
            if spend:
                for items in kept:
                    items[index] = None
            sums, left = function(read, *own)
            return sums, left if keep is None or keep[index] else None

        total, waiting = None, []
        for sums, left in ordered_map(run, range(len(layout.blocks)), layout.threads, prepare):
            total = sums if total is None else tuple(map(operator.iadd, total, sums))
            waiting.append(left)
        return total, waiting

    def pieces(self) -> list[slice]:
        """Cut the table for what takes a few numbers of each row.

        Returns
        -------
        list of slice
            A million rows at a time.
        """
        return slices(len(self), _ROWS_PER_PIECE)

    def targets(self, rows: slice | None = None) -> Array:
        """Return standardised targets.

        Parameters
        ----------
        rows : slice or None
            Which rows; None: all.

        Returns
        -------
        ndarray of shape (n, p)
            A new array.
        """
        index = range(len(self))[rows or slice(None)]
        parts = (index[part] for part in row_blocks(len(index), self.n_features))
        return np.concatenate([self.block(slice(part.start, part.stop)).y for part in parts])

    def row_weights(self) -> Array:
        """Return weights, ones where there are none.

        Returns
        -------
        ndarray of shape (n,)
            Of all rows.
        """
        return np.ones(len(self)) if self.weight is None else self.weight

    def weight_left_out(self, weight: Scalars) -> Array:
        """Return the weight that is left out with a row.

        Parameters
        ----------
        weight : float or ndarray of shape (k,)
            Weights of rows.

        Returns
        -------
        ndarray of shape (k,)
            All of it where weights are relative; where they count rows, that of one row at most.
        """
        return np.asarray(weight) if self.relative else np.minimum(weight, 1.0)

    def class_totals(self) -> AnyArray:
        """Compute the weight of every class.

        Returns
        -------
        ndarray of shape (n_classes,)
            Sums of the weights of its rows.
        """
        return np.bincount(np.ravel(self.targets()).astype(int), self.row_weights())

    def total_weight(self) -> float:
        """Count rows.

        Returns
        -------
        float
            Number of rows, each counted as often as its weight says.
        """
        return float(len(self) if self.weight is None else self.weight.sum())

    def target_variance(self) -> float:
        """Compute the mean square of the standardised targets.

        Returns
        -------
        float
            1 where they are all zero.

        Raises
        ------
        ValueError
            If it, or what is derived from it, would overflow or underflow.
        """
        roots, squares = self._squares
        size = roots.max()
        if size > 0 and not _SQUARE_LIMITS[0] ** 0.5 <= size <= _SQUARE_LIMITS[1] ** 0.5:
            raise ValueError(
                f"Squares of y {'over' if size > 1 else 'under'}flow float64 (root {size:.0e}). "
                "Rescale y or set normalize_y=True."
            )
        return squares.mean() if roots.max() > 0 else 1.0

    def scale(self, of_constant: float = 1.0) -> Array:
        """Compute the spread of the input columns.

        Parameters
        ----------
        of_constant : float
            What is taken where a column is constant and another one is not.

        Returns
        -------
        ndarray of shape (d,)
            Standard deviations; 1 where all columns are constant.
        """
        return np.where(self.spread == 0.0, of_constant if self.spread.any() else 1.0, self.spread)

    @cached_property
    def spread(self) -> Array:
        """Standard deviations (d,) of the input columns; 0 where a column is constant."""
        return self.input_moments()[1]

    def input_moments(self) -> Triple:
        """Compute moments of the input columns, of the values that are there.

        Returns
        -------
        mean, spread : ndarray of shape (d,)
            The spread is 0 where a column is constant.
        missing : ndarray of shape (d,)
            Weight of the rows in which the value is missing.
        """
        return moments.present_moments(self._weighted_inputs, self.total_weight())

    def distinct(self, most: float = np.inf) -> Array | None:
        """Find the distinct inputs.

        Parameters
        ----------
        most : float
            How many are worth it.

        Returns
        -------
        ndarray of shape (k, d) or None
            Those of positive weight, sorted; None where there are more than `most`.
        """
        distinct = np.empty((0, self.n_features))
        for rows in slices(len(self), _ROWS_PER_COMPARISON):
            distinct = moments.unique_rows(np.vstack([distinct, self.block(rows).used().X]))
            if len(distinct) > most:
                return None
        return distinct

    def sample(self, size: int, random_state: Rng) -> Ints:
        """Draw rows without replacement, by weight.

        Parameters
        ----------
        size : int
            How many at most.
        random_state : RandomState
            Generator of the draw.

        Returns
        -------
        ndarray of shape (k,)
            Indices, sorted.
        """
        if isinstance(size, str) or operator.index(size) < 0:
            raise ValueError(f"A sample has a number of rows, at least 0. Got size={size!r}.")
        weight, n = self.weight, len(self)
        if size >= (n if weight is None else np.count_nonzero(weight)):
            return np.arange(n) if weight is None else np.flatnonzero(weight)
        if n <= _ROWS_PER_PIECE:
            p = None if weight is None else weight / weight.sum()
            chosen = random_state.choice(n, size, replace=False, p=p)
        elif weight is None:  # with few numbers in memory
            chosen = sample_without_replacement(n, size, random_state=random_state)
        else:
            # each row comes after an exponential time of rate w, and those that come first are
            # drawn (Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir")
            with np.errstate(divide="ignore"):
                times = random_state.exponential(size=n) / weight
            chosen = np.argpartition(times, size)[:size]
        return np.sort(chosen)

    @cached_property
    def _squares(self) -> tuple[Any, Any]:
        """Root mean squares of the standardised targets (p,), and mean squares (p,)."""
        of, pieces = moments.moments_of, self.pieces()
        if len(pieces) > 1:
            parts = (of(self.targets(rows), at(self.weight, rows)) for rows in pieces)
            size = moments.merge(parts).root_mean_square()
            return size, size**2
        y, weight = self.targets(), self.weight
        with np.errstate(over="ignore"):  # the roots tell
            return moments.root_mean_square(y, weight), np.average(y**2, axis=0, weights=weight)

    def _weighted_inputs(self) -> Iterator[tuple[Array, Any]]:
        """Blocks of rows of positive weight (k, d), float64, and their weights (k,)."""
        for rows in row_blocks(len(self), self.n_features):
            block = self.block(rows).used()
            if len(block.X):
                yield block.X, block.weight


def row_blocks(n: int, m: int, budget: float = np.inf) -> list[slice]:
    """Slices of rows whose (rows, m) arrays take at most 5 MB, or `budget` bytes."""
    size = max(int(min(_BLOCK_BYTES, budget) // (8 * max(m, 1))), _FEWEST_ROWS)
    shares = min(_SHARES, n * m // _WORTH_SHARING, 2 * n // max(m, 1))
    return even_slices(n, max(-(-n // size), shares, 1))


def even_slices(n: int, count: int) -> list[slice]:
    """So many slices of rows, as equal as can be."""
    edges = [-(-n * share // count) for share in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def block_budget(footprint: int, memory: float) -> float:
    """Bytes that a (rows, m) array of a block may take, if a pullback holds `footprint` of them."""
    return 0.5 * memory / ((_SCRATCH + footprint) * _THREADS)

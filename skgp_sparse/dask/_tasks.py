"""What workers do with a part of the rows: functions of arrays, which remember nothing.

A task may run twice, on any worker, and gives the same answer: a worker may die.
"""

import copyreg
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import cloudpickle
import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.moments import Moments, moments_of, root_mean_square
from skgp_sparse._engine.table import Layout, row_blocks
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.families.multiclass import Task
from skgp_sparse.rows.part import Part, Units
from skgp_sparse.rows.survey import Outline


class View(NamedTuple):
    """How a part is read: the units of its targets, or the labels of one problem."""

    units: Units | None = None  # None: those of the user
    least_noise: float = 0.0
    task: Task | None = None  # of a classifier
    classes: np.ndarray | None = None

    def rows(self, part):
        """The `Rows` of a part."""
        if self.task is not None:
            index = np.searchsorted(self.classes, part.y)
            part = part._replace(y=index).of_task(self.task)
        units = Units.none(part.y.shape[1]) if self.units is None else self.units
        return replace(part.table(units), least_noise=self.least_noise)


class ColumnMoments(NamedTuple):
    """`Moments` of columns of some rows, and the range of those that have weight."""

    moments: Moments
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values, weight):
        """Those of rows (n, d), some of which have weight."""
        seen = values if weight is None else values[weight > 0]
        return cls(moments_of(values, weight), seen.min(axis=0), seen.max(axis=0))

    def merged(self, other):
        """Those of the rows of both."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return ColumnMoments(self.moments.merged(other.moments), low, high)


class Summary(NamedTuple):
    """What the client wants to know of a part."""

    rows: int
    inputs: ColumnMoments | None  # None where no row has weight
    targets: Moments | None
    largest_noise: float


def load(number, rules, X, y, weight, offset, noise):
    """The `Part` of what the user's partition holds, None if that has no rows.

    Raises what a local fit would.
    """
    try:
        if len(X) == len(y) == 0:
            return None
        if len(X) != len(y):
            raise ValueError(
                f"y has {len(y)} rows and X has {len(X)}. Partitions of X, y, sample_weight and "
                "offset must hold the same rows: make them from one collection, or repartition "
                "them alike."
            )
        y = np.asarray(y)[:, 0] if np.ndim(y) == 2 and np.shape(y)[1] == 1 else y
        return rules.check(X, y, weight, offset, alpha=noise)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Partition {number}: {error}") from error


def kernel_with_rule(kind, rule, state):
    """A kernel of a class to which the user gave a rule, for which the worker knows it from now."""
    kernels.register(kind, rule)
    copyreg.pickle(kind, partial(_reduced, rule))  # workers hand it on to each other
    kernel = kind.__new__(kind)
    vars(kernel).update(state)
    return kernel


def _reduced(rule, kernel):
    return kernel_with_rule, (type(kernel), rule, vars(kernel))


def outline_of(part):
    """Number of rows and `Outline`; None where there are no rows."""
    return None if part is None else (len(part.X), Outline.of(part))


def size_of(thing):
    """Number of rows."""
    return len(thing)


def whole(part):
    """The part as it is."""
    return part


def cut(part, start, stop):
    """Some of the rows of a part."""
    return part.take(slice(start, stop))


def take(part, view, rows):
    """The rows of a table that an index array or a slice selects, as a `Part` in its units."""
    table = view.rows(part).subset(rows)
    return Part(table.X, table.y, table.weight, table.offset, table.noise)


def labels_of(part):
    """Classes, and the weight of each."""
    return part.label_weights()


def column(part, view, name, rows):
    """`weight`, `offset` or `y` of a slice of the rows of a table."""
    return getattr(view.rows(part), name)[rows]


def distinct(part, view, most):
    """Distinct inputs of positive weight, None where there are more than `most`."""
    return view.rows(part).distinct(most)


def mean_square(part, view):
    """Weight of the rows, and root of the mean square of their standardised targets (p,)."""
    rows = view.rows(part)
    if rows.weight is not None and not rows.weight.any():
        return 0.0, np.zeros(rows.n_targets)
    return rows.total_weight(), root_mean_square(rows.targets(), rows.weight)


def summarise(part, view):
    """The `Summary` of the rows of a table; targets are without their offsets."""
    rows = view.rows(part)
    if len(rows) == 0 or (rows.weight is not None and not rows.weight.any()):
        return Summary(len(rows), None, None, 0.0)
    centred = rows.y if rows.offset is None else rows.y - rows.offset[:, None]
    weight = rows.weight
    with np.errstate(all="ignore"):  # an overflow ends as NaN, for the client
        inputs = ColumnMoments.of(rows.X.astype(np.float64), weight)
        targets = moments_of(centred, weight)
    return Summary(len(rows), inputs, targets, float(np.max(rows.noise)))


def visit(asked, part, own):
    """Visit the blocks of a part in order, as `Table.visit` does.

    Parameters
    ----------
    asked : tuple
        The function, the `View`, how rows are cut into blocks and how many arguments the function
        has besides: the same for all parts.
    part : Part
    own : bytes
        A pickle of what earlier visits left for each block, or of nothing, and of which of them are
        to leave something: all (None), or none (an empty list).
    """
    function, view, cut, n_kept = asked
    rows = view.rows(part)
    blocks = row_blocks(len(rows), *cut)
    nothing = [None] * len(blocks)
    kept, keep = cloudpickle.loads(own)
    kept = kept or [nothing] * n_kept
    keep = nothing if keep == [] else keep
    layout = Layout(blocks, 1, [], [])
    with single_threaded_blas(), np.errstate(all="ignore"):
        return rows.visit(function, layout, *kept, keep=keep)


def sums_of_visit(asked, part, own):
    """The sums of a visit that leaves nothing."""
    return visit(asked, part, own)[0]


def add(*sums):
    """Sums of visits, in order; the first one is left as it is."""
    return tuple(map(_total, zip(*sums)))


def _total(values):
    first, *others = values
    total = first
    for index, value in enumerate(others):
        if index and isinstance(total, np.ndarray):
            total += value
        else:
            total = total + value
    return total


def first(pair):
    """The sums of a visit."""
    return pair[0]


def second(pair):
    """What a visit left."""
    return pair[1]

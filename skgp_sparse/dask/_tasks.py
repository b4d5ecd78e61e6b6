"""Tasks of workers on a part of the rows: functions of arrays, without any state.

A task may run twice, on any worker, and gives the same answer: a worker may die.
"""

from dataclasses import replace
from functools import reduce
from operator import add
from typing import NamedTuple

import cloudpickle
import numpy as np

from skgp_sparse._engine.data.dataset import Layout, row_blocks
from skgp_sparse._engine.data.moments import Moments, moments_of
from skgp_sparse._engine.data.target_scaler import TargetScaler
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.explain.views import Task
from skgp_sparse.rows.door import Outline, about_rows

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


def checked(number, rules, X, **columns):
    """The `ArrayDataset` of what the user's partition holds, None if that has no rows.

    Raises what a local fit would.
    """
    with about_rows(f"Partition {number}"):
        if 0 == len(X) == len(columns["y"]):
            return None
        if np.ndim(columns["y"]) and len(columns["y"]) != len(X):
            raise ValueError(f"y has {len(columns['y'])} rows and X has {len(X)}. {SAME_ROWS}")
        return rules.check(X, **columns)


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

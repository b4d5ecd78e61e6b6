"""What workers do with a part of the rows: functions of arrays, which remember nothing.

A task may run twice, on any worker, and gives the same answer: a worker may die.
"""

import copyreg
from functools import partial
from typing import NamedTuple

import cloudpickle
import numpy as np
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from skgp_sparse import kernels
from skgp_sparse._engine.moments import Moments, moments_of, root_mean_square
from skgp_sparse._engine.rows import Rows
from skgp_sparse._engine.table import Layout, row_blocks
from skgp_sparse._front import checks
from skgp_sparse._front.multiclass import Task
from skgp_sparse._front.sklearn_compat import check_sample_weight
from skgp_sparse._front.source_rows import labels_and_weights
from skgp_sparse._front.training_rows import check_alpha
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.sources import Chunk

_FLOATS = (np.float64, np.float32)


class Part(NamedTuple):
    """Some training rows in the memory of a worker, all of which are valid."""

    X: np.ndarray
    y: np.ndarray  # (n, p) float64, or labels (n,)
    weight: np.ndarray | None
    offset: np.ndarray | None
    noise: float | np.ndarray

    def take(self, rows):
        """The part of some rows."""
        return Part(*(one if np.ndim(one) == 0 else one[rows] for one in self))


class Rules(NamedTuple):
    """What a part of the rows must be like."""

    name: str  # of the estimator, for errors
    kernel: object
    labels: bool
    likelihood: object = None


class View(NamedTuple):
    """How a part is read: the units of its targets, or the labels of one problem."""

    y_mean: np.ndarray | None = None
    y_scale: np.ndarray | None = None
    least_noise: float = 0.0
    task: Task | None = None  # of a classifier
    classes: np.ndarray | None = None

    def rows(self, part):
        """The `Rows` of a part."""
        if self.task is not None:
            rows, label = self.task.labels(np.searchsorted(self.classes, part.y))
            part = part if rows is None else part.take(rows)
            part = part._replace(y=label[:, None])
        p = part.y.shape[1]
        mean = np.zeros(p) if self.y_mean is None else self.y_mean
        scale = np.ones(p) if self.y_scale is None else self.y_scale
        offset = None if part.offset is None else part.offset / scale[0]
        X, y, weight, _, noise = part
        return Rows(X, y, noise, weight, mean, scale, self.least_noise, offset)


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
    """The `Part` of what the user's partition holds; raises what a local fit would."""
    try:
        return _checked(rules, X, y, weight, offset, noise)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Partition {number}: {error}") from error


def _checked(rules, X, y, weight, offset, noise):
    name = rules.name
    checks.check_inputs(X, rules.kernel, name)
    checks.check_no_none(y)
    X = check_array(X, dtype=_FLOATS, ensure_min_samples=0, input_name="X", estimator=name)
    y = _labels(y, name) if rules.labels else _numbers(y, name)
    if len(y) != len(X):
        raise ValueError(
            f"y has {len(y)} rows and X has {len(X)}. Partitions of X, y, sample_weight and offset "
            "must hold the same rows: make them from one collection, or repartition them alike."
        )
    weight = check_sample_weight(weight, X, all_rows=False)
    offset = None if offset is None else checks.check_offset(offset, X, rules.likelihood, name)
    if rules.likelihood is not None and not rules.labels and len(y):
        rules.likelihood.check((y if weight is None else y[weight > 0])[:, 0], name)
    return Part(X, y, weight, offset, check_alpha(noise, len(X), name))


def _numbers(y, name):
    y = check_array(
        y, ensure_2d=False, dtype=np.float64, ensure_min_samples=0, input_name="y", estimator=name
    )
    return y[:, None] if y.ndim == 1 else y


def _labels(y, name):
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{name}: y must hold one label per row. Got an array of shape {y.shape}.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity. Remove these rows.")
    if len(y):
        check_classification_targets(y)
    return y


def kernel_with_rule(kind, rule, state):
    """A kernel of a class to which the user gave a rule, for which the worker knows it from now."""
    kernels.register(kind, rule)
    copyreg.pickle(kind, partial(_reduced, rule))  # workers hand it on to each other
    kernel = kind.__new__(kind)
    vars(kernel).update(state)
    return kernel


def _reduced(rule, kernel):
    return kernel_with_rule, (type(kernel), rule, vars(kernel))


def shape_of(part):
    """Numbers of rows, of columns of X and of targets."""
    return len(part.X), part.X.shape[1], 1 if part.y.ndim == 1 else part.y.shape[1]


def size_of(thing):
    """Number of rows."""
    return len(thing)


def whole(part):
    """The part as it is."""
    return part


def joined(parts):
    """Parts of the same columns as one."""
    columns = zip(*parts)
    return Part(*(one[0] if np.ndim(one[0]) == 0 else np.concatenate(one) for one in columns))


def cut(part, start, stop):
    """Some of the rows of a part."""
    return part.take(slice(start, stop))


def take(part, view, rows):
    """The rows of a table that an index array or a slice selects, as a `Part` in its units."""
    found = view.rows(part).subset(rows)
    return Part(found.X, found.y, found.weight, found.offset, found.noise)


def labels_of(part):
    """Classes, and the weight of each."""
    return labels_and_weights(Chunk(part.X, part.y, part.weight))


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

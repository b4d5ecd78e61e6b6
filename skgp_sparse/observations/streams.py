"""Rows that arrive later: what an estimator keeps of a stream, and what a call of partial_fit does.

A `StreamState` is plain data of bounded size, which pickles keep. It never changes: a call makes
another one, so that a call that fails leaves the estimator as it was. It pays to move theta and Z

- when the rows have doubled since the last move, as the model then knows little of half of them;
- when new rows are predicted clearly worse than those before them, which is the case where the
  function, or the inputs, are no longer what they were.

In the second case, the rows before may mislead. How much they still count is chosen by what they
say about the new rows: the first half of these joins them, and they predict the other half.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn import get_config

from skgp_sparse._engine.array_dataset import ArrayDataset
from skgp_sparse._engine.collapsed import RunningSums
from skgp_sparse._engine.moments import Moments, TargetScaler, moments_of
from skgp_sparse._ground.parallel import single_threaded_blas
from skgp_sparse.inference.minibatches import Reservoir
from skgp_sparse.rows.checks import check_columns

_MOST_ROWS = 100_000  # that the reservoir holds ...
_SHARE_OF_MEMORY = 1 / 16  # ... in this share of scikit-learn's working_memory
_GROWTH = 2.0  # of the number of rows, after which theta and Z move
_ROWS_OF_A_COMPARISON = 100  # whose densities are compared together
_ERRORS, _NATS = 5.0, 0.1  # a density falls clearly: by so many standard errors and so many nats
_DISCOUNTS = (0.1, 0.01, 0.0)  # how much a row before a change may count instead of 1 ...
_PRICE = 0.25  # ... and nats that each of these steps has to gain


class DriftDetector(NamedTuple):
    """Log densities of rows before they were learned from."""

    usual: Moments = Moments()  # since the last move
    recent: Moments = Moments()  # not compared so far

    def updated(self, densities, weight):
        """The detector after more densities (n,), and by how much they fell; 0 if not clearly."""
        recent = self.recent.merged(moments_of(densities, weight))
        if recent.weight < _ROWS_OF_A_COMPARISON:
            return self._replace(recent=recent), 0.0
        return DriftDetector(self.usual.merged(recent)), _fall(self.usual, recent)


class StreamState(NamedTuple):
    """State of a stream of rows that is kept between two calls."""

    reservoir: Reservoir
    seed: int
    warm_starts: tuple  # `WarmStart` of every problem, or None
    units: TargetScaler | None = None  # in which theta was learned
    moments: Moments | None = None  # of the targets, where noise is Gaussian
    sums: RunningSums | None = None  # the same
    active: ArrayDataset | None = None  # rows whose sites are inferred in the next call, too ...
    frozen: tuple | None = None  # ... and what the others say, `Sums` of every problem
    watch: DriftDetector = DriftDetector()
    at_last_move: float = 0.0  # weight of the rows
    calls: int = 0
    total_weight: float = 0.0  # weight of all rows, whatever they count now
    n_iter: int = 0
    first: object = None  # what a family wants to remember of the first call

    def random_state(self):
        """Random state of the next call."""
        return np.random.RandomState([self.seed, self.calls])

    def part(self):
        """The rows in the reservoir, weighted so that they stand for all that came."""
        return _part_of(self.reservoir.columns, self.reservoir.weights())

    def accepted(self, part, name):
        """The part; raises unless it has as many targets as those before."""
        check_columns(part.y, self.reservoir.columns[1].shape[1], name)
        return part

    def with_rows(self, part, random_state):
        """The stream with the rows of a part in its reservoir."""
        reservoir, columns, weight = self.reservoir, _columns_of(part), part.row_weights()
        bytes_of_a_row = sum(column.nbytes for column in columns) / len(weight) + 16
        memory = _SHARE_OF_MEMORY * get_config()["working_memory"] * 2**20
        capacity = max(1, int(min(_MOST_ROWS, memory / bytes_of_a_row)))
        for start in range(0, len(weight), capacity):
            some = slice(start, start + capacity)
            few = tuple(column[some] for column in columns)
            reservoir = reservoir.plus(few, weight[some], capacity, random_state)
        return self._replace(reservoir=reservoir, total_weight=self.total_weight + weight.sum())

    def discounted(self, factor):
        """The stream whose rows count less."""
        frozen, active = self.frozen, self.active
        return self._replace(
            frozen=None if frozen is None else tuple(sites.times(factor) for sites in frozen),
            active=None if active is None else _weighted(active, factor),
            reservoir=self.reservoir.times(factor),
            moments=None if self.moments is None else self.moments.times(factor),
            sums=None if self.sums is None else self.sums.times(factor),
        )

    def seeded(self, part):
        """The stream of the rows of a fit, before anything is learned from more of them."""
        stream = self.with_rows(part, self.random_state())
        return stream._replace(at_last_move=stream.reservoir.total, calls=1)


def new_stream(part, random_state, n_problems, first=None):
    """A stream to which no row has come, for parts like this one."""
    return StreamState(
        reservoir=Reservoir.empty(_columns_of(part)),
        seed=random_state.randint(2**31 - 1),
        warm_starts=(None,) * n_problems,
        first=first,
    )


def advance(family, stream, view, part):
    """Learn from a part: the next `StreamState`, and the fits.

    Parameters
    ----------
    family : ObservationModel
    stream : StreamState
    view : view or None
        What was learned before.
    part : ArrayDataset
    """
    random_state, fall = stream.random_state(), 0.0
    if family.moves() and stream.calls:
        watch, fall = stream.watch.updated(family.log_densities(view, part), part.row_weights())
        stream = stream._replace(watch=watch)
    if fall:
        stream = stream.discounted(_discount(family, stream, part, random_state))
    begins = family.begins_to_vary(stream, part)
    stream = stream.with_rows(part, random_state)
    total = stream.reservoir.total
    has_grown = stream.calls == 0 or total >= _GROWTH * stream.at_last_move
    due = bool(fall or begins or (has_grown and family.moves()))
    stream, fits = family.learn(stream, part, due)
    if due:
        stream = stream._replace(watch=DriftDetector(), at_last_move=total)
    n_iter = stream.n_iter + due * int(max(fit.n_iter for fit in fits))
    return stream._replace(calls=stream.calls + 1, n_iter=n_iter), fits


def _discount(family, stream, part, random_state):
    """How much the rows before still count; the later half of the new ones decides."""
    half = len(part) // 2
    if half < 2 or any(one is None or one.few for one in stream.warm_starts):
        return 1.0
    learned, held_out = part.subset(slice(half)), part.subset(slice(half, None))

    def densities(factor):
        trial = stream.discounted(factor).with_rows(learned, random_state)
        after, fits = family.learn(trial, learned, False)
        return family.log_densities(family.view(fits, after.units), held_out)

    with single_threaded_blas():
        return best_discount(densities)


def best_discount(densities):
    """How much rows before a change still count, from what they say about rows after it.

    Rows that predict badly need not mislead: seasons return. What is forgotten is gone, so that it
    has to be worth a price.

    Parameters
    ----------
    densities : callable
        Factor of the weights of the rows before -> log densities (n,) of some rows after.
    """
    without_change = densities(1.0)
    best, most = 1.0, 0.0
    for steps, factor in enumerate(_DISCOUNTS, start=1):
        gain = densities(factor) - without_change
        is_clear = gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain))
        if is_clear and gain.mean() - steps * _PRICE > most:
            best, most = factor, gain.mean() - steps * _PRICE
    return best


def _fall(usual, recent):
    """By how much recent densities are lower than usual ones; 0 if not clearly."""
    if usual.weight == 0:
        return 0.0
    error = usual.spread * np.sqrt(1.0 / usual.weight + 1.0 / recent.weight)
    fall = float(usual.mean - recent.mean)
    return fall if fall > max(_ERRORS * error, _NATS) else 0.0


def _weighted(rows, factor):
    """Rows whose weights are multiplied by a factor."""
    return replace(rows, weight=factor * rows.row_weights())


def joined(before, part):
    """Rows of before, if there are any, and rows of now."""
    if before is None:
        return _weighted(part, 1.0)
    columns = map(np.concatenate, zip(_columns_of(before), _columns_of(part)))
    return _part_of(columns, np.append(before.row_weights(), part.row_weights()))


def _columns_of(part):
    """Arrays of numbers of every row, but for the weights."""
    if part.y.ndim == 1:  # labels
        return part.X, part.y
    rest = (0.0 if column is None else column for column in (part.offset, part.noise))
    return part.X, part.y, *(np.broadcast_to(column, len(part)) for column in rest)


def _part_of(columns, weight):
    """The `ArrayDataset` of such arrays."""
    X, y, *rest = columns
    if not rest:
        return ArrayDataset(X, y, weight=weight)
    offset, noise = (column if column.any() else None for column in rest)
    return ArrayDataset(X, y, 0.0 if noise is None else noise, weight, offset=offset)

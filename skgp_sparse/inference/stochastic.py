"""Training on parts of the data: growing random samples, then one pass over all rows.

Only theta and Z need to be learned from parts: at given ones, one pass over all rows gives the
posterior. What precedes it costs what the rows of the samples cost, however many rows there are.

1. L-BFGS climbs on growing samples (`STAGES`), each from where the last one ended. The rows of the
   larger ones stand for all rows, so that their optimum is that of as much data.
2. One pass gives the posterior given all rows; with a likelihood, few passes.

Stages are judged by the log density of held-out rows. One that loses by more than two standard
errors is undone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.validation import AnyArray, Array, Ints, Kernel, Rng
from skgp_sparse.inference.contracts import Conclusion, SparseFit, Start, VectorFunction, arithmetic
from skgp_sparse.inference.optimizers import Maximum, climb

_HELD = 8000, 20  # held-out rows: at most so many, and one in so many
SHARE_OF_A_KIND = 0.1  # of a sample, where there are so many


# -- random rows of a table: those held out, samples of the rest, and a reservoir ------------------


def held_out_rows(rows: Dataset, most: int, share: int, random_state: Rng) -> Ints:
    """Sorted numbers of random rows of positive weight: one in `share`, 1 to `most` of them."""
    n = len(rows) if rows.weight is None else int(np.count_nonzero(rows.weight))
    size = max(min(most, n // share), 1)
    if rows.weight is None:
        return rows.sample(size, random_state)
    return np.sort(random_state.choice(np.flatnonzero(rows.weight), size, replace=False))


class Samples:
    """Draws rows that count, of all kinds (n,); some of them are held out, and never drawn."""

    def __init__(self, rows: Dataset, kinds: AnyArray | None, rng: Rng) -> None:
        self.rows, self.random_state = rows, rng
        self.held_out = held_out_rows(rows, *_HELD, rng)
        self.edges: Array | Any = None  # cumulated weights of rows to draw; None: all are one
        if rows.weight is not None:
            weight = rows.weight.copy()
            weight[self.held_out] = 0.0
            self.edges = np.cumsum(weight, out=weight)
        self.kinds: AnyArray | Any = kinds if rows.weight is None else None

    @cached_property
    def held(self) -> Dataset:
        """Table of the held-out rows."""
        return replace(self.rows.subset(self.held_out), weight=None)

    def draw(self, size: int) -> ArrayDataset:
        """The table of about so many rows; a row of weight w counts as w rows."""
        if self.edges is not None:
            places = self.random_state.uniform(0.0, self.edges[-1], size)
            copies = np.searchsorted(self.edges, places, "right")
            index, counts = np.unique(copies, return_counts=True)
            return replace(self.rows.subset(index), weight=counts.astype(float))
        index, weight = self._distinct(size), None
        if self.kinds is not None:
            index, weight = self._with_all_kinds(index)
        return replace(self.rows.subset(index), weight=weight)

    def for_all(self, sample: Dataset) -> Dataset:
        """A copy of a sample, with weights scaled to add up to those of all rows."""
        share = self.rows.total_weight() / sample.total_weight()
        weight = 1.0 if sample.weight is None else sample.weight
        return replace(sample, weight=np.broadcast_to(share * weight, len(sample)))

    def _distinct(self, size: int) -> Ints:
        """Sorted rows, drawn without replacement."""
        size = min(size, len(self.rows) - len(self.held_out))
        drawn = self.rows.sample(size + len(self.held_out), self.random_state)
        drawn = np.setdiff1d(drawn, self.held_out, assume_unique=True)
        surplus = len(drawn) - size
        if surplus > 0:
            drawn = np.delete(drawn, self.random_state.choice(len(drawn), surplus, replace=False))
        return drawn

    def _with_all_kinds(self, index: Ints) -> tuple[Ints, Array | None]:
        """The sample with more rows of rare kinds, and weights that undo it, None if unchanged."""
        total = np.bincount(np.delete(self.kinds, self.held_out), minlength=self.kinds.max() + 1)
        drawn = np.bincount(self.kinds[index], minlength=len(total))
        missing = np.minimum(total, int(SHARE_OF_A_KIND * len(index))) - drawn
        if not np.any(missing > 0):
            return index, None
        for kind in np.flatnonzero(missing > 0):
            rest = np.setdiff1d(np.flatnonzero(self.kinds == kind), np.append(self.held_out, index))
            index = np.append(index, self.random_state.choice(rest, missing[kind], replace=False))
        index = np.sort(index)
        drawn = np.bincount(self.kinds[index], minlength=len(total))
        share = total / np.maximum(drawn, 1) * (len(index) / total.sum())
        return index, share[self.kinds[index]]


@dataclass(frozen=True, eq=False)
class Reservoir:
    """Rows, how much each of them counted, and what decides who stays.

    This is priority sampling (Duffield, Lund and Thorup 2007): a row of weight w has the priority
    ``w/u`` with u uniform in (0, 1]. The rows of the highest priorities stay, and ``τ`` is the
    highest priority that did not. A row that stayed stands for ``max(w, τ)`` rows, so that sums
    over the sample are unbiased estimates of sums over all rows.
    """

    columns: tuple  # of arrays, one entry per row in each
    weight: np.ndarray
    priority: np.ndarray
    threshold: float = 0.0  # highest priority of a row that did not stay
    total: float = 0.0  # weight of all rows that came

    @classmethod
    def empty(cls, columns: Sequence) -> "Reservoir":
        """A reservoir without rows, for columns like these."""
        nothing = np.empty(0)
        return cls(tuple(column[:0] for column in columns), nothing, nothing)

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def is_complete(self) -> bool:
        """Whether all rows that came are here."""
        return self.threshold == 0.0

    def plus(self, columns: Sequence, weight: Array, most: int, random_state: Rng) -> "Reservoir":
        """The reservoir with more rows, of which at most so many stay."""
        priority = weight / (1.0 - random_state.uniform(size=len(weight)))
        pairs = zip((*self.columns, self.weight, self.priority), (*columns, weight, priority))
        *columns, weight, priority = map(np.concatenate, pairs)
        total, surplus = self.total + weight[len(self) :].sum(), len(weight) - most
        if surplus <= 0:
            return Reservoir(tuple(columns), weight, priority, self.threshold, total)
        order = np.argpartition(priority, surplus - 1)
        threshold = max(self.threshold, priority[order[:surplus]].max())
        stay = np.sort(order[surplus:])
        columns = tuple(column[stay] for column in columns)
        return Reservoir(columns, weight[stay], priority[stay], threshold, total)

    def weights(self) -> Array:
        """How many rows each of these stands for; their sum is the weight of all that came."""
        if self.is_complete:
            return self.weight
        weight = np.maximum(self.weight, self.threshold)
        return weight * (self.total / weight.sum())


# -- the search on samples -------------------------------------------------------------------------

_CLEAR = 2.0  # standard errors of a loss that counts


class Stage(NamedTuple):
    """L-BFGS on a random sample."""

    rows: int  # per inducing point
    most: float  # iterations, of those that a fit may have
    stand_for_all: bool  # whether each row counts as often as there are more rows


STAGES = Stage(20, 40, False), Stage(80, 100, True), Stage(160, np.inf, True), Stage(320, 10, True)


class State(NamedTuple):
    """Where the search is."""

    objective: SparseFit  # of all rows
    kernel: Kernel
    sample: Any = None  # what a sample knew, for `SparseFit.conclude_from`
    densities: Array | Any = None  # log densities of the held-out rows; None: not known
    ascent: tuple | None = None  # function of a vector and `Maximum`, of rows that stand for all


class Search:
    """Looks for theta and Z on parts of the rows."""

    def __init__(self, start: Start, move_basis: bool) -> None:
        objective, _, self.settings, random_state, objectives, _ = start
        self.move_basis = move_basis
        self.rows, self.width = objective.rows, objective.basis.size
        self.samples = Samples(self.rows, objectives.kinds(self.rows), random_state)
        self.started, self.n_visited = time.perf_counter(), 0
        self.n_iter, self.stopped = 0, False
        self.unfinished: Maximum | None = None

    def start(self, objective: SparseFit, kernel: Kernel) -> State:
        """The `State` before the first stage, with densities of held-out rows."""
        sample = self.samples.draw(STAGES[0].rows * self.width)
        return self.better(State(objective, kernel), objective, kernel, sample)

    def climb(self, state: State, stage: Stage) -> State:
        """The state after a stage, or the one before if that was better."""
        sample = self.samples.draw(stage.rows * self.width)
        try:
            return self._climb(state, stage, sample)
        except np.linalg.LinAlgError as error:
            warn(
                f"A sample of {len(sample)} rows could not be fitted, so that the fit goes on from "
                f"what it had before. {error}",
                ConvergenceWarning,
            )
            return state._replace(ascent=None)

    def conclude(self, state: State) -> Conclusion:
        """`Conclusion` from all rows."""
        with arithmetic():
            return state.objective.conclude_from(state.kernel, state.sample)

    def better(self, before: State, objective: SparseFit, kernel: Kernel, sample: Dataset) -> State:
        """The `State` at another point; the one before if it is better by two standard errors."""
        for_all, held = objective.on(self.samples.for_all(sample)), objective.on(self.samples.held)
        with arithmetic():
            posterior, known = for_all.of_sample(kernel)
            densities = held.log_densities(posterior)
        state = State(objective.on(self.rows), kernel, known, densities)
        if before.densities is None:
            return state
        gains = densities - before.densities
        least = -_CLEAR * (np.std(gains) / np.sqrt(len(gains)))
        return state if np.mean(gains) >= least else before  # also where the gain is no number

    def report(self, iteration: int, state: State) -> bool:
        """Tell the progress of a stage; returns whether to stop."""
        self.n_iter += 1
        if self.settings.progress is None:
            return False
        passes, seconds = self.n_visited / len(self.rows), time.perf_counter() - self.started
        note = f"{passes:.2f} passes over the rows, {seconds:.1f} s"
        note += f", log density of held-out rows {np.mean(state.densities):.4f}"
        self.stopped |= bool(self.settings.progress(iteration, note=note))
        return self.stopped

    def _climb(self, state: State, stage: Stage, sample: ArrayDataset) -> State:
        """The state after L-BFGS on a sample, or the one before if that was better."""
        rows = self.samples.for_all(sample) if stage.stand_for_all else sample
        if state.ascent is None:
            part = state.objective.on(rows)
            function = VectorFunction(part, state.kernel, self.move_basis, self.settings.prior)
            x0 = curvature = None
        else:  # nearly the same function: the rows of before stood for all, too
            function, maximum = state.ascent
            function, x0, curvature = function.on(rows), maximum.x, maximum.curvature

        def report(iteration: int, _: float) -> bool:
            self.n_visited += len(sample)
            return self.report(iteration, state)

        most = int(min(stage.most, self.settings.max_iter))
        options = {"max_iter": most, "callback": report, "curvature": curvature}
        maximum = climb(function, self.settings, x0, **options)
        if np.isinf(stage.most) and not maximum.converged:
            self.unfinished = maximum
        better = self.better(state, *function.at(maximum.x), sample)
        goes_on = stage.stand_for_all and better is not state
        return better._replace(ascent=(function, maximum) if goes_on else None)

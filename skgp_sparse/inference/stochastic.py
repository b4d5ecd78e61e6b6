"""Training on parts of the data: growing random samples, then one pass over all rows.

Only theta and Z need to be learned from parts: at given ones, one pass over all rows gives the
posterior. What precedes it costs what the rows of the samples cost, however many rows there are.

1. L-BFGS climbs on growing samples (`STAGES`), each from where the last one ended. The rows of the
   larger ones stand for all rows, so that their optimum is that of as much data.
2. Cycles of minibatches follow, if their size is given. A step takes the gradient of one batch with
   the running posterior held (`Average`), and Adam moves theta and Z with a step size that
   falls to zero along a cosine. Cycles double in length until one of them gains less than the
   tolerance; the steps of Z are a fifth after a cycle that is undone.
3. One pass gives the posterior given all rows.

Stages and cycles are judged by the log density of held-out rows. One that loses by more than two
standard errors is undone.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine import collapsed_sites
from skgp_sparse.engine.basis import Features
from skgp_sparse.engine.collapsed import Sums, core_of, posterior_of
from skgp_sparse.engine.collapsed_sites import NO_POSTERIOR, Cores, Minibatch
from skgp_sparse.engine.posterior import IndependentPosteriors, Posterior
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.validation import AnyArray, Array, Ints, Kernel, Rng, Scalars
from skgp_sparse.inference.contracts import Conclusion, SparseFit, Start, VectorFunction, arithmetic
from skgp_sparse.inference.optimizers import Maximum, climb

_HELD = 8000, 20  # held-out rows: at most so many, and one in so many
_NONE = np.empty(0, dtype=np.intp)  # of the rows
SHARE_OF_A_KIND = 0.1  # of a sample, where there are so many
MOST = 1 << 20  # rows that are in memory for batches, where the table is not


# -- random rows of a table: those held out, samples of the rest, batches, and a reservoir ---------


def held_out_rows(rows: Dataset, most: int, share: int, random_state: Rng) -> Ints:
    """Sorted numbers of random rows of positive weight: one in `share`, 1 to `most` of them."""
    n = len(rows) if rows.weight is None else int(np.count_nonzero(rows.weight))
    size = max(min(most, n // share), 1)
    if rows.weight is None:
        return rows.sample(size, random_state)
    return np.sort(random_state.choice(np.flatnonzero(rows.weight), size, replace=False))


class Samples:
    """Draws rows that count, of all kinds (n,); some of them are held out, and never drawn."""

    def __init__(self, rows: Dataset, kinds: AnyArray | None, rng: Rng, hold_out: bool = True):
        self.rows, self.random_state = rows, rng
        self.held_out = held_out_rows(rows, *_HELD, rng) if hold_out else _NONE
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
            index, counts = np.unique(self._copies(size), return_counts=True)
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

    def batches(self, size: int) -> Callable[[], ArrayDataset]:
        """A function of no argument that draws batches: tables in memory of so many rows."""
        pool = self
        if not self.rows.in_memory:
            pool = Samples(self.draw(MOST), None, self.random_state, hold_out=False)
        return lambda: replace(pool.rows.subset(pool._batch(size)), weight=None)

    def _copies(self, size: int) -> Ints:
        """Rows, drawn as often as their weights say."""
        places = self.random_state.uniform(0.0, self.edges[-1], size)
        return np.searchsorted(self.edges, places, "right")

    def _distinct(self, size: int) -> Ints:
        """Sorted rows, drawn without replacement."""
        size = min(size, len(self.rows) - len(self.held_out))
        drawn = self.rows.sample(size + len(self.held_out), self.random_state)
        drawn = np.setdiff1d(drawn, self.held_out, assume_unique=True)
        surplus = len(drawn) - size
        if surplus > 0:
            drawn = np.delete(drawn, self.random_state.choice(len(drawn), surplus, replace=False))
        return drawn

    def _batch(self, size: int) -> Ints:
        """Sorted rows, drawn with replacement."""
        if self.edges is not None:
            return np.sort(self._copies(size))
        drawn = self.random_state.randint(len(self.rows), size=size)
        while np.any(again := np.isin(drawn, self.held_out)):
            drawn[again] = self.random_state.randint(len(self.rows), size=again.sum())
        return np.sort(drawn)

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


_PASSES = 20  # over all rows, for sites
_CONVERGED = 1e-5  # nats per row that a pass gains when it is the last one
_SMALLEST_SHARE = 1e-3  # of a batch in the means, below which there is no posterior


# -- views of objectives: gradients from some rows, and a running posterior ------------------------


class Average(NamedTuple):
    """Running means over rows, and the posterior of the weights that follows from them.

    A batch adds its share to the means: a natural-gradient step of this size (Hensman, Fusi and
    Lawrence 2013; in dual form, Adam, Chang, Khan and Solin 2021). As theta and the basis move, the
    means do not move with them, but forget.
    """

    means: list  # of `Sums` per row, one for each process
    penalty: Scalars  # mean of φ or, of rows with sites, of λ2 r in each process
    cores: Cores
    features: Features  # at which the last batch was seen

    def mixed(self, means: list, penalty: Scalars, share: float) -> tuple[list, Scalars]:
        """Means and penalty after a batch, whose own have a share."""
        kept = 1.0 - share
        means = [a.times(kept) + b.times(share) for a, b in zip(self.means, means)]
        return means, kept * self.penalty + share * penalty

    def process(self, kernel: Kernel) -> Posterior:
        """The posterior process, at the features where the rows were seen last."""
        features = self.features.for_prediction()
        each = tuple(posterior_of(features, core, kernel) for core in self.cores)
        return each[0] if len(each) == 1 else IndependentPosteriors(each)


@dataclass(frozen=True)
class GaussianMinibatchView:
    """Rows with Gaussian noise. Means are per unit of precision: they need not follow the noise."""

    total: float  # number of all rows

    def start(self, objective: SparseFit, kernel: Kernel) -> Average:
        """Posterior from the rows of an objective, which stand for all rows."""
        batch = collapsed_sites.with_noise(objective.problem(kernel), keep=False)
        return self._posterior(batch, *_per_unit(batch), objective.options.n_jobs)

    def step(
        self, objective: SparseFit, kernel: Kernel, posterior: Average, share: float, inputs: bool
    ) -> tuple[dict, Average]:
        """Gradients by the name of the block, per row, and the next posterior."""
        batch = collapsed_sites.with_noise(objective.problem(kernel))
        mixed = posterior.mixed(*_per_unit(batch), share)
        posterior = self._posterior(batch, *mixed, objective.options.n_jobs)
        slope = objective.bound.reduce(self.total * float(posterior.penalty), self.total)[1]
        gradient = collapsed_sites.gradient(batch, posterior.cores, slope, inputs)
        return _per_row(gradient, batch), posterior

    def log_densities(self, objective: SparseFit, kernel: Kernel, posterior: Average) -> Array:
        """Log densities (n,) of the rows of an objective, of several targets their means."""
        block, mean, variance, noise = _predicted(objective, kernel, posterior)
        variance = (variance + noise + block.noise)[:, None]
        return log_normal_density(block.y, mean, np.sqrt(variance)).mean(axis=1)

    def conclude(self, objective: SparseFit, kernel: Kernel, posterior: Average) -> Conclusion:
        """`Conclusion` from all rows of an objective: one pass."""
        return objective.conclude(kernel)

    def _posterior(self, batch: Minibatch, means: list, penalty: Scalars, n_jobs: int) -> Average:
        n = self.total * batch.sums[0].a / batch.n
        core = core_of(means[0].times(n), n_jobs, failure=NO_POSTERIOR)
        return Average(means, penalty, Cores([core]), batch.visit.features)


@dataclass(frozen=True)
class SiteMinibatchView:
    """Rows with a likelihood, whose sites follow from their marginals: nothing is kept per row."""

    total: float  # number of all rows

    def start(self, objective: SparseFit, kernel: Kernel) -> Average:
        """Posterior from the rows of an objective, which stand for all rows: by its inner loop."""
        loop, solution, _ = objective.infer(kernel)
        cores, v, _ = solution.step.result
        sums = [Sums(core.VaV, core.VaV @ core.v + core.v, 1.0) for core in cores]
        means = [one.times(1.0 / self.total) for one in sums]
        return Average(means, 1.0 / v - 1.0, cores, loop.projected.features)

    def step(
        self, objective: SparseFit, kernel: Kernel, now: Average, share: float, inputs: bool
    ) -> tuple[dict, Average]:
        """Gradients by the name of the block, per row, and the next posterior."""
        k, batch = len(now.cores), self._look(objective, kernel, now, True)
        gradient = collapsed_sites.gradient(batch, now.cores, 1.0, inputs)
        if len(batch.totals) > 1 + k:
            gradient["likelihood"] = batch.totals[1 + k :]
        return _per_row(gradient, batch), self._moved(now, batch, share, objective.options.n_jobs)

    def log_densities(self, objective: SparseFit, kernel: Kernel, posterior: Average) -> Array:
        """Log densities (n,) of the rows of an objective."""
        block, mean, variance, noise = _predicted(objective, kernel, posterior)
        latent = mean.T + block.offset, (variance.reshape(len(mean), -1) + noise[:, None]).T
        if len(posterior.cores) == 1:
            latent = latent[0][0], latent[1][0]
        return objective.method.likelihood.log_density(block.observed, *latent)

    def conclude(self, objective: SparseFit, kernel: Kernel, posterior: Average) -> Conclusion:
        """`Conclusion` after passes over all rows until one gains little; losses halve the step."""
        if objective.method.uses_last_site:
            return objective.conclude(kernel)
        value, share = -np.inf, 1.0
        for _ in range(_PASSES):
            batch = self._look(objective, kernel, posterior, keep=False)
            v = objective.method.share(posterior.penalty)
            trial = objective.method.total(posterior.cores, batch.totals[0], batch.n, v)
            if value == -np.inf and not np.isfinite(trial):
                raise np.linalg.LinAlgError(
                    "The bound of all rows is not finite. Check the scale of X and y."
                )
            gain = trial - value
            converged = share == 1.0 and abs(gain) < _CONVERGED * self.total
            if gain > 0.0:
                best, value, share = (posterior, batch), trial, 1.0
            else:
                share *= 0.5
            if converged:
                break
            posterior = self._moved(best[0], best[1], share, objective.options.n_jobs)
        else:
            warn(
                f"The sites of all rows did not converge in {_PASSES} passes (the last one changed "
                f"the bound by {gain / self.total:.1e} nats per row). Lower the upper bound of the "
                "kernel's variance, or use solver='lbfgs'.",
                ConvergenceWarning,
            )
        posterior, batch = best
        process = posterior._replace(features=batch.visit.features).process(kernel)
        return Conclusion(value, process, batch.visit.features.jitter, objective.for_users())

    def _look(self, objective: SparseFit, kernel: Kernel, now: Average, keep: bool) -> Minibatch:
        problem, v = objective.problem(kernel), objective.method.share(now.penalty)
        return collapsed_sites.with_sites(problem, now.cores, objective.method, v, keep)

    def _moved(self, posterior: Average, batch: Minibatch, share: float, n_jobs: int) -> Average:
        """The posterior after a natural-gradient step; a shorter one if there is none."""
        means = [sums.times(1.0 / batch.n) for sums in batch.sums]
        penalty = batch.totals[1 : 1 + len(means)] / batch.n
        while True:
            mixed, mixed_penalty = posterior.mixed(means, penalty, share)
            try:
                sums = (one.times(self.total) for one in mixed)
                cores = Cores(core_of(one, n_jobs, failure=NO_POSTERIOR) for one in sums)
                return Average(mixed, mixed_penalty, cores, batch.visit.features)
            except np.linalg.LinAlgError:  # precisions of some likelihoods may be negative
                share *= 0.5
                if share < _SMALLEST_SHARE:
                    raise


def _predicted(objective: SparseFit, kernel: Kernel, posterior: Average) -> tuple:
    """The rows of an objective, and the `moments` of the process there."""
    block = objective.rows.everything()
    return block, *posterior.process(kernel).moments(block.X, objective.options.n_jobs)


def _per_unit(batch: Minibatch) -> tuple[list, Array]:
    """Means per unit of precision, and the mean penalty."""
    return [sums.times(1.0 / sums.a) for sums in batch.sums], batch.totals / batch.n


def _per_row(gradient: dict, batch: Minibatch) -> dict:
    return {name: part / batch.n for name, part in gradient.items()}


_CLEAR = 2.0  # standard errors of a loss that counts
_CYCLE, _MOST_LOST = 400, 2  # steps of the first cycle; cycles that may lose in a row
_STEPS_OF_AN_ITERATION = 10  # where `max_iter` counts steps
_WARM = 20  # steps until the step size is reached
_STEP, _STEP_OF_BASIS = 0.01, 0.005  # in the units of the blocks of parameters
_WINDOW, _LONGEST_WINDOW = 12, 200  # batches in the running means, by the step size
_DECAYS = np.array([[0.9], [0.99]])  # of Adam's moments (Kingma and Ba 2015)
_EVERY = 50  # steps between reports


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
    posterior: Average | None = None  # from a sample
    densities: np.ndarray | float = -np.inf  # log densities of the held-out rows
    ascent: tuple | None = None  # function of a vector and `Maximum`, of rows that stand for all

    def gain_on(self, other: "State") -> tuple:
        """Mean gain in log density on another state, and its standard error."""
        gains = self.densities - other.densities
        return np.mean(gains), np.std(gains) / np.sqrt(np.size(gains))


class Search:
    """Looks for theta and Z on parts of the rows."""

    def __init__(self, start: Start, move_basis: bool) -> None:
        objective, _, self.settings, random_state, model = start
        self.move_basis = move_basis
        self.rows, self.width = objective.rows, objective.basis.size
        self.minibatch_view = objective.minibatch_view()
        self.samples = Samples(self.rows, model.kinds(self.rows), random_state)
        self.started, self.n_visited = time.perf_counter(), 0
        self.n_iter, self.stopped = 0, False
        self.unfinished: Maximum | None = None

    def start(self, objective: SparseFit, kernel: Kernel) -> State:
        """The first state."""
        sample = self.samples.draw(STAGES[0].rows * self.width)
        return self.better(State(objective, kernel), objective, kernel, sample)

    def climb(self, state: State, stage: Stage) -> State:
        """The state after a stage, or the one before if that was better."""
        sample = self.samples.draw(stage.rows * self.width)
        try:
            return self._climb(state, stage, sample)
        except np.linalg.LinAlgError as error:
            _warn_of_failure(f"A sample of {len(sample)} rows could not be fitted", error)
            return state._replace(ascent=None)

    def function(self, objective: SparseFit, kernel: Kernel) -> VectorFunction:
        """The `VectorFunction` of an objective from a kernel on; the prior counts once."""
        return VectorFunction(objective, kernel, self.move_basis, self.settings.prior)

    def conclude(self, state: State) -> Conclusion:
        """`Conclusion` from all rows."""
        with arithmetic():
            return self.minibatch_view.conclude(state.objective, state.kernel, state.posterior)

    def better(self, before: State, objective: SparseFit, kernel: Kernel, sample: Dataset) -> State:
        """The `State` at another point; the one before if it is better by two standard errors."""
        for_all, held = objective.on(self.samples.for_all(sample)), objective.on(self.samples.held)
        with arithmetic():
            posterior = self.minibatch_view.start(for_all, kernel)
            densities = self.minibatch_view.log_densities(held, kernel, posterior)
        state = State(objective.on(self.rows), kernel, posterior, densities)
        gain, error = state.gain_on(before) if before.posterior else (np.inf, 0.0)
        return state if gain >= -_CLEAR * error else before  # also where the gain is no number

    def report(self, iteration: int, state: State) -> bool:
        """Tell the progress of a stage or of a cycle; returns whether to stop."""
        self.n_iter += 1
        if self.settings.progress is None:
            return False
        passes, seconds = self.n_visited / len(self.rows), time.perf_counter() - self.started
        note = f"{passes:.2f} passes over the rows, {seconds:.1f} s"
        note += f", log density of held-out rows {np.mean(state.densities):.4f}"
        self.stopped |= bool(self.settings.progress(iteration, note=note))
        return self.stopped

    def _climb(self, state: State, stage: Stage, sample: ArrayDataset) -> State:
        rows = self.samples.for_all(sample) if stage.stand_for_all else sample
        if state.ascent is None:
            part = state.objective.on(rows)
            function, x0, curvature = self.function(part, state.kernel), None, None
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


def climb_by_minibatches(search: Search, state: State, batch_size: int) -> State:
    """The `State` of a `Search` after cycles of minibatches."""
    draw_batch = search.samples.batches(batch_size)
    steps, step_of_basis, lost = _CYCLE, _STEP_OF_BASIS, 0
    left = _STEPS_OF_AN_ITERATION * search.settings.max_iter
    deadline = search.settings.deadline
    while not search.stopped and lost < _MOST_LOST and left > 0 and not deadline.is_over():
        before, steps = state, min(steps, left)
        left -= steps
        try:
            objective, kernel = _cycle(search, state, draw_batch, steps, step_of_basis)
            sample = search.samples.draw(min(steps * batch_size, MOST))
            state = search.better(state, objective, kernel, sample)
        except np.linalg.LinAlgError as error:
            _warn_of_failure(f"A cycle of {steps} minibatches failed", error)
        if state is before:
            step_of_basis, lost = step_of_basis / 5.0, lost + 1
        elif state.gain_on(before)[0] < search.settings.tol:
            break
        else:
            steps, lost = 2 * steps, 0
    return state


def _cycle(
    search: Search, state: State, draw_batch: Callable, steps: int, step_of_basis: float
) -> tuple[SparseFit, Kernel]:
    """The objective and the kernel after Adam's steps."""
    function, view = search.function(state.objective, state.kernel), search.minibatch_view
    vector, limits = function.pack(), function.limits().T
    steps_of = [step_of_basis if block.name == "basis" else _STEP for block in function.blocks]
    units = np.repeat(steps_of, [block.value.size for block in function.blocks])
    moments, posterior = np.zeros((2, len(vector))), state.posterior
    for step in range(steps):
        rate = min(1.0, (step + 1) / _WARM) * 0.5 * (1.0 + np.cos(np.pi * step / steps))
        share = max(rate / _WINDOW, 1.0 / _LONGEST_WINDOW)
        objective, kernel = function.at(vector)
        part = objective.on(draw_batch())
        with arithmetic():
            gradient, posterior = view.step(part, kernel, posterior, share, search.move_basis)
        gradient["kernel"] = gradient["kernel"] + function.prior.gradient(kernel.theta) / view.total
        slope = function.pack_gradient(gradient)
        moments += (1.0 - _DECAYS) * (np.stack([slope, slope**2]) - moments)
        mean, square = moments / (1.0 - _DECAYS ** (step + 1))
        direction = mean / (np.sqrt(square) + np.finfo(float).tiny)
        if not np.all(np.isfinite(direction)):
            raise np.linalg.LinAlgError(
                "The gradient of a minibatch is not finite. Check the scale of X and y."
            )
        vector = np.clip(vector + rate * units * direction, *limits)
        search.n_visited += len(part.rows)
        is_told = (step + 1) % _EVERY == 0 and search.report((step + 1) // _EVERY, state)
        if is_told or search.settings.deadline.is_over():
            break
    return function.at(vector)


def _warn_of_failure(what: str, error: Exception) -> None:
    """Warn of a stage or a cycle that failed, and is left out."""
    warn(f"{what}, so that the fit goes on from what it had before. {error}", ConvergenceWarning)

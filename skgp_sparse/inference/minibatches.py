r"""Views of objectives for the stochastic solver: gradients from some rows, a running posterior.

The posterior of the weights of the features follows from means over rows, to which every batch adds
its share (`RunningPosterior`): a natural-gradient step of this size (Hensman, Fusi and Lawrence
2013; in dual form, Adam, Chang, Khan and Solin 2021). Theta and the basis move a little from batch
to batch; the means do not move with them, but forget.

With a likelihood, the sites of a row follow from its marginal. Rows may then pass by without a
trace, and a few passes over all of them give the posterior: nothing is kept per row.

Random rows of a table: those held out, samples of the rest, and batches.

A bounded sample of all rows that came, whose weights stand for all of them.

Priority sampling (Duffield, Lund and Thorup 2007): a row of weight w has the priority ``w/u`` with
u uniform in (0, 1]. The rows of the highest priorities stay, and ``τ`` is the highest priority that
did not. A row that stayed stands for ``max(w, τ)`` rows, so that sums over the sample are unbiased
estimates of sums over all rows. Nothing is lost before the reservoir is full, as τ is 0.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine import collapsed_sites
from skgp_sparse._engine.collapsed_sites import Cores
from skgp_sparse._engine.feature_posterior import SparsePosterior, noise_variance
from skgp_sparse._engine.passes import Sums
from skgp_sparse._engine.posterior import IndependentPosteriors
from skgp_sparse._ground.linalg import log_normal_density
from skgp_sparse.exceptions import warn
from skgp_sparse.inference.contracts import Conclusion, MinibatchView

_HELD, _HELD_SHARE = 8000, 20  # held-out rows: at most so many, and this part of all
_OF_A_KIND = 0.1  # of a sample, where there are so many
MOST = 1 << 20  # rows that are in memory for batches, where the table is not


class Samples:
    """Draws rows that count; some of them are held out, and never drawn.

    Parameters
    ----------
    rows : Dataset
    kinds : ndarray of shape (n,) or None
        Number of the kind of every row, so that samples have rows of all kinds.
    random_state : RandomState
    hold_out : bool
        Whether any rows are held out.
    """

    def __init__(self, rows, kinds, random_state, hold_out=True):
        self.rows, self.random_state = rows, random_state
        self.held_out = self._choose_held_out() if hold_out else np.empty(0, dtype=np.intp)
        self.edges = self._edges()
        self.kinds = kinds if rows.weight is None else None

    @cached_property
    def held(self):
        """Table of the held-out rows."""
        return replace(self.rows.subset(self.held_out), weight=None)

    def draw(self, size):
        """The table of about so many rows; a row of weight w counts as w rows."""
        if self.edges is not None:
            index, counts = np.unique(self._copies(size), return_counts=True)
            return replace(self.rows.subset(index), weight=counts.astype(float))
        index, weight = self._distinct(size), None
        if self.kinds is not None:
            index, weight = self._with_all_kinds(index)
        return replace(self.rows.subset(index), weight=weight)

    def for_all(self, sample):
        """A copy of a sample, with weights scaled to add up to those of all rows."""
        share = self.rows.total_weight() / sample.total_weight()
        weight = 1.0 if sample.weight is None else sample.weight
        return replace(sample, weight=np.broadcast_to(share * weight, len(sample)))

    def batches(self, size):
        """A function of no argument that draws batches: tables in memory of so many rows."""
        pool = self
        if not self.rows.in_memory:
            pool = Samples(self.draw(MOST), None, self.random_state, hold_out=False)
        return lambda: replace(pool.rows.subset(pool._batch(size)), weight=None)

    def _choose_held_out(self):
        weight = self.rows.weight
        n = len(self.rows) if weight is None else np.count_nonzero(weight)
        size = max(min(_HELD, n // _HELD_SHARE), 1)
        if weight is None:
            return self.rows.sample(size, self.random_state)
        return np.sort(self.random_state.choice(np.flatnonzero(weight), size, replace=False))

    def _edges(self):
        """Cumulated weights of the rows that may be drawn, None where all weights are one."""
        if self.rows.weight is None:
            return None
        weight = self.rows.weight.copy()
        weight[self.held_out] = 0.0
        return np.cumsum(weight, out=weight)

    def _copies(self, size):
        """Rows, drawn as often as their weights say."""
        places = self.random_state.uniform(0.0, self.edges[-1], size)
        return np.searchsorted(self.edges, places, "right")

    def _distinct(self, size):
        """Sorted rows, drawn without replacement."""
        size = min(size, len(self.rows) - len(self.held_out))
        drawn = self.rows.sample(size + len(self.held_out), self.random_state)
        drawn = np.setdiff1d(drawn, self.held_out, assume_unique=True)
        surplus = len(drawn) - size
        if surplus > 0:
            drawn = np.delete(drawn, self.random_state.choice(len(drawn), surplus, replace=False))
        return drawn

    def _batch(self, size):
        """Sorted rows, drawn with replacement."""
        if self.edges is not None:
            return np.sort(self._copies(size))
        drawn = self.random_state.randint(len(self.rows), size=size)
        while np.any(again := np.isin(drawn, self.held_out)):
            drawn[again] = self.random_state.randint(len(self.rows), size=again.sum())
        return np.sort(drawn)

    def _with_all_kinds(self, index):
        """The sample and more rows of rare kinds, whose weights undo that there are more of them.

        The weights are None where no kind is missing.
        """
        total = np.bincount(np.delete(self.kinds, self.held_out), minlength=self.kinds.max() + 1)
        drawn = np.bincount(self.kinds[index], minlength=len(total))
        missing = np.minimum(total, int(_OF_A_KIND * len(index))) - drawn
        if not np.any(missing > 0):
            return index, None
        for kind in np.flatnonzero(missing > 0):
            spare = np.setdiff1d(
                np.flatnonzero(self.kinds == kind), np.append(self.held_out, index)
            )
            more = self.random_state.choice(spare, missing[kind], replace=False)
            index = np.append(index, more)
        index = np.sort(index)
        drawn = np.bincount(self.kinds[index], minlength=len(total))
        share = total / np.maximum(drawn, 1) * (len(index) / total.sum())
        return index, share[self.kinds[index]]


@dataclass(frozen=True, eq=False)
class Reservoir:
    """Rows, how much each of them counted, and what decides who stays."""

    columns: tuple  # of arrays, one entry per row in each
    weight: np.ndarray
    priority: np.ndarray
    threshold: float = 0.0  # highest priority of a row that did not stay
    total: float = 0.0  # weight of all rows that came

    @classmethod
    def empty(cls, columns):
        """A reservoir without rows, for columns like these."""
        nothing = np.empty(0)
        return cls(tuple(column[:0] for column in columns), nothing, nothing)

    def __len__(self):
        return len(self.weight)

    @property
    def is_complete(self):
        """Whether all rows that came are here."""
        return self.threshold == 0.0

    def plus(self, columns, weight, capacity, random_state):
        """The reservoir with more rows, of which at most `capacity` stay."""
        priority = weight / (1.0 - random_state.uniform(size=len(weight)))
        pairs = zip((*self.columns, self.weight, self.priority), (*columns, weight, priority))
        *columns, weight, priority = map(np.concatenate, pairs)
        total, surplus = self.total + weight[len(self) :].sum(), len(weight) - capacity
        if surplus <= 0:
            return Reservoir(tuple(columns), weight, priority, self.threshold, total)
        order = np.argpartition(priority, surplus - 1)
        threshold = max(self.threshold, priority[order[:surplus]].max())
        stay = np.sort(order[surplus:])
        columns = tuple(column[stay] for column in columns)
        return Reservoir(columns, weight[stay], priority[stay], threshold, total)

    def weights(self):
        """How many rows each of these stands for; their sum is the weight of all that came."""
        if self.is_complete:
            return self.weight
        weight = np.maximum(self.weight, self.threshold)
        return weight * (self.total / weight.sum())

    def times(self, factor):
        """Reservoir in which all rows so far count less; it is empty if the factor is 0."""
        if factor == 0:
            return Reservoir.empty(self.columns)
        return replace(
            self,
            weight=factor * self.weight,
            priority=factor * self.priority,
            threshold=factor * self.threshold,
            total=factor * self.total,
        )


_PASSES = 20  # over all rows, for sites
_CONVERGED = 1e-5  # nats per row that a pass gains when it is the last one
_SMALLEST_SHARE = 1e-3  # of a batch in the means, below which there is no posterior


class RunningPosterior(NamedTuple):
    """Running means over rows, and the posterior of the weights that follows from them."""

    means: list  # of `Sums` per row, one for each process
    penalty: np.ndarray  # mean of φ or, of rows with sites, of λ2 r in each process
    cores: Cores
    features: object  # at which the last batch was seen

    def mixed(self, means, penalty, share):
        """Means and penalty after a batch, whose own have a share."""
        kept = 1.0 - share
        means = [a.times(kept) + b.times(share) for a, b in zip(self.means, means)]
        return means, kept * self.penalty + share * penalty

    def process(self, kernel):
        """The posterior process, at the features where the rows were seen last."""
        features = self.features.for_prediction()
        each = tuple(
            SparsePosterior(kernel, features, features.weights(core.v), core.TB)
            for core in self.cores
        )
        return each[0] if len(each) == 1 else IndependentPosteriors(each)


@dataclass(frozen=True)
class GaussianMinibatchView(MinibatchView):
    """Rows with Gaussian noise. Means are per unit of precision: they need not follow the noise.

    Parameters
    ----------
    total : float
        Number of all rows.
    """

    total: float

    def start(self, objective, kernel):
        """Posterior from the rows of an objective, which stand for all rows."""
        problem = objective.problem(kernel)
        batch = collapsed_sites.look(problem, collapsed_sites.with_noise(problem), keep=False)
        return self._posterior(batch, *_per_unit(batch), objective)

    def step(self, objective, kernel, posterior, share, inputs):
        """Gradients by the name of the block, per row, and the next posterior."""
        problem, bound = objective.problem(kernel), objective.bound
        batch = collapsed_sites.look(problem, collapsed_sites.with_noise(problem))
        mixed = posterior.mixed(*_per_unit(batch), share)
        posterior = self._posterior(batch, *mixed, objective)
        slope = bound.reduce(self.total * float(posterior.penalty), self.total)[1]
        gradient = collapsed_sites.gradient(problem, batch, posterior.cores, [bound], slope, inputs)
        return _per_row(gradient, batch), posterior

    def log_densities(self, objective, kernel, posterior):
        """Log densities (n,) of the rows of an objective, of several targets their means."""
        block, mean, variance = _predicted(objective, kernel, posterior)
        variance = (variance + noise_variance(kernel, block.X) + block.noise)[:, None]
        return log_normal_density(block.y, mean, np.sqrt(variance)).mean(axis=1)

    def conclude(self, objective, kernel, posterior):
        """`Conclusion` from all rows of an objective: one pass."""
        return objective.conclude(kernel)

    def _posterior(self, batch, means, penalty, objective):
        n = self.total * batch.sums[0].a / batch.n
        core = collapsed_sites.posterior_of(means[0], n, objective.options.n_jobs)
        return RunningPosterior(means, penalty, Cores([core]), batch.features)


@dataclass(frozen=True)
class SiteMinibatchView(MinibatchView):
    """Rows with a likelihood.

    Parameters
    ----------
    total : float
        Number of all rows.
    """

    total: float

    def start(self, objective, kernel):
        """Posterior from the rows of an objective, which stand for all rows: by its inner loop."""
        loop, solution, _ = objective.infer(kernel)
        cores, v, _ = solution.step.result
        sums = [Sums(core.VaV, core.VaV @ core.v + core.v, 1.0) for core in cores]
        means = [one.times(1.0 / self.total) for one in sums]
        return RunningPosterior(means, 1.0 / v - 1.0, cores, loop.projected.features)

    def step(self, objective, kernel, posterior, share, inputs):
        """Gradients by the name of the block, per row, and the next posterior."""
        problem, k = objective.problem(kernel), len(posterior.cores)
        batch, surrogates = self._look(objective, problem, posterior, keep=True)
        gradient = collapsed_sites.gradient(
            problem, batch, posterior.cores, surrogates, 1.0, inputs
        )
        if len(batch.totals) > 1 + k:
            gradient["likelihood"] = batch.totals[1 + k :]
        return _per_row(gradient, batch), self._moved(posterior, batch, share, objective)

    def log_densities(self, objective, kernel, posterior):
        """Log densities (n,) of the rows of an objective."""
        block, mean, variance = _predicted(objective, kernel, posterior)
        noise = np.reshape(noise_variance(kernel, block.X), (-1, 1))
        latent = mean.T + block.offset, (variance.reshape(len(mean), -1) + noise).T
        if len(posterior.cores) == 1:
            latent = [part[0] for part in latent]
        return objective.method.likelihood.log_density(block.observed, *latent)

    def conclude(self, objective, kernel, posterior):
        """`Conclusion` from all rows of an objective: passes until one gains next to nothing.

        Where a pass loses, half of the step is taken back.
        """
        if objective.method.uses_last_site:
            return objective.conclude(kernel)
        problem = objective.problem(kernel)
        best, value, share = None, -np.inf, 1.0
        for _ in range(_PASSES):
            batch, _ = self._look(objective, problem, posterior, keep=False)
            v = objective.method.share(posterior.penalty)
            trial = objective.method.total(posterior.cores, batch.totals[0], batch.n, v)
            if best is None and not np.isfinite(trial):
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
            posterior = self._moved(*best, share, objective)
        else:
            warn(
                f"The sites of all rows did not converge in {_PASSES} passes (the last one changed "
                f"the bound by {gain / self.total:.1e} nats per row). Lower the upper bound of the "
                "kernel's variance, or use solver='lbfgs'.",
                ConvergenceWarning,
            )
        posterior, batch = best
        process = posterior._replace(features=batch.features).process(kernel)
        return Conclusion(value, process, batch.features.jitter, objective.for_users())

    def _look(self, objective, problem, posterior, keep):
        method = objective.method
        v = method.share(posterior.penalty)
        surrogates = [method.surrogate(one) for one in v]
        has_slopes = len(method.likelihood.theta) > 0

        def update(rows, mean, h):
            sites = method.update(rows, mean, h, None, v)
            if not has_slopes:
                return sites, ()
            return sites, method.slopes(rows, sites.mean, sites.variance, None) @ rows.weight

        view = collapsed_sites.with_sites(problem, posterior.cores, update, surrogates)
        return collapsed_sites.look(problem, view, keep), surrogates

    def _moved(self, posterior, batch, share, objective):
        """The posterior after a natural-gradient step; a shorter one if there is none."""
        means = [sums.times(1.0 / batch.n) for sums in batch.sums]
        penalty, n_jobs = batch.totals[1 : 1 + len(means)] / batch.n, objective.options.n_jobs
        while True:
            mixed, mixed_penalty = posterior.mixed(means, penalty, share)
            try:
                cores = Cores(
                    collapsed_sites.posterior_of(one, self.total, n_jobs) for one in mixed
                )
                return RunningPosterior(mixed, mixed_penalty, cores, batch.features)
            except np.linalg.LinAlgError:  # precisions of some likelihoods may be negative
                share *= 0.5
                if share < _SMALLEST_SHARE:
                    raise


def _predicted(objective, kernel, posterior):
    """The rows of an objective, and the mean and the variance of the process there."""
    block = objective.rows.everything()
    process = posterior.process(kernel)
    return block, *process.mean_and_variance(block.X, objective.options.n_jobs)


def _per_unit(batch):
    """Means per unit of precision, and the mean penalty."""
    return [sums.times(1.0 / sums.a) for sums in batch.sums], batch.totals / batch.n


def _per_row(gradient, batch):
    return {name: part / batch.n for name, part in gradient.items()}

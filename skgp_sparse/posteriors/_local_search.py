"""The search for a model of neighbours: its hyperparameters, metric and smoothness.

1. Hyperparameters maximise the density of rows that are left out, each given its neighbours: from
   the initial hyperparameters, and from those of a small exact fit.
2. Columns may be mixed: a metric has a penalty on its distance from where it begins. Neighbours
   are looked for again between two runs, as near has changed.
3. Where the kernel is the default one, it may be rougher or smoother.
4. One factor of all variances makes the rows held aside most likely.

Each step begins at the model that predicts the rows held aside best so far. A metric of a rank that
the user asks for is kept in any case.
"""

from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from skgp_sparse._engine import left_out
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.visited_rows import known_rows
from skgp_sparse.inference.neighbors_objective import MetricPrior, NeighborsObjective
from skgp_sparse.inference.optimizers import STOPPED, climb
from skgp_sparse.inference.parameters import VectorFunction, arithmetic, if_possible
from skgp_sparse.posteriors._aside import Judgement
from skgp_sparse.posteriors._calibration import variance_factor
from skgp_sparse.posteriors._metric_starts import full, low_rank, prior_of, rank, wants_full
from skgp_sparse.solvers import Fit

FEW, MANY = 100, 200  # neighbours of a prediction, by default
LEAVE_ONE_OUT = "leave-one-out log density"  # what is maximised
FIT = 30  # neighbours of rows that are left out, by default
_ROUGHLY = 50  # neighbours of predictions by which models are compared
_LEFT_OUT, _LEFT_OUT_AT_FIRST = 4000, 2000  # rows that are left out in a run
_ITERATIONS = 15  # of a run
_SMOOTHNESS = (1.5, 0.5, 2.5)  # of a Matérn kernel; the first one to begin with
_FEW_ROWS = 50_000  # of a table whose rows held aside are no neighbours of one another
_CENTRAL = 0.93  # of the rows held aside, at least, are in intervals of 95 %
_LEAST_FACTOR = 1e-6  # of all variances: noise may be next to nothing
_WORTH = 0.01  # nats per row that many neighbours have to gain


class LocalModel(NamedTuple):
    """What predictions from neighbours need beside the rows."""

    kernel: object
    metric: np.ndarray | None = None
    prior: MetricPrior | None = None  # of the metric
    k: int = FEW
    factor: float = 1.0


class Trial(NamedTuple):
    """A model, and how likely it makes the rows held aside."""

    local: LocalModel
    judgement: Judgement

    density = property(lambda self: self.judgement.density)


class LocalSearch:
    """Looks for the best `LocalModel` of a job.

    Parameters
    ----------
    job : Job
    aside : Aside
    k : int or None
        Neighbours of predictions; None: as many as pay.
    k_fit : int
        Neighbours of rows that are left out in training.
    """

    def __init__(self, job, aside, k=None, k_fit=FIT):
        self.job, self.aside, self.k, self.k_fit = job, aside, k, k_fit
        self.known, self.n_iter = known_rows(job.rows, job.settings.options.memory), 0
        few = len(job.rows) <= _FEW_ROWS
        self.others = known_rows(aside.table_of_others(_FEW_ROWS)) if few else None
        self.n_jobs, self.stopped = job.settings.options.n_jobs, False

    def learn(self, starts):
        """The best `Trial`, with the neighbours of a prediction."""
        best = self._first(starts)
        if rank(self.job):
            best = self._mixed(best.local)
        elif wants_full(self.job) and not self.is_over():
            best = max(best, if_possible(self._mixed, best.local) or best, key=density_of)
        if self.job.is_free:
            first = best.local
            for nu in takewhile(lambda _: not self.is_over(), _SMOOTHNESS):
                other = if_possible(self._of_smoothness, first, nu) or best
                best = max(best, other, key=density_of)
        if self.k is not None:
            return self.judged(best.local, self.k)
        for k in (FEW, MANY):
            more = if_possible(self.judged, best.local, k) or best
            best = more if density_of(more) > density_of(best) + _WORTH * (k == MANY) else best
        return best

    def is_over(self):
        """Whether a callback or the deadline has asked to end the search."""
        return self.stopped or self.job.settings.deadline.is_over()

    def climbed(self, local, left_out=_LEFT_OUT):
        """The model after some iterations with neighbours held."""
        if self.is_over():
            return local
        chosen, count = self.aside.others(left_out)
        objective = self.objective(local, chosen, count, learn_metric=True)
        function = VectorFunction(objective, local.kernel, prior=prior_of(self.job))
        most = min(_ITERATIONS, self.job.settings.max_iter)
        options = {"max_iter": most, "callback": self._progress, "alike": True}
        maximum = climb(function, self.job.settings, **options)
        self.n_iter, self.stopped = self.n_iter + maximum.n_iter, maximum.message == STOPPED
        objective, kernel = function.at(maximum.x)
        return local._replace(kernel=kernel, metric=objective.metric)

    def judged(self, local, k=_ROUGHLY):
        """The `Trial` of a model, calibrated by the rows held aside, given k neighbours."""
        aside, local = self.aside, local._replace(k=k, factor=1.0)
        with arithmetic():
            mean, variance = self._moments_of_aside(local)
        errors, known = (aside.block.y - mean) ** 2, aside.noise
        factor = variance_factor(errors, variance, known, aside.count, _CENTRAL, _LEAST_FACTOR)
        judgement = aside.judge(_name(local), mean, factor * variance + known)
        return Trial(local._replace(factor=factor), judgement)

    def conclude(self, local):
        """The `Fit` of a model; its value is that of random rows."""
        objective = self.objective(local, *self.aside.sample(_LEFT_OUT))
        posterior = posterior_of(self.known, local)
        with arithmetic():
            value = objective.value(local.kernel)
        objective = replace(objective, posterior=posterior)
        selection, n_iter = tuple(self.aside.candidates), max(self.n_iter, 1)
        return Fit(local.kernel, objective, posterior, value, n_iter, 0.0, selection)

    def objective(self, local, chosen, count, learn_metric=False):
        """`NeighborsObjective` of some rows, whose neighbours are those of a model."""
        left, rows = self._left(chosen, count, local, self.k_fit), self.job.rows
        given = {"metric": local.metric, "n_jobs": self.n_jobs}
        if learn_metric:
            given["prior"] = local.prior
        return NeighborsObjective(left, rows, rows.total_weight(), **given)

    def _moments_of_aside(self, local):
        """Mean and variance, learned noise included, of the rows held aside.

        Of few rows they are predicted without one another, as other posteriors predict them.
        """
        if self.others is not None:
            return self.aside.predicted(posterior_of(self.others, local), self.n_jobs)
        left = self._left(self.aside.chosen, self.aside.count, local, local.k)
        mean, variance = left_out.moments(local.kernel, left, local.metric, self.n_jobs)
        return mean, np.maximum(variance - left.noise, np.finfo(float).tiny)

    def _left(self, chosen, count, local, k):
        """Rows that are left out, and their neighbours in a model."""
        block = self.job.rows.block(chosen)
        near = posterior_of(self.known, local._replace(k=k + 1))
        places, nearest = near.around(block.X, self.n_jobs)
        return left_out.left_out(places, block, chosen, nearest, count)

    def _first(self, starts):
        """The best `Trial` of a first run from some kernels, unless all of them fail."""
        trials = []
        for kernel in starts:
            try:
                trials.append(self._begun(kernel))
            except np.linalg.LinAlgError as failure:
                error = failure
        if not trials:
            raise error
        return max(trials, key=density_of)

    def _mixed(self, local):
        """The `Trial` of a metric that is learned."""
        return self.judged(self.climbed(self.climbed(self._with_metric(local))))

    def _of_smoothness(self, local, nu):
        """The `Trial` of another smoothness."""
        return self.judged(self.climbed(local._replace(kernel=with_nu(local.kernel, nu))))

    def _begun(self, kernel):
        """The `Trial` of a first run."""
        if self.job.cheap:  # whose noise may be next to nothing
            kernel = self.job.cheap.kernel.clone_with_theta(kernel.theta)
        if self.job.is_free:
            kernel = with_nu(kernel, _SMOOTHNESS[0])
        return self.judged(self.climbed(LocalModel(kernel), _LEFT_OUT_AT_FIRST))

    def _with_metric(self, local):
        """The model whose metric may be learned."""
        if not rank(self.job):
            kernel, prior = full(local.kernel, self.job.rows.n_features)
        else:
            left = self._left(*self.aside.others(_LEFT_OUT_AT_FIRST), local, self.k_fit)
            with arithmetic():
                kernel, prior = low_rank(local.kernel, left, rank(self.job), self.n_jobs)
        return local._replace(kernel=kernel, metric=prior.start, prior=prior)

    def _progress(self, iteration, value):
        """Tell the user's callbacks; returns whether to stop."""
        progress, n = self.job.settings.progress, self.job.rows.total_weight()
        if progress is None:
            return False
        note = f"leave-one-out density {value / n:.4f}"
        return progress(iteration, value, note=note, quantity=LEAVE_ONE_OUT)


def with_other_noise(job, fit, kernel, moves):
    """The `Fit` that goes on from another one with a kernel of other noise, its metric held.

    The kernel is held, too, unless it `moves`.

    Its variances have the factor that makes the rows most likely that are left out.
    """
    objective, n_iter = fit.objective, fit.n_iter
    if moves:
        function = VectorFunction(objective, kernel, prior=prior_of(job))
        most = min(_ITERATIONS, job.settings.max_iter)
        tell = job.settings.progress and partial(job.settings.progress, quantity=LEAVE_ONE_OUT)
        maximum = climb(function, job.settings, max_iter=most, alike=True, callback=tell)
        (objective, kernel), n_iter = function.at(maximum.x), n_iter + maximum.n_iter
    before, left = fit.posterior, objective.left
    posterior = NeighborsPosterior.of(kernel, before.rows, before.k, before.metric)
    with arithmetic():
        n_jobs = job.settings.options.n_jobs
        value = objective.value(kernel)
        mean, variance = left_out.moments(kernel, left, before.metric, n_jobs)
    given = (left.y - mean) ** 2, np.maximum(variance - left.noise, 0.0), left.noise, left.count
    posterior = replace(posterior, factor=variance_factor(*given, _CENTRAL, _LEAST_FACTOR))
    return fit._replace(
        kernel=kernel,
        objective=replace(objective, posterior=posterior),
        posterior=posterior,
        value=value,
        n_iter=n_iter,
    )


def posterior_of(known, local):
    """`NeighborsPosterior` of a model given the known rows."""
    return NeighborsPosterior.of(local.kernel, known, local.k, local.metric, local.factor)


def with_nu(kernel, nu):
    """The kernel with another smoothness of its Matérn kernels."""
    names = [name for name in kernel.get_params() if name.split("__")[-1] == "nu"]
    return clone(kernel).set_params(**dict.fromkeys(names, nu))


def density_of(trial):
    """How likely a `Trial` makes the rows held aside; -inf where its numbers are none."""
    return trial.density if np.isfinite(trial.density) else -np.inf


def _name(local):
    """What a user calls a model."""
    nus = [value for name, value in local.kernel.get_params().items() if name.endswith("nu")]
    smoothness = f"nu={nus[0]}, " if nus else ""
    return f"neighbors ({smoothness}{name_of(local.metric)}{local.k} neighbors)"


def name_of(metric):
    """What a user calls a metric, before a comma; nothing where there is none."""
    if metric is None:
        return ""
    r, d = metric.shape
    return "full metric, " if r == d else f"rank-{r} metric, "

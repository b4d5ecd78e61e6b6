"""The search for a model of neighbours: its hyperparameters, metric and smoothness.

1. Hyperparameters maximise the density of rows that are left out, each given its neighbours: from
   the likeliest of some starts around the initial ones and around those of a small exact fit. This
   density hardly falls where a default variance grows without end, which makes predictions wild
   where no row is near. There a mean takes over; without one, the evidence of the exact fit says
   how large the variance may become.
2. Columns may be mixed: a metric has a penalty on its distance from where it begins, with the
   length scales of unmixed columns or with shorter ones. Neighbours are looked for again between
   two runs, as near has changed.
3. Where the kernel is the default one, it may be smoother or else rougher.
4. The best model so far goes on with more rows, as long as a run gains much.
5. One factor of all variances makes the rows held out most likely.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse.engine import neighbors
from skgp_sparse.engine.neighbors import DistinctRows, LeaveOneOut, NeighborsPosterior
from skgp_sparse.ground.validation import Array, Index, Ints
from skgp_sparse.inference import contracts
from skgp_sparse.inference.contracts import VectorFunction, arithmetic, if_possible
from skgp_sparse.inference.local_site_objective import MetricPrior, NeighborsObjective
from skgp_sparse.inference.optimizers import End, climb
from skgp_sparse.methods.contract import Job, ValidationScore, ValidationSet, variance_factor
from skgp_sparse.solvers import Fit, fit_at

FEW, MANY = 100, 200  # neighbours of a prediction, by default
LEAVE_ONE_OUT = "leave-one-out log density"  # what is maximised
FIT = 30  # neighbours of rows that are left out, by default
_SEARCH = 1.25  # time that is left, in units of that of the search: others follow
_ROUGHLY = 50  # neighbours of predictions by which models are compared
_AT_FIRST, _SMOOTHNESS = 1.5, (2.5, 0.5)  # of a Matérn kernel: to begin with, and afterwards
_SCALES, _QUIETER = (1.0, 0.4), (0.0, 2.0, 4.6)  # of starts: factors, and logarithms of noise
_SEVERAL = 600  # rows held out that say how many neighbours pay
_CENTRAL = 0.93  # of the rows held out, at least, are in intervals of 95 %
_LARGER = 25.0  # a variance than that of starts, at most: rows with neighbours do not tell it
_LEAST_FACTOR = 1e-6  # of all variances: noise may be next to nothing
_WORTH = 0.005  # nats per row that twice as many neighbours have to gain


_STARTS = 500  # rows that tell which start is the likeliest
_FIRST = 1000, 30  # rows that are left out and iterations of a run, from that one
_OF_METRIC = 3000, 15
_BRIEF = 1000, 6  # of a metric that begins with shorter length scales, and of a smoothness
_LAST = 4000, 20  # of the best model
_GAIN = 0.03  # nats per row of a last run, after which another one follows ...
_MOST_RUNS = 5  # ... of so many at most
_OF_NOISE = 6  # iterations with another noise
_CONCLUDED = 4000  # rows that the value of the fit is of


class NearestNeighborModel(NamedTuple):
    """Model of predictions from neighbours: all that they need beside the rows."""

    kernel: Kernel
    metric: np.ndarray | None = None
    prior: MetricPrior | None = None  # of the metric
    k: int = FEW
    factor: float = 1.0
    curvature: object = None  # that the last run found, for `maximise`


class NeighborSearch(ABC):
    """Looks for the best model of predictions from neighbours, by rows held out."""

    def __init__(self, job: Job, validation: ValidationSet | Any, k_fit: int):
        self.job, self.validation, self.k_fit = job, validation, k_fit
        self.n_jobs, self.n_iter, self.stopped = job.settings.options.n_jobs, 0, False

    @abstractmethod
    def first(self, starts: list[Kernel]) -> ValidationScore:
        """The `ValidationScore` to begin with, of the best of some kernels."""

    @abstractmethod
    def refined(self, best: ValidationScore) -> ValidationScore:
        """The best `ValidationScore`, also of other models."""

    def with_neighbors(self, best: ValidationScore) -> tuple[ValidationScore, Index]:
        """The score with as many neighbours as pay, and the places of the rows that it is of."""
        return best, slice(None)

    @abstractmethod
    def conclude(self, local: Any) -> Fit:
        """The `Fit` of a model to all rows of the job."""

    def is_over(self) -> bool:
        """Whether a callback or the deadline has asked to end the search."""
        return self.stopped or self.job.settings.deadline.is_over()


class NearestNeighborSearch(NeighborSearch):
    """Looks for the best `NearestNeighborModel` of rows with Gaussian noise."""

    def __init__(self, job: Job, validation: ValidationSet, k: int | None = None, k_fit: int = FIT):
        super().__init__(job.within(_SEARCH), validation, k_fit)
        self.known, self.k = neighbors.known_rows(job.rows, job.settings.options.memory), k

    def first(self, starts: list[Kernel]) -> ValidationScore:
        """The `ValidationScore` of the best of some kernels after a run."""
        return self._run(self._started(starts), _FIRST)

    def refined(self, best: ValidationScore) -> ValidationScore:
        """The best `ValidationScore` of other metrics and smoothness, after a last run."""
        if wants_full(self.job) and not self.is_over():
            mixed = if_possible(self._mixed, best, otherwise=best)
            best = mixed if mixed.is_better_than(best) else best
        if self.job.is_free:
            first = best
            for nu in _SMOOTHNESS:
                if self.is_over() or best.is_better_than(first):
                    break
                other = if_possible(self._of_smoothness, first.model, nu, otherwise=best)
                best = max(best, other, key=density_of)
        return best if self.is_over() else self._to_the_end(best)

    def _run(self, local: NearestNeighborModel, budget: tuple[int, int]) -> ValidationScore:
        """The `ValidationScore` of a model after some iterations."""
        return self.scored(self.climbed(local, budget))

    def with_neighbors(self, best: ValidationScore) -> tuple[ValidationScore, Index]:
        """The score of few rows held out, with as many neighbours as pay, and their places."""
        if self.k is not None:
            return self.scored(best.model, self.k), slice(None)
        if self.is_over():
            return best, slice(None)
        few, places = self.validation.some(_SEVERAL)
        best = self.scored(best.model, _ROUGHLY, few)
        for k in (FEW, MANY):
            more = None if self.is_over() else if_possible(self.scored, best.model, k, few)
            if more is None or not more.density > best.density + _WORTH:
                break
            best = more
        return best, places

    def climbed(self, local: NearestNeighborModel, budget: tuple[int, int]) -> NearestNeighborModel:
        """The model after some iterations with neighbours held; `budget`: rows and iterations."""
        if self.is_over():
            return local
        (size, most), settings = budget, self.job.settings
        objective = self.objective(local, *self.validation.others(size))
        function = VectorFunction(objective, local.kernel, prior=settings.prior)
        few = settings._replace(max_iter=min(most, settings.max_iter), progress=self._progress)
        maximum = climb(function, few, alike=True, curvature=deepcopy(local.curvature))
        self.n_iter, self.stopped = self.n_iter + maximum.n_iter, maximum.end is End.STOPPED
        objective, kernel = function.at(maximum.x)
        metric, curvature = objective.metric, maximum.curvature
        return local._replace(kernel=kernel, metric=metric, curvature=curvature)

    def scored(
        self, local: NearestNeighborModel, k: int = _ROUGHLY, few: ValidationSet | None = None
    ) -> ValidationScore:
        """The `ValidationScore` of a model, calibrated by the rows held out, given k neighbours."""
        validation = few or self.validation
        local = local._replace(k=k, factor=1.0)
        left = self._left(validation.chosen, validation.count, local, k)
        with arithmetic():
            mean, variance = neighbors.moments(local.kernel, left, local.metric, self.n_jobs)
        variance = np.maximum(variance - left.noise, np.finfo(float).tiny)  # of known noise
        factor = _factor(left, mean, variance)
        nus = [value for name, value in local.kernel.get_params().items() if name.endswith("nu")]
        smoothness = f"nu={nus[0]}, " if nus else ""
        name = f"neighbors ({smoothness}{name_of(local.metric)}{k} neighbors)"
        score = validation.score(name, mean, factor * variance + validation.noise)
        return score._replace(model=local._replace(factor=factor))

    def conclude(self, local: NearestNeighborModel) -> Fit:
        """The `Fit` of a model; its value is that of random rows."""
        objective = self.objective(local, *self.validation.sample(_CONCLUDED))
        objective = replace(objective, posterior=posterior_of(self.known, local))
        found = fit_at(objective, local.kernel, self.n_iter)
        return found._replace(selection=tuple(self.validation.candidates), refit=with_other_noise)

    def objective(self, local: NearestNeighborModel, chosen: Ints, count: Array) -> Any:
        """`NeighborsObjective` of some rows, whose neighbours are those of a model."""
        left, rows = self._left(chosen, count, local, self.k_fit), self.job.rows
        given: dict = {"metric": local.metric, "prior": local.prior, "n_jobs": self.n_jobs}
        return NeighborsObjective(left=left, rows=rows, total=rows.total_weight(), **given)

    def _left(self, chosen: Ints, count: Array, local: NearestNeighborModel, k: int) -> LeaveOneOut:
        """Rows that are left out, and their neighbours in a model."""
        block = self.job.rows.block(chosen)
        nearest = posterior_of(self.known, local).around(block.X, self.n_jobs, k + 1)
        return neighbors.left_out(self.known, block, chosen, nearest, count)

    def _started(self, starts: list[Kernel]) -> NearestNeighborModel:
        """The model at the likeliest of some kernels and noises, unless all of them fail."""
        rows, found, prior = self.validation.others(_STARTS), [], self.job.settings.prior
        starts = [self._of_the_search(kernel) for kernel in starts]
        if self.job.is_free and "mean" not in self.job.steps:
            starts = _bounded(starts)
        for kernel in starts:
            try:
                objective = self.objective(NearestNeighborModel(kernel), *rows)
                for one in _around(kernel, self.job.rows.n_features):
                    value = contracts.value_or_minus_inf(objective, one, prior=prior)
                    found.append((value, one))
            except np.linalg.LinAlgError as failure:
                error = failure
        if not found:
            raise error
        return NearestNeighborModel(max(found, key=lambda pair: pair[0])[1])

    def _of_the_search(self, kernel: Kernel) -> Kernel:
        """The kernel with the bounds and the smoothness with which the search begins."""
        if self.job.thorough:  # whose noise may be next to nothing
            kernel = self.job.thorough.kernel.clone_with_theta(kernel.theta)
        return with_nu(kernel, _AT_FIRST) if self.job.is_free else kernel

    def _mixed(self, best: ValidationScore) -> ValidationScore:
        """The `ValidationScore` of a metric that is learned, from the best one without.

        A column that matters only in a sum with others has a long length scale as long as columns
        are not mixed: the metric begins with shorter ones where a few iterations show that it pays.
        """
        local, initial = best.model, self._of_the_search(self.job.kernel)
        kernel = shortened(local.kernel, initial, self.job.rows.n_features)
        if not (kernel is local.kernel or self.is_over()):
            few, places = self.validation.some(_SEVERAL)
            start = self._with_metric(local._replace(kernel=kernel))
            tried = self.scored(self.climbed(start, _BRIEF), few=few)
            if tried.is_better_than(best.take(places)):
                return self._run(tried.model, _OF_METRIC)
        return self._run(self._with_metric(local), _OF_METRIC)

    def _to_the_end(self, best: ValidationScore) -> ValidationScore:
        """The best `ValidationScore` of last runs, with new neighbours, as long as they gain."""
        for _ in range(_MOST_RUNS):
            last = if_possible(self._run, best.model, _LAST, otherwise=best)
            gain, best = density_of(last) - density_of(best), max(best, last, key=density_of)
            if self.is_over() or not gain > _GAIN:
                break
        return best

    def _of_smoothness(self, local: NearestNeighborModel, nu: float) -> ValidationScore:
        """The `ValidationScore` of another smoothness."""
        return self._run(local._replace(kernel=with_nu(local.kernel, nu)), _BRIEF)

    def _with_metric(self, local: NearestNeighborModel) -> NearestNeighborModel:
        """The model whose metric may be learned."""
        prior = full(local.kernel, self.job.rows.n_features)
        return local._replace(metric=prior.start, prior=prior, curvature=None)

    def _progress(self, iteration: int, value: float) -> bool:
        """Tell the user's callbacks; returns whether to stop."""
        progress, n = self.job.settings.progress, self.job.rows.total_weight()
        note = f"leave-one-out density {value / n:.4f}"
        return progress is not None and progress(iteration, value, note=note)


def with_other_noise(job: Job, fit: Fit, kernel: Kernel) -> Fit:
    """The `Fit` refined from a kernel of other noise, metric held, and its variances calibrated."""
    objective: Any = fit.objective  # a `NeighborsObjective`, whose posterior ...
    before: Any = fit.posterior  # ... is a `NeighborsPosterior`
    left, n_jobs = objective.left, job.settings.options.n_jobs
    function = VectorFunction(objective, kernel, prior=job.settings.prior)
    most = min(_OF_NOISE, job.settings.max_iter)
    tell = job.settings.progress and partial(job.settings.progress, quantity=LEAVE_ONE_OUT)
    maximum = climb(function, job.settings, max_iter=most, alike=True, callback=tell)
    kernel = function.at(maximum.x)[1]
    with arithmetic():
        mean, variance = neighbors.moments(kernel, left, before.metric, n_jobs)
        value = objective.value_of(mean, variance)
    factor = _factor(left, mean, np.maximum(variance - left.noise, 0.0))
    posterior = NeighborsPosterior.of(kernel, before.rows, before.k, before.metric, factor)
    objective, n_iter = replace(objective, posterior=posterior), fit.n_iter + maximum.n_iter
    changed = {"objective": objective, "posterior": posterior, "value": value, "n_iter": n_iter}
    return fit._replace(kernel=kernel, **changed)


def _factor(left: LeaveOneOut, mean: Array, variance: Array) -> float:
    """The `variance_factor` that rows ask for which are left out, from their latent variances."""
    errors = (left.y - mean) ** 2
    return variance_factor(errors, variance, left.noise, left.count, _CENTRAL, _LEAST_FACTOR)


def _around(kernel: Kernel, d: int) -> Iterator[Kernel]:
    """A kernel, and the same at some scales and with less noise."""
    of_length = [place for places, _ in kernels.length_scale_places(kernel, d) for place in places]
    of_noise = [place for places in kernels.positions_of(kernel, "noise_level") for place in places]
    for scale, quieter in product(_SCALES, _QUIETER if of_noise else (0.0,)):
        theta = kernel.theta
        theta[of_length] += np.log(scale)
        theta[of_noise] -= quieter
        yield kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))


def posterior_of(known: DistinctRows, local: NearestNeighborModel) -> NeighborsPosterior:
    """`NeighborsPosterior` of a model given the known rows."""
    return NeighborsPosterior.of(local.kernel, known, local.k, local.metric, local.factor)


def with_nu(kernel: Kernel, nu: float) -> Kernel:
    """The kernel with another smoothness of its Matérn kernels."""
    names = [name for name in kernel.get_params() if name.split("__")[-1] == "nu"]
    return clone(kernel).set_params(**dict.fromkeys(names, nu))


def _bounded(starts: list) -> list:
    """Default kernels, whose variance may become a few times the largest one of them."""
    given = [kernel.get_params() for kernel in starts]
    name = next(key for key in given[0] if key.endswith("constant_value"))
    (low, high), most = given[0][f"{name}_bounds"], max(one[name] for one in given)
    limits = {f"{name}_bounds": (low, min(high, _LARGER * most))}
    return [clone(kernel).set_params(**limits) for kernel in starts]


def density_of(score: ValidationScore) -> float:
    """How likely a model makes the rows held out; -inf where its numbers are none."""
    return score.density if np.isfinite(score.density) else -np.inf


_MOST_ENTRIES = 2000  # of a full metric, unless it is asked for: more would fit noise
_LONGEST = 0.5  # length scale of a start, in units of the initial one
_NATS = 0.01  # per row, of a squared distance of an entry of the metric from its start ...
NATS_WITH_SITES = 0.1  # ... of a full one where rows have a likelihood


def wants_full(job: Job) -> bool:
    """Whether a job asks for a full metric."""
    d, may_mix = job.rows.n_features, job.is_free and not job.model.has_sites
    is_tried = job.metric == "auto" and may_mix and d**2 <= _MOST_ENTRIES
    is_tried = is_tried and kernels.may_mix(job.kernel)
    return d > 1 and (job.metric == "full" or is_tried)


def full(kernel: Kernel, d: int, nats: float = _NATS) -> MetricPrior:
    """The `MetricPrior` of a metric (d, d) that may well rescale columns."""
    scale, unmixed = kernels.length_scales(kernel, np.ones(d)), np.eye(d)
    return MetricPrior(unmixed, scale[:, None] / scale, nats * (1.0 - unmixed))


def shortened(kernel: Kernel, initial: Kernel, d: int) -> Kernel:
    """The kernel whose length scales are at most half of the initial ones, itself if they are."""
    if len(kernel.theta) != len(initial.theta):
        return kernel
    theta, shorter = initial.theta, kernel.theta
    for places, _ in kernels.length_scale_places(kernel, d):
        shorter[places] = np.minimum(shorter[places], theta[places] + np.log(_LONGEST))
    return kernel if np.array_equal(shorter, kernel.theta) else kernel.clone_with_theta(shorter)


def name_of(metric: Array | None) -> str:
    """Name of a metric, for users, and a comma; an empty string where there is none."""
    return "" if metric is None else "full metric, "

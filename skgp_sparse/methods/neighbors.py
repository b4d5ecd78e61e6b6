"""Neighbours: every prediction is given the rows that are nearest to the query.

`Neighbors` is the method. A `NeighborSearch` looks for its hyperparameters and its metric:

1. Hyperparameters maximise the density of rows that are left out, each given its neighbours. A few
   rows of a set of near rows are left out in turn, for which one factorisation is enough.
2. Columns may be mixed: a metric has a penalty on its distance from where it begins. It is kept if
   it predicts rows that are held out better.

`NearestNeighborSearch` is the search for rows with Gaussian noise:

1. It begins at the likeliest of some starts around the initial hyperparameters and around those of
   a small exact fit. The density hardly falls where a default variance grows without end, which
   makes predictions wild where no row is near. There a mean takes over; without one, the evidence
   of the exact fit says how large the variance may become.
2. A metric begins with the length scales of unmixed columns or with shorter ones. Neighbours are
   looked for again between two runs, as near has changed.
3. Where the kernel is the default one, it may be smoother or else rougher.
4. The best model so far goes on with more sets, as long as a run gains much.
5. The process becomes as variable as the exact fit, if rows held out are as likely then.
6. One factor of all variances makes the rows held out most likely.

`SiteSearch` is the search for rows with a likelihood:

1. It begins at the hyperparameters of a small exact fit, or at those of an earlier fit where they
   are better.
2. In turn, sweeps over at most 20,000 rows, fewer if they have many columns, find their sites, and
   some iterations maximise the density, with sites and neighbours held.
3. Sweeps over all rows find the sites that predictions are given. Those of many rows begin where
   the sites of the others predict them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.moments import places_among
from skgp_sparse.engine import neighbors
from skgp_sparse.engine.neighbors import DistinctRows, LeaveOneOut, NeighborsPosterior, SiteRows
from skgp_sparse.engine.posterior import RowTerms, scale_of, scaled_inputs
from skgp_sparse.ground.validation import Array, Index, Ints, Kernel, Rng, check_number, is_auto
from skgp_sparse.inference import contracts
from skgp_sparse.inference.contracts import VectorFunction, arithmetic, if_possible
from skgp_sparse.inference.local_site_objective import (
    LocalSiteObjective,
    MetricPrior,
    NeighborsObjective,
    next_sites,
)
from skgp_sparse.inference.optimizers import End, climb
from skgp_sparse.methods import contract, small_fits
from skgp_sparse.methods.contract import Job, PosteriorMethod, ValidationScore, ValidationSet
from skgp_sparse.solvers import Fit, fit_at

FEW, MANY = 100, 200  # neighbours of a prediction, by default
_FIT = 30  # neighbours of rows that are left out, by default
_LEAVE_ONE_OUT = "leave-one-out log density"  # what is maximised


class Neighbors(PosteriorMethod):
    """The posterior is given, for every query, the training rows that are nearest to it.

    Parameters
    ----------
    n_neighbors : int or "auto", default="auto"
        The number of distinct rows that a prediction is given.
    n_neighbors_fit : int, default=30
        The number of distinct rows that predict a row which is left out in training.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import Neighbors
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(3000, 1))
    >>> y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=3000)
    >>> model = SparseGPRegressor(posterior=Neighbors(n_neighbors=50), random_state=0).fit(X, y)
    >>> model.posterior_, round(model.score(X, y), 2)
    ('neighbors', 0.98)
    """

    name = "neighbors"
    is_exact_for_few = learns_metric = takes_learned_noise = True

    def __init__(self, n_neighbors: int | Literal["auto"] = "auto", n_neighbors_fit: int = _FIT):
        self.n_neighbors = n_neighbors
        self.n_neighbors_fit = n_neighbors_fit

    def fit(self, job: Job, random_state: Rng) -> Fit:
        """The `Fit` given neighbours."""
        solver, has_sites = job.settings.solver, job.objectives.has_sites
        compares = solver.moves and (wants_full(job) or not has_sites)
        is_needed = compares or not has_sites
        validation = ValidationSet(job.rows, random_state, has_sites) if is_needed else None
        begun = small_fits.on_subset(job, random_state) if solver.starts_on_subset else job
        k: Any = None if is_auto(self.n_neighbors) else self.n_neighbors
        search = search_of(job, begun, validation, random_state, k=k, k_fit=self.n_neighbors_fit)
        if validation is None or not compares:
            return search.conclude(search.learned())
        best, _ = search.completed(search.first())
        return search.conclude(best.candidate)._replace(selection=tuple(validation.candidates))

    @property
    def exact_rows(self) -> int:  # type: ignore[override]
        """Neighbours of predictions before it is known how many pay: so many rows are exact."""
        return FEW if isinstance(self.n_neighbors, str) else self.n_neighbors

    def check_parameters(self, name: str) -> None:
        """Raise unless numbers of neighbours are positive."""
        if not is_auto(self.n_neighbors):
            check_number(self.n_neighbors, "posterior__n_neighbors", name, Integral, low=1)
        check_number(self.n_neighbors_fit, "posterior__n_neighbors_fit", name, Integral, low=1)

    def refuses(self, request: contract.Request) -> str | None:
        """Several latent values of a row."""
        if request.n_latent > 1:
            return (
                "needs one latent value per row, and a softmax has one per class. Got "
                "multi_class='softmax', in place of which there is multi_class='one_vs_rest'"
            )
        return None


# -- the search: by rows that are left out, which neighbours predict ------------------------------


@dataclass(eq=False, repr=False)
class NeighborSearch(ABC):
    """Looks for the best model of predictions from neighbours, by rows held out.

    Parameters
    ----------
    job, begun : Job
        The job, and a copy that begins at the hyperparameters of a small exact fit; the job itself
        where there is none.
    validation : ValidationSet or None
        Rows held out, by which models are compared; None where rows have a likelihood
        and no metric is learned.
    random_state : RandomState
        Of what `SiteSearch` draws; the other search draws by `validation`.
    k : int or None
        Neighbours of a prediction; None if it is open.
    k_fit : int
        Neighbours of a row that is left out.
    """

    job: Job
    begun: Job
    validation: ValidationSet | Any
    random_state: Rng
    k: int | None = None
    k_fit: int = _FIT

    doubt = 0.0  # standard errors by which a metric has to be better
    n_iter = 0  # of all runs so far
    stopped = False  # whether a callback has asked to end the search
    n_jobs = property(lambda self: self.job.settings.options.n_jobs)

    @abstractmethod
    def learned(self) -> Any:
        """The model after the first iterations."""

    @abstractmethod
    def scored(self, candidate: Any) -> ValidationScore:
        """The `ValidationScore` of a model."""

    @abstractmethod
    def mixed(self, best: ValidationScore) -> ValidationScore:
        """The `ValidationScore` of a metric that is learned, from the best one without."""

    @abstractmethod
    def conclude(self, candidate: Any) -> Fit:
        """The `Fit` of a model to all rows of the job."""

    def first(self) -> ValidationScore:
        """The `ValidationScore` to begin with."""
        return self.scored(self.learned())

    def completed(self, best: ValidationScore) -> tuple[ValidationScore, Index]:
        """The best `ValidationScore` in the end, and the places of the rows that it is of."""
        best = max(best, if_possible(self.refined, best, otherwise=best), key=density_of)
        if self.k is not None:
            return self.with_neighbors(best)
        return if_possible(self.with_neighbors, best, otherwise=(best, slice(None)))

    def refined(self, best: ValidationScore) -> ValidationScore:
        """The best `ValidationScore`, in a metric or without."""
        if not wants_full(self.job) or self.is_over():
            return best
        mixed = if_possible(self.mixed, best, otherwise=best)
        return mixed if mixed.is_better_than(best, self.doubt) else best

    def with_neighbors(self, best: ValidationScore) -> tuple[ValidationScore, Index]:
        """The score with as many neighbours as pay, and the places of the rows that it is of."""
        return best, slice(None)

    def is_over(self) -> bool:
        """Whether a callback or the deadline has asked to end the search."""
        return self.stopped or self.job.settings.deadline.is_over()


def search_of(
    job: Job,
    begun: Job,
    validation: ValidationSet | Any,
    random_state: Rng,
    k: int | None = None,
    k_fit: int = _FIT,
) -> NeighborSearch:
    """The `NeighborSearch` of the rows of a job, within its part of the time."""
    if job.objectives.has_sites:
        first = begun.within(_SEARCH_OF_SITES)
        return SiteSearch(first, begun, validation, random_state, k or FEW, k_fit)
    first = job.within(_SEARCH)
    return NearestNeighborSearch(first, begun, validation, random_state, k, k_fit)


_SEARCH = 1.25  # time that is left, in units of that of the search: others follow
_ROUGHLY = 40  # neighbours of predictions by which models are compared
_AT_FIRST, _SMOOTHNESS = 1.5, (2.5, 0.5)  # of a Matérn kernel: to begin with, and afterwards
_SCALES, _QUIETER = (1.0, 0.4), (0.0, 2.0, 4.6)  # of starts: factors, and logarithms of noise
_SEVERAL = 600  # rows held out that say how many neighbours pay
_CENTRAL = 0.93  # of the rows held out, at least, are in intervals of 95 %
_LARGER = 25.0  # a variance than that of starts, at most: rows with neighbours do not tell it
_VARIABLE = 0.2  # logarithm of how much more variable an exact fit is, from which that is tried
_LEAST_FACTOR = 1e-6  # of all variances: noise may be next to nothing
_WORTH = 0.005  # nats per row that twice as many neighbours have to gain
_STARTS = 500  # rows that tell which start is the likeliest
_PER_SET = 4  # rows that are left out of a set, one at a time
_FIRST = 500, 30  # sets and iterations of a run, from that one
_OF_METRIC = 1500, 15
_BRIEF = 500, 6  # of a metric by either start, and of a smoothness
_LAST = 2000, 20  # of the best model
_GAIN = 0.03  # nats per row of a last run, after which another one follows ...
_MOST_RUNS = 5  # ... of so many at most
_OF_NOISE, _SETS_OF_NOISE = 6, 1000  # iterations with another noise, and sets
_CONCLUDED = 4000  # rows that the value of the fit is of


class NeighborModel(NamedTuple):
    """Model of predictions from neighbours: all that they need beside the rows."""

    kernel: Kernel
    metric: np.ndarray | None = None
    prior: MetricPrior | None = None  # of the metric
    k: int = FEW
    factor: float = 1.0
    curvature: object = None  # that the last run found, for `maximise`


class NearestNeighborSearch(NeighborSearch):
    """Looks for the best `NeighborModel` of rows with Gaussian noise."""

    doubt = 1.0
    has_evidence = property(lambda self: self.job.is_free and self.begun.is_started)

    @cached_property
    def known(self) -> DistinctRows:
        """Rows that predict."""
        return neighbors.known_rows(self.job.rows, self.job.settings.options.memory)

    def learned(self) -> NeighborModel:
        """The model from the likeliest of some hyperparameters, after a run."""
        if not self.job.settings.solver.moves:
            return NeighborModel(self.job.kernel, k=self.k or FEW)
        return self.climbed(self._started(), _FIRST)

    def refined(self, best: ValidationScore) -> ValidationScore:
        """The best `ValidationScore` of other metrics and smoothness, after last runs."""
        best = first = super().refined(best)
        for nu in _SMOOTHNESS if self.job.is_free else ():
            if self.is_over() or best.is_better_than(first):
                break
            other = if_possible(self._of_smoothness, first.candidate, nu, otherwise=best)
            best = max(best, other, key=density_of)
        if self.is_over():
            return best
        best = self._to_the_end(best)
        return if_possible(self._as_variable, best, otherwise=best)

    def _run(self, candidate: NeighborModel, budget: tuple[int, int]) -> ValidationScore:
        """The `ValidationScore` of a model after some iterations."""
        return self.scored(self.climbed(candidate, budget))

    def with_neighbors(self, best: ValidationScore) -> tuple[ValidationScore, Index]:
        """The score of few rows held out, with as many neighbours as pay, and their places."""
        if self.k is not None:
            return self.scored(best.candidate, self.k), slice(None)
        if self.is_over():
            return best, slice(None)
        few, places = self.validation.some(_SEVERAL)
        best = self.scored(best.candidate, _ROUGHLY, few)
        for k in (FEW, MANY):
            more = None if self.is_over() else if_possible(self.scored, best.candidate, k, few)
            if more is None or not more.density > best.density + _WORTH:
                break
            best = more
        return best, places

    def climbed(self, candidate: NeighborModel, budget: tuple[int, int]) -> NeighborModel:
        """The model after some iterations with neighbours held; `budget`: sets and iterations."""
        if self.is_over():
            return candidate
        (size, most), settings = budget, self.job.settings
        objective = self.objective(candidate, self.validation.others(size), _PER_SET)
        function = VectorFunction(objective, candidate.kernel, prior=settings.prior)
        few = settings._replace(max_iter=min(most, settings.max_iter), progress=self._progress)
        maximum = climb(function, few, alike=True, curvature=deepcopy(candidate.curvature))
        self.n_iter, self.stopped = self.n_iter + maximum.n_iter, maximum.end is End.STOPPED
        objective, kernel = function.at(maximum.x)
        metric, curvature = objective.metric, maximum.curvature
        return candidate._replace(kernel=kernel, metric=metric, curvature=curvature)

    def scored(
        self, candidate: NeighborModel, k: int = _ROUGHLY, few: ValidationSet | None = None
    ) -> ValidationScore:
        """The `ValidationScore` of a model, calibrated by the rows held out, given k neighbours."""
        validation = few or self.validation
        tried = candidate._replace(k=k, factor=1.0)
        sample, posterior = (validation.chosen, validation.count), self._posterior(tried)
        left = posterior.left_out(self.job.rows, sample, k, self.n_jobs)
        with arithmetic():
            mean, variance = neighbors.moments(tried.kernel, left, tried.metric, self.n_jobs)
        variance = np.maximum(variance - left.noise, np.finfo(float).tiny)  # of known noise
        factor = _factor(left, mean, variance)
        smoothness = f"nu={nu}, " if (nu := nu_of(tried.kernel)) else ""
        name = f"neighbors ({smoothness}{name_of(tried.metric)}{k} neighbors)"
        score = validation.score(name, mean, factor * variance + validation.noise)
        return score._replace(candidate=tried._replace(factor=factor))

    def conclude(self, candidate: NeighborModel) -> Fit:
        """The `Fit` of a model; its value is that of random rows."""
        sampled = contract.sampled(self.job.rows, _CONCLUDED, self.validation.random_state)
        objective, kernel = self.objective(candidate, sampled), candidate.kernel
        if self.has_evidence:  # of a variance, which another noise does not change much then
            kernel = small_fits.as_variable(kernel)
        return fit_at(objective, kernel, self.n_iter)._replace(refit=with_other_noise)

    def objective(self, candidate: NeighborModel, sample: neighbors.Sample, size: int = 1) -> Any:
        """`NeighborsObjective` of some rows, or of sets of so many, in the metric of a model."""
        rows, posterior = self.job.rows, self._posterior(candidate)
        left = posterior.left_out(rows, sample, self.k_fit, self.n_jobs, size)
        given: dict = {"metric": candidate.metric, "prior": candidate.prior, "n_jobs": self.n_jobs}
        given |= {"rows": rows, "total": rows.total_weight()}
        return NeighborsObjective(left_out=left, posterior=posterior, **given)

    def _posterior(self, candidate: NeighborModel) -> NeighborsPosterior:
        """`NeighborsPosterior` of a candidate given the known rows."""
        kernel, metric, _, k, factor, _ = candidate
        return NeighborsPosterior.of(kernel, self.known, k, metric, factor)

    def _started(self) -> NeighborModel:
        """The model at the likeliest of some kernels and noises, unless all of them fail."""
        rows, found, prior = self.validation.others(_STARTS), [], self.job.settings.prior
        initial = [self.begun.kernel] if self.begun.is_started else []
        initial = [self._of_the_search(kernel) for kernel in (*initial, self.job.kernel)]
        if self.job.is_free and "mean" not in self.job.steps:
            most = _LARGER * max(map(small_fits.variance_of, initial))
            initial = [small_fits.with_variance(kernel, most=most) for kernel in initial]
        for kernel in initial:
            try:
                objective = self.objective(NeighborModel(kernel), rows)
                for one in _starts_around(kernel, self.job.rows.n_features):
                    found.append((contracts.value_or_minus_inf(objective, one, prior=prior), one))
            except np.linalg.LinAlgError as failure:
                error = failure
        if not found:
            raise error
        return NeighborModel(max(found, key=lambda pair: pair[0])[1])

    def _of_the_search(self, kernel: Kernel) -> Kernel:
        """The kernel with the bounds and the smoothness with which the search begins."""
        if self.job.thorough:  # whose noise may be next to nothing
            kernel = self.job.thorough.kernel.clone_with_theta(kernel.theta)
        return with_nu(kernel, _AT_FIRST) if self.job.is_free else kernel

    def mixed(self, best: ValidationScore) -> ValidationScore:
        """The `ValidationScore` of a metric that is learned, from the best one without.

        A column that matters only in a sum with others has a long length scale as long as columns
        are not mixed: the metric begins with shorter ones if it is better after a few iterations.
        """
        candidate, initial = best.candidate, self._of_the_search(self.job.kernel)
        kernel = shortened(candidate.kernel, initial, self.job.rows.n_features)
        start = self._with_metric(candidate)
        if not (kernel is candidate.kernel or self.is_over()):
            few, shorter = self.validation.some(_SEVERAL)[0], candidate._replace(kernel=kernel)
            starts = self._with_metric(candidate), self._with_metric(shorter)
            tried = (self.climbed(one, _BRIEF) for one in starts)
            start = max((self.scored(one, few=few) for one in tried), key=density_of).candidate
        return self._run(start, _OF_METRIC)

    def _to_the_end(self, best: ValidationScore) -> ValidationScore:
        """The best `ValidationScore` of last runs, with new neighbours, as long as they gain."""
        for _ in range(_MOST_RUNS):
            last = if_possible(self._run, best.candidate, _LAST, otherwise=best)
            gain, best = density_of(last) - density_of(best), max(best, last, key=density_of)
            if self.is_over() or not gain > _GAIN:
                break
        return best

    def _as_variable(self, best: ValidationScore) -> ValidationScore:
        """The score of a process as variable as the exact fit says, unless it is a worse one.

        Rows with neighbours tell little of a variance σ², only of ``σ² / ℓ^2ν``, which is kept.
        """
        if not self.has_evidence:
            return best
        kernel = best.candidate.kernel
        theta, (places, *_) = kernel.theta, kernels.positions_of(kernel, "constant_value")
        more = self.begun.kernel.theta[places] - theta[places]
        if more < _VARIABLE:
            return best
        theta[places] += more
        for places, _ in kernels.length_scale_places(kernel, self.job.rows.n_features):
            theta[places] += more / (2.0 * nu_of(kernel))
        other = kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))
        score = self.scored(best.candidate._replace(kernel=other))
        return score if score.density > best.density - _WORTH else best

    def _of_smoothness(self, candidate: NeighborModel, nu: float) -> ValidationScore:
        """The `ValidationScore` of another smoothness."""
        return self._run(candidate._replace(kernel=with_nu(candidate.kernel, nu)), _BRIEF)

    def _with_metric(self, candidate: NeighborModel) -> NeighborModel:
        """The model whose metric may be learned."""
        prior = full(candidate.kernel, self.job.rows.n_features)
        return candidate._replace(metric=prior.start, prior=prior, curvature=None)

    def _progress(self, iteration: int, value: float) -> bool:
        """Tell the user's callbacks; returns whether to stop."""
        progress, n = self.job.settings.progress, self.job.rows.total_weight()
        note = f"leave-one-out density {value / n:.4f}"
        return progress is not None and progress(iteration, value, note=note)


def with_other_noise(job: Job, fit: Fit, kernel: Kernel) -> Fit:
    """The `Fit` refined from a kernel of other noise, metric held, and its variances calibrated."""
    objective = fit.objective  # a `NeighborsObjective`, whose posterior ...
    before: Any = fit.posterior  # ... is a `NeighborsPosterior`
    left, rows, n_jobs = objective.left_out, job.rows, job.settings.options.n_jobs
    sample = contract.sampled(rows, _SETS_OF_NOISE, Rng(0))
    sets = before.left_out(rows, sample, left.near.shape[1], n_jobs, _PER_SET)
    function = VectorFunction(replace(objective, left_out=sets), kernel, prior=job.settings.prior)
    most = min(_OF_NOISE, job.settings.max_iter)
    tell = job.settings.progress and partial(job.settings.progress, quantity=_LEAVE_ONE_OUT)
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


def _factor(rows: LeaveOneOut, mean: Array, variance: Array) -> float:
    """The `variance_factor` that rows ask for which are left out, from their latent variances."""
    held_out = (rows.y - mean) ** 2, variance, rows.noise, rows.count
    return contract.variance_factor(*held_out, _CENTRAL, _LEAST_FACTOR)


def _starts_around(kernel: Kernel, d: int) -> Iterator[Kernel]:
    """A kernel, and the same at some scales and with less noise."""
    of_length = [place for places, _ in kernels.length_scale_places(kernel, d) for place in places]
    of_noise = [place for places in kernels.positions_of(kernel, "noise_level") for place in places]
    for scale, quieter in product(_SCALES, _QUIETER if of_noise else (0.0,)):
        theta = kernel.theta
        theta[of_length] += np.log(scale)
        theta[of_noise] -= quieter
        yield kernel.clone_with_theta(np.clip(theta, *kernel.bounds.T))


def with_nu(kernel: Kernel, nu: float) -> Kernel:
    """The kernel with another smoothness of its Matérn kernels."""
    names = [name for name in kernel.get_params() if name.split("__")[-1] == "nu"]
    return clone(kernel).set_params(**dict.fromkeys(names, nu))


def nu_of(kernel: Kernel) -> Any:
    """The smoothness of the first Matérn kernel, None where there is none."""
    values = kernel.get_params()
    return next((values[name] for name in values if name.endswith("nu")), None)


def density_of(score: ValidationScore) -> float:
    """How likely a model makes the rows held out; -inf where its numbers are none."""
    return score.density if np.isfinite(score.density) else -np.inf


_MOST_ENTRIES = 2000  # of a full metric, unless it is asked for: more would fit noise
_LONGEST = 0.5  # length scale of a start, in units of the initial one
_NATS = 0.01  # per row, of a squared distance of an entry of the metric from its start ...
NATS_WITH_SITES = 0.1  # ... of a full one where rows have a likelihood


def wants_full(job: Job) -> bool:
    """Whether a job asks for a full metric."""
    d, may_mix = job.rows.n_features, job.is_free and not job.objectives.has_sites
    is_tried = job.metric == "auto" and may_mix and d**2 <= _MOST_ENTRIES
    return d > 1 and (job.metric == "full" or (is_tried and kernels.may_mix(job.kernel)))


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


# -- rows with a likelihood, which have sites ------------------------------------------------------

_RUNS, _LEFT_OUT = 5, 2000  # searches of neighbours, at most, and rows of an evaluation ...
_RUNS_OF_WIDE, _LEFT_OUT_OF_WIDE = 2, 1000  # ... and of more than `_WIDE` columns
_ITERATIONS = 8  # after each search
_TRAINED = 20_000  # rows whose sites training knows, of up to so many columns:
_WIDE = 64  # from there on, distances and evaluations take long
_PER_SECOND, _FEWEST = 2000, 500  # where time is limited: so many per second that is left
_SWEEPS, _NEXT = 6, 4  # sweeps before the first run, and before each of the others
_NEGLIGIBLE_GAIN = 0.002  # nats per row: a run that gains less is the last one
_FINAL, _FINAL_OF_MANY = 30, 1  # sweeps over all rows, where training knew all of them or not
_SEARCH_OF_SITES = 2.0  # time that is left, in units of that of the search
_TOL = 1e-7  # nats per row of which the sites are short then ...
_TOL_OF_MANY = 1e-4  # ... or this


LocalSites = tuple[LocalSiteObjective, Kernel]  # sites of some rows, found at a kernel


class SiteSearch(NeighborSearch):
    """Looks for sites and hyperparameters of rows with a likelihood; its job has begun."""

    k: int

    def learned(self) -> LocalSites:
        """`LocalSites` of rows that are not held out, or of some of them where they are many."""
        rows, most = self.job.rows, most_trained(self.job.rows.n_features)
        if self.validation is not None:
            rows = self.validation.training_rows(most)
        most = int(min(max(_PER_SECOND * self.job.settings.deadline.left(), _FEWEST), most))
        if len(rows) > most:
            rows = rows.sampled(rows.sample(most, self.random_state))
        with arithmetic():
            local = self._start(SiteRows.of(rows)[0])
            return self._climbed(local) if self.job.settings.solver.moves else local

    def conclude(self, candidate: LocalSites) -> Fit:
        """The `Fit` to all rows of the job."""
        (objective, kernel), (everything, distinct) = candidate, SiteRows.of(self.job.rows)
        are_many = everything.n_rows > most_trained(self.job.rows.n_features)
        most, tol = _FINAL, _TOL
        if are_many or self.job.settings.deadline.is_over():
            most, tol = _FINAL_OF_MANY, _TOL_OF_MANY
        is_rough = everything.n_rows > _PER_SECOND * self.begun.settings.deadline.left()
        with arithmetic():
            sites = objective.sites
            if objective.near.n_rows < everything.n_rows:
                sites = self._predicted_sites(objective, kernel, everything, is_rough)
            objective = replace(objective, near=everything, sites=sites, is_rough=is_rough)
            objective = self._around(objective, kernel, most, tol)
            objective = replace(objective, chosen=self._chosen(objective))
            posterior = posterior_of_sites(objective, kernel, distinct.X, self.k)
        return fit_at(replace(objective, posterior=posterior), kernel, self.n_iter)

    def _start(self, near: SiteRows) -> LocalSites:
        """The `LocalSites` to start with."""
        job, rows = self.job, self.job.rows
        likelihood, total = job.objectives.site_method.likelihood, rows.total_weight()
        of_all = {"rows": rows, "total": total, "likelihood": likelihood, "n_jobs": self.n_jobs}
        first = LocalSiteObjective(near=near, sites=np.zeros((2, near.n_rows)), **of_all)
        cold = warm = self._around(first, job.kernel, _SWEEPS)
        if job.before is not None and job.settings.solver.moves:
            warm = self._around(first, job.before[0], _SWEEPS)
        return small_fits.best_start(cold, job.kernel, warm, job)

    def mixed(self, best: ValidationScore) -> ValidationScore:
        """The `ValidationScore` of `LocalSites` in a metric that is learned."""
        (objective, kernel), d = best.candidate, self.job.rows.n_features
        with arithmetic():
            prior = full(kernel, d, NATS_WITH_SITES)
            objective = replace(objective, metric=prior.start, prior=prior)
            local = self._climbed((self._around(objective, kernel, _NEXT), kernel))
        return self.scored(local)

    def scored(self, candidate: LocalSites) -> ValidationScore:
        """The `ValidationScore` of sites and hyperparameters."""
        objective, kernel = candidate
        name = f"neighbors ({name_of(objective.metric)}{self.k} neighbors)"
        process = posterior_of_sites(objective, kernel, objective.near.X, self.k)
        score = self.validation.score_posterior(name, process, self.n_jobs, objective.likelihood)
        return score._replace(candidate=candidate)

    def _climbed(self, candidate: LocalSites) -> LocalSites:
        """The `LocalSites` after some runs, with sites at the kernel of the last one."""
        (objective, kernel), settings = candidate, self.job.settings
        tell = settings.progress and partial(settings.progress, quantity=_LEAVE_ONE_OUT)
        for index in range(_RUNS_OF_WIDE if self.job.rows.n_features > _WIDE else _RUNS):
            if index:
                objective = self._around(objective, kernel, _NEXT)
            objective = replace(objective, chosen=self._chosen(objective))
            function = VectorFunction(objective, kernel, prior=settings.prior)
            first = objective.value(kernel) + settings.prior.log_density(kernel.theta)
            most = min(_ITERATIONS, settings.max_iter - self.n_iter)
            maximum = climb(function, settings, max_iter=most, callback=tell)
            objective, kernel = function.at(maximum.x)
            self.n_iter, self.stopped = self.n_iter + maximum.n_iter, maximum.end is End.STOPPED
            is_little = maximum.value - first < _NEGLIGIBLE_GAIN * objective.size()
            if is_little or self.is_over() or self.n_iter >= settings.max_iter:
                break
        return self._around(objective, kernel, _NEXT), kernel

    def _predicted_sites(
        self, objective: LocalSiteObjective, kernel: Kernel, everything: SiteRows, are_last: bool
    ) -> Array:
        """Sites (2, n) of all rows, predicted from those that are known.

        Where no sweep follows, a row is predicted from those at other places than its own.
        """
        X, known = everything.X, objective.near.X
        near = posterior_of_sites(objective, kernel, known, self.k_fit)
        if are_last:
            near = replace(near, rows=near.rows._replace(index=places_among(known, X)))
            given = ArrayDataset(X, np.zeros((len(X), 1))), np.arange(len(X)), RowTerms()
            mean, variance = near.leave_one_out(*given, self.n_jobs)
        else:
            mean, variance = near.mean_and_variance(X, self.n_jobs)
        variance = variance + kernels.diagonal(kernel, X)[1]
        place, y, offset = everything.place, everything.y[:, 0], everything.offset
        return next_sites(objective.likelihood, y, mean[place, 0], variance[place], offset)

    def _chosen(self, objective: LocalSiteObjective) -> Ints | None:
        """Rows that are left out, twice as many in a metric; None: all of them."""
        n, is_wide = objective.near.n_rows, self.job.rows.n_features > _WIDE
        most = _LEFT_OUT_OF_WIDE if is_wide else _LEFT_OUT
        most *= 1 if objective.metric is None else 2
        return None if n <= most else np.sort(self.random_state.choice(n, most, replace=False))

    def _around(
        self, objective: LocalSiteObjective, kernel: Kernel, most: int, tol: float = _TOL
    ) -> LocalSiteObjective:
        """The objective with the neighbours at a kernel, after sweeps."""
        near, metric = objective.near, objective.metric
        places = scaled_inputs(kernel, metric, scale_of(kernel, metric, near.X.shape[1]), near.X)
        objective = replace(objective, chosen=None)
        if objective.is_rough:
            return replace(objective, near=near._replace(near=None, search=(self.k_fit, places)))
        near = near.with_neighbors(self.k_fit, places, self.n_jobs)
        return replace(objective, near=near).after_sweeps(kernel, most, tol)


def most_trained(n_features: int) -> int:
    """The number of rows of a trial: of wide ones fewer, as distances take O(n² d) time."""
    return int(_TRAINED * min(1.0, np.sqrt(_WIDE / n_features)))


def posterior_of_sites(
    objective: LocalSiteObjective, kernel: Kernel, X: Array, k: int
) -> NeighborsPosterior:
    """`NeighborsPosterior` given k places with their sites; X has the places as they are kept."""
    targets, noise = neighbors.targets_and_noise(*objective.near.at_places(objective.sites))
    places = DistinctRows(X, targets[:, None], noise, np.ones(len(X)), None)
    return NeighborsPosterior.of(kernel, places, k, objective.metric)

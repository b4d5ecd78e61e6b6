"""Neighbours: every prediction is given the rows that are nearest to the query.

`SiteSearch` learns from rows with a likelihood.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.random import RandomState
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine import neighbors
from skgp_sparse.engine.neighbors import DistinctRows, NeighborsPosterior, SiteRows
from skgp_sparse.engine.posterior import scale_of, scaled_inputs
from skgp_sparse.ground.validation import Array, Ints, check_number, is_auto
from skgp_sparse.inference.contracts import VectorFunction, arithmetic, if_possible
from skgp_sparse.inference.local_site_objective import LocalSiteObjective, next_sites
from skgp_sparse.inference.optimizers import End, climb
from skgp_sparse.methods import contract, neighbor_search
from skgp_sparse.methods.contract import Job, PosteriorMethod, ValidationScore, ValidationSet
from skgp_sparse.methods.neighbor_search import NearestNeighborModel, NearestNeighborSearch
from skgp_sparse.solvers import Fit, fit_at

_RUNS, _LEFT_OUT = 5, 2000  # searches of neighbours, at most, and rows of an evaluation ...
_RUNS_OF_WIDE, _LEFT_OUT_OF_WIDE = 2, 1000  # ... and of more than `_WIDE` columns
_ITERATIONS = 8  # after each search
_TRAINED = 20_000  # rows whose sites training knows, of up to so many columns:
_WIDE = 64  # from there on, distances and evaluations take long
_PER_SECOND, _FEWEST = 2000, 500  # where time is limited: so many per second that is left
_FIRST, _NEXT = 6, 4  # sweeps before the first run, and before each of the others
_NEGLIGIBLE_GAIN = 0.002  # nats per row: a run that gains less is the last one
_LAST, _LAST_OF_MANY = 30, 1  # sweeps over all rows, where training knew all of them or not
_SEARCH = 2.0  # time that is left, in units of that of the search: the rest is for all rows
_TOL = 1e-7  # nats per row of which the sites are short then ...
_TOL_OF_MANY = 1e-4  # ... or this


LocalSites = tuple[LocalSiteObjective, Kernel]  # sites of some rows, found at a kernel


class SiteSearch(neighbor_search.NeighborSearch):
    """Looks for sites and hyperparameters of rows with a likelihood; its `Job` has begun.

    1. Hyperparameters are those of a small exact fit, or those of an earlier fit where they are
       better.
    2. In turn, sweeps over at most 20,000 rows, fewer if they have many columns, find their sites,
       and some iterations maximise the density of rows that are left out, with sites and neighbours
       held.
    3. Where columns may be mixed, it does the same in a full metric, which is kept if it predicts
       rows that are held out better.
    4. Sweeps over all rows find the sites that predictions are given. Those of many rows begin
       where the sites of the others predict them.
    """

    def __init__(
        self,
        job: Job,
        random_state: RandomState,
        validation: ValidationSet | None = None,
        k: int = neighbor_search.FEW,
        k_fit: int = neighbor_search.FIT,
    ) -> None:
        super().__init__(job.within(_SEARCH), validation, k_fit)
        self.random_state, self.prior, self.k = random_state, job.settings.prior, k
        self.is_wide = job.rows.n_features > _WIDE

    def learn(self, rows: Dataset) -> LocalSites:
        """`LocalSites` of a table, or of some of its rows where it has many."""
        in_time = max(_PER_SECOND * self.job.settings.deadline.left(), _FEWEST)
        most = int(min(in_time, most_trained(rows.n_features)))
        if len(rows) > most:
            rows = rows.sampled(rows.sample(most, self.random_state))
        with arithmetic():
            local = self._start(SiteRows.of(rows)[0])
            if not self.job.settings.solver.moves:
                return local
            return self._climbed(local)

    def first(self, starts: Sequence[Kernel] = ()) -> ValidationScore:
        """The `ValidationScore` without a learned metric; the job has its start already."""
        most = most_trained(self.job.rows.n_features)
        return self._scored(self.learn(self.validation.training_rows(most)))

    def refined(self, best: ValidationScore) -> ValidationScore:
        """The best `ValidationScore`, in a full metric or without."""
        if not neighbor_search.wants_full(self.job) or self.is_over():
            return best
        mixed = if_possible(lambda: self._scored(self._mixed(best.model)), otherwise=best)
        return max(best, mixed, key=neighbor_search.density_of)

    def conclude(self, local: LocalSites) -> Fit:
        """The `Fit` to all rows of the job."""
        (objective, kernel), (everything, distinct) = local, SiteRows.of(self.job.rows)
        are_many = everything.n_rows > most_trained(self.job.rows.n_features)
        most, tol = _LAST, _TOL
        if are_many or self.job.settings.deadline.is_over():
            most, tol = _LAST_OF_MANY, _TOL_OF_MANY
        with arithmetic():
            sites = objective.sites
            if objective.near.n_rows < everything.n_rows:
                sites = self._predicted_sites(objective, kernel, everything)
            objective = replace(objective, near=everything, sites=sites)
            objective = self._around(objective, kernel, most, tol)
            objective = replace(objective, chosen=self._chosen(objective))
            posterior = posterior_of(objective, kernel, distinct.X, self.k)
        return fit_at(replace(objective, posterior=posterior), kernel, self.n_iter)

    def _start(self, known: SiteRows) -> LocalSites:
        """The `LocalSites` to start with."""
        job, rows = self.job, self.job.rows
        model: Any = job.model
        likelihood, total = model.method.likelihood, rows.total_weight()
        of_all = {"rows": rows, "total": total, "likelihood": likelihood, "n_jobs": self.n_jobs}
        first = LocalSiteObjective(near=known, sites=np.zeros((2, known.n_rows)), **of_all)
        start = self._around(first, job.kernel, _FIRST), job.kernel
        if job.before is None or not job.settings.solver.moves:
            return start
        other = self._around(first, job.before[0], _FIRST), job.before[0]
        return max(start, other, key=lambda one: self._value(*one))

    def _mixed(self, local: LocalSites) -> LocalSites:
        """The `LocalSites` in a metric that is learned."""
        (objective, kernel), d = local, self.job.rows.n_features
        with arithmetic():
            prior = neighbor_search.full(kernel, d, neighbor_search.NATS_WITH_SITES)
            objective = replace(objective, metric=prior.start, prior=prior)
            return self._climbed((self._around(objective, kernel, _NEXT), kernel))

    def _scored(self, local: LocalSites) -> ValidationScore:
        """The `ValidationScore` of sites and hyperparameters."""
        objective, kernel = local
        name = f"neighbors ({neighbor_search.name_of(objective.metric)}{self.k} neighbors)"
        process = posterior_of(objective, kernel, objective.near.X, self.k)
        likelihood = objective.likelihood
        score = self.validation.score_posterior(name, process, self.n_jobs, likelihood)
        return score._replace(model=local)

    def _climbed(self, local: LocalSites) -> LocalSites:
        """The `LocalSites` after some runs, with sites at the kernel of the last one."""
        (objective, kernel), settings = local, self.job.settings
        quantity = neighbor_search.LEAVE_ONE_OUT
        tell = settings.progress and partial(settings.progress, quantity=quantity)
        for index in range(_RUNS_OF_WIDE if self.is_wide else _RUNS):
            if index:
                objective = self._around(objective, kernel, _NEXT)
            objective = replace(objective, chosen=self._chosen(objective))
            function = VectorFunction(objective, kernel, prior=self.prior)
            first = self._value(objective, kernel)
            most = min(_ITERATIONS, settings.max_iter - self.n_iter)
            maximum = climb(function, settings, max_iter=most, callback=tell)
            objective, kernel = function.at(maximum.x)
            self.n_iter, self.stopped = self.n_iter + maximum.n_iter, maximum.end is End.STOPPED
            is_little = maximum.value - first < _NEGLIGIBLE_GAIN * objective.size()
            if is_little or self.is_over() or self.n_iter >= settings.max_iter:
                break
        return self._around(objective, kernel, _NEXT), kernel

    def _value(self, objective: LocalSiteObjective, kernel: Kernel) -> float:
        """The objective and the prior together."""
        return objective.value(kernel) + self.prior.log_density(kernel.theta)

    def _predicted_sites(
        self, objective: LocalSiteObjective, kernel: Kernel, everything: SiteRows
    ) -> Array:
        """Sites (2, n) of all rows, predicted from those that are known."""
        near = posterior_of(objective, kernel, objective.near.X, self.k_fit)
        mean, variance = near.mean_and_variance(everything.X, self.n_jobs)
        variance = variance + kernels.diagonal(kernel, everything.X)[1]
        place, y, offset = everything.place, everything.y[:, 0], everything.offset
        return next_sites(objective.likelihood, y, mean[place, 0], variance[place], offset)

    def _chosen(self, objective: LocalSiteObjective) -> Ints | None:
        """Rows that are left out, twice as many in a metric; None: all of them."""
        n, most = objective.near.n_rows, _LEFT_OUT_OF_WIDE if self.is_wide else _LEFT_OUT
        most *= 1 if objective.metric is None else 2
        return None if n <= most else np.sort(self.random_state.choice(n, most, replace=False))

    def _around(
        self, objective: LocalSiteObjective, kernel: Kernel, most: int, tol: float = _TOL
    ) -> LocalSiteObjective:
        """The objective with the neighbours at a kernel, after sweeps."""
        near, metric = objective.near, objective.metric
        scale = scale_of(kernel, metric, near.X.shape[1])
        places = scaled_inputs(kernel, metric, scale, near.X)
        near = near.with_neighbors(self.k_fit, places, self.n_jobs)
        return replace(objective, near=near, chosen=None).after_sweeps(kernel, most, tol)


def most_trained(n_features: int) -> int:
    """The number of rows of a trial: of wide ones fewer, as distances take O(n² d) time."""
    return int(_TRAINED * min(1.0, np.sqrt(_WIDE / n_features)))


def posterior_of(
    objective: LocalSiteObjective, kernel: Kernel, X: Array, k: int
) -> NeighborsPosterior:
    """`NeighborsPosterior` given k places with their sites; X has the places as they are kept."""
    targets, noise = neighbors.targets_and_noise(*objective.near.at_places(objective.sites))
    places = DistinctRows(X, targets[:, None], noise, np.ones(len(X)), None)
    return NeighborsPosterior.of(kernel, places, k, objective.metric)


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

    def __init__(
        self,
        n_neighbors: int | Literal["auto"] = "auto",
        n_neighbors_fit: int = neighbor_search.FIT,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_neighbors_fit = n_neighbors_fit

    def fit(self, job: Job, random_state: RandomState) -> Fit:
        """The `Fit` given neighbours."""
        if job.model.has_sites:
            return self._fit_with_sites(job, random_state)
        k = None if isinstance(self.n_neighbors, str) else self.n_neighbors
        validation, starts = ValidationSet(job.rows, random_state), [job.kernel]
        search = NearestNeighborSearch(job, validation, k, self.n_neighbors_fit)
        if not job.settings.solver.moves:
            return search.conclude(NearestNeighborModel(job.kernel, k=self.exact_rows))
        if job.settings.solver.starts_on_subset:
            starts.append(contract.start_on_subset(job, random_state).kernel)
        best = search.refined(search.first(starts))
        return search.conclude(search.with_neighbors(best)[0].model)

    def _fit_with_sites(self, job: Job, random_state: RandomState) -> Fit:
        """The `Fit` to rows with a likelihood."""
        if job.settings.solver.starts_on_subset:
            job = contract.start_on_subset(job, random_state)
        search = SiteSearch(job, random_state, None, self.exact_rows, self.n_neighbors_fit)
        if not (neighbor_search.wants_full(job) and job.settings.solver.moves):
            return search.conclude(search.learn(job.rows))
        search.validation = ValidationSet(job.rows, random_state, has_sites=True)
        fit = search.conclude(search.refined(search.first()).model)
        return fit._replace(selection=tuple(search.validation.candidates))

    @property
    def exact_rows(self) -> int:  # type: ignore[override]
        """Neighbours of predictions before it is known how many pay: so many rows are exact."""
        return neighbor_search.FEW if isinstance(self.n_neighbors, str) else self.n_neighbors

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

"""The model selection of "auto": which posterior predicts rows best that were held or left out.

The rival of neighbours is the exact process up to some thousand rows, inducing points above and
wherever rows have a likelihood, whose log predictive density decides. Everybody begins with the
same hyperparameters of few rows, and the winner goes on from its trial. Who is far behind after the
first trial leaves, so that no one looks for a better metric in vain. The exact process needs no fit
of its own: its trial is one factorisation, whose leave-one-out densities are those of the rows held
out, and it is the fit. It loses ties, as its predictions cost more; inducing points win them, as
they gain by the iterations that follow. No rule asks how long something took.

Of several binary problems some select for all: a few rows of one problem tell little.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse.data.dataset import Dataset
from skgp_sparse.exceptions import collected
from skgp_sparse.inference.contracts import arithmetic, if_possible
from skgp_sparse.methods import contract, neighbor_search
from skgp_sparse.methods.contract import Job, PosteriorMethod, ValidationScore, ValidationSet
from skgp_sparse.methods.exact import Exact
from skgp_sparse.methods.inducing_points import InducingPoints, with_enough_points
from skgp_sparse.methods.neighbor_search import NearestNeighborModel, NearestNeighborSearch
from skgp_sparse.methods.neighbors import Neighbors, SiteSearch, most_trained
from skgp_sparse.solvers import Fit, fit_at

_SHARES_OF_TIME = 3  # of the time that is left, one of which is for the hyperparameters of few rows
_OF_RIVAL = 0.75  # time of the rival's first trial and of what follows, in units of that before
_BEHIND = 3.5  # standard errors, by which who is behind after the first trial leaves
_ITERATIONS = 10  # of the second trial of inducing points
_SOME_ROWS, _ON_SOME, _ON_ALL, _WITH_SITES = 3000, 40, 15, 5  # rows, iterations: inducing points
_MOST_PROBLEMS = 3  # that select for all


class PosteriorSelection(PosteriorMethod):
    """The posterior of neighbours or that of a rival, which a plan names: the one that wins."""

    uses_bound = takes_learned_noise = is_exact_for_few = True
    learns_metric = property(lambda self: self.rival is not None)

    def __init__(self, rival: PosteriorMethod | None = None):
        self.rival = rival

    def fit(self, job: Job, random_state: RandomState) -> Fit:
        """The `Fit` of the posterior that wins; its selection is a `Candidate` for each trial."""
        trials = Trials(job, random_state)
        return trials.fit(trials.rival.wins(trials.of_rival, trials.of_neighbors))

    def refuses_later_rows(self) -> None:
        """None: rows that arrive later are learned with inducing points."""
        return None


def agree(jobs: list[Job], random_states: list[RandomState], run: Callable) -> tuple:
    """The jobs, with the method that wins in some of them for all, and candidates by number."""
    are_open = [isinstance(job.posterior_method, PosteriorSelection) for job in jobs]
    numbers, most = np.flatnonzero(are_open), min(_MOST_PROBLEMS, sum(are_open))
    if most < 2:
        return jobs, {}

    def trials_of(k: int) -> Trials:
        with collected():  # the fits that follow warn
            return Trials(jobs[k].within(2), deepcopy(random_states[k]))

    some = [int(numbers[round(k * (len(numbers) - 1) / (most - 1))]) for k in range(most)]
    trials = list(run(trials_of, some))
    neighbors = ValidationScore.joined(one.of_neighbors for one in trials)
    rivals = ValidationScore.joined(one.of_rival for one in trials)
    method = InducingPoints() if trials[0].rival.wins(rivals, neighbors) else Neighbors()
    decided = [
        job._replace(posterior_method=method) if is_open else job
        for job, is_open in zip(jobs, are_open)
    ]
    return decided, {k: tuple(one.validation.candidates) for k, one in zip(some, trials)}


class Trials:
    """Trials of neighbours and their rival, who predict rows of a `Job` that are held out."""

    search: SiteSearch | NearestNeighborSearch

    def __init__(self, job: Job, random_state: RandomState):
        first, deadline = job.within(_SHARES_OF_TIME), job.settings.deadline
        is_exact = isinstance(job.posterior_method.rival, Exact)
        if is_exact:
            begun, _ = contract.started_on_subsets(first, random_state)
        else:
            begun = contract.start_on_subset(first, random_state)
            begun = with_enough_points(begun, random_state)
        begun = begun.with_settings(deadline=deadline)
        self.validation = validation = ValidationSet(job.rows, random_state, job.model.has_sites)
        self.rival = (ExactRival if is_exact else RivalOfPoints)(begun, validation, random_state)
        if job.model.has_sites:
            self.search = SiteSearch(begun, random_state, validation)
        else:
            self.search = NearestNeighborSearch(job, validation)
        starts = [begun.kernel, job.kernel]
        failed = ValidationScore(np.full(len(validation.count), -np.inf), validation.count)
        self.best = if_possible(self.search.first, starts)
        self.of_neighbors = self.best or failed
        has_time = deadline.allows(_OF_RIVAL) or not self.best
        tried = if_possible(self.rival.first) if has_time else None
        self.of_rival = tried or failed
        if self.best and not self.of_rival.is_better_than(self.of_neighbors, _BEHIND):
            self._go_on()

    def _go_on(self) -> None:
        """Hold the trials after the first ones."""
        refined = if_possible(self.search.refined, self.best, otherwise=self.best)
        self.best = max(self.best, refined, key=neighbor_search.density_of)
        if not (self.search.is_over() or self.best.is_better_than(self.of_rival, _BEHIND)):
            again = if_possible(self.rival.again, self.best.model) or self.of_rival
            self.of_rival = max(again, self.of_rival, key=neighbor_search.density_of)
        found = if_possible(self.search.with_neighbors, self.best)
        if found is not None:
            self.best, rows = found
            self.of_rival = self.of_rival.take(rows)
        self.of_neighbors = self.best

    def fit(self, rival_wins: bool) -> Fit:
        """The `Fit` of the winner; that of the other one if it cannot be computed."""
        tried = if_possible(self.rival.fit) if rival_wins and self.best else None
        fit = tried or (self.search.conclude(self.best.model) if self.best else self.rival.fit())
        return fit._replace(selection=tuple(self.validation.candidates))


class ExactRival:
    """The exact process of all rows, hyperparameters held that were learned from fewer rows."""

    def __init__(self, job: Job, validation: ValidationSet, random_state: RandomState):
        self.job, self.validation, self.random_state = job, validation, random_state
        self.best: ValidationScore | Any = None  # of a `Fit`

    def first(self) -> ValidationScore:
        """The `ValidationScore` of the process."""
        return self._tried(self.job.kernel, "exact")

    def again(self, local: NearestNeighborModel) -> ValidationScore:
        """The best `ValidationScore`, also with the hyperparameters of neighbours."""
        if local.metric is None:
            if_possible(self._tried, local.kernel, "exact (hyperparameters of neighbors)")
        return self.best

    @staticmethod
    def wins(score: ValidationScore, neighbors: ValidationScore) -> bool:
        """Whether it leads: it loses ties."""
        return score.is_better_than(neighbors)

    def fit(self) -> Fit:
        """The `Fit` of the best trial."""
        if self.best is None:
            self._tried(self.job.kernel, "exact")
        return self.best.model

    def _tried(self, kernel: Kernel, name: str) -> ValidationScore:
        job, validation = self.job, self.validation
        objective = job.model.exact(job.rows, job.settings.options)
        fit = fit_at(objective, kernel, 0)
        with arithmetic():
            given = job.rows, validation.chosen, fit.terms
            mean, variance = fit.posterior.leave_one_out(*given)
        variance = variance + fit.posterior.noise_variance(validation.block.X)
        score = validation.score(name, mean, variance + validation.noise)
        if self.best is None or score.density > self.best.density:
            self.best = score._replace(model=fit)
        return score


class RivalOfPoints:
    """Inducing points, before they are optimised and after some iterations."""

    objective: Any = None  # a `SparseFit`, once there is one

    def __init__(self, job: Job, validation: ValidationSet, random_state: RandomState):
        self.job, self.validation, self.random_state = job, validation, random_state
        self.points = InducingPoints()

    def first(self) -> ValidationScore:
        """The `ValidationScore` where the initialiser puts the points."""
        rows = self.validation.training_rows(most_trained(self.job.rows.n_features))
        self.objective = self.points.objective(self.job._replace(rows=rows), self.random_state)
        return self._scored("at the start")

    def again(self, local: NearestNeighborModel) -> ValidationScore:
        """The `ValidationScore` after some iterations."""
        self._go_on(self.objective.rows, _ITERATIONS)
        return self._scored(f"{_ITERATIONS} iterations")

    @staticmethod
    def wins(score: ValidationScore, neighbors: ValidationScore) -> bool:
        """Whether neighbours do not lead: it wins ties, as it goes on to gain."""
        return not neighbors.is_better_than(score)

    def fit(self) -> Fit:
        """The `Fit` to all rows, after most of the iterations on some of them."""
        objective = self.objective or self.points.objective(self.job, self.random_state)
        self.objective, job = objective.on(self.job.rows), self.job
        if len(job.rows) > _SOME_ROWS:
            self._go_on(job.rows, _ON_SOME)
            most = min(_WITH_SITES if job.model.has_sites else _ON_ALL, job.settings.max_iter)
            job = self.job.with_settings(max_iter=most)
        with collected():  # it need not converge
            return self.points.go_on(job, self.objective, self.random_state)

    def _go_on(self, rows: Dataset, most: int) -> None:
        """Move points and hyperparameters by iterations on some of the rows."""
        some = rows.sampled(np.sort(rows.sample(_SOME_ROWS, self.random_state)))
        job = self.job._replace(rows=some)
        few = job.with_settings(max_iter=min(most, job.settings.max_iter))
        with collected():  # it need not converge
            fit: Any = self.points.go_on(few, self.objective.on(some), self.random_state)
        self.job = self.job._replace(kernel=fit.kernel)
        self.objective = self.objective.at(basis=fit.objective.basis.parameters)

    def _scored(self, name: str) -> ValidationScore:
        fit = fit_at(self.objective, self.job.kernel, 0)
        given = fit.posterior, self.job.settings.options.n_jobs, fit.likelihood
        return self.validation.score_posterior(f"inducing ({name})", *given)

"""The model selection of "auto": which posterior predicts rows best that were held or left out.

The rival of neighbours is the exact process up to some thousand rows, inducing points above and
wherever rows have a likelihood, whose log predictive density decides. All begin with the same
hyperparameters of few rows, and the winner goes on from its trial. A candidate that is far behind
after its first trial is dropped before a metric is learned. The exact process needs no fit
of its own: its trial is one factorisation, whose leave-one-out densities are those of the rows held
out, and it is the fit. It loses ties, as its predictions cost more; inducing points win them, as
they gain by the iterations that follow. But for `time_limit`, no rule asks how long something took.

Of several binary problems some select for all: a few rows of one problem tell little.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine.posterior import RowTerms, noise_in_blocks
from skgp_sparse.exceptions import collected
from skgp_sparse.ground.validation import Index, Rng
from skgp_sparse.inference.contracts import arithmetic, if_possible
from skgp_sparse.methods import contract, small_fits
from skgp_sparse.methods.combination import ALONE, Combination
from skgp_sparse.methods.contract import Job, PosteriorMethod, ValidationScore, ValidationSet
from skgp_sparse.methods.inducing_points import InducingPoints, with_enough_points
from skgp_sparse.methods.neighbors import Neighbors, density_of, most_trained, search_of
from skgp_sparse.solvers import Fit, fit_at

_SHARES_OF_TIME = 3  # of the time that is left, one of which is for the start on few rows
_OF_RIVAL = 0.75  # time of the rival's first trial and of what follows, in units of that before
_BEHIND = 3.5  # standard errors, by which who is behind after the first trial leaves
_FEW_POINTS, _ITERATIONS, _FEW_ROWS = 100, 8, 1000  # of the global process
_ITERATIONS_OF_SITES = 10  # of the second trial of inducing points with sites
_SOME_ROWS, _ON_SOME, _ON_ALL, _WITH_SITES = 3000, 40, 15, 5  # rows, iterations: inducing points
_MOST_PROBLEMS = 3  # that select for all


class PosteriorSelection(PosteriorMethod):
    """The posterior of neighbours or that of a rival, which a plan names: the one that wins."""

    uses_bound = takes_learned_noise = is_exact_for_few = True
    learns_metric = property(lambda self: self.rival is not None)

    def __init__(self, rival: "type[ExactRival] | type[RivalOfPoints] | None" = None) -> None:
        self.rival = rival

    def fit(self, job: Job, random_state: Rng) -> Fit:
        """The `Fit` of the posterior that wins; its selection is a `Candidate` for each trial."""
        return Trials(job, random_state).run().fit()

    def refuses_later_rows(self) -> None:
        """None: rows that arrive later are learned with inducing points."""
        return None


def agree(jobs: list[Job], random_states: list[Rng], run: Callable) -> tuple:
    """The jobs, with the method that wins in some of them for all, and candidates by number."""
    methods = enumerate(job.posterior_method for job in jobs)
    numbers = [k for k, method in methods if isinstance(method, PosteriorSelection)]
    most = min(_MOST_PROBLEMS, len(numbers))
    if most < 2:
        return jobs, {}

    def trials_of(k: int) -> Trials:
        with collected():  # the fits that follow warn
            return Trials(jobs[k].within(2), deepcopy(random_states[k])).run()

    some = [numbers[round(k * (len(numbers) - 1) / (most - 1))] for k in range(most)]
    trials = list(run(trials_of, some))
    neighbors = ValidationScore.joined(one.of_neighbors for one in trials)
    rivals = ValidationScore.joined(one.of_rival.take(one.places) for one in trials)
    method = InducingPoints() if trials[0].rival.wins(rivals, neighbors) else Neighbors()
    decided = {k: jobs[k]._replace(posterior_method=method) for k in numbers}
    jobs = [decided.get(k, job) for k, job in enumerate(jobs)]
    return jobs, {k: tuple(one.validation.candidates) for k, one in zip(some, trials)}


class Trials:
    """Trials of neighbours and their rival, who predict rows of a `Job` that are held out."""

    places: Index = slice(None)  # of the rows held out that the score of neighbours is of
    is_close = False  # whether neither is far behind after its first trial

    def __init__(self, job: Job, random_state: Rng) -> None:
        self.job, self.random_state, self.deadline = job, random_state, job.settings.deadline

    def run(self) -> "Trials":
        """Hold the trials; who is far behind after the first one gets no other."""
        job, random_state, rival = self.job, self.random_state, self.job.posterior_method.rival
        started = rival.started(job.within(_SHARES_OF_TIME), random_state)
        started = started.with_settings(deadline=self.deadline)
        validation = ValidationSet(job.rows, random_state, job.objectives.has_sites)
        self.rival, self.validation = rival(started, validation, random_state), validation
        self.search = search = search_of(job, started, validation, random_state)
        failed = ValidationScore(np.full(len(validation.count), -np.inf), validation.count)
        first = if_possible(search.first, otherwise=failed)
        is_tried = self.deadline.allows(_OF_RIVAL) or first is failed
        self.of_rival = if_possible(self.rival.first, otherwise=failed) if is_tried else failed
        self.of_neighbors, self.is_found = first, first is not failed
        self.is_close = not self.of_rival.is_better_than(first, _BEHIND)
        if self.is_found and self.is_close:
            self.of_neighbors, self.places = search.completed(first)
            of_rival = self.of_rival.take(self.places)
            if not (search.is_over() or self.of_neighbors.is_better_than(of_rival, _BEHIND)):
                again = if_possible(self.rival.again, otherwise=self.of_rival)
                self.of_rival = max(again, self.of_rival, key=density_of)
        return self

    def fit(self) -> Fit:
        """The `Fit` of the winner; that of another one if it cannot be computed."""
        rival, fit = self.rival, None
        rival_wins = rival.wins(self.of_rival.take(self.places), self.of_neighbors)
        if self.is_found:
            fit = self.search.conclude(self.of_neighbors.candidate)
            solver, objectives = self.search.job.settings.solver, self.search.job.objectives
            may = self.is_close and solver.moves and not objectives.has_sites
            found = if_possible(self._combined, fit) if may and not self.search.is_over() else None
            if found is not None:
                both, score = found
                rival_wins = both.share < ALONE or self.of_rival.is_better_than(score)
                fit = fit._replace(combination=both._replace(weights=None))  # for a step
        tried = if_possible(rival.fit) if rival_wins and self.is_found else None
        fit = tried or fit or rival.fit()
        return fit._replace(selection=tuple(self.validation.candidates))

    def _combined(self, fit: Fit) -> tuple[Combination, ValidationScore]:
        """Neighbours beside a global process, and their score."""
        rows, n_jobs = self.validation, self.search.n_jobs
        near = contract.with_fewer_neighbors(fit.posterior)
        both = Combination.of(self.rival.global_process(), rows, n_jobs)
        with arithmetic():
            moments = near.leave_one_out(rows.rows, rows.chosen, RowTerms(), n_jobs)
        first = (*moments, noise_in_blocks(near, rows.block.X))
        both = both.learned(both.local(near, first))[0]
        return both, both.score(first)


class Rival:
    """A posterior that is tried beside neighbours: `started`, `first`, `again`, and its `fit`."""

    best: ValidationScore | Any = None  # of a `Fit`

    def __init__(self, job: Job, validation: ValidationSet, random_state: Rng) -> None:
        self.job, self.validation, self.random_state = job, validation, random_state

    def wins(self, score: ValidationScore, neighbors: ValidationScore) -> bool:
        """Whether it is selected."""
        return score.is_better_than(neighbors)

    def again(self) -> ValidationScore | Any:
        """The `ValidationScore` of a longer trial, where there is one."""
        return self.best

    def global_process(self) -> Fit:
        """The `Fit` of a few inducing points to all rows, which may be beside neighbours."""
        return RivalOfPoints(self.job, self.validation, self.random_state).global_process()


class ExactRival(Rival):
    """The exact process of all rows, hyperparameters held that were learned from fewer rows."""

    @staticmethod
    def started(job: Job, random_state: Rng) -> Job:
        """The `Job` with the hyperparameters of exact fits to random subsets."""
        return small_fits.on_subsets(job, random_state)[0]

    def first(self) -> ValidationScore:
        """The `ValidationScore` of the process."""
        job, validation = self.job, self.validation
        fit = fit_at(job.objectives.exact(job.rows, job.settings.options), job.kernel, 0)
        with arithmetic():
            mean, variance = fit.posterior.leave_one_out(job.rows, validation.chosen, RowTerms())
        variance = variance + fit.posterior.noise_variance(validation.block.X) + validation.noise
        self.best = validation.score("exact", mean, variance)._replace(candidate=fit)
        return self.best

    def fit(self) -> Fit:
        """The `Fit` of the trial."""
        return (self.best or self.first()).candidate


class RivalOfPoints(Rival):
    """Inducing points: few of them after some iterations; with sites, before they are optimised."""

    points = InducingPoints()
    objective: Any = None  # a `SparseFit`, once there is one

    def wins(self, score: ValidationScore, neighbors: ValidationScore) -> bool:
        """Whether it is selected: ties are won, as points go on to gain."""
        return not neighbors.is_better_than(score)

    @staticmethod
    def started(job: Job, random_state: Rng) -> Job:
        """The `Job` with the hyperparameters of a small exact fit, and enough points."""
        return with_enough_points(small_fits.on_subset(job, random_state), random_state)

    def first(self) -> ValidationScore:
        """The `ValidationScore` of few points, or where the initialiser puts them."""
        job, has_sites = self.job, self.job.objectives.has_sites
        rows = self.validation.training_rows(most_trained(job.rows.n_features))
        some = job.points if has_sites else job.points.of_size(min(_FEW_POINTS, job.points.size))
        if job.is_free and job.is_started and not has_sites:  # few points see more noise
            job = self.job = job._replace(kernel=small_fits.as_variable(job.kernel))
        few = job._replace(rows=rows, points=some)
        self.objective = self.points.objective(few, self.random_state)
        if not has_sites:
            self._go_on(rows, _ITERATIONS, _FEW_ROWS)
        return self._scored("at the start" if has_sites else f"{_ITERATIONS} iterations")

    def again(self) -> ValidationScore:
        """The `ValidationScore` of points with sites after some iterations."""
        if self.job.objectives.has_sites:
            self._go_on(self.objective.rows, _ITERATIONS_OF_SITES)
            self._scored(f"{_ITERATIONS_OF_SITES} iterations")
        return self.best

    def global_process(self) -> Fit:
        """The `Fit` of few points to all rows."""
        if self.objective is None:
            self.first()
        return fit_at(self.objective.on(self.job.rows), self.job.kernel, 0)

    def fit(self) -> Fit:
        """The `Fit` to all rows, after most of the iterations on some of them."""
        job, has_sites = self.job, self.job.objectives.has_sites
        is_open = self.objective is None or not has_sites
        objective = self.points.objective(job, self.random_state) if is_open else self.objective
        self.objective = objective.on(job.rows)
        if len(job.rows) > _SOME_ROWS:
            self._go_on(job.rows, _ON_SOME)
            most = min(_WITH_SITES if job.objectives.has_sites else _ON_ALL, job.settings.max_iter)
            job = self.job.with_settings(max_iter=most)
        with collected():  # it need not converge
            return self.points.go_on(job, self.objective, self.random_state)

    def _go_on(self, rows: Dataset, most: int, size: int = _SOME_ROWS) -> None:
        """Move points and hyperparameters by iterations on some of the rows."""
        some = rows.sampled(np.sort(rows.sample(size, self.random_state)))
        job = self.job._replace(rows=some)
        few = job.with_settings(max_iter=min(most, job.settings.max_iter))
        with collected():  # it need not converge
            fit = self.points.go_on(few, self.objective.on(some), self.random_state)
        self.job = self.job._replace(kernel=fit.kernel)
        self.objective = self.objective.at(basis=fit.objective.basis.parameters)

    def _scored(self, name: str) -> ValidationScore:
        objective, n_jobs = self.objective, self.job.settings.options.n_jobs
        name, process = f"inducing ({name})", fit_at(objective, self.job.kernel, 0).posterior
        self.best = self.validation.score_posterior(name, process, n_jobs, objective.likelihood)
        return self.best

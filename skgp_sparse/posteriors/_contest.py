"""The contest of "auto": which posterior predicts rows that were held aside best.

The same with Gaussian noise and with a likelihood, whose log predictive density judges. Neighbours
cost least and come first. Inducing points go on as long as they may still win: with the
hyperparameters of a small exact fit, where the initialiser puts Z, and after a few iterations. A
near tie is theirs, as they gain by the iterations that follow: neighbours have to lead by a
standard error. The rows held aside join the one that wins, which with inducing points is a fit of
all rows. No rule asks how long something took.

Of several binary problems some hold one contest for all: a few rows of one problem tell little.
"""

from copy import deepcopy

import numpy as np

from skgp_sparse._ground.warnings import collected
from skgp_sparse.inference.parameters import if_possible
from skgp_sparse.posteriors._aside import Aside, Judgement
from skgp_sparse.posteriors._inducing_points import InducingPoints
from skgp_sparse.posteriors._job import begin
from skgp_sparse.posteriors._local_search import FEW, FIT, LocalSearch
from skgp_sparse.posteriors._neighbors import Neighbors
from skgp_sparse.posteriors._neighbors_with_sites import SiteSearch
from skgp_sparse.solvers import KeepParameters

_BEHIND = 0.5  # nats per row that inducing points may make up for ...
_ITERATIONS = 10  # ... in so many iterations
_MOST_ROWS = 50_000  # of the trials of inducing points
_MOST_PROBLEMS = 3  # that hold a contest for all


def contest(job, random_state):
    """The `Fit` of the posterior that wins; its selection is a `Candidate` for each trial."""
    trials = Trials(job, random_state)
    if neighbors_lead([trials]):
        fit = trials.fit_of_neighbors()
    elif trials.local is None:
        fit = trials.fit_of_points()
    else:
        fit = if_possible(trials.fit_of_points) or trials.fit_of_neighbors()
    return fit._replace(selection=trials.candidates)


def agreed(jobs, random_states, run):
    """The strategy of several jobs that wins in some of them together, and their candidates.

    Parameters
    ----------
    jobs : list of Job
    random_states : list of RandomState
        Which stay as they are.
    run : callable
        Calls a function of all items of a list.

    Returns
    -------
    strategy : Strategy
    candidates : dict
        By the number of the job.
    """
    last, most = len(jobs) - 1, min(_MOST_PROBLEMS, len(jobs))
    some = [round(k * last / (most - 1)) for k in range(most)]

    def quietly(function, items):
        def call(item):
            with collected():  # the fits that follow warn
                return function(item)

        return list(run(call, items))

    trials = quietly(lambda k: Trials(jobs[k], deepcopy(random_states[k])), some)
    strategy = Neighbors() if neighbors_lead(trials, quietly) else InducingPoints()
    return strategy, {k: one.candidates for k, one in zip(some, trials)}


def neighbors_lead(trials, run=map):
    """Whether neighbours win in all of some `Trials` together; `run` calls a function of each."""

    def judged(trial):
        def of_one(one):
            return if_possible(trial, one) or Judgement.of_failure(one.aside.count)

        return Judgement(*map(np.concatenate, zip(*run(of_one, trials))))

    neighbors = judged(Trials.of_neighbors)
    if any(one.search.is_over() for one in trials):
        return np.isfinite(neighbors.density)
    first = judged(Trials.of_points_at_the_start)
    if first.density < neighbors.density - _BEHIND:
        return True
    return neighbors.leads(first) and neighbors.leads(judged(Trials.of_points))


class Trials:
    """Trials of neighbours and of inducing points, on rows of a `Job` that are held aside.

    Parameters
    ----------
    job : Job
    random_state : RandomState

    Attributes
    ----------
    begun : Job
        With the hyperparameters of a small exact fit.
    search : LocalSearch or SiteSearch
        Of neighbours.
    local : LocalModel or LocalSites
        What it has found.
    candidates : tuple of Candidate
        So far.
    """

    def __init__(self, job, random_state):
        self.aside, self.begun = Aside(job.rows, random_state), begin(job, random_state)
        self.random_state, self.points, self.local = random_state, InducingPoints(), None
        if job.model.has_sites:
            self.search = SiteSearch(self.begun, FEW, FIT, random_state)
            self.starts = [self.begun.kernel]
        else:
            self.search = LocalSearch(job, self.aside)
            self.starts = [job.kernel, self.begun.kernel]

    candidates = property(lambda self: tuple(self.aside.candidates))

    def of_neighbors(self):
        """The `Judgement` of neighbours."""
        if self.begun.model.has_sites:
            self.local, judgement = self.search.trial(self.aside)
        else:
            self.local, judgement = self.search.learn(self.starts)
        return judgement

    def of_points_at_the_start(self):
        """The `Judgement` of inducing points before anything of them is optimised."""
        job = self.begun._replace(rows=self.aside.table_of_others(_MOST_ROWS))
        self.tried = job, self.objective(job)
        solve = KeepParameters().solve
        fit = solve(self.tried[1], job.kernel, job.settings, self.random_state)
        return self._judged("at the start", fit)

    def of_points(self):
        """The `Judgement` of inducing points after some iterations."""
        job, objective = self.tried
        few = job.with_settings(max_iter=min(_ITERATIONS, job.settings.max_iter))
        with collected():  # it need not converge
            fit = self.points.go_on(few, objective, self.random_state)
        return self._judged(f"{_ITERATIONS} iterations", fit)

    def fit_of_neighbors(self):
        """The `Fit` of what was found of neighbours."""
        return self.search.conclude(self.local)

    def fit_of_points(self):
        """The `Fit` of inducing points to all rows."""
        return self.points.go_on(self.begun, self.objective(self.begun), self.random_state)

    def objective(self, job):
        """That of inducing points where they begin."""
        return self.points.objective(job, self.random_state)

    def _judged(self, name, fit):
        n_jobs = self.begun.settings.options.n_jobs
        likelihood = fit.objective.likelihood if self.begun.model.has_sites else None
        return self.aside.judge_process(f"inducing ({name})", fit.posterior, n_jobs, likelihood)

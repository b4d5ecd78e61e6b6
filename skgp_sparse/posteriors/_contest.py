"""The contest of "auto": which posterior predicts rows that were held aside best.

The same with Gaussian noise and with a likelihood, whose log predictive density judges. Neighbours
cost least and come first. Inducing points go on as long as they may still win: with the
hyperparameters of a small exact fit, where the initialiser puts Z, and after a few iterations. A
near tie is theirs, as they gain by the iterations that follow: neighbours have to lead by a
standard error. The rows held aside join the one that wins, which with inducing points is a fit of
all rows. No rule asks how long something took.
"""

from skgp_sparse._ground.warnings import collected
from skgp_sparse.posteriors._aside import Aside
from skgp_sparse.posteriors._inducing_points import InducingPoints
from skgp_sparse.posteriors._job import begin
from skgp_sparse.posteriors._local_search import FEW, FIT, LocalSearch
from skgp_sparse.posteriors._neighbors_with_sites import SiteSearch
from skgp_sparse.solvers import KeepParameters

_BEHIND = 0.5  # nats per row that inducing points may make up for ...
_ITERATIONS = 10  # ... in so many iterations
_MOST_ROWS = 50_000  # of the trials of inducing points


def contest(job, random_state):
    """The `Fit` of the posterior that wins; its selection is a `Candidate` for each trial."""
    aside, begun = Aside(job.rows, random_state), begin(job, random_state)
    search, best = _of_neighbors(job, begun, aside, random_state)
    if search.is_over() or _leads(best.judgement, begun, aside, random_state):
        return search.conclude(best.local)._replace(selection=tuple(aside.candidates))
    points = InducingPoints()
    fit = points.go_on(begun, points.objective(begun, random_state), random_state)
    return fit._replace(selection=tuple(aside.candidates))


def _of_neighbors(job, begun, aside, random_state):
    """The search for a model of neighbours, and its best `Trial`."""
    if job.model.has_sites:
        search = SiteSearch(begun, FEW, FIT, random_state)
        return search, search.trial(aside)
    search = LocalSearch(job, aside)
    return search, search.learn([job.kernel, begun.kernel])


def _leads(neighbors, job, aside, random_state):
    """Whether neighbours predict the rows held aside better than two trials of inducing points."""
    points, n_jobs = InducingPoints(), job.settings.options.n_jobs
    job = job._replace(rows=aside.table_of_others(_MOST_ROWS))

    def judged(name, fit):
        likelihood = fit.objective.likelihood if job.model.has_sites else None
        return aside.judge_process(f"inducing ({name})", fit.posterior, n_jobs, likelihood)

    objective = points.objective(job, random_state)
    fit = KeepParameters().solve(objective, job.kernel, job.settings, random_state)
    first = judged("at the start", fit)
    if first.density < neighbors.density - _BEHIND:
        return True
    if not neighbors.leads(first):
        return False
    with collected():  # it need not converge
        fit = points.go_on(job.with_settings(max_iter=_ITERATIONS), objective, random_state)
    return neighbors.leads(judged(f"{_ITERATIONS} iterations", fit))

"""Several classes that begin together, with hyperparameters and inducing points in common.

1. A small exact fit has a latent value for each class. Its objective is the sum of those of the
   problems, one class against all others, at common hyperparameters.
2. Each problem goes on from there for a few iterations of its own, inducing points included.
"""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from skgp_sparse.data.dataset import Dataset
from skgp_sparse.explain.views import Task
from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import Array
from skgp_sparse.inference.contracts import Start, VectorFunction
from skgp_sparse.inference.optimizers import climb
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.likelihoods._labels import EachClass
from skgp_sparse.methods.contract import Job, Problems, start_on_subset
from skgp_sparse.solvers import LBFGS, Fit, fit_at, warn_unless_converged
from skgp_sparse.steps.scales import at_likely_scale, with_logarithms

_CLASSES = 8  # that have a latent value in the small fit
_ROWS = 250  # of the small fit
_ITERATIONS = 5  # of each problem
_TOL = 1e-4  # of inner loops, relative, as long as hyperparameters move


def known_points(Z: Array, *given: object) -> Array:
    """Inducing points to begin with, whatever an initialiser is given."""
    return Z


class FewIterations(LBFGS):
    """L-BFGS near an optimum with rough sites; `max_iter` is what the user allows."""

    def __init__(self, max_iter: int) -> None:
        self.max_iter = max_iter

    def solve(self, start: Start) -> Fit:
        """Hyperparameters and inducing points, and then exact sites."""
        objective, kernel, settings, *_ = start
        rough = replace(objective, inner=_roughly(objective.inner))
        function = VectorFunction(rough, kernel, settings.move_basis, settings.prior)
        maximum = climb(function, settings)
        if maximum.n_iter >= self.max_iter:
            warn_unless_converged(maximum, settings)
        rough, kernel = function.at(maximum.x)
        found = replace(rough, inner=objective.inner)
        return fit_at(found, kernel, maximum.n_iter, function.inner_state)


def common_start(problems: Problems) -> Problems:
    """The problems, begun by a small fit of all classes, where all rows are seen at once."""
    jobs = problems.jobs
    if type(jobs[0].settings.solver) is not LBFGS:
        return problems
    random_state = deepcopy(problems.random_states[0])
    together = job_of_all(jobs[0], problems.rows, len(jobs))
    with single_threaded_blas():
        together = with_logarithms(at_likely_scale(together), problems.observations.columns())
        start = start_on_subset(together.with_settings(start_rows=_ROWS), random_state)
        Z = start.points.initialise(start.rows, start.kernel, random_state)
    most = jobs[0].settings.max_iter
    settings: Any = {"n_restarts": 0, "find_periods": False, "solver": FewIterations(most)}
    settings["max_iter"] = min(_ITERATIONS, most)
    return problems._replace(jobs=[_begun(job, start, Z).with_settings(**settings) for job in jobs])


def _begun(job: Job, start: Job, Z: Array) -> Job:
    """The job of a problem with the hyperparameters and the inducing points of a start."""
    points = job.points._replace(initialise=partial(known_points, Z))
    job = job._replace(kernel=start.kernel, spreads=start.spreads, points=points, is_started=True)
    return job.with_priors(job.priors)


def job_of_all(job: Job, rows: Dataset, n_classes: int) -> Job:
    """The `Job` of all classes, of some where they are many, from that of one problem."""
    some = np.linspace(0, n_classes - 1, min(n_classes, _CLASSES)).round().astype(int)
    labels = np.full(n_classes, float(len(some)))
    labels[some] = np.arange(len(some))
    model: Any = job.model
    method = replace(model.method, likelihood=EachClass(model.method.likelihood, len(some)))
    model = replace(model, method=method, inner=_roughly(model.inner))
    rows = rows.of_problem(Task(tuple(labels.tolist()))).in_one_form()
    job = job._replace(name="", rows=rows, model=model)
    return job.with_settings(tol=n_classes * job.settings.tol)


def _roughly(inner: Inner) -> Inner:
    """An inner loop that ends where an outer one does not see what is left."""
    return inner._replace(tol=max(inner.tol, _TOL))

"""Several classes that begin together, with hyperparameters and inducing points in common.

1. A small exact fit of the first problem, one class against all others, finds hyperparameters.
2. Each problem goes on from there for a few iterations of its own, inducing points included.
"""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse.ground.parallel import single_threaded_blas
from skgp_sparse.ground.validation import Array
from skgp_sparse.inference.contracts import ObjectiveFactory, Settings, VectorFunction
from skgp_sparse.inference.optimizers import climb
from skgp_sparse.methods.contract import Job, start_on_subset
from skgp_sparse.solvers import LBFGS, Fit, fit_at, warn_unless_converged
from skgp_sparse.steps import FitStep
from skgp_sparse.steps.scales import at_likely_scale, with_logarithms

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

    def solve(
        self,
        objective: Any,
        kernel: Kernel,
        settings: Settings,
        random_state: np.random.RandomState,
        model: ObjectiveFactory | None = None,
    ) -> Fit:
        """Hyperparameters and inducing points, and then exact sites."""
        inner = objective.inner._replace(tol=max(objective.inner.tol, _TOL))
        rough = replace(objective, inner=inner)
        function = VectorFunction(rough, kernel, settings.move_basis, settings.prior)
        maximum = climb(function, settings)
        if maximum.n_iter >= self.max_iter:
            warn_unless_converged(maximum, settings)
        rough, kernel = function.at(maximum.x)
        found = replace(rough, inner=objective.inner)
        return fit_at(found, kernel, maximum.n_iter, function.inner_state)


class CommonStart(FitStep):
    """The start that several classes have in common, where all rows are seen at once."""

    def before(self, jobs: list[Job]) -> list[Job]:
        """Return the jobs, with what a small fit of the first one has found."""
        if type(jobs[0].settings.solver) is not LBFGS:
            return jobs
        (first, *_), random_state = jobs, deepcopy(self.random_states[0])
        with single_threaded_blas():
            first = with_logarithms(at_likely_scale(first), self.observations.columns())
            start = start_on_subset(first.with_settings(start_rows=_ROWS), random_state)
            Z = start.points.initialise(start.rows, start.kernel, random_state)
        most = first.settings.max_iter
        settings: Any = {"n_restarts": 0, "find_periods": False, "solver": FewIterations(most)}
        return [
            _begun(job, start, Z).with_settings(max_iter=min(_ITERATIONS, most), **settings)
            for job in jobs
        ]


def _begun(job: Job, start: Job, Z: Array) -> Job:
    """The job of a problem with the hyperparameters and the inducing points of a start."""
    points = job.points._replace(initialise=partial(known_points, Z))
    job = job._replace(kernel=start.kernel, spreads=start.spreads, points=points, is_started=True)
    return job.with_priors(job.priors)

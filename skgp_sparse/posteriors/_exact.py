"""The exact process: every distinct row is an inducing point."""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse.posteriors._contract import PosteriorMethod, Request
from skgp_sparse.posteriors._job import (
    Job,
    best_start,
    goes_on,
    start_on_subset,
    started_on_subsets,
)
from skgp_sparse.solvers import Fit, KeepParameters, warn_unless_converged

_WORTH_A_START = 2  # rows of an exact fit, in units of those of the start, from which it has one
_ITERATIONS = 5  # of a default fit to all rows, after those to subsets
_THOROUGH = 600  # rows up to which an evaluation is cheap, and a fit ends at its optimum


class Exact(PosteriorMethod):
    """The posterior is given all rows exactly.

    An evaluation of the log marginal likelihood takes O(n³) time and O(n²) memory for n distinct
    rows. A prediction takes O(n) time per query, and O(n²) with its standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import Exact
    >>> X = np.linspace(0, 5, 50)[:, None]
    >>> model = SparseGPRegressor(posterior=Exact(), n_inducing=10).fit(X, np.sin(X[:, 0]))
    >>> model.posterior_, model.n_inducing_
    ('exact', 50)
    """

    name = "exact"
    uses_bound = takes_learned_noise = True

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` of all rows; that of many rows starts where a small one ends."""
        settings, n, has_sites = job.settings, len(job.rows), job.model.has_sites
        if settings.solver.starts_on_subset and n > _THOROUGH and not has_sites:
            return self._after_subsets(job, random_state)
        if settings.solver.starts_on_subset and n >= _WORTH_A_START * settings.start_rows:
            job = start_on_subset(job, random_state)
        objective: Any = job.model.exact(job.rows, job.settings.options)
        _, kernel = best_start(objective, job.kernel, objective, job)
        if len(objective.inducing_points) <= _THOROUGH:
            settings = settings._replace(thorough=job.thorough)
        else:
            kernel = _with_next_to_no_noise(kernel, job)
        return settings.solver.solve(objective, kernel, settings, random_state)

    def _after_subsets(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` of all rows that goes on from fits to subsets."""
        begun, curvature = started_on_subsets(job, random_state)
        settings, objective = job.settings, job.model.exact(job.rows, job.settings.options)
        kernel = best_start(objective, begun.kernel, objective, job)[1]
        curvature = curvature if kernel is begun.kernel else None
        kernel = _with_next_to_no_noise(kernel, job)
        if job.is_free:
            settings = settings._replace(max_iter=min(_ITERATIONS, settings.max_iter))
        function, maximum = goes_on(objective, kernel, settings, curvature)
        if not job.is_free:
            warn_unless_converged(maximum, settings)
        kernel = function.at(maximum.x)[1]
        fit = KeepParameters().solve(objective, kernel, settings, random_state)
        return fit._replace(n_iter=max(maximum.n_iter, 1))

    def go_on(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` of all rows after a small one."""
        settings = job.settings
        objective = job.model.exact(job.rows, settings.options)
        kernel = _with_next_to_no_noise(job.kernel, job)
        return settings.solver.solve(objective, kernel, settings, random_state)

    def refuses(self, request: Request) -> str | None:
        """Inducing points that the user gives are not the rows."""
        if request.points_are_given:
            return "has all rows as inducing points, so that inducing_init cannot be an array"
        return None


def _with_next_to_no_noise(kernel: Kernel, job: Job) -> Kernel:
    """The kernel within the bounds of small fits: as little noise for many rows as for few."""
    wide: Any = job.thorough.kernel if job.thorough else kernel
    return wide.clone_with_theta(kernel.theta)

"""Neighbours where rows have a likelihood: labels, counts, numbers with heavy tails.

1. Hyperparameters of a small exact fit, or those of an earlier fit where they are better.
2. In turn, sweeps over at most 20,000 rows find their sites, and some iterations maximise the
   density of rows that are left out, with sites and neighbours held.
3. Sweeps over all rows find the sites that predictions are given. Those of many rows begin where
   the sites of the 20,000 predict them.
"""

from dataclasses import replace

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.local_sites import SiteRows, targets_and_noise
from skgp_sparse._engine.nearest import DistinctRows
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse.inference.local_site_objective import LocalSiteObjective, next_sites
from skgp_sparse.inference.optimizers import STOPPED, climb
from skgp_sparse.inference.parameters import VectorFunction, arithmetic
from skgp_sparse.posteriors._job import begin
from skgp_sparse.solvers import Fit

_TRAINED = 20_000  # rows whose sites training knows
_LEFT_OUT = 2000  # of these, in an evaluation
_RUNS, _ITERATIONS = 5, 8  # searches of neighbours, and iterations after each
_FIRST, _NEXT = 6, 4  # sweeps before the first run, and before each of the others
_LAST, _LAST_OF_MANY = 30, 1  # sweeps over all rows, where training knew all of them or not
_TOL = 1e-7  # nats per row of which the sites are short then ...
_TOL_OF_MANY = 1e-4  # ... or this


class SiteFit:
    """A fit of one `Job`, given neighbours.

    Parameters
    ----------
    job : Job
    k, k_fit : int
        Neighbours of predictions, and of rows that are left out.
    random_state : RandomState
    """

    def __init__(self, job, k, k_fit, random_state):
        self.job, self.k, self.k_fit, self.random_state = job, k, k_fit, random_state
        self.n_jobs = job.settings.options.n_jobs

    def run(self):
        """The `Fit`."""
        everything, distinct = SiteRows.of(self.job.rows)
        n_iter, known = 0, everything
        if len(self.job.rows) > _TRAINED:
            few = self.job.rows.sample(_TRAINED, self.random_state)
            known, _ = SiteRows.of(self.job.rows.sampled(few))
        with arithmetic():
            objective, kernel = self._start(known)
            if self.job.settings.solver.moves:
                objective, kernel, n_iter = self._learn(objective, kernel)
            objective = self._of_all(objective, kernel, everything)
            posterior = posterior_of(objective, kernel, distinct.X, self.k)
            conclusion = replace(objective, posterior=posterior).conclude(kernel)
        return Fit(kernel=kernel, n_iter=max(n_iter, 1), **conclusion._asdict())

    def _start(self, known):
        """The `LocalSiteObjective` and the kernel to start with."""
        job = self.job
        if job.settings.solver.begins_small:
            job = begin(job, self.random_state)
        first = self._objective(known, job.model.method.likelihood, np.zeros((2, known.n_rows)))
        kernels_of_start = [job.kernel]
        if job.before is not None and job.settings.solver.moves:
            kernels_of_start.append(job.before[0])
        starts = [(self._seen_from(first, kernel, _FIRST), kernel) for kernel in kernels_of_start]
        if len(starts) == 1:
            return starts[0]
        return max(starts, key=lambda start: start[0].value(start[1]))

    def _learn(self, objective, kernel):
        """Objective, kernel and number of iterations after some runs."""
        n_iter, settings = 0, self.job.settings
        for index in range(_RUNS):
            if index:
                objective = self._seen_from(objective, kernel, _NEXT)
            chosen = self._chosen(objective.near)
            function = VectorFunction(replace(objective, chosen=chosen), kernel)
            most = min(_ITERATIONS, settings.max_iter - n_iter)
            maximum = climb(function, settings, max_iter=most)
            objective, kernel = function.at(maximum.x)
            n_iter += maximum.n_iter
            if maximum.message == STOPPED or n_iter >= settings.max_iter:
                break
        return replace(objective, chosen=None), kernel, n_iter

    def _of_all(self, objective, kernel, everything):
        """The objective with the sites of all rows at a kernel."""
        known, sites = objective.near, objective.sites
        most, tol = _LAST, _TOL
        if known.n_rows < everything.n_rows:
            most, tol = _LAST_OF_MANY, _TOL_OF_MANY
            sites = self._predicted_sites(objective, kernel, everything)
        objective = self._objective(everything, objective.likelihood, sites)
        objective = self._seen_from(objective, kernel, most, tol)
        return replace(objective, chosen=self._chosen(everything))

    def _predicted_sites(self, objective, kernel, everything):
        """Sites (2, n) of all rows, predicted from those that are known."""
        near = posterior_of(objective, kernel, objective.near.X, self.k_fit)
        mean, variance = near.mean_and_variance(everything.X, self.n_jobs)
        variance = variance + kernels.diagonal(kernel, everything.X)[1]
        place, y, offset = everything.place, everything.y, everything.offset
        return next_sites(objective.likelihood, y, mean[place, 0], variance[place], offset)

    def _chosen(self, near):
        """Rows that are left out; None: all of them."""
        if near.n_rows <= _LEFT_OUT:
            return None
        return np.sort(self.random_state.choice(near.n_rows, _LEFT_OUT, replace=False))

    def _objective(self, near, likelihood, sites):
        rows = self.job.rows
        total = rows.total_weight()
        return LocalSiteObjective(near, sites, likelihood, rows, None, total, n_jobs=self.n_jobs)

    def _seen_from(self, objective, kernel, most, tol=_TOL):
        """The objective with the neighbours at a kernel, after sweeps."""
        scale = kernels.length_scales(kernel, np.ones(objective.near.X.shape[1]))
        near = objective.near.with_neighbors(self.k_fit, scale, self.n_jobs)
        return replace(objective, near=near, chosen=None).settled(kernel, most, tol)


def posterior_of(objective, kernel, X, k):
    """`NeighborsPosterior` given k places with their sites; X has the places as they are kept."""
    targets, noise = targets_and_noise(*objective.near.at_places(objective.sites))
    places = DistinctRows(X, targets[:, None], noise, np.ones(len(X)), None)
    return NeighborsPosterior.of(kernel, places, k)

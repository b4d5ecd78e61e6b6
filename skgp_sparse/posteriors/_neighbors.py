"""Neighbours: every prediction is given the rows that are nearest to the query.

1. Hyperparameters of a small exact fit say which columns matter.
2. Rows are left out, one at a time, and predicted by those near to them. Hyperparameters maximise
   the density of these predictions; then neighbours are looked for again, as near has changed.
3. The variances are multiplied by one number, which makes rows that were held aside most likely.
   Then these rows join the others.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.left_out import left_out
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.visited_rows import known_rows
from skgp_sparse.inference.neighbors_objective import NeighborsObjective
from skgp_sparse.inference.optimizers import climb
from skgp_sparse.inference.parameters import VectorFunction, arithmetic
from skgp_sparse.posteriors._contract import Strategy
from skgp_sparse.posteriors._exact import Exact
from skgp_sparse.posteriors._job import begin
from skgp_sparse.posteriors._neighbors_with_sites import SiteFit
from skgp_sparse.solvers import Fit

_PREDICT, _FIT = 100, 30  # neighbours of predictions, and of rows that are left out
_LEFT_OUT = 4000  # rows that are left out
_RUNS, _ITERATIONS = 2, 15  # searches of neighbours, and iterations after each


class Neighbors(Strategy):
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
    keeps_rows = True
    has_bound = False

    def __init__(self, n_neighbors="auto", n_neighbors_fit=_FIT):
        self.n_neighbors = n_neighbors
        self.n_neighbors_fit = n_neighbors_fit

    def fit(self, job, random_state):
        """The `Fit` given neighbours, exact where all rows are neighbours."""
        k = _PREDICT if isinstance(self.n_neighbors, str) else self.n_neighbors
        if job.are_few(k):
            return Exact().fit(job, random_state)
        if job.model.has_sites:
            return SiteFit(job, k, self.n_neighbors_fit, random_state).run()
        if job.settings.solver.begins_small:
            job = begin(job, random_state)
        known = known_rows(job.rows, job.settings.options.memory)
        local = LocalModel(job.kernel, None)
        n_iter = 0
        for _ in range(_RUNS if job.settings.solver.moves else 0):
            local, steps = self._run(job, known, local, random_state)
            n_iter += steps
        objective = self._objective(job, known, local, random_state)
        posterior = posterior_of(known, local, k)
        with arithmetic():
            value = objective.value(local.kernel)
        objective = replace(objective, posterior=posterior)
        return Fit(local.kernel, objective, posterior, value, max(n_iter, 1), 0.0)

    def _objective(self, job, known, local, random_state):
        """`NeighborsObjective` of random rows, whose neighbours are those at a `LocalModel`."""
        rows = job.rows
        chosen = rows.sample(_LEFT_OUT, random_state)
        block = rows.block(chosen)
        spent = len(chosen) < (len(rows) if rows.weight is None else np.count_nonzero(rows.weight))
        count = np.ones(len(chosen)) if spent else np.broadcast_to(block.weight, len(chosen))
        near = posterior_of(known, local, self.n_neighbors_fit + 1)
        places, nearest = near.around(block.X, job.settings.options.n_jobs)
        left = left_out(places, block, chosen, nearest, count)
        total, n_jobs = rows.total_weight(), job.settings.options.n_jobs
        return NeighborsObjective(left, rows, total, local.metric, n_jobs=n_jobs)

    def _run(self, job, known, local, random_state):
        """The `LocalModel` after some iterations with neighbours held, and how many they were."""
        objective = self._objective(job, known, local, random_state)
        function = VectorFunction(objective, local.kernel)
        most = min(_ITERATIONS, job.settings.max_iter)
        maximum = climb(function, job.settings, max_iter=most)
        objective, kernel = function.at(maximum.x)
        return LocalModel(kernel, objective.metric), maximum.n_iter

    def refuses_later_rows(self):
        """Nothing: rows that arrive later are neighbours at once."""
        return None

    def refuses(self, family):
        """Several latent values of a row."""
        if family.has_sites and family.likelihood.n_latent > 1:
            return (
                "needs one latent value per row, and a softmax has one per class. Got "
                "multi_class='softmax', in place of which there is multi_class='one_vs_rest'"
            )
        return None


class LocalModel(NamedTuple):
    """What is learned."""

    kernel: object
    metric: np.ndarray | None


def posterior_of(known, local, k):
    """`NeighborsPosterior` given k of the known rows."""
    return NeighborsPosterior.of(local.kernel, known, k, local.metric)

"""Neighbours: every prediction is given the rows that are nearest to the query."""

from numbers import Integral
from typing import Literal

import numpy as np

from skgp_sparse._ground.validation import check_number, is_auto
from skgp_sparse.posteriors._contract import PosteriorMethod, Request
from skgp_sparse.posteriors._job import Job, start_on_subset
from skgp_sparse.posteriors._metric_starts import wants_full
from skgp_sparse.posteriors._neighbor_search import (
    FEW,
    FIT,
    NearestNeighborModel,
    NearestNeighborSearch,
)
from skgp_sparse.posteriors._neighbors_with_sites import SiteSearch
from skgp_sparse.posteriors._validation_set import ValidationSet
from skgp_sparse.solvers import Fit


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
    is_exact_for_few = True
    learns_metric = True
    takes_learned_noise = True

    def __init__(
        self, n_neighbors: int | Literal["auto"] = "auto", n_neighbors_fit: int = FIT
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_neighbors_fit = n_neighbors_fit

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` given neighbours."""
        if job.model.has_sites:
            if job.settings.solver.starts_on_subset:
                job = start_on_subset(job, random_state)
            given = job, self.rows_of_a_prediction, self.n_neighbors_fit, random_state
            search = SiteSearch(*given)
            if not (wants_full(job) and job.settings.solver.moves):
                return search.conclude(search.learn(job.rows))
            validation = ValidationSet(job.rows, random_state, job.model.has_sites)
            search = SiteSearch(*given, validation)
            fit = search.conclude(search.trial().local)
            return fit._replace(selection=tuple(validation.candidates))
        validation = ValidationSet(job.rows, random_state, job.model.has_sites)
        starts = [job.kernel]
        local = NearestNeighborSearch(job, validation, self._k, self.n_neighbors_fit)
        if not job.settings.solver.moves:
            return local.conclude(NearestNeighborModel(job.kernel, k=self.rows_of_a_prediction))
        if job.settings.solver.starts_on_subset:
            starts.append(start_on_subset(job, random_state).kernel)
        return local.conclude(local.learn(starts).local)

    @property
    def _k(self) -> int | None:
        """Neighbours of predictions; None: as many as pay."""
        return None if isinstance(self.n_neighbors, str) else self.n_neighbors

    @property
    def exact_rows(self) -> int:  # type: ignore[override]
        """Number of neighbours, by which so many rows are predicted exactly."""
        return self.rows_of_a_prediction

    @property
    def rows_of_a_prediction(self) -> int:
        """Neighbours of predictions before it is known how many pay."""
        return self._k or FEW

    def check_parameters(self, name: str) -> None:
        """Raise unless numbers of neighbours are positive."""
        if not is_auto(self.n_neighbors):
            check_number(self.n_neighbors, "posterior__n_neighbors", name, Integral, low=1)
        few = self.n_neighbors_fit
        check_number(few, "posterior__n_neighbors_fit", name, Integral, low=1)

    def refuses(self, request: Request) -> str | None:
        """Several latent values of a row."""
        if request.n_latent > 1:
            return (
                "needs one latent value per row, and a softmax has one per class. Got "
                "multi_class='softmax', in place of which there is multi_class='one_vs_rest'"
            )
        return None

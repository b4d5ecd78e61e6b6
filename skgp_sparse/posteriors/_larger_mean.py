"""Inducing points, and more of them for the mean."""

import numpy as np

from skgp_sparse._engine.features.inducing_basis import InducingBasis
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.inference.objectives import DecoupledObjective
from skgp_sparse.inference.parameter_vectors import arithmetic
from skgp_sparse.posteriors._contract import PosteriorMethod
from skgp_sparse.posteriors._inducing_points import InducingPoints


class LargerMean(PosteriorMethod):
    """Method of `InducingPoints` with `n_mean`: the mean has random rows as inducing points, too.

    Parameters
    ----------
    n_mean : int
    """

    name = "inducing"
    uses_bound = True
    remedy = "It needs one basis: set n_mean to None."
    is_exact_for_few = True

    def __init__(self, n_mean):
        self.n_mean = n_mean

    def fit(self, job, random_state):
        """The `Fit` at inducing points with another mean, if that has more of them."""
        fit = InducingPoints().fit(job, random_state)
        Z, rows = fit.objective.inducing_points, job.rows
        if self.n_mean <= len(Z):
            return fit
        more = rows.subset(rows.sample(self.n_mean - len(Z), random_state)).everything().X
        objective = DecoupledObjective(fit.objective, InducingBasis(np.vstack([Z, more])))
        with arithmetic():
            return fit._replace(**objective.conclude(fit.kernel)._asdict())

    def with_points(self, n_inducing):
        """`InducingPoints` where the mean would have no more points than the covariance."""
        return InducingPoints() if self.n_mean <= n_inducing else self

    def refuses(self, request):
        """Likelihoods, and bounds that count a residual as noise."""
        if request.has_sites:
            likelihood = as_text(request.likelihood)
            return f"needs likelihood='gaussian' for n_mean. Got likelihood={likelihood}"
        if np.any(request.resolved_bound.noise_share):
            names = "'titsias', 'titsias_new', 'artemev' or 'dtc'"
            return f"needs the bound {names} for n_mean. Got bound={as_text(request.bound)}"
        return None

    def refuses_later_rows(self):
        """A second basis, whose sums are not kept."""
        return f"n_mean={self.n_mean} has a second one, which takes all rows at once"

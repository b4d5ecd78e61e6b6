"""Inducing points whose rows have smaller variances given these than before any data."""

import numpy as np

from skgp_sparse._engine.exact.exact import tightened
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.inference.parameter_vectors import arithmetic
from skgp_sparse.posteriors._contract import PosteriorMethod
from skgp_sparse.posteriors._inducing_points import InducingPoints


class TightVariance(PosteriorMethod):
    """Method of `InducingPoints` with `tight_variance`: the posterior of a tighter bound."""

    name = "inducing"
    uses_bound = True
    remedy = "It needs one basis: set tight_variance to False."
    is_exact_for_few = True

    def fit(self, job, random_state):
        """The `Fit` at inducing points with smaller variances."""
        if not job.rows.in_memory:
            raise ValueError(
                "tight_variance=True needs all rows in memory. Pass arrays, not a source or rows "
                "on a cluster, or set posterior to 'inducing'."
            )
        fit = InducingPoints().fit(job, random_state)
        with arithmetic():
            rows, bound = fit.objective.rows.everything(), fit.objective.bound
            return fit._replace(posterior=tightened(fit.posterior, rows, bound))

    def refuses(self, request):
        """Likelihoods, and objectives that are no variational bound."""
        if request.has_sites:
            return (
                "needs likelihood='gaussian' for tight_variance. Got "
                f"likelihood={as_text(request.likelihood)}"
            )
        bound = request.resolved_bound
        if not bound.is_lower_bound or np.any(bound.noise_share):
            names = "'titsias', 'titsias_new' or 'artemev'"
            return f"needs the bound {names} for tight_variance. Got bound={as_text(request.bound)}"
        return None

    def refuses_later_rows(self):
        """Variances that need all rows."""
        return "tight_variance=True takes all rows at once"

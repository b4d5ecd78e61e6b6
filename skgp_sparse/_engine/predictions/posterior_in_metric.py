"""A posterior whose inputs are transformed by a metric, ``x -> W x``."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from skgp_sparse._engine.predictions.posterior import (
    FUNCTIONS,
    GRADIENTS,
    LEAVE_ONE_OUT,
    PosteriorAround,
    in_metric,
)
from skgp_sparse._engine.predictions.sampled_functions import in_metric_of

_ANSWERS = frozenset([LEAVE_ONE_OUT, GRADIENTS, FUNCTIONS])  # where the other posterior has them


@dataclass(frozen=True, eq=False)
class PosteriorInMetric(PosteriorAround):
    """A posterior of ``W x``.

    Parameters
    ----------
    posterior : Posterior
    metric : ndarray of shape (r, d)
        Matrix W.
    """

    metric: np.ndarray

    remedy = "Set metric to 'ard'."
    answers = property(lambda self: self.posterior.answers & _ANSWERS)
    is_exact = property(attrgetter("posterior.is_exact"))

    def sees(self, rows):
        """A table in the metric."""
        return rows.in_metric(self.metric)

    def why_not(self, question):
        """Reason of the posterior, or that columns are mixed."""
        return self.posterior.why_not(question) or super().why_not(question)

    def mean(self, X, n_jobs=1):
        """Mean, in the shape of that of the posterior."""
        return self.posterior.mean(in_metric(self.metric, X), n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean and latent variance."""
        return self.posterior.mean_and_variance(in_metric(self.metric, X), n_jobs)

    def covariance(self, X):
        """Latent covariance."""
        return self.posterior.covariance(in_metric(self.metric, X))

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean."""
        return self.posterior.deviations(in_metric(self.metric, X), n_samples, random_state)

    def leave_one_out(self, rows, chosen, terms, n_jobs=1):
        """`LeftOut` of rows that are in the metric already."""
        return self.posterior.leave_one_out(rows, chosen, terms, n_jobs)

    def gradients(self, X, latent, n_jobs=1):
        """`Slopes` with respect to x."""
        found = self.posterior.gradients(in_metric(self.metric, X), latent, n_jobs)
        return found._replace(
            mean_slope=found.mean_slope @ self.metric,
            variance_slope=found.variance_slope @ self.metric,
        )

    def sample_functions(self, n_functions, n_frequencies, random_state):
        """`SampledFunctions` of x."""
        drawn = self.posterior.sample_functions(n_functions, n_frequencies, random_state)
        return in_metric_of(drawn, self.metric)

"""A process whose inputs are seen in a metric, ``x -> W x``."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from skgp_sparse._engine.process import Process, float64


@dataclass(frozen=True, eq=False)
class ProcessInMetric(Process):
    """A process of ``W x``.

    Parameters
    ----------
    process : Process
    metric : ndarray of shape (r, d)
        W.
    """

    process: Process
    metric: np.ndarray

    kernel = property(attrgetter("process.kernel"))
    kind = property(attrgetter("process.kind"))
    width = property(attrgetter("process.width"))
    n_rows_kept = property(attrgetter("process.n_rows_kept"))
    factor = property(attrgetter("process.factor"))

    def mean(self, X, n_jobs=1):
        """Mean, in the shape of that of the process."""
        return self.process.mean(self._seen(X), n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean and latent variance."""
        return self.process.mean_and_variance(self._seen(X), n_jobs)

    def covariance(self, X):
        """Latent covariance."""
        return self.process.covariance(self._seen(X))

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean."""
        return self.process.deviations(self._seen(X), n_samples, random_state)

    def _seen(self, X):
        return float64(X) @ self.metric.T

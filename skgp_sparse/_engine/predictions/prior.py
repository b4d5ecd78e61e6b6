"""The process before any data."""

from dataclasses import dataclass

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.predictions.posterior import Posterior, float64, joint_deviations


@dataclass(frozen=True, eq=False)
class Prior(Posterior):
    """The process before any data, of mean zero.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    n_targets : int
    """

    kernel: object
    n_targets: int

    name = "prior"
    remedy = "Call fit first."
    width = 0

    def mean(self, X, n_jobs=1):
        """Zeros (n, p)."""
        return np.zeros((len(X), self.n_targets))

    def mean_and_variance(self, X, n_jobs=1):
        """Zeros (n, p) and prior variance (n,)."""
        signal = kernels.diagonal(self.kernel, float64(X))[0]
        return self.mean(X), np.array(np.broadcast_to(signal, len(X)))

    def covariance(self, X):
        """Prior covariance (n, n)."""
        X = float64(X)
        return kernels.evaluate(self.kernel, X, X).copy()

    def deviations(self, X, n_samples, random_state):
        """Latent samples (n, n_samples) of mean zero, joint over all rows."""
        return joint_deviations(self, X, n_samples, random_state)

"""Between the engine's standardised (n, p) targets and the user's y: units and shapes."""

from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.posterior import noise_variance


def standardisation(y, weight, normalize, shared):
    """Mean and scale (p,) of the targets.

    Parameters
    ----------
    y : ndarray of shape (n, p)
    weight : ndarray of shape (n,) or None
    normalize : bool
        If not, mean 0 and scale 1.
    shared : bool
        One scale for all targets: known noise is in units of y², the same for all of them.
    """
    n_targets = y.shape[1]
    if not normalize:
        return np.zeros(n_targets), np.ones(n_targets)
    mean = np.average(y, axis=0, weights=weight)
    variance = np.average((y - mean) ** 2, axis=0, weights=weight)
    variance[np.sqrt(variance) <= 4 * np.finfo(float).eps * np.abs(mean)] = 0.0
    if shared:
        variance[:] = variance.mean()
    return mean, np.where(variance > 0, np.sqrt(variance), 1.0)


class TargetView(NamedTuple):
    """A process in the units and the shape of y."""

    process: object
    y_mean: np.ndarray
    y_scale: np.ndarray
    one_column: bool
    n_jobs: int

    def mean(self, X):
        """Mean (n,) or (n, p)."""
        return self._shaped(self.process.mean(X, self.n_jobs) * self.y_scale + self.y_mean)

    def mean_and_std(self, X, latent):
        """Mean and standard deviation, both (n,) or (n, p)."""
        mean, variance = self.process.mean_and_variance(X, self.n_jobs)
        if not latent:
            variance = variance + noise_variance(self.process.kernel, X)
        std = np.sqrt(variance)[:, None] * self.y_scale
        return self._shaped(mean * self.y_scale + self.y_mean), self._shaped(std)

    def covariance(self, X, latent):
        """Joint covariance (n, n) or (n, n, p)."""
        cov = self.process.covariance(X)
        if not latent:
            cov.flat[:: len(cov) + 1] += noise_variance(self.process.kernel, X)
        return self._shaped(cov[:, :, None] * self.y_scale**2)

    def sample(self, X, n_samples, random_state):
        """Samples (n, n_samples) or (n, p, n_samples)."""
        n_targets = len(self.y_scale)
        draws = self.process.deviations(X, n_targets * n_samples, random_state)
        noise = np.sqrt(noise_variance(self.process.kernel, X))
        draws += np.reshape(noise, (-1, 1)) * random_state.normal(size=draws.shape)
        draws = draws.reshape(len(X), n_targets, n_samples) * self.y_scale[:, None]
        mean = self.process.mean(X, self.n_jobs) * self.y_scale + self.y_mean
        draws += mean[:, :, None]
        return draws[:, 0] if self.one_column else draws

    def _shaped(self, values):
        return values[..., 0] if self.one_column else values

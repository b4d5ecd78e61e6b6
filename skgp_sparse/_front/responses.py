"""Between a process that a likelihood follows and the user's y."""

from typing import NamedTuple

import numpy as np

from skgp_sparse._front.targets import TargetView
from skgp_sparse._ground.warnings import warn


class ResponseView(NamedTuple):
    """A process with a likelihood, in the units of y; it has the methods of `TargetView`.

    The link scale is that of ``f + level + offset``, which the likelihood sees.
    """

    latent: TargetView  # the process, in its own units
    likelihood: object
    y_mean: np.ndarray  # (1,)
    y_scale: np.ndarray  # (1,)

    def mean(self, X, latent=False, offset=None):
        """Mean (n,) of the response, or on the link scale."""
        return self.mean_and_std(X, latent, offset)[0]

    def mean_and_std(self, X, latent, offset=None):
        """Mean and standard deviation (n,) of the response, or on the link scale."""
        mean, variance = self._moments(X, offset)
        if latent:
            mean = mean + self.likelihood.intercept
        else:
            with np.errstate(all="ignore"):
                mean, variance = self.likelihood.response(mean, variance)
            _warn_of_infinity(mean, variance)
        return mean * self.y_scale + self.y_mean, np.sqrt(variance) * self.y_scale

    def covariance(self, X, latent):
        """Joint covariance (n, n) on the link scale, the only one there is."""
        return self.latent.covariance(X, latent=False) * self.y_scale**2

    def quantiles(self, X, q, offset=None):
        """Quantiles (n, k) of the response for probabilities (k,)."""
        latent = self._moments(X, offset)
        with np.errstate(all="ignore"):
            found = np.column_stack([self.likelihood.quantile(p, *latent) for p in q])
        return found * self.y_scale + self.y_mean

    def log_density(self, X, y, offset=None):
        """Log density of y (n,)."""
        y = (y - self.y_mean) / self.y_scale
        with np.errstate(all="ignore"):
            density = self.likelihood.tilted(y, *self._moments(X, offset))[0]
        return density - np.log(self.y_scale)

    def sample(self, X, n_samples, random_state, latent=False, offset=None):
        """Samples (n, n_samples) of the response, or on the link scale."""
        of_response = np.random.RandomState(random_state.randint(2**31))
        draws = self.latent.sample(X, n_samples, random_state)
        draws = draws + np.reshape(self._offset(offset), (-1, 1))
        if latent:
            draws = draws + self.likelihood.intercept
        else:
            draws = self.likelihood.sample(draws, of_response)
        return draws * self.y_scale + self.y_mean

    def _moments(self, X, offset):
        """Mean and variance (n,) of ``f + offset``."""
        mean, variance = self.latent.moments(X)
        return mean[:, 0] + self._offset(offset), variance

    def _offset(self, offset):
        return 0.0 if offset is None else offset / self.y_scale


def _warn_of_infinity(mean, variance):
    """Warn where the moments of a response are infinite: quantiles never are."""
    rows = np.flatnonzero(np.isinf(mean) | np.isinf(variance))
    if len(rows):
        what = "mean" if np.isinf(mean).any() else "standard deviation"
        warn(
            f"The {what} of the response is infinite in {len(rows)} rows of X, first in row "
            f"{rows[0]}, because the latent variance is large there, or because a Student-t "
            "distribution with df <= 2 has no variance. Use predict_quantiles, or lower the upper "
            "bound of the kernel's variance."
        )

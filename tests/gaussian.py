"""Gaussian noise as a likelihood, for tests: its sites are exact after one iteration."""

import numpy as np
from inside import Parametric
from scipy.special import ndtri

_LOG_2PI = np.log(2.0 * np.pi)


class Gaussian(Parametric):
    """Gaussian likelihood ``p(y | f) = N(y; f, σ²)``.

    Parameters
    ----------
    variance : float, default=1.0
        The noise variance ``σ²``.
    variance_bounds : pair of float or "fixed", default="fixed"
        The lower and upper bound on ``σ²``. If set to "fixed", ``σ²`` is not learned.
    """

    standardises = True
    parameters = ("variance",)

    def __init__(self, variance=1.0, variance_bounds="fixed"):
        self.variance = variance
        self.variance_bounds = variance_bounds

    def rescaled(self, origin, unit):
        """Convert the variance and its bounds; see `Likelihood.rescaled`."""
        bounds = self.variance_bounds
        bounds = bounds if isinstance(bounds, str) else tuple(np.divide(bounds, unit**2))
        return type(self)(self.variance / unit**2, bounds)

    def first_sites(self, y):
        """Return the likelihood itself as a function of ``f``; see `Likelihood.first_sites`."""
        precision = np.full(len(y), 1.0 / self.variance)
        return precision * y, precision

    def constant_log_likelihood(self, y, weight, offset):
        """Compute the log likelihood of ``N(offset, v)`` with the best ``v``, for all rows."""
        n, variance = weight.sum(), np.average((y - offset) ** 2, weights=weight)
        return -0.5 * n * (_LOG_2PI + np.log(variance) + 1.0)

    def expected(self, y, mean, variance):
        """Compute the closed form; see `Likelihood.expected`."""
        offset, noise = y - mean, self.variance
        value = -0.5 * (_LOG_2PI + np.log(noise) + (offset**2 + variance) / noise)
        return value, offset / noise, np.full_like(mean, 1.0 / noise)

    def tilted(self, y, mean, variance, power=1.0):
        """Compute the closed form; see `Likelihood.tilted`."""
        offset, noise = y - mean, self.variance / power  # of the power, which is Gaussian itself
        total = noise + variance
        value = -0.5 * (_LOG_2PI + np.log(total) + offset**2 / total)
        constant = _log_peak(self.variance) * power - _log_peak(noise)
        return value + constant, offset / total, 1.0 / total

    def response(self, mean, variance):
        """Return `mean` and ``σ² + variance``; see `Likelihood.response`."""
        return mean, self.variance + variance

    def quantile(self, q, mean, variance):
        """Compute the closed form; see `Likelihood.quantile`."""
        return mean + ndtri(q) * np.sqrt(self.variance + variance)

    def sample(self, f, random_state):
        """Add Gaussian noise to the latent values; see `Likelihood.sample`."""
        return f + np.sqrt(self.variance) * random_state.normal(size=np.shape(f))

    def expected_slopes(self, y, mean, variance):
        """Compute the gradient with respect to ``log σ²``; see `Likelihood.expected_slopes`."""
        slope = 0.5 * (((y - mean) ** 2 + variance) / self.variance - 1.0)
        return self._of_learned(slope)

    def tilted_slopes(self, y, mean, variance, power=1.0):
        """Compute the gradient with respect to ``log σ²``; see `Likelihood.tilted_slopes`."""
        noise = self.variance / power
        total = noise + variance
        slope = 0.5 * noise * ((y - mean) ** 2 / total - 1.0) / total + 0.5 * (1.0 - power)
        return self._of_learned(slope)


def _log_peak(variance):
    """Log density of a Gaussian distribution at its mean."""
    return -0.5 * (_LOG_2PI + np.log(variance))

"""The gamma likelihood."""

import numpy as np

from skgp_sparse.likelihoods import _special as special
from skgp_sparse.likelihoods._base import Domain
from skgp_sparse.likelihoods._parametric import LogLink, log_of_mean
from skgp_sparse.likelihoods._quantiles import gamma_quantile


class Gamma(LogLink):
    r"""Gamma likelihood of positive numbers with mean ``μ = exp(f + level)``.

    The standard deviation is ``μ / √shape``. A shape of one is the exponential distribution. The
    expected log likelihood has the closed form

        E[log p] = k log k - log Γ(k) + (k - 1) log y - k m - k y exp(-m + s/2),

    where ``k`` is the shape, ``m = mean + level`` and ``s = variance``. `tilted` is a numerical
    integral.

    Parameters
    ----------
    shape : float, default=1.0
        The shape of the distribution.
    shape_bounds : pair of float or "fixed", default=(1e-3, 1e5)
        The lower and upper bound on `shape`. If set to "fixed", the shape is not learned.
    level : float, default=None
        The logarithm of the mean at ``f = 0``. If None, a fit starts with the logarithm of the mean
        observation.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Gamma
    >>> Gamma(shape=4.0).response(np.zeros(1), np.zeros(1))
    (array([1.]), array([0.25]))
    >>> Gamma().quantile(0.5, np.zeros(1), np.zeros(1)).round(4)
    array([0.6931])
    """

    domain = Domain(
        "observations y > 0",
        low=0.0,
        without=(0.0,),
        remedy='Use likelihood="poisson" or likelihood="negative_binomial", which take zeros, or '
        'likelihood="student_t" or likelihood="gaussian", which take any numbers.',
    )
    parameters = ("level", "shape")

    def __init__(
        self, shape=1.0, shape_bounds=(1e-3, 1e5), level=None, level_bounds=(-np.inf, np.inf)
    ):
        self.shape = shape
        self.shape_bounds = shape_bounds
        self.level = level
        self.level_bounds = level_bounds

    def first_sites(self, y):
        """Return sites whose mode is the observation; see `Likelihood.first_sites`."""
        precision = np.full(len(y), float(self.shape))
        return precision * (np.log(y) - self._shifted(0.0)), precision

    def constant_log_likelihood(self, y, weight, offset):
        """Compute the log likelihood of a constant mean; see the base class."""
        level = log_of_mean(y * np.exp(-offset), weight, np.zeros(len(y)))
        distance = np.log(y) - offset - level
        k = self.shape
        rows = special.expected_exponential(k, k, distance, 0.0)[0]
        return weight @ (rows + self._peak(y))

    def expected(self, y, mean, variance):
        """Compute the closed form; see `Likelihood.expected`."""
        k = self.shape
        parts = special.expected_exponential(k, k, self._distance(y, mean), variance)
        value, slope, curvature = parts
        return value + self._peak(y), -slope, curvature

    def tilted(self, y, mean, variance, power=1.0):
        """Compute a numerical integral; see `Likelihood.tilted`."""
        value, slope, curvature, _ = self._tilted(y, mean, variance, power)
        return value + power * self._peak(y), -slope, curvature

    def response(self, mean, variance):
        """Compute the mean and variance of an observation; see `Likelihood.response`."""
        with np.errstate(over="ignore"):
            spread = self._spread(mean, variance, 1.0 / self.shape)
            return self._rate(mean, variance), spread

    def quantile(self, q, mean, variance):
        """Compute the quantile of a continuous distribution; see `Likelihood.quantile`."""
        return gamma_quantile(q, self._shifted(mean), variance, self.shape)

    def sample(self, f, random_state):
        """Draw positive numbers, none of which is rounded to zero; see `Likelihood.sample`."""
        share = random_state.gamma(self.shape, size=np.shape(f)) / self.shape
        with np.errstate(over="ignore", divide="ignore"):
            drawn = np.exp(self._shifted(f) + np.log(share))
        return np.maximum(drawn, np.finfo(float).tiny)

    def expected_slopes(self, y, mean, variance):
        """Compute the gradient of `expected`; see `Likelihood.expected_slopes`."""
        k = self.shape
        parts = special.expected_exponential(k, k, self._distance(y, mean), variance)
        shape = k * special.digamma_rest(k) + parts[0]
        return self._slopes(len(y), level=-parts[1], shape=shape)

    def tilted_slopes(self, y, mean, variance, power=1.0):
        """Compute the gradient of `tilted`; see `Likelihood.tilted_slopes`."""
        _, slope, _, exponent = self._tilted(y, mean, variance, power)
        shape = power * (self.shape * special.digamma_rest(self.shape) + exponent)
        return self._slopes(len(y), level=-slope, shape=shape)

    def _distance(self, y, mean):
        return np.log(y) - self._shifted(mean)

    def _tilted(self, y, mean, variance, power):
        k = self.shape
        return special.tilted_exponential(k, k, self._distance(y, mean), variance, power)

    def _peak(self, y):
        return special.gamma_peak(self.shape) - np.log(y)

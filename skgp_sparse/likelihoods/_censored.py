"""The likelihood of numbers that are censored."""

from typing import Any

import numpy as np
from scipy.special import ndtri

from skgp_sparse._ground.normal import LOG_2PI
from skgp_sparse._ground.tilted import log_moments
from skgp_sparse._ground.typing import Array, Bools, Limits, Scalars, Triple
from skgp_sparse._ground.warnings import warn
from skgp_sparse.likelihoods._base import (
    SMALLEST_PRECISION,
    Likelihood,
    LocationScale,
    best_constant,
)
from skgp_sparse.likelihoods._binary import Probit
from skgp_sparse.likelihoods._normal_intervals import clipped_moments, log_probability

_STRIP = 2.5  # in scales, in which probabilities have no zero


class Censored(LocationScale):
    r"""Gaussian likelihood of numbers that are censored at known limits (the tobit model).

    The number ``z = f + level + scale e`` has normal noise ``e``. Observed is ``z``, or the limit
    where ``z`` is beyond it. The likelihood of an observation between the limits is the normal
    density, and that of an observation ``y <= lower`` or ``y >= upper`` is the probability

        p(z <= lower | f) = Φ((lower - f - level) / scale),
        p(z >= upper | f) = Φ((f + level - upper) / scale).

    Responses are predictions of what is observed. `tilted` has a closed form, and `expected` one
    for numbers between the limits.

    Parameters
    ----------
    lower, upper : float, default=-inf and inf
        The known limits of observations, in units of y. They are the same for all rows.
    scale : float, default=None
        The standard deviation of the noise, in units of y. If None, a fit starts with half the
        spread of the observations.
    scale_bounds : pair of float, "fixed" or None, default=None
        The lower and upper bound on `scale`, in units of the observations. If None, a fit takes
        1e-5 and 1e5 times the spread of the observations. If set to "fixed", the scale is not
        learned.
    level : float, default=None
        The number at ``f = 0`` without noise. If None, a fit starts with the median of the
        observations.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    Numbers of which those below zero are observed as zero:

    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Censored
    >>> own = Censored(lower=0.0, scale=1.0)
    >>> mean, variance = own.response(np.zeros(1), np.zeros(1))
    >>> mean.round(3), variance.round(3)
    (array([0.399]), array([0.341]))
    >>> own.tilted(np.array([0.5, 0.0]), np.zeros(2), np.zeros(2))[0].round(3)
    array([-1.044, -0.693])
    """

    parameters = ("level", "scale")
    locations = ("level", "lower", "upper")

    def __init__(
        self,
        lower: float = -np.inf,
        upper: float = np.inf,
        scale: float | None = None,
        scale_bounds: Limits | None = None,
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(scale, scale_bounds, level, level_bounds)
        self.lower = lower
        self.upper = upper

    @property
    def ends(self) -> tuple[float, float]:
        """The limits of observations."""
        return self.lower, self.upper

    def is_density(self, y: Array) -> Bools:
        """Tell which observations are between the limits; see `Likelihood.is_density`."""
        return np.equal(*self._ends(y))

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Estimate a missing level and scale from medians; see `Likelihood.started`."""
        if self._learned() and any(np.all(np.isinf(end)) for end in self._ends(y)):
            warn(
                "All observations are at the same limit, which does not tell the level and the "
                "scale. Set level_bounds and scale_bounds to 'fixed'."
            )
        return super().started(np.clip(y, *self.ends), weight, offset)

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return the noise of numbers, and nothing at limits; see `Likelihood.first_sites`."""
        precision = self.is_density(y) / self._value("scale") ** 2
        return precision * (y - self.intercept), np.maximum(precision, SMALLEST_PRECISION)

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant location; see the base class."""

        def log_likelihood(y: Array, f: Array) -> Triple:
            value, slope, curvature = self.tilted(y, f - self.intercept, np.zeros(len(f)))
            return value, slope, np.maximum(curvature, SMALLEST_PRECISION)

        step = 10.0 * self._value("scale")
        return best_constant(log_likelihood, y, weight, offset, self.intercept, step)

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of what is observed; see `Likelihood.response`."""
        centre, variance = self._shifted(mean), variance + self._value("scale") ** 2
        std = np.sqrt(variance)
        share, spread = clipped_moments(*((end - centre) / std for end in self.ends))
        return np.clip(centre + std * share, *self.ends), variance * spread

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the quantile of what is observed; see `Likelihood.quantile`."""
        std = np.sqrt(variance + self._value("scale") ** 2)
        return np.clip(self._shifted(mean) + ndtri(q) * std, *self.ends)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Add normal noise to the latent values, up to the limits; see `Likelihood.sample`."""
        noise = random_state.normal(size=np.shape(f))
        return np.clip(self._shifted(f) + self._value("scale") * noise, *self.ends)

    def _ends(self, y: Array) -> tuple[Array, Array]:
        """Lower and upper ends (n,) of what is known of the numbers, equal between limits."""
        below, above = y <= self.lower, y >= self.upper
        lower = np.where(below, -np.inf, np.where(above, self.upper, y))
        return lower, np.where(above, np.inf, np.where(below, self.lower, y))

    def _expected(self, y: Array, mean: Array, variance: Scalars) -> Any:
        """`expected`, and its derivative with respect to the logarithm of the scale."""
        functions = _expected_log_density, _expected_log_probability
        return self._by_kind(functions, y, mean, variance, 1.0)

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> Any:
        """`tilted`, and its derivative with respect to the logarithm of the scale."""
        functions = _log_power_of_density, _log_power_of_probability
        return self._by_kind(functions, y, mean, variance, power)

    def _by_kind(
        self, functions: Any, y: Array, mean: Array, variance: Scalars, power: Scalars
    ) -> Array:
        """Results (4, n) of two functions in units of the scale, for exact numbers and others."""
        scale = self._value("scale")
        lower, upper = (end / scale for end in self._ends(y))
        exact, found = lower == upper, np.empty((4, len(mean)))
        known = lower, upper, self._shifted(mean) / scale, variance / scale**2, power
        columns = np.broadcast_arrays(*known)
        for function, rows in zip(functions, (exact, ~exact)):
            found[:, rows] = function(*(column[rows] for column in columns))
        found[0] -= exact * columns[-1] * np.log(scale)
        found[1] /= scale
        found[2] /= scale**2
        return found


def _expected_log_density(
    lower: Array, upper: Array, mean: Array, variance: Array, power: Array
) -> tuple[Array, ...]:
    """``E[log N(y; f, 1)]``, its slope, its curvature, and its derivative by the log of the scale.

    Functions of this form take ends, moments and powers (n,) in units of the scale.
    """
    distance = lower - mean
    square = distance**2 + variance
    return -0.5 * (LOG_2PI + square), distance, np.ones_like(square), square - 1.0


def _log_power_of_density(
    lower: Array, upper: Array, mean: Array, variance: Array, power: Array
) -> tuple[Array, ...]:
    """``log E[N(y; f, 1)^a]``, a normal density of the noise ``1/a`` but for a factor."""
    inverse = 1.0 / (variance + 1.0 / power)
    slope = (lower - mean) * inverse
    value = 0.5 * (np.log(inverse / power) - power * LOG_2PI - (lower - mean) * slope)
    return value, slope, inverse, 1.0 - power + (slope**2 - inverse) / power


def _log_power_of_probability(
    lower: Array, upper: Array, mean: Array, variance: Array, power: Array
) -> tuple[Array, ...]:
    """``log E[P(lower < z < upper)^a]`` for ``z ~ N(f, 1)``."""
    if np.any(power != 1.0):
        *moments, by_scale = log_moments(_at, mean, variance, power, _STRIP, lower, upper)
        return *moments, power * by_scale
    std = np.sqrt(1.0 + variance)
    ends = (lower - mean) / std, (upper - mean) / std
    value, slope, curvature = log_probability(*ends, (upper - lower) / std)
    slope, curvature = slope / std, curvature / std**2
    return value, slope, curvature, slope**2 - curvature


def _expected_log_probability(
    lower: Array, upper: Array, mean: Array, variance: Array, power: Array
) -> Array:
    """``E[log P(lower < z < upper)]`` for ``z ~ N(f, 1)``, where one end is finite."""
    found = np.zeros((4, len(mean)))
    for side, distance in ((1.0, mean - lower), (-1.0, upper - mean)):
        rows = np.isfinite(distance)
        if rows.any():
            t, spread = distance[rows], variance[rows]
            value, slope, curvature = Probit().expected(np.ones(1), t, spread)
            found[:, rows] = value, side * slope, curvature, spread * curvature - t * slope
    return found


def _at(f: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
    """The logarithm, its slope, its curvature, and its derivative, at latent values."""
    value, slope, curvature = log_probability(lower - f, upper - f, upper - lower)
    return value, slope, curvature, slope**2 - curvature

"""The likelihood of numbers that are known up to an interval."""

from typing import Any

import numpy as np
from scipy.special import ndtri

from skgp_sparse._engine.data.intervals import points
from skgp_sparse._ground.normal import LOG_2PI
from skgp_sparse._ground.tilted import log_moments
from skgp_sparse._ground.typing import Array, Bools, Limits, Scalars, Triple
from skgp_sparse._ground.warnings import warn
from skgp_sparse.likelihoods._base import SMALLEST_PRECISION, Likelihood
from skgp_sparse.likelihoods._binary import Probit
from skgp_sparse.likelihoods._location_scale import LocationScale
from skgp_sparse.likelihoods._log_concave import expect
from skgp_sparse.likelihoods._normal_intervals import clipped_moments, log_probability
from skgp_sparse.likelihoods._parametric import best_constant

_WIDE = 12.0  # width, in scales, beyond which one end does not see the other
_STRIP = 2.5  # in scales, in which probabilities of intervals have no zero


class Censored(LocationScale):
    r"""Gaussian likelihood of numbers that are exact, censored, or known up to an interval.

    The number ``z = f + level + scale e`` has normal noise ``e``. What is known of it is an
    interval with the ends ``l`` and ``u``: the likelihood is the normal density at ``z`` if both
    are equal, and otherwise

        p(l, u | f) = Φ((u - f - level) / scale) - Φ((l - f - level) / scale).

    Without limits, observations are such intervals. An end may be infinite: ``(l, inf)`` is a
    number that is larger than ``l``, and ``(-inf, inf)`` says nothing. Responses are predictions of
    ``z``. With known limits, an observation is a number, and it is censored if it is at or beyond a
    limit (the tobit model). Responses are then predictions of what is observed: of ``z``, or of
    the limit where ``z`` is beyond it. `tilted` has a closed form, and `expected` one for exact
    numbers.

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
        observations, each of which is the middle of its interval or its finite end.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    Exact numbers, and numbers above 2. The first row of `y` has the lower ends, the second one the
    upper ends:

    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Censored
    >>> y = np.array([[0.5, 2.0], [0.5, np.inf]])
    >>> Censored(scale=1.0).tilted(y, np.zeros(2), np.zeros(2))[0].round(3)
    array([-1.044, -3.783])

    Numbers of which those below zero are observed as zero:

    >>> mean, variance = Censored(lower=0.0, scale=1.0).response(np.zeros(1), np.zeros(1))
    >>> mean.round(3), variance.round(3)
    (array([0.399]), array([0.341]))
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
    def takes_intervals(self) -> bool:  # type: ignore[override]
        """Whether observations may be intervals, which is the case without limits."""
        return not np.any(np.isfinite(self.ends))

    @property
    def ends(self) -> tuple[float, float]:
        """The limits of observations."""
        return self.lower, self.upper

    def check(self, y: Array, name: str) -> None:
        """Raise if ends of intervals have the wrong order; see `Likelihood.check`."""
        if y.ndim == 1:
            return super().check(y, name)
        lower, upper = y
        wrong = (lower > upper) | ((lower == upper) & np.isinf(lower))
        if np.any(wrong):
            row = np.argmax(wrong)
            raise ValueError(
                f"{name}: the columns of y are the lower and upper ends of intervals, but "
                f"{np.count_nonzero(wrong)} rows have a lower end above the upper one, or two ends "
                f"that are the same infinity. The first one is ({lower[row]:g}, {upper[row]:g}). "
                "Use -inf or inf for an open end, and equal ends for an exact number."
            )

    def decode(self, y: Array) -> "tuple[Likelihood, Array]":
        """Return the middles of intervals, NaN where there is none; see `Likelihood.decode`."""
        return self, points(*y) if y.ndim == 2 else y

    def is_density(self, y: Array) -> Bools:
        """Tell which observations are exact; see `Likelihood.is_density`."""
        return np.equal(*self._ends(y))

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Estimate a missing level and scale from medians; see `Likelihood.started`."""
        lower, upper = self._ends(y)
        if self._learned() and any(np.all(np.isinf(end)) for end in (lower, upper)):
            warn(
                "No observation is exact, and all intervals are open on the same side, which does "
                "not tell the level and the scale. Set level_bounds and scale_bounds to 'fixed'."
            )
        middle = points(lower, upper)
        known = np.isfinite(middle)
        return super().started(middle[known], weight[known], offset[known])

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return Gaussian noise of the width of the interval; see `Likelihood.first_sites`."""
        lower, upper = self._ends(y)
        precision = 1.0 / (self._value("scale") ** 2 + (upper - lower) ** 2 / 12.0)
        centre = np.nan_to_num(points(lower, upper), nan=self.intercept)
        return precision * (centre - self.intercept), np.maximum(precision, SMALLEST_PRECISION)

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
        if self.takes_intervals:
            return centre, variance
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
        """Lower and upper ends (n,) of the intervals of observations."""
        if y.ndim == 2:
            return y[0], y[1]
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
    """``E[log P(lower < z < upper)]`` for ``z ~ N(f, 1)``; far ends contribute one by one."""
    found, wide = np.zeros((4, len(mean))), upper - lower > _WIDE
    for side, distance in ((1.0, mean - lower), (-1.0, upper - mean)):
        rows = wide & np.isfinite(distance)
        if rows.any():
            t, spread = distance[rows], variance[rows]
            value, slope, curvature = Probit().expected(np.ones(1), t, spread)
            found[:, rows] += value, side * slope, curvature, spread * curvature - t * slope
    if not wide.all():
        mid, half = 0.5 * (lower + upper)[~wide], 0.5 * (upper - lower)[~wide]
        found[:, ~wide] = expect(_at, mean[~wide] - mid, variance[~wide], -half, half, strip=_STRIP)
    return found


def _at(f: Array, lower: Array, upper: Array) -> tuple[Array, ...]:
    """The logarithm, its slope, its curvature, and its derivative, at latent values."""
    value, slope, curvature = log_probability(lower - f, upper - f, upper - lower)
    return value, slope, curvature, slope**2 - curvature

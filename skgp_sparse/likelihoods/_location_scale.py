"""Likelihoods of numbers with outliers (Student-t), and of numbers that are censored."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, ndtr, stdtr

from skgp_sparse.exceptions import warn
from skgp_sparse.ground.integrals import alike, expectation, trapezoid
from skgp_sparse.ground.linalg import LOG_2PI, SMALLEST_PRECISION, row_dots
from skgp_sparse.ground.validation import Array, Bools, Limits, Scalars, Triple

from ._base import Likelihood, LocationScale, best_constant
from ._labels import Probit, clipped_moments
from ._special import digamma_rest, gamma_peak


@dataclass(eq=False, repr=False)
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

    lower: float = -np.inf
    upper: float = np.inf
    scale: float | None = None
    scale_bounds: Limits | None = None
    level: float | None = None
    level_bounds: Limits = (-np.inf, np.inf)

    parameters = ("level", "scale")
    locations = ("level", "lower", "upper")

    @property
    def ends(self) -> tuple[float, float]:
        """The limits of observations."""
        return self.lower, self.upper

    def is_density(self, y: Array) -> Bools:
        """Tell which observations are between the limits; see `Likelihood.is_density`."""
        return (y > self.lower) & (y < self.upper)

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Estimate a missing level and scale from medians; see `Likelihood.started`."""
        if self._learned() and (np.all(y <= self.lower) or np.all(y >= self.upper)):
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

        def at(f: Array) -> Triple:
            value, slope, curvature = self.tilted(y, f - self.intercept, np.zeros(len(f)))
            return value, slope, np.maximum(curvature, SMALLEST_PRECISION)

        return best_constant(at, weight, offset, self.intercept, 10.0 * self._value("scale"))

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of what is observed; see `Likelihood.response`."""
        centre, variance = self._shifted(mean), variance + self._value("scale") ** 2
        std = np.sqrt(variance)
        share, spread = clipped_moments(*((end - centre) / std for end in self.ends))
        return np.clip(centre + std * share, *self.ends), variance * spread

    def cdf(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the closed form of what is observed; see `Likelihood.cdf`."""
        below = ndtr((y - self._shifted(mean)) / np.sqrt(variance + self._value("scale") ** 2))
        return np.where(y < self.lower, 0.0, np.where(y >= self.upper, 1.0, below))

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the quantile of what is observed; see `Likelihood.quantile`."""
        return np.clip(self._guess(q, mean, variance)[0], *self.ends)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Add normal noise to the latent values, up to the limits; see `Likelihood.sample`."""
        noise = random_state.normal(size=np.shape(f))
        return np.clip(self._shifted(f) + self._value("scale") * noise, *self.ends)

    # in units of the scale, which changes t, v and exact numbers
    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars | None = None) -> Any:
        """`tilted` of a power, otherwise `expected`, and its derivative in the log scale."""
        scale, exact, tilts = self._value("scale"), self.is_density(y), power is not None
        t = (self._shifted(mean) - np.clip(y, *self.ends)) / scale
        side = np.where(y >= self.upper, 1.0, -1.0)
        known = np.broadcast_arrays(side, t, variance / scale**2, 1.0 if power is None else power)
        found, of_numbers = np.empty((3, len(t))), _log_power_of_normal if tilts else _log_of_normal
        found[:, exact] = of_numbers(*(column[exact] for column in known[1:]))
        if not exact.all():
            some = [column[~exact] for column in known]
            found[:, ~exact] = Probit().tilted(*some) if tilts else Probit().expected(*some[:3])
        value, slope, curvature = found
        unit, spread = exact * known[3], curvature - tilts * slope**2
        by_scale = known[2] * spread - t * slope - unit
        return value - unit * np.log(scale), slope / scale, curvature / scale**2, by_scale

    _expected = _tilted  # without a power


def _log_of_normal(t: Array, variance: Array, _: Array) -> Triple:
    """``E[log N(0; f, 1)]`` for ``f ~ N(t, variance)``."""
    return -0.5 * (LOG_2PI + t**2 + variance), -t, np.ones_like(t)


def _log_power_of_normal(t: Array, variance: Array, power: Array) -> Triple:
    """``log E[N(0; f, 1)^power]`` for ``f ~ N(t, variance)``."""
    inverse = 1.0 / (variance + 1.0 / power)
    return 0.5 * (np.log(inverse / power) - power * LOG_2PI - t**2 * inverse), -t * inverse, inverse


_NEAREST = 3.0  # distance of the poles: that of the singularities of `expectation`, and more
_FALL = 42.0  # of the log integrand, to where sums over the precision go
_STEPS_PER_WIDTH, _STEPS_PER_STRIP = 2.4, 7.0


@dataclass(eq=False, repr=False)
class StudentT(LocationScale):
    r"""Student-t likelihood: ``y = f + level + scale t``, where ``t`` has `df` degrees of freedom.

    Observations far from ``f`` count less than under a Gaussian likelihood. The likelihood is not
    log-concave: the curvature of an outlier is negative. Expectations are numerical integrals.
    That of `tilted` is over the precision ``λ`` of the noise, as a Student-t distribution is a
    mixture of ``N(0, scale²/λ)`` in which ``λ`` has a gamma distribution. See Jylänki, Vanhatalo
    and Vehtari (2011), "Robust Gaussian process regression with a Student-t likelihood".

    Parameters
    ----------
    scale : float, default=None
        The scale of the noise, in units of the observations. If None, a fit starts with half the
        spread of the observations.
    scale_bounds : pair of float, "fixed" or None, default=None
        The lower and upper bound on `scale`, in units of the observations. If None, a fit takes
        1e-5 and 1e5 times the spread of the observations. If set to "fixed", the scale is not
        learned.
    df : float, default=4.0
        The degrees of freedom.
    df_bounds : pair of float or "fixed", default=(1.5, 1e3)
        The lower and upper bound on `df`. If set to "fixed", `df` is not learned.
    level : float, default=None
        The observation at ``f = 0`` without noise. If None, a fit starts with the median of the
        observations.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import StudentT
    >>> StudentT(scale=1.0).response(np.zeros(1), np.ones(1))
    (array([0.]), array([3.]))
    >>> y, f = np.array([0.5, 20.0]), np.zeros(2)
    >>> StudentT(scale=1.0).expected(y, f, f + 0.1)[1].round(3)
    array([0.553, 0.248])
    """

    scale: float | None = None
    scale_bounds: Limits | None = None
    df: float = 4.0
    df_bounds: Limits = (1.5, 1e3)
    level: float | None = None
    level_bounds: Limits = (-np.inf, np.inf)

    is_log_concave = False
    parameters = ("level", "scale", "df")

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return Gaussian noise of twice the squared scale; see `Likelihood.first_sites`."""
        precision = np.full(len(y), 0.5 / self._value("scale") ** 2)
        return precision * (y - self.intercept), precision

    def majorised(self) -> "Likelihood | None":
        """Return the bound of one Gaussian per row; see `Likelihood.majorised`."""
        return _ScaleMixture(**self.get_params(deep=False))

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant location; see the base class."""
        mixture = _ScaleMixture(**self.get_params())
        at = lambda f: mixture.expected(y, f - self.intercept, 0.0)
        return best_constant(at, weight, offset, self._first_level(y, weight, offset), np.inf)

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation; the variance is infinite for df <= 2."""
        noise = self._value("scale") ** 2 * self.df / (self.df - 2.0) if self.df > 2.0 else np.inf
        return self._shifted(mean), variance + noise

    def _cdf(self, t: Array, mean: Array, variance: Array) -> Array:
        scale = self._value("scale")
        unit = min(self._reach() / _NEAREST, scale)
        given = lambda x: (stdtr(self.df, -unit / scale * x),)
        return expectation(given, (self._shifted(mean) - t) / unit, variance / unit**2)[0]

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Add Student-t noise to the latent values; see `Likelihood.sample`."""
        noise = random_state.standard_t(self.df, size=np.shape(f))
        return self._shifted(f) + self._value("scale") * noise

    def _reach(self) -> float:
        """Half-width of the strip in which ``log p`` is analytic."""
        return self._value("scale") * np.sqrt(self.df)

    def _expected(self, y: Array, mean: Array, variance: Array) -> tuple[Any, ...]:
        """`expected`, and its derivatives with respect to the logarithms of scale and df."""
        df, half, a = self.df, 0.5 * self.df, self._reach()
        log, share, slope, curvature = self._parts(y - self._shifted(mean), variance)
        ratio = gammaln(half + 0.5) - gammaln(half)
        peak = ratio - 0.5 * np.log(np.pi * df) - np.log(self._value("scale"))  # at f = y
        scale = (df + 1.0) * share - 1.0
        change = digamma(half + 0.5) - digamma(half) - 1.0 / df - log
        by_df = 0.5 * (df * change + (df + 1.0) * share)
        value, slope = peak - 0.5 * (df + 1.0) * log, (df + 1.0) / a * slope
        return value, slope, (df + 1.0) / a**2 * curvature, scale, by_df

    def _parts(self, distance: Array, variance: Array) -> tuple[Array, ...]:
        """Expectations of what `_of_outliers` returns for ``x = (y - f - level) / a``."""
        factor = _NEAREST / self._reach()
        return expectation(_of_outliers, factor * distance, factor**2 * variance)

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> Any:
        """`tilted`, and its derivatives in log scale and df: sums over ``u``, the log precision."""
        if np.any(np.asarray(power) != 1.0):
            raise NotImplementedError("StudentT has no moments of powers. Use a variational bound.")
        half, distance, square = 0.5 * self.df, y - self._shifted(mean), self._value("scale") ** 2
        few = _FALL / self.df
        step = min(np.sqrt(1.0 / (half + 0.5)) / _STEPS_PER_WIDTH, 0.5 * np.pi / _STEPS_PER_STRIP)
        left = 2.0 * few + min(1.0, 2.0 * few**0.5)
        left = left + np.log(np.maximum(1.0, (distance**2 - variance) / square))
        right = 1.0 / self.df + np.sqrt(1.0 / self.df**2 + 4.0 * few)
        sums = np.empty((5, len(y)))
        for rows, number in alike(np.ceil(left / step) + 1.0):
            u = step * np.arange(-number, np.ceil(right / step) + 1.0)
            noise = square * np.exp(-u)
            inverse = 1.0 / (variance[rows, None] + noise)
            pull = distance[rows, None] * inverse
            squares = distance[rows, None] * pull
            density = gamma_peak(half) + half * (u - np.expm1(u))
            value, weights = trapezoid(0.5 * (np.log(inverse) - squares) + density, step)
            slope = row_dots(weights, pull)
            curvature = row_dots(weights, inverse) - row_dots(weights, (pull - slope[:, None]) ** 2)
            scale = row_dots(weights, (squares - 1.0) * inverse * noise)
            by_df = half * (digamma_rest(half) + weights @ (u - np.expm1(u)))
            sums[:, rows] = value, slope, curvature, scale, by_df
        return sums


class _ScaleMixture(StudentT):
    """Lower bound of the expected Student-t likelihood, by one Gaussian for each row.

    ``E[log(1 + e²/a²)] <= log(1 + E[e²]/a²)``. `expected` returns a positive precision in the
    place of the curvature, with which the fixed point of the sites is the optimum of the bound.
    """

    is_log_concave = True

    def majorised(self) -> "Likelihood | None":
        return None

    def _parts(self, distance: Array, variance: Array) -> tuple[Array, ...]:
        a = self._reach()
        square = (distance**2 + variance) / a**2
        precision = 1.0 / (1.0 + square)
        return np.log1p(square), square * precision, distance / a * precision, precision


def _of_outliers(x: Array) -> tuple[Array, ...]:
    """``log(1 + x²)``, ``x² / (1 + x²)``, ``x / (1 + x²)`` and the derivative of the last."""
    x = x / _NEAREST
    square = x * x
    precision = 1.0 / (1.0 + square)
    slope = x * precision
    return np.log1p(square), square * precision, slope, precision - 2.0 * slope**2

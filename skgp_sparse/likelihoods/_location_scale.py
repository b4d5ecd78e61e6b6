"""Likelihoods of numbers with outliers (Student-t), and of numbers that are censored."""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import digamma, gammaln, ndtri, stdtr, wofz

from skgp_sparse.exceptions import warn
from skgp_sparse.ground.integrals import alike, expectation, log_moments, means, trapezoid
from skgp_sparse.ground.linalg import LOG_2PI, SMALLEST_PRECISION
from skgp_sparse.ground.validation import Array, Bools, Index, Limits, Scalars, Triple
from skgp_sparse.likelihoods._base import (
    Likelihood,
    LocationScale,
    best_constant,
    median,
)
from skgp_sparse.likelihoods._binary import Probit
from skgp_sparse.likelihoods._special import (
    clipped_moments,
    digamma_rest,
    gamma_peak,
    log_probability,
    solve_quantile,
)

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


_NEAREST = 2.8  # distance of the singularities that `expectation` assumes
_FAR, _TERMS = 10.0, 14  # of the Faddeeva function, from where its series serves, and its terms
_SMALLEST_SHARE = 1e-20  # of a variance, relative to the distance of the singularities squared
_FALL = 42.0  # of the log integrand, to where sums over the precision go
_STEPS_PER_WIDTH, _STEPS_PER_STRIP = 2.4, 7.0


class StudentT(LocationScale):
    r"""Student-t likelihood: ``y = f + level + scale t``, where ``t`` has `df` degrees of freedom.

    Observations far from ``f`` count less than under a Gaussian likelihood. The likelihood is not
    log-concave: the curvature of an outlier is negative. With ``a = scale √df`` and the Faddeeva
    function ``w``, the slope of the expected log likelihood for ``f + level ~ N(m, s)`` is

        (df + 1) √(π/(2s)) Im w(z),    z = (y - m + i a) / √(2s).

    `tilted` is an integral over the precision ``λ`` of the noise, as a Student-t distribution is a
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

    is_log_concave = False
    parameters = ("level", "scale", "df")

    def __init__(
        self,
        scale: float | None = None,
        scale_bounds: Limits | None = None,
        df: float = 4.0,
        df_bounds: Limits = (1.5, 1e3),
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(scale, scale_bounds, level, level_bounds)
        self.df = df
        self.df_bounds = df_bounds

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return Gaussian noise of twice the squared scale; see `Likelihood.first_sites`."""
        precision = np.full(len(y), 0.5 / self._value("scale") ** 2)
        return precision * (y - self.intercept), precision

    def majorised(self) -> "Likelihood | None":
        """Return the bound of one Gaussian per row; see `Likelihood.majorised`."""
        return _ScaleMixture(**self.get_params(deep=False))

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant location; see the base class."""
        mixture, level = _ScaleMixture(**self.get_params()), median(y - offset, weight)

        def log_likelihood(y: Array, f: Array) -> Triple:
            return mixture.expected(y, f - self.intercept, 0.0)

        return best_constant(log_likelihood, y, weight, offset, level, largest_step=np.inf)

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation; the variance is infinite for df <= 2."""
        df = self.df
        noise = self._value("scale") ** 2 * df / (df - 2.0) if df > 2.0 else np.inf
        return self._shifted(mean), variance + noise

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the quantile of a continuous distribution; see `Likelihood.quantile`."""
        scale = self._value("scale")

        def cdf(t: Array, rows: Index) -> Array:
            unit = min(self._reach() / _NEAREST, scale)
            given = lambda x: (stdtr(self.df, -unit / scale * x),)
            return expectation(given, -t / unit, variance[rows] / unit**2)[0]

        width = np.sqrt(variance + scale**2)
        return self._shifted(mean) + solve_quantile(cdf, q, ndtri(q) * width, width)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Add Student-t noise to the latent values; see `Likelihood.sample`."""
        noise = random_state.standard_t(self.df, size=np.shape(f))
        return self._shifted(f) + self._value("scale") * noise

    def _reach(self) -> float:
        """Half-width of the strip in which ``log p`` is analytic."""
        return self._value("scale") * np.sqrt(self.df)

    def _expected(self, y: Array, mean: Array, variance: Array) -> tuple[Any, ...]:
        """`expected`, and its derivatives with respect to the logarithms of scale and df."""
        df, half, distance = self.df, 0.5 * self.df, y - self._shifted(mean)
        log, share = self._logs(distance, variance)
        slope, curvature = self._pull(distance, variance)
        ratio = gammaln(half + 0.5) - gammaln(half)
        peak = ratio - 0.5 * np.log(np.pi * df) - np.log(self._value("scale"))  # at f = y
        scale = (df + 1.0) * share - 1.0
        change = digamma(half + 0.5) - digamma(half) - 1.0 / df - log
        by_df = 0.5 * (df * change + (df + 1.0) * share)
        value = peak - 0.5 * (df + 1.0) * log
        return value, (df + 1.0) * slope, (df + 1.0) * curvature, scale, by_df

    def _logs(self, distance: Array, variance: Array) -> tuple[Array, Array]:
        """``E[log(1 + e²/a²)]`` and ``E[e²/(a² + e²)]``, where ``e = y - f - level``."""
        factor = _NEAREST / self._reach()
        return expectation(_log_and_share, factor * distance, factor**2 * variance)

    def _pull(self, distance: Array, variance: Array) -> tuple[Array, Array]:
        """``E[e/(a² + e²)]`` and its negative derivative with respect to the mean."""
        reach = self._reach()
        variance = np.maximum(variance, _SMALLEST_SHARE * (reach**2 + distance**2))
        width, root = np.sqrt(2.0 * variance), np.sqrt(np.pi)
        z = (distance + 1j * reach) / width
        near = wofz(z)
        bend = 2j / root - 2.0 * z * near
        far = np.abs(z) > _FAR
        bend[far] = _derivative_far_out(z[far])
        return root / width * near.imag, root / width**2 * bend.imag

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> Any:
        """`tilted`, and its derivatives with respect to the logarithms of scale and df."""
        if np.any(np.asarray(power) != 1.0):
            raise NotImplementedError("StudentT has no moments of powers. Use a variational bound.")
        distance, square = y - self._shifted(mean), self._value("scale") ** 2
        excess = np.maximum(1.0, (distance**2 - variance) / square)
        end = _left_end(self.df) + np.log(excess)
        sums = np.empty((5, len(y)))
        for rows, number in alike(np.ceil(end / _step(self.df)) + 1.0):
            u, logs = _precisions(self.df, number * _step(self.df))
            sums[:, rows] = self._sum(distance[rows], variance[rows], u, logs)
        return sums

    def _sum(self, distance: Array, variance: Array, u: Array, logs: Array) -> tuple[Any, ...]:
        """Trapezoidal sums over ``u``, the logarithm of the precision."""
        noise = self._value("scale") ** 2 * np.exp(-u)
        inverse = 1.0 / (variance[:, None] + noise)
        pull = distance[:, None] * inverse
        square = distance[:, None] * pull
        exponent = 0.5 * (np.log(inverse) - square) + logs
        value, weights = trapezoid(exponent, _step(self.df))
        slope = means(weights, pull)
        curvature = means(weights, inverse) - means(weights, (pull - slope[:, None]) ** 2)
        scale = means(weights, (square - 1.0) * inverse * noise)
        half = 0.5 * self.df
        df = half * (digamma_rest(half) + weights @ (u - np.expm1(u)))
        return value, slope, curvature, scale, df


class _ScaleMixture(StudentT):
    """Lower bound of the expected Student-t likelihood, by one Gaussian for each row.

    The logarithm of an expectation replaces the expectation of the logarithm:
    ``E[log(1 + e²/a²)] <= log(1 + E[e²]/a²)``. `expected` returns a positive precision in the place
    of the curvature, with which the fixed point of the sites is the optimum of the bound.
    """

    is_log_concave = True

    def majorised(self) -> "Likelihood | None":
        return None

    def _pull(self, distance: Array, variance: Array) -> tuple[Array, Array]:
        precision = 1.0 / (self._reach() ** 2 + distance**2 + variance)
        return precision * distance, precision

    def _logs(self, distance: Array, variance: Array) -> tuple[Array, Array]:
        square, reach = distance**2 + variance, self._reach() ** 2
        return np.log1p(square / reach), square / (reach + square)


def _log_and_share(x: Array) -> tuple[Array, Array]:
    square = (x / _NEAREST) ** 2
    return np.log1p(square), square / (1.0 + square)


def _derivative_far_out(z: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
    """Derivative of the Faddeeva function by its asymptotic series."""
    term = -1j / np.sqrt(np.pi) / z**2
    total = term.copy()
    for k in range(1, _TERMS):
        term = term * (k + 0.5) / z**2
        total += term
    return total


def _step(df: float) -> float:
    return min(np.sqrt(2.0 / (df + 1.0)) / _STEPS_PER_WIDTH, 0.5 * np.pi / _STEPS_PER_STRIP)


@lru_cache(maxsize=64)
def _left_end(df: float) -> float:
    """How far below 0 the log of the precision is practically never."""
    return brentq(lambda u: 0.5 * df * (u + np.expm1(-u)) - _FALL, 0.0, 2.0 * _FALL / df + 3.0)


@lru_cache(maxsize=64)
def _right_end(df: float) -> float:
    low = np.log1p(1.0 / df)
    return brentq(lambda u: 0.5 * df * (np.expm1(u) - u) - 0.5 * u - _FALL, low, low + 12.0)


def _precisions(df: float, left: float) -> tuple[Array, Array]:
    """Nodes from -left on for the log of the precision, and the log of its density there."""
    step, half = _step(df), 0.5 * df
    u = step * np.arange(-np.ceil(left / step), np.ceil(_right_end(df) / step) + 1.0)
    return u, gamma_peak(half) + half * (u - np.expm1(u))

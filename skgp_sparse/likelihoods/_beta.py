"""The beta likelihood."""

from typing import Any

import numpy as np
from scipy.special import betainc, digamma, expit, gammaln, log_expit, logit, ndtri, zeta

from skgp_sparse._ground.quadrature import expectation, log_moments_of_one_top
from skgp_sparse._ground.validation import Array, Index, Limits, Scalars, Triple
from skgp_sparse.likelihoods import _special as special
from skgp_sparse.likelihoods._base import Domain, LevelLikelihood, Likelihood, best_constant, expect
from skgp_sparse.likelihoods._quantiles import solve_quantile

_STRIP = 0.5 * np.pi  # beyond which powers of the sigmoid grow like the counts
_WIDEST = 0.56  # unit of the latent value: the strip, where `expectation` assumes 2.8
_LEAST_PRECISION = 1e-6  # of a site to start with
_HALVINGS, _REACH = 30, 10.0  # of an interval that contains the top
_FURTHEST, _WIDEST_GUESS = 700.0, 100.0  # logits of quantiles to start with
_TINY = 1e-300
_LEAST, _MOST = np.finfo(float).tiny, 1.0 - 0.5 * np.finfo(float).eps  # numbers between 0 and 1


class Beta(LevelLikelihood):
    r"""Beta likelihood of numbers between 0 and 1 with mean ``μ = s(f + level)``.

    Its variance is ``μ (1 - μ) / (1 + precision)``, and ``s`` is the logistic sigmoid. With
    ``a = precision μ`` and ``b = precision (1 - μ)``,

        p(y | f) = y^(a - 1) (1 - y)^(b - 1) Γ(a + b) / (Γ(a) Γ(b)).

    Expectations are computed by numerical integrals. The likelihood is not log-concave: see
    Ferrari and Cribari-Neto (2004), "Beta regression for modelling rates and proportions". The
    numbers 0 and 1 have no finite density, and are refused.

    Parameters
    ----------
    precision : float, default=10.0
        The precision of an observation: the larger, the less it varies.
    precision_bounds : pair of float or "fixed", default=(1e-2, 1e5)
        The lower and upper bound on `precision`. If set to "fixed", the precision is not learned.
    level : float, default=None
        The logit of the mean at ``f = 0``. If None, a fit starts with the logit of the mean
        observation.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Beta
    >>> Beta(precision=4.0).response(np.zeros(1), np.zeros(1))
    (array([0.5]), array([0.05]))
    >>> Beta().quantile(0.5, np.zeros(1), np.ones(1)).round(6)
    array([0.5])
    """

    is_log_concave = False
    latent_variance = (1e-2, 50.0)  # means saturate beyond
    domain = Domain(
        "numbers 0 < y < 1",
        low=0.0,
        high=1.0,
        without=(0.0, 1.0),
        remedy="Replace y by (y (n - 1) + 0.5) / n for n rows (Smithson and Verkuilen 2006).",
    )
    parameters = ("level", "precision")
    _share = property(lambda self: 1.0 / (1.0 + self.precision))  # of mean (1 - mean)

    def __init__(
        self,
        precision: float = 10.0,
        precision_bounds: Limits = (1e-2, 1e5),
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(level, level_bounds)
        self.precision = precision
        self.precision_bounds = precision_bounds

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Set a missing level to the logit of the mean observation; see `Likelihood.started`."""
        if self.level is not None:
            return self
        return self._with({"level": self._within("level", self._best_level(y, weight, offset))})

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return sites whose mode is near the observation; see `Likelihood.first_sites`."""
        count = 1.0 / self._share
        mean = (count * y + 0.5) / (count + 1.0)
        precision = np.maximum(count * mean * (1.0 - mean), _LEAST_PRECISION)
        return precision * (logit(mean) - self.intercept), precision

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant mean, but for offsets; see the base class."""
        level = self._best_level(y, weight, offset)
        return best_constant(self._at_level, y, weight, offset, level)

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation; see `Likelihood.response`."""
        p, slope = expectation(_sigmoid_and_slope, self._shifted(mean), variance)
        p = np.minimum(p, 1.0)  # weights add up to 1 but for rounding
        return p, np.maximum(p * (1.0 - p) - slope * (1.0 - self._share), 0.0)

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute a quantile, which is not rounded to 0 or 1; see `Likelihood.quantile`."""
        mean = self._shifted(mean)
        a, b = self._shapes(mean)
        width = np.minimum(np.sqrt(variance + zeta(2.0, a) + zeta(2.0, b)), _WIDEST_GUESS)
        guess = np.clip(digamma(a) - digamma(b), -_FURTHEST, _FURTHEST) + ndtri(q) * width

        def cdf(t: Array, rows: Index) -> Array:
            return self._cdf(t, mean[rows], variance[rows])

        return np.clip(expit(solve_quantile(cdf, q, guess, width)), _LEAST, _MOST)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw numbers, none of which is rounded to 0 or 1; see `Likelihood.sample`."""
        return np.clip(random_state.beta(*self._shapes(self._shifted(f))), _LEAST, _MOST)

    def _best_level(self, y: Array, weight: Array, offset: Array) -> float:
        count = weight / self._share
        mean = (count @ y + 0.5) / (count.sum() + 1.0)  # never 0 or 1
        return float(logit(mean) - np.average(offset, weights=weight))

    def _expected(self, y: Array, mean: Array, variance: Array) -> tuple[Any, ...]:
        """`expected`, and its derivative with respect to the logarithm of the precision."""
        return expect(self._at, self._shifted(mean), variance, y, strip=np.pi)

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> tuple[Any, ...]:
        """`tilted`, and its derivative with respect to the logarithm of the precision."""
        if np.any(np.asarray(power) != 1.0):
            raise NotImplementedError("Beta has no moments of powers. Use a variational bound.")
        tops, mean = self._tops(logit(y)), self._shifted(mean)
        return log_moments_of_one_top(self._at, mean, variance, _STRIP, y, tops=tops)

    def _at_level(self, y: Array, f: Array) -> Triple:
        value, slope, *_ = self._at(f, y)
        return value, slope, self._information(f)

    def _shapes(self, f: Array) -> tuple[Array, Array]:
        sizes = self.precision * expit(f), self.precision * expit(-f)
        return np.maximum(sizes[0], _TINY), np.maximum(sizes[1], _TINY)

    def _at(self, f: Array, y: Array) -> tuple[Array, ...]:
        """``log p``, its slope, its curvature, and its slope in the log of the precision.

        With ``A = a ψ(a)``, which is -1 where a is 0, no sum has an infinite part.
        """
        size, s, rest = self.precision, expit(f), expit(-f)
        a, b, log, log_rest = size * s, size * rest, np.log(y), np.log1p(-y)
        value = (a - 1.0) * log + (b - 1.0) * log_rest + gammaln(size) - gammaln(1.0 + a)
        value += 2.0 * np.log(size) + log_expit(f) + log_expit(-f) - gammaln(1.0 + b)
        A, B = a * digamma(1.0 + a) - 1.0, b * digamma(1.0 + b) - 1.0
        slope = a * rest * (log - log_rest) - rest * A + s * B
        curvature = (s - rest) * slope + self._information(f)
        rise = a * log + b * log_rest - A - B + size * digamma(size)
        return value, slope, curvature, rise

    def _information(self, f: Array) -> Array:
        """Expected curvature of an observation, ``a² ψ'(a) (1 - μ)² + b² ψ'(b) μ²``."""
        s, rest = expit(f), expit(-f)
        a, b = self.precision * s, self.precision * rest
        own, other = (1.0 + x * x * special.trigamma(1.0 + x) for x in (a, b))
        return rest * rest * own + s * s * other

    def _tops(self, t: Array) -> tuple[Array, Array]:
        """Latent values of highest density of observations with these logits, and curvatures."""
        reach = np.abs(t) + abs(np.log(self.precision)) + _REACH
        low, high = -reach, reach
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            a, b = self._shapes(middle)
            is_left = digamma(a) - digamma(b) < t
            low, high = np.where(is_left, middle, low), np.where(is_left, high, middle)
        return middle, self._information(middle)

    def _cdf(self, t: Array, mean: Array, variance: Array) -> Array:
        """Probability that the logit of an observation is at most t."""
        top, gain = self._tops(t)
        unit = np.minimum(gain**-0.5, _WIDEST)

        def given(x: Array, top: Array, unit: Array, t: Array) -> tuple[Array]:
            a, b = self._shapes(top + unit * x)
            return (np.where(t < 0, betainc(a, b, expit(t)), 1.0 - betainc(b, a, expit(-t))),)

        by_row = (mean - top) / unit, variance / unit**2, top, unit, t
        return expectation(given, *by_row)[0]


def _sigmoid_and_slope(f: Array) -> tuple[Array, Array]:
    s = expit(f)
    return s, s * expit(-f)

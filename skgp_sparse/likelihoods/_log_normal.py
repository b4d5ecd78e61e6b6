"""The lognormal likelihood."""

from typing import Any

import numpy as np
from scipy.special import ndtri

from skgp_sparse._ground.normal import LOG_2PI
from skgp_sparse._ground.typing import Array, Limits, Scalars
from skgp_sparse.likelihoods._base import Likelihood
from skgp_sparse.likelihoods._gamma import POSITIVE
from skgp_sparse.likelihoods._parametric import LogLink

_SHARE_OF_NOISE = 0.5  # of the spread of the logarithms, to start with


class LogNormal(LogLink):
    r"""Lognormal likelihood of positive numbers: ``log y = f + level + scale z``, ``z ~ N(0, 1)``.

    The median is ``exp(f + level)``, and the mean is larger by the factor ``exp(scale²/2)``. The
    density is that of ``y``, not of its logarithm. Sites are Gaussian functions, so that inference
    has no error but that of the bound: with all rows as inducing points, it is exact. With
    ``r = log y - f - level`` for ``f ~ N(mean, variance)``,

        E[log p] = -log y - log(2π scale²)/2 - (E[r]² + variance) / (2 scale²).

    Parameters
    ----------
    scale : float, default=None
        The standard deviation of the noise of ``log y``. If None, a fit starts with half the
        standard deviation of ``log y``.
    scale_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        The lower and upper bound on `scale`. If set to "fixed", the scale is not learned.
    level : float, default=None
        The logarithm of the median at ``f = 0``. If None, a fit starts with the mean of ``log y``.
    level_bounds : pair of float or "fixed", default=(-inf, inf)
        The lower and upper bound on `level`. If set to "fixed", the level is not learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import LogNormal
    >>> LogNormal(scale=1.0).response(np.zeros(1), np.zeros(1))[0].round(3)
    array([1.649])
    >>> LogNormal(scale=1.0).quantile(0.5, np.zeros(1), np.ones(1))
    array([1.])
    """

    domain = POSITIVE
    parameters = ("level", "scale")
    may_be_none = ("level", "scale")
    _share = 0.0

    def __init__(
        self,
        scale: float | None = None,
        scale_bounds: Limits = (1e-5, 1e5),
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(level, level_bounds)
        self.scale = scale
        self.scale_bounds = scale_bounds

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Estimate a missing level and scale from logarithms; see `Likelihood.started`."""
        level, spread = _moments(y, weight, offset)
        values = {}
        if self.level is None:
            values["level"] = self._within("level", level)
        if self.scale is None:
            values["scale"] = self._within("scale", _SHARE_OF_NOISE * spread or 1.0)
        return self._with(values)

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return the likelihood itself as a function of ``f``; see `Likelihood.first_sites`."""
        precision = np.full(len(y), self._value("scale") ** -2.0)
        return precision * (np.log(y) - self.intercept), precision

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of the best median and scale; see the base class."""
        spread = max(_moments(y, weight, offset)[1], np.finfo(float).tiny)
        constant = 0.5 * (LOG_2PI + 1.0) + np.log(spread)
        return -(weight @ (np.log(y) + constant))

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation; see `Likelihood.response`."""
        return super().response(mean, variance + self._value("scale") ** 2)

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the closed form; see `Likelihood.quantile`."""
        width = np.sqrt(variance + self._value("scale") ** 2)
        with np.errstate(over="ignore"):
            return np.exp(self._shifted(mean) + ndtri(q) * width)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw positive numbers, none of which is rounded to zero; see `Likelihood.sample`."""
        noise = self._value("scale") * random_state.normal(size=np.shape(f))
        with np.errstate(over="ignore"):
            return np.maximum(np.exp(self._shifted(f) + noise), np.finfo(float).tiny)

    def _expected(self, y: Array, mean: Array, variance: Scalars) -> tuple[Any, ...]:
        """`expected`, and its derivative with respect to the logarithm of the scale."""
        noise, logs = self._value("scale") ** 2, np.log(y)
        rest = logs - self._shifted(mean)
        square = (rest**2 + variance) / noise
        value = -logs - 0.5 * (LOG_2PI + np.log(noise) + square)
        return value, rest / noise, np.full(len(y), 1.0 / noise), square - 1.0

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> tuple[Any, ...]:
        """`tilted`, and its derivative with respect to the logarithm of the scale."""
        noise, logs = self._value("scale") ** 2, np.log(y)
        rest, own = logs - self._shifted(mean), noise / power  # of the power, which is Gaussian too
        total = own + variance
        value = -power * logs - 0.5 * (np.log(total / own) + power * (LOG_2PI + np.log(noise)))
        value -= 0.5 * rest**2 / total
        scale = own * (rest**2 / total - 1.0) / total + 1.0 - power
        return value, rest / total, np.broadcast_to(1.0 / total, value.shape), scale


def _moments(y: Array, weight: Array, offset: Array) -> tuple[float, float]:
    """Mean and standard deviation of logarithms without their offsets."""
    logs = np.log(y) - offset
    mean = np.average(logs, weights=weight)
    return float(mean), float(np.sqrt(np.average((logs - mean) ** 2, weights=weight)))

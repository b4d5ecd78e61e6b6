"""The gamma likelihood."""

from typing import Any

import numpy as np

from skgp_sparse._ground.typing import Array, Limits, Scalars
from skgp_sparse.likelihoods import _special as special
from skgp_sparse.likelihoods._base import Domain
from skgp_sparse.likelihoods._parametric import log_of_mean
from skgp_sparse.likelihoods._quantiles import gamma_quantile


class Gamma(special.Exponential):
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
        remedy='Use likelihood="poisson" if there are zeros, or likelihood="student_t".',
    )
    parameters = ("level", "shape")
    sign = -1.0
    _share = property(lambda self: 1.0 / self.shape)

    def __init__(
        self,
        shape: float = 1.0,
        shape_bounds: Limits = (1e-3, 1e5),
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(level, level_bounds)
        self.shape = shape
        self.shape_bounds = shape_bounds

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return sites whose mode is the observation; see `Likelihood.first_sites`."""
        precision = np.full(len(y), float(self.shape))
        return precision * (np.log(y) - self.intercept), precision

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the quantile of a continuous distribution; see `Likelihood.quantile`."""
        return gamma_quantile(q, self._shifted(mean), variance, self.shape)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw positive numbers, none of which is rounded to zero; see `Likelihood.sample`."""
        return np.maximum(self._draw_means(f, random_state), np.finfo(float).tiny)

    def _best_level(self, y: Array, weight: Array, offset: Array) -> float:
        return log_of_mean(y * np.exp(-offset), weight, np.zeros(len(y)))

    def _form(self, y: Array, mean: Array) -> tuple[Any, ...]:
        k = self.shape
        return k, k, np.log(y) - self._shifted(mean), special.gamma_peak(k) - np.log(y)

    def _others(self, y: Array, slope: Array, power: Scalars, exponent: Array) -> dict[str, Array]:  # type: ignore[override]
        return {"shape": power * (self.shape * special.digamma_rest(self.shape) + exponent)}

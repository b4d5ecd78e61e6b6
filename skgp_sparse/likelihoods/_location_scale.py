"""Likelihoods of numbers with noise: a level and a scale in units of the observations."""

from typing import Any

import numpy as np

from skgp_sparse._ground.typing import Array, Limits
from skgp_sparse.likelihoods._base import Likelihood
from skgp_sparse.likelihoods._parametric import LevelLikelihood

_MAD = 1.4826  # standard deviations per median absolute deviation, of a normal distribution
_SHARE_OF_NOISE = 0.5  # of the spread of the observations, to start with
_BOUNDS = 1e-5, 1e5  # on the scale, in units of that spread
_TAIL, _CENTRAL = 0.05, 3.29  # width, in standard deviations, between two tails of a normal one


class LocationScale(LevelLikelihood):
    """A likelihood of ``y = f + level + noise``, whose noise has a scale."""

    standardises = True
    may_be_none = ("level", "scale", "scale_bounds")
    locations: tuple[str, ...] = ("level",)  # parameters that move with the origin

    def __init__(
        self,
        scale: float | None = None,
        scale_bounds: Limits | None = None,
        level: float | None = None,
        level_bounds: Limits = (-np.inf, np.inf),
    ) -> None:
        super().__init__(level, level_bounds)
        self.scale = scale
        self.scale_bounds = scale_bounds

    def rescaled(self, origin: float, unit: float) -> "Likelihood":
        """Convert locations, the scale and their bounds; see `Likelihood.rescaled`."""
        given, values = self.get_params(deep=False), {}
        for name in (*self.locations, "scale"):
            start = origin if name in self.locations else 0.0
            for key in (name, f"{name}_bounds"):
                value = given.get(key)
                if value is not None and not isinstance(value, str):
                    converted = (np.asarray(value) - start) / unit
                    values[key] = float(converted) if key == name else tuple(map(float, converted))
        return self._with(values)

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Estimate a missing level, scale and bounds from medians; see `Likelihood.started`."""
        level, values = self.level, dict[str, Any]()
        if level is None:
            level = self._within("level", median(y - offset, weight))
            values["level"] = level
        spread = _spread(y - offset - level, weight)
        if self.scale is None:
            values["scale"] = self._within("scale", _SHARE_OF_NOISE * spread)
        if self.scale_bounds is None:
            low, high = (float(bound * spread) for bound in _BOUNDS)
            values["scale_bounds"] = min(low, self.scale or low), max(high, self.scale or high)
        return self._with(values)


def median(values: Array, weight: Array) -> float:
    """The weighted median."""
    return quantile(values, weight, 0.5)


def quantile(values: Array, weight: Array, q: float) -> float:
    """A weighted quantile."""
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    return values[order][np.searchsorted(total, q * total[-1])]


def central_spread(values: Array, weight: Array) -> float:
    """Standard deviation from the central 90 %, which a few outliers do not move; it may be 0."""
    low, high = (quantile(values, weight, q) / _CENTRAL for q in (_TAIL, 1.0 - _TAIL))
    return high - low


def _spread(values: Array, weight: Array) -> float:
    """Standard deviation from the median absolute deviation, or what else is not zero."""
    spread = _MAD * median(np.abs(values), weight) or central_spread(values, weight)
    if spread == 0.0:
        spread = np.sqrt(np.average(values**2, weights=weight))
    return spread if spread > 0.0 else 1.0

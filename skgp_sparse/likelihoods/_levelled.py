"""What likelihoods with learned parameters share: a vector of parameters, and a level."""

import numpy as np
from scipy.special import logsumexp

from skgp_sparse._ground.warnings import warn
from skgp_sparse.likelihoods._base import Likelihood

_LEVEL = "level"


class Parametric(Likelihood):
    """A likelihood with parameters ``name`` and bounds ``name_bounds``, some of which are learned.

    A subclass lists the names of its parameters in the order of `theta`. The level may have any
    sign and is its own coordinate. All other parameters are positive, and `theta` has their
    logarithms. A parameter whose bounds are "fixed" is not learned.
    """

    parameters = ()

    @property
    def theta(self):
        """Learned parameters: the level, and the logarithms of the others."""
        values = [self._coordinate(name, self._value(name)) for name in self._learned()]
        return np.array(values, dtype=float)

    @property
    def limits(self):
        """Lower and upper bounds of `theta`."""
        bounds = [getattr(self, f"{name}_bounds") for name in self._learned()]
        pairs = [self._coordinate(name, pair) for name, pair in zip(self._learned(), bounds)]
        return np.array(pairs, dtype=float).reshape(-1, 2)

    def with_theta(self, theta):
        """Return a likelihood with other learned parameters; see `Likelihood.with_theta`."""
        names = self._learned()
        if not names:
            return self
        values = {n: float(t if n == _LEVEL else np.exp(t)) for n, t in zip(names, theta)}
        return self._with(values)

    def _with(self, values):
        return type(self)(**{**self.get_params(deep=False), **values})

    def _learned(self):
        return [n for n in self.parameters if not isinstance(getattr(self, f"{n}_bounds"), str)]

    def _value(self, name):
        """The value of a parameter; one that is None has no effect."""
        value = getattr(self, name)
        return (0.0 if name == _LEVEL else 1.0) if value is None else value

    @staticmethod
    def _coordinate(name, value):
        return value if name == _LEVEL else np.log(value)

    def _within(self, name, value):
        """The value, moved into the bounds of the parameter."""
        bounds = getattr(self, f"{name}_bounds")
        return float(value if isinstance(bounds, str) else np.clip(value, *bounds))

    def _slopes(self, n, **by_name):
        """The derivatives that belong to learned parameters, as an array (k, n)."""
        return np.array([by_name[name] for name in self._learned()]).reshape(-1, n)


class LevelLikelihood(Parametric):
    """A likelihood with a level, which it adds to the latent value of every row."""

    @property
    def intercept(self):
        """The level, which is added to the latent value of every row."""
        return self._value(_LEVEL)

    def _shifted(self, mean):
        return mean + self.intercept


class LogLink(LevelLikelihood):
    """A likelihood whose mean is ``exp(f + level)``, of observations that are not negative."""

    latent_variance = (1e-3, 100.0)  # exp overflows beyond

    def started(self, y, weight, offset):
        """Set a missing level to the log of a mean observation; see `Likelihood.started`."""
        if self.level is not None:
            return self
        if weight @ y == 0.0:
            warn(
                "All observations are 0, so that their mean rate can be as small as one likes. The "
                "level starts at the rate of half an observation."
            )
        level = log_of_mean(y, weight, offset)
        return self._with({_LEVEL: self._within(_LEVEL, level)})

    def _rate(self, mean, variance):
        """Mean of ``exp(f + level)``."""
        return np.exp(self._shifted(mean) + 0.5 * variance)

    def _spread(self, mean, variance, share):
        """Variance of ``exp(f + level)`` times a variable of mean one with variance `share`."""
        with np.errstate(divide="ignore"):
            factor = np.log(share - np.expm1(-variance))
        return np.exp(2.0 * (self._shifted(mean) + variance) + factor)


def log_of_mean(y, weight, offset):
    """Level of the rate of all rows together, of half an observation if there is none."""
    total = weight @ y
    return np.log(total if total > 0.0 else 0.5) - logsumexp(offset, b=weight)


def best_level(derivatives, level, largest_step=1.0, max_iter=200):
    """Maximise a function of the level from its slope and a bound on its curvature."""
    for _ in range(max_iter):
        slope, curvature = derivatives(level)
        step = np.clip(slope / curvature, -largest_step, largest_step)
        level = level + step
        if abs(step) < 1e-10 * (1.0 + abs(level)):
            break
    return level

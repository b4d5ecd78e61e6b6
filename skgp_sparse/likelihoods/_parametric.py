"""Parameters of likelihoods: their check, a vector of those that are learned, and a level."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import logsumexp

from skgp_sparse._ground.plain_text import as_text
from skgp_sparse._ground.typing import Array, Limits, Scalars, Triple
from skgp_sparse._ground.warnings import warn
from skgp_sparse.likelihoods._base import Likelihood

_ROUNDING = 1e-8  # by which the logarithm of a bound may move it
_LEAST_GAIN = 1e-20  # nats of a row, from which a constant is best


def check_parameters(likelihood: Likelihood, name: str) -> None:
    """Raise unless every parameter that has bounds is a number, and its bounds are bounds.

    Parameters
    ----------
    likelihood : Likelihood
    name : str
        Of the estimator, for the message.
    """
    given, optional = likelihood.get_params(deep=False), likelihood.may_be_none
    for parameter in given:
        if f"{parameter}_bounds" in given:
            is_signed = parameter in likelihood.may_be_negative
            _check_value(parameter, given[parameter], parameter in optional, is_signed, name)
            bounds, may_be_none = given[f"{parameter}_bounds"], f"{parameter}_bounds" in optional
            if not (bounds is None and may_be_none):
                _check_bounds(parameter, bounds, is_signed, name)
    low, high = likelihood.ends
    if not (isinstance(low, Real) and isinstance(high, Real) and low < high):
        raise ValueError(
            f"The limits of observations of {name} must be numbers, the lower one below the upper "
            f"one. Got {as_text(low)} and {as_text(high)}."
        )


def warn_outside_bounds(likelihood: Likelihood, name: str) -> None:
    """Warn of each parameter whose value is outside its own bounds, where learning begins.

    Parameters
    ----------
    likelihood : Likelihood
        Its parameters can be used.
    name : str
        Of the estimator, for the message.
    """
    given = likelihood.get_params(deep=False)
    for parameter, value in given.items():
        bounds = given.get(f"{parameter}_bounds")
        if value is None or bounds is None or isinstance(bounds, str):
            continue
        nearest = float(np.clip(value, *bounds))
        if not np.isclose(value, nearest, rtol=_ROUNDING):
            warn(
                f"likelihood__{parameter}={as_text(value)} of {name} is outside "
                f"likelihood__{parameter}_bounds={as_text(bounds)}. Learning begins at "
                f"{nearest:g}. Change the value or the bounds, or set the bounds to 'fixed'."
            )


def _check_value(parameter: str, value: Any, may_be_none: bool, is_signed: bool, name: str) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    is_good = is_number and np.isfinite(value) and (is_signed or value > 0)
    words = f"a finite number{'' if is_signed else ' above 0'}{' or None' if may_be_none else ''}"
    _require(is_good or (value is None and may_be_none), parameter, name, words, value)


def _check_bounds(parameter: str, bounds: object, is_signed: bool, name: str) -> None:
    pair = np.asarray(bounds, dtype=object)
    is_pair = pair.shape == (2,) and all(isinstance(end, Real) for end in pair)
    is_good = is_pair and (is_signed or pair[0] > 0) and pair[0] < pair[1]
    is_good = is_good or (isinstance(bounds, str) and bounds == "fixed")
    words = f"'fixed', or a lower and a higher number{'' if is_signed else ', both above 0'}"
    _require(is_good, f"{parameter}_bounds", name, words, bounds)


def _require(is_good: bool, parameter: str, name: str, words: str, value: object) -> None:
    if not is_good:
        raise ValueError(
            f"The 'likelihood__{parameter}' parameter of {name} must be {words}. Got "
            f"{as_text(value)} instead."
        )


class Parametric(Likelihood):
    """A likelihood with parameters ``name`` and bounds ``name_bounds``, some of which are learned.

    A subclass lists the names of its parameters in the order of `theta`, which has the logarithms
    of those that are positive, and those that `may_be_negative` as they are. A parameter whose
    bounds are "fixed" is not learned.
    """

    parameters: tuple[str, ...] = ()

    @property
    def theta(self) -> Array:
        """Learned parameters, or their logarithms."""
        values = [self._coordinate(name, self._value(name)) for name in self._learned()]
        return np.array(values, dtype=float)

    @property
    def limits(self) -> Array:
        """Lower and upper bounds of `theta`."""
        pairs = [self._coordinate(n, self._bounds(n)) for n in self._learned()]
        return np.array(pairs, dtype=float).reshape(-1, 2)

    def with_theta(self, theta: Array) -> "Likelihood":
        """Return a likelihood with other learned parameters; see `Likelihood.with_theta`."""
        signed, names = self.may_be_negative, self._learned()
        values = {n: float(t if n in signed else np.exp(t)) for n, t in zip(names, theta)}
        return self._with(values)

    def _with(self, values: dict[str, Any]) -> "Parametric":
        """The likelihood with some other parameters; itself if there are none."""
        return type(self)(**{**self.get_params(deep=False), **values}) if values else self

    def _learned(self) -> list[str]:
        return [n for n in self.parameters if not isinstance(getattr(self, f"{n}_bounds"), str)]

    def _value(self, name: str) -> float:
        """The value of a parameter; one that is None has no effect."""
        value = getattr(self, name)
        return (0.0 if name in self.may_be_negative else 1.0) if value is None else value

    def _coordinate(self, name: str, value: Any) -> Any:
        return value if name in self.may_be_negative else np.log(value)

    def _within(self, name: str, value: float) -> float:
        """The value, moved into the bounds of the parameter."""
        bounds = self._bounds(name)
        return float(value if isinstance(bounds, str) else np.clip(value, *bounds))

    def _bounds(self, name: str) -> Any:
        """The bounds of a parameter; those that are None have no effect."""
        bounds = getattr(self, f"{name}_bounds")
        return (np.finfo(float).tiny, np.inf) if bounds is None else bounds

    def _slopes(self, n: int, **by_name: Array) -> Array:
        """The derivatives that belong to learned parameters, as an array (k, n)."""
        return np.array([by_name[name] for name in self._learned()]).reshape(-1, n)


class LevelLikelihood(Parametric):
    """A likelihood with a level, which it adds to the latent value of every row.

    A subclass defines `_expected` and `_tilted`, which return a value, its slope, its curvature and
    what `_others` needs besides for the derivatives with respect to the parameters.
    """

    may_be_none: tuple[str, ...] = ("level",)
    may_be_negative: tuple[str, ...] = ("level",)
    parameters: tuple[str, ...] = ("level",)

    def __init__(
        self, level: float | None = None, level_bounds: Limits = (-np.inf, np.inf)
    ) -> None:
        self.level = level
        self.level_bounds = level_bounds

    @property
    def intercept(self) -> float:  # type: ignore[override]
        """The level, which is added to the latent value of every row."""
        return self._value("level")

    def _shifted(self, mean: Array) -> Array:
        return mean + self.intercept

    def expected(self, y: Array, mean: Array, variance: Scalars) -> Triple:
        """Compute the expectation; see `Likelihood.expected`."""
        return self._expected(y, mean, variance)[:3]

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Compute an integral; see `Likelihood.tilted`."""
        return self._tilted(y, mean, variance, power)[:3]

    def expected_slopes(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the gradient of `expected`; see `Likelihood.expected_slopes`."""
        _, slope, _, *means = self._expected(y, mean, variance)
        return self._slopes(len(slope), level=slope, **self._others(y, slope, 1.0, *means))

    def tilted_slopes(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Array:
        """Compute the gradient of `tilted`; see `Likelihood.tilted_slopes`."""
        _, slope, _, *means = self._tilted(y, mean, variance, power)
        return self._slopes(len(slope), level=slope, **self._others(y, slope, power, *means))

    def _others(self, y: Array, slope: Array, power: Scalars, *means: Array) -> dict[str, Array]:
        """Derivatives with respect to the other parameters, by name: means in their order."""
        return dict(zip(self.parameters[1:], means))


class LogLink(LevelLikelihood):
    """A likelihood whose mean is ``exp(f + level)``, of observations that are not negative."""

    latent_variance = (1e-3, 100.0)  # exp overflows beyond
    _share: Any  # variance of an observation of mean one, beyond that of the latent value

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Set a missing level to the log of a mean observation; see `Likelihood.started`."""
        if self.level is not None:
            return self
        if weight @ y == 0.0:
            warn("All observations are 0. The level starts at the rate of half an observation.")
        level = log_of_mean(y, weight, offset)
        return self._with({"level": self._within("level", level)})

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation; see `Likelihood.response`."""
        with np.errstate(over="ignore", divide="ignore"):
            factor = np.log(self._share - np.expm1(-variance))
            spread = np.exp(2.0 * (self._shifted(mean) + variance) + factor)
            return np.exp(self._shifted(mean) + 0.5 * variance), spread

    def _draw_means(self, f: Array, random_state: np.random.RandomState) -> Array:
        """``exp(f + level)`` times gamma variables of mean one with variance `_share`."""
        size = 1.0 / self._share
        factor = random_state.gamma(size, size=np.shape(f)) / size
        with np.errstate(over="ignore", divide="ignore"):
            return np.exp(self._shifted(f) + np.log(factor))


def log_of_mean(y: Array, weight: Array, offset: Array) -> float:
    """Level of the rate of all rows together, of half an observation if there is none."""
    total = weight @ y
    return np.log(total if total > 0.0 else 0.5) - logsumexp(offset, b=weight)


def best_constant(
    log_likelihood: Callable[[Array, Array], tuple[Array, Array, Array]],
    y: Array,
    weight: Array,
    offset: Array,
    level: Any = 0.0,
    largest_step: float = 1.0,
    max_iter: int = 200,
) -> Any:
    """Largest weighted sum of ``log_likelihood(y, level + offset)``, from a level on.

    It returns a value for every row, its slope, and a bound on its curvature.
    """
    for _ in range(max_iter):
        _, slope, curvature = log_likelihood(y, level + offset)
        step = np.clip((weight @ slope) / (weight @ curvature), -largest_step, largest_step)
        level = level + step
        if step * (weight @ slope) < _LEAST_GAIN * weight.sum():
            break
    return weight @ log_likelihood(y, level + offset)[0]

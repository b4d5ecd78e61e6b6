"""The contract of a likelihood, the domain of its observations, and bases that share code.

- `Likelihood` is the contract, and `Domain` says which observations a likelihood takes.
- `Parametric` has derivatives with respect to the parameters that are learned.
- `LevelLikelihood` and `LocationScale` have a level, the latter also a scale, in units of the
  observations.
- `LogConcave` has a logarithm that is a concave function: all of its integrals are numerical.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from skgp_sparse.exceptions import warn
from skgp_sparse.ground.integrals import STRIP, expectation, log_moments
from skgp_sparse.ground.linalg import SMALLEST_PRECISION, weighted_quantile
from skgp_sparse.ground.validation import Array, Bools, Limits, Scalars, Triple, as_text, require

from ._special import solve_quantile, tail_of_density


class Domain(NamedTuple):
    """The observations that a likelihood takes.

    Parameters
    ----------
    words : str, default="numbers"
        What the likelihood takes, for error messages.
    low, high : float, default=-inf and inf
        Ends of the interval to which the observations belong.
    without : tuple of float, default=()
        Numbers of the interval that are not in the domain, for example an open end.
    only : tuple of float, default=None
        All numbers of the domain, if they are few. None means the whole interval.
    remedy : str, default=""
        Last sentence of the error message for observations outside the domain.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Domain, Gamma
    >>> Domain("shares between 0 and 1", low=0.0, high=1.0).includes(np.array([0.3, 1.2]))
    array([ True, False])
    >>> Gamma().domain.words, Gamma().domain.is_never_negative
    ('observations y > 0', True)
    """

    words: str = "numbers"
    low: float = -np.inf
    high: float = np.inf
    without: tuple[float, ...] = ()
    only: tuple[float, ...] | None = None
    remedy: str = ""

    def includes(self, y: Array) -> Bools:
        """Tell which observations are in the domain.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.

        Returns
        -------
        ndarray of shape (n,)
            Whether each of them is in the domain.
        """
        if self.only is not None:
            return np.isin(y, self.only)
        return (y >= self.low) & (y <= self.high) & ~np.isin(y, self.without)

    @property
    def is_never_negative(self) -> bool:
        """Whether the domain has no negative numbers."""
        return (self.low if self.only is None else min(self.only)) >= 0.0


class Likelihood(BaseEstimator, ABC):
    """Base class of the likelihoods ``p(y | f)`` of an observation given its latent value.

    A subclass defines `expected`, `tilted`, `response` and `sample`. It also defines
    `constant_log_likelihood`, the log likelihood of a model that does not use the inputs. A
    likelihood may have parameters that are learned. `cdf` and `quantile` have defaults, which do
    for labels and for densities on all numbers; other likelihoods define `cdf`. `LogConcave` is a
    base class that needs less. `skgp_sparse.testing.check_likelihood` checks a subclass.

    A likelihood never changes: what learns parameters is a new one (`with_theta`). Its methods
    neither keep nor overwrite the arrays that they are given, and keep nothing between two calls,
    which may come from several threads.

    Attributes
    ----------
    domain : Domain
        The observations that the likelihood takes. By default, it takes all numbers.
    may_be_none : tuple of str
        Names of the parameters that may be None, because `started` estimates them.
    may_be_negative : tuple of str
        Names of the parameters that may be 0 or negative. All others that have bounds are
        positive.
    latent_variance : tuple of float
        Lower and upper bound of the variance of the default kernel. Outside these bounds, the
        likelihood hardly changes with the variance, or overflows.
    parameters : tuple of str
        Names of the parameters that are learned unless their bounds are "fixed", in the order of
        `theta`, which has the logarithms of those that are positive.
    n_latent : int
        Number of latent values of a row.
    is_log_concave : bool
        Whether ``log p(y | f)`` is concave in ``f``, so that curvatures are never negative.
    intercept : float
        Number that the likelihood adds to the latent value of every row.
    standardises : bool
        Whether observations may be centred and scaled. This is the case if they are continuous and
        can have any value.
    ends : tuple of float
        Smallest and largest observation, by default those of the domain.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Likelihood, Poisson
    >>> isinstance(Poisson(), Likelihood)
    True
    >>> Poisson().response(np.zeros(1), np.zeros(1))
    (array([1.]), array([1.]))
    """

    domain: Domain = Domain()
    may_be_none: tuple[str, ...] = ()
    may_be_negative: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    latent_variance: tuple[float, float] = (1e-3, 1e4)
    n_latent: int = 1
    is_log_concave: bool = True
    intercept: float = 0.0
    standardises: bool = False
    _share: Any = 1.0  # variance of t given the latent value, about; see `quantile`

    @property
    def ends(self) -> tuple[float, float]:
        """Smallest and largest observation."""
        return self.domain.low, self.domain.high

    def check(self, y: Array, name: str) -> None:
        """Raise an error if some observations are outside the domain of the likelihood.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        name : str
            Name of the estimator, which the message contains.

        Raises
        ------
        ValueError
            If some observations are outside the domain. The message describes the domain.
        """
        if outside := np.count_nonzero(~self.domain.includes(y)):
            takes = f"{name}: {type(self).__name__} takes {self.domain.words}"
            sentence = f"{takes}, but {outside} rows have other values. {self.domain.remedy}"
            raise ValueError(sentence.rstrip())

    def is_density(self, y: Array) -> Bools:
        """Tell for which observations the likelihood is a density, and not a probability.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.

        Returns
        -------
        ndarray of shape (n,)
            Whether ``p(y | f)`` changes with the unit of the observation. By default, this is the
            case for all of them if the likelihood `standardises`.
        """
        return np.full(len(y), self.standardises)

    def kinds(self, y: Array) -> Array:
        """Divide the rows into groups, for stratified sampling.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.

        Returns
        -------
        ndarray of shape (n,)
            Number of the group of each row. A small sample of the rows contains rows of every
            group. By default, all rows are in one group.
        """
        return np.zeros(len(y))

    def rescaled(self, origin: float, unit: float) -> "Likelihood":
        """Return the likelihood of observations ``(y - origin) / unit``.

        Parameters
        ----------
        origin, unit : float
            New origin and new unit of the observations and of the latent values.

        Returns
        -------
        Likelihood
            A new likelihood, whose parameters are in the new units; or this one, if it has none
            that depend on them.
        """
        return self

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Return a likelihood whose parameters all have values.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        weight : ndarray of shape (n,)
            Weights of the rows.
        offset : ndarray of shape (n,)
            Known offsets of the latent values.

        Returns
        -------
        Likelihood
            A new likelihood, in which parameters that are None are estimated from the
            observations; or this one, if there are none.
        """
        return self

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return Gaussian functions ``exp(linear f - precision f² / 2)`` to start inference from.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.

        Returns
        -------
        linear, precision : ndarray of shape (n,)
            By default, the functions are nearly constant.
        """
        return np.zeros(len(y)), np.full(len(y), SMALLEST_PRECISION)

    def majorised(self) -> "Likelihood | None":
        """Return a log-concave likelihood whose `expected` is never larger, to start with.

        Returns
        -------
        Likelihood or None
            None if inference can start with the likelihood itself, which is the case for
            log-concave likelihoods.
        """
        return None

    @abstractmethod
    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a model that predicts the same distribution for all rows.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        weight : ndarray of shape (n,)
            Weights of the rows.
        offset : ndarray of shape (n,)
            Known offsets of the latent values, for which the model does account.

        Returns
        -------
        float
            Weighted sum of the log likelihoods of the rows.
        """

    @abstractmethod
    def expected(self, y: Array, mean: Array, variance: Array) -> Triple:
        """Compute ``E[log p(y | f)]`` for ``f ~ N(mean, variance)``.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        value, slope, curvature : ndarray of shape (n,)
            The expectation, its first derivative with respect to `mean`, and its negative second
            derivative.
        """

    @abstractmethod
    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Compute ``log E[p(y | f)^power]`` for ``f ~ N(mean, variance)``.

        For ``power=1``, this is the log predictive density of the observation.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.
        power : float or ndarray of shape (n,), default=1.0
            Power of each row, in (0, 1].

        Returns
        -------
        value, slope, curvature : ndarray of shape (n,)
            The logarithm, its first derivative with respect to `mean`, and its negative second
            derivative.
        """

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the log predictive density ``log E[p(y | f)]`` for ``f ~ N(mean, variance)``.

        The stochastic solver judges rows that it held out by it. By default, it is the value of
        `tilted`. Likelihoods without `tilted`, or of several latent values per row, override it.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        ndarray of shape (n,)
            Log densities in nats; of labels and counts, logarithms of probabilities.

        Raises
        ------
        NotImplementedError
            If the likelihood defines neither this method nor `tilted`.
        """
        return self.tilted(y, mean, variance)[0]

    @abstractmethod
    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of an observation for ``f ~ N(mean, variance)``.

        Parameters
        ----------
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
            Mean and variance of the observations.
        """

    def cdf(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the probability of observations up to `y` for ``f ~ N(mean, variance)``.

        By default, it is a sum over labels (``domain.only``), or an integral of the density, to
        about 1e-9, if the domain is all numbers. A closed form is quicker.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Finite numbers, which need not be in the domain.
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        ndarray of shape (n,)
            Probabilities, in [0, 1].

        Raises
        ------
        NotImplementedError
            If the likelihood does not define `cdf`, and has another domain, as that of counts or of
            positive numbers, or a density that does not integrate to 1.
        """
        if self.domain.only is not None:
            log_p = lambda label: self.log_density(np.full(len(y), float(label)), mean, variance)
            return np.minimum(sum(np.exp(log_p(k)) * (k <= y) for k in self.domain.only), 1.0)
        tail = lambda y, unit: tail_of_density(self.log_density, y, unit, mean, variance)
        centre, squared = self.response(mean, variance)
        unit, limits = np.sqrt(squared), (self.domain.low, self.domain.high)
        total = lambda: tail(centre, unit) + tail(centre, -unit)
        if np.isfinite(limits).any() or not np.allclose(total(), 1.0, 0.0, 1e-6):
            why = "no cdf, nor a density on all numbers that integrates to 1. Give it a method cdf."
            raise NotImplementedError(f"{type(self).__name__} has {why}")
        beyond = np.minimum(tail(y, np.where(y < centre, -unit, unit)), 1.0)
        return np.where(y < centre, beyond, 1.0 - beyond)

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute a quantile of an observation for ``f ~ N(mean, variance)``.

        By default, it is the number at which `cdf` is `q`, or jumps from below to above it.

        Parameters
        ----------
        q : float
            Probability, in (0, 1).
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        ndarray of shape (n,)
            The smallest value that an observation does not exceed with a probability of at least
            `q`.

        Raises
        ------
        NotImplementedError
            If the likelihood has neither this method nor a `cdf`; see there.
        """
        if self.domain.only is not None:
            labels = np.sort(np.array(self.domain.only, dtype=float))
            at = lambda label: self.cdf(np.full(np.shape(mean)[-1], label), mean, variance)
            return labels[np.sum([at(label) < q for label in labels[:-1]], axis=0)]
        cdf = lambda t, rows: self._cdf(t, mean[rows], variance[rows])
        with np.errstate(all="ignore"):
            return self._inverse(solve_quantile(cdf, q, *self._guess(q, mean, variance)))

    def _cdf(self, t: Array, mean: Array, variance: Array) -> Array:
        """The distribution function at ``_inverse(t)``."""
        return self.cdf(t, mean, variance)

    @staticmethod
    def _inverse(t: Array) -> Array:
        """Observations of t; distribution functions of whole numbers jump next to them."""
        return np.where(np.isclose(t, np.rint(t), 1e-12, 1e-12), np.rint(t), t)

    def _guess(self, q: float, mean: Array, variance: Array) -> tuple[Array, Array]:
        """A quantile of t to start with, and a width."""
        width = np.maximum(np.sqrt(variance + self._share), _LEAST_WIDTH)
        return mean + self.intercept + ndtri(q) * width, width

    @abstractmethod
    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw observations given latent values.

        Parameters
        ----------
        f : ndarray
            Latent values, of any shape.
        random_state : RandomState
            Generator that draws the samples.

        Returns
        -------
        ndarray
            Observations, in the shape of `f`.
        """

    @property
    def theta(self) -> Array:
        """Learned parameters as unbounded numbers, mostly logarithms: an array of shape (k,)."""
        values = [self._coordinate(name, self._value(name)) for name in self._learned()]
        return np.array(values, dtype=float)

    @property
    def limits(self) -> Array:
        """Lower and upper bounds of `theta`, an array of shape (k, 2)."""
        pairs = [self._coordinate(n, self._bounds(n)) for n in self._learned()]
        return np.array(pairs, dtype=float).reshape(-1, 2)

    def with_theta(self, theta: Array) -> "Likelihood":
        """Return a likelihood with other values of the learned parameters.

        Parameters
        ----------
        theta : ndarray of shape (k,)
            Values, as in the attribute `theta`.

        Returns
        -------
        Likelihood
            A new likelihood, or this one if it has no learned parameters.
        """
        signed, names = self.may_be_negative, self._learned()
        return self._with({n: float(t if n in signed else np.exp(t)) for n, t in zip(names, theta)})

    def expected_slopes(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the gradient of `expected` with respect to `theta`.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        ndarray of shape (k, n)
            Gradient, with one row for each learned parameter.
        """
        return np.zeros((0, len(y)))

    def tilted_slopes(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Array:
        """Compute the gradient of `tilted` with respect to `theta`.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.
        power : float or ndarray of shape (n,), default=1.0
            Power of each row, in (0, 1].

        Returns
        -------
        ndarray of shape (k, n)
            Gradient, with one row for each learned parameter.
        """
        return np.zeros((0, len(y)))

    def _with(self, values: dict) -> "Likelihood":
        """The likelihood with some other parameters; itself if there are none."""
        return type(self)(**{**self.get_params(deep=False), **values}) if values else self

    def _learned(self) -> list[str]:
        return [n for n in self.parameters if not isinstance(getattr(self, f"{n}_bounds"), str)]

    def _value(self, name: str) -> float:
        """The value of a parameter; one that is None has no effect."""
        value = getattr(self, name)
        return (0.0 if name in self.may_be_negative else 1.0) if value is None else value

    def _coordinate(self, name: str, value: Scalars) -> Any:
        return value if name in self.may_be_negative else np.log(value)

    def _within(self, name: str, value: float) -> float:
        """The value, moved into the bounds of the parameter."""
        bounds = self._bounds(name)
        return float(value if isinstance(bounds, str) else np.clip(value, *bounds))

    def _bounds(self, name: str) -> Any:
        """The bounds of a parameter; those that are None have no effect."""
        bounds = getattr(self, f"{name}_bounds")
        return (np.finfo(float).tiny, np.inf) if bounds is None else bounds

    def _of_learned(self, *by_parameter: Array) -> Array:
        learned, n = self._learned(), np.shape(by_parameter[0])[0]
        some = [one for name, one in zip(self.parameters, by_parameter) if name in learned]
        return np.array(some).reshape(-1, n)


_LEAST_WIDTH = 1e-3  # of a quantile to start with
_ROUNDING = 1e-8  # by which the logarithm of a bound may move it
_LEAST_GAIN = 1e-20  # nats of a row, from which a constant is best
_MOST_STEPS = 200  # to it


def check_parameters(likelihood: Likelihood, name: str) -> None:
    """Raise unless every parameter that has bounds is a number, and its bounds are bounds."""
    given, optional = likelihood.get_params(deep=False), likelihood.may_be_none
    for parameter in [one for one in given if f"{one}_bounds" in given]:
        value, bounds = given[parameter], given[f"{parameter}_bounds"]
        path, is_signed = f"likelihood__{parameter}", parameter in likelihood.may_be_negative
        is_number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
        is_good = is_number and np.isfinite(value) and (is_signed or value > 0)
        is_good = is_good or (value is None and parameter in optional)
        words = f"a finite number{'' if is_signed else ' above 0'}"
        words += " or None" if parameter in optional else ""
        require(is_good, path, value, name, words)
        pair = np.asarray(bounds, dtype=object)
        is_pair = pair.shape == (2,) and all(isinstance(end, Real) for end in pair)
        is_good = is_pair and (is_signed or pair[0] > 0) and pair[0] < pair[1]
        is_none = bounds is None and f"{parameter}_bounds" in optional
        is_good = is_good or is_none or (isinstance(bounds, str) and bounds == "fixed")
        words = f"'fixed', or a lower and a higher number{'' if is_signed else ', both above 0'}"
        require(is_good, f"{path}_bounds", bounds, name, words)
    low, high = likelihood.ends
    if not (isinstance(low, Real) and isinstance(high, Real) and low < high):
        raise ValueError(
            f"The limits of observations of {name} must be numbers, the lower one below the upper "
            f"one. Got {as_text(low)} and {as_text(high)}."
        )


def warn_outside_bounds(likelihood: Likelihood, name: str) -> None:
    """Warn of each parameter whose value is outside its own bounds, where learning begins."""
    for parameter in likelihood._learned():
        value, bounds = (getattr(likelihood, one) for one in (parameter, f"{parameter}_bounds"))
        nearest = None if value is None else likelihood._within(parameter, value)
        if nearest is not None and not np.isclose(value, nearest, rtol=_ROUNDING):
            warn(
                f"likelihood__{parameter}={as_text(value)} of {name} is outside "
                f"likelihood__{parameter}_bounds={as_text(bounds)}. Learning begins at "
                f"{nearest:g}. Change the value or the bounds, or set the bounds to 'fixed'."
            )


class Parametric(Likelihood):
    """A likelihood whose integrals come with their derivatives with respect to `theta`.

    `_expected` and `_tilted` return value, slope, curvature, and what `_by_theta` needs besides.
    """

    _expected: Callable[..., Any]
    _tilted: Callable[..., Any]

    def expected(self, y: Array, mean: Array, variance: Scalars) -> Triple:
        """Compute the expectation; see `Likelihood.expected`."""
        return self._expected(y, mean, variance)[:3]

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Compute an integral; see `Likelihood.tilted`."""
        return self._tilted(y, mean, variance, power)[:3]

    def expected_slopes(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the gradient of `expected`; see `Likelihood.expected_slopes`."""
        _, slope, _, *means = self._expected(y, mean, variance)
        return self._by_theta(y, slope, 1.0, *means)

    def tilted_slopes(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Array:
        """Compute the gradient of `tilted`; see `Likelihood.tilted_slopes`."""
        _, slope, _, *means = self._tilted(y, mean, variance, power)
        return self._by_theta(y, slope, power, *means)

    def _by_theta(self, y: Array, slope: Array, power: Scalars, *means: Array) -> Array:
        """Gradient (k, n) wrt `theta`: `slope` is that of the level, `means` are of the others."""
        return self._of_learned(slope, *means)


class LevelLikelihood(Parametric):
    """A likelihood with a level, which it adds to the latent value of every row."""

    may_be_none: tuple[str, ...] = ("level",)
    may_be_negative: tuple[str, ...] = ("level",)
    parameters: tuple[str, ...] = ("level",)
    level: float | None
    _first_level: Callable[..., float]  # of observations, weights and offsets
    _forward: Any = np.positive  # from observations to t

    @property
    def intercept(self) -> float:  # type: ignore[override]
        """The level, which is added to the latent value of every row."""
        return self._value("level")

    def _shifted(self, mean: Array) -> Array:
        return mean + self.intercept

    def cdf(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the expectation over latent values; see `Likelihood.cdf`."""
        inside = self.domain.includes(y)
        with np.errstate(all="ignore"):
            p = self._cdf(self._forward(np.where(inside, y, 0.5)), mean, variance)
        return np.where(inside, p, y > self.domain.low)  # 0 below the domain, and 1 above it

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Estimate a missing level from the mean observation; see `Likelihood.started`."""
        if self.level is not None:
            return self
        return self._with({"level": self._within("level", self._first_level(y, weight, offset))})


def best_constant(
    at: Callable, weight: Array, offset: Array, level: float = 0.0, largest_step: float = 1.0
) -> Any:
    """Largest weighted sum of value, slope, curvature `at` ``level + offset``, from a level on."""
    for _ in range(_MOST_STEPS):
        _, slope, curvature = at(level + offset)
        step = np.clip((weight @ slope) / (weight @ curvature), -largest_step, largest_step)
        level = level + step
        if step * (weight @ slope) < _LEAST_GAIN * weight.sum():
            break
    return weight @ at(level + offset)[0]


_MAD = 1.4826  # standard deviations per median absolute deviation, of a normal distribution
_SHARE_OF_NOISE = 0.5  # of the spread of the observations, to start with
_BOUNDS = 1e-5, 1e5  # on the scale, in units of that spread
_TAIL, _CENTRAL = 0.05, 3.29  # width, in standard deviations, between two tails of a normal one


class LocationScale(LevelLikelihood):
    """A likelihood of ``y = f + level + noise``, whose noise has a scale."""

    standardises = True
    may_be_none = ("level", "scale", "scale_bounds")
    locations: tuple[str, ...] = ("level",)  # parameters that move with the origin
    _inverse: Any = np.positive
    _share = property(lambda self: self._value("scale") ** 2)
    scale: float | None
    scale_bounds: Limits | None

    def rescaled(self, origin: float, unit: float) -> "Likelihood":
        """Convert locations, the scale and their bounds; see `Likelihood.rescaled`."""
        values = {}
        for key, value in self.get_params(deep=False).items():
            name = key.removesuffix("_bounds")
            is_number = value is not None and not isinstance(value, str)
            if is_number and name in (*self.locations, "scale"):
                moved = (np.asarray(value) - origin * (name in self.locations)) / unit
                values[key] = float(moved) if key == name else tuple(map(float, moved))
        return self._with(values)

    def started(self, y: Array, weight: Array, offset: Array) -> "Likelihood":
        """Estimate a missing level, scale and bounds from medians; see `Likelihood.started`."""
        own, values = super().started(y, weight, offset), dict[str, object]()
        spread = _spread(y - offset - own._value("level"), weight)
        if self.scale is None:
            values["scale"] = self._within("scale", _SHARE_OF_NOISE * spread)
        if self.scale_bounds is None:
            low, high = (float(bound * spread) for bound in _BOUNDS)
            values["scale_bounds"] = min(low, self.scale or low), max(high, self.scale or high)
        return own._with(values)

    def _first_level(self, y: Array, weight: Array, offset: Array) -> float:
        return weighted_quantile(y - offset, weight, 0.5)


def central_spread(values: Array, weight: Array) -> float:
    """Standard deviation from the central 90 %, which a few outliers do not move; it may be 0."""
    low, high = (weighted_quantile(values, weight, q) / _CENTRAL for q in (_TAIL, 1.0 - _TAIL))
    return high - low


def _spread(values: Array, weight: Array) -> float:
    """Standard deviation from the median absolute deviation, or what else is not zero."""
    spread = _MAD * weighted_quantile(np.abs(values), weight, 0.5) or central_spread(values, weight)
    if spread == 0.0:
        spread = np.sqrt(np.average(values**2, weights=weight))
    return spread if spread > 0.0 else 1.0


def expect(g: Callable, mean: Array, variance: Array, *by_row: Array, strip: float = 0.3) -> Any:
    """Compute ``E[g(f)]`` for ``f ~ N(mean, variance)`` by quadrature.

    The relative error is about 1e-12 if ``g`` is analytic in the strip, grows no faster than a
    power of ``f``, and changes most near ``f = 0``. Where the standard deviation is many times the
    strip, nodes are close to each other only there: shift a ``g`` that changes elsewhere.

    Parameters
    ----------
    g : callable
        Takes latent values of shape (n, k), and `by_row` as arrays of shape (n, 1). It returns an
        array of shape (n, k), or a tuple of them.
    mean, variance : ndarray of shape (n,)
        Means and variances of the latent values.
    *by_row : ndarray of shape (n,)
        Further arguments of `g`, for example the observations.
    strip : float, default=0.3
        Half-width of a strip around the real axis of the complex plane in which ``g`` is analytic:
        π for functions of ``exp(f)``. Integrals are inaccurate if it is too wide, and slow if it is
        very narrow.

    Returns
    -------
    ndarray of shape (n,) or tuple of ndarray
        The expectations, a tuple if `g` returns one.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.special import expit
    >>> from skgp_sparse.likelihoods import expect
    >>> expect(expit, np.array([0.0, 1.0]), np.array([1.0, 4.0]), strip=np.pi).round(4)
    array([0.5   , 0.6477])
    """
    unit, is_tuple = min(strip / STRIP, 1.0), True

    def in_units(x: Array, *columns: Array) -> Any:
        nonlocal is_tuple
        values = g(unit * x, *columns)
        is_tuple = isinstance(values, tuple)
        return values if is_tuple else (values,)

    expectations = expectation(in_units, mean / unit, variance / unit**2, *by_row)
    return expectations if is_tuple else expectations[0]


class LogConcave(Likelihood):
    """Base class of likelihoods that are given by a concave function ``log p(y | f)`` of ``f``.

    A subclass defines `log_likelihood`, `response` and `sample`. `expected` and `tilted` are
    computed by quadrature, to about 1e-12.

    Attributes
    ----------
    strip : float
        Half-width of a strip around the real axis of the complex plane in which ``log p(y | f)`` is
        analytic as a function of ``f``: π for functions of ``exp(f)``. Integrals are inaccurate if
        it is too wide, and slow if it is very narrow.

    Examples
    --------
    Noise with a logistic distribution, whose mean and variance are 0 and π²/3:

    >>> import numpy as np
    >>> from scipy.special import expit, log_expit
    >>> from skgp_sparse.likelihoods import LogConcave
    >>> class Logistic(LogConcave):
    ...     strip = np.pi
    ...     def log_likelihood(self, y, f):
    ...         p = expit(y - f)
    ...         return log_expit(y - f) + log_expit(f - y), 2 * p - 1, 2 * p * (1 - p)
    ...     def response(self, mean, variance):
    ...         return mean, variance + np.pi**2 / 3
    ...     def sample(self, f, random_state):
    ...         return f + random_state.logistic(size=np.shape(f))
    >>> from skgp_sparse.testing import check_likelihood
    >>> check_likelihood(Logistic(), y=[-1.0, 0.5, 4.0])
    """

    strip = 0.3

    @abstractmethod
    def log_likelihood(self, y: Array, f: Array) -> Triple:
        """Compute ``log p(y | f)``.

        Parameters
        ----------
        y : ndarray of shape (n, 1) or (n,)
            Observations.
        f : ndarray of shape (n, k) or (n,)
            Latent values.

        Returns
        -------
        value, slope, curvature : ndarray
            The logarithm, its first derivative with respect to `f`, and its negative second
            derivative, in the shape of `f`.
        """

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of the best constant latent value; see the base class."""
        return best_constant(lambda f: self.log_likelihood(y, f), weight, offset)

    def expected(self, y: Array, mean: Array, variance: Array) -> Triple:
        """Compute the expectation by quadrature; see `Likelihood.expected`."""
        return expect(self._at, mean, variance, y, strip=self.strip)

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Compute a numerical integral; see `Likelihood.tilted`."""
        value, *others = log_moments(self._at, mean, variance, power, self.strip, y)
        return value, others[0], others[1]

    def _at(self, f: Array, y: Array) -> Triple:
        return self.log_likelihood(y, f)

"""The contract of a likelihood, and the domain of its observations."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from skgp_sparse._ground.typing import Array, Bools, Scalars, Triple

SMALLEST_PRECISION = 1e-30  # precision of a function that is nearly constant


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
    likelihood may have parameters that are learned. For quantiles of the response, a subclass
    defines `quantile`. `LogConcave` is a base class that needs less.
    `skgp_sparse.testing.check_likelihood` checks a subclass.

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
    latent_variance: tuple[float, float] = (1e-3, 1e4)
    n_latent: int = 1
    is_log_concave: bool = True
    intercept: float = 0.0
    standardises: bool = False

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
        outside = np.count_nonzero(~self.domain.includes(y))
        if outside:
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

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute a quantile of an observation for ``f ~ N(mean, variance)``.

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
            If the likelihood does not define quantiles.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not define quantiles. Give it a method quantile."
        )

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
        return np.zeros(0)

    @property
    def limits(self) -> Array:
        """Lower and upper bounds of `theta`, an array of shape (k, 2)."""
        return np.zeros((0, 2))

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
        return self

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

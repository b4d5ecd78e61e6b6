r"""Likelihoods ``p(y | f)``, one row at a time.

A likelihood answers two questions about a row whose latent value is ``f ~ N(mean, variance)``:

- `expected`: ``E[log p(y | f)]``, which variational bounds sum, and
- `tilted`: ``log E[p(y | f)]``, which expectation propagation needs,

each with its slope and its negative curvature with respect to the mean. Sites, gradients and
predictions follow from these and are written once, in ``inference`` and ``_engine``.
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, ndtr
from sklearn.base import BaseEstimator

from skgp_sparse._ground.quadrature import expectation

_LOG_2PI = np.log(2.0 * np.pi)
_FAR = -30.0  # from which the asymptotic series of the probit's slope has more digits


class Likelihood(BaseEstimator, ABC):
    """How an observation depends on the latent value of its row; log-concave in it.

    A subclass gives `expected` and `tilted`, what a model that has learned nothing is worth, the
    response, and, if it has them, parameters of its own. `skgp_sparse.testing.check_likelihood`
    checks it.

    Attributes
    ----------
    latent_variance : tuple of float
        Limits of the variance of the process by default, beyond which the likelihood does not care.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Gaussian, Likelihood
    >>> isinstance(Gaussian(), Likelihood)
    True
    >>> Gaussian(0.5).response(np.zeros(1), np.ones(1))
    (array([0.]), array([1.5]))
    """

    latent_variance = (1e-3, 1e4)

    def check(self, y, name):
        """Raise if some observations are outside the domain, which the message names.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        name : str
            Name of the estimator, for the message.

        Raises
        ------
        ValueError
            If some observations have no probability.
        """

    def kinds(self, y):
        """Tell kinds of rows apart, of each of which a small sample should hold some.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.

        Returns
        -------
        ndarray of shape (n,)
            The same number for rows of the same kind; by default all rows are of one kind.
        """
        return np.zeros(len(y))

    @abstractmethod
    def of_nothing(self, y, weight):
        """Log likelihood of a model that gives all rows the same distribution.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        weight : ndarray of shape (n,)
            Weights of the rows.

        Returns
        -------
        float
            Log likelihood, weights included.
        """

    @abstractmethod
    def expected(self, y, mean, variance):
        """``E[log p(y | f)]`` under ``N(mean, variance)``.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Distributions of the latent values.

        Returns
        -------
        value, slope, curvature : ndarray of shape (n,)
            The expectation, ``d/dmean`` of it, and ``-d²/dmean²`` of it.
        """

    @abstractmethod
    def tilted(self, y, mean, variance):
        """``log E[p(y | f)]`` under ``N(mean, variance)``, the log density of an observation.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Distributions of the latent values.

        Returns
        -------
        value, slope, curvature : ndarray of shape (n,)
            The logarithm, ``d/dmean`` of it, and ``-d²/dmean²`` of it.
        """

    @abstractmethod
    def response(self, mean, variance):
        """Mean and variance of an observation under ``N(mean, variance)``.

        Parameters
        ----------
        mean, variance : ndarray of shape (n,)
            Distributions of the latent values.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
            Mean and variance of the observations.
        """

    @abstractmethod
    def sample(self, f, random_state):
        """Draw observations given latent values.

        Parameters
        ----------
        f : ndarray
            Latent values, of any shape.
        random_state : RandomState
            Source of the samples.

        Returns
        -------
        ndarray
            Observations, in the shape of `f`.
        """

    @property
    def theta(self):
        """Logarithms of the parameters that are learned (k,)."""
        return np.zeros(0)

    @property
    def limits(self):
        """Limits of `theta` (k, 2)."""
        return np.zeros((0, 2))

    def with_theta(self, theta):
        """Give the same likelihood with other parameters.

        Parameters
        ----------
        theta : ndarray of shape (k,)
            Logarithms of the parameters that are learned.

        Returns
        -------
        Likelihood
            Another object, or this one if it has no such parameters.
        """
        return self

    def expected_slopes(self, y, mean, variance):
        """Gradient of `expected` with respect to `theta`.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Distributions of the latent values.

        Returns
        -------
        ndarray of shape (k, n)
            One row for each parameter.
        """
        return np.zeros((0, len(y)))

    def tilted_slopes(self, y, mean, variance):
        """Gradient of `tilted` with respect to `theta`.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Distributions of the latent values.

        Returns
        -------
        ndarray of shape (k, n)
            One row for each parameter.
        """
        return np.zeros((0, len(y)))


class Binary(Likelihood):
    """A sigmoid of the latent value, ``p(y | f) = s(y f)`` for labels ``y = ±1``.

    The subclasses give ``log s`` with its slope and curvature, and ``E[s]``.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Binary, Probit
    >>> isinstance(Probit(), Binary)
    True
    >>> Probit().kinds(np.array([1.0, -1.0]))
    array([ 1., -1.])
    """

    latent_variance = (1e-2, 50.0)  # the sigmoid saturates beyond

    def check(self, y, name):
        """Labels are ±1; see `Likelihood.check`."""
        others = np.count_nonzero(np.abs(y) != 1.0)
        if others:
            raise ValueError(
                f"{name}: {type(self).__name__} takes the labels -1 and 1, but {others} rows hold "
                "others. Use SparseGPClassifier, which encodes any labels."
            )

    def kinds(self, y):
        """The labels."""
        return y

    def of_nothing(self, y, weight):
        """Every label has its own frequency."""
        count = np.array([weight @ (y == label) for label in np.unique(y)])
        return count @ np.log(count / count.sum())

    def response(self, mean, variance):
        """Mean and variance of the label ±1; see `Likelihood.response`."""
        mean = 2.0 * self.probability(mean, variance) - 1.0
        return mean, 1.0 - mean**2

    def sample(self, f, random_state):
        """Labels ±1; see `Likelihood.sample`."""
        p = self.probability(np.ravel(f), np.zeros(np.size(f))).reshape(np.shape(f))
        return np.where(random_state.uniform(size=p.shape) < p, 1.0, -1.0)

    def expected(self, y, mean, variance):
        """Quadrature; see `Likelihood.expected`."""
        value, slope, curvature = expectation(self._log_sigmoid, y * mean, variance)
        return value, y * slope, curvature

    @abstractmethod
    def probability(self, mean, variance):
        """``E[s(f)]``, the probability of the positive class.

        Parameters
        ----------
        mean, variance : ndarray of shape (n,)
            Distributions of the latent values.

        Returns
        -------
        ndarray of shape (n,)
            Probabilities, in [0, 1].
        """

    @abstractmethod
    def _log_sigmoid(self, t):
        """``log s``, its slope and its negative curvature."""


class Probit(Binary):
    r"""``p(y | f) = Φ(y f)``, with ``Φ`` the normal distribution function.

    Tilted moments and probabilities are closed forms: Rasmussen and Williams (2006), "Gaussian
    processes for machine learning", eq. 3.80 and 3.82.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Probit
    >>> Probit().probability(np.array([0.0, 1e3]), np.array([1.0, 1.0]))
    array([0.5, 1. ])
    """

    def tilted(self, y, mean, variance):
        """Closed form; see `Likelihood.tilted`."""
        scale = np.sqrt(1.0 + variance)
        value, slope, curvature = self._log_sigmoid(y * mean / scale)
        return value, y * slope / scale, curvature / scale**2

    def probability(self, mean, variance):
        """``Φ(mean / √(1 + variance))``; see `Binary.probability`."""
        return ndtr(mean / np.sqrt(1.0 + variance))

    def _log_sigmoid(self, t):
        value = log_ndtr(t)
        with np.errstate(over="ignore"):  # far out, where the series takes over
            slope = np.exp(-0.5 * (t * t + _LOG_2PI) - value)
        excess = np.maximum(slope + t, 0.0)
        far = t < _FAR
        if far.any():
            u = 1.0 / t[far] ** 2
            excess[far] = -(1.0 - u * (2.0 - 10.0 * u)) / t[far]
            slope[far] = excess[far] - t[far]
        return value, slope, np.minimum(slope * excess, 1.0)


class Logit(Binary):
    r"""``p(y | f) = 1 / (1 + exp(-y f))``; every expectation is a quadrature.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Logit
    >>> Logit().probability(np.array([0.0, 1e3]), np.array([1.0, 1.0])).round(12)
    array([0.5, 1. ])
    """

    def tilted(self, y, mean, variance):
        """Quadrature; see `Likelihood.tilted`."""
        mean = y * mean
        # s(t) = exp(θt) s(t) exp(-θt), and exp(θt) moves the mean to where the mass of s(t) is
        tilt = np.clip(-mean / np.maximum(variance, np.finfo(float).tiny), 0.0, 1.0)
        centre = mean + tilt * variance
        s, first, second = expectation(_tilted_sigmoid, centre, variance, tilt)
        first, second = first / s, second / s
        value = np.log(s) + tilt * (mean + 0.5 * tilt * variance)
        return value, y * first, np.maximum(first**2 - second, 0.0)

    def probability(self, mean, variance):
        """Quadrature; see `Binary.probability`."""
        found = expectation(lambda f: (expit(f),), mean, variance)[0]
        return np.minimum(found, 1.0)  # weights add up to 1 but for rounding

    def _log_sigmoid(self, t):
        slope = expit(-t)
        return log_expit(t), slope, slope * (1.0 - slope)


class Gaussian(Likelihood):
    r"""``p(y | f) = N(y; f, σ²)``, for which sites are exact after one step.

    Parameters
    ----------
    variance : float, default=1.0
        ``σ²``.
    variance_bounds : pair of float or "fixed", default="fixed"
        Bounds between which ``σ²`` is learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Gaussian
    >>> value, slope, curvature = Gaussian(2.0).tilted(np.ones(1), np.zeros(1), np.full(1, 2.0))
    >>> slope, curvature
    (array([0.25]), array([0.25]))
    """

    def __init__(self, variance=1.0, variance_bounds="fixed"):
        self.variance = variance
        self.variance_bounds = variance_bounds

    def of_nothing(self, y, weight):
        """The targets as noise of their own variance; see `Likelihood.of_nothing`."""
        n, variance = weight.sum(), np.average(y**2, weights=weight)
        return -0.5 * n * (_LOG_2PI + np.log(variance) + 1.0)

    def expected(self, y, mean, variance):
        """Closed form; see `Likelihood.expected`."""
        offset, own = y - mean, self.variance
        value = -0.5 * (_LOG_2PI + np.log(own) + (offset**2 + variance) / own)
        return value, offset / own, np.full_like(mean, 1.0 / own)

    def tilted(self, y, mean, variance):
        """Closed form; see `Likelihood.tilted`."""
        offset, total = y - mean, self.variance + variance
        value = -0.5 * (_LOG_2PI + np.log(total) + offset**2 / total)
        return value, offset / total, 1.0 / total

    def response(self, mean, variance):
        """``N(mean, σ² + variance)``; see `Likelihood.response`."""
        return mean, self.variance + variance

    def sample(self, f, random_state):
        """Noise is added; see `Likelihood.sample`."""
        return f + np.sqrt(self.variance) * random_state.normal(size=np.shape(f))

    @property
    def theta(self):
        """``log σ²``, if it is learned."""
        return np.zeros(0) if self._is_fixed() else np.log([self.variance])

    @property
    def limits(self):
        """Limits of `theta`."""
        return np.zeros((0, 2)) if self._is_fixed() else np.log([self.variance_bounds])

    def with_theta(self, theta):
        """The same with another variance."""
        if self._is_fixed():
            return self
        return type(self)(np.exp(theta[0]), self.variance_bounds)

    def expected_slopes(self, y, mean, variance):
        """Gradient with respect to ``log σ²``; see `Likelihood.expected_slopes`."""
        slope = 0.5 * (((y - mean) ** 2 + variance) / self.variance - 1.0)
        return slope[None][: len(self.theta)]

    def tilted_slopes(self, y, mean, variance):
        """Gradient with respect to ``log σ²``; see `Likelihood.tilted_slopes`."""
        total = self.variance + variance
        slope = 0.5 * self.variance * ((y - mean) ** 2 / total - 1.0) / total
        return slope[None][: len(self.theta)]

    def _is_fixed(self):
        return isinstance(self.variance_bounds, str)


def _tilted_sigmoid(t, tilt):
    """``s``, its slope and its curvature for the logit, times ``exp(-tilt t)``."""
    s = np.exp(log_expit(t) - tilt * t)
    slope = s * expit(-t)
    return s, slope, slope * (1.0 - 2.0 * expit(t))

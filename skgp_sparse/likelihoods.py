r"""Likelihoods ``p(y | f)`` of an observation ``y`` given the latent value ``f`` of its row.

A likelihood has two main methods for rows whose latent values are ``f ~ N(mean, variance)``:

- `expected` computes ``E[log p(y | f)]``, which variational bounds sum over the rows.
- `tilted` computes ``log E[p(y | f)]``, which expectation propagation needs.

Both methods also return the first derivative (slope) and the negative second derivative (curvature)
with respect to the mean. The subpackages ``inference`` and ``_engine`` compute sites, gradients and
predictions from these. The site of a row is a Gaussian function of ``f`` that replaces
``p(y | f)``.
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, ndtr
from sklearn.base import BaseEstimator

from skgp_sparse._ground.quadrature import expectation

_LOG_2PI = np.log(2.0 * np.pi)
_FAR = -30.0  # from which the asymptotic series of the probit's slope has more digits


class Likelihood(BaseEstimator, ABC):
    """Base class of the likelihoods ``p(y | f)``, which must be log-concave in ``f``.

    A subclass defines `expected`, `tilted`, `response` and `sample`. It also defines `of_nothing`,
    the log likelihood of a model that does not use the inputs. A likelihood may have parameters
    that are learned. `skgp_sparse.testing.check_likelihood` checks a subclass.

    Attributes
    ----------
    latent_variance : tuple of float
        Lower and upper bound of the variance of the default kernel. Outside these bounds, the
        likelihood hardly changes with the variance.

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

    def kinds(self, y):
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

    @abstractmethod
    def of_nothing(self, y, weight):
        """Compute the log likelihood of a model that predicts the same distribution for all rows.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        weight : ndarray of shape (n,)
            Weights of the rows.

        Returns
        -------
        float
            Weighted sum of the log likelihoods of the rows.
        """

    @abstractmethod
    def expected(self, y, mean, variance):
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
    def tilted(self, y, mean, variance):
        """Compute ``log E[p(y | f)]`` for ``f ~ N(mean, variance)``.

        This is the log predictive density of the observation.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        value, slope, curvature : ndarray of shape (n,)
            The logarithm, its first derivative with respect to `mean`, and its negative second
            derivative.
        """

    @abstractmethod
    def response(self, mean, variance):
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

    @abstractmethod
    def sample(self, f, random_state):
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
    def theta(self):
        """Logarithms of the learned parameters, an array of shape (k,)."""
        return np.zeros(0)

    @property
    def limits(self):
        """Lower and upper bounds of `theta`, an array of shape (k, 2)."""
        return np.zeros((0, 2))

    def with_theta(self, theta):
        """Return a likelihood with other values of the learned parameters.

        Parameters
        ----------
        theta : ndarray of shape (k,)
            Logarithms of the learned parameters.

        Returns
        -------
        Likelihood
            A new likelihood, or this one if it has no learned parameters.
        """
        return self

    def expected_slopes(self, y, mean, variance):
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

    def tilted_slopes(self, y, mean, variance):
        """Compute the gradient of `tilted` with respect to `theta`.

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


class Binary(Likelihood):
    """Base class of likelihoods ``p(y | f) = s(y f)`` of labels ``y = ±1``, with a sigmoid ``s``.

    A subclass defines ``log s`` with its slope and curvature, `tilted`, and ``E[s]``.

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
        """Raise an error if some labels are not ±1; see `Likelihood.check`."""
        others = np.count_nonzero(np.abs(y) != 1.0)
        if others:
            raise ValueError(
                f"{name}: {type(self).__name__} takes the labels -1 and 1, but {others} rows have "
                "other labels. Use SparseGPClassifier, which encodes any labels."
            )

    def kinds(self, y):
        """Return the labels: rows with the same label form a group."""
        return y

    def of_nothing(self, y, weight):
        """Compute the log likelihood of the label frequencies; see `Likelihood.of_nothing`."""
        count = np.array([weight @ (y == label) for label in np.unique(y)])
        return count @ np.log(count / count.sum())

    def response(self, mean, variance):
        """Compute the mean and variance of the label ±1; see `Likelihood.response`."""
        mean = 2.0 * self.probability(mean, variance) - 1.0
        return mean, 1.0 - mean**2

    def sample(self, f, random_state):
        """Draw labels ±1; see `Likelihood.sample`."""
        p = self.probability(np.ravel(f), np.zeros(np.size(f))).reshape(np.shape(f))
        return np.where(random_state.uniform(size=p.shape) < p, 1.0, -1.0)

    def expected(self, y, mean, variance):
        """Compute the expectation by quadrature; see `Likelihood.expected`."""
        value, slope, curvature = expectation(self._log_sigmoid, y * mean, variance)
        return value, y * slope, curvature

    @abstractmethod
    def probability(self, mean, variance):
        """Compute ``E[s(f)]``, the probability of the positive class.

        Parameters
        ----------
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        ndarray of shape (n,)
            Probabilities, in [0, 1].
        """

    @abstractmethod
    def _log_sigmoid(self, t):
        """Compute ``log s``, its first derivative and its negative second derivative."""


class Probit(Binary):
    r"""Probit likelihood ``p(y | f) = Φ(y f)``, where ``Φ`` is the normal distribution function.

    The method `tilted` and the probabilities have closed forms: see Rasmussen and Williams (2006),
    "Gaussian processes for machine learning", eq. 3.80 and 3.82.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Probit
    >>> Probit().probability(np.array([0.0, 1e3]), np.array([1.0, 1.0]))
    array([0.5, 1. ])
    """

    def tilted(self, y, mean, variance):
        """Compute the closed form; see `Likelihood.tilted`."""
        scale = np.sqrt(1.0 + variance)
        value, slope, curvature = self._log_sigmoid(y * mean / scale)
        return value, y * slope / scale, curvature / scale**2

    def probability(self, mean, variance):
        """Compute ``Φ(mean / √(1 + variance))``; see `Binary.probability`."""
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
    r"""Logit likelihood ``p(y | f) = 1 / (1 + exp(-y f))``, with expectations by quadrature.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Logit
    >>> Logit().probability(np.array([0.0, 1e3]), np.array([1.0, 1.0])).round(12)
    array([0.5, 1. ])
    """

    def tilted(self, y, mean, variance):
        """Compute the expectation by quadrature; see `Likelihood.tilted`."""
        mean = y * mean
        # s(t) = exp(θt) s(t) exp(-θt), and exp(θt) moves the mean to where the mass of s(t) is
        tilt = np.clip(-mean / np.maximum(variance, np.finfo(float).tiny), 0.0, 1.0)
        centre = mean + tilt * variance
        s, first, second = expectation(_tilted_sigmoid, centre, variance, tilt)
        first, second = first / s, second / s
        value = np.log(s) + tilt * (mean + 0.5 * tilt * variance)
        return value, y * first, np.maximum(first**2 - second, 0.0)

    def probability(self, mean, variance):
        """Compute the probability by quadrature; see `Binary.probability`."""
        found = expectation(lambda f: (expit(f),), mean, variance)[0]
        return np.minimum(found, 1.0)  # weights add up to 1 but for rounding

    def _log_sigmoid(self, t):
        slope = expit(-t)
        return log_expit(t), slope, slope * (1.0 - slope)


class Gaussian(Likelihood):
    r"""Gaussian likelihood ``p(y | f) = N(y; f, σ²)``, whose sites are exact after one iteration.

    Parameters
    ----------
    variance : float, default=1.0
        The noise variance ``σ²``.
    variance_bounds : pair of float or "fixed", default="fixed"
        The lower and upper bound on ``σ²``. If set to "fixed", ``σ²`` is not learned.

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
        """Compute the log likelihood of ``N(0, mean of y²)``; see `Likelihood.of_nothing`."""
        n, variance = weight.sum(), np.average(y**2, weights=weight)
        return -0.5 * n * (_LOG_2PI + np.log(variance) + 1.0)

    def expected(self, y, mean, variance):
        """Compute the closed form; see `Likelihood.expected`."""
        offset, own = y - mean, self.variance
        value = -0.5 * (_LOG_2PI + np.log(own) + (offset**2 + variance) / own)
        return value, offset / own, np.full_like(mean, 1.0 / own)

    def tilted(self, y, mean, variance):
        """Compute the closed form; see `Likelihood.tilted`."""
        offset, total = y - mean, self.variance + variance
        value = -0.5 * (_LOG_2PI + np.log(total) + offset**2 / total)
        return value, offset / total, 1.0 / total

    def response(self, mean, variance):
        """Return `mean` and ``σ² + variance``; see `Likelihood.response`."""
        return mean, self.variance + variance

    def sample(self, f, random_state):
        """Add Gaussian noise to the latent values; see `Likelihood.sample`."""
        return f + np.sqrt(self.variance) * random_state.normal(size=np.shape(f))

    @property
    def theta(self):
        """The array ``[log σ²]`` if ``σ²`` is learned, otherwise an empty array."""
        return np.zeros(0) if self._is_fixed() else np.log([self.variance])

    @property
    def limits(self):
        """Lower and upper bounds of `theta`."""
        return np.zeros((0, 2)) if self._is_fixed() else np.log([self.variance_bounds])

    def with_theta(self, theta):
        """Return a Gaussian likelihood with another variance; see `Likelihood.with_theta`."""
        if self._is_fixed():
            return self
        return type(self)(np.exp(theta[0]), self.variance_bounds)

    def expected_slopes(self, y, mean, variance):
        """Compute the gradient with respect to ``log σ²``; see `Likelihood.expected_slopes`."""
        slope = 0.5 * (((y - mean) ** 2 + variance) / self.variance - 1.0)
        return slope[None][: len(self.theta)]

    def tilted_slopes(self, y, mean, variance):
        """Compute the gradient with respect to ``log σ²``; see `Likelihood.tilted_slopes`."""
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

"""Likelihoods of labels ±1."""

from abc import abstractmethod

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, ndtr

from skgp_sparse.ground.integrals import expectation, log_moments
from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import Array, Scalars, Triple

from ._base import Domain, Likelihood, best_constant, expect

ENCODES_LABELS = "Use SparseGPClassifier, which encodes any labels."
_ASYMPTOTIC_BELOW = -30.0  # from which the asymptotic series of the probit's slope has more digits


class Labels(Likelihood):
    """A likelihood of labels, of which a small sample should contain all."""

    latent_variance = (1e-2, 50.0)  # probabilities saturate beyond

    def kinds(self, y: Array) -> Array:
        """Return the labels: rows with the same label form a group."""
        return y

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of the label frequencies; see the base class."""
        count = np.array([weight @ (y == label) for label in np.unique(y)])
        return count @ np.log(count / count.sum())


class Binary(Labels):
    """Base class of likelihoods ``p(y | f) = s(y f)`` of labels ``y = ±1``, with a sigmoid ``s``.

    A subclass defines `log_sigmoid`, which is ``log s`` with its slope and curvature, and
    `probability`, which is ``E[s]``. The function ``log s`` must be concave.

    Attributes
    ----------
    strip : float
        Half-width of a strip around the real axis of the complex plane in which ``s`` has neither a
        zero nor a pole: ``π`` for the logit, and less for a steeper sigmoid. Integrals are
        inaccurate if it is too wide, and slow if it is very narrow.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Binary, Probit
    >>> isinstance(Probit(), Binary)
    True
    >>> Probit().kinds(np.array([1.0, -1.0]))
    array([ 1., -1.])
    """

    strip = 0.3
    domain = Domain("the labels -1 and 1", only=(-1.0, 1.0), remedy=ENCODES_LABELS)

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Compute the log likelihood of a constant latent value; see the base class."""
        if np.any(offset):
            return best_constant(lambda f: self._of_labels(y, f), weight, offset)
        return super().constant_log_likelihood(y, weight, offset)

    def _of_labels(self, y: Array, f: Array) -> Triple:
        value, slope, curvature = self.log_sigmoid(y * f)
        return value, y * slope, curvature

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of the label ±1; see `Likelihood.response`."""
        mean = 2.0 * self.probability(mean, variance) - 1.0
        return mean, 1.0 - mean**2

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw labels ±1; see `Likelihood.sample`."""
        p = self.probability(np.ravel(f), np.zeros(np.size(f))).reshape(np.shape(f))
        return np.where(random_state.uniform(size=p.shape) < p, 1.0, -1.0)

    def expected(self, y: Array, mean: Array, variance: Array) -> Triple:
        """Compute the expectation by quadrature; see `Likelihood.expected`."""
        value, slope, curvature = expect(self.log_sigmoid, y * mean, variance, strip=self.strip)
        return value, y * slope, curvature

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Compute a numerical integral; see `Likelihood.tilted`."""
        value, *rest = log_moments(self.log_sigmoid, y * mean, variance, power, self.strip)
        return value, y * rest[0], rest[1]

    @abstractmethod
    def probability(self, mean: Array, variance: Array) -> Array:
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
    def log_sigmoid(self, t: Array) -> Triple:
        """Compute the logarithm of the sigmoid.

        Parameters
        ----------
        t : ndarray
            Latent values times labels, of any shape.

        Returns
        -------
        value, slope, curvature : ndarray
            ``log s(t)``, its first derivative and its negative second derivative, in the shape of
            `t`.
        """


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

    strip = 2.8

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Compute the closed form, or an integral of a power; see `Likelihood.tilted`."""
        if np.any(np.asarray(power) != 1.0):
            return super().tilted(y, mean, variance, power)
        scale = np.sqrt(1.0 + variance)
        value, slope, curvature = self.log_sigmoid(y * mean / scale)
        return value, y * slope / scale, curvature / scale**2

    def probability(self, mean: Array, variance: Array) -> Array:
        """Compute ``Φ(mean / √(1 + variance))``; see `Binary.probability`."""
        return ndtr(mean / np.sqrt(1.0 + variance))

    def log_sigmoid(self, t: Array) -> Triple:
        """Compute ``log Φ``, far out by a series; see `Binary.log_sigmoid`."""
        value = log_ndtr(t)
        with np.errstate(over="ignore"):  # far out, where the series takes over
            slope = np.exp(-0.5 * (t * t + LOG_2PI) - value)
        excess = np.maximum(slope + t, 0.0)
        far = t < _ASYMPTOTIC_BELOW
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

    strip = np.pi

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Compute the expectation by quadrature; see `Likelihood.tilted`."""
        if np.any(np.asarray(power) != 1.0):
            return super().tilted(y, mean, variance, power)
        mean = y * mean
        # s(t) = exp(θt) s(t) exp(-θt), and exp(θt) moves the mean to where the mass of s(t) is
        tilt = np.clip(-mean / np.maximum(variance, np.finfo(float).tiny), 0.0, 1.0)
        centre = mean + tilt * variance
        s, first, second = expectation(_tilted_sigmoid, centre, variance, tilt)
        first, second = first / s, second / s
        value = np.log(s) + tilt * (mean + 0.5 * tilt * variance)
        return value, y * first, np.maximum(first**2 - second, 0.0)

    def probability(self, mean: Array, variance: Array) -> Array:
        """Compute the probability by quadrature; see `Binary.probability`."""
        p = expectation(lambda f: (expit(f),), mean, variance)[0]
        return np.minimum(p, 1.0)  # weights add up to 1 but for rounding

    def log_sigmoid(self, t: Array) -> Triple:
        """Compute ``-log(1 + exp(-t))``; see `Binary.log_sigmoid`."""
        slope = expit(-t)
        return log_expit(t), slope, slope * (1.0 - slope)


def _tilted_sigmoid(t: Array, tilt: Array) -> Triple:
    """``s``, its slope and its curvature for the logit, times ``exp(-tilt t)``."""
    s = np.exp(log_expit(t) - tilt * t)
    slope = s * expit(-t)
    return s, slope, slope * (1.0 - 2.0 * expit(t))

"""Likelihoods whose logarithm is a concave function: all integrals are numerical."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from skgp_sparse._ground.quadrature import STRIP, expectation
from skgp_sparse._ground.tilted import log_moments
from skgp_sparse._ground.typing import Array, Scalars, Triple
from skgp_sparse.likelihoods._base import Likelihood
from skgp_sparse.likelihoods._parametric import best_constant


def expect(
    g: Callable[..., Any], mean: Array, variance: Array, *by_row: Array, strip: float = 0.3
) -> Any:
    """Compute ``E[g(f)]`` for ``f ~ N(mean, variance)`` by quadrature.

    The relative error is about 1e-12 if ``g`` is analytic in the strip, and grows no faster than a
    power of ``f``.

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
    ...     standardises = True
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
        return best_constant(self.log_likelihood, y, weight, offset)

    def expected(self, y: Array, mean: Array, variance: Array) -> Triple:
        """Compute the expectation by quadrature; see `Likelihood.expected`."""
        return expect(self._at, mean, variance, y, strip=self.strip)

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Compute a numerical integral; see `Likelihood.tilted`."""
        return log_moments(self._at, mean, variance, power, self.strip, y)

    def _at(self, f: Array, y: Array) -> Triple:
        return self.log_likelihood(y, f)

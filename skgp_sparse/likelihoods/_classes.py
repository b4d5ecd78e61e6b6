"""Likelihoods of class labels: several classes, and classes in an order.

`Softmax` and `EachClass` have a latent value for each class. `Ordinal` is the cumulative probit
model, whose thresholds are learned.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from skgp_sparse.ground import integrals
from skgp_sparse.ground.integrals import log_moments
from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import Array, Scalars, Triple

from ._base import Domain, Parametric, expect
from ._binary import ENCODES_LABELS, Binary, Labels
from ._special import log_probability


def _numbered(count: int) -> Domain:
    """The `Domain` of so many labels."""
    labels = tuple(range(count))
    return Domain(f"the labels 0 ... {count - 1}", only=labels, remedy=ENCODES_LABELS)


class Softmax(Labels):
    """Softmax likelihood of labels ``0 ... C - 1``, ``p(y = k | f) = exp(f_k) / Σ exp(f_c)``.

    Means and variances of the independent latent values are arrays (C, n). Expectations are
    integrals over one variable, exact to 1e-12: with ``ψ_c(u) = E[exp(-exp(u + f_c))]``,

    - ``E[log Σ exp(f_c)] = -γ - ∫ (Π ψ_c(u) - [u < 0]) du``, where γ is Euler's constant, as
      ``Π ψ_c(u)`` is the probability that ``log Σ exp(f_c)`` plus a Gumbel variable is below
      ``-u``;
    - ``E[p(y = k | f)] = -∫ ψ_k'(u) Π_{c≠k} ψ_c(u) du``, its derivative with respect to ``m_k``.

    >>> mean, variance = np.array([[2.0], [0.0], [-1.0]]), np.ones((3, 1))
    >>> Softmax(3).probability(mean, variance)[:, 0].round(4)
    array([0.7621, 0.1677, 0.0702])
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = self.n_latent = n_classes
        self.domain = _numbered(n_classes)

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Return nearly constant functions, of shape (C, n); see `Likelihood.first_sites`."""
        linear, precision = super().first_sites(y)
        return np.tile(linear, (self.n_classes, 1)), np.tile(precision, (self.n_classes, 1))

    def expected(self, y: Array, mean: Array, variance: Array) -> Triple:
        """Expectation (n,) of ``log p(y | f)``, with slopes and curvatures (C, n), one by one."""
        value, slope, curvature = integrals.log_sum_exp(mean, variance)
        at_label = (y.astype(int), np.arange(len(y)))
        value = mean[at_label] - value
        np.negative(slope, out=slope)
        slope[at_label] += 1.0
        return value, slope, curvature

    def tilted(self, y: Array, mean: Array, variance: Array, power: Scalars = 1.0) -> Triple:
        """Raise NotImplementedError; see `log_density`."""
        name = type(self).__name__
        raise NotImplementedError(f"{name} has no sites. Use log_density or the probability.")

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Raise NotImplementedError: class labels have no mean."""
        raise NotImplementedError("Class labels have no mean. Use the probability.")

    def probability(self, mean: Array, variance: Array) -> Array:
        """Probabilities (C, n) of all classes, which add up to 1, to about 1e-11."""
        return integrals.log_sum_exp(mean, variance)[1]

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        """Log probabilities (n,) of labels: finite, those of less than about 1e-11 inaccurate."""
        probability = self.probability(mean, variance)[y.astype(int), np.arange(len(y))]
        return np.log(np.maximum(probability, np.finfo(float).tiny))

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Labels, in the shape of ``f[0]``, of latent values (C, ...)."""
        noise = random_state.gumbel(size=np.shape(f))
        return np.argmax(f + noise, axis=0).astype(float)  # c with its probability


class EachClass(Softmax):
    """Product of binary problems, each one class against all others, ``p(y | f) = Π_c s(t_c f_c)``.

    The objective of inference is the sum of those of the problems. A label from C on is that of a
    class without a problem: the row is one of the others in all of them.
    """

    def __init__(self, sigmoid: Binary, n_classes: int) -> None:
        super().__init__(n_classes)
        self.sigmoid, self.domain = sigmoid, _numbered(n_classes + 1)

    def constant_log_likelihood(self, y: Array, weight: Array, offset: Array) -> float:
        """Sum of those of the problems."""
        each = self._of_problems(y)
        return sum(self.sigmoid.constant_log_likelihood(one, weight, offset) for one in each)

    def first_sites(self, y: Array) -> tuple[Array, Array]:
        """Sites of the problems, of shape (C, n)."""
        linear, precision = self.sigmoid.first_sites(self._of_problems(y).ravel())
        return linear.reshape(self.n_classes, -1), precision.reshape(self.n_classes, -1)

    def expected(self, y: Array, mean: Array, variance: Array) -> Triple:
        """Sum (n,) of the expectations of the problems, with slopes and curvatures (C, n)."""
        value, slope, curvature = self._each(self.sigmoid.expected, y, mean, variance)
        return value.sum(axis=0), slope, curvature

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        """Sum (n,) of those of the problems."""
        return self._each(self.sigmoid.tilted, y, mean, variance)[0].sum(axis=0)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Raise NotImplementedError: the problems may contradict each other."""
        raise NotImplementedError("Several problems have no common labels. Draw those of each.")

    def _of_problems(self, y: Array) -> Array:
        """Labels ±1 of all problems (C, n)."""
        return np.where(np.arange(self.n_classes)[:, None] == y, 1.0, -1.0)

    def _each(self, function: Callable, y: Array, mean: Array, variance: Array) -> tuple:
        """Arrays (C, n) that a function of a binary problem returns, for all problems."""
        columns = function(self._of_problems(y).ravel(), mean.ravel(), variance.ravel())
        return tuple(column.reshape(mean.shape) for column in columns)


_STRIP = 2.6  # no zero of the density is nearer to the real axis, however wide the interval is
_GAPS = (1e-4, 1e3)  # lower and upper bound of a gap between thresholds
_START_STD = np.sqrt(2.0)  # of the latent value of the default kernel, noise included
_UNSEEN = 0.5  # rows that a label without rows counts as, where thresholds start


class Ordinal(Labels, Parametric):
    r"""Cumulative probit likelihood of ordered labels, with one latent value for each row.

    The labels are the numbers ``0 ... C - 1`` in their order. With the increasing thresholds
    ``t_1 ... t_{C-1}``, ``t_0 = -∞`` and ``t_C = ∞``, the likelihood is

    .. math:: p(y = k | f) = Φ(t_{k+1} - f) - Φ(t_k - f).

    The first threshold and the gaps between thresholds, which are positive, are learned. The method
    `tilted` and the probabilities have closed forms, see Chu and Ghahramani (2005), "Gaussian
    processes for ordinal regression", JMLR 6. Other expectations are numerical integrals.

    Parameters
    ----------
    first : float, default=0.0
        The first threshold.
    gaps : tuple of float, default=()
        The ``C - 2`` differences between neighbouring thresholds. Two classes have no gap.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.likelihoods import Ordinal
    >>> likelihood = Ordinal(first=-1.0, gaps=(2.0,))
    >>> likelihood.thresholds
    array([-1.,  1.])
    >>> likelihood.probability(np.zeros(1), np.zeros(1))[:, 0].round(3)
    array([0.159, 0.683, 0.159])
    """

    def __init__(self, first: float = 0.0, gaps: tuple[float, ...] = ()) -> None:
        self.first = first
        self.gaps = gaps

    @property
    def thresholds(self) -> Array:
        """The thresholds in increasing order, an array of shape (C - 1,)."""
        return self.first + np.append(0.0, np.cumsum(self.gaps))

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """The labels ``0 ... C - 1``."""
        return _numbered(len(self.gaps) + 2)

    @property
    def theta(self) -> Array:
        """The first threshold, and the logarithms of the gaps."""
        return np.append(self.first, np.log(self.gaps))

    @property
    def limits(self) -> Array:
        """Lower and upper bounds of `theta`."""
        return np.array([(-np.inf, np.inf)] + [np.log(_GAPS)] * len(self.gaps))

    def with_theta(self, theta: Array) -> "Ordinal":
        """Return a likelihood with other thresholds; see `Likelihood.with_theta`."""
        return Ordinal(float(theta[0]), tuple(np.exp(theta[1:]).tolist()))

    def started(self, y: Array, weight: Array, offset: Array) -> "Ordinal":
        """Set the thresholds to quantiles of the label frequencies; see `Likelihood.started`."""
        count = np.bincount(y.astype(int), weight, len(self.gaps) + 2)
        count[count == 0.0] = _UNSEEN
        cumulative = np.cumsum(count)
        thresholds = _START_STD * ndtri(cumulative[:-1] / cumulative[-1])
        gaps = np.clip(np.diff(thresholds), *_GAPS)
        return Ordinal(float(thresholds[0]), tuple(gaps.tolist()))

    def probability(self, mean: Array, variance: Array) -> Array:
        """Compute the probabilities of all labels.

        Parameters
        ----------
        mean, variance : ndarray of shape (n,)
            Means and variances of the latent values.

        Returns
        -------
        ndarray of shape (C, n)
            Probabilities, which add up to 1 for every row.
        """
        ends = np.hstack([-np.inf, self.thresholds, np.inf])[:, None]
        t = (ends - mean) / np.sqrt(1.0 + variance)
        is_high = t[:-1] + t[1:] > 0.0  # where differences from below lose digits
        return np.where(is_high, ndtr(-t[:-1]) - ndtr(-t[1:]), ndtr(t[1:]) - ndtr(t[:-1]))

    def response(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Compute the mean and variance of the label as a number; see `Likelihood.response`."""
        labels, p = np.arange(len(self.gaps) + 2.0), self.probability(mean, variance)
        centre = labels @ p
        return centre, np.sum(p * (labels[:, None] - centre) ** 2, axis=0)

    def quantile(self, q: float, mean: Array, variance: Array) -> Array:
        """Compute the smallest such labels; see `Likelihood.quantile`."""
        below = ndtr((self.thresholds[:, None] - mean) / np.sqrt(1.0 + variance))
        return np.sum(below < q, axis=0).astype(float)

    def sample(self, f: Array, random_state: np.random.RandomState) -> Array:
        """Draw labels; see `Likelihood.sample`."""
        noisy = f + random_state.normal(size=np.shape(f))
        return np.searchsorted(self.thresholds, noisy).astype(float)

    def _centred(self, y: Array, mean: Array) -> tuple[Array, Array, Array]:
        """Means and ends, from the middle of the interval or from its finite end."""
        ends = np.hstack([-np.inf, self.thresholds, np.inf])
        low, high = ends[y.astype(int)], ends[y.astype(int) + 1]
        is_inside = np.isfinite(low) & np.isfinite(high)
        centre = np.where(is_inside, 0.5 * (low + high), np.where(np.isfinite(low), low, high))
        return mean - centre, low - centre, high - centre

    def _expected(self, y: Array, mean: Array, variance: Array) -> Any:
        """`expected`, and the expectation of the share of the lower end in the slope."""
        mean, low, high = self._centred(y, mean)
        return expect(_log_probability, mean, variance, low, high, strip=_STRIP)

    def _tilted(self, y: Array, mean: Array, variance: Array, power: Scalars) -> Any:
        """`tilted`, and the same expectation under the tilted distribution."""
        mean, low, high = self._centred(y, mean)
        if np.any(np.asarray(power) != 1.0):
            return log_moments(_log_probability, mean, variance, power, _STRIP, low, high)
        scale = np.sqrt(1.0 + variance)
        value, slope, curvature, lower = _log_probability(mean / scale, low / scale, high / scale)
        return value, slope / scale, curvature / scale**2, lower / scale

    def _by_theta(self, y: Array, slope: Array, power: Scalars, lower: Array) -> Array:  # type: ignore[override]
        """Derivatives with respect to `theta` (C - 1, n), from those with respect to both ends."""
        lower = power * lower
        number, upper = np.arange(1, len(self.gaps) + 1)[:, None], lower - slope
        inner = upper * (y < len(self.gaps) + 1) * (y >= number) - lower * (y > number)
        return np.vstack([-slope, np.reshape(self.gaps, (-1, 1)) * inner])


def _log_probability(f: Array, low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
    """``log(Φ(high - f) - Φ(low - f))``, its slope and curvature, and ``φ(low - f)`` over it."""
    value, slope, curvature = log_probability(low - f, high - f, high - low)
    lower = np.exp(-0.5 * ((low - f) ** 2 + LOG_2PI) - value)
    return value, slope, curvature, lower

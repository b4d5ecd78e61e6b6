"""Likelihoods of labels: two classes, several classes, and classes in an order.

`Binary` is one of labels ±1, with a sigmoid. `Softmax` and `EachClass` have a latent value for each
class. `Ordinal` is the cumulative probit model, whose thresholds are learned. `log_probability` and
`clipped_moments` are those of a normal variable and an interval.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, ndtr, ndtri

from skgp_sparse.ground import integrals
from skgp_sparse.ground.integrals import expectation, log_moments
from skgp_sparse.ground.linalg import LOG_2PI
from skgp_sparse.ground.validation import Array, Scalars, Triple

from ._base import Domain, Likelihood, Parametric, best_constant, expect

_ENCODES_LABELS = "Use SparseGPClassifier, which encodes any labels."
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
    domain = Domain("the labels -1 and 1", only=(-1.0, 1.0), remedy=_ENCODES_LABELS)

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
        s, first, second = expectation(_tilted_sigmoid, mean + tilt * variance, variance, tilt)
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


# -- probabilities of intervals under a normal distribution, and moments between limits ------------

_FAR = 40.0  # standard deviations, beyond which there is no probability in double precision
_NARROW = 1.0  # width of an interval times one plus its distance, from where r is below 1/2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_LEAST_VARIANCE = 1e-16  # of what is nearly always at a limit


def log_probability(lower: Array, upper: Array, width: Array) -> Triple:
    """Log probability of an interval in standard deviations, its slope and curvature in the mean.

    With the normal density ``φ``, its upper tail ``Q`` and the hazard ``λ = φ/Q``, the share
    ``r = Q(b)/Q(a)`` and its odds ``k = r/(1 - r)``, it is

        log P = log Q(a) + log(1 - r),    slope = λ(a) - k δ,    δ = λ(b) - λ(a),
        curvature = c(a) - k (c(b) - c(a)) + k (1 + k) δ²,    c = λ (λ - t),

    which keeps its digits in the tails if the interval is turned to the positive side and r is not
    near one. Narrow intervals, whose width has all of its digits, have r near one: there,
    ``exp(-c t - t²/2)`` is integrated around the middle ``c`` by a Gauss-Legendre rule, and the
    curvature is one minus the variance of ``t``.
    """
    sign, a, b = _turned(lower, upper)
    value, hazard, bend = Probit().log_sigmoid(-a)
    beyond, other, end = Probit().log_sigmoid(-b)
    share = np.exp(beyond - value)
    odds = share / (1.0 - share)
    rise = odds * (other - hazard)
    value = value + np.log1p(-share)
    slope = hazard - rise
    curvature = bend - odds * (end - bend) + rise * (other - hazard) * (1.0 + odds)
    middle = 0.5 * (a + b)
    narrow = width * (1.0 + middle) < _NARROW
    if np.any(narrow):
        width = np.broadcast_to(width, narrow.shape)
        found = _narrow(middle[narrow], 0.5 * width[narrow])
        value[narrow], slope[narrow], curvature[narrow] = found
    return value, sign * slope, curvature


def _turned(lower: Array, upper: Array) -> Triple:
    """The sign that turns intervals to the positive side, and their ends there, finite."""
    sign = np.where(upper < -lower, -1.0, 1.0)
    a = np.maximum(np.where(sign < 0.0, -upper, lower), -_FAR)
    return sign, a, np.minimum(np.where(sign < 0.0, -lower, upper), 2.0 * np.maximum(a, 0.0) + _FAR)


def _narrow(middle: Array, half: Array) -> Triple:
    """Value, slope and curvature for narrow intervals (n,), whose middle is not negative."""
    t = half[:, None] * _NODES
    parts = _WEIGHTS * np.exp(-t * (middle[:, None] + 0.5 * t))
    total = parts.sum(axis=1)
    mean, square = ((parts * power).sum(axis=1) / total for power in (t, t * t))
    value = np.log(half * total) - 0.5 * (middle**2 + LOG_2PI)
    return value, middle + mean, 1.0 - (square - mean**2)


def clipped_moments(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Mean and positive variance of a standard normal number that limits replace beyond them."""
    sign, a, b = _turned(lower, upper)
    tails = [ndtr(-a), ndtr(-b)]
    heights = [np.exp(-0.5 * (t * t + LOG_2PI)) for t in (a, b)]
    above, beyond = (height - t * tail for t, height, tail in zip((a, b), heights, tails))
    squares = [(1.0 + t * t) * tail - t * p for t, p, tail in zip((a, b), heights, tails)]
    mean = above - beyond
    square = squares[0] - squares[1] - 2.0 * (b - a) * beyond
    return sign * (a + mean), np.maximum(square - mean**2, _LEAST_VARIANCE)


# -- several classes, and classes in an order ------------------------------------------------------


def _numbered(count: int) -> Domain:
    """The `Domain` of so many labels."""
    return Domain(f"the labels 0 ... {count - 1}", only=tuple(range(count)), remedy=_ENCODES_LABELS)


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
        return Ordinal(float(thresholds[0]), tuple(np.clip(np.diff(thresholds), *_GAPS).tolist()))

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

    def cdf(self, y: Array, mean: Array, variance: Array) -> Array:
        """Compute the closed form; see `Likelihood.cdf`."""
        place = np.clip(np.floor(y) + 1.0, 0.0, len(self.gaps) + 2.0).astype(int)
        ends = np.hstack([-np.inf, self.thresholds, np.inf])
        return ndtr((ends[place] - mean) / np.sqrt(1.0 + variance))

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
    return value, slope, curvature, np.exp(-0.5 * ((low - f) ** 2 + LOG_2PI) - value)

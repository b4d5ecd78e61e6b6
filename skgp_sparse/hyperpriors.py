r"""Priors of hyperparameters, which a fit adds to what the data say of them.

A fit with a prior maximises

.. math:: F(\theta) + \log p(\theta), \qquad
    \log p(\theta) = -\sum_j \frac{(\theta_j - \mu_j)^2}{2 v},

where F is the objective of the rows and θ are logarithms of hyperparameters. The prior counts once
per fit, however many rows there are, and a constant is left out. What an estimator tells of the
evidence is F without the prior.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Real
from typing import Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from skgp_sparse import kernels
from skgp_sparse.ground.linalg import count_varying
from skgp_sparse.ground.validation import Array, Ints, Kernel, check_number, require


class HyperPrior(BaseEstimator, ABC):
    """The contract of a prior of hyperparameters, which has a variance and may have a location."""

    variance: float
    _least_location = -np.finfo(float).max  # that a parameter `location` may have

    @abstractmethod
    def of(self, kernel: Kernel, scale: Array) -> "ThetaPrior":
        """Return the `ThetaPrior` of a kernel, whose columns have standard deviations (d,)."""

    def check_parameters(self, name: str) -> None:
        """Raise unless the parameters can be used by the estimator of this name."""
        check_number(self.variance, "prior__variance", name, Real, low=np.finfo(float).tiny)
        location = getattr(self, "location", 0.0)
        if isinstance(location, str) and self._least_location < 0.0:
            require(location == "scaled", "prior__location", location, name, "'scaled' or a float")
        else:
            check_number(location, "prior__location", name, Real, low=self._least_location)


class LogNormalLengthScales(HyperPrior):
    r"""Length scales have log-normal priors, whose location grows with the number of columns.

    With the standard deviation :math:`s_j` of column j, the length scale of each of the d columns
    that vary and that a kernel sees has the prior

    .. math:: \log(l_j / s_j) \sim N\big(\sqrt 2 + \tfrac12 \log d,\; 3\big).

    Distances between rows grow with the square root of d. A prior that grows with them expects
    functions of the same complexity for any number of columns (Hvarfner, Hellsten and Nardi 2024).
    Where few rows say little about many columns, it keeps length scales from growing short for a
    column that seems to matter by accident, or long without end.

    A fit maximises the density of :math:`\log l`, whose maximum is at its location. The density of
    l is highest where :math:`\log l` is smaller by the variance, and software that maximises that
    one finds shorter length scales.

    All free hyperparameters with the name ``length_scale`` have it, except those of periodic
    kernels, which are no lengths, and of kernels on maps of columns such as `Sphere`. A kernel that
    sees some of the columns has the d of these. A length scale that several columns share is in
    units of the root mean square of their standard deviations.

    Parameters
    ----------
    location : "scaled" or float, default="scaled"
        The mean of the logarithm of a length scale in units of the standard deviation of its
        column. "scaled" is :math:`\sqrt 2 + \frac12 \log d`.
    variance : float, default=3.0
        The variance of this logarithm.

    References
    ----------
    Hvarfner, Hellsten, Nardi (2024). "Vanilla Bayesian optimization performs great in high
    dimensions." ICML.

    Examples
    --------
    Forty rows say little about twenty columns, of which one matters:

    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.hyperpriors import LogNormalLengthScales
    >>> rng = np.random.RandomState(0)
    >>> X = rng.normal(size=(1040, 20))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=1040)
    >>> plain = SparseGPRegressor(prior=None).fit(X[:40], y[:40])
    >>> model = SparseGPRegressor(prior=LogNormalLengthScales(variance=1.0)).fit(X[:40], y[:40])
    >>> bool(model.score(X[40:], y[40:]) > plain.score(X[40:], y[40:]))
    True
    """

    def __init__(self, location: float | Literal["scaled"] = "scaled", variance: float = 3.0):
        self.location = location
        self.variance = variance

    def of(self, kernel: Kernel, scale: Array) -> "ThetaPrior":
        """Return the prior of the hyperparameters of a kernel; see `HyperPrior.of`."""
        positions, means = [_NONE], [np.zeros(0)]
        for places, columns in kernels.length_scale_places(kernel, len(scale), periodic=False):
            spread = scale[columns]
            scaled = np.sqrt(2.0) + 0.5 * np.log(count_varying(spread))
            if len(places) == 1:
                # no large spread overflows
                spread = np.hypot.reduce(spread) / np.sqrt(len(columns))
            location = scaled if isinstance(self.location, str) else self.location
            positions.append(places)
            means.append(np.log(spread) + location + np.zeros(len(places)))
        mean = np.concatenate(means)
        return ThetaPrior(np.concatenate(positions), mean, np.full(len(mean), self.variance))


class CorrelationPrior(HyperPrior):
    r"""Correlations of several columns are alike, unless the data say otherwise.

    The correlations :math:`\rho_j` of the columns of a `Categorical` or a `Missing` kernel are
    learned by :math:`t_j = \log(-\log \rho_j)`, which have the prior

    .. math:: t_j \sim N(\bar t, v), \qquad \bar t = \tfrac1q \sum_j t_j,

    whose mean is free. Where there are many categories and few rows, this keeps a fit from giving
    weight to those that separate the targets by accident.

    Parameters
    ----------
    variance : float, default=1.0
        The variance v.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.hyperpriors import CorrelationPrior
    >>> from skgp_sparse.kernels import Categorical
    >>> prior = CorrelationPrior().of(Categorical(correlation=np.array([0.5, 0.9])), np.ones(2))
    >>> prior.log_density(np.array([0.0, 2.0]))
    -1.0
    """

    def __init__(self, variance: float = 1.0) -> None:
        self.variance = variance

    def of(self, kernel: Kernel, scale: Array) -> "ThetaPrior":
        """Return the prior of the hyperparameters of a kernel; see `HyperPrior.of`."""
        groups = [one for one in kernels.positions_of(kernel, "correlation") if len(one) > 1]
        return ThetaPrior(groups=tuple((one, float(self.variance)) for one in groups))


class MissingValuePrior(HyperPrior):
    r"""Missing values are seen near the mean of their column, unless the data say otherwise.

    The neutral values :math:`v_j` of a `Missing` kernel, in standard deviations from the mean of
    their columns, have the prior

    .. math:: v_j \sim N(0, v).

    Without it, a fit to few rows places each neutral value where the rows with a missing value
    happen to be explained best.

    Parameters
    ----------
    variance : float, default=0.1
        The variance v.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.hyperpriors import MissingValuePrior
    >>> from skgp_sparse.kernels import Missing
    >>> kernel = Missing(RBF(), columns=[0, 1])
    >>> prior = MissingValuePrior().of(kernel, np.ones(2))
    >>> prior.positions, prior.mean
    (array([3, 4]), array([0., 0.]))
    """

    def __init__(self, variance: float = 0.1) -> None:
        self.variance = variance

    def of(self, kernel: Kernel, scale: Array) -> "ThetaPrior":
        """Return the prior of the hyperparameters of a kernel; see `HyperPrior.of`."""
        return _normal(kernel, "neutral", 0.0, self.variance)


class MissingNoisePrior(HyperPrior):
    r"""Missing values leave a little noise, and as much in every column, unless the data say more.

    The variances :math:`s_j` of the noise of a `Missing` kernel have the prior

    .. math:: \log s_j \sim N(\log a, v).

    Parameters
    ----------
    location : float, default=0.02
        The variance a, in units of those of the kernel within `Missing`.
    variance : float, default=1.0
        The variance v of the logarithm.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.hyperpriors import MissingNoisePrior
    >>> from skgp_sparse.kernels import Missing
    >>> kernel = Missing(RBF(), columns=[0, 1], noise=0.1)
    >>> MissingNoisePrior().of(kernel, [1.0, 1.0]).positions
    array([5, 6])
    """

    _least_location = np.finfo(float).tiny

    def __init__(self, location: float = 0.02, variance: float = 1.0) -> None:
        self.location = location
        self.variance = variance

    def of(self, kernel: Kernel, scale: Array) -> "ThetaPrior":
        """Return the prior of the hyperparameters of a kernel; see `HyperPrior.of`."""
        return _normal(kernel, "noise", np.log(self.location), self.variance)


AnyPrior = LogNormalLengthScales | MissingValuePrior | MissingNoisePrior | CorrelationPrior


def joined(priors: Iterable[HyperPrior], kernel: Kernel, scale: Array) -> "ThetaPrior":
    """The `ThetaPrior` of several priors of different hyperparameters of a kernel."""
    several = NO_PRIOR, *(prior.of(kernel, scale) for prior in priors)
    positions, mean, variance = (np.concatenate(arrays) for arrays in [*zip(*several)][:3])
    return ThetaPrior(positions, mean, variance, sum((one.groups for one in several), ()))


_NONE: Ints = np.zeros(0, dtype=int)


class ThetaPrior(NamedTuple):
    """Normal priors of entries of theta: of none, unless they are given."""

    positions: Ints = _NONE  # (k,) of these entries in ``kernel.theta``
    mean: Array = np.zeros(0)
    variance: Array = np.ones(0)
    groups: tuple[tuple[Ints, float], ...] = ()  # positions that vary around their mean, variance

    def log_density(self, theta: Array) -> float:
        """The logarithm of the density, up to a constant: 0 at its maximum."""
        value = -0.5 * np.sum((theta[self.positions] - self.mean) ** 2 / self.variance)
        for places, variance in self.groups:
            value -= 0.5 * len(places) * np.var(theta[places]) / variance
        return float(value)

    def gradient(self, theta: Array) -> Array:
        """Gradient (p,) of the log density with respect to theta."""
        gradient = np.zeros(len(theta))
        slopes = (self.mean - theta[self.positions]) / self.variance
        np.add.at(gradient, self.positions, slopes)  # of which two may be of the same entry
        for places, variance in self.groups:
            gradient[places] = (np.mean(theta[places]) - theta[places]) / variance
        return gradient


NO_PRIOR = ThetaPrior()


def _normal(kernel: Kernel, name: str, mean: float, variance: float) -> ThetaPrior:
    """The prior of all hyperparameters with a name."""
    positions = np.concatenate([_NONE, *kernels.positions_of(kernel, name)])
    return ThetaPrior(positions, *np.outer((mean, variance), np.ones(len(positions))))

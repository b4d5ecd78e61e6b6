r"""Training objectives of sparse Gaussian process regression.

All objectives have the form

.. math:: F = \log N(y; 0, Q_{ff} + \mathrm{diag}\,\lambda) - \mathrm{reduce}\Big(\sum_i \varphi(x_i)\Big),
    \qquad x_i = r_i / \sigma_i^2, \qquad \lambda_i = \sigma_i^2 (1 + c\,x_i),

where ``r_i = k_ii - q_ii`` is the residual variance of row ``i``: the prior variance that the
inducing points leave unexplained. A subclass of `Bound` defines three things: the share ``c`` of the
residual variance that counts as noise (`noise_share`), the penalty ``φ`` of a row (`penalty`), and
the function of the summed penalties that is subtracted (`reduce`). The subpackage ``engine``
computes the value and the gradient of every objective from these three, for weighted rows, several
targets and blocks of rows.
"""

from abc import ABC, abstractmethod
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator

from skgp_sparse.ground.validation import Array, Scalars, check_number


class Bound(BaseEstimator, ABC):
    """Base class of the training objectives of sparse Gaussian process regression.

    A bound knows one row at a time. Its methods neither keep nor overwrite the arrays that they are
    given, and may return them: nobody overwrites what they return. Several threads call `penalty`
    at the same time, so that it keeps nothing between two calls.

    Attributes
    ----------
    noise_share : float
        The constant ``c`` in ``λ = σ² + c r``, which is the share of the residual variance that
        counts as noise.
    is_lower_bound : bool
        Whether the objective is a lower bound of the exact log marginal likelihood.

    Examples
    --------
    The following class defines a looser bound, with twice the penalty of `Titsias`:

    >>> import numpy as np
    >>> from skgp_sparse.bounds import Bound
    >>> class Twice(Bound):
    ...     def penalty(self, x):
    ...         return x, 1.0
    >>> Twice().penalty(np.array([0.0, 1.0]))
    (array([0., 1.]), 1.0)
    """

    noise_share: Scalars = 0.0
    is_lower_bound: bool = True

    def for_weights(self, weight: Scalars) -> "Bound":
        """Return the objective of rows with these weights.

        Parameters
        ----------
        weight : float or ndarray of shape (n,)
            Weights of the rows.

        Returns
        -------
        Bound
            An objective whose `noise_share` may be an array with one number for each row. By
            default, this objective itself.
        """
        return self

    def check_parameters(self, name: str) -> None:
        """Raise unless the parameters can be used.

        Parameters
        ----------
        name : str
            Name of the estimator, for errors.

        Raises
        ------
        ValueError
            If a parameter has another type or value than it should.
        """

    @abstractmethod
    def penalty(self, x: Array) -> tuple[Array, Scalars]:
        """Compute the penalties ``φ`` of the residual-to-noise ratios ``x = r / σ²``.

        Parameters
        ----------
        x : ndarray of shape (n,)
            Residual variance of each row, divided by the noise variance of the row. The ratios are
            never negative.

        Returns
        -------
        phi : ndarray of shape (n,)
            Penalty of each row.
        slope : float or ndarray of shape (n,)
            Derivative ``dφ/dx`` of the penalty of each row. If it is the same for all rows, it may
            be a float, which makes the computation cheaper.
        """

    def reduce(self, total: float, n: float) -> tuple[float, float]:
        """Compute what is subtracted from the objective, from the sum of the penalties.

        Parameters
        ----------
        total : float
            Weighted sum of the penalties over the rows.
        n : float
            Sum of the weights.

        Returns
        -------
        value, slope : float
            The value that is subtracted, and its derivative with respect to `total`. By default
            the value is `total` itself.
        """
        return total, 1.0


class Titsias(Bound):
    r"""Collapsed variational bound: ``φ = x / 2``.

    This is eq. 9 of Titsias (2009), "Variational learning of inducing variables in sparse Gaussian
    processes". It is also called VFE.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.bounds import Titsias
    >>> Titsias().penalty(np.array([0.0, 1.0]))
    (array([0. , 0.5]), 0.5)
    """

    def penalty(self, x: Array) -> tuple[Array, Scalars]:
        """Compute ``x / 2``; see `Bound.penalty`."""
        return 0.5 * x, 0.5


class TitsiasNew(Bound):
    r"""Tighter collapsed bound: ``φ = ½ log(1 + x)``.

    This is eq. 16 of Titsias (2025), "New bounds for sparse variational Gaussian processes". It is
    the same as T-SGPR of Bui, Ashman and Turner (2025).

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.bounds import TitsiasNew
    >>> TitsiasNew().penalty(np.array([0.0, 1.0]))[1]
    array([0.5 , 0.25])
    """

    def penalty(self, x: Array) -> tuple[Array, Scalars]:
        """Compute ``log(1 + x) / 2``; see `Bound.penalty`."""
        return 0.5 * np.log1p(x), 0.5 / (1.0 + x)


class Artemev(Bound):
    r"""Collapsed bound with the logarithm of the mean ratio: ``n/2 log(1 + mean x)``.

    This bound is due to Artemev, Burt and van der Wilk (2021), "Tighter bounds on the log marginal
    likelihood of Gaussian process regression using conjugate gradients". It is also eq. 36 of
    Titsias (2025).

    Examples
    --------
    >>> from skgp_sparse.bounds import Artemev
    >>> value, slope = Artemev().reduce(total=3.0, n=3.0)
    >>> print(round(value, 4), slope)
    1.0397 0.25
    """

    def penalty(self, x: Array) -> tuple[Array, Scalars]:
        """Return the ratio ``x`` itself; see `Bound.penalty`."""
        return x, 1.0

    def reduce(self, total: float, n: float) -> tuple[float, float]:
        """Compute ``n/2 log(1 + total/n)`` and its derivative; see `Bound.reduce`."""
        return 0.5 * n * np.log1p(total / n), 0.5 / (1.0 + total / n)


class PEP(Bound):
    r"""Power expectation propagation: ``λ = σ² + α r``, ``φ = (1-α)/(2α) log(1 + α x)``.

    This is eq. 25 of Bui, Yan and Turner (2017), "A unifying framework for Gaussian process
    pseudo-point approximations using power expectation propagation". It is not a bound. It equals
    FITC for ``α = 1``, and the bound of Titsias (2009) in the limit ``α → 0``.

    Parameters
    ----------
    alpha : float, default=0.5
        The power of power expectation propagation. It must be in [0, 1].

    Examples
    --------
    >>> from skgp_sparse.bounds import PEP
    >>> PEP(alpha=0.3).noise_share
    0.3
    """

    is_lower_bound = False

    def __init__(self, alpha: float = 0.5) -> None:
        self.alpha = alpha

    def check_parameters(self, name: str) -> None:
        """Raise unless `alpha` is a power; see `Bound.check_parameters`."""
        check_number(self.alpha, "bound__alpha", name, Real, low=0, high=1)

    @property
    def noise_share(self) -> float:  # type: ignore[override]
        """The power `alpha` (float)."""
        return self.alpha

    def penalty(self, x: Array) -> tuple[Array, Scalars]:
        """Compute ``(1-α)/(2α) log(1 + α x)``; see `Bound.penalty`."""
        alpha = self.alpha
        if np.all(alpha == 0):
            return 0.5 * x, 0.5
        return 0.5 * (1 - alpha) / alpha * np.log1p(alpha * x), 0.5 * (1 - alpha) / (1 + alpha * x)


class FITC(Bound):
    r"""Fully independent training conditional: ``λ = σ² + r``, no penalty.

    This objective is due to Snelson and Ghahramani (2006), "Sparse Gaussian processes using
    pseudo-inputs". It is not a bound, and it tends to underestimate the noise variance. For a
    Gaussian likelihood, expectation propagation under the FITC prior is exact, so that "gfitc-ep"
    is the same objective.

    Examples
    --------
    >>> from skgp_sparse.bounds import FITC
    >>> FITC().noise_share
    1.0
    """

    noise_share = 1.0
    is_lower_bound = False

    def penalty(self, x: Array) -> tuple[Array, Scalars]:
        """Return zeros; see `Bound.penalty`."""
        return np.zeros_like(x), 0.0


class DTC(Bound):
    r"""Deterministic training conditional: ``λ = σ²``, no penalty.

    This objective is due to Seeger, Williams and Lawrence (2003), "Fast forward selection to speed
    up sparse Gaussian process regression". It is the likelihood of the Nyström Gaussian process. It
    is not a bound, and it overfits if the inducing points are optimised.

    Examples
    --------
    >>> from skgp_sparse.bounds import DTC
    >>> DTC().is_lower_bound
    False
    """

    is_lower_bound = False

    def penalty(self, x: Array) -> tuple[Array, Scalars]:
        """Return zeros; see `Bound.penalty`."""
        return np.zeros_like(x), 0.0

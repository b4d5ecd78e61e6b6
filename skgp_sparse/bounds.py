r"""Objectives of a sparse Gaussian process: what differs between them, one row at a time.

All of them are

.. math:: F = \log N(y; 0, Q_{ff} + \mathrm{diag}\,\lambda) - \mathrm{reduce}\Big(\sum_i \varphi(x_i)\Big),
    \qquad x_i = r_i / \sigma_i^2, \qquad \lambda_i = \sigma_i^2 (1 + c\,x_i),

with ``r_i = k_ii - q_ii`` the prior variance that the inducing points leave unexplained. A bound
says which share ``c`` of that variance counts as noise, what the penalty ``φ`` is, and how its sum
over rows enters. Value, gradient, weights, several targets and streaming follow from these three
and are written once, in ``_engine``.
"""

from abc import ABC, abstractmethod

import numpy as np
from sklearn.base import BaseEstimator


class Bound(BaseEstimator, ABC):
    """A training objective of a sparse Gaussian process; subclass it to add one.

    Attributes
    ----------
    noise_share : float
        ``c`` in ``λ = σ² + c r``: the share of the residual variance that counts as noise.
    is_lower_bound : bool
        Whether the objective never exceeds the exact log marginal likelihood.

    Examples
    --------
    A looser bound, with twice the penalty of `Titsias`:

    >>> import numpy as np
    >>> from skgp_sparse.bounds import Bound
    >>> class Twice(Bound):
    ...     def penalty(self, x):
    ...         return x, 1.0
    >>> Twice().penalty(np.array([0.0, 1.0]))
    (array([0., 1.]), 1.0)
    """

    noise_share = 0.0
    is_lower_bound = True

    @abstractmethod
    def penalty(self, x):
        """Penalty ``φ`` of the residual-to-noise ratios ``x = r / σ²``.

        Parameters
        ----------
        x : ndarray of shape (n,)
            Residual variance of each row in units of its noise; never negative.

        Returns
        -------
        phi : ndarray of shape (n,)
            Penalty of each row.
        slope : float or ndarray of shape (n,)
            ``dφ/dx``; a float where it is the same for all rows, which is cheaper.
        """

    def reduce(self, total, n):
        """Enter the summed penalty into the objective.

        Parameters
        ----------
        total : float
            Sum of the penalties over the rows, weights included.
        n : float
            Sum of the weights.

        Returns
        -------
        value, slope : float
            What is subtracted from the objective and its derivative with respect to `total`.
        """
        return total, 1.0


class Titsias(Bound):
    r"""Collapsed variational bound: ``φ = x / 2``.

    Titsias (2009), "Variational learning of inducing variables in sparse Gaussian processes",
    eq. 9; also called VFE.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.bounds import Titsias
    >>> Titsias().penalty(np.array([0.0, 1.0]))
    (array([0. , 0.5]), 0.5)
    """

    def penalty(self, x):
        """Half of the ratio; see `Bound.penalty`."""
        return 0.5 * x, 0.5


class Spherical(Bound):
    r"""Titsias' bound with the residual variance scaled by ``v``: ``φ = v x / 2``.

    With the sites of a likelihood as pseudo-data its gradient is that of Titsias (2025), eq. 23,
    whose ``v`` is held fixed meanwhile. Not a bound: with ``v < 1`` the penalty is smaller than
    the one of `Titsias`, and the term ``-n/2 (v - log v - 1)`` that pays for this is not part of it.

    Parameters
    ----------
    v : float, default=1.0
        Scale of the conditional variance of the training rows, in (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.bounds import Spherical
    >>> Spherical(0.5).penalty(np.array([0.0, 1.0]))
    (array([0.  , 0.25]), 0.25)
    """

    is_lower_bound = False

    def __init__(self, v=1.0):
        self.v = v

    def penalty(self, x):
        """``v x / 2``; see `Bound.penalty`."""
        return 0.5 * self.v * x, 0.5 * self.v


class TitsiasNew(Bound):
    r"""Tighter collapsed bound: ``φ = ½ log(1 + x)``.

    Titsias (2025), "New bounds for sparse variational Gaussian processes", eq. 16; the same as
    T-SGPR of Bui, Ashman and Turner (2025).

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.bounds import TitsiasNew
    >>> TitsiasNew().penalty(np.array([0.0, 1.0]))[1]
    array([0.5 , 0.25])
    """

    def penalty(self, x):
        """Half of ``log(1 + x)``; see `Bound.penalty`."""
        return 0.5 * np.log1p(x), 0.5 / (1.0 + x)


class Artemev(Bound):
    r"""Collapsed bound with the logarithm of the mean ratio: ``n/2 log(1 + mean x)``.

    Artemev, Burt and van der Wilk (2021), "Tighter bounds on the log marginal likelihood of
    Gaussian process regression using conjugate gradients"; eq. 36 of Titsias (2025).

    Examples
    --------
    >>> from skgp_sparse.bounds import Artemev
    >>> value, slope = Artemev().reduce(total=3.0, n=3.0)
    >>> print(round(value, 4), slope)
    1.0397 0.25
    """

    def penalty(self, x):
        """The ratio itself; see `Bound.penalty`."""
        return x, 1.0

    def reduce(self, total, n):
        """``n/2 log(1 + total/n)`` and its slope; see `Bound.reduce`."""
        return 0.5 * n * np.log1p(total / n), 0.5 / (1.0 + total / n)


class PEP(Bound):
    r"""Power expectation propagation: ``λ = σ² + α r``, ``φ = (1-α)/(2α) log(1 + α x)``.

    Bui, Yan and Turner (2017), "A unifying framework for Gaussian process pseudo-point
    approximations using power expectation propagation", eq. 25. Not a bound; ``α = 1`` is FITC and
    ``α → 0`` is the bound of Titsias (2009).

    Parameters
    ----------
    alpha : float, default=0.5
        Power, in [0, 1].

    Examples
    --------
    >>> from skgp_sparse.bounds import PEP
    >>> PEP(alpha=0.3).noise_share
    0.3
    """

    is_lower_bound = False

    def __init__(self, alpha=0.5):
        self.alpha = alpha

    @property
    def noise_share(self):
        """The power `alpha`."""
        return self.alpha

    def penalty(self, x):
        """``(1-α)/(2α) log(1 + α x)``; see `Bound.penalty`."""
        alpha = self.alpha
        if alpha == 0:
            return 0.5 * x, 0.5
        return 0.5 * (1 - alpha) / alpha * np.log1p(alpha * x), 0.5 * (1 - alpha) / (1 + alpha * x)


class FITC(Bound):
    r"""Fully independent training conditional: ``λ = σ² + r``, no penalty.

    Snelson and Ghahramani (2006), "Sparse Gaussian processes using pseudo-inputs". Not a bound; it
    tends to fit the noise too low. Expectation propagation on this prior is exact for a Gaussian
    likelihood, which makes it ``gfitc-ep``, too.

    Examples
    --------
    >>> from skgp_sparse.bounds import FITC
    >>> FITC().noise_share
    1.0
    """

    noise_share = 1.0
    is_lower_bound = False

    def penalty(self, x):
        """Zero; see `Bound.penalty`."""
        return np.zeros_like(x), 0.0


class DTC(Bound):
    r"""Deterministic training conditional: neither noise share nor penalty.

    Seeger, Williams and Lawrence (2003), "Fast forward selection to speed up sparse Gaussian
    process regression"; the Nyström Gaussian process. Not a bound: with inducing points that are
    optimised it overfits.

    Examples
    --------
    >>> from skgp_sparse.bounds import DTC
    >>> DTC().is_lower_bound
    False
    """

    is_lower_bound = False

    def penalty(self, x):
        """Zero; see `Bound.penalty`."""
        return np.zeros_like(x), 0.0

r"""Gaussian objectives whose gradient, sites held, is that of a method of sites.

The engine takes them in the place of a `skgp_sparse.bounds.Bound`, and the sites in the place of
noise and targets. Their values are not used, and they are no objectives of regression: with
``v < 1``, the penalty of `Spherical` is smaller than that of a lower bound, and the term
``-n/2 (v - log v - 1)`` that compensates for it stands in `methods.Variational.total`.
"""

from dataclasses import dataclass

import numpy as np


class Surrogate:
    """What both have in common with a bound that sums the penalties of the rows."""

    noise_share = 0.0

    def for_weights(self, weight):
        """The same for rows with these weights; see `Bound.for_weights`."""
        return self

    def reduce(self, total, n):
        """The sum itself; see `Bound.reduce`."""
        return total, 1.0


@dataclass(frozen=True)
class Spherical(Surrogate):
    """Titsias' bound with the residual variance scaled by ``v``: ``φ = v x / 2``.

    Its gradient is that of Titsias (2025), "New bounds for sparse variational Gaussian processes",
    eq. 23; for ``v = 1``, that of eq. 20.

    Parameters
    ----------
    v : float
        In (0, 1].
    """

    v: float

    def penalty(self, x):
        """``v x / 2`` and its slope; see `Bound.penalty`."""
        return 0.5 * self.v * x, 0.5 * self.v


@dataclass(frozen=True)
class SitePEP(Surrogate):
    """Power expectation propagation whose power is at most the weight of the row.

    A row of weight ``w < 1`` has the power ``min(a, w)``, so that its cavity never contains less
    than the other rows say; see `skgp_sparse.bounds.PEP` for the formulas.

    Parameters
    ----------
    power : float or ndarray of shape (n,)
        In (0, 1].
    """

    power: float | np.ndarray

    @property
    def noise_share(self):
        """The power."""
        return self.power

    def for_weights(self, weight):
        """The same with the power of each row; see `Bound.for_weights`."""
        return SitePEP(np.where(weight > 0, np.minimum(self.power, weight), self.power))

    def penalty(self, x):
        """``(1-a)/(2a) log(1 + a x)`` and its slope; see `Bound.penalty`."""
        a = self.power
        return 0.5 * (1 - a) / a * np.log1p(a * x), 0.5 * (1 - a) / (1 + a * x)

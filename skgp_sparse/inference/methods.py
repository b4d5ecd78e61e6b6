r"""How sites are found: variational inference or expectation propagation, one row at a time.

With marginals ``N(m, s)`` of a row whose residual variance is ``r``, ``μ`` and ``h`` from the
inducing points (`skgp_sparse._engine.sites`):

`Variational`
    ``m = μ``, ``s = v r + h``, and with ``α = E[∂ log p(y|f)]``, ``β = -E[∂² log p(y|f)]``

        λ1 ← β m + α,    λ2 ← β,

    a natural-gradient step of size one: Titsias (2025), "New bounds for sparse variational
    Gaussian processes", eq. 20 (``v = 1``) and eq. 23 (one ``v`` for all rows, whose optimum given
    the sites is ``1 / (1 + mean λ2 r)``); sites as in Adam, Chang, Khan and Solin (2021), "Dual
    parameterization of sparse variational Gaussian processes".

`ExpectationPropagation`
    The prior is FITC, so that a row's own residual is updated by its own site: ``g = 1 + r λ2``,
    ``m = (μ + r λ1)/g``, ``s = r/g + h/g²``. Cavity, tilted moments, site: Naish-Guzman and Holden
    (2008), "The generalized FITC approximation"; Rasmussen and Williams (2006), section 3.6.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skgp_sparse.inference.sites import AtSites, ByRow


class Variational(NamedTuple):
    """Expected log likelihood minus divergence.

    Parameters
    ----------
    likelihood : Likelihood
    spherical : bool
        Whether ``v`` is free.
    surrogate : callable
        ``v -> Bound`` of the Gaussian objective with the same gradient, sites held.
    """

    likelihood: object
    spherical: bool
    surrogate: Callable

    is_lower_bound = True

    def at_sites(self, state, residual, weight):
        """Sites as they are, and the best ``v`` for them."""
        v = 1.0
        if self.spherical:
            v = 1.0 / (1.0 + np.average(state[1] * residual, weights=weight))
        return AtSites(state[1], state[0], v)

    def by_row(self, y, mean, h, residual, state, v):
        """One natural-gradient step for some rows."""
        variance = v * residual + h
        value, slope, curvature = self.likelihood.expected(y, mean, variance)
        return ByRow(curvature * mean + slope, curvature, mean, variance, value)

    def total(self, core, weight, values, v):
        """The bound."""
        spread = 0.5 * weight.sum() * (v - np.log(v) - 1.0)
        return weight @ values - core.divergence() - spread


class ExpectationPropagation(NamedTuple):
    """Moments of every row matched under the FITC prior.

    Parameters
    ----------
    likelihood : Likelihood
    surrogate : callable
        ``v -> Bound`` of the Gaussian objective with the same gradient, sites held.
    """

    likelihood: object
    surrogate: Callable

    is_lower_bound = False

    def at_sites(self, state, residual, weight):
        """Sites with the residual variance of their rows integrated out."""
        own = 1.0 + residual * state[1]
        return AtSites(state[1] / own, state[0] / own, 1.0)

    def by_row(self, y, mean, h, residual, state, v):
        """One parallel EP update for some rows."""
        linear, precision = state
        own = 1.0 + residual * precision
        mean, variance = (mean + residual * linear) / own, (residual + h / own) / own
        left = np.maximum(1.0 - variance * precision, np.finfo(float).eps)
        cavity, centre = variance / left, (mean - variance * linear) / left
        value, slope, curvature = self.likelihood.tilted(y, centre, cavity)
        rest = 1.0 - cavity * curvature
        # log of the tilted normaliser over that of the site, both under the cavity, and the
        # integral over the residual
        gain = 1.0 + cavity * precision
        exponent = cavity * linear**2 + 2.0 * linear * centre - precision * centre**2
        value = value + 0.5 * (np.log(gain / own) - exponent / gain + residual * linear**2 / own)
        return ByRow((slope + centre * curvature) / rest, curvature / rest, mean, variance, value)

    def total(self, core, weight, values, v):
        """Log of the approximate evidence."""
        return weight @ values + core.log_normaliser()

r"""How sites are found: variational inference or expectation propagation, one row at a time.

With marginals ``N(m, s)`` of a row whose residual variance is ``r``, ``μ`` and ``h`` from the
inducing points (`skgp_sparse._engine.collapsed_sites`):

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
from dataclasses import dataclass

import numpy as np

from skgp_sparse.inference.contracts import Method
from skgp_sparse.inference.site_objective import SMALLEST, ByRow


@dataclass(frozen=True)
class Variational(Method):
    """Expected log likelihood minus divergence.

    Parameters
    ----------
    likelihood : Likelihood
    spherical : bool
        Whether ``v`` is free.
    bound : callable
        ``v -> Bound`` of the Gaussian objective with the same gradient, sites held.
    """

    likelihood: object
    spherical: bool
    bound: Callable

    is_lower_bound = True

    def at_site(self, site, residual):
        """Linear terms and precisions of rows, as the basis sees them: the sites as they are."""
        return site

    def share(self, mean):
        """The best ``v``, the mean of ``λ2 r`` being this."""
        return 1.0 / (1.0 + mean) if self.spherical else 1.0

    def by_row(self, y, mean, h, residual, site, v):
        """One natural-gradient step for some rows."""
        variance = v * residual + h
        value, slope, curvature = self.likelihood.expected(y, mean, variance)
        curvature = np.maximum(curvature, SMALLEST)
        return ByRow(curvature * mean + slope, curvature, mean, variance, value)

    def slopes(self, y, mean, h, residual, site, v):
        """Those of the expected log likelihood."""
        return self.likelihood.expected_slopes(y, mean, v * residual + h)

    def total(self, core, value, n, v):
        """The bound, from the sum over rows, and how many there are."""
        return value - core.divergence() - 0.5 * n * (v - np.log(v) - 1.0)

    def surrogate(self, v):
        """The bound whose gradient is the same."""
        return self.bound(v)


@dataclass(frozen=True)
class ExpectationPropagation(Method):
    """Moments of every row matched under the FITC prior.

    Parameters
    ----------
    likelihood : Likelihood
    bound : callable
        ``v -> Bound`` of the Gaussian objective with the same gradient, sites held.
    """

    likelihood: object
    bound: Callable

    is_lower_bound = False

    def at_site(self, site, residual):
        """Linear terms and precisions of rows, their residual variance integrated out."""
        return site / (1.0 + residual * site[1])

    def share(self, mean):
        """One: the residual counts in full."""
        return 1.0

    def by_row(self, y, mean, h, residual, site, v):
        """One parallel EP update for some rows."""
        linear, precision = site
        own, mean, variance = _marginals(mean, h, residual, site)
        centre, cavity = _cavity(mean, variance, site)
        value, slope, curvature = self.likelihood.tilted(y, centre, cavity)
        curvature = np.maximum(curvature, SMALLEST)
        rest = np.maximum(1.0 - cavity * curvature, np.finfo(float).eps)
        # log of the tilted normaliser over that of the site, both under the cavity, and the
        # integral over the residual
        gain = 1.0 + cavity * precision
        exponent = cavity * linear**2 + 2.0 * linear * centre - precision * centre**2
        value = value + 0.5 * (np.log(gain / own) - exponent / gain + residual * linear**2 / own)
        return ByRow((slope + centre * curvature) / rest, curvature / rest, mean, variance, value)

    def slopes(self, y, mean, h, residual, site, v):
        """Those of the logarithms of the tilted normalisers."""
        _, mean, variance = _marginals(mean, h, residual, site)
        return self.likelihood.tilted_slopes(y, *_cavity(mean, variance, site))

    def total(self, core, value, n, v):
        """Log of the approximate evidence, from the sum over rows."""
        return value + core.log_normaliser()

    def surrogate(self, v):
        """The bound whose gradient is the same."""
        return self.bound(v)


def _marginals(mean, h, residual, site):
    """Gain ``g``, mean and variance of rows whose residual is updated by their own sites."""
    linear, precision = site
    own = 1.0 + residual * precision
    return own, (mean + residual * linear) / own, (residual + h / own) / own


def _cavity(mean, variance, site):
    """Mean and variance of rows without their sites."""
    linear, precision = site
    left = np.maximum(1.0 - variance * precision, np.finfo(float).eps)
    return (mean - variance * linear) / left, variance / left

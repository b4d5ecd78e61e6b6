r"""How sites are updated: variational inference or expectation propagation, one row at a time.

With marginals ``N(m, s)`` of a row whose residual variance is ``r``, ``μ`` and ``h`` from the
inducing points (`skgp_sparse._engine.collapsed_sites`); the likelihood sees ``f + o`` with
the known offset ``o`` of the row:

`Variational`
    ``m = μ``, ``s = v r + h``, and with ``α = E[∂ log p(y|f)]``, ``β = -E[∂² log p(y|f)]``

        λ1 ← β m + α,    λ2 ← β,

    a natural-gradient step of size one: Titsias (2025), "New bounds for sparse variational
    Gaussian processes", eq. 20 (``v = 1``) and eq. 23 (one ``v`` for all rows, whose optimum given
    the sites is ``1 / (1 + mean λ2 r)``); sites as in Adam, Chang, Khan and Solin (2021), "Dual
    parameterization of sparse variational Gaussian processes". Several processes, of which a row
    has one latent value each, have sites and a ``v`` of their own. Where the likelihood is not
    log-concave, a precision ``λ2`` may be negative.

`ExpectationPropagation`
    Power ``a``, at most the weight of the row, so that what is left without the row is never less
    than what the other rows say. The prior has residuals of a share ``a``, so that the residual of
    a row is updated by its site: ``γ = 1 + a r λ2``, ``m = (μ + a r λ1)/γ``, ``s = r/γ + h/γ²``,

        cavity  C = s/(1 - a s λ2),    q = (m - a s λ1)/(1 - a s λ2),
        λ1 ← (α + q β)/(a (1 - C β)),    λ2 ← β/(a (1 - C β)),

    with the slope ``α`` and the negative curvature ``β`` of ``log ∫ N(f; q, C) p(y|f)^a df`` in q.
    Power 1 is Naish-Guzman and Holden (2008), "The generalized FITC approximation"; other powers
    are Bui, Yan and Turner (2017), "A unifying framework for Gaussian process pseudo-point
    approximations using power expectation propagation". The limit of power 0 is `Variational`.
"""

from dataclasses import dataclass

import numpy as np

from skgp_sparse.inference.contracts import Method
from skgp_sparse.inference.site_loop import SMALLEST, SiteUpdate


class Surrogate:
    """A Gaussian objective whose gradient, sites held, is that of a method of sites.

    The engine takes it in the place of a `skgp_sparse.bounds.Bound`, and the sites in the place of
    noise and targets. Its value is not used, and it is no objective of regression: with ``v < 1``,
    the penalty of `Spherical` is smaller than that of a lower bound, and the term
    ``-n/2 (v - log v - 1)`` that compensates for it stands in `Variational.total`.
    """

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
        In [0, 1]; 0 for no penalty.
    """

    v: float

    noise_share = 0.0

    def for_weights(self, weight):
        """Surrogate as it is, whatever the weights; see `Bound.for_weights`."""
        return self

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
    noise_share : float or ndarray of shape (n,)
        The power, in (0, 1].
    """

    noise_share: float | np.ndarray

    def for_weights(self, weight):
        """Surrogate with the power of each row; see `Bound.for_weights`."""
        power = self.noise_share
        return SitePEP(np.where(weight > 0, np.minimum(power, weight), power))

    def penalty(self, x):
        """``(1-a)/(2a) log(1 + a x)`` and its slope; see `Bound.penalty`."""
        a = self.noise_share
        return 0.5 * (1 - a) / a * np.log1p(a * x), 0.5 * (1 - a) / (1 + a * x)


@dataclass(frozen=True)
class Variational(Method):
    """Expected log likelihood minus divergence.

    Parameters
    ----------
    likelihood : Likelihood
    spherical : bool
        Whether ``v`` is free.
    """

    likelihood: object
    spherical: bool

    is_lower_bound = True

    @property
    def takes_turns(self):
        """Whether the means are a concave problem at fixed variances."""
        return self.likelihood.is_log_concave

    def at_site(self, site, residual, weight):
        """Linear terms and precisions of rows, as the basis sees them: the sites as they are."""
        return site

    def share(self, mean):
        """The best ``v`` of each process, the mean of ``λ2 r`` being this."""
        return 1.0 / (1.0 + mean) if self.spherical else np.ones_like(mean)

    def update(self, rows, mean, h, site, v):
        """Update of the sites of some rows: one natural-gradient step."""
        variance = v[:, None] * rows.residual + h
        value, slope, curvature = self.expectations(rows, mean, variance)
        return SiteUpdate(curvature * mean + slope, curvature, mean, variance, value)

    def expectations(self, rows, mean, variance):
        """``E[log p]`` (n,), and ``α`` and ``β`` (k, n), at these marginals."""
        value, *derivatives = self.likelihood.expected(rows.y, *self._latent(rows, mean, variance))
        slope, curvature = np.atleast_2d(*derivatives)
        if self.likelihood.is_log_concave:
            curvature = np.maximum(curvature, SMALLEST)
        return value, slope, curvature

    def slopes(self, rows, mean, variance, site):
        """Slopes of the expected log likelihood with respect to its parameters."""
        return self.likelihood.expected_slopes(rows.y, *self._latent(rows, mean, variance))

    def total(self, cores, value, n, v):
        """The bound, from the sum over rows, and how many there are."""
        return value - cores.divergence() - 0.5 * n * np.sum(v - np.log(v) - 1.0)

    def surrogate(self, v):
        """The Gaussian objective with the same gradient, for a process with this ``v``."""
        return Spherical(v)

    def _latent(self, rows, mean, variance):
        """Mean and variance of what the likelihood sees, (n,) if it is one value per row."""
        mean = mean + rows.offset
        return (mean[0], variance[0]) if self.likelihood.n_latent == 1 else (mean, variance)


@dataclass(frozen=True)
class ExpectationPropagation(Method):
    """Moments of every row matched under the FITC prior, or a share of each row.

    Parameters
    ----------
    likelihood : Likelihood
        Of one latent value per row, log-concave.
    power : float
        In (0, 1].
    """

    likelihood: object
    power: float

    uses_last_site = True

    def at_site(self, site, residual, weight):
        """Linear terms and precisions of rows, a share of their residual integrated out."""
        return site / (1.0 + self._powers(weight) * residual * site[1])

    def share(self, mean):
        """Ones: the residual variance of every process counts in full."""
        return np.ones_like(mean)

    def update(self, rows, mean, h, site, v):
        """Update of the sites of some rows: one parallel step of EP."""
        a, residual = self._powers(rows.weight), rows.residual
        linear, precision = a * site[:, 0]
        gain, mean, variance = _marginals(mean[0], h[0], residual, linear, precision)
        centre, cavity = _cavity(mean, variance, linear, precision)
        value, slope, curvature = self.likelihood.tilted(rows.y, centre + rows.offset, cavity, a)
        curvature = np.maximum(curvature, a * SMALLEST)
        rest = a * np.maximum(1.0 - cavity * curvature, np.finfo(float).eps)
        # log of the tilted normaliser over that of the site, both under the cavity, and the
        # integral over the residual
        of_cavity = 1.0 + cavity * precision
        exponent = cavity * linear**2 + 2.0 * linear * centre - precision * centre**2
        value = value + 0.5 * (
            np.log(of_cavity / gain) - exponent / of_cavity + residual * linear**2 / gain
        )
        sites = (slope + centre * curvature) / rest, curvature / rest
        return SiteUpdate(*np.atleast_2d(*sites, mean, variance), value / a)

    def slopes(self, rows, mean, variance, site):
        """Slopes of the logarithms of the tilted normalisers wrt the likelihood's parameters."""
        a = self._powers(rows.weight)
        centre, cavity = _cavity(mean[0], variance[0], *(a * site[:, 0]))
        return self.likelihood.tilted_slopes(rows.y, centre + rows.offset, cavity, a) / a

    def total(self, cores, value, n, v):
        """Log of the approximate evidence, from the sum over rows."""
        return value + cores.log_normaliser()

    def surrogate(self, v):
        """The Gaussian objective with the same gradient."""
        return SitePEP(self.power)

    def _powers(self, weight):
        """Power of each row, as the surrogate has it."""
        return SitePEP(self.power).for_weights(weight).noise_share


def _marginals(mean, h, residual, linear, precision):
    """Gain ``γ``, mean and variance of rows whose residual is updated by these sites."""
    gain = 1.0 + residual * precision
    return gain, (mean + residual * linear) / gain, (residual + h / gain) / gain


def _cavity(mean, variance, linear, precision):
    """Mean and variance of rows without these sites."""
    left = np.maximum(1.0 - variance * precision, np.finfo(float).eps)
    return (mean - variance * linear) / left, variance / left

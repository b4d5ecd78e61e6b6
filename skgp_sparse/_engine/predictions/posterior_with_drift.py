"""A posterior whose process has further columns of inputs, of which its mean is linear: a drift.

The process was given the columns ``[x, h(x)]``, where h may be predictions of another model: those
of training rows by a fit without them, those of a query by a fit to all rows.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

import numpy as np
from scipy.stats import norm, qmc

from skgp_sparse._engine.predictions.posterior import (
    GRADIENTS,
    NORMALS,
    Posterior,
    float64,
)

_ANSWERS = frozenset([GRADIENTS, NORMALS])  # where the other posterior has them
_LEAST_LEVEL = 1e-4  # of a quantile
_INPUTS = 64  # inputs that stand for one that has a normal distribution


class ColumnsOfDrift(Protocol):
    """A mean whose values are further columns of the inputs."""

    def columns(self, X: np.ndarray) -> np.ndarray:
        """Further columns (n, q) of the rows (n, d) of a query."""


@dataclass(frozen=True, eq=False)
class PosteriorWithDrift(Posterior):
    """A posterior of ``[x, h(x)]``.

    Parameters
    ----------
    posterior : Posterior
    drift : ColumnsOfDrift
    slope : ndarray of shape (q, d) or None
        Derivatives of the columns, where they are the same nearly everywhere, as those of trees and
        of linear functions are; None: they are not known.
    """

    posterior: Posterior
    drift: ColumnsOfDrift
    slope: np.ndarray | None = None

    remedy = "Set mean to None."
    kernel = property(attrgetter("posterior.kernel"))
    name = property(attrgetter("posterior.name"))
    width = property(attrgetter("posterior.width"))
    n_rows_kept = property(attrgetter("posterior.n_rows_kept"))
    holds_rows = property(attrgetter("posterior.holds_rows"))
    factor = property(attrgetter("posterior.factor"))

    @property
    def answers(self):
        """Names of questions, without gradients of drifts whose derivatives are not known."""
        known = _ANSWERS - {GRADIENTS} if self.slope is None else _ANSWERS
        return self.posterior.answers & known

    def why_not(self, question):
        """Reason of the posterior, or that the drift has no such answer."""
        return self.posterior.why_not(question) or super().why_not(question)

    def mean(self, X, n_jobs=1):
        """Mean, in the shape of that of the posterior."""
        return self.posterior.mean(self._extended(X), n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean and latent variance."""
        return self.posterior.mean_and_variance(self._extended(X), n_jobs)

    def covariance(self, X):
        """Latent covariance."""
        return self.posterior.covariance(self._extended(X))

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean."""
        return self.posterior.deviations(self._extended(X), n_samples, random_state)

    def noise_variance(self, X):
        """Learned noise variance."""
        return self.posterior.noise_variance(self._extended(X))

    def prior_variance(self, X):
        """Variance of the process before any data."""
        return self.posterior.prior_variance(self._extended(X))

    def gradients(self, X, latent, n_jobs=1):
        """`Slopes` with respect to x."""
        found = self.posterior.gradients(self._extended(X), latent, n_jobs)
        slopes = (chained(one, self.slope) for one in (found.mean_slope, found.variance_slope))
        return found._replace(**dict(zip(("mean_slope", "variance_slope"), slopes)))

    def predict_normals(self, X, X_std, n_jobs=1):
        """Moments of the mixture of predictions at inputs of a Sobol sequence."""
        return normal_mixture(self, X, X_std, n_jobs)

    def with_fewer_neighbors(self, most):
        """The posterior, which predicts more quickly where it predicts from neighbours."""
        return PosteriorWithDrift(self.posterior.with_fewer_neighbors(most), self.drift, self.slope)

    def _extended(self, X):
        X = float64(X)
        return np.hstack([X, self.drift.columns(X)])


def normal_mixture(posterior, X, X_std, n_jobs):
    """Moments (n, p) of the mixture of predictions at inputs that have a normal distribution each.

    Parameters
    ----------
    posterior : Posterior
    X, X_std : ndarray of shape (n, d)
    n_jobs : int
    """
    X, X_std = float64(X), float64(X_std)
    levels = qmc.Sobol(X.shape[1], seed=0).random(_INPUTS)
    normal = norm.ppf(np.clip(levels, _LEAST_LEVEL, 1.0 - _LEAST_LEVEL))
    moments = [posterior.mean_and_variance(X + X_std * z, n_jobs) for z in normal]
    means, variances = (np.stack(one) for one in zip(*moments))
    return means.mean(axis=0), variances.mean(axis=0)[:, None] + means.var(axis=0)


def coefficients_of_drift(process, variance, q):
    """Posterior means of the coefficients of a drift: of q columns (q, p), and the constant (p,).

    Parameters
    ----------
    process : Posterior
        Its mean is a sum of kernels at points, whose last q columns are those of the drift.
    variance : float
        Prior variance of a coefficient.
    q : int
    """
    Z, u = process.points
    return variance * Z[:, -q:].T @ u, variance * u.sum(axis=0)


def chained(slopes, slope):
    """Derivatives (..., d) with respect to x, from those (..., d + q) to ``[x, m(x)]``."""
    d = slope.shape[1]
    return slopes[..., :d] + slopes[..., d:] @ slope

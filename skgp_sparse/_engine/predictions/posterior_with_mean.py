"""A weighted mean of a process and of another prediction.

With the weight s of the other prediction m, which is the same in all samples, and the standard
deviations of the process times φ,

    f(x) = (1 - s) E[g(x)] + s m(x) + φ (g(x) - E[g(x)]).

Both weights are learned from rows that are left out (stacked regression, Breiman 1996).
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from skgp_sparse._engine.predictions.posterior import (
    FUNCTIONS,
    GRADIENTS,
    NORMALS,
    Posterior,
    float64,
)
from skgp_sparse._engine.predictions.posterior_with_drift import normal_mixture
from skgp_sparse._engine.predictions.sampled_functions import in_weighted_mean

_ANSWERS = frozenset([FUNCTIONS, NORMALS])  # where the process has them


@dataclass(frozen=True, eq=False)
class PosteriorWithMean(Posterior):
    """A weighted mean of a process and of another prediction.

    Parameters
    ----------
    posterior : Posterior
        Of the process g.
    predict : callable
        ``X -> M``, the other prediction (n, p) of rows (n, d), standardised as targets are.
    weight : ndarray of shape (p,)
        Weight s, between 0 and 1.
    spread : float
        Factor φ.
    is_flat : bool
        Whether the gradient of m is zero nearly everywhere, as that of trees is.
    """

    posterior: Posterior
    predict: Callable[[np.ndarray], np.ndarray]
    weight: np.ndarray
    spread: float
    is_flat: bool = True

    remedy = "Set mean to None."
    kernel = property(attrgetter("posterior.kernel"))
    name = property(attrgetter("posterior.name"))
    width = property(attrgetter("posterior.width"))
    metric = property(attrgetter("posterior.metric"))
    n_rows_kept = property(attrgetter("posterior.n_rows_kept"))
    holds_rows = property(attrgetter("posterior.holds_rows"))
    factor = property(lambda self: self.posterior.factor * self.spread**2)

    @property
    def answers(self):
        """Names of questions, without gradients of other predictions that have some."""
        return self.posterior.answers & (_ANSWERS | {GRADIENTS} if self.is_flat else _ANSWERS)

    def why_not(self, question):
        """Reason of the process, or that the other prediction has no such answer."""
        return self.posterior.why_not(question) or super().why_not(question)

    def mean(self, X, n_jobs=1):
        """Weighted mean (n, p)."""
        X = float64(X)
        return self._weighted(self.posterior.mean(X, n_jobs), X)

    def mean_and_variance(self, X, n_jobs=1):
        """Weighted mean and latent variance."""
        X = float64(X)
        mean, variance = self.posterior.mean_and_variance(X, n_jobs)
        return self._weighted(mean, X), self.spread**2 * variance

    def covariance(self, X):
        """Latent covariance."""
        return self.spread**2 * self.posterior.covariance(X)

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean."""
        return self.spread * self.posterior.deviations(X, n_samples, random_state)

    def noise_variance(self, X):
        """Learned noise variance, which has the factor of all variances."""
        return self.spread**2 * self.posterior.noise_variance(X)

    def prior_variance(self, X):
        """Variance of the process before any data."""
        return self.spread**2 * self.posterior.prior_variance(X)

    def gradients(self, X, latent, n_jobs=1):
        """`Slopes`, to which the other prediction adds nothing."""
        found = self.posterior.gradients(X, latent, n_jobs)
        return found._replace(
            mean=self._weighted(found.mean, float64(X)),
            variance=self.spread**2 * found.variance,
            mean_slope=(1.0 - self.weight)[:, None] * found.mean_slope,
            variance_slope=self.spread**2 * found.variance_slope,
        )

    def sample_functions(self, n_functions, n_frequencies, random_state):
        """`SampledFunctions`, which share the other prediction."""
        drawn = self.posterior.sample_functions(n_functions, n_frequencies, random_state)
        process = self.posterior if self.metric is None else self.posterior.posterior
        given = self.weight, self.spread, self.predict, self.is_flat
        return in_weighted_mean(drawn, process.points[1], *given)

    def predict_normals(self, X, X_std, n_jobs=1):
        """Moments of the mixture of predictions at inputs of a Sobol sequence."""
        return normal_mixture(self, X, X_std, n_jobs)

    def with_fewer_neighbors(self, most):
        """The posterior, which predicts more quickly where it predicts from neighbours."""
        fewer = self.posterior.with_fewer_neighbors(most)
        return PosteriorWithMean(fewer, self.predict, self.weight, self.spread, self.is_flat)

    def _weighted(self, mean, X):
        return (1.0 - self.weight) * mean + self.weight * self.predict(X)

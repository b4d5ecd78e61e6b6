"""A weighted mean of a process and of another prediction, whose weight follows the variance.

A process knows where it does not know: its predictive variance v(x), noise included, is large
there. With the mean μ of the process g and another prediction m,

    w(x) = s(a + b log(v(x) / e)),    s(z) = 1 / (1 + exp(-z)),
    f(x) = (1 - w(x)) μ(x) + w(x) m(x) + φ(x) (g(x) - μ(x)),    φ(x)² = exp(c + d w(x)),

where e is the mean squared error of m. The numbers a, b, c and d are learned from rows that are
left out (stacked regression, Breiman 1996, with weights that depend on the query). Where the
process is that of residuals of m, both are added: f(x) = g(x) + m(x).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import norm, qmc

from skgp_sparse._engine.predictions.posterior import (
    FUNCTIONS,
    GRADIENTS,
    NORMALS,
    PosteriorAround,
    float64,
    noise_in_blocks,
)
from skgp_sparse._engine.predictions.sampled_functions import SharedMean, in_weighted_mean
from skgp_sparse._ground.typing import Array

_ANSWERS = frozenset([FUNCTIONS, NORMALS])  # where the process has them
_TINY = np.finfo(float).tiny
_LEAST_LEVEL = 1e-4  # of a quantile
_INPUTS = 64  # inputs that stand for one that has a normal distribution


class MeanWeights(NamedTuple):
    """Weights w of another prediction, and factors φ² of variances.

    Parameters
    ----------
    intercept, slope : ndarray of shape (p,)
        The numbers a and b of each target. Where b is zero, the weight is the same everywhere.
    error : ndarray of shape (p,)
        Mean squared error e of the other prediction.
    log_factor : tuple of float
        The numbers c and d. Of several targets, d multiplies the average of their weights.
    is_added : bool
        Whether the other prediction, with a weight of one, is added to that of the process.
    """

    intercept: Array
    slope: Array
    error: Array
    log_factor: tuple[float, float] = (0.0, 0.0)
    is_added: bool = False

    @classmethod
    def added(cls, n_targets: int) -> "MeanWeights":
        """The weights of a prediction that is added to that of a process."""
        numbers = np.full(n_targets, np.inf), np.zeros(n_targets), np.ones(n_targets)
        return cls(*numbers, is_added=True)

    def of(self, variance: Array) -> Array:
        """Weights (n, p) where the predictive variance is (n,)."""
        ratio = np.maximum(variance, _TINY)[:, None] / np.maximum(self.error, _TINY)
        return expit(self.intercept + self.slope * np.log(ratio))

    def of_process(self, weight: Array) -> Array:
        """Weights (n, p) of the process, from those of the other prediction."""
        return np.ones_like(weight) if self.is_added else 1.0 - weight

    def factor(self, weight: Array) -> Array:
        """Factors (n,) of variances, from weights (n, p)."""
        constant, of_weight = self.log_factor
        return np.exp(constant + of_weight * weight.mean(axis=1))


@dataclass(frozen=True, eq=False)
class PosteriorWithMean(PosteriorAround):
    """A weighted mean of a process and of another prediction.

    Parameters
    ----------
    posterior : Posterior
        Of the process g.
    predict : callable
        ``X -> M``, the other prediction (n, p) of rows (n, d), standardised as targets are.
    weights : MeanWeights
    is_flat : bool
        Whether the gradient of m is zero nearly everywhere, as that of trees is.
    """

    predict: Callable[[np.ndarray], np.ndarray]
    weights: MeanWeights
    is_flat: bool = True

    remedy = "Set mean to None."
    metric = property(attrgetter("posterior.metric"))

    @property
    def answers(self):
        """Names of questions, without gradients of other predictions that have some."""
        return self.posterior.answers & (_ANSWERS | {GRADIENTS} if self.is_flat else _ANSWERS)

    def why_not(self, question):
        """Reason of the process, or that the other prediction has no such answer."""
        return self.posterior.why_not(question) or super().why_not(question)

    def mean(self, X, n_jobs=1):
        """Weighted mean (n, p)."""
        return self.moments(X, n_jobs)[0]

    def mean_and_variance(self, X, n_jobs=1):
        """Weighted mean and latent variance."""
        return self.moments(X, n_jobs)[:2]

    def moments(self, X, n_jobs=1):
        """Weighted mean, latent variance and variance of the noise."""
        X = float64(X)
        mean, variance, noise = self.posterior.moments(X, n_jobs)
        weight = self.weights.of(variance + noise)
        factor = self.weights.factor(weight)
        mean = self.weights.of_process(weight) * mean + weight * self.predict(X)
        return mean, factor * variance, factor * noise

    def covariance(self, X):
        """Latent covariance."""
        std = np.sqrt(self._factor(X))
        return std[:, None] * std * self.posterior.covariance(X)

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean."""
        drawn = self.posterior.deviations(X, n_samples, random_state)
        return np.sqrt(self._factor(X))[:, None] * drawn

    def noise_variance(self, X):
        """Learned noise variance, which has the factor of all variances."""
        return self._factor(X) * self.posterior.noise_variance(X)

    def prior_variance(self, X):
        """Variance before any data, where the process knows least."""
        prior = np.broadcast_to(self.posterior.prior_variance(X), len(X))
        weight = self.weights.of(prior + noise_in_blocks(self.posterior, X))
        return self.weights.factor(weight) * prior

    def weight(self, X, n_jobs=1):
        """Weights (n, p) of the other prediction."""
        return self.weights.of(sum(self.posterior.moments(X, n_jobs)[1:]))

    def gradients(self, X, latent, n_jobs=1):
        """`Slopes`, where that of the other prediction is zero."""
        X = float64(X)
        total = self.posterior.gradients(X, False, n_jobs)
        found = self.posterior.gradients(X, True, n_jobs) if latent else total
        weight, weight_slope = self._weight_and_slope(total)
        predicted, share = self.predict(X), self.weights.of_process(weight)
        change = (predicted - found.mean)[:, :, None]
        factor = self.weights.factor(weight)
        of_factor = factor[:, None] * self.weights.log_factor[1] * weight_slope.mean(axis=1)
        return found._replace(
            mean=share * found.mean + weight * predicted,
            variance=factor * found.variance,
            mean_slope=share[:, :, None] * found.mean_slope + change * weight_slope,
            variance_slope=factor[:, None] * found.variance_slope
            + found.variance[:, None] * of_factor,
        )

    def sample_functions(self, n_functions, n_frequencies, random_state):
        """`SampledFunctions`, which share the weighted mean."""
        drawn = self.posterior.sample_functions(n_functions, n_frequencies, random_state)
        process = self.posterior if self.metric is None else self.posterior.posterior
        return in_weighted_mean(drawn, process.points[1], SharedMean(self))

    def mean_and_factor(self, X):
        """Weighted means (n, p) and factors φ (n,), which sampled functions share."""
        mean, variance, noise = self.posterior.moments(X)
        weight = self.weights.of(variance + noise)
        mean = self.weights.of_process(weight) * mean + weight * self.predict(X)
        return mean, np.sqrt(self.weights.factor(weight))

    def slopes_of_mean_and_factor(self, X):
        """Derivatives (n, p, d) and (n, d) of `mean_and_factor`."""
        weight, slope = self._weight_and_slope(self.posterior.gradients(X, False))
        half = 0.5 * self.weights.log_factor[1] * np.sqrt(self.weights.factor(weight))
        return self.gradients(X, False).mean_slope, half[:, None] * slope.mean(axis=1)

    def predict_normals(self, X, X_std, n_jobs=1):
        """Moments of the mixture of predictions at inputs of a Sobol sequence."""
        return normal_mixture(self, X, X_std, n_jobs)

    def with_fewer_neighbors(self, most):
        """The posterior, which predicts more quickly where it predicts from neighbours."""
        return replace(self, posterior=self.posterior.with_fewer_neighbors(most))

    def _factor(self, X):
        """Factors (n,) of variances."""
        return self.weights.factor(self.weight(X))

    def _weight_and_slope(self, total):
        """Weights (n, p) and their derivatives (n, p, d), from `Slopes` with the noise."""
        weight = self.weights.of(total.variance)
        of_log = self.weights.slope * weight * (1.0 - weight)
        relative = total.variance_slope / np.maximum(total.variance, _TINY)[:, None]
        return weight, of_log[:, :, None] * relative[:, None]


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

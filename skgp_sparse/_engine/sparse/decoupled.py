r"""A basis of its own for the mean, larger than the one for the covariance.

The mean ``Q_Mff (Q_Mff + D)⁻¹ y`` of the basis M is the best one in its span, and any mean of the
span gives a bound (Cheng and Boots 2017, eq. 14, with another log-determinant):

    F = -½ [ (y - μ)ᵀ D⁻¹ (y - μ) + ‖μ‖² + n log 2π + log |Q_m + D| ] - reduce(Σ φ)
      = F_m(0) + F_M(y) - F_M(0)

with ``‖μ‖`` the norm of the process, and F_m, F_M the collapsed bounds of either basis, whose noise
is D, for the targets y or for zeros. It is the bound F_m with the quadratic term of F_M.
"""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from skgp_sparse._engine.data.dataset import row_blocks
from skgp_sparse._engine.features.basis import Features
from skgp_sparse._engine.features.inducing_basis import Evaluation, Problem
from skgp_sparse._engine.predictions.feature_posterior import SparsePosterior
from skgp_sparse._engine.predictions.posterior import BOUNDS, Posterior, by_blocks
from skgp_sparse._engine.sparse import collapsed


@dataclass(frozen=True, eq=False)
class DecoupledPosterior(Posterior):
    """The process given data, its mean in another basis than its covariance.

    Parameters
    ----------
    mean_features : Features
        Features of the larger basis, of which there is what a mean needs only.
    u : ndarray of shape (M, p)
        Weights of their raw features in the mean.
    of_covariance : SparsePosterior
        Posterior in the other basis, with the same kernel.
    """

    mean_features: Features
    u: np.ndarray
    of_covariance: SparsePosterior

    name = "inducing"
    answers = frozenset([BOUNDS])
    remedy = "Set n_mean to None, and call fit, not partial_fit."

    kernel = property(attrgetter("of_covariance.kernel"))
    features = property(attrgetter("of_covariance.features"))
    width = property(attrgetter("mean_features.size"))

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""

        def of_block(block):
            return self.mean_features.raw(block) @ self.u

        return by_blocks(of_block, X, row_blocks(len(X), self.width), n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, p) and latent variance (n,)."""
        return self.mean(X, n_jobs), self.of_covariance.mean_and_variance(X, n_jobs)[1]

    def covariance(self, X):
        """Latent covariance (n, n)."""
        return self.of_covariance.covariance(X)

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean (n, n_samples)."""
        return self.of_covariance.deviations(X, n_samples, random_state)


def conclude(of_mean: Problem, of_covariance: Problem):
    """The bound, the `DecoupledPosterior` posterior and the jitter, from a visit for each basis."""
    value, posteriors, jitter = 0.0, [], 0.0
    for problem, sign in (of_mean, 1.0), (of_covariance, -1.0):
        features, optimum = collapsed.solve_forward(problem)
        value += 0.5 * sign * (optimum.core.c**2).sum()
        posteriors.append(collapsed.posterior_of(features, optimum.core, problem))
        jitter = max(jitter, features.jitter)
    of_mean, of_covariance = posteriors
    mean_features = of_mean.features.for_prediction(mean_only=True)
    posterior = DecoupledPosterior(mean_features, of_mean.u, of_covariance)
    return value + optimum.value, posterior, jitter


def value_and_gradient(of_mean: Problem, of_covariance: Problem):
    """`Evaluation` with the gradient wrt theta."""
    problems = of_covariance._replace(targets=0.0), of_mean, of_mean._replace(targets=0.0)
    plus, also, minus = (collapsed.value_and_gradient(problem, False) for problem in problems)
    theta_bar = plus.theta_bar + also.theta_bar - minus.theta_bar
    value, jitter = plus.value + also.value - minus.value, max(plus.jitter, also.jitter)
    return Evaluation(value, {"kernel": theta_bar}, jitter)

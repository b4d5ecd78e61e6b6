r"""The process given inducing points, the rows of which have a smaller variance given these.

With the residual process ``R = K - V Vᵀ`` of the rows, ``N = diag(σ²/w)``, ``x = r/σ²``, and the
slope of a variational objective, ``v = -2 ∂F/∂x = 2 φ' reduce'``, the posterior of the rows is

    q(f | u) = N( Kfu Kuu⁻¹ u,  N^½ S v S N^½ ),     S = (N^-½ R N^-½)^½

instead of ``R``, which is the case v = 1 (Titsias 2025, eq. 13, where N is the same for all rows
and cancels). The mean is that of v = 1, and so is q(u). At any place ``*`` the residual process is
``R_*f R⁻¹ (f - Kfu Kuu⁻¹ u)`` plus a rest that is independent of f, so that (eq. 17)

    var = var of v = 1  -  ‖(1 - v)^½ S⁻¹ N^-½ R_f*‖².

The variances take the eigenvalues of an n × n matrix. Directions in which the residual process
hardly varies, the jitter of ``Kuu`` among them, keep v = 1.
"""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from scipy.linalg import eigh

from skgp_sparse import kernels
from skgp_sparse._engine.data.dataset import row_blocks
from skgp_sparse._engine.predictions import posterior as contract
from skgp_sparse._engine.predictions.feature_posterior import SparsePosterior
from skgp_sparse._engine.predictions.posterior import BOUNDS, JOINT_ROWS, Posterior, float64

_SMALLEST_SHARE = (
    1e-8  # variance of a direction, as a share of that of the process, that is told from none
)


@dataclass(frozen=True, eq=False)
class TightPosterior(Posterior):
    """The process given data, with smaller variances than those of its inducing points alone.

    Parameters
    ----------
    plain : SparsePosterior
        Given the same inducing points, v = 1.
    X : ndarray of shape (n, d)
        Training inputs.
    weights : ndarray of shape (n, n)
        ``N^-½ S⁻¹ (1 - v)^½``.
    explained : ndarray of shape (m, n)
        ``Vᵀ`` times these.
    """

    plain: SparsePosterior
    X: np.ndarray
    weights: np.ndarray
    explained: np.ndarray

    name = "inducing"
    answers = frozenset([BOUNDS])
    remedy = "Set tight_variance to False, and call fit, not partial_fit."
    holds_rows = True

    kernel = property(attrgetter("plain.kernel"))
    features = property(attrgetter("plain.features"))
    width = n_rows_kept = property(lambda self: len(self.X))

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""
        return self.plain.mean(X, n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, p) and latent variance (n,)."""
        mean, variance = self.plain.mean_and_variance(X, n_jobs)
        blocks = row_blocks(len(X), self.width)
        gain = contract.by_blocks(lambda X: (self._gains(X) ** 2).sum(axis=1), X, blocks, n_jobs)
        signal = np.broadcast_to(kernels.diagonal(self.kernel, float64(X))[0], len(X))
        return mean, contract.without_negative(variance - gain, signal)

    def covariance(self, X):
        """Latent covariance (n, n)."""
        gains = self._gains(float64(X))
        cov = self.plain.covariance(X) - gains @ gains.T
        signal = kernels.diagonal(self.kernel, float64(X))[0]
        cov.flat[:: len(cov) + 1] = contract.without_negative(cov.diagonal(), signal)
        return cov

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean (n, n_samples).

        For many rows, their correlations are those of v = 1.
        """
        if len(X) <= JOINT_ROWS:
            return contract.joint_deviations(self, X, n_samples, random_state)
        before, now = (one.mean_and_variance(X)[1] for one in (self.plain, self))
        shrunk = np.sqrt(np.divide(now, before, out=np.zeros_like(now), where=before > 0))
        return shrunk[:, None] * self.plain.deviations(X, n_samples, random_state)

    def _gains(self, X):
        """``R_*f N^-½ S⁻¹ (1 - v)^½`` (q, n)."""
        V = self.features.whiten(self.features.raw(X))
        return kernels.evaluate(self.kernel, X, self.X) @ self.weights - V @ self.explained


def tightened(plain, rows, bound):
    """The `TightPosterior` of a `SparsePosterior`.

    Parameters
    ----------
    plain : SparsePosterior
    rows : Batch
        All training rows.
    bound : Bound
        A variational one, without a share of the residual in the noise.
    """
    X, _, noise, weight, _ = rows.used()
    signal, learned, _ = kernels.diagonal(plain.kernel, X)
    s2 = noise + learned
    V = plain.features.whiten(plain.features.raw(X))
    residual = plain.features.residual_covariance(X, V)
    x = np.maximum(residual.diagonal(), 0.0) / s2
    root = np.sqrt(weight / s2)  # N^-½
    residual *= root
    residual *= root[:, None]
    weights = _inverse_root(residual, _SMALLEST_SHARE * np.mean(signal * root**2))
    weights *= root[:, None]
    weights *= np.sqrt(np.maximum(1.0 - _slopes(bound, x, weight), 0.0))
    return TightPosterior(plain, X, weights, V.T @ weights)


def _slopes(bound, x, weight):
    """``v = 2 φ' reduce'`` (n,), at ``x = r/σ²``."""
    phi, slope = bound.for_weights(weight).penalty(x)
    return 2.0 * bound.reduce(weight @ phi, weight.sum())[1] * slope * np.ones(len(x))


def _inverse_root(A, least):
    """``A^-½`` in the directions whose eigenvalue is more than the least one; A is overwritten."""
    values, directions = eigh(A, overwrite_a=True, check_finite=False, driver="evd")
    kept = values > least
    directions = directions[:, kept]
    return (directions / np.sqrt(values[kept])) @ directions.T

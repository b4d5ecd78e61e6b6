"""The process that predicts, whatever it was inferred with.

    mean = K*u u,     cov = K** - V*ᵀ V* + (TB V*)ᵀ (TB V*),     V* = T Ku*

with ``T = L⁻¹`` and ``TB = LB⁻¹``. For the exact process T belongs to the noisy kernel matrix and
the last term is absent (``TB is None``). Blocks of rows bound the memory of a prediction.
"""

from dataclasses import dataclass

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.prior import factorise
from skgp_sparse._engine.rows import row_blocks
from skgp_sparse._linalg import (
    Jitter,
    jittered_cholesky,
    product_norms,
    row_dots,
    times_lower_transposed,
)
from skgp_sparse._parallel import ordered_map
from skgp_sparse._warnings import warn

_ROUNDING = 1e-6  # negative variances below this fraction of the prior's are rounding
_JOINT_ROWS = 4096  # largest covariance that is factorised for samples


@dataclass(frozen=True, eq=False)
class Prior:
    """The process before any data: mean zero.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    n_targets : int
    """

    kernel: object
    n_targets: int

    def mean(self, X, n_jobs=1):
        """Zeros (n, p)."""
        return np.zeros((len(X), self.n_targets))

    def mean_and_variance(self, X, n_jobs=1):
        """Zeros (n, p) and prior variance (n,)."""
        signal = kernels.diagonal(self.kernel, _float64(X))[0]
        return self.mean(X), np.array(np.broadcast_to(signal, len(X)))

    def covariance(self, X):
        """Prior covariance (n, n)."""
        X = _float64(X)
        return kernels.evaluate(self.kernel, X, X).copy()

    def deviations(self, X, n_samples, random_state):
        """Latent samples (n, n_samples) of mean zero, joint over all rows."""
        return _joint(self, X, n_samples, random_state)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The process given data.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    Z : ndarray of shape (m, d)
    u : ndarray of shape (m, p)
        Weights of the mean.
    T : ndarray of shape (m, m)
        Lower triangular, ``L⁻¹``.
    TB : ndarray of shape (m, m) or None
        Lower triangular, ``LB⁻¹``.
    """

    kernel: object
    Z: np.ndarray
    u: np.ndarray
    T: np.ndarray
    TB: np.ndarray | None

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""

        def mean(block):
            return kernels.evaluate(self.kernel, block, self.Z) @ self.u

        return self._by_blocks(X, mean, n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, p) and latent variance (n,)."""
        joined = self._by_blocks(X, self._mean_variance_and_signal, n_jobs)
        return joined[:, :-2], _clipped(joined[:, -2], joined[:, -1])

    def covariance(self, X):
        """Latent covariance (n, n)."""
        X = _float64(X)
        prior = kernels.evaluate(self.kernel, X, X)
        V = times_lower_transposed(kernels.evaluate(self.kernel, X, self.Z), self.T)
        cov = prior - V @ V.T
        if self.TB is not None:
            W = times_lower_transposed(V, self.TB, V)
            cov += W @ W.T
        cov.flat[:: len(cov) + 1] = _clipped(cov.diagonal(), prior.diagonal())
        return cov

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean (n, n_samples).

        Joint for few rows; for many, joint through the inducing points and independent beyond.
        """
        if len(X) <= _JOINT_ROWS:
            return _joint(self, X, n_samples, random_state)
        T = factorise(self.kernel, self.Z, Jitter()).T
        at_Z = T @ _joint(self, self.Z, n_samples, random_state)

        def deviate(block):
            V = times_lower_transposed(kernels.evaluate(self.kernel, block, self.Z), T)
            residual = np.maximum(kernels.diagonal(self.kernel, block)[0] - row_dots(V, V), 0.0)
            own = random_state.normal(size=(len(block), n_samples))
            return V @ at_Z + np.sqrt(residual)[:, None] * own

        return self._by_blocks(X, deviate, 1)

    def _mean_variance_and_signal(self, X):
        K = kernels.evaluate(self.kernel, X, self.Z)
        V = times_lower_transposed(K, self.T)
        signal = kernels.diagonal(self.kernel, X)[0]
        variance = signal - row_dots(V, V)
        if self.TB is not None:
            variance += product_norms(V, self.TB)
        return np.column_stack([K @ self.u, variance, np.broadcast_to(signal, len(X))])

    def _by_blocks(self, X, function, n_jobs):
        blocks = row_blocks(len(X), len(self.Z))
        results = list(ordered_map(lambda rows: function(_float64(X[rows])), blocks, n_jobs))
        return results[0] if len(results) == 1 else np.concatenate(results)


def noise_variance(kernel, X):
    """Learned noise variance at the rows of X, scalar or (n,)."""
    return kernels.diagonal(kernel, _float64(X))[1]


def _float64(X):
    return np.ascontiguousarray(X, dtype=np.float64)


def _joint(process, X, n_samples, random_state):
    """Latent samples of mean zero; jitter is in units of the prior, whose rounding is in cov."""
    covariance = process.covariance(X)
    normal = random_state.normal(size=(n_samples, len(X))).T  # one sample after the other
    if not covariance.any():
        return 0.0 * normal
    unit = np.mean(kernels.diagonal(process.kernel, _float64(X))[0])
    L = jittered_cholesky(covariance / unit, Jitter(0.0, relative=False))[0]
    return np.sqrt(unit) * (L @ normal)


def _clipped(variance, signal):
    if np.any(variance < -_ROUNDING * signal):
        warn("Predicted variances smaller than 0. Setting those variances to 0.")
    return np.maximum(variance, 0.0)

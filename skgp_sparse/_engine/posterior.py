"""The process that predicts, whatever it was inferred with.

    mean = K*u u,     cov = rest + (TB V*)ᵀ (TB V*),     V* = L⁻¹ Ku*,     rest = K** - V*ᵀ V*

with raw features ``K*u``, features ``V*``, and what those leave of the process, the rest, as the
basis says (here that of inducing points), and ``TB = LB⁻¹``. For the exact process L belongs to the
noisy kernel matrix and the last term is absent (``TB is None``). Blocks of rows bound the memory of
a prediction.
"""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine import process
from skgp_sparse._engine.basis import Features
from skgp_sparse._engine.inducing_basis import InducingFeatures
from skgp_sparse._engine.process import JOINT_ROWS, Process
from skgp_sparse._engine.table import row_blocks
from skgp_sparse._ground.linalg import product_norms, times_lower_transposed


@dataclass(frozen=True, eq=False)
class Prior(Process):
    """The process before any data: mean zero.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    n_targets : int
    """

    kernel: object
    n_targets: int

    kind = "prior"
    width = 0

    def mean(self, X, n_jobs=1):
        """Zeros (n, p)."""
        return np.zeros((len(X), self.n_targets))

    def mean_and_variance(self, X, n_jobs=1):
        """Zeros (n, p) and prior variance (n,)."""
        signal = kernels.diagonal(self.kernel, process.float64(X))[0]
        return self.mean(X), np.array(np.broadcast_to(signal, len(X)))

    def covariance(self, X):
        """Prior covariance (n, n)."""
        X = process.float64(X)
        return kernels.evaluate(self.kernel, X, X).copy()

    def deviations(self, X, n_samples, random_state):
        """Latent samples (n, n_samples) of mean zero, joint over all rows."""
        return process.joint_deviations(self, X, n_samples, random_state)


@dataclass(frozen=True, eq=False)
class Posterior(Process):
    """The process given data.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    features : Features
    u : ndarray of shape (m, p)
        Weights of the raw features in the mean.
    TB : ndarray of shape (m, m) or None
        Lower triangular, ``LB⁻¹``.
    """

    kernel: object
    features: Features
    u: np.ndarray
    TB: np.ndarray | None

    kind = property(lambda self: "exact" if self.TB is None else self.features.kind)
    width = property(attrgetter("features.size"))
    n_rows_kept = property(lambda self: self.width if self.TB is None else 0)
    takes_normals = property(lambda self: self.kind == "inducing")

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""
        return self._by_blocks(lambda block: self.features.raw(block) @ self.u, X, n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, p) and latent variance (n,)."""
        joined = self._by_blocks(self._mean_variance_and_signal, X, n_jobs)
        return joined[:, :-2], process.without_negative(joined[:, -2], joined[:, -1])

    def covariance(self, X):
        """Latent covariance (n, n)."""
        X = process.float64(X)
        V = self.features.whiten(self.features.raw(X))
        cov = self.features.rest_covariance(X, V)
        if self.TB is not None:
            W = times_lower_transposed(V, self.TB)
            cov += W @ W.T
        signal = kernels.diagonal(self.kernel, X)[0]
        cov.flat[:: len(cov) + 1] = process.without_negative(cov.diagonal(), signal)
        return cov

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the mean (n, n_samples).

        Joint for few rows; for many, joint through the features and independent beyond.
        """
        if len(X) <= JOINT_ROWS:
            return process.joint_deviations(self, X, n_samples, random_state)
        features, R = self._weights()
        weights = R.T @ random_state.normal(size=(n_samples, len(R))).T

        def deviate(block):
            V = features.whiten(features.raw(block))
            rest = self.mean_and_variance(block)[1] - ((V @ R.T) ** 2).sum(axis=1)
            normal = random_state.normal(size=(len(block), n_samples))
            return V @ weights + np.sqrt(np.maximum(rest, 0.0))[:, None] * normal

        return self._by_blocks(deviate, X, 1)

    def weights_of_samples(self, n_samples, random_state):
        """Features of the process itself, and samples of their weights (m, n_samples)."""
        features, R = self._weights()
        return features, R.T @ random_state.normal(size=(n_samples, len(R))).T

    def _weights(self):
        """Features of the process itself, and R, where ``RᵀR`` is the covariance of weights."""
        if self.TB is not None:
            return self.features, self.TB
        features = self.features.without_data()  # the exact process: its basis are the rows
        return features, features.whiten(process.root_of_covariance(self, features.Z).T)

    def _mean_variance_and_signal(self, X):
        K = self.features.raw(X)
        mean, V = K @ self.u, self.features.whiten(K, K)
        signal = kernels.diagonal(self.kernel, X)[0]
        variance = self.features.rest(X, V, signal)
        if self.TB is not None:
            variance = variance + product_norms(V, self.TB)
        return np.column_stack([mean, variance, np.broadcast_to(signal, len(X))])

    def _by_blocks(self, function, X, n_jobs):
        return process.by_blocks(function, X, row_blocks(len(X), self.width), n_jobs)


def is_of_points(process):
    """Whether a process is a `Posterior` whose features are a kernel at points."""
    return type(process) is Posterior and isinstance(process.features, InducingFeatures)


def _shared(name):
    """An attribute of `Posteriors` that all processes share."""
    return property(lambda self: getattr(self.each[0], name))


@dataclass(frozen=True, eq=False)
class Posteriors(Process):
    """Independent processes with the same kernel and inducing points, given data.

    Parameters
    ----------
    each : tuple of Posterior
    """

    each: tuple

    kernel, features, kind = map(_shared, ("kernel", "features", "kind"))
    width, n_rows_kept = map(_shared, ("width", "n_rows_kept"))

    def mean(self, X, n_jobs=1):
        """Means (n, k)."""
        return np.hstack([one.mean(X, n_jobs) for one in self.each])

    def mean_and_variance(self, X, n_jobs=1):
        """Means and latent variances, both (n, k)."""
        means, variances = zip(*(one.mean_and_variance(X, n_jobs) for one in self.each))
        return np.hstack(means), np.column_stack(variances)

    def covariance(self, X):
        """Latent covariances (n, n, k)."""
        return np.stack([one.covariance(X) for one in self.each], axis=-1)

    def deviations(self, X, n_samples, random_state):
        """Latent samples minus the means (n, n_samples, k)."""
        draws = [one.deviations(X, n_samples, random_state) for one in self.each]
        return np.stack(draws, axis=-1)


def noise_variance(kernel, X):
    """Learned noise variance at the rows of X, scalar or (n,)."""
    return kernels.diagonal(kernel, process.float64(X))[1]

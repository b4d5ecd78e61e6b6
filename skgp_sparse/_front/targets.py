"""Between the engine's standardised (n, p) targets and the user's y: units and shapes."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from skgp_sparse._engine.moments import mean_and_spread, root_mean_square
from skgp_sparse._engine.posterior import noise_variance
from skgp_sparse._engine.table import row_blocks
from skgp_sparse._ground.normal import log_normal_density
from skgp_sparse._ground.parallel import resolve_n_jobs, single_threaded_blas


def standardisation(y, weight, normalize, shared):
    """Mean and scale (p,) of the targets.

    Parameters
    ----------
    y : ndarray of shape (n, p)
    weight : ndarray of shape (n,) or None
    normalize : bool
        If not, mean 0 and scale 1.
    shared : bool
        One scale for all targets: known noise is in units of y², the same for all of them.
    """
    n_targets = y.shape[1]
    if not normalize:
        return np.zeros(n_targets), np.ones(n_targets)
    mean, std = mean_and_spread(y, weight)
    return mean, scale_of(mean, std, shared)


def scale_of(mean, std, shared=False):
    """Scale (p,) of targets with these means and standard deviations; 1 where they are constant."""
    rounding = 4 * np.finfo(float).eps * np.abs(mean)
    std = np.where(std <= rounding, 0.0, std)
    if shared:
        std[:] = root_mean_square(std[:, None], None)
    return np.where(std > 0, std, np.maximum(rounding, 1.0))


class TargetView(NamedTuple):
    """A process with Gaussian noise, in the units and the shape of y."""

    process: object
    width: int  # numbers that a prediction computes per query
    y_mean: np.ndarray
    y_scale: np.ndarray
    one_column: bool
    n_jobs: int | None

    def mean(self, X, latent=False, offset=None):
        """Mean (n,) or (n, p)."""
        return self._shaped(_finite(self._mean(X)))

    def mean_and_std(self, X, latent, offset=None):
        """Mean and standard deviation, both (n,) or (n, p)."""
        mean, std = self._mean_and_std(X, latent)
        return self._shaped(mean), self._shaped(std)

    def covariance(self, X, latent):
        """Joint covariance (n, n) or (n, n, p)."""
        with np.errstate(all="ignore"):
            cov = self.process.covariance(X)
            if not latent:
                cov.flat[:: len(cov) + 1] += _noise(self.process.kernel, X)
            return self._shaped(_finite(cov[:, :, None] * self.y_scale**2))

    def quantiles(self, X, q, offset=None):
        """Quantiles (n, k) or (n, p, k) for probabilities (k,)."""
        mean, std = self._mean_and_std(X, False)
        found = mean[:, :, None] + std[:, :, None] * ndtri(q)
        return found[:, 0] if self.one_column else found

    def log_density(self, X, y, offset=None):
        """Log density of y, in its shape."""
        mean, std = self._mean_and_std(X, False)
        if not np.all(std > 0):
            raise ValueError(
                f"A predicted standard deviation is {std.min():.1e}, so that there is no log "
                "density. Add a WhiteKernel to the kernel, because predictions do not include the "
                "known noise of alpha."
            )
        return self._shaped(log_normal_density(np.reshape(y, mean.shape), mean, std))

    def sample(self, X, n_samples, random_state, latent=False, offset=None):
        """Samples (n, n_samples) or (n, p, n_samples).

        The first target's are those that it would have alone.
        """
        with np.errstate(all="ignore"):
            return _finite(self._draws(X, n_samples, random_state, latent))

    def moments(self, X, noise=True):
        """Mean (n, p) and variance, (n,) or (n, k), of the process in its own units.

        The variance includes that of the kernel's white noise, if wanted.
        """
        mean, variance = self._by_blocks(self.process.mean_and_variance, X)
        if noise:
            own = _noise(self.process.kernel, X)
            variance = variance + (own if variance.ndim == 1 else own[:, None])
        return _finite(mean), _finite(variance)

    def _mean_and_std(self, X, latent):
        mean, variance = self.moments(X, noise=not latent)
        std = _finite(np.sqrt(variance)[:, None] * self.y_scale)
        return _finite(mean * self.y_scale + self.y_mean), std

    def _draws(self, X, n_samples, random_state, latent):
        n_targets = len(self.y_scale)
        of_noise = np.random.RandomState(random_state.randint(2**31))
        draws = self.process.deviations(X, n_targets * n_samples, random_state)
        noise = np.sqrt(_noise(self.process.kernel, X))
        if noise.any() and not latent:
            draws += noise[:, None] * of_noise.normal(size=draws.shape[::-1]).T
        draws = draws.reshape(len(X), n_targets, n_samples) * self.y_scale[:, None]
        draws += self._mean(X)[:, :, None]
        return draws[:, 0] if self.one_column else draws

    def _mean(self, X):
        return self._by_blocks(self.process.mean, X) * self.y_scale + self.y_mean

    def _by_blocks(self, method, X):
        """One thread per block of rows and one BLAS thread each; all of BLAS's for one block."""
        with np.errstate(all="ignore"):
            if len(row_blocks(len(X), self.width)) == 1:
                return method(X, 1)
            n_jobs = resolve_n_jobs(self.n_jobs)
            with single_threaded_blas():
                return method(X, n_jobs)

    def _shaped(self, values):
        return values[..., 0] if self.one_column else values


def _finite(predicted):
    """The predictions, all of which must be numbers."""
    rows = np.flatnonzero(~np.isfinite(predicted).reshape(len(predicted), -1).all(axis=1))
    if len(rows):
        raise ValueError(
            f"Predictions overflow float64 at {len(rows)} rows of X, first at row {rows[0]}. The "
            "values of X in these rows are too large for the kernel, or y is too large for a "
            "covariance. Rescale X or y, or remove these rows."
        )
    return predicted


def _noise(kernel, X):
    """Learned noise variance (n,), X read in blocks."""
    blocks = row_blocks(len(X), X.shape[1])
    with np.errstate(all="ignore"):
        parts = [np.broadcast_to(noise_variance(kernel, X[b]), b.stop - b.start) for b in blocks]
    return np.concatenate(parts)

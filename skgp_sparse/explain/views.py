"""Between a process and the user's y: units and shapes, links and classes.

A view has the methods of a fitted estimator. Every posterior predicts alike to it.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from skgp_sparse._engine.data.dataset import row_blocks
from skgp_sparse._engine.data.moments import log_densities_of_targets
from skgp_sparse._engine.data.target_scaler import TargetScaler
from skgp_sparse._engine.predictions import sampled_functions
from skgp_sparse._engine.predictions.posterior import FUNCTIONS, noise_in_blocks, require
from skgp_sparse._ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse._ground.warnings import warn
from skgp_sparse.rows.checks import check_truth


class TargetView(NamedTuple):
    """A process with Gaussian noise, in the units and the shape of y."""

    process: object
    units: TargetScaler = TargetScaler.none(1)
    n_jobs: int | None = None

    one_column = property(lambda self: len(self.units.mean) == 1)
    takes_offset = False
    has_covariance = True
    takes_normals = True

    def truth(self, y, X, name):
        """Targets (n,) or (n, p) of the rows of X: any numbers."""
        return check_truth(y, X, len(self.units.scale), name)

    def centre_and_scale(self, X, offset=None):
        """Centre and unit of intervals: mean and standard deviation, both (n,) or (n, p)."""
        return self.mean_and_std(X, False)

    def within_domain(self, values):
        """Ends of intervals that a target can have: all of them."""
        return values

    def on_threads(self, n_jobs):
        """A copy of the view that processes blocks of rows on so many threads."""
        return self._replace(n_jobs=n_jobs)

    def with_process(self, change):
        """A copy of the view, whose process is replaced by a function of it."""
        return self._replace(process=change(self.process))

    def of_latent(self):
        """The view of latent values, which are those of y."""
        return self

    def mean(self, X, latent=False, offset=None):
        """Mean (n,) or (n, p)."""
        return self._shaped(_finite(self._mean(X)))

    def mean_and_std(self, X, latent, offset=None):
        """Mean and standard deviation, both (n,) or (n, p)."""
        mean, std = self._mean_and_std(X, latent)
        return self._shaped(mean), self._shaped(std)

    def expected_mean_and_std(self, X, X_std, latent):
        """Mean and standard deviation at inputs that are known up to standard deviations."""
        with np.errstate(all="ignore"), single_threaded_blas():
            mean, variance = self.process.predict_normals(X, X_std, resolve_n_jobs(self.n_jobs))
            if not latent:
                variance = variance + _noise(self.process, X)[:, None]
            mean, std = self.units.inverse(mean), self.units.inverse_std(np.sqrt(variance))
        return self._shaped(_finite(mean)), self._shaped(_finite(std))

    def functions(self, k, n_frequencies, random_state, check, name):
        """`SampledFunctions` of the latent process, in units of y; `check` is theirs."""
        require(self.process, FUNCTIONS, name)
        drawn = self.process.sample_functions(k, n_frequencies, random_state)
        return sampled_functions.in_units(drawn, self.units, check)

    def noise_std(self, X):
        """Standard deviation of the learned noise, (n,) or (n, p)."""
        std = np.sqrt(_noise(self.process, X))[:, None]
        return self._shaped(_finite(self.units.inverse_std(std)))

    def covariance(self, X, latent):
        """Joint covariance (n, n) or (n, n, p)."""
        with np.errstate(all="ignore"):
            cov = self.process.covariance(X)
            if not latent:
                cov.flat[:: len(cov) + 1] += _noise(self.process, X)
            return self._shaped(_finite(cov[:, :, None] * self.units.scale**2))

    def quantiles(self, X, q, offset=None):
        """Quantiles (n, k) or (n, p, k) for probabilities (k,)."""
        mean, std = self._mean_and_std(X, False)
        values = mean[:, :, None] + std[:, :, None] * ndtri(q)
        return values[:, 0] if self.one_column else values

    def log_density(self, X, y, offset=None):
        """Log density of y, in its shape."""
        mean, std = self._mean_and_std(X, False)
        if not np.all(std[:, self.units.scale > 0] > 0):
            raise ValueError(
                f"A predicted standard deviation is {std.min():.1e}, so that there is no log "
                "density. Add a WhiteKernel to the kernel, because predictions do not include the "
                "known noise of alpha."
            )
        return self._shaped(log_densities_of_targets(np.reshape(y, mean.shape), mean, std))

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
        mean, variance, own = self._by_blocks(self.process.moments, X)
        if noise:
            variance = variance + (own if variance.ndim == 1 else own[:, None])
        return _finite(mean), _finite(variance)

    def _mean_and_std(self, X, latent):
        mean, variance = self.moments(X, noise=not latent)
        std = self.units.inverse_std(np.sqrt(variance)[:, None])
        return _finite(self.units.inverse(mean)), _finite(std)

    def _draws(self, X, n_samples, random_state, latent):
        n_targets = self.units.n_varying
        of_noise = np.random.RandomState(random_state.randint(2**31))
        draws = self.process.deviations(X, n_targets * n_samples, random_state)
        noise = np.sqrt(_noise(self.process, X))
        if noise.any() and not latent:
            draws += noise[:, None] * of_noise.normal(size=draws.shape[::-1]).T
        draws = self.units.among_constants(draws.reshape(len(X), n_targets, n_samples))
        draws = draws * self.units.scale[:, None] + self._mean(X)[:, :, None]
        return draws[:, 0] if self.one_column else draws

    def _mean(self, X):
        return self.units.inverse(self._by_blocks(self.process.mean, X))

    def _by_blocks(self, method, X):
        """Result of a method: one thread per block with one of BLAS; all of BLAS for one block."""
        with np.errstate(all="ignore"):
            if len(row_blocks(len(X), self.process.width)) == 1:
                return method(X, 1)
            n_jobs = resolve_n_jobs(self.n_jobs)
            with single_threaded_blas():
                return method(X, n_jobs)

    def _shaped(self, values):
        return values[..., 0] if self.one_column else values


class ResponseView(NamedTuple):
    """A process with a likelihood, in the units of y; it has the methods of `TargetView`.

    The link scale is that of ``f + level + offset``, which the likelihood sees.
    """

    latent: TargetView  # the process, in its own units
    likelihood: object
    units: TargetScaler  # of one target

    takes_offset = True
    has_covariance = False
    takes_normals = False

    def truth(self, y, X, name):
        """Targets of the rows of X as the likelihood takes them; raises outside its domain."""
        y = check_truth(y, X, 1, name)
        likelihood = self.likelihood_of_targets()
        likelihood.check(y, name)
        return np.clip(y, *likelihood.ends)

    def likelihood_of_targets(self):
        """The likelihood in units of y."""
        mean, scale = np.ravel(self.units)
        return self.likelihood.rescaled(-mean / scale, 1.0 / scale)

    def centre_and_scale(self, X, offset=None):
        """Centre and unit of intervals, in units of y; see `centre_and_scale`."""
        centre, scale = centre_and_scale(self.likelihood, *self._moments(X, offset))
        return self.units.inverse(centre), self.units.inverse_std(scale)

    def within_domain(self, values):
        """Ends of intervals that a target can have."""
        return np.clip(values, *self.units.inverse(np.array(self.likelihood.ends)))

    def on_threads(self, n_jobs):
        """A copy of the view that processes blocks of rows on so many threads."""
        return self._replace(latent=self.latent.on_threads(n_jobs))

    def with_process(self, change):
        """A copy of the view, whose process is replaced by a function of it."""
        return self._replace(latent=self.latent.with_process(change))

    def of_latent(self):
        """The `TargetView` of latent values on the link scale, without offsets."""
        level = self.units.inverse(self.likelihood.intercept)
        return self.latent._replace(units=self.units._replace(mean=level))

    def mean(self, X, latent=False, offset=None):
        """Mean (n,) of the response, or on the link scale."""
        return self.mean_and_std(X, latent, offset)[0]

    def mean_and_std(self, X, latent, offset=None):
        """Mean and standard deviation (n,) of the response, or on the link scale."""
        mean, variance = self._moments(X, offset)
        if latent:
            mean = mean + self.likelihood.intercept
        else:
            with np.errstate(all="ignore"):
                mean, variance = self.likelihood.response(mean, variance)
            _warn_of_infinity(mean, variance)
        return self.units.inverse(mean), self.units.inverse_std(np.sqrt(variance))

    def covariance(self, X, latent):
        """Joint covariance (n, n) on the link scale, the only one there is."""
        return self.latent.covariance(X, latent=False) * self.units.scale**2

    def quantiles(self, X, q, offset=None):
        """Quantiles (n, k) of the response for probabilities (k,)."""
        latent = self._moments(X, offset)
        with np.errstate(all="ignore"):
            values = np.column_stack([self.likelihood.quantile(p, *latent) for p in q])
        return self.units.inverse(values)

    def log_density(self, X, y, offset=None):
        """Log density of y (n,), or log probability of what is no density."""
        y = self.units.forward(y)
        with np.errstate(all="ignore"):
            density = self.likelihood.tilted(y, *self._moments(X, offset))[0]
        return density - self.likelihood.is_density(y) * np.log(self.units.scale)

    def sample(self, X, n_samples, random_state, latent=False, offset=None):
        """Samples (n, n_samples) of the response, or on the link scale."""
        of_response = np.random.RandomState(random_state.randint(2**31))
        draws = self.latent.sample(X, n_samples, random_state)
        draws = draws + np.reshape(self._offset(offset), (-1, 1))
        if latent:
            draws = draws + self.likelihood.intercept
        else:
            draws = self.likelihood.sample(draws, of_response)
        return self.units.inverse(draws)

    def _moments(self, X, offset):
        """Mean and variance (n,) of ``f + offset``."""
        mean, variance = self.latent.moments(X)
        return mean[:, 0] + self._offset(offset), variance

    def _offset(self, offset):
        return 0.0 if offset is None else offset / self.units.scale


def centre_and_scale(likelihood, mean, variance):
    """Mean and standard deviation (n,) of responses to latent values with these moments.

    Where there is no variance, they are the median, and half of the central 68 %.
    """
    with np.errstate(all="ignore"):
        centre, squared = likelihood.response(mean, variance)
        if np.all(np.isfinite(centre) & np.isfinite(squared)):
            return centre, np.sqrt(squared)
        low, median, high = (likelihood.quantile(ndtr(z), mean, variance) for z in (-1.0, 0.0, 1.0))
        return median, 0.5 * (high - low)


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


def _noise(process, X):
    """Learned noise variance (n,), X read in blocks."""
    with np.errstate(all="ignore"):
        return noise_in_blocks(process, X)


def _warn_of_infinity(mean, variance):
    """Warn where the moments of a response are infinite: quantiles never are."""
    rows = np.flatnonzero(np.isinf(mean) | np.isinf(variance))
    if len(rows):
        what = "mean" if np.isinf(mean).any() else "standard deviation"
        warn(
            f"The {what} of the response is infinite in {len(rows)} rows of X, first in row "
            f"{rows[0]}, because the latent variance is large there, or because a Student-t "
            "distribution with df <= 2 has no variance. Use predict_quantiles, or lower the upper "
            "bound of the kernel's variance."
        )

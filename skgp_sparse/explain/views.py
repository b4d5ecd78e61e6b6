"""Views between a process and the user's y: units and shapes, links and classes.

A view has the methods of a fitted estimator, and every posterior predicts alike to it. `LabelView`
answers for the problems that several classes become, and `prior_view` before any fit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgp_sparse.choices.choices import resolve_likelihood
from skgp_sparse.choices.parameter_checks import check_kernel
from skgp_sparse.data.checks import check_one_column, check_std, check_truth, is_gaussian
from skgp_sparse.data.classes import coupled, normalised, votes
from skgp_sparse.data.dataset import row_blocks
from skgp_sparse.data.moments import TargetScaler, log_densities_of_targets, rounding_of
from skgp_sparse.engine import posterior
from skgp_sparse.engine.functions import SampledFunctions, in_units
from skgp_sparse.engine.posterior import Posterior, Prior, noise_in_blocks, require
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.parallel import resolve_n_jobs, single_threaded_blas
from skgp_sparse.ground.validation import Array, Ints, Pair, Scalars, as_text
from skgp_sparse.likelihoods import Likelihood

Offset = Scalars | None
Change = Callable[["TargetView"], "TargetView"]


class LabelView(NamedTuple):
    """The processes of a classifier: one for each problem, or those of a softmax together."""

    latent: list["TargetView"]  # in their own units
    likelihoods: list[Likelihood]
    n_classes: int
    multi_class: str
    calibration: Any = None  # of the probabilities, by a `Calibration`
    ranks: tuple[int, ...] | None = None  # place of each class, where a process has their order
    class_weight: Array | None = None  # (n_classes,) factors of probabilities; None: all are one

    def each(self, change: Change) -> "LabelView":
        """A copy of the view, each `TargetView` of which is replaced by a function of it."""
        return self._replace(latent=[change(view) for view in self.latent])

    def decide(self, X: Array) -> Ints:
        """Index of the class (n,) of every row."""
        is_plain = self.calibration is None and self.class_weight is None
        if self.n_classes == 2 and is_plain and self.ranks is None:
            return (self.latent[0].mean(X) > 0).astype(int)
        if self.n_classes > 2 and self.multi_class == "one_vs_one" and is_plain:
            return votes(self._by_problem(X), self.n_classes)
        return np.argmax(self.probabilities(X), axis=1)

    def probabilities(self, X: Array) -> Array:
        """Probabilities of all classes (n, n_classes)."""
        probabilities = self.of_classes(self._by_problem(X))
        if self.calibration is not None:
            probabilities = self.calibration.at(probabilities, np.asarray(X, np.float64))
        return self.weighted(probabilities)

    def weighted(self, probabilities: Array) -> Array:
        """Class probabilities (n, n_classes), multiplied by the weights of the classes."""
        factor = self.class_weight
        return probabilities if factor is None else normalised(factor * probabilities)

    def of_classes(self, probabilities: Array) -> Array:
        """Class probabilities (n, n_classes) from those of the problems; see `_by_problem`."""
        if self.ranks is not None:
            return probabilities[:, list(self.ranks)]
        if self.n_classes == 2:
            return np.hstack([1.0 - probabilities, probabilities])
        if self.multi_class == "one_vs_one":
            return coupled(probabilities, self.n_classes)
        return probabilities if self.multi_class == "softmax" else normalised(probabilities)

    def latent_moments(self, X: Array, k: int = 0) -> Pair:
        """Mean and variance of a latent process (n,), or of those of a softmax (n, n_classes)."""
        if self.multi_class == "softmax":
            return self.latent[k].moments(X)
        mean, std = self.latent[k].mean_and_std(X, latent=False)
        return mean, std**2

    def _by_problem(self, X: Array) -> Array:
        """Probabilities (n, n_classes) of a softmax or ranks, or a column for each problem."""
        pairs = ((one, self.latent_moments(X, k)) for k, one in enumerate(self.likelihoods))
        return np.column_stack([one.probability(m.T, v.T).T for one, (m, v) in pairs])


class TargetView(NamedTuple):
    """A process with Gaussian noise, in the units and the shape of y."""

    process: Posterior
    scaler: TargetScaler = TargetScaler.none(1)
    n_jobs: int | None = None

    @property
    def one_column(self) -> bool:
        """Whether y has one target, which predictions have no axis for."""
        return len(self.scaler.mean) == 1

    def truth(self, y: Array, X: Array, name: str) -> Array:
        """Targets (n,) or (n, p) of the rows of X: any numbers."""
        return check_truth(y, X, len(self.scaler.scale), name)

    def centre_and_scale(self, X: Array, offset: Offset = None) -> Pair:
        """Centre and unit of intervals: mean and standard deviation, both (n,) or (n, p)."""
        return self.mean_and_std(X, False)

    def within_domain(self, values: Array) -> Array:
        """Ends of intervals that a target can have: all of them."""
        return values

    def each(self, change: Change) -> "TargetView":
        """A function of the view; see `LabelView.each`."""
        return change(self)

    def of_latent(self) -> "TargetView":
        """The view of latent values, which are those of y."""
        return self

    def mean(self, X: Array, latent: bool = False, offset: Offset = None) -> Array:
        """Mean (n,) or (n, p)."""
        return self._shaped(_finite(self.scaler.inverse(self._by_blocks(self.process.mean, X))))

    def mean_and_std(self, X: Array, latent: bool, offset: Offset = None) -> Pair:
        """Mean and standard deviation, both (n,) or (n, p)."""
        mean, variance = self.moments(X, noise=not latent)
        std = self.scaler.inverse_std(np.sqrt(variance)[:, None])
        return self._shaped(_finite(self.scaler.inverse(mean))), self._shaped(_finite(std))

    def functions(
        self, k: int, n_frequencies: int, state: RandomState, check: Callable, name: str
    ) -> SampledFunctions:
        """`SampledFunctions` of the latent process, in units of y; `check` is theirs."""
        require(self.process, posterior.FUNCTIONS, name)
        return in_units(self.process.sample_functions(k, n_frequencies, state), self.scaler, check)

    def noise_std(self, X: Array) -> Array:
        """Standard deviation of the learned noise, (n,) or (n, p)."""
        with np.errstate(all="ignore"):
            std = np.sqrt(noise_in_blocks(self.process, X))[:, None]
        return self._shaped(_finite(self.scaler.inverse_std(std)))

    def covariance(self, X: Array, latent: bool) -> Array:
        """Joint covariance (n, n) or (n, n, p)."""
        with np.errstate(all="ignore"):
            cov = self.process.covariance(X)
            if not latent:
                cov.flat[:: len(cov) + 1] += noise_in_blocks(self.process, X)
            return self._shaped(_finite(cov[:, :, None] * self.scaler.scale**2))

    def quantiles(self, X: Array, q: Array, offset: Offset = None) -> Array:
        """Quantiles (n, k) or (n, p, k) for probabilities (k,)."""
        mean, std = self.mean_and_std(X, False)
        return mean[..., None] + std[..., None] * ndtri(q)

    def cdf(self, X: Array, at: Array, offset: Offset = None) -> Array:
        """Probability that y is at most a number, in the shape of the numbers."""
        mean, std = self.mean_and_std(X, False)
        excess = np.reshape(at, mean.shape) - mean
        with np.errstate(divide="ignore", invalid="ignore"):  # of constants
            return np.where(std > 0, ndtr(excess / std), excess >= -rounding_of(mean))

    def log_density(self, X: Array, y: Array, offset: Offset = None) -> Array:
        """Log density of y, in its shape."""
        mean, std = self.mean_and_std(X, False)
        if not np.all((std > 0) | (self.scaler.scale == 0)):
            raise ValueError(
                f"A predicted standard deviation is {std.min():.1e}, so that there is no log "
                "density. Add a WhiteKernel to the kernel: predictions leave out noise of alpha."
            )
        return log_densities_of_targets(np.reshape(y, mean.shape), mean, std)

    def sample(self, X: Array, n: int, state: RandomState, latent: bool, offset: Offset) -> Array:
        """Samples (n, n_samples) or (n, p, n_samples); the first target's are as if alone."""
        of_noise = RandomState(state.randint(2**31))
        with np.errstate(all="ignore"):
            draws = self.process.deviations(X, self.scaler.n_varying * n, state)
            noise = np.sqrt(noise_in_blocks(self.process, X))
            if noise.any() and not latent:
                draws += noise[:, None] * of_noise.normal(size=draws.shape[::-1]).T
            draws = self.scaler.among_constants(draws.reshape(len(X), self.scaler.n_varying, n))
            mean = self.scaler.inverse(self._by_blocks(self.process.mean, X))
            draws = _finite(draws * self.scaler.scale[:, None] + mean[:, :, None])
        return draws[:, 0] if self.one_column else draws

    def moments(self, X: Array, noise: bool = True) -> Pair:
        """Mean (n, p) and variance, (n,) or (n, k), in own units, with white noise if wanted."""
        mean, variance, own = self._by_blocks(self.process.moments, X)
        if noise:
            variance = variance + (own if variance.ndim == 1 else own[:, None])
        return _finite(mean), _finite(variance)

    def _by_blocks(self, function: Callable, X: Array) -> Any:
        """Result of a method: one thread per block with one of BLAS; all of BLAS for one block."""
        with np.errstate(all="ignore"):
            if len(row_blocks(len(X), self.process.width)) == 1:
                return function(X, 1)
            n_jobs = resolve_n_jobs(self.n_jobs)
            with single_threaded_blas():
                return function(X, n_jobs)

    def _shaped(self, values: Array) -> Array:
        return values[..., 0] if self.one_column else values


class ResponseView(NamedTuple):
    """A process with a likelihood in the units of y; the link scale: ``f + level + offset``."""

    latent: TargetView  # the process, in its own units
    likelihood: Likelihood
    scaler: TargetScaler  # of one target

    def truth(self, y: Array, X: Array, name: str) -> Array:
        """Targets of the rows of X as the likelihood takes them; raises outside its domain."""
        y = check_truth(y, X, 1, name)
        likelihood = self.likelihood_of_targets()
        likelihood.check(y, name)
        return np.clip(y, *likelihood.ends)

    def likelihood_of_targets(self) -> Likelihood:
        """The likelihood in units of y."""
        mean, scale = np.ravel(self.scaler)
        return self.likelihood.rescaled(-mean / scale, 1.0 / scale)

    def centre_and_scale(self, X: Array, offset: Offset = None) -> Pair:
        """Centre and unit of intervals, in units of y; see `centre_and_scale`."""
        centre, scale = centre_and_scale(self.likelihood, *self._moments(X, offset))
        return self.scaler.inverse(centre), self.scaler.inverse_std(scale)

    def within_domain(self, values: Array) -> Array:
        """Ends of intervals that a target can have."""
        return np.clip(values, *self.scaler.inverse(np.array(self.likelihood.ends)))

    def each(self, change: Change) -> "ResponseView":
        """A copy of the view, whose `TargetView` is replaced by a function of it."""
        return self._replace(latent=change(self.latent))

    def of_latent(self) -> "TargetView":
        """The `TargetView` of latent values on the link scale, without offsets."""
        level = self.scaler.inverse(np.array(self.likelihood.intercept))
        return self.latent._replace(scaler=self.scaler._replace(mean=level))

    def mean(self, X: Array, latent: bool = False, offset: Offset = None) -> Array:
        """Mean (n,) of the response, or on the link scale."""
        return self.mean_and_std(X, latent, offset)[0]

    def mean_and_std(self, X: Array, latent: bool, offset: Offset = None) -> Pair:
        """Mean and standard deviation (n,) of the response, or on the link scale."""
        mean, variance = self._moments(X, offset)
        if latent:
            mean = mean + self.likelihood.intercept
        else:
            with np.errstate(all="ignore"):
                mean, variance = self.likelihood.response(mean, variance)
            _warn_of_infinity(mean, variance)
        return self.scaler.inverse(mean), self.scaler.inverse_std(np.sqrt(variance))

    def covariance(self, X: Array, latent: bool) -> Array:
        """Joint covariance (n, n) on the link scale, the only one there is."""
        return self.latent.covariance(X, latent=False) * self.scaler.scale**2

    def quantiles(self, X: Array, q: Array, offset: Offset = None) -> Array:
        """Quantiles (n, k) of the response for probabilities (k,)."""
        latent = self._moments(X, offset)
        with np.errstate(all="ignore"):
            values = np.column_stack([self.likelihood.quantile(p, *latent) for p in q])
        return self.scaler.inverse(values)

    def cdf(self, X: Array, at: Array, offset: Offset = None) -> Array:
        """Probability (n,) that the response is at most a number (n,)."""
        with np.errstate(all="ignore"):
            return self.likelihood.cdf(self.scaler.forward(at), *self._moments(X, offset))

    def log_density(self, X: Array, y: Array, offset: Offset = None) -> Array:
        """Log density of y (n,), or log probability of what is no density."""
        y = self.scaler.forward(y)
        with np.errstate(all="ignore"):
            density = self.likelihood.tilted(y, *self._moments(X, offset))[0]
        return density - self.likelihood.is_density(y) * np.log(self.scaler.scale)

    def sample(self, X: Array, n: int, state: RandomState, latent: bool, offset: Offset) -> Array:
        """Samples (n, n_samples) of the response, or on the link scale."""
        of_response = RandomState(state.randint(2**31))
        draws = self.latent.sample(X, n, state, False, None)
        draws = draws + np.reshape(self._offset(offset), (-1, 1))
        likelihood = self.likelihood
        draws = draws + likelihood.intercept if latent else likelihood.sample(draws, of_response)
        return self.scaler.inverse(draws)

    def _moments(self, X: Array, offset: Offset) -> Pair:
        """Mean and variance (n,) of ``f + offset``."""
        mean, variance = self.latent.moments(X)
        return mean[:, 0] + self._offset(offset), variance

    def _offset(self, offset: Offset) -> Scalars:
        return 0.0 if offset is None else offset / self.scaler.scale


RealView = TargetView | ResponseView


def processes_of(view: RealView | LabelView) -> list[Posterior]:
    """The processes of a view."""
    views = view.latent if isinstance(view, LabelView) else [view.of_latent()]
    return [one.process for one in views]


def centre_and_scale(likelihood: Likelihood, mean: Array, variance: Array) -> Pair:
    """Mean and deviation (n,) of responses; median and half the central 68 % if infinite."""
    with np.errstate(all="ignore"):
        centre, squared = likelihood.response(mean, variance)
        if np.all(np.isfinite(centre) & np.isfinite(squared)):
            return centre, np.sqrt(squared)
        low, median, high = (likelihood.quantile(ndtr(z), mean, variance) for z in (-1.0, 0.0, 1.0))
        return median, 0.5 * (high - low)


def _finite(predicted: Array) -> Array:
    """The predictions, all of which must be numbers."""
    rows = np.flatnonzero(~np.isfinite(predicted).reshape(len(predicted), -1).all(axis=1))
    if len(rows):
        raise ValueError(
            f"Predictions overflow float64 at {len(rows)} rows of X, first at row {rows[0]}. The "
            "values of X in these rows are too large for the kernel, or y is too large for a "
            "covariance. Rescale X or y, or remove these rows."
        )
    return predicted


def _warn_of_infinity(mean: Array, variance: Array) -> None:
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


def prior_view(parameters: BaseEstimator, name: str) -> RealView:
    """The prior process of a regressor, in units of y."""
    check_kernel(parameters.kernel, name)
    p = parameters.n_targets or 1
    kernel = ConstantKernel() * RBF() if parameters.kernel is None else parameters.kernel
    scaler = TargetScaler.none(p)
    if is_gaussian(parameters.likelihood):
        return TargetView(Prior(kernel, p), scaler)
    likelihood = resolve_likelihood(parameters.likelihood, name)
    check_one_column(np.empty((1, p)), f"likelihood={as_text(likelihood)}", name)
    return ResponseView(TargetView(Prior(kernel, 1)), likelihood, scaler)


def at_uncertain_inputs(
    view: RealView, X: Array, X_std: ArrayLike, latent: bool, name: str
) -> list[Array]:
    """Means and standard deviations (n,) or (n, p) at inputs with errors, where they are known."""
    X_std = check_std(X_std, X, "X_std", name)
    if not isinstance(view, TargetView):
        raise ValueError(f"{name}: X_std needs likelihood='gaussian'. Leave X_std out.")
    require(view.process, posterior.NORMALS, f"{name}: X_std")
    process, scaler = view.process, view.scaler
    with np.errstate(all="ignore"), single_threaded_blas():
        mean, variance = process.predict_normals(X, X_std, resolve_n_jobs(view.n_jobs))
        if not latent:
            variance = variance + noise_in_blocks(process, X)[:, None]
        moments = _finite(scaler.inverse(mean)), _finite(scaler.inverse_std(np.sqrt(variance)))
    return [one[:, 0] if view.one_column else one for one in moments]

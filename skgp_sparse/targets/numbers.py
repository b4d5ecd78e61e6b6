"""Numbers with Gaussian noise, which is part of the kernel, or with a likelihood."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skgp_sparse.choices import choices
from skgp_sparse.choices.parameter_checks import why_noise_is_constant
from skgp_sparse.data import moments
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.checks import Rules
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import Moments, TargetScaler
from skgp_sparse.explain.views import ResponseView, TargetView
from skgp_sparse.ground.validation import Array, Triple, as_text, is_auto
from skgp_sparse.inference.objectives import GaussianObjectives
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.inference.site_objective import SiteObjectives
from skgp_sparse.likelihoods import Censored, Likelihood, warn_outside_bounds
from skgp_sparse.likelihoods._base import central_spread, weighted_quantile
from skgp_sparse.methods.contract import Fits, Job
from skgp_sparse.solvers import KeepParameters
from skgp_sparse.targets.model import ObservationModel


class GaussianObservations(ObservationModel):
    """Numbers with Gaussian noise."""

    likelihood = None
    has_sites = False
    rows_with_prior = 3

    def __init__(self, parameters: BaseEstimator, name: str) -> None:
        super().__init__(parameters, name)
        self.bound = choices.resolve_bound(parameters.bound, name)
        self.check_posterior_method()
        self.rules = Rules(name, parameters.kernel, n_targets=parameters.n_targets)

    def jobs(self, rows: Dataset) -> list[Job]:
        """The one job there is."""
        rows = rows.in_one_form()
        scaler = TargetScaler.of(rows, self.parameters.normalize_y, self.name)
        job = self._job(rows.in_units(scaler))
        reason = why_noise_is_constant(job) if self.parameters.noise == "learned" else None
        if reason is not None:
            raise ValueError(f"{self.name}: noise='learned' {reason}")
        return [job]

    def view(self, fits: Fits, scaler: TargetScaler) -> TargetView:
        """The process in units of y."""
        return TargetView(fits[0].posterior, scaler)

    def accept(self, part: ArrayDataset, earlier: Array | None) -> ArrayDataset:
        """The part, unless it has other targets, or its noise is to be learned."""
        if earlier is None and self.parameters.noise == "learned":
            raise ValueError(
                f"{self.name}: noise='learned' needs all rows at once. Call fit first, whose noise "
                "partial_fit goes on with, or set noise to 'auto'."
            )
        return super().accept(part, earlier)

    def jobs_of_part(self, part: ArrayDataset, stream: Any) -> list[Job]:
        """The job of rows of a stream."""
        return [self._job(part.in_units(self._scaler(stream.moments, stream.unit)))]

    def _job(self, rows: Dataset) -> Job:
        """The `Job` of a table, with the initial kernel."""
        given, alpha = self.user_kernel(), self.parameters.alpha
        kernel = choices.resolve_kernel(given, alpha, rows, self.columns())
        thorough = choices.thorough_search(kernel, self.parameters, rows, self.columns())
        rows = choices.with_noise_floor(rows, kernel)
        job = self.job(rows, kernel, GaussianObjectives(self.bound), "")
        has_few = self.parameters.normalize_y and rows.in_memory and job.are_few(moments.FEW_ROWS)
        if has_few and not np.any(rows.targets()):  # which say nothing of a scale
            job = job.with_settings(solver=KeepParameters())
        return job._replace(thorough=thorough) if is_auto(self.parameters.tol) else job

    def _scaler(self, targets: Moments, unit: Array) -> TargetScaler:
        """Mean and scale of all targets; with known noise, the scale of the first rows."""
        if not self.parameters.normalize_y:
            return TargetScaler.none(len(unit))
        mean, scale = targets.mean * unit, moments.scale_of(targets.mean, targets.spread)
        alpha = self.parameters.alpha
        if np.ndim(alpha) or alpha:  # an array may be 0 in one call, and not in the next
            return TargetScaler(mean, np.where(scale > 0, unit, 0.0))
        return TargetScaler(mean, unit * scale)


_ROWS_OF_ESTIMATES = 1_000_000  # rows, of which as many are enough to start parameters from


def observations_of(rows: Dataset) -> Triple:
    """Targets, weights and offsets (n,) of the rows, or of a million of them, drawn by weight."""
    if len(rows) > _ROWS_OF_ESTIMATES:
        rows = rows.some(_ROWS_OF_ESTIMATES)
    known = getattr(rows, "offset", None)
    return rows.targets()[:, 0], rows.row_weights(), np.zeros(len(rows)) if known is None else known


class LikelihoodObservations(ObservationModel):
    """Numbers with a likelihood."""

    def __init__(self, parameters: BaseEstimator, name: str) -> None:
        super().__init__(parameters, name)
        self.likelihood: Likelihood = choices.resolve_likelihood(parameters.likelihood, name)
        if self.moves():
            warn_outside_bounds(self.likelihood, name)
        choices.resolve_method(parameters.bound, self.likelihood, name)  # which may refuse them
        self.check_posterior_method()
        if parameters.alpha is not None:
            raise ValueError(
                f"{name}: alpha is the variance of known Gaussian noise, which likelihood="
                f"{as_text(parameters.likelihood)} does not have. Set alpha to None."
            )
        rules = Rules(name, parameters.kernel, n_targets=parameters.n_targets)
        self.rules = rules._replace(likelihood=self.likelihood)
        self.normalizes = parameters.normalize_y and self.likelihood.standardises

    def jobs(self, rows: Dataset) -> list[Job]:
        """The one job there is."""
        rows = rows.in_one_form().in_units(TargetScaler.none(1))
        return [self._job(rows.in_units(self._scaler(rows)))]

    def view(self, fits: Fits, scaler: TargetScaler) -> ResponseView:
        """The response in units of y."""
        return ResponseView(TargetView(fits[0].posterior), fits[0].likelihood, scaler)

    def attributes(self, fits: Fits, scaler: TargetScaler) -> dict[str, Any]:
        """Fitted attributes that describe the posterior, and the likelihood in units of y."""
        of_targets = {"likelihood_": self.view(fits, scaler).likelihood_of_targets()}
        return super().attributes(fits, scaler) | of_targets

    def _scaler(self, rows: Dataset) -> TargetScaler:
        """The units of the targets; known limits stay where they are to the last bit."""
        scaler = TargetScaler.of(rows, self.normalizes, self.name)
        if not self.normalizes:
            return scaler
        centre, spread = _centre_and_spread(rows)
        if isinstance(self.likelihood, Censored):
            return TargetScaler(np.zeros(1), _exact(self.likelihood.ends, spread or scaler.scale))
        return TargetScaler(np.array([centre]), np.array([spread])) if spread else scaler

    def _job(self, rows: Dataset) -> Job:
        """The `Job` of a table; the parameters of the likelihood start from the data."""
        likelihood = self.likelihood.rescaled(*np.ravel(rows.scaler))
        likelihood = likelihood.started(*observations_of(rows))
        method = choices.resolve_method(self.parameters.bound, likelihood, self.name)
        spread = _centre_and_spread(rows)[1] if likelihood.standardises else 0.0
        own, columns, spread = self.user_kernel(), self.columns(), spread or 1.0
        kernel = choices.resolve_latent_kernel(own, likelihood, rows, columns, spread)
        return self.job(rows, kernel, SiteObjectives(method, Inner.within(self.tol)), "")


def _centre_and_spread(rows: Dataset) -> tuple[Any, Any]:
    """Mean and spread of targets without offsets, whatever outliers; 0 if they are equal."""
    y, weight, offset = observations_of(rows)
    y = y - offset
    mean, spread = moments.mean_and_spread(y, weight)
    if spread <= moments.rounding_of(mean):
        return mean, 0.0
    most, centre = 3.0 * central_spread(y, weight), weighted_quantile(y, weight, 0.5)
    spread = np.minimum(spread, most) if most > 0.0 else spread
    return np.clip(mean, centre - spread, centre + spread), spread


def _exact(limits: Iterable[float], scale: Array | float) -> Array:
    """A scale that is the same but for rounding, and takes limits there and back exactly."""
    limits = np.array([limit for limit in limits if np.isfinite(limit)])
    scales = scale * (1.0 + np.finfo(float).eps * np.arange(1000))[:, None]
    inside = limits / scales
    exact = (inside * scales == limits) & (inside / (1.0 / scales) == limits)
    return scales[np.argmax(exact.all(axis=1))]

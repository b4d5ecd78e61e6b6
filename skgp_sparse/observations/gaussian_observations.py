"""Numbers with Gaussian noise, which is part of the kernel.

Of rows that arrive later, sums over all rows are kept, and rows that come are added to them: at
given theta and Z, nothing is lost.
"""

from dataclasses import replace

import numpy as np

from skgp_sparse._engine.basis import InducingBasis, Problem
from skgp_sparse._engine.collapsed import RunningSums
from skgp_sparse._engine.moments import FEW_ROWS, Moments, TargetScaler, moments_of, scale_of
from skgp_sparse._ground.linalg import log_normal_density
from skgp_sparse._ground.validation import is_auto
from skgp_sparse.explain.views import TargetView
from skgp_sparse.inference.objectives import CollapsedObjective, GaussianObjectives
from skgp_sparse.observations.heteroscedastic_noise import (
    check_learned_noise,
    with_heteroscedastic_noise,
)
from skgp_sparse.observations.observation_model import ObservationModel
from skgp_sparse.observations.streams import new_stream
from skgp_sparse.parameters.choices import (
    resolve_bound,
    resolve_kernel,
    thorough_search,
    with_noise_floor,
)
from skgp_sparse.parameters.requests import check_posterior_method, compares_approximations
from skgp_sparse.posteriors._job import Action, next_action, warm_start_of
from skgp_sparse.posteriors._names import resolve_posterior
from skgp_sparse.rows.checks import Rules
from skgp_sparse.solvers import Fit, KeepParameters


class GaussianObservations(ObservationModel):
    """Numbers with Gaussian noise."""

    likelihood = None
    has_sites = False
    rows_with_prior = 3

    def __init__(self, parameters, name):
        self.parameters, self.name = parameters, name
        self.bound = resolve_bound(parameters.bound, name)
        self.posterior_method = resolve_posterior(parameters.posterior, name)
        check_posterior_method(self)
        self.rules = Rules(name, parameters.kernel, n_targets=parameters.n_targets)

    def jobs(self, rows, earlier):
        """The one job there is."""
        rows = rows.in_one_form()
        units = TargetScaler.of(rows, self.parameters.normalize_y, self.name)
        job = self._job(rows.in_units(units))
        check_learned_noise(job, self.parameters, self.name)
        return [job]

    def refined(self, jobs, fits, random_states):
        """The fit whose noise varies with the inputs, where that is wanted and pays."""
        noise = self.parameters.noise
        is_alone = is_auto(noise) and compares_approximations(self.parameters)
        if noise == "constant" or is_alone or not self.moves():
            return fits
        return [with_heteroscedastic_noise(jobs[0], fits[0], self, random_states[0])]

    def view(self, fits, units):
        """The process in units of y."""
        return TargetView(fits[0].posterior, units)

    def attributes(self, fits, units):
        """Fitted attributes of the estimator that describe the posterior."""
        process = fits[0].posterior
        learned = {"metric_": process.metric, "variance_factor_": process.factor}
        return {"posterior_": fits[0].name, "likelihood_": None, **learned}

    def log_densities(self, view, part):
        """Mean log densities of the targets (n,), with the known noise."""
        mean, std = (one.reshape(part.y.shape) for one in view.mean_and_std(part.X, False))
        variance = std**2 + np.reshape(part.noise, (-1, 1)) + np.finfo(float).tiny
        density = log_normal_density(part.y, mean, np.sqrt(variance))
        return density[:, view.units.scale > 0].mean(axis=1)

    def new_stream(self, part, random_state):
        """A stream to which no row has come, but whose targets have a unit."""
        if self.parameters.noise == "learned":
            raise ValueError(
                f"{self.name}: noise='learned' needs all rows at once. Call fit first, whose noise "
                "partial_fit goes on with, or set noise to 'auto'."
            )
        normalize, varies = self.parameters.normalize_y, np.ndim(self.parameters.alpha) > 0
        units = TargetScaler.of(part, normalize, self.name, shared=varies)
        return new_stream(part, random_state, 1, first=units.with_constants().scale)

    def stream_of(self, fits, n_iter, random_state):
        """The `StreamState` of the rows of a fit."""
        rows, kernel = fits[0].rows, fits[0].kernel
        part, first = rows.in_units_of_y().counting(), rows.units.with_constants().scale
        stream = new_stream(part, random_state, 1, first=first).seeded(part)
        moments = moments_of(part.y / first, part.weight)
        stream = stream._replace(units=rows.units, moments=moments, n_iter=n_iter)
        if fits[0].posterior.metric is not None:  # in which inducing points are not
            return stream
        job = self._job(rows, kernel)
        warm_start = warm_start_of(fits[0], job)
        stream = stream._replace(warm_starts=(warm_start,))
        if warm_start.Z is None:
            return stream
        return stream._replace(sums=RunningSums.of(self._problem(rows, warm_start, job)))

    def learn(self, stream, part, due):
        """Sums of all rows at the theta and Z of now, or at others."""
        stream = stream._replace(moments=_moments(stream, part))
        latest, warm_start = self._latest_units(stream), stream.warm_starts[0]
        # the reservoir may not hold all rows of the first call
        everything = part if stream.calls == 0 else stream.part()
        known = None if warm_start is None or warm_start.few else warm_start.kernel
        job = self._job(self._table(everything, stream.units or latest), known)
        action = next_action(job, warm_start, due)
        if action in (Action.START, Action.MOVE) or not self.moves():
            stream = stream._replace(units=latest)
        if action is Action.HOLD:
            problem = self._problem(self._table(part, stream.units), warm_start, job)
            return self._fitted(stream, stream.sums.plus(problem), problem, 0)
        job = self._job(self._table(everything, stream.units))
        random_state = stream.random_state()
        fit, warm_start = self.posterior_method.resume(job, warm_start, action, random_state)
        problem = self._problem(job.rows, warm_start, job)
        stream = stream._replace(warm_starts=(warm_start,))
        return self._fitted(stream, RunningSums.of(problem), problem, fit.n_iter)

    def _job(self, rows, kernel=None):
        """The `Job` of a table, begun at a kernel or at the initial one."""
        thorough = None
        if kernel is None:
            given, alpha = self.given_kernel(), self.parameters.alpha
            kernel = resolve_kernel(given, alpha, rows, self.columns())
            thorough = thorough_search(kernel, self.parameters, rows)
        rows = with_noise_floor(rows, kernel)
        job = self.job(rows, kernel, GaussianObjectives(self.bound))
        if self.parameters.normalize_y and _has_no_scale(rows):
            job = job.with_settings(solver=KeepParameters())
        return job._replace(thorough=thorough) if is_auto(self.parameters.tol) else job

    def _table(self, part, units):
        """The rows of a part by reference; the same noise for all of them is a number."""
        alpha, weight = self.parameters.alpha, part.row_weights()
        noise = float(alpha or 0.0) if np.ndim(alpha) == 0 else part.noise
        weight = None if np.all(weight == 1) else weight
        return replace(part, weight=weight, noise=noise).in_units(units)

    def _latest_units(self, stream):
        """Mean and scale of all targets; with known noise, the scale of the first rows."""
        moments, unit = stream.moments, stream.first
        if not self.parameters.normalize_y:
            return TargetScaler.none(len(unit))
        mean, scale = moments.mean * unit, scale_of(moments.mean, moments.spread)
        alpha = self.parameters.alpha
        if np.ndim(alpha) or alpha:  # an array may be 0 in one call, and not in the next
            return TargetScaler(mean, np.where(scale > 0, unit, 0.0))
        return TargetScaler(mean, unit * scale)

    def begins_to_vary(self, stream, part):
        """Whether a target has another value that was constant in the units of before."""
        if stream.units is None:
            return False
        latest = self._latest_units(stream._replace(moments=_moments(stream, part)))
        return bool(np.any((latest.scale > 0) & (stream.units.scale == 0)))

    def _problem(self, rows, warm_start, job):
        rows = with_noise_floor(rows, warm_start.kernel)
        basis, options = InducingBasis(warm_start.Z), job.settings.options
        return Problem(warm_start.kernel, basis, rows, self.bound, options)

    def _fitted(self, stream, sums, problem, n_iter):
        """The stream with other sums, and the fits that follow from them."""
        value, posterior, jitter = sums.solved(problem, stream.units)
        rows = with_noise_floor(self._table(stream.part(), stream.units), problem.kernel)
        objective = CollapsedObjective(rows, problem.bound, problem.basis, problem.options)
        fit = Fit(problem.kernel, objective, posterior, value, n_iter, jitter)
        return stream._replace(sums=sums), [fit]


def _moments(stream, part):
    """`Moments` of all targets that came, those of a part included, in units of the first ones."""
    moments = moments_of(part.y / stream.first, part.weight)
    return (stream.moments or Moments()).merged(moments)


def _has_no_scale(rows):
    """Whether rows are so few, and their targets so equal, that these say nothing of a scale."""
    return (
        rows.in_memory and rows.distinct(most=FEW_ROWS) is not None and not np.any(rows.targets())
    )

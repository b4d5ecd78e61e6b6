"""Numbers with Gaussian noise, which is part of the kernel, or with a likelihood.

Of rows with Gaussian noise that arrive later, sums over all rows are kept, and rows that come are
added to them: at given theta and Z, nothing is lost.

With a likelihood, sites depend on all rows. Up to a number of rows, all of them are inferred
together, as a fit does. Then sites are frozen: they stay as they are, and what they say of the
process is kept as a sum. The newest rows are inferred given this sum. When theta and Z move, which
is seldom, the rows in the reservoir are inferred instead, with weights that stand for all rows, and
freeze together.
"""

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from skgp_sparse.choices.choices import (
    resolve_bound,
    resolve_kernel,
    resolve_latent_kernel,
    resolve_likelihood,
    resolve_method,
    thorough_search,
    with_noise_floor,
)
from skgp_sparse.choices.parameter_checks import (
    check_learned_noise,
    check_no_alpha,
    check_sites_of_solver,
)
from skgp_sparse.choices.plan import (
    check_posterior_method,
    resolve_posterior,
    tolerance,
)
from skgp_sparse.data.checks import Rules
from skgp_sparse.data.moments import (
    FEW_ROWS,
    Moments,
    TargetScaler,
    mean_and_spread,
    moments_of,
    rounding_of,
    scale_of,
)
from skgp_sparse.engine.basis import InducingBasis, Problem
from skgp_sparse.engine.collapsed import RunningSums
from skgp_sparse.engine.collapsed_sites import project_rows
from skgp_sparse.exceptions import about
from skgp_sparse.explain.views import ResponseView, TargetView
from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.validation import is_auto
from skgp_sparse.inference.objectives import CollapsedObjective, GaussianObjectives
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.inference.site_objective import SiteObjectives
from skgp_sparse.likelihoods import Censored, warn_outside_bounds
from skgp_sparse.likelihoods._base import central_spread, median
from skgp_sparse.methods.contract import Action, next_action, of_few_rows, warm_start_of
from skgp_sparse.solvers import Fit, KeepParameters
from skgp_sparse.targets.model import ObservationModel, joined, new_stream


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
        if fits[0].posterior.metric is not None:  # which inducing points do not have
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
        job = self.begun(self._job(self._table(everything, stream.units)), action)
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


MOST_TOGETHER = 20_000  # rows that are inferred together, as long as there are no more ...
WINDOW = 5_000  # ... and the newest of them where there are more, while their sites freeze
_ROWS_OF_ESTIMATES = 1_000_000  # rows, of which as many are enough to start parameters from


class SiteObservations(ObservationModel):
    """Rows whose noise is not Gaussian."""

    @abstractmethod
    def jobs_of_part(self, part, one_form=False):
        """The jobs of the rows of a part, in their order.

        `one_form`: sorted, with repeated rows merged, as in a fit.
        """

    @abstractmethod
    def counts(self, part):
        """How many rows of a part each of the problems has."""

    def in_units(self, rows, units):
        """A table whose targets have other units; labels have none."""
        return rows

    def learn(self, stream, part, due):
        """Sites of all rows, or of the newest ones given those that are frozen."""
        reservoir = stream.reservoir
        if stream.frozen is None and reservoir.is_complete and len(reservoir) <= MOST_TOGETHER:
            return self._infer(stream, self.jobs_of_part(stream.part(), one_form=True), due)
        unready = any(one is None or one.few or one.Z is None for one in stream.warm_starts)
        if stream.frozen is None or due or unready:
            return self._freeze_anew(stream, due)
        return self._go_on(stream, joined(stream.active, part))

    def _infer(self, stream, jobs, due, frozen=None):
        """The stream and the fits after an `Action` for every problem."""
        random_state, results = stream.random_state(), []
        frozen = frozen or [None] * len(jobs)
        for job, warm_start, sites in zip(jobs, stream.warm_starts, frozen):
            job = job.within(len(jobs) - len(results))
            with about(job.name):
                results.append(self._infer_one(stream, job, warm_start, sites, due, random_state))
        fits, warm_start, rows = zip(*results)
        stream = stream._replace(warm_starts=warm_start, units=rows[0].units)
        return stream, list(fits)

    def _infer_one(self, stream, job, warm_start, frozen, due, random_state):
        """The fit, the warm start and the table of one problem."""
        solver = of_few_rows(job.settings.solver) if job.is_complete else KeepParameters()
        job = job.with_settings(solver=solver)  # one that keeps the sites of all rows
        due = due and frozen is None
        action = Action.HOLD if frozen is not None else next_action(job, warm_start, due)
        model, rows = job.model, job.rows
        held = warm_start is not None and (self.moves() or stream.frozen is not None)
        if held and action is not Action.START:
            method = replace(model.method, likelihood=warm_start.likelihood)
            model = replace(model, method=method)
        if held and action in (Action.HOLD, Action.GROW):
            rows = self.in_units(rows, stream.units)
        job = job._replace(rows=rows, model=replace(model, frozen_sites=frozen))
        job = self.begun(job, action)
        fit, warm_start = self.posterior_method.resume(job, warm_start, action, random_state)
        is_known = job.is_complete or frozen is not None
        return fit, warm_start if is_known else None, rows

    def _freeze_anew(self, stream, due):
        """All rows in the reservoir are inferred, and freeze."""
        stream, fits = self._infer(stream, self.jobs_of_part(stream.part()), due)
        frozen = [fit.objective.frozen_sites(fit.kernel, len(fit.used_rows)) for fit in fits]
        return stream._replace(frozen=tuple(frozen), active=None), fits

    def _go_on(self, stream, active):
        """The newest rows are inferred, and freeze where there are many."""
        reservoir = self.jobs_of_part(stream.part())
        stream, fits = self._infer(stream, self.jobs_of_part(active), False, stream.frozen)
        surplus = max(len(active) - WINDOW, 0)
        if surplus:
            stops = self.counts(active.subset(slice(surplus)))
            frozen = [
                sites + fit.objective.frozen_sites(fit.kernel, stop) if stop else sites
                for sites, fit, stop in zip(stream.frozen, fits, stops)
            ]
            stream = stream._replace(frozen=tuple(frozen))
        stream = stream._replace(active=active.subset(slice(surplus, None)))
        fits = [self._of_reservoir(fit, job, stream) for fit, job in zip(fits, reservoir)]
        return stream, fits

    def _of_reservoir(self, fit, job, stream):
        """A fit whose objective, for users, is that of the rows in the reservoir."""
        rows = self.in_units(job.rows, stream.units)
        objective = replace(fit.objective.on(rows), project=project_rows)
        return fit._replace(objective=objective)


def observations_of(rows):
    """Targets, weights and offsets (n,) of the rows, or of a million of them, drawn by weight."""
    if len(rows) > _ROWS_OF_ESTIMATES:
        rows = rows.sampled(rows.sample(_ROWS_OF_ESTIMATES, np.random.RandomState(0)))
    offset = np.zeros(len(rows)) if rows.offset is None else rows.offset
    return rows.targets()[:, 0], rows.row_weights(), offset


_MOST_SPREAD = 3.0  # standard deviation, in units of the spread of the central 90 %
_NEAR_SCALES = 1000  # tried, of which some take the limits there and back exactly


class LikelihoodObservations(SiteObservations):
    """Numbers with a likelihood."""

    def __init__(self, parameters, name):
        self.parameters, self.name = parameters, name
        self.likelihood = resolve_likelihood(parameters.likelihood, name)
        if self.moves():
            warn_outside_bounds(self.likelihood, name)
        self.posterior_method = resolve_posterior(parameters.posterior, name)
        method = resolve_method(parameters.bound, self.likelihood, name)
        check_posterior_method(self)
        check_sites_of_solver(parameters, method, name)
        check_no_alpha(parameters, name)
        given = {"likelihood": self.likelihood, "n_targets": parameters.n_targets}
        self.rules = Rules(name, parameters.kernel, **given)
        self.normalizes = parameters.normalize_y and self.likelihood.standardises

    def jobs(self, rows, earlier):
        """The one job there is."""
        return self.jobs_of_part(rows, one_form=True)

    def jobs_of_part(self, part, one_form=False):
        """List of the only job."""
        rows = (part.in_one_form() if one_form else part).in_units(TargetScaler.none(1))
        return [self._job(rows.in_units(self._units(rows)))]

    def counts(self, part):
        """All rows of the part."""
        return [len(part)]

    def view(self, fits, units):
        """The response in units of y."""
        latent = TargetView(fits[0].posterior)
        return ResponseView(latent, fits[0].likelihood, units)

    def attributes(self, fits, units):
        """Fitted attributes that describe the posterior, and the likelihood in units of y."""
        likelihood = self.view(fits, units).likelihood_of_targets()
        process = fits[0].posterior
        learned = {"metric_": process.metric, "variance_factor_": process.factor}
        return {"posterior_": fits[0].name, "likelihood_": likelihood, **learned}

    def log_densities(self, view, part):
        """Log densities of the targets (n,)."""
        return view.log_density(part.X, part.y[:, 0], part.offset)

    def new_stream(self, part, random_state):
        """A stream to which no row has come."""
        return new_stream(part, random_state, 1)

    def stream_of(self, fits, n_iter, random_state):
        """The `StreamState` of the rows of a fit."""
        rows, kernel = fits[0].rows, fits[0].kernel
        part = rows.in_units_of_y().counting()
        job = self.job(rows, kernel, None)
        stream = new_stream(part, random_state, 1).seeded(part)
        warm_start = (warm_start_of(fits[0], job),)
        return stream._replace(warm_starts=warm_start, units=rows.units, n_iter=n_iter)

    def in_units(self, rows, units):
        """A table whose targets have other units."""
        offset = rows.offset
        if offset is not None:
            offset = offset * (rows.units.scale[0] / units.scale[0])
        return replace(rows, units=units, offset=offset)

    def _units(self, rows):
        """The units of the targets; known limits stay where they are to the last bit."""
        units = TargetScaler.of(rows, self.normalizes, self.name)
        if not self.normalizes:
            return units
        centre, spread = _centre_and_spread(rows)
        if isinstance(self.likelihood, Censored):
            return TargetScaler(np.zeros(1), _exact_at(self.likelihood.ends, spread or units.scale))
        return TargetScaler(np.array([centre]), np.array([spread])) if spread else units

    def _job(self, rows):
        """The `Job` of a table; the parameters of the likelihood start from the data."""
        likelihood = self.likelihood.rescaled(*np.ravel(rows.units))
        likelihood = likelihood.started(*observations_of(rows))
        method = resolve_method(self.parameters.bound, likelihood, self.name)
        spread = _centre_and_spread(rows)[1] if likelihood.standardises else 0.0
        kernel = self.given_kernel(), likelihood, rows, self.columns(), spread or 1.0
        kernel = resolve_latent_kernel(*kernel)
        inner = Inner.within(tolerance(self.parameters.tol))
        return self.job(rows, kernel, SiteObjectives(method, inner))


def _centre_and_spread(rows):
    """Mean and standard deviation of targets without offsets, which few outliers hardly move.

    The spread is 0 if the targets are equal.
    """
    y, weight, offset = observations_of(rows)
    y = y - offset
    mean, spread = mean_and_spread(y, weight)
    if spread <= rounding_of(mean):
        return mean, 0.0
    most, centre = _MOST_SPREAD * central_spread(y, weight), median(y, weight)
    spread = min(spread, most) if most > 0.0 else spread
    return np.clip(mean, centre - spread, centre + spread), spread


def _exact_at(limits, scale):
    """A scale that is the same but for rounding, and takes limits there and back exactly."""
    limits = np.array([limit for limit in limits if np.isfinite(limit)])
    scales = scale * (1.0 + np.finfo(float).eps * np.arange(_NEAR_SCALES))[:, None]
    inside = limits / scales
    exact = (inside * scales == limits) & (inside / (1.0 / scales) == limits)
    return scales[np.argmax(exact.all(axis=1))]

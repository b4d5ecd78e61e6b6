"""The contract of observation models: what rows are, how they become jobs, and fits of these."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.random import RandomState
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse.bounds import Bound
from skgp_sparse.choices import plan
from skgp_sparse.choices.choices import resolve_inducing, resolve_priors
from skgp_sparse.choices.parameter_checks import check_coded, check_mixes, parameters_of
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.checks import Rules, check_columns, check_finite
from skgp_sparse.data.columns import ColumnTable
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import TargetScaler
from skgp_sparse.engine.basis import Options
from skgp_sparse.exceptions import about, collected, warn_again
from skgp_sparse.explain.views import LabelView, ResponseView, TargetView
from skgp_sparse.ground.linalg import NO_EFFECT
from skgp_sparse.ground.parallel import Deadline, ordered_map, resolve_n_jobs, single_threaded_blas
from skgp_sparse.ground.validation import Array, Bools, as_text, has_callbacks, is_auto, is_name
from skgp_sparse.inference.contracts import ObjectiveFactory, Settings
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.methods.contract import Fits, FittedJob, Job, Problems, Request, Selection
from skgp_sparse.methods.selection import PosteriorSelection, agree
from skgp_sparse.posteriors import PosteriorMethod
from skgp_sparse.solvers import Fit, resolve_solver

View = TargetView | ResponseView | LabelView
_SMALL = 1 << 23  # numbers: arrays that problems side by side may have


class ObservationModel(ABC):
    """Model of rows, made of the parameters of an estimator for a call of fit or partial_fit."""

    parameters: Any  # the estimator
    name: str  # of the estimator, for errors
    rules: Rules  # of its rows
    posterior_method: PosteriorMethod
    likelihood: Likelihood | None  # None: the noise is Gaussian
    bound: Bound  # where the noise is Gaussian
    has_sites: bool = True
    rows_with_prior: int = 0  # per column, up to which default length scales have one
    missing: Bools | None = None  # (d,) columns with missing values; None: none
    progress: Any = None
    deadline: Deadline  # of the call
    order: list[Any] | None = None  # of labels, by a category
    n_classes: int = 0
    class_weight: Array | None = None  # (n_classes,) factors of probabilities; None: all are one
    have_all_rows: bool = True  # in every problem
    starts_together: bool = False  # objectives of several problems have a sum
    are_passed: bool = True  # as an array or a data frame
    compares_near_rows: bool = True  # where a fit explains no more than a constant

    def __init__(self, parameters: BaseEstimator, name: str) -> None:
        self.parameters, self.name = parameters, name
        self.posterior_method = plan.resolve_posterior(parameters.posterior, name)
        self.deadline = deadline_of(parameters, name)
        self.tol = plan.tolerance(parameters.tol)

    def user_kernel(self) -> Kernel | None:
        """The user's kernel, whose columns by name have numbers; None: the default one."""
        kernel = self.parameters.kernel
        return None if kernel is None else kernels.named(kernel, self.feature_names())

    def feature_names(self) -> list[str] | None:
        """Names of the columns, None where they have none."""
        names = getattr(self.parameters, "feature_names_in_", None)
        return None if names is None else [*map(str, names)]

    def columns(self) -> ColumnTable:
        """The `ColumnTable` that the default kernel follows."""
        is_linear = is_name(self.parameters.mean, "linear")
        categories = tuple(getattr(self.parameters, "categories_", ()))
        return ColumnTable(self.feature_names(), categories, self.missing, is_linear)

    @abstractmethod
    def jobs(self, rows: Dataset) -> list[Job]:
        """Jobs of all problems of rows."""

    @abstractmethod
    def view(self, fits: Fits, scaler: TargetScaler) -> View:
        """The view that predicts with fits in the units of y, also from pickles."""

    def attributes(self, fits: Fits, scaler: TargetScaler) -> dict[str, Any]:
        """Fitted attributes that describe posteriors: lists, where there are several problems."""
        found: dict[str, list[Any]] = {
            "posterior_": [fit.name for fit in fits],
            "likelihood_": [fit.likelihood for fit in fits],
            "metric_": [fit.posterior.metric for fit in fits],
            "selection_": [Selection(one.fit.selection, one.plan, one.steps) for one in fits],
        }
        if not self.rules.labels:
            found["variance_factor_"] = [fit.posterior.factor for fit in fits]
        Z: list[Any] = [fit.objective and fit.objective.inducing_points for fit in fits]
        if all(points is not None for points in Z):
            found |= {"inducing_points_": Z, "n_inducing_": [len(points) for points in Z]}
        return {name: one_or_all(of_problems) for name, of_problems in found.items()}

    def accept(self, part: ArrayDataset, earlier: Array | None) -> ArrayDataset:
        """The part as streams take it, labels as indices; raises unless it has as many targets."""
        if earlier is not None:
            check_columns(part.y, earlier.shape[1], self.name)
        return part

    def jobs_of_part(self, part: ArrayDataset, stream: object) -> list[Job]:
        """Jobs of rows that stand for all of a stream, in the units of all targets that came."""
        return self.jobs(part)

    def rows_of(self, fits: Fits) -> ArrayDataset:
        """Return the rows of fits as a part that `accept` has accepted."""
        return fits[0].rows.in_units_of_y().counting()

    def random_states(self, random_state: RandomState) -> list[RandomState]:
        """Random states, one for every problem."""
        return [random_state]

    def target_name(self, number: int) -> str:
        """Name, for users, of one of several targets of a job."""
        return f"target {number}"

    def moves(self) -> bool:
        """Whether theta and Z move at all."""
        return self.parameters.optimizer is not None

    def request(self, posterior_method: PosteriorMethod) -> Request:
        """`Request` of the user of the estimator, for the plan."""
        parameters = parameters_of(self.parameters)
        if is_auto(parameters["n_inducing"]):
            parameters["n_inducing"] = None
        if plan.compares_approximations(self.parameters):
            for added in ("mean", "noise", "calibration"):
                if is_auto(parameters.get(added)):
                    del parameters[added]
        own = "has_sites", "n_classes", "have_all_rows", "starts_together", "are_passed"
        known = {key: parameters[key] for key in parameters.keys() & set(Request._fields)}
        known |= {key: getattr(self, key) for key in own} | {"posterior": posterior_method}
        known["n_latent"] = self.likelihood.n_latent if self.likelihood else 1
        return Request(**known, resolved_bound=None if self.has_sites else self.bound)

    def check_posterior_method(self) -> None:
        """Raise if the posterior cannot be given what is asked for."""
        given, chosen = self.parameters, self.posterior_method
        reason = chosen.refuses(self.request(chosen))
        if reason is None and not (chosen.uses_bound or is_auto(given.bound)):
            reason = f"has no bound, so that none can be chosen. Got bound={as_text(given.bound)}"
        if reason is not None:
            raise ValueError(
                f"{self.name}: posterior={as_text(given.posterior)} {reason}. Change this, or set "
                "posterior='inducing'."
            )

    def job(self, rows: Dataset, kernel: Kernel, objectives: ObjectiveFactory, name: str) -> Job:
        """The `Job` of a table, by its plan."""
        parameters, d, is_free = self.parameters, rows.n_features, self.parameters.kernel is None
        check_mixes(parameters.metric, kernel, self.name)
        check_coded(parameters.kernel, kernel, self.columns(), d, self.name)
        request = self.request(self.posterior_method)
        planned = plan.plan(request, facts := plan.facts_of(rows, kernel, request))
        self._check_rows(facts, planned.posterior_method)
        size, memory = planned.n_inducing, get_config()["working_memory"] * 2**20
        points = resolve_inducing(parameters.inducing_init, size, d, self.name)
        width = len(parameters.inducing_init) if points.are_given else size
        settings = Settings(
            solver=resolve_solver(parameters.solver, parameters.optimizer, len(rows), width),
            n_restarts=parameters.n_restarts_optimizer,
            max_iter=parameters.max_iter,
            tol=self.tol,
            start_rows=planned.start_rows,
            options=Options(n_jobs=resolve_n_jobs(parameters.n_jobs), memory=memory),
            move_basis=parameters.optimize_inducing,
            deadline=self.deadline,
            progress=self.progress and partial(self.progress, about=name),
        )
        points = points._replace(is_auto=is_auto(parameters.n_inducing))
        job = Job(name, rows, kernel, objectives, planned.posterior_method, points, settings)
        job = job._replace(plan=planned.summary, steps=planned.steps, metric=parameters.metric)
        job = job._replace(is_free=is_free, spreads=rows.scale(NO_EFFECT if is_free else 1.0))
        return job.with_priors(resolve_priors(parameters, rows, self.rows_with_prior))

    def _check_rows(self, facts: plan.Facts, planned: PosteriorMethod) -> None:
        """Raise where inputs have errors that cannot be used, or a metric is asked for in vain."""
        chosen, name = self.posterior_method, self.name
        if not facts.inputs_are_known:
            needs = plan.UncertainInputs().refuses(self.request(chosen))
            if not (type(chosen) is PosteriorSelection or plan.is_plain(chosen)):
                given = as_text(self.parameters.posterior)
                needs = f"posterior='inducing', without parameters. Got {given}"
            if needs is not None:
                raise ValueError(f"{name}: X_std needs {needs}. Change this, or leave X_std out.")
        is_asked = self.parameters.metric == "full" and facts.n_distinct >= plan.ROWS_OF_A_METRIC
        if is_asked and not (chosen.learns_metric or planned.learns_metric):
            raise ValueError(
                f"{name}: metric='full' is that of predictions from neighbours, which are "
                "given rows in memory with one latent value each. Set posterior to 'neighbors' "
                "(with multi_class='one_vs_rest'), or metric to 'ard'."
            )

    def check(self, job: Job) -> None:
        """Raise where a kernel does not go with rows, or has no bounds for restarts."""
        given = self.parameters.kernel
        are_drawn = self.moves() and self.parameters.n_restarts_optimizer > 0
        if are_drawn and not np.isfinite(job.kernel.bounds).all():
            raise ValueError(
                "Multiple optimizer restarts (n_restarts_optimizer>0) requires that all bounds are "
                "finite."
            )
        if given is not None and kernels.parts(given, kernels.Missing) and job.rows.in_memory:
            remedy = (
                f"The kernel {given} sees it without Missing. Put Missing around each part that "
                "sees this column, or impute the values."
            )
            X = job.rows.stored_inputs()
            seen = kernels.touched(job.kernel, job.rows.n_features, but="takes_missing")
            check_finite(X, self.feature_names(), f"X of {self.name}", remedy, seen)


def fit_problems(observations: ObservationModel, rows: Dataset, state: RandomState) -> Problems:
    """Fit all problems of the user's rows, with the steps that their plans name."""
    jobs, states = observations.jobs(rows), observations.random_states(state)
    for job in jobs:
        observations.check(job)
    for summary, names in dict.fromkeys((job.plan, job.steps) for job in jobs):
        steps = f"; steps: {', '.join(names)}" if names else ""
        observations.progress.tell(f"plan: {summary}{steps}")
    named = {name for job in jobs for name in job.steps}
    problems = _take_steps(plan.BEFORE.keys() & named, Problems(observations, rows, jobs, states))
    fits = fit_all(problems.jobs, states, observations.parameters)
    problems = problems._replace(fits=[fit._replace(mean=problems.mean) for fit in fits])
    return _take_steps(plan.AFTER.keys() & named, problems)


def _take_steps(steps: Set[str], problems: Problems) -> Problems:
    """The problems after some steps, in the order of the plan's table."""
    for name in [name for name in plan.STEPS if name in steps]:
        problems = step_named(name)(problems)
    return problems


def step_named(name: str) -> Any:
    """The function ``problems -> problems`` of a step, whose file is read when it is needed."""
    module, function = plan.STEPS[name].split(":")
    return getattr(import_module(f"skgp_sparse.steps.{module}"), function)


def deadline_of(parameters: BaseEstimator, name: str) -> Deadline:
    """The `Deadline` of a call that begins now."""
    if (limit := parameters.time_limit) is None:
        return Deadline()
    text = f"[{name}] time_limit={limit:g} is over: the fit ends before it converges"
    return Deadline(limit, partial(print, text) if parameters.verbose else None)


def fit_all(jobs: list[Job], states: list[RandomState], parameters: BaseEstimator) -> Fits:
    """Fits of all jobs, in order, whatever `n_jobs`; by default, those that print one by one."""
    n_jobs, count = parameters.n_jobs, len(jobs)
    threads, are_watched = resolve_n_jobs(n_jobs), parameters.verbose or has_callbacks(parameters)
    # threads within an evaluation gain little
    at_once = min(threads, count)
    most = at_once * max(len(job.rows) * job.points.size for job in jobs)
    are_small = jobs[0].rows.in_memory and most <= _SMALL
    side_by_side = count > 1 and n_jobs is None and not are_watched and are_small
    run: Callable = partial(ordered_map, n_jobs=threads) if side_by_side else map
    jobs, candidates = agree(jobs, states, run) if count > 1 else (jobs, {})
    pairs = list(zip(jobs, states))
    seconds = jobs[0].settings.deadline.left() * at_once / count
    if side_by_side:
        results = run(lambda pair: _fit_quietly(pair[0], pair[1], seconds), pairs)
    elif count == 1 or n_jobs is None or threads == 1 or not jobs[0].rows.in_memory:
        results = ((_fit(job.within(count - k), s), ()) for k, (job, s) in enumerate(pairs))
    else:
        options = jobs[0].settings.options._replace(n_jobs=1)
        alone = [j.with_settings(options=options, progress=None, deadline=None) for j in jobs]
        calls = (delayed(_fit_elsewhere)(job, state, seconds) for job, state in zip(alone, states))
        found = Parallel(n_jobs=n_jobs)(calls)
        results = [(_with_rows(fit, job, job.rows), told) for job, (fit, told) in zip(jobs, found)]
    fits = []
    for k, (job, (fit, warnings)) in enumerate(zip(jobs, results)):
        warn_again(warnings)
        fit = fit._replace(selection=candidates.get(k, fit.selection))
        others = None if _is_of(fit, job) else job.rows
        fits.append(FittedJob(fit, job.plan, job.steps, job.posterior_method.name, others))
    return fits


def _fit(job: Job, random_state: RandomState) -> Fit:
    """The `Fit` of a job; errors of a user's method name it, with its parameters."""
    with about(job.name), single_threaded_blas():
        method = job.posterior_method
        try:
            fit = method.fit(job, random_state)
        except Exception as error:
            text, *others = error.args or ("",)
            if not type(method).__module__.startswith("skgp_sparse.") and isinstance(text, str):
                error.args = (f"posterior={as_text(method)}: {text or 'its fit failed.'}", *others)
            raise
        if not isinstance(fit, Fit):
            raise TypeError(
                f"{type(method).__name__}.fit must return a Fit of skgp_sparse.posteriors. Got "
                f"{type(fit).__name__}."
            )
        return fit


def _fit_quietly(job: Job, random_state: RandomState, seconds: float) -> tuple[Fit, Any]:
    """A fit that has so many seconds from now on, and its warnings."""
    job = job.with_settings(deadline=Deadline(seconds))
    with collected() as warnings:
        return _fit(job, random_state), warnings


def _fit_elsewhere(job: Job, random_state: RandomState, seconds: float) -> tuple[Fit, Any]:
    """A fit without its rows, and its warnings, for another process."""
    fit, warnings = _fit_quietly(job, random_state, seconds)
    return _with_rows(fit, job, None), warnings


def _with_rows(fit: Fit, job: Job, rows: Dataset | None) -> Fit:
    """The fit; an objective of all rows has those of the job, or none while it travels."""
    return fit._replace(objective=replace(fit.objective, rows=rows)) if _is_of(fit, job) else fit


def _is_of(fit: Fit, job: Job) -> bool:
    """Whether the objective of a fit is of all rows of a job, which it may have lost since."""
    own = None if fit.objective is None else fit.objective.rows
    return fit.objective is not None and (own is None or len(own) == len(job.rows))


def one_or_all(of_problems: list[Any]) -> Any:
    """The values of all problems, or the value of the single one."""
    return of_problems[0] if len(of_problems) == 1 else of_problems

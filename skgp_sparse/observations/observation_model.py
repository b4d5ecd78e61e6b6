"""The contract of a family: what rows are, and how jobs are made of them; fits of all of these."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse._engine.array_dataset import ArrayDataset
from skgp_sparse._engine.dataset import Dataset
from skgp_sparse._engine.moments import TargetScaler
from skgp_sparse._ground.parallel import Deadline, ordered_map, resolve_n_jobs, single_threaded_blas
from skgp_sparse._ground.validation import Array, Bools, is_name
from skgp_sparse.bounds import Bound
from skgp_sparse.exceptions import about, collected, warn
from skgp_sparse.explain.views import LabelView, ResponseView, TargetView
from skgp_sparse.inference.contracts import ObjectiveFactory
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.observations.streams import StreamState
from skgp_sparse.parameters.choices import resolve_inducing, resolve_priors
from skgp_sparse.parameters.parameter_checks import check_coded, check_mixes
from skgp_sparse.parameters.requests import job_of
from skgp_sparse.posteriors._contract import PosteriorMethod, Selection, errors_named
from skgp_sparse.posteriors._job import Job
from skgp_sparse.posteriors._model_selection import agree
from skgp_sparse.posteriors._scales import at_likely_scale, with_logarithms
from skgp_sparse.rows.checks import Rules
from skgp_sparse.rows.columns import ColumnTable
from skgp_sparse.solvers import Fit

View = TargetView | ResponseView | LabelView
_SMALL = 1 << 23  # numbers: arrays that problems side by side may have


class ObservationModel(ABC):
    """Model of rows: numbers with Gaussian noise, responses with a likelihood, or class labels.

    A family is made of the parameters of an estimator for one call of `fit` or `partial_fit`. It
    knows targets and their units, and hands inputs on.

    Attributes
    ----------
    parameters : estimator
        Whose public parameters it reads.
    name : str
        Of the estimator, for errors.
    rules : Rules
        What rows must be like.
    posterior_method : PosteriorMethod
        What posteriors are given.
    likelihood : Likelihood or None
        None: the noise is Gaussian.
    has_sites : bool
        Whether rows have sites.
    missing : ndarray of shape (d,) of bool or None
        Whether values of a column are missing in a row of any problem; None: none are.
    rows_with_prior : int
        Per column, up to which the length scales of the default kernel have a prior.
    bound : Bound
        Defined where the noise is Gaussian.
    progress : callable
        ``(iteration, value, about="", note="", quantity="bound") -> stop?``
    deadline : Deadline
        Of the call.
    order : list or None
        Labels in the order of a category; None: the targets are none.
    """

    parameters: Any
    name: str
    rules: Rules
    posterior_method: PosteriorMethod
    likelihood: Likelihood | None
    bound: Bound
    has_sites: bool = True
    rows_with_prior: int = 0
    missing: Bools | None = None
    progress: Callable[..., Any] | None = None
    deadline: Deadline = Deadline()
    order: list[Any] | None = None

    def given_kernel(self) -> Kernel | None:
        """The user's kernel, whose columns by name have numbers; None: the default one."""
        given = self.parameters.kernel
        return None if given is None else kernels.named(given, self.feature_names())

    def feature_names(self) -> list[str] | None:
        """Names of the columns, None where they have none."""
        names = getattr(self.parameters, "feature_names_in_", None)
        return None if names is None else [*map(str, names)]

    def columns(self) -> ColumnTable:
        """The `ColumnTable` that the default kernel follows."""
        given = self.parameters
        is_linear = is_name(given.mean, "linear") and given.kernel is not None
        categories = tuple(getattr(given, "categories_", ()))
        return ColumnTable(self.feature_names(), categories, self.missing, is_linear)

    @abstractmethod
    def jobs(self, rows: Dataset, earlier: tuple[Any, ...] | None) -> list[Job]:
        """Make jobs of rows.

        Parameters
        ----------
        rows : Dataset
            All rows of a call of `fit`, valid by `rules`, in the units of the user. Tables may
            refer to their arrays.
        earlier : tuple or None
            What a fit may go on from: the classes, the way in which they became problems, and the
            fits of the last call. None: nothing.

        Returns
        -------
        list of Job
            One for each problem, in the order of the fits in all other methods.
        """

    @abstractmethod
    def view(self, fits: list[Fit], units: TargetScaler) -> View:
        """Return fits as users see them.

        Parameters
        ----------
        fits : list of Fit
            One for each problem.
        units : TargetScaler
            Mean and scale (p,) of the targets.

        Returns
        -------
        TargetView, ResponseView or LabelView
            What predicts in the units of y. The estimator keeps it, also in pickles.
        """

    @abstractmethod
    def attributes(self, fits: list[Fit], units: TargetScaler) -> dict[str, Any]:
        """Return fitted attributes that fits of other observation models do not have.

        Parameters
        ----------
        fits : list of Fit
            One for each problem.
        units : TargetScaler
            As in `view`.

        Returns
        -------
        dict
            Values by name, each of which ends in an underscore.
        """

    @abstractmethod
    def log_densities(self, view: View, part: ArrayDataset) -> Array:
        """Compute log predictive densities of rows.

        Parameters
        ----------
        view : TargetView, ResponseView or LabelView
            As of `view`.
        part : ArrayDataset
            Rows (n, d) and their targets, in the units of y.

        Returns
        -------
        ndarray of shape (n,)
            Densities in nats; of labels, logarithms of probabilities.
        """

    def accept(self, part: ArrayDataset, stream: StreamState | None) -> ArrayDataset:
        """Check that a part goes with a stream.

        Parameters
        ----------
        part : ArrayDataset
            The rows of one call of `partial_fit`, in the units of y.
        stream : StreamState or None
            What is known of the rows before; None if this part is the first.

        Returns
        -------
        ArrayDataset
            The part as streams take it: labels as indices of classes.

        Raises
        ------
        ValueError
            If it has other targets, weights or labels than the stream can take.
        """
        return part if stream is None else stream.accepted(part, self.name)

    @abstractmethod
    def new_stream(self, part: ArrayDataset, random_state: np.random.RandomState) -> StreamState:
        """Return the state of a stream before its first row.

        Parameters
        ----------
        part : ArrayDataset
            The first part, as of `accept`.
        random_state : RandomState
            Generator that draws the seed of the stream.

        Returns
        -------
        StreamState
            Plain data of bounded size.
        """

    @abstractmethod
    def stream_of(
        self, fits: list[Fit], n_iter: int, random_state: np.random.RandomState
    ) -> StreamState:
        """Return the state of a stream whose rows so far are those of a fit.

        Parameters
        ----------
        fits : list of Fit
            One for each problem, with their rows in memory.
        n_iter : int
            Number of iterations of the fit.
        random_state : RandomState
            Generator that draws the seed of the stream.

        Returns
        -------
        StreamState
            Plain data of bounded size.
        """

    @abstractmethod
    def learn(
        self, stream: StreamState, part: ArrayDataset, due: bool
    ) -> tuple[StreamState, list[Fit]]:
        """Learn from a part.

        Parameters
        ----------
        stream : StreamState
            The state whose reservoir has seen the part. It does not change.
        part : ArrayDataset
            The new rows, as of `accept`.
        due : bool
            Whether theta and Z should move.

        Returns
        -------
        stream : StreamState
            A new state, which has learned from the part.
        fits : list of Fit
            One for each problem.
        """

    def refined(
        self, jobs: list[Job], fits: list[Fit], random_states: list[np.random.RandomState]
    ) -> list[Fit]:
        """The fits after what follows when all of them have ended."""
        return fits

    def begins_to_vary(self, stream: StreamState, part: ArrayDataset) -> bool:
        """Whether a part has other values of a target that was constant in a stream so far."""
        return False

    def on_the_clock(self) -> "ObservationModel":
        """Begin the call: set its deadline, whose end is printed where progress is."""
        self.deadline = deadline_of(self.parameters, self.name)
        return self

    def random_states(self, random_state: np.random.RandomState) -> list[np.random.RandomState]:
        """Random states, one for every problem."""
        return [random_state]

    def target_name(self, number: int) -> str:
        """Name, for users, of one of several targets of a job."""
        return f"target {number}"

    def moves(self) -> bool:
        """Whether theta and Z move at all."""
        return self.parameters.optimizer is not None

    def job(
        self,
        rows: Dataset,
        kernel: Kernel,
        model: ObjectiveFactory,
        name: str = "",
        before: tuple[Kernel, Array] | None = None,
    ) -> Job:
        """The `Job` of a table."""
        check_mixes(self.parameters.metric, kernel, self.name)
        given, d = self.parameters.kernel, rows.n_features
        check_coded(given, kernel, self.columns(), d, self.name)
        job = job_of(self, rows, kernel, model, name, self.posterior_method)
        job = job._replace(before=before)
        return job.with_priors(resolve_priors(self.parameters, rows, self.rows_with_prior))

    def with_starts(self, jobs: list[Job], random_states: list[np.random.RandomState]) -> list[Job]:
        """The jobs of a fit, whose default kernel may see skewed columns by their logarithms."""
        with single_threaded_blas():
            return [with_logarithms(at_likely_scale(job), self.columns()) for job in jobs]

    def initialiser(self, n_inducing: int, n_features: int) -> tuple[Any, bool]:
        """``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""
        return resolve_inducing(self.parameters.inducing_init, n_inducing, n_features, self.name)


def deadline_of(parameters: Any, name: str) -> Deadline:
    """The `Deadline` of a call that begins now."""
    limit = parameters.time_limit
    if limit is None:
        return Deadline()
    text = f"[{name}] time_limit={limit:g} is over: the fit ends before it converges"
    return Deadline(limit, partial(print, text) if parameters.verbose else None)


def fit_all(
    jobs: list[Job], random_states: list[np.random.RandomState], n_jobs: int | None, watched: bool
) -> list[Fit]:
    """Fits of all jobs, in order; the same whatever `n_jobs`.

    Fits that are `watched`, or whose rows have to be read, are made one after the other: the first
    tell their progress, the second would send the reader back and forth.
    """
    threads, count = resolve_n_jobs(n_jobs), len(jobs)
    # threads within an evaluation gain little
    at_once = min(threads, count)
    side_by_side = count > 1 and n_jobs is None and not watched and _are_small(jobs, at_once)
    run: Any = partial(ordered_map, n_jobs=threads) if side_by_side else map
    jobs, candidates = agree(jobs, random_states, run)
    pairs = list(zip(jobs, random_states))
    seconds = jobs[0].settings.deadline.left() * at_once / count
    if side_by_side:
        results = run(lambda pair: _fit_quietly(pair[0], pair[1], seconds), pairs)
    elif count == 1 or n_jobs is None or threads == 1 or not jobs[0].rows.in_memory:
        fits = [_fit(job.within(count - k), state) for k, (job, state) in enumerate(pairs)]
        return _with_candidates(fits, candidates)
    else:
        calls = (delayed(_fit_elsewhere)(_alone(job), state, seconds) for job, state in pairs)
        results = Parallel(n_jobs=n_jobs)(calls)
    fits = []
    for job, (fit, warnings) in zip(jobs, results):
        fits.append(_with_rows(fit, job.rows))  # those of a worker were a copy
        for message, category in warnings:
            warn(message, category)
    return _with_candidates(fits, candidates)


def _with_candidates(fits: list[Fit], candidates: dict[int, Any]) -> list[Fit]:
    """The fits of several jobs, with the candidates of a selection that some of them made."""
    return [fit._replace(selection=candidates.get(k, fit.selection)) for k, fit in enumerate(fits)]


def _fit(job: Job, random_state: np.random.RandomState) -> Fit:
    with about(job.name), single_threaded_blas():
        with errors_named(job.posterior_method):
            fit = job.posterior_method.fit(job, random_state)
        if not isinstance(fit, Fit):
            raise TypeError(
                f"{type(job.posterior_method).__name__}.fit must return a Fit of "
                f"skgp_sparse.posteriors. Got {type(fit).__name__}."
            )
        given = None if _is_of(fit, job.rows) else job.rows
        return fit._replace(plan=job.plan, method_name=job.posterior_method.name, given=given)


def _fit_quietly(job: Job, random_state: np.random.RandomState, seconds: float) -> tuple[Fit, Any]:
    """A fit that has so many seconds from now on, and its warnings."""
    job = job.with_settings(deadline=Deadline(seconds))
    with collected() as warnings:
        return _fit(job, random_state), warnings


def _fit_elsewhere(
    job: Job, random_state: np.random.RandomState, seconds: float
) -> tuple[Fit, Any]:
    """A fit without its rows, and its warnings, for another process."""
    fit, warnings = _fit_quietly(job, random_state, seconds)
    return _without_rows(fit), warnings


def _are_small(jobs: list[Job], at_once: int) -> bool:
    """Whether the arrays (rows, m) of jobs at the same time are; an evaluation holds some ten.

    Those of rows that have to be read never are.
    """
    sizes = [len(job.rows) * job.points.size for job in jobs]
    return jobs[0].rows.in_memory and at_once * max(sizes) <= _SMALL


def _alone(job: Job) -> Job:
    """A copy of a job for another process: one thread, no progress and no deadline."""
    options = job.settings.options._replace(n_jobs=1)
    return job.with_settings(options=options, progress=None, deadline=None)


def _without_rows(fit: Fit) -> Fit:
    """The fit without the rows of its job."""
    if fit.given is not None:
        return fit._replace(given=None)
    objective: Any = fit.objective  # a dataclass, as all objectives are
    return fit._replace(objective=replace(objective, rows=None))


def _with_rows(fit: Fit, rows: Dataset) -> Fit:
    """The fit with the rows of its job, which it was made without or from a copy of."""
    if not _is_of(fit, rows):
        return fit._replace(given=rows)
    objective: Any = fit.objective
    return fit._replace(objective=replace(objective, rows=fit.posterior.sees(rows)))


def _is_of(fit: Fit, rows: Dataset) -> bool:
    """Whether the objective of a fit is of all rows of a job, which it may have lost since."""
    own = None if fit.objective is None else fit.objective.rows
    return fit.objective is not None and (own is None or len(own) == len(rows))


def selection_of(fits: list[Fit]) -> list[Any]:
    """The `Selection` of a fit, for several problems a list of them."""
    selections = [Selection(fit.selection, fit.plan) for fit in fits]
    return selections[0] if len(fits) == 1 else selections


def inducing_points_of(fits: list[Fit]) -> dict[str, Any]:
    """Fitted attributes of inducing points; none where predictions come from neighbours."""
    Z: list[Any] = [fit.objective and fit.objective.inducing_points for fit in fits]
    if any(points is None for points in Z):
        return {}
    sizes, one = [len(points) for points in Z], len(fits) == 1
    return {"inducing_points_": Z[0] if one else Z, "n_inducing_": sizes[0] if one else sizes}

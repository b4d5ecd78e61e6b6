"""Rows that arrive later: what an estimator keeps of a stream, and what a call of partial_fit does.

A `StreamState` is plain data of bounded size, which pickles keep. It never changes: a call makes
another one, so that a call that fails leaves the estimator as it was. It pays to move theta and Z

- when the rows have doubled since the last move, as the model then knows little of half of them;
- when new rows are predicted clearly worse than those before them, which is the case where the
  function, or the inputs, are no longer what they were.

In the second case, the rows before may mislead. How much they still count is chosen by what they
say about the new rows: the first half of these joins them, and they predict the other half.

The contract of an observation model: what rows are, how jobs are made of them, and their fits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn import get_config
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse.bounds import Bound
from skgp_sparse.choices.choices import resolve_inducing, resolve_priors
from skgp_sparse.choices.parameter_checks import check_coded, check_mixes, check_restarts
from skgp_sparse.choices.plan import STEPS, job_of
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.checks import Given, Rules, check_columns, check_missing
from skgp_sparse.data.columns import ColumnTable, order_of
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.data.moments import Moments, TargetScaler, moments_of
from skgp_sparse.engine.collapsed import RunningSums
from skgp_sparse.exceptions import about, collected, warn
from skgp_sparse.explain.views import LabelView, ResponseView, TargetView
from skgp_sparse.ground.parallel import Deadline, ordered_map, resolve_n_jobs, single_threaded_blas
from skgp_sparse.ground.validation import Array, Bools, is_name
from skgp_sparse.inference.contracts import ObjectiveFactory
from skgp_sparse.inference.stochastic import Reservoir
from skgp_sparse.likelihoods import Likelihood
from skgp_sparse.methods.contract import Action, Job, PosteriorMethod, Selection, errors_named
from skgp_sparse.methods.selection import agree
from skgp_sparse.solvers import Fit

_MOST_ROWS = 100_000  # that the reservoir holds ...
_SHARE_OF_MEMORY = 1 / 16  # ... in this share of scikit-learn's working_memory
_GROWTH = 2.0  # of the number of rows, after which theta and Z move
_ROWS_OF_A_COMPARISON = 100  # whose densities are compared together
_ERRORS, _NATS = 5.0, 0.1  # a density falls clearly: by so many standard errors and so many nats
_DISCOUNTS = (0.1, 0.01, 0.0)  # how much a row before a change may count instead of 1 ...
_PRICE = 0.25  # ... and nats that each of these steps has to gain


class DriftDetector(NamedTuple):
    """Log densities of rows before they were learned from."""

    usual: Moments = Moments()  # since the last move
    recent: Moments = Moments()  # not compared so far

    def updated(self, densities, weight):
        """The detector after more densities (n,), and by how much they fell; 0 if not clearly."""
        recent = self.recent.merged(moments_of(densities, weight))
        if recent.weight < _ROWS_OF_A_COMPARISON:
            return self._replace(recent=recent), 0.0
        return DriftDetector(self.usual.merged(recent)), _fall(self.usual, recent)


class StreamState(NamedTuple):
    """State of a stream of rows that is kept between two calls."""

    reservoir: Reservoir
    seed: int
    warm_starts: tuple  # `WarmStart` of every problem, or None
    units: TargetScaler | None = None  # in which theta was learned
    moments: Moments | None = None  # of the targets, where noise is Gaussian
    sums: RunningSums | None = None  # the same
    active: ArrayDataset | None = None  # rows whose sites are inferred in the next call, too ...
    frozen: tuple | None = None  # ... and what the others say, `Sums` of every problem
    watch: DriftDetector = DriftDetector()
    at_last_move: float = 0.0  # weight of the rows
    calls: int = 0
    total_weight: float = 0.0  # weight of all rows, whatever they count now
    n_iter: int = 0
    first: object = None  # what observations want to remember of the first call

    def random_state(self):
        """Random state of the next call."""
        return np.random.RandomState([self.seed, self.calls])

    def part(self):
        """The rows in the reservoir, weighted so that they stand for all that came."""
        return _part_of(self.reservoir.columns, self.reservoir.weights())

    def accepted(self, part, name):
        """The part; raises unless it has as many targets as those before."""
        check_columns(part.y, self.reservoir.columns[1].shape[1], name)
        return part

    def with_rows(self, part, random_state):
        """The stream with the rows of a part in its reservoir."""
        reservoir, columns, weight = self.reservoir, _columns_of(part), part.row_weights()
        bytes_of_a_row = sum(column.nbytes for column in columns) / len(weight) + 16
        memory = _SHARE_OF_MEMORY * get_config()["working_memory"] * 2**20
        capacity = max(1, int(min(_MOST_ROWS, memory / bytes_of_a_row)))
        for start in range(0, len(weight), capacity):
            some = slice(start, start + capacity)
            few = tuple(column[some] for column in columns)
            reservoir = reservoir.plus(few, weight[some], capacity, random_state)
        return self._replace(reservoir=reservoir, total_weight=self.total_weight + weight.sum())

    def discounted(self, factor):
        """The stream whose rows count less."""
        frozen, active = self.frozen, self.active
        return self._replace(
            frozen=None if frozen is None else tuple(sites.times(factor) for sites in frozen),
            active=None if active is None else _weighted(active, factor),
            reservoir=self.reservoir.times(factor),
            moments=None if self.moments is None else self.moments.times(factor),
            sums=None if self.sums is None else self.sums.times(factor),
        )

    def seeded(self, part):
        """The stream of the rows of a fit, before anything is learned from more of them."""
        stream = self.with_rows(part, self.random_state())
        return stream._replace(at_last_move=stream.reservoir.total, calls=1)


def new_stream(part, random_state, n_problems, first=None):
    """A stream to which no row has come, for parts like this one."""
    return StreamState(
        reservoir=Reservoir.empty(_columns_of(part)),
        seed=random_state.randint(2**31 - 1),
        warm_starts=(None,) * n_problems,
        first=first,
    )


def advance(observations, stream, view, part):
    """Learn from a part: the next `StreamState`, and the fits.

    Parameters
    ----------
    observations : ObservationModel
    stream : StreamState
    view : view or None
        What was learned before.
    part : ArrayDataset
    """
    random_state, fall = stream.random_state(), 0.0
    if observations.moves() and stream.calls:
        watch, fall = stream.watch.updated(
            observations.log_densities(view, part), part.row_weights()
        )
        stream = stream._replace(watch=watch)
    if fall:
        stream = stream.discounted(_discount(observations, stream, part, random_state))
    begins = observations.begins_to_vary(stream, part)
    stream = stream.with_rows(part, random_state)
    total = stream.reservoir.total
    has_grown = stream.calls == 0 or total >= _GROWTH * stream.at_last_move
    due = bool(fall or begins or (has_grown and observations.moves()))
    stream, fits = observations.learn(stream, part, due)
    if due:
        stream = stream._replace(watch=DriftDetector(), at_last_move=total)
    n_iter = stream.n_iter + due * int(max(fit.n_iter for fit in fits))
    return stream._replace(calls=stream.calls + 1, n_iter=n_iter), fits


def _discount(observations, stream, part, random_state):
    """How much the rows before still count; the later half of the new ones decides."""
    half = len(part) // 2
    if half < 2 or any(one is None or one.few for one in stream.warm_starts):
        return 1.0
    learned, held_out = part.subset(slice(half)), part.subset(slice(half, None))

    def densities(factor):
        trial = stream.discounted(factor).with_rows(learned, random_state)
        after, fits = observations.learn(trial, learned, False)
        return observations.log_densities(observations.view(fits, after.units), held_out)

    with single_threaded_blas():
        return best_discount(densities)


def best_discount(densities):
    """How much rows before a change still count, from what they say about rows after it.

    Rows that predict badly need not mislead: seasons return. What is forgotten is gone, so that it
    has to be worth a price.

    Parameters
    ----------
    densities : callable
        Factor of the weights of the rows before -> log densities (n,) of some rows after.
    """
    without_change = densities(1.0)
    best, most = 1.0, 0.0
    for steps, factor in enumerate(_DISCOUNTS, start=1):
        gain = densities(factor) - without_change
        is_clear = gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain))
        if is_clear and gain.mean() - steps * _PRICE > most:
            best, most = factor, gain.mean() - steps * _PRICE
    return best


def _fall(usual, recent):
    """By how much recent densities are lower than usual ones; 0 if not clearly."""
    if usual.weight == 0:
        return 0.0
    error = usual.spread * np.sqrt(1.0 / usual.weight + 1.0 / recent.weight)
    fall = float(usual.mean - recent.mean)
    return fall if fall > max(_ERRORS * error, _NATS) else 0.0


def _weighted(rows, factor):
    """Rows whose weights are multiplied by a factor."""
    return replace(rows, weight=factor * rows.row_weights())


def joined(before, part):
    """Rows of before, if there are any, and rows of now."""
    if before is None:
        return _weighted(part, 1.0)
    columns = map(np.concatenate, zip(_columns_of(before), _columns_of(part)))
    return _part_of(columns, np.append(before.row_weights(), part.row_weights()))


def _columns_of(part):
    """Arrays of numbers of every row, but for the weights."""
    if part.y.ndim == 1:  # labels
        return part.X, part.y
    rest = (0.0 if column is None else column for column in (part.offset, part.noise))
    return part.X, part.y, *(np.broadcast_to(column, len(part)) for column in rest)


def _part_of(columns, weight):
    """The `ArrayDataset` of such arrays."""
    X, y, *rest = columns
    if not rest:
        return ArrayDataset(X, y, weight=weight)
    offset, noise = (column if column.any() else None for column in rest)
    return ArrayDataset(X, y, 0.0 if noise is None else noise, weight, offset=offset)


View = TargetView | ResponseView | LabelView
_LIKELY_SCALE = "likely scale"  # the step that streams take, too
_SMALL = 1 << 23  # numbers: arrays that problems side by side may have


class ObservationModel(ABC):
    """Model of rows: numbers with Gaussian noise, responses with a likelihood, or class labels.

    It is made of the parameters of an estimator for one call of `fit` or `partial_fit`. It
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
    n_classes : int
        Number of classes, 0 of numbers.
    have_all_rows : bool
        Whether every problem has all rows.
    starts_together : bool
        Whether the objectives of several problems have a sum, with which they may start.
    are_passed : bool
        Whether rows were passed as an array or a data frame.
    compares_near_rows : bool
        Whether near rows can be compared where a fit explains no more than a constant.
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
    n_classes: int = 0
    have_all_rows: bool = True
    starts_together: bool = False
    are_passed: bool = True
    compares_near_rows: bool = True

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

    def begins_to_vary(self, stream: StreamState, part: ArrayDataset) -> bool:
        """Whether a part has other values of a target that was constant in a stream so far."""
        return False

    def on_the_clock(self) -> "ObservationModel":
        """Begin the call: set its deadline, whose end is printed where progress is."""
        self.deadline = deadline_of(self.parameters, self.name)
        return self

    def know_inputs(self, given: Given, rows: Dataset) -> None:
        """Know what the rows of a call of `fit` are like, as users passed them."""
        table: Any = rows
        self.missing = np.isnan(table.X).any(axis=0) if rows.in_memory else None
        self.order = order_of(given.y) if self.rules.labels else None

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

    def check(self, job: Job) -> None:
        """Raise where a kernel does not go with rows, or has no bounds for restarts."""
        given = self.parameters.kernel
        check_restarts(self.parameters, job.kernel)
        if given is not None and kernels.parts(given, kernels.Missing) and job.rows.in_memory:
            remedy = (
                f"the kernel {given} sees it without Missing. Put Missing around each part that "
                "sees this column, or impute the values."
            )
            X, names = job.rows.stored_inputs(), self.feature_names()
            names = [*range(X.shape[1])] if names is None else names
            check_missing(X, job.kernel, names, f"X of {self.name}", remedy)

    def begun(self, job: Job, action: Action) -> Job:
        """The job of a stream, whose length scales are likely ones where they move."""
        if action in (Action.START, Action.MOVE) and _LIKELY_SCALE in job.steps:
            (job,) = step_named(_LIKELY_SCALE)(self, job.rows, []).before([job])
        return job

    def initialiser(self, n_inducing: int, n_features: int) -> tuple[Any, bool]:
        """``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""
        return resolve_inducing(self.parameters.inducing_init, n_inducing, n_features, self.name)


class FittedProblems(NamedTuple):
    """Fits of all problems, and what is predicted beside their processes.

    Parameters
    ----------
    observations : ObservationModel
    jobs : list of Job
        What was fitted.
    fits : list of Fit
    units : TargetScaler
    beside : WeightedMean, Calibration or None
        What changes predictions of the processes.
    latent : ndarray or None
        What a mean predicts of the user's rows without them, where labels are to be calibrated.
    """

    observations: ObservationModel
    jobs: Sequence[Job]
    fits: list[Fit]
    units: TargetScaler
    beside: Any = None
    latent: Array | None = None


def fit_problems(
    observations: ObservationModel,
    rows: Dataset,
    earlier: tuple[Any, ...] | None,
    random_state: np.random.RandomState,
    watched: bool,
) -> FittedProblems:
    """Fit all problems of some rows, with the steps that their plans name.

    Parameters
    ----------
    observations : ObservationModel
    rows : Dataset
        As the user passed them.
    earlier : tuple or None
        As of `ObservationModel.jobs`.
    random_state : RandomState
    watched : bool
        Whether fits tell their progress, and are made one after the other.
    """
    jobs, states = observations.jobs(rows, earlier), observations.random_states(random_state)
    steps = steps_of(observations, rows, jobs, states)
    for step in steps:
        jobs = step.before(jobs)
    fits = fit_all(jobs, states, observations.parameters.n_jobs, watched)
    found = FittedProblems(observations, jobs, fits, jobs[0].rows.units)
    for step in steps:
        found = step.after(found)
    return found


def steps_of(
    observations: ObservationModel,
    rows: Dataset,
    jobs: list[Job],
    random_states: list[np.random.RandomState],
) -> list[Any]:
    """Steps that the plans of checked jobs name; plans are printed where progress is."""
    tell: Any = observations.progress
    for job in jobs:
        observations.check(job)
    for plan, steps in dict.fromkeys((job.plan, job.steps) for job in jobs):
        tell.tell(f"plan: {plan}{'; steps: ' * bool(steps)}{', '.join(steps)}")
    named = {name for job in jobs for name in job.steps}
    return [step_named(name)(observations, rows, random_states) for name in STEPS if name in named]


def step_named(name: str) -> Any:
    """The class of a step, whose file is read when a plan names it for the first time."""
    module, kind = STEPS[name].split(":")
    return getattr(import_module(f"skgp_sparse.steps.{module}"), kind)


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
    jobs, candidates = agree(jobs, random_states, run) if count > 1 else (jobs, {})
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
        told = {"plan": job.plan, "steps": job.steps, "method_name": job.posterior_method.name}
        return fit._replace(given=given, **told)


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
    selections = [Selection(fit.selection, fit.plan, fit.steps) for fit in fits]
    return selections[0] if len(fits) == 1 else selections


def inducing_points_of(fits: list[Fit]) -> dict[str, Any]:
    """Fitted attributes of inducing points; none where predictions come from neighbours."""
    Z: list[Any] = [fit.objective and fit.objective.inducing_points for fit in fits]
    if any(points is None for points in Z):
        return {}
    sizes, one = [len(points) for points in Z], len(fits) == 1
    return {"inducing_points_": Z[0] if one else Z, "n_inducing_": sizes[0] if one else sizes}

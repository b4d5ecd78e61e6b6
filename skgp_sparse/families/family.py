"""The contract of a family: what rows are, and how jobs are made of them; fits of all of these."""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial

from joblib import Parallel, delayed

from skgp_sparse import kernels
from skgp_sparse._ground.deadline import Deadline
from skgp_sparse._ground.parallel import ordered_map, resolve_n_jobs, single_threaded_blas
from skgp_sparse._ground.warnings import about, collected, warn
from skgp_sparse.families.choices import resolve_inducing
from skgp_sparse.families.default_kernels import ColumnTable, resolve_priors
from skgp_sparse.families.parameter_checks import check_coded, check_mixes
from skgp_sparse.posteriors._choice import agree, job_of
from skgp_sparse.posteriors._skewed_columns import settled
from skgp_sparse.rows.part import Units

_SMALL = 1 << 23  # numbers: arrays that problems side by side may have


class Family(ABC):
    """What rows are: numbers with Gaussian noise, responses with a likelihood, labels of classes.

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
    strategy : Strategy
        What posteriors are given.
    likelihood : Likelihood or None
        None: the noise is Gaussian.
    has_sites : bool
        Whether rows have sites.
    lacking : ndarray of shape (d,) of bool or None
        Whether values of a column are missing in a row of any problem; None: none are.
    rows_with_prior : int
        Per column, up to which the length scales of the default kernel have a prior.
    bound : Bound
        Defined where the noise is Gaussian.
    progress : callable
        ``(iteration, value, about="", note="", quantity="bound") -> stop?``
    deadline : Deadline
        Of the call.
    """

    has_sites = True
    rows_with_prior = 0
    lacking = None
    progress = None
    deadline = Deadline()

    def given_kernel(self):
        """The user's kernel, whose columns by name have numbers; None: the default one."""
        given = self.parameters.kernel
        return None if given is None else kernels.named(given, self.feature_names())

    def feature_names(self):
        """Names of the columns, None where they have none."""
        names = getattr(self.parameters, "feature_names_in_", None)
        return None if names is None else [*map(str, names)]

    def columns(self):
        """The `ColumnTable` that the default kernel follows."""
        categories = [*getattr(self.parameters, "categories_", ())]
        return ColumnTable(self.feature_names(), categories, self.lacking)

    @abstractmethod
    def jobs(self, records, earlier):
        """The jobs that `Records` make.

        `earlier` is None, or what a fit may go on from: the classes, the way in which they became
        problems, and the fits of the last call.
        """

    @abstractmethod
    def view(self, fits, units):
        """The fits as users see them; `units` are those of the targets, None of labels."""

    @abstractmethod
    def attributes(self, fits, units):
        """Fitted attributes by name that the fits of other families do not have."""

    @abstractmethod
    def judge(self, view, part):
        """Log predictive densities (n,) of the rows of a part."""

    @abstractmethod
    def accept(self, part, stream):
        """The part as streams take it; raises if it does not go with a stream, None: the first."""

    @abstractmethod
    def new_stream(self, part, random_state):
        """The `StreamState` to which no row has come, for parts like this one."""

    @abstractmethod
    def stream_of(self, fits, n_iter, random_state):
        """The `StreamState` of the rows of a fit."""

    @abstractmethod
    def learn(self, stream, part, due):
        """The `StreamState` that has learned from a part, which its reservoir has seen, and fits.

        `due`: theta and Z should move.
        """

    def refined(self, jobs, fits, random_states):
        """The fits after what follows when all of them have ended."""
        return fits

    def scores(self, fits, records, groups):
        """What conformal intervals need to know of the training rows; None where there are none."""
        return None

    def on_the_clock(self):
        """The same family, whose call has begun; where progress is printed, its end is, too."""
        self.deadline = deadline_of(self.parameters, self.name)
        return self

    def units_of(self, rows):
        """Those of the targets of a table; labels have none."""
        return Units(rows.y_mean, rows.y_scale)

    def random_states(self, random_state):
        """One for every problem."""
        return [random_state]

    def moves(self):
        """Whether theta and Z move at all."""
        return self.parameters.optimizer is not None

    def job(self, rows, kernel, model, name="", before=None):
        """The `Job` of a table."""
        check_mixes(self.parameters.metric, kernel, self.name)
        given, d = self.parameters.kernel, rows.n_features
        check_coded(given, kernel, self.columns(), d, self.name)
        job = job_of(self, rows, kernel, model, name)
        job = job._replace(before=before, names=self.feature_names())
        return job.with_priors(resolve_priors(self.parameters, rows, self.rows_with_prior))

    def settled(self, jobs):
        """The jobs of a fit, whose default kernel may see skewed columns by their logarithms."""
        with single_threaded_blas():
            return [settled(job, self.columns()) for job in jobs]

    def initialiser(self, n_inducing, n_features):
        """``(rows, kernel, random_state) -> Z``, and whether Z is the user's own."""
        return resolve_inducing(self.parameters.inducing_init, n_inducing, n_features, self.name)


def deadline_of(parameters, name):
    """The `Deadline` of a call that begins now."""
    limit = parameters.time_limit
    if limit is None:
        return Deadline()
    text = f"[{name}] time_limit={limit:g} is over: the fit ends before it converges"
    return Deadline(limit, partial(print, text) if parameters.verbose else None)


def fit_all(jobs, random_states, n_jobs, watched):
    """Fits of all jobs, in order; the same whatever `n_jobs`.

    Fits that are `watched`, or whose rows have to be read, are made one after the other: the first
    tell their progress, the second would send the reader back and forth.
    """
    threads, count = resolve_n_jobs(n_jobs), len(jobs)
    # threads within an evaluation gain little
    at_once = min(threads, count)
    side_by_side = count > 1 and n_jobs is None and not watched and _are_small(jobs, at_once)
    run = partial(ordered_map, n_jobs=threads) if side_by_side else map
    jobs, candidates = agree(jobs, random_states, run)
    pairs = list(zip(jobs, random_states))
    seconds = jobs[0].settings.deadline.left() * at_once / count
    if side_by_side:
        results = run(lambda pair: _fit_quietly(*pair, seconds), pairs)
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


def _with_candidates(fits, candidates):
    """The fits of several jobs, with the candidates of a contest that some of them held."""
    return [fit._replace(selection=candidates.get(k, fit.selection)) for k, fit in enumerate(fits)]


def _fit(job, random_state):
    with about(job.name), single_threaded_blas():
        return job.strategy.fit(job, random_state)


def _fit_quietly(job, random_state, seconds):
    """A fit that has so many seconds from now on, and its warnings."""
    job = job.with_settings(deadline=Deadline(seconds))
    with collected() as warnings:
        return _fit(job, random_state), warnings


def _fit_elsewhere(job, random_state, seconds):
    """A fit without its rows, and its warnings, for another process."""
    fit, warnings = _fit_quietly(job, random_state, seconds)
    return _with_rows(fit, None), warnings


def _are_small(jobs, at_once):
    """Whether the arrays (rows, m) of jobs at the same time are; an evaluation holds some ten.

    Those of rows that have to be read never are.
    """
    sizes = [len(job.rows) * job.points.size for job in jobs]
    return jobs[0].rows.in_memory and at_once * max(sizes) <= _SMALL


def _alone(job):
    """The same on one thread, without progress and a clock, as other processes take it."""
    options = job.settings.options._replace(n_jobs=1)
    return job.with_settings(options=options, progress=None, deadline=None)


def _with_rows(fit, rows):
    rows = None if rows is None else fit.posterior.sees(rows)
    return fit._replace(objective=replace(fit.objective, rows=rows))


def selection_of(fits):
    """The log of candidates, for several problems a list of them."""
    selections = [list(fit.selection) for fit in fits]
    return selections[0] if len(fits) == 1 else selections


def inducing_points_of(fits):
    """Fitted attributes of inducing points; none where predictions come from neighbours."""
    Z = [fit.objective.inducing_points for fit in fits]
    if any(points is None for points in Z):
        return {}
    sizes, one = [len(points) for points in Z], len(fits) == 1
    return {"inducing_points_": Z[0] if one else Z, "n_inducing_": sizes[0] if one else sizes}

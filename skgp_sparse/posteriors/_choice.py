"""Which posterior a fit has: names, the rule of "auto", and the `Job` of parameters.

`Auto` is the rule, to be read from top to bottom:

1. Few distinct rows: the exact process.
2. Where anything asks for inducing points, rows have several latent values or are not in memory, or
   there are not many (and no category with many levels): inducing points.
3. Where a metric of some rank is wanted: neighbours.
4. Otherwise a race of neighbours against the exact process or, of more rows and with a likelihood,
   against inducing points; one for all problems of a classifier.
"""

from functools import partial
from numbers import Integral

import numpy as np
from sklearn import get_config
from sklearn.base import clone

from skgp_sparse import kernels
from skgp_sparse._engine.moments import NO_EFFECT
from skgp_sparse._engine.problem import Options
from skgp_sparse._ground.parallel import resolve_n_jobs
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.posteriors._all_rows import AllRows
from skgp_sparse.posteriors._contract import Strategy
from skgp_sparse.posteriors._exact import Exact
from skgp_sparse.posteriors._fourier_features import FourierFeatures, check_features
from skgp_sparse.posteriors._inducing_points import InducingPoints
from skgp_sparse.posteriors._job import Job, Limits, Points, Settings
from skgp_sparse.posteriors._larger_mean import LargerMean
from skgp_sparse.posteriors._learned_metric import InLearnedMetric
from skgp_sparse.posteriors._neighbors import Neighbors
from skgp_sparse.posteriors._race import agreed, race
from skgp_sparse.posteriors._tight_variance import TightVariance
from skgp_sparse.posteriors._uncertain_inputs import UncertainInputs
from skgp_sparse.rows.checks import BOOLS, check_number, is_auto, require
from skgp_sparse.solvers import resolve_solver

_EXACT_ROWS, _EXACT_LABELS = 2000, 300  # distinct rows up to which "auto" is the exact process ...
_EXACT_QUIET = 5500  # ... the same where there is little noise: 1 GB of memory ...
_EXACT_OPAQUE = 500  # ... and where the kernel's gradient is an array of n x n x p
_AUTO_ROWS, _AUTO_LABELS = 500, 200  # the number of inducing points above
_LEVELS = 0.5  # of a category per inducing point, up to which these have a say
_OF_INDUCING_POINTS = "bound", "n_inducing", "inducing_init", "solver"  # ask for them, if set
_UNMIXED = "auto", "ard"  # metrics that mix no columns, unless neighbours see to it
_TOL = 1e-3  # the tolerance of "auto", in nats per row
_START_ROWS = 500  # of the exact fit that finds the first hyperparameters
_START_LABELS = 250  # the same where rows have sites, as an evaluation is an inner loop then ...
_START_SHARE, _FEWEST_LABELS = 8, 125  # ... or an eighth of them, if not less than that


class Auto(Strategy):
    """The rule of "auto"."""

    name = "auto"
    learns_metric = True

    def fit(self, job, random_state):
        """The `Fit` of what the rule leads to."""
        if job.are_few(job.limits.exact):
            return in_metric(Exact(), job.metric).fit(job, random_state)
        if not job.settings.solver.begins_small or _are_for_points(job):
            return in_metric(InducingPoints(), job.metric).fit(job, random_state)
        if isinstance(job.metric, Integral):
            return Neighbors().fit(job, random_state)
        return race(job, random_state)

    @staticmethod
    def is_open(job):
        """Whether a race decides."""
        is_certain = job.are_few(job.limits.exact) or _are_for_points(job)
        has_rank = isinstance(job.metric, Integral)
        return job.settings.solver.begins_small and not (is_certain or has_rank)

    def refuses(self, family):
        """Nothing."""
        return None

    def refuses_later_rows(self):
        """Nothing: rows that arrive later are learned with inducing points."""
        return None

    def resume(self, job, knowledge, action, random_state):
        """What inducing points do."""
        return InducingPoints().resume(job, knowledge, action, random_state)


def _are_for_points(job):
    """Whether rows are too few for a race, and no category has too many levels for points."""
    if not job.are_few(_EXACT_ROWS):
        return False
    columns = [column for _, column in kernels.categories(job.kernel, job.rows.n_features)]
    X = job.rows.stored_inputs() if job.rows.in_memory else None
    most = max((len(np.unique(X[:, j])) for j in columns), default=0) if X is not None else 0
    return most <= _LEVELS * job.points.size


def agree(jobs, random_states, run):
    """The jobs, one race for all of which is over where there are several; its candidates.

    See `agreed` for the parameters.
    """
    are_open = [isinstance(job.strategy, Auto) and Auto.is_open(job) for job in jobs]
    numbers = [k for k, is_open in enumerate(are_open) if is_open]
    if len(numbers) < 2:
        return jobs, {}
    some = [jobs[k].within(2) for k in numbers]
    strategy, found = agreed(some, [random_states[k] for k in numbers], run)
    settled = [
        job._replace(strategy=strategy) if is_open else job for job, is_open in zip(jobs, are_open)
    ]
    return settled, {numbers[k]: candidates for k, candidates in found.items()}


BY_NAME = {
    "auto": Auto,
    "exact": Exact,
    "fourier": FourierFeatures,
    "inducing": InducingPoints,
    "neighbors": Neighbors,
    "rows": AllRows,
}


def resolve_posterior(posterior, name):
    """The strategy of a name or an instance."""
    if isinstance(posterior, str) and posterior in BY_NAME:
        return BY_NAME[posterior]()
    must = f"one of {sorted(BY_NAME)} or an object such as posteriors.InducingPoints()"
    require(isinstance(posterior, Strategy), "posterior", posterior, name, must)
    posterior = clone(posterior)
    if isinstance(posterior, Neighbors):
        if not is_auto(posterior.n_neighbors):
            check_number(posterior.n_neighbors, "posterior__n_neighbors", name, Integral, low=1)
        few = posterior.n_neighbors_fit
        check_number(few, "posterior__n_neighbors_fit", name, Integral, low=1)
    if isinstance(posterior, FourierFeatures):
        check_features(posterior, name)
    if isinstance(posterior, InducingPoints):
        return _of_inducing_points(posterior, name)
    return posterior


def _of_inducing_points(posterior, name):
    """Inducing points, or what their parameters make of them."""
    n_mean, tight = posterior.n_mean, posterior.tight_variance
    require(isinstance(tight, BOOLS), "posterior__tight_variance", tight, name, "True or False")
    if n_mean is None:
        return TightVariance() if tight else posterior
    check_number(n_mean, "posterior__n_mean", name, Integral, low=1)
    if tight:
        raise ValueError(
            f"{name}: tight_variance=True needs one basis of inducing points, but n_mean={n_mean} "
            "is a second one for the mean. Set n_mean to None, or tight_variance to False."
        )
    return LargerMean(n_mean)


def narrowed(family, rows, kernel):
    """The strategy of a family, "auto" only where nothing else speaks for inducing points."""
    if rows.X_std is not None:
        return _for_uncertain_inputs(family)
    if not isinstance(family.strategy, Auto):
        return family.strategy
    is_free = all(is_auto(getattr(family.parameters, name)) for name in _OF_INDUCING_POINTS)
    is_free = is_free and Neighbors().refuses(family) is None
    if is_free and rows.in_memory and kernels.differentiable(kernel):
        return family.strategy
    return InducingPoints()


def _for_uncertain_inputs(family):
    """The strategy where `X_std` is given; raises where it cannot be used."""
    strategy, is_open = UncertainInputs(), type(family.strategy) in (Auto, InducingPoints)
    needs = strategy.refuses(family)
    if not is_open:
        needs = (
            f"posterior='inducing', without parameters. Got {as_text(family.parameters.posterior)}"
        )
    if needs is not None:
        raise ValueError(f"{family.name}: X_std needs {needs}. Change this, or leave X_std out.")
    return strategy


def job_of(family, rows, kernel, model, name):
    """The `Job` of a table, with the parameters of the estimator of a `Family`."""
    given, n = family.parameters, len(rows)
    metric = _metric(family, rows.n_features)
    size, limits = _sizes(given.n_inducing, kernel, family.has_sites)
    size = family.strategy.width or size
    if rows.X_std is not None and is_auto(given.n_inducing):
        size = UncertainInputs.size(size)
    initialise, are_given = family.initialiser(size, rows.n_features)
    width = len(given.inducing_init) if are_given else size
    memory = get_config()["working_memory"] * 2**20
    if are_given or isinstance(family.strategy, Exact):
        limits = Limits(0, 0)  # there is no question
    return Job(
        name=name,
        rows=rows,
        kernel=kernel,
        model=model,
        strategy=in_metric(narrowed(family, rows, kernel), metric),
        points=Points(size, initialise, is_auto(given.n_inducing), are_given),
        settings=Settings(
            solver=resolve_solver(given.solver, given.optimizer, n, width),
            n_restarts=given.n_restarts_optimizer,
            max_iter=given.max_iter,
            tol=tolerance(given.tol),
            start_rows=_rows_of_start(n, family.has_sites),
            options=Options(n_jobs=resolve_n_jobs(given.n_jobs), memory=memory),
            move_basis=given.optimize_inducing,
            deadline=family.deadline,
            progress=family.progress and partial(family.progress, about=name),
        ),
        limits=limits,
        is_free=given.kernel is None,
        metric=metric,
        spreads=rows.scale(NO_EFFECT if given.kernel is None else 1.0),
    )


def _metric(family, d):
    """The metric that is asked for, which has at most as many rows as there are columns."""
    metric, name = family.parameters.metric, family.name
    if metric not in _UNMIXED and family.has_sites and family.likelihood.n_latent > 1:
        raise ValueError(
            f"{name}: metric={as_text(metric)} needs one latent value per row, and a softmax has "
            "one per class. Set metric to 'ard', or multi_class to 'one_vs_rest'."
        )
    if isinstance(metric, Integral) and metric > d:
        raise ValueError(
            f"{name}: metric={metric} is the rank of a matrix with a column for each of the {d} "
            f"features of X. Set metric to at most {d}, or to 'ard'."
        )
    return metric


def tolerance(tol):
    """The number that `tol` stands for, in nats per row."""
    return _TOL if is_auto(tol) else tol


def in_metric(strategy, metric):
    """The strategy in the metric that is asked for, which neighbours learn themselves."""
    has_one = metric in _UNMIXED or isinstance(strategy, Auto | Neighbors)
    return strategy if has_one else InLearnedMetric(strategy)


def _rows_of_start(n, has_sites):
    """How many rows the first fit sees: with sites, it should be cheap beside an evaluation."""
    few = min(_START_LABELS, max(_FEWEST_LABELS, n // _START_SHARE))
    return few if has_sites else _START_ROWS


def _sizes(n_inducing, kernel, has_sites):
    """Number of inducing points, and the `Limits`."""
    if not is_auto(n_inducing):
        return n_inducing, Limits(n_inducing, n_inducing)
    if has_sites:
        return _AUTO_LABELS, Limits(_EXACT_LABELS, _EXACT_LABELS)
    if not kernels.differentiable(kernel):
        return _AUTO_ROWS, Limits(_EXACT_OPAQUE, _EXACT_OPAQUE)
    return _AUTO_ROWS, Limits(_EXACT_ROWS, _EXACT_QUIET)

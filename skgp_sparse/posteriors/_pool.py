"""Several exact fits of few rows, averaged."""

import math
from contextlib import suppress
from itertools import takewhile
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern

from skgp_sparse import kernels
from skgp_sparse._engine import cavities
from skgp_sparse._engine.exact import group_table
from skgp_sparse._engine.pooled import PooledProcess, mixture_weights
from skgp_sparse._ground.normal import log_normal_density
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse._ground.typing import Array
from skgp_sparse.inference.starts import fit_exact
from skgp_sparse.posteriors._contract import Candidate, Strategy
from skgp_sparse.posteriors._exact import Exact
from skgp_sparse.posteriors._job import Job
from skgp_sparse.posteriors._local_search import with_nu
from skgp_sparse.solvers import Fit

_MOST_ROWS, _MOST_COLUMNS = 5000, 20  # distinct rows; columns of an additive part
_ROWS, _ITERATIONS = 500, 30  # of the fits that follow the first one
_SMOOTHNESS = 0.5, 1.5, 2.5, np.inf
_FEWER_PAY = 2  # from so many times these rows on, they are fewer than all
_STRENGTH, _TEMPERATURE = 50.0, 4.0  # rows and nats per unit of the prior of the weights
_WEIGHT, _REACH = np.exp(-2.0), math.e  # of a column in an additive part: c d, and its length scale
_WEIGHTS, _REACHES = (1e-4, 1e3), (1e-2, 1e3)  # bounds, in the same units


class Pool(Strategy):
    """Several exact fits of few rows are averaged.

    The first one is that of `Exact`. Others begin where it ends: its Matérn kernels with another
    smoothness, ``nu`` = 1/2, 3/2, 5/2 and inf, and the default kernel with an additive part, a sum
    of one Matérn kernel for each column of numbers without missing values, if there are 2 to 20 of
    these. Their hyperparameters are learned in at most 30 iterations, from all rows or, of more
    than a thousand, from 500, and their posteriors are given all rows.

    Means, variances and samples are those of the mixture; quantiles and densities are those of a
    normal distribution with its mean and variance. The weights make rows likely that are left out,
    those that coincide together, and 50 rows more are a prior, which follows the evidence of the
    fits. On small tables, predictions are better than those of "exact", for two to five times the
    seconds of a fit.

    It needs at most 5,000 distinct rows in memory, one target and ``likelihood="gaussian"``.
    ``kernel_`` and ``log_marginal_likelihood_value_`` are those of the fit with the largest weight,
    and ``selection_`` has a `Candidate` for every fit: the mean log density and the error of rows
    that are left out, the hyperparameters held. ``pool_`` has names, weights and kernels of those
    that count.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import Pool
    >>> X = np.random.RandomState(0).uniform(-3, 3, size=(60, 2))
    >>> y = np.abs(X[:, 0]) + np.sin(2 * X[:, 1])
    >>> model = SparseGPRegressor(posterior=Pool()).fit(X, y)
    >>> [one.name for one in model.selection_]
    ['exact', 'nu=0.5', 'nu=1.5', 'nu=inf', 'additive part']
    >>> mean, std = model.predict(X[:3], return_std=True)
    """

    name = "pool"
    one_target = True

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` whose posterior is the average; kernel and value are the heaviest one's."""
        _check(job)
        watch = _Watch(job.settings.progress)
        job = job.with_settings(progress=watch.progress)
        members = [_timed("exact", Exact().fit, job, random_state)]
        first = members[0].fit
        others = takewhile(lambda _: not watch.stopped, _others(first.kernel, job))
        for name, kernel in job.settings.deadline.until(others):
            with suppress(np.linalg.LinAlgError):  # of a fit that no one asked for by name
                members.append(_timed(name, _follow, kernel, first, job, random_state))
        groups, posteriors = group_table(job.rows), [one.fit.posterior for one in members]
        left = [cavities.of_groups(one, groups) for one in posteriors]
        errors, variances = map(np.array, zip(*left))
        densities = log_normal_density(errors, 0.0, np.sqrt(variances))
        prior = softmax([one.fit.value / _TEMPERATURE for one in members])
        weights = mixture_weights(densities, prior, groups.weight, _STRENGTH)
        unit, share = float(job.rows.y_scale[0]), groups.weight / groups.weight.sum()
        scores = zip(densities @ share - np.log(unit), unit * np.sqrt(errors**2 @ share))
        selection = [
            Candidate(one.name, float(density), float(rmse), one.seconds)
            for one, (density, rmse) in zip(members, scores)
        ]
        heaviest = members[np.argmax(weights)].fit
        pooled = PooledProcess.of(posteriors, weights, [one.name for one in members])
        return heaviest._replace(posterior=pooled, selection=tuple(selection))

    def refuses(self, family: Any) -> str | None:
        """Likelihoods, given inducing points, other metrics and optimisers."""
        given = family.parameters
        if family.has_sites:
            return "is for SparseGPRegressor with likelihood='gaussian' only"
        if given.metric not in ("auto", "ard"):
            return f"needs metric='auto' or 'ard'. Got metric={as_text(given.metric)}"
        if given.optimizer is None or callable(given.optimizer):
            return f"needs optimizer='fmin_l_bfgs_b'. Got optimizer={as_text(given.optimizer)}"
        return Exact().refuses(family)


class _Watch:
    """Knows whether a callback has asked to end the fit."""

    def __init__(self, progress: Any) -> None:
        self.told, self.stopped = progress, False
        self.progress = progress and self._progress

    def _progress(self, *given: Any, **notes: Any) -> bool:
        self.stopped = bool(self.told(*given, **notes))
        return self.stopped


class _Member(NamedTuple):
    name: str
    fit: object
    seconds: float


def _timed(name: str, fit: Any, *given: Any) -> Any:
    start = perf_counter()
    return _Member(name, fit(*given), perf_counter() - start)


def _check(job: Job) -> None:
    """Raise unless rows are few and in memory."""
    if not (job.rows.in_memory and job.are_few(_MOST_ROWS)):
        raise ValueError(
            f"posterior='pool' needs at most {_MOST_ROWS} distinct rows in memory, because every "
            "fit in it is exact. Set posterior to 'auto'."
        )


def _others(kernel: Kernel, job: Job) -> Any:
    """Names and kernels of the fits that follow the one with this kernel."""
    for nu in _SMOOTHNESS:
        other = with_nu(kernel, nu)
        if other != kernel:
            yield f"nu={nu}", other
    X = np.asarray(job.rows.stored_inputs(), dtype=np.float64)
    part = _additive_part(kernel, X, job.names) if job.is_free else None
    if part is not None:
        yield "additive part", kernel + part


def _additive_part(kernel: Kernel, X: Array, names: Any) -> Any:
    """A sum of kernels of one column each, for the default kernel; None: columns are few or many.

    It sees skewed columns, and values that are missing in a prediction, as the default kernel does.
    """
    logs = [part for part in kernel.get_params().values() if isinstance(part, kernels.LogScale)]
    seen = logs[0].see(X) if logs else X
    variance = float(np.mean(kernels.diagonal(kernel, X)[0]))
    is_number = kernels.as_numbers(kernel, X.shape[1])
    columns = [j for j in np.flatnonzero(is_number) if np.ptp(seen[:, j]) > 0]  # false of NaN
    if not 1 < len(columns) <= _MOST_COLUMNS:
        return None
    weight = variance * _WEIGHT / len(columns)
    called = [int(j) if names is None else names[j] for j in columns]
    takes_gaps, values = kernels.has_missing(kernel), seen[:, columns]
    moments = zip(called, values.mean(axis=0), values.std(axis=0))
    parts = [_of_column(*one, weight, takes_gaps) for one in moments]
    part = kernels.named(_sum(parts), names)
    return clone(logs[0]).set_params(kernel=part) if logs else part


def _sum(parts: Any) -> Any:
    """Their sum, in halves: scikit-learn asks the first term of a sum for its bounds twice."""
    half = len(parts) // 2
    return _sum(parts[:half]) + _sum(parts[half:]) if half else parts[0]


def _of_column(column: Any, mean: Any, spread: Any, weight: Any, takes_gaps: bool) -> Any:
    part = Matern(spread * _REACH, tuple(spread * bound for bound in _REACHES), nu=2.5)
    if takes_gaps:
        part = kernels.Missing(part, columns=[], units=(np.array([mean]), np.array([spread])))
    bounds = tuple(weight * bound for bound in _WEIGHTS)
    return ConstantKernel(weight, bounds) * kernels.Columns(part, column)


def _follow(kernel: Kernel, first: Any, job: Job, random_state: np.random.RandomState) -> Any:
    """The `Fit` of all rows with another kernel, learned from some of them."""
    job = job._replace(kernel=kernel).with_priors(job.priors)
    most = min(_ITERATIONS, job.settings.max_iter)
    settings = job.settings._replace(max_iter=most, n_restarts=0, find_periods=False)
    settings = settings._replace(progress=None, cheap=None)
    objective = first.objective
    if len(objective.inducing_points) > _FEWER_PAY * _ROWS:
        few = job.rows.sampled(job.model.sample(job.rows, _ROWS, random_state))
        objective = job.model.exact(few, settings.options, rough=True)
    function, maximum = fit_exact(objective, kernel, settings, random_state)
    kernel = function.at(maximum.x)[1]
    value, posterior, jitter, objective = first.objective.conclude(kernel)
    n_iter = first.n_iter + maximum.n_iter
    return Fit(kernel, objective, posterior, value, n_iter, jitter)

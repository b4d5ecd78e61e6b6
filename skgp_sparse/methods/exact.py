"""The exact process: every distinct row is an inducing point, or all rows are solved for.

`Exact` factorises the kernel matrix of all distinct rows. `IterativeExact` solves for many of them
by conjugate gradients.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Batch, Dataset
from skgp_sparse.engine.iterative import (
    IterativePosterior,
    KernelProduct,
    LinearSolution,
    Preconditioner,
    leading_rows,
    precision,
    preconditioner,
    solve,
)
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.validation import Array, Bools, Ints, as_text
from skgp_sparse.inference.contracts import Settings, arithmetic
from skgp_sparse.methods.contract import (
    Job,
    PosteriorMethod,
    Request,
    best_start,
    goes_on,
    start_on_subset,
    started_on_subsets,
    variance_factor,
)
from skgp_sparse.solvers import Fit, KeepParameters, Stochastic, warn_unless_converged

_WORTH_A_START = 2  # rows of an exact fit, in units of those of the start, from which it has one
_ITERATIONS = 5  # of a default fit to all rows, after those to subsets
_THOROUGH = 600  # rows up to which an evaluation is cheap, and a fit ends at its optimum


class Exact(PosteriorMethod):
    """The posterior is given all rows exactly.

    An evaluation of the log marginal likelihood takes O(n³) time and O(n²) memory for n distinct
    rows. A prediction takes O(n) time per query, and O(n²) with its standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import Exact
    >>> X = np.linspace(0, 5, 50)[:, None]
    >>> model = SparseGPRegressor(posterior=Exact(), n_inducing=10).fit(X, np.sin(X[:, 0]))
    >>> model.posterior_, model.n_inducing_
    ('exact', 50)
    """

    name = "exact"
    uses_bound = takes_learned_noise = True

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` of all rows; that of many rows starts where a small one ends."""
        settings, n, has_sites = job.settings, len(job.rows), job.model.has_sites
        if settings.solver.starts_on_subset and n > _THOROUGH and not has_sites:
            return self._after_subsets(job, random_state)
        if settings.solver.starts_on_subset and n >= _WORTH_A_START * settings.start_rows:
            job = start_on_subset(job, random_state)
        objective: Any = job.model.exact(job.rows, job.settings.options)
        _, kernel = best_start(objective, job.kernel, objective, job)
        if len(objective.inducing_points) <= _THOROUGH:
            settings = settings._replace(thorough=job.thorough)
        else:
            kernel = _with_next_to_no_noise(kernel, job)
        return settings.solver.solve(objective, kernel, settings, random_state)

    def _after_subsets(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` of all rows that goes on from fits to subsets."""
        begun, curvature = started_on_subsets(job, random_state)
        settings, objective = job.settings, job.model.exact(job.rows, job.settings.options)
        kernel = best_start(objective, begun.kernel, objective, job)[1]
        curvature = curvature if kernel is begun.kernel else None
        kernel = _with_next_to_no_noise(kernel, job)
        if job.is_free:
            settings = settings._replace(max_iter=min(_ITERATIONS, settings.max_iter))
        function, maximum = goes_on(objective, kernel, settings, curvature)
        if not job.is_free:
            warn_unless_converged(maximum, settings)
        kernel = function.at(maximum.x)[1]
        fit = KeepParameters().solve(objective, kernel, settings, random_state)
        return fit._replace(n_iter=max(maximum.n_iter, 1))

    def go_on(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` of all rows after a small one."""
        settings = job.settings
        objective = job.model.exact(job.rows, settings.options)
        kernel = _with_next_to_no_noise(job.kernel, job)
        return settings.solver.solve(objective, kernel, settings, random_state)

    def refuses(self, request: Request) -> str | None:
        """Inducing points that the user gives are not the rows."""
        if request.points_are_given:
            return "has all rows as inducing points, so that inducing_init cannot be an array"
        return None


def _with_next_to_no_noise(kernel: Kernel, job: Job) -> Kernel:
    """The kernel within the bounds of small fits: as little noise for many rows as for few."""
    wide: Any = job.thorough.kernel if job.thorough else kernel
    return wide.clone_with_theta(kernel.theta)


# -- all rows: for tables whose noise is so small that inducing points would lose much -------------
# 1. Hyperparameters come from an exact fit of a few thousand rows, which begins where one of half
#    as many ends, and finds the right, small noise. A sparse bound would learn a noise that covers
#    what its inducing points leave unexplained.
# 2. ``(K + D) α = y`` is solved for all rows, by conjugate gradients. The matrix of FITC at some
#    rows is the preconditioner. Less noise than a small share of the process changes no prediction,
#    but costs iterations: it counts as this share.
# 3. The variances, which are too large given some of the rows only, and as wrong as the amplitude
#    of the kernel, are multiplied by one number, which makes held-out rows most likely, and
#    intervals of 95 % contain as many of them. Then these rows join the others.

_ROWS_OF_THETA = 1500, 3000  # of the exact fits ...
_ROWS_OF_OPAQUE = (500,)  # ... for kernels whose gradient is an array of n x n x p
_LEAST_NOISE = 2e-5  # of the variance of the process, and of that of the targets ...
_NOTICED = 1e-4  # ... this share, if it is less
_RESIDUAL = 10.0  # relative residual of the solve, in units of the tolerance of a fit ...
_LARGEST_RESIDUAL = 0.05  # ... at most this, and at most the noise ...
_RESIDUAL_OF_NO_NOISE = 2e-3  # ... of which less than this counts as this
_ROWS_OF_VARIANCE = 2000  # rows that tell the variance of the process
_LEADING_ROWS = 2000  # of the preconditioner, where nobody asked for another number
_LEADING = 500  # rows given which all variances are computed
_HELD_OUT, _HELD_OUT_SHARE = 1000, 10  # held-out rows: so many, and one in so many, at most
_CENTRAL = 0.95  # of the held-out rows, at least, are in intervals of 95 %
_LEAST_FACTOR = 1e-3  # of all variances
_HIDDEN = 1e6  # noise of held-out rows, in units of the variance of the process


class IterativeExact(PosteriorMethod):
    """The posterior is given all rows, as in the exact process.

    Hyperparameters come from an exact fit of 3000 rows, after one of 1500. The mean comes from a
    solve by preconditioned conjugate gradients. Its relative residual is at most ``10 * tol``,
    0.05, and the standard deviation of the noise in units of that of the targets, of which less
    than 0.002 counts as 0.002. Variances are those given 500 rows that are spread over the table
    and the 100 rows nearest to the query, which can only be too large, times a factor that is
    calibrated on a tenth of the rows, and 1000 at most, before the solve sees them.

    A fit takes O(n²) time per iteration of the solve, and a prediction O(n) time per query. All
    rows are in memory, those of a source or a cluster, too.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.posteriors import IterativeExact
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(5 * X[:, 0]) + 0.01 * rng.normal(size=500)
    >>> model = SparseGPRegressor(posterior=IterativeExact(), n_inducing=50, random_state=0)
    >>> model = model.fit(X, y)
    >>> model.posterior_
    'rows'
    """

    name = "rows"
    is_exact_for_few = True

    def fit(self, job: Job, random_state: np.random.RandomState) -> Fit:
        """The `Fit` given all rows."""
        if job.settings.solver.starts_on_subset:
            job = start_on_subset(job, random_state)
        *_, learned = self.learn(job, random_state)
        return self.go_on(job, learned, random_state)

    def learn(self, job: Job, random_state: np.random.RandomState) -> Iterator[Fit]:
        """Fit the exact process to some of the rows, and then to more of them.

        The first fit begins at the kernel of the job, each of the others where the one before
        ended.

        Yields
        ------
        fit : Fit
            Of the next number of rows.
        """
        sizes = _ROWS_OF_THETA if kernels.differentiable(job.kernel) else _ROWS_OF_OPAQUE
        for size in sizes:
            few = job.rows.sampled(job.model.sample(job.rows, size, random_state))
            learned = Exact().go_on(_of_some(job, few), random_state)
            yield learned
            if size >= len(job.rows) or job.settings.deadline.is_over():
                return
            job = job._replace(kernel=learned.kernel)

    def go_on(self, job: Job, learned: Fit, random_state: np.random.RandomState) -> Fit:
        """The `Fit` given all rows at the hyperparameters that were learned from some."""
        rows, settings = job.rows, job.settings
        least = _least_noise(learned.kernel, rows) if settings.solver.moves else 0.0
        kernel = _with_least_noise(learned.kernel, least)
        with arithmetic():
            posterior, Z, jitter = _posterior(job, kernel, least, random_state)
            objective = job.model.sparse(rows, Z, settings.options)
            value = objective.value(kernel)
        return Fit(kernel, objective, posterior, value, learned.n_iter, jitter)

    def refuses(self, request: Request) -> str | None:
        """Likelihoods, given inducing points, and random rows."""
        if request.has_sites:
            only = "takes numbers with Gaussian noise only: no labels, and no other likelihood"
            return f"{only}. Got likelihood={as_text(request.likelihood)}"
        if not isinstance(request.inducing_init, str):
            return "takes no array as inducing_init"
        if isinstance(request.solver, Stochastic) or request.solver == "stochastic":
            given = as_text(request.solver)
            return f"takes no solver that learns from random rows. Got solver={given}"
        return None


def _posterior(
    job: Job, kernel: Kernel, least: float, random_state: np.random.RandomState
) -> tuple[IterativePosterior, Array, float]:
    """`IterativePosterior`, the rows that lead, and the jitter that these took."""
    rows, settings = job.rows, job.settings
    data = rows.everything().used()
    n_jobs, n = settings.options.n_jobs, len(data.X)
    held_out, free = np.split(random_state.permutation(n), [min(_HELD_OUT, n // _HELD_OUT_SHARE)])
    prior, learned, _ = kernels.diagonal(kernel, data.X)
    signal, noise = np.mean(prior), np.maximum(data.noise + learned, least)
    hidden = float(_HIDDEN * signal)
    first, noise, given = _noises(noise, np.asarray(data.weight), held_out, rows.merged, hidden)
    dtype = precision(noise, signal)
    chosen = free[: _most_leading(job, n, dtype)]
    Z = data.X[chosen]
    features, jitter = leading_rows(kernel, Z, noise[chosen], n_jobs)
    near = preconditioner(kernel, features, data.X, first, n_jobs, dtype=dtype)
    goal = _goal(noise, rows, settings.tol)
    before = _solve(kernel, data, first, near, settings, goal)
    given[chosen[:_LEADING]] = False
    leading, rest = features.first(_LEADING), np.flatnonzero(given)
    scale = kernels.length_scales(kernel, rows.scale())
    posterior = IterativePosterior(kernel, data.X, first, before.x, leading, rest=rest, scale=scale)
    posterior = replace(posterior, factor=_factor(posterior, data, held_out, n_jobs))
    if before.stopped or before.n_iter >= settings.max_iter:
        _warn_of(before, settings, goal, len(Z))
        return posterior, Z, jitter
    residual = before.residual + (first - noise)[:, None] * before.x
    before = before._replace(residual=residual)
    last = _solve(kernel, data, noise, near.with_noise(noise), settings, goal, before)
    _warn_of(last, settings, goal, len(Z))
    rest = np.setdiff1d(np.arange(n), chosen[:_LEADING])
    return replace(posterior, noise=noise, alpha=last.x, rest=rest), Z, jitter


def _noises(
    noise: Array, weight: Array, held_out: Ints, merged: bool, of_held_out: float
) -> tuple[Array, Array, Bools]:
    """Noise variances at first and at last, and which rows are given at first, from those of a row.

    Rows that are held out have so much noise at first that they tell nothing. Of repeated rows
    one copy is held out, as a row to predict has copies among the others, too.
    """
    left = weight.copy()
    left[held_out] -= 1.0 if merged else left[held_out]
    given = left > 0
    first = np.divide(noise, left, out=np.full(len(left), of_held_out), where=given)
    return first, noise / weight, given


def _of_some(job: Job, rows: Dataset) -> Job:
    """The job of some of its rows, whose progress says so."""
    tell = job.settings.progress and partial(job.settings.progress, quantity="bound of a sample")
    return job._replace(rows=rows).with_settings(progress=tell)


def _goal(noise: Array, rows: Dataset, tol: float) -> float:
    """The relative residual to reach: no more than the noise, unless this is next to nothing."""
    of_noise = np.sqrt(1.0 / np.mean(1.0 / noise) / rows.target_variance())
    return float(min(_RESIDUAL * tol, _LARGEST_RESIDUAL, max(of_noise, _RESIDUAL_OF_NO_NOISE)))


def _solve(
    kernel: Kernel,
    data: Batch,
    noise: Array,
    near: Preconditioner,
    settings: Settings,
    goal: float,
    before: LinearSolution | None = None,
) -> LinearSolution:
    """`LinearSolution` for α, by conjugate gradients, which go on from an earlier solution."""
    product = KernelProduct(kernel, data.X, settings.options.n_jobs)
    multiply, rough = product.with_noise(noise)
    spent = 0 if before is None else before.n_iter

    def report(iteration: int, residual: float) -> Any:
        if settings.progress is None:
            return False
        which = "all rows" if before else "all rows but those held out"
        note = f"residual of {which} {residual:.2e}, until {goal:.1e}"
        return settings.progress(spent + iteration, note=note)

    options = {"rough": rough, "report": report, "start": before}
    most = settings.max_iter - spent
    solution = solve(multiply, near, data.y, tol=goal, max_iter=most, **options)
    return solution._replace(n_iter=spent + solution.n_iter)


def _warn_of(solution: LinearSolution, settings: Settings, goal: float, n_leading: int) -> None:
    """Warn where the residual is larger than asked for."""
    if solution.relative > goal and not solution.stopped:
        tol = f"tol (now {settings.tol:g}), " if goal == _RESIDUAL * settings.tol else ""
        warn(
            f"The solve for all rows ended after {solution.n_iter} products with a residual of "
            f"{solution.relative:.1e} of the targets, not {goal:.1e}. Raise max_iter (now "
            f"{settings.max_iter}), n_inducing (now {n_leading}), {tol}or the noise (by alpha, or "
            "the bounds of the WhiteKernel), or set posterior='inducing'.",
            ConvergenceWarning,
        )


def _factor(posterior: IterativePosterior, data: Batch, held_out: Ints, n_jobs: int) -> float:
    """The `variance_factor` that the held-out rows ask for."""
    if not len(held_out):
        return 1.0
    columns: Any = data  # all are arrays, as rows in use have them
    X, y, known, weight, _ = (column[held_out] for column in columns)
    mean, variance = posterior.mean_and_variance(X, n_jobs)
    learned = kernels.diagonal(posterior.prior, X)[1]
    variance = np.maximum(variance + learned, np.finfo(float).tiny)
    errors = (y - mean) ** 2
    return variance_factor(errors, variance, known, weight, _CENTRAL, _LEAST_FACTOR)


def _most_leading(job: Job, n: int, dtype: np.dtype[Any]) -> int:
    """Rows of the preconditioner, whose features fit the memory."""
    wanted = _LEADING_ROWS if job.points.is_auto else job.points.size
    fitting = int(job.settings.options.memory / (dtype.itemsize * n))
    return max(min(wanted, n, fitting), 1)


def _least_noise(kernel: Kernel, rows: Dataset) -> float:
    """The least noise that is told from none."""
    signal = kernels.diagonal(kernel, rows.block(slice(_ROWS_OF_VARIANCE)).X)[0]
    return min(float(_LEAST_NOISE * np.mean(signal)), _NOTICED * rows.target_variance())


def _with_least_noise(kernel: Kernel, least: float) -> Kernel:
    """The kernel with no less noise than this, where it is learned."""
    theta = kernel.theta
    for positions in kernels.positions_of(kernel, "noise_level"):
        theta[positions] = np.log(np.maximum(np.exp(theta[positions]), least))
    return kernel.clone_with_theta(np.minimum(theta, np.reshape(kernel.bounds, (-1, 2))[:, 1]))

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

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Batch, Dataset
from skgp_sparse.engine import iterative
from skgp_sparse.engine.iterative import IterativePosterior, LinearSolution, solve
from skgp_sparse.engine.neighbors import DistinctRows, NeighborsPosterior, known_rows
from skgp_sparse.engine.posterior import float64
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.linalg import TINY
from skgp_sparse.ground.validation import Array, Ints, Kernel, Rng, as_text
from skgp_sparse.inference.contracts import Settings, Start, arithmetic
from skgp_sparse.inference.stochastic import held_out_rows
from skgp_sparse.methods import contract, small_fits
from skgp_sparse.methods.contract import Job, PosteriorMethod, Request
from skgp_sparse.solvers import Fit, Stochastic, fit_at, warn_unless_converged

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

    def fit(self, job: Job, random_state: Rng) -> Fit:
        """The `Fit` of all rows; that of many rows starts where a small one ends."""
        settings, n, has_sites = job.settings, len(job.rows), job.objectives.has_sites
        if settings.solver.starts_on_subset and n > _THOROUGH and not has_sites:
            return self._after_subsets(job, random_state)
        if settings.solver.starts_on_subset and n >= _WORTH_A_START * settings.start_rows:
            job = small_fits.on_subset(job, random_state)
        objective = job.objectives.exact(job.rows, job.settings.options)
        _, kernel = small_fits.best_start(objective, job.kernel, objective, job)
        start = Start(objective, kernel, settings, random_state, thorough=job.thorough)
        if len(objective.inducing_points) > _THOROUGH:
            kernel = small_fits.with_next_to_no_noise(kernel, job)
            start = start._replace(kernel=kernel, thorough=None)
        return settings.solver.solve(start)

    def _after_subsets(self, job: Job, random_state: Rng) -> Fit:
        """The `Fit` of all rows that goes on from fits to subsets."""
        begun, curvature = small_fits.on_subsets(job, random_state)
        settings, objective = job.settings, job.objectives.exact(job.rows, job.settings.options)
        kernel = small_fits.best_start(objective, begun.kernel, objective, job)[1]
        curvature = curvature if kernel is begun.kernel else None
        kernel = small_fits.with_next_to_no_noise(kernel, job)
        if job.is_free:
            settings = settings._replace(max_iter=min(_ITERATIONS, settings.max_iter))
        function, maximum = small_fits.goes_on(objective, kernel, settings, curvature)
        if not job.is_free:
            warn_unless_converged(maximum, settings)
        kernel = function.at(maximum.x)[1]
        return fit_at(objective, kernel, 0)._replace(n_iter=max(maximum.n_iter, 1))

    def go_on(self, job: Job, random_state: Rng) -> Fit:
        """The `Fit` of all rows after a small one."""
        settings = job.settings
        objective = job.objectives.exact(job.rows, settings.options)
        kernel = small_fits.with_next_to_no_noise(job.kernel, job)
        return settings.solver.solve(Start(objective, kernel, settings, random_state))

    def refuses(self, request: Request) -> str | None:
        """Inducing points that the user gives are not the rows."""
        if request.points_are_given:
            return "has all rows as inducing points, so that inducing_init cannot be an array"
        return None


# -- all rows: for tables whose noise is so small that inducing points would lose much -------------
# 1. Hyperparameters come from an exact fit of a few thousand rows, which begins where one of half
#    as many ends, and finds the right, small noise. A sparse bound would learn a noise that covers
#    what its inducing points leave unexplained.
# 2. ``(K + D) α = y`` is solved for all rows, by conjugate gradients. The matrix of FITC at some
#    rows is the preconditioner. Less noise than a small share of the process changes no prediction,
#    but costs iterations: it counts as this share.
# 3. The variances, which are too large given the nearest rows only, and as wrong as the amplitude
#    of the kernel, are multiplied by one number, which makes held-out rows most likely, and
#    intervals of 95 % contain as many of them. A second system without these rows is solved
#    together with that of all rows (`_without`).

_ROWS_OF_THETA = 1500, 3000  # of the exact fits ...
_ROWS_OF_OPAQUE = (500,)  # ... for kernels whose gradient is an array of n x n x p
_LEAST_NOISE = 2e-5  # of the variance of the process, and of that of the targets ...
_NOTICED = 1e-4  # ... this share, if it is less
_RESIDUAL = 10.0  # relative residual of the solve, in units of the tolerance of a fit ...
_LARGEST_RESIDUAL = 0.05  # ... at most this, and at most the noise ...
_RESIDUAL_OF_NO_NOISE = 2e-3  # ... of which less than this counts as this
_LEADING_ROWS = 2000  # of the preconditioner, where nobody asked for another number
_NEAREST = 150  # rows given which variances are computed
_HELD_OUT = 1000, 5  # held-out rows: so many, and one in so many, at most
_HIDDEN = 1e6  # noise of held-out rows, in units of the variance of the process
_WEIGHT_TOLERANCE = 1e-9  # of a row's weight
_CENTRAL = 0.95  # of the held-out rows, at least, are in intervals of 95 %
_LEAST_FACTOR = 1e-3  # of all variances


class IterativeExact(PosteriorMethod):
    """The posterior is given all rows, as in the exact process.

    Hyperparameters come from an exact fit of 3000 rows, after one of 1500. The mean comes from a
    solve by preconditioned conjugate gradients. Its relative residual is at most ``10 * tol``,
    0.05, and the standard deviation of the noise in units of that of the targets, of which less
    than 0.002 counts as 0.002. Variances are those given the 150 rows nearest to the query, which
    can only be too large, times a factor that is calibrated on a fifth of the rows, and 1000 at
    most, which a second solution leaves out.

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

    def fit(self, job: Job, random_state: Rng) -> Fit:
        """The `Fit` given all rows."""
        if job.settings.solver.starts_on_subset:
            job = small_fits.on_subset(job, random_state)
        *_, learned = self.learn(job, random_state)
        return self.go_on(job, learned, random_state)

    def learn(self, job: Job, random_state: Rng) -> Iterator[Fit]:
        """Fit the exact process to some of the rows, and then to more of them.

        The first fit begins at the kernel of the job, each of the others where the one before
        ended.

        Yields
        ------
        fit : Fit
            Of the next number of rows.
        """
        progress = job.settings.progress
        tell = progress and partial(progress, quantity="bound of a sample")
        for size in _ROWS_OF_THETA if kernels.differentiable(job.kernel) else _ROWS_OF_OPAQUE:
            few = job.rows.sampled(job.objectives.sample(job.rows, size, random_state))
            some = job._replace(rows=few).with_settings(progress=tell)
            learned = Exact().go_on(some, random_state)
            yield learned
            if size >= len(job.rows) or job.settings.deadline.is_over():
                return
            job = job._replace(kernel=learned.kernel)

    def go_on(self, job: Job, learned: Fit, random_state: Rng) -> Fit:
        """The `Fit` given all rows at the hyperparameters that were learned from some."""
        rows, settings = job.rows, job.settings
        known = known_rows(rows)
        signal = kernels.diagonal(learned.kernel, float64(known.X))[0]
        least = min(float(_LEAST_NOISE * np.mean(signal)), _NOTICED * rows.target_variance())
        least *= settings.solver.moves
        kernel = _with_least_noise(learned.kernel, least)
        with arithmetic():
            posterior, Z, jitter = _posterior(job, kernel, known, least, random_state)
            objective = job.objectives.sparse(rows, Z, settings.options)
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
    job: Job, kernel: Kernel, table: DistinctRows, least: float, random_state: Rng
) -> tuple[IterativePosterior, Array, float]:
    """`IterativePosterior`, the rows that lead, and the jitter that these took."""
    rows, settings, n = job.rows, job.settings, len(table.y)
    n_jobs, X = settings.options.n_jobs, float64(table.X)
    table = table._replace(noise=np.maximum(table.noise, least - kernels.diagonal(kernel, X)[1]))
    near = NeighborsPosterior.of(kernel, table, _NEAREST)
    wanted = _LEADING_ROWS if job.points.is_auto else job.points.size
    most = max(min(wanted, int(settings.options.memory / (8 * n))), 1)
    order = random_state.permutation(n)
    held_out = held_out_rows(rows, *_HELD_OUT, random_state)
    rest = _without(near, rows.block(held_out), table.of(held_out), rows.merged)
    leading = order[rest.noise[order] < _noise_of_hidden(near)][:most]
    # two systems share their products: of all rows, and without those that are held out
    noise = np.column_stack([near.noise, rest.noise])
    multiply, rough = iterative.products(kernel, X, noise, n_jobs)
    precondition, jitter = iterative.preconditioner(kernel, X, noise, leading, n_jobs)
    goal = _goal(near.noise, rows, settings.tol)

    def report(iteration: int, excess: float) -> Any:
        note = f"residual of all rows {goal * excess:.2e}, until {goal:.1e}"
        return settings.progress is not None and settings.progress(iteration, note=note)

    Y, most = np.hstack([table.y, rest.rows.y]), settings.max_iter
    solution = solve(multiply, precondition, Y, tol=goal, max_iter=most, rough=rough, report=report)
    if solution.excess > 1.0 and not solution.stopped:
        _warn_of(solution, settings, goal, len(leading))
    alpha, of_rest = np.hsplit(solution.x, 2)
    if len(held_out):
        factor = _factor(IterativePosterior(rest, of_rest), rows.block(held_out), n_jobs)
        near = replace(near, factor=factor)
    return IterativePosterior(near, alpha), X[leading], jitter


# Held-out rows have so much noise that they tell nothing. Of repeated rows one copy is held out, as
# a row to predict has copies among the others, too.
def _without(near: NeighborsPosterior, held: Batch, at: Ints, merged: bool) -> NeighborsPosterior:
    """The `NeighborsPosterior` without held-out rows, given their places among distinct rows."""
    known, weight = near.rows, np.broadcast_to(held.weight, len(at))
    goes = np.minimum(weight, 1.0) if merged else weight
    left = known.weight - np.bincount(at, goes, minlength=len(known.y))
    given = left > _WEIGHT_TOLERANCE * known.weight
    left, total = np.where(given, left, known.weight), known.weight[:, None] * known.y
    np.subtract.at(total, at, goes[:, None] * held.y)
    noise = np.where(given, near.noise * known.weight / left, _noise_of_hidden(near))
    return replace(near, rows=known._replace(y=total / left[:, None], weight=left), noise=noise)


def _noise_of_hidden(near: NeighborsPosterior) -> float:
    """The noise of held-out rows, beside which nothing else counts."""
    return float(_HIDDEN * np.mean(kernels.diagonal(near.prior, float64(near.rows.X))[0]))


def _goal(noise: Array, rows: Dataset, tol: float) -> float:
    """The relative residual to reach: no more than the noise, unless this is next to nothing."""
    of_noise = np.sqrt(1.0 / np.mean(1.0 / noise) / rows.target_variance())
    return float(min(_RESIDUAL * tol, _LARGEST_RESIDUAL, max(of_noise, _RESIDUAL_OF_NO_NOISE)))


def _warn_of(solution: LinearSolution, settings: Settings, goal: float, n_leading: int) -> None:
    """Warn that the residual is larger than asked for."""
    tol = f"tol (now {settings.tol:g}), " if goal == _RESIDUAL * settings.tol else ""
    warn(
        f"The solve for all rows ended after {solution.n_iter} products with a residual of "
        f"{solution.excess * goal:.1e} of the targets, not {goal:.1e}. Raise max_iter (now "
        f"{settings.max_iter}), n_inducing (now {n_leading}), {tol}or the noise (by alpha, or "
        "the bounds of the WhiteKernel), or set posterior='inducing'.",
        ConvergenceWarning,
    )


def _factor(posterior: IterativePosterior, held_out: Batch, n_jobs: int) -> float:
    """The `variance_factor` that held-out rows ask for."""
    mean, variance = posterior.mean_and_variance(held_out.X, n_jobs)
    learned = kernels.diagonal(posterior.posterior.prior, held_out.X)[1]
    variance = np.maximum(variance + learned, TINY)
    known, weight = (np.broadcast_to(c, len(mean)) for c in (held_out.noise, held_out.weight))
    errors = (held_out.y - mean) ** 2
    return contract.variance_factor(errors, variance, known, weight, _CENTRAL, _LEAST_FACTOR)


def _with_least_noise(kernel: Kernel, least: float) -> Kernel:
    """The kernel with no less noise than this, where it is learned."""
    theta = kernel.theta
    for positions in kernels.positions_of(kernel, "noise_level"):
        theta[positions] = np.log(np.maximum(np.exp(theta[positions]), least))
    return kernel.clone_with_theta(np.minimum(theta, np.reshape(kernel.bounds, (-1, 2))[:, 1]))

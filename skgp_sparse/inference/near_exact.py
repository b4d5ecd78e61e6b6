"""The posterior given all rows, where noise is so small that inducing points would lose much.

1. Hyperparameters from an exact fit of a few thousand rows, which finds the right, small noise. A
   sparse bound would learn a noise that covers what its inducing points leave unexplained.
2. ``(K + D) α = y`` for all rows, by conjugate gradients. The matrix of FITC at some rows is the
   preconditioner. Less noise than a small share of the process changes no prediction, but costs
   iterations: it counts as this share.
3. The variances, which are too large given some of the rows only, and as wrong as the amplitude of
   the kernel, are multiplied by one number, which makes rows that were held aside most likely, and
   intervals of 95 % contain as many of them.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse import kernels
from skgp_sparse._engine.all_rows import AllRows, leading_rows
from skgp_sparse._engine.conjugate_gradients import solve
from skgp_sparse._engine.kernel_product import KernelProduct
from skgp_sparse._engine.preconditioner import preconditioner
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.objectives import arithmetic
from skgp_sparse.inference.parameters import positions_of
from skgp_sparse.inference.solvers import Fit

_ROWS_OF_THETA = 3000  # of the exact fit ...
_ROWS_OF_OPAQUE = 500  # ... for kernels whose gradient is an array of n x n x p
_LEAST_NOISE = 2e-5  # of the variance of the process, and of that of the targets ...
_NOTICED = 1e-4  # ... this share, if it is less
_RESIDUAL = 10.0  # relative residual of the solve, in units of the tolerance of a fit ...
_LARGEST_RESIDUAL = 0.05  # ... and at most
_SOME = 2000  # rows that tell the variance of the process
_LEADING = 500  # rows given which all variances are computed
_ASIDE, _SHARE_ASIDE = 1000, 20  # rows held aside: so many, and one in so many, at most
_CENTRAL, _LIMIT = 0.95, 1.959964**2  # of normal deviates, this share have squares below this
_ENOUGH = 100  # rows that tell a share
_DOUBT = 20  # rows that speak for a factor of 1
_LIMITS = 1e-3, 1e3  # of the factor of the variances


class _Part(NamedTuple):
    """Some rows."""

    X: np.ndarray
    y: np.ndarray  # (n, p) standardised
    known: np.ndarray  # noise variance
    learned: np.ndarray  # the same
    weight: np.ndarray


def fit_all_rows(rows, kernel, model, plan, random_state):
    """Hyperparameters from some of the rows, and the posterior given all.

    Parameters
    ----------
    rows : Table
        In memory.
    kernel : sklearn kernel
        Where the exact fit begins.
    model : GaussianModel
    plan : Plan
    random_state : RandomState

    Returns
    -------
    Fit
    """
    size = _ROWS_OF_THETA if kernels.differentiable(kernel) else _ROWS_OF_OPAQUE
    few = rows.sampled(model.sample(rows, size, random_state))
    small = model.exact(few, plan.options)
    learned = plan.solver.solve_exact(small, kernel, plan.n_restarts, plan, random_state)
    least = _least_noise(learned.kernel, rows) if plan.solver.moves else 0.0
    kernel = _with_least_noise(learned.kernel, least)
    with arithmetic():
        posterior, Z, jitter = _posterior(rows, kernel, least, plan, random_state)
        objective = model.sparse(rows, Z, plan.options)
        value = objective.value(kernel)
    return Fit(kernel, objective, posterior, value, learned.n_iter, jitter)


def _posterior(rows, kernel, least, plan, random_state):
    """`AllRows`, the rows that lead, and the jitter that these took."""
    train, aside = _parts(rows.block(slice(None)), kernel, random_state)
    n_jobs, n = plan.options.n_jobs, len(train.X)
    noise_of_all = np.maximum(train.known + train.learned, least) / train.weight
    chosen = random_state.permutation(n)[: _most_leading(plan, n)]
    Z, noise = train.X[chosen], noise_of_all[chosen]
    features, jitter = leading_rows(kernel, Z, noise, n_jobs)
    alpha = _solve(kernel, train.X, train.y, noise_of_all, features, plan)
    found = AllRows(
        kernel,
        train.X,
        noise_of_all,
        alpha,
        features.first(_LEADING),
        others=np.setdiff1d(np.arange(n), chosen[:_LEADING]),
        scale=kernels.length_scales(kernel, rows.scale()),
    )
    return found.scaled(_factor(found, aside, n_jobs)), Z, jitter


def _parts(block, kernel, random_state):
    """Rows to learn from, and those held aside."""
    columns = block.noise, kernels.diagonal(kernel, block.X)[1], block.weight
    known, learned, weight = (np.broadcast_to(column, len(block.X)) for column in columns)
    used = np.flatnonzero(weight > 0)
    size = min(_ASIDE, len(used) // _SHARE_ASIDE)
    aside = np.zeros(len(weight), dtype=bool)
    aside[random_state.choice(used, size, replace=False)] = True
    parts = []
    for rows in (weight > 0) & ~aside, aside:
        X = block.X if rows.all() else block.X[rows]
        parts.append(_Part(X, block.y[rows], known[rows], learned[rows], weight[rows]))
    return parts


def _solve(kernel, X, y, noise, features, plan):
    """α, by conjugate gradients."""
    n_jobs = plan.options.n_jobs
    product = KernelProduct(kernel, X, n_jobs)
    rough = product.rough()
    goal = min(_RESIDUAL * plan.tol, _LARGEST_RESIDUAL)

    def report(iteration, residual):
        if plan.progress is None:
            return False
        note = f"residual of all rows {residual:.2e}, until {goal:.0e}"
        return plan.progress(iteration, -residual, note=note)

    found = solve(
        lambda V: product(V) + noise[:, None] * V,
        preconditioner(kernel, features, X, noise, n_jobs),
        y,
        tol=goal,
        max_iter=plan.max_iter,
        rough=rough and (lambda V: rough(V) + noise[:, None] * V),
        report=report,
    )
    if found.relative > goal and not found.stopped:
        warn(
            f"The solve for all rows ended after {found.n_iter} products with a residual of "
            f"{found.relative:.1e}, not {goal:.0e}, of the targets. Raise max_iter (now "
            f"{plan.max_iter}), n_inducing (now {features.size}), tol (now {plan.tol:g}) or the "
            "noise (by alpha, or the bounds of the WhiteKernel), or set posterior='inducing'.",
            ConvergenceWarning,
        )
    return found.x


def _factor(posterior, aside, n_jobs):
    """The factor of all predicted variances that makes the rows held aside most likely.

    A few rows more, which would have it 1, have a say where there are not many. Where errors are
    not normal, it may be larger, so that intervals of 95 % contain as many of these rows.
    """
    if not len(aside.X):
        return 1.0
    mean, variance = posterior.mean_and_variance(aside.X, n_jobs)
    variance = np.maximum(variance + aside.learned, np.finfo(float).tiny)
    errors = (aside.y - mean) ** 2
    squares = errors.mean(axis=1)

    def loss(log_factor):
        total = np.exp(log_factor) * variance + aside.known
        of_rows = aside.weight @ (np.log(total) + squares / total) / aside.weight.mean()
        return of_rows + _DOUBT * (log_factor + np.exp(-log_factor))

    likely = np.exp(minimize_scalar(loss, bounds=np.log(_LIMITS), method="bounded").x)
    if len(aside.X) < _ENOUGH:
        return float(likely)
    needed = ((errors / _LIMIT - aside.known[:, None]) / variance[:, None]).ravel()
    order = np.argsort(needed)
    weight = np.cumsum(np.repeat(aside.weight, errors.shape[1])[order])
    central = needed[order[np.searchsorted(weight, _CENTRAL * weight[-1])]]
    return float(np.clip(max(likely, central), *_LIMITS))


def _most_leading(plan, n):
    """Rows of the preconditioner, whose features, mostly in single precision, fit the memory."""
    return max(min(plan.n_leading, n, int(plan.options.memory / (4 * n))), 1)


def _least_noise(kernel, rows):
    """The least noise that is told from none."""
    signal = kernels.diagonal(kernel, rows.block(slice(_SOME)).X)[0]
    return min(_LEAST_NOISE * np.mean(signal), _NOTICED * rows.target_variance())


def _with_least_noise(kernel, least):
    """The kernel with no less noise than this, where it is learned."""
    theta = kernel.theta
    for positions in positions_of(kernel, "noise_level"):
        theta[positions] = np.log(np.maximum(np.exp(theta[positions]), least))
    return kernel.clone_with_theta(np.minimum(theta, np.reshape(kernel.bounds, (-1, 2))[:, 1]))

"""The stages of a fit.

1. Few distinct rows: the exact process. From a thousand rows on, its hyperparameters start where a
   small exact fit ends (`start`).
2. Otherwise hyperparameters from a small exact fit. If it finds little noise, and the rows are not
   too many, the exact process follows from there.
3. Otherwise inducing points in the metric that the small fit learned, then theta and Z jointly by
   L-BFGS on the bound.

A warm start goes on from the kernel and the inducing points of an earlier fit, if the objective is
higher there than at the start above.

With ``optimizer=None`` or a callable there is no small fit: theta begins at the kernel's own values
(of a callable: or at those of an earlier fit, if they are better) and Z stays where the initialiser
puts it.
"""

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse import kernels
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._engine.problem import Options
from skgp_sparse._warnings import warn
from skgp_sparse.inference.objectives import arithmetic, value_or_minus_inf
from skgp_sparse.inference.optimizers import maximise
from skgp_sparse.inference.parameters import Parameters
from skgp_sparse.inference.start import drawn_starts, fit_exact, start_kernel

_WORTH_A_START = 2  # rows of an exact fit, in units of those of the start, from which it has one
_STEP = 3.0  # unit of Z in the optimiser, in length scales or, if shorter, spreads


class Plan(NamedTuple):
    """How to fit."""

    n_inducing: int
    most_exact: int  # distinct rows up to which every one is an inducing point ...
    most_quiet: int  # ... and up to which it is where there is little noise
    initialise: Callable  # (rows, kernel, random_state) -> Z
    fixed_inducing: bool  # Z comes from the user
    optimize_inducing: bool
    optimizer: str | Callable | None
    n_restarts: int
    max_iter: int
    tol: float
    start_rows: int
    options: Options
    progress: Callable | None = None  # (iteration, value) -> stop?
    warm: tuple | None = None  # (kernel, Z) of an earlier fit, to go on from


class Fit(NamedTuple):
    """What a fit found."""

    kernel: object
    objective: object
    posterior: Posterior
    value: float
    n_iter: int
    jitter: float


def train(rows, kernel, model, plan, random_state):
    """Fit kernel and inducing points to the rows.

    Parameters
    ----------
    rows : Rows
    kernel : sklearn kernel
    model : object
        `GaussianModel` or `SiteModel`. Makes the objectives, ``exact(rows, options, rough)`` for
        few rows and ``sparse(rows, Z, options)``; ``sample``s the rows of the start, ``adapt``s the
        kernel found there, says whether it ``is_quiet``, and ``warn_of``s what the optimum does
        not explain.
    plan : Plan
    random_state : RandomState

    Returns
    -------
    Fit
    """
    if plan.most_exact and rows.distinct(most=plan.most_exact) is not None:
        return _train_exact(rows, kernel, model, plan, random_state)
    if plan.optimizer == "fmin_l_bfgs_b":
        return _train_from_start(rows, kernel, model, plan, random_state)
    Z = plan.initialise(rows, kernel, random_state)
    objective = model.sparse(rows, Z, plan.options)
    if plan.optimizer is None:
        return _as_it_is(objective, kernel)
    _, kernel = _best_start((objective, kernel), _warm_start(objective, plan))
    return _train_with_callable(objective, kernel, plan, random_state)


def _train_exact(rows, kernel, model, plan, random_state):
    objective = model.exact(rows, plan.options)
    if plan.optimizer is None:
        return _as_it_is(objective, kernel)
    n_restarts = plan.n_restarts
    if plan.optimizer == "fmin_l_bfgs_b" and len(rows) >= _WORTH_A_START * plan.start_rows:
        kernel, n_restarts = _start_kernel(rows, kernel, model, plan, random_state), 0
    _, kernel = _best_start((objective, kernel), _warm_start(objective, plan))
    if callable(plan.optimizer):
        return _train_with_callable(objective, kernel, plan, random_state)
    return _fit_exactly(objective, kernel, n_restarts, plan, random_state)


def _fit_exactly(objective, kernel, n_restarts, plan, random_state):
    kernel, found = fit_exact(
        objective,
        kernel,
        n_restarts=n_restarts,
        random_state=random_state,
        max_iter=plan.max_iter,
        tol=plan.tol,
        callback=plan.progress,
    )
    _warn_unless_converged(found, plan)
    return _finish(objective, kernel, found.value, found.n_iter)


def _train_from_start(rows, kernel, model, plan, random_state):
    """Hyperparameters of a small exact fit decide what follows.

    With little noise, a sparse fit goes on for a hundred iterations and more, and inducing points
    lose what the exact process would know: up to more rows that one takes about as long.
    """
    kernel = _start_kernel(rows, kernel, model, plan, random_state)
    few = plan.most_quiet > plan.most_exact and rows.distinct(most=plan.most_quiet) is not None
    if few and model.is_quiet(kernel, rows):
        return _fit_exactly(model.exact(rows, plan.options), kernel, 0, plan, random_state)
    Z = plan.initialise(rows, kernel, random_state)
    objective = model.sparse(rows, Z, plan.options)
    kernel = model.adapt(kernel, objective)
    known = _known_inducing_points(rows, plan)
    warm = _warm_start(objective if known is None else objective.at(known), plan)
    return _train_sparse(*_best_start((objective, kernel), warm), model, plan)


def _train_sparse(objective, kernel, model, plan):
    rows, Z = objective.rows, objective.inducing_points
    learn_Z = plan.optimize_inducing and _can_move(kernel)
    scale = _STEP * np.minimum(kernels.metric(kernel, rows.scale()), rows.scale())
    parameters = Parameters(kernel, np.median(Z, axis=0), scale, Z.shape if learn_Z else None)

    @arithmetic()
    def function(vector):
        candidate, Z_candidate = parameters.unpack(vector)
        at = objective.at(Z_candidate) if learn_Z else objective
        evaluation = at.value_and_gradient(candidate, inputs=learn_Z)
        gradient = parameters.pack_gradient(evaluation.theta_bar, evaluation.Z_bar)
        return evaluation.value, gradient

    found = maximise(
        function,
        parameters.pack(kernel, Z),
        parameters.bounds(),
        max_iter=plan.max_iter,
        tol=plan.tol,
        scale=objective.size(),
        callback=plan.progress,
    )
    _warn_unless_converged(found, plan)
    kernel, Z_found = parameters.unpack(found.x)
    objective = objective.at(Z_found) if learn_Z else objective
    model.warn_of(objective, kernel)
    return _finish(objective, kernel, found.value, found.n_iter)


def _known_inducing_points(rows, plan):
    """Those of an earlier fit, if there is one and they are what is asked for now."""
    Z = None if plan.warm is None or plan.fixed_inducing else plan.warm[1]
    return Z if np.shape(Z) == (plan.n_inducing, rows.X.shape[1]) else None


def _warm_start(objective, plan):
    return None if plan.warm is None else (objective, plan.warm[0])


def _best_start(cold, warm):
    """The objective and the kernel where it is higher; no warm start is None.

    The objective may be flat where an earlier fit ended, if the rows have other units now.
    """
    if warm is None:
        return cold
    return max(warm, cold, key=lambda start: value_or_minus_inf(*start, False))


def _start_kernel(rows, kernel, model, plan, random_state):
    return start_kernel(
        rows,
        kernel,
        model,
        plan.start_rows,
        options=plan.options,
        n_restarts=plan.n_restarts,
        random_state=random_state,
        tol=plan.tol,
    )


def _can_move(kernel):
    """Whether inducing points can be optimised; says so where they cannot."""
    if kernels.differentiable(kernel):
        return True
    warn(
        f"Inducing points stay where inducing_init put them: a part of {kernel} has no derivative "
        "rule. Add one with skgp_sparse.kernels.register, or set optimize_inducing=False."
    )
    return False


def _train_with_callable(objective, kernel, plan, random_state):
    """Let a user's optimiser, called as scikit-learn does, have the full-data objective."""

    def negative(theta, eval_gradient=True):
        candidate = kernel.clone_with_theta(theta)
        if not eval_gradient:
            return -value_or_minus_inf(objective, candidate, False)
        value, gradient = value_or_minus_inf(objective, candidate, True)
        return -value, -gradient

    drawn = drawn_starts(kernel.bounds, plan.n_restarts, random_state)
    found = (
        _checked(plan.optimizer(negative, theta, bounds=kernel.bounds), kernel)
        for theta in chain([kernel.theta], drawn)
    )
    theta, negative_value = min(found, key=lambda pair: pair[1])
    return _finish(objective, kernel.clone_with_theta(theta), -negative_value, 1)


def _checked(answer, kernel):
    """What a user's optimiser found: theta and minus the value there."""
    if isinstance(answer, (tuple, list)) and len(answer) == 2:
        try:
            theta = np.asarray(answer[0], dtype=np.float64)
        except (TypeError, ValueError):
            theta = np.array(np.nan)
        value = np.squeeze(answer[1])
        is_number = np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiu"
        is_theta = theta.shape == kernel.theta.shape and not np.isnan(theta).any()
        if is_theta and is_number and not np.isnan(value):
            return theta, float(value)
    raise ValueError(
        "The callable given as optimizer must return (theta, value): theta holds "
        f"{len(kernel.theta)} log hyperparameters, value is what it minimised, a number. Got "
        f"{answer!r}."
    )


def _as_it_is(objective, kernel):
    with arithmetic():
        value = objective.value(kernel)
    return _finish(objective, kernel, value, 0)


def _finish(objective, kernel, value, n_iter):
    if not np.isfinite(value):
        raise np.linalg.LinAlgError(
            f"The objective is not finite (got {value}) with the kernel {kernel}. Check the scale "
            "of X and y and the hyperparameters."
        )
    with arithmetic():
        posterior, jitter = objective.posterior(kernel)
    return Fit(kernel, objective, posterior, value, max(n_iter, 1), jitter)


def _warn_unless_converged(found, plan):
    if not found.converged:
        warn(
            f"The optimizer stopped after {found.n_iter} iterations without converging "
            f"({found.message}). Raise max_iter (now {plan.max_iter}) or tol (now {plan.tol:g}).",
            ConvergenceWarning,
        )

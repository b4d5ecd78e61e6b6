"""Ways to find the hyperparameters: L-BFGS, a user's own optimiser, or none."""

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse import kernels
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference import cycles, stochastic
from skgp_sparse.inference.contracts import Objective, Solver
from skgp_sparse.inference.optimizers import maximise
from skgp_sparse.inference.parameters import (
    VectorFunction,
    arithmetic,
    evaluation_or_none,
    value_or_minus_inf,
)
from skgp_sparse.inference.start import drawn_starts, fit_exact


class Fit(NamedTuple):
    """What a fit found."""

    kernel: object
    objective: Objective  # for users: it begins where the fit ended
    posterior: Posterior
    value: float
    n_iter: int
    jitter: float


class KeepParameters(Solver):
    """Nothing moves."""

    moves = False

    def solve_exact(self, objective, kernel, n_restarts, plan, random_state):
        """Evaluate the objective."""
        with arithmetic():
            value = objective.value(kernel)
        return _finish(objective, kernel, value, 0)

    def solve_sparse(self, objective, kernel, model, plan, random_state):
        """Evaluate the objective."""
        return self.solve_exact(objective, kernel, 0, plan, random_state)


class LBFGS(Solver):
    """All blocks jointly, by `maximise`."""

    begins_small = True

    def solve_exact(self, objective, kernel, n_restarts, plan, random_state):
        """Hyperparameters by L-BFGS, with restarts."""
        objective, kernel, found, inner_state = fit_exact(
            objective,
            kernel,
            n_restarts=n_restarts,
            random_state=random_state,
            max_iter=plan.max_iter,
            tol=plan.tol,
            callback=plan.progress,
        )
        _warn_unless_converged(found, plan)
        return _finish(objective, kernel, found.value, found.n_iter, inner_state)

    def solve_sparse(self, objective, kernel, model, plan, random_state):
        """Hyperparameters and inducing points by L-BFGS."""
        move_basis = plan.optimize_inducing and _can_move(kernel)
        function = VectorFunction(objective, kernel, move_basis)
        found = maximise(
            function,
            function.parameters.pack(),
            function.parameters.limits(),
            max_iter=plan.max_iter,
            tol=plan.tol,
            scale=objective.size(),
            callback=plan.progress,
        )
        _warn_unless_converged(found, plan)
        objective, kernel = function.at(found.x)
        model.warn_of(objective, kernel)
        return _finish(objective, kernel, found.value, found.n_iter, function.inner_state)


class Stochastic(Solver):
    """All blocks jointly, on parts of the rows; see `skgp_sparse.inference.stochastic`.

    Where a part that stands for all rows would be all rows, and no minibatches follow, this is
    `LBFGS`.

    Parameters
    ----------
    batch_size : int or None
        Of the minibatches that follow the samples; None: there are none.
    """

    begins_small = True

    def __init__(self, batch_size=None):
        self.batch_size = batch_size

    def solve_exact(self, objective, kernel, n_restarts, plan, random_state):
        """All rows at once: they are few."""
        return LBFGS().solve_exact(objective, kernel, n_restarts, plan, random_state)

    def solve_sparse(self, objective, kernel, model, plan, random_state):
        """Hyperparameters and inducing points on parts of the rows, then the posterior of all."""
        stages = stochastic.stages(len(objective.inducing_points), len(objective.rows))
        if self.batch_size is None and not any(stage.stand_for_all for stage in stages):
            return LBFGS().solve_sparse(objective, kernel, model, plan, random_state)
        move_basis = plan.optimize_inducing and _can_move(kernel)
        search = stochastic.Search(objective, model, plan, move_basis, random_state)
        state = search.begin(objective, kernel)
        for stage in stages:
            if not search.stopped:
                state = search.climb(state, stage)
        if search.unfinished:
            _warn_unless_converged(search.unfinished, plan)
        if self.batch_size is not None:
            state = cycles.climb_by_minibatches(search, state, self.batch_size)
        value, posterior, jitter, inner_state = search.conclude(state)
        _check_value(value, state.kernel)
        model.warn_of(state.objective, state.kernel)
        found = state.objective.frozen(inner_state)
        return Fit(state.kernel, found, posterior, value, max(search.n_iter, 1), jitter)


class UserOptimizer(Solver):
    """A user's optimiser, called as scikit-learn does, has the objective of all rows.

    Parameters
    ----------
    optimizer : callable
        ``(objective, theta, bounds) -> (theta, value)``, which minimises.
    """

    def __init__(self, optimizer: Callable):
        self.optimizer = optimizer

    def solve_exact(self, objective, kernel, n_restarts, plan, random_state):
        """Hyperparameters by the optimiser, from the kernel and from restarts."""
        inner_state = None  # each evaluation begins where the last one ended

        def negative(theta, eval_gradient=True):
            nonlocal inner_state
            candidate = kernel.clone_with_theta(theta)
            if not eval_gradient:
                return -value_or_minus_inf(objective, candidate, False, inner_state)
            found = evaluation_or_none(objective, candidate, inner_state)
            if found is None:
                return np.inf, np.zeros(len(kernel.bounds))
            inner_state = found.inner_state
            return -found.value, -found.theta_bar

        drawn = drawn_starts(kernel.bounds, plan.n_restarts, random_state)
        found = (
            self._checked(self.optimizer(negative, theta, bounds=kernel.bounds), kernel)
            for theta in chain([kernel.theta], drawn)
        )
        theta, negative_value = min(found, key=lambda pair: pair[1])
        kernel = kernel.clone_with_theta(theta)
        return _finish(objective, kernel, -negative_value, 1, inner_state)

    def solve_sparse(self, objective, kernel, model, plan, random_state):
        """The same; inducing points stay where they are."""
        return self.solve_exact(objective, kernel, plan.n_restarts, plan, random_state)

    @staticmethod
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


def _can_move(kernel):
    """Whether inducing points can be optimised; says so where they cannot."""
    if kernels.differentiable(kernel):
        return True
    warn(
        f"The inducing points are not optimised, because a part of {kernel} has no derivative "
        "rule. Add one with skgp_sparse.kernels.register, or set optimize_inducing=False."
    )
    return False


def _check_value(value, kernel):
    if not np.isfinite(value):
        raise np.linalg.LinAlgError(
            f"The objective is not finite (got {value}) with the kernel {kernel}. Check the scale "
            "of X and y and the hyperparameters."
        )


def _finish(objective, kernel, value, n_iter, inner_state=None):
    _check_value(value, kernel)
    with arithmetic():
        posterior, jitter, inner_state = objective.posterior(kernel, inner_state)
    return Fit(kernel, objective.frozen(inner_state), posterior, value, max(n_iter, 1), jitter)


def _warn_unless_converged(found, plan):
    if not found.converged:
        warn(
            f"The optimizer stopped after {found.n_iter} iterations without converging "
            f"({found.message}). Raise max_iter (now {plan.max_iter}) or tol (now {plan.tol:g}).",
            ConvergenceWarning,
        )

"""Ways to find hyperparameters and inducing points: on all rows, on random samples, or not at all.

Pass a name or an object as the parameter `solver` of an estimator: an object has parameters of its
own, such as ``solver=Minibatches(batch_size=512)``, which a search sets as ``solver__batch_size``.
"""

from itertools import chain
from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse import kernels
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference import stochastic
from skgp_sparse.inference.contracts import Objective, Solver
from skgp_sparse.inference.cycles import climb_by_minibatches
from skgp_sparse.inference.optimizers import drawn_starts, fit_exact, maximise
from skgp_sparse.inference.parameters import (
    VectorFunction,
    arithmetic,
    evaluation_or_none,
    value_or_minus_inf,
)
from skgp_sparse.rows.checks import check_number, require

__all__ = ["LBFGS", "Minibatches", "Stochastic"]

_PARTS_PAY = 400  # rows per inducing point from which a fit on parts of the rows is quicker


class Fit(NamedTuple):
    """What a fit found."""

    kernel: object
    objective: Objective  # for users: it begins where the fit ended
    posterior: object  # `Process`
    value: float
    n_iter: int
    jitter: float


class KeepParameters(BaseEstimator, Solver):
    """Nothing moves: what ``optimizer=None`` stands for."""

    moves = False

    def solve_exact(self, objective, kernel, n_restarts, settings, random_state):
        """Evaluate the objective."""
        with arithmetic():
            value = objective.value(kernel)
        return _finish(objective, kernel, value, 0)

    def solve_sparse(self, objective, kernel, model, settings, random_state):
        """Evaluate the objective."""
        return self.solve_exact(objective, kernel, 0, settings, random_state)


class LBFGS(BaseEstimator, Solver):
    """L-BFGS on all rows: hyperparameters and inducing points together.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.solvers import LBFGS
    >>> X = np.linspace(0, 10, 300)[:, None]
    >>> model = SparseGPRegressor(solver=LBFGS(), n_inducing=15, random_state=0)
    >>> model.fit(X, np.sin(X[:, 0])).n_inducing_
    15
    """

    begins_small = True

    def solve_exact(self, objective, kernel, n_restarts, settings, random_state):
        """Hyperparameters by L-BFGS, with restarts."""
        objective, kernel, found, inner_state = fit_exact(
            objective,
            kernel,
            n_restarts=n_restarts,
            random_state=random_state,
            max_iter=settings.max_iter,
            tol=settings.tol,
            callback=settings.progress,
        )
        _warn_unless_converged(found, settings)
        return _finish(objective, kernel, found.value, found.n_iter, inner_state)

    def solve_sparse(self, objective, kernel, model, settings, random_state):
        """Hyperparameters and inducing points by L-BFGS."""
        move_basis = settings.move_basis and _can_move(kernel)
        function = VectorFunction(objective, kernel, move_basis)
        found = maximise(
            function,
            function.parameters.pack(),
            function.parameters.limits(),
            max_iter=settings.max_iter,
            tol=settings.tol,
            scale=objective.size(),
            callback=settings.progress,
        )
        _warn_unless_converged(found, settings)
        objective, kernel = function.at(found.x)
        model.warn_of(objective, kernel)
        return _finish(objective, kernel, found.value, found.n_iter, function.inner_state)


class Stochastic(BaseEstimator, Solver):
    """L-BFGS on growing random samples of the rows, then the posterior of all rows.

    Samples have 20, 80, 160 and 320 rows per inducing point as far as there are so many, so that
    the time of the fit hardly grows with the number of rows. With at most 160 rows per inducing
    point, this is `LBFGS`.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.solvers import Stochastic
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(4000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=4000)
    >>> model = SparseGPRegressor(solver=Stochastic(), n_inducing=10, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    begins_small = True

    def solve_exact(self, objective, kernel, n_restarts, settings, random_state):
        """All rows at once: they are few."""
        return LBFGS().solve_exact(objective, kernel, n_restarts, settings, random_state)

    def solve_sparse(self, objective, kernel, model, settings, random_state):
        """Hyperparameters and inducing points on parts of the rows, then the posterior of all."""
        stages = stochastic.stages(len(objective.inducing_points), len(objective.rows))
        if not (any(stage.stand_for_all for stage in stages) or self._goes_on()):
            return LBFGS().solve_sparse(objective, kernel, model, settings, random_state)
        move_basis = settings.move_basis and _can_move(kernel)
        search = stochastic.Search(objective, model, settings, move_basis, random_state)
        state = search.begin(objective, kernel)
        for stage in stages:
            if not search.stopped:
                state = search.climb(state, stage)
        if search.unfinished:
            _warn_unless_converged(search.unfinished, settings)
        state = self._go_on(search, state)
        value, posterior, jitter, inner_state = search.conclude(state)
        _check_value(value, state.kernel)
        model.warn_of(state.objective, state.kernel)
        objective, n_iter = state.objective.frozen(inner_state), max(search.n_iter, 1)
        return Fit(state.kernel, objective, posterior, value, n_iter, jitter)

    def _goes_on(self):
        """Whether anything follows the samples."""
        return False

    def _go_on(self, search, state):
        """The state after what follows the samples."""
        return state


class Minibatches(Stochastic):
    """Random samples, as `Stochastic`, and then cycles of minibatches.

    The cycles go on as long as they improve the density of rows that are held aside. They took more
    time than they were worth on every data set that was tried. With
    ``bound="gfitc-ep"`` or "pep" and a likelihood that is not Gaussian, there are no minibatches.

    Parameters
    ----------
    batch_size : int, default=512
        The number of rows of a minibatch.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.solvers import Minibatches
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-3, 3, size=(2000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> solver = Minibatches(batch_size=100)
    >>> model = SparseGPRegressor(solver=solver, n_inducing=10, max_iter=50, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    """

    def __init__(self, batch_size=512):
        self.batch_size = batch_size

    def _goes_on(self):
        return True

    def _go_on(self, search, state):
        return climb_by_minibatches(search, state, self.batch_size)


class UserOptimizer(BaseEstimator, Solver):
    """A user's optimiser, called as scikit-learn does, has the objective of all rows.

    Parameters
    ----------
    optimizer : callable
        ``(objective, theta, bounds) -> (theta, value)``, which minimises.
    """

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def solve_exact(self, objective, kernel, n_restarts, settings, random_state):
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

        drawn = drawn_starts(kernel.bounds, settings.n_restarts, random_state)
        found = (
            self._checked(self.optimizer(negative, theta, bounds=kernel.bounds), kernel)
            for theta in chain([kernel.theta], drawn)
        )
        theta, negative_value = min(found, key=lambda pair: pair[1])
        kernel = kernel.clone_with_theta(theta)
        return _finish(objective, kernel, -negative_value, 1, inner_state)

    def solve_sparse(self, objective, kernel, model, settings, random_state):
        """The same; inducing points stay where they are."""
        return self.solve_exact(objective, kernel, settings.n_restarts, settings, random_state)

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


def resolve_solver(solver, optimizer, n, n_inducing):
    """How hyperparameters and inducing points are found, for a table of n rows.

    `check_solver` has seen the parameters.
    """
    if optimizer is None:
        return KeepParameters()
    if callable(optimizer):
        return UserOptimizer(optimizer)
    if isinstance(solver, Solver):
        return clone(solver)
    is_large = n > _PARTS_PAY * n_inducing
    if solver == "lbfgs" or (solver == "auto" and not is_large):
        return LBFGS()
    return Stochastic()


NAMES = ("auto", "lbfgs", "stochastic")


def check_solver(solver, name):
    """Raise unless a solver is one of the names or an object."""
    is_right = isinstance(solver, Solver) or (isinstance(solver, str) and solver in NAMES)
    must = f"one of {NAMES} or an object of a class of skgp_sparse.solvers"
    require(is_right, "solver", solver, name, must)
    check_number(getattr(solver, "batch_size", 1), "solver__batch_size", name, Integral, low=1)


def takes_random_rows(solver):
    """Whether a solver, or that of a name, learns from random rows."""
    if isinstance(solver, str):
        return solver == "stochastic"
    return isinstance(solver, Stochastic)


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


def _warn_unless_converged(found, settings):
    if not found.converged:
        warn(
            f"The optimizer stopped after {found.n_iter} iterations without converging "
            f"({found.message}). Raise max_iter (now {settings.max_iter}) or tol (now "
            f"{settings.tol:g}).",
            ConvergenceWarning,
        )

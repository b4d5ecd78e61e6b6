"""Ways to find hyperparameters and inducing points: on all rows, on random samples, or not at all.

Pass a name or an object as the parameter `solver` of an estimator.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse import kernels
from skgp_sparse.engine.posterior import Posterior
from skgp_sparse.exceptions import warn
from skgp_sparse.ground.validation import Array, Kernel, Optimizer, as_text
from skgp_sparse.inference import contracts, stochastic
from skgp_sparse.inference.contracts import Objective, Settings, Solver, SparseFit, Start
from skgp_sparse.inference.optimizers import Maximum, climb
from skgp_sparse.inference.starts import fit_exact

__all__ = ["LBFGS", "Stochastic"]

_PARTS_PAY = 400  # rows per inducing point from which a fit on parts of the rows is quicker
_NEGLIGIBLE = 1e3  # residual variance over noise from which the penalty is all there is


class Fit(NamedTuple):
    """Result of a fit: a posterior, and what questions about it need.

    Parameters
    ----------
    kernel : sklearn kernel
        Kernel with the hyperparameters that were found.
    objective : Objective or None
        Objective as a function of the hyperparameters, for further evaluations; None: there is
        none.
    posterior : Posterior
        Posterior that predicts.
    value : float
        Value of the objective.
    n_iter : int, default=1
        Number of iterations of the optimizer.
    jitter : float, default=0.0
        Jitter that factorisations took.
    selection : tuple of Candidate, default=()
        Posteriors that were tried, in order.
    refit : callable or None, default=None
        ``(job, fit, kernel) -> Fit``, which goes on from the fit with a kernel of other
        noise; None: its solver does.
    combination : Combination or None, default=None
        A global process, which the posterior is beside.

    Examples
    --------
    >>> from skgp_sparse.posteriors import Fit
    >>> Fit._fields[:4]
    ('kernel', 'objective', 'posterior', 'value')
    """

    kernel: Kernel
    objective: Any
    posterior: Posterior
    value: float
    n_iter: int = 1
    jitter: float = 0.0
    selection: tuple[Any, ...] = ()
    refit: Callable[..., Any] | None = None
    combination: Any = None


class KeepParameters(BaseEstimator, Solver):
    """Solver that moves no parameters, as with ``optimizer=None``."""

    moves = False

    def solve(self, start: Start) -> Fit:
        """Evaluate the objective."""
        return fit_at(start.objective, start.kernel, 0)


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

    starts_on_subset = True

    def solve(self, start: Start) -> Fit:
        """Hyperparameters by L-BFGS: with inducing points, or with restarts."""
        objective, kernel, settings, _, objectives, _ = start
        if objectives is None:
            function, maximum = fit_exact(start)
        else:
            moves = settings.move_basis and _can_move(kernel)
            function = contracts.VectorFunction(objective, kernel, moves, settings.prior)
            maximum = climb(function, settings)
        warn_unless_converged(maximum, settings)
        objective, kernel = function.at(maximum.x)
        if objectives is not None:
            _warn_of_residual(objective, kernel)
        return fit_at(objective, kernel, maximum.n_iter, function.inner_state)


class Stochastic(BaseEstimator, Solver):
    """L-BFGS on growing random samples of the rows, then the posterior of all rows.

    Samples have 20, 80, 160 and 320 rows per inducing point as far as there are so many, so that
    the time of the fit hardly grows with the number of rows. With at most 80 rows per inducing
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

    starts_on_subset = True

    def solve(self, start: Start) -> Fit:
        """Hyperparameters and inducing points on parts of the rows, then the posterior of all."""
        objective, kernel, settings, _, objectives, _ = start
        if objectives is None:
            return LBFGS().solve(start)
        size, n = objective.basis.size, len(objective.rows)
        stages = [one for one in stochastic.STAGES if one.rows * size < n]
        if not any(stage.stand_for_all for stage in stages):
            return LBFGS().solve(start)
        search = stochastic.Search(start, settings.move_basis and _can_move(kernel))
        state = search.start(objective, kernel)
        for stage in settings.deadline.until(stages):
            state = state if search.stopped else search.climb(state, stage)
        if search.unfinished:
            warn_unless_converged(search.unfinished, settings)
        conclusion = search.conclude(state)
        _warn_of_residual(state.objective, state.kernel)
        return _fit_of(state.kernel, conclusion, search.n_iter)


class UserOptimizer(BaseEstimator, Solver):
    """A user's optimiser, ``(objective, theta, bounds) -> (theta, value)``, which minimises."""

    def __init__(self, optimizer: Callable) -> None:
        self.optimizer = optimizer

    def solve(self, start: Start) -> Fit:
        """Hyperparameters by the optimiser, from the kernel and from restarts."""
        objective, kernel, settings, random_state, *_ = start
        prior, inner_state = settings.prior, None  # an evaluation begins where the last one ended

        def negative(theta: Array, eval_gradient: bool = True) -> Any:
            nonlocal inner_state
            candidate = kernel.clone_with_theta(theta)
            if not eval_gradient:
                return -contracts.value_or_minus_inf(objective, candidate, inner_state, prior)
            evaluation = contracts.attempt(objective, candidate, inner_state, prior)
            inner_state = evaluation.inner_state
            return -evaluation.value, -evaluation.theta_bar

        limits = np.reshape(kernel.bounds, (-1, 2)).T
        drawn = (random_state.uniform(*limits) for _ in range(settings.n_restarts))
        answers = (
            self._checked(self.optimizer(negative, theta, bounds=kernel.bounds), kernel)
            for theta in chain([kernel.theta], settings.deadline.until(drawn))
        )
        theta, _ = min(answers, key=lambda answer: answer[1])
        return fit_at(objective, kernel.clone_with_theta(theta), 1, inner_state)

    @staticmethod
    def _checked(answer: tuple, kernel: Kernel) -> tuple[Array, float]:
        """Theta and minus the value there that a user's optimiser found, checked."""
        with suppress(TypeError, ValueError):
            theta, value = answer
            theta = np.asarray(theta, dtype=np.float64)
            value = float(np.squeeze(value).astype(np.float64, casting="same_kind"))
            if theta.shape == kernel.theta.shape and not np.isnan([*theta, value]).any():
                return theta, value
        raise ValueError(
            "The callable given as optimizer must return (theta, value): theta holds "
            f"{len(kernel.theta)} log hyperparameters, and value a number. Got {as_text(answer)}."
        )


class FewIterations(LBFGS):
    """L-BFGS near an optimum with rough sites; `max_iter` is what the user allows."""

    def __init__(self, max_iter: int) -> None:
        self.max_iter = max_iter

    def solve(self, start: Start) -> Fit:
        """Hyperparameters and inducing points, and then exact sites."""
        objective, kernel, settings, *_ = start
        rough = replace(objective, inner=objective.inner.roughly())
        function = contracts.VectorFunction(rough, kernel, settings.move_basis, settings.prior)
        maximum = climb(function, settings)
        if maximum.n_iter >= self.max_iter:
            warn_unless_converged(maximum, settings)
        rough, kernel = function.at(maximum.x)
        found = replace(rough, inner=objective.inner)
        return fit_at(found, kernel, maximum.n_iter, function.inner_state)


def resolve_solver(solver: Solver | str, optimizer: Optimizer, n: int, n_inducing: int) -> Solver:
    """Solver of hyperparameters and inducing points for n rows, of checked parameters."""
    if optimizer is None:
        return KeepParameters()
    if callable(optimizer):
        return UserOptimizer(optimizer)
    if isinstance(solver, Solver):
        return clone(solver)
    on_parts = solver == "stochastic" or (solver == "auto" and n > _PARTS_PAY * n_inducing)
    return Stochastic() if on_parts else LBFGS()


def _can_move(kernel: Kernel) -> bool:
    """Whether inducing points can be optimised; says so where they cannot."""
    if kernels.differentiable(kernel):
        return True
    warn(
        f"The inducing points are not optimised, because a part of {kernel} has no derivative "
        "rule. Add one with skgp_sparse.kernels.register, or set optimize_inducing=False."
    )
    return False


def fit_at(objective: Objective, kernel: Kernel, n_iter: int, inner_state: object = None) -> Fit:
    """The `Fit` that ends at a kernel."""
    with contracts.arithmetic():
        return _fit_of(kernel, objective.conclude(kernel, inner_state), n_iter)


def _fit_of(kernel: Kernel, conclusion: contracts.Conclusion, n_iter: int) -> Fit:
    """The `Fit` of a `Conclusion`."""
    if not np.isfinite(conclusion.value):
        raise np.linalg.LinAlgError(
            f"The objective is not finite (got {conclusion.value}) with the kernel {kernel}. Check "
            "the scale of X and y and the hyperparameters."
        )
    return Fit(kernel=kernel, n_iter=max(n_iter, 1), **conclusion._asdict())


def _warn_of_residual(objective: SparseFit, kernel: Kernel) -> None:
    """Warn where the penalty dominates the objective, and there is no noise to learn."""
    if kernels.has_noise(kernel):
        return
    noise, residual = objective.noise_and_residual(kernel)
    if residual > _NEGLIGIBLE * noise:
        warn(
            f"The inducing points leave a variance of {residual:.1e} unexplained, far more than "
            f"the known noise of {noise:.1e} (both in units of the scaled targets). Add a "
            "WhiteKernel to the kernel, raise alpha, or raise n_inducing.",
            ConvergenceWarning,
        )


def warn_unless_converged(maximum: Maximum, settings: Settings) -> None:
    """Warn that the search for a `Maximum` ended before it converged."""
    if not maximum.converged:
        warn(
            f"The optimizer stopped after {maximum.n_iter} iterations without converging "
            f"({maximum.end.value}). Raise max_iter (now {settings.max_iter}) or tol (now "
            f"{settings.tol:g}).",
            ConvergenceWarning,
        )

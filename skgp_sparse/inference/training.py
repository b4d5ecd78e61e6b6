"""The stages of a fit.

1. Few distinct rows: the exact process. From a thousand rows on, its hyperparameters start where a
   small exact fit ends (`start`).
2. Otherwise hyperparameters from a small exact fit. If it finds little noise, and the rows are not
   too many, the exact process follows from there.
3. Otherwise inducing points in the metric that the small fit learned. If they leave far more of
   the process unexplained than there is noise, and the rows are not too many, a larger exact fit
   follows, and if the same is true at its hyperparameters, the posterior given all rows
   (`near_exact`).
4. Otherwise theta and Z jointly by L-BFGS on the bound.

A warm start goes on from the kernel and the inducing points of an earlier fit, if the objective is
higher there than at the start above.

Where the solver does not begin small (``optimizer=None`` or a callable), theta begins at the
kernel's own values (of a callable: or at those of an earlier fit, if they are better) and Z stays
where the initialiser puts it.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.inducing_basis import InducingBasis
from skgp_sparse._engine.problem import Options
from skgp_sparse.inference.contracts import Solver
from skgp_sparse.inference.near_exact import fit_all_rows, learn_from_some
from skgp_sparse.inference.objectives import (
    DecoupledObjective,
    arithmetic,
    value_or_minus_inf,
)
from skgp_sparse.inference.start import fit_few, within_reach

_WORTH_A_START = 2  # rows of an exact fit, in units of those of the start, from which it has one


class Plan(NamedTuple):
    """How to fit."""

    n_inducing: int
    most_exact: int  # distinct rows up to which every one is an inducing point ...
    most_quiet: int  # ... and up to which it is where there is little noise
    initialise: Callable  # (rows, kernel, random_state) -> Z
    fixed_inducing: bool  # Z comes from the user
    optimize_inducing: bool
    solver: Solver
    n_restarts: int
    max_iter: int
    tol: float
    start_rows: int
    options: Options
    progress: Callable | None = None  # (iteration, value) -> stop?
    warm: tuple | None = None  # (kernel, Z) of an earlier fit, to go on from
    posterior: str = "inducing"  # what it is given: "inducing" points, all "rows", or "auto"
    most_rows: int = 0  # up to which "auto" may be "rows"
    n_leading: int = 0  # rows of the preconditioner of all
    n_mean: int = 0  # inducing points of the mean, if they are more than the others


def train(rows, kernel, model, plan, random_state):
    """Fit kernel and inducing points to the rows.

    Parameters
    ----------
    rows : Table
    kernel : sklearn kernel
    model : Model
    plan : Plan
    random_state : RandomState

    Returns
    -------
    Fit
    """
    if plan.most_exact and rows.distinct(most=plan.most_exact) is not None:
        return _train_exact(rows, kernel, model, plan, random_state)
    if plan.posterior == "rows":
        return _train_all_rows(rows, kernel, model, plan, random_state)
    if plan.solver.begins_small:
        return _train_from_start(rows, kernel, model, plan, random_state)
    Z = plan.initialise(rows, kernel, random_state)
    objective = model.sparse(rows, Z, plan.options)
    _, kernel = _best_start((objective, kernel), _warm_start(objective, plan))
    return _solve_sparse(objective, kernel, model, plan, random_state)


def _train_exact(rows, kernel, model, plan, random_state):
    n_restarts = plan.n_restarts
    if plan.solver.begins_small and len(rows) >= _WORTH_A_START * plan.start_rows:
        model, kernel = _small_fit(rows, kernel, model, plan, random_state)
        n_restarts = 0
    objective = model.exact(rows, plan.options)
    _, kernel = _best_start((objective, kernel), _warm_start(objective, plan))
    return plan.solver.solve_exact(objective, kernel, n_restarts, plan, random_state)


def _train_all_rows(rows, kernel, model, plan, random_state):
    if plan.solver.begins_small:
        model, kernel = _small_fit(rows, kernel, model, plan, random_state)
        plan = plan._replace(n_restarts=0)
    learned = learn_from_some(rows, kernel, model, plan, random_state)
    return fit_all_rows(rows, learned, model, plan, random_state)


def _train_from_start(rows, kernel, model, plan, random_state):
    """Hyperparameters of a small exact fit decide what follows.

    With little noise, a sparse fit goes on for a hundred iterations and more, and inducing points
    lose what the exact process would know: up to more rows that one takes about as long.
    """
    model, kernel = _small_fit(rows, kernel, model, plan, random_state)
    few = plan.most_quiet > plan.most_exact and rows.distinct(most=plan.most_quiet) is not None
    if few and model.has_little_noise(kernel, rows):
        exact = model.exact(rows, plan.options)
        return plan.solver.solve_exact(exact, kernel, 0, plan, random_state)
    of_all_rows = deepcopy(random_state)  # which then are those of posterior="rows"
    Z = plan.initialise(rows, kernel, random_state)
    objective = model.sparse(rows, Z, plan.options)
    may_be_solved = plan.posterior == "auto" and len(rows) <= plan.most_rows
    if may_be_solved and model.loses_much(kernel, objective):
        plan = plan._replace(n_restarts=0)
        learned = learn_from_some(rows, kernel, model, plan, of_all_rows)
        Z = plan.initialise(rows, learned.kernel, random_state)
        objective = model.sparse(rows, Z, plan.options)
        if model.loses_much(learned.kernel, objective):
            return fit_all_rows(rows, learned, model, plan, of_all_rows)
        kernel = within_reach(learned.kernel, kernel, rows)
    kernel = model.adapt(kernel, objective)
    known = _known_inducing_points(rows, plan)
    warm = _warm_start(objective if known is None else objective.at(basis=known), plan)
    objective, kernel = _best_start((objective, kernel), warm)
    return _solve_sparse(objective, kernel, model, plan, random_state)


def _solve_sparse(objective, kernel, model, plan, random_state):
    """The fit at inducing points, and where the mean is to have more of them, these as well."""
    fit = plan.solver.solve_sparse(objective, kernel, model, plan, random_state)
    if plan.n_mean <= len(fit.objective.inducing_points):
        return fit
    rows, Z = objective.rows, fit.objective.inducing_points
    more = rows.subset(rows.sample(plan.n_mean - len(Z), random_state)).everything().X
    found = DecoupledObjective(fit.objective, InducingBasis(np.vstack([Z, more])))
    with arithmetic():
        value, posterior, jitter = found.conclude(fit.kernel)
    return fit._replace(objective=found, posterior=posterior, value=value, jitter=jitter)


def _small_fit(rows, kernel, model, plan, random_state):
    """The model and the kernel with the hyperparameters of a small exact fit."""
    return fit_few(
        rows,
        kernel,
        model,
        plan.start_rows,
        options=plan.options,
        n_restarts=plan.n_restarts,
        random_state=random_state,
        tol=plan.tol,
    )


def _known_inducing_points(rows, plan):
    """Those of an earlier fit, if there is one and they are what is asked for now."""
    Z = None if plan.warm is None or plan.fixed_inducing else plan.warm[1]
    return Z if np.shape(Z) == (plan.n_inducing, rows.n_features) else None


def _warm_start(objective, plan):
    return None if plan.warm is None or not plan.solver.moves else (objective, plan.warm[0])


def _best_start(cold, warm):
    """The objective and the kernel where it is higher; no warm start is None.

    The objective may be flat where an earlier fit ended, if the rows have other units now.
    """
    if warm is None:
        return cold
    return max(warm, cold, key=lambda start: value_or_minus_inf(*start, False))

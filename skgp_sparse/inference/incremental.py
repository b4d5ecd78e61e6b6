"""Rows that arrive later: when theta and Z move, and how.

A move is a fit of few iterations on a sample of the rows that came, from where the last one ended.
Rows that come without a move cost one visit. It pays to move

- when the rows have doubled since the last move, as the model then knows little of half of them;
- when new rows are predicted clearly worse than those before them, which is the case where the
  function, or the inputs, are no longer what they were.

In the second case, the rows before may mislead. How much they still count is chosen by what they
say about the new rows: the first half of these joins them, and they predict the other half.

As long as there are no more distinct rows than inducing points are wanted, all of them are inducing
points. A move is then a fit from the start, which costs little.
"""

from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._engine.moments import Moments, moments_of
from skgp_sparse._ground.warnings import collected, warn
from skgp_sparse.inference.contracts import Solver
from skgp_sparse.inference.parameters import value_or_minus_inf
from skgp_sparse.inference.solvers import LBFGS, KeepParameters, Stochastic
from skgp_sparse.inference.start import fit_few
from skgp_sparse.inference.training import train

_GROWTH = 2.0  # of the number of rows, after which theta and Z move
_ITERATIONS = 50  # of a move
_ROWS_PER_POINT = 400  # that a move looks at, per inducing point ...
_FEWEST_ROWS = 5000  # ... if there are not fewer
_JUDGED_ROWS = 100  # whose densities are compared together
_ERRORS, _NATS = 5.0, 0.1  # a density falls clearly: by so many standard errors and so many nats
_MEMORIES = (0.1, 0.01, 0.0)  # how much a row before a change may count instead of 1 ...
_PRICE = 0.25  # ... and nats that each of these steps has to gain


class Action(Enum):
    """What the arrival of rows leads to."""

    START = "fit from the start"
    GROW = "all rows are inducing points, or inducing points are chosen; theta stays"
    MOVE = "theta and Z move"
    HOLD = "theta and Z stay"


class Knowledge(NamedTuple):
    """What is known of theta and Z."""

    kernel: object
    Z: np.ndarray | None  # None: of another size than is wanted
    likelihood: object = None  # with its parameters; None: Gaussian noise
    few: bool = False  # every row is an inducing point


class Watch(NamedTuple):
    """Log densities of rows before they were learned from."""

    usual: Moments = Moments()  # since the last move
    recent: Moments = Moments()  # not judged so far

    def told(self, densities, weight):
        """The watch after more densities (n,), and by how much they fell; 0 if not clearly."""
        recent = self.recent.merged(moments_of(densities, weight))
        if recent.weight < _JUDGED_ROWS:
            return self._replace(recent=recent), 0.0
        return Watch(self.usual.merged(recent)), _fall(self.usual, recent)


def _fall(usual, recent):
    if usual.weight == 0:
        return 0.0
    error = usual.spread * np.sqrt(1.0 / usual.weight + 1.0 / recent.weight)
    fall = float(usual.mean - recent.mean)
    return fall if fall > max(_ERRORS * error, _NATS) else 0.0


def is_due(total, at_last_move):
    """Whether the rows have doubled since theta and Z moved."""
    return total >= _GROWTH * at_last_move


def next_action(rows, plan, learned, due):
    """The `Action` that rows ask for; `Knowledge` None: nothing is known. `due`: to move."""
    if learned is None:
        return Action.START
    if learned.few:
        started = plan.solver.moves and (due or not _are_few(rows, plan))
        return Action.START if started else Action.GROW
    if plan.solver.moves and (due or learned.Z is None):
        return Action.MOVE
    return Action.GROW if learned.Z is None else Action.HOLD


def take(action, rows, kernel, model, plan, learned, random_state):
    """Take a `Action`; returns the `Fit` and the `Knowledge`."""
    plan = plan._replace(most_exact=0, most_quiet=0)
    choose = plan.initialise if plan.fixed_inducing else partial(_all_or_some, plan)
    initial, kernel = kernel, kernel if learned is None else learned.kernel
    if action is Action.START:
        kernel, plan = initial, plan._replace(initialise=choose)
    elif action is Action.GROW:
        plan = plan._replace(initialise=choose, solver=KeepParameters())
    elif action is Action.HOLD:
        plan = plan._replace(initialise=_constant(learned.Z), solver=KeepParameters())
    else:
        free = plan.optimize_inducing and not plan.fixed_inducing and plan.solver.begins_small
        fresh = choose if free else None
        first = choose if learned.Z is None else _constant(learned.Z)
        plan = plan._replace(initialise=first, solver=Move(plan.solver, initial, fresh))
    fit = train(rows, kernel, model, plan, random_state)
    if action is Action.HOLD:
        return fit, learned._replace(likelihood=_likelihood_of(fit))
    few = not plan.fixed_inducing and _are_few(rows, plan)
    return fit, Knowledge(fit.kernel, fit.objective.inducing_points, _likelihood_of(fit), few)


class Move(Solver):
    """Moves theta and Z a little, from where they are or, if that is better, from a new start.

    Parameters
    ----------
    solver : Solver
    initial : sklearn kernel
        With which a new start begins.
    fresh : callable or None
        ``(rows, kernel, random_state) -> Z``, where inducing points may be chosen anew.
    """

    def __init__(self, solver, initial, fresh):
        self.solver, self.initial, self.fresh = solver, initial, fresh

    def solve_exact(self, objective, kernel, n_restarts, plan, random_state):
        """The same as at inducing points."""
        return self.solve_sparse(objective, kernel, None, plan, random_state)

    def solve_sparse(self, objective, kernel, model, plan, random_state):
        """A `Fit` of all rows where few iterations on some of them ended."""
        plan = plan._replace(solver=self.solver)
        starts = [(objective, kernel)]
        if self.fresh is not None:
            starts.append(self._chosen_anew(objective, kernel, model, random_state))
            starts.append(self._begun_anew(objective, model, plan, random_state))
        objective, kernel = max(starts, key=lambda start: value_or_minus_inf(*start, False))
        return moved(objective, kernel, model, plan, random_state)

    def _chosen_anew(self, objective, kernel, model, random_state):
        """The objective at other inducing points."""
        other = objective.at(basis=self.fresh(objective.rows, kernel, random_state))
        return other, model.adapt(kernel, other)

    def _begun_anew(self, objective, model, plan, random_state):
        """The objective after a small exact fit, as a fit begins."""
        few = partial(fit_few, options=plan.options, n_restarts=0, tol=plan.tol)
        model, kernel = few(
            objective.rows, self.initial, model, plan.start_rows, random_state=random_state
        )
        Z = self.fresh(objective.rows, kernel, random_state)
        other = model.sparse(objective.rows, Z, plan.options)
        return other, model.adapt(kernel, other)


def moved(objective, kernel, model, plan, random_state):
    """The `Fit` of all rows of an objective, after theta and Z have moved a little."""
    rows = objective.rows
    size = max(_FEWEST_ROWS, _ROWS_PER_POINT * len(objective.inducing_points))
    some = rows.sampled(model.sample(rows, size, random_state))
    part = objective.on(some)
    plan = plan._replace(max_iter=min(plan.max_iter, _ITERATIONS), n_restarts=0)
    with collected() as told:
        found = of_few_rows(plan.solver).solve_sparse(part, kernel, model, plan, random_state)
    for message, category in told:
        if not issubclass(category, ConvergenceWarning):  # a move need not end at an optimum
            warn(message, category)
    blocks = found.objective.blocks(found.kernel, move_basis=True)
    values = {block.name: block.value for block in blocks if block.name != "kernel"}
    held = KeepParameters().solve_exact(objective.at(**values), found.kernel, 0, plan, random_state)
    return held._replace(n_iter=found.n_iter)


def of_few_rows(solver):
    """The solver for a sample of bounded size, where parts of it would save next to nothing."""
    return LBFGS() if isinstance(solver, Stochastic) else solver


def best_retention(densities):
    """How much rows before a change still count, from what they say about rows after it.

    Rows that predict badly need not mislead: seasons return. What is forgotten is gone, so that it
    has to be worth a price.

    Parameters
    ----------
    densities : callable
        Factor of the weights of the rows before -> log densities (n,) of some rows after.
    """
    everything = densities(1.0)
    best, most = 1.0, 0.0
    for steps, factor in enumerate(_MEMORIES, start=1):
        gain = densities(factor) - everything
        is_clear = gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain))
        if is_clear and gain.mean() - steps * _PRICE > most:
            best, most = factor, gain.mean() - steps * _PRICE
    return best


def _are_few(rows, plan):
    """Whether there are no more distinct rows than inducing points are wanted."""
    return not plan.fixed_inducing and rows.distinct(most=plan.n_inducing) is not None


def _all_or_some(plan, rows, kernel, random_state):
    """All distinct rows, or inducing points that are chosen from more of them."""
    everything = rows.distinct(most=plan.n_inducing)
    return plan.initialise(rows, kernel, random_state) if everything is None else everything


def _constant(Z):
    return lambda rows, kernel, random_state: Z


def _likelihood_of(fit):
    method = getattr(fit.objective, "method", None)
    return None if method is None else method.likelihood

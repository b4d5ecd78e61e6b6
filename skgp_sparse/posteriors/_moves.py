"""Rows that arrive later: when theta and Z move, and how.

A move is a fit of few iterations on a sample of the rows that came, from where the last one ended.
Rows that come without a move cost one visit. When it pays to move is a question to the stream
(`skgp_sparse.observations.streams`).

As long as there are no more distinct rows than inducing points are wanted, all of them are inducing
points. A move is then a fit from the start, which costs little.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._ground.warnings import collected, warn
from skgp_sparse.inference.parameter_vectors import raise_noise, value_or_minus_inf
from skgp_sparse.inference.settings import Solver
from skgp_sparse.posteriors._job import fit_subset
from skgp_sparse.posteriors._scales import at_likely_scale
from skgp_sparse.solvers import LBFGS, KeepParameters, Stochastic

_ITERATIONS = 50  # of a move
_ROWS_PER_POINT = 400  # that a move looks at, per inducing point ...
_FEWEST_ROWS = 5000  # ... if there are not fewer


class Action(Enum):
    """Action that follows the arrival of rows."""

    START = "fit from the start"
    GROW = "all rows are inducing points, or inducing points are chosen; theta stays"
    MOVE = "theta and Z move"
    HOLD = "theta and Z stay"


class WarmStart(NamedTuple):
    """Values of theta and Z that are known so far."""

    kernel: object
    Z: np.ndarray | None  # None: of another size than is wanted
    likelihood: object = None  # with its parameters; None: Gaussian noise
    few: bool = False  # every row is an inducing point


def warm_start_of(fit, job):
    """The `WarmStart` of a fit to the rows of a job, as far as it is what is asked for now."""
    Z = fit.objective.inducing_points
    usable = Z is not None and (job.points.are_given or len(Z) <= job.points.size)
    return WarmStart(fit.kernel, Z if usable else None, _likelihood_of(fit), are_few(job))


def next_action(job, warm_start, due):
    """The `Action` that the rows of a job ask for. `due`: theta and Z should move."""
    moves = job.settings.solver.moves
    if warm_start is None:
        return Action.START
    if warm_start.few:
        return Action.START if moves and (due or not are_few(job)) else Action.GROW
    if moves and (due or warm_start.Z is None):
        return Action.MOVE
    return Action.GROW if warm_start.Z is None else Action.HOLD


def take(action, job, warm_start, random_state, fit):
    """Take an `Action` by ``fit(job, random_state)``; returns the `Fit` and the `WarmStart`."""
    if action in (Action.START, Action.MOVE):
        job = at_likely_scale(job)
    points, settings = job.points, job.settings
    Z = None if action in (Action.START, Action.GROW) else warm_start.Z

    def choose(rows, kernel, random_state):
        """All distinct rows where they are few, or inducing points chosen from more of them."""
        distinct = None if points.are_given else rows.distinct(most=points.size)
        return points.initialise(rows, kernel, random_state) if distinct is None else distinct

    solver = settings.solver if action is Action.START else KeepParameters()
    if action is Action.MOVE:
        free = settings.move_basis and not points.are_given and settings.solver.starts_on_subset
        solver = Move(settings.solver, job.kernel, choose if free else None)
    initialise = choose if Z is None else lambda rows, kernel, random_state: Z
    begun = job._replace(
        kernel=job.kernel if action is Action.START else warm_start.kernel,
        points=points._replace(initialise=initialise, is_auto=False),  # others may need more
    )
    fit = fit(begun.with_settings(solver=solver), random_state)
    if action is Action.HOLD:
        return fit, warm_start._replace(likelihood=_likelihood_of(fit))
    Z = fit.objective.inducing_points
    return fit, WarmStart(fit.kernel, Z, _likelihood_of(fit), are_few(job))


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

    def solve(self, objective, kernel, settings, random_state, model=None):
        """A `Fit` of all rows where few iterations on some of them ended."""
        rows, starts = objective.rows, [(objective, kernel)]
        if self.fresh is not None:
            starts += self._fresh_starts(objective, kernel, model, settings, random_state)
        objective, kernel = max(
            starts, key=lambda start: value_or_minus_inf(*start, False, prior=settings.prior)
        )
        size = max(_FEWEST_ROWS, _ROWS_PER_POINT * len(objective.inducing_points))
        part = objective.on(rows.sampled(model.sample(rows, size, random_state)))
        most = min(settings.max_iter, _ITERATIONS)
        settings = settings._replace(max_iter=most, n_restarts=0, find_periods=False)
        with collected() as warnings:
            fit = of_few_rows(self.solver).solve(part, kernel, settings, random_state, model)
        for message, category in warnings:
            if not issubclass(category, ConvergenceWarning):  # a move need not end at an optimum
                warn(message, category)
        blocks = fit.objective.blocks(fit.kernel, move_basis=True)
        values = {block.name: block.value for block in blocks if block.name != "kernel"}
        of_all = KeepParameters().solve(objective.at(**values), fit.kernel, settings, random_state)
        return of_all._replace(n_iter=fit.n_iter)

    def _fresh_starts(self, objective, kernel, model, settings, random_state):
        """The objective at other inducing points, and after a small exact fit, as a fit begins."""
        rows = objective.rows
        chosen = objective.at(basis=self.fresh(rows, kernel, random_state))
        yield chosen, raise_noise(kernel, chosen)
        settings = settings._replace(n_restarts=0)
        model, kernel = fit_subset(rows, self.initial, model, settings, random_state)
        Z = self.fresh(rows, kernel, random_state)
        begun = model.sparse(rows, Z, settings.options)
        yield begun, raise_noise(kernel, begun)


def of_few_rows(solver):
    """The solver for a sample of bounded size, where parts of it would save next to nothing."""
    return LBFGS() if isinstance(solver, Stochastic) else solver


def are_few(job):
    """Whether there are no more distinct rows than inducing points are wanted."""
    return not job.points.are_given and job.are_few(job.points.size)


def _likelihood_of(fit):
    return getattr(fit.objective, "likelihood", None)

"""Anderson acceleration of a fixed-point map, with a way back."""

from collections import deque
from typing import NamedTuple

import numpy as np

_WINDOW = 5  # earlier steps that an accelerated one combines
_RIDGE = 1e-14  # of the least squares problem, relative to its trace
_DECREASE_TOLERANCE = 1e-12  # by which an objective that climbs may fall, relative
_GROWTH = 2.0  # by which the gap may grow in a step where nothing climbs
_STALLED = 30  # iterations without progress after which there will be none


class Step(NamedTuple):
    """The map evaluated at one state."""

    target: object  # where the plain map leads, of the kind of the state
    scaled: object  # change of a state -> the same in units in which its squares are nats
    gap: float  # estimate of what the objective is short of
    value: float  # objective
    climbs: bool  # whether the objective must not fall; otherwise the gap must not grow
    result: object  # whatever else was computed


class Solution(NamedTuple):
    """The best state that was accepted, and what was computed there."""

    state: object
    step: Step
    n_iter: int
    converged: bool
    history: deque  # of steps, for another solve of a map that is nearly the same


def solve_fixed_point(
    evaluate, state, admissible, *, tol, max_iter, size=None, history=(), propose=None
):
    """Iterate ``state -> evaluate(state).target`` until the gap closes.

    Anderson acceleration (type II, Walker and Ni 2011) of the plain map. A state whose value falls
    below the last one is taken back: from there half a plain step, then a quarter, and so on.

    Parameters
    ----------
    evaluate : callable
        ``state -> Step``, whose gap is NaN where the map is not defined.
    state : ndarray or PerRow
        Anything that adds, subtracts and scales, and whose parts are arrays.
    admissible : callable
        ``(proposal, plain) -> state``: moves an accelerated step back to where the map is defined.
    tol : float
        Largest gap, relative to the size.
    max_iter : int
    size : float or None
        None: the value, or 1.
    history : sequence
        That of an earlier solution, if there is one.
    propose : callable, optional
        ``(state, step) -> state``, in the place of the acceleration.

    Returns
    -------
    Solution

    Raises
    ------
    LinAlgError
        If the gap at `state` is no number. Elsewhere, such a step is taken back.
    """
    step = evaluate(state)
    if not np.isfinite(step.gap):
        raise np.linalg.LinAlgError(
            "The sites overflow: the latent variance is too large for the likelihood. Lower the "
            "upper bound of the kernel's variance, or check the parameters of the likelihood."
        )
    closest = state, step
    history, damping, since_best = deque(history, maxlen=_WINDOW), 1.0, 0
    n_iter = 1
    while n_iter < max_iter and not _closed(step, tol, size) and since_best < _STALLED:
        n_iter += 1
        target = step.target if propose is None else propose(state, step)
        proposal = state + damping * (target - state)
        if damping == 1.0 and history and propose is None:
            proposal = admissible(_accelerated(state, step, history), step.target)
        trial = evaluate(proposal)
        if _accepted(trial, step):
            history.append((proposal - state, (trial.target - proposal) - (step.target - state)))
            since_best = 0 if trial.gap < 0.99 * step.gap else since_best + 1
            state, step, damping = proposal, trial, min(1.0, 2.0 * damping)
            if step.climbs or step.gap < closest[1].gap:
                closest = state, step
        else:
            history.clear()
            damping, since_best = 0.5 * damping, since_best + 1
    state, step = closest
    return Solution(state, step, n_iter, _closed(step, tol, size), history)


def _closed(step, tol, size):
    return step.gap <= tol * max(1.0, abs(step.value) if size is None else size)


def _accepted(trial, step):
    if not np.isfinite(trial.gap):
        return False
    if step.climbs:
        return trial.value >= step.value - _DECREASE_TOLERANCE * max(1.0, abs(step.value))
    return trial.gap <= _GROWTH * step.gap


def _accelerated(state, step, history):
    """Combine the plain step with the earlier ones so that the linearised residual is least."""
    residual = step.scaled(step.target - state)
    changes = [step.scaled(change) for _, change in history]
    gram = np.array([[_dot(one, other) for other in changes] for one in changes])
    gram.flat[:: len(gram) + 1] += _RIDGE * np.trace(gram) + np.finfo(float).tiny
    weights = np.linalg.solve(gram, [_dot(change, residual) for change in changes])
    proposal = step.target
    for weight, (move, change) in zip(weights, history):
        proposal = proposal - float(weight) * (move + change)
    return proposal


def _dot(one, other):
    return sum(map(np.vdot, one, other))

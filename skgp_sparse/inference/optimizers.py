"""Quasi-Newton maximisation that survives failed evaluations, and fixed points by acceleration.

`maximise` says how it ended. `solve_fixed_point` is Anderson acceleration of a fixed-point map,
with a way back.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse.ground.parallel import Deadline
from skgp_sparse.ground.validation import Array
from skgp_sparse.inference.contracts import Settings, VectorFunction

_CORRECTIONS = 50  # with thousands of coordinates of Z, more than the usual 10 pay
_FORGOTTEN = 0.1  # share of the sums of squares that an iteration forgets
_SPREAD = 30.0  # at most, between the square roots of D and of its median
_COORDINATES_MEASURED = 50  # coordinates from which they are measured at the start ...
_PROBES, _PROBE = 2, 0.03  # ... by so many steps, of this size in every coordinate
_COMPARED, _COMPARED_IF_FEW = 6, 5  # iterations over which an improvement is measured
_TRIALS = 20  # evaluations of one line search
_LONGEST_RELATIVE_STEP = 27.0  # times the step that curvature proposes
_ARMIJO, _STEEP = 1e-4, 0.9  # shares of the slope: improvement asked for, slope that is still left
_WORTHLESS = 1e-4  # of tol: a step that promises less is not tried


class End(Enum):
    """How a search for a maximum has ended, in words."""

    CONVERGED = "converged"
    STOPPED = "stopped by a callback, or by a limit of time"
    STUCK = "no step along the gradient improves the objective"
    LIMIT = "the limit of iterations was reached"


class Maximum(NamedTuple):
    """The best point, and how the search for it ended."""

    x: np.ndarray
    value: float
    n_iter: int
    end: End
    curvature: "_Curvature | None" = None  # what was learned of it, for a start near the end

    @property
    def converged(self) -> bool:
        """Whether it ended as it should, or as it was told to."""
        return self.end in (End.CONVERGED, End.STOPPED)


class _Point(NamedTuple):
    """A point and the objective there, which is minimised."""

    x: np.ndarray
    value: float
    gradient: Any  # (size,), None where the value is infinite


class _Minimand:
    """Minus the objective per row; infinite where it cannot be evaluated."""

    def __init__(self, function: Callable, limits: Array, scale: float) -> None:
        self.function, self.scale = function, scale
        self.lower, self.upper = limits.T

    def start(self, x: Array) -> _Point:
        """The `_Point` of x, moved within the limits; raises ``LinAlgError`` if there is none."""
        x = np.clip(x, self.lower, self.upper)
        value, gradient = self.function(x)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            what = "gradient of the objective" if np.isfinite(value) else "objective"
            raise np.linalg.LinAlgError(
                f"The {what} is not finite at the start. Check the scale of X and y and the "
                "initial hyperparameters of the kernel."
            )
        return _Point(x, -value / self.scale, -gradient / self.scale)

    def at(self, x: Array) -> _Point:
        """`_Point` of x, moved within the limits; its value is infinite if there is none."""
        try:
            return self.start(x)
        except np.linalg.LinAlgError:
            return _Point(np.clip(x, self.lower, self.upper), np.inf, None)


class _Curvature:
    """Estimate of the inverse Hessian; `alike`: coordinates have one unit, so D is one number."""

    def __init__(self, size: int, alike: bool = False) -> None:
        self.alike = alike
        self.pairs: deque = deque(maxlen=_CORRECTIONS)  # s, y, 1 / sᵀy
        self.steps, self.changes = np.zeros(size), np.zeros(size)
        self.diagonal = np.ones(size)

    def probe(self, step: Array, change: Array) -> None:
        """Learn the units of the coordinates from a step in some direction."""
        self.steps += step**2
        self.changes += change**2
        moved = (self.steps > 0) & (self.changes > 0)
        if moved.any():
            root = np.sqrt(self.steps[moved]) / np.sqrt(self.changes[moved])
            usual = np.partition(root, len(root) // 2)[len(root) // 2]
            self.diagonal = np.full(len(moved), usual)
            self.diagonal[moved] = np.clip(root, usual / _SPREAD**2, usual * _SPREAD**2)

    def update(self, step: Array, change: Array) -> None:
        """Learn from an iteration; where the curvature is not positive, nothing."""
        product = step @ change
        if product <= 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
            return
        self.pairs.append((step, change, 1.0 / product))
        if not self.alike:
            self.steps *= 1.0 - _FORGOTTEN
            self.changes *= 1.0 - _FORGOTTEN
            self.probe(step, change)
        self.diagonal *= product / (change @ (self.diagonal * change))

    def times(self, gradient: Array) -> Array:
        """The inverse Hessian times a gradient: the two loops of Nocedal."""
        vector, shares = gradient.copy(), []
        for step, change, inverse in reversed(self.pairs):
            shares.append(inverse * (step @ vector))
            vector -= shares[-1] * change
        vector *= self.diagonal
        for (step, change, inverse), share in zip(self.pairs, reversed(shares)):
            vector += step * (share - inverse * (change @ vector))
        return vector


def maximise(
    function: Callable,
    x0: Array,
    limits: Array,
    *,
    max_iter: int,
    tol: float,
    scale: float = 1.0,
    first: float = 1.0,
    callback: Callable | None = None,
    curvature: _Curvature | None = None,
    deadline: Deadline | None = None,
    alike: bool = False,
) -> Maximum:
    """Maximise ``x -> (value, gradient)`` from x0 (size,) within limits (size, 2): a `Maximum`.

    This is L-BFGS (Nocedal 1980) with a diagonal of its own: where the usual method starts the
    inverse Hessian from one number, this one starts it from

        D_i ∝ (Σ s_i² / Σ y_i²)^½,        s: steps,  y: changes of the gradient,

    with sums that forget. Curvatures of inducing points differ by orders of magnitude, and 50
    corrections cannot hold thousands of them. Where there are many coordinates, two random steps at
    the start measure them before the first iteration, unless they are `alike`. Bounds are obeyed by
    projection: coordinates at a bound that the gradient pushes outwards stay there.

    It ends when the last six iterations (of d <= 50 coordinates, of the last min(5, d + 1)) have
    improved ``value / scale`` by less than `tol`, when ``callback(iteration, value)`` is true, or
    after the deadline. `first` is the length of a step of which no curvature is known. The
    curvature of an earlier `Maximum`, of nearly the same function, is changed.
    """
    deadline = deadline or Deadline()
    minimand = _Minimand(function, limits, scale)
    point = minimand.start(x0)
    is_known, curvature = curvature is not None, curvature or _Curvature(len(x0), alike)
    history, ended = [point.value], End.STOPPED if deadline.is_over() else None
    is_large = len(x0) > _COORDINATES_MEASURED
    last = _COMPARED if is_large else min(_COMPARED_IF_FEW, len(x0) + 1)
    if is_large and not (is_known or alike) and ended is None:
        _measure(minimand, point, curvature)
    while ended is None and len(history) <= max_iter:
        point, ended = _iterate(minimand, point, curvature, tol, first)
        if ended is None:
            history.append(point.value)
            if callback is not None and callback(len(history) - 1, -scale * point.value):
                ended = End.STOPPED
            elif len(history) > last and history[-1 - last] - history[-1] < tol:
                ended = End.CONVERGED
            elif deadline.is_over():
                ended = End.STOPPED
    return Maximum(point.x, -scale * point.value, len(history) - 1, ended or End.LIMIT, curvature)


def _measure(minimand: _Minimand, point: _Point, curvature: _Curvature) -> None:
    """Probe the units of all coordinates with steps of random signs."""
    signs = np.random.RandomState(0)
    for _ in range(_PROBES):
        near = minimand.at(point.x + _PROBE * signs.choice([-1.0, 1.0], len(point.x)))
        if np.isfinite(near.value):
            curvature.probe(near.x - point.x, near.gradient - point.gradient)


def _iterate(
    minimand: _Minimand, point: _Point, curvature: _Curvature, tol: float, first: float
) -> tuple[_Point, End | None]:
    """The next point, and why there is none: None while there is."""
    up, down = point.x < minimand.upper, point.x > minimand.lower
    free = np.where(point.gradient > 0, down, up) & (point.gradient != 0)
    gradient = np.where(free, point.gradient, 0.0)
    while True:
        newton = len(curvature.pairs) > 0
        direction = -np.where(free, curvature.times(gradient), 0.0)
        slope = direction @ gradient
        if newton and slope >= 0:
            curvature.pairs.clear()
            continue
        if newton and -0.5 * slope <= _WORTHLESS * tol or slope == 0:
            return point, End.CONVERGED
        if not newton:
            direction *= first / (np.linalg.norm(direction) or 1.0)
        best, still_steep = _search(minimand, point, direction)
        if best is not None:
            if still_steep:  # what was learned is stale: it proposes steps that are far too short
                curvature.pairs.clear()
            curvature.update(best.x - point.x, best.gradient - point.gradient)
            return best, None
        if not newton:
            is_stuck = -0.5 * slope > max(tol, 1e-9 * abs(point.value))
            return point, End.STUCK if is_stuck else End.CONVERGED
        curvature.pairs.clear()


def _search(minimand: _Minimand, point: _Point, direction: Array) -> tuple[_Point | None, bool]:
    """Point on the projected line that improves enough, or None; whether it falls as steeply there.

    Steps that fail are cut, to a tenth where the objective is not finite there; steps after which
    the line still falls steeply are tripled, and the best of them is kept.
    """
    step, best, slope = 1.0, None, point.gradient @ direction
    for _ in range(_TRIALS):
        trial = minimand.at(point.x + step * direction)
        if best is not None and trial.value >= best.value:
            break
        promised = min(point.gradient @ (trial.x - point.x), 0.0)
        if trial.value < point.value + _ARMIJO * promised:
            best = trial
            if trial.gradient @ direction >= _STEEP * slope:
                break
            if step >= _LONGEST_RELATIVE_STEP:
                return best, True
            step *= 3.0
        elif np.isfinite(trial.value):
            excess = 2.0 * (trial.value - point.value - step * slope)
            parabola = -slope * step / excess if excess > 0 else 0.5
            step *= min(max(parabola, 0.1), 0.5)
        else:
            step *= 0.1
    return best, False


def climb(
    function: VectorFunction, settings: Settings, x0: Array | None = None, **options: object
) -> Maximum:
    """`maximise` a `VectorFunction`, from x0 or from its blocks; options go before the settings."""
    given: dict[str, Any] = {"max_iter": settings.max_iter, "tol": settings.tol}
    given |= {"callback": settings.progress, "deadline": settings.deadline} | options
    x0, scale = function.pack() if x0 is None else x0, function.objective.size()
    return maximise(function, x0, function.limits(), scale=scale, **given)


_WINDOW = 5  # earlier steps that an accelerated one combines
_RIDGE = 1e-14  # of the least squares problem, relative to its trace
_DECREASE_TOLERANCE = 1e-12  # by which an objective that climbs may fall, relative
_GROWTH = 2.0  # by which the gap may grow in a step where nothing climbs
_STALLED = 30  # iterations without progress after which there will be none


class Step(NamedTuple):
    """The map evaluated at one state."""

    target: Any  # where the plain map leads, of the kind of the state
    scaled: Callable | Any  # change of a state -> the same in units in which its squares are nats
    gap: float  # estimate of what the objective is short of
    value: float  # objective
    climbs: bool  # whether the objective must not fall; otherwise the gap must not grow
    result: Any  # whatever else was computed


class Solution(NamedTuple):
    """The best state that was accepted, and what was computed there."""

    state: Any
    step: Step
    n_iter: int
    converged: bool
    history: Sequence  # of steps, for another solve of a map that is nearly the same


def solve_fixed_point(
    evaluate: Callable,
    state: object,
    admissible: Callable,
    *,
    tol: float,
    max_iter: int,
    size: float | None = None,
    history: Iterable = (),
    propose: Callable | None = None,
) -> Solution:
    """`Solution` of ``state -> evaluate(state).target``, iterated until the gap closes.

    This is Anderson acceleration (type II, Walker and Ni 2011) of the plain map. A state whose
    value falls below the last one is taken back: from there half a plain step, then a quarter, and
    so on. ``admissible(proposal, plain)`` moves an accelerated step back to where the map is
    defined; elsewhere its gap is NaN, and ``LinAlgError`` is raised if it is at the start. The
    tolerance is relative to `size`, by default the value or 1. ``propose(state, step)`` is a state
    in the place of the accelerated one.
    """
    step = evaluate(state)
    if not np.isfinite(step.gap):
        raise np.linalg.LinAlgError(
            "The sites overflow: the latent variance is too large for the likelihood. Lower the "
            "upper bound of the kernel's variance, or check the parameters of the likelihood."
        )
    n_iter, closest = 1, (state, step)
    history, damping, since_best = deque(history, maxlen=_WINDOW), 1.0, 0
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


def _closed(step: Step, tol: float, size: float | None) -> bool:
    return step.gap <= tol * max(1.0, abs(step.value) if size is None else size)


def _accepted(trial: Step, step: Step) -> bool:
    if not np.isfinite(trial.gap):
        return False
    if step.climbs:
        return trial.value >= step.value - _DECREASE_TOLERANCE * max(1.0, abs(step.value))
    return trial.gap <= _GROWTH * step.gap


def _accelerated(state: object, step: Step, history: Sequence) -> Any:
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


def _dot(first: Iterable, second: Iterable) -> float:
    return sum(map(np.vdot, first, second))

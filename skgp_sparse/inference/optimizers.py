"""Quasi-Newton maximisation that survives failed evaluations and says how it ended."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

_CORRECTIONS = 50  # of L-BFGS: with thousands of coordinates of Z, more than the usual 10 pay
_RESCALED_AFTER = 20  # iterations, and twice, four times ... as many: Z's curvatures differ widely
_MANY = 50  # coordinates for which that is done
_STOPPED = 99  # status of scipy where the callback stops
_FACTOR = 30.0  # at most, between the unit of a coordinate and the usual one
_PATIENCE = 15  # most steps over which an improvement is judged: nearly singular Kuu takes as many


class Maximum(NamedTuple):
    """Best point that was evaluated."""

    x: np.ndarray
    value: float
    n_iter: int
    converged: bool
    message: str


class _Recorder:
    """Remembers the best point, and turns failures into walls to step back from.

    A failed evaluation (not positive definite, or not finite) answers with a paraboloid above the
    best value so far, whose slope leads back to the best point: the line search shortens its step.

    L-BFGS-B sees coordinates in units of their own, and the objective divided by the length of its
    first gradient, which it takes for the first step where coordinates have bounds: so that step
    has length 1.
    """

    def __init__(self, function, x0, bounds):
        self.function, self.bounds = function, bounds
        value, gradient = function(x0)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            raise np.linalg.LinAlgError(
                f"The objective is not finite at the start (got {value}). Check the scale of X "
                "and y and the initial hyperparameters of the kernel."
            )
        self.x, self.value, self.gradient = x0.copy(), value, gradient
        self.begin(np.ones(len(x0)))

    def begin(self, units):
        """Go on from the best point, coordinates in new units."""
        self.units, self.known = units, True
        lower, upper = self.bounds.T
        free = np.where(self.gradient > 0, self.x < upper, self.x > lower)
        self.scale = np.linalg.norm((self.gradient * units)[free]) or 1.0
        self.last = self.x, self.gradient
        self.moved, self.changed = np.zeros(len(units)), np.zeros(len(units))

    def __call__(self, scaled):
        if self.known:  # the first point of a run is the best one
            self.known = False
            return self._answer(self.value, self.gradient)
        x = np.clip(scaled * self.units, *self.bounds.T)
        try:
            value, gradient = self.function(x)
        except np.linalg.LinAlgError:
            value, gradient = np.nan, np.nan
        if np.isfinite(value) and np.all(np.isfinite(gradient)):
            self._note(x, gradient)
            if value > self.value:
                self.x, self.value, self.gradient = x, value, gradient
            return self._answer(value, gradient)
        step = x - self.x
        height = self.scale + abs(self.value)
        return self._answer(self.value - height * (1.0 + 0.5 * step @ step), -height * step)

    def better_units(self):
        """Units in which the curvatures that were seen are alike."""
        seen = (self.moved > 0) & (self.changed > 0)
        if not seen.any():
            return self.units
        curvature = np.sqrt(np.where(seen, self.changed, 1.0) / np.where(seen, self.moved, 1.0))
        usual = np.median(curvature[seen])
        units = np.where(seen, np.sqrt(usual / curvature), 1.0)
        return np.clip(units, 1.0 / _FACTOR, _FACTOR)

    def _answer(self, value, gradient):
        return -value / self.scale, -gradient * self.units / self.scale

    def _note(self, x, gradient):
        step = x - self.last[0]
        if step @ step < 1.0:  # curvature is a local matter
            self.moved += step**2
            self.changed += (gradient - self.last[1]) ** 2
        self.last = x, gradient


def maximise(function, x0, bounds, *, max_iter, ftol, gtol=1e-5, scale=1.0, callback=None):
    """Maximise by L-BFGS-B (Byrd, Lu, Nocedal and Zhu 1995).

    Where there are many coordinates, it begins anew after 20, 40, 80 ... iterations, from the best
    point, in units in which the curvatures seen since the last time are alike: 50 corrections
    cannot tell it how thousands of coordinates differ.

    Parameters
    ----------
    function : callable
        ``x -> (value, gradient)``; may raise ``LinAlgError``.
    x0 : ndarray of shape (size,)
    bounds : ndarray of shape (size, 2)
    max_iter : int
        Most iterations.
    ftol, gtol : float
        Stop when the relative improvement of ``value / scale`` per iteration, over the last few,
        or its projected gradient, is below.
    scale : float
        Divides the value before it is judged.
    callback : callable or None
        Called as ``callback(iteration, value)``; may return True to stop.

    Returns
    -------
    Maximum
    """
    x0 = np.clip(x0, bounds[:, 0], bounds[:, 1])
    recorder = _Recorder(function, x0, bounds)
    if len(x0) == 0:
        return Maximum(x0, recorder.value, 0, True, "nothing to optimise")
    history = []
    patience = min(_PATIENCE, len(x0) + 1)  # steps that show every direction

    def report(_):
        history.append(recorder.value / scale)
        asked_to_stop = callback is not None and callback(len(history), recorder.value)
        if asked_to_stop or _settled(history, ftol, patience):
            raise StopIteration

    def run(steps):
        return minimize(
            recorder,
            recorder.x / recorder.units,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds / recorder.units[:, None],
            callback=report,
            options={
                "maxiter": steps,
                "maxfun": 3 * steps + 20,
                "maxcor": _CORRECTIONS,
                "ftol": 0.0,  # judged by _settled: one short step is no convergence
                "gtol": gtol * scale / recorder.scale,
            },
        )

    for end in _stages(max_iter) if len(x0) > _MANY else [max_iter]:
        result = run(end - len(history))
        if result.success or result.status == _STOPPED or len(history) >= max_iter:
            break
        recorder.begin(recorder.better_units())
    converged = result.success or result.status == _STOPPED or _settled(history, ftol, 1)
    return Maximum(recorder.x, recorder.value, len(history), converged, str(result.message))


def _stages(max_iter):
    """Iterations after which coordinates are rescaled, and the last one."""
    end = _RESCALED_AFTER
    while end < max_iter:
        yield end
        end *= 2
    yield max_iter


def _settled(history, ftol, steps):
    """Whether the last steps improved the value by less than `ftol` each, relative to 1 or more."""
    if len(history) <= steps:
        return False
    improvement = history[-1] - history[-1 - steps]
    return improvement <= steps * ftol * max(abs(history[-1]), 1.0)

"""Quasi-Newton maximisation that survives failed evaluations and says how it ended."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

_CORRECTIONS = 50  # of L-BFGS: with thousands of coordinates of Z, more than the usual 10 pay
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

    L-BFGS-B sees the objective divided by the length of its first gradient, which it takes for the
    first step where coordinates have bounds: so that step has length 1.
    """

    def __init__(self, function, x0, bounds):
        self.function, self.x, self.value = function, None, -np.inf
        value, gradient = function(x0)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            raise np.linalg.LinAlgError(
                f"The objective is not finite at the start (got {value}). Check the scale of X "
                "and y and the initial hyperparameters of the kernel."
            )
        self.x, self.value = x0.copy(), value
        lower, upper = bounds.T
        free = np.where(gradient > 0, x0 < upper, x0 > lower)
        self.unit = np.linalg.norm(gradient[free]) or 1.0
        self.first = -value / self.unit, -gradient / self.unit

    def __call__(self, x):
        if self.first is not None:
            first, self.first = self.first, None
            return first
        try:
            value, gradient = self.function(x)
        except np.linalg.LinAlgError:
            value, gradient = np.nan, np.nan
        if np.isfinite(value) and np.all(np.isfinite(gradient)):
            if value > self.value:
                self.x, self.value = x.copy(), value
            return -value / self.unit, -gradient / self.unit
        step = x - self.x
        height = 1.0 + abs(self.value) / self.unit
        return -self.value / self.unit + height * (1.0 + 0.5 * step @ step), height * step


def maximise(function, x0, bounds, *, max_iter, ftol, gtol=1e-5, scale=1.0, callback=None):
    """Maximise by L-BFGS-B (Byrd, Lu, Nocedal and Zhu 1995).

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

    result = minimize(
        recorder,
        x0,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=report,
        options={
            "maxiter": max_iter,
            "maxfun": 3 * max_iter + 20,
            "maxcor": _CORRECTIONS,
            "ftol": 0.0,  # judged by _settled: one short step is no convergence
            "gtol": gtol * scale / recorder.unit,
        },
    )
    converged = result.success or result.status == 99 or _settled(history, ftol, 1)
    return Maximum(recorder.x, recorder.value, result.get("nit", 0), converged, str(result.message))


def _settled(history, ftol, steps):
    """Whether the last steps improved the value by less than `ftol` each, relative to 1 or more."""
    if len(history) <= steps:
        return False
    improvement = history[-1] - history[-1 - steps]
    return improvement <= steps * ftol * max(abs(history[-1]), 1.0)

"""Fits of few rows: where they begin, and where they end.

An evaluation costs little here, so that a fit may begin from several values of theta, and may go on
across plateaus on which a fit of many rows would end.
"""

from contextlib import suppress

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.inference import periods
from skgp_sparse.inference.optimizers import STOPPED, STUCK, climb, limit_reached
from skgp_sparse.inference.parameter_vectors import VectorFunction

_SOME_ROWS = 10_000  # that tell how far apart places on a sphere are
_NEAR, _NEAR_NATS = 0.3, 0.1  # of an end: in logarithms of hyperparameters, and in nats
_RESCUES = 4  # starts after an optimum that explains nothing
_IN_A_BASIN = 0.4  # first step of a kernel with periods; from one on, it left the basin
_NEGLIGIBLE_GAIN = 1e-5  # nats, of all rows, that the last iterations of a run gain ...
_ENOUGH = 0.003  # ... and a whole run, from which the next one follows


def fit_exact(objective, kernel, settings, random_state):
    """Maximise the objective of few rows over theta.

    Starts at the kernel's own theta, at the periods of a periodogram where these are free, at the
    spread of the rows where places are on a sphere, and at `n_restarts` points drawn uniformly
    between the bounds; of a kernel with periods, every second one has the kernel's own theta but
    for these. Where the own theta leads to an optimum that explains the targets no better than
    noise alone, a few starts around it are tried before that is believed. With a
    `ThoroughSearch`, it has further starts, of which the best one ends at an optimum, and so does
    each of those that follow, unless it comes to where another one has ended or explains nothing.
    Of periods that rows cannot tell apart, the longest wins.

    Returns
    -------
    function : VectorFunction
    maximum : Maximum
        The best one, the prior of theta included.
    """
    prior, thorough = settings.prior, settings.thorough
    function, ends = VectorFunction(objective, kernel, prior=prior), []
    within = VectorFunction(objective, thorough.kernel, prior=prior) if thorough else function
    first = _IN_A_BASIN if periods.places(kernel) else 1.0

    def rough(theta):
        return climb(function, settings, function.parameters.pack(kernel=theta), first=first)

    def fine(maximum, least=-np.inf):
        if not thorough or any(_is_over(maximum, end, least) for end in ends):
            return maximum
        ends.append(_finished(within, settings, maximum))
        return ends[-1]

    others = settings.deadline.until(_others(objective, kernel, thorough))
    best = fine(_best(rough, rough(kernel.theta), others))
    if len(kernel.theta) == 0:
        return within, best
    reached, _ = within.at(best.x)
    of_noise = reached.constant_log_likelihood()
    if not settings.believes_noise and best.value < of_noise:
        best = fine(_best(rough, best, settings.deadline.until(_around(kernel.theta))))
    drawn = settings.deadline.until(_further(objective, kernel, settings, random_state))
    best = _best(lambda theta: fine(rough(theta), of_noise), best, drawn)
    return within, periods.with_longest(within, best)


def _others(objective, kernel, thorough):
    """Starts beside the kernel's own: of places on a sphere, and those of a `ThoroughSearch`."""
    rows = objective.rows
    if kernels.parts(kernel, kernels.Sphere):
        some = rows.sampled(rows.sample(_SOME_ROWS, np.random.RandomState(0)))
        theta = kernels.theta_of_spread(kernel, np.asarray(some.stored_inputs(), dtype=np.float64))
        yield from () if theta is None else (theta,)
    yield from thorough.starts if thorough else ()


def _best(climb_from, best, thetas):
    """The highest `Maximum`: the best one so far, or one from other starts; ends if told to."""
    for theta in thetas:
        if best.message == STOPPED:
            break
        with suppress(np.linalg.LinAlgError):  # of a start that no one asked for by name
            last = climb_from(theta)
            best = max(best, last, key=lambda maximum: maximum.value)
            if last.message == STOPPED:
                best = best._replace(message=STOPPED)
    return best


def _finished(function, settings, maximum):
    """The `Maximum` after further runs, until one gains next to nothing.

    All but the first run forget the curvature, so that they take a long step at first.
    """
    gain, curvature = np.inf, maximum.curvature
    tol = min(settings.tol, _NEGLIGIBLE_GAIN / function.objective.size())
    while gain > _ENOUGH and maximum.converged and maximum.message != STOPPED:
        left = settings.max_iter - maximum.n_iter
        if left <= 0 or settings.deadline.is_over():
            break
        run = climb(function, settings, maximum.x, max_iter=left, tol=tol, curvature=curvature)
        gain, curvature = run.value - maximum.value, None
        n_iter, converged = maximum.n_iter + run.n_iter, run.converged or run.message == STUCK
        message = run.message if converged else limit_reached(settings.max_iter)  # of the whole fit
        maximum = run._replace(n_iter=n_iter, converged=converged, message=message)
    return maximum


def _is_over(maximum, end, least):
    """Whether a run need not go on: it is where another one has ended, or explains nothing.

    `least`: the value from which it explains something.
    """
    gap = end.value - maximum.value
    is_near = gap < _NEAR_NATS and np.abs(end.x - maximum.x).max(initial=0.0) < _NEAR
    return gap >= 0 and (is_near or maximum.value < least)


def _around(theta):
    """A few starts around a theta."""
    return theta + np.random.RandomState(0).normal(size=(_RESCUES, len(theta)))


def _further(objective, kernel, settings, random_state):
    """Starts beside the kernel's own: those of a periodogram, and those that are drawn."""
    if settings.find_periods:
        yield from periods.starts(objective, kernel, settings.prior)
    limits = periods.limits(kernel, objective.rows)
    yield from restarts(kernel, limits, settings.n_restarts, random_state)


def restarts(kernel, limits, n_restarts, random_state):
    """Starts that are drawn; with periods, every second one has the kernel's other values.

    They are the same for fewer restarts, so that more of them never harm.
    """
    places = periods.places(kernel)
    for index, theta in enumerate(drawn_starts(limits, n_restarts, random_state)):
        if places and index % 2 == 0:
            theta = np.where(np.isin(np.arange(len(theta)), places), theta, kernel.theta)
        yield theta


def drawn_starts(limits, n_restarts, random_state):
    """Random starts of theta, uniform between its bounds: log-uniform hyperparameters."""
    for _ in range(n_restarts):
        yield random_state.uniform(*limits.T)

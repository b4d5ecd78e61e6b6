"""Hyperparameters from an exact fit of few rows: restarts happen here, where they are cheap."""

from contextlib import suppress
from itertools import chain

import numpy as np

from skgp_sparse.inference.optimizers import maximise
from skgp_sparse.inference.parameters import VectorFunction, positions_of

_ITERATIONS = 200
_RESCUES = 4
_LONGEST = 5.0  # typical distances between rows
_IN_A_BASIN = 0.4  # first step of a kernel with periods; from one on, it left the basin
_COARSER = 10.0  # the tolerance of a start, in units of that of the fit


def fit_exact(objective, kernel, *, n_restarts, random_state, max_iter, tol, callback=None):
    """Maximise the objective of few rows over theta.

    Starts at the kernel's own theta and at `n_restarts` points drawn uniformly between the bounds;
    of a kernel with periods, every second one has the kernel's own theta but for these.
    Where its own theta leads to an optimum that explains the targets no better than noise alone, a
    few starts around it are tried before that is believed.

    Returns
    -------
    objective : Objective
        With the best values of its own parameters, if it has any.
    kernel : sklearn kernel
        Clone at the best theta.
    maximum : Maximum
    inner_state : object
        What the last evaluation remembers.
    """
    function = VectorFunction(objective, kernel)
    limits = np.reshape(kernel.bounds, (-1, 2))
    asked_to_stop = []

    def report(iteration, value):
        if callback is not None and callback(iteration, value):
            asked_to_stop.append(iteration)
        return bool(asked_to_stop)

    def run(theta):
        return maximise(
            function,
            function.parameters.pack(kernel=theta),
            function.parameters.limits(),
            max_iter=max_iter,
            tol=tol,
            scale=objective.size(),
            first=_IN_A_BASIN if _periods(kernel) else 1.0,
            callback=report,
        )

    best = run(kernel.theta)
    collapsed = best.value < function.at(best.x)[0].constant_log_likelihood()
    for theta in _further_starts(kernel, limits, collapsed, n_restarts, random_state):
        if asked_to_stop:
            break
        with suppress(np.linalg.LinAlgError):  # of a start that no one asked for by name
            best = max(best, run(theta), key=lambda found: found.value)
    return *function.at(best.x), best, function.inner_state


def _further_starts(kernel, limits, collapsed, n_restarts, random_state):
    """Starts after the first; the same for fewer restarts, so that more of them never harm."""
    if len(limits) == 0:
        return
    yield from kernel.theta + np.random.RandomState(0).normal(
        size=(_RESCUES * collapsed, len(limits))
    )
    periods = _periods(kernel)
    for index, theta in enumerate(drawn_starts(limits, n_restarts, random_state)):
        if periods and index % 2 == 0:
            theta = np.where(np.isin(np.arange(len(theta)), periods), theta, kernel.theta)
        yield theta


def _periods(kernel):
    """Indices of the periods in theta; each of them has a basin of its own."""
    return [*chain(*positions_of(kernel, "periodicity"))]


def drawn_starts(limits, n_restarts, random_state):
    """One theta after the other, uniform between its bounds: log-uniform hyperparameters."""
    for _ in range(n_restarts):
        yield random_state.uniform(*limits.T)


def fit_few(rows, kernel, model, size, *, options, n_restarts, random_state, tol):
    """The model and the kernel with the hyperparameters of an exact fit to `size` random rows."""
    few = rows.sampled(model.sample(rows, size, random_state))
    objective = model.exact(few, options, rough=True)
    objective, found, _, _ = fit_exact(
        objective,
        kernel,
        n_restarts=n_restarts,
        random_state=random_state,
        max_iter=_ITERATIONS,
        tol=_COARSER * tol,
    )
    return model.informed_by(objective), within_reach(found, kernel, rows)


def within_reach(found, kernel, rows):
    """The kernel that was found from another one, ready for a fit to go on from it.

    Length scales that ran away, as those of irrelevant inputs do, are brought back to where the
    objective has a slope: at most a few typical distances, or the other kernel's value.
    """
    theta = found.theta
    for positions in positions_of(kernel, "length_scale"):
        spread = rows.scale() if len(positions) > 1 else rows.scale().max()
        longest = np.log(_LONGEST * spread * np.sqrt(rows.n_features))
        longest = np.maximum(longest, kernel.theta[positions])
        theta[positions] = np.minimum(theta[positions], longest)
    return found.clone_with_theta(theta)

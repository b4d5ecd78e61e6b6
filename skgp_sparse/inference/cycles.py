"""Cycles of minibatches, which may follow the samples of a stochastic fit.

A step takes the gradient of one batch with the running posterior held
(`skgp_sparse.inference.minibatches`), and Adam moves theta and Z with a step size that falls to
zero along a cosine. A cycle that loses on rows held aside is undone; the steps of Z are a fifth
after it. Cycles double in length until one of them gains less than the tolerance.
"""

import numpy as np

from skgp_sparse.inference.parameters import VectorFunction, arithmetic
from skgp_sparse.inference.samples import MOST
from skgp_sparse.inference.stochastic import warn_of_failure

_CYCLE, _MOST_LOST = 400, 2  # steps of the first cycle; cycles that may lose in a row
_STEPS_OF_AN_ITERATION = 10  # where `max_iter` counts steps
_WARM = 20  # steps until the step size is reached
_STEP, _STEP_OF_BASIS = 0.01, 0.005  # in the units of the blocks of parameters
_WINDOW, _LONGEST_WINDOW = 12, 200  # batches in the running means, by the step size
_DECAYS = 0.9, 0.99  # of Adam's moments
_EVERY = 50  # steps between reports


def climb_by_minibatches(search, state, batch_size):
    """The `State` of a `Search` after cycles of minibatches."""
    draw_batch = search.samples.batches(batch_size)
    steps, step_of_basis, lost = _CYCLE, _STEP_OF_BASIS, 0
    left = _STEPS_OF_AN_ITERATION * search.plan.max_iter
    while not search.stopped and lost < _MOST_LOST and left > 0:
        before, steps = state, min(steps, left)
        left -= steps
        try:
            objective, kernel = _cycle(search, state, draw_batch, steps, step_of_basis)
            sample = search.samples.draw(min(steps * batch_size, MOST))
            state = search.better(state, objective, kernel, sample)
        except np.linalg.LinAlgError as error:
            warn_of_failure(f"A cycle of {steps} minibatches failed", error)
        if state is before:
            step_of_basis, lost = step_of_basis / 5.0, lost + 1
        elif state.gain_on(before)[0] < search.plan.tol:
            break
        else:
            steps, lost = 2 * steps, 0
    return state


def _cycle(search, state, draw_batch, steps, step_of_basis):
    """The objective and the kernel after Adam's steps."""
    function = VectorFunction(state.objective, state.kernel, search.move_basis)
    parameters = function.parameters
    vector, limits = parameters.pack(), parameters.limits().T
    units = parameters.filled(_STEP, basis=step_of_basis)
    adam, posterior = Adam(len(vector)), state.posterior
    for step in range(steps):
        rate = min(1.0, (step + 1) / _WARM) * 0.5 * (1.0 + np.cos(np.pi * step / steps))
        share = max(rate / _WINDOW, 1.0 / _LONGEST_WINDOW)
        objective, kernel = function.at(vector)
        part = objective.on(draw_batch())
        with arithmetic():
            gradient, posterior = search.minibatch_view.step(
                part, kernel, posterior, share, search.move_basis
            )
        direction = adam.direction(parameters.pack_gradient(gradient))
        if not np.all(np.isfinite(direction)):
            raise np.linalg.LinAlgError("The gradient of a minibatch is not finite.")
        vector = np.clip(vector + rate * units * direction, *limits)
        search.seen += len(part.rows)
        if (step + 1) % _EVERY == 0 and search.report((step + 1) // _EVERY, state):
            break
    return function.at(vector)


class Adam:
    """Steps of a size of their own for every coordinate (Kingma and Ba 2015)."""

    def __init__(self, size):
        self.moments, self.count = [np.zeros(size), np.zeros(size)], 0

    def direction(self, gradient):
        """The next step, about one in every coordinate."""
        self.count += 1
        means = []
        for moment, decay, value in zip(self.moments, _DECAYS, (gradient, gradient**2)):
            moment += (1.0 - decay) * (value - moment)
            means.append(moment / (1.0 - decay**self.count))
        return means[0] / (np.sqrt(means[1]) + np.finfo(float).tiny)

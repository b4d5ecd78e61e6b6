"""Training on parts of the data: growing random samples, then one pass over all rows.

Only theta and Z need to be learned from parts: at given ones, one pass over all rows gives the
posterior. What precedes it costs what the rows of the samples cost, however many rows there are.

1. L-BFGS on growing samples (`STAGES`), each from where the last one ended. The rows of the larger
   ones stand for all rows, so that their optimum is that of as much data.
2. Cycles of minibatches, if their size is given. A step takes the gradient of one batch with the
   running posterior held (`skgp_sparse.inference.minibatches`), and Adam moves theta and Z with a
   step size that falls to zero along a cosine. Cycles double in length until one of them gains less
   than the tolerance; the steps of Z are a fifth after a cycle that is undone.
3. The posterior given all rows.

Stages and cycles are judged by the log density of held-out rows. One that loses by more
than two standard errors is undone.
"""

import time
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse.exceptions import warn
from skgp_sparse.inference.contracts import Objective, VectorFunction, arithmetic
from skgp_sparse.inference.minibatches import MOST, Samples
from skgp_sparse.inference.optimizers import climb

_CLEAR = 2.0  # standard errors of a loss that counts
_CYCLE, _MOST_LOST = 400, 2  # steps of the first cycle; cycles that may lose in a row
_STEPS_OF_AN_ITERATION = 10  # where `max_iter` counts steps
_WARM = 20  # steps until the step size is reached
_STEP, _STEP_OF_BASIS = 0.01, 0.005  # in the units of the blocks of parameters
_WINDOW, _LONGEST_WINDOW = 12, 200  # batches in the running means, by the step size
_DECAYS = 0.9, 0.99  # of Adam's moments
_EVERY = 50  # steps between reports


class Stage(NamedTuple):
    """L-BFGS on a random sample."""

    rows: int  # per inducing point
    most: float  # iterations, of those that a fit may have
    stand_for_all: bool  # whether each row counts as often as there are more rows


STAGES = (
    Stage(20, 40, False),
    Stage(80, 100, True),
    Stage(160, np.inf, True),
    Stage(320, 10, True),
)


def stages(n_inducing, n):
    """Stages whose samples are less than n rows."""
    return [stage for stage in STAGES if stage.rows * n_inducing < n]


class State(NamedTuple):
    """Where the search is."""

    objective: Objective  # of all rows
    kernel: object
    posterior: object = None  # `RunningPosterior`, from a sample
    densities: np.ndarray | float = -np.inf  # log densities of the held-out rows
    ascent: tuple | None = None  # function of a vector and `Maximum`, of rows that stand for all

    def gain_on(self, other):
        """Mean gain in log density on another state, and its standard error."""
        gains = self.densities - other.densities
        return np.mean(gains), np.std(gains) / np.sqrt(np.size(gains))


class Search:
    """Looks for theta and Z on parts of the rows.

    Parameters
    ----------
    objective : Objective
        Of all rows.
    model : ObjectiveFactory
    settings : Settings
    move_basis : bool
    random_state : RandomState
    """

    def __init__(self, objective, model, settings, move_basis, random_state):
        self.settings, self.move_basis = settings, move_basis
        self.rows, self.width = objective.rows, objective.basis.size
        self.minibatch_view = objective.minibatch_view()
        self.samples = Samples(self.rows, model.kinds(self.rows), random_state)
        self.started, self.n_visited = time.perf_counter(), 0
        self.n_iter, self.stopped, self.unfinished = 0, False, None

    def start(self, objective, kernel):
        """The first state."""
        sample = self.samples.draw(STAGES[0].rows * self.width)
        return self.better(State(objective, kernel), objective, kernel, sample)

    def climb(self, state, stage):
        """The state after a stage, or the one before if that was better."""
        sample = self.samples.draw(stage.rows * self.width)
        try:
            return self._climb(state, stage, sample)
        except np.linalg.LinAlgError as error:
            _warn_of_failure(f"A sample of {len(sample)} rows could not be fitted", error)
            return state._replace(ascent=None)

    def function(self, objective, kernel):
        """The `VectorFunction` of an objective from a kernel on; the prior counts once."""
        return VectorFunction(objective, kernel, self.move_basis, self.settings.prior)

    def conclude(self, state):
        """`Conclusion` from all rows."""
        with arithmetic():
            return self.minibatch_view.conclude(state.objective, state.kernel, state.posterior)

    def better(self, before, objective, kernel, sample):
        """The state at another point, with the posterior from a sample.

        It is the one before where that is clearly better: a loss within two standard errors says
        nothing.
        """
        for_all, held = objective.on(self.samples.for_all(sample)), objective.on(self.samples.held)
        with arithmetic():
            posterior = self.minibatch_view.start(for_all, kernel)
            densities = self.minibatch_view.log_densities(held, kernel, posterior)
        state = State(objective.on(self.rows), kernel, posterior, densities)
        gain, error = state.gain_on(before) if before.posterior else (np.inf, 0.0)
        is_kept = gain >= -_CLEAR * error  # not if the gain is no number
        return state if is_kept else before

    def report(self, iteration, state):
        """Tell the progress of a stage or of a cycle; returns whether to stop."""
        self.n_iter += 1
        if self.settings.progress is None:
            return False
        density = np.mean(state.densities)
        passes, seconds = self.n_visited / len(self.rows), time.perf_counter() - self.started
        note = f"{passes:.2f} passes over the rows, {seconds:.1f} s"
        note += f", log density of held-out rows {density:.4f}"
        self.stopped |= bool(self.settings.progress(iteration, note=note))
        return self.stopped

    def _climb(self, state, stage, sample):
        rows = self.samples.for_all(sample) if stage.stand_for_all else sample
        if state.ascent is None:
            part = state.objective.on(rows)
            function, x0, curvature = self.function(part, state.kernel), None, None
        else:  # nearly the same function: the rows of before stood for all, too
            function, maximum = state.ascent
            function, x0, curvature = function.on(rows), maximum.x, maximum.curvature

        def report(iteration, _):
            self.n_visited += len(sample)
            return self.report(iteration, state)

        most = int(min(stage.most, self.settings.max_iter))
        options = {"max_iter": most, "callback": report, "curvature": curvature}
        maximum = climb(function, self.settings, x0, **options)
        if np.isinf(stage.most) and not maximum.converged:
            self.unfinished = maximum
        better = self.better(state, *function.at(maximum.x), sample)
        goes_on = stage.stand_for_all and better is not state
        return better._replace(ascent=(function, maximum) if goes_on else None)


def climb_by_minibatches(search, state, batch_size):
    """The `State` of a `Search` after cycles of minibatches."""
    draw_batch = search.samples.batches(batch_size)
    steps, step_of_basis, lost = _CYCLE, _STEP_OF_BASIS, 0
    left = _STEPS_OF_AN_ITERATION * search.settings.max_iter
    deadline = search.settings.deadline
    while not search.stopped and lost < _MOST_LOST and left > 0 and not deadline.is_over():
        before, steps = state, min(steps, left)
        left -= steps
        try:
            objective, kernel = _cycle(search, state, draw_batch, steps, step_of_basis)
            sample = search.samples.draw(min(steps * batch_size, MOST))
            state = search.better(state, objective, kernel, sample)
        except np.linalg.LinAlgError as error:
            _warn_of_failure(f"A cycle of {steps} minibatches failed", error)
        if state is before:
            step_of_basis, lost = step_of_basis / 5.0, lost + 1
        elif state.gain_on(before)[0] < search.settings.tol:
            break
        else:
            steps, lost = 2 * steps, 0
    return state


def _cycle(search, state, draw_batch, steps, step_of_basis):
    """The objective and the kernel after Adam's steps."""
    function = search.function(state.objective, state.kernel)
    parameters, share_of_prior = function.parameters, 1.0 / search.minibatch_view.total
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
        gradient["kernel"] = gradient["kernel"] + share_of_prior * function.prior.gradient(
            kernel.theta
        )
        direction = adam.direction(parameters.pack_gradient(gradient))
        if not np.all(np.isfinite(direction)):
            raise np.linalg.LinAlgError(
                "The gradient of a minibatch is not finite. Check the scale of X and y."
            )
        vector = np.clip(vector + rate * units * direction, *limits)
        search.n_visited += len(part.rows)
        is_told = (step + 1) % _EVERY == 0 and search.report((step + 1) // _EVERY, state)
        if is_told or search.settings.deadline.is_over():
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


def _warn_of_failure(what, error):
    """Warn of a stage or a cycle that failed, and is left out."""
    warn(f"{what}, so that the fit goes on from what it had before. {error}", ConvergenceWarning)

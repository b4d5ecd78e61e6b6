"""Training on parts of the data: growing random samples, then one pass over all rows.

Only theta and Z need to be learned from parts: at given ones, one pass over all rows gives the
posterior. What precedes it costs what the rows of the samples cost, however many rows there are.

1. L-BFGS on growing samples (`STAGES`), each from where the last one ended. The rows of the larger
   ones stand for all rows, so that their optimum is that of as much data.
2. Minibatches, if their size is given (`skgp_sparse.inference.cycles`).
3. The posterior given all rows.

A stage is judged by the log density of rows that were held aside. One that loses by more than two
standard errors is undone.
"""

import time
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.contracts import Objective
from skgp_sparse.inference.optimizers import climb
from skgp_sparse.inference.parameters import VectorFunction, arithmetic
from skgp_sparse.inference.samples import Samples

_CLEAR = 2.0  # standard errors of a loss that counts


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
    """Those whose samples are less than n rows."""
    return [stage for stage in STAGES if stage.rows * n_inducing < n]


class State(NamedTuple):
    """Where the search is."""

    objective: Objective  # of all rows
    kernel: object
    posterior: object = None  # `RunningPosterior`, from a sample
    densities: np.ndarray | float = -np.inf  # log densities of the rows held aside
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
    model : Model
    plan : Plan
    move_basis : bool
    random_state : RandomState
    """

    def __init__(self, objective, model, plan, move_basis, random_state):
        self.plan, self.move_basis = plan, move_basis
        self.rows, self.width = objective.rows, len(objective.inducing_points)
        self.minibatch_view = objective.minibatch_view()
        self.samples = Samples(self.rows, model.kinds(self.rows), random_state)
        self.started, self.seen = time.perf_counter(), 0
        self.n_iter, self.stopped, self.unfinished = 0, False, None

    def begin(self, objective, kernel):
        """The first state."""
        sample = self.samples.draw(STAGES[0].rows * self.width)
        return self.better(State(objective, kernel), objective, kernel, sample)

    def climb(self, state, stage):
        """The state after a stage, or the one before if that was better."""
        sample = self.samples.draw(stage.rows * self.width)
        try:
            return self._climb(state, stage, sample)
        except np.linalg.LinAlgError as error:
            warn_of_failure(f"A sample of {len(sample)} rows could not be fitted", error)
            return state._replace(ascent=None)

    def conclude(self, state):
        """`Conclusion` from all rows."""
        with arithmetic():
            return self.minibatch_view.conclude(state.objective, state.kernel, state.posterior)

    def better(self, before, objective, kernel, sample):
        """The state at another point, with the posterior from a sample.

        It is the one before where that is clearly better: a loss within two standard errors says
        nothing.
        """
        with arithmetic():
            posterior = self.minibatch_view.start(
                objective.on(self.samples.for_all(sample)), kernel
            )
            held = objective.on(self.samples.held)
            densities = self.minibatch_view.log_densities(held, kernel, posterior)
        state = State(objective.on(self.rows), kernel, posterior, densities)
        gain, error = state.gain_on(before) if before.posterior else (np.inf, 0.0)
        is_kept = gain >= -_CLEAR * error  # not if the gain is no number
        return state if is_kept else before

    def report(self, iteration, state):
        """Tell the progress of a stage or a cycle; whether to stop."""
        self.n_iter += 1
        if self.plan.progress is None:
            return False
        density = np.mean(state.densities)
        note = (
            f"{self.seen / len(self.rows):.2f} passes over the rows, "
            f"{time.perf_counter() - self.started:.1f} s, log density of rows held aside "
            f"{density:.4f}"
        )
        self.stopped |= bool(self.plan.progress(iteration, density, note=note))
        return self.stopped

    def _climb(self, state, stage, sample):
        rows = self.samples.for_all(sample) if stage.stand_for_all else sample
        part = state.objective.on(rows)
        function, vector, curvature = self._function(part, state)

        def report(iteration, value):
            self.seen += len(sample)
            return self.report(iteration, state)

        most = int(min(stage.most, self.plan.max_iter))
        options = {"max_iter": most, "callback": report, "curvature": curvature}
        maximum = climb(function, self.plan, vector, **options)
        if np.isinf(stage.most) and not maximum.converged:
            self.unfinished = maximum
        better = self.better(state, *function.at(maximum.x), sample)
        goes_on = stage.stand_for_all and better is not state
        return better._replace(ascent=(function, maximum) if goes_on else None)

    def _function(self, part, state):
        """The function of a stage, the vector where it begins, and the curvature that is known.

        After a stage whose rows stood for all, too, the function is nearly the same.
        """
        if state.ascent is None:
            function = VectorFunction(part, state.kernel, self.move_basis)
            return function, function.parameters.pack(), None
        function, maximum = state.ascent
        return function.on(part.rows), maximum.x, maximum.curvature


def warn_of_failure(what, error):
    """Warn of a stage or a cycle that failed, and is left out."""
    warn(f"{what}, so that the fit goes on from what it had before. {error}", ConvergenceWarning)

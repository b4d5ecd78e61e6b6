"""Rows with a likelihood that arrive later: what becomes of their sites.

Sites depend on all rows. Up to a number of rows, all of them are inferred together, as a fit does.
Then sites are frozen: they stay as they are, and what they say of the process is kept as a sum. The
newest rows are inferred given this sum. When theta and Z move, which is seldom, the rows in the
reservoir are inferred instead, with weights that stand for all rows, and freeze together.
"""

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from skgp_sparse._engine.sparse.collapsed_sites import project_rows
from skgp_sparse._ground.warnings import about
from skgp_sparse.observations.observation_model import ObservationModel
from skgp_sparse.observations.streams import joined
from skgp_sparse.posteriors._moves import Action, next_action, of_few_rows
from skgp_sparse.solvers import KeepParameters

MOST_TOGETHER = 20_000  # rows that are inferred together, as long as there are no more ...
WINDOW = 5_000  # ... and the newest of them where there are more, while their sites freeze
_ROWS_OF_ESTIMATES = 1_000_000  # rows, of which as many are enough to start parameters from


class SiteObservations(ObservationModel):
    """Rows whose noise is not Gaussian."""

    @abstractmethod
    def jobs_of_part(self, part, one_form=False):
        """The jobs of the rows of a part, in their order.

        `one_form`: sorted, with repeated rows merged, as in a fit.
        """

    @abstractmethod
    def counts(self, part):
        """How many rows of a part each of the problems has."""

    def in_units(self, rows, units):
        """A table whose targets have other units; labels have none."""
        return rows

    def learn(self, stream, part, due):
        """Sites of all rows, or of the newest ones given those that are frozen."""
        reservoir = stream.reservoir
        if stream.frozen is None and reservoir.is_complete and len(reservoir) <= MOST_TOGETHER:
            return self._infer(stream, self.jobs_of_part(stream.part(), one_form=True), due)
        unready = any(one is None or one.few or one.Z is None for one in stream.warm_starts)
        if stream.frozen is None or due or unready:
            return self._freeze_anew(stream, due)
        return self._go_on(stream, joined(stream.active, part))

    def _infer(self, stream, jobs, due, frozen=None):
        """The stream and the fits after an `Action` for every problem."""
        random_state, results = stream.random_state(), []
        frozen = frozen or [None] * len(jobs)
        for job, warm_start, sites in zip(jobs, stream.warm_starts, frozen):
            job = job.within(len(jobs) - len(results))
            with about(job.name):
                results.append(self._infer_one(stream, job, warm_start, sites, due, random_state))
        fits, warm_start, rows = zip(*results)
        stream = stream._replace(warm_starts=warm_start, units=rows[0].units)
        return stream, list(fits)

    def _infer_one(self, stream, job, warm_start, frozen, due, random_state):
        """The fit, the warm start and the table of one problem."""
        solver = of_few_rows(job.settings.solver) if job.is_complete else KeepParameters()
        job = job.with_settings(solver=solver)  # one that keeps the sites of all rows
        due = due and frozen is None
        action = Action.HOLD if frozen is not None else next_action(job, warm_start, due)
        model, rows = job.model, job.rows
        held = warm_start is not None and (self.moves() or stream.frozen is not None)
        if held and action is not Action.START:
            method = replace(model.method, likelihood=warm_start.likelihood)
            model = replace(model, method=method)
        if held and action in (Action.HOLD, Action.GROW):
            rows = self.in_units(rows, stream.units)
        job = job._replace(rows=rows, model=replace(model, frozen_sites=frozen))
        fit, warm_start = self.posterior_method.resume(job, warm_start, action, random_state)
        is_known = job.is_complete or frozen is not None
        return fit, warm_start if is_known else None, rows

    def _freeze_anew(self, stream, due):
        """All rows in the reservoir are inferred, and freeze."""
        stream, fits = self._infer(stream, self.jobs_of_part(stream.part()), due)
        frozen = [fit.objective.frozen_sites(fit.kernel, len(fit.used_rows)) for fit in fits]
        return stream._replace(frozen=tuple(frozen), active=None), fits

    def _go_on(self, stream, active):
        """The newest rows are inferred, and freeze where there are many."""
        reservoir = self.jobs_of_part(stream.part())
        stream, fits = self._infer(stream, self.jobs_of_part(active), False, stream.frozen)
        surplus = max(len(active) - WINDOW, 0)
        if surplus:
            stops = self.counts(active.subset(slice(surplus)))
            frozen = [
                sites + fit.objective.frozen_sites(fit.kernel, stop) if stop else sites
                for sites, fit, stop in zip(stream.frozen, fits, stops)
            ]
            stream = stream._replace(frozen=tuple(frozen))
        stream = stream._replace(active=active.subset(slice(surplus, None)))
        fits = [self._of_reservoir(fit, job, stream) for fit, job in zip(fits, reservoir)]
        return stream, fits

    def _of_reservoir(self, fit, job, stream):
        """A fit whose objective, for users, is that of the rows in the reservoir."""
        rows = self.in_units(job.rows, stream.units)
        objective = replace(fit.objective.on(rows), project=project_rows)
        return fit._replace(objective=objective)


def observations_of(rows):
    """Targets, weights and offsets (n,) of the rows, or of a million of them, drawn by weight."""
    if len(rows) > _ROWS_OF_ESTIMATES:
        rows = rows.sampled(rows.sample(_ROWS_OF_ESTIMATES, np.random.RandomState(0)))
    offset = np.zeros(len(rows)) if rows.offset is None else rows.offset
    return rows.targets()[:, 0], rows.row_weights(), offset

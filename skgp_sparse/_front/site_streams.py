"""Rows with a likelihood that arrive later: what becomes of their sites.

Sites depend on all rows. Up to a number of rows, all of them are inferred together, as a fit does.
Then sites settle: they stay as they are, and what they say of the process is kept as a sum. The
newest rows are inferred given this sum. When theta and Z move, which is seldom, the rows in the
reservoir are inferred instead, with weights that stand for all rows, and settle together.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.collapsed_sites import project_rows
from skgp_sparse._engine.table import Table
from skgp_sparse._front.streams import NewRows, Subject
from skgp_sparse._ground.warnings import about
from skgp_sparse.inference.incremental import Action, next_action, of_few_rows, take
from skgp_sparse.inference.solvers import KeepParameters
from skgp_sparse.inference.training import Plan

MOST_TOGETHER = 20_000  # rows that are inferred together, as long as there are no more ...
WINDOW = 5_000  # ... and the newest of them where there are more, while their sites settle


class Prepared(NamedTuple):
    """A problem, ready to be learned from."""

    name: str  # "" if it is the only one
    rows: Table
    kernel: object  # to start with
    model: object  # with a likelihood to start with
    plan: Plan
    is_complete: bool = True  # whether there is something to learn


class SiteSubject(Subject):
    """Rows whose noise is not Gaussian."""

    @abstractmethod
    def prepare(self, chunk, one_form=False):
        """A list of `Prepared` problems of the rows of a chunk, in their order.

        `one_form`: sorted, with repeated rows merged, as in a fit.
        """

    @abstractmethod
    def counts(self, chunk):
        """How many rows of a chunk each of the problems has."""

    def in_units(self, rows, units):
        """A table whose targets have other units; labels have none."""
        return rows

    def units_of(self, rows):
        """Those of a table."""
        return None

    def fits(self, stream, chunk, due):
        """Sites of all rows, or of the newest ones given those that have settled."""
        held = stream.reservoir
        reservoir = NewRows(held.columns, held.weights())
        if stream.settled is None and held.is_complete and len(held) <= MOST_TOGETHER:
            return self._infer(stream, self.prepare(reservoir, one_form=True), due)
        unready = any(one is None or one.few or one.Z is None for one in stream.learned)
        if stream.settled is None or due or unready:
            return self._settle_anew(stream, self.prepare(reservoir), due)
        return self._go_on(stream, _joined(stream.active, chunk), self.prepare(reservoir))

    def _infer(self, stream, prepared, due, settled=None):
        """The stream and the fits after an `Action` for every problem."""
        random_state, found = stream.random_state(), []
        settled = settled or [None] * len(prepared)
        for one, learned, known in zip(prepared, stream.learned, settled):
            with about(one.name):
                found.append(self._infer_one(stream, one, learned, known, due, random_state))
        fits, learned, rows = zip(*found)
        return stream._replace(learned=learned, units=self.units_of(rows[0])), list(fits)

    def _infer_one(self, stream, one, learned, settled, due, random_state):
        rows, model = one.rows, one.model
        solver = of_few_rows(one.plan.solver) if one.is_complete else KeepParameters()
        plan = one.plan._replace(solver=solver)  # one that keeps the sites of all rows
        held = learned is not None and (self.moves() or stream.settled is not None)
        action = next_action(rows, plan, learned, due) if settled is None else Action.HOLD
        if held and action is not Action.START:
            model = replace(model, method=replace(model.method, likelihood=learned.likelihood))
        if held and action in (Action.HOLD, Action.GROW):
            rows = self.in_units(rows, stream.units)
        model = replace(model, settled=settled)
        fit, found = take(action, rows, one.kernel, model, plan, learned, random_state)
        known = one.is_complete or settled is not None
        return fit, found if known else None, rows

    def _settle_anew(self, stream, prepared, due):
        """All rows in the reservoir are inferred, and settle."""
        stream, fits = self._infer(stream, prepared, due)
        settled = [fit.objective.settled(fit.kernel, len(fit.objective.rows)) for fit in fits]
        return stream._replace(settled=tuple(settled), active=None), fits

    def _go_on(self, stream, active, reservoir):
        """The newest rows are inferred, and settle where there are many."""
        stream, fits = self._infer(stream, self.prepare(active), False, stream.settled)
        surplus = max(len(active.weight) - WINDOW, 0)
        if surplus:
            stops = self.counts(active.subset(slice(surplus)))
            settled = [
                known + fit.objective.settled(fit.kernel, stop) if stop else known
                for known, fit, stop in zip(stream.settled, fits, stops)
            ]
            stream = stream._replace(settled=tuple(settled))
        stream = stream._replace(active=active.subset(slice(surplus, None)))
        fits = [self._of_reservoir(fit, one, stream) for fit, one in zip(fits, reservoir)]
        return stream, fits

    def _of_reservoir(self, fit, one, stream):
        """A fit whose objective, for users, is that of the rows in the reservoir."""
        rows = self.in_units(one.rows, stream.units)
        objective = replace(fit.objective, rows=rows, project=project_rows, inner_state=None)
        return fit._replace(objective=objective)


def _joined(active, chunk):
    """Rows of before and rows of now."""
    if active is None:
        return chunk
    columns = tuple(np.concatenate(pair) for pair in zip(active.columns, chunk.columns))
    return NewRows(columns, np.append(active.weight, chunk.weight))

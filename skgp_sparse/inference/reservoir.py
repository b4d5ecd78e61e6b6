r"""A bounded sample of all rows that came, whose weights stand for all of them.

Priority sampling (Duffield, Lund and Thorup 2007): a row of weight w has the priority ``w/u`` with
u uniform in (0, 1]. The rows of the highest priorities stay, and ``τ`` is the highest priority that
did not. A row that stayed stands for ``max(w, τ)`` rows, so that sums over the sample are unbiased
estimates of sums over all rows. Nothing is lost before the reservoir is full, as τ is 0.
"""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Reservoir:
    """Rows, how much each of them counted, and what decides who stays."""

    columns: tuple  # of arrays, one entry per row in each
    weight: np.ndarray
    priority: np.ndarray
    threshold: float = 0.0  # highest priority of a row that did not stay
    total: float = 0.0  # weight of all rows that came

    @classmethod
    def empty(cls, columns):
        """A reservoir without rows, for columns like these."""
        nothing = np.empty(0)
        return cls(tuple(column[:0] for column in columns), nothing, nothing)

    def __len__(self):
        return len(self.weight)

    @property
    def is_complete(self):
        """Whether all rows that came are here."""
        return self.threshold == 0.0

    def plus(self, columns, weight, capacity, random_state):
        """The reservoir with more rows, of which at most `capacity` stay."""
        priority = weight / (1.0 - random_state.uniform(size=len(weight)))
        pairs = zip((*self.columns, self.weight, self.priority), (*columns, weight, priority))
        *columns, weight, priority = map(np.concatenate, pairs)
        total, surplus = self.total + weight[len(self) :].sum(), len(weight) - capacity
        if surplus <= 0:
            return Reservoir(tuple(columns), weight, priority, self.threshold, total)
        order = np.argpartition(priority, surplus - 1)
        threshold = max(self.threshold, priority[order[:surplus]].max())
        stay = np.sort(order[surplus:])
        columns = tuple(column[stay] for column in columns)
        return Reservoir(columns, weight[stay], priority[stay], threshold, total)

    def weights(self):
        """How many rows each of these stands for; their sum is the weight of all that came."""
        if self.is_complete:
            return self.weight
        weight = np.maximum(self.weight, self.threshold)
        return weight * (self.total / weight.sum())

    def times(self, factor):
        """Reservoir in which all rows so far count less; it is empty if the factor is 0."""
        if factor == 0:
            return Reservoir.empty(self.columns)
        return replace(
            self,
            weight=factor * self.weight,
            priority=factor * self.priority,
            threshold=factor * self.threshold,
            total=factor * self.total,
        )

r"""Sums over rows that keep coming, at one kernel and one basis.

The statistics of the collapsed objectives add up, whatever the order in which rows come. Their
targets are standardised with the mean and the spread of all rows, which change with every row. The
sums are therefore kept in the units of an origin, ``z = (y - μ₀)/s₀``, with a column of ones beside
the targets. In any other units

    (y - μ)/s = [z 1] C,        C = [ diag(s₀/s) ; (μ₀ - μ)/s ],
    V a y = (V a [z 1]) C,      Σ a y² = tr Cᵀ ([z 1]ᵀ a [z 1]) C,

and nothing else depends on the targets, so that the sums in other units are exact. Known noise is
in units of y², which is why its scale has to stay.
"""

from dataclasses import dataclass, replace

import numpy as np

from skgp_sparse._engine.basis import Features
from skgp_sparse._engine.collapsed import posterior_of, solve
from skgp_sparse._engine.forward import Statistics, block_statistics, forward_block


@dataclass(frozen=True, eq=False)
class RunningSums:
    """The statistics of all rows that came, in the units of an origin.

    Parameters
    ----------
    statistics : Statistics
        With targets ``[z 1]``; ``yay`` is the matrix ``[z 1]ᵀ a [z 1]``.
    features : Features
    mean, scale : ndarray of shape (p,)
        The origin.
    """

    statistics: Statistics
    features: Features
    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, problem):
        """Those of a problem whose rows are `Rows`; its units become the origin."""
        features = problem.features().for_prediction()
        nothing = cls(None, features, problem.rows.y_mean, problem.rows.y_scale)
        return nothing.plus(problem)

    def plus(self, problem):
        """The same with the rows of a problem that has the same kernel and basis."""
        rows = replace(
            problem.rows,
            y=np.column_stack([problem.rows.y, np.ones(len(problem.rows))]),
            y_mean=np.append(self.mean, 0.0),
            y_scale=np.append(self.scale, 1.0),
        )
        problem = problem._replace(rows=rows)
        nothing = [False] * len(problem.layout().blocks)

        def run(read):
            return self._of_block(problem, read()), None

        sums, _ = rows.visit(run, problem.layout(), keep=nothing)
        if self.statistics is not None:
            sums = [mine + more for mine, more in zip(self.statistics, sums)]
        return replace(self, statistics=Statistics(*sums))

    def times(self, factor):
        """The same with every weight multiplied."""
        return replace(self, statistics=Statistics(*(factor * one for one in self.statistics)))

    def solved(self, problem, mean, scale):
        """Value, `Posterior` and jitter where targets have these units; no row is read."""
        solution = solve(self._in_units(mean, scale), problem)
        posterior = posterior_of(self.features, solution, problem)
        return solution.value, posterior, self.features.jitter

    def _of_block(self, problem, block):
        forward = forward_block(problem, problem.project(self.features, block.X), block)
        ay = forward.linear * np.reshape(block.weight / forward.own, (-1, 1))
        return block_statistics(forward, block)._replace(yay=block.y.T @ ay)

    def _in_units(self, mean, scale):
        C = np.vstack([np.diag(self.scale / scale), (self.mean - mean) / scale])
        squares = np.vdot(C, self.statistics.yay @ C)
        return self.statistics._replace(Vay=self.statistics.Vay @ C, yay=squares)

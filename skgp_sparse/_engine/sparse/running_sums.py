r"""Sums over rows that keep coming, at one kernel and one basis.

The sums of the collapsed objectives add up, whatever the order in which rows come. Their targets
are standardised with the mean and the spread of all rows, which change with every row. The sums are
therefore kept in the units of an origin, ``z = (y - μ₀)/s₀``, with a column of ones beside the
targets. In any other units

    (y - μ)/s = [z 1] C,        C = [ diag(s₀/s) ; (μ₀ - μ)/s ],
    V a y = (V a [z 1]) C,      Σ a y² = tr Cᵀ ([z 1]ᵀ a [z 1]) C,

and nothing else depends on the targets, so that the sums in other units are exact. Known noise is
in units of y², which is why its scale has to stay.
"""

from dataclasses import dataclass, replace

import numpy as np

from skgp_sparse._engine.data.target_scaler import TargetScaler
from skgp_sparse._engine.features.basis import Features
from skgp_sparse._engine.sparse.collapsed import posterior_of, solve
from skgp_sparse._engine.sparse.passes import Sums, block_sums, forward_block


@dataclass(frozen=True, eq=False)
class RunningSums:
    """The sums over all rows that came, in the units of an origin.

    Parameters
    ----------
    sums : Sums
        With targets ``[z 1]``; ``yay`` is the matrix ``[z 1]ᵀ a [z 1]``.
    features : Features
    origin : TargetScaler
        Targets that were constant there have sums, too, as they may vary later.
    """

    sums: Sums | None
    features: Features
    origin: TargetScaler

    @classmethod
    def of(cls, problem):
        """Sums of a problem whose rows are `ArrayDataset`; its units become the origin."""
        features = problem.features().for_prediction()
        return cls(None, features, problem.rows.units.with_constants()).plus(problem)

    def plus(self, problem):
        """Sums to which the rows of a problem with the same kernel and basis are added."""
        y = np.column_stack([problem.rows.y, np.ones(len(problem.rows))])
        units = TargetScaler(np.append(self.origin.mean, 0.0), np.append(self.origin.scale, 1.0))
        rows = replace(problem.rows, y=y, units=units)
        problem, layout = problem._replace(rows=rows), problem.layout()

        def run(read):
            block = read()
            forward = forward_block(problem, problem.project(self.features, block.X), block)
            yay = block.y.T @ forward.weighted_targets(block.weight)
            return block_sums(forward, block)._replace(yay=yay), None

        sums = Sums(*rows.visit(run, layout, keep=[False] * len(layout.blocks))[0])
        return replace(self, sums=sums if self.sums is None else self.sums + sums)

    def times(self, factor):
        """Sums with every weight multiplied by a factor."""
        return replace(self, sums=self.sums.times(factor))

    def solved(self, problem, units):
        """Value, `SparsePosterior` and jitter where targets have these units; no row is read."""
        optimum = solve(self._in_units(units), problem)
        posterior = posterior_of(self.features, optimum.core, problem)
        return optimum.value, posterior, self.features.jitter

    def _in_units(self, units):
        varies, origin = units.scale > 0, self.origin
        C = np.vstack([np.diag(origin.scale), origin.mean - units.mean])
        C = C[:, varies] / units.scale[varies]
        squares = np.vdot(C, self.sums.yay @ C)
        return self.sums._replace(Vay=self.sums.Vay @ C, yay=squares)

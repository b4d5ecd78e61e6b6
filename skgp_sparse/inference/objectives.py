"""The two objectives of regression behind one interface.

Both offer ``value(kernel)``, ``value_and_gradient(kernel)``, ``posterior(kernel)`` and
``inducing_points``; the estimator, the optimiser and user callables need nothing else.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse._engine import collapsed, exact
from skgp_sparse._engine.exact import Groups
from skgp_sparse._engine.problem import Options, Problem
from skgp_sparse._engine.rows import Rows


class ExactObjective(NamedTuple):
    """Exact log marginal likelihood: the inducing points are the distinct rows."""

    groups: Groups

    @property
    def inducing_points(self):
        """Distinct training rows (m, d)."""
        return self.groups.X

    def value(self, kernel):
        """Log marginal likelihood."""
        return exact.value(kernel, self.groups)

    def value_and_gradient(self, kernel):
        """`Evaluation` with the gradient wrt theta."""
        return exact.value_and_gradient(kernel, self.groups)

    def posterior(self, kernel):
        """`Posterior` and the jitter that it took."""
        return exact.posterior(kernel, self.groups)


class CollapsedObjective(NamedTuple):
    """A collapsed bound at inducing points Z."""

    rows: Rows
    bound: object
    inducing_points: np.ndarray
    options: Options = Options()

    def at(self, Z):
        """The same objective at other inducing points."""
        return self._replace(inducing_points=Z)

    def value(self, kernel):
        """The bound."""
        return collapsed.value(self._problem(kernel))

    def value_and_gradient(self, kernel, inputs=False):
        """`Evaluation` with the gradient wrt theta and, if `inputs`, wrt Z."""
        return collapsed.value_and_gradient(self._problem(kernel), inputs)

    def posterior(self, kernel):
        """`Posterior` and the jitter that it took."""
        return collapsed.posterior(self._problem(kernel))

    def _problem(self, kernel):
        return Problem(kernel, self.inducing_points, self.rows, self.bound, self.options)

"""The objective of predictions from neighbours: their leave-one-out density, and its model."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.data.dataset import Dataset
from skgp_sparse._engine.features.problem import Evaluation
from skgp_sparse._engine.neighbors import left_out
from skgp_sparse._engine.neighbors.left_out import LeaveOneOut
from skgp_sparse._engine.predictions.posterior import Posterior
from skgp_sparse._ground.normal import log_normal_density
from skgp_sparse.inference.contracts import Conclusion, Objective
from skgp_sparse.inference.parameter_vectors import ParameterBlock, kernel_block


class MetricPrior(NamedTuple):
    """Prior of a metric that is learned: its start, its units, and a penalty of moves."""

    start: np.ndarray  # (r, d) the metric to begin with
    units: np.ndarray  # (r, d) of its entries
    nats: np.ndarray  # (r, d) per row and target, of an entry's squared distance from the start

    def price(self, metric, size):
        """The penalty of a metric where so many targets are known, and its gradient."""
        moved, price = (metric - self.start) / self.units, self.nats * size
        return np.sum(price * moved**2), 2.0 * price * moved / self.units


@dataclass(frozen=True, eq=False)
class NeighborsObjective(Objective):
    """Leave-one-out log density of some rows, each given those near to it, for all rows.

    Neighbours stay as they are, whatever the kernel and the metric are.
    """

    left: LeaveOneOut
    rows: Dataset | None  # all of them, for users
    total: float  # how many they are, counted by weight
    metric: np.ndarray | None = None  # (r, d) W; None: inputs as they are
    prior: MetricPrior | None = None  # of the metric, where it is learned
    posterior: Posterior | None = None
    n_jobs: int = 1

    inducing_points = likelihood = None

    def size(self):
        """Number of rows, each counted as often as its weight says, times targets."""
        return self.total * self.left.y.shape[1]

    def blocks(self, kernel, move_basis=False):
        """The kernel, and the metric if it is learned."""
        blocks = [kernel_block(kernel)]
        if self.prior is not None:
            blocks.append(ParameterBlock("metric", self.metric, scale=self.prior.units))
        return blocks

    def at(self, metric=None):
        """A copy of the objective in another metric."""
        return self if metric is None else replace(self, metric=metric)

    def value(self, kernel, inner_state=None):
        """The log density."""
        J = left_out.value(kernel, self.left, self.metric, self.n_jobs)
        return self._share * J - self._price()[0]

    def value_of(self, mean, variance):
        """The log density of rows whose moments are known, without a penalty."""
        densities = log_normal_density(self.left.y, mean, np.sqrt(variance)[:, None])
        return self._share * np.sum(self.left.count[:, None] * densities)

    def value_and_gradient(self, kernel, inputs=False, inner_state=None):
        """`Evaluation` with the gradient wrt theta and, where it is learned, wrt the metric."""
        J, *gradients = left_out.value_and_gradient(kernel, self.left, self.metric, self.n_jobs)
        price, of_metric = self._price()
        theta_bar, metric_bar = (self._share * gradient for gradient in gradients)
        gradient = {"kernel": theta_bar, "metric": metric_bar - of_metric}
        return Evaluation(self._share * J - price, gradient, 0.0)

    def conclude(self, kernel, inner_state=None):
        """`Conclusion` at a kernel, whose value has no penalty."""
        held = replace(self, prior=None)
        return Conclusion(held.value(kernel), self.posterior, 0.0, held)

    @property
    def _share(self):
        """Ratio of the number of all rows to that of the rows left out, by weight."""
        return self.total / self.left.count.sum()

    def _price(self):
        """The penalty of the metric, and its gradient."""
        return (0.0, 0.0) if self.prior is None else self.prior.price(self.metric, self.size())

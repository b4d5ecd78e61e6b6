"""The objectives of predictions from neighbours, with Gaussian noise and with a likelihood.

The prediction ``N(m_i, v_i)`` of row i from the sites of its neighbours, without its own, is the
cavity of the row. A sweep predicts all rows and takes their sites from the tilted moments: with the
slope ``α`` and the negative curvature ``β`` of ``log Z_i = log ∫ N(f; m_i, v_i) p(y_i|f) df`` in m,

    λ2 ← β/(1 - v β),    λ1 ← α + (m + v α) λ2.

A likelihood that is not log-concave may have ``β <= 0``: such a site has next to no precision, and
only moves the mean. The objective is the leave-one-out log density ``J = Σ_i w_i log Z_i``. Its
gradient is that at held sites: ``∂J/∂m = α`` and ``∂J/∂v = (α² - β)/2``.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine import neighbors
from skgp_sparse.engine.basis import Evaluation
from skgp_sparse.engine.neighbors import LeaveOneOut, LocalPrediction, SiteRows
from skgp_sparse.engine.posterior import Posterior, RowTerms
from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.parallel import slices
from skgp_sparse.ground.validation import Array, Ints, Kernel, Pair, Scalars
from skgp_sparse.inference.contracts import Conclusion, Objective, ParameterBlock
from skgp_sparse.likelihoods import Likelihood


class MetricPrior(NamedTuple):
    """Prior of a metric that is learned: its start, its units, and a penalty of moves."""

    start: np.ndarray  # (r, d) the metric to begin with
    units: np.ndarray  # (r, d) of its entries
    nats: np.ndarray  # (r, d) per row and target, of an entry's squared distance from the start

    def price(self, metric: Array, size: float) -> tuple[float, Array]:
        """The penalty of a metric where so many targets are known, and its gradient."""
        moved, price = (metric - self.start) / self.units, self.nats * size
        return np.sum(price * moved**2), 2.0 * price * moved / self.units


@dataclass(frozen=True, eq=False, kw_only=True)
class _LeftOutObjective(Objective):
    """Base of objectives of rows that are left out, in a metric that may be learned."""

    rows: Dataset | Any  # all of them, for users
    total: float  # how many rows there are, counted by weight
    metric: Array | Any = None  # (r, d) W; None: inputs as they are
    prior: MetricPrior | None = None  # of a metric that is learned
    posterior: Posterior | Any = None
    n_jobs: int = 1
    moves_sites: bool = False  # whether they follow hyperparameters, for users

    inducing_points = None
    _densities: ClassVar[Any] = None  # of normal distributions

    def blocks(self, kernel: Kernel, move_basis: bool = False) -> list[ParameterBlock]:
        """The kernel, and the metric where it is learned."""
        of_kernel, *others = super().blocks(kernel)
        if self.prior is not None:
            others.insert(0, ParameterBlock("metric", self.metric, scale=self.prior.units))
        return [of_kernel, *others]

    def value(self, kernel: Kernel, inner_state: object = None) -> float:
        """Leave-one-out log density of all rows, less the price of the metric."""
        one = self._followed(kernel)
        J = neighbors.value(kernel, one.left_out, self.metric, self.n_jobs, one._densities)
        return one.left_out.share(self.total) * J - self._price()[0]

    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: object = None
    ) -> Evaluation:
        """`Evaluation` with a gradient for each block, sites held."""
        one = self._followed(kernel)
        share = one.left_out.share(self.total)
        J, theta_bar, metric_bar = neighbors.value_and_gradient(
            kernel, one.left_out, self.metric, self.n_jobs, one._densities
        )
        price, of_metric = self._price()
        gradient = {"kernel": share * theta_bar, "metric": share * metric_bar - of_metric}
        if len(getattr(self.likelihood, "theta", ())):
            gradient["likelihood"] = share * one._slopes(kernel)
        return Evaluation(share * J - price, gradient, 0.0)

    def conclude(self, kernel: Kernel, inner_state: object = None) -> Conclusion:
        """`Conclusion` at a kernel, whose value has no penalty."""
        held = replace(self._followed(kernel), prior=None)
        return Conclusion(held.value(kernel), self.posterior, 0.0, replace(held, moves_sites=True))

    def _price(self) -> tuple[float, Scalars]:
        """Price of the metric by its prior, and its gradient."""
        return (0.0, 0.0) if self.prior is None else self.prior.price(self.metric, self.size())

    def _followed(self, kernel: Kernel) -> Any:
        """Objective with the sites at a kernel, if they move."""
        return self


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighborsObjective(_LeftOutObjective):
    """Leave-one-out log density of some rows, each given the same neighbours, for all rows."""

    left_out: LeaveOneOut

    likelihood = None

    def size(self) -> float:
        """Number of rows, each counted as often as its weight says, times targets."""
        return self.total * self.left_out.y.shape[-1]

    def value_of(self, mean: Array, variance: Array) -> float:
        """The log density of rows whose moments are known, without a penalty."""
        densities = log_normal_density(self.left_out.y, mean, np.sqrt(variance)[:, None])
        return self.left_out.share(self.total) * np.sum(self.left_out.count[:, None] * densities)


_ROWS_PER_SWEEP_BLOCK = 1 << 14  # rows of a sweep that are predicted together
_LEAST_GAIN = 1e-6  # precision of a site, in units of 1/v
_SMALLEST_RELATIVE_VARIANCE = 1e-10  # of the largest variance
_TOL = 1e-7  # nats per row, of which sites of users' evaluations are short
_MOST_SWEEPS = 30  # sweeps of one
_KEPT = 1 << 25  # entries of kernel matrices that wait for the next sweep


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalSiteObjective(_LeftOutObjective):
    """Leave-one-out log density of some rows, each given the sites near to it, for all rows."""

    near: SiteRows
    sites: np.ndarray  # (2, n) natural parameters of all rows
    likelihood: Likelihood
    chosen: Ints | None = None  # rows that are left out; None: all of them
    is_rough: bool = False  # whether time ended before sweeps: sites of the fit stay as they are

    def size(self) -> float:
        """Number of rows, each counted as often as its weight says."""
        return self.total

    def terms(self, kernel: Kernel) -> RowTerms:
        """`RowTerms` with cavities that neighbours give."""
        return RowTerms(cavities=partial(self.cavities, kernel))

    def cavities(self, kernel: Kernel, chosen: Ints) -> Pair:
        """Mean and variance (k,) of chosen rows of the table, given the others."""
        weight = self.rows.weight
        used = chosen if weight is None else (np.cumsum(weight > 0) - 1)[chosen]
        followed = self if self.is_rough else self._followed(kernel)
        return self._cavities(kernel, replace(followed, chosen=used).left_out)

    def after_sweeps(
        self, kernel: Kernel, most: int = _MOST_SWEEPS, tol: float = _TOL
    ) -> "LocalSiteObjective":
        """Objective after sweeps of the sites, until `tol`; too long steps are shortened."""
        one = self
        if self.near.search is not None:
            k, X = self.near.search
            one = replace(self, near=self.near.with_neighbors(k, X, self.n_jobs))
        sites, step, last = self.sites, 1.0, np.inf
        matrices = one._matrices(kernel)
        for _ in range(most):
            target, gap = one._swept(kernel, sites, matrices)
            if gap < tol * self.near.weight.sum():
                break
            step *= 0.5 if gap > last else 1.0
            sites, last = sites + step * (target - sites), gap
        return replace(one, sites=sites)

    @cached_property
    def left_out(self) -> LeaveOneOut:
        """`LeaveOneOut` of the chosen rows."""
        rows = slice(None) if self.chosen is None else self.chosen
        return self.near.left_out(rows, self.sites, self.near.at_places(self.sites))

    def __getstate__(self) -> dict[str, object]:
        return {name: one for name, one in vars(self).items() if name != "left_out"}

    def _followed(self, kernel: Kernel) -> "LocalSiteObjective":
        """Objective with the sites at a kernel, if they move."""
        return self.after_sweeps(kernel) if self.moves_sites else self

    def _matrices(self, kernel: Kernel) -> list:
        """Kernel matrices of all rows for all sweeps; nothing where they are many."""
        groups = slices(self.near.n_rows, _ROWS_PER_SWEEP_BLOCK)
        total = self.near.at_places(self.sites)
        if self.near.n_rows * (self.near.near.shape[1] + 1) ** 2 > _KEPT:
            return [None] * len(groups)
        lefts = (self.near.left_out(rows, self.sites, total) for rows in groups)
        return [neighbors.kernel_matrices(kernel, left, self.metric, self.n_jobs) for left in lefts]

    def _swept(self, kernel: Kernel, sites: Array, matrices: list) -> tuple[Array, float]:
        """The next sites, and how far from them these are, in nats."""
        total, parts, gap = self.near.at_places(sites), [], 0.0
        for rows, known in zip(slices(self.near.n_rows, _ROWS_PER_SWEEP_BLOCK), matrices):
            left = self.near.left_out(rows, sites, total)
            mean, variance = self._cavities(kernel, left, known)
            y, offset = _observed_and_offset(left)
            target = next_sites(self.likelihood, y, mean, variance, offset)
            change = target - sites[:, rows]
            first = variance * (change[0] - mean * change[1]) ** 2
            gap += 0.5 * left.count @ (first + 0.5 * (variance * change[1]) ** 2)
            parts.append(target)
        return np.concatenate(parts, axis=1), gap

    def _cavities(self, kernel: Kernel, rows: LeaveOneOut, matrices: list | None = None) -> Pair:
        """Mean and variance (s,) of rows that are left out."""
        mean, variance = neighbors.moments(kernel, rows, self.metric, self.n_jobs, matrices)
        return mean[:, 0], np.maximum(variance, _SMALLEST_RELATIVE_VARIANCE * variance.max())

    def _densities(self, block: LeaveOneOut, latent: LocalPrediction, noise: Array) -> tuple:
        """Σ w log Z over rows, and its slopes in m (s, 1) and v (s,)."""
        least = _SMALLEST_RELATIVE_VARIANCE * np.max(latent.signal)
        variance = np.maximum(latent.variance + noise, least)
        w, (y, offset) = block.count, _observed_and_offset(block)
        value, slope, curvature = self.likelihood.tilted(y, latent.mean[:, 0] + offset, variance)
        return w @ value, (w * slope)[:, None], 0.5 * w * (slope**2 - curvature)

    def _slopes(self, kernel: Kernel) -> Array:
        """Gradient of J wrt the parameters of the likelihood."""
        mean, variance = self._cavities(kernel, self.left_out)
        y, offset = _observed_and_offset(self.left_out)
        return self.likelihood.tilted_slopes(y, mean + offset, variance) @ self.left_out.count


def _observed_and_offset(rows: LeaveOneOut) -> Pair:
    """Observations as a likelihood takes them, and offsets (s,), of rows that are left out."""
    return rows.y[:, 0], rows.y[:, -1]


def next_sites(
    likelihood: Likelihood, y: Array, mean: Array, variance: Array, offset: Scalars
) -> Array:
    """Sites (2, s) of rows with these cavities."""
    _, slope, curvature = likelihood.tilted(y, mean + offset, variance)
    rest = np.maximum(1.0 - variance * curvature, np.finfo(float).eps)
    precision = np.maximum(curvature / rest, _LEAST_GAIN / variance)
    return np.stack([slope + (mean + variance * slope) * precision, precision])

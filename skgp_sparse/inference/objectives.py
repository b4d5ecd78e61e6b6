"""The objectives of regression, the factory that makes them, and the bound of latent inputs.

`LatentObjective` has inputs that are parameters of the rows; the others have them from a table.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from skgp_sparse.data.arrays import DistinctInputs
from skgp_sparse.data.dataset import Dataset
from skgp_sparse.engine import collapsed, exact, normal_inputs
from skgp_sparse.engine.basis import Basis, Evaluation, Options, Problem
from skgp_sparse.engine.collapsed_sites import Cores
from skgp_sparse.engine.feature_posterior import Normals
from skgp_sparse.engine.posterior import Posterior, RowTerms
from skgp_sparse.ground.linalg import log_normal_density
from skgp_sparse.ground.validation import Array, Kernel
from skgp_sparse.inference import contracts
from skgp_sparse.inference.contracts import Conclusion, ParameterBlock

_FEW_LATENT_ROWS = 200  # that tell noise and residual
_LEAST_SPREAD = 1e-3  # of means, where all of them are alike


@dataclass(frozen=True, eq=False)
class LatentObjective(contracts.Objective):
    """A collapsed bound of the evidence, inputs integrated out under ``q``.

    Each row has an input ``x_i`` with a normal prior, N(0, I) in a GP-LVM, and a normal posterior
    ``q(x_i) = N(μ_i, diag s_i)``, written relative to the prior, by numbers around 0:

        μ = μ0 + √s0 η,      s = s0 e^τ,      KL = ½ Σ ( η² + e^τ - τ - 1 )
    """

    rows: Dataset  # targets and noise; its inputs are not read
    bound: Any  # none that counts a residual as noise
    basis: Basis
    prior: Normals  # of the inputs
    shift: np.ndarray  # (n, d) η
    log_ratio: np.ndarray  # (n, d) τ
    patterns: np.ndarray  # (n, k) of observed targets, as `LatentRows` has them
    of_column: np.ndarray  # (p,)
    options: Options = Options()

    likelihood = None
    inducing_points = property(attrgetter("basis.parameters"))

    @property
    def inputs(self) -> Normals:
        """``q`` of all rows."""
        mean, variance = self.prior
        return Normals(mean + np.sqrt(variance) * self.shift, variance * np.exp(self.log_ratio))

    def size(self) -> float:
        """Number of targets that were observed, each counted as often as its weight says."""
        return float(self.rows.row_weights() @ self.patterns[:, self.of_column].sum(axis=1))

    def blocks(self, kernel: Kernel, move_basis: bool = False) -> list[ParameterBlock]:
        """Kernel, inducing points if they may move, and ``q`` of all rows."""
        mean = self.inputs.mean
        basis = [contracts.basis_block(kernel, self.basis, mean.std(axis=0) + _LEAST_SPREAD)]
        of_rows = [ParameterBlock("shift", self.shift), ParameterBlock("log_ratio", self.log_ratio)]
        return [*super().blocks(kernel), *(basis if move_basis else []), *of_rows]

    def divergences(self) -> Array:
        """KL of every row, by columns (n, d)."""
        return 0.5 * (self.shift**2 + np.expm1(self.log_ratio) - self.log_ratio)

    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: object = None
    ) -> Evaluation:
        """`Evaluation` with the gradient of every block."""
        value, gradient, jitter, _ = normal_inputs.value_and_gradient(*self._at(kernel), inputs)
        root, variance = np.sqrt(self.prior.variance), self.inputs.variance
        shift_bar = root * gradient.pop("mean") - self.shift
        ratio_bar = variance * gradient.pop("variance") - 0.5 * np.expm1(self.log_ratio)
        gradient |= {"shift": shift_bar, "log_ratio": ratio_bar}
        return Evaluation(value - self.divergences().sum(), gradient, jitter)

    def conclude(self, kernel: Kernel, inner_state: object = None) -> Conclusion:
        """`Conclusion` at a kernel, with an `InducingPosterior`."""
        value, posterior, jitter = normal_inputs.conclude(*self._at(kernel))
        return Conclusion(value - self.divergences().sum(), posterior, jitter, self)

    def noise_and_residual(self, kernel: Kernel) -> tuple[float, float]:
        """Mean noise and mean residual variance over at most some hundred rows."""
        rows = slice(None, None, -(-len(self.rows) // _FEW_LATENT_ROWS))
        return normal_inputs.mean_noise_and_residual(*self._at(kernel), rows)

    def _at(self, kernel: Kernel) -> tuple[Problem, normal_inputs.LatentRows]:
        """The `Problem` at a kernel, and its `LatentRows`."""
        problem = Problem(kernel, self.basis, self.rows, self.bound, self.options)
        return problem, normal_inputs.LatentRows(self.inputs, self.patterns, self.of_column)


_FEW_ROWS = 2000  # that tell noise and residual


@dataclass(frozen=True, eq=False)
class ExactObjective(contracts.ExactFit):
    """Exact log marginal likelihood: the inducing points are the distinct rows."""

    groups: DistinctInputs
    n_jobs: int = 1
    rows: Dataset | Any = None  # that the groups are made of

    likelihood = basis = None
    inducing_points = property(attrgetter("groups.X"))

    def size(self) -> float:
        """Number of rows, each counted as often as its weight says, times targets."""
        return self.groups.weight.sum() * self.groups.y.shape[1]

    def constant_log_likelihood(self) -> float:
        """Log likelihood of the targets as noise of their own variance, and a little more."""
        weight, y, n = self.groups.weight, self.groups.y, self.size()
        variance = (weight @ y**2).sum() / n
        return -np.inf if variance == 0 else -0.5 * n * (np.log(2 * np.pi * variance) + 1) + 1.0

    def value(self, kernel: Kernel, inner_state: object = None) -> float:
        """Log marginal likelihood."""
        return exact.value(kernel, self.groups, self.n_jobs)

    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: object = None
    ) -> Evaluation:
        """`Evaluation` with the gradient wrt theta."""
        return exact.value_and_gradient(kernel, self.groups, self.n_jobs)

    def conclude(self, kernel: Kernel, inner_state: object = None) -> Conclusion:
        """`Conclusion` at a kernel."""
        return Conclusion._make([*exact.conclude(kernel, self.groups, self.n_jobs), self])


@dataclass(frozen=True, eq=False)
class CollapsedObjective(contracts.SparseFit):
    """A collapsed bound of a process in some basis."""

    rows: Dataset
    bound: Any
    basis: Basis
    options: Options = Options()

    likelihood = None

    def size(self) -> float:
        """Number of rows, each counted as often as its weight says, times targets."""
        return self.rows.total_weight() * self.rows.n_targets

    def terms(self, kernel: Kernel) -> RowTerms:
        """`RowTerms` with the bound, whose share of the residual variance is noise."""
        return RowTerms(bound=self.bound)

    def value(self, kernel: Kernel, inner_state: object = None) -> float:
        """Value of the bound, in nats."""
        return collapsed.value(self.problem(kernel))

    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: object = None
    ) -> Evaluation:
        """`Evaluation` with the gradient wrt theta and, if `inputs`, wrt the inducing points."""
        return collapsed.value_and_gradient(self.problem(kernel), inputs)

    def conclude(self, kernel: Kernel, inner_state: object = None) -> Conclusion:
        """`Conclusion` at a kernel."""
        return Conclusion._make([*collapsed.conclude(self.problem(kernel)), self])

    def noise_and_residual(self, kernel: Kernel) -> tuple[float, float]:
        """Mean noise and mean residual variance over at most a few thousand rows."""
        rows = slice(None, None, -(-len(self.rows) // _FEW_ROWS))
        return collapsed.mean_noise_and_residual(self.problem(kernel), rows)

    def of_sample(self, kernel: Kernel) -> tuple[Posterior, tuple]:
        """Posterior given the rows; the one of all rows needs no more than its hyperparameters."""
        visit = collapsed.visit_of(self.problem(kernel))
        sums, _ = collapsed.forward_pass(visit, gradient=False)
        core = collapsed.core_of(sums, self.options.n_jobs)
        return Cores([core]).process(visit.features, kernel), ()

    def log_densities(self, posterior: Posterior) -> Array:
        """Log densities (n,) of the rows, of several targets their means."""
        block = self.rows.everything()
        mean, variance, noise = posterior.moments(block.X, self.options.n_jobs)
        variance = (variance + noise + block.noise)[:, None]
        return log_normal_density(block.y, mean, np.sqrt(variance)).mean(axis=1)

    def problem(self, kernel: Kernel) -> Problem:
        """The question of an evaluation."""
        return Problem(kernel, self.basis, self.rows, self.bound, self.options)


@dataclass(frozen=True, eq=False)
class DecoupledObjective(contracts.Objective):
    """A collapsed bound whose mean has a basis of its own."""

    objective: CollapsedObjective  # of the covariance
    basis: Basis  # of the mean

    likelihood = None
    rows = property(attrgetter("objective.rows"))
    inducing_points = property(attrgetter("objective.inducing_points"))

    def size(self) -> float:
        """Number of rows, each counted as often as its weight says, times targets."""
        return self.objective.size()

    def value_and_gradient(
        self, kernel: Kernel, inputs: bool = False, inner_state: object = None
    ) -> Evaluation:
        """`Evaluation` with the gradient wrt theta."""
        return collapsed.decoupled_value_and_gradient(*self._problems(kernel))

    def conclude(self, kernel: Kernel, inner_state: object = None) -> Conclusion:
        """`Conclusion` at a kernel, with a `DecoupledPosterior`."""
        return Conclusion._make([*collapsed.decoupled_conclude(*self._problems(kernel)), self])

    def _problems(self, kernel: Kernel) -> tuple[Problem, Problem]:
        of_covariance = self.objective.problem(kernel)
        return of_covariance._replace(basis=self.basis), of_covariance


@dataclass(frozen=True)
class GaussianObjectives(contracts.ObjectiveFactory):
    """Rows whose noise is Gaussian, with the bound of the sparse objective."""

    bound: Any

    def exact(self, rows: Dataset, options: Options, rough: bool = False) -> ExactObjective:
        """Objective whose inducing points are the distinct rows; nothing in it is iterative."""
        return ExactObjective(DistinctInputs.of(rows), options.n_jobs, rows)

    def in_basis(self, rows: Dataset, basis: Basis, options: Options) -> CollapsedObjective:
        """Objective in a basis."""
        return CollapsedObjective(rows, self.bound, basis, options)

"""The objectives of regression, and the model that makes them."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgp_sparse import kernels
from skgp_sparse._engine import collapsed, decoupled, exact
from skgp_sparse._engine.basis import Basis
from skgp_sparse._engine.exact import Groups
from skgp_sparse._engine.inducing_basis import InducingBasis
from skgp_sparse._engine.problem import Options, Problem
from skgp_sparse._engine.table import Table
from skgp_sparse._ground.warnings import warn
from skgp_sparse.inference.contracts import Model, Objective
from skgp_sparse.inference.minibatches import GaussianMinibatchView
from skgp_sparse.inference.parameters import basis_block, kernel_block, raise_noise

_FEW_ROWS = 2000
_QUIET = 1e-2  # noise variance, as a share of that of the targets, below which there is little
_LOST = 10.0  # residual variance over noise from which inducing points lose much ...
_FEW_TO_KNOW, _LOST_OF_FEW = 6000, 0.1  # ... up to so many rows, as an exact fit sees most of them
_NEGLIGIBLE = 1e3  # residual variance over noise from which the penalty is all there is


@dataclass(frozen=True, eq=False)
class ExactObjective(Objective):
    """Exact log marginal likelihood: the inducing points are the distinct rows."""

    groups: Groups
    n_jobs: int = 1
    rows: Table | None = None  # that the groups are made of

    @property
    def inducing_points(self):
        """Distinct training rows (m, d)."""
        return self.groups.X

    def size(self):
        """Number of rows, each counted as often as its weight says, times targets."""
        return self.groups.weight.sum() * self.groups.y.shape[1]

    def blocks(self, kernel, move_basis=False):
        """The kernel alone: the distinct rows stay."""
        return [kernel_block(kernel)]

    def at(self):
        """The same objective: it has no parameters but the kernel's."""
        return self

    def constant_log_likelihood(self):
        """Log likelihood of the targets as noise of their own variance, and a little more."""
        weight, y = self.groups.weight, self.groups.y
        n = self.size()
        variance = (weight @ y**2).sum() / n
        if variance == 0:
            return -np.inf
        return -0.5 * n * (np.log(2 * np.pi * variance) + 1) + 1.0

    def value(self, kernel, inner_state=None):
        """Log marginal likelihood."""
        return exact.value(kernel, self.groups, self.n_jobs)

    def value_and_gradient(self, kernel, inputs=False, inner_state=None):
        """`Evaluation` with the gradient wrt theta."""
        return exact.value_and_gradient(kernel, self.groups, self.n_jobs)

    def posterior(self, kernel, inner_state=None):
        """`Posterior`, the jitter that it took, and nothing to remember."""
        return *exact.posterior(kernel, self.groups, self.n_jobs), None


@dataclass(frozen=True, eq=False)
class CollapsedObjective(Objective):
    """A collapsed bound of a process in some basis."""

    rows: Table
    bound: object
    basis: Basis
    options: Options = Options()

    @property
    def inducing_points(self):
        """Parameters of the basis (m, d)."""
        return self.basis.parameters

    def size(self):
        """Number of rows, each counted as often as its weight says, times targets."""
        return self.rows.total_weight() * self.rows.n_targets

    def blocks(self, kernel, move_basis=False):
        """The kernel, and the inducing points if they may move."""
        basis = [basis_block(kernel, self.basis.parameters, self.rows)] if move_basis else []
        return [kernel_block(kernel), *basis]

    def at(self, basis=None):
        """The same objective at other inducing points."""
        return self if basis is None else replace(self, basis=self.basis.moved(basis))

    def on(self, rows):
        """The same objective of other rows."""
        return replace(self, rows=rows)

    def value(self, kernel, inner_state=None):
        """The bound."""
        return collapsed.value(self.problem(kernel))

    def value_and_gradient(self, kernel, inputs=False, inner_state=None):
        """`Evaluation` with the gradient wrt theta and, if `inputs`, wrt the inducing points."""
        return collapsed.value_and_gradient(self.problem(kernel), inputs)

    def posterior(self, kernel, inner_state=None):
        """`Posterior`, the jitter that it took, and nothing to remember."""
        return *collapsed.posterior(self.problem(kernel)), None

    def noise_and_residual(self, kernel):
        """Mean noise and mean residual variance over at most a few thousand rows."""
        rows = slice(None, None, -(-len(self.rows) // _FEW_ROWS))
        return collapsed.mean_noise_and_residual(self.problem(kernel), rows)

    def minibatch_view(self):
        """Gradients from some rows, and a running posterior."""
        return GaussianMinibatchView(self.size() / self.rows.n_targets)

    def problem(self, kernel):
        """The question of an evaluation."""
        return Problem(kernel, self.basis, self.rows, self.bound, self.options)


@dataclass(frozen=True, eq=False)
class DecoupledObjective(Objective):
    """A collapsed bound whose mean has a basis of its own."""

    objective: CollapsedObjective  # of the covariance
    basis: Basis  # of the mean

    @property
    def rows(self):
        """The training rows."""
        return self.objective.rows

    @property
    def inducing_points(self):
        """Parameters of the basis of the covariance (m, d)."""
        return self.objective.inducing_points

    def size(self):
        """Number of rows, each counted as often as its weight says, times targets."""
        return self.objective.size()

    def blocks(self, kernel, move_basis=False):
        """The kernel alone: both bases stay."""
        return [kernel_block(kernel)]

    def at(self):
        """The same objective: it has no parameters but the kernel's."""
        return self

    def value(self, kernel, inner_state=None):
        """The bound."""
        return decoupled.conclude(*self._problems(kernel))[0]

    def value_and_gradient(self, kernel, inputs=False, inner_state=None):
        """`Evaluation` with the gradient wrt theta."""
        return decoupled.value_and_gradient(*self._problems(kernel))

    def posterior(self, kernel, inner_state=None):
        """`DecoupledPosterior`, the jitter that it took, and nothing to remember."""
        return *decoupled.conclude(*self._problems(kernel))[1:], None

    def conclude(self, kernel):
        """The bound, `DecoupledPosterior` and the jitter."""
        return decoupled.conclude(*self._problems(kernel))

    def _problems(self, kernel):
        of_covariance = self.objective.problem(kernel)
        return of_covariance._replace(basis=self.basis), of_covariance


@dataclass(frozen=True)
class GaussianModel(Model):
    """Rows whose noise is Gaussian.

    Parameters
    ----------
    bound : Bound
        Of the sparse objective.
    """

    bound: object

    def sample(self, rows, size, random_state):
        """Indices of the rows of the small fit that comes first."""
        return rows.sample(size, random_state)

    def exact(self, rows, options, rough=False):
        """Objective whose inducing points are the distinct rows; nothing in it is iterative."""
        return ExactObjective(exact.group_table(rows), options.n_jobs, rows)

    def sparse(self, rows, Z, options):
        """Objective at inducing points Z."""
        return CollapsedObjective(rows, self.bound, InducingBasis(Z), options)

    def adapt(self, kernel, objective):
        """The kernel of a small exact fit, made ready for a sparse one."""
        return raise_noise(kernel, *objective.noise_and_residual(kernel))

    def has_little_noise(self, kernel, rows):
        """Whether there is little noise, relative to the variance of the targets."""
        few = rows.block(slice(_FEW_ROWS))
        noise = np.mean(kernels.diagonal(kernel, few.X)[1]) + np.mean(few.noise)
        return noise < _QUIET * rows.target_variance()

    def loses_much(self, kernel, objective):
        """Whether inducing points leave far more unexplained than there is noise.

        Of few rows, an exact fit sees most, so that less is enough.
        """
        noise, residual = objective.noise_and_residual(kernel)
        return residual > (_LOST_OF_FEW if len(objective.rows) <= _FEW_TO_KNOW else _LOST) * noise

    def warn_of(self, objective, kernel):
        """Warn where the bound is little but its penalty."""
        if kernels.has_noise(kernel):
            return
        noise, residual = objective.noise_and_residual(kernel)
        if residual > _NEGLIGIBLE * noise:
            warn(
                f"The inducing points leave a variance of {residual:.1e} unexplained, far more "
                f"than the known noise of {noise:.1e} (both in units of the scaled targets). Add "
                "a WhiteKernel to the kernel, raise alpha, or raise n_inducing.",
                ConvergenceWarning,
            )

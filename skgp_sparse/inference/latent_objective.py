r"""The bound of rows whose inputs are latent, as an objective: inputs are parameters of the rows.

Each row has an input ``x_i`` with a normal prior, N(0, I) in a GP-LVM, and a normal posterior
``q(x_i) = N(μ_i, diag s_i)``, written relative to the prior, by numbers around 0:

    μ = μ0 + √s0 η,      s = s0 e^τ,      KL = ½ Σ ( η² + e^τ - τ - 1 )
"""

from dataclasses import dataclass, replace

import numpy as np

from skgp_sparse._engine.data.dataset import Dataset
from skgp_sparse._engine.features.basis import Basis
from skgp_sparse._engine.features.problem import Options
from skgp_sparse._engine.predictions.normal_predictions import Normals
from skgp_sparse._engine.sparse import normal_inputs
from skgp_sparse._engine.sparse.normal_inputs import LatentProblem, MissingTargets
from skgp_sparse.inference.contracts import Conclusion, Objective
from skgp_sparse.inference.parameter_vectors import ParameterBlock, basis_block, kernel_block

_FEW_ROWS = 200  # that tell noise and residual
_LEAST_SPREAD = 1e-3  # of means, where all of them are alike


@dataclass(frozen=True, eq=False)
class LatentObjective(Objective):
    """A collapsed bound of the evidence, inputs integrated out under ``q``.

    Parameters
    ----------
    rows : Dataset
        Targets and noise; its inputs are not read.
    bound : Bound
        None that counts a residual as noise.
    basis : Basis
    prior : Normals
        Of the inputs.
    shift, log_ratio : ndarray of shape (n, d)
        η and τ.
    missing : MissingTargets
    options : Options
    """

    rows: Dataset
    bound: object
    basis: Basis
    prior: Normals
    shift: np.ndarray
    log_ratio: np.ndarray
    missing: MissingTargets
    options: Options = Options()

    likelihood = None

    @property
    def inducing_points(self):
        """Parameters of the basis (m, d)."""
        return self.basis.parameters

    @property
    def inputs(self):
        """``q`` of all rows."""
        mean, variance = self.prior
        return Normals(mean + np.sqrt(variance) * self.shift, variance * np.exp(self.log_ratio))

    def size(self):
        """Number of targets that were observed, each counted as often as its weight says."""
        weight = self.rows.row_weights()
        of_groups = self.missing.weights(weight, len(self.rows)).sum(axis=0)
        return float(of_groups @ np.bincount(self.missing.of_column))

    def blocks(self, kernel, move_basis=False):
        """Kernel, inducing points if they may move, and ``q`` of all rows."""
        mean = self.inputs.mean
        basis = [basis_block(kernel, self.basis, mean.std(axis=0) + _LEAST_SPREAD)]
        of_rows = [ParameterBlock("shift", self.shift), ParameterBlock("log_ratio", self.log_ratio)]
        return [kernel_block(kernel), *(basis if move_basis else []), *of_rows]

    def at(self, basis=None, **blocks):
        """A copy of the objective at other inducing points, and at another ``q``."""
        moved = {} if basis is None else {"basis": self.basis.moved(basis)}
        return replace(self, **moved, **blocks)

    def divergences(self):
        """KL of every row, by columns (n, d)."""
        return 0.5 * (self.shift**2 + np.expm1(self.log_ratio) - self.log_ratio)

    def value(self, kernel, inner_state=None):
        """The bound."""
        return self.conclude(kernel).value

    def value_and_gradient(self, kernel, inputs=False, inner_state=None):
        """`Evaluation` with the gradient of every block."""
        value, gradient, *rest = normal_inputs.value_and_gradient(self.problem(kernel), inputs)
        root, variance = np.sqrt(self.prior.variance), self.inputs.variance
        shift_bar = root * gradient.pop("mean") - self.shift
        ratio_bar = variance * gradient.pop("variance") - 0.5 * np.expm1(self.log_ratio)
        gradient |= {"shift": shift_bar, "log_ratio": ratio_bar}
        return normal_inputs.Evaluation(value - self.divergences().sum(), gradient, *rest)

    def conclude(self, kernel, inner_state=None):
        """`Conclusion` at a kernel, with an `InducingPosterior`."""
        value, posterior, jitter = normal_inputs.conclude(self.problem(kernel))
        return Conclusion(value - self.divergences().sum(), posterior, jitter, self)

    def noise_and_residual(self, kernel):
        """Mean noise and mean residual variance over at most some hundred rows."""
        rows = slice(None, None, -(-len(self.rows) // _FEW_ROWS))
        return normal_inputs.mean_noise_and_residual(self.problem(kernel), rows)

    def problem(self, kernel):
        """The question of an evaluation."""
        return LatentProblem(
            kernel, self.basis, self.rows, self.bound, self.inputs, self.missing, self.options
        )

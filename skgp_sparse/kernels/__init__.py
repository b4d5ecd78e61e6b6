"""Values and vector-Jacobian products of kernels.

scikit-learn can differentiate ``k(X, X)`` with respect to the hyperparameters only. A sparse
Gaussian process needs the derivatives of ``k(X, Z)``, as products with a cotangent ``G``. With
``F = sum(G * k(X, Z))``, the pullback of ``k(X, Z)`` maps ``G`` to ``theta_bar = dF / dtheta``,
where theta are log hyperparameters in scikit-learn's order, and to ``Z_bar = dF / dZ``.

- `_differentiable`: contracts of kernels, the node of every kernel, and the registry of rules
- `_nodes`: hyperparameters, and the nodes of the tree of an expression
- `_functions`: functions of any kernel, such as `linearize`, `evaluate` and `diagonal`
- `_sklearn_kernels`: rules of scikit-learn's kernels, and of sums, products and powers
- `_mapped`: kernels of transformed inputs, and of inputs with missing values
- `_leaves`: kernels of levels and of bits, and noise whose variance varies with the inputs
- `_visitors`: tiles in single precision, frequencies to draw, and inputs for searches of near rows
- `_expectations`: a kernel whose first argument has a normal distribution
"""

from . import _sklearn_kernels
from ._differentiable import DifferentiableKernel, KernelRule, register
from ._expectations import expectation_width, expectations
from ._leaves import Categorical, HeteroscedasticNoise, LogNoiseFunction, Tanimoto, categories
from ._mapped import Columns, LogScale, Missing, Sphere, named, theta_of_spread, with_missing
from ._nodes import moved
from ._visitors import in_units, reaches_far, single, spectrum

# values, questions, and places of hyperparameters
# isort: off
from ._functions import diagonal, evaluate, footprint, linearize, linearize_stack, touched
from ._functions import differentiable, has_noise, is_noisy, may_mix, parts, parts_by_columns
from ._functions import length_scale_places, length_scales, periods, positions_of, summands, units
# isort: on

__all__ = ["Categorical", "Columns", "DifferentiableKernel", "KernelRule", "LogNoiseFunction"]
__all__ += ["LogScale", "Missing", "Sphere", "Tanimoto", "HeteroscedasticNoise", "diagonal"]
__all__ += ["differentiable", "evaluate", "footprint", "has_noise", "length_scales", "linearize"]
__all__ += ["linearize_stack", "register", "spectrum"]

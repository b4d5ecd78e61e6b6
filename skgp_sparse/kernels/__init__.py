"""Values and vector-Jacobian products of kernels.

scikit-learn can differentiate ``k(X, X)`` with respect to the hyperparameters only. A sparse
Gaussian process needs the derivatives of ``k(X, Z)``, as products with a cotangent ``G``. With
``F = sum(G * k(X, Z))``, the pullback of ``k(X, Z)`` maps ``G`` to ``theta_bar = dF / dtheta``,
where theta are log hyperparameters in scikit-learn's order, and to ``Z_bar = dF / dZ``.

- `_differentiable`: contracts of kernels, the tree of an expression and its hyperparameters, the
  registry of rules, and functions such as `linearize`, `evaluate` and `diagonal`
- `_sklearn_kernels`: rules of scikit-learn's kernels, and of sums, products and powers
- `_mapped`: kernels of transformed inputs, and of inputs with missing values
- `_leaves`: kernels of levels and of bits, and noise whose variance varies with the inputs
- `_visitors`: tiles in single precision, frequencies to draw, and inputs for searches of near rows
- `_expectations`: a kernel whose first argument has a normal distribution
"""

from . import _sklearn_kernels
from ._differentiable import (
    DifferentiableKernel,
    KernelRule,
    diagonal,
    differentiable,
    evaluate,
    footprint,
    has_noise,
    is_noisy,
    length_scale_places,
    length_scales,
    linearize,
    linearize_stack,
    may_mix,
    moved,
    parts,
    parts_by_columns,
    periods,
    positions_of,
    register,
    summands,
    touched,
    units,
)
from ._expectations import expectation_width, expectations
from ._leaves import Categorical, HeteroscedasticNoise, LogNoiseFunction, Tanimoto, categories
from ._mapped import Columns, LogScale, Missing, Sphere, named, theta_of_spread, with_missing
from ._visitors import in_units, reaches_far, single, spectrum

__all__ = [
    "Categorical",
    "Columns",
    "DifferentiableKernel",
    "KernelRule",
    "LogNoiseFunction",
    "LogScale",
    "Missing",
    "Sphere",
    "Tanimoto",
    "HeteroscedasticNoise",
    "diagonal",
    "differentiable",
    "evaluate",
    "footprint",
    "has_noise",
    "length_scales",
    "linearize",
    "linearize_stack",
    "register",
    "spectrum",
]

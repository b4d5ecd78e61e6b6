"""Values and vector-Jacobian products of kernels.

scikit-learn can differentiate ``k(X, X)`` with respect to the hyperparameters only. A sparse
Gaussian process needs the derivatives of ``k(X, Z)``, between the training inputs ``X`` and the
inducing points ``Z``, with respect to the hyperparameters and ``Z``. It needs them only as
products with a cotangent ``G``, which has the shape of ``k(X, Z)``. For
``F = sum(G * k(X, Z))``, these products are

    theta_bar = dF / dtheta    (theta = log hyperparameters, in scikit-learn's order),
    Z_bar     = dF / dZ.

The pullback of ``k(X, Z)`` is the function that maps ``G`` to ``(theta_bar, Z_bar)``. `linearize`
returns the value and the pullback, and `evaluate` returns the value only. `diagonal` returns the
diagonal without white noise, the white noise, and a pullback. A `DifferentiableKernel` has methods
for these. A derivative rule (`KernelRule`) is for scikit-learn's own kernels, and for classes that
cannot subclass it: it is found by the exact type of the kernel, and `register` adds one. A kernel
without a rule can be used, too, but it is slower, and its inducing points are not optimised.
Pullbacks of the kernels in this package can be pickled.

The base class of kernels is in `_differentiable`, with the registry of rules, the leaf of kernels
without a rule, and the public functions that go through the tree of an expression. `_nodes` is
this tree, with the interface of rules and with hyperparameters that are read and set.
`_sklearn_leaves` and `_sklearn_composites` have the rules of scikit-learn's kernels, those of sums,
products and powers in the latter.

`_mapped` has kernels of transformed inputs: `Columns`, `Sphere`, and `LogScale` for skewed columns.
`Missing`, for inputs with missing values, is in `_missing`. `_categorical` has the kernel of
levels, says how much rows of levels agree, and has the kernel of bits. `_heteroscedastic_noise` has
noise whose variance varies with the inputs.

`_visitors` makes tiles in single precision, and draws the frequencies of stationary kernels.
`_expectations` is about a kernel whose first argument has a normal
distribution: it has closed forms, and integrates every other kernel.
"""

from . import _sklearn_composites
from ._categorical import Categorical, Tanimoto, as_numbers, categories, in_units
from ._differentiable import (
    DifferentiableKernel,
    diagonal,
    differentiable,
    evaluate,
    footprint,
    has_noise,
    learns_noise,
    length_scale_places,
    length_scales,
    linearize,
    linearize_stack,
    may_mix,
    parts,
    parts_by_columns,
    positions_of,
    register,
    stacked,
    touched,
)
from ._expectations import expectation_width, expectations
from ._heteroscedastic_noise import HeteroscedasticNoise, LogNoiseFunction, without_noise
from ._mapped import Columns, LogScale, Sphere, named, theta_of_spread
from ._missing import Missing, bare, with_missing
from ._nodes import KernelRule, moved
from ._visitors import single, spectrum

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

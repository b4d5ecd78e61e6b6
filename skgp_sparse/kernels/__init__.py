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

The base class of kernels is in `_differentiable`, the interface of rules in `_rules`, and the
registry in `_registry`. `_nodes` is the tree of an expression, `_functions` has the public
functions that go through it, and `_theta` reads and sets hyperparameters. `_fallback` is for
kernels without a rule. `_sklearn_kernels` has the rules of scikit-learn's kernels: `formulas`, with
`distances`, and `composites` for sums, products and powers.

A kernel is one file. `_mapped` is the base class of kernels of transformed inputs: `Columns` is in
`_columns`, `Sphere` in `_sphere`, `LogScale`, for skewed columns, in `_log_scale`, and `Missing`,
for inputs with missing values, in `_missing`. `_categorical` has the kernel of levels,
`_tanimoto` that of bits, and `_heteroscedastic_noise` has noise whose variance varies with the
inputs. `_levels` says how much rows of levels agree.

`_near` makes inputs in which rows are near that a kernel finds near, `_one_column` replaces one
column of rows, and `_single` makes tiles in single precision. `_spectra` draws the frequencies of
stationary kernels. `_expectations` is about a kernel whose first argument has a normal
distribution: `normal_terms` and `normal_pairs` have closed forms, and `normal_nodes` integrates
every other kernel.
"""

from . import _sklearn_kernels
from ._categorical import Categorical, as_numbers, categories
from ._columns import Columns, named
from ._differentiable import DifferentiableKernel
from ._expectations import expectation_width, expectations
from ._functions import (
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
    stacked,
    touched,
)
from ._heteroscedastic_noise import HeteroscedasticNoise, LogNoiseFunction, without_noise
from ._log_scale import LogScale
from ._missing import Missing, bare, with_missing
from ._near import in_units
from ._one_column import replacing
from ._registry import register
from ._rules import KernelRule
from ._single import single
from ._spectra import spectrum
from ._sphere import Sphere, theta_of_spread
from ._tanimoto import Tanimoto
from ._theta import moved

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

"""Values and vector-Jacobian products of scikit-learn's kernels.

scikit-learn can differentiate ``k(X, X)`` with respect to the hyperparameters only.  A sparse
Gaussian process needs the derivatives of ``k(X, Z)``, between the training inputs ``X`` and the
inducing points ``Z``, with respect to the hyperparameters and ``Z``.  It needs them only as
products with a cotangent ``G``, which has the shape of ``k(X, Z)``.  For
``F = sum(G * k(X, Z))``, these products are

    theta_bar = dF / dtheta    (theta = log hyperparameters, in scikit-learn's order),
    Z_bar     = dF / dZ.

The pullback of ``k(X, Z)`` is the function that maps ``G`` to ``(theta_bar, Z_bar)``.  `linearize`
returns the value and the pullback, and `evaluate` returns the value only.  `diagonal` returns the
diagonal without white noise, the white noise, and a pullback.  A kernel that is not a sum, product
or power of other kernels has a derivative rule (`KernelRule`), which is found by the exact type of
the kernel.  `register` adds a rule for a user-defined kernel.  A kernel without a rule can be used,
too, but it is slower, and its inducing points are not optimised.  Pullbacks of the kernels in this
package can be pickled.

The public functions and the registry are in `_nodes`, and the interface of rules is in `_rules`.
`_theta` reads and sets hyperparameters, and `_rules_in_pickles` lets rules of users travel to other
processes.  `_composites` contains sums, products and powers, and `_fallback` contains the code for
kernels without a rule.  The formulas of the kernels are in `_formulas`, `_bessel` and `_pairwise`.
`_distances` contains functions that the stationary kernels share.
`_mapped` contains kernels of inputs that are seen through a map: `Columns` is in `_columns`, and
`Sphere` in `_sphere`; `LogScale`, for skewed columns, is in `_log_scale`, and `Missing`, for inputs
with missing values, in `_missing` and `_missing_node`.  `_categorical` has the kernel of levels,
`_codes` says which parts of a kernel see them, and `_levels` how much rows of levels agree.
`_column_factors` takes products apart by column, and `_one_column` replaces one column of rows.
`_orthogonal` and
`_orthogonal_rule` are about the additive kernel.  `_near` makes inputs in which rows are near that
a kernel finds near.  `_varying_noise` has noise whose variance varies with the inputs.
`_stacks` contains the same for many small point sets at once, and `_single` makes tiles in single
precision.  `_spectra` draws the frequencies of stationary kernels.  `_expectations` is about a
kernel whose first argument has a normal distribution: the terms of a closed form are in
`_normal_terms`, and pairs of them in `_normal_pairs`; `_nodes_of_normals` integrates every other
kernel.
"""

from sklearn.gaussian_process import kernels as _sk

from . import _composites, _fallback, _formulas, _nodes, _pairwise
from ._categorical import Categorical, CategoricalRule
from ._codes import as_numbers, categories, with_levels
from ._column_factors import column_factors
from ._columns import Columns, named
from ._expectations import expectation_width, expectations
from ._log_scale import LogScale
from ._mapped import MappedNode, may_mix, touched
from ._missing import Missing, bare, has_missing, missing_parts, with_gaps
from ._missing_node import MissingNode
from ._near import in_units
from ._nodes import (
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
    positions_of,
    register,
    stacked,
)
from ._one_column import replacing
from ._orthogonal import OrthogonalAdditive, additive_parts, with_units
from ._orthogonal_rule import OrthogonalRule
from ._rules import KernelRule
from ._single import single
from ._spectra import spectrum
from ._sphere import Sphere, spheres, theta_of_spread
from ._theta import moved
from ._varying_noise import LogFactor, VaryingNoise, VaryingNoiseNode, without_noise

__all__ = [
    "Categorical",
    "Columns",
    "KernelRule",
    "LogFactor",
    "LogScale",
    "Missing",
    "OrthogonalAdditive",
    "Sphere",
    "VaryingNoise",
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


def _refuse_compound(kernel):
    raise ValueError("CompoundKernel is not a covariance. Add or multiply its kernels instead.")


register(_sk.ConstantKernel, _formulas.ConstantRule())
register(Categorical, CategoricalRule())
register(OrthogonalAdditive, OrthogonalRule())
register(_sk.DotProduct, _formulas.DotProductRule())
register(_sk.RBF, _formulas.RBF_RULE)
register(_sk.RationalQuadratic, _formulas.RationalQuadraticRule())
register(_sk.ExpSineSquared, _formulas.ExpSineSquaredRule())
_nodes.add_family(_sk.Matern, _formulas.matern_rule)
_nodes.add_family(_sk.PairwiseKernel, _pairwise.rule)
_nodes.add_builder(object, _fallback.Opaque)
_nodes.add_builder(_sk.WhiteKernel, _nodes.White)
_nodes.add_builder(_sk.Sum, _composites.SumNode)
_nodes.add_builder(_sk.Product, _composites.ProductNode)
_nodes.add_builder(_sk.Exponentiation, _composites.PowerNode)
_nodes.add_builder(Columns, MappedNode)
_nodes.add_builder(Sphere, MappedNode)
_nodes.add_builder(LogScale, MappedNode)
_nodes.add_builder(Missing, MissingNode)
_nodes.add_builder(VaryingNoise, VaryingNoiseNode)
_nodes.add_builder(_sk.CompoundKernel, _refuse_compound)

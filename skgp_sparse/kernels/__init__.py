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

The public functions are in `_tree`, the interface of rules is in `_rules`, and the registry is in
`_nodes`.  `_composites` contains sums, products and powers, and `_fallback` contains the code for
kernels without a rule.  The formulas of the kernels are in `_stationary`, `_bessel`,
`_dot_products` and `_pairwise`.  `_distances` contains functions that the stationary kernels share.
`_single` makes tiles in single precision, and `_stacks` evaluates many small point sets at once.
"""

from __future__ import annotations

from sklearn.gaussian_process import kernels as _sk

from . import _composites, _dot_products, _nodes, _pairwise, _stationary
from ._nodes import register
from ._rules import KernelRule
from ._single import single
from ._stacks import stacked
from ._tree import (
    diagonal,
    differentiable,
    evaluate,
    footprint,
    has_noise,
    length_scales,
    linearize,
)

__all__ = [
    "KernelRule",
    "diagonal",
    "differentiable",
    "evaluate",
    "footprint",
    "has_noise",
    "length_scales",
    "linearize",
    "register",
    "single",
    "stacked",
]


def _refuse_compound(kernel):
    raise ValueError(
        "CompoundKernel returns several kernel matrices and is not a covariance function. "
        "Add or multiply its kernels instead, or fit one model per kernel."
    )


register(_sk.ConstantKernel, _dot_products.ConstantRule())
register(_sk.DotProduct, _dot_products.DotProductRule())
register(_sk.RBF, _stationary.RBF_RULE)
register(_sk.RationalQuadratic, _stationary.RationalQuadraticRule())
register(_sk.ExpSineSquared, _stationary.ExpSineSquaredRule())
_nodes.add_family(_sk.Matern, _stationary.matern_rule)
_nodes.add_family(_sk.PairwiseKernel, _pairwise.rule)
_nodes.add_builder(_sk.WhiteKernel, _nodes.White)
_nodes.add_builder(_sk.Sum, _composites.SumNode)
_nodes.add_builder(_sk.Product, _composites.ProductNode)
_nodes.add_builder(_sk.Exponentiation, _composites.PowerNode)
_nodes.add_builder(_sk.CompoundKernel, _refuse_compound)

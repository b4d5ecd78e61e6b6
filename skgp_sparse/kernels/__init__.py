"""Kernels: values and vector-Jacobian products of scikit-learn's kernel expressions.

scikit-learn differentiates ``k(X, X)`` with respect to its hyperparameters, and nothing else.  A
sparse Gaussian process needs ``k(X, Z)`` between data and inducing inputs, differentiated with
respect to both the hyperparameters and ``Z``, and contracted with a cotangent at once: for
``F = sum(G * k(X, Z))``,

    theta_bar = dF / dtheta    (theta = log hyperparameters, in scikit-learn's order),
    Z_bar     = dF / dZ.

`linearize` gives the value and this pullback, `evaluate` the value, `diagonal` the diagonal with
white noise told apart.  Leaf kernels have rules (`KernelRule`), found by their exact type;
`register` adds one for a kernel of your own.  A kernel without a rule still works, at some cost
and with its inducing inputs held fixed.  Pullbacks are plain data, partial functions of arrays and
kernels, and can be pickled.

Files: `_tree` has the public functions, `_rules` is the interface, `_nodes` the registry,
`_composites` the operators, `_fallback` what is done without a rule; the formulas stand in
`_stationary`, `_bessel`, `_dot_products` and `_pairwise`, and `_distances` is the arithmetic that
the stationary ones share.
"""

from __future__ import annotations

from sklearn.gaussian_process import kernels as _sk

from . import _composites, _dot_products, _nodes, _pairwise, _stationary
from ._nodes import register
from ._rules import KernelRule
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
]


def _refuse_compound(kernel):
    raise ValueError(
        "CompoundKernel stacks several kernel matrices and is not a covariance function: "
        "add or multiply its kernels instead, or fit one model per kernel"
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

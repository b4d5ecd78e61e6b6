"""Rules and nodes of scikit-learn's kernels, which are registered by their exact types.

`formulas` has the constant kernel, the dot product and the stationary kernels with their distances,
and `composites` has sums, products and powers. PairwiseKernel and Matern of other nu than 1/2, 3/2,
5/2 and inf have no rule.
"""

from sklearn.gaussian_process import kernels as _sk

from .._differentiable import add_builder, add_family, register
from .._nodes import White
from . import composites, formulas


def _refuse_compound(kernel):
    raise ValueError("CompoundKernel is not a covariance. Add or multiply its kernels instead.")


register(_sk.ConstantKernel, formulas.ConstantRule())
register(_sk.DotProduct, formulas.DotProductRule())
register(_sk.RBF, formulas.RBF_RULE)
register(_sk.RationalQuadratic, formulas.RationalQuadraticRule())
register(_sk.ExpSineSquared, formulas.ExpSineSquaredRule())
add_family(_sk.Matern, lambda kernel: formulas.MATERN.get(float(kernel.nu)))
add_builder(_sk.WhiteKernel, White)
add_builder(_sk.Sum, composites.SumNode)
add_builder(_sk.Product, composites.ProductNode)
add_builder(_sk.Exponentiation, composites.PowerNode)
add_builder(_sk.CompoundKernel, _refuse_compound)

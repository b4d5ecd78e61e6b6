"""Kernels of every kind, for tests of all of them."""

import numpy as np
from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

STATIONARY = [
    RBF(0.8),
    RBF([0.9]),
    RBF([0.8, 1.3, 2.0]),
    *(Matern(0.9, nu=nu) for nu in (0.5, 1.5, 2.5)),
    Matern([0.8, 1.3, 2.0], nu=0.5),
    Matern([0.8, 1.3, 2.0], nu=np.inf),
    RationalQuadratic(1.2, 0.7),
    ExpSineSquared(0.9, 1.7),
]
COMPOSITES = [
    ConstantKernel(2.0),
    ConstantKernel(2),
    DotProduct(0.6),
    DotProduct(2),
    ConstantKernel(2) ** 0.5,
    ConstantKernel(2) * RBF(3),
    ConstantKernel(1.4, "fixed") * RBF([0.8, 1.3, 2.0], "fixed") + DotProduct(0.5),
    RationalQuadratic(1.2, 0.7, alpha_bounds="fixed"),
    ExpSineSquared(0.9, 1.7, length_scale_bounds="fixed"),
    RBF(0.8) + Matern(1.1, nu=1.5),
    RBF(0.8) + ConstantKernel(0.3),
    ConstantKernel(0.3) + RBF(0.8),
    RBF(0.8) * ConstantKernel(0.3),
    RBF(0.8) * Matern([1.1, 0.7, 2.0], nu=1.5) * DotProduct(0.5),
    (RBF(0.8) + DotProduct(0.4)) ** 3,
    (ConstantKernel(0.5) * RBF(0.8)) ** 0.5,
    (ConstantKernel(0.5) + WhiteKernel(0.2) + ConstantKernel(0.1)) * RBF(0.8),
    RBF(0.8) * WhiteKernel(0.3) + Matern(0.7),
    ConstantKernel(2.0) * (RBF() + WhiteKernel(0.5)),
    (RBF(0.7) + WhiteKernel(0.5)) * (DotProduct(0.3) + WhiteKernel(0.2)),
    (ConstantKernel(1.5) * (RBF(0.7) + WhiteKernel(0.5))) ** 2 + WhiteKernel(0.1),
    (DotProduct(1.0) + WhiteKernel(0.5)) ** 0.5,
    WhiteKernel(0.5) ** 0.5 + RBF(0.8),
    WhiteKernel(0.5),
]
ALL = STATIONARY + COMPOSITES


class Rippled(RBF):
    """A subclass with another formula: not an RBF."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if not eval_gradient:
            return np.cos(super().__call__(X, Y))
        K, dK = super().__call__(X, Y, eval_gradient=True)
        return np.cos(K), -np.sin(K)[:, :, None] * dK

    def diag(self, X):
        return np.cos(super().diag(X))


def parsed(text):
    """The kernel of scikit-learn that has a text as its repr."""
    names = {name: getattr(sklearn_kernels, name) for name in dir(sklearn_kernels)}
    return eval(str(text).replace("1e400", "float('inf')"), names)

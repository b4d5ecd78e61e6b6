"""Kernels in which rows far away matter, asked by their values."""

import numpy as np
import pytest
from inside import ArrayDataset
from sklearn.gaussian_process.kernels import (
    RBF,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgp_sparse.kernels import Categorical, Columns, DifferentiableKernel, Sphere, reaches_far

WAVE, PLACES = ExpSineSquared(1.0, 7.0, periodicity_bounds="fixed"), Columns(Sphere(RBF()), [0, 1])


class Cosine(DifferentiableKernel):
    """The kernel cos(x - z) of a user."""

    def linearize(self, X, Z):
        D = X - Z[:, 0]
        return np.cos(D), lambda G, inputs: ({}, np.sum(G * np.sin(D), axis=0)[:, None])

    def linearize_diag(self, X):
        return 1.0, lambda g, inputs: ({}, 0.0)


FALL = {
    "RBF": 2.0 * RBF([1.0, 2.0, 3.0]) + 3.0 + WhiteKernel(),
    "slowly": RationalQuadratic(alpha=0.1),
    "exponent": Matern(nu=0.5) ** 2,
    "additive": Columns(RBF(), [0]) + Columns(Matern(5.0), [2]),
    "fading wave": RBF([1e3] * 3) * Columns(WAVE, [2]),
    "fading line": DotProduct() * RBF(),
    "places": PLACES + Columns(RBF(), [2]),
    "levels": Columns(Categorical([0.5]), [2]) * Columns(RBF(), [0]),
}
REACH = {
    "wave": WAVE,
    "small": 100.0 * RBF() + 1e-3 * Columns(WAVE, [2]),
    "line": DotProduct() + RBF(),
    "square": DotProduct() ** 2,
    "wave elsewhere": Columns(RBF(), [0]) * Columns(WAVE, [2]),
    "beside places": PLACES + Columns(WAVE, [2]),
    "of a user": RBF() + Columns(Cosine(), [2]),
}


@pytest.mark.parametrize("name", [*FALL, *REACH])
def test_kernels_say_whether_they_fall_with_distance(name):
    X = np.random.RandomState(0).uniform(0.0, 50.0, size=(30, 3))
    X[:, 2] = np.arange(30.0)
    rows = ArrayDataset(X, X[:, :1])
    assert reaches_far((FALL | REACH)[name], X[:1], rows.scale()) == (name in REACH)

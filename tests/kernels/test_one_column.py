"""Kernel matrices of rows with another column equal those that are computed anew."""

import numpy as np
import pytest
from inside import functions
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgp_sparse import SparseGPRegressor, kernels
from skgp_sparse.kernels import (
    Categorical,
    Columns,
    LogScale,
    Missing,
    Sphere,
)

RNG = np.random.RandomState(0)
D = 5  # two numbers, one of them with gaps, two categories, and a number


def rows(n, seed):
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), rng.randint(0, 4, (n, 2)), rng.normal(size=n)])
    X[rng.uniform(size=n) < 0.3, 1] = np.nan
    return X


X, OTHER, Z = rows(12, 0), rows(12, 1), rows(7, 2)
OTHER[0, 2] = -2.0  # a level that was not seen
LEVELS = Categorical(correlation=np.array([0.3, 0.9]))
NUMBERS = Missing(
    Matern([0.5, 2.0, 1.0], nu=2.5),
    columns=[1],
    correlation=np.array([0.6]),
    neutral=np.array([0.7]),
    noise=np.array([0.1]),
    units=(np.zeros(3), np.ones(3)),
)
COMPLETE = [
    RBF([1.0, 2.0, 0.5, 3.0, 1.0]),
    Matern(2.0, nu=0.5) + WhiteKernel(0.1),
    ConstantKernel(2.0) * Matern(np.arange(1.0, 6.0), nu=1.5),
    RationalQuadratic(2.0) * Columns(ExpSineSquared(1.0, 2.0), 4) + DotProduct(),
    Columns(RBF(), 3) + Columns(Matern(nu=2.5), [4, 0]) ** 2,
    LogScale(Matern(2.0, nu=2.5), [4], [-9.0], [2.0]),
    Columns(Sphere(RBF(0.1)), [4, 0]) * Columns(RBF(), [3, 2]),
    Columns(Categorical(), 2) * RBF(3.0),
    RBF(1e-5) + Matern(1e9, nu=0.5),
    ConstantKernel(2.0) + WhiteKernel(),
    Columns(Categorical(correlation=1e-80), [2, 3]),
]
WITH_GAPS = [
    ConstantKernel(2.0)
    * Columns(ConstantKernel(0.5) + NUMBERS, [0, 1, 4])
    * Columns(ConstantKernel(0.1) + LEVELS, [2, 3]),
    Columns(NUMBERS, [4, 1, 0]) + Columns(LEVELS, [3, 2]) + WhiteKernel(),
    Missing(LogScale(RBF(np.ones(5)), [4], [-9.0], [2.0])),
]


def check(kernel, X, OTHER, Z):
    replace = kernels.replacing(kernel, X, Z)
    before = X.copy()
    for _ in range(2):  # what is kept does not change
        for j in range(D):
            mixed = X.copy()
            mixed[:, j] = OTHER[:, j]
            found = np.broadcast_to(replace(j, OTHER[:, j]), (len(X), len(Z)))
            assert_allclose(found, kernels.evaluate(kernel, mixed, Z), rtol=1e-12, atol=1e-13)
    assert_array_equal(X, before)


@pytest.mark.parametrize("kernel", COMPLETE, ids=str)
def test_matrices_of_complete_rows_with_another_column(kernel):
    check(kernel, *map(np.nan_to_num, (X, OTHER, Z)))


@pytest.mark.parametrize("kernel", WITH_GAPS, ids=["product", "sum", "missing"])
def test_matrices_of_rows_with_gaps_with_another_column(kernel):
    check(kernel, X, OTHER, Z)
    check(kernel, np.nan_to_num(X), np.nan_to_num(OTHER), Z)


def test_rows_that_are_far_away():
    far = np.nan_to_num(OTHER)
    far[:, 0] *= 1e8
    check(RBF(np.ones(5)), np.nan_to_num(X), far, np.nan_to_num(Z))
    check(RBF(np.ones(5)), far, np.nan_to_num(X), np.nan_to_num(Z))


@pytest.mark.second(share=0.33)
@pytest.mark.parametrize("targets", [1, 2])
def test_sobol_indices_are_those_of_rows_that_are_predicted_anew(targets, monkeypatch):
    X, y = rows(80, 3), RNG.normal(size=(80, targets))
    y[:, 0] += X[:, 0] + (X[:, 2] == 1)
    model = SparseGPRegressor(categorical_features=[2, 3], optimizer=None).fit(X, y)
    found = model.feature_importances_, model.sobol_first_, model.sobol_error_
    monkeypatch.setattr(functions, "_FEWEST_TOGETHER", 10**6)
    other = SparseGPRegressor(categorical_features=[2, 3], optimizer=None, n_jobs=2).fit(X, y)
    assert_allclose(other.feature_importances_, found[0], rtol=1e-10)
    monkeypatch.setattr(functions, "_replaced", anew)
    again = SparseGPRegressor(categorical_features=[2, 3], optimizer=None).fit(X, y)
    for one, name in zip(found, ("feature_importances_", "sobol_first_", "sobol_error_")):
        assert_allclose(one, getattr(again, name), rtol=1e-8, atol=1e-12)


def anew(process, A, B, threads):
    mixed = (np.where(np.arange(A.shape[1]) == j, B, A) for j in range(A.shape[1]))
    return np.stack([process.mean(one, threads) for one in mixed])

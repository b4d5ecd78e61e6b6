"""The additive kernel of orthogonal parts, and what its parts say."""

import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.kernels import Columns, OrthogonalAdditive
from skgp_sparse.testing import check_kernel_rule

UNITS = np.array([0.1, -0.2, 0.3]), np.array([1.0, 2.0, 0.5])
SCALES, VARIANCES = np.array([1.0, 0.5, 2.0]), np.array([0.5, 1.0, 0.3, 0.2])
FULL = OrthogonalAdditive(3, SCALES, variances=VARIANCES, units=UNITS)
KERNELS = [
    OrthogonalAdditive(),
    FULL,
    OrthogonalAdditive(1, length_scale_bounds="fixed") + WhiteKernel(0.1),
    OrthogonalAdditive(2, variances_bounds="fixed") * RBF(3.0),
    Columns(OrthogonalAdditive(2, np.ones(2)), [0, 2]) + ConstantKernel(),
]
X = np.random.RandomState(0).normal(size=(30, 3))

NODES = np.linspace(-9, 9, 2001)
WEIGHTS = np.exp(-0.5 * NODES**2) / np.sum(np.exp(-0.5 * NODES**2))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rule(kernel):
    check_kernel_rule(kernel, X)
    assert clone(kernel) == kernel and pickle.loads(pickle.dumps(kernel)) == kernel
    moved = kernel.clone_with_theta(kernel.theta + 0.1)
    assert_allclose(moved.theta, kernel.theta + 0.1)
    assert np.linalg.eigvalsh(kernel(X)).min() > -1e-10


def constrained(j, x, z):
    """By numerical integration over the normal distribution of the column."""
    s, w = UNITS[0][j] + UNITS[1][j] * NODES, WEIGHTS

    def k(a, b):
        return np.exp(-0.5 * (a[:, None] - b) ** 2 / SCALES[j] ** 2)

    return k(x, z) - np.outer(k(x, s) @ w, k(z, s) @ w) / (w @ k(s, s) @ w)


def test_values_are_the_definition():
    factors = [constrained(j, X[:, j], X[:9, j]) for j in range(3)]
    expected = VARIANCES[0] + sum(
        VARIANCES[r] * np.prod([factors[j] for j in S], axis=0)
        for r in (1, 2, 3)
        for S in combinations(range(3), r)
    )
    assert_allclose(FULL(X, X[:9]), expected, atol=1e-8)


def test_functions_have_mean_zero_under_the_distribution_of_a_column():
    rows = np.tile(X[0], (len(NODES), 1))
    factor = FULL.factors(rows)[1]
    rows[:, 1] = UNITS[0][1] + UNITS[1][1] * NODES
    assert_allclose(WEIGHTS @ factor.cross(rows, X), 0.0, atol=1e-8)


def table(n=150):
    rng = np.random.RandomState(1)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 1.0]
    y = 3.0 + 2.0 * np.sin(X[:, 0]) + 0.2 * (X[:, 1] - 50.0) * X[:, 0]
    return X, y + 0.1 * rng.normal(size=n)


@pytest.mark.second(share=0.46)
@pytest.mark.parametrize("posterior", ["exact", "inducing"])
def test_components_add_up_and_are_those_of_dense_algebra(posterior):
    X, y = table()
    kernel = OrthogonalAdditive(length_scale=np.array([1.0, 10.0, 0.1]))
    model = SparseGPRegressor(kernel, posterior=posterior, n_inducing=60, random_state=0).fit(X, y)
    parts = model.components(X[:20])
    assert parts.columns == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert_allclose(parts.mean.sum(axis=1) + parts.constant, model.predict(X[:20]), rtol=1e-7)
    share = model.components(X).share
    assert_allclose(share.sum(), 1.0)
    assert set(np.argsort(share)[-2:]) == {0, 3} and share[[1, 2, 4, 5]].sum() < 0.1
    if posterior == "exact":
        one, other = model.kernel_.k1.factors(X)[:2]
        variance = model.kernel_.k1.variances[2]
        across = variance * one.cross(X[:20], X) * other.cross(X[:20], X)
        own = variance * one.diag(X[:20]) * other.diag(X[:20])
        K, scale = model.kernel_(X), y.std()
        mean = scale * across @ np.linalg.solve(K, (y - y.mean()) / scale)
        assert_allclose(parts.mean[:, 3], mean, rtol=1e-5, atol=1e-6)
        left = own - np.einsum("ij,ji->i", across, np.linalg.solve(K, across.T))
        assert_allclose(parts.std[:, 3], scale * np.sqrt(left), rtol=1e-4)


def test_names_units_and_constant():
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    kernel = OrthogonalAdditive(1, np.array([1.0, 10.0, 0.1]))
    model = SparseGPRegressor(kernel, random_state=0).fit(frame, y)
    assert model.components(frame[:5]).columns == [("a",), ("b",), ("c",)]
    mean, std = model.kernel_.k1.units
    assert_allclose(mean, X.mean(axis=0))
    assert_allclose(std, X.std(axis=0))
    assert kernel.units is None
    constant = SparseGPRegressor(OrthogonalAdditive() + WhiteKernel(), optimizer=None)
    parts = constant.fit(X, np.full(150, 7.0)).components(X)
    assert parts.constant == pytest.approx(7.0) and not parts.share.any()


def test_it_is_a_kernel_of_scikit_learn():
    gpr = GaussianProcessRegressor(OrthogonalAdditive() + WhiteKernel(0.1)).fit(X, X[:, 0])
    assert gpr.score(X, X[:, 0]) > 0.9


def test_errors():
    X, y = table()
    model = SparseGPRegressor(RBF(), optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="components needs kernel=OrthogonalAdditive"):
        model.components(X)
    model = SparseGPRegressor(OrthogonalAdditive(), optimizer=None)
    with pytest.raises(ValueError, match="needs one target"):
        model.fit(X, np.column_stack([y, y])).components(X)
    with pytest.raises(ValueError, match="needs likelihood='gaussian'"):
        clone(model).set_params(likelihood="student_t").fit(X, y).components(X)
    with pytest.raises(ValueError, match="order of OrthogonalAdditive must be a positive int"):
        SparseGPRegressor(OrthogonalAdditive(0)).fit(X, y)

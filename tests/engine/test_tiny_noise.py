"""Predictions where noise is tiny, beside the same formulas in arithmetic of 50 digits.

The golden values are of a dense Gaussian process whose kernel matrix, factor and solutions were
computed by MPFR with 180 bits. Gradients are central differences of these.
"""

import pickle

import numpy as np
import pytest
from gaussian import Gaussian
from inside import pivoted_root
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import SparseGPRegressor
from skgp_sparse.posteriors import Neighbors

NOISE, DIGITS = 1e-10, 1e-3
KERNELS = {  # columns, rows, kernel
    "rbf": (1, 50, sk.ConstantKernel(25.0) * sk.RBF(0.8)),
    "short": (1, 50, sk.RBF(0.05)),
    "plane": (2, 60, sk.ConstantKernel(25.0) * sk.RBF(0.8)),
    "matern": (1, 50, sk.ConstantKernel(4.0) * sk.Matern(1.0, nu=2.5)),
    "quadratic": (1, 50, sk.ConstantKernel(9.0) * sk.RationalQuadratic(0.7, 1.5)),
    "periodic": (1, 50, sk.ConstantKernel(2.0) * sk.ExpSineSquared(1.0, 0.7)),
    "space": (3, 60, sk.RBF([0.6, 1.0, 3.0])),
}
STDS = {
    "rbf": [2.9128493e-06, 3.1844267e-06, 1.2379977e-05, 4.4846114e-06],
    "short": [7.973712e-06, 7.2235169e-06, 0.002881996, 0.00014172134],
    "plane": [1.0214541e-05, 7.8523811e-06, 7.1399275e-06, 0.0003809236],
    "matern": [1.9531683e-05, 9.9123501e-06, 0.00031655572, 9.7168238e-05],
    "quadratic": [3.5769864e-06, 3.8759294e-06, 1.7929656e-05, 5.2787693e-06],
    "periodic": [7.148837e-06, 6.6387446e-06, 1.2783645e-05, 6.3912992e-06],
    "space": [0.00020799278, 0.00027579438, 4.7709002e-05, 0.00016888074],
}
SLOPES = {  # of the first column
    "rbf": [-5.31801e-06, -8.42931e-07, 0.00048647, -1.45193e-05],
    "short": [0.000700458, 0.000357451, 0.574176, 0.00115692],
    "plane": [-4.74992e-07, 1.90939e-05, -2.75678e-06, -0.00483214],
    "matern": [0.00891175, 0.00367742, 0.0498228, 0.000270336],
    "quadratic": [-6.25475e-06, 7.29585e-06, 0.00119556, 1.28786e-05],
    "periodic": [0.000186857, 0.00011096, 0.000306059, 0.000115717],
    "space": [0.000128203, -0.00147408, -0.000690678, 0.00165699],
}
INDUCING = [0.00023766867, 0.0003081315, 0.000903376, 0.0388790147]  # "rbf", jitter included


def rows(name, n_queries=4):
    """Inputs, targets, queries and kernel of a case."""
    d, n, kernel = KERNELS[name]
    rng = np.random.RandomState(0)
    X, queries = rng.uniform(size=(n, d)), rng.uniform(size=(1000, d))[:n_queries]
    return X, np.sin(3.0 * X.sum(axis=1)), queries, kernel


def fitted(name, **options):
    X, y, _, kernel = rows(name)
    options = {"alpha": NOISE, "normalize_y": False, "optimizer": None} | options
    return SparseGPRegressor(kernel, **options).fit(X, y)


@pytest.mark.parametrize("name", KERNELS)
def test_deviations_their_gradients_covariances_and_samples(name):
    queries, model = rows(name)[2], fitted(name)
    _, std, _, slopes = model.predict(queries, return_std=True, return_gradient=True)
    covariance = model.predict(queries, return_cov=True)[1]
    copy = pickle.loads(pickle.dumps(model))
    for found in (
        std,
        model.predict(queries, return_std=True)[1],
        copy.predict(queries, return_std=True)[1],
        np.sqrt(covariance.diagonal()),
    ):
        assert_allclose(found, STDS[name], DIGITS)
    assert_allclose(slopes[:, 0], SLOPES[name], DIGITS, 1e-3 * np.max(np.abs(SLOPES[name])))
    samples = model.sample_y(queries, 20000, random_state=0)
    assert_allclose(samples.std(axis=1), STDS[name], 0.03)


def test_covariances_are_as_definite_as_those_of_scikit_learn():
    X, y, queries, kernel = rows("plane", 300)
    dense = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
    smallest = [
        np.linalg.eigvalsh(model.predict(queries, return_cov=True)[1])[0]
        for model in (fitted("plane"), dense)
    ]
    assert smallest[0] > 10.0 * smallest[1]


def test_several_targets_and_sites():
    X, y, queries, kernel = rows("rbf")
    options = {"normalize_y": False, "optimizer": None}
    several = SparseGPRegressor(kernel, alpha=NOISE, **options).fit(X, np.column_stack([y, y**2]))
    std = several.predict(queries, return_std=True)[1]
    assert_allclose(std, np.column_stack(2 * [STDS["rbf"]]), DIGITS)
    sites = SparseGPRegressor(kernel, likelihood=Gaussian(NOISE), **options).fit(X, y)
    latent = sites.predict(queries, return_std=True, latent=True)[1]
    assert_allclose(latent, STDS["rbf"], DIGITS)


def test_inducing_points():
    X, _, queries, _ = rows("rbf")
    given = {"posterior": "inducing", "inducing_init": X[:12], "n_inducing": 12}
    model = fitted("rbf", **given)
    assert model.jitter_ == 1e-8  # of 25, as in the golden values
    assert_allclose(model.predict(queries, return_std=True)[1], INDUCING, DIGITS)
    covariance = model.predict(queries, return_cov=True)[1]
    assert_allclose(np.sqrt(covariance.diagonal()), INDUCING, DIGITS)
    known = model.predict(queries, return_std=True, X_std=np.full_like(queries, 1e-9))[1]
    assert_allclose(known, INDUCING, DIGITS)


def test_neighbors():
    X, y, queries, kernel = rows("rbf")
    options = {"alpha": NOISE, "normalize_y": False, "optimizer": None}
    model = SparseGPRegressor(kernel, posterior=Neighbors(n_neighbors=20), **options).fit(X, y)
    for query, found in zip(queries, model.predict(queries, return_std=True)[1]):
        near = np.argsort(np.abs(X - query)[:, 0])[:20]
        dense = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X[near], y[near])
        assert_allclose(found, dense.predict(query[None], return_std=True)[1][0], 3.0 * DIGITS)


@pytest.mark.parametrize("name", ["rbf", "plane"])
def test_no_deviation_is_zero_where_that_of_scikit_learn_is_not(name):
    X, y, queries, kernel = rows(name, 1000)
    dense = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(X, y)
    ours, theirs = (one.predict(queries, return_std=True)[1] for one in (fitted(name), dense))
    assert_allclose(ours, theirs, 0.01)
    assert fitted(name).log_predictive_density(queries, np.sin(3.0 * queries.sum(axis=1))).all()


@pytest.mark.second(share=0.0)
def test_samples_of_many_rows_and_functions():
    queries, model = np.linspace(0.0, 1.0, 5000)[:, None], fitted("rbf")
    std = model.predict(queries, return_std=True)[1]
    ratio = model.sample_y(queries, 200, random_state=0).std(axis=1) / std
    assert_allclose(np.quantile(ratio, [0.1, 0.9]), 1.0, atol=0.2)
    functions = model.sample_functions(200, random_state=0)
    ratio = functions(queries[::10]).std(axis=1) / std[::10]
    assert_allclose(np.quantile(ratio, [0.1, 0.9]), 1.0, atol=0.2)


def test_gradients_are_finite_where_nothing_is_unknown():
    X, y, _, kernel = rows("rbf")
    model = SparseGPRegressor(kernel, alpha=1e-14, normalize_y=False, optimizer=None)
    model.fit(X[:8], y[:8])
    _, std, _, slopes = model.predict(X[:8], return_std=True, return_gradient=True)
    assert np.isfinite(slopes).all() and np.abs(slopes).max() < 1.0
    assert np.all(std < 1e-6)


@pytest.mark.parametrize("posterior", ["exact", Neighbors(n_neighbors=30)])
@pytest.mark.parametrize("signal", [1e4, 1e5, 1e7])
def test_known_rows_have_the_deviation_of_the_noise_however_large_the_prior(signal, posterior):
    """The noise is rounding of the prior variance; latent variances are near to it at the rows."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(150, 2))
    kernel = sk.ConstantKernel(signal) * sk.Matern([5.0, 30.0], nu=2.5)
    options = {"alpha": NOISE, "optimizer": None, "normalize_y": False, "posterior": posterior}
    model = SparseGPRegressor(kernel, **options).fit(X, np.sin(3.0 * X.sum(axis=1)))
    A = np.linalg.inv(kernel(X) + NOISE * np.eye(150))  # the variance is D (1 - D A_ii)
    expected = np.sqrt(NOISE * (1.0 - NOISE * A.diagonal()))
    rounding = np.sqrt(expected**2 + 20.0 * np.finfo(float).eps * signal)
    std, slopes = model.predict(X, return_std=True, return_gradient=True)[1::2]
    both = [std, model.predict(X, return_std=True)[1]]
    if posterior == "exact":
        both.append(np.sqrt(model.predict(X, return_cov=True)[1].diagonal()))
    for found in both:
        assert np.all(found > 0.9 * expected) and np.all(found < rounding)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("rank", [0, 3, 20])
def test_roots_of_semi_definite_matrices(rank):
    V = np.random.default_rng(0).normal(size=(20, rank))
    C = V @ V.T
    R = pivoted_root(C, 1e-15 * np.trace(C))
    np.testing.assert_allclose(R @ R.T, C, 1e-12, 1e-12)
    with pytest.raises(
        np.linalg.LinAlgError, match="The covariance contains NaN or infinite values"
    ):
        pivoted_root(np.full((3, 3), np.nan), 1e-15)

"""Functions that are drawn from a posterior."""

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import row_differences
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import SparseGPRegressor, kernels
from skgp_sparse.kernels import Columns
from skgp_sparse.posteriors import Neighbors

RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, size=(150, 2))
Y = 5.0 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=150) + 10.0
QUERIES = RNG.uniform(-4, 4, size=(15, 2))
KERNELS = [
    sk.ConstantKernel(2.0) * sk.RBF([1.0, 2.0]) + sk.WhiteKernel(0.01),
    sk.ConstantKernel(2.0) * sk.Matern([1.0, 3.0], nu=1.5)
    + sk.ConstantKernel(0.5)
    + sk.WhiteKernel(0.05),
    Columns(sk.Matern(nu=2.5), 0) * sk.Matern(2.0, nu=0.5)
    + sk.RationalQuadratic()
    + sk.WhiteKernel(0.1),
]


def fitted(kernel=None, **options):
    return SparseGPRegressor(kernel, **{"optimizer": None, "random_state": 0} | options)


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("posterior", ["exact", "inducing"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_moments_are_those_of_predictions(kernel, posterior):
    model = fitted(kernel, posterior=posterior, n_inducing=40).fit(X, Y)
    found = model.sample_functions(6000, n_frequencies=2048)(QUERIES)
    assert found.shape == (15, 6000)
    mean, cov = model.predict(QUERIES, return_cov=True, latent=True)
    std = np.sqrt(np.diag(cov))
    assert_allclose((found.mean(axis=1) - mean) / std, 0.0, atol=0.08)
    assert_allclose(found.std(axis=1) / std, 1.0, atol=0.12)
    assert_allclose(np.cov(found) / np.outer(std, std), cov / np.outer(std, std), atol=0.25)


def check_moments(model, of_std):
    found = model.sample_functions(4000)(QUERIES)
    mean, std = model.predict(QUERIES, return_std=True, latent=True)
    assert_allclose((found.mean(axis=1) - mean) / std, 0.0, atol=0.1)
    assert_allclose(found.std(axis=1) / std, 1.0, atol=of_std)


@pytest.mark.second
def test_a_default_fit_with_a_large_amplitude():
    model = SparseGPRegressor(random_state=0).fit(X, Y)
    assert model.kernel_.k1.k1.constant_value > 100
    check_moments(model, of_std=0.2)


@pytest.mark.parametrize("posterior", ["exact", "inducing"])
def test_rows_without_noise_are_interpolated(posterior):
    y = np.sin(X[:30, 0])
    model = fitted(sk.RBF(), alpha=1e-8, posterior=posterior, n_inducing=30).fit(X[:30], y)
    functions = model.sample_functions(5)
    assert_allclose(functions(X[:30]), np.repeat(y[:, None], 5, axis=1), atol=0.01)


@pytest.mark.second(share=0.25, thin=1)
@pytest.mark.parametrize("likelihood", ["poisson", "student_t"])
@pytest.mark.parametrize("posterior", ["exact", "inducing"])
def test_latent_values_of_a_likelihood(likelihood, posterior):
    kernel = sk.ConstantKernel(0.5) * sk.RBF([1.0, 2.0])
    model = fitted(kernel, likelihood=likelihood, posterior=posterior, n_inducing=40)
    model.fit(X, np.round(np.exp(Y / 5)))
    check_moments(model, of_std=0.12)


def test_more_functions_begin_with_the_same_ones():
    for y in (Y, np.column_stack([Y, Y**2])):
        model = fitted(KERNELS[0], n_inducing=30).fit(X, y)
        few, many = (model.sample_functions(k, random_state=3)(QUERIES) for k in (2, 5))
        assert_allclose(many[..., :2], few, rtol=1e-6)


def test_a_function_is_the_same_in_all_calls():
    model = fitted(KERNELS[1], n_inducing=30).fit(X, Y)
    functions = model.sample_functions(4, random_state=1)
    values = functions(QUERIES)
    assert_allclose(functions(QUERIES[3:5]), values[3:5], rtol=1e-10)
    assert_allclose(np.column_stack([one(QUERIES) for one in functions]), values, rtol=1e-10)
    assert len(functions) == 4 and functions[0](QUERIES).shape == (15,)
    assert_allclose(functions[1:3](QUERIES), values[:, 1:3], rtol=1e-10)
    assert_array_equal(model.sample_functions(4, random_state=1)(QUERIES), values)
    assert_allclose(pickle.loads(pickle.dumps(functions))(QUERIES), values, rtol=1e-12)


@pytest.mark.second(share=0.39)
@pytest.mark.parametrize("targets", [1, 2])
def test_gradients(targets):
    y = np.column_stack([Y, np.cos(X[:, 1])])[:, :targets]
    kernel = sk.RBF([1.0, 1.0]) + sk.WhiteKernel(0.1)
    options = {"optimizer": "fmin_l_bfgs_b", "max_iter": 20, "posterior": "inducing"}
    model = fitted(kernel, n_inducing=30, **options).fit(X, y)
    functions = model.sample_functions(3)
    shape = (15, 3) if targets == 1 else (15, 2, 3)
    assert functions(QUERIES).shape == shape
    found = functions.gradient(QUERIES)
    expected = row_differences(functions, QUERIES, 1e-4)  # rounding is large below
    assert found.shape == (*shape, 2)
    assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert_allclose(functions[1].gradient(QUERIES), found[..., 1, :], rtol=1e-9, atol=1e-9)


def test_inputs_are_checked_as_those_of_predict():
    frame = pd.DataFrame(X, columns=["u", "v"])
    model = fitted(sk.RBF([1.0, 1.0]) + sk.WhiteKernel(0.1)).fit(frame, Y)
    functions = model.sample_functions(2)
    assert_allclose(functions(frame[:3]), functions(X[:3]))
    values = functions(QUERIES)
    model.set_params(kernel=sk.RBF()).fit(frame[["v"]], Y)
    assert_array_equal(functions(QUERIES), values)
    assert "2" in repr(functions) and len(functions[:1]) == 1
    for wrong, message in (
        (frame[["v", "u"]], "must be in the same order"),
        (X[:, :1], "expecting 2 features"),
        (X[0], "Expected 2D array"),
        ([[np.nan, 1.0]], "NaN"),
        ([["a", "b"]], "a"),
    ):
        with pytest.raises(ValueError, match=message):
            functions(wrong)


def test_frames_with_times():
    times = pd.DataFrame({"t": pd.date_range("2026-01-01", periods=60, freq="D")})
    model = SparseGPRegressor(posterior="exact").fit(times, np.sin(np.arange(60) / 5))
    if kernels.spectrum(model.kernel_):
        assert model.sample_functions(2)(times[:3]).shape == (3, 2)


def test_errors():
    for options, message in (
        ({"kernel": sk.RBF() + sk.DotProduct() + sk.WhiteKernel()}, "draws frequencies of sums"),
        (
            {"posterior": Neighbors(n_neighbors=20, n_neighbors_fit=10)},
            "is not available for posterior_='neighbors'",
        ),
    ):
        model = SparseGPRegressor(**{"kernel": sk.RBF(), "random_state": 0} | options).fit(X, Y)
        with pytest.raises(ValueError, match=f"sample_functions {message}"):
            model.sample_functions()

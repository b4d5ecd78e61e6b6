"""Acquisition functions: values by quadrature and by high precision, gradients, wrong inputs."""

import warnings

import numpy as np
import pytest
from conftest import row_differences
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.acquisition import (
    _log_h,
    log_expected_improvement,
    log_noisy_expected_improvement,
    upper_confidence_bound,
)
from skgp_sparse.kernels import HeteroscedasticNoise, LogNoiseFunction

RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, size=(40, 2))
Y = 7.0 + 20.0 * (np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * RNG.normal(size=40))
AT = RNG.uniform(-3, 3, size=(9, 2))
KERNEL = ConstantKernel(2.0) * RBF([1.0, 2.0])
NOISY = SparseGPRegressor(KERNEL + WhiteKernel(0.05), optimizer=None).fit(X, Y)


FUNCTIONS = {
    "improvement": lambda model, at, **more: log_expected_improvement(model, at, 4.0, **more),
    "noisy": lambda model, at, **more: log_noisy_expected_improvement(model, at, X, **more),
    "bound": lambda model, at, **more: upper_confidence_bound(model, at, 1.3, **more),
}


@pytest.mark.parametrize("minimize", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_differences(name, minimize):
    function, varying = FUNCTIONS[name], LogNoiseFunction(RBF(2.0), X[:4], np.arange(4.0), -3.0)
    models = [
        NOISY,
        SparseGPRegressor(KERNEL, alpha=0.1, optimizer=None).fit(X, Y),
        SparseGPRegressor(KERNEL + WhiteKernel(0.1), n_inducing=9, optimizer=None).fit(X, Y),
        SparseGPRegressor(KERNEL + HeteroscedasticNoise(varying), optimizer=None).fit(X, Y),
    ]
    for model in models:
        value, slope = function(model, AT, minimize=minimize, return_gradient=True)
        assert_allclose(value, function(model, AT, minimize=minimize), rtol=1e-6)
        expected = row_differences(lambda at, m=model: function(m, at, minimize=minimize), AT)
        assert_allclose(slope, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("minimize", [True, False])
def test_values_are_those_of_quadrature(minimize):
    mean, std = NOISY.predict(AT, return_std=True, latent=True)
    sign = -1.0 if minimize else 1.0
    best = 7.5
    for at, m, s in zip(AT, mean, std):
        expected = quad(
            lambda u, m=m, s=s: max(sign * (m + s * u - best), 0.0) * norm.pdf(u), -9, 9, limit=200,
            points=[(best - m) / s],
        )[0]  # fmt: skip
        value = log_expected_improvement(NOISY, [at], best, minimize=minimize)[0]
        assert np.exp(value) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    bound = upper_confidence_bound(NOISY, AT, 2.0, minimize=minimize)
    assert_allclose(bound, sign * mean + 2.0 * std)


def test_noisy_values_are_those_of_the_definition():
    mean, std = NOISY.predict(AT, return_std=True, latent=True)
    seen, spread = NOISY.predict(X, return_std=True, latent=True)
    best, noise = seen[np.argmin(seen + spread)], NOISY.noise_std(AT)
    z = (best - mean) / std
    improvement = std * (norm.pdf(z) + z * norm.cdf(z))
    expected = improvement * (1.0 - noise / np.sqrt(std**2 + noise**2))
    assert_allclose(np.exp(log_noisy_expected_improvement(NOISY, AT, X)), expected, rtol=1e-6)


def test_tails_are_those_of_continued_fractions():
    """h(z) = φ(z) (1 - |z| R(|z|)); 1 - t R(t) = 1 / (t (t + 2/(t + 3/(t + ...))) + 1)."""
    z = -np.array([1.0, 1.5, 3.0, 10.0, 37.0, 290.0, 310.0, 1e3, 1e6, 1e10])
    fraction = -z
    for k in range(400, 1, -1):
        fraction = -z + k / fraction
    expected = norm.logpdf(z) - np.log(1.0 - z * fraction)
    assert_allclose(_log_h(z), expected, rtol=1e-12)
    right = np.array([-0.9, 0.0, 2.0, 50.0])
    assert_allclose(_log_h(right), np.log(norm.pdf(right) + right * norm.cdf(right)), rtol=1e-12)


def test_far_tails_and_known_rows_have_finite_values_and_gradients():
    value, slope = log_expected_improvement(NOISY, AT, -1e8, return_gradient=True)
    assert np.isfinite(value).all() and np.isfinite(slope).all() and value.max() < -1e10
    exact = SparseGPRegressor(RBF(), optimizer=None, posterior="exact", alpha=1e-12).fit(X, Y)
    for function in FUNCTIONS.values():
        value, slope = function(exact, X, return_gradient=True)
        assert np.isfinite(value).all() and np.isfinite(slope).all()


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("n", [80, 120])
def test_gradients_are_finite_where_targets_have_no_noise(n, unit):
    rng = np.random.RandomState(n)
    U = rng.uniform(size=(n, 2))
    a, b = 15.0 * U[:, 0] - 5.0, 15.0 * U[:, 1]
    y = unit * ((b - 0.129 * a**2 + 1.59 * a - 6.0) ** 2 + 9.6 * np.cos(a) + 10.0)
    kernel = ConstantKernel(1e5) * Matern([5.0, 30.0], nu=2.5) + WhiteKernel(1e-10)
    model = SparseGPRegressor(kernel, posterior="exact", optimizer=None).fit(U, y)
    near = np.vstack([U, U[y.argmin()] + 1e-4 * rng.normal(size=(50, 2))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values, slopes = log_noisy_expected_improvement(model, near, U, return_gradient=True)
    assert np.isfinite(values).all() and np.abs(slopes).max() < 1e20
    noise = model.noise_std(U[:1])[0]
    std = model.predict(U, return_std=True, latent=True)[1]
    assert std.min() > 0.9 * noise and std.max() < 3.0 * noise


def test_gradients_are_finite_where_the_prior_has_no_variance():
    model = SparseGPRegressor(DotProduct(0.0, "fixed"), alpha=0.1, optimizer=None, mean=None)
    model.fit(X, X[:, 0])
    for function in FUNCTIONS.values():
        value, slope = function(model, np.zeros((1, 2)), return_gradient=True)
        assert np.isfinite(value).all() and np.isfinite(slope).all()


def test_likelihoods_have_those_of_the_latent_value():
    counts = np.random.RandomState(0).poisson(np.exp(np.sin(X[:, 0])))
    model = SparseGPRegressor(RBF(), likelihood="poisson", n_inducing=9, optimizer=None)
    value, slope = log_expected_improvement(model.fit(X, counts), AT, -1.0, return_gradient=True)
    expected = row_differences(lambda at: log_expected_improvement(model, at, -1.0), AT)
    assert_allclose(slope, expected, atol=1e-5 * np.abs(expected).max())
    with pytest.raises(ValueError, match="needs likelihood='gaussian'. Got 'poisson'"):
        log_noisy_expected_improvement(model, AT, X)


def test_wrong_inputs():
    with pytest.raises(ValueError, match="one target, but SparseGPRegressor was fitted to 2"):
        both = SparseGPRegressor(KERNEL, optimizer=None).fit(X, np.column_stack([Y, Y]))
        upper_confidence_bound(both, AT)
    with pytest.raises(TypeError, match="must be a fitted SparseGPRegressor. Got Gaussian"):
        upper_confidence_bound(GaussianProcessRegressor().fit(X, Y), AT)
    with pytest.raises(ValueError, match="not fitted"):
        upper_confidence_bound(SparseGPRegressor(), AT)
    for best in (np.nan, [1.0, 2.0], None):
        with pytest.raises(ValueError, match="best must be a finite number"):
            log_expected_improvement(NOISY, AT, best)
    with pytest.raises(ValueError, match="minimize must be True or False. Got 'max'"):
        upper_confidence_bound(NOISY, AT, minimize="max")
    for kappa in (-1.0, np.inf, [1.0, 2.0], "a"):
        with pytest.raises(ValueError, match="'kappa' parameter of upper_confidence_bound"):
            upper_confidence_bound(NOISY, AT, kappa)

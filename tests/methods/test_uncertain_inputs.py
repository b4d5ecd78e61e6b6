"""Inputs that are known up to their errors: `X_std` of fit and predict."""

import numpy as np
import pytest
from chunked_arrays import Arrays
from conftest import agree, differences
from sklearn import config_context
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.posteriors import InducingPoints, Neighbors


def sine(n=150, error=0.3, seed=0):
    """Inputs with errors, of which every second row has none; targets, and the errors' spread."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-4, 4, size=(n, 1))
    X_std = error * (np.arange(n) % 2 == 0)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.02 * rng.normal(size=n)
    return x + X_std * rng.normal(size=(n, 1)), y, X_std


def model(**parameters):
    return SparseGPRegressor(**{"n_inducing": 25, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def fitted():
    X, y, X_std = sine()
    return model().fit(X, y, X_std=X_std)


def density(at, X, y, **known):
    mean, std = at.predict(X, return_std=True, **known)
    off = np.abs(y - mean) / std
    return np.mean(-0.5 * off**2 - np.log(std)), np.mean(off < 2)


def test_learned_inputs_beat_ignored_errors(fitted):
    X, y, _ = sine()
    X_test, y_test, of_test = sine(500, seed=1)
    ignoring, _ = density(model().fit(X, y), X_test, y_test)
    learned, coverage = density(fitted, X_test, y_test, X_std=of_test)
    assert learned > ignoring + 0.5 and 0.9 < coverage < 0.99
    assert fitted.kernel_.k2.noise_level < 0.02 and isinstance(fitted.kernel_.k1.k2, RBF)
    assert fitted.posterior_ == "inducing" and fitted.n_inducing_ == 25


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("kernel", [None, Matern(nu=1.5) + DotProduct()], ids=["closed", "nodes"])
def test_predictions_are_expectations_over_inputs(kernel):
    """By the law of total variance, over many inputs that are drawn."""
    X, y, _ = sine(error=0.0)
    at = model(kernel=kernel, posterior="inducing").fit(X, np.column_stack([y, y**2]))
    query, spread = np.array([[0.3], [1.0]]), np.array([[0.2], [0.0]])
    mean, std = at.predict(query, return_std=True, X_std=spread)
    assert np.array_equal(mean, at.predict(query, X_std=spread))
    agree(mean[1], at.predict(query)[1], 1e-6)
    agree(std[1], at.predict(query, return_std=True)[1][1], 1e-6)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    means, stds = at.predict(0.3 + 0.2 * nodes[:, None], return_std=True)
    weights = weights / weights.sum()
    agree(mean[0], weights @ means, 1e-3)
    agree(std[0] ** 2, weights @ (stds**2 + means**2) - (weights @ means) ** 2, 1e-3)
    latent = at.predict(query, return_std=True, X_std=spread, latent=True)[1]
    noise = at.kernel_.get_params()["k2__noise_level"] * y.var()
    agree((std**2 - latent**2)[:, 0], [noise, noise], 1e-10)


def test_without_errors_it_is_regression():
    X, y, _ = sine(error=0.0)
    known, zero = model(kernel=RBF()).fit(X, y), model().fit(X, y, X_std=np.zeros_like(X))
    agree(zero.predict(X), known.predict(X), 5e-3)
    own = zero.log_marginal_likelihood(zero.kernel_.theta)
    agree(own, zero.log_marginal_likelihood_value_, 1e-8)


def test_the_order_of_the_rows_does_not_matter(fitted):
    X, y, X_std = sine()
    order = np.random.RandomState(2).permutation(len(X))
    again = model().fit(X[order], y[order], X_std=X_std[order])
    agree(again.predict(X), fitted.predict(X), 1e-12)


def test_gradient_of_the_evidence_agrees_with_central_differences(fitted):
    """At a shorter length scale and more noise: where `fitted` ended, a gradient has five digits.

    There, the condition number of Kuu is 8e6, and a row counts as a thousand of unit noise.
    """
    theta = fitted.kernel_.theta + np.array([0.0, -0.7, 3.0])
    _, gradient = fitted.log_marginal_likelihood(theta, eval_gradient=True)
    for slope, expected in zip(gradient, differences(fitted.log_marginal_likelihood, theta, 1e-4)):
        agree(slope, expected, 1e-6)


def test_errors_are_routed():
    X, y, X_std = sine(60)
    with config_context(enable_metadata_routing=True):
        own = model(n_inducing=8, max_iter=5).set_fit_request(X_std=True)
        pipeline = make_pipeline(MaxAbsScaler(), own)
        scores = cross_validate(pipeline, X, y, params={"X_std": X_std}, cv=2, error_score="raise")
    assert np.isfinite(scores["test_score"]).all()


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"posterior": "exact"}, "X_std needs posterior='inducing', without parameters"),
        ({"posterior": Neighbors()}, "X_std needs posterior='inducing'"),
        ({"posterior": InducingPoints(n_mean=50)}, "without parameters"),
        ({"likelihood": "poisson"}, "X_std needs likelihood='gaussian'"),
        ({"bound": "fitc"}, "X_std needs bound='titsias_new'"),
        ({"metric": "full"}, "X_std needs metric='ard'"),
        ({"optimizer": None}, "X_std needs optimizer='fmin_l_bfgs_b'"),
    ],
)
def test_fits_that_need_known_inputs(parameters, message):
    X, y, X_std = sine(40)
    with pytest.raises(ValueError, match=message):
        model(**parameters).fit(X, np.abs(y).round(), X_std=X_std)


def test_errors_that_cannot_be_used(fitted):
    X, y, X_std = sine()
    with pytest.raises(
        ValueError, match="must be standard deviations, which are not negative, of the shape of X"
    ):
        model().fit(X, y, X_std=X_std[:10])
    with pytest.raises(ValueError, match="'X_std' parameter .* not negative"):
        model().fit(X, y, X_std=-X_std)
    with pytest.raises(ValueError, match="NaN"):
        fitted.predict(X, X_std=np.full_like(X, np.nan))
    with pytest.raises(ValueError, match="X_std cannot be passed beside a source"):
        model().fit(Arrays(X, y), X_std=X_std)
    with pytest.raises(TypeError, match="X_std"):
        SparseGPClassifier().fit(X, y > 0, X_std=X_std)


def test_predictions_that_need_known_inputs(fitted):
    X, y, X_std = sine()
    with pytest.raises(ValueError, match="X_std and return_cov cannot be combined"):
        fitted.predict(X, return_cov=True, X_std=X_std)
    features = SparseGPRegressor(posterior="fourier", optimizer=None).fit(X, y)
    exact = model(posterior="exact", optimizer=None).fit(X, y)
    for other in (SparseGPRegressor(), exact, features):
        with pytest.raises(ValueError, match="X_std is not available"):
            other.predict(X, X_std=X_std)
    with pytest.raises(ValueError, match="fit was called with X_std"):
        fitted.evidence_bounds()
    with pytest.raises(ValueError, match="fit was called with X_std"):
        fitted.partial_fit(X, y)

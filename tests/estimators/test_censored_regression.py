"""`SparseGPRegressor` with censored targets: predictions and refusals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from skgp_sparse import SparseGPRegressor
from skgp_sparse.likelihoods import Censored

LIMIT = 4.0
QUERIES = np.linspace(0, 6, 13)[:, None]
KERNEL = ConstantKernel(1.0) * RBF(1.0)


def truth(X):
    return 2.0 * np.sin(1.5 * X[:, 0]) + 5.0


def table(n=120, seed=0):
    """Inputs and numbers, a quarter of which is below the limit."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 6, (n, 1))
    return X, truth(X) + 0.3 * rng.normal(size=n)


def regressor(likelihood=Censored(lower=LIMIT), **options):
    options = {"n_inducing": 15, "random_state": 0} | options
    return SparseGPRegressor(likelihood=likelihood, **options)


@pytest.fixture(scope="module")
def limited():
    X, z = table()
    return regressor().fit(X, np.maximum(z, LIMIT))


# -- what is learned -------------------------------------------------------------------


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("posterior", ["auto", "exact", "inducing", "neighbors", "fourier"])
def test_every_posterior_finds_what_is_behind_the_limit(posterior):
    X, z = table(250)
    model = regressor(posterior=posterior, n_inducing="auto").fit(X, np.maximum(z, LIMIT))
    assert np.abs(model.predict(QUERIES, latent=True) - truth(QUERIES)).max() < 0.45
    assert 0.25 < model.likelihood_.scale < 0.36
    naive = SparseGPRegressor(random_state=0).fit(X, np.maximum(z, LIMIT)).predict(QUERIES)
    assert np.abs(naive - truth(QUERIES)).max() > 0.8


def test_weights_are_copies_and_offsets_are_added():
    X, z = table()
    y, weight = np.maximum(z, LIMIT), np.arange(120) % 3
    ours = regressor().fit(X, y, sample_weight=weight)
    theirs = regressor().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0))
    assert_array_equal(ours.predict(QUERIES), theirs.predict(QUERIES))
    options = {"optimizer": None, "kernel": KERNEL, "normalize_y": False}
    plain = regressor(Censored(LIMIT, scale=0.3, level=5.0), **options).fit(X, y)
    moved = regressor(Censored(LIMIT + 2.0, scale=0.3, level=5.0), **options)
    moved.fit(X, y + 2.0, offset=np.full(120, 2.0))
    expected = plain.predict(QUERIES) + 2.0
    assert_allclose(moved.predict(QUERIES, offset=2.0), expected, rtol=1e-6)


# -- what is predicted -----------------------------------------------------------------


def test_known_limits_bound_what_is_predicted(limited):
    X, z = table()
    y = np.maximum(z, LIMIT)
    mean, std = limited.predict(QUERIES, return_std=True)
    latent, spread = limited.predict(QUERIES, return_std=True, latent=True)
    draws = limited.sample_y(QUERIES, 4000)
    assert mean.min() >= LIMIT and latent.min() < 3.5 and np.all(mean >= latent - 1e-9)
    assert_allclose(draws.mean(axis=1), mean, atol=0.03)
    assert_allclose(draws.std(axis=1), std, atol=0.03)
    at_limit = stats.norm.cdf((LIMIT - latent) / np.hypot(spread, limited.likelihood_.scale))
    assert_allclose((draws == LIMIT).mean(axis=1), at_limit, atol=0.03)  # to the last bit
    quantiles = limited.predict_quantiles(QUERIES)
    assert quantiles.min() == LIMIT and limited.likelihood_.lower == LIMIT
    assert limited.score(X, y) == r2_score(y, limited.predict(X))
    assert limited.score(X, np.where(z < LIMIT, -99.0, z)) == limited.score(X, y)


@pytest.mark.parametrize("method", ["model", "conformal"])
def test_intervals_of_known_limits_cover_what_is_observed(limited, method):
    X, z = table(2000, seed=5)
    y = np.maximum(z, LIMIT)
    lower, upper = limited.predict_interval(X, coverage=0.8, method=method)
    assert lower.min() >= LIMIT
    above = y > LIMIT + 0.6  # elsewhere, intervals contain the limit and more
    assert 0.7 < np.mean((lower <= y)[above] & (y <= upper)[above]) < 0.9


def test_intervals_of_the_latent_function_have_their_coverage():
    """Functions are drawn from the prior, and 30 % of the numbers are censored."""
    rng, X = np.random.RandomState(0), np.linspace(0, 6, 90)[:, None]
    root, inside = np.linalg.cholesky(KERNEL(X) + 1e-9 * np.eye(90)), []
    for _ in range(40):
        f = root @ rng.normal(size=90)
        z = f + 0.3 * rng.normal(size=90)
        own = Censored(np.quantile(z, 0.3), scale=0.3, level=0.0)
        model = regressor(own, kernel=KERNEL, n_inducing=60, optimizer=None, normalize_y=False)
        model.fit(X[::2], np.maximum(z, own.lower)[::2])
        mean, std = model.predict(X, return_std=True, latent=True)
        inside.append(np.mean(np.abs(f - mean) < stats.norm.ppf(0.95) * std))
    error = np.std(inside) / np.sqrt(len(inside))
    assert abs(np.mean(inside) - 0.9) < 3 * error < 0.06


def test_densities_are_those_of_the_prediction(limited):
    X, z = table()
    y, loo = np.maximum(z, LIMIT), limited.loo_predict()
    assert loo.mean.shape == loo.log_density.shape == (120,)
    mean, std = limited.predict(X, return_std=True, latent=True)
    found = limited.log_predictive_density(X, y)
    spread, inside = np.hypot(std, limited.likelihood_.scale), y > LIMIT
    density = stats.norm.logpdf(y, mean, spread)
    expected = np.where(inside, density, stats.norm.logcdf((LIMIT - mean) / spread))
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    again = pickle.loads(pickle.dumps(limited))
    assert_array_equal(again.predict(X), limited.predict(X))


def test_a_linear_mean_and_later_rows_are_available():
    X, z = table()
    y = np.maximum(z, LIMIT)
    linear = regressor(kernel=KERNEL, mean="linear").fit(X, y)
    stream = regressor().partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    known = truth(QUERIES) > LIMIT
    for model in (linear, stream):
        error = model.predict(QUERIES, latent=True) - truth(QUERIES)
        assert np.abs(error[known]).max() < 0.5


# -- what is refused -------------------------------------------------------------------

X, Z = table(30)
Y = np.maximum(Z, LIMIT)
OWN = Censored(lower=LIMIT)


@pytest.mark.parametrize(
    "likelihood, y, options, words",
    [
        (OWN, np.column_stack([Y, Z]), {}, "takes one target, but y has 2 columns"),
        (OWN, Y[:7], {}, "inconsistent numbers"),
        (OWN, Y, {"mean": Ridge()}, "not censored"),
        (OWN, Y, {"mean": "boosting"}, "not censored"),
        (OWN, Y, {"alpha": 0.1}, "Set alpha to None"),
        (OWN, Y, {"noise": "learned"}, "likelihood='gaussian'"),
        (OWN, Y, {"posterior": "rows", "n_inducing": "auto"}, "Gaussian noise only"),
        (OWN, Y, {"bound": "dtc"}, "defined for Gaussian noise only"),
        (OWN, np.where(Z < LIMIT, -np.inf, Z), {}, "infinity"),
        ("censored", Y, {}, "likelihood"),
        (Censored(lower=2.0, upper=1.0), Z, {}, "the lower one below the upper"),
        (Censored(lower=None), Z, {}, "must be numbers"),
        (Censored(upper=np.nan), Z, {}, "must be numbers"),
        (Censored(scale=-1.0), Z, {}, "likelihood__scale"),
    ],
)
def test_wrong_inputs_are_refused(likelihood, y, options, words):
    with pytest.raises(ValueError, match=words):
        regressor(likelihood, **options).fit(X, y)


def test_questions_without_an_answer_are_refused(limited):
    with pytest.raises(ValueError, match="latent=True"):
        limited.predict(X, return_cov=True)
    with pytest.raises(ValueError, match="Set latent to True"):
        limited.predict(X, return_gradient=True)


def test_data_that_tell_no_level_are_warned_of():
    with pytest.warns(UserWarning, match="at the same limit"):
        regressor(Censored(lower=100.0), max_iter=5).fit(X, Z)

"""`predict_cdf`: how likely a target is at most a number, for every kind of fit."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression

from skgp_sparse import SparseGPRegressor
from skgp_sparse.likelihoods import (
    Beta,
    Censored,
    Gamma,
    NegativeBinomial,
    Poisson,
    StudentT,
)

RNG = np.random.RandomState(0)
N = 80
X = RNG.uniform(-2, 2, size=(N, 1))
F = np.sin(2 * X[:, 0])
Y = 3.0 + 2.0 * (F + 0.3 * RNG.normal(size=N))
QUERY = np.linspace(-2.5, 2.5, 7)[:, None]
KERNEL = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
HELD = {"kernel": KERNEL, "optimizer": None, "random_state": 0}
COUNTS, POSITIVE = RNG.poisson(np.exp(F)).astype(float), np.exp(F) * RNG.gamma(2.0, 0.5, N)
LIKELIHOODS = [
    (Poisson(), COUNTS),
    (NegativeBinomial(), COUNTS),
    (Gamma(2.0), POSITIVE),
    (Beta(), 1 / (1 + np.exp(-F - 0.3 * RNG.normal(size=N)))),
    (StudentT(0.3), Y),
    (Censored(lower=2.0, scale=0.3), np.maximum(Y, 2.0)),
]
POSTERIORS = ["exact", "inducing", "fourier", "neighbors", "rows"]


@pytest.mark.parametrize("normalize_y", [True, False])
def test_gaussian_noise_against_dense_algebra(normalize_y):
    model = SparseGPRegressor(**HELD, normalize_y=normalize_y, posterior="exact").fit(X, Y)
    centre, scale = (Y.mean(), Y.std()) if normalize_y else (0.0, 1.0)
    cross, signal = RBF(1.0)(QUERY, X), RBF(1.0)(X) + 0.1 * np.eye(N)
    mean = centre + cross @ np.linalg.solve(signal, Y - centre)
    variance = scale**2 * (1.1 - np.sum(cross * np.linalg.solve(signal, cross.T).T, axis=1))
    for at in (2.0, 3.5):
        expected = stats.norm(mean, np.sqrt(variance)).cdf(at)
        assert_allclose(model.predict_cdf(QUERY, at), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_it_is_the_inverse_of_quantiles_for_every_posterior(posterior):
    model = SparseGPRegressor(**HELD, posterior=posterior).fit(X, Y)
    q = np.array([0.01, 0.5, 0.9])
    for p, at in zip(q, model.predict_quantiles(QUERY, q).T):
        assert_allclose(model.predict_cdf(QUERY, at), p, rtol=1e-9)


@pytest.mark.parametrize("likelihood, y", LIKELIHOODS, ids=lambda one: type(one).__name__)
def test_it_goes_with_quantiles_of_every_likelihood(likelihood, y):
    kernel = ConstantKernel(1.0) * RBF(1.0)
    model = SparseGPRegressor(**{**HELD, "kernel": kernel}, likelihood=likelihood).fit(X, y)
    for q in (0.05, 0.5, 0.9):
        at = model.predict_quantiles(QUERY, q)
        found, before = (model.predict_cdf(QUERY, at - step) for step in (0.0, 1e-6))
        if isinstance(likelihood, (Poisson, NegativeBinomial)):
            assert np.all(before < q) and np.all(found >= q - 1e-12)
        else:
            inside = at > 2.0 if isinstance(likelihood, Censored) else slice(None)
            assert_allclose(found[inside], q, rtol=1e-8)


def test_probabilities_of_counts_add_up_to_it():
    model = SparseGPRegressor(**HELD, likelihood="poisson").fit(X, COUNTS)
    total = 0.0
    for count in range(5):
        density = model.log_predictive_density(QUERY, np.full(len(QUERY), float(count)))
        total = total + np.exp(density)
        assert_allclose(model.predict_cdf(QUERY, count), total, rtol=1e-9)
        assert_allclose(model.predict_cdf(QUERY, count + 0.5), total, rtol=1e-9)
    assert_array_equal(model.predict_cdf(QUERY, -1), 0.0)


def test_limits_have_the_probability_of_all_beyond():
    censored = Censored(lower=2.0, upper=4.5, scale=0.3)
    y = np.clip(Y, 2.0, 4.5)
    model = SparseGPRegressor(**HELD, likelihood=censored).fit(X, y)
    draws = model.sample_y(QUERY, 20_000, random_state=1)
    for at in (2.0, 3.0):
        share = np.mean(draws <= at, axis=1)
        assert_allclose(model.predict_cdf(QUERY, at), share, atol=0.02)
    assert_array_equal(model.predict_cdf(QUERY, 1.999), 0.0)
    assert_array_equal(model.predict_cdf(QUERY, 4.5), 1.0)


@pytest.mark.parametrize("mean", [LinearRegression(), "linear"], ids=str)
def test_means_take_part(mean):
    model = SparseGPRegressor(**HELD, mean=mean).fit(X, Y)
    centre, std = model.predict(QUERY, return_std=True)
    expected = stats.norm(centre, std).cdf(3.0)
    assert_allclose(model.predict_cdf(QUERY, 3.0), expected, rtol=1e-9)


def test_several_targets_have_a_number_each():
    both = np.column_stack([Y, np.full(N, 5.0), -10.0 * Y])
    model = SparseGPRegressor(**HELD).fit(X, both)
    at = np.tile([3.0, 5.0, -30.0], (len(QUERY), 1))
    found = model.predict_cdf(QUERY, at)
    assert found.shape == (len(QUERY), 3)
    mean, std = model.predict(QUERY, return_std=True)
    assert_allclose(found[:, 0], stats.norm(mean[:, 0], std[:, 0]).cdf(3.0), rtol=1e-9)
    assert_allclose(found[:, 0], 1.0 - found[:, 2], rtol=1e-9)
    assert_array_equal(found[:, 1], 1.0)  # a constant is at most itself
    assert_array_equal(model.predict_cdf(QUERY, 4.9)[:, 1], 0.0)
    for wrong in (at[:, :2], at[:, 0]):
        with pytest.raises(ValueError, match="so that at must have as many columns"):
            model.predict_cdf(QUERY, wrong)


def test_numbers_may_come_as_predictions_take_them():
    model = SparseGPRegressor(**HELD).fit(X.astype(np.float32), Y)
    at = np.linspace(1, 5, len(QUERY))
    expected = [model.predict_cdf(QUERY[i : i + 1], at[i])[0] for i in range(len(QUERY))]
    forms = at, at.tolist(), at[:, None], pd.Series(at), pd.DataFrame({"at": at})
    for one in forms:
        assert_allclose(model.predict_cdf(QUERY, one), expected, rtol=1e-9)
    single = model.predict_cdf(QUERY.astype(np.float32), 3)
    assert single.dtype == np.float64 and single.shape == (len(QUERY),)
    before = SparseGPRegressor().predict_cdf(QUERY, 0.0)  # of the prior
    assert_allclose(before, 0.5)


def test_offsets_are_those_of_rows():
    offset = RNG.uniform(-1, 1, N)
    model = SparseGPRegressor(**HELD, likelihood="poisson").fit(X, COUNTS, offset=offset)
    known = np.linspace(-2, 2, len(QUERY))
    found = model.predict_cdf(QUERY, 1, offset=known)
    for i, one in enumerate(known):
        alone = model.predict_cdf(QUERY[i : i + 1], 1, offset=one)
        assert_allclose(found[i], alone[0], rtol=1e-9)
    with pytest.raises(ValueError, match="offset is not available"):
        SparseGPRegressor(**HELD).fit(X, Y).predict_cdf(QUERY, 1.0, offset=known)


@pytest.mark.parametrize(
    "at, match",
    [
        (np.nan, "Input at contains NaN"),
        (np.inf, "Input at contains infinity"),
        ("much", "at of SparseGPRegressor.predict_cdf contains text"),
        ([1.0, 2.0], r"at must be a number or an array with one number for each .* shape \(2,\)"),
        (np.zeros((len(QUERY), 2)), "so that at must have as many columns"),
    ],
    ids=str,
)
def test_wrong_numbers_are_refused(at, match):
    model = SparseGPRegressor(**HELD).fit(X, Y)
    with pytest.raises(ValueError, match=match):
        model.predict_cdf(QUERY, at)
    with pytest.raises(ValueError, match=r"y must be an array with one number .* shape \(3,\)"):
        model.log_predictive_density(QUERY, [1.0, 2.0, 3.0])

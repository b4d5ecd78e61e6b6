"""Prediction intervals: those of the model, and conformal ones from rows that were left out."""

import pickle

import numpy as np
import pytest
from chunked_arrays import Arrays
from inside import moments, width_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor

RNG = np.random.RandomState(0)
N = 300
X = RNG.uniform(0, 10, size=(2 * N, 1))
SPREAD = np.where(X[:, 0] < 5, 0.1, 0.5)
Y = np.sin(X[:, 0]) + SPREAD * RNG.standard_t(4, size=2 * N)
TRAIN, TEST = slice(N), slice(N, None)


def scores_of(model):
    return model._fitted.scores_of_rows(model.n_jobs)


def covered(interval, y=Y[TEST]):
    lower, upper = interval
    return np.mean((lower <= y) & (y <= upper))


@pytest.fixture(scope="module")
def model():
    model = SparseGPRegressor(noise="constant", random_state=0)  # which is wrong
    return model.fit(X[TRAIN], Y[TRAIN])


def test_the_intervals_of_the_model_are_its_quantiles(model):
    lower, upper = model.predict_interval(X[TEST], 0.8)
    assert_allclose(np.column_stack([lower, upper]), model.predict_quantiles(X[TEST], (0.1, 0.9)))
    lower, upper = model.predict_interval(X[TEST], 0.8, side="lower")
    assert_allclose(lower, model.predict_quantiles(X[TEST], 0.2))
    assert np.all(upper == np.inf)
    lower, upper = model.predict_interval(X[TEST], 0.8, side="upper")
    assert_allclose(upper, model.predict_quantiles(X[TEST], 0.8))
    assert np.all(lower == -np.inf)


def test_conformal_intervals_are_so_many_standard_deviations_wide(model):
    loo = model.loo_predict()
    p = len(model.kernel_.theta)
    optimism = (N + p) / (N - p)  # of rows that theta has seen
    score = np.sort(np.abs(Y[TRAIN] - loo.mean) / loo.std) * np.sqrt(optimism)
    mean, std = model.predict(X[TEST], return_std=True)
    for coverage in (0.5, 0.9, 0.99):
        width = score[int(np.ceil(coverage * (N + 1))) - 1]
        lower, upper = model.predict_interval(X[TEST], coverage, "conformal")
        assert_allclose(upper, mean + width * std, rtol=1e-10)
        assert_allclose(lower, mean - width * std, rtol=1e-10)


def test_hyperparameters_that_nobody_learned_have_seen_nothing(model):
    same = clone(model).set_params(kernel=model.kernel_, optimizer=None).fit(X[TRAIN], Y[TRAIN])
    p = len(model.kernel_.theta)
    optimism = np.sqrt((N + p) / (N - p))
    assert_allclose(optimism * scores_of(same)[0], scores_of(model)[0], rtol=1e-6)


@pytest.mark.parametrize("side", ["both", "lower", "upper"])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_new_targets_are_covered(model, coverage, side):
    interval = model.predict_interval(X[TEST], coverage, "conformal", side)
    assert covered(interval) == pytest.approx(coverage, abs=0.08)  # of 300 rows


def test_a_weight_is_a_number_of_rows():
    rng = np.random.RandomState(0)
    values, weight = rng.normal(size=(50, 2)), rng.randint(0, 4, 50).astype(float)
    repeated = np.repeat(values, weight.astype(int), axis=0), None
    for side in ("both", "lower", "upper"):
        found = width_of(None, (values, weight), 0.8, side, "")
        assert_array_equal(found, width_of(None, repeated, 0.8, side, ""))


def test_weights_and_repeated_rows_give_the_same_intervals():
    weight = RNG.randint(1, 3, N)
    options = {"optimizer": None, "random_state": 0}
    kernel = ConstantKernel(0.5) * RBF(1.0) + WhiteKernel(0.1)
    one = SparseGPRegressor(kernel, **options).fit(X[TRAIN], Y[TRAIN], weight)
    rows = np.repeat(np.arange(N), weight)
    other = SparseGPRegressor(kernel, **options).fit(X[rows], Y[rows])
    for a, b in zip(*(m.predict_interval(X[TEST], 0.9, "conformal") for m in (one, other))):
        assert_allclose(a, b, rtol=1e-8)


@pytest.mark.second(share=0.14)
@pytest.mark.parametrize(
    "options",
    [
        {"n_inducing": 20},
        {"posterior": "neighbors"},
        {"posterior": "rows"},
        {"posterior": "fourier"},
        {"likelihood": "student_t", "n_inducing": 20},
    ],
    ids=str,
)
def test_every_posterior_has_them_and_so_have_pickles(options):
    model = SparseGPRegressor(random_state=0, max_iter=30, **options).fit(X[TRAIN], Y[TRAIN])
    interval = model.predict_interval(X[TEST], 0.9, "conformal")
    assert covered(interval) == pytest.approx(0.9, abs=0.05)
    twin = pickle.loads(pickle.dumps(model))
    for one, other in zip(twin.predict_interval(X[TEST], 0.9, "conformal"), interval):
        assert_array_equal(one, other)


def test_several_targets_and_counts():
    both = np.column_stack([Y, 100.0 + 50.0 * Y])
    model = SparseGPRegressor(random_state=0).fit(X[TRAIN], both[TRAIN])
    lower, upper = model.predict_interval(X[TEST], 0.9, "conformal")
    assert lower.shape == (N, 2) and upper.shape == (N, 2)
    assert_allclose(lower[:, 1], 100.0 + 50.0 * lower[:, 0], rtol=1e-6)
    counts = RNG.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
    model = SparseGPRegressor(likelihood="poisson", random_state=0).fit(X[TRAIN], counts[TRAIN])
    lower, upper = model.predict_interval(X[TEST], 0.9, "conformal")
    assert np.all(lower >= 0.0)  # as no count is negative
    assert covered((lower, upper), counts[TEST]) > 0.85
    for method in ("model", "conformal"):
        assert np.all(model.predict_interval(X[TEST], 0.9, method, side="upper")[0] == 0.0)


def test_pickles_have_the_scores_of_the_fit():
    plain, fitted = (SparseGPRegressor(random_state=0).fit(X[TRAIN], Y[TRAIN]) for _ in range(2))
    again = pickle.loads(pickle.dumps(fitted.set_params(optimizer=None)))
    expected = plain.predict_interval(X[TEST], 0.9, "conformal")
    for one in (fitted, again):
        assert_allclose(one.predict_interval(X[TEST], 0.9, "conformal"), expected, rtol=1e-10)


def test_many_rows_keep_some_scores():
    rng = np.random.RandomState(0)
    many = rng.uniform(0, 10, size=(6000, 1))
    y = np.sin(many[:, 0]) + 0.3 * rng.normal(size=6000)
    model = SparseGPRegressor(n_inducing=20, random_state=0).fit(many, y)
    assert len(scores_of(model)[0]) == 5000
    mean, std = model.predict(many[:5], return_std=True)
    lower, _ = model.predict_interval(many[:5], 0.9, "conformal")
    assert_allclose((mean - lower) / std, norm.ppf(0.95), rtol=0.05)


@pytest.mark.parametrize(
    "options, match",
    [
        ({"coverage": 90}, "'coverage' parameter"),
        ({"method": "conformel"}, "'method' parameter"),
        ({"side": "left"}, "'side' parameter"),
        ({"method": "conformal", "coverage": 0.999}, "300 training rows, but .* at least 999"),
    ],
)
def test_what_cannot_be(model, options, match):
    with pytest.raises(ValueError, match=match):
        model.predict_interval(X[TEST], **options)


@pytest.mark.second
def test_rows_that_are_not_known(monkeypatch):
    few = SparseGPRegressor(n_inducing=5, max_iter=1, random_state=0)
    with pytest.raises(ValueError, match="by fit, not by partial_fit"):
        few.partial_fit(X, Y).predict_interval(X[:2], method="conformal")
    on_samples = SparseGPRegressor(
        likelihood="gamma", solver="stochastic", n_inducing=2, max_iter=3, random_state=0
    )
    with pytest.raises(ValueError, match="this one saw samples"):
        on_samples.fit(X, np.exp(Y)).predict_interval(X[:2], method="conformal")
    with pytest.raises(ValueError, match="X_std"):
        few.fit(X, Y, X_std=0.1 + 0 * X).predict_interval(X[:2], method="conformal")
    monkeypatch.setattr(moments, "_SMALL_TABLE", 0)
    with pytest.raises(ValueError, match="large source"):
        few.fit(Arrays(X, Y, chunk_size=100)).predict_interval(X[:2], method="conformal")

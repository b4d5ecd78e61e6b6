"""Several exact fits of few rows, averaged."""

import pickle
import warnings
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from processes import check_process
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV
from test_sklearn_contract import _Recorder

from skgp_sparse import SparseGPRegressor
from skgp_sparse._engine import exact
from skgp_sparse._engine.cavities import of_groups
from skgp_sparse._engine.pooled import PooledProcess, mixture_weights
from skgp_sparse._engine.table import Block
from skgp_sparse.inference.starts import fit_exact
from skgp_sparse.kernels import Columns
from skgp_sparse.posteriors import Pool
from skgp_sparse.rows import part
from skgp_sparse.sources import Arrays

RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, size=(80, 2))
Y = np.abs(X[:, 0]) + np.sin(2 * X[:, 1]) + 0.1 * RNG.normal(size=80)
AT = RNG.uniform(-3, 3, size=(12, 2))
NUS = 0.5, 1.5, 2.5, np.inf
KERNELS = [
    2.0 * Matern([1.0, 2.0], nu=nu) + WhiteKernel(noise) for nu, noise in ((0.5, 0.1), (2.5, 0.2))
]


def posteriors(X=X, y=Y, noise=0.05, weight=1.0):
    groups = exact.group_rows(Block(X, y[:, None], noise, weight, None))
    return [exact.posterior(kernel, groups)[0] for kernel in KERNELS], groups


def test_rows_that_are_left_out_are_those_of_fits_without_them():
    noise, weight = RNG.uniform(0.01, 0.2, 30), RNG.randint(1, 4, 30).astype(float)
    (posterior, _), groups = posteriors(X[:30], Y[:30], noise, weight)
    error, variance = of_groups(posterior, groups)
    for i in (0, 7, 29):
        others = np.arange(30) != i
        without = posteriors(X[:30][others], Y[:30][others], noise[others], weight[others])[0][0]
        mean, latent = without.mean_and_variance(X[i : i + 1])
        assert error[i] == pytest.approx(Y[i] - mean[0, 0], rel=1e-9)
        assert variance[i] == pytest.approx(latent[0] + 0.1 + noise[i], rel=1e-9)


def test_of_rows_that_coincide_all_are_left_out():
    twice, y = np.vstack([X[:20], X[:20]]), np.concatenate([Y[:20], Y[:20] + 0.2])
    (posterior, _), groups = posteriors(twice, y)
    error, variance = of_groups(posterior, groups)
    others = np.arange(40) % 20 != 0
    without = posteriors(twice[others], y[others])[0][0]
    mean, latent = without.mean_and_variance(X[:1])
    assert_allclose(error[[0, 20]], y[[0, 20]] - mean[0, 0], rtol=1e-9)
    assert_allclose(variance[[0, 20]], latent[0] + 0.15, rtol=1e-9)


def test_weights_are_the_most_likely_ones():
    rng = np.random.RandomState(1)
    densities, prior = rng.normal(size=(4, 30)), softmax(rng.normal(size=4))
    count = rng.randint(1, 3, 30)
    found = mixture_weights(densities, prior, count, 5.0)

    def negative(logits):
        w = softmax(logits)
        mixed = logsumexp(densities, axis=0, b=w[:, None])
        return -count @ mixed - 5.0 * prior @ np.log(w)

    best = softmax(minimize(negative, np.zeros(4), tol=1e-12).x)
    assert_allclose(found, best, atol=1e-5)
    prior = np.exp([0.0, -300.0, -200.0, -100.0])  # where a start at the prior would stay
    found = mixture_weights(densities, prior, count, 5.0)
    best = softmax(minimize(negative, np.zeros(4), tol=1e-12).x)
    assert_allclose(found, best, atol=1e-4)
    certain = mixture_weights(np.array([[0.0], [-800.0]]), np.array([1e-300, 1.0]), np.ones(1), 1.0)
    assert np.isfinite(certain).all()


def test_the_process_is_the_average_of_its_processes():
    processes, _ = posteriors()
    pooled = PooledProcess.of(processes, np.array([0.3, 0.7]), "ab")
    check_process(pooled, AT, below_prior=False)
    means = [one.mean(AT)[:, 0] for one in processes]
    mean = 0.3 * means[0] + 0.7 * means[1]
    second = sum(
        w * (one.covariance(AT) + np.outer(m, m)) for w, one, m in zip((0.3, 0.7), processes, means)
    )
    assert_allclose(pooled.mean(AT)[:, 0], mean, atol=1e-13)
    assert_allclose(pooled.covariance(AT), second - np.outer(mean, mean), atol=1e-12)
    assert_allclose(exact_noise(pooled.kernel), 0.3 * 0.1 + 0.7 * 0.2)


def exact_noise(kernel):
    """White noise of a kernel: what its diagonal has beyond that of other points."""
    return (kernel.diag(AT[:1]) - np.diag(kernel(AT[:1], AT[:1])))[0]


def test_a_process_without_weight_is_left_out():
    processes, _ = posteriors()
    pooled = PooledProcess.of(processes, np.array([1.0 - 1e-6, 1e-6]), "ab")
    assert len(pooled.processes) == 1
    assert_array_equal(pooled.mean(AT), processes[0].mean(AT))


def test_an_additive_function_is_found():
    model = SparseGPRegressor(posterior="pool", random_state=0).fit(X, Y)
    truth = np.abs(AT[:, 0]) + np.sin(2 * AT[:, 1])
    exactly = SparseGPRegressor(posterior="exact", random_state=0).fit(X, Y)
    errors = [np.mean((one.predict(AT) - truth) ** 2) for one in (model, exactly)]
    assert errors[0] < 0.5 * errors[1]
    names = ["exact", "nu=0.5", "nu=1.5", "nu=inf", "additive part"]
    assert [one.name for one in model.selection_] == names
    called, weights, kernels = zip(*model.pool_)
    assert (
        {*called} <= {*names}
        and sum(weights) == pytest.approx(1.0)
        and model.kernel_ == kernels[np.argmax(weights)]
    )
    assert model.posterior_ == "pool" and exactly.pool_ is None
    assert_array_equal(model.X_train_, X)
    value = model.log_marginal_likelihood(model.kernel_.theta)
    assert value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-9)


def test_scores_are_in_units_of_y():
    scores = [
        SparseGPRegressor(posterior="pool", random_state=0).fit(X, unit * Y).selection_[0]
        for unit in (1.0, 100.0)
    ]
    assert scores[1].rmse == pytest.approx(100.0 * scores[0].rmse, rel=1e-4)
    assert scores[1].density == pytest.approx(scores[0].density - np.log(100.0), rel=1e-4)
    model = SparseGPRegressor(posterior="exact", random_state=0).fit(X, Y)
    kernel = model.kernel_
    errors = [
        Y[i]
        - SparseGPRegressor(kernel, optimizer=None)
        .fit(np.delete(X, i, 0), np.delete(Y, i))
        .predict(X[i : i + 1])[0]
        for i in range(len(X))
    ]
    assert scores[0].rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.02)


def test_predictions_agree():
    model = SparseGPRegressor(posterior=Pool(), random_state=0).fit(X, Y)
    mean, std = model.predict(AT, return_std=True)
    assert_allclose(model.predict(AT), mean, atol=1e-12)
    assert_allclose(np.sqrt(np.diag(model.predict(AT, return_cov=True)[1])), std, rtol=1e-8)
    draws = model.sample_y(AT, 4000, random_state=0)
    assert_allclose(draws.mean(axis=1), mean, atol=5 * std.max() / np.sqrt(4000))
    assert_allclose(draws.std(axis=1), std, rtol=0.1)
    assert_allclose(model.predict_quantiles(AT, 0.5), mean, atol=1e-12)
    twin = pickle.loads(pickle.dumps(model))
    assert_array_equal(twin.predict(AT), model.predict(AT))
    again = SparseGPRegressor(posterior=Pool(), random_state=0, n_jobs=2).fit(X, Y)
    assert_allclose(again.predict(AT), mean, rtol=1e-9)


def test_weights_are_repetitions():
    weight = np.tile([1, 2], 40)
    options = {"posterior": "pool", "random_state": 0, "normalize_y": False}
    weighted = SparseGPRegressor(**options).fit(X, Y, weight)
    repeated = SparseGPRegressor(**options).fit(np.repeat(X, weight, 0), np.repeat(Y, weight))
    assert_allclose(weighted.predict(AT), repeated.predict(AT), rtol=1e-6)


def test_more_rows_than_the_later_fits_see():
    rng = np.random.RandomState(0)
    many = rng.uniform(-3, 3, size=(1100, 2))
    y = np.abs(many[:, 0]) + np.sin(2 * many[:, 1]) + 0.1 * rng.normal(size=1100)
    seen = []

    def watched(objective, *given):
        seen.append((len(objective.groups.X), given[1].max_iter))
        return fit_exact(objective, *given)

    with mock.patch("skgp_sparse.posteriors._pool.fit_exact", watched):
        model = SparseGPRegressor(posterior="pool", random_state=0, max_iter=30).fit(many, y)
    assert seen == 4 * [(500, 30)]
    truth = np.abs(AT[:, 0]) + np.sin(2 * AT[:, 1])
    assert np.sqrt(np.mean((model.predict(AT) - truth) ** 2)) < 0.05
    assert model.selection_[-1].name == "additive part"


def test_frames_with_categories_missing_values_and_skewed_columns():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"income": np.exp(rng.normal(8, 1.5, 150)), "age": rng.normal(size=150)})
    frame["kind"] = pd.Categorical(rng.choice(["a", "b", "c"], 150))
    frame["size"] = rng.normal(size=150)
    frame.loc[::5, "size"] = np.nan
    y = np.sin(2.0 * np.log(frame["income"])) + frame["age"] + (frame["kind"] == "b")
    model = SparseGPRegressor(posterior="pool", random_state=0).fit(frame, y)
    additive = [kernel for *_, kernel in model.pool_ if str(kernel).count("Matern") > 1]
    for kernel in additive:
        assert str(kernel).count("LogScale") == 2  # of the first part and of the additive one
        assert "'income')" in str(kernel).rsplit("LogScale", 1)[1]  # columns by name
    assert additive
    assert model.score(frame, y) > 0.9
    gaps = frame.iloc[:5].assign(age=np.nan)  # in a column that was complete in fit
    mean, std = model.predict(gaps, return_std=True)
    assert np.isfinite(mean).all() and np.all(std > model.predict(frame[:5], return_std=True)[1])


def test_kernels_of_users_keep_their_form():
    kernel = ConstantKernel() * Columns(Matern(nu=1.5), 0) + Columns(Matern(nu=0.5), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a length scale grows
        model = SparseGPRegressor(kernel, posterior="pool", max_iter=5).fit(X, Y)
    assert [one.name for one in model.selection_] == ["exact", *(f"nu={nu}" for nu in NUS)]
    line = SparseGPRegressor(posterior="pool").fit(X[:, :1], Y)
    assert "additive part" not in [one.name for one in line.selection_]


def test_many_columns_take_no_longer_than_their_number_says():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 20))
    calls = []

    def counted(*given):
        calls.append(given)
        return fit_exact(*given)

    with mock.patch("skgp_sparse.posteriors._pool.fit_exact", counted):
        model = SparseGPRegressor(posterior="pool", max_iter=3).fit(X, X.sum(axis=1))
    assert model.selection_[-1].name == "additive part"
    parts = calls[-1][1].get_params()
    depth = max(name.count("__") for name in parts)
    assert len(calls) == 4 and depth < 12  # a chain of 20 sums has 20 levels
    wide = SparseGPRegressor(posterior="pool", max_iter=2).fit(rng.normal(size=(60, 21)), X[:, 0])
    assert wide.selection_[-1].name == "nu=inf"


def test_a_fit_that_fails_is_left_out():
    def fails(objective, kernel, settings, random_state):
        if "nu=inf" in str(kernel):
            raise np.linalg.LinAlgError("not positive definite")
        return fit_exact(objective, kernel, settings, random_state)

    with mock.patch("skgp_sparse.posteriors._pool.fit_exact", fails):
        model = SparseGPRegressor(posterior="pool", random_state=0).fit(X, Y)
    assert "nu=inf" not in [one.name for one in model.selection_] and len(model.selection_) == 4


def test_a_callback_ends_all_fits():
    pytest.importorskip("sklearn.callback")
    stop = _Recorder(at=1, action=lambda: True)
    model = SparseGPRegressor(posterior="pool", random_state=0).set_callbacks(stop).fit(X, Y)
    assert [one.name for one in model.selection_] == ["exact"]


def test_a_search_may_choose_it():
    search = GridSearchCV(SparseGPRegressor(random_state=0), {"posterior": ["exact", "pool"]}, cv=3)
    assert search.fit(X, Y).best_params_ == {"posterior": "pool"}


def test_no_time_for_more_than_the_first_fit():
    model = SparseGPRegressor(posterior="pool", time_limit=1e-9, random_state=0).fit(X, Y)
    assert [one.name for one in model.selection_] == ["exact"]
    assert np.isfinite(model.predict(AT)).all()


@pytest.mark.parametrize(
    "options, match",
    [
        ({"likelihood": "student_t"}, "likelihood='gaussian' only"),
        ({"metric": "full"}, "metric='auto' or 'ard'"),
        ({"optimizer": None}, "optimizer='fmin_l_bfgs_b'"),
        ({"inducing_init": X[:5]}, "inducing_init"),
    ],
)
def test_what_it_cannot_take(options, match):
    with pytest.raises(ValueError, match=match):
        SparseGPRegressor(posterior="pool", **options).fit(X, Y)


def test_rows_that_it_cannot_take(monkeypatch):
    model = SparseGPRegressor(posterior="pool")
    with pytest.raises(ValueError, match="posterior='pool' takes one target"):
        model.fit(X, np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match="5000 distinct rows"):
        model.fit(np.arange(5001.0)[:, None], np.zeros(5001))
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match="X_std"):
        model.fit(X, Y, X_std=0.1)
    with pytest.raises(ValueError, match="posterior_ is 'pool'"):
        model.fit(X, Y).evidence_bounds()
    monkeypatch.setattr(part, "_SMALL_TABLE", 0)
    with pytest.raises(ValueError, match="in memory"):
        model.fit(Arrays(X, Y, chunk_size=10))

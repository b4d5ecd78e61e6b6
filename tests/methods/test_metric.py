"""Metrics that neighbours learn: their objective, how fits use them."""

import pickle

import numpy as np
import pytest
from conftest import differences
from inside import (
    ArrayDataset,
    LeaveOneOut,
    LocalSiteObjective,
    MetricPrior,
    NeighborsObjective,
    SiteRows,
    VectorFunction,
    full,
)
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels
from skgp_sparse.likelihoods import NegativeBinomial, Probit
from skgp_sparse.posteriors import Neighbors

RNG = np.random.RandomState(0)
N, D, R = 12, 4, 2
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=(N, 2))
W = RNG.normal(size=(R, D))
KERNEL = 1.3 * Matern([0.9, 1.4], nu=2.5) + WhiteKernel(0.2)


def everything():
    """Every row is left out, and all others are near to it."""
    near = np.array([np.delete(np.arange(N), i) for i in range(N)])
    zeros, ones = np.zeros(near.shape), np.ones(near.shape)
    count = 1.0 + np.arange(N) % 2
    return LeaveOneOut(X, np.arange(N), near, Y, zeros[:, 0], count, Y[near], zeros, ones)


def leave_one_out(kernel, metric):
    """Σ w log N(y_i; m_i, v_i) by dense algebra."""
    total, seen = 0.0, X @ metric.T
    for i, w in enumerate(everything().count):
        others = np.arange(N) != i
        A, k = kernel(seen[others]), kernels.evaluate(kernel, seen[others], seen[[i]])
        variance = kernel.diag(seen[[i]])[0] - (k.T @ np.linalg.solve(A, k))[0, 0]
        squares = (Y[i] - (k.T @ np.linalg.solve(A, Y[others]))[0]) ** 2 / variance
        total -= 0.5 * w * np.sum(squares + np.log(2.0 * np.pi * variance))
    return total


def objective(prior=None, metric=W):
    left, rows = everything(), ArrayDataset(X, Y)
    return NeighborsObjective(
        left_out=left, rows=rows, total=left.count.sum(), metric=metric, prior=prior
    )


def test_the_objective_in_a_metric_is_dense_algebra():
    assert_allclose(objective().value(KERNEL), leave_one_out(KERNEL, W), rtol=1e-9)


@pytest.mark.parametrize("learned", [True, False])
def test_gradients_in_a_metric_are_central_differences(learned):
    shape = (R, D)
    prior = MetricPrior(W + 0.3, 0.5 + RNG.uniform(size=shape), 0.01 * np.ones(shape))
    function = VectorFunction(objective(prior if learned else None), KERNEL)
    start = function.pack()
    assert len(start) == len(KERNEL.theta) + learned * W.size
    slopes = differences(lambda at: function(at)[0], start)
    assert_allclose(function(start)[1], slopes, rtol=1e-5, atol=1e-6)


def test_the_price_of_a_metric_is_its_distance_from_the_start():
    prior = MetricPrior(W - 0.5, np.full((R, D), 2.0), np.full((R, D), 0.1))
    price = objective().value(KERNEL) - objective(prior).value(KERNEL)
    size = objective().size()
    assert_allclose(price, 0.1 * size * W.size * 0.25**2)
    assert_allclose(objective(prior).conclude(KERNEL).value, objective().value(KERNEL))
    assert full(RBF(np.ones(D)), D).nats.trace() == 0.0  # columns may be rescaled for nothing


def table(n=900, seed=0):
    """Rows of five columns whose target depends on two directions."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, size=(n, 5))
    a, b = X[:, 0] + X[:, 1] - X[:, 2], X[:, 3] - X[:, 0]
    return X, np.sin(4 * a) * np.cos(2 * b) + 0.01 * rng.normal(size=n)


def model(metric="full", **given):
    kernel = ConstantKernel() * RBF(np.ones(5))
    given = {"kernel": kernel, "random_state": 0, "max_iter": 15} | given
    if given.setdefault("posterior", "neighbors") == "neighbors":
        given["posterior"] = Neighbors(n_neighbors=30, n_neighbors_fit=20)
    return SparseGPRegressor(metric=metric, **given)


def rmse(fitted, X, y):
    return np.sqrt(np.mean((fitted.predict(X) - y) ** 2))


@pytest.mark.second
def test_a_metric_is_learned_and_kept():
    X, y = table()
    fitted = model().fit(X[:700], y[:700])
    assert fitted.metric_.shape == (5, 5)
    ard = model("ard").fit(X[:700], y[:700])
    assert rmse(fitted, X[700:], y[700:]) < 0.5 * rmse(ard, X[700:], y[700:])
    mean, std = fitted.predict(X, return_std=True)
    again, cov = pickle.loads(pickle.dumps(fitted)).predict(X[:5], return_cov=True)
    assert_allclose(again, mean[:5])
    assert_allclose(cov.diagonal(), std[:5] ** 2, rtol=1e-8)
    assert clone(fitted).metric == "full"
    assert any("full metric" in one.name for one in fitted.selection_)


@pytest.mark.second(share=0.36)
def test_the_objective_of_a_fit_in_a_metric_has_a_gradient():
    fitted = model().fit(*table(300))
    theta = fitted.kernel_.theta
    value, gradient = fitted.log_marginal_likelihood(theta, eval_gradient=True)
    assert_allclose(value, fitted.log_marginal_likelihood_value_, rtol=1e-9)
    slopes = differences(fitted.log_marginal_likelihood, theta)
    assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("labels", [False, True])
def test_rows_that_arrive_later_have_no_metric(labels):
    X, y = table(100)
    late, more = model(posterior="inducing"), {}
    if labels:
        late, more = classifier("full", posterior="auto"), {"classes": [False, True]}
    with pytest.raises(AttributeError) as error:
        late.partial_fit(X, y > 0 if labels else y, **more)
    assert "metric='full' is learned from all rows at once" in str(error.value.__cause__)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"metric": 0}, "metric.*0"),
        ({"metric": True}, "metric.*must be one of.*Got True"),
        ({"kernel": sk.DotProduct()}, "metric='full' mixes columns of stationary kernels"),
        ({"posterior": "inducing"}, "metric='full' is that of predictions from neighbours"),
        ({"posterior": "exact"}, "metric='full' is that of predictions from neighbours"),
        ({"posterior": "fourier"}, "metric='full' is that of predictions from neighbours"),
    ],
)
def test_a_metric_that_cannot_be_learned_is_refused(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model(**given).fit(*table(50))


def site_objective(seen, likelihood, **given):
    """Of counts or labels, with neighbours near in the inputs that a kernel sees, after sweeps."""
    y = likelihood.sample(Y[:, 0], np.random.RandomState(0))
    near = SiteRows(X if given else seen, np.arange(N), y, np.zeros(N), np.ones(N))
    near = near.with_neighbors(8, seen / KERNEL.k1.k2.length_scale, 1)
    given |= {
        "near": near,
        "sites": np.zeros((2, N)),
        "rows": ArrayDataset(X, y[:, None]),
        "total": N,
    }
    return LocalSiteObjective(likelihood=likelihood, **given).after_sweeps(KERNEL, most=5)


@pytest.mark.parametrize("likelihood", [Probit(), NegativeBinomial(level=1.0, size=2.0)])
def test_gradients_at_held_sites_are_central_differences(likelihood):
    prior = MetricPrior(W + 0.3, 0.5 + RNG.uniform(size=(R, D)), 0.01 * np.ones((R, D)))
    objective = site_objective(X @ W.T, likelihood, metric=W, prior=prior)
    function = VectorFunction(objective, KERNEL)
    start = function.pack()
    assert len(start) == len(KERNEL.theta) + W.size + len(likelihood.theta)
    slopes = differences(lambda at: function(at)[0], start)
    assert_allclose(function(start)[1], slopes, rtol=1e-5, atol=1e-6)
    in_columns = site_objective(X @ W.T, likelihood).value(KERNEL)
    assert_allclose(function.objective.conclude(KERNEL).value, in_columns, rtol=1e-6)


def latent(n=500, seed=0):
    """Rows of four columns, and a latent value that depends on one direction."""
    X = np.random.RandomState(seed).uniform(-1, 1, size=(n, 4))
    return X, np.sin(3.0 * (X[:, 0] + X[:, 1] - X[:, 2]))


def classifier(metric, **given):
    given = {"posterior": Neighbors(30, 20), "random_state": 0, "max_iter": 30} | given
    return SparseGPClassifier(metric=metric, **given)


def log_loss(fitted, X, label):
    p = fitted.predict_proba(X)
    return -np.mean(np.log(p[np.arange(len(X)), np.searchsorted(fitted.classes_, label)]))


@pytest.mark.second
def test_labels_that_depend_on_a_direction_gain_by_a_metric():
    (X, f), (Q, g) = latent(), latent(500, 1)
    fitted, plain = classifier("full").fit(X, f > 0), classifier("auto").fit(X, f > 0)
    assert fitted.metric_.shape == (4, 4) and plain.metric_ is None
    assert log_loss(fitted, Q, g > 0) < 0.6 * log_loss(plain, Q, g > 0)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(Q), fitted.predict_proba(Q))
    theta = fitted.kernel_.theta
    value = fitted.log_marginal_likelihood_value_
    assert_allclose(fitted.log_marginal_likelihood(theta), value, rtol=1e-5)
    names = [one.name for one in fitted.selection_]
    assert not names or "full metric" in names[1] and "metric" not in names[0]


@pytest.mark.second(share=0)
def test_a_sum_of_columns_is_found_none_of_which_matters_alone():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(4000, 6))
    f = np.sin(9 * X[:, 0]) + np.sin(8 * X[:, 1:].sum(axis=1))
    y = f + 0.1 * rng.randn(len(X))
    model = SparseGPRegressor(posterior="neighbors", random_state=0).fit(X[:3000], y[:3000])
    error = np.sqrt(np.mean((model.predict(X[3000:]) - f[3000:]) ** 2))
    assert error < 0.1  # .7 where the metric begins with the length scales of unmixed columns


@pytest.mark.second
def test_every_problem_has_a_metric_of_its_own():
    X, f = latent(160)
    label = np.digitize(f, [-0.5, 0.5])
    given = {"tol": 0.1}
    one, two = (classifier("full", n_jobs=n, **given).fit(X, label) for n in (1, 2))
    assert len(one.metric_) == 3 and any(W is not None for W in one.metric_)
    theta = one.kernel_.theta
    values = [fitted.log_marginal_likelihood(theta) for fitted in (one, two)]
    assert_allclose(values, one.log_marginal_likelihood_value_, rtol=1e-4)
    assert_allclose(one.predict_proba(X), two.predict_proba(X))
    assert classifier("ard", **given).fit(X, label).metric_ == [None] * 3


@pytest.mark.second
@pytest.mark.parametrize("posterior", ["auto", Neighbors(30, 20)])
def test_counts_that_depend_on_a_direction_gain_by_a_metric(posterior):
    (X, f), (Q, g) = latent(250), latent(500, 1)
    y = np.random.RandomState(0).poisson(np.exp(1.5 * f))
    given = {"likelihood": "poisson", "posterior": posterior, "random_state": 0, "max_iter": 30}
    correlations = []
    for metric in ("full", "ard"):
        fitted = SparseGPRegressor(metric=metric, **given).fit(X, y)
        correlations.append(np.corrcoef(fitted.predict(Q, latent=True), g)[0, 1])
        assert metric == "ard" or fitted.metric_.shape == (4, 4)
    assert correlations[0] > correlations[1]


@pytest.mark.parametrize(
    "given, message",
    [
        ({"multi_class": "softmax"}, "metric='full' is that of.*one latent value.*'one_vs_rest'"),
        ({}, "metric='full' is that of predictions from neighbours"),
        ({"metric": "round"}, "metric.*must be one of .*'full'.*Got 'round'"),
        ({"kernel": sk.DotProduct()}, "metric='full' mixes columns of stationary kernels"),
    ],
)
def test_a_metric_of_labels_that_cannot_be_learned_is_refused(given, message):
    X, f = latent(60)
    given = {"metric": "full", "posterior": "inducing"} | given
    with pytest.raises(ValueError, match=message):
        classifier(**given).fit(X, np.digitize(f, [-0.5, 0.5]))


@pytest.mark.second(share=0.07, thin=1)
@pytest.mark.parametrize("n", [2, 4, 5, 9])
@pytest.mark.parametrize("posterior", ["auto", Neighbors(1, 1)], ids=["auto", "neighbors"])
def test_a_few_rows_are_no_failure(n, posterior):
    X, f = latent(n)
    for estimator in (SparseGPRegressor, SparseGPClassifier):
        fitted = estimator(metric="full", posterior=posterior, max_iter=3)
        predicted = fitted.fit(X, np.arange(n) % 2).predict(X)
        assert np.isfinite(predicted).all()

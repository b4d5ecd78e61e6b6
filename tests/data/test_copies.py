"""Copies of rows, and what weights mean: D1, D4 and D5 of the reports, and their kinds."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.utils.class_weight import compute_sample_weight

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.data.arrays import ArrayDataset
from skgp_sparse.data.checks import Rules
from skgp_sparse.data.copies import RowHashes, RowWeights, row_weights
from skgp_sparse.sources import Stream

KERNEL = ConstantKernel() * Matern(nu=2.5) + WhiteKernel()


def wave(X):
    return np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]


def table(n, seed=0, noise=0.5):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, (n, 3))
    return X, wave(X) + noise * rng.normal(size=n)


def ages(n, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.randint(18, 60, (n, 1)).astype(float)
    return X, np.sin(X[:, 0] / 8) + 0.5 * rng.normal(size=n)


def weights_of(X, y, weight=None, labels=False, kernel=None):
    rules = Rules("SparseGP", kernel, labels=labels)
    found = RowHashes.of(ArrayDataset(X, np.asarray(y)))
    return row_weights(rules, found, weight, np.asarray(y) if labels else None)


# -- which rows are copies -------------------------------------------------------------


def test_each_row_twice_is_each_row_once():
    X, y = table(50)
    found = weights_of(np.vstack([X, X]), np.append(y, y))
    np.testing.assert_array_equal(found.weight, np.repeat([1.0, 0.0], 50))
    np.testing.assert_array_equal(found.places, np.tile(np.arange(50), 2))


def test_copies_have_weights_of_mean_one():
    X, y = table(50)
    rows = np.r_[0:50, 0:10, 0:10]
    found = weights_of(X[rows], y[rows])
    expected = np.r_[np.full(10, 3.0), np.ones(40), np.zeros(20)]
    np.testing.assert_allclose(found.weight, expected / expected[:50].mean(), rtol=1e-7)


@pytest.mark.parametrize("decimals", [8, 1])
def test_ages_in_whole_years_are_no_copies(decimals):
    X, y = ages(300)
    assert weights_of(X, np.round(y, decimals)) == RowWeights(None)


def test_a_table_of_categories_with_few_of_a_class_has_no_copies():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 4, (2000, 2)).astype(float)
    y = (rng.uniform(size=2000) < 0.03).astype(int)  # equal pairs: 94 %, which is chance
    assert weights_of(X, y, labels=True) == RowWeights(None)


def test_natural_ties_do_not_hide_copies():
    X, y = table(200)
    X, y = np.vstack([X, X[:15]]), np.append(y, y[:15] + 1.0)
    bootstrap = np.random.RandomState(0).randint(215, size=215)
    assert weights_of(X[bootstrap], y[bootstrap]).relative


@pytest.mark.parametrize("labels", [False, True])
def test_weights_and_copies_agree(labels):
    X, y = table(60)
    y = (y > 0).astype(int) if labels else y
    count = np.random.RandomState(1).randint(1, 4, size=60)
    copies = weights_of(np.repeat(X, count, axis=0), np.repeat(y, count), labels=labels)
    weighted = weights_of(X, y, count.astype(float), labels)
    np.testing.assert_array_equal(copies.weight[copies.weight > 0], weighted.weight)
    assert copies.relative and weighted.relative


def test_whole_weights_count_trials_and_others_do_not():
    X = np.repeat(np.arange(20.0), 2)[:, None]
    y, trials = np.tile([0, 1], 20), np.random.RandomState(0).randint(1, 9, 40).astype(float)
    assert not weights_of(X, y, trials, labels=True).relative
    assert weights_of(X, y, trials / 3.0, labels=True).relative


def test_weights_within_classes_stay_and_those_of_classes_do_not():
    X, y = table(60)
    y = (y > 0).astype(int)
    of_classes = weights_of(X, y, np.where(y, 5.0, 2.0), labels=True)
    assert of_classes.weight is None and not of_classes.relative
    np.testing.assert_allclose(of_classes.class_weight, [0.4, 1.0])
    varying = weights_of(X, y, np.where(X[:, 0] > 0, 5.0, 2.0), labels=True)
    assert varying.class_weight is None and varying.relative


# -- fits ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["twice", "fifth", "weights of two", "third"])
def test_a_fit_to_copies_is_nearly_the_fit_to_distinct_rows(name):
    (X, y), (new, truth) = table(150), table(2000, seed=1)
    rows = {"twice": np.r_[0:150, 0:150], "fifth": np.r_[0:150, 0:30]}.get(name, np.arange(150))
    weight = {"weights of two": np.full(150, 2.0), "third": np.full(150, 1 / 3)}.get(name)
    once = SparseGPRegressor(random_state=0).fit(X, y)
    model = clone(once).fit(X[rows], y[rows], sample_weight=weight)
    assert model.score(new, truth) > once.score(new, truth) - 0.03
    for method in ("model", "conformal"):
        low, high = model.predict_interval(new, coverage=0.9, method=method)
        assert 0.83 < np.mean((low <= truth) & (truth <= high)) < 0.97
    if name != "fifth":
        np.testing.assert_allclose(model.predict(new), once.predict(new), rtol=1e-9)


@pytest.mark.second
@pytest.mark.parametrize("n", [400, 2500])
def test_bootstrap_samples_lose_little(n):
    (X, y), (new, truth) = table(n), table(2000, seed=1)
    once = SparseGPRegressor(random_state=0).fit(X, y).score(new, truth)
    some = np.random.RandomState(2).randint(n, size=n)
    model = SparseGPRegressor(random_state=0).fit(X[some], y[some])
    distinct = SparseGPRegressor(random_state=0).fit(X[np.unique(some)], y[np.unique(some)])
    assert model.score(new, truth) > distinct.score(new, truth) - 0.03
    assert 0.4 < model.noise_std(new[:1])[0] < 0.6
    if n < 1000:
        bag = BaggingRegressor(SparseGPRegressor(random_state=0), 5, random_state=0).fit(X, y)
        assert bag.score(new, truth) > once - 0.03


def test_labels_that_are_there_twice():
    (X, y), (new, _) = table(150), table(2000, seed=1)
    once = SparseGPClassifier(random_state=0).fit(X, y > 0)
    twice = clone(once).fit(np.vstack([X, X]), np.append(y, y) > 0)
    np.testing.assert_allclose(twice.predict_proba(new), once.predict_proba(new), atol=1e-9)
    expected = np.tile(once.loo_predict_proba(), (2, 1))
    np.testing.assert_allclose(twice.loo_predict_proba(), expected, atol=1e-9)


def test_counts_that_are_there_twice():
    X, y = table(80)
    y = np.random.RandomState(0).poisson(np.exp(y))
    once = SparseGPRegressor(likelihood="poisson", random_state=0).fit(X, y)
    twice = clone(once).fit(np.vstack([X, X]), np.append(y, y))
    np.testing.assert_allclose(twice.predict(X), once.predict(X), rtol=1e-7)


def source(X, y, weight, size):
    return Stream(
        lambda: (
            (X[i : i + size], y[i : i + size], weight[i : i + size]) for i in range(0, 240, size)
        )
    )


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("labels", [False, True])
def test_copies_among_chunks_of_a_source(is_large, labels, monkeypatch):
    if is_large:
        monkeypatch.setattr("skgp_sparse.data.moments._SMALL_TABLE", 0)
    X, y = table(120)
    y = np.where(y > 0, "high", "low") if labels else y
    X, y, weight = np.vstack([X, X]), np.append(y, y), np.ones(240)
    if labels:
        weight = np.where(y == "low", 3.0, 1.0)
    make = SparseGPClassifier if labels else SparseGPRegressor
    options = {"n_inducing": 20, "random_state": 0, "mean": None}
    model = make(**options).fit(source(X, y, weight, 60))
    expected = make(**options).fit(X[:120], y[:120], sample_weight=weight[:120])
    answers = "predict_proba" if labels else "predict"
    found, known = (getattr(one, answers)(X[:20]) for one in (model, expected))
    np.testing.assert_allclose(found, known, rtol=1e-5)


def test_copies_in_large_tables_stay_in_place(monkeypatch):
    monkeypatch.setattr("skgp_sparse.data.moments._SMALL_TABLE", 0)
    X, y = table(120)
    once = SparseGPRegressor(random_state=0).fit(X, y)
    twice = clone(once).fit(np.vstack([X, X]), np.append(y, y))
    np.testing.assert_allclose(twice.predict(X), once.predict(X), rtol=1e-6)
    np.testing.assert_allclose(twice.loo_predict().mean, np.tile(once.loo_predict().mean, 2))


def test_rows_of_a_user_kernel_count_as_in_the_exact_process():
    X, y = table(40)
    X, y = np.vstack([X, X]), np.append(y, y)
    exact = GaussianProcessRegressor(1.3 * RBF(1.5) + WhiteKernel(0.2), optimizer=None).fit(X, y)
    model = SparseGPRegressor(exact.kernel, optimizer=None, normalize_y=False).fit(X, y)
    value = exact.log_marginal_likelihood_value_
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, value, rtol=1e-9)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), rtol=1e-7)


# -- warnings --------------------------------------------------------------------------


def test_copies_that_drive_the_noise_to_its_bound_are_told():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, (80, 1))
    y, twice = np.sin(X[:, 0]) + 0.3 * rng.normal(size=80), np.tile(np.arange(80), 2)
    model = SparseGPRegressor(ConstantKernel() * Matern(nu=2.5), random_state=0)
    with pytest.warns(ConvergenceWarning, match="copies of others"):
        model.fit(X[twice], y[twice])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
        exact = SparseGPRegressor(RBF() + WhiteKernel(0.1, (1e-6, 1e3)), random_state=0)
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*copies of others")
        exact.fit(X, np.sin(X[:, 0]), sample_weight=rng.uniform(0.5, 1.5, 80))


@pytest.mark.parametrize("kernel", [None, KERNEL])
def test_weights_far_from_one_are_told(kernel):
    X, y = table(40)
    model = SparseGPRegressor(kernel, random_state=0)
    with pytest.warns(UserWarning, match="mean of sample_weight is 0.025"):
        model.fit(X, y, sample_weight=np.full(40, 1 / 40))


# -- classes ---------------------------------------------------------------------------


def rare(n, seed):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(rng.uniform(size=n) < 1 / (1 + np.exp(4 - 2.7 * X[:, 0])), "yes", "no")


@pytest.mark.parametrize("given", ["balanced", "weights", "dict"])
def test_weights_of_classes_change_probabilities_and_not_the_fit(given):
    (X, y), (new, truth) = rare(300, 0), rare(4000, 1)
    share = np.array([np.mean(y == "no"), np.mean(y == "yes")])
    plain = SparseGPClassifier(random_state=0).fit(X, y)
    weight = compute_sample_weight("balanced", y) if given == "weights" else None
    choice = {"balanced": "balanced", "dict": {"yes": share[0] / share[1]}}.get(given)
    model = clone(plain).set_params(class_weight=choice).fit(X, y, sample_weight=weight)
    for found, known in (
        (model.predict_proba(new), plain.predict_proba(new)),
        (model.loo_predict_proba(), plain.loo_predict_proba()),
    ):
        expected = known / share
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(new), model.classes_[found_best(model, new)])
    logistic = LogisticRegression(class_weight="balanced").fit(X, y)
    least = balanced_accuracy_score(truth, logistic.predict(new)) - 0.01
    assert balanced_accuracy_score(truth, model.predict(new)) > least
    ranks = [roc_auc_score(truth, one.predict_proba(new)[:, 1]) for one in (model, plain)]
    assert abs(ranks[0] - ranks[1]) < 1e-3


def found_best(model, X):
    return model.predict_proba(X).argmax(axis=1)


@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one", "softmax"])
def test_weights_of_several_classes(multi_class):
    X, y = table(150)
    y = np.digitize(y, [-1.0, 0.5])
    options = {"multi_class": multi_class, "random_state": 0, "n_inducing": 20}
    plain = SparseGPClassifier(**options).fit(X, y)
    model = SparseGPClassifier(**options, class_weight={1: 10.0}).fit(X, y)
    expected = plain.predict_proba(X) * [1.0, 10.0, 1.0]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), found_best(model, X))


def test_class_weight_in_a_stream():
    X, y = rare(120, 0)
    options = {"n_inducing": 20, "random_state": 0}
    plain = SparseGPClassifier(**options).partial_fit(X, y, classes=["no", "yes"])
    model = SparseGPClassifier(**options, class_weight={"yes": 4.0})
    model.partial_fit(X[:60], y[:60], classes=["no", "yes"]).partial_fit(X[60:], y[60:])
    plain = SparseGPClassifier(**options).partial_fit(X[:60], y[:60], classes=["no", "yes"])
    plain.partial_fit(X[60:], y[60:])
    odds = [one.predict_proba(X) for one in (model, plain)]
    ratio = (odds[0][:, 1] / odds[0][:, 0]) / (odds[1][:, 1] / odds[1][:, 0])
    np.testing.assert_allclose(ratio, 4.0, rtol=1e-6)
    with pytest.raises(ValueError, match="Pass a dict"):
        SparseGPClassifier(class_weight="balanced").partial_fit(X, y, classes=["no", "yes"])


@pytest.mark.parametrize("wrong", ["even", {"yes": -1.0}, {"yes": "much"}, [1.0, 2.0]])
def test_class_weight_is_checked(wrong):
    X, y = rare(60, 0)
    with pytest.raises(ValueError, match="'class_weight' parameter of SparseGPClassifier must be"):
        SparseGPClassifier(class_weight=wrong).fit(X, y)


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_a_stream_after_a_fit_counts_rows_alike(weight):
    X, y = ages(200)
    y, weight = np.round(y, 1), np.full(100, weight)
    options = {"n_inducing": 20, "random_state": 0, "noise": "constant"}
    streams = SparseGPRegressor(**options), SparseGPRegressor(**options)
    streams[0].fit(X[:100], y[:100], sample_weight=weight)
    streams[1].partial_fit(X[:100], y[:100], sample_weight=weight)
    found = []
    for model in streams:
        model.partial_fit(X[100:], y[100:], sample_weight=weight)
        found.append(model._fitted.fits[0].rows.total_weight())
    np.testing.assert_allclose(found, 200.0, rtol=1e-6)


def test_a_factor_of_weights_in_a_stream_does_not_matter():
    X, y = table(120)
    weight = np.random.RandomState(0).uniform(0.5, 2.0, size=120)
    found = []
    for factor in (1.0, 3.0):
        model = SparseGPRegressor(n_inducing=20, random_state=0)
        for some in (slice(0, 60), slice(60, 120)):
            model.partial_fit(X[some], y[some], sample_weight=factor * weight[some])
        found.append(model.predict(X))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_weights_that_sum_to_one_leave_log_loss_as_it_is():
    (X, y), (new, truth) = table(150), table(1000, seed=1)
    plain = SparseGPClassifier(random_state=0).fit(X, y > 0)
    with pytest.warns(UserWarning, match="mean of sample_weight"):
        model = clone(plain).fit(X, y > 0, sample_weight=np.full(150, 1 / 150))
    losses = [log_loss(truth > 0, one.predict_proba(new)) for one in (plain, model)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)

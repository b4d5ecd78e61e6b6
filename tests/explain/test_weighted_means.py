"""Weights of a mean beside a process, and calibrated probabilities, from rows that are left out."""

import numpy as np
import pytest
from conftest import agree
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from scipy.special import softmax
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse._engine.predictions.posterior import LeftOut
from skgp_sparse.explain import weighted_means
from skgp_sparse.explain.weighted_means import Calibration, LeftOutMean, calibrated, centred_logs

RNG = np.random.RandomState(0)
N = 90
X = RNG.uniform(size=(N, 2))
STEPS = 1.0 * (X[:, 0] > 0.5) - 1.0 * (X[:, 1] > 0.6) * (X[:, 0] < 0.7)
Y = STEPS + 0.1 * RNG.normal(size=N)
LABELS = np.digitize(Y, [-0.3, 0.4])
MEAN = HistGradientBoostingRegressor(min_samples_leaf=5, max_iter=30, random_state=0)
QUERIES = RNG.uniform(size=(30, 2))


def parts(model, X, y, *rest, **known):
    """The fit of a model, and that of the same process without a mean."""
    return model.fit(X, y, *rest, **known), clone(model).set_params(mean=None).fit(X, y, *rest)


def test_loo_predict_is_a_weighted_mean():
    model, alone = parts(SparseGPRegressor(mean=MEAN, random_state=0), X, Y)
    weight, spread = model._beside.weight[0], model._beside.spread
    assert 0.1 < weight <= 1.0 and 0.1 <= spread < 1.0
    rows = model._fits[0].rows
    predicted = model._fits[0].mean.predictions[:, 0]
    if rows.places is not None:
        predicted = predicted[rows.places]
    predicted = model._units.inverse(predicted[:, None])[:, 0]
    left, own = model.loo_predict(), alone.loo_predict()
    assert_allclose(left.mean, (1 - weight) * own.mean + weight * predicted, rtol=1e-9, atol=1e-12)
    assert_allclose(left.std, spread * own.std, rtol=1e-9)
    assert np.mean(left.log_density) > np.mean(own.log_density)


def test_rows_are_predicted_by_fits_without_them():
    noise = np.random.RandomState(1).normal(size=N)
    forest = RandomForestRegressor(30, random_state=0)  # which learns noise by heart
    model = SparseGPRegressor(mean=forest, random_state=0).fit(X, noise)
    in_order = model._fits[0].mean.predictions
    if model._fits[0].rows.places is not None:
        in_order = in_order[model._fits[0].rows.places]
    predicted = model._units.inverse(in_order)[:, 0]
    assert abs(np.corrcoef(predicted, noise)[0, 1]) < 0.4  # four standard errors of no correlation
    assert np.corrcoef(model.mean_.predict(X), noise)[0, 1] > 0.8


def test_weights_of_groups_are_from_left_out_groups():
    groups = np.digitize(X[:, 0], np.linspace(0, 1, 10))  # far from all others
    zero = np.ones(N)
    zero[:5] = 0.0
    for weight in (None, zero):
        model = SparseGPRegressor(mean=MEAN, random_state=0).fit(X, Y, weight, groups=groups)
        kept = np.arange(N) if weight is None else np.flatnonzero(weight)
        alone = clone(model).set_params(mean=None).fit(X[kept], Y[kept])
        left = alone.loo_predict(groups=groups[kept])
        places = model._fits[0].rows.places
        at = kept if places is None else places[kept]
        predicted = model._units.inverse(model._fits[0].mean.predictions[at])[:, 0]
        error, change = Y[kept] - left.mean, predicted - left.mean
        slope = np.sum(error * change / left.std**2) / np.sum(change**2 / left.std**2)
        assert_allclose(model._beside.weight, np.clip(slope, 0.0, 1.0), rtol=1e-4)
        assert 0.05 < slope
    by_rows = SparseGPRegressor(mean=MEAN, random_state=0).fit(X, Y)
    assert abs(by_rows._beside.weight[0] - model._beside.weight[0]) > 0.05


def test_left_out_rows_without_a_weight_stay():
    left = LeftOut(np.ones((2, 1)), np.ones(2))
    assert LeftOutMean(np.zeros((4, 1))).beside(left, np.array([0, 3])) is left
    mean = LeftOutMean(np.arange(4.0)[:, None], np.array([0.25]), 0.5)
    found = mean.beside(left, np.array([0, 3]))
    assert_allclose(found.mean, [[0.75], [1.5]])
    assert_allclose(found.variance, [0.25, 0.25])


def test_weights_are_those_of_least_squares():
    model, alone = parts(SparseGPRegressor(mean=MEAN, random_state=0), X, Y)
    own, left = alone.loo_predict(), model.loo_predict()
    weight = model._beside.weight[0]
    change = (left.mean - own.mean) / weight

    def loss(s):
        return np.sum((Y - own.mean - s * change) ** 2 / own.std**2)

    assert loss(weight) <= min(loss(s) for s in np.linspace(0, 1, 101)) + 1e-9
    ratio = loss(weight) / loss(0.0)
    assert model._beside.spread == pytest.approx(np.sqrt(ratio), rel=1e-6)


def test_weights_of_rows_are_copies():
    weight = np.random.RandomState(1).randint(1, 4, N)
    again = np.repeat(np.arange(N), weight)
    model = SparseGPRegressor(mean=MEAN, random_state=0)
    weighted = clone(model).fit(X, Y, weight)
    repeated = clone(model).fit(X[again], Y[again])
    assert_allclose(weighted._beside.weight, repeated._beside.weight, rtol=1e-6)
    assert_allclose(weighted.predict(QUERIES), repeated.predict(QUERIES), rtol=1e-6, atol=1e-8)
    for one, other in zip(weighted.loo_predict(), repeated.loo_predict()):
        assert_allclose(one[again], other, rtol=1e-6, atol=1e-8)


@pytest.mark.second(share=0.1)
def test_the_order_of_rows_has_no_influence():
    order = np.random.RandomState(1).permutation(N)
    for model, y in (
        (SparseGPRegressor(mean=MEAN, random_state=0), Y),
        (SparseGPRegressor(mean="boosting", random_state=0), Y),
        (SparseGPClassifier(mean="boosting", random_state=0), LABELS),
    ):
        first, other = clone(model).fit(X, y), clone(model).fit(X[order], y[order])
        is_regressor = isinstance(model, SparseGPRegressor)
        answer = "predict" if is_regressor else "predict_proba"
        mine, its = (getattr(one, answer)(QUERIES) for one in (first, other))
        assert_allclose(mine, its, rtol=1e-5, atol=1e-6)
        mine, its = (_left_out(one) for one in (first, other))
        assert_allclose(mine[order], its, rtol=1e-5, atol=1e-6)


def _left_out(model):
    return (
        model.loo_predict().mean
        if isinstance(model, SparseGPRegressor)
        else model.loo_predict_proba()
    )


def test_rows_without_weight_are_as_if_left_away():
    weight = np.ones(N)
    weight[::7] = 0.0
    kept = weight > 0
    model = SparseGPRegressor(mean=MEAN, random_state=0)
    first, other = clone(model).fit(X, Y, weight), clone(model).fit(X[kept], Y[kept])
    assert_allclose(first.predict(QUERIES), other.predict(QUERIES), rtol=1e-6, atol=1e-8)


def test_groups_are_left_out_together():
    rng, groups = np.random.RandomState(0), np.repeat(np.arange(30), 3)
    shared = rng.normal(size=30)[groups]  # what rows of a group have in common
    X = np.column_stack([groups + 0.01 * rng.normal(size=N), rng.uniform(size=N)])
    y = shared + 0.1 * rng.normal(size=N)
    mean = RandomForestRegressor(20, random_state=0)
    together = SparseGPRegressor(mean=mean, random_state=0).fit(X, y, groups=groups)
    apart = SparseGPRegressor(mean=mean, random_state=0).fit(X, y)

    def correlation(model):
        fit = model._fits[0]
        predicted = fit.mean.predictions[:, 0]
        predicted = predicted if fit.rows.places is None else predicted[fit.rows.places]
        return np.corrcoef(predicted, y)[0, 1]

    assert correlation(apart) > correlation(together) + 0.2


def test_folds_have_whole_groups():
    seen = []

    class Watched(HistGradientBoostingRegressor):
        """Boosting that tells which rows it is fitted to."""

        def fit(self, X, y, sample_weight=None):
            seen.append(set(X[:, 0]))
            return super().fit(X, y, sample_weight)

    groups = np.random.RandomState(1).randint(0, 12, N).astype(str)
    rows = np.column_stack([np.arange(N), X])
    SparseGPRegressor(mean=Watched(max_iter=3), random_state=0).fit(rows, Y, groups=groups)
    assert len(seen) == 6 and len(seen[-1]) == N
    for fold in seen[:-1]:
        inside = {groups[int(i)] for i in fold}
        assert not inside & {groups[i] for i in range(N) if i not in fold}


# -- calibration -----------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 4])
def test_calibration_recovers_a_temperature(n_classes):
    rng = np.random.RandomState(1)
    logits = rng.normal(size=(20_000, n_classes))
    true = softmax(logits, axis=1)
    labels = np.array([rng.choice(n_classes, p=p) for p in true])
    given = softmax(2.0 * logits, axis=1)  # too sure by a temperature of 2
    found = calibrated(given, labels, np.ones(len(labels)))
    assert found.scale == pytest.approx(0.5, abs=0.03)
    assert_allclose(found.bias - found.bias.mean(), 0.0, atol=0.06)
    assert found.weight == 0.0 and found.function is None
    assert_allclose(found.combined(given, None), true, atol=0.03)


def test_calibration_recovers_biases():
    rng = np.random.RandomState(2)
    logits = rng.normal(size=(20_000, 3))
    bias = np.array([0.8, -0.5, -0.3])
    labels = np.array([rng.choice(3, p=p) for p in softmax(logits + bias, axis=1)])
    found = calibrated(softmax(logits, axis=1), labels, np.ones(len(labels)))
    assert_allclose(found.bias - found.bias.mean(), bias, atol=0.07)


def test_calibration_weighs_rows():
    rng = np.random.RandomState(3)
    given = softmax(rng.normal(size=(200, 3)), axis=1)
    labels, weight = rng.randint(0, 3, 200), rng.randint(1, 4, 200)
    again = np.repeat(np.arange(200), weight)
    first = calibrated(given, labels, weight)
    other = calibrated(given[again], labels[again], np.ones(len(again)))
    assert_allclose(first.scale, other.scale, rtol=1e-4)
    assert_allclose(first.bias, other.bias, atol=1e-4)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_the_gradient_of_calibration_is_differences(monkeypatch, columns):
    rng, seen = np.random.RandomState(4), []

    def watched(loss, start, **options):
        seen.append((loss, start))
        return minimize(loss, start, **options)

    minimize = weighted_means.minimize
    monkeypatch.setattr(weighted_means, "minimize", watched)
    k = 2 if columns == 1 else 3
    given, labels = softmax(rng.normal(size=(50, k)), axis=1), rng.randint(0, k, 50)
    function, latent = (None, None) if not columns else (object(), rng.normal(size=(50, columns)))
    calibrated(given, labels, rng.uniform(0.5, 2, 50), function, latent)
    ((loss, start),) = seen
    at = start + 0.3 * rng.uniform(size=len(start))
    assert check_grad(lambda t: loss(t)[0], lambda t: loss(t)[1], at) < 1e-4


def test_a_calibration_is_a_product_of_probabilities():
    rng = np.random.RandomState(5)
    own, theirs = (softmax(rng.normal(size=(20, 3)), axis=1) for _ in range(2))
    bias = np.array([0.1, 0.2, -0.3])
    found = Calibration(0.7, bias, 0.4, object()).combined(own, centred_logs(theirs))
    product = own**0.7 * theirs**0.4 * np.exp(bias)
    agree(found, product / product.sum(axis=1, keepdims=True), 1e-12)
    two, other = (np.column_stack([1 - p, p]) for p in rng.uniform(0.1, 0.9, (2, 20)))
    logit = np.log(other[:, 1:] / other[:, :1])
    found = Calibration(0.7, np.array([0.1, -0.1]), 0.4, object()).combined(two, logit)
    product = two**0.7 * other**0.4 * np.exp([0.1, -0.1])
    agree(found, product / product.sum(axis=1, keepdims=True), 1e-12)
    same = Calibration(1.0, np.zeros(3)).combined(own, None)
    agree(same, own, 1e-12)


def test_sure_probabilities_stay_numbers():
    own = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]] * 20)
    found = calibrated(own, np.tile([0, 1, 0], 20), np.ones(60))
    combined = found.combined(own, None)
    assert np.isfinite(combined).all()
    assert_allclose(combined.sum(axis=1), 1.0)
    assert_array_equal(combined[:2].argmax(axis=1), [0, 1])


@pytest.mark.parametrize("labels", [LABELS, LABELS > 0], ids=["three classes", "two classes"])
def test_left_out_labels_are_calibrated(labels):
    model = SparseGPClassifier(mean="boosting", random_state=0).fit(X, labels)
    calibration = model._beside
    plain = SparseGPClassifier(mean=None, calibration=None, random_state=0).fit(X, labels)
    fit = model._fits[0]
    latent = fit.mean.predictions if fit.mean is not None else None
    if latent is not None and fit.rows.places is not None:
        latent = latent[fit.rows.places]
    own = plain.loo_predict_proba()
    agree(model.loo_predict_proba(), calibration.combined(own, latent), 1e-6)
    probabilities = model.predict_proba(QUERIES)
    agree(probabilities, calibration.at(plain.predict_proba(QUERIES), QUERIES), 1e-6)

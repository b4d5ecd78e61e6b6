"""Weights of a mean beside a process, and calibrated probabilities, from rows that are left out."""

from functools import partial

import numpy as np
import pytest
from conftest import agree
from inside import (
    Calibration,
    LeftOutRows,
    MeanWeights,
    calibrated,
    centred_logs,
    weighted_means,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from scipy.special import softmax
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

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


def weight_and_factor(model, std):
    """Weights (n,) and factors (n,) of std, from those of the process in units of y."""
    weights, scale = model._fitted.blend.weights, model._fitted.scaler.scale[0]
    odds = weights.intercept + weights.slope * np.log((std / scale) ** 2 / weights.error)
    weight, (c, d) = 1.0 / (1.0 + np.exp(-odds)), weights.log_factor
    return weight, np.exp(0.5 * (c + d * weight))


def predicted_without(model):
    """Predictions of training rows by fits of the mean without them, in units of y."""
    predicted, places = model._fitted.fits[0].mean, model._fitted.fits[0].rows.places
    return model._fitted.scaler.inverse(predicted if places is None else predicted[places])[:, 0]


def test_loo_predict_is_a_weighted_mean():
    model, alone = parts(SparseGPRegressor(mean=MEAN, random_state=0), X, Y)
    left, own = model.loo_predict(), alone.loo_predict()
    weight, spread = weight_and_factor(model, own.std)
    assert 0.1 < weight.mean() <= 1.0 and 0.1 <= spread.mean() < 1.0
    mixed = (1 - weight) * own.mean + weight * predicted_without(model)
    assert_allclose(left.mean, mixed, rtol=1e-9, atol=1e-12)
    assert_allclose(left.std, spread * own.std, rtol=1e-9)
    assert np.mean(left.log_density) > np.mean(own.log_density)


def test_rows_are_predicted_by_fits_without_them():
    noise = np.random.RandomState(1).normal(size=N)
    forest = RandomForestRegressor(30, random_state=0)  # which learns noise by heart
    model = SparseGPRegressor(mean=forest, random_state=0).fit(X, noise)
    predicted = predicted_without(model)
    assert abs(np.corrcoef(predicted, noise)[0, 1]) < 0.4  # four standard errors of no correlation
    assert np.corrcoef(model.mean_.predict(X), noise)[0, 1] > 0.8


def huber(squared):
    return np.where(squared < 9.0, squared, 6.0 * np.sqrt(squared) - 9.0)


def loss_of_mean(model, y, left, predicted, theta):
    """Mean Huber loss of the weighted mean with intercept and slope theta, and its ridge."""
    weights, scale = model._fitted.blend.weights, model._fitted.scaler.scale[0]
    variance, error = (left.std / scale) ** 2, weights.error[0]
    weight = 1.0 / (1.0 + np.exp(-theta[0] - theta[1] * np.log(variance / error)))
    rest = (y - left.mean - weight * (predicted - left.mean)) / scale
    ridge = max(1.0, 200 / len(y)) * (1e-4 * theta[0] ** 2 + 1e-3 * theta[1] ** 2)
    return np.mean(huber(rest**2 / np.sqrt(variance * error))) + ridge


def are_best(loss, theta):
    """Whether no change of numbers makes a loss smaller by more than rounding."""
    changes = [s * h for s in (-1, 1) for h in (0.01, 0.1, 1.0)]
    others = [theta + h * one for h in changes for one in np.eye(len(theta))]
    return loss(theta) <= min(map(loss, others)) + 1e-7


def test_weights_have_the_least_huber_loss():
    model, alone = parts(SparseGPRegressor(mean=MEAN, random_state=0), X, Y)
    left, predicted, weights = (
        alone.loo_predict(),
        predicted_without(model),
        model._fitted.blend.weights,
    )
    error = np.mean((Y - predicted) ** 2) / model._fitted.scaler.scale[0] ** 2
    assert_allclose(weights.error, error, rtol=1e-9)
    theta = np.append(weights.intercept, weights.slope)
    assert are_best(partial(loss_of_mean, model, Y, left, predicted), theta)


def test_factors_of_variances_have_the_highest_density():
    model, alone = parts(SparseGPRegressor(mean=MEAN, random_state=0), X, Y)
    left, own, scale = model.loo_predict(), alone.loo_predict(), model._fitted.scaler.scale[0]
    weight = weight_and_factor(model, own.std)[0]

    def loss(theta):
        variance = (own.std / scale) ** 2 * np.exp(theta[0] + theta[1] * weight)
        squared = ((Y - left.mean) / scale) ** 2
        ridge = 200 / N * (0.1 * theta[0] ** 2 + 0.01 * theta[1] ** 2)
        return 0.5 * np.mean(np.log(variance) + squared / variance) + ridge

    assert are_best(loss, np.array(model._fitted.blend.weights.log_factor))


def test_left_out_rows_have_a_weighted_mean():
    moments = np.ones((2, 1)), np.ones(2), np.full(2, 0.5)
    left = LeftOutRows(None, None, np.array([0, 3]), None, *moments)
    weights = MeanWeights(np.log([1 / 3]), np.zeros(1), np.ones(1), (np.log(0.25), 0.0))
    found = left.beside(np.array([[0.0], [3.0]]), weights)
    assert_allclose(found.mean, [[0.75], [1.5]])
    assert_allclose(found.total, [0.375, 0.375])


def test_weights_of_rows_are_copies():
    weight = np.random.RandomState(1).randint(1, 4, N)
    again = np.repeat(np.arange(N), weight)
    model = SparseGPRegressor(mean=MEAN, random_state=0)
    weighted = clone(model).fit(X, Y, weight)
    repeated = clone(model).fit(X[again], Y[again])
    of_both = weighted._fitted.blend.weights, repeated._fitted.blend.weights
    assert_allclose(of_both[0].intercept, of_both[1].intercept, rtol=1e-3)
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
    latent = rng.normal(size=(50, columns)) if columns else None
    calibrated(given, labels, rng.uniform(0.5, 2, 50), latent)
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
    calibration = model._fitted.blend
    plain = SparseGPClassifier(mean=None, calibration=None, random_state=0).fit(X, labels)
    fit = model._fitted.fits[0]
    latent = fit.mean
    if latent is not None and fit.rows.places is not None:
        latent = latent[fit.rows.places]
    own = plain.loo_predict_proba()
    agree(model.loo_predict_proba(), calibration.combined(own, latent), 1e-6)
    probabilities = model.predict_proba(QUERIES)
    agree(probabilities, calibration.at(plain.predict_proba(QUERIES), QUERIES), 1e-6)

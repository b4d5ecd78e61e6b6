"""Scores of a predictive distribution."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression

from skgp_sparse import SparseGPRegressor
from skgp_sparse.metrics import log_predictive_density_scorer, mean_log_predictive_density


@pytest.fixture(params=[(20,), (20, 3)], ids=["one target", "three targets"])
def predictions(request):
    rng = np.random.RandomState(0)
    return (
        rng.normal(size=request.param),
        rng.normal(size=request.param),
        rng.uniform(0.1, 2, size=request.param),
    )


def test_it_is_the_mean_of_normal_log_densities(predictions):
    y, mean, std = predictions
    expected = norm(mean, std).logpdf(y).mean()
    assert mean_log_predictive_density(y, mean, std) == pytest.approx(expected, rel=1e-12)


def test_a_weight_is_a_number_of_copies(predictions):
    weight = np.arange(20) % 3
    repeated = [np.repeat(part, weight, axis=0) for part in predictions]
    weighted = mean_log_predictive_density(*predictions, sample_weight=weight)
    assert weighted == pytest.approx(mean_log_predictive_density(*repeated), rel=1e-12)


def test_another_unit_of_y_shifts_it_by_its_logarithm(predictions):
    scaled = mean_log_predictive_density(*(7.0 * part for part in predictions))
    assert scaled == pytest.approx(mean_log_predictive_density(*predictions) - np.log(7.0))


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="same shape"):
        mean_log_predictive_density([1.0, 2.0], [1.0], [1.0])


@pytest.mark.parametrize("std", [0.0, -1.0, np.nan])
def test_a_std_that_is_not_positive_is_refused(std):
    with pytest.raises(ValueError, match="y_std must be positive"):
        mean_log_predictive_density([1.0], [1.0], [std])


def test_the_scorer_scores_noisy_predictions():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    score = log_predictive_density_scorer(model, X, y)
    assert score == mean_log_predictive_density(y, *model.predict(X, return_std=True))
    assert score == pytest.approx(norm(0, 0.1).entropy() * -1, abs=0.2)


def test_the_scorer_needs_standard_deviations():
    X = np.linspace(0, 1, 20)[:, None]
    with pytest.raises(TypeError, match="needs an estimator whose predict takes return_std"):
        log_predictive_density_scorer(LinearRegression().fit(X, X[:, 0]), X, X[:, 0])
    with pytest.raises(TypeError, match="returns means and standard deviations"):
        model = TransformedTargetRegressor(SparseGPRegressor(max_iter=1)).fit(X, X[:, 0])
        log_predictive_density_scorer(model, X, X[:, 0])

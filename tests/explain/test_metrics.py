"""Scores of a predictive distribution."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgp_sparse import SparseGPRegressor, metrics


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
    assert metrics.mean_log_predictive_density(y, mean, std) == pytest.approx(expected, rel=1e-12)


def test_a_weight_is_a_number_of_copies(predictions):
    weight = np.arange(20) % 3
    repeated = [np.repeat(part, weight, axis=0) for part in predictions]
    weighted = metrics.mean_log_predictive_density(*predictions, sample_weight=weight)
    assert weighted == pytest.approx(metrics.mean_log_predictive_density(*repeated), rel=1e-12)


def test_the_scorer_scores_noisy_predictions():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    score = metrics.log_predictive_density_scorer(model, X, y)
    assert score == metrics.mean_log_predictive_density(y, *model.predict(X, return_std=True))
    assert score == pytest.approx(norm(0, 0.1).entropy() * -1, abs=0.2)


def test_the_scorer_needs_standard_deviations():
    X = np.linspace(0, 1, 20)[:, None]
    with pytest.raises(TypeError, match="needs an estimator whose predict takes return_std"):
        metrics.log_predictive_density_scorer(LinearRegression().fit(X, X[:, 0]), X, X[:, 0])
    with pytest.raises(TypeError, match="returns means and standard deviations"):
        model = TransformedTargetRegressor(SparseGPRegressor(max_iter=1)).fit(X, X[:, 0])
        metrics.log_predictive_density_scorer(model, X, X[:, 0])


def test_crps_is_the_integral(predictions):
    y, mean, std = predictions
    grid = np.linspace(-12, 12, 20_001)

    def integral(y, mean, std):
        return trapezoid((norm(mean, std).cdf(grid) - (grid >= y)) ** 2, grid)

    expected = np.mean([integral(*one) for one in zip(y.ravel(), mean.ravel(), std.ravel())])
    assert metrics.crps(y, mean, std) == pytest.approx(expected, rel=2e-3)
    weight = np.arange(20) % 3
    repeated = [np.repeat(part, weight, axis=0) for part in predictions]
    assert metrics.crps(y, mean, std, sample_weight=weight) == pytest.approx(
        metrics.crps(*repeated)
    )


def test_crps_from_quantiles_comes_close():
    rng = np.random.RandomState(0)
    y, mean, std = rng.normal(size=50), rng.normal(size=50), rng.uniform(0.5, 2, 50)
    quantiles = norm(mean[:, None], std[:, None]).ppf((np.arange(400) + 0.5) / 400)
    assert metrics.crps_from_quantiles(y, quantiles) == pytest.approx(
        metrics.crps(y, mean, std), rel=2e-3
    )


def test_no_uncertainty_leaves_the_absolute_error():
    assert metrics.crps([1.0, 5.0], [0.0, 2.0], [1e-12, 1e-12]) == pytest.approx(2.0)


def test_the_true_interval_has_the_smallest_score():
    y = np.random.RandomState(0).normal(size=20_000)
    ends = [norm.ppf(p) for p in (0.05, 0.95)]
    scores = [
        metrics.interval_score(y, low + 0 * y, high + 0 * y, coverage=0.9)
        for low, high in (ends, [1.3 * one for one in ends], [0.7 * one for one in ends])
    ]
    assert scores[0] == min(scores)
    assert metrics.interval_coverage(y, ends[0] + 0 * y, ends[1] + 0 * y) == pytest.approx(
        0.9, abs=0.01
    )
    assert metrics.interval_coverage([1.0, 2.0], [1.0, 0.0], [1.0, 1.0]) == 0.5  # ends are included


def test_msll_knows_no_units():
    rng = np.random.RandomState(0)
    train, y, mean, std = (rng.uniform(1, 2, size=30) for _ in range(4))
    value = metrics.mean_standardized_log_loss(y, mean, std, y_train=train)
    moved = [5.0 * one + 3.0 for one in (y, mean)]
    assert metrics.mean_standardized_log_loss(*moved, 5.0 * std, y_train=5.0 * train + 3.0) == (
        pytest.approx(value)
    )
    nothing = np.full(30, train.mean()), np.full(30, train.std())
    assert metrics.mean_standardized_log_loss(y, *nothing, y_train=train) == pytest.approx(0.0)


@pytest.mark.parametrize("scale, expected", [(1.0, 0.0), (1e9, 0.25), (1e-9, 0.25)])
def test_calibration_error(scale, expected):
    y = np.random.RandomState(0).normal(size=20_000)
    error = metrics.calibration_error(y, 0 * y, np.full(len(y), scale))
    assert error == pytest.approx(expected, abs=0.01)


def test_scorers_in_a_search():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    model = make_pipeline(StandardScaler(), SparseGPRegressor(random_state=0)).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert metrics.crps_scorer(model, X, y) == -metrics.crps(y, mean, std)
    assert metrics.calibration_error_scorer(model, X, y) == -metrics.calibration_error(y, mean, std)
    lower, upper = mean - 1.6448536 * std, mean + 1.6448536 * std
    score = metrics.interval_score(y, lower, upper, coverage=0.9)
    assert metrics.interval_score_scorer(model, X, y) == pytest.approx(-score)
    for scorer in (
        metrics.crps_scorer,
        metrics.interval_score_scorer,
        metrics.calibration_error_scorer,
    ):
        scores = cross_val_score(SparseGPRegressor(), X, y, scoring=scorer, cv=2)
        assert np.all(scores < 0)
        with pytest.raises(TypeError, match="predict takes return_std"):
            scorer(LinearRegression().fit(X, y), X, y)


@pytest.mark.second
def test_scorers_of_counts_take_quantiles():
    rng = np.random.RandomState(0)
    X, offset = rng.uniform(-2, 2, size=(80, 1)), np.log(rng.uniform(1, 5, 80))
    y = rng.poisson(np.exp(np.sin(X[:, 0]) + offset)).astype(float)
    model = SparseGPRegressor(likelihood="poisson", max_iter=10, random_state=0).fit(
        X, y, offset=offset
    )
    quantiles = model.predict_quantiles(X, (np.arange(100) + 0.5) / 100, offset=offset)
    assert metrics.crps_scorer(model, X, y, offset=offset) == -metrics.crps_from_quantiles(
        y, quantiles
    )
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline.fit(X, y, sparsegpregressor__offset=offset)
    assert metrics.interval_score_scorer(pipeline, X, y, offset=offset) < 0
    assert -0.2 < metrics.calibration_error_scorer(pipeline, X, y, offset=offset) < 0


TRIPLE = np.ones((3, 2))


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: metrics.crps([1.0], [1.0], [0.0]), "y_std must be positive"),
        (lambda: metrics.crps_from_quantiles([1.0, 2.0], [[1.0]]), "a row of quantiles"),
        (lambda: metrics.interval_score([1.0], [2.0], [1.0]), "lower must not be above upper"),
        (lambda: metrics.interval_score([1.0], [0.0], [1.0], coverage=90), "between 0 and 1"),
        (lambda: metrics.interval_coverage([1.0], [0.0, 1.0], [1.0, 2.0]), "same shape"),
        (
            lambda: metrics.mean_standardized_log_loss([1.0], [1.0], [1.0], y_train=[2, 2]),
            "different",
        ),
        (lambda: metrics.crps(*TRIPLE, sample_weight=[1.0]), r"each of the 2 rows.* \(1,\)"),
        (lambda: metrics.calibration_error(*TRIPLE, sample_weight=[1.0]), "each of the 2 rows"),
    ],
)
def test_scores_refuse(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_sharpness_is_a_root_mean_square():
    assert metrics.sharpness([[3.0, 4.0], [5.0, 0.0]]) == pytest.approx(np.sqrt(12.5))

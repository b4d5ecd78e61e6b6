"""A mean beside the process, as users meet it: linear, of residuals, weighted; probabilities."""

import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from chunked_arrays import Arrays
from conftest import agree, raising, row_differences
from inside import ArrayDataset, Problems, StandardisedColumns, mean_functions
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_info, threadpool_limits

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels
from skgp_sparse.kernels import Columns, Missing, Sphere

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.RandomState(0)
N = 260
X = RNG.uniform(size=(N, 3))
STEPS = 1.0 * (X[:, 0] > 0.5) + (X[:, 1] > 0.3) * (X[:, 0] < 0.7) - (X[:, 2] > 0.6)
Y = STEPS + 0.1 * RNG.normal(size=N)
SMOOTH = np.sin(4 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=N)
LABELS = np.array(["u", "v", "w"])[np.digitize(Y, [0.3, 1.2])]
QUERIES = RNG.uniform(size=(12, 3))
STD = np.full(X.shape, 0.05)
TREES = HistGradientBoostingRegressor(max_iter=30, random_state=0)


@pytest.fixture(scope="module")
def stepped():
    """A fit to steps, with the mean that "auto" has chosen."""
    return SparseGPRegressor(random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def alone():
    """The same process without a mean."""
    return SparseGPRegressor(mean=None, random_state=0).fit(X, Y)


# -- universal kriging -----------------------------------------------------------------

CENTRE = np.array([2000.0, -3.0])
PLACES = CENTRE + RNG.uniform(0, 5, size=(80, 2))
HEIGHT = 3 * (PLACES[:, 0] - 2000) - 2 * PLACES[:, 1] + np.sin(3 * PLACES[:, 0])
HEIGHT += 0.1 * RNG.normal(size=80)
FAR = CENTRE + RNG.uniform(-6, 11, size=(20, 2))
SIGNAL = ConstantKernel(1.3, "fixed") * RBF([0.6, 3.0], "fixed")
FIXED = SIGNAL + WhiteKernel(0.01, "fixed")
KRIGING = {"mean": "linear", "optimizer": None, "normalize_y": False}


def universal_kriging(X, y, queries, noise=0.01):
    """Mean and latent variance of generalised least squares, in closed form."""
    H, h = (np.c_[np.ones(len(x)), x - X.mean(axis=0)] for x in (X, queries))
    inverse = np.linalg.inv(SIGNAL(X) + noise * np.eye(len(X)))
    gram = H.T @ inverse @ H
    beta = np.linalg.solve(gram, H.T @ inverse @ y)
    k = SIGNAL(queries, X)
    mean = h @ beta + k @ inverse @ (y - H @ beta)
    rest = h - k @ inverse @ H
    own = SIGNAL.diag(queries) - np.einsum("ij,jk,ik->i", k, inverse, k)
    return mean, own + np.einsum("ij,jk,ik->i", rest, np.linalg.inv(gram), rest)


@pytest.mark.parametrize("options", [{"posterior": "exact"}, {"n_inducing": 80}], ids=str)
def test_linear_is_universal_kriging(options):
    model = SparseGPRegressor(FIXED, **KRIGING, **options).fit(PLACES, HEIGHT)
    mean, variance = universal_kriging(PLACES, HEIGHT, FAR)
    found, std = model.predict(FAR, return_std=True, latent=True)
    assert_allclose(found, mean, rtol=3e-5)
    assert_allclose(std**2, variance, rtol=5e-6)
    assert_allclose(model.predict(FAR, return_std=True)[1] ** 2, variance + 0.01, rtol=5e-6)
    assert model.mean_ is None and not np.any(model.predict_parts(FAR)[0])
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(FAR), found)


def test_linear_in_several_targets_and_units():
    both = np.column_stack([HEIGHT, 100.0 - 7.0 * HEIGHT])
    model = SparseGPRegressor(FIXED, **KRIGING | {"normalize_y": True}).fit(PLACES, both)
    found = model.predict(FAR)
    assert_allclose(found[:, 1], 100.0 - 7.0 * found[:, 0], rtol=1e-6)


@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors"])
def test_linear_continues_a_trend(posterior):
    options = {"n_inducing": 40} if posterior == "inducing" else {}
    model = SparseGPRegressor(RBF(), mean="linear", posterior=posterior, random_state=0, **options)
    model.fit(PLACES, HEIGHT)
    trend = 3 * (FAR[:, 0] - 2000) - 2 * FAR[:, 1]
    assert np.sqrt(np.mean((model.predict(FAR) - trend) ** 2)) < 4.0


def test_gradients_of_a_linear_mean_are_differences():
    model = SparseGPRegressor(FIXED, **KRIGING).fit(PLACES, HEIGHT)
    near = PLACES[:6] + 0.1
    found = model.predict(near, return_std=True, return_gradient=True)
    mean, std, mean_slope, std_slope = found
    both = row_differences(lambda X: np.column_stack(model.predict(X, return_std=True)), near, 1e-4)
    agree(mean_slope, both[:, 0], 1e-4)
    agree(std_slope, both[:, 1], 1e-4)
    agree(mean, model.predict(near), 1e-9)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("kernel", [None, Columns(Missing(RBF()), [0, 1, 2])], ids=str)
def test_linear_takes_categories_and_missing_values(kernel):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = pd.Categorical(np.where(X[:, 0] > 0.5, "low", "high"))
    frame.loc[::9, "b"] = np.nan
    y = 5 * X[:, 2] + 2.0 * (X[:, 0] > 0.5) + 0.1 * np.random.RandomState(1).normal(size=N)
    model = SparseGPRegressor(kernel, mean="linear", random_state=0).fit(frame[:80], y[:80])
    assert np.isfinite(model.predict(frame[80:])).all()
    assert model.score(frame[80:], y[80:]) > 0.8
    assert np.isfinite(model.feature_importances_).all()
    (part,) = kernels.parts(model.kernel_, StandardisedColumns)
    assert part.columns == ["a", "b", "c"] and model.mean_ is None
    agree(part.transform(np.full((1, 4), np.nan)), np.zeros((1, 3)), 0)


def test_a_missing_value_is_the_mean_of_a_linear_function():
    part = StandardisedColumns(
        DotProduct(), [0, 2], None, np.array([1.0, 3.0]), np.array([2.0, 4.0])
    )
    rows = np.array([[3.0, 9.0, 11.0], [np.nan, 9.0, -1.0]])
    assert_array_equal(part.transform(rows), [[1.0, 2.0], [0.0, -1.0]])
    assert_array_equal(part(rows), [[6.0, -1.0], [-1.0, 2.0]])
    assert_array_equal(part.pull(rows, np.ones((2, 2))), [[0.5, 0.0, 0.25], [0.0, 0.0, 0.25]])
    assert not kernels.touched(part, 3, but="takes_missing").any()
    assert str(part).startswith("StandardisedColumns(DotProduct")


LINE = 3.0 * FAR[:, 0] - 2.0 * FAR[:, 1]


@pytest.mark.parametrize("steep", [1.0, 300.0])
def test_linear_beside_the_default_kernel_is_that_beside_the_same_one_named(steep):
    """Variances begin with what a line leaves, however steep it is."""
    y = steep * (PLACES @ [3.0, -2.0]) + np.sin(3 * PLACES[:, 0])
    y += 0.1 * np.random.RandomState(0).normal(size=80)
    named = ConstantKernel(1.0, (1e-9, 1e5)) * Matern([1.0, 1.0], nu=2.5)
    named += WhiteKernel(1.0, (1e-9, 1e5))
    found = []
    for kernel in (named, None):
        options = {"tol": 1e-6, "prior": None, "noise": "constant"}
        model = SparseGPRegressor(kernel, mean="linear", random_state=0, **options)
        found.append(model.fit(PLACES, y).predict(FAR, return_std=True))
        assert model.mean_ is None and not np.any(model.predict_parts(FAR)[0])
    assert np.abs(found[1][0] - steep * LINE).max() < 2.5
    assert_allclose(found[1][0] - steep * LINE, found[0][0] - steep * LINE, atol=0.2)
    assert_allclose(found[1][1], found[0][1], rtol=0.2)


@pytest.mark.second(keep=1)
@pytest.mark.parametrize("n", [300, 2500])
def test_linear_goes_on_beyond_a_series_with_a_season(n):
    week = np.arange(n + 52.0)
    y = 0.05 * week + np.sin(week * 2 * np.pi / 52)
    y += 0.2 * np.random.RandomState(0).normal(size=n + 52)
    errors = []
    for kernel in (ConstantKernel() * Matern(nu=2.5) + WhiteKernel(), None):
        model = SparseGPRegressor(kernel, mean="linear", random_state=0)
        model.fit(week[:n, None], y[:n])
        errors.append(np.sqrt(np.mean((model.predict(week[n:, None]) - y[n:]) ** 2)))
    assert errors[1] < 1.2 * errors[0]


@pytest.mark.parametrize("likelihood", ["poisson", "gamma", "student_t", "labels"])
def test_latent_values_go_on_as_a_line(likelihood):
    rng, x = np.random.RandomState(0), np.sort(RNG.uniform(0, 10, 120))
    latent = 0.3 * x + 0.3 * np.sin(3 * x)
    draws = {
        "poisson": rng.poisson(np.exp(latent)),
        "gamma": rng.gamma(5.0, np.exp(latent) / 5.0),
        "student_t": latent + 0.1 * rng.standard_t(4, size=120),
        "labels": latent + rng.normal(size=120) > 1.5,
    }
    far, y = np.array([[5.0], [15.0], [20.0]]), draws[likelihood]
    options = {"mean": "linear", "random_state": 0, "tol": 1e-2}
    if likelihood == "labels":
        probability = SparseGPClassifier(**options).fit(x[:, None], y).predict_proba(far)[:, 1]
        assert probability[1] > 0.9 and probability[2] > 0.9
        return
    model = SparseGPRegressor(likelihood=likelihood, **options).fit(x[:, None], y)
    mean, std = model.predict(far, return_std=True, latent=True)
    slope = (mean[2] - mean[1]) / 5.0
    assert abs(slope - 0.3) < 0.12 and std[2] > std[1] > 1.5 * std[0]


def test_logarithms_of_skewed_columns_leave_the_line_as_it_is():
    rng = np.random.RandomState(0)
    x = rng.lognormal(1.0, 1.0, size=(200, 1))
    y = 2.0 * x[:, 0] + np.sin(3.0 * np.log(x[:, 0])) + 0.1 * rng.normal(size=200)
    model = SparseGPRegressor(mean="linear", noise="constant", random_state=0).fit(x, y)
    (log_scale,) = kernels.parts(model.kernel_, kernels.LogScale)
    assert not kernels.parts(log_scale.kernel, StandardisedColumns)
    mean, std = model.predict([[200.0]], return_std=True)
    assert abs(mean - 400.0) < 2.0 * std < 30.0


def test_noise_that_varies_has_no_line():
    rng, x = np.random.RandomState(0), np.linspace(-3, 3, 300)[:, None]
    y = 5.0 * x[:, 0] + np.exp(0.5 * x[:, 0]) * rng.normal(size=300)
    model = SparseGPRegressor(mean="linear", noise="learned", random_state=0).fit(x, y)
    noise = model.kernel_.k2
    assert not kernels.parts(noise.log_factor.kernel, StandardisedColumns)
    assert len(kernels.parts(model.kernel_.k1, StandardisedColumns)) == 1


# -- residuals -------------------------------------------------------------------------

STEPPED = 4 * (PLACES[:, 0] > 2002) + np.sin(3 * PLACES[:, 1])
STEPPED = STEPPED + 0.1 * np.random.RandomState(1).normal(size=80)
FOREST = RandomForestRegressor(30, random_state=0)


def of_residuals(mean, y, **options):
    """A fit with a mean beside a kernel, and the two steps that it consists of, by hand."""
    options = {"kernel": RBF(), "random_state": 0, "tol": 1e-2} | options
    model = SparseGPRegressor(mean=mean, **options).fit(PLACES, y)
    rows = ArrayDataset(PLACES, np.reshape(y, (80, -1)))
    problems = Problems(model._observations(), rows, [], [])
    latent = mean_functions.cross_fitted(problems)[1]
    return model, latent, SparseGPRegressor(mean=None, **options)


@pytest.mark.parametrize("options", [{}, {"n_inducing": 30}, {"normalize_y": False}], ids=str)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_mean_beside_a_kernel_has_a_process_of_its_residuals(options, n_targets):
    y = STEPPED if n_targets == 1 else np.column_stack([STEPPED, 10.0 - 3.0 * HEIGHT])
    model, latent, process = of_residuals(FOREST, y, **options)
    latent = latent.reshape(y.shape)
    process.fit(PLACES, y - latent)
    means = model.mean_ if n_targets == 2 else [model.mean_]
    of_mean = np.column_stack([one.predict(FAR) for one in means]).reshape(20, *y.shape[1:])
    mean, std = process.predict(FAR, return_std=True)
    found, its = model.predict(FAR, return_std=True)
    agree(found, of_mean + mean, 1e-9)
    agree(its, std, 1e-9)
    for mine, expected in zip(model.predict_parts(FAR), (of_mean, mean)):
        agree(mine, expected, 1e-9)
    agree(model.loo_predict().mean, process.loo_predict().mean + latent, 1e-9)
    agree(model.loo_predict().log_density, process.loo_predict().log_density, 1e-9)
    intervals = (one.predict_interval(FAR, method="conformal") for one in (model, process))
    for mine, its in zip(*intervals):
        agree(mine, its + of_mean, 1e-9)
    agree(model.sample_y(FAR, 3), process.sample_y(FAR, 3) + of_mean[..., None], 1e-9)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(FAR), model.predict(FAR))


def test_questions_about_a_mean_of_residuals():
    model, latent, process = of_residuals(FOREST, STEPPED, posterior="exact")
    process.fit(PLACES, STEPPED - latent[:, 0])
    inside = PLACES[:5] + 0.01
    mean, slope = model.predict(inside, return_gradient=True)
    agree(slope, row_differences(model.predict, inside), 1e-4)
    few = model.sample_functions(3)
    agree(few(FAR), process.sample_functions(3)(FAR) + model.mean_.predict(FAR)[:, None], 1e-9)
    agree(model.y_train_, process.y_train_, 1e-12)
    y = model.mean_.predict(FAR) + 0.1
    expected = process.evidence_bounds(FAR, np.full(20, 0.1))
    agree(model.evidence_bounds(FAR, y), expected, 1e-9)
    density = process.log_predictive_density(FAR, np.full(20, 0.1))
    agree(model.log_predictive_density(FAR, y), density, 1e-9)
    assert np.isfinite(model.feature_importances_).all()


@pytest.mark.parametrize("likelihood", ["poisson", "student_t"])
def test_a_likelihood_has_the_mean_as_offsets(likelihood):
    y = np.random.RandomState(1).poisson(np.exp(0.4 * STEPPED)) + 0.0
    model, latent, process = of_residuals(FOREST, y, likelihood=likelihood)
    process.fit(PLACES, y, offset=latent[:, 0])
    of_mean = model.mean_.predict(FAR)
    of_mean = np.log(of_mean) if likelihood == "poisson" else of_mean
    mean, std = process.predict(FAR, return_std=True, offset=of_mean)
    found, its = model.predict(FAR, return_std=True)
    agree(found, mean, 1e-9)
    agree(its, std, 1e-9)
    agree(model.predict_parts(FAR)[0], of_mean, 1e-9)
    agree(sum(model.predict_parts(FAR)), model.predict(FAR, latent=True), 1e-12)
    for mine, its in zip(model.loo_predict(), process.loo_predict()):
        agree(mine, its, 1e-9)


def test_a_target_that_a_mean_explains_exactly_is_refused():
    both = np.column_stack([STEPPED, np.full(80, 3.0)])
    with pytest.raises(ValueError, match="one of several targets exactly.* set mean to None"):
        SparseGPRegressor(RBF(), mean=Ridge(), random_state=0).fit(PLACES, both)


# -- weighted means --------------------------------------------------------------------


def weight_and_factor(model, alone, queries):
    """Weights (n, p) of the mean and factors (n,) of std, by their formulas."""
    weights, scaler = model._fitted.blend.weights, alone._fitted.scaler
    std = alone.predict(queries, return_std=True)[1].reshape(len(queries), -1)[:, :1]
    odds = weights.intercept + weights.slope * np.log((std / scaler.scale[0]) ** 2 / weights.error)
    weight = 1.0 / (1.0 + np.exp(-odds))
    c, d = weights.log_factor
    return weight, np.exp(0.5 * (c + d * weight.mean(axis=1)))


def test_predictions_follow_from_the_parts(stepped, alone):
    weight, spread = weight_and_factor(stepped, alone, QUERIES)
    weight = weight[:, 0]
    assert 0.2 < weight.mean() <= 1.0 and spread.mean() < 1.0
    mean, std = alone.predict(QUERIES, return_std=True)
    latent = alone.predict(QUERIES, return_std=True, latent=True)[1]
    expected = (1 - weight) * mean + weight * stepped.mean_.predict(QUERIES)
    found, its = stepped.predict(QUERIES, return_std=True)
    agree(found, expected, 1e-9)
    agree(stepped.predict(QUERIES), expected, 1e-9)
    agree(its, spread * std, 1e-9)
    agree(stepped.predict(QUERIES, return_std=True, latent=True)[1], spread * latent, 1e-9)
    agree(stepped.noise_std(QUERIES), spread * alone.noise_std(QUERIES), 1e-9)
    of_mean, of_process = stepped.predict_parts(QUERIES)
    agree(of_mean, weight * stepped.mean_.predict(QUERIES), 1e-9)
    agree(of_mean + of_process, expected, 1e-9)
    both = np.outer(spread, spread)
    own = alone.predict(QUERIES, return_cov=True, latent=True)[1]
    agree(stepped.predict(QUERIES, return_cov=True, latent=True)[1], both * own, 1e-9)
    cov = stepped.predict(QUERIES, return_cov=True)[1]
    agree(np.diag(cov), its**2, 1e-9)
    levels = [0.05, 0.5, 0.9]
    quantiles = expected[:, None] + (spread * std)[:, None] * norm.ppf(levels)
    agree(stepped.predict_quantiles(QUERIES, levels), quantiles, 1e-8)
    y = expected + 0.1
    density = norm(expected, spread * std).logpdf(y)
    agree(stepped.log_predictive_density(QUERIES, y), density, 1e-8)


def test_steep_means_have_no_gradients():
    model = SparseGPRegressor(mean=Ridge(), random_state=0).fit(X[:60], SMOOTH[:60])
    with pytest.raises(ValueError, match="Set mean to None"):
        model.predict(QUERIES, return_gradient=True)
    functions = model.sample_functions(2)
    assert functions(QUERIES).shape == (12, 2)
    with pytest.raises(ValueError, match="Set mean to None"):
        functions.gradient(QUERIES)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("mean, y, atol", [(TREES, Y, 0.05), ("linear", SMOOTH, 0.02)], ids=str)
def test_uncertain_queries_are_averaged_over(mean, y, atol):
    model = SparseGPRegressor(mean=mean, n_inducing=40, random_state=0).fit(X, y)
    draws = QUERIES + 0.05 * np.random.RandomState(0).normal(size=(2000, *QUERIES.shape))
    expected = model.predict(draws.reshape(-1, 3)).reshape(2000, 12).mean(axis=0)
    assert_allclose(model.predict(QUERIES, X_std=STD[:12]), expected, atol=atol)
    still = model.predict(QUERIES, return_std=True, X_std=np.zeros(QUERIES.shape))
    for found, known in zip(still, model.predict(QUERIES, return_std=True)):
        agree(found, known, 1e-6)


@pytest.mark.second(share=0.1)
def test_several_targets_have_weights_of_their_own():
    both = np.column_stack([Y, 10.0 + 3.0 * SMOOTH])
    model = SparseGPRegressor(mean=TREES, random_state=0).fit(X, both)
    assert [type(one) for one in model.mean_] == [HistGradientBoostingRegressor] * 2
    alone = SparseGPRegressor(mean=None, random_state=0).fit(X, both)
    weight, spread = weight_and_factor(model, alone, QUERIES)
    assert weight.shape == (12, 2) and np.all(weight[:, 0] > weight[:, 1])
    trees = np.column_stack([one.predict(QUERIES) for one in model.mean_])
    agree(model.predict(QUERIES), (1 - weight) * alone.predict(QUERIES) + weight * trees, 1e-8)
    std = alone.predict(QUERIES, return_std=True)[1]
    agree(model.predict(QUERIES, return_std=True)[1], spread[:, None] * std, 1e-8)
    assert model.loo_predict().mean.shape == (N, 2)
    assert model.sample_functions(3)(QUERIES).shape == (12, 2, 3)
    assert model.predict_quantiles(QUERIES).shape == (12, 2, 3)


def test_counts_have_a_weighted_mean_of_latent_values():
    counts = np.random.RandomState(1).poisson(np.exp(1.0 + STEPS))
    options = {"likelihood": "poisson", "random_state": 0}
    model = SparseGPRegressor(mean="boosting", **options).fit(X[:200], counts[:200])
    alone = SparseGPRegressor(mean=None, **options).fit(X[:200], counts[:200])
    own, std = alone.predict(QUERIES, return_std=True, latent=True)
    weight = model._fitted.blend.weights.of((std / alone._fitted.scaler.scale[0]) ** 2)[:, 0]
    assert model.mean_.loss == "poisson" and model._fitted.blend.weights.log_factor == (0.0, 0.0)
    expected = (1 - weight) * own + weight * np.log(model.mean_.predict(QUERIES))
    found, its = model.predict(QUERIES, return_std=True, latent=True)
    agree(found, expected, 1e-6)
    agree(its, std, 1e-6)
    left, own = (one.loo_predict().log_density.mean() for one in (model, alone))
    assert left >= own - 1e-3
    assert model.score(X[200:], counts[200:]) > 0.3
    assert np.all(model.predict_quantiles(QUERIES) % 1 == 0)


# -- what "auto" chooses ---------------------------------------------------------------


def test_auto_is_boosting_for_steps_and_none_for_smooth_functions(stepped):
    assert type(stepped.mean_) is HistGradientBoostingRegressor
    assert SparseGPRegressor(random_state=0).fit(X, SMOOTH).mean_ is None


@pytest.mark.second(share=0.1)
def test_a_mean_of_labels_that_does_not_pay_is_fitted_once(monkeypatch):
    fits, fitted = [], mean_functions._fitted
    monkeypatch.setattr(mean_functions, "_fitted", lambda *args: fits.append(1) or fitted(*args))
    model = SparseGPClassifier(random_state=0, tol=1e-2)
    noise = np.random.RandomState(3).uniform(size=N) > 0.5
    assert model.fit(X, noise).mean_ is None
    assert len(fits) == 1
    assert model.fit(X, LABELS).mean_ is not None
    assert len(fits) == 1 + 6  # five without a fifth of the rows, and one to all of them


def test_the_first_fit_tells_of_the_rows_that_it_leaves_out(monkeypatch):
    told, cross_fitted = [], mean_functions.cross_fitted

    def spied(problems, may_pay=None):
        def pays(*args):
            told.append((problems.rows, *args))
            return True

        function, latent = cross_fitted(problems, pays)
        told[-1] += (latent,)
        return function, latent

    monkeypatch.setattr(mean_functions, "cross_fitted", spied)
    weight = np.ones(N)
    weight[:9] = 0.0
    model = SparseGPRegressor(mean=TREES, random_state=0)
    for given in ((X, Y), (np.vstack([X, X[::2]]), np.append(Y, Y[::2])), (X, Y, weight)):
        model.fit(*given)
    for rows, chosen, first, latent in told:
        assert_array_equal(first, latent[chosen])
        assert np.all(rows.row_weights()[chosen] > 0.0)
        assert 0.25 < len(chosen) / np.count_nonzero(rows.row_weights()) < 0.4


@pytest.mark.parametrize("known, as_frame", [(0, False), (1, True), (3, False)])
@pytest.mark.parametrize("estimator", [SparseGPRegressor, SparseGPClassifier])
def test_columns_with_few_values_change_nothing(known, as_frame, estimator):
    rng = np.random.RandomState(3)
    rows = rng.normal(size=(240, 3))
    rows[:, 2] = np.nan
    rows[:known, 2] = 1.0 + np.arange(known)
    y = rows[:, 0] + 0.1 * rng.normal(size=240)
    y = y if estimator is SparseGPRegressor else y > 0
    given = pd.DataFrame(rows, columns=["a", "b", "c"]) if as_frame else rows
    model = estimator(random_state=0, max_iter=20, tol=1e-2).fit(given, y)
    assert model.score(given, y) > 0.95


@pytest.mark.parametrize("error", [ValueError("no bins"), RuntimeError("no trees")])
def test_auto_goes_on_without_a_mean_that_cannot_be_fitted(monkeypatch, capsys, error):
    monkeypatch.setattr(mean_functions, "_fitted", raising(error))
    for model, target in ((SparseGPRegressor(tol=1e-2), Y), (SparseGPClassifier(tol=1e-2), LABELS)):
        model.set_params(random_state=0, verbose=1)
        assert model.fit(X, target).mean_ is None
        assert (
            f"no mean, as boosting cannot be fitted ({type(error).__name__}"
            in capsys.readouterr().out
        )
        with pytest.raises(type(error), match=str(error)):
            model.set_params(mean="boosting").fit(X, target)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupts_of_a_mean_go_through(monkeypatch, error):
    monkeypatch.setattr(mean_functions, "_fitted", raising(error))
    with pytest.raises(error):
        SparseGPRegressor(random_state=0, tol=1e-2).fit(X, Y)


def test_a_mean_that_is_not_finite_is_refused():
    class Wild(Ridge):
        def predict(self, X):
            return np.full(len(X), np.inf)

    with pytest.raises(ValueError, match="not finite. Pass another mean"):
        SparseGPRegressor(mean=Wild(), random_state=0).fit(X[:60], Y[:60])


@pytest.mark.second
def test_auto_refuses_boosting_that_diverges(monkeypatch):
    steps = {"learning_rate": 30.0, "max_iter": 50}
    monkeypatch.setattr(mean_functions, "_OF_SEVERAL_CLASSES", steps)
    model = SparseGPClassifier(random_state=0, tol=1e-2).fit(X, LABELS)
    assert model.mean_ is None
    model.set_params(mean="boosting").fit(X, LABELS)  # what was refused is worse than all alike
    probabilities = model.mean_.predict_proba(QUERIES)
    assert np.mean(np.log(np.maximum(probabilities.max(axis=1), 1e-6))) > np.log(0.99)


def test_boosting_of_a_rare_class_does_not_diverge():
    levels = np.random.RandomState(0).randint(0, 4, (3400, 6)).astype(float)
    rules = np.where(levels[:, 1] + levels[:, 2] >= 4, 1, 2)
    labels = np.where(levels[:, 0] == 0, 0, rules)
    labels[np.flatnonzero(labels == 2)[:2]] = 3
    rows = ArrayDataset(levels[:3000], labels[:3000, None], classes=np.arange(4))
    template = mean_functions.boosting(rows, SparseGPClassifier(), [*range(6)], 0)
    model = template.set_params(early_stopping=False).fit(rows.X, labels[:3000])
    probabilities = model.predict_proba(levels[3000:])[np.arange(400), labels[3000:]]
    assert np.mean(np.log(np.maximum(probabilities, 1e-6))) > -0.1


@pytest.mark.second(share=0.1)
def test_auto_is_none_where_a_mean_was_not_asked_for():
    few = SparseGPRegressor(random_state=0).fit(X[:150], Y[:150])
    assert few.mean_ is None and few._fitted.blend is None
    fixed = {"max_iter": 5, "random_state": 0}
    assert SparseGPRegressor(RBF(), **fixed).fit(X, Y).mean_ is None
    assert SparseGPRegressor(optimizer=None).fit(X, Y).mean_ is None
    assert SparseGPRegressor(**fixed).fit(Arrays(X, Y)).mean_ is None
    uncertain = SparseGPRegressor(n_inducing=10, **fixed).fit(X, Y, X_std=STD)
    assert uncertain.mean_ is None
    counts = SparseGPRegressor(likelihood="poisson", **fixed).fit(X, LABELS == "u", offset=0.1)
    assert counts.mean_ is None
    assert SparseGPRegressor(mean=None, **fixed).fit(X, Y).mean_ is None


def test_auto_answers_all_questions(stepped):
    assert stepped.feature_importances_.shape == (3,)
    assert np.all(stepped.feature_importances_ > 0.01)
    assert stepped.loo_predict().mean.shape == (N,)
    assert stepped.score(X, Y) > 0.9
    lower, upper = stepped.predict_interval(QUERIES, method="conformal")
    assert np.all(lower < upper)
    again = pickle.loads(pickle.dumps(stepped))
    for answer in ("predict", "sample_y", "predict_quantiles"):
        assert_array_equal(getattr(again, answer)(QUERIES), getattr(stepped, answer)(QUERIES))
    assert_array_equal(again.predict(QUERIES, True)[1], stepped.predict(QUERIES, True)[1])
    assert_array_equal(again.loo_predict().mean, stepped.loo_predict().mean)
    assert clone(stepped).mean == "auto"
    assert not hasattr(clone(stepped), "mean_")


@pytest.mark.second(share=0.1)
def test_conformal_intervals_cover():
    inside = []
    for seed in range(4):
        rng = np.random.RandomState(seed)
        X = rng.uniform(size=(1160, 2))
        y = 2.0 * (X[:, 0] > 0.5) - (X[:, 1] > 0.4) + 0.2 * rng.standard_t(4, size=1160)
        model = SparseGPRegressor(mean=FOREST, random_state=0, noise="constant", tol=1e-2)
        lower, upper = model.fit(X[:160], y[:160]).predict_interval(X[160:], method="conformal")
        inside.append(np.mean((lower <= y[160:]) & (y[160:] <= upper)))
    assert 0.86 < np.mean(inside) < 0.95


@pytest.mark.second(share=0.1)
def test_rows_that_arrive_later_end_the_mean():
    options = {"noise": "constant", "random_state": 0, "max_iter": 20}
    model = SparseGPRegressor(**options).fit(X, Y)
    assert model.mean_ is not None
    model.partial_fit(QUERIES, np.zeros(12))
    assert model.mean_ is None
    alone = SparseGPRegressor(mean=None, **options).fit(X, Y)
    alone.partial_fit(QUERIES, np.zeros(12))
    agree(model.predict(X), alone.predict(X), 1e-8)
    agree(model.predict(X, True)[1], alone.predict(X, True)[1], 1e-8)


@pytest.mark.second
@pytest.mark.parametrize(
    "named",
    [
        {"bound": "titsias"},
        {"n_inducing": 20},
        {"inducing_init": "random"},
        {"inducing_init": X[:20]},
        {"posterior": "exact"},
    ],
    ids=lambda named: "-".join(f"{k} {type(v).__name__}" for k, v in named.items()),
)
def test_an_approximation_that_is_named_is_fitted_alone(named):
    given = {"random_state": 0, "max_iter": 3} | named
    model = SparseGPRegressor(**given).fit(X, Y)
    plain = SparseGPRegressor(mean=None, noise="constant", **given).fit(X, Y)
    chosen = SparseGPRegressor(mean=TREES, noise="learned", **given).fit(X, Y)
    labels = SparseGPClassifier(**given).fit(X, Y > 0.3)
    bare = SparseGPClassifier(mean=None, calibration=None, **given).fit(X, Y > 0.3)
    with_mean = SparseGPClassifier(mean=LogisticRegression(), **given).fit(X, Y > 0.3)
    assert model.mean_ is None and np.ptp(model.noise_std(QUERIES)) == 0
    assert_array_equal(model.predict(QUERIES), plain.predict(QUERIES))
    assert chosen.mean_ is not None and "HeteroscedasticNoise" in str(chosen.kernel_)
    assert labels.mean_ is None and labels.calibration_ is None
    assert_array_equal(labels.predict_proba(QUERIES), bare.predict_proba(QUERIES))
    assert with_mean.mean_ is not None


def test_a_second_fit_forgets_the_mean():
    model = SparseGPRegressor(mean="boosting", random_state=0).fit(X[:60], Y[:60])
    model.set_params(mean=None).fit(X[:60], Y[:60])
    assert model.mean_ is None and model._fitted.blend is None
    fresh = SparseGPRegressor(mean=None, random_state=0).fit(X[:60], Y[:60])
    assert_array_equal(model.predict(QUERIES), fresh.predict(QUERIES))


@pytest.mark.second(share=0.1)
def test_a_grid_search_chooses_a_mean_and_its_parameters():
    options = {"random_state": 0, "tol": 1e-2, "noise": "constant"}
    search = GridSearchCV(SparseGPRegressor(**options), {"mean": [None, "boosting"]}, cv=2)
    assert search.fit(X[:160], Y[:160]).best_params_["mean"] == "boosting"
    nested = SparseGPRegressor(mean=clone(TREES), **options)
    search = GridSearchCV(nested, {"mean__max_iter": [1, 30]}, cv=2).fit(X[:160], Y[:160])
    assert search.best_params_ == {"mean__max_iter": 30}
    assert search.best_estimator_.mean_.max_iter == 30


class Watched(HistGradientBoostingRegressor):
    """Boosting that notes how many threads of OpenMP it has."""

    seen: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        self.seen.append([pool["num_threads"] for pool in threadpool_info()])
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        self.seen.append([pool["num_threads"] for pool in threadpool_info()])
        return super().predict(X)


def test_boosting_of_few_rows_has_one_thread():
    with threadpool_limits(2, user_api="openmp"):
        model = SparseGPRegressor(mean=Watched(max_iter=5), random_state=0).fit(X[:60], Y[:60])
        model.predict(QUERIES)
        assert max(pool["num_threads"] for pool in threadpool_info()) == 2
    assert np.all(np.array(Watched.seen) == 1) and len(Watched.seen) > 6


def test_the_estimator_that_is_passed_stays_as_it_is():
    mean = clone(TREES)
    model = SparseGPRegressor(mean=mean, random_state=0).fit(X[:60], Y[:60])
    assert not hasattr(mean, "n_features_in_") and model.mean is mean and model.mean_ is not mean


# -- labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("multi_class", ["one_vs_rest", "softmax"])
@pytest.mark.parametrize("mean", [None, "boosting"])
@pytest.mark.parametrize("y", [LABELS, LABELS == "u"], ids=["three classes", "two classes"])
def test_labels_are_the_most_probable_ones(y, mean, multi_class):
    model = SparseGPClassifier(mean=mean, multi_class=multi_class, random_state=0, tol=1e-2)
    model.fit(X[:120], y[:120])
    probabilities = model.predict_proba(QUERIES)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.all((probabilities >= 0) & (probabilities <= 1))
    assert_array_equal(model.predict(QUERIES), model.classes_[probabilities.argmax(axis=1)])
    assert_allclose(model.loo_predict_proba().sum(axis=1), 1.0)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(QUERIES), probabilities)
    assert (model.mean_ is not None) == (mean is not None)


@pytest.mark.second(share=0.1)
def test_a_mean_of_labels_pays_for_rules():
    model = SparseGPClassifier(random_state=0, tol=1e-2).fit(X, LABELS)
    plain = SparseGPClassifier(mean=None, calibration=None, random_state=0, tol=1e-2)
    plain.fit(X, LABELS)
    rng = np.random.RandomState(1)
    new = rng.uniform(size=(400, 3))
    steps = 1.0 * (new[:, 0] > 0.5) + (new[:, 1] > 0.3) * (new[:, 0] < 0.7) - (new[:, 2] > 0.6)
    truth = np.digitize(steps + 0.1 * rng.normal(size=400), [0.3, 1.2])
    mine, its = (np.log(one.predict_proba(new))[np.arange(400), truth] for one in (model, plain))
    assert mine.mean() > its.mean() + 0.01
    assert model.mean_ is not None and model.calibration_ is not None
    assert plain.mean_ is None and plain.calibration_ is None


def test_pairs_of_classes_are_not_calibrated():
    model = SparseGPClassifier(multi_class="one_vs_one", random_state=0, tol=1e-2).fit(X, LABELS)
    assert model.calibration_ is None and model.mean_ is None
    assert_allclose(model.predict_proba(QUERIES).sum(axis=1), 1.0)


@pytest.mark.parametrize("mean", [None, "boosting", LogisticRegression(), "linear"], ids=str)
def test_parts_of_three_classes_are_logits(mean):
    model = SparseGPClassifier(mean=mean, random_state=0, tol=1e-2)
    model.fit(X[:120], LABELS[:120])
    of_mean, of_process = model.predict_parts(QUERIES)
    both = softmax(of_mean + of_process, axis=1)
    assert_allclose(both, model.predict_proba(QUERIES), atol=1e-12)
    assert of_mean.shape == (12, 3)
    if mean in (None, "linear"):
        assert not np.any(of_mean)
    else:
        assert np.any(of_mean) == (model.calibration_.weight > 0)
    if mean == "boosting":
        assert np.any(of_mean)
        logs = np.log(np.maximum(model.mean_.predict_proba(QUERIES), 1e-6))
        weight = model.calibration_.weight
        assert_allclose(of_mean, weight * (logs - logs.mean(axis=1, keepdims=True)), atol=1e-9)


@pytest.mark.parametrize(
    "options, y",
    [({"multi_class": "one_vs_one"}, LABELS), ({"likelihood": "ordinal"}, Y > 0.3)],
    ids=["pairs", "ordinal"],
)
def test_pairs_and_ordered_classes_have_a_linear_mean(options, y):
    model = SparseGPClassifier(RBF(), mean="linear", tol=1e-2, **options).fit(X[:60], y[:60])
    of_mean, of_process = model.predict_parts(QUERIES)
    probabilities = model.predict_proba(QUERIES)
    assert_allclose(softmax(of_mean + of_process, axis=1), probabilities, atol=1e-12)


def test_a_linear_mean_has_no_fourier_features():
    with pytest.raises(ValueError, match="a linear mean .* set mean to None"):
        SparseGPRegressor(RBF(), mean="linear", posterior="fourier").fit(X[:60], Y[:60])


@pytest.mark.second(share=0.1)
def test_later_labels_end_mean_and_calibration():
    options, labels = {"random_state": 0, "tol": 1e-2}, np.where(LABELS == "u", "u", "v")
    model = SparseGPClassifier(**options).fit(X, labels)
    assert model.calibration_ is not None
    plain = SparseGPClassifier(mean=None, calibration=None, **options).fit(X, labels)
    for one in (model, plain):
        one.partial_fit(QUERIES, np.repeat("u", 12))
    assert model.mean_ is None and model.calibration_ is None
    agree(model.predict_proba(X), plain.predict_proba(X), 1e-8)


# -- refusals --------------------------------------------------------------------------

OFFSET = {"likelihood": "poisson"}


@pytest.mark.parametrize(
    "model, call, words",
    [
        (SparseGPRegressor(mean=Ridge), "plain", "'mean' parameter .* a regressor object"),
        (SparseGPRegressor(mean="trees"), "plain", "'mean' parameter .* one of .*'boosting'"),
        (SparseGPRegressor(mean=3), "plain", "'mean' parameter .* Got 3"),
        (SparseGPRegressor(mean=LogisticRegression()), "plain", "a regressor object"),
        (SparseGPClassifier(mean=Ridge()), "labels", "a classifier object with predict_proba"),
        (SparseGPClassifier(calibration="yes"), "labels", "'calibration' parameter"),
        (SparseGPRegressor(mean="boosting"), "few", "at least 10 different rows.* Set mean to"),
        (
            SparseGPRegressor(mean=KNeighborsRegressor()),
            "weights",
            "has sample_weight, or set mean",
        ),
        (SparseGPRegressor(mean="boosting"), "errors", "without X_std. Change this, or set mean"),
        (SparseGPRegressor(mean="linear"), "errors", "without X_std. Change this, or set mean"),
        (SparseGPRegressor(mean="linear"), "source", "an array or a data frame.* set mean to None"),
        (SparseGPRegressor(mean="linear"), "later", "partial_fit has no mean='linear'.* set mean"),
        (SparseGPClassifier(mean="boosting"), "labels later", "partial_fit .* set mean to None"),
        (SparseGPRegressor(mean="linear", **OFFSET), "offset", "no offset. Change this, or set"),
        (
            SparseGPClassifier(RBF(), mean=LogisticRegression()),
            "labels",
            "needs kernel=None .beside a kernel of yours, it is for numbers.* set mean to None",
        ),
        (
            SparseGPClassifier(mean="boosting", multi_class="one_vs_one"),
            "labels",
            "needs problems that have all rows.* Set mean to None",
        ),
    ],
)
def test_what_a_mean_cannot_do_says_what_to_do(model, call, words):
    few, y = X[:60], Y[:60]
    calls = {
        "plain": lambda: model.fit(few, y),
        "labels": lambda: model.fit(few, LABELS[:60]),
        "few": lambda: model.fit(X[:9], Y[:9]),
        "weights": lambda: model.fit(few, y, np.arange(60) % 2 + 1),
        "errors": lambda: model.fit(few, y, X_std=STD[:60]),
        "source": lambda: model.fit(Arrays(few, y)),
        "later": lambda: model.partial_fit(few, y),
        "labels later": lambda: model.partial_fit(few, LABELS[:60]),
        "offset": lambda: model.fit(few, (y > 0) * 1.0, offset=0.1),
    }
    with pytest.raises(ValueError, match=words) as error:
        calls[call]()
    assert type(model).__name__ in str(error.value)


def test_repeated_rows_are_weights_of_a_mean():
    model = SparseGPRegressor(mean=KNeighborsRegressor(), random_state=0)
    assert model.fit(X[:40], Y[:40]).mean_ is not None
    with pytest.raises(ValueError, match="or are repeated.* set mean to None"):
        model.fit(X[:40][np.r_[:40, 0]], Y[:40][np.r_[:40, 0]])


# -- columns of all kinds --------------------------------------------------------------


@pytest.mark.parametrize("mean", ["linear", TREES], ids=str)
def test_a_mean_beside_times_and_places_on_a_sphere(mean):
    n = 60
    frame = pd.DataFrame({"east": 90 * X[:n, 0], "north": 60 * X[:n, 1]})
    y = 0.1 * frame["north"] + 0.1 * np.random.RandomState(1).normal(size=n)
    places = Columns(Sphere(Matern()), ["east", "north"])
    model = SparseGPRegressor(places, mean=mean, random_state=0).fit(frame, y)
    assert np.corrcoef(model.predict(frame), y)[0, 1] > 0.9
    with pytest.raises(ValueError, match="Column 'north' of X .* is the latitude"):
        model.predict(frame + 100.0)
    frame["day"] = pd.date_range("2020-01-01", periods=n)
    model = SparseGPRegressor(RBF(), mean=mean, random_state=0).fit(frame, y)
    assert model.predict(frame).shape == (n,)
    by_number = SparseGPRegressor(Sphere(Matern()), mean=mean, random_state=0)
    by_number.fit(frame[["east", "north"]].to_numpy(), y)
    assert by_number.predict(frame[["east", "north"]].to_numpy()).shape == (n,)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("mean", ["auto", "boosting", LogisticRegression()], ids=str)
def test_a_class_may_have_one_row(mean):
    rare = np.where(np.arange(N) == 5, "rare", "usual")
    model = SparseGPClassifier(mean=mean, random_state=0, tol=1e-2).fit(X, rare)
    probabilities = model.predict_proba(QUERIES)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.all(probabilities[:, 1] > 0.8)


def test_boosting_takes_counts_that_are_nearly_all_zero():
    X, counts = np.linspace(0, 1, 220)[:, None], np.zeros(220)
    counts[100] = 1
    model = SparseGPRegressor(likelihood="poisson", mean="boosting", random_state=0)
    assert np.isfinite(model.fit(X, counts).predict(X[:5])).all()


def test_many_rows_of_few_different_ones_have_no_mean():
    X = np.random.RandomState(0).randint(3, size=(400, 2)).astype(float)
    model = SparseGPRegressor(random_state=0).fit(X, X[:, 0])
    assert model.mean_ is None and model.predict(X[:3]) == pytest.approx(X[:3, 0], abs=0.1)


@pytest.mark.second(share=0.1)
def test_boosting_takes_a_class_whose_rows_are_equal():
    many = RNG.uniform(size=(10_600, 2))
    y = (many[:, 0] > 0.5).astype(int)
    many[:12], y[:12] = 0.33, 2  # one row with a weight
    few = {"posterior": "inducing", "solver": "lbfgs", "n_inducing": 5, "max_iter": 1}
    SparseGPClassifier(mean="boosting", **few).fit(many, y)


@pytest.mark.parametrize("make", [SparseGPRegressor, SparseGPClassifier])
def test_a_linear_mean_needs_numbers(make):
    frame = pd.DataFrame({"a": pd.Categorical(LABELS[:60]), "b": pd.Categorical(LABELS[60:120])})
    with pytest.raises(ValueError, match=f"{make.__name__}: mean='linear' .* Set mean to None"):
        make(mean="linear").fit(frame, Y[:60] > 0.3)


def test_a_constant_target_has_no_part_of_the_mean():
    targets = np.column_stack([Y, np.full(N, 3.0), 2 * Y])
    model = SparseGPRegressor(mean="boosting", random_state=0, max_iter=5, n_restarts_optimizer=0)
    of_mean, of_process = model.fit(X, targets).predict_parts(QUERIES)
    assert_allclose(of_mean + of_process, model.predict(QUERIES))
    assert not np.any(of_mean[:, 1]) and np.all(np.any(of_mean[:, ::2], axis=0))


@pytest.mark.parametrize("mean", ["boosting", "other"])
@pytest.mark.parametrize("make", [SparseGPRegressor, SparseGPClassifier])
def test_values_that_only_queries_lack_are_averaged_over(make, mean):
    is_labels = make is SparseGPClassifier
    other = LogisticRegression() if is_labels else Ridge()
    model = make(mean=mean if mean == "boosting" else other, random_state=0, tol=1e-2)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model.fit(frame, LABELS if is_labels else Y)
    queries = pd.DataFrame(QUERIES, columns=["a", "b", "c"])
    queries.loc[0, "b"] = np.nan
    of_mean, of_process = model.predict_parts(queries)
    if is_labels:
        both = softmax(of_mean + of_process, axis=1)
        assert_allclose(both, model.predict_proba(queries), atol=1e-12)
    else:
        assert_allclose(of_mean + of_process, model.predict(queries))
        few = np.repeat(QUERIES[:1], 32, axis=0)
        few[:, 1] = np.sort(X[:, 1])[((np.arange(32) + 0.5) / 32 * N).astype(int)]
        every = model.predict_parts(pd.DataFrame(few, columns=["a", "b", "c"]))[0]
        assert_allclose(of_mean[0], every.mean(), rtol=0.02)


def test_a_classifier_that_was_chosen_stays_where_it_has_no_weight():
    model = SparseGPClassifier(mean=DummyClassifier(), random_state=0, tol=1e-2).fit(X, LABELS)
    assert isinstance(model.mean_, DummyClassifier)


@pytest.mark.second
def test_left_out_rows_keep_the_mean_where_noise_is_learned():
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 10, (150, 1))
    y = 50 + 5 * X[:, 0] + np.sin(3 * X[:, 0]) + 0.04 * rng.normal(size=150) * (1 + X[:, 0])
    model = SparseGPRegressor(RBF(), mean=LinearRegression(), noise="learned", random_state=0)
    assert np.abs(model.fit(X, y).loo_predict().mean - y).mean() < 0.5

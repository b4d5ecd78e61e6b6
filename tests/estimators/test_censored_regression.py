"""`SparseGPRegressor` with censored targets and intervals: predictions, doors and refusals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from skgp_sparse import SparseGPRegressor
from skgp_sparse.displays import CoverageDisplay
from skgp_sparse.likelihoods import Censored
from skgp_sparse.metrics import log_predictive_density_scorer

LIMIT = 4.0
QUERIES = np.linspace(0, 6, 13)[:, None]
KERNEL = ConstantKernel(1.0) * RBF(1.0)


def truth(X):
    return 2.0 * np.sin(1.5 * X[:, 0]) + 5.0


def table(n=120, seed=0):
    """Inputs and numbers, a quarter of which is below the limit."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, 6, (n, 1))
    return X, truth(X) + 0.3 * rng.normal(size=n)


def intervals(z):
    """What is known of the numbers: some exactly, some up to an interval or a limit."""
    width = np.where(np.arange(len(z)) % 3 == 0, 0.8, 0.0)
    ends = np.column_stack([z - 0.3 * width, z + 0.7 * width])
    ends[z < LIMIT] = -np.inf, LIMIT
    ends[1] = -np.inf, np.inf
    return ends


def regressor(likelihood="censored", **options):
    return SparseGPRegressor(
        likelihood=likelihood, **{"n_inducing": 15, "random_state": 0} | options
    )


@pytest.fixture(scope="module")
def limited():
    X, z = table()
    return regressor(Censored(lower=LIMIT)).fit(X, np.maximum(z, LIMIT))


@pytest.fixture(scope="module")
def of_intervals():
    X, z = table()
    return regressor().fit(X, intervals(z))


# -- what is learned -------------------------------------------------------------------


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("posterior", ["auto", "exact", "inducing", "neighbors", "fourier"])
@pytest.mark.parametrize("form", ["limits", "intervals"])
def test_every_posterior_finds_what_is_behind_the_limit(posterior, form):
    X, z = table(250)
    y = np.maximum(z, LIMIT) if form == "limits" else intervals(z)
    likelihood = Censored(lower=LIMIT) if form == "limits" else "censored"
    model = SparseGPRegressor(likelihood=likelihood, posterior=posterior, random_state=0).fit(X, y)
    assert np.abs(model.predict(QUERIES, latent=True) - truth(QUERIES)).max() < 0.45
    assert 0.25 < model.likelihood_.scale < 0.36
    naive = SparseGPRegressor(random_state=0).fit(X, np.maximum(z, LIMIT)).predict(QUERIES)
    assert np.abs(naive - truth(QUERIES)).max() > 0.8


@pytest.mark.second(share=0.5)
def test_intervals_of_the_latent_function_have_their_coverage():
    """Functions are drawn from the prior, and 30 % of the numbers are censored."""
    rng, X = np.random.RandomState(0), np.linspace(0, 6, 90)[:, None]
    root = np.linalg.cholesky(KERNEL(X) + 1e-9 * np.eye(90))
    own = Censored(scale=0.3, level=0.0)
    options = {"optimizer": None, "normalize_y": False, "n_inducing": 60}
    inside = []
    for _ in range(40):
        f = root @ rng.normal(size=90)
        z = f + 0.3 * rng.normal(size=90)
        limit = np.quantile(z, 0.3)
        y = np.column_stack([np.where(z < limit, -np.inf, z), np.maximum(z, limit)])
        model = SparseGPRegressor(KERNEL, likelihood=own, **options).fit(X[::2], y[::2])
        mean, std = model.predict(X, return_std=True, latent=True)
        inside.append(np.mean(np.abs(f - mean) < stats.norm.ppf(0.95) * std))
    error = np.std(inside) / np.sqrt(len(inside))
    assert abs(np.mean(inside) - 0.9) < 3 * error < 0.06


def test_intervals_and_known_limits_agree_where_both_say_the_same(limited):
    X, z = table()
    y = np.column_stack([np.where(z < LIMIT, -np.inf, z), np.maximum(z, LIMIT)])
    free = regressor().fit(X, y)
    mean, std = limited.predict(QUERIES, latent=True, return_std=True)
    assert np.all(np.abs(mean - free.predict(QUERIES, latent=True)) < 0.2 * std)
    assert_allclose(
        limited.log_predictive_density(X, np.maximum(z, LIMIT)),
        free.log_predictive_density(X, y),
        atol=0.05,
    )


def test_units_do_not_matter():
    X, z = table()
    y = intervals(z)
    plain, other = regressor().fit(X, y), regressor().fit(X, 1e3 * y - 1e5)
    assert_allclose((other.predict(QUERIES) + 1e5) / 1e3, plain.predict(QUERIES), rtol=1e-4)
    assert_allclose(other.likelihood_.scale / 1e3, plain.likelihood_.scale, rtol=1e-3)
    exact = y[:, 0] == y[:, 1]
    ours, theirs = (
        other.log_predictive_density(X, 1e3 * y - 1e5),
        plain.log_predictive_density(X, y),
    )
    assert_allclose(ours, theirs - exact * np.log(1e3), atol=1e-3)
    ours, theirs = other.loo_predict().log_density, plain.loo_predict().log_density
    assert_allclose(ours, theirs - exact * np.log(1e3), atol=1e-3)


def test_weights_are_copies_and_offsets_are_added():
    X, z = table()
    y, weight = intervals(z), np.arange(120) % 3
    ours = regressor().fit(X, y, sample_weight=weight)
    theirs = regressor().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0))
    assert_array_equal(ours.predict(QUERIES), theirs.predict(QUERIES))
    options = {"optimizer": None, "kernel": KERNEL, "normalize_y": False}
    shift, own = np.cos(X[:, 0]), Censored(scale=0.3, level=5.0)
    plain = regressor(own, **options).fit(X, y)
    shifted = regressor(own, **options).fit(X, y + shift[:, None], offset=shift)
    assert_allclose(shifted.predict(QUERIES), plain.predict(QUERIES), rtol=1e-6)
    assert_allclose(shifted.predict(QUERIES, offset=2.0), plain.predict(QUERIES) + 2.0, rtol=1e-6)


# -- what is predicted -----------------------------------------------------------------


def test_known_limits_bound_what_is_predicted(limited):
    X, z = table()
    y = np.maximum(z, LIMIT)
    mean, std = limited.predict(QUERIES, return_std=True)
    latent, spread = limited.predict(QUERIES, return_std=True, latent=True)
    draws = limited.sample_y(QUERIES, 4000)
    assert mean.min() >= LIMIT and latent.min() < 3.5 and np.all(mean >= latent - 1e-9)
    assert_allclose(draws.mean(axis=1), mean, atol=0.03)
    assert_allclose(draws.std(axis=1), std, atol=0.03)
    at_limit = stats.norm.cdf((LIMIT - latent) / np.hypot(spread, limited.likelihood_.scale))
    assert_allclose((draws == LIMIT).mean(axis=1), at_limit, atol=0.03)  # to the last bit
    quantiles = limited.predict_quantiles(QUERIES)
    assert quantiles.min() == LIMIT and limited.likelihood_.lower == LIMIT
    assert limited.score(X, y) == r2_score(y, limited.predict(X))
    assert limited.score(X, np.where(z < LIMIT, -99.0, z)) == limited.score(X, y)


@pytest.mark.parametrize("method", ["model", "conformal"])
def test_intervals_of_known_limits_cover_what_is_observed(limited, method):
    X, z = table(2000, seed=5)
    y = np.maximum(z, LIMIT)
    lower, upper = limited.predict_interval(X, coverage=0.8, method=method)
    assert lower.min() >= LIMIT
    above = y > LIMIT + 0.6  # elsewhere, intervals contain the limit and more
    assert 0.7 < np.mean((lower <= y)[above] & (y <= upper)[above]) < 0.9


def test_left_out_rows_are_predicted_as_if_they_were_not_there(of_intervals):
    X, z = table()
    y, loo = intervals(z), of_intervals.loo_predict()
    assert loo.mean.shape == loo.log_density.shape == (120,)
    assert loo.log_density[1] == 0.0  # of a row that says nothing
    exact = y[:, 0] == y[:, 1]
    expected = stats.norm.logpdf(y[exact, 0], loo.mean[exact], loo.std[exact])
    assert_allclose(loo.log_density[exact], expected, rtol=1e-6, atol=1e-9)
    a, b = (((end - loo.mean) / loo.std)[~exact] for end in y.T)
    expected = np.log(stats.norm.cdf(b) - stats.norm.cdf(a))
    assert_allclose(loo.log_density[~exact], expected, rtol=1e-6, atol=1e-9)


def test_densities_of_exact_numbers_are_those_of_the_prediction(of_intervals):
    X, z = table(50, seed=7)
    mean, std = of_intervals.predict(X, return_std=True)
    for y in (z, np.column_stack([z, z])):
        found = of_intervals.log_predictive_density(X, y)
        assert_allclose(found, stats.norm.logpdf(z, mean, std), rtol=1e-9)
    assert of_intervals.score(X, z) == r2_score(z, mean)
    exact = [regressor().fit(X, y) for y in (z, np.column_stack([z, z]))]
    ends = [one.predict_interval(X, 0.8, "conformal") for one in exact]
    assert_array_equal(*ends)
    assert 0.6 < np.mean((ends[0][0] <= z) & (z <= ends[0][1])) < 0.95
    assert_array_equal(pickle.loads(pickle.dumps(of_intervals)).predict(X), mean)


def test_cross_validation_needs_a_score_that_intervals_have():
    X, z = table()
    options = {"cv": 2, "error_score": "raise"}
    scores = cross_val_score(
        regressor(), X, intervals(z), **options, scoring=log_predictive_density_scorer
    )
    assert np.all(np.isfinite(scores))
    with pytest.raises(ValueError, match=r"R².*log_predictive_density_scorer"):
        cross_val_score(regressor(), X, intervals(z), **options)


def test_a_linear_mean_and_later_rows_are_available():
    X, z = table()
    y = intervals(z)
    linear = regressor(mean="linear").fit(X, y)
    stream = regressor().partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    known = truth(QUERIES) > LIMIT
    for model in (linear, stream):
        error = model.predict(QUERIES, latent=True) - truth(QUERIES)
        assert np.abs(error[known]).max() < 0.5
    stream.partial_fit(X, z)  # exact numbers are intervals with equal ends
    assert np.abs(stream.predict(QUERIES, latent=True) - truth(QUERIES)).max() < 0.5


# -- what is refused -------------------------------------------------------------------

X, Z = table(30)
Y = intervals(Z)


@pytest.mark.parametrize(
    "likelihood, y, options, words",
    [
        ("censored", Y[:, ::-1], {}, "lower end above the upper one"),
        ("censored", np.full((30, 2), np.inf), {}, "the same infinity"),
        ("censored", np.where(np.isinf(Y), np.nan, Y), {}, "NaN. Use -inf or inf"),
        ("censored", np.tile([-np.inf, np.inf], (30, 1)), {}, "says nothing"),
        ("censored", np.column_stack([Y, Z]), {}, "takes one target, but y has 3 columns"),
        ("censored", Y[:7], {}, "inconsistent numbers"),
        ("censored", Y.astype(str), {}, "contains text"),
        ("censored", Y, {"n_targets": 2}, "1 != 2"),
        ("censored", Y, {"mean": Ridge()}, "not censored"),
        ("censored", Y, {"mean": "boosting"}, "not censored"),
        ("censored", Y, {"alpha": 0.1}, "Set alpha to None"),
        ("censored", Y, {"noise": "learned"}, "likelihood='gaussian'"),
        ("censored", Y, {"posterior": "rows", "n_inducing": "auto"}, "Gaussian noise only"),
        ("censored", Y, {"bound": "dtc"}, "defined for Gaussian noise only"),
        ("poisson", np.abs(Y), {}, "set likelihood to 'censored'"),
        ("gaussian", Y, {}, "infinity"),
        (Censored(lower=LIMIT), Y, {}, "set likelihood to 'censored'"),
        (Censored(lower=LIMIT), np.where(Z < LIMIT, -np.inf, Z), {}, "infinity"),
        (Censored(lower=2.0, upper=1.0), Z, {}, "the lower one below the upper"),
        (Censored(lower=None), Z, {}, "must be numbers"),
        (Censored(upper=np.nan), Z, {}, "must be numbers"),
        (Censored(scale=-1.0), Z, {}, "likelihood__scale"),
    ],
)
def test_wrong_inputs_are_refused(likelihood, y, options, words):
    with pytest.raises(ValueError, match=words):
        regressor(likelihood, **options).fit(X, y)


def test_questions_without_an_answer_are_refused(of_intervals):
    for words, ask in {
        "needs exact targets": lambda: of_intervals.predict_interval(X, method="conformal"),
        "latent=True": lambda: of_intervals.predict(X, return_cov=True),
        "Set latent to True": lambda: of_intervals.predict(X, return_gradient=True),
        "lower end above": lambda: of_intervals.log_predictive_density(X, Y[:, ::-1]),
        "contain NaN": lambda: of_intervals.log_predictive_density(X, np.nan * Y),
        "inconsistent": lambda: of_intervals.log_predictive_density(X, Y[:3]),
        "as many columns": lambda: of_intervals.log_predictive_density(X, np.ones((30, 3))),
        "number for each mean": lambda: CoverageDisplay.from_estimator(of_intervals, X, Y),
    }.items():
        with pytest.raises(ValueError, match=words):
            ask()


def test_data_that_tell_no_level_are_warned_of():
    with pytest.warns(UserWarning, match="open on the same side"):
        regressor(Censored(lower=100.0), max_iter=5).fit(X, Z)

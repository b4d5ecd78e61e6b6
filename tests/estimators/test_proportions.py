"""Proportions and trials in `SparseGPRegressor`: values, trials, refusals."""

import pickle
import warnings

import numpy as np
import pytest
from conftest import agree
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import cross_val_score

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, metrics, sources
from skgp_sparse.likelihoods import Beta, Binomial

RNG = np.random.RandomState(0)
X = RNG.uniform(-3.0, 3.0, (120, 2))
P = expit(1.5 * np.sin(2.0 * X[:, 0]) - 0.5)
TRIALS = RNG.randint(1, 15, 120)
Y = RNG.binomial(TRIALS, P) / TRIALS
SHARES = np.clip(RNG.beta(6.0 * P, 6.0 * (1.0 - P)), 1e-6, 1.0 - 1e-6)
KERNEL = ConstantKernel(0.8) * RBF([1.0, 2.0])


def model(likelihood="binomial", **options):
    options = {"n_inducing": 15, "max_iter": 15, "random_state": 0} | options
    return SparseGPRegressor(likelihood=likelihood, **options)


def fixed(likelihood, **options):
    """Exact, with the kernel and the likelihood as they are."""
    return model(likelihood, kernel=KERNEL, optimizer=None, n_inducing=1000, **options)


def density(likelihood, f, trials):
    """Log density of an observation, by SciPy."""
    if isinstance(likelihood, Beta):
        size = likelihood.precision
        return lambda y: stats.beta.logpdf(y, size * expit(f), size * expit(-f))
    return lambda y: stats.binom.logpmf(np.rint(y * trials), trials, expit(f))


def by_quadrature(fitted, likelihood, y, trials):
    """The variational bound of a fit, from its own moments: sums over 2001 nodes, dense algebra."""
    points = X[:40]
    mean, cov = fitted.predict(points, return_cov=True, latent=True)
    z = np.linspace(-9.0, 9.0, 2001)[:, None]
    weights = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    logs = density(likelihood, mean + np.sqrt(np.diag(cov)) * z, trials)(y)
    K, m = KERNEL(points), mean - likelihood.level
    solved = np.linalg.solve(K, np.column_stack([cov, m]))
    logdet = np.linalg.slogdet(K)[1] - np.linalg.slogdet(cov)[1]
    divergence = 0.5 * (np.trace(solved[:, :-1]) + m @ solved[:, -1] - len(K) + logdet)
    return np.sum(weights * logs) - divergence


@pytest.fixture(autouse=True)
def no_stop_warnings():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The optimizer stopped")
        yield


CASES = [
    (Beta(5.0, level=-0.3), SHARES[:40], None),
    (Binomial(level=-0.3), Y[:40], TRIALS[:40]),
]


@pytest.mark.parametrize("likelihood, y, trials", CASES, ids=lambda one: type(one).__name__)
def test_the_evidence_is_that_of_quadrature(likelihood, y, trials):
    fitted = fixed(likelihood, bound="titsias", tol=1e-12).fit(X[:40], y, trials=trials)
    expected = by_quadrature(fitted, likelihood, y, trials)
    assert abs(fitted.log_marginal_likelihood_value_ - expected) < 1e-6


@pytest.mark.parametrize("likelihood, y, trials", CASES, ids=lambda one: type(one).__name__)
def test_one_latent_value_has_the_evidence_of_an_integral(likelihood, y, trials):
    kernel = ConstantKernel(0.5, "fixed")
    fitted = model(likelihood, kernel=kernel, optimizer=None, bound="titsias", tol=1e-12)
    fitted.fit(X[:40], y, trials=trials)
    f = np.linspace(-3.0, 3.0, 4001)
    counts = 1 if trials is None else trials[:, None]
    logs = density(likelihood, f + likelihood.level, counts)(y[:, None]).sum(axis=0)
    exact = np.log(np.trapezoid(np.exp(logs - logs.max()) * stats.norm.pdf(f, 0, 0.5**0.5), f))
    gap = exact + logs.max() - fitted.log_marginal_likelihood_value_
    assert -1e-6 < gap < 0.02


@pytest.mark.parametrize("likelihood, y, trials", CASES, ids=lambda one: type(one).__name__)
def test_gradients_are_differences(likelihood, y, trials):
    fitted = fixed(likelihood, bound="titsias_new", tol=1e-12).fit(X[:40], y, trials=trials)
    theta = fitted.kernel_.theta
    _, gradient = fitted.log_marginal_likelihood(theta, eval_gradient=True)
    for unit, expected in zip(1e-4 * np.eye(len(theta)), gradient):
        up, down = (fitted.log_marginal_likelihood(theta + s * unit) for s in (1, -1))
        assert abs((up - down) / 2e-4 - expected) < 1e-5 * (1 + abs(expected))


@pytest.mark.second(share=0.2)
def test_parameters_are_found_and_intervals_cover():
    rng = np.random.RandomState(1)
    inputs = rng.uniform(-3.0, 3.0, (1500, 1))
    p = expit(1.5 * np.sin(2.0 * inputs[:, 0]) - 0.5)
    trials = rng.randint(5, 60, 1500)
    drawn = {
        "beta": rng.beta(8.0 * p, 8.0 * (1.0 - p)),
        "binomial": rng.binomial(trials, p) / trials,
    }
    for name, y in drawn.items():
        first, rest = slice(500), slice(500, None)
        known = ({}, {}) if name != "binomial" else ({"trials": trials[s]} for s in (first, rest))
        of_fit, of_query = known
        fitted = model(name, n_inducing=20, max_iter=50).fit(inputs[first], y[first], **of_fit)
        low, high = fitted.predict_interval(inputs[rest], coverage=0.9, **of_query)
        covered = np.mean((low - 1e-12 <= y[rest]) & (y[rest] <= high + 1e-12))
        assert 0.87 < covered < (0.96 if name == "binomial" else 0.93)
        assert np.sqrt(np.mean((fitted.predict(inputs[rest]) - p[rest]) ** 2)) < 0.06
        if name == "beta":
            assert 6.5 < fitted.likelihood_.precision < 9.5


# -- trials ----------------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["titsias", "titsias_new", "gfitc-ep"])
def test_single_trials_are_labels_of_a_logit(bound):
    labels = (P > RNG.uniform(size=120)).astype(float)
    likelihood = Binomial(level=0.0, level_bounds="fixed")
    options = {"kernel": KERNEL, "optimizer": None, "bound": bound, "tol": 1e-12}
    options |= {"inducing_init": X[:12], "optimize_inducing": False}
    ours = SparseGPRegressor(likelihood=likelihood, **options).fit(X, labels)
    theirs = SparseGPClassifier(likelihood="logit", calibration=None, **options).fit(X, labels)
    value = theirs.log_marginal_likelihood_value_
    agree(ours.log_marginal_likelihood_value_, value, 1e-8)
    agree(ours.predict(X), theirs.predict_proba(X)[:, 1], 1e-5)


def test_trials_are_rows_of_labels():
    """The bound of counts is that of their single trials, but for the number of orders."""
    inputs, trials, y = X[:30], TRIALS[:30], Y[:30]
    successes = np.rint(y * trials)
    weight = np.concatenate([successes, trials - successes])
    likelihood = Binomial(level=-0.2)
    options = {"inducing_init": X[:8], "optimize_inducing": False, "tol": 1e-12}
    counts = fixed(likelihood, bound="titsias", **options).fit(inputs, y, trials=trials)
    single = fixed(likelihood, bound="titsias", **options)
    single.fit(np.vstack([inputs, inputs]), np.repeat([1.0, 0.0], 30), sample_weight=weight)
    orders = stats.binom.logpmf(successes, trials, 0.5) + trials * np.log(2.0)
    value = counts.log_marginal_likelihood_value_ - orders.sum()
    agree(value, single.log_marginal_likelihood_value_, 1e-7)
    agree(counts.predict(X), single.predict(X), 1e-5)


@pytest.mark.parametrize("bound", ["titsias_new", "pep"])
def test_weights_are_copies(bound):
    weight = RNG.randint(0, 3, 120)
    again = np.repeat(np.arange(120), weight)
    one = model(bound=bound, max_iter=3).fit(X, Y, sample_weight=weight, trials=TRIALS)
    two = model(bound=bound, max_iter=3).fit(X[again], Y[again], trials=TRIALS[again])
    assert_allclose(one.predict(X), two.predict(X), rtol=1e-10)


def test_predictions_are_of_the_trials():
    fitted = model().fit(X, Y, trials=TRIALS)
    assert_array_equal(fitted.predict(X), fitted.predict(X, trials=7))
    stds = [fitted.predict(X, return_std=True, trials=n)[1] for n in (1, 10, 10**6)]
    p = fitted.predict(X)
    agree(stds[0], np.sqrt(p * (1.0 - p)), 1e-10)
    assert np.all(stds[0] > stds[1]) and np.all(stds[1] > stds[2])
    draws = fitted.sample_y(X[:5], 20_000, trials=TRIALS[:5])
    whole = draws * TRIALS[:5, None]
    assert_allclose(whole, np.rint(whole), atol=1e-9)
    mean, std = fitted.predict(X[:5], return_std=True, trials=TRIALS[:5])
    assert_allclose(draws.mean(axis=1), mean, atol=5 * std.max() / 141)
    assert_allclose(draws.std(axis=1), std, rtol=0.05)
    low, high = fitted.predict_quantiles(X[:5], [0.1, 0.9], trials=TRIALS[:5]).T
    assert np.all((draws <= high[:, None] + 1e-9).mean(axis=1) >= 0.88) and np.all(low <= high)
    own = fitted.log_predictive_density(X[:5], Y[:5], trials=TRIALS[:5])
    counts = [np.arange(n + 1) / n for n in TRIALS[:5]]
    logs = [
        fitted.log_predictive_density(np.repeat(X[k : k + 1], len(c), 0), c, trials=TRIALS[k])
        for k, c in enumerate(counts)
    ]
    assert_allclose([np.exp(one).sum() for one in logs], 1.0, rtol=1e-9)
    assert np.all(own <= 0.0)


def test_rows_that_are_left_out_have_their_trials():
    fitted = fixed(Binomial(level=-0.4), tol=1e-10).fit(X, Y, trials=TRIALS)
    loo = fitted.loo_predict()
    others = np.delete(np.arange(120), 7)
    without = clone(fitted).fit(X[others], Y[others], trials=TRIALS[others])
    mean, std = without.predict(X[7:8], return_std=True, trials=TRIALS[7:8])
    found = without.log_predictive_density(X[7:8], Y[7:8], trials=TRIALS[7:8])
    assert_allclose([loo.mean[7], loo.std[7], loo.log_density[7]], [*mean, *std, *found], rtol=0.03)
    low, high = fitted.predict_interval(X, coverage=0.8, method="conformal", trials=TRIALS)
    assert 0.75 < np.mean((low <= Y) & (Y <= high)) < 0.95
    assert np.all(low >= 0.0) and np.all(high <= 1.0)
    assert_allclose(fitted.y_train_, Y, rtol=1e-12)


@pytest.mark.second(share=0.3)
def test_scores_count_trials_and_are_routed():
    with config_context(enable_metadata_routing=True):
        asking = model(max_iter=3).set_fit_request(trials=True).set_score_request(trials=True)
        scores = cross_val_score(asking, X, Y, cv=2, params={"trials": TRIALS})
    first = model(max_iter=3).fit(X[60:], Y[60:], trials=TRIALS[60:])
    p = first.predict(X[:60])
    mean = np.average(Y[:60], weights=TRIALS[:60])
    total = TRIALS[:60] @ (Y[:60] - mean) ** 2
    agree(scores[0], 1.0 - TRIALS[:60] @ (Y[:60] - p) ** 2 / total, 1e-9)
    for scorer in (
        metrics.log_predictive_density_scorer,
        metrics.crps_scorer,
        metrics.interval_score_scorer,
        metrics.calibration_error_scorer,
    ):
        assert np.isfinite(scorer(first, X[:60], Y[:60], trials=TRIALS[:60]))
    own = first.log_predictive_density(X[:60], Y[:60], trials=TRIALS[:60]).mean()
    scored = metrics.log_predictive_density_scorer(first, X[:60], Y[:60], trials=TRIALS[:60])
    agree(scored, own, 1e-12)


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("name, y", [("binomial", Y), ("beta", SHARES)])
@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors", "fourier"])
def test_every_posterior_and_pickles(name, y, posterior):
    known = {"trials": TRIALS} if name == "binomial" else {}
    options = {"n_inducing": "auto"} if posterior in ("exact", "neighbors") else {}
    options |= {"n_inducing": "auto"} if posterior == "fourier" else {}
    fitted = model(name, posterior=posterior, max_iter=5, **options).fit(X, y, **known)
    assert fitted.score(X, y, **known) > 0.3
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_quantiles(X, **known), fitted.predict_quantiles(X, **known))


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("name, y", [("binomial", Y), ("beta", SHARES)])
def test_a_mean_of_another_model_is_on_the_link_scale(name, y):
    known = {"trials": TRIALS} if name == "binomial" else {}
    for mean in (RandomForestRegressor(20), "boosting", "linear"):
        for kernel in (None, KERNEL):
            given = {"mean": mean, "kernel": kernel, "max_iter": 3}
            fitted = model(name, **given).fit(X, y, **known)
            assert fitted.score(X, y, **known) > 0.2


def test_rows_that_arrive_later_have_trials():
    kernel = {"kernel": KERNEL, "optimizer": None, "inducing_init": X[:10], "tol": 1e-10}
    whole = model(**kernel).fit(X, Y, trials=TRIALS)
    parts = model(Binomial(level=whole.likelihood_.level), **kernel)
    for part in (slice(50), slice(50, None)):
        parts.partial_fit(X[part], Y[part], trials=TRIALS[part])
    agree(parts.predict(X), whole.predict(X), 1e-5)


def test_sources_take_trials_that_are_the_same_for_all_rows():
    y = RNG.binomial(4, P) / 4.0
    chunks = sources.Arrays(X, y, chunk_size=50)
    whole, read = (model(Binomial(4), max_iter=3).fit(*rows) for rows in ((X, y), (chunks,)))
    assert_array_equal(whole.predict(X), read.predict(X))
    with pytest.raises(ValueError, match=r"sources of rows have no trials.*Binomial\(trials=...\)"):
        model().fit(chunks, trials=4)


# -- what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    "likelihood, y, given, sentence",
    [
        ("binomial", Y, {}, "y times trials must be whole numbers of successes.*beta"),
        ("binomial", Y, {"trials": TRIALS + 1}, "y times trials must be whole"),
        ("binomial", 3.0 * Y, {"trials": TRIALS}, "proportions 0 <= y <= 1.*pass trials"),
        ("binomial", Y, {"trials": TRIALS - 1}, "trials must be whole numbers from 1"),
        ("binomial", Y, {"trials": TRIALS + 0.5}, "trials must be whole numbers from 1"),
        ("binomial", Y, {"trials": TRIALS[:5]}, "one number for each of the 120 rows"),
        ("binomial", Y, {"trials": "many"}, "trials must be numbers"),
        ("binomial", Y, {"trials": np.where(P > 0.5, np.nan, 1.0)}, "NaN"),
        (Binomial(TRIALS), Y, {}, "is one number for all rows. Pass the numbers of rows to fit"),
        (Binomial(0), Y, {}, "trials must be whole numbers from 1"),
        (Binomial("all"), Y, {}, "trials must be whole numbers from 1"),
        ("poisson", TRIALS, {"trials": TRIALS}, "trials is available for likelihood='binomial'"),
        ("gaussian", Y, {"trials": TRIALS}, "trials is available for likelihood='binomial'"),
        ("beta", Y, {}, "numbers 0 < y < 1.*binomial.*Smithson"),
        ("beta", np.column_stack([P, P]), {}, "takes one target"),
        (Beta(-1.0), SHARES, {}, "likelihood__precision"),
    ],
)
def test_refused(likelihood, y, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        model(likelihood, max_iter=2).fit(X, y, **given)


@pytest.mark.parametrize("bound", ["gfitc-ep", "pep"])
def test_beta_has_no_expectation_propagation(bound):
    with pytest.raises(ValueError, match="log-concave.*titsias_new"):
        model("beta", bound=bound).fit(X, SHARES)


def test_refused_queries():
    fitted = model(max_iter=2).fit(X, Y, trials=TRIALS)
    with pytest.raises(ValueError, match="y times trials"):
        fitted.log_predictive_density(X, Y)
    with pytest.raises(ValueError, match="one number for each"):
        fitted.predict_quantiles(X, trials=TRIALS[:3])
    with pytest.raises(ValueError, match="offset, X_std or trials"):
        fitted.predict(X, return_gradient=True, latent=True, trials=3)
    with pytest.raises(ValueError, match="trials is available for likelihood='binomial'"):
        model("gaussian", max_iter=2).fit(X, Y).predict(X, trials=3)
    with pytest.raises(ValueError, match="trials must be whole"):
        fitted.sample_y(X, trials=0)


def test_rows_of_weight_zero_may_have_any_target():
    weight = np.where(np.arange(120) < 5, 0.0, 1.0)
    spoilt = np.where(weight > 0, Y, -3.3)
    one, two = (
        model(max_iter=3).fit(X, y, sample_weight=weight, trials=TRIALS) for y in (Y, spoilt)
    )
    assert_array_equal(one.predict(X), two.predict(X))

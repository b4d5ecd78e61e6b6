"""Where the default kernel begins: structure of any scale is found, whatever rows are far away."""

import numpy as np
import pytest
from inside import (
    Batch,
    correlation_length,
    lag_correlation,
    profile_evidence,
    spread_of_the_shortest_quarter,
)
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.posteriors import FourierFeatures, InducingPoints, Neighbors
from skgp_sparse.solvers import Stochastic

pytestmark = pytest.mark.usefixtures("without_means")

HOURS = np.arange(504.0)[:, None]  # three weeks


def of_the_day(X):
    return 10 + 0.01 * X[:, 0] + 3 * np.sin(2 * np.pi * X[:, 0] / 24)


OF_HOURS = of_the_day(HOURS) + 0.5 * np.random.RandomState(0).normal(size=len(HOURS))


def explained(model, f, d, low=0.0, high=1.0):
    """The share of the variance of a function that the mean of a model has."""
    Q = np.random.RandomState(9).uniform(low, high, size=(400, d))
    return 1 - np.mean((model.predict(Q) - f(Q)) ** 2) / np.var(f(Q))


def some(cases, *names):
    """All cases, of which the second tier has those with some names."""
    full = pytest.mark.full
    return [
        pytest.param(case, id=name, marks=() if name in names else full)
        for name, case in cases.items()
    ]


FINE = {
    "bumps": (2, 900, 0.1, lambda X: 2 * np.prod(np.sin(6 * np.pi * X), axis=1), 0.97),
    "checkerboard": (2, 900, 0.1, lambda X: np.sign(np.prod(np.sin(5 * np.pi * X), axis=1)), 0.7),
    "rings": (2, 900, 0.1, lambda X: np.sin(60 * np.hypot(*(X - 0.5).T)), 0.8),
    "square wave": (1, 600, 0.2, lambda X: np.sign(np.sin(80 * np.pi * X[:, 0])), 0.7),
    "saw": (1, 500, 0.1, lambda X: 30 * X[:, 0] % 1.0, 0.6),
    "waves that grow": (1, 500, 0.1, lambda X: X[:, 0] * np.sin(80 * np.pi * X[:, 0]), 0.9),
    "one column of three": (3, 600, 0.1, lambda X: np.sin(40 * np.pi * X[:, 0]), 0.95),
    "beside a trend": (3, 600, 0.2, lambda X: np.sin(40 * np.pi * X[:, 0]) + 3 * X[:, 1], 0.95),
}


@pytest.mark.second
@pytest.mark.parametrize("case", some(FINE, "bumps", "square wave", "saw", "one column of three"))
def test_fine_structure_is_found(case):
    d, n, noise, f, least = case
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n, d))
    model = SparseGPRegressor(random_state=0).fit(X, f(X) + noise * rng.normal(size=n))
    assert explained(model, f, d) > least


def wave(x):
    return np.sin(2 * np.pi * x)


def square(x):
    return np.sign(wave(x))


BESIDE_A_TREND = {
    "week": (900, 7, 5.0, wave, 1, 0.97),
    "square wave": (900, 7, 5.0, square, 1, 0.87),
    "of few rows": (300, 7, 5.0, square, 1, 0.86),
    "saw": (900, 12, 5.0, lambda x: 2 * (x % 1) - 1, 1, 0.91),
    "steep": (1200, 7, 12.0, wave, 1, 0.99),
    "parabola": (900, 7, 5.0, wave, 2, 0.97),
}


@pytest.mark.second
@pytest.mark.parametrize("case", some(BESIDE_A_TREND, "week", "of few rows", "parabola"))
def test_a_cycle_beside_a_trend_in_one_column(case):
    n, period, spread, cycle, power, least = case
    days = np.arange(float(n))[:, None]

    def f(X):
        trend = (np.sqrt(12) * (X[:, 0] / n - 0.5)) ** power
        return 4 * cycle(X[:, 0] / period) + spread * trend

    y = f(days) + 0.8 * np.random.RandomState(0).normal(size=n)
    model = SparseGPRegressor(random_state=0).fit(days, y)
    between = days[:-1] + 0.5
    assert model.score(between, f(between)) > least


@pytest.mark.second
def test_a_cycle_beside_a_trend_in_another_column():
    def f(X):
        return 4 * wave(X[:, 0] / 10) + 5 * X[:, 1]

    rng = np.random.RandomState(0)
    X = np.column_stack([np.arange(400.0), rng.normal(size=400)])
    model = SparseGPRegressor(random_state=0).fit(X, f(X) + 0.8 * rng.normal(size=400))
    between = X + [0.5, 0.0]
    assert model.score(between, f(between)) > 0.97


POSTERIORS = {
    "inducing": {"posterior": InducingPoints(), "n_inducing": 100},
    "stochastic": {"solver": Stochastic(), "n_inducing": 100},
    "neighbors": {"posterior": Neighbors()},
    "fourier": {"posterior": FourierFeatures()},
    "rows": {"posterior": "rows"},
}


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("options", POSTERIORS.values(), ids=POSTERIORS)
def test_every_posterior_begins_there(options):
    model = SparseGPRegressor(random_state=0, **options).fit(HOURS, OF_HOURS)
    assert explained(model, of_the_day, 1, 0.0, 503.0) > 0.95


@pytest.mark.second
def test_a_stream_of_hours():
    model = SparseGPRegressor(random_state=0)
    for week in np.split(np.arange(504), 3):
        model.partial_fit(HOURS[week], OF_HOURS[week])
    assert explained(model, of_the_day, 1, 0.0, 503.0) > 0.95


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "gamma", "student_t"])
def test_every_likelihood_begins_there(name):
    rng, days = np.random.RandomState(0), HOURS / 24
    wave = 1.2 * np.sin(2 * np.pi * days[:, 0])
    rate = wave if name == "student_t" else np.exp(2 + wave)
    draw = {
        "gamma": lambda: rng.gamma(4, rate / 4),
        "student_t": lambda: rate + 0.2 * rng.standard_t(2, size=504),
    }.get(name, lambda: rng.poisson(rate))
    model = SparseGPRegressor(likelihood=name, random_state=0).fit(days, draw())
    assert 1 - np.mean((model.predict(days) - rate) ** 2) / np.var(rate) > 0.8


def stripes(X):
    return 1 / (1 + np.exp(-8 * np.sin(40 * np.pi * X[:, 0])))


def fields(X):
    return 1 / (1 + np.exp(-8 * np.prod(np.sin(5 * np.pi * X), axis=1)))


@pytest.mark.second
@pytest.mark.parametrize(("p", "d", "least"), [(stripes, 1, 0.88), (fields, 2, 0.78)])
def test_labels_begin_there(p, d, least):
    rng = np.random.RandomState(0)
    X, Q = rng.uniform(size=(800, d)), rng.uniform(size=(1000, d))
    model = SparseGPClassifier(random_state=0).fit(X, rng.uniform(size=800) < p(X))
    assert model.score(Q, rng.uniform(size=1000) < p(Q)) > least


@pytest.mark.second
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "softmax"])
def test_several_classes_begin_there(multi_class):
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(500, 1))
    y = np.floor(30 * X[:, 0]).astype(int) % 3
    model = SparseGPClassifier(multi_class=multi_class, random_state=0).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.8


@pytest.mark.second
def test_a_week_in_a_column_of_dates_beside_other_types():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    day, group = np.arange(730), rng.choice(["u", "v"], 730)
    X = pd.DataFrame({"day": pd.Timestamp("2023-01-01") + pd.to_timedelta(day, unit="D")})
    X["group"], X["size"] = group, rng.normal(size=730)
    y = 2 * np.sin(2 * np.pi * day / 7) + (group == "u") + 0.2 * rng.normal(size=730)
    X.loc[::50, "size"] = np.nan
    chosen = rng.uniform(size=730) < 0.8
    model = SparseGPRegressor(random_state=0).fit(X[chosen], y[chosen])
    assert model.score(X[~chosen], y[~chosen]) > 0.6


def start_of(kernel, X, y):
    """Hyperparameters and bounds where a fit begins."""
    seen = []

    def first(objective, theta, bounds):
        seen.append((theta.copy(), bounds.copy()))
        return theta, 0.0

    SparseGPRegressor(kernel, optimizer=first, random_state=0).fit(X, y)
    return seen[0]


def test_a_kernel_of_the_user_begins_where_it_says():
    """Nothing is learned: the evidence is that of the kernel, in its own bounds."""
    kernel = ConstantKernel(1.0) * Matern(150.0, (1.0, 1e3), nu=2.5)
    theta, bounds = start_of(kernel, HOURS, OF_HOURS)
    assert_allclose(theta[:2], kernel.theta)
    assert_allclose(bounds[:2], kernel.bounds)


FAR = "one sentinel", "sentinels", "clusters", "three clusters"


def far(X, how):
    X = X.copy()
    if how == "one sentinel":
        X[0] = -9999.0
    elif how == "sentinels":
        X[::20] = 99999.0
    elif how == "clusters":
        X[200:] += 10_000.0
    elif how == "three clusters":
        X += 1e5 * (np.arange(400) % 3)[:, None]
    return X


@pytest.mark.second
@pytest.mark.parametrize("how", some({how: how for how in FAR}, "one sentinel", "three clusters"))
def test_far_rows_hide_nothing(how):
    def f(X):
        return np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1])

    rng = np.random.RandomState(0)
    X = rng.uniform(size=(400, 2))
    y = f(X) + 0.05 * rng.normal(size=400)
    Z = far(X, how)
    model = SparseGPRegressor(random_state=0).fit(Z, y)
    assert explained(model, f, 2) > 0.97
    labels = SparseGPClassifier(random_state=0).fit(Z, y > 0.5)
    Q = rng.uniform(size=(400, 2))
    assert labels.score(Q, f(Q) > 0.5) > 0.9


def test_a_column_with_heavy_tails_is_not_lost():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.standard_cauchy(size=500), rng.uniform(0, 5, size=500)])
    y = np.sin(2 * X[:, 0].clip(-4, 4)) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=500)
    near = np.abs(X[:, 0]) < 3
    model = SparseGPRegressor(random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:][near[300:]], y[300:][near[300:]]) > 0.9


@pytest.mark.second(share=0.12, thin=1)
@pytest.mark.parametrize("unit", [1.0, 1000.0])
@pytest.mark.parametrize("posterior", ["auto", "neighbors", "inducing"])
def test_a_constant_column_has_no_effect_later(unit, posterior):
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.normal(size=300), np.full(300, 5.0 * unit)])
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=300)
    model = SparseGPRegressor(posterior=posterior, random_state=0).fit(X[:200], y[:200])
    other = X[200:] + [0.0, 0.1 * unit]
    assert_allclose(model.predict(other), model.predict(X[200:]), rtol=1e-9, atol=1e-9)


@pytest.mark.second
def test_as_little_noise_for_many_rows_as_for_few():
    rng = np.random.RandomState(0)
    X, Q = rng.uniform(-2, 2, size=(650, 2)), rng.uniform(-2, 2, size=(300, 2))
    y, t = np.exp(X.sum(axis=1) / 2), np.exp(Q.sum(axis=1) / 2)
    for n in (560, 650):
        model = SparseGPRegressor(noise="constant", random_state=0).fit(X[:n], y[:n])
        assert model.kernel_.k2.noise_level < 1e-8
        assert np.std(model.predict(Q) - t) < 1e-4 * np.std(t)


def table_of_two_columns(n):
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"x": rng.normal(size=n), "z": rng.uniform(0, 5, size=n)})
    return X, np.sin(2 * X["x"]) + 0.3 * X["z"] + 0.1 * rng.normal(size=n)


@pytest.mark.second
@pytest.mark.parametrize("share", [0.0, 0.02])
def test_a_column_that_is_hardly_known_does_not_take_the_noise(share):
    X, y = table_of_two_columns(600)
    rng = np.random.RandomState(1)
    X["lab"] = np.where(rng.uniform(size=600) < share, rng.normal(size=600), np.nan)
    model = SparseGPRegressor(random_state=0).fit(X[:250], y[:250])
    for lab in (np.nan, rng.normal(size=350)):
        lower, upper = model.predict_interval(X[250:].assign(lab=lab), coverage=0.9)
        assert 0.84 < np.mean((lower <= y[250:]) & (y[250:] <= upper)) < 0.96


@pytest.mark.second
def test_names_of_rows_do_not_take_the_noise():
    X, y = table_of_two_columns(200)
    named = SparseGPRegressor(random_state=0).fit(X.assign(name=[f"r{i}" for i in X.index]), y)
    plain = SparseGPRegressor(random_state=0).fit(X, y)
    assert_allclose(named.noise_std(X.assign(name="r0")), plain.noise_std(X), rtol=0.05)


def test_ordinary_tables_keep_their_start():
    """No candidate gains a fifth of what the usual start explains."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 3))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=200)
    theta, _ = start_of(None, X, y)
    assert_allclose(np.exp(theta[1:4]), X.std(axis=0) * np.sqrt(3))


def test_evidence_at_the_most_likely_variance_beside_dense_algebra():
    rng = np.random.RandomState(0)
    A = rng.normal(size=(12, 12))
    K, y = A @ A.T, rng.normal(size=(12, 2))
    noise, weight = rng.uniform(0.1, 1.0, size=12), rng.uniform(0.5, 3.0, size=12)
    value, variance = profile_evidence(K, Batch(A, y, noise, weight), 0.3)
    C = K + np.diag((0.3 + noise) / weight)
    variances = variance * np.array([0.9, 1.0, 1.1])
    values = [
        -0.5 * np.trace(y.T @ np.linalg.solve(v * C, y)) - np.linalg.slogdet(v * C)[1]
        for v in variances
    ]
    assert np.argmax(values) == 1
    others = -np.log(np.mean(y**2)) * y.size / 2  # of K = 0 and noise of variance 1
    dense = values[1] - (-0.5 * y.size - 0.5 * y.size * np.log(np.mean(y**2)))
    assert_allclose(value - others, dense)


def test_the_variogram_of_a_wave():
    x = np.random.RandomState(0).permutation(1000) / 1000.0
    y = np.sin(40 * np.pi * x)[:, None]  # a quarter of a wave is 1 / 80
    assert 0.004 < correlation_length(x, y) < 0.02
    assert lag_correlation(x, y[:, 0]) > 0.95
    noise = np.random.RandomState(1).normal(size=(1000, 1))
    assert correlation_length(x, noise) == np.inf
    assert correlation_length(np.ones(1000), noise) == np.inf
    assert correlation_length(np.full(1000, np.nan), noise) == np.inf


def test_the_spread_of_the_shortest_quarter():
    x = np.random.RandomState(0).normal(size=20_000)
    assert_allclose(spread_of_the_shortest_quarter(x), 1.0, rtol=0.1)
    moved = np.concatenate([x, np.full(5000, -99999.0), x[:10_000] + 1e6])
    assert_allclose(spread_of_the_shortest_quarter(moved), 1.0, rtol=0.5)
    assert_allclose(spread_of_the_shortest_quarter(7 * x + 3), 7.0, rtol=0.1)
    assert spread_of_the_shortest_quarter(np.array([2.0, 2.0, np.nan])) == np.inf

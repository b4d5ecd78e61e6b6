"""Training on parts of the rows, through the estimators."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse._front.choices import BOUNDS, LIKELIHOODS
from skgp_sparse.inference import stochastic

N, M = 8000, 16  # 500 rows per inducing point: more than the largest sample of the tests
STAGES = (stochastic.Stage(10, 15, False), stochastic.Stage(40, np.inf, True))


@pytest.fixture
def small_stages(monkeypatch):
    monkeypatch.setattr(stochastic, "STAGES", STAGES)
    monkeypatch.setattr(stochastic, "_CYCLE", 40)


pytestmark = [
    pytest.mark.usefixtures("small_stages"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def table(n=N, d=2, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, size=(n, d))
    f = np.sin(2 * X[:, 0]) + np.cos(X[:, 1])
    return X, f, rng


def numbers():
    X, f, rng = table()
    return X, f + 0.2 * rng.normal(size=N)


def labels():
    X, f, rng = table()
    return X, np.where(f + 0.3 * rng.normal(size=N) > 0, "yes", "no")


def regressor(**parameters):
    given = {"n_inducing": M, "solver": "stochastic", "random_state": 0, "max_iter": 60}
    return SparseGPRegressor(**given | parameters)


def classifier(**parameters):
    given = {"n_inducing": M, "solver": "stochastic", "random_state": 0, "max_iter": 60}
    return SparseGPClassifier(**given | parameters)


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound_is_nearly_as_good_as_on_all_rows(bound):
    X, y = numbers()
    found = regressor(bound=bound).fit(X[1000:], y[1000:])
    whole = regressor(bound=bound, solver="lbfgs").fit(X[1000:], y[1000:])
    mine = found.log_predictive_density(X[:1000], y[:1000]).mean()
    its = whole.log_predictive_density(X[:1000], y[:1000]).mean()
    assert mine > its - 0.1
    value = found.log_marginal_likelihood(found.kernel_.theta)
    assert_allclose(found.log_marginal_likelihood_value_, value, rtol=1e-10)


def test_the_posterior_is_that_of_all_rows():
    X, y = numbers()
    found = regressor().fit(X, y)
    Z = found.inducing_points_
    again = SparseGPRegressor(
        found.kernel_, inducing_init=Z, optimizer=None, n_inducing=M, optimize_inducing=False
    ).fit(X, y)
    for mine, its in zip(found.predict(X[:50], return_std=True), again.predict(X[:50], True)):
        assert_allclose(mine, its, rtol=1e-9)


@pytest.mark.parametrize("bound", ["titsias", "titsias_new", "gfitc-ep", "pep"])
def test_classifiers(bound):
    X, y = labels()
    found = classifier(bound=bound).fit(X[1000:], y[1000:])
    whole = classifier(bound=bound, solver="lbfgs").fit(X[1000:], y[1000:])
    assert found.score(X[:1000], y[:1000]) > whole.score(X[:1000], y[:1000]) - 0.03
    again = found.log_marginal_likelihood(found.kernel_.theta)
    assert_allclose(found.log_marginal_likelihood_value_, again, rtol=1e-4)


@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one", "softmax"])
def test_several_classes(multi_class):
    X, f, _ = table()
    y = np.digitize(f, [-0.7, 0.7])
    model = classifier(multi_class=multi_class, max_iter=15).fit(X[1000:], y[1000:])
    assert model.score(X[:1000], y[:1000]) > 0.8


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_likelihoods_of_numbers(likelihood):
    X, f, rng = table()
    y = rng.poisson(np.exp(f)) + 1.0
    offset = 0.1 * X[:, 0]
    found = regressor(likelihood=likelihood).fit(X[1000:], y[1000:], offset=offset[1000:])
    whole = regressor(likelihood=likelihood, solver="lbfgs")
    whole.fit(X[1000:], y[1000:], offset=offset[1000:])
    held = X[:1000], y[:1000], offset[:1000]
    mine = found.log_predictive_density(*held).mean()
    assert mine > whole.log_predictive_density(*held).mean() - 0.05


@pytest.mark.parametrize("batch_size", ["auto", 100])
@pytest.mark.parametrize("make, data", [(regressor, numbers), (classifier, labels)])
def test_the_same_seed_gives_the_same_fit_whatever_n_jobs(make, data, batch_size):
    X, y = data()
    fits = [
        make(batch_size=batch_size, max_iter=20, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 3, 1)
    ]
    for other in fits[1:]:
        assert_array_equal(other.inducing_points_, fits[0].inducing_points_)
        assert_array_equal(other.predict(X[:20]), fits[0].predict(X[:20]))


@pytest.mark.parametrize("bound", ["titsias", "titsias_new", "artemev", "fitc", "pep", "dtc"])
def test_minibatches_do_not_harm(bound):
    X, y = numbers()
    without = regressor(bound=bound).fit(X[1000:], y[1000:])
    found = regressor(bound=bound, batch_size=100).fit(X[1000:], y[1000:])
    held = X[:1000], y[:1000]
    mine, its = (model.log_predictive_density(*held).mean() for model in (found, without))
    assert mine > its - 0.02
    assert found.n_iter_ >= without.n_iter_


def test_a_cycle_of_minibatches_climbs_from_a_poor_start(monkeypatch):
    """From hyperparameters that no sample has improved, minibatches alone find better ones."""
    monkeypatch.setattr(stochastic, "STAGES", (stochastic.Stage(40, 0, True),))
    monkeypatch.setattr(stochastic, "_CYCLE", 200)
    X, y = numbers()
    before = regressor(random_state=1).fit(X[1000:], y[1000:])
    after = regressor(random_state=1, batch_size=200).fit(X[1000:], y[1000:])
    gain = after.log_marginal_likelihood_value_ - before.log_marginal_likelihood_value_
    assert gain > 0.01 * len(X)


def test_minibatches_need_sites_that_forget():
    X, y = labels()
    with pytest.raises(ValueError, match="expectation propagation.*batch_size"):
        classifier(bound="gfitc-ep", batch_size=100).fit(X, y)


def test_weights_are_counts():
    X, y = numbers()
    weight = np.random.RandomState(0).randint(0, 4, N).astype(float)
    found = regressor(alpha=0.01).fit(X, y, weight)
    again = SparseGPRegressor(
        found.kernel_,
        inducing_init=found.inducing_points_,
        optimizer=None,
        optimize_inducing=False,
        alpha=0.01,
    ).fit(X, y, weight)
    assert_allclose(found.predict(X[:50]), again.predict(X[:50]), rtol=1e-8)
    value = again.log_marginal_likelihood_value_
    assert_allclose(found.log_marginal_likelihood_value_, value, rtol=1e-9)


def test_few_rows_are_a_full_batch():
    X, y = (part[:300] for part in numbers())
    found, whole = regressor().fit(X, y), regressor(solver="lbfgs").fit(X, y)
    assert_array_equal(found.inducing_points_, whole.inducing_points_)
    assert_array_equal(found.predict(X), whole.predict(X))


def test_auto_goes_by_the_rows_per_inducing_point(monkeypatch):
    X, y = numbers()
    auto, parts = regressor(solver="auto", max_iter=5), regressor(max_iter=5)
    auto.fit(X, y), parts.fit(X, y)
    assert_array_equal(auto.inducing_points_, parts.inducing_points_)
    auto.fit(X[:1000], y[:1000])
    whole = regressor(solver="lbfgs", max_iter=5).fit(X[:1000], y[:1000])
    assert_array_equal(auto.inducing_points_, whole.inducing_points_)


def test_progress_shows_passes_seconds_and_the_density_held_aside(capsys):
    X, y = numbers()
    regressor(verbose=5, max_iter=10, batch_size=100).fit(X, y)
    lines = [line for line in capsys.readouterr().out.splitlines() if "passes" in line]
    assert lines
    assert all("passes over the rows" in line and " s, log density" in line for line in lines)


def test_no_warning_unless_the_last_sample_did_not_converge():
    X, y = numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor(max_iter=1000).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        regressor(max_iter=2).fit(X, y)


def test_inducing_points_stay_where_they_are_put():
    X, y = numbers()
    Z = X[:M].copy()
    found = regressor(inducing_init=Z, optimize_inducing=False, batch_size=50).fit(X, y)
    assert_array_equal(found.inducing_points_, Z)


def test_a_kernel_of_the_user_and_several_targets():
    X, f, rng = table()
    Y = np.column_stack([f, -f]) + 0.2 * rng.normal(size=(N, 2))
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    model = regressor(kernel=kernel, batch_size=100).fit(X[1000:], Y[1000:])
    assert model.score(X[:1000], Y[:1000]) > 0.8


@pytest.mark.parametrize(
    "parameters, match",
    [
        ({"solver": "adam"}, "must be one of .*'stochastic'"),
        ({"solver": None}, "solver"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"batch_size": "all"}, "batch_size"),
        ({"solver": "lbfgs", "batch_size": 100}, "solver='stochastic' only"),
    ],
)
@pytest.mark.parametrize("make, data", [(regressor, numbers), (classifier, labels)])
def test_wrong_parameters(make, data, parameters, match):
    X, y = data()
    with pytest.raises(ValueError, match=match):
        make(**parameters).fit(X, y)


def test_an_interrupt_leaves_the_estimator_as_it_was(monkeypatch):
    X, y = numbers()
    model = regressor(max_iter=5).fit(X, y)
    before = model.predict(X[:5])

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(stochastic.Search, "conclude", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:4500], y[:4500])
    assert_array_equal(model.predict(X[:5]), before)

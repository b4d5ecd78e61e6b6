"""Targets that are constant beside others, and rows so few that targets have no scale."""

import pickle

import numpy as np
import pytest
from chunked_arrays import Arrays
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.posteriors import FourierFeatures, InducingPoints

RNG = np.random.RandomState(0)
X, QUERY = RNG.uniform(size=(60, 2)), RNG.uniform(size=(9, 2))
NOISY = np.c_[np.sin(6 * X[:, 0]) + 0.2 * RNG.normal(size=60), X[:, 1] + 0.1 * RNG.normal(size=60)]
LEVELS = np.array([7.0, -0.1, 0.0])
Y = np.c_[np.full(60, 7.0), NOISY[:, 0], np.full(60, -0.1), NOISY[:, 1], np.zeros(60)]
VARYING, CONSTANT = [1, 3], [0, 2, 4]
GIVEN = {"noise": "constant", "random_state": 0, "max_iter": 30}
WAYS = {
    "exact": {},
    "inducing": {"posterior": "inducing", "n_inducing": 10},
    "decoupled": {"posterior": InducingPoints(n_mean=20), "n_inducing": 10},
    "tight": {"posterior": InducingPoints(tight_variance=True), "n_inducing": 10},
    "fourier": {"posterior": FourierFeatures(20)},
    "neighbors": {"posterior": "neighbors"},
    "rows": {"posterior": "rows"},
    "metric": {"metric": "full", "posterior": "neighbors"},
    "known_noise": {"alpha": 1e-2},
    "kernel": {"kernel": 1.0 * RBF([1.0, 1.0]) + WhiteKernel()},
    "held": {"optimizer": None},
}


def pair(**options):
    """A regressor fitted to all targets, and one to those that vary."""
    given = GIVEN | options
    return SparseGPRegressor(**given).fit(X, Y), SparseGPRegressor(**given).fit(X, NOISY)


def check_same(all_of_them, some, of_constants, tol=1e-6):
    """That answers (n, p, ...) of varying targets are the same, and what those of constants are."""
    np.testing.assert_allclose(all_of_them[:, VARYING], some, rtol=tol, atol=1e-2 * tol)
    np.testing.assert_array_equal(
        all_of_them[:, CONSTANT], np.broadcast_to(of_constants, all_of_them[:, CONSTANT].shape)
    )


def check_same_predictions(model, without, tol=1e-6):
    """Means and standard deviations, as `check_same` has them."""
    pairs = zip(*(one.predict(QUERY, return_std=True) for one in (model, without)))
    for (ours, theirs), constant in zip(pairs, (LEVELS, 0.0)):
        check_same(ours, theirs, constant, tol)


@pytest.mark.second(share=0.22)
@pytest.mark.parametrize("way", WAYS)
def test_constant_targets_have_no_vote(way):
    model, without = pair(**WAYS[way])
    tol = 1e-2 if way == "metric" else 1e-6  # its search makes much of the last digits
    np.testing.assert_allclose(model.kernel_.theta, without.kernel_.theta, rtol=tol, atol=1e-9)
    values = [one.log_marginal_likelihood_value_ for one in (model, without)]
    np.testing.assert_allclose(*values, rtol=tol)
    check_same_predictions(model, without, tol)


@pytest.fixture(scope="module")
def fitted():
    return pair()


def test_answers_of_constant_targets(fitted):
    model, without = fitted
    cov, cov_without = (one.predict(QUERY, return_cov=True)[1] for one in fitted)
    np.testing.assert_allclose(cov[:, :, VARYING], cov_without, rtol=1e-6, atol=1e-8)
    assert not cov[:, :, CONSTANT].any()
    samples = [one.sample_y(QUERY, 3, random_state=1) for one in fitted]
    check_same(*samples, LEVELS[:, None])
    functions = [one.sample_functions(3, random_state=1) for one in fitted]
    check_same(*(one(QUERY) for one in functions), LEVELS[:, None])
    check_same(*(one.gradient(QUERY) for one in functions), 0.0)
    np.testing.assert_allclose(functions[0][1](QUERY), functions[0](QUERY)[:, :, 1], rtol=1e-9)
    check_same(*(one.predict_quantiles(QUERY, [0.1, 0.9]) for one in fitted), LEVELS[:, None])
    check_same(*(one.noise_std(QUERY) for one in fitted), 0.0)
    answers = [one.predict(QUERY, return_std=True, return_gradient=True) for one in fitted]
    for ours, theirs, constant in zip(*answers, (LEVELS, 0.0, 0.0, 0.0)):
        check_same(ours, theirs, constant)
    assert model.score(X, Y) <= 1.0


@pytest.mark.parametrize("method", ["model", "conformal"])
def test_intervals_of_constant_targets_have_no_width(method):
    models = [SparseGPRegressor(**GIVEN).fit(X, targets) for targets in (Y, NOISY)]
    ends = [one.predict_interval(QUERY, 0.8, method) for one in models]
    for ours, theirs in zip(*ends):
        check_same(ours, theirs, LEVELS)


def test_the_density_of_a_constant_is_infinite_there_and_zero_elsewhere(fitted):
    model, without = fitted
    at = Y[: len(QUERY)]
    check_same(
        model.log_predictive_density(QUERY, at),
        without.log_predictive_density(QUERY, at[:, VARYING]),
        np.inf,
    )
    elsewhere = model.log_predictive_density(QUERY, at + 1e-3)
    assert np.all(elsewhere[:, CONSTANT] == -np.inf) and np.isfinite(elsewhere[:, VARYING]).all()


def test_rows_that_are_left_out_have_the_same_constants(fitted):
    loo, without = (one.loo_predict() for one in fitted)
    for ours, theirs, constant in zip(loo, without, (LEVELS, 0.0, np.inf)):
        check_same(ours, theirs, constant)


def test_copies_bounds_and_training_targets(fitted):
    model, without = fitted
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(QUERY), model.predict(QUERY))
    check_same(model.y_train_, without.y_train_, 0.0)
    bounds = [one.evidence_bounds(X, t).upper for one, t in zip(fitted, (Y, NOISY))]
    np.testing.assert_allclose(*bounds, rtol=1e-9)


def test_weights_decide_what_is_constant():
    targets = Y.copy()
    targets[-1, 0] = 100.0
    weight = np.r_[np.ones(59), 0.0]
    model = SparseGPRegressor(**GIVEN).fit(X, targets, sample_weight=weight)
    mean, std = model.predict(QUERY, return_std=True)
    np.testing.assert_array_equal(mean[:, 0], 7.0)
    np.testing.assert_array_equal(std[:, 0], 0.0)


def test_sources_have_the_same_constants(monkeypatch):
    monkeypatch.setattr("skgp_sparse.data.moments._SMALL_TABLE", 0)
    given = GIVEN | WAYS["inducing"]
    sources = (Arrays(X, targets, chunk_size=25) for targets in (Y, NOISY))
    check_same_predictions(*(SparseGPRegressor(**given).fit(source) for source in sources))


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("way", ["inducing", "held", "known_noise"])
def test_streams_have_the_same_constants_until_they_vary(way):
    given = GIVEN | {"n_inducing": 10} | WAYS[way]
    models = [SparseGPRegressor(**given) for _ in range(2)]
    for rows in (slice(0, 30), slice(30, 45)):
        for model, targets in zip(models, (Y, NOISY)):
            model.partial_fit(X[rows], targets[rows])
        (mean, std), (mean_without, std_without) = (
            one.predict(QUERY, return_std=True) for one in models
        )
        np.testing.assert_allclose(mean[:, VARYING], mean_without, rtol=1e-9)
        np.testing.assert_allclose(std[:, VARYING], std_without, rtol=1e-9)
        np.testing.assert_allclose(mean[:, CONSTANT], np.tile(LEVELS, (9, 1)), rtol=1e-15)
        assert not std[:, CONSTANT].any()
    later = Y[45:].copy()
    later[:, 0] += X[45:, 0]
    mean, std = models[0].partial_fit(X[45:], later).predict(QUERY, return_std=True)
    assert np.all(std[:, [0, 1, 3]] > 0) and not std[:, [2, 4]].any()
    assert np.ptp(mean[:, 0]) > 0


def test_a_stream_goes_on_from_a_fit_with_constants():
    given = GIVEN | WAYS["inducing"]
    models = [
        SparseGPRegressor(**given).fit(X[:40], t[:40]).partial_fit(X[40:], t[40:])
        for t in (Y, NOISY)
    ]
    mean, without = (one.predict(QUERY) for one in models)
    np.testing.assert_allclose(mean[:, VARYING], without, rtol=1e-9)
    np.testing.assert_array_equal(mean[:, CONSTANT], np.tile(LEVELS, (9, 1)))


def test_chunks_of_held_hyperparameters_equal_one_fit():
    given = {"kernel": 1.0 * RBF() + WhiteKernel(0.1), "inducing_init": X[:8], "optimizer": None}
    whole = SparseGPRegressor(**given, posterior="inducing").fit(X, Y)
    parts = SparseGPRegressor(**given, posterior="inducing")
    for k in range(3):
        parts.partial_fit(X[20 * k :][:20], Y[20 * k :][:20])
    for ours, theirs in zip(parts.predict(QUERY, True), whole.predict(QUERY, True)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    values = [one.log_marginal_likelihood_value_ for one in (parts, whole)]
    np.testing.assert_allclose(*values, rtol=1e-9)


def test_targets_that_are_all_constant_stay():
    model = SparseGPRegressor(**GIVEN).fit(X, Y[:, CONSTANT])
    one = SparseGPRegressor(**GIVEN).fit(X, Y[:, 0])
    mean, std = model.predict(QUERY, return_std=True)
    np.testing.assert_allclose(mean, np.tile(LEVELS, (9, 1)), atol=1e-6)
    assert np.all(std > 0) and np.all(one.predict(QUERY, return_std=True)[1] > 0)


# -- rows that are too few for a scale -----------------------------------------------------


@pytest.mark.parametrize("unit", [3e6, -3e-6, 1.0])
@pytest.mark.parametrize("inputs", [[0.0], [0.0, 0.0, 0.0], [0.0, 1.0]])
@pytest.mark.parametrize("streams", [False, True])
def test_equal_targets_of_few_rows_have_the_unit_of_their_size(unit, inputs, streams):
    rows = np.array(inputs)[:, None], np.full(len(inputs), unit)
    model = SparseGPRegressor(random_state=0)
    model = model.partial_fit(*rows) if streams else model.fit(*rows)
    mean, std = model.predict([[0.0], [1e3]], return_std=True)
    np.testing.assert_allclose(mean, unit, rtol=1e-12)
    assert 0.5 < std[1] / abs(unit) < 2.0 and std[0] < std[1]


def test_a_target_of_zero_has_the_unit_one():
    std = SparseGPRegressor(random_state=0).fit([[0.0]], [0.0]).predict([[1e3]], return_std=True)[1]
    assert 0.5 < std[0] < 2.0


def test_several_targets_of_one_row_have_their_own_units():
    model = SparseGPRegressor(random_state=0).fit([[0.0]], [[3e6, 2e-3, 0.0]])
    std = model.predict([[1e3]], return_std=True)[1][0]
    np.testing.assert_allclose(std / [3e6, 2e-3, 1.0], std[2])


def test_a_kernel_that_is_given_has_its_own_variance_in_that_unit():
    kernel = 4.0 * RBF(1.0) + WhiteKernel(0.01)
    model = SparseGPRegressor(kernel).fit([[0.0]], [50.0])
    std = model.predict([[100.0]], return_std=True)[1]
    np.testing.assert_allclose(std, 50.0 * np.sqrt(4.01))
    assert model.kernel_ == kernel


def test_targets_as_they_are_have_the_unit_one():
    model = SparseGPRegressor(normalize_y=False, optimizer=None).fit([[0.0]], [250.0])
    assert model.predict([[1e3]], return_std=True)[1] < 1e3

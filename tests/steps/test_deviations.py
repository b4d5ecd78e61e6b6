"""Deviations of tables with nearly as many columns as rows, or more, from fits to parts of them."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import log_loss

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

RNG = np.random.RandomState(0)
N, D = 60, 50
X = RNG.normal(size=(N + 300, D))
Y = X[:, :3] @ [3.0, 2.0, 1.0] + RNG.normal(size=N + 300)
TRAIN, TEST = slice(N), slice(N, None)


def fitted(X=X[TRAIN], y=Y[TRAIN], **chosen):
    return SparseGPRegressor(random_state=0, **chosen).fit(X, y)


def takes_the_step(model):
    return "deviations" in model.selection_.steps


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def same(model):
    """The same process without a factor."""
    return fitted(kernel=model.kernel_, optimizer=None)


def test_intervals_hold_as_many_new_rows_as_they_should():
    held, widths = [], []
    for seed in range(3):
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(380, 60))
        y = X[:, :3] @ [3.0, 2.0, 1.0] + rng.normal(size=380)
        model, Q, new = fitted(X[:80], y[:80]), X[80:], y[80:]
        mean, std = model.predict(Q, return_std=True)
        factor = np.sqrt(model.variance_factor_)
        ends = [(mean - 1.645 * std / factor, mean + 1.645 * std / factor)]
        ends += [model.predict_interval(Q, 0.9, method) for method in ("model", "conformal")]
        held.append([np.mean((low < new) & (new < high)) for low, high in ends])
        lower, upper = ends[2]
        widths.append(np.mean(upper - lower) / np.quantile(np.abs(new - mean), 0.9) / 2.0)
    before, of_model, conformal = np.mean(held, axis=0)
    assert before < 0.75
    assert 0.83 < of_model < 0.96 and 0.83 < conformal < 0.97
    assert np.mean(widths) < 1.4


def test_all_variances_have_the_factor_and_means_have_none(model, same):
    factor, some = model.variance_factor_, X[-5:]
    assert takes_the_step(model) and not takes_the_step(same)
    assert factor > 1.2 and same.variance_factor_ == 1.0
    assert_allclose(model.predict(some), same.predict(some), atol=1e-10)
    assert_allclose(model.loo_predict().mean, same.loo_predict().mean, atol=1e-6)
    for variances in (
        lambda one: one.predict(some, return_std=True)[1] ** 2,
        lambda one: one.predict(some, return_cov=True)[1],
        lambda one: one.noise_std(some) ** 2,
        lambda one: one.loo_predict().std ** 2,
        lambda one: (one.sample_y(some, 3, random_state=0).T - one.predict(some)) ** 2,
    ):
        assert_allclose(variances(model), factor * variances(same), rtol=1e-6)
    drawn = model.sample_functions(500, random_state=0)(some)
    latent = np.sqrt(np.diag(model.predict(some, return_cov=True)[1]) - model.noise_std(some) ** 2)
    assert_allclose(drawn.std(axis=1), latent, rtol=0.15)


def test_order_units_and_pickles_change_nothing(model):
    some, order = X[-5:], RNG.permutation(N)
    std = model.predict(some, return_std=True)[1]
    other = fitted(X[TRAIN][order], 3.0 - 5.0 * Y[TRAIN][order], n_jobs=2)
    assert_allclose(other.predict(some, return_std=True)[1], 5.0 * std, rtol=1e-4)
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.predict(some, return_std=True)[1], std)
    ends = [one.predict_interval(some, 0.8, "conformal") for one in (model, loaded)]
    assert_array_equal(*ends)
    with_zero = SparseGPRegressor(random_state=0).fit(X[: N + 9], Y[: N + 9], np.arange(N + 9) < N)
    assert_allclose(with_zero.variance_factor_, model.variance_factor_, rtol=1e-4)
    ends.append(with_zero.predict_interval(some, 0.8, "conformal"))
    twice = fitted(np.vstack([X[TRAIN], X[:20]]), np.append(Y[TRAIN], Y[:20]))
    once = SparseGPRegressor(random_state=0).fit(X[TRAIN], Y[TRAIN], 1.0 + (np.arange(N) < 20))
    assert_allclose(twice.variance_factor_, once.variance_factor_, rtol=1e-4)
    assert_allclose(ends[2], ends[0], rtol=1e-3)


def test_known_noise_has_no_factor():
    assert fitted(alpha=1.0).variance_factor_ == 1.0
    kernel = ConstantKernel(10.0) * RBF(np.full(D, 10.0), (1.0, 1e4))
    alpha = np.where(np.arange(N) % 2, 1e-3, 1e-2)
    model = fitted(kernel=kernel, alpha=alpha)
    same = fitted(kernel=model.kernel_, alpha=alpha, optimizer=None)
    assert model.variance_factor_ > 1.2
    loo, other = model.loo_predict(), same.loo_predict()
    assert_allclose(loo.mean, other.mean, atol=1e-6)
    expected = model.variance_factor_ * (other.std**2 - alpha) + alpha
    assert_allclose(loo.std**2, expected, rtol=1e-6)


def test_targets_and_missing_values():
    y, Q = np.column_stack([Y, np.ones_like(Y)])[TRAIN], X[TRAIN, :30].copy()
    Q[RNG.uniform(size=Q.shape) < 0.01] = np.nan
    model = fitted(Q, y)
    assert takes_the_step(model) and model.variance_factor_ != 1.0
    lower, upper = model.predict_interval(X[-5:, :30], 0.9, "conformal")
    assert_allclose(lower[:, 1], upper[:, 1])
    assert np.all(lower[:, 0] < upper[:, 0])


def test_a_named_mean():
    kernel = ConstantKernel() * RBF(np.full(D, 5.0)) + WhiteKernel()
    model = fitted(kernel=kernel, mean="boosting")
    assert takes_the_step(model) and model.variance_factor_ != 1.0


def test_when_deviations_have_a_factor():
    assert not takes_the_step(fitted(X[TRAIN][:, :10]))
    assert not takes_the_step(fitted(X[:29], Y[:29]))
    assert not takes_the_step(fitted(kernel=RBF()))
    assert not takes_the_step(fitted(X[TRAIN], np.abs(np.rint(Y[TRAIN])), likelihood="poisson"))
    assert fitted(time_limit=1e-3).variance_factor_ == 1.0
    assert fitted(y=np.ones(N)).variance_factor_ == 1.0


def test_folds_that_cannot_be_fitted_tell_nothing(model):
    from skgp_sparse.steps import deviations

    def fail(*given):
        raise np.linalg.LinAlgError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deviations, "_predicted", fail)
        other = fitted()
    assert other.variance_factor_ == 1.0 and takes_the_step(other)


def test_labels_that_columns_do_not_tell_have_even_probabilities():
    rng = np.random.RandomState(1)
    Q, labels = rng.normal(size=(400, 80)), rng.randint(2, size=400)
    model = SparseGPClassifier(random_state=0).fit(Q[:80], labels[:80])
    alone = SparseGPClassifier(random_state=0, calibration=None).fit(Q[:80], labels[:80])
    assert model.calibration_.scale < 0.7 and alone.calibration_ is None
    loss = [log_loss(labels[80:], one.predict_proba(Q[80:])) for one in (model, alone)]
    assert loss[0] < loss[1] - 0.1

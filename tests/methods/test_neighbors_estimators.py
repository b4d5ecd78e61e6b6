"""Predictions from neighbours as an estimator: what it keeps, interrupts, later rows, sources."""

import pickle

import numpy as np
import pytest
from chunked_arrays import Arrays
from inside import _estimator
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.posteriors import Neighbors


def table(n=400, d=2, seed=0, dtype=float):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, size=(n, d)).astype(dtype)
    return X, np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=n)


def model(**parameters):
    posterior = Neighbors(n_neighbors=20, n_neighbors_fit=10)
    return SparseGPRegressor(**{"posterior": posterior, "random_state": 0} | parameters)


QUERIES = table(60, seed=1)[0]


def answers(fitted):
    return fitted.predict(QUERIES, return_std=True)


@pytest.mark.second
def test_the_fit_is_the_same_whatever_the_number_of_threads():
    X, y = table(800)
    one, two = (model(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert_array_equal(one.kernel_.theta, two.kernel_.theta)
    assert_array_equal(answers(one), answers(two))


@pytest.mark.second
def test_training_rows_are_as_they_were_passed():
    X, y = table()
    fitted = model(normalize_y=True).fit(X, y)
    assert_array_equal(fitted.X_train_, X)
    assert_allclose(fitted.y_train_, (y - y.mean()) / y.std(), rtol=1e-10)


@pytest.mark.second
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pickle_holds_the_rows_in_their_precision(dtype):
    X, y = table(dtype=dtype)
    X.setflags(write=False)
    y.setflags(write=False)
    fitted = model().fit(X, y)
    assert fitted._fitted.view.process.rows.X.dtype == dtype
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(answers(loaded), answers(fitted))
    theta = fitted.kernel_.theta + 0.1
    assert loaded.log_marginal_likelihood(theta) == fitted.log_marginal_likelihood(theta)


@pytest.fixture
def at_iteration(monkeypatch):
    """Lets an action happen at an iteration, whose answer tells whether to stop."""

    def let(number, action):
        class Reporter(_estimator.validation.IterationReporter):
            iterations = 0

            def report(self, *args):
                Reporter.iterations += 1
                return action() if Reporter.iterations == number else False

        monkeypatch.setattr(_estimator.validation, "IterationReporter", Reporter)

    return let


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("number", [1, 4, 12])
def test_a_fit_that_is_stopped_predicts(at_iteration, number):
    X, y = table()
    at_iteration(number, lambda: True)
    fitted = model().fit(X, y)
    mean, std = answers(fitted)
    assert np.isfinite(mean).all() and np.all(std > 0)
    assert fitted.n_iter_ <= number + 4  # later searches end after an iteration
    value = fitted.log_marginal_likelihood(fitted.kernel_.theta)
    assert_allclose(value, fitted.log_marginal_likelihood_value_)


@pytest.mark.second
def test_rows_that_arrive_later_have_inducing_points():
    X, y = table(1200)
    for metric in ("ard", "auto"):
        learned = model(metric=metric).fit(X[:600], y[:600])
        learned.set_params(posterior="auto", n_inducing=30).partial_fit(X[600:], y[600:])
        assert learned.posterior_ == "inducing" and learned.n_samples_seen_ == 1200
        assert learned.score(X, y) > 0.95


def test_a_source_is_read_or_refused(monkeypatch):
    X, y = table(600, dtype=np.float32)
    monkeypatch.setattr("skgp_sparse.data.door.is_small", lambda size: False)
    given = {"kernel": RBF(0.7) + WhiteKernel(0.1), "optimizer": None}
    fitted = model(**given).fit(Arrays(X, y, chunk_size=70))
    assert_allclose(answers(fitted), answers(model(**given).fit(X, y)), rtol=1e-6)
    monkeypatch.setattr("skgp_sparse.engine.neighbors._SHARE_OF_MEMORY", 0.0)
    with pytest.raises(ValueError, match="600 rows of a source take more than .*'inducing'"):
        model().fit(Arrays(X, y, chunk_size=70))

"""Predictions from neighbours as an estimator: what it keeps, interrupts, any number of rows."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgp_sparse import SparseGPRegressor, _estimator
from skgp_sparse._engine.data.array_dataset import ArrayDataset
from skgp_sparse._engine.neighbors.nearest import distinct_rows
from skgp_sparse._engine.neighbors.visited_rows import TableRows
from skgp_sparse._engine.predictions.posterior import float64
from skgp_sparse.posteriors import Neighbors
from skgp_sparse.sources import Arrays, Stream


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
    assert fitted._view.process.rows.X.dtype == dtype
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(answers(loaded), answers(fitted))
    theta = fitted.kernel_.theta + 0.1
    assert loaded.log_marginal_likelihood(theta) == fitted.log_marginal_likelihood(theta)


@pytest.fixture
def at_iteration(monkeypatch):
    """Lets an action happen at an iteration, whose answer tells whether to stop."""

    def let(number, action):
        class Reporter(_estimator.IterationReporter):
            iterations = 0

            def report(self, *args):
                Reporter.iterations += 1
                return action() if Reporter.iterations == number else False

        monkeypatch.setattr(_estimator, "IterationReporter", Reporter)

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
@pytest.mark.parametrize("number", [1, 4])
def test_a_fit_that_is_interrupted_leaves_no_trace(at_iteration, number):
    def interrupt():
        raise KeyboardInterrupt

    X, y = table()
    fitted = model().fit(X, y)
    before, state = answers(fitted), dict(vars(fitted))
    at_iteration(number, interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X[:300] + 1.0, y[:300])
    assert vars(fitted) == state
    assert_array_equal(answers(fitted), before)


def test_rows_that_arrive_later_are_neighbours_at_once():
    X, y = table(1000)
    X[700:750] = X[:50]
    given = {"kernel": RBF(0.7) + WhiteKernel(0.1), "optimizer": None, "normalize_y": False}
    expected = model(**given).fit(X, y)
    chunks = [slice(0, 15), slice(15, 300), *(slice(k, k + 70) for k in range(300, 1000, 70))]
    streamed = model(**given)
    for rows in chunks:
        streamed.partial_fit(X[rows], y[rows])
    continued = model(**given).fit(X[:600], y[:600]).partial_fit(X[600:], y[600:])
    for one in (streamed, continued, pickle.loads(pickle.dumps(streamed))):
        assert_allclose(answers(one), answers(expected), rtol=1e-9)
        assert one.posterior_ == "neighbors" and one.n_samples_seen_ == 1000
    assert len(streamed._view.process.rows.pieces) < 5
    assert not hasattr(streamed, "inducing_points_")  # which the exact process of few rows had
    loaded = pickle.loads(pickle.dumps(continued)).partial_fit(X[:9] + 3.0, y[:9])
    assert_allclose(loaded.predict(X[:9] + 3.0), y[:9], atol=0.7)


@pytest.mark.second
def test_hyperparameters_move_when_rows_have_doubled_or_changed():
    X, y = table(1600)
    streamed = model().partial_fit(X[:200], y[:200])
    first = streamed.kernel_.theta
    streamed.partial_fit(X[200:300], y[200:300])
    assert_array_equal(streamed.kernel_.theta, first)
    streamed.partial_fit(X[300:800], y[300:800])
    assert np.any(streamed.kernel_.theta != first)
    doubled = streamed.kernel_.theta
    streamed.partial_fit(X[800:1200], y[800:1200])
    assert_array_equal(streamed.kernel_.theta, doubled)
    streamed.partial_fit(X[1200:], -y[1200:])  # rows before mislead
    assert np.any(streamed.kernel_.theta != doubled)
    assert np.corrcoef(streamed.predict(X[1200:]), -y[1200:])[0, 1] > 0.9


def large_table():
    """Rows in chunks of 70: some are there twice, in other chunks; some weigh nothing."""
    X, y = table(600, dtype=np.float32)
    X[400:450], weight = X[10:60], np.arange(600) % 4 * 0.5
    return X, y, weight


@pytest.fixture
def few_in_memory(monkeypatch):
    """Tables of a few hundred rows are too large for memory."""
    monkeypatch.setattr("skgp_sparse.rows.survey.is_small", lambda size: False)
    monkeypatch.setattr("skgp_sparse._engine.neighbors.visited_rows._SHARE_OF_MEMORY", 0.0)
    monkeypatch.setattr("skgp_sparse._engine.data.dataset._BLOCK_BYTES", 8 * 70)
    monkeypatch.setattr("skgp_sparse._engine.data.dataset._FEWEST_ROWS", 70)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blocks_of_a_table_find_what_all_rows_do(few_in_memory, n_jobs):
    X, y, weight = large_table()
    noise = np.arange(600) % 2 * 0.1
    rows = ArrayDataset(X, y[:, None], noise, weight)
    known, Q = distinct_rows(X, rows.everything()), QUERIES.astype(float)
    chosen = np.flatnonzero(weight)[::3]
    for k in (7, 300):
        places, near = known.search(float64).around(Q, k)
        found, of_found = TableRows(rows).search(float64).around(Q, k, n_jobs)
        for one, other in zip(places[:4], found[:4]):
            assert_allclose(one[near], other[of_found], rtol=1e-14)
        block = rows.block(chosen)
        groups = [known.of(chosen, block), found.of(chosen, block)]
        there = groups[1] >= 0
        assert there.all() == (k == 300)
        assert_array_equal(places.X[groups[0][there]], found.X[groups[1][there]])


@pytest.mark.second
@pytest.mark.parametrize("k", [20, 300])
def test_a_source_of_any_size_is_fitted_as_its_rows(few_in_memory, k):
    X, y, weight = large_table()
    alpha = np.arange(600) % 3 * 0.01
    posterior = Neighbors(n_neighbors=k, n_neighbors_fit=10)
    given = {"kernel": RBF(0.7) + WhiteKernel(0.1), "alpha": alpha, "posterior": posterior}
    given["optimizer"] = None  # which random rows are left out depends on their order
    source = Arrays(X, y, weight, chunk_size=70)
    fitted, expected = model(**given).fit(source), model(**given).fit(X, y, weight)
    assert fitted._view.process.n_rows_kept == 0
    assert_allclose(fitted.kernel_.theta, expected.kernel_.theta, rtol=1e-6)
    assert_allclose(answers(fitted), answers(expected), rtol=1e-6)
    for one in (fitted, pickle.loads(pickle.dumps(fitted))):
        assert_array_equal(answers(one), answers(fitted))
        cov = one.predict(QUERIES, return_cov=True)[1]
        assert_allclose(np.sqrt(cov.diagonal()), answers(fitted)[1], rtol=1e-7)
    with pytest.raises(AttributeError, match="no X_train_: its rows came from"):
        _ = fitted.X_train_


@pytest.mark.second
def test_a_source_that_cannot_be_pickled_says_so(few_in_memory):
    X, y, _ = large_table()
    fitted = model().fit(Stream(lambda: iter([(X, y)])))
    assert np.isfinite(answers(fitted)).all()
    with pytest.raises(TypeError, match="from the rows of its source, which cannot be pickled"):
        pickle.dumps(fitted)

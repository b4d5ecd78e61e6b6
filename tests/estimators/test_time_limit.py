"""A limit of time: fits end early with a valid model. No test looks at a clock of the world."""

import warnings
from itertools import count

import numpy as np
import pytest
from inside import Deadline, parallel, plan
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, (700, 2))
Y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * RNG.normal(size=len(X))
LABELS = np.digitize(Y, [-0.3, 0.3])
SPARSE = {"n_inducing": 20, "random_state": 0}


@pytest.fixture
def ticks(monkeypatch):
    """A clock that goes on by a second whenever somebody looks at it."""
    monkeypatch.setattr(parallel, "monotonic", count().__next__)


def test_a_deadline_comes_once_and_says_so_once(ticks):
    told = []
    moment = Deadline(2.5, lambda: told.append("over"))
    assert [moment.is_over() for _ in range(4)] == [False, False, True, True]
    assert told == ["over"]


def test_items_come_until_the_deadline(ticks):
    assert list(Deadline(3.5).until("abcdef")) == ["a", "b", "c"]
    assert list(Deadline().until("abcdef")) == list("abcdef")


def test_what_may_begin_depends_on_the_time_that_has_gone(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(parallel, "monotonic", lambda: now[0])
    moment = Deadline(6.0)
    now[0] = 14.0
    assert moment.allows(0.5) and not moment.allows(0.51) and Deadline().allows(1e9)


def test_what_is_done_in_turn_shares_the_time(monkeypatch):
    monkeypatch.setattr(parallel, "monotonic", lambda: 10.0)
    assert Deadline(6.0).share(3).left() == 2.0
    assert Deadline().share(3).left() == np.inf


MODELS = [
    SparseGPRegressor(n_inducing=1000),
    SparseGPRegressor(n_inducing=1000, n_restarts_optimizer=3, kernel=ConstantKernel() * RBF()),
    SparseGPRegressor(**SPARSE),
    SparseGPRegressor(**SPARSE, solver="stochastic"),
    SparseGPRegressor(posterior="rows", n_inducing=50, random_state=0),
    SparseGPRegressor(posterior="neighbors", random_state=0),
    SparseGPRegressor(likelihood="student_t", **SPARSE),
    SparseGPClassifier(**SPARSE),
    SparseGPClassifier(n_jobs=2, **SPARSE),
    SparseGPClassifier(multi_class="softmax", **SPARSE),
]


@pytest.mark.second(share=0.09)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_without_time_a_fit_ends_at_once_with_a_valid_model(model):
    y = LABELS if isinstance(model, SparseGPClassifier) else Y
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(time_limit=0).fit(X, y)
    assert model.n_iter_ == 1
    assert np.isfinite(model.log_marginal_likelihood_value_)
    assert model.score(X, y) > -0.1


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_a_selection_without_time_has_one_trial(likelihood, monkeypatch):
    monkeypatch.setattr(plan, "EXACT_ROWS", 100)
    model = SparseGPRegressor(likelihood=likelihood, time_limit=0, random_state=0).fit(X, Y)
    assert model.posterior_ == "neighbors" and len(model.selection_) == 1
    assert model.score(X, Y) > -0.1


@pytest.mark.second
def test_the_optimiser_stops_after_the_limit(ticks):
    noisy = ConstantKernel() * RBF() + WhiteKernel()
    kernel = {"kernel": noisy, "tol": 1e-10, "n_inducing": 1000, "random_state": 0}
    short, longer = (SparseGPRegressor(**kernel, time_limit=t).fit(X, Y) for t in (20, 40))
    assert 1 < short.n_iter_ < longer.n_iter_


@pytest.mark.second
def test_a_long_limit_changes_nothing():
    limited, free = (SparseGPRegressor(**SPARSE, time_limit=t).fit(X, Y) for t in (1e6, None))
    np.testing.assert_array_equal(limited.kernel_.theta, free.kernel_.theta)


@pytest.mark.second(share=0.31)
@pytest.mark.parametrize("limit, times", [(0, 1), (1e6, 0)])
def test_verbose_says_that_the_limit_is_over(limit, times, capsys):
    SparseGPRegressor(**SPARSE, time_limit=limit, verbose=1000).fit(X, Y)
    assert capsys.readouterr().out.count(f"time_limit={limit:g} is over") == times


def test_rows_that_arrive_later_have_a_limit_for_every_call():
    model = SparseGPRegressor(**SPARSE, time_limit=0).partial_fit(X[:300], Y[:300])
    assert model.partial_fit(X[300:], Y[300:]).score(X, Y) > -0.1


@pytest.mark.parametrize("limit", [-1, "1 min", True, np.nan])
def test_what_is_no_time_is_refused(limit):
    with pytest.raises(ValueError, match="'time_limit' parameter of SparseGPRegressor must be"):
        SparseGPRegressor(time_limit=limit).fit(X, Y)

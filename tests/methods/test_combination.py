"""Neighbours and a global process, which are learned together and answer as one process."""

import pickle

import inside
import numpy as np
import pytest
from conftest import agree
from numpy.testing import assert_allclose

from skgp_sparse import SparseGPRegressor


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch):
    monkeypatch.setattr(inside.plan, "EXACT_ROWS", 50)
    monkeypatch.setattr(inside.plan, "EXACT_RIVAL", 60)


def groups(n_targets=1, seed=0):
    """Groups of rows that lie near each other, on a smooth trend; the last groups are new ones."""
    rng = np.random.RandomState(seed)
    place = np.repeat(rng.uniform(-3, 3, size=(110, 2)), 4, axis=0)
    X = place + 0.02 * rng.normal(size=place.shape)
    own = np.repeat(rng.normal(size=(110, n_targets)), 4, axis=0)
    y = 2 * np.sin(X[:, :1]) + X[:, 1:] + 0.5 * own + 0.05 * rng.normal(size=(440, n_targets))
    y = 1e3 * (y[:, 0] if n_targets == 1 else y)
    return X[:360], y[:360], X[360:], y[360:]


@pytest.fixture(scope="module")
def fitted():
    X, y, _, _ = groups()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inside.plan, "EXACT_ROWS", 50)
        patch.setattr(inside.plan, "EXACT_RIVAL", 60)
        return SparseGPRegressor(random_state=0).fit(X, y)


@pytest.mark.second
def test_new_groups_are_predicted_as_well_as_by_neighbors(fitted):
    X, y, new, truth = groups()
    assert fitted.posterior_ == "neighbors+inducing"
    assert "global process" in fitted.selection_.steps
    assert fitted.selection_[-1].name == "neighbors+inducing"
    near = SparseGPRegressor(posterior="neighbors", random_state=0).fit(X, y)
    assert fitted.score(new, truth) > near.score(new, truth) - 0.02
    far = fitted.predict([[50.0, 50.0]], return_std=True)[1][0]
    assert 0.5 < far / y.std() < 3.0


@pytest.mark.second
def test_it_is_one_process_to_everything_above_it(fitted):
    X, y, new, _ = groups()
    mean, std = fitted.predict(new, return_std=True)
    again = pickle.loads(pickle.dumps(fitted))
    assert all(
        np.array_equal(a, b) for a, b in zip(again.predict(new, return_std=True), (mean, std))
    )
    loo = fitted.loo_predict()
    assert np.isfinite(loo.log_density).all() and np.corrcoef(loo.mean, y)[0, 1] > 0.9
    assert_allclose(again.loo_predict().mean, loo.mean, rtol=1e-9)
    cov = fitted.predict(new, return_cov=True)[1]
    agree(np.sqrt(cov.diagonal()), std, 1e-9)
    draws = fitted.sample_y(new[:5], n_samples=3000, random_state=0)
    assert_allclose(draws.mean(axis=1), mean[:5], atol=0.2 * std[:5].max())
    low, high = fitted.predict_interval(new, 0.9, method="conformal")
    assert (low < mean).all() and (mean < high).all()


@pytest.mark.second
def test_jobs_change_nothing_and_several_targets_are_taken():
    X, y, new, truth = groups(2)
    first, other = (
        SparseGPRegressor(random_state=0, mean=None, n_jobs=n).fit(X, y) for n in (1, 2)
    )
    assert first.posterior_ == other.posterior_ == "neighbors+inducing"
    assert_allclose(first.predict(new), other.predict(new), rtol=1e-6)
    assert first.score(new, truth) > 0.5


@pytest.mark.second
def test_units_of_the_targets_do_not_matter(fitted):
    X, y, new, _ = groups()
    other = SparseGPRegressor(random_state=0).fit(X, y / 1e3)
    assert_allclose(1e3 * other.predict(new), fitted.predict(new), rtol=1e-3, atol=1.0)


def test_weights_find_who_is_right():
    rng = np.random.RandomState(0)
    truth, is_near = rng.normal(size=(400, 1)), np.arange(400) < 200
    v1 = np.where(is_near, 0.01, 4.0)
    local = truth + np.sqrt(v1)[:, None] * rng.normal(size=(400, 1))
    other = truth + 0.5 * rng.normal(size=(400, 1))
    noise = np.full(400, 1e-4)
    weights = inside.CombinationWeights(0.0, 1.5, 1e-4)
    mean, _, weight = weights.combined((local, v1, noise), (other, np.full(400, 0.25), noise))
    assert weight[is_near].min() > 0.9 and weight[~is_near].max() < 0.1
    errors = [np.mean((one - truth) ** 2) for one in (mean, local, other)]
    assert errors[0] < min(errors[1:])

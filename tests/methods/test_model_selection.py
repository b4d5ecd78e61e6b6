"""The model selection of "auto" with Gaussian noise: subsets, the exact rival, who leaves when."""

import pickle
import warnings
from functools import partial
from unittest.mock import Mock

import inside
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.bounds import Titsias
from skgp_sparse.hyperpriors import NO_PRIOR


def additive(n, noise=0.3, seed=0):
    """Rows of a smooth sum over six columns, where near rows say little."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, size=(n, 6))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + X[:, 2] + 0.5 * X[:, 3] - np.cos(X[:, 4])
    return X, f + noise * rng.normal(size=n)


@pytest.fixture
def soon_many(monkeypatch):
    """Few rows are many, so that there is a selection."""
    monkeypatch.setattr(inside.plan, "EXACT_ROWS", 100)
    monkeypatch.setattr(inside.plan, "EXACT_QUIET", 100)


def test_the_exact_process_wins_where_near_rows_say_little(soon_many):
    X, y = additive(500)
    model = SparseGPRegressor(random_state=0, noise="constant").fit(X, y)
    assert model.posterior_ == "exact" and model.n_inducing_ == 500
    names = [candidate.name for candidate in model.selection_]
    assert names == ["neighbors (nu=1.5, 40 neighbors)", "exact"]  # who is far behind leaves
    loo = model.loo_predict()
    exact = model.selection_[1]
    assert abs(exact.density - loo.log_density.mean()) < 0.15  # of half of the rows
    assert abs(exact.rmse - np.sqrt(np.mean((loo.mean - y) ** 2))) < 0.05


def test_the_density_of_the_exact_rival_is_that_of_leaving_rows_out(soon_many, monkeypatch):
    X, y = additive(160)
    judged = []
    judge = inside.ValidationSet.score

    def keep(self, name, mean, variance):
        judged.append((self.block.X, mean[:, 0], variance))
        return judge(self, name, mean, variance)

    monkeypatch.setattr(inside.ValidationSet, "score", keep)
    failure = np.linalg.LinAlgError("no factor")
    monkeypatch.setattr(inside.NearestNeighborSearch, "first", Mock(side_effect=failure))
    model = SparseGPRegressor(random_state=0, noise="constant").fit(X, y)
    held, mean, variance = judged[0]
    K = model.kernel_(X)
    for x, m, v in zip(held[:5], mean, variance):
        row = int(np.flatnonzero((X == x).all(axis=1))[0])
        rest = np.arange(len(y)) != row
        k, A = K[row, rest], K[np.ix_(rest, rest)]
        centred = (y - y.mean()) / y.std()
        assert_allclose(m, k @ np.linalg.solve(A, centred[rest]), rtol=1e-8, atol=1e-9)
        assert_allclose(v, K[row, row] - k @ np.linalg.solve(A, k), rtol=1e-8)


def test_the_exact_process_loses_ties_and_inducing_points_win_them():
    rows, count = np.zeros(100), np.ones(100)
    tie = inside.ValidationScore(rows, count), inside.ValidationScore(rows, count)
    exact, points = (partial(one.wins, one) for one in (inside.ExactRival, inside.RivalOfPoints))
    assert not exact(*tie) and points(*tie)
    ahead = inside.ValidationScore(rows + 1.0, count), inside.ValidationScore(rows, count)
    assert exact(*ahead) and not points(*ahead[::-1])
    both = inside.ValidationScore.joined(ahead)
    assert len(both.of_rows) == 200 and both.density == 0.5


@pytest.mark.second
def test_rows_that_are_left_out_for_the_noise_are_not_combined(soon_many):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(300, 2))
    y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + X[:, 0] + 0.1 * rng.normal(size=300)
    model = SparseGPRegressor(mean=None, random_state=0).fit(X, y)
    fit = model._fitted.fits[0]
    known = fit.left_out
    assert model.posterior_ == "neighbors+inducing"
    alone = fit.with_fit(posterior=known.posterior, combination=None)._replace(left_out=None)
    again = inside.left_out(alone, known.chosen, 1)
    assert_allclose(known.mean, again.mean, rtol=1e-12)
    assert_allclose(known.variance, again.variance, rtol=1e-12)


@pytest.mark.second
def test_more_rows_have_no_exact_rival(soon_many, monkeypatch):
    monkeypatch.setattr(inside.plan, "EXACT_RIVAL", 200)
    X, y = additive(400)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    names = [candidate.name for candidate in model.selection_]
    assert "inducing (8 iterations)" in names and "exact" not in names


def job_of(kernel, X, y):
    """The `Job` that an exact fit is given."""
    model, made = SparseGPRegressor(kernel, n_inducing=50, posterior="exact"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inside.Exact, "fit", lambda self, job, state: made.append(job) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.fit(X, y)
    return made[0]


@pytest.mark.second
def test_subsets_go_on_from_one_another():
    X, y = additive(1500)
    kernel = ConstantKernel() * RBF(np.ones(6)) + WhiteKernel(0.5)
    job = job_of(kernel, X, y)
    begun, curvature = inside.on_subsets(job, np.random.RandomState(0))
    assert curvature.pairs and begun.settings.n_restarts == 0
    objective = job.objectives.exact(job.rows, job.settings.options)
    best = SparseGPRegressor(kernel, posterior="exact", random_state=0).fit(X, y)
    gap = objective.value(best.kernel_) - objective.value(begun.kernel)
    assert 0 <= gap < 0.02 * len(y)
    assert objective.value(job.kernel) < objective.value(begun.kernel) - 100


@pytest.mark.second
def test_noise_of_subsets_may_be_as_small_as_that_of_few_rows():
    X = np.random.RandomState(0).uniform(-2.0, 2.0, size=(600, 2))
    job = job_of(None, X, np.exp(X.sum(axis=1) / 2.0))
    noise = inside.on_subsets(job, np.random.RandomState(0))[0].kernel.k2.noise_level
    assert noise < 0.1 * job.kernel.k2.noise_level_bounds[0]


def test_noise_that_few_rows_put_at_nothing_is_raised():
    X, y = additive(300, noise=1.0)
    rows = inside.ArrayDataset(X, y[:, None] / y.std())
    objective = inside.GaussianObjectives(Titsias()).exact(
        rows, job_of(RBF(), X, y).settings.options
    )
    quiet = ConstantKernel() * RBF(np.full(6, 4.0)) + WhiteKernel(1e-6, (1e-8, 10.0))
    raised = inside.with_likeliest_noise(objective, quiet, NO_PRIOR)
    assert_allclose(raised.k2.noise_level, 1e-6 * np.exp(6.0))
    loud = quiet.clone_with_theta(np.append(quiet.theta[:-1], np.log(0.3)))
    assert inside.with_likeliest_noise(objective, loud, NO_PRIOR) is loud
    without = ConstantKernel() * RBF(np.ones(6))
    assert inside.with_likeliest_noise(objective, without, NO_PRIOR) is without


@pytest.mark.second
def test_exact_fits_of_many_rows_converge_for_a_kernel_of_the_user_only():
    X, y = additive(700)
    kernel = ConstantKernel() * RBF(np.ones(6)) + WhiteKernel(0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
        SparseGPRegressor(random_state=0).fit(X, y)
    _, slope = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    assert np.abs(slope).max() < 0.02 * len(y)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        SparseGPRegressor(kernel, random_state=0, max_iter=1).fit(X, y)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_pickles_of_exact_fits_have_no_factor(n_targets):
    X, y = additive(1100)
    y = y if n_targets == 1 else np.column_stack([y, -y + X[:, 0]])
    alpha = np.linspace(0.05, 0.2, len(X))
    kernel = RBF(2.0) + WhiteKernel(0.05)
    given = {"optimizer": None, "posterior": "exact", "alpha": alpha}
    model = SparseGPRegressor(kernel, **given).fit(X, y)
    text = pickle.dumps(model)
    assert len(text) < 8 * 1100**2 / 10
    again = pickle.loads(text)
    for name in ({"return_std": True}, {"return_cov": True}):
        for one, other in zip(model.predict(X[:30], **name), again.predict(X[:30], **name)):
            assert np.array_equal(one, other)
    means = pickle.loads(pickle.dumps(again))
    assert np.array_equal(means.predict(X[:30]), model.predict(X[:30]))


@pytest.mark.parametrize("noise, least, most", [(2.0, 10, 20), (0.0, 30, 50)])
def test_noisy_rows_have_few_inducing_points_where_nobody_asked_for_a_number(
    soon_many, monkeypatch, noise, least, most
):
    monkeypatch.setattr(inside.plan, "POINTS", 50)
    X, y = additive(400, noise)
    given = {"posterior": "inducing", "noise": "constant", "mean": None, "random_state": 0}
    model = SparseGPRegressor(**given, max_iter=20).fit(X, y)
    assert least <= model.n_inducing_ <= most
    assert SparseGPRegressor(**given, n_inducing=45, max_iter=2).fit(X, y).n_inducing_ == 45


def test_a_run_has_at_most_as_many_rows_as_it_asks_for():
    X, y = additive(3000)
    validation = inside.ValidationSet(inside.ArrayDataset(X, y[:, None]), np.random.RandomState(0))
    chosen, count, _ = validation.others(500)
    assert len(chosen) == len(count) == 500 and np.all(np.diff(chosen) > 0)
    assert not np.isin(chosen, validation.chosen).any()

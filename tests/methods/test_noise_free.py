"""Fits of functions without noise: every posterior ends, and whatever was optional loses."""

import warnings

import numpy as np
import pytest
from conftest import raising
from inside import (
    ExactRival,
    Jitter,
    NearestNeighborSearch,
    RivalOfPoints,
    if_possible,
    jittered_cholesky,
    whitened,
)
from inside import heteroscedastic_noise as varying_noise
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

POSTERIORS = "auto", "exact", "inducing", "fourier", "neighbors", "rows"
FUNCTIONS = {
    "linear": lambda X: X @ np.arange(1.0, X.shape[1] + 1.0),
    "exponential": lambda X: np.exp(X.sum(axis=1) / 2.0),
    "cubic": lambda X: X[:, 0] ** 3 + X[:, 0] * X[:, -1],
    "sine": lambda X: np.sin(3.0 * X[:, 0]) + X.sum(axis=1) ** 2,
    "step": lambda X: np.where(X[:, 0] > 0.0, 1.0, 0.0),
    "constant": lambda X: np.ones(len(X)),
}
KERNELS = {"default": {}, "given": {"kernel": ConstantKernel(25.0) * RBF(2.0), "alpha": 1e-10}}
fail = raising(np.linalg.LinAlgError("no factor"))


def table(d, n, function="exponential", seed=0):
    X = np.random.RandomState(seed).uniform(-2.0, 2.0, size=(n, d))
    return X, FUNCTIONS[function](X)


def check(posterior, X, y, **options):
    options = {"random_state": 0, "max_iter": 5} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations do not converge
        model = SparseGPRegressor(posterior=posterior, **options).fit(X, y)
        answers = model.predict(X[:9], return_std=True)
    assert all(np.isfinite(answer).all() for answer in answers)
    return model


@pytest.mark.second(share=0.01, thin=2)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("d", range(1, 7))
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_few_rows(posterior, d, function, kernel):
    check(posterior, *table(d, 30, function, seed=d), **KERNELS[kernel])


@pytest.mark.second(share=0.02, thin=1)
@pytest.mark.parametrize("n", [120, pytest.param(300, marks=pytest.mark.full(share=0.0))])
@pytest.mark.parametrize("d", range(1, 7))
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_more_rows(posterior, d, n):
    for kernel in KERNELS.values():
        table_of = table(d, n, list(FUNCTIONS)[d % 5], seed=d)
        check(posterior, *table_of, **kernel, max_iter=3)


def test_neighbors_predict_a_smooth_function():
    X, y = table(2, 150)
    new, truth = table(2, 50, seed=1)
    model = check("neighbors", X, y)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.01 * np.std(truth)


@pytest.mark.second(share=0.43)
@pytest.mark.parametrize("d", [1, 3])
def test_neighbors_of_separable_labels(d):
    X = table(d, 150)[0]
    labels = X[:, 0] > 0.0
    options = {"posterior": "neighbors", "max_iter": 5, "random_state": 0}
    assert SparseGPClassifier(**options).fit(X, labels).score(X, labels) > 0.95


def test_small_matrices_get_the_jitter_that_they_take():
    P = np.linspace(0.0, 1.0, 40)
    A = np.exp(-0.5 * (P[:, None] - P) ** 2)
    stack = np.stack([A, np.eye(40), A - 1e-11 * np.eye(40)])
    L, V = whitened(stack, np.ones((3, 40, 1)), unit=1.0)
    np.testing.assert_allclose(L @ L.transpose(0, 2, 1), stack, atol=1e-9)
    assert np.isfinite(V).all()
    np.testing.assert_array_equal(L[1], np.eye(40))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite, even with"):
        whitened(np.stack([A, -np.eye(40)]), np.ones((2, 40, 1)), unit=1.0)
    with pytest.raises(np.linalg.LinAlgError, match="The kernel matrix contains NaN or infinite"):
        jittered_cholesky(A * np.nan, Jitter())


def test_optional_steps_lose_by_numerical_failures_only():
    assert if_possible(abs, -2) == 2
    assert if_possible(fail) is None
    assert if_possible(raising(OverflowError()), otherwise=3) == 3
    with pytest.raises(ValueError, match="other"):
        if_possible(raising(ValueError("other")))


@pytest.mark.second(share=0.38)
@pytest.mark.parametrize("step", ["mixed", "_of_smoothness"])
def test_searches_of_neighbors_go_on_without_a_step(monkeypatch, step):
    monkeypatch.setattr(NearestNeighborSearch, step, fail)
    assert check("neighbors", *table(2, 120)).posterior_ == "neighbors"


def test_a_search_of_neighbors_needs_one_start(monkeypatch):
    objective, calls = NearestNeighborSearch.objective, []

    def once(self, *given, **options):
        calls.append(given)
        return objective(self, *given, **options) if len(calls) > 1 else fail()

    monkeypatch.setattr(NearestNeighborSearch, "objective", once)
    check("neighbors", *table(2, 120))
    monkeypatch.setattr(NearestNeighborSearch, "objective", fail)
    with pytest.raises(np.linalg.LinAlgError, match="no factor"):
        check("neighbors", *table(2, 120))


@pytest.mark.second(share=0.05, thin=1)
@pytest.mark.parametrize("rival", [ExactRival, RivalOfPoints])
@pytest.mark.parametrize(
    ("failing", "neighbors_win"),
    [
        (["neighbors.first"], False),
        (["neighbors.refined"], None),
        (["neighbors.with_neighbors"], None),
        (["rival.first", "rival.again"], True),
        (["rival.again"], None),
        (["rival.fit"], True),
    ],
)
def test_who_fails_is_not_selected(monkeypatch, rival, failing, neighbors_win):
    for name in failing:
        who, step = name.split(".")
        monkeypatch.setattr(NearestNeighborSearch if who == "neighbors" else rival, step, fail)
    monkeypatch.setattr("skgp_sparse.choices.plan.EXACT_ROWS", 50)
    monkeypatch.setattr("skgp_sparse.choices.plan.EXACT_QUIET", 50)
    limit = 5000 if rival is ExactRival else 50
    monkeypatch.setattr("skgp_sparse.choices.plan.EXACT_RIVAL", limit)
    X, y = table(2, 200, "sine")
    noisy = y + np.random.RandomState(0).normal(size=len(y))
    model = check("auto", X, noisy, n_inducing="auto")
    of_neighbors = "neighbors", "neighbors+inducing"
    assert model.posterior_ in (*of_neighbors, "exact" if rival is ExactRival else "inducing")
    if neighbors_win is not None:
        assert (model.posterior_ in of_neighbors) == neighbors_win


def test_varying_noise_loses_where_it_fails(monkeypatch):
    X, y = table(2, 120, "sine")
    monkeypatch.setattr(varying_noise, "_varied", fail)
    assert check("exact", X, y).posterior_ == "exact"
    with pytest.raises(np.linalg.LinAlgError, match="no factor"):
        check("exact", X, y, noise="learned")


@pytest.mark.parametrize(("noise", "posterior"), [(0.0, "exact"), (1.0, "inducing")])
def test_inducing_points_give_way_to_the_exact_process_of_quiet_rows(monkeypatch, noise, posterior):
    monkeypatch.setattr("skgp_sparse.choices.plan.EXACT_ROWS", 50)
    monkeypatch.setattr("skgp_sparse.choices.plan.POINTS", 40)
    X, y = table(2, 120, "sine")
    y = y + noise * np.random.RandomState(1).normal(size=len(y))
    model = check("inducing", X, y)
    assert "exact if quiet" in model.selection_.steps and model.posterior_ == posterior

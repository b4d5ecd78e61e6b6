"""The kernel of levels: rules, dense algebra, levels that were not seen, and estimators with it."""

import numpy as np
import pandas as pd
import pytest
from chunked_arrays import Arrays
from inside import _leaves, moments
from kernel_cases import check_stack
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, inducing, kernels
from skgp_sparse.kernels import Categorical, Columns, Sphere
from skgp_sparse.testing import check_kernel_rule

RNG = np.random.RandomState(0)
X = np.column_stack([RNG.uniform(0.1, 2.0, 30), RNG.randint(0, 4, 30), RNG.randint(0, 6, 30)])
KERNELS = [
    Columns(Categorical(), 1),
    Columns(Categorical(correlation=0.2, correlation_bounds="fixed"), 2),
    Columns(Categorical(correlation=0.2), 1) * Columns(RBF(), 0) + WhiteKernel(0.1),
    Columns(Categorical(correlation_bounds="fixed"), 2) ** 2 + Columns(Categorical(), 1),
    Columns(Categorical(correlation=np.array([0.2, 0.7])), [1, 2]) * Columns(RBF(), 0),
    Columns(Categorical(correlation=0.4), [1, 2]) + Columns(RBF(), 0),
]


@pytest.mark.second(share=0.33)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rules(kernel):
    check_kernel_rule(kernel, X)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gradient_of_the_kernel_itself(kernel):
    K, gradient = kernel(X, eval_gradient=True)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert gradient.shape == (*K.shape, len(kernel.theta))
    for step, found in zip(1e-6 * np.eye(len(kernel.theta)), gradient.transpose(2, 0, 1)):
        up, down = (kernel.clone_with_theta(kernel.theta + sign * step) for sign in (1, -1))
        np.testing.assert_allclose((up(X) - down(X)) / 2e-6, found, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_many_point_sets_and_single_precision(kernel):
    check_stack(kernel, X[:24].reshape(4, 6, 3), inputs=False)
    tile = kernels.single(kernel, X)
    if tile is not None:
        found = tile(slice(0, 9), slice(3, 30))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, kernel(X[:9], X[3:]), atol=1e-6)


CODES = {
    "two levels": [0.0, 1.0],
    "as many as rows": np.arange(400.0),
    "not seen": [0.0, 1.0, -1.0, -2.0],
    "identifiers": [7.0, 7.0 + 2.0**8, 7.0 + 2.0**16, 7.0 + 2.0**32, 8.0],
    "beyond all codes": [np.nan, -np.inf, np.inf, 1e300, 0.0],
}


def linearized(kernel, A, B):
    return kernels.linearize_stack(kernel, A) if A.ndim == 3 else kernels.linearize(kernel, A, B)


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("q, n_at_once", [(1, 1 << 18), (8, 1 << 18), (9, 20), (21, 20)])
@pytest.mark.parametrize("values", CODES.values(), ids=CODES)
def test_columns_agree_as_they_do_one_by_one(monkeypatch, values, q, n_at_once):
    monkeypatch.setattr(_leaves, "_PAIRS_AT_ONCE", n_at_once)
    rng = np.random.RandomState(0)
    kernel = Categorical(correlation=rng.uniform(0.1, 0.999, q))
    log_rho = np.log(kernel.correlation)
    P = rng.choice(values, (7, 5, q))
    for A, B in ((P, P), (P[:, 0], P[:, 1]), (P[:3, 0], P[:, 0]), (P[:2, 0], P[:1, 0])):
        a, b = (np.clip(np.nan_to_num(one, nan=-np.inf), -1e15, 1e15) for one in (A, B))
        differ = np.array([a[..., :, None, j] != b[..., None, :, j] for j in range(q)])
        K, pull = linearized(kernel, A, B)
        np.testing.assert_allclose(K, np.exp(np.tensordot(log_rho, differ, 1)), rtol=1e-13)
        G = rng.normal(size=K.shape)
        G = G + np.swapaxes(G, -1, -2) if G.ndim == 3 else G
        slopes, bar = pull(G.copy(), True)
        expected = log_rho * (differ * (G * K)).reshape(q, -1).sum(axis=1)
        np.testing.assert_allclose(slopes, expected, atol=1e-13 * np.abs(G * K).sum())
        assert not np.any(bar)


def data(n=400, levels=6):
    rng = np.random.RandomState(0)
    x, code = rng.uniform(-2, 2, n), rng.randint(0, levels, n)
    shift = np.repeat([-1.0, 1.0], levels // 2)[code]  # levels are alike in two groups
    frame = pd.DataFrame({"x": x, "kind": code})
    return frame, np.sin(2 * x) + shift * (1 + 0.5 * x) + 0.1 * rng.normal(size=n)


def mixed():
    x, kind = Columns(Matern(nu=2.5), "x"), Columns(Categorical(), "kind")
    return ConstantKernel() * x + ConstantKernel() * kind + ConstantKernel() * x * kind


@pytest.mark.second
@pytest.mark.parametrize("posterior, n_inducing", [("inducing", 40), ("auto", "auto")])
def test_inducing_points_have_codes(posterior, n_inducing):
    frame, y = data()
    kernel = mixed()
    model = SparseGPRegressor(
        kernel, posterior=posterior, n_inducing=n_inducing, random_state=0, max_iter=50
    ).fit(frame, y)
    assert model.score(frame, y) > 0.97
    codes = model.inducing_points_[:, 1]
    np.testing.assert_allclose(codes, np.rint(codes), atol=1e-9)
    assert {*np.rint(codes)} == {*range(6)}
    queries = pd.DataFrame({"x": [0.0, 0.0], "kind": [1, 9]})
    mean, std = model.predict(queries, return_std=True)
    assert np.isfinite(mean).all() and std[1] > 2 * std[0]  # a level that was not seen


@pytest.mark.second
def test_labels_counts_and_neighbours():
    frame, y = data()
    labels = SparseGPClassifier(mixed(), n_inducing=30, random_state=0).fit(frame, y > 0)
    assert labels.score(frame, y > 0) > 0.9
    model = SparseGPRegressor(mixed(), posterior="neighbors", random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.97
    counts = np.random.RandomState(0).poisson(np.exp(y / 2))
    model = SparseGPRegressor(mixed(), likelihood="poisson", n_inducing=30, random_state=0)
    assert np.corrcoef(model.fit(frame, counts).predict(frame), np.exp(y / 2))[0, 1] > 0.8


def test_k_means_returns_rows_where_there_are_categories():
    frame, _ = data()
    rows = frame.to_numpy()
    kernel = kernels.named(mixed(), frame.columns)
    Z = inducing.k_means(rows, 20, kernel, np.random.RandomState(0))
    assert len(Z) == 20 and np.all((Z[:, None] == rows).all(axis=2).any(axis=1))


def test_categories_are_found_behind_columns():
    kernel = RBF() + Columns(Columns(Categorical(), 1), [2, 0]) * Columns(Sphere(RBF()), [1, 2])
    assert kernels.categories(kernel, 3) == [(Categorical(), 0)]
    assert kernels.categories(Categorical(), 1) == [(Categorical(), 0)]


@pytest.mark.parametrize(
    "kernel, words",
    [
        (Categorical(), "whose values are not codes"),
        (Columns(Categorical(correlation=1.5), 1), "correlations below 1"),
    ],
)
def test_what_cannot_be_is_refused_in_words(kernel, words):
    frame, y = data(60)
    with pytest.raises(ValueError, match=words):
        SparseGPRegressor(kernel).fit(frame, y)


def test_near_rows_have_near_numbers_and_the_same_level():
    rng = np.random.RandomState(0)
    rows = np.column_stack([rng.uniform(-2, 2, 2000), rng.randint(0, 200, 2000)])
    kernel = Columns(RBF(0.5), 0) * Columns(Categorical(correlation=0.1), 1)
    units = kernels.in_units(kernel, rows, np.array([0.5, 1.0]))
    squares = np.sum((units[:, None] - units[:300]) ** 2, axis=2)
    np.testing.assert_allclose(squares.T[:, :1], np.diag(squares)[:300, None] + squares.T[:, :1])
    K = kernel(rows, rows[:300])
    others = rows[:, None, 1] != rows[:300, 1]
    same = np.exp(-0.5 * squares)[~others]
    np.testing.assert_allclose(same, K[~others], atol=1e-12)  # as near as the kernel says
    ratio = np.log(np.exp(-0.5 * squares)[others & (K > 1e-6)]) / np.log(K[others & (K > 1e-6)])
    assert 0.4 < ratio.min() and ratio.max() < 1.6  # vectors of levels are nearly orthogonal
    small = (rows[:, None, 1] < 64) & (rows[:300, 1] < 64)  # and orthogonal where there are few
    np.testing.assert_allclose(np.exp(-0.5 * squares)[small], K[small], atol=1e-12)
    unseen = kernels.in_units(kernel, np.array([[0.0, -1.0]]), np.array([0.5, 1.0]))
    assert np.all(unseen[0, 1:] == 0.0)


@pytest.mark.full
def test_codes_that_are_identifiers():
    rng = np.random.RandomState(0)
    codes = rng.randint(0, 1000, 1200)
    rows = np.column_stack([rng.uniform(-2, 2, 1200), codes])
    y = np.sin(2 * rows[:, 0]) + (codes % 7) / 3 + 0.1 * rng.normal(size=1200)
    rows[:, 1] += 1e9
    equal = Columns(RBF(), 0) * Columns(Categorical(), 1)
    model = SparseGPRegressor(equal, posterior="neighbors", optimizer=None).fit(rows, y)
    assert np.isfinite(model.predict(rows[:3])).all()


def test_codes_are_whole_and_sources_have_categories(monkeypatch):
    frame, y = data(60)
    with pytest.raises(ValueError, match="values are not codes"):
        SparseGPRegressor(Columns(Categorical(), "x")).fit(frame, y)
    monkeypatch.setattr(moments, "_SMALL_TABLE", 0)
    source = Arrays(frame.to_numpy(), y, chunk_size=20)
    kernel = Columns(RBF(), 0) * Columns(Categorical(), 1)
    assert SparseGPRegressor(kernel, n_inducing=5, random_state=0).fit(source).n_inducing_ == 5

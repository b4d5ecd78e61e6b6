"""Laws of the initialisers of inducing points."""

import numpy as np
import pytest
from conftest import KERNELS, agree
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from skgp_sparse import inducing
from skgp_sparse.inducing import BY_NAME

OF_ROWS = ("k-means++", "random", "greedy", "rp-cholesky")  # whose points are rows of X
DRAWN = ("k-means", "k-means++", "random", "rp-cholesky")


def table(n=80, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def start(name, X, m, kernel=None, seed=0, sample_weight=None):
    kernel = RBF([0.3, 0.3]) if kernel is None else kernel
    return BY_NAME[name](X, m, kernel, check_random_state(seed), sample_weight=sample_weight)


def test_clusters_do_not_depend_on_threads():
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            found.append(start("k-means", table(3000), 30))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def are_rows_of(Z, X):
    return np.isclose(Z[:, None, :], X[None], rtol=0, atol=1e-12).all(axis=2).any(axis=1)


def brute_force_pivots(K, m):
    """Pivots of largest residual variance, every residual from a solve of its own."""
    chosen = []
    for _ in range(m):
        if chosen:
            explained = K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
            residual = (K - explained).diagonal().copy()
            residual[chosen] = -np.inf
        else:
            residual = K.diagonal()
        chosen.append(int(np.argmax(residual)))
    return chosen


@pytest.mark.parametrize("m", [1, 2, 15, 80])
@pytest.mark.parametrize("name", BY_NAME)
def test_points_are_as_many_as_asked_distinct_and_finite(name, m):
    Z = start(name, table(), m)
    assert Z.shape == (m, 2) and Z.dtype == np.float64
    assert np.isfinite(Z).all() and len(np.unique(Z, axis=0)) == m


@pytest.mark.parametrize("name", BY_NAME)
def test_random_state_decides(name):
    X = table()
    np.testing.assert_array_equal(start(name, X, 10, seed=3), start(name, X, 10, seed=3))
    if name in DRAWN:
        assert not np.array_equal(start(name, X, 10, seed=3), start(name, X, 10, seed=4))


@pytest.mark.parametrize("name", BY_NAME)
def test_rows_are_left_as_they_were_and_points_may_be_rows(name):
    X = table()
    kept = X.copy()
    Z = start(name, X, 15)
    assert name not in OF_ROWS or are_rows_of(Z, X).all()
    Z += 1.0
    np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize("m", [4, 7, 30])
@pytest.mark.parametrize("name", BY_NAME)
def test_fewer_distinct_rows_than_asked_are_all_taken(name, m):
    distinct = table(4)
    Z = start(name, np.repeat(distinct, 5, axis=0), m)
    agree(np.unique(Z, axis=0), np.unique(distinct, axis=0), 1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "dot_plus_rbf", "matern_0.5", "sum", "power"])
def test_greedy_takes_the_pivots_of_largest_residual_variance(kernel):
    X, signal = table(40), KERNELS[kernel]
    noisy = signal + WhiteKernel(0.5)  # noise explains nothing
    pivots = brute_force_pivots(signal(X, X.copy()), 8)
    np.testing.assert_array_equal(start("greedy", X, 8, noisy), X[pivots])


def test_greedy_stops_where_nothing_is_left_to_explain():
    X = table()
    assert len(start("greedy", X, 20, DotProduct(1.0))) == 3  # 1 and the two columns


@pytest.mark.parametrize("name", ["k-means", "k-means++", "greedy"])
def test_an_irrelevant_column_gets_no_points(name):
    groups = np.repeat([0.0, 1.0, 2.0, 3.0], 20)
    X = np.column_stack([groups, 50.0 * table()[:, 0]])
    Z = start(name, X, 4, ConstantKernel(2.0) * Matern([0.2, 1e6]))
    agree(np.sort(Z[:, 0]), np.arange(4.0), 1e-9)


@pytest.mark.parametrize("name", ["k-means", "k-means++"])
def test_without_length_scales_columns_count_by_their_spread(name):
    X = table() * [1.0, 1e6]
    mine, its = start(name, X, 6, DotProduct()), start(name, X / [1.0, 1e6], 6, DotProduct())
    agree(mine / [1.0, 1e6], its, 1e-9)


@pytest.mark.parametrize("name", ["k-means", "k-means++"])
def test_a_constant_column_is_no_obstacle(name):
    X = np.column_stack([table()[:, 0], np.full(80, 3.0)])
    Z = start(name, X, 6, DotProduct())
    assert Z.shape == (6, 2)
    agree(Z[:, 1], np.full(6, 3.0), 1e-12)


@pytest.mark.parametrize("kernel", [RBF([0.7, 2.0]), DotProduct()], ids=str)
@pytest.mark.parametrize("name", ["k-means", "random"])
def test_weights_are_repeated_rows(name, kernel):
    X, weight = table(30), np.random.default_rng(1).integers(1, 6, 30)
    mine = start(name, X, 5, kernel, sample_weight=weight.astype(float))
    its = start(name, np.repeat(X, weight, axis=0), 5, kernel)
    agree(np.unique(mine, axis=0), np.unique(its, axis=0), 1e-9)


@pytest.mark.parametrize("name", ["k-means", "k-means++", "random"])
def test_rows_of_overwhelming_weight_are_taken(name):
    X = table()
    weight = np.full(80, 1e-9)
    weight[[3, 50]] = 1.0
    Z = start(name, X, 2, sample_weight=weight)
    agree(np.unique(Z, axis=0), np.unique(X[[3, 50]], axis=0), 1e-6)


def test_k_means_puts_centres_into_clusters():
    centres = np.array([[0.0, 0.0], [5.0, 5.0], [-5.0, 5.0]])
    X = np.vstack([centre + 0.1 * table(20, seed=i) for i, centre in enumerate(centres)])
    Z = inducing.k_means(X, 3, RBF(1.0), check_random_state(2))
    means = [X[20 * i : 20 * i + 20].mean(axis=0) for i in range(3)]
    agree(np.unique(Z, axis=0), np.unique(means, axis=0), 0.1)


def test_the_number_of_points_is_the_first_that_leaves_little():
    X, kernel = table(200), RBF(1.0)
    count = inducing.n_points_within(X, 0.05, 100, kernel, check_random_state(0))

    def left(m):
        Z = start("rp-cholesky", X, m, kernel)
        K = kernel(Z) + 1e-12 * np.eye(m)
        return 1.0 - np.mean(np.sum(kernel(Z, X) * np.linalg.solve(K, kernel(Z, X)), axis=0))

    assert left(count) <= 0.05 < left(count - 1)
    assert inducing.n_points_within(X, 0.0, 7, kernel, check_random_state(0)) == 7

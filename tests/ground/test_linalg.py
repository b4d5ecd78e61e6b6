"""Laws of the dense linear algebra: each routine against the plain NumPy expression."""

import numpy as np
import pytest
from conftest import agree
from inside import Jitter, jittered_cholesky, linalg, single_threaded_blas
from scipy.linalg import lapack

SIZES = (1, 5, 256, 257, 600, 900)  # around and beyond one panel of columns


def positive_definite(m, seed=0):
    A = np.random.default_rng(seed).normal(size=(m, 2 * m))
    return A @ A.T / m + np.eye(m)


def factor(m):
    """A positive definite matrix and its Cholesky factor as the engine makes it."""
    K = positive_definite(m)
    return K, linalg.cholesky(K)


def low_rank(m=6, rank=2):
    A = np.random.default_rng(0).normal(size=(m, rank))
    return A @ A.T


@pytest.mark.parametrize("m", SIZES)
def test_cholesky_factorises_and_leaves_its_argument_alone(m):
    K = positive_definite(m)
    kept = K.copy()
    jittered, amount = jittered_cholesky(K, Jitter(0.0))
    assert amount == 0.0
    for L in (linalg.cholesky(K), jittered):
        agree(L @ L.T, K, 1e-13)
        np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_array_equal(K, kept)


@pytest.mark.parametrize("m", SIZES)
def test_log_determinant_and_whitened_vectors(m):
    K, L = factor(m)
    b = np.random.default_rng(1).normal(size=(m, 2))
    log_det, whitened = linalg.log_det_and_whitened(K.copy(), b)
    agree(log_det, linalg.log_det_from_cholesky(L), 1e-13)
    agree(L @ whitened, b, 1e-12)
    assert linalg.log_det_and_whitened(-K, b) is None
    assert linalg.log_det_and_whitened(np.full((m, m), np.nan), b) is None


@pytest.mark.parametrize("m", SIZES)
def test_inverses_are_inverses(m):
    K, L = factor(m)
    agree(linalg.inverse_lower(L) @ L, np.eye(m), 1e-12)
    inverse = linalg.inverse_from_triangle(linalg.inverse_lower(L))
    agree(inverse @ K, np.eye(m), 1e-12)
    np.testing.assert_array_equal(inverse, inverse.T)
    agree(L @ L.T, K, 1e-13)


@pytest.mark.parametrize("n", [0, 1, 40])
def test_empty_matrices_are_fine_and_lapack_prints_nothing(n, capfd):
    none, A = np.zeros((0, 0)), np.zeros((n, 0))
    log_det, whitened = linalg.log_det_and_whitened(none.copy(), np.zeros((0, 2)))
    assert (log_det, whitened.shape) == (0.0, (0, 2))
    for alone in (linalg.cholesky, linalg.inverse_lower, linalg.inverse_from_triangle):
        assert alone(none).shape == (0, 0)
    assert linalg.congruence(none, none).shape == (0, 0)
    products = linalg.times_lower, linalg.times_lower_transposed
    for act in (*products, linalg.over_lower, linalg.over_lower_transposed):
        assert act(A, none).shape == (n, 0)
        assert act(A.T, np.eye(n)).shape == (0, n)
    np.testing.assert_array_equal(linalg.product_norms(A, none), np.zeros(n))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("m", SIZES)
def test_congruence_is_the_product_of_three(m):
    K, L = factor(m)
    S, T = K - 2.0 * np.eye(m), linalg.inverse_lower(L)
    kept = S.copy(), T.copy()
    found = linalg.congruence(S, T)
    agree(found, T.T @ S @ T, 1e-12)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(S, kept[0])
    np.testing.assert_array_equal(T, kept[1])


@pytest.mark.parametrize("m", SIZES)
def test_triangular_products(m):
    rng = np.random.default_rng(1)
    A, T = rng.normal(size=(40, m)), np.tril(rng.normal(size=(m, m)))
    for triangle in (T, np.asfortranarray(T)):
        agree(linalg.times_lower(A, triangle), A @ T, 1e-13)
        agree(linalg.times_lower_transposed(A, triangle), A @ T.T, 1e-13)
    agree(linalg.times_lower(np.asfortranarray(A), T), A @ T, 1e-13)
    above = T + np.triu(np.full((m, m), np.nan), 1)  # which nobody reads
    agree(linalg.times_lower(A, above), A @ T, 1e-13)
    place = A.copy()
    assert linalg.times_lower_transposed(place, T, place) is place
    agree(place, A @ T.T, 1e-13)


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("n", [1, 16, 17, 40])
def test_triangular_quotients(m, n):
    rng = np.random.default_rng(1)
    A, L = rng.normal(size=(n, m)), np.tril(rng.normal(size=(m, m))) / m + np.eye(m)
    agree(linalg.over_lower(A, L) @ L, A, 1e-12)
    agree(linalg.over_lower_transposed(A, np.asfortranarray(L)) @ L.T, A, 1e-12)
    agree(linalg.over_lower(np.asfortranarray(A), L) @ L, A, 1e-12)
    above = L + np.triu(np.full((m, m), np.nan), 1)  # which nobody reads
    agree(linalg.over_lower(A, above) @ L, A, 1e-12)
    place = A.copy()
    assert linalg.over_lower_transposed(place, L, place) is place
    agree(place @ L.T, A, 1e-12)


def test_quotients_are_backward_stable():
    """Squared norms keep the digits that those of a product with the inverse lose."""
    X = np.sort(np.random.default_rng(0).uniform(size=(300, 1)), axis=0)
    K = np.exp(-0.5 * (X - X.T) ** 2)
    L = np.linalg.cholesky(K + 1e-12 * np.eye(300))
    solved = linalg.row_dots(*2 * [linalg.over_lower_transposed(K, L)])
    multiplied = linalg.product_norms(K, linalg.inverse_lower(L))
    lost = [np.abs(norms - 1.0).max() for norms in (solved, multiplied)]
    assert lost[0] < 4e-12 and lost[0] < 0.1 * lost[1]


def test_matrices_that_are_at_least_the_identity_have_a_factor_in_spite_of_rounding():
    V = 1e9 * np.random.default_rng(0).normal(size=(200, 3))
    B = np.eye(200) + V @ V.T
    L = linalg.cholesky(B)
    agree(L @ L.T, B, 1e-10)
    with pytest.raises(np.linalg.LinAlgError, match="sites"):
        linalg.cholesky(-np.eye(3), failure="The sites say so.")
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        linalg.cholesky(np.full((3, 3), np.nan))


def test_products_in_place_need_an_array_of_rows():
    for A in (np.zeros((3, 2)).T, np.zeros((2, 3), np.float32), np.zeros((2, 2))):
        with pytest.raises(ValueError, match="C-ordered array of float64"):
            linalg.times_lower(A, np.eye(3), A)


@pytest.mark.parametrize("m", SIZES)
def test_mirrored_matrices_are_symmetric(m):
    A = np.random.default_rng(2).normal(size=(m, m))
    lower = np.tril(A)
    expected = lower + np.tril(A, -1).T
    assert linalg.mirror_lower(A) is A
    np.testing.assert_array_equal(A, expected)


@pytest.mark.parametrize(
    "weights", ["scalar", "positive", "any_sign", "negative", "zero", "strided"]
)
def test_weighted_gram_is_the_weighted_sum_of_outer_products(weights):
    rng = np.random.default_rng(3)
    V, normal = rng.normal(size=(50, 7)), rng.normal(size=50)
    a = {
        "scalar": 0.7,
        "positive": np.abs(normal),
        "any_sign": normal,
        "negative": -np.abs(normal),
        "zero": np.zeros(50),
        "strided": np.repeat(normal, 2)[::2],
    }[weights]
    found = linalg.weighted_gram(V, a)
    agree(found, (V.T * a) @ V, 1e-13)
    agree(found, found.T, 1e-14)


def test_row_dots_and_log_determinants():
    K, L = factor(9)
    agree(linalg.row_dots(K, L), (K * L).sum(axis=1), 1e-13)
    agree(linalg.log_det_from_cholesky(L), np.linalg.slogdet(K)[1], 1e-13)


@pytest.mark.parametrize("start", [0.0, 1e-12, 1e-8, 1e-6])
def test_jitter_grows_tenfold_from_its_start(start):
    amounts = np.array(list(Jitter(start).amounts()))
    assert amounts[0] == start
    assert np.all(np.diff(amounts) > 0) and 1e-3 < amounts[-1] <= 1e-2 * (1 + 1e-9)
    np.testing.assert_allclose(amounts[2:] / amounts[1:-1], 10.0)
    if start > 0:
        np.testing.assert_allclose(amounts[1] / start, 10.0)


@pytest.mark.parametrize(
    "relative, scale", [(True, 1e-12), (True, 1.0), (True, 1e12), (False, 1.0)]
)
def test_relative_jitter_follows_the_scale_of_the_matrix(relative, scale):
    K = low_rank()
    L, amount = jittered_cholesky(scale * K, Jitter(1e-6, relative=relative))
    assert amount == 1e-6
    unit = K.diagonal().mean() if relative else 1.0
    agree(L @ L.T / scale, K + 1e-6 * unit * np.eye(6), 1e-13)


def test_the_first_jitter_that_succeeds_is_reported():
    K = np.diag([1.0, 1.0, -1e-5])
    L, amount = jittered_cholesky(K, Jitter(1e-10, relative=False))
    np.testing.assert_allclose(amount, 1e-4)
    agree(L @ L.T, K + amount * np.eye(3), 1e-13)


@pytest.mark.parametrize("relative", [True, False])
def test_indefinite_matrices_are_refused_with_a_remedy(relative):
    with pytest.raises(np.linalg.LinAlgError, match=r"not positive definite.*Use a positive"):
        jittered_cholesky(np.diag([1.0, -1.0]), Jitter(relative=relative))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [(0, 0), (2, 1)])
def test_matrices_that_are_not_finite_are_refused(bad, where):
    K = np.eye(4)
    K[where] = K[where[::-1]] = bad
    with pytest.raises(np.linalg.LinAlgError, match="NaN or infinite"):
        jittered_cholesky(K, Jitter())
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        linalg.cholesky(K)


@pytest.mark.parametrize("noise", [1e-6, 1e-10])
def test_ill_conditioned_tiles_keep_their_digits(noise):
    x = np.sort(np.random.default_rng(0).uniform(size=700))
    K = np.exp(-0.5 * (x[:, None] - x) ** 2) + noise * np.eye(len(x))
    L = linalg.cholesky(K)
    agree(L @ L.T, K, 1e-13)
    T = linalg.inverse_lower(L)
    by_lapack = np.abs(lapack.dtrtri(L, lower=1)[0] @ L - np.eye(len(x))).max()
    assert np.abs(T @ L - np.eye(len(x))).max() < 10.0 * by_lapack


def test_factors_are_the_same_for_any_number_of_threads():
    K, L = factor(900)
    T = linalg.inverse_lower(L)
    with single_threaded_blas():
        for n_jobs in (2, 3):
            found = linalg.cholesky(K, n_jobs)
            np.testing.assert_array_equal(found, linalg.cholesky(K, 1))
            for inverse, A in ((linalg.inverse_lower, L), (linalg.inverse_from_triangle, T)):
                np.testing.assert_array_equal(inverse(A, n_jobs), inverse(A, 1))

"""Laws of skgp_sparse.kernels: values, vector-Jacobian products, noise apart from signal."""

from __future__ import annotations

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import agree, differences, stored_cases
from inside import _nodes
from kernel_cases import ALL, COMPOSITES, STATIONARY, Rippled, parsed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import kernels

CASES = stored_cases("kernels")


class Speckled(sk.WhiteKernel):
    """An unknown kernel with noise of its own and a varying diagonal."""

    def __call__(self, X, Y=None, eval_gradient=False):
        K = X @ (X if Y is None else Y).T
        noise = self.noise_level * np.eye(len(X)) if Y is None else 0.0
        return (K + noise, noise[:, :, None]) if eval_gradient else K + noise

    def diag(self, X):
        return np.sum(X**2, axis=1) + self.noise_level


def points(n=23, m=7, d=3, seed=0):
    """Positive inputs and a cotangent."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 2.0, (n, d)), rng.uniform(0.1, 2.0, (m, d)), rng.normal(size=(n, m))


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_agree_with_ball_arithmetic(case):
    kernel, ref = parsed(CASES[case]["kernel"]), CASES[case]
    X, Z = ref["X"], ref["Z"]
    K, pullback = kernels.linearize(kernel, X, Z)
    agree(K, ref["K_XZ"])
    agree(kernels.evaluate(kernel, X, Z), ref["K_XZ"])
    theta_bar, Z_bar = pullback(ref["G"].copy())
    agree(theta_bar, ref["vjp_theta"])
    agree(Z_bar, ref["vjp_Z"])

    K, pullback = kernels.linearize(kernel, Z, Z)  # both arguments move
    agree(K, ref["K_ZZ"])
    theta_bar, second = pullback(ref["G_ZZ"].copy())
    _, first = kernels.linearize(kernel, Z, Z)[1](ref["G_ZZ"].T.copy())
    agree(theta_bar, ref["vjp_ZZ_theta"])
    agree(first + second, ref["vjp_ZZ_Z"])

    signal, noise, pullback = kernels.diagonal(kernel, X)
    agree(signal, ref["K_diag_X"])
    assert np.all(noise == 0)
    theta_bar, X_bar = pullback(ref["g_diag"], np.zeros(len(X)), inputs=True)
    agree(theta_bar, ref["vjp_diag_theta"])
    agree(X_bar, ref["vjp_diag_X"])


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_the_value_alone_is_that_with_a_pullback(kernel):
    X = np.vstack([points()[0], points()[0][:3], points()[0][:1] + 1e-9])
    K = kernels.evaluate(kernel, X, X)
    agree(K, kernels.linearize(kernel, X, X)[0], 1e-13)
    kept = kernel.theta.copy(), K.copy()
    K[:] = np.nan  # the caller's to overwrite
    assert_array_equal(kernels.evaluate(kernel, X, X), kept[1])
    assert_array_equal(kernel.theta, kept[0])


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_cross_gradients_agree_with_differences_of_scikit_learn(kernel):
    X, Z, G = points()
    before = str(kernel.get_params())
    K, pullback = kernels.linearize(kernel, X, Z)
    assert K.shape == (len(X), len(Z)) and K.dtype == np.float64 and K.flags.c_contiguous
    agree(K, kernel(X, Z), 1e-11)
    kept = K.copy()
    theta_bar, Z_bar = pullback(G.copy())
    assert_array_equal(K, kept)
    assert str(kernel.get_params()) == before
    by_theta = differences(lambda t: np.sum(G * kernel.clone_with_theta(t)(X, Z)), kernel.theta)
    agree(theta_bar, by_theta, 1e-7)
    agree(Z_bar, differences(lambda z: np.sum(G * kernel(X, z)), Z), 1e-7)
    alone, none = kernels.linearize(kernel, X, Z)[1](G.copy(), inputs=False)
    assert none is None
    agree(alone, theta_bar, 1e-14)


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_signal_plus_noise_is_scikit_learns_diagonal(kernel):
    X, _, _ = points()
    signal, noise, pull = kernels.diagonal(kernel, X)
    agree(np.broadcast_to(signal + noise, len(X)), kernel.diag(X), 1e-14)
    agree(np.broadcast_to(signal, len(X)), np.diagonal(kernels.evaluate(kernel, X, X)), 1e-13)
    assert kernels.has_noise(kernel) or (np.ndim(noise) == 0 and noise == 0.0)
    view = np.broadcast_to(2.0, len(X))  # read-only
    theta_bar, X_bar = pull(view, view, inputs=True)
    assert theta_bar.shape == kernel.theta.shape and X_bar.shape == X.shape


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_diagonal_gradients_agree_with_differences(kernel):
    X, _, G = points()
    g_signal, g_noise = G[:, 0], G[:, 1]

    def weighted(theta, inputs):
        signal, noise, _ = kernels.diagonal(kernel.clone_with_theta(theta), inputs)
        return np.sum(g_signal * signal) + np.sum(g_noise * noise)

    theta_bar, X_bar = kernels.diagonal(kernel, X)[2](g_signal, g_noise, inputs=True)
    agree(theta_bar, differences(lambda t: weighted(t, X), kernel.theta), 1e-7)
    agree(X_bar, differences(lambda x: weighted(kernel.theta, x), X), 1e-7)
    assert kernels.diagonal(kernel, X)[2](g_signal, g_noise)[1] is None


@pytest.mark.parametrize("kernel", STATIONARY, ids=str)
def test_coincident_rows_are_exactly_one_and_pull_on_nothing(kernel):
    X, Z, G = points()
    assert_array_equal(np.diagonal(kernels.evaluate(kernel, Z, Z.copy())), 1.0)
    Z[0] = X[0]
    alone = np.zeros_like(G)
    alone[0, 0] = 1.0
    theta_bar, Z_bar = kernels.linearize(kernel, X, Z)[1](alone)
    agree(theta_bar, 0 * theta_bar, 1e-13)
    agree(Z_bar, 0 * Z_bar, 1e-13)


@pytest.mark.parametrize("kernel", [sk.Matern(0.7, nu=0.5), sk.Matern([1, 2, 3], nu=1.5)], ids=str)
def test_nearly_coincident_rows_keep_their_distance(kernel):
    X, Z, _ = points()
    Z[0] = X[0] + 3e-9
    G = np.zeros((len(X), len(Z)))
    G[0, 0] = 1.0
    K, pullback = kernels.linearize(kernel, X, Z)
    one, pull_one = kernels.linearize(kernel, np.zeros((1, 3)), Z[:1] - X[:1])
    assert_allclose(1 - K[0, 0], 1 - kernel(X[:1], Z[:1])[0, 0], rtol=1e-6, atol=1e-15)
    assert_allclose(1 - K[0, 0], 1 - one[0, 0], rtol=1e-6, atol=1e-15)
    (theta_bar, Z_bar), (theta_one, Z_one) = pullback(G), pull_one(np.ones((1, 1)))
    assert_allclose(theta_bar, theta_one, rtol=1e-6, atol=1e-15)
    assert_allclose(Z_bar[0], Z_one[0], rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("kernel", STATIONARY, ids=str)
def test_stationary_kernels_do_not_feel_a_common_offset(kernel):
    X, Z, G = points()
    shift = 2.0**20
    X, Z = np.round(X * 2**20) / 2**20, np.round(Z * 2**20) / 2**20
    K, pullback = kernels.linearize(kernel, X, Z)
    moved, pull_moved = kernels.linearize(kernel, X + shift, Z + shift)
    agree(moved, K, 1e-9)
    (theta_bar, Z_bar), (theta_moved, Z_moved) = pullback(G.copy()), pull_moved(G.copy())
    agree(theta_moved, theta_bar, 1e-8)
    agree(Z_moved, Z_bar, 1e-8)


def test_one_far_row_does_not_spoil_the_others():
    X, Z, _ = points()
    X[0] += 1e6
    kernel = sk.Matern(0.7, nu=0.5)
    agree(kernels.evaluate(kernel, X, Z), kernel(X, Z), 1e-13)


@pytest.mark.parametrize("kernel", COMPOSITES, ids=str)
def test_noise_never_enters_the_cross_matrix(kernel):
    X, _, _ = points()
    off_diagonal = ~np.eye(len(X), dtype=bool)
    K = kernels.evaluate(kernel, X, X)
    agree(K[off_diagonal], kernel(X)[off_diagonal], 1e-12)
    agree(np.diagonal(K), np.broadcast_to(kernels.diagonal(kernel, X)[0], len(X)), 1e-13)


def test_nested_noise_is_found():
    X, _, _ = points()
    kernel = sk.ConstantKernel(2.0) * (sk.RBF() + sk.WhiteKernel(0.5))
    assert kernels.diagonal(kernel, X)[:2] == (2.0, 1.0)
    assert kernels.has_noise(kernel)
    assert kernels.has_noise((sk.RBF() + sk.WhiteKernel()) ** 2)
    assert not kernels.has_noise(sk.ConstantKernel(2.0) * sk.RBF())


def test_underflowed_values_under_a_root_give_no_nan():
    X, Z, G = points()
    theta_bar, Z_bar = kernels.linearize(sk.RBF(0.01) ** 0.5, X, Z)[1](G)
    assert np.all(np.isfinite(theta_bar)) and np.all(np.isfinite(Z_bar))


def test_dispatch_is_by_exact_type():
    X, Z, _ = points()
    assert kernels.differentiable(sk.RBF()) and not kernels.differentiable(Rippled())
    agree(kernels.evaluate(Rippled(0.8), X, Z), Rippled(0.8)(X, Z), 1e-14)


UNREGISTERED = [
    Rippled(0.8),
    sk.ConstantKernel(2.0) * Rippled([0.8, 1.0, 2.0]) + sk.RBF(0.4) + sk.WhiteKernel(0.1),
    Rippled(0.8) ** 2 * sk.Matern(1.0, nu=1.5),
    Rippled(0.8, "fixed"),
    Speckled(0.3) + sk.RBF(0.8),
]
WITHOUT_A_RULE = [sk.PairwiseKernel(0.4, metric="rbf"), sk.Matern(0.9, nu=1.2)]  # differences


@pytest.mark.parametrize("kernel", UNREGISTERED + WITHOUT_A_RULE, ids=str)
def test_unregistered_kernels_give_values_and_theta_gradients(kernel):
    X, Z, G = points(n=150)
    assert not kernels.differentiable(kernel)
    K, pullback = kernels.linearize(kernel, X, Z)
    agree(K, kernel(X, Z), 1e-13)
    theta_bar, none = pullback(G.copy(), inputs=False)
    expected = differences(lambda t: np.sum(G * kernel.clone_with_theta(t)(X, Z)), kernel.theta)
    agree(theta_bar, expected, 1e-4 if kernel in WITHOUT_A_RULE else 1e-7)
    assert none is None


@pytest.mark.parametrize("kernel", UNREGISTERED, ids=str)
def test_unregistered_kernels_give_a_diagonal(kernel):
    X, _, G = points(n=150)
    signal, noise, pullback = kernels.diagonal(kernel, X)
    agree(signal + noise, kernel.diag(X), 1e-13)
    agree(signal, np.diagonal(kernel(X, X)), 1e-13)
    assert not isinstance(kernel, Rippled) or noise == 0.0

    def weighted(theta):
        signal, noise, _ = kernels.diagonal(kernel.clone_with_theta(theta), X)
        return np.sum(G[:, 0] * signal) + np.sum(G[:, 1] * noise)

    agree(pullback(G[:, 0], G[:, 1])[0], differences(weighted, kernel.theta), 1e-7)


@pytest.mark.parametrize("kernel", ALL + UNREGISTERED, ids=str)
def test_pullbacks_can_be_pickled(kernel):
    X, Z, G = points()
    X[0] += 1e4  # so far that it is subtracted directly
    X[1] = Z[1]
    inputs = kernels.differentiable(kernel)
    cross, diagonal = kernels.linearize(kernel, X, Z)[1], kernels.diagonal(kernel, X)[2]
    for pull, cotangents in ((cross, G[None]), (diagonal, G.T[:2])):
        loaded = pickle.loads(pickle.dumps(pull))
        expected = pull(*cotangents.copy(), inputs=inputs)
        for actual, bar in zip(loaded(*cotangents.copy(), inputs=inputs), expected, strict=True):
            assert_array_equal(actual, bar)


@pytest.mark.parametrize("kernel", [Rippled(), sk.PairwiseKernel(metric=lambda x, z, gamma: 1.0)])
def test_unregistered_kernels_refuse_input_gradients_with_a_remedy(kernel):
    X, Z, G = points()
    assert not kernels.differentiable(kernel + sk.RBF())
    _, pullback = kernels.linearize(kernel + sk.RBF(), X, Z)
    with pytest.raises(TypeError, match=type(kernel).__name__) as caught:
        pullback(G)
    assert "optimize_inducing=False" in str(caught.value)
    assert "kernels.register" in str(caught.value)


def test_register_refuses_what_is_not_a_class_or_a_rule():
    with pytest.raises(TypeError, match="must be a class"):
        kernels.register(sk.RBF(), None)


def test_misspelt_gradient_names_are_refused():
    with pytest.raises(ValueError, match="lenght_scale"):
        _nodes.assemble(sk.RBF(), {"lenght_scale": 1.0})


OWN = [
    Speckled(0.4),
    kernels.Columns(sk.RBF([0.8, 1.3]), [0, 2]) + sk.WhiteKernel(0.1),
    kernels.Categorical(0.4) * sk.RBF(2.0, "fixed"),
    kernels.HeteroscedasticNoise(np.sum, 0.3),
]


@pytest.mark.parametrize("kernel", ALL + OWN, ids=repr)
def test_a_kernel_moves_as_a_clone_of_scikit_learn_does(kernel):
    before, theta = kernel.theta, kernel.theta + 0.1
    clone, moved = kernel.clone_with_theta(theta), kernels.moved(kernel, theta)
    assert moved == clone and repr(moved) == repr(clone)
    assert_array_equal(moved.theta, clone.theta)
    assert_array_equal(moved.bounds, kernel.bounds)
    assert_array_equal(kernel.theta, before)
    free = [(one.name, one.n_elements) for one in kernel.hyperparameters if not one.fixed]
    assert _nodes.free(kernel) == free


def test_metric_combines_length_scales_of_all_leaves():
    kernel = (
        sk.ConstantKernel() * sk.RBF([3.0, 1.0]) + sk.ExpSineSquared(4.0) ** 2 + sk.WhiteKernel()
    )
    expected = 1 / np.sqrt(np.array([1 / 9, 1.0]) + 1 / 16)
    assert_allclose(kernels.length_scales(kernel, np.ones(2)), expected)
    assert_allclose(kernels.length_scales(sk.DotProduct(), np.array([2.0, 3.0])), [2.0, 3.0])


@pytest.mark.parametrize(
    "kernel, arrays",
    [
        (sk.ConstantKernel(), 1),
        (sk.RBF(), 1),
        (sk.ConstantKernel() * sk.RBF() + sk.WhiteKernel(), 2),
        (sk.RBF() + sk.RBF(), 3),
        (sk.Matern() * sk.RBF(), 4),
        (sk.RBF() ** 2, 2),
    ],
    ids=str,
)
def test_footprint_counts_value_and_what_the_pullback_holds(kernel, arrays):
    assert kernels.footprint(kernel) == arrays


@pytest.mark.second(share=0.4)
@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_footprint_bounds_the_memory_kept(kernel):
    X, Z, _ = points(n=300, m=200)
    kernels.linearize(kernel, X, Z)
    tracemalloc.start()
    kept = kernels.linearize(kernel, X, Z)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept[0].shape == (300, 200)
    assert size <= (kernels.footprint(kernel) + 0.25) * 300 * 200 * 8


def test_threads_do_not_disturb_each_other():
    kernel = (
        sk.ConstantKernel(1.3) * sk.Matern([0.8, 1.3, 2.0])
        + sk.WhiteKernel() * sk.RBF()
        + sk.DotProduct()
    )
    X, Z, G = points(n=400)

    def gradients(start):
        rows = slice(start, start + 50)
        return kernels.linearize(kernel, X[rows], Z)[1](G[rows].copy())

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(gradients, range(0, 400, 50)))
    theta_bar, Z_bar = kernels.linearize(kernel, X, Z)[1](G.copy())
    agree(sum(part[0] for part in parts), theta_bar, 1e-12)
    agree(sum(part[1] for part in parts), Z_bar, 1e-12)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_far_points_have_no_subnormal_values(nu):
    Z = np.linspace(0.0, 1.0, 7)[:, None]
    X = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 400)])[:, None]
    K, pull = kernels.linearize(sk.Matern(1e-2, nu=nu), X, Z)
    assert np.all(K >= 1e-131) and np.all(K[-1] < 1e-90)
    theta_bar, Z_bar = pull(np.ones_like(K))
    assert np.isfinite(theta_bar).all() and np.isfinite(Z_bar).all()


@pytest.mark.parametrize("kernel", [sk.Matern(0.7, nu=1.5), sk.RBF(0.7)], ids=str)
def test_one_column_far_from_zero_keeps_its_digits(kernel):
    X = np.round(np.random.default_rng(0).normal(size=(30, 1)) * 8) / 8
    far = np.where(np.arange(30)[:, None] < 12, 2.0**45, 0.0)
    K = kernels.evaluate(kernel, X + far, np.vstack([X[12:19], X[:5] + 2.0**45]))
    agree(K[:12, 7:], kernel(X[:12], X[:5]), 1e-13)


_DISTANT = [
    sk.RBF([0.5, 0.8]),
    sk.Matern([0.5, 0.8], nu=2.5),
    sk.Matern(0.5, nu=0.5),
    sk.RationalQuadratic(0.5, 0.7),
]


@pytest.mark.parametrize("kernel", _DISTANT, ids=str)
def test_groups_of_rows_that_are_far_apart_keep_their_digits(kernel):
    X, Z, _ = points(40, 9, 2)
    far = np.arange(40)[:, None] % 2 * 2.0**27
    nearby, moved = np.flatnonzero(far[:, 0] == 0), np.flatnonzero(far[:, 0])
    X, Z_far = np.round(X, 3), np.vstack([np.round(Z, 3), np.round(Z, 3) + 2.0**27])
    X_far = X + far  # not all digits of X are left; those that are can be subtracted again
    X = np.where(far > 0, X_far - 2.0**27, X_far)
    Z = np.vstack([Z_far[:9], Z_far[9:] - 2.0**27])
    K, pull = kernels.linearize(kernel, X_far, Z_far)
    G = np.random.default_rng(0).normal(size=K.shape)
    expected = np.full(K.shape, kernel(X_far[:1], X_far[1:2])[0, 0])
    bars = []
    for rows, columns in ((nearby, slice(0, 9)), (moved, slice(9, 18))):
        part, pull_part = kernels.linearize(kernel, X[rows], Z[columns])
        expected[rows, columns] = part
        bars.append(pull_part(G[rows, columns].copy()))
    agree(K, expected, 1e-7)  # 2e-8, an ulp of 2**27, is what the distances are off by
    theta_bar, Z_bar = pull(G.copy())
    agree(Z_bar, np.vstack([bar[1] for bar in bars]), 1e-6)
    if not isinstance(kernel, sk.RationalQuadratic):  # which feels the other group, too
        agree(theta_bar, bars[0][0] + bars[1][0], 1e-6)


@pytest.mark.parametrize("kernel", [sk.RBF(1e-8), sk.Matern(1e-8, nu=2.5), sk.RBF(1e-200)], ids=str)
def test_tiny_length_scales_leave_no_slope(kernel):
    X = points(30, 5, 2)[0]
    Z = X[:5].copy()
    K, pull = kernels.linearize(kernel, X, Z)
    assert_allclose(K[:5], np.eye(5), atol=1e-90)
    theta_bar, Z_bar = pull(np.ones_like(K))
    assert_allclose(theta_bar, 0.0, atol=1e-30)
    assert_allclose(Z_bar, 0.0, atol=1e-30)

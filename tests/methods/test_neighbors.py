"""Predictions from neighbours: golden values, dense algebra, and the laws that they obey.

``golden/neighbors.npz`` was computed with 50 digits. The kernel sees ``X Wᵀ``; row i is predicted
by the rows ``N[i]``, in a chain by fewer (-1), and queries Q by the rows ``NQ``.
"""

import numpy as np
import pytest
from conftest import differences, stored_cases
from inside import (
    ArrayDataset,
    Batch,
    LeaveOneOut,
    NearestRows,
    ValidationScore,
    ValidationSet,
    back_substituted,
    distinct_rows,
    small_fits,
    whitened,
)
from inside import neighbors_of_engine as neighbors
from kernel_cases import Opaque, check_stack, parsed
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgp_sparse import SparseGPRegressor, kernels
from skgp_sparse.kernels import HeteroscedasticNoise
from skgp_sparse.posteriors import Neighbors

ORACLE = stored_cases("neighbors")
CASES = [str(name) for name in ORACLE["cases"][""]]


def golden(name):
    """Values of a case by name, and its kernel with its noise."""
    ref = ORACLE[name]
    kernel, noise = parsed(ref["kernel"]), float(ref["noise"])
    return ref, kernel if np.isnan(noise) else kernel + WhiteKernel(noise)


def left_out_of(ref, rows, near):
    """`LeaveOneOut` of some rows, given others."""
    own, (s, k) = rows, near.shape
    noise = ref["alpha"]
    ones = np.ones((s, k))
    y, X = ref["y"], ref["X"]
    return LeaveOneOut(
        X, own, near, y[own], noise[own], ones[:, :1].sum(1), y[near], noise[near], ones
    )


def parts_of(ref):
    """`LeaveOneOut` of all rows: at once, or one by one where numbers of neighbours differ."""
    N, rows = ref["N"], np.arange(len(ref["X"]))
    if np.all(N >= 0):
        return [left_out_of(ref, rows, N)]
    return [left_out_of(ref, rows[[i]], N[[i]][:, N[i] >= 0]) for i in rows if np.any(N[i] >= 0)]


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("probit")])
def test_the_density_of_rows_left_out_and_its_gradients_are_golden(name):
    ref, kernel = golden(name)
    parts, W = parts_of(ref), ref["W"]
    J, theta_bar, W_bar = map(
        sum, zip(*(neighbors.value_and_gradient(kernel, part, W) for part in parts))
    )
    assert_allclose(J, sum(neighbors.value(kernel, part, W) for part in parts), rtol=1e-13)
    if len(parts) > 1:  # the first row of a chain has no neighbours
        d = float(kernels.diagonal(kernel, ref["X"])[0]) + ref["noise"] + ref["alpha"][0]
        J += norm.logpdf(ref["y"][0], scale=np.sqrt(d)).sum()
        squares, p = np.sum(ref["y"][0] ** 2), ref["y"].shape[1]
        g = 0.5 * (squares / d - p) / d
        theta_bar[0] += g * (d - ref["noise"] - ref["alpha"][0])
        theta_bar[-1] += g * ref["noise"]
    assert_allclose(J, ref["J"], rtol=1e-9, atol=1e-9)
    assert_allclose(theta_bar, ref["grad_theta"], rtol=1e-7, atol=1e-7)
    assert_allclose(W_bar, ref["grad_W"], rtol=1e-7, atol=1e-7)


def table_of_sets(relative, has_weights):
    """A table with rows at the same places, known noise, and two targets; and its rows in use."""
    rng = np.random.RandomState(0)
    X, y, noise = rng.normal(size=(60, 3)), rng.normal(size=(60, 2)), rng.uniform(0.1, 0.2, 60)
    for same, as_these in ((slice(40, 50), slice(30, 40)), (slice(30, 33), 0)):
        X[same], noise[same] = X[as_these], noise[as_these]
    weight = rng.randint(0, 4, 60).astype(float) if has_weights else None
    used = np.arange(60) if weight is None else np.flatnonzero(weight)
    return ArrayDataset(X, y, noise=noise, weight=weight, relative=relative), used


VARYING = HeteroscedasticNoise(lambda X: X[:, 0], 0.05)
OF_SETS = 1.3 * Matern([1.0, 2.0, 1.5], nu=2.5) + WhiteKernel(0.1) + VARYING


def sets_of(relative, has_weights, k, size):
    table, used = table_of_sets(relative, has_weights)
    known = neighbors.known_rows(table)
    near = neighbors.NeighborsPosterior.of(OF_SETS, known, k).around(table.X[used], 1, k + 1)
    found = table, known, (used, np.ones(len(used))), near
    return neighbors.left_out_sets(*found, size), neighbors.left_out_sets(*found, 1).last_rows()


CASES_OF_SETS = [(True, True, 12, 4), (False, True, 12, 4), (False, False, 1, 4)]


@pytest.mark.parametrize("relative, has_weights, k, size", CASES_OF_SETS)
def test_rows_of_a_set_are_predicted_by_all_others_of_the_set(relative, has_weights, k, size):
    sets, _ = sets_of(relative, has_weights, k, size)
    total, noises = 0.0, OF_SETS.k1.k2.diag(sets.X) + VARYING.diag(sets.X)
    for near, y, weight, known, target, own, count in zip(
        sets.near, sets.y_near, sets.weight_near, sets.noise_near, sets.y, sets.noise, sets.count
    ):
        A = OF_SETS.k1.k1(sets.X[near]) + np.diag((noises[near] + known) / weight)
        for j in range(len(target)):
            row = len(near) - len(target) + j
            others = np.arange(len(near)) != row
            w = np.linalg.solve(A[np.ix_(others, others)], A[others, row])
            variance = 1.3 - w @ A[others, row] + noises[near[row]] + own[j]
            densities = norm.logpdf(target[j], w @ y[others], np.sqrt(variance))
            total += count[j] * densities.sum()
    assert_allclose(neighbors.value(OF_SETS, sets), total, rtol=1e-12)


@pytest.mark.parametrize("relative, has_weights, k, size", CASES_OF_SETS)
def test_gradients_of_sets_are_those_of_differences(relative, has_weights, k, size):
    sets, _ = sets_of(relative, has_weights, k, size)
    W = np.eye(3) + 0.1 * np.random.RandomState(1).normal(size=(3, 3))
    J, theta_bar, W_bar = neighbors.value_and_gradient(OF_SETS, sets, W)
    assert_allclose(J, neighbors.value(OF_SETS, sets, W), rtol=1e-14)
    of_theta = lambda theta: neighbors.value(OF_SETS.clone_with_theta(theta), sets, W)
    of_metric = lambda W: neighbors.value(OF_SETS, sets, W.reshape(3, 3))
    assert_allclose(theta_bar, differences(of_theta, OF_SETS.theta), atol=1e-6)
    assert_allclose(W_bar.ravel(), differences(of_metric, W.ravel()), atol=1e-6)


@pytest.mark.parametrize("relative, has_weights", [(True, True), (False, True), (False, False)])
def test_sets_of_which_one_row_is_left_out_are_that_row_and_its_neighbours(relative, has_weights):
    sets, left = sets_of(relative, has_weights, 12, 1)
    assert_allclose(neighbors.value(OF_SETS, sets), neighbors.value(OF_SETS, left), rtol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_means_and_variances_given_neighbours_are_golden(name):
    ref, kernel = golden(name)
    X, D = ref["X"] @ ref["W"].T, ref["alpha"] + np.nan_to_num(ref["noise"])
    for part in parts_of(ref):
        mean, variance = neighbors.moments(kernel, part, ref["W"])
        own = D[part.own] if name.startswith("probit") else 0.0  # where v is latent
        assert_allclose(mean, ref["m"][part.own], atol=1e-9)
        assert_allclose(variance - own, ref["v"][part.own], atol=1e-9)
    NQ = ref["NQ"]
    P = np.concatenate([X[NQ], (ref["Q"] @ ref["W"].T)[:, None]], axis=1)
    at_queries = neighbors.krige(kernel, P, ref["y"][NQ], D[NQ])
    assert_allclose(at_queries.mean, ref["mean"], atol=1e-9)
    assert_allclose(at_queries.variance, ref["var"], atol=1e-9)


@pytest.mark.parametrize("name", ["probit", "probit_w"])
def test_gradients_at_held_sites_are_golden(name):
    ref, kernel = golden(name)
    part, W, labels = left_out_of(ref, np.arange(len(ref["X"])), ref["N"]), ref["W"], ref["labels"]
    P, seen = part.points(W)
    local, pull = neighbors.linearise(kernel, seen, part.y_near, part.noise_near)
    root = np.sqrt(1.0 + local.variance)
    z = labels * local.mean[:, 0] / root
    assert_allclose(log_ndtr(z).sum(), ref["J"], rtol=1e-9)
    slope = np.exp(norm.logpdf(z) - log_ndtr(z))
    g_variance = -0.5 * slope * z / root**2
    theta_bar, P_bar, _ = pull((slope * labels / root)[:, None], g_variance, True)
    assert_allclose(theta_bar, ref["grad_theta"], rtol=1e-7, atol=1e-7)
    assert_allclose(np.einsum("skr,skd->rd", P_bar, P), ref["grad_W"], rtol=1e-7, atol=1e-7)


STACKED = [
    ConstantKernel(1.3) * RBF([0.5, 1.0, 2.0]) + WhiteKernel(0.1),
    Matern(0.7, nu=0.5) + Matern([1.0, 2.0, 0.5], nu=1.5),
    Matern(0.7, nu=2.5) * sk.ExpSineSquared(1.1, 2.3),
    sk.RationalQuadratic(1.2, 0.7) ** 2 + sk.DotProduct(0.8) * ConstantKernel(0.5),
]


@pytest.mark.parametrize("kernel", STACKED, ids=str)
def test_the_pullback_of_a_stack_is_that_of_each_set(kernel):
    P = np.random.RandomState(0).normal(size=(3, 7, 3))
    P[1, 2] = P[1, 4]
    check_stack(kernel, P)


def test_a_kernel_without_a_rule_has_a_pullback_to_theta_alone():
    P, G = np.random.RandomState(0).normal(size=(3, 5, 2)), np.ones((3, 5, 5))
    K, pull = kernels.linearize_stack(Opaque(0.7), P)
    expected, of_rule = kernels.linearize_stack(RBF(0.7), P)
    assert_allclose(K, expected, atol=1e-12)
    assert_allclose(pull(G.copy(), False)[0], of_rule(G.copy(), False)[0], atol=1e-12)
    with pytest.raises(TypeError, match="no derivative rule"):
        pull(G)


def test_stacks_are_factorised_one_by_one_where_some_need_jitter():
    rng = np.random.RandomState(0)
    R, B = rng.normal(size=(3, 5, 5)), rng.normal(size=(3, 5, 2))
    A = R @ R.transpose(0, 2, 1)
    A[1] = 1.0  # singular
    L, V = whitened(A, B, 1.0)
    for index in (0, 2):
        assert_allclose(L[index], np.linalg.cholesky(A[index]), rtol=1e-12)
        assert_allclose(L[index] @ V[index], B[index], atol=1e-9)
    assert np.isfinite(V).all()
    back = L.transpose(0, 2, 1) @ back_substituted(L, V)
    assert_allclose(back[[0, 2]], V[[0, 2]], atol=1e-9)


@pytest.mark.parametrize("d", [2, 12])
def test_of_rows_that_are_equally_far_the_first_one_is_nearer(d):
    grid = np.stack(np.meshgrid(*[np.arange(9.0)] * 2), axis=-1).reshape(-1, 2)
    X = np.hstack([grid, np.zeros((len(grid), d - 2))])
    near, distances = NearestRows(X).nearest(X[[40]], 7)
    squares = np.sum((X - X[40]) ** 2, axis=1)
    assert near[0].tolist() == np.lexsort((np.arange(len(X)), squares))[:7].tolist()
    assert_allclose(distances[0], np.sqrt(squares[near[0]]), atol=1e-7)
    one, two = (NearestRows(X).nearest(X, 7, n_jobs)[0] for n_jobs in (1, 2))
    assert np.array_equal(one, two)


def test_copies_are_one_row_of_their_weight():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 3, size=(40, 2)).astype(np.float32)
    X[0] = -0.0
    y, weight = rng.normal(size=(40, 2)), rng.randint(0, 3, size=40)
    noise = rng.randint(1, 3, size=40)
    found = distinct_rows(X, Batch(X, y, noise, weight))
    keys = {}
    for x, row, w, v in zip(X, y, weight, noise):
        if w:
            total, moment = keys.get((*x, v), (0.0, 0.0))
            keys[(*x, v)] = total + w, moment + w * row
    assert len(found.X) == len(keys) and found.X.dtype == np.float32
    for x, v, w, mean in zip(found.X, found.noise, found.weight, found.y):
        total, moment = keys[(*x, v)]
        assert w == total
        assert_allclose(mean, moment / total, atol=1e-14)
    assert np.array_equal(found.X[found.of(np.flatnonzero(weight))], X[weight > 0])
    assert distinct_rows(X[:1], Batch(X[:1], y[:1], 0.0, 1.0)).index is None


def table(n=150, d=2, p=1, seed=0, noise=0.1):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    y = np.sin(2 * X).sum(axis=1)[:, None] + noise * rng.normal(size=(n, p))
    return X, y[:, 0] if p == 1 else y


KERNEL = ConstantKernel(1.5) * Matern([0.8, 1.2], nu=1.5) + WhiteKernel(0.05)


def fitted(X, y, k=149, k_fit=149, **others):
    """A regressor whose hyperparameters stay; normalize_y is off, so that units are the user's."""
    weight = others.pop("sample_weight", None)
    posterior = Neighbors(n_neighbors=k, n_neighbors_fit=k_fit)
    given = {"kernel": KERNEL, "optimizer": None, "normalize_y": False} | others
    return SparseGPRegressor(posterior=posterior, random_state=0, **given).fit(X, y, weight)


@pytest.mark.second
def test_all_other_rows_as_neighbours_are_exact_leave_one_out():
    X, y = table(150, p=2)
    model = fitted(X, y, k=140)
    K = KERNEL(X)
    inverse = np.linalg.inv(K)
    variance = 1.0 / inverse.diagonal()
    mean = y - variance[:, None] * (inverse @ y)
    expected = norm.logpdf(y, mean, np.sqrt(variance)[:, None]).sum()
    assert_allclose(model.log_marginal_likelihood_value_, expected, rtol=1e-10)
    value, gradient = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    assert_allclose(value, expected, rtol=1e-10)
    slopes = differences(model.log_marginal_likelihood, KERNEL.theta)
    assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_predictions_are_those_of_dense_algebra(p):
    X, y = table(150, p=p)
    alpha, weight = np.linspace(0.01, 0.1, 150), np.arange(150) % 3 + 1.0
    Q, k = np.random.RandomState(1).uniform(-2, 2, size=(20, 2)), 20
    model = fitted(X, y, k=k, alpha=alpha, sample_weight=weight)
    mean, std = model.predict(Q, return_std=True, latent=True)
    scale, signal = np.array([0.8, 1.2]), KERNEL.k1
    for q, m, s in zip(Q, mean, std):
        N = np.argsort(np.sum(((X - q) / scale) ** 2, axis=1))[:k]
        A = signal(X[N]) + np.diag((0.05 + alpha[N]) / weight[N])
        w = np.linalg.solve(A, signal(X[N], q[None]))[:, 0]
        assert_allclose(m, w @ y[N], atol=1e-10)
        variance = signal(q[None])[0, 0] - w @ signal(X[N], q[None])[:, 0]
        assert_allclose(s**2, variance, atol=1e-10)


def test_more_neighbours_never_raise_the_variance():
    X, y = table(150)
    Q = np.random.RandomState(1).uniform(-2, 2, size=(20, 2))
    stds = [fitted(X, y, k=k).predict(Q, return_std=True)[1] for k in (5, 20, 60, 149)]
    assert np.all(np.diff(stds, axis=0) <= 1e-12)


def test_weights_are_repeated_rows():
    X, y = table(150)
    weight = np.random.RandomState(1).randint(0, 3, size=150)
    Q = np.random.RandomState(2).uniform(-2, 2, size=(20, 2))
    kernel = ConstantKernel(1.5) * Matern([0.8, 1.2], nu=1.5) + WhiteKernel(0.05, (1e-9, 1.0))
    few = {"k": 20, "k_fit": 10, "optimizer": "fmin_l_bfgs_b", "kernel": kernel}
    weighted = fitted(X, y, sample_weight=weight, **few)
    repeated = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight), **few)
    for one, other in zip(weighted.predict(Q, True), repeated.predict(Q, True)):
        assert_allclose(one, other, rtol=1e-9)  # rounding, after some iterations
    assert_allclose(
        weighted.log_marginal_likelihood_value_, repeated.log_marginal_likelihood_value_
    )


def test_a_row_is_predicted_by_its_own_copies():
    # dense leave-one-out of every single copy
    X, y = table(60)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2) + 0.1 * np.arange(120) % 0.3
    model = fitted(X, y, k=59, k_fit=59)  # of 60 distinct rows: the furthest one is missing
    inverse = np.linalg.inv(KERNEL(X))
    variance = 1.0 / inverse.diagonal()
    expected = norm.logpdf(inverse @ y * variance, scale=np.sqrt(variance)).sum()
    assert_allclose(model.log_marginal_likelihood_value_, expected, rtol=2e-6)


def test_covariances_have_the_variances_of_predictions():
    X, y = table(400, p=2)
    Q = np.random.RandomState(1).uniform(-2, 2, size=(30, 2))
    model = fitted(X, y, k=20)
    _, std = model.predict(Q, return_std=True)
    _, cov = model.predict(Q, return_cov=True)
    assert_allclose(cov[np.arange(30), np.arange(30)], std**2, rtol=1e-10)
    assert np.linalg.eigvalsh(cov[:, :, 0]).min() > 0
    draws = model.sample_y(Q, 4000, random_state=0)
    assert_allclose(draws.std(axis=2), std, rtol=0.1)


def test_rows_at_the_same_place_without_noise_are_safe():
    X, y = table(150, noise=0.0)
    X[75:] = X[:75]
    y[75:] = y[:75] + 1e-3
    kernel = RBF(2.0)
    model = fitted(X, y, k=40, kernel=kernel, alpha=0.0)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all() and np.all(std >= 0)
    assert np.isfinite(model.log_marginal_likelihood_value_)


@pytest.fixture(scope="module")
def racers():
    """Rows of a rough function, or of a noisy line, that "auto" takes for many."""
    X, y = table(600, d=3, noise=0.02)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skgp_sparse.choices.plan.EXACT_ROWS", 500)
        patch.setattr("skgp_sparse.choices.plan.EXACT_QUIET", 500)
        patch.setattr("skgp_sparse.choices.plan.POINTS", 20)
        patch.setattr("skgp_sparse.choices.plan.EXACT_RIVAL", 500)
        patch.setattr("skgp_sparse.methods.neighbors._SEVERAL", 200)
        noisy = X[:, 0] + 2.0 * np.random.RandomState(2).normal(size=len(y))
        model = SparseGPRegressor(random_state=0)
        return [clone(model).fit(X, target) for target in (y, noisy)], X, (y, noisy)


@pytest.mark.second
def test_auto_is_neighbors_where_they_lead_and_both_in_a_near_tie(racers):
    models, _, _ = racers
    assert [model.posterior_ for model in models] == ["neighbors", "neighbors+inducing"]
    for model in models:
        best, of_points = (
            max(one.density for one in model.selection_ if one.name.startswith(kind))
            for kind in ("neighbors (", "inducing")
        )
        assert (best > of_points + 0.1) == (model.posterior_ == "neighbors")
        assert all(one.seconds >= 0 and one.rmse > 0 for one in model.selection_)
        of_names = {one.name: one.n_rows for one in model.selection_}
        several = [n for name, n in of_names.items() if name.endswith("100 neighbors)")]
        assert several == [200] and of_names["inducing (8 iterations)"] == 300


def test_a_lead_is_more_than_a_standard_error_of_paired_differences():
    rng = np.random.RandomState(0)
    rows, count = rng.normal(size=100), np.ones(100)
    gain = rng.normal(size=100)
    gain -= gain.mean()
    error = np.sqrt(np.mean(gain**2) / 100)
    behind = ValidationScore(rows, count)
    for lead in (0.9, 1.1, 2.0):
        ahead = ValidationScore(rows + gain + lead * error, count)
        assert ahead.is_better_than(behind) == (lead > 1)
        assert ahead.is_better_than(behind, lead - 0.1)
        assert not ahead.is_better_than(behind, lead + 0.1)
    assert ahead.take(slice(10)).of_rows.shape == (10,)
    for copies, weight in ((2, 1.0), (1, 2.0)):
        one, other = (np.tile(each, copies) for each in (rows + gain + error, rows))
        count = np.full(100 * copies, weight)
        assert ValidationScore(one, count).is_better_than(ValidationScore(other, count))


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 400)])
def test_rows_held_out_are_near_but_count_nothing_in_sets(weight):
    X, y = table(400)
    rows = ArrayDataset(X, y[:, None], 0.0, weight, relative=weight is not None)
    validation = ValidationSet(rows, np.random.RandomState(0))
    known = neighbors.known_rows(rows)
    near = neighbors.NeighborsPosterior.of(KERNEL, known, 20)
    sets = near.left_out(rows, validation.others(100), 20, 1, 4)
    numbers = np.array([np.flatnonzero((X == x).all(axis=1))[0] for x in sets.X])[sets.own]
    held = np.isin(numbers, validation.chosen)
    assert held.any() and not held[:, 0].any() and np.all(sets.count[held] == 0)
    assert np.all(sets.count[~held] > 0) and np.all(sets.weight_near > 0)


def test_copies_are_held_aside_one_by_one():
    X, y = table(400)
    weight = np.where(np.arange(400) < 40, 40.0, 1.0)
    weight[50:100] = 0.5
    rows = ArrayDataset(X, y[:, None], 0.0, weight)
    validation = ValidationSet(rows, np.random.RandomState(0), has_sites=True)
    chosen, count, of_all = validation.others(1000)
    assert_allclose(count, of_all[chosen])
    known = validation.training_rows(1000)
    assert_allclose(known.weight, count)
    held, left = np.zeros((2, 400))
    held[validation.chosen] = np.minimum(weight[validation.chosen], 1)
    left[chosen] = count
    assert_allclose(held + left, weight)
    ratio = validation.count / weight[validation.chosen]
    assert len(ratio) == 80 and np.ptp(ratio) < 1e-12
    assert held[:40].any() and np.all(left[:40] >= 39)
    assert np.all(left[validation.chosen[validation.chosen >= 40]] == 0)


@pytest.mark.second
def test_candidates_are_judged_in_units_of_y(racers):
    models, X, targets = racers
    density = max(one.density for one in models[0].selection_)
    scaled = SparseGPRegressor(random_state=0, posterior="neighbors").fit(X, 10 * targets[0])
    found = max(one.density for one in scaled.selection_)
    assert_allclose(found, density - np.log(10), atol=0.3)


def test_the_variance_far_from_all_rows_is_that_of_the_evidence():
    n, rng = 200, np.random.RandomState(1)
    ids, years = np.repeat(np.arange(n), 4), np.tile(np.arange(4), n)
    effect, distance = rng.normal(size=n), rng.uniform(size=n)
    X = np.column_stack([ids, years, distance[ids]])
    y = (effect + distance)[ids] + 0.3 * years * (1 + 0.3 * rng.normal(size=n))[ids]
    y += 0.02 * rng.normal(size=len(y))
    is_new = (rng.uniform(size=n) < 0.15)[ids]
    given = {"posterior": "neighbors", "mean": None, "random_state": 0}
    model = SparseGPRegressor(**given).fit(X[~is_new], y[~is_new])
    mean, std = model.predict(X[is_new], return_std=True)
    assert std.max() < 15 * y.std()
    assert y.min() - np.ptp(y) < mean.min() and mean.max() < y.max() + np.ptp(y)


def test_a_variance_may_be_large_where_the_evidence_says_so():
    def f(X):
        return (X.sum(axis=1) - 1.5) ** 3

    rng = np.random.RandomState(1)
    X, Q = rng.uniform(size=(150, 3)), rng.uniform(size=(500, 3))
    model = SparseGPRegressor(mean=None, random_state=0).fit(X, f(X))
    assert np.sqrt(np.mean((model.predict(Q) - f(Q)) ** 2)) < 0.0105 * f(Q).std()


def test_columns_that_are_the_same_for_all_rows_change_nothing():
    rng = np.random.RandomState(0)
    X, Q = rng.normal(size=(300, 6)), rng.normal(size=(20, 6))
    X[:, 2:5] = [1.0, 0.0, -2.0]
    for columns in (X, np.column_stack([X, rng.normal(size=(300, 12))])):
        at = np.column_stack([Q, rng.normal(size=(20, columns.shape[1] - 6))])
        rows, distances = NearestRows(columns).nearest(at, 7)
        expected = np.sqrt(((at[:, None] - columns) ** 2).sum(axis=2))
        assert_array_equal(rows, np.argsort(expected, axis=1)[:, :7])
        assert_allclose(distances, np.sort(expected, axis=1)[:, :7], rtol=1e-6)


def test_a_default_variance_stays_half_of_that_of_an_exact_fit():
    kernel = 0.8 * Matern([1.0, 2.0], nu=1.5) + WhiteKernel(0.1)
    bounded = small_fits.as_variable(kernel)
    assert np.array_equal(bounded.theta, kernel.theta)
    places = kernels.positions_of(kernel, "constant_value")[0]
    assert_allclose(np.exp(bounded.bounds[places, 0]), 0.4)
    others = np.delete(np.arange(len(kernel.theta)), places)
    assert np.array_equal(bounded.bounds[others], kernel.bounds[others])

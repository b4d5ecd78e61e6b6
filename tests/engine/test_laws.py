"""Laws of the objectives and posteriors that hold for every kernel, table and inducing points."""

import tracemalloc

import inside
import numpy as np
import pytest
from conftest import (
    BOUNDS,
    KERNELS,
    NOISES,
    Case,
    agree,
    agree_evaluations,
    agree_posteriors,
    make_case,
)
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.utils import check_random_state

from skgp_sparse import kernels
from skgp_sparse.bounds import DTC, FITC, PEP, Titsias, TitsiasNew

LOWER_BOUNDS = ("vfe", "artemev", "titsias_new")
FEW_BOUNDS = ("vfe", "artemev", "titsias_new", "fitc", "pep_0.5", "dtc")
SIGNALS = ("rbf_ard", "matern_0.5", "dot_plus_rbf", "sum")
# a weighted row has to behave like copies of it, whatever holds the weights in memory
WEIGHTED = [
    make_case("rbf_ard", noise, targets=targets, weighted=True)
    for noise, targets in (("white", 1), ("known", 2), ("known_and_white", 1), ("nested", 2))
]


def in_blocks(case, bound, **options):
    """Value, gradient and posterior with other options."""
    problem = case.problem(bound, **options)
    return inside.collapsed.value_and_gradient(problem), inside.collapsed.conclude(problem)[1]


def agree_both(mine, its, X, tolerance):
    """Assert that pairs of an evaluation and a posterior agree."""
    agree_evaluations(mine[0], its[0], tolerance)
    agree_posteriors(mine[1], its[1], X, tolerance)


def random_case(seed):
    """Kernel, noise, weights, targets, scales and inducing points drawn at random."""
    rng = np.random.default_rng(seed)
    name = rng.choice(["rbf", "rbf_ard", "matern_0.5", "matern_2.5", "rational_quadratic", "sum"])
    case = make_case(
        name,
        str(rng.choice(NOISES)),
        n=int(rng.integers(5, 60)),
        m=int(rng.integers(1, 20)),
        targets=int(rng.integers(1, 3)),
        weighted=bool(rng.integers(2)),
        seed=seed,
    )
    theta = case.kernel.theta + rng.normal(size=len(case.kernel.theta))
    kernel, Z = case.kernel.clone_with_theta(theta), rng.uniform(-2, 2, case.Z.shape)
    return case._replace(kernel=kernel, Z=Z, jitter=inside.Jitter(1e-8))


def dense_noise(case):
    """Noise-free kernel matrix of the rows, and their noise variances."""
    signal, learned, _ = kernels.diagonal(case.kernel, case.X)
    K = kernels.evaluate(case.kernel, case.X, case.X)
    agree(np.broadcast_to(signal + learned, len(K)), case.kernel.diag(case.X), 1e-13)
    return K, np.broadcast_to(learned + case.noise, len(K))


def dense_nystrom(case):
    """``Qff`` and its residual ``r``."""
    Kuf = case.kernel(case.Z, case.X)
    Kuu = case.kernel(case.Z, case.Z.copy())
    Qff = Kuf.T @ np.linalg.solve(Kuu, Kuf)
    return Qff, dense_noise(case)[0].diagonal() - Qff.diagonal()


def dense_log_density(cov, y):
    """``log N(y; 0, cov)`` summed over targets."""
    columns = y.reshape(len(y), -1).T
    return sum(multivariate_normal(cov=cov).logpdf(column) for column in columns)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_are_ordered_and_never_exceed_the_exact_value(seed):
    case = random_case(seed)
    values = [inside.collapsed.value(case.problem(BOUNDS[name])) for name in LOWER_BOUNDS]
    values.append(exact_value(case))
    assert np.all(np.diff(values) >= -1e-7 * np.abs(values[-1]))
    assert values[0] <= inside.collapsed.value(case.problem(DTC())) + 1e-7 * np.abs(values[-1])


@pytest.mark.parametrize("noise", NOISES)
def test_pep_of_power_one_is_fitc(noise):
    case = make_case("sum", noise, weighted=True)
    agree_both(in_blocks(case, PEP(1.0)), in_blocks(case, FITC()), case.X, 1e-12)


@pytest.mark.parametrize("noise", NOISES)
def test_pep_of_vanishing_power_is_titsias(noise):
    case = make_case("sum", noise, weighted=True)
    limit, at_limit = in_blocks(case, Titsias()), in_blocks(case, PEP(0.0))
    agree_both(at_limit, limit, case.X, 1e-13)
    powers = np.array([1e-3, 1e-4, 1e-5])
    gaps = [inside.collapsed.value(case.problem(PEP(power))) - limit[0].value for power in powers]
    agree(gaps / powers, np.full(3, gaps[-1] / powers[-1]), 2e-2)
    near = in_blocks(case, PEP(1e-8))
    agree_both(near, limit, case.X, 1e-5)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("bound", BOUNDS)
def test_every_objective_is_exact_where_rows_are_inducing_points(bound, noise):
    case = make_case("matern_1.5", noise, n=25, targets=2)
    distinct = np.unique(case.X, axis=0)
    extra = np.array([[5.0, 5.0]])
    case = case._replace(Z=np.vstack([distinct[::-1], extra]))
    mine, found = in_blocks(case, BOUNDS[bound])
    truth = inside.exact.value_and_gradient(case.kernel, case.groups())
    agree(mine.value, truth.value, 1e-10)
    agree(mine.theta_bar, truth.theta_bar, 1e-9)
    agree_posteriors(
        found, inside.exact.conclude(case.kernel, case.groups())[1], case.X + 0.1, 1e-9
    )


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_objective_is_the_dense_formula(bound, signal):
    case = make_case(signal, "known_and_white", targets=2)
    Qff, r = dense_nystrom(case)
    s2 = dense_noise(case)[1]
    phi, _ = BOUNDS[bound].penalty(r / s2)
    penalty, _ = BOUNDS[bound].reduce(phi.sum(), len(phi))
    cov = Qff + np.diag(s2 + BOUNDS[bound].noise_share * r)
    expected = dense_log_density(cov, case.y) - 2 * penalty
    agree(inside.collapsed.value(case.problem(BOUNDS[bound])), expected, 1e-11)


def test_many_inducing_points_take_the_panels_of_the_triangular_products():
    case = make_case("matern_0.5", n=500, seed=3)
    rng = np.random.default_rng(3)
    case = case._replace(Z=rng.uniform(-2, 2, (300, 2)))
    Qff, r = dense_nystrom(case)
    s2 = dense_noise(case)[1]
    expected = dense_log_density(Qff + np.diag(s2), case.y) - 0.5 * np.log1p(r / s2).sum()
    agree(inside.collapsed.value(case.problem(TitsiasNew())), expected, 1e-10)


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_block_size_does_not_matter(bound, noise, monkeypatch):
    case = make_case("dot_plus_rbf", noise, n=230, targets=2, weighted=True)
    whole = in_blocks(case, BOUNDS[bound])
    monkeypatch.setattr(inside.dataset, "_FEWEST_ROWS", 1)
    monkeypatch.setattr(inside.dataset, "_BLOCK_BYTES", 8 * len(case.Z) * 37)
    assert len(case.problem(BOUNDS[bound]).layout().blocks) == 7
    blocks = in_blocks(case, BOUNDS[bound])
    agree_both(blocks, whole, case.X, 1e-11)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_memory_budget_does_not_matter(bound, noise):
    case = make_case("sum", noise, n=400, weighted=True)
    whole = in_blocks(case, BOUNDS[bound])
    held = 8 * len(case.Z) * len(case.X) * kernels.footprint(case.kernel)
    for memory, some_are_kept in ((held, True), (1.0, False)):
        problem = case.problem(BOUNDS[bound], memory=memory)
        kept = problem.layout().whole
        assert len(kept) > 3 and not all(kept) and any(kept) == some_are_kept
        small = in_blocks(case, BOUNDS[bound], memory=memory)
        agree_both(small, whole, case.X, 1e-11)


@pytest.mark.second(share=0.1, thin=1)
@pytest.mark.parametrize("n_jobs", [1, 4])
@pytest.mark.parametrize("signal", ["rbf_ard", "matern_0.5"])
@pytest.mark.parametrize("bound", ["titsias_new", "fitc"])
def test_memory_budget_is_kept(bound, signal, n_jobs):
    case, rng, budget = make_case(signal), np.random.default_rng(0), 1e7
    case = case._replace(X=rng.normal(size=(16_000, 2)), y=rng.normal(size=16_000))
    case = case._replace(Z=rng.normal(size=(64, 2)), jitter=inside.Jitter())
    problem = case.problem(BOUNDS[bound], memory=budget, n_jobs=n_jobs)
    tracemalloc.start()
    try:
        inside.collapsed.value_and_gradient(problem)
        assert tracemalloc.get_traced_memory()[1] < budget
    finally:
        tracemalloc.stop()


@pytest.mark.second(share=0.31)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_threads_change_nothing_to_the_last_bit(bound, noise, monkeypatch):
    case = make_case("rbf_ard", noise, n=230, targets=2, weighted=True)
    monkeypatch.setattr(inside.dataset, "_BLOCK_BYTES", 1)
    with inside.single_threaded_blas():
        (one, posterior_one), *others = (
            in_blocks(case, BOUNDS[bound], n_jobs=n_jobs) for n_jobs in (1, 2, 3)
        )
        for several, posterior_several in others:
            assert several.value == one.value
            np.testing.assert_array_equal(several.theta_bar, one.theta_bar)
            np.testing.assert_array_equal(several.Z_bar, one.Z_bar)
            for n_jobs in (1, 3):
                prediction = posterior_several.mean_and_variance(case.X, n_jobs)
                expected = posterior_one.mean_and_variance(case.X)
                for mine, its in zip(prediction, expected, strict=True):
                    np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("memory", [2.0**30, 2.0**26])
def test_blocks_do_not_depend_on_the_number_of_threads(memory):
    case = make_case("rbf_ard", n=40_000)
    case = case._replace(Z=np.zeros((512, 2)))
    one, many = (
        case.problem(DTC(), memory=memory, n_jobs=jobs).layout().blocks for jobs in (1, 16)
    )
    assert one == many


@pytest.mark.parametrize("case", WEIGHTED, ids=lambda case: str(case.kernel))
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_row_of_weight_w_is_w_rows(bound, case):
    assert np.any(case.weight == 0) and np.any(case.weight > 1)
    mine, its = in_blocks(case, BOUNDS[bound]), in_blocks(case.repeated(), BOUNDS[bound])
    agree_both(mine, its, case.X, 1e-11)


@pytest.mark.parametrize("bound", BOUNDS)
def test_layout_of_weights_and_noise_does_not_matter(bound):
    case = make_case("sum", "known_and_white", weighted=True)
    wide = case._replace(
        X=np.asfortranarray(case.X),
        y=np.stack([case.y, case.y], axis=1)[:, 1],
        weight=np.repeat(case.weight, 2)[::2],
        noise=np.repeat(case.noise, 3)[::3],
    )
    mine, its = in_blocks(wide, BOUNDS[bound]), in_blocks(case, BOUNDS[bound])
    agree_both(mine, its, case.X, 1e-14)


@pytest.mark.parametrize("bound", BOUNDS)
def test_objectives_add_over_targets(bound):
    case = make_case("sum", "known_and_white", targets=3, weighted=True)
    mine, found = in_blocks(case, BOUNDS[bound])
    columns = [in_blocks(case._replace(y=column), BOUNDS[bound]) for column in case.y.T]
    agree(mine.value, sum(each.value for each, _ in columns), 1e-12)
    agree(mine.theta_bar, sum(each.theta_bar for each, _ in columns), 1e-11)
    agree(mine.Z_bar, sum(each.Z_bar for each, _ in columns), 1e-11)
    agree(found.mean(case.X), np.hstack([each.mean(case.X) for _, each in columns]), 1e-11)


@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_float32_and_memory_maps_are_read_like_arrays(bound, tmp_path):
    case = make_case("rbf_ard", "known_and_white", n=150)
    single = case.X.astype(np.float32)
    np.save(tmp_path / "X.npy", single)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    expected = in_blocks(case._replace(X=single.astype(np.float64)), BOUNDS[bound], memory=1.0)
    for X in (single, mapped):
        mine = in_blocks(case._replace(X=X), BOUNDS[bound], memory=1.0)
        agree_both(mine, expected, X, 1e-15)


@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_standardised_targets_carry_their_noise_along(bound):
    case = make_case("rbf_ard", "known_and_white", targets=2)
    mean, scale = np.array([10.0, -20.0]), np.array([3.0, 3.0])
    original = inside.ArrayDataset(
        case.X, case.y * scale + mean, case.noise * 9.0, scaler=inside.TargetScaler(mean, scale)
    )
    problem = case.problem(BOUNDS[bound])
    mine = inside.collapsed.value_and_gradient(problem._replace(rows=original))
    agree_evaluations(mine, inside.collapsed.value_and_gradient(problem), 1e-11)


@pytest.mark.parametrize("noise", NOISES)
def test_the_exact_process_is_the_dense_formula_with_duplicates_and_weights(noise):
    case = make_case("matern_1.5", noise, n=50, targets=2, weighted=True)
    case = case._replace(X=np.vstack([case.X[:30], case.X[:20]]))
    again, at = case.repeated(), case.X + 0.07
    assert len(case.groups().X) < np.count_nonzero(case.weight)
    K, s2 = dense_noise(again)
    agree(exact_value(case), dense_log_density(K + np.diag(s2), again.y), 1e-11)
    mine, its = (
        inside.exact.value_and_gradient(each.kernel, each.groups()) for each in (case, again)
    )
    agree_evaluations(mine, its, 1e-11)
    cross = again.kernel(at, again.X)
    gain = np.linalg.solve(K + np.diag(s2), cross.T).T
    agree_dense(inside.exact.conclude(case.kernel, case.groups())[1], again, at, gain, cross, 1e-10)


def agree_dense(found, case, at, gain, cross, tolerance):
    """Assert the moments of a posterior at rows, by the gain of y and the cross covariance."""
    covariance = case.kernel(at, at.copy()) - gain @ cross.T
    agree(found.mean(at), gain @ case.y, tolerance)
    agree(found.covariance(at), covariance, tolerance)
    agree(found.mean_and_variance(at)[1], covariance.diagonal(), tolerance)


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_posterior_is_dense_algebra_far_from_inducing_points_and_at_them(bound, signal):
    case = make_case(signal, "known_and_white", targets=2)
    at = np.vstack([case.X + 0.03, case.Z, [[30.0, -40.0]]])
    Qff, r = dense_nystrom(case)
    lam = dense_noise(case)[1] + BOUNDS[bound].noise_share * r
    Kuu, K = case.kernel(case.Z, case.Z.copy()), case.kernel(at, case.Z)
    cross = K @ np.linalg.solve(Kuu, case.kernel(case.Z, case.X))
    gain = np.linalg.solve(Qff + np.diag(lam), cross.T).T
    found = inside.collapsed.conclude(case.problem(BOUNDS[bound]))[1]
    agree_dense(found, case, at, gain, cross, 1e-9)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("bound", ["vfe", "fitc", "pep_0.5"])
def test_posterior_variance_lies_between_zero_and_the_prior(bound, seed):
    case = random_case(seed)
    _, found, _ = inside.collapsed.conclude(case.problem(BOUNDS[bound]))
    at = np.vstack([case.X, case.Z, case.Z + 1e-9, case.X + 1e3])
    _, variance = found.mean_and_variance(at)
    signal = kernels.diagonal(case.kernel, at)[0]
    assert np.all(variance >= 0) and np.all(variance <= signal * (1 + 1e-7))
    assert np.linalg.eigvalsh(found.covariance(case.X)).min() >= -1e-7 * np.max(signal)


@pytest.mark.parametrize("bound", BOUNDS)
def test_noise_inside_products_is_noise(bound):
    case = make_case("rbf_ard", targets=2)
    nested = ConstantKernel(0.6) * (RBF([0.7, 1.5]) + WhiteKernel(0.25))
    plain = ConstantKernel(0.6) * RBF([0.7, 1.5]) + WhiteKernel(0.15)
    mine, its = (in_blocks(case._replace(kernel=k), BOUNDS[bound]) for k in (nested, plain))
    agree(mine[0].value, its[0].value, 1e-13)
    # the constant scales signal and noise together
    agree(mine[0].theta_bar[1:], its[0].theta_bar[1:], 1e-12)
    agree(mine[0].theta_bar[0], its[0].theta_bar[0] + its[0].theta_bar[-1], 1e-12)
    agree(mine[0].Z_bar, its[0].Z_bar, 1e-12)
    agree_posteriors(mine[1], its[1], case.X, 1e-12)


@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_known_and_learned_noise_add(bound):
    case = make_case("rbf_ard")
    split = case._replace(kernel=KERNELS["rbf_ard"] + WhiteKernel(0.05), noise=0.1)
    in_rows = case._replace(kernel=KERNELS["rbf_ard"], noise=np.full(len(case.X), 0.15))
    whole = in_blocks(case, BOUNDS[bound])[0]
    for other in (split, in_rows):
        found = in_blocks(other, BOUNDS[bound])[0]
        agree(found.value, whole.value, 1e-13)
        agree(found.theta_bar[:3], whole.theta_bar[:3], 1e-11)
        agree(found.Z_bar, whole.Z_bar, 1e-11)


@pytest.mark.parametrize("bound", FEW_BOUNDS)
def test_gradient_of_theta_does_not_depend_on_whether_inputs_move(bound):
    problem = make_case("sum", "known_and_white").problem(BOUNDS[bound])
    alone, both = (
        inside.collapsed.value_and_gradient(problem, inputs=inputs) for inputs in (False, True)
    )
    assert alone.Z_bar is None and alone.value == both.value
    agree(alone.theta_bar, both.theta_bar, 1e-14)


def test_evaluations_change_nothing_they_are_given():
    case = make_case("sum", "known_and_white", weighted=True)
    kept = [a.copy() for a in (case.X, case.y, case.Z, case.noise, case.weight, case.kernel.theta)]
    in_blocks(case, BOUNDS["titsias_new"])
    inside.exact.value_and_gradient(case.kernel, case.groups())
    now = (case.X, case.y, case.Z, case.noise, case.weight, case.kernel.theta)
    for before, after in zip(kept, now, strict=True):
        np.testing.assert_array_equal(before, after)


def test_duplicate_inducing_points_raise_the_jitter_and_cost_little():
    case = make_case("rbf_ard")
    expected = inside.collapsed.value_and_gradient(case.problem(TitsiasNew()))
    doubled = case._replace(Z=np.vstack([case.Z, case.Z]), jitter=inside.Jitter(1e-300))
    found = inside.collapsed.value_and_gradient(doubled.problem(TitsiasNew()))
    assert 1e-300 < found.jitter <= 1e-8
    agree(found.value, expected.value, 1e-5)
    assert np.isfinite(found.theta_bar).all() and np.isfinite(found.Z_bar).all()


def test_options_default_to_a_relative_jitter_and_unbounded_memory():
    case = make_case("rbf_ard")
    found = inside.collapsed.value(
        inside.Problem(case.kernel, inside.InducingBasis(case.Z), case.rows(), TitsiasNew())
    )
    agree(found, inside.collapsed.value(case.problem(TitsiasNew())), 1e-5)
    assert inside.Options().jitter.relative and inside.Options().memory == np.inf


def drawn_covariance(process, X, n_samples=20_000):
    draws = process.deviations(X, n_samples, check_random_state(0))
    assert draws.shape == (len(X), n_samples)
    return draws @ draws.T / n_samples


@pytest.mark.parametrize("joint_rows", [4096, 0], ids=["joint", "through_inducing_points"])
def test_samples_have_the_covariance_of_the_process(joint_rows, monkeypatch):
    case = make_case("matern_1.5", m=12)
    case = case._replace(X=np.unique(case.X, axis=0)[:30], y=case.y[:30])
    monkeypatch.setattr(inside.posterior, "JOINT_ROWS", joint_rows)
    _, found, _ = inside.collapsed.conclude(case.problem(TitsiasNew()))
    drawn, cov = drawn_covariance(found, case.X), found.covariance(case.X)
    agree(drawn.diagonal(), cov.diagonal(), 0.05)
    at_Z = drawn_covariance(found, case.Z)  # no residual there: joint in both cases
    agree(at_Z, found.covariance(case.Z), 0.05)
    if joint_rows:
        agree(drawn, cov, 0.05)


def test_samples_of_the_exact_process_have_its_covariance_beyond_the_joint_limit(monkeypatch):
    case = make_case("matern_1.5", n=20)
    _, found, _ = inside.exact.conclude(case.kernel, case.groups())
    monkeypatch.setattr(inside.posterior, "JOINT_ROWS", 0)
    at = case.X + 0.05
    agree(drawn_covariance(found, at).diagonal(), found.covariance(at).diagonal(), 0.05)


def test_prior_is_the_kernel():
    case = make_case("dot_plus_rbf")
    prior = inside.Prior(case.kernel, 2)
    K = kernels.evaluate(case.kernel, case.X, case.X)
    mean, variance = prior.mean_and_variance(case.X)
    assert mean.shape == (len(case.X), 2) and not mean.any()
    agree(variance, K.diagonal(), 1e-13)
    agree(prior.covariance(case.X), K, 1e-15)
    agree(drawn_covariance(prior, case.Z), kernels.evaluate(case.kernel, case.Z, case.Z), 0.05)


def test_stationary_objectives_do_not_feel_a_common_offset():
    case = make_case("matern_2.5")
    moved = case._replace(X=case.X + 1e3, Z=case.Z + 1e3)
    mine, its = in_blocks(moved, TitsiasNew())[0], in_blocks(case, TitsiasNew())[0]
    agree_evaluations(mine, its, 1e-8)


FAR = [1e4, 1e6, 1e8]
STATIONARY = ["rbf_ard", "matern_0.5", "rational_quadratic"]


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("signal", STATIONARY)
def test_a_far_row_does_not_spoil_the_others(signal, far):
    case = make_case(signal)
    alone = case._replace(X=np.array([[far, far]]), y=np.array([0.5]))
    both = case._replace(X=np.vstack([case.X, alone.X]), y=np.append(case.y, alone.y))
    for value in (bound_value, exact_value):
        agree(value(both), value(case) + value(alone), 1e-9)
    _, found, _ = inside.collapsed.conclude(case.problem(TitsiasNew()))
    agree(found.covariance(both.X)[:-1, :-1], found.covariance(case.X), 1e-9)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("signal", STATIONARY)
def test_a_far_inducing_point_does_not_spoil_the_others(signal, far):
    case = make_case(signal)
    both = case._replace(Z=np.vstack([case.Z, [[far, far]]]))
    mine, its = (in_blocks(each, TitsiasNew())[0] for each in (both, case))
    agree(mine.value, its.value, 1e-9)
    agree(mine.theta_bar, its.theta_bar, 1e-9)
    agree(mine.Z_bar, np.vstack([its.Z_bar, np.zeros((1, 2))]), 1e-9)


def bound_value(case):
    return inside.collapsed.value(case.problem(TitsiasNew()))


def exact_value(case):
    return inside.exact.value(case.kernel, case.groups())


@pytest.mark.parametrize("n, noise", [(2, 0.1), (60, 0.1), (60, 0.0), (530, 0.1)])
def test_the_exact_value_alone_is_that_with_its_gradient(n, noise):
    rng = np.random.default_rng(0)
    X, weight = np.repeat(rng.normal(size=(n, 2)), 2, axis=0), rng.integers(1, 3, 2 * n) * 1.0
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1]]) + noise * rng.normal(size=(2 * n, 2))
    table = inside.ArrayDataset(X, y, 1e-14 + noise * rng.uniform(size=2 * n), weight)
    groups = inside.arrays.DistinctInputs.of(table)
    for kernel in (ConstantKernel(2.0) * RBF(3.0), Matern([0.7, 2.0], nu=2.5)):
        both = inside.exact.value_and_gradient(kernel, groups)
        # without noise, the matrix is nearly singular, and values have three or four digits
        agree(inside.exact.value(kernel, groups), both.value, 1e-11 if noise else 1e-3)


def test_scaling_targets_kernel_and_noise_together_shifts_every_objective_alike():
    signal = Matern([0.9, 1.6], nu=1.5)
    case = make_case("rbf_ard", weighted=True)._replace(jitter=inside.Jitter(1e-6))
    unit = case._replace(kernel=ConstantKernel(1.0) * signal + WhiteKernel(0.2))
    scaled = case._replace(
        kernel=ConstantKernel(49.0) * signal + WhiteKernel(0.2 * 49.0), y=7.0 * case.y
    )
    shift = case.weight.sum() * np.log(7.0)
    for bound in BOUNDS.values():
        mine, its = in_blocks(scaled, bound)[0], in_blocks(unit, bound)[0]
        agree(mine.value, its.value - shift, 1e-12)
        agree(mine.theta_bar, its.theta_bar, 1e-10)
        agree(mine.Z_bar, its.Z_bar, 1e-10)


def test_one_row_and_one_inducing_point_suffice():
    X = np.array([[0.3]])
    case = Case(DotProduct(0.5) + RBF() + WhiteKernel(0.1), X, X, np.array([1.2]))
    variance = 0.25 + 0.09 + 1.0
    expected = multivariate_normal(cov=variance + 0.1).logpdf(1.2)
    for bound in BOUNDS.values():
        mine, found = in_blocks(case, bound)
        agree(mine.value, expected, 1e-12)
        agree(found.mean(X), [[variance / (variance + 0.1) * 1.2]], 1e-12)


def test_distinct_rows_are_found_chunk_by_chunk():
    rng = np.random.default_rng(0)
    few = rng.integers(0, 3, size=(5001, 2)).astype(np.float32)
    weight = np.ones(len(few))
    weight[np.all(few == 2.0, axis=1)] = 0.0
    weight[-1], few[-1] = 1.0, 9.0  # in the last chunk
    rows = inside.ArrayDataset(few, np.zeros((len(few), 1)), 0.0, weight)
    expected = np.unique(few[weight > 0], axis=0)
    assert rows.distinct().dtype == np.float64 and len(expected) == 9
    np.testing.assert_array_equal(rows.distinct(), expected)
    np.testing.assert_array_equal(rows.distinct(most=9), expected)
    assert rows.distinct(most=8) is None


def test_equal_rows_have_equal_numbers_whatever_their_bits():
    X = np.random.default_rng(0).choice([-1.5, 0.0, 2.0, np.nan], size=(60, 2))
    X[:9] *= -1.0  # zeros and NaN have a sign
    same, ordered = inside.moments.Distinct(X), inside.moments.Distinct(X, is_sorted=False)
    filled = np.nan_to_num(X, nan=9.0)  # last, as missing values are
    np.testing.assert_array_equal(filled[same.first], np.unique(filled, axis=0))
    np.testing.assert_array_equal(X[same.first[same.index]], X)
    assert np.all(np.diff(ordered.first) > 0) and np.array_equal(np.sort(same.first), ordered.first)

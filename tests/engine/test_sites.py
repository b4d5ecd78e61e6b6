"""Sites against ball arithmetic, dense algebra, finite differences, and the regression engine."""

import tracemalloc
from dataclasses import replace

import inside
import numpy as np
import pytest
from conftest import (
    KERNELS,
    agree,
    agree_evaluations,
    agree_posteriors,
    check_site_gradient,
    infer,
    make_case,
    stored_cases,
)
from gaussian import Gaussian
from inside import exact as exact_regression
from kernel_cases import Opaque, parsed
from sklearn.gaussian_process import kernels as sk
from test_golden_sites import check
from tiers import crossed

from skgp_sparse import bounds, kernels
from skgp_sparse.likelihoods import Logit, Probit

CASES = stored_cases("classification")
# condition number of Kuu above 1e7; separable classes, where the fixed point is hardly attractive
DIFFICULT = {"ill_conditioned", "separable", "rbf_iso"}
TIGHT = inside.Inner(max_iter=1000, tol=1e-18)


METHODS = {
    "vfe_probit": inside.Variational(Probit(), False),
    "vfe_logit": inside.Variational(Logit(), False),
    "new_probit": inside.Variational(Probit(), True),
    "new_logit": inside.Variational(Logit(), True),
    "gfitc_probit": inside.ExpectationPropagation(Probit(), 1.0),
    "gfitc_logit": inside.ExpectationPropagation(Logit(), 1.0),
}
GOLDEN = [name for name in METHODS if name != "gfitc_logit"]


def golden_objective(name, method, inner=TIGHT):
    ref = CASES[name]
    case = make_case()._replace(X=ref["X"], y=ref["y"])
    options = inside.Options(jitter=inside.Jitter(float(ref["jitter"]), relative=False))
    kernel, basis = parsed(ref["kernel"]), inside.InducingBasis(ref["Z"])
    return inside.SiteObjective(case.rows(), METHODS[method], basis, options, inner), kernel, ref


def labelled(name="rbf_ard", *, noise="known", weighted=False, seed=0, n=40):
    """A random table with labels, without noise unless asked for."""
    case = make_case(name, noise, weighted=weighted, seed=seed, n=n)
    y = np.where(case.y + 0.3 > 0, 1.0, -1.0)
    return case._replace(y=y, noise=0.0)


def objective(case, method, inner=TIGHT, **options):
    options = inside.Options(jitter=case.jitter, **options)
    return inside.SiteObjective(case.rows(), method, inside.InducingBasis(case.Z), options, inner)


@pytest.mark.parametrize("method", GOLDEN)
@pytest.mark.parametrize("name", CASES)
def test_everything_agrees_with_ball_arithmetic(name, method):
    found, kernel, ref = golden_objective(name, method)
    tolerance = 1e-6 if name in DIFFICULT else 1e-8
    check(found, kernel, ref, method, tolerance)
    mean, variance = found.conclude(kernel).posterior.mean_and_variance(ref["X_test"])
    probability = METHODS[method].likelihood.probability(mean[:, 0], variance)
    agree(probability, ref[f"{method}_prob_test"], tolerance)
    solution = infer(found, kernel)
    assert solution.converged
    if method.startswith("gfitc"):
        agree(solution.state[0], ref[f"{method}_site_nu"], 10 * tolerance)
        agree(solution.state[1], ref[f"{method}_site_tau"], 10 * tolerance)


@pytest.mark.parametrize("method", GOLDEN)
@pytest.mark.parametrize("name", CASES)
def test_default_tolerance_loses_little(name, method):
    found, kernel, ref = golden_objective(name, method, inside.Inner())
    solution = infer(found, kernel)
    value = ref[f"{method}_logz" if method.startswith("gfitc") else f"{method}_bound"]
    assert solution.converged and solution.n_iter <= 25
    agree(solution.step.value, value, 1e-7)


def test_spherical_with_v_of_one_is_the_plain_bound():
    class Held(inside.Variational):
        def share(self, mean):
            return np.ones_like(mean)

    case = labelled()
    held = objective(case, Held(Probit(), True))
    plain = objective(case, METHODS["vfe_probit"])
    first, second = (o.value_and_gradient(case.kernel, True) for o in (held, plain))
    agree_evaluations(first, second, 1e-10)


@pytest.mark.parametrize(
    "method, bound",
    [
        (inside.Variational(Gaussian(0.2), False), bounds.Titsias()),
        (inside.Variational(Gaussian(0.2), True), bounds.Artemev()),
        (inside.ExpectationPropagation(Gaussian(0.2), 1.0), bounds.FITC()),
        *(
            (inside.ExpectationPropagation(Gaussian(0.2), p), bounds.PEP(p))
            for p in (0.1, 0.5, 0.9)
        ),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_sites_are_the_collapsed_bound(method, bound, weighted):
    case = make_case(noise="known", weighted=weighted)._replace(noise=0.0)
    sites, problem = objective(case, method), case._replace(noise=0.2).problem(bound)
    mine, its = (
        sites.value_and_gradient(case.kernel, True),
        inside.collapsed.value_and_gradient(problem),
    )
    agree_evaluations(mine, its, 1e-9)
    if isinstance(method, inside.Variational):
        mine, its = sites.conclude(case.kernel).posterior, inside.collapsed.conclude(problem)[1]
        agree_posteriors(mine, its, case.X + 0.3, 1e-8)


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("method", METHODS)
def test_rows_that_memory_does_not_hold_are_projected_again(method):
    case = labelled(n=2000)
    whole = objective(case, METHODS[method]).value_and_gradient(case.kernel, True)
    shares = []
    for memory in (1.0, 1e5, 3.2e5):
        found = objective(case, METHODS[method], memory=memory)
        kept = [seen is not None for seen in found.infer(case.kernel)[0].projected.projections]
        shares.append(np.mean(kept))
        agree_evaluations(found.value_and_gradient(case.kernel, True), whole, 1e-8)
    assert shares[0] == 0.0 < shares[1] < 1.0 == shares[2]


def test_projections_hold_little_but_v_where_memory_is_short():
    case, held = labelled(n=2000), []
    for memory in (3.2e5, np.inf):
        found = objective(case, METHODS["vfe_probit"], memory=memory)
        problem = found.infer(case.kernel)[0].projected.problem
        tracemalloc.start()
        projected = inside.collapsed_sites.project_rows(problem)
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert None not in projected.projections
    assert held[0] < 0.6 * held[1]  # of which half is V


@pytest.mark.second(share=0.1)
@crossed(name=KERNELS, bound=["vfe", "new", "gfitc"], sigmoid=["probit", "logit"])
def test_gradient_is_that_of_the_optimised_objective(name, bound, sigmoid):
    case = labelled(name, n=25)
    check_site_gradient(objective(case, METHODS[f"{bound}_{sigmoid}"]), case.kernel, case.Z)


@pytest.mark.parametrize("method", METHODS)
def test_warm_start_leads_to_the_same_point_in_fewer_steps(method):
    case = labelled(n=200)
    found = objective(case, METHODS[method], inside.Inner())
    cold, inner_state = infer(found, case.kernel), found.value_and_gradient(case.kernel).inner_state
    moved = case.kernel.clone_with_theta(case.kernel.theta + 0.02)
    warm = infer(found, moved, inner_state)
    again = infer(objective(case, METHODS[method], inside.Inner()), moved)
    assert warm.n_iter <= again.n_iter <= cold.n_iter + 2
    agree(warm.step.value, again.step.value, 1e-8)


def hard_solutions(objective_of, X):
    """Objectives and kernels of conflicting, separable and rare labels, with their solutions."""
    conflicting = np.tile([1.0, -1.0], 30)
    for y in (conflicting, np.sign(X[:, 0]), np.where(np.arange(60) == 0, 1.0, -1.0)):
        case = labelled()._replace(X=X, y=y, Z=X[::6], jitter=inside.Jitter())
        for variance in (1e-2, 1.0, 1e4, 1e6):
            kernel, found = sk.ConstantKernel(variance) * sk.RBF(1.0), objective_of(case)
            solution = infer(found, kernel)
            assert np.isfinite(solution.step.value)
            assert np.all(solution.step.result[2].variance >= 0)
            assert np.all(solution.state[1] > 0)
            yield found, kernel, solution.converged


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("method", METHODS)
def test_hard_problems_converge_or_say_so(method):
    inner = inside.Inner(parameter="max_iter_predict")
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 2, axis=0)
    made = lambda case: objective(case, METHODS[method], inner)
    for found, kernel, converged in hard_solutions(made, X):
        if not converged:
            with pytest.warns(UserWarning, match="Raise max_iter_predict"):
                found.conclude(kernel)


def test_few_rows_are_their_own_inducing_points():
    case = labelled(weighted=True)
    model = inside.SiteObjectives(METHODS["vfe_probit"])
    found = model.exact(case.rows(), inside.Options())
    kept = case.X[case.weight > 0]
    np.testing.assert_array_equal(found.inducing_points, np.unique(kept, axis=0))
    part = replace(case.rows(), weight=None)
    assert len(model.exact(part, inside.Options()).inducing_points) == len(
        np.unique(case.X, axis=0)
    )


# every distinct input an inducing point


def exact(case, method, **options):
    found = inside.SiteObjectives(METHODS[method], TIGHT).exact(
        case.rows(), inside.Options(**options)
    )
    return replace(found, inner=TIGHT)


def conflicting(case, copies=8):
    """The table with some of its inputs there again, with the other label."""
    X = np.vstack([case.X, case.X[:copies]])
    weight = None if case.weight is None else np.append(case.weight, np.full(copies, 2.0))
    return case._replace(X=X, y=np.append(case.y, -case.y[:copies]), weight=weight)


def unequal(case):
    """The table with rows of equal inputs left out."""
    first = np.unique(case.X, axis=0, return_index=True)[1]
    return case._replace(X=case.X[first], y=case.y[first])


@pytest.mark.parametrize("name", CASES)
def test_exact_values_agree_with_ball_arithmetic(name):
    ref = CASES[name]
    case = make_case()._replace(X=ref["X"], y=ref["y"])
    kernel = parsed(ref["kernel"])
    for method, full in (
        ("vfe_probit", "vfe_full_probit_bound"),
        ("new_probit", "vfe_full_probit_bound"),
        ("vfe_logit", "vfe_full_logit_bound"),
        ("gfitc_probit", "ep_full_probit_logz"),
    ):
        agree(exact(case, method).value(kernel), ref[full], 1e-10)


@pytest.mark.parametrize("method", GOLDEN)
def test_exact_gradient_marginals_and_predictions_agree_with_ball_arithmetic(method):
    ref = CASES["z_equals_x"]
    case = make_case()._replace(X=ref["X"], y=ref["y"])
    kernel, found = parsed(ref["kernel"]), exact(case, method)
    evaluation = found.value_and_gradient(kernel)
    agree(evaluation.theta_bar, ref[f"{method}_grad_theta"], 1e-8)
    assert evaluation.Z_bar is None and evaluation.jitter == 0.0
    rows = infer(found, kernel).step.result[2]
    agree(rows.mean, ref[f"{method}_qf_mean_train"], 1e-8)
    agree(rows.variance, ref[f"{method}_qf_var_train"], 1e-8)
    mean, variance = found.conclude(kernel).posterior.mean_and_variance(ref["X_test"])
    agree(mean[:, 0], ref[f"{method}_mean_test"], 1e-8)
    agree(variance, ref[f"{method}_var_test"], 1e-8)


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_exact_is_sparse_at_the_distinct_inputs(method, weighted):
    case = conflicting(labelled("matern_1.5", weighted=weighted))
    check_against_sparse(case, method, 1e-8)


@pytest.mark.parametrize("noise", ["white", "nested"])
@pytest.mark.parametrize("method", ["gfitc_probit", "gfitc_logit"])
def test_exact_is_fitc_with_its_white_noise(method, noise):
    check_against_sparse(conflicting(labelled("matern_1.5", noise=noise)), method, 1e-8)


def check_against_sparse(case, method, tolerance):
    mine = exact(case, method)
    its = objective(case._replace(Z=mine.inducing_points), METHODS[method])
    first, second = (found.value_and_gradient(case.kernel) for found in (mine, its))
    agree(first.value, second.value, tolerance)
    agree(first.theta_bar, second.theta_bar, 10 * tolerance)
    both = [infer(found, case.kernel).step.result for found in (mine, its)]
    counts = case.rows().weight is None or case.weight > 0
    agree(*(rows.mean[counts] for *_, rows in both), 10 * tolerance)
    agree(*(rows.variance[counts] for *_, rows in both), 10 * tolerance)
    for quantity in ("divergence", "log_normaliser"):
        if not kernels.has_noise(case.kernel):
            agree(*(getattr(cores, quantity)() for cores, *_ in both), tolerance)
    first, second = (found.conclude(case.kernel).posterior for found in (mine, its))
    agree_posteriors(first, second, case.X + 0.3, 10 * tolerance)


@pytest.mark.parametrize("noise", ["known", "white", "nested"])
@pytest.mark.parametrize("method", ["vfe_probit", "new_logit"])
def test_exact_bound_is_the_dense_one(method, noise):
    case = conflicting(labelled(noise=noise))
    solution = infer(exact(case, method), case.kernel)
    # a row is a latent value of its own, with its white noise: K is singular if there is none
    K = case.kernel(case.X) if noise != "known" else case.kernel(case.X, case.X)
    linear, precision = solution.state
    B = np.eye(len(K)) + K * precision
    covariance = np.linalg.solve(B, K)
    mean = covariance @ linear
    rows = solution.step.result[2]
    agree(rows.mean, mean, 1e-9)
    agree(rows.variance, covariance.diagonal(), 1e-9)
    y = case.y.ravel()
    expected = METHODS[method].likelihood.expected(y, mean, covariance.diagonal())[0].sum()
    trace = np.trace(np.linalg.solve(B, np.eye(len(K))))
    slopes = linear - precision * mean  # K⁻¹ mean
    divergence = trace - len(K) + mean @ slopes + np.linalg.slogdet(B)[1]
    agree(solution.step.value, expected - 0.5 * divergence, 1e-9)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["rbf_ard", "matern_2.5", "periodic", "dot_plus_rbf", "power"])
def test_exact_gradient_is_that_of_the_optimised_objective(name, method):
    case = labelled(name, n=25)
    check_site_gradient(exact(case, method), case.kernel, case.Z)


@pytest.mark.second(share=0.1, thin=2)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise", ["known", "white", "nested"])
@pytest.mark.parametrize("method", METHODS)
def test_exact_gradient_with_noise_weights_and_conflicting_labels(method, noise, weighted):
    case = conflicting(labelled(noise=noise, weighted=weighted, n=25))
    check_site_gradient(exact(case, method), case.kernel, case.Z)


@pytest.mark.parametrize("noise", ["known", "white"])
@pytest.mark.parametrize("method", METHODS)
def test_exact_weights_are_repeated_rows(method, noise):
    case = conflicting(labelled(noise=noise, weighted=True))
    first, second = (exact(one, method) for one in (case, case.repeated()))
    agree_evaluations(*(f.value_and_gradient(case.kernel) for f in (first, second)), 1e-9)
    agree_posteriors(
        *(f.conclude(case.kernel).posterior for f in (first, second)), case.X + 0.3, 1e-8
    )
    assert len(first.inducing_points) == len(second.inducing_points) < len(case.X)


def test_exact_gaussian_sites_are_exact_regression():
    case = conflicting(make_case(noise="known"))._replace(noise=0.0)
    model = inside.SiteObjectives(inside.Variational(Gaussian(0.2), False), TIGHT)
    found = model.exact(case.rows(), inside.Options()).value_and_gradient(case.kernel)
    groups = case._replace(noise=0.2).groups()
    agree_evaluations(found, exact_regression.value_and_gradient(case.kernel, groups), 1e-9)


def test_exact_posterior_where_precisions_are_tiny_and_large():
    case = unequal(labelled("matern_1.5", n=60))
    kernel, rng = 100.0 * case.kernel, np.random.default_rng(0)
    found = exact(case._replace(kernel=kernel), "vfe_probit")
    joint = found.project(found.problem(kernel))
    K, n = kernel(found.inducing_points), len(found.inducing_points)
    for a in (10.0 ** rng.uniform(-30, 1, n), np.full(n, 1e-30), np.full(n, 3e-7), np.ones(n)):
        b, s = np.sqrt(a) * rng.normal(size=n), np.sqrt(a)
        (core,) = joint.solve(inside.PerRow([np.stack([b, a])[:, None]]))
        B = np.eye(n) + s[:, None] * K * s
        V = np.linalg.solve(np.linalg.cholesky(B), s[:, None] * K)
        covariance = K - V.T @ V
        mean, variance = core.noise.marginals(np.arange(n), core)
        np.testing.assert_allclose(variance, covariance.diagonal(), rtol=1e-8)
        agree(mean, covariance @ b, 1e-9)
        normaliser = 0.5 * (b @ covariance @ b - np.linalg.slogdet(B)[1])
        agree(core.log_normaliser(), normaliser, 1e-9)


@pytest.mark.second
@pytest.mark.parametrize("is_exact", [False, True])
@pytest.mark.parametrize("method", ["vfe_probit", "gfitc_logit"])
def test_results_do_not_depend_on_threads(method, is_exact, monkeypatch):
    monkeypatch.setattr(inside.dataset, "_BLOCK_BYTES", 1)  # several blocks
    X, y = many_rows(700)
    case = make_case("matern_0.5", "white")._replace(X=X, y=y)
    kernel, rows, results = case.kernel, case.rows(), []
    with inside.single_threaded_blas():
        for n_jobs in (1, 2, 3):
            found = objective(case, METHODS[method], n_jobs=n_jobs)
            if is_exact:
                found = inside.SiteObjectives(METHODS[method]).exact(rows, found.options)
            evaluation = found.value_and_gradient(kernel)
            posterior = found.conclude(kernel).posterior
            results.append(
                (evaluation.value, evaluation.theta_bar, posterior.u, posterior.features.L)
            )
    for other in results[1:]:
        for mine, its in zip(results[0], other):
            np.testing.assert_array_equal(mine, its)


@pytest.mark.second
@pytest.mark.parametrize("method", ["new_probit", "gfitc_probit"])
def test_exact_of_several_tiles_is_sparse_at_the_rows(method):
    X, y = many_rows(700)
    case = make_case("matern_0.5", "known")._replace(X=X, y=y, noise=0.0)
    check_against_sparse(case, method, 1e-8)


def many_rows(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.mark.second(share=0.09, keep=2)
@pytest.mark.parametrize("method", METHODS)
def test_exact_hard_problems_converge_without_jitter(method):
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 2, axis=0)
    X[1::4] += 1e-9  # not the same, but nearly so
    made = lambda case: inside.SiteObjectives(METHODS[method]).exact(case.rows(), inside.Options())
    for found, kernel, converged in hard_solutions(made, X):
        if converged:
            assert found.conclude(kernel).jitter == 0.0


def test_exact_kernel_without_a_rule():
    case = conflicting(labelled())
    evaluations = [
        exact(case, "new_logit").value_and_gradient(1.3 * kernel([0.7, 1.5]))
        for kernel in (Opaque, sk.RBF)
    ]
    agree_evaluations(*evaluations, 1e-9)


def test_exact_kernel_that_is_none_says_so():
    case = labelled()
    for kernel in (sk.PairwiseKernel(50.0, metric="sigmoid"), sk.ConstantKernel(np.inf) * sk.RBF()):
        with pytest.raises(np.linalg.LinAlgError, match="not finite, or not positive definite"):
            exact(case, "vfe_probit").value(kernel)


def test_exact_tolerance_is_that_of_the_model_within_limits():
    rows = labelled().rows()
    for tol, fine, rough in ((1e-6, 1e-6, 1e-6), (1e-9, 1e-9, 1e-7), (1e-13, 1e-13, 1e-7)):
        model = inside.SiteObjectives(METHODS["vfe_probit"], inside.Inner(50, tol))
        assert model.exact(rows, inside.Options()).inner == inside.Inner(50, fine)
        assert model.exact(rows, inside.Options(), rough=True).inner == inside.Inner(50, rough)
        assert model.sparse(rows, rows.X[:5], inside.Options()).inner == inside.Inner(50, tol)


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_weight_zero_keep_the_sites_they_started_with(method):
    case = labelled(weighted=True, noise="nested")
    for found in (exact(case, method), objective(case, METHODS[method])):
        solution = infer(found, case.kernel)
        assert np.all(solution.state[0][case.weight == 0] == 0.0)
        assert np.all(np.isfinite(solution.step.target))


def test_inputs_of_weight_zero_are_in_no_group():
    case = labelled(weighted=True)
    inputs, index = inside.DistinctInputs.of(case.rows())[:2]
    counts = case.weight > 0
    np.testing.assert_array_equal(inputs, np.unique(case.X[counts], axis=0))
    np.testing.assert_array_equal(inputs[index][counts], case.X[counts])

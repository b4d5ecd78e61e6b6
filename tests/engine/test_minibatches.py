"""Gradients from some rows, against central differences and against the collapsed objectives."""

import inside
import numpy as np
import pytest
from conftest import BOUNDS, KERNELS, NOISES, agree, differences, make_case
from numpy.testing import assert_allclose
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from skgp_sparse import kernels
from skgp_sparse.likelihoods import Gamma, NegativeBinomial, Poisson, Probit, StudentT


def some_core(m, p, seed=0):
    """A posterior that no rows have led to."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, m))
    return inside.collapsed.core_of(inside.Sums(A @ A.T / m, rng.normal(size=(m, p)), 1.0), 1)


def features_of(case, kernel, Z):
    """Dense ``V`` (m, n), residual and learned noise of the rows."""
    K = kernels.evaluate(kernel, Z, Z)
    V = solve_triangular(np.linalg.cholesky(K), kernels.evaluate(kernel, Z, case.X), lower=True)
    signal, noise, _ = kernels.diagonal(kernel, case.X)
    return V, np.broadcast_to(signal, len(case.X)), np.broadcast_to(noise, len(case.X))


def uncollapsed(case, kernel, Z, bound, core, slope):
    """The part of the objective that rows have, densely; penalties count by a slope."""
    V, signal, noise = features_of(case, kernel, Z)
    r, s2 = signal - (V**2).sum(axis=0), noise + case.noise
    lam = s2 + bound.noise_share * r
    w = np.ones(len(r)) if case.weight is None else case.weight
    S = cho_solve(cho_factor(np.linalg.inv(core.TB) @ np.linalg.inv(core.TB).T), np.eye(len(V)))
    h = np.einsum("in,ij,jn->n", V, S, V)
    y = case.y.reshape(len(r), -1)
    p = y.shape[1]
    fit = -0.5 * ((y - V.T @ core.v) ** 2).sum(axis=1) / lam
    fit -= 0.5 * p * (np.log(2 * np.pi * lam) + h / lam)
    return w @ fit - p * slope * (w @ bound.penalty(r / s2)[0])


def gradient_of(case, bound, core, slope):
    problem = case.problem(bound)
    batch = inside.collapsed_sites.with_noise(problem)
    return inside.collapsed_sites.gradient(batch, inside.Cores([core]), slope, True)


def agree_with_differences(case, bound, slope=1.0):
    core = some_core(len(case.Z), case.y.reshape(len(case.y), -1).shape[1])
    found = gradient_of(case, bound, core, slope)

    def of_theta(theta):
        kernel = case.kernel.clone_with_theta(theta)
        return uncollapsed(case, kernel, case.Z, bound, core, slope)

    def of_Z(Z):
        return uncollapsed(case, case.kernel, Z, bound, core, slope)

    agree(found["kernel"], differences(of_theta, case.kernel.theta, 1e-6), 2e-6)
    agree(found["basis"], differences(of_Z, case.Z, 1e-6), 2e-6)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_with_the_posterior_held(bound, kernel):
    agree_with_differences(make_case(kernel, n=25), BOUNDS[bound])


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("noise", NOISES)
def test_gradients_of_weighted_rows_and_several_targets(bound, noise):
    agree_with_differences(make_case("sum", noise, targets=3, weighted=True), BOUNDS[bound], 0.7)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("noise", NOISES)
def test_at_the_optimum_of_all_rows_it_is_the_collapsed_gradient(bound, noise):
    case = make_case("sum", noise, targets=2, weighted=True)
    problem, bound = case.problem(BOUNDS[bound]), BOUNDS[bound]
    whole = inside.collapsed.value_and_gradient(problem)
    batch = inside.collapsed_sites.with_noise(problem)
    core = inside.collapsed.core_of(batch.sums[0], 1)
    slope = bound.reduce(float(batch.totals), batch.n)[1]
    found = inside.collapsed_sites.gradient(batch, inside.Cores([core]), slope, True)
    agree(found["kernel"], whole.theta_bar, 1e-11)
    agree(found["basis"], whole.Z_bar, 1e-11)


@pytest.mark.parametrize("bound", ["vfe", "titsias_new", "fitc"])
def test_gradients_of_parts_add_up(bound):
    case, bound = make_case("product", n=60), BOUNDS[bound]
    core = some_core(len(case.Z), 1)
    whole = gradient_of(case, bound, core, 1.0)
    parts = [case._replace(X=case.X[k::3], y=case.y[k::3]) for k in range(3)]
    parts = [gradient_of(part, bound, core, 1.0) for part in parts]
    for name in ("kernel", "basis"):
        agree(sum(part[name] for part in parts), whole[name], 1e-12)


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_full_batch_is_the_collapsed_objective(bound):
    case = make_case("rbf_ard", n=200, m=8)
    options = inside.Options(inside.Jitter(0.0, relative=False))
    objective = inside.CollapsedObjective(
        case.rows(), BOUNDS[bound], inside.InducingBasis(case.Z), options
    )
    view = objective.minibatch_view()
    posterior = view.start(objective, case.kernel)
    gradient, posterior = view.step(objective, case.kernel, posterior, 0.3, True)
    whole = objective.value_and_gradient(case.kernel, True)
    for name, part in whole.gradient.items():
        agree(200 * gradient[name], part, 1e-11)
    value, process, _, _ = view.conclude(objective, case.kernel, posterior)
    assert_allclose(value, whole.value, rtol=1e-12)
    mean, variance = process.mean_and_variance(case.X)
    noise = kernels.diagonal(case.kernel, case.X)[1]
    density = -0.5 * np.log(2 * np.pi * (variance + noise))
    density -= 0.5 * (case.y - mean[:, 0]) ** 2 / (variance + noise)
    assert_allclose(view.log_densities(objective, case.kernel, posterior), density, rtol=1e-9)


# -- likelihoods -----------------------------------------------------------------------


def labels_for(likelihood, n, seed=0):
    rng = np.random.default_rng(seed)
    if isinstance(likelihood, inside.Softmax):
        return rng.integers(0, likelihood.n_classes, n).astype(float)
    if isinstance(likelihood, Probit):
        return rng.choice([-1.0, 1.0], n)
    if isinstance(likelihood, StudentT):
        return rng.standard_t(3, n)
    return rng.poisson(3.0, n) + 1.0


LIKELIHOODS = {
    "probit": Probit(),
    "softmax": inside.Softmax(3),
    "poisson": Poisson(level=0.3),
    "negative_binomial": NegativeBinomial(size=3.0, level=0.3),
    "gamma": Gamma(shape=2.0, level=0.3),
    "student_t": StudentT(df=4.0, scale=0.7, level=0.1),
}


def site_case(likelihood, weighted=True, n=60):
    case = make_case("rbf_ard", "known", n=n)._replace(noise=0.0)
    weight = np.random.default_rng(1).uniform(0.2, 2.0, n) if weighted else None
    return case._replace(y=labels_for(likelihood, n), weight=weight)


def site_objective(case, likelihood, spherical=True, tol=1e-13):
    method = inside.Variational(likelihood, spherical)
    rows = case.rows()
    return inside.SiteObjectives(method, inside.Inner(1000, tol)).sparse(
        rows, case.Z, inside.Options(inside.Jitter(0.0, relative=False))
    )


def uncollapsed_sites(case, kernel, Z, likelihood, cores, v):
    V, signal, noise = features_of(case, kernel, Z)
    r = signal + noise - (V**2).sum(axis=0)
    mean = np.stack([(V.T @ core.v)[:, 0] for core in cores])
    h = np.stack([((core.TB @ V) ** 2).sum(axis=0) for core in cores])
    variance = v[:, None] * r + h
    if len(cores) == 1:
        mean, variance = mean[0], variance[0]
    return case.weight @ likelihood.expected(case.y, mean, variance)[0]


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradients_of_likelihoods_with_the_posterior_held(name):
    likelihood = LIKELIHOODS[name]
    case = site_case(likelihood, n=30)
    k = likelihood.n_latent
    cores = inside.Cores(some_core(len(case.Z), 1, seed) for seed in range(k))
    v = np.linspace(0.6, 0.9, k)
    objective = site_objective(case, likelihood)
    view = inside.SiteMinibatchView(case.weight.sum())
    posterior = inside.Average(list(map(sums_of, cores)), 1.0 / v - 1.0, cores, None)
    gradient, _ = view.step(objective, case.kernel, posterior, 0.1, True)
    total = case.weight.sum()

    def value(kernel=case.kernel, Z=case.Z, likelihood=likelihood):
        return uncollapsed_sites(case, kernel, Z, likelihood, cores, v)

    def of_theta(theta):
        return value(kernel=case.kernel.clone_with_theta(theta))

    agree(total * gradient["kernel"], differences(of_theta, case.kernel.theta, 1e-6), 3e-6)
    agree(total * gradient["basis"], differences(lambda Z: value(Z=Z), case.Z, 1e-6), 3e-6)
    if len(likelihood.theta):
        of_own = lambda theta: value(likelihood=likelihood.with_theta(theta))
        slopes = differences(of_own, likelihood.theta, 1e-6)
        agree(total * gradient["likelihood"], slopes, 3e-6)


def sums_of(core):
    return inside.Sums(core.VaV, core.VaV @ core.v + core.v, 1.0)


@pytest.mark.parametrize("spherical", [True, False])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_passes_over_all_rows_end_where_the_inner_loop_does(name, spherical):
    likelihood = LIKELIHOODS[name]
    case = site_case(likelihood)
    objective = site_objective(case, likelihood, spherical)
    view = objective.minibatch_view()
    few = inside.ArrayDataset(case.X[:20], case.y[:20, None], weight=case.weight[:20] * 3)
    posterior = view.start(objective.on(few), case.kernel)
    value, process, _, _ = view.conclude(objective, case.kernel, posterior)
    whole, its, _, _ = objective.conclude(case.kernel)
    assert_allclose(value, whole, atol=1e-3)
    for mine, other in zip(process.mean_and_variance(case.X), its.mean_and_variance(case.X)):
        agree(mine, other, 2e-2)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_start_from_all_rows_is_where_it_ends(name):
    likelihood = LIKELIHOODS[name]
    case = site_case(likelihood)
    objective = site_objective(case, likelihood)
    view = objective.minibatch_view()
    posterior = view.start(objective, case.kernel)
    gradient, moved = view.step(objective, case.kernel, posterior, 0.5, True)
    whole = objective.value_and_gradient(case.kernel, True)
    for block, part in whole.gradient.items():
        agree(case.weight.sum() * gradient[block], part, 1e-5)
    for old, new in zip(posterior.cores, moved.cores):
        agree(new.v, old.v, 1e-5)


def test_expectation_propagation_concludes_with_its_inner_loop():
    likelihood = Probit()
    case = site_case(likelihood)
    method = inside.ExpectationPropagation(likelihood, 1.0)
    objective = inside.SiteObjectives(method, inside.Inner()).sparse(
        case.rows(), case.Z, inside.Options()
    )
    view = objective.minibatch_view()
    posterior = view.start(objective, case.kernel)
    value = view.conclude(objective, case.kernel, posterior)[0]
    assert_allclose(value, objective.value(case.kernel), rtol=1e-8)


def test_gaussian_means_do_not_lag_behind_the_noise():
    case = make_case("rbf_ard", n=100)
    objective = inside.CollapsedObjective(case.rows(), BOUNDS["vfe"], inside.InducingBasis(case.Z))
    view = inside.GaussianMinibatchView(100.0)
    posterior = view.start(objective, case.kernel)
    louder = case.kernel.clone_with_theta(case.kernel.theta + [0, 0, 0, 1.0])
    _, moved = view.step(objective, louder, posterior, 0.0, False)
    fresh = view.start(objective, louder)
    agree(moved.cores[0].v, fresh.cores[0].v, 1e-10)

"""The posterior of all rows, from that of a sample."""

import inside
import numpy as np
import pytest
from conftest import BOUNDS, agree, make_case
from numpy.testing import assert_allclose

from skgp_sparse import kernels
from skgp_sparse.likelihoods import Gamma, NegativeBinomial, Poisson, Probit, StudentT


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


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_densities_of_a_sample_are_those_of_its_posterior(bound):
    case = make_case("rbf_ard", n=200, m=8)
    objective = inside.CollapsedObjective(case.rows(), BOUNDS[bound], inside.InducingBasis(case.Z))
    process, _ = objective.of_sample(case.kernel)
    mean, variance = objective.conclude(case.kernel).posterior.mean_and_variance(case.X)
    noise = kernels.diagonal(case.kernel, case.X)[1]
    density = -0.5 * np.log(2 * np.pi * (variance + noise))
    density -= 0.5 * (case.y - mean[:, 0]) ** 2 / (variance + noise)
    assert_allclose(objective.log_densities(process), density, rtol=1e-9)


@pytest.mark.parametrize("spherical", [True, False])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_passes_over_all_rows_end_where_the_inner_loop_does(name, spherical):
    likelihood = LIKELIHOODS[name]
    case = site_case(likelihood)
    objective = site_objective(case, likelihood, spherical)
    few = inside.ArrayDataset(case.X[:20], case.y[:20, None], weight=case.weight[:20] * 3)
    _, sample = objective.on(few).of_sample(case.kernel)
    value, process, _, _ = objective.conclude_from(case.kernel, sample)
    whole, its, _, _ = objective.conclude(case.kernel)
    assert_allclose(value, whole, atol=1e-3)
    for mine, other in zip(process.mean_and_variance(case.X), its.mean_and_variance(case.X)):
        agree(mine, other, 2e-2)


def test_expectation_propagation_concludes_with_its_inner_loop():
    likelihood = Probit()
    case = site_case(likelihood)
    method = inside.ExpectationPropagation(likelihood, 1.0)
    objective = inside.SiteObjectives(method, inside.Inner()).sparse(
        case.rows(), case.Z, inside.Options()
    )
    _, sample = objective.of_sample(case.kernel)
    value = objective.conclude_from(case.kernel, sample).value
    assert_allclose(value, objective.value(case.kernel), rtol=1e-8)

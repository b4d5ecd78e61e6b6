"""The engine against ball arithmetic: values, gradients and posteriors to 500 bits.

``golden/regression.npz`` holds, per case, the inputs and arrays stacked along the names in
``objectives`` and ``posteriors``: ``bound`` (the last entry is the exact log marginal likelihood),
``grad_theta`` (the same; where one noise level serves all rows, its log is the last column),
``grad_Z``, ``pred_mean`` and ``pred_cov`` (lower triangle). Zero prior mean, absolute jitter.
"""

from functools import cache

import numpy as np
import pytest
from conftest import BOUNDS, Case, agree, stored_cases
from inside import Jitter, collapsed, exact
from kernel_cases import parsed
from sklearn.gaussian_process import kernels as sk

CASES = stored_cases("regression")
OBJECTIVES, POSTERIORS = (list(CASES.pop(what)[""]) for what in ("objectives", "posteriors"))
# condition number of Kuu above 1e6, noise of 1e-4, or a common offset of 1000 in y or X
DIFFICULT = {
    "dot",
    "ill_conditioned",
    "large_offset",
    "low_noise",
    "prod_rbf_periodic",
    "very_ill_conditioned",
}


@cache
def golden(name):
    """The case, its reference values, and the tolerance that its conditioning allows."""
    ref = CASES[name]
    kernel, noise = parsed(ref["kernel"]), ref["noise_variance"]
    if noise.ndim == 0:
        kernel, noise = kernel + sk.WhiteKernel(float(noise)), 0.0
    jitter = Jitter(float(ref["jitter"]), relative=False)
    case = Case(kernel, ref["Z"], ref["X"], ref["y"], noise, jitter=jitter)
    return case, ref, 1e-8 if name in DIFFICULT else 1e-10


def agree_with_golden_posterior(posterior, ref, which, tolerance):
    at = POSTERIORS.index(which)
    X, mean, cov = ref["X_test"], ref["pred_mean"][at], ref["pred_cov"][at]
    lower = np.tril_indices(len(X))
    full = posterior.covariance(X)
    agree(full[lower], cov, tolerance)
    agree(full.T[lower], cov, tolerance)
    only_mean, (with_variance, variance) = posterior.mean(X), posterior.mean_and_variance(X)
    agree(only_mean.reshape(mean.shape), mean, tolerance)
    agree(with_variance.reshape(mean.shape), mean, tolerance)
    agree(variance, cov[lower[0] == lower[1]], tolerance)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_agree_with_ball_arithmetic(name, objective):
    case, ref, tolerance = golden(name)
    at = OBJECTIVES.index(objective)
    problem = case.problem(BOUNDS[objective])
    found = collapsed.value_and_gradient(problem)
    agree(found.value, ref["bound"][at], tolerance)
    agree(collapsed.value(problem), ref["bound"][at], tolerance)
    agree(found.theta_bar, ref["grad_theta"][at], tolerance)
    agree(found.Z_bar, ref["grad_Z"][at], tolerance)
    assert found.jitter == case.jitter.start


@pytest.mark.parametrize("which", POSTERIORS[:-1])
@pytest.mark.parametrize("name", CASES)
def test_posterior_agrees_with_ball_arithmetic(name, which):
    case, ref, tolerance = golden(name)
    _, posterior, jitter = collapsed.conclude(case.problem(BOUNDS[which]))
    agree_with_golden_posterior(posterior, ref, which, tolerance)
    assert jitter == case.jitter.start


@pytest.mark.parametrize("name", CASES)
def test_the_exact_process_agrees_with_ball_arithmetic(name):
    case, ref, tolerance = golden(name)
    found = exact.value_and_gradient(case.kernel, case.groups())
    agree(found.value, ref["bound"][-1], tolerance)
    agree(exact.value(case.kernel, case.groups()), ref["bound"][-1], tolerance)
    agree(found.theta_bar, ref["grad_theta"][-1], tolerance)
    assert found.Z_bar is None and found.jitter == 0.0
    posterior = exact.conclude(case.kernel, case.groups())[1]
    agree_with_golden_posterior(posterior, ref, "exact", tolerance)

"""Gradients against central differences along random directions, for every bound and kernel."""

import numpy as np
import pytest
from conftest import BOUNDS, KERNELS, NOISES, agree, make_case
from inside import Jitter, collapsed, exact, single_threaded_blas
from kernel_cases import Opaque
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import kernels
from skgp_sparse.bounds import Bound

STEP = 2e-3
SIXTH_ORDER = ((1, 45.0), (2, -9.0), (3, 1.0))  # (multiple of the step, coefficient · 60)
TABLES = ((1, False), (1, True), (2, True))  # targets, weighted


class SharedPenalty(Bound):
    """Noise share, penalty and reduction all at work: the engine must not assume that one is idle.

    Parameters
    ----------
    noise_share : float
    """

    is_lower_bound = False

    def __init__(self, noise_share=0.4):
        self.noise_share = noise_share

    def penalty(self, x):
        return np.log1p(x) + 0.1 * x, 1.0 / (1.0 + x) + 0.1

    def reduce(self, total, n):
        return n * np.log1p(total / n), 1.0 / (1.0 + total / n)


EVERY_BOUND = {**BOUNDS, "custom": SharedPenalty(), "custom_without_share": SharedPenalty(0.0)}


def slope_along(function, direction):
    """Derivative of ``function(shift)`` along `direction`, by sixth-order central differences."""
    differences = (
        weight * (function(k * STEP * direction) - function(-k * STEP * direction))
        for k, weight in SIXTH_ORDER
    )
    return sum(differences) / (60.0 * STEP)


def directions(sizes, seed=0):
    """One direction that moves everything, and one for the first part alone; entries below 1."""
    rng = np.random.default_rng(seed)
    everything = rng.choice([-1.0, 1.0], sum(sizes)) * rng.uniform(0.3, 1.0, sum(sizes))
    yield everything
    if sizes[0] > 0:
        yield np.where(np.arange(len(everything)) < sizes[0], everything, 0.0)


def check_gradient(function, gradient, sizes, tolerance):
    scale = max(1.0, np.abs(gradient).sum())
    for direction in directions(sizes):
        agree(gradient @ direction / scale, slope_along(function, direction) / scale, tolerance)


def check_collapsed(case, bound, tolerance=1e-7):
    """Gradient with respect to theta and Z of the collapsed objective."""
    found = collapsed.value_and_gradient(case.problem(bound))
    theta, split = case.kernel.theta, len(case.kernel.theta)

    def value(shift):
        kernel = case.kernel.clone_with_theta(theta + shift[:split])
        Z = case.Z + shift[split:].reshape(case.Z.shape)
        return collapsed.value(case._replace(kernel=kernel, Z=Z).problem(bound))

    assert found.theta_bar.shape == theta.shape and found.Z_bar.shape == case.Z.shape
    gradient = np.concatenate([found.theta_bar, found.Z_bar.ravel()])
    check_gradient(value, gradient, (split, case.Z.size), tolerance)


def check_exact(case, tolerance=1e-7):
    """Gradient with respect to theta of the exact log marginal likelihood."""
    groups, theta = case.groups(), case.kernel.theta
    found = exact.value_and_gradient(case.kernel, groups)

    def value(shift):
        return exact.value(case.kernel.clone_with_theta(theta + shift), groups)

    assert found.theta_bar.shape == theta.shape
    check_gradient(value, found.theta_bar, (len(theta),), tolerance)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bound", EVERY_BOUND)
def test_gradient_is_the_slope_of_the_value(bound, kernel):
    check_collapsed(make_case(kernel), EVERY_BOUND[bound])


@pytest.mark.second(share=0.1, thin=2)
@pytest.mark.parametrize("kernel", ["rbf_ard", "dot_plus_rbf"])
@pytest.mark.parametrize("targets, weighted", TABLES)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("bound", EVERY_BOUND)
def test_gradient_holds_for_every_noise_weight_and_target(bound, noise, targets, weighted, kernel):
    case = make_case(kernel, noise, n=25, targets=targets, weighted=weighted, seed=1)
    check_collapsed(case, EVERY_BOUND[bound])


@pytest.mark.second(share=0.29, thin=1)
@pytest.mark.parametrize("kernel", ["rbf_ard", "power"])
@pytest.mark.parametrize("amount", [1e-6, 1e-2])
@pytest.mark.parametrize("bound", EVERY_BOUND)
def test_relative_jitter_is_part_of_the_gradient(bound, amount, kernel):
    case = make_case(kernel)._replace(jitter=Jitter(amount, relative=True))
    check_collapsed(case, EVERY_BOUND[bound])


@pytest.mark.parametrize("bound", EVERY_BOUND)
def test_absolute_jitter_has_no_derivative(bound):
    case = make_case("dot_plus_rbf")._replace(jitter=Jitter(1e-2, relative=False))
    check_collapsed(case, EVERY_BOUND[bound])


@pytest.mark.parametrize("bound", ["vfe", "titsias_new", "pep_0.5"])
def test_gradient_holds_across_panels_of_inducing_points(bound):
    grid = np.meshgrid(np.linspace(-2, 2, 18), np.linspace(-2, 2, 15))  # well-conditioned
    case = make_case("rbf_ard", n=300)._replace(
        Z=np.stack(grid, axis=-1).reshape(-1, 2),
        kernel=ConstantKernel(1.2) * RBF([0.15, 0.2]) + WhiteKernel(0.2),
    )
    with single_threaded_blas():
        check_collapsed(case, BOUNDS[bound])


@pytest.mark.parametrize("bound", EVERY_BOUND)
def test_rows_that_are_inducing_points_leave_the_gradient_right(bound):
    case = make_case("matern_2.5", seed=4)
    Z = case.Z.copy()
    Z[:3] = case.X[:3]
    check_collapsed(case._replace(Z=Z), EVERY_BOUND[bound], 1e-7)


@pytest.mark.parametrize("bound", EVERY_BOUND)
def test_kernels_without_a_rule_have_their_theta_gradient(bound):
    case = make_case("rbf_ard", "known_and_white", weighted=True)
    plain = ConstantKernel(0.6) * RBF([0.7, 1.5]) + WhiteKernel(0.1)
    opaque = ConstantKernel(0.6) * Opaque([0.7, 1.5]) + WhiteKernel(0.1)
    assert not kernels.differentiable(opaque)
    problems = (case._replace(kernel=k).problem(EVERY_BOUND[bound]) for k in (opaque, plain))
    mine, its = (collapsed.value_and_gradient(problem, inputs=False) for problem in problems)
    agree(mine.value, its.value, 1e-12)
    agree(mine.theta_bar, its.theta_bar, 1e-10)


@pytest.mark.second(share=0.35)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_gradient_is_the_slope_of_the_exact_value(kernel, noise):
    case = make_case(kernel, noise, targets=2, weighted=True)
    check_exact(case._replace(X=np.vstack([case.X[:25], case.X[:15]])))


def many_distinct(kernel="rbf_ard", noise="white", n=700):
    """A table that the exact process takes in several blocks and tiles."""
    case = make_case(kernel, noise, n=n, targets=2)
    return case._replace(X=np.random.default_rng(1).normal(size=case.X.shape))


@pytest.mark.second(share=0.39)
@pytest.mark.parametrize("kernel", ["rbf_ard", "matern_2.5", "periodic"])
def test_exact_gradient_of_many_rows_is_the_slope_of_the_exact_value(kernel):
    check_exact(many_distinct(kernel), 1e-6)


def test_exact_evaluations_are_the_same_for_any_number_of_threads():
    case = many_distinct()
    with single_threaded_blas():
        found = [exact.value_and_gradient(case.kernel, case.groups(), n) for n in (1, 2, 4)]
    for other in found[1:]:
        assert other.value == found[0].value
        np.testing.assert_array_equal(other.theta_bar, found[0].theta_bar)

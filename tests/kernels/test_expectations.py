"""Expectations of kernels at normal inputs: golden values, central differences, limits."""

import numpy as np
import pytest
from conftest import agree, differences, stored_cases
from inside import gauss_hermite
from kernel_cases import parsed
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from skgp_sparse import kernels

CASES = stored_cases("gplvm")
MIXED = (
    ConstantKernel(0.7, "fixed") * ConstantKernel(1.3) * RBF([0.8, 1.5])
    + DotProduct(0.6)
    + ConstantKernel(0.4) * DotProduct(0.5, "fixed")
    + ConstantKernel(0.5) * RBF(2.1)
    + ConstantKernel(0.2)
    + WhiteKernel(0.1)
)
KERNELS = {
    "rbf": ConstantKernel(0.7, "fixed") * ConstantKernel(1.3) * RBF([0.8, 1.5]) + WhiteKernel(0.1),
    "rbf and constants": RBF(0.8) * ConstantKernel(0.9) + ConstantKernel(0.2) ** 2,
    "mixed": MIXED,
    "power": RBF(0.8) ** 2,
    "matern": ConstantKernel(1.2) * Matern([0.9, 1.7], nu=1.5) + DotProduct(0.4),
}


def distributions(n=5, m=4, d=2, seed=0):
    rng = np.random.RandomState(seed)
    return rng.normal(size=(n, d)), rng.uniform(0.05, 1.5, (n, d)), rng.normal(size=(m, d))


def second_moments(expected):
    """``E k(Z, x) k(x, Z)`` of every row (n, m, m)."""
    covariances = [expected.sums(one[:, None])[0] for one in np.eye(len(expected.cross))]
    return covariances + expected.cross[:, :, None] * expected.cross[:, None]


@pytest.mark.parametrize("name", CASES)
def test_expectations_agree_with_ball_arithmetic(name, monkeypatch):
    ref = CASES[name]
    kernel, rule = parsed(ref["kernel"]), gauss_hermite(50, ref["Z"].shape[1])
    if "nodes" in ref:
        rule = ref["nodes"], ref["weights"]
    monkeypatch.setattr("skgp_sparse.kernels._expectations.rule_of", lambda d: rule)
    expected = kernels.expectations(kernel, ref["mu"], ref["S"], ref["Z"])
    agree(expected.prior, ref["psi0"], 1e-10)
    agree(expected.cross, ref["psi1"], 1e-10)
    agree(second_moments(expected), ref["psi2"], 1e-10)


@pytest.mark.parametrize("name", KERNELS)
def test_pullbacks_agree_with_central_differences(name):
    kernel, (mean, variance, Z), rng = KERNELS[name], distributions(), np.random.RandomState(1)
    prior_bar, cross_bar = rng.normal(size=len(mean)), rng.normal(size=(len(mean), len(Z)))
    coef, matrices = rng.normal(size=(len(mean), 3)), rng.normal(size=(3, len(Z), len(Z)))
    matrices = matrices + matrices.transpose(0, 2, 1)

    def total(theta, Z, mean, variance):
        at = kernels.expectations(kernel.clone_with_theta(theta), mean, variance, Z)
        return (
            prior_bar @ at.prior + np.vdot(cross_bar, at.cross) + np.vdot(coef, at.inner(matrices))
        )

    where = [kernel.theta, Z, mean, variance]
    at = kernels.expectations(kernel, mean, variance, Z)
    agree(np.vdot(coef, at.inner(matrices)), np.vdot(at.sums(coef), matrices), 1e-13)
    for k, bar in enumerate(at.pull(prior_bar, cross_bar, coef, matrices)):
        moved = lambda at, k=k: total(*where[:k], at, *where[k + 1 :])
        agree(bar, differences(moved, where[k]), 1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_where_inputs_are_known_it_is_the_kernel(name):
    kernel, (mean, variance, Z) = KERNELS[name], distributions()
    at = kernels.expectations(kernel, mean, 0.0 * variance, Z)
    agree(at.prior, np.broadcast_to(kernels.diagonal(kernel, mean)[0], len(mean)), 1e-13)
    agree(at.cross, kernels.evaluate(kernel, mean, Z), 1e-13)
    assert np.abs(at.sums(np.ones((len(mean), 1)))).max() < 1e-28


def test_small_variances_lose_no_digits():
    """To first order in s, the covariance is ``Σ_q s_q ∂k/∂x_q ∂k/∂x_qᵀ``."""
    mean, variance, Z = distributions()
    small = 1e-14 * variance
    C = kernels.expectations(RBF([0.7, 1.4]), mean, small, Z).sums(np.ones((len(mean), 1)))[0]
    K = kernels.evaluate(RBF([0.7, 1.4]), mean, Z)
    slopes = K[:, :, None] * (Z - mean[:, None]) / np.square([0.7, 1.4])
    agree(C / 1e-14, np.einsum("iq,ijq,ikq->jk", variance, slopes, slopes), 1e-10)


def test_far_points_and_wide_distributions_do_not_overflow():
    """Two points at ±6 length scales of 0.01, seen from a distribution of variance 1."""
    Z, l2 = np.array([[-0.06], [0.06]]), 1e-4
    at = kernels.expectations(RBF(0.01), np.full((1, 1), 0.5), np.ones((1, 1)), Z)
    ends = np.array([-0.5 * 0.12**2 / (2 * l2), 0.0])
    exact = [
        np.sqrt(l2 / (l2 + 2)) * np.exp(e - (0.5 - z) ** 2 / (l2 + 2))
        for e, z in zip(ends, (0, 0.06))
    ]
    agree(second_moments(at)[0][[0, 1], [1, 1]], np.array(exact), 1e-12)


def test_closed_forms_and_nodes_agree(monkeypatch):
    mean, variance, Z = distributions()
    kernel, rule = KERNELS["rbf and constants"], gauss_hermite(60, 2)
    closed = kernels.expectations(kernel, mean, variance, Z)
    monkeypatch.setattr("skgp_sparse.kernels._expectations.rule_of", lambda d: rule)
    opaque = kernels.expectations(kernel * RBF() ** 0.0, mean, variance, Z)
    assert type(closed) is not type(opaque)
    agree(closed.cross, opaque.cross, 1e-10)
    agree(second_moments(closed), second_moments(opaque), 1e-10)

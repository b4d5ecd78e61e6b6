"""Likelihoods and quadrature against dense sums, limits and each other."""

import numpy as np
import pytest
from conftest import agree
from inside import integrals
from numpy.testing import assert_allclose
from scipy.special import log_expit, ndtr

from skgp_sparse.likelihoods import Logit, Probit

SIGMOIDS = [Probit(), Logit()]
VARIANCES = [1e-8, 1e-3, 0.0099, 0.0101, 0.06, 0.07, 0.4, 0.6, 1.0, 3.0, 30.0, 200.0]
MEANS = np.array([-40.0, -6.0, -1.0, 0.0, 0.3, 2.0, 9.0])


def dense_expectation(g, mean, variance):
    """Trapezoidal rule of ten thousands of nodes."""
    z = np.linspace(-12.0, 12.0, 40_001)
    weights = np.exp(-0.5 * z**2)
    return np.array([(value * weights).sum() for value in g(mean + np.sqrt(variance) * z)]) / (
        weights.sum()
    )


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("likelihood", SIGMOIDS, ids=repr)
def test_expectations_agree_with_a_dense_rule(likelihood, variance):
    found = likelihood.expected(np.ones(len(MEANS)), MEANS, np.full(len(MEANS), variance))
    for row, mean in enumerate(MEANS):
        expected = dense_expectation(likelihood.log_sigmoid, mean, variance)
        agree(np.array([part[row] for part in found]), expected, 1e-10)


@pytest.mark.parametrize("likelihood", SIGMOIDS, ids=repr)
@pytest.mark.parametrize("variance", [0.01, 1.0, 50.0])
def test_tilted_normaliser_is_the_probability_of_the_label(likelihood, variance):
    s2 = np.full(len(MEANS), variance)
    positive, negative = likelihood.probability(MEANS, s2), likelihood.probability(-MEANS, s2)
    agree(positive + negative, np.ones(len(MEANS)), 1e-12)
    for y, p in ((1.0, positive), (-1.0, negative)):
        assert_allclose(
            np.exp(likelihood.tilted(np.full(len(MEANS), y), MEANS, s2)[0]), p, 1e-9, 1e-12
        )


@pytest.mark.parametrize("likelihood", SIGMOIDS, ids=repr)
def test_tails_neither_overflow_nor_turn_negative(likelihood):
    mean = np.array([-1e3, -50.0, 50.0, 1e3])
    for kind in ("expected", "tilted"):
        for variance in (1e-10, 1.0, 100.0):
            parts = getattr(likelihood, kind)(np.ones(4), mean, np.full(4, variance))
            assert np.all(np.isfinite(parts))
            assert np.all(parts[0] <= 0) and np.all(parts[1] >= 0) and np.all(parts[2] >= 0)


def test_expectation_at_zero_variance_is_the_value():
    (found,) = integrals.expectation(lambda f: (f**2,), np.array([3.0]), np.array([0.0]))
    agree(found, np.array([9.0]), 1e-14)


@pytest.mark.parametrize("variance", [57.0, 101.0, 400.0])
@pytest.mark.parametrize("ratio", [-1.5, -1.0, -0.99, -0.6, -0.3, 0.0, 0.1])
def test_tilted_logit_finds_its_mass_far_from_the_mean(ratio, variance):
    mean, std = ratio * variance, np.sqrt(variance)
    t = np.linspace(min(mean, 0) - 15 * std, max(mean + variance, 0) + 15 * std, 400_001)
    logs = log_expit(t) - 0.5 * (t - mean) ** 2 / variance
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    first = (t - mean) @ weights / variance  # of the tilted distribution
    second = 1 / variance - ((t - mean) ** 2 @ weights - (variance * first) ** 2) / variance**2
    step = t[1] - t[0]
    value = logs.max() + np.log(np.exp(logs - logs.max()).sum() * step / np.sqrt(2 * np.pi) / std)
    found = Logit().tilted(np.ones(1), np.array([mean]), np.array([variance]))
    assert_allclose([part[0] for part in found], [value, first, second], rtol=1e-6, atol=1e-11)


def test_curvature_of_the_probit_stays_below_one_in_its_tail():
    t = np.array([-1e10, -1e6, -1e4, -1e3, -31.0, -29.0, -5.0, 0.0])
    _, slope, curvature = Probit().log_sigmoid(t)
    assert np.all(curvature <= 1.0) and np.all(np.diff(curvature) <= 0)
    u = t[3:6] ** -2.0
    assert_allclose(curvature[3:6], 1 - u + 6 * u**2 - 50 * u**3, rtol=1e-6)
    assert_allclose(slope[:3], -t[:3], rtol=1e-6)
    assert abs(Probit().expected(np.ones(1), np.zeros(1), np.array([1e10]))[2][0] - 0.5) < 1e-3


@pytest.mark.parametrize("std", [0.9, 1.1, 5.0, 30.0, 1e3, 1e7, 1e60])
@pytest.mark.parametrize("by_row", [False, True])
def test_wide_rows_need_few_values_and_keep_their_digits(std, by_row):
    shares = np.array([-30.0, -8.6, -8.4, -3.0, -0.5, 0.0, 1e-3, 1.0, 8.4, 8.6, 1e3])
    mean, seen = shares * std, []

    def g(f, *ones):
        seen.append(f.size)
        return ndtr(f) * np.prod(ones), np.abs(f) * ndtr(f)

    ones = [np.ones(len(mean))] * by_row
    found, moment = integrals.expectation(g, mean, np.full(len(mean), std**2), *ones)
    assert_allclose(found, ndtr(mean / np.hypot(1.0, std)), rtol=1e-10, atol=1e-13)
    assert np.isfinite(moment).all()
    assert sum(seen) <= (len(mean) if by_row or std < 1 else 1) * 4000 and max(seen) <= 1 << 16


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=repr)
def test_probabilities_end_at_one_whatever_the_rounding(likelihood):
    mean = np.array([78622.43242101544, 420.8048853746987, 4326.451479476695, 0.0, -1e4])
    std = np.array([9348.954283375884, 50.540106419661804, 0.10967959689633541, 1.0, 1.0])
    p = likelihood.probability(mean, std**2)
    assert p.min() >= 0.0 and p.max() <= 1.0

"""Distribution functions of likelihoods, against dense sums over latent values, and defaults."""

import numpy as np
import pytest
from gaussian import Gaussian
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, gammaln, log_expit

from skgp_sparse.likelihoods import (
    Beta,
    Censored,
    Domain,
    Gamma,
    Likelihood,
    LogConcave,
    Logit,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
)
from skgp_sparse.testing import check_likelihood

MEAN, VARIANCE = map(np.ravel, np.meshgrid([-2.0, 0.0, 0.7, 3.0], [0.0, 1e-3, 0.3, 1.0, 9.0]))
CASES = [  # a likelihood, numbers, and the distribution given latent values
    (Poisson(level=0.5), [0.0, 1.0, 2.5, 30.0], lambda f: stats.poisson(np.exp(f + 0.5))),
    (
        NegativeBinomial(2.0),
        [0.0, 1.0, 3.7, 30.0],
        lambda f: stats.nbinom(2.0, 1 / (1 + np.exp(f) / 2.0)),
    ),
    (Gamma(3.0), [1e-6, 0.3, 2.0, 50.0], lambda f: stats.gamma(3.0, scale=np.exp(f) / 3.0)),
    (
        Beta(4.0),
        [1e-6, 0.2, 0.6, 0.999],
        lambda f: stats.beta(4.0 * expit(f), np.maximum(4.0 * expit(-f), 1e-300)),
    ),
    (StudentT(0.3, df=3.0, level=1.0), [-9.0, 0.2, 1.0, 20.0], lambda f: stats.t(3.0, f + 1, 0.3)),
    (Gaussian(0.4), [-9.0, 0.2, 1.0, 8.0], lambda f: stats.norm(f, np.sqrt(0.4))),
]


class Logistic(LogConcave):
    """Logistic noise, as users write it: with neither a distribution function nor quantiles."""

    strip = np.pi

    def log_likelihood(self, y, f):
        p = expit(y - f)
        return log_expit(y - f) + log_expit(f - y), 2 * p - 1, 2 * p * (1 - p)

    def response(self, mean, variance):
        return mean, variance + np.pi**2 / 3

    def sample(self, f, random_state):
        return f + random_state.logistic(size=np.shape(f))


class Counts(LogConcave):
    """Poisson counts, as users write them."""

    strip = np.pi
    domain = Domain("counts", low=0.0)

    def log_likelihood(self, y, f):
        rate = np.exp(np.minimum(f, 300.0))
        return y * f - rate - gammaln(y + 1), y - rate, rate

    def response(self, mean, variance):
        rate = np.exp(mean + 0.5 * variance)
        return rate, rate + rate**2 * np.expm1(variance)

    def sample(self, f, random_state):
        return random_state.poisson(np.exp(f)).astype(float)


class KnownCounts(Counts):
    """The same, with a distribution function, and quantiles that follow from it."""

    def cdf(self, y, mean, variance):
        return Poisson().cdf(y, mean, variance)


def dense(y, distribution):
    """P(Y <= y) by a sum over latent values."""
    z = np.linspace(-9.0, 9.0, 10_001)
    weights = np.exp(-0.5 * z**2)
    f = MEAN[:, None] + np.sqrt(VARIANCE)[:, None] * z
    return distribution(f).cdf(y) @ weights / weights.sum()


@pytest.mark.parametrize("likelihood, numbers, distribution", CASES, ids=lambda one: repr(one)[:9])
def test_they_are_expectations_over_latent_values(likelihood, numbers, distribution):
    for y in numbers:
        found = likelihood.cdf(np.full(len(MEAN), y), MEAN, VARIANCE)
        narrow = VARIANCE > 0  # SciPy's beta has no mean of exactly 0 or 1
        assert_allclose(found[narrow], dense(y, distribution)[narrow], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "likelihood", [Gamma(3.0), Beta(4.0), StudentT(0.3), Gaussian(0.4), Logistic()], ids=repr
)
def test_quantiles_are_where_they_are_q(likelihood):
    for q in (1e-3, 0.2, 0.5, 0.975):
        y = likelihood.quantile(q, MEAN, VARIANCE)
        far = isinstance(likelihood, Beta) & ((y < 1e-300) | (y > 1.0 - 1e-6))  # rounded to 0 or 1
        assert_allclose(likelihood.cdf(y, MEAN, VARIANCE)[~far], q, rtol=1e-8)


@pytest.mark.parametrize(
    "likelihood", [Poisson(), NegativeBinomial(0.5), Ordinal(-1.0, (1.0, 2.0)), Probit()], ids=repr
)
def test_of_whole_numbers_they_are_sums_of_probabilities(likelihood):
    labels = likelihood.domain.only or range(40)
    n, total = len(MEAN), 0.0
    for y in labels:
        total = total + np.exp(likelihood.log_density(np.full(n, float(y)), MEAN, VARIANCE))
        for number in (y, y + 0.9):  # nothing lies between
            assert_allclose(likelihood.cdf(np.full(n, number), MEAN, VARIANCE), total, atol=1e-11)
    before = likelihood.cdf(np.full(n, min(labels) - 1.0), MEAN, VARIANCE)
    assert_array_equal(before, 0.0)


@pytest.mark.parametrize(
    "likelihood, low, high",
    [
        (Gamma(), 0.0, np.inf),
        (Beta(), 0.0, 1.0),
        (Ordinal(0.0, (1.0,)), -1.0, 2.0),
        (Logit(), -1.5, 1.0),
        (Censored(lower=-0.5, upper=2.0, scale=0.7), -0.6, 2.0),
    ],
    ids=repr,
)
def test_they_are_0_below_the_domain_and_1_above_it(likelihood, low, high):
    assert_array_equal(likelihood.cdf(np.full(len(MEAN), low), MEAN, VARIANCE), 0.0)
    if high < np.inf:
        found = likelihood.cdf(np.full(len(MEAN), high), MEAN, VARIANCE)
        assert_allclose(found, 1.0, rtol=1e-14)


def test_a_limit_has_the_probability_of_all_beyond():
    likelihood = Censored(lower=-0.5, upper=2.0, scale=0.7)
    for y in (-0.5, 0.3, 1.999):
        expected = stats.norm(MEAN, np.sqrt(VARIANCE + 0.49)).cdf(y)
        assert_allclose(likelihood.cdf(np.full(len(MEAN), y), MEAN, VARIANCE), expected, rtol=1e-12)


# -- likelihoods of users ----------------------------------------------------------------


def test_densities_on_all_numbers_are_integrated():
    for y in (-60.0, -5.0, 0.0, 0.7, 8.0, 60.0):
        found = Logistic().cdf(np.full(len(MEAN), y), MEAN, VARIANCE)
        assert_allclose(found, dense(y, lambda f: stats.logistic(f)), atol=1e-9)
    check_likelihood(Logistic(), y=[-1.0, 0.5])


def test_quantiles_of_whole_numbers_follow_from_distribution_functions():
    for q in (0.01, 0.5, 0.9):
        found = KnownCounts().quantile(q, MEAN, VARIANCE)
        assert_array_equal(found, Poisson().quantile(q, MEAN, VARIANCE))


class Quantiles(Counts):
    def quantile(self, q, mean, variance):
        return Poisson().quantile(q, mean, variance)


class Mixture(Gaussian):
    """A normal number, in a tenth of the cases."""

    def tilted(self, y, mean, variance, power=1.0):
        value, slope, curvature = super().tilted(y, mean, variance, power)
        return value - np.log(10.0), slope, curvature

    cdf = Likelihood.cdf


@pytest.mark.parametrize("likelihood", [Counts(), Quantiles(), Mixture()], ids=repr)
def test_what_has_no_distribution_function_says_so(likelihood):
    with pytest.raises(NotImplementedError, match=f"{type(likelihood).__name__} .*a method cdf"):
        likelihood.cdf(np.zeros(3), np.zeros(3), np.ones(3))
    if isinstance(likelihood, Quantiles):
        found = likelihood.quantile(0.5, np.zeros(3), np.ones(3))
        assert_array_equal(found, [1.0, 1.0, 1.0])
    elif isinstance(likelihood, Counts):
        with pytest.raises(NotImplementedError, match="Give it a method cdf"):
            likelihood.quantile(0.5, np.zeros(3), np.ones(3))


@pytest.mark.parametrize("y", [[1.0], [0.0, 3.0]])
def test_wrong_distribution_functions_are_found(y):
    class Shifted(Poisson):
        def cdf(self, y, mean, variance):
            return super().cdf(y - 1.0, mean, variance)

    class Flat(Gamma):
        def cdf(self, y, mean, variance):
            return super().cdf(y, mean, variance).round(2)

    for likelihood in (Shifted(), Flat()):
        with pytest.raises(AssertionError, match="cdf"):
            check_likelihood(likelihood, np.add(y, 0.5 * isinstance(likelihood, Gamma)))

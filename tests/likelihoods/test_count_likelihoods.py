"""Likelihoods of counts, positive numbers, proportions and outliers against dense sums, limits."""

import warnings
from functools import partial

import numpy as np
import pytest
from conftest import agree, slopes_of_parameters, stored
from gaussian import Gaussian
from inside import best_constant, log_moments
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, gammaln

from skgp_sparse.likelihoods import Beta, Gamma, Logit, NegativeBinomial, Poisson, Probit, StudentT
from skgp_sparse.testing import check_likelihood

COUNTS, POWERS = map(stored, ("counts", "power_ep"))
CASES = sorted({key.split("/")[0] for key in COUNTS})
LIKELIHOODS = [
    (Poisson(), [0.0, 0.3, 1.0, 7.0, 500.0]),
    (Poisson(level=1.2), [0.0, 4.0]),
    (NegativeBinomial(10.0), [0.0, 0.5, 30.0, 500.0]),
    (NegativeBinomial(0.4, level=-0.7), [0.0, 3.0, 500.0]),
    (NegativeBinomial(1e5), [0.0, 3.0, 500.0]),
    (Gamma(1.0), [1e-3, 1.0, 40.0]),
    (Gamma(50.0, level=0.4), [0.1, 3.0]),
    (Gamma(0.05), [1e-8, 1.0, 30.0]),
    (Beta(10.0, level=0.2), [1e-4, 0.3, 0.99]),
    (Beta(0.4), [1e-6, 0.6]),
    (Beta(300.0), [0.2, 0.5]),
    (StudentT(0.3), [-0.2, 2.0, 40.0]),
    (StudentT(1.0, df=1.5, level=0.3), [0.1, 50.0]),
    (StudentT(0.5, df=1000.0), [0.2, 5.0]),
]
CONCAVE = [(own, y) for own, y in LIKELIHOODS if own.is_log_concave]
OTHERS = [(Probit(), [-1.0, 1.0]), (Logit(), [-1.0, 1.0]), (Gaussian(0.4), [0.3, -5.0])]


def table(y, means=(-3.0, 0.0, 0.7, 4.0), variances=(1e-3, 0.05, 0.4, 2.0, 8.0, 30.0, 100.0)):
    return tuple(part.ravel() for part in np.meshgrid(y, means, variances, indexing="ij"))


def distribution(likelihood, g):
    """The distribution by SciPy, given latent values with their level."""
    if isinstance(likelihood, Poisson):
        return stats.poisson(np.exp(g))
    if isinstance(likelihood, NegativeBinomial):
        return stats.nbinom(likelihood.size, 1 / (1 + np.exp(g) / likelihood.size))
    if isinstance(likelihood, Gamma):
        return stats.gamma(likelihood.shape, scale=np.exp(g) / likelihood.shape)
    if isinstance(likelihood, Beta):
        return stats.beta(likelihood.precision * expit(g), likelihood.precision * expit(-g))
    if isinstance(likelihood, Gaussian):
        return stats.norm(g, np.sqrt(likelihood.variance))
    return stats.t(likelihood.df, g, likelihood.scale)


def log_density(likelihood, y, f):
    """By SciPy, or by the definition."""
    g = f + likelihood.intercept
    if isinstance(likelihood, Poisson):
        return y * g - np.exp(g) - gammaln(y + 1)
    if isinstance(likelihood, NegativeBinomial):
        k, x = likelihood.size, g - np.log(likelihood.size)
        rest = gammaln(y + k) - gammaln(k) - gammaln(y + 1)
        if y == np.rint(y):  # gammaln and betaln have few digits of large sizes
            rest = np.sum(np.log(k + np.arange(y))) - gammaln(y + 1)
        return rest + y * x - (y + k) * np.logaddexp(0.0, x)
    if isinstance(likelihood, (Probit, Logit)):
        return likelihood.log_sigmoid(y * f)[0]
    return distribution(likelihood, g).logpdf(y)


def dense_expected(likelihood, y, mean, variance):
    """E[log p], and its derivatives by moments with Hermite polynomials."""
    std = np.sqrt(variance)
    z = np.linspace(-13.0 - std, 13.0 + std, 60_001)  # exp(f) has its mass at std
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    logs = log_density(likelihood, y, mean + std * z)
    return weights @ logs, weights @ (logs * z) / std, -weights @ (logs * (z**2 - 1)) / variance


def dense_tilted(likelihood, y, mean, variance, power=1.0):
    """log E[p^power] over the range where the integrand counts, and its derivatives."""
    std = np.sqrt(variance)

    def exponent(distance):
        return power * log_density(likelihood, y, mean + distance) - 0.5 * (distance / std) ** 2

    coarse = std * np.linspace(-60.0, 60.0, 240_001)
    logs = np.nan_to_num(exponent(coarse), nan=-np.inf)
    first, last = np.flatnonzero(logs > logs.max() - 60.0)[[0, -1]]
    low, high = coarse[max(first - 1, 0)], coarse[min(last + 1, len(coarse) - 1)]
    distance = low + np.linspace(0.0, high - low, 200_001)
    logs = exponent(distance)
    weights = np.exp(logs - logs.max())
    total = weights.sum() * (high - low) / 200_000
    weights /= weights.sum()
    first = weights @ distance
    second = weights @ (distance - first) ** 2
    value = logs.max() + np.log(total / std) - 0.5 * np.log(2 * np.pi)
    return value, first / variance, (variance - second) / variance**2


@pytest.fixture(autouse=True)
def quiet():
    """Inference and the dense sums overflow where this does no harm."""
    with np.errstate(all="ignore"):
        yield


# dense sums


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("likelihood, y", LIKELIHOODS, ids=repr)
def test_expected_agrees_with_dense_sums(likelihood, y):
    y, mean, variance = table(y, variances=(0.05, 0.4, 2.0, 8.0))
    found = likelihood.expected(y, mean, variance)
    for row in range(len(y)):
        value, slope, curvature = dense_expected(likelihood, y[row], mean[row], variance[row])
        assert_allclose(found[0][row], value, rtol=3e-11, atol=3e-10)  # SciPy loses digits
        assert_allclose(found[1][row], slope, rtol=1e-9, atol=1e-9 * (1 + abs(value)))
        assert_allclose(found[2][row], curvature, rtol=1e-9, atol=1e-8 * (1 + abs(value)))


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("power", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("likelihood, y", [*CONCAVE, *OTHERS], ids=repr)
def test_tilted_agrees_with_dense_sums(likelihood, y, power):
    y, mean, variance = table(y, means=(-3.0, 0.7, 4.0), variances=(0.05, 2.0, 100.0))
    found = likelihood.tilted(y, mean, variance, power)
    for row in range(len(y)):
        expected = dense_tilted(likelihood, y[row], mean[row], variance[row], power)
        rounding = np.array([1e-11, 1e-12 / variance[row], 1e-11 / variance[row] ** 2])
        allowed = 2e-11 * np.abs(expected) + rounding
        off = np.abs([part[row] for part in found] - np.array(expected))
        assert np.all(off <= allowed), (y[row], mean[row], variance[row], off / allowed)


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("likelihood, y", LIKELIHOODS[-3:], ids=repr)
def test_tilted_student_t_agrees_with_dense_sums(likelihood, y):
    y, mean, variance = table([*y, 300.0], variances=(0.05, 2.0, 100.0))
    found = likelihood.tilted(y, mean, variance)
    for row in range(len(y)):
        expected = dense_tilted(likelihood, y[row], mean[row], variance[row])
        agree(np.array([part[row] for part in found]), np.array(expected), 1e-10)


def test_expected_student_t_of_a_narrow_peak_in_a_wide_row():
    own, y, variance = StudentT(1e-3, df=3.0), 0.4, 100.0
    u = np.linspace(-16.0, 16.0, 400_001)  # f = y + scale sinh(u)
    f = y + 1e-3 * np.sinh(u)
    weights = np.exp(-0.5 * f**2 / variance) * np.cosh(u)
    weights /= weights.sum()
    found = own.expected(np.array([y]), np.zeros(1), np.array([variance]))
    agree(found[0], weights @ log_density(own, y, f), 1e-10)
    agree(found[1], weights @ (log_density(own, y, f) * f) / variance, 1e-10)


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize("y", [0.0, 2.0, 300.0])
def test_tilted_of_little_variance_keeps_all_digits(y, power):
    mean, variance = np.array([1.5, 1.5]), np.array([1e-8, 0.0])
    value, slope, curvature = Poisson().tilted(np.full(2, y), mean, variance, power)
    rate = np.exp(1.5)
    assert_allclose(slope, power * (y - rate), rtol=2e-8 * power * (1 + 2 * rate))
    assert_allclose(slope[1], power * (y - rate), rtol=1e-12)
    assert_allclose(curvature[1], power * rate, rtol=1e-12)
    assert_allclose(value[1], power * Poisson().expected(y, 1.5, 0.0)[0], rtol=1e-13)


def test_powers_may_differ_between_rows():
    y, mean, variance = table([0.0, 3.0])
    power = np.linspace(0.1, 1.0, len(y))
    for own, labels in ((NegativeBinomial(), y), (Logit(), np.where(y > 0, 1.0, -1.0))):
        together = np.array(own.tilted(labels, mean, variance, power))
        rows = zip(labels, mean, variance, power)
        one = [own.tilted(*(np.array([x]) for x in row)) for row in rows]
        assert_allclose(together, np.array(one)[:, :, 0].T, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("likelihood, y", [*CONCAVE, *OTHERS], ids=repr)
def test_tilted_is_finite_wherever_the_cavity_is(likelihood, y):
    y, mean, variance = table(y, (-1e3, -50.0, 50.0, 1e3), (0.0, 1e-10, 1.0, 1e4, 1e8, 1e16))
    for power in (1.0, 0.3):
        found = np.array(likelihood.tilted(y, mean, variance, power))
        assert np.isfinite(found).all() and np.all(found[2] >= 0)


def test_memory_and_time_of_wide_rows_are_bounded():
    seen = []

    def flat(f):
        seen.append(f.size)
        return np.where(f > 0, 0.0, f), np.where(f > 0, 0.0, 1.0), np.zeros_like(f)

    log_moments(flat, np.zeros(50), np.full(50, 1e20), 1.0, 1.0)
    assert max(seen) <= 1 << 15 and sum(seen) <= 50 * 7000


# derivatives


@pytest.mark.parametrize("kind", ["expected", "tilted"])
@pytest.mark.parametrize("likelihood, y", LIKELIHOODS, ids=repr)
def test_slopes_of_parameters_are_derivatives(likelihood, y, kind):
    row = table(y, variances=(0.05, 0.4, 2.0, 8.0))
    n = len(likelihood.theta)
    assert n == len(likelihood.parameters) and likelihood.limits.shape == (n, 2)
    for power in ((1.0,), (0.4,)) if kind == "tilted" and likelihood.is_log_concave else ((),):
        found = getattr(likelihood, f"{kind}_slopes")(*row, *power)
        assert found.shape == (n, len(row[0]))
        size = 1 + np.abs(getattr(likelihood, kind)(*row, *power)[0]).max()
        expected = slopes_of_parameters(likelihood, kind, *row, *power)
        assert_allclose(found, expected, rtol=1e-7, atol=1e-8 * size)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("likelihood, y", LIKELIHOODS, ids=repr)
def test_likelihoods_pass_the_public_check(likelihood, y):
    # samples of two others say nothing about variances, and a third one has far tops that switch
    given = likelihood.get_params()
    if given.get("df") != 1.5 and given.get("shape") != 0.05 and given.get("precision") != 300.0:
        check_likelihood(likelihood, y)


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(), Gamma(), StudentT(0.2)])
def test_wrong_quantiles_are_found(likelihood):
    class Wrong(type(likelihood)):
        def quantile(self, q, mean, variance):
            return super().quantile(0.9 * q, mean, variance) - 0.5

    with pytest.raises(AssertionError, match="Wrong.*quantile .*expected quantile 0"):
        check_likelihood(Wrong(**likelihood.get_params()), [1.0])


# golden values


def golden_likelihood(case):
    name, values = str(COUNTS[f"{case}/likelihood"]), COUNTS[f"{case}/likelihood_params"]
    if name == "student":
        return StudentT(scale=values[0], df=values[1])
    return {"poisson": Poisson, "negbin": NegativeBinomial, "gamma": Gamma}[name](*values)


def prefixes(case, ending):
    keys = (key for key in COUNTS if key.startswith(f"{case}/") and key.endswith(ending))
    return [key[: -len(ending)] for key in keys]


@pytest.mark.parametrize("case", CASES)
def test_responses_and_densities_are_golden(case):
    own, offset = golden_likelihood(case), COUNTS[f"{case}/offset_test"]
    found = prefixes(case, "_log_density_test")
    assert found
    for prefix in found:
        latent = COUNTS[f"{prefix}_mean_test"] + offset, COUNTS[f"{prefix}_var_test"]
        mean, variance = own.response(*latent)
        density = own.tilted(COUNTS[f"{case}/y_test"], *latent)[0]
        assert_allclose(mean, COUNTS[f"{prefix}_y_mean_test"], rtol=1e-13)
        assert_allclose(variance, COUNTS[f"{prefix}_y_var_test"], rtol=1e-13)
        assert_allclose(density, COUNTS[f"{prefix}_log_density_test"], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", CASES)
def test_golden_bounds_are_fixed_points(case):
    own = golden_likelihood(case)
    offset, weight = (COUNTS[f"{case}/{name}"] for name in ("offset", "weight"))
    for prefix in prefixes(case, "_bound"):
        likelihood = own.majorised() if "mix_" in prefix else own
        mean, variance = COUNTS[f"{prefix}_qf_mean_train"], COUNTS[f"{prefix}_qf_var_train"]
        row = COUNTS[f"{case}/y"], mean + offset, variance
        _, slope, curvature = likelihood.expected(*row)
        agree(curvature, COUNTS[f"{prefix}_site_precision"], 1e-11)
        agree(curvature * mean + slope, COUNTS[f"{prefix}_site_linear"], 1e-11)
        level, *others = likelihood.expected_slopes(*row) @ weight
        agree(level, COUNTS[f"{prefix}_grad_offset"], 1e-10)
        agree(np.array(others), COUNTS.get(f"{prefix}_grad_likelihood", np.zeros(0)), 1e-10)


def check_moments(likelihood, y, data, prefix, power, offset=0.0, rows=slice(None)):
    """The tilted moments of the cavities must be those that the golden sites give."""
    mean, variance = data[f"{prefix}_qf_mean_train"][rows], data[f"{prefix}_qf_var_train"][rows]
    linear, precision = data[f"{prefix}_site_linear"][rows], data[f"{prefix}_site_precision"][rows]
    left = 1 - power * variance * precision
    cavity, centre = variance / left, (mean - power * variance * linear) / left
    _, slope, curvature = likelihood.tilted(y[rows], centre + offset, cavity, power)
    rest = power * (1 - cavity * curvature)
    agree(curvature / rest, precision, 1e-9)
    agree((slope + centre * curvature) / rest, linear, 1e-9)
    return centre + offset, cavity


@pytest.mark.parametrize("power, name", [(1.0, "gfitc"), (0.5, "pep_0.5"), (0.1, "pep_0.1")])
@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("student")])
def test_golden_propagation_is_a_fixed_point(case, power, name):
    own, y, prefix = golden_likelihood(case), COUNTS[f"{case}/y"], f"{case}/{name}"
    rows = COUNTS[f"{case}/weight"] > 0
    offset, weight = COUNTS[f"{case}/offset"][rows], COUNTS[f"{case}/weight"][rows]
    row = check_moments(own, y, COUNTS, prefix, power, offset, rows)
    level, *others = own.tilted_slopes(y[rows], *row, power) @ weight / power
    agree(level, COUNTS[f"{prefix}_grad_offset"], 1e-9)
    agree(np.array(others), COUNTS.get(f"{prefix}_grad_likelihood", np.zeros(0)), 1e-9)


@pytest.mark.parametrize("prefix", [k[:-5] for k in POWERS if k.endswith("_logz")])
def test_golden_propagation_of_labels_is_a_fixed_point(prefix):
    case, name = prefix.split("/")
    kind, power = name.split("_")
    if float(power) >= 0.1:
        y = stored("classification")[f"{case}/y"]
        check_moments({"probit": Probit(), "logit": Logit()}[kind], y, POWERS, prefix, float(power))


# quantiles and samples


def probability(likelihood, y, mean, variance):
    """P(Y <= y) by a dense sum over f."""
    z = np.linspace(-9.0, 9.0, 20_001)
    weights = np.exp(-0.5 * z**2)
    g = mean + np.sqrt(variance) * z + likelihood.intercept
    return weights @ distribution(likelihood, g).cdf(y) / weights.sum()


ALL = [*(own for own, _ in LIKELIHOODS), Gaussian(0.4)]


@pytest.mark.second(share=0.02, thin=1)
@pytest.mark.parametrize("q", [1e-4, 0.025, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_quantiles_agree_with_distribution_functions(likelihood, q):
    _, mean, variance = table([0.0], (-5.0, 0.0, 1.3, 6.0), (0.0, 1e-4, 0.01, 0.1, 0.5, 2.0))
    found = likelihood.quantile(q, mean, variance)
    for row in zip(found, mean, variance):
        p = probability(likelihood, *row)
        if isinstance(likelihood, (Poisson, NegativeBinomial)):
            y, *latent = row
            before = probability(likelihood, y - 1.0, *latent) if y > 0 else -1.0
            assert y == np.rint(y) and before < q + 1e-8 and p >= q - 1e-8
        elif not isinstance(likelihood, Beta) or 1e-300 < row[0] < 1.0 - 1e-6:
            assert abs(p - q) < 1e-9  # but for rounding to 0 and 1


@pytest.mark.second(share=0.21)
@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_quantiles_and_responses_survive_everything(likelihood):
    _, mean, variance = table([0.0], (-1e4, -300.0, 40.0, 1e4), (0.0, 1e-16, 1.0, 1e4, 1e20))
    with warnings.catch_warnings(), np.errstate(over="warn", divide="warn", invalid="warn"):
        warnings.simplefilter("error")
        for q in (1e-12, 0.5, 1 - 1e-9):
            assert not np.isnan(likelihood.quantile(q, mean, variance)).any()
        assert not np.isnan(likelihood.response(mean, variance)).any()
        drawn = likelihood.sample(np.tile(mean, (3, 1)), np.random.RandomState(0))
    assert drawn.shape == (3, len(mean)) and not np.isnan(drawn).any()
    likelihood.check(drawn.ravel(), "test")


def test_quantiles_of_huge_rates_are_those_of_the_normal_distribution():
    found = Poisson().quantile(0.975, np.array([60.0, 30.0]), np.array([0.25, 0.0]))
    rate = np.exp(30.0)
    assert_allclose(np.log(found[0]), 60.0 + 0.5 * stats.norm.ppf(0.975), rtol=1e-9)
    assert_allclose((found[1] - rate) / np.sqrt(rate), stats.norm.ppf(0.975), rtol=1e-3)


def test_samples_of_huge_rates_have_the_right_moments():
    f = np.full(4000, 40.0)
    drawn = Poisson().sample(f, np.random.RandomState(0)) / np.exp(40.0)
    assert abs(drawn.mean() - 1) < 1e-10 and abs(drawn.std() * np.exp(20.0) - 1) < 0.1
    assert Poisson().sample(np.array(1.0), np.random.RandomState(0)).shape == ()


# laws


ROW = table([0.0, 1.0, 12.0], variances=(0.05, 0.4, 2.0))


def test_a_negative_binomial_of_large_size_is_poisson():
    for kind in ("expected", "tilted"):
        mine, its = (getattr(one, kind)(*ROW) for one in (NegativeBinomial(1e14), Poisson()))
        agree(mine[0], its[0], 1e-9)
        agree(np.array(mine[1:]), np.array(its[1:]), 1e-9)
    few = ROW[1][:3], ROW[2][:3]
    assert_allclose(NegativeBinomial(1e9).quantile(0.9, *few), Poisson().quantile(0.9, *few))


def test_a_level_is_a_shift_of_the_latent_value():
    for own in (Poisson(), NegativeBinomial(), Gamma(), StudentT(0.3)):
        row = (ROW[0] + 1.0, *ROW[1:])
        moved = type(own)(**{**own.get_params(), "level": 0.8})
        shifted = row[0], row[1] + 0.8, row[2]
        for kind in ("expected", "tilted"):
            agree(getattr(moved, kind)(*row)[0], getattr(own, kind)(*shifted)[0], 1e-12)
        agree(moved.quantile(0.3, *row[1:]), own.quantile(0.3, *shifted[1:]), 1e-12)
        assert moved.intercept == 0.8 and own.intercept == 0.0
        linear, precision = own.first_sites(row[0])
        also, same = moved.first_sites(row[0])
        agree(also / same, linear / precision - 0.8, 1e-12)


def test_the_scale_mixture_bounds_the_student_t():
    own, row = StudentT(0.3), table([-0.2, 2.0, 40.0])
    bound = own.majorised()
    assert bound.is_log_concave and bound.majorised() is None and Poisson().majorised() is None
    value, slope, precision = bound.expected(*row)
    assert np.all(value <= own.expected(*row)[0] + 1e-12) and np.all(precision > 0)
    up, down = (bound.expected(row[0], row[1] + step, row[2])[0] for step in (1e-5, -1e-5))
    assert_allclose(slope, (up - down) / 2e-5, rtol=1e-6, atol=1e-9)
    assert_allclose(bound.tilted(*row), own.tilted(*row))


# starts, domains and conventions


Y, WEIGHT = np.array([0.0, 3.0, 1.0, 8.0]), np.array([1.0, 2.0, 0.5, 1.0])
OFFSET = np.array([0.1, -0.4, 0.0, 1.2])
OF_NUMBERS = [Poisson(), NegativeBinomial(), Gamma(2.0)]


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("likelihood", [*OF_NUMBERS, StudentT(0.9), Beta()])
def test_of_nothing_is_the_best_constant(likelihood):
    y = np.clip((Y + 0.5) / 9.0, 0.0, 1.0) if isinstance(likelihood, Beta) else Y + 0.5

    def value(level):
        moved = type(likelihood)(**{**likelihood.get_params(), "level": level})
        return WEIGHT @ moved.expected(y, OFFSET, np.zeros(4))[0]

    best = likelihood.constant_log_likelihood(y, WEIGHT, OFFSET)
    levels = np.linspace(-2.0, 5.0, 7001)
    found = np.array([value(level) for level in levels])
    assert found.max() - 1e-9 <= best <= found.max() + 1e-5


def test_of_nothing_of_labels_takes_offsets_into_account():
    y = np.where(Y > 1, 1.0, -1.0)
    for own in (Probit(), Logit()):
        best = own.constant_log_likelihood(y, WEIGHT, OFFSET)
        found = [WEIGHT @ own.log_sigmoid(y * (b + OFFSET))[0] for b in np.linspace(-5, 5, 5001)]
        assert max(found) - 1e-9 <= best <= max(found) + 1e-5
        frequencies = own.constant_log_likelihood(y, WEIGHT, np.zeros(4))
        at_best = best_constant(partial(own._of_labels, y), WEIGHT, np.zeros(4))
        assert_allclose(frequencies, at_best, rtol=1e-12)


def test_levels_start_at_the_log_of_a_mean_observation():
    expected = np.log(WEIGHT @ Y / (WEIGHT @ np.exp(OFFSET)))
    for own in (Poisson(), NegativeBinomial(), Gamma()):
        started = own.started(Y, WEIGHT, OFFSET)
        assert_allclose(started.level, expected) and own.level is None
        assert started.started(Y, WEIGHT, OFFSET) is started
        assert_allclose(started.theta[0], expected)
    assert Poisson(level_bounds=(-1.0, 0.0)).started(Y, WEIGHT, OFFSET).level == 0.0
    with pytest.warns(UserWarning, match="All observations are 0"):
        level = Poisson().started(0 * Y, WEIGHT, OFFSET).level
    assert_allclose(level, np.log(0.5 / (WEIGHT @ np.exp(OFFSET))))
    assert np.isfinite(NegativeBinomial().constant_log_likelihood(0 * Y, WEIGHT, OFFSET))


def test_the_student_t_starts_at_medians():
    rng = np.random.default_rng(0)
    y = 5.0 + rng.normal(size=1000)
    y[:50] = 1e6
    started = StudentT().started(y + 1.0, np.ones(1000), np.ones(1000))
    assert abs(started.level - 5.0) < 0.2 and 0.3 < started.scale < 0.8
    assert StudentT(level=0.0).started(y, np.ones(1000), np.zeros(1000)).scale > 2.0
    assert StudentT(scale=0.2).started(y, np.ones(1000), np.zeros(1000)).scale == 0.2
    mostly_equal = np.array([1.0] * 9 + [4.0])
    assert 0 < StudentT().started(mostly_equal, np.ones(10), np.zeros(10)).scale < 1
    assert StudentT().started(np.ones(3), np.ones(3), np.zeros(3)).scale == 0.5


@pytest.mark.parametrize(
    "likelihood, y, sentence",
    [
        (Poisson(), [-1.0, 2.0, -3.0], 'Poisson takes counts y >= 0, but 2 rows .*"student_t"'),
        (NegativeBinomial(), [-1.0], 'NegativeBinomial takes .* but 1 rows .*"gaussian"'),
        (Gamma(), [0.0, 1.0], 'Gamma takes observations y > 0, but 1 rows .*"poisson"'),
        (Beta(), [0.0, 0.5, 1.0], "Beta takes numbers 0 < y < 1, but 2 rows .*Smithson"),
        (Gamma(), [0.0, -1.0], 'Gamma takes observations y > 0, but 2 rows .*"student_t"'),
    ],
)
def test_observations_outside_the_domain_are_refused(likelihood, y, sentence):
    with pytest.raises(ValueError, match=f"Name: {sentence}"):
        likelihood.check(np.array(y), "Name")


def test_parameters_follow_the_conventions():
    own = StudentT(scale_bounds=(0.1, 10.0), df_bounds="fixed", level=2.0)
    assert_allclose(own.theta, [2.0, 0.0])
    assert_allclose(own.limits, [[-np.inf, np.inf], np.log([0.1, 10.0])])
    moved = own.with_theta(np.array([1.0, np.log(3.0)]))
    assert (moved.level, round(moved.scale, 12), moved.df) == (1.0, 3.0, 4.0)
    assert own.expected_slopes(Y, Y, Y + 1).shape == (2, 4)
    fixed = NegativeBinomial(3.0, "fixed", 1.0, "fixed")
    assert fixed.with_theta(fixed.theta) is fixed and fixed.limits.shape == (0, 2)
    assert fixed.expected_slopes(Y, Y, Y + 1).shape == (0, 4)
    assert fixed.tilted_slopes(Y, Y, Y + 1).shape == (0, 4)
    assert StudentT().response(Y, Y)[1][0] == 2.0 and np.isinf(
        StudentT(df=2.0).response(Y, Y)[1][0]
    )
    assert [own.standardises for own in (Gaussian(), StudentT(), Poisson())] == [True, True, False]


def test_powers_of_the_student_t_are_not_available():
    for name in ("tilted", "tilted_slopes"):
        with pytest.raises(NotImplementedError, match="moments of powers"):
            getattr(StudentT(1.0), name)(Y, Y, Y + 1, 0.5)

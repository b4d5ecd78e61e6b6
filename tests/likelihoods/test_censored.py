"""Censored numbers against quadrature, limits, and the exact Gaussian process."""

import numpy as np
import pytest
from conftest import agree, slopes_of_parameters
from inside import Inner, clipped_moments, log_probability
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.likelihoods import Censored
from skgp_sparse.testing import check_likelihood

LIMITS = -0.6, 1.1
Y = np.array([-0.6, -0.6, 0.3, 1.1, 0.9, -0.1, 1.1, -0.6])
FIXED = {"scale_bounds": "fixed", "level_bounds": "fixed"}
TIGHT = Inner(max_iter=1000, tol=1e-21)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def log_density(y, f, scale):
    """By SciPy: of numbers between the limits, or the log probability of what is beyond."""
    low, high = LIMITS
    if low < y < high:
        return stats.norm.logpdf(y, f, scale)
    return stats.norm.logcdf((low - f) / scale if y <= low else (f - high) / scale)


# -- the function and its tails --------------------------------------------------------


def tail(t):
    """``log Q(t)`` and the hazard, by the scaled complementary error function."""
    scaled = erfcx(t / np.sqrt(2.0))
    return np.log(0.5 * scaled) - 0.5 * t * t, np.sqrt(2.0 / np.pi) / scaled


@pytest.mark.parametrize("far", [10.0, 37.0, 1e3, 1e6, 1e9, 1e15])
def test_open_intervals_far_out_keep_their_digits(far):
    inf = np.array([np.inf])
    value, slope, curvature = log_probability(np.array([far]), inf, inf)
    log, hazard = tail(far)
    assert_allclose(value, log, rtol=1e-14)
    assert_allclose(slope, hazard, rtol=1e-9)
    excess = 1 / far - 2 / far**3 + 10 / far**5 - 74 / far**7  # hazard - far
    assert_allclose(curvature, hazard * excess, rtol=1e-5 if far < 30 else 1e-7)
    mirrored = log_probability(-inf, np.array([-far]), inf)
    assert_allclose(np.ravel(mirrored), [value[0], -slope[0], curvature[0]], rtol=1e-15)


@pytest.mark.parametrize("far", [0.0, 3.0, 40.0, 1e4, 1e8])
@pytest.mark.parametrize("width", [1e-12, 1e-6, 1e-3, 0.3, 0.9, 1.1, 4.0])
def test_closed_intervals_have_the_moments_of_truncated_numbers(far, width):
    """The slope is the mean of a truncated normal number, the curvature one minus its variance."""
    a, w = np.array([far]), np.array([width])
    value, slope, curvature = log_probability(a, a + w, w)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    reach = min(width, 60.0 / max(far, 1.0))
    t = 0.5 * reach * (nodes + 1.0)
    parts = weights * np.exp(-t * (far + 0.5 * t))
    total, share = parts.sum(), parts / parts.sum()
    mean = share @ t
    log = np.log(0.5 * reach * total) - 0.5 * far**2 - 0.5 * np.log(2 * np.pi)
    assert_allclose(value, log, rtol=1e-12)
    assert_allclose(slope, far + mean, rtol=1e-9)
    assert_allclose(curvature, 1.0 - share @ (t - mean) ** 2, rtol=1e-7)


def test_nothing_is_said_by_endless_intervals():
    inf = np.full(3, np.inf)
    said = log_probability(-inf, inf, inf)
    assert_allclose(said, 0.0)


@pytest.mark.parametrize(
    "a, b", [(-1.0, 0.5), (-np.inf, 0.3), (2.0, np.inf), (-0.1, 0.1), (6.0, 9.0)]
)
def test_moments_between_limits(a, b):
    z = np.linspace(-12, 12, 400_001)
    weights = stats.norm.pdf(z) * (z[1] - z[0])
    clipped = np.clip(z, a, b)
    mean = weights @ clipped
    found = clipped_moments(np.array([a]), np.array([b]))
    assert_allclose(np.ravel(found), [mean, weights @ (clipped - mean) ** 2], rtol=2e-8, atol=1e-12)


def test_far_beyond_a_limit_moments_are_those_of_the_limit():
    limits = np.array([50.0, -np.inf, 50.0]), np.array([np.inf, -50.0, 60.0])
    mean, variance = clipped_moments(*limits)
    assert_allclose(mean, [50.0, -50.0, 50.0])
    assert np.all((variance > 0) & (variance < 1e-15))


# -- expectations ----------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.05, 1.0])
@pytest.mark.parametrize("y", [-0.6, 0.3, 1.1, -2.0])
def test_expectations_agree_with_dense_sums(y, scale):
    own, z = Censored(*LIMITS, scale=scale, level=0.3), np.linspace(-13.0, 13.0, 40_001)
    weights = np.exp(-0.5 * z * z)
    weights /= weights.sum()
    for mean, variance in [(-3.0, 1e-3), (0.0, 0.4), (0.7, 2.0), (4.0, 30.0)]:
        row = np.array([y]), np.array([mean]), np.array([variance])
        f = mean + np.sqrt(variance) * z
        logs = log_density(y, f + 0.3, scale)
        value, slope, _ = own.expected(*row)
        assert_allclose(value, weights @ logs, rtol=2e-9, atol=1e-15)
        expected = weights @ (logs * z) / np.sqrt(variance)
        assert_allclose(slope, expected, rtol=1e-6, atol=1e-6 * (1 + abs(value[0])))
        for power in (1.0, 0.3):
            exponent = power * logs - 0.5 * z * z
            if abs(z[np.argmax(exponent)]) < 9.0:
                total = np.log(np.exp(exponent - exponent.max()).sum() * (z[1] - z[0]))
                expected = exponent.max() + total - 0.5 * np.log(2 * np.pi)
                rough = 1e-9 if variance < 30 * scale else 1e-3
                assert_allclose(own.tilted(*row, power)[0], expected, rtol=rough, atol=rough)


@pytest.mark.parametrize("kind, power", [("expected", ()), ("tilted", (1.0,)), ("tilted", (0.4,))])
def test_gradients_of_level_and_scale(kind, power):
    own = Censored(*LIMITS, scale=0.7, level=0.3)
    row = np.repeat(Y, 3), np.tile([-2.0, 0.4, 6.0], 8), np.tile([0.01, 1.5, 40.0], 8), *power
    found = getattr(own, f"{kind}_slopes")(*row)
    assert_allclose(found, slopes_of_parameters(own, kind, *row), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "likelihood, y",
    [
        (Censored(scale=0.3), [-0.2, 2.0, 4.0]),
        (Censored(lower=0.0, scale=2.0), [0.0, -1.0, 0.5, 2.0]),
        (Censored(upper=1.0, scale=1.5, level=0.4), [0.0, 1.0, 0.5]),
        (Censored(-1.0, 1.0, scale=2.0), [-1.0, 1.0, 0.5]),
    ],
    ids=repr,
)
def test_the_public_check_passes(likelihood, y):
    check_likelihood(likelihood, y)


def test_of_nothing_is_the_best_constant():
    own = Censored(*LIMITS, scale=0.6)
    weight, offset = np.linspace(0.5, 2.0, 8), np.linspace(-0.2, 0.2, 8)

    def loss(level):
        return -weight @ own.tilted(Y, level + offset, np.zeros(8))[0]

    best = -minimize_scalar(loss, bounds=(-2.0, 3.0), method="bounded").fun
    assert_allclose(own.constant_log_likelihood(Y, weight, offset), best, rtol=1e-8)


def test_starts_at_medians():
    y = np.array([0.0, 2.0, 1.0, 4.0, 5.0])
    found = Censored(lower=1.0).started(y, np.ones(5), np.zeros(5))
    assert found.level == 2.0 and found.scale == pytest.approx(0.5 * 1.4826 * 1.0)
    with pytest.warns(UserWarning, match="at the same limit"):
        Censored(lower=9.0).started(y, np.ones(5), np.zeros(5))


# -- evidence --------------------------------------------------------------------------


def forty_rows():
    """Numbers of which a few are at each limit."""
    return np.clip(np.random.RandomState(3).normal(size=40), *LIMITS)


def log_integral(y, variance, scale, level):
    """``log ∫ p(y | f) N(f; 0, variance) df`` by quadrature."""
    f = np.linspace(-14.0, 14.0, 20_001)
    logs = stats.norm.logpdf(f, 0.0, np.sqrt(variance)) + log_density(y, f + level, scale)
    return logsumexp(logs) + np.log(f[1] - f[0])


@pytest.mark.parametrize("n_inducing", [40, 60])
def test_evidence_of_independent_rows_is_that_of_quadrature(n_inducing):
    y, X = forty_rows(), 1e3 * np.arange(40.0)[:, None]
    expected = sum(log_integral(row, 1.7, 0.6, 0.2) for row in y)
    model = SparseGPRegressor(
        ConstantKernel(1.7) * RBF(1.0),
        likelihood=Censored(*LIMITS, scale=0.6, level=0.2, **FIXED),
        bound="gfitc-ep",
        n_inducing=n_inducing,
        optimizer=None,
        normalize_y=False,
    )
    assert abs(model.fit(X, y).log_marginal_likelihood_value_ - expected) < 1e-6
    scaled = model.set_params(normalize_y=True, likelihood__scale=0.6).fit(X, y)
    own, at_limits = scaled.log_predictive_density(X, y), (y <= LIMITS[0]) | (y >= LIMITS[1])
    assert own.shape == (40,) and np.all(own[at_limits] < 0)  # of probabilities


def test_without_censoring_this_is_the_exact_gaussian_process():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, (40, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=40)
    kernel, queries = ConstantKernel(1.3) * RBF(0.9), np.linspace(-3, 3, 7)[:, None]
    options = {"optimizer": None, "posterior": "exact", "normalize_y": False}
    own = SparseGPRegressor(kernel, likelihood=Censored(scale=0.3, level=0.0, **FIXED), **options)
    plain = SparseGPRegressor(kernel + WhiteKernel(0.09), **options).fit(X, y)
    own.fit(X, y)
    values = (one.log_marginal_likelihood_value_ for one in (own, plain))
    agree(next(values), next(values), 1e-10)
    for latent in (True, False):
        pair = (one.predict(queries, return_std=True, latent=latent) for one in (own, plain))
        assert_allclose(next(pair), next(pair), rtol=1e-7)
    assert_allclose(own.loo_predict(), plain.loo_predict(), rtol=1e-7)

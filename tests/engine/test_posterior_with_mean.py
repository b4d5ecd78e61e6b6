"""A process beside another prediction follows from its parts."""

import numpy as np
import pytest
from conftest import agree, row_differences
from inside import GRADIENTS, MeanWeights, PosteriorWithMean, normal_mixture
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor

RNG = np.random.RandomState(0)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]])
Y += 0.1 * RNG.normal(size=Y.shape)
QUERIES = RNG.uniform(-3, 3, size=(7, 2))
KERNEL = ConstantKernel(0.8) * RBF([0.9, 1.3]) + WhiteKernel(0.05)
HELD = {"optimizer": None, "normalize_y": False, "mean": None}
CONSTANT = MeanWeights(np.array([-0.8, 1.4]), np.zeros(2), np.ones(2), (-0.7, 0.0))
VARYING = MeanWeights(
    np.array([-0.8, 1.4]), np.array([0.5, 0.3]), np.array([0.1, 0.2]), (-0.2, -0.5)
)
SLOPE = np.array([[0.5, 0.0], [0.25, -1.0]])


def process_of(kernel, X, y, posterior="exact"):
    """The posterior of a fit whose hyperparameters are held."""
    options = {"inducing_init": X[::3]} if posterior == "inducing" else {}
    model = SparseGPRegressor(kernel, posterior=posterior, **HELD, **options)
    return model.fit(X, y)._fitted.fits[0].posterior


def other(X):
    """Another prediction, whose gradient is zero nearly everywhere."""
    return np.column_stack([np.floor(X[:, 0]), np.sign(X[:, 1])])


def linear(X):
    """Columns that are linear in those of X."""
    return X @ SLOPE.T + 0.1


def parts(process, weights, X):
    """Weights (n, 2) and factors (n,), by their formulas."""
    variance = process.mean_and_variance(X)[1] + process.noise_variance(X)
    odds = weights.intercept + weights.slope * np.log(variance[:, None] / weights.error)
    weight = 1.0 / (1.0 + np.exp(-odds))
    c, d = weights.log_factor
    return weight, np.exp(c + d * weight.mean(axis=1))


@pytest.mark.parametrize("weights", [CONSTANT, VARYING], ids=["constant", "varying"])
@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors"])
def test_a_weighted_mean_follows_from_its_parts(posterior, weights):
    process = process_of(KERNEL, X, Y, posterior)
    mixed = PosteriorWithMean(process, other, weights)
    mean, variance = process.mean_and_variance(QUERIES)
    weight, factor = parts(process, weights, QUERIES)
    assert np.ptp(weight) > 0.1 and (np.ptp(factor) > 0.05) == (weights is VARYING)
    expected = (1 - weight) * mean + weight * other(QUERIES)
    agree(mixed.weight(QUERIES), weight, 1e-12)
    agree(mixed.mean(QUERIES), expected, 1e-12)
    for found in (mixed.mean_and_variance(QUERIES), mixed.moments(QUERIES)):
        agree(found[0], expected, 1e-12)
        agree(found[1], factor * variance, 1e-12)
    noise = factor * process.noise_variance(QUERIES)
    agree(mixed.noise_variance(QUERIES), noise, 1e-12)
    agree(mixed.moments(QUERIES)[2], noise, 1e-12)
    std = np.sqrt(factor)
    agree(mixed.covariance(QUERIES), np.outer(std, std) * process.covariance(QUERIES), 1e-12)
    drawn = process.deviations(QUERIES, 3, np.random.RandomState(0))
    again = mixed.deviations(QUERIES, 3, np.random.RandomState(0))
    agree(again, std[:, None] * drawn, 1e-12)


def test_far_from_the_data_weights_are_those_of_the_prior():
    mixed = PosteriorWithMean(process_of(KERNEL, X, Y), other, VARYING)
    far = QUERIES + 1e3
    agree(mixed.prior_variance(QUERIES), mixed.mean_and_variance(far)[1], 1e-9)
    limit = VARYING.of(np.array([0.85]))[0]
    agree(mixed.mean(far), limit * other(far), 1e-9)


@pytest.mark.parametrize("weights", [CONSTANT, VARYING], ids=["constant", "varying"])
@pytest.mark.parametrize("latent", [True, False])
def test_gradients_of_a_weighted_mean_are_differences(latent, weights):
    mixed = PosteriorWithMean(process_of(KERNEL, X, Y), other, weights)

    def variance(X):
        _, variance, noise = mixed.moments(X)
        return variance + (0.0 if latent else noise)

    found = mixed.gradients(QUERIES, latent)
    agree(found.mean, mixed.mean(QUERIES), 1e-12)
    agree(found.variance, variance(QUERIES), 1e-12)
    agree(found.mean_slope, row_differences(mixed.mean, QUERIES), 1e-7)
    agree(found.variance_slope, row_differences(variance, QUERIES), 1e-7)


def test_a_mean_with_an_unknown_gradient_has_none():
    process = process_of(KERNEL, X, Y)
    steep = PosteriorWithMean(process, linear, VARYING, is_flat=False)
    assert steep.why_not(GRADIENTS) is not None
    assert "Set mean to None" in steep.why_not(GRADIENTS)
    assert PosteriorWithMean(process, other, VARYING).why_not(GRADIENTS) is None


@pytest.mark.second(share=0.1)
def test_normal_inputs_have_the_moments_of_a_mixture():
    mixed = PosteriorWithMean(process_of(KERNEL, X, Y), other, VARYING)
    spread = np.full(QUERIES.shape, 0.2)
    mean, variance = normal_mixture(mixed, QUERIES, spread, 1)
    draws = QUERIES + spread * np.random.RandomState(1).normal(size=(4000, *QUERIES.shape))
    moments = [mixed.mean_and_variance(draw) for draw in draws]
    means, variances = (np.stack(one) for one in zip(*moments))
    assert_allclose(mean, means.mean(axis=0), atol=0.03)
    expected = variances.mean(axis=0)[:, None] + means.var(axis=0)
    assert_allclose(variance, expected, rtol=0.25, atol=0.01)
    still = normal_mixture(mixed, QUERIES, np.zeros(QUERIES.shape), 1)
    agree(still[0], mixed.mean(QUERIES), 1e-12)


def test_sampled_functions_have_the_moments_of_a_weighted_mean():
    mixed = PosteriorWithMean(process_of(KERNEL, X, Y), other, VARYING)
    drawn = mixed.sample_functions(4000, 300, np.random.RandomState(0))
    values = drawn(QUERIES)
    mean, variance = mixed.mean_and_variance(QUERIES)
    assert values.shape == (7, 2, 4000)
    error = np.sqrt(variance / 4000)[:, None]
    assert np.all(np.abs(values.mean(axis=-1) - mean) < 5 * error)
    assert_allclose(values.var(axis=-1), np.tile(variance[:, None], 2), rtol=0.2)


@pytest.mark.parametrize("weights", [CONSTANT, VARYING], ids=["constant", "varying"])
def test_gradients_of_sampled_functions_are_differences(weights):
    mixed = PosteriorWithMean(process_of(KERNEL, X, Y), other, weights)
    few = mixed.sample_functions(3, 100, np.random.RandomState(0))
    agree(few.gradient(QUERIES), row_differences(few, QUERIES), 1e-5)

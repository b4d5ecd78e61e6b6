"""Neighbours beside a global process follow from their parts."""

import pickle

import numpy as np
import pytest
from conftest import agree, row_differences
from inside import CombinationWeights, CombinedPosterior, MeanWeights, PosteriorWithMean
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.posteriors import Neighbors

RNG = np.random.RandomState(0)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]])
Y += 0.1 * RNG.normal(size=Y.shape)
QUERIES = RNG.uniform(-3, 3, size=(7, 2))
KERNEL = ConstantKernel(0.8) * RBF([0.4, 0.6]) + WhiteKernel(0.05)
SMOOTH = ConstantKernel(1.1) * RBF([1.5, 2.0]) + WhiteKernel(0.2)
HELD = {"optimizer": None, "normalize_y": False, "mean": None}
WEIGHTS = CombinationWeights(0.3, 1.7, 0.04)
OF_MEAN = MeanWeights(
    np.array([-0.8, 0.4]), np.array([0.5, 0.3]), np.array([0.1, 0.2]), (-0.2, 0.4)
)


def process_of(kernel, posterior, **options):
    """The posterior of a fit whose hyperparameters are held."""
    model = SparseGPRegressor(kernel, posterior=posterior, **HELD, **options)
    return model.fit(X, Y)._fitted.fits[0].posterior


def flat(X):
    """Another prediction, whose gradient is zero nearly everywhere."""
    return np.column_stack([np.floor(X[:, 0]), np.sign(X[:, 1])])


NEAR = process_of(KERNEL, Neighbors(8))
FAR = process_of(SMOOTH, "inducing", inducing_init=X[::3])
FIRST = {"alone": NEAR, "beside a mean": PosteriorWithMean(NEAR, flat, OF_MEAN)}


@pytest.fixture(params=FIRST)
def first(request):
    return FIRST[request.param]


def by_hand(first, weights, X):
    """Means, total variances and noise of the combination, by their formulas."""
    (m1, v1, n1), (m0, v0, n0) = first.moments(X), FAR.moments(X)
    t1, t0 = v1 + n1, v0 + n0 * n1 / weights.noise
    w = 1.0 / (1.0 + np.exp(-weights.intercept) * (t1 / t0) ** weights.slope)
    mean = w[:, None] * m1 + (1.0 - w)[:, None] * m0
    return mean, (w * np.sqrt(t1) + (1.0 - w) * np.sqrt(t0)) ** 2, n1, w


def test_a_combination_follows_from_its_parts(first):
    both = CombinedPosterior(first, FAR, WEIGHTS)
    mean, total, noise, weight = by_hand(first, WEIGHTS, QUERIES)
    assert np.ptp(weight) > 0.1
    agree(both.mean(QUERIES), mean, 1e-12)
    for found in (both.mean_and_variance(QUERIES), both.moments(QUERIES)):
        agree(found[0], mean, 1e-12)
        agree(found[1], total - noise, 1e-12)
    agree(both.noise_variance(QUERIES), noise, 1e-12)
    assert both.name == "neighbors+inducing" and both.kernel == NEAR.kernel


def test_its_covariance_has_its_variances_and_is_definite(first):
    both = CombinedPosterior(first, FAR, WEIGHTS)
    cov = both.covariance(QUERIES)
    agree(cov.diagonal(), both.mean_and_variance(QUERIES)[1], 1e-12)
    agree(cov, cov.T, 1e-12)
    assert np.linalg.eigvalsh(cov).min() > 0.0
    drawn = both.deviations(QUERIES, 4000, np.random.RandomState(0))
    agree(np.cov(drawn), cov, 0.1)


@pytest.mark.parametrize("latent", [True, False])
def test_its_gradients_are_differences(first, latent):
    both = CombinedPosterior(first, FAR, WEIGHTS)

    def variance(X):
        _, variance, noise = both.moments(X)
        return variance + (0.0 if latent else noise)

    found = both.gradients(QUERIES, latent)
    agree(found.mean, both.mean(QUERIES), 1e-12)
    agree(found.variance, variance(QUERIES), 1e-12)
    agree(found.mean_slope, row_differences(both.mean, QUERIES), 1e-6)
    agree(found.variance_slope, row_differences(variance, QUERIES), 1e-6)


@pytest.mark.parametrize(("intercept", "alone"), [(60.0, NEAR), (-60.0, FAR)])
def test_extreme_weights_leave_one_alone(intercept, alone):
    both = CombinedPosterior(NEAR, FAR, CombinationWeights(intercept, 0.0, 0.05))
    mean, variance, noise = alone.moments(QUERIES)
    agree(both.mean(QUERIES), mean, 1e-12)
    total = both.mean_and_variance(QUERIES)[1] + both.noise_variance(QUERIES)
    agree(total, variance + noise, 1e-12)
    prior = both.prior_variance(QUERIES) + both.noise_variance(QUERIES)
    agree(prior, alone.prior_variance(QUERIES) + noise, 1e-12)


def test_where_no_row_is_near_the_process_that_knows_more_decides():
    far = np.array([[2.6, 0.0], [0.0, 2.7]])  # the smooth process still knows something there
    weight = by_hand(NEAR, WEIGHTS, far)[3]
    assert weight.max() < by_hand(NEAR, WEIGHTS, X[:5])[3].min()


def test_noise_free_neighbors_are_combined():
    both = CombinedPosterior(NEAR, FAR, CombinationWeights(0.0, 1.0, 0.0))
    assert np.isfinite(both.moments(QUERIES)[0]).all()


def test_it_survives_a_pickle():
    both = CombinedPosterior(NEAR, FAR, WEIGHTS)
    again = pickle.loads(pickle.dumps(both))
    assert all(np.array_equal(a, b) for a, b in zip(again.moments(QUERIES), both.moments(QUERIES)))

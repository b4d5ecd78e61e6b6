"""The cumulative probit: values, gradients, and evidence of 40 rows by sums written here."""

import numpy as np
import pytest
from conftest import slopes_of_parameters
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF

from skgp_sparse import SparseGPClassifier
from skgp_sparse.likelihoods import Ordinal, Probit
from skgp_sparse.testing import check_likelihood

SOME = Ordinal(-1.3, (0.8, 2.5))
TEST_CASES = [Ordinal(0.4), SOME, Ordinal(-3.0, (1e-3, 0.1, 4.0, 10.0))]
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def density(thresholds, y, f):
    """Probability of a label, by differences of the smaller tails."""
    ends = np.hstack([-np.inf, thresholds, np.inf])
    low, high = ends[y] - f, ends[y + 1] - f
    return np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


@pytest.mark.parametrize("likelihood", TEST_CASES, ids=repr)
def test_it_passes_the_public_check(likelihood):
    check_likelihood(likelihood, y=np.arange(len(likelihood.gaps) + 2.0))


@pytest.mark.parametrize("power", [1.0, 0.4])
@pytest.mark.parametrize("y", range(4))
def test_values_are_integrals(y, power):
    for mean, variance in ((0.3, 0.5), (-2.0, 3.0), (4.0, 0.01), (6.0, 20.0)):
        row = np.array([float(y)]), np.array([mean]), np.array([variance])
        std = np.sqrt(variance)

        def weighted(f, mean=mean, std=std):
            return density(SOME.thresholds, y, f) ** power * norm.pdf(f, mean, std)

        options = {"epsabs": 0.0, "epsrel": 1e-12, "limit": 400, "points": [*SOME.thresholds, mean]}
        integral = quad(weighted, mean - 14 * std, mean + 14 * std, **options)[0]
        assert SOME.tilted(*row, power)[0][0] == pytest.approx(np.log(integral), abs=1e-9)
        if power == 1.0:
            probability = SOME.probability(row[1], row[2])
            assert probability[y, 0] == pytest.approx(integral, rel=1e-9)
            assert probability.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("kind, power", [("expected", ()), ("tilted", (0.6,))])
@pytest.mark.parametrize("likelihood", TEST_CASES, ids=repr)
def test_gradients_of_thresholds_are_differences(likelihood, kind, power):
    labels, means = np.arange(len(likelihood.gaps) + 2.0), [-2.5, 0.1, 3.0]
    row = (*map(np.ravel, np.meshgrid(labels, means, [1e-3, 0.7, 5.0])), *power)
    found = getattr(likelihood, f"{kind}_slopes")(*row)
    slopes = slopes_of_parameters(likelihood, kind, *row)
    np.testing.assert_allclose(found, slopes, atol=1e-6, rtol=1e-6)


def test_two_labels_are_a_probit_with_a_level():
    mean, variance = np.array([-1.0, 0.5, 3.0]), np.array([0.2, 1.0, 4.0])
    for y in (0.0, 1.0):
        ours = Ordinal(0.7).tilted(np.full(3, y), mean, variance)
        theirs = Probit().tilted(np.full(3, 2 * y - 1), mean - 0.7, variance)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_far_intervals_keep_their_digits():
    y, variance = np.array([0.0, 1.0]), np.full(2, 1e-12)
    for f in (60.0, -60.0):
        value, slope, curvature = Ordinal(-1.0, (1e-3,)).tilted(y, np.full(2, f), variance)
        assert np.all(np.isfinite(value)) and np.all((curvature >= 0) & (curvature <= 1))
        middle = -1.0 + 0.5e-3 - f
        assert slope[1] == pytest.approx(middle, rel=1e-5)  # of a density times a small width
        assert value[1] == pytest.approx(norm.logpdf(middle) + np.log(1e-3), rel=1e-6)


def test_starts_have_the_frequencies_of_the_labels():
    y = np.repeat([0.0, 1.0, 3.0], [10, 30, 60])
    started = Ordinal(gaps=(1.0, 1.0)).started(y, np.ones(100), np.zeros(100))
    p = started.probability(np.zeros(1), np.ones(1))[:, 0]
    np.testing.assert_allclose(p, [0.1, 0.3, 0.005, 0.6], atol=0.005)


def rows(n=40):
    rng = np.random.RandomState(3)
    X = rng.uniform(-3, 3, size=(n, 1))
    f = 1.5 * np.sin(1.5 * X[:, 0])
    return X, np.searchsorted(SOME.thresholds, f + rng.normal(size=n))


def fitted(X, y, bound):
    """A fit with fixed hyperparameters, and thresholds where they start."""
    fixed = {"optimizer": None, "tol": 1e-9, "max_iter_predict": 500, "posterior": "exact"}
    model = SparseGPClassifier(2.0 * RBF(0.8), likelihood="ordinal", bound=bound, **fixed)
    return model.set_params(mean=None, calibration=None).fit(X, y)


def test_the_bound_of_forty_rows_is_that_of_dense_algebra():
    """The bound is maximal over natural parameters, from one step to the next by quadrature."""
    X, y = rows()
    model = fitted(X, y, "titsias")
    thresholds, K = model.likelihood_.thresholds, model.kernel_(X)
    linear, precision, step = np.zeros(40), np.full(40, 1e-3), 1e-4

    def logs(f):
        return np.log(density(thresholds, y[:, None], f))

    for _ in range(300):
        S = K - K @ np.linalg.solve(K + np.diag(1.0 / precision), K)
        m = S @ linear
        f = m[:, None] + np.sqrt(np.diag(S))[:, None] * NODES
        up, middle, down = (logs(f + shift) @ WEIGHTS for shift in (step, 0.0, -step))
        slope, curvature = (up - down) / (2 * step), (2 * middle - up - down) / step**2
        linear = 0.5 * linear + 0.5 * (slope + curvature * m)
        precision = 0.5 * precision + 0.5 * curvature
    L = np.linalg.cholesky(np.eye(40) + np.sqrt(precision[:, None] * precision) * K)
    divergence = np.log(np.diag(L)).sum() + 0.5 * m @ np.linalg.solve(K + 1e-10 * np.eye(40), m)
    divergence += 0.5 * (np.trace(np.linalg.inv(L @ L.T)) - 40)
    expected = np.sum(logs(f) @ WEIGHTS) - divergence
    assert model.log_marginal_likelihood_value_ == pytest.approx(expected, rel=1e-6)
    ends = ndtr((thresholds - m[0]) / np.sqrt(1.0 + S[0, 0]))
    expected = np.diff(np.hstack([0.0, ends, 1.0]))
    assert model.predict_proba(X[:1])[0] == pytest.approx(expected, abs=1e-5)


def test_the_evidence_of_equal_rows_is_an_integral():
    """Forty rows at two places, which are nearly independent: two integrals over one value."""
    X = np.repeat([[0.0], [9.0]], 20, axis=0)
    y = np.r_[np.repeat([0, 1, 2, 3], 5), np.repeat([1, 2, 3, 3], 5)]
    model = fitted(X, y, "gfitc-ep")
    thresholds = model.likelihood_.thresholds
    expected = 0.0
    for labels in (y[:20], y[20:]):

        def weighted(f, labels=labels):
            return np.prod(density(thresholds, labels, f)) * norm.pdf(f, 0.0, np.sqrt(2.0)) * 1e10

        expected += np.log(quad(weighted, -9, 9, epsrel=1e-12)[0]) - np.log(1e10)
    assert model.log_marginal_likelihood_value_ == pytest.approx(expected, rel=2e-3)

"""Smaller variances of the posterior whose bound is maximised: against dense algebra."""

import numpy as np
import pytest
from chunked_arrays import Arrays
from inside import ArrayDataset, GaussianObjectives, Options, arrays, exact, moments, tightened
from scipy.linalg import sqrtm
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from skgp_sparse import SparseGPRegressor, bounds, kernels
from skgp_sparse.posteriors import InducingPoints

KERNEL = ConstantKernel(1.5) * Matern([0.7, 1.1], nu=0.5) + WhiteKernel(0.05)
AT = np.random.RandomState(7).normal(size=(40, 2))
TIGHT = InducingPoints(tight_variance=True)


def table(n=80, noise=0.0, weight=None, spread=1.0):
    rng = np.random.RandomState(0)
    X = spread * rng.normal(size=(n, 2))
    y = np.sin(3 * X[:, :1]) + 0.1 * rng.normal(size=(n, 1))
    return ArrayDataset(X, y, noise, weight)


def objective_of(rows, bound, Z):
    return GaussianObjectives(bound).sparse(rows, Z, Options())


def posteriors(rows, bound=None, m=10, Z=None):
    """Without and with the smaller variances."""
    bound, Z = bound or bounds.TitsiasNew(), rows.X[:m] if Z is None else Z
    objective = objective_of(rows, bound, Z)
    plain = objective.conclude(KERNEL).posterior
    return plain, tightened(plain, rows.everything(), bound)


def dense(rows, Z, slopes):
    """Covariance at AT of ``p(f*|f, u) q(f|u) q(u)``, with the covariance F v Fᵀ of q(f|u).

    `slopes` gives v (n, n) from ``N^-½ R N^-½``.
    """
    X, noise = rows.X, 0.05 + rows.noise * np.ones(len(rows.X))
    K = kernels.evaluate(KERNEL, Z, Z)
    K += 1e-8 * np.mean(np.diag(K)) * np.eye(len(Z))
    both = np.vstack([X, AT])
    across = kernels.evaluate(KERNEL, both, Z)
    joint = kernels.evaluate(KERNEL, both, both) - across @ np.linalg.solve(K, across.T)
    R, b, rest = joint[: len(X), : len(X)], joint[len(X) :, : len(X)], joint[len(X) :, len(X) :]
    root = np.diag(np.sqrt(noise))
    residual = np.linalg.solve(root, np.linalg.solve(root, R).T)
    F = root @ sqrtm(residual).real
    A = np.linalg.solve(R, b.T).T  # b R⁻¹
    given_u = rest - A @ b.T + A @ F @ slopes(residual) @ F.T @ A.T
    precision = K + across[: len(X)].T @ np.diag(1.0 / noise) @ across[: len(X)]
    return given_u + across[len(X) :] @ np.linalg.solve(precision, across[len(X) :].T)


@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_the_covariance_is_that_of_dense_algebra(heteroscedastic):
    noise = np.random.RandomState(1).uniform(0.01, 0.5, size=80) if heteroscedastic else 0.0
    rows = table(noise=noise)
    Z = np.random.RandomState(2).normal(size=(10, 2))  # no rows, so that R can be inverted
    plain, tight = posteriors(rows, Z=Z)

    def slopes(residual):
        return np.diag(1.0 / (1.0 + np.diag(residual)))

    np.testing.assert_allclose(tight.covariance(AT), dense(rows, Z, slopes), atol=1e-8)
    usual = dense(rows, Z, lambda residual: np.eye(len(residual)))
    np.testing.assert_allclose(plain.covariance(AT), usual, atol=1e-8)
    mean, variance = tight.mean_and_variance(AT)
    np.testing.assert_array_equal(mean, plain.mean(AT))
    np.testing.assert_allclose(variance, np.diag(tight.covariance(AT)), atol=1e-12)


@pytest.mark.parametrize(
    "bound", [bounds.Titsias(), bounds.TitsiasNew(), bounds.Artemev()], ids=str
)
@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_its_divergence_from_the_exact_process_is_the_gap_of_the_bound(bound, heteroscedastic):
    noise = np.random.RandomState(1).uniform(0.01, 0.5, size=80) if heteroscedastic else 0.0
    rows, Z = table(noise=noise), np.random.RandomState(2).normal(size=(10, 2))
    _, tight = posteriors(rows, bound, Z=Z)
    groups = arrays.DistinctInputs.of(rows)
    gap = exact.value(KERNEL, groups)
    gap -= objective_of(rows, bound, Z).value(KERNEL)
    at = np.vstack([rows.X, Z])
    truth = exact.conclude(KERNEL, groups)[1]
    precision = np.linalg.inv(truth.covariance(at))
    covariance, shift = tight.covariance(at), (tight.mean(at) - truth.mean(at))[:, 0]
    log_dets = np.linalg.slogdet(precision)[1] + np.linalg.slogdet(covariance)[1]
    square = np.trace(precision @ covariance) + shift @ precision @ shift
    assert 0.5 * (square - len(at) - log_dets) == pytest.approx(gap, rel=1e-5)


def test_whole_weights_are_copies():
    weight = np.random.RandomState(3).randint(1, 4, size=80)
    one = table(weight=weight.astype(float))
    X, y = (np.repeat(part, weight, axis=0) for part in (one.X, one.y))
    tight = (posteriors(rows, Z=one.X[:10])[1] for rows in (one, ArrayDataset(X, y)))
    np.testing.assert_allclose(*(each.mean_and_variance(AT)[1] for each in tight), atol=1e-8)


@pytest.mark.parametrize("spread", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("m", [1, 10, 40])
def test_variances_are_positive_and_smaller_than_the_usual_ones(m, spread):
    rows = table(spread=spread)
    plain, tight = posteriors(rows, m=m)
    at = np.vstack([AT, rows.X])
    usual, variance = (one.mean_and_variance(at)[1] for one in (plain, tight))
    assert np.all(variance > 0) and np.all(variance <= usual)
    assert np.linalg.eigvalsh(tight.covariance(at)).min() > -1e-8
    assert variance.sum() < 0.999 * usual.sum()


def test_at_all_rows_it_is_the_exact_process():
    rows = table()
    _, tight = posteriors(rows, m=80)
    truth = exact.conclude(KERNEL, arrays.DistinctInputs.of(rows))[1]
    for found, wanted in zip(tight.mean_and_variance(AT), truth.mean_and_variance(AT)):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_at_an_inducing_point_nothing_is_left_to_be_smaller_and_both_are_below_the_exact_one():
    rows, Z = table(), np.random.RandomState(2).normal(size=(10, 2))
    plain, tight = posteriors(rows, Z=Z)
    truth = exact.conclude(KERNEL, arrays.DistinctInputs.of(rows))[1]
    usual, variance, wanted = (one.mean_and_variance(Z)[1] for one in (plain, tight, truth))
    np.testing.assert_allclose(variance, usual, atol=1e-6)
    assert np.all(usual < wanted)


def test_the_bound_of_titsias_has_the_usual_variances():
    plain, tight = posteriors(table(), bounds.Titsias())
    np.testing.assert_array_equal(tight.covariance(AT), plain.covariance(AT))


def smooth(n=300):
    X = np.random.RandomState(0).uniform(-2, 2, size=(n, 2))
    return X, np.sin(3 * X[:, 0]) + 0.1 * np.random.RandomState(1).normal(size=n)


GIVEN = {"kernel": KERNEL, "optimizer": None, "n_inducing": 15, "random_state": 0}


def test_as_an_option_of_the_regressor():
    X, y = smooth()
    plain = SparseGPRegressor(posterior="inducing", **GIVEN).fit(X, y)
    tight = SparseGPRegressor(posterior=TIGHT, **GIVEN).fit(X, y)
    mean, std = tight.predict(AT, return_std=True)
    np.testing.assert_array_equal(mean, plain.predict(AT))
    assert np.all(std <= plain.predict(AT, return_std=True)[1])
    assert tight.log_marginal_likelihood_value_ == plain.log_marginal_likelihood_value_
    assert tight.posterior_ == "inducing" and tight.n_inducing_ == 15
    draws = tight.sample_y(AT[:3], 3000)
    np.testing.assert_allclose(draws.std(axis=1), std[:3], rtol=0.1)


def test_many_samples_have_the_variances():
    _, tight = posteriors(table())
    X = np.random.RandomState(4).normal(size=(5000, 2))
    draws = tight.deviations(X, 200, np.random.RandomState(0))
    ratio = (draws**2).mean(axis=1) / tight.mean_and_variance(X)[1]
    assert abs(ratio.mean() - 1.0) < 0.02


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"bound": "fitc"}, "tight_variance=True.* needs the bound .* Got bound='fitc'"),
        ({"bound": "dtc"}, "needs the bound .* Got bound='dtc'"),
        ({"likelihood": "student_t"}, "needs likelihood='gaussian' .* Got likelihood='student_t'"),
        ({"posterior": InducingPoints(50, True)}, "n_mean=50 is a second .* Set n_mean to None"),
        ({"posterior": InducingPoints(None, 3)}, "'posterior__tight_variance' .* True or False"),
    ],
)
def test_what_is_not_defined_is_refused(parameters, message):
    X, y = smooth(50)
    with pytest.raises(ValueError, match=message):
        SparseGPRegressor(**({"posterior": TIGHT} | parameters)).fit(X, y)


def test_rows_that_are_not_in_memory_are_refused(monkeypatch):
    X, y = smooth()
    monkeypatch.setattr(moments, "_SMALL_TABLE", 0)
    with pytest.raises(ValueError, match="needs all rows in memory. Pass arrays"):
        SparseGPRegressor(posterior=TIGHT, **GIVEN).fit(Arrays(X, y))
    with pytest.raises(AttributeError) as caught:
        SparseGPRegressor(posterior=TIGHT).partial_fit(X, y)
    assert "tight_variance=True takes all rows at once" in str(caught.value.__cause__)

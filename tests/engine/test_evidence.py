"""Certificates: bounds of the exact evidence from both sides, against dense algebra."""

import pickle

import numpy as np
import pytest
from chunked_arrays import Arrays
from inside import (
    ArrayDataset,
    InducingBasis,
    Options,
    Problem,
    arrays,
    collapsed,
    exact,
    iterative,
)
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import SparseGPRegressor, bounds, kernels
from skgp_sparse.posteriors import Neighbors

KERNELS = [
    2.0 * sk.RBF(0.7) + sk.WhiteKernel(0.05),
    1.5 * sk.Matern([0.5, 1.0], nu=0.5) + sk.WhiteKernel(0.05),
    1.5 * sk.Matern([0.5, 1.0], nu=1.5) + sk.WhiteKernel(0.05),
    1.5 * sk.Matern(0.8, nu=2.5) + 0.3 * sk.RBF(2.0) + sk.WhiteKernel(0.05),
    sk.RationalQuadratic(1.0, 0.7) + sk.WhiteKernel(0.05),
    sk.DotProduct(1.0) ** 2 + sk.Matern(1.0, nu=1.5) + sk.WhiteKernel(0.05),
    sk.RationalQuadratic(2.0, 1.0) * sk.RBF(2.0) + sk.WhiteKernel(0.05),
]


def table(n=700, p=1, seed=0, weight=None, noise=0.0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(3 * X[:, :1]) + 0.1 * rng.normal(size=(n, p))
    return ArrayDataset(X, y, noise, weight)


def exact_evidence(kernel, rows):
    return exact.value(kernel, arrays.DistinctInputs.of(rows))


@pytest.fixture(autouse=True)
def few_leading_rows(monkeypatch):
    monkeypatch.setattr(iterative, "_LEADING", 100)


def found(kernel, rows, Z, tol=1e-6):
    """The upper bound, and the residual."""
    problem = Problem(kernel, InducingBasis(Z), rows, bounds.Titsias(), Options(n_jobs=2))
    upper, excess = iterative.upper_bound(problem, tol=tol, max_iter=500)
    return upper, tol * excess


def own(kernel, rows, Z, bound):
    return collapsed.value(Problem(kernel, InducingBasis(Z), rows, bound))


@pytest.mark.second(share=0.02, thin=1)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("heteroscedastic", [False, True])
def test_bounds_are_in_order(kernel, p, heteroscedastic):
    noise = np.random.RandomState(1).uniform(0.01, 0.5, size=700) if heteroscedastic else 0.0
    rows = table(p=p, noise=noise)
    Z = np.random.RandomState(2).normal(size=(40, 2))
    truth, (upper, residual) = exact_evidence(kernel, rows), found(kernel, rows, Z)
    lower = [own(kernel, rows, Z, bound) for bound in (bounds.Titsias(), bounds.TitsiasNew())]
    assert np.all(np.diff([*lower, truth, upper]) >= -1e-6 * abs(truth))
    assert residual <= 1e-6


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("weighted", [False, True])
def test_whole_weights_are_copies(weighted):
    kernel, n = KERNELS[2], 700
    weight = np.random.RandomState(3).randint(1, 4, size=n).astype(float) if weighted else None
    rows = table(n, weight=weight)
    Z = rows.X[:300]
    truth = exact_evidence(kernel, rows)
    assert truth <= found(kernel, rows, Z)[0]
    if not weighted:
        cov = kernels.evaluate(kernel, rows.X, rows.X) + 0.05 * np.eye(n)
        dense = multivariate_normal(np.zeros(n), cov).logpdf(rows.y[:, 0])
        assert truth == pytest.approx(dense, rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS[:4], ids=str)
def test_bounds_of_all_rows_as_inducing_points_are_exact(kernel):
    rows = table(300)
    truth = exact_evidence(kernel, rows)
    assert found(kernel, rows, rows.X)[0] == pytest.approx(truth, abs=1e-3 * abs(truth))


def test_bounds_hold_for_a_solve_that_did_not_end():
    kernel, rows = KERNELS[2], table()
    upper, residual = found(kernel, rows, rows.X[:20], tol=0.3)
    assert residual > 1e-3
    assert exact_evidence(kernel, rows) <= upper


def test_the_upper_bound_is_that_of_dense_algebra():
    noise = np.random.RandomState(1).uniform(0.01, 0.5, size=60)
    kernel, rows = KERNELS[2], table(60, noise=noise)
    Z, D = np.random.RandomState(2).normal(size=(8, 2)), noise + 0.05
    K, across = kernels.evaluate(kernel, rows.X, rows.X), kernels.evaluate(kernel, rows.X, Z)
    Q = across @ np.linalg.solve(kernels.evaluate(kernel, Z, Z) + 1.5e-8 * np.eye(8), across.T)
    square = np.vdot(rows.y, np.linalg.solve(K + np.diag(D), rows.y))
    dense = -0.5 * (60 * np.log(2 * np.pi) + np.linalg.slogdet(Q + np.diag(D))[1] + square)
    assert found(kernel, rows, Z, tol=1e-12)[0] == pytest.approx(dense, rel=1e-9)


def smooth(n=900):
    rows = table(n)
    return rows.X, np.sin(3 * rows.X[:, 0]) + 0.1 * np.random.RandomState(5).normal(size=n)


@pytest.mark.second
def test_of_an_estimator():
    X, y = smooth(400)
    model = SparseGPRegressor(n_inducing=30, random_state=0).fit(X, y)
    certificate = model.evidence_bounds()
    assert certificate.own == model.log_marginal_likelihood_value_
    assert certificate.own <= certificate.upper
    gap = certificate.upper - certificate.own
    assert certificate.gap_per_row == pytest.approx(gap / len(X))
    again = model.evidence_bounds(X, y)
    np.testing.assert_allclose(again, certificate, rtol=1e-6)
    few = model.evidence_bounds(X[:100], y[:100], sample_weight=np.ones(100))
    assert few.own <= few.upper
    coarse = clone(model).set_params(n_inducing=5).fit(X, y).evidence_bounds()
    assert certificate.gap_per_row < 0.1 * coarse.gap_per_row  # points close the gap


@pytest.mark.second
def test_of_the_exact_process():
    X, y = smooth(200)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    assert set(model.evidence_bounds()) == {model.log_marginal_likelihood_value_, 0.0}
    evidence = model.log_marginal_likelihood_value_
    assert model.evidence_bounds(X, y).upper == pytest.approx(evidence, rel=1e-3)


@pytest.mark.second
def test_of_all_rows():
    X, y = smooth()
    model = SparseGPRegressor(posterior="rows", n_inducing=100, random_state=0).fit(X, y)
    certificate = model.evidence_bounds()
    assert certificate.own <= certificate.upper


@pytest.mark.second
def test_what_is_no_lower_bound_is_not_called_one():
    X, y = smooth(500)
    model = SparseGPRegressor(n_inducing=30, bound="fitc", random_state=0).fit(X, y)
    assert model.evidence_bounds().own == -np.inf


@pytest.mark.second
def test_what_cannot_be_bounded_is_refused():
    X, y = smooth(100)
    with pytest.raises(NotFittedError):
        SparseGPRegressor().evidence_bounds()
    model = SparseGPRegressor(n_inducing=10, random_state=0).fit(X, y)
    for given in ({"X": X}, {"y": y}):
        with pytest.raises(ValueError, match="needs both X and y, or neither"):
            model.evidence_bounds(**given)
    several = clone(model).fit(X, np.column_stack([y, y**2]))
    with pytest.raises(ValueError, match="target"):
        several.evidence_bounds(X, y)
    with pytest.raises(ValueError, match="Pass X and y"):
        pickle.loads(pickle.dumps(model)).evidence_bounds()
    neighbors = SparseGPRegressor(posterior=Neighbors(20, 10), random_state=0).fit(X, y)
    for given in ((), (X, y)):
        with pytest.raises(ValueError, match="posterior_='neighbors'. Set posterior to 'exact'"):
            neighbors.evidence_bounds(*given)
    counts = SparseGPRegressor(likelihood="poisson", n_inducing=10, random_state=0)
    counts.fit(X, np.random.RandomState(0).poisson(2.0, size=len(X)))
    with pytest.raises(ValueError, match="needs likelihood='gaussian'"):
        counts.evidence_bounds()
    with pytest.raises(TypeError, match=r"X is a source of rows .* chunks one by one"):
        model.evidence_bounds(Arrays(X, y))


@pytest.mark.second
def test_a_solve_that_does_not_end_warns():
    X, y = smooth(600)
    kernel = sk.ConstantKernel(1.0) * sk.RBF(0.3) + sk.WhiteKernel(1e-4)
    model = SparseGPRegressor(kernel, n_inducing=10, optimizer=None, max_iter=2, random_state=0)
    X = np.tile(X, (4, 1)) + 1e-3 * np.random.RandomState(0).normal(size=(len(X) * 4, 2))
    model.fit(X, np.tile(y, 4))
    with pytest.warns(ConvergenceWarning, match=r"Raise max_iter \(now 2\)"):
        model.evidence_bounds()


@pytest.mark.second
def test_the_solve_reports_its_residual(capsys):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(400, 2))
    model = SparseGPRegressor(n_inducing=10, random_state=0).fit(X, np.sin(X[:, 0]))
    model.evidence_bounds()
    assert "residual" not in capsys.readouterr().out
    model.set_params(verbose=1).evidence_bounds()
    assert "[SparseGPRegressor] bounds, iteration 1: residual" in capsys.readouterr().out

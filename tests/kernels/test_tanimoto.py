"""The kernel of bits: values by sets, gradients, zeros, and estimators of fingerprints."""

import pickle

import numpy as np
import pytest
from conftest import differences
from kernel_cases import check_stack
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels
from skgp_sparse.kernels import Columns, Tanimoto
from skgp_sparse.testing import check_kernel_rule

RNG = np.random.RandomState(0)
BITS = (RNG.uniform(size=(60, 25)) < 0.2).astype(float)
BITS[7] = BITS[23] = 0.0
COUNTS = RNG.poisson(0.7, (60, 25)).astype(float)
SCALED = ConstantKernel(2.0) * Tanimoto() + WhiteKernel(0.1)
Y = np.tanh(BITS[:, :5].sum(axis=1) - BITS[:, 5:9].sum(axis=1)) + 0.05 * RNG.normal(size=60)


def test_values_are_shares_of_sets():
    sets = [set(np.flatnonzero(row)) for row in BITS]
    expected = [[len(a & b) / len(a | b) if a | b else 1.0 for b in sets] for a in sets]
    assert_allclose(Tanimoto()(BITS), expected, atol=1e-15)
    assert_allclose(Tanimoto()(BITS, BITS[:9]), np.array(expected)[:, :9], atol=1e-15)
    assert_array_equal(Tanimoto().diag(BITS), np.diagonal(expected))


@pytest.mark.parametrize("rows", [BITS, COUNTS, RNG.normal(size=(60, 25))])
def test_it_is_positive_definite(rows):
    _, first = np.unique(rows, axis=0, return_index=True)
    assert np.linalg.eigvalsh(Tanimoto()(rows[first])).min() > 1e-3


@pytest.mark.parametrize(
    "kernel",
    [
        Tanimoto(),
        SCALED,
        ConstantKernel(0.7) * Columns(Tanimoto(), [2, 0]) + RBF(0.8),
        (Tanimoto() + ConstantKernel(0.5)) ** 2,
    ],
    ids=str,
)
def test_rule(kernel):
    check_kernel_rule(kernel)
    check_kernel_rule(kernel, COUNTS[:, :6] + RNG.uniform(0.1, 0.9, (60, 6)))


def test_gradients_where_rows_are_zero():
    """Points next to a row of zeros have the slope of the formula; at two zeros it is 0."""
    G = RNG.normal(size=(60, 3))
    points = np.vstack([np.zeros(25), BITS[3], COUNTS[4] + 0.3])
    K, pull = kernels.linearize(Tanimoto(), BITS, points)
    _, bar = pull(G.copy())
    assert np.isfinite(K).all() and np.isfinite(bar).all()
    for j in (1, 2):
        value = lambda z, g=G[:, j]: g @ Tanimoto()(BITS, z[None])[:, 0]
        assert_allclose(bar[j], differences(value, points[j], 1e-6), atol=1e-7)


def test_many_point_sets_at_once():
    check_stack(Tanimoto(), COUNTS[:24].reshape(4, 6, 25))


@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors"])
def test_posteriors(posterior):
    model = SparseGPRegressor(SCALED, posterior=posterior, n_inducing=30, random_state=0)
    mean, std = model.fit(BITS, Y).predict(BITS, return_std=True)
    assert np.isfinite(std).all() and np.corrcoef(mean, Y)[0, 1] > 0.8
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(BITS), mean)


def test_exact_fits_are_those_of_sklearn():
    kernel = ConstantKernel(2.0) * Tanimoto() + WhiteKernel(0.1)
    ours = SparseGPRegressor(kernel, posterior="exact", normalize_y=False, random_state=0)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0).fit(BITS, Y)
    assert_allclose(ours.fit(BITS, Y).kernel_.theta, theirs.kernel_.theta, atol=1e-3)
    assert_allclose(ours.predict(COUNTS), theirs.predict(COUNTS), atol=1e-4)


def test_labels_and_clones():
    model = SparseGPClassifier(ConstantKernel() * Tanimoto(), n_inducing=30, random_state=0)
    assert clone(model).fit(BITS, Y > 0).score(BITS, Y > 0) > 0.8
    assert clone(Tanimoto()) == Tanimoto() and repr(Tanimoto()) == "Tanimoto()"
    assert Tanimoto().theta.shape == (0,) and not Tanimoto().is_stationary()


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float32])
def test_bits_may_have_any_type(kind):
    assert_allclose(Tanimoto()(BITS.astype(kind)), Tanimoto()(BITS), rtol=1e-6)


def test_what_needs_a_spectrum_is_refused():
    with pytest.raises(ValueError, match="Tanimoto"):
        SparseGPRegressor(SCALED, posterior="fourier").fit(BITS, Y)

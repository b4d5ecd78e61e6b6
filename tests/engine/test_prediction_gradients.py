"""Gradients of predictions with respect to the query, beside central differences."""

import numpy as np
import pytest
from conftest import row_differences
from kernel_cases import Opaque
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import SparseGPRegressor
from skgp_sparse.posteriors import FourierFeatures, InducingPoints, IterativeExact, Neighbors

RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, size=(60, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * RNG.normal(size=60)
AT = RNG.uniform(-2, 2, size=(7, 3))
STEP = 3e-4  # longer ones are less exact, shorter ones lose digits, the more so the less noise


def check(model, latent=False):
    mean, std, mean_slope, std_slope = model.predict(
        AT, return_std=True, latent=latent, return_gradient=True
    )
    known = model.predict(AT, return_std=True, latent=latent)
    assert_allclose(mean, known[0], rtol=1e-8)
    assert_allclose(std, known[1], rtol=1e-6)
    expected = row_differences(lambda at: model.predict(at, latent=latent), AT, STEP)
    assert_allclose(mean_slope, expected, atol=2e-5 * np.abs(expected).max())
    stds = lambda at: model.predict(at, return_std=True, latent=latent)[1]
    expected = row_differences(stds, AT, STEP)
    assert_allclose(std_slope, expected, atol=1e-4 * np.abs(expected).max())
    alone = model.predict(AT, latent=latent, return_gradient=True)
    for one, other in zip(alone, (mean, mean_slope)):
        assert_allclose(one, other)


@pytest.mark.parametrize(
    "kernel",
    [
        1.5 * sk.RBF([1.0, 2.0, 3.0]),
        2.0 * sk.Matern([1.0, 2.0, 3.0], nu=1.5) + 0.1 * sk.DotProduct(1.0),
        sk.RationalQuadratic(2.0, 0.7) + sk.ConstantKernel(0.5),
        sk.RBF(2.0) + sk.DotProduct(1.0) * sk.WhiteKernel(0.1),  # noise that varies
    ],
    ids=str,
)
@pytest.mark.parametrize("n_inducing", [9, 60])
def test_kernels(kernel, n_inducing):
    options = {"n_inducing": n_inducing, "optimizer": None, "random_state": 0}
    check(SparseGPRegressor(kernel + sk.WhiteKernel(0.05), **options).fit(X, Y))


@pytest.mark.second(share=0.49)
@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("posterior", ["exact", "inducing"])
def test_posteriors(posterior, latent):
    n_inducing = 15 if posterior == "inducing" else "auto"
    model = SparseGPRegressor(posterior=posterior, n_inducing=n_inducing, random_state=0)
    check(model.fit(X, 100.0 * Y + 7.0), latent)


def test_several_targets():
    options = {"random_state": 0, "max_iter": 20}
    check(SparseGPRegressor(**options).fit(X, np.column_stack([Y, 10.0 * X[:, 2] ** 2])))


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("metric", ["ard", "full"])
def test_neighbours_are_held(metric, latent):
    many = RNG.uniform(-3, 3, size=(150, 3))
    y = np.sin(many @ [1.0, 1.0, 0.0]) + 0.1 * RNG.normal(size=150)
    options = {"max_iter": 2, "metric": metric, "noise": "constant", "random_state": 0}
    near = SparseGPRegressor(posterior=Neighbors(n_neighbors=149), **options)  # nearly all
    near.fit(many, np.column_stack([y, y**2]))
    assert near.posterior_ == "neighbors"
    check(near, latent)
    few = SparseGPRegressor(posterior=Neighbors(n_neighbors=20), **options).fit(many, y)
    mean, slope = few.predict(AT, return_gradient=True)
    expected = row_differences(few.predict, AT, STEP)
    assert np.mean(np.abs(slope - expected) < 1e-3 * np.abs(expected).max()) > 0.8  # no jump


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_random_features(n_targets, latent):
    y = np.column_stack([Y, 10.0 * X[:, 2] ** 2])[:, :n_targets]
    model = SparseGPRegressor(posterior=FourierFeatures(50), max_iter=10, random_state=0)
    check(model.fit(X, y.squeeze()), latent)


@pytest.mark.parametrize("likelihood", ["poisson", "student_t"])
@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors"])
def test_latent_values(likelihood, posterior):
    options = {"posterior": posterior if posterior != "neighbors" else Neighbors(59)}
    options |= {"n_inducing": 15} if posterior == "inducing" else {}
    model = SparseGPRegressor(
        1.5 * sk.RBF([1.0, 2.0, 3.0]), likelihood=likelihood, optimizer=None, **options
    ).fit(X, np.round(np.exp(Y / 2)))
    check(model, latent=True)


def test_what_has_no_gradient():
    model = SparseGPRegressor(random_state=0, max_iter=2, n_inducing=5)
    fitted = model.fit(X, Y)
    with pytest.raises(ValueError, match="neither with return_cov"):
        fitted.predict(AT, return_cov=True, return_gradient=True)
    model.set_params(posterior=InducingPoints(n_mean=20))
    with pytest.raises(ValueError, match="Set n_mean to None"):
        model.fit(X, Y).predict(AT, return_gradient=True)
    with pytest.raises(ValueError, match="'rows'"):
        model.set_params(posterior=IterativeExact()).fit(X, Y).predict(AT, return_gradient=True)
    with pytest.raises(ValueError, match="derivative rules"):
        SparseGPRegressor(Opaque(), optimizer=None).fit(X, Y).predict(AT, return_gradient=True)
    counts = SparseGPRegressor(likelihood="poisson", max_iter=1, n_inducing=5)
    with pytest.raises(ValueError, match="Set latent to True"):
        counts.fit(X, np.ones(60)).predict(AT, return_gradient=True)

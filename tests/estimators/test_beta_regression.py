"""Numbers between 0 and 1 in `SparseGPRegressor`: values, refusals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from scipy.special import expit
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.likelihoods import Beta

RNG = np.random.RandomState(0)
X = RNG.uniform(-3.0, 3.0, (120, 2))
P = expit(1.5 * np.sin(2.0 * X[:, 0]) - 0.5)
Y = np.clip(RNG.beta(6.0 * P, 6.0 * (1.0 - P)), 1e-6, 1.0 - 1e-6)
KERNEL = ConstantKernel(0.8) * RBF([1.0, 2.0])
OWN = Beta(5.0, level=-0.3)


def model(likelihood="beta", **options):
    options = {"n_inducing": 15, "max_iter": 15, "random_state": 0} | options
    return SparseGPRegressor(likelihood=likelihood, **options)


def fixed(**options):
    """Exact, with the kernel and the likelihood as they are."""
    return model(OWN, optimizer=None, n_inducing=1000, tol=1e-12, **{"kernel": KERNEL} | options)


def log_density(f):
    """Of the first targets, by SciPy."""
    return stats.beta.logpdf(Y[:40], 5.0 * expit(f), 5.0 * expit(-f))


pytestmark = pytest.mark.filterwarnings("ignore:The optimizer stopped")


def test_the_evidence_is_that_of_quadrature():
    """The variational bound from the moments of a fit: sums over 2001 nodes, dense algebra."""
    fitted = fixed(bound="titsias").fit(X[:40], Y[:40])
    mean, cov = fitted.predict(X[:40], return_cov=True, latent=True)
    z = np.linspace(-9.0, 9.0, 2001)[:, None]
    weights = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    logs = log_density(mean + np.sqrt(np.diag(cov)) * z)
    K, m = KERNEL(X[:40]), mean - OWN.level
    solved = np.linalg.solve(K, np.column_stack([cov, m]))
    logdet = np.linalg.slogdet(K)[1] - np.linalg.slogdet(cov)[1]
    divergence = 0.5 * (np.trace(solved[:, :-1]) + m @ solved[:, -1] - len(K) + logdet)
    expected = np.sum(weights * logs) - divergence
    assert abs(fitted.log_marginal_likelihood_value_ - expected) < 1e-6


def test_one_latent_value_has_the_evidence_of_an_integral():
    fitted = fixed(kernel=ConstantKernel(0.5, "fixed"), bound="titsias").fit(X[:40], Y[:40])
    f = np.linspace(-3.0, 3.0, 4001)
    logs = log_density(f[:, None] + OWN.level).sum(axis=1)
    exact = np.log(np.trapezoid(np.exp(logs - logs.max()) * stats.norm.pdf(f, 0, 0.5**0.5), f))
    gap = exact + logs.max() - fitted.log_marginal_likelihood_value_
    assert -1e-6 < gap < 0.02


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors", "fourier"])
def test_every_posterior_and_pickles(posterior):
    options = {} if posterior == "inducing" else {"n_inducing": "auto"}
    fitted = model(posterior=posterior, max_iter=5, **options).fit(X, Y)
    assert fitted.score(X, Y) > 0.3
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict_quantiles(X), fitted.predict_quantiles(X))


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("kernel", [None, KERNEL], ids=["default", "own"])
@pytest.mark.parametrize("mean", [RandomForestRegressor(20), "boosting", "linear"], ids=str)
def test_a_mean_of_another_model_is_on_the_link_scale(mean, kernel):
    assert model(mean=mean, kernel=kernel, max_iter=3).fit(X, Y).score(X, Y) > 0.2


@pytest.mark.parametrize(
    "likelihood, y, sentence",
    [
        ("beta", np.append(Y[:-1], 1.0), "numbers 0 < y < 1.*Smithson"),
        ("beta", np.column_stack([P, P]), "takes one target"),
        (Beta(-1.0), Y, "likelihood__precision"),
    ],
)
def test_refused(likelihood, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        model(likelihood, max_iter=2).fit(X, y)


@pytest.mark.parametrize("bound", ["gfitc-ep", "pep"])
def test_beta_has_no_expectation_propagation(bound):
    with pytest.raises(ValueError, match="log-concave.*titsias_new"):
        model(bound=bound).fit(X, Y)

"""Sites where variances are large: turns of means and precisions."""

import warnings

import numpy as np
import pytest
from conftest import DATA, differences
from inside import site_loop
from scipy.special import log_ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

KERNEL = ConstantKernel(1.0, (1e-5, 1e5)) * RBF(1.0, (1e-5, 1e5))
CORNERS = [[5.0, 0.0], [8.0, 1.0], [11.0, 0.0], [11.0, -2.0], [11.0, 2.0]]


def pima():
    """300 rows of the Pima Indians diabetes data, standardised."""
    table = np.loadtxt(DATA / "pima_300.csv", delimiter=",")
    X = table[:, :-1]
    return (X - X.mean(axis=0)) / X.std(axis=0), table[:, -1]


def toy(n=60):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)


def model(name, **parameters):
    """A model of the toy rows with a likelihood, whose hyperparameters are given."""
    X, f = toy()
    parameters = {"kernel": KERNEL, "optimizer": None} | parameters
    if name == "poisson":
        y = np.random.RandomState(1).poisson(np.exp(f))
        return SparseGPRegressor(likelihood=name, **parameters).fit(X, y)
    if name == "softmax":
        y = np.digitize(f, [-0.5, 0.5])
        return SparseGPClassifier(multi_class=name, **parameters).fit(X, y)
    return SparseGPClassifier(likelihood=name, **parameters).fit(X, f > 0.0)


def evaluated(fitted, theta):
    """The `Solution` of the inner loop of a user's evaluation."""
    objective = fitted._fitted.fits[0].objective
    return objective.infer(fitted.kernel_.clone_with_theta(theta))[1]


@pytest.mark.second(share=0.45)
@pytest.mark.parametrize("theta, value", [(5.0, -238.952), (8.0, -297.296), (11.0, -346.973)])
def test_pima_at_large_variances(theta, value):
    X, y = pima()
    fitted = SparseGPClassifier(KERNEL, likelihood="probit", optimizer=None).fit(X, y)
    solution = evaluated(fitted, [theta, 0.0])
    assert solution.step.value == pytest.approx(value, abs=6e-4)
    assert solution.converged and solution.n_iter <= 40


@pytest.mark.second(share=0.47)
@pytest.mark.parametrize("theta", CORNERS, ids=str)
def test_the_value_is_that_of_dense_algebra_where_it_is_stationary(theta):
    fitted = model("probit")
    X, y = toy()
    order = np.lexsort(X.T)
    rows = fitted._fitted.fits[0].objective.rows.everything()
    assert len(order) == len(rows.X)
    solution = evaluated(fitted, theta)
    linear, precision = np.asarray(solution.state)[:, 0]
    K = fitted.kernel_.clone_with_theta(theta)(rows.X)
    root = np.sqrt(precision)
    B = np.eye(len(K)) + root[:, None] * K * root
    S = (np.eye(len(K)) - np.linalg.inv(B)) / np.outer(root, root)
    mean, s = S @ linear, np.diag(S)
    nodes = np.linspace(-9.0, 9.0, 20001)
    weights = np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum()
    t = rows.y[:, :1] * (mean[:, None] + np.sqrt(s)[:, None] * nodes)
    ratio = np.exp(-0.5 * t**2 - log_ndtr(t)) / np.sqrt(2.0 * np.pi)
    slope, curvature = rows.y[:, 0] * (ratio @ weights), (ratio * (t + ratio)) @ weights
    alpha = linear - precision * mean
    divergence = np.trace(np.linalg.inv(B)) - len(K) + mean @ alpha + np.linalg.slogdet(B)[1]
    value = (log_ndtr(t) @ weights).sum() - 0.5 * divergence
    assert solution.step.value == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(alpha, slope, atol=1e-5 * np.abs(slope).max())
    np.testing.assert_allclose(precision, curvature, rtol=1e-3, atol=1e-6 * curvature.max())


@pytest.mark.second(share=0.42)
@pytest.mark.parametrize("theta", CORNERS, ids=str)
@pytest.mark.parametrize("name", ["probit", "logit", "poisson"])
def test_the_loop_converges_in_every_corner(name, theta):
    solution = evaluated(model(name), theta)
    assert solution.converged and solution.n_iter <= 40


WITHOUT_JACOBIAN = [
    *((name, theta) for name in ("probit", "logit") for theta in CORNERS),
    *(("poisson", theta) for theta in ([5.0, 0.0], [8.0, 1.0], [11.0, 2.0])),
]


@pytest.mark.second(share=0.2)
@pytest.mark.parametrize("name, theta", WITHOUT_JACOBIAN, ids=str)
def test_without_a_jacobian_turns_lead_to_the_same_value(name, theta, monkeypatch):
    expected = evaluated(model(name), theta)
    monkeypatch.setattr(site_loop, "FEW_ROWS", 0)
    solution = evaluated(model(name), theta)
    assert solution.converged and expected.converged
    assert solution.step.value == pytest.approx(expected.step.value, rel=1e-9)


@pytest.mark.second
def test_turns_of_several_latent_values_climb_where_the_plain_map_oscillates(monkeypatch):
    turned = evaluated(model("softmax"), [5.0, 0.0])
    assert turned.converged
    monkeypatch.setattr(site_loop.SiteLoop, "takes_turns", False)
    assert evaluated(model("softmax"), [5.0, 0.0]).step.value <= turned.step.value + 1e-9


def test_neither_the_start_nor_the_order_matters():
    fitted = model("probit")
    grid = [[a, b] for a in np.linspace(0.0, 11.0, 4) for b in np.linspace(-2.0, 2.0, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        values = [fitted.log_marginal_likelihood(theta) for theta in grid]
        backwards = [fitted.log_marginal_likelihood(theta) for theta in grid[::-1]]
    np.testing.assert_allclose(values, backwards[::-1], rtol=1e-10)


@pytest.mark.parametrize("name", ["probit", "poisson"])
def test_gradients_at_large_variances_are_central_differences(name):
    fitted, theta = model(name), np.array([9.0, 0.3])
    gradient = fitted.log_marginal_likelihood(theta, eval_gradient=True)[1]
    slopes = differences(fitted.log_marginal_likelihood, theta, 1e-4)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5)


def test_weights_and_white_noise():
    X, f = toy()
    weight = np.where(np.arange(len(f)) % 3 == 0, 0.0, 1.0)
    kernel = KERNEL + WhiteKernel(0.5)
    both = [
        SparseGPClassifier(kernel, likelihood="probit", optimizer=None).fit(X, f > 0, weight),
        SparseGPClassifier(kernel, likelihood="probit", optimizer=None).fit(
            X[weight > 0], f[weight > 0] > 0
        ),
    ]
    values = [one.log_marginal_likelihood([9.0, 0.0, 0.0]) for one in both]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_evaluations_that_do_not_converge_warn():
    fitted = model("probit", bound="gfitc-ep", max_iter_predict=3)
    with pytest.warns(ConvergenceWarning, match="sites did not converge in 3 inner iterations"):
        fitted.log_marginal_likelihood([11.0, 0.0])


def test_means_climb_to_the_maximum_at_fixed_variances():
    fitted = model("poisson")
    objective = fitted._fitted.fits[0].objective
    loop = objective.infer(fitted.kernel_)[0]
    turns = site_loop.AlternatingUpdates(loop)
    precision = np.full((1, 60), 2.0)
    _, mean, variance, _ = turns._posterior(np.full((1, 60), 3.0), precision)
    start = turns._means(mean, 3.0 - precision * mean, variance)
    best = turns._best_means(start, variance, precision)
    assert best.value > start.value
    share = turns._gap_of_means(best, variance) / turns._gap_of_precisions(
        best, variance, precision
    )
    assert share <= 1e-3

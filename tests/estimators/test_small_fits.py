"""Small exact fits: they end where `GaussianProcessRegressor` ends, or higher."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes, load_linnerud
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import SparseGPRegressor


def diabetes(n=100):
    """Rows in which some columns say little: plateaus of the evidence."""
    X, y = load_diabetes(return_X_y=True)
    return X[:n] / X[:n].std(axis=0), y[:n]


def exercise():
    """Twenty rows."""
    X, Y = load_linnerud(return_X_y=True)
    return X / X.std(axis=0), Y[:, 1]


def waves():
    """One column, with a period."""
    X = np.linspace(0, 10, 60)[:, None]
    return X, np.sin(2 * X[:, 0]) + 0.2 * np.random.RandomState(0).normal(size=60)


def noisy(signal):
    return sk.ConstantKernel() * signal + sk.WhiteKernel()


ONE = np.ones(10)
CASES = {
    "rbf": (noisy(sk.RBF()), diabetes),
    "matern": (noisy(sk.Matern(nu=1.5)), diabetes),
    "rbf_of_columns": (noisy(sk.RBF(ONE)), diabetes),
    "matern_of_columns": (noisy(sk.Matern(ONE, nu=2.5)), diabetes),
    "rational_quadratic": (noisy(sk.RationalQuadratic()), diabetes),
    "sum_with_line": (sk.DotProduct() + noisy(sk.RBF(ONE)), diabetes),
    "few_rows": (noisy(sk.Matern(np.ones(3), nu=2.5)), exercise),
    "period": (noisy(sk.ExpSineSquared(periodicity=3.0)), waves),
}


def left_to_gain(kernel, fitted, X, y):
    """What scikit-learn's objective gains from a fitted kernel on."""
    gpr = GaussianProcessRegressor(kernel, normalize_y=True, optimizer=None).fit(X, y)

    def negative(theta):
        value, gradient = gpr.log_marginal_likelihood(theta, eval_gradient=True)
        return -value, -gradient

    options = {"ftol": 1e-13, "gtol": 1e-6}
    end = minimize(negative, fitted.theta, jac=True, bounds=kernel.bounds, options=options)
    return negative(fitted.theta)[0] - end.fun


@pytest.mark.second(share=0.3)
@pytest.mark.parametrize("case", CASES)
def test_a_small_fit_ends_at_an_optimum(case):
    kernel, rows = CASES[case]
    X, y = rows()
    model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
    assert left_to_gain(kernel, model.kernel_, X, y) < 0.01
    gpr = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    assert model.log_marginal_likelihood_value_ > gpr.log_marginal_likelihood_value_ - 0.01


def test_a_number_ends_a_small_fit_as_any_other():
    kernel, rows = CASES["sum_with_line"]
    X, y = rows()
    rough = SparseGPRegressor(kernel, tol=1e-3, random_state=0).fit(X, y)
    fine = SparseGPRegressor(kernel, random_state=0).fit(X, y)
    assert rough.n_iter_ < fine.n_iter_
    assert rough.log_marginal_likelihood_value_ < fine.log_marginal_likelihood_value_ - 0.01


def test_auto_is_a_thousandth_where_evaluations_are_not_cheap():
    X, y = diabetes()
    fits = [
        SparseGPRegressor(n_inducing=10, tol=tol, max_iter=20, random_state=0).fit(X, y)
        for tol in ("auto", 1e-3)
    ]
    np.testing.assert_array_equal(*[fit.kernel_.theta for fit in fits])


def test_every_restart_ends_at_an_optimum():
    X, y = diabetes(60)
    kernel = noisy(sk.RBF(ONE))
    model = SparseGPRegressor(kernel, n_restarts_optimizer=2, random_state=1).fit(X, y)
    assert left_to_gain(kernel, model.kernel_, X, y) < 0.01


@pytest.mark.parametrize("tol", ["none", -1.0, None])
def test_other_tolerances_are_refused(tol):
    with pytest.raises(ValueError, match="'tol' parameter .* must be"):
        SparseGPRegressor(tol=tol).fit([[0.0], [1.0]], [0.0, 1.0])


# -- appended noise ---------------------------------------------------------------------


def parabola():
    """The rows of scikit-learn's example of priors and posteriors, without noise."""
    X = np.random.RandomState(4).uniform(0, 5, 10)[:, None]
    return X, np.sin((X[:, 0] - 2.5) ** 2)


@pytest.mark.parametrize(
    "kernel",
    [1.0 * sk.RBF(1.0, (0.1, 10.0)), 1.0 * sk.ExpSineSquared(1.0, 3.0, (0.1, 10.0), (1.0, 10.0))],
    ids=["rbf", "periodic"],
)
def test_rows_without_noise_are_interpolated(kernel):
    X, y = parabola()
    model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
    gpr = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    np.testing.assert_allclose(
        model.log_marginal_likelihood_value_, gpr.log_marginal_likelihood_value_, atol=0.01
    )
    np.testing.assert_allclose(model.kernel_.theta[:-1], gpr.kernel_.theta, atol=0.01)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-4)


def test_a_number_as_tolerance_has_the_usual_bounds():
    X, y = parabola()
    model = SparseGPRegressor(sk.RBF(1.0, (0.1, 10.0)), tol=1e-6, random_state=0).fit(X, y)
    assert model.kernel_.k2.noise_level_bounds[0] == pytest.approx(1e-6)


def test_noise_that_the_user_gives_keeps_its_bounds():
    X, y = parabola()
    noise = sk.WhiteKernel(0.1, (1e-3, 1.0))
    model = SparseGPRegressor(sk.RBF() + noise, random_state=0).fit(X, y)
    assert model.kernel_.k2.noise_level_bounds == (1e-3, 1.0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_steep_start_ends_where_a_gentle_one_does(seed):
    rng = np.random.RandomState(seed)
    X = 10 * rng.uniform(size=(100, 2))
    y = 5 + 3 * np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=100)
    gentle, steep = (
        SparseGPRegressor(1.0 * sk.RBF(one), alpha=1e-10).fit(X, y) for one in (1.0, 2.0)
    )
    values = [model.log_marginal_likelihood_value_ for model in (gentle, steep)]
    np.testing.assert_allclose(*values, atol=0.01)
    assert steep.n_iter_ < 20


@pytest.mark.parametrize("max_iter", [3, 10])
def test_the_limit_that_is_told_is_that_of_the_fit(max_iter):
    X, y = diabetes(60)
    told = rf"the limit of iterations was reached\). Raise max_iter \(now {max_iter}\)"
    with pytest.warns(ConvergenceWarning, match=told) as got:
        model = SparseGPRegressor(max_iter=max_iter, noise="constant").fit(X, y)
    assert model.n_iter_ == max_iter and len(got) == 1

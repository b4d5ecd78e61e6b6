"""The posterior given all rows: products, solves, predictions against dense algebra."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from inside import (
    ArrayDataset,
    IterativePosterior,
    NeighborsPosterior,
    distinct_rows,
    methods_exact,
    preconditioner,
    products,
    solve,
)
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgp_sparse import SparseGPRegressor, kernels
from skgp_sparse.bounds import PEP
from skgp_sparse.exceptions import ConstantFitWarning
from skgp_sparse.posteriors import IterativeExact
from skgp_sparse.solvers import Stochastic

KERNELS = [
    2.0 * sk.RBF(0.7) + sk.WhiteKernel(0.1),
    1.5 * sk.Matern([0.5, 1.0, 2.0], nu=0.5),
    1.5 * sk.Matern([0.5, 1.0, 2.0], nu=1.5),
    1.5 * sk.Matern(0.8, nu=2.5) + 0.3 * sk.RBF(2.0),
    sk.RationalQuadratic(1.0, 0.7) + sk.ConstantKernel(0.2),
    sk.DotProduct(1.0) ** 2 + sk.Matern(1.0, nu=1.5),
    sk.RationalQuadratic(2.0, 1.0) * sk.RBF(2.0),
]
SINGLE = [KERNELS[index] for index in (0, 1, 2, 3)]


@pytest.fixture(autouse=True)
def few_rows_tell_hyperparameters(monkeypatch):
    monkeypatch.setattr("skgp_sparse.methods.exact._ROWS_OF_THETA", (300, 500))


def table(n=900, d=3, p=1, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, :1]) * np.cos(X[:, 1:2]) + 0.05 * rng.normal(size=(n, p))
    return X, y


def regressor(kernel=None, n_inducing=100, **options):
    options = {"posterior": "rows", "random_state": 0} | options
    return SparseGPRegressor(kernel, n_inducing=n_inducing, **options)


def smooth(n, seed=0):
    """A table of little noise, and targets of one column."""
    X, y = table(n, seed=seed)
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.01 * (y[:, 0] - y.mean())


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_products_are_those_of_the_matrix(kernel, n_jobs):
    X, _ = table(1700)
    V = np.random.RandomState(1).normal(size=(len(X), 2))
    noise = np.random.RandomState(2).uniform(1e-3, 1e-1, size=len(X))
    K = kernels.evaluate(kernel, X, X) + np.diag(noise)
    multiply, _ = products(kernel, X, noise, n_jobs)
    np.testing.assert_allclose(multiply(V), K @ V, rtol=1e-10, atol=1e-9)


def test_products_do_not_depend_on_threads():
    X, y = table(2500)
    both = zip(*(products(KERNELS[3], X, np.full(len(X), 0.1), n_jobs) for n_jobs in (1, 4)))
    for one, four in both:
        assert np.array_equal(one(y), four(y))


@pytest.mark.parametrize("kernel", SINGLE, ids=str)
def test_rough_products_have_the_digits_of_single_precision(kernel):
    X, y = table(1700)
    multiply, rough = products(kernel, X, np.full(len(X), 0.1), 2)
    exact = multiply(y)
    np.testing.assert_allclose(rough(y), exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize(
    "kernel, noise, spread",
    [
        *((kernel, 0.1, 1.0) for kernel in KERNELS[4:]),
        (KERNELS[0], 1e-6, 1.0),
        (SINGLE[0], 0.1, 1e3),
    ],
    ids=str,
)
def test_some_kernels_noises_and_rows_have_exact_products_only(kernel, noise, spread):
    X = spread * table(50)[0]
    assert products(kernel, X, np.full(len(X), noise), 1)[1] is None


@pytest.mark.second(share=0.02, thin=1)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("is_rough", [False, True])
@pytest.mark.parametrize("p", [1, 3])
def test_solutions_have_the_residual_that_is_asked_for(kernel, is_rough, p):
    X, y = table(300, p=p)
    noise = np.random.RandomState(2).uniform(1e-3, 1e-1, size=len(X))
    multiply, rough = products(kernel, X, noise, 2)
    if is_rough and rough is None:
        pytest.skip("no tiles in single precision")
    near, _ = preconditioner(kernel, X, noise, np.arange(40), 2)
    options = dict(tol=1e-4, max_iter=500, rough=rough if is_rough else None)
    found = solve(multiply, near, y, **options)
    K = kernels.evaluate(kernel, X, X) + np.diag(noise)
    residual = np.linalg.norm(y - K @ found.x, axis=0) / np.linalg.norm(y, axis=0)
    assert residual.max() <= 1.001e-4
    np.testing.assert_allclose(1e-4 * found.excess, residual.max(), rtol=1e-4)
    np.testing.assert_allclose(y - K @ found.x, found.residual, atol=1e-8)


def test_a_solution_of_nothing_is_nothing():
    y = np.zeros((30, 2))
    found = solve(lambda V: V, lambda V: V, y, tol=1e-2, max_iter=10)
    assert found.n_iter == 0 and not found.x.any()


def test_a_column_that_is_solved_waits_for_the_others():
    rng = np.random.RandomState(0)
    A = np.diag(rng.uniform(1, 50, size=40))
    Y = np.column_stack([np.eye(40)[0], rng.normal(size=40), np.zeros(40)])
    found = solve(lambda V: A @ V, lambda V: V, Y, tol=1e-10, max_iter=100)
    np.testing.assert_allclose(found.x, np.linalg.solve(A, Y), atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_the_preconditioner_is_the_inverse_of_its_matrix(scale):
    X, y = table(p=2)
    kernel, noise = KERNELS[2], scale * np.random.RandomState(2).uniform(1e-3, 1e-1, size=len(X))
    core = kernels.evaluate(kernel, X[:60], X[:60]) + np.diag(noise[:60])
    precondition, jitter = preconditioner(kernel, X, noise, np.arange(60), 2)
    across = kernels.evaluate(kernel, X, X[:60])
    Q = across @ np.linalg.solve(core, across.T)
    P = Q + np.diag(noise + kernels.diagonal(kernel, X)[0] - np.diag(Q))
    exact = np.linalg.solve(P, y)
    assert np.linalg.norm(precondition(y) - exact) < 1e-7 * np.linalg.norm(exact) and jitter == 0.0


def test_every_column_has_a_residual_of_its_own():
    X, y = table(p=2)
    K = kernels.evaluate(KERNELS[0], X, X) + 0.01 * np.eye(len(X))
    tol = np.array([1e-6, 0.1])
    found = solve(lambda V: K @ V, lambda V: V, y, tol=tol, max_iter=500)
    relative = np.linalg.norm(y - K @ found.x, axis=0) / np.linalg.norm(y, axis=0)
    assert np.all(relative <= tol) and relative[1] > 1e-3 and found.excess <= 1.0


STACKED = [
    *KERNELS,
    sk.ExpSineSquared(1.0, 2.0) * sk.RBF(1.0),
    sk.Matern(1.0, nu=0.5) ** 2,
    sk.WhiteKernel(),
]


@pytest.mark.parametrize("kernel", STACKED, ids=str)
def test_stacks_of_matrices_are_those_of_each_set(kernel):
    P = np.random.RandomState(0).normal(size=(4, 30, 3))
    P[1] += 1e6  # far from the others, and close to one another
    P[2, 3:6] = P[2, 3]  # repeated
    P[3, 7:] += 1e3
    found = kernels.linearize_stack(kernel, P)[0]
    for points, K in zip(P, found):
        np.testing.assert_allclose(K, kernels.evaluate(kernel, points, points), atol=2e-8)


def dense(kernel, X, y, noise, Xt):
    """Exact mean and latent covariance."""
    K = kernels.evaluate(kernel, X, X) + np.diag(noise)
    across = kernels.evaluate(kernel, Xt, X)
    mean = across @ np.linalg.solve(K, y)
    return mean, kernels.evaluate(kernel, Xt, Xt) - across @ np.linalg.solve(K, across.T)


def posterior(kernel, X, y, noise, k=150):
    K = kernels.evaluate(kernel, X, X) + np.diag(noise)
    known = distinct_rows(X, ArrayDataset(X, y).everything())
    known = known._replace(noise=noise - kernels.diagonal(kernel, X)[1])
    near = NeighborsPosterior.of(kernel, known, k)
    return IterativePosterior(near, np.linalg.solve(K, y))


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_predictions_of_few_rows_are_exact(kernel):
    # the nearest rows are all there are
    X, y = table(140, p=2)
    noise = np.random.RandomState(2).uniform(1e-2, 1e-1, size=len(X))
    Xt = np.random.RandomState(4).normal(size=(70, 3))
    found = posterior(kernel, X, y, noise)
    mean, covariance = dense(kernel, X, y, noise, Xt)
    found_mean, variance = found.mean_and_variance(Xt)
    np.testing.assert_allclose(found_mean, mean, atol=1e-8)
    np.testing.assert_allclose(variance, np.diag(covariance), atol=1e-7)


@pytest.mark.second(share=0.05)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_variances_are_never_less_than_exact_ones(kernel):
    X, y = table(800)
    noise = np.full(len(X), 1e-2)
    Xt = np.random.RandomState(4).normal(size=(70, 3))
    found = posterior(kernel, X, y, noise)
    exact = np.diag(dense(kernel, X, y, noise, Xt)[1])
    variance = found.mean_and_variance(Xt)[1]
    assert np.all(variance >= exact - 1e-8)
    assert np.median(variance / exact) < 1.5


def test_covariances_have_the_variances_on_their_diagonal():
    X, y = table(800)
    found = posterior(KERNELS[2], X, y, np.full(len(X), 1e-2))
    Xt = np.random.RandomState(4).normal(size=(60, 3))
    covariance = found.covariance(Xt)
    exact = dense(KERNELS[2], X, y, np.full(len(X), 1e-2), Xt)[1]
    np.testing.assert_allclose(np.diag(covariance), found.mean_and_variance(Xt)[1], rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10
    np.testing.assert_allclose(covariance, exact, atol=0.03)


@pytest.mark.second
def test_samples_have_the_predicted_moments():
    X, y = smooth(700)
    model = regressor().fit(X, y)
    Xt = X[:8] + 0.1
    mean, std = model.predict(Xt, return_std=True)
    draws = model.sample_y(Xt, 4000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=4 * std.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.06)
    many = np.tile(Xt, (600, 1))
    np.testing.assert_allclose(
        model.sample_y(many, 3, random_state=1).reshape(600, 8, 3).std(axis=(0, 2)), std, rtol=0.08
    )


@pytest.mark.second
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_is_given_every_row(weighted):
    # those that were left out for the calibration, too
    X, y = table(600, p=2)
    weight = np.random.RandomState(3).uniform(0.2, 3.0, size=len(X)) if weighted else None
    kernel = sk.ConstantKernel(2.0) * sk.Matern(1.0, nu=2.5) + sk.WhiteKernel(1e-2)
    model = regressor(kernel, 150, optimizer=None, tol=1e-8, normalize_y=False)
    model.fit(X, y, sample_weight=weight)
    noise = np.full(len(X), 1e-2) / (1.0 if weight is None else weight)
    Xt = np.random.RandomState(4).normal(size=(70, 3))
    np.testing.assert_allclose(model.predict(Xt), dense(kernel.k1, X, y, noise, Xt)[0], atol=1e-5)


def held_out(rows, kernel, chosen):
    """Errors and variances that a factor is made of, where everything is near everything."""
    known, seen = distinct_rows(rows.X, rows.everything()), []
    near = NeighborsPosterior.of(kernel, known, len(known.X))
    block = rows.block(chosen)
    rest = methods_exact._without(near, block, known.of(chosen), rows.merged)
    K = kernels.evaluate(kernel, known.X, known.X) + np.diag(rest.noise)
    found = IterativePosterior(rest, np.linalg.solve(K, rest.rows.y))

    def look(errors, variance, *others):
        seen.append((errors[:, 0], variance))
        return 1.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods_exact.contract, "variance_factor", look)
        methods_exact._factor(found, block, 1)
    return seen[0]


@pytest.mark.parametrize("merged", [False, True])
def test_of_repeated_rows_one_copy_is_held_out(merged):
    # as a row to predict has copies in the table; rows with weights are held out as a whole
    X, y = table(60, d=2)
    weight = np.where(np.arange(len(X)) % 3 == 0, 4.0, 1.0)
    kernel, rows = 2.0 * sk.Matern(1.0) + sk.WhiteKernel(1e-2), ArrayDataset(X, y, 0.0, weight)
    chosen = np.arange(6)
    errors, variance = held_out(replace(rows, merged=merged), kernel, chosen)
    rest = weight - np.isin(np.arange(len(X)), chosen) * (1.0 if merged else weight)
    used = rest > 0
    mean, covariance = dense(kernel, X[used], y[used], 1e-2 / rest[used], X[chosen])
    np.testing.assert_allclose(errors, (y[chosen, 0] - mean[:, 0]) ** 2, rtol=1e-4)
    np.testing.assert_allclose(variance, np.diag(covariance) + 1e-2, rtol=1e-4)


def covered(model, Xt, yt):
    """Share of the targets in central intervals of 95 %."""
    mean, std = model.predict(Xt, return_std=True)
    return np.mean(np.abs(yt - mean) < 1.96 * std)


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0, "decay"])
def test_intervals_of_weighted_rows_contain_what_they_promise(weight):
    n, shares = 1000, []
    weight = np.exp(-np.arange(n) / 200) if weight == "decay" else np.full(n, weight)
    for seed in range(3):  # the factor of one table comes from 200 rows
        X, y = smooth(1500, seed)
        y = y + 0.1 * np.random.RandomState(seed + 1).normal(size=len(y))
        model = regressor(n_inducing=150).fit(X[:n], y[:n], sample_weight=weight)
        shares.append(covered(model, X[n:], y[n:]))
    assert 0.92 < np.mean(shares) < 0.98


@pytest.mark.second
@pytest.mark.parametrize("by_whom", ["user", "max_iter"])
def test_a_fit_that_ends_early_has_wide_enough_variances(by_whom, monkeypatch):
    def stopping(*args, report, **options):
        return solve(*args, report=lambda n_iter, residual: n_iter >= 2, **options)

    X, y = smooth(3000)
    y = y + 0.02 * np.random.RandomState(1).normal(size=len(y))
    model = regressor(tol=1e-5)
    if by_whom == "user":
        monkeypatch.setattr("skgp_sparse.methods.exact.solve", stopping)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # but two iterations may explain nothing yet
            warnings.simplefilter("ignore", ConstantFitWarning)
            model.fit(X[:2000], y[:2000])
    else:
        kernel = sk.ConstantKernel(1.0) * sk.RBF([1.0, 1.0, 10.0]) + sk.WhiteKernel(1e-3)
        model.set_params(kernel=kernel, optimizer=None, max_iter=2)
        with pytest.warns(ConvergenceWarning, match="ended after 2 products"):
            model.fit(X[:2000], y[:2000])
    assert covered(model, X[2000:], y[2000:]) > 0.9


@pytest.mark.second
@pytest.mark.parametrize("noise, goal", [(1e-2, 1e-2), (1e-6, 2.1e-3)])
def test_quiet_rows_are_solved_more_exactly(noise, goal):
    X, y = smooth(1500)
    kernel = sk.ConstantKernel(1.0) * sk.Matern(1.0, nu=1.5) + sk.WhiteKernel(noise)
    model = regressor(kernel, 1000, optimizer=None, normalize_y=False).fit(X, y / y.std())
    found = model._fitted.fits[0].posterior
    known = found.posterior.rows
    K = kernels.evaluate(kernel, known.X, known.X) + np.diag(known.variances(kernel))
    target = (y / y.std())[np.lexsort(X.T[::-1])]
    residual = target - (K @ found.alpha)[:, 0]
    assert np.linalg.norm(residual) <= goal * np.linalg.norm(target)


@pytest.mark.second(share=0.08)
def test_weights_count_as_copies():
    X, y = smooth(500)
    weight = np.random.RandomState(0).randint(0, 4, size=len(X))
    kernel = sk.ConstantKernel(1.0) * sk.RBF(1.0) + sk.WhiteKernel(1e-3)
    model = regressor(kernel, optimizer=None, tol=1e-10)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


@pytest.mark.second
def test_known_noise_of_each_row_is_respected():
    X, y = smooth(1500)
    alpha = np.where(np.arange(len(X)) % 2, 1.0, 1e-4)
    y = y + np.sqrt(alpha) * np.random.RandomState(5).normal(size=len(X))
    kernel = sk.ConstantKernel(1.0) * sk.RBF([1.0, 1.0, 1.0])
    model = regressor(kernel, 200, alpha=alpha).fit(X, y)
    Xt, truth = smooth(300, seed=9)
    assert model.posterior_ == "rows"
    assert np.sqrt(np.mean((model.predict(Xt) - truth) ** 2)) < 0.1


@pytest.mark.second
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_do_not_depend_on_threads(n_jobs):
    X, y = smooth(900)
    models = [regressor(n_jobs=number).fit(X, y) for number in (n_jobs, 3)]
    found = [model.predict(X[:50], return_std=True) for model in models]
    np.testing.assert_allclose(*found, rtol=1e-9)


@pytest.mark.second
def test_a_solve_that_does_not_end_warns():
    X, y = smooth(700)
    kernel = sk.ConstantKernel(1.0) * sk.RBF(1.0) + sk.WhiteKernel(1e-5)
    model = regressor(kernel, 10, optimizer=None, max_iter=3)
    with pytest.warns(ConvergenceWarning, match=r"Raise max_iter \(now 3\)"):
        model.fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    remedied = clone(model).set_params(max_iter=1000, n_inducing=400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        remedied.fit(X, y)


@pytest.mark.second
def test_progress_tells_the_residual(capsys):
    X, y = smooth(500)
    regressor(verbose=1).fit(X, y)
    assert "residual of all rows" in capsys.readouterr().out


WRONG = {
    "must be one of .*'exact', 'fourier', 'inducing', 'neighbors', 'rows'": {"posterior": "all"},
    "Got None instead": {"posterior": None},
    "Gaussian noise only: no labels, .* Got likelihood='st": {"likelihood": "student_t"},
    "random rows. Got solver='stochastic'. Change": {"solver": "stochastic"},
    r"random rows. Got solver=Stochastic\(\)": {
        "posterior": IterativeExact(),
        "solver": Stochastic(),
    },
    "posterior='rows' has no bound.*Got bound='titsias_new'. Change": {"bound": "titsias_new"},
    r"no bound.*Got bound=PEP\(alpha=0.3\)": {"posterior": IterativeExact(), "bound": PEP(0.3)},
    "takes no array as inducing_init": {"inducing_init": np.eye(5, 3)},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_used_is_refused(message):
    with pytest.raises(ValueError, match=message):
        SparseGPRegressor(**{"posterior": "rows"} | WRONG[message]).fit(*smooth(100))


@pytest.mark.second(share=0.05)
@parametrize_with_checks([SparseGPRegressor(posterior="rows", n_inducing=5, random_state=0)])
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-10])
@pytest.mark.parametrize("d", [1, 2])
def test_nearly_no_noise_has_variances(alpha, d):
    X = np.random.RandomState(0).normal(size=(600, d))
    kernel = sk.ConstantKernel(1.0) * sk.RBF(1.0)
    model = regressor(kernel, 300, alpha=alpha, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, np.sin(3 * X[:, 0]))
    mean, std = model.predict(X[:100] + 0.01, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all()
    assert np.abs(mean - np.sin(3 * (X[:100, 0] + 0.01))).max() < 0.2


@pytest.mark.second(share=0.08)
def test_a_coarse_tolerance_still_solves():
    X, y = smooth(700)
    assert regressor(tol=1.0).fit(X, y).score(X, y) > 0.9


@pytest.mark.second
def test_float32_rows_predict_alike():
    X, y = smooth(600)
    X = X.astype(np.float32).astype(np.float64)
    double, single = (regressor().fit(one, y) for one in (X, X.astype(np.float32)))
    np.testing.assert_allclose(double.predict(X[:20]), single.predict(X[:20]), rtol=1e-6)

"""Noise whose variance varies with the inputs."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import differences, row_differences
from inside import VectorFunction, heteroscedastic_noise, left_out, plan, some_rows
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgp_sparse import SparseGPRegressor, kernels
from skgp_sparse.kernels import HeteroscedasticNoise, LogNoiseFunction
from skgp_sparse.posteriors import FourierFeatures, InducingPoints, Neighbors
from skgp_sparse.solvers import LBFGS
from skgp_sparse.testing import check_kernel_rule


def left_out_some(fit, most):
    return left_out(fit, some_rows(fit.rows, most), 1)


def noise_at(X):
    return 0.05 * np.exp(X[:, 0] / 2)


def table(n=400, d=1, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, size=(n, d))
    return X, np.sin(2 * X[:, 0]) + noise_at(X) * rng.normal(size=n)


FACTOR = LogNoiseFunction(RBF(0.8), np.array([[0.5, 0.1], [-1.0, 0.7]]), np.array([0.7, -0.4]), 0.2)
QUERIES = np.linspace(-2.5, 2.5, 9)[:, None]


def varies(model):
    return isinstance(model.kernel_.k2, HeteroscedasticNoise)


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors"])
def test_the_noise_is_found(posterior):
    X, y = table(600)
    options = {"n_inducing": 40} if posterior == "inducing" else {}
    if posterior != "exact":  # which is the default
        options |= {"posterior": posterior, "noise": "learned"}
    model = SparseGPRegressor(random_state=0, **options).fit(X, 10.0 * y)
    assert varies(model) and model.posterior_ == posterior
    found = model.noise_std(QUERIES) / noise_at(QUERIES) / 10.0
    assert 0.7 < found.min() and found.max() < 1.6
    std = model.predict(QUERIES, return_std=True)[1]
    latent = model.predict(QUERIES, return_std=True, latent=True)[1]
    assert_allclose(std**2, latent**2 + model.noise_std(QUERIES) ** 2, rtol=1e-7)
    constant = clone(model).set_params(noise="constant").fit(X, 10.0 * y)
    new = table(500, seed=1)
    gain = model.log_predictive_density(new[0], 10.0 * new[1])
    gain -= constant.log_predictive_density(new[0], 10.0 * new[1])
    assert gain.mean() > 0.15
    assert np.ptp(constant.noise_std(QUERIES)) == 0


REPEATED = {
    "exact": {"n": 1800},
    "more rows": {"n": 2500},
    "three targets": {"n": 1000, "n_targets": 3},
    "linear": {"n": 1200, "mean": "linear"},
    "inducing": {"n": 1200, "posterior": "inducing", "n_inducing": 30, "noise": "learned"},
    "neighbors": {"n": 600, "posterior": "neighbors", "noise": "learned"},
    "weights": {"n": 1800, "has_weights": True},
}


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("case", REPEATED)
def test_noise_of_repeated_inputs_is_that_of_all_copies(case):
    options = dict(REPEATED[case])
    n, p, has_weights = options.pop("n"), options.pop("n_targets", 1), "has_weights" in options
    options.pop("has_weights", None)
    rng, level = np.random.RandomState(0), np.linspace(-3, 3, 50)
    X = level[rng.randint(50, size=n)][:, None]
    draws = rng.exponential(size=(n, p)) - 1.0  # of n rows, the smallest tells nothing
    y = np.squeeze(np.sin(2 * X) + noise_at(X)[:, None] * draws)
    weight = rng.randint(1, 3, size=n) if has_weights else None
    one, other = (
        SparseGPRegressor(random_state=0, **options).fit(X, sign * y, sample_weight=weight)
        for sign in (1.0, -1.0)
    )
    assert varies(one)
    found = one.noise_std(QUERIES).reshape(len(QUERIES), p)
    assert_allclose(found, other.noise_std(QUERIES).reshape(found.shape), rtol=0.02)
    typical = np.log(found / noise_at(QUERIES)[:, None])
    assert abs(typical.mean()) < 0.1 and np.abs(typical).max() < 0.35
    assert_allclose(one.predict(QUERIES), -other.predict(QUERIES), rtol=0.01, atol=0.01)


@pytest.mark.parametrize("n", [1900, 2500])
def test_constant_noise_of_repeated_inputs(n):
    rng = np.random.RandomState(0)
    age = rng.randint(18, 80, size=n)
    y = np.sin(age / 8) + 0.5 * rng.normal(size=n)
    model = SparseGPRegressor(random_state=0, mean=None).fit(age[:, None], y)
    within = [y[age == one] - y[age == one].mean() for one in np.unique(age)]
    spread = np.sqrt(np.sum(np.concatenate(within) ** 2) / (n - len(within)))
    assert_allclose(model.noise_std(age[:5, None]), spread, rtol=0.03)


def test_the_logarithm_of_a_mean_of_squares_is_unbiased():
    """Of any number of copies, and of targets."""
    rng = np.random.RandomState(0)
    for n_copies, n_targets in [(1, 1), (2, 1), (3, 2), (40, 1), (300, 1)]:
        index = np.repeat(np.arange(2000), n_copies)
        y = rng.normal(size=(len(index), n_targets))
        share = np.full(len(index), 1.0 / n_copies)
        copies = heteroscedastic_noise._Copies(None, None, index, share)
        found = SimpleNamespace(block=SimpleNamespace(y=y), mean=0.0, known=0.0)
        found.total = np.ones(len(index))
        assert abs(heteroscedastic_noise._logarithms(found, copies).mean()) < 0.05


@pytest.mark.second
def test_several_targets_share_it():
    X, y = table(500)
    other = np.cos(X[:, 0]) + noise_at(X) * np.random.RandomState(1).normal(size=500)
    model = SparseGPRegressor(random_state=0).fit(X, np.column_stack([y, other]))
    found = model.noise_std(QUERIES)
    assert found.shape == (9, 2) and varies(model)
    assert_allclose(found[-1] / found[0], noise_at(QUERIES)[-1] / noise_at(QUERIES)[0], rtol=0.4)


def test_values_are_those_of_dense_algebra():
    X, y = table(150)
    model = SparseGPRegressor(posterior="exact", normalize_y=False, noise="learned").fit(X, y)
    K = model.kernel_(X)
    expected = multivariate_normal(np.zeros(150), K).logpdf(y)
    assert_allclose(model.log_marginal_likelihood_value_, expected)
    cross = model.kernel_(QUERIES, X)
    mean, std = model.predict(QUERIES, return_std=True)
    assert_allclose(mean, cross @ np.linalg.solve(K, y), rtol=1e-6, atol=1e-8)
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))
    assert_allclose(std**2, model.kernel_.diag(QUERIES) - explained, rtol=1e-5)


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors"])
def test_gradients_of_objectives(posterior):
    X, y = table(120)
    options = {"n_inducing": 10} if posterior == "inducing" else {"metric": "ard"}
    given = {"posterior": posterior, "noise": "learned", "max_iter": 3, "random_state": 0}
    model = SparseGPRegressor(**given, **options).fit(X, y)
    function = VectorFunction(
        model._fitted.fits[0].objective, model.kernel_, posterior == "inducing"
    )
    start = function.pack()
    slopes = differences(lambda at: function(at)[0], start)
    assert_allclose(function(start)[1], slopes, rtol=1e-4, atol=1e-4)


def test_the_rule_of_the_kernel():
    kernel = ConstantKernel(1.5) * Matern(nu=2.5) + HeteroscedasticNoise(FACTOR, noise_level=0.3)
    X = np.random.RandomState(0).normal(size=(20, 2))
    check_kernel_rule(kernel, X)
    own = HeteroscedasticNoise(FACTOR, noise_level=0.3)
    expected = 0.3 * np.exp(0.2 + RBF(0.8)(X, FACTOR.Z) @ FACTOR.u)
    assert_allclose(own.diag(X), expected)
    assert_allclose(own(X, eval_gradient=True)[1][..., 0], np.diag(expected))
    assert not own(X, X).any() and kernels.has_noise(kernel)
    assert own == clone(own) and pickle.loads(pickle.dumps(own)) == own
    assert own != HeteroscedasticNoise(FACTOR, noise_level=0.4)
    assert own.clone_with_theta([np.log(0.5)]).noise_level == 0.5
    fixed = HeteroscedasticNoise(FACTOR, noise_level_bounds="fixed")
    assert fixed(X, eval_gradient=True)[1].shape == (20, 20, 0)


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("posterior", ["exact", "inducing"])
def test_gradients_of_predictions(posterior):
    X, y = table(200, d=2)
    model = SparseGPRegressor(posterior=posterior, n_inducing=30, noise="learned").fit(X, y)
    at = np.array([[0.3, -0.4]])
    std_grad = model.predict(at, return_std=True, return_gradient=True)[3]
    slopes = row_differences(lambda X: model.predict(X, return_std=True)[1], at)
    assert_allclose(std_grad, slopes, rtol=1e-4, atol=1e-7)


@pytest.mark.second
@pytest.mark.parametrize("posterior", ["exact", "inducing", Neighbors(50)])
@pytest.mark.parametrize("does_vary", [True, False])
def test_rows_are_left_out_once(posterior, does_vary, monkeypatch):
    X, y = table(300)
    if not does_vary:
        y = np.sin(X[:, 0]) + 0.3 * np.random.RandomState(0).normal(size=300)
    options = {"n_inducing": 20} if posterior == "inducing" else {}
    monkeypatch.setattr(plan, "compares_approximations", lambda given: False)
    model = SparseGPRegressor(posterior=posterior, random_state=0, **options).fit(X, y)
    assert varies(model) == does_vary
    assert "noise" in model.selection_.steps  # also of a fit that goes on from another one
    fit = model._fitted.fits[0]
    assert np.isin(some_rows(fit.rows, 200), some_rows(fit.rows, 250)).all()
    now = left_out_some(fit._replace(left_out=None), 200)
    monkeypatch.setattr(type(fit.posterior), "leave_one_out", None)  # nobody asks it again
    known = left_out_some(fit, 200)
    assert_allclose(known.mean, now.mean, rtol=1e-8, atol=1e-8)
    assert_allclose(known.variance, now.variance, rtol=1e-8, atol=1e-12)
    others = left_out(fit, known.chosen, 1, own_noise=False)  # as conformal scores are
    assert np.any(others.noise != known.noise) == does_vary
    assert len(model.loo_predict().mean) == 300
    other = pickle.loads(pickle.dumps(model))
    assert other._fitted.fits[0].left_out is None
    assert_allclose(other.predict(QUERIES), model.predict(QUERIES), rtol=1e-10)


def test_known_rows_are_of_one_posterior():
    X, y = table(300)
    model = SparseGPRegressor(posterior="neighbors", random_state=0).fit(X, y)
    fit = model._fitted.fits[0]
    few = fit.posterior.with_fewer_neighbors(5)
    fewer = left_out_some(fit.with_fit(posterior=few), 40)
    assert np.abs(fewer.mean - left_out_some(fit, 40).mean).max() > 1e-6
    some = left_out(fit._replace(left_out=None), some_rows(fit.rows, 20), 1)
    others = left_out_some(fit._replace(left_out=some), 40)  # half of which are not known
    assert_allclose(others.mean, left_out_some(fit, 40).mean, rtol=1e-8, atol=1e-8)


def test_equal_rows_are_left_out_as_one():
    X, y = table(300)
    rows = np.concatenate([np.arange(300), np.zeros(900, int), np.full(600, 7)])
    model = SparseGPRegressor(noise="learned", mean=None, random_state=0).fit(X[rows], y[rows])
    left = left_out_some(model._fitted.fits[0], 1000)
    assert len(np.unique(left.block.X, axis=0)) == len(left.chosen) == 300
    expected = (
        np.array([1.0, 601.0, 901.0]) / 6.0
    )  # copies are one row, of a weight in units of its mean
    np.testing.assert_allclose(sorted(left.block.weight)[-3:], expected, rtol=1e-6)


@pytest.mark.second
def test_hyperparameters_of_the_noise_are_of_some_errors(monkeypatch):
    sizes = []

    def counted(self, start):
        sizes.append(len(start.objective.rows))
        return LBFGS().solve(start)

    counting = type("Counted", (LBFGS,), {"solve": counted})
    monkeypatch.setattr(heteroscedastic_noise, "LBFGS", counting)
    X, y = table(1500)
    options = {"n_inducing": 20, "posterior": "inducing", "noise": "learned"}
    assert varies(SparseGPRegressor(random_state=0, **options).fit(X, y))
    assert sizes == [1000, 1000]


def test_rows_that_are_left_out_see_it():
    X, y = table(120)
    model = SparseGPRegressor(noise="learned", random_state=0).fit(X, y)
    loo = model.loo_predict()
    for i in (0, 60):
        others = np.arange(120) != i
        K, k = model.kernel_(X[others]), model.kernel_(X[[i]], X[others])
        centred = (y - y.mean())[others] / y.std()
        assert_allclose(loo.mean[i], y.mean() + y.std() * (k @ np.linalg.solve(K, centred))[0])
        variance = model.kernel_.diag(X[[i]]) - k @ np.linalg.solve(K, k.T)
        assert_allclose(loo.std[i], y.std() * np.sqrt(variance.item()))


@pytest.mark.second
def test_auto_keeps_constant_noise():
    X, y = table(90)
    assert not varies(SparseGPRegressor().fit(X, y))  # few rows
    rng = np.random.RandomState(0)
    for seed in range(2):
        X, _ = table(300, d=2, seed=seed)
        y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=300)
        assert not varies(SparseGPRegressor().fit(X, y))
    assert not varies(SparseGPRegressor().fit(X, np.full(300, 7.0)))
    X, y = table(300)
    assert not varies(SparseGPRegressor(RBF()).fit(X, y))
    assert not varies(SparseGPRegressor().partial_fit(X, y))
    assert varies(SparseGPRegressor(RBF(), noise="learned").fit(X, y))
    assert varies(SparseGPRegressor(RBF() + WhiteKernel(), noise="learned").fit(X, y))


def test_weights_and_rows_without_weight():
    X, y = table(300)
    weight = np.arange(300) % 3.0
    model = SparseGPRegressor(noise="learned", random_state=0).fit(X, y, sample_weight=weight)
    again = SparseGPRegressor(noise="learned", random_state=0)
    again.fit(np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    assert varies(model)
    assert_allclose(model.noise_std(QUERIES), again.noise_std(QUERIES), rtol=1e-3)


def test_a_fit_is_the_same_again_and_in_a_pickle():
    X, y = table(200)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    for other in (clone(model).fit(X, y), clone(model).set_params(n_jobs=2).fit(X, y)):
        assert_allclose(other.predict(QUERIES), model.predict(QUERIES), rtol=1e-10)
    other = pickle.loads(pickle.dumps(model))
    assert_allclose(other.noise_std(QUERIES), model.noise_std(QUERIES), rtol=1e-12)
    assert "HeteroscedasticNoise(noise_level=" in str(model.kernel_)


def test_rows_that_arrive_after_a_fit():
    X, y = table(400)
    model = SparseGPRegressor(noise="learned", random_state=0)
    model.fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    assert np.abs(model.predict(QUERIES) - np.sin(2 * QUERIES[:, 0])).mean() < 0.1
    assert np.isfinite(model.noise_std(QUERIES)).all()


WRONG = {
    "must be one of": {"noise": "some"},
    "is that of likelihood='gaussian'": {"likelihood": "student_t"},
    "Got optimizer=None": {"optimizer": None},
    "takes the place of a WhiteKernel": {"kernel": RBF(), "alpha": 0.1},
    "Got kernel=": {"kernel": ConstantKernel() * (RBF() + WhiteKernel())},
    "not available for posterior='fourier'": {"posterior": FourierFeatures(20)},
    "needs one basis": {"posterior": InducingPoints(n_mean=60), "n_inducing": 20},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("message", WRONG)
def test_errors(message, capsys):
    X, y = table(100)
    model = SparseGPRegressor(**{"noise": "learned", "max_iter": 3} | WRONG[message])
    model.set_params(verbose=1)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert capsys.readouterr().out == ""  # nothing was fitted


def test_errors_of_streams_and_of_other_likelihoods():
    X, y = table(100)
    with pytest.raises(ValueError, match="noise='learned' needs all rows at once"):
        SparseGPRegressor(noise="learned").partial_fit(X, y)
    with pytest.raises(ValueError, match="fit was given X_std"):
        SparseGPRegressor(noise="learned", n_inducing=20).fit(X, y, X_std=0.1 + 0.0 * X)
    with pytest.raises(ValueError, match="noise_std needs likelihood='gaussian'"):
        SparseGPRegressor(likelihood="student_t", max_iter=2).fit(X, y).noise_std(X)

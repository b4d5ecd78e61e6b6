"""Figures of the literature among the examples: published numbers, and laws of what they show."""

import doctest
import sys
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from conftest import ROOT
from numpy.testing import assert_allclose
from scipy.special import logsumexp

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pytestmark = pytest.mark.second  # figures of the examples
EXAMPLES = ROOT / "examples"
FIGURES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def example(name):
    """An example as a module."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.full
@pytest.mark.parametrize("name", FIGURES)
def test_examples_are_drawn(name, monkeypatch, tmp_path):
    picture = tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [name, "--output", str(picture)])
    example(name).main()
    matplotlib.pyplot.close("all")
    assert picture.stat().st_size > 10_000


def test_published_hyperparameters():
    module = example("plot_tighter_bound")
    result = doctest.testmod(module)
    assert result.attempted and not result.failed


def test_factors_and_traces():
    module = example("plot_tighter_bound")
    X, y = module.load()
    model = module.fit_all(X, y)["titsias_new"]
    values, noises = module.trace(X, y, model, "titsias_new")
    assert abs(values[-1] - model.log_marginal_likelihood_value_) < 1e-4
    assert abs(noises[-1] - model.kernel_.k2.noise_level) < 1e-4
    # the bounds differ by Σ (x - log(1 + x)) / 2, x = 1/v - 1
    v = module.factors(model, X)
    options = {"inducing_init": model.inducing_points_, "optimizer": None}
    loose = module.fit(X, y, "titsias", model.kernel_, **options).log_marginal_likelihood_value_
    gain = 0.5 * np.sum(1.0 / v - 1.0 + np.log(v))
    assert abs(model.log_marginal_likelihood_value_ - loose - gain) < 1e-5


def test_nystrom_is_no_process():
    module = example("plot_approximations")
    (X, y), _ = module.load()
    posteriors = module.approximate(X, y)
    mean, variance = posteriors["Nyström"](module.GRID)
    assert variance.min() < -0.01
    mean, variance = posteriors["Nyström, collapsed"](module.GRID)
    assert 0.0 <= variance.min() < 1e-4
    expected = posteriors["variational"](module.GRID)
    assert_allclose(mean, expected[0], atol=1e-5)  # one mean, and what Q leaves on top
    assert np.all(expected[1] > variance - 1e-7)


def test_random_features_converge():
    module = example("plot_approximations")
    (X, y), _ = module.load()
    grid = module.GRID[::10]
    exact = np.array(module.of_package(X, y, posterior="exact")(grid))
    few, many = (module.random_features(X, y, size)(grid) - exact for size in (10, 500))
    assert np.abs(few).max() > 1.0 and np.abs(many[0]).max() < 0.3 and np.abs(many[1]).max() < 0.1


def test_an_average_of_several_fits_is_likelier_than_each():
    module = example("plot_average")
    models = module.fit(*module.table(60, seed=0))
    densities = module.log_densities(models, *module.table(60, seed=1))
    weights = module.weights_of(densities)
    slopes = np.exp(densities - logsumexp(densities, axis=0, b=weights[:, None])).mean(axis=1)
    assert weights.sum() == pytest.approx(1.0)
    assert_allclose(weights @ slopes, 1.0, atol=1e-6)  # the conditions of the maximum,
    assert np.all(slopes < 1.0 + 1e-4)  # which is the only one
    X, y = module.table(1000, seed=2)
    new = module.log_densities(models, X, y)
    assert logsumexp(new, axis=0, b=weights[:, None]).mean() > new.mean(axis=1).max() + 0.03
    mean, std = module.average(models, weights, X[:5])
    which = np.random.RandomState(0).choice(4, size=100_000, p=weights)
    each = np.array([model.predict(X[:5], return_std=True) for model in models.values()])
    draws = np.random.RandomState(1).normal(each[which, 0], each[which, 1])
    assert_allclose(draws.mean(axis=0), mean, atol=0.02)
    assert_allclose(draws.std(axis=0), std, rtol=0.02)


@pytest.mark.parametrize("name", ["probit", "logit", "poisson"])
def test_one_row_is_exact(name):
    module = example("plot_one_site")
    integrals = module.tilted(module.LIKELIHOODS[name][1])[:3]
    assert_allclose(module.fit_row(name, "gfitc-ep"), integrals, rtol=1e-5)
    value, _, variance = module.fit_row(name, "titsias")
    assert value < integrals[0] and variance < integrals[2]


def test_what_is_held():
    module = example("plot_m_step")
    X, y = module.labels()
    start = module.kernel_at(module.LENGTH, module.VARIANCE)
    model = module.fit(X, y, start)
    moved = module.held(model, X, y)
    for name in module.COLOURS:
        assert abs(moved(start, name) - model.log_marginal_likelihood_value_) < 1e-4
    for kernel in (module.kernel_at(0.3, 0.6), module.kernel_at(0.5, 2.0)):
        best = model.log_marginal_likelihood(kernel.theta)
        plain, whitened, sites = (moved(kernel, name) for name in module.COLOURS)
        assert max(plain, whitened) < sites - 1.0 and sites < best < sites + 0.1


def test_natural_gradients():
    module = example("plot_natural_gradients")
    X, y = module.table(200)
    model = module.fit(X, y, "lbfgs", n_inducing=10)
    kernel, noise = model.kernel_.k1, model.kernel_.k2.noise_level
    L, V = module.features(kernel, noise, X, model.inducing_points_)
    z = y / np.sqrt(noise)
    before, after = module.natural_gradients(V, z, 200, lambda t: 1.0, 2)
    assert before > 100.0 and abs(after) < 1e-6
    # the bound at q = prior: what the optimum gains on it is the gap
    residual = np.sum(kernel.diag(X)) / noise
    prior = -0.5 * (200 * np.log(2 * np.pi * noise) + z @ z + residual)
    assert abs(model.log_marginal_likelihood_value_ - prior - before) < 1e-3
    for T in (np.linalg.inv(L), np.eye(10)):
        _, gaps = module.ordinary_gradients(np.eye(10) + V @ V.T, V @ z, T, 300)
        assert gaps[-1] < 1e-3


def test_counts():
    module = example("plot_count_bounds")
    X, y = module.counts()
    models = module.fit_counts(X, y)
    values = [models[name].log_marginal_likelihood_value_ for name in module.COLOURS]
    assert values[1] + 1.0 < values[2] < values[0] - 1.0
    assert 0.6 < module.factor(models["titsias_new"], X) < 0.75  # 0.675 for the paper's counts


def test_traces_of_counts():
    module = example("plot_count_bounds")
    X = np.random.RandomState(0).normal(size=(40, 2))
    y = np.random.RandomState(1).poisson(np.exp(1.0 + np.sin(X[:, 0])))
    model, values = module.traced(X, y, bound="titsias", n_inducing=5)
    assert values == sorted(values) and len(values) > 3
    assert_allclose(values[-1], model.log_marginal_likelihood_value_, rtol=1e-5)


def test_a_larger_mean():
    module = example("plot_decoupled")
    models = module.fit_all(*module.table())
    exact, coupled, decoupled = (one.log_marginal_likelihood_value_ for one in models.values())
    assert coupled < decoupled < exact
    Z = models["coupled"].inducing_points_
    module.GRID = Z
    at_Z, added = module.prior_basis(Z, np.array([[0.2], [5.0]]))
    assert_allclose(at_Z, module.KERNEL.k1(Z))
    assert_allclose(added, 0.0, atol=1e-12)
    assert_allclose(np.diag(module.posterior_basis(models["coupled"])), 1.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_oil_flow():
    module = example("plot_oil_flow")
    X, flow, new = module.load(150, 20)
    model = module.fit(X, n_components=3, n_inducing=12, max_iter=30)
    ours, principal = model.embedding_[:, :2], module.PCA(2).fit_transform(X)
    assert module.nearest_errors(ours, flow) < 0.5 * module.nearest_errors(principal, flow)
    truth, mean, _, column = module.find_again(model, new)
    rmse, rmse_of_means = (np.sqrt(np.mean((truth - p) ** 2)) for p in (mean, model.mean_[column]))
    assert rmse < 0.7 * rmse_of_means

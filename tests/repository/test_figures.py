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

"""Random Fourier features: frequencies of a kernel, their linear model, and the method."""

import numpy as np
import pytest
from chunked_arrays import Arrays
from conftest import BOUNDS, agree, make_case
from gaussian import Gaussian
from inside import (
    ExpectationPropagation,
    FourierBasis,
    GaussianObjectives,
    Options,
    Problem,
    SiteObjectives,
    Variational,
    sobol_draws,
)
from inside import basis as fourier_basis
from kernel_cases import Opaque
from sklearn.gaussian_process import kernels as sk
from test_contracts import TIGHT, check_linear_model, check_objective, directional_slopes

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels
from skgp_sparse.bounds import Titsias
from skgp_sparse.kernels import Columns
from skgp_sparse.likelihoods import Probit
from skgp_sparse.posteriors import FourierFeatures

KERNELS = {
    "rbf": sk.ConstantKernel(1.7) * sk.RBF([0.8, 1.3]),
    "matern_0.5": sk.ConstantKernel(1.2) * sk.Matern(1.1, nu=0.5),
    "matern_1.2": sk.Matern([0.9, 1.6], nu=1.2),
    "matern_inf": sk.Matern([0.9, 1.6], nu=np.inf),
    "rational_quadratic": sk.ConstantKernel(1.4) * sk.RationalQuadratic(0.9, 1.3),
    "sum": sk.ConstantKernel(0.7) * sk.Matern([0.8, 1.7], nu=1.5) + sk.RationalQuadratic(1.9, 0.8),
    "product": sk.ConstantKernel(1.2) * sk.RBF(2.0) * sk.Matern([1.1, 0.9], nu=2.5),
    "power": (sk.ConstantKernel(0.8) * sk.RBF([0.8, 1.2]) + sk.RationalQuadratic(0.9, 1.3)) ** 2,
    "constant": sk.ConstantKernel(0.9) + sk.ConstantKernel(0.5) * sk.RBF(0.7),
    "distributed": (sk.ConstantKernel(0.6) + sk.RBF(1.1)) * (sk.Matern(0.9) + sk.WhiteKernel(0.3)),
    "columns": Columns(sk.RBF(0.8) + Columns(sk.Matern(1.1), [1]), [1, 0])
    + sk.ConstantKernel(0.6)
    * Columns(sk.Matern([1.1, 0.9], nu=2.5), [1, 0])
    * Columns(sk.RBF(), 0),
    "fixed": sk.ConstantKernel(1.3, "fixed")
    * sk.RBF([0.8, 1.2])
    * sk.RationalQuadratic(2.0, 0.7, "fixed"),
}
METHODS = {
    "variational": Variational(Probit(), True),
    "propagation": ExpectationPropagation(Probit(), 1.0),
    "learned": Variational(Gaussian(0.3, (1e-3, 1e3)), False),
}
RNG = np.random.RandomState(0)
X = RNG.uniform(-2, 2, (80, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=80)


def basis_of(kernel, n_frequencies=12, seed=0, d=2):
    rng = np.random.RandomState(seed)
    return FourierBasis.drawn(kernel, n_frequencies, np.zeros(d), rng)


def independent(n, k, d, rng):
    """Draws with a standard error that is known."""
    return rng.normal(size=(n, k, d)), 1.0 - rng.uniform(size=(n, k))


def quick(**parameters):
    given = {"posterior": FourierFeatures(20), "max_iter": 5, "random_state": 0, "tol": 0.1}
    return SparseGPRegressor(**given | parameters)


def kept(**parameters):
    """A regressor whose hyperparameters stay."""
    kernel = sk.ConstantKernel() * sk.RBF([1.0, 2.0]) + sk.WhiteKernel(0.1)
    return quick(**{"kernel": kernel, "optimizer": None} | parameters)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# -- frequencies -----------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_features_make_the_kernel(name, monkeypatch):
    """Frequencies are independent here, so that an entry has a standard error."""
    monkeypatch.setattr(fourier_basis, "sobol_draws", independent)
    kernel, at, n = KERNELS[name], X[:30], 20_000
    features = basis_of(kernel, n).at(kernel, Options())
    V = features.raw(at)
    expected, variance = kernels.evaluate(kernel, at, at), np.max(kernels.diagonal(kernel, at)[0])
    terms = len(features.basis.counts)
    assert np.abs(V @ V.T - expected).max() < 5.0 * variance * np.sqrt(terms / (2 * n))
    agree((V**2).sum(axis=1), np.broadcast_to(variance, len(at)), 1e-12)


@pytest.mark.parametrize(
    "name, most", [("rbf", 0.5), ("rational_quadratic", 0.7), ("matern_0.5", 0.85)]
)
def test_features_of_even_draws_make_the_kernel_more_closely(name, most, monkeypatch):
    """And without bias: their mean over many draws is the kernel, too."""
    kernel, at = KERNELS[name], X[:30]
    expected, errors = kernels.evaluate(kernel, at, at), []
    for draws in (sobol_draws, independent):
        monkeypatch.setattr(fourier_basis, "sobol_draws", draws)
        products = []
        for seed in range(30):
            V = basis_of(kernel, 32, seed).at(kernel, Options()).raw(at)
            products.append(V @ V.T - expected)
        errors.append(np.sqrt(np.mean(np.square(products))))
        error = 4.5 * kernel.diag(at)[0] / np.sqrt(64 * 30)
        assert np.abs(np.mean(products, axis=0)).max() < error
    assert errors[0] < most * errors[1]


@pytest.mark.parametrize("n, k, d", [(1, 1, 1), (7, 1, 3), (5, 2, 4), (64, 1, 1)])
def test_draws_are_finite_and_depend_on_nothing_but_the_seed(n, k, d):
    drawn = [sobol_draws(n, k, d, np.random.RandomState(3)) for _ in range(2)]
    for one, again, shape in zip(*drawn, [(n, k, d), (n, k)]):
        assert one.shape == shape and np.isfinite(one).all()
        np.testing.assert_array_equal(one, again)
    assert np.all((drawn[0][1] > 0) & (drawn[0][1] <= 1))


def test_a_sequence_has_no_more_columns_than_there_are():
    with pytest.raises(ValueError, match="at most 21201 columns, and 1 factors of 30000 features"):
        sobol_draws(4, 1, 30_000, np.random.RandomState(0))


@pytest.mark.parametrize(
    "kernel",
    [
        sk.DotProduct(),
        sk.RBF() + sk.DotProduct(),
        sk.RBF() * sk.ExpSineSquared(),
        sk.RBF() ** 0.5,
        sk.RBF() ** 5,
        Opaque(),
    ],
)
def test_other_kernels_have_no_spectrum(kernel):
    assert kernels.spectrum(kernel) is None
    with pytest.raises(ValueError, match="draws frequencies of RBF, Matern.*Got kernel="):
        quick(kernel=kernel).fit(X, Y)


# -- the objective ---------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_regression(name, monkeypatch):
    """Where frequencies are very high, differences would have few digits."""
    monkeypatch.setattr(fourier_basis, "sobol_draws", independent)
    kernel = KERNELS[name] + sk.WhiteKernel(0.2)
    model, basis = GaussianObjectives(Titsias()), basis_of(kernel)
    objective = model.in_basis(make_case().rows(), basis, Options())
    found = objective.value_and_gradient(kernel)
    at_theta = lambda theta: objective.value(kernel.clone_with_theta(theta))
    for direction, slope in directional_slopes(at_theta, kernel.theta):
        agree(found.theta_bar @ direction, slope, 1e-6)


@pytest.mark.second(share=0.34)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["matern_1.2", "distributed"])
def test_gradients_with_sites(method, name):
    case, kernel = make_case(), KERNELS[name]
    rows = case._replace(y=np.where(case.y > 0, 1.0, -1.0), noise=0.0).rows()
    model = SiteObjectives(METHODS[method], TIGHT)
    objective = model.in_basis(rows, basis_of(kernel, 6), Options())
    check_objective(objective, kernel, move_basis=False)


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_objective_is_the_evidence_of_the_linear_model(bound):
    case, basis = make_case(weighted=True), basis_of(KERNELS["rbf"], 8)

    def features(X):
        phase = X @ (basis.normal[:, 0] / [0.8, 1.3]).T
        return np.sqrt(1.7 / 8) * np.hstack([np.cos(phase), np.sin(phase)])

    problem = Problem(KERNELS["rbf"] + sk.WhiteKernel(0.2), basis, case.rows(), BOUNDS[bound])
    assert check_linear_model(problem, case.repeated(), features).name == "fourier"


def test_an_offset_of_the_inputs_costs_few_digits():
    shift = 2.0**30
    models = [kept().fit(inputs, Y) for inputs in (X, X + shift)]
    agree(models[0].predict(X), models[1].predict(X + shift), 1e-6)


# -- the method ----------------------------------------------------------------------


def test_a_fit_is_given_the_features_of_its_seed_however_few_rows_there_are():
    model = kept(posterior=FourierFeatures(40)).fit(X[:30], Y[:30])
    assert model.posterior_ == "fourier" and model.score(X, Y) > 0.8
    features = model._fitted.fits[0].posterior.features
    expected = basis_of(model.kernel_, 20).normal
    np.testing.assert_array_equal(features.basis.normal, expected)
    agree(features.frequencies, expected[:, 0] / [1.0, 2.0], 1e-14)
    again = kept(posterior=FourierFeatures(40), n_jobs=2).fit(X[:30], Y[:30])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_draws_stay_and_frequencies_move_with_the_length_scales():
    fits = [quick(max_iter=most).fit(X, Y)._fitted.fits[0].posterior.features for most in (1, 20)]
    assert np.array_equal(*(one.basis.normal for one in fits))
    assert not np.array_equal(*(one.frequencies for one in fits))


def test_frequencies_of_another_seed_are_others():
    means = [kept(random_state=seed).fit(X, Y).predict(X) for seed in (0, 1)]
    assert np.abs(means[0] - means[1]).max() > 1e-3


def test_users_evaluate_the_evidence_of_the_same_features():
    model = quick().fit(X, Y)
    theta = model.kernel_.theta
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    agree(value, model.log_marginal_likelihood_value_, 1e-12)
    for direction, slope in directional_slopes(model.log_marginal_likelihood, theta, n=2):
        agree(gradient @ direction, slope, 1e-6)


@pytest.mark.parametrize("optimizer", [None, lambda f, theta, bounds: (theta, f(theta)[0])])
def test_hyperparameters_may_be_kept_or_left_to_a_user(optimizer):
    kernel = sk.RBF() + sk.WhiteKernel(0.1)
    model = quick(kernel=kernel, optimizer=optimizer).fit(X, Y)
    agree(model.kernel_.theta, kernel.theta, 1e-12)
    assert model.score(X, Y) > 0.5


def test_rows_may_come_from_a_source_or_be_samples():
    many = np.arange(4000) % 80
    inputs, targets = X[many], Y[many]
    source = kept().fit(Arrays(inputs, targets, chunk_size=999)).predict(X[:9])
    agree(source, kept().fit(inputs, targets).predict(X[:9]), 1e-8)
    few = quick(posterior=FourierFeatures(6), solver="stochastic", kernel=sk.RBF(), max_iter=3)
    assert few.fit(inputs + 1e-3 * many[:, None], targets).posterior_ == "fourier"


def test_likelihoods_and_classes_have_features():
    given = {"posterior": FourierFeatures(20), "random_state": 0, "max_iter": 2}
    counts = np.random.RandomState(0).poisson(np.exp(Y))
    model = SparseGPRegressor(likelihood="poisson", bound="pep", **given).fit(X, counts)
    assert model.posterior_ == "fourier" and model.score(X, counts) > 0.3
    labels = np.digitize(Y, [-0.5, 0.5])
    for multi_class in ("one_vs_one", "softmax"):
        model = SparseGPClassifier(sk.RBF(), multi_class=multi_class, optimizer=None, **given)
        assert np.all(np.ravel(model.fit(X, labels).posterior_) == "fourier")
        assert model.score(X, labels) > 0.8
    twice = SparseGPClassifier(warm_start=True, **given).fit(X, Y > 0)
    before = twice.log_marginal_likelihood_value_
    assert twice.fit(X, Y > 0).log_marginal_likelihood_value_ > before - 0.1


def test_what_features_do_not_have_is_refused_in_words():
    model = kept().fit(X, Y)
    for attribute in ("inducing_points_", "n_inducing_", "partial_fit"):
        assert not hasattr(model, attribute)
    with pytest.raises(AttributeError, match="is 'fourier', which keeps none of the rows"):
        model.X_train_  # noqa: B018
    with pytest.raises(ValueError, match="posterior_='fourier'. Set posterior to 'exact'"):
        model.evidence_bounds()
    with pytest.raises(AttributeError) as caught:
        model.partial_fit(X, Y)
    assert "posterior='fourier' takes all rows at once" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"n_components": 0}, "posterior__n_components"),
        ({"n_components": 25}, "an even number"),
        ({"n_components": 10.0}, "posterior__n_components"),
    ],
)
def test_parameters_of_the_wrong_kind(given, message):
    with pytest.raises(ValueError, match=message) as error:
        kept(posterior=FourierFeatures(**given)).fit(X, Y)
    assert repr(next(iter(given.values()))) in str(error.value)


@pytest.mark.parametrize("given", [{"n_inducing": 10}, {"inducing_init": X[:5]}])
def test_features_are_no_inducing_points(given):
    with pytest.raises(ValueError, match="has no inducing points; the number of features is n_com"):
        kept(**given).fit(X, Y)


def test_every_term_of_a_kernel_needs_a_frequency():
    kernel = (
        sk.RBF() + sk.Matern() + sk.RationalQuadratic() + sk.ConstantKernel() + sk.WhiteKernel()
    )
    with pytest.raises(ValueError, match="too few features for the 4 terms.*n_components to 8"):
        kept(kernel=kernel, posterior=FourierFeatures(6)).fit(X, Y)
    model = kept(kernel=kernel, posterior=FourierFeatures(20)).fit(X, Y)
    assert model._fitted.fits[0].posterior.features.basis.counts == (3, 3, 3, 1)

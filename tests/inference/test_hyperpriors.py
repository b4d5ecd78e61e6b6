"""Priors of hyperparameters: their formula, and that every fit counts them once."""

from functools import partial

import numpy as np
import pytest
from conftest import differences
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.hyperpriors import (
    CorrelationPrior,
    LogNormalLengthScales,
    MissingNoisePrior,
    MissingValuePrior,
    ThetaPrior,
    joined,
)
from skgp_sparse.kernels import Categorical, Columns, LogScale, Missing, Sphere
from skgp_sparse.posteriors import FourierFeatures
from skgp_sparse.solvers import LBFGS, Stochastic

RNG = np.random.RandomState(0)
SCALE = np.array([2.0, 0.5, 3.0])
X = RNG.normal(size=(60, 3)) * SCALE
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=60)
ROOT = np.sqrt(2.0)
STRONG = LogNormalLengthScales(location=1.0, variance=0.05)
SHARED = sk.ConstantKernel() * sk.RBF(1.0) + sk.WhiteKernel(0.1)


def log_prior(model, X, prior=STRONG):
    """Independent of the package: that of a kernel whose length scales are all of the columns."""
    of_columns = np.log(model.kernel_.k1.k2.length_scale) - np.log(X.std(axis=0))
    return -0.5 * np.sum((of_columns - prior.location) ** 2) / prior.variance


# the formula


@pytest.mark.parametrize(
    "kernel, positions, mean",
    [
        (sk.RBF([1.0, 1.0, 1.0]), [0, 1, 2], ROOT + 0.5 * np.log(3) + np.log(SCALE)),
        (2.0 * sk.RBF(), [1], ROOT + 0.5 * np.log(3) + 0.5 * np.log(np.mean(SCALE**2))),
        (Columns(sk.Matern(np.ones(2)), [2, 0]), [0, 1], ROOT + np.log(2**0.5 * SCALE[[2, 0]])),
        (sk.RBF() + Columns(sk.RBF(), [1]), [0, 1], None),
        (sk.RBF(1.0, "fixed") + sk.WhiteKernel(), [], []),
        (sk.ExpSineSquared() * sk.RBF(), [2], None),
        (Columns(Sphere(sk.Matern()), [0, 1]), [], []),
    ],
)
def test_which_hyperparameters_have_a_prior_and_where_it_is(kernel, positions, mean):
    prior = LogNormalLengthScales().of(kernel, SCALE)
    np.testing.assert_array_equal(prior.positions, positions)
    if mean is not None:
        np.testing.assert_allclose(prior.mean, mean, rtol=1e-14)


def test_a_location_is_in_units_of_the_columns():
    prior = LogNormalLengthScales(location=0.7).of(sk.RBF([1.0, 1.0, 1.0]), SCALE)
    np.testing.assert_allclose(prior.mean, 0.7 + np.log(SCALE), rtol=1e-14)


def test_the_gradient_is_that_of_central_differences():
    theta = np.array([0.3, -1.0, 2.0, 0.1])
    prior = ThetaPrior(np.array([3, 1]), np.array([1.0, -2.0]), 3.0)
    slopes = differences(prior.log_density, theta, 1e-4)
    np.testing.assert_allclose(prior.gradient(theta), slopes, atol=1e-10)
    assert prior.log_density(np.array([9.0, -2.0, 9.0, 1.0])) == 0.0  # at its maximum


def test_without_positions_nothing_is_added():
    theta = np.ones(3)
    assert ThetaPrior().log_density(theta) == 0.0
    np.testing.assert_array_equal(ThetaPrior().gradient(theta), np.zeros(3))


# what a fit maximises, and what it tells


@pytest.mark.second(share=0.43)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_restarts_optimizer": 2},
        {"kernel": sk.ConstantKernel() * sk.RBF([1.0, 1.0, 1.0]) + sk.WhiteKernel(0.1)},
        {"posterior": "fourier"},
        {"posterior": "inducing", "n_inducing": 20, "tol": 1e-7},
    ],
)
def test_a_fit_maximises_the_objective_and_the_prior_together(options):
    options = {"random_state": 0, "tol": 1e-8} | options
    model = SparseGPRegressor(prior=STRONG, **options).fit(X, Y)
    theta, mean = model.kernel_.theta, STRONG.location + np.log(X.std(axis=0))
    _, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert np.abs(slope[1:4]).max() > 1.0  # of the data alone
    slope[1:4] -= (theta[1:4] - mean) / STRONG.variance
    inside = np.min(np.abs(theta[:, None] - model.kernel_.bounds), axis=1) > 1e-6
    np.testing.assert_allclose(slope[inside], 0.0, atol=0.05)


@pytest.mark.second(share=0.22, thin=1)
@pytest.mark.parametrize("estimator", [SparseGPRegressor, SparseGPClassifier])
@pytest.mark.parametrize("options", [{}, {"posterior": "inducing", "n_inducing": 10}])
def test_the_evidence_that_is_told_is_that_of_the_data(estimator, options):
    y = Y if estimator is SparseGPRegressor else Y > 0
    model = estimator(prior=STRONG, random_state=0, **options).fit(X, y)
    value = model.log_marginal_likelihood(model.kernel_.theta)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, value, rtol=1e-6)
    plain = estimator(prior=None, random_state=0, **options).fit(X, y)
    assert plain.log_marginal_likelihood_value_ > value


def thetas(make, X, y):
    """Of fits with "auto", without a prior, and with one."""
    return [make(prior=p, random_state=0).fit(X, y).kernel_.theta for p in ("auto", None, "scaled")]


@pytest.mark.second(keep=2)
@pytest.mark.parametrize(
    "make, few",
    [
        (SparseGPRegressor, 3),
        (SparseGPClassifier, 20),
        (partial(SparseGPRegressor, likelihood="student_t"), 0),
    ],
)
def test_auto_is_a_prior_of_few_rows_for_each_column(make, few):
    y = Y > 0 if make is SparseGPClassifier else Y
    for d, n in ((3, 3 * few), (3, min(3 * few + 1, 60))):
        auto, none, scaled = thetas(make, X[: n or 9, :d], y[: n or 9])
        expected = scaled if 0 < n <= few * d else none
        np.testing.assert_array_equal(auto, expected)
        assert not np.allclose(none, scaled)


def test_auto_counts_repeated_rows_as_they_are_weighted():
    """Five rows of three columns are few, and not if each stands for two of them."""
    few, twice = (np.repeat(part[:5], 2, axis=0) for part in (X, Y))
    model = SparseGPRegressor(random_state=0)
    repeated = model.fit(few, twice).kernel_.theta
    weighted = model.fit(X[:5], Y[:5], sample_weight=np.full(5, 2.0)).kernel_.theta
    np.testing.assert_array_equal(repeated, weighted)


def test_auto_is_no_prior_of_a_kernel_of_the_user():
    fits = [SparseGPRegressor(SHARED, prior=prior).fit(X, Y) for prior in ("auto", None, "scaled")]
    auto, none, scaled = (fit.kernel_.theta for fit in fits)
    np.testing.assert_array_equal(auto, none)
    assert not np.allclose(scaled, none)


def test_an_explicit_prior_acts_on_a_kernel_of_chosen_columns():
    kernel = sk.ConstantKernel() * Columns(sk.RBF([1.0, 1.0]), [0, 2]) + sk.WhiteKernel(0.1)
    model = SparseGPRegressor(kernel, prior=LogNormalLengthScales(0.5, 1e-6)).fit(X, Y)
    expected = np.exp(0.5) * X.std(axis=0)[[0, 2]]
    found = model.kernel_.get_params()["k1__k2__kernel__length_scale"]
    np.testing.assert_allclose(found, expected, rtol=1e-3)


# every way to a fit


FIRM = LogNormalLengthScales(location=0.5, variance=1e-7)  # stronger than the data
MANY = RNG.normal(size=(700, 2)) * SCALE[:2]
WAVE = np.sin(MANY[:, 0]) + 0.1 * RNG.normal(size=700)


@pytest.mark.second(keep=5)
@pytest.mark.parametrize(
    "options",
    [
        {"posterior": "exact"},
        {"posterior": "inducing", "n_inducing": 20},
        {"posterior": "rows", "n_inducing": 100},
        {"posterior": "neighbors"},
        {"posterior": FourierFeatures(30)},
        {"solver": LBFGS(), "n_inducing": 20},
        {"solver": Stochastic(), "n_inducing": 4},
        {"likelihood": "student_t", "n_inducing": 15},
        {"likelihood": "student_t", "posterior": "neighbors"},
    ],
    ids=str,
)
def test_a_firm_prior_decides_length_scales(options):
    options = {"random_state": 0, "max_iter": 200} | options
    model = SparseGPRegressor(prior=FIRM, **options).fit(MANY, WAVE)
    kernel = model.kernel_ if options.get("likelihood") else model.kernel_.k1
    expected = np.exp(FIRM.location) * MANY.std(axis=0)
    np.testing.assert_allclose(kernel.k2.length_scale, expected, rtol=0.02)


@pytest.mark.second
def test_a_firm_prior_decides_length_scales_of_partial_fit():
    model = SparseGPRegressor(prior=FIRM, n_inducing=15, random_state=0)
    for part in np.array_split(np.arange(700), 3):
        model.partial_fit(MANY[part], WAVE[part])
    expected = np.exp(FIRM.location) * MANY.std(axis=0)
    np.testing.assert_allclose(model.kernel_.k1.k2.length_scale, expected, rtol=0.1)


@pytest.mark.second
def test_classes_have_the_prior_each():
    y = np.digitize(WAVE[:150], [-0.5, 0.5])
    model = SparseGPClassifier(prior=FIRM, n_inducing=15, random_state=0).fit(MANY[:150], y)
    expected = np.exp(FIRM.location) * MANY[:150].std(axis=0)
    for kernel in model.kernel_.kernels:
        np.testing.assert_allclose(kernel.k2.length_scale, expected, rtol=0.02)


def test_a_callable_optimizer_has_the_prior():
    def optimizer(objective, theta, bounds):
        value, slope = objective(theta)
        slopes = differences(lambda at: objective(at, eval_gradient=False), theta)
        np.testing.assert_allclose(slope, slopes, rtol=1e-4, atol=1e-4)
        seen.append(value)
        return theta, value

    seen, kernel = [], sk.ConstantKernel() * sk.RBF([1.0, 1.0, 1.0]) + sk.WhiteKernel(0.1)
    model = SparseGPRegressor(kernel, prior=STRONG, optimizer=optimizer).fit(X, Y)
    expected = -model.log_marginal_likelihood_value_ - log_prior(model, X)
    np.testing.assert_allclose(seen, expected, rtol=1e-10)


@pytest.mark.second(share=0.08)
@pytest.mark.parametrize("solver, tolerance", [(LBFGS(), 0.01), (Stochastic(), 0.05)], ids=str)
def test_the_prior_counts_once_whichever_rows_a_solver_sees(solver, tolerance):
    """The prior weighs as much as all rows: where it counts n times, nothing balances it."""
    prior, rng = LogNormalLengthScales(location=1.0, variance=0.01), np.random.RandomState(3)
    X = rng.uniform(-3, 3, (2000, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=2000)
    kernel = sk.ConstantKernel(1.0, "fixed") * sk.RBF() + sk.WhiteKernel(0.1, "fixed")
    options = {"n_inducing": 10, "random_state": 0, "tol": 1e-5}
    model = SparseGPRegressor(kernel, solver=solver, prior=prior, **options).fit(X, y)
    theta = model.kernel_.theta
    _, (slope,) = model.log_marginal_likelihood(theta, eval_gradient=True)
    of_prior = (prior.location + np.log(X.std()) - theta[0]) / prior.variance
    assert of_prior > 100.0
    np.testing.assert_allclose(-slope, of_prior, rtol=tolerance)


@pytest.mark.second
def test_many_columns_and_few_rows_gain():
    rng, gains = np.random.RandomState(5), []
    for _ in range(3):
        X = rng.normal(size=(540, 20))
        y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=540)
        fits = [SparseGPRegressor(prior=p).fit(X[:40], y[:40]) for p in (None, "scaled")]
        none, scaled = (fit.score(X[40:], y[40:]) for fit in fits)
        gains.append(scaled - none)
    assert np.mean(gains) > 0.0


# the parameter


def test_scaled_is_the_object_without_parameters():
    priors = "scaled", LogNormalLengthScales()
    fits = (SparseGPRegressor(prior=prior).fit(X, Y) for prior in priors)
    np.testing.assert_array_equal(*(fit.kernel_.theta for fit in fits))


def test_a_search_sets_the_parameters_of_a_prior():
    model = SparseGPRegressor(prior=LogNormalLengthScales(), tol=1e-2)
    search = GridSearchCV(model, {"prior__variance": [0.1, 3.0]}, cv=2).fit(X, Y)
    assert search.best_params_["prior__variance"] in (0.1, 3.0)
    assert clone(model).prior.variance == 3.0


@pytest.mark.parametrize("estimator", [SparseGPRegressor, SparseGPClassifier])
@pytest.mark.parametrize(
    "prior, message",
    [
        ("narrow", "'prior' parameter of .* must be"),
        (3.0, "'prior' parameter of .* must be"),
        (LogNormalLengthScales, "'prior' parameter of .* must be"),
        (LogNormalLengthScales(variance=0.0), "prior__variance"),
        (LogNormalLengthScales(variance=np.inf), "prior__variance"),
        (LogNormalLengthScales(location="auto"), "prior__location"),
        (LogNormalLengthScales(location=np.nan), "prior__location"),
        (MissingNoisePrior(location=0.0), "prior__location"),
        (MissingNoisePrior(location="scaled"), "prior__location"),
    ],
)
def test_a_prior_that_cannot_be_used_is_refused(estimator, prior, message):
    with pytest.raises(ValueError, match=message):
        estimator(prior=prior).fit(X, Y > 0)


def test_parameters_of_a_name_cannot_be_set():
    with pytest.raises(ValueError, match="prior is 'auto'"):
        SparseGPRegressor().set_params(prior__variance=1.0)


def test_pooled_correlations_are_normal_around_their_mean():
    kernel = Columns(Categorical(correlation=np.array([0.3, 0.6, 0.9])), [0, 1, 2])
    kernel = sk.ConstantKernel() * kernel * Columns(Categorical(), 3) + sk.WhiteKernel()
    prior = CorrelationPrior(variance=2.0).of(kernel, np.ones(4))
    t = np.log(-np.log([0.3, 0.6, 0.9]))
    assert prior.log_density(kernel.theta) == pytest.approx(-np.sum((t - t.mean()) ** 2) / 4.0)
    expected = differences(prior.log_density, kernel.theta, 1e-6)
    np.testing.assert_allclose(prior.gradient(kernel.theta), expected, atol=1e-8)
    both = joined([CorrelationPrior(), LogNormalLengthScales()], kernel * sk.RBF(), np.ones(4))
    assert len(both.positions) == 1 and len(both.groups) == 1


def test_neutral_values_are_near_the_mean():
    kernel = sk.ConstantKernel() * Missing(sk.RBF(), columns=[0, 2], neutral=np.exp([0.5, -1.0]))
    prior = MissingValuePrior(variance=0.2).of(kernel, np.ones(3))
    assert prior.log_density(kernel.theta) == pytest.approx(-0.5 * (0.25 + 1.0) / 0.2)
    three = [LogNormalLengthScales(), MissingValuePrior(0.2), CorrelationPrior(2.0)]
    joint, theta = joined(three, kernel, np.ones(3)), kernel.theta
    alone = [one.of(kernel, np.ones(3)) for one in three]
    assert joint.log_density(theta) == pytest.approx(sum(one.log_density(theta) for one in alone))
    total = sum(one.gradient(theta) for one in alone)
    np.testing.assert_allclose(joint.gradient(theta), total, rtol=1e-12)


def test_two_priors_of_the_same_hyperparameters():
    kernel = sk.ConstantKernel() * sk.RBF([0.5, 2.0])
    two = [LogNormalLengthScales(0.0, 1.0), LogNormalLengthScales(1.0, 2.0)]
    joint, theta = joined(two, kernel, np.ones(2)), kernel.theta
    expected = differences(joint.log_density, theta, 1e-6)
    np.testing.assert_allclose(joint.gradient(theta), expected, atol=1e-8)


@pytest.mark.second
def test_neutral_values_are_in_units_of_what_is_seen():
    rng = np.random.RandomState(0)
    X = np.exp(2.0 * rng.normal(size=(150, 3)))
    y = np.log(X) @ [1.0, 0.5, -1.0] + 0.2 * rng.normal(size=150)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    model = SparseGPRegressor(random_state=0).fit(X, y)
    scale = next(p for p in model.kernel_.get_params().values() if isinstance(p, LogScale))
    missing = next(p for p in scale.get_params().values() if isinstance(p, Missing))
    seen = scale.transform(X)
    np.testing.assert_allclose(missing.units[0], np.nanmean(seen, axis=0), rtol=1e-9)
    np.testing.assert_allclose(missing.units[1], np.nanstd(seen, axis=0), rtol=1e-9)


@pytest.mark.second
def test_the_default_kernel_keeps_neutral_values_near_the_mean():
    rng = np.random.RandomState(0)
    gaps = rng.normal(size=(60, 4))
    y = gaps[:, 0] + 0.3 * rng.normal(size=60)
    gaps[rng.uniform(size=gaps.shape) < 0.2] = np.nan
    distances = [
        np.abs(np.log(SparseGPRegressor(prior=prior).fit(gaps, y).kernel_.k1.k2.neutral)).max()
        for prior in ("auto", None)
    ]
    assert distances[0] < 0.5 * distances[1]


@pytest.mark.second
def test_the_default_kernel_pools_correlations():
    rng = np.random.RandomState(0)
    codes = rng.randint(0, 3, size=(300, 8))
    y = (codes[:, 0] == 1) + 0.5 * rng.normal(size=300)
    fits = {
        prior: SparseGPRegressor(prior=prior, categorical_features=[*range(8)]).fit(codes, y)
        for prior in ("auto", None)
    }
    spread = {name: np.std(fit.kernel_.theta[1:9]) for name, fit in fits.items()}
    assert spread["auto"] < 0.8 * spread[None]
    fit = fits["auto"]
    value = fit.log_marginal_likelihood(fit.kernel_.theta)
    assert value == pytest.approx(fit.log_marginal_likelihood_value_)  # of the data alone
    assert value < fits[None].log_marginal_likelihood_value_

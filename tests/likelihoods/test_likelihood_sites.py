"""Sites of every likelihood and method: gradients, laws, weights, powers, starts and failures."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from conftest import KERNELS, agree, agree_evaluations, check_site_gradient, infer, make_case
from gaussian import Gaussian
from inside import (
    ExpectationPropagation,
    InducingBasis,
    Inner,
    Options,
    SiteObjective,
    SiteObjectives,
    Softmax,
    Variational,
    collapsed_sites,
)
from scipy.integrate import quad
from sklearn.gaussian_process import kernels as sk
from tiers import crossed

from skgp_sparse import SparseGPClassifier, likelihoods

TIGHT = Inner(max_iter=1000, tol=1e-21)
FREE = (1e-6, 1e6)
LIKELIHOODS = {
    "poisson": likelihoods.Poisson(level=0.4),
    "negative_binomial": likelihoods.NegativeBinomial(1.7, FREE, level=0.4),
    "gamma": likelihoods.Gamma(1.8, FREE, level=0.4),
    "student_t": likelihoods.StudentT(0.3, FREE, 3.5, FREE, level=0.2),
    "censored": likelihoods.Censored(0.0, scale=0.4, scale_bounds=FREE, level=0.2),
    "beta": likelihoods.Beta(6.0, FREE, level=0.2),
    "gaussian": Gaussian(0.3, FREE),
    "probit": likelihoods.Probit(),
    "logit": likelihoods.Logit(),
    "softmax": Softmax(3),
    "ordinal": likelihoods.Ordinal(-0.6, (0.8, 0.3)),
}
POWERS = {"gfitc-ep": 1.0, "pep": 0.5, "pep_0.2": 0.2}
METHODS = ("titsias", "titsias_new", *POWERS)


def exists(likelihood, method, *others):
    return method not in POWERS or likelihood not in ("student_t", "beta", "softmax")


PAIRS = [(likelihood, method) for likelihood in LIKELIHOODS for method in METHODS]
PAIRS = [pair for pair in PAIRS if exists(*pair)]


def method_of(likelihood, name):
    likelihood = LIKELIHOODS[likelihood] if isinstance(likelihood, str) else likelihood
    if name in POWERS:
        return ExpectationPropagation(likelihood, POWERS[name])
    return Variational(likelihood, name == "titsias_new")


def observed(likelihood, case, rng):
    """Observations of a random process, with some outliers if their likelihood is used to them."""
    f = 0.8 * case.y.ravel()
    if likelihood == "softmax":
        return np.argmax([f, -f, 0.5 * rng.normal(size=len(f))], axis=0).astype(float)
    if likelihood in ("probit", "logit"):
        return np.where(f > 0, 1.0, -1.0)
    if likelihood == "student_t":
        return f + np.where(np.arange(len(f)) % 11 == 0, 3.0, 0.0)
    own = LIKELIHOODS[likelihood]
    drawn = np.asarray(own.sample(f, np.random.RandomState(1)), dtype=float)
    return np.clip(drawn, *own.ends)


def table_of(likelihood, name="rbf_ard", *, weight=None, noise="known", n=30, offset=True):
    """A random table of the likelihood."""
    rng = np.random.default_rng(3)
    case = make_case(name, noise, n=n, seed=1)._replace(noise=0.0)
    case = case._replace(y=observed(likelihood, case, rng))
    if weight == "whole":
        case = case._replace(weight=rng.integers(0, 4, n).astype(float))
    if weight == "fractional":
        case = case._replace(weight=rng.uniform(0.05, 2.0, n))
    shifts = rng.normal(size=n) if offset and likelihood != "softmax" else None
    return case, replace(case.rows(), offset=shifts)


def objective(likelihood, method, name="rbf_ard", inner=TIGHT, **table):
    case, rows = table_of(likelihood, name, **table)
    method = method_of(likelihood, method)
    return SiteObjective(rows, method, InducingBasis(case.Z), Options(case.jitter), inner), case


@pytest.mark.second(share=0.02)
@crossed(exists, likelihood=LIKELIHOODS, method=METHODS, name=["rbf_ard", "matern_1.5", "sum"])
def test_total_gradient_is_that_of_the_optimised_objective(likelihood, method, name):
    found, case = objective(likelihood, method, name)
    inner_state = found.value_and_gradient(case.kernel).inner_state  # of Student-t: the same mode
    check_site_gradient(found, case.kernel, case.Z, inner_state=inner_state)


@pytest.mark.second(share=0.02)
@crossed(
    exists,
    likelihood=LIKELIHOODS,
    method=METHODS,
    noise=["known", "white"],
    weight=["whole", "fractional"],
)
def test_total_gradient_with_weights_and_white_noise(likelihood, method, noise, weight):
    found, case = objective(likelihood, method, weight=weight, noise=noise)
    inner_state = found.value_and_gradient(case.kernel).inner_state
    check_site_gradient(found, case.kernel, case.Z, inner_state=inner_state)


@pytest.mark.second(share=0.02)
@crossed(
    exists,
    likelihood=[name for name in LIKELIHOODS if name != "student_t"],  # see the tests above
    method=METHODS,
    noise=["known", "white"],
    weight=[None, "whole", "fractional"],
)
def test_total_gradient_where_every_row_is_an_inducing_point(likelihood, method, noise, weight):
    case, rows = table_of(likelihood, weight=weight, noise=noise, n=20)
    found = SiteObjectives(method_of(likelihood, method), TIGHT).exact(rows, Options())
    check_site_gradient(replace(found, inner=TIGHT), case.kernel, case.Z)


@pytest.mark.second(share=0.35)
@pytest.mark.parametrize("likelihood, method", PAIRS)
def test_weights_are_repeated_rows(likelihood, method):
    found, case = objective(likelihood, method, weight="whole")
    again = np.repeat(np.arange(len(case.X)), case.weight.astype(int))
    repeated = replace(found, rows=replace(found.rows.subset(again), weight=None))
    first, second = (one.value_and_gradient(case.kernel, True) for one in (found, repeated))
    agree_evaluations(first, second, 1e-8)
    if "likelihood" in first.gradient:
        agree(first.gradient["likelihood"], second.gradient["likelihood"], 1e-8)


@pytest.mark.second(share=0.03)
@pytest.mark.parametrize("likelihood, method", PAIRS)
def test_blocks_threads_and_memory_change_nothing(likelihood, method):
    found, case = objective(likelihood, method, n=200)
    whole = found.value_and_gradient(case.kernel, True)
    for options in ({"memory": 1.0}, {"memory": 1e5, "n_jobs": 2}, {"n_jobs": 2}):
        other = replace(found, options=Options(case.jitter, **options))
        agree_evaluations(other.value_and_gradient(case.kernel, True), whole, 1e-8)


# -- laws ------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["poisson", "probit", "gamma"])
def test_small_powers_approach_the_variational_bound(likelihood):
    found, case = objective(likelihood, "titsias")
    bound = found.value(case.kernel)
    excess = []
    for power in (0.004, 0.002):
        method = ExpectationPropagation(LIKELIHOODS[likelihood], power)
        excess.append((replace(found, site_method=method).value(case.kernel) - bound) / power)
    assert 0 < excess[0] and abs(excess[1] / excess[0] - 1.0) < 0.05


@pytest.mark.parametrize("method", ["titsias", "titsias_new"])
def test_student_t_of_large_df_is_gaussian(method):
    found, case = objective("gaussian", method, offset=False)
    limit = replace(
        found, site_method=method_of(likelihoods.StudentT(0.3**0.5, FREE, 1e7, level=0.0), method)
    )
    agree(limit.value(case.kernel), found.value(case.kernel), 1e-5)


@pytest.mark.parametrize("method", ["titsias", "titsias_new"])
def test_softmax_of_two_classes_is_the_logit_of_a_difference(method):
    """The difference of two processes is one of twice the variance; the sum says nothing."""
    case, rows = table_of("logit", offset=False)
    classes = replace(rows, y=(rows.y + 1.0) / 2.0)
    basis, options = InducingBasis(case.Z), Options(case.jitter)
    two = SiteObjective(classes, method_of(Softmax(2), method), basis, options, TIGHT)
    one = SiteObjective(rows, method_of("logit", method), basis, options, TIGHT)
    twice = sk.ConstantKernel(2.0) * case.kernel
    posteriors = [two.conclude(case.kernel).posterior, one.conclude(twice).posterior]
    (mean, variance), (m, s) = (found.mean_and_variance(case.X + 0.2) for found in posteriors)
    p = Softmax(2).probability(mean.T, variance.T)[1]
    # the two agree as far as a diagonal q over (f1, f2) can say what one over f1 - f2 does
    assert np.abs(p - likelihoods.Logit().probability(m[:, 0], s)).max() < 0.02
    assert two.value(case.kernel) <= one.value(twice) + 1e-9


# -- weights below one -----------------------------------------------------------------


def far_apart(weight, variance=50.0):
    """Four independent rows, all of them inducing points, and their labels."""
    X = 1e3 * np.arange(4.0)[:, None]
    case = make_case()._replace(X=X, y=np.array([1.0, -1.0, 1.0, 1.0]), noise=0.0)
    case = case._replace(weight=np.full(4, float(weight)))
    return case._replace(kernel=sk.ConstantKernel(variance) * sk.RBF(1.0), Z=X)


@pytest.mark.second(share=0.02, thin=2)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("likelihood", ["probit", "logit", "poisson"])
@pytest.mark.parametrize("w", [0.1, 0.3, 0.5, 1.0, 2.0, 3.0])
def test_log_evidence_of_independent_rows_is_exact_for_weights_up_to_one(w, likelihood, exact):
    case = far_apart(w, variance=50.0 if likelihood != "poisson" else 2.0)
    y = case.y if likelihood != "poisson" else np.array([0.0, 3.0, 1.0, 7.0])
    rows = replace(case.rows(), y=y[:, None])
    found = SiteObjectives(method_of(likelihood, "gfitc-ep"), TIGHT)
    found = found.exact(rows, Options()) if exact else found.sparse(rows, case.Z, Options())
    expected = sum(log_expected_power(likelihood, one, case.kernel, w) for one in y)
    value = replace(found, inner=TIGHT).value(case.kernel)
    if w <= 1.0:
        agree(value, expected, 1e-7)
    repeated = replace(found, rows=rows.subset(np.repeat(np.arange(4), int(max(w, 1)))))
    if w >= 1.0 and not exact:
        again = replace(repeated, rows=replace(repeated.rows, weight=None), inner=TIGHT)
        agree(value, again.value(case.kernel), 1e-9)


def log_expected_power(likelihood, y, kernel, w):
    variance = kernel.diag(np.zeros((1, 1)))[0]
    density = lambda f: np.exp(
        w * LIKELIHOODS[likelihood].expected(*map(np.atleast_1d, (y, f, 1e-14)))[0][0]
        - 0.5 * f**2 / variance
    )
    points = np.linspace(-60, 60, 41) * np.sqrt(variance / 50.0)
    return np.log(
        sum(quad(density, a, b, epsabs=1e-14)[0] for a, b in zip(points[:-1], points[1:]))
        / np.sqrt(2 * np.pi * variance)
    )


@pytest.mark.full
@pytest.mark.parametrize("bound", ["gfitc-ep", "pep"])
def test_a_thousand_random_weighted_fits_neither_raise_nor_warn(bound):
    rng = np.random.default_rng(0)
    for trial in range(500):
        X, y = rng.uniform(-3, 3, (12, 1)), np.where(rng.uniform(size=12) < 0.5, "a", "b")
        y[:2] = "a", "b"
        variance, length = np.exp(rng.uniform(-1, 5)), np.exp(rng.uniform(-1, 1))
        kernel = sk.ConstantKernel(variance) * sk.RBF(length)
        given = {"likelihood": ("probit", "logit")[trial % 2], "optimizer": None}
        given["n_inducing"] = int(rng.integers(2, 15))
        check_quiet_fit(X, y, rng.uniform(1e-3, 2.0, 12), kernel=kernel, bound=bound, **given)


def check_quiet_fit(X, y, weight, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseGPClassifier(**given, random_state=0).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.log_marginal_likelihood_value_)


@pytest.mark.second
@pytest.mark.parametrize("bound", ["gfitc-ep", "pep"])
def test_default_fits_with_random_weights_neither_raise_nor_warn(bound):
    rng = np.random.default_rng(1)
    for _ in range(8):
        X = rng.uniform(-3, 3, (30, 1))
        y = np.where(np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=30) > 0, 1, 0)
        check_quiet_fit(X, y, rng.uniform(0.0, 2.0, 30), bound=bound, n_inducing=8)


# -- Student-t is not log-concave ------------------------------------------------------


@pytest.mark.parametrize("method", ["titsias", "titsias_new"])
def test_outliers_have_sites_of_negative_precision(method):
    found, case = objective("student_t", method)
    solution = infer(found, case.kernel)
    assert solution.converged and solution.state[1].min() < -0.5
    majorised = replace(
        found,
        site_method=replace(found.site_method, likelihood=LIKELIHOODS["student_t"].majorised()),
    )
    assert majorised.value(case.kernel) < solution.step.value


@pytest.mark.parametrize("length", [1.0, 1e-3])
@pytest.mark.parametrize("method", ["titsias", "titsias_new"])
def test_sites_that_no_posterior_has_are_left_behind(method, length):
    found, case = objective("student_t", method)
    kernel = sk.ConstantKernel(0.6) * sk.RBF(length)  # V is nearly 0 where it is short
    inner_state = found.value_and_gradient(kernel).inner_state
    wild = inner_state._replace(sites=-50.0 * inner_state.sites)
    agree(found.value(kernel, wild), found.value(kernel), 1e-8)


# -- starts and safe ranges ------------------------------------------------------------


@pytest.mark.parametrize("variance", [1.0, 25.0])
@pytest.mark.parametrize("rate", [-3.0, 0.0, 3.0, 9.0])
@pytest.mark.parametrize("method", ["titsias", "titsias_new", "gfitc-ep"])
def test_few_iterations_at_any_rate(rate, variance, method):
    rng = np.random.RandomState(0)
    case = make_case("matern_2.5", "known", n=60)
    y = rng.poisson(np.exp(rate + 0.5 * case.y.ravel())).astype(float)
    rows = replace(case.rows(), y=y[:, None], noise=0.0)
    kernel = sk.ConstantKernel(variance) * sk.Matern([1.0, 1.5], nu=2.5)
    model = SiteObjectives(method_of(likelihoods.Poisson(level=rate), method), Inner())
    solution = infer(model.sparse(rows, case.Z, Options()), kernel)
    assert solution.converged and solution.n_iter <= 31


def test_an_overflow_is_an_error_of_the_evaluation_and_not_a_number():
    found, case = objective("poisson", "titsias")
    huge = sk.ConstantKernel(1e5) * sk.RBF([1e-3, 1e-3])
    with np.errstate(all="ignore"), pytest.raises(np.linalg.LinAlgError, match="overflow"):
        found.value(huge)


@pytest.mark.second(share=0.07)
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_of_counts_for_every_kernel(name):
    found, case = objective("poisson", "titsias_new", name, n=25)
    check_site_gradient(found, case.kernel, case.Z)


def test_negative_precisions_act_on_the_kernel_matrix_as_on_features():
    """The objective of all rows, with and without features, at sites of outliers."""
    case = make_case("matern_2.5", "known", n=60)
    y = case.y.ravel() + np.where(np.arange(60) % 7 == 0, 8.0, 0.0)
    rows = replace(case.rows(), y=y[:, None], noise=0.0)
    model = SiteObjectives(
        method_of(likelihoods.StudentT(0.3, level=0.0), "titsias"), Inner(tol=1e-14)
    )
    joint = model.exact(rows, Options())
    projected = replace(joint, project=collapsed_sites.project_rows)
    kernel = sk.ConstantKernel(2.0) * sk.Matern([1.0, 1.5], nu=2.5)
    ours, theirs = (one.value_and_gradient(kernel) for one in (joint, projected))
    assert np.asarray(ours.inner_state.sites)[1].min() < 0.0
    agree(ours.value, theirs.value, 1e-7)  # features have a jitter, 3e-8 beside dense algebra
    for name in ("kernel", "likelihood"):
        agree(ours.gradient[name], theirs.gradient[name], 1e-6)
    queries = case.X[:5] + 0.1
    ours, theirs = (one.conclude(kernel).posterior for one in (joint, projected))
    for mine, other in zip(ours.mean_and_variance(queries), theirs.mean_and_variance(queries)):
        agree(mine, other, 1e-6)

"""Every panel of scikit-learn's Gaussian process gallery: our numbers beside scikit-learn's.

Each panel is fitted three times in the same run: by scikit-learn; by our estimator with the name
alone exchanged; and by our estimator with scikit-learn's model (`SAME`, `LOGIT`). `gallery_panels`
has the panels; docs/differences.md says why the first two
differ. Means and deviations are compared in units of the standard deviation of y.
"""

from functools import cache

import numpy as np
import pytest
from gallery_panels import CLASSIFICATION, REGRESSION
from numpy.testing import assert_allclose
from scipy.special import expit, log_expit
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import GenericKernelMixin, Hyperparameter, Kernel, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

pytestmark = [pytest.mark.second(share=0), pytest.mark.filterwarnings("ignore")]
SAME = {"alpha": 1e-10, "normalize_y": False}  # the model of GaussianProcessRegressor
LOGIT = {"likelihood": "logit"}  # that of GaussianProcessClassifier
NATS = 0.01  # by which a fit may end below an optimum
LONG = ("gpr_co2",)


def panels(names):
    """Every second panel is of the second tier; the others, and long ones, are full."""
    full = {name for k, name in enumerate(names) if k % 2 or name in LONG}
    cases = [pytest.param(name, marks=pytest.mark.full if name in full else ()) for name in names]
    return pytest.mark.parametrize("name", cases)


def fitted(estimator, panel, **options):
    options = {"random_state": 0, **options, **panel.options}
    return estimator(panel.kernel, **options).fit(panel.X, panel.y)


# -- regression -----------------------------------------------------------------------------


@cache
def gpr(name):
    return fitted(GaussianProcessRegressor, REGRESSION[name])


@cache
def renamed(name):
    return fitted(SparseGPRegressor, REGRESSION[name])


@cache
def same(name):
    return fitted(SparseGPRegressor, REGRESSION[name], **SAME)


@cache
def gpr_with_our_defaults(name):
    """scikit-learn's best fit with normalised targets, and noise where the panel has none."""
    panel, kernels = REGRESSION[name], [REGRESSION[name].kernel]
    if not ("alpha" in panel.options or "WhiteKernel" in repr(panel.kernel)):
        bounds = renamed(name).kernel_.k2.noise_level_bounds
        kernels = [panel.kernel + WhiteKernel(level, bounds) for level in (1e-6, 1e-3, 0.1)]
    options = {"normalize_y": True, **panel.options}
    if "alpha" in options:
        options["alpha"] /= panel.y.var()
    fits = [
        fitted(GaussianProcessRegressor, panel._replace(kernel=kernel, options=options))
        for kernel in kernels
    ]
    return max(fits, key=lambda fit: fit.log_marginal_likelihood_value_)


def distances(name, model, other):
    """Largest differences of two models' means and deviations on the grid of a panel."""
    panel = REGRESSION[name]
    pairs = zip(*(fit.predict(panel.grid, return_std=True) for fit in (model, other)))
    return [np.abs(ours - theirs).max() / panel.y.std() for ours, theirs in pairs]


def at(name):
    """Our process of scikit-learn's model, at the hyperparameters that scikit-learn found."""
    panel = REGRESSION[name]
    options = {**panel.options, "optimizer": None, "n_restarts_optimizer": 0}
    panel = panel._replace(kernel=gpr(name).kernel_, options=options)
    return fitted(SparseGPRegressor, panel, **SAME)


@panels(REGRESSION)
@pytest.mark.second(share=0.05)
def test_at_the_same_hyperparameters_evidence_means_and_deviations_are_equal(name):
    model, reference = at(name), gpr(name)
    theta = reference.kernel_.theta
    rtol = 1e-3 if "dot_product" in name else 1e-9  # of 8e9 nats: three parameters, ten rows
    atol = 0.01 if "rational" in name else 1e-8  # alpha grows to 1e9, where theirs loses digits
    for value in (model.log_marginal_likelihood(theta), model.log_marginal_likelihood_value_):
        assert_allclose(value, reference.log_marginal_likelihood_value_, rtol=rtol, atol=atol)
    tolerance = {"dot_product": 3e-3, "rational_quadratic": 0.01}.get(name.split("-")[-1], 1e-8)
    assert max(distances(name, model, reference)) < tolerance


@panels(REGRESSION)
def test_the_same_model_ends_as_high(name):
    model = same(name).log_marginal_likelihood_value_
    assert model > gpr(name).log_marginal_likelihood_value_ - NATS


# the evidence of a parabola and noise of 1e-10 is -8e9, and its optimum a rounding error
RESOLVED = [name for name in REGRESSION if "dot_product" not in name]
FLAT = {  # hyperparameters that the evidence does not depend on
    "gpr_noisy-much_noise": [1],  # the length scale of a constant
    "gpr_prior_posterior-rational_quadratic": [1],  # its alpha: it is an RBF
}


@panels(RESOLVED)
def test_the_same_model_learns_the_same_hyperparameters(name):
    learned, expected = (
        np.delete(fit.kernel_.theta, FLAT.get(name, [])) for fit in (same(name), gpr(name))
    )
    assert_allclose(learned, expected, atol=0.02)


@panels(RESOLVED)
def test_the_same_model_draws_the_same_means_and_deviations(name):
    tolerance = 0.1 if "rational" in name else 1e-3  # alpha grows to 1e9, where digits are lost
    assert max(distances(name, same(name), gpr(name))) < tolerance


@panels(REGRESSION)
def test_the_name_alone_ends_as_high_as_gpr_with_normalised_targets_and_noise(name):
    model = renamed(name).log_marginal_likelihood_value_
    nats = 0.1 if "rational" in name else NATS  # theirs at alpha = 1e10, where it has lost digits
    assert model > gpr_with_our_defaults(name).log_marginal_likelihood_value_ - nats


@panels(REGRESSION)
def test_the_name_alone_draws_what_gpr_draws_with_normalised_targets_and_noise(name):
    tolerance = 0.2 if "rational" in name else 5e-3  # alpha grows to 1e10, where digits are lost
    assert max(distances(name, renamed(name), gpr_with_our_defaults(name))) < tolerance


UNLIKE = {  # what docs/differences.md says of two panels
    "gpr_noisy-little_noise": 0.8,  # normalised targets have their prior mean at the mean of y
    "gpr_noisy-restarts": 0.8,
    "gpr_prior_posterior-dot_product": 1.0,  # no parabola goes through the rows: there is noise
}


@panels(REGRESSION)
@pytest.mark.second(share=0.05)
def test_the_name_alone_draws_what_looks_like_scikit_learns(name):
    assert max(distances(name, renamed(name), gpr(name))) < UNLIKE.get(name, 0.2)


@panels([name for name in REGRESSION if "prior" in name])
def test_before_a_fit_panels_are_equal(name):
    panel = REGRESSION[name]
    for options in ({}, SAME):
        model = SparseGPRegressor(panel.kernel, **options)
        prior = GaussianProcessRegressor(panel.kernel)
        assert max(distances(name, model, prior)) < 1e-12


def test_the_landscape_of_the_noise_is_scikit_learns():
    name = "gpr_noisy-little_noise"
    thetas = REGRESSION[name].landscape[::8, ::8].reshape(-1, 3)
    values = [same(name).log_marginal_likelihood(theta) for theta in thetas]
    expected = [gpr(name).log_marginal_likelihood(theta) for theta in thetas]
    assert_allclose(values, expected, rtol=1e-9)


# -- classification -------------------------------------------------------------------------


@cache
def gpc(name):
    return fitted(GaussianProcessClassifier, CLASSIFICATION[name])


@cache
def logit(name):
    return fitted(SparseGPClassifier, CLASSIFICATION[name], **LOGIT)


@cache
def probit(name):
    return fitted(SparseGPClassifier, CLASSIFICATION[name])


def probabilities(name, *models):
    return [model.predict_proba(CLASSIFICATION[name].grid) for model in models]


def unlearned(estimator, name, kernel, **options):
    panel = CLASSIFICATION[name]
    options = {**panel.options, **options, "optimizer": None}
    return fitted(estimator, panel._replace(kernel=kernel, options=options))


@panels(CLASSIFICATION)
@pytest.mark.second(share=0.05)
def test_before_learning_the_logit_process_is_close_to_laplaces(name):
    kernel = CLASSIFICATION[name].kernel
    model = unlearned(SparseGPClassifier, name, kernel, **LOGIT)
    reference = unlearned(GaussianProcessClassifier, name, kernel)
    ours, theirs = (m.log_marginal_likelihood_value_ for m in (model, reference))
    assert_allclose(ours, theirs, atol=0.25)
    assert np.abs(np.subtract(*probabilities(name, model, reference))).max() < 0.12


@panels(CLASSIFICATION)
@pytest.mark.parametrize("exchanged", [logit, probit])
def test_classes_are_those_of_gpc_on_nearly_all_of_the_grid(name, exchanged):
    ours, theirs = (p.argmax(axis=1) for p in probabilities(name, exchanged(name), gpc(name)))
    assert np.mean(ours != theirs) < 0.03


@panels(CLASSIFICATION)
@pytest.mark.parametrize("exchanged", [logit, probit])
def test_the_evidence_is_a_few_nats_from_laplaces(name, exchanged):
    ours, theirs = (fit.log_marginal_likelihood_value_ for fit in (exchanged(name), gpc(name)))
    assert abs(ours - theirs) < 6


def draws_of_probabilities(panel, kernel, grid, n_draws=8000, seed=0):
    """Mean of a Markov chain of latent values (elliptical slices), which approximates nothing."""
    rng, sign = np.random.RandomState(seed), np.where(panel.y, 1, -1)
    K, Ks = kernel(panel.X), kernel(panel.X, grid)
    K.flat[:: len(K) + 1] += 1e-8 * K.max()
    L, weights = np.linalg.cholesky(K), np.linalg.solve(K, Ks)
    deviation = np.sqrt(np.maximum(kernel.diag(grid) - np.sum(weights * Ks, axis=0), 0))
    f, mean = np.zeros(len(K)), np.zeros(len(grid))
    for draw in range(n_draws):
        f = on_the_ellipse(f, L @ rng.randn(len(K)), lambda f: log_expit(sign * f).sum(), rng)
        if draw >= n_draws // 10:
            mean += expit(f @ weights + deviation * rng.randn(len(grid)))
    return mean / (n_draws - n_draws // 10)


def on_the_ellipse(f, other, log_likelihood, rng):
    """The next state of a chain by Murray, Adams and MacKay (2010), algorithm 2."""
    height, angle = log_likelihood(f) + np.log(rng.uniform()), rng.uniform(0, 2 * np.pi)
    low, high = angle - 2 * np.pi, angle
    while True:
        proposed = f * np.cos(angle) + other * np.sin(angle)
        if log_likelihood(proposed) > height:
            return proposed
        low, high = (angle, high) if angle < 0 else (low, angle)
        angle = rng.uniform(low, high)


@pytest.mark.parametrize(
    ("name", "laplace"),
    [("gpc-initial", 0.01), ("gpc-optimised", 0.3), ("gpc_xor-dot_product", 0.2)],
)
def test_where_gpc_and_ours_differ_a_markov_chain_agrees_with_ours(name, laplace):
    """At GPC's hyperparameters, at which Laplace's method is off by more than `laplace`."""
    panel = CLASSIFICATION[name]
    panel = panel._replace(grid=panel.grid[::7])
    chain = draws_of_probabilities(panel, gpc(name).kernel_, panel.grid)
    model = unlearned(SparseGPClassifier, name, gpc(name).kernel_, **LOGIT)
    ours, theirs = (m.predict_proba(panel.grid)[:, 1] for m in (model, gpc(name)))
    assert np.abs(ours - chain).max() < 0.05
    assert np.abs(theirs - chain).max() > laplace


def test_the_landscape_of_gpc_is_smooth():
    thetas = CLASSIFICATION["gpc-optimised"].landscape[::2, ::2]
    values = np.apply_along_axis(logit("gpc-optimised").log_marginal_likelihood, 2, thetas)
    for axis in (0, 1):
        assert np.abs(np.diff(values, n=2, axis=axis)).max() < 3  # Laplace's: 2.4


# -- sequences ------------------------------------------------------------------------------


class SharedLetters(GenericKernelMixin, Kernel):
    """How many pairs of letters of two sequences are equal; others count by `baseline`."""

    def __init__(self, baseline=0.5, baseline_bounds=(1e-5, 1)):
        self.baseline, self.baseline_bounds = baseline, baseline_bounds

    @property
    def hyperparameter_baseline(self):
        return Hyperparameter("baseline", "numeric", self.baseline_bounds)

    def __call__(self, X, Y=None, eval_gradient=False):
        others = X if Y is None else Y
        unequal = np.array([[sum(a != b for a in s for b in t) for t in others] for s in X], float)
        pairs = np.outer([len(s) for s in X], [len(t) for t in others])
        K = pairs - (1 - self.baseline) * unequal
        return (K, self.baseline * unequal[:, :, None]) if eval_gradient else K

    def diag(self, X):
        return np.array([self([s])[0, 0] for s in X])

    def is_stationary(self):
        return False


@pytest.mark.parametrize(
    ("theirs", "ours", "y"),
    [
        (GaussianProcessRegressor, SparseGPRegressor, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]),
        (GaussianProcessClassifier, SparseGPClassifier, [True, True, True, True, True, False]),
    ],
)
@pytest.mark.second(share=1)
def test_sequences_are_refused_in_words_that_name_what_takes_them(theirs, ours, y):
    X = np.array(["AGCT", "AGC", "AACT", "TAA", "AAA", "GTC"])
    theirs(SharedLetters()).fit(X, y)
    with pytest.raises(ValueError, match=f"numeric arrays.*use scikit-learn's {theirs.__name__}"):
        ours(SharedLetters()).fit(X, y)

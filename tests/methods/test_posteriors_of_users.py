"""A posterior method that a user writes in one file works everywhere, or is refused in words."""

import pickle
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
import pytest
from inside import check_number
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels, posteriors
from skgp_sparse.testing import check_posterior

RNG = np.random.RandomState(0)
X = RNG.uniform(-3, 3, (200, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=200)


class SubsetOfData(posteriors.PosteriorMethod):
    """The exact posterior of some random rows."""

    name = "subset"

    def __init__(self, n_rows=200):
        self.n_rows = n_rows

    def check_parameters(self, name):
        check_number(self.n_rows, "posterior__n_rows", name, Integral, low=1)

    def fit(self, job, random_state):
        few = job.rows.sampled(job.rows.sample(self.n_rows, random_state))
        return posteriors.Exact().fit(job._replace(rows=few), random_state)


class Unchecked(SubsetOfData):
    """The same without a check of its own."""

    def check_parameters(self, name):
        pass


@dataclass(frozen=True, eq=False)
class Nothing(posteriors.Posterior):
    """A posterior that learns nothing but the mean of the targets, which is 0."""

    kernel: object
    shift: float = 0.0

    name = "nothing"
    width = 1

    def mean(self, X, n_jobs=1):
        return np.zeros((len(X), 1))

    def mean_and_variance(self, X, n_jobs=1):
        signal = kernels.diagonal(self.kernel, np.asarray(X, float))[0]
        return self.mean(X), np.full(len(X), signal) + self.shift

    def covariance(self, X):
        X = np.asarray(X, float)
        return np.array(kernels.evaluate(self.kernel, X, X))


class LearnNothing(posteriors.PosteriorMethod):
    """The method that leads to `Nothing`: it has no objective."""

    name = "nothing"

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, job, random_state):
        return posteriors.Fit(job.kernel, None, Nothing(job.kernel, self.shift), value=0.0)


def subset(n_rows=60, **options):
    return SparseGPRegressor(posterior=SubsetOfData(n_rows), random_state=0, **options)


@pytest.mark.second
@pytest.mark.parametrize(
    "method",
    [
        posteriors.Exact(),
        posteriors.InducingPoints(),
        posteriors.Neighbors(10),
        posteriors.IterativeExact(),
        posteriors.FourierFeatures(20),
        SubsetOfData(30),
    ],
    ids=lambda method: type(method).__name__,
)
def test_every_method_passes_the_check(method):
    refused = check_posterior(method)
    for use in ("weights", "several targets", "leave one out", "a source", "a pickle"):
        assert refused[use] == "", use


@pytest.mark.second
def test_a_posterior_without_an_objective_passes_the_check():
    refused = check_posterior(LearnNothing())
    assert refused["weights"] == refused["a pickle"] == ""
    assert "is not available for posterior_='nothing'" in refused["gradients"]


def test_what_is_wrong_is_found():
    with pytest.raises(AssertionError, match="must be a PosteriorMethod"):
        check_posterior(Nothing(RBF()))
    with pytest.raises(AssertionError, match="negative variance"):
        check_posterior(LearnNothing(shift=-2.0))
    with pytest.raises(AssertionError, match="larger than that of its kernel"):
        check_posterior(LearnNothing(shift=0.5))


@pytest.mark.parametrize("more", [{"sample_weight": 1.0 + np.arange(200) % 3}, {}])
def test_rows_that_are_left_out_are_those_of_fit(more):
    model = subset().fit(X, Y, **more)
    loo = model.loo_predict()
    assert model.posterior_ == "subset" and len(loo.mean) == len(X)
    low, high = model.predict_interval(X, 0.9, method="conformal")
    assert 0.85 < np.mean((low <= Y) & (Y <= high)) < 0.99


def test_rows_that_were_not_used_are_predicted():
    model = subset(kernel=RBF() + WhiteKernel(0.1), optimizer=None, normalize_y=False).fit(X, Y)
    used = model._fitted.fits[0].used_rows.everything().X
    is_used = (X[:, None] == used).all(axis=2).any(axis=1)
    assert is_used.sum() == 60
    found, std = model.predict(X, return_std=True)
    loo = model.loo_predict()
    assert_allclose(loo.mean[~is_used], found[~is_used], atol=1e-12)
    assert_allclose(loo.std[~is_used], std[~is_used], rtol=1e-12)
    i = np.flatnonzero(is_used)[7]
    others = is_used & (np.arange(len(X)) != i)
    exact = SparseGPRegressor(RBF() + WhiteKernel(0.1), optimizer=None, normalize_y=False)
    expected, std = exact.fit(X[others], Y[others]).predict(X[[i]], return_std=True)
    assert_allclose([loo.mean[i], loo.std[i]], [expected[0], std[0]], rtol=1e-8)


@pytest.mark.second
def test_rows_that_were_used_are_found_where_inputs_are_changed():
    gaps = X.copy()
    gaps[::5, 1] = np.nan
    model = subset(max_iter=5, alpha=0.1).fit(gaps, Y)
    loo, found = model.loo_predict(), model.predict(gaps)
    assert np.sum(np.abs(loo.mean - found) > 1e-9) == 60


def test_training_rows_and_bounds_are_of_all_rows():
    model = subset(kernel=RBF() + WhiteKernel(0.1), optimizer=None, normalize_y=False).fit(X, Y)
    assert model.X_train_.shape == X.shape
    exact = SparseGPRegressor(RBF() + WhiteKernel(0.1), optimizer=None, normalize_y=False)
    evidence = exact.fit(X, Y).log_marginal_likelihood_value_
    bounds = model.evidence_bounds()
    assert bounds.own - 1e-6 <= evidence <= bounds.upper + 1e-6


def test_it_composes():
    search = GridSearchCV(subset(max_iter=5), {"posterior__n_rows": [30, 60]}, cv=2).fit(X, Y)
    assert search.best_params_["posterior__n_rows"] == 60
    model = pickle.loads(pickle.dumps(subset().fit(X, Y)))
    assert model.posterior_ == "subset" and model.score(X, Y) > 0.8
    labels = SparseGPClassifier(posterior=SubsetOfData(60), random_state=0, n_jobs=2)
    labels.fit(X, np.digitize(Y, [-0.5, 0.5]))
    assert set(labels.posterior_) == {"subset"} and labels.loo_predict_proba().shape == (200, 3)


def test_what_it_does_not_take_is_refused_in_words():
    for options, message in (
        ({"bound": "titsias"}, "has no bound"),
        ({"noise": "learned"}, "is not available for posterior='subset'. Set posterior to"),
    ):
        with pytest.raises(ValueError, match=message):
            subset(**options).fit(X, Y)
    with pytest.raises(ValueError, match="posterior__n_rows"):
        subset(-3).fit(X, Y)
    with pytest.raises(posteriors.NotAvailable, match="posterior_='nothing'"):
        SparseGPRegressor(posterior=LearnNothing()).fit(X, Y).sample_functions()


class Failing(posteriors.PosteriorMethod):
    """A method whose fit raises an error of the user's choice."""

    name = "failing"

    def __init__(self, error=None):
        self.error = error

    def fit(self, job, random_state):
        raise self.error


@pytest.mark.parametrize("n_rows, size", [(-3, "-3"), ("x", "'x'")])
def test_errors_of_a_fit_name_the_method_with_its_parameters(n_rows, size):
    model = SparseGPRegressor(posterior=Unchecked(n_rows), max_iter=2)
    match = rf"^posterior=Unchecked\(n_rows={size}\): A sample has .* Got size={size}\.$"
    with pytest.raises(ValueError, match=match):
        model.fit(X[:40], Y[:40])
    with pytest.raises(ValueError, match=match):
        SparseGPClassifier(posterior=Unchecked(n_rows)).fit(X[:40], Y[:40] > 0)


@pytest.mark.parametrize(
    "error, text", [(KeyError("a"), "a"), (IndexError(), "failed"), (OSError(2, "gone"), "gone")]
)
def test_errors_of_a_fit_keep_their_type(error, text):
    with pytest.raises(type(error), match=text) as caught:
        SparseGPRegressor(posterior=Failing(error)).fit(X, Y)
    assert isinstance(error, OSError) or "posterior=Failing(" in str(caught.value)


def test_errors_of_the_methods_of_the_package_are_their_own():
    options = {"optimizer": None, "metric": "full"}
    with pytest.raises(ValueError, match="^SparseGPRegressor: metric='full' is that of"):
        SparseGPRegressor(posterior=posteriors.InducingPoints(), **options).fit(X, Y)


def test_a_posterior_says_itself_what_it_does_not_answer():
    posterior = replace(Nothing(RBF()), shift=0.1)
    for question in (
        lambda: posterior.gradients(X, latent=True),
        lambda: posterior.sample_functions(2, 10, RNG),
    ):
        with pytest.raises(posteriors.NotAvailable, match="Set posterior to"):
            question()


class OfEvenRows(posteriors.PosteriorMethod):
    """The exact posterior of every second row, whose noise may vary."""

    name = "even"
    takes_learned_noise = True

    def fit(self, job, random_state):
        even = job.rows.subset(np.arange(0, len(job.rows), 2))
        return posteriors.Exact().fit(job._replace(rows=even), random_state)


def test_noise_of_some_rows_varies():
    y = np.sin(2 * X[:, 0]) + (0.05 + 0.3 * (X[:, 0] > 0)) * RNG.normal(size=200)
    model = SparseGPRegressor(posterior=OfEvenRows(), noise="learned", random_state=0).fit(X, y)
    assert model.posterior_ == "even" and len(model.loo_predict().mean) == 200
    quiet, loud = model.noise_std([[-2.0, 0.0], [2.0, 0.0]])
    assert quiet < loud


class Misled(posteriors.PosteriorMethod):
    """A method that returns the posterior in place of the fit."""

    def fit(self, job, random_state):
        return posteriors.Exact().fit(job, random_state).posterior


def test_a_method_that_returns_no_fit_is_named():
    with pytest.raises(TypeError, match="Misled.fit must return a Fit of skgp_sparse.posteriors"):
        SparseGPRegressor(posterior=Misled()).fit(X, Y)

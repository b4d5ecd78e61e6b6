"""Several classes that begin together, and what each does on its own."""

import warnings

import numpy as np
import pytest
from conftest import agree
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.metrics import log_loss

from skgp_sparse import SparseGPClassifier

KERNEL = ConstantKernel(4.0) * Matern([3.0, 5.0], nu=2.5)


def table(n, classes, seed=0):
    return make_blobs(n, 2, centers=classes, cluster_std=2.0, random_state=seed)


@pytest.fixture(scope="module")
def fitted():
    X, y = table(330, 4, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)  # to end early is no failure
        return X, y, SparseGPClassifier(mean=None, random_state=0, n_inducing=12).fit(X, y)


def test_problems_begin_together_and_go_on_alone(fitted):
    X, y, model = fitted
    assert model.posterior_ == ["inducing"] * 4 and model.n_inducing_ == [12] * 4
    spread = np.ptp([kernel.theta for kernel in model.kernel_.kernels], axis=0)
    assert spread.min() > 0 and spread.max() < 3.0
    assert log_loss(y, model.predict_proba(X)) < 0.5 * np.log(4)


def test_fits_are_the_same_whatever_n_jobs_is(fitted):
    X, y, model = fitted  # problems side by side
    again = SparseGPClassifier(mean=None, random_state=0, n_inducing=12, n_jobs=1).fit(X, y)
    assert_array_equal(again.kernel_.theta, model.kernel_.theta)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_posteriors_are_those_of_fits_with_the_same_hyperparameters():
    X, y = table(310, 3, seed=1)
    model = SparseGPClassifier(mean=None, random_state=0, n_inducing=10, max_iter=5, tol=1e-8)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    found = [
        SparseGPClassifier(kernel, inducing_init=Z, optimizer=None, tol=1e-8).fit(X, y == k)
        for k, (kernel, Z) in enumerate(zip(model.kernel_.kernels, model.inducing_points_))
    ]
    queries = table(30, 3, seed=2)[0]
    positive = np.column_stack([one.predict_proba(queries)[:, 1] for one in found])
    agree(model.predict_proba(queries), positive / positive.sum(axis=1, keepdims=True), 1e-5)
    values = [one.log_marginal_likelihood_value_ for one in found]
    agree(model.log_marginal_likelihood_value_, np.mean(values), 1e-8)


def test_some_of_many_classes_begin_for_all():
    X, y = table(310, 9, seed=3)
    model = SparseGPClassifier(mean=None, random_state=0, n_inducing=20, max_iter=4)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert len(model.kernel_.kernels) == 9
    assert log_loss(y, model.predict_proba(X)) < 0.6 * np.log(9)


def test_an_early_end_that_was_asked_for_is_told():
    X, y = table(310, 3)
    with pytest.warns(ConvergenceWarning, match="now 2"):
        model = SparseGPClassifier(mean=None, random_state=0, n_inducing=10, max_iter=2).fit(X, y)
    assert model.n_iter_ == 2


@pytest.mark.parametrize("options", [{"kernel": KERNEL}, {"bound": "gfitc-ep"}])
def test_problems_begin_alone_otherwise(options):
    X, y = table(310, 3)
    given = {"random_state": 0, "n_inducing": 10, "max_iter": 3} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SparseGPClassifier(**given, tol=3e-3).fit(X, y)  # of all problems
        each = [SparseGPClassifier(**given).fit(X, y == k) for k in range(3)]
    for kernel, one in zip(model.kernel_.kernels, each):
        agree(kernel.theta, one.kernel_.theta, 1e-2)

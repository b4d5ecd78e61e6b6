"""Several classes that begin together: the sum of their problems, and what each does on its own."""

import warnings

import numpy as np
import pytest
from conftest import agree
from inside import (
    ArrayDataset,
    EachClass,
    InducingBasis,
    Inner,
    Options,
    SiteObjectives,
    Task,
    Variational,
)
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.metrics import log_loss

from skgp_sparse import SparseGPClassifier
from skgp_sparse.likelihoods import Logit, Probit

KERNEL = ConstantKernel(4.0) * Matern([3.0, 5.0], nu=2.5)


def table(n, classes, seed=0):
    return make_blobs(n, 2, centers=classes, cluster_std=2.0, random_state=seed)


@pytest.mark.parametrize("sigmoid", [Probit(), Logit()])
def test_likelihood_is_a_product_over_the_problems(sigmoid):
    rng = np.random.RandomState(0)
    y, mean = rng.randint(4, size=30).astype(float), rng.normal(size=(3, 30))
    variance, weight, offset = rng.gamma(2.0, size=(3, 30)), rng.uniform(size=30), np.zeros(30)
    likelihood, labels = EachClass(sigmoid, 3), [np.where(y == k, 1.0, -1.0) for k in range(3)]
    values, *derivatives = zip(*(sigmoid.expected(*one) for one in zip(labels, mean, variance)))
    value, *found = likelihood.expected(y, mean, variance)
    agree(value, sum(values), 1e-13)
    agree(found, derivatives, 1e-13)
    densities = [sigmoid.tilted(*one)[0] for one in zip(labels, mean, variance)]
    agree(likelihood.log_density(y, mean, variance), sum(densities), 1e-13)
    constants = [sigmoid.constant_log_likelihood(one, weight, offset) for one in labels]
    agree(likelihood.constant_log_likelihood(y, weight, offset), sum(constants), 1e-13)
    assert likelihood.domain.includes(y).all() and likelihood.n_latent == 3
    for method, given in [("tilted", (y, y, y)), ("response", (y, y)), ("sample", (y, rng))]:
        with pytest.raises(NotImplementedError):
            getattr(likelihood, method)(*given)


def objectives(basis, spherical):
    """The objective of four classes of five, and those of their problems."""
    X, y = table(60, 5)
    chosen = (0, 1, 3, 4)
    labels = [
        Task((0.0, 1.0, 4.0, 2.0, 3.0)).labels(y)[1],
        *(np.where(y == k, 1.0, -1.0) for k in chosen),
    ]
    inner, found = Inner(tol=1e-16, max_iter=300), []
    for label, likelihood in zip(labels, [EachClass(Probit(), 4), *[Probit()] * 4]):
        rows = ArrayDataset(X, label[:, None])
        model = SiteObjectives(Variational(likelihood, spherical), inner)
        if basis == "exact":
            found.append(model.exact(rows, Options()))
        else:
            found.append(model.in_basis(rows, InducingBasis(X[::6].copy()), Options()))
    return found


@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("basis", ["exact", "inducing"])
def test_objective_is_the_sum_of_those_of_the_problems(basis, spherical):
    inputs = basis == "inducing"
    given = objectives(basis, spherical)
    together, *each = (one.value_and_gradient(KERNEL, inputs) for one in given)
    agree(together.value, sum(one.value for one in each), 1e-12)
    for name in ("kernel", "basis")[: 1 + inputs]:
        agree(together.gradient[name], sum(one.gradient[name] for one in each), 1e-7)


def test_objective_against_dense_algebra():
    """Σ_k E_q[log p] - KL[q ‖ N(0, K)], with the posterior that the sites of each class make."""
    objective = objectives("exact", False)[0]
    _, solution, state = objective.infer(KERNEL)
    block, total = objective.rows.everything(), 0.0
    K, y = KERNEL(block.X), np.where(np.arange(4)[:, None] == block.y[:, 0], 1.0, -1.0)
    for linear, precision, labels in zip(*np.asarray(state.sites), y):
        S = np.linalg.inv(np.linalg.inv(K) + np.diag(precision))
        mean, ratio = S @ linear, np.linalg.solve(K, S)
        divergence = np.trace(ratio) + mean @ np.linalg.solve(K, mean) - len(K)
        divergence -= np.linalg.slogdet(ratio)[1]
        total += Probit().expected(labels, mean, np.diag(S))[0].sum() - 0.5 * divergence
    agree(solution.step.value, total, 1e-9)


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

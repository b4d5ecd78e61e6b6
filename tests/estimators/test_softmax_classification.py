"""`SparseGPClassifier` with multi_class="softmax"."""

import pickle

import numpy as np
import pytest
from conftest import agree, differences, stored_cases
from inside import Softmax
from kernel_cases import parsed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skgp_sparse import SparseGPClassifier
from skgp_sparse.bounds import PEP

pytestmark = pytest.mark.filterwarnings("ignore:The optimizer stopped")


def table(n=150, classes=3, seed=0):
    X, y = make_blobs(n, centers=classes, cluster_std=2.5, random_state=seed)
    return X, np.array(["a", "b", "c", "d", "e"])[y]


def small(**options):
    defaults = {"multi_class": "softmax", "n_inducing": 12, "max_iter": 8, "random_state": 0}
    return SparseGPClassifier(**defaults | options)


GOLDEN = stored_cases("multiclass")


@pytest.mark.parametrize("prefix, bound", [("vfe", "titsias"), ("new_class", "titsias_new")])
@pytest.mark.parametrize("name", ["matern52_ard", "weighted", "z_equals_x"])
def test_fixed_models_agree_with_golden_values(name, prefix, bound):
    ref = GOLDEN[name]
    model = SparseGPClassifier(
        parsed(ref["kernel"]),
        multi_class="softmax",
        bound=bound,
        inducing_init=ref["Z"],
        optimizer=None,
        tol=1e-9,
    ).fit(ref["X"], ref["y"], sample_weight=ref["weight"])
    agree(model.log_marginal_likelihood_value_, ref[f"{prefix}_bound"], 1e-6)
    agree(model.predict_proba(ref["X_test"]), ref[f"{prefix}_prob_test"], 1e-5)
    mean, variance = model.latent_mean_and_variance(ref["X_test"])
    agree(mean, ref[f"{prefix}_mean_test"], 1e-4)
    agree(variance, ref[f"{prefix}_var_test"], 1e-4)


@pytest.mark.second(share=0.34)
@pytest.mark.parametrize("n_inducing", [12, 1000])
@pytest.mark.parametrize("bound", ["titsias", "titsias_new"])
def test_one_model_of_all_classes(bound, n_inducing):
    X, y = table()
    model = small(bound=bound, n_inducing=n_inducing).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (150, 3)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert model.score(X, y) > 0.6  # the classes overlap
    assert_array_equal(model.predict(X), model.classes_[np.argmax(p, axis=1)])
    m = min(n_inducing, len(X))
    assert model.inducing_points_.shape == (m, 2) and model.n_inducing_ == m
    assert not hasattr(model.kernel_, "kernels")
    assert isinstance(model.log_marginal_likelihood_value_, float)
    mean, variance = model.latent_mean_and_variance(X)
    assert mean.shape == variance.shape == (150, 3) and np.all(variance > 0)
    assert_allclose(Softmax(3).probability(mean.T, variance.T).T, p, rtol=1e-12)


def test_iris_is_as_good_as_one_against_the_rest_and_better_than_a_linear_softmax():
    (X, y), train = load_iris(return_X_y=True), np.arange(150) % 3 > 0
    options = {"kernel": ConstantKernel() * RBF(), "n_inducing": "auto", "max_iter": 200}
    softmax, rest = (small(multi_class=way, **options) for way in ("softmax", "one_vs_rest"))
    own, others, linear = (
        log_loss(y[~train], model.fit(X[train], y[train]).predict_proba(X[~train]))
        for model in (softmax, rest, LogisticRegression(max_iter=1000))
    )
    assert own < others + 0.05 and own < linear


@pytest.mark.second
def test_bound_and_gradient_at_any_theta():
    X, y = table()
    model = small(tol=1e-6).fit(X, y)
    theta = model.kernel_.theta
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    agree(value, model.log_marginal_likelihood_value_, 1e-6)
    # the values end within 1e-8, of which older versions of SciPy make more
    agree(gradient, differences(model.log_marginal_likelihood, theta, 1e-4), 2e-4)
    with pytest.raises(ValueError, match="theta must hold"):
        model.log_marginal_likelihood(np.zeros(7))


@pytest.mark.second
def test_weights_are_repeated_rows_and_order_is_nothing():
    X, y = table(60)
    rng = np.random.RandomState(1)
    weight = rng.randint(0, 4, 60)
    again = np.repeat(np.arange(60), weight)[rng.permutation(weight.sum())]
    for n_inducing in (10, 1000):
        model = small(n_inducing=n_inducing)
        weighted = clone(model).fit(X, y, sample_weight=weight)
        repeated = clone(model).fit(X[again], y[again])
        assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_two_classes_are_one_binary_problem_whatever_the_strategy():
    X, y = table(80, classes=2)
    found = [
        small(multi_class=way).fit(X, y).predict_proba(X) for way in ("softmax", "one_vs_rest")
    ]
    assert_array_equal(*found)


@pytest.mark.second
def test_threads_blocks_and_pickles_change_nothing():
    X, y = table(200, classes=5)
    model = small(n_jobs=1).fit(X, y)
    p = model.predict_proba(X)
    agree(small(n_jobs=3).fit(X, y).predict_proba(X), p, 1e-8)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), p)


def test_a_warm_start_goes_on():
    X, y = table()
    model = small(warm_start=True, max_iter=200).fit(X, y)
    first = model.n_iter_
    value = model.log_marginal_likelihood_value_
    model.fit(X, y)
    assert model.n_iter_ <= first
    assert model.log_marginal_likelihood_value_ >= value - 0.2


def test_far_rows_have_equal_probabilities():
    X, y = table()
    p = small(kernel=ConstantKernel(2.0) * RBF(1.0)).fit(X, y).predict_proba([[1e4, -1e4]])
    assert_allclose(p, 1.0 / 3.0, atol=1e-9)


def test_white_noise_belongs_to_every_process():
    X, y = table()
    kernel = ConstantKernel(2.0) * RBF(2.0) + WhiteKernel(0.3, "fixed")
    for n_inducing in (12, 1000):
        model = small(kernel=kernel, n_inducing=n_inducing).fit(X, y)
        assert np.all(model.latent_mean_and_variance(X)[1] >= 0.3 - 1e-9)


@pytest.mark.parametrize("bound", ["gfitc-ep", "pep"])
def test_expectation_propagation_is_refused(bound):
    with pytest.raises(ValueError, match="one latent value per row.*titsias_new"):
        small(bound=bound).fit(*table())


def test_progress_is_that_of_one_problem(capsys):
    small(verbose=1, max_iter=2).fit(*table(60))
    assert "[SparseGPClassifier] iteration 1: bound" in capsys.readouterr().out


def test_powers_reach_the_classifier():
    X, y = table(80, classes=2)
    options = {"multi_class": "one_vs_rest", "tol": 1e-7, "optimizer": None, "kernel": RBF(1.5)}
    ends = [
        small(bound=b, **options).fit(X, y).predict_proba(X)
        for b in ("gfitc-ep", PEP(1.0), PEP(0.0), "vfe")
    ]
    agree(ends[0], ends[1], 1e-9)
    agree(ends[2], ends[3], 1e-9)
    middle = small(bound=PEP(0.5), **options).set_params(bound__alpha=0.3).fit(X, y)
    assert middle.bound.alpha == 0.3
    assert np.all(middle.predict_proba(X) <= np.maximum(ends[0], ends[2]) + 0.02)

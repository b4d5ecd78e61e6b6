"""Fitted estimators whose posterior holds all rows keep them: as attributes, copied and pickled."""

import copy
import pickle

import numpy as np
import pytest
from chunked_arrays import Arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import cross_validate

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

RNG = np.random.RandomState(0)
X = RNG.normal(size=(40, 2))
X[[5, 9]] = X[7]
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=40)
Y[5] = Y[7]  # one row twice, which a fit merges
KERNEL = RBF(0.7) + WhiteKernel(0.1)
EXACT = SparseGPRegressor(KERNEL, optimizer=None)
ROWS = SparseGPRegressor(KERNEL, optimizer=None, posterior="rows", n_inducing=10)
INDUCING = SparseGPRegressor(KERNEL, optimizer=None, n_inducing=10)
LABELS = [
    SparseGPClassifier(RBF(), optimizer=None, multi_class=multi_class)
    for multi_class in ("one_vs_rest", "one_vs_one", "softmax")
]


@pytest.mark.parametrize("model", [EXACT, ROWS], ids=["exact", "rows"])
@pytest.mark.parametrize("y", [Y, np.column_stack([Y, 3 * Y + X[:, 1]])], ids=["one", "two"])
def test_rows_are_those_of_scikit_learn(model, y):
    theirs = GaussianProcessRegressor(KERNEL, optimizer=None, normalize_y=True).fit(X, y)
    for mine in (model.fit(X, y), model.fit(Arrays(X, y))):
        assert_array_equal(mine.X_train_, X)
        assert_allclose(mine.y_train_, theirs.y_train_, rtol=1e-12)
    weight = np.r_[0.0, np.full(39, 2.0)]
    assert_array_equal(model.fit(X, y, sample_weight=weight).X_train_, X)
    plain = clone(model).set_params(normalize_y=False).fit(X.astype("f"), y)
    assert_array_equal(plain.y_train_, y)
    assert plain.X_train_.dtype == np.float32


def test_responses_are_as_passed():
    counts = RNG.poisson(2.0, size=40)
    model = SparseGPRegressor(likelihood="poisson", optimizer=None).fit(X, counts)
    assert_array_equal(model.y_train_, counts)


def test_rows_stay_when_the_users_arrays_change():
    mine = X.copy()
    model = EXACT.fit(mine, Y)
    mine[:] = 0.0
    assert_array_equal(model.X_train_, X)


def test_what_has_no_rows_says_why():
    for model, reason in (
        (SparseGPRegressor(), "is not fitted"),
        (INDUCING.fit(X, Y), "posterior_ is 'inducing', .* Set posterior to 'exact'"),
    ):
        for name in ("X_train_", "y_train_"):
            assert not hasattr(model, name)
            with pytest.raises(AttributeError, match=f"has no {name}: .*{reason}"):
                getattr(model, name)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("model", [EXACT, ROWS, *LABELS], ids=str)
def test_copies_keep_the_rows(model, copied):
    is_regressor = isinstance(model, SparseGPRegressor)
    model.fit(X, Y if is_regressor else np.digitize(Y, [-0.5, 0.5]))
    again, theta = copied(model), model.kernel_.theta + 0.1
    expected = model.log_marginal_likelihood(theta, eval_gradient=True)
    for value, other in zip(again.log_marginal_likelihood(theta, eval_gradient=True), expected):
        assert_array_equal(value, other)
    if is_regressor:
        assert_array_equal(again.X_train_, X)
        assert_array_equal(again.y_train_, model.y_train_)
        assert again.evidence_bounds() == model.evidence_bounds()


def test_estimators_of_other_processes_keep_the_rows():
    result = cross_validate(EXACT, X, Y, cv=2, return_estimator=True, n_jobs=2)
    for model in result["estimator"]:
        theta = model.kernel_.theta
        value = model.log_marginal_likelihood(theta)
        assert value == pytest.approx(model.log_marginal_likelihood_value_)
        assert len(model.X_train_) == 20


def test_copies_of_exact_fits_learn_from_later_rows():
    model = EXACT.fit(X, Y)
    again = pickle.loads(pickle.dumps(model)).partial_fit(X + 1.0, Y)
    assert_array_equal(again.predict(X), model.partial_fit(X + 1.0, Y).predict(X))

"""How much each column matters."""

import pickle

import numpy as np
import pytest
from inside import sobol_indices
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.feature_selection import RFECV, SelectFromModel
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.kernels import Categorical, Columns
from skgp_sparse.sources import Stream


class Function:
    """A process whose mean is a function."""

    def __init__(self, mean):
        self.mean = lambda X, n_jobs: mean(X)[:, None]

    def with_fewer_neighbors(self, most):
        return self


def ishigami(X):
    return np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])


def g_function(X, a=(0.0, 1.0, 4.5, 9.0)):
    return np.prod((np.abs(4 * X - 2) + a) / (1 + np.array(a)), axis=1)


QUANTILES = (np.arange(512) + 0.5) / 512
FIRST, TOTAL = [0.3139, 0.4424, 0.0], [0.5576, 0.4424, 0.2437]


def test_of_functions_they_are_the_known_ones():
    found = sobol_indices(
        [Function(ishigami)], np.pi * (2 * QUANTILES[:, None] - 1) * np.ones(3), 1
    )
    assert_allclose(found.first, FIRST, atol=0.012)
    assert_allclose(found.total, TOTAL, atol=0.015)
    parts = 1 / 3 / (1 + np.array([0.0, 1.0, 4.5, 9.0])) ** 2
    whole = np.prod(1 + parts) - 1
    found = sobol_indices([Function(g_function)], QUANTILES[:, None] * np.ones(4), 1)
    assert_allclose(found.first, parts / whole, atol=0.012)
    others = np.array([np.prod(1 + np.delete(parts, j)) for j in range(4)])
    assert_allclose(found.total, parts * others / whole, atol=0.012)
    assert found.error.shape == (2, 4) and 0 < found.error.max() < 0.02
    for j in range(4):
        assert abs(found.first[j] - parts[j] / whole) < 5 * found.error[0, j] + 1e-3


@pytest.mark.second
def test_of_a_fit_to_ishigami_they_are_close():
    X = np.random.RandomState(0).uniform(-np.pi, np.pi, size=(1400, 3))
    for posterior in ("neighbors", "inducing"):
        model = SparseGPRegressor(posterior=posterior, n_inducing=200, random_state=0)
        model.fit(X, ishigami(X))
        assert_allclose(model.sobol_first_, FIRST, atol=0.02)
        assert_allclose(model.feature_importances_, TOTAL, atol=0.02)


def table(n=200, d=3):
    X = np.random.RandomState(0).normal(size=(n, d))
    return X, X[:, 0] * X[:, 1] + X[:, 1]


def test_one_column_and_no_variance():
    X, y = table()
    model = SparseGPRegressor(RBF(), alpha=0.1).fit(X[:, :1], X[:, 0])
    assert_allclose(model.feature_importances_, [1.0], atol=0.01)
    model = SparseGPRegressor(RBF() + WhiteKernel(), optimizer=None).fit(X, np.zeros(200))
    assert_array_equal(model.feature_importances_, np.zeros(3))


@pytest.mark.second
def test_they_are_computed_when_asked_for():
    X, y = table()
    model = SparseGPRegressor(n_inducing=30, max_iter=20, random_state=0)
    assert not hasattr(model, "feature_importances_")
    model.fit(X, y)._repr_html_()
    assert model._fitted.sobol is None and "sobol_first_" not in dir(model)
    found = model.feature_importances_
    if "n_features_in_" in model._repr_html_():  # scikit-learn has shown attributes since 1.9
        assert "feature_importances_" in model._repr_html_()
    assert found is model.feature_importances_ and found[1] > found[0] > 0.2 > found[2]
    other = pickle.loads(pickle.dumps(clone(model).fit(X, y)))
    assert_allclose(other.feature_importances_, found, rtol=1e-6)
    model.fit(X, X[:, 2])
    assert model.feature_importances_[2] > 0.9
    streamed = SparseGPRegressor(random_state=0, n_inducing=10, max_iter=5)
    streamed.fit(Stream(lambda: iter([(X, y)])))
    assert hasattr(streamed, "feature_importances_") == (
        streamed._fitted.know_columns() is not None
    )
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        model.nonsense  # noqa: B018


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one", "softmax"])
def test_of_classes(multi_class):
    X, y = table(150)
    labels = np.digitize(y, [-0.5, 0.5])
    model = SparseGPClassifier(multi_class=multi_class, n_inducing=20, max_iter=20, random_state=0)
    found = model.fit(X, labels).feature_importances_
    assert np.argmin(found) == 2 and found[1] > 0.3


@pytest.mark.second
def test_selection_of_columns():
    X, y = table(120)
    model = SparseGPRegressor(n_inducing=20, max_iter=20, random_state=0)
    assert SelectFromModel(model).fit(X, y).get_support().tolist() == [True, True, False]
    chosen = RFECV(model, cv=3, min_features_to_select=1).fit(X, y)
    assert chosen.get_support()[:2].all()


@pytest.mark.second
def test_of_categories_and_missing_values():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.randint(0, 3, 200), rng.normal(size=200)]).astype(float)
    y = (X[:, 0] == 1) + 0.1 * X[:, 1]
    X[::4, 1] = np.nan
    model = SparseGPRegressor(categorical_features=[0], max_iter=20, random_state=0).fit(X, y)
    assert model.feature_importances_[0] > 0.8
    kernel = Columns(Categorical(), 0) * Columns(RBF(), 1)
    model = SparseGPRegressor(kernel, categorical_features=[0]).fit(np.nan_to_num(X), y)
    assert model.feature_importances_[0] > 0.8

"""Skewed columns of the default kernel, on a scale of logarithms where the evidence is higher."""

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import differences
from inside import ArrayDataset, ColumnTable
from inside import initial_values as skewed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels
from skgp_sparse.kernels import Columns, LogScale
from skgp_sparse.testing import check_kernel_rule

RNG = np.random.RandomState(0)
X = np.column_stack([np.exp(RNG.normal(size=40)), RNG.normal(size=40), RNG.normal(size=40) ** 3])
KERNELS = [
    LogScale(RBF(), 0),
    ConstantKernel() * LogScale(Matern([1.0, 2.0, 3.0], nu=2.5), [2, 0], [-1.0, 0.1], [0.5, 2.0]),
    LogScale(Columns(RBF(), [0, 1]) + Columns(Matern(), 2), [0], [0.2], [1.5]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rules(kernel):
    check_kernel_rule(kernel, X)
    assert clone(kernel) == kernel and pickle.loads(pickle.dumps(kernel)) == kernel


def test_values_are_the_formula_and_the_gradient_goes_through_it():
    kernel = KERNELS[1]
    seen = X.copy()
    for j, low, unit in ((2, -1.0, 0.5), (0, 0.1, 2.0)):
        u = (X[:, j] - low) / unit
        seen[:, j] = low + unit * np.sign(u) * np.log1p(np.abs(u))
    assert_allclose(kernel(X), Matern([1.0, 2.0, 3.0], nu=2.5)(seen), atol=1e-14)
    Z = X[:6] + 0.05
    G = np.random.RandomState(1).normal(size=(40, 6))
    bar = kernels.linearize(kernel, X, Z)[1](G.copy())[1]
    slopes = differences(lambda at: np.sum(G * kernel(X, at)), Z, 1e-6)
    assert bar == pytest.approx(slopes, abs=1e-6)


def test_near_the_low_value_units_are_those_of_the_column():
    kernel = LogScale(RBF(3.0), 0, [100.0], [50.0])
    near = np.array([[100.0], [100.1]])
    assert_allclose(kernel(near), RBF(3.0)(near), rtol=1e-5)
    assert kernel(np.array([[99.0], [101.0]]))[0, 1] > 0.7  # values below it are no error


@pytest.mark.parametrize(
    "kernel",
    [LogScale(RBF(), 0, [0.0, 1.0]), LogScale(RBF(), 0, [0.0], [-1.0]), LogScale(RBF(), 7)],
)
def test_what_cannot_be_is_refused(kernel):
    with pytest.raises(ValueError, match="LogScale"):
        kernel(X)


def table(n=300):
    rng = np.random.RandomState(0)
    income = np.exp(rng.normal(8.0, 1.5, n))
    frame = pd.DataFrame({"income": income, "age": rng.uniform(20, 60, n)})
    y = np.sin(2.0 * np.log(income)) + 0.02 * frame["age"] + 0.1 * rng.normal(size=n)
    return frame, y.to_numpy()


@pytest.mark.second
def test_the_default_kernel_sees_a_skewed_column_by_its_logarithm():
    frame, y = table()
    model = SparseGPRegressor().fit(frame, y)
    assert "LogScale(" in str(model.kernel_) and "['income']" in str(model.kernel_)
    plain = SparseGPRegressor(model.kernel_.k1.kernel + model.kernel_.k2).fit(frame, y)
    assert model.log_marginal_likelihood_value_ > plain.log_marginal_likelihood_value_ + 3.0
    assert_array_equal(model.inducing_points_[:, 0], np.sort(frame["income"]))  # its own units
    twin = pickle.loads(pickle.dumps(model))
    assert_array_equal(twin.predict(frame), model.predict(frame))
    few = SparseGPRegressor(n_inducing=30, max_iter=30, random_state=0).fit(frame, y)
    assert "LogScale(" in str(few.kernel_) and few.score(frame, y) > 0.9
    labels = SparseGPClassifier(random_state=0).fit(frame, y > y.mean())
    assert "LogScale(" in str(labels.kernel_)


@pytest.mark.second
def test_it_does_not_where_the_evidence_is_lower_or_nobody_asked():
    frame, y = table()
    waits = frame.assign(income=np.random.RandomState(1).exponential(size=len(y)))
    waves = SparseGPRegressor().fit(waits, np.sin(4.0 * waits["income"]) + 0.1 * y)
    assert "LogScale" not in str(waves.kernel_)
    for options in (
        {"kernel": RBF()},
        {"posterior": "fourier", "max_iter": 1},
        {"metric": "full", "max_iter": 1},
        {"optimizer": None},
    ):
        assert "LogScale" not in str(SparseGPRegressor(**options).fit(frame, y).kernel_)


def test_skewed_columns_are_found():
    rng = np.random.RandomState(0)
    X = np.column_stack(
        [np.exp(2 * rng.normal(size=200)), rng.normal(size=200), rng.geometric(0.7, 200)]
    )
    X = np.column_stack([X, np.where(rng.uniform(size=200) < 0.3, np.nan, X[:, 0])])
    rows = ArrayDataset(X, X[:, :1])
    chosen, shift, moments = skewed.skew_of(rows, ColumnTable(["a", "b", "c", "d"]))
    names, _, units, numbers = chosen
    assert names == ["a", "d"] and numbers == {"a": 0, "d": 3} and min(units) > 0
    assert np.all(shift[[0, 3]] < 0) and np.flatnonzero(moments[1]).tolist() == [0, 3]
    assert skewed.skew_of(rows, ColumnTable(["a", "b", "c", "d"], ["a", "d"])) is None

"""Arrays of other libraries are read as NumPy's; what is no number, or not here, is named."""

import numpy as np
import pandas as pd
import pytest
import scipy
import sklearn
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.fixes import parse_version

from skgp_sparse import SparseGPClassifier, SparseGPRegressor

RNG = np.random.RandomState(0)
X = RNG.normal(size=(20, 1))
Y = np.sin(2 * X[:, 0])
DAYS = pd.date_range("2020-01-01", periods=20)


class Labelled:
    """An array that could hold dask's, as those of xarray, but does not."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)

    def __dask_graph__(self):
        return None


class Chunked(Labelled):
    def __dask_graph__(self):
        return {"a task": None}


class Elsewhere(Labelled):
    def __array__(self, dtype=None, copy=None):
        raise TypeError("The numbers are on a GPU.")


def xarray(values):
    return pytest.importorskip("xarray").DataArray(values)


def strict(values):
    return pytest.importorskip("array_api_strict").asarray(values)


@pytest.fixture(params=[False, True], ids=["", "dispatch"])
def dispatch(request, monkeypatch):
    """scikit-learn's Array API dispatch, off and on."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    if request.param and parse_version(scipy.__version__) < parse_version("1.14"):
        pytest.skip("scikit-learn needs SciPy 1.14 for its dispatch")
    with sklearn.config_context(array_api_dispatch=request.param):
        yield


def regressor():
    return SparseGPRegressor(RBF(), optimizer=None)


@pytest.mark.parametrize("of", [Labelled, xarray, strict])
def test_arrays_of_other_libraries_are_numbers(of, dispatch):
    model, other = regressor().fit(X, Y), regressor().fit(of(X), of(Y), of(np.ones(20)))
    assert_array_equal(other.predict(of(X)), model.predict(X))
    expected = model.log_predictive_density(X, Y)
    assert_array_equal(other.log_predictive_density(of(X), of(Y)), expected)
    assert other.evidence_bounds(of(X), of(Y)) == model.evidence_bounds(X, Y)
    labels = (Y > 0).astype(int)
    classifier = SparseGPClassifier(RBF(), optimizer=None)
    expected = classifier.fit(X, labels).predict_proba(X)
    assert_array_equal(classifier.fit(of(X), of(labels)).predict_proba(of(X)), expected)
    later = SparseGPRegressor(RBF(), optimizer=None, n_inducing=20).partial_fit(of(X), of(Y))
    assert later.n_samples_seen_ == 20


@pytest.mark.parametrize(
    "of, message",
    [
        (Chunked, "is a dask collection"),
        (Elsewhere, "cannot become a NumPy array: .* on a GPU. Pass a copy in main memory"),
    ],
)
def test_arrays_that_are_not_here_are_named(of, message):
    for call in (
        lambda: regressor().fit(of(X), Y),
        lambda: regressor().fit(X, of(Y)),
        lambda: regressor().fit(X, Y, of(np.ones(20))),
        lambda: regressor().fit(X, Y).predict(of(X)),
        lambda: regressor().fit(X, Y).log_predictive_density(X, of(Y)),
    ):
        with pytest.raises(TypeError, match=message):
            call()


TEXT = "contains text, first '0', but must be numbers"
TIMES = "contains times, first .*, which are numbers only in a unit"


@pytest.mark.parametrize(
    "column, message",
    [
        (np.arange(20).astype(str), TEXT),
        (np.arange(20).astype(str).astype(object), TEXT),
        (DAYS, TIMES),
        (DAYS.tz_localize("UTC"), TIMES),
        (DAYS - DAYS[0], TIMES),
        (list(DAYS.to_pydatetime()), TIMES),
    ],
    ids=["text", "text objects", "days", "days of a zone", "spans", "list"],
)
def test_text_and_times_are_no_numbers(column, message):
    model = regressor().fit(X, Y)
    for y in (column, pd.Series(column)):
        for call in (regressor().fit, model.log_predictive_density):
            with pytest.raises(ValueError, match=f"y of SparseGPRegressor {message}"):
                call(X, y)
    array = pd.DataFrame({"t": column}).to_numpy()  # a data frame has types
    frame = pd.DataFrame({"t": column})
    for call in (
        lambda: regressor().fit(array, Y),
        lambda: model.predict(array),
        lambda: model.predict(frame),
    ):
        with pytest.raises(ValueError, match=f"X of SparseGPRegressor {message}"):
            call()
    classes = np.asarray(column).astype(str)
    assert len(SparseGPClassifier(RBF(), optimizer=None).fit(X, classes[:2].repeat(10)).classes_)

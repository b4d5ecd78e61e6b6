"""Data frames as they are: types of columns, codes, missing values, and the default kernel."""

import datetime
import pickle
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from chunked_arrays import Arrays
from conftest import differences
from inside import VectorFunction, types_of
from kernel_cases import check_stack
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, inducing, kernels
from skgp_sparse.exceptions import TextColumnWarning
from skgp_sparse.kernels import Categorical, Columns, Missing
from skgp_sparse.testing import check_kernel_rule

N = 120


def table(n=N, seed=0):
    """A data frame with a column of each type, and targets."""
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-2, 2, n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "size": pd.Categorical(rng.choice(["small", "large"], n)),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.randint(0, 1000, n), unit="h"),
            "flag": rng.uniform(size=n) < 0.5,
        }
    )
    y = np.sin(2 * frame["x"]) + 2.0 * (frame["colour"] == "red") + 0.1 * rng.normal(size=n)
    return frame, y.to_numpy()


def with_gaps(frame):
    frame = frame.copy()
    frame.loc[::5, "x"] = np.nan
    frame.loc[::7, "colour"] = None
    frame.loc[3, "when"] = pd.NaT
    frame["flag"] = frame["flag"].astype("boolean")
    frame.loc[4, "flag"] = pd.NA
    return frame


# -- types ----------------------------------------------------------------------------------------


def test_a_column_of_each_type():
    nan = np.nan
    columns = {  # and the numbers that stand for them
        "number": ([1.5, nan, 3.0], [1.5, nan, 3]),
        "whole": (pd.array([1, None, 3], dtype="Int64"), [1, nan, 3]),
        "flag": (pd.array([True, None, False], dtype="boolean"), [1, nan, 0]),
        "text": (["b", None, "a"], [1, 2, 0]),
        "category": (pd.Categorical([2, 1, nan]), [1, 0, 2]),
        "objects": (np.array([1, None, 2.5], dtype=object), [1, nan, 2.5]),
        "day": (pd.to_datetime(["1970-01-02 00:00", None, "1970-01-03 12:00"]), [1, nan, 2.5]),
        "zone": (
            pd.to_datetime(["1970-01-02 01:00+01:00", None, "1970-01-03 13:00+01:00"]),
            [1, nan, 2.5],
        ),
        "span": (pd.to_timedelta([36, 0, -24], unit="h"), [1.5, 0, -1]),
    }
    frame = pd.DataFrame({name: values for name, (values, _) in columns.items()})
    types = types_of(frame, "from_dtype", "Test")
    expected = [numbers for _, numbers in columns.values()]
    assert_array_equal(types.encoded(frame, "Test").T, expected)
    levels = types.by_name()
    found = {name: list(one)[:2] for name, one in levels.items()}
    assert found == {"text": ["a", "b"], "category": [1, 2]}
    assert all(one[2] != one[2] for one in levels.values())  # a missing value is the last level


def test_levels_that_were_not_seen_have_codes_of_their_own():
    types = types_of(pd.DataFrame({"c": ["a", "b"]}), "from_dtype", "Test")
    codes = types.encoded(pd.DataFrame({"c": ["z", "a", None, "y", "z"]}), "Test")[:, 0]
    assert codes[1] == 0 and codes[0] == codes[4] and np.all(codes[[0, 2, 3]] < 0)
    assert len({*codes}) == 4


@pytest.mark.parametrize("missing", [None, np.nan, float("nan"), pd.NA, pd.NaT, np.float64("nan")])
def test_missing_values_of_all_kinds_are_one_level(missing):
    column = pd.Series(["b", "a", None], dtype=object)
    types = pickle.loads(pickle.dumps(types_of(column.to_frame("c"), "from_dtype", "Test")))
    for others in ([], ["z", "y"]):  # not seen in fit
        query = pd.Series(["a", missing, "b", *others], dtype=object).to_frame("c")
        codes = types.encoded(query, "Test")[:, 0]
        assert_array_equal(codes[:3], [0, 2, 1])
        assert np.all(codes[3:] < 0) and len({*codes}) == len(query)


def test_numbers_need_no_types():
    X = np.zeros((3, 2))
    for one in (X, pd.DataFrame(X), X.tolist()):
        assert types_of(one, "from_dtype", "Test") is None
    assert types_of(np.array([["a"]]), "from_dtype", "Test") is None  # refused elsewhere
    types = types_of(np.array([[3.0, 1.0], [5.0, 2.0]]), [0], "Test")
    assert_array_equal(types.encoded(np.array([[5.0, 9.0]]), "Test"), [[1.0, 9.0]])


@pytest.mark.parametrize("chosen", [[True, False], [0], ["c"], np.array(["c"])])
def test_categories_are_chosen_by_mask_number_or_name(chosen):
    frame = pd.DataFrame({"c": [7, 8, 7], "d": [1.0, 2.0, 3.0]})
    model = SparseGPRegressor(categorical_features=chosen, optimizer=None).fit(frame, [0.0, 1, 2])
    assert_array_equal(model.categories_["c"], [7, 8])


@pytest.mark.parametrize(
    "frame, chosen, error, words",
    [
        ({"c": ["a", 1, "b"]}, "from_dtype", ValueError, "Column 'c' .* levels of one type"),
        ({"c": ["a", "b", "a"]}, None, ValueError, "Column 'c' .* does not name it"),
        ({"c": [1, 2, 3]}, ["d"], ValueError, "'categorical_features' .* are \\['c'\\]"),
        ({"c": [1, 2, 3]}, [5], ValueError, "numbers or names of columns"),
        ({"c": [1.0, 2.0, np.inf]}, "from_dtype", ValueError, "infinity"),
        ({"c": list("aba"), "d": [1, 2, np.inf]}, "from_dtype", ValueError, "infinity: column 'd'"),
        ({"c": [(1,), (2,), (1,)]}, "from_dtype", ValueError, "Column 'c' .* cannot be read"),
    ],
)
def test_what_cannot_be_is_refused_in_words(frame, chosen, error, words):
    model = SparseGPRegressor(categorical_features=chosen)
    with pytest.raises(error, match=words):
        model.fit(pd.DataFrame(frame), [0.0, 1.0, 2.0])
    assert not hasattr(model, "kernel_") and not hasattr(model, "categories_")


def test_a_column_of_another_type_is_refused():
    frame, y = table()
    model = SparseGPRegressor(optimizer=None).fit(frame, y)
    with pytest.raises(ValueError, match="Column 'x' .* a category, but it was a number in fit"):
        model.predict(frame.assign(x="a"))
    with pytest.raises(ValueError, match="partial_fit takes numbers"):
        clone(model).partial_fit(frame, y)


def test_polars():
    polars = pytest.importorskip("polars")
    frame, y = table()
    frame = with_gaps(frame)
    first = SparseGPRegressor(random_state=0, max_iter=5).fit(frame, y)
    other = polars.from_pandas(frame)
    second = SparseGPRegressor(random_state=0, max_iter=5).fit(other, y)
    assert_array_equal(first.predict(frame), second.predict(other))
    assert {*second.categories_} == {"colour", "size"}


# -- estimators -----------------------------------------------------------------------------------


@pytest.mark.second(keep=3)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_inducing": 20, "max_iter": 60},
        {"posterior": "rows"},
        {"posterior": "neighbors"},
        {"n_inducing": 20, "max_iter": 60, "solver": "stochastic"},
        {"likelihood": "student_t", "n_inducing": 20, "max_iter": 20},
    ],
    ids=str,
)
def test_a_data_frame_as_it_is(options):
    frame, y = table()
    frame = with_gaps(frame)
    rest, rest_y = table(60, seed=1)
    model = SparseGPRegressor(random_state=0, **options).fit(frame, y)
    assert model.score(rest.astype({"flag": "boolean"}), rest_y) > 0.8
    assert {*model.categories_} == {"colour", "size"}
    text = str(model.kernel_)
    assert "Missing(Matern" in text and "['x', 'when', 'flag']" in text
    assert "Categorical(" in text and "['colour', 'size']" in text
    query = rest[:4].assign(colour=["purple", None, "red", "pink"], x=[0.0, 0.5, np.nan, 0.0])
    mean, std = model.predict(query, return_std=True)
    assert np.isfinite(mean).all() and np.all(std > 0)
    twin = pickle.loads(pickle.dumps(model))
    assert_array_equal(twin.predict(query), mean)
    if "Z" in options or hasattr(model, "inducing_points_"):
        codes = model.inducing_points_[:, [1, 2]]
        assert_array_equal(codes, np.rint(codes))
        assert np.isnan(model.inducing_points_[:, 0]).any()


@pytest.mark.second
def test_labels_and_the_order_of_columns():
    frame, y = table()
    frame = with_gaps(frame)
    labels = np.digitize(y, [0.0, 1.5])
    model = SparseGPClassifier(random_state=0, n_inducing=20, max_iter=20).fit(frame, labels)
    assert model.score(frame, labels) > 0.8
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


@pytest.mark.second
def test_categories_only_and_missing_numbers_only():
    frame, y = table()
    model = SparseGPRegressor().fit(frame[["colour", "size"]], y)
    assert "Columns" not in str(model.kernel_) and "Categorical" in str(model.kernel_)
    X = np.where(np.arange(N) % 4 == 0, np.nan, frame["x"])[:, None]
    assert str(SparseGPRegressor().fit(X, y).kernel_).count("Missing(Matern") == 1
    whole = SparseGPRegressor().fit(frame[["x"]], y)
    assert "Missing" not in str(whole.kernel_)


def test_a_column_in_which_everything_is_missing():
    frame, y = table()
    model = SparseGPRegressor(max_iter=5).fit(frame[["x"]].assign(none=np.nan), y)
    assert np.isfinite(model.predict(frame[["x"]].assign(none=[0.0] + [np.nan] * (N - 1)))).all()


@pytest.mark.second
def test_a_thousand_levels_and_a_level_with_one_row():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"x": rng.normal(size=1500), "id": rng.randint(0, 1000, 1500).astype(str)})
    model = SparseGPRegressor(n_inducing=30, max_iter=3, random_state=0).fit(frame, frame["x"])
    assert np.isfinite(model.predict(frame[:5])).all() and len(model.categories_["id"]) > 700


def test_the_tag_says_who_takes_missing_values():
    def takes(model):
        return get_tags(model).input_tags.allow_nan

    assert takes(SparseGPRegressor()) and takes(SparseGPClassifier(Missing(RBF())))
    assert not takes(SparseGPRegressor(RBF())) and not takes(SparseGPRegressor(metric="full"))
    assert not takes(SparseGPRegressor(posterior="fourier"))


def test_a_kernel_of_the_user_with_missing_values():
    frame, y = table()
    X = frame[["x", "flag"]].astype(float)
    X.loc[::4, "x"] = np.nan
    kernel = Columns(Missing(RBF()), "x") + Columns(RBF(), "flag")
    model = SparseGPRegressor(kernel, n_inducing=20, max_iter=20).fit(X, y)
    assert model.kernel_.k1.k1.kernel.columns == [0] and kernel.k1.kernel.columns == "auto"
    with pytest.raises(ValueError, match="column 'flag' .* sees it without Missing"):
        SparseGPRegressor(kernel).fit(X.assign(flag=X["x"]), y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        SparseGPRegressor(RBF()).fit(X, y)


# -- rows and options that go wrong easily -------------------------------------------------------


@pytest.mark.second
def test_a_row_in_which_everything_is_missing():
    frame, y = table()
    model = SparseGPRegressor(random_state=0, max_iter=5).fit(with_gaps(frame), y)
    for value in (None, np.nan, pd.NA):
        for column in frame:
            row = pd.DataFrame([{**frame.iloc[0].to_dict(), column: value}])
            assert np.isfinite(model.predict(row)).all(), (value, column)


def test_objects_of_arrays_have_the_missing_values_of_frames():
    frame = pd.DataFrame({"c": ["a", "b", None] * 10, "x": np.arange(30.0)})
    model = SparseGPRegressor(max_iter=3).fit(frame, np.arange(30.0) % 3)
    expected = model.predict(pd.DataFrame({"c": [None], "x": [2.0]}))
    for value in (None, np.nan, pd.NA):
        assert_array_equal(model.predict(np.array([[value, 2.0]], dtype=object)), expected)


def test_python_times_and_durations_are_days():
    utc = datetime.timezone.utc
    frame = pd.DataFrame(
        {
            "day": [datetime.date(1970, 1, 2), None],
            "zone": np.array([datetime.datetime(1970, 1, 3, tzinfo=utc), None], dtype=object),
            "span": np.array([datetime.timedelta(hours=12), None], dtype=object),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers = types_of(frame, "from_dtype", "Test").encoded(frame, "Test")
    assert_array_equal(numbers, [[1.0, 2.0, 0.5], [np.nan] * 3])


def test_periods_begin_with_their_first_day():
    frame = pd.DataFrame({"month": pd.period_range("1970-01", periods=3, freq="M")})
    frame.loc[2, "month"] = pd.NaT
    numbers = types_of(frame, "from_dtype", "Test").encoded(frame, "Test")
    assert_array_equal(numbers, [[0.0], [31.0], [np.nan]])


@pytest.mark.second(share=0.26)
@pytest.mark.parametrize("multi_class", ["one_vs_one", "one_vs_rest", "softmax"])
def test_values_that_are_missing_in_one_class_only(multi_class):
    frame, y = table()
    labels = np.digitize(y, [0.0, 1.5])
    X = np.column_stack([frame["x"], frame["flag"]]).astype(float)
    X[(labels == 2) & (np.arange(N) % 2 == 0), 1] = np.nan
    model = SparseGPClassifier(multi_class=multi_class, n_inducing=10, max_iter=3).fit(X, labels)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"kernel": RBF()}, "column 'colour' of X is a category, but kernel"),
        ({"metric": "full"}, "mixes columns"),
        ({"posterior": "fourier"}, "draws frequencies"),
    ],
)
def test_options_that_categories_do_not_go_with(options, words):
    frame, y = table()
    with pytest.raises(ValueError, match=words):
        SparseGPRegressor(**options).fit(frame, y)


def test_what_takes_numbers_only_says_so():
    frame, y = table()
    with pytest.raises(ValueError, match="X_std is for arrays and data frames of numbers"):
        SparseGPRegressor().fit(frame, y, X_std=np.zeros(frame.shape))
    source = Arrays(np.zeros((N, 2)), y)
    with pytest.raises(ValueError, match="categorical_features needs an array or a data frame"):
        SparseGPRegressor(categorical_features=[0]).fit(source)
    model = SparseGPRegressor(max_iter=1).fit(frame, y)
    with pytest.raises(ValueError, match="levels in fit were 'blue'"):
        model.predict(frame.assign(colour=1))
    with pytest.raises(ValueError, match="Missing values need kernel=None"):
        SparseGPRegressor(RBF()).fit(np.array([[0.0], [np.nan]]), [0.0, 1.0])
    plain = SparseGPRegressor(categorical_features=[], max_iter=1).fit(frame[["x"]], y)
    assert not hasattr(plain, "categories_")


@pytest.mark.second
def test_inducing_points_with_missing_values_of_the_user():
    frame, y = table()
    X = np.column_stack([frame["x"], frame["flag"]]).astype(float)
    X[::4, 0] = np.nan
    for init in (X[:10], lambda X, m, kernel, random_state: X[:10]):
        model = SparseGPRegressor(inducing_init=init, n_inducing=10, max_iter=3).fit(X, y)
        assert len(model.inducing_points_) == 10 and np.isnan(model.inducing_points_).any()
    with pytest.raises(ValueError, match="inducing_init of SparseGPRegressor has"):
        SparseGPRegressor(RBF(), inducing_init=X[:10], n_inducing=10).fit(X[1:4], y[1:4])


def test_no_warning_where_it_does_not_matter_that_a_value_is_missing():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(100, 1)), rng.normal(size=100)
    X[::3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseGPRegressor(Missing(Matern([1.0], "fixed")) + WhiteKernel()).fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"correlation": np.array([0.5, 0.6])},
        {"columns": ["c"]},
        {"columns": "c"},
        {"columns": [0], "neutral": np.ones(3)},
        {"columns": [5]},
    ],
)
def test_parameters_of_missing_are_checked(options):
    with pytest.raises(ValueError, match="of Missing"):
        Missing(RBF(), **options)(np.array([[0.0], [np.nan]]))


# -- what tables are hardly meant to be ----------------------------------------------------------


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_the_output_of_transformers_does_not_matter(output):
    pytest.importorskip(output)
    frame, y = table()
    model = SparseGPRegressor(optimizer=None).fit(frame, y)
    labels = SparseGPClassifier(optimizer=None).fit(frame, y > 0)
    for one, target in ((model, y), (labels, y > 0)):
        expected = one.predict(frame)
        with config_context(transform_output=output):
            assert_array_equal(one.predict(frame), expected)
            assert_array_equal(clone(one).fit(frame, target).predict(frame), expected)


def in_polars(frame, dtype):
    polars = pytest.importorskip("polars")
    column = polars.col("pool").cast(getattr(polars, dtype), strict=False)
    return polars.from_pandas(frame).with_columns(column)


NO_TEXT = {
    **{
        dtype: lambda frame, dtype=dtype: frame.astype({"pool": dtype})
        for dtype in ("str", "object", "string", "category")
    },
    "polars": lambda frame: in_polars(frame, "String"),
    "polars category": lambda frame: in_polars(frame, "Categorical"),
}


@pytest.mark.second(share=0.09, keep=2)
@pytest.mark.parametrize("convert", NO_TEXT.values(), ids=NO_TEXT)
def test_text_without_a_value_in_fit_is_a_category_without_levels(convert):
    frame, y = table()
    frame = frame[["x"]].assign(pool=pd.Series([None] * N, dtype=object))
    query = convert(frame[:2].assign(pool=["good", "bad"]))
    for model, target in ((SparseGPRegressor(max_iter=3), y), (SparseGPClassifier(), y > 0)):
        model.fit(convert(frame), target)
        assert len(model.categories_["pool"]) == 1  # a missing value
        assert np.isfinite(model.predict(query)).all()
    levels = frame.assign(pool=["u", "v"] * (N // 2))
    known = SparseGPRegressor(max_iter=3).fit(convert(levels), y)
    assert np.isfinite(known.predict(convert(frame[:2]))).all()


@pytest.mark.second
def test_columns_of_polars_that_hold_only_nulls():
    polars = pytest.importorskip("polars")
    frame, y = table()
    X = polars.from_pandas(frame)
    model = SparseGPRegressor(max_iter=3).fit(X, y)
    for column in X.columns:
        nulls = X[:3].with_columns(**{column: polars.lit(None)})
        typed = X[:3].with_columns(**{column: polars.lit(None, X[column].dtype)})
        assert_array_equal(model.predict(nulls), model.predict(typed))
    empty = X.with_columns(colour=polars.lit(None))
    assert np.isfinite(clone(model).fit(empty, y).predict(X)).all()


@pytest.mark.second
def test_rows_as_lists_of_mixed_values():
    frame, y = table()
    X = frame[["x", "colour"]]
    model = SparseGPRegressor(max_iter=3).fit(X, y)
    expected = model.predict(X[:2])
    rows = X[:2].to_numpy().tolist()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        assert_array_equal(model.predict(rows), expected)
        assert_array_equal(model.predict(tuple(map(tuple, rows))), expected)
    other = SparseGPRegressor(max_iter=3, categorical_features=[1]).fit(X.to_numpy().tolist(), y)
    assert_allclose(other.predict(rows), expected)


@pytest.mark.second
def test_one_dimension_is_refused_with_a_remedy():
    frame, y = table()
    model, numbers = (SparseGPRegressor(max_iter=3).fit(X, y) for X in (frame, frame[["x"]]))
    series = [frame.iloc[0], frame["x"], frame["colour"]]
    for X in (*series, frame["x"].tolist(), frame.iloc[0].tolist(), frame["x"].to_numpy()):
        for call in (model.predict, numbers.predict, lambda X: clone(model).fit(X, y)):
            with pytest.raises(ValueError, match=r"1D array instead.*Pass X.iloc\[\[0\]\] .*Resha"):
                call(X)
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="X of SparseGPRegressor is a Series of shape"):
        model.predict(polars.from_pandas(frame)["x"])
    with pytest.raises(ValueError, match="X of SparseGPClassifier is a Series of shape"):
        SparseGPClassifier().partial_fit(frame["x"], y > 0, classes=[False, True])


def test_times_of_the_day_are_hours():
    frame = pd.DataFrame({"at": [datetime.time(0, 30), datetime.time(17, 45, 36, 9), None]})
    expected = [[0.5], [17.0 + 45.0 / 60.0 + 36.000009 / 3600.0], [np.nan]]
    assert_allclose(types_of(frame, "from_dtype", "Test").encoded(frame, "Test"), expected)
    polars = pytest.importorskip("polars")
    other = polars.from_pandas(frame)
    assert str(other["at"].dtype) == "Time"
    numbers = types_of(other, "from_dtype", "Test").encoded(other, "Test")
    assert_array_equal(numbers, types_of(frame, "from_dtype", "Test").encoded(frame, "Test"))
    y = np.arange(3.0)
    with pytest.raises(ValueError, match="Column 0 of X of SparseGPRegressor contains times"):
        SparseGPRegressor().fit(frame[:2].to_numpy(), y[:2])


def test_text_in_arrays_and_tables_names_the_column():
    frame, y = table()
    X = frame[["x", "colour"]]
    steps = ColumnTransformer([("x", StandardScaler(), ["x"])], remainder="passthrough")
    for array in (
        X.to_numpy(),
        X.to_numpy().astype(str),
        steps.fit_transform(X),
        X.values.tolist(),
    ):
        with pytest.raises(
            ValueError, match="Column 1 of X .* text, first '(red|green|blue)'.*set_o"
        ):
            SparseGPRegressor().fit(array, y)
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="Column 'colour' of X .* to_pandas"):
        SparseGPRegressor().fit(pyarrow.Table.from_pandas(X), y)


@pytest.mark.parametrize("dtype", ["object", "string", "category", "boolean", "Int64", "float"])
def test_labels_that_are_missing_are_named(dtype):
    frame, y = table()
    values = {"boolean": y > 0, "Int64": (y > 0) * 1, "float": (y > 0) * 1.0}
    labels = pd.Series(values.get(dtype, np.where(y > 0, "a", "b")), dtype=dtype, name="kind")
    labels[7] = None
    words = "Input y contains NaN in 1 rows, first in row 7. Remove"
    for given in (labels, labels.to_frame()):
        for options in ({}, {"likelihood": "ordinal"}, {"multi_class": "softmax"}):
            with pytest.raises(ValueError, match=words):
                SparseGPClassifier(**options).fit(frame, given)


DAYS = pd.date_range("2020-01-01", periods=N)
ODD_TEXT = {
    "numbers": [f"{k / 7:.2f}" for k in range(N)],
    "whole numbers": [str(k % 5) for k in range(N)],
    "with commas": [f"{1000.0 * k:,.1f}" for k in range(N)],
    "mostly numbers": [str(k % 7) for k in range(N - 4)] + ["?"] * 4,
    "dates": DAYS.strftime("%Y-%m-%d"),
    "times": DAYS.strftime("%Y-%m-%dT%H:%M:%S+01:00"),
    "months": DAYS.strftime("%Y-%m"),
}
PLAIN_TEXT = {
    "words": ["red", "green", "blue"] * (N // 3),
    "fewer numbers": [str(k % 7) for k in range(N - 7)] + ["?"] * 7,
    "versions": ["1.2.3", "1.3.10"] * (N // 2),
    "addresses": ["10.20.30.40", "10.0.0.1"] * (N // 2),
    "days first": DAYS.strftime("%d.%m.%Y"),
    "names of rows": [f"row {k}" for k in range(N)],
}


def told(model, X, y):
    """Warnings of text columns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [one for one in caught if issubclass(one.category, TextColumnWarning)]


@pytest.mark.second(share=0.4)
@pytest.mark.parametrize("text", ODD_TEXT.values(), ids=ODD_TEXT)
def test_text_that_is_hardly_a_category_is_told_once(text):
    frame, y = table()
    X = frame[["x"]].assign(odd=list(text))
    polars = pytest.importorskip("polars")
    for one in (X, X.astype({"odd": object}), polars.from_pandas(X)):
        (warning,) = told(SparseGPRegressor(optimizer=None), one, y)
        assert "Column 'odd' " in str(warning.message) and warning.filename == __file__
    labels = SparseGPClassifier(optimizer=None, n_inducing=5)
    assert len(told(labels, X, np.digitize(y, [0.0, 1.5]))) == 1
    assert not told(SparseGPRegressor(optimizer=None, categorical_features=["odd"]), X, y)


@pytest.mark.parametrize("text", PLAIN_TEXT.values(), ids=PLAIN_TEXT)
def test_text_that_is_a_category_is_not_told_of(text):
    frame, y = table()
    assert not told(SparseGPRegressor(optimizer=None), frame.assign(plain=list(text)), y)


def test_categories_by_type_are_not_told_of():
    frame, y = table()
    typed = frame[["x"]].assign(odd=pd.Categorical(ODD_TEXT["whole numbers"]))
    assert not told(SparseGPRegressor(optimizer=None), typed, y)


def test_a_row_of_many_columns_is_predicted_soon():
    rng = np.random.RandomState(0)
    columns = {f"x{j}": rng.normal(size=300) for j in range(40)}
    columns |= {f"c{j}": rng.choice(["u", "v", "w"], 300) for j in range(40)}
    frame = pd.DataFrame(columns)
    model = SparseGPRegressor(optimizer=None).fit(frame, frame["x0"])
    seconds = []
    for row in range(20):
        start = time.perf_counter()
        model.predict(frame[row : row + 1])
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.015  # a third is usual, and one encoder for each column takes 0.03


# -- the kernel of missing values -----------------------------------------------------------------

RNG = np.random.RandomState(3)
X = RNG.normal(size=(24, 3))
X[RNG.uniform(size=X.shape) < 0.2] = np.nan
X[:, 2] = RNG.normal(size=24)
UNITS = np.array([0.1, 0.2, 0.3]), np.array([1.5, 0.8, 1.0])
GAPS = {"columns": [0, 1], "correlation": np.array([0.6, 0.8]), "neutral": np.array([1.2, 0.7])}
MISSING = [
    ConstantKernel() * Missing(Matern([1.0, 2.0, 1.5], nu=2.5), **GAPS, units=UNITS),
    Columns(Missing(RBF(), columns=[0], correlation=0.5), [1]) + Columns(RBF(), 2),
    Missing(DotProduct(), **GAPS) + WhiteKernel(0.1),
    Missing(RBF(), **GAPS, neutral_bounds="fixed") ** 2,
    Missing(Matern(nu=1.5), **GAPS, correlation_bounds="fixed"),
    ConstantKernel(1.5) * Missing(RBF(), **GAPS, noise=np.array([0.1, 0.3])) + WhiteKernel(0.1),
    Columns(Missing(RBF(), columns=[0], noise=0.2) ** 2, [1]) * Columns(RBF(), 2),
]


@pytest.mark.parametrize("kernel", MISSING, ids=str)
def test_rules_of_complete_rows(kernel):
    check_kernel_rule(kernel, np.nan_to_num(X))


@pytest.mark.parametrize("kernel", MISSING, ids=str)
def test_gradients_where_values_are_missing(kernel):
    Z, theta = X[:7] + 0.1, kernel.theta
    G = np.random.RandomState(1).normal(size=(len(X), len(Z)))

    def value(theta, points=Z):
        return np.sum(G * kernels.evaluate(kernel.clone_with_theta(theta), X, points))

    K, pull = kernels.linearize(kernel, X, Z)
    assert_allclose(K, kernel(X, Z), atol=1e-14)
    theta_bar, Z_bar = pull(G.copy())
    assert_allclose(theta_bar, differences(value, theta, 1e-6), atol=1e-7)
    moved = differences(lambda z: value(theta, z), Z, 1e-6)
    assert_allclose(Z_bar, np.where(np.isnan(Z), 0.0, moved), atol=1e-7)

    whole = np.nan_to_num(X[:4])  # the gaps are in one of the two sets only
    for first, second in ((whole, Z), (X, np.nan_to_num(Z))):
        G = np.random.RandomState(1).normal(size=(len(first), len(second)))

        def of_both(theta, first=first, second=second, G=G):
            return np.sum(G * kernels.evaluate(kernel.clone_with_theta(theta), first, second))

        found = kernels.linearize(kernel, first, second)[1](G.copy())[0]
        assert_allclose(found, differences(of_both, theta, 1e-6), atol=1e-7)

    signal, _, pull = kernels.diagonal(kernel, X)
    assert_allclose(np.broadcast_to(signal, len(X)), kernels.evaluate(kernel, X, X).diagonal())
    g = np.random.RandomState(2).normal(size=(2, len(X)))

    def of_diagonal(theta):
        signal, noise, _ = kernels.diagonal(kernel.clone_with_theta(theta), X)
        assert_allclose(signal + noise, kernel.clone_with_theta(theta).diag(X))
        return np.sum(g[0] * signal + g[1] * noise)

    assert_allclose(pull(*g)[0], differences(of_diagonal, theta, 1e-6), atol=1e-7)
    assert_allclose(np.diagonal(kernel(X)), kernel.diag(X))
    check_stack(kernel, X.reshape(6, 4, 3), inputs=False)


def test_values_are_the_formula_and_a_kernel():
    kernel = MISSING[0]
    gaps = np.isnan(X)
    mean, std = UNITS
    neutral = np.array([*(mean[:2] + std[:2] * np.log([1.2, 0.7])), 0.0])
    seen = np.where(gaps, neutral, X)
    differ = gaps[:, None] != gaps
    expected = Matern([1.0, 2.0, 1.5], nu=2.5)(seen) * 0.6 ** differ[..., 0] * 0.8 ** differ[..., 1]
    assert_allclose(kernel(X), expected, atol=1e-14)
    assert np.linalg.eigvalsh(expected).min() > 0
    tile = kernels.single(kernel, X)
    assert_allclose(tile(slice(0, 9), slice(5, 24)), expected[:9, 5:], atol=1e-6)
    assert clone(kernel) == kernel and pickle.loads(pickle.dumps(kernel)) == kernel
    moved = kernel.clone_with_theta(kernel.theta + 0.1)
    assert_allclose(moved.theta, kernel.theta + 0.1)
    assert np.all(kernel.bounds[:, 0] < kernel.theta) and np.all(kernel.theta < kernel.bounds[:, 1])


def test_missing_values_are_equal_to_each_other():
    rows = np.array([[np.nan, 1.0], [0.0, 1.0], [np.nan, 1.0], [0.0, np.nan]])
    for name in ("random", "k-means++", "greedy", "k-means"):
        kernel = Missing(RBF(), columns=[0, 1], correlation=0.5)
        Z = inducing.BY_NAME[name](rows, 4, kernel, np.random.RandomState(0))
        assert len(Z) <= 3, name
    model = SparseGPRegressor(alpha=0.1).fit(rows, np.arange(4.0))
    assert len(model.inducing_points_) == 3


@pytest.mark.second
def test_the_bound_has_the_gradient_of_missing_inducing_points():
    frame, y = table(60)
    X = np.column_stack([frame["x"], frame["flag"]]).astype(float)
    X[::5, 0] = np.nan
    model = SparseGPRegressor(n_inducing=8, max_iter=2, random_state=0).fit(X, y)
    function = VectorFunction(model._fitted.fits[0].objective, model.kernel_, move_basis=True)
    start = function.pack()
    assert np.isfinite(start).all() and np.isnan(model.inducing_points_).any()
    value, gradient = function(start)
    assert_allclose(gradient, differences(lambda v: function(v)[0], start), atol=1e-3, rtol=1e-4)


def test_messages_name_columns():
    frame, y = table()
    ard = Columns(RBF([1.0, 1.0], (0.9, 1.1)), ["x", "flag"])
    with pytest.warns(ConvergenceWarning, match="that of column 'x', is close"):
        SparseGPRegressor(ard, max_iter=20).fit(frame[["x", "flag"]].astype(float), y)
    with pytest.raises(ValueError, match="sees column 'x', whose values are not codes"):
        SparseGPRegressor(Columns(Categorical(), ["x"])).fit(frame[["x"]], y)
    for kernel in (Columns("rbf", ["x"]), Missing(None), Columns(RBF(), ["x"]) + Missing("rbf")):
        with pytest.raises(ValueError, match="a part of kernel=.* is no kernel"):
            SparseGPRegressor(kernel).fit(frame[["x"]], y)
    with pytest.raises(ValueError, match="column 'x' of X of SparseGPRegressor has 1 missing"):
        gap = frame[["x"]].astype(float)
        gap.iloc[3] = np.nan
        SparseGPRegressor(RBF()).fit(gap, y)


def test_missing_values_leave_noise():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(80, 2))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 / 3 + 0.05 * rng.normal(size=80)
    X[::3, 1] = np.nan
    model = SparseGPRegressor(posterior="exact", normalize_y=False, random_state=0).fit(X, y)
    part = next(one for one in model.kernel_.get_params().values() if isinstance(one, Missing))
    assert part.is_noisy() and part.columns == [1] and "noise=[" in repr(part)
    expected = multivariate_normal(np.zeros(80), model.kernel_(X)).logpdf(y)
    assert_allclose(model.log_marginal_likelihood_value_, expected)

    queries = np.array([[0.5, np.nan], [0.5, 0.1]])
    cross = model.kernel_(queries, X)
    variance = model.kernel_.diag(queries) - np.einsum(
        "ij,ji->i", cross, np.linalg.solve(model.kernel_(X), cross.T)
    )
    std = model.predict(queries, return_std=True)[1]
    assert_allclose(std**2, variance, rtol=1e-6)
    assert std[0] > 3 * std[1]
    with pytest.raises(ValueError, match="noise of Missing must be 0, or positive for every"):
        Missing(RBF(), columns=[0, 1], noise=np.array([0.1, 0.0])).theta  # noqa: B018


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("posterior", ["inducing", "exact", "neighbors"])
@pytest.mark.parametrize("alpha", [0.1, np.linspace(0.1, 0.3, 80)], ids=["number", "by row"])
def test_noise_of_missing_values_is_learned_beside_known_noise(posterior, alpha):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(80, 2))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 / 3
    X[::3, 1] = np.nan
    kernel = ConstantKernel() * Missing(RBF([1.0, 1.0]), noise=0.1)
    options = {"n_inducing": 10} if posterior == "inducing" else {"metric": "ard"}
    model = SparseGPRegressor(
        kernel, alpha=alpha, posterior=posterior, max_iter=2, random_state=0, **options
    ).fit(X, y)
    function = VectorFunction(model._fitted.fits[0].objective, model.kernel_, move_basis=False)
    start = function.pack()
    value, gradient = function(start)
    assert_allclose(gradient, differences(lambda v: function(v)[0], start), atol=1e-4, rtol=1e-4)

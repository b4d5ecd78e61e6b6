"""Rows that lack values of columns in which no training row lacked one."""

import pickle

import numpy as np
import pandas as pd
import pytest
from inside import spread_values
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, cross_val_score

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.posteriors import InducingPoints

N = 90


def table(n=N, seed=0):
    """A data frame with a column of each type, all of which matter but one, and targets."""
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-2, 2, n),
            "flag": rng.uniform(size=n) < 0.5,
            "count": rng.randint(0, 4, n),
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.randint(0, 900, n), unit="D"),
            "nothing": rng.normal(size=n),
            "colour": rng.choice(["red", "green"], n),
        }
    )
    y = np.sin(2 * frame["x"]) + frame["flag"] + 0.3 * frame["count"] + (frame["colour"] == "red")
    y += (frame["when"] - frame["when"].min()).dt.days / 500 + 0.1 * rng.normal(size=n)
    return frame, y.to_numpy()


FRAME, Y = table()
GAPS = {
    "x": None,
    "flag": pd.array([None], dtype="boolean"),
    "count": pd.array([None], dtype="Int64"),
    "when": pd.NaT,
    "nothing": np.nan,
}


@pytest.fixture(scope="module")
def model():
    return SparseGPRegressor(random_state=0, max_iter=40).fit(FRAME, Y)


def test_moments_are_those_of_values_of_the_column(model):
    query = FRAME[:3].assign(x=[0.5, np.nan, np.nan], nothing=[0.0, 1.0, np.nan])
    mean, std = model.predict(query, return_std=True, latent=True)
    values = model._fitted.values
    numbers = values[:, [0, 4]]
    completed = [
        query.assign(x=query["x"].fillna(x), nothing=query["nothing"].fillna(z)) for x, z in numbers
    ]
    moments = [model.predict(one, return_std=True, latent=True) for one in completed]
    means, stds = map(np.array, zip(*moments))
    spread = model._fitted.view.process.mean(values).var() * model._fitted.view.scaler.scale[0] ** 2
    variance = (stds**2).mean(axis=0) + means.var(axis=0) + 0.02 * spread * np.array([0, 1, 2])
    assert_allclose(mean, means.mean(axis=0))
    assert_allclose(std, np.sqrt(variance))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("column", GAPS)
def test_a_gap_in_a_column_of_each_type_is_wider(model, library, column):
    rows = FRAME[:1]
    lacking = pd.concat([rows.assign(**{column: GAPS[column]}), rows.astype({"flag": "boolean"})])
    if library == "polars":
        lacking = pytest.importorskip("polars").from_pandas(lacking)
    (mean, known), (std, known_std) = model.predict(lacking, return_std=True)
    expected = model.predict(rows, return_std=True)
    assert_allclose([known, known_std], np.ravel(expected), rtol=1e-9)
    assert np.isfinite(mean) and std > 1.05 * known_std


def test_a_row_of_gaps_has_about_the_moments_of_all_targets(model):
    row = pd.DataFrame({column: [None] for column in FRAME})
    mean, std = model.predict(row, return_std=True)
    assert abs(mean[0] - Y.mean()) < Y.std() and 0.7 * Y.std() < std[0] < 2.0 * Y.std()


@pytest.mark.second(share=0.19)
@pytest.mark.parametrize(
    "options",
    [
        {"n_inducing": 20},
        {"posterior": "rows"},
        {"posterior": "neighbors"},
        {"noise": "learned"},
        {"posterior": InducingPoints(tight_variance=True), "n_inducing": 20},
    ],
    ids=str,
)
def test_posteriors(options):
    model = SparseGPRegressor(random_state=0, max_iter=10, **options).fit(FRAME, Y)
    query = FRAME[:4].assign(x=[0.0, np.nan, np.nan, 1.0])
    mean, std = model.predict(query, return_std=True)
    covariance = model.predict(query, return_cov=True)[1]
    assert_allclose(np.sqrt(covariance.diagonal()), std, rtol=1e-5)
    assert np.all(np.linalg.eigvalsh(covariance) > 0)
    draws = model.sample_y(query, 2000)
    assert_allclose(draws.mean(axis=1), mean, atol=0.15 * std.max())
    assert_allclose(draws.std(axis=1), std, rtol=0.15)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(query), mean)
    assert np.isfinite(model.noise_std(query)).all()
    lower, upper = model.predict_interval(query)
    assert np.all(lower < mean) and np.all(mean < upper)


@pytest.mark.parametrize("options", [{"metric": "full"}, {"posterior": "fourier"}], ids=str)
def test_columns_that_are_mixed(options):
    model = SparseGPRegressor(random_state=0, max_iter=5, **options).fit(FRAME[["x", "nothing"]], Y)
    query = FRAME[["x", "nothing"]][:2].assign(x=[np.nan, 0.5])
    mean, std = model.predict(query, return_std=True)
    assert np.isfinite(mean).all() and std[0] > std[1]


def test_several_targets():
    model = SparseGPRegressor(random_state=0, max_iter=5).fit(FRAME, np.column_stack([Y, -Y]))
    query = FRAME[:2].assign(x=[np.nan, 0.5])
    mean, std = model.predict(query, return_std=True)
    assert_allclose(mean[:, 0], -mean[:, 1], rtol=1e-6)
    draws = model.sample_y(query, 2000)
    assert_allclose(draws.mean(axis=2), mean, atol=0.1)
    assert_allclose(draws.std(axis=2), std, rtol=0.1)


@pytest.mark.second(share=0.2, keep=2)
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one", "softmax"])
def test_labels_are_less_certain(multi_class):
    labels = np.digitize(Y, [1.0, 2.0])
    model = SparseGPClassifier(multi_class=multi_class, n_inducing=20, max_iter=5, random_state=0)
    model.fit(FRAME, labels)
    known, lacking = (
        model.predict_proba(one) for one in (FRAME, FRAME.assign(x=np.nan, when=pd.NaT))
    )
    assert_allclose(lacking.sum(axis=1), 1.0)
    assert lacking.max(axis=1).mean() < known.max(axis=1).mean()


@pytest.mark.second
def test_intervals_hold_rows_with_gaps():
    frame, y = table(600, seed=1)
    model = SparseGPRegressor(random_state=0, max_iter=30).fit(frame[:200], y[:200])
    rest = frame[200:].copy()
    rest.loc[rest.index[::2], "x"] = np.nan
    lower, upper = model.predict_interval(rest, coverage=0.9)
    held = (lower <= y[200:]) & (y[200:] <= upper)
    assert 0.8 < held[::2].mean() <= 1.0 and 0.8 < held[1::2].mean() <= 1.0


@pytest.mark.second
def test_a_search_over_a_table_with_one_gap_has_scores_in_all_folds():
    frame = FRAME[["x", "nothing"]].copy()
    frame.loc[7, "nothing"] = np.nan
    model = SparseGPRegressor(random_state=0, max_iter=5)
    assert np.isfinite(cross_val_score(model, frame, Y, cv=2)).all()
    labels = SparseGPClassifier(random_state=0, n_inducing=10, max_iter=3)
    assert np.isfinite(cross_val_score(labels, frame, Y > Y.mean(), cv=2)).all()
    search = GridSearchCV(model, {"noise": ["learned", "constant"]}, cv=2).fit(frame, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_gap_beside_a_column_that_lacked_some_in_fit():
    frame = FRAME[["x", "nothing"]].copy()
    frame.loc[::4, "nothing"] = np.nan
    query = frame[:2].assign(x=[np.nan, 0.5], nothing=[np.nan, np.nan])
    for X, asked in ((frame, query), (frame.to_numpy(), query.to_numpy())):
        model = SparseGPRegressor(random_state=0, max_iter=10).fit(X, Y)
        mean, std = model.predict(asked, return_std=True)
        assert np.isfinite(mean).all() and std[0] > std[1]


def test_arrays_and_kernels_of_users_take_no_gap():
    frame = FRAME[["x", "nothing"]]
    query = frame[:2].assign(x=[np.nan, 0.5])
    with pytest.raises(ValueError, match="Input X contains NaN: column 0 .* none in fit"):
        SparseGPRegressor(max_iter=2).fit(frame.to_numpy(), Y).predict(query.to_numpy())
    with pytest.raises(ValueError, match="Input X contains NaN: column 'x'"):
        SparseGPRegressor(RBF(), max_iter=2).fit(frame, Y).predict(query)
    with pytest.raises(ValueError, match="Input X contains NaN: column 'x'"):
        SparseGPRegressor(max_iter=2).fit(frame, Y).partial_fit(frame, Y).predict(query)


@pytest.mark.parametrize("columns", [["x", "nothing"], [*FRAME]])
def test_infinity_is_refused(columns):
    fitted = SparseGPRegressor(max_iter=2).fit(FRAME[columns], Y)
    for value in (np.inf, -np.inf):
        with pytest.raises(ValueError, match="infinity: column 'nothing'"):
            fitted.predict(FRAME[columns][:2].assign(nothing=[np.nan, value]))


def test_values_are_spread_as_those_of_the_column():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.normal(size=400), np.arange(400) % 2, rng.normal(size=400)])
    X[3, 2] = np.nan
    values = spread_values(X, None)
    assert {*values[:, 1]} == {0.0, 1.0} and np.isnan(values[:, 2]).all()
    assert_allclose(values[:, :2].mean(axis=0), X[:, :2].mean(axis=0), atol=0.1)
    assert_allclose(values[:, :2].std(axis=0), X[:, :2].std(axis=0), rtol=0.1)
    assert_array_equal(spread_values(X[rng.permutation(400)], None), values)
    weight = rng.randint(1, 4, 400)
    assert_array_equal(spread_values(X, weight), spread_values(np.repeat(X, weight, axis=0), None))

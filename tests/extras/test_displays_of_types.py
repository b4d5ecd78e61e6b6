"""Displays of columns of all types: what is drawn is the average of predictions by hand."""

from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.displays import EffectDisplay, PredictionBandDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.dates as mdates  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402

N = 60
RNG = np.random.RandomState(0)
WHOLE, MINUTES = RNG.randint(0, 400, N), RNG.randint(0, 400_000, N)
FLAGS, TEXTS = RNG.uniform(size=N) < 0.5, RNG.choice(["v", "u", "w"], N)
TIMES = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(MINUTES, unit="min"))
DAYS = [date(2020, 1, 1) + timedelta(days=int(one)) for one in WHOLE]
SIZES = pd.Series(pd.cut(RNG.normal(size=N), [-9, 0, 9]))
HAS_GAP = np.arange(N) % 7 == 0


def gappy(values, dtype):
    return pd.Series(pd.Series(values, dtype=dtype).mask(HAS_GAP), dtype=dtype)


CURVES = {
    "float": pd.Series(RNG.normal(size=N)),
    "float32": pd.Series(RNG.normal(size=N).astype(np.float32)),
    "int": pd.Series(WHOLE),
    "Int64": gappy(WHOLE, "Int64"),
    "Float64": pd.Series(RNG.normal(size=N), dtype="Float64"),
    "object numbers": pd.Series(RNG.normal(size=N), dtype=object),
    "decimals": pd.Series([Decimal(int(one)) for one in WHOLE], dtype=object),
    "few numbers": pd.Series(WHOLE % 3),
    "times": TIMES,
    "times with gaps": TIMES.mask(HAS_GAP),
    "times in a zone": TIMES.dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
    "days": pd.Series(DAYS, dtype=object),
    "months": TIMES.dt.to_period("M"),
    "days as periods": TIMES.dt.to_period("D"),
    "durations": pd.Series(pd.to_timedelta(MINUTES, unit="min")),
}
POINTS = {
    "bool": pd.Series(FLAGS),
    "boolean": gappy(FLAGS, "boolean"),
    "object bools": pd.Series(FLAGS, dtype=object),
    "text": pd.Series(TEXTS, dtype=object),
    "text with gaps": pd.Series(TEXTS, dtype=object).mask(HAS_GAP, None),
    "string": gappy(TEXTS, "string"),
    "str": pd.Series([*TEXTS]),
    "category": pd.Series(TEXTS, dtype="category").mask(HAS_GAP),
    "ordered": pd.Series(pd.Categorical(TEXTS, ["w", "u", "v"], ordered=True)),
    "numbers as category": pd.Series(WHOLE % 4, dtype="category"),
    "intervals": SIZES,
    "intervals with gaps": SIZES.mask(HAS_GAP),
}
TIMELY = ("times", "times with gaps", "times in a zone", "days", "months", "days as periods")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def fitted(column, estimator=SparseGPRegressor, likelihood=None):
    """A model of a table of this column and a number, and the table."""
    X = pd.DataFrame({"x": np.linspace(-1, 1, N), "it": column})
    codes = pd.Series(column.astype(object).where(column.notna(), None)).map(str)
    y = np.sin(3 * X["x"]) + np.unique(codes, return_inverse=True)[1] / N
    if estimator is SparseGPClassifier:
        return estimator(optimizer=None, n_inducing=10).fit(X, y > y.median()), X
    model = estimator(optimizer=None, n_inducing=10, likelihood=likelihood or "gaussian")
    return model.fit(X, y - y.min()), X


def by_hand(model, X, values, predict="predict"):
    """The average prediction for each value, where a column of the same type has it everywhere."""
    for value in values:
        rows = X.assign(it=pd.Series([value] * len(X), dtype=X["it"].dtype))
        yield getattr(model, predict)(rows).mean(axis=0)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("name", [*CURVES, *POINTS])
def test_an_effect_is_the_average_of_predictions_of_any_type(name):
    model, X = fitted({**CURVES, **POINTS}[name])
    display = EffectDisplay.from_estimator(model, X, "it", n_points=25)
    assert_allclose(display.mean, [*by_hand(model, X, display.values)], rtol=0, atol=1e-6)
    assert display.is_curve == (name in CURVES)
    assert np.all(display.std >= 0) and display.std.max() > 0
    assert isinstance(display.ax_.xaxis.get_major_locator(), mdates.AutoDateLocator) == (
        name in TIMELY
    )


@pytest.mark.second(share=0.41)
@pytest.mark.parametrize("name", POINTS)
def test_levels_stand_in_their_order_and_the_missing_one_is_last(name):
    column = POINTS[name]
    model, X = fitted(column)
    labels = EffectDisplay.from_estimator(model, X, "it").ax_.get_xticklabels()
    levels = [*column.cat.categories] if hasattr(column, "cat") else sorted({*column.dropna()})
    expected = [*map(str, levels), *["missing"] * int(column.isna().any())]
    assert [text.get_text() for text in labels] == expected


def test_an_effect_on_a_probability_is_the_average_of_probabilities():
    model, X = fitted(CURVES["int"], SparseGPClassifier)
    display = EffectDisplay.from_estimator(model, X, "it", n_points=5)
    expected = [*by_hand(model, X, display.values, "predict_proba")]
    assert_allclose(display.mean, np.array(expected)[:, 1])
    assert display.std is None and display.ax_.get_ylabel() == "average probability of True"
    other = EffectDisplay.from_estimator(model, X, "it", n_points=5, target=False)
    assert_allclose(other.mean, np.array(expected)[:, 0])
    labels = np.digitize(X["x"], [-0.3, 0.3])
    several = SparseGPClassifier(optimizer=None, n_inducing=10).fit(X, labels)
    with pytest.raises(ValueError, match=r"must be a class, one of \[0, 1, 2\]. Got None."):
        EffectDisplay.from_estimator(several, X, "it")
    display = EffectDisplay.from_estimator(several, X, "it", target=2, n_points=5)
    expected = [*by_hand(several, X, display.values, "predict_proba")]
    assert_allclose(display.mean, np.array(expected)[:, 2])


def test_an_effect_on_counts_is_that_on_their_mean_or_on_the_latent_value():
    model, X = fitted(POINTS["text"], likelihood="poisson")
    display = EffectDisplay.from_estimator(model, X, "it")
    assert_allclose(display.mean, [*by_hand(model, X, display.values)])
    assert display.std is None and not display.ax_.get_legend()
    latent = EffectDisplay.from_estimator(model, X, "it", latent=True)
    at = X.assign(it=latent.values[1])
    assert latent.mean[1] == pytest.approx(model.predict(at, latent=True).mean())
    assert latent.std.min() > 0 and latent.ax_.get_ylabel() == "average latent value"


def test_an_effect_on_one_of_several_targets():
    X = np.column_stack([np.linspace(-1, 1, N), RNG.normal(size=N)])
    model = SparseGPRegressor(optimizer=None).fit(X, np.column_stack([X[:, 0], -X[:, 1]]))
    display = EffectDisplay.from_estimator(model, X, 1, target=1, n_points=4)
    at = np.column_stack([X[:, 0], np.full(N, display.values[2])])
    mean, cov = model.predict(at, return_cov=True, latent=True)
    assert display.mean[2] == pytest.approx(mean[:, 1].mean())
    assert display.std[2] == pytest.approx(np.sqrt(max(cov[..., 1].mean(), 0)), abs=1e-6)
    for target in (None, 2, "a"):
        with pytest.raises(ValueError, match="must be the number of a target, 0 to 1. Got"):
            EffectDisplay.from_estimator(model, X, 1, target=target)
    with pytest.raises(ValueError, match="must be None, because there is one target. Got 0"):
        EffectDisplay.from_estimator(model.fit(X, X[:, 0]), X, 1, target=0)


def test_whole_numbers_are_drawn_at_whole_numbers():
    model, X = fitted(CURVES["int"])
    values = EffectDisplay.from_estimator(model, X, "it").values
    assert np.array_equal(values, np.rint(values)) and len({*values}) == len(values)


def test_only_the_most_frequent_of_many_levels_are_drawn():
    many = pd.Series([f"level {one}" for one in [*range(N - 20), *[7] * 12, *[3] * 8]])
    model, X = fitted(many)
    display = EffectDisplay.from_estimator(model, X, "it", n_points=2)
    assert [*display.values] == ["level 3", "level 7"]


def test_effects_in_arrays_and_lists():
    X = np.column_stack([WHOLE % 3, WHOLE])
    model = SparseGPRegressor(optimizer=None, categorical_features=[0]).fit(X, X[:, 0] == 1)
    display = EffectDisplay.from_estimator(model, X, 0)
    assert not display.is_curve and [*display.values] == [0, 1, 2]
    expected = [model.predict(np.column_stack([0 * WHOLE + k, WHOLE])).mean() for k in range(3)]
    assert_allclose(display.mean, expected)
    assert_allclose(EffectDisplay.from_estimator(model, X.tolist(), 0).mean, expected)
    mixed = np.array([[x, text] for x, text in zip(RNG.normal(size=N), TEXTS)], dtype=object)
    model = SparseGPRegressor(optimizer=None, categorical_features=[1])
    model.fit(mixed, mixed[:, 0].astype(float))
    display = EffectDisplay.from_estimator(model, mixed, 1)
    at = np.array([[x, "v"] for x in mixed[:, 0]], dtype=object)
    assert display.mean[1] == pytest.approx(model.predict(at).mean())


OF_POLARS = {
    "Float64": lambda pl: pl.Series(RNG.normal(size=N)),
    "Int32": lambda pl: pl.Series(WHOLE, dtype=pl.Int32),
    "Int64 with gaps": lambda pl: pl.Series([None, *WHOLE[1:].tolist()]),
    "Boolean": lambda pl: pl.Series([None, *FLAGS[1:].tolist()]),
    "String": lambda pl: pl.Series([None, *TEXTS[1:].tolist()]),
    "Categorical": lambda pl: pl.Series([None, *TEXTS[1:].tolist()], dtype=pl.Categorical),
    "Enum": lambda pl: pl.Series(TEXTS.tolist(), dtype=pl.Enum(["w", "v", "u"])),
    "Date": lambda pl: pl.Series(DAYS),
    "Datetime": lambda pl: pl.Series(TIMES.to_numpy()),
    "Datetime in a zone": lambda pl: pl.Series(
        TIMES.dt.tz_localize("UTC").dt.to_pydatetime().tolist()
    ).dt.convert_time_zone("America/New_York"),
    "Duration": lambda pl: pl.Series(pd.to_timedelta(MINUTES, unit="min").to_numpy()),
}


@pytest.mark.second(share=0.2)
@pytest.mark.parametrize("name", OF_POLARS)
def test_an_effect_is_the_average_of_predictions_in_polars(name):
    pl = pytest.importorskip("polars")
    X = pl.DataFrame({"x": np.linspace(-1, 1, N), "it": OF_POLARS[name](pl)})
    y = np.sin(3 * X["x"].to_numpy()) + FLAGS
    model = SparseGPRegressor(optimizer=None, n_inducing=10).fit(X, y)
    display = EffectDisplay.from_estimator(model, X, "it", n_points=25)
    is_timely = name.startswith("Date")
    expected = []
    for value in display.values:
        one = value.astype(object) if isinstance(value, np.generic) else value
        it = pl.Series([one] * N, strict=False).cast(X["it"].dtype)
        expected.append(model.predict(X.with_columns(it.alias("it"))).mean())
    assert_allclose(display.mean, expected, rtol=0, atol=1e-6)
    locator = display.ax_.xaxis.get_major_locator()
    assert isinstance(locator, mdates.AutoDateLocator) == is_timely
    if name == "Enum":
        assert [*display.values] == ["w", "v", "u"]


@pytest.mark.second(share=0.44)
@pytest.mark.parametrize("name", CURVES)
def test_a_band_over_any_number_or_time(name):
    column = CURVES[name]
    X = pd.DataFrame({"it": column})
    y = np.sin(np.arange(N) / 9)
    model = SparseGPRegressor(optimizer=None, n_inducing=10, posterior="inducing").fit(X, y)
    display = PredictionBandDisplay.from_estimator(model, X, y, n_points=20)
    mean, std = model.predict(pd.DataFrame({"it": display.grid}), return_std=True)
    assert_allclose(display.mean, mean, rtol=0, atol=1e-8)
    assert_allclose(display.std, std, rtol=0, atol=1e-8)
    assert len(display.X) == column.notna().sum() == len(display.y)
    locator = display.ax_.xaxis.get_major_locator()
    assert isinstance(locator, mdates.AutoDateLocator) == (name in TIMELY)
    low, high = display.ax_.get_xlim()
    for line in display.ax_.lines:  # inducing points are where data are
        at = display.ax_.xaxis.convert_units(line.get_xdata())
        assert low <= np.min(at) and np.max(at) <= high
    assert (display.ax_.get_xlabel() == "it (days)") == (name == "durations")


def test_maps_over_times_and_durations():
    X = pd.DataFrame({"when": TIMES, "lag": CURVES["durations"] / 500})
    model = SparseGPRegressor(optimizer=None, n_inducing=10, posterior="inducing").fit(X, WHOLE)
    display = PredictionBandDisplay.from_estimator(model, X, WHOLE, n_points=6)
    at = pd.DataFrame({"when": [display.grid[0][2]], "lag": [display.grid[1][4]]})
    assert display.mean[2, 4] == pytest.approx(model.predict(at)[0])
    first = display.ax_[0]
    assert isinstance(first.xaxis.get_major_locator(), mdates.AutoDateLocator)
    assert first.get_ylabel() == "lag (hours)" and first.get_ylim()[1] < 24


def test_a_band_of_polars_and_of_arrays_of_times():
    pl = pytest.importorskip("polars")
    frame, y = pl.DataFrame({"when": TIMES.to_numpy()}), np.sin(WHOLE)
    model = SparseGPRegressor(optimizer=None).fit(frame, y)
    display = PredictionBandDisplay.from_estimator(model, frame, y, n_points=9)
    assert_allclose(display.mean, model.predict(pl.DataFrame({"when": display.grid})))
    times = TIMES.to_numpy()[:, None]
    model = SparseGPRegressor(optimizer=None).fit(pd.DataFrame(times), y)
    again = PredictionBandDisplay.from_estimator(model, pd.DataFrame(times), y, n_points=9)
    assert_allclose(again.mean, display.mean)


def test_bands_of_levels_and_of_classes_are_refused_in_words():
    for column in POINTS.values():
        model, X = fitted(column)
        with pytest.raises(ValueError, match="Column 'it' of X has levels or no values"):
            PredictionBandDisplay.from_estimator(model, X)
    labels, X = fitted(CURVES["int"], SparseGPClassifier)
    with pytest.raises(TypeError, match="of a regressor.*SparseGPClassifier"):
        PredictionBandDisplay.from_estimator(labels, X)
    two = np.column_stack([WHOLE, WHOLE])
    model = SparseGPRegressor(optimizer=None).fit(CURVES["float"].to_frame("it"), two)
    with pytest.raises(ValueError, match="draws one target, but SparseGPRegressor has 2"):
        PredictionBandDisplay.from_estimator(model, CURVES["float"].to_frame("it"))

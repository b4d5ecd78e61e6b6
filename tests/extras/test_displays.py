"""Displays: what they draw, and what they refuse."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgp_sparse import SparseGPRegressor
from skgp_sparse.displays import CoverageDisplay, EffectDisplay, PredictionBandDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 10, size=(80, 1))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return SparseGPRegressor(n_inducing=8, random_state=0).fit(X, Y)


def test_a_band_is_what_the_model_predicts(model):
    display = PredictionBandDisplay.from_estimator(model, X, Y, coverage=0.8, n_points=50)
    mean, std = model.predict(display.grid[:, None], return_std=True)
    assert_array_equal(display.mean, mean)
    assert display.grid.min() < X.min() and display.grid.max() > X.max()
    line, data, marks = display.ax_.lines
    assert_array_equal(line.get_ydata(), mean)
    assert_array_equal(data.get_ydata(), Y)
    assert_array_equal(np.sort(marks.get_xdata()), np.sort(model.inducing_points_[:, 0]))
    (band,) = display.ax_.collections
    ends = band.get_paths()[0].vertices[:, 1]
    assert ends.max() == pytest.approx((mean + 1.2815516 * std).max())
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "80% interval" in labels and "inducing points" in labels
    assert display.figure_ is display.ax_.figure
    _, ax = plt.subplots()
    assert display.plot(ax=ax).ax_ is ax


def test_two_inputs_are_maps_and_frames_have_names():
    frame = pd.DataFrame({"hour": X[:, 0], "day": RNG.uniform(0, 3, 80)})
    model = SparseGPRegressor(max_iter=5, random_state=0).fit(frame, Y)
    display = PredictionBandDisplay.from_estimator(model, frame, Y, n_points=10)
    assert display.mean.shape == (10, 10) and len(display.ax_) == 2
    at = pd.DataFrame({"hour": [display.grid[0][3]], "day": [display.grid[1][7]]})
    assert_allclose(display.mean[3, 7], model.predict(at)[0])
    first, second = display.ax_
    assert (first.get_xlabel(), first.get_ylabel()) == ("hour", "day")
    assert second.get_title() == "standard deviation"
    with pytest.raises(ValueError, match="2 axes"):
        display.plot(ax=plt.gca())


def test_coverage_of_right_and_of_narrow_intervals():
    y = RNG.normal(size=5000)
    right = CoverageDisplay.from_predictions(y, 0 * y, 1 + 0 * y, name="right")
    assert_allclose(right.ax_.lines[1].get_ydata(), np.arange(1, 100) / 100, atol=0.03)
    narrow = CoverageDisplay.from_predictions(y, 0 * y, 0.5 + 0 * y, ax=right.ax_)
    assert narrow.ax_ is right.ax_ and narrow.ax_.lines[3].get_ydata()[89] < 0.7
    histogram = narrow.plot(kind="pit").ax_
    heights = [patch.get_height() for patch in histogram.patches]
    assert heights[0] > 2.0 and heights[len(heights) // 2] < 1.0


def test_coverage_of_an_estimator(model):
    display = CoverageDisplay.from_estimator(model, X, Y)
    assert display.ax_.get_legend().get_texts()[0].get_text() == "SparseGPRegressor"
    mean, std = model.predict(X, return_std=True)
    share = np.mean(np.abs(Y - mean) <= 0.6744898 * std)
    assert display.ax_.lines[1].get_ydata()[49] == pytest.approx(share)


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="one or two inputs"):
        wide = RNG.normal(size=(20, 3))
        three = SparseGPRegressor(optimizer=None).fit(wide, wide[:, 0])
        PredictionBandDisplay.from_estimator(three, wide)
    with pytest.raises(ValueError, match="y_std must be positive"):
        CoverageDisplay.from_predictions([1.0], [1.0], [0.0])
    with pytest.raises(ValueError, match="kind must be"):
        CoverageDisplay(np.array([0.5])).plot(kind="histogram")


def mixed(n=120):
    rng = np.random.RandomState(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 6, n), "kind": rng.choice(["a", "b"], n)})
    return frame, np.sin(frame["x"]) + 2.0 * (frame["kind"] == "b")


def test_effects_of_arrays_and_of_columns_that_do_not_exist(model):
    grades = np.repeat(np.arange(4.0), 20)[:, None]
    fitted = SparseGPRegressor(random_state=0).fit(grades, grades[:, 0] ** 2)
    assert EffectDisplay.from_estimator(fitted, grades, 0).values.tolist() == [0, 1, 2, 3]
    for data, column in ((X, 3), (mixed()[0], "y")):
        with pytest.raises(ValueError, match="X has no column"):
            EffectDisplay.from_estimator(model, data, column)

"""Periods of kernels: aliases on even rows, periodograms, and what restarts draw."""

import numpy as np
import pytest
from inside import ArrayDataset
from inside import starts as periods
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.kernels import Columns, positions_of, units


def table(x, y=None):
    x = np.asarray(x, dtype=float)
    y = np.zeros(len(x)) if y is None else y
    return ArrayDataset(x[:, None], y[:, None])


def season(x, period):
    wave = 2.0 * np.pi * x / period
    return np.sin(wave) + 0.3 * np.cos(2.0 * wave)


def weekend(x, period):
    return (np.floor(7.0 * x / period) % 7 >= 5).astype(float)


def months():
    """First days of 120 months, in days."""
    days = np.datetime64("2000-01", "M") + np.arange(120)
    return (days.astype("datetime64[D]") - np.datetime64("2000-01-01")).astype(float)


SERIES = {
    "years_of_months": (np.arange(120.0), 12.0, season),
    "weeks_of_days": (np.arange(18000.0, 18100.0), 7.0, weekend),
    "days_of_hours": (np.arange(120.0), 24.0, season),
    "quarters": (0.25 * np.arange(120), 3.1, season),
    "gaps": (np.delete(np.arange(110.0), np.arange(5, 60, 3)), 7.0, weekend),
    "years_of_days": (months(), 365.25, season),
    "uneven": (np.sort(np.random.RandomState(1).uniform(0, 50, 100)), 4.3, season),
}
TIMES_RBF = {"alone": lambda one: 1.0 * one, "fading": lambda one: 1.0 * one * RBF(1e4)}


def drawn(name):
    x, period, function = SERIES[name]
    return x, function(x, period) + 0.1 * np.random.RandomState(2).normal(size=len(x)), period


def period_of(model, x, y):
    """The period that a fit finds."""
    model.set_params(random_state=0).fit(x[:, None], y)
    return np.exp(model.kernel_.theta[positions_of(model.kernel_, "periodicity")[0][0]])


def constant(kernel):
    """A regressor with constant noise."""
    return SparseGPRegressor(kernel + WhiteKernel(), noise="constant")


@pytest.mark.second(share=0.02, thin=1)
@pytest.mark.parametrize("start", [1.0, 5.0])
@pytest.mark.parametrize("form", TIMES_RBF)
@pytest.mark.parametrize("name", SERIES)
def test_the_period_of_a_series_is_found_from_any_start(name, form, start):
    x, y, period = drawn(name)
    model = constant(TIMES_RBF[form](ExpSineSquared(1.0, start)))
    np.testing.assert_allclose(period_of(model, x, y), period, rtol=0.02)


@pytest.mark.second(share=0.11)
@pytest.mark.parametrize("name", SERIES)
def test_a_periodogram_never_lowers_the_evidence(name, monkeypatch):
    x, y, period = drawn(name)
    model = constant(1.0 * ExpSineSquared(1.0, 1.1 * period)).set_params(random_state=0)
    with_one = model.fit(x[:, None], y).log_marginal_likelihood_value_
    monkeypatch.setattr(periods, "starts", lambda *_: [])
    without = model.fit(x[:, None], y).log_marginal_likelihood_value_
    assert with_one >= without - 1e-6 * abs(without)


@pytest.mark.second
@pytest.mark.parametrize("restarts", [0, 4])
def test_an_alias_is_no_period(restarts):
    rng = np.random.RandomState(1)
    x = np.arange(120.0)
    y = season(x, 12.0) + 0.2 * rng.normal(size=120)
    kernel = 1.0 * ExpSineSquared(1.0, 1.0) + WhiteKernel()
    options = {"n_restarts_optimizer": restarts, "random_state": 0, "noise": "constant"}
    model = SparseGPRegressor(kernel, **options).fit(x[:, None], y)
    between = x[:-1, None] + 0.5
    error = model.predict(between) - season(between[:, 0], 12.0)
    assert np.sqrt(np.mean(error**2)) < 0.1  # 1.4 with the period 12 / 11


def test_a_period_whose_bounds_hold_aliases_only_is_the_longest_of_them():
    x, y, _ = drawn("years_of_months")
    bounded = ExpSineSquared(1.0, 1.1, periodicity_bounds=(0.5, 1.5))
    found = period_of(constant(1.0 * bounded), x, y)
    np.testing.assert_allclose(found, 12.0 / 11.0, rtol=1e-3)


@pytest.mark.second
def test_rows_with_a_likelihood_and_labels_have_periods_too():
    rng = np.random.RandomState(0)
    x, kernel = np.arange(150.0), 1.0 * ExpSineSquared(1.0, 1.0)
    counts = rng.poisson(np.exp(1.0 + season(x, 12.0)))
    labels = season(x, 12.0) + 0.2 * rng.normal(size=150) > 0
    models = SparseGPRegressor(kernel, likelihood="poisson"), SparseGPClassifier(kernel)
    for model, y in zip(models, (counts, labels)):
        np.testing.assert_allclose(period_of(model, x, y), 12.0, rtol=0.02)


@pytest.mark.second
def test_several_targets_share_a_period():
    x, y, period = drawn("days_of_hours")
    Y = np.c_[y, -2.0 * np.roll(y, 6)]
    model = SparseGPRegressor(1.0 * ExpSineSquared(1.0, 1.0) + WhiteKernel())
    np.testing.assert_allclose(period_of(model, x, Y), period, rtol=0.02)


def test_the_longest_of_periods_that_rows_cannot_tell_apart_wins():
    x = np.arange(105.0)
    rng = np.random.RandomState(1)
    y = rng.normal(size=7)[(x % 7).astype(int)] + 0.1 * rng.normal(size=105)  # next to no wave
    for period in (7.0, 3.5, 7.0 / 3.0):
        found = period_of(constant(1.0 * ExpSineSquared(0.15, period)), x, y)
        np.testing.assert_allclose(found, 7.0, rtol=1e-3)


@pytest.mark.second
def test_many_rows_begin_with_a_period(monkeypatch):
    x = np.arange(520.0)
    y = season(x, 12.0) + 0.2 * np.random.RandomState(0).normal(size=520)
    calls, starts = [], periods.starts
    monkeypatch.setattr(periods, "starts", lambda *given: calls.append(1) or starts(*given))
    model = constant(1.0 * ExpSineSquared(1.0, 1.0))
    model.set_params(posterior="inducing", n_inducing=30)
    np.testing.assert_allclose(period_of(model, x, y), 12.0, rtol=0.02)
    assert len(calls) == 1


@pytest.mark.parametrize("optimizer", [None, "fmin_l_bfgs_b"])
def test_a_period_that_is_known_stays(optimizer):
    x, y, _ = drawn("years_of_months")
    bounds = "fixed" if optimizer else (1e-5, 1e5)
    kernel = 1.0 * ExpSineSquared(1.0, 12.0 / 11.0, periodicity_bounds=bounds) + WhiteKernel()
    model = SparseGPRegressor(kernel, optimizer=optimizer, random_state=0).fit(x[:, None], y)
    assert model.kernel_.get_params()["k1__k2__periodicity"] == 12.0 / 11.0


def test_a_period_in_two_columns_has_no_periodogram():
    x = np.random.RandomState(0).uniform(size=(20, 2))
    rows = ArrayDataset(x, x[:, :1])
    kernel = ExpSineSquared() + WhiteKernel()
    assert not [*periods.lines(kernel, rows)]
    assert len([*periods.lines(Columns(kernel, [1]), rows)]) == 1
    np.testing.assert_array_equal(periods.period_limits(kernel, rows), kernel.bounds)


def test_restarts_draw_periods_from_two_gaps_to_the_range_within_their_bounds():
    rows = table([0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 20.0])
    free = ExpSineSquared()
    narrow = ExpSineSquared(periodicity_bounds=(3.0, 10.0))
    elsewhere = ExpSineSquared(periodicity_bounds=(1e-3, 1e-1))
    drawn = [np.exp(periods.period_limits(one, rows))[1] for one in (free, narrow, elsewhere)]
    np.testing.assert_allclose(drawn, [[2.0, 20.0], [3.0, 10.0], [1e-3, 1e-1]])
    np.testing.assert_array_equal(periods.period_limits(free, rows)[0], free.bounds[0])


def test_peaks_of_a_periodogram_hold_the_period():
    x, y, period = drawn("uneven")
    rows = table(x, y)
    found = periods.candidates(rows, x, 1.0)
    assert np.abs(found / period - 1).min() < 0.03
    assert found.max() <= x.max() - x.min()


def test_a_column_of_a_kernel_may_have_the_period():
    x, y, period = drawn("quarters")
    model = constant(1.0 * Columns(ExpSineSquared(1.0, 1.0), [0]))
    np.testing.assert_allclose(period_of(model, x, y), period, rtol=0.02)


def test_a_column_of_several_may_have_a_period_that_begins_beside_it():
    rng = np.random.RandomState(0)
    X = np.column_stack([np.arange(400.0), rng.normal(size=400)])
    y = season(X[:, 0], 12.0) + np.sin(X[:, 1]) + 0.2 * rng.normal(size=400)
    kernel = 1.0 * Columns(ExpSineSquared(1.0, 12.6), [0]) + 1.0 * Columns(RBF(), [1])
    model = constant(kernel).set_params(random_state=0).fit(X, y)
    period = np.exp(model.kernel_.theta[positions_of(model.kernel_, "periodicity")[0][0]])
    np.testing.assert_allclose(period, 12.0, rtol=2e-3)


def test_a_search_moves_periods_in_units_of_the_phase_of_far_rows():
    kernel = RBF() + ExpSineSquared(1.0, 13.0) + ExpSineSquared(1.0, 1e6)
    days = np.arange(520.0)[:, None]
    lengths = units(kernel, 1, lambda: days.std(axis=0))
    np.testing.assert_allclose(lengths, [1, 1, 13 / (2 * np.pi * np.std(np.arange(520))), 1, 1])
    hours = kernel.clone_with_theta(kernel.theta + np.log(24.0))
    np.testing.assert_allclose(units(hours, 1, lambda: 24.0 * days.std(axis=0)), lengths)

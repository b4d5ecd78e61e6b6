"""Places on a sphere: where fits of them begin, and which latitudes are refused."""

import numpy as np
import pandas as pd
import pytest
from chunked_arrays import Arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels
from skgp_sparse.kernels import Columns, Missing, Sphere

QUICK = {"optimizer": None, "n_inducing": 10}


def country(n, seed=0):
    """Rows of a small country, and a function that varies within it."""
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.uniform(6, 10, n), rng.uniform(45.8, 47.8, n)])
    return X, np.sin(2 * X[:, 0]) * np.cos(3 * X[:, 1])


X, F = country(150)
AT, F_AT = country(200, seed=1)
WHERE = ["lon", "lat"]


def beyond(latitude, row=3):
    rows = X.copy()
    rows[row, 1] = latitude
    return rows


# -- starts --------------------------------------------------------------------------------


def test_the_spread_is_the_median_distance_from_the_middle():
    theta = kernels.theta_of_spread(ConstantKernel() * Sphere(RBF()), X)
    places = Sphere(RBF()).transform(X)
    distances = np.linalg.norm(places - np.median(places, axis=0), axis=1)
    assert_allclose(np.exp(theta), [1.0, np.median(distances)])
    far = np.vstack([X, [[-170.0, -40.0]]])
    moved = kernels.theta_of_spread(ConstantKernel() * Sphere(RBF()), far)
    assert moved[1] == pytest.approx(theta[1], rel=0.05)


@pytest.mark.parametrize(
    "kernel",
    [
        Columns(RBF(), [0]),
        Sphere(RBF(0.9)),
        Sphere(RBF(1.0, "fixed")),
        Sphere(ExpSineSquared()),
        Sphere(Matern([1.0, 1.0, 0.5])),
    ],
)
def test_only_a_scale_of_sklearn_that_is_free_has_another_start(kernel):
    assert kernels.theta_of_spread(kernel, X) is None


def test_starts_of_sums_of_three_scales_of_gaps_and_of_equal_rows():
    kernel = Missing(Columns(Sphere(Matern([1.0, 1.0, 1.0])), [2, 1]), columns=[1]) + RBF()
    rows = np.column_stack([X[:, 0], X[:, 1], X[:, 0]])
    rows[::5, 1] = np.nan
    lengths = np.exp(kernels.theta_of_spread(kernel, rows)[:3])
    assert np.all(lengths == lengths[0]) and 0.005 < lengths[0] < 0.05
    assert kernels.theta_of_spread(Sphere(RBF()), X[:1].repeat(4, axis=0)) is None
    clustered = np.vstack([X[:1].repeat(90, axis=0), X[1:5]])
    assert 0 < np.exp(kernels.theta_of_spread(Sphere(RBF()), clustered)[0]) < 0.05
    within = kernels.theta_of_spread(Sphere(RBF(1.0, (0.1, 10.0))), X)
    assert np.exp(within[0]) == pytest.approx(0.1)


@pytest.mark.second(share=0.17, keep=2)
@pytest.mark.parametrize("posterior", ["auto", "inducing", "neighbors", "rows", "stream"])
def test_fits_of_a_country_find_its_scale(posterior):
    rows, f = country(400)
    y = f + 0.1 * np.random.RandomState(0).normal(size=len(f))
    kernel = ConstantKernel() * Sphere(Matern(nu=1.5))
    model = SparseGPRegressor(kernel, n_inducing=60, random_state=0)
    if posterior == "stream":
        model.partial_fit(rows, y)
    else:
        model.set_params(posterior=posterior).fit(rows, y)
    assert np.sqrt(np.mean((model.predict(AT) - F_AT) ** 2)) < 0.12  # 0.45 of a constant
    assert kernel.theta.tolist() == [0.0, 0.0]


def test_likelihoods_and_labels_of_a_country_find_its_scale():
    kernel = ConstantKernel() * Sphere(RBF())
    model = SparseGPClassifier(kernel, n_inducing=50, random_state=0).fit(X, F > 0)
    assert model.score(AT, F_AT > 0) > 0.85
    counts = np.random.RandomState(0).poisson(np.exp(1.5 + F))
    model = SparseGPRegressor(kernel, likelihood="poisson", n_inducing=50, random_state=0)
    assert np.corrcoef(model.fit(X, counts).predict(AT), np.exp(F_AT))[0, 1] > 0.8


def test_the_own_start_stays_a_candidate():
    """A function that varies over the earth is found as before, where that has more evidence."""
    rng = np.random.RandomState(0)
    near, far = rng.normal([8.0, 47.0], 0.01, (60, 2)), rng.uniform([-180, -60], [180, 60], (50, 2))
    rows = np.vstack([near, far])
    y = np.sin(rows[:, 0] * np.pi / 180) + 0.05 * rng.normal(size=len(rows))
    free = SparseGPRegressor(Sphere(RBF()), random_state=0).fit(rows, y)
    fixed = SparseGPRegressor(Sphere(RBF(1.0000001)), random_state=0).fit(rows, y)
    assert free.log_marginal_likelihood_value_ >= fixed.log_marginal_likelihood_value_ - 1e-3


def test_without_an_optimiser_the_scale_stays():
    assert SparseGPRegressor(Sphere(RBF()), **QUICK).fit(X, F).kernel_.k1.kernel.length_scale == 1


# -- latitudes -----------------------------------------------------------------------------

REFUSED = r"is the latitude of .*Sphere\(RBF.*from -90 to 90, but it is 127.5 in row 3"


@pytest.mark.parametrize("model", [SparseGPRegressor, SparseGPClassifier])
def test_fit_and_predict_refuse_latitudes_beyond_a_pole(model):
    fitted = model(Sphere(RBF(0.1)), **QUICK).fit(X, F > 0)
    for call, y in ((fitted.fit, [F > 0]), (fitted.partial_fit, [F > 0]), (fitted.predict, [])):
        with pytest.raises(ValueError, match=f"Column 1 of X of {model.__name__} {REFUSED}"):
            call(beyond(127.5), *y)
    fitted.predict(beyond(90 + 1e-10)), fitted.predict(beyond(-90 - 1e-10))
    for latitude in (90 + 1e-7, -90.1):
        with pytest.raises(ValueError, match="from -90 to 90, but it is -?90"):
            fitted.predict(beyond(latitude))


def test_a_partial_fit_refuses_latitudes_in_its_first_and_in_later_calls():
    model = SparseGPRegressor(Sphere(RBF(0.1)), **QUICK)
    for _ in range(2):
        with pytest.raises(ValueError, match=REFUSED):
            model.partial_fit(beyond(127.5), F)
        model.partial_fit(X, F)


def test_predictions_of_the_prior_refuse_latitudes():
    with pytest.raises(ValueError, match=REFUSED):
        SparseGPRegressor(Sphere(RBF(0.1))).predict(beyond(127.5))


@pytest.mark.parametrize("columns", [[2, 1], ["lon", "lat"]])
def test_frames_name_the_column(columns):
    frame = pd.DataFrame({"text": ["u", "v", "w"] * 50, "lat": X[:, 1], "lon": X[:, 0]})
    codes = Columns(kernels.Categorical(), ["text"])
    model = SparseGPRegressor(codes * Columns(Sphere(RBF(0.1)), columns), **QUICK).fit(frame, F)
    wrong = frame.assign(lat=beyond(127.5)[:, 1])
    for call in (model.predict, lambda rows: model.fit(rows, F)):
        with pytest.raises(ValueError, match=f"Column 'lat' of X of SparseGPRegressor {REFUSED}"):
            call(wrong)
    assert model.predict(frame).shape == (150,)


def test_plain_frames_name_the_column_and_swapped_ones_the_remedy():
    frame = pd.DataFrame(X[:, ::-1] * [1.0, 12.0], columns=["lat", "lon"])
    with pytest.raises(
        ValueError, match=r"the longitude first, which is column 'lat' here.*\[1, 0\]"
    ):
        SparseGPRegressor(Sphere(RBF(0.1)), **QUICK).fit(frame, F)
    kernel = Columns(Sphere(RBF(0.1)), ["lon", "lat"])
    model = SparseGPRegressor(kernel, optimizer=None).fit(frame, F)
    expected = SparseGPRegressor(Sphere(RBF(0.1)), optimizer=None).fit(X * [12.0, 1.0], F)
    assert_allclose(model.predict(frame), expected.predict(X * [12.0, 1.0]), atol=1e-8)
    model.partial_fit(frame.iloc[:20], F[:20])


def test_sources_refuse_latitudes_and_say_the_chunk():
    with pytest.raises(ValueError, match=f"chunk 1 of .*Column 1 of X of .*{REFUSED}"):
        rows = beyond(127.5, row=53)
        SparseGPRegressor(Sphere(RBF(0.1)), **QUICK).fit(Arrays(rows, F, chunk_size=50))


def test_partitions_of_a_cluster_refuse_latitudes():
    tasks = pytest.importorskip("skgp_sparse.dask._distributed_rows")
    rules = SparseGPRegressor(Columns(Sphere(RBF(0.1)), ["lon", "lat"]))._observations().rules
    frame = pd.DataFrame(beyond(127.5), columns=WHERE)
    given = {"y": F, "sample_weight": None, "offset": None, "alpha": None}
    with pytest.raises(ValueError, match=f"Partition 7: Column 'lat' of X of .*{REFUSED}"):
        tasks.checked(7, rules, frame, **given)


def test_a_sphere_beside_categories_of_a_frame_sees_its_own_columns():
    kernel = Columns(kernels.Categorical(), [0]) * Columns(Sphere(RBF()), [2, 1])
    assert kernels.touched(kernel, 4, but="takes_codes").tolist() == [False, True, True, False]


def test_gaps_go_to_missing():
    rows = X.copy()
    rows[::7, 1], rows[::9, 0] = np.nan, np.nan
    model = SparseGPRegressor(Missing(Sphere(RBF(0.1))), **QUICK).fit(rows, F)
    assert np.isfinite(model.predict(rows)).all()
    rows[3, 1] = 127.5
    for call in (model.predict, lambda rows: model.fit(rows, F)):
        with pytest.raises(ValueError, match=REFUSED):
            call(rows)
    with pytest.raises(ValueError, match="contains NaN"):
        SparseGPRegressor(Sphere(RBF(0.1)), **QUICK).fit(rows, F)


def test_other_kernels_take_any_numbers():
    rows = beyond(127.5)
    model = SparseGPRegressor(Columns(Sphere(RBF(0.1)), [0, 2]) + RBF(), **QUICK)
    three = np.column_stack([rows, X[:, 1]])
    assert_array_equal(model.fit(three, F).predict(three).shape, (150,))

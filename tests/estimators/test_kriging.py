"""Averages over areas beside dense algebra, and variograms beside loops over pairs."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.explain import averages, variograms
from skgp_sparse.kernels import Columns, RandomEffect

RNG = np.random.RandomState(0)
X = RNG.uniform(0, 4, size=(60, 2))
Y = 30.0 + 5.0 * (np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=60))
POINTS = RNG.uniform(0, 4, size=(40, 2))
AREA = np.array(["wood", "lake", "field"])[RNG.randint(0, 3, 40)]
WEIGHT = RNG.uniform(0.1, 2.0, 40)
KERNEL = ConstantKernel(2.0) * Matern([1.0, 2.0], nu=1.5)


def areas():
    """The matrix of averages, areas sorted by their names."""
    A = WEIGHT * (AREA == np.unique(AREA)[:, None])
    return A / A.sum(axis=1, keepdims=True)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(averages, "_ROWS", 7)


@pytest.mark.usefixtures("small_blocks")
def test_averages_are_those_of_dense_algebra():
    model = SparseGPRegressor(KERNEL + WhiteKernel(0.1), posterior="exact", optimizer=None)
    mean, std = model.fit(X, Y).predict_average(POINTS, WEIGHT, AREA, return_std=True)
    K, across, unit = KERNEL(X) + 0.1 * np.eye(60), KERNEL(POINTS, X), Y.std()
    m = Y.mean() + across @ np.linalg.solve(K, Y - Y.mean())
    C = unit**2 * (KERNEL(POINTS) - across @ np.linalg.solve(K, across.T))
    A = areas()
    assert_allclose(mean, A @ m, rtol=1e-10)
    assert_allclose(std, np.sqrt(np.diag(A @ C @ A.T)), rtol=1e-7)
    assert_allclose(model.predict_average(POINTS, WEIGHT, AREA), mean, rtol=1e-12)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "parameters",
    [
        {"n_inducing": 12, "optimizer": None},
        {"kernel": Columns(RBF(), [0]), "mean": "linear"},
        {"metric": 1, "max_iter": 5},
        {"posterior": "fourier", "max_iter": 5},
    ],
    ids=str,
)
def test_averages_are_those_of_joint_covariances(parameters):
    model = SparseGPRegressor(**{"kernel": None, "random_state": 0} | parameters).fit(X, Y)
    mean, C = model.predict(POINTS, return_cov=True, latent=True)
    A, found = areas(), model.predict_average(POINTS, WEIGHT, AREA, return_std=True)
    assert_allclose(found[0], A @ mean, rtol=1e-9)
    assert_allclose(found[1], np.sqrt(np.diag(A @ C @ A.T)), rtol=1e-6)


@pytest.mark.parametrize("posterior", ["neighbors", "rows"])
def test_averages_of_near_rows_are_close_to_the_exact_ones(posterior):
    fixed = {"kernel": KERNEL + WhiteKernel(0.1), "optimizer": None, "random_state": 0}
    exact, near = (
        SparseGPRegressor(posterior=one, **fixed).fit(X, Y).predict_average(POINTS, return_std=True)
        for one in ("exact", posterior)
    )
    assert_allclose(near[0], exact[0], rtol=0.01)
    assert_allclose(near[1], exact[1], rtol=0.1)


def test_several_targets_one_area_and_frames():
    both = np.column_stack([Y, 3.0 * Y])
    model = SparseGPRegressor(KERNEL, optimizer=None).fit(X, both)
    mean, std = model.predict_average(POINTS, groups=AREA, return_std=True)
    assert mean.shape == std.shape == (3, 2)
    alone = SparseGPRegressor(KERNEL, optimizer=None).fit(X, Y)
    expected = alone.predict_average(POINTS, groups=AREA, return_std=True)
    assert_allclose(std, np.column_stack([expected[1], 3.0 * expected[1]]), rtol=1e-9)
    assert_allclose(mean[:, 0], expected[0])
    one = alone.predict_average(POINTS, return_std=True)
    assert one[0].shape == one[1].shape == (1,)
    single = alone.predict_average(POINTS[:1], return_std=True)
    assert_allclose(single, alone.predict(POINTS[:1], return_std=True, latent=True))
    frame = pd.DataFrame(POINTS, columns=["east", "north"])
    model = SparseGPRegressor(KERNEL, optimizer=None).fit(frame.set_axis(range(40))[:30], Y[:30])
    labels = pd.Series(AREA, dtype="category")
    assert model.predict_average(frame, frame["east"], labels).shape == (3,)


def test_averages_refuse_what_is_no_average():
    model = SparseGPRegressor(KERNEL, optimizer=None).fit(X, Y)
    for weights, got in (
        (-WEIGHT, "Got -.* in row 0"),
        (WEIGHT[:3], r"Got shape \(3,\)"),
        (np.full(40, np.nan), "Got nan in row 0"),
    ):
        with pytest.raises(ValueError, match=f"weights of .*predict_average must be .*{got}"):
            model.predict_average(POINTS, weights)
    with pytest.raises(ValueError, match="all 0 in 1 areas"):
        model.predict_average(POINTS, WEIGHT * (AREA != "lake"), AREA)
    with pytest.raises(ValueError, match="groups of .* for each of the 40 rows"):
        model.predict_average(POINTS, groups=AREA[:5])
    with pytest.raises(ValueError, match="not fitted"):
        SparseGPRegressor().predict_average(POINTS)
    counts = SparseGPRegressor(KERNEL, likelihood="poisson", optimizer=None, n_inducing=9)
    counts.fit(X, np.round(Y))
    for call in (lambda: counts.predict_average(POINTS), lambda: counts.variogram(X, Y)):
        with pytest.raises(ValueError, match="needs likelihood='gaussian'"):
            call()


@pytest.mark.parametrize("mean", [None, "linear"])
def test_variograms_are_those_of_loops(mean):
    kernel = KERNEL + 0.1 * DotProduct()
    model = SparseGPRegressor(kernel + WhiteKernel(0.1), mean=mean, optimizer=None).fit(X, Y)
    found = model.variogram(X, Y, n_bins=5, max_distance=2.0)
    residual = Y - model.predict_parts(X)[0]
    unit = Y.std() if mean is None else model.noise_std(X[:1])[0] / np.sqrt(0.1)
    K = kernel(X) + 0.1 * np.eye(60)
    if mean == "linear":  # least squares takes this part of the covariance
        H = np.column_stack([np.ones(60), X])
        rest = np.eye(60) - H @ np.linalg.solve(H.T @ H, H.T)
        K = rest @ K @ rest
    sums = np.zeros((4, 5))
    for i in range(60):
        for j in range(i):
            distance = np.linalg.norm(X[i] - X[j])
            if distance < 2.0:
                fitted = unit**2 * (0.5 * (K[i, i] + K[j, j]) - K[i, j])
                one = distance, 0.5 * (residual[i] - residual[j]) ** 2, fitted, 1.0
                sums[:, int(distance / 0.4)] += one
    assert_allclose(found.n_pairs, sums[3])
    for mine, its in zip(found[:3], sums[:3] / sums[3]):
        assert_allclose(mine, its, rtol=1e-6)


def test_variograms_have_effects_of_levels():
    level = np.repeat(np.arange(12), 5)
    rows = np.column_stack([X, level])
    y = Y + 4.0 * RNG.normal(size=12)[level]
    kernel = Columns(Matern(1.0), [0, 1]) + RandomEffect(2, 2.0) + WhiteKernel(0.1)
    one, other = (
        SparseGPRegressor(kernel, optimizer=None, posterior=posterior, n_inducing=20)
        .fit(rows, y)
        .variogram(rows, y, n_bins=4)
        for posterior in ("exact", "inducing")
    )
    assert_allclose(one.fitted, other.fitted, rtol=1e-6)
    assert one.fitted[1:].min() > y.var()


def test_areas_are_sorted_as_numbers_and_have_no_missing_ones():
    model = SparseGPRegressor(KERNEL, optimizer=None).fit(X, Y)
    areas = np.array([1, 2, 10])[RNG.randint(0, 3, 40)]
    expected = model.predict_average(POINTS, groups=areas)
    assert_allclose(model.predict_average(POINTS, groups=areas.astype(object)), expected)
    for missing in (None, np.nan, pd.NA):
        areas = np.array(areas, dtype=object)
        areas[3] = missing
        with pytest.raises(ValueError, match="groups of .*predict_average have missing values"):
            model.predict_average(POINTS, groups=areas)


def test_variograms_in_a_metric_of_many_rows_and_with_empty_bins(monkeypatch):
    monkeypatch.setattr(variograms, "_MOST_ROWS", 30)
    model = SparseGPRegressor(metric=1, max_iter=5, random_state=0).fit(X, Y)
    found = model.variogram(X, Y, 1, 9.0)
    some = np.random.RandomState(0).permutation(60)[:30]
    signal = model.kernel_(X[some] @ model.metric_.T, X @ model.metric_.T)[:, some]
    noise = np.diag(model.kernel_(X[some]))[0] - signal[0, 0]
    expected = np.mean((noise + signal[0, 0] - signal)[np.triu_indices(30, 1)]) * Y.var()
    assert_allclose(found.fitted, expected, rtol=1e-6)
    assert found.n_pairs == 30 * 29 / 2
    few = SparseGPRegressor(KERNEL, optimizer=None).fit(X, Y)
    apart = few.variogram([[0.0, 0.0], [0.0, 0.5], [0.0, 3.0]], Y[:3], 10, 4.0)
    assert_allclose(apart.distance, [0.5, 2.5, 3.0])


def test_variograms_refuse_what_has_no_pairs():
    model = SparseGPRegressor(KERNEL, optimizer=None).fit(X, Y)
    with pytest.raises(ValueError, match="no two rows of X differ by at most max_distance=1e-09"):
        model.variogram(X, Y, max_distance=1e-9)
    with pytest.raises(ValueError, match="n_bins"):
        model.variogram(X, Y, n_bins=0)
    with pytest.raises(ValueError, match="max_distance"):
        model.variogram(X, Y, max_distance=-1.0)
    with pytest.raises(ValueError, match="needs one target"):
        SparseGPRegressor(KERNEL, optimizer=None).fit(X, X).variogram(X, X)

"""Kernels on chosen columns and on a sphere: rules, names of columns, and estimators with them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from inside import ArrayDataset, TargetScaler, within_reach
from kernel_cases import check_stack
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels
from skgp_sparse.inducing import k_means, k_means_plus_plus
from skgp_sparse.kernels import Columns, Sphere
from skgp_sparse.testing import check_kernel_rule

X = np.random.RandomState(0).uniform(0.1, 2.0, (30, 4))
PLACES = np.random.RandomState(1).uniform([-180, -89], [180, 89], (30, 2))
KERNELS = [
    Columns(sk.RBF([1.0, 2.0]), [0, 2]),
    Columns(sk.RBF(0.7), 3),
    Columns(sk.RBF(), 0) * Columns(sk.Matern([1.0, 0.5], nu=2.5), [3, 1]) + sk.WhiteKernel(0.1),
    Columns(sk.DotProduct(), [1]) + Columns(sk.ExpSineSquared(periodicity=1.3), 2),
    Columns(Columns(sk.Matern(nu=1.5), [1]), [0, 3]),
    Columns(Sphere(sk.Matern(0.5, nu=1.5)), [1, 0]) * sk.ConstantKernel(2.0),
    Columns(sk.ConstantKernel(2.0) * sk.RBF([1.0, 2.0], "fixed"), [1, 2]) + sk.RBF(),
    Columns(sk.RBF() + sk.WhiteKernel(0.3), [0]) ** 2,
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rules(kernel):
    check_kernel_rule(kernel, X)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_rule_of_places(nu):
    check_kernel_rule(sk.ConstantKernel(1.5) * Sphere(sk.Matern(0.7, nu=nu)), PLACES)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_many_point_sets_at_once(kernel):
    check_stack(kernel, X[:24].reshape(4, 6, 4))


def test_single_precision_is_that_of_the_kernel_on_its_columns():
    kernel = sk.ConstantKernel(1.5) * Columns(sk.Matern([1.0, 2.0], nu=2.5), [2, 0]) + Columns(
        sk.RBF(), 1
    )
    tile = kernels.single(kernel, X)(slice(0, 10), slice(5, 30))
    assert tile.dtype == np.float32
    np.testing.assert_allclose(tile, kernel(X[:10], X[5:]), atol=1e-5)


def test_it_is_the_kernel_of_these_columns():
    kernel = sk.Matern([1.0, 0.5], nu=1.5)
    seen = Columns(kernel, [3, 1])
    np.testing.assert_allclose(seen(X), kernel(X[:, [3, 1]]), rtol=1e-14)
    np.testing.assert_allclose(seen(X, X[:5]), kernel(X[:, [3, 1]], X[:5, [3, 1]]), rtol=1e-14)
    for mine, its in zip(seen(X, eval_gradient=True), kernel(X[:, [3, 1]], eval_gradient=True)):
        np.testing.assert_allclose(mine, its, rtol=1e-14)
    np.testing.assert_array_equal(seen.diag(X), np.ones(len(X)))
    assert seen.is_stationary() and not Columns(sk.DotProduct(), 0).is_stationary()


def test_kernels_of_scikit_learn_can_be_combined_with_it():
    kernel = sk.ConstantKernel() * Columns(sk.RBF(), 0) + sk.WhiteKernel(0.01)
    assert clone(kernel) == kernel and pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel != sk.ConstantKernel() * Columns(sk.RBF(), 1) + sk.WhiteKernel(0.01)
    assert kernel.get_params()["k1__k2__kernel__length_scale"] == 1.0
    longer = clone(kernel).set_params(k1__k2__kernel__length_scale=2.0)
    assert str(longer) == "1**2 * Columns(RBF(length_scale=2), 0) + WhiteKernel(noise_level=0.01)"
    names = [one.name for one in kernel.hyperparameters]
    assert names == ["k1__k1__constant_value", "k1__k2__kernel__length_scale", "k2__noise_level"]
    kernel, y = kernel.set_params(k2__noise_level_bounds="fixed"), np.sin(3 * X[:, 0])
    theirs = GaussianProcessRegressor(kernel).fit(X, y)
    ours = SparseGPRegressor(kernel, alpha=1e-10, normalize_y=False).fit(X, y)
    value = theirs.log_marginal_likelihood_value_
    assert ours.log_marginal_likelihood(theirs.kernel_.theta) == pytest.approx(value, rel=1e-6)


def test_length_scales_are_those_of_the_columns():
    spread = np.array([9.0, 8.0, 7.0, 6.0])
    kernel = Columns(sk.RBF([3.0, 1.0]), [2, 0]) + Columns(sk.Matern(4.0), [2])
    np.testing.assert_allclose(kernels.length_scales(kernel, spread), [1.0, 8.0, 2.4, 6.0])
    positions, columns = zip(*kernels.length_scale_places(sk.WhiteKernel() + kernel, 4))
    assert [list(one) for one in positions] == [[1, 2], [3]]
    assert [list(one) for one in columns] == [[2, 0], [2]]
    degrees = kernels.length_scales(Columns(Sphere(sk.RBF(np.pi / 180)), [1, 2]), spread)
    np.testing.assert_allclose(degrees, [9.0, 1.0, 1.0, 6.0])


def test_places_beyond_the_date_line_and_at_a_pole_are_near():
    kernel = Sphere(sk.RBF(0.1))
    places = np.array([[179.9, 5.0], [-179.9, 5.0], [10.0, 90.0], [-120.0, 90.0], [0.0, 0.0]])
    K = kernel(places)
    assert K[0, 1] > 0.999 and K[2, 3] == pytest.approx(1.0) and K[0, 4] < 1e-12
    assert np.linalg.eigvalsh(kernel(PLACES)).min() > -1e-12


def frame(n=200):
    rng = np.random.RandomState(0)
    data = pd.DataFrame(
        {
            "longitude": rng.uniform(-180, 180, n),
            "latitude": rng.uniform(-60, 60, n),
            "hour": rng.randint(0, 24, n),
            "noise": 1e3 * rng.normal(size=n),
        }
    )
    place = np.sin(np.radians(data.longitude)) * np.cos(np.radians(data.latitude))
    return data, place + 0.3 * np.cos(data.hour * np.pi / 12) + 0.05 * rng.normal(size=n)


DAY = sk.ExpSineSquared(periodicity=24, periodicity_bounds="fixed")
NAMED = sk.ConstantKernel() * Columns(Sphere(sk.Matern(nu=2.5)), ["longitude", "latitude"])
NAMED = NAMED + sk.ConstantKernel() * Columns(DAY, "hour")
NUMBERED = clone(NAMED).set_params(k1__k2__columns=[0, 1], k2__k2__columns=2)


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("posterior", ["exact", "inducing", "neighbors", "rows"])
def test_names_are_those_of_the_data_frame(posterior):
    df, y = frame()
    given = {"posterior": posterior, "n_inducing": 20, "random_state": 0}
    given |= {"n_inducing": "auto"} if posterior in ("neighbors", "rows") else {}
    named = SparseGPRegressor(NAMED, **given).fit(df, y)
    numbered = SparseGPRegressor(NUMBERED, **given).fit(df.to_numpy(), y)
    np.testing.assert_array_equal(named.predict(df[:9]), numbered.predict(df[:9].to_numpy()))
    assert named.score(df, y) > 0.95
    assert "['longitude', 'latitude']" in str(named.kernel_) and "'hour'" in str(named.kernel_)
    assert named.kernel is NAMED and NAMED.k1.k2.numbers is None  # as it was passed
    again = pickle.loads(pickle.dumps(named))
    np.testing.assert_array_equal(again.predict(df[:9]), named.predict(df[:9]))
    assert clone(named.kernel_) == named.kernel_


def test_a_learned_kernel_takes_names_of_another_frame_and_numbers_of_an_array():
    df, y = frame()
    model = SparseGPRegressor(NAMED, posterior="exact", alpha=0.01).fit(df, y)
    held = {"posterior": "exact", "optimizer": None, "alpha": 0.01}
    turned = df[df.columns[::-1]]
    other = SparseGPRegressor(model.kernel_, **held).fit(turned, y)
    array = SparseGPRegressor(model.kernel_, **held).fit(df.to_numpy(), y)
    expected = model.predict(df[:9])
    np.testing.assert_allclose(other.predict(turned[:9]), expected, atol=1e-8)
    np.testing.assert_allclose(array.predict(df[:9].to_numpy()), expected, atol=1e-8)


@pytest.mark.second
def test_labels_counts_streams_and_searches():
    df, y = frame()
    given = {"n_inducing": 20, "random_state": 0}
    assert SparseGPClassifier(NAMED, **given).fit(df, y > 0).score(df, y > 0) > 0.9
    counts = np.random.RandomState(0).poisson(np.exp(y))
    model = SparseGPRegressor(NAMED, likelihood="poisson", **given).fit(df, counts)
    assert np.corrcoef(model.predict(df), np.exp(y))[0, 1] > 0.8
    stream = SparseGPRegressor(NAMED, **given).partial_fit(df[:100], y[:100])
    assert stream.partial_fit(df[100:], y[100:]).score(df, y) > 0.95
    search = GridSearchCV(
        SparseGPRegressor(sk.ConstantKernel() * Columns(sk.RBF(), "noise"), optimizer=None),
        {"kernel__k2__columns": ["noise", ["hour", "noise"], [0, 1]]},
        cv=2,
    )
    assert search.fit(df, y).best_params_["kernel__k2__columns"] == [0, 1]


def test_scales_that_ran_away_are_brought_back_in_the_units_of_their_columns():
    df, y = frame(50)
    kernel = Columns(sk.RBF([1.0, 1.0]), ["noise", "hour"]) + Columns(sk.RBF(), "latitude")
    rows = ArrayDataset(df.to_numpy(), y.to_numpy()[:, None])
    rows = rows.in_units(TargetScaler.of(rows, True, "model"))
    kernel = kernels.named(kernel, df.columns)
    learned = kernel.clone_with_theta(np.full(3, 20.0))
    spread = df.std(ddof=0)[["noise", "hour", "latitude"]].to_numpy()
    expected = np.log(5.0 * spread * np.sqrt([2.0, 2.0, 1.0]))
    np.testing.assert_allclose(within_reach(learned, kernel, rows).theta, expected)


@pytest.mark.parametrize(
    "kernel, words",
    [
        (Columns(sk.RBF(), "houre"), r"chooses \['houre'\], but the columns of X are"),
        (Columns(sk.RBF(), [0, 7]), "of the 4 that the inputs have"),
        (Columns(sk.RBF(), [0, 0]), "a list of different ones"),
        (Columns(sk.RBF(), []), "a list of different ones"),
        (Columns(sk.RBF(), [0.5]), "a list of different ones"),
        (Columns(sk.RBF([1.0, 2.0, 3.0]), [0, 1]), "one per column"),
        (Sphere(sk.RBF()), "takes two columns, longitude and latitude"),
        (Columns(Sphere(sk.RBF(), distance="great-circle"), [0, 1]), "not positive definite"),
    ],
)
def test_kernels_that_cannot_be_are_refused_in_words(kernel, words):
    df, y = frame(50)
    with pytest.raises(ValueError, match=words):
        SparseGPRegressor(kernel).fit(df, y)


def test_names_without_a_data_frame_and_metrics_are_refused_in_words():
    df, y = frame(50)
    with pytest.raises(ValueError, match="X has no names of columns"):
        SparseGPRegressor(NAMED).fit(df.to_numpy(), y)
    with pytest.raises(ValueError, match="these inputs have no names"):
        GaussianProcessRegressor(NAMED).fit(df, y)
    with pytest.raises(ValueError, match="see all columns alike"):
        SparseGPRegressor(NAMED, metric="full").fit(df, y)
    with pytest.raises(ValueError, match="draws frequencies"):
        SparseGPRegressor(NAMED, posterior="fourier").fit(df, y)


@pytest.mark.second(share=0.25)
@pytest.mark.parametrize("posterior", ["neighbors", "rows"])
def test_near_places_are_near_beyond_the_date_line(posterior):
    rng = np.random.RandomState(0)
    places = np.column_stack([rng.uniform(-180, 180, 600), rng.uniform(-89, 89, 600)])
    x, _, z = Sphere(sk.RBF()).transform(places).T
    y = np.sin(6 * x) + np.sin(7 * z) + 0.05 * rng.normal(size=600)
    kernel = sk.ConstantKernel() * Sphere(sk.Matern(0.5, nu=1.5))
    model = SparseGPRegressor(kernel, alpha=0.0025, optimizer=None, posterior=posterior)
    model.fit(places, y)
    at = np.column_stack([np.linspace(175, 190, 50), rng.uniform(-60, 60, 50)])
    for here, there in zip(model.predict(at, True), model.predict(at - [360, 0], True)):
        np.testing.assert_allclose(here, there, atol=1e-6)


def test_columns_that_no_kernel_sees_do_not_matter():
    rng = np.random.RandomState(0)
    x = rng.uniform(0, 10, 1200)
    both = np.column_stack([x, 1e3 * rng.normal(size=1200)])
    y = np.sin(15 * x) + 0.1 * rng.normal(size=1200)
    held = {"alpha": 0.01, "optimizer": None, "random_state": 0, "posterior": "neighbors"}
    one = SparseGPRegressor(sk.RBF(0.08), **held).fit(x[:, None], y)
    chosen = SparseGPRegressor(Columns(sk.RBF(0.08), 0), **held).fit(both, y)
    at = rng.uniform(0, 10, 200)
    expected = one.predict(at[:, None])
    found = chosen.predict(np.column_stack([at, 1e3 * rng.normal(size=200)]))
    np.testing.assert_allclose(found, expected, atol=1e-8)
    kernel = sk.ConstantKernel() * Columns(sk.RBF(0.2), 0)
    np.testing.assert_array_equal(kernels.touched(kernel, 2), [True, False])
    for init in (k_means, k_means_plus_plus):
        Z = init(both, 60, kernel, np.random.RandomState(0))[:, 0]
        alone = init(both[:, :1], 60, kernel, np.random.RandomState(0))[:, 0]
        np.testing.assert_allclose(np.sort(Z), np.sort(alone), atol=0.05)  # sums are rounded


def test_hours_are_near_as_on_a_clock():
    kernel = Columns(sk.ExpSineSquared(0.5, 24.0), 1) * Columns(sk.RBF(2.0), 0)
    hours = np.array([[0.0, 0.1], [0.0, 23.9], [0.0, 12.0], [3.0, 0.1]])
    units = kernels.in_units(kernel, hours, np.ones(2))
    squares = np.sum((units[:, None] - units) ** 2, axis=2)
    np.testing.assert_allclose(np.exp(-0.5 * squares), kernel(hours), atol=1e-12)


def test_other_columns_of_a_learned_kernel_are_not_those_of_before():
    df, y = frame(60)
    model = SparseGPRegressor(Columns(sk.RBF(), "hour"), alpha=0.1).fit(df, y)
    learned = model.kernel_.k1 if hasattr(model.kernel_, "k1") else model.kernel_
    assert learned.numbers == {"hour": 2}
    assert clone(learned).set_params(columns=1).chosen(4) == [1]
    with pytest.raises(ValueError, match="these inputs have no names"):
        clone(learned).set_params(columns="noise").chosen(4)
    assert Columns(sk.RBF(), ["a", 1]) != Columns(sk.RBF(), ["a", "1"])
    assert Columns(sk.RBF(), (0, 1)) == Columns(sk.RBF(), [0, 1])

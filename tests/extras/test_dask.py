"""Estimators on a cluster of processes: equal to local ones, whatever happens to the workers."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from uuid import uuid4

import cloudpickle
import joblib
import numpy as np
import pytest
from conftest import NAMED_BOUNDS, raising
from inside import _differentiable, _sklearn_kernels
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV

from skgp_sparse import SparseGPClassifier, SparseGPRegressor, kernels

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client, Event, LocalCluster, get_worker
from inside import ArrayDataset, TargetScaler, moments, stochastic

from skgp_sparse.dask import DaskSparseGPClassifier, DaskSparseGPRegressor, _distributed_rows
from skgp_sparse.dask._distributed_rows import DaskDataset
from skgp_sparse.posteriors import FourierFeatures, Neighbors

pytestmark = [
    pytest.mark.usefixtures("without_means"),
    pytest.mark.second,  # but for a refusal: test_doors.py has fits within one process
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.xdist_group("cluster"),  # one cluster, for one worker of xdist
]

N = 600
LONG = 300  # seconds after which what does not come is given up
QUICK_LABELS = {"n_inducing": 12, "max_iter": 4, "random_state": 0, "n_jobs": 1}
QUICK = QUICK_LABELS | {"noise": "constant"}  # which is that of rows on a cluster


class Renamed(RBF):
    """A kernel without a rule of the package."""


class Another(RBF):
    """The same, of which workers know nothing yet."""


class RuleOfRenamed(_sklearn_kernels.LengthScaleRule):
    """A rule of a user."""

    def __init__(self):
        super().__init__(_sklearn_kernels.squared_exponential, footprint=1)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as found:
        yield found


@pytest.fixture
def client(cluster):
    """A client of workers who know nothing, and who know nothing when it is closed."""
    with Client(cluster) as found:
        found.wait_for_workers(2, timeout=LONG)
        yield found
        assert_nothing_left(found)


@pytest.fixture
def on_workers(monkeypatch):
    """Tables of any size stay on the workers, and local ones are not sorted."""
    monkeypatch.setattr(moments, "_SMALL_TABLE", 0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, (N, 2))
    f = np.sin(2 * X[:, 0]) * np.cos(X[:, 1])
    return X, f, f + 0.1 * rng.normal(size=N) + 5.0


def wait_until(condition):
    """Wait for what nobody announces."""
    last = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.01)


def known_to(client):
    """Keys of the tasks that the scheduler knows."""
    return client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))


def assert_nothing_left(client):
    if client.status != "running":
        return
    wait_until(lambda: not client.futures and not known_to(client))


def lazily(*arrays, rows=200):
    return [da.from_array(array, chunks=(rows, *array.shape[1:])) for array in arrays]


def assert_same_fit(model, expected, tol=1e-10):
    """Values per row, hyperparameters and inducing points."""
    value, other = model.log_marginal_likelihood_value_, expected.log_marginal_likelihood_value_
    assert value == pytest.approx(other, rel=tol, abs=tol * N)
    assert model.kernel_.theta == pytest.approx(expected.kernel_.theta, abs=100 * tol)
    pairs = zip(np.atleast_3d(model.inducing_points_), np.atleast_3d(expected.inducing_points_))
    assert all(one == pytest.approx(two, abs=100 * tol) for one, two in pairs)


# -- evaluations ---------------------------------------------------------------------------


def evaluation(model, X, y, **fit):
    """Value and gradient at one theta, before any digit is lost to an optimiser."""
    found = []

    def look(objective, theta, bounds):
        value, gradient = objective(theta)
        found.append((value, gradient))
        return theta, value

    model.set_params(optimizer=look).fit(X, y, **fit)
    return found[0]


NOISY = RBF([1.0, 2.0]) + WhiteKernel(0.1)
EVALUATED = [{"bound": bound, "kernel": NOISY} for bound in NAMED_BOUNDS]
EVALUATED += [{"likelihood": one, "kernel": RBF()} for one in ("poisson", "student_t", "beta")]


@pytest.mark.parametrize("options", EVALUATED, ids=lambda given: next(iter(given.values())))
def test_evaluations_are_the_local_ones(options, client, on_workers, table):
    X, f, y = table
    known, lazy, tolerances = {}, {}, (1e-12, 1e-11)
    if "likelihood" in options:
        y = np.random.RandomState(1).poisson(np.exp(f)).astype(float)
        y = (y + 1.0) / (y.max() + 2.0) if options["likelihood"] == "beta" else y
        known, tolerances = {"offset": 0.1 * X[:, 0]}, (1e-10, 1e-7)
        lazy = {"offset": lazily(known["offset"])[0]}
    value, gradient = evaluation(SparseGPRegressor(**options, **QUICK), X, y, **known)
    model = DaskSparseGPRegressor(client=client, **options, **QUICK)
    ours, our_gradient = evaluation(model, *lazily(X, y), **lazy)
    assert ours == pytest.approx(value, rel=tolerances[0])
    assert our_gradient == pytest.approx(gradient, abs=tolerances[1] * np.abs(gradient).max())


def test_rules_of_kernels_that_users_register_travel(client, on_workers, table):
    X, _, y = table
    kernels.register(Renamed, RuleOfRenamed())
    arrived = pickle.loads(cloudpickle.dumps(Renamed()))
    assert b"RuleOfRenamed" in pickle.dumps(arrived)  # from worker to worker
    kernels.register(type("Elsewhere", (RBF,), {"__module__": "nowhere"}), RuleOfRenamed())
    kernel = Renamed([1.0, 2.0]) + WhiteKernel(0.1)
    local = SparseGPRegressor(kernel, **QUICK).fit(X, y)
    assert_same_fit(DaskSparseGPRegressor(kernel, **QUICK).fit(*lazily(X, y)), local)


# -- fits ----------------------------------------------------------------------------------


def test_a_fit_of_arrays_is_the_local_one(client, on_workers, table):
    X, _, y = table
    local = SparseGPRegressor(**QUICK).fit(X, y)
    ragged = da.from_array(X, chunks=((100, 300, 200), (1, 1)))
    model = DaskSparseGPRegressor(**QUICK).fit(ragged, da.from_array(y, chunks=120))
    assert_same_fit(model, local)
    assert model.n_features_in_ == 2 and not hasattr(model, "feature_names_in_")
    assert model.client_ is client


def test_a_fit_of_dataframes_is_the_local_one_and_knows_the_columns(client, on_workers, table):
    X, _, y = table
    frame = pd.DataFrame(X, columns=["u", "v"])
    local = SparseGPRegressor(**QUICK).fit(frame, y)
    lazy = dd.from_pandas(frame.assign(y=y), npartitions=3)
    model = DaskSparseGPRegressor(**QUICK).fit(lazy[["u", "v"]], lazy["y"])
    assert_same_fit(model, local)
    assert list(model.feature_names_in_) == ["u", "v"]
    found = model.predict(lazy[["u", "v"]])
    assert isinstance(found, da.Array)
    assert found.compute() == pytest.approx(local.predict(frame), abs=1e-8)


def test_small_tables_are_fitted_to_the_same_bits_in_the_client(client, table):
    X, _, y = table
    local = SparseGPRegressor(**QUICK).fit(X, y)
    model = DaskSparseGPRegressor(**QUICK).fit(*lazily(X, y))
    assert np.array_equal(model.kernel_.theta, local.kernel_.theta)
    assert np.array_equal(model.inducing_points_, local.inducing_points_)
    labels = np.where(y > 5, "high", "low")
    local = SparseGPClassifier(**QUICK_LABELS).fit(X, labels)
    model = DaskSparseGPClassifier(**QUICK_LABELS).fit(*lazily(X, labels))
    assert np.array_equal(model.kernel_.theta, local.kernel_.theta)
    assert np.array_equal(model.predict(X), local.predict(X))


def test_ordered_labels_are_fitted_on_the_workers(client, on_workers, table):
    X, _, y = table
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [4.7, 5.3])]
    options = QUICK_LABELS | {"likelihood": "ordinal", "mean": None, "calibration": None}
    options["ordinal_classes"] = ["low", "middle", "high"]
    local = SparseGPClassifier(**options).fit(X, labels)
    model = DaskSparseGPClassifier(**options).fit(*lazily(X, labels))
    assert_same_fit(model, local)
    assert model.likelihood_.thresholds == pytest.approx(local.likelihood_.thresholds, abs=1e-8)
    assert model.predict_proba(X) == pytest.approx(local.predict_proba(X), abs=1e-7)


@pytest.mark.parametrize("is_large", [False, True])
def test_known_noise_of_partitions_of_one_row(is_large, client, table, request):
    if is_large:
        request.getfixturevalue("on_workers")
    X, _, y = table
    X, y, alpha = X[:301], y[:301], np.random.RandomState(1).uniform(0.01, 0.5, 301)
    local = SparseGPRegressor(RBF(), alpha=alpha, **QUICK).fit(X, y)
    chunks = (1, 200, 100)
    dX = da.from_array(X, chunks=(chunks, 2))
    dy, dalpha = (da.from_array(one, chunks=(chunks,)) for one in (y, alpha))
    for noise in (alpha, dalpha):
        model = DaskSparseGPRegressor(RBF(), alpha=noise, **QUICK).fit(dX, dy)
        assert_same_fit(model, local, 1e-8)


@pytest.mark.parametrize(
    "options, tolerance",
    [
        ({"posterior": Neighbors(n_neighbors=20, n_neighbors_fit=10)}, 1e-5),
        ({"posterior": FourierFeatures(16), "n_inducing": "auto", "optimizer": None}, 1e-6),
    ],
    ids=["neighbors", "fourier"],
)
def test_other_posteriors_of_rows_of_a_cluster(options, tolerance, client, on_workers, table):
    X, _, y = table
    weight = np.arange(len(X)) % 3 + 1.0
    given = {**QUICK, "kernel": RBF([1.0, 1.0]) + WhiteKernel(1e-2), **options}
    local = SparseGPRegressor(**given).fit(X, y, sample_weight=weight)
    dX, dy, lazy_weight = lazily(X, y, weight, rows=140)
    model = DaskSparseGPRegressor(**given).fit(dX, dy, sample_weight=lazy_weight)
    assert model.kernel_.theta == pytest.approx(local.kernel_.theta, abs=tolerance)
    Q = X[:200] + 0.01
    for mine, its in zip(model.predict(Q, return_std=True), local.predict(Q, return_std=True)):
        assert mine == pytest.approx(its, abs=tolerance)
    assert model.predict(dX[:200]).compute() == pytest.approx(local.predict(X[:200]), abs=tolerance)


@pytest.mark.parametrize("is_classifier", [False, True])
def test_copies_and_weights_on_a_cluster(is_classifier, client, on_workers, table):
    X, f, y = (column[:150] for column in table)
    weight = np.where(f > 0, 6.0, 2.0)
    y = np.where(f > 0, "high", "low") if is_classifier else y
    twice = np.tile(np.arange(150), 2)
    options = (QUICK_LABELS if is_classifier else QUICK) | {"n_inducing": 12}
    pair = SparseGPClassifier, DaskSparseGPClassifier
    pair = pair if is_classifier else (SparseGPRegressor, DaskSparseGPRegressor)
    local = pair[0](**options).fit(X, y, sample_weight=weight)
    dX, dy, lazy_weight = lazily(X[twice], y[twice], weight[twice])
    model = pair[1](**options).fit(dX, dy, sample_weight=lazy_weight)
    name = "predict_proba" if is_classifier else "predict"
    found, known = (getattr(one, name)(X) for one in (model, local))
    np.testing.assert_allclose(found, known, atol=1e-6)
    if is_classifier:
        balanced = [one(**options, class_weight="balanced") for one in pair]
        known = balanced[0].fit(X, y).predict_proba(X)
        found = balanced[1].fit(dX, dy).predict_proba(X)
        np.testing.assert_allclose(found, known, atol=1e-6)


def test_the_exact_process_of_few_distinct_rows(client, on_workers, table):
    X, _, y = table
    X, options = np.round(X), {**QUICK, "n_inducing": 60}
    local = SparseGPRegressor(**options).fit(X, y)
    model = DaskSparseGPRegressor(**options).fit(*lazily(X, y))
    assert_same_fit(model, local)


@pytest.mark.second(keep=1)
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one", "softmax"])
def test_fits_of_several_classes_are_the_local_ones(multi_class, client, on_workers, table):
    X, f, _ = table
    labels = np.array(["a", "b", "c"])[np.digitize(f, [-0.3, 0.3])]
    order = np.argsort(labels, kind="stable")  # partitions without some classes
    X, labels = X[order], labels[order]
    options = QUICK_LABELS | {"max_iter": 2, "tol": 1e-2, "n_inducing": 6}
    options["multi_class"] = multi_class
    local = SparseGPClassifier(**options).fit(X, labels)
    dX, dlabels = lazily(X, labels, rows=300)
    model = DaskSparseGPClassifier(**{**options, "n_jobs": 2}).fit(dX, dlabels)
    assert list(model.classes_) == ["a", "b", "c"]
    value = local.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood_value_ == pytest.approx(value, rel=1e-9)
    lazy = model.predict_proba(dX)
    assert lazy.shape == (N, 3)
    assert lazy.compute() == pytest.approx(local.predict_proba(X), abs=1e-8)
    assert np.array_equal(model.predict(dX).compute(), local.predict(X))
    assert model.score(dX, dlabels) == local.score(X, labels)


# -- predictions ---------------------------------------------------------------------------


def test_predictions_are_lazy_for_lazy_rows_and_arrays_for_arrays(client, table):
    X, _, y = table
    dX, dy = lazily(X, y)
    model = DaskSparseGPRegressor(**QUICK).fit(dX, dy)
    local = model.to_local()
    assert isinstance(model.predict(X), np.ndarray)
    pair = model.predict(dX, return_std=True)
    for one, other in zip(pair, local.predict(X, return_std=True)):
        assert one.chunks == ((200,) * 3,) and one.dtype == float
        assert np.array_equal(one.compute(), other)
    quantiles = model.predict_quantiles(dX, [0.1, 0.9])
    assert quantiles.shape == (N, 2)
    assert np.array_equal(quantiles.compute(), local.predict_quantiles(X, [0.1, 0.9]))
    for at, given in ((0.3, 0.3), (y, dy)):
        share = model.predict_cdf(dX, given)
        assert share.shape == (N,)
        assert np.array_equal(share.compute(), local.predict_cdf(X, at))
    density = model.log_predictive_density(dX, dy)
    assert np.array_equal(density.compute(), local.log_predictive_density(X, y))
    unknown = dX[dX[:, 0] > 0]
    expected = local.predict(X[X[:, 0] > 0])  # blocks of other sizes: other last bits
    assert model.predict(unknown).compute() == pytest.approx(expected, rel=1e-12)
    assert model.score(dX, dy) == pytest.approx(local.score(X, y), rel=1e-12)
    with pytest.raises(TypeError, match="X is a dask collection"):
        model.sample_y(dX)
    with pytest.raises(TypeError, match="all pairs of rows"):
        model.predict(dX, return_cov=True)
    with pytest.raises(ValueError, match="2 columns"):
        model.predict(dX[:, :1])


def test_offsets_of_predictions_stay_with_their_rows(client, table):
    X, f, _ = table
    y, offset = np.random.RandomState(1).poisson(np.exp(f)), 0.1 * X[:, 0]
    dX, dy, doffset = lazily(X, y, offset)
    model = DaskSparseGPRegressor(likelihood="poisson", **QUICK).fit(dX, dy, offset=doffset)
    expected = model.to_local().predict(X, offset=offset)
    for given in (doffset, doffset.rechunk(150), offset):
        assert np.array_equal(model.predict(dX, offset=given).compute(), expected)
    with pytest.raises(TypeError, match="offset must be a dask collection or a number"):
        model.predict(dX[dX[:, 0] > 0], offset=offset[X[:, 0] > 0])
    density = model.log_predictive_density(dX, y, offset=offset).compute()
    assert np.array_equal(density, model.to_local().log_predictive_density(X, y, offset=offset))


def test_rules_of_kernels_travel_with_predictions(client, table):
    X, _, y = table
    kernels.register(Another, RuleOfRenamed())
    model = DaskSparseGPRegressor(Another() + WhiteKernel(), **QUICK).fit(X, y)
    assert not any(client.run(knows_another).values())
    assert model.predict(*lazily(X)).compute() == pytest.approx(model.predict(X), rel=1e-12)
    assert any(client.run(knows_another).values())


def knows_another():
    return Another in _differentiable.BUILDERS


def test_an_empty_partition_has_no_predictions(client, table):
    X, _, y = table
    dX, dy = lazily(X, y)
    model = DaskSparseGPRegressor(**QUICK).fit(dX, dy)
    some = dX[dX[:, 0] > 10]
    assert model.predict(some).compute().shape == (0,)
    mean, std = model.predict(some, return_std=True)
    assert mean.compute().shape == std.compute().shape == (0,)


# -- estimators ----------------------------------------------------------------------------


def test_parameters_are_those_of_the_plain_estimators_and_client():
    for ours, plain in (
        (DaskSparseGPRegressor(), SparseGPRegressor()),
        (DaskSparseGPClassifier(), SparseGPClassifier()),
    ):
        parameters = ours.get_params()
        assert parameters.pop("client") is None
        assert parameters == plain.get_params()
        assert type(ours.to_local()) is type(plain)
    with pytest.raises(TypeError, match="nonsense"):
        DaskSparseGPRegressor(nonsense=1)


def test_clones_share_the_client_and_copies_have_none(client, table):
    X, _, y = table
    model = DaskSparseGPRegressor(**QUICK, client=client).fit(*lazily(X, y))
    assert clone(model).client is client and not hasattr(clone(model), "kernel_")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.client is None
        assert np.array_equal(other.predict(X[:5]), model.predict(X[:5]))
    local = pickle.loads(pickle.dumps(model.to_local()))
    assert type(local) is SparseGPRegressor and not hasattr(local, "client")
    assert np.array_equal(local.predict(X[:5]), model.predict(X[:5]))


def test_the_bound_at_another_theta_needs_rows_that_have_gone(client, on_workers, table):
    X, _, y = table
    model = DaskSparseGPRegressor(**QUICK).fit(*lazily(X, y))
    assert np.isfinite(model.log_marginal_likelihood())
    with pytest.raises(ValueError, match="fitted on a cluster"):
        model.log_marginal_likelihood(model.kernel_.theta)


def test_chunks_that_arrive_later_are_arrays(client, table):
    X, _, y = table
    X, y = X[:400], y[:400]
    labels = y > 5
    for ours, plain, targets, first in (
        (DaskSparseGPRegressor, SparseGPRegressor, y, {}),
        (DaskSparseGPClassifier, SparseGPClassifier, labels, {"classes": [False, True]}),
    ):
        model, local = ours(**QUICK_LABELS), plain(**QUICK_LABELS)
        for rows, given in ((slice(200), first), (slice(200, 400), {})):
            model.partial_fit(X[rows], targets[rows], **given)
            local.partial_fit(X[rows], targets[rows], **given)
        assert np.array_equal(model.kernel_.theta, local.kernel_.theta)
        assert np.array_equal(model.predict(X), local.predict(X))
        assert model.to_local().partial_fit(X, targets).n_samples_seen_ == 800


@pytest.mark.second(share=1)
def test_without_a_client_there_is_an_error_in_words(table):
    X, _, y = table
    with pytest.raises(RuntimeError, match="there is no client"):
        DaskSparseGPRegressor().fit(*lazily(X, y))
    with pytest.raises(TypeError, match="must be None or a distributed.Client"):
        DaskSparseGPRegressor(client="here").fit(*lazily(X, y))


@pytest.mark.parametrize("plain", [SparseGPRegressor, SparseGPClassifier])
def test_plain_estimators_refuse_dask_collections(plain, table):
    X, _, y = table
    y = np.where(y > 5, 1.0, 0.0)
    dX, dy = lazily(X, y)
    fitted = plain(**{**QUICK_LABELS, "max_iter": 1}).fit(X[:100], y[:100])
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    for call in (
        lambda: plain().fit(dX, dy),
        lambda: plain().fit(X, dy),
        lambda: plain().fit(frame, y),
        lambda: plain().fit(X, y, sample_weight=dy),
        lambda: fitted.predict(dX),
    ):
        with pytest.raises(TypeError, match="DaskSparseGPRegressor or DaskSparseGPClassifier"):
            call()


def test_the_package_does_not_need_dask():
    script = (
        "import sys, skgp_sparse\n"
        "assert 'dask' not in sys.modules and 'distributed' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_targets_of_a_slice_come_without_their_inputs(client, table, monkeypatch):
    monkeypatch.setattr(DaskDataset, "subset", raising(AssertionError("inputs travel")))
    y = np.arange(10.0)[:, None]
    sizes = [4, 1, 5]
    parts = [
        ArrayDataset(np.zeros((len(own), 3)), own) for own in np.split(y, np.cumsum(sizes)[:-1])
    ]
    summaries = [_distributed_rows.Summary(size) for size in sizes]
    scaler = TargetScaler(np.ones(1), np.full(1, 2.0))
    rows = DaskDataset(client, client.scatter(parts), 3, summaries, scaler)
    for start, stop in ((0, 10), (0, 4), (3, 5), (4, 5), (5, 10), (2, 9)):
        assert np.array_equal(rows.targets(slice(start, stop)), (y[start:stop] - 1.0) / 2.0)
    assert np.array_equal(rows.targets(), (y - 1.0) / 2.0)


def test_samples_of_very_many_rows_are_drawn_in_little_memory(monkeypatch):
    rows = DaskDataset(None, [], 1, [_distributed_rows.Summary(2**31)] * 2, None)
    found = rows.sample(1000, np.random.RandomState(0))
    assert len(np.unique(found)) == 1000 and found.max() > 2**31 and list(found) == sorted(found)


# -- data that cannot be used --------------------------------------------------------------


def test_errors_of_the_data_name_the_partition(client, on_workers, table):
    X, _, y = table
    bad = X.copy()
    bad[300, 0] = np.nan
    dX, dy, dbad = lazily(X, y, bad)
    with pytest.raises(ValueError, match="Partition 1: Input X contains NaN"):
        DaskSparseGPRegressor(**QUICK).fit(dbad, dy)
    with pytest.raises(ValueError, match="Partition .*counts"):
        DaskSparseGPRegressor(likelihood="poisson", **QUICK).fit(dX, dy - 10)
    with pytest.raises(ValueError, match="y has 2 partitions and X has 3"):
        DaskSparseGPRegressor(**QUICK).fit(dX[dX[:, 0] > 0], dy.rechunk(300))
    with pytest.raises(ValueError, match="must hold the same rows"):
        DaskSparseGPRegressor(**QUICK).fit(dX[dX[:, 0] > 0], dy)
    with pytest.raises(TypeError, match="X must be a dask array"):
        DaskSparseGPRegressor(**QUICK).fit(X, dy)
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        DaskSparseGPRegressor(**QUICK).fit(dX, dy, sample_weight=dy * 0)
    with pytest.raises(ValueError, match="offset is not available"):
        DaskSparseGPRegressor(**QUICK).fit(dX, dy, offset=dy)
    with pytest.raises(ValueError, match="requires 2 or more distinct classes"):
        DaskSparseGPClassifier(**QUICK_LABELS).fit(dX, (dy > 100).astype(int))
    with pytest.raises(ValueError, match="all partitions of X are empty"):
        DaskSparseGPRegressor(**QUICK).fit(dX[dX[:, 0] > 10], dy[dX[:, 0] > 10])


# -- partitions of all kinds ---------------------------------------------------------------


def test_empty_partitions_and_unknown_sizes(client, on_workers, table):
    X, _, y = table
    chosen = (X[:, 0] > 0) & ((np.arange(N) < 200) | (np.arange(N) >= 400))
    local = SparseGPRegressor(**QUICK).fit(X[chosen], y[chosen])
    dX, dy, dchosen = lazily(X, y, chosen)
    some, targets = dX[dchosen], dy[dchosen]
    assert np.isnan(some.chunks[0]).all()
    assert_same_fit(DaskSparseGPRegressor(**QUICK).fit(some, targets), local)
    assert_same_fit(DaskSparseGPRegressor(**QUICK).fit(some, y[chosen]), local)


def test_a_partition_far_larger_than_the_rest_is_cut(client, on_workers, table, monkeypatch):
    X, _, y = table
    monkeypatch.setattr(_distributed_rows, "_FEWEST_ROWS", 60)
    seen, layout = [], DaskDataset.layout

    def look(self, *args):
        seen.append(self.sizes)
        return layout(self, *args)

    monkeypatch.setattr(DaskDataset, "layout", look)
    local = SparseGPRegressor(**QUICK).fit(X, y)
    chunks = (10, 550, 40)
    dX, dy = da.from_array(X, chunks=(chunks, 2)), da.from_array(y, chunks=(chunks,))
    assert_same_fit(DaskSparseGPRegressor(**QUICK).fit(dX, dy), local)
    assert len(seen[0]) == 12 and max(seen[0]) <= 60 and sum(seen[0]) == N


# -- faults --------------------------------------------------------------------------------


def at_visit(number, action, monkeypatch, halted=lambda function: function):
    """Do something when a fit begins its visit of that number, which may be a halted one."""
    visits, visit = [], DaskDataset.visit

    def act(self, function, *args, **kwargs):
        visits.append(len(visits))
        if len(visits) == number:
            action()
            function = halted(function)
        return visit(self, function, *args, **kwargs)

    monkeypatch.setattr(DaskDataset, "visit", act)
    return visits


@pytest.fixture
def while_tasks_run(client, monkeypatch):
    """``act(number, action)``: as `at_visit`, but in a thread, and while tasks of the visit run.

    The tasks say so, and wait until the action is over. Some of them may run after the test.
    """
    names = f"running {uuid4()}", f"over {uuid4()}"
    (running, over), threads = map(Event, names), []

    def wait_and_act(action):
        assert running.wait(LONG)
        try:
            action()
        finally:
            over.set()

    def act(number, action):
        threads.append(threading.Thread(target=wait_and_act, args=[action], daemon=True))
        return at_visit(number, threads[0].start, monkeypatch, lambda f: partial(halt, *names, f))

    yield act
    for thread in threads:
        thread.join(LONG)


def halt(running, over, function, *args):
    Event(running).set()
    assert Event(over).wait(LONG)
    return function(*args)


def test_a_fit_survives_the_death_of_a_worker_to_the_last_bit(
    client, on_workers, table, while_tasks_run
):
    X, _, y = table
    dX, dy = lazily(X, y, rows=100)
    expected = DaskSparseGPRegressor(**QUICK).fit(dX, dy)
    workers = client.run(os.getpid)

    def kill():
        victim = next(worker for worker, keys in client.processing().items() if keys)
        os.kill(workers[victim], signal.SIGKILL)
        wait_until(lambda: victim not in client.run_on_scheduler(addresses))

    visits = while_tasks_run(4, kill)
    model = DaskSparseGPRegressor(**QUICK).fit(dX, dy)
    assert len(visits) > 6
    client.wait_for_workers(2, timeout=LONG)
    assert set(client.run(os.getpid).values()) != set(workers.values())
    assert np.array_equal(model.kernel_.theta, expected.kernel_.theta)
    assert np.array_equal(model.inducing_points_, expected.inducing_points_)


def addresses(dask_scheduler):
    return list(dask_scheduler.workers)


class Deadly(RBF):
    """A kernel that kills the process of a worker."""

    def __call__(self, X, Y=None, eval_gradient=False):
        try:
            get_worker()
        except ValueError:  # not within a task
            return super().__call__(X, Y, eval_gradient)
        os._exit(1)


def test_a_task_that_kills_every_worker_ends_in_words(on_workers, table):
    """A cluster of its own: a nanny does not start a worker again that died while it started."""
    X, _, y = table
    model = DaskSparseGPRegressor(Deadly(), optimizer=None, n_inducing=12, random_state=0)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as doomed:
        doomed.scheduler.allowed_failures = 1  # of 3: every start takes seconds
        with Client(doomed) as client:
            with pytest.raises(RuntimeError, match="2 workers .*In most cases they lack memory"):
                model.fit(*lazily(X, y))
            assert_nothing_left(client)
    assert not hasattr(model, "kernel_") and not hasattr(model, "_held")


@pytest.mark.parametrize("busy", [False, True])
def test_a_client_closed_in_the_middle_is_an_error_in_words(
    busy, cluster, client, on_workers, table, monkeypatch, while_tasks_run
):
    X, _, y = table
    mine = Client(cluster, set_as_default=False)
    model = DaskSparseGPRegressor(client=mine, **QUICK).fit(*lazily(X, y))
    before = model.kernel_
    while_tasks_run(3, mine.close) if busy else at_visit(3, mine.close, monkeypatch)
    with pytest.raises(RuntimeError, match="client of the cluster is not connected"):
        model.fit(*lazily(X, y))
    assert model.kernel_ is before and not hasattr(model, "_held")
    with pytest.raises(RuntimeError, match="client of the cluster is not connected"):
        model.fit(*lazily(X, y))
    assert_nothing_left(client)


@pytest.fixture
def ctrl_c():
    """Ctrl-C is an exception; programs that a shell starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield partial(signal.pthread_kill, threading.main_thread().ident, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("busy", [False, True])
def test_an_interrupt_leaves_nothing_behind(
    busy, client, on_workers, table, monkeypatch, while_tasks_run, ctrl_c
):
    X, _, y = table
    threads = set(threading.enumerate())
    if busy:
        while_tasks_run(3, ctrl_c)
    else:
        at_visit(3, ctrl_c, monkeypatch)
    model = DaskSparseGPRegressor(**{**QUICK, "max_iter": 100, "tol": 0.0})
    with pytest.raises(KeyboardInterrupt):
        model.fit(*lazily(X, y))
    assert_nothing_left(client)
    assert not vars(model).keys() & {"kernel_", "_held"}
    wait_until(lambda: all(one.daemon for one in set(threading.enumerate()) - threads))


def test_a_fit_leaves_no_thread_process_file_or_future(client, on_workers, table):
    psutil = pytest.importorskip("psutil")
    X, _, y = table
    DaskSparseGPRegressor(**QUICK).fit(*lazily(X, y))
    me = psutil.Process()

    def seen():
        return np.array([me.num_fds(), len(me.children(recursive=True)), threading.active_count()])

    left = []
    while len(left) < 6 and (not left or left[-1].max() > 0):
        before = seen()
        DaskSparseGPRegressor(**QUICK).fit(*lazily(X, y))
        assert_nothing_left(client)
        left.append(seen() - before)
    # A pool opens connections in any fit in which more run at once, but a leak is in each of them.
    assert left[-1].max() <= 0, left


# -- joblib --------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.full), "dask"])
def test_backends_of_joblib_still_work(backend, client, table):
    X, f, y = table
    X, f, y = X[:300], f[:300], y[:300]
    labels = np.digitize(f, [-0.3, 0.3])
    options = {"n_inducing": 8, "max_iter": 2, "random_state": 0}
    expected = SparseGPClassifier(n_jobs=1, **options).fit(X, labels)
    grid = GridSearchCV(SparseGPRegressor(**options), {"bound": ["titsias", "fitc"]}, cv=2)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        found = SparseGPClassifier(n_jobs=2, **options).fit(X, labels)
        scores = grid.fit(X, y).cv_results_["mean_test_score"]
    assert np.array_equal(found.kernel_.theta, expected.kernel_.theta)
    assert np.array_equal(scores, clone(grid).fit(X, y).cv_results_["mean_test_score"])


# -- training on parts of the rows ---------------------------------------------------------


@pytest.fixture
def few_stages(monkeypatch):
    stages = stochastic.Stage(10, 3, False), stochastic.Stage(40, 3, True)
    monkeypatch.setattr(stochastic, "STAGES", stages)


PARTS = {"n_inducing": 6, "solver": "stochastic", "max_iter": 3, "random_state": 0}


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("weighted", [False, True])
def test_training_on_parts_of_the_rows_is_the_local_one(
    weighted, client, on_workers, few_stages, table
):
    X, _, y = table
    weight = np.random.RandomState(2).randint(0, 3, N).astype(float) if weighted else None
    options = {**PARTS, "noise": "constant"}
    local = SparseGPRegressor(**options).fit(X, y, sample_weight=weight)
    lazy_weight = lazily(weight)[0] if weighted else None
    model = DaskSparseGPRegressor(**options).fit(*lazily(X, y), sample_weight=lazy_weight)
    assert_same_fit(model, local, 1e-8)
    assert model.predict(X) == pytest.approx(local.predict(X), abs=1e-6)


def test_a_classifier_trained_on_parts_of_the_rows_is_the_local_one(
    client, on_workers, few_stages, table
):
    X, f, _ = table
    labels = np.where(f > 0, "high", "low")
    local = SparseGPClassifier(**PARTS).fit(X, labels)
    model = DaskSparseGPClassifier(**PARTS).fit(*lazily(X, labels))
    assert_same_fit(model, local, 1e-8)
    assert model.predict_proba(X) == pytest.approx(local.predict_proba(X), abs=1e-6)

"""Rows that arrive in chunks: sums that add up, bounded memory, moves, wrong inputs."""

import pickle
import warnings

import numpy as np
import pytest
from chunked_arrays import Arrays
from conftest import NAMED_BOUNDS, agree
from inside import Reservoir, moments, small_fits, streams
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import PEP, Bound
from skgp_sparse.likelihoods import BY_NAME as LIKELIHOODS
from skgp_sparse.solvers import Stochastic

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
KERNEL = ConstantKernel(1.3) * RBF([1.0, 1.5])
NOISY = KERNEL + WhiteKernel(0.05)
STRATEGIES = ("one_vs_rest", "one_vs_one", "softmax")


class Twice(Bound):
    """A bound of a user."""

    def penalty(self, x):
        return x, 1.0


def table(n=200, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.normal(size=(n, 2))
    return X, [3.0, 50.0] * y + [10.0, -7.0], rng.randint(0, 3, n).astype(float)


def labels(n=200, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    radius = np.hypot(*X.T) + 0.3 * rng.normal(size=n)
    return X, np.array(["near", "mid", "far"])[np.digitize(radius, [1.2, 2.2])]


def inducing(m=9):
    return np.random.RandomState(5).uniform(-3.0, 3.0, (m, 2))


def fixed(kernel=NOISY, **parameters):
    return SparseGPRegressor(kernel, inducing_init=inducing(), optimizer=None, **parameters)


def fixed_labels(multi_class="one_vs_rest", m=9, **parameters):
    given = {"inducing_init": inducing(m), "optimizer": None, "multi_class": multi_class}
    return SparseGPClassifier(KERNEL, **given, **parameters)


def small(**parameters):
    return SparseGPRegressor(**{"n_inducing": 12, "random_state": 0} | parameters)


def in_chunks(model, X, *others, chunks=4, seed=0, **constant):
    """A model that has seen the rows in chunks of random order."""
    names = ("y", "sample_weight", "offset")
    for rows in np.array_split(np.random.RandomState(seed).permutation(len(X)), chunks):
        given = {k: v[rows] for k, v in zip(names, others) if v is not None}
        model.partial_fit(X[rows], **given, **constant)
    return model


def agree_models(one, other, X):
    for mine, its in zip(one.predict(X, return_std=True), other.predict(X, return_std=True)):
        agree(mine, its, 1e-10)
    value = one.log_marginal_likelihood_value_, other.log_marginal_likelihood_value_
    agree(*value, 1e-10)


# -- nothing moves: chunks equal one fit ----------------------------------------------


@pytest.mark.second(share=0.03, thin=1)
@pytest.mark.parametrize("bound", [*NAMED_BOUNDS, PEP(0.3), Twice()], ids=str)
@pytest.mark.parametrize("columns", [0, slice(None)], ids=["one target", "two targets"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("normalize_y", [False, True])
def test_chunks_in_any_order_equal_one_fit(bound, columns, weighted, normalize_y):
    X, y, weight = table()
    data = X, y[:, columns], weight if weighted else None
    model = fixed(bound=bound, normalize_y=normalize_y)
    whole = clone(model).fit(*data)
    for chunks, seed in ((1, 0), (4, 1), (23, 2)):
        agree_models(in_chunks(clone(model), *data, chunks=chunks, seed=seed), whole, X)


@pytest.mark.parametrize("noise", [WhiteKernel(0.05), None])
def test_known_noise_adds_up_where_targets_are_not_scaled(noise):
    X, y, weight = table()
    kernel = KERNEL if noise is None else KERNEL + noise
    model = fixed(kernel, alpha=0.4, normalize_y=False)
    agree_models(in_chunks(clone(model), X, y, weight), clone(model).fit(X, y, weight), X)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [0, slice(None)], ids=["one target", "two targets"])
@pytest.mark.parametrize("kernel", [KERNEL, NOISY], ids=["known noise", "both"])
def test_an_array_of_known_noise_belongs_to_the_rows_of_a_call(kernel, columns, weighted):
    X, y, weight = table()
    y, weight = y[:, columns], weight if weighted else None
    alpha = np.random.RandomState(2).uniform(0.1, 2.0, len(X))
    model = fixed(kernel, normalize_y=False)
    whole = clone(model).set_params(alpha=alpha).fit(X, y, weight)
    for first in ("partial_fit", "fit"):
        chunks = clone(model)
        for rows, call in (
            (slice(50), first),
            (slice(50, 51), "partial_fit"),
            (slice(51, None), "partial_fit"),
        ):
            given = X[rows], y[rows], None if weight is None else weight[rows]
            getattr(chunks.set_params(alpha=alpha[rows]), call)(*given)
        agree_models(chunks, whole, X)


def test_a_number_of_known_noise_may_not_become_an_array():
    X, y, _ = table()
    model = fixed(alpha=0.4).partial_fit(X, y)
    with pytest.raises(ValueError, match="were seen with alpha=0.4, but alpha is an array now"):
        model.set_params(alpha=np.ones(200)).partial_fit(X, y)


@pytest.mark.second
def test_moves_know_an_array_of_known_noise():
    X, y, _ = table(240)
    noisy = np.arange(240) % 2 == 0
    y = np.where(noisy, y[:, 0] + np.random.RandomState(1).normal(0.0, 30.0, 240), y[:, 0])
    alpha = np.where(noisy, 900.0, 1e-2)
    informed, other = small(), small()
    for rows in np.split(np.arange(240), 4):
        informed.set_params(alpha=alpha[rows]).partial_fit(X[rows], y[rows])
        other.partial_fit(X[rows], y[rows])
    assert informed.score(X[~noisy], y[~noisy]) > max(0.97, other.score(X[~noisy], y[~noisy]))


def test_known_noise_keeps_the_scale_of_the_first_call():
    X, y, _ = table()
    for alpha in (0.4, np.zeros(50)):  # known, though there is none
        model = fixed(alpha=alpha).partial_fit(X[:50], y[:50])
        scale = model._fitted.scaler.scale
        model.partial_fit(X[50:100], y[50:100])
        np.testing.assert_array_equal(model._fitted.scaler.scale, scale)
        agree(model._fitted.scaler.mean, y[:100].mean(axis=0), 1e-12)


def test_rows_that_are_gone_still_count(monkeypatch):
    monkeypatch.setattr(streams, "_MOST_ROWS", 20)
    X, y, weight = table()
    model = in_chunks(fixed(), X, y, weight, chunks=10)
    assert len(model._fitted.stream.reservoir) == 20
    agree_models(model, fixed().fit(X, y, weight), X)


def targets_of(likelihood, X):
    """Counts, or numbers above 0, or proportions."""
    y = np.random.RandomState(1).poisson(np.exp(1.0 + np.sin(X[:, 0]))) + 0.5
    if likelihood == "beta":
        return y / (y.max() + 1.0)
    return y if likelihood == "gamma" else np.floor(y)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_chunks_of_likelihoods_equal_one_fit(likelihood):
    X, _, weight = table()
    y = targets_of(likelihood, X)
    model = fixed(KERNEL, likelihood=likelihood)
    data = X, y, weight, 0.1 * X[:, 1]
    whole = clone(model).fit(*data)
    agree_models(in_chunks(model, *data), whole, X)
    assert str(model.likelihood_) == str(whole.likelihood_)


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("bound", ["titsias", "titsias_new", "gfitc-ep"])
@pytest.mark.parametrize("multi_class", [*STRATEGIES, "binary"])
def test_chunks_of_labels_equal_one_fit(bound, multi_class):
    if (bound, multi_class) == ("gfitc-ep", "softmax"):
        pytest.skip("a softmax has the variational bounds only")
    X, y = labels()
    if multi_class == "binary":
        multi_class, y = "one_vs_rest", y == "near"
    weight = table()[2]
    model = fixed_labels(multi_class, bound=bound)
    whole = clone(model).fit(X, y, weight)
    in_chunks(model, X, y, weight, classes=np.unique(y))
    agree(model.predict_proba(X), whole.predict_proba(X), 1e-10)
    values = model.log_marginal_likelihood_value_, whole.log_marginal_likelihood_value_
    agree(*values, 1e-10)
    np.testing.assert_array_equal(model.classes_, whole.classes_)


# -- something moves ------------------------------------------------------------------


def test_the_first_call_is_a_fit():
    X, y, _ = table()
    one, other = small().partial_fit(X, y[:, 0]), small().fit(X, y[:, 0])
    agree(one.log_marginal_likelihood_value_, other.log_marginal_likelihood_value_, 1e-2)
    assert one.score(X, y[:, 0]) > 0.9
    assert one.n_samples_seen_ == 200 and isinstance(one.n_samples_seen_, int)


def test_sums_are_exact_after_moves():
    X, y, weight = table(300)
    model = in_chunks(small(), X, y[:, 0], weight, chunks=6)
    assert not model._fitted.stream.warm_starts[0].few and model.n_iter_ > 0
    held = SparseGPRegressor(
        model.kernel_, inducing_init=model.inducing_points_, optimizer=None, normalize_y=False
    )
    scaler = model._fitted.scaler.mean, model._fitted.scaler.scale
    held.fit(X, (y[:, 0] - scaler[0]) / scaler[1], weight / np.mean(weight[weight > 0]))
    values = model.log_marginal_likelihood_value_, held.log_marginal_likelihood_value_
    agree(*values, 1e-7)  # relative weights are in single precision
    agree(model.predict(X), scaler[0] + scaler[1] * held.predict(X), 1e-7)


@pytest.mark.second
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_row_by_row(likelihood):
    X, y, _ = table(40)
    model = small(likelihood=likelihood)
    for row in range(len(X)):
        model.partial_fit(X[row : row + 1], y[row : row + 1, 0])
    assert model.n_inducing_ == 12 and model.n_samples_seen_ == 40
    assert model.score(X, y[:, 0]) > 0.6


@pytest.mark.second
def test_moves_come_when_rows_have_doubled():
    X, y, _ = table(400)
    model, moves = small(), []
    for start in range(0, 400, 50):
        before = getattr(model, "kernel_", None)
        model.partial_fit(X[start : start + 50], y[start : start + 50, 0])
        moves.append(before is None or not np.array_equal(before.theta, model.kernel_.theta))
    assert moves == [True, True, False, True, False, False, False, True]


@pytest.mark.second
def test_chunks_reach_what_one_fit_reaches():
    X, y, _ = table(900)
    X_test, y_test, _ = table(500, seed=1)
    model = small(n_inducing=30)
    for start in range(0, 900, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100, 0])
    whole = small(n_inducing=30).fit(X, y[:, 0])
    density = [one.log_predictive_density(X_test, y_test[:, 0]).mean() for one in (model, whole)]
    assert density[0] > density[1] - 0.05


def changing(n, sign, seed):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, sign * np.sin(2.0 * X[:, 0]) + 0.2 * X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.second
def test_moves_need_not_converge_and_do_not_say_so(monkeypatch):
    monkeypatch.setattr(small_fits, "_ITERATIONS", 2)
    model = small(n_inducing=20).partial_fit(*changing(200, 1.0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        for chunk in range(1, 5):
            model.partial_fit(*changing(200, 1.0, chunk))


def test_inducing_points_that_should_stay_do(monkeypatch):
    monkeypatch.setattr(streams, "_GROWTH", 1.0)  # a move in every call
    model = small(n_inducing=20, optimize_inducing=False).partial_fit(*changing(200, 1.0, 0))
    theta, Z = model.kernel_.theta, model.inducing_points_.copy()
    model.partial_fit(*changing(200, 1.0, 1))
    np.testing.assert_array_equal(model.inducing_points_, Z)
    assert not np.array_equal(model.kernel_.theta, theta)


@pytest.mark.second
def test_rows_may_be_forgotten_by_weights_that_decay():
    """The recipe of the guide: rows of a chunk count twice as much as those of the last one."""
    model, found = small(n_inducing=20), []
    for chunk in range(10):
        X, y = changing(200, 1.0 if chunk < 5 else -1.0, chunk)
        found.append(model.score(X, y) if chunk else 1.0)
        model.partial_fit(X, y, sample_weight=np.full(200, 2.0**chunk))
    assert found[4] > 0.9 and found[5] < 0.0 and found[-1] > 0.9


def test_an_own_optimizer_is_called_and_inducing_points_stay():
    X, y, _ = table()
    calls = []

    def own(objective, theta, bounds):
        calls.append(theta)
        return theta, objective(theta, eval_gradient=False)

    model = small(optimizer=own, n_inducing=12)
    in_chunks(model, X, y[:, 0], chunks=2)
    Z = model.inducing_points_.copy()
    model.partial_fit(X, y[:, 0])
    np.testing.assert_array_equal(model.inducing_points_, Z)
    assert len(calls) >= 2


def test_moves_take_no_parts_of_their_sample(monkeypatch):
    X, y = changing(400, 1.0, 0)
    model = small(solver="stochastic", n_inducing=10).partial_fit(X[:200], y[:200])
    monkeypatch.setattr(Stochastic, "solve", None)
    before = model.kernel_.theta
    model.partial_fit(X[200:], y[200:])
    assert not np.array_equal(model.kernel_.theta, before)


@pytest.mark.second(share=0.1, thin=1)
@pytest.mark.parametrize("together", [200, 20_000])
@pytest.mark.parametrize("kind", ["labels", "poisson"])
def test_a_large_first_chunk_of_sites(kind, together, monkeypatch):
    monkeypatch.setattr(streams, "_MOST_WITH_SITES", together)
    X, y = changing(2000, 1.0, 0)  # more than 400 rows per inducing point
    if kind == "labels":
        model, y = SparseGPClassifier(n_inducing=4, random_state=0), y > 0.0
        model.partial_fit(X, y, classes=[False, True])
    else:
        y = np.random.RandomState(0).poisson(np.exp(1.0 + y))
        model = small(likelihood="poisson", n_inducing=4).partial_fit(X, y)
    model.partial_fit(X[:50], y[:50])
    assert model.n_samples_seen_ == 2050 and model.score(X, y) > 0.3


# -- fit and partial_fit --------------------------------------------------------------


@pytest.mark.second(thin=1)
@pytest.mark.parametrize("n_inducing", [12, "auto"])
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_calls_go_on_from_a_fit(n_inducing, likelihood):
    X, y, weight = table()
    model = small(n_inducing=n_inducing, likelihood=likelihood).fit(X[:150], y[:150, 0])
    model.partial_fit(X[150:], y[150:, 0], weight[150:])
    assert model.n_samples_seen_ == 150 + weight[150:].sum()
    assert model.score(X, y[:, 0]) > 0.9
    model.fit(X, y[:, 0])
    assert model._fitted.stream is None and not hasattr(model, "n_samples_seen_")


@pytest.mark.parametrize("inducing_init", [inducing(), "random"], ids=["array", "random"])
def test_a_fit_and_more_rows_equal_one_fit(inducing_init):
    X, y, weight = table()
    model = fixed(n_inducing=9).set_params(inducing_init=inducing_init)
    model.fit(X[:120], y[:120], weight[:120]).partial_fit(X[120:], y[120:], weight[120:])
    whole = fixed().set_params(inducing_init=model.inducing_points_).fit(X, y, weight)
    agree_models(model, whole, X)


@pytest.mark.parametrize("multi_class", STRATEGIES)
def test_labels_go_on_from_a_fit(multi_class):
    X, y = labels()
    model = fixed_labels(multi_class).fit(X[:150], y[:150]).partial_fit(X[150:], y[150:])
    whole = fixed_labels(multi_class).fit(X, y)
    agree(model.predict_proba(X), whole.predict_proba(X), 1e-10)


@pytest.mark.second(share=0.5)
@pytest.mark.parametrize("model", [small(), SparseGPClassifier(n_inducing=12)], ids=["y", "labels"])
def test_after_a_fit_and_a_pickle_the_rows_are_unknown(model):
    X, y, _ = table()
    y = y[:, 0] if isinstance(model, SparseGPRegressor) else y[:, 0] > 10.0
    loaded = pickle.loads(pickle.dumps(model.fit(X, y)))
    with pytest.raises(ValueError, match="not contain.*or loaded from a pickle.*again"):
        loaded.partial_fit(X, y)


@pytest.mark.parametrize("model", [small(), SparseGPClassifier(n_inducing=12)], ids=["y", "labels"])
def test_after_a_fit_of_a_large_source_the_rows_are_not_in_memory(model, monkeypatch):
    monkeypatch.setattr(moments, "_SMALL_TABLE", 0)
    X, y, _ = table()
    y = y[:, 0] if isinstance(model, SparseGPRegressor) else y[:, 0] > 10.0
    model.set_params(max_iter=3).fit(Arrays(X, y))
    before = model.predict(X)
    with pytest.raises(ValueError, match="from a large source.*Call fit again with arrays"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.second(share=0.33)
@pytest.mark.parametrize("change", [{"bound": "fitc"}, {"likelihood": "student_t"}, {"alpha": 0.1}])
def test_parameters_may_not_change_after_a_fit(change):
    X, y, _ = table()
    model = small(max_iter=3).fit(X, y[:, 0]).set_params(**change)
    [parameter] = change
    with pytest.raises(ValueError, match=f"were seen with {parameter}=.*Set it back"):
        model.partial_fit(X, y[:, 0])
    loaded = pickle.loads(pickle.dumps(small(max_iter=3).partial_fit(X, y[:, 0])))
    with pytest.raises(ValueError, match=f"were seen with {parameter}=.*Set it back"):
        loaded.set_params(**change).partial_fit(X, y[:, 0])


def test_pickles_go_on_where_they_were():
    X, y, _ = table(300)
    model = small().partial_fit(X[:200], y[:200, 0])
    loaded = pickle.loads(pickle.dumps(model))
    model.partial_fit(X[200:], y[200:, 0])
    loaded.partial_fit(X[200:], y[200:, 0])
    np.testing.assert_array_equal(model.predict(X), loaded.predict(X))
    assert np.isfinite(loaded.log_marginal_likelihood(loaded.kernel_.theta))


# -- memory, determinism, units -------------------------------------------------------


@pytest.mark.second
def test_memory_is_bounded_whatever_arrives(monkeypatch):
    monkeypatch.setattr(streams, "_MOST_ROWS", 300)
    model, sizes = small(max_iter=5), []
    for chunk in range(50):
        model.partial_fit(*changing(100, 1.0, chunk))
        sizes.append(len(pickle.dumps(model)))
    reservoir = model._fitted.stream.reservoir
    assert len(reservoir) == 300 and reservoir.total == model.n_samples_seen_ == 5000
    assert max(sizes) - sizes[5] < 1000


@pytest.mark.second
def test_the_reservoir_obeys_working_memory():
    with config_context(working_memory=0.1):  # MiB
        model = small(max_iter=5).partial_fit(*changing(2000, 1.0, 0))
    held = model._fitted.stream.reservoir
    assert len(held) < 2000 and sum(column.nbytes for column in held.columns) < 0.1 * 2**20 / 16
    assert held.weights().sum() == pytest.approx(2000)


def test_a_reservoir_stands_for_all_rows():
    rng = np.random.RandomState(0)
    values, weight = rng.normal(size=3000) + 1.0, rng.uniform(0.5, 2.0, 3000)
    sums = []
    for seed in range(40):
        held = Reservoir.empty((values,))
        for start in range(0, 3000, 100):
            rows = slice(start, start + 100)
            draws = np.random.RandomState([seed, start])
            held = held.plus((values[rows],), weight[rows], 200, draws)
        assert len(held) == 200 and held.weights().sum() == pytest.approx(weight.sum())
        sums.append(held.weights() @ held.columns[0])
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - weight @ values) < 4.0 * error


@pytest.mark.second
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_are_deterministic(n_jobs):
    X, y, _ = table(400)
    models = [in_chunks(small(n_jobs=j), X, y[:, 0], chunks=5) for j in (1, n_jobs)]
    np.testing.assert_array_equal(*(model.predict(X) for model in models))


@pytest.mark.second(share=0.44)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_read_only_input_of_both_precisions(dtype):
    X, y, weight = table()
    X = X.astype(dtype)
    for array in (X, y, weight):
        array.flags.writeable = False
    model = in_chunks(fixed(), X, y, weight)
    agree_models(model, fixed().fit(X, y, weight), X)
    assert model._fitted.stream.reservoir.columns[0].dtype == dtype
    in_chunks(small(), X, y[:, 0])


def test_a_mean_far_from_zero_and_a_drifting_level():
    X, y, _ = table()
    y = y[:, 0] + np.linspace(0.0, 1e4, len(y)) + 1e6
    agree_models(in_chunks(fixed(), X, y), fixed().fit(X, y), X)


def test_constant_targets_first():
    X, y, _ = table()
    y = np.where(np.arange(200) < 50, 4.0, y[:, 0])
    model = fixed()
    for rows in np.split(np.arange(200), 4):
        model.partial_fit(X[rows], y[rows])
    agree_models(model, fixed().fit(X, y), X)


# -- more rows with sites than are inferred together ----------------------------------


@pytest.fixture
def few_together(monkeypatch):
    monkeypatch.setattr(streams, "_MOST_WITH_SITES", 500)


@pytest.mark.second(keep=3)
@pytest.mark.parametrize("bound", ["titsias", "titsias_new", "gfitc-ep"])
@pytest.mark.parametrize("multi_class", STRATEGIES)
def test_some_of_the_rows_stand_for_all_labels(few_together, bound, multi_class):
    if (bound, multi_class) == ("gfitc-ep", "softmax"):
        pytest.skip("a softmax has the variational bounds only")
    X, y = labels(1000)
    model = fixed_labels(multi_class, 20, bound=bound)
    in_chunks(model, X, y, chunks=20, classes=np.unique(y))
    reservoir = model._fitted.stream.reservoir
    assert len(reservoir) == 500 and reservoir.weights().sum() == pytest.approx(1000)
    target = clone(model).fit(X, y).predict_proba(X)
    assert np.abs(model.predict_proba(X) - target).mean() < 0.04
    assert np.isfinite(model.log_marginal_likelihood(model.kernel_.theta))


@pytest.mark.second(share=0.24)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_some_of_the_rows_stand_for_all_numbers(few_together, likelihood):
    X = table(1000)[0]
    y = targets_of(likelihood, X)
    model = fixed(KERNEL, likelihood=likelihood).set_params(inducing_init=inducing(20))
    in_chunks(model, X, y, None, 0.1 * X[:, 1], chunks=20)
    whole = clone(model).fit(X, y, offset=0.1 * X[:, 1])
    apart = model.predict(X, latent=True) - whole.predict(X, latent=True)
    assert np.abs(apart).mean() < 0.06 * np.ptp(whole.predict(X, latent=True))


@pytest.mark.second
def test_moves_of_labels_keep_memory_bounded(few_together):
    model, scores, sizes = SparseGPClassifier(n_inducing=20, random_state=0), [], []
    for chunk in range(20):
        X, y = changing(100, 1.0, chunk)
        if chunk:
            scores.append(model.score(X, y > 0.0))
        model.partial_fit(X, y > 0.0, classes=[False, True])
        sizes.append(len(pickle.dumps(model)))
    assert min(scores[5:]) > 0.85 and max(sizes) < sizes[8] + 20_000


@pytest.mark.parametrize("kind", ["y", "labels", "poisson"])
def test_a_first_call_of_more_rows_than_stay_is_a_fit(kind, monkeypatch):
    """Its rows are all learned, and then some of them stand for all."""
    monkeypatch.setattr(streams, "_MOST_ROWS", 100)
    monkeypatch.setattr(streams, "_MOST_WITH_SITES", 100)
    X, y, _ = table(300)
    y = {"y": y[:, 0], "labels": y[:, 0] > 10.0, "poisson": targets_of("poisson", X)}[kind]
    if kind == "labels":
        model, classes = fixed_labels(), {"classes": [False, True]}
    else:
        model, classes = fixed(KERNEL, likelihood="gaussian" if kind == "y" else kind), {}
    whole = clone(model).fit(X, y)
    model.partial_fit(X, y, **classes)
    agree(model.predict(X), whole.predict(X), 1e-8)
    assert len(model._fitted.fits[0].rows) == 100
    assert np.isfinite(model.log_marginal_likelihood(model.kernel_.theta))


# -- labels that come late ------------------------------------------------------------


@pytest.mark.second(keep=2)
@pytest.mark.parametrize("multi_class", STRATEGIES)
def test_classes_may_come_one_after_the_other(multi_class):
    X, y = labels(240)
    model = SparseGPClassifier(n_inducing=15, random_state=0, multi_class=multi_class)
    for label in ("far", "mid", "near"):
        rows = y == label
        model.partial_fit(X[rows], y[rows], classes=["near", "mid", "far"])
        found = model.predict_proba(X)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert label in model.predict(X[rows])
    assert model.score(X, y) > 0.8


# -- wrong inputs ---------------------------------------------------------------------


@pytest.mark.second
def test_wrong_labels_are_explained():
    X, y = labels()
    model = SparseGPClassifier(n_inducing=12, max_iter=3)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="2 or more distinct classes"):
        model.partial_fit(X, y, classes=["near"])
    with pytest.raises(ValueError, match="label 'far', which is not in classes"):
        model.partial_fit(X, y, classes=["near", "mid"])
    model.partial_fit(X, y, classes=np.unique(y))
    with pytest.raises(ValueError, match="is not the same as on the last call"):
        model.partial_fit(X, y, classes=["near", "mid"])
    with pytest.raises(ValueError, match="label 'new', which is not in classes"):
        model.partial_fit(X, np.where(y == "far", "new", y))
    model.fit(X, y).set_params(multi_class="softmax")
    with pytest.raises(ValueError, match="multi_class='one_vs_rest', but multi_class is 'softmax'"):
        model.partial_fit(X, y)


def test_wrong_numbers_are_explained():
    X, y, _ = table()
    with pytest.raises(ValueError, match="same number of entries as y. .199 != 200"):
        small(alpha=np.ones(199)).partial_fit(X, y)
    with pytest.raises(ValueError, match="alpha.*not negative"):
        small(alpha=np.linspace(-1.0, 1.0, 200)).partial_fit(X, y)
    model = small(max_iter=3).partial_fit(X, y)
    with pytest.raises(ValueError, match="fitted to 2 targets"):
        model.partial_fit(X, y[:, 0])
    with pytest.raises(ValueError, match="3 features"):
        model.partial_fit(np.ones((4, 3)), y[:4])


class Lazy:
    """Looks like a collection of dask."""

    def __dask_graph__(self):
        return {}

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("loaded")


@pytest.mark.second(share=0.35)
@pytest.mark.parametrize("model", [small(), SparseGPClassifier(n_inducing=12)], ids=["y", "labels"])
def test_chunks_are_arrays(model):
    X, y, _ = table()
    y = y[:, 0] > 10.0
    classes = {"classes": [False, True]}
    for given in ((Lazy(), y), (X, Lazy()), (X, y, Lazy())):
        with pytest.raises(TypeError, match="is a dask collection .Lazy.*partial_fit"):
            model.partial_fit(*given, **classes)
    with pytest.raises(TypeError, match="source of rows .Arrays.*Pass its chunks one by one"):
        model.partial_fit(Arrays(X, y), **classes)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.partial_fit(X, **classes)
    assert model._fitted is None
    source = Arrays(X, y, chunk_size=100)
    for k in range(2):  # as the message says
        model.partial_fit(*source.chunk(k)[:2], **classes)
    model.predict(source.chunk(0)[0])
    for method in (model.predict, getattr(model, "predict_proba", model.predict)):
        with pytest.raises(TypeError, match="source of rows .Arrays.*chunks one by one"):
            method(source)


@pytest.mark.parametrize("kind", ["DaskSparseGPRegressor", "DaskSparseGPClassifier"])
def test_chunks_are_arrays_on_a_cluster_too(kind):
    array = pytest.importorskip("dask.array")
    cluster = pytest.importorskip("skgp_sparse.dask")
    X, y, _ = table()
    y = y[:, 0] > 10.0
    model = getattr(cluster, kind)(n_inducing=12)
    for given in ((array.from_array(X), y), (X, array.from_array(y))):
        with pytest.raises(TypeError, match="is a dask collection .Array.*partial_fit"):
            model.partial_fit(*given, classes=[False, True])


def test_a_call_that_fails_changes_nothing():
    X, y, _ = table()
    model = small(max_iter=3).partial_fit(X, y)
    before = pickle.dumps(model._fitted.stream), model.predict(X)
    wrong = X.copy()
    wrong[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(wrong, y)
    assert pickle.dumps(model._fitted.stream) == before[0]
    np.testing.assert_array_equal(model.predict(X), before[1])
    fresh = small()
    with pytest.raises(ValueError, match="NaN"):
        fresh.partial_fit(wrong, y)
    assert fresh._fitted is None and not hasattr(fresh, "n_features_in_")


def test_feature_names_are_kept_and_checked():
    pandas = pytest.importorskip("pandas")
    X, y, _ = table()
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = small(max_iter=3).partial_fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[["b", "a"]], y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.partial_fit(X, y)
    assert list(model.feature_names_in_) == ["a", "b"]


def test_metadata_routing():
    with config_context(enable_metadata_routing=True):
        model = SparseGPClassifier().set_partial_fit_request(classes=True, sample_weight=True)
        request = model.get_metadata_routing().partial_fit.requests
        assert request == {"classes": True, "sample_weight": True}
        model = SparseGPRegressor().set_partial_fit_request(offset=True)
        assert model.get_metadata_routing().partial_fit.requests["offset"] is True


@pytest.mark.second
def test_targets_share_a_scale_if_noise_comes_with_later_rows():
    """Known noise, an array, is 0 in the first call: the next one has noise of all targets."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (80, 1))
    y = np.column_stack([np.sin(X[:, 0]), 100 * np.cos(X[:, 0])])
    kernel = ConstantKernel(1.0) * RBF(1.0)
    fixed = {"kernel": kernel, "optimizer": None, "inducing_init": X[::8], "normalize_y": True}
    noise = np.repeat([0.0, 0.5], 40)
    expected = SparseGPRegressor(alpha=np.full(40, 1e-9), **fixed).partial_fit(X[:40], y[:40])
    actual = SparseGPRegressor(alpha=noise[:40], **fixed).partial_fit(X[:40], y[:40])
    for model in (expected, actual):
        model.set_params(alpha=noise[40:]).partial_fit(X[40:], y[40:])
    for one, other in zip(actual.predict(X, return_std=True), expected.predict(X, return_std=True)):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * np.abs(other).max())

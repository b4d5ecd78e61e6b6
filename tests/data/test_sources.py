"""Sources of rows: the same fits as of arrays, few chunks in memory, and errors that name a chunk.

Where a test says `large`, every table is treated as a large one, which is not brought into memory.
"""

import gc
import os
import pickle
import sys
import threading
import tracemalloc
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import inside
import numpy as np
import pytest
from chunked_arrays import Arrays
from conftest import Recorder, agree
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import TitsiasNew
from skgp_sparse.likelihoods import Probit
from skgp_sparse.sources import Chunk, Stream, is_source

pytestmark = pytest.mark.usefixtures("without_means")

KERNEL = ConstantKernel(1.3) * RBF([0.8, 1.2]) + WhiteKernel(0.2)
N = 600
SIZES = (250, 0, 1, 200, 149)


def rows(n=N, targets=1, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(X.sum(axis=1, keepdims=True) * np.arange(1, targets + 1))
    y = y + 0.3 * rng.normal(size=(n, targets))
    return X, y[:, 0] if targets == 1 else y


def cut(*columns, sizes=SIZES):
    """Chunks of given sizes."""
    edges = np.cumsum(sizes)[:-1]
    parts = [[None] * len(sizes) if c is None else np.split(c, edges) for c in columns]
    return [Chunk(*chunk) for chunk in zip(*parts)]


def stream(*columns, sizes=SIZES):
    return Stream(partial(iter, cut(*columns, sizes=sizes)))


class Listed:
    """The smallest source that a user may write."""

    def __init__(self, chunks):
        self.chunks, self.chunk_sizes = chunks, [np.shape(chunk[0])[0] for chunk in chunks]
        self.asked, self.closed = [], 0

    def chunk(self, k):
        self.asked.append(k)
        return self.chunks[k]

    def close(self):
        self.closed += 1


@pytest.fixture
def large(monkeypatch):
    """No table is small."""
    monkeypatch.setattr(inside.moments, "_SMALL_TABLE", 0)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 64 rows, and statistics of 100 rows at a time."""
    monkeypatch.setattr(inside.dataset, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(inside.dataset, "_ROWS_PER_PIECE", 100)


def regressor(**changes):
    given = {"n_inducing": 12, "optimizer": None, "random_state": 0, "noise": "constant"} | changes
    return SparseGPRegressor(given.pop("kernel", KERNEL), **given)


def classifier(**changes):
    given = {"n_inducing": 10, "max_iter": 2, "random_state": 0} | changes
    return SparseGPClassifier(**given)


def agree_fits(actual, expected, X, tolerance):
    theta = expected.kernel_.theta + 0.1
    answers = (
        [
            model.log_marginal_likelihood_value_,
            *model.predict(X, return_std=True),
            *model.log_marginal_likelihood(theta, True),
        ]
        for model in (actual, expected)
    )
    for mine, its in zip(*answers, strict=True):
        agree(mine, its, tolerance)


# -- every kind of source --------------------------------------------------------------


def of_arrays(X, y, folder):
    return Arrays(X, y, chunk_size=70)


def of_memory_maps(X, y, folder):
    np.save(folder / "X.npy", X), np.save(folder / "y.npy", y)
    mapped = (np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    return Arrays(*mapped, chunk_size=70)


def of_files(X, y, folder):
    paths = []
    for number, chunk in enumerate(cut(X, y)):
        paths.append(folder / f"{number}.npy")
        np.save(paths[-1], np.column_stack([chunk.X, chunk.y]))
    tables = partial(map, np.load, paths)
    at = slice(2, None) if y.ndim > 1 else 2
    return Stream(lambda: ((one[:, :2], one[:, at]) for one in tables()))


def of_a_stream(X, y, folder):
    return stream(X, y)


def of_a_user(X, y, folder):
    return Listed([tuple(chunk)[:2] for chunk in cut(X, y)])


KINDS = of_arrays, of_memory_maps, of_files, of_a_stream, of_a_user


@pytest.mark.second(share=0.33)
@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_fit_of_arrays(kind, targets, tmp_path, large, small_blocks):
    X, y = rows(targets=targets)
    source = kind(X, y, tmp_path)
    assert is_source(source)
    actual, expected = regressor().fit(source), regressor().fit(X, y)
    assert isinstance(actual._fitted.fits[0].objective.rows, inside.ChunkedDataset)
    agree_fits(actual, expected, X[:40], 1e-10)
    assert actual.n_features_in_ == 2 and actual.predict(X[:3]).shape == y[:3].shape


@pytest.mark.second(share=0.1)
@pytest.mark.parametrize("kind", KINDS)
def test_small_sources_are_arrays_to_the_last_bit(kind, tmp_path):
    X, y = rows()
    options = {"optimizer": "fmin_l_bfgs_b", "max_iter": 3, "kernel": None}
    actual = regressor(**options).fit(kind(X, y, tmp_path))
    agree_fits(actual, regressor(**options).fit(X, y), X[:40], 0.0)


@pytest.mark.parametrize("sizes", [(N,), (1,) * N, (0, N, 0), (300, 300)])
def test_the_cut_is_irrelevant(sizes, large, small_blocks):
    X, y = rows()
    expected = regressor().fit(X, y)
    agree_fits(regressor().fit(stream(X, y, sizes=sizes)), expected, X[:40], 1e-10)


@pytest.mark.second(share=0.32)
@pytest.mark.filterwarnings("ignore:The optimizer stopped")
@pytest.mark.parametrize("kernel", [None, KERNEL])
def test_whole_fits_agree(kernel, large):
    X, y = rows(3000)
    options = {"kernel": kernel, "optimizer": "fmin_l_bfgs_b", "max_iter": 5}
    actual = regressor(**options).fit(Arrays(X, y, chunk_size=700))
    agree_fits(actual, regressor(**options).fit(X, y), X[:40], 1e-7)


def test_few_distinct_rows_are_exact(large, small_blocks):
    X, y = rows()
    X = np.round(X)
    options = {"n_inducing": "auto", "optimizer": "fmin_l_bfgs_b"}
    actual, expected = (
        regressor(**options).fit(*given) for given in ((Arrays(X, y, chunk_size=70),), (X, y))
    )
    agree_fits(actual, expected, X[:40], 1e-8)
    labels = y > 0
    actual = classifier().fit(Arrays(X[:300], labels[:300], chunk_size=70))
    expected = classifier().fit(X[:300], labels[:300])
    agree(actual.predict_proba(X), expected.predict_proba(X), 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_types_of_numbers(dtype, large):
    X, y = rows()
    X = np.round(10 * X).astype(dtype)
    agree_fits(regressor().fit(stream(X, y)), regressor().fit(X, y), X[:40], 1e-10)


def test_float32_stays_float32(large):
    X, y = rows()
    fitted = regressor().fit(stream(X.astype(np.float32), y))
    assert fitted._fitted.fits[0].objective.rows.subset(np.arange(3)).X.dtype == np.float32


# -- weights, offsets, likelihoods, classes --------------------------------------------


def weights(n=N):
    weight = np.random.RandomState(1).randint(0, 3, n).astype(float)
    weight[:250] = 0.0  # a chunk without any
    return weight


@pytest.mark.parametrize("weight", [None, weights()])
@pytest.mark.parametrize("kernel", [KERNEL, KERNEL.k1], ids=["both", "known noise"])
def test_an_array_of_known_noise_belongs_to_the_rows_in_their_order(
    kernel, weight, both, small_blocks
):
    X, y = rows()
    alpha = np.random.RandomState(3).uniform(0.01, 0.5, N)
    model = regressor(alpha=alpha, kernel=kernel)
    actual = clone(model).fit(stream(X, y, weight))
    agree_fits(actual, clone(model).fit(X, y, weight), X[:40], 1e-10)


@pytest.mark.second(share=0.21, thin=1)
@pytest.mark.parametrize("weight", [None, weights()])
@pytest.mark.parametrize("kind", [SparseGPRegressor, SparseGPClassifier])
def test_training_on_parts_of_the_rows(kind, weight, large, monkeypatch):
    stages = inside.stochastic.Stage(10, 3, False), inside.stochastic.Stage(40, 3, True)
    monkeypatch.setattr(inside.stochastic, "STAGES", stages)
    X, y = rows()
    y = y > 0 if kind is SparseGPClassifier else y
    options = {"calibration": None} if kind is SparseGPClassifier else {"noise": "constant"}
    options |= {"n_inducing": 6, "solver": "stochastic", "max_iter": 3}
    model = kind(mean=None, random_state=0, **options)
    actual, expected = clone(model).fit(stream(X, y, weight)), clone(model).fit(X, y, weight)
    value = expected.log_marginal_likelihood_value_
    agree(actual.log_marginal_likelihood_value_, value, 1e-6)
    predict = "predict_proba" if kind is SparseGPClassifier else "predict"
    agree(getattr(actual, predict)(X), getattr(expected, predict)(X), 1e-6)


@pytest.mark.second(thin=1)
@pytest.mark.filterwarnings("ignore:.*The optimizer stopped")
@pytest.mark.parametrize("weight", [None, weights()])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("size", [70, 600])
def test_pairs_of_classes_skip_the_rows_of_others(ordered, size, weight, request):
    X, y = rows()
    order = np.argsort(y) if ordered else np.arange(N)  # many chunks without rows of a pair
    X, labels = X[order], np.digitize(y[order], [-0.5, 0.5])
    weight = None if weight is None else weight[order]
    model = classifier(multi_class="one_vs_one")
    for tolerance in (0.0, 1e-8):  # small, large
        actual = clone(model).fit(Arrays(X, labels, weight, chunk_size=size))
        expected = clone(model).fit(X, labels, weight)
        agree(actual.predict_proba(X), expected.predict_proba(X), tolerance)
        if not tolerance:
            request.getfixturevalue("large")
    assert isinstance(actual._fitted.fits[0].objective.rows, inside.ChunkedDataset)


@pytest.mark.parametrize("is_large", [False, True])
def test_one_class_is_refused_in_the_words_of_arrays(is_large, request):
    if is_large:
        request.getfixturevalue("large")
    X, y = rows()
    for labels, weight in ((np.ones(N), None), (y > 0, (y > 0).astype(float))):
        with pytest.raises(ValueError) as expected:
            classifier().fit(X, labels, weight)
        with pytest.raises(ValueError) as actual:
            classifier().fit(Arrays(X, labels, weight))
        assert str(actual.value) == str(expected.value)


# -- names, pickles, parameters --------------------------------------------------------


def test_feature_names(large):
    X, y = rows()
    source = Arrays(X, y, chunk_size=70)
    source.feature_names = ["b", "a"]
    fitted = regressor().fit(source)
    assert list(fitted.feature_names_in_) == ["b", "a"]
    fitted.fit(X, y)
    assert not hasattr(fitted, "feature_names_in_")


def test_pickles_do_not_contain_the_source(large):
    X, y = rows()
    source = Listed(cut(X, y))
    source.unpicklable = lambda: None
    fitted = regressor().fit(source)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    with pytest.raises(ValueError, match="training rows"):
        again.log_marginal_likelihood(fitted.kernel_.theta)
    clone(fitted).fit(source)


def test_tables_can_be_pickled_where_sources_can(tmp_path, large):
    X, y = rows()
    fitted = regressor().fit(of_arrays(X, y, tmp_path))
    again = pickle.loads(pickle.dumps(fitted._fitted.fits[0].objective.rows))
    agree(again.targets()[:, 0] * y.std() + y.mean(), y, 1e-12)
    chunks = cut(X, y)
    source = pickle.loads(pickle.dumps(Stream(partial(iter, chunks))))
    np.testing.assert_array_equal(source.chunk(3).X, chunks[3].X)


def test_results_do_not_depend_on_threads(large, small_blocks):
    X, y = rows()
    fits = [regressor(n_jobs=n_jobs).fit(stream(X, y)) for n_jobs in (1, 2, 5)]
    for fit in fits[1:]:
        agree_fits(fit, fits[0], X[:40], 0.0)


def test_initialisers_of_the_user_see_a_sample(large):
    X, y = rows()
    fitted = regressor(inducing_init=lambda X, m, *_: X[:m]).fit(stream(X, y))
    np.testing.assert_array_equal(fitted.inducing_points_, X[:12])


def test_what_a_source_is():
    pandas = pytest.importorskip("pandas")
    for other in (np.zeros(3), [1], "X.npy", None, Arrays, pandas.DataFrame({"chunk_sizes": [1]})):
        assert not is_source(other)
    assert is_source(Listed([(np.zeros((2, 2)), np.zeros(2))]))


# -- what cannot be used ---------------------------------------------------------------


def failing(source, message, model=None, kind=ValueError, **others):
    """The error of a fit that fails without a trace."""
    model = regressor() if model is None else model
    model.mark = 1
    before = dict(vars(model))
    with pytest.raises(kind, match=message):
        model.fit(source, **others)
    assert vars(model) == before


@pytest.fixture(params=[False, True], ids=["small", "large"])
def both(request):
    if request.param:
        request.getfixturevalue("large")


def test_bad_chunks_are_named(both):
    X, y = rows()
    chunks = cut(X, y)

    def with_third(**changes):
        return Listed([*chunks[:3], chunks[3]._replace(**changes), *chunks[4:]])

    missing = X[251:451].copy()
    missing[7, 1] = np.nan
    failing(with_third(X=missing), "SparseGPRegressor: chunk 3 of the source.*NaN")
    failing(with_third(X=X[251:451, :1]), "chunk 3 .*number of columns of X. Got 1, before 2")
    failing(with_third(X=X[251:451, 0]), "chunk 3 .*Expected 2D array")
    failing(Listed([*chunks[:3], (sparse.csr_array(X), y)]), "chunk 3 .*Sparse", kind=TypeError)
    failing(with_third(y=missing[:, 1]), "chunk 3 .*Input y contains NaN")
    failing(Stream(lambda: iter([(None, y)])), "chunk 0 .*Expected 2D array")
    failing(with_third(y=y[251:450]), "chunk 3 .*inconsistent numbers of samples")
    failing(
        with_third(y=np.c_[y, y][251:451]), r"chunk 3 .*columns of y. Got \(2,\), before \(1,\)"
    )
    failing(
        with_third(sample_weight=np.ones(200)), "chunk 3 .*sample_weight. Got numbers, before None"
    )
    failing(with_third(X=missing.astype(str)), "chunk 3 .*X of SparseGPRegressor contains text")
    failing(Listed([*chunks[:3], X[251:451]]), "chunk 3 .*must be a tuple", kind=TypeError)
    poisson = regressor(likelihood="poisson", kernel=KERNEL.k1)
    failing(Listed(cut(X, np.abs(y)) + chunks[4:]), "chunk 5 .*counts y >= 0", poisson)
    negative = cut(X, y, -np.ones(N))
    failing(Listed(negative), "chunk 0 .*sample_weight")
    offsets = cut(X, y, None, np.ones(N))
    failing(Listed(offsets), "chunk 0 .*Subtract it from y")
    failing(Listed(offsets), "chunk 0 .*takes no offset", classifier())
    failing(Listed(chunks), "chunk 0 .*Unknown label type", classifier())
    mixed = [*cut(X, y > 0)[:3], Chunk(X, np.full(N, "yes"))]
    failing(Listed(mixed), "chunk 3 .*labels. Got text, before numbers", classifier())


def test_bad_sources_are_refused(both):
    X, y = rows()
    source = Listed(cut(X, y))
    failing(source, "y cannot be passed beside a source", y=y)
    failing(source, "sample_weight cannot be passed", sample_weight=np.ones(N))
    failing(source, "offset cannot be passed", offset=1.0)
    failing(source, "y cannot be passed", classifier(), y=y)
    failing(source, "alpha must be .*same number of entries as y", regressor(alpha=np.ones(N - 1)))
    failing(source, "alpha.*not negative", regressor(alpha=np.linspace(-1.0, 1.0, N)))
    student = regressor(likelihood="student_t", kernel=KERNEL.k1, alpha=0.1)
    failing(source, "^SparseGPRegressor: alpha is the variance", student)
    failing(Listed([]), "has no rows")
    failing(stream(X, y, np.zeros(N)), "sample_weight is zero for every row")
    source.feature_names = ["one"]
    failing(source, "1 names, but the chunks have 2 columns")
    source = Listed(cut(X, y))
    source.chunk_sizes[3] = 5
    failing(source, "chunk 3 .*X has 200 rows, but chunk_sizes has 5")
    failing(X, "requires y to be passed, but the target y is None")


@pytest.mark.parametrize("later", ["fewer chunks", "more chunks", "fewer rows", "labels"])
def test_sources_that_change_are_found_out(later, large):
    X, y = rows()
    first, passes = cut(X, y > 0 if later == "labels" else y), []
    changed, message = {
        "fewer chunks": (first[:-1], "chunk 4 .*missing, but there were 5"),
        "more chunks": (first + first, "went on after 5 chunks"),
        "fewer rows": ([*first[:-1], Chunk(X[:9], y[:9])], r"chunk 4 .*\(9, 2\).*\(149, 2\)"),
        "labels": ([*first[:-1], first[-1]._replace(y=np.full(149, 7))], "label 7"),
    }[later]

    def factory():
        passes.append(1)
        return iter(first if len(passes) == 1 else changed)

    model = classifier() if later == "labels" else regressor()
    failing(Stream(factory), f"{message}.*same chunks each time", model)


def test_constructors_say_what_is_wrong():
    X, y = rows(10)
    with pytest.raises(TypeError, match="Stream takes a function"):
        Stream(iter(cut(X, y, sizes=(10,))))
    with pytest.raises(TypeError, match="None in the place of chunk 0"):
        Stream(lambda: iter([None])).chunk(0)


# -- how often, and how much at a time -------------------------------------------------


def chunked(chunks, **how):
    columns = [np.concatenate(column) for column in zip(*(chunk[:2] for chunk in chunks))]
    source = Listed(chunks)
    lazy = inside.ChunkedDataset(opened(source, 2), 2, inside.TargetScaler.none(1), **how)
    return lazy, inside.ArrayDataset(columns[0], columns[1][:, None], **how), source.asked


def opened(source, n_features):
    """A source after the first pass."""
    opened = inside.OpenSource(source, "it")
    opened.sizes, opened.n_features = source.chunk_sizes, n_features
    opened.encode = lambda y: y[:, None]
    return opened


@pytest.mark.parametrize("sizes", [SIZES, (1,) * N, (N,)])
def test_blocks_are_those_of_arrays(sizes):
    weight = weights()
    lazy, eager, _ = chunked(cut(*rows(), sizes=sizes), weight=weight, offset=weight + 1.0)
    index = np.random.RandomState(0).permutation(N)[:50]
    picks = [
        slice(0, 1),
        slice(10, 300),
        slice(None),
        slice(5, None, 7),
        slice(8, 8),
        index,
        index[:0],
    ]
    for pick in picks:
        for mine, its in zip(lazy.block(pick), eager.block(pick), strict=True):
            np.testing.assert_array_equal(mine, its)
        if not isinstance(pick, slice):
            np.testing.assert_array_equal(lazy.subset(pick).X, eager.subset(pick).X)
    for mine, its in zip((lazy.scale(), lazy.distinct()), (eager.scale(), eager.distinct())):
        np.testing.assert_array_equal(mine, its)
    assert lazy.target_variance() == eager.target_variance()
    np.testing.assert_array_equal(lazy.targets(slice(7, 400)), eager.targets()[7:400])


@pytest.mark.parametrize("n_jobs", [1, 4])
@pytest.mark.parametrize("size", [1, 50, 1000])
def test_a_visit_reads_every_chunk_once_and_in_order(size, n_jobs, small_blocks):
    X, y = rows(3000)
    sizes = [size] * (3000 // size)
    lazy, _, log = chunked(cut(X, y, sizes=sizes))
    basis = inside.InducingBasis(X[:10])
    problem = inside.Problem(
        KERNEL, basis, lazy, TitsiasNew(), inside.Options(n_jobs=n_jobs, memory=1e5)
    )
    inside.collapsed.value(problem)
    assert log == list(range(len(sizes)))
    del log[:]
    inside.collapsed.value_and_gradient(problem)
    again = log[: len(sizes)] == list(range(len(sizes)))
    assert again and log[len(sizes) :] in (list(range(len(sizes))), list(range(1, len(sizes))))


def test_subsets_read_each_chunk_once():
    lazy, _, log = chunked(cut(*rows(), sizes=(100,) * 6))
    lazy.subset(np.array([599, 0, 250, 1, 599]))
    assert log == [0, 2, 5]


@pytest.mark.second
def test_memory_does_not_grow_with_the_number_of_chunks(monkeypatch):
    monkeypatch.setattr(inside.dataset, "_ROWS_PER_PIECE", 1000)
    monkeypatch.setattr(inside.dataset, "_BLOCK_BYTES", 1e5)
    rng, peaks = np.random.RandomState(0), []
    X, y = rng.normal(size=(1000, 20)), rng.normal(size=1000)
    for n_chunks in (50, 50, 100):  # the first one makes what is used again
        source = SimpleNamespace(chunk=lambda k: (X + k, y), chunk_sizes=[1000] * n_chunks)
        lazy = inside.ChunkedDataset(opened(source, 20), 20, inside.TargetScaler.none(1))
        problem = inside.Problem(
            RBF(5.0) + WhiteKernel(),
            inside.InducingBasis(X[:30]),
            lazy,
            TitsiasNew(),
            inside.Options(memory=1e6),
        )
        tracemalloc.start()
        lazy.scale(), lazy.target_variance(), lazy.subset(np.arange(0, len(lazy), 999))
        inside.collapsed.value_and_gradient(problem)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 250_000  # bytes: a kilobyte for each block of 400 rows


def open_files(folder):
    gc.collect()
    handles = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return [handle for handle in handles if handle.startswith(str(folder.resolve()))]


def from_disk(path, stop_after=None):
    """A generator with an open file, which fails in its second pass."""
    passes = []

    def factory():
        passes.append(1)
        with open(path, "rb") as file:
            X = np.load(file)
            for number, rows in enumerate(np.array_split(X, 7)):
                if len(passes) > 1 and number == 3 and stop_after is not None:
                    raise stop_after
                yield rows[:, :2], rows[:, 2]

    return Stream(factory)


@pytest.mark.second(keep=2)
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
@pytest.mark.parametrize("failure", [None, OSError("disk on fire"), KeyboardInterrupt()])
def test_no_file_stays_open(failure, tmp_path, large):
    X, y = rows()
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source, model = from_disk(tmp_path / "rows.npy", failure), regressor()
    if failure is None:
        model.fit(source)
        assert not open_files(tmp_path)
        model.log_marginal_likelihood(model.kernel_.theta, True)
    else:
        failing(source, None, model, type(failure))
    assert not open_files(tmp_path)
    regressor().fit(of_files(X, y, tmp_path))
    assert not open_files(tmp_path)


def test_sources_are_closed_and_chunks_are_forgotten(large):
    source = Listed(cut(*rows()))
    fitted = regressor().fit(source)
    assert source.closed == 1 and not fitted._fitted.fits[0].objective.rows.source._last[1]
    source.chunks[2] = source.chunks[2]._replace(X=np.full((1, 2), np.inf))
    failing(source, "chunk 2")
    assert source.closed == 2


def test_chunks_may_share_their_memory(large, small_blocks):
    X, y = rows()

    def factory():
        buffer = np.empty((100, 2))
        for start in range(0, N, 100):
            buffer[:] = X[start : start + 100]
            yield buffer, y[start : start + 100]

    expected = regressor().fit(X, y)
    agree_fits(regressor(n_jobs=3).fit(Stream(factory)), expected, X[:40], 1e-10)


# -- statistics of many rows, a million at a time --------------------------------------


@pytest.mark.parametrize("weight", [None, weights()])
def test_statistics_by_pieces_are_those_of_all_rows(weight, monkeypatch):
    X, y = rows()
    few = inside.ArrayDataset(X, 3.0 + y[:, None], 0.0, weight)
    expected = few.target_variance()
    monkeypatch.setattr(inside.dataset, "_ROWS_PER_PIECE", 100)
    assert few.target_variance() == pytest.approx(expected, rel=1e-13)
    huge = inside.ArrayDataset(X, 1e160 * y[:, None], 0.0, weight)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="overflow"):
        huge.target_variance()
    constant = inside.ArrayDataset(X, 0.0 * y[:, None], 0.0, weight)
    assert constant.target_variance() == 1.0


def test_samples_of_many_rows(monkeypatch):
    monkeypatch.setattr(inside.dataset, "_ROWS_PER_PIECE", 100)
    X, y = rows()
    plain = inside.ArrayDataset(X, y[:, None])
    drawn = plain.sample(50, np.random.RandomState(0))
    assert len(np.unique(drawn)) == 50 and np.all(np.diff(drawn) > 0)
    np.testing.assert_array_equal(plain.sample(N, np.random.RandomState(0)), np.arange(N))
    weight = np.where(np.arange(N) % 3 == 0, 10.0, 1.0)
    weight[:100] = 0.0
    weighted = inside.ArrayDataset(X, y[:, None], 0.0, weight)
    counts = np.zeros(N)
    for seed in range(2000):
        counts[weighted.sample(5, np.random.RandomState(seed))] += 1
    share = counts @ (weight == 10.0) / counts.sum()
    expected = weight @ (weight == 10.0) / weight.sum()
    assert counts[:100].sum() == 0 and share == pytest.approx(expected, abs=0.02)
    everything = weighted.sample(N, np.random.RandomState(0))
    np.testing.assert_array_equal(everything, np.flatnonzero(weight))


def test_kinds_of_many_rows(monkeypatch):
    X, y = rows()
    labels = np.where(np.arange(N) < 590, -1.0, 1.0)[:, None]
    few = inside.ArrayDataset(X, labels)
    model = inside.SiteObjectives(inside.Variational(Probit(), False))
    expected = model.sample(few, 50, np.random.RandomState(0))
    assert np.sum(labels[expected] > 0) == 5
    monkeypatch.setattr(inside.dataset, "_ROWS_PER_PIECE", 100)
    found = model.sample(few, 50, np.random.RandomState(0))
    assert np.sum(labels[found] > 0) == 5 and len(np.unique(found)) == 50


@pytest.mark.parametrize("sizes", [SIZES, (1,) * 30 + (30,) * 19])
def test_no_warnings_of_a_fit(sizes, large):
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor().fit(stream(X, y, sizes=sizes))
        classifier(kernel=KERNEL.k1, optimizer=None).fit(stream(X, y > 0, sizes=sizes))


def test_callbacks_see_the_source():
    pytest.importorskip("sklearn.callback")
    source, recorder = stream(*rows()), Recorder()
    regressor().set_callbacks(recorder).fit(source)
    assert recorder.rows is source


# -- who asks --------------------------------------------------------------------------


class Asked(Listed):
    """A source that notes which threads ask for its chunks."""

    def __init__(self, chunks):
        super().__init__(chunks)
        self.threads = set()

    def chunk(self, k):
        self.threads.add(threading.get_ident())
        return super().chunk(k)


@pytest.mark.second(share=0.15, keep=2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"solver": "stochastic", "n_inducing": 4},
        {"likelihood": "poisson"},
        {"likelihood": "poisson", "bound": "gfitc-ep"},
        {"multi_class": "one_vs_rest"},
        {"multi_class": "softmax"},
    ],
    ids=str,
)
def test_all_chunks_are_asked_for_by_the_thread_that_fits(options, large, small_blocks):
    X, y = rows()
    numbers = np.rint(np.exp(y)) if "likelihood" in options else y
    targets = np.digitize(y, [-0.3, 0.3]) if "multi_class" in options else numbers
    make = SparseGPClassifier if "multi_class" in options else SparseGPRegressor
    source = Asked(cut(X, targets))
    settings = {"n_inducing": 8, "max_iter": 2, "n_jobs": 4, "random_state": 0}
    model = make(KERNEL, **settings | options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(source)
    model.log_marginal_likelihood(model.kernel_.theta if make is SparseGPRegressor else None)
    assert source.threads == {threading.get_ident()}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes before")
@pytest.mark.parametrize("passes", [0, 2])
def test_errors_of_all_kinds_name_the_chunk(passes, large):
    class Failing(Listed):
        def chunk(self, k):
            if k == 2 and self.asked.count(2) == passes:
                raise OSError("disk on fire")
            return super().chunk(k)

    with pytest.raises(OSError, match="disk on fire") as caught:
        regressor().fit(Failing(cut(*rows())))
    assert "chunk 2 of the source (Failing)" in caught.value.__notes__[0]


@pytest.mark.parametrize("likelihood", ["beta", "gamma", "poisson"])
def test_rows_without_weight_may_have_any_target(likelihood, monkeypatch):
    monkeypatch.setattr("skgp_sparse.data.door.is_small", lambda size: False)
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, size=(90, 1))
    is_share = likelihood == "beta"
    y = 1 / (1 + np.exp(-X[:, 0])) if is_share else np.round(np.exp(X[:, 0])) + 1.0
    weight = np.ones(90)
    weight[::7] = 0.0
    given = np.where(weight > 0, y, -1.5)
    fixed = {"n_inducing": 8, "optimizer": None, "random_state": 0}
    model = SparseGPRegressor(RBF(), likelihood=likelihood, **fixed)
    found = model.fit(Arrays(X, given, weight)).predict(X[:5])
    np.testing.assert_allclose(found, model.fit(Arrays(X, y, weight)).predict(X[:5]))

"""`SparseGPClassifier` with likelihood="ordinal": orders, columns, and every posterior."""

import pickle

import numpy as np
import pytest
from chunked_arrays import Arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.likelihoods import Ordinal

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

THRESHOLDS = np.array([-1.5, 0.0, 1.5])
NAMES = np.array(["low", "medium", "good", "best"])  # sorted: best, good, low, medium
ORDER = [*NAMES]
TEXT = ["nothing", *NAMES]  # a level without rows


def numbers(n=120, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    f = 2 * np.sin(X[:, 0]) + 0.5 * X[:, 1]
    return X, np.searchsorted(THRESHOLDS, f + rng.normal(size=n))


X, Y = numbers()
LABELS, QUERIES = NAMES[Y], numbers(50, 1)[0]


def small(**options):
    defaults = {"n_inducing": 10, "max_iter": 5, "mean": None, "random_state": 0}
    return SparseGPClassifier(likelihood="ordinal", **defaults | options)


def named(**options):
    return small(ordinal_classes=ORDER, **options)


@pytest.fixture(scope="module")
def expected():
    return named().fit(X, LABELS).predict_proba(QUERIES)


def test_columns_are_those_of_sorted_classes(expected):
    model = named().fit(X, LABELS)
    assert_array_equal(model.classes_, ["best", "good", "low", "medium"])
    assert_array_equal(model.ordinal_classes_, ORDER)
    assert_allclose(expected.sum(axis=1), 1.0, atol=1e-14)
    assert_array_equal(model.predict(QUERIES), model.classes_[expected.argmax(axis=1)])
    mean, variance = model.latent_mean_and_variance(QUERIES)
    in_order = model.likelihood_.probability(mean, variance).T
    assert_array_equal(expected, in_order[:, [3, 2, 0, 1]])
    assert np.all(np.diff(model.likelihood_.thresholds) > 0)
    assert model.score(X, LABELS) > 0.6
    higher = np.argmax(mean)
    assert NAMES.tolist().index(model.predict(QUERIES)[higher]) == 3


def test_the_order_is_that_of_a_category_of_pandas(expected):
    pandas = pytest.importorskip("pandas")
    category = pandas.Categorical(LABELS, categories=TEXT, ordered=True)
    for y in (pandas.Series(category), category, pandas.DataFrame({"y": category})):
        assert_array_equal(small().fit(X, y).predict_proba(QUERIES), expected)
    for y in (pandas.Series(LABELS), pandas.Series(pandas.Categorical(LABELS))):
        with pytest.raises(ValueError, match="Pass all of them, lowest first, as ordinal_classes"):
            small().fit(X, y)
    codes = pandas.Series(pandas.Categorical(Y, categories=[3, 2, 1, 0], ordered=True))
    assert_array_equal(small().fit(X, codes).ordinal_classes_, [3, 2, 1, 0])


def test_the_order_is_that_of_an_enum_of_polars(expected):
    polars = pytest.importorskip("polars")
    y = polars.Series(LABELS.tolist(), dtype=polars.Enum(TEXT))
    assert_array_equal(small().fit(X, y).predict_proba(QUERIES), expected)
    with pytest.raises(ValueError, match="Enum of polars"):
        small().fit(X, polars.Series(LABELS.tolist(), dtype=polars.Categorical))


def test_the_order_is_that_of_numbers(expected):
    model = small().fit(X, Y)
    assert_array_equal(model.predict_proba(QUERIES), expected[:, [2, 3, 1, 0]])
    assert_array_equal(model.classes_, model.ordinal_classes_)
    reverse = small(ordinal_classes=[3, 2, 1, 0, -1]).fit(X, Y)
    assert_array_equal(reverse.ordinal_classes_, [3, 2, 1, 0])
    assert_allclose(reverse.predict_proba(QUERIES), model.predict_proba(QUERIES), atol=0.05)


def test_two_classes_are_a_probit_with_a_learned_level():
    model = small().fit(X, Y > 1)
    assert len(model.likelihood_.thresholds) == 1
    p, latent = model.predict_proba(QUERIES), model.latent_mean_and_variance(QUERIES)[0]
    assert p.shape == (50, 2) and np.corrcoef(latent, p[:, 1])[0, 1] > 0.9
    assert_array_equal(model.predict(QUERIES), p[:, 1] > 0.5)


def test_multi_class_is_not_used(expected):
    for multi_class in ("one_vs_one", "softmax"):
        model = named(multi_class=multi_class).fit(X, LABELS)
        assert_array_equal(model.predict_proba(QUERIES), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"bound": "titsias"},
        {"bound": "titsias_new"},
        {"bound": "gfitc-ep"},
        {"bound": "pep"},
        {"posterior": "exact", "n_inducing": "auto"},
        {"posterior": "fourier", "n_inducing": "auto"},
        {"posterior": "neighbors", "n_inducing": "auto"},
        {"solver": "stochastic"},
        {"optimizer": None},
        {"kernel": RBF([1.0, 1.0]), "mean": "linear"},
        {"calibration": None},
    ],
    ids=str,
)
def test_everything_predicts_better_than_frequencies(options):
    model = named(**options).fit(X, LABELS)
    X_test, y_test = numbers(500, 2)
    p = model.predict_proba(X_test)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(model.predict(X_test), model.classes_[p.argmax(axis=1)])
    of_labels = p[np.arange(500), np.searchsorted(model.classes_, NAMES[y_test])]
    frequencies = np.bincount(Y)[y_test] / len(Y)
    assert np.mean(np.log(of_labels)) > np.mean(np.log(frequencies)) + 0.2
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.predict_proba(X_test), p)
    assert_array_equal(clone(model).fit(X, LABELS).predict_proba(X_test), p)


def test_weights_are_copies():
    weight = np.random.RandomState(1).randint(0, 3, len(X))
    weight[:8] = 1
    weighted = named().fit(X, LABELS, sample_weight=weight).predict_proba(QUERIES)
    copied = named().fit(np.repeat(X, weight, axis=0), np.repeat(LABELS, weight))
    assert_allclose(copied.predict_proba(QUERIES), weighted, atol=1e-8)


def test_sources_are_tables(expected):
    source = named().fit(Arrays(X, LABELS))
    assert_array_equal(source.predict_proba(QUERIES), expected)
    with pytest.raises(ValueError, match="lowest first, as ordinal_classes"):
        small().fit(Arrays(X, LABELS))


def test_leaving_one_out_is_close_to_refits():
    model = named(posterior="exact", n_inducing="auto", kernel=2.0 * RBF(1.0), optimizer=None)
    p = model.fit(X, LABELS).loo_predict_proba()
    for k in (0, 7, 33):
        others = np.arange(len(X)) != k
        again = clone(model).fit(X[others], LABELS[others]).predict_proba(X[k : k + 1])
        assert_allclose(p[k], again[0], atol=0.03)


def test_probabilities_are_calibrated():
    """New rows have the frequencies and the densities that the model expects."""
    model = small(n_inducing=40, max_iter=30, calibration=None).fit(*numbers(500))
    X, y = numbers(500, 2)
    p = model.predict_proba(X)
    variances = np.sum(p * (1 - p), axis=0)
    assert np.all(np.abs(np.bincount(y) - p.sum(axis=0)) < 4 * np.sqrt(variances))
    surprise, entropy = -np.log(p[np.arange(500), y]), -np.sum(p * np.log(p), axis=1)
    spread = np.sqrt(np.sum(np.sum(p * np.log(p) ** 2, axis=1) - entropy**2))
    assert abs(np.sum(surprise - entropy)) < 4 * spread
    assert_allclose(np.diff(model.likelihood_.thresholds), np.diff(THRESHOLDS), atol=0.5)


@pytest.mark.second(share=0.1)
def test_a_mean_and_a_calibration_stand_beside_it():
    X, y = numbers(300)
    model = small(mean="boosting").fit(X, y)
    assert model.calibration_ is not None
    p = model.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(model.predict(X), p.argmax(axis=1))


def test_later_rows_keep_the_order():
    pandas = pytest.importorskip("pandas")
    category = pandas.Series(pandas.Categorical(LABELS, categories=TEXT, ordered=True))
    stream = small(n_inducing=20)
    with pytest.raises(ValueError, match="lowest first, as ordinal_classes"):
        stream.partial_fit(X[:60], LABELS[:60], classes=NAMES)
    stream.partial_fit(X[:60], category[:60], classes=NAMES)
    stream.partial_fit(X[60:], LABELS[60:])
    assert_array_equal(stream.ordinal_classes_, ORDER)
    assert stream.score(X, LABELS) > 0.6
    other = pandas.Series(pandas.Categorical(LABELS, categories=ORDER[::-1], ordered=True))
    for change in (lambda: stream.partial_fit(X, other), lambda: reversed_by_name(stream)):
        with pytest.raises(ValueError, match="the order of the labels was"):
            change()
    after_fit = named().fit(X[:60], LABELS[:60]).partial_fit(X[60:], LABELS[60:])
    assert_array_equal(after_fit.ordinal_classes_, ORDER)


def reversed_by_name(stream):
    clone_of_stream = pickle.loads(pickle.dumps(stream))
    clone_of_stream.set_params(ordinal_classes=ORDER[::-1]).partial_fit(X, LABELS)


def test_another_likelihood_leaves_no_trace():
    model = named().fit(X, LABELS)
    model.set_params(likelihood="probit", ordinal_classes=None).fit(X, LABELS)
    assert not hasattr(model, "ordinal_classes_") and len(model.likelihood_) == 4


@pytest.mark.parametrize(
    "words, call",
    [
        ("labels such as 'best' have no order", lambda: small().fit(X, LABELS)),
        ("'best' is not in the order", lambda: small(ordinal_classes=ORDER[:2]).fit(X, LABELS)),
        ("a list of distinct labels", lambda: small(ordinal_classes="low").fit(X, LABELS)),
        ("a list of distinct labels", lambda: small(ordinal_classes=[1, 1, 2]).fit(X, Y)),
        ("'ordinal', 'probit'", lambda: SparseGPClassifier(likelihood="order").fit(X, Y)),
        (
            "ordinal_classes is the order of labels for likelihood='ordinal'",
            lambda: SparseGPClassifier(ordinal_classes=ORDER).fit(X, LABELS),
        ),
        ("must be one of", lambda: named(multi_class="many").fit(X, LABELS)),
        ("Gaussian noise only", lambda: named(posterior="rows").fit(X, LABELS)),
        ("not for labels", lambda: SparseGPRegressor(likelihood=Ordinal()).fit(X, Y)),
    ],
)
def test_what_cannot_be_is_refused(words, call):
    with pytest.raises(ValueError, match=words):
        call()


def failures(estimator):
    return {"check_classifiers_classes": "labels are text without an order"}


@pytest.mark.second(share=0.02)
@parametrize_with_checks([small(n_inducing=8, max_iter=3)], expected_failed_checks=failures)
def test_estimator_checks(estimator, check):
    check(estimator)

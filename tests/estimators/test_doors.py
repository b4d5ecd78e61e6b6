"""Every feature through every door: the result of arrays, or a refusal that says what to do.

Hyperparameters and inducing points are fixed, so that nothing but the rows can differ.
"""

import re
from functools import partial

import numpy as np
import pytest
from chunked_arrays import Arrays
from distributed import Client
from inside import moments
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from tiers import crossed

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.dask import DaskSparseGPClassifier, DaskSparseGPRegressor
from skgp_sparse.likelihoods import Censored
from skgp_sparse.posteriors import Exact, InducingPoints, IterativeExact

TOLERANCE = 1e-8
N, CHUNK = 120, 50
Z = np.random.RandomState(1).uniform(-2, 2, (15, 2))
KERNEL = ConstantKernel(1.3) * RBF([0.8, 1.1])
POSTERIORS = {
    "inducing": InducingPoints(),
    "larger mean": InducingPoints(n_mean=40),
    "exact": Exact(),
    "rows": IterativeExact(),
}
CLASSES = {"two classes": 2, "one_vs_rest": 3, "one_vs_one": 3, "softmax": 3}
LIKELIHOODS = ("poisson", "negative_binomial", "gamma", "student_t", "censored")
KINDS = ("gaussian", "known noise", "two targets", *LIKELIHOODS, "offset", *CLASSES)
DOORS = ("memory map", "source", "large source", "stream", "dask", "workers")
LARGE = ("large source", "workers")  # of which small tables take the way of large ones


def exists(door, kind, posterior, weighted):
    """Classifiers have inducing points only."""
    return posterior == "inducing" or kind not in CLASSES


def estimator(kind, posterior, on_cluster=None):
    """An estimator in which nothing is learned."""
    given = posterior in ("inducing", "larger mean")
    options = {
        "kernel": KERNEL,
        "optimizer": None,
        "inducing_init": Z if given else "random",
        "n_inducing": 15,
        "tol": TOLERANCE if posterior != "rows" else 1e-12,  # that of a solve, then
        "random_state": 0,
    }
    if kind in CLASSES:
        make = SparseGPClassifier if on_cluster is None else DaskSparseGPClassifier
        options["multi_class"] = kind if CLASSES[kind] > 2 else "one_vs_rest"
    else:
        make = SparseGPRegressor if on_cluster is None else DaskSparseGPRegressor
        likelihood = {"offset": "poisson"}.get(kind, kind)
        is_gaussian = likelihood not in LIKELIHOODS
        with_noise = {
            "censored": Censored(lower=0.3, scale=1.0)
        }  # little noise makes rounding large
        options |= {"likelihood": "gaussian" if is_gaussian else with_noise.get(kind, likelihood)}
        options |= {"posterior": POSTERIORS[posterior], "normalize_y": kind != "known noise"}
        if kind == "known noise":
            options["alpha"] = 0.05 + 0.1 * np.arange(N) / N
        elif is_gaussian:
            options["kernel"] = KERNEL + WhiteKernel(0.1)
    return make(**options, **({} if on_cluster is None else {"client": on_cluster}))


def rows(kind, weighted):
    """X, y, weights and offsets of a table of that kind."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (N, 2))
    f = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    y = f + 0.2 * rng.normal(size=N)
    if kind in CLASSES:
        y = np.array(["a", "b", "c"])[np.digitize(y, [0.0] if CLASSES[kind] == 2 else [-0.5, 0.5])]
    elif kind == "two targets":
        y = np.column_stack([y, 3.0 * np.cos(X[:, 1]) + 5.0])
    elif kind in ("poisson", "negative_binomial", "offset"):
        y = rng.poisson(np.exp(f)).astype(float)
    elif kind == "gamma":
        y = rng.gamma(3.0, np.exp(f) / 3.0)
    elif kind == "censored":
        y = np.maximum(y, 0.3)
    weight = rng.randint(1, 4, N).astype(float) if weighted else None
    return X, y, weight, 0.1 * X[:, 0] if kind == "offset" else None


def in_arrays(model, X, y, weight, offset):
    """The fit of arrays."""
    return model.fit(X, y, weight, **({} if offset is None else {"offset": offset}))


def from_memory_map(model, X, y, weight, offset, folder):
    np.save(folder / "X.npy", X)
    return in_arrays(model, np.load(folder / "X.npy", mmap_mode="r"), y, weight, offset)


def from_source(model, *columns):
    return model.fit(Arrays(*columns, chunk_size=CHUNK))


def from_stream(model, X, y, weight, offset):
    alpha, is_classifier = model.get_params().get("alpha"), hasattr(model, "multi_class")
    for start in range(0, N, CHUNK):
        some = slice(start, start + CHUNK)
        more = {} if offset is None else {"offset": offset[some]}
        more |= {"classes": np.unique(y)} if is_classifier else {}
        if alpha is not None:
            model.set_params(alpha=alpha[some])
        model.partial_fit(X[some], y[some], None if weight is None else weight[some], **more)
    return model


def from_dask(model, *columns):
    import dask.array as da

    X, y, weight, offset = (
        None if column is None else da.from_array(column, chunks=(CHUNK, *column.shape[1:]))
        for column in columns
    )
    return in_arrays(model, X, y, weight, offset)


@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as one:
        yield one


def refusal(door, kind, posterior):
    """What a refusal says; None where there must be none."""
    if door == "stream" and posterior != "inducing":
        return "Set posterior to 'inducing'|has no attribute 'partial_fit'"
    if kind in (*LIKELIHOODS, "offset") and posterior in ("larger mean", "rows"):
        return "or set posterior='inducing'"
    return None


@pytest.fixture
def through(monkeypatch, tmp_path, request):
    """``(door) -> (fit, the client of an estimator)``; the first is of an estimator and columns."""

    def open_door(door):
        if door in LARGE:
            monkeypatch.setattr(moments, "_SMALL_TABLE", 0)
        enter = {
            "memory map": partial(from_memory_map, folder=tmp_path),
            "source": from_source,
            "large source": from_source,
            "stream": from_stream,
            "dask": from_dask,
            "workers": from_dask,
        }[door]
        return enter, request.getfixturevalue("client") if door in ("dask", "workers") else None

    return open_door


@pytest.mark.second(share=0.25)
@crossed(exists, door=DOORS, kind=KINDS, posterior=tuple(POSTERIORS), weighted=(False, True))
def test_every_door_leads_to_the_same_fit(door, kind, posterior, weighted, through):
    columns, (enter, on_cluster) = rows(kind, weighted), through(door)
    words = refusal(door, kind, posterior)
    if words is not None:
        with pytest.raises((ValueError, AttributeError)) as caught:
            enter(estimator(kind, posterior, on_cluster), *columns)
        assert re.search(words, f"{caught.value} {caught.value.__cause__}")
        return
    expected = in_arrays(estimator(kind, posterior), *columns)
    actual = enter(estimator(kind, posterior, on_cluster), *columns)
    assert_same(actual, expected, kind)


def assert_same(actual, expected, kind):
    """The same evidence and the same predictions."""
    queries = np.random.RandomState(2).uniform(-3, 3, (20, 2))
    predict = "predict_proba" if kind in CLASSES else "predict"
    std = {} if kind in CLASSES else {"return_std": True}
    ours, theirs = (getattr(model, predict)(queries, **std) for model in (actual, expected))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * np.max(np.abs(theirs)))
    value = expected.log_marginal_likelihood_value_
    assert abs(actual.log_marginal_likelihood_value_ - value) <= TOLERANCE * max(1.0, abs(value))


QUERIES = np.random.RandomState(2).uniform(-2, 2, (12, 2))
QUESTIONS = {
    "loo": lambda model: model.loo_predict(),
    "loo of labels": lambda model: [model.loo_predict_proba()],
    "interval": lambda model: model.predict_interval(QUERIES, 0.8),
    "conformal": lambda model: model.predict_interval(QUERIES, 0.8, "conformal"),
    "noise": lambda model: [model.noise_std(QUERIES)],
    "slopes": lambda model: model.predict(QUERIES, latent=True, return_gradient=True),
    "functions": lambda model: [model.sample_functions(3, random_state=0)(QUERIES)],
    "relevance": lambda model: [model.sobol_first_, model.feature_importances_],
    "evidence": lambda model: [model.evidence_per_row_],
}
OF_LABELS = "loo of labels", "relevance", "evidence"  # the questions to a classifier
OF_ROWS = "loo", "loo of labels", "conformal", "relevance"  # answered from training rows


def no_answer(question, door, kind, posterior):
    """What the answer to a question says that cannot be answered; None where it can be."""
    if (kind in CLASSES) != (question in OF_LABELS) and question not in OF_LABELS[1:]:
        return "has no attribute|unexpected keyword"
    if question == "noise" and kind in (*LIKELIHOODS, "offset"):
        return "or sample_y"
    if question in ("slopes", "functions") and posterior in ("rows", "larger mean"):
        return "Set posterior to|Set n_mean to None"
    if question in ("loo", "conformal") and posterior == "larger mean" and door not in LARGE:
        return "Set n_mean to None"
    if question == "loo of labels" and kind == "one_vs_one":
        return "Set it to 'one_vs_rest'"
    if question in OF_ROWS and door in LARGE:
        return "with arrays|Fit arrays"
    return "needs rows that came by fit" if (question, door) == ("conformal", "stream") else None


@pytest.mark.second(share=0.12)
@crossed(exists, door=DOORS, kind=KINDS, posterior=tuple(POSTERIORS), weighted=(False, True))
def test_every_question_has_the_same_answer(door, kind, posterior, weighted, through):
    if refusal(door, kind, posterior) is not None:
        return  # as the test above says
    columns, (enter, on_cluster) = rows(kind, weighted), through(door)
    arrays = in_arrays(estimator(kind, posterior), *columns)
    model = enter(estimator(kind, posterior, on_cluster), *columns)
    for question, ask in QUESTIONS.items():
        words = no_answer(question, door, kind, posterior)
        if words is not None:
            with pytest.raises((ValueError, AttributeError, TypeError), match=words):
                ask(model)
            continue
        for ours, theirs in zip(ask(model), ask(arrays)):
            atol = 100.0 * TOLERANCE * np.max(np.abs(theirs))  # differences of large numbers
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol, err_msg=question)

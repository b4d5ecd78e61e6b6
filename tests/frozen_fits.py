"""A frozen set of fits: every door, posterior, bound, likelihood and way of learning, by name.

The numbers in ``golden/frozen_fits.npz`` are those of commit e38b0a5, from which the parts of the
package were cut anew; ``test_frozen_fits.py`` compares with them. Every choice is named, so that
defaults may change. Fits that learn stop after a few iterations, before they amplify rounding:
``--robust`` says how far the numbers move when X and y are multiplied by 1 + 1e-13; it should be
less than 1e-9. ::

    python tests/frozen_fits.py --robust
    python tests/frozen_fits.py learned/exact                 # cases whose names begin so
    python tests/frozen_fits.py --write                       # a reason is due in the commit
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from chunked_arrays import Arrays
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import PEP
from skgp_sparse.likelihoods import NegativeBinomial
from skgp_sparse.posteriors import InducingPoints
from skgp_sparse.sources import Stream

STORE = Path(__file__).parent / "golden" / "frozen_fits.npz"
FACTOR = 1 + 1e-13  # of X and y, which no learned fit should amplify


# -- tables ----------------------------------------------------------------------------


class Table(NamedTuple):
    """Training rows, as `fit` takes them."""

    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None = None
    offset: np.ndarray | None = None

    def arguments(self):
        """The columns that are there, by name."""
        return {name: column for name, column in self._asdict().items() if column is not None}

    def rows(self, which):
        """Some of the rows."""
        return Table(**{name: column[which] for name, column in self.arguments().items()})

    def times(self, factor):
        """X multiplied by a number, and y if it is no count and no label."""
        y = self.y * factor if self.y.dtype.kind == "f" else self.y
        return self._replace(X=self.X * self.X.dtype.type(factor), y=y)


def numbers(n=200, d=2, *, targets=1, weights=False, seed=0):
    """A smooth function of the first columns, and noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, (n, d))
    F = np.sin(np.outer(X[:, 0], 1 + np.arange(targets))) * np.cos(X[:, [1]])
    Y = 5 + 2 * F + 0.4 * rng.normal(size=F.shape)
    weight = rng.randint(0, 4, n).astype(float) if weights else None
    return Table(X, Y[:, 0] if targets == 1 else Y, weight)


def responses(kind, n=200, d=2, *, weights=False, offsets=False, seed=1):
    """Targets of a likelihood."""
    rng = np.random.RandomState(seed)
    X, y, _, _ = numbers(n, d, seed=seed)
    offset = rng.uniform(-1, 1, n)
    latent = 0.5 * (y - 4) + (offset if offsets else 0)
    draw = {
        "poisson": lambda: rng.poisson(np.exp(latent)),
        "negative_binomial": lambda: rng.negative_binomial(3, 3 / (3 + np.exp(latent))),
        "gamma": lambda: rng.gamma(2.0, np.exp(latent) / 2),
        "student_t": lambda: latent + 0.2 * rng.standard_t(3, n),
    }
    weight = rng.randint(0, 3, n).astype(float) if weights else None
    return Table(X, draw[kind](), weight, offset if offsets else None)


def labels(n=200, classes=2, d=2, *, weights=False, seed=2):
    """Classes a, b, ... by the height of a smooth function with noise."""
    X, y, weight, _ = numbers(n, d, weights=weights, seed=seed)
    edges = np.quantile(y, np.arange(1, classes) / classes)
    return Table(X, np.array(list("abcdef"))[np.digitize(y, edges)], weight)


def large(make, *args, n=2100, d=500, dtype=np.float64, **options):
    """More than a million numbers in X, which is never sorted or copied."""
    table = make(*args, n=n, d=d, **options)
    return table._replace(X=table.X.astype(dtype))


# -- doors -----------------------------------------------------------------------------


@contextmanager
def arrays(model, table):
    """`fit` with arrays."""
    yield model.fit(**table.arguments())


@contextmanager
def memory_map(model, table):
    """`fit` with X on disk."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/X.npy", table.X)
        X = np.load(f"{folder}/X.npy", mmap_mode="r")
        yield model.fit(**table._replace(X=X).arguments())


@contextmanager
def source(model, table):
    """`fit` with a source that cuts arrays."""
    yield model.fit(Arrays(**table.arguments(), chunk_size=len(table.X) * 2 // 5))


@contextmanager
def stream(model, table):
    """`fit` with a source that starts an iterator."""
    yield model.fit(Stream(lambda: (tuple(part) for part in parts(table, 3))))


@contextmanager
def files(model, table):
    """`fit` with a source that reads files, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{number}.npz" for number in range(3)]
        for path, part in zip(paths, parts(table, 3)):
            np.savez(path, **part.arguments())
        names = list(table.arguments())
        chunks = lambda: (tuple(np.load(path)[name] for name in names) for path in paths)
        yield model.fit(Stream(chunks))


@contextmanager
def chunks(model, table):
    """`partial_fit` with one part after the other."""
    is_numbers = isinstance(model, SparseGPRegressor)
    first = {} if is_numbers else {"classes": np.unique(table.y)}
    yield learn(model, parts(table, 3), **first)


@contextmanager
def fit_and_chunks(model, table):
    """`fit` with the first part, and `partial_fit` with the others."""
    first, *others = parts(table, 3)
    yield learn(model.fit(**first.arguments()), others)


@contextmanager
def dask(model, table):
    """`fit` of the estimator on a cluster, with lazy arrays."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from skgp_sparse.dask import DaskSparseGPClassifier, DaskSparseGPRegressor

    regression = isinstance(model, SparseGPRegressor)
    on_cluster = DaskSparseGPRegressor if regression else DaskSparseGPClassifier
    size = len(table.X) // 3 + 1
    lazy = {
        name: da.from_array(column, chunks=(size, *column.shape[1:]))
        for name, column in table.arguments().items()
    }
    workers = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with LocalCluster(**workers, dashboard_address=None) as cluster, Client(cluster):
        yield on_cluster(**model.get_params(deep=False)).fit(**lazy)


def parts(table, number):
    """Consecutive rows of a table, of as many tables."""
    return [table.rows(some) for some in np.array_split(np.arange(len(table.X)), number)]


def learn(model, some, **first):
    for part in some:
        model, first = model.partial_fit(**part.arguments(), **first), {}
    return model


# -- choices ---------------------------------------------------------------------------


class Opaque(sk.RBF):
    """A kernel without a derivative rule."""


def few_steps(objective, theta, bounds):
    """An optimizer of a user: three steps of ascent."""
    for _ in range(3):
        gradient = -objective(theta)[1]
        theta = theta + 0.1 * gradient / np.linalg.norm(gradient)
    return theta, objective(theta)[0]


def even_rows(X, n_inducing, kernel, random_state):
    """An initialiser of a user."""
    return X[:: len(X) // n_inducing][:n_inducing]


SIGNAL = sk.ConstantKernel(1.5, (1e-2, 10)) * sk.Matern([1.3, 1.8], (0.3, 30), nu=2.5)
KERNEL = SIGNAL + sk.WhiteKernel(0.1)
LARGE_SIGNAL = sk.ConstantKernel(1.2) * sk.RBF(30.0)  # rows of 500 columns are about 39 apart
LARGE_KERNEL = LARGE_SIGNAL + sk.WhiteKernel(0.2)
Z = np.random.RandomState(9).uniform(-3, 3, (12, 2))
ALPHA = np.random.RandomState(8).uniform(0.05, 0.4, 200)
ROWS_ALPHA = np.linspace(1e-6, 0.05, 700)  # the least of it needs double precision
COMMON = {
    "bound": "titsias_new",
    "n_inducing": 12,
    "optimize_inducing": True,
    "n_restarts_optimizer": 0,
    "tol": 1e-3,
    "random_state": 0,
    "n_jobs": 1,
}
FIXED = COMMON | {"optimizer": None, "inducing_init": "random"}
LEARNED = COMMON | {
    "optimizer": "fmin_l_bfgs_b",
    "inducing_init": "k-means",
    "solver": "lbfgs",
    "max_iter": 5,
}
NUMBERS = {
    "likelihood": "gaussian",
    "posterior": "inducing",
    "alpha": None,
    "noise": "constant",
    "normalize_y": True,
}
LABELS = {"likelihood": "probit", "multi_class": "one_vs_rest", "max_iter_predict": 100}


def regressor(kernel=KERNEL, **choices):
    """With fixed hyperparameters."""
    return SparseGPRegressor(kernel, **FIXED | NUMBERS | choices)


def learned_regressor(kernel=KERNEL, **choices):
    return SparseGPRegressor(kernel, **LEARNED | NUMBERS | choices)


def classifier(kernel=SIGNAL, **choices):
    """With fixed hyperparameters."""
    return SparseGPClassifier(kernel, **FIXED | LABELS | choices)


def learned_classifier(kernel=SIGNAL, **choices):
    return SparseGPClassifier(kernel, **LEARNED | LABELS | choices)


# -- cases -----------------------------------------------------------------------------


class Case(NamedTuple):
    """A fit."""

    name: str
    model: object
    table: Callable  # () -> Table
    door: Callable = arrays  # (model, table) -> context of the fitted model
    rows_stay: bool = True  # so that the bound can be evaluated elsewhere
    evidence: bool = False  # whether `evidence_bounds` are asked for
    warm: bool = False  # whether the fit is repeated


MANY = partial(numbers, 700)
WEIGHTED = partial(numbers, weights=True)
TWO = partial(numbers, targets=2)
TWO_WEIGHTED = partial(numbers, targets=2, weights=True)
COUNTS = partial(responses, "poisson", offsets=True)
COUNTS_WEIGHTED = partial(responses, "poisson", weights=True, offsets=True)
LABELS_WEIGHTED = partial(labels, weights=True)
THREE = partial(labels, 150, classes=3)
THREE_WEIGHTED = partial(labels, 150, classes=3, weights=True)
POISSON = regressor(SIGNAL, likelihood="poisson")
LARGE_ALPHA = regressor(LARGE_KERNEL, alpha=np.linspace(0.01, 0.2, 2100))
STRATEGIES = ("one_vs_rest", "one_vs_one", "softmax")


def gaussian_cases():
    """Fixed hyperparameters, Gaussian noise."""
    for bound in ("titsias", "titsias_new", "artemev", "fitc", "pep", "dtc", PEP(0.3)):
        name = bound if isinstance(bound, str) else "PEP(0.3)"
        yield Case(f"bound/{name}", regressor(bound=bound), numbers)
    for init in ("k-means", "k-means++", "greedy", "rp-cholesky", Z, even_rows):
        name = init if isinstance(init, str) else getattr(init, "__name__", "array")
        yield Case(f"init/{name}", regressor(inducing_init=init), numbers)
    kernels = {
        "periodic": sk.DotProduct(0.5)
        + sk.ExpSineSquared(1.1, 4.7) * sk.RBF(2.0)
        + sk.WhiteKernel(0.1),
        "rational": sk.RationalQuadratic(1.2, 0.8) * sk.Matern(2.0, nu=1.5) + sk.WhiteKernel(0.1),
        "noise_of_a_row": SIGNAL
        + (sk.DotProduct(0.8) + sk.ConstantKernel(0.5)) * sk.WhiteKernel(0.1),
        "no_rule": sk.ConstantKernel(1.5) * Opaque(1.2) + sk.WhiteKernel(0.1),
    }
    for name, kernel in kernels.items():
        yield Case(f"kernel/{name}", regressor(kernel), numbers)


def posterior_cases():
    """The same, by what the posterior is given and by the columns of the table."""
    exact = regressor(n_inducing=300)
    yield Case("posterior/exact", exact, numbers)
    yield Case("posterior/exact_copies", clone(exact).set_params(alpha=0.3), TWO_WEIGHTED)
    rows = {"posterior": "rows", "bound": "auto", "tol": 1e-11}  # beyond single precision
    few, precise = regressor(**rows, n_inducing=60), rows | {"n_inducing": 500}
    yield Case("posterior/rows", few, MANY)
    yield Case("posterior/rows_weights", few, partial(TWO_WEIGHTED, 700))
    yield Case("posterior/rows_alpha", regressor(SIGNAL, **precise, alpha=ROWS_ALPHA), MANY)
    mean = regressor(posterior=InducingPoints(n_mean=60))
    yield Case("posterior/n_mean", mean, partial(numbers, 300))
    dtc = clone(mean).set_params(bound="dtc")
    yield Case("posterior/n_mean_dtc", dtc, partial(WEIGHTED, 300))
    yield Case("noise/alpha", regressor(SIGNAL, alpha=0.3), numbers)
    yield Case("noise/array", regressor(SIGNAL, alpha=ALPHA), numbers)
    three, fitc = partial(numbers, targets=3), regressor(alpha=ALPHA, bound="fitc")
    yield Case("noise/array_fitc_targets_weights", fitc, partial(three, weights=True))
    yield Case("rows/weights", regressor(), WEIGHTED)
    yield Case("rows/targets", regressor(), three, evidence=True)
    yield Case("rows/as_they_are", regressor(normalize_y=False), numbers)
    yield Case("rows/evidence", regressor(), partial(WEIGHTED, 400), evidence=True)


def likelihood_cases():
    """Fixed hyperparameters, other likelihoods."""

    def model(kind, **choices):
        return regressor(SIGNAL, likelihood=kind, **choices)

    for kind in ("poisson", "negative_binomial", "gamma", "student_t"):
        yield Case(f"likelihood/{kind}", model(kind), partial(responses, kind, offsets=True))
    for bound in ("titsias", "gfitc-ep", PEP(0.4)):
        name = bound if isinstance(bound, str) else "pep"
        yield Case(f"likelihood/poisson_{name}", model("poisson", bound=bound), COUNTS_WEIGHTED)
    yield Case("likelihood/gamma_pep", model("gamma", bound="pep"), partial(responses, "gamma"))
    fixed = model(NegativeBinomial(size=4.0, size_bounds="fixed"))
    yield Case("likelihood/fixed_size", fixed, partial(responses, "negative_binomial"))
    as_they_are = model("student_t", bound="titsias", normalize_y=False)
    outliers = partial(responses, "student_t", weights=True)
    yield Case("likelihood/student_t_as_they_are", as_they_are, outliers)
    exact, few = model("poisson", n_inducing=300), partial(COUNTS_WEIGHTED, n=100)
    yield Case("likelihood/poisson_exact", exact, few)


def learned_cases():
    """Hyperparameters and inducing points that are learned."""
    model, steps = learned_regressor, {"optimizer": few_steps}
    for bound in ("titsias", "titsias_new", "fitc"):
        yield Case(f"learned/{bound}", model(bound=bound), numbers)
    yield Case("learned/no_kernel", model(None), numbers)
    yield Case("learned/exact", model(n_inducing=300), numbers)
    yield Case("learned/exact_of_many", model(n_inducing=1200), partial(numbers, 1100))
    rows = {"posterior": "rows", "bound": "auto", "n_inducing": 400, "tol": 1e-10, "max_iter": 100}
    yield Case("learned/rows", model(**rows), MANY)
    yield Case("learned/rows_callable", model(**rows | steps), partial(TWO, 700))
    yield Case("learned/n_mean", model(posterior=InducingPoints(n_mean=60)), partial(numbers, 300))
    yield Case("learned/alpha_targets_weights", model(alpha=ALPHA), TWO_WEIGHTED)
    yield Case("learned/fixed_inducing", model(optimize_inducing=False), numbers)
    yield Case("learned/inducing_array", model(inducing_init=Z), numbers)
    yield Case("learned/restarts", model(n_restarts_optimizer=2), numbers)
    yield Case("learned/callable", model(**steps), numbers)
    yield Case("learned/callable_exact", model(**steps, n_inducing=300), numbers)


def learned_likelihood_cases():
    """The same with other likelihoods, whose parameters are learned, too."""

    def model(kind, kernel=SIGNAL, **choices):
        return learned_regressor(kernel, likelihood=kind, **choices)

    for kind in ("poisson", "negative_binomial", "gamma", "student_t"):
        table = partial(responses, kind, weights=True, offsets=True)
        yield Case(f"learned/{kind}", model(kind), table)
    yield Case("learned/poisson_ep", model("poisson", bound="gfitc-ep", max_iter=2), COUNTS)
    no_kernel = model("poisson", None, max_iter=3)
    yield Case("learned/poisson_no_kernel", no_kernel, partial(responses, "poisson"))
    yield Case("learned/poisson_callable", model("poisson", optimizer=few_steps), COUNTS)


def stochastic_cases():
    """Training on parts of the rows."""
    few, many = {"n_inducing": 4, "max_iter": 2}, partial(labels, 700)
    samples = few | {"solver": "stochastic"}
    yield Case("stochastic/samples", learned_regressor(**samples), MANY)
    weighted = partial(TWO_WEIGHTED, 700)
    yield Case("stochastic/samples_weights", learned_regressor(**samples), weighted)
    counts = learned_regressor(SIGNAL, likelihood="poisson", **samples)
    yield Case("stochastic/samples_poisson", counts, partial(COUNTS, n=700))
    yield Case("stochastic/samples_labels", learned_classifier(**samples), many)


def classifier_cases():
    for bound in ("titsias", "titsias_new", "gfitc-ep", "pep"):
        yield Case(f"binary/{bound}", classifier(bound=bound), labels)
    logit = classifier(likelihood="logit", bound=PEP(0.3))
    yield Case("binary/logit", logit, LABELS_WEIGHTED)
    yield Case("binary/exact", classifier(n_inducing=300), partial(labels, 100))
    for multi_class in STRATEGIES:
        yield Case(f"classes/{multi_class}", classifier(multi_class=multi_class), THREE_WEIGHTED)
        few = learned_classifier(multi_class=multi_class, n_inducing=6, max_iter=3)
        yield Case(f"classes/{multi_class}_learned", few, THREE_WEIGHTED)
    softmax = classifier(multi_class="softmax", n_inducing=300)
    yield Case("classes/softmax_exact", softmax, partial(labels, 60, classes=3))
    no_kernel = learned_classifier(None, likelihood="logit", bound="gfitc-ep")
    warm = learned_classifier(warm_start=True)
    yield Case("binary/learned", learned_classifier(), labels)
    yield Case("binary/learned_no_kernel", no_kernel, labels)
    yield Case("binary/learned_exact", learned_classifier(n_inducing=300), partial(labels, 100))
    yield Case("binary/callable", learned_classifier(optimizer=few_steps), labels)
    yield Case("binary/warm", warm, labels, warm=True)
    yield Case("classes/warm", clone(warm).set_params(n_inducing=6, max_iter=2), THREE, warm=True)


def source_cases():
    """Chunks and files; memory maps; tables that stay where they are."""
    softmax = classifier(multi_class="softmax")
    yield Case("source/small", regressor(), WEIGHTED, source)
    yield Case("source/small_learned", learned_regressor(), TWO, stream)
    yield Case("source/small_poisson", POISSON, COUNTS_WEIGHTED, files)
    yield Case("source/small_classes", softmax, THREE_WEIGHTED, files)
    yield Case("memory_map/small", regressor(), numbers, memory_map)
    fixed, single = regressor(LARGE_KERNEL), partial(large, TWO, dtype=np.float32)
    alpha = regressor(LARGE_SIGNAL, alpha=0.3, normalize_y=False)
    steps = learned_regressor(LARGE_KERNEL, optimizer=few_steps)
    few = learned_regressor(LARGE_KERNEL, n_inducing=6, max_iter=2)
    counts = regressor(LARGE_SIGNAL, likelihood="poisson")
    two, three = classifier(LARGE_SIGNAL), classifier(LARGE_SIGNAL, multi_class="softmax")
    yield Case("arrays/large", fixed, partial(large, WEIGHTED))
    yield Case("arrays/large_alpha", LARGE_ALPHA, partial(large, numbers))
    yield Case("memory_map/large", fixed, single, memory_map)
    yield Case("source/large", fixed, partial(large, TWO_WEIGHTED), source)
    yield Case("source/large_alpha", alpha, partial(large, numbers), stream)
    yield Case("source/large_callable", steps, partial(large, numbers), source)
    yield Case("source/large_learned", few, partial(large, numbers, n=26_000, d=40), source)
    yield Case("source/large_poisson", counts, partial(large, COUNTS_WEIGHTED), source)
    yield Case("source/large_binary", two, partial(large, LABELS_WEIGHTED), source)
    yield Case("source/large_softmax", three, partial(large, labels, classes=3), stream)


def partial_fit_cases():
    fitc = regressor(SIGNAL, alpha=0.3, inducing_init=Z, bound="fitc")
    outliers = regressor(SIGNAL, likelihood="student_t", inducing_init=Z)
    few = {"max_iter": 3}
    counts = learned_regressor(SIGNAL, likelihood="poisson", **few)
    yield Case("chunks/fixed", regressor(), WEIGHTED, chunks)
    yield Case("chunks/fixed_targets", fitc, TWO, chunks)
    yield Case("chunks/fixed_exact", regressor(n_inducing=300), partial(numbers, 100), chunks)
    yield Case("chunks/fixed_poisson", POISSON, COUNTS_WEIGHTED, chunks)
    yield Case("chunks/fixed_student_t", outliers, partial(responses, "student_t"), chunks)
    yield Case("chunks/after_fit", regressor(), numbers, fit_and_chunks)
    yield Case("chunks/after_fit_binary", classifier(), labels, fit_and_chunks)
    yield Case("chunks/learned", learned_regressor(**few), numbers, chunks)
    no_kernel = learned_regressor(None, **few)
    yield Case("chunks/learned_after_fit", no_kernel, WEIGHTED, fit_and_chunks)
    yield Case("chunks/learned_poisson", counts, COUNTS, chunks)
    yield Case("chunks/learned_binary", learned_classifier(**few), labels, chunks)
    for multi_class in STRATEGIES:
        fixed = classifier(multi_class=multi_class)
        yield Case(f"chunks/fixed_{multi_class}", fixed, THREE_WEIGHTED, chunks)
    for multi_class in ("one_vs_one", "softmax"):
        learned = learned_classifier(multi_class=multi_class, n_inducing=6, max_iter=2)
        yield Case(f"chunks/learned_{multi_class}", learned, THREE, chunks)


def dask_cases():
    pairs = classifier(multi_class="one_vs_one")
    gamma = regressor(LARGE_SIGNAL, likelihood="gamma")
    yield Case("dask/small", regressor(), TWO_WEIGHTED, dask)
    yield Case("dask/small_learned", learned_regressor(), numbers, dask)
    yield Case("dask/small_poisson", POISSON, COUNTS, dask)
    yield Case("dask/small_one_vs_one", pairs, THREE, dask)
    for name, model, table in (
        ("dask/large", LARGE_ALPHA, WEIGHTED),
        ("dask/large_gamma", gamma, partial(responses, "gamma", offsets=True)),
        ("dask/large_binary", classifier(LARGE_SIGNAL), labels),
    ):
        yield Case(name, model, partial(large, table), dask, rows_stay=False)


@cache
def cases():
    """{name: Case}."""
    groups = [group for name, group in globals().items() if name.endswith("_cases")]
    return {case.name: case for group in groups for case in group()}


# -- what a fit answers ----------------------------------------------------------------


def answers(name, factor=1.0):
    """{what: array} of one fit, of its rows times a number close to 1."""
    case = cases()[name]
    table, model = case.table().times(factor), clone(case.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with case.door(model, table) as fitted:
            if case.warm:
                fitted.fit(**table.arguments())
            return {key: np.asarray(value) for key, value in asked(case, fitted, table)}


def asked(case, fitted, table):
    """Pairs of a name and numbers."""
    yield "value", fitted.log_marginal_likelihood_value_
    yield "theta", fitted.kernel_.theta
    yield "inducing_points", np.vstack(fitted.inducing_points_)[:, :5]
    if case.rows_stay:
        theta = fitted.kernel_.theta
        theta = theta + 0.1 * np.linspace(-1, 1, len(theta))
        found = fitted.log_marginal_likelihood(theta, eval_gradient=True)
        yield from zip(("value_elsewhere", "gradient_elsewhere"), found)
    queries = np.random.RandomState(7).uniform(-3.5, 3.5, (6, table.X.shape[1]))
    told = numbers_told if isinstance(fitted, SparseGPRegressor) else labels_told
    yield from told(fitted, queries, table)
    if case.evidence:
        found = fitted.evidence_bounds()
        yield "evidence", np.array([found.own, found.upper])


def numbers_told(fitted, queries, table):
    offset = {} if table.offset is None else {"offset": np.linspace(-0.5, 0.5, len(queries))}
    targets = np.array(table.y[: len(queries)])
    yield "mean", fitted.predict(queries, **offset)
    yield "std", fitted.predict(queries, return_std=True, **offset)[1]
    yield "latent_std", fitted.predict(queries, return_std=True, latent=True, **offset)[1]
    yield "latent_cov", fitted.predict(queries, return_cov=True, latent=True, **offset)[1]
    yield "density", fitted.log_predictive_density(queries, targets, **offset)
    yield "samples", fitted.sample_y(queries, 2, random_state=3, latent=True, **offset)
    if fitted.likelihood_ is not None:
        pairs = sorted(fitted.likelihood_.get_params().items())
        yield "likelihood", [value for _, value in pairs if isinstance(value, float)]
    if table.y.dtype.kind == "f":  # those of counts jump
        yield "quantiles", fitted.predict_quantiles(queries, [0.1, 0.6], **offset)


def labels_told(fitted, queries, table):
    yield "probability", fitted.predict_proba(queries)
    if fitted.n_classes_ == 2 or fitted.multi_class == "softmax":
        mean, variance = fitted.latent_mean_and_variance(queries)
        yield "latent_mean", mean
        yield "latent_variance", variance


def distance(actual, expected):
    """Largest difference, relative to the largest entry where that is above 1."""
    if np.shape(actual) != np.shape(expected) or not np.isfinite(actual).all():
        return np.inf
    scale = max(1.0, np.max(np.abs(expected), initial=0.0))
    return np.max(np.abs(actual - expected), initial=0.0) / scale


def furthest(actual, expected):
    """The largest distance of two answers, and what is so far."""
    if set(actual) != set(expected):
        return np.inf, f"the names {sorted(set(actual) ^ set(expected))}"
    return max((distance(actual[key], expected[key]), key) for key in expected)


# -- the stored numbers ----------------------------------------------------------------


@cache
def stored():
    """{name: {what: array}} of the file."""
    found = {}
    with np.load(STORE) as file:
        for key in file.files:
            name, what = key.rsplit("/", 1)
            found.setdefault(name, {})[what] = file[key]
    return found


def write(names):
    """Store the answers of some fits anew."""
    known = stored() if STORE.exists() else {}
    known = {name: known[name] for name in cases() if name in known}
    found = known | {name: answers(name) for name in names}
    flat = {f"{name}/{key}": value for name, told in found.items() for key, value in told.items()}
    np.savez_compressed(STORE, **flat)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[""], help="beginnings of names")
    parser.add_argument("--write", action="store_true", help="store what this version answers")
    parser.add_argument("--robust", action="store_true", help="beside rows times 1 + 1e-13")
    args = parser.parse_args()
    names = [name for name in cases() if name.startswith(tuple(args.names))]
    if args.write:
        return write(names)
    for name in names:
        found = answers(name)
        other = answers(name, FACTOR) if args.robust else stored().get(name, {})
        far, key = furthest(found, other)
        print(f"{name:40} {far:.1e} {key}", flush=True)


if __name__ == "__main__":
    main()

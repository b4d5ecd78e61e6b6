"""Counts, heavy tails and several classes: the likelihoods beside other methods.

Parts, each of which can be run alone (`--parts`):

- `rentals`: hourly bicycle rentals (17,379 rows), ten per cent held out.
- `outliers`: two tables, with and without 5 % of the training targets shifted by 20 standard
  deviations.
- `classes`: softmax beside one-vs-rest, one-vs-one and scikit-learn's exact classifier.
- `mnist`: softmax with 100 inducing points beside one-vs-rest, and GPflow for the same time.
- `coverage`: how many new targets of simulated tables are between two quantiles.
- `cost`: one evaluation by likelihood, beside a probit one. ::

    python likelihoods.py --data DIR --peers-python PYTHON
    python likelihoods.py --data DIR --parts rentals outliers
    python likelihoods.py --render

Each result is one entry of results/likelihoods.json; entries that are there are not computed again,
unless with `--again`.
"""

import argparse
import resource
import time
import warnings
from functools import partial
from pathlib import Path

import common
import numpy as np
import ours
from scipy.special import gammaln
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

STORE = common.RESULTS / "likelihoods.json"
OUTLIERS, SHIFT = 0.05, 20.0
WAYS = ("softmax", "one_vs_rest", "one_vs_one", "GaussianProcessClassifier")
TABLES = ("iris", "wine", "digits", "usps")
MOST_EXACT = 1500  # rows of scikit-learn's exact classifier
COST = {"n": 10_000, "d": 4, "m": 200}
REPEATS = 7


def tenth(n):
    """Mask of a random tenth of the rows."""
    test = np.zeros(n, dtype=bool)
    test[np.random.RandomState(0).permutation(n)[: round(0.1 * n)]] = True
    return test


def mean_of(found, name):
    values = [one[name] for one in found if one is not None]
    return [float(np.mean(values)), float(np.std(values))] if values else [None, None]


# -- rentals ---------------------------------------------------------------------------


def rentals(args):
    X, y = common.load(args.data, "bikeshare_counts")
    test = tenth(len(y))
    data = X[~test], y[~test], X[test], y[test]
    for name in ("poisson", "negative_binomial", "gaussian"):
        common.once(STORE, f"rentals/{name}", lambda n=name: rental(data, n), args.again)
    common.once(STORE, "rentals/PoissonRegressor", lambda: rental_linear(data), args.again)
    common.once(STORE, "rentals/HistGradientBoosting", lambda: rental_trees(data), args.again)
    if args.peers_python:
        limit = common.read_json(STORE)["rentals/poisson"]["seconds"]
        common.once(STORE, "rentals/GPflow", lambda: rental_gpflow(args, data, limit), args.again)


def rental(data, likelihood):
    X, y, X_test, y_test = data
    model = ours.regressor(bound="titsias_new", likelihood=likelihood, random_state=0)
    seconds = common.seconds_of(lambda: model.fit(X, y))
    mean, density = model.predict(X_test), model.log_predictive_density(X_test, y_test)
    return scores(y_test, mean, float(np.mean(density)), seconds)


def scores(y, mean, density, seconds):
    deviance = mean_poisson_deviance(y, np.maximum(mean, 1e-3))
    return {"deviance": float(deviance), "density": density, "seconds": seconds}


def poisson_density(y, mean):
    return float(np.mean(y * np.log(mean) - mean - gammaln(y + 1.0)))


def rental_linear(data):
    X, y, X_test, y_test = data
    model = make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-4, max_iter=1000))
    seconds = common.seconds_of(lambda: model.fit(X, y))
    mean = model.predict(X_test)
    return scores(y_test, mean, poisson_density(y_test, mean), seconds)


def rental_trees(data):
    X, y, X_test, y_test = data
    model = HistGradientBoostingRegressor(loss="poisson", random_state=0)
    seconds = common.seconds_of(lambda: model.fit(X, y))
    mean = model.predict(X_test)
    return scores(y_test, mean, poisson_density(y_test, mean), seconds)


def rental_gpflow(args, data, limit):
    X, y, X_test, y_test = data
    X, X_test = common.standardise(X, X_test)
    extra = {"X_test": X_test, "y_test": y_test, "gpflow_kernel": "Matern52"}
    model = common.problem(X, y, common.kmeans_centres(X, 200), 1.0, 2.0, **extra)
    options = {"limit": limit, "batch": 200, "rate": 0.01, "gamma": 0.1}
    found = common.run_peer(args.peers_python, "gpflow-poisson", model, **options)
    mean = np.array(found["mean"])
    return scores(y_test, mean, found["density"], found["seconds"])


def rentals_table(entries):
    rows = [
        [key.split("/")[1], entry["deviance"], entry["density"], entry["seconds"]]
        for key, entry in entries.items()
        if key.startswith("rentals/")
    ]
    header = ["model", "mean Poisson deviance", "log density", "seconds"]
    return "## Hourly rentals (17,379 rows)", common.table(header, rows)


# -- outliers --------------------------------------------------------------------------


def outliers(args):
    for name in ("housing", "concrete"):
        for split in range(3):
            X, y, X_test, y_test = common.load(args.data, name, split)
            rng = np.random.RandomState(split)
            hit = rng.permutation(len(y))[: round(OUTLIERS * len(y))]
            shifted = y.copy()
            shifted[hit] += SHIFT * y.std() * rng.choice([-1.0, 1.0], len(hit))
            for likelihood in ("gaussian", "student_t"):
                for what, target in (("clean", y), ("shifted", shifted)):
                    key = f"outliers/{name}/{likelihood}/{what}/{split}"
                    run = partial(robust, X, target, X_test, y_test, likelihood)
                    common.once(STORE, key, run, args.again)


def robust(X, y, X_test, y_test, likelihood):
    model = ours.regressor(bound="titsias_new", likelihood=likelihood, random_state=0)
    seconds = common.seconds_of(lambda: model.fit(X, y))
    density = float(np.mean(model.log_predictive_density(X_test, y_test)))
    error = common.rmse(y_test, model.predict(X_test))
    return {"rmse": error, "density": density, "seconds": seconds}


def outliers_table(entries):
    rows = []
    for name in ("housing", "concrete"):
        for likelihood in ("gaussian", "student_t"):
            row = [f"{name}, {likelihood}"]
            for what in ("clean", "shifted"):
                prefix = f"outliers/{name}/{likelihood}/{what}"
                found = [entries.get(f"{prefix}/{split}") for split in range(3)]
                row += [mean_of(found, part)[0] for part in ("rmse", "density", "seconds")]
            rows.append(row)
    header = ["table", "RMSE clean", "density", "seconds", "RMSE shifted", "density", "seconds"]
    return "## Five per cent of the targets shifted by 20 standard deviations", common.table(
        header, rows
    )


# -- several classes -------------------------------------------------------------------


def class_data(args, name):
    """X, y and the masks of test rows of each split."""
    loaders = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
    if name in loaders:
        X, y = loaders[name](return_X_y=True)
        masks = None
    else:
        X, y, masks = common.labelled(args.data, name)
    if masks is not None:
        return X, y, list(masks.T)[:1]
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    folds = folds[:2] if len(y) > 1000 else folds
    return X, y, [np.isin(np.arange(len(y)), test) for _, test in folds]


def classes(args):
    for name in args.tables:
        X, y, masks = class_data(args, name)
        for split, test in enumerate(masks):
            for way in WAYS:
                if way.startswith("Gaussian") and np.count_nonzero(~test) > MOST_EXACT:
                    continue
                key = f"classes/{name}/{way}/{split}"
                common.once(STORE, key, partial(classify, X, y, test, way), args.again)


def classify(X, y, test, way):
    if way == "GaussianProcessClassifier":
        model = make_pipeline(StandardScaler(), GaussianProcessClassifier(random_state=0))
    else:
        model = ours.default_classifier().set_params(multi_class=way)
    seconds = common.seconds_of(lambda: model.fit(X[~test], y[~test]))
    p = model.predict_proba(X[test])
    error = float(np.mean(np.argmax(p, axis=1) != y[test]))
    return {"log loss": common.nlpd(y[test], p), "error": error, "seconds": seconds}


def classes_table(entries):
    rows = []
    for name in TABLES:
        for way in WAYS:
            found = [e for k, e in entries.items() if k.startswith(f"classes/{name}/{way}/")]
            if found:
                parts = ("log loss", "error", "seconds")
                rows.append([name, way, len(found), *(mean_of(found, p)[0] for p in parts)])
    header = ["table", "method", "splits", "log loss", "error", "seconds"]
    return "## Several classes", common.table(header, rows)


# -- MNIST -----------------------------------------------------------------------------


def mnist_data(args):
    with np.load(Path(args.data) / "mnist.npz") as f:
        X, y = f["X"].astype(np.float32) / 255.0, f["y"].astype(int)
        test = f["test_masks"][:, 0] if "test_masks" in f.files else np.arange(len(y)) >= 60_000
    return X[~test], y[~test], X[test], y[test]


def mnist(args):
    data = mnist_data(args)
    for way in ("softmax", "one_vs_rest"):
        common.once(STORE, f"mnist/{way}", lambda w=way: mnist_fit(data, w), args.again)
    if args.peers_python:
        limit = common.read_json(STORE)["mnist/softmax"]["seconds"]
        common.once(STORE, "mnist/GPflow", lambda: mnist_gpflow(args, data, limit), args.again)


def mnist_fit(data, way):
    X, y, X_test, y_test = data
    model = ours.default_classifier().set_params(
        kernel=ours.shared_matern(X), multi_class=way, n_inducing=100
    )
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    p = model.predict_proba(X_test)
    error = float(np.mean(np.argmax(p, axis=1) != y_test))
    found = {"log loss": common.nlpd(y_test, p), "error": error, "seconds": seconds}
    found["iterations"] = int(model.n_iter_)
    if way == "softmax":  # the first fit of the process, whose peak the others inherit
        found["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def mnist_gpflow(args, data, limit):
    X, y, X_test, y_test = data
    extra = {"X_test": X_test.astype(float), "y_test": y_test, "gpflow_kernel": "Matern52"}
    few = np.random.RandomState(0).permutation(len(X))[:10_000]
    Z = common.kmeans_centres(X[few].astype(float), 100)
    model = common.problem(X.astype(float), y, Z, 1.0, 10.0, **extra)
    model["lengthscales"] = np.float64(10.0)
    options = {"limit": limit, "batch": 200, "rate": 0.01, "gamma": 0.02}  # 0.1 fails at once
    found = common.run_peer(args.peers_python, "gpflow-softmax", model, **options)
    p = np.array(found["probability"])
    error = float(np.mean(np.argmax(p, axis=1) != y_test))
    seconds = found["seconds"]
    return {"log loss": common.nlpd(y_test, p), "error": error, "seconds": seconds}


def mnist_table(entries):
    rows = []
    for key, entry in entries.items():
        if key.startswith("mnist/"):
            parts = ("log loss", "error", "seconds", "iterations", "peak MB")
            rows.append([key.split("/")[1], *(entry.get(part) for part in parts)])
    header = ["method", "log loss", "error", "seconds", "iterations", "peak MB"]
    return "## MNIST, 60,000 rows, 100 inducing points", common.table(header, rows)


# -- coverage --------------------------------------------------------------------------


def coverage(args):
    for name in ("poisson", "negative_binomial", "gamma", "student_t"):
        for split in range(3):
            key = f"coverage/{name}/{split}"
            common.once(STORE, key, partial(covered, name, split), args.again)


def covered(name, seed):
    """Share of 5,000 new targets between the quantiles 0.05 and 0.95, after 400 rows."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, (5400, 2))
    f = 1.0 + np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
    y = {
        "poisson": lambda: rng.poisson(np.exp(f)),
        "negative_binomial": lambda: rng.negative_binomial(3, 3 / (3 + np.exp(f))),
        "gamma": lambda: np.exp(f) * rng.gamma(2.0, 0.5, len(f)),
        "student_t": lambda: f + 0.2 * rng.standard_t(3, len(f)),
    }[name]().astype(float)
    model = ours.regressor(bound="titsias_new", likelihood=name, random_state=0)
    low, high = model.fit(X[:400], y[:400]).predict_quantiles(X[400:], [0.05, 0.95]).T
    return {"covered": float(np.mean((low <= y[400:]) & (y[400:] <= high)))}


def coverage_table(entries):
    names = dict.fromkeys(key.split("/")[1] for key in entries if key.startswith("coverage/"))
    rows = [
        [name, *mean_of([entries[f"coverage/{name}/{split}"] for split in range(3)], "covered")]
        for name in names
    ]
    title = "## Coverage of intervals between the quantiles 0.05 and 0.95"
    return title, common.table(["likelihood", "covered", "± (three tables)"], rows)


# -- cost ------------------------------------------------------------------------------


def cost(args):
    common.once(STORE, "cost", measure_cost, args.again)


def measure_cost():
    """Seconds of one value and gradient, from sites at their optimum: warm, as within a fit."""
    evaluations = ours.likelihood_evaluations(**COST)
    found = {name: [] for name in evaluations}
    for _ in range(REPEATS):
        for name, evaluate in evaluations.items():
            found[name].append(common.seconds_of(evaluate))
    ratios = {name: common.median_ratio(times, found["probit"]) for name, times in found.items()}
    seconds = {name: float(np.median(times)) for name, times in found.items()}
    return {"seconds": seconds, "ratios": ratios}


def cost_table(entries):
    entry = entries.get("cost")
    if entry is None:
        return "## Cost of an evaluation", "Not measured."
    rows = [[name, s, entry["ratios"][name]] for name, s in entry["seconds"].items()]
    size = ", ".join(f"{name} = {number:,}" for name, number in COST.items())
    header = ["likelihood", "seconds", "/ probit"]
    return f"## Cost of an evaluation ({size})", common.table(header, rows)


PARTS = {
    "rentals": (rentals, rentals_table),
    "outliers": (outliers, outliers_table),
    "classes": (classes, classes_table),
    "mnist": (mnist, mnist_table),
    "coverage": (coverage, coverage_table),
    "cost": (cost, cost_table),
}


def render():
    entries = common.read_json(STORE)
    parts = [part for _, table in PARTS.values() for part in table(entries)]
    commits = [f"{name} {entries[key]}" for name in PARTS if (key := f"commit/{name}") in entries]
    common.write_report("likelihoods.md", "Likelihoods", f"Commits: {', '.join(commits)}.", *parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    common.add_peers(parser)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    warnings.simplefilter("ignore")  # hyperparameters at a bound are no news here
    if not args.render:
        for part in args.parts:
            PARTS[part][0](args)
            common.store(STORE, f"commit/{part}", common.commit(common.HERE.parents[1]))
    render()


if __name__ == "__main__":
    main()

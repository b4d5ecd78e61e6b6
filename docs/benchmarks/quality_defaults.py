"""`SparseGPRegressor()` untouched on twelve regression sets, beside three others.

- ours: `SparseGPRegressor().fit(X, y)` on raw inputs and targets;
- exact: scikit-learn's `GaussianProcessRegressor(kernel, normalize_y=True)`, with the
  kernel, noise included, from which our default starts, on raw inputs; left out above
  `--exact-max-n` rows, where it takes too long;
- GPflow: SGPR with the same kind of kernel and as many inducing points as ours used, on
  standardised data, k-means centres, everything else 1, at most `--iterations` steps of L-BFGS;
- boosting: `HistGradientBoostingRegressor()`, which gives no density.

Scores on the test part of a split, in units of the standard deviation of the training
targets: root mean squared error (smaller is better) and mean log predictive density,
noise included (larger is better). ::

    python quality_defaults.py --data DIR --peers-python PATH
    python quality_defaults.py --data DIR --datasets yacht energy --methods ours exact
    python quality_defaults.py --render                       # the tables alone

Each (data set, split, method) is one entry of results/defaults.json; entries that are
there already are not computed again, unless with `--again`.
"""

import argparse
import warnings
from functools import partial
from itertools import product

import common
import numpy as np
import ours
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor

STORE = common.RESULTS / "defaults.json"
SMALL = ("yacht", "autompg", "housing", "stock", "energy", "concrete", "airfoil", "wine")
DATASETS = (*SMALL, "skillcraft", "parkinsons", "elevators", "kin40k")


def scores(y, y_test, mean, std=None):
    """Errors and densities in units of the standard deviation of `y`."""
    unit = np.std(y)
    found = {"rmse": common.rmse(y_test, mean) / unit}
    if std is not None:
        found["log_density"] = common.log_density(y_test / unit, mean / unit, std / unit)
    return found


# -- the methods: (args, key of the split, data) -> scores -----------------------------


def fit_ours(args, name, split, data):
    X, y, X_test, y_test = data
    model = ours.default_regressor().fit(X, y)
    found = scores(y, y_test, *ours.observed(model, X_test))
    return found | {"n_inducing": ours.n_inducing(model), "kernel": str(model.kernel_)}


def fit_exact(args, name, split, data):
    X, y, X_test, y_test = data
    if len(X) > args.exact_max_n:
        return None
    kernel = ours.initial_kernel(X, y)
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    found = scores(y, y_test, *model.predict(X_test, return_std=True))
    return found | {"kernel": str(model.kernel_)}


def fit_gpflow(args, name, split, data):
    X, y, X_test, y_test = data
    m = common.read_json(STORE).get(f"{name}/{split}/ours", {}).get("n_inducing")
    if m is None or not args.peers_python:
        return None
    X, X_test = common.standardise(X, X_test)
    y, y_test = common.standardise(y, y_test)
    Z = common.kmeans_centres(X, min(m, len(np.unique(X, axis=0))))
    model = common.problem(X, y, Z, X_test=X_test, gpflow_kernel="Matern52")
    result = common.run_peer(
        args.peers_python, "gpflow-fit-predict", model, iterations=args.iterations
    )
    found = scores(y, y_test, np.array(result["mean"]), np.array(result["std"]))
    return found | {key: result[key] for key in ("bound", "iterations", "versions")}


def fit_boosting(args, name, split, data):
    X, y, X_test, y_test = data
    model = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    return scores(y, y_test, model.predict(X_test))


METHODS = {
    "ours": fit_ours,
    "exact": fit_exact,
    "GPflow": fit_gpflow,
    "boosting": fit_boosting,
}


def run(args):
    done = common.read_json(STORE)
    for name, split, method in product(args.datasets, args.splits, args.methods):
        key = f"{name}/{split}/{method}"
        if args.again or key not in done:
            run_one(args, name, split, method, key)


def run_one(args, name, split, method, key):
    data = common.load(args.data, name, split)
    entry = {}
    seconds = common.seconds_of(
        lambda: entry.update(METHODS[method](args, name, split, data) or {})
    )
    if entry:
        entry |= {"seconds": round(seconds, 2), "n": len(data[0]), "d": data[0].shape[1]}
        common.store(STORE, key, entry)
    common.progress(key, entry.get("rmse"), entry.get("log_density"), round(seconds, 1), "s")


# -- the tables ------------------------------------------------------------------------


def splits_of(entries, name, method):
    """Splits that were run."""
    return {key.split("/")[1] for key in entries if key.split("/")[::2] == [name, method]}


def shared_splits(entries, name):
    """Splits that every method which was run on the data set was run on."""
    every = [splits_of(entries, name, method) for method in METHODS]
    ran = [splits for splits in every if splits]
    return set.intersection(*ran) if ran else set()


def values_of(entries, name, method, what, splits):
    found = [entries.get(f"{name}/{split}/{method}", {}) for split in sorted(splits)]
    return [entry[what] for entry in found if what in entry]


def average(entries, name, method, what, splits):
    """Mean over some splits; None where there is none."""
    found = values_of(entries, name, method, what, splits)
    return float(np.mean(found)) if found else None


def method_table(entries, what, methods):
    rows = []
    for name in DATASETS:
        splits = shared_splits(entries, name)
        mean = partial(average, entries, name, splits=splits)
        if splits:
            sizes = [round(mean("ours", key)) for key in ("n", "d", "n_inducing")]
            values = [mean(method, what) for method in methods]
            rows.append([name, *sizes, len(splits), *values])
    return common.table(["data set", "n", "d", "m", "splits", *methods], rows)


def table_of_ours(entries):
    """All splits of ours: means, and the standard error of the density."""
    rows = []
    for name in DATASETS:
        splits = splits_of(entries, name, "ours")
        if splits:
            whats = ("rmse", "log_density", "seconds")
            means = [average(entries, name, "ours", what, splits) for what in whats]
            density = values_of(entries, name, "ours", "log_density", splits)
            error = np.std(density, ddof=1) / np.sqrt(len(density)) if len(density) > 1 else None
            rows.append([name, len(splits), *means[:2], error, means[2]])
    heads = ["data set", "splits", "RMSE", "log density", "standard error", "seconds"]
    return common.table(heads, rows)


def render():
    entries = common.read_json(STORE)
    probabilistic = [method for method in METHODS if method != "boosting"]
    parts = [
        "Scores are in units of the standard deviation of the training targets; n is the training "
        "part. The tables beside other methods are means over the splits on which all of them were "
        "run; only ours was run on more.",
        "## Ours, all splits",
        table_of_ours(entries),
        "## Root mean squared error (smaller is better)",
        method_table(entries, "rmse", list(METHODS)),
        "## Mean log predictive density (larger is better)",
        method_table(entries, "log_density", probabilistic),
        "## Seconds of fit and prediction",
        "The other methods were timed on another machine, with two cores.",
        method_table(entries, "seconds", list(METHODS)),
    ]
    common.write_report("defaults.md", "Quality of the defaults", *parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    common.add_peers(parser)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0])
    parser.add_argument("--exact-max-n", type=int, default=5000)
    parser.add_argument("--iterations", type=int, default=500, help="of GPflow")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    return args


def main():
    args = parse()
    warnings.simplefilter("ignore")  # hyperparameters at a bound are no news here
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()

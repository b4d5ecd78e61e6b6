"""A quick look: default fits beside two of scikit-learn on six tables, in under five minutes.

Methods are `SparseGPRegressor(random_state=0)`, `HistGradientBoostingRegressor(random_state=0)`,
whose densities are normal with one variance (see `peers.boosted`), and
`GaussianProcessRegressor` with the kernel from which the default fit starts, noise included, on at
most `--exact-max-n` rows at random. Tables are of six kinds: few rows and hardly any noise (yacht),
noise that varies (concrete), skewed columns (airfoil), equal rows (solar), nearly nothing but noise
(tamielectric) and many rows without noise (kin40k). Everything is standardised by the training
rows, so that errors and densities are in units of std(y). ::

    python quick.py --data DIR
    python quick.py --data DIR --tables energy stock   # adds tables to those that are stored
    python quick.py --render                           # the report alone

Every (table, split, method) is one entry of results/quick.json, which a run replaces; the report
has all of them.
"""

import argparse
import warnings
from functools import partial
from itertools import product

import common
import numpy as np
import ours
import peers
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor

STORE = common.RESULTS / "quick.json"
TABLES = ("yacht", "concrete", "airfoil", "solar", "tamielectric", "kin40k")
NORMAL_95 = 1.959964  # standard deviations


# -- the methods: (args, X, y, X_test) -> means, standard deviations, seconds ... ------


def default(args, X, y, X_test):
    """`SparseGPRegressor()`."""
    clock = peers.Laps()
    model = ours.default_regressor().fit(X, y)
    seconds = clock.lap("fit")
    mean, std = ours.observed(model, X_test)
    about = {"posterior": ours.given(model), "kernel": str(model.kernel_)[:200]}
    return {"mean": mean, "std": std} | seconds | clock.lap("predict") | about


def boosting(args, X, y, X_test):
    """`HistGradientBoostingRegressor()`."""
    make = partial(HistGradientBoostingRegressor, random_state=0)
    return peers.boosted(make, False, 0, X, y, X_test)


def exact(args, X, y, X_test):
    """`GaussianProcessRegressor` with our kernel, on some of the rows."""
    rows = np.random.RandomState(0).permutation(len(X))[: args.exact_max_n]
    X, y = X[np.sort(rows)], y[np.sort(rows)]
    kernel = ours.initial_kernel(X, y)
    clock = peers.Laps()
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    seconds = clock.lap("fit")
    mean, std = model.predict(X_test, return_std=True)
    return {"mean": mean, "std": std, "n": len(X)} | seconds | clock.lap("predict")


METHODS = {"default": default, "HistGradientBoosting": boosting, "GaussianProcessRegressor": exact}


# -- measuring -------------------------------------------------------------------------


def measured(args, name, split, method):
    """The entry of a table, a split and a method."""
    X, y, X_test, y_test = common.load(args.data, name, split)
    X, X_test = common.standardise(X, X_test)
    y, y_test = common.standardise(y, y_test)
    found = {"n": len(X), "d": X.shape[1], "n_test": len(X_test)}
    found |= METHODS[method](args, X, y, X_test)
    mean, std = (np.asarray(found.pop(key)) for key in ("mean", "std"))
    scores = {
        "rmse": common.rmse(y_test, mean),
        "log_density": common.log_density(y_test, mean, std),
        "coverage": float(np.mean(np.abs(y_test - mean) <= NORMAL_95 * std)),
    }
    where = {"commit": common.commit(common.HERE), "machine": common.machine()}
    return found | scores | where


def run(args):
    ours.warm_up(labels=False)
    for name, split, method in product(args.tables, args.splits, args.methods):
        measure = partial(measured, args, name, split, method)
        common.once(STORE, f"{name}/{split}/{method}", measure, again=True)


# -- the report ------------------------------------------------------------------------


def line(key, entry):
    table, split, method = key.split("/")
    scores = [entry[score] for score in ("log_density", "rmse", "coverage")]
    costs = [round(entry["fit_seconds"], 2), round(entry["fit_cpu_seconds"], 2)]
    return [table, split, method, entry["n"], *scores, *map(str, costs), entry.get("posterior")]


def render():
    entries = common.read_json(STORE)
    order = [*TABLES, *sorted({key.split("/")[0] for key in entries} - {*TABLES})]

    def place(key):
        table, split, method = key.split("/")
        return order.index(table), split, [*METHODS].index(method)

    header = ["table", "split", "method", "n", "log density", "RMSE", "in 95 %", "fit (s)"]
    header += ["fit (CPU s)", "posterior_"]
    lines = [line(key, entries[key]) for key in sorted(entries, key=place)]
    about = (
        "Default fits beside two estimators of scikit-learn, in units of std(y); n: rows that were "
        "learned, of which GaussianProcessRegressor has at most 1,500 at random. Larger log "
        "densities and smaller errors are better."
    )
    parts = [about, common.table(header, lines), *common.about_runs(entries)]
    common.write_report("quick.md", "A quick look", *parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--splits", nargs="+", type=int, default=[0])
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--exact-max-n", type=int, default=1500)
    parser.add_argument("--render", action="store_true", help="only the report")
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    if not args.render:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(args)
    render()


if __name__ == "__main__":
    main()

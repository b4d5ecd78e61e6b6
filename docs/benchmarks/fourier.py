"""Random Fourier features beside inducing points of the same number.

Inputs and targets are standardised by the training rows, so that errors and log densities (noise
included) are in units of std(y). Rows are those of the first split, where a table has splits, else
a random tenth is held out: at most `--rows` of the training rows and 2,000 of the others, drawn at
random. `temperature` is the temperature of the first station of beijing_air by the hour, the first
`--rows` hours; a random tenth is held out. `srtm` are random rows of srtm_n27e086.

Methods are `SparseGPRegressor(random_state=0)` with the default kernel: `inducing` has m inducing
points, and `fourier` is ``posterior=FourierFeatures(m)``. Seconds are those of the processor, for
the fit, with one BLAS thread. `neighbors` is there once for each table, for comparison. ::

    OPENBLAS_NUM_THREADS=1 python fourier.py --data DIR
    python fourier.py --data DIR --datasets airfoil --m 50 --rows 500     # a trial
    python fourier.py --render                                            # the tables alone

Each result is one entry of results/fourier.json; entries that are there already are not computed
again, unless with `--again`.
"""

import argparse
import time
import warnings
from pathlib import Path

import common
import numpy as np
import ours

STORE = common.RESULTS / "fourier.json"
TABLES = ("airfoil", "bike", "temperature", "concrete", "elevators", "kin40k", "pol")
TABLES += ("cal_housing", "srtm")
SIZES = (100, 300)
METHODS = ("inducing", "fourier")
MOST_TESTED = 2000


# -- data ------------------------------------------------------------------------------


def rows_of(folder, name, most):
    """X, y, X_test, y_test, standardised."""
    rng = np.random.RandomState(0)
    if name in ("temperature", "cal_housing", "srtm"):
        X, y = everything(folder, name, most)
        test = np.zeros(len(X), dtype=bool)
        test[rng.choice(len(X), len(X) // 10, replace=False)] = True
        parts = X[~test], y[~test], X[test], y[test]
    else:
        parts = common.load(folder, name, 0)
    X, y, X_test, y_test = parts
    some, tested = (rng.permutation(len(one)) for one in (X, X_test))
    some, tested = some[:most], tested[:MOST_TESTED]
    X, X_test = common.standardise(X[some], X_test[tested])
    return X, *map(np.ravel, common.standardise(y[some, None], y_test[tested, None])), X_test


def everything(folder, name, most):
    if name == "temperature":
        with np.load(Path(folder) / "beijing_air.npz") as f:
            column = list(f["feature_names"]).index("TEMP")
            return np.arange(float(most))[:, None], f["X"][:most, column].astype(float)
    return common.load(folder, {"srtm": "srtm_n27e086"}.get(name, name))


# -- measuring -------------------------------------------------------------------------


def measure(folder, name, m, method, most):
    """Density, error and seconds of one fit."""
    X, y, y_test, X_test = rows_of(folder, name, most)
    model = ours.with_features(method, m)
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    mean, std = ours.observed(model, X_test)
    return {
        "density": common.log_density(y_test, mean, std),
        "rmse": common.rmse(y_test, mean),
        "seconds": seconds,
        "n": len(X),
        "d": X.shape[1],
        "commit": common.commit(common.HERE.parents[1]),
        "machine": common.machine(),
    }


def run(args):
    for name in args.datasets:
        pairs = [(m, method) for m in args.m for method in args.methods]
        for m, method in [*pairs, (0, "neighbors")]:
            key = f"{name}/{m}/{method}"
            how = args.data, name, m, method, args.rows
            common.once(STORE, key, lambda how=how: measure(*how), args.again)


# -- tables ----------------------------------------------------------------------------


def render():
    entries = common.read_json(STORE)
    parts = [__doc__.split(" ::")[0].split("\n\n", 1)[1]]
    for measure, what in (
        ("density", "Log density"),
        ("rmse", "Root mean squared error"),
        ("seconds", "Seconds"),
    ):
        parts += [f"## {what}", table_of(entries, measure)]
    parts += common.about_runs(entries)
    common.write_report("fourier.md", "Random Fourier features beside inducing points", *parts)


def table_of(entries, measure):
    found = {tuple(key.split("/")): one for key, one in entries.items()}
    lines = []
    for name in TABLES:
        near = found.get((name, "0", "neighbors"))
        for m in SIZES:
            cells = [found.get((name, str(m), method)) for method in METHODS]
            first = next((one for one in cells if one), None)
            if first:
                about = [f"{name} ({first['n']:,} × {first['d']})", str(m)]
                lines.append([*about, *(one and one[measure] for one in (*cells, near))])
    return common.table(["table", "m", *METHODS, "neighbors"], lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--datasets", nargs="+", default=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--m", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--rows", type=int, default=5000)
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

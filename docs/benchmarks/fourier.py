"""Random Fourier features beside inducing points of the same number.

Inputs and targets are standardised by the training rows, so that errors and log densities (noise
included) are in units of std(y). Rows are those of the first split, where a table has splits, else
a random tenth is held out: at most `--rows` of the training rows and 2,000 of the others, drawn at
random. `temperature` is the temperature of the first station of beijing_air by the hour, the first
`--rows` hours; a random tenth is held out. `srtm` are random rows of srtm_n27e086.

Methods are `SparseGPRegressor(random_state=0)`, in the table of seeds also 1 … 4, with the default
kernel: `inducing` has m inducing points; the others are ``posterior=FourierFeatures(m, draws,
learn_frequencies)``, with fixed or learned frequencies. Seconds are those of the processor, for the
fit, with one BLAS thread. `neighbors` is there once for each table, for comparison. Errors of
kernel matrices are those of a Matern 5/2 kernel with the length scale sqrt(d) at 500 rows, means
over 20 seeds. ::

    OPENBLAS_NUM_THREADS=1 python fourier.py --data DIR
    OPENBLAS_NUM_THREADS=1 python fourier.py --data DIR --seeds
    OPENBLAS_NUM_THREADS=1 python fourier.py --data DIR --kernels
    python fourier.py --data DIR --datasets airfoil --m 50 --rows 500     # a trial
    python fourier.py --render                                            # the tables alone

The defaults of `FourierFeatures` were chosen on the tables of `CHOICE`. Each result is one entry of
results/fourier.json; entries that are there already are not computed again, unless with `--again`.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import common
import numpy as np
import ours

STORE = common.RESULTS / "fourier.json"
CHOICE = ("airfoil", "bike", "temperature")
REPORT = ("concrete", "elevators", "kin40k", "pol", "cal_housing", "srtm")
SIZES = (100, 300)
SEEDS = (1, 2, 3, 4)
DRAWS = ("random", "orthogonal", "sobol")
METHODS = ("inducing", *(f"{draws}, {how}" for draws in DRAWS for how in ("fixed", "learned")))
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


def measure(folder, name, m, method, most, seed=0):
    """Density, error and seconds of one fit."""
    X, y, y_test, X_test = rows_of(folder, name, most)
    model = ours.with_features(method, m, seed)
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


def run_seeds(args):
    """Fixed frequencies of further seeds, on the tables of the choice."""
    for name, m, draws, seed in product(CHOICE, SIZES, DRAWS, SEEDS):
        how = args.data, name, m, f"{draws}, fixed", args.rows, seed
        key = f"{name}/{m}/{draws}, fixed/{seed}"
        common.once(STORE, key, lambda how=how: measure(*how), args.again)


def errors_of_kernels(args):
    """Errors of kernel matrices of 500 rows, means over 20 seeds."""
    for name in args.datasets:
        X = rows_of(args.data, name, 500)[0]
        errors = {
            draws: float(np.mean([ours.error_of_features(X, 300, draws, k) for k in range(20)]))
            for draws in DRAWS
        }
        common.once(STORE, f"{name}/errors", lambda found=errors: found, args.again)


def run(args):
    if args.kernels:
        return errors_of_kernels(args)
    if args.seeds:
        return run_seeds(args)
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
    parts += ["## Fixed frequencies: log density of five seeds", table_of_seeds(entries)]
    parts += ["## Root mean squared error of the kernel matrix, m = 300", table_of_errors(entries)]
    entries = {key: entry for key, entry in entries.items() if not key.endswith("/errors")}
    for title, names in (("chosen on", CHOICE), ("reported", REPORT)):
        for measure, what in (
            ("density", "log density"),
            ("rmse", "root mean squared error"),
            ("seconds", "seconds"),
        ):
            parts += [f"## Tables {title}: {what}", table_of(entries, names, measure)]
    parts += common.about_runs(entries)
    common.write_report("fourier.md", "Random Fourier features beside inducing points", *parts)


def table_of_errors(entries):
    names = [name for name in (*CHOICE, *REPORT) if f"{name}/errors" in entries]
    lines = [[name, *map(entries[f"{name}/errors"].get, DRAWS)] for name in names]
    return common.table(["table", *DRAWS], lines)


def table_of_seeds(entries):
    """Mean and standard deviation over seeds, those of the tables of the choice together last."""
    lines, means = [], []
    for name, m in product(CHOICE, SIZES):
        cells = [
            [
                entry["density"]
                for key, entry in entries.items()
                if key.startswith(f"{name}/{m}/{draws}, fixed")
            ]
            for draws in DRAWS
        ]
        if all(map(len, cells)):
            means.append([np.mean(one) for one in cells])
            spreads = [f"{np.mean(one):.3f} ± {np.std(one):.3f}" for one in cells]
            lines.append([name, str(m), *spreads])
    if means:
        lines.append(["mean", "", *map(float, np.mean(means, axis=0))])
    return common.table(["table", "m", *DRAWS], lines)


def table_of(entries, names, measure):
    found = {tuple(key.split("/")): one for key, one in entries.items() if key.count("/") == 2}
    known = {method for name, _, method in found if name in names}
    methods = [method for method in METHODS if method in known]
    lines = []
    for name in names:
        near = found.get((name, "0", "neighbors"))
        for m in SIZES:
            cells = [found.get((name, str(m), method)) for method in methods]
            first = next((one for one in cells if one), None)
            if first:
                about = [f"{name} ({first['n']:,} × {first['d']})", str(m)]
                lines.append([*about, *(one and one[measure] for one in (*cells, near))])
    return common.table(["table", "m", *methods, "neighbors"], lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--datasets", nargs="+", default=[*CHOICE, *REPORT])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--m", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seeds", action="store_true", help="only the table of seeds")
    parser.add_argument("--kernels", action="store_true", help="only errors of kernel matrices")
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

"""Predictions from neighbours, whatever the number of rows.

y is a known function of X and noise of known variance, so that the best possible density of
held-out rows is known, too. For every table a new process fits ``posterior="neighbors"`` with the
defaults, predicts 1,000 queries, and says

- how many seconds the fit took by the clock, and of all cores together,
- how many a prediction took, without the first one, which builds the tree,
- how much memory was resident at most (``ru_maxrss`` of getrusage, X and all libraries included; it
  is never below that of the process which wrote the files, up to 430 MB),
- the RMSE of the function, and the log density of held-out y beside that of the true process.

Rows on disk are float32 in .npy files, four million in each, which `skgp_sparse.sources.Stream`
reads chunk by chunk. ::

    python neighbors_any_size.py --rows 100000 --d 2          # a trial
    python neighbors_any_size.py --rows 10000000 --d 2
    python neighbors_any_size.py --rows 1000000 --d 2 --counts
    python neighbors_any_size.py --render                     # the table of what was measured
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time

import common
import numpy as np
import ours
from scipy.stats import norm, poisson

RESULT = common.RESULTS / "neighbors_any_size.json"
PER_FILE = 4_000_000
TESTED = 10_000  # held-out rows
QUERIES = 1000  # of the prediction that is timed
NOISE = 0.1  # standard deviation
ABOUT = ["rows", "d", "where", "y", "fit (s)", "fit (CPU s)", "1,000 predictions (s)"]
MEMORY = ["X and libraries (MB)", "fit (MB)", "at most (MB)"]
COLUMNS = [*ABOUT, *MEMORY, "RMSE of f", "density", "true density", "commit"]
TOLD = """All rows were measured beside other processes: their seconds by the clock are those of a
busy machine. On two quiet cores, fits to a million rows took 44 seconds at 92133ac and 19 shortly
before 58d19dc (d = 2). Those of 0360c5b had one thread. Ten million rows of two columns on disk fit
into a quarter of `working_memory` and become arrays; a prediction of a hundred million is a pass
through the files."""


# -- rows ------------------------------------------------------------------------------


def function(X):
    """Waves of three lengths along two columns and their sum; other columns matter little."""
    a, b = X[:, 0].astype(float), X[:, 1].astype(float)
    waves = np.sin(9 * a) + np.cos(13 * b) * a + 0.5 * np.sin(40 * (a + b))
    return waves + 0.3 * np.sin(X[:, 2:].astype(float).sum(axis=1))


def rows_of(n, d, seed, counts=False):
    """Uniform inputs, float32, and y."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d), dtype=np.float32)
    f = function(X)
    return X, rng.poisson(np.exp(f)) if counts else f + NOISE * rng.standard_normal(n)


def write_files(folder, n, d):
    """Pairs of .npy files that together have n rows."""
    for number, start in enumerate(range(0, n, PER_FILE)):
        X, y = rows_of(min(PER_FILE, n - start), d, number)
        np.save(folder / f"X{number}.npy", X)
        np.save(folder / f"y{number}.npy", y.astype(np.float32))


def pairs_in(folder):
    count = len(list(Path(folder).glob("X*.npy")))
    return [tuple(str(Path(folder) / f"{x}{k}.npy") for x in "Xy") for k in range(count)]


# -- one process -----------------------------------------------------------------------


def resident():
    """Largest resident memory of this process so far, in MB."""
    return round(getrusage(RUSAGE_SELF).ru_maxrss / 1024)


def timed(action):
    """What an action returns, its seconds by the clock, and those of all cores."""
    wall, cpu = perf_counter(), process_time()
    answer = action()
    return answer, round(perf_counter() - wall, 2), round(process_time() - cpu, 2)


def fit(args):
    """What a complete fit takes, and how good it is."""
    if args.disk:
        data = (ours.files(pairs_in(args.folder)),)
    else:
        data = rows_of(args.rows, args.d, 0, args.counts)
    before = resident()
    likelihood = "poisson" if args.counts else "gaussian"
    model = ours.default_regressor().set_params(posterior="neighbors", likelihood=likelihood)
    _, wall, cpu = timed(lambda: model.fit(*data))
    fitted = resident()
    X, y = rows_of(TESTED, args.d, 10**6, args.counts)
    if not args.disk:
        model.predict(X[:1])
    _, seconds, _ = timed(lambda: model.predict(X[:QUERIES], return_std=True))
    some = slice(QUERIES if args.disk else None)
    found = {"fit (s)": wall, "fit (CPU s)": cpu, "1,000 predictions (s)": seconds}
    memory = {"X and libraries (MB)": before, "fit (MB)": fitted, "at most (MB)": resident()}
    return found | memory | quality(model, X[some], y[some], args.counts)


def quality(model, X, y, counts):
    """RMSE of the function or the rate, and densities of y: the model's and the true one."""
    f = np.exp(function(X)) if counts else function(X)
    true = poisson.logpmf(y, f) if counts else norm.logpdf(y, f, NOISE)
    rmse = np.sqrt(np.mean((model.predict(X) - f) ** 2))
    density = np.mean(model.log_predictive_density(X, y))
    numbers = {"RMSE of f": rmse, "density": density, "true density": true.mean()}
    return {name: round(float(number), 4) for name, number in numbers.items()}


# -- all processes ---------------------------------------------------------------------


def measure(args):
    """What a new process says of a table, which is on disk meanwhile if wanted."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        if args.disk:
            write_files(Path(folder), args.rows, args.d)
        words = ["--child", "--folder", folder, "--rows", args.rows, "--d", args.d]
        words += ["--disk"] * args.disk + ["--counts"] * args.counts
        command = [sys.executable, __file__, *map(str, words)]
        done = subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, check=True)
    where = "disk" if args.disk else "memory"
    about = {"rows": args.rows, "d": args.d, "where": where, "y": y_of(args)}
    found = json.loads(done.stdout.splitlines()[-1])
    return about | found | {"commit": common.commit(common.HERE)}


def y_of(args):
    return "counts" if args.counts else "numbers"


def render():
    """The report of all that was measured."""
    entries = common.read_json(RESULT).values()
    rows = sorted(entries, key=lambda one: (one["y"], one["where"], one["rows"], one["d"]))
    table = common.table(COLUMNS, [[one[title] for title in COLUMNS] for one in rows])
    about = __doc__.split(" ::")[0].split("\n\n", 1)[1].strip()
    common.write_report(
        "neighbors_any_size.md", "Neighbours of any number of rows", about, TOLD, table
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int)
    parser.add_argument("--d", type=int, default=2)
    parser.add_argument("--folder", help="where files are written")
    for switch in ("--disk", "--counts", "--child", "--render"):
        parser.add_argument(switch, action="store_true")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(fit(args)))
        return
    if args.rows:
        found = measure(args)
        common.store(
            RESULT, " ".join(str(found[name]) for name in ("rows", "d", "where", "y")), found
        )
        print(found)
    if args.render:
        render()


if __name__ == "__main__":
    main()

"""`TitsiasBlocks` beside `titsias_new`: densities at as many inducing points, and in as much time.

For every data set and split, a fit with `TitsiasBlocks` and m inducing points, and fits with
`titsias_new` and m, 1.25 m, 1.5 m, 1.75 m, 2 m and 2.5 m of them. Each predicts test rows with
usual variances and, at the same hyperparameters and inducing points, with `tight_variance=True`.
What `titsias_new` reaches in the time of `TitsiasBlocks` is interpolated in the logarithm of the
CPU seconds (one thread), those of the n × n part included where variances are tight. Data sets with
more training rows are random parts of them. ::

    python blocks.py --data DIR

Each (data set, n, m, split, way) is one entry of results/blocks.json; entries that are there
already are not computed again, unless with `--again`.
"""

import argparse
import warnings
from functools import partial
from itertools import product

import common
import numpy as np
import ours
from tight_variance import data_of, fitted

STORE = common.RESULTS / "blocks.json"
TABLES = (  # training rows at most, and inducing points
    ("airfoil", 2500, 64),
    ("concrete", 2500, 64),
    ("elevators", 2500, 64),
    ("kin40k", 2500, 128),
    ("pol", 2500, 128),
    ("bike", 2500, 128),
    ("kin40k", 10_000, 256),
    ("elevators", 10_000, 128),
)
MORE = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5)  # times as many inducing points
TIGHT_ROWS = 2500  # up to which variances are tight, too
SPLITS = (0, 1, 2)
HEADER = ["data set", "n", "m", "seconds", "RMSE", "density, usual", "density, tight"]
HEADER += ["gain in as much time, usual", "the same, tight"]


def measure(args, name, n, bound, m, split):
    """Scores and CPU seconds of one fit, with usual and with tight variances."""
    args.split = split
    X, y, X_test, y_test = data_of(args, name, n)
    model, seconds = fitted(ours.bounded(bound, m), X, y)
    mean, std = ours.observed(model, X_test)
    entry = {
        "seconds": seconds,
        "rmse": common.rmse(y_test, mean),
        "usual": common.log_density(y_test, mean, std),
        "n": len(X),
        "commit": common.commit(common.HERE.parents[1]),
        "machine": common.machine(),
    }
    if len(X) > TIGHT_ROWS:
        return entry
    tight, n_by_n = fitted(ours.held(model, ours.tight_variance()).set_params(bound=bound), X, y)
    density = common.log_density(y_test, *ours.observed(tight, X_test))
    return entry | {"tight": density, "tight_seconds": seconds + n_by_n}


def run(args):
    for (name, n, m), split in product(TABLES, args.splits):
        if args.datasets and name not in args.datasets:
            continue
        ways = [("titsias_blocks", m), *(("titsias_new", round(m * more)) for more in MORE)]
        for bound, size in ways:
            key = f"{name}/{n}/{m}/{bound} {size}/{split}"
            compute = partial(measure, args, name, n, bound, size, split)
            common.once(STORE, key, compute, args.again)


def lines(entries):
    """One line for each table: from `titsias_new` to blocks at m, and gains in as much time."""
    for name, n, m in TABLES:
        ways = [f"titsias_blocks {m}", *(f"titsias_new {round(m * more)}" for more in MORE)]
        keys = [[f"{name}/{n}/{m}/{way}/{split}" for way in ways] for split in SPLITS]
        found = [
            [entries[key] for key in several] for several in keys if entries.keys() >= {*several}
        ]
        if not found:
            continue
        blocks, same = ([several[k] for several in found] for k in (0, 1))
        pairs = [
            f"{_mean(same, what):.3f} → {_mean(blocks, what):.3f}" if what in same[0] else None
            for what in ("seconds", "rmse", "usual", "tight")
        ]
        gains = _gain(found, "usual", "seconds"), _gain(found, "tight", "tight_seconds")
        yield [name, same[0]["n"], m, *pairs, *gains]


def _mean(entries, what):
    return np.mean([entry[what] for entry in entries])


def _gain(found, what, time):
    """Mean ± standard error over splits of what blocks gain on `titsias_new` in their time."""
    if what not in found[0][0]:
        return None
    gains = []
    for blocks, *new in found:
        new.sort(key=lambda entry: entry[time])
        seconds = np.log([entry[time] for entry in new])
        reached = np.interp(np.log(blocks[time]), seconds, [entry[what] for entry in new])
        gains.append(blocks[what] - reached)
    error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
    return f"{np.mean(gains):+.3f} ± {error:.3f} ({len(gains)})"


ABOUT = """Where there is an arrow, from `titsias_new` to `TitsiasBlocks()` at as many inducing
points: CPU seconds of a fit on one thread, root mean squared error, and mean log density of at most
1,000 test rows in units of the standard deviation of the targets, with usual variances and with
`tight_variance=True`. Means over splits. The last two columns say what `TitsiasBlocks` gains on
`titsias_new` that has more inducing points, and so takes as long: means ± standard errors (number
of splits), interpolated. A dash: not run."""
REMARKS = """- With as many inducing points, errors are smaller on all tables but elevators.
- In as much time, `titsias_new` with more inducing points has the higher density. With tight
  variances, pol is level, and bike is the exception: its target is a function of two columns
  without noise, and blocks halve the error.
- Usual variances are those of all inducing points, whatever the bound. Beside the smaller noise
  that blocks find they are too wide, as the two columns of densities show."""


def render():
    entries = common.read_json(STORE)
    table = common.table(HEADER, list(lines(entries)))
    common.write_report(
        "blocks.md", "Blocks of near rows", ABOUT, table, REMARKS, *common.about_runs(entries)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--datasets", nargs="+")
    parser.add_argument("--splits", nargs="+", type=int, default=SPLITS)
    parser.add_argument("--queries", type=int, default=1000, help="test rows at most")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the table")
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    warnings.simplefilter("ignore")
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()

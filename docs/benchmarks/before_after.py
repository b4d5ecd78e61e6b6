"""Default fits of this version of the package and of an earlier one, in turn.

On each of the twelve tables of quality_defaults.py and the eleven of the part "defaults" of
classification_quality.py (the same splits, raw inputs), and with `--extra` on seven tables of
scikit-learn that are not in the data folder: `SparseGPRegressor(random_state=0).fit` or
`SparseGPClassifier(random_state=0).fit`, untouched.

Every fit runs in a process of its own, whose PYTHONPATH is the folder of its version, after an
untimed warm-up fit of 200 rows. The versions take turns: before, after, before, after ...
`--repeats` times; by default three times where the first fit of the earlier version takes less than
20 seconds, else once. Reported: the median of the seconds, and of the test part the mean log
density of observations, in units of the standard deviation of the training targets, or the log
loss. ::

    python before_after.py --data DIR --before OTHER/CHECKOUT
    python before_after.py --data DIR --before OTHER/CHECKOUT --extra --datasets yacht moons
    python before_after.py --render                           # the tables alone

Each (table, split, version) is one entry of results/before_after.json. A pair that is there
already is not measured again, unless with `--again`; half a pair is. Leave the machine alone
meanwhile.
"""

import argparse
import json
import subprocess
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import classification_quality
import common
import numpy as np
import ours
import quality_defaults
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning

STORE = common.RESULTS / "before_after.json"
VERSIONS = ("before", "after")
QUICK = 20.0  # seconds of a fit that is worth repeating
LARGE = 5000  # rows from which tables are averaged apart


# -- the tables ------------------------------------------------------------------------


class Table(NamedTuple):
    """Where a table comes from, and whether it has labels."""

    heading: str
    labels: bool
    load: Callable  # (folder, split) -> X, y, X_test, y_test


def parted(X, y, test):
    return X[~test], y[~test], X[test], y[test]


def bundled(function, labels, train=None):
    """A loader of a table that comes with scikit-learn; `train` rows, or see `held_out`."""

    def load(folder, split):
        X, y = function(return_X_y=True)
        if labels and train is None:
            return parted(X, y, common.held_out(y, split))
        order = np.random.RandomState(split).permutation(len(X))
        test = np.zeros(len(X), dtype=bool)
        test[order[train or len(X) * 4 // 5 :]] = True
        return parted(X, y, test)

    return load


def generated(function, train, test=1000, **options):
    """A loader of generated rows, `train` of them to fit and `test` others."""

    def load(folder, split):
        X, y = function(train + test, random_state=split, **options)
        return parted(X, y, np.arange(train + test) >= train)

    return load


def tables():
    regression = {
        name: Table("Regression", False, partial(from_folder, common.load, name))
        for name in quality_defaults.DATASETS
    }
    classification = {
        name: Table("Classification", True, partial(from_folder, classification_quality.load, name))
        for name in classification_quality.DATASETS["defaults"]
    }
    return regression | classification | extra_tables()


def from_folder(load, name, folder, split):
    return load(folder, name, split)


EXTRA = "Tables that are not in the folder"


def extra_tables():
    numbers = partial(Table, f"{EXTRA}: regression", False)
    classes = partial(Table, f"{EXTRA}: classification", True)
    return {
        "diabetes": numbers(bundled(datasets.load_diabetes, labels=False)),
        "friedman1": numbers(generated(datasets.make_friedman1, 3000, noise=1.0)),
        "friedman2": numbers(generated(datasets.make_friedman2, 2000)),
        "digits": classes(bundled(datasets.load_digits, labels=True, train=900)),
        "breast_cancer": classes(bundled(datasets.load_breast_cancer, labels=True)),
        "wine_cultivars": classes(bundled(datasets.load_wine, labels=True)),
        "moons": classes(generated(datasets.make_moons, 2000, noise=0.3)),
    }


TABLES = tables()


def is_extra(name):
    return TABLES[name].heading.startswith(EXTRA)


# -- one fit, in the process of its version --------------------------------------------


def work(folder, data, name, split):
    """Fit one table with the package in `folder`."""
    ours.check_package(folder)
    table = TABLES[name]
    X, y, X_test, y_test = table.load(data, split)
    model = ours.default_classifier() if table.labels else ours.default_regressor()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.warm_up(table.labels)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        seconds = common.seconds_of(lambda: model.fit(X, y))
    messages = {str(one.message) for one in told if issubclass(one.category, ConvergenceWarning)}
    return {
        "seconds": seconds,
        "score": score(model, table.labels, y, X_test, y_test),
        "n": len(X),
        "d": X.shape[1],
        "n_inducing": ours.n_inducing(model),
        "n_iter": int(model.n_iter_),
        "bound": float(model.log_marginal_likelihood_value_),
        "kernel": str(model.kernel_),
        "warned": sorted(message[:300] for message in messages),
    }


def score(model, labels, y, X_test, y_test):
    """Log loss, or mean log density in units of the standard deviation of `y`."""
    if labels:
        return common.nlpd(y_test, model.predict_proba(X_test))
    return quality_defaults.scores(y, y_test, *ours.observed(model, X_test))["log_density"]


# -- the pairs -------------------------------------------------------------------------


def run(args):
    commits = {version: common.commit(getattr(args, version)) for version in VERSIONS}
    for name, split in product(args.datasets, args.splits):
        keys = {version: f"{name}/{split}/{version}" for version in VERSIONS}
        done = common.read_json(STORE)
        if args.again or not all(key in done for key in keys.values()):
            for version, entry in measured(args, name, split).items():
                common.store(STORE, keys[version], entry | {"commit": commits[version]})


def measured(args, name, split):
    """{version: entry}, the versions in turn; what failed once is not tried again."""
    found = {version: [] for version in VERSIONS}
    while len(found["before"]) < rounds(args, found["before"]):
        for version in VERSIONS:
            found[version].append(attempt(args, version, name, split))
            shown = {key: found[version][-1].get(key) for key in ("seconds", "score", "n_iter")}
            common.progress(name, split, version, shown)
    return {version: summed_up(entries) for version, entries in found.items()}


def rounds(args, found):
    """How many are wanted, given what the earlier version did so far."""
    if not found or args.repeats:
        return args.repeats or 1
    return 3 if found[0].get("seconds", np.inf) < QUICK else 1


def attempt(args, version, name, split):
    folder = getattr(args, version)
    words = ["--worker", folder, "--data", args.data, "--datasets", name, "--splits", split]
    try:
        return common.run_version(folder, "before_after.py", *words)
    except subprocess.CalledProcessError as error:
        return {"failed": str(error)[-300:]}


def summed_up(entries):
    """The first entry, with the median of the seconds of all."""
    failed = [entry for entry in entries if "failed" in entry]
    if failed:
        return failed[0]
    seconds = [entry["seconds"] for entry in entries]
    return entries[0] | {"seconds": float(np.median(seconds)), "seconds of each": seconds}


# -- the report ------------------------------------------------------------------------


class Pair(NamedTuple):
    """The two entries of a table and split."""

    name: str
    split: str
    before: dict
    after: dict

    @property
    def ratio(self):
        """Seconds after, per second before."""
        return self.after["seconds"] / self.before["seconds"]

    @property
    def gain(self):
        """Nats per test row by which the later version is better."""
        sign = -1.0 if TABLES[self.name].labels else 1.0
        return sign * (self.after["score"] - self.before["score"])

    @property
    def label(self):
        return f"{self.name} ({self.split})"


def pairs(entries):
    """Every pair that is complete, in the order of the tables."""
    known = {tuple(key.split("/")[:2]) for key in entries}
    for name, split in sorted(known, key=lambda pair: (list(TABLES).index(pair[0]), int(pair[1]))):
        two = [entries.get(f"{name}/{split}/{version}", {"failed": ""}) for version in VERSIONS]
        if not any("failed" in entry for entry in two):
            yield Pair(name, split, *two)


def both(pair, what):
    """What each version had, written once where it is the same."""
    values = [str(getattr(pair, version)[what]) for version in VERSIONS]
    return values[0] if values[0] == values[1] else " / ".join(values)


def warned(pair):
    words = ["yes" if getattr(pair, version)["warned"] else "no" for version in VERSIONS]
    return " / ".join(words)


def pair_table(some):
    what = "log loss" if TABLES[some[0].name].labels else "log density"
    rows = [
        [pair.name, pair.split, pair.before["n"], both(pair, "n_inducing")]
        + [pair.before["seconds"], pair.after["seconds"], pair.ratio]
        + [pair.before["score"], pair.after["score"], f"{pair.gain:+.3f}"]
        + [both(pair, "n_iter"), warned(pair)]
        for pair in some
    ]
    header = ["table", "split", "n", "m", "before (s)", "after (s)", "after / before"]
    header += [f"{what} before", f"{what} after", "gain", "iterations", "warned"]
    return common.table(header, rows)


def geometric_mean(ratios):
    return float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else None


def summary_row(title, some):
    small = [pair.ratio for pair in some if pair.before["n"] <= LARGE]
    large = [pair.ratio for pair in some if pair.before["n"] > LARGE]
    slowest = max(some, key=lambda pair: pair.ratio)
    worst = min(some, key=lambda pair: pair.gain)
    return [
        title,
        *(geometric_mean(small), len(small), geometric_mean(large), len(large)),
        f"{slowest.ratio:.3f}, {slowest.label}",
        f"{worst.gain:+.3f}, {worst.label}",
    ]


def summary(groups):
    rows = [summary_row(title, some) for title, some in groups.items()]
    rows.append(summary_row("all", [pair for some in groups.values() for pair in some]))
    header = ["tables", f"mean ratio, n ≤ {LARGE}", "number", f"mean ratio, n > {LARGE}", "number"]
    return common.table([*header, "worst ratio", "worst gain"], rows)


def commits_line(entries):
    found = {version: set() for version in VERSIONS}
    for key, entry in entries.items():
        found[key.split("/")[2]].add(entry.get("commit", "unknown"))
    words = [f"{version}: {', '.join(sorted(names))}" for version, names in found.items()]
    return "Commits - " + "; ".join(words) + "."


def failures(entries):
    keys = [key for key, entry in entries.items() if "failed" in entry]
    return [f"Failed: {', '.join(keys)}."] if keys else []


def render():
    entries = common.read_json(STORE)
    groups = {}
    for pair in pairs(entries):
        groups.setdefault(TABLES[pair.name].heading, []).append(pair)
    about = (
        "Default fits of two versions, in turn. n is the training part, m the number of inducing "
        "points; seconds are medians. Densities are of observations, in units of the standard "
        "deviation of the training targets; a positive gain is an improvement, in nats per row. "
        "Where the versions differ, m and iterations are given as before / after, and so is "
        "whether a fit warned that it had not converged. Mean ratios are geometric."
    )
    parts = [about, commits_line(entries), *failures(entries)]
    for heading, some in groups.items():
        parts += [f"## {heading}", pair_table(some)]
    if groups:
        parts += ["## Summary", summary(groups)]
    common.write_report("before_after.md", "Default fits, before and after", *parts)


# -- command line ----------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    common.add_versions(parser)
    parser.add_argument("--datasets", nargs="+", choices=TABLES)
    parser.add_argument("--extra", action="store_true", help="also tables of scikit-learn")
    parser.add_argument("--splits", nargs="+", type=int, default=[0])
    parser.add_argument("--repeats", type=int, help="default: three of short fits, one of others")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.datasets = args.datasets or [n for n in TABLES if args.extra or not is_extra(n)]
    if not (args.render or args.data or all(map(is_extra, args.datasets))):
        parser.error("--data is needed, unless with --render")
    if not (args.render or args.worker or args.before):
        parser.error("--before is needed, unless with --render")
    args.data = Path(args.data or ".").resolve()
    return args


def main():
    args = parse()
    if args.worker:
        print(json.dumps(work(args.worker, args.data, args.datasets[0], args.splits[0])))
        return
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()

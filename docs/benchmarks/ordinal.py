"""Ordered labels: `likelihood="ordinal"` beside default fits of one class against the rest.

Labels are the grades of wine (inputs are all other columns), those of car, and fifths of the
targets of housing and abalone. A fifth of the rows, drawn at random, is tested. ::

    python ordinal.py --data DIR
    python ordinal.py --data DIR --tables wine --splits 0 --again
    python ordinal.py --render

Each (table, split, method) is one entry of results/ordinal.json.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import common
import frames
import numpy as np
import ours

STORE = common.RESULTS / "ordinal.json"
TABLES = ("wine", "car", "housing", "abalone")
METHODS = {"one_vs_rest": {}, "ordinal": {"likelihood": "ordinal"}}
GRADES_OF_CAR = ["unacc", "acc", "good", "vgood"]
N_BINS = 5


def table(folder, name):
    """Inputs of all rows, as an array or a data frame, and their labels, numbers from 0 on."""
    import pandas as pd

    if name == "wine":
        X, alcohol = common.load(folder, name)
        labels = np.unique(X[:, -1], return_inverse=True)[1]
        return np.column_stack([X[:, :-1], alcohol]), labels
    if name == "housing":
        X, y = common.load(folder, name)
        return X, in_bins(y)
    frame = pd.read_csv(folder / "frames" / f"{name}.csv.gz")
    if name == "car":
        return frame, frame.pop("class").map(GRADES_OF_CAR.index).to_numpy()
    return frame, in_bins(frame.pop("rings").to_numpy())


def in_bins(y):
    """Which fifth of the targets each of them is in."""
    edges = np.quantile(y, np.arange(1, N_BINS) / N_BINS)
    return np.searchsorted(edges, y, side="right")


def measure(folder, name, split, method):
    """Scores and seconds of one fit."""
    X, y = table(folder, name)
    train, test = frames.split_of(len(y), split)
    X, X_test = (X[rows] if isinstance(X, np.ndarray) else X.iloc[rows] for rows in (train, test))
    model = ours.default_classifier().set_params(**METHODS[method])
    start = time.process_time()
    model.fit(X, y[train])
    seconds = time.process_time() - start
    probabilities = model.predict_proba(X_test)
    of_truth = probabilities[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]
    return {
        "log_loss": float(-np.mean(np.log(np.maximum(of_truth, frames.SMALLEST)))),
        "error": float(np.mean(np.abs(model.predict(X_test) - y[test]))),
        "accuracy": float(np.mean(model.predict(X_test) == y[test])),
        "posterior": str(model.posterior_),
        "cpu_seconds": seconds,
        "n": len(train),
        "machine": common.machine(),
        "commit": common.commit(common.HERE),
    }


def render():
    """Write the report of all entries."""
    entries, rows = common.read_json(STORE), []
    for name in TABLES:
        scores = [[entries[f"{name}/{split}/{method}"] for split in range(3)] for method in METHODS]
        for method, found in zip(METHODS, scores):
            means = [np.mean([one[key] for one in found]) for key in SCORES]
            each = ", ".join(f"{one['log_loss']:.3f}" for one in found)
            rows.append([name, method, *np.round(means, 3), each])
    header = ["labels", "method", *SCORES.values(), "log loss of each split"]
    about = (
        "Default fits, means over three splits. The distance is the mean of |predicted - true "
        "label|, in grades."
    )
    runs = common.about_runs(entries)
    common.write_report("ordinal.md", "Ordered labels", about, common.table(header, rows), *runs)


SCORES = {
    "log_loss": "log loss",
    "accuracy": "accuracy",
    "error": "distance",
    "cpu_seconds": "CPU seconds",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--again", action="store_true", help="measure what was measured")
    parser.add_argument("--render", action="store_true", help="write the report only")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if not args.render:
        for split, name, method in product(args.splits, args.tables, METHODS):
            run = lambda: measure(args.data, name, split, method)  # noqa: B023, E731
            common.once(STORE, f"{name}/{split}/{method}", run, args.again)
    render()


if __name__ == "__main__":
    main()

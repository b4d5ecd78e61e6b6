"""Everyday tables: what default fits cost, and how well they predict, beside boosting.

Tables of the folder `wild` of the data, whose `frames.json` says target, kind and types of columns,
and tables of numbers with 2,000 to 50,000 rows. Of each split at random, a tenth of the rows, at
most 5,000, is tested, and at most 20,000 of the others are learned. Numbers are in units of the
standard deviation of the training targets. Methods:

- `now` and, with ``--before CHECKOUT``, `before`: default estimators of this checkout and another.
- `CatBoost` and `HistGradientBoosting` at their defaults, with native categories and missing
  values; times are numbers of days.

Every fit runs in a process of its own, on one core; CPU seconds are those of the fit. ::

    python wild.py --data DIR --before CHECKOUT --peers-python PATH
    python wild.py --data DIR --tables ames --methods now --splits 0 --again
    python wild.py --render

Each (table, split, method) is one entry of results/wild.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import common
import frames
import numpy as np
import ours

STORE = common.RESULTS / "wild.json"
NUMBERS = ("airfare", "ames", "chicago", "computers", "deliveries", "exam", "k401ksubs")
NUMBERS += ("txhousing", "wage", "cigar", "sacramento", "saratoga")
OF_NUMBERS_ALONE = ("skillcraft", "gas", "sml", "sarcos", "parkinsons", "pol", "elevators")
OF_NUMBERS_ALONE += ("cal_housing", "kin40k", "keggdirected", "beijing_air", "flights", "ur10e")
LABELS = ("attrition", "beps", "caravan", "credit_data", "email", "fishing", "hawks")
LABELS += ("health_insurance", "leaves", "oj", "stackoverflow")
METHODS = ("now", "before", "CatBoost", "HistGradientBoosting")
MOST_ROWS, MOST_TESTED = 20_000, 5000
SCORES = {"rmse": "RMSE", "log_loss": "log loss"}


# -- data ------------------------------------------------------------------------------


def table(folder, name):
    """A frame, its targets, and which of its columns are categories and times."""
    import pandas as pd

    if not (folder / "wild" / f"{name}.csv.gz").exists():
        X, y = common.load(folder, name)
        y = y[:, 0] if y.ndim == 2 else y  # the first of several targets
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        return frame, y, {"categories": [], "times": []}
    about = json.loads((folder / "wild" / "frames.json").read_text())[name]
    frame = pd.read_csv(folder / "wild" / f"{name}.csv.gz")
    y = frame.pop(about["target"]).to_numpy()
    for column in about["categories"]:
        known = frame[column].notna()
        frame[column] = frame[column].astype(str).where(known, None).astype("category")
    for column in about["times"]:
        frame[column] = pd.to_datetime(frame[column])
    return frame, y, about


def load(folder, name, split):
    """Training and test frames and targets, and which columns are categories and times."""
    frame, y, about = table(folder, name)
    order = np.random.RandomState(split).permutation(len(y))
    tested = min(len(y) // 10, MOST_TESTED)
    test, train = order[:tested], order[tested:][:MOST_ROWS]
    y, y_test = y[train], y[test]
    if name not in LABELS:
        y, y_test = common.standardise(y.astype(float), y_test.astype(float))
    return frame.iloc[train], y, frame.iloc[test], y_test, about


def without_times(frame, times):
    """The frame whose times are numbers of days."""
    days = {column: frame[column].astype("int64") / 86_400e9 for column in times}
    return frame.assign(**days)


# -- one fit, in a process of its own --------------------------------------------------


def work(args):
    """Scores and seconds of one fit."""
    name, split, method = args.tables[0], args.splits[0], args.worker
    X, y, X_test, y_test, about = load(args.data, name, split)
    labels, is_ours = name in LABELS, method in ("now", "before")
    if not is_ours:
        X, X_test = (without_times(frame, about["times"]) for frame in (X, X_test))
        X, X_test = (frames.as_taken(method, frame, about["categories"]) for frame in (X, X_test))
    model = frames.estimator("frame" if is_ours else method, labels, X, about["categories"])
    warnings.simplefilter("ignore")
    if is_ours:
        ours.warm_up(labels)
    start = time.process_time()
    model.fit(X, y)
    found = {"cpu_seconds": time.process_time() - start}
    if labels:
        probabilities = model.predict_proba(X_test)
        of_truth = probabilities[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]
        found["log_loss"] = float(-np.mean(np.log(np.maximum(of_truth, frames.SMALLEST))))
    elif is_ours:
        mean, std = model.predict(X_test, return_std=True)
        found["rmse"] = common.rmse(y_test, mean)
        found["log_density"] = common.log_density(y_test, mean, std)
        found["coverage"] = float(np.mean(np.abs(y_test - mean) <= frames.NORMAL_95 * std))
    else:
        found["rmse"] = common.rmse(y_test, model.predict(X_test))
    found["posterior"] = str(getattr(model, "posterior_", None))[:40]
    return found | {"n": len(y), "d": X.shape[1], "machine": common.machine()}


def measured(script, args, name, split, method):
    """The entry of a table, a split and a method, by a script whose ``--worker`` fits it."""
    python = args.peers_python if method == "CatBoost" else sys.executable
    checkout = args.before if method == "before" else common.HERE.parents[1]
    words = [python, script, "--worker", method, "--data", args.data, "--tables", name]
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(checkout)}
    try:
        answer = subprocess.run(
            [*map(str, words), "--splits", str(split)],
            env=os.environ | alone,
            capture_output=True,
            text=True,
            check=True,
            timeout=args.limit,
        )
    except subprocess.TimeoutExpired as error:
        return {"failed": f"not ended after {error.timeout:g} seconds"}
    except subprocess.CalledProcessError as error:
        return {"failed": error.stderr.strip().split("\n")[-1][:300]}
    return json.loads(answer.stdout.split("\n")[-2]) | {"commit": common.commit(checkout)}


def run(args, script=__file__, store=STORE):
    for split, name, method in product(args.splits, args.tables, args.methods):
        is_possible = args.before if method == "before" else True
        is_possible = args.peers_python if method == "CatBoost" else is_possible
        if is_possible:
            key = f"{name}/{split}/{method}"
            measure = lambda: measured(script, args, name, split, method)  # noqa: B023, E731
            common.once(store, key, measure, args.again)


# -- the report ------------------------------------------------------------------------


def ratio(entries, names, what, method):
    """Geometric mean of the ratio of `now` to a method, and how many tables have both.

    The numbers of a table are means over the splits that both have.
    """
    logs = []
    for name in names:
        now, other = (frames.by_split(entries, name, one, what) for one in ("now", method))
        shared = now.keys() & other.keys()
        if shared:
            logs.append(np.log(sum(now[k] for k in shared) / sum(other[k] for k in shared)))
    return (float(np.exp(np.mean(logs))), len(logs)) if logs else (np.nan, 0)


def verdicts(entries):
    """A sentence for each kind of table and other method."""
    kinds = (("numbers", NUMBERS + OF_NUMBERS_ALONE, "rmse"), ("labels", LABELS, "log_loss"))
    for (kind, names, what), method in product(kinds, METHODS[1:]):
        score, count = ratio(entries, names, what, method)
        if count:
            seconds = ratio(entries, names, "cpu_seconds", method)[0]
            yield (
                f"- {kind}, beside {method} ({count} tables): {SCORES[what]} {score:.3f} times, "
                f"CPU seconds {seconds:.2f} times (geometric means)."
            )


def scores(entries, names, whats, methods=METHODS):
    rows = []
    for name, method in product(names, methods):
        found = [frames.by_split(entries, name, method, what) for what in whats]
        if any(found):
            means = [f"{np.mean([*one.values()]):.4g}" if one else None for one in found]
            rows.append([name, method, " ".join(sorted(max(found, key=len))), *means])
    return common.table(["table", "method", "splits", *whats], rows)


def render():
    entries = common.read_json(STORE)
    whats = ("rmse", "log_density", "coverage", "cpu_seconds")
    parts = ["\n".join(verdicts(entries))]
    parts += ["## Numbers", scores(entries, NUMBERS + OF_NUMBERS_ALONE, whats)]
    parts += ["## Labels", scores(entries, LABELS, ("log_loss", "cpu_seconds"))]
    parts += [f"{key}: {one['failed']}" for key, one in entries.items() if "failed" in one]
    done = {key: one for key, one in entries.items() if "commit" in one}
    splits = sorted({int(key.split("/")[1]) for key in done})
    told = [f"Means over the splits {', '.join(map(str, splits))} that were run"]
    common.write_report("wild.md", "Everyday tables", *parts, *common.about_runs(done, told))


def arguments(doc, tables, methods):
    """The arguments of a script whose every fit is a process of its own."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--data", type=Path)
    common.add_peers(parser)
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--tables", nargs="+", default=tables)
    parser.add_argument("--methods", nargs="+", default=methods)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of one fit")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = arguments(__doc__, NUMBERS + OF_NUMBERS_ALONE + LABELS, METHODS)
    if args.worker:
        print(json.dumps(work(args)))
        return
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()

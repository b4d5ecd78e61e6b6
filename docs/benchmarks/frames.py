"""Tables with types: data frames as they are, beside columns of 0 and 1, and beside boosting.

Tables of the folder `frames` of the data, whose `frames.json` says target, kind and categories.
Of a random split, a fifth of the rows is tested, and at most 20,000 of the others are learned.
Numbers are in units of the standard deviation of the training targets. Methods:

- `frame`: `SparseGPRegressor(random_state=0)` or `SparseGPClassifier`, fitted to the data frame.
- `one-hot`: the same after a column of 0 and 1 for each level, and means in the place of missing
  numbers.
- `CatBoost` and `HistGradientBoosting` at their defaults, with native categories and missing
  values.

With `--missing`, also 10 and 30 % of the values of three tables of numbers missing, at random, and
where the value is large (an entry is missing with a probability proportional to its rank): `frame`
takes NaN, `imputed` is the same estimator after means, and `complete` is that of complete data.

Of labels: log loss and the share of errors. Of numbers: root mean squared error, mean log density
(noise included), and the share of test targets in the central 95 % interval. And CPU seconds of fit
and predictions. Every fit runs in a process of its own, on one core. ::

    python frames.py --data DIR --peers-python PATH --missing
    python frames.py --data DIR --tables car --methods frame --splits 0 --again
    python frames.py --render

Each (table, split, method) is one entry of results/frames.json; see `neighbours.py` for `--again`.
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
import numpy as np
import ours

STORE = common.RESULTS / "frames.json"
NUMBERS = ("autos", "mpg", "house_prices", "abalone", "diamonds")
LABELS = ("horse_colic", "credit_a", "soybean", "titanic", "german", "car")
LABELS += ("mushroom", "nursery", "adult")
OF_NUMBERS_ALONE = ("housing", "concrete", "cal_housing")
MISSING = ("random 10", "random 30", "large 10", "large 30")
TOO_LONG = ("soybean/CatBoost",)  # 19 classes of 35 categories: more than 15 minutes
METHODS = ("frame", "one-hot", "CatBoost", "HistGradientBoosting")
MOST_ROWS = 20_000
NORMAL_95 = 1.959964  # standard deviations
SMALLEST = 1e-15  # probability
LEVEL = 0.01  # by which a table may be worse


# -- data ------------------------------------------------------------------------------


def load(folder, name, split):
    """Training and test frames and targets, and the names of the categories."""
    import pandas as pd

    about = json.loads((folder / "frames" / "frames.json").read_text())[name]
    frame = pd.read_csv(folder / "frames" / f"{name}.csv.gz")
    frame = frame.drop(columns="is_test", errors="ignore")
    y = frame.pop(about["target"]).to_numpy()
    for column in about["categories"]:
        known = frame[column].notna()
        frame[column] = frame[column].astype(str).where(known, None).astype("category")
    train, test = split_of(len(y), split)
    y, y_test = y[train], y[test]
    if about["kind"] == "numbers":
        y, y_test = common.standardise(y.astype(float), y_test.astype(float))
    return frame.iloc[train], y, frame.iloc[test], y_test, about["categories"]


def split_of(n, split):
    """Rows of training and of test."""
    order = np.random.RandomState(split).permutation(n)
    return order[n // 5 :][:MOST_ROWS], order[: n // 5]


def with_missing(folder, name, split):
    """The same of a table of numbers, "NAME, KIND SHARE", of whose values some are missing."""
    import pandas as pd

    table, _, missing = name.partition(", ")
    X, y = common.load(folder, table)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    train, test = split_of(len(y), split)
    y, y_test = common.standardise(y[train], y[test])
    if missing:
        kind, share = missing.split()
        rng, p = np.random.RandomState(split), float(share) / 100
        if kind == "large":
            p = 2.0 * p * frame.rank(pct=True).to_numpy()
        frame = frame.mask(rng.uniform(size=X.shape) < p)
    return frame.iloc[train], y, frame.iloc[test], y_test, []


# -- one fit, in a process of its own --------------------------------------------------


def behind_columns(model, frame, categories):
    """A pipeline: a column for each level, and means of numbers."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    numbers = [column for column in frame if column not in categories]
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    parts = [("categories", levels, categories), ("numbers", SimpleImputer(), numbers)]
    return make_pipeline(ColumnTransformer(parts), model)


def estimator(method, labels, frame, categories):
    """An unfitted estimator; frames may have to be changed for it, by a function."""
    if method in ("frame", "one-hot", "imputed", "complete"):
        model = ours.default_classifier() if labels else ours.default_regressor()
        has_own = method in ("frame", "complete")
        return model if has_own else behind_columns(model, frame, categories)
    kind = "Classifier" if labels else "Regressor"
    if method == "CatBoost":
        import catboost

        options = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
        make = getattr(catboost, f"CatBoost{kind}")
        return make(cat_features=list(categories), random_seed=0, **options)
    from sklearn import ensemble

    make = getattr(ensemble, f"HistGradientBoosting{kind}")
    return make(categorical_features="from_dtype", random_state=0)


def as_taken(method, frame, categories):
    """The frame as a method takes it."""
    if method != "CatBoost":
        return frame
    text = {column: frame[column].astype(object).fillna("missing") for column in categories}
    return frame.assign(**text)


def work(args):
    """Scores and seconds of one fit."""
    name, split, method = args.tables[0], args.splits[0], args.worker
    read = load if name in NUMBERS + LABELS else with_missing
    X, y, X_test, y_test, categories = read(args.data, name, split)
    labels = name in LABELS
    X, X_test = (as_taken(method, frame, categories) for frame in (X, X_test))
    model = estimator(method, labels, X, categories)
    warnings.simplefilter("ignore")
    if method != "CatBoost":
        ours.warm_up(labels)
    start = time.process_time()
    model.fit(X, y)
    if labels:
        probabilities = model.predict_proba(X_test)
        place = np.searchsorted(model.classes_, y_test)
        of_truth = probabilities[np.arange(len(place)), place]
        found = {"log_loss": float(-np.mean(np.log(np.maximum(of_truth, SMALLEST))))}
        found["error"] = float(np.mean(probabilities.argmax(axis=1) != place))
    elif method in ("CatBoost", "HistGradientBoosting"):
        found = {"rmse": common.rmse(y_test, model.predict(X_test))}
    else:
        mean, std = model.predict(X_test, return_std=True)
        found = {"rmse": common.rmse(y_test, mean)}
        found["log_density"] = common.log_density(y_test, mean, std)
        found["coverage"] = float(np.mean(np.abs(y_test - mean) <= NORMAL_95 * std))
    found["cpu_seconds"] = time.process_time() - start
    last = model[-1] if hasattr(model, "steps") else model
    about = {"posterior": getattr(last, "posterior_", None), "kernel": str(kernel_of(last))[:600]}
    return found | about | {"n": len(y), "n_test": len(y_test), "machine": common.machine()}


def kernel_of(model):
    return getattr(model, "kernel_", "")


def measured(args, name, split, method):
    """The entry of a table, a split and a method."""
    python = args.peers_python if method == "CatBoost" else sys.executable
    words = [python, __file__, "--worker", method, "--data", args.data, "--tables", name]
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    path = {"PYTHONPATH": str(common.HERE.parents[1])}
    try:
        answer = subprocess.run(
            [*map(str, words), "--splits", str(split)],
            env=os.environ | alone | path,
            capture_output=True,
            text=True,
            check=True,
            timeout=args.limit,
        )
    except subprocess.TimeoutExpired as error:
        return {"failed": f"not ended after {error.timeout:g} seconds"}
    except subprocess.CalledProcessError as error:
        return {"failed": error.stderr.strip().split("\n")[-1][:300]}
    return json.loads(answer.stdout.split("\n")[-2]) | {
        "commit": common.commit(common.HERE.parents[1])
    }


def run(args):
    tables = [(name, method) for name in args.tables for method in args.methods]
    if args.missing:
        named = [f"{name}, {missing}" for name in OF_NUMBERS_ALONE for missing in MISSING]
        tables += product(named, ("frame", "imputed", "HistGradientBoosting"))
        tables += product(OF_NUMBERS_ALONE, ("complete", "HistGradientBoosting"))
    for split, (name, method) in product(args.splits, tables):
        if f"{name}/{method}" in TOO_LONG:
            continue
        if method != "CatBoost" or args.peers_python:
            key = f"{name}/{split}/{method}"
            measure = lambda: measured(args, name, split, method)  # noqa: B023, E731
            common.once(STORE, key, measure, args.again)


# -- the report ------------------------------------------------------------------------


def by_split(entries, name, method, what):
    """Numbers of a table and a method by split."""
    keys = {key: key.split("/") for key, one in entries.items() if what in one}
    return {
        k: entries[key][what] for key, (of, k, by) in keys.items() if (of, by) == (name, method)
    }


def mean_of(entries, name, method, what):
    """The mean over splits, None where there is none."""
    found = by_split(entries, name, method, what)
    return float(np.mean([*found.values()])) if found else None


def pair_of(entries, name, what, methods):
    """Means of two methods over the splits that both have, None where there is none."""
    first, second = (by_split(entries, name, one, what) for one in methods)
    shared = first.keys() & second.keys()
    return [float(np.mean([one[k] for k in shared])) for one in (first, second)] if shared else None


def scores(entries, names, whats, methods):
    rows = []
    for name, method in product(names, methods):
        values = [mean_of(entries, name, method, what) for what in whats]
        if any(value is not None for value in values):
            splits = sorted(map(int, by_split(entries, name, method, "cpu_seconds")))
            numbers = (None if v is None else f"{v:.4g}" for v in values)
            rows.append([name, method, " ".join(map(str, splits)), *numbers])
    return common.table(["table", "method", "splits", *whats], rows)


def pairs(entries, names, what, first, second):
    found = {name: pair_of(entries, name, what, (first, second)) for name in names}
    return {name: pair for name, pair in found.items() if pair is not None}


def verdict(entries):
    """What the frame gains."""
    loss = pairs(entries, LABELS, "log_loss", "frame", "one-hot")
    density = pairs(entries, NUMBERS, "log_density", "frame", "one-hot")
    ratio = np.exp(np.mean([np.log(a / b) for a, b in loss.values()]))
    gains = {name: b - a for name, (a, b) in loss.items()}
    gains |= {name: a - b for name, (a, b) in density.items()}
    worst = min(gains, key=gains.get)
    cpu = pairs(entries, NUMBERS + LABELS, "cpu_seconds", "frame", "one-hot")
    times = {name: a / b for name, (a, b) in cpu.items()}
    slowest = max(times, key=times.get)
    beside = {}
    for names, what in ((LABELS, "log_loss"), (NUMBERS, "rmse")):
        for name, pair in pairs(entries, names, what, "frame", "CatBoost").items():
            beside[name] = common.outcome(*pair, what)
    won, level, lost = ([n for n, one in beside.items() if one == sign] for sign in (1, 0, -1))
    return (
        f"Log loss of `frame` is {ratio:.3f} times that of `one-hot` (geometric mean of "
        f"{len(loss)} tables), and its log density is higher by "
        f"{np.mean([gains[name] for name in density]):+.3f} on average ({len(density)} tables). "
        f"The table that gains least is {worst} ({gains[worst]:+.4f}); "
        f"{sum(gain < -LEVEL for gain in gains.values())} are worse by more than {LEVEL}. CPU "
        f"seconds are {np.exp(np.mean(np.log([*times.values()]))):.2f} times as many (geometric "
        f"mean), at most {times[slowest]:.2f} ({slowest}). Beside CatBoost, `frame` has smaller "
        f"errors or a lower log loss on {len(won)} of {len(beside)} tables ({', '.join(won)}), is "
        f"level on {len(level)} ({', '.join(level)}; within 1 % or 0.01 nats) and behind on "
        f"{len(lost)} ({', '.join(lost)})."
    )


def missing_table(entries):
    rows = []
    for name, missing in product(OF_NUMBERS_ALONE, MISSING):
        key = f"{name}, {missing}"
        row = [name, missing]
        for what in ("rmse", "log_density"):
            row += [mean_of(entries, key, one, what) for one in ("frame", "imputed")]
            row.append(mean_of(entries, name, "complete", what))
        row.append(mean_of(entries, key, "HistGradientBoosting", "rmse"))
        row.append(mean_of(entries, name, "HistGradientBoosting", "rmse"))
        rows.append([one if isinstance(one, str) or one is None else f"{one:.3f}" for one in row])
    header = ["table", "missing (%)"]
    for what in ("RMSE", "density"):
        header += [f"{what} frame", "imputed", "complete"]
    return common.table([*header, "RMSE HistGB", "HistGB complete"], rows)


def render():
    entries = common.read_json(STORE)
    labels = scores(entries, LABELS, ("log_loss", "error", "cpu_seconds"), METHODS)
    whats = ("rmse", "log_density", "coverage", "cpu_seconds")
    numbers = scores(entries, NUMBERS, whats, METHODS)
    failed = [f"{key}: {one['failed']}" for key, one in entries.items() if "failed" in one]
    parts = [verdict(entries), "## Labels", labels, "## Numbers", numbers]
    parts += ["## Missing values", missing_table(entries), *failed]
    commits = sorted({one["commit"] for one in entries.values() if "commit" in one})
    machines = sorted({one["machine"] for one in entries.values() if "machine" in one})
    about = "Means over the splits; comparisons are those of splits that both methods have."
    parts.append(f"{about} Commits {', '.join(commits)}. {' '.join(machines)}")
    common.write_report("frames.md", "Tables with types", *parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    common.add_peers(parser)
    parser.add_argument("--tables", nargs="+", default=NUMBERS + LABELS)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of one fit")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(work(args)))
        return
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()

"""Default fits beside gradient boosting and other Gaussian processes.

Every table of the data folder with more than 2,000 rows. Inputs are standardised by the columns of
the training rows, and numbers by their mean and standard deviation, so that errors and log
densities are in units of std(y). Of several targets the first is taken: the torque of the first
joint of panda and sarcos, the current of that of ur10e. Test rows are those of a split; where a
table has no splits, a random tenth of its rows, at most 20,000. Three splits of tables below
20,000 rows, otherwise one. Categories of tables with types become columns of 0 and 1. Methods:

- `default` is `SparseGPRegressor(random_state=split)` or `SparseGPClassifier`.
- `CatBoost` and `HistGradientBoosting` at their defaults, learned from all training rows. Their
  densities are normal with one variance, the mean squared error of a random tenth of the training
  rows after another fit of the other rows, whose time does not count.
- `GPBoost Vecchia`, `GPyTorch VNNGP` and `xRFM` on eight tables: see `peers.py`. A fit that has not
  ended after `--peer-limit` seconds is a dash.

Of numbers: root mean squared error, mean log density (noise included) and the share of test targets
in the central 95 % interval; of labels: log loss and the share of errors. And seconds of the fit
and of all predictions, CPU seconds of both, which other programs on the machine disturb less, and
the resident memory of the process at most (Linux only). Every fit runs in a process of its own,
which is ended after `--limit` seconds: an entry then says that it failed, and why. ::

    python neighbours.py --data DIR --peers-python PATH
    python neighbours.py --data DIR --tables kin40k pol --methods default --splits 0 --again
    python neighbours.py --data DIR --tables pol --rows 1000 --methods default   # a trial
    python neighbours.py --render                                          # the tables alone

Each (table, split, method) is one entry of results/neighbours.json; entries that are there already
are not computed again, unless with `--again`, which replaces them and no others.
"""

import argparse
import json
import subprocess
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import common
import numpy as np
import ours
import peers

STORE = common.RESULTS / "neighbours.json"
NUMBERS = ("gas", "skillcraft", "sml", "sarcos", "parkinsons", "pol", "elevators", "bike")
NUMBERS += ("bikeshare_counts", "cal_housing", "panda", "kin40k", "tamielectric", "keggdirected")
NUMBERS += ("ur10e", "beijing_air", "flights", "srtm_n27e086", "abalone", "diamonds")
LABELS = ("spambase", "banana", "phoneme", "usps", "eeg", "htru2", "adult", "mnist")
LABELS += ("mushroom", "nursery")
FRAMES = ("abalone", "diamonds", "mushroom", "nursery")  # tables with types
FEW = ("sarcos", "pol", "elevators", "bike", "cal_housing", "panda", "kin40k", "keggdirected")
ONE_SPLIT = 20_000  # rows from which a table has one split
MOST_TESTED = 20_000  # rows of tables without splits
MOST_ROWS = 50_000  # of training, of tables whose seconds are summed up
NORMAL_95 = 1.959964  # standard deviations


# -- data ------------------------------------------------------------------------------


def read(folder, name):
    """X, y, of labels the classes counted from 0, and the masks of test rows or None."""
    if name in FRAMES:
        X, y, masks = *read_frame(folder / "frames", name), None
    else:
        with np.load(folder / f"{name}.npz") as f:
            X = np.ascontiguousarray(f["X"], dtype=np.float64)
            y, masks = f["y"], f["test_masks"] if "test_masks" in f.files else None
    y = y if y.ndim == 1 else y[:, 0]
    y = np.unique(y, return_inverse=True)[1] if name in LABELS else y.astype(np.float64)
    return X, y, masks


def read_frame(folder, name):
    """X with a column of 0 and 1 for each value of a category, and y."""
    import pandas as pd

    about = json.loads((folder / "frames.json").read_text())[name]
    frame = pd.read_csv(folder / f"{name}.csv.gz")
    y = frame.pop(about["target"]).to_numpy()
    return pd.get_dummies(frame, columns=about["categories"]).to_numpy(np.float64), y


def test_rows(n, masks, split):
    """Mask of the test rows."""
    if masks is not None:
        return masks[:, split]
    test = np.zeros(n, dtype=bool)
    test[np.random.RandomState(split).permutation(n)[: min(n // 10, MOST_TESTED)]] = True
    return test


def splits_of(folder, name):
    """Those that are measured."""
    _, y, masks = read(folder, name)
    known = 3 if masks is None else masks.shape[1]
    return range(min(known, 3 if len(y) < ONE_SPLIT else 1))


def load(folder, name, split, rows=None):
    """Standardised X, y, X_test, y_test; labels as they are; at most `rows` random rows of each."""
    X, y, masks = read(folder, name)
    test = test_rows(len(X), masks, split)
    train, test = (at_random(np.flatnonzero(part), rows) for part in (~test, test))
    X, X_test = common.standardise(X[train], X[test])
    y, y_test = y[train], y[test]
    if name not in LABELS:
        y, y_test = common.standardise(y, y_test)
    return X, y, X_test, y_test


def at_random(rows, most):
    return rows if most is None else np.random.RandomState(0).permutation(rows)[:most]


# -- one fit, in a process of its own --------------------------------------------------


def scores(y_test, mean, std):
    return {
        "rmse": common.rmse(y_test, mean),
        "log_density": common.log_density(y_test, mean, std),
        "coverage": float(np.mean(np.abs(y_test - mean) <= NORMAL_95 * std)),
    }


def label_scores(y_test, probabilities):
    error = float(np.mean(probabilities.argmax(axis=1) != y_test))
    return {"log_loss": common.nlpd(y_test, probabilities), "error": error}


def work_of_ours(args, split, labels, data):
    """Scores and seconds of the default of the package that is in `args.package`."""
    ours.check_package(args.package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.warm_up(labels)
    X, y, X_test, y_test = data
    model = ours.default_classifier() if labels else ours.default_regressor()
    model.set_params(random_state=split)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clock = peers.Laps()
        model.fit(X, y)
        seconds = clock.lap("fit")
        answer = model.predict_proba(X_test) if labels else ours.observed(model, X_test)
        seconds |= clock.lap("predict")
    found = label_scores(y_test, answer) if labels else scores(y_test, *answer)
    told = sorted({" ".join(str(one.message).split())[:160] for one in caught})
    about = {"posterior": getattr(model, "posterior_", None), "warnings": told}
    return found | seconds | about | {"kernel": str(model.kernel_)[:400]}


def work_of_boosting(args, split, labels, data):
    from sklearn import ensemble

    kind = "Classifier" if labels else "Regressor"
    make = getattr(ensemble, f"HistGradientBoosting{kind}")
    return peers.boosted(partial(make, random_state=split), labels, split, *data[:3])


WORK = {"default": work_of_ours, "HistGradientBoosting": work_of_boosting}


def work(args):
    """The answer of one process: of our own methods scores, of boosting what it predicts."""
    name, split = args.tables[0], args.splits[0]
    data = load(args.data, name, split, args.rows)
    found = WORK[args.worker](args, split, name in LABELS, data)
    return found | {"peak_mb": peers.peak_mb(), "machine": common.machine()}


# -- the methods -----------------------------------------------------------------------


def in_own_process(folder, method, args, name, split):
    words = ["--worker", method, "--data", args.data, "--tables", name, "--splits", split]
    words += ["--package", Path(folder).resolve()] + (["--rows", args.rows] if args.rows else [])
    found = common.run_version(folder, "neighbours.py", *words, patience=args.limit)
    return found | ({} if method == "HistGradientBoosting" else {"commit": common.commit(folder)})


def of_this(method, args, name, split):
    return in_own_process(common.HERE.parents[1], method, args, name, split)


def of_peer(command, args, name, split):
    """What a peer predicts, nothing without peers."""
    if not args.peers_python:
        return None
    names = ("X", "y", "X_test")
    problem = dict(zip(names, load(args.data, name, split, args.rows))) | {"labels": name in LABELS}
    limit = args.limit if command == "catboost" else args.peer_limit
    return common.run_peer(args.peers_python, command, problem, limit) | {
        "machine": common.machine()
    }


def of_few(command, args, name, split):
    return of_peer(command, args, name, split) if name in FEW and split == 0 else None


METHODS = {
    "default": partial(of_this, "default"),
    "CatBoost": partial(of_peer, "catboost"),
    "HistGradientBoosting": partial(of_this, "HistGradientBoosting"),
    "GPBoost Vecchia": partial(of_few, "gpboost-fit-predict"),
    "GPyTorch VNNGP": partial(of_few, "gpytorch-vnngp-fit-predict"),
    "xRFM": partial(of_few, "xrfm-fit-predict"),
}


def measured(method, args, name, split):
    """The entry of a table, a split and a method; nothing where the method does not apply."""
    try:
        found = METHODS[method](args, name, split)
    except subprocess.TimeoutExpired as error:
        found = {"failed": f"not ended after {error.timeout:g} seconds"}
    except subprocess.CalledProcessError as error:
        found = {"failed": f"ended with status {error.returncode}"}
    return found and with_scores(found, load(args.data, name, split, args.rows), name in LABELS)


def with_scores(found, data, labels):
    """The entry with sizes, and with scores in place of predictions."""
    if labels and "probability" in found:
        found |= label_scores(data[3], np.array(found.pop("probability")))
    elif "mean" in found:
        found |= scores(data[3], np.array(found.pop("mean")), np.array(found.pop("std")))
    return found | {"n": len(data[0]), "d": data[0].shape[1], "n_test": len(data[3])}


def run(args):
    """One fit after another: all methods of a split before those of the next."""
    splits = {name: args.splits or splits_of(args.data, name) for name in args.tables}
    for split, name, method in product(range(3), args.tables, args.methods):
        if split in splits[name]:
            measure = partial(measured, method, args, name, split)
            common.once(STORE, f"{name}/{split}/{method}", measure, args.again)


# -- the report ------------------------------------------------------------------------


SCORES = {"rmse": "RMSE", "log_density": "log density", "coverage": "in 95 %"}
LABEL_SCORES = {"log_loss": "log loss", "error": "error"}
COSTS = {"fit_seconds": "fit (s)", "predict_seconds": "predict (s)", "peak_mb": "MB"}
COSTS |= {"fit_cpu_seconds": "fit (CPU s)"}
BY_METHOD = {"log_density": NUMBERS, "rmse": NUMBERS, "log_loss": LABELS}
ON_ALL = ("default", "CatBoost", "HistGradientBoosting")  # methods of all tables
ON_FEW = ("default", "GPBoost Vecchia", "GPyTorch VNNGP", "xRFM")


def of_splits(entries, name, method):
    """{split: entry} of a table and a method, of the splits that did not fail."""
    found = {split: entries.get(f"{name}/{split}/{method}") for split in range(3)}
    return {split: one for split, one in found.items() if one and "failed" not in one}


def average(found, what):
    values = [one[what] for one in found.values() if one.get(what) is not None]
    return float(np.mean(values)) if values else None


def number(value, what):
    """Digits that matter: more of errors, which may be small, fewer of costs."""
    if value is None:
        return None
    return f"{value:.{digits(value, what)}f}"


def digits(value, what):
    if what in COSTS:
        return 0 if value >= 10 else 2
    return 4 if what in ("rmse", "error") else 3


def method_row(entries, name, method, columns):
    """A line of a table; None where the method was not tried."""
    if not any(f"{name}/{split}/{method}" in entries for split in range(3)):
        return None
    found = of_splits(entries, name, method)
    n = round(average(found, "n")) if found else None
    named = np.hstack([one.get("posterior") or "" for one in found.values()] or [""])
    posterior = ", ".join(sorted(set(named)))
    values = [number(average(found, what), what) for what in columns]
    return [name, method, n, len(found), *values, posterior or None]


def quality(entries, names, columns):
    """The table of all methods: means over the splits."""
    columns = columns | COSTS
    rows = [method_row(entries, *pair, columns) for pair in product(names, METHODS)]
    header = ["table", "method", "n", "splits", *columns.values(), "posterior_"]
    return common.table(header, [row for row in rows if row])


def paired(entries, name, what, *methods):
    """Means of methods over the splits that all of them have; None where there is none."""
    found = [of_splits(entries, name, method) for method in methods]
    splits = set.intersection(*map(set, found))
    return [average({s: one[s] for s in splits}, what) for one in found] if splits else None


def by_method(entries, names, what, methods):
    """One line for each table, with a score of every method: means over the same splits."""
    rows = []
    for name in names:
        found = {method: of_splits(entries, name, method) for method in methods}
        known = [set(one) for one in found.values() if one]
        if known:
            splits = sorted(set.intersection(*known))
            same = [{s: one[s] for s in splits if s in one} for one in found.values()]
            scores = [number(average(one, what), what) for one in same]
            rows.append([name, " ".join(map(str, splits)), *scores])
    return common.table(["table", "splits", *methods], rows)


def outcome_line(entries, names, what, method):
    """How often the default is better, level or worse."""
    pairs = {name: paired(entries, name, what, "default", method) for name in names}
    found = {name: common.outcome(*pair, what) for name, pair in pairs.items() if pair}
    counts = [list(found.values()).count(value) for value in (1, 0, -1)]
    lost = ", ".join(name for name, value in found.items() if value < 0)
    title = (SCORES | LABEL_SCORES)[what]
    yield (
        f"{title[0].upper()}{title[1:]} beside {method}, {len(found)} tables: better on "
        f"{counts[0]}, level on {counts[1]}, worse on {counts[2]}{f' ({lost})' if lost else ''}."
    )


def seconds_line(entries):
    found = [of_splits(entries, name, "default") for name in (*NUMBERS, *LABELS)]
    small = [one for one in found if one and average(one, "n") <= MOST_ROWS]
    seconds = [average(one, "fit_seconds") for one in small]
    if seconds:
        spread = f"{np.median(seconds):.0f} at the median, {max(seconds):.0f} at most"
        yield f"Seconds of default fits of up to {MOST_ROWS:,} rows: {spread}."


def coverage_line(entries):
    shares = {name: average(of_splits(entries, name, "default"), "coverage") for name in NUMBERS}
    shares = {name: share for name, share in shares.items() if share is not None}
    if shares:
        low, mean = min(shares, key=shares.get), np.mean(list(shares.values()))
        yield f"Test targets in 95 % intervals: {mean:.1%} on average, {shares[low]:.1%} of {low}."


def summary(entries):
    """What the default is held to, in sentences."""
    for what, names in BY_METHOD.items():
        for method in ON_ALL[1:]:
            yield from outcome_line(entries, names, what, method)
    yield from coverage_line(entries)
    yield from seconds_line(entries)


def failures(entries):
    for key, entry in sorted(entries.items()):
        if "failed" in entry:
            yield f"- {key}: {entry['failed']}."


def render():
    entries = common.read_json(STORE)
    about = (
        "Means in units of std(y). Tables of one score: over the splits that all methods of the "
        "table share. The others: over all splits of a method. Level: within 1 % of an error, or "
        "0.01 nats. n: training rows; MB: resident memory of the process at most, data included. "
        "Seconds of boosting on split 0 are upper limits, because other programs ran beside. VNNGP "
        "has the 20 epochs of the example in its documentation, after which it has not converged: "
        "its scores say what that example reaches, not what the model can. The targets of bike and "
        "parkinsons are sums of columns, which a Gaussian process finds and trees do not."
    )
    parts = [about, *summary(entries)]
    for what, names in BY_METHOD.items():
        title = (SCORES | LABEL_SCORES)[what]
        title = f"{title[0].upper()}{title[1:]}"
        parts += [f"## {title}", by_method(entries, names, what, ON_ALL)]
        if names is NUMBERS:
            few = by_method(entries, FEW, what, ON_FEW)
            parts += [f"## {title} beside other Gaussian processes and xRFM", few]
    parts += ["## Seconds and memory: numbers", quality(entries, NUMBERS, SCORES)]
    parts += ["## Seconds and memory: labels", quality(entries, LABELS, LABEL_SCORES)]
    failed = "\n".join(failures(entries))
    parts += ["## Fits without a result", failed] if failed else []
    known = {key: {"commit": "of a peer"} | entry for key, entry in entries.items()}
    runs = common.about_runs({key: one for key, one in known.items() if "machine" in one})
    title = "Default fits beside boosting and other processes"
    common.write_report("neighbours.md", title, *parts, *runs)


# -- command line ----------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    common.add_peers(parser)
    parser.add_argument("--tables", nargs="+", choices=NUMBERS + LABELS, default=NUMBERS + LABELS)
    parser.add_argument("--splits", nargs="+", type=int, help="default: those that a table has")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of a process")
    parser.add_argument("--peer-limit", type=float, default=300.0, help="of other processes")
    parser.add_argument("--rows", type=int, help="at most so many of each part, for a trial")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    parser.add_argument("--worker", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--package", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    args.data = Path(args.data or ".").resolve()
    return args


def main():
    args = parse()
    if args.worker:
        print(json.dumps(work(args)))
        return
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()

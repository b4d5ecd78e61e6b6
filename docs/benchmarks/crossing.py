"""Where `n_inducing="auto"` changes from the exact process to inducing points.

On random rows of the training part of several tables (split 0), default estimators with every
row an inducing point (exact) and with as many inducing points as "auto" takes above the border
(sparse): seconds of fit, one after the other, and held-out scores. ::

    python crossing.py --data DIR
    python crossing.py --data DIR --kinds classification --rows 300 500
    python crossing.py --render

Each pair of fits is one entry of results/crossing.json; entries that are there are not computed
again, unless with `--again`.
"""

import argparse
import warnings

import common
import numpy as np
import ours

STORE = common.RESULTS / "crossing.json"
TABLES = {
    "regression": ("kin40k", "elevators", "pol", "skillcraft", "parkinsons", "sarcos"),
    "classification": ("phoneme", "spambase", "banana", "eeg"),
}
ROWS = {"regression": (1000, 1500, 2000, 3000, 4000), "classification": (300, 500, 700, 1000)}
POINTS = {"regression": 500, "classification": 200}


def data_of(args, kind, name, n):
    if kind == "classification":
        X, y, X_test, y_test = common.labelled_split(args.data, name, 0)
    elif name == "sarcos":
        X, y, X_test, y_test = sarcos(args.data)
    else:
        X, y, X_test, y_test = common.load(args.data, name, 0)
    rows = np.random.RandomState(0).permutation(len(X))[:n]
    return X[rows], y[rows], X_test, y_test


def sarcos(folder):
    """The first torque, with a random tenth of the rows as the test part."""
    X, y = common.load(folder, "sarcos")
    order = np.random.RandomState(0).permutation(len(X))
    test, train = order[: len(X) // 10], order[len(X) // 10 :]
    return X[train], y[train, 0], X[test], y[test, 0]


def fit(kind, data, n_inducing):
    X, y, X_test, y_test = data
    estimator = ours.default_regressor if kind == "regression" else ours.default_classifier
    model = estimator().set_params(n_inducing=n_inducing)
    seconds = common.seconds_of(lambda: model.fit(X, y))
    if kind == "classification":
        score = -common.nlpd(y_test, model.predict_proba(X_test))
    else:
        mean, std = ours.observed(model, X_test)
        unit = np.std(y)
        score = common.log_density(y_test / unit, mean / unit, std / unit)
    return {"seconds": round(seconds, 3), "score": score, "iterations": model.n_iter_}


def run(args):
    done = common.read_json(STORE)
    for kind in args.kinds:
        for name in TABLES[kind]:
            for n in args.rows or ROWS[kind]:
                key = f"{kind}/{name}/{n}"
                if args.again or key not in done:
                    run_one(args, kind, name, n, key)


def run_one(args, kind, name, n, key):
    data = data_of(args, kind, name, n)
    if len(data[0]) < n:
        return
    sizes = {"exact": n, "sparse": POINTS[kind]}
    entry = {way: fit(kind, data, size) for way, size in sizes.items()}
    common.store(STORE, key, entry)
    common.progress(key, entry)


def render():
    entries = common.read_json(STORE)
    parts = ["Scores are mean held-out log densities (standardised units; minus the log loss)."]
    for kind, names in TABLES.items():
        rows = []
        for key in [f"{kind}/{name}/{n}" for name in names for n in ROWS[kind]]:
            if key in entries:
                rows.append(row(key, entries[key]))
        header = [
            "table",
            "n",
            "exact (s)",
            "sparse (s)",
            "exact / sparse",
            "score exact",
            "sparse",
        ]
        parts += [f"## {kind.title()}, {POINTS[kind]} inducing points", common.table(header, rows)]
        parts.append(means(kind, entries))
    common.write_report("crossing.md", "Exact process or inducing points", *parts)


def row(key, entry):
    _, name, n = key.split("/")
    exact, sparse = entry["exact"], entry["sparse"]
    ratio = exact["seconds"] / sparse["seconds"]
    times = [float(exact["seconds"]), float(sparse["seconds"]), ratio]
    return [name, n, *times, exact["score"], sparse["score"]]


def means(kind, entries):
    """Geometric means over the tables, for every number of rows."""
    lines = []
    for n in ROWS[kind]:
        found = [e for key, e in entries.items() if key.startswith(kind) and key.endswith(f"/{n}")]
        if found:
            ratios = [e["exact"]["seconds"] / e["sparse"]["seconds"] for e in found]
            gains = [e["exact"]["score"] - e["sparse"]["score"] for e in found]
            ratio = float(np.exp(np.mean(np.log(ratios))))
            lines.append([str(n), ratio, float(np.mean(gains)), float(np.min(gains))])
    header = ["n", "exact / sparse, seconds", "gain in score, mean", "smallest gain"]
    return common.table(header, lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    parser.add_argument("--kinds", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--rows", nargs="+", type=int)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the table")
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

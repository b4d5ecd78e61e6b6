"""What is predicted after how many seconds of fitting, by ours and by others.

kin40k, elevators and pol (regression), phoneme and eeg (classification). The test part of split 0:
mean log density, noise included and in units of the standard deviation of the training targets, or
minus the log loss; and the root mean squared error in the same units, or the share of wrong labels.

- ours, before: the default estimator of this version and of an earlier one, on raw inputs, each in
  a process of its own. Every iteration on all rows leaves a snapshot of the kernel and the inducing
  points; after the fit `--snapshots` of them, at even steps of log seconds, become models. The
  clock starts with `fit`, so the small exact fit and the choice of Z count.
- exact: scikit-learn's exact processes with the kernel from which our default starts, on random
  subsets of 250, 500 ... rows, up to 2,000 (regression) or 1,000; one point each. They end when the
  next one might not be done within `--limit`.
- GPflow SGPR, regression: L-BFGS, as many inducing points as ours, k-means centres, Matern 5/2,
  everything else 1, standardised data.
- GPflow SVGP: the same start (length scales sqrt(d)), by turns a natural-gradient step for q (size
  0.1) and a step of Adam (0.01) for the rest, batches of 256 rows.
- boosting: histogram gradient boosting, one point. For regression it has no density.

Prediction never counts; for GPflow, neither do k-means and compilation. Every method has `--limit`
seconds. ::

    python anytime.py --data DIR --peers-python PATH --before OTHER/CHECKOUT
    python anytime.py --data DIR --datasets phoneme --methods ours --rows 600 --m 20 --limit 3
    python anytime.py --render                       # the tables and the picture alone

Each (data set, split, method) is one entry of results/anytime.json; entries that are there already
are not computed again, unless with `--again`. The table and picture results/anytime.md and .png
take the first split that is there. Leave the machine alone meanwhile.
"""

import argparse
import json
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import common
import numpy as np
import ours
import quality_defaults
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor

STORE = common.RESULTS / "anytime.json"
REGRESSION, CLASSIFICATION = ("kin40k", "elevators", "pol"), ("phoneme", "eeg")
DATASETS = (*REGRESSION, *CLASSIFICATION)
M = 500  # inducing points of the peers where ours has not run
SMALLEST_SUBSET = 250
NEXT_TAKES = 8.0  # times as long, twice the rows
TIMES = (1, 3, 10, 30, 100)  # seconds


# -- data and scores -------------------------------------------------------------------


def load(args, name, split):
    """X, y, X_test, y_test; at most `--rows` of the training rows."""
    has_labels = name in CLASSIFICATION
    X, y, *test = (common.labelled_split if has_labels else common.load)(args.data, name, split)
    few = np.random.RandomState(split).permutation(len(X))[: args.rows]
    return X[few], y[few], *test


def scores(model, name, data):
    """Log density and error of the test part."""
    X, y, X_test, y_test = data
    if name in CLASSIFICATION:
        probabilities = model.predict_proba(X_test)
        wrong = float(np.mean(np.argmax(probabilities, axis=1) != y_test))
        return [-common.nlpd(y_test, probabilities), wrong]
    found = quality_defaults.scores(y, y_test, *ours.observed(model, X_test))
    return [found["log_density"], found["rmse"]]


# -- the methods: (args, name, split, data) -> entry with a trace of [seconds, density, error]


def fit_version(folder, args, name, split):
    """Ours, in a process that imports the package from `folder`."""
    if folder is None:
        return None
    words = ["--worker", folder, "--data", args.data, "--datasets", name, "--splits", split]
    words += ["--limit", args.limit, "--snapshots", args.snapshots]
    words += ["--rows", args.rows] if args.rows else []
    words += ["--m", args.m] if args.m else []
    found = common.run_version(folder, "anytime.py", *words)
    return found | {"commit": common.commit(folder)}


def work(args):
    """The trace of one default fit with the package in `--worker`."""
    ours.check_package(args.worker)
    name, split = args.datasets[0], args.splits[0]
    labels, data = name in CLASSIFICATION, load(args, name, split)
    X, y = data[:2]
    ours.warm_up(labels)
    model = ours.default_classifier() if labels else ours.default_regressor()
    if args.m:
        model.set_params(n_inducing=args.m)
    snapshots = ours.snapshots_of_fit(model, X, y, args.limit)
    trace = [
        [seconds, *scores(ours.at_snapshot(kernel, Z, X, y, labels), name, data)]
        for seconds, kernel, Z in snapshots.chosen(args.snapshots)
    ]
    m = len(snapshots.decode(snapshots.best)[1])
    return {"trace": trace, "steps": len(snapshots.rows) - 1, "n_inducing": m}


def fit_ours(args, name, split, data):
    return fit_version(args.after, args, name, split)


def fit_before(args, name, split, data):
    return fit_version(args.before, args, name, split)


def fit_exact(args, name, split, data):
    X, y = data[:2]
    most = min(args.exact_rows[name in CLASSIFICATION], len(X))
    order, n, trace, sizes = np.random.RandomState(split).permutation(len(X)), 0, [], []
    while n < most and (not trace or NEXT_TAKES * trace[-1][0] < args.limit):
        n = min(max(2 * n, SMALLEST_SUBSET), most)
        model = exact_model(name, X, y)
        seconds = fit_seconds(model, X[order[:n]], y[order[:n]])
        trace.append([seconds, *scores(model, name, data)])
        sizes.append(n)
    return {"trace": trace, "rows": sizes}


def fit_seconds(model, X, y):
    return common.seconds_of(lambda: model.fit(X, y))


def exact_model(name, X, y):
    if name in CLASSIFICATION:
        return GaussianProcessClassifier(ours.initial_latent_kernel(X, y))
    return GaussianProcessRegressor(ours.initial_kernel(X, y), normalize_y=True)


def peers_problem(args, name, split, data):
    """Standardised, with k-means centres; the scores keep their units."""
    X, y, X_test, y_test = data
    labels = name in CLASSIFICATION
    X, X_test = common.standardise(X, X_test)
    if not labels:
        y, y_test = common.standardise(y, y_test)
    m = common.read_json(STORE).get(f"{name}/{split}/ours", {}).get("n_inducing")
    Z = common.kmeans_centres(X, m or args.m or M)
    options = {"gpflow_kernel": "Matern52", "labels": int(labels), "X_test": X_test}
    return common.problem(X, y, Z, y_test=y_test, **options)


def fit_sgpr(args, name, split, data):
    if name in CLASSIFICATION or not args.peers_python:
        return None
    problem = peers_problem(args, name, split, data)
    options = {"limit": args.limit, "iterations": 10_000}
    return common.run_peer(args.peers_python, "gpflow-sgpr-anytime", problem, **options)


def fit_svgp(args, name, split, data):
    if not args.peers_python:
        return None
    problem = peers_problem(args, name, split, data)
    problem["lengthscales"] = np.full(data[0].shape[1], np.sqrt(data[0].shape[1]))
    options = {"gamma": 0.1, "rate": 0.01, "batch": 256, "limit": args.limit}
    return common.run_peer(args.peers_python, "gpflow-svgp-anytime", problem, **options)


def fit_boosting(args, name, split, data):
    X, y, X_test, y_test = data
    make = HistGradientBoostingRegressor
    if name in CLASSIFICATION:
        make = HistGradientBoostingClassifier
    model = make(random_state=0)
    model.fit(X[:100], y[:100])  # starts the threads
    seconds = fit_seconds(model, X, y)
    if name in CLASSIFICATION:
        return {"trace": [[seconds, *scores(model, name, data)]]}
    return {"trace": [[seconds, None, common.rmse(y_test, model.predict(X_test)) / np.std(y)]]}


METHODS = {
    "ours": fit_ours,
    "before": fit_before,
    "exact": fit_exact,
    "GPflow SGPR": fit_sgpr,
    "GPflow SVGP": fit_svgp,
    "boosting": fit_boosting,
}


def run(args):
    for name, split, method in product(args.datasets, args.splits, args.methods):
        key = f"{name}/{split}/{method}"
        common.once(STORE, key, partial(measured, args, name, split, method), args.again)


def measured(args, name, split, method):
    data = load(args, name, split)
    found = METHODS[method](args, name, split, data)
    if found is None:
        return None
    about = {"n": len(data[0]), "d": data[0].shape[1], "limit": args.limit}
    return found | about | {"last": found["trace"][-1]}


# -- the table and the picture ---------------------------------------------------------


def groups():
    """{data set: {method: entry}} of the first split of each."""
    entries = common.read_json(STORE)
    found = {}
    for name in DATASETS:
        splits = sorted({int(key.split("/")[1]) for key in entries if key.startswith(f"{name}/")})
        keys = {method: f"{name}/{splits[0]}/{method}" for method in METHODS if splits}
        some = {method: entries[key] for method, key in keys.items() if key in entries}
        if some:
            found[name] = some
    return found


def at(trace, seconds):
    """The last row of a trace until then, or nothing."""
    before = [row for row in trace if row[0] <= seconds]
    return before[-1] if before else [None, None, None]


def score_table(found, column, methods):
    rows = []
    for name, entries in found.items():
        for method in [method for method in methods if method in entries]:
            trace = entries[method]["trace"]
            values = [at(trace, seconds)[column] for seconds in TIMES]
            rows.append([name, method, *values, trace[-1][column], trace[-1][0]])
    header = ["data set", "method", *(f"{seconds} s" for seconds in TIMES)]
    return common.table([*header, "last", "at (s)"], rows)


LOOKS = {  # colours of Okabe and Ito; the markers tell them apart without colours
    "ours": {"color": "#D55E00", "marker": "o", "linewidth": 2.2, "zorder": 5},
    "before": {"color": "#E69F00", "marker": "v", "linestyle": "--", "zorder": 4},
    "exact": {"color": "#000000", "marker": "s", "linestyle": ":"},
    "GPflow SGPR": {"color": "#0072B2", "marker": "^"},
    "GPflow SVGP": {"color": "#56B4E9", "marker": "D"},
    "boosting": {"color": "#009E73", "marker": "*", "linestyle": "none", "markersize": 12},
}
NAMES = {
    "ours": "SparseGP, defaults",
    "before": "SparseGP, the version before",
    "exact": "scikit-learn, exact, subsets of the rows",
    "boosting": "gradient boosting",
}
DENSITY, ERROR = 1, 2


def draw(found, name):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(3, 3, figsize=(13, 11), layout="constrained")
    places = [(name, column) for column in (DENSITY, ERROR) for name in REGRESSION]
    places += [(name, DENSITY) for name in CLASSIFICATION]
    for axes, (data_set, column) in zip(panels.flat, places):
        draw_panel(axes, data_set, column, found.get(data_set, {}))
    draw_legend(panels.flat[-1], found)
    figure.savefig(common.RESULTS / name, dpi=110)
    plt.close(figure)


def draw_panel(axes, name, column, entries):
    traces = {}
    for method, entry in entries.items():
        rows = [row for row in entry["trace"] if np.isfinite(row[column] or np.nan)]
        if rows:
            traces[method] = np.array(rows, dtype=float)[:, [0, column]]
            axes.plot(*traces[method].T, **{"markersize": 5} | LOOKS[method])
    n = next((entry["n"] for entry in entries.values()), None)
    title = f"{name}, {n:,} rows" if n else name
    axes.set(title=title, xscale="log", xlabel="seconds of fitting", ylabel=label(name, column))
    axes.grid(color="0.9", which="major")
    if traces:
        axes.set_ylim(limits(traces.values(), larger_is_better=column == DENSITY))
        axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")


def label(name, column):
    if name in CLASSIFICATION:
        return "minus test log loss, nats"
    if column == DENSITY:
        return "test log density, nats"
    return "test RMSE / std of y"


def limits(traces, larger_is_better):
    """Limits that show where everybody ends, and cut off how far away some begin."""
    sign = 1.0 if larger_is_better else -1.0
    last = [sign * trace[-1, 1] for trace in traces]
    best = max(np.max(sign * trace[:, 1]) for trace in traces)
    spread = max(best - min(last), 1e-3)
    ends = sign * (min(last) - 0.5 * spread), sign * (best + 0.08 * spread)
    return sorted(ends)


def draw_legend(axes, found):
    axes.axis("off")
    known = [m for m in METHODS if any(m in entries for entries in found.values())]
    for method in known:
        axes.plot([], [], **{"markersize": 7} | LOOKS[method], label=NAMES.get(method, method))
    if known:
        axes.legend(frameon=False, loc="center left", fontsize=12, labelspacing=1.0)


def about_runs(found):
    """What is not in the tables: rows of the exact subsets, commits, versions of the peers."""
    lines = []
    for name, entries in found.items():
        words = [f"n = {next(iter(entries.values()))['n']}"]
        words += [f"m = {entries['ours']['n_inducing']}"] if "ours" in entries else []
        words += [f"exact on {entries['exact']['rows']} rows"] if "exact" in entries else []
        words += [
            f"{method}: {entry['steps']} steps"
            for method, entry in entries.items()
            if "steps" in entry
        ]
        words += [
            f"{method} failed: {entry['message'].strip().splitlines()[0].rstrip(':')}"
            for method, entry in entries.items()
            if entry.get("message") not in (None, "time is up")
        ]
        lines.append(f"- {name}: " + "; ".join(words) + ".")
    every = [(method, entry) for entries in found.values() for method, entry in entries.items()]
    commits = {f"{method} {entry['commit']}" for method, entry in every if "commit" in entry}
    peers = {json.dumps(entry["versions"]) for _, entry in every if "versions" in entry}
    return "\n".join([*lines, *(f"- Commits and versions: {x}." for x in sorted(commits | peers))])


def render():
    found = groups()
    without_boosting = [method for method in METHODS if method != "boosting"]
    numbers = {name: entries for name, entries in found.items() if name in REGRESSION}
    classes = {name: entries for name, entries in found.items() if name in CLASSIFICATION}
    about = (
        "Scores of the test part after so many seconds of fitting; a dash: nothing to predict with "
        'yet. "Last" is what the method ended with, at its time limit or when it had converged.'
    )
    parts = [
        about,
        "![Log density against seconds](anytime.png)",
        "## Mean log density, regression (larger is better)",
        score_table(numbers, DENSITY, without_boosting),
        "## Root mean squared error (smaller is better)",
        score_table(numbers, ERROR, METHODS),
        "## Mean log density, classification: minus the log loss (larger is better)",
        score_table(classes, DENSITY, METHODS),
        "## Share of wrong labels",
        score_table(classes, ERROR, METHODS),
        "## The runs",
        about_runs(found),
    ]
    common.RESULTS.mkdir(exist_ok=True)
    draw(found, "anytime.png")
    common.write_report("anytime.md", "Quality against seconds", *parts)


# -- command line ----------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    common.add_peers(parser)
    common.add_versions(parser)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0])
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a method")
    parser.add_argument("--snapshots", type=int, default=25)
    exact = {"nargs": 2, "type": int, "default": [2000, 1000]}
    parser.add_argument("--exact-rows", **exact, help="at most, regression and classification")
    parser.add_argument("--rows", type=int, help="of training, for a trial")
    parser.add_argument("--m", type=int, help="inducing points, for a trial")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables and the picture")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    args.data = Path(args.data or ".").resolve()
    return args


def main():
    args = parse()
    warnings.simplefilter("ignore")  # fits that end early, on purpose
    if args.worker:
        print(json.dumps(work(args)))
        return
    if not args.render:
        run(args)
    render()


if __name__ == "__main__":
    main()

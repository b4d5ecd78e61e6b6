"""Fits on parts of the rows beside fits on all rows, GPflow and GPyTorch.

Scores are of at most 20,000 of a random tenth of the rows: mean log density, noise included and in
units of the standard deviation of the training targets, and the root mean squared error in the same
units. All cores for everybody, one method after the other. Parts, which can be run alone:

- `density`: scores against seconds of beijing_air, flights, a random half of srtm_n27e086 (the
  other one is srtm_n27e086_b), keggdirected and kin40k, m = 200 and 500, `--limit` seconds each.
  `stochastic` and `full batch` are default fits with solver="stochastic" and "lbfgs". Every
  iteration on all rows or on a sample leaves a snapshot of the kernel and the inducing points;
  after the fit
  `--snapshots` of them, at even steps of log seconds, become models of all rows and are scored.
  The last point is the fit itself, ended when time is up, with its pass over all rows.
  `stochastic` is left out where it would be `full batch`. `GPflow SVGP` and `GPyTorch SVGP`:
  natural gradients (step 0.1) for q and Adam for the rest, batches of 2,000 rows, Matern 5/2, zero
  mean, k-means centres of 20,000 rows, standardised data; length scales begin at sqrt(d), the noise
  at 0.1. Adam's step size falls to zero along a cosine over the limit, that of natural gradients to
  a tenth. The table and the picture have the best of three `--rates` of each, by the last log
  density of the test part. Neither compilation nor k-means nor predictions count. Everything is
  float64; users of GPyTorch often take float32.
- `crossing`: complete fits on random subsets of n = 100 m ... 1600 m rows, m = 100 and 200: from
  which n/m solver="auto" should be stochastic. Where the largest sample would have all rows,
  solver="stochastic" is L-BFGS on all rows; instead, the samples below n are measured (marked).
- `classes`: htru2, adult and beijing_air with its target above the median, m = 200: seconds and
  log loss of the classifier; the same is marked.
- `million`: a default fit with 500 inducing points to a million rows of srtm_n27e086. ::

    python stochastic.py --data DIR --peers-python PATH
    python stochastic.py --data DIR --parts density --datasets kin40k --methods stochastic --m 200
    python stochastic.py --data DIR --rows 4000 --m 20 --limit 5         # a trial
    python stochastic.py --render                    # the tables and the picture alone

Each result is one entry of results/stochastic.json; entries that are there already are not computed
again, unless with `--again`. Leave the machine alone meanwhile.
"""

import argparse
import contextlib
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import common
import numpy as np
import ours
import quality_defaults

STORE = common.RESULTS / "stochastic.json"
DATASETS = ("beijing_air", "flights", "srtm_n27e086", "keggdirected", "kin40k")
OTHER_HALF = "srtm_n27e086_b"
CROSSING = ("beijing_air", "flights", "srtm_n27e086")
FACTORS = (100, 200, 400, 800, 1600)  # rows per inducing point
CLASSES = ("htru2", "adult", "beijing_air")
SIZES = {
    "density": (200, 500),
    "crossing": (100, 200),
    "classes": (200,),
    "million": (500,),
}
MILLION = 1_000_000
MOST_TESTED, MOST_CLUSTERED = 20_000, 20_000
PEER_BATCH, GAMMA, NOISE = 2000, 0.1, 0.1
TIMES = (10, 30, 100, 300, 600)  # seconds
DENSITY, ERROR = 1, 2


# -- data ------------------------------------------------------------------------------


def rows_of(name, n, seed):
    """Training and test rows: a random tenth is held out, and at most some of it tested.

    Of srtm_n27e086, a random half of the rows.
    """
    order = np.random.RandomState(seed).permutation(n)
    if name.startswith("srtm_n27e086"):
        order = np.array_split(order, 2)[int(name == OTHER_HALF)]
    held_out = len(order) // 10
    return order[held_out:], order[: min(held_out, MOST_TESTED)]


def split(X, y, train, test, most):
    train = np.sort(train[:most])
    return X[train], y[train], X[test], y[test]


def load(args, name, most=None):
    """X, y, X_test, y_test; at most `most` and `--rows` of the training rows."""
    X, y = common.load(args.data, name.removesuffix("_b"))
    return split(X, y, *rows_of(name, len(X), args.seed), fewest(most, args.rows))


def fewest(*numbers):
    return min((one for one in numbers if one is not None), default=None)


def labelled(args, name):
    """The same of two classes, 0 and 1."""
    if name == "beijing_air":
        X, y = common.load(args.data, name)
        y = (y > np.median(y)).astype(int)
    else:
        X, y, _ = common.labelled(args.data, name)
    return split(X, y, *rows_of(name, len(X), args.seed), args.rows)


def million(args):
    """A million rows of all of srtm_n27e086, and the test part."""
    X, y = common.load(args.data, "srtm_n27e086")
    order = np.random.RandomState(args.seed).permutation(len(X))
    return split(X, y, order[MOST_TESTED:], order[:MOST_TESTED], fewest(MILLION, args.rows))


# -- our fits --------------------------------------------------------------------------


def where():
    """What an entry says about where it was made."""
    return {"commit": common.commit(common.HERE.parents[1]), "machine": common.machine()}


def scores(model, data):
    """Log density and error of the test part."""
    _, y, X_test, y_test = data
    found = quality_defaults.scores(y, y_test, *ours.observed(model, X_test))
    return [found["log_density"], found["rmse"]]


def fitted(model, data, limit, snapshots):
    """The entry of a fit of a regressor: the trace ends with the fit itself."""
    X, y = data[:2]
    ours.warm_up(labels=False)
    course, seconds = ours.course_of_fit(model, X, y, limit)
    trace = [
        [at, *scores(ours.at_snapshot(kernel, Z, X, y, labels=False), data)]
        for at, kernel, Z in (course.chosen(snapshots) if snapshots else [])
    ]
    last = [seconds, *scores(model, data)]
    return {"trace": [*trace, last], "last": last, **about_fit(course, data)} | where()


def about_fit(course, data):
    return {
        "n": len(data[0]),
        "d": data[0].shape[1],
        "limit": course.limit if np.isfinite(course.limit) else None,
        "is_stochastic": course.is_stochastic,
        "steps": course.steps,
        "passes": course.passes(),
        "last_pass": course.last_pass,
        "time_was_up": course.time_was_up,
    }


def regressor(m, solver):
    model = ours.default_regressor()
    return model.set_params(n_inducing=m, solver=solver)


# -- density against seconds -----------------------------------------------------------


def fit_stochastic(args, name, m, data):
    if ours.begins_with_all_rows(len(data[0]), m):
        common.progress(f"{name}, m = {m}: solver='stochastic' is the full batch")
        return None
    return fitted(regressor(m, "stochastic"), data, args.limit, args.snapshots)


def fit_full_batch(args, name, m, data):
    return fitted(regressor(m, "lbfgs"), data, args.limit, args.snapshots)


def peers_problem(m, data):
    """Standardised, with k-means centres; the scores keep their units."""
    X, y, X_test, y_test = data
    X, X_test = common.standardise(X, X_test)
    y, y_test = common.standardise(y, y_test)
    few = np.random.RandomState(0).permutation(len(X))[:MOST_CLUSTERED]
    extra = {"gpflow_kernel": "Matern52", "labels": 0, "X_test": X_test, "y_test": y_test}
    Z = common.kmeans_centres(X[few], m)
    return common.problem(X, y, Z, 1.0, np.sqrt(X.shape[1]), NOISE, **extra)


def fit_peer(command, rate, args, name, m, data):
    if not args.peers_python:
        return None
    options = {"gamma": GAMMA, "rate": rate, "batch": PEER_BATCH, "anneal": 1, "limit": args.limit}
    found = common.run_peer(args.peers_python, command, peers_problem(m, data), **options)
    last = found["trace"][-1] if found["trace"] else [None, None, None]
    sizes = {"n": len(data[0]), "d": data[0].shape[1], "limit": args.limit}
    passes = found["steps"] * PEER_BATCH / len(data[0])
    return found | sizes | {"last": last, "rate": rate, "passes": passes} | where()


PEERS = {"GPflow SVGP": "gpflow-svgp-anytime", "GPyTorch SVGP": "gpytorch-svgp-anytime"}
OURS = {
    "stochastic": fit_stochastic,
    "full batch": fit_full_batch,
}
METHODS = (*OURS, *PEERS)
SHOWN = ("stochastic", "minibatches", "full batch", *PEERS)  # the second one was a solver once


def density(args):
    tables = [name for name in args.datasets or DATASETS if name in (*DATASETS, OTHER_HALF)]
    for name, m in product(tables, args.m or SIZES["density"]):
        for method in args.methods:
            if method in OURS:
                ways = {method: OURS[method]}
            else:
                ways = {
                    f"{method}/{rate}": partial(fit_peer, PEERS[method], rate)
                    for rate in args.rates
                }
            for way, fit in ways.items():
                key = f"density/{name}/{m}/{args.seed}/{way}"
                run = partial(with_data, fit, args, name, m)
                common.once(STORE, key, run, args.again)


def with_data(fit, args, name, m):
    return fit(args, name, m, load(args, name))


def density_groups(entries):
    """{(data set, m): {method: entry}}, the first seed; of the peers, the best rate."""
    keys = [key.split("/") for key in entries if key.startswith("density/")]
    found = {}
    for name, m in {(words[1], int(words[2])) for words in keys}:
        of_group = [words for words in keys if words[1:3] == [name, str(m)]]
        first = min(of_group, key=lambda words: int(words[3]))[3]
        group = found[name, m] = {}
        for words in of_group:
            method, entry = words[4], entries["/".join(words)]
            if words[3] == first and (method not in group or is_better(entry, group[method])):
                group[method] = entry
    return {
        (name, m): {method: found[name, m][method] for method in SHOWN if method in found[name, m]}
        for name in (*DATASETS, OTHER_HALF)
        for m in sorted({m for other, m in found if other == name})
    }


def is_better(entry, other):
    values = [one["last"][DENSITY] for one in (entry, other)]
    if None in values:
        return values[1] is None
    return values[0] > values[1]


def at(trace, seconds):
    """The last row of a trace until then, or nothing."""
    before = [row for row in trace if row[0] <= seconds]
    return before[-1] if before else [None, None, None]


def density_tables(entries):
    groups, rows, runs = density_groups(entries), [], []
    for (name, m), group in groups.items():
        for method, entry in group.items():
            label = f"{method}, rate {entry['rate']}" if "rate" in entry else method
            values = [at(entry["trace"], seconds)[DENSITY] for seconds in TIMES]
            seconds, *last = entry["last"]
            rows.append([name, m, label, *values, *last, seconds])
            limit = "limit" if time_was_up(entry) else "converged"
            cost = [entry["steps"], entry["passes"], entry.get("last_pass"), limit]
            runs.append([name, m, label, entry["n"], entry["d"], *cost])
    header = ["data set", "m", "method", *(f"{seconds} s" for seconds in TIMES)]
    about = (
        "Mean log density of the test part after so many seconds of fitting; a dash: nothing to "
        'predict with yet. "Last" is what the method ended with, at its time limit or when it had '
        "converged; GPflow and GPyTorch with the best of their learning rates, chosen by this "
        "column. Where there is no line `stochastic`, it is the full batch."
    )
    cost = ["data set", "m", "method", "n", "d", "steps", "passes", "last pass (s)", "ended by"]
    yield "## Density against seconds"
    yield about
    yield "![Log density against seconds](stochastic.png)"
    yield common.table([*header, "last", "RMSE", "at (s)"], rows)
    yield (
        "Steps: iterations of L-BFGS and steps of minibatches. Passes: rows that evaluations and "
        "steps had, over n. Last pass: from the hyperparameters to the posterior of all rows."
    )
    yield common.table(cost, runs)


def time_was_up(entry):
    return entry.get("time_was_up", entry.get("message") == "time is up")


# -- crossing --------------------------------------------------------------------------


def crossing(args):
    tables = [name for name in args.datasets or CROSSING if name in CROSSING]
    for name, m, factor in product(tables, args.m or SIZES["crossing"], args.factors):
        for solver in ("stochastic", "lbfgs"):
            key = f"crossing/{name}/{m}/{factor}/{solver}"
            run = partial(crossing_fit, args, name, m, factor, solver)
            common.once(STORE, key, run, args.again)


def crossing_fit(args, name, m, factor, solver):
    data = load(args, name, factor * m)
    if len(data[0]) < factor * m:
        return None
    snapshots = args.snapshots if solver == "lbfgs" else 0
    with only_samples(len(data[0]), m, solver) as is_marked:
        found = fitted(regressor(m, solver), data, args.limit, snapshots)
    return found | {"fewer_samples": is_marked}


@contextlib.contextmanager
def only_samples(n, m, solver):
    """Leave out samples that would have all rows, if the solver is stochastic; whether it did."""
    fewer = solver == "stochastic" and ours.begins_with_all_rows(n, m)
    with ours.samples_below(n, m) if fewer else contextlib.nullcontext():
        yield fewer


def crossing_table(entries):
    rows = []
    for name, m, factor in product(CROSSING, *both_numbers(entries, "crossing")):
        pair = [
            entries.get(f"crossing/{name}/{m}/{factor}/{way}") for way in ("stochastic", "lbfgs")
        ]
        if None not in pair:
            rows.append([name, m, factor, *crossing_row(*pair)])
    header = ["data set", "m", "n/m", "stochastic (s)", "full batch (s)", "ratio"]
    header += ["density, stochastic", "full batch", "full batch by then", "as good after (s)"]
    about = (
        "Complete fits, seconds and mean log density. *: without the samples that would have all "
        'rows. "By then": the full batch after the seconds of the stochastic fit. "As good after": '
        "the first snapshot of the full batch that has the density of the stochastic fit. >: ended "
        "by the time limit."
    )
    yield "## From which n/m"
    yield about
    yield common.table(header, rows)


def both_numbers(entries, part):
    """The numbers that the third and the fourth word of the keys have, in order."""
    words = [key.split("/")[2:4] for key in entries if key.startswith(f"{part}/")]
    return [sorted({int(one[place]) for one in words}) for place in (0, 1)]


def crossing_row(stochastic, full):
    seconds, score, _ = stochastic["last"]
    reached = [row[0] for row in full["trace"] if row[DENSITY] >= score]
    marked = f"{seconds:.3f}" + "*" * stochastic["fewer_samples"]
    ratio = full["last"][0] / seconds
    by_then = at(full["trace"], seconds)[DENSITY]
    after = reached[0] if reached else None
    return [marked, with_limit(full), ratio, score, full["last"][DENSITY], by_then, after]


def with_limit(entry):
    return ">" * time_was_up(entry) + f"{entry['last'][0]:.3f}"


# -- classes ---------------------------------------------------------------------------

CLASS_METHODS = {
    "stochastic": "stochastic",
    "full batch": "lbfgs",
}


def classes(args):
    tables = [name for name in args.datasets or CLASSES if name in CLASSES]
    methods = [method for method in args.methods if method in CLASS_METHODS]
    for name, m, method in product(tables, args.m or SIZES["classes"], methods):
        run = partial(class_fit, args, name, m, method)
        common.once(STORE, f"classes/{name}/{m}/{args.seed}/{method}", run, args.again)


def class_fit(args, name, m, method):
    data = X, y, X_test, y_test = labelled(args, name)
    solver = CLASS_METHODS[method]
    model = ours.default_classifier().set_params(n_inducing=m, solver=solver)
    ours.warm_up(labels=True)
    with only_samples(len(X), m, solver) as fewer_samples:
        course, seconds = ours.course_of_fit(model, X, y, args.limit)
    probabilities = model.predict_proba(X_test)
    found = {
        "seconds": seconds,
        "log_loss": common.nlpd(y_test, probabilities),
        "errors": float(np.mean(np.argmax(probabilities, axis=1) != y_test)),
        "fewer_samples": fewer_samples,
    }
    return found | about_fit(course, data) | where()


def classes_table(entries):
    rows = []
    for key, entry in in_order(entries, "classes", CLASSES, SHOWN):
        _, name, m, _, method = key.split("/")
        label = method + "*" * entry["fewer_samples"]
        seconds = ">" * time_was_up(entry) + f"{entry['seconds']:.3f}"
        cost = [entry["steps"], entry["passes"], entry["last_pass"]]
        found = [seconds, entry["log_loss"], entry["errors"]]
        rows.append([name, m, label, entry["n"], entry["d"], *found, *cost])
    header = ["data set", "m", "method", "n", "d", "seconds", "log loss", "errors"]
    yield "## Two classes"
    yield (
        "*: without the samples that would have all rows. >: ended by the time limit. Passes: rows "
        "that evaluations and steps had, over n; iterations for the sites do not count."
    )
    yield common.table([*header, "steps", "passes", "last pass (s)"], rows)


def in_order(entries, part, names, methods):
    """The entries of a part, by data set, then by the other words, then by method."""
    places = {name: place for place, name in enumerate([*names, *methods])}
    found = [key for key in entries if key.startswith(f"{part}/")]
    found.sort(key=lambda key: [(places.get(word, -1), word) for word in key.split("/")])
    return [(key, entries[key]) for key in found]


# -- a million rows --------------------------------------------------------------------


def of_a_million(args):
    for m in args.m or SIZES["million"]:
        key = f"million/{m}/{args.seed}"
        common.once(STORE, key, partial(fit_million, args, m), args.again)


def fit_million(args, m):
    model = ours.default_regressor().set_params(n_inducing=m)
    return fitted(model, million(args), np.inf, 0)


def million_table(entries):
    rows = []
    for key, entry in in_order(entries, "million", (), ()):
        seconds, *found = entry["last"]
        cost = [entry["steps"], entry["passes"], entry["last_pass"]]
        way = "stochastic" if entry["is_stochastic"] else "lbfgs"
        rows.append([entry["n"], key.split("/")[1], way, seconds, *cost, *found])
    header = ["n", "m", '"auto" was', "seconds", "steps", "passes", "last pass (s)"]
    yield "## A million rows of srtm_n27e086"
    yield "`SparseGPRegressor(n_inducing=m, random_state=0)`, with no limit in seconds."
    yield common.table([*header, "log density", "RMSE"], rows)


# -- the report ------------------------------------------------------------------------

LOOKS = {  # colours of Okabe and Ito; the markers tell them apart without colours
    "stochastic": {"color": "#D55E00", "marker": "o", "linewidth": 2.2, "zorder": 5},
    "minibatches": {"color": "#E69F00", "marker": "v", "linestyle": "--", "zorder": 4},
    "full batch": {"color": "#000000", "marker": "s", "linestyle": ":"},
    "GPflow SVGP": {"color": "#0072B2", "marker": "^"},
    "GPyTorch SVGP": {"color": "#56B4E9", "marker": "D"},
}


def draw(groups, name):
    """One panel for each table (columns) and m (rows)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    names, sizes = list(dict.fromkeys(name for name, _ in groups)), sorted({m for _, m in groups})
    shape = {"figsize": (4.4 * len(names), 3.9 * len(sizes) + 0.5), "squeeze": False}
    figure, panels = plt.subplots(len(sizes), len(names), layout="constrained", **shape)
    for axes, (m, data_set) in zip(panels.flat, product(sizes, names)):
        draw_panel(axes, data_set, m, groups.get((data_set, m), {}))
    lines = [plt.Line2D([], [], **{"markersize": 7} | look) for look in LOOKS.values()]
    below = {"loc": "outside lower center", "ncols": len(LOOKS), "frameon": False}
    figure.legend(lines, list(LOOKS), fontsize=12, **below)
    figure.savefig(common.RESULTS / name, dpi=110)
    plt.close(figure)


def limits(traces):
    """Limits that show where everybody ends, and cut off how far away some begin."""
    last, best = [trace[-1, 1] for trace in traces], max(trace[:, 1].max() for trace in traces)
    spread = max(best - min(last), 1e-3)
    return min(last) - 0.5 * spread, best + 0.08 * spread


def draw_panel(axes, name, m, group):
    traces = {}
    for method, entry in group.items():
        rows = [row[:2] for row in entry["trace"] if np.isfinite(row[DENSITY])]
        if rows:
            traces[method] = np.array(rows)
            axes.plot(*traces[method].T, **{"markersize": 5} | LOOKS[method])
    n = next((entry["n"] for entry in group.values()), None)
    title = f"{name}, {n:,} rows, m = {m}" if n else f"{name}, m = {m}"
    axes.set(title=title, xscale="log", xlabel="seconds of fitting", ylabel="test log density")
    axes.grid(color="0.9", which="major")
    if traces:
        axes.set_ylim(limits(traces.values()))
        axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")


def about_runs(entries):
    """The runs, and who failed."""
    failed = [
        f"{key} ended with: {entry['message'].strip().splitlines()[0].rstrip(':')}"
        for key, entry in entries.items()
        if entry.get("message") not in (None, "time is up")
    ]
    return common.about_runs(entries, failed)


PARTS = {
    "density": (density, density_tables),
    "crossing": (crossing, crossing_table),
    "classes": (classes, classes_table),
    "million": (of_a_million, million_table),
}


def render():
    entries = common.read_json(STORE)
    if not entries:
        return
    parts = common.tables_of(PARTS, entries)
    groups = density_groups(entries)
    if groups:
        draw(groups, "stochastic.png")
    title = "Fits on parts of the rows"
    common.write_report("stochastic.md", title, *parts, *about_runs(entries))


# -- command line ----------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    common.add_peers(parser)
    names = list(dict.fromkeys((*DATASETS, OTHER_HALF, *CLASSES)))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--datasets", nargs="+", choices=names, help="of every part")
    parser.add_argument("--m", nargs="+", type=int, help="inducing points, of every part")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rates", nargs="+", type=float, default=[0.003, 0.01, 0.03])
    parser.add_argument("--factors", nargs="+", type=int, default=FACTORS, help="n/m of crossing")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a method")
    parser.add_argument("--snapshots", type=int, default=12, help="of one of our fits, scored")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--rows", type=int, help="at most so many of training, for a trial")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables and the picture")
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    args.data = Path(args.data or ".").resolve()
    return args


def main():
    args = parse()
    warnings.simplefilter("ignore")  # fits that end early, on purpose
    if not args.render:
        for part in args.parts:
            PARTS[part][0](args)
    render()


if __name__ == "__main__":
    main()

"""The posterior given all rows beside that of inducing points, the exact process and others.

Inputs are standardised by the columns of the training rows, and targets by their mean and standard
deviation, so that errors and log densities are in units of std(y). Of several targets the first is
taken. Test rows are those of a split; where a table has no splits, a random tenth of its rows, at
most 2,000. Everything runs on all cores, one method after the other. Parts, which can be run alone:

- `quality`: seconds of the fit and of the means and standard deviations of the test rows, root mean
  squared error, mean log density (noise included), and the share of test targets in the central
  95 % interval. Methods: `auto`, `inducing` and `rows` are `SparseGPRegressor(random_state=split)`
  with this `posterior` and defaults for the rest. `GPR` is scikit-learn's exact process with the
  kernel from which ours starts (constant times Matern 5/2 with one length scale per column, plus
  noise), up to 3,000 rows. `GPyTorch exact` is its exact process with conjugate gradients in
  float32: constant mean, the same kernel, length scales that begin at sqrt(d) and noise at 0.1;
  500 steps of Adam (step size 0.1) or `--limit` seconds, whichever comes first. Its variances are
  by solves for every query, or from its cache (`fast_pred_var`) where solves would take longer than
  the limit. It holds about eleven n x n matrices, and is left out where they exceed 14 GB.
  `GPBoost Vecchia` is GPBoost's process with Vecchia's approximation, Matern 5/2 with one length
  scale per column, and its defaults for everything else; it is ended after `--patience` seconds,
  like every peer. `HistGradientBoosting` is scikit-learn's, with early stopping; all its
  predictions have one normal variance, the mean squared error of the tenth of the training rows
  that decides when to stop. That tenth is not learned.
- `large`: ur10e, `rows` and `inducing`, each in a process of its own: the same numbers, and the
  resident memory of the process at most (``VmHWM`` of /proc/self/status, all libraries included;
  Linux only), after the data were loaded and after the predictions.
- `predictions`: seconds per 1,000 queries (2,000 at a time, median of three) by number of rows, and
  megabytes of the pickle. The models are fitted with `max_iter=5`, as time and size do not depend
  on how good they are.
- `bounds`: `evidence_bounds()` of fits with m inducing points, beside the exact log marginal
  likelihood at the same hyperparameters (from a Cholesky factor), on random rows: 5,000 of kin40k,
  3,000 of the others.
- `n_mean`: 500 inducing points, and means with a basis of 2,000 and 4,000; the first split only. ::

    python near_exact.py --data DIR --peers-python PATH
    python near_exact.py --data DIR --parts quality --datasets kin40k --methods auto rows --splits 0
    python near_exact.py --data DIR --rows 3000 --m 50 --limit 5         # a trial
    python near_exact.py --render                                       # the tables alone

Each result is one entry of results/near_exact.json; entries that are there already are not computed
again, unless with `--again`. Leave the machine alone meanwhile.
"""

import argparse
import json
import pickle
import subprocess
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import common
import numpy as np
import ours
from scipy.linalg import cho_factor, cho_solve
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor

from skgp_sparse.posteriors import InducingPoints

STORE = common.RESULTS / "near_exact.json"
DATASETS = ("kin40k", "pol", "bike", "elevators", "sarcos", "keggdirected")
DATASETS += ("airfoil", "concrete", "wine")
LARGE = ("ur10e",)
PREDICTIONS = ("kin40k", "ur10e")
BOUNDS = {"kin40k": 5000, "pol": 3000, "elevators": 3000, "airfoil": 3000}  # rows at most
N_MEAN = ("kin40k", "sarcos")
POSTERIORS = ("inducing", "rows")
SIZES = (10_000, 36_000, 100_000)  # rows
INDUCING = (100, 500, 1000)
BASES = (None, 2000, 4000)
MOST_TESTED = 2000  # rows of tables without splits
MOST_OF_GPR = 3000  # rows
MATRICES, MOST_BYTES = 11.2, 14e9  # n x n in float32, that GPyTorch holds at once; and together
STEPS, RATE = 500, 0.1  # of Adam
NORMAL_95 = 1.959964  # standard deviations


# -- data ------------------------------------------------------------------------------


def test_rows(args, name, n, split):
    """Mask of the test rows."""
    with np.load(args.data / f"{name}.npz") as f:
        if "test_masks" in f.files:
            return f["test_masks"][:, split]
    test = np.zeros(n, dtype=bool)
    order = np.random.RandomState(split).permutation(n)
    test[order[: min(n // 10, MOST_TESTED)]] = True
    return test


def load(args, name, split=0, most=None):
    """Standardised X, y, X_test, y_test; at most `most` and `--rows` training rows, at random."""
    X, y = common.load(args.data, name)
    y = y if y.ndim == 1 else y[:, 0]
    test = test_rows(args, name, len(X), split)
    order = np.random.RandomState(split).permutation(np.flatnonzero(~test))
    train, test = np.sort(order[: fewest(most, args.rows)]), np.flatnonzero(test)[: args.rows]
    X, X_test = common.standardise(X[train], X[test])
    y, y_test = common.standardise(y[train], y[test])
    return X, y, X_test, y_test


def fewest(*numbers):
    return min((one for one in numbers if one is not None), default=None)


def where():
    """What an entry says about where it was made."""
    return {"commit": common.commit(common.HERE.parents[1]), "machine": common.machine()}


def chosen(args, names):
    """Those of a part that were asked for."""
    return [name for name in args.datasets or names if name in names]


# -- one fit, and how good it is -------------------------------------------------------


def scores(y_test, mean, std):
    return {
        "rmse": common.rmse(y_test, mean),
        "log_density": common.log_density(y_test, mean, std),
        "coverage": float(np.mean(np.abs(y_test - mean) <= NORMAL_95 * std)),
    }


def sizes(data):
    return {"n": len(data[0]), "d": data[0].shape[1]}


def of_model(model, data):
    """Seconds and scores of a regressor whose `predict` gives standard deviations, and warnings."""
    X, y, X_test, y_test = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_seconds = common.seconds_of(lambda: model.fit(X, y))
        start = time.perf_counter()
        mean, std = ours.observed(model, X_test)
        seconds = {"fit_seconds": fit_seconds, "predict_seconds": time.perf_counter() - start}
    told = sorted({" ".join(str(one.message).split())[:160] for one in caught})
    return scores(y_test, mean, std) | seconds | sizes(data) | {"warnings": told} | where()


def of_ours(model, data):
    ours.warm_up(labels=False)
    found = of_model(model, data)
    return found | {"posterior": ours.given(model), "m": ours.n_inducing(model)}


def regressor(seed, **options):
    return ours.default_regressor().set_params(random_state=seed, **options)


# -- quality ---------------------------------------------------------------------------


def fit_ours(posterior, args, split, data):
    return of_ours(regressor(split, posterior=posterior), data)


def fit_gpr(args, split, data):
    X = data[0]
    if len(X) > MOST_OF_GPR:
        return None
    return of_model(GaussianProcessRegressor(ours.like_default(X, ours.matern)), data)


def fit_boosting(args, split, data):
    X, y, X_test, y_test = data
    order = np.random.RandomState(split).permutation(len(X))
    kept, used = np.split(order, [len(X) // 10])
    model = HistGradientBoostingRegressor(early_stopping=True, random_state=split)
    validation = {"X_val": X[kept], "y_val": y[kept]}
    fit_seconds = common.seconds_of(lambda: model.fit(X[used], y[used], **validation))
    std = common.rmse(y[kept], model.predict(X[kept]))
    start = time.perf_counter()
    mean = model.predict(X_test)
    seconds = {"fit_seconds": fit_seconds, "predict_seconds": time.perf_counter() - start}
    return scores(y_test, mean, std) | seconds | sizes(data) | where()


def fit_gpytorch(args, split, data):
    n_bytes = MATRICES * 4 * len(data[0]) ** 2
    if n_bytes > MOST_BYTES:
        reason = f"would need about {n_bytes / 1e9:.0f} GB for n x n matrices"
        return {"failed": reason} | sizes(data) | where()
    options = {"iterations": STEPS, "rate": RATE, "limit": args.limit}
    return fit_peer("gpytorch-fit-predict", args, data, **options)


def fit_gpboost(args, split, data):
    return fit_peer("gpboost-fit-predict", args, data)


def fit_peer(command, args, data, **options):
    """Scores of what a peer predicts, or why there are none; nothing without peers."""
    if not args.peers_python:
        return None
    problem = dict(zip(("X", "y", "X_test"), data))
    try:
        found = common.run_peer(args.peers_python, command, problem, args.patience, **options)
    except subprocess.TimeoutExpired:
        found = {"failed": f"no result within {args.patience:g} seconds"}
    except subprocess.CalledProcessError as error:
        found = {"failed": f"ended with status {error.returncode}"}
    if "failed" not in found:
        found |= scores(data[3], np.array(found.pop("mean")), np.array(found.pop("std")))
    return found | sizes(data) | where()


METHODS = {
    "auto": partial(fit_ours, "auto"),
    "inducing": partial(fit_ours, "inducing"),
    "rows": partial(fit_ours, "rows"),
    "GPR": fit_gpr,
    "GPyTorch exact": fit_gpytorch,
    "GPBoost Vecchia": fit_gpboost,
    "HistGradientBoosting": fit_boosting,
}
OURS = ("auto", *POSTERIORS)


def quality(args):
    for name, split, method in product(chosen(args, DATASETS), args.splits, args.methods):
        run = partial(with_data, METHODS[method], args, name, split)
        common.once(STORE, f"quality/{name}/{split}/{method}", run, args.again)


def with_data(fit, args, name, split):
    return fit(args, split, load(args, name, split))


def of_splits(entries, part, name, method):
    """{split: entry} of a data set and a method."""
    words = {key: key.split("/") for key in entries}
    return {
        words[key][2]: entries[key]
        for key in entries
        if words[key][:2] == [part, name] and words[key][3] == method
    }


def average(found, what):
    """Mean over the entries that have it; None where there is none."""
    values = [entry[what] for entry in found if entry.get(what) is not None]
    return float(np.mean(values)) if values else None


NUMBERS = ("fit_seconds", "predict_seconds", "rmse", "log_density", "coverage")
HEADS = ("fit (s)", "predict (s)", "RMSE", "log density", "in 95 %")


def quality_tables(entries):
    rows, failed = [], []
    for name, method in product(DATASETS, METHODS):
        found = of_splits(entries, "quality", name, method)
        if found:
            rows.append([name, method, *quality_row(list(found.values()))])
            failed += sorted({failure(name, method, entry) for entry in found.values()} - {None})
    header = ["data set", "method", "n", "d", "splits", *HEADS, "remarks"]
    yield "## Quality"
    yield (
        "Means over the splits, in units of std(y). Remarks: what the posterior of ours is given; "
        "the steps of GPyTorch, and how it computed variances."
    )
    yield common.table(header, rows)
    if failed:
        yield "\n".join(f"- {line}." for line in failed)
    yield from table_of_auto(entries)


def failure(name, method, entry):
    return f"{name}, {method}: {entry['failed']}" if "failed" in entry else None


def quality_row(found):
    well = [entry for entry in found if "failed" not in entry]
    about = [round(average(found, "n")), found[0]["d"], len(well)]
    remarks = sorted({remark(entry) for entry in well} - {None})
    return [*about, *(average(well, what) for what in NUMBERS), "; ".join(remarks) or None]


def remark(entry):
    if "steps" in entry:
        return f"{entry['steps']} steps, {entry['variance']}"
    return entry.get("posterior")


def table_of_auto(entries):
    """Mean densities of the splits that all three ways have."""
    rows = []
    for name in DATASETS:
        ways = [of_splits(entries, "quality", name, method) for method in OURS]
        for split, entry in ways[0].items():  # what "auto" chose need not run again by name
            for way, posterior in zip(ways[1:], POSTERIORS):
                if entry["posterior"] in (posterior, "exact"):
                    way.setdefault(split, entry)
        splits = sorted(set.intersection(*map(set, ways)))
        if splits:
            density = [average([way[split] for split in splits], "log_density") for way in ways]
            given = ", ".join(sorted({ways[0][split]["posterior"] for split in splits}))
            rows.append([name, len(splits), given, *density, density[0] - max(density[1:])])
    if not rows:
        return
    header = ["data set", "splits", '"auto" was', *OURS, "auto - the better"]
    yield '### "auto" against the better of "inducing" and "rows"'
    yield "Mean log densities, and how far the default is behind the better of both."
    yield common.table(header, rows)


# -- large -----------------------------------------------------------------------------


def large(args):
    for name, posterior in product(chosen(args, LARGE), POSTERIORS):
        split = args.splits[0]
        run = partial(in_own_process, args, name, split, posterior)
        common.once(STORE, f"large/{name}/{split}/{posterior}", run, args.again)


def in_own_process(args, name, split, posterior):
    words = ["--worker", posterior, "--data", args.data, "--datasets", name, "--splits", split]
    words += ["--rows", args.rows] if args.rows else []
    return common.run_version(common.HERE.parents[1], "near_exact.py", *words)


def work(args):
    """The entry of one fit, with the memory of this process."""
    (name,), (split,) = args.datasets, args.splits
    data = load(args, name, split, max(SIZES))
    before = peak_mb()
    found = of_ours(regressor(split, posterior=args.worker), data)
    return found | {"mb_before": before, "peak_mb": peak_mb()}


def peak_mb():
    """Resident memory of this process at most so far; ``ru_maxrss`` would count its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def large_table(entries):
    rows = []
    for name, posterior in product(LARGE, POSTERIORS):
        for entry in of_splits(entries, "large", name, posterior).values():
            memory = [round(entry["mb_before"]), round(entry["peak_mb"])]
            found = [entry[what] for what in NUMBERS]
            rows.append([name, posterior, entry["n"], entry["d"], *memory, *found])
    header = ["data set", "posterior", "n", "d", "MB before", "MB at most", *HEADS]
    yield "## Many rows"
    yield (
        "Each fit in a process of its own. MB: resident memory at most, all libraries included, "
        "before the fit and until the end."
    )
    yield common.table(header, rows)


# -- predictions -----------------------------------------------------------------------


def predictions(args):
    for name, n, posterior in product(chosen(args, PREDICTIONS), SIZES, POSTERIORS):
        run = partial(timed_predictions, args, name, n, posterior)
        common.once(STORE, f"predictions/{name}/{n}/{posterior}", run, args.again)


def timed_predictions(args, name, n, posterior):
    data = load(args, name, 0, n)
    X, y, X_test = data[:3]
    if len(X) < 0.9 * fewest(n, args.rows):  # the table has fewer rows
        return None
    model = regressor(0, posterior=posterior, max_iter=5)
    X_test = X_test[:MOST_TESTED]
    model.fit(X, y)
    found = {
        "mean_seconds": per_thousand(lambda: model.predict(X_test), len(X_test)),
        "std_seconds": per_thousand(lambda: ours.observed(model, X_test), len(X_test)),
        "pickle_mb": pickle_mb(model),
        "posterior": ours.given(model),
        "m": ours.n_inducing(model),
    }
    return found | sizes(data) | where()


def per_thousand(function, queries, repeats=3):
    """Seconds per 1,000 queries."""
    function()
    seconds = [common.seconds_of(function) for _ in range(repeats)]
    return float(np.median(seconds)) * 1000 / queries


def pickle_mb(model):
    return len(pickle.dumps(model)) / 1e6


def predictions_table(entries):
    rows = []
    for name, n, posterior in product(PREDICTIONS, SIZES, POSTERIORS):
        entry = entries.get(f"predictions/{name}/{n}/{posterior}")
        if entry:
            found = [entry[what] for what in ("mean_seconds", "std_seconds", "pickle_mb")]
            rows.append([name, entry["n"], entry["d"], posterior, entry["m"], *found])
    header = ["data set", "n", "d", "posterior", "m", "mean", "mean and std", "pickle (MB)"]
    yield "## Predictions"
    yield "Seconds per 1,000 queries."
    yield common.table(header, rows)


# -- bounds ----------------------------------------------------------------------------


def bounds(args):
    for name, m in product(chosen(args, BOUNDS), args.m):
        run = partial(bounds_of_fit, args, name, m)
        common.once(STORE, f"bounds/{name}/{m}", run, args.again)


def bounds_of_fit(args, name, m):
    """Bounds and the exact value, in nats per row."""
    data = load(args, name, 0, BOUNDS[name])
    X, y = data[:2]
    ours.warm_up(labels=False)
    model = regressor(0, n_inducing=m, posterior="inducing").fit(X, y)
    found = ours.evidence(model)
    found["exact"] = exact_evidence(ours.fitted_kernel(model), X, y)
    per_row = {name: value / len(X) for name, value in found.items()}
    return per_row | {"posterior": ours.given(model)} | sizes(data) | where()


def exact_evidence(kernel, X, y):
    """Log marginal likelihood of all rows, noise being part of the kernel."""
    factor = cho_factor(kernel(X), lower=True, overwrite_a=True)
    half_log_determinant = np.log(np.diagonal(factor[0])).sum()
    constant = len(y) * common.HALF_LOG_2PI
    return float(-0.5 * y @ cho_solve(factor, y) - half_log_determinant - constant)


def bounds_table(entries):
    names, rows = [*ours.EVIDENCE[:-1], "exact", ours.EVIDENCE[-1]], []
    keys = [key.split("/") for key in entries if key.startswith("bounds/")]
    for name, m in product(BOUNDS, sorted({int(words[2]) for words in keys})):
        entry = entries.get(f"bounds/{name}/{m}")
        if entry:
            found = [entry[what] for what in names]
            rows.append([name, entry["n"], entry["d"], m, *found])
    header = ["data set", "n", "d", "m", *names]
    yield "## Bounds of the evidence"
    yield (
        "Nats per row, at the hyperparameters of a fit with m inducing points; own: the bound that "
        "the fit maximised."
    )
    yield common.table(header, rows)


# -- a basis of its own for the mean ---------------------------------------------------


def n_mean(args):
    split = args.splits[0]
    for name, basis in product(chosen(args, N_MEAN), BASES):
        run = partial(fit_with_basis, args, name, split, basis)
        common.once(STORE, f"n_mean/{name}/{split}/{basis}", run, args.again)


def fit_with_basis(args, name, split, basis):
    model = regressor(split, n_inducing=500, posterior=InducingPoints(n_mean=basis))
    found = of_ours(model, load(args, name, split))
    return found | {"pickle_mb": pickle_mb(model)}


def n_mean_table(entries):
    rows = []
    for name, basis in product(N_MEAN, BASES):
        for entry in of_splits(entries, "n_mean", name, str(basis)).values():
            found = [entry[what] for what in (*NUMBERS, "pickle_mb")]
            rows.append([name, entry["n"], entry["d"], entry["m"], basis, *found])
    header = ["data set", "n", "d", "n_inducing", "n_mean", *HEADS, "pickle (MB)"]
    yield "## A basis of its own for the mean"
    yield "One split. A dash: the mean has the inducing points of the covariance."
    yield common.table(header, rows)


# -- the report ------------------------------------------------------------------------


def about_runs(entries):
    """The runs, and what our fits warned of."""
    told = [
        f"{key} warned: {one.rstrip('.')}"
        for key, entry in entries.items()
        if "posterior" in entry
        for one in entry.get("warnings", ())
    ]
    return common.about_runs(entries, told)


PARTS = {
    "quality": (quality, quality_tables),
    "large": (large, large_table),
    "predictions": (predictions, predictions_table),
    "bounds": (bounds, bounds_table),
    "n_mean": (n_mean, n_mean_table),
}


def render():
    entries = common.read_json(STORE)
    parts = common.tables_of(PARTS, entries)
    if parts:
        title = "All rows instead of inducing points"
        common.write_report("near_exact.md", title, *parts, *about_runs(entries))


# -- command line ----------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the .npz data sets")
    common.add_peers(parser)
    names = list(dict.fromkeys((*DATASETS, *LARGE, *PREDICTIONS)))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--datasets", nargs="+", choices=names, help="of every part")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--m", nargs="+", type=int, default=INDUCING, help="of `bounds`")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of GPyTorch's fit")
    parser.add_argument("--patience", type=float, default=1800.0, help="seconds of a peer")
    parser.add_argument("--rows", type=int, help="at most so many of training, for a trial")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    parser.add_argument("--worker", choices=POSTERIORS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not (args.render or args.data):
        parser.error("--data is needed, unless with --render")
    args.data = Path(args.data or ".").resolve()
    return args


def main():
    args = parse()
    warnings.simplefilter("ignore")  # those of the fits that count are in the entries
    if args.worker:
        print(json.dumps(work(args)))
        return
    if not args.render:
        for part in args.parts:
            PARTS[part][0](args)
    render()


if __name__ == "__main__":
    main()

"""Latent inputs: `BayesianGPLVM` beside GPflow's, new rows, missing entries, time and memory.

fits
    Three-phase oil flow (1,000 training rows of 12 columns; q = 10 components), the 100 of these
    rows that GPflow uses (oil100; q = 2 and 5), and 500 handwritten digits of 64 columns (q = 10),
    with the bounds "titsias" and "titsias_new": the bound per row for centred columns, divided by
    the root mean square of all entries; the bounds of the starts, of which the highest is kept;
    components with a divergence from the prior above 0.05 nats per row; errors of the nearest
    other row, positions in units of the length scales, in all components and in the two most
    relevant ones. Seconds are CPU seconds: they count all threads, and no other programs.
gpflow
    GPflow's BayesianGPLVM (the bound of Titsias and Lawrence 2010) by its L-BFGS on the same
    tables, from our start with variances of q of 0.01 and 0.1, and from that of its notebook:
    principal components, variances of q and length scales of 1, noise variance 0.01, random rows as
    inducing points (it uses BFGS there, whose matrix would be too large here). At most 3,000
    iterations and `--limit` CPU seconds, without compilation. "At our time" is its bound when it
    had used the CPU seconds of our fit, all starts included; a dash says that it stopped before.
starts
    oil100 with twelve starts and three seeds: bounds by the initial variance of q, in turns.
rows
    200 validation rows of oil flow, complete and with half of their entries missing, in a model of
    all 1,000 training rows (q = 10, m = 50, one start): CPU milliseconds per row of `transform`,
    errors in units of the root mean square beside those of the column means, and how many entries
    are in intervals of 95 %. And fits with missing training entries, and the positions that
    `transform` gives the training rows beside `embedding_`.
large
    10,000 rows of 50 columns, smooth functions of five components with noise: q = 5, m = 20, one
    start, 500 iterations; and the peak of the memory that NumPy reports (`tracemalloc`) in fits of
    60 iterations to 5,000, 10,000 and 20,000 rows, beyond the table. ::

    python gplvm.py --data DIR --peers-python PYTHON
    python gplvm.py --data DIR --parts fits --tables oil100-2 --seeds 0       # a trial
    python gplvm.py --data DIR --render                                      # the tables alone

Each measurement is one entry of results/gplvm.json; entries that are there already are not measured
again, unless with `--again`.
"""

import argparse
import time
import tracemalloc
import warnings
from functools import partial
from typing import NamedTuple

import common
import numpy as np
import ours
from sklearn.datasets import load_digits

STORE = common.RESULTS / "gplvm.json"
BOUNDS = ("titsias_new", "titsias")
ON = 0.05  # nats per row, above which a component is on
NEW_ROWS = 200


class Case(NamedTuple):
    table: str
    q: int
    m: int


CASES = {
    "oilflow-50": Case("oilflow", 10, 50),
    "oilflow-20": Case("oilflow", 10, 20),
    "oil100-2": Case("oil100", 2, 20),
    "oil100-5": Case("oil100", 5, 20),
    "digits-50": Case("digits", 10, 50),
}


def once(args, key, measure):
    about = {"commit": common.commit(common.HERE.parents[1]), "machine": common.machine()}
    common.once(STORE, key, lambda: measure() | about, args.again)


def table(args, name):
    """Rows and their labels."""
    if name == "digits":
        X, labels = load_digits(return_X_y=True)
        return X[:500], labels[:500]
    X, labels, masks = common.labelled(args.data, "oilflow")
    if name == "oil100":
        with np.load(f"{args.data}/oilflow.npz") as f:
            rows = f["gpflow_rows"]
    else:
        rows = masks[:, 0] if name == "new rows" else ~masks[:, 0]
    return X[rows], labels[rows]


def standardised(Y, train):
    """Rows as the model sees them, and their unit."""
    centred = train - train.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2))
    return (Y - train.mean(axis=0)) / scale, scale


def nearest_errors(positions, labels):
    """Rows whose nearest other row has another label."""
    squares = np.sum(positions**2, axis=1)
    D = squares[:, None] + squares - 2.0 * positions @ positions.T
    np.fill_diagonal(D, np.inf)
    return int(np.sum(labels[D.argmin(axis=1)] != labels))


def what_is_found(mean, relevances, length_scales, labels):
    """Components that are on, and errors of the nearest row."""
    scaled, order = mean / length_scales, np.argsort(-np.asarray(relevances), kind="stable")
    return {
        "on": int(np.sum(np.asarray(relevances) > ON)),
        "errors": nearest_errors(scaled, labels),
        "errors_two": nearest_errors(scaled[:, order[:2]], labels),
    }


# -- fits ------------------------------------------------------------------------------


def fits(args):
    for seed in args.seeds:
        for name in args.tables:
            for bound in args.bounds:
                key = f"fits/{name}/{bound}/{seed}"
                once(args, key, partial(measure_fit, args, CASES[name], bound, seed))


def measure_fit(args, case, bound, seed, n_restarts=2):
    X, labels = table(args, case.table)
    options = {"n_restarts_optimizer": n_restarts, "random_state": seed}
    model = ours.gplvm(case.q, case.m, bound, **options)
    with ours.latent_starts() as starts:
        model.fit(X)
    found = {
        "bound": model.log_marginal_likelihood_value_ / len(X),
        "starts": [[value / len(X), *rest] for value, *rest in starts],
        "seconds": sum(seconds for *_, seconds in starts),
    }
    scales = model.kernel_.k1.k2.length_scale
    return found | what_is_found(model.embedding_, model.relevances_, scales, labels)


QUALITY = {"on": "components on", "errors": "errors, all", "errors_two": "errors, two"}


def entries_of(part, case):
    """[(last words of the key, entry)] of a case."""
    found = sorted(common.read_json(STORE).items())
    return [(key.split("/")[2:], e) for key, e in found if key.startswith(f"{part}/{case}/")]


def fits_table():
    """Ours."""
    rows = []
    for name, case in CASES.items():
        for (bound, seed), entry in entries_of("fits", name):
            values, counts, _ = zip(*entry["starts"])
            starts = " / ".join(f"{value:.2f}" for value in values)
            quality = [entry[what] for what in QUALITY]
            of_fit = [" / ".join(map(str, counts)), round(entry["seconds"], 1)]
            rows.append([", ".join(map(str, case)), bound, seed, entry["bound"], starts])
            rows[-1] += [*quality, *of_fit]
    header = ["table, q, m", "bound", "seed", "bound per row", "of all starts", *QUALITY.values()]
    return common.table([*header, "iterations", "CPU s"], rows)


def gpflow_table():
    entries, rows = common.read_json(STORE), []
    for name, case in CASES.items():
        for (start,), entry in entries_of("gpflow", name):
            at_ours = bound_at(entry, ours_seconds(entries, name))
            quality = [entry[what] for what in QUALITY]
            rows.append([", ".join(map(str, case)), start, entry["bound"], at_ours, *quality])
            rows[-1] += [entry["iterations"], round(entry["seconds"], 1)]
    header = ["table, q, m", "start", "bound per row", "at our time", *QUALITY.values()]
    return common.table([*header, "iterations", "CPU s"], rows)


def ours_seconds(entries, name):
    """CPU seconds of our default fit."""
    return entries.get(f"fits/{name}/titsias_new/0", {"seconds": np.inf})["seconds"]


def bound_at(entry, seconds):
    """The last bound of the trace until then; None if it was stopped before."""
    if entry["seconds"] < seconds and "StopIteration" in entry["message"]:
        return None
    known = [value for at, value in entry["trace"] if at <= seconds]
    return known[-1] if known else None


# -- GPflow ----------------------------------------------------------------------------

GPFLOW_STARTS = {"ours-0.01": 0.01, "ours-0.1": 0.1, "notebook": 1.0}  # variances of q


def gpflow(args):
    for start in GPFLOW_STARTS if args.peers_python else ():
        for name in args.tables:
            run = partial(measure_gpflow, args, CASES[name], start)
            once(args, f"gpflow/{name}/{start}", run)


def measure_gpflow(args, case, start):
    X, labels = table(args, case.table)
    Y = standardised(X, X)[0]
    mean, length_scales, Z = ours.latent_start(Y, case.q, case.m)
    problem = {"Y": Y, "mean": mean, "lengthscales": length_scales, "Z": Z, "noise": 0.05}
    problem["variance_of_q"] = GPFLOW_STARTS[start]
    if start == "notebook":
        U, values, _ = np.linalg.svd(Y, full_matrices=False)
        mean = U[:, : case.q] * values[: case.q]
        rows = np.random.RandomState(0).permutation(len(Y))[: case.m]
        problem |= {"mean": mean, "Z": mean[rows], "noise": 0.01}
        problem |= {"lengthscales": np.ones(case.q)}
    options = {"iterations": 3000, "limit": args.limit}
    found = common.run_peer(args.peers_python, "gpflow-gplvm", problem, **options)
    mean, variance, scales = (np.array(found.pop(what)) for what in ("mean", "s", "lengthscales"))
    relevances = 0.5 * np.mean(mean**2 + variance - np.log(variance) - 1.0, axis=0)
    trace = [[seconds, bound / len(Y)] for seconds, bound in found.pop("trace")]
    found = {**found, "bound": found["bound"] / len(Y), "trace": trace[:: len(trace) // 50 + 1]}
    return found | what_is_found(mean, relevances, scales, labels)


# -- many starts -----------------------------------------------------------------------


def starts(args):
    for name in ("oil100-2", "oil100-5"):
        for seed in (0, 1, 2):
            run = partial(measure_fit, args, CASES[name], "titsias_new", seed, n_restarts=11)
            once(args, f"starts/{name}/{seed}", run)


def starts_table():
    rows = []
    for name, case in CASES.items():
        for (seed,), entry in entries_of("starts", name):
            values = np.array([value for value, *_ in entry["starts"]]).reshape(-1, 3)
            each = [" / ".join(f"{value:.2f}" for value in column) for column in values.T]
            best = [values[0].max(), values.max()]
            rows.append([", ".join(map(str, case)), seed, *each, *map(float, best)])
    header = ["table, q, m", "seed", "variance 0.01", "0.1", "1", "best of the first three"]
    return common.table([*header, "best of all"], rows)


# -- new rows and missing entries ------------------------------------------------------


def rows(args):
    once(args, "rows/new", partial(measure_rows, args))
    for share in (0.1, 0.3, 0.5):
        once(args, f"rows/training/{share}", partial(measure_training_missing, args, share))


def measure_rows(args):
    X, new = table(args, "oilflow")[0], table(args, "new rows")[0][:NEW_ROWS]
    model = ours.gplvm(10, 50, n_restarts_optimizer=0, random_state=0).fit(X)
    rng = np.random.RandomState(0)
    incomplete = np.where(rng.uniform(size=new.shape) < 0.5, np.nan, new)
    back = np.abs(model.transform(X[:NEW_ROWS]) - model.embedding_[:NEW_ROWS])
    found = {"bound": model.log_marginal_likelihood_value_ / len(X), "score": model.score(new)}
    found |= {"back_median": float(np.median(back)), "back_most": float(back.max())}
    found |= {"back_far": int(np.sum(back.max(axis=1) > 0.01))}
    found |= {f"complete_{k}": v for k, v in judged(model, new, new).items()}
    return found | {f"half_{k}": v for k, v in judged(model, incomplete, new).items()}


def judged(model, given, truth):
    """What `transform` costs, and errors of the missing entries, or of all if none is missing."""
    begun = time.process_time()
    positions = model.transform(given, return_std=True)
    seconds = time.process_time() - begun
    mean, std = model.inverse_transform(*positions, return_std=True)
    asked = np.isnan(given) if np.isnan(given).any() else np.ones(given.shape, dtype=bool)
    found = errors_of_entries(model, mean, truth, asked)
    covered = np.abs(mean - truth)[asked] < 1.96 * std[asked]
    return found | {"ms": 1000.0 * seconds / len(given), "covered": float(covered.mean())}


def errors_of_entries(model, mean, truth, asked):
    """Root mean squares of errors and of deviations from the column means, in the model's unit."""
    both = {"rmse": mean, "rmse_of_means": np.broadcast_to(model.mean_, truth.shape)}
    return {
        name: common.rmse(truth[asked], prediction[asked]) / model.scale_
        for name, prediction in both.items()
    }


def measure_training_missing(args, share):
    """Entries that were missing in training, and were found by `inverse_transform(embedding_)`."""
    X = table(args, "oil100")[0]
    missing = np.random.RandomState(0).uniform(size=X.shape) < share
    begun = time.process_time()
    model = ours.gplvm(5, 20, random_state=0).fit(np.where(missing, np.nan, X))
    seconds = time.process_time() - begun
    mean = model.inverse_transform(model.embedding_, model.embedding_std_)
    return errors_of_entries(model, mean, X, missing) | {"seconds": seconds}


def rows_tables():
    entries = common.read_json(STORE)
    if one := entries.get("rows/new"):
        lines = [
            [name, *(one[f"{key}_{what}"] for what in ("ms", "rmse", "rmse_of_means", "covered"))]
            for name, key in {"complete": "complete", "half of the entries missing": "half"}.items()
        ]
        header = [f"{NEW_ROWS} new rows", "CPU ms per row", "RMSE", "of column means", "in 95 %"]
        yield common.table(header, lines)
        yield (
            f"The model has the bound {one['bound']:.2f} per row. The mean of `score_samples` is "
            f"{one['score']:.2f} in units of the entries. `transform` gives the first {NEW_ROWS} "
            f"training rows positions that differ from `embedding_` by {one['back_median']:.1e} at "
            f"the median and by {one['back_most']:.2f} at most; {one['back_far']} rows differ by "
            "more than 0.01."
        )
    lines = [
        [f"{float(key.split('/')[2]):.0%}", entry["rmse"], entry["rmse_of_means"], entry["seconds"]]
        for key, entry in sorted(entries.items())
        if key.startswith("rows/training")
    ]
    if lines:
        header = ["oil100, q = 5, m = 20: missing", "RMSE", "of column means", "CPU s of the fit"]
        yield common.table(header, lines)


# -- many rows -------------------------------------------------------------------------


def large(args):
    once(args, "large/fit", partial(measure_large, 10_000))
    for n in (5_000, 10_000, 20_000):
        once(args, f"large/memory/{n}", partial(measure_memory, n))


def smooth_table(n, p=50, q=5):
    rng = np.random.RandomState(0)
    latent = rng.normal(size=(n, q))
    waves = np.sin(latent @ rng.normal(size=(q, 60)) / np.sqrt(q) + rng.uniform(0, 6, 60))
    return waves @ rng.normal(size=(60, p)) / np.sqrt(30) + 0.3 * rng.normal(size=(n, p))


def measure_large(n):
    X = smooth_table(n)
    options = {"n_restarts_optimizer": 0, "max_iter": 500, "tol": 0.0, "random_state": 0}
    clock, begun = time.perf_counter(), time.process_time()
    model = ours.gplvm(5, 20, **options).fit(X)
    seconds = {"wall": time.perf_counter() - clock, "seconds": time.process_time() - begun}
    bound = model.log_marginal_likelihood_value_ / n
    return seconds | {"iterations": model.n_iter_, "bound": bound}


def measure_memory(n):
    X = smooth_table(n)
    options = {"n_restarts_optimizer": 0, "max_iter": 60, "tol": 0.0, "random_state": 0}
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    ours.gplvm(5, 20, **options).fit(X)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return {"peak": peak / 2**20, "per_row": peak / n, "table": X.nbytes / 2**20}


def large_tables():
    entries = common.read_json(STORE)
    if one := entries.get("large/fit"):
        yield (
            f"10,000 rows of 50 columns, q = 5, m = 20: {one['iterations']} iterations of one "
            f"start took {one['seconds']:.0f} CPU seconds, and {one['wall']:.0f} seconds of the "
            f"clock beside other programs. The bound is {one['bound']:.2f} per row."
        )
    lines = [
        [key.split("/")[2], entry["table"], entry["peak"], round(entry["per_row"])]
        for key, entry in sorted(entries.items(), key=lambda pair: len(pair[0]))
        if key.startswith("large/memory")
    ]
    if lines:
        header = ["rows", "table (MiB)", "peak of the fit beyond it (MiB)", "bytes per row"]
        yield common.table(header, lines)


# -- command line ----------------------------------------------------------------------

PARTS = {"fits": fits, "gpflow": gpflow, "starts": starts, "rows": rows, "large": large}


def render():
    entries = common.read_json(STORE)
    about = (
        "Bounds are in nats per row, for centred columns divided by the root mean square of all "
        "entries. Errors are rows whose nearest other row has another label, by all components and "
        "by the two most relevant ones. Seconds are CPU seconds."
    )
    parts = ["## Fits: the best of three starts", fits_table()]
    parts += ["## GPflow's BayesianGPLVM", gpflow_table()]
    parts += ["## Twelve starts", starts_table()]
    parts += ["## New rows and missing entries", *rows_tables()]
    parts += ["## Many rows", *large_tables(), *common.about_runs(entries)]
    common.write_report("gplvm.md", "Latent inputs", about, *parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    common.add_peers(parser)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tables", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--bounds", nargs="+", choices=BOUNDS, default=list(BOUNDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds of GPflow")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    return parser.parse_args()


def main():
    args = parse()
    warnings.simplefilter("ignore")  # max_iter=500 is part of the question
    for part in args.parts if not args.render else []:
        PARTS[part](args)
    render()


if __name__ == "__main__":
    main()

"""Speed and memory of `SparseGPClassifier`, in four parts.

race
    htru2, eeg, phoneme; all rows, inputs standardised, m = 256, constant times Matern 5/2, probit:
    seconds until within 0.1 % of the best bound that anyone found. Ours (bound "titsias", which is
    the bound that SVGP maximises) beside GPflow's SVGP on all rows and on batches of 256: by turns
    a natural-gradient step for q and a step of Adam for the rest, or ten and ten iterations of
    L-BFGS. Everybody starts at length scales
    sqrt(d) and has `--limit` seconds. Ours run from the call of `fit`, so the small exact fit and
    the choice of Z count; k-means and compilation are given to GPflow free, and its clock stops
    while the bound of all rows is evaluated for the trace.
exact
    `SparseGPClassifier(random_state=0)`, a rough fit (bound "gfitc-ep", tol=3e-3, m = n/8 up to
    200) and `GaussianProcessClassifier` with the same kernel at the start: n random rows of phoneme
    to train, up to 3,000 others to test. The exact process as it comes, and with one BLAS thread.
inner
    htru2, m = 256 and 512: one inner iteration beside its floor, the bare BLAS work on n rows: one
    rank-k update and one triangular solve, n m² operations each, by several routes, of which the
    fastest counts (see speed.py). And how many inner iterations an evaluation takes during a fit
    of `--fit-iterations` steps.
memory
    Peak growth (see memory.py) of one value and gradient from scratch, of a fit of two steps and of
    `predict_proba` of all rows: n = 500,000, d = 10, m = 256, X a float32 memmap. Beyond
    working_memory an inner loop needs some numbers per row; the table says how many. ::

    python classification_speed.py --data DIR --peers-python PATH
    python classification_speed.py --data DIR --parts exact --rows 1000 2000 4000
    python classification_speed.py --data DIR --datasets phoneme --m 20 --limit 5   # a trial

Each measurement is one entry of results/classification_speed.json; entries that are there
already are not measured again, unless with `--again`. Leave the machine alone meanwhile.
"""

import argparse
import tempfile
import warnings
from functools import partial
from pathlib import Path

import common
import memory
import numpy as np
import ours
import sklearn
import speed
from scipy.linalg import blas
from sklearn.gaussian_process import GaussianProcessClassifier
from threadpoolctl import threadpool_limits
from time_to_bound import close_to, time_to

NAME = "classification_speed"
STORE = common.RESULTS / f"{NAME}.json"
RACERS = {  # options of peers.py
    "ours": None,
    "GPflow, all rows": {"gamma": 0.5, "rate": 0.02},
    "GPflow, all rows, long steps": {"gamma": 1.0, "rate": 0.1},
    "GPflow, all rows, L-BFGS": {"gamma": 0.5, "lbfgs": 10},
    "GPflow, batches": {"gamma": 0.1, "rate": 0.01, "batch": 256},
}


def once(args, key, measure):
    """Store what `measure()` returns, unless it is there."""
    if args.again or key not in common.read_json(STORE):
        entry = measure()
        common.store(STORE, key, entry)
        shown = {k: v for k, v in entry.items() if k not in ("trace", "routes")}
        common.progress(key, shown)


def entries_of(part):
    """[(words of the key after the part, entry)]"""
    entries = common.read_json(STORE).items()
    return [(key.split("/")[1:], entry) for key, entry in entries if key.startswith(f"{part}/")]


def whole(args, name):
    """Standardised inputs and classes of all rows."""
    X, y, _ = common.labelled(args.data, name)
    return common.standardise(X)[0], y


# -- race ------------------------------------------------------------------------------


def race(args):
    for name in args.datasets:
        for racer, options in RACERS.items():
            if options is None or args.peers_python:
                key = f"race/{name}/{args.m[0]}/{racer}"
                once(args, key, partial(run_racer, args, name, options))


def run_racer(args, name, options):
    X, y = whole(args, name)
    if options is None:
        trace = ours.classifier_trace(X, y, args.m[0], args.limit)
        return {"trace": thinned(trace), "iterations": len(trace), "n": len(X)}
    Z = common.kmeans_centres(X, args.m[0])
    start = {"lengthscales": np.sqrt(X.shape[1]), "gpflow_kernel": "Matern52"}
    model = common.problem(X, y, Z, **start)
    options = options | {"limit": args.limit}
    result = common.run_peer(args.peers_python, "gpflow-race", model, **options)
    return result | {"n": len(X), "options": options}


def thinned(trace, step=1.02):
    """The rows of a trace whose times are at least a fiftieth apart, and the last one."""
    kept = trace[:1]
    for row in trace[1:]:
        if row[0] >= step * kept[-1][0] or row is trace[-1]:
            kept.append(row)
    return kept


def race_table():
    groups = {}
    for (name, m, racer), entry in entries_of("race"):
        groups.setdefault((name, m), {})[racer] = entry
    rows = []
    for (name, m), entries in groups.items():
        best = max(bound for entry in entries.values() for _, bound in entry["trace"])
        for racer, entry in entries.items():
            trace = entry["trace"]
            own = max(bound for _, bound in trace)
            ours_then = time_to(entries["ours"]["trace"], own) if "ours" in entries else None
            times = [time_to(trace, close_to(best)), trace[-1][0], ours_then]
            rows.append([name, entry["n"], m, racer, f"{own:.1f}", *times])
    header = ["data set", "n", "m", "who", "best bound", "within 0.1 % of the best of all (s)"]
    return common.table(
        [*header, "last of the trace (s)", "ours has its best bound after (s)"], rows
    )


# -- exact -----------------------------------------------------------------------------


def exact(args):
    for n in args.rows:
        for split in range(args.splits):
            for who in ("ours", "ours, rough", "exact", "exact, one thread"):
                key = f"exact/phoneme/{n}/{split}/{who}"
                once(args, key, partial(fit_seconds, args, n, split, who))


def fit_seconds(args, n, split, who):
    X, y, _ = common.labelled(args.data, "phoneme")
    order = np.random.RandomState(split).permutation(len(X))
    train, test = order[:n], order[n : n + 3000]
    model = ours.default_classifier()
    if who == "ours, rough":
        model = ours.classifier(None, "gfitc-ep", min(n // 8, 200), tol=3e-3, random_state=0)
    if who.startswith("exact"):
        model = GaussianProcessClassifier(ours.initial_latent_kernel(X[train], y[train]))
    with threadpool_limits(1 if who.endswith("one thread") else None):
        seconds = common.seconds_of(lambda: model.fit(X[train], y[train]))
    probabilities = model.predict_proba(X[test])
    error = float(np.mean(np.argmax(probabilities, axis=1) != y[test]))
    return {"seconds": seconds, "nlpd": common.nlpd(y[test], probabilities), "error": error}


def exact_table():
    groups = {}
    for (name, n, _, who), entry in entries_of("exact"):
        groups.setdefault((name, int(n), who), []).append(entry)

    def mean(name, n, who, what):
        return float(np.mean([entry[what] for entry in groups[name, n, who]]))

    rows = [
        [name, n, who, len(group)]
        + [mean(name, n, who, what) for what in ("seconds", "nlpd", "error")]
        + [mean(name, n, "exact", what) / mean(name, n, who, what) for what in ("seconds", "nlpd")]
        for (name, n, who), group in sorted(groups.items())
    ]
    header = ["data set", "n", "who", "splits", "fit (s)", "log loss", "error"]
    return common.table([*header, "times as fast as exact", "log loss of exact / its own"], rows)


# -- inner -----------------------------------------------------------------------------


def blas_route(solve, n, m, blocks):
    """SciPy's BLAS, all BLAS threads: a solve and a rank-k update."""
    L, Kuf = speed.factor(m), np.random.default_rng(1).standard_normal((n, m)).T
    slices = speed.row_blocks(n, blocks)
    V = [np.empty((m, s.stop - s.start), order="F") for s in slices]
    gram = np.zeros((m, m), order="F")

    def prepare():  # the solve overwrites its right-hand side
        for v, s in zip(V, slices):
            v[...] = Kuf[:, s]

    def run():
        for v in V:
            blas.dsyrk(1.0, v, 1.0, gram, lower=1, overwrite_c=1)
            solve(1.0, L, v, lower=1, overwrite_b=1)

    name = "dtrsm" if solve is blas.dtrsm else "dtrmm"
    return speed.Timed(f"{name}, dsyrk, {blocks} blocks [2]", run, prepare)


def matmul_route(n, m, blocks, threads):
    """`np.matmul` only; Python threads over blocks, or BLAS threads if `threads` is 0."""
    inverse = np.ascontiguousarray(speed.factor(m))
    Kuf = np.random.default_rng(1).standard_normal((n, m)).T
    K = [np.ascontiguousarray(Kuf[:, s]) for s in speed.row_blocks(n, blocks)]
    work = [(k, np.empty_like(k), np.empty((m, m))) for k in K]

    def block(k, v, gram):
        np.matmul(k, k.T, out=gram)  # NumPy calls syrk
        np.matmul(inverse, k, out=v)

    kind = f"{threads} Python threads" if threads else "BLAS threads"
    name = f"matmul, {blocks} blocks, {kind} [2]"
    return speed.Timed(name, lambda: speed.run_blocks(block, work, threads))


def floor_routes(n, m):
    return [
        blas_route(blas.dtrsm, n, m, 1),
        blas_route(blas.dtrsm, n, m, 8),
        blas_route(blas.dtrmm, n, m, 8),
        matmul_route(n, m, 1, threads=0),
        matmul_route(n, m, 8, threads=speed.os.cpu_count()),
    ]


def inner(args):
    for m in args.m:
        for bound in args.bounds:
            once(args, f"inner/htru2/{m}/{bound}", partial(inner_iteration, args, m, bound))
            once(args, f"fit/htru2/{m}/{bound}", partial(inner_count, args, m, bound))


def inner_iteration(args, m, bound):
    X, y = whole(args, "htru2")
    Z = X[np.random.RandomState(0).permutation(len(X))[:m]]
    function = ours.inner_iteration(X, y, ours.latent_kernel(X.shape[1]), bound, Z)
    mine = speed.warm("ours", function)
    times = speed.rounds([mine, *floor_routes(len(X), m)], args.repeats)
    route = speed.fastest_route(times, 2)
    medians = {name: float(np.median(seconds)) for name, seconds in times.items()}
    ratio = common.median_ratio(times["ours"], times[route])
    return {"routes": medians, "route": route, "ratio": ratio, "n": len(X)}


def inner_count(args, m, bound):
    X, y = whole(args, "htru2")
    kernel = ours.latent_kernel(X.shape[1])
    model = ours.classifier(kernel, bound, m, max_iter=args.fit_iterations, random_state=0)
    seconds = common.seconds_of(lambda: model.fit(X, y))
    counts = ours.inner_iterations(model)
    return {"seconds": seconds, "evaluations": len(counts), "mean": float(np.mean(counts))}


def inner_table():
    fits = {tuple(words): entry for words, entry in entries_of("fit")}
    rows = []
    for words, entry in entries_of("inner"):
        name, m, bound = words
        fit, routes, route = fits.get(tuple(words), {}), entry["routes"], entry["route"]
        found = [routes["ours"], routes[route], entry["ratio"], route]
        rows.append([name, entry["n"], m, bound, *found, fit.get("evaluations"), fit.get("mean")])
    header = ["data set", "n", "m", "bound", "inner iteration (s)", "floor (s)", "ours / floor"]
    return common.table([*header, "fastest route", "evaluations", "inner iterations each"], rows)


# -- memory ----------------------------------------------------------------------------


def tasks(X, y, m, bound):
    """(name, function) pairs, one at a time."""
    few = np.asarray(X[: 4 * m], dtype=np.float64)
    kernel = ours.latent_kernel(X.shape[1])
    options = {"random_state": 0}
    evaluation = ours.classifier_evaluation(X, y, kernel, bound, few[:m].copy())
    yield "value and gradient", evaluation
    yield (
        "fit, two steps",
        lambda: ours.classifier(kernel, bound, m, max_iter=2, **options).fit(X, y),
    )
    model = ours.classifier(kernel, bound, m, optimizer=None, **options).fit(few, y[: len(few)])
    yield "predict_proba", lambda: model.predict_proba(X)


def measure_memory(args):
    m, (n, d) = args.m[0], args.memory_size
    sklearn.set_config(working_memory=args.working_memory)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.float32"
        memory.write_inputs(path, n, d)
        X = np.memmap(path, dtype=np.float32, mode="r", shape=(n, d))
        noise = np.random.default_rng(0).standard_normal(n)
        y = (memory.targets(X) + noise > 0).astype(int)
        for bound in args.bounds:
            for name, function in tasks(X, y, m, bound):
                key = f"memory/{n}/{d}/{m}/{args.working_memory}/{bound}/{name}"
                once(args, key, partial(memory_entry, function))


def memory_entry(function):
    megabytes, seconds = memory.growth(function)
    return {"megabytes": megabytes, "seconds": seconds}


def memory_table():
    rows = []
    for (n, d, m, allowed, *call), entry in entries_of("memory"):
        beyond = (entry["megabytes"] - int(allowed)) * 2**20 / 8 / int(n)
        grown = round(entry["megabytes"])
        rows.append([", ".join(call), n, d, m, grown, allowed, beyond, entry["seconds"]])
    header = ["call", "n", "d", "m", "peak growth (MB)", "working_memory (MB)"]
    return common.table([*header, "beyond it, numbers per row", "seconds"], rows)


# -- command line ----------------------------------------------------------------------

PARTS = {"race": race, "exact": exact, "inner": inner, "memory": measure_memory}


def render():
    titles = {
        "Time to the best bound": race_table,
        "Beside the exact process": exact_table,
        "One inner iteration beside the bare BLAS work": inner_table,
        "Memory": memory_table,
    }
    parts = [f"## {title}\n\n{body()}" for title, body in titles.items()]
    common.write_report(f"{NAME}.md", "Speed of classification", *parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    common.add_peers(parser)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--datasets", nargs="+", default=["htru2", "eeg", "phoneme"])
    parser.add_argument("--m", nargs="+", type=int, default=[256, 512], help="inner: all of them")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of a racer")
    parser.add_argument("--rows", nargs="+", type=int, default=[1000, 2000], help="of part exact")
    parser.add_argument("--splits", type=int, default=3, help="of part exact")
    parser.add_argument("--bounds", nargs="+", default=["titsias_new"], help="of inner and memory")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--fit-iterations", type=int, default=50)
    parser.add_argument("--memory-size", nargs=2, type=int, default=[500_000, 10], help="n d")
    parser.add_argument("--working-memory", type=int, default=1024, help="MB")
    parser.add_argument("--again", action="store_true")
    return parser.parse_args()


def main():
    args = parse()
    warnings.simplefilter("ignore")  # fits that end early, on purpose
    for part in args.parts:
        PARTS[part](args)
    render()


if __name__ == "__main__":
    main()

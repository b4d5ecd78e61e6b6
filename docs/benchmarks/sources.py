"""Memory of a process that learns from rows on disk, by the number of rows.

Rows are float32 in .npy files on disk (d = 10), a million rows in each, which
`skgp_sparse.sources.Stream` reads chunk by chunk. For every number of rows a new process

- opens the files and surveys them: a first pass, which checks and counts,
- computes one posterior at m inducing points that stay where they are,
- computes one value and gradient of the bound, with respect to theta and Z,

and says how long each took and how much memory was resident at most (``ru_maxrss`` of
getrusage, all pages of all libraries included). With ``--solver`` it fits instead. ::

    python sources.py                                  # 10^5, 10^6 and 10^7 rows, m = 500
    python sources.py --rows 100000 --m 100            # a trial
    python sources.py --solver lbfgs --rows 1000000    # complete fits
    python sources.py --render                         # the table and the plot of what is there

`--solver` other than "lbfgs" is passed to the estimator as its parameter `solver`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import numpy as np

RESULT = common.RESULTS / "sources.json"
PER_FILE = 1_000_000
KINDS = ("regressor", "classifier")


# -- rows ------------------------------------------------------------------------------


def rows_of_file(n, d, seed, kind):
    """Uniform inputs, a smooth function of three of them, and noise; or its sign."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n).astype(np.float32)
    return X, (y > 0).astype(np.int8) if kind == "classifier" else y


def write_files(folder, n, d, kind):
    """Pairs of .npy files that together have n rows."""
    for number, start in enumerate(range(0, n, PER_FILE)):
        X, y = rows_of_file(min(PER_FILE, n - start), d, number, kind)
        np.save(folder / f"X{number}.npy", X), np.save(folder / f"y{number}.npy", y)


def pairs_in(folder):
    count = len(list(Path(folder).glob("X*.npy")))
    return [tuple(str(Path(folder) / f"{x}{k}.npy") for x in "Xy") for k in range(count)]


# -- one process -----------------------------------------------------------------------


def resident():
    """Largest resident memory of this process so far, in MB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def timed(function):
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def evaluations(args):
    """Memory and seconds of a posterior, and of a value and gradient, of the regressor."""
    import ours

    source = ours.files(pairs_in(args.folder))
    found = {"before": resident()}
    model, found["seconds of survey and posterior"] = timed(lambda: ours.posterior(source, args.m))
    found["with a posterior"] = resident()
    _, found["seconds of value and gradient"] = timed(lambda: ours.gradient(model))
    return found | {"resident": resident()}


def fit(args):
    """Memory, seconds and score of a complete fit."""
    import ours

    source = ours.files(pairs_in(args.folder))
    found = {"before": resident()}
    solver = {} if args.solver == "lbfgs" else {"solver": args.solver}
    make = ours.classifier if args.kind == "classifier" else ours.regressor
    model = make(n_inducing=args.m, random_state=0, **solver)
    _, found["seconds"] = timed(lambda: model.fit(source))
    found["resident"] = resident()
    X, y = rows_of_file(10_000, source.chunk(0).X.shape[1], 10**6, args.kind)
    score = float(model.score(X, y))
    return found | {"score": score, "iterations": model.n_iter_, "bound": model_bound(model)}


def model_bound(model):
    return model.log_marginal_likelihood_value_


def child(args):
    """Print what one process finds out."""
    found = evaluations(args) if args.solver is None else fit(args)
    print(json.dumps(found))


# -- all processes ---------------------------------------------------------------------


def measure(args, n):
    """What a new process says of n rows, which are on disk meanwhile."""
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        write_files(Path(folder), n, args.d, args.kind)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        words = ["--child", "--folder", folder, "--m", args.m, "--kind", args.kind]
        words += [] if args.solver is None else ["--solver", args.solver]
        command = [sys.executable, __file__, *map(str, words)]
        done = subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    about = {"rows": n, "m": args.m, "on disk": round(size / 2**20), "solver": args.solver}
    return about | found | {"kind": args.kind, "commit": common.commit(common.HERE)}


def key_of(args, n):
    return f"{args.kind} {args.solver or 'evaluation'} m={args.m} n={n}"


def by_size(entries, fits):
    chosen = [one for one in entries.values() if (one["solver"] is not None) == fits]
    return sorted(chosen, key=lambda one: (one["kind"], str(one["solver"]), one["m"], one["rows"]))


COLUMNS = {
    "estimator": "kind",
    "solver": "solver",
    "m": "m",
    "rows": "rows",
    "on disk (MB)": "on disk",
    "resident before (MB)": "before",
    "resident at most (MB)": "resident",
    "survey and posterior (s)": "seconds of survey and posterior",
    "value and gradient (s)": "seconds of value and gradient",
    "fit (s)": "seconds",
    "score": "score",
    "commit": "commit",
}


def columns(entries):
    """A table of the columns that these entries have."""
    used = {title: key for title, key in COLUMNS.items() if any(one.get(key) for one in entries)}
    return common.table(list(used), [[one.get(key) for key in used.values()] for one in entries])


def render():
    entries = common.read_json(RESULT)
    parts = [__doc__.split("::")[0].split("\n\n", 1)[1].strip()]
    parts += [
        columns(found) for found in (by_size(entries, False), by_size(entries, True)) if found
    ]
    common.write_report("sources.md", "Rows on disk", *parts)
    plot([one for one in entries.values() if one["solver"] is None])


def plot(entries):
    """Resident memory against the number of rows, beside the size of the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for m in sorted({one["m"] for one in entries}):
        own = sorted((one["rows"], one["resident"]) for one in entries if one["m"] == m)
        axes.plot(*zip(*own), "o-", label=f"resident at most, m = {m}")
    sizes = sorted({(one["rows"], one["on disk"]) for one in entries})
    axes.plot(*zip(*sizes), "k--", label="files on disk")
    axes.axhline(2000, color="grey", linewidth=0.8)
    axes.set(xscale="log", xlabel="rows", ylabel="MB", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(RESULT.with_suffix(".png"), dpi=120)
    plt.close(figure)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--d", type=int, default=10)
    parser.add_argument("--m", type=int, default=500)
    parser.add_argument("--solver", help='complete fits: "lbfgs", or a value of `solver`')
    parser.add_argument("--kind", choices=KINDS, default="regressor")
    parser.add_argument("--folder", help="where the files go; a temporary one")
    parser.add_argument("--again", action="store_true", help="measure what is there already")
    parser.add_argument("--render", action="store_true", help="only write the table and the plot")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.child:
        child(args)
        return
    for n in [] if args.render else args.rows:
        common.once(RESULT, key_of(args, n), lambda n=n: measure(args, n), args.again)
    render()


if __name__ == "__main__":
    main()

"""Where the seconds of a default fit go, and whether threads pay.

With ``--tables``, CPU and wall seconds by step of the plan, on one thread; otherwise those of
default fits to made-up rows on one thread and with threads as they come, each in a process of its
own, beside another checkout. Tables are those of wild.py. ::

    python seconds.py --data DIR --tables wage hawks --split 0
    python seconds.py --before CHECKOUT --turns 3

The report of the latter is results/seconds.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import common
import numpy as np
import ours

NUMBERS, LABELS, COLUMNS = (300, 1000, 2000, 3750, 6000, 20_000), (500, 5000), 10
ONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def made_up(n, labels):
    """Rows (n, 10), of which four columns matter, and numbers or labels."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, COLUMNS))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    y = f + 0.2 * np.exp(0.5 * X[:, 0]) * rng.normal(size=n)
    return X, (y > 0) if labels else y


def timed(act):
    """Wall and CPU seconds of a call."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - wall, time.process_time() - cpu


def work(n, kind):
    """Seconds of one fit, or of a search; those of two processes are wall only."""
    labels = kind == "labels"
    warnings.simplefilter("ignore")
    ours.warm_up(labels)
    X, y = made_up(n, labels)
    if kind.startswith("search"):
        from sklearn.model_selection import GridSearchCV

        grid = {"noise": ["constant", "auto"], "mean": [None, "auto"]}
        search = GridSearchCV(ours.default_regressor(), grid, cv=5, n_jobs=int(kind[-1]))
        return timed(lambda: search.fit(X, y))
    return timed(lambda: ours.default(labels).fit(X, y))


def measured(checkout, n, kind, environment):
    """Wall and CPU seconds of a fit in a process of its own."""
    command = [sys.executable, __file__, "--worker", kind, "--rows", str(n)]
    env = os.environ | environment | {"PYTHONPATH": str(Path(checkout).resolve())}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def by_step(args):
    """A table of the steps of default fits."""
    import wild

    rows = []
    for name in args.tables:
        labels = name in wild.LABELS
        X, y, *_ = wild.load(args.data, name, args.split)
        ours.warm_up(labels)
        with ours.timed_steps(timed) as steps:
            whole = timed(lambda: ours.default(labels).fit(X, y))  # noqa: B023
        named = [*steps.items(), ("all", whole)]
        rows += [[name, step, len(y), cpu, wall] for step, (wall, cpu) in named]
    return common.table(["table", "step", "rows", "CPU seconds", "wall"], rows)


def threads(args):
    """A table of default fits on one thread and with threads as they come."""
    checkouts = {"now": common.HERE.parents[1]} | ({"before": args.before} if args.before else {})
    cases = [(n, "numbers") for n in NUMBERS] + [(n, "labels") for n in LABELS]
    rows = []
    for n, kind in cases:
        for name, checkout in checkouts.items():
            turns = [
                [*measured(checkout, n, kind, ONE), *measured(checkout, n, kind, {})]
                for _ in range(args.turns)
            ]
            wall_1, cpu_1, wall, cpu = np.median(turns, axis=0)
            ratios = [float(wall / wall_1), float(cpu / cpu_1)]
            rows.append([f"{n} {kind}", name, wall_1, cpu_1, wall, cpu, *ratios])
    header = ["rows", "", "wall, one thread", "CPU", "wall, as they come", "CPU"]
    parts = [common.table([*header, "wall ratio", "CPU ratio"], rows)]
    search = [measured(checkouts["now"], 1000, f"search {k}", {})[0] for k in (1, 2)]
    parts.append(
        f"A search over four models in five folds of 1,000 rows takes {search[1] / search[0]:.2f} "
        "times the wall seconds with n_jobs=2 that it takes with n_jobs=1."
    )
    commits = ", ".join(f"{name}: commit {common.commit(one)}" for name, one in checkouts.items())
    parts.append(f"Medians of {args.turns} turns; {commits}.")
    common.write_report("seconds.md", "Seconds of default fits, and threads", *parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.worker:
        print(json.dumps(work(args.rows, args.worker)))
    elif args.tables:
        print(by_step(args))
    else:
        threads(args)


if __name__ == "__main__":
    main()

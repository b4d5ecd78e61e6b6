"""Single evaluations of this version of the package and of another one, by turns.

Value and gradient of the collapsed bound "titsias_new" with Gaussian noise, by
`log_marginal_likelihood(theta, eval_gradient=True)` of a model whose hyperparameters and inducing
points are given; d = 8. Each version has a process of its own, which waits while the other one
works: before, after, before, after ... Reported: the medians of the seconds and of the ratios
within a round, and the peak growth of the memory during one evaluation (see memory.py; Linux
only). ::

    python evaluations_before_after.py --before OTHER/CHECKOUT
    python evaluations_before_after.py --before OTHER/CHECKOUT --n 1000 --m 100 --repeats 3
    python evaluations_before_after.py --before OTHER/CHECKOUT --write        # also to results/

Leave the machine alone meanwhile.
"""

import argparse
import os
import subprocess
import sys
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import common
import memory
import numpy as np
import ours
import small_evaluations

VERSIONS = ("before", "after")
D, BOUND = 8, "titsias_new"


# -- the process of a version ----------------------------------------------------------


def evaluation(n, m, n_jobs):
    """A function of no argument."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    kernel = ours.rbf_kernel(D, lengthscales=3.0, noise=0.1)
    options = {"inducing_init": X[:m].copy(), "optimizer": None, "posterior": "inducing"}
    model = ours.regressor(kernel, BOUND, m, **options, n_jobs=n_jobs, random_state=0).fit(X, y)
    return lambda: model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)


def work(args):
    """Answer every line of standard input with a number."""
    ours.check_package(args.worker)
    function = evaluation(args.n[0], args.m[0], args.n_jobs)
    function()
    measures = {
        "seconds": lambda: small_evaluations.seconds_per_call(function),
        "memory": lambda: memory.growth(function)[0],
        "value": lambda: function()[0],
    }
    for line in sys.stdin:
        print(float(measures[line.strip()]()), flush=True)


class Worker:
    """Context of the process of a version."""

    def __init__(self, folder, n, m, n_jobs):
        words = ["--worker", folder, "--n", n, "--m", m]
        words += [] if n_jobs is None else ["--n-jobs", n_jobs]
        self.command = [sys.executable, __file__, *map(str, words)]
        self.environment = os.environ | {"PYTHONPATH": str(Path(folder).resolve())}

    def __enter__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(self.command, env=self.environment, **pipes)
        return self

    def __exit__(self, *args):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, what):
        print(what, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


# -- the comparison --------------------------------------------------------------------


def row(args, n, m):
    """Medians of one size, as a line of the table."""
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(getattr(args, version), n, m, args.n_jobs))
            for version in VERSIONS
        ]
        values = [worker.ask("value") for worker in workers]
        rounds = [[worker.ask("seconds") for worker in workers] for _ in range(args.repeats + 1)]
        megabytes = [worker.ask("memory") for worker in workers]
    before, after = np.transpose(rounds[1:])  # the first one warms up
    seconds = [1e3 * float(np.median(some)) for some in (before, after)]
    found = [n, m, *seconds, common.median_ratio(after, before), *map(round, megabytes)]
    common.progress(*found)
    return [*found, f"{abs(values[1] - values[0]) / abs(values[0]):.0e}"]


def report(args):
    header = ["n", "m", "before (ms)", "after (ms)", "after / before", "before (MB)", "after (MB)"]
    rows = [row(args, n, m) for n, m in product(args.n, args.m)]
    commits = [f"{version}: {common.commit(getattr(args, version))}" for version in VERSIONS]
    about = (
        f"One value and gradient, d = {D}, {BOUND}, medians of {args.repeats} rounds; the growth "
        "of the memory; and the relative difference of the two values."
    )
    parts = [about, f"Commits - {'; '.join(commits)}.", common.table([*header, "values"], rows)]
    if args.write:
        common.write_report("evaluations_before_after.md", "Evaluations, before and after", *parts)
    else:
        print("\n\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_versions(parser)
    parser.add_argument("--n", nargs="+", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--m", nargs="+", type=int, default=[100, 500])
    parser.add_argument("--n-jobs", type=int, help="threads; default as in a fit")
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--write", action="store_true", help="also to results/")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args)
    if not args.before:
        parser.error("--before is needed")
    return report(args)


if __name__ == "__main__":
    main()

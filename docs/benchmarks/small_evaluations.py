"""One value and gradient (kernel, noise and Z) of the sparse bounds where little work is in it.

small
    n = 500 ... 5000 rows, m = 100, 250, 500 inducing points, d = 8, a kernel like the default one,
    with 2 and with 4 threads, beside a BLAS floor that includes the steps of order m³:

    - potrf and trtri of Kuu, potrf and potri of B, one product with a triangle and one congruence
      with it (trmm three times), copies of m² numbers included;
    - the work on the rows, as in speed.py: 4 n m² operations for titsias and 6 n m² for
      titsias_new, by the faster of two routes, SciPy's trsm, syrk and gemm on one block, or
      `np.matmul` with the inverse factor given free.

    BLAS has as many threads for the floor as our evaluation has. Ours runs in the context of a fit,
    so its threads wait for it; like the floor, it is called until 20 ms are over, after an untimed
    call. The ratio is the median of the ratios within a round.
large
    n = 15,000 and 36,000, m = 500 and 1000: the share of the peak of matrix products (`np.matmul`
    of two matrices of 3000 by 3000, with as many BLAS threads, in turn with ours) that an
    evaluation reaches, 4 n m² or 6 n m² operations counted and nothing else. ::

    python small_evaluations.py
    python small_evaluations.py --parts small --n 300 --m 50 --threads 2 --repeats 3    # a trial
    python small_evaluations.py --render                                     # the tables alone

More threads than there are cores are left out. Each measurement is one entry of
results/small_evaluations.json; entries that are there already are not measured again, unless with
`--again`. Leave the machine alone meanwhile.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import NamedTuple

import common
import numpy as np
import ours
import speed
from scipy.linalg import blas, lapack

STORE = common.RESULTS / "small_evaluations.json"
BOUNDS = {"titsias_new": 6, "titsias": 4}  # n m² operations
LONG_ENOUGH = 0.02  # seconds


class Call(NamedTuple):
    """Something to call again and again in a context; `prepare` runs once per round, untimed."""

    name: str
    run: Callable
    context: Callable
    prepare: Callable = lambda: None


def rounds(calls, repeats):
    """Seconds per call in each round, {name: array}; one round to warm up."""
    times = {call.name: [] for call in calls}
    for _ in range(repeats + 1):
        for call in calls:
            call.prepare()
            with call.context():
                times[call.name].append(seconds_per_call(call.run))
    return {name: np.array(seconds[1:]) for name, seconds in times.items()}


def seconds_per_call(function):
    """Of a few calls in a row, after one that is not counted."""
    count = max(1, min(50, int(LONG_ENOUGH / max(common.seconds_of(function), 1e-6))))

    def several():
        for _ in range(count):
            function()

    return common.seconds_of(several) / count


def blas_threads(threads):
    return speed.CONTROLLER.limit(limits=threads, user_api="blas")


def problem(n, m, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std(), X[:m].copy()


def our_call(n, m, d, bound, threads):
    X, y, Z = problem(n, m, d)
    kernel = ours.like_default(X, ours.matern)
    function = ours.objective(X, y, kernel, bound, threads)
    return Call("ours", lambda: function(kernel.theta, Z), ours.as_in_fit)


# -- small -----------------------------------------------------------------------------


def cubic_steps(m):
    """A function of no argument: the m³ work of an evaluation."""
    L = speed.factor(m)
    K = np.asfortranarray(L @ L.T)
    S = np.asfortranarray(K + K.T)

    def run():
        factor = lapack.dpotrf(K, lower=1, clean=0)[0]
        T = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
        lapack.dpotri(lapack.dpotrf(K, lower=1, clean=0)[0], lower=1, overwrite_c=1)
        blas.dtrmm(1.0, T, S, lower=1)
        half = blas.dtrmm(1.0, T, S, lower=1, trans_a=1)
        blas.dtrmm(1.0, T, half, side=1, lower=1, overwrite_b=1)

    return run


def floor_calls(n, m, operations, threads):
    routes = [
        speed.blas_route(blas.dtrsm, n, m, 1, operations),
        speed.matmul_route(n, m, 1, operations, threads=0),
    ]
    context = partial(blas_threads, threads)
    named = [Call(route.name, route.run, context, route.prepare) for route in routes]
    return [Call("m³", cubic_steps(m), context), *named]


def small(args):
    for threads, n, m, bound in product(args.threads, args.n, args.m, args.bounds):
        if m < n:
            key = f"small/{threads}/{n}/{m}/{bound}"
            once(args, key, partial(measure_small, args, threads, n, m, bound))


def measure_small(args, threads, n, m, bound):
    calls = floor_calls(n, m, BOUNDS[bound], threads)
    times = rounds([our_call(n, m, args.d, bound, threads), *calls], args.repeats)
    route = speed.fastest_route(times, BOUNDS[bound])
    floor = times["m³"] + times[route]
    return {
        "ours": float(np.median(times["ours"])),
        "floor": float(np.median(floor)),
        "cubic": float(np.median(times["m³"])),
        "route": route,
        "ratio": common.median_ratio(times["ours"], floor),
    }


def small_table():
    rows = []
    for (threads, n, m, bound), entry in entries_of("small"):
        milliseconds = [1000 * entry[what] for what in ("ours", "floor", "cubic")]
        rows.append([bound, threads, n, m, *milliseconds, entry["ratio"], entry["route"]])
    header = ["bound", "threads", "n", "m", "ours (ms)", "floor (ms)", "of it m³ (ms)"]
    return common.table([*header, "ours / floor", "faster route"], rows)


# -- large -----------------------------------------------------------------------------


def matmul_call(size, threads):
    A, B = np.random.default_rng(0).standard_normal((2, size, size))
    out = np.empty((size, size))
    run = lambda: np.matmul(A, B, out=out)
    return Call("matmul", run, partial(blas_threads, threads))


def large(args):
    for threads, n, m, bound in product(args.threads, args.large_n, args.large_m, args.bounds):
        key = f"large/{threads}/{n}/{m}/{bound}"
        once(args, key, partial(measure_large, args, threads, n, m, bound))


def measure_large(args, threads, n, m, bound):
    peak = matmul_call(args.matmul, threads)
    times = rounds([our_call(n, m, args.d, bound, threads), peak], args.large_repeats)
    counted, peak_operations = BOUNDS[bound] * n * m**2, 2 * args.matmul**3
    return {
        "ours": float(np.median(times["ours"])),
        "gigaflops": counted / float(np.median(times["ours"])) / 1e9,
        "peak": peak_operations / float(np.median(times["matmul"])) / 1e9,
        "share": counted / peak_operations * common.median_ratio(times["matmul"], times["ours"]),
    }


def large_table():
    parts = ("ours", "gigaflops", "peak", "share")
    rows = [
        [bound, threads, n, m, *map(entry.get, parts)]
        for (threads, n, m, bound), entry in entries_of("large")
    ]
    header = ["bound", "threads", "n", "m", "ours (s)", "counted (Gflop/s)", "matmul (Gflop/s)"]
    return common.table([*header, "share of it"], rows)


# -- command line ----------------------------------------------------------------------

PARTS = {"small": small, "large": large}


def once(args, key, measure):
    common.once(STORE, key, measure, args.again)


def entries_of(part):
    """[(threads, n, m, bound), entry], numbers in order."""
    entries = common.read_json(STORE).items()
    found = [(key.split("/")[1:], entry) for key, entry in entries if key.startswith(f"{part}/")]
    return sorted(found, key=lambda pair: (pair[0][3], *map(int, pair[0][:3])))


def render():
    titles = {
        "Small evaluations beside the bare BLAS work": small_table,
        "Large evaluations as a share of the peak of matrix products": large_table,
    }
    parts = [f"## {title}\n\n{body()}" for title, body in titles.items()]
    about = "One value and gradient (kernel, noise, Z); medians over interleaved repeats."
    common.write_report("small_evaluations.md", "Evaluations, small and large", about, *parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--n", nargs="+", type=int, default=[500, 1000, 2000, 5000])
    parser.add_argument("--m", nargs="+", type=int, default=[100, 250, 500])
    parser.add_argument("--d", type=int, default=8)
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--bounds", nargs="+", choices=BOUNDS, default=list(BOUNDS))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--large-n", nargs="+", type=int, default=[15_000, 36_000])
    parser.add_argument("--large-m", nargs="+", type=int, default=[500, 1000])
    parser.add_argument("--large-repeats", type=int, default=5)
    parser.add_argument("--matmul", type=int, default=3000, help="rows of its square matrices")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--render", action="store_true", help="only the tables")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    args.threads = [threads for threads in args.threads if threads <= cores]
    return args


def main():
    args = parse()
    warnings.simplefilter("ignore")
    for part in args.parts if not args.render else []:
        PARTS[part](args)
    render()


if __name__ == "__main__":
    main()

"""Seconds of one value and gradient (kernel, noise and Z): ours, BLAS, the peers.

Elevators, n = 10,000 random rows, d = 18, m = 1024, squared exponential kernel.

The *floor* is the BLAS work that no exact method of this kind can do without, and
nothing else - no kernel, no regulariser, no m by m factorisation:

- titsias, artemev: one triangular solve (n m²), one rank-k update (n m²) and one
  product (2 n m²): 4 n m² operations;
- titsias_new, fitc: a rank-k update and a triangular solve more: 6 n m².

It is timed by several routes - SciPy's BLAS with all threads on the whole or on eight
blocks, the solve by `dtrsm` or as a product with the inverse factor by `dtrmm`, and
`np.matmul` only, with BLAS threads or with Python threads over the blocks - and the
route with the smallest median is the floor. Where a route uses an inverse factor, that
is given to it free. Ours and all routes run in turn (A B C A B C …) in one process;
the ratio is the median of the ratios within a round. The peers run just before, in
their own environment, and always compute the Titsias bound. ::

    python speed.py --data DIR --peers-python PATH
    python speed.py --data DIR --peers-python PATH --busy     # quiet, then one core taken
    python speed.py --data DIR --n 500 --m 50 --repeats 2     # a trial
"""

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import common
import numpy as np
import ours
from scipy.linalg import blas
from threadpoolctl import ThreadpoolController

BOUNDS = {"titsias": 4, "artemev": 4, "titsias_new": 6, "fitc": 6}  # n m² operations


class Timed(NamedTuple):
    """Something to time: `prepare` runs before each `run`, outside the clock."""

    name: str
    run: Callable
    prepare: Callable = lambda: None


def rounds(items, repeats):
    """Seconds of each item in each round, {name: array}; one round to warm up."""
    times = {item.name: [] for item in items}
    for _ in range(repeats + 1):
        for item in items:
            item.prepare()
            times[item.name].append(common.seconds_of(item.run))
    return {name: np.array(seconds[1:]) for name, seconds in times.items()}


# -- the floor -------------------------------------------------------------------------


def row_blocks(n, count):
    edges = np.linspace(0, n, count + 1).astype(int)
    return [slice(*pair) for pair in pairwise(edges)]


def factor(m, seed=0):
    """A well-conditioned lower triangular matrix, Fortran order."""
    noise = np.random.default_rng(seed).standard_normal((m, m))
    return np.asfortranarray(np.tril(noise / m) + np.eye(m))


def blas_route(solve, n, m, blocks, operations):
    """SciPy's BLAS, in place, all BLAS threads."""
    L, Kuf = factor(m), np.random.default_rng(1).standard_normal((n, m)).T
    V = [np.empty((m, s.stop - s.start), order="F") for s in row_blocks(n, blocks)]
    W = [np.empty_like(block) for block in V]
    gram = np.zeros((m, m), order="F")

    def prepare():  # the solve overwrites its right-hand side
        for block, s in zip(V, row_blocks(n, blocks), strict=True):
            block[...] = Kuf[:, s]

    def run():
        for v, w in zip(V, W, strict=True):
            solve(1.0, L, v, lower=1, overwrite_b=1)
            blas.dsyrk(1.0, v, 1.0, gram, lower=1, overwrite_c=1)
            np.matmul(L, v, out=w)
            if operations == 6:
                blas.dsyrk(1.0, v, 1.0, gram, lower=1, overwrite_c=1)
                solve(1.0, L, w, lower=1, trans_a=1, overwrite_b=1)

    name = "dtrsm" if solve is blas.dtrsm else "dtrmm"
    return Timed(f"{name}, dsyrk, {blocks} blocks [{operations}]", run, prepare)


def matmul_route(n, m, blocks, operations, threads):
    """`np.matmul` only; Python threads over blocks, or BLAS threads if `threads` is 0."""
    inverse = np.ascontiguousarray(factor(m))
    Kuf = np.random.default_rng(1).standard_normal((n, m)).T
    K = [np.ascontiguousarray(Kuf[:, s]) for s in row_blocks(n, blocks)]
    V, W = [np.empty_like(k) for k in K], [np.empty_like(k) for k in K]
    grams = [np.empty((m, m)) for _ in K]

    def block(k, v, w, gram):
        np.matmul(inverse, k, out=v)
        np.matmul(v, v.T, out=gram)  # NumPy calls syrk
        np.matmul(inverse, v, out=w)
        if operations == 6:
            np.matmul(v, v.T, out=gram)
            np.matmul(inverse.T, w, out=k)

    def prepare():
        for k, s in zip(K, row_blocks(n, blocks), strict=True):
            k[...] = Kuf[:, s]

    run = partial(run_blocks, block, list(zip(K, V, W, grams, strict=True)), threads)
    kind = f"{threads} Python threads" if threads else "BLAS threads"
    return Timed(f"matmul, {blocks} blocks, {kind} [{operations}]", run, prepare)


CONTROLLER = ThreadpoolController()


def run_blocks(function, blocks, threads):
    if not threads:
        for block in blocks:
            function(*block)
        return
    with CONTROLLER.limit(limits=1), ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda block: function(*block), blocks))


def floor_routes(n, m, operations):
    cores = os.cpu_count()
    return [
        blas_route(blas.dtrsm, n, m, 1, operations),
        blas_route(blas.dtrsm, n, m, 8, operations),
        blas_route(blas.dtrmm, n, m, 8, operations),
        matmul_route(n, m, 1, operations, threads=0),
        matmul_route(n, m, 8, operations, threads=cores),
    ]


# -- the comparison --------------------------------------------------------------------


def elevators(args):
    X, y = common.load(args.data, "elevators")
    rows = np.random.default_rng(0).permutation(len(X))[: args.n]
    (X,), (y,) = common.standardise(X[rows]), common.standardise(y[rows])
    Z = X[: args.m].copy()
    return common.problem(X, y, Z, lengthscales=3.0, noise=0.1)


def peers(args, model):
    """{name: result} of the peers, if there are any."""
    names = {"GPflow": "gpflow-eval", "GPyTorch": "gpytorch-eval"}
    if not args.peers_python:
        return {}
    run = partial(common.run_peer, args.peers_python, model=model, repeats=args.repeats)
    return {name: run(command=command) for name, command in names.items()}


def measure(args, model):
    """Times of ours and of every route, in turn, and the results of the peers."""
    theirs = peers(args, model)
    n, m = len(model["X"]), len(model["Z"])
    mine = [warm(bound, ours.evaluation(model, bound)) for bound in args.bounds]
    kinds = sorted({BOUNDS[bound] for bound in args.bounds})
    routes = [route for kind in kinds for route in floor_routes(n, m, kind)]
    return rounds(mine + routes, args.repeats), theirs


def warm(name, function):
    """Timed after a call of its own, as in a fit: pages that another side freed cost it nothing."""
    return Timed(name, function, prepare=function)


def fastest_route(times, operations):
    routes = [name for name in times if name.endswith(f"[{operations}]")]
    return min(routes, key=lambda name: np.median(times[name]))


def bound_row(bound, times, theirs):
    route = fastest_route(times, BOUNDS[bound])
    mine = float(np.median(times[bound]))
    row = {
        "bound": bound,
        "ours (s)": mine,
        "floor (s)": float(np.median(times[route])),
        "ours / floor": common.median_ratio(times[bound], times[route]),
        "fastest route": route,
    }
    for name, result in theirs.items():
        row[f"{name} (s)"] = float(np.median(result["seconds"]))
        row[f"ours / {name}"] = mine / row[f"{name} (s)"]
    return row


def route_table(times):
    routes = [name for name in times if name.endswith("]")]
    rows = [[name, float(np.median(times[name]))] for name in routes]
    return common.table(["route of the floor [n m² operations]", "median (s)"], rows)


def value_check(model, theirs):
    """Everybody's Titsias bound: the same number, up to the jitter of each."""
    value = float(ours.evaluation(model, "titsias")()[0])
    others = [f"{name} {result['value']:.3f}" for name, result in theirs.items()]
    return "Titsias bound computed: " + ", ".join([f"ours {value:.3f}", *others]) + "."


@contextlib.contextmanager
def spinning(wanted):
    """One core taken by another process while the block runs."""
    if not wanted:
        yield
        return
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        spinner.kill()
        spinner.wait()


def section(args, model, busy):
    with spinning(busy):
        times, theirs = measure(args, model)
    rows = [bound_row(bound, times, theirs) for bound in args.bounds]
    body = common.table(list(rows[0]), [list(row.values()) for row in rows])
    title = "## One core taken by another process" if busy else "## Quiet machine"
    return [title, body, route_table(times)], theirs


def report(args):
    model = elevators(args)
    parts, theirs = section(args, model, busy=False)
    if args.busy:
        parts += section(args, model, busy=True)[0]
    n, d = model["X"].shape
    about = (
        f"One value and gradient with respect to the kernel, the noise and Z; n = {n}, "
        f"d = {d}, m = {args.m}; medians of {args.repeats} interleaved repeats. Peers "
        "always compute the Titsias bound."
    )
    found = [f"Peers: {result['versions']}." for result in list(theirs.values())[:1]]
    check = value_check(model, theirs)
    common.write_report("speed.md", "Speed of one evaluation", about, *parts, check, *found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    common.add_peers(parser)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--m", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--bounds", nargs="+", choices=BOUNDS, default=list(BOUNDS))
    parser.add_argument("--busy", action="store_true", help="also with a core taken")
    report(parser.parse_args())


if __name__ == "__main__":
    main()

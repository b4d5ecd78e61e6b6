"""One evaluation of the objective of neighbours, and predictions, beside the flops that they take.

An evaluation is the leave-one-out density of 4,000 rows, each given 30 others in 18 columns, with
its gradient: the factorisations take k³/3 flops per row, the distances and the pullback 3 k² d. A
prediction given k rows takes k³/3 + 3 k² d flops beside the search. Milliseconds of CPU time, the
least of several repeats: divide by the number of cores.

Usage: python docs/benchmarks/neighbors_engine.py [--write]
"""

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from skgp_sparse.engine import neighbors
from skgp_sparse.engine.neighbors import LeaveOneOut
from skgp_sparse.ground.parallel import single_threaded_blas

RESULTS = Path(__file__).parent / "results" / "neighbors_engine.md"
ROWS, D, REPEATS = 4000, 18, 3
RNG = np.random.RandomState(0)


def sample(k):
    """`LeaveOneOut` of random rows, and random others as neighbours."""
    X, y = RNG.normal(size=(10 * ROWS, D)), RNG.normal(size=(10 * ROWS, 1))
    own, near = RNG.randint(len(X), size=ROWS), RNG.randint(len(X), size=(ROWS, k))
    none, ones = np.zeros((ROWS, k)), np.ones((ROWS, k))
    return LeaveOneOut(X, own, near, y[own], none[:, 0], ones[:, 0], y[near], none, ones)


def cpu_seconds(function):
    """The least of several repeats."""
    spent = []
    for _ in range(REPEATS):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return min(spent)


def rows_of_table():
    """A line for each kernel and number of neighbours."""
    metric = np.eye(D) + 0.01 * RNG.normal(size=(D, D))
    for k in (30, 100):
        left = sample(k)
        flops = ROWS * (k**3 / 3 + 3 * k**2 * D)
        for nu in (0.5, 1.5, np.inf):
            kernel = ConstantKernel(1.0) * Matern(np.full(D, 4.0), nu=nu) + WhiteKernel(0.01)
            tasks = (
                partial(neighbors.moments, kernel, left),
                partial(neighbors.value_and_gradient, kernel, left),
                partial(neighbors.value_and_gradient, kernel, left, metric),
            )
            seconds = list(map(cpu_seconds, tasks))
            cells = " | ".join(f"{1e3 * one:.0f}" for one in seconds)
            yield f"| {k} | {nu} | {cells} | {flops / seconds[-1] / 1e9:.1f} |"


def main():
    head = (
        "# The engine of neighbours\n\n"
        f"CPU milliseconds for {ROWS} rows, d = {D}, blocks of "
        f"{neighbors.block_size(30)} rows at k = 30.\n\n"
        "| k | nu | moments | density and gradient | and that of a metric | Gflop/s |\n"
        "|---|---|---|---|---|---|\n"
    )
    with single_threaded_blas():
        text = head + "\n".join(rows_of_table()) + "\n"
    print(text)
    if "--write" in sys.argv:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()

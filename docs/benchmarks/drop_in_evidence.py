"""The exact log marginal likelihood of 400 rows, as samplers and users' optimisers call it.

``log_marginal_likelihood(theta)``, the value alone and with its gradient, of fitted estimators of
scikit-learn and of ours, at the same twenty theta near that of the kernel, in turn in one process:
squared exponential and Matern (5/2), with one length scale and with one per column, plus noise.
Times are medians of processor time and of the clock, in milliseconds; ratios are medians of those
within a round. Both sides have one BLAS thread and one thread of their own. ::

    python drop_in_evidence.py
    python drop_in_evidence.py --rounds 3       # a trial
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time

import common
import numpy as np
import ours
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

CLOCKS = {"processor": time.process_time, "clock": time.perf_counter}
COLUMNS = (1, 5, 20)
CALLS = 20


def kernels_of(d):
    """Kernels by name, of which those with a length scale per column need several columns."""
    yield "RBF", RBF(1.0)
    yield "constant times RBF", ConstantKernel() * RBF(1.0)
    yield "Matern", Matern(1.0, nu=2.5)
    if d > 1:
        yield "RBF, ARD", RBF(np.ones(d))
        yield "Matern, ARD", Matern(np.ones(d), nu=2.5)


def fitted(kernel, n, d):
    """Both estimators at a kernel, and the theta at which they are asked."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, d))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=n)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)
    mine = ours.regressor(kernel, optimizer=None).fit(X, y)
    thetas = kernel.theta + 0.1 * rng.normal(size=(CALLS, len(kernel.theta)))
    values = [model.log_marginal_likelihood(thetas[0]) for model in (theirs, mine)]
    np.testing.assert_allclose(*values, rtol=1e-6)
    return (theirs, mine), thetas


def seconds_per_call(model, thetas, gradient):
    """By clock."""
    starts = [clock() for clock in CLOCKS.values()]
    for theta in thetas:
        model.log_marginal_likelihood(theta, eval_gradient=gradient)
    return [(clock() - start) / CALLS for clock, start in zip(CLOCKS.values(), starts)]


def row(name, kernel, n, d, rounds, gradient):
    models, thetas = fitted(kernel + WhiteKernel(0.1), n, d)
    once = [[seconds_per_call(model, thetas, gradient) for model in models] for _ in range(rounds)]
    times = np.array(once[1:])  # (rounds, models, clocks); the first one warms up
    cells = [name, d]
    for clock in range(len(CLOCKS)):
        theirs, mine = times[:, 0, clock], times[:, 1, clock]
        cells += [f"{1e3 * np.median(one):.2f}" for one in (theirs, mine)]
        cells += [f"{common.median_ratio(mine, theirs):.2f}"]
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--n", type=int, default=400)
    args = parser.parse_args()
    header = ["kernel, plus noise", "columns"]
    header += [f"{who} ({clock})" for clock in CLOCKS for who in ("theirs", "ours", "ratio")]
    parts = [f"{args.n} rows, medians of {args.rounds} rounds, milliseconds per call."]
    for title, gradient in (("The value alone", False), ("With its gradient", True)):
        rows = [
            row(name, kernel, args.n, d, args.rounds + 1, gradient)
            for d in COLUMNS
            for name, kernel in kernels_of(d)
        ]
        parts += [f"## {title}", common.table(header, rows)]
    common.write_report("drop_in_evidence.md", "Evidence as users call it", *parts)


if __name__ == "__main__":
    main()

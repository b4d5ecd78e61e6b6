"""Evidence of classifiers at large variances, as pictures, samplers and optimisers ask for it.

- Pima (300 rows, standardised, probit, all rows inducing) at theta within the default bounds: the
  value, the inner iterations, and the steps of Newton's method for the means.
- The landscape of scikit-learn's ``plot_gpc`` (50 rows, 870 theta): the seconds of the picture
  beside ``GaussianProcessClassifier``, in turn, and the largest difference between the pictures
  drawn in one order and in the other. ::

    python drop_in_sites.py --data DIR
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time

import common
import numpy as np
import ours
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF

THETAS = [(a, b) for a in (0.0, 5.0, 8.0, 11.0) for b in (-1.0, 0.0, 1.0)]


def pima(folder):
    """A table of values and iterations."""
    X, y = common.labelled(folder, "pima")[:2]
    X = (X[:300] - X[:300].mean(axis=0)) / X[:300].std(axis=0)
    model = ours.classifier(1.0 * RBF(1.0), likelihood="probit", optimizer=None).fit(X, y[:300])
    return [[theta, *ours.inner_loop(model, theta)] for theta in THETAS]


def plot_gpc():
    """Rows of the example, and the theta of its landscape."""
    X = np.random.RandomState(0).uniform(0, 5, 100)[:50, None]
    grid = [np.log([a, b]) for a in np.logspace(0, 8, 30) for b in np.logspace(-1, 1, 29)]
    return X, X[:, 0] > 2.5, grid


def landscape(model, grid):
    """Values, and processor and wall seconds."""
    clocks = time.process_time, time.perf_counter
    starts = [clock() for clock in clocks]
    values = [model.log_marginal_likelihood(theta) for theta in grid]
    return np.array(values), [clock() - start for clock, start in zip(clocks, starts)]


def landscapes(rounds):
    """Rows of a table, and the largest difference between two orders."""
    X, y, grid = plot_gpc()
    kernel = 1.0 * RBF(1.0)
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    mine = ours.classifier(kernel, likelihood="probit", optimizer=None).fit(X, y)
    once = [[landscape(model, grid) for model in (theirs, mine)] for _ in range(rounds)]
    times = np.array([[seconds for _, seconds in pair] for pair in once])
    rows = [
        [
            clock,
            *(f"{np.median(one):.2f}" for one in parts),
            f"{common.median_ratio(*parts[::-1]):.1f}",
        ]
        for clock, parts in zip(("processor", "clock"), times.transpose(2, 1, 0))
    ]
    backwards = landscape(mine, grid[::-1])[0][::-1]
    return rows, np.abs(backwards - once[-1][1][0]).max()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rows, difference = landscapes(args.rounds)
    common.write_report(
        "drop_in_sites.md",
        "Evidence of classifiers at large variances",
        "## Pima, 300 rows, probit",
        common.table(
            ["theta", "value", "inner iterations", "Newton steps of the means", "estimated error"],
            pima(args.data),
        ),
        f"## The landscape of plot_gpc, 870 theta, seconds, medians of {args.rounds} rounds",
        common.table(["", "theirs", "ours", "ratio"], rows),
        f"Between two orders of the theta, values differ by {difference:.0e} at most.",
    )


if __name__ == "__main__":
    main()

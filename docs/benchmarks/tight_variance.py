"""The smaller variances of `InducingPoints(tight_variance=True)`: densities, and what they cost.

For every data set and number of inducing points, a fit with inducing points and "titsias_new". At
its hyperparameters and inducing points, the same with `tight_variance=True`, and the exact process,
predict test rows: mean log densities in units of std(y), shares of test rows in intervals of 95 %,
and CPU seconds on one thread. Data sets with more training rows are random parts of them. ::

    python tight_variance.py --data DIR

Writes results/tight_variance.md.
"""

import argparse
import time
import warnings

import common
import numpy as np
import ours

DATASETS = ("airfoil", "concrete", "wine", "skillcraft", "elevators", "kin40k", "pol", "bike")
SIZES = ((3000, 100), (3000, 500))  # training rows at most, and inducing points
LARGE = ("kin40k", 6000, 1000)
HEADER = ["data set", "n", "m", "usual", "tight", "exact", "usual: in 95 %", "tight: in 95 %"]
HEADER += ["exact: in 95 %", "fit (s)", "n × n part (s)", "usual (ms/query)", "tight (ms/query)"]


def data_of(args, name, n):
    """X, y, X_test, y_test, of some of the training rows, in units of all that are used."""
    X, y, X_test, y_test = common.load(args.data, name, args.split)
    some = np.random.RandomState(args.split).permutation(len(X))[:n]
    X, X_test = common.standardise(X[some], X_test[: args.queries])
    y, y_test = common.standardise(y[some], y_test[: args.queries])
    return X, y, X_test, y_test


def measure(X, y, X_test, y_test, m):
    """One line of the table without the name."""
    model, fit_seconds = fitted(ours.of_inducing_points(m), X, y)
    tight, n_by_n = fitted(ours.held(model, ours.tight_variance()), X, y)
    exact, _ = fitted(ours.held(model, "exact"), X, y)
    densities, shares, seconds = zip(
        *(judged(one, X_test, y_test) for one in (model, tight, exact))
    )
    return [len(X), m, *densities, *shares, fit_seconds, n_by_n, *seconds[:2]]


def fitted(model, X, y):
    """A fitted model, and CPU seconds."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return model, time.process_time() - start


def judged(model, X, y):
    """Mean log density, share of rows in intervals of 95 %, and milliseconds per query."""
    start = time.process_time()
    mean, std = ours.observed(model, X)
    milliseconds = 1e3 * (time.process_time() - start) / len(X)
    inside = float(np.mean(np.abs(y - mean) < 1.96 * std))
    return common.log_density(y, mean, std), inside, milliseconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="folder of the .npz data sets")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--queries", type=int, default=1000, help="test rows at most")
    args = parser.parse_args()
    lines = []
    for name, n, m in [(name, *size) for name in args.datasets for size in SIZES] + [LARGE]:
        lines.append([name, *measure(*data_of(args, name, n), m)])
        common.progress(*lines[-1])
    report(lines)


def report(lines):
    """Write the table."""
    about = (
        "Mean log densities of test rows at the same hyperparameters and inducing points: with "
        "usual variances, with `tight_variance=True`, and of the exact process. Their shares in "
        "intervals of 95 %. CPU seconds on one thread: the fit, what `tight_variance` adds to it, "
        "and a prediction with its standard deviation."
    )
    common.write_report(
        "tight_variance.md", "Variances of the whole posterior", about, common.table(HEADER, lines)
    )


if __name__ == "__main__":
    main()

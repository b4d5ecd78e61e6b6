"""Small jobs: default fits, a prediction of one row, the import.

- `SparseGPRegressor().fit` on 300 rows (5 inputs), beside scikit-learn's exact
  `GaussianProcessRegressor` with a kernel of the same size;
- `SparseGPRegressor().fit` of the README's first snippet (3,750 rows, 10 inputs), and of 1,000 of
  its rows;
- `predict` of one row, with and without the standard deviation, by a model with
  m = 256 inducing points;
- ``import skgp_sparse`` on top of ``import sklearn.gaussian_process``, each in fresh
  interpreters that take turns.

Medians. ::

    python small.py
    python small.py --repeats 3 --m 50       # a trial
"""

import argparse
import subprocess
import sys
import warnings

import common
import numpy as np
import ours
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import train_test_split

IMPORTS = {
    "sklearn": "import sklearn.gaussian_process",
    "ours": "import sklearn.gaussian_process, skgp_sparse",
}
CLOCK = "import time; s = time.perf_counter(); {}; print(time.perf_counter() - s)"


def toy(n, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


def import_seconds(statement):
    command = [sys.executable, "-c", CLOCK.format(statement)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def import_rows(repeats):
    import_seconds(IMPORTS["ours"])  # fills the file cache
    times = [[import_seconds(s) for s in IMPORTS.values()] for _ in range(repeats)]
    times = np.array(times)
    beyond = float(np.median(times[:, 1] - times[:, 0]))
    first = float(np.median(times[:, 0]))
    return [
        ["import sklearn.gaussian_process", first],
        ["import skgp_sparse, beyond that", beyond],
    ]


def fit_rows(repeats):
    X, y = toy(300)
    exact = ours.rbf_kernel(X.shape[1])
    fits = {
        "fit of 300 rows, SparseGPRegressor()": lambda: ours.default_regressor().fit(X, y),
        "fit of 300 rows, exact GaussianProcessRegressor": (
            lambda: GaussianProcessRegressor(exact, normalize_y=True).fit(X, y)
        ),
    }
    return median_rows(fits, repeats)


def first_fit_rows(repeats):
    X, y = make_friedman1(5000, noise=1.0, random_state=0)
    X, _, y, _ = train_test_split(X, y, random_state=0)
    fits = {
        "the first fit of the README, 3,750 rows": lambda: ours.default_regressor().fit(X, y),
        "the same, 1,000 rows": lambda: ours.default_regressor().fit(X[:1000], y[:1000]),
    }
    return median_rows(fits, repeats)


def predict_rows(repeats, m):
    X, y = toy(4 * m)
    model = ours.regressor(ours.rbf_kernel(5), "titsias", m, optimizer=None).fit(X, y)
    one = X[:1]
    calls = {
        f"predict of one row, m = {m}": lambda: model.predict(one),
        f"predict of one row with std, m = {m}": (lambda: model.predict(one, return_std=True)),
    }
    return median_rows(calls, 20 * repeats)


def median_rows(functions, repeats):
    """One untimed round, then `repeats` rounds in which the functions take turns."""
    for function in functions.values():
        function()
    times = [[common.seconds_of(f) for f in functions.values()] for _ in range(repeats)]
    medians = np.median(times, axis=0)
    return [[name, float(t)] for name, t in zip(functions, medians, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--m", type=int, default=256)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = import_rows(args.repeats)
    rows += fit_rows(args.repeats) + first_fit_rows(min(args.repeats, 3))
    rows += predict_rows(args.repeats, args.m)
    rows = [[name, f"{1000 * seconds:.2f}"] for name, seconds in rows]
    body = common.table(["what", "median (ms)"], rows)
    common.write_report("small.md", "Small jobs", f"{args.repeats} repeats.", body)


if __name__ == "__main__":
    main()

"""Inputs with known errors: `X_std` of `fit` and `predict` beside fits that ignore the errors.

Test rows have errors of the same size. Scores are those of the test targets in units of their
standard deviation: root mean squared error, mean log density, coverage of intervals of 95 %. ::

    python uncertain_inputs.py --data DIR
"""

import argparse
import warnings
from itertools import product

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured

from skgp_sparse import SparseGPRegressor

CASES = {"sine": (0.2, 1.0), "sine, half": (0.3, 0.5), "airfoil, half": (0.2, 0.5)}


def sine(seed, n=400, n_test=2000):
    rng = np.random.RandomState(seed)
    x = rng.uniform(-4, 4, size=(n + n_test, 1))
    y = np.sin(2 * x[:, 0]) + 0.02 * rng.normal(size=len(x))
    return x[:n], y[:n], x[n:], y[n:]


def rows_of(case, folder, seed):
    if case.startswith("sine"):
        return sine(seed)
    X, y, X_test, y_test = common.load(folder, "airfoil", split=seed)
    (X, X_test), (y, y_test) = common.standardise(X, X_test), common.standardise(y, y_test)
    return X, y, X_test, y_test


def scores(model, X, y, **known):
    mean, std = model.predict(X, return_std=True, **known)
    unit = y.std()
    covered = np.mean(np.abs(y - mean) < 1.96 * std)
    return (
        common.rmse(y / unit, mean / unit),
        common.log_density(y / unit, mean / unit, std / unit),
        covered,
    )


def measure(case, folder, seed):
    """Scores by what fit and predict are told."""
    (error, share), (X, y, X_test, y_test) = CASES[case], rows_of(case, folder, seed)
    rng = np.random.RandomState(100 + seed)
    X_std, of_test = (
        error * (rng.uniform(size=(len(A), 1)) < share) * np.ones_like(A) for A in (X, X_test)
    )
    noisy, noisy_test = (
        A + S * rng.normal(size=A.shape) for A, S in ((X, X_std), (X_test, of_test))
    )
    make = SparseGPRegressor(n_inducing=50, random_state=seed)
    ignoring = make.fit(noisy, y)
    found = {
        "ignored in both": scores(ignoring, noisy_test, y_test),
        "told to predict only": scores(ignoring, noisy_test, y_test, X_std=of_test),
    }
    seconds = common.seconds_of(lambda: make.fit(noisy, y, X_std=X_std))
    found["told to both"] = scores(make, noisy_test, y_test, X_std=of_test)
    make.fit(X, y)
    found["inputs of fit exact, ignored in predict"] = scores(make, noisy_test, y_test)
    found["inputs of fit exact, told to predict"] = scores(make, noisy_test, y_test, X_std=of_test)
    return found, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    by_case = {}
    for case, seed in product(CASES, args.seeds):
        found, seconds = measure(case, args.data, seed)
        common.progress(case, seed, round(seconds, 1), "s")
        for told, values in found.items():
            by_case.setdefault((case, told), []).append(values)
    rows = [[*key, *np.mean(values, axis=0).round(3)] for key, values in by_case.items()]
    sizes = "; ".join(
        f"{size:g} for {share:.0%} of the rows of {case}" for case, (size, share) in CASES.items()
    )
    about = (
        f"Means over {len(args.seeds)} seeds, 50 inducing points. The errors have standard "
        f"deviations of {sizes}. Commit {common.commit(common.HERE)}."
    )
    header = ["rows", "errors are", "RMSE", "log density", "coverage of 95 %"]
    common.write_report(
        "uncertain_inputs.md", "Inputs with known errors", about, common.table(header, rows)
    )


if __name__ == "__main__":
    main()

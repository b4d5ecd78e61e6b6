"""What reading costs: `OrthogonalAdditive` beside the default kernel; how right Sobol indices are.

1. Errors, log densities and CPU seconds of both kernels on small tables, three splits.
2. Sobol indices of fits to 3,000 rows of Ishigami's function and of the g-function, beside the
   exact ones. ::

    python orthogonal.py --data DIR
"""

import argparse
import time
import warnings

import common
import numpy as np
import ours  # noqa: F401  # so that the package of this checkout is measured

from skgp_sparse import SparseGPRegressor
from skgp_sparse.kernels import OrthogonalAdditive

TABLES = (
    "airfoil autompg breastcancer concrete energy housing machine servo stock wine yacht".split()
)
A = np.array([0.0, 1.0, 4.5, 9.0, 99.0, 99.0])  # of the g-function


def scores(kernel, X, y, X_test, y_test):
    """RMSE and log density in units of the targets, CPU seconds."""
    start = time.process_time()
    model = SparseGPRegressor(kernel, random_state=0, noise="constant", n_jobs=1).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    unit = y.std()
    density = common.log_density(y_test / unit, mean / unit, std / unit)
    return common.rmse(y_test, mean) / unit, density, time.process_time() - start


def prices(folder, splits):
    """Rows of the first table, and ratios and differences."""
    for name in TABLES:
        found = []
        for split in splits:
            X, y, X_test, y_test = common.load(folder, name, split)
            spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
            bounds = np.column_stack([0.01 * spread, 100.0 * spread])
            additive = OrthogonalAdditive(2, spread, bounds)
            rows = X, y, X_test, y_test
            found.append([scores(None, *rows), scores(additive, *rows)])
            common.progress(name, split, *np.round(np.ravel(found[-1]), 3))
        found = np.array(found)
        mean = found.mean(axis=0)
        ratio = np.exp(np.mean(np.log(found[:, 1, 0] / found[:, 0, 0])))
        yield [name, *(f"{a:.3f} / {b:.3f}" for a, b in mean.T)], ratio, mean[1, 1] - mean[0, 1]


def ishigami(rng):
    X = rng.uniform(-np.pi, np.pi, size=(3000, 3))
    y = np.sin(X[:, 0]) + 7 * np.sin(X[:, 1]) ** 2 + 0.1 * X[:, 2] ** 4 * np.sin(X[:, 0])
    return X, y, np.array([0.3139, 0.4424, 0.0]), np.array([0.5576, 0.4424, 0.2437])


def g_function(rng):
    X = rng.uniform(size=(3000, len(A)))
    y = np.prod((np.abs(4 * X - 2) + A) / (1 + A), axis=1)
    parts = 1 / 3 / (1 + A) ** 2
    whole = np.prod(1 + parts) - 1
    others = np.array([np.prod(1 + np.delete(parts, j)) for j in range(len(A))])
    return X, y, parts / whole, parts * others / whole


def indices():
    """Rows of the second table."""
    for make in (ishigami, g_function):
        X, y, first, total = make(np.random.RandomState(0))
        for posterior in ("neighbors", "inducing"):
            model = SparseGPRegressor(posterior=posterior, random_state=0).fit(X, y)
            start = time.perf_counter()
            apart = np.abs(model.feature_importances_ - total).max()
            seconds = time.perf_counter() - start
            alone = np.abs(model.sobol_first_ - first).max()
            error = model.sobol_error_.max()
            numbers = f"{alone:.4f}", f"{apart:.4f}", f"{error:.4f}", f"{seconds:.1f}"
            yield [make.__name__, posterior, *numbers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common.add_data(parser)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines, ratios, gains = zip(*prices(args.data, args.splits))
    about = (
        f"Default kernel / OrthogonalAdditive of order 2, constant noise; means over "
        f"{len(args.splits)} splits, in units of std(y). RMSE is "
        f"{np.exp(np.mean(np.log(ratios))):.3f} times that of the default in the geometric mean, "
        f"log density {np.mean(gains):+.3f}. Commit {common.commit(common.HERE)}."
    )
    sobol = "Sobol indices beside the exact ones: the largest differences, 3,000 rows."
    header = ["function", "posterior", "first order", "total", "standard error", "seconds"]
    common.write_report(
        "orthogonal.md",
        "Explanations: their price, and how right they are",
        about,
        common.table(["table", "RMSE", "density", "CPU s"], lines),
        sobol,
        common.table(header, list(indices())),
    )


if __name__ == "__main__":
    main()

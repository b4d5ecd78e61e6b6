"""
A million rows on a laptop
==========================

The training table is a float32 file of a million rows that stays on disk: it is mapped into memory,
never copied whole, and read block by block. What the fit adds to the memory of the process is
bounded by ``sklearn.config_context(working_memory=...)`` and does not depend on the number of rows.

    python million_rows.py                    # a few minutes on two cores
    python million_rows.py --n 50000          # to try it
    python million_rows.py --data table.npz   # your own: arrays X (n, d) and y (n,)
"""

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn import config_context

from skgp_sparse import SparseGPRegressor
from skgp_sparse.metrics import mean_log_predictive_density

N_FEATURES, N_TEST = 8, 10_000


# %%
# The table: eight inputs, of which five matter (Friedman's function), and noise of variance one.


def targets(X, random_state):
    """Friedman's function and standard normal noise."""
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return signal + 10 * X[:, 3] + 5 * X[:, 4] + random_state.normal(size=len(X))


def write_table(folder, n, chunk=100_000):
    """A float32 table on disk, written chunk by chunk; returns memory-mapped X and y."""
    random_state = np.random.RandomState(0)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, N_FEATURES))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (n,))
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        X[rows] = random_state.uniform(size=(rows.stop - start, N_FEATURES))
        y[rows] = targets(X[rows], random_state)
    X.flush(), y.flush()
    return np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")


def read_table(path):
    """X and y of an npz file (which, being compressed, cannot be mapped)."""
    with np.load(path) as table:
        return table["X"], table["y"].ravel()


# %%
# The fit. L-BFGS runs over all rows; a dozen iterations are plenty, because the start comes from a
# small exact fit. ``verbose=1`` prints the bound after each.


def peak_memory():
    """Largest resident size of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def fit(X, y, arguments):
    """A fitted model; prints time and memory."""
    model = SparseGPRegressor(
        n_inducing=arguments.n_inducing,
        max_iter=arguments.max_iter,
        random_state=0,
        verbose=1,
    )
    before, start = peak_memory(), perf_counter()
    with config_context(working_memory=256):
        model.fit(X, y)
    added = peak_memory() - before
    print(f"{len(X):,} rows of {X.dtype}, {arguments.n_inducing} inducing points: "
          f"{perf_counter() - start:.0f} s, {added:.0f} MB added at the peak")  # fmt: skip
    return model


def report(model, X, y):
    """Print time and quality of predictions on held-out rows."""
    start = perf_counter()
    mean, std = model.predict(X, return_std=True)
    seconds = perf_counter() - start
    print(f"{len(X):,} predictions with standard deviations: {seconds:.2f} s, "
          f"RMSE {np.sqrt(np.mean((mean - y) ** 2)):.4f}, "
          f"mean log density {mean_log_predictive_density(y, mean, std):.4f}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="npz file with X (n, d) and y (n,)")
    parser.add_argument("--n-inducing", type=int, default=200)
    parser.add_argument("--max-iter", type=int, default=12)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = read_table(arguments.data) if arguments.data else None
        X, y = table or write_table(Path(folder), arguments.n + N_TEST)
        n_test = min(N_TEST, len(X) // 5)
        model = fit(X[:-n_test], y[:-n_test], arguments)
        report(model, X[-n_test:], np.asarray(y[-n_test:], dtype=float))


if __name__ == "__main__":
    main()

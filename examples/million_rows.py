"""
A million rows on a laptop
==========================

The training rows are float32 files on disk, which a function reads one by one: a stream of chunks.
The table as a whole is never in memory. What the fit adds to the memory of the process is bounded
by ``sklearn.config_context(working_memory=...)`` and does not depend on the number of rows.

    python million_rows.py                  # some seconds on two cores
    python million_rows.py --n 50000        # to try it
    python million_rows.py --data FOLDER    # your own: X0.npy, y0.npy, X1.npy, y1.npy, ...
"""

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn import config_context

from skgp_sparse import SparseGPRegressor
from skgp_sparse.displays import CoverageDisplay, EffectDisplay
from skgp_sparse.metrics import mean_log_predictive_density
from skgp_sparse.sources import Stream

N_FEATURES, N_TEST, ROWS_OF_A_FILE = 8, 10_000, 100_000


# %%
# The rows: eight inputs, of which five matter (Friedman's function), and noise of variance one. The
# last file is for testing.


def targets(X, random_state):
    """Friedman's function and standard normal noise."""
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return signal + 10 * X[:, 3] + 5 * X[:, 4] + random_state.normal(size=len(X))


def write_files(folder, n):
    """Files of at most 100,000 rows, written one by one, and one of 10,000 rows for testing."""
    random_state = np.random.RandomState(0)
    sizes = [min(ROWS_OF_A_FILE, n - start) for start in range(0, n, ROWS_OF_A_FILE)]
    for number, size in enumerate([*sizes, N_TEST]):
        X = random_state.uniform(size=(size, N_FEATURES)).astype(np.float32)
        np.save(folder / f"X{number}.npy", X)
        np.save(folder / f"y{number}.npy", targets(X, random_state).astype(np.float32))


def pairs_in(folder):
    """Paths of X and y, in the order of their numbers."""
    count = len(list(folder.glob("X*.npy")))
    return [(folder / f"X{number}.npy", folder / f"y{number}.npy") for number in range(count)]


# %%
# The fit. Hyperparameters and inducing points are learned from growing random samples, and one pass
# over all rows gives the posterior. ``verbose=20`` prints every twentieth iteration: the passes
# over the rows so far, the seconds, and the log density of held-out rows.


def peak_memory():
    """Largest resident size of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def fit(source, arguments):
    """A fitted model; prints time and memory."""
    model = SparseGPRegressor(n_inducing=arguments.n_inducing, random_state=0, verbose=20)
    before, start = peak_memory(), perf_counter()
    with config_context(working_memory=256):
        model.fit(source)
    added = peak_memory() - before
    print(f"{arguments.n_inducing} inducing points: {perf_counter() - start:.0f} s, "
          f"{added:.0f} MB added at the peak")  # fmt: skip
    return model


def report(model, X, y):
    """Print time and quality of predictions on held-out rows."""
    start = perf_counter()
    mean, std = model.predict(X, return_std=True)
    seconds = perf_counter() - start
    print(f"{len(X):,} predictions with standard deviations: {seconds:.2f} s, "
          f"RMSE {np.sqrt(np.mean((mean - y) ** 2)):.4f}, "
          f"mean log density {mean_log_predictive_density(y, mean, std):.4f}")  # fmt: skip


# %%
# Whether the intervals of the fit hold, and what the third input does.


def draw(model, X, y):
    """Coverage of held-out rows, and the effect of an input."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    CoverageDisplay.from_estimator(model, X, y, ax=axes[0])
    EffectDisplay.from_estimator(model, X, 2, ax=axes[1])
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="folder with X0.npy, y0.npy, X1.npy, ...")
    parser.add_argument("--n-inducing", type=int, default=100)
    parser.add_argument("--output", help="file of the picture, instead of a window")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.data is None:
            write_files(Path(folder), arguments.n)
        *training, testing = pairs_in(arguments.data or Path(folder))
        model = fit(Stream(lambda: (tuple(map(np.load, pair)) for pair in training)), arguments)
        X, y = map(np.load, testing)
        report(model, X, y.astype(float))
        figure = draw(model, X, y.astype(float))
    figure.savefig(arguments.output, dpi=110) if arguments.output else plt.show()


if __name__ == "__main__":
    main()

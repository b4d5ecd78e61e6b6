"""
Swap in the regressor
=====================

Change the name of the class and keep the kernel: predictions stay the same, and the time grows
with the number of rows instead of its cube.

The data are Friedman's function of five inputs with noise of variance one. Two things differ on
purpose, and are written out here to make both models the same: ``GaussianProcessRegressor`` does
not standardise y unless told so, and it learns no noise variance unless the kernel has a
``WhiteKernel``.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor

KERNEL = ConstantKernel() * RBF([1.0] * 5) + WhiteKernel(0.1)
MODELS = {
    "GaussianProcessRegressor": GaussianProcessRegressor(KERNEL, normalize_y=True),
    "SparseGPRegressor": SparseGPRegressor(KERNEL, normalize_y=True, random_state=0),
}
COLOURS = {"GaussianProcessRegressor": "#d1495b", "SparseGPRegressor": "#30638e"}
N_TEST = 5000


def load(n):
    """Inputs (n, 5) and noisy targets (n,)."""
    return make_friedman1(n, n_features=5, noise=1.0, random_state=0)


# %%
# Both models are used by the same lines.


def measure(model, X, y, n):
    """Seconds to fit `n` rows, mean predictions on test rows, and their root mean square error."""
    start = perf_counter()
    model.fit(X[:n], y[:n])
    seconds = perf_counter() - start
    mean, std = model.predict(X[-N_TEST:], return_std=True)
    return seconds, mean, std, np.sqrt(np.mean((mean - y[-N_TEST:]) ** 2))


def compare(X, y, n_exact, n_sparse):
    """Measurements by class and number of rows."""
    sizes = {"GaussianProcessRegressor": n_exact, "SparseGPRegressor": n_sparse}
    results = {}
    for name, model in MODELS.items():
        for n in sizes[name]:
            results[name, n] = measure(model, X, y, n)
            seconds, _, _, rmse = results[name, n]
            print(f"{name:<26} n = {n:>6}: {seconds:7.1f} s, RMSE {rmse:.4f}")
    return results


# %%
# On the left the predictions at the largest size that both have seen, on the right the time.


def draw(results, n_both):
    """Predictions against each other, and time against rows."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    exact, sparse = (results[name, n_both][1] for name in MODELS)
    left.plot(exact, sparse, "o", color="#30638e", markersize=3, alpha=0.3, linewidth=0)
    left.axline((15, 15), slope=1, color="black", linewidth=0.6)
    left.set(
        xlabel="GaussianProcessRegressor",
        ylabel="SparseGPRegressor",
        aspect="equal",
        title=f"predictions after {n_both} rows: apart by at most {abs(exact - sparse).max():.3f}",
    )
    for name, colour in COLOURS.items():
        points = [(n, result[0]) for (which, n), result in results.items() if which == name]
        right.loglog(*zip(*points), "o-", color=colour, label=name)
    right.set(xlabel="rows", title="seconds to fit")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    parser.add_argument("--exact", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--sparse", type=int, nargs="+", default=[500, 1000, 2000, 5000])
    arguments = parser.parse_args()
    n_both = max(set(arguments.exact) & set(arguments.sparse))
    X, y = load(max(arguments.exact + arguments.sparse) + N_TEST)
    figure = draw(compare(X, y, arguments.exact, arguments.sparse), n_both)
    figure.savefig(arguments.output, dpi=110) if arguments.output else plt.show()


if __name__ == "__main__":
    main()

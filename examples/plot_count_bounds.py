"""
Bounds for counts
=================

Figure 3 of Titsias (2025): 50 Poisson counts on a grid, with the intensity ``3.5 + 3 sin(x)``, and
six inducing points, at the same places for the bounds ``titsias`` and ``titsias_new``. The latter
has one factor ``v`` for the residual variances of all rows, 0.70 here and about 0.675 in the paper,
whose draw of the counts is another one. "Full" is the variational bound with all rows as inducing
points.

With ``--data FOLDER``, also the bicycles over Brooklyn Bridge of the same paper, from the file
nyc_bicycle_2016.npz (arrays ``X``, two temperatures, and ``y``, counts): bounds over the iterations
of a fit. As in the paper, ``v`` is below 0.01 with few inducing points. The 210 rows of this file
are 30 days, each of them seven times, and there are 30 distinct inducing points at most. With 32,
both bounds are therefore the full process here, which they are not in the paper.
"""

import argparse
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import StandardScaler

from skgp_sparse import SparseGPRegressor
from skgp_sparse.likelihoods import Poisson

COLOURS = {"full": "#555555", "titsias": "#d1495b", "titsias_new": "#30638e"}


def intensity(x):
    """Of the counts in one dimension."""
    return 3.5 + 3.0 * np.sin(x)


def counts(seed=0):
    """Inputs (50, 1) and counts (50,)."""
    x = np.linspace(-10.0, 10.0, 50)
    return x[:, None], np.random.RandomState(seed).poisson(intensity(x))


# %%
# The process has mean zero in the paper, so that the level is 0. Inducing points are learned by
# ``titsias`` from the best of five starts, and both bounds then learn hyperparameters with them.


def fit_counts(X, y):
    """Models of the counts, by name."""

    def fit(**parameters):
        kernel, likelihood = ConstantKernel() * RBF(), Poisson(level=0.0, level_bounds="fixed")
        options = {"likelihood": likelihood, "random_state": 0} | parameters
        return SparseGPRegressor(kernel, **options).fit(X, y)

    starts = [fit(bound="titsias", n_inducing=6, random_state=seed) for seed in range(5)]
    Z = max(starts, key=lambda one: one.log_marginal_likelihood_value_).inducing_points_
    points = {"inducing_init": Z, "n_inducing": 6, "optimize_inducing": False}
    bounds = {name: fit(bound=name, **points) for name in ("titsias", "titsias_new")}
    return {"full": fit(posterior="exact")} | bounds


def factor(model, X):
    """v, which is 1 / (1 + mean λ2 r), with λ2 = E exp(f) for counts."""
    kernel, Z = model.kernel_, model.inducing_points_
    L = np.linalg.cholesky(kernel(Z) + 1e-8 * np.eye(len(Z)))
    r = kernel.diag(X) - np.sum(np.linalg.solve(L, kernel(Z, X)) ** 2, axis=0)
    mean, std = model.predict(X, return_std=True, latent=True)
    v = 1.0
    for _ in range(1000):
        precision = np.exp(mean + 0.5 * (std**2 - (1.0 - v) * r))
        v = np.sqrt(v / (1.0 + np.mean(precision * r)))  # half a step, on a scale of logarithms
    return v


def print_counts(models, X):
    """Bounds, and v."""
    for name, model in models.items():
        value, v = model.log_marginal_likelihood_value_, factor(model, X)
        print(f"{name:<12} bound {value:9.2f}   v {v:.4f}   {model.kernel_}")


# %%
# The bicycles: the printed progress of a fit is the trace.


def bicycles(folder):
    """Inputs (210, 2), standardised, and counts (210,)."""
    with np.load(Path(folder) / "nyc_bicycle_2016.npz") as table:
        return StandardScaler().fit_transform(table["X"].astype(float)), table["y"].astype(float)


def trace_bicycles(X, y, sizes=(8, 16, 32)):
    """By number of inducing points and bound: the model, and its values at the iterations."""
    return {
        (size, name): traced(X, y, bound=name, n_inducing=size)
        for size in sizes
        for name in ("titsias", "titsias_new")
    }


def traced(X, y, **parameters):
    """A model, and the values of its bound at the iterations."""
    kernel = ConstantKernel() * RBF([1.0, 1.0])
    options = {"likelihood": "poisson", "random_state": 0, "verbose": 1}
    with redirect_stdout(StringIO()) as printed:
        model = SparseGPRegressor(kernel, **options, **parameters).fit(X, y)
    lines = [line for line in printed.getvalue().splitlines() if "iteration" in line]
    return model, [float(line.split("bound ")[1]) for line in lines]


def print_bicycles(traces, X):
    """Bounds, and v, which is below 0.01 in the paper."""
    for (size, name), (model, values) in traces.items():
        print(f"bicycles, M = {size:<3} {name:<12} {values[-1]:10.1f}   v {factor(model, X):.4f}")


def draw(models, X, y, traces):
    """The counts, one panel for each model; below, one for each number of inducing points."""
    sizes = sorted({size for size, _ in traces})
    shape = {"nrows": 2 if traces else 1, "ncols": 3, "figsize": (12, 7 if traces else 3.6)}
    figure, axes = plt.subplots(**shape, squeeze=False, layout="constrained")
    for axis, (name, model) in zip(axes[0], models.items()):
        draw_rate(axis, model, X, y, COLOURS[name])
        axis.set(title=name, xlim=(-12, 12), ylim=(0, 14))
    for axis, size in zip(axes[-1], sizes):
        for name in ("titsias", "titsias_new"):
            axis.plot(traces[size, name][1], color=COLOURS[name], label=name)
        axis.axhline(traces[sizes[-1], name][1][-1], color=COLOURS["full"], ls="--", label="full")
        axis.set(title=f"bicycles, {size} inducing points", xlabel="iteration")
        axis.set_yscale("symlog", linthresh=1e3)
        axis.set_ylim(-3e4, -1e3)
    axes[-1, -1].legend(*axes[-1, 0].get_legend_handles_labels(), fontsize=9)
    return figure


def draw_rate(axis, model, X, y, colour):
    """Median and 95 % of the rate, the true one, and the inducing points."""
    x = np.linspace(-12.0, 12.0, 400)
    mean, std = model.predict(x[:, None], return_std=True, latent=True)
    low, high = np.exp(mean - 2 * std), np.exp(mean + 2 * std)
    axis.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)
    axis.plot(x, np.exp(mean), color=colour, linewidth=1.8)
    axis.plot(x, intensity(x), "k--", linewidth=0.9)
    axis.plot(X, y, "o", color="black", markersize=3)
    if model.posterior_ == "inducing":
        axis.plot(model.inducing_points_, np.full(model.n_inducing_, 13.0), "|", color="k", ms=14)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with nyc_bicycle_2016.npz")
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    arguments = parser.parse_args()
    X, y = counts()
    models, traces = fit_counts(X, y), {}
    print_counts(models, X)
    if arguments.data:
        table = bicycles(arguments.data)
        traces = trace_bicycles(*table)
        print_bicycles(traces, table[0])
    figure = draw(models, X, y, traces)
    figure.savefig(arguments.output, dpi=110) if arguments.output else plt.show()


if __name__ == "__main__":
    main()

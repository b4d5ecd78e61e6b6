"""
Quantiles of skewed targets
===========================

Left: waiting times, which are positive and skewed. Their mean plus and minus two standard
deviations reaches below zero; quantiles of a gamma likelihood do not. Right: the example of Titsias
(2025), section 5.4, six Poisson counts with the rate ``3.5 + 3 sin(x)``. At the same
hyperparameters and with two inducing points, ``titsias_new`` is closer to the exact process than
``titsias``.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgp_sparse import SparseGPRegressor

BLUE, ORANGE, GREEN = "#30638e", "#d1495b", "#3a7d44"


def waiting_times(n, seed=0):
    """Hours (n, 1) and minutes of waiting (n,)."""
    rng = np.random.RandomState(seed)
    hour = np.sort(rng.uniform(0.0, 24.0, n))
    mean = np.exp(1.0 + np.sin(hour * np.pi / 12.0))
    return hour[:, None], mean * rng.gamma(1.5, 1.0 / 1.5, n)


def fit_times(n):
    """A model of waiting times."""
    return SparseGPRegressor(likelihood="gamma", n_inducing=20, random_state=0).fit(
        *waiting_times(n)
    )


# %%
# The six counts, the two bounds with two inducing points, and the exact process.


def six_counts():
    """Inputs (6, 1) and counts (6,)."""
    X = np.linspace(0.5, 5.8, 6)[:, None]
    return X, np.random.RandomState(3).poisson(3.5 + 3.0 * np.sin(X[:, 0]))


def fit_counts():
    """Models of the six counts, by name."""
    X, y = six_counts()
    kernel = ConstantKernel(1.0) * RBF(1.0)
    sizes = {"titsias": 2, "titsias_new": 2, "exact": 6}
    return {
        name: SparseGPRegressor(
            kernel,
            bound="titsias_new" if name == "exact" else name,
            likelihood="poisson",
            n_inducing=m,
            optimizer=None,
            random_state=0,
        ).fit(X, y)
        for name, m in sizes.items()
    }


def print_table(model, models):
    """What was found."""
    X, y = waiting_times(4000, seed=1)
    low, high = model.predict_quantiles(X, [0.05, 0.95]).T
    print(f"gamma: {np.mean((low <= y) & (y <= high)):.1%} inside 90 %   {model.likelihood_}")
    for name, one in models.items():
        print(f"{name:<12} bound {one.log_marginal_likelihood_value_:.3f}")


def plot(model, models, n):
    """Two panels: waiting times, and counts."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    X, y = waiting_times(n)
    grid = np.linspace(0.0, 24.0, 300)
    q = model.predict_quantiles(grid[:, None], [0.05, 0.25, 0.5, 0.75, 0.95])
    mean, std = model.predict(grid[:, None], return_std=True)
    left.plot(X, y, "k.", ms=3)
    left.fill_between(grid, q[:, 0], q[:, 4], color=BLUE, alpha=0.2, label="90 %")
    left.fill_between(grid, q[:, 1], q[:, 3], color=BLUE, alpha=0.3, label="50 %")
    left.plot(grid, q[:, 2], color=BLUE, label="median")
    left.plot(grid, mean - 2 * std, "--", color=ORANGE, lw=1, label="mean ± 2 std")
    left.plot(grid, mean + 2 * std, "--", color=ORANGE, lw=1)
    left.set(xlabel="hour", ylabel="minutes of waiting")
    left.legend(fontsize=8)
    X, y = six_counts()
    grid = np.linspace(0.0, 6.3, 300)
    right.plot(grid, 3.5 + 3.0 * np.sin(grid), "k--", lw=1, label="true rate")
    right.plot(X, y, "ko", label="counts")
    for (name, one), colour in zip(models.items(), (ORANGE, BLUE, GREEN)):
        latent, std = one.predict(grid[:, None], return_std=True, latent=True)
        right.plot(grid, np.exp(latent), color=colour, label=name)
        right.plot(grid, np.exp(latent + 2 * std), ":", color=colour, lw=1)
        right.plot(grid, np.exp(latent - 2 * std), ":", color=colour, lw=1)
    right.set(xlabel="x", ylabel="rate", ylim=(0.0, 14.0), title="two inducing points")
    right.legend(fontsize=8)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=300, help="rows")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    model, models = fit_times(args.n), fit_counts()
    print_table(model, models)
    figure = plot(model, models, args.n)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

"""
All rows instead of inducing points
===================================

A function that is observed nearly without noise holds more than inducing points can keep. With
``posterior="rows"``, the mean is given all rows, by a solve with conjugate gradients. Bounds of
the evidence say beforehand how much the inducing points may lose.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from skgp_sparse import SparseGPRegressor

COLOURS = {"inducing": "#d1495b", "rows": "#30638e"}


def table(n, seed):
    """Inputs (n, 2), and a function of them that bends more on one side."""
    X = np.random.RandomState(seed).uniform(0.0, 1.0, size=(n, 2))
    return X, np.sin(4.0 + 20.0 * X[:, 0] ** 2) * np.cos(9.0 * X[:, 1])


# %%
# Both models have the default kernel. The one of all rows takes its hyperparameters from an exact
# fit of 3,000 rows.


def fit(n, m):
    """Both models, and rows to test them with."""
    X, y = table(n, seed=0)
    inducing = SparseGPRegressor(posterior="inducing", n_inducing=m, random_state=0).fit(X, y)
    rows = SparseGPRegressor(posterior="rows", n_inducing=n // 4, random_state=0).fit(X, y)
    return {"inducing": inducing, "rows": rows}, table(1000, seed=1)


def tell(models, test):
    """Print errors, densities and what the inducing points lose."""
    X, y = test
    for name, model in models.items():
        error = np.sqrt(np.mean((model.predict(X) - y) ** 2))
        density = np.mean(model.log_predictive_density(X, y))
        print(f"{name:8}: error {error:.5f}, log density {density:.2f}")
    found = models["inducing"].evidence_bounds()
    print(f"inducing points lose at most {found.upper - found.own:.0f} nats of evidence")


def plot(models, test):
    """Errors beside the standard deviations that were predicted for them."""
    X, y = test
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for ax, (name, model) in zip(axes, models.items()):
        mean, std = model.predict(X, return_std=True)
        ax.loglog(std, np.abs(y - mean) + 1e-9, ".", ms=4, color=COLOURS[name])
        line = np.array([std.min(), std.max()])
        ax.loglog(line, 2.0 * line, "k-", lw=1, label="twice the standard deviation")
        ax.set(title=f'posterior="{name}"', xlabel="predicted standard deviation")
    axes[0].set_ylabel("error")
    axes[0].legend(fontsize=8, loc="lower right")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=3000, help="rows")
    parser.add_argument("--m", type=int, default=100, help="inducing points")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    models, test = fit(args.n, args.m)
    tell(models, test)
    figure = plot(models, test)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

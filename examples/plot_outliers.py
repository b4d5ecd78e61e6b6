"""
Outliers
========

Five per cent of the targets are far off. With Gaussian noise the mean follows them, and the noise
variance that explains them makes all intervals wide. With ``likelihood="student_t"`` they hardly
count.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from skgp_sparse import SparseGPRegressor

COLOURS = {"gaussian": "#d1495b", "student_t": "#30638e"}


def table(n, seed=0):
    """Inputs (n, 1) and targets (n,), some of which are off."""
    rng = np.random.RandomState(seed)
    x = np.sort(rng.uniform(-4.0, 4.0, n))
    y = truth(x) + 0.1 * rng.normal(size=n)
    off = rng.permutation(n)[: n // 20]
    y[off] += rng.choice([-1.0, 1.0], len(off)) * rng.uniform(2.0, 6.0, len(off))
    return x[:, None], y


def truth(x):
    """The function without noise."""
    return np.sin(2.0 * x) + 0.3 * x


def fit_all(n):
    """Models by likelihood."""
    X, y = table(n)
    return {
        name: SparseGPRegressor(likelihood=name, n_inducing=25, random_state=0).fit(X, y)
        for name in COLOURS
    }


# %%
# The errors are those of the means, and the widths those of the intervals that contain a new target
# with a probability of 95 %.


def print_table(models):
    """Errors of the mean, and median widths of the intervals."""
    grid = np.linspace(-4.0, 4.0, 500)
    for name, model in models.items():
        error = np.sqrt(np.mean((model.predict(grid[:, None]) - truth(grid)) ** 2))
        low, _, high = model.predict_quantiles(grid[:, None]).T
        print(f"{name:<10} error {error:.3f}   width {np.median(high - low):.2f}")
    print(models["student_t"].likelihood_)


def plot(models, n):
    """One panel for each likelihood."""
    X, y = table(n)
    grid = np.linspace(-4.0, 4.0, 500)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
    for ax, (name, model) in zip(axes, models.items()):
        low, middle, high = model.predict_quantiles(grid[:, None]).T
        ax.plot(X, y, "k.", ms=3)
        ax.plot(grid, truth(grid), "k--", lw=1, label="truth")
        ax.plot(grid, middle, color=COLOURS[name], label="median")
        ax.fill_between(grid, low, high, color=COLOURS[name], alpha=0.25, label="95 %")
        ax.set(title=f'likelihood="{name}"', xlabel="x", ylim=(-5.0, 5.0))
        ax.legend(fontsize=8, loc="lower right")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=300, help="rows")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    models = fit_all(args.n)
    print_table(models)
    figure = plot(models, args.n)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

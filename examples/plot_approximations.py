"""
The exact process and approximations
====================================

The exact process, and what becomes of it at the same hyperparameters: the Nyström approximation
(Williams and Seeger 2001), random Fourier features (Rahimi and Recht 2007) with 10 and with 50
columns, FITC (Snelson and Ghahramani 2006), and the variational posterior (Titsias 2009). Nyström,
FITC and the variational posterior have the same nine inducing points.

Nyström puts ``Q = Kfu Kuu^-1 Kuf`` in the place of the kernel matrix of the rows. If the kernel
stays as it is elsewhere, some variances are negative (red). If it is Q there, too, variances
collapse to zero away from the inducing points (dotted). Few random features are too certain where
there are no rows. FITC and the variational posterior have neither defect: what the inducing points
leave unexplained stays in the variance.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.posteriors import FourierFeatures

HERE = Path(__file__).parent if "__file__" in globals() else Path()  # a notebook has no file
SNELSON = HERE / "data" / "snelson.csv"
SIGNAL, LENGTH, NOISE = 0.712, 0.597, 0.0715  # of the exact process of every fifth row
KERNEL = ConstantKernel(SIGNAL) * RBF(LENGTH) + WhiteKernel(NOISE)
BLUE, ORANGE, GREY = "#30638e", "#d1495b", "#555555"
Z = np.linspace(0.2, 5.8, 9)[:, None]
GRID = np.linspace(-2.0, 8.0, 400)[:, None]


def load(path=SNELSON):
    """Every fifth row without those of a gap, and all other rows: (X, y) twice."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    x = table[:, 0]
    train = (np.arange(len(x)) % 5 == 0) & ((x < 1.5) | (x > 3.0))
    return [(table[rows, :1], table[rows, 1]) for rows in (train, ~train)]


# %%
# What the package has: the same estimator with other parameters. Each model here is a function of
# queries (n, 1), which returns means and variances of the function, without noise.


def of_package(X, y, **parameters):
    """A posterior of this package with fixed hyperparameters."""
    model = SparseGPRegressor(KERNEL, optimizer=None, normalize_y=False, **parameters).fit(X, y)

    def predict(queries):
        mean, std = model.predict(queries, return_std=True, latent=True)
        return mean, std**2

    return predict


def random_features(X, y, n_components):
    """Random Fourier features, drawn once."""
    return of_package(X, y, posterior=FourierFeatures(n_components), random_state=0)


# %%
# What it leaves out: the Nyström approximation, which is no process.


def nystrom(X, y, collapsed=False):
    """Q for the rows; the kernel elsewhere or, if `collapsed`, Q."""
    kernel = KERNEL.k1  # without noise

    def q(A, B):
        return kernel(A, Z) @ np.linalg.solve(kernel(Z, Z) + 1e-8 * np.eye(len(Z)), kernel(Z, B))

    def predict(queries):
        k = q if collapsed else kernel
        weights = np.linalg.solve(q(X, X) + NOISE * np.eye(len(X)), k(X, queries)).T
        return weights @ y, np.diag(k(queries, queries)) - np.sum(weights * k(queries, X), axis=1)

    return predict


def approximate(X, y):
    """Posteriors by title, the exact one first."""
    return {
        "exact": of_package(X, y, posterior="exact"),
        "Nyström": nystrom(X, y),
        "10 random features": random_features(X, y, 10),
        "50 random features": random_features(X, y, 50),
        "FITC": of_package(X, y, bound="fitc", inducing_init=Z, n_inducing=len(Z)),
        "variational": of_package(X, y, bound="titsias", inducing_init=Z, n_inducing=len(Z)),
        "Nyström, collapsed": nystrom(X, y, collapsed=True),
    }


def print_table(posteriors, X_test, y_test):
    """Smallest variances on the grid, where they are negative, and log densities of other rows."""
    print(f"{'posterior':<20} {'smallest variance':>18} {'negative':>9} {'log density':>12}")
    for title, predict in posteriors.items():
        variance, (mean, test_variance) = predict(GRID)[1], predict(X_test)
        density = np.mean(norm.logpdf(y_test, mean, np.sqrt(test_variance + NOISE)))
        share = np.mean(variance < 0)
        print(f"{title:<20} {variance.min():>18.5f} {share:>9.0%} {density:>12.3f}")


# %%
# Bands are two standard deviations of the function; those of the exact process are dashed
# everywhere. Ticks are the inducing points.


def draw(posteriors, X, y):
    """One panel per posterior, but for the collapsed one, which is in that of Nyström."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.2), sharey=True, layout="constrained")
    for axis, (title, predict) in zip(axes.flat, posteriors.items()):
        draw_band(axis, predict)
        draw_edges(axis, posteriors["exact"], "--", "exact")
        axis.plot(X, y, "o", color="black", markersize=2.5)
        axis.set(title=title, xlim=(-2, 8), ylim=(-3.2, 3.2))
        if title in ("Nyström", "FITC", "variational"):
            axis.plot(Z, np.full(len(Z), -2.9), "|", color=ORANGE, markersize=14)
    draw_edges(axes[0, 1], posteriors["Nyström, collapsed"], ":", "Q everywhere", "black")
    axes[0, 1].legend(fontsize=8, loc="upper left")
    return figure


def draw_band(axis, predict):
    """Mean and two standard deviations, and where there are none."""
    x, (mean, variance) = GRID[:, 0], predict(GRID)
    std = np.sqrt(np.maximum(variance, 0.0))
    axis.fill_between(x, mean - 2 * std, mean + 2 * std, color=BLUE, alpha=0.22, linewidth=0)
    axis.plot(x, mean, color=BLUE, linewidth=1.8)
    stripes = {"where": variance < 0, "label": "negative variance", "linewidth": 0}
    axis.fill_between(x, -3.2, 3.2, color=ORANGE, alpha=0.25, **stripes)


def draw_edges(axis, predict, style, label, colour=GREY):
    """Two standard deviations, as lines."""
    mean, variance = predict(GRID)
    edges = mean[:, None] + 2 * np.sqrt(np.maximum(variance, 0.0))[:, None] * [-1.0, 1.0]
    axis.plot(GRID, edges, style, color=colour, linewidth=1.0, label=[label, None])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    output = parser.parse_args().output
    (X, y), (X_test, y_test) = load()
    posteriors = approximate(X, y)
    print_table(posteriors, X_test, y_test)
    figure = draw(posteriors, X, y)
    figure.savefig(output, dpi=110) if output else plt.show()


if __name__ == "__main__":
    main()

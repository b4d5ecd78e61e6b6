"""
More inducing points for the mean
=================================

A decoupled process (Cheng and Boots 2017; Salimbeni et al. 2018) has the kernel at a few inducing
points as the basis of its covariance, and a larger basis for its mean. Here
``InducingPoints(n_mean=40)`` adds random rows to the basis of the mean. Hyperparameters, inducing
points and covariance stay as they are.

Above: eight inducing points, for both or for the covariance only; the exact process with the same
hyperparameters is dashed. Below: the prior basis, ``k(x, z)`` for the inducing points (red)
and ``k(x, a) - q(x, a)`` for other points (blue). The latter is what they add: it is zero at all
inducing points. The posterior basis has the covariances of ``f(x)`` and ``f(z)`` given all rows, in
units of the variance of ``f(z)``. The blue line is what the larger basis has added to the mean.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor
from skgp_sparse.posteriors import InducingPoints

BLUE, ORANGE, GREY = "#30638e", "#d1495b", "#555555"
GRID = np.linspace(-0.5, 10.5, 500)[:, None]
KERNEL = ConstantKernel(1.0) * RBF(0.5) + WhiteKernel(0.04)


def table(n=200, seed=0):
    """Inputs (n, 1) and targets (n,)."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(0.0, 10.0, n)
    return x[:, None], truth(x) + 0.2 * rng.normal(size=n)


def truth(x):
    """The function without noise."""
    return np.sin(x) + 0.7 * np.cos(4.0 * x)


def fit_all(X, y):
    """Models by title, with the same hyperparameters."""
    Z = np.linspace(0.5, 9.5, 8)[:, None]
    common = {"kernel": KERNEL, "normalize_y": False, "optimizer": None, "random_state": 0}
    points = common | {"inducing_init": Z, "n_inducing": len(Z)}
    return {
        "exact": SparseGPRegressor(posterior="exact", **common).fit(X, y),
        "coupled": SparseGPRegressor(posterior="inducing", **points).fit(X, y),
        "decoupled": SparseGPRegressor(posterior=InducingPoints(n_mean=40), **points).fit(X, y),
    }


def print_table(models):
    """Bounds, and errors of the mean between 0 and 10."""
    inside = GRID[(GRID >= 0.0) & (GRID <= 10.0)]
    for title, model in models.items():
        error = np.sqrt(np.mean((model.predict(inside[:, None]) - truth(inside)) ** 2))
        print(f"{title:<10} bound {model.log_marginal_likelihood_value_:8.2f}   error {error:.3f}")


# %%
# The bases are functions on the grid, one for each column.


def prior_basis(Z, A):
    """The kernel at the inducing points, and what other points add to them."""
    kernel = KERNEL.k1
    at_Z = kernel(GRID, Z)
    return at_Z, kernel(GRID, A) - at_Z @ np.linalg.solve(kernel(Z), kernel(Z, A))


def posterior_basis(model):
    """Covariances with the values at the inducing points, in units of their variances."""
    Z = model.inducing_points_
    _, covariance = model.predict(np.vstack([GRID, Z]), return_cov=True, latent=True)
    return covariance[: len(GRID), len(GRID) :] / np.diag(covariance)[len(GRID) :]


def draw(models, X, y):
    """Two posteriors above, two bases below."""
    figure, axes = plt.subplots(2, 2, figsize=(12, 7), sharex=True, layout="constrained")
    titles = {"coupled": "8 inducing points", "decoupled": "8, and 40 for the mean"}
    for axis, (name, title) in zip(axes[0], titles.items()):
        draw_band(axis, models[name], models["exact"])
        axis.plot(X, y, "o", color="black", markersize=2)
        axis.set(title=title, ylim=(-3.4, 3.4))
    Z = models["coupled"].inducing_points_
    at_Z, added = prior_basis(Z, np.linspace(0.0, 10.0, 16)[:, None])
    axes[1, 0].plot(GRID, added, color=BLUE, linewidth=0.9)
    axes[1, 0].plot(GRID, at_Z, color=ORANGE)
    axes[1, 0].set_title("prior basis")
    difference = models["decoupled"].predict(GRID) - models["coupled"].predict(GRID)
    axes[1, 1].plot(GRID, difference, color=BLUE)
    axes[1, 1].plot(GRID, posterior_basis(models["coupled"]), color=ORANGE, linewidth=1)
    axes[1, 1].set(title="posterior basis, and what was added to the mean", xlim=(-0.5, 10.5))
    for axis in axes[1]:
        axis.plot(Z, np.full(len(Z), -1.2), "|", color="black", markersize=12)
        axis.set_ylim(-1.4, 1.2)
    return figure


def draw_band(axis, model, exact):
    """Mean and two standard deviations of the function, those of the exact process dashed."""
    x = GRID[:, 0]
    mean, std = model.predict(GRID, return_std=True, latent=True)
    axis.fill_between(x, mean - 2 * std, mean + 2 * std, color=BLUE, alpha=0.22, linewidth=0)
    axis.plot(x, mean, color=BLUE, linewidth=1.8)
    mean, std = exact.predict(GRID, return_std=True, latent=True)
    axis.plot(x, mean[:, None] + 2 * std[:, None] * [-1, 1], "--", color=GREY, linewidth=0.9)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    output = parser.parse_args().output
    X, y = table()
    models = fit_all(X, y)
    print_table(models)
    figure = draw(models, X, y)
    figure.savefig(output, dpi=110) if output else plt.show()


if __name__ == "__main__":
    main()

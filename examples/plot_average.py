"""
An average of several fits
==========================

On a small table, several kernels may explain the rows nearly as well. Here, four of them are
learned from the same 60 rows, and 60 other rows are a validation set. The weights of the four
predictive distributions maximise the log density of their mixture there, which is called stacking
(Yao et al. 2018). Where the fits disagree, the standard deviation of the mixture is larger than
theirs. A dashed line has the mean log density of 2,000 new rows by the average.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgp_sparse import SparseGPRegressor
from skgp_sparse.kernels import Columns


def table(n, seed):
    """Rows (n, 4) and targets (n,) of a function that is nearly additive."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, size=(n, 4))
    f = np.abs(X[:, 0]) + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] / 9
    return X, f + 0.2 * rng.normal(size=n)


def fit(X, y):
    """Models of the same rows, by the names of their kernels."""
    kernels = {f"ν = {nu}": ConstantKernel() * Matern(np.ones(4), nu=nu) for nu in (0.5, 1.5, 2.5)}
    first, *others = [ConstantKernel() * Columns(Matern(nu=2.5), column) for column in range(4)]
    kernels["additive"] = sum(others, first)
    return {name: SparseGPRegressor(kernel).fit(X, y) for name, kernel in kernels.items()}


def log_densities(models, X, y):
    """Log densities (k, n) of the targets."""
    return np.array([model.log_predictive_density(X, y) for model in models.values()])


def weights_of(densities, n_iter=2000):
    """Weights (k,) with which the mixture makes these rows likely: expectation-maximisation."""
    log_weights = np.full(len(densities), -np.log(len(densities)))
    for _ in range(n_iter):
        shares = log_weights[:, None] + densities
        shares -= logsumexp(shares, axis=0)  # of each model in each row
        log_weights = logsumexp(shares, axis=1) - np.log(densities.shape[1])
    return np.exp(log_weights)


def average(models, weights, X):
    """Mean and standard deviation (n,) of the mixture."""
    each = [model.predict(X, return_std=True) for model in models.values()]
    means, stds = np.swapaxes(each, 0, 1)
    mean = weights @ means
    return mean, np.sqrt(weights @ (stds**2 + (means - mean) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", help="file of the picture, instead of a window")
    output = parser.parse_args().output
    models = fit(*table(60, seed=0))
    weights = weights_of(log_densities(models, *table(60, seed=1)))
    X, y = table(2000, seed=2)
    densities = log_densities(models, X, y)
    mixed = logsumexp(densities, axis=0, b=weights[:, None]).mean()
    mean, std = average(models, weights, X)
    print(f"{'average':<9} {mixed:.3f}, within 2 std: {np.mean(np.abs(y - mean) < 2 * std):.3f}")
    figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for name, weight, density in zip(models, weights, densities.mean(axis=1)):
        print(f"{name:<9} {density:.3f}, weight {weight:.2f}")
        axis.barh(f"{name}, weight {weight:.2f}", density, color="#30638e")
    axis.axvline(mixed, color="#d1495b", ls="--", label="average")
    axis.set(xlabel="mean log density of new rows")
    axis.legend()
    figure.savefig(output, dpi=110) if output else plt.show()


if __name__ == "__main__":
    main()

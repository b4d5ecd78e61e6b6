"""
Optimisation by Thompson sampling
=================================

The function has two inputs, and each evaluation is expensive. A Gaussian process is fitted to what
is known. A function is drawn from its posterior, and evaluated next is where that function is
lowest. Where little is known, drawn functions differ, so that the search looks there, too. Every
drawn function has a gradient, so that L-BFGS finds its minimum.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgp_sparse import SparseGPRegressor

LOW, HIGH = np.array([-5.0, 0.0]), np.array([10.0, 15.0])
LOWEST = 0.397887


def branin(X):
    """A function with three minima, which are equal."""
    x, y = X.T
    slope = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return slope**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


def minimum_of(function, rng):
    """Where a drawn function is lowest, from the best of some random starts."""
    starts = rng.uniform(LOW, HIGH, size=(500, 2))
    return minimize(
        lambda x: (function(x[None])[0], function.gradient(x[None])[0]),
        starts[np.argmin(function(starts))],
        jac=True,
        bounds=list(zip(LOW, HIGH)),
    ).x


def search(n_steps, seed=0):
    """Evaluations, in order: six at random, and then by Thompson sampling."""
    rng = np.random.RandomState(seed)
    kernel = ConstantKernel() * Matern([5.0, 5.0], [(1.0, 1000.0)] * 2, nu=2.5)
    X = rng.uniform(LOW, HIGH, size=(6, 2))
    y = branin(X)
    for step in range(n_steps):
        model = SparseGPRegressor(kernel, alpha=1e-6, posterior="exact", random_state=0)
        function = model.fit(X, y).sample_functions(1, random_state=step)[0]
        X = np.vstack([X, minimum_of(function, rng)])
        y = np.append(y, branin(X[-1:]))
    return X, y


def draw(X, y):
    grid = np.stack(np.meshgrid(np.linspace(-5, 10, 80), np.linspace(0, 15, 80)), axis=-1)
    values = branin(grid.reshape(-1, 2)).reshape(80, 80)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    left.contourf(grid[..., 0], grid[..., 1], np.log(values), levels=20, cmap="Greys")
    points = left.scatter(*X.T, c=np.arange(len(X)), cmap="viridis", s=25)
    figure.colorbar(points, label="evaluation")
    left.set(xlabel="first input", ylabel="second input", title="evaluations")
    distance = np.minimum.accumulate(y) - LOWEST
    right.plot(np.arange(1, len(y) + 1), distance, drawstyle="steps-post")
    right.set(yscale="log", xlabel="evaluations", title="distance from the minimum")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=30, help="evaluations")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    X, y = search(args.n)
    print(f"lowest value {y.min():.3f} after {len(y)} evaluations, at {X[np.argmin(y)].round(2)}")
    figure = draw(X, y)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

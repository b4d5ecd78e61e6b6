"""
Natural gradients
=================

A sparse variational fit that does not have its posterior ``q(u) = N(mean, S)`` in closed form has
to optimise it, and it matters how. Hyperparameters and inducing points are those of a fit here.

- A natural-gradient step mixes natural parameters, ``S^-1 <- (1 - ρ) S^-1 + ρ B``, with the sum
  ``B`` over all rows or an estimate from a minibatch (Hensman, Fusi and Lawrence 2013). With all
  rows and ``ρ = 1``, one step is the optimum. Minibatches stay in their noise if ρ is constant, and
  converge slowly if it decays.
- An ordinary gradient depends on the coordinates. Those of ``u`` are ill-conditioned where inducing
  points are close to each other. Whitened ones, ``w = L^-1 u`` with ``Kuu = L L'``, have a
  condition number that does not grow with the number of inducing points. With few of them, and many
  rows for each, whitening makes it worse. (The mean only, given the best S.)

This package has the optimum in closed form or by an inner loop of natural-gradient steps.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import SparseGPRegressor

BLUE, ORANGE = "#30638e", "#d1495b"
COLOURS = {"plain": ORANGE, "whitened": BLUE}  # coordinates


def table(n, seed=0):
    """Inputs (n, 1) and targets (n,)."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-5.0, 5.0, n)
    return x[:, None], np.sin(3.0 * x) + 0.5 * x + 0.3 * rng.normal(size=n)


def fit(X, y, n_inducing):
    """A model of the bound of Titsias (2009)."""
    kernel = ConstantKernel() * RBF() + WhiteKernel(0.1)
    options = {"bound": "titsias", "normalize_y": False, "random_state": 0}
    return SparseGPRegressor(kernel, n_inducing=n_inducing, **options).fit(X, y)


# %%
# In whitened coordinates, and in units of the noise: features V (m, n), B = I + V V' and b = V y.
# The optimum is mean = B^-1 b and S = B^-1.


def features(kernel, noise, X, Z):
    """L and V."""
    L = np.linalg.cholesky(kernel(Z) + 1e-8 * kernel.diag(Z[:1]) * np.eye(len(Z)))
    return L, np.linalg.solve(L, kernel(Z, X)) / np.sqrt(noise)


def gap(B, b, precision, linear):
    """How far the bound is below its optimum, with S = precision^-1 and mean = S linear."""
    S = np.linalg.inv(precision)
    error = S @ linear - np.linalg.solve(B, b)
    return 0.5 * (error @ B @ error + np.sum(B * S) - len(B) - np.linalg.slogdet(B @ S)[1])


def natural_gradients(V, y, batch, share, steps, seed=0):
    """Gaps after natural-gradient steps of size share(t), with all rows or with random ones."""
    rng, (m, n) = np.random.RandomState(seed), V.shape
    B, b = np.eye(m) + V @ V.T, V @ y
    precision, linear, gaps = np.eye(m), np.zeros(m), []
    for t in range(steps):
        gaps.append(gap(B, b, precision, linear))
        rows = np.arange(n) if batch == n else rng.choice(n, batch)
        P, scale = V[:, rows], n / batch
        rho = share(t)
        precision = (1 - rho) * precision + rho * (np.eye(m) + scale * P @ P.T)
        linear = (1 - rho) * linear + rho * scale * P @ y[rows]
    return np.array(gaps)


def ordinary_gradients(B, b, T, steps):
    """Gaps of the mean in coordinates z, mean = T z: steepest ascent with the best step, L-BFGS."""
    optimum, H = np.linalg.solve(B, b), T.T @ B @ T

    def gap_and_gradient(z):
        error = T @ z - optimum
        return 0.5 * error @ B @ error, T.T @ (B @ error)

    curvatures = np.linalg.eigvalsh(H)
    rate = 2.0 / (curvatures[0] + curvatures[-1])
    z, steepest, quasi_newton = np.zeros(len(b)), [], []
    for _ in range(steps):
        value, gradient = gap_and_gradient(z)
        steepest.append(value)
        z = z - rate * gradient
    minimize(gap_and_gradient, np.zeros(len(b)), jac=True, method="L-BFGS-B",
             callback=lambda z: quasi_newton.append(gap_and_gradient(z)[0]),
             options={"maxiter": steps, "ftol": 0.0})  # fmt: skip
    return steepest, quasi_newton


def condition_numbers(model, X, sizes):
    """Of the Hessian of the mean with so many points at equal distances: plain and whitened."""
    kernel, noise = model.kernel_.k1, model.kernel_.k2.noise_level
    numbers = []
    for m in sizes:
        L, V = features(kernel, noise, X, np.linspace(-5.0, 5.0, m)[:, None])
        B, T = np.eye(m) + V @ V.T, np.linalg.inv(L)
        numbers.append((np.linalg.cond(T.T @ B @ T), np.linalg.cond(B)))
    return np.array(numbers).T


def draw(X, y, model):
    """Natural gradients, ordinary gradients, and condition numbers."""
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 4.2), layout="constrained")
    kernel, noise = model.kernel_.k1, model.kernel_.k2.noise_level
    L, V = features(kernel, noise, X, model.inducing_points_)
    draw_natural(axes[0], V, y / np.sqrt(noise))
    draw_ordinary(axes[1], L, V, y / np.sqrt(noise))
    sizes = np.arange(4, 61, 2)
    for name, numbers in zip(COLOURS, condition_numbers(model, X, sizes)):
        axes[2].semilogy(sizes, numbers, color=COLOURS[name], label=name)
    axes[2].set(title="condition numbers", xlabel="inducing points at equal distances")
    for axis in axes[:2]:
        axis.set(xscale="log", yscale="log", ylim=(1e-3, 1e8))
    for axis in axes:
        axis.legend(fontsize=8)
    return figure


def draw_natural(axis, V, y, batch=50, steps=1000):
    """Gaps against passes over the rows."""
    n = len(y)
    at_once = np.maximum(natural_gradients(V, y, n, lambda t: 1.0, 2), 1e-9)
    axis.plot([1, 1], at_once, "k-", label="all rows, ρ = 1")
    shares = {"ρ = 0.1": lambda t: 0.1, "ρ = 1 / (t + 1)": lambda t: 1.0 / (t + 1.0)}
    for colour, (label, share) in zip((ORANGE, BLUE), shares.items()):
        gaps = natural_gradients(V, y, batch, share, steps)
        passes = np.arange(1, steps) * batch / n
        axis.plot(passes, gaps[1:], color=colour, label=f"batches of {batch}, {label}")
    axis.set(title="nats to the optimum: natural gradients", xlabel="passes over the rows")


def draw_ordinary(axis, L, V, y, steps=1000):
    """Gaps against iterations."""
    B, b, I = np.eye(len(V)) + V @ V.T, V @ y, np.eye(len(V))
    for (name, colour), T in zip(COLOURS.items(), (np.linalg.inv(L), I)):
        steepest, quasi_newton = ordinary_gradients(B, b, T, steps)
        axis.plot(range(1, steps + 1), steepest, color=colour, label=f"{name}, steepest ascent")
        iterations = range(2, len(quasi_newton) + 2)
        axis.plot(iterations, quasi_newton, "--", color=colour, label=f"{name}, L-BFGS")
    axis.set(title="ordinary gradients of the mean", xlabel="iteration")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    output = parser.parse_args().output
    X, y = table(1000)
    model = fit(X, y, n_inducing=40)
    figure = draw(X, y, model)
    figure.savefig(output, dpi=110) if output else plt.show()


if __name__ == "__main__":
    main()

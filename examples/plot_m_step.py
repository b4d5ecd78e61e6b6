"""
What is held in an M-step
=========================

A sparse variational fit that takes turns holds something of its posterior while it moves the
hyperparameters: the distribution ``q(u)`` of the inducing variables, that of ``L^-1 u`` (whitened),
or the sites of the rows, which are the dual parameters of Adam, Chang, Khan and Solin (2021). The
bound with held sites stays close to the best one (dashed), so that one turn goes as far as many
others. The example is theirs: 100 labels of a thresholded noisy sinc, ten inducing points at equal
distances, a length scale of 1/2 and a variance of 0.6.

This package does not take turns. The objective that it differentiates is the dashed one, since an
inner loop finds the sites in every evaluation. Its gradient is that of the curve with held sites,
which touches it.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgp_sparse import SparseGPClassifier
from skgp_sparse.likelihoods import Probit

COLOURS = {"q(u)": "#d1495b", "q(u), whitened": "#edae49", "sites": "#30638e"}
LENGTH, VARIANCE = 0.5, 0.6


def labels(n=100, seed=123):
    """Inputs (n, 1) and labels 0 and 1 (n,)."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-1.0, 1.0, n)
    return x[:, None], (np.sin(12.0 * x) / x + 0.2 * rng.normal(size=n) > 0).astype(int)


def kernel_at(length, variance):
    """The kernel."""
    return ConstantKernel(variance) * RBF(length)


def fit(X, y, kernel, m=10):
    """The best sites at a kernel: the E-step."""
    Z = np.linspace(X.min(), X.max(), m)[:, None]
    options = {"bound": "titsias", "inducing_init": Z, "n_inducing": m, "optimizer": None}
    return SparseGPClassifier(kernel, **options).fit(X, y)


# %%
# In the coordinates ``w = L^-1 u``, the prior is N(0, I), and features are the columns of
# ``V = L^-1 Kuf``. The bound is a function of mean and covariance of w.


def features(kernel, X, Z):
    """L (m, m) and V (m, n)."""
    L = np.linalg.cholesky(kernel(Z) + 1e-8 * kernel.k1.constant_value * np.eye(len(Z)))
    return L, np.linalg.solve(L, kernel(Z, X))


def bound(V, variance, y, mean, S):
    """Expected log likelihood minus the divergence of N(mean, S) from N(0, I)."""
    marginal = variance - np.sum(V**2, axis=0) + np.sum(V * (S @ V), axis=0)
    expected = Probit().expected(2.0 * y - 1.0, V.T @ mean, marginal)[0]
    return np.sum(expected) - 0.5 * (np.trace(S) + mean @ mean - len(S) - np.linalg.slogdet(S)[1])


def from_sites(V, first, second):
    """Mean and covariance of w, given sites exp(first f - second f² / 2)."""
    S = np.linalg.inv(np.eye(len(V)) + (V * second) @ V.T)
    return S @ (V @ first), S


def held(model, X, y):
    """By what is held: the bound as a function of the kernel, after an E-step."""
    mean, variance = model.latent_mean_and_variance(X)
    _, slope, curvature = Probit().expected(2.0 * y - 1.0, mean, variance)
    sites = curvature * mean + slope, curvature
    Z = model.inducing_points_
    L_before, V_before = features(model.kernel_, X, Z)
    mean_before, S_before = from_sites(V_before, *sites)

    def moved(kernel, name):
        L, V = features(kernel, X, Z)
        if name == "sites":
            w = from_sites(V, *sites)
        else:
            A = np.eye(len(Z)) if name == "q(u), whitened" else np.linalg.solve(L, L_before)
            w = A @ mean_before, A @ S_before @ A.T
        return bound(V, kernel.k1.constant_value, y, *w)

    return moved


# %%
# AlternatingUpdates: the best sites, then the best length scale with something held.


def take_turns(X, y, name, turns=12):
    """Length scales, and the best bounds there, from turn to turn."""
    length, path = LENGTH, []
    for _ in range(turns):
        model = fit(X, y, kernel_at(length, VARIANCE))
        path.append((length, model.log_marginal_likelihood_value_))
        moved = held(model, X, y)
        best = minimize_scalar(
            lambda log: -moved(kernel_at(np.exp(log), VARIANCE), name),  # noqa: B023
            bounds=np.log([0.05, 2.0]),
            method="bounded",
        )
        length = np.exp(best.x)
    return np.array(path).T


def print_table(paths):
    """Length scales and bounds after some turns."""
    for name, (lengths, values) in paths.items():
        numbers = "   ".join(f"{lengths[k]:.3f} {values[k]:7.2f}" for k in (0, 1, 3, 11))
        print(f"{name:<15} length scale, bound after 0, 1, 3, 11 turns: {numbers}")


def draw(X, y, paths):
    """The bound against length scale and variance with something held, and over turns."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    start = fit(X, y, kernel_at(LENGTH, VARIANCE))
    moved = held(start, X, y)
    lengths, variances = np.geomspace(0.1, 1.5, 60), np.geomspace(0.05, 5.0, 60)
    draw_bounds(axes[0], start, moved, lengths, lambda one: kernel_at(one, VARIANCE))
    draw_bounds(axes[1], start, moved, variances, lambda one: kernel_at(LENGTH, one))
    axes[0].set(xlabel="length scale", ylim=(-100, -40), title="bound")
    axes[1].set(xlabel="variance", ylim=(-76, -67), title="bound")
    for axis, value in zip(axes, (LENGTH, VARIANCE)):
        axis.axvline(value, color="#bbbbbb", linewidth=0.8, zorder=0)
    for name, (_, values) in paths.items():
        axes[2].plot(values, "o-", color=COLOURS[name], markersize=3)
    axes[2].set(xlabel="turns", title="best bound after turns of the length scale")
    axes[0].legend(fontsize=8, title="held")
    return figure


def draw_bounds(axis, start, moved, values, kernel):
    """Bounds against a hyperparameter, with something held, and with nothing held."""
    for name, colour in COLOURS.items():
        axis.plot(values, [moved(kernel(one), name) for one in values], color=colour, label=name)
    best = [start.log_marginal_likelihood(kernel(one).theta) for one in values]
    axis.plot(values, best, "k--", linewidth=1, label="nothing")
    axis.set_xscale("log")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    output = parser.parse_args().output
    X, y = labels()
    paths = {name: take_turns(X, y, name) for name in COLOURS}
    print_table(paths)
    figure = draw(X, y, paths)
    figure.savefig(output, dpi=110) if output else plt.show()


if __name__ == "__main__":
    main()

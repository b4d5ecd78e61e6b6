"""
Three objectives of classification
==================================

Two classes, interlocked as two bananas, and few inducing points. ``titsias`` is the variational
bound, ``titsias_new`` the tighter one of 2025, and ``gfitc-ep`` propagates expectations under the
FITC prior. The log loss on rows that were held out compares all three. Values of the objectives
compare the first two only: at the same inducing points and hyperparameters ``titsias_new`` is never
below ``titsias``, while ``gfitc-ep`` is no bound.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from skgp_sparse import SparseGPClassifier

HERE = Path(__file__).parent if "__file__" in globals() else Path()  # a notebook has no file
BANANA = HERE / "data" / "banana.csv"
BOUNDS = ("titsias", "titsias_new", "gfitc-ep")
BLUE, ORANGE = "#30638e", "#d1495b"


def load(n_train, path=BANANA):
    """Training and test rows: inputs (n, 2) and labels (n,)."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    table = table[np.random.RandomState(0).permutation(len(table))]
    X, y = table[:, :2], table[:, 2].astype(int)
    return X[:n_train], X[n_train:], y[:n_train], y[n_train:]


# %%
# One model per objective, with the default kernel and the default likelihood, a probit.


def fit_all(X, y, n_inducing):
    """Models by objective."""
    return {
        bound: SparseGPClassifier(bound=bound, n_inducing=n_inducing, random_state=0).fit(X, y)
        for bound in BOUNDS
    }


def losses(models, X, y):
    """Held-out log loss of every model."""
    return {bound: log_loss(y, model.predict_proba(X)) for bound, model in models.items()}


def print_table(models, loss):
    """Values of the objectives and held-out log losses."""
    print(f"{'objective':<12} {'value':>9} {'log loss':>9}")
    for bound, model in models.items():
        print(f"{bound:<12} {model.log_marginal_likelihood_value_:>9.2f} {loss[bound]:>9.4f}")


# %%
# Colours are probabilities, the lines are where they are 0.1, 0.5 and 0.9, and the circles are
# the inducing points.


def draw(models, loss, X, y):
    """One panel per model."""
    figure, axes = plt.subplots(
        1, 3, figsize=(12, 4.6), sharex=True, sharey=True, layout="constrained"
    )
    for axis, (bound, model) in zip(axes, models.items()):
        draw_surface(axis, model)
        for label, colour in enumerate((BLUE, ORANGE)):
            axis.plot(*X[y == label].T, ".", color=colour, markersize=3, alpha=0.7)
        axis.plot(*model.inducing_points_.T, "o", color="white", markeredgecolor="black",
                  markersize=7, zorder=3)  # fmt: skip
        axis.set_title(bound, loc="left", fontweight="bold")
        axis.set_title(f"held-out log loss {loss[bound]:.4f}", loc="right", fontsize=9)
        axis.set(xlim=(-3.5, 3.5), ylim=(-3.5, 3.5), aspect="equal")
    return figure


def draw_surface(axis, model):
    """Probability of class 1."""
    ticks = np.linspace(-3.5, 3.5, 120)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1)
    probability = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(grid.shape[:2])
    axis.contourf(ticks, ticks, probability, np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.35)
    axis.contour(ticks, ticks, probability, [0.1, 0.5, 0.9], colors="black",
                 linewidths=(0.6, 1.6, 0.6))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    parser.add_argument("--n-train", type=int, default=500, help="rows, of 1000")
    parser.add_argument("--n-inducing", type=int, default=12)
    arguments = parser.parse_args()
    X, X_test, y, y_test = load(arguments.n_train)
    models = fit_all(X, y, arguments.n_inducing)
    loss = losses(models, X_test, y_test)
    print_table(models, loss)
    figure = draw(models, loss, X, y)
    figure.savefig(arguments.output, dpi=110) if arguments.output else plt.show()


if __name__ == "__main__":
    main()

"""
A softmax and one-vs-rest
=========================

Three classes, of which two overlap. ``multi_class="softmax"`` fits one joint model: a process for
each class, with one kernel and one set of inducing points for all. ``"one_vs_rest"`` fits three
models and normalises their probabilities.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.metrics import log_loss

from skgp_sparse import SparseGPClassifier

WAYS = ("softmax", "one_vs_rest")
COLOURS = np.array([[0.82, 0.29, 0.36], [0.19, 0.39, 0.56], [0.93, 0.68, 0.29]])


def table(n, seed=0):
    """Inputs (n, 2) and classes (n,)."""
    centers = [[-2.0, 0.0], [0.0, 0.5], [1.5, -1.5]]
    X, y = make_blobs(n, centers=centers, cluster_std=[0.6, 0.9, 0.6], random_state=seed)
    X[:, 1] += 0.4 * X[:, 0] ** 2
    return X, y


def fit_all(n):
    """Models by strategy."""
    X, y = table(n)
    return {
        way: SparseGPClassifier(multi_class=way, n_inducing=20, random_state=0).fit(X, y)
        for way in WAYS
    }


def print_table(models):
    """Held-out log losses."""
    X, y = table(3000, seed=1)
    for way, model in models.items():
        print(f"{way:<12} log loss {log_loss(y, model.predict_proba(X)):.4f}")


# %%
# Colours are mixed by the probabilities. Grey is where no class is more probable than the others,
# as it is far from all rows.


def plot(models, n):
    """One panel for each strategy."""
    X, y = table(n)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
    box = (-6.0, 6.0, -5.0, 8.0)
    across, up = np.meshgrid(np.linspace(*box[:2], 200), np.linspace(*box[2:], 200))
    grid = np.column_stack([across.ravel(), up.ravel()])
    for ax, (way, model) in zip(axes, models.items()):
        mixed = (model.predict_proba(grid) @ COLOURS).reshape(*across.shape, 3)
        ax.imshow(0.4 + 0.6 * mixed, extent=box, origin="lower", aspect="auto")
        ax.contour(across, up, model.predict(grid).reshape(across.shape), [0.5, 1.5], colors="k")
        ax.scatter(*X.T, s=8, color=COLOURS[y], edgecolor="k", lw=0.3)
        ax.set(title=f'multi_class="{way}"')
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

"""
Choosing bound and kernel of a classifier
=========================================

Accuracy judges the more probable class and nothing else; the log loss judges the probabilities.
``scoring="neg_log_loss"`` makes it the score of ``GridSearchCV``. Bound and kernel are parameters
as any other, through a Pipeline, too.

The data are the breast cancer table that comes with scikit-learn.
"""

import argparse
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skgp_sparse import SparseGPClassifier

BLUE, PALE = "#30638e", "#c9d6df"

# %%
# Three bounds and three kernels. The features are standardised first, so that one initial length
# scale suits all of them. The variance of the process has an upper bound of its own: classes that
# can be separated drive it up without end. ``gfitc-ep`` stops at this bound, of which scikit-learn
# warns.

VARIANCE = ConstantKernel(1.0, (1e-3, 1e3))
KERNELS = {
    "RBF": VARIANCE * RBF(5.0),
    "Matern 3/2": VARIANCE * Matern(5.0, nu=1.5),
    "linear": VARIANCE * DotProduct(sigma_0_bounds="fixed"),
}
GRID = {
    "gp__bound": ["titsias", "titsias_new", "gfitc-ep"],
    "gp__kernel": list(KERNELS.values()),
}


def search(X, y, n_inducing, n_folds):
    """A fitted grid search."""
    gp = SparseGPClassifier(n_inducing=n_inducing, random_state=0)
    pipeline = Pipeline([("scale", StandardScaler()), ("gp", gp)])
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    scoring = {"neg_log_loss": "neg_log_loss", "accuracy": "accuracy"}
    grid = GridSearchCV(pipeline, GRID, scoring=scoring, refit="neg_log_loss", cv=folds)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The optimal value found", ConvergenceWarning)
        return grid.fit(X, y)


def name(parameters):
    """What to call a candidate."""
    kernel = next(title for title, k in KERNELS.items() if k == parameters["gp__kernel"])
    return f"{parameters['gp__bound']}, {kernel}"


def draw(results, n_folds):
    """Log loss and accuracy of every candidate, folds included."""
    names = np.array([name(parameters) for parameters in results["params"]])
    order = np.argsort(results["mean_test_neg_log_loss"])
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    scores = {"neg_log_loss": "− log loss", "accuracy": "accuracy"}
    for axis, (score, label) in zip(axes, scores.items()):
        folds = np.array([results[f"split{k}_test_{score}"] for k in range(n_folds)])[:, order]
        axis.hlines(range(len(order)), folds.min(axis=0), folds.max(axis=0), color=PALE,
                    linewidth=5)  # fmt: skip
        axis.plot(folds.mean(axis=0), range(len(order)), "o", color=BLUE, markersize=8)
        axis.set(yticks=range(len(order)), yticklabels=names[order], xlabel=label)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"held-out scores: mean and range over {n_folds} folds")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    parser.add_argument("--n-inducing", type=int, default=20)
    parser.add_argument("--folds", type=int, default=3)
    arguments = parser.parse_args()
    X, y = load_breast_cancer(return_X_y=True)
    found = search(X, y, arguments.n_inducing, arguments.folds)
    results = found.cv_results_
    scores = (results["mean_test_neg_log_loss"], results["mean_test_accuracy"])
    for parameters, loss, accuracy in zip(results["params"], *scores):
        print(f"{name(parameters):<24} −log loss {loss:8.4f}   accuracy {accuracy:.4f}")
    print(f"Best: {name(found.best_params_)}")
    figure = draw(results, arguments.folds)
    figure.savefig(arguments.output, dpi=110) if arguments.output else plt.show()


if __name__ == "__main__":
    main()

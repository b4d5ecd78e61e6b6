"""
Choosing the objective
======================

R² judges the mean of a prediction, and the objectives differ in its uncertainty. The mean log
predictive density judges both; ``log_predictive_density_scorer`` makes it a score for
``GridSearchCV``. The objective is a parameter as any other, and so is the power of ``PEP``, through
a Pipeline, too.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skgp_sparse import SparseGPRegressor
from skgp_sparse.bounds import PEP
from skgp_sparse.metrics import log_predictive_density_scorer

HERE = Path(__file__).parent if "__file__" in globals() else Path()  # a notebook has no file
EVEREST = HERE / "data" / "everest.npz"


def load(n, path=EVEREST):
    """Positions (n, 2) and heights (n,) of random cells around Mount Everest."""
    height = np.load(path)["height"].astype(float)
    chosen = np.random.RandomState(0).permutation(height.size)[:n]
    return np.column_stack(np.unravel_index(chosen, height.shape)[::-1]), height.ravel()[chosen]


# %%
# Two grids: objectives by name, and one objective with its own parameter.

GRID = [
    {"gp__bound": ["titsias", "artemev", "titsias_new", "fitc", "dtc"]},
    {"gp__bound": [PEP()], "gp__bound__alpha": [0.1, 0.3, 0.5, 0.8]},
]


def search(X, y, n_inducing, cv):
    """A fitted grid search over both grids."""
    kernel = ConstantKernel() * Matern([1.0, 1.0], nu=1.5)
    gp = SparseGPRegressor(kernel, n_inducing=n_inducing, random_state=0)
    pipeline = Pipeline([("scale", StandardScaler()), ("gp", gp)])
    scoring = {"density": log_predictive_density_scorer, "r2": "r2"}
    return GridSearchCV(pipeline, GRID, scoring=scoring, refit="density", cv=cv).fit(X, y)


def name(parameters):
    """What to call a candidate."""
    bound = parameters["gp__bound"]
    return bound if isinstance(bound, str) else f"pep({parameters['gp__bound__alpha']})"


def draw(results):
    """Log density and R² of every candidate, folds included."""
    names = [name(parameters) for parameters in results["params"]]
    order = np.argsort(results["mean_test_density"])
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for axis, score, label in zip(axes, ("density", "r2"), ("mean log predictive density", "R²")):
        folds = np.array([results[f"split{k}_test_{score}"] for k in range(3)])[:, order]
        axis.hlines(range(len(order)), folds.min(axis=0), folds.max(axis=0), color="#c9d6df",
                    linewidth=5)  # fmt: skip
        axis.plot(folds.mean(axis=0), range(len(order)), "o", color="#30638e", markersize=8)
        axis.set(yticks=range(len(order)), yticklabels=np.array(names)[order], xlabel=label)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("held-out scores: mean and range over three folds")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    parser.add_argument("--n", type=int, default=2000, help="rows")
    parser.add_argument("--n-inducing", type=int, default=60)
    arguments = parser.parse_args()
    found = search(*load(arguments.n), arguments.n_inducing, cv=3)
    for parameters, density, r2 in zip(
        found.cv_results_["params"],
        found.cv_results_["mean_test_density"],
        found.cv_results_["mean_test_r2"],
    ):
        print(f"{name(parameters):<12} log density {density:8.4f}   R² {r2:.4f}")
    print(f"Best: {name(found.best_params_)}")
    figure = draw(found.cv_results_)
    figure.savefig(arguments.output, dpi=110) if arguments.output else plt.show()


if __name__ == "__main__":
    main()

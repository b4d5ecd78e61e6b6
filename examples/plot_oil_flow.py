"""
Two of twelve dimensions: oil flow
==================================

Twelve gamma-ray measurements of a pipe say how much oil, water and gas is in their way (Bishop and
James 1993, simulated). The flow in the pipe is of one of three kinds, which are the colours, and
which no model is told. A Bayesian GP-LVM has six components, and switches off those that it does
not need. Its two most relevant components are shown beside the principal components.

Then half of the measurements of other rows are deleted, and predicted from the other half.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from skgp_sparse import BayesianGPLVM

HERE = Path(__file__).parent if "__file__" in globals() else Path()  # a notebook has no file
OIL_FLOW = HERE / "data" / "oil_flow.npz"
COLOURS = np.array(["#30638e", "#d1495b", "#edae49"])


def load(n_train, n_new, path=OIL_FLOW):
    """Training rows and their kinds of flow, and new rows."""
    with np.load(path) as file:
        X, flow = file["measurements"] * 1e-4, file["flow"]
    return X[:n_train], flow[:n_train], X[n_train : n_train + n_new]


def fit(X, n_components, n_inducing, max_iter):
    """The best of three starts."""
    options = {"n_inducing": n_inducing, "max_iter": max_iter, "random_state": 0}
    return BayesianGPLVM(n_components, **options).fit(X)


# %%
# In a good map, the nearest row is of the same kind.


def nearest_errors(positions, flow):
    """Share of rows whose nearest other row is of another kind."""
    distances = np.linalg.norm(positions[:, None] - positions, axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.mean(flow[distances.argmin(axis=1)] != flow)


def find_again(model, X):
    """Values of the deleted entries, predictions, their standard deviations, and columns."""
    deleted = np.random.RandomState(0).uniform(size=X.shape) < 0.5
    places = model.transform(np.where(deleted, np.nan, X), return_std=True)
    mean, std = model.inverse_transform(*places, return_std=True)
    return X[deleted], mean[deleted], std[deleted], np.nonzero(deleted)[1]


def print_table(model, errors, truth, mean, std, column):
    """Errors of the maps and of the deleted entries."""
    print(f"bound per row      {model.log_marginal_likelihood_value_ / len(model.embedding_):.2f}")
    for name, error in errors.items():
        print(f"{name:<18} {100 * error:.1f} % of nearest rows are of another kind")
    rmse, rmse_of_means = (np.sqrt(np.mean((truth - p) ** 2)) for p in (mean, model.mean_[column]))
    print(f"deleted entries    error {rmse:.3f}, of column means {rmse_of_means:.3f}")
    print(f"intervals of 95 %  have {np.mean(np.abs(truth - mean) < 1.96 * std):.0%}")


def draw(model, pictures, errors, truth, mean, flow):
    """Two maps, the relevances, and the deleted entries."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
    for axis, (name, positions) in zip(axes[0], pictures.items()):
        axis.scatter(*positions.T, c=COLOURS[flow], s=12)
        axis.set_title(name, loc="left", fontweight="bold")
        axis.set_title(f"{100 * errors[name]:.1f} % nearest rows differ", loc="right", fontsize=9)
    relevance, again = axes[1]
    ticks = np.arange(1, len(model.relevances_) + 1)
    relevance.bar(ticks, model.relevances_, color="#30638e")
    relevance.set(xlabel="component", ylabel="nats per row", xticks=ticks, title="relevances")
    again.plot(truth, mean, ".", color="#30638e", markersize=3, alpha=0.6)
    again.axline((0, 0), slope=1, color="black", linewidth=0.8)
    again.set(xlabel="deleted entry", ylabel="prediction", title="half of the entries deleted")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="picture file; without it, a window opens")
    parser.add_argument("--n-train", type=int, default=800, help="rows, of 900")
    parser.add_argument("--n-components", type=int, default=6)
    parser.add_argument("--n-inducing", type=int, default=25)
    parser.add_argument("--max-iter", type=int, default=400, help="of each of three starts")
    arguments = parser.parse_args()
    X, flow, new = load(arguments.n_train, n_new=100)
    model = fit(X, arguments.n_components, arguments.n_inducing, arguments.max_iter)
    pictures = {
        "PCA": PCA(2).fit_transform(X),
        "Bayesian GP-LVM": model.embedding_[:, :2],
    }
    errors = {name: nearest_errors(positions, flow) for name, positions in pictures.items()}
    truth, mean, std, column = find_again(model, new)
    print_table(model, errors, truth, mean, std, column)
    figure = draw(model, pictures, errors, truth, mean, flow)
    figure.savefig(arguments.output, dpi=110) if arguments.output else plt.show()


if __name__ == "__main__":
    main()

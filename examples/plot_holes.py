"""
A map with holes
================

Of the heights around Mount Everest, 4,000 were measured, and none inside six circles. Between
measured heights, the nearest ones predict best; in a hole, a process of the whole map does. A
default fit weighs both, and its standard deviations tell where it guesses.
"""

import argparse
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skgp_sparse import SparseGPRegressor
from skgp_sparse.metrics import interval_coverage, mean_log_predictive_density

HERE = Path(__file__).parent if "__file__" in globals() else Path()  # a notebook has no file
KM_PER_CELL = 0.0925
HOLES = (4, 5, 1.6), (12, 4, 2.2), (19, 6, 1.4), (5, 14, 2.2), (11, 11, 1.4), (17, 16, 2.0)


def load():
    """Positions (rows, columns, 2) in kilometres east and north, and heights in metres."""
    height = np.load(HERE / "data" / "everest.npz")["height"].astype(float)
    north, east = KM_PER_CELL * np.indices(height.shape)
    return np.stack([east, north], axis=-1), height


def is_hidden(X):
    """Whether positions (n, 2) are inside a hole: east, north and radius."""
    return np.any([np.hypot(*(X - hole[:2]).T) < hole[2] for hole in HOLES], axis=0)


# %%
# Heights between measured ones and in the holes, by default and from the nearest rows alone.


def print_table(models, tables):
    """Errors, log densities, and coverage and width of intervals of 95 %."""
    for (name, model), (where, (X, y)) in product(models.items(), tables.items()):
        mean, std = model.predict(X, return_std=True)
        lower, upper = model.predict_interval(X, coverage=0.95)
        print(
            f"{name} ({model.posterior_}), {where}: RMSE {np.sqrt(np.mean((mean - y) ** 2)):.0f} m,"
            f" log density {mean_log_predictive_density(y, mean, std):.2f}, intervals of 95 % hold"
            f" {interval_coverage(y, lower, upper):.0%}, width {np.median(upper - lower):.0f} m"
        )


def draw(model, X):
    """The predicted map, and its standard deviations."""
    shape, extent = X.shape[:2], (0, X[..., 0].max(), 0, X[..., 1].max())
    parts = model.predict(X.reshape(-1, 2), return_std=True)
    titles = ("predicted height", "terrain"), ("standard deviation", "magma")
    figure, axes = plt.subplots(1, 2, figsize=(8, 4.6), layout="constrained", sharey=True)
    for axis, part, (title, colours) in zip(axes, parts, titles):
        image = axis.imshow(part.reshape(shape), origin="lower", extent=extent, cmap=colours)
        figure.colorbar(image, ax=axis, location="bottom", label="m", aspect=30)
        for east, north, radius in HOLES:
            axis.add_patch(plt.Circle((east, north), radius, fill=False, color="white", lw=1))
        axis.set(title=title, xlabel="km east")
    axes[0].set_ylabel("km north")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=4000, help="measured heights")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    X, height = load()
    rows, y = X.reshape(-1, 2), height.ravel()
    order, hidden = np.random.RandomState(0).permutation(len(y)), is_hidden(rows)
    seen, holes = order[~hidden[order]], order[hidden[order]][:2000]
    train, between = seen[: args.n], seen[args.n : args.n + 2000]
    models = {
        name: SparseGPRegressor(posterior=one, random_state=0).fit(rows[train], y[train])
        for name, one in {"default": "auto", "nearest rows": "neighbors"}.items()
    }
    tables = {"between": between, "in holes": holes}
    print_table(models, {name: (rows[some], y[some]) for name, some in tables.items()})
    figure = draw(models["default"], X)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

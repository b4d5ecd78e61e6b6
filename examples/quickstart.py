"""
Quickstart: a map of Mount Everest
==================================

The radar of the Space Shuttle measured a height every 90 metres. Here the model sees 10,000 of the
57,600 heights around Mount Everest, chosen at random, and none at all inside a circle. It answers
with a map, and with a second map that says how far the first one can be trusted.

An exact Gaussian process would need the inverse of a 10,000 x 10,000 matrix, again and again. The
sparse one tries predictions from the nearest heights and from 500 inducing points, on heights that
it holds out, keeps what predicts them best, and takes some seconds on two cores.

    python quickstart.py                      # this picture
    python quickstart.py --data table.npz     # your own table: arrays X (n, d) and y (n,)
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LightSource, ListedColormap
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.model_selection import train_test_split

from skgp_sparse import SparseGPRegressor
from skgp_sparse.metrics import mean_log_predictive_density

HERE = Path(__file__).parent if "__file__" in globals() else Path()  # a notebook has no file
EVEREST = HERE / "data" / "everest.npz"
KM_PER_CELL = 0.0925  # 3 arc seconds of latitude
CIRCLE = (15.0, 6.5, 2.2)  # centre (km east, km north) and radius without data

# %%
# The data
# --------
# Positions are in kilometres from the south-west corner. (A cell is somewhat narrower than it is
# high this far north; every direction has its own length scale, which takes care of it.)


def load_terrain(path=EVEREST):
    """Heights (rows, columns) in metres, and positions (rows * columns, 2) in kilometres."""
    height = np.load(path)["height"].astype(float)
    north, east = np.indices(height.shape)
    return height, KM_PER_CELL * np.column_stack([east.ravel(), north.ravel()])


def inside_circle(X):
    """Whether positions lie where nothing was measured."""
    return np.hypot(X[:, 0] - CIRCLE[0], X[:, 1] - CIRCLE[1]) < CIRCLE[2]


def choose_rows(X, n_train, n_test, random_state=0):
    """Indices of training rows outside the circle, and of test rows outside and inside it."""
    order = np.random.RandomState(random_state).permutation(len(X))
    hidden = inside_circle(X[order])
    seen = order[~hidden]
    return seen[:n_train], seen[n_train : n_train + n_test], order[hidden]


# %%
# The model
# ---------
# Rough terrain asks for a Matérn kernel, with a length scale per direction. There is no
# ``WhiteKernel``: a noise variance is learned all the same. ``posterior_`` says what predictions
# are given, and ``selection_`` what was tried.


def fit(X, y, kernel=None):
    """A fitted model; says how long it took, and what was tried on held-out rows."""
    start = perf_counter()
    model = SparseGPRegressor(kernel, random_state=0).fit(X, y)
    print(f"Fitted {len(X)} rows in {perf_counter() - start:.1f} s.")
    for tried in model.selection_:
        print(f"  {tried.name}: log density {tried.density:.2f} of held-out rows")
    print(f"Predictions: {model.posterior_}. Kernel: {model.kernel_}")
    return model


def report(model, X, y, where):
    """Print error and log density on held-out rows, and return mean and std there."""
    mean, std = model.predict(X, return_std=True)
    rmse = np.sqrt(np.mean((mean - y) ** 2))
    density = mean_log_predictive_density(y, mean, std)
    within = np.mean(np.abs(mean - y) < 2 * std)
    print(
        f"{len(y)} held-out rows {where}: RMSE {rmse:.4g}, mean log density {density:.3f}, "
        f"{within:.0%} within two standard deviations."
    )
    return mean, std


# %%
# The picture
# -----------


EARTH = ListedColormap(plt.get_cmap("gist_earth")(np.linspace(0.32, 1, 256)))  # no sea here


def draw_terrain(model, X, height, train):
    """Training heights, predicted heights, and their standard deviation, side by side."""
    mean, std = (a.reshape(height.shape) for a in model.predict(X, return_std=True))
    extent = (0, X[:, 0].max(), 0, X[:, 1].max())
    norm = plt.Normalize(height.min(), height.max())
    figure, axes = plt.subplots(1, 3, figsize=(12, 5.5), layout="constrained", sharey=True)
    axes[0].scatter(*X[train].T, c=height.ravel()[train], s=2, linewidths=0, norm=norm, cmap=EARTH)
    axes[0].set(title=f"{len(train):,} measured heights", facecolor="#e8e8e8", ylabel="km north")
    axes[1].imshow(shaded(mean, norm), origin="lower", extent=extent)
    axes[1].set_title("predicted terrain")
    mark_summit(axes[1], height)
    uncertainty = axes[2].imshow(std, origin="lower", extent=extent, cmap="magma")
    axes[2].set_title("its uncertainty")
    for axis in axes:
        axis.set(aspect="equal", xlim=extent[:2], ylim=extent[2:], xlabel="km east")
    bar = {"location": "bottom", "aspect": 40, "shrink": 0.8}
    heights = plt.cm.ScalarMappable(norm, EARTH)
    figure.colorbar(heights, ax=axes[:2], label="height in m", **(bar | {"shrink": 0.6}))
    figure.colorbar(uncertainty, ax=axes[2], label="standard deviation in m", **bar)
    return figure


def shaded(height, norm):
    """Colours of a height map lit from the north-west."""
    light = LightSource(azdeg=315, altdeg=40)
    return light.shade(height, EARTH, norm, blend_mode="soft", vert_exag=0.015)


def mark_summit(axis, height):
    """A triangle on the highest cell."""
    north, east = np.unravel_index(height.argmax(), height.shape)
    position = (KM_PER_CELL * east, KM_PER_CELL * north)
    axis.plot(*position, "^", color="black", markersize=5)
    axis.annotate("Mount Everest", position, (0, -13), textcoords="offset points", ha="center")


def draw_table(y, mean, std):
    """Predictions against held-out targets, with two standard deviations."""
    figure, axis = plt.subplots(figsize=(5.5, 5), layout="constrained")
    axis.errorbar(y, mean, 2 * std, fmt=".", color="#30638e", ecolor="#c9d6df", markersize=4)
    axis.axline((y.mean(), y.mean()), slope=1, color="black", linewidth=0.8)
    axis.set(xlabel="held-out target", ylabel="prediction ± 2 standard deviations")
    return figure


# %%
# Both ways through
# -----------------


def everest(n_train):
    """Fit and draw the terrain."""
    height, X = load_terrain()
    y = height.ravel()
    train, test, hidden = choose_rows(X, n_train, n_test=10_000)
    kernel = ConstantKernel() * Matern([3.0, 3.0], nu=1.5)
    model = fit(X[train], y[train], kernel)
    report(model, X[test], y[test], "between the training rows")
    report(model, X[hidden], y[hidden], "inside the circle without data")
    return draw_terrain(model, X, height, train)


def own_table(path):
    """Fit and draw a table with the default kernel."""
    with np.load(path) as table:
        X, y = table["X"], table["y"].ravel()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    model = fit(X, y)
    return draw_table(y_test, *report(model, X_test, y_test, "at random"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="npz file with X (n, d) and y (n,)")
    parser.add_argument("--n", type=int, default=10_000, help="training rows of the terrain")
    parser.add_argument("--output", type=Path, default="quickstart.png")
    arguments = parser.parse_args()
    figure = own_table(arguments.data) if arguments.data else everest(arguments.n)
    figure.savefig(arguments.output, dpi=110)
    print(f"Picture: {arguments.output}")


if __name__ == "__main__":
    main()

"""
A million heights, and what lies between them
=============================================

The radar of the Space Shuttle measured 1,442,401 heights in one degree of latitude and longitude
around Mount Everest, one every 90 metres. No number of inducing points holds so much detail. With
``posterior="neighbors"`` every prediction is given the heights that are nearest to it, and
hyperparameters come from a few thousand rows, each left out and predicted by its neighbours.

``posterior="auto"``, the default, would also try inducing points on rows that are held out, and
take what predicts them best.

    python terrain.py                 # all rows: half a minute on two cores
    python terrain.py --n 20000       # to try it
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LightSource, ListedColormap

from skgp_sparse import SparseGPRegressor
from skgp_sparse.metrics import mean_log_predictive_density

HERE = Path(__file__).parent if "__file__" in globals() else Path()  # a notebook has no file
TILE = HERE / "data" / "n27e086.npz"
KM_PER_DEGREE = 111.2, 98.4  # of latitude, and of longitude as far north as this
SIZE = 4.0  # km, of the window around the summit
EARTH = ListedColormap(plt.get_cmap("gist_earth")(np.linspace(0.32, 1, 256)))  # no sea here


def load(path=TILE):
    """Heights (rows, columns) in metres, and positions (rows * columns, 2) in km: north, east."""
    with np.load(path) as tile:
        height, step = tile["height"], float(tile["step"])
    cells = np.indices(height.shape).reshape(2, -1).T
    return height, cells * step * KM_PER_DEGREE


# %%
# Random cells are left out. Those that are left train the model.


def fit(X, y, n, n_test, random_state=0):
    """A model of n random rows, tried on others that it has not seen; says how long it took."""
    order = np.random.RandomState(random_state).permutation(len(X))
    test, train = order[:n_test], np.sort(order[n_test:][:n])
    start = perf_counter()
    model = SparseGPRegressor(posterior="neighbors", random_state=0).fit(X[train], y[train])
    print(f"{len(train):,} rows: {perf_counter() - start:.0f} s\nKernel: {model.kernel_}")
    start = perf_counter()
    mean, std = model.predict(X[test], return_std=True)
    inside = np.mean(np.abs(mean - y[test]) < 1.96 * std)
    print(f"{n_test:,} rows held out: {perf_counter() - start:.0f} s, "
          f"RMSE {np.sqrt(np.mean((mean - y[test]) ** 2)):.2f} m, "
          f"mean log density {mean_log_predictive_density(y[test], mean, std):.3f}, "
          f"{inside:.1%} in intervals of 95 %")  # fmt: skip
    return model


# %%
# Between the heights that were measured, the model knows less: the standard deviation has a pattern
# of dots 90 metres apart. The bright dots are cells that were left out.


def window(X, height):
    """The south-west corner (east, north) of a window of the tile with the summit in it."""
    north, east = np.minimum(X[height.argmax()] - SIZE / 2, X[-1] - SIZE)
    return east, north


def plot(model, X, height, pixels):
    """The tile, the heights of a window, and predictions between them with their uncertainty."""
    left, bottom = window(X, height)
    extent = (left, left + SIZE, bottom, bottom + SIZE)
    whole = (0, X[-1, 1], 0, X[-1, 0])
    centres = (np.arange(pixels) + 0.5) * SIZE / pixels
    north, east = np.meshgrid(bottom + centres, left + centres, indexing="ij")
    grid = np.column_stack([north.ravel(), east.ravel()])
    mean, std = (a.reshape(pixels, pixels) for a in model.predict(grid, return_std=True))
    norm = plt.Normalize(mean.min(), mean.max())
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.4), layout="constrained")
    axes[0].imshow(shaded(height, plt.Normalize(height.min(), height.max())), extent=whole)
    axes[0].add_patch(plt.Rectangle((left, bottom), SIZE, SIZE, fill=False, color="red"))
    axes[1].imshow(shaded(height, norm), extent=whole)
    axes[2].imshow(shaded(mean, norm), extent=extent)
    uncertainty = axes[3].imshow(std, origin="lower", extent=extent, cmap="magma")
    figure.colorbar(uncertainty, ax=axes[3], label="standard deviation in m", shrink=0.8)
    titles = f"{height.size:,} heights", "around Mount Everest", "predicted", "its uncertainty"
    for axis, title in zip(axes, titles):
        axis.set(title=title, xlabel="km east")
    for axis in axes[1:]:
        axis.set(xlim=extent[:2], ylim=extent[2:])
    axes[0].set_ylabel("km north")
    return figure


def shaded(height, norm):
    """Colours of a height map lit from the north-west, its first row at the top."""
    light = LightSource(azdeg=315, altdeg=40)
    return light.shade(height[::-1], EARTH, norm, blend_mode="soft", vert_exag=0.015)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, help="training rows; by default all but those held out")
    parser.add_argument("--n-test", type=int, default=10_000)
    parser.add_argument("--pixels", type=int, default=160, help="of a side of the prediction")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    height, X = load()
    model = fit(X, height.ravel().astype(float), args.n, args.n_test)
    figure = plot(model, X, height, args.pixels)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

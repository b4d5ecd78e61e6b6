"""
Places, hours and kinds in a frame
==================================

A table of measurements with four columns: longitude and latitude, the hour of the day, and one of
eight kinds of instruments. The kernel is a sum of kernels on chosen columns: `Sphere` for places,
so that the map has no edge at the date line, a periodic kernel for hours, and `Categorical` for
kinds. A kind that was never seen has a wide interval.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared, Matern

from skgp_sparse import SparseGPRegressor
from skgp_sparse.kernels import Categorical, Columns, Sphere

OFFSETS = np.array([-1.0, -1.1, -0.9, 0.0, 0.1, -0.1, 1.4, 1.5])  # of the kinds: three makes
HELD = {"longitude": 170.0, "latitude": 20.0, "hour": 12.0, "kind": 3}
BLUE, ORANGE = "#30638e", "#d1495b"


def truth(table):
    """The mean of the measurements."""
    longitude, latitude = np.radians(table["longitude"]), np.radians(table["latitude"])
    place = np.cos(latitude) * np.cos(2 * longitude - 0.5) + np.sin(latitude)
    day = 0.8 * np.cos((table["hour"] - 15) * np.pi / 12)
    return place + day + OFFSETS[table["kind"].astype(int)]


def measurements(n):
    """A data frame of n rows, and the targets."""
    rng = np.random.RandomState(0)
    table = pd.DataFrame(
        {
            "longitude": rng.uniform(-180, 180, n),
            "latitude": np.degrees(np.arcsin(rng.uniform(-1, 1, n))),
            "hour": rng.uniform(0, 24, n),
            "kind": rng.randint(0, len(OFFSETS), n),
        }
    )
    return table, truth(table) + 0.2 * rng.normal(size=n)


def kernel():
    """A sum of kernels on chosen columns."""
    place = Columns(Sphere(Matern(nu=2.5)), ["longitude", "latitude"])
    day = Columns(ExpSineSquared(periodicity=24, periodicity_bounds="fixed"), "hour")
    kind = Columns(Categorical(correlation=0.01, correlation_bounds="fixed"), "kind")
    return ConstantKernel() * place + ConstantKernel() * day + ConstantKernel() * kind


def along(**columns):
    """A data frame in which the columns that are not given are held."""
    return pd.DataFrame({name: columns.get(name, held) for name, held in HELD.items()})


def draw_map(model, panel, figure):
    longitude, latitude = np.meshgrid(np.linspace(0, 360, 91), np.linspace(-80, 80, 41))
    places = along(longitude=longitude.ravel(), latitude=latitude.ravel())
    mean = model.predict(places).reshape(longitude.shape)
    heights = panel.contourf(longitude, latitude, mean, 16, cmap="viridis")
    panel.axvline(180, color="w", lw=1, ls="--")
    panel.set(xlabel="longitude; dashed: the date line", ylabel="latitude", title="at noon")
    figure.colorbar(heights, ax=panel)


def draw_hours(model, panel):
    hours = along(hour=np.linspace(0, 24, 100))
    mean, std = model.predict(hours, return_std=True)
    panel.fill_between(hours["hour"], mean - 2 * std, mean + 2 * std, color=BLUE, alpha=0.25)
    panel.plot(hours["hour"], mean, color=BLUE, label="mean ± 2 std")
    panel.plot(hours["hour"], truth(hours), "k--", lw=1, label="truth")
    panel.set(xlabel="hour", title="one place, one kind")
    panel.legend(fontsize=8)


def draw_kinds(model, panel):
    kinds = along(kind=np.arange(len(OFFSETS) + 1))
    mean, std = model.predict(kinds, return_std=True)
    panel.errorbar(kinds["kind"], mean, 2 * std, fmt="o", color=BLUE, capsize=3)
    panel.plot(kinds["kind"][:-1], truth(kinds[:-1]), "_", color=ORANGE, ms=14, label="truth")
    panel.set(xlabel="kind; the last one was never seen", title="one place, at noon")
    panel.legend(fontsize=8)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=400, help="rows")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    model = SparseGPRegressor(kernel(), random_state=0).fit(*measurements(args.n))
    print(model.kernel_)
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    draw_map(model, panels[0], figure)
    draw_hours(model, panels[1])
    draw_kinds(model, panels[2])
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

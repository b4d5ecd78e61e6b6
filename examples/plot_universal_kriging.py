"""
Ordinary and universal kriging
==============================

Temperatures fall with height, and differ from valley to valley. The process of the place alone,
which is ordinary kriging, explains the height by what is near in space. With the height as a linear
mean, which is universal kriging, predictions follow the trend where there are no stations, and
their standard deviations include its uncertainty.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgp_sparse import SparseGPRegressor
from skgp_sparse.kernels import Columns


def height(place):
    """Height in km along a line of 100 km."""
    return 1.0 + 0.8 * np.sin(place / 9) + 0.4 * np.sin(place / 3.1)


def temperatures(place, rng):
    """Temperatures at some places."""
    valley = 1.5 * np.sin(place / 15 + 1)
    return 15 - 6.5 * height(place) + valley + 0.3 * rng.normal(size=len(place))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", help="file of the picture, instead of a window")
    output = parser.parse_args().output
    rng = np.random.RandomState(0)
    stations = np.sort(np.append(rng.uniform(0, 40, 15), rng.uniform(70, 100, 10)))
    measured, line = temperatures(stations, rng), np.linspace(0, 100, 400)
    truth = temperatures(line, rng)
    kernel = ConstantKernel() * Columns(Matern(10.0, nu=1.5), [0])
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    for axis, mean, title in zip(axes, (None, "linear"), ("ordinary", "universal")):
        model = SparseGPRegressor(kernel, mean=mean, random_state=0)
        model.fit(np.column_stack([stations, height(stations)]), measured)
        predicted, std = model.predict(np.column_stack([line, height(line)]), return_std=True)
        error = np.sqrt(np.mean((predicted - truth) ** 2))
        print(f"{title} kriging: root mean squared error {error:.2f} degrees")
        axis.plot(line, truth, ".", ms=2, color="#888888", label="other days")
        axis.plot(stations, measured, "o", ms=4, color="#d1495b", label="stations")
        axis.plot(line, predicted, color="#30638e", label="mean")
        low, high = predicted - 2 * std, predicted + 2 * std
        axis.fill_between(line, low, high, color="#30638e", alpha=0.2)
        axis.set(title=f"{title} kriging: error {error:.2f} °C", xlabel="km")
    axes[0].set(ylabel="°C")
    axes[0].legend(fontsize=7)
    figure.savefig(output, dpi=110) if output else plt.show()


if __name__ == "__main__":
    main()

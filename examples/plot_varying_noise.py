"""
Noise that varies, and intervals that hold
==========================================

The noise grows from left to right. A constant noise is too large on the left and too small on the
right. By default, a fit learns how the noise varies, where rows that are left out gain by it. The
coverage of both is right on average, but only one of them is right everywhere.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from skgp_sparse import SparseGPRegressor
from skgp_sparse.displays import CoverageDisplay, PredictionBandDisplay
from skgp_sparse.metrics import interval_coverage, mean_log_predictive_density

NOISES = {"constant": "constant noise", "auto": "noise that varies"}


def table(n, seed):
    """Inputs (n, 1) and targets (n,), whose noise grows with the input."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(0.0, 10.0, n)
    return x[:, None], np.sin(x) + (0.05 + 0.05 * x) * rng.normal(size=n)


# %%
# The log density of new rows says which noise is right. Intervals of either model cover new rows as
# often as they should, but on the right side only one of them does.


def print_table(models, X, y):
    """Log densities, and how many of the rows are in intervals of 90 %."""
    right = X[:, 0] > 7.0
    for noise, model in models.items():
        density = mean_log_predictive_density(y, *model.predict(X, return_std=True))
        lower, upper = model.predict_interval(X, coverage=0.9)
        shares = [
            interval_coverage(y[some], lower[some], upper[some]) for some in (right, right | ~right)
        ]
        text = "log density {:.3f}, in intervals of 90 %: {:.0%} on the right, {:.0%} in all"
        print(f"{NOISES[noise]:<18}", text.format(density, *shares))


# %%
# Bands of 95 % of either fit, and how many new rows of the right side are in central intervals.


def draw(models, X, y, X_new, y_new):
    """A band for each model, and the coverage of both."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    right = X_new[:, 0] > 7.0
    for ax, (noise, model) in zip(axes, models.items()):
        PredictionBandDisplay.from_estimator(model, X, y, ax=ax)
        ax.set(title=NOISES[noise], ylim=(-3.0, 3.0))
        known = {"name": NOISES[noise], "ax": axes[2]}
        CoverageDisplay.from_estimator(model, X_new[right], y_new[right], **known)
    axes[2].set_title("coverage on the right")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=600, help="rows")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    (X, y), new = table(args.n, 0), table(4000, 1)
    models = {noise: SparseGPRegressor(noise=noise, random_state=0).fit(X, y) for noise in NOISES}
    print_table(models, *new)
    figure = draw(models, X, y, *new)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

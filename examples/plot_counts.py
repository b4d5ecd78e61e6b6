"""
Counts with exposure, and their quantiles
=========================================

Visitors are counted at a gate, each time for another number of minutes. The logarithm of the
minutes is the ``offset``, so that the model learns a rate per minute. The rate goes up and down
with the hour, and the counts vary more than those of independent visitors, because these come in
groups: a negative binomial likelihood finds that out. ``predict_quantiles`` returns whole numbers.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from skgp_sparse import SparseGPRegressor

BLUE, ORANGE, GREY = "#30638e", "#d1495b", "0.6"


def visitors(n, seed=0):
    """Hours of the day, minutes of counting, and counts (n,) of visitors in groups."""
    rng = np.random.RandomState(seed)
    hour = np.sort(rng.uniform(8.0, 20.0, n))
    minutes = rng.choice([5.0, 10.0, 30.0], n)
    mean = minutes * rate(hour)
    return hour, minutes, rng.negative_binomial(4, 4 / (4 + mean))


def rate(hour):
    """Visitors per minute."""
    return 0.5 + 1.5 * np.exp(-((hour - 12.0) ** 2) / 2.0) + np.exp(-((hour - 17.0) ** 2) / 0.8)


# %%
# One model for each likelihood. Their log predictive densities of other counts can be compared.


def fit_all(n):
    """Models by likelihood."""
    hour, minutes, count = visitors(n)
    return {
        likelihood: SparseGPRegressor(likelihood=likelihood, n_inducing=30, random_state=0).fit(
            hour[:, None], count, offset=np.log(minutes)
        )
        for likelihood in ("poisson", "negative_binomial")
    }


def print_table(models):
    """Held-out log densities, and how many counts are in the intervals of 90 %."""
    hour, minutes, count = visitors(2000, seed=1)
    X, offset = hour[:, None], np.log(minutes)
    for name, model in models.items():
        density = model.log_predictive_density(X, count, offset=offset).mean()
        low, high = model.predict_quantiles(X, [0.05, 0.95], offset=offset).T
        inside = np.mean((low <= count) & (count <= high))
        print(f"{name:<18} log density {density:.3f}   inside {inside:.1%}   {model.likelihood_}")


# %%
# The left panel shows rates per minute and what is known of them, the right one the quantiles of
# counts in ten minutes. Those of the Poisson likelihood are too narrow.


def plot(models, n):
    """Two panels: rates, and quantiles of counts."""
    hour, minutes, count = visitors(n)
    grid = np.linspace(8.0, 20.0, 400)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.scatter(hour, count / minutes, s=minutes, color=GREY, alpha=0.5, label="counts / minutes")
    left.plot(grid, rate(grid), "k--", label="true rate")
    for (name, model), colour in zip(models.items(), (ORANGE, BLUE)):
        mean, std = model.predict(grid[:, None], return_std=True, latent=True)
        left.plot(grid, np.exp(mean), color=colour, label=name)
        left.fill_between(grid, *np.exp(mean + std * [[-2], [2]]), color=colour, alpha=0.2)
        low, high = model.predict_quantiles(grid[:, None], [0.05, 0.95], offset=np.log(10.0)).T
        right.fill_between(grid, low, high, color=colour, alpha=0.35, step="mid", label=name)
    short = minutes == 10.0
    right.plot(hour[short], count[short], "k.", label="counts")
    left.set(xlabel="hour", ylabel="visitors per minute")
    right.set(xlabel="hour", ylabel="visitors in ten minutes", title="90 % of the counts")
    left.legend(fontsize=8)
    right.legend(fontsize=8)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=400, help="rows")
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    models = fit_all(args.n)
    print_table(models)
    figure = plot(models, args.n)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

"""
A stream that changes
=====================

Rows arrive in chunks, and in the middle of the stream the function changes. ``partial_fit``
forgets nothing: old rows mislead for as long as they are many. With weights that double from chunk
to chunk, a chunk counts half as much as the next one, and old rows are soon of no account.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from skgp_sparse import SparseGPRegressor

COLOURS = {"weights that grow": "#30638e", "equal weights": "#d1495b"}


def chunk(index, chunks, n, seed=0):
    """Inputs (n, 1) and targets (n,) of a chunk."""
    rng = np.random.RandomState(seed + index)
    x = rng.uniform(-4.0, 4.0, n)
    return x[:, None], truth(x, index, chunks) + 0.2 * rng.normal(size=n)


def truth(x, index, chunks):
    """The function without noise: another one in the second half of the stream."""
    return np.sin(2.0 * x) + 0.3 * x if index < chunks // 2 else np.cos(x) - 0.3 * x


# %%
# Each chunk is predicted before it is learned.


def follow(n, chunks):
    """Models by name, and the mean log densities of the chunks."""
    models = {name: SparseGPRegressor(n_inducing=25, random_state=0) for name in COLOURS}
    growth = dict(zip(COLOURS, (2.0, 1.0)))
    densities = {name: [] for name in models}
    for index in range(chunks):
        X, y = chunk(index, chunks, n)
        for name, model in models.items():
            if index:
                densities[name].append(np.mean(model.log_predictive_density(X, y)))
            model.partial_fit(X, y, sample_weight=np.full(n, growth[name] ** index))
    return models, densities


def plot(models, densities, n, chunks):
    """Densities of the chunks, and what the models know at the end."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    grid = np.linspace(-4.0, 4.0, 300)
    X, y = chunk(chunks - 1, chunks, n)
    axes[1].plot(X, y, "k.", ms=3, label="last chunk")
    for name, model in models.items():
        axes[0].plot(range(1, chunks), densities[name], "o-", color=COLOURS[name], label=name)
        mean, std = model.predict(grid[:, None], return_std=True)
        axes[1].plot(grid, mean, color=COLOURS[name], label=name)
        limits = mean - 2.0 * std, mean + 2.0 * std
        axes[1].fill_between(grid, *limits, color=COLOURS[name], alpha=0.2)
    axes[0].set(title="before it is learned", xlabel="chunk", ylabel="mean log density")
    axes[0].set_yscale("symlog")
    axes[1].set(title="after the last chunk", xlabel="x", ylabel="y")
    axes[0].legend(fontsize=8, loc="lower left")
    axes[1].legend(fontsize=8, loc="lower left")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="rows of a chunk")
    parser.add_argument("--chunks", type=int, default=12)
    parser.add_argument("--output", help="file of the picture, instead of a window")
    args = parser.parse_args()
    models, densities = follow(args.n, args.chunks)
    for name, found in densities.items():
        print(f"{name:<18}", " ".join(f"{one:6.2f}" for one in found))
    figure = plot(models, densities, args.n, args.chunks)
    figure.savefig(args.output, dpi=110) if args.output else plt.show()


if __name__ == "__main__":
    main()

r"""Gradients of predictions with respect to the query.

With weights u of the raw features and ``M = Tᵀ (TBᵀ TB - I) T`` (without the first term where all
rows are features), a prediction at x is

    mean = k(x, Z) u,     variance = k(x, x) + k(x, Z) M k(Z, x),

so that the gradients are pullbacks of ``k(Z, x)`` with the cotangents ``u`` and ``2 M k(Z, x)``.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.process import float64
from skgp_sparse._engine.table import row_blocks
from skgp_sparse._ground.parallel import ordered_map


class Slopes(NamedTuple):
    """Predictions and their gradients."""

    mean: np.ndarray  # (n, p)
    variance: np.ndarray  # (n,)
    mean_slope: np.ndarray  # (n, p, d)
    variance_slope: np.ndarray  # (n, d)


def of_points(posterior, X, latent, n_jobs=1):
    """`Slopes` of a `Posterior` whose features are a kernel at points.

    `latent`: variances do not include the noise of the kernel.
    """
    features, TB = posterior.features, posterior.TB

    def of_block(block):
        block = float64(X[block])

        def slope(G):
            return kernels.linearize(posterior.kernel, features.Z, block)[1](G, True)[1]

        K = kernels.evaluate(posterior.kernel, features.Z, block)
        V = features.T @ K
        rest = V if TB is None else V - TB.T @ (TB @ V)
        signal, noise, pull_diagonal = kernels.diagonal(posterior.kernel, block)
        own = np.zeros(len(block)) if latent else np.ones(len(block))
        variance = np.maximum(signal - np.einsum("mn,mn->n", V, rest), 0.0) + own * noise
        variance_slope = pull_diagonal(np.ones(len(block)), own, inputs=True)[1]
        variance_slope = variance_slope + slope(-2.0 * (features.T.T @ rest))
        each = [slope(np.repeat(u[:, None], len(block), axis=1)) for u in posterior.u.T]
        mean = K.T @ posterior.u
        return Slopes(mean, variance, np.stack(each, axis=1), variance_slope)

    blocks = row_blocks(len(X), posterior.width)
    return Slopes(*map(np.concatenate, zip(*ordered_map(of_block, blocks, n_jobs))))


def of_pool(posterior, X, latent, n_jobs=1):
    """`Slopes` of a `PooledProcess`; see `of_points`."""
    each = [of_points(one, X, latent, n_jobs) for one in posterior.processes]
    means, variances, mean_slopes, variance_slopes = zip(*each)
    mean, mean_slope = posterior.average(means), posterior.average(mean_slopes)
    apart = [one - mean for one in means]
    squares = [one[:, 0] ** 2 for one in apart]
    turns = [2.0 * one * (slope - mean_slope)[:, 0] for one, slope in zip(apart, mean_slopes)]
    variance = posterior.average(variances) + posterior.average(squares)
    variance_slope = posterior.average(variance_slopes) + posterior.average(turns)
    return Slopes(mean, variance, mean_slope, variance_slope)


def in_metric(slopes, metric):
    """`Slopes` with respect to x, where a process sees ``W x``."""
    chained = (slope @ metric for slope in slopes[2:])
    return Slopes(*slopes[:2], *chained)

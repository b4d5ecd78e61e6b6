r"""Gradients of predictions with respect to the query.

With weights u of the raw features K and ``V = T K``, a prediction at x is

    mean = Kᵀ u,     variance = rest + ‖TB V‖²,     rest = k(x, x) - ‖V‖², or 0,

the latter without the term of TB where all rows are features. Gradients are pullbacks through K,
with the cotangents ``u`` and ``2 Tᵀ (TBᵀ TB V - V)``, or the first term of the latter.

Given neighbours, they are pullbacks through the kernel matrix of a query and the rows that are near
to it (`kriging`), which are held: predictions jump where other rows become the nearest ones.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine import kriging
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._engine.process import float64
from skgp_sparse._engine.table import row_blocks
from skgp_sparse._ground.linalg import row_dots
from skgp_sparse._ground.parallel import ordered_map, slices


class Slopes(NamedTuple):
    """Predictions and their gradients."""

    mean: np.ndarray  # (n, p)
    variance: np.ndarray  # (n,)
    mean_slope: np.ndarray  # (n, p, d)
    variance_slope: np.ndarray  # (n, d)


def slopes_of(process):
    """``(X, latent, n_jobs) -> Slopes`` of a process, None where nothing knows them.

    `latent`: variances do not include the noise of the kernel.
    """
    for kind, of in ((Posterior, of_features), (NeighborsPosterior, of_neighbors)):
        if isinstance(process, kind):
            return partial(of, process)
    return None


def of_features(posterior, X, latent, n_jobs=1):
    """`Slopes` of a `Posterior`."""
    features, TB = posterior.features, posterior.TB

    def of_block(block):
        block = float64(X[block])
        K = features.raw(block)
        V = features.whiten(K)
        left = np.zeros_like(V) if features.complete else V  # by which the rest is smaller
        known = np.zeros_like(V) if TB is None else (V @ TB.T) @ TB
        signal, noise, pull_diagonal = kernels.diagonal(posterior.kernel, block)
        own = np.full(len(block), 0.0 if latent else 1.0)
        of_signal = np.full(len(block), 0.0 if features.complete else 1.0)
        variance = of_signal * signal + row_dots(V, known - left)
        variance_slope = pull_diagonal(of_signal, own, inputs=True)[1]
        K_bar = features.weights((2.0 * (known - left)).T).T
        variance_slope = variance_slope + features.slopes(block, K_bar)
        each = [features.slopes(block, np.tile(u, (len(block), 1))) for u in posterior.u.T]
        variance = np.maximum(variance, 0.0) + own * noise
        return Slopes(K @ posterior.u, variance, np.stack(each, axis=1), variance_slope)

    return _joined(of_block, row_blocks(len(X), posterior.width), n_jobs)


def of_neighbors(posterior, X, latent, n_jobs=1):
    """`Slopes` of a `NeighborsPosterior`, the neighbours of a query held."""
    X = float64(X)
    rows, near = posterior.around(X, n_jobs)
    noise, metric = posterior.noise_of(rows), posterior.metric

    def of_block(some):
        P = np.concatenate([rows.X[near[some]], X[some, None]], axis=1, dtype=float)
        if metric is not None:
            P = (P - P[:, -1:]) @ metric.T
        given = posterior.prior, P, rows.y[near[some]], noise[near[some]]
        local, n_targets = kriging.krige(*given), rows.y.shape[1]

        def slope(g_mean, g_variance):
            bars = np.tile(g_mean, (len(P), 1)), np.full(len(P), g_variance)
            found = kriging.linearise(*given)[1](*bars, True)[1][:, -1]
            return found if metric is None else found @ metric

        own = np.full(len(P), 0.0 if latent else 1.0)
        _, learned, pull_diagonal = kernels.diagonal(posterior.kernel, X[some])
        variance_slope = pull_diagonal(np.zeros(len(P)), own, inputs=True)[1]
        variance_slope = variance_slope + posterior.factor * slope(np.zeros(n_targets), 1.0)
        variance = posterior.factor * np.maximum(local.variance, 0.0) + own * learned
        each = [slope(target, 0.0) for target in np.eye(n_targets)]
        return Slopes(local.mean, variance, np.stack(each, axis=1), variance_slope)

    return _joined(of_block, slices(len(X), kriging.block_size(near.shape[1])), n_jobs)


def in_metric(slopes, metric):
    """`Slopes` with respect to x, where a process sees ``W x``."""
    chained = (slope @ metric for slope in slopes[2:])
    return Slopes(*slopes[:2], *chained)


def _joined(of_block, blocks, n_jobs):
    return Slopes(*map(np.concatenate, zip(*ordered_map(of_block, blocks, n_jobs))))

"""How much each column matters: Sobol indices of the posterior mean.

With columns that are independent, and distributed as those of the training rows, the first-order
index of column j is the share of the variance that it explains alone, and the total index the share
that is lost without it:

    S_j = Var E[f | x_j] / Var f,        T_j = E Var[f | all others] / Var f.

Of products of kernels of one column, both are sums over pairs of inducing points. Otherwise they
are estimated by evaluations of f at points of a Sobol sequence (Saltelli et al. 2010; Jansen 1999).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from skgp_sparse import kernels
from skgp_sparse._engine.inducing_basis import InducingFeatures
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.posterior import Posterior
from skgp_sparse._ground.parallel import resolve_n_jobs, single_threaded_blas

_ROWS, _VALUES = 20_000, 512  # rows that tell how columns are distributed, by so many quantiles
_NEIGHBORS = 30  # of a prediction, where there are more: quick, and as good for shares
_SEQUENCES, _POINTS = 8, 1024  # of an estimate, and of each sequence
_TOGETHER = 1 << 14  # points at which the mean is evaluated together


class SobolIndices(NamedTuple):
    """Indices of every column, and standard errors."""

    first: np.ndarray  # (d,)
    total: np.ndarray  # (d,)
    error: np.ndarray  # (2, d) of both


def quantiles_of_columns(tables):
    """Quantiles (k, d) of every column of the inputs of tables; None where these are not known.

    They are values of rows, so that codes and missing values are among them as often as in rows.
    """
    if any(rows is None or not rows.in_memory for rows in tables):
        return None
    size = max(_ROWS // len(tables), 1)
    inputs = [rows.inputs() for rows in tables]
    random_state = np.random.RandomState(0)
    X = np.concatenate([one[random_state.permutation(len(one))[:size]] for one in inputs])
    places = ((np.arange(_VALUES) + 0.5) / _VALUES * len(X)).astype(int)
    return np.sort(X, axis=0)[places].astype(float)


def sobol_indices(processes, quantiles, n_jobs):
    """`SobolIndices` of the means of processes, weighted by their variances.

    Parameters
    ----------
    processes : list of Process
    quantiles : ndarray of shape (k, d)
    n_jobs : int or None
    """
    d = quantiles.shape[1]
    with single_threaded_blas(), np.errstate(all="ignore"):
        factors = [_factors(process, d) for process in processes]
        if all(one is not None for one in factors):
            parts = [_in_closed_form(*pair, quantiles) for pair in zip(processes, factors)]
            first, total, variance = np.sum(parts, axis=0)
            return _indices(first[None], total[None], variance[None], error=0.0)
        threads, quick = resolve_n_jobs(n_jobs), [_quick(process) for process in processes]

        def mean(X):
            blocks = np.array_split(X, -(-len(X) // _TOGETHER))
            parts = [np.concatenate([p.mean(b, threads) for b in blocks]) for p in quick]
            return np.column_stack(parts)

        found = [_sampled(mean, quantiles, seed) for seed in range(_SEQUENCES)]
    return _indices(*(np.array(one) for one in zip(*found)))


def _indices(first, total, variance, error=None):
    """`SobolIndices` from variances (r, d), (r, d) and (r, d) of r sequences."""
    whole = variance.mean(axis=0)
    if not np.all(whole > 0):
        nothing = np.zeros(first.shape[1])
        return SobolIndices(nothing, nothing, np.zeros((2, len(nothing))))
    both = np.stack([first, total]) / whole
    mean = np.maximum(both.mean(axis=1), 0.0)
    if error is None:  # of ratios: what a sequence says beyond its own variance
        apart = np.stack([first, total]) - mean[:, None] * variance
        error = np.std(apart / whole, axis=1, ddof=1) / np.sqrt(len(first))
    return SobolIndices(*mean, np.broadcast_to(error, mean.shape))


def _quick(process):
    """The process with few neighbours, if it has some."""
    if isinstance(process, NeighborsPosterior) and process.k > _NEIGHBORS:
        return replace(process, k=_NEIGHBORS)
    return process


def _factors(process, d):
    """Kernels of every column, where the mean is a sum of their products; None otherwise."""
    is_of_points = type(process) is Posterior and isinstance(process.features, InducingFeatures)
    if not is_of_points or process.features.Z.shape[1] != d:
        return None
    factors = kernels.column_factors(process.kernel, d)
    return None if np.isnan(process.features.Z).any() else factors


def _in_closed_form(process, factors, values):
    """Variances (d,) explained by each column, lost without it, and of all: summed over targets."""
    Z, u = process.features.Z, process.u
    means, products = [], []
    for j, parts in enumerate(factors):
        K = np.ones((len(values), len(Z)))
        for part in parts:
            K *= kernels.evaluate(part, values[:, [j]].copy(), Z[:, [j]].copy())
        means.append(K.mean(axis=0))
        products.append(K.T @ K / len(values))
    everything = np.prod(means, axis=0)
    square = np.sum((everything @ u) ** 2)

    def explained(chosen):
        weight = np.prod([means[k] for k in range(len(means)) if k not in chosen], axis=0)
        matrix = np.prod([products[k] for k in chosen], axis=0) if chosen else np.ones(2 * [len(Z)])
        weighted = u * np.reshape(weight, (-1, 1))
        return np.sum(weighted * (matrix @ weighted)) - square

    columns = range(len(means))
    variance = explained([*columns])
    first = [explained([j]) for j in columns]
    total = [variance - explained([k for k in columns if k != j]) for j in columns]
    return np.array([first, total, np.full(len(means), variance)])


def _sampled(mean, columns, seed):
    """The same from one Sobol sequence; `columns` (k, d) are sorted values."""
    d = columns.shape[1]
    points = qmc.Sobol(2 * d, seed=seed).random(_POINTS)
    places = np.minimum((points * len(columns)).astype(int), len(columns) - 1)
    A, B = (columns[half, np.arange(d)] for half in (places[:, :d], places[:, d:]))
    f_A, f_B = mean(A), mean(B)
    centre = 0.5 * (f_A.mean(axis=0) + f_B.mean(axis=0))
    variance = 0.5 * np.sum((f_A - centre) ** 2 + (f_B - centre) ** 2) / _POINTS
    first, total = np.empty(d), np.empty(d)
    for j in range(d):
        mixed = A.copy()
        mixed[:, j] = B[:, j]
        f = mean(mixed)
        first[j] = np.sum((f_B - centre) * (f - f_A)) / _POINTS
        total[j] = 0.5 * np.sum((f - f_A) ** 2) / _POINTS
    return first, total, np.full(d, variance)

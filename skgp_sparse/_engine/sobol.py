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
from skgp_sparse._engine.neighbors_posterior import NeighborsPosterior
from skgp_sparse._engine.posterior import is_of_points
from skgp_sparse._ground.parallel import resolve_n_jobs, single_threaded_blas

_ROWS, _VALUES = 20_000, 512  # rows that tell how columns are distributed, by so many quantiles
_NEIGHBORS = 30  # of a prediction, where there are more: quick, and as good for shares
_SEQUENCES, _POINTS = 8, 1024  # of an estimate, and of each sequence
_LARGE = 1 << 28  # products of numbers, beyond which samples are quicker
_ROUNDING = 1e-4  # of the variance, up to which sums of large terms are exact enough
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
    parts = [_some_of(rows, max(_ROWS // len(tables), 1)) for rows in tables]
    X, weight = map(np.concatenate, zip(*parts))
    order, levels = np.argsort(X, axis=0), (np.arange(_VALUES) + 0.5) / _VALUES
    quantiles = np.empty((_VALUES, X.shape[1]))
    for j, places in enumerate(order.T):
        total = np.cumsum(weight[places])
        quantiles[:, j] = X[places[np.searchsorted(total, levels * total[-1])], j]
    return quantiles


def _some_of(rows, size):
    """Inputs (k, d) as users know them, and weights (k,)."""
    X, weight = rows.inputs(), np.ones(len(rows)) if rows.weight is None else rows.weight
    if rows.places is not None:  # equal rows have a weight together
        copies = np.bincount(rows.places + 1, minlength=len(rows) + 1)[1:]
        weight = np.where(rows.places < 0, 0.0, (weight / copies)[rows.places])
    some = np.random.RandomState(0).permutation(len(X))[:size]
    return np.asarray(X[some], float), weight[some]


def sobol_indices(processes, quantiles, n_jobs):
    """`SobolIndices` of the means of processes, weighted by their variances.

    Parameters
    ----------
    processes : list of Process
    quantiles : ndarray of shape (k, d)
    n_jobs : int or None
    """
    with single_threaded_blas(), np.errstate(all="ignore"):
        closed = [_in_closed_form(process, quantiles) for process in processes]
        if all(one is not None for one in closed):
            first, total, variance = np.sum(closed, axis=0)
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
    if not np.isfinite(whole).all():
        raise ValueError(
            "The variance of the mean over the rows is not finite, so that there are no Sobol "
            "indices. The values of X are too large for the kernel. Rescale X."
        )
    if not whole.any():
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


def _in_closed_form(process, values):
    """Variances (d,) explained by each column, lost without it, and of all: summed over targets.

    None where the mean is no sum of products, or a sum of large terms that cancel.
    """
    if not is_of_points(process):
        return None
    factors = kernels.column_factors(process.kernel, values.shape[1])
    if factors is None or np.isnan(process.features.Z).any():
        return None
    Z, u, means, products = process.features.Z, process.u, [], []
    if Z.shape[1] != len(factors) or (len(factors) * len(Z)) ** 2 > _LARGE:
        return None
    for j, parts in enumerate(factors):
        K = np.ones((len(values), len(Z)))
        for part in parts:
            K *= kernels.evaluate(part, values[:, [j]].copy(), Z[:, [j]].copy())
        means.append(K.mean(axis=0))
        products.append(K.T @ K / len(values))
    square = np.sum((np.prod(means, axis=0) @ u) ** 2)

    def explained(chosen):
        if not chosen:
            return 0.0
        others = [mean for k, mean in enumerate(means) if k not in chosen]
        weighted = u * np.reshape(np.prod(others, axis=0), (-1, 1))
        matrix = np.prod([products[k] for k in chosen], axis=0)
        return np.sum(weighted * (matrix @ weighted)) - square

    columns = range(len(means))
    variance = explained([*columns])
    terms = np.sum(np.abs(u) * (np.abs(np.prod(products, axis=0)) @ np.abs(u)))
    if not np.finfo(float).eps * terms < _ROUNDING * variance:
        return None if terms > 0 else np.zeros((3, len(means)))
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

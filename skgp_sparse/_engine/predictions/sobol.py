"""How much each column matters: Sobol indices of the posterior mean.

With columns that are independent, and distributed as those of the training rows, the first-order
index of column j is the share of the variance that it explains alone, and the total index the share
that is lost without it:

    S_j = Var E[f | x_j] / Var f,        T_j = E Var[f | all others] / Var f.

Of products of kernels of one column, both are sums over pairs of inducing points. Otherwise they
are estimated by evaluations of f at points of a Sobol sequence (Saltelli et al. 2010; Jansen 1999).
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Product

from skgp_sparse import kernels
from skgp_sparse._ground.parallel import ordered_map, resolve_n_jobs, single_threaded_blas

_ROWS, _VALUES = 20_000, 512  # rows that tell how columns are distributed, by so many quantiles
_NEIGHBORS = 30  # of a prediction, where there are more: quick, and as good for shares
_SEQUENCES, _POINTS = 8, 1024  # of an estimate, and of each sequence
_MOST_PRODUCTS = 1 << 28  # products of numbers, beyond which samples are quicker
_CANCELLATION_TOLERANCE = 1e-4  # of the variance, up to which sums of large terms are exact enough
_ENTRIES, _FEWEST_TOGETHER = 1 << 17, 16  # of matrices that stay in the cache, and their rows


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
    X, weight = rows.inputs(), rows.row_weights()
    if rows.places is not None:  # equal rows have a weight together
        copies = np.bincount(rows.places + 1, minlength=len(rows) + 1)[1:]
        weight = np.where(rows.places < 0, 0.0, (weight / copies)[rows.places])
    some = np.random.RandomState(0).permutation(len(X))[:size]
    return np.asarray(X[some], float), weight[some]


def sobol_indices(processes, quantiles, n_jobs):
    """`SobolIndices` of the means of processes, weighted by their variances.

    Parameters
    ----------
    processes : list of Posterior
    quantiles : ndarray of shape (k, d)
    n_jobs : int or None
    """
    with single_threaded_blas(), np.errstate(all="ignore"):
        closed = [_in_closed_form(process, quantiles) for process in processes]
        if all(one is not None for one in closed):
            first, total, variance = np.sum(closed, axis=0)
            return _indices(first[None], total[None], variance[None], error=0.0)
        threads, quick = (
            resolve_n_jobs(n_jobs),
            [process.with_fewer_neighbors(_NEIGHBORS) for process in processes],
        )
        found = [_sampled(quick, quantiles, seed, threads) for seed in range(_SEQUENCES)]
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


def _in_closed_form(process, values):
    """Variances (d,) explained by each column, lost without it, and of all: summed over targets.

    None where the mean is no sum of products, or a sum of large terms that cancel.
    """
    if process.points is None:
        return None
    factors = column_factors(process.kernel, values.shape[1])
    (Z, u), means, products = process.points, [], []
    if factors is None or np.isnan(Z).any():
        return None
    if Z.shape[1] != len(factors) or (len(factors) * len(Z)) ** 2 > _MOST_PRODUCTS:
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
    if not np.finfo(float).eps * terms < _CANCELLATION_TOLERANCE * variance:
        return None if terms > 0 else np.zeros((3, len(means)))
    first = [explained([j]) for j in columns]
    total = [variance - explained([k for k in columns if k != j]) for j in columns]
    return np.array([first, total, np.full(len(means), variance)])


def _sampled(processes, columns, seed, threads):
    """Variances as of `_in_closed_form`, by a Sobol sequence; `columns` (k, d) are sorted."""
    d = columns.shape[1]
    points = qmc.Sobol(2 * d, seed=seed).random(_POINTS)
    places = np.minimum((points * len(columns)).astype(int), len(columns) - 1)
    A, B = (columns[half, np.arange(d)] for half in (places[:, :d], places[:, d:]))
    f_A, f_B = (_side_by_side(p.mean(X, threads) for p in processes) for X in (A, B))
    centre = 0.5 * (f_A.mean(axis=0) + f_B.mean(axis=0))
    variance = 0.5 * np.sum((f_A - centre) ** 2 + (f_B - centre) ** 2) / _POINTS
    f = np.concatenate([_replaced(p, A, B, threads) for p in processes], axis=2)  # (d, n, p)
    first = np.sum((f_B - centre) * (f - f_A), axis=(1, 2)) / _POINTS
    total = 0.5 * np.sum((f - f_A) ** 2, axis=(1, 2)) / _POINTS
    return first, total, np.full(d, variance)


def _side_by_side(parts):
    return np.concatenate([*parts], axis=1)


def _replaced(process, A, B, threads):
    """Means (d, n, p) of rows A in which column j, for each of d, is that of B."""
    if process.points is None:
        return np.stack([process.mean(_mixed(A, B, j), threads) for j in range(A.shape[1])])
    Z, u = process.points
    size = max(_FEWEST_TOGETHER, _ENTRIES // max(len(Z), 1))
    blocks = np.array_split(np.arange(len(A)), -(-len(A) // size))

    def means(rows):
        replace = kernels.replacing(process.kernel, A[rows], Z)
        return np.stack([_times(replace(j, B[rows, j]), u, len(rows)) for j in range(A.shape[1])])

    return np.concatenate([*ordered_map(means, blocks, threads)], axis=1)


def _mixed(A, B, j):
    mixed = A.copy()
    mixed[:, j] = B[:, j]
    return mixed


def _times(K, u, n):
    """``K u`` (n, p), where K is a number if all of its entries are equal."""
    return K @ u if np.ndim(K) else np.broadcast_to(K * u.sum(axis=0), (n, u.shape[1]))


def column_factors(kernel, d):
    """Return the factors of a kernel by column, if it is a product of kernels of one column each.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression. Noise that is added to it has no say.
    d : int
        Number of input columns.

    Returns
    -------
    list of list of Kernel, or None
        For each column the kernels, each of this column alone, whose product over all columns is
        the kernel. None if it is no such product.
    """
    kernel = kernels.without_noise(kernel)
    if d == 1:
        return [[kernel]]
    if type(kernel) is ConstantKernel:
        return [[kernel], *([] for _ in range(d - 1))]
    if type(kernel) is RBF:
        return [[RBF(scale)] for scale in np.broadcast_to(kernel.length_scale, d)]
    if type(kernel) is Product:
        first, second = column_factors(kernel.k1, d), column_factors(kernel.k2, d)
        if first is None or second is None:
            return None
        return [one + other for one, other in zip(first, second)]
    if type(kernel) is kernels.Columns:
        chosen = kernel.chosen(d)
        inside = column_factors(kernel.kernel, len(chosen))
        if inside is None:
            return None
        found = [[] for _ in range(d)]
        for j, factors in zip(chosen, inside):
            found[j] = found[j] + factors
        return found
    return None

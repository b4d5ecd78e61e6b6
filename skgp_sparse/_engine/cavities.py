r"""Training rows that are left out of a posterior, one at a time; everything else is held.

A row is a Gaussian factor ``N(y; g, λ/c)`` of what a posterior is made of: g is the process at the
row, or what inducing points say of it, λ its effective noise, and c the copy that is left out, one
or, if the row weighs less, its weight. With the mean m and the variance h of g given all rows, what
is left without the factor is its cavity,

    q = c h / λ,      mean = y - (y - m)/(1 - q),      variance = h/(1 - q) + r,

where r is the prior variance that inducing points leave. Of the exact process, 1 - q follows from
the diagonal of ``(K + D)⁻¹`` without rounding (Rasmussen and Williams 2006, section 5.4.2).
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine import left_out
from skgp_sparse._engine.exact import group_table, means_of
from skgp_sparse._engine.table import row_blocks
from skgp_sparse._ground.linalg import inverse_lower, product_norms
from skgp_sparse._ground.parallel import ordered_map, slices

_TOGETHER = 1 << 13  # rows that are left out together, given their neighbours
_LEAST = 1e-12  # of 1 - q: a row that no other one says anything of


class LeftOut(NamedTuple):
    """What the others say of every row of a table, in its order."""

    mean: np.ndarray  # (n, p) standardised
    variance: np.ndarray  # (n,) latent


def of_exact(posterior, rows):
    """`LeftOut` of an exact `Posterior`, in O(n³) time.

    Parameters
    ----------
    posterior : Posterior
    rows : Table
    """
    groups = group_table(rows)
    means = means_of(posterior.kernel, groups)
    of_row = means.s2 / np.minimum(groups.weight, 1.0)  # noise of the copy that is left out
    D, alpha = means.D[groups.index], posterior.u[groups.index]
    T = inverse_lower(posterior.features.L)
    A = np.einsum("ij,ij->j", T, T)[groups.index]  # the diagonal of (K + D)⁻¹
    error = means.rest + D[:, None] * alpha
    others = 1.0 - D / of_row + D * (D / of_row) * A  # 1 - q, all of its terms positive
    variance = D * (1.0 - D * A) / others
    return LeftOut(groups.y - error / others[:, None], np.maximum(variance, 0.0))


def of_basis(posterior, rows, bound, n_jobs=1):
    """`LeftOut` of a `Posterior` in a basis, in O(n m²) time.

    Parameters
    ----------
    posterior : Posterior
    rows : Table
    bound : Bound
        Whose share of what the basis leaves is noise.
    n_jobs : int
    """

    def of_block(some):
        block = rows.block(some)
        mean, h, rest = _given_all(posterior, block.X)
        share = bound.for_weights(block.weight).noise_share
        learned = kernels.diagonal(posterior.kernel, block.X)[1]
        noise = learned + block.noise + share * rest
        q = np.minimum(block.weight, 1.0) * h / noise
        others = np.maximum(1.0 - q, _LEAST)
        return block.y - (block.y - mean) / others[:, None], h / others + rest

    return _joined(of_block, row_blocks(len(rows), posterior.width), n_jobs)


def of_sites(posterior, rows, method, sites, n_jobs=1):
    """`LeftOut` of a `Posterior` given Gaussian sites: the cavities of the rows.

    Parameters
    ----------
    posterior : Posterior
        Of one process.
    rows : Table
    method : Method
    sites : ndarray of shape (2, 1, n)
        Natural parameters.
    n_jobs : int
    """

    def of_block(some):
        block = rows.block(some)
        mean, h, rest = _given_all(posterior, block.X)
        rest = rest + kernels.diagonal(posterior.kernel, block.X)[1]
        weight = np.broadcast_to(block.weight, len(rest))
        seen = method.at_site(sites[..., some], rest, weight)
        if posterior.TB is None:  # white noise is integrated, whatever the method is
            seen = sites[..., some] / (1.0 + rest * sites[1:, :, some])
        linear, precision = seen[:, 0]
        count = np.minimum(weight, 1.0)
        others = np.maximum(1.0 - count * h * precision, _LEAST)
        mean = (mean[:, 0] - count * h * linear) / others
        return mean[:, None], h / others + rest

    return _joined(of_block, row_blocks(len(rows), posterior.width), n_jobs)


def of_neighbors(posterior, rows, chosen, n_jobs=1):
    """`LeftOut` of a `NeighborsPosterior` of distinct rows: the nearest others predict each.

    Parameters
    ----------
    posterior : NeighborsPosterior
    rows : Table
    chosen : ndarray of shape (k,)
        Numbers of the rows that are left out.
    n_jobs : int
    """
    distinct = posterior.rows

    def of_block(some):
        numbers = chosen[some]
        block = rows.block(numbers)
        near = posterior.around(block.X, n_jobs, posterior.k + 1)[1]
        left = left_out.left_out(distinct, block, numbers, near, np.ones(len(numbers)))
        mean, variance = left_out.moments(posterior.prior, left, posterior.metric, n_jobs)
        own = kernels.diagonal(posterior.prior, block.X)[1] + block.noise
        return mean, posterior.factor * np.maximum(variance - own, 0.0)

    return _joined(of_block, slices(len(chosen), _TOGETHER), 1)


def of_rows(posterior, rows, chosen, neighbors, n_jobs=1):
    """`LeftOut` of a `RowsPosterior`, whose variances are those that neighbours give.

    The mean is ``y - α/A``, with the diagonal A of ``(K + D)⁻¹`` from these variances. It is as
    exact as they are.

    Parameters
    ----------
    posterior : RowsPosterior
    rows : Table
    chosen : ndarray of shape (k,)
        Numbers of the rows that are left out, whose weights are positive.
    neighbors : NeighborsPosterior
        Of the same rows and hyperparameters.
    n_jobs : int
    """
    variance = of_neighbors(neighbors, rows, chosen, n_jobs).variance / neighbors.factor
    used = np.arange(len(rows)) if rows.weight is None else np.cumsum(rows.weight > 0) - 1
    place = used[chosen]  # the posterior has no other rows
    error = posterior.alpha[place] * (variance + posterior.noise[place])[:, None]
    return LeftOut(rows.block(chosen).y - error, posterior.factor * variance)


def _given_all(posterior, X):
    """Mean (n, p) and variance (n,) that the features of rows have given all rows, and the rest."""
    K = posterior.features.raw(X)
    V = posterior.features.whiten(K)
    signal = kernels.diagonal(posterior.kernel, X)[0]
    rest = np.maximum(posterior.features.rest(X, V, signal), 0.0)
    if posterior.TB is None:  # all rows: the rest is what they do not know
        return K @ posterior.u, rest, np.zeros(len(X))
    return K @ posterior.u, product_norms(V, posterior.TB), rest


def _joined(of_block, blocks, n_jobs):
    return LeftOut(*map(np.concatenate, zip(*ordered_map(of_block, blocks, n_jobs))))

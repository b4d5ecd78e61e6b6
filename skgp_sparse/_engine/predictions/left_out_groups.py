r"""Rows that are left out together, by a downdate of what the posterior says of them.

Given all rows, the values g of some of them have the mean m and the covariance H. Without a share
of their Gaussian factors, whose precisions are a and whose linear terms are b (Ginsbourger and
Schärer 2025, "Fast calculation of Gaussian process multiple-fold cross-validation residuals"),

    C = (H⁻¹ - diag a)⁻¹ = H + H S M⁻¹ S H,        S = diag(a)^½,    M = I - S H S,
    mean = m + C (a m - b).

Where H has a root R with fewer columns than rows, ``H = R Rᵀ``, it is

    C = R (I - Rᵀ diag(a) R)⁻¹ Rᵀ.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skgp_sparse import kernels
from skgp_sparse._engine.data.distinct_inputs import DistinctInputs, means_of
from skgp_sparse._engine.predictions.posterior import LeftOut
from skgp_sparse._ground.linalg import inverse_lower, times_lower_transposed
from skgp_sparse._ground.parallel import ordered_map
from skgp_sparse._ground.typing import Array, Ints


class Group(NamedTuple):
    """Rows that are left out together."""

    rows: Ints  # (k,) their numbers in the table
    share: Array  # (k,) of the weight of each


def left_out(
    posterior: Any, rows: Any, groups: list[Group], bound: Any, n_jobs: int
) -> list[LeftOut]:
    """`LeftOut` of every group of rows, for a posterior that is written in features."""
    if posterior.is_exact:
        return _of_exact(posterior, rows, groups, n_jobs)
    return _of_basis(posterior, rows, groups, bound, n_jobs)


def _of_exact(posterior: Any, rows: Any, groups: list[Group], n_jobs: int) -> list[LeftOut]:
    """`LeftOut` of groups for an `ExactPosterior`: H is ``D - D A D`` with ``A = (K + D)⁻¹``."""
    inputs = DistinctInputs.of(rows)
    means = means_of(posterior.kernel, inputs)
    T, precision = inverse_lower(posterior.features.L), inputs.weight / means.s2

    def of_group(group: Group) -> LeftOut:
        at, index = np.unique(inputs.index[group.rows], return_inverse=True)
        removed = group.share * precision[group.rows]
        a, D = np.bincount(index, removed), means.D[at]
        b = np.zeros((len(at), posterior.u.shape[1]))
        np.add.at(b, index, removed[:, None] * inputs.y[group.rows])
        DAD = D[:, None] * (T[:, at].T @ T[:, at]) * D
        M = np.sqrt(a[:, None] * a) * DAD
        M.flat[:: len(M) + 1] += 1.0 - a * D  # 0 where all rows of an input are left out
        m = means.mean[at] - D[:, None] * posterior.u[at]
        mean, variance = without(m, np.diag(D) - DAD, M, a, b)
        return LeftOut(mean[index], np.maximum(variance[index], 0.0))

    return list(ordered_map(of_group, groups, n_jobs))


def _of_basis(
    posterior: Any, rows: Any, groups: list[Group], bound: Any, n_jobs: int
) -> list[LeftOut]:
    """`LeftOut` of groups for a `SparsePosterior`: g is what the features say of a row."""

    def of_group(group: Group) -> LeftOut:
        block = rows.block(group.rows)
        mean, V, rest = posterior.mean_and_rest(block.X)
        seen, mean_beside, _ = posterior.beside(block.X, V)
        of_weights = times_lower_transposed(seen, posterior.TB)
        root = np.hstack([of_weights, *posterior.roots_beside(block.X)])
        learned = kernels.diagonal(posterior.kernel, block.X)[1]
        noise = learned + block.noise + bound.for_weights(block.weight).noise_share * rest
        a = group.share * block.weight / noise
        mean, variance = without_by_root(mean + mean_beside, root, a, a[:, None] * block.y)
        return LeftOut(mean, variance + rest)

    return list(ordered_map(of_group, groups, n_jobs))


def without(m: Array, H: Array, M: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Mean (k, p) and variance (k,) of g without the factors.

    Parameters
    ----------
    m : ndarray of shape (k, p)
    H, M : ndarray of shape (k, k)
    a : ndarray of shape (k,)
    b : ndarray of shape (k, p)
    """
    S = np.sqrt(a)
    left = S[:, None] * H
    solved = cho_solve(cho_factor(M), left)
    change = a[:, None] * m - b
    return m + H @ change + left.T @ (solved @ change), H.diagonal() + np.sum(left * solved, axis=0)


def without_by_root(m: Array, R: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """As `without`, from the root R (k, q) of H, in the cheaper one of two ways."""
    k, q = R.shape
    SR = np.sqrt(a)[:, None] * R
    if k < q:
        return without(m, R @ R.T, np.eye(k) - SR @ SR.T, a, b)
    solved = cho_solve(cho_factor(np.eye(q) - SR.T @ SR), R.T)
    return m + R @ (solved @ (a[:, None] * m - b)), np.sum(R.T * solved, axis=0)

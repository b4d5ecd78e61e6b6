r"""Rows that are left out together, by a downdate of what the posterior says of them.

Given all rows, the values g of some of them have the mean m and the covariance H. Without a share
of their Gaussian factors, whose precisions are a and whose linear terms are b (Ginsbourger and
Schärer 2025, "Fast calculation of Gaussian process multiple-fold cross-validation residuals"),

    C = (H⁻¹ - diag a)⁻¹ = H + H S M⁻¹ S H,        S = diag(a)^½,    M = I - S H S,
    mean = m + C (a m - b).

Where H has a root R with fewer columns than rows, ``H = R Rᵀ``, it is

    C = R (I - Rᵀ diag(a) R)⁻¹ Rᵀ.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skgp_sparse._ground.typing import Array, Ints


class Group(NamedTuple):
    """Rows that are left out together."""

    rows: Ints  # (k,) their numbers in the table
    share: Array  # (k,) of the weight of each


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

"""``k(X, X)`` in blocks of rows, of which only the lower triangle is computed.

A block of rows is two rectangles, the rows beside all earlier ones and the rows among themselves:
the second is where a kernel meets its own arguments, and keeps a diagonal without rounding.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._ground.linalg import mirror_lower
from skgp_sparse._ground.parallel import ordered_map

_WORTH_SHARING = 1 << 16  # entries of K for which a block of its own pays
_SHARES = 8  # blocks that K is cut into at most ...
_LARGEST = 1 << 18  # ... unless they had more entries


class Pull(NamedTuple):
    """What pulls the cotangent of a block of rows back to theta."""

    rows: slice
    among: object  # rows x rows
    before: object  # rows x earlier rows, or None


def kernel_matrix(kernel, X, n_jobs, gradient=True):
    """Kernel matrix without white noise, and its pullbacks.

    Parameters
    ----------
    kernel : sklearn kernel
    X : ndarray of shape (u, d)
    n_jobs : int
    gradient : bool
        Whether pullbacks are wanted.

    Returns
    -------
    K : ndarray of shape (u, u)
        What is above the lower triangle has no meaning.
    pulls : list of Pull
    """
    K = np.zeros((len(X), len(X)))

    def fill(rows):
        before = None
        K[rows, rows], among = kernels.linearize(kernel, X[rows], X[rows])
        if rows.start:
            K[rows, : rows.start], before = kernels.linearize(kernel, X[rows], X[: rows.start])
        return Pull(rows, among, before) if gradient else None

    return K, list(ordered_map(fill, _blocks(kernel, len(X)), n_jobs))


def pull_back(pulls, cotangent, n_jobs):
    """Gradient wrt theta of ``Σ G_ij K_ij`` over all i and j, for symmetric G.

    Parameters
    ----------
    pulls : list of Pull
        Used up.
    cotangent : callable
        ``(rows, columns) -> G[rows, columns]``, a new array. Only the lower triangle of G is read.
    n_jobs : int
    """

    def run(index):
        (rows, among, before), pulls[index] = pulls[index], None
        theta_bar = among(mirror_lower(cotangent(rows, rows)), inputs=False)[0]
        if before is not None:
            head = slice(0, rows.start)
            theta_bar = theta_bar + 2.0 * before(cotangent(rows, head), inputs=False)[0]
        return theta_bar

    return sum(ordered_map(run, range(len(pulls)), n_jobs))


def _blocks(kernel, n):
    """Slices of rows whose parts of the lower triangle are of equal size.

    A kernel without a rule is asked only once.
    """
    if not kernels.differentiable(kernel):
        return [slice(0, n)]
    count = max(min(n**2 // _WORTH_SHARING, _SHARES), n**2 // (2 * _LARGEST), 1)
    edges = [round(n * (share / count) ** 0.5) for share in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]

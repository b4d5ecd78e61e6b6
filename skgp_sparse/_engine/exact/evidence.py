r"""Bounds of the exact log marginal likelihood, from below and from above, for given theta.

With ``K̂ = K + D``, ``Q = V Vᵀ`` of some inducing points, ``r = diag(K - Q)``, any ``v`` and its
residual ``e = y - K̂ v``,

    log p(y) = -½ [ n log 2π + log |K̂| + yᵀ K̂⁻¹ y ]

    2 yᵀv - vᵀK̂v   ≤   yᵀ K̂⁻¹ y   ≤   2 yᵀv - vᵀK̂v + eᵀ (Q + D)⁻¹ e
    log |Q + D|     ≤   log |K̂|     ≤   log |Q + D| + Σ log(1 + r_i/D_i)
    log |K̂|     ≤   log |Q + D| + Σ log(1 + var(g_i | some earlier rows)/D_i)
    log |K̂|     ≤   Σ log( var(f_i | some earlier rows) + D_i )

The first line is exact at ``v = K̂⁻¹ y`` and holds as ``K̂ ⪰ Q + D``. The second one is that of
Titsias (2009, 2025). The others are the chain rule, in which fewer rows to condition on can only
enlarge a variance: of the residual process g, of covariance ``K - Q``, which is closer than the
second line, and of the process f itself. Proofs are in docs/maths.md.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.exact.conjugate_gradients import solve
from skgp_sparse._engine.exact.iterative_posterior import IterativePosterior, leading_rows
from skgp_sparse._engine.exact.kernel_product import KernelProduct
from skgp_sparse._engine.exact.preconditioner import precision, preconditioner
from skgp_sparse._ground.linalg import cholesky, log_det_from_cholesky
from skgp_sparse._ground.normal import LOG_2PI

_LEADING = 500  # rows that come first in the chain rule
_GROWTH = 1.25  # of the rows that are known, from one link of the chain to the next


class Certificate(NamedTuple):
    """Bounds of the exact log marginal likelihood, of the standardised targets."""

    conjugate_gradients: float  # lower: the second line
    residual_neighbours: float  # lower: the third line
    nearest_neighbours: float  # lower: the fourth line
    upper: float
    residual: float  # of the solve, relative


def certify(kernel, features, rows, n_jobs, *, tol, max_iter, scale, n_leading=2000, report=None):
    """Compute the `Certificate`.

    Parameters
    ----------
    kernel : sklearn kernel, its white noise included
    features : Features
        Of inducing points.
    rows : Batch
        Of `Dataset.everything`.
    n_jobs : int
    tol : float
        Residual of the solve.
    max_iter : int
    scale : ndarray of shape (d,)
        Spread of the inputs, for kernels without length scales.
    n_leading : int
        Rows of the preconditioner of the solve.
    report : callable or None
        Of `solve`.
    """
    rows = rows.used()
    order = np.random.RandomState(0).permutation(len(rows.X))
    X, y, noise, weight = (column[order] for column in rows[:4])
    prior, learned, _ = kernels.diagonal(kernel, X)
    s2 = noise + learned
    D, n_targets = s2 / weight, y.shape[1]
    # a row of weight w is its mean, and what w copies of it have beside that
    constant = weight @ (np.log(s2) + LOG_2PI) - np.log(D).sum()
    leading, _ = leading_rows(kernel, X[:n_leading], D[:n_leading], n_jobs)
    multiply, rough = KernelProduct(kernel, X, n_jobs).with_noise(D)
    near = preconditioner(kernel, leading, X, D, n_jobs, dtype=precision(D, np.mean(prior)))
    stop = {"tol": tol, "max_iter": max_iter, "report": report}
    solution = solve(multiply, near, y, rough=rough, **stop)
    Q = preconditioner(kernel, features, X, D, n_jobs, with_residual=False)
    least = np.vdot(y, solution.x) + np.vdot(solution.x, solution.residual)  # 2 yᵀv - vᵀ(y - e)
    most = least + np.vdot(solution.residual, Q(solution.residual))
    nystrom, near_to = Q.log_det(), (X, D, kernels.length_scales(kernel, scale), n_jobs)
    log_dets = (
        nystrom + np.log1p(Q.residual / D).sum(),
        nystrom + _chain_of_residuals(kernel, features, *near_to),
        _chain_of_rows(kernel, *near_to),
        nystrom,
    )
    pairs = zip(log_dets, (most, most, most, least))
    values = (-0.5 * (n_targets * (constant + log_det) + square) for log_det, square in pairs)
    return Certificate(*values, solution.relative)


def _chain_of_residuals(kernel, features, X, D, scale, n_jobs):
    """``Σ log(1 + var(g_i | earlier rows)/D_i)``: leading ones, and the nearest of all."""
    known = min(_LEADING, len(X))
    C = features.residual_covariance(X[:known], features.whiten(features.raw(X[:known])))
    C.flat[:: known + 1] += D[:known]
    first = log_det_from_cholesky(cholesky(C, n_jobs)) - np.log(D).sum()
    return first + _chain(kernel, features, 0, X, D, scale, n_jobs)


def _chain_of_rows(kernel, X, D, scale, n_jobs):
    """``Σ log var(y_i | earlier rows)``: leading ones, and those nearest of the others."""
    known = min(_LEADING, len(X))
    features, _ = leading_rows(kernel, X[:known], D[:known], n_jobs)
    first = log_det_from_cholesky(features.L)
    return first + _chain(kernel, features, known, X, D, scale, n_jobs)


def _chain(kernel, features, others, X, D, scale, n_jobs):
    """``Σ log var(y_i | features, earlier rows)`` of all rows but the leading ones.

    The rows are in a random order. Each is given the nearest of the earlier rows from number
    `others` on.
    """
    total, known, n = 0.0, min(_LEADING, len(X)), len(X)
    while known < n:
        stop = min(max(int(_GROWTH * known), known + 1), n)
        earlier = np.arange(others, known)
        before = IterativePosterior(kernel, X[:known], D[:known], None, features, earlier, scale)
        new = X[known:stop]
        variance = before.variance(new, before.nearest(new, n_jobs), n_jobs)
        total += np.log(variance + D[known:stop]).sum()
        known = stop
    return total

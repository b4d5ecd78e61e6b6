r"""The upper bound of Titsias (2014) on the exact log marginal likelihood, for given theta.

With ``K̂ = K + D``, ``Q = V Vᵀ`` of some inducing points, and any ``v``,

    log p(y) = -½ [ n log 2π + log |K̂| + yᵀ K̂⁻¹ y ]

    2 yᵀv - vᵀK̂v   ≤   yᵀ K̂⁻¹ y,     log |Q + D|   ≤   log |K̂|

The first inequality is exact at ``v = K̂⁻¹ y``, and the second one holds as ``K̂ ⪰ Q + D``.
"""

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._engine.exact.conjugate_gradients import solve
from skgp_sparse._engine.exact.iterative_posterior import leading_rows
from skgp_sparse._engine.exact.kernel_product import KernelProduct
from skgp_sparse._engine.exact.preconditioner import precision, preconditioner
from skgp_sparse._ground.normal import LOG_2PI

_LEADING = 2000  # rows of the preconditioner of the solve


def upper_bound(kernel, features, rows, n_jobs, *, tol, max_iter, report=None):
    """The bound for the standardised targets, and the residual of the solve, relative.

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
    report : callable or None
        Of `solve`.
    """
    rows = rows.used()
    order = np.random.RandomState(0).permutation(len(rows.X))
    X, y, noise, weight = (column[order] for column in rows[:4])
    prior, learned, _ = kernels.diagonal(kernel, X)
    s2 = noise + learned
    D = s2 / weight
    # a row of weight w is its mean, and what w copies of it have beside that
    constant = weight @ (np.log(s2) + LOG_2PI) - np.log(D).sum()
    leading, _ = leading_rows(kernel, X[:_LEADING], D[:_LEADING], n_jobs)
    multiply, rough = KernelProduct(kernel, X, n_jobs).with_noise(D)
    near = preconditioner(kernel, leading, X, D, n_jobs, dtype=precision(D, np.mean(prior)))
    stop = {"tol": tol, "max_iter": max_iter, "report": report}
    solution = solve(multiply, near, y, rough=rough, **stop)
    log_det = preconditioner(kernel, features, X, D, n_jobs, with_residual=False).log_det()
    square = np.vdot(y, solution.x) + np.vdot(
        solution.x, solution.residual
    )  # 2 yᵀv - vᵀ(y - e), e = y - K̂v
    return -0.5 * (y.shape[1] * (constant + log_det) + square), solution.relative

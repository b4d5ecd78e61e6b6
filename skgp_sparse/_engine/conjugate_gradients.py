"""Preconditioned conjugate gradients for several right-hand sides, which share every product.

Each column has steps of its own. Products may be rough at first: the residual that counts is
computed with exact ones, and what is left of it is solved for again.
"""

from typing import NamedTuple

import numpy as np

_MARGIN = 0.7  # of the residual asked for, that the recursion of rough products should reach
_HONEST = 2.0  # residual over the one of the recursion, from which products are too rough
_ROUNDS = 20


class Solution(NamedTuple):
    """What was found."""

    x: np.ndarray  # (n, p)
    residual: np.ndarray  # (n, p) of x
    relative: float  # largest norm of a residual, over that of its right-hand side
    n_iter: int  # products with the matrix
    stopped: bool = False  # by `report`


def solve(multiply, precondition, Y, *, tol, max_iter, rough=None, report=None):
    """Solve ``A X = Y`` for a positive definite matrix A.

    Parameters
    ----------
    multiply : callable
        ``V -> A V``.
    precondition : callable
        ``V -> P⁻¹ V``, with P close to A.
    Y : ndarray of shape (n, p)
    tol : float
        Norm of the residual of every column, relative to that of Y, at which to stop.
    max_iter : int
        Products after which to stop at the latest.
    rough : callable or None
        `multiply`, faster and less exact.
    report : callable or None
        ``(n_iter, relative) -> stop?``.

    Returns
    -------
    Solution
        Its `relative` is above `tol` only if `max_iter` or `report` ended the iteration, or if
        rounding allows no smaller one.
    """
    size = _norms(Y)
    size[size == 0] = 1.0
    found = Solution(np.zeros_like(Y), Y, 1.0 if Y.any() else 0.0, 0)
    for _ in range(_ROUNDS):
        if found.relative <= tol or found.n_iter >= max_iter:
            break
        goal = tol * (1.0 if rough is None else _MARGIN)
        more = _iterate(rough or multiply, precondition, found, size, goal, max_iter, report)
        residual = Y - multiply(found.x + more.x)
        relative = (_norms(residual) / size).max()
        if relative < found.relative:
            found = Solution(found.x + more.x, residual, relative, more.n_iter + 1)
        elif rough is None:
            break
        if more.stopped:
            return found._replace(stopped=True)
        if relative > _HONEST * more.relative:
            rough = None
    return found


class _Steps(NamedTuple):
    x: np.ndarray
    relative: float  # as the recursion says
    n_iter: int
    stopped: bool


def _iterate(multiply, precondition, found, size, tol, max_iter, report):
    """Steps from a solution on, until the recursion says that the residual is small.

    The formula of Polak and Ribière allows for a preconditioner with rounding of its own.
    """
    x, r = np.zeros_like(found.x), found.residual.copy()
    z = precondition(r)
    p, rz = z, _dots(r, z)
    n_iter, relative, stopped = found.n_iter, found.relative, False
    while relative > tol and n_iter < max_iter and not stopped:
        Ap = multiply(p)
        step = _ratio(rz, _dots(p, Ap))
        x += step * p
        before, r = r, r - step * Ap
        z = precondition(r)
        p = z + _ratio(_dots(z, r - before), rz) * p
        rz = _dots(r, z)
        n_iter, relative = n_iter + 1, (_norms(r) / size).max()
        stopped = report is not None and report(n_iter, relative)
    return _Steps(x, relative, n_iter, stopped)


def _dots(A, B):
    return np.einsum("ij,ij->j", A, B)


def _norms(A):
    return np.sqrt(_dots(A, A))


def _ratio(a, b):
    """a / b, and 0 where a column is solved."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)

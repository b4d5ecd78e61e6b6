"""Preconditioned conjugate gradients for several right-hand sides, which share every product.

Each column has steps of its own. Products may be rough at first: the residual that counts is
computed with exact ones, and what is left of it is solved for again.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

_RESIDUAL_MARGIN = (
    0.7  # of the residual asked for, that the recursion of rough products should reach
)
_HONEST = 2.0  # residual over that of the recursion, from which products are too rough
_SOLVED = 0.1  # of the residual asked for, below which a column waits for the others
_EVERY = 50  # rough products until the residual is computed


class LinearSolution(NamedTuple):
    """Solution of a linear system, its residual, and the number of iterations."""

    x: np.ndarray  # (n, p)
    residual: np.ndarray  # (n, p) of x
    relative: float  # largest norm of a residual, over that of its right-hand side
    n_iter: int  # products with the matrix
    stopped: bool = False  # by `report`


def solve(multiply, precondition, Y, *, tol, max_iter, rough=None, report=None, start=None):
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
    start : LinearSolution or None
        Where to go on from: an earlier solution and the residual that it has now.

    Returns
    -------
    LinearSolution
        Its `relative` is above `tol` only if `max_iter` or `report` ended the iteration, or if
        rounding allows no smaller one.
    """
    run = _Run(multiply, precondition, _norms(Y), tol, max_iter, report)
    solution = start or LinearSolution(np.zeros_like(Y), Y, 1.0, 0)
    solution = solution._replace(relative=run.relative(solution.residual))
    if rough is not None and run.may_go_on(solution):
        solution = run.go_on(solution, Y, rough)
    while run.may_go_on(solution):
        before, solution = solution, run.go_on(solution, Y, multiply)
        if not solution.relative < 0.5 * before.relative:  # rounding, which a restart does not mend
            break
    return solution._replace(n_iter=run.n_iter, stopped=run.stopped)


@dataclass
class _Run:
    """Settings and counters that all rounds of a solve have in common."""

    exact: object
    precondition: object
    size: np.ndarray  # norms of the right-hand sides
    tol: float
    max_iter: int
    report: object
    n_iter: int = field(default=0, init=False)
    stopped: bool = field(default=False, init=False)

    def may_go_on(self, solution):
        return solution.relative > self.tol and self.n_iter < self.max_iter and not self.stopped

    def go_on(self, solution, Y, multiply):
        """The solution after a round, or the one before where that is better."""
        is_rough = multiply is not self.exact
        x = solution.x + self._iterate(multiply, solution, is_rough)
        residual = Y - self.exact(x)
        better = LinearSolution(x, residual, self.relative(residual), self.n_iter)
        return better if _energy(better, Y) < _energy(solution, Y) else solution

    def _iterate(self, multiply, solution, is_rough):
        """The change of x, once the recursion says that the residual is small.

        The formula of Polak and Ribière allows for a preconditioner with rounding of its own.
        """
        goal = self.tol * (_RESIDUAL_MARGIN if is_rough else 1.0)
        x, r = np.zeros_like(solution.x), solution.residual.copy()
        z = self.precondition(r)
        p, rz, relative = z, _dots(r, z), solution.relative
        while relative > goal and self.n_iter < self.max_iter and not self.stopped:
            Ap = multiply(p)
            curvature = _dots(p, Ap)
            if np.any(curvature < 0) or not np.isfinite(curvature).all():
                break  # the matrix with its rounding is not positive definite
            step = _ratio(rz, curvature) * (self._by_column(r) > _SOLVED * goal)
            x += step * p
            before, r = r, r - step * Ap
            z = self.precondition(r)
            p = z + _ratio(_dots(z, r - before), rz) * p
            rz, relative = _dots(r, z), self.relative(r)
            self.n_iter += 1
            self.stopped = self.report is not None and bool(self.report(self.n_iter, relative))
            if is_rough and self.n_iter % _EVERY == 0:
                honest = self.relative(solution.residual - self.exact(x))
                if not honest <= _HONEST * relative:
                    break
        return x

    def relative(self, residual):
        return self._by_column(residual).max()

    def _by_column(self, residual):
        return _ratio(_norms(residual), self.size)


def _energy(solution, Y):
    """``½ xᵀ A x - xᵀ y``, which every step lowers, whatever the residual does."""
    return -0.5 * np.vdot(solution.x, Y + solution.residual)


def _dots(A, B):
    return np.einsum("ij,ij->j", A, B)


def _norms(A):
    return np.sqrt(_dots(A, A))


def _ratio(a, b):
    """a / b, and 0 where a column is solved or b is nothing."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)

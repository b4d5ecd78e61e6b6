"""The process given all training rows, by conjugate gradients, without inducing points in its mean.

    mean = K*f α,     (K + D) α = y,

with ``D = σ²/w``. The product with K is made in tiles (`products`), and the matrix of FITC is the
preconditioner. The same solve gives an upper bound of the exact evidence (`upper_bound`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Dataset, row_blocks
from skgp_sparse.engine import collapsed
from skgp_sparse.engine import posterior as contract
from skgp_sparse.engine.basis import InducingFeatures, Problem
from skgp_sparse.engine.neighbors import NeighborsPosterior
from skgp_sparse.engine.posterior import PosteriorAround, RowTerms, float64
from skgp_sparse.ground import linalg
from skgp_sparse.ground.parallel import ordered_map, slices
from skgp_sparse.ground.validation import AnyArray, Array, Ints, Kernel, Pair

Product = Callable[[Array], Array]
Tile = Callable[[slice, slice], AnyArray]
Report = Callable[[int, float], bool]  # (n_iter, excess) -> stop?

_MARGIN = 0.7  # of the residual asked for, which the recursion reaches
_SOLVED = 0.1  # of the residual asked for, below which a column waits for the others


class LinearSolution(NamedTuple):
    """Solution of a linear system, its residual, and the number of iterations."""

    x: Array  # (n, p)
    residual: Array  # (n, p) of x
    excess: float  # largest norm of a residual, over the one asked for
    n_iter: int = 0  # products with the matrix
    stopped: bool = False  # by `report`


# Several right-hand sides share every product with A and the preconditioner, and each column has
# steps of its own. Products may be rough at first: the residual that counts is computed with exact
# ones, and what is left of it is solved for again. `tol` is relative to the norm of every column of
# Y, and ``report(n_iter, excess)`` says whether to stop. `excess` is above 1 only if `max_iter` or
# `report` ended the iteration, or if rounding allows no smaller one. It descends until a recursion
# says that the residual is small, by the formula of Polak and Ribière, which allows for a
# preconditioner with rounding of its own.
def solve(
    multiply: Product,
    precondition: Product,
    Y: Array,
    tol: float | Array,
    max_iter: int,
    rough: Product | None = None,
    report: Report | None = None,
) -> LinearSolution:
    """The `LinearSolution` of ``A X = Y`` (n, p), A positive definite, by conjugate gradients."""
    size = _norms(Y) * tol

    def descend(product: Product, start: LinearSolution) -> LinearSolution:
        x, r, _, n_iter, stopped = start
        p = z = precondition(r)
        rz = _dots(r, z)
        while _excess(r, size) > _MARGIN and n_iter < max_iter and not stopped:
            Ap = product(p)
            curvature = _dots(p, Ap)
            if np.any(curvature < 0) or not np.isfinite(curvature).all():
                break  # the matrix with its rounding is not positive definite
            step = _ratio(rz, curvature) * (_norms(r) > _SOLVED * size)
            x = x + step * p
            before, r = r, r - step * Ap
            z = precondition(r)
            p = z + _ratio(_dots(z, r - before), rz) * p
            rz, n_iter = _dots(r, z), n_iter + 1
            stopped = report is not None and bool(report(n_iter, _excess(r, size)))
        residual = Y - multiply(x)
        return LinearSolution(x, residual, _excess(residual, size), n_iter, stopped)

    solution = LinearSolution(np.zeros_like(Y), Y, _excess(Y, size))
    product = rough or multiply
    while solution.excess > 1.0 and solution.n_iter < max_iter and not solution.stopped:
        before, solution = solution, descend(product, solution)
        if not _energy(solution, Y) < _energy(before, Y):
            solution = before._replace(n_iter=solution.n_iter, stopped=solution.stopped)
        if product is multiply and not solution.excess < 0.5 * before.excess:
            break  # rounding, which a restart does not mend
        product = multiply
    return solution


def _energy(solution: LinearSolution, Y: Array) -> float:
    """``½ xᵀ A x - xᵀ y``, which every step lowers, whatever the residual does."""
    return float(-0.5 * np.vdot(solution.x, Y + solution.residual))


def _excess(residual: Array, size: Array) -> float:
    return float(_ratio(_norms(residual), size).max())


def _dots(A: Array, B: Array) -> Array:
    return np.einsum("ij,ij->j", A, B)


def _norms(A: Array) -> Array:
    return np.sqrt(_dots(A, A))


def _ratio(a: Array, b: Array) -> Array:
    """a / b, and 0 where a column is solved or b is nothing."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


_TILE = 256  # rows and columns: a tile fits the cache of a core
_FOR_SINGLE = 1e-5  # smallest noise, as a share of the process, that rounding does not outweigh


# It is None where the kernel has no such tiles, or noise would be less than their rounding.
def products(kernel: Kernel, X: Array, noise: Array, n_jobs: int) -> tuple[Product, Product | None]:
    """``V -> (K + D) V`` in double precision, and in single precision where it is worth it."""
    signal = kernels.diagonal(kernel, X)[0]
    quick = kernels.single(kernel, X) if np.min(noise) >= _FOR_SINGLE * np.mean(signal) else None
    rough = None if quick is None else _product(quick, noise, n_jobs, np.float32)
    tile = lambda rows, columns: kernels.evaluate(kernel, X[rows], X[columns])
    return _product(tile, noise, n_jobs, np.float64), rough


def _to_columns(noise: Array, V: Array) -> Array:
    """The noise (n, q), or (n,), of q systems for the columns of V (n, q p), system by system."""
    noise = noise.reshape(len(V), -1)
    return np.repeat(noise, V.shape[1] // noise.shape[1], axis=1)


# Sums over strips of tiles are added in order: they do not depend on the threads.
def _product(tile: Tile, noise: Array, n_jobs: int, dtype: type) -> Product:
    """``V -> (K + D) V`` by tiles of the lower triangle of K."""
    edges = slices(len(noise), _TILE)

    def product(V: Array) -> Array:
        right: AnyArray = V.astype(dtype)
        out = _to_columns(noise, V) * V

        def strip(index: int) -> Array:
            rows = edges[index]
            below = np.zeros((rows.stop, V.shape[1]))
            for columns in edges[:index]:
                K = tile(rows, columns)
                below[rows] += K @ right[columns]
                below[columns] += K.T @ right[rows]
            below[rows] += tile(rows, rows) @ right[rows]
            return below

        for below in ordered_map(strip, range(len(edges)), n_jobs):
            out[: len(below)] += below
        return out

    return product


# P is close to ``K + D`` and cheap to solve with. The features ``V = K_·L chol(K_LL + D_L)⁻ᵀ``
# leave r of ``diag K``, and
#
#     P = V Vᵀ + Λ,     Λ = diag(r) + D,     B = I + Vᵀ Λ⁻¹ V = LB LBᵀ,
#     P⁻¹ = Λ⁻¹ (I - V B⁻¹ Vᵀ Λ⁻¹).
#
# Its diagonal is that of ``K + D``, which is worth a factor of ten in iterations beside
# ``V Vᵀ + D``.
def preconditioner(kernel: Kernel, X: Array, noise: Array, chosen: Ints, n_jobs: int) -> tuple:
    """``R -> P⁻¹ R`` with the matrix of FITC at chosen rows, and the jitter that these took."""
    noise = noise.reshape(len(X), -1)
    K = kernels.evaluate(kernel, X[chosen], X[chosen])
    K.flat[:: len(K) + 1] += noise[chosen, 0]
    L, jitter = linalg.jittered_cholesky(K, linalg.Jitter(0.0), n_jobs)
    features = InducingFeatures(kernel, X[chosen], L)

    def of_block(rows: slice) -> tuple[Array, Array, list[Array]]:
        V = features.whiten(features.raw(X[rows]))
        rest = features.residual_variance(X[rows], V, kernels.diagonal(kernel, X[rows])[0])
        lam = np.maximum(rest, 0.0)[:, None] + noise[rows]
        return V, lam, [linalg.weighted_gram(V, 1.0 / each) for each in lam.T]

    B, parts, blocks = [np.eye(len(L)) for _ in noise.T], [], row_blocks(len(X), len(L))
    for rows, (V, lam, grams) in zip(blocks, ordered_map(of_block, blocks, n_jobs)):
        for each, gram in zip(B, grams):
            each += gram
        parts.append((rows, V, lam))
    TB = [linalg.inverse_lower(linalg.cholesky(each, n_jobs), n_jobs) for each in B]

    def precondition(R: Array) -> Array:
        def projected(part: tuple[slice, Array, Array]) -> Any:
            rows, V, lam = part
            return V.T @ (R[rows] / _to_columns(lam, R[rows]))

        sums = np.hsplit(sum(ordered_map(projected, parts, n_jobs)), len(TB))
        weights = np.hstack([T.T @ (T @ of_system) for T, of_system in zip(TB, sums)])

        def of_part(part: tuple[slice, Array, Array]) -> Array:
            rows, V, lam = part
            return (R[rows] - V @ weights) / _to_columns(lam, R[rows])

        return np.concatenate(list(ordered_map(of_part, parts, n_jobs)))

    return precondition, jitter


_ACROSS = 512  # rows of X in a tile of the mean


# A variance given all rows would need a solve per query. The one given some of them is larger.
@dataclass(frozen=True, eq=False)
class IterativePosterior(PosteriorAround):
    """The process given all rows in its mean ``K*f α``, and the nearest ones in its spread."""

    posterior: NeighborsPosterior
    alpha: Array  # (u, p) weights of its distinct rows in the mean

    name = "rows"
    answers = frozenset([contract.LEAVE_ONE_OUT, contract.BOUNDS])
    width = property(lambda self: len(self.alpha))

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Mean (n, p)."""
        rows, prior = self.posterior.rows.X, self.posterior.prior

        def of_block(block: Array) -> Any:
            K_of = lambda part: kernels.evaluate(prior, block, float64(rows[part]))
            return sum(K_of(part) @ self.alpha[part] for part in row_blocks(len(rows), len(block)))

        return contract.by_blocks(of_block, X, slices(len(X), _ACROSS), n_jobs)

    def leave_one_out(self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int = 1) -> Pair:
        """Moments of chosen rows, each given the nearest others."""
        return self.posterior.leave_one_out(rows, chosen, terms, n_jobs)


_LEADING = 2000  # rows of the preconditioner of the solve


# It is the upper bound of Titsias (2014) on the exact log marginal likelihood, for given theta.
# With ``K̂ = K + D``, ``Q = V Vᵀ`` of some inducing points, ``B = I + Vᵀ D⁻¹ V``, and any ``v``,
#
#     log p(y) = -½ [ n log 2π + log |K̂| + yᵀ K̂⁻¹ y ]
#
#     2 yᵀv - vᵀK̂v   ≤   yᵀ K̂⁻¹ y,     log |D| + log |B| = log |Q + D|   ≤   log |K̂|
#
# The first inequality is exact at ``v = K̂⁻¹ y``, and the second one holds as ``K̂ ⪰ Q + D``.
def upper_bound(
    problem: Problem, *, tol: float, max_iter: int, report: Report | None = None
) -> tuple[float, float]:
    """The bound for the standardised targets, and the residual of the solve over `tol`."""
    kernel, n_jobs = problem.kernel, problem.options.n_jobs
    log_det = collapsed.solve_forward(problem)[1][1].log_det
    rows = problem.rows.everything().used()
    order = np.random.RandomState(0).permutation(len(rows.X))
    X, y, noise, weight = (np.asarray(column)[order] for column in rows[:4])
    s2 = noise + kernels.diagonal(kernel, X)[1]
    multiply, rough = products(kernel, X, s2 / weight, n_jobs)
    near, _ = preconditioner(kernel, X, s2 / weight, np.arange(min(_LEADING, len(X))), n_jobs)
    solution = solve(multiply, near, y, tol=tol, max_iter=max_iter, rough=rough, report=report)
    square = np.vdot(y + solution.residual, solution.x)  # 2 yᵀv - vᵀ(y - e), e = y - K̂v
    # a row of weight w is its mean, and what w copies of it have beside that
    log_det += weight @ (np.log(s2) + linalg.LOG_2PI)
    return -0.5 * (y.shape[1] * log_det + square), solution.excess

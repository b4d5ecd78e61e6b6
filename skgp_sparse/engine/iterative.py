"""The process given all training rows, by conjugate gradients, without inducing points in its mean.

    mean = K*f α,     (K + D) α = y,

with ``D = σ²/w``. The product with K is made in tiles (`KernelProduct`), and the matrix of FITC is
the preconditioner (`Preconditioner`). The same solve gives an upper bound of the exact evidence
(`upper_bound`).
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.gaussian_process.kernels import ConstantKernel

from skgp_sparse import kernels
from skgp_sparse.data.dataset import row_blocks
from skgp_sparse.engine import posterior as contract
from skgp_sparse.engine.basis import InducingFeatures
from skgp_sparse.engine.neighbors import NeighborsPosterior, known_rows
from skgp_sparse.engine.posterior import (
    BOUNDS,
    JOINT_ROWS,
    LEAVE_ONE_OUT,
    LeftOut,
    Posterior,
    float64,
)
from skgp_sparse.ground.linalg import (
    LOG_2PI,
    Jitter,
    cholesky,
    inverse_lower,
    jittered_cholesky,
    weighted_gram,
)
from skgp_sparse.ground.parallel import for_each, ordered_map, slices

_RESIDUAL_MARGIN = 0.7  # of the residual asked for, that the recursion of rough products reaches
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

    The method is that of preconditioned conjugate gradients, in which several right-hand sides
    share every product. Each column has steps of its own. Products may be rough at first: the
    residual that counts is computed with exact ones, and what is left of it is solved for again.

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


_TILE = 768  # rows and columns: a tile fits the cache of a core


@dataclass(frozen=True, eq=False)
class KernelProduct:
    """The kernel matrix of some rows, without white noise, as something that multiplies.

    ``k(X, X) V`` is made in tiles: the matrix is never there, and only its lower triangle is
    computed.

    Parameters
    ----------
    kernel : sklearn kernel
    X : ndarray of shape (n, d)
        Inputs, float64.
    n_jobs : int
    """

    kernel: object
    X: np.ndarray
    n_jobs: int = 1

    def __call__(self, V):
        """``K V`` (n, p), in double precision."""
        kernel, X = self.kernel, self.X
        return self._product(lambda *at: kernels.evaluate(kernel, *(X[rows] for rows in at)), V)

    def rough(self):
        """Product ``V -> K V`` in single precision, or None where the kernel has no such tiles."""
        tile = kernels.single(self.kernel, self.X)
        return None if tile is None else lambda V: self._product(tile, V.astype(np.float32))

    def with_noise(self, noise):
        """``V -> (K + D) V`` for noise variances (n,), in double precision, and `rough` or None."""
        rough = self.rough()
        return _plus_noise(self, noise), rough and _plus_noise(rough, noise)

    def _product(self, tile, V):
        """Sums over strips of tiles, added in order: they do not depend on the threads."""
        n = len(V)
        edges = slices(n, _TILE)
        out = np.zeros(V.shape)

        def strip(index):
            rows = edges[index]
            below = np.zeros((rows.stop, V.shape[1]))
            for columns in edges[:index]:
                K = tile(rows, columns)
                below[rows] += K @ V[columns]
                below[columns] += K.T @ V[rows]
            below[rows] += tile(rows, rows) @ V[rows]
            return below

        for below in ordered_map(strip, range(len(edges)), self.n_jobs):
            out[: len(below)] += below
        return out


def _plus_noise(product, noise):
    return lambda V: product(V) + noise[:, None] * V


_FOR_SINGLE = 1e-5  # smallest noise, as a share of the process, that rounding does not outweigh


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """``P⁻¹`` as something that multiplies.

    It is the matrix of FITC, which is close to ``K + D`` and cheap to solve with. With features
    ``V`` of the rows, of whatever basis, and ``r`` what they leave of ``diag K``,

        P = V Vᵀ + Λ,     Λ = diag(r) + D,     B = I + Vᵀ Λ⁻¹ V = LB LBᵀ,
        P⁻¹ = Λ⁻¹ - Λ⁻¹ V B⁻¹ Vᵀ Λ⁻¹.

    Its diagonal is that of ``K + D``, which is worth a factor of ten in iterations beside
    ``V Vᵀ + D``. Features may be kept in single precision, for which conjugate gradients allow,
    unless the noise is so small that their rounding would outweigh it.

    Parameters
    ----------
    blocks : list of slice
    V : list of ndarray of shape (rows, m)
        Features of every block.
    lam : ndarray of shape (n,)
        Λ.
    residual : ndarray of shape (n,)
        r.
    TB : ndarray of shape (m, m)
        ``LB⁻¹``.
    n_jobs : int
    """

    blocks: list
    V: list
    lam: np.ndarray
    residual: np.ndarray
    TB: np.ndarray
    n_jobs: int

    def log_det(self):
        """``log |P|``."""
        return np.log(self.lam).sum() - 2.0 * np.log(self.TB.diagonal()).sum()

    def with_noise(self, noise):
        """The preconditioner, with r as part of Λ, where some rows have other noise (n,)."""
        lam = self.residual + noise
        change, B = 1.0 / lam - 1.0 / self.lam, inverse_lower(self.TB, self.n_jobs)
        B = B @ B.T
        for rows, V in zip(self.blocks, self.V):
            changed = np.flatnonzero(change[rows])
            B += weighted_gram(V[changed].astype(float), change[rows][changed])
        TB = inverse_lower(cholesky(B, self.n_jobs), self.n_jobs)
        return replace(self, lam=lam, TB=TB)

    def __call__(self, R):
        """``P⁻¹ R`` (n, p)."""
        out = R / self.lam[:, None]
        pieces = list(zip(self.blocks, self.V))
        sums = ordered_map(lambda at: at[1].T @ out[at[0]].astype(at[1].dtype), pieces, self.n_jobs)
        weights = self.TB.T @ (self.TB @ sum(sums, np.zeros((len(self.TB), 1))))
        weights = weights.astype(self.V[0].dtype)
        parts = ordered_map(lambda at: at[1] @ weights, pieces, self.n_jobs)
        for rows, part in zip(self.blocks, parts):
            out[rows] -= part / self.lam[rows, None]
        return out


def precision(noise, signal):
    """Type of features whose rounding does not outweigh noise variances, at this variance."""
    return np.dtype(np.float32 if np.min(noise) >= _FOR_SINGLE * signal else np.float64)


def preconditioner(kernel, features, X, noise, n_jobs, with_residual=True, dtype=np.float64):
    """The `Preconditioner` of ``k(X, X) + diag(noise)``.

    Parameters
    ----------
    kernel : sklearn kernel
    features : Features
    X : ndarray of shape (n, d)
    noise : ndarray of shape (n,)
    n_jobs : int
    with_residual : bool
        Whether r is part of Λ. Without it, P is not larger than ``k(X, X) + diag(noise)``.
    dtype : dtype
        In which features are kept.
    """

    def of_block(rows):
        V = features.whiten(features.raw(X[rows]))
        rest = features.residual_variance(X[rows], V, kernels.diagonal(kernel, X[rows])[0])
        residual = np.maximum(rest, 0.0)
        lam = residual * with_residual + noise[rows]
        return V.astype(dtype), lam, residual, weighted_gram(V, 1.0 / lam)

    B, waiting, blocks = np.eye(features.size), [], row_blocks(len(X), features.size)
    for *of_rows, gram in ordered_map(of_block, blocks, n_jobs):
        B += gram
        waiting.append(of_rows)
    V, *columns = zip(*waiting)
    TB = inverse_lower(cholesky(B, n_jobs), n_jobs)
    return Preconditioner(blocks, list(V), *map(np.concatenate, columns), TB, n_jobs)


_NEAREST = 100  # rows given which a variance is computed
_SEEN = 64_000  # rows whose features are in memory at a time ...
_STRIP = 1024  # ... computed by so many
_QUERIES = 16  # rows of X whose variances are computed together
_ACROSS = 512  # rows of X in a tile of the mean


def leading_rows(kernel, X, noise, n_jobs=1):
    """Features of the process given noisy rows, and the jitter that these took."""
    K = kernels.evaluate(kernel, X, X)
    K.flat[:: len(K) + 1] += noise
    L, jitter = jittered_cholesky(K, Jitter(0.0), n_jobs)
    return InducingFeatures(kernel, X, L), jitter


@dataclass(frozen=True, eq=False)
class IterativePosterior(Posterior):
    """The process given all rows.

    The mean is ``K*f α`` with α from conjugate gradients. A variance would need a solve per query.
    Here it is the one given some of the rows only, a few leading ones, which are spread over the
    table, and those nearest to the query. It is at least the variance given all rows:

        V = L⁻¹ K_L·,   L Lᵀ = K_LL + D_L,      C = K - VᵀV         given the leading rows
        var = C** - C*N (C_NN + D_N)⁻¹ C_N*                         given the nearest rows N, too

    Nearest is in units of the length scales. Joint covariances have the correlations given the
    leading rows and all those that are near to any of the queries, and the variances above.

    Parameters
    ----------
    prior : sklearn kernel, its white noise included
        Of the process before any data.
    X : ndarray of shape (n, d)
        Training inputs.
    noise : ndarray of shape (n,)
        D.
    alpha : ndarray of shape (n, p)
    features : InducingFeatures
        Given the leading rows.
    rest : ndarray of int
        Training rows that are not among these.
    scale : ndarray of shape (d,)
        Units in which near is near.
    factor : float
        Of all variances, those of the noise included: ``factor * prior`` has the same mean.
    """

    prior: object
    X: np.ndarray
    noise: np.ndarray
    alpha: np.ndarray
    features: InducingFeatures
    rest: np.ndarray
    scale: np.ndarray
    factor: float = 1.0

    name = "rows"
    answers = frozenset([LEAVE_ONE_OUT, BOUNDS])
    holds_rows = True

    # the kernel of the predicted variances
    kernel = property(lambda self: ConstantKernel(self.factor, "fixed") * self.prior)
    width = n_rows_kept = property(lambda self: len(self.X))  # all rows

    def mean(self, X, n_jobs=1):
        """Mean (n, p)."""

        def of_block(block):
            mean = 0.0
            for part in row_blocks(len(self.X), len(block)):
                K = kernels.evaluate(self.prior, block, float64(self.X[part]))
                mean = mean + K @ self.alpha[part]
            return mean

        return contract.by_blocks(of_block, X, slices(len(X), _ACROSS), n_jobs)

    def mean_and_variance(self, X, n_jobs=1):
        """Mean (n, p) and latent variance (n,)."""
        return self.mean(X, n_jobs), self.variance(X, self.nearest(X, n_jobs), n_jobs)

    def covariance(self, X):
        """Latent covariance (n, n)."""
        X, near = float64(X), self.nearest(X)
        used = near[:, : max(JOINT_ROWS // len(X), 1)]
        cov = self._covariance_given(X, np.unique(used))
        signal = kernels.diagonal(self.prior, X)[0]
        return contract.with_variances(cov, self.variance(X, near), signal)

    def leave_one_out(self, rows, chosen, terms, n_jobs=1):
        """`LeftOut` of chosen rows, whose variances are those that neighbours give.

        The mean is ``y - α/A``, with the diagonal A of ``(K + D)⁻¹`` from these variances. It is as
        exact as they are.
        """
        known = known_rows(rows)
        near = NeighborsPosterior.of(self.prior, known, _NEAREST, None, self.factor)
        variance = near.leave_one_out(rows, chosen, terms, n_jobs).variance / near.factor
        used = np.arange(len(rows)) if rows.weight is None else np.cumsum(rows.weight > 0) - 1
        place = used[chosen]  # the posterior has no other rows
        error = self.alpha[place] * (variance + self.noise[place])[:, None]
        return LeftOut(rows.block(chosen).y - error, self.factor * variance)

    def nearest(self, X, n_jobs=1):
        """Training rows (n, k) that are nearest to those of X, the leading ones left out."""
        most = min(_NEAREST, len(self.rest))
        if most == 0:
            return np.empty((len(X), 0), dtype=int)
        from sklearn.neighbors import NearestNeighbors  # an import that takes .1 s

        search = NearestNeighbors(n_neighbors=most, n_jobs=n_jobs)
        search.fit(kernels.in_units(self.prior, self.X[self.rest], self.scale))
        places = kernels.in_units(self.prior, X, self.scale)
        return self.rest[search.kneighbors(places, return_distance=False)]

    def variance(self, X, near, n_jobs=1):
        """Latent variance (n,) given the leading rows and those `near` each row of X (n, k)."""
        at_once = len(X) if len(self.X) <= _SEEN else _SEEN // _NEAREST
        strips = slices(len(X), at_once)
        parts = [self._variances(float64(X[some]), near[some], n_jobs) for some in strips]
        signal = np.broadcast_to(kernels.diagonal(self.prior, float64(X))[0], len(X))
        return self.factor * contract.without_negative(np.concatenate(parts), signal)

    def _variances(self, X, near, n_jobs):
        """Latent variances of queries, which share the features of the rows near to any."""
        rows, places = np.unique(near, return_inverse=True)
        places = places.reshape(near.shape)
        V = np.empty((len(rows), self.features.size))

        def fill(strip):
            V[strip] = self._with_features(self.X[rows[strip]])[1]

        def of_few(few):
            return self._given_nearest(X[few], near[few], V[places[few]])

        for_each(fill, slices(len(rows), _STRIP), n_jobs)
        return np.concatenate(list(ordered_map(of_few, slices(len(X), _QUERIES), n_jobs)))

    def _given_nearest(self, X, near, V):
        """Variances of few queries, given features (n, k, m) of the rows near to each."""
        X, VX = self._with_features(X)
        C, across = -(V @ V.transpose(0, 2, 1)), -(V @ VX[:, :, None])
        points = np.hstack([float64(self.X[near]), X[:, None]])
        K, _ = kernels.linearize_stack(self.prior, points)
        C += K[:, :-1, :-1]
        across += K[:, :-1, -1:]
        squares = np.sum(self._halves(C, near, across) ** 2, axis=(1, 2))
        return self.features.residual_variance(X, VX, kernels.diagonal(self.prior, X)[0]) - squares

    def _halves(self, C, near, across):
        """`_half` of every query: all at once, unless one of them needs jitter."""
        noisy = C.copy()
        np.einsum("nii->ni", noisy)[:] += self.noise[near]
        try:
            return np.linalg.solve(np.linalg.cholesky(noisy), across)
        except np.linalg.LinAlgError:
            return np.array([self._half(*of_one) for of_one in zip(C, near, across)])

    def _covariance_given(self, X, rows):
        X, VX = self._with_features(X)
        cov = self.features.residual_covariance(X, VX)
        if len(rows) == 0:
            return cov
        known, V = self._with_features(self.X[rows])
        C = self.features.residual_covariance(known, V)
        half = self._half(C, rows, (kernels.evaluate(self.prior, known, X) - V @ VX.T))
        return cov - half.T @ half

    def _with_features(self, X):
        X = float64(X)
        return X, self.features.whiten(self.features.raw(X))

    def _half(self, C, rows, across):
        """``L⁻¹ across`` with ``L Lᵀ = C + D``.

        Jitter is in units of the prior, whose rounding is in C. More noise than there is can only
        enlarge the variance that follows.
        """
        unit = np.mean(kernels.diagonal(self.prior, float64(self.X[rows]))[0])
        C.flat[:: len(C) + 1] = np.maximum(C.diagonal(), 0.0) + self.noise[rows]
        L = jittered_cholesky(C / unit, Jitter(0.0, relative=False))[0]
        return solve_triangular(L, across, lower=True, check_finite=False) / np.sqrt(unit)


_LEADING = 2000  # rows of the preconditioner of the solve


def upper_bound(kernel, features, rows, n_jobs, *, tol, max_iter, report=None):
    """The bound for the standardised targets, and the residual of the solve, relative.

    It is the upper bound of Titsias (2014) on the exact log marginal likelihood, for given theta.
    With ``K̂ = K + D``, ``Q = V Vᵀ`` of some inducing points, and any ``v``,

        log p(y) = -½ [ n log 2π + log |K̂| + yᵀ K̂⁻¹ y ]

        2 yᵀv - vᵀK̂v   ≤   yᵀ K̂⁻¹ y,     log |Q + D|   ≤   log |K̂|

    The first inequality is exact at ``v = K̂⁻¹ y``, and the second one holds as ``K̂ ⪰ Q + D``.

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
    square = np.vdot(y + solution.residual, solution.x)  # 2 yᵀv - vᵀ(y - e), e = y - K̂v
    return -0.5 * (y.shape[1] * (constant + log_det) + square), solution.relative

"""The rows nearest to any points, predictions given these, and rows that are left out.

For a row x and the rows N that are near to it, with noise variances ``D = σ²/weight``,

    A = K_NN + D = L Lᵀ,    w = A⁻¹ k_N,    a = A⁻¹ y_N,    m = k_Nᵀ a,    v = k(x, x) - k_Nᵀ w.

A prediction takes O(k³) time, however many rows there are. Nearest is in units of the length
scales. `LeaveOneOut` has the objective, `SiteRows` rows with Gaussian sites, and
`NeighborsPosterior` the predictions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel

from skgp_sparse import kernels
from skgp_sparse.data.dataset import Batch, Dataset
from skgp_sparse.data.moments import Distinct
from skgp_sparse.engine import posterior as contract
from skgp_sparse.engine.posterior import Posterior, RowTerms, Slopes
from skgp_sparse.ground import linalg
from skgp_sparse.ground.linalg import SMALLEST_PRECISION
from skgp_sparse.ground.parallel import empty, openmp_threads, ordered_map, slices
from skgp_sparse.ground.validation import AnyArray, Array, Bools, Index, Ints, Pair

_FEW_COLUMNS = 7.0  # that matter, up to which a tree is faster than all distances
_TIES = 12  # rows beyond the last one that is wanted, among which there may be as near ones
_SHARE_OF_MEMORY = 1 / 4  # of the working memory, in which the rows of a source become arrays


class NearestRows:
    """Finds the rows nearest to any points; of equally far rows, the one that comes first."""

    def __init__(self, X: Array) -> None:
        self.n = len(X)
        self.varies = np.ptp(X, axis=0) > 0 if len(X) else np.ones(X.shape[1], dtype=bool)
        self.varies[:1] |= not self.varies.any()
        self.common = X[0, ~self.varies] if len(X) else np.zeros(0)
        X = X if self.varies.all() else np.ascontiguousarray(X[:, self.varies])
        spread = X.var(axis=0) if len(X) else np.ones(X.shape[1])
        columns = spread.sum() ** 2 / max(np.sum(spread**2), linalg.TINY)
        is_tree, self.X = columns <= _FEW_COLUMNS, X
        self.tree = cKDTree(X, balanced_tree=False, compact_nodes=False) if is_tree else None

    def nearest(self, Q: Array, k: int, n_jobs: int = 1) -> tuple[Ints, Array]:
        """Numbers of the rows (q, k) that are nearest to the points Q (q, d), and distances."""
        wanted = min(k + _TIES, self.n)
        if not wanted:
            return np.empty((len(Q), 0), dtype=int), np.empty((len(Q), 0))
        apart = ((Q[:, ~self.varies] - self.common) ** 2).sum(axis=1)  # from all rows alike
        Q = Q if self.varies.all() else np.ascontiguousarray(Q[:, self.varies])
        if self.tree is not None:
            distances, rows = self.tree.query(Q, k=[*range(1, wanted + 1)], workers=n_jobs)
        else:
            from sklearn.neighbors import NearestNeighbors  # an import that takes .1 s

            search = NearestNeighbors(n_neighbors=wanted, algorithm="brute", n_jobs=n_jobs)
            with openmp_threads(n_jobs, len(Q) * self.n):
                distances, rows = search.fit(self.X).kneighbors(Q)
        # ties are decided by the number of the row
        order = np.lexsort((rows, distances.astype(np.float32)), axis=1)[:, :k]
        distances = np.take_along_axis(distances, order, axis=1)
        return np.take_along_axis(rows, order, axis=1), np.sqrt(distances**2 + apart[:, None])


# Rows that coincide are one row of their mean target, whose weight is the sum of theirs, so that
# k rows are k distinct places.
class DistinctRows(NamedTuple):
    """Rows of which no two coincide, unless their known noise differs."""

    X: np.ndarray  # (u, d), of the type of the user's
    y: np.ndarray  # (u, p) mean of the standardised targets
    noise: np.ndarray  # (u,) known noise variance
    weight: np.ndarray  # (u,)
    index: Any  # (n,) the distinct row of every row; None: every row is distinct
    first: Any = None  # (u,) the first row with weight of every distinct row

    def of(self, rows: Index) -> Any:
        """The distinct rows of some rows."""
        return rows if self.index is None else self.index[rows]

    def a_row_of(self, distinct: Ints) -> Any:
        """A row of each of some distinct rows."""
        return distinct if self.first is None else self.first[distinct]

    def variances(self, kernel: Kernel) -> Array:
        """Variances D (u,) of the noise, that of the kernel included."""
        return (kernels.diagonal(kernel, self.X)[1] + self.noise) / self.weight


def known_rows(table: Dataset, memory: float = np.inf) -> DistinctRows:
    """The rows of a table as `DistinctRows`; raises where they take too much of the memory."""
    if not table.in_memory:
        if 8 * len(table) * (table.n_features + table.n_targets) > _SHARE_OF_MEMORY * memory:
            raise ValueError(
                f"posterior='neighbors' keeps rows in memory, and {len(table)} rows of a source "
                "take more than a quarter of working_memory. Raise it by sklearn.set_config, or "
                "set posterior='inducing'."
            )
        table = table.subset(np.arange(len(table)))
    return distinct_rows(table.stored_inputs(), table.everything())


def distinct_rows(X: Array, block: Batch) -> DistinctRows:
    """`DistinctRows` of a `Batch` with the user's inputs; weight zero belongs to the first one."""
    n = len(X)
    noise, weight = (np.array(np.broadcast_to(c, n), float) for c in (block.noise, block.weight))
    used = weight > 0
    some = slice(None) if used.all() else used
    same = Distinct(X[some], noise[some], is_sorted=False)
    if len(same.first) == n:
        return DistinctRows(X, block.y, noise, weight, None)
    first, group = np.flatnonzero(used)[same.first], np.zeros(n, dtype=np.intp)
    group[used] = same.index
    total = np.bincount(group, weight, minlength=len(first))
    sums = [np.bincount(group, weight * column, minlength=len(first)) for column in block.y.T]
    y = np.stack(sums, axis=1) / total[:, None]
    return DistinctRows(X[first], y, noise[first], total, group, first)


_BLOCK = 1 << 18  # entries of the kernel matrices of a block, whose memory is used again


class LocalPrediction(NamedTuple):
    """Predictive mean, variance and prior variance of each row, given a few other rows."""

    mean: np.ndarray  # (s, p) m
    variance: np.ndarray  # (s,) v, latent; not negative but for rounding
    signal: np.ndarray  # (s,) k(x, x)


def block_size(k: int) -> int:
    """Number of rows that are predicted together, each from k others."""
    return max(_BLOCK // (k + 1) ** 2, 8)


def krige(kernel: Kernel, P: Array, y: Array, noise: Array) -> LocalPrediction:
    """`LocalPrediction` of the last rows of point sets (s, k + 1, d), given the others, at once."""
    return _solve(kernels.linearize_stack(kernel, P)[0], y, noise)[0]


# With ``u = (-w; 1)`` and ``b = (a; 0)``, and K of the rows of N and x, the last one,
#
#     dv = uᵀ dK u + w² · dD,    dm = uᵀ dK b - (w a) · dD,    dm = w · dy,
#
# so that the cotangent of K is of rank two.
#
# The pullback is ``(g_mean (s, p), g_variance (s,), inputs) -> (theta_bar, P_bar, noise_bar)``.
def linearise(kernel: Kernel, P: Array, y: Array, noise: Array) -> tuple:
    """`LocalPrediction` as of `krige`, and its pullback."""
    K, pull = kernels.linearize_stack(kernel, P)
    local, L, V = _solve(K, y, noise)
    return local, partial(_pull, pull, L, V)


def _solve(K: Array, y: Array, noise: Array) -> tuple[LocalPrediction, Array, Array]:
    """The `LocalPrediction`, the factor L, and ``L⁻¹ (k_N, y_N)``."""
    A, across, signal = K[:, :-1, :-1], K[:, :-1, -1:], K[:, -1, -1]
    L, V = linalg.whitened(A, np.concatenate([across, y], axis=2), signal.mean(), noise)
    h, z = V[:, :, 0], V[:, :, 1:]
    mean, variance = np.einsum("sk,skp->sp", h, z), signal - np.einsum("sk,sk->s", h, h)
    low = variance < contract.ROUNDED * signal
    if low.any():  # see `ExactPosterior`
        w = linalg.back_substituted(L[low], V[low, :, :1])[:, :, 0]
        variance[low] = np.maximum(variance[low], (noise[low] * w**2).sum(axis=1))
    return LocalPrediction(mean, variance, signal), L, V


def _pull(
    pull: Callable, L: Array, V: Array, g_mean: Array, g_variance: Array, inputs: bool
) -> tuple:
    """Gradients wrt theta and points, and of noise (s, k), from those of means and variances."""
    X = linalg.back_substituted(L, V)
    u = np.append(-X[:, :, 0], np.ones((len(X), 1)), axis=1)
    q = g_variance[:, None] * u
    q[:, :-1] += np.einsum("skp,sp->sk", X[:, :, 1:], g_mean)
    noise_bar = u[:, :-1] * q[:, :-1]
    q *= 0.5
    G = empty((*u.shape, u.shape[1]))
    np.matmul(np.stack([u, q], axis=2), np.stack([q, u], axis=1), out=G)
    return *pull(G, inputs), noise_bar


_WEIGHT_TOLERANCE = 1e-9  # of a row's weight
Sample = tuple[Any, ...]  # numbers (s,) of rows, how often they count, and maybe weights of all
W = Array | None  # (r, d), where inputs are seen as ``W x``
Density = Callable[..., tuple] | None  # as `normal_densities`, which None stands for
Matrices = list | None  # kernel matrices of blocks, if they are known


# The objective is the leave-one-out log density of local kriging, a composite likelihood (Besag
# 1975; Vecchia 1988; Sundararajan and Keerthi 2001):
#
#     J = Σ_i w_i log N(y_i; m_i, v_i + d_i),
#
# with mean and variance ``m_i``, ``v_i`` given the neighbours N(i) of row i, and its noise
# ``d_i``. Inputs may be seen in a metric, ``x -> W x``. The gradient comes from the pullback of
# `linearise`, and slopes ``e/v`` and ``-1/(2v) + e²/(2v²)``, where v includes the noise and
# ``e = y - m``.
class LeaveOneOut(NamedTuple):
    """Rows that are left out, one at a time, and those that are near to each of them."""

    X: np.ndarray  # (r, d) inputs of all of them, float64
    own: np.ndarray  # (s,) index into X of the row that is left out
    near: np.ndarray  # (s, k) indices into X of those that are near to it
    y: np.ndarray  # (s, p)
    noise: np.ndarray  # (s,) known noise variance
    count: Any  # (s,) w, how often the row counts
    y_near: np.ndarray  # (s, k, p)
    noise_near: np.ndarray  # (s, k)
    weight_near: np.ndarray  # (s, k)

    def take(self, rows: Index) -> "LeaveOneOut":
        """Subset of the rows that are left out; the inputs X are shared."""
        return type(self)(self.X, *(column[rows] for column in self[1:]))

    def share(self, total: float) -> float:
        """How many rows each one that is left out stands for, if there are `total` of them."""
        return total / self.count.sum()

    def blocks(self) -> list["LeaveOneOut"]:
        """Views of blocks of the rows, whose kernel matrices are few enough."""
        return [*map(self.take, slices(len(self.near), block_size(self.near.shape[1])))]

    def together(self) -> Ints:
        """Indices (s, k + 1) into X of those near to a row, and of the row."""
        return np.column_stack([self.near, self.own])

    # In a metric they are offsets from the row, before and after it: kernels are stationary then.
    def points(self, metric: Array | None) -> Pair:
        """Point sets (s, k + 1, d): those near to a row, and the row."""
        P = np.take(self.X, self.together(), axis=0)
        if metric is None:
            return P, P
        P -= P[:, -1:]
        return P, np.matmul(P, metric.T, out=empty((*P.shape[:2], len(metric))))

    def linearise(self, kernel: Kernel, points: Array, noise: "_Noise") -> tuple:
        """`LocalPrediction` of the rows, and its pullback."""
        return linearise(kernel, points, self.y_near, noise.near(self))


# One factorisation serves several rows of a set, each of which is left out given all others
# (Rasmussen and Williams 2006, eq. 5.12), own noise D included in ``A = K + D``:
#
#     b_i = [A⁻¹]_ii,    v_i = 1/b_i - D_i,    m_i = y_i - [A⁻¹ y]_i/b_i.
#
# With ``u_i = A⁻¹ e_i/b_i``, which is one at i, and ``c_i = A⁻¹ y - [A⁻¹ y]_i u_i``, zero there,
#
#     dv_i = u_iᵀ dA u_i - dD_i,    dm_i = u_iᵀ dA c_i.
#
# Those that are left out come last, so that ``L⁻¹ e_i`` are columns of the inverse of the last
# triangle of L.
class LeaveOneOutSets(LeaveOneOut):
    """Sets of rows that are near to each other, of which the last g are left out, one at a time.

    `near` has all rows of a set (s, k + 1), and `own` (s, g) its last ones, with their targets
    (s, g, p), noise and counts (s, g).
    """

    def together(self) -> Ints:
        """Indices (s, k + 1) into X of the rows of a set."""
        return self.near

    def last_rows(self) -> LeaveOneOut:
        """The last row of every set, given all others."""
        own, y, noise, count = (c[:, -1] for c in (self.near, self.y, self.noise, self.count))
        of_near = (c[:, :-1] for c in (self.y_near, self.noise_near, self.weight_near))
        return LeaveOneOut(self.X, own, self.near[:, :-1], y, noise, count, *of_near)

    def linearise(self, kernel: Kernel, points: Array, noise: "_Noise") -> tuple:
        """`LocalPrediction` of the rows (s, g), and its pullback."""
        K, pull = kernels.linearize_stack(kernel, points)
        D, g = noise.near(self), self.own.shape[1]
        L, z = linalg.whitened(K, self.y_near, K[:, -1, -1].mean(), D)
        units = np.broadcast_to(np.eye(g), (len(D), g, g))
        T = linalg.back_substituted(L[:, -g:, -g:], units).transpose(0, 2, 1)
        b, a = np.einsum("sij,sij->sj", T, T), np.einsum("sij,sip->sjp", T, z[:, -g:])
        local = LocalPrediction(self.y - a / b[:, :, None], 1.0 / b - D[:, -g:], K[:, -1, -1])
        return local, partial(_pull_sets, pull, L, z, (T, b, a))


def _pull_sets(
    pull: Callable,
    L: Array,
    z: Array,
    of_last: tuple[Any, ...],
    g_mean: Array,
    g_variance: Array,
    inputs: bool,
) -> tuple:
    """Gradients wrt theta and points, and of noise (s, k + 1), where g rows are left out."""
    (T, b, a), g = of_last, g_variance.shape[1]
    units = np.pad(T, ((0, 0), (L.shape[1] - g, 0), (0, 0)))
    X = linalg.back_substituted(L, np.concatenate([units, z], axis=2))
    u = X[:, :, :g] / b[:, None]
    q = (g_variance - np.einsum("sgp,sgp->sg", a, g_mean))[:, None] * u
    q += np.matmul(X[:, :, g:], g_mean.transpose(0, 2, 1))
    q *= 0.5
    G = empty(L.shape)
    right = np.concatenate([q, u], axis=2).transpose(0, 2, 1)
    np.matmul(np.concatenate([u, q], axis=2), np.ascontiguousarray(right), out=G)
    noise_bar = np.einsum("skk->sk", G).copy()
    noise_bar[:, -g:] -= g_variance
    return *pull(G, inputs), noise_bar


# What coincides with a row that is left out stays near to it: where weights count rows, the rest of
# its own weight, too.
def left_out_sets(
    table: Dataset, distinct: DistinctRows, sample: Sample, nearest: Ints, g: int
) -> LeaveOneOutSets:
    """`LeaveOneOutSets` around rows, whose nearest distinct rows (s, k + 1) are known.

    Of every set, g rows are left out: the row itself, and one of each of the places next to it. If
    the sample has a third entry, weights of all rows, they count by these: rows held out count
    nothing there. Rows of the sample have positive weight.
    """
    rows, count, *of_all = sample
    g = min(g, nearest.shape[1])
    k = nearest.shape[1] - g
    places = np.column_stack([distinct.of(rows), nearest])
    is_own = np.column_stack([np.zeros(len(rows), dtype=bool), nearest == places[:, :1]])
    (places,) = _first_of(nearest.shape[1], is_own, places)
    chosen = np.column_stack([rows, distinct.a_row_of(places[:, 1:g])])
    block = table.block(chosen.ravel())
    noise, weight = (np.broadcast_to(c, chosen.size) for c in (block.noise, block.weight))
    noise, weight = noise.reshape(chosen.shape), weight.reshape(chosen.shape)
    target, share = block.y.reshape(*chosen.shape, -1), table.weight_left_out(weight)
    y, rest = distinct.y[places], distinct.weight[places]
    rest[:, :g] -= share
    is_empty = np.zeros(places.shape, dtype=bool)
    is_empty[:, :g] = rest[:, :g] <= _WEIGHT_TOLERANCE * share
    ratio = share / np.where(is_empty, 1.0, rest)[:, :g]
    y[:, :g] += ratio[:, :, None] * (y[:, :g] - target)
    others, y, rest = _first_of(k, is_empty, places, y, rest)
    inside, near = np.unique(others, return_inverse=True)
    X = np.concatenate([distinct.X[inside], block.X], dtype=np.float64)
    own = np.arange(len(inside), len(X)).reshape(chosen.shape)
    counted = np.maximum(of_all[0][chosen], 0.0) if of_all else weight
    count = count[:, None] * (counted / counted[:, :1])
    y_near, noise_near = np.hstack([y, target]), np.hstack([distinct.noise[others], noise])
    near, weight_near = np.hstack([near.reshape(others.shape), own]), np.hstack([rest, share])
    return LeaveOneOutSets(X, own, near, target, noise, count, y_near, noise_near, weight_near)


def _first_of(k: int, is_last: Bools, *columns: Array) -> list[Any]:
    """The first k entries (s, k) of arrays, in whose rows some entries have been put last."""
    order = np.argsort(is_last, axis=1, kind="stable")[:, :k]
    return [column[np.arange(len(order))[:, None], order] for column in columns]


def value(
    kernel: Kernel, rows: LeaveOneOut, metric: W = None, n_jobs: int = 1, densities: Density = None
) -> float:
    """J, of normal densities or of others; see `normal_densities`."""
    densities, noise = densities or normal_densities, _Noise(kernel, rows.X)

    def of_block(block: LeaveOneOut) -> float:
        local, _ = block.linearise(kernel, block.points(metric)[1], noise)
        return densities(block, local, noise.own(block))[0]

    return sum(ordered_map(of_block, rows.blocks(), n_jobs))


def value_and_gradient(
    kernel: Kernel, rows: LeaveOneOut, metric: W = None, n_jobs: int = 1, densities: Density = None
) -> tuple:
    """J, and its gradients wrt theta and, unless it is None, wrt the metric W (r, d)."""
    densities, noise = densities or normal_densities, _Noise(kernel, rows.X)

    def of_block(block: LeaveOneOut) -> tuple:
        P, transformed = block.points(metric)
        local, pull = block.linearise(kernel, transformed, noise)
        J, g_mean, g_variance = densities(block, local, noise.own(block))
        theta_bar, P_bar, near_bar = pull(g_mean, g_variance, metric is not None)
        noise_bar = noise.bar(block, near_bar, g_variance)
        if metric is None:
            return J, noise_bar, theta_bar, 0.0
        return J, noise_bar, theta_bar, P_bar.reshape(-1, len(metric)).T @ P.reshape(-1, P.shape[2])

    results = ordered_map(of_block, rows.blocks(), n_jobs)
    J, noise_bar, theta_bar, metric_bar = map(sum, zip(*results))
    return J, theta_bar + noise.pull(np.asarray(noise_bar)), metric_bar


def moments(
    kernel: Kernel, rows: LeaveOneOut, metric: W = None, n_jobs: int = 1, matrices: Matrices = None
) -> Pair:
    """Mean (s, p) and variance (s,), noise included, of rows left out; `matrices` may be known."""
    noise = _Noise(kernel, rows.X)

    def of_block(pair: tuple) -> Pair:
        block, K = pair
        K = kernels.linearize_stack(kernel, block.points(metric)[1])[0] if K is None else K
        local = _solve(K, block.y_near, noise.near(block))[0]
        return local.mean, local.variance + noise.own(block)

    return contract.joined(of_block, list(zip(rows.blocks(), matrices or repeat(None))), n_jobs)


def kernel_matrices(kernel: Kernel, rows: LeaveOneOut, metric: W, n_jobs: int = 1) -> list:
    """Kernel matrices of the rows, a stack (b, k + 1, k + 1) for each block; no target matters."""
    of_block = lambda block: kernels.linearize_stack(kernel, block.points(metric)[1])[0]
    return [*ordered_map(of_block, rows.blocks(), n_jobs)]


def normal_densities(block: LeaveOneOut, latent: LocalPrediction, noise: Array) -> tuple:
    """Σ w log N(y; m, v) over rows and targets, and its slopes in m (s, p) and v (s,)."""
    v, e, n_targets = latent.variance + noise, block.y - latent.mean, block.y.shape[-1]
    squares, w = np.einsum("...p,...p->...", e, e), block.count
    J = np.vdot(-0.5 * w, n_targets * (np.log(v) + linalg.LOG_2PI) + squares / v)
    return J, (w / v)[..., None] * e, 0.5 * w * (squares / v - n_targets) / v


class _Noise:
    """Noise variances of rows left out and of those near to them, white noise once for each row."""

    def __init__(self, kernel: Kernel, X: Array) -> None:
        _, learned, self._pull = kernels.diagonal(kernel, X)
        self.learned = np.broadcast_to(learned, len(X))

    def near(self, block: LeaveOneOut) -> Array:
        """Noise variances D (s, k) of the rows that are near, divided by their weights."""
        return (self.learned[block.near] + block.noise_near) / block.weight_near

    def own(self, block: LeaveOneOut) -> Array:
        """Noise variances (s,) of the rows that are left out."""
        return self.learned[block.own] + block.noise

    def bar(self, block: LeaveOneOut, near_bar: Array, own_bar: Array) -> AnyArray:
        """The cotangent (r,) of the white noise, from those of D and of the rows left out."""
        bar = np.bincount(block.own.ravel(), own_bar.ravel(), minlength=len(self.learned))
        near_bar = near_bar / block.weight_near
        bar += np.bincount(block.near.ravel(), near_bar.ravel(), minlength=len(self.learned))
        return bar

    def pull(self, bar: Array) -> Array:
        """The gradient wrt theta."""
        return self._pull(np.zeros(len(bar)), bar)[0]


_PLACES_PER_SEARCH = 1 << 14  # places whose neighbours are looked for together
_PRECISION_TOLERANCE = 1e-9  # of a precision, that is left where a row is alone at its place


# A place where rows i have the sites ``(λ1, λ2)_i`` and the weights w has the sum of these,
#
#     λ1 = Σ w λ1_i,    λ2 = Σ w λ2_i,    target λ1/λ2,    noise 1/λ2,
#
# which is all that `krige` takes. A place where no row says anything (``λ2 = 0``) has next to
# endless noise. What is left at the place of a row without one copy of it is near to this row,
# too.
class SiteRows(NamedTuple):
    """Rows at places, and the places that are near to each of these."""

    X: np.ndarray  # (u, d) distinct places, float64
    place: np.ndarray  # (n,) of every row
    y: np.ndarray  # (n, p) observations
    offset: Any  # (n,) known, of the latent value
    weight: Any  # (n,)
    near: Ints | Any = None  # (u, k + 1) places near to a place, itself included; None: ...
    search: Any = None  # ... k and points, by which they are looked for when they are asked for
    relative: bool = False  # as of `Dataset`

    @classmethod
    def of(cls, rows: Dataset) -> tuple["SiteRows", DistinctRows]:
        """`SiteRows` of the rows with weight, and `DistinctRows` of them in the user's numbers."""
        block = rows.everything()
        used = np.broadcast_to(block.weight, len(rows)) > 0
        X, block = rows.stored_inputs(), block.used()
        distinct = distinct_rows(X if used.all() else X[used], block)
        place = distinct.of(np.arange(len(block.X)))
        X = np.asarray(distinct.X, dtype=np.float64)
        return cls(X, place, block.y, block.offset, block.weight, relative=rows.relative), distinct

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.y)

    def with_neighbors(self, k: int, X: Array, n_jobs: int) -> "SiteRows":
        """A copy where places have k others as neighbours, near in `scaled_inputs` X (u, r)."""
        near = self._replace(search=(k, X))._near_to(np.arange(len(X)), n_jobs)
        return self._replace(near=near, search=None)

    def _near_to(self, own: Ints, n_jobs: int = 1) -> Ints:
        """Places (s, k + 1) near to some, itself included."""
        if self.search is None:
            return self.near[own]
        k, X = self.search
        search, k = NearestRows(X), min(k + 1, len(X))
        near = np.empty((len(own), k), dtype=np.int32)
        for some in slices(len(own), _PLACES_PER_SEARCH):
            near[some] = search.nearest(X[own[some]], k, n_jobs)[0]
        return near

    def at_places(self, sites: Array) -> Array:
        """Sums (2, u) of the sites (2, n) of the rows at every place."""
        return np.stack([np.bincount(self.place, self.weight * one, len(self.X)) for one in sites])

    # Its targets (s, p + 1) are observations and offsets.
    def left_out(self, rows: Index, sites: Array, total: Array) -> LeaveOneOut:
        """`LeaveOneOut` of some rows, given all sites (2, n) and their sums `at_places`."""
        own, weight = self.place[rows], self.weight[rows]
        near, share = self._near_to(own), weight if self.relative else np.minimum(weight, 1.0)
        here = near == own[:, None]
        linear, precision = total[:, near] - here * (share * sites[:, rows])[:, :, None]
        silent = precision <= here * _PRECISION_TOLERANCE * total[1][near] + SMALLEST_PRECISION
        targets, noise = targets_and_noise(*np.where(silent, 0.0, [linear, precision]))
        y = np.column_stack([self.y[rows], self.offset[rows]])
        ones, known = np.ones(near.shape), np.zeros(len(own))
        return LeaveOneOut(self.X, own, near, y, known, weight, targets[:, :, None], noise, ones)


def targets_and_noise(linear: Array, precision: Array) -> Pair:
    """Targets and noise of places from their sites."""
    noise = 1.0 / np.maximum(precision, SMALLEST_PRECISION)
    return linear * noise, noise


_ROWS_LEFT_OUT = 1 << 13  # rows that are left out together, given their neighbours
_LEAST_VARIANCE = 1e-12  # of the prior's, from which correlations are computed


#     mean = k_Nᵀ a,     var = k(x, x) - k_Nᵀ w,     (K_NN + D_N) (w, a) = (k_N, y_N),
#
# with ``D = σ²/weight``. A prediction takes O(k³) time, however many rows there are. Joint
# covariances have the correlations given all rows that are near to any of the queries, and the
# variances above.
@dataclass(frozen=True, eq=False)
class NeighborsPosterior(Posterior):
    """The process given the nearest rows."""

    prior: Kernel  # of the process before any data, in the metric
    rows: DistinctRows
    noise: Array  # (u,) D
    k: int  # rows that a prediction is given
    scale: Array  # (r,) units in which near is near, in the metric
    metric: Array | None = None  # W (r, d), where inputs are seen as ``W x``
    factor: float = 1.0  # of all variances: ``factor * prior`` has the same mean

    name = "neighbors"
    answers = frozenset([contract.LEAVE_ONE_OUT, contract.GRADIENTS])
    holds_rows = True

    @classmethod
    def of(
        cls, prior: Kernel, rows: DistinctRows, k: int, metric: W = None, factor: float = 1.0
    ) -> "NeighborsPosterior":
        """Posterior given known rows, near in units of the length scales of the kernel."""
        scale = contract.scale_of(prior, metric, rows.X.shape[1])
        return cls(prior, rows, rows.variances(prior), min(k, len(rows.X)), scale, metric, factor)

    # the kernel of the predicted variances
    kernel = property(lambda self: ConstantKernel(self.factor, "fixed") * self.prior)
    width = property(lambda self: (self.k + 1) ** 2)
    n_rows_kept = property(lambda self: len(self.rows.X))

    def mean(self, X: AnyArray, n_jobs: int = 1) -> Array:
        """Mean (n, p)."""
        return self.mean_and_variance(X, n_jobs)[0]

    def mean_and_variance(self, X: AnyArray, n_jobs: int = 1) -> Pair:
        """Mean (n, p) and latent variance (n,)."""

        def of_queries(some: slice) -> tuple[Any, ...]:
            near, Q = self.around(X[some], n_jobs), X[some]

            def of_block(block: slice) -> LocalPrediction:
                P, rows = self._together(near[block], Q[block]), near[block]
                return krige(self.prior, P, self.rows.y[rows], self.noise[rows])

            return contract.joined(of_block, slices(len(Q), block_size(near.shape[1])), n_jobs)

        mean, variance, signal = contract.joined(of_queries, slices(len(X), _PLACES_PER_SEARCH), 1)
        return mean, self.factor * contract.without_negative(variance, signal)

    def covariance(self, X: AnyArray) -> Array:
        """Latent covariance (n, n)."""
        known = np.unique(self.around(X)[:, : max(contract.JOINT_ROWS // len(X), 1)])
        Q, N = (contract.in_metric(self.metric, rows) for rows in (X, self.rows.X[known]))
        cov, across = kernels.evaluate(self.prior, Q, Q), kernels.evaluate(self.prior, N, Q)
        A, unit = kernels.evaluate(self.prior, N, N), np.mean(cov.diagonal())
        A.flat[:: len(A) + 1] += self.noise[known]
        L = linalg.jittered_cholesky(A / unit, linalg.Jitter(0.0, relative=False))[0]
        half = np.linalg.solve(L, across) / np.sqrt(unit)
        cov -= half.T @ half
        variance = self.mean_and_variance(X)[1]
        ratio = np.sqrt(variance / np.maximum(cov.diagonal(), _LEAST_VARIANCE * unit))
        cov *= ratio * ratio[:, None]
        cov.flat[:: len(cov) + 1] = variance
        return cov

    def left_out(self, rows: Dataset, some: Sample, k: int, n_jobs: int, g: int = 1) -> LeaveOneOut:
        """Rows that are left out given k others; where g is not one, sets of so many."""
        near = self.around(rows.block(some[0]).X, n_jobs, k + 1)
        sets = left_out_sets(rows, self.rows, some, near, g)
        return sets if g > 1 else sets.last_rows()

    def leave_one_out(self, rows: Dataset, chosen: Ints, terms: RowTerms, n_jobs: int = 1) -> Pair:
        """Moments of chosen rows, each given the nearest others."""
        if terms.cavities is not None:
            mean, variance = terms.cavities(chosen)
            return mean[:, None], variance

        def of_block(some: slice) -> Pair:
            numbers, block = chosen[some], rows.block(chosen[some])
            left = self.left_out(rows, (numbers, np.ones(len(numbers))), self.k, n_jobs)
            mean, variance = moments(self.prior, left, self.metric, n_jobs)
            own = kernels.diagonal(self.prior, block.X)[1] + block.noise
            return mean, self.factor * np.maximum(variance - own, 0.0)

        return contract.joined(of_block, slices(len(chosen), _ROWS_LEFT_OUT), 1)

    def gradients(self, X: AnyArray, latent: bool, n_jobs: int = 1) -> Slopes:
        """`Slopes` at the rows of X, the neighbours held: predictions jump where others come."""
        X = contract.float64(X)
        rows, near, metric = self.rows, self.around(X, n_jobs), self.metric

        def of_block(some: slice) -> Slopes:
            places = near[some]
            P, y, noise = self._together(places, X[some]), rows.y[places], self.noise[places]
            local, n_targets = krige(self.prior, P, y, noise), y.shape[2]

            def slope(g_mean: Array, g_variance: float) -> Array:
                pull = linearise(self.prior, P, y, noise)[1]
                _, P_bar, _ = pull(np.tile(g_mean, (len(P), 1)), np.full(len(P), g_variance), True)
                return P_bar[:, -1] if metric is None else P_bar[:, -1] @ metric

            own = np.full(len(P), 0.0 if latent else 1.0)
            _, learned, pull_diagonal = kernels.diagonal(self.kernel, X[some])
            variance_slope = pull_diagonal(np.zeros(len(P)), own, inputs=True)[1]
            variance_slope = variance_slope + self.factor * slope(np.zeros(n_targets), 1.0)
            variance = self.factor * np.maximum(local.variance, 0.0) + own * learned
            each = [slope(target, 0.0) for target in np.eye(n_targets)]
            return Slopes(local.mean, variance, np.stack(each, axis=1), variance_slope)

        return Slopes(*contract.joined(of_block, slices(len(X), block_size(near.shape[1])), n_jobs))

    def with_fewer_neighbors(self, most: int) -> "NeighborsPosterior":
        """A copy of the posterior that predicts from at most so many neighbours."""
        return self if self.k <= most else replace(self, k=most)._searching_as(self)

    def with_noise_of(self, prior: Kernel) -> "NeighborsPosterior":
        """A copy of the posterior with a prior of other noise, whose near rows are the same."""
        return replace(self, prior=prior, noise=self.rows.variances(prior))._searching_as(self)

    def given(self, table: Dataset) -> "NeighborsPosterior":
        """The posterior given the rows of another table."""
        return self.of(self.prior, known_rows(table), self.k, self.metric, self.factor)

    def _searching_as(self, other: "NeighborsPosterior") -> "NeighborsPosterior":
        """The posterior, which shares the search of another one."""
        vars(self)["search"] = other.search
        return self

    def around(self, X: AnyArray, n_jobs: int = 1, k: int | None = None) -> Ints:
        """Numbers (n, k) of the distinct rows that are nearest to the rows of X."""
        places = contract.scaled_inputs(self.prior, self.metric, self.scale, X)
        return self.search.nearest(places, k or self.k, n_jobs)[0]

    @cached_property
    def search(self) -> NearestRows:
        """Search for the rows that are nearest to points."""
        return NearestRows(contract.scaled_inputs(self.prior, self.metric, self.scale, self.rows.X))

    def __getstate__(self) -> dict[str, object]:
        return {name: one for name, one in vars(self).items() if name != "search"}

    def _together(self, near: Ints, X: AnyArray) -> Array:
        """Neighbours and queries (n, k + 1, r), in a metric around the query."""
        P = np.concatenate([self.rows.X[near], X[:, None]], axis=1, dtype=float)
        return P if self.metric is None else (P - P[:, -1:]) @ self.metric.T

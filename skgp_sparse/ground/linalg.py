"""Dense linear algebra on arrays: factors of a matrix or of many, and products with triangles.

A positive definite matrix ``K`` enters every formula through its Cholesky factor, ``K + jitter I =
L Lᵀ``. Where hyperparameters are learned, ``T = L⁻¹`` enters, too: the triangular inverse costs
``m³/3`` once, and every O(n m²) step is a product then, which is quicker than a triangular solve.
Errors of ``k Tᵀ`` are of order ``eps ‖T‖ ‖k‖``. Predictions solve with L. The error of
``v = L⁻¹ k`` changes ``‖v‖²`` by some ``eps ‖L‖ ‖v‖ ‖K⁻¹ k‖`` only, which is small where weights
``K⁻¹ k`` are, however tiny the noise is: variances keep their digits. The factors themselves are
computed in tiles, by products of tiles: LAPACK's own threads would wait for the slowest core, and
round differently for every number of them.

Matrices come one at a time, but for `whitened` and `back_substituted`, which take many small ones.
"""

import ctypes as ct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
from scipy.linalg import cython_blas, lapack

from skgp_sparse.ground.parallel import empty, for_each, slices, worth
from skgp_sparse.ground.validation import AnyArray, Array, Pair, Scalars

NO_EFFECT = 1e30  # spread of a constant column whose later values should have no effect
_TILE = 128  # rows and columns of the blocks in which products are computed
_STRIP = 256  # rows that are divided by a triangle together
_FOR_LAPACK = 384  # columns up to which one LAPACK call is faster than tiles
_ILL_CONDITIONED = 1e2  # estimate of a tile's condition from which digits matter
_QUOTIENT = 32  # columns of the smaller tiles in which rows are divided by a triangle
_FEW_ROWS = 16  # up to which one call of BLAS divides them faster
_LARGEST_JITTER = 1e-2
_NO_NYSTROM = "The Nyström matrix is not finite or definite. Raise alpha or the noise bounds."

_address_of = ct.PYFUNCTYPE(ct.c_void_p, ct.py_object, ct.c_char_p)(
    ("PyCapsule_GetPointer", ct.pythonapi)
)
_name_of = ct.PYFUNCTYPE(ct.c_char_p, ct.py_object)(("PyCapsule_GetName", ct.pythonapi))


# NumPy lacks products and quotients with a triangle in place, and ``scipy.linalg.blas`` holds the
# interpreter lock, so that threads over blocks of rows would wait for each other. The routines are
# called by the address that SciPy gives to Cython code (``scipy.linalg.cython_blas``), as Numba
# does.
def _routine(name: str, n_arguments: int) -> Callable[..., None]:
    """A BLAS routine whose arguments are addresses."""
    capsule = cython_blas.__pyx_capi__[name]
    return ct.CFUNCTYPE(None, *[ct.c_void_p] * n_arguments)(_address_of(capsule, _name_of(capsule)))


# side, triangle, transposition, diagonal, rows, columns, factor, T and A with strides
_dtrmm, _dtrsm = _routine("dtrmm", 11), _routine("dtrsm", 11)
# transpositions, rows, columns, inner, factor, A and B with strides, factor, C with stride
_dgemm = _routine("dgemm", 13)
_ONE, _MINUS_ONE = ct.byref(ct.c_double(1.0)), ct.byref(ct.c_double(-1.0))


@dataclass(frozen=True)
class Jitter:
    """Amount that is added to the diagonal before a Cholesky factorisation."""

    start: float = 1e-8  # tried first, then multiplied by 10 until the factorisation succeeds
    relative: bool = True  # a share of the mean of the diagonal, with which it has a derivative

    def amounts(self) -> Iterator[float]:
        """Amounts to try, smallest first."""
        yield self.start
        amount = max(10 * self.start, 1e-12)
        while amount <= _LARGEST_JITTER:
            yield amount
            amount *= 10


def jittered_cholesky(K: Array, jitter: Jitter, n_jobs: int = 1) -> tuple[Array, float]:
    """Lower Cholesky factor of ``K + amount I``, and the first amount that succeeds."""
    diagonal = K.diagonal()
    unit = (diagonal.mean() or 1.0) if jitter.relative else 1.0
    for amount in jitter.amounts():
        L = np.array(K, order="C")
        np.einsum("ii->i", L)[:] = diagonal + amount * unit
        if _factorise(L, n_jobs):
            return L, amount
        if not np.isfinite(np.tril(K)).all():
            break
    raise_indefinite(K, amount, "mean diagonal" if jitter.relative else "diagonal")


def raise_indefinite(K: Array, amount: float, of: str) -> NoReturn:
    """Raise the error that says why a kernel matrix has no factor, with so much of it added."""
    if not np.isfinite(np.tril(K)).all():
        raise np.linalg.LinAlgError(
            "The kernel matrix contains NaN or infinite values. Check X and the kernel bounds."
        )
    raise np.linalg.LinAlgError(
        f"The kernel matrix is not positive definite, even with {amount:.0e} of its {of} added. "
        "Use a positive definite kernel, or raise the noise variance (with a WhiteKernel or "
        "'alpha')."
    )


# Rounding of large eigenvalues, those of rows without noise, may outweigh the identity. As much
# as it takes is added then. With `failure`, it is what the error says: B may be indefinite.
def cholesky(B: Array, n_jobs: int = 1, failure: str | None = None) -> Array:
    """Lower Cholesky factor of a matrix that is at least the identity."""
    unit = np.finfo(float).eps * np.trace(B)  # rounding of the sum of eigenvalues
    for amount in (0.0,) if failure else (0.0, 1.0, 1e1, 1e2, 1e3):
        L = np.array(B, order="C")
        np.einsum("ii->i", L)[:] += amount * unit
        if _factorise(L, n_jobs):
            return L
    raise np.linalg.LinAlgError(failure or _NO_NYSTROM)


# For few columns: LAPACK holds the interpreter lock.
def log_det_and_whitened(A: Array, b: Array) -> tuple[float, Array] | None:
    """``log |A|`` and ``L⁻¹ b``, A overwritten; None if ``A = L Lᵀ`` fails."""
    L, info = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    if info != 0 or not np.isfinite(L.diagonal()).all():
        return None
    return log_det_from_cholesky(L), lapack.dtrtrs(L, b, lower=1)[0] if len(L) else b


def inverse_lower(L: Array, n_jobs: int = 1) -> Array:
    """Inverse of a lower triangular matrix; rows of I are divided by it, shared by threads."""
    if len(L) <= _FOR_LAPACK:
        return _inverse_of_tile(L)
    L, T = np.ascontiguousarray(L, dtype=np.float64), np.eye(len(L))

    def fill(rows: slice) -> None:
        _substitute_halves(T[rows, : rows.stop], L[: rows.stop, : rows.stop], b"N")

    # the one that takes longest first
    for_each(fill, slices(len(L), _STRIP)[::-1], worth(n_jobs, L.size))
    return T


def inverse_from_triangle(T: Array, n_jobs: int = 1) -> Array:
    """``(L Lᵀ)⁻¹ = Tᵀ T`` from ``T = L⁻¹``, both triangles."""
    return mirror_lower(lower_gram(T, n_jobs))


def lower_gram(T: Array, n_jobs: int = 1) -> Array:
    """The lower triangle of ``Tᵀ T`` for lower triangular T; what is above it has no meaning."""
    return _lower_product(T, T, n_jobs)


def congruence(S: Array, T: Array, n_jobs: int = 1) -> Array:
    """``Tᵀ S T`` for symmetric S and lower triangular T."""
    return mirror_lower(_lower_product(T, square_times_lower(S, T, n_jobs), n_jobs))


def mirror_lower(A: Array) -> Array:
    """Symmetric matrix of a lower triangle, filled in place."""
    for rows in slices(len(A), _TILE):
        square = A[rows, rows]
        square[:] = np.where(np.tri(len(square), dtype=bool), square, square.T)
        A[: rows.start, rows] = A[rows, : rows.start].T
    return A


def times_lower(A: Array, T: Array, out: Array | None = None) -> Array:
    """``A T`` for lower triangular T; in `out` if given, which may be A."""
    return _in_place(partial(_with_triangle, _dtrmm), A, T, out, b"N")


def times_lower_transposed(A: Array, T: Array, out: Array | None = None) -> Array:
    """``A Tᵀ`` for lower triangular T; in `out` if given, which may be A."""
    return _in_place(partial(_with_triangle, _dtrmm), A, T, out, b"T")


def over_lower(A: Array, L: Array, out: Array | None = None) -> Array:
    """``A L⁻¹`` for lower triangular L, by substitution; in `out` if given, which may be A."""
    return _in_place(_substitute_halves, A, L, out, b"N")


def over_lower_transposed(A: Array, L: Array, out: Array | None = None) -> Array:
    """``A L⁻ᵀ`` for lower triangular L, by substitution; in `out` if given, which may be A."""
    return _in_place(_substitute_halves, A, L, out, b"T")


def square_times_lower(S: Array, T: Array, n_jobs: int) -> Array:
    """``S T`` for square S and lower triangular T, tiles of rows shared by threads."""
    out = np.empty(S.shape)
    change = lambda rows: times_lower(S[rows], T, out[rows])
    for_each(change, slices(len(S), _TILE), worth(n_jobs, S.size))
    return out


def product_norms(A: Array, T: Array) -> Array:
    """``‖T a_i‖²`` for every row a_i of A and lower triangular T."""
    TA = times_lower_transposed(A, T)
    return row_dots(TA, TA)


def weighted_gram(V: Array, a: Scalars) -> Array:
    """``Vᵀ diag(a) V`` as rank-k updates; `a` is a scalar, or an array of any signs."""
    if not isinstance(a, np.ndarray) or a.ndim == 0:
        return a * (V.T @ V)
    if np.all(a >= 0):
        return _gram_of_scaled(V, a)
    positive = a > 0
    return _gram_of_scaled(V[positive], a[positive]) - _gram_of_scaled(V[~positive], -a[~positive])


def row_dots(A: Array, B: Array) -> Array:
    """``sum_j A_ij B_ij`` for every row i."""
    return np.einsum("ij,ij->i", A, B)


def log_det_from_cholesky(L: Array) -> float:
    """``log |L Lᵀ|``."""
    return 2.0 * np.log(L.diagonal()).sum()


def _gram_of_scaled(V: Array, a: Array) -> Array:
    scaled = np.multiply(V, np.sqrt(a)[:, None], out=empty(V.shape))
    return scaled.T @ scaled  # NumPy recognises A.T @ A and calls syrk


def _in_place(change: Callable, A: Array, T: Array, out: Array | None, op: bytes) -> Array:
    """A, multiplied or divided by triangular T or Tᵀ (`op` N or T), in `out` or a new array."""
    out = empty(A.shape) if out is None else out
    T = np.ascontiguousarray(T, dtype=np.float64)
    if not (out.flags.carray and out.dtype == np.float64 and T.shape == 2 * A.shape[1:]):
        raise ValueError("A product needs a C-ordered array of float64 whose shape matches T.")
    if out is not A:
        out[:] = A
    if out.size:  # BLAS and LAPACK print a message about empty matrices
        change(out, T, op)
    return out


def _substitute_halves(A: Array, L: Array, op: bytes) -> None:
    """Divide A by L or Lᵀ in place: half of the columns, a fast product, and the other half."""
    if len(A) <= _FEW_ROWS:
        _with_triangle(_dtrsm, A, L, op)
    elif len(L) <= _QUOTIENT:
        tile = np.tril(L)
        T = _inverse_of_tile(tile)
        A[:] = _times_inverse(A, tile.T, T.T) if op == b"T" else _times_inverse(A, tile, T)
    else:
        half = max(len(L) // (2 * _QUOTIENT), 1) * _QUOTIENT
        halves = slice(0, half), slice(half, None)
        now, later = halves if op == b"T" else halves[::-1]
        _substitute_halves(A[:, now], L[now, now], op)
        _subtract_product(A[:, later], A[:, now], L[half:, :half], op)
        _substitute_halves(A[:, later], L[later, later], op)


def _with_triangle(routine: Callable[..., None], A: Array, T: Array, op: bytes) -> None:
    """Call dtrmm or dtrsm on rows of A; Fortran reads rows as columns, Aᵀ and the upper Tᵀ."""
    m, n = _int(len(T)), _int(len(A))
    routine(b"L", b"U", op, b"N", m, n, _ONE, T.ctypes.data, _stride(T), A.ctypes.data, _stride(A))


def _subtract_product(C: Array, A: Array, B: Array, op: bytes) -> None:
    """``C -= A B`` or ``C -= A Bᵀ``, as `op` is N or T."""
    sizes = _int(C.shape[1]), _int(len(C)), _int(A.shape[1])
    factors = B.ctypes.data, _stride(B), A.ctypes.data, _stride(A)
    _dgemm(op, b"N", *sizes, _MINUS_ONE, *factors, _ONE, C.ctypes.data, _stride(C))


def _int(number: int) -> object:
    return ct.byref(ct.c_int(number))


def _stride(A: Array) -> object:
    """Entries from row to row; NumPy gives a single row any stride."""
    return _int(max(A.strides[0] // A.itemsize, A.shape[1]))


def _lower_product(T: Array, A: Array, n_jobs: int) -> Array:
    """The lower triangle of ``Tᵀ A`` for lower triangular T."""
    out = np.empty(T.shape)

    def fill(rows: slice) -> None:
        tail = slice(rows.start, None)
        np.matmul(T[tail, rows].T, A[tail, : rows.stop], out=out[rows, : rows.stop])

    for_each(fill, slices(len(T), _TILE), worth(n_jobs, T.size))
    return out


# ``L11 = chol A11``, ``L21 = A21 L11⁻ᵀ``, ``L22 = chol(A22 - L21 L21ᵀ)``. Halves are cut at
# multiples of the tile, and rows are shared in tiles, whatever `n_jobs`.
def _factorise(A: Array, n_jobs: int) -> bool:
    """Turn A into its lower Cholesky factor, in place; whether that succeeded."""
    n_jobs = worth(n_jobs, A.size)
    if len(A) <= _FOR_LAPACK:
        factor, info = lapack.dpotrf(A.T, lower=0, clean=1)  # the transpose is Fortran-ordered
        A[:] = factor.T
        return bool(info == 0 and np.isfinite(A.diagonal()).all())
    half = -(-len(A) // (2 * _TILE)) * _TILE
    A11, A21, A22 = A[:half, :half], A[half:, :half], A[half:, half:]
    if not _factorise(A11, n_jobs):
        return False
    A[:half, half:] = 0.0

    def update(rows: slice) -> None:
        A22[rows, : rows.stop] -= A21[rows] @ A21[: rows.stop].T

    strips = slices(len(A22), _STRIP)
    for_each(lambda rows: _substitute_halves(A21[rows], A11, b"T"), strips, n_jobs)
    for_each(update, slices(len(A22), _TILE), n_jobs)
    return _factorise(A22, n_jobs)


def _times_inverse(A: Array, L: Array, T: Array) -> Array:
    """``A L⁻¹`` for triangular L, of which T is the inverse, refined where that lost digits."""
    product = A @ T
    if not is_well_conditioned(L, T):
        product += (A - product @ L) @ T
    return product


def is_well_conditioned(L: Array, T: Array) -> bool:
    """Whether products with T, the inverse of a triangle L, lose no digit that matters."""
    return bool(np.abs(T).max() * L.diagonal().max() <= _ILL_CONDITIONED)


def _inverse_of_tile(L: Array) -> Array:
    return np.ascontiguousarray(lapack.dtrtri(L, lower=1)[0] if len(L) else L)


_LARGE_DIAGONAL = 1e200  # C, whose size has no say in L and V


# NumPy factorises stacks outside the interpreter lock, but has no triangular solve for them.
# Forward substitution comes with the factorisation, of the matrix with the right-hand sides below
# it,
#
#     [A  B]   [L  0] [Lᵀ  V]
#     [Bᵀ C] = [Vᵀ *] [0   *],        V = L⁻¹ B,
#
# for any C that is large enough. Back substitution goes from column to column of all matrices.
#
# A matrix that is not positive definite gets jitter, as little as it takes.
def whitened(A: Array, B: Array, unit: float, noise: Scalars = 0.0) -> Pair:
    """``L`` and ``L⁻¹ B`` (s, k, c) of every matrix ``A + noise = L Lᵀ`` (s, k, k)."""
    s, k, c = B.shape
    corner = np.arange(k, k + c)
    bordered = empty((s, k + c, k + c))
    bordered[:, :k, :k] = A
    np.einsum("skk->sk", bordered)[:, :k] += noise
    bordered[:, k:, :k] = B.transpose(0, 2, 1)
    bordered[:, k:, k:] = 0.0
    bordered[:, corner, corner] = _LARGE_DIAGONAL
    try:
        L: AnyArray = np.linalg.cholesky(bordered)
    except np.linalg.LinAlgError:
        L = np.linalg.cholesky(_repaired(bordered, k, unit))
    return L[:, :k, :k], L[:, k:, :k].transpose(0, 2, 1)


def _repaired(bordered: Array, k: int, unit: float) -> Array:
    """Matrices, with jitter on the diagonal of those that have no factor without it."""
    for matrix in bordered:
        diagonal = np.einsum("kk->k", matrix)[:k]
        without = diagonal.copy()
        for amount in Jitter(0.0).amounts():
            diagonal[:] = without + amount * unit
            with suppress(np.linalg.LinAlgError):
                np.linalg.cholesky(matrix)  # by NumPy, which factorises the stack
                break
        else:
            raise_indefinite(matrix[:k, :k], amount, "variance")
    return bordered


def back_substituted(L: Array, V: Array) -> Array:
    """``L⁻ᵀ V`` (s, k, c) of every lower triangle (s, k, k)."""
    X = np.ascontiguousarray(V.transpose(1, 2, 0))  # passes are long, from matrix to matrix
    for j in range(len(X) - 1, -1, -1):
        X[j] /= L[:, j, j]
        X[:j] -= np.ascontiguousarray(L[:, j, :j].T)[:, None] * X[j]
    return X.transpose(2, 0, 1)


LOG_2PI = np.log(2.0 * np.pi)
TINY = np.finfo(float).tiny
SMALLEST_PRECISION = 1e-30  # of a Gaussian function that says nothing


# It is ``log N(y; mean, std²) = -½ [log 2π + ((y - mean)/std)²] - log std``.
def log_normal_density(y: Array, mean: Array, std: Array) -> Array:
    """Log density of numbers y, in nats; arrays of shapes that broadcast."""
    return -0.5 * (LOG_2PI + ((y - mean) / std) ** 2) - np.log(std)


def count_varying(spread: Array) -> int:
    """Count the columns that are not constant by their spreads (d,), or 1 where all are."""
    return max(int(np.count_nonzero(spread < NO_EFFECT)), 1)


def weighted_quantile(values: Array, weight: Array, q: Scalars) -> Any:
    """Quantiles of the shape of q, which are among the values (n,)."""
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    return values[order[np.searchsorted(total, q * total[-1])]]

"""Leaf kernels of this package: of levels of categories, of bits, and noise that varies.

Levels are whole numbers, the codes. With the correlation ρ of a column, two different levels have
the covariance ρ, and equal ones 1. The kernel of several columns is the product of those of each:
`agreement` says how much rows of levels agree. `Tanimoto` is a kernel of bits, such as the
fingerprints of molecules, and of counts. `HeteroscedasticNoise` is white noise whose variance
depends on the inputs, as `LogNoiseFunction` says.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np

from skgp_sparse.ground.parallel import empty, slices
from skgp_sparse.ground.validation import Array, ArrayLike, Ints, Kernel, NDArray, Scalars, as_text

from ._differentiable import DifferentiableKernel
from ._functions import evaluate, linearize, parts_by_columns
from ._nodes import Node, Pull, Pulled, White, assemble, no_gradient


class Tanimoto(DifferentiableKernel):
    r"""The Tanimoto kernel of bits or counts, as of molecular fingerprints.

    .. math:: k(x, z) = \frac{x \cdot z}{|x|^2 + |z|^2 - x \cdot z}.

    For bits, it is the share that two rows have in common of the bits that are set in either of
    them (the Jaccard index). It has no hyperparameters: multiply it by a `ConstantKernel`. It is
    positive definite for bits [1]_ and for all other numbers [2]_, so that inducing points move
    between rows. A row of zeros has the correlation 1 with itself, and 0 with all others.

    References
    ----------
    .. [1] Ralaivola, Swamidass, Saigo and Baldi (2005). Graph kernels for chemical informatics.
       Neural Networks 18, 1093-1110.
    .. [2] Tripp, Bacallado, Singh and Hernández-Lobato (2023). Tanimoto random features for
       scalable molecular machine learning. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.kernels import Tanimoto
    >>> bits = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    >>> Tanimoto()(bits).round(3)
    array([[1.   , 0.667, 0.   ],
           [0.667, 1.   , 0.   ],
           [0.   , 0.   , 1.   ]])
    """

    footprint = 1

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback, of points (..., n, d)."""
        X, Z = (np.asarray(one, np.result_type(one, np.float32)) for one in (X, Z))
        K, either = X @ np.swapaxes(Z, -1, -2), _squares(X, Z)
        either -= K
        np.divide(K, either, out=K, where=either > 0.0)
        K[either == 0.0] = 1.0  # of two rows of zeros
        return K, partial(_pull_tanimoto, X, Z, K)

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        """Return the values of ``k(P_i, P_i)`` for many small point sets, and their pullback."""
        K, pull = self.linearize(P, P)
        return K, partial(_pull_both, pull)

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return ``k(x, x)``, which is 1, and its pullback."""
        return 1.0, no_gradient


def _squares(X: Array, Z: Array) -> Array:
    """Return ``|x|² + |z|²`` of all pairs of points (..., n, d) and (..., m, d)."""
    return np.sum(X**2, axis=-1)[..., :, None] + np.sum(Z**2, axis=-1)[..., None, :]


def _pull_tanimoto(X: Array, Z: Array, K: Array, G: Array, inputs: bool) -> Pulled:
    """Gradients by ``dk/d(x.z) = (1 + k)² / s`` and ``dk/ds = -k (1 + k) / s`` of s = |x|²+|z|²."""
    if not inputs:
        return {}, 0.0
    total = _squares(X, Z)
    np.multiply(G, 1.0 + K, out=G)
    slope = np.divide(G, total, out=np.zeros_like(total), where=total > 0.0)
    own = np.einsum("...ij,...ij->...j", slope, K)
    slope *= 1.0 + K
    return {}, np.swapaxes(slope, -1, -2) @ X - 2.0 * own[..., None] * Z


def _pull_both(pull: Pull, G: Array, inputs: bool) -> Pulled:
    """Gradients of symmetric cotangents with respect to points that are both arguments."""
    gradients, bar = pull(G, inputs)
    return gradients, 2.0 * bar


_FARTHEST = 1e15  # code, beyond which there are no whole numbers
_WEIGHTS = 1e-14, 700.0  # whose correlations are neither 0 nor 1
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_BITS = _BITS.astype(float)  # (256, 8) of all bytes
_PAIRS_AT_ONCE = 1 << 18
_COLUMNS_ONE_BY_ONE = 2  # columns that are summed one by one


# It comes from the patterns in which rows differ. A bit for each column says whether two rows
# differ there, and eight columns make a byte. So few columns have only 256 products of
# correlations, which are read from a table:
#
#     Π_j (ρ_j + (1 - ρ_j) [a_j = b_j]) = Π_j ρ_j^[a_j ≠ b_j] = Π_g T_g[byte_g].
#
# The gradient with respect to ρ_j is a sum over the pairs that differ in column j, from the sums
# over the pairs of each byte. Neither depends on the number of levels.
#
# The pullback is ``pull(H) -> (q,)``, the gradient wrt log ρ, from ``H = G * K``.
def agreement(a: Ints, b: Ints, w: Array) -> tuple[Array, Callable[..., Array]]:
    """Return ``Π_j ρ_j^[a_j ≠ b_j]`` of codes (..., n, q), w = -log ρ (q,), and its pullback."""
    differences = _differences(a, b)
    exponents = np.zeros((len(differences), 8))
    exponents.reshape(-1)[: len(w)] = -w
    first, *others = np.exp(exponents @ _BITS.T)
    K = empty(differences.shape[1:])
    differences = differences.reshape(len(differences), -1)
    for part in slices(K.size, _PAIRS_AT_ONCE):
        product = K.reshape(-1)[part]
        np.take(first, differences[0, part], out=product, mode="clip")  # it checks no index
        for table, which in zip(others, differences[1:, part]):
            product *= np.take(table, which, mode="clip")
    return K, partial(_pull, differences, len(w))


def _correlations(theta: Array) -> Array:
    """Return the correlations of logarithms of weights: they are between 0 and 1 in any case."""
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(-np.clip(np.exp(theta), *_WEIGHTS))


# correlations are learned as log(-log ρ)
CORRELATION = (lambda rho: np.log(-np.log(np.asarray(rho, dtype=float)))), _correlations


def as_codes(X: Array) -> Ints:
    """Return codes as whole numbers; those beyond all whole numbers are one level."""
    codes = np.clip(np.rint(X), -_FARTHEST, _FARTHEST)
    codes[np.isnan(codes)] = -_FARTHEST
    return codes.astype(np.intp)


def _differences(a: Ints, b: Ints) -> NDArray[np.uint8]:
    """Bytes (g, ..., n, m) whose bits say in which columns, eight each, pairs of rows differ."""
    codes = (a,) if a is b else (a, b)
    low, high = min(int(c.min(initial=0)) for c in codes), max(int(c.max(initial=0)) for c in codes)
    narrow = np.min_scalar_type(high - low)  # which tells codes apart, though it may wrap them
    columns = [c.T.astype(narrow, order="C") for c in codes]  # (q, n) or (q, k, s)
    first, second = columns[0], columns[-1]
    (q, n), shape = first.shape[:2], second.shape[1:]
    found = np.zeros((-(-q // 8), n, *shape), dtype=np.uint8)
    for rows in slices(n, max(_PAIRS_AT_ONCE // max(prod(shape), 1), 1)):
        differ = np.empty(found[0, rows].shape, dtype=bool)
        for j in reversed(range(q)):
            byte = found[j // 8, rows]
            np.add(byte, byte, out=byte)
            np.not_equal(first[j, rows, None], second[j], out=differ)
            byte |= differ.view(np.uint8)
    return found if a.ndim == 2 else np.ascontiguousarray(np.moveaxis(found, -1, 1))


def _pull(differences: NDArray[np.uint8], q: int, H: Array) -> Array:
    H, slopes = H.reshape(-1), np.zeros(q)
    for part in slices(len(H), _PAIRS_AT_ONCE):
        for of_byte, which in zip(np.split(slopes, range(8, q, 8)), differences[:, part]):
            of_byte += _sums_by_bit(which, H[part], len(of_byte))
    return slopes


def _sums_by_bit(which: NDArray[np.uint8], H: Array, q: int) -> Any:
    """Sums of H (q,) over the pairs whose bytes have a bit."""
    if q <= _COLUMNS_ONE_BY_ONE:
        return [(which >> j & 1) @ H for j in range(q)]
    return np.bincount(which, H, 256) @ _BITS[:, :q]


class Categorical(DifferentiableKernel):
    r"""A kernel of the levels of a category, or of several ones.

    It takes a column of codes, which are whole numbers from 0 on, and is

    .. math:: k(a, b) = \rho + (1 - \rho)\, [a = b],

    so that all different levels have the correlation ρ, also those that were not seen in training.
    Put it into `Columns` to choose the column of the category. Of several columns it is the product
    over them, where each can have its own ρ: those with ρ near 1 hardly matter.

    Parameters
    ----------
    correlation : float or ndarray of shape (n_columns,), default=0.5
        The correlation ρ of different levels; an array has one for each column.
    correlation_bounds : pair of floats or "fixed", default=(1e-3, 0.999)
        The bounds of ρ.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.kernels import Categorical
    >>> codes = np.array([[0.0], [1.0], [2.0]])
    >>> Categorical(correlation=0.3)(codes)
    array([[1. , 0.3, 0.3],
           [0.3, 1. , 0.3],
           [0.3, 0.3, 1. ]])
    >>> Categorical(correlation=np.array([0.3, 0.9]))(np.array([[0, 0], [0, 1], [1, 1]]))
    array([[1.  , 0.9 , 0.27],
           [0.9 , 1.  , 0.3 ],
           [0.27, 0.3 , 1.  ]])
    """

    footprint = 2  # bytes of differences are less than an array for up to 64 columns
    takes_codes = True
    _transforms = {"correlation": CORRELATION}

    def __init__(
        self,
        correlation: ArrayLike = 0.5,
        correlation_bounds: tuple[float, float] | Literal["fixed"] = (1e-3, 0.999),
    ) -> None:
        self.correlation = correlation
        self.correlation_bounds = correlation_bounds

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback, without a gradient of codes."""
        a = self.codes(X)
        K, pull = agreement(a, a if Z is X else self.codes(Z), self.weights(a.shape[-1]))
        return K, partial(self._pull, K, pull)

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        """Return the values of ``k(P_i, P_i)`` and their pullback, without a gradient of codes."""
        return self.linearize(P, P)

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return ``k(x, x)``, which is 1, and its pullback."""
        return 1.0, no_gradient

    def codes(self, X: Array) -> Ints:
        """Return the codes of points (..., d) as whole numbers (..., d)."""
        rho = np.atleast_1d(self.correlation)
        if not (rho.ndim == 1 and np.all((rho > 0) & (rho < 1))):
            raise ValueError(
                "Categorical needs correlations between 0 and 1. Got "
                f"correlation={as_text(self.correlation)}."
            )
        d, expected = np.shape(X)[-1], np.size(self.correlation)
        if np.ndim(self.correlation) and expected != d:
            raise ValueError(
                f"{self} has correlations for {expected} columns, but the inputs have {d}. Choose "
                f"as many, as in Columns({self}, {list(range(expected))})."
            )
        return as_codes(X)

    def weights(self, d: int) -> Array:
        """Return minus the logarithms of the correlations of d columns."""
        return -np.log(np.broadcast_to(np.asarray(self.correlation, dtype=float), (d,)))

    def _pull(self, K: Array, pull: Callable[..., Array], G: Array, inputs: bool) -> Pulled:
        slopes = pull(np.multiply(G, K, out=G))
        slopes *= -self.weights(len(slopes))
        return {"correlation": slopes if np.ndim(self.correlation) else slopes.sum()}, 0.0


def categories(kernel: Kernel, d: int) -> list[tuple[Categorical, int]]:
    """Return the `Categorical` parts of a kernel of d columns, each with each of its columns."""
    found = parts_by_columns(kernel, d, Categorical)
    return [(part, int(column)) for part, columns in found for column in columns]


_ROWS_PER_BLOCK = 1 << 12  # rows


class HeteroscedasticNoise(DifferentiableKernel):
    r"""White noise whose variance varies with the inputs.

    .. math:: k(x, z) = [x \text{ and } z \text{ are the same row}] \, s \, e^{f(x)},

    with a level s, which is learned, and a function f of the inputs, which is given.
    `SparseGPRegressor` with ``noise="auto"`` or ``noise="learned"`` finds f, and puts this kernel
    in the place of the `WhiteKernel`.

    Parameters
    ----------
    log_factor : callable
        The function f: it takes inputs of shape (n, d) and returns an array of shape (n,).
        Gradients of predicted standard deviations need its method ``pull(X, bar)``, which returns
        the gradient of ``bar @ f(X)``.
    noise_level : float, default=1.0
        The variance s where f is 0.
    noise_level_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        Its bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import HeteroscedasticNoise
    >>> X = np.array([[0.0], [1.0]])
    >>> kernel = RBF() + HeteroscedasticNoise(lambda X: X[:, 0], noise_level=0.1)
    >>> kernel(X).round(3)
    array([[1.1  , 0.607],
           [0.607, 1.272]])

    Noise whose variance is known up to a factor:

    >>> from skgp_sparse import SparseGPRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(0, 4, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * np.exp(X[:, 0] / 2 - 2) * rng.normal(size=200)
    >>> model = SparseGPRegressor(kernel).fit(X, y)
    >>> model.noise_std([[0.0], [4.0]]).round(2)
    array([0.04, 0.29])
    """

    def __init__(
        self,
        log_factor: Callable[[Array], Array],
        noise_level: float = 1.0,
        noise_level_bounds: tuple[float, float] | Literal["fixed"] = (1e-5, 1e5),
    ) -> None:
        self.log_factor = log_factor
        self.noise_level = noise_level
        self.noise_level_bounds = noise_level_bounds

    def linearize(self, X: Array, Z: Array | None = None) -> tuple[Scalars, Pull]:
        """Return 0, the value without noise, and its pullback."""
        return 0.0, no_gradient

    linearize_diag = linearize

    def as_node(self) -> Node:
        """Return the node of this kernel, which is nothing but noise."""
        return HeteroscedasticNoiseNode(self)


class HeteroscedasticNoiseNode(White):
    """White noise whose variance varies with the inputs."""

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        variance = self.kernel.noise_level * np.exp(self.kernel.log_factor(X))

        def pull(g_signal: Array, g_noise: Scalars, inputs: bool) -> Pulled:
            of_log, log_factor = g_noise * variance, self.kernel.log_factor
            if inputs and not hasattr(log_factor, "pull"):
                raise TypeError(
                    f"log_factor={as_text(log_factor)} of HeteroscedasticNoise has no gradient "
                    "with respect to inputs. Give it pull(X, bar), the one of bar @ log_factor(X)."
                )
            theta_bar = assemble(self.kernel, {"noise_level": np.sum(of_log)})
            return theta_bar, log_factor.pull(X, of_log) if inputs else 0.0

        return 0.0, variance, pull


class LogNoiseFunction:
    """The function f of a `HeteroscedasticNoise`: the mean of a process, ``c + k(x, Z) u``.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel of the process, without white noise.
    Z : ndarray of shape (m, d)
        Its inducing points.
    u : ndarray of shape (m,)
        Weights of the kernel functions.
    mean : float
        The constant c.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse.kernels import LogNoiseFunction, HeteroscedasticNoise
    >>> f = LogNoiseFunction(RBF(), Z=np.zeros((1, 1)), u=np.ones(1), mean=0.0)
    >>> HeteroscedasticNoise(f, noise_level=0.1).diag([[0.0], [9.0]]).round(3)
    array([0.272, 0.1  ])
    """

    def __init__(self, kernel: Kernel, Z: Array, u: Array, mean: float) -> None:
        self.kernel, self.Z, self.u, self.mean = kernel, Z, u, mean

    def __call__(self, X: Array) -> Array:
        X = np.asarray(X, dtype=np.float64)
        blocks = slices(len(X), _ROWS_PER_BLOCK)
        parts = [evaluate(self.kernel, X[block], self.Z) @ self.u for block in blocks]
        return np.concatenate([np.zeros(0), *parts]) + self.mean

    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient of ``bar @ f(X)``.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, float64.
        bar : ndarray of shape (n,)
            Weights of the rows.

        Returns
        -------
        ndarray of shape (n, d)
            The gradient with respect to X.
        """
        return linearize(self.kernel, self.Z, X)[1](np.outer(self.u, bar), True)[1]

    def __eq__(self, other: object) -> bool:
        if type(other) is not LogNoiseFunction:
            return NotImplemented
        arrays = (self.Z, other.Z), (self.u, other.u), (self.mean, other.mean)
        same = all(np.array_equal(mine, its, equal_nan=True) for mine, its in arrays)
        return same and self.kernel == other.kernel

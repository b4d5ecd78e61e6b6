"""Functions of any kernel: values and pullbacks, and answers about its parts.

Each makes the tree of nodes of a kernel (`node`) and traverses it once. Only these functions
return full arrays: below, a value that is the same for all entries is a scalar.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, Sum

from skgp_sparse.ground.validation import Array, Bools, Ints, Scalars

from ._differentiable import node
from ._nodes import Opaque, Pull, Pulled, White, full

_Part = TypeVar("_Part", bound=Kernel)


def linearize(kernel: Kernel, X: Array, Z: Array) -> tuple[Array, Pull]:
    """Return the noise-free kernel matrix and its pullback.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.
    X : ndarray of shape (n, d)
        First point set, float64.
    Z : ndarray of shape (m, d)
        Second point set, float64.

    Returns
    -------
    K : ndarray of shape (n, m)
        The matrix ``k(X, Z)`` without white noise, even if points coincide. It is a C-contiguous
        float64 array. Do not modify it before you call the pullback, which may use it.
    pullback : callable
        The function ``pullback(G, inputs=True) -> (theta_bar, Z_bar)``. It returns the gradients
        of ``sum(G * K)`` with respect to ``kernel.theta`` and to `Z`. `Z_bar` is None if `inputs`
        is False. `G` is a float64 array of the shape of `K`, which the pullback **may
        overwrite**. Call the pullback at most once.

    Raises
    ------
    ValueError
        If the expression contains a CompoundKernel.
    TypeError
        If a kernel has no rule (see `differentiable`). The call ``pullback(G, inputs=True)``
        raises this error.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from skgp_sparse import kernels
    >>> X, Z = np.array([[0.0], [1.0]]), np.array([[0.0]])
    >>> K, pullback = kernels.linearize(RBF(1.0) + WhiteKernel(0.1), X, Z)
    >>> K.ravel().round(4).tolist()
    [1.0, 0.6065]
    >>> theta_bar, Z_bar = pullback(np.ones_like(K))
    >>> theta_bar.round(4).tolist(), Z_bar.round(4).tolist()
    ([0.6065, 0.0], [[0.6065]])
    """
    value, pull = node(kernel).linearize(X, Z)
    return full(value, (len(X), len(Z))), partial(_pull_cross, pull, Z.shape)


def _pull_cross(pull: Pull, shape: tuple[int, ...], G: Array, inputs: bool = True) -> Pulled:
    theta_bar, Z_bar = pull(G, inputs)
    return theta_bar, full(Z_bar, shape) if inputs else None


def evaluate(kernel: Kernel, X: Array, Z: Array) -> Array:
    """Return the noise-free kernel matrix ``k(X, Z)`` without a pullback.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X : ndarray of shape (n, d)
        First point set.
    Z : ndarray of shape (m, d)
        Second point set.

    Returns
    -------
    K : ndarray of shape (n, m)
        Noise-free kernel matrix. It is a new array.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from skgp_sparse import kernels
    >>> X = np.array([[0.0], [1.0]])
    >>> kernels.evaluate(RBF() + WhiteKernel(), X, X).round(2)
    array([[1.  , 0.61],
           [0.61, 1.  ]])
    """
    return full(node(kernel).evaluate(X, Z), (len(X), len(Z)))


def linearize_stack(kernel: Kernel, P: Array) -> tuple[Array, Pull]:
    """Return the noise-free kernel matrices of many small point sets, and their pullback.

    Where a matrix has a few thousand entries, a call of a function costs as much as its arithmetic,
    and threads wait for the interpreter. Here it happens once for the whole stack.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.
    P : ndarray of shape (s, k, d)
        Point sets, float64. Those of a set should be close to its first one, in units of their
        distances: the formulas lose as many digits as they are further away.

    Returns
    -------
    K : ndarray of shape (s, k, k)
        The matrices ``k(P_i, P_i)`` without white noise. Do not modify them before you call the
        pullback.
    pullback : callable
        The function ``pullback(G, inputs=True) -> (theta_bar, P_bar)``, as that of `linearize`.
        Every matrix of `G` must be symmetric. `P_bar`, of the shape of `P`, is the gradient with
        respect to the points as both arguments of the kernel.

    Raises
    ------
    TypeError
        If a kernel has no rule (see `differentiable`). The call ``pullback(G, inputs=True)``
        raises this error.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse import kernels
    >>> K, pullback = kernels.linearize_stack(RBF(1.0), np.array([[[0.0], [1.0]]]))
    >>> K.round(4).tolist()
    [[[1.0, 0.6065], [0.6065, 1.0]]]
    >>> theta_bar, P_bar = pullback(np.ones_like(K))
    >>> theta_bar.round(4).tolist(), P_bar.round(4).tolist()
    ([1.2131], [[[1.2131], [-1.2131]]])
    """
    value, pull = node(kernel).linearize(P, P)
    return full(value, (*P.shape[:2], P.shape[1])), partial(_pull_cross, pull, P.shape)


def diagonal(kernel: Kernel, X: Array) -> tuple[Scalars, Scalars, Pull]:
    """Return the diagonal ``k(x, x)``, separately its white noise, and the pullback.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X : ndarray of shape (n, d)
        Point set.

    Returns
    -------
    signal : float or ndarray of shape (n,)
        Noise-free ``k(x, x)``. It is a scalar if it is the same for all rows.
    noise : float or ndarray of shape (n,)
        Variance of the white noise, ``kernel.diag(X) - signal``.
    pullback : callable
        The function ``pullback(g_signal, g_noise, inputs=False) -> (theta_bar, X_bar)``. It
        returns the gradients of ``sum(g_signal * signal) + sum(g_noise * noise)``. `g_signal` and
        `g_noise` are arrays of shape (n,), which the pullback does not modify.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    >>> from skgp_sparse import kernels
    >>> kernel = ConstantKernel(2.0) * (RBF() + WhiteKernel(0.5))
    >>> signal, noise, pullback = kernels.diagonal(kernel, np.zeros((3, 1)))
    >>> signal, noise
    (2.0, 1.0)
    """
    signal, noise, pull = node(kernel).diagonal(X)
    return signal, noise, partial(_pull_diagonal, pull, X.shape)


def _pull_diagonal(
    pull: Pull, shape: tuple[int, ...], g_signal: Array, g_noise: Scalars, inputs: bool = False
) -> Pulled:
    theta_bar, X_bar = pull(g_signal, g_noise, inputs)
    return theta_bar, full(X_bar, shape) if inputs else None


def parts(kernel: Kernel, kind: type[_Part] | tuple[type[_Part], ...]) -> list[_Part]:
    """Return the parts of a kernel that are of a class, which may be the kernel itself."""
    return [one for one in (kernel, *kernel.get_params().values()) if isinstance(one, kind)]


def summands(kernel: Kernel) -> list[Kernel]:
    """Return the kernels whose sum it is: of the default one, a product, and what is added."""
    return [*summands(kernel.k1), *summands(kernel.k2)] if isinstance(kernel, Sum) else [kernel]


def parts_by_columns(kernel: Kernel, d: int, kind: type[_Part]) -> list[tuple[_Part, Ints]]:
    """Return the parts of a kernel that are of a class, each with the columns that it is given."""
    return [
        (part.kernel, columns)
        for part, columns in node(kernel).walk(np.arange(d))
        if isinstance(part.kernel, kind) and columns is not None
    ]


def has_noise(kernel: Kernel) -> bool:
    """Return whether the kernel expression has white noise, of one variance or of several.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
        True if a leaf of the expression is a `WhiteKernel` or a `HeteroscedasticNoise`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from skgp_sparse import kernels
    >>> kernels.has_noise(RBF()), kernels.has_noise(RBF() + WhiteKernel())
    (False, True)
    """
    return any(isinstance(part, White) for part, _ in node(kernel).walk(None))


def is_noisy(kernel: Kernel) -> bool:
    """Return whether a part has noise: white noise, or a `Missing` whose noise is not 0."""
    return any(part.noisy for part, _ in node(kernel).walk(None))


def differentiable(kernel: Kernel) -> bool:
    """Return whether ``k(X, Z)`` can be differentiated with respect to `Z`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
        True if every leaf has a rule.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, Matern
    >>> from skgp_sparse import kernels
    >>> kernels.differentiable(RBF() * Matern(nu=2.5)), kernels.differentiable(Matern(nu=0.7))
    (True, False)
    """
    return not any(isinstance(part, Opaque) for part, _ in node(kernel).walk(None))


def footprint(kernel: Kernel) -> int:
    """Return the largest number of (n, m) arrays that `linearize` keeps, including the value.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    int
        The number of arrays, which is at least 1.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgp_sparse import kernels
    >>> kernels.footprint(RBF()), kernels.footprint(RBF() + RBF())
    (1, 3)
    """
    return max(1, node(kernel).footprint())


def length_scales(kernel: Kernel, X_scale: Array) -> Array:
    """Return a length scale for each input column: the distance within which rows are near.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X_scale : ndarray of shape (d,)
        Standard deviations of the columns. They are returned for columns of which no kernel has a
        length scale.

    Returns
    -------
    ndarray of shape (d,)
        The values ``(sum of l^-2)^(-1/2)``, where the sum is over all leaves with a
        ``length_scale`` l.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, Matern
    >>> from skgp_sparse import kernels
    >>> kernels.length_scales(RBF([3.0, 1.0]) + Matern(4.0), np.ones(2)).round(4).tolist()
    [2.4, 0.9701]
    """
    scales = node(kernel).scales(len(X_scale))
    if not scales:
        return X_scale
    smallest = np.min(scales, axis=0)
    with np.errstate(invalid="ignore"):  # inf / inf of columns that no kernel sees
        together = smallest / np.sqrt(np.sum((smallest / scales) ** 2, axis=0))
    return np.where(np.isinf(smallest), X_scale, together)


# Those of kernels with a period, which are no lengths, count if `periodic`.
def length_scale_places(kernel: Kernel, d: int, periodic: bool = True) -> list[tuple[Ints, Ints]]:
    """Return positions in theta and columns of every leaf's length scales that are free."""
    return [
        (positions, columns)
        for name, positions, part, columns in _hyperparameters(kernel, np.arange(d))
        if name == "length_scale" and columns is not None
        if periodic or not hasattr(part, "periodicity")
    ]


def positions_of(kernel: Kernel, name: str) -> list[Ints]:
    """Return where the free hyperparameters of a name are in theta, an array for each."""
    found = _hyperparameters(kernel, None)
    return [positions for one, positions, *_ in found if one.split("__")[-1] == name]


def periods(kernel: Kernel, d: int) -> list[tuple[Ints, Ints, float]]:
    """Return positions in theta, columns and values of the periods that are free."""
    return [
        (positions, columns, float(cast(Any, part).periodicity))
        for name, positions, part, columns in _hyperparameters(kernel, np.arange(d))
        if name == "periodicity" and columns is not None
    ]


# a period moves so far that the phases of rows a standard deviation apart change by one
def units(kernel: Kernel, d: int, scale: Callable[[], Array]) -> Array:
    """Return lengths (p,) of sensible steps in theta: less for periods, given scales (d,)."""
    lengths = np.ones(len(kernel.theta))
    for positions, columns, period in periods(kernel, d):
        waves = np.linalg.norm(scale()[columns]) / period
        lengths[positions] = 1.0 / np.maximum(1.0, 2.0 * np.pi * waves)
    return lengths


def _hyperparameters(
    kernel: Kernel, columns: Ints | None
) -> Iterator[tuple[str, Ints, Kernel, Ints | None]]:
    """Yield name and positions in theta of what is free, with its part and the part's columns."""
    start = 0
    for part, own in node(kernel).walk(columns):
        for name, size in part.free():
            yield name, np.arange(start, start + size), part.kernel, own
            start += size


def touched(kernel: Kernel, d: int, but: str = "") -> Bools:
    """Return which of d columns matter to parts whose attribute of the name `but` is not true."""
    pairs = node(kernel).walk(np.arange(d), but)
    read = [part.inputs(own) for part, own in pairs if own is not None]
    return np.isin(np.arange(d), np.concatenate([np.arange(0), *read]))


def may_mix(kernel: Kernel) -> bool:
    """Return whether linear combinations of columns may take the place of the columns."""
    are_maps = (part.is_map for part, _ in node(kernel).walk(None))
    return kernel.is_stationary() and differentiable(kernel) and not any(are_maps)

"""The public functions, each of which traverses the tree of a kernel expression once."""

from __future__ import annotations

from functools import partial

import numpy as np

from ._nodes import node


def linearize(kernel, X, Z):
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
        The matrix ``k(X, Z)`` without white noise, even if points coincide.  It is a C-contiguous
        float64 array.  Do not modify it before you call the pullback, which may use it.
    pullback : callable
        The function ``pullback(G, inputs=True) -> (theta_bar, Z_bar)``.  It returns the gradients
        of ``sum(G * K)`` with respect to ``kernel.theta`` and to `Z`.  `Z_bar` is None if `inputs`
        is False.  `G` is a float64 array of the shape of `K`, which the pullback **may
        overwrite**.  Call the pullback at most once.

    Raises
    ------
    ValueError
        If the expression contains a CompoundKernel.
    TypeError
        If a kernel has no rule (see `differentiable`).  The call ``pullback(G, inputs=True)``
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
    value, pull = node(kernel).cross(X, Z)
    return _full(value, (len(X), len(Z))), partial(_pull_cross, pull, Z.shape)


def _pull_cross(pull, shape, G, inputs=True):
    theta_bar, Z_bar = pull(G, inputs)
    return theta_bar, _full(Z_bar, shape) if inputs else None


def evaluate(kernel, X, Z):
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
        Noise-free kernel matrix.
    """
    return linearize(kernel, X, Z)[0]


def diagonal(kernel, X):
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
        Noise-free ``k(x, x)``.  It is a scalar if it is the same for all rows.
    noise : float or ndarray of shape (n,)
        Variance of the white noise, ``kernel.diag(X) - signal``.
    pullback : callable
        The function ``pullback(g_signal, g_noise, inputs=False) -> (theta_bar, X_bar)``.  It
        returns the gradients of ``sum(g_signal * signal) + sum(g_noise * noise)``.  `g_signal` and
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
    signal, noise, pull = node(kernel).diag(X)
    return signal, noise, partial(_pull_diagonal, pull, X.shape)


def _pull_diagonal(pull, shape, g_signal, g_noise, inputs=False):
    theta_bar, X_bar = pull(g_signal, g_noise, inputs)
    return theta_bar, _full(X_bar, shape) if inputs else None


def has_noise(kernel):
    """Return whether the kernel expression contains a WhiteKernel.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
        True if a leaf of the expression is a WhiteKernel.
    """
    return any(leaf.noisy for leaf in node(kernel).leaves())


def differentiable(kernel):
    """Return whether ``k(X, Z)`` can be differentiated with respect to `Z`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
        True if every leaf has a rule.
    """
    return all(leaf.differentiable for leaf in node(kernel).leaves())


def footprint(kernel):
    """Return the largest number of (n, m) arrays that `linearize` keeps, including the value.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    int
        The number of arrays, which is at least 1.
    """
    return max(1, node(kernel).footprint())


def length_scales(kernel, X_scale):
    """Return a length scale for each input column, for the choice of inducing points.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X_scale : ndarray of shape (d,)
        Standard deviations of the columns.  They are returned if no kernel has a length scale.

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
    leaves = [leaf.kernel for leaf in node(kernel).leaves()]
    scales = [np.asarray(k.length_scale, float) for k in leaves if hasattr(k, "length_scale")]
    if not scales:
        return X_scale
    scales = np.stack([np.broadcast_to(scale, np.shape(X_scale)) for scale in scales])
    smallest = scales.min(axis=0)
    return smallest / np.sqrt(np.sum((smallest / scales) ** 2, axis=0))


def _full(value, shape):
    if np.ndim(value) == 0:
        return np.full(shape, float(value))
    return np.ascontiguousarray(value, dtype=np.float64)

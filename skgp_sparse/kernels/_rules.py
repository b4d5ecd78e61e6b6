"""The interface of a derivative rule, and the one place where theta is assembled.

A rule gives values and vector-Jacobian products of one leaf kernel.  For ``F = sum(G * k(X, Z))``
it answers ``{name: dF/dlog(name)}`` and ``dF/dZ``; it never counts positions in ``theta``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class KernelRule(ABC):
    """Values and vector-Jacobian products of one noise-free leaf kernel.

    A rule holds no state that changes: it is called from several threads at once.  Pass an
    instance to :func:`skgp_sparse.kernels.register`.

    Attributes
    ----------
    footprint : int
        How many ``(n, m)`` arrays `cross` keeps alive: its value and whatever its pullback holds.

    Examples
    --------
    The rule of ``k(x, z) = x . z``, which has no hyperparameters:

    >>> import numpy as np
    >>> from skgp_sparse.kernels import KernelRule
    >>> class LinearRule(KernelRule):
    ...     footprint = 1
    ...     def cross(self, kernel, X, Z):
    ...         return X @ Z.T, lambda G, inputs: ({}, G.T @ X)
    ...     def diag(self, kernel, X):
    ...         return np.sum(X**2, axis=1), lambda g, inputs: ({}, 2 * g[:, None] * X)
    >>> K, pull = LinearRule().cross(None, np.eye(2), np.array([[3.0, 4.0]]))
    >>> K.ravel()
    array([3., 4.])
    """

    footprint = 3

    @abstractmethod
    def cross(self, kernel, X, Z):
        """Return ``(K, pull)`` for two point sets.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Where the hyperparameters are read; must not be changed.
        X : ndarray of shape (n, d)
            First point set.
        Z : ndarray of shape (m, d)
            Second point set.

        Returns
        -------
        K : ndarray of shape (n, m), or scalar
            Noise-free kernel matrix; a scalar where it is constant.
        pull : callable
            ``pull(G, inputs) -> (gradients, Z_bar)``, called at most once.  `gradients` maps
            hyperparameter names to the gradient with respect to their logarithm (left out: 0).
            `Z_bar` has the shape of `Z`, or is the scalar 0; it is ignored if not `inputs`.
            `pull` may overwrite `G`, but not if `K` is a scalar.  It may be a closure, but then
            it cannot be pickled; a `functools.partial` of a module's function can.
        """

    @abstractmethod
    def diag(self, kernel, X):
        """Return ``(value, pull)`` for ``k(x, x)``.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Where the hyperparameters are read; must not be changed.
        X : ndarray of shape (n, d)
            Points.

        Returns
        -------
        value : ndarray of shape (n,), or scalar
            Noise-free ``k(x, x)``; a scalar where it is constant.
        pull : callable
            ``pull(g, inputs) -> (gradients, X_bar)`` with `g` of shape (n,), which may be
            read-only.
        """


def constant_diag(value):
    """Return the pair that `KernelRule.diag` owes when ``k(x, x)`` never changes."""
    return value, _pull_nothing


def _pull_nothing(g, inputs):
    return {}, 0.0


def assemble(kernel, gradients):
    """Return the gradient with respect to ``kernel.theta`` from gradients by name.

    Fixed hyperparameters are left out and missing ones are zero, in scikit-learn's order.
    """
    parameters = kernel.hyperparameters
    unknown = set(gradients) - {p.name for p in parameters}
    if unknown:
        raise ValueError(
            f"the rule of {type(kernel).__name__} returned gradients named {sorted(unknown)}, "
            f"but the kernel's hyperparameters are {[p.name for p in parameters]}"
        )
    return np.concatenate([np.zeros(0), *(_entry(p, gradients) for p in parameters if not p.fixed)])


def _entry(parameter, gradients):
    if parameter.name not in gradients:
        return np.zeros(parameter.n_elements)
    return np.reshape(gradients[parameter.name], parameter.n_elements)

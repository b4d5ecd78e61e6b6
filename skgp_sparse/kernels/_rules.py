"""The interface of derivative rules.

A rule computes values and vector-Jacobian products of one leaf kernel, which is a kernel that is
not a sum, product or power of other kernels.  For ``F = sum(G * k(X, Z))`` it returns
``{name: dF/dlog(name)}`` and ``dF/dZ``, so that it does not depend on the order of the
hyperparameters in ``theta``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]
Scalars = float | Array  # a number that all entries have, or an array
Pull = Callable[..., tuple[Any, Any]]  # from cotangents to gradients; see `KernelRule`


class KernelRule(ABC):
    """Base class of derivative rules: values and vector-Jacobian products of one leaf kernel.

    A rule must not have a mutable state, because it is called from several threads at the same
    time.  Pass an instance of the rule to :func:`skgp_sparse.kernels.register`.  A rule never
    includes white noise.

    Attributes
    ----------
    footprint : int
        Number of ``(n, m)`` arrays that are kept in memory after a call of `cross`: its value and
        the arrays that its pullback holds.

    Examples
    --------
    The following class is the rule of ``k(x, z) = x . z``, which has no hyperparameters:

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
    def cross(self, kernel: Kernel, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Kernel that holds the hyperparameters.  The rule must not change it.
        X : ndarray of shape (n, d)
            First point set.
        Z : ndarray of shape (m, d)
            Second point set.

        Returns
        -------
        K : ndarray of shape (n, m), or scalar
            Noise-free kernel matrix.  It may be a scalar if all entries are equal.
        pull : callable
            The pullback ``pull(G, inputs) -> (gradients, Z_bar)``, which is called at most once.
            `gradients` maps the names of hyperparameters to the gradients with respect to their
            logarithms.  A gradient that is missing is zero.  `Z_bar` has the shape of `Z`, or is
            the scalar 0.  It is ignored if `inputs` is False.  `pull` may overwrite `G`, except if
            `K` is a scalar.  If `pull` is a closure, it cannot be pickled.  A `functools.partial`
            of a function of a module can be pickled.
        """

    def value(self, kernel: Kernel, X: Array, Z: Array) -> Scalars:
        """Return the value of ``k(X, Z)`` alone, as `cross` does.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Kernel that holds the hyperparameters.  The rule must not change it.
        X : ndarray of shape (n, d)
            First point set.
        Z : ndarray of shape (m, d)
            Second point set.

        Returns
        -------
        ndarray of shape (n, m), or scalar
            Noise-free kernel matrix, which the caller may overwrite.
        """
        return self.cross(kernel, X, Z)[0]

    def stack(self, kernel: Kernel, P: Array) -> tuple[Scalars, Pull]:
        """Return the values of ``k(P_i, P_i)`` for many small point sets, and their pullback.

        This one calls `cross` for one set after the other.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Kernel that holds the hyperparameters.  The rule must not change it.
        P : ndarray of shape (s, k, d)
            Point sets.

        Returns
        -------
        K : ndarray of shape (s, k, k), or scalar
            Noise-free kernel matrices.
        pull : callable
            The pullback ``pull(G, inputs) -> (gradients, P_bar)`` of symmetric matrices `G`.
            `P_bar`, of the shape of `P`, is the gradient with respect to both arguments.
        """
        shape = (P.shape[1], P.shape[1])
        values, pulls = zip(*(self.cross(kernel, points, points) for points in P))
        return np.array([np.broadcast_to(K, shape) for K in values]), partial(_pull_each, pulls)

    @abstractmethod
    def diag(self, kernel: Kernel, X: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(x, x)`` for every row of X, and its pullback.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Kernel that holds the hyperparameters.  The rule must not change it.
        X : ndarray of shape (n, d)
            Point set.

        Returns
        -------
        value : ndarray of shape (n,), or scalar
            Noise-free ``k(x, x)``.  It may be a scalar if all entries are equal.
        pull : callable
            The pullback ``pull(g, inputs) -> (gradients, X_bar)``.  `g` has shape (n,) and may be
            read-only.
        """


def _pull_each(pulls: Any, G: Any, inputs: bool) -> tuple[dict[str, Any], Any]:
    """Pull back one set after the other; both arguments are the same points."""
    gradients, bars = zip(*(pull(of_one, inputs) for pull, of_one in zip(pulls, G)))
    total = {name: sum(one[name] for one in gradients) for name in gradients[0]}
    if not inputs:
        return total, 0.0
    return total, np.array([np.broadcast_to(2.0 * bar, bars[0].shape) for bar in bars])

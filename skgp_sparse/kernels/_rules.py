"""The contract of derivative rules, for kernels that cannot subclass `DifferentiableKernel`.

A rule computes values and vector-Jacobian products of one leaf kernel, which is a kernel that is
not a sum, product or power of other kernels. For ``F = sum(G * k(X, Z))`` it returns
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

    Kernels of your own need none: they subclass `DifferentiableKernel`, whose methods are those of
    a rule without the argument `kernel`. A rule is for a kernel class that cannot do so. Pass an
    instance of it to :func:`skgp_sparse.kernels.register`. It must not have a mutable state,
    because it is called from several threads at the same time. A rule never includes white noise.

    Attributes
    ----------
    footprint : int
        Number of ``(n, m)`` arrays that are kept in memory after a call of `linearize`: its value
        and the arrays that its pullback holds.

    Examples
    --------
    The following class is the rule of ``k(x, z) = x . z``, which has no hyperparameters:

    >>> import numpy as np
    >>> from skgp_sparse.kernels import KernelRule
    >>> class LinearRule(KernelRule):
    ...     footprint = 1
    ...     def linearize(self, kernel, X, Z):
    ...         return X @ Z.T, lambda G, inputs: ({}, G.T @ X)
    ...     def linearize_diag(self, kernel, X):
    ...         return np.sum(X**2, axis=1), lambda g, inputs: ({}, 2 * g[:, None] * X)
    >>> K, pull = LinearRule().linearize(None, np.eye(2), np.array([[3.0, 4.0]]))
    >>> K.ravel()
    array([3., 4.])
    """

    footprint = 3

    @abstractmethod
    def linearize(self, kernel: Kernel, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Kernel that holds the hyperparameters. The rule must not change it.
        X : ndarray of shape (n, d)
            First point set.
        Z : ndarray of shape (m, d)
            Second point set.

        Returns
        -------
        K : ndarray of shape (n, m), or scalar
            Noise-free kernel matrix. It may be a scalar if all entries are equal.
        pull : callable
            The pullback ``pull(G, inputs) -> (gradients, Z_bar)``, which is called at most once.
            `gradients` maps the names of hyperparameters to the gradients with respect to their
            logarithms. A gradient that is missing is zero. An array is the gradient with respect to
            ``kernel.theta``. `Z_bar` has the shape of `Z`, or is the scalar 0. It is ignored if
            `inputs` is False. `pull` may overwrite `G`, except if `K` is a scalar. If `pull` is a
            closure, it cannot be pickled. A `functools.partial` of a function of a module can be
            pickled.
        """

    def evaluate(self, kernel: Kernel, X: Array, Z: Array) -> Scalars:
        """Return the value of ``k(X, Z)`` alone, as `linearize` does.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Kernel that holds the hyperparameters. The rule must not change it.
        X : ndarray of shape (n, d)
            First point set.
        Z : ndarray of shape (m, d)
            Second point set.

        Returns
        -------
        ndarray of shape (n, m), or scalar
            Noise-free kernel matrix, which the caller may overwrite.
        """
        return self.linearize(kernel, X, Z)[0]

    def linearize_stack(self, kernel: Kernel, P: Array) -> tuple[Scalars, Pull]:
        """Return the values of ``k(P_i, P_i)`` for many small point sets, and their pullback.

        This one calls `linearize` for one set after the other.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Kernel that holds the hyperparameters. The rule must not change it.
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
        return linearize_each(partial(self.linearize, kernel), P)

    @abstractmethod
    def linearize_diag(self, kernel: Kernel, X: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(x, x)`` for every row of X, and its pullback.

        Parameters
        ----------
        kernel : sklearn.gaussian_process.kernels.Kernel
            Kernel that holds the hyperparameters. The rule must not change it.
        X : ndarray of shape (n, d)
            Point set.

        Returns
        -------
        value : ndarray of shape (n,), or scalar
            Noise-free ``k(x, x)``. It may be a scalar if all entries are equal.
        pull : callable
            The pullback ``pull(g, inputs) -> (gradients, X_bar)``. `g` has shape (n,) and may be
            read-only.
        """


def linearize_each(linearize: Callable[..., tuple[Scalars, Pull]], P: Array) -> tuple[Array, Pull]:
    """Return ``k(P_i, P_i)`` of point sets (s, k, d), one after the other, and their pullback."""
    shape = (P.shape[1], P.shape[1])
    values, pulls = zip(*(linearize(points, points) for points in P))
    return np.array([np.broadcast_to(K, shape) for K in values]), partial(_pull_each, pulls)


def _pull_each(pulls: tuple[Pull, ...], G: Array, inputs: bool) -> tuple[Any, Any]:
    """Gradients of one set after the other; both arguments are the same points."""
    gradients, bars = zip(*(pull(of_one, inputs) for pull, of_one in zip(pulls, G)))
    if isinstance(gradients[0], dict):
        total = {name: sum(one[name] for one in gradients) for name in gradients[0]}
    else:
        total = sum(gradients)
    if not inputs:
        return total, 0.0
    return total, np.array([np.broadcast_to(2.0 * bar, bars[0].shape) for bar in bars])


def constant_diag(value: float) -> tuple[float, Pull]:
    """Return the result of `KernelRule.linearize_diag` for a constant ``k(x, x)``."""
    return value, no_gradient


def no_gradient(g: Array, inputs: bool) -> tuple[dict[str, Any], float]:
    """Pullback of a value that depends on nothing."""
    return {}, 0.0


def full(value: Scalars, shape: tuple[int, ...]) -> Array:
    """Return an array of a shape, from one or from the number that all entries have."""
    if np.ndim(value) == 0:
        return np.full(shape, float(value))
    return np.ascontiguousarray(value, dtype=np.float64)

"""Kernels of inputs that are seen through a map: chosen columns, places on a sphere.

A mapped kernel is ``k(x, z) = k'(m(x), m(z))``, with another kernel k' and a map m, mostly without
hyperparameters of its own. It is valid wherever k' is. Gradients with respect to the inputs go back
through the map.
"""

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from ._nodes import Node, node
from ._rules import Array, Bools, Ints, Pull, Scalars


class MappedKernel(Kernel):
    """Base class of kernels of inputs that are seen through a map.

    The hyperparameters are those of `kernel`, with "kernel__" before their names.
    """

    @abstractmethod
    def see(self, X: Array) -> Array:
        """Return ``m(x)`` of points (..., d), as an array (..., d')."""

    @abstractmethod
    def pull(self, X: Array, bar: Any) -> Array:
        """Return the gradient with respect to points (..., d) from that of ``m(x)`` (..., d')."""

    @abstractmethod
    def sources(self, columns: Ints) -> Ints | None:
        """Return the columns that ``m(x)`` consists of; None if it mixes them."""

    @abstractmethod
    def width(self, d: int) -> int:
        """Return the number d' of columns that `kernel` sees of d."""

    @abstractmethod
    def scales(self, scale: Any, d: int) -> Array:
        """Return length scales (d,) from those of ``m(x)`` (d',); inf where it sees nothing."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters of this kernel.

        Parameters
        ----------
        deep : bool, default=True
            Whether the parameters of `kernel` are included.

        Returns
        -------
        dict
            Values by name.
        """
        params = super().get_params(deep=False)
        if deep:
            inner = self.kernel.get_params().items()
            params.update((f"kernel__{name}", value) for name, value in inner)
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Those of `kernel`."""
        return [
            Hyperparameter(f"kernel__{one.name}", one.value_type, one.bounds, one.n_elements)
            for one in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> Any:
        """Logarithms of the free hyperparameters."""
        return self.kernel.theta

    @theta.setter
    def theta(self, theta: Array) -> Any:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Array:
        """Their bounds."""
        return self.kernel.bounds

    @property
    def requires_vector_input(self) -> bool:
        """True, because a map sees vectors."""
        return True

    def is_stationary(self) -> bool:
        """Return whether `kernel` is stationary."""
        return self.kernel.is_stationary()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, its = self.get_params(deep=False), other.get_params(deep=False)
        return all(_listed(mine[name]) == _listed(its[name]) for name in mine)

    def __call__(self, X: Array, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix ``k(X, Y)``, and its gradient if that is wanted.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d), default=None
            None means `X`.
        eval_gradient : bool, default=False
            Whether the gradient with respect to theta is returned. `Y` must be None then.

        Returns
        -------
        K : ndarray of shape (n, m)
        K_gradient : ndarray of shape (n, n, p)
            Only if `eval_gradient` is True.
        """
        Y = None if Y is None else self.see(np.atleast_2d(Y))
        return self.kernel(self.see(np.atleast_2d(X)), Y, eval_gradient)

    def diag(self, X: Array) -> Array:
        """Return ``k(x, x)`` of every row of X.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.kernel.diag(self.see(np.atleast_2d(X)))


def _listed(value: Any) -> list[Any]:
    is_several = isinstance(value, (tuple, list, np.ndarray)) and np.ndim(value)
    return [_listed(one) for one in value] if is_several else value


class MappedNode(Node):
    """A kernel of inputs that are seen through a map."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, arrays=0)
        self.children = (self.child,) = (node(kernel.kernel),)

    def cross(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        K, pull = self.child.cross(self.kernel.see(X), self.kernel.see(Z))
        return K, partial(_pull, self.kernel, Z, pull)

    def value(self, X: Array, Z: Array) -> Scalars:
        seen = self.kernel.see(X)
        return self.child.value(seen, seen if Z is X else self.kernel.see(Z))

    def stack(self, P: Array) -> tuple[Scalars, Pull]:
        K, pull = self.child.stack(self.kernel.see(P))
        return K, partial(_pull, self.kernel, P, pull)

    def diag(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        signal, noise, pull = self.child.diag(self.kernel.see(X))
        return signal, noise, partial(_pull_diag, self.kernel, X, pull)

    def may_mix(self) -> bool:
        return False

    def sees_alike(self) -> bool:
        return False

    def places(self, X: Array) -> list[Any]:
        return self.child.places(self.kernel.see(X))

    def touched(self, columns: Any) -> Any:
        own = self.kernel.sources(columns)
        return columns if own is None else self.child.touched(own)

    def bare(self, columns: Any) -> Any:
        own = self.kernel.sources(columns)
        return self.child.touched(columns) if own is None else self.child.bare(own)

    def seen(self, columns: Any) -> list[Any]:
        return self.child.seen(None if columns is None else self.kernel.sources(columns))

    def walk(self, columns: Any) -> list[Any]:
        sources = None if columns is None else self.kernel.sources(columns)
        return [(self, columns), *self.child.walk(sources)]

    def scales(self, d: int) -> list[Any]:
        return [self.kernel.scales(scale, d) for scale in self.child.scales(self.kernel.width(d))]


def _pull(kernel: Kernel, points: Any, pull: Pull, G: Any, inputs: bool) -> tuple[Any, Any]:
    theta_bar, bar = pull(G, inputs)
    return theta_bar, _through(kernel, points, bar, inputs)


def _pull_diag(
    kernel: Kernel, X: Array, pull: Pull, g_signal: Any, g_noise: Any, inputs: bool
) -> tuple[Any, Any]:
    theta_bar, bar = pull(g_signal, g_noise, inputs)
    return theta_bar, _through(kernel, X, bar, inputs)


def _through(kernel: Kernel, points: Any, bar: Any, inputs: bool) -> Any:
    if not inputs or np.ndim(bar) == 0:  # 0 where the kernel is the same for all points
        return 0.0
    return kernel.pull(points, bar)


def touched(kernel: Kernel, d: int) -> Bools:
    """Return which of d columns matter to a kernel.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int

    Returns
    -------
    ndarray of shape (d,) of bool
    """
    return np.isin(np.arange(d), node(kernel).touched(np.arange(d)))


def may_mix(kernel: Kernel) -> bool:
    """Return whether linear combinations of columns may take the place of the columns.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
        True if it is stationary and differentiable, and no part sees the columns through a map.
    """
    return kernel.is_stationary() and node(kernel).may_mix()

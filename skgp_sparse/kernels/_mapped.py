"""Kernels of transformed inputs: chosen columns, places on a sphere.

A mapped kernel is ``k(x, z) = k'(m(x), m(z))``, with another kernel k' and a map m, mostly without
hyperparameters of its own. It is valid wherever k' is. Gradients with respect to the inputs go back
through the map.
"""

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ._differentiable import DifferentiableKernel, own_sizes
from ._nodes import Node
from ._registry import node
from ._rules import Array, Ints, Pull, Scalars


class MappedKernel(DifferentiableKernel):
    """Base class of kernels of transformed inputs, whose parameter `kernel` is the kernel k'.

    By default, every column of ``m(x)`` consists of the same column of x.
    """

    kernel: Kernel

    @abstractmethod
    def transform(self, X: Array) -> Array:
        """Return ``m(x)`` of points (..., d), as an array (..., d')."""

    @abstractmethod
    def pull(self, X: Array, bar: Array) -> Array:
        """Return the gradient with respect to points (..., d) from that of ``m(x)`` (..., d')."""

    def sources(self, columns: Ints) -> Ints | None:
        """Return the columns that ``m(x)`` consists of; None if it mixes them."""
        return columns

    def width(self, d: int) -> int:
        """Return the number d' of columns of ``m(x)``, where x has d."""
        return d

    def scales(self, scale: Array, d: int) -> Array:
        """Return length scales (d,) from those of ``m(x)`` (d',); inf where it reads nothing."""
        return scale

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback, with the gradient of theta."""
        return self.as_node().linearize(X, Z)

    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(x, x)`` without noise, and its pullback."""
        signal, _, pull = self.as_node().diagonal(X)
        return signal, partial(_pull_signal, pull)

    def as_node(self) -> Node:
        """Return the node of this kernel, above that of `kernel`."""
        return MappedNode(self)

    def is_stationary(self) -> bool:
        """Return whether `kernel` is stationary."""
        return self.kernel.is_stationary()

    def theta_gradient(self, X: Array) -> Array:
        """Return the gradient of ``k(X, X)`` with respect to theta, that of `kernel`."""
        return self.kernel(self.transform(X), eval_gradient=True)[1]

    def _matrix(self, X: Array, Y: Array | None) -> Array:
        return self.kernel(self.transform(X), None if Y is None else self.transform(Y))

    def diag(self, X: Array) -> Array:
        """Return ``k(x, x)`` of every row of X, the noise of `kernel` included."""
        return self.kernel.diag(self.transform(np.atleast_2d(X)))


def _pull_signal(pull: Pull, g: Array, inputs: bool) -> tuple[Any, Any]:
    return pull(g, np.zeros_like(g), inputs)


class MappedNode(Node):
    """The node of a kernel of transformed inputs."""

    is_map = True

    def __init__(self, kernel: MappedKernel) -> None:
        super().__init__(kernel, arrays=0)
        self.children = (self.child,) = (node(kernel.kernel),)

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        K, pull = self.child.linearize(self.kernel.transform(X), self.kernel.transform(Z))
        return K, partial(_pull, self.kernel, Z, pull)

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        inputs = self.kernel.transform(X)
        return self.child.evaluate(inputs, inputs if Z is X else self.kernel.transform(Z))

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        K, pull = self.child.linearize_stack(self.kernel.transform(P))
        return K, partial(_pull, self.kernel, P, pull)

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        signal, noise, pull = self.child.diagonal(self.kernel.transform(X))
        return signal, noise, partial(_pull, self.kernel, X, pull)

    def places(self, X: Array) -> list[Array]:
        return self.child.places(self.kernel.transform(X))

    def inputs(self, columns: Ints) -> Ints:
        return columns if self.kernel.sources(columns) is None else columns[:0]

    def inside(self, columns: Ints | None) -> list[tuple[Node, Ints | None]]:
        return [(self.child, None if columns is None else self.kernel.sources(columns))]

    def free(self) -> list[tuple[str, int]]:
        return own_sizes(self.kernel)

    def scales(self, d: int) -> list[Array]:
        return [self.kernel.scales(scale, d) for scale in self.child.scales(self.kernel.width(d))]


def _pull(kernel: MappedKernel, points: Array, pull: Pull, *arguments: Any) -> tuple[Any, Any]:
    """Gradients from cotangents and whether those of inputs are wanted, through the map."""
    theta_bar, bar = pull(*arguments)
    if not arguments[-1] or np.ndim(bar) == 0:  # 0 where the kernel is the same for all points
        return theta_bar, 0.0
    return theta_bar, kernel.pull(points, bar)

"""The tree of nodes that represents a kernel expression.

A node binds a kernel to the code that differentiates it: a leaf to its rule, and a sum, product,
power or map to the nodes of the kernels inside. `_registry` makes the node of a kernel.

A value that is the same for all entries is a scalar here, and so is a zero ``Z_bar``. Only the
public functions in `_functions` return full arrays.
"""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ._rules import Array, Ints, KernelRule, Pull, Scalars
from ._theta import assemble, free


class Node(ABC):
    """A kernel of the expression, bound to the code that differentiates it.

    Attributes
    ----------
    children : tuple of Node
        Nodes of the kernels inside, none of a leaf.
    differentiable : bool
        Whether there are gradients with respect to inputs.
    noisy : bool
        Whether this kernel, without those inside, has noise on its diagonal.
    white : bool
        Whether it is nothing but noise.
    is_map : bool
        Whether the kernels inside get transformed inputs.
    arrays : int
        (n, m) arrays that `linearize` keeps alive beside those of its children.
    """

    children: "tuple[Node, ...]" = ()
    differentiable: bool = True
    noisy: bool = False
    white: bool = False
    is_map: bool = False

    def __init__(self, kernel: Kernel, arrays: int) -> None:
        self.kernel, self.arrays = kernel, arrays

    @abstractmethod
    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return ``K`` and ``pull(G, inputs) -> (theta_bar, Z_bar)``."""

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        """Return ``K`` alone, which the caller may overwrite."""
        return self.linearize(X, Z)[0]

    @abstractmethod
    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        """Return ``K`` (s, k, k) of point sets (s, k, d) and ``pull(G, inputs)``, G symmetric."""

    @abstractmethod
    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        """Return ``signal``, ``noise``, ``pull(g_signal, g_noise, inputs)``."""

    def footprint(self) -> int:
        """Count the (n, m) arrays kept alive by `linearize`; 0 means a scalar value."""
        below = sum(child.footprint() for child in self.children)
        return below + self.arrays if below or not self.children else 0

    def inputs(self, columns: Ints) -> Ints:
        """Return the columns that this node itself reads, of those that it gets."""
        return columns[:0]

    def inside(self, columns: Ints | None) -> "list[tuple[Node, Ints | None]]":
        """Return the children, each with the columns that it gets; None where a map mixes them."""
        return [(child, columns) for child in self.children]

    def walk(
        self, columns: Ints | None, stop: "type[Node] | tuple[type[Node], ...]" = ()
    ) -> "list[tuple[Node, Ints | None]]":
        """Return all nodes in the order of theta, each with the columns that it gets.

        Nodes of the classes `stop` are not entered.
        """
        inside = () if isinstance(self, stop) else self.inside(columns)
        below = [pair for child, own in inside for pair in child.walk(own, stop)]
        return [*below, (self, columns)]

    def free(self) -> list[tuple[str, int]]:
        """Return names and sizes of free hyperparameters of this kernel, without those inside."""
        return [] if self.children else free(self.kernel)

    def scales(self, d: int) -> list[Array]:
        """Return the length scales (d,) of every leaf that has some; inf where it reads nothing."""
        if self.children:
            return [scale for child in self.children for scale in child.scales(d)]
        if not hasattr(self.kernel, "length_scale"):
            return []
        return [np.broadcast_to(np.asarray(self.kernel.length_scale, float), (d,))]

    def places(self, X: Array) -> list[Array]:
        """Return inputs (n, d) of every leaf in units of its length scales; hours on a clock."""
        if self.children:
            return [places for child in self.children for places in child.places(X)]
        if not hasattr(self.kernel, "length_scale"):
            return []
        scale = self.kernel.length_scale
        if not hasattr(self.kernel, "periodicity"):
            return [X / scale]
        angle = (2.0 * np.pi / self.kernel.periodicity) * X
        return [np.cos(angle) / scale, np.sin(angle) / scale]


def columns_read(tree: Node, columns: Ints, stop: type[Node] | tuple[type[Node], ...] = ()) -> Ints:
    """Return the columns that matter to a node or to those inside, of those that it gets."""
    pairs = tree.walk(columns, stop)
    parts = [part.inputs(own) for part, own in pairs if own is not None]
    return np.unique(np.concatenate([columns[:0], *parts]))


class Leaf(Node):
    """A leaf kernel with a rule."""

    def __init__(self, kernel: Kernel, rule: KernelRule) -> None:
        super().__init__(kernel, rule.footprint)
        self.rule = rule

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        K, pull = self.rule.linearize(self.kernel, X, Z)
        return K, partial(_pull_leaf, self.kernel, pull)

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        return self.rule.evaluate(self.kernel, X, Z)

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        K, pull = self.rule.linearize_stack(self.kernel, P)
        return K, partial(_pull_leaf, self.kernel, pull)

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        value, pull = self.rule.linearize_diag(self.kernel, X)
        return value, 0.0, partial(_pull_leaf_diag, self.kernel, pull)

    def inputs(self, columns: Ints) -> Ints:
        return columns if self.arrays else columns[:0]  # none of a number


def _pull_leaf(kernel: Kernel, pull: Pull, G: Array, inputs: bool) -> tuple[Any, Any]:
    gradients, bar = pull(G, inputs)
    return assemble(kernel, gradients), bar if inputs else 0.0


def _pull_leaf_diag(
    kernel: Kernel, pull: Pull, g_signal: Array, g_noise: Scalars, inputs: bool
) -> tuple[Any, Any]:
    return _pull_leaf(kernel, pull, g_signal, inputs)


class White(Node):
    """White noise: zero between two point sets, and ``noise_level`` on the diagonal."""

    noisy, white = True, True

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, arrays=0)

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        return 0.0, self._pull_cross

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        return 0.0, self._pull_cross

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        return 0.0, float(self.kernel.noise_level), self._pull_diag

    def _pull_cross(self, G: Array, inputs: bool) -> tuple[Any, Any]:
        return assemble(self.kernel, {}), 0.0

    def _pull_diag(self, g_signal: Array, g_noise: Scalars, inputs: bool) -> tuple[Any, Any]:
        slope = float(self.kernel.noise_level) * np.sum(g_noise)
        return assemble(self.kernel, {"noise_level": slope}), 0.0

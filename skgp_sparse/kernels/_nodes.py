"""Theta, and the nodes of which the tree of a kernel consists.

`free` lists the hyperparameters of a kernel, `moved` sets them, and `assemble` makes their
gradient. A `Node` binds a kernel to the code that differentiates it: `White` to noise, `Opaque` to
nothing but the kernel. Those of rules, sums, products, powers and maps are in other files.

A value that is the same for all entries is a scalar here, and so is a zero ``Z_bar``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, Product, Sum

from skgp_sparse.ground.parallel import slices
from skgp_sparse.ground.validation import Array, Ints, Scalars

Pulled = tuple[Any, Any]  # gradients with respect to theta, or by name, and to inputs
Pull = Callable[..., Pulled]  # from cotangents to gradients; see `KernelRule`
Linearized = tuple[Scalars, Pull]  # a value and its pullback ...
Diagonal = tuple[Scalars, Scalars, Pull]  # ... signal, noise and their pullback
_ROWS = 64
# kernel.diag and the diagonal of kernel(X, X) may be rounded differently
_ASYMMETRY_TOLERANCE = 1e-10


# -- free hyperparameters of kernels, read and set as scikit-learn does it, but faster -------------
# scikit-learn looks for the names of hyperparameters among all that an object has, several times
# for every theta that is set, and copies kernels by the signatures of their classes. An evaluation
# of few rows takes less time than that.


# Each has its bounds, or "fixed", in an attribute with "_bounds" after its name.
@cache
def _names(kind: type[Kernel]) -> list[str] | None:
    """Return the names of hyperparameters of one of scikit-learn's leaf kernels, None of others."""
    if kind.__module__ != Kernel.__module__ or kind.theta is not Kernel.theta:
        return None
    prefix, own = "hyperparameter_", dir(kind)
    return [name.removeprefix(prefix) for name in own if name.startswith(prefix)]


def free(kernel: Kernel) -> list[tuple[str, int]]:
    """Return names and sizes of the hyperparameters that are not fixed, in the order of theta."""
    if (names := _names(kernel.__class__)) is None:
        return [(one.name, one.n_elements) for one in kernel.hyperparameters if not one.fixed]
    names = [one for one in names if not isinstance(getattr(kernel, f"{one}_bounds"), str)]
    return [(name, np.size(getattr(kernel, name))) for name in names]


def moved(kernel: Kernel, theta: Array) -> Kernel:
    """Return ``kernel.clone_with_theta(theta)``, which shares what is no part of theta."""
    return moved_and_rest(kernel, theta)[0]


def moved_and_rest(kernel: Kernel, theta: Array) -> tuple[Kernel, Array]:
    """Return a kernel at the first of some numbers, and the others."""
    kind: type = type(kernel)
    if kind in (Sum, Product):
        left, theta = moved_and_rest(kernel.k1, theta)
        right, theta = moved_and_rest(kernel.k2, theta)
        return kind(left, right), theta
    if _names(kind) is None:
        size = kernel.n_dims
        return kernel.clone_with_theta(theta[:size]), theta[size:]
    other = copy(kernel)
    for name, size in free(kernel):
        values, theta = np.exp(theta[:size]), theta[size:]
        setattr(other, name, values if size > 1 else values[0])
    return other, theta


# A gradient that is missing is zero, and those of fixed hyperparameters are left out.
def assemble(kernel: Kernel, gradients: dict[str, Scalars] | Array) -> Array:
    """Return the gradient wrt ``kernel.theta`` from gradients by name, or one that is in order."""
    if not isinstance(gradients, dict):
        return gradients
    parameters = free(kernel)
    if gradients.keys() - dict(parameters):  # of what is fixed, or of what is no hyperparameter
        names = [one.name for one in kernel.hyperparameters]
        if unknown := sorted(gradients.keys() - set(names)):
            raise ValueError(
                f"The rule of {type(kernel).__name__} returned gradients named {unknown}, not of "
                f"{names}. Return only these."
            )
    theta_bar, start = np.zeros(sum(size for _, size in parameters)), 0
    for name, size in parameters:
        if name in gradients:
            of_one = gradients[name]
            theta_bar[start : start + size] = of_one if size == 1 else np.reshape(of_one, size)
        start += size
    return theta_bar


class Node(ABC):
    """A kernel of the expression, bound to the code that differentiates it."""

    children: "tuple[Node, ...]" = ()  # of the kernels inside
    arrays: int = 1  # (n, m) that `linearize` keeps, without those of children
    noisy: bool = False  # this kernel, without those inside, has noise on its diagonal
    is_map: bool = False  # the kernels inside get transformed inputs

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    # Points (s, k, d) as both arguments are many small sets: K is (s, k, k), G is symmetric, and
    # the gradient is with respect to both arguments.
    @abstractmethod
    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return ``K`` and ``pull(G, inputs) -> (theta_bar, Z_bar)``."""

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        """Return ``K`` alone, which the caller may overwrite."""
        return self.linearize(X, Z)[0]

    @abstractmethod
    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        """Return ``signal``, ``noise``, ``pull(g_signal, g_noise, inputs)``."""

    def footprint(self) -> int:
        """Count the (n, m) arrays kept alive by `linearize`; 0 means a scalar value."""
        below = sum(child.footprint() for child in self.children)
        return below + self.arrays if below or not self.children else 0

    def inputs(self, columns: Ints) -> Ints:
        """Return the columns that this node itself reads, of those that it gets."""
        return columns[:0] if self.children or not self.arrays else columns  # none of a number

    def inside(self, columns: Ints | None) -> "list[tuple[Node, Ints | None]]":
        """Return the children, each with the columns that it gets; None where a map mixes them."""
        return [(child, columns) for child in self.children]

    # Kernels whose attribute of the name `but` is true are left out, and all that is inside.
    def walk(self, columns: Ints | None, but: str = "") -> "list[tuple[Node, Ints | None]]":
        """Return all nodes in the order of theta, each with the columns that it gets."""
        if but and getattr(self.kernel, but, False):
            return []
        below = [pair for child, own in self.inside(columns) for pair in child.walk(own, but)]
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
        """Return inputs of every leaf over its length scales, those of periods on a circle."""
        if self.children:
            return [places for child in self.children for places in child.places(X)]
        if not hasattr(self.kernel, "length_scale"):
            return []
        scale = self.kernel.length_scale
        if not hasattr(self.kernel, "periodicity"):
            return [X / scale]
        angle = (2.0 * np.pi / self.kernel.periodicity) * X
        return [np.cos(angle) / scale, np.sin(angle) / scale]


class White(Node):
    """White noise: zero between two point sets, and ``noise_level`` on the diagonal."""

    noisy, arrays = True, 0

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        return 0.0, self._pull_cross

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        return 0.0, float(self.kernel.noise_level), self._pull_diag

    def _pull_cross(self, G: Array, inputs: bool) -> Pulled:
        return assemble(self.kernel, {}), 0.0

    def _pull_diag(self, g_signal: Array, g_noise: Scalars, inputs: bool) -> Pulled:
        slope = float(self.kernel.noise_level) * np.sum(g_noise)
        return assemble(self.kernel, {"noise_level": slope}), 0.0


# It is differentiated through scikit-learn's public interface alone. It is slower than others,
# and its inducing points are not optimised. ``kernel(A, eval_gradient=True)`` differentiates one
# point set with itself. With ``A = [X_c; Z]`` its off-diagonal block is
# ``d k(X_c, Z) / d theta``, at ``(c + m)^2`` cost: hence the chunks.
class Opaque(Node):
    """A kernel without a rule, which has no gradient with respect to the inputs."""

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        if X.ndim == 3:
            return linearize_each(self.linearize, X)
        # a copy, as the kernel may keep its own
        return np.array(self.kernel(X, Z), dtype=np.float64), partial(self._pull_cross, X, Z)

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        # two separate arguments: white noise inside an unknown kernel then stays out
        parts = [np.diagonal(self.kernel(X[rows], X[rows])) for rows in slices(len(X), _ROWS)]
        signal = np.concatenate([np.zeros(0), *parts])
        noise = self.kernel.diag(X) - signal
        noise[np.abs(noise) <= _ASYMMETRY_TOLERANCE * np.abs(signal)] = 0.0
        return signal, noise if noise.any() else 0.0, partial(self._pull_diag, X)

    def _pull_cross(self, X: Array, Z: Array, G: Array, inputs: bool) -> Pulled:
        def of_rows(rows: slice) -> Array:
            n, gradient = len(X[rows]), self._gradient(X[rows], Z)
            return np.einsum("ij,ijp->p", G[rows], gradient[:n, n:])

        return self._sum(of_rows, slices(len(X), max(len(Z), _ROWS)), inputs)

    def _pull_diag(self, X: Array, g_signal: Array, g_noise: Array, inputs: bool) -> Pulled:
        def of_rows(rows: slice) -> Array:
            gradient, at = self._gradient(X[rows], X[rows]), np.arange(len(X[rows]))
            signal, both = gradient[at, at + len(at)], gradient[at, at]
            return g_signal[rows] @ signal + g_noise[rows] @ (both - signal)

        return self._sum(of_rows, slices(len(X), _ROWS), inputs)

    def _gradient(self, A: Array, B: Array) -> Array:
        return self.kernel(np.vstack([A, B]), eval_gradient=True)[1]

    def _sum(self, of_rows: Callable[[slice], Array], chunks: list[slice], inputs: bool) -> Pulled:
        """Gradients with respect to theta, summed over chunks, and to the inputs."""
        if inputs:
            raise TypeError(
                f"{type(self.kernel).__name__} has no derivative rule. Use "
                "optimize_inducing=False, or add a rule with skgp_sparse.kernels.register."
            )
        total = np.zeros(len(self.kernel.theta))
        return sum(map(of_rows, chunks), total) if total.size else total, 0.0


def linearize_each(linearize: Callable[..., tuple[Scalars, Pull]], P: Array) -> tuple[Array, Pull]:
    """Return ``k(P_i, P_i)`` of point sets (s, k, d), one after the other, and their pullback."""
    shape = (P.shape[1], P.shape[1])
    values, pulls = zip(*(linearize(points, points) for points in P))
    return np.array([np.broadcast_to(K, shape) for K in values]), partial(_pull_each, pulls)


def _pull_each(pulls: tuple[Pull, ...], G: Array, inputs: bool) -> Pulled:
    """Gradients of one set after the other; both arguments are the same points."""
    gradients, bars = zip(*(pull(of_one, inputs) for pull, of_one in zip(pulls, G)))
    if not inputs:
        return sum(gradients), 0.0
    return sum(gradients), np.array([np.broadcast_to(2.0 * bar, bars[0].shape) for bar in bars])


def no_gradient(g: Array, inputs: bool) -> tuple[dict[str, Any], float]:
    """Pullback of a value that depends on nothing."""
    return {}, 0.0


def full(value: Scalars, shape: tuple[int, ...]) -> Array:
    """Return an array of a shape, from one or from the number that all entries have."""
    if np.ndim(value) == 0:
        return np.full(shape, float(value))
    return np.ascontiguousarray(value, dtype=np.float64)

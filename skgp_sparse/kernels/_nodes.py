"""The tree of nodes that represents a kernel expression, and the contract of derivative rules.

A node binds a kernel to the code that differentiates it: a leaf to its rule, and a sum, product,
power or map to the nodes of the kernels inside. `_differentiable` makes the node of a kernel.

A value that is the same for all entries is a scalar here, and so is a zero ``Z_bar``. Only the
public functions in `_differentiable` return full arrays.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, partial, singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel, Product, Sum

from skgp_sparse.ground.validation import Array, Ints, Scalars

Pull = Callable[..., tuple[Any, Any]]  # from cotangents to gradients; see `KernelRule`


class KernelRule(ABC):
    """Base class of derivative rules: values and vector-Jacobian products of one leaf kernel.

    A leaf kernel is one that is not a sum, product or power of other kernels. For
    ``F = sum(G * k(X, Z))`` a rule returns ``{name: dF/dlog(name)}`` and ``dF/dZ``, so that it does
    not depend on the order of the hyperparameters in ``theta``.

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


# -- free hyperparameters of kernels, read and set as scikit-learn does it, but faster -------------
# scikit-learn looks for the names of hyperparameters among all that an object has, several times
# for every theta that is set, and copies kernels by the signatures of their classes. An evaluation
# of few rows takes less time than that.

_PREFIX = "hyperparameter_"


@cache
def _names(kind: Any) -> list[str] | None:
    """Return the names of hyperparameters of one of scikit-learn's leaf kernels, None of others.

    Each has its bounds, or "fixed", in an attribute with "_bounds" after its name.
    """
    own = kind.__module__ == Kernel.__module__ and kind.theta is Kernel.theta
    names = (name for name in dir(kind) if name.startswith(_PREFIX))
    return [name.removeprefix(_PREFIX) for name in names] if own else None


@singledispatch
def free_by_class(kernel: Kernel) -> list[tuple[str, int]]:
    """Return names and sizes of free hyperparameters of any kernel, by its class."""
    return [(one.name, one.n_elements) for one in kernel.hyperparameters if not one.fixed]


def free(kernel: Kernel) -> list[tuple[str, int]]:
    """Return names and sizes of the hyperparameters that are not fixed, in the order of theta."""
    kind: Any = type(kernel)
    names = _names(kind)
    if names is None:
        return free_by_class(kernel)
    are_free = (name for name in names if not isinstance(getattr(kernel, f"{name}_bounds"), str))
    return [(name, size_of(getattr(kernel, name))) for name in are_free]


def size_of(value: npt.ArrayLike) -> int:
    """Return the number of elements of a hyperparameter."""
    return 1 if isinstance(value, float) else np.size(value)


def count(kernel: Kernel) -> int:
    """Return the number of elements of ``kernel.theta``."""
    return sum(size for _, size in free(kernel))


def moved(kernel: Kernel, theta: Array) -> Kernel:
    """Return ``kernel.clone_with_theta(theta)``, which shares what is no part of theta."""
    return _moved(kernel, theta)[0]


def _moved(kernel: Kernel, theta: Array) -> tuple[Kernel, Array]:
    """Return a kernel at the first of some numbers, and the others."""
    kind: Any = type(kernel)
    if kind in (Sum, Product):
        left, theta = _moved(kernel.k1, theta)
        right, theta = _moved(kernel.k2, theta)
        return kind(left, right), theta
    if _names(kind) is None:
        size = count(kernel)
        return kernel.clone_with_theta(theta[:size]), theta[size:]
    other = kind.__new__(kind)
    vars(other).update(vars(kernel))
    for name, size in free(kernel):
        values, theta = np.exp(theta[:size]), theta[size:]
        setattr(other, name, values if size > 1 else values[0])
    return other, theta


def assemble(kernel: Kernel, gradients: dict[str, Any] | Array) -> Array:
    """Return the gradient with respect to ``kernel.theta`` from gradients by name.

    The entries are in scikit-learn's order, without fixed hyperparameters. A gradient that is
    missing is zero. An array is in this order already.
    """
    if not isinstance(gradients, dict):
        return gradients
    parameters = free(kernel)
    if gradients.keys() - dict(parameters):
        _check_names(kernel, gradients)
    theta_bar, start = np.zeros(sum(size for _, size in parameters)), 0
    for name, size in parameters:
        if name in gradients:
            of_one = gradients[name]
            theta_bar[start : start + size] = of_one if size == 1 else np.reshape(of_one, size)
        start += size
    return theta_bar


def _check_names(kernel: Kernel, gradients: dict[str, Any]) -> None:
    """Raise if there is a gradient of what is no hyperparameter."""
    names = [one.name for one in kernel.hyperparameters]
    unknown = sorted(gradients.keys() - set(names))
    if unknown:
        raise ValueError(
            f"The rule of {type(kernel).__name__} returned gradients named {unknown}, not of "
            f"{names}. Return only these."
        )


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
    takes_missing : bool
        Whether it knows what a missing value means.
    arrays : int
        (n, m) arrays that `linearize` keeps alive beside those of its children.
    """

    children: "tuple[Node, ...]" = ()
    differentiable: bool = True
    noisy: bool = False
    white: bool = False
    is_map: bool = False
    takes_missing: bool = False

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

    def walk(self, columns: Ints | None, stop: str = "") -> "list[tuple[Node, Ints | None]]":
        """Return all nodes in the order of theta, each with the columns that it gets.

        Nodes whose attribute of the name `stop` is true are left out, and all that is inside.
        """
        if stop and getattr(self, stop):
            return []
        below = [pair for child, own in self.inside(columns) for pair in child.walk(own, stop)]
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


def columns_read(tree: Node, columns: Ints, stop: str = "") -> Ints:
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

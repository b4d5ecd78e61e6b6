"""The tree of nodes that represents a kernel expression, and the registry of derivative rules.

The rule of a leaf is found by the *exact* type of its kernel.  ``Matern`` is a subclass of ``RBF``
in scikit-learn, and a user-defined subclass may override ``__call__``, so that a subclass cannot
use the rule of its base class.  A kernel without a rule becomes a leaf of `_fallback`.

In the tree, a value that is the same for all entries is stored as a scalar, and so is a zero
``Z_bar``.  Only the public functions return full arrays.

The public functions at the end traverse the tree once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.plain_text import as_text

from ._rules import Array, Ints, KernelRule, Pull, Scalars
from ._rules_in_pickles import put_in_pickles
from ._theta import assemble, free


class Node(ABC):
    """One kernel of the expression, bound to the rule that differentiates it.

    Attributes
    ----------
    children : tuple of Node
        Empty for a leaf, which says whether it is `differentiable`.
    noisy : bool
        Whether this kernel, without those below, has noise on its diagonal.
    white : bool
        Whether it is nothing but noise.
    arrays : int
        (n, m) arrays that `cross` keeps alive beside those of its children.
    """

    children: tuple[Any, ...] = ()
    noisy: bool = False
    white: bool = False
    differentiable: bool

    def __init__(self, kernel: Kernel, arrays: int) -> None:
        self.kernel, self.arrays = kernel, arrays

    @abstractmethod
    def cross(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return ``K`` and ``pull(G, inputs) -> (theta_bar, Z_bar)``."""

    def value(self, X: Array, Z: Array) -> Scalars:
        """Return ``K`` alone, which the caller may overwrite."""
        return self.cross(X, Z)[0]

    @abstractmethod
    def stack(self, P: Array) -> tuple[Scalars, Pull]:
        """Return ``K`` (s, k, k) of point sets (s, k, d) and ``pull(G, inputs)``, G symmetric."""

    @abstractmethod
    def diag(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        """Return ``signal``, ``noise``, ``pull(g_signal, g_noise, inputs)``."""

    def footprint(self) -> int:
        """Count the (n, m) arrays kept alive by `cross`; 0 means a scalar value."""
        below = sum(child.footprint() for child in self.children)
        return below + self.arrays if below or not self.children else 0

    def scales(self, d: int) -> list[Any]:
        """Return the length scales (d,) of every leaf that has some; inf where it sees none."""
        return [scale for child in self.children for scale in child.scales(d)]

    def sees_alike(self) -> bool:
        """Return whether all leaves see all columns as they are."""
        return all(child.sees_alike() for child in self.children)

    def places(self, X: Array) -> list[Any]:
        """Return what every leaf sees of X (n, d), in units in which near is near: a list."""
        return [places for child in self.children for places in child.places(X)]

    def touched(self, columns: Any) -> Any:
        """Return the columns that matter, of those that this node sees."""
        parts = [child.touched(columns) for child in self.children]
        return np.unique(np.concatenate([columns[:0], *parts]))

    def bare(self, columns: Any) -> Any:
        """Return the columns that matter, of those that this node sees, unless through `Missing`.

        `columns` are as in `touched`.
        """
        parts = [child.bare(columns) for child in self.children]
        return np.unique(np.concatenate(parts)) if parts else self.touched(columns)

    def may_mix(self) -> bool:
        """Return whether linear combinations of columns may take the place of the columns."""
        return (
            all(child.may_mix() for child in self.children)
            if self.children
            else self.differentiable
        )

    def seen(self, columns: Any) -> list[Any]:
        """Return every leaf in the order of theta, and the columns that it sees: a list of pairs.

        `columns` are those that this node sees; None where a map mixes them.
        """
        pairs = [pair for child in self.children for pair in child.seen(columns)]
        return pairs if self.children else [(self, columns)]

    def walk(self, columns: Any) -> list[Any]:
        """Return this node and all below it, each with the columns that it sees: a list of pairs.

        `columns` are as in `seen`.
        """
        below = [pair for child in self.children for pair in child.walk(columns)]
        return [(self, columns), *below]

    def leaves(self) -> list[Any]:
        """Return the leaf nodes below (or this one)."""
        return [leaf for child in self.children for leaf in child.leaves()] or [self]


class Leaf(Node):
    """A leaf kernel with a rule."""

    noisy, differentiable = False, True

    def __init__(self, kernel: Kernel, rule: KernelRule) -> None:
        super().__init__(kernel, rule.footprint)
        self.rule = rule

    def cross(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        K, pull = self.rule.cross(self.kernel, X, Z)
        return K, partial(_pull_leaf, self.kernel, pull)

    def value(self, X: Array, Z: Array) -> Scalars:
        return self.rule.value(self.kernel, X, Z)

    def stack(self, P: Array) -> tuple[Scalars, Pull]:
        K, pull = self.rule.stack(self.kernel, P)
        return K, partial(_pull_leaf, self.kernel, pull)

    def diag(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        value, pull = self.rule.diag(self.kernel, X)
        return value, 0.0, partial(_pull_leaf_diag, self.kernel, pull)

    def scales(self, d: int) -> list[Any]:
        return scales_of(self.kernel, d)

    def places(self, X: Array) -> list[Any]:
        return places_of(self.kernel, X)

    def touched(self, columns: Any) -> Any:
        return columns if self.arrays else columns[:0]  # none of a number


def _pull_leaf(kernel: Kernel, pull: Pull, G: Any, inputs: bool) -> tuple[Any, Any]:
    gradients, bar = pull(G, inputs)
    return assemble(kernel, gradients), bar if inputs else 0.0


def _pull_leaf_diag(
    kernel: Kernel, pull: Pull, g_signal: Any, g_noise: Any, inputs: bool
) -> tuple[Any, Any]:
    return _pull_leaf(kernel, pull, g_signal, inputs)


def scales_of(kernel: Kernel, d: int) -> list[Any]:
    """Return the length scales (d,) of a leaf kernel in a list, which is empty if it has none."""
    if not hasattr(kernel, "length_scale"):
        return []
    return [np.broadcast_to(np.asarray(kernel.length_scale, float), (d,))]


def places_of(kernel: Kernel, X: Array) -> list[Any]:
    """Return inputs in units of the length scales of a leaf kernel, in a list; hours on a clock."""
    if not hasattr(kernel, "length_scale"):
        return []
    if hasattr(kernel, "periodicity"):
        angle = (2.0 * np.pi / kernel.periodicity) * X
        return [np.cos(angle) / kernel.length_scale, np.sin(angle) / kernel.length_scale]
    return [X / kernel.length_scale]


class White(Node):
    """White noise: zero between two point sets, and ``noise_level`` on the diagonal."""

    noisy, white, differentiable = True, True, True

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, arrays=0)

    def cross(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        return 0.0, self._pull_cross

    def stack(self, P: Array) -> tuple[Scalars, Pull]:
        return 0.0, self._pull_cross

    def diag(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        return 0.0, float(self.kernel.noise_level), self._pull_diag

    def _pull_cross(self, G: Any, inputs: bool) -> tuple[Any, Any]:
        return assemble(self.kernel, {}), 0.0

    def _pull_diag(self, g_signal: Any, g_noise: Any, inputs: bool) -> tuple[Any, Any]:
        slope = float(self.kernel.noise_level) * np.sum(g_noise)
        return assemble(self.kernel, {"noise_level": slope}), 0.0


_BUILDERS: dict[type, Callable[[Any], Any]] = {}


def node(kernel: Kernel) -> Any:
    """Return the node of `kernel`, chosen by its exact type, or that of kernels without a rule."""
    return _BUILDERS.get(type(kernel), _BUILDERS[object])(kernel)


def add_builder(kernel_class: type, build: Callable[[Any], Any]) -> None:
    """Let ``build(kernel)`` make the nodes of `kernel_class`."""
    _BUILDERS[kernel_class] = build


def add_family(kernel_class: type, choose: Callable[[Any], Any]) -> None:
    """Let ``choose(kernel)`` pick the rule of a kernel with several formulas, or None."""

    def build(kernel: Kernel) -> Any:
        rule = choose(kernel)
        return _BUILDERS[object](kernel) if rule is None else Leaf(kernel, rule)

    add_builder(kernel_class, build)


def register(kernel_class: type, rule: KernelRule) -> None:
    """Give a kernel class a derivative rule.

    Parameters
    ----------
    kernel_class : type
        Subclass of :class:`sklearn.gaussian_process.kernels.Kernel`.  The rule applies to this
        class only, not to its subclasses.  If the class already has a rule, it is replaced.
    rule : KernelRule
        Derivative rule, which computes values and vector-Jacobian products of the kernel. Pickles
        of such kernels contain it, so that the processes of joblib and of dask know it, too.

    Raises
    ------
    TypeError
        If `kernel_class` is not a class, or `rule` is not a `KernelRule` instance.

    Examples
    --------
    The following example defines a linear kernel through the origin, ``k(x, z) = x . z``:

    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import Kernel
    >>> from skgp_sparse import kernels
    >>> class Linear(Kernel):
    ...     def __call__(self, X, Y=None, eval_gradient=False):
    ...         K = X @ (X if Y is None else Y).T
    ...         return (K, np.empty((*K.shape, 0))) if eval_gradient else K
    ...     def diag(self, X):
    ...         return np.sum(X**2, axis=1)
    ...     def is_stationary(self):
    ...         return False
    >>> class LinearRule(kernels.KernelRule):
    ...     footprint = 1
    ...     def cross(self, kernel, X, Z):
    ...         return X @ Z.T, lambda G, inputs: ({}, G.T @ X)
    ...     def diag(self, kernel, X):
    ...         return np.sum(X**2, axis=1), lambda g, inputs: ({}, 2 * g[:, None] * X)
    >>> kernels.differentiable(Linear())
    False
    >>> kernels.register(Linear, LinearRule())
    >>> kernels.differentiable(Linear())
    True
    """
    if not isinstance(kernel_class, type):
        raise TypeError(f"kernel_class must be a class. Got {as_text(kernel_class)} instead.")
    if not isinstance(rule, KernelRule):
        raise TypeError(f"rule must be an instance of a KernelRule. Got {as_text(rule)} instead.")
    add_family(kernel_class, lambda kernel: rule)
    put_in_pickles(kernel_class, rule, _register_unless_known)


def _register_unless_known(kernel_class: type, rule: KernelRule) -> None:
    """Register the rule of a pickle, unless its class has one, as where a kernel is copied."""
    if kernel_class not in _BUILDERS:
        register(kernel_class, rule)


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


def _pull_cross(pull: Pull, shape: tuple[int, ...], G: Any, inputs: bool = True) -> tuple[Any, Any]:
    theta_bar, Z_bar = pull(G, inputs)
    return theta_bar, _full(Z_bar, shape) if inputs else None


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
        Noise-free kernel matrix.  It is a new array.

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
    return _full(node(kernel).value(X, Z), (len(X), len(Z)))


def linearize_stack(kernel: Kernel, P: Array) -> tuple[Array, Pull]:
    """Return the noise-free kernel matrices of many small point sets, and their pullback.

    Where a matrix has a few thousand entries, a call of a function costs as much as its arithmetic,
    and threads wait for the interpreter.  Here it happens once for the whole stack.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.
    P : ndarray of shape (s, k, d)
        Point sets, float64.  Those of a set should be close to its first one, in units of their
        distances: the formulas lose as many digits as they are further away.

    Returns
    -------
    K : ndarray of shape (s, k, k)
        The matrices ``k(P_i, P_i)`` without white noise.  Do not modify them before you call the
        pullback.
    pullback : callable
        The function ``pullback(G, inputs=True) -> (theta_bar, P_bar)``, as that of `linearize`.
        Every matrix of `G` must be symmetric.  `P_bar`, of the shape of `P`, is the gradient with
        respect to the points as both arguments of the kernel.

    Raises
    ------
    TypeError
        If a kernel has no rule (see `differentiable`).  The call ``pullback(G, inputs=True)``
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
    value, pull = node(kernel).stack(P)
    K = _full(value, (*P.shape[:2], P.shape[1]))
    return K, partial(_pull_cross, pull, P.shape)


def stacked(kernel: Kernel, P: Array) -> Array:
    """Return the noise-free kernel matrices of many small point sets.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    P : ndarray of shape (s, k, d)
        Point sets, as those of `linearize_stack`.

    Returns
    -------
    K : ndarray of shape (s, k, k)
        A new array.
    """
    return linearize_stack(kernel, P)[0]


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


def _pull_diagonal(
    pull: Pull, shape: tuple[int, ...], g_signal: Any, g_noise: Any, inputs: bool = False
) -> tuple[Any, Any]:
    theta_bar, X_bar = pull(g_signal, g_noise, inputs)
    return theta_bar, _full(X_bar, shape) if inputs else None


def has_noise(kernel: Kernel) -> bool:
    """Return whether the kernel expression contains a WhiteKernel.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
        True if a leaf of the expression is a WhiteKernel.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from skgp_sparse import kernels
    >>> kernels.has_noise(RBF()), kernels.has_noise(RBF() + WhiteKernel())
    (False, True)
    """
    return any(leaf.noisy for leaf in node(kernel).leaves())


def learns_noise(kernel: Kernel) -> bool:
    """Return whether some part of the kernel has noise of some rows or of all.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
        True if a part is a WhiteKernel, or a `Missing` whose noise is not 0.
    """
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
    (True, True)
    """
    return all(leaf.differentiable for leaf in node(kernel).leaves())


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
    """Return a length scale for each input column, for the choice of inducing points.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X_scale : ndarray of shape (d,)
        Standard deviations of the columns.  They are returned for columns of which no kernel has a
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


def length_scale_places(kernel: Kernel, d: int, periodic: bool = True) -> list[tuple[Ints, Ints]]:
    """Return where the free length scales of a kernel are, and of which columns they are.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int
        Number of input columns.
    periodic : bool
        Whether kernels with a period count, whose ``length_scale`` is no length.

    Returns
    -------
    list of tuple of (ndarray, ndarray)
        Positions in ``kernel.theta`` and columns, one pair for each leaf with a ``length_scale``
        that is free.  There is one position, or one for each column.
    """
    start = 0
    places: list[tuple[Ints, Ints]] = []
    for leaf, columns in node(kernel).seen(np.arange(d)):
        counts = columns is not None and (periodic or not hasattr(leaf.kernel, "periodicity"))
        for name, size in free(leaf.kernel):
            if name == "length_scale" and counts:
                places.append((np.arange(start, start + size), columns))
            start += size
    return places


def positions_of(kernel: Kernel, name: str) -> list[Ints]:
    """Return where the free hyperparameters of a name are in theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    name : str

    Returns
    -------
    list of ndarray
        Positions in ``kernel.theta``, one array for each hyperparameter.
    """
    start = 0
    positions: list[Ints] = []
    for part, size in free(kernel):
        if part.split("__")[-1] == name:
            positions.append(np.arange(start, start + size))
        start += size
    return positions


def _full(value: Any, shape: tuple[int, ...]) -> Array:
    if np.ndim(value) == 0:
        return np.full(shape, float(value))
    return np.ascontiguousarray(value, dtype=np.float64)

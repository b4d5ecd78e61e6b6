"""Contracts of kernels, the tree of nodes of a kernel, and functions of any kernel.

This file has five parts, each of which needs those above it:

1. Two contracts. A `DifferentiableKernel` carries its derivatives, and a `KernelRule` has those of
   a class that cannot. They have the same methods, of which those of a rule take the kernel first.
2. Theta. `free` lists its hyperparameters, `moved` sets it, and `assemble` makes its gradient.
3. Nodes. A `Node` binds a kernel to the code that differentiates it: a `Leaf` to a rule, `White` to
   noise, `Opaque` to nothing but the kernel, and a sum, product, power or map to the nodes inside.
4. `node` makes the tree of nodes of a kernel, by the exact types of its parts (`register`).
5. Functions such as `linearize`, which make this tree and traverse it once. They return values and
   pullbacks of kernel expressions, and answers about their parts.

Pullbacks of the kernels in this package can be pickled.

A value that is the same for all entries is a scalar here, and so is a zero ``Z_bar``. Only the
public functions return full arrays.
"""

import copyreg
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache, partial
from inspect import signature
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel, Product, Sum

from skgp_sparse.ground.parallel import slices
from skgp_sparse.ground.validation import Array, Bools, Ints, Scalars, as_text

Pulled = tuple[Any, Any]  # gradients with respect to theta, or by name, and to inputs
Pull = Callable[..., Pulled]  # from cotangents to gradients; see `KernelRule`
_ROWS = 64
# kernel.diag and the diagonal of kernel(X, X) may be rounded differently
_ASYMMETRY_TOLERANCE = 1e-10


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
        return linearize_each(Leaf(kernel, self).linearize, P)

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


# -- kernels that carry their rule -----------------------------------------------------------------
# The hyperparameters of such a kernel are those of the kernels inside, and then its own. A
# parameter ``x`` is a hyperparameter if there is a parameter ``x_bounds``, too. It is learned on
# the scale of its transform, which is the logarithm unless a class has another one in
# `_transforms`.

_STEP = 1e-3  # of logarithms of hyperparameters, in differences of fourth order


# A function onto the scale on which a hyperparameter is learned, and its inverse.
Transform = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class DifferentiableKernel(Kernel):
    """Base class of kernels that carry their derivative rule.

    A subclass has a constructor, as every estimator of scikit-learn, and two methods: `linearize`
    for ``k(X, Z)`` and `linearize_diag` for ``k(x, x)``. Each returns the value and a function, the
    pullback, which takes the derivative of some ``F`` with respect to every entry of the value, and
    returns its derivatives with respect to hyperparameters and inputs. Everything else that
    scikit-learn asks of a kernel is made of these two.

    A parameter ``x`` of the constructor is a hyperparameter if ``x_bounds`` is one, too: a positive
    number or an array, which is learned as its logarithm. A parameter that is a kernel adds its
    hyperparameters. Nothing has to be registered, here or in other processes.

    Attributes
    ----------
    footprint : int
        Number of ``(n, m)`` arrays that are kept in memory after a call of `linearize`: its value
        and the arrays that its pullback holds.

    See Also
    --------
    register : Give a rule to a kernel class that cannot be a subclass.

    Examples
    --------
    >>> import numpy as np
    >>> from skgp_sparse.kernels import DifferentiableKernel
    >>> class Linear(DifferentiableKernel):
    ...     '''The kernel k(x, z) = v x . z.'''
    ...     footprint = 1
    ...     def __init__(self, variance=1.0, variance_bounds=(1e-5, 1e5)):
    ...         self.variance = variance
    ...         self.variance_bounds = variance_bounds
    ...     def linearize(self, X, Z):
    ...         K, v = self.variance * X @ Z.T, self.variance
    ...         return K, lambda G, inputs: ({"variance": np.sum(G * K)}, v * G.T @ X)
    ...     def linearize_diag(self, X):
    ...         k, v = self.variance * np.sum(X**2, axis=1), self.variance
    ...         return k, lambda g, inputs: ({"variance": g @ k}, 2 * v * g[:, None] * X)
    >>> kernel = Linear(2.0)
    >>> kernel(np.array([[1.0], [3.0]]))
    array([[ 2.,  6.],
           [ 6., 18.]])
    >>> kernel.theta.round(4)
    array([0.6931])
    """

    footprint: ClassVar[int] = 3
    _transforms: ClassVar[dict[str, Transform]] = {}

    @abstractmethod
    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(X, Z)`` and its pullback.

        It must not change the kernel, because it is called from several threads at the same time.

        Parameters
        ----------
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
            ``theta``. `Z_bar` has the shape of `Z`, or is the scalar 0. It is ignored if `inputs`
            is False. `pull` may overwrite `G`, except if `K` is a scalar. If `pull` is a closure,
            it cannot be pickled, as dask does. A `functools.partial` of a function of a module can.
        """

    @abstractmethod
    def linearize_diag(self, X: Array) -> tuple[Scalars, Pull]:
        """Return the value of ``k(x, x)`` for every row of X, and its pullback.

        Parameters
        ----------
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

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        """Return the value of ``k(X, Z)`` alone, as `linearize` does.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            First point set.
        Z : ndarray of shape (m, d)
            Second point set.

        Returns
        -------
        ndarray of shape (n, m), or scalar
            Noise-free kernel matrix, which the caller may overwrite.
        """
        return self.linearize(X, Z)[0]

    def linearize_stack(self, P: Array) -> tuple[Scalars, Pull]:
        """Return the values of ``k(P_i, P_i)`` for many small point sets, and their pullback.

        This one calls `linearize` for one set after the other.

        Parameters
        ----------
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
        return linearize_each(self.as_node().linearize, P)

    def theta_gradient(self, X: Array) -> Array:
        """Return the gradient of ``k(X, X)`` with respect to theta, by finite differences.

        Only scikit-learn's own estimators need it. A subclass may have a formula.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Point set.

        Returns
        -------
        ndarray of shape (n, n, p)
            Derivatives of every entry of the kernel matrix.
        """
        theta = self.theta
        value = lambda step: self.clone_with_theta(theta + step)(X)
        slopes = [fourth_order_slope(value, one) for one in np.eye(len(theta))]
        return np.moveaxis(np.reshape(slopes, (-1, len(X), len(X))), 0, 2)

    def as_node(self) -> "Node":
        """Return the node of this kernel in an expression, which calls its methods."""
        return Leaf(self, cast(KernelRule, type(self)))  # whose functions take the kernel first

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the matrix (n, m), Y None for X, and its gradient (n, n, p) if that is wanted."""
        if eval_gradient and Y is not None:
            raise ValueError("Gradient can only be evaluated when Y is None.")
        X = np.atleast_2d(X)
        K = evaluate(self, X, X if Y is None else np.atleast_2d(Y))
        if Y is None:
            K[np.diag_indices_from(K)] += diagonal(self, X)[1]  # the noise
        return (K, self.theta_gradient(X)) if eval_gradient else K

    def diag(self, X: Array) -> Array:
        """Return ``k(x, x)`` (n,) of every row of X (n, d)."""
        X = np.atleast_2d(X)
        signal, noise, _ = diagonal(self, X)
        return full(signal + noise, (len(X),))

    def is_stationary(self) -> bool:
        """Return whether the kernel depends on differences of inputs only, False by default."""
        return False

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters by name, those of kernels inside too if it is deep."""
        params = {name: getattr(self, name) for name in _parameters(cast(Any, type(self)))}
        for part, kernel in self._kernels_inside().items() if deep else ():
            params.update((f"{part}__{name}", one) for name, one in kernel.get_params().items())
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Hyperparameters of kernels inside, and of this kernel."""
        found = [
            one._replace(name=f"{name}__{one.name}")
            for name, kernel in self._kernels_inside().items()
            for one in kernel.hyperparameters
        ]
        return found + self._own()

    def _own(self) -> list[Hyperparameter]:
        """Hyperparameters of this kernel itself, without those of kernels inside."""
        found, kind = [], cast(Any, type(self))
        for name in _own_names(kind):
            size = np.size(self._current(name))
            bounds = getattr(self, f"{name}_bounds") if size else "fixed"
            found.append(Hyperparameter(name, "numeric", bounds, size or 1))
        return found

    def own_free(self) -> list[Hyperparameter]:
        """Return the hyperparameters of this kernel itself that are not fixed."""
        return [one for one in self._own() if not one.fixed]

    @property
    def theta(self) -> Any:
        """Free hyperparameters on the scales on which they are learned, mostly logarithms."""
        inside = [kernel.theta for kernel in self._kernels_inside().values()]
        names = [one.name for one in self.own_free()]
        own = [self._scale(name)[0](np.ravel(self._current(name))) for name in names]
        return np.concatenate([np.zeros(0), *inside, *own])

    @theta.setter
    def theta(self, theta: Array) -> Any:
        for name, kernel in self._kernels_inside().items():
            inside, theta = _moved(kernel, theta)
            setattr(self, name, inside)
        for one in self.own_free():
            here, theta = np.split(theta, [one.n_elements])
            values, is_array = self._scale(one.name)[1](here), np.ndim(self._current(one.name))
            setattr(self, one.name, values if is_array else float(values[0]))

    @property
    def bounds(self) -> Array:
        """Bounds of theta, an array of shape (p, 2)."""
        found = [np.reshape(one.bounds, (-1, 2)) for one in self._kernels_inside().values()]
        found += [np.sort(self._scale(one.name)[0](one.bounds)) for one in self.own_free()]
        return np.vstack([np.zeros((0, 2)), *found])

    def clone_with_theta(self, theta: Array) -> Kernel:
        """Return this kernel at other hyperparameters (p,), sharing everything else with it."""
        other = copy(self)
        other.theta = theta
        return other

    def _current(self, name: str) -> Any:
        """Value of a hyperparameter, which a subclass may expand to an array."""
        return getattr(self, name)

    def __repr__(self) -> str:
        inside, kind = [repr(one) for one in self._kernels_inside().values()], cast(Any, type(self))
        own = [f"{name}={shown(self._current(name))}" for name in _own_names(kind)]
        return f"{kind.__name__}({', '.join([*inside, *own])})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, its = self.get_params(deep=False), other.get_params(deep=False)
        as_array = partial(np.asarray, dtype=object)
        return all(np.array_equal(as_array(mine[name]), as_array(its[name])) for name in mine)

    def _kernels_inside(self) -> dict[str, Kernel]:
        params = self.get_params(deep=False).items()
        return {name: value for name, value in params if isinstance(value, Kernel)}

    def _scale(self, name: str) -> Transform:
        return self._transforms.get(name, (np.log, np.exp))


def fourth_order_slope(function: Callable[[Scalars], Array], along: Scalars = 1.0) -> Array:
    """Return the derivative of a function at 0 along a direction, by differences."""
    at = [function(k * _STEP * along) for k in (1, -1, 2, -2)]
    return (8.0 * (at[0] - at[1]) - (at[2] - at[3])) / (12.0 * _STEP)


@cache
def _parameters(kind: type) -> list[str]:
    """Names of the parameters of a constructor."""
    return [*signature(kind).parameters]


@cache
def _own_names(kind: type) -> list[str]:
    """Names of the hyperparameters of a class itself, sorted as scikit-learn does."""
    return sorted(name for name in _parameters(kind) if f"{name}_bounds" in _parameters(kind))


def shown(value: npt.ArrayLike) -> str:
    """Return a number, or a list of numbers, to three digits."""
    numbers = ", ".join(f"{one:.3g}" for one in np.ravel(value))
    return f"[{numbers}]" if np.ndim(value) else numbers


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
    if (names := _names(cast(Any, type(kernel)))) is None:
        return [(one.name, one.n_elements) for one in kernel.hyperparameters if not one.fixed]
    names = [one for one in names if not isinstance(getattr(kernel, f"{one}_bounds"), str)]
    return [(name, np.size(getattr(kernel, name))) for name in names]


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


class Leaf(Node):
    """A leaf kernel with a rule."""

    def __init__(self, kernel: Kernel, rule: KernelRule) -> None:
        super().__init__(kernel)
        self.rule, self.arrays = rule, rule.footprint

    def linearize(self, X: Array, Z: Array) -> tuple[Scalars, Pull]:
        if X.ndim == 3:
            K, pull = self.rule.linearize_stack(self.kernel, X)
        else:
            K, pull = self.rule.linearize(self.kernel, X, Z)
        return K, partial(self._pull, pull)

    def evaluate(self, X: Array, Z: Array) -> Scalars:
        return self.rule.evaluate(self.kernel, X, Z)

    def diagonal(self, X: Array) -> tuple[Scalars, Scalars, Pull]:
        value, pull = self.rule.linearize_diag(self.kernel, X)
        return value, 0.0, partial(self._pull_diag, pull)

    def _pull(self, pull: Pull, G: Array, inputs: bool) -> Pulled:
        gradients, bar = pull(G, inputs)
        return assemble(self.kernel, gradients), bar if inputs else 0.0

    def _pull_diag(self, pull: Pull, g_signal: Array, g_noise: Scalars, inputs: bool) -> Pulled:
        return self._pull(pull, g_signal, inputs)


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


# -- the node of every kernel, and the registry of rules by the exact type of a kernel -------------
# A `DifferentiableKernel` knows its node. Scikit-learn's kernels, and those that a user registers,
# have a rule by their *exact* type: ``Matern`` is a subclass of ``RBF`` in scikit-learn, and a
# subclass of a user may override ``__call__``, so that a subclass cannot use the rule of its base
# class. A kernel without a rule becomes a leaf of its own kind.

BUILDERS: dict[type, Callable[[Any], Node]] = {}


def node(kernel: Kernel) -> Node:
    """Return the node of `kernel`, or that of kernels without a rule."""
    if type(kernel) in BUILDERS:
        return BUILDERS[type(kernel)](kernel)
    return kernel.as_node() if isinstance(kernel, DifferentiableKernel) else Opaque(kernel)


def register(kernel_class: type, rule: KernelRule) -> None:
    """Give a kernel class a derivative rule.

    This is for classes that cannot subclass `DifferentiableKernel`, which carries its rule.

    Parameters
    ----------
    kernel_class : type
        Subclass of :class:`sklearn.gaussian_process.kernels.Kernel`. The rule applies to this
        class only, not to its subclasses. If the class already has a rule, it is replaced.
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
    ...    def __call__(self, X, Y=None, eval_gradient=False):
    ...        K = X @ (X if Y is None else Y).T
    ...        return (K, np.empty((*K.shape, 0))) if eval_gradient else K
    ...    def diag(self, X):
    ...        return np.sum(X**2, axis=1)
    ...    def is_stationary(self):
    ...        return False
    >>> class LinearRule(kernels.KernelRule):
    ...    footprint = 1
    ...    def linearize(self, kernel, X, Z):
    ...        return X @ Z.T, lambda G, inputs: ({}, G.T @ X)
    ...    def linearize_diag(self, kernel, X):
    ...        return np.sum(X**2, axis=1), lambda g, inputs: ({}, 2 * g[:, None] * X)
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
    BUILDERS[kernel_class] = partial(Leaf, rule=rule)
    copyreg.pickle(kernel_class, partial(_with_rule, rule))


# Pickles of kernels contain the rules that a user registered, for processes that lack them.
def _with_rule(rule: KernelRule, kernel: Kernel) -> Any:
    """Return the contents of a pickle: the function that makes a kernel, and its arguments."""
    make, arguments, *state = kernel.__reduce_ex__(4)
    return _registered, (type(kernel), rule, make, arguments), *state


def _registered(
    kernel_class: type, rule: KernelRule, make: Callable[..., Kernel], arguments: tuple[object, ...]
) -> Kernel:
    """Return a kernel whose class has its rule from now on."""
    if kernel_class not in BUILDERS:  # it is there where a kernel is copied
        register(kernel_class, rule)
    return make(*arguments)


_Part = TypeVar("_Part", bound=Kernel)


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
        The matrix ``k(X, Z)`` without white noise, even if points coincide. It is a C-contiguous
        float64 array. Do not modify it before you call the pullback, which may use it.
    pullback : callable
        The function ``pullback(G, inputs=True) -> (theta_bar, Z_bar)``. It returns the gradients
        of ``sum(G * K)`` with respect to ``kernel.theta`` and to `Z`. `Z_bar` is None if `inputs`
        is False. `G` is a float64 array of the shape of `K`, which the pullback **may
        overwrite**. Call the pullback at most once.

    Raises
    ------
    ValueError
        If the expression contains a CompoundKernel.
    TypeError
        If a kernel has no rule (see `differentiable`). The call ``pullback(G, inputs=True)``
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
    value, pull = node(kernel).linearize(X, Z)
    return full(value, (len(X), len(Z))), partial(_pull_cross, pull, Z.shape)


def _pull_cross(pull: Pull, shape: tuple[int, ...], G: Array, inputs: bool = True) -> Pulled:
    theta_bar, Z_bar = pull(G, inputs)
    return theta_bar, full(Z_bar, shape) if inputs else None


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
        Noise-free kernel matrix. It is a new array.

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
    return full(node(kernel).evaluate(X, Z), (len(X), len(Z)))


def linearize_stack(kernel: Kernel, P: Array) -> tuple[Array, Pull]:
    """Return the noise-free kernel matrices of many small point sets, and their pullback.

    Where a matrix has a few thousand entries, a call of a function costs as much as its arithmetic,
    and threads wait for the interpreter. Here it happens once for the whole stack.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, which is not changed.
    P : ndarray of shape (s, k, d)
        Point sets, float64. Those of a set should be close to its first one, in units of their
        distances: the formulas lose as many digits as they are further away.

    Returns
    -------
    K : ndarray of shape (s, k, k)
        The matrices ``k(P_i, P_i)`` without white noise. Do not modify them before you call the
        pullback.
    pullback : callable
        The function ``pullback(G, inputs=True) -> (theta_bar, P_bar)``, as that of `linearize`.
        Every matrix of `G` must be symmetric. `P_bar`, of the shape of `P`, is the gradient with
        respect to the points as both arguments of the kernel.

    Raises
    ------
    TypeError
        If a kernel has no rule (see `differentiable`). The call ``pullback(G, inputs=True)``
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
    value, pull = node(kernel).linearize(P, P)
    return full(value, (*P.shape[:2], P.shape[1])), partial(_pull_cross, pull, P.shape)


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
        Noise-free ``k(x, x)``. It is a scalar if it is the same for all rows.
    noise : float or ndarray of shape (n,)
        Variance of the white noise, ``kernel.diag(X) - signal``.
    pullback : callable
        The function ``pullback(g_signal, g_noise, inputs=False) -> (theta_bar, X_bar)``. It
        returns the gradients of ``sum(g_signal * signal) + sum(g_noise * noise)``. `g_signal` and
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
    signal, noise, pull = node(kernel).diagonal(X)
    return signal, noise, partial(_pull_diagonal, pull, X.shape)


def _pull_diagonal(
    pull: Pull, shape: tuple[int, ...], g_signal: Array, g_noise: Scalars, inputs: bool = False
) -> Pulled:
    theta_bar, X_bar = pull(g_signal, g_noise, inputs)
    return theta_bar, full(X_bar, shape) if inputs else None


def parts(kernel: Kernel, kind: type[_Part] | tuple[type[_Part], ...]) -> list[_Part]:
    """Return the parts of a kernel that are of a class, which may be the kernel itself."""
    return [one for one in (kernel, *kernel.get_params().values()) if isinstance(one, kind)]


def summands(kernel: Kernel) -> list[Kernel]:
    """Return the kernels whose sum it is: of the default one, a product, and what is added."""
    return [*summands(kernel.k1), *summands(kernel.k2)] if isinstance(kernel, Sum) else [kernel]


def parts_by_columns(kernel: Kernel, d: int, kind: type[_Part]) -> list[tuple[_Part, Ints]]:
    """Return the parts of a kernel that are of a class, each with the columns that it is given."""
    return [
        (part.kernel, columns)
        for part, columns in node(kernel).walk(np.arange(d))
        if isinstance(part.kernel, kind) and columns is not None
    ]


def has_noise(kernel: Kernel) -> bool:
    """Return whether the kernel expression has white noise, of one variance or of several.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.

    Returns
    -------
    bool
        True if a leaf of the expression is a `WhiteKernel` or a `HeteroscedasticNoise`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from skgp_sparse import kernels
    >>> kernels.has_noise(RBF()), kernels.has_noise(RBF() + WhiteKernel())
    (False, True)
    """
    return any(isinstance(part, White) for part, _ in node(kernel).walk(None))


def is_noisy(kernel: Kernel) -> bool:
    """Return whether a part has noise: white noise, or a `Missing` whose noise is not 0."""
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
    (True, False)
    """
    return not any(isinstance(part, Opaque) for part, _ in node(kernel).walk(None))


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
    """Return a length scale for each input column: the distance within which rows are near.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    X_scale : ndarray of shape (d,)
        Standard deviations of the columns. They are returned for columns of which no kernel has a
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


# Those of kernels with a period, which are no lengths, count if `periodic`.
def length_scale_places(kernel: Kernel, d: int, periodic: bool = True) -> list[tuple[Ints, Ints]]:
    """Return positions in theta and columns of every leaf's length scales that are free."""
    return [
        (positions, columns)
        for name, positions, part, columns in _hyperparameters(kernel, np.arange(d))
        if name == "length_scale" and columns is not None
        if periodic or not hasattr(part, "periodicity")
    ]


def positions_of(kernel: Kernel, name: str) -> list[Ints]:
    """Return where the free hyperparameters of a name are in theta, an array for each."""
    found = _hyperparameters(kernel, None)
    return [positions for one, positions, *_ in found if one.split("__")[-1] == name]


def periods(kernel: Kernel, d: int) -> list[tuple[Ints, Ints, float]]:
    """Return positions in theta, columns and values of the periods that are free."""
    return [
        (positions, columns, float(cast(Any, part).periodicity))
        for name, positions, part, columns in _hyperparameters(kernel, np.arange(d))
        if name == "periodicity" and columns is not None
    ]


# a period moves so far that the phases of rows a standard deviation apart change by one
def units(kernel: Kernel, rows: Any) -> Array:
    """Return the lengths (p,) of sensible steps in theta, given a `Dataset`: less for periods."""
    lengths = np.ones(len(kernel.theta))
    for positions, columns, period in periods(kernel, rows.n_features):
        waves = np.linalg.norm(rows.scale()[columns]) / period
        lengths[positions] = 1.0 / np.maximum(1.0, 2.0 * np.pi * waves)
    return lengths


def _hyperparameters(
    kernel: Kernel, columns: Ints | None
) -> Iterator[tuple[str, Ints, Kernel, Ints | None]]:
    """Yield name and positions in theta of what is free, with its part and the part's columns."""
    start = 0
    for part, own in node(kernel).walk(columns):
        for name, size in part.free():
            yield name, np.arange(start, start + size), part.kernel, own
            start += size


def touched(kernel: Kernel, d: int, but: str = "") -> Bools:
    """Return which of d columns matter to parts whose attribute of the name `but` is not true."""
    pairs = node(kernel).walk(np.arange(d), but)
    read = [part.inputs(own) for part, own in pairs if own is not None]
    return np.isin(np.arange(d), np.concatenate([np.arange(0), *read]))


def may_mix(kernel: Kernel) -> bool:
    """Return whether linear combinations of columns may take the place of the columns."""
    are_maps = (part.is_map for part, _ in node(kernel).walk(None))
    return kernel.is_stationary() and differentiable(kernel) and not any(are_maps)

"""Contracts of kernels, the node of every kernel, and the registry of rules.

A `DifferentiableKernel` carries its derivatives, and a `KernelRule` has those of a class that
cannot. They have the same methods, of which those of a rule take the kernel first. A `Leaf` is the
node of either. `node` makes the tree of nodes of a kernel, by the exact types of its parts
(`register`).

Pullbacks of the kernels in this package can be pickled.
"""

import copyreg
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cache, partial
from inspect import signature
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from skgp_sparse.ground.validation import Array, ArrayLike, Scalars, as_text

from ._nodes import Node, Opaque, Pull, Pulled, assemble, full, linearize_each, moved_and_rest


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
        Z = X if Y is None else np.atleast_2d(Y)
        K = full(node(self).evaluate(X, Z), (len(X), len(Z)))
        if Y is None:
            K[np.diag_indices_from(K)] += node(self).diagonal(X)[1]  # the noise
        return (K, self.theta_gradient(X)) if eval_gradient else K

    def diag(self, X: Array) -> Array:
        """Return ``k(x, x)`` (n,) of every row of X (n, d)."""
        X = np.atleast_2d(X)
        signal, noise, _ = node(self).diagonal(X)
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
            inside, theta = moved_and_rest(kernel, theta)
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


def shown(value: ArrayLike) -> str:
    """Return a number, or a list of numbers, to three digits."""
    numbers = ", ".join(f"{one:.3g}" for one in np.ravel(value))
    return f"[{numbers}]" if np.ndim(value) else numbers


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

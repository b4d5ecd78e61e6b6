"""The node of every kernel, and the registry of rules by the exact type of a kernel.

A `DifferentiableKernel` knows its node. Scikit-learn's kernels, and those that a user registers,
have a rule by their *exact* type: ``Matern`` is a subclass of ``RBF`` in scikit-learn, and a
subclass of a user may override ``__call__``, so that a subclass cannot use the rule of its base
class. A kernel without a rule becomes a leaf of `_fallback`.

Pickles of kernels contain the rules that a user registered, for processes that lack them.
"""

import copyreg
from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse._ground.plain_text import as_text

from ._differentiable import DifferentiableKernel
from ._fallback import Opaque
from ._nodes import Leaf, Node
from ._rules import KernelRule

_BUILDERS: dict[type, Callable[[Any], Node]] = {}


def node(kernel: Kernel) -> Node:
    """Return the node of `kernel`, or that of kernels without a rule."""
    build = _BUILDERS.get(type(kernel))
    if build is not None:
        return build(kernel)
    return kernel.as_node() if isinstance(kernel, DifferentiableKernel) else Opaque(kernel)


def add_builder(kernel_class: type, build: Callable[[Any], Node]) -> None:
    """Let ``build(kernel)`` make the nodes of `kernel_class`."""
    _BUILDERS[kernel_class] = build


def add_family(kernel_class: type, choose: Callable[[Any], KernelRule | None]) -> None:
    """Let ``choose(kernel)`` pick the rule of a kernel with several formulas, or None."""

    def build(kernel: Kernel) -> Node:
        rule = choose(kernel)
        return Opaque(kernel) if rule is None else Leaf(kernel, rule)

    add_builder(kernel_class, build)


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
    add_family(kernel_class, lambda kernel: rule)
    _put_in_pickles(kernel_class, rule)


def _put_in_pickles(kernel_class: type, rule: KernelRule) -> None:
    """Let pickles of kernels contain their rule, which is registered where they are loaded.

    The package's own rules for its own and scikit-learn's kernels are known everywhere.
    """
    if not all(_is_known_everywhere(one) for one in (kernel_class, type(rule))):
        copyreg.pickle(kernel_class, partial(_with_rule, rule))


def _is_known_everywhere(one: type) -> bool:
    """Return whether every process that imports this package imports a class."""
    return one.__module__.startswith(("skgp_sparse.", "sklearn."))


def _with_rule(rule: KernelRule, kernel: Kernel) -> Any:
    """Return the contents of a pickle: the function that makes a kernel, and its arguments."""
    make, arguments, *state = kernel.__reduce_ex__(4)
    return _registered, (type(kernel), rule, make, arguments), *state


def _registered(
    kernel_class: type, rule: KernelRule, make: Callable[..., Kernel], arguments: tuple[Any, ...]
) -> Kernel:
    """Return a kernel whose class has its rule from now on."""
    if kernel_class not in _BUILDERS:  # it is there where a kernel is copied
        register(kernel_class, rule)
    return make(*arguments)

"""Free hyperparameters of kernels, read and set as scikit-learn does it, in a fraction of the time.

scikit-learn looks for the names of hyperparameters among all that an object has, several times for
every theta that is set, and copies kernels by the signatures of their classes. An evaluation of few
rows takes less time than that.
"""

from functools import cache, singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Kernel, Product, Sum

from ._rules import Array

_PREFIX = "hyperparameter_"


@cache
def _names(kind: type) -> list[str] | None:
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
    names = _names(type(kernel))
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
    kind = type(kernel)
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

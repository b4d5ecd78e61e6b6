"""Pickles of kernels with the rules that a user registered, for processes that lack them."""

import copyreg
from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.gaussian_process.kernels import Kernel

from ._rules import KernelRule


def put_in_pickles(kernel_class: type, rule: KernelRule, register: Callable[..., Any]) -> None:
    """Let pickles of kernels contain their rule, which `register` tells to those who load them.

    The package's own rules for its own and scikit-learn's kernels are known everywhere.
    """
    if not all(_is_known_everywhere(one) for one in (kernel_class, type(rule))):
        copyreg.pickle(kernel_class, partial(_with_rule, register, rule))


def _is_known_everywhere(one: type) -> bool:
    """Return whether every process that imports this package imports a class."""
    return one.__module__.startswith(("skgp_sparse.", "sklearn."))


def _with_rule(register: Callable[..., Any], rule: KernelRule, kernel: Kernel) -> Any:
    """Return what a pickle contains: the function that makes a kernel, and its arguments."""
    make, arguments, *state = kernel.__reduce_ex__(4)
    return _registered, (register, type(kernel), rule, make, arguments), *state


def _registered(
    register: Callable[..., Any], kernel_class: type, rule: KernelRule, make: Any, arguments: Any
) -> Any:
    """Return a kernel whose class has its rule from now on."""
    register(kernel_class, rule)
    return make(*arguments)

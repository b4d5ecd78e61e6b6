"""Which parts of a kernel see codes of levels, in which columns, and how many levels there are."""

import numpy as np

from ._categorical import Categorical
from ._mapped import MappedNode
from ._nodes import node

_MOST = 10_000  # levels that are points


def categories(kernel, d):
    """Return the `Categorical` parts of a kernel, each with each of its columns.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int
        Number of input columns.

    Returns
    -------
    list of tuple of (Categorical, int)
    """
    return [
        (leaf.kernel, int(column))
        for leaf, columns in node(kernel).seen(np.arange(d))
        if type(leaf.kernel) is Categorical and columns is not None
        for column in columns
    ]


def as_numbers(kernel, d):
    """Return which of d columns a part of a kernel sees that is not for categories.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression.
    d : int

    Returns
    -------
    ndarray of shape (d,) of bool
    """
    return np.isin(np.arange(d), _as_numbers(node(kernel), np.arange(d)))


def _as_numbers(part, columns):
    """Return the columns that parts for numbers see, of those that a node sees."""
    if not part.children:
        return columns[:0] if type(part.kernel) is Categorical else part.touched(columns)
    own = part.kernel.sources(columns) if isinstance(part, MappedNode) else columns
    if own is None:  # a map mixes them
        return columns
    return np.concatenate([_as_numbers(child, own) for child in part.children])


def with_levels(kernel, d, codes):
    """Return a kernel whose categories know how many levels they have, where that matters.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel expression, of which the caller has the only copy.
    d : int
        Number of input columns.
    codes : callable
        ``column -> codes`` in training.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        The kernel.

    Raises
    ------
    ValueError
        If codes are not whole numbers, or there are too many of them for points.
    """
    for part, column in categories(kernel, d):
        is_auto = isinstance(part.n_levels, str) and part.n_levels == "auto"
        if not is_auto or not part.takes_one_column():
            continue
        largest = codes(column).max()
        if not 0 <= largest < _MOST:
            raise ValueError(
                f"The largest code of a category in column {column} is {largest:g}, but levels are "
                f"points for codes from 0 to {_MOST - 1}. Encode the category by OrdinalEncoder of "
                "scikit-learn, or set the rank to 0."
            )
        part.n_levels = int(np.rint(largest)) + 1
    return kernel

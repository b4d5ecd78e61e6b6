"""Warnings that can be told from others, to filter them or to make errors of them.

Examples
--------
>>> import warnings
>>> from skgp_sparse.exceptions import ConstantFitWarning
>>> warnings.simplefilter("error", ConstantFitWarning)

Those of what happens deep inside are told where the user called.
"""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

import joblib
import sklearn

__all__ = ["ConstantFitWarning", "TextColumnWarning"]


class TextColumnWarning(UserWarning):
    """A column of text is hardly meant as a category: it spells numbers or dates.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.exceptions import TextColumnWarning
    >>> X = pd.DataFrame({"size": ["10", "20", "30", "40"]})
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     model = SparseGPRegressor().fit(X, [1.0, 2.0, 3.0, 4.0])
    >>> any(one.category is TextColumnWarning for one in told)
    True
    """


class ConstantFitWarning(UserWarning):
    """A warning of a fit that explains no more than a constant, although it could.

    The search for hyperparameters has converged, to an optimum at which all structure is noise. In
    the data, targets of rows that are near to each other are more alike than others.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from skgp_sparse import SparseGPRegressor
    >>> from skgp_sparse.exceptions import ConstantFitWarning
    >>> X = np.arange(300.0)[:, None]
    >>> model = SparseGPRegressor(RBF(500.0) + WhiteKernel())  # far longer than a wave of 12 rows
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     model = model.fit(X, np.sin(np.pi * X[:, 0] / 6))
    >>> any(one.category is ConstantFitWarning for one in told)
    True
    """


_ROOT = os.path.dirname(__file__)  # of this package
_OTHERS = (os.path.dirname(module.__file__) for module in (sklearn, joblib))
_INSIDE = tuple(folder + os.sep for folder in (_ROOT, *_OTHERS))  # through which users call us
_about = ContextVar("about", default="")
_collected: ContextVar[list | None] = ContextVar("collected", default=None)


@contextmanager
def _during(variable: ContextVar, value: object) -> Iterator:
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def about(name: str) -> AbstractContextManager:
    """Context whose warnings begin with a name, unless it is empty."""
    return _during(_about, f"{name}: " if name else "")


def collected() -> AbstractContextManager:
    """Context that keeps warnings in a list, as (message, category), to be told elsewhere."""
    return _during(_collected, [])


def warn_again(warnings: Iterable, but: tuple[type[Warning], ...] = ()) -> None:
    """Tell warnings that were `collected`, but those of some categories."""
    for message, category in warnings:
        if not issubclass(category, but):
            warn(message, category)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is not of this package, scikit-learn or joblib."""
    message = _about.get() + message
    if (kept := _collected.get()) is not None:
        return kept.append((message, category))
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

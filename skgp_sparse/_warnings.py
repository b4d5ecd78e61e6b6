"""Warnings of what happens deep inside, told where the user called."""

import os
import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar

import sklearn

_INSIDE = tuple(os.path.dirname(path) + os.sep for path in (__file__, sklearn.__file__))
_about = ContextVar("about", default="")


@contextmanager
def about(name):
    """Context whose warnings begin with a name, unless it is empty."""
    token = _about.set(f"{name}: " if name else "")
    try:
        yield
    finally:
        _about.reset(token)


def warn(message, category=UserWarning):
    """Warn at the innermost line that is neither of this package nor of scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(_about.get() + message, category, stacklevel=level)

"""Comparisons that raise an AssertionError with what was found and what was expected."""

from contextlib import contextmanager

import numpy as np
from sklearn.base import clone


def that(condition, sentence):
    """Raise an AssertionError unless `condition` is true, even under ``python -O``."""
    if not condition:
        raise AssertionError(sentence)


@contextmanager
def no_error(what):
    """Convert an error inside the block to an AssertionError that names the failing call."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        raise AssertionError(f"Expected no error, but {what} raised {kind}: {error}") from error


def instance(value, kind):
    """Require an instance of a public class, which scikit-learn can clone with its parameters."""
    path = f"{kind.__module__.split('._')[0]}.{kind.__name__}"
    that(isinstance(value, kind), f"{value!r} must be an instance of {path}.")
    with no_error(f"sklearn.base.clone({value!r})"):
        again = clone(value)
    same = type(again) is type(value) and repr(again) == repr(value)
    that(same, f"The clone of {value!r} is {again!r}, expected an equal object.")


def shape(value, expected, what):
    """Require that `value` has the expected shape."""
    that(np.shape(value) == expected, f"{what} has shape {np.shape(value)}, expected {expected}.")


def everywhere(good, actual, what, expected, at=None):
    """Require that all of `good` is true; ``expected(i)`` and ``at(i)`` describe entry i."""
    wrong = np.flatnonzero(~np.asarray(good))
    if len(wrong):
        place = at(wrong[0]) if at else f"entry {wrong[0]} of shape {np.shape(actual)}"
        text = expected(wrong[0]) if callable(expected) else expected
        number = np.asarray(actual).flat[wrong[0]]
        raise AssertionError(f"{what} is {number:.10g} at {place}, expected {text}.")


def finite(values, what, at=None):
    """Require that no value is NaN or infinite."""
    everywhere(np.isfinite(values), values, what, "a finite number", at)


def close(actual, expected, allowed, what, source, at=None):
    """Require that two arrays are equal, or differ by at most `allowed`.

    `source` is the origin of `expected`.
    """
    expected = np.asarray(expected)
    shape(actual, expected.shape, what)
    with np.errstate(invalid="ignore"):  # of equal infinities
        good = (actual == expected) | (np.abs(actual - expected) <= allowed)
    everywhere(good, actual, what, lambda i: f"{expected.flat[i]:.10g} ({source})", at)


def read_only(array):
    """Return a view that cannot be overwritten."""
    view = array.view()
    view.flags.writeable = False
    return view


def differences(function, at, step):
    """Compute central differences of an array, one for each entry of the argument."""
    steps = step * np.eye(np.size(at)).reshape(-1, *np.shape(at)) if np.size(at) else ()
    slopes = [(function(at + shift) - function(at - shift)) / (2.0 * step) for shift in steps]
    return np.reshape(slopes, np.shape(at) + np.shape(slopes)[1:])

"""Comparisons that raise an AssertionError with what was found and what was expected."""

import numpy as np
from sklearn.base import clone


def that(condition, sentence):
    """Raise an AssertionError unless `condition` is true, even under ``python -O``."""
    if not condition:
        raise AssertionError(sentence)


def call(what, function, *arguments):
    """Return what a function returns; it must not write into the arrays that it is given."""
    try:
        return function(*map(_read_only, arguments))
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error


def _read_only(value):
    return np.broadcast_to(value, value.shape) if isinstance(value, np.ndarray) else value


def instance(value, kind):
    """Require an instance of a public class, which scikit-learn can clone with its parameters."""
    path = f"{kind.__module__.split('._')[0]}.{kind.__name__}"
    that(isinstance(value, kind), f"{value!r} must be an instance of {path}.")
    again = repr(call(f"sklearn.base.clone({value!r})", clone, value))
    that(again == repr(value), f"The clone of {value!r} is {again}, expected an equal object.")


def everywhere(good, actual, what, expected, at=None):
    """Require that all of `good` is true. `at` has the arguments of every entry by their names."""
    wrong = np.flatnonzero(~np.asarray(good))
    if len(wrong):
        index = wrong[0]
        text = expected if isinstance(expected, str) else f"{np.ravel(expected)[index]:.10g}"
        place = ", ".join(f"{name} = {values[index]:g}" for name, values in (at or {}).items())
        found = f"{np.ravel(actual)[index]:.10g} at {place or f'entry {index}'}"
        raise AssertionError(f"{what} is {found}, expected {text}.")


def finite(values, shape, what, at=None, may_overflow=False):
    """Require values of a shape, none of which is NaN, or infinite where they may not be."""
    that(np.shape(values) == shape, f"{what} has shape {np.shape(values)}, expected {shape}.")
    good = np.isfinite(values) | (may_overflow & ~np.isnan(values))
    everywhere(good, values, what, "a finite number", at)


def close(actual, expected, allowed, what, at=None):
    """Require that two arrays are equal, or differ by at most `allowed`."""
    expected, shape = np.asarray(expected), np.shape(actual)
    that(shape == expected.shape, f"{what} has shape {shape}, expected {expected.shape}.")
    with np.errstate(invalid="ignore"):  # of equal infinities
        good = (actual == expected) | (np.abs(actual - expected) <= allowed)
    everywhere(good, actual, what, expected, at)

"""Comparisons that raise an AssertionError with what was found and what was expected."""

import numpy as np
from sklearn.base import clone


def that(condition, sentence):
    """Raise an AssertionError unless `condition` is true, even under ``python -O``."""
    if not condition:
        raise AssertionError(sentence)


def call(what, function, *arguments, **options):
    """Return what a function returns; it must not write into the arrays that it is given."""
    try:
        return function(*map(_read_only, arguments), **options)
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error


def _read_only(value):
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def instance(value, kind):
    """Require an instance of a public class, which scikit-learn can clone with its parameters."""
    path = f"{kind.__module__.split('._')[0]}.{kind.__name__}"
    that(isinstance(value, kind), f"{value!r} must be an instance of {path}.")
    again = call(f"sklearn.base.clone({value!r})", clone, value)
    same = type(again) is type(value) and repr(again) == repr(value)
    that(same, f"The clone of {value!r} is {again!r}, expected an equal object.")


def everywhere(good, actual, what, expected, at=None):
    """Require that all of `good` is true. `at` has the arguments of every entry by their names."""
    wrong = np.flatnonzero(~np.asarray(good))
    if len(wrong):
        index = wrong[0]
        names = [f"{name} = {values[index]:g}" for name, values in (at or {}).items()]
        text = expected if isinstance(expected, str) else f"{np.asarray(expected).flat[index]:.10g}"
        place, number = ", ".join(names) or f"entry {index}", np.asarray(actual).flat[index]
        raise AssertionError(f"{what} is {number:.10g} at {place}, expected {text}.")


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


def differences(function, at, step):
    """Compute central differences of an array, one for each entry of the argument."""
    steps = step * np.eye(np.size(at)).reshape(-1, *np.shape(at)) if np.size(at) else ()
    slopes = [(function(at + shift) - function(at - shift)) / (2.0 * step) for shift in steps]
    return np.reshape(slopes, np.shape(at) + np.shape(slopes)[1:])

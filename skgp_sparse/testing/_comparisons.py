"""Helpers of all checks: conditions with a sentence, comparisons, and derivatives of rows."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from sklearn.base import clone

from skgp_sparse.ground.validation import Array, ArrayLike, Bools

SHIFT = 1e-4  # of central differences
Place = Mapping[str, Array] | None  # the arguments of every entry by their names
Answer = TypeVar("Answer")


def that(condition: object, sentence: str) -> None:
    """Raise an AssertionError unless `condition` is true, even under ``python -O``."""
    if not condition:
        raise AssertionError(sentence)


def call(what: str, function: Callable[..., Answer], *arguments: object) -> Answer:
    """Return what a function returns; it must not write into the arrays that it is given."""
    try:
        return function(*map(_read_only, arguments))
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error


def _read_only(value: object) -> object:
    return np.broadcast_to(value, value.shape) if isinstance(value, np.ndarray) else value


def instance(value: object, kind: type) -> None:
    """Require an instance of a public class, which scikit-learn can clone with its parameters."""
    path = f"{kind.__module__.split('._')[0]}.{kind.__name__}"
    that(isinstance(value, kind), f"{value!r} must be an instance of {path}.")
    call(f"sklearn.base.clone({value!r})", clone, value)


def everywhere(good: Bools, actual: ArrayLike, what: str, expected: ArrayLike, at: Place) -> None:
    """Require that all of `good` is true. `at` has the arguments of every entry by their names."""
    for index in np.flatnonzero(~np.asarray(good)):
        text = expected if isinstance(expected, str) else f"{np.ravel(expected)[index]:.10g}"
        place = ", ".join(f"{name} = {values[index]:g}" for name, values in (at or {}).items())
        found = f"{np.ravel(actual)[index]:.10g} at {place or f'entry {index}'}"
        raise AssertionError(f"{what} is {found}, expected {text}.")


def close(
    actual: ArrayLike, expected: ArrayLike, allowed: ArrayLike, what: str, at: Place = None
) -> None:
    """Require that two arrays are equal, or differ by at most `allowed`."""
    shape, expected = np.shape(actual), np.asarray(expected)
    that(shape == expected.shape, f"{what} has shape {shape}, expected {expected.shape}.")
    # equal infinities are close
    good = np.isclose(actual, expected, rtol=0.0, atol=np.minimum(allowed, 1e300))
    everywhere(good, actual, what, expected, at)


def pickled(value: Answer) -> Answer:
    return pickle.loads(pickle.dumps(value))


def largest(values: ArrayLike) -> float:
    return np.max(np.abs(values), initial=1e-80)


def differences(function: Callable[[Array], Array], at: Array, step: float) -> Array:
    """Compute central differences of an array, one for each entry of the argument."""
    shifts = step * np.eye(np.size(at)).reshape(-1, *np.shape(at)) if np.size(at) else ()
    slopes = [(function(at + shift) - function(at - shift)) / (2.0 * step) for shift in shifts]
    return np.reshape(slopes, np.shape(at) + np.shape(slopes)[1:])


class Curves:
    """A function that returns a value for each row, and derivatives of this value."""

    def __init__(self, what: str, function: Callable, names: tuple, parts: tuple) -> None:
        self.what, self.function, self.names, self.parts = what, function, names, parts
        self.may_overflow = what.endswith(".expected")  # where rows are not moderate

    def __call__(self, rows: Array) -> Sequence[Array]:
        """Return what the function returns, all finite and of the right shape."""
        found = call(f"{self.what} of {rows.shape[1]} rows", self.function, *rows)
        wanted = f"{len(found)} arrays, expected {len(self.parts)}"
        that(len(found) == len(self.parts), f"{self.what} returns {wanted}.")
        for part, values in zip(self.parts, found):
            what, shape = f"{self.what}: {part} of {rows.shape[1]} rows", np.shape(values)
            that(shape == rows[0].shape, f"{what} has shape {shape}, expected {rows[0].shape}.")
            good = np.isfinite(values)
            if self.may_overflow:
                good |= ~self.is_moderate(rows) & ~np.isnan(values)
            everywhere(good, values, what, "a finite number", self.place(rows))
        return found

    @staticmethod
    def is_moderate(rows: Array) -> Bools:
        """Where means and variances are not so large that values may overflow."""
        return (np.abs(rows[1]) <= 12.5) & (rows[2] <= 5.0)

    def place(self, rows: Array) -> Place:
        return dict(zip(self.names, rows))

    def check_alone(self, rows: Array, few: int, digits: float, unit: float) -> None:
        """Check that what is returned for a row depends on this row only, also with few rows."""
        whole = self(rows)
        for some in np.arange(rows.shape[1])[::-3], np.arange(few):
            for part, alone, values in zip(self.parts, self(rows[:, some]), whole):
                allowed = digits * (unit + np.abs(values[some]))
                what = f"{self.what}: {part} of a row alone"
                close(alone, values[some], allowed, what, self.place(rows[:, some]))

    def check_slopes(self, rows: Array, low: Array, high: Array, allowed: Callable) -> None:
        """Compare derivatives with central differences; a third part is a negative second one."""
        found, above, below = self(rows), self(high), self(low)
        for k, part in enumerate(self.parts[1:]):
            change = (-1) ** k * (above[k] - below[k]) / np.max(high - low, axis=0)
            what = f"{self.what}: {part}, beside central differences,"
            close(found[k + 1], change, allowed(change, above[k]), what, self.place(rows))

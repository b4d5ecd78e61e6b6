"""Checks of parameters, whose errors say what was got and what is right."""

from numbers import Integral

import numpy as np

from skgp_sparse._ground.plain_text import as_text

BOOLS = (bool, np.bool_)


def require(is_right, parameter, value, name, must):
    """Raise unless the value of a parameter is right; `must` says what it must be."""
    if not is_right:
        raise ValueError(
            f"The {parameter!r} parameter of {name} must be {must}. Got {as_text(value)} instead."
        )


def is_auto(value):
    """Whether a choice is left to the package."""
    return is_name(value, "auto")


def is_name(value, name):
    """Whether the value of a parameter is a name, and not an object or an array."""
    return isinstance(value, str) and value == name


def check_number(value, parameter, name, kind, low, high=np.inf):
    """Raise unless the parameter is a number of that kind between low and high."""
    is_number = isinstance(value, kind) and not isinstance(value, BOOLS)
    noun = "an int" if kind is Integral else "a float"
    must = f"{noun} in the range [{low}, {high}{')' if high == np.inf else ']'}"
    require(is_number and low <= value <= high and value < np.inf, parameter, value, name, must)

"""Values of users as text, for messages: numbers are plain, whatever library they are of."""

import numpy as np

_IS_LONG = int(np.__version__.split(".")[0]) >= 2  # NumPy 1 has no long form of numbers


def as_text(value: object) -> str:
    """The repr of a value, in which numbers of NumPy look as those of Python.

    This holds for those in lists, arrays and other objects, too: ``[-1.0]`` instead of
    ``[np.float64(-1.0)]``.
    """
    with np.printoptions(legacy="1.25" if _IS_LONG else False):
        return repr(value)

"""Large arrays whose memory is used again within a fit.

An evaluation makes arrays of some megabytes by the hundred. The allocator gives such memory back to
the system at once and asks for it again, page by page, which takes as long as the arithmetic on it.
Here memory that an array no longer needs waits for the next one, until the fit is over.
"""

import weakref
from collections import defaultdict
from math import prod

import numpy as np

_SMALL = 1 << 20  # bytes below which the allocator is quick
_waiting = defaultdict(list)  # memory by its size
_state = {"open": False}


def keep():
    """From now on, memory of arrays from `empty` waits to be used again."""
    _state["open"] = True


def release():
    """Give all memory that waits back to the system."""
    _state["open"] = False
    _waiting.clear()


def empty(shape):
    """An array (float64, C-ordered) with values that have no meaning."""
    size = 8 * prod(shape)
    if size < _SMALL or not _state["open"]:
        return np.empty(shape)
    size = _rounded(size)
    try:
        memory = _waiting[size].pop()
    except IndexError:
        memory = np.empty(size // 8)
    # Views keep this array alive, not the one below it: NumPy looks no further than a memoryview.
    array = np.frombuffer(memoryview(memory), count=prod(shape))
    weakref.finalize(array, _give_back, memory).atexit = False
    return array.reshape(shape)


def _give_back(memory):
    if _state["open"]:
        _waiting[memory.nbytes].append(memory)


def _rounded(size):
    """The size, or up to an eighth more: blocks of nearly as many rows share their memory."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step

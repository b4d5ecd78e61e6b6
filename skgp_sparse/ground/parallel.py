"""Threads over blocks of rows, memory that is used again within a fit, and the end of a fit.

- One Python thread per core has one BLAS thread (`ordered_map`, `single_threaded_blas`).
- Memory that an array no longer needs waits for the next one (`empty`).
- A `Deadline` says when a fit should end.
"""

import os
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from math import prod
from threading import Lock, local
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

from skgp_sparse.ground.validation import Array, Scalars

Item = TypeVar("Item")

_SMALL = 1 << 17  # bytes below which the allocator is quick
_WORTH = 1 << 19  # numbers of a call, some ms, from which threads of a pool pay
_memory: defaultdict[int, list[Array]] = defaultdict(list)  # that no array needs, by its size


_controller = cache(ThreadpoolController)  # made when BLAS has been loaded


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Number of threads: None means as many as BLAS may use now, which joblib lowers in workers,
    and at most the cores that a container may use.
    """
    return min(_number_of_threads("blas"), _cores()) if n_jobs is None else effective_n_jobs(n_jobs)


_cores = cache(cpu_count)


def _number_of_threads(user_api: str) -> int:
    pools = _controller().select(user_api=user_api).info()
    return max((pool["num_threads"] for pool in pools), default=1)


_LIMIT = Lock()
_inside = 0  # contexts that are open in any thread ...
_limiter: Any = None  # ... and what they share
_pools: dict[int, ThreadPoolExecutor] = {}  # of threads, by their number, while a context is open
_here = local()  # marks the threads of pools


def _forget_threads() -> None:
    """In a forked process, where the threads of the pools do not exist."""
    global _LIMIT
    _LIMIT = Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


# One Python thread per core has one BLAS thread: the O(n m²) products release the interpreter
# lock, elementwise work runs in parallel too, and a core that somebody else is using costs its
# share only, where a multi-threaded BLAS call waits for its slowest thread.
#
# The limit belongs to the process: the first context sets it, and the last one restores it. So do
# the threads of `ordered_map` (new ones for every pass would begin on a core that is busy) and
# the memory that waits for `empty`.
@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Context in which every BLAS call runs on the thread that makes it."""
    global _inside, _limiter
    idle: list[ThreadPoolExecutor] = []
    with _LIMIT:
        if _inside == 0:
            _limiter = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _LIMIT:
            _inside -= 1
            if _inside == 0:
                _limiter.restore_original_limits()
                _memory.clear()
                idle += _pools.values()
                _pools.clear()
        for pool in idle:
            pool.shutdown()


# Threads of OpenMP wait for each other some thousand times in a fit of boosting, and turn as they
# wait: on a core that somebody else is using, each of these times takes as long as a turn of that
# other one. A call needs four times as many numbers as one of a pool before they pay. The limit
# belongs to the thread that sets it.
def openmp_threads(n_jobs: int = 1, n_numbers: int = 0) -> Any:
    """Context in which OpenMP has one thread, or `n_jobs` for a call with many numbers."""
    threads = min(n_jobs, _number_of_threads("openmp")) if n_numbers >= 4 * _WORTH else 1
    return _controller().limit(limits=threads, user_api="openmp")


def worth(n_jobs: int, n_numbers: float) -> int:
    """Threads for a call that computes so many numbers, of some nanoseconds each."""
    return n_jobs if n_numbers >= _WORTH else 1


@contextmanager
def _threads(n_jobs: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of `n_jobs` threads, kept until BLAS is no longer limited."""
    with single_threaded_blas():
        with _LIMIT:
            if n_jobs not in _pools:
                _pools[n_jobs] = ThreadPoolExecutor(n_jobs, initializer=_mark_thread)
            pool = _pools[n_jobs]
        yield pool


def _mark_thread() -> None:
    _here.in_pool = True
    np.seterr(all="ignore")  # as the threads that call do: the results are checked there


def slices(stop: int, size: int) -> list[slice]:
    """Slices of so many numbers below another, the last one of what is left."""
    return [slice(k, min(k + size, stop)) for k in range(0, stop, size)]


# Results are handed over in order, so whatever is summed from them does not depend on `n_jobs`,
# to the last bit. At most ``ahead + 1`` results wait in memory, and `ahead` is `n_jobs` unless it
# is given. A map within a function of another map runs where it is: it would wait for threads
# that wait for it. What must not happen in another thread, `prepare` does: it turns an item into
# what the function takes.
def ordered_map(
    function: Callable,
    items: Collection[Item],
    n_jobs: int,
    prepare: Callable | None = None,
    ahead: int | None = None,
) -> Iterator[Any]:
    """Yield ``function(item)`` in the order of the items, `n_jobs` of them at a time."""
    prepared = items if prepare is None else map(prepare, items)
    if n_jobs == 1 or len(items) <= 1 or getattr(_here, "in_pool", False):
        yield from map(function, prepared)
        return
    with _threads(n_jobs) as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for item in prepared:
                waiting.append(pool.submit(function, item))
                if len(waiting) > (ahead or n_jobs):
                    yield waiting[0].result()  # where this is interrupted, it goes on waiting
                    waiting.popleft()
            while waiting:
                yield waiting[0].result()
                waiting.popleft()
        finally:  # after an error, the others of a pool that goes on
            wait([future for future in waiting if not future.cancel()])


def for_each(function: Callable[[Item], object], items: Collection[Item], n_jobs: int) -> None:
    """Call a function of all items: many short tasks, of which none waits for another one."""
    deque(ordered_map(function, items, n_jobs, ahead=len(items)), maxlen=0)


# An evaluation makes arrays of some megabytes by the hundred. The allocator gives such memory back
# to the system at once and asks for it again, page by page, which takes as long as the arithmetic
# on it. Here memory that an array no longer needs waits for the next one, until the fit is over.
def empty(shape: tuple[int, ...]) -> Array:
    """An array (float64, C-ordered) with values that have no meaning."""
    size = 8 * int(prod(shape))
    if size < _SMALL or not _inside:
        return np.empty(shape)
    step = 1 << (size.bit_length() - 4)
    size = -(-size // step) * step  # blocks of nearly as many rows share their memory
    try:
        memory = _memory[size].pop()
    except IndexError:
        memory = np.empty(size // 8)
    # Views keep this array alive, not the one below it: NumPy looks no further than a memoryview.
    array = np.frombuffer(memoryview(memory), count=prod(shape))  # type: ignore[arg-type]
    weakref.finalize(array, _give_back, memory).atexit = False
    return array.reshape(shape)


def applied(function: np.ufunc, *arrays: Scalars) -> Array:
    """``function(*arrays)`` of a function of NumPy, as an array of `empty`; a number of numbers."""
    shape = np.broadcast_shapes(*map(np.shape, arrays))
    return function(*arrays, out=empty(shape)) if shape else function(*arrays)


def _give_back(memory: Array) -> None:
    if _inside:
        _memory[memory.nbytes].append(memory)


class Deadline:
    """A limit of time in seconds; `tell` is called once, when it is found to be over."""

    def __init__(self, seconds: float = float("inf"), tell: Callable | None = None) -> None:
        self.start, self.tell = monotonic(), tell
        self.moment = self.start + seconds

    def is_over(self) -> bool:
        """Whether the moment has come, so that what may be left out is left out."""
        over = monotonic() >= self.moment
        if over and self.tell is not None:
            self.tell()
            self.tell = None
        return over

    def left(self) -> float:
        """Seconds that are left, 0 once the moment has come."""
        return max(self.moment - monotonic(), 0.0)

    def allows(self, share: float) -> bool:
        """Whether something may begin that takes a share of the time that has gone so far."""
        now = monotonic()
        return now + share * (now - self.start) <= self.moment

    def share(self, count: float) -> "Deadline":
        """The deadline of one of several things that are still to be done in turn."""
        return Deadline(self.left() / count, self.tell)

    def until(self, items: Iterable[Item]) -> Iterator[Item]:
        """Items, one after the other, as long as there is time."""
        return takewhile(lambda _: not self.is_over(), items)

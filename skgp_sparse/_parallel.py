"""Threads over blocks of rows.

One Python thread per core with one BLAS thread each: the O(n m²) products release the interpreter
lock, elementwise work runs in parallel too, and a core that somebody else is using costs its share
only, where a multi-threaded BLAS call waits for its slowest thread.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController


@cache
def _controller():
    return ThreadpoolController()


def resolve_n_jobs(n_jobs):
    """Number of threads: None means as many as BLAS may use now, which joblib lowers in workers."""
    if n_jobs is not None:
        return effective_n_jobs(n_jobs)
    pools = _controller().select(user_api="blas").info()
    return max((pool["num_threads"] for pool in pools), default=1)


_LIMIT = Lock()
_inside, _limiter = 0, None  # contexts that are open in any thread, and what they share


@contextmanager
def single_threaded_blas():
    """Context in which every BLAS call runs on the thread that makes it.

    The limit belongs to the process: the first context sets it, and the last one restores it.
    """
    global _inside, _limiter
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


def ordered_map(function, items, n_jobs):
    """Yield ``function(item)`` in the order of the items, `n_jobs` of them at a time.

    Results are handed over in order, so whatever is summed from them does not depend on `n_jobs`,
    to the last bit. At most ``n_jobs + 1`` results wait in memory.
    """
    if n_jobs == 1 or len(items) <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(n_jobs) as pool:
        waiting = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > n_jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

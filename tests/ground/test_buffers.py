"""Memory of large arrays is used again while a fit is open, and only then."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from inside import parallel, single_threaded_blas

LARGE = (1 << 9, 1 << 9)  # 2 MB


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(3, 2), LARGE, (0, 5), (600, 513)])
def test_arrays_are_like_those_of_numpy(shape):
    with single_threaded_blas():
        array = parallel.empty(shape)
    assert array.shape == shape and array.dtype == np.float64
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned


def test_memory_is_used_again():
    with single_threaded_blas():
        first = parallel.empty(LARGE)
        where = address(first)
        del first
        assert address(parallel.empty(LARGE)) == where


def test_memory_waits_for_the_last_view():
    with single_threaded_blas():
        whole = parallel.empty(LARGE)
        whole[:] = 1.0
        part, view = whole.reshape(-1)[7:][:5], whole.T[5:]
        del whole
        gc.collect()
        other = parallel.empty(LARGE)
        other[:] = 2.0
        assert np.all(view == 1.0) and np.all(part == 1.0)


def test_arrays_outlive_the_fit():
    with single_threaded_blas():
        array = parallel.empty(LARGE)
        array[:] = 3.0
    assert np.all(array == 3.0)
    del array
    assert not parallel._memory


def test_nothing_waits_outside_of_a_fit():
    with single_threaded_blas():
        parallel.empty(LARGE)
        assert parallel._memory
    assert not parallel._memory
    parallel.empty(LARGE)
    assert not parallel._memory


def test_threads_never_share_memory():
    def check(number):
        array = parallel.empty(LARGE)
        array[:] = number
        return bool(np.all(array == number))

    with single_threaded_blas(), ThreadPoolExecutor(4) as pool:
        assert all(pool.map(check, range(200)))

"""Threads over blocks: order, exceptions, bounded look-ahead, and BLAS left as it was."""

import os
import signal
import threading

import pytest
from inside import for_each, ordered_map, parallel, resolve_n_jobs, single_threaded_blas
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info, threadpool_limits

N_JOBS = (1, 2, 5)
LONG = 300  # seconds after which what does not come is given up


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_results_come_in_the_order_of_the_items(n_jobs):
    ended = [threading.Event() for _ in range(20)]

    def slow_first(item):
        """Of two items the first one ends when the second one has, if they run at the same time."""
        if n_jobs > 1 and item % 2 == 0:
            assert ended[item + 1].wait(LONG)
        ended[item].set()
        return item

    assert list(ordered_map(slow_first, range(20), n_jobs)) == list(range(20))


@pytest.mark.parametrize("n_jobs", N_JOBS)
@pytest.mark.parametrize("n_items", [0, 1, 2])
def test_few_items_are_enough(n_items, n_jobs):
    assert list(ordered_map(str, range(n_items), n_jobs)) == [str(i) for i in range(n_items)]


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_exceptions_reach_the_caller_after_the_results_before_them(n_jobs):
    def fail_at_three(item):
        if item == 3:
            raise ZeroDivisionError("three")
        return item

    seen = []
    with pytest.raises(ZeroDivisionError, match="three"):
        seen.extend(ordered_map(fail_at_three, range(50), n_jobs))
        # extend keeps what it was given before the exception
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_look_ahead_is_bounded(n_jobs):
    news, started = threading.Condition(), []

    def start(item):
        with news:
            started.append(item)
            news.notify()

    most = 1 if n_jobs == 1 else n_jobs + 1
    for handed_over, _ in enumerate(ordered_map(start, range(40), n_jobs)):
        ahead = min(handed_over + most, 40)
        with news:
            assert news.wait_for(lambda n=ahead: len(started) >= n, LONG)
            assert len(started) == ahead


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_n_jobs_and_no_more_run_at_a_time(n_jobs):
    lock, running, most = threading.Lock(), 0, 0
    together = threading.Barrier(n_jobs)

    def work(_):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(LONG)
        with lock:
            running -= 1

    list(ordered_map(work, range(12), n_jobs))
    assert most == n_jobs


@pytest.mark.parametrize("n_jobs, items", [(1, range(5)), (4, range(1))])
def test_one_job_or_one_item_runs_inline(n_jobs, items):
    threads = list(ordered_map(lambda _: threading.get_ident(), items, n_jobs))
    assert set(threads) == {threading.get_ident()}


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_no_thread_outlives_a_map_that_is_abandoned(n_jobs):
    before = threading.active_count()
    mapped = ordered_map(lambda item: item, range(50), n_jobs)
    assert next(mapped) == 0
    mapped.close()
    assert threading.active_count() == before


def test_blas_is_single_threaded_inside_and_as_before_outside(two_blas_threads):
    before = blas_threads()
    with single_threaded_blas():
        assert set(blas_threads()) <= {1}
        assert resolve_n_jobs(None) == 1
    assert blas_threads() == before


def test_n_jobs_is_what_blas_or_the_user_says(two_blas_threads):
    assert resolve_n_jobs(None) == max(blas_threads(), default=1)
    assert resolve_n_jobs(3) == 3
    assert resolve_n_jobs(-1) >= 1


def test_a_container_may_have_fewer_cores_than_blas_has_threads(two_blas_threads, monkeypatch):
    monkeypatch.setattr(parallel, "_cores", lambda: 1)
    assert resolve_n_jobs(None) == 1


def test_threads_are_for_calls_that_are_worth_them():
    assert parallel.worth(4, 1e9) == 4
    assert parallel.worth(4, 1e3) == parallel.worth(1, 1e9) == 1


def openmp_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [((), 1), ((2, 1000), 1), ((1, 10**8), 1), ((2, 10**8), 2), ((9, 10**8), 2)],
)
def test_openmp_has_several_threads_for_many_numbers_and_never_more_than_before(given, expected):
    HistGradientBoostingRegressor(max_iter=1).fit([[0.0], [1.0]], [0.0, 1.0])  # loads it
    with threadpool_limits(2, user_api="openmp"):
        with parallel.openmp_threads(*given):
            assert openmp_threads() == {expected}
        assert openmp_threads() == {2}


def test_blas_limits_of_contexts_that_overlap_are_restored_by_the_last():
    def threads():
        pools = parallel._controller().select(user_api="blas").info()
        return {pool["num_threads"] for pool in pools}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        first, second = single_threaded_blas(), single_threaded_blas()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == before


def names_of_threads(n_items=12):
    together = threading.Barrier(2)

    def name(_):
        together.wait(LONG)
        return threading.current_thread().name

    return set(ordered_map(name, range(n_items), 2))


def test_threads_are_kept_while_blas_is_limited_and_no_longer():
    with single_threaded_blas():
        first = names_of_threads()
        with single_threaded_blas():
            inside = names_of_threads()
        assert len(first | inside | names_of_threads()) == 2
    alive = {thread.name for thread in threading.enumerate()}
    assert not first & alive and not parallel._pools


@pytest.fixture
def waited_for(monkeypatch):
    """Event that is set when the thread that calls begins to wait for the others."""
    event, wait = threading.Event(), parallel.wait

    def say_and_wait(futures):
        event.set()
        return wait(futures)

    monkeypatch.setattr(parallel, "wait", say_and_wait)
    yield event
    event.set()


def test_nothing_runs_on_after_an_error_in_a_pool_that_is_kept(waited_for):
    running, begun = [], threading.Event()

    def fail_first(item):
        if item == 0:
            assert begun.wait(LONG)
            raise ZeroDivisionError("zero")
        running.append(item)
        begun.set()
        assert waited_for.wait(LONG)
        running.remove(item)

    with single_threaded_blas():
        with pytest.raises(ZeroDivisionError):
            list(ordered_map(fail_first, range(10), 3))
        assert not running
        assert list(ordered_map(str, range(4), 3)) == ["0", "1", "2", "3"]


def test_a_map_within_a_map_runs_where_it_is():
    def inner(item):
        return sum(ordered_map(lambda k: item * k, range(4), 2))

    with single_threaded_blas():
        assert list(ordered_map(inner, range(6), 2)) == [6 * item for item in range(6)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own():
    with single_threaded_blas():
        list(ordered_map(str, range(4), 2))
        child = os.fork()
        if child == 0:
            signal.alarm(LONG)  # a child that waits for threads of its parent waits for ever
            right = list(ordered_map(str, range(4), 2)) == ["0", "1", "2", "3"]
            os._exit(0 if right else 1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("n_jobs", N_JOBS)
@pytest.mark.parametrize("n_items", [0, 1, 40])
def test_for_each_calls_every_item_once(n_items, n_jobs):
    seen = []
    for_each(seen.append, range(n_items), n_jobs)
    assert sorted(seen) == list(range(n_items))


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_for_each_tells_exceptions_and_leaves_no_thread_at_work(n_jobs, waited_for):
    running = []

    def fail_at_three(item):
        running.append(item)
        if item > 3:
            assert waited_for.wait(LONG)
        running.remove(item)
        if item == 3:
            raise ZeroDivisionError("three")

    with pytest.raises(ZeroDivisionError, match="three"):
        for_each(fail_at_three, range(30), n_jobs)
    assert not running


def test_for_each_within_a_map_runs_where_it_is():
    def inner(item):
        found = []
        for_each(found.append, range(item), 2)
        return sum(found)

    assert list(ordered_map(inner, range(8), 2)) == [sum(range(item)) for item in range(8)]

"""The inner loop on maps whose course is known."""

import numpy as np
import pytest
from inside import Step, solve_fixed_point


def course(gaps, values=None):
    """A map that goes on by one, whose n-th evaluation finds the n-th gap (and value)."""
    gaps = iter(gaps)
    values = None if values is None else iter(values)

    def evaluate(state):
        climbs = values is not None
        value = next(values) if climbs else 0.0
        return Step(state + 1.0, lambda change: change, next(gaps), value, climbs, None)

    return evaluate


def solve(evaluate, **options):
    options = {"tol": 1e-6, "max_iter": 5} | options
    return solve_fixed_point(evaluate, np.zeros((2, 1)), lambda proposal, plain: plain, **options)


def test_where_nothing_climbs_the_smallest_gap_is_the_best_state():
    found = solve(course([1.0, 0.5, 0.9, 1.7, 1.6]))
    assert not found.converged and found.n_iter == 5
    assert found.step.gap == 0.5 and np.all(found.state == 1.0)


def test_where_the_value_climbs_the_last_state_is_the_best():
    found = solve(course([1.0, 0.5, 0.9, 1.7, 1.6], values=range(5)))
    assert found.step.value == 4 and np.all(found.state == 4.0)


@pytest.mark.parametrize("gaps", [[1.0, 3.0, 3.0, 0.5, 0.1], [1.0, np.nan, 2.5, 0.5, 0.1]])
def test_a_gap_that_more_than_doubles_is_taken_back(gaps):
    found = solve(course(gaps))
    assert found.step.gap == 0.1 and np.all(found.state == 0.25 + 0.5)


def test_it_ends_where_the_gap_is_closed():
    found = solve(course([1.0, 1e-3, 1e-7, 5.0]))
    assert found.converged and found.n_iter == 3 and np.all(found.state == 2.0)

"""The maximiser on functions whose answers are known."""

import numpy as np
import pytest
from inside import End, maximise, optimizers

FREE = np.array([[-np.inf, np.inf]] * 3)
BOXED = np.array([[-100.0, 100.0]] * 3)
PEAK = np.array([1.0, -2.0, 3.0])
WIDTH = np.array([1.0, 0.1, 4.0])


class Hill:
    """``-½ ‖(x - peak) / width‖² factor``, and where it was asked."""

    def __init__(self, factor=1.0, broken=()):
        self.factor, self.broken, self.asked = factor, broken, []

    def __call__(self, x):
        self.asked.append(x.copy())
        if len(self.asked) in self.broken:
            raise np.linalg.LinAlgError("broken")
        away = (x - PEAK) / WIDTH
        return -0.5 * self.factor * away @ away, -self.factor * away / WIDTH


def run(hill, bounds=BOXED, x0=(0.0, 0.0, 0.0), **options):
    return maximise(hill, np.array(x0), bounds, **{"max_iter": 100, "tol": 1e-12} | options)


@pytest.mark.parametrize("bounds", [FREE, BOXED])
@pytest.mark.parametrize("factor, asked", [(1e-6, {}), (1.0, {}), (1e6, {}), (1.0, {"first": 0.3})])
def test_first_step_has_length_one_whatever_the_scale(bounds, factor, asked):
    hill = Hill(factor)
    found = run(hill, bounds, scale=factor, **asked)
    np.testing.assert_allclose(found.x, PEAK, atol=1e-4)
    assert found.converged
    np.testing.assert_array_equal(hill.asked[0], 0.0)
    np.testing.assert_allclose(np.linalg.norm(hill.asked[1]), asked.get("first", 1.0))
    assert not any(np.array_equal(x, hill.asked[0]) for x in hill.asked[1:])


def test_first_step_has_length_one_in_the_coordinates_that_can_move():
    hill = Hill()
    bounds = np.array([[-100.0, 100.0], [0.0, 100.0], [-100.0, 100.0]])  # the steep one is held
    found = run(hill, bounds)
    np.testing.assert_allclose(np.linalg.norm(hill.asked[1]), 1.0)
    np.testing.assert_allclose(found.x, [1.0, 0.0, 3.0], atol=1e-4)


def test_scale_divides_the_value_before_it_is_judged():
    rough, fine = (maximise(*valley(), max_iter=99, tol=1e-2, scale=unit) for unit in (1e9, 1.0))
    assert rough.n_iter < 10 < fine.n_iter


@pytest.mark.parametrize("size, judged", [(3, 4), (30, 5), (200, 6)])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
def test_a_fit_ends_when_its_last_iterations_were_worth_less_than_tol(tol, size, judged):
    function, x0, bounds = valley(size)
    values = [function(x0)[0]]
    note = lambda _, value: values.append(value)
    found = maximise(function, x0, bounds, max_iter=999, tol=tol, callback=note)
    assert found.end is End.CONVERGED
    gains = np.subtract(values[judged:], values[:-judged])
    assert np.all(gains[:-1] >= tol)
    if size == 200:  # few parameters end sooner, where nothing is promised any more
        assert gains[-1] < tol


def test_a_callback_ends_a_fit_at_the_best_point_so_far():
    values = []

    def stop_at_three(iteration, value):
        values.append(value)
        return iteration == 3

    function, x0, bounds = valley()
    found = maximise(function, x0, bounds, max_iter=99, tol=0.0, callback=stop_at_three)
    assert found.n_iter == 3 and found.converged and found.value == values[-1] == max(values)
    np.testing.assert_array_equal(function(found.x)[0], found.value)


def test_a_gradient_that_promises_what_no_step_delivers_is_said():
    found = run(lambda x: (0.0, np.ones(3)))
    assert found.end is End.STUCK and not found.converged


def test_start_at_the_optimum():
    found = run(Hill(), x0=PEAK)
    assert found.converged and found.value == 0.0 and found.n_iter == 0


def test_start_that_cannot_be_evaluated_is_an_error():
    with pytest.raises(np.linalg.LinAlgError, match="not finite at the start"):
        run(lambda x: (1.0, np.full(3, np.nan)))
    with pytest.raises(np.linalg.LinAlgError, match="broken"):
        run(Hill(broken=[1]))


def test_failures_on_the_way_are_stepped_back_from():
    found = run(Hill(broken=[2, 5]))
    np.testing.assert_allclose(found.x, PEAK, atol=1e-3)


def test_iterations_that_do_not_suffice_are_said():
    found = run(Hill(), max_iter=1)
    assert not found.converged and found.n_iter == 1


def test_curvature_of_a_steep_start_is_forgotten_where_the_function_is_gentle():
    def ramp(x):  # steep below 1; from there to 2π, it rises along a line whose slope grows
        steep = 1e6 * np.exp(-20.0 * x)
        return -np.sum(steep + np.cos(x / 4)), 20.0 * steep + np.sin(x / 4) / 4

    found = maximise(ramp, np.zeros(1), np.array([[-1.0, 20.0]]), max_iter=200, tol=1e-9)
    assert found.converged and found.n_iter < 15
    np.testing.assert_allclose(found.x, 4 * np.pi, rtol=1e-4)


def test_nothing_to_choose():
    found = run(Hill(), np.zeros((3, 2)))
    assert found.converged and found.n_iter == 0
    np.testing.assert_array_equal(found.x, 0.0)
    empty = maximise(lambda x: (2.0, x), np.zeros(0), np.zeros((0, 2)), max_iter=1, tol=0.0)
    assert empty.converged and empty.value == 2.0


def valley(n=200, seed=0):
    """A smooth maximum at 0 whose curvatures span eight orders of magnitude."""
    curvature = 10.0 ** np.random.default_rng(seed).uniform(-4, 4, n)
    bounds = np.array([[-np.inf, np.inf]] * n)

    def function(x):
        return -curvature @ (np.sqrt(1.0 + x**2) - 1.0), -curvature * x / np.sqrt(1.0 + x**2)

    return function, np.full(n, 0.9), bounds


def test_many_coordinates_of_unlike_curvature(monkeypatch):
    function, x0, bounds = valley()
    options = {"max_iter": 100, "tol": 0.0}
    found = maximise(function, x0, bounds, **options)
    monkeypatch.setattr(optimizers, "_SPREAD", 1.0)  # one number in the place of the diagonal
    plain = maximise(function, x0, bounds, **options)
    assert 0.0 >= found.value > 0.1 * plain.value  # a tenth of what is missing otherwise


def test_iterations_are_counted():
    counted, count = [], lambda iteration, value: counted.append((iteration, value))
    found = maximise(*valley(), max_iter=30, tol=0.0, callback=count)
    iterations, values = zip(*counted)
    assert iterations == tuple(range(1, 31)) and found.n_iter == 30
    assert np.all(np.diff(values) >= 0) and not found.converged


def test_no_coordinate_leaves_its_bounds():
    function, x0, bounds = valley()
    bounds[:, 0], asked = 0.3, []

    def checked(x):
        asked.append(np.all(x >= 0.3))
        return function(x)

    found = maximise(checked, x0, bounds, max_iter=150, tol=1e-14)
    assert all(asked)
    np.testing.assert_allclose(found.x, 0.3, atol=1e-3)

"""The recipes of the documentation run, and do what they say."""

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from scipy import stats

pytestmark = pytest.mark.second  # blocks of a page
TEXT = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
RECIPES = {
    section.splitlines()[0]: re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    for section in TEXT.split("\n## ")[1:]
    if "```python" in section
}
OPTIONAL = ("pandas", "matplotlib", "optuna", "skforecast")


def run(title):
    """Names that the blocks of a recipe leave behind."""
    names = {}
    for block in RECIPES[title]:
        for module in OPTIONAL:
            if f"import {module}" in block or f"from {module}" in block:
                pytest.importorskip(module)
        exec(compile(block, f"recipes.md, {title}", "exec"), names)
    return names


def test_every_recipe_is_tested():
    source = Path(__file__).read_text(encoding="utf-8")
    assert all(f'run("{title}")' in source for title in RECIPES)


def test_averages_and_variograms():
    found = run("The average over an area")
    truth = np.mean(20 * np.sin(found["area"][:, 0] / 15))
    assert abs(found["average"] - truth) < 3 * found["std"] < 5.0
    distance, rows, kernel = run("The variogram of rows, and of a kernel")["found"]
    assert np.all(np.diff(distance) > 0) and np.all(np.diff(kernel) > 0)
    assert np.all(np.abs(rows[:2] / kernel[:2] - 1) < 0.2)  # as far rows weigh little


def test_pictures_of_a_fit():
    pytest.importorskip("matplotlib").use("Agg")
    found = run("Pictures of a fit")
    assert len(found["columns"].patches) == 10
    assert len(found["model"].selection_) > 1
    assert len(found["values"]) > 5


def test_known_noise():
    found = run("Known noise under cross-validation")
    assert np.mean(found["scores"]) > -0.1  # 0.05 if function and noise are known


def test_successes():
    found = run("Successes of trials")
    assert np.abs(found["share"] - found["truth"]).mean() < 0.05


def test_logarithms():
    found = run("Logarithms of targets")
    covered = (found["low"] < found["y"]) & (found["y"] < found["high"])
    assert 0.84 < covered.mean() < 0.96
    np.testing.assert_allclose(found["median"], np.exp(found["mean"]), rtol=1e-12)
    known = stats.lognorm(found["std"], scale=found["median"])
    np.testing.assert_allclose(found["log_density"], known.logpdf(found["y"]), rtol=1e-6)


def test_ask_and_tell():
    search = run("Minimising an expensive function: ask and tell")["search"]
    assert search.y.min() < 0.42 and len(search.y) == 40 and np.ptp(search.U, axis=0).max() <= 1


def minimizer():
    """The class of the recipe, without its example."""
    names = {}
    exec(RECIPES["Minimising an expensive function: ask and tell"][0], names)
    return names["Minimizer"]


def valley(X):
    rest = X[:, 1] - 0.129 * X[:, 0] ** 2 + 1.59 * X[:, 0] - 6
    return rest**2 + 9.6 * np.cos(X[:, 0]) + 10


def test_what_is_asked_does_not_depend_on_the_unit_of_y():
    found = minimizer()
    searches = {unit: found([-5, 0], [10, 15], 8) for unit in (1.0, 2.0**-40, 2.0**40)}
    for _ in range(4):
        asked = {unit: search.ask(4) for unit, search in searches.items()}
        for unit, search in searches.items():
            assert np.unique(asked[unit], axis=0).shape == (4, 2)
            np.testing.assert_array_equal(asked[unit], asked[1.0])
            search.tell(asked[unit], unit * valley(asked[unit]))


@pytest.mark.parametrize("columns", [[0, 1], [0]])
def test_no_cell_is_asked_again_where_inputs_are_rounded(columns):
    found = minimizer()
    search, cells = found([-5, 0], [10, 15], 8), []
    for _ in range(8):
        X = search.ask(3)
        X[:, columns] = np.round(X[:, columns])
        search.tell(X, valley(X))
        cells += map(tuple, X)
    assert len(set(cells[3:])) == len(cells) - 3 == 21  # the first ones are rounded by the user
    assert set(cells[:3]).isdisjoint(cells[3:])
    small = found([0, 0], [2, 2], 4)
    for _ in range(14):  # there are nine cells
        X = np.round(small.ask())
        small.tell(X, valley(X))
    assert len(np.unique(small.X, axis=0)) == 9


def test_inputs_stay_numbers_where_those_told_first_were_whole():
    search = minimizer()([-5, 0], [10, 15], 4)
    corners = np.array([[-5.0, 0.0], [10.0, 0.0], [-5.0, 15.0], [10.0, 15.0]])
    search.tell(corners, valley(corners))
    for _ in range(3):
        X = search.ask(2)
        assert np.any(X % 1 != 0)
        search.tell(X, valley(X))


def test_forecasts_of_skforecast():
    found = run("Forecasts with skforecast")
    future, forecast = found["future"], found["forecast"]
    assert np.sqrt(np.mean((forecast["pred"] - future) ** 2)) < 0.45
    inside = (forecast["lower_bound"] < future) & (future < forecast["upper_bound"])
    assert inside.mean() > 0.75


def test_a_search():
    found = run("A search with Optuna")
    assert len(found["study"].trials) == 6 and found["study"].best_value > -2.0

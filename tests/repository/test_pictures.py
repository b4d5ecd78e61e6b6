"""Pictures of the benchmarks are drawn from stored results, and every table names a commit."""

import json
import re
import sys
from importlib import import_module

import pytest
from conftest import ROOT

pytestmark = pytest.mark.second  # stored tables and their pictures
BENCHMARKS = ROOT / "docs" / "benchmarks"
TABLES = sorted((BENCHMARKS / "results").glob("*.md"))


@pytest.fixture
def pictures(monkeypatch):
    """The script as a module; what it imports from its folder is forgotten afterwards."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(BENCHMARKS)
    for name in ("pictures", "common"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = import_module("pictures")
    yield module
    for name in ("pictures", "common"):
        del sys.modules[name]


def test_all_pictures_are_drawn(pictures, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["pictures.py", "--output", str(tmp_path)])
    pictures.main()
    drawn = {path.stem: path.stat().st_size for path in tmp_path.glob("*.png")}
    assert set(drawn) == {f"benchmarks_{name}" for name in pictures.PICTURES}
    assert all(20_000 < size < 200_000 for size in drawn.values())
    assert all((pictures.IMAGES / f"{name}.png").exists() for name in drawn)


def test_pairs_learned_the_same_rows(pictures):
    found = pictures.results()
    pairs, nothing = pictures.pairs_of(found, "rmse")
    kin40k = {peer: one for peer, part in pairs.items() for one in part if one.table == "kin40k"}
    assert {"CatBoost", "HistGradientBoosting"} <= set(kin40k)
    assert "GaussianProcessRegressor" not in kin40k  # it has 1,500 of the rows
    assert all(one.n == 36_000 for one in kin40k.values())
    assert "kin40k" in nothing["xRFM"] and not set(nothing["xRFM"]) & {
        one.table for one in pairs["xRFM"]
    }


@pytest.mark.parametrize("score", ["rmse", "log_density", "log_loss"])
def test_outcomes(pictures, score):
    def outcome(ours, theirs):
        return pictures.common.outcome(ours, theirs, score)

    better, worse = (1.0, 1.02) if score != "log_density" else (1.02, 1.0)
    assert outcome(better, worse) == 1 and outcome(worse, better) == -1
    assert outcome(1.0, 1.005) == 0 and outcome(1.005, 1.0) == 0


def test_tables_name_a_commit():
    commit = r"\b(?=\w*\d)[0-9a-f]{7}\b"
    assert TABLES and not [path for path in TABLES if not re.search(commit, path.read_text())]


def test_old_tables_say_how_old_they_are():
    ages = json.loads((BENCHMARKS / "results" / "ages.json").read_text(encoding="utf-8"))
    texts = {path.name: path.read_text(encoding="utf-8") for path in TABLES}
    assert all(texts[name].split("\n")[2] == age for name, age in ages.items())
    told = {name for name, text in texts.items() if "\nMeasured at" in text}
    assert told == set(ages)

"""The tiers of the tests: the sample moves, nothing is forgotten, nothing golden is left out."""

from collections import Counter
from itertools import product

import pytest
import tiers
from conftest import NAMED_BOUNDS
from tiers import LIMIT, Case, chosen, digest_of_package, pairwise, thinned

CASES = [
    *(Case(f"tests/test_a.py::test_short[{k}]") for k in range(5)),
    *(Case(f"tests/test_a.py::test_product[{k}]", "second", 0.1) for k in range(200)),
    *(Case(f"tests/test_b.py::test_few[{k}]", "second", 0.1) for k in range(3)),
    Case("tests/test_b.py::test_long", "second", 0.0),
    Case("tests/test_b.py::test_rare", "second", 0.3),
    *(Case(f"tests/test_b.py::test_all[{k}]", "full", 0.02) for k in range(100)),
]
EVERYTHING = {case.name for case in CASES}
ALWAYS = ("test_golden.py", "test_golden_sites.py")
OF_TEXT = "tests/repository/", "tests/estimators/test_gallery.py"  # the second tier has them


def names(word):
    return {name for name in EVERYTHING if word in name}


def test_the_sample_moves_and_forgets_nothing():
    samples = [chosen(CASES, "quick", f"hash {k}") for k in range(400)]
    assert samples[0] == chosen(CASES, "quick", "hash 0") != samples[1]
    assert all(names("test_short") <= one for one in samples)
    assert all(one & names(word) for one in samples for word in ("product", "few", "all"))
    sizes = [len(one & names("product")) for one in samples]
    assert sum(sizes) / len(sizes) == pytest.approx(20, rel=0.1)
    assert set().union(*samples) == EVERYTHING - names("test_long")


def test_the_second_tier_is_fixed_and_the_tiers_are_everything():
    second = chosen(CASES, "second", "a")
    assert second == chosen(CASES, "second", "b") and chosen(CASES, "all", "a") == EVERYTHING
    assert EVERYTHING - chosen(CASES, "quick", "a") - second <= names("test_all")


def test_a_file_that_is_named_runs_in_both_tiers():
    both = chosen(CASES, tiers.BOTH, "a")
    assert both == EVERYTHING - names("test_all")
    assert both == names("test_short") | chosen(CASES, "second", "a")


OF_TIERS = """
import pytest
def test_short():
    pass
@pytest.mark.second
def test_long():
    pass
@pytest.mark.full
def test_of_all():
    pass
"""


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--second"], {"test_long"}),
        (["--second", "."], {"test_long"}),
        (["--second", "test_x.py"], {"test_short", "test_long"}),
        (["--second", "test_x.py::test_short"], {"test_short"}),
        (["--quick", "test_x.py"], {"test_short"}),
        (["test_x.py"], {"test_short", "test_long", "test_of_all"}),
        ([], {"test_short"}),
    ],
)
def test_what_runs_of_a_folder_and_of_a_file(arguments, expected, tmp_path, monkeypatch):
    (tmp_path / "test_x.py").write_text(OF_TIERS)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    monkeypatch.chdir(tmp_path)
    ran = set()

    class Outcomes:
        def pytest_runtest_logreport(self, report):
            ran.add(report.nodeid.split("::")[1])

    alone = (
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-c",
        "pytest.ini",
        "--import-mode=importlib",
    )
    pytest.main([*arguments, *alone], plugins=[tiers, Outcomes()])
    assert ran == expected


def test_the_cases_of_a_thinned_test_have_every_value():
    numbers = product(range(5), range(4), range(3))
    cases = [Case(f"test[{v}]", "second", 0.0, frozenset(enumerate(v))) for v in numbers]
    kept = [Case(f"kept[{k}]", "second", keep=2) for k in range(5)]
    others = [Case("other[1]", "second"), Case("other[2]")]
    found = thinned(cases + kept + others)
    assert [case.name for case in found] == [case.name for case in cases + kept + others]
    second = [case for case in found if case.tier == "second" and case.values]
    assert len(second) == 5 and len(frozenset().union(*(case.values for case in second))) == 12
    assert sum(case.tier == "second" for case in found if case.keep) == 2
    assert {case.tier for case in found[:-2]} == {"second", "full"} and found[-2:] == others


def test_the_hash_is_that_of_names_and_contents(tmp_path):
    digests = set()
    for name, text in (("a.py", "x"), ("a.py", "y"), ("b.py", "y"), ("c.txt", "")):
        (tmp_path / name).write_text(text)
        digests.add(digest_of_package(tmp_path))
    assert len(digests) == 3  # a text is no source file


def test_any_two_values_meet_that_can():
    def valid(bound, likelihood, weight):
        return bound != "dtc" or likelihood == "gaussian"

    cover = pairwise([NAMED_BOUNDS, ["gaussian", "poisson", "gamma"], [None, "whole"]], valid)
    assert all(valid(*values) for values in cover) and len(cover) < 20
    pairs = {(one, two) for values in cover for one in values for two in values}
    assert {("dtc", "gaussian"), ("dtc", "whole"), ("pep", "gamma"), ("gamma", None)} <= pairs


# -- seconds of a case -------------------------------------------------------------------

OF_BURNERS = """
import time
import pytest
def burn(seconds):
    start = time.process_time()
    while time.process_time() < start + seconds:
        pass
@pytest.fixture(scope="module")
def shared():
    burn(0.2)
@pytest.fixture
def own():
    burn(0.2)
def test_waiting():
    time.sleep(0.2)
def test_of_a_shared_fixture(shared):
    pass
def test_long():
    burn(0.2)
def test_of_its_own_fixture(own):
    pass
@pytest.mark.second(share=1)
def test_drawn():
    burn(0.2)
"""


def test_a_case_that_takes_too_long_fails(tmp_path, monkeypatch):
    path, settings, failed = tmp_path / "test_burners.py", tmp_path / "pytest.ini", set()
    path.write_text(OF_BURNERS)
    settings.write_text("[pytest]")

    class Outcomes:
        def pytest_runtest_logreport(self, report):
            if report.failed:
                failed.add(report.nodeid.split("::")[1])

    alone = "-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(settings)
    with monkeypatch.context() as patch:  # this test is judged by the limit that was set
        patch.setenv(LIMIT, "0.1")
        pytest.main([str(path), *alone, "--all"], plugins=[tiers, Outcomes()])
        assert not failed
        pytest.main([str(path), *alone, "--quick"], plugins=[tiers, Outcomes()])
    assert failed == {"test_long", "test_of_its_own_fixture"}


# -- the tests of this package ---------------------------------------------------------


def test_every_file_has_tests_that_always_run(all_cases):
    cases = Counter(case.function for case in all_cases if case.share > 0)
    quick = {
        case.file
        for case in all_cases
        if case.tier == "quick" or case.share == 1 or cases[case.function] > 1
    }
    files = {case.file for case in all_cases}
    late = sorted(file for file in files - quick if not file.startswith(OF_TEXT))
    assert not late, "give these files a quick case"


def test_nothing_golden_is_left_out(all_cases):
    assert all(case.tier == "quick" for case in all_cases if case.file.endswith(ALWAYS))

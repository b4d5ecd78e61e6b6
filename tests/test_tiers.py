"""The tiers of the tests: the sample moves, nothing is forgotten, nothing golden is left out."""

from collections import Counter
from itertools import product

import pytest
import tiers
from conftest import NAMED_BOUNDS
from tiers import LIMIT, LONG_CASES, Case, chosen, digest_of_package, draw, pairwise, thinned

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
DIGESTS = [f"hash {k}" for k in range(400)]


def names(word):
    return {name for name in EVERYTHING if word in name}


def test_the_sample_is_drawn_by_the_hash_and_has_its_share():
    first, again, other = (chosen(CASES, "quick", digest) for digest in ("a", "a", "b"))
    assert first == again != other
    assert names("test_short") <= first and not first & names("test_long")
    sizes = [len(chosen(CASES, "quick", digest) & names("product")) for digest in DIGESTS]
    assert sum(sizes) / len(sizes) == pytest.approx(20, rel=0.1) and min(sizes) >= 1


def test_every_function_of_several_cases_has_one_in_every_sample():
    for digest in DIGESTS[:20]:
        some = chosen(CASES, "quick", digest)
        assert all(some & names(word) for word in ("product", "few", "all"))


def test_samples_forget_nothing():
    seen = set().union(*(chosen(CASES, "quick", digest) for digest in DIGESTS))
    assert seen == EVERYTHING - names("test_long")


def test_the_second_tier_is_fixed_and_the_tiers_are_everything():
    second = {chosen(CASES, "second", digest) == chosen(CASES, "second", "a") for digest in DIGESTS}
    assert second == {True}
    assert chosen(CASES, "all", "a") == EVERYTHING
    left = EVERYTHING - chosen(CASES, "quick", "a") - chosen(CASES, "second", "a")
    assert left <= names("test_all")


def test_the_cases_of_a_thinned_test_have_every_value():
    numbers = product(range(5), range(4), range(3))
    cases = [Case(f"test[{v}]", "second", 0.0, frozenset(enumerate(v))) for v in numbers]
    others = [Case("other[1]", "second"), Case("other[2]")]
    found = thinned(cases + others)
    second = [case for case in found if case.tier == "second" and case.values]
    assert len(second) == 5 and len({frozenset(case.values) for case in second}) == 5
    assert len(frozenset().union(*(case.values for case in second))) == 5 + 4 + 3
    assert {case.tier for case in found if case.values} == {"second", "full"}
    assert found[-2:] == others and [case.name for case in found[:-2]] == [c.name for c in cases]


def test_some_cases_of_a_test_are_kept():
    cases = [Case(f"test[{k}]", "second", keep=2) for k in range(5)]
    kept = [case for case in thinned(cases) if case.tier == "second"]
    assert len(kept) == 2 and kept == [case for case in thinned(cases[::-1]) if case in kept][::-1]
    assert thinned(cases[:1]) == cases[:1]


def test_the_hash_is_that_of_names_and_contents(tmp_path):
    digests = set()
    for name, text in (("a.py", "x"), ("a.py", "y"), ("b.py", "y"), ("c.txt", "")):
        (tmp_path / name).write_text(text)
        digests.add(digest_of_package(tmp_path))
    assert len(digests) == 3  # a text is no source file
    assert 0 <= draw("name", "hash") < 1


def test_any_two_values_meet_that_can():
    def valid(bound, likelihood, weight):
        return bound != "dtc" or likelihood == "gaussian"

    factors = [NAMED_BOUNDS, ["gaussian", "poisson", "gamma"], [None, "whole"]]
    cover = pairwise(factors, valid)
    assert all(valid(*values) for values in cover) and len(cover) < 20
    pairs = {(one, two) for values in cover for one in values for two in values}
    assert ("dtc", "poisson") not in pairs
    for one, two in (("dtc", "gaussian"), ("dtc", "whole"), ("pep", "gamma"), ("gamma", None)):
        assert (one, two) in pairs


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


def test_short():
    pass


def test_waiting():
    time.sleep(0.2)


def test_of_a_shared_fixture(shared):
    pass


def test_long():
    burn(0.2)


def test_of_its_own_fixture(own):
    pass


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_excused(seconds):
    burn(seconds)


@pytest.mark.second(share=1)
def test_drawn():
    burn(0.2)
"""


class Outcomes:
    """A plug-in that remembers them."""

    def __init__(self):
        self.failed, self.passed = set(), set()

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            getattr(self, report.outcome).add(report.nodeid.split("::")[1])


def outcomes(path, *options):
    """The names of tests in a file that failed, and of those that passed."""
    settings, found = path.with_name("pytest.ini"), Outcomes()
    settings.write_text("[pytest]")
    alone = "-p", "no:cacheprovider", "-p", "no:xdist", "-c", str(settings)
    pytest.main([str(path), *alone, *options], plugins=[tiers, found])
    return found.failed, found.passed


def test_a_case_that_takes_too_long_fails(tmp_path, monkeypatch):
    path = tmp_path / "test_burners.py"
    path.write_text(OF_BURNERS)
    with monkeypatch.context() as patch:
        patch.setenv(LIMIT, "0.1")
        patch.setitem(LONG_CASES, "test_burners.py::test_excused", "It is an example.")
        failed, passed = outcomes(path, "--quick")
        assert failed == {"test_long", "test_of_its_own_fixture"} and len(passed) == 6
        assert outcomes(path, "--all") == (set(), failed | passed)
        patch.delenv(LIMIT)
        assert outcomes(path, "--quick") == (set(), failed | passed)


def test_tests_of_many_cases_are_thinned(all_cases):
    some = [case for case in all_cases if case.values or case.keep]
    kept = Counter(case.function for case in some if case.tier == "second")
    cases = Counter(case.function for case in some)
    assert cases.keys() == kept.keys() and all(kept[one] < cases[one] for one in cases)


def test_few_cases_are_excused(all_cases):
    assert len(LONG_CASES) <= 10 and all(reason.endswith(".") for reason in LONG_CASES.values())
    assert LONG_CASES.keys() <= {n for case in all_cases for n in (case.name, case.function)}


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


def test_shares_are_shares(all_cases):
    assert all(0 <= case.share <= 1 for case in all_cases)

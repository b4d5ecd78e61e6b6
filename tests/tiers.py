"""Which tests run: a quick tier that is trustworthy, a fixed second one, or everything.

==========  ===============================================================================
quick       every test without a mark, and a sample of those with one; the default
``--second``  the tests that are marked ``second``, always the same
``--all``     every test
==========  ===============================================================================

``@pytest.mark.second(share=0.1)`` says that a test is long, or one of many cases: it runs in the
second tier, and a tenth of its cases in the quick tier, of several cases at least one.
``@pytest.mark.full(share=0.1)`` says the same of cases that only ``--all`` runs. With ``thin=1``,
the second tier has some cases of a test only, in which every value of every parameter occurs, with
``thin=2`` those in which any two values meet, with ``keep=2`` two cases, always the same; the
others are ``full``. A share of 0 keeps all cases out of the quick tier. The sample is drawn by a
hash of the package's files and of the name of the case: it is the same wherever the package is the
same, and moves with every change.

A tier is a part of the whole. Files and tests that are named on the command line run whole; with
``--second``, they run in both tiers, without the cases that only ``--all`` has.

Where the environment sets `LIMIT`, as ``.ci/run`` does, a case of the quick tier fails that takes
more CPU seconds than it says. A case should take at most half of them on a quiet machine, as others
are slower. Cases that were drawn from those with a mark are not held
to it: the draw would decide whether the tests pass.
"""

import hashlib
import os
import time
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import pytest

import skgp_sparse

TIERS = ("quick", "second", "full")  # where a case runs without being drawn
BOTH = "quick and second"  # of files that are named with --second
OF_ONE_WORKER = ("test_dask.py", "test_types.py")  # they share a cluster, and a cache
LIMIT = "CASE_SECONDS"  # a variable of the environment
_CASES = pytest.StashKey()
_COUNTS = pytest.StashKey()


class Case(NamedTuple):
    """A test case, the first tier that always runs it, and its share in the quick one."""

    name: str
    tier: str = "quick"
    share: float = 1.0
    values: frozenset = frozenset()  # (pairs of) values of its parameters, if it may be left out
    keep: int = 0  # how many cases of its function are kept, whatever their values

    @property
    def file(self):
        """The file of the test."""
        return self.name.split("::")[0]

    @property
    def function(self):
        """The name without parameters."""
        return self.name.split("[")[0]


def digest_of_package(root=Path(skgp_sparse.__file__).parent):
    """Hash of the package's source files."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def draw(name, digest):
    """A number from 0 to 1 that depends on the name of a case and on the hash only."""
    hashed = hashlib.sha256(f"{digest}:{name}".encode()).digest()
    return int.from_bytes(hashed[:8], "big") / 2**64


def chosen(cases, tier, digest):
    """Names of the cases that a tier runs."""
    if tier == "all":
        return {case.name for case in cases}
    if tier == "second":
        return {case.name for case in cases if case.tier == "second"}
    if tier == BOTH:
        return {case.name for case in cases if case.tier != "full"}
    return {case.name for case in cases if case.tier == "quick"} | _sample(cases, digest)


def _sample(cases, digest):
    """Of every function, the share of its cases; of one with several cases, the first one drawn."""
    draws = {}
    for case in cases:
        if case.share > 0:
            draws.setdefault(case.function, []).append((draw(case.name, digest), case))
    return {
        case.name
        for of_function in draws.values()
        for number, (drawn, case) in enumerate(sorted(of_function))
        if drawn < case.share or number == 0 < len(of_function) - 1
    }


def case_of(item):
    """The `Case` of an item of pytest; the mark of a case goes before that of its function."""
    marks = {tier: item.get_closest_marker(tier) for tier in reversed(TIERS[1:])}
    for tier, mark in marks.items():
        if mark is not None:
            share, thin = mark.kwargs.get("share", 0.0), mark.kwargs.get("thin", 0)
            values = item.callspec.params.items() if thin else ()
            values = combinations([(name, id(value)) for name, value in values], thin)
            keep = mark.kwargs.get("keep", 0)
            return Case(item.nodeid, tier, share, frozenset(values) - {()}, keep)
    return Case(item.nodeid)


def thinned(cases):
    """The same cases; of tests that may be thinned, those without a value of their own are full."""
    left = {}
    some = [case for case in cases if case.values or case.keep]
    for case in sorted(some, key=lambda case: draw(case.name, "thin")):
        left.setdefault(case.function, []).append(case)
    rest = set()
    for of_function in left.values():
        kept = of_function[0].keep
        missing = frozenset().union(*(case.values for case in of_function))
        while missing:
            best = max(of_function, key=lambda case: len(case.values & missing))
            of_function.remove(best)
            missing -= best.values
        rest |= {case.name for case in of_function[kept:]}
    return [case._replace(tier="full") if case.name in rest else case for case in cases]


# -- seconds of a case ----------------------------------------------------------------------


class Clock:
    """CPU seconds of this process, but for those of fixtures that several tests share."""

    def __init__(self):
        self.of_fixtures = 0.0
        self.at_setup = 0.0

    def __call__(self):
        return time.process_time() - self.of_fixtures


clock = Clock()


def too_long(name, seconds):
    """What is wrong with a quick case that took some CPU seconds; None if nothing is."""
    limit = float(os.environ.get(LIMIT, "inf"))
    if seconds <= limit:
        return None
    return (
        f"{name} took {seconds:.1f} CPU seconds, and a case of the quick tier may take {limit:g}. "
        "Make it smaller, or mark it as second."
    )


# -- products of factors --------------------------------------------------------------------


def pairwise(factors, valid=lambda *values: True):
    """Some combinations of the values of all factors, in which any two values meet that can.

    Parameters
    ----------
    factors : list of sequence
    valid : callable
        Which combinations exist.
    """
    allowed = [values for values in product(*factors) if valid(*values)]
    missing = {pair for values in allowed for pair in _pairs(values)}
    cover = []
    while missing:
        best = max(allowed, key=lambda values: len(missing.intersection(_pairs(values))))
        missing.difference_update(_pairs(best))
        cover.append(best)
    return cover


def _pairs(values):
    return list(combinations([(factor, id(value)) for factor, value in enumerate(values)], 2))


def crossed(valid=lambda *values: True, share=0.02, **factors):
    """``parametrize`` over all combinations; those that are not `pairwise` are marked ``full``."""
    cover = [[*map(id, values)] for values in pairwise(list(factors.values()), valid)]
    rest = pytest.mark.full(share=share)
    cases = [
        pytest.param(*values, marks=() if [*map(id, values)] in cover else rest)
        for values in product(*factors.values())
        if valid(*values)
    ]
    return pytest.mark.parametrize(tuple(factors), cases)


# -- pytest ---------------------------------------------------------------------------------

SAMPLE = digest_of_package()  # once: files may change while tests run


def pytest_addoption(parser):
    group = parser.getgroup("tiers")
    for tier, what in (
        ("quick", "tests without a mark and a sample of the others (default)"),
        (
            "second",
            "tests that are marked second; of files that are named, those without a mark, too",
        ),
        ("all", "every test"),
    ):
        group.addoption(f"--{tier}", action="store_const", const=tier, dest="tier", help=what)


def pytest_configure(config):
    config.addinivalue_line("markers", "second(share=0, thin=0, keep=0): see tiers.py")
    config.addinivalue_line("markers", "full(share=0): see tiers.py")
    config.stash[_COUNTS] = set()
    named = any("::" in name or Path(name).is_file() for name in config.args)
    if config.option.tier is None:  # workers of xdist are told
        config.option.tier = "all" if named else "quick"
    elif config.option.tier == "second" and named:
        config.option.tier = BOTH


def pytest_report_header(config):
    return f"tier: {config.option.tier}, sample {SAMPLE}"


@pytest.hookimpl(tryfirst=True)  # before xdist gives other names
def pytest_collection_modifyitems(config, items):
    cases = config.stash[_CASES] = thinned(list(map(case_of, items)))
    names = chosen(cases, config.option.tier, SAMPLE)
    others = [item for item in items if item.nodeid not in names]
    counts = len(items) - len(others), len(items)
    config.stash[_COUNTS].add(counts)
    if hasattr(config, "workeroutput"):
        config.workeroutput["tier"] = counts
    items[:] = [item for item in items if item.nodeid in names]
    config.hook.pytest_deselected(items=others)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef):
    before = clock()
    yield
    if fixturedef.scope != "function":
        clock.of_fixtures += clock() - before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    clock.at_setup = clock()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == "call" and report.passed:
        name = item.nodeid.split("@")[0]
        is_quick = item.config.option.tier == case_of(item).tier == "quick"
        wrong = too_long(name, clock() - clock.at_setup) if is_quick else None
        if wrong is not None:
            report.outcome, report.longrepr = "failed", wrong


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files in `OF_ONE_WORKER` are not shared; groups of xdist 3.8 do not work with pytest 9.2."""
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            file = Path(nodeid.split("::")[0]).name
            return file if file in OF_ONE_WORKER else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    if "tier" in getattr(node, "workeroutput", {}):
        node.config.stash[_COUNTS].add(tuple(node.workeroutput["tier"]))


def pytest_terminal_summary(terminalreporter, config):
    for some, all_of_them in config.stash[_COUNTS]:
        terminalreporter.write_line(
            f"tier {config.option.tier}: {some:,} of {all_of_them:,} tests, sample {SAMPLE}"
        )


@pytest.fixture
def all_cases(request):
    """The `Case` of every test that was collected, whether it runs or not."""
    return request.config.stash[_CASES]

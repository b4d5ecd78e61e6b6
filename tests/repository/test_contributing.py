"""CONTRIBUTING.md: its names, files and words exist."""

import ast
import importlib
import inspect
import re
from functools import cache

import pytest
from conftest import ROOT

import skgp_sparse

pytestmark = pytest.mark.second  # a text
FILE = re.compile(r"\.(py|md)$")
PROSE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = sorted((ROOT / "skgp_sparse").rglob("*.py"))
MODULES = {  # by the last part of their names, which no two share but for packages
    path.stem if path.stem != "__init__" else path.parent.name: path for path in FILES
}


def spans(text):
    """What stands in backticks, each once."""
    return list(dict.fromkeys(re.findall(r"`([^`]+)`", text)))


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return importlib.import_module(".".join(part for part in parts if part != "__init__"))


@cache
def classes():
    """{name: class} of the package."""
    return {
        name: thing
        for path in FILES
        for name, thing in inspect.getmembers(module_of(path), inspect.isclass)
        if thing.__module__.startswith("skgp_sparse")
    }


@cache
def syntax():
    """{path: nodes} of the package."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    return {path.relative_to(ROOT).as_posix(): [*ast.walk(tree)] for path, tree in trees.items()}


@cache
def identifiers():
    """Names of everything that the package defines or uses."""
    return {
        name
        for nodes in syntax().values()
        for node in nodes
        for name in [getattr(node, key, None) for key in ("name", "id", "attr", "arg")]
        if isinstance(name, str)
    }


def resolve(dotted):
    """What ``module.name``, ``Class.name`` or a longer chain stands for."""
    first, *rest = dotted.split(".")
    found = classes()[first] if first in classes() else module_of(MODULES[first])
    for name in rest:
        found = getattr(found, name)
    return found


@cache
def names():
    """Dotted names that the page mentions."""
    return [s for s in spans(PROSE) if re.fullmatch(r"\w+(\.\w+)+", s) and not FILE.search(s)]


def is_there(dotted):
    """Whether a dotted name stands for something."""
    try:
        return resolve(dotted) is not None
    except (AttributeError, KeyError):
        return False


def test_names_exist():
    assert len(names()) > 40
    assert not [name for name in names() if not is_there(name)]


def test_files_exist():
    paths = [span for span in spans(PROSE) if re.fullmatch(r"[\w./]*(\.py|\.md|/)", span)]
    folders = (ROOT, ROOT / "skgp_sparse", ROOT / "tests")
    outside = [path for path in paths if not any((folder / path).exists() for folder in folders)]
    files = [file.as_posix() for file in FILES]
    assert len(paths) > 15
    assert not [path for path in outside if not any(f.endswith(f"/{path}") for f in files)]


def test_words_occur_in_the_source():
    words = {span for span in spans(PROSE) if re.fullmatch(r"[A-Za-z_]\w*", span)}
    others = {"WhiteKernel", "working_memory", "if"}  # of scikit-learn and of Python
    assert len(words) > 20 and not words - identifiers() - others


def test_a_reader_finds_the_page():
    for page in ("README.md", "docs/architecture.md"):
        assert "CONTRIBUTING.md" in (ROOT / page).read_text(encoding="utf-8")


def test_the_commands_are_those_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (install,) = re.findall(r"\| `(python3 -m venv [^`]+)`", PROSE)
    assert install in readme and "sphinx-build -W docs docs/_build/html" in readme
    assert skgp_sparse.__file__.startswith(str(ROOT))

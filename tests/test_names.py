"""Names in docstrings exist, and classes are nouns."""

import ast
import importlib
import re

import pytest
from test_contributing import FILES, IDENTIFIERS, MODULES, ROOT, resolve

OF_OTHERS = {"GaussianProcessClassifier", "GaussianProcessRegressor", "iloc"}
KINDS = (ast.Module, ast.ClassDef, ast.FunctionDef)
NODES = {
    path.relative_to(ROOT).as_posix(): list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    for path in FILES
}
NAME = r"[A-Za-z_]\w*"
STRINGS = {  # attributes and parameters may be given as strings
    node.value
    for nodes in NODES.values()
    for node in nodes
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}
IRREGULAR = "begun|chosen|drawn|found|given|held|kept|known|left|made|seen|spent|taken|told"


def spans(nodes):
    """What stands in single backticks in docstrings, formulas left out, each once."""
    texts = (ast.get_docstring(node) or "" for node in nodes if isinstance(node, KINDS))
    pattern = r"(?<!`)(?<!:math:)`([^`\n]+)`(?!`)"
    return dict.fromkeys(span for text in texts for span in re.findall(pattern, text))


def exists(name):
    """Whether a dotted name stands for something, here or in another package."""
    name = name.removeprefix("skgp_sparse.")
    first, *rest = name.split(".")
    try:
        if first[:1].isupper() or first in MODULES:
            return resolve(name) is not None
        module = importlib.import_module(".".join([first, *rest[:-1]]))
        return hasattr(module, rest[-1])
    except (AttributeError, ImportError, KeyError):
        return False


@pytest.mark.parametrize("path", NODES)
def test_names_in_docstrings_exist(path):
    for span in spans(NODES[path]):
        if re.fullmatch(r"[\w./]+\.(py|md)", span):
            assert any(file.as_posix().endswith(f"/{span}") for file in ROOT.rglob("*")), span
        elif re.fullmatch(rf"{NAME}(\.{NAME})+", span):
            assert exists(span), f"`{span}` does not exist"
        elif re.fullmatch(NAME, span):
            known = span in IDENTIFIERS | STRINGS or span in MODULES or span in OF_OTHERS
            assert known, f"`{span}` does not exist"


@pytest.mark.parametrize("path", [path for path in NODES if path.endswith("__init__.py")])
def test_packages_call_private_modules_by_their_names(path):
    modules = {file.stem for file in (ROOT / path).parent.glob("*.py")}
    assert not {span for span in spans(NODES[path]) if f"_{span}" in modules}


def test_the_reader_of_names_sees_what_it_should():
    assert not exists("sites.Projected") and not exists("skgp_sparse._engine.nothing")
    assert exists("collapsed_sites.ProjectedRows") and exists("Table.visit")
    assert exists("sklearn.gaussian_process.kernels.Kernel") and exists("functools.partial")
    assert "Table.visit" in spans(NODES["skgp_sparse/_engine/table.py"])
    assert is_participle("Labelled") and is_participle("_Known") and is_participle("Settling")
    assert not is_participle("ProjectedRows") and not is_participle("Bound")


def is_participle(name):
    """Whether the last word of a class's name is one."""
    last = re.findall(r"[A-Z][a-z0-9]*", name)[-1].lower()
    return re.fullmatch(rf".*(ed|ing)|{IRREGULAR}", last) is not None and last != "warning"


def test_classes_are_nouns():
    classes = {node.name for nodes in NODES.values() for node in nodes if type(node) is KINDS[1]}
    assert not {name for name in classes if is_participle(name)} - {"Missing"}  # an adjective

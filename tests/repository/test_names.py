"""Names in docstrings exist, and classes are nouns."""

import ast
import importlib
import pkgutil
import re
from functools import cache

import pytest
from test_contributing import FILES, MODULES, ROOT, identifiers, resolve, syntax

pytestmark = pytest.mark.second  # rules about text

OF_OTHERS = {"GaussianProcessClassifier", "GaussianProcessRegressor", "iloc"}
KINDS = (ast.Module, ast.ClassDef, ast.FunctionDef)
PATHS = [path.relative_to(ROOT).as_posix() for path in FILES]
NAME = r"[A-Za-z_]\w*"
IRREGULAR = "begun|chosen|drawn|found|given|held|kept|known|left|made|seen|spent|taken|told"


@cache
def strings():
    """All strings of the package: attributes and parameters may be given as strings."""
    constants = [
        node for nodes in syntax().values() for node in nodes if isinstance(node, ast.Constant)
    ]
    return {node.value for node in constants if isinstance(node.value, str)}


def spans(path):
    """What stands in single backticks in docstrings, formulas left out, each once."""
    texts = (ast.get_docstring(node) or "" for node in syntax()[path] if isinstance(node, KINDS))
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


@cache
def files():
    """Files of the project, but not those of an environment."""
    folders = [ROOT / name for name in ("skgp_sparse", "docs", "tests", "examples")]
    inside = [path for folder in folders for path in folder.rglob("*.*")]
    return [path.as_posix() for path in (*inside, *ROOT.glob("*.*"))]


def is_known(span):
    """Whether what stands in backticks exists; what is no name is not asked about."""
    if re.fullmatch(r"[\w./]+\.(py|md)", span):
        return any(file.endswith(f"/{span}") for file in files())
    if re.fullmatch(rf"{NAME}(\.{NAME})+", span):
        return exists(span)
    if re.fullmatch(NAME, span):
        return span in identifiers() | strings() or span in MODULES or span in OF_OTHERS
    return True


def test_names_in_docstrings_exist():
    assert not [f"{path}: {span}" for path in PATHS for span in spans(path) if not is_known(span)]


def test_packages_call_private_modules_by_their_names():
    assert not [
        f"{path}: {span}"
        for path in PATHS
        if path.endswith("__init__.py")
        for span in spans(path)
        if (ROOT / path).with_name(f"_{span}.py").exists()
    ]


def is_participle(name):
    """Whether the last word of a class's name is one."""
    last = re.findall(r"[A-Z][a-z0-9]*", name)[-1].lower()
    return re.fullmatch(rf".*(ed|ing)|{IRREGULAR}", last) is not None and last != "warning"


def test_classes_are_nouns():
    nodes = [node for nodes in syntax().values() for node in nodes]
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    adjectives = {"Missing", "Censored", "Fitted"}  # columns, targets, estimators
    assert not {name for name in classes if is_participle(name)} - adjectives


def found_at(path):
    """What a dotted path to a name or a module stands for, None if nothing is there."""
    try:
        return pkgutil.resolve_name(path)
    except (AttributeError, ImportError):
        return None


def missing(script):
    """What a script imports from the package, or takes from what it imports, and is not there."""
    wrong = []
    for scope in ast.walk(ast.parse(script)):
        imports = [one for one in ast.iter_child_nodes(scope) if isinstance(one, ast.ImportFrom)]
        ours = [one for one in imports if (one.module or "").split(".")[0] == "skgp_sparse"]
        known = {a.asname or a.name: f"{one.module}.{a.name}" for one in ours for a in one.names}
        parts = (one for one in ast.walk(scope) if known and isinstance(one, ast.Attribute))
        pairs = [(one.value.id, one.attr) for one in parts if isinstance(one.value, ast.Name)]
        taken = [f"{known[name]}.{part}" for name, part in pairs if name in known]
        wrong += [path for path in (*known.values(), *taken) if found_at(path) is None]
    return wrong


@pytest.mark.parametrize("folder", ["docs", "docs/benchmarks", "examples"])
def test_what_scripts_import_from_the_package_is_there(folder):
    pytest.importorskip("distributed")  # some import from skgp_sparse.dask
    paths = sorted((ROOT / folder).glob("*.py"))
    wrong = [f"{path.name}: {name}" for path in paths for name in missing(path.read_text("utf-8"))]
    assert paths and not wrong


def test_names_that_scripts_lack_are_found():
    script = "def f():\n    from skgp_sparse import bounds, nothing\n    bounds.DTC, bounds.No"
    assert missing(script) == ["skgp_sparse.nothing", "skgp_sparse.bounds.No"]

"""House rules, read from the source: imports point one way, files and functions stay small."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent / "skgp_sparse"
# from the ground up; a room imports from rooms of a lower floor, or from itself
FLOORS = (
    {"_ground", "_progress", "_version"},
    {"kernels", "metrics", "_safeguards", "exceptions"},
    {"_engine", "hyperpriors"},
    {"inference", "bounds", "inducing", "likelihoods", "sources"},
    {"rows"},
    {"solvers", "_typed_inputs", "_sobol_attributes", "displays"},
    {"posteriors"},
    {"plan"},
    {"families"},
    {"_estimator", "_training_rows"},
    {"regression", "classification", "gplvm", "testing"},
    {"dask", "onnx"},
    {""},  # the package itself: public names only
)
MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_FUNCTION = 40
NINE_IN_TEN_FUNCTIONS = 20


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {
    module_name(path): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
}
PACKAGES = {module_name(path) for path in ROOT.rglob("__init__.py")}


def room(module):
    return (module.split(".") + [""])[1]


def floor(module):
    levels = [level for level, rooms in enumerate(FLOORS) if room(module) in rooms]
    assert len(levels) == 1, f"give {module} its place in FLOORS"
    return levels[0]


def imports(module):
    """Modules of this package that a module names in its imports, wherever they stand."""
    for statement in ast.walk(TREES[module]):
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names if name.name in TREES)
        elif isinstance(statement, ast.ImportFrom):
            yield from _imported_from(module, statement)


def _imported_from(module, statement):
    source = statement.module or ""
    if statement.level:
        package = module.split(".") if module in PACKAGES else module.split(".")[:-1]
        base = package[: len(package) - statement.level + 1]
        source = ".".join([*base, *filter(None, [statement.module])])
    for name in statement.names:
        submodule = f"{source}.{name.name}"
        if submodule in TREES:
            yield submodule
        elif source in TREES:
            yield source


def code_lines(node):
    """Lines that a file or function covers, docstrings left out."""
    if isinstance(node, ast.Module):
        total = node.body[-1].end_lineno if node.body else 0
    else:
        total = node.end_lineno - node.lineno + 1
    return total - sum(_docstring_lines(inner) for inner in ast.walk(node))


def _docstring_lines(node):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    if not isinstance(node, kinds) or ast.get_docstring(node) is None:
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1


def functions():
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield f"{module}:{node.lineno} {node.name}", node


def dotted(node):
    """``a.b.c`` of an attribute chain, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    prefix = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{prefix}.{node.attr}" if prefix else ""


@pytest.mark.parametrize("module", TREES)
def test_every_module_has_a_room(module):
    assert 0 <= floor(module) < len(FLOORS)


@pytest.mark.parametrize("module", TREES)
def test_imports_point_down(module):
    for imported in imports(module):
        same_room = room(imported) == room(module)
        assert same_room or floor(imported) < floor(module), f"{module} imports {imported}"


@pytest.mark.parametrize("module", [name for name in TREES if room(name) == "kernels"])
def test_kernels_stand_on_their_own(module):
    for imported in imports(module):
        own = room(imported) == "kernels"
        assert own or imported.removeprefix("skgp_sparse._ground.") in ("parallel", "plain_text")


@pytest.mark.parametrize("module", [n for n in TREES if room(n) in ("_engine", "inference")])
def test_engine_and_inference_take_bounds_as_arguments(module):
    assert not {room(imported) for imported in imports(module)} & {"bounds", "inducing"}


def test_sources_stand_on_their_own():
    assert {*imports("skgp_sparse.sources")} == {"skgp_sparse._ground.plain_text"}


def test_no_imports_go_round_in_circles():
    TopologicalSorter({module: set(imports(module)) for module in TREES}).prepare()


def test_the_reader_of_imports_sees_what_it_should():
    assert "skgp_sparse.kernels" in set(imports("skgp_sparse._engine.problem"))
    assert "skgp_sparse._ground.linalg" in set(imports("skgp_sparse._engine.visits"))
    assert "skgp_sparse.kernels._nodes" in set(imports("skgp_sparse.kernels._composites"))
    assert "skgp_sparse.bounds" in set(imports("skgp_sparse.families.choices"))


@pytest.mark.parametrize("module", TREES)
def test_no_matrix_is_inverted_explicitly(module):
    inverses = {"inv", "pinv", "pinvh", "tensorinv"}
    for node in ast.walk(TREES[module]):
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        assert not (name.split(".")[-2:-1] == ["linalg"] and name.split(".")[-1] in inverses), name
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("linalg"):
            assert not {alias.name for alias in node.names} & inverses


ESTIMATORS = ("_estimator", "_training_rows", "regression", "classification", "gplvm", "dask")
FRONT_DOOR = (*ESTIMATORS, "rows", "families", "")


@pytest.mark.parametrize("module", [name for name in TREES if room(name) in FRONT_DOOR])
def test_the_front_door_multiplies_no_matrices(module):
    assert not any(isinstance(node, ast.MatMult) for node in ast.walk(TREES[module]))


@pytest.mark.parametrize(
    "module", [name for name in TREES if room(name) not in (*ESTIMATORS, "_ground")]
)
def test_only_estimators_touch_what_is_private_of_estimators(module):
    """Lower rooms are handed what they need; they read public parameters."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of_an_estimator = node.value.id in ("estimator", "parameters", "model")
            assert not (of_an_estimator and node.attr.startswith("_")), ast.unparse(node)


@pytest.mark.parametrize("module", ["skgp_sparse.regression", "skgp_sparse.classification"])
def test_estimators_name_no_strategy(module):
    classes = {"Exact", "InducingPoints", "AllRows", "LargerMean", "TightVariance", "Auto"}
    assert not classes & {n.id for n in ast.walk(TREES[module]) if isinstance(n, ast.Name)}


def test_only_families_ask_whether_there_is_a_likelihood():
    """`likelihood is None` is asked in families, and once where rows are checked."""
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                if ast.unparse(node.left).endswith(".likelihood"):
                    assert room(module) in ("families", "rows"), module


@pytest.mark.parametrize("module", TREES)
def test_files_are_short(module):
    assert code_lines(TREES[module]) <= MOST_LINES_OF_A_FILE


def test_functions_are_short():
    lines = {name: code_lines(node) for name, node in functions()}
    assert not [
        name
        for name, count in lines.items()
        if count > MOST_LINES_OF_A_FUNCTION and not name.endswith("__init__")
    ]
    assert np.quantile(list(lines.values()), 0.9) < NINE_IN_TEN_FUNCTIONS


@pytest.mark.parametrize("module", TREES)
def test_every_module_opens_with_its_purpose(module):
    assert ast.get_docstring(TREES[module])


@pytest.mark.parametrize("package", sorted(PACKAGES - {"skgp_sparse"}))
def test_packages_list_all_of_their_modules(package):
    text = ast.get_docstring(TREES[package])
    for module in TREES:
        if module.startswith(f"{package}."):
            assert module.split(".")[-1].strip("_") in text, f"{package} does not list {module}"


def test_the_drawing_of_the_rooms_shows_every_module():
    drawing = (ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    for module in TREES.keys() - PACKAGES:
        if room(module) not in ("kernels", "likelihoods", "testing"):
            assert f"{module.split('.')[-1]}.py" in drawing, module


def test_no_two_modules_or_classes_share_a_name():
    files = [module.split(".")[-1] for module in TREES.keys() - PACKAGES]
    classes = [
        node.name
        for tree in TREES.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    for names in (files, classes):
        twice = {name for name in names if names.count(name) > 1}
        assert not twice, twice

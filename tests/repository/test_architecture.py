"""House rules, read from the source: imports point one way, files and functions stay small.

Every test looks at all modules, and names those that break its rule.
"""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter

import numpy as np
import pytest
from conftest import ROOT

pytestmark = pytest.mark.second  # rules about text
PACKAGE = ROOT / "skgp_sparse"
# from the ground up; a room imports from rooms of a lower floor, or from itself
FLOORS = (
    {"_ground", "_version"},
    {"kernels", "metrics", "exceptions"},
    {"_engine", "hyperpriors"},
    {"inference", "bounds", "inducing", "likelihoods", "sources"},
    {"rows"},
    {"solvers", "_typed_inputs", "acquisition", "displays"},
    {"posteriors"},
    {"plan"},
    {"parameters"},
    {"explain"},
    {"observations"},
    {"_estimator"},
    {"regression", "classification", "gplvm"},
    {"dask", "onnx"},
    {"testing"},
    {""},  # the package itself: public names only
)
# groups of files of the engine from the ground up, with the same rule
FLOORS_OF_THE_ENGINE = (
    ({"moments", "dataset", "array_dataset"},),
    ({"basis"},),
    ({"posterior", "feature_posterior", "posteriors_around", "sampled_functions"},),
    ({"passes", "collapsed", "normal_inputs"}, {"nearest", "neighbors_posterior"}),
    ({"exact", "collapsed_sites", "iterative_posterior"},),
)
MOST_LINES_OF_A_FILE = 500
MOST_LINES_OF_A_FUNCTION = 40
NINE_IN_TEN_FUNCTIONS = 20


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees():
    """The syntax tree of every module."""
    return {
        module_name(path): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def packages():
    """Names of modules that are packages."""
    return {module_name(path) for path in PACKAGE.rglob("__init__.py")}


def modules_of(*rooms):
    """Names of the modules in some rooms."""
    return [module for module in trees() if room(module) in rooms]


def room(module):
    return (module.split(".") + [""])[1]


def floor(module):
    levels = [level for level, rooms in enumerate(FLOORS) if room(module) in rooms]
    assert len(levels) == 1, f"give {module} its place in FLOORS"
    return levels[0]


def imports(module):
    """Modules of this package that a module names in its imports, wherever they stand."""
    for statement in ast.walk(trees()[module]):
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names if name.name in trees())
        elif isinstance(statement, ast.ImportFrom):
            yield from _imported_from(module, statement)


def _imported_from(module, statement):
    source = statement.module or ""
    if statement.level:
        package = module.split(".") if module in packages() else module.split(".")[:-1]
        base = package[: len(package) - statement.level + 1]
        source = ".".join([*base, *filter(None, [statement.module])])
    for name in statement.names:
        submodule = f"{source}.{name.name}"
        if submodule in trees():
            yield submodule
        elif source in trees():
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
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield f"{module}:{node.lineno} {node.name}", node


def dotted(node):
    """``a.b.c`` of an attribute chain, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    prefix = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{prefix}.{node.attr}" if prefix else ""


def test_every_module_has_a_room():
    floors = {module: sum(room(module) in rooms for rooms in FLOORS) for module in trees()}
    assert not [module for module, count in floors.items() if count != 1], "see FLOORS"


def test_imports_point_down():
    assert not [
        f"{module} imports {imported}"
        for module in trees()
        for imported in imports(module)
        if room(imported) != room(module) and floor(imported) >= floor(module)
    ]


def group_in_the_engine(module):
    """Level and names of the group of a file."""
    ((level, names),) = (
        (level, names)
        for level, groups in enumerate(FLOORS_OF_THE_ENGINE)
        for names in groups
        if module.split(".")[2] in names
    )
    return level, names


def test_imports_point_down_in_the_engine():
    groups = {
        module: group_in_the_engine(module)
        for module in modules_of("_engine")
        if module.count(".") > 1
    }
    assert not [
        f"{module} imports {imported}"
        for module, (level, names) in groups.items()
        for imported in groups.keys() & {*imports(module)}
        if groups[imported][1] != names and groups[imported][0] >= level
    ]


def test_kernels_stand_on_their_own():
    others = {"parallel", "validation"}
    assert not [
        f"{module} imports {imported}"
        for module in modules_of("kernels")
        for imported in imports(module)
        if room(imported) != "kernels"
        and imported.removeprefix("skgp_sparse._ground.") not in others
    ]


def test_engine_and_inference_take_bounds_as_arguments():
    assert not [
        f"{module} imports {imported}"
        for module in modules_of("_engine", "inference")
        for imported in imports(module)
        if room(imported) in ("bounds", "inducing")
    ]


def test_sources_stand_on_their_own():
    assert {*imports("skgp_sparse.sources")} == {"skgp_sparse._ground.validation"}


def test_no_imports_go_round_in_circles():
    TopologicalSorter({module: set(imports(module)) for module in trees()}).prepare()


def test_the_reader_of_imports_sees_what_it_should():
    assert "skgp_sparse.kernels" in set(imports("skgp_sparse._engine.basis"))
    assert "skgp_sparse._ground.linalg" in set(imports("skgp_sparse._engine.passes"))
    assert "skgp_sparse.kernels._nodes" in set(imports("skgp_sparse.kernels._missing"))
    assert "skgp_sparse.bounds" in set(imports("skgp_sparse.parameters.choices"))


def inverses_of(tree):
    """Inverses of matrices that a module names or imports."""
    inverses = {"inv", "pinv", "pinvh", "tensorinv"}
    for node in ast.walk(tree):
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        if name.split(".")[-2:-1] == ["linalg"] and name.split(".")[-1] in inverses:
            yield name
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("linalg"):
            yield from {alias.name for alias in node.names} & inverses


def test_no_matrix_is_inverted_explicitly():
    assert not [(module, name) for module, tree in trees().items() for name in inverses_of(tree)]
    of_examples = map(ast.parse, ("np.linalg.inv(A)", "from scipy.linalg import pinvh"))
    assert [name for tree in of_examples for name in inverses_of(tree)] == [
        "np.linalg.inv",
        "pinvh",
    ]


ESTIMATORS = ("_estimator", "regression", "classification", "gplvm", "dask")
FRONT_DOOR = (*ESTIMATORS, "rows", "parameters", "observations", "explain", "")


def test_the_front_door_multiplies_no_matrices():
    assert not [
        f"{module}:{node.lineno}"
        for module in modules_of(*FRONT_DOOR)
        for node in ast.walk(trees()[module])
        if isinstance(getattr(node, "op", None), ast.MatMult)
    ]


def test_only_estimators_touch_what_is_private_of_estimators():
    """Lower rooms are handed what they need; they read public parameters."""
    assert not [
        f"{module}: {ast.unparse(node)}"
        for module, tree in trees().items()
        if room(module) not in (*ESTIMATORS, "_ground")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and isinstance(node.value, ast.Name)
        and node.value.id in ("estimator", "parameters", "model")
    ]


def test_estimators_name_no_strategy():
    classes = {"Exact", "InducingPoints", "IterativeExact", "LargerMean", "TightVariance", "Auto"}
    assert not [
        f"{module} names {node.id}"
        for module in ("skgp_sparse.regression", "skgp_sparse.classification")
        for node in ast.walk(trees()[module])
        if isinstance(node, ast.Name) and node.id in classes
    ]


def test_only_observation_models_ask_whether_there_is_a_likelihood():
    """`likelihood is None` is asked of observations, and once where rows are checked."""
    assert not [
        f"{module}:{node.lineno}"
        for module, tree in trees().items()
        if room(module) not in ("parameters", "observations", "explain", "rows")
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and isinstance(node.ops[0], (ast.Is, ast.IsNot))
        and ast.unparse(node.left).endswith(".likelihood")
    ]


def test_files_are_short():
    lines = {module: code_lines(tree) for module, tree in trees().items()}
    assert not [module for module, count in lines.items() if count > MOST_LINES_OF_A_FILE]


def test_functions_are_short():
    lines = {name: code_lines(node) for name, node in functions()}
    assert not [
        name
        for name, count in lines.items()
        if count > MOST_LINES_OF_A_FUNCTION and not name.endswith("__init__")
    ]
    assert np.quantile(list(lines.values()), 0.9) < NINE_IN_TEN_FUNCTIONS


def test_every_module_opens_with_its_purpose():
    assert not [module for module, tree in trees().items() if not ast.get_docstring(tree)]


def test_packages_list_all_of_their_modules():
    assert not [
        f"{package} does not list {module}"
        for package in sorted(packages() - {"skgp_sparse"})
        for module in trees()
        if module.rpartition(".")[0] == package
        and module.split(".")[-1].strip("_") not in ast.get_docstring(trees()[package])
    ]


def test_the_page_lists_every_room_on_its_floor():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d+) \| `(\w+)(?:\.py|/)` \|", page, flags=re.MULTILINE)
    rooms = {(name, k) for k, names in enumerate(FLOORS) for name in names}
    assert {(name.replace("__init__", ""), int(level)) for level, name in listed} == rooms
    assert len(listed) == len(rooms)


def test_no_two_classes_share_a_name():
    names = [
        node.name
        for tree in trees().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert not {name for name in names if names.count(name) > 1}


@pytest.mark.parametrize(
    "method, file",
    [("FourierFeatures", "_inducing_points"), ("IterativeExact", "_exact")],
)
def test_a_posterior_is_a_file_and_a_line_of_names(method, file):
    """No other room knows a posterior method, so that one of a user works as those shipped."""
    users = {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if method in (getattr(node, "id", None), getattr(node, "name", None))
    }
    room = "skgp_sparse.posteriors"
    assert users <= {room, f"{room}._names", f"{room}.{file}"}

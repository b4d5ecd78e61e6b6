"""House rules, read from the source: imports point one way, files and functions stay small.

Every test looks at all modules, and names those that break its rule.
"""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
from test_budget import WITH_DOCSTRINGS, lines_of_code

pytestmark = pytest.mark.second  # rules about text
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "skgp_sparse"
# from the ground up; a room imports from rooms of a lower floor, or from itself
FLOORS = (
    {"ground", "exceptions", "_version"},
    {"kernels", "likelihoods", "bounds", "metrics", "sources"},
    {"data", "hyperpriors"},
    {"engine", "inducing"},
    {"inference"},
    {"solvers", "acquisition", "displays"},
    {"methods"},
    {"choices", "posteriors"},
    {"explain"},
    {"targets", "steps", "_fitted"},
    {"_estimator"},
    {"regression", "classification", "gplvm"},
    {"dask", "onnx"},
    {"testing"},
    {""},  # the package itself: public names only
)
# groups of files of the engine from the ground up, with the same rule
FLOORS_OF_THE_ENGINE = (
    ({"basis"},),
    ({"posterior", "feature_posterior", "posteriors_around", "functions"},),
    ({"collapsed", "normal_inputs"}, {"neighbors"}),
    ({"exact", "collapsed_sites", "iterative"},),
)
MOST_LINES_OF_A_FILE = 500  # of code
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


def modules_but(*rooms):
    """Names of the modules in all other rooms."""
    return [module for module in trees() if room(module) not in rooms]


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


def code_lines(function):
    """Lines that a function covers, docstrings left out."""
    inner = [node for node in ast.walk(function) if isinstance(node, WITH_DOCSTRINGS)]
    texts = [node.body[0] for node in inner if ast.get_docstring(node) is not None]
    covered = [node.end_lineno - node.lineno + 1 for node in (function, *texts)]
    return covered[0] - sum(covered[1:])


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


def imports_of(modules, wrong):
    """Imports of some modules that are wrong, in words."""
    pairs = [(module, imported) for module in modules for imported in imports(module)]
    return [f"{module} imports {other}" for module, other in pairs if wrong(module, other)]


def nodes_of(modules, kind, wrong):
    """Nodes of the syntax trees of some modules that are of a kind and wrong, in words."""
    nodes = [(module, node) for module in modules for node in ast.walk(trees()[module])]
    wrong_ones = [(m, node) for m, node in nodes if isinstance(node, kind) and wrong(node)]
    return [f"{module}:{node.lineno} {ast.unparse(node)}" for module, node in wrong_ones]


def test_imports_point_down():
    upwards = lambda one, other: room(other) != room(one) and floor(other) >= floor(one)
    assert not imports_of(trees(), upwards)


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
    files = [module for module in modules_of("engine") if module.count(".") > 1]

    def upwards(module, other):
        (level, names), (of_other, others) = map(group_in_the_engine, (module, other))
        return others != names and of_other >= level

    assert not imports_of(files, lambda one, other: other in files and upwards(one, other))


def test_kernels_stand_on_their_own():
    others = {f"skgp_sparse.ground.{name}" for name in ("parallel", "validation")}
    wrong = lambda module, other: room(other) != "kernels" and other not in others
    assert not imports_of(modules_of("kernels"), wrong)


def test_engine_and_inference_take_bounds_as_arguments():
    wrong = lambda module, other: room(other) in ("bounds", "inducing")
    assert not imports_of(modules_of("engine", "inference"), wrong)


def test_sources_stand_on_their_own():
    assert {*imports("skgp_sparse.sources")} == set()


def test_no_imports_go_round_in_circles():
    TopologicalSorter({module: set(imports(module)) for module in trees()}).prepare()


def test_the_reader_of_imports_sees_what_it_should():
    assert "skgp_sparse.kernels" in set(imports("skgp_sparse.engine.basis"))
    assert "skgp_sparse.ground.linalg" in set(imports("skgp_sparse.engine.collapsed"))
    assert "skgp_sparse.kernels._differentiable" in set(imports("skgp_sparse.kernels._mapped"))
    assert "skgp_sparse.bounds" in set(imports("skgp_sparse.choices.choices"))
    products = nodes_of(trees(), ast.BinOp, lambda node: isinstance(node.op, ast.MatMult))
    assert any(one.startswith("skgp_sparse.engine.collapsed:") for one in products)


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
FRONT_DOOR = (*ESTIMATORS, "_fitted", "choices", "targets", "steps", "explain", "")


def test_the_front_door_multiplies_no_matrices():
    reads = [f"skgp_sparse.data.{name}" for name in ("checks", "columns", "door")]
    wrong = lambda node: isinstance(node.op, ast.MatMult)
    assert not nodes_of((*modules_of(*FRONT_DOOR), *reads), (ast.BinOp, ast.AugAssign), wrong)


def test_only_estimators_touch_what_is_private_of_estimators():
    """Lower rooms are handed what they need; they read public parameters."""
    names = ("estimator", "parameters", "model")
    wrong = lambda node: node.attr.startswith("_") and dotted(node.value) in names
    assert not nodes_of(modules_but(*ESTIMATORS, "ground"), ast.Attribute, wrong)


def test_estimators_name_no_strategy():
    classes = {"Exact", "InducingPoints", "IterativeExact", "PosteriorSelection"}
    modules = modules_of("regression", "classification")
    assert not nodes_of(modules, ast.Name, lambda node: node.id in classes)


def test_only_observation_models_ask_whether_there_is_a_likelihood():
    """`likelihood is None` is asked of observations, and once where rows are checked."""
    is_asked = lambda node: ast.unparse(node.left).endswith(".likelihood")
    wrong = lambda node: isinstance(node.ops[0], (ast.Is, ast.IsNot)) and is_asked(node)
    others = modules_but("choices", "targets", "explain", "steps", "data")
    assert not nodes_of(others, ast.Compare, wrong)


def test_files_are_short():
    lines = {path: lines_of_code(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    assert not [path for path, count in lines.items() if count > MOST_LINES_OF_A_FILE]


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


PAGE = ROOT / "docs" / "architecture.md"
# a joint, its module and base class, and what a test adds to it
JOINTS = (
    ("rows", "data.dataset", "Dataset", "rows of a formula, made block by block"),
    ("basis", "engine.basis", "Basis", "bumps whose centres are learned"),
    ("observations", "targets.model", "ObservationModel", ""),
    ("posterior method", "methods.contract", "PosteriorMethod", "a subset of data"),
    ("posterior", "engine.posterior", "Posterior", "a posterior that learns nothing"),
    ("objective", "inference.contracts", "Objective", ""),
    ("objectives", "inference.contracts", "ObjectiveFactory", ""),
    ("site method", "inference.contracts", "SiteMethod", ""),
    ("solver", "inference.contracts", "Solver", ""),
    ("bound", "bounds", "Bound", "a looser bound"),
    ("likelihood", "likelihoods._base", "Likelihood", "Gaussian noise of learned variance"),
    ("kernel", "kernels._differentiable", "DifferentiableKernel", "a Cauchy kernel"),
    ("rule of a kernel", "kernels._differentiable", "KernelRule", "a linear kernel"),
)


def first_sentence(module):
    """The first sentence of a module's docstring, without its full stop."""
    return re.split(r"\.?\n|\. |\.$", ast.get_docstring(trees()[module]))[0]


def table_of_rooms():
    """Rows of the table of rooms, from the top floor down."""
    yield from ("| floor | room | what is in it |", "|---|---|---|")
    for level, rooms in reversed([*enumerate(FLOORS)]):
        for name in sorted(rooms):
            module = ".".join(filter(None, ["skgp_sparse", name]))
            file = (
                "__init__.py" if not name else f"{name}/" if module in packages() else f"{name}.py"
            )
            yield f"| {level} | `{file}` | {first_sentence(module)} |"


def subclasses(base):
    """Public classes that derive from one, by their names, in the order of modules."""
    classes = [n for tree in trees().values() for n in tree.body if isinstance(n, ast.ClassDef)]
    found, size = [base], 0
    while size < len(found):
        size = len(found)
        for node in classes:
            bases = {dotted(one).split(".")[-1] for one in node.bases}
            if node.name not in found and bases & {*found}:
                found.append(node.name)
    return [name for name in found[1:] if not name.startswith("_")]


def table_of_joints():
    """Rows of the table of joints, with the classes that are shipped."""
    yield "| joint | contract | shipped | shown by a test that adds |"
    yield "|---|---|---|---|"
    for joint, module, base, shown in JOINTS:
        listed = ", ".join(f"`{name}`" for name in subclasses(base))
        yield f"| {joint} | `{module.replace('.', '/')}.py`: `{base}` | {listed} | {shown} |"


def page_of_today():
    """The page, whose two tables are made of the sources."""
    text = PAGE.read_text(encoding="utf-8")
    for table in (table_of_rooms, table_of_joints):
        header, *rest = table()
        begin = text.index(header)
        end = text.index("\n\n", begin)
        text = text[:begin] + "\n".join([header, *rest]) + text[end:]
    return text


def test_the_tables_of_the_page_are_those_of_today():
    """Run this file to write them."""
    assert PAGE.read_text(encoding="utf-8") == page_of_today()


def test_no_two_classes_share_a_name():
    names = [
        node.name
        for tree in trees().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert not {name for name in names if names.count(name) > 1}


@pytest.mark.parametrize(
    "method, file", [("FourierFeatures", "inducing_points"), ("IterativeExact", "exact")]
)
def test_a_posterior_is_a_file_and_a_line_of_names(method, file):
    """No other room knows a posterior method, so that one of a user works as those shipped."""
    users = {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if method in (getattr(node, "id", None), getattr(node, "name", None))
    }
    known = {"posteriors", "choices.plan", f"methods.{file}"}
    assert users <= {f"skgp_sparse.{name}" for name in known}


if __name__ == "__main__":
    PAGE.write_text(page_of_today(), encoding="utf-8")

"""Docstrings of everything public: complete by numpydoc's rules, and their examples run."""

import ast
import doctest
import importlib
import inspect
import re
from functools import cache

import pytest
from conftest import ROOT
from sklearn.gaussian_process.kernels import Kernel

from skgp_sparse import BayesianGPLVM, SparseGPClassifier, SparseGPRegressor

validate = pytest.importorskip("numpydoc.validate").validate
pytestmark = pytest.mark.second  # rules about text, and examples

PATHS = sorted(path.relative_to(ROOT) for path in (ROOT / "skgp_sparse").rglob("*.py"))
MODULES = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in PATHS]
REFERENCE = ROOT / "docs" / "api.rst"
ROOMS = "displays", "kernels", "likelihoods", "metrics", "posteriors", "solvers", "testing"
ROOMS += ("acquisition",)


@cache
def documented():
    """{path: object} of everything that the reference has a page for."""
    found, module = {}, None
    for line in REFERENCE.read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [A-Za-z_.]+", line):
            path = f"{module}.{line.strip()}"
            room, name = path.rsplit(".", 1)
            found[path] = getattr(importlib.import_module(room), name)
    return found


def documented_classes():
    return {path: one for path, one in documented().items() if inspect.isclass(one)}


CONTRACTS = "skgp_sparse.data.", "skgp_sparse.engine."  # of those who extend the engine
IGNORED = {
    "RT02",  # scikit-learn: names of returned values are helpful
    "GL01",  # scikit-learn: the summary starts right after the quotes
    "GL02",  # scikit-learn: no blank line before the closing quotes
    "SS05",  # takes nouns in the plural ("Rows of ...") for verbs
    "SA01",  # siblings stand side by side in one module, whose docstring relates them
    "ES01",  # a summary that says everything needs no second paragraph
}
IGNORED_IN_METHODS = {"EX01"}  # scikit-learn: the example of the class shows its methods
IGNORED_IN_PROPERTIES = {"PR02", "GL08"}  # scikit-learn
IGNORED_IN_OVERRIDES = {"PR01", "RT01"}  # the contract stands once, in the base class
IGNORED_IN_KERNELS = {"PR01", "PR07", "RT01", "RT03"}  # scikit-learn's interface, and helpers
WITHOUT_A_NOUN = re.compile(r"(What|Those|That of|The same|Nothing|Of|One)\b")
STEPS_OF_STRATEGIES = {"learn", "go_on", "objective"}  # "auto" goes on between them
REQUIRED_OF_ESTIMATORS = {"SA01", "ES01"}


def public_methods(cls):
    """Public methods and properties of the class itself."""
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    ]


def ignored_for_method(cls, name):
    ignored = IGNORED | IGNORED_IN_METHODS
    if isinstance(inspect.getattr_static(cls, name), property):
        ignored |= IGNORED_IN_PROPERTIES
    if issubclass(cls, Kernel):
        ignored |= IGNORED_IN_KERNELS
    bases = [base for base in cls.__mro__[1:] if base.__module__.startswith("skgp_sparse")]
    if name in STEPS_OF_STRATEGIES or any(hasattr(base, name) for base in bases):
        ignored |= IGNORED_IN_OVERRIDES
    return ignored


def defects(path, ignored):
    return [(code, text) for code, text in validate(path)["errors"] if code not in ignored]


def ignored_for_class(path, cls):
    estimators = BayesianGPLVM, SparseGPRegressor, SparseGPClassifier
    required = REQUIRED_OF_ESTIMATORS if issubclass(cls, estimators) else set()
    without_example = {"EX01"} if path.startswith(CONTRACTS) else set()
    if path.endswith(".Source"):  # a protocol is not called
        without_example |= {"PR01"}
    return (IGNORED | without_example) - required


def with_defects(ignored):
    """The pages of {path: what is ignored there} that have defects."""
    found = {path: defects(path, codes) for path, codes in ignored.items()}
    return {path: wrong for path, wrong in found.items() if wrong}


def test_docstrings_of_classes_are_complete():
    classes = documented_classes()
    assert with_defects({path: ignored_for_class(path, classes[path]) for path in classes}) == {}


def test_docstrings_of_methods_are_complete():
    ignored = {
        f"{path}.{name}": ignored_for_method(cls, name)
        for path, cls in documented_classes().items()
        for name in public_methods(cls)
    }
    assert len(ignored) > 200 and with_defects(ignored) == {}


def test_docstrings_of_functions_are_complete():
    functions = documented().keys() - documented_classes().keys()
    assert len(functions) > 20 and with_defects(dict.fromkeys(functions, IGNORED)) == {}


def test_everything_public_has_a_page():
    """What a room says is public, and all that a new user sees of the package itself."""
    public = {
        f"skgp_sparse.{room}.{name}"
        for room in ROOMS
        for name in importlib.import_module(f"skgp_sparse.{room}").__all__
    }
    assert len(public) > 50 and not public - documented().keys()


def docstrings(path):
    """Line and docstring of a module, its classes and its functions, private ones included."""
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)) is not None:
            yield node.body[0].lineno, text


def test_first_sentences_can_be_read_alone():
    """An editor shows the first sentence: it names what is returned, and refers to no other one."""
    found = [(path, line, text) for path in PATHS for line, text in docstrings(path)]
    without_a_noun = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path, line, text in found
        if WITHOUT_A_NOUN.match(text)
    ]
    assert len(found) > 2000 and without_a_noun == []


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0

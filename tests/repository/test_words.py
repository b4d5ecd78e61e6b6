"""Arguments and fields have the words of the table in CONTRIBUTING.md, one for each thing."""

import ast
import re

import pytest
from test_contributing import PROSE, syntax

pytestmark = pytest.mark.second  # rules about text
TABLE = re.findall(r"(?m)^\|.*\|$", PROSE.split("## Words of this code")[1].split("\n## ")[0])[2:]
RETIRED = {word for row in TABLE for word in re.findall(r"\w+", row.split("|")[3])}
ALLOWED = {  # functions that have an argument of such a name, as users call it or in its own sense
    "model": """log_expected_improvement log_noisy_expected_improvement upper_confidence_bound
        _moments read_chunk _read_source _outputs_of_regression""".split(),
    "method": "predict_interval check_posterior _uses _model lazy with_callbacks".split(),
    "left": "_join _pull_product_diag _combined".split(),  # of a kernel
}


def arguments(node):
    """Names of the arguments of a function, or of the fields of a class."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        every = node.args
        named = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
        return [argument.arg for argument in named if argument is not None]
    if isinstance(node, ast.ClassDef):
        fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
        return [field.id for field in fields if isinstance(field, ast.Name)]
    return []


def retired(path, nodes):
    """Where a file names an argument or a field by a word that is retired."""
    found = {(getattr(node, "name", "lambda"), word) for node in nodes for word in arguments(node)}
    return [
        f"{path}: {word} of {name}"
        for name, word in sorted(found)
        if word in RETIRED and name not in ALLOWED.get(word, [])
    ]


def test_no_argument_and_no_field_has_a_retired_word():
    assert len(TABLE) <= 25 and RETIRED
    assert not [line for path, nodes in syntax().items() for line in retired(path, nodes)]


def test_retired_words_are_found():
    text = "class A:\n    given: int\n\ndef f(self, *given, other): return lambda given: 0\n"
    found = retired("a.py", ast.walk(ast.parse(text)))
    assert found == ["a.py: given of A", "a.py: given of f", "a.py: given of lambda"]

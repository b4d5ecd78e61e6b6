"""Every message of the package says what to do, or what must be: read from its source."""

import ast
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.second  # a rule about text
PACKAGE = Path(__file__).parent.parent / "skgp_sparse"
VERBS = """
    Add Call Change Check Choose Convert Create Draw Encode Fit Give Impute Install Judge Leave
    Lower Make Name Pass Persist Put Raise Remove Replace Rescale Return Set Shift Subtract Try
    Use Wait
""".split()
REMEDY = re.compile(
    rf"(^|[.!?)}}:] )((For|Otherwise)\b[^,.]*, |First )?({'|'.join(VERBS)})\b"
    r"|\b(must|needs|requires?)\b",
    re.IGNORECASE,
)
MAKES = re.compile("^warn$|(?<!Assertion)Error$")
WHOLE = re.compile(r"^\{\}$|[.:] \{\}|\{\}\.?$")  # where what is put in may be a sentence
OTHERWISE = re.compile(  # in the words of scikit-learn, or good as it is
    "(At most one of return_std)|(Gradient can only be evaluated)|(is close to the specified)"
    "|(Predicted variances smaller than 0)|(so that the fit goes on from)|(All observations are 0)"
)


def name_of(node):
    """The last name of a dotted expression."""
    return getattr(node, "attr", getattr(node, "id", ""))


def words(node):
    """A text with ``{}`` for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(words, node.values))
    value = getattr(node, "value", None)
    return value if isinstance(node, ast.Constant) and isinstance(value, str) else "{}"


@cache
def source():
    """What functions, calls and constants of modules there are, and which texts are docstrings."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return SimpleNamespace(
        functions=[node for node in nodes if isinstance(node, ast.FunctionDef)],
        calls=[node for node in nodes if isinstance(node, ast.Call)],
        constants=[one for tree in trees for one in tree.body if isinstance(one, ast.Assign)],
        docstrings={id(node.value) for node in nodes if isinstance(node, ast.Expr)},
    )


def said(function):
    """Texts of the errors and warnings that a function makes, but not parts of other messages."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and MAKES.search(name_of(node.func)) and node.args:
            if re.search(r"[^.]\.$|\}$", text := words(node.args[0])):
                yield text


def put_in(function):
    """Texts that a message of a function may contain: its own, of callers, of what it calls."""
    names = {name_of(node) for node in ast.walk(function)}
    around = [function, *(one for one in source().calls if name_of(one.func) == function.name)]
    around += [one for one in source().functions if one.name in names]
    around += [one for one in source().constants if name_of(one.targets[0]) in names]
    nodes = [node for one in around for node in ast.walk(one)]
    return [words(node) for node in nodes if id(node) not in source().docstrings]


def test_every_message_says_what_to_do():
    messages = [(text, function) for function in source().functions for text in said(function)]
    silent = [(text, function) for text, function in messages if not REMEDY.search(text)]
    assert len({*OTHERWISE.findall(str(silent))}) == OTHERWISE.groups and len(messages) > 200
    for text, function in silent:
        put = put_in(function) if WHOLE.search(text) else []
        assert OTHERWISE.search(text) or any(map(REMEDY.search, put)), text

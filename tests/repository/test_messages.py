"""Every message of the package says what to do, or what must be: read from its source."""

import ast
import re

import pytest
from conftest import ROOT

pytestmark = pytest.mark.second  # a rule about text
REMEDY = re.compile(
    r"""(^|[.!?)}:]\ ) ((For|Otherwise)\b[^,.]*,\ |First\ )? (Add|Call|Change|Check|Choose|Convert
    |Create|Draw|Encode|Fit|Give|Impute|Install|Judge|Leave|Lower|Make|Name|Pass|Persist|Put|Raise
    |Remove|Replace|Rescale|Return|Set|Shift|Subtract|Try|Use|Wait)\b
    | \b(must|needs|requires?)\b""",
    re.IGNORECASE | re.VERBOSE,
)
OTHERWISE = re.compile(  # in the words of scikit-learn, or good as it is
    "(At most one of return_std)|(Gradient can only be evaluated)|(is close to the specified)"
    "|(Predicted variances smaller than 0)|(so that the fit goes on from)|(All observations are 0)"
)
MAKES = re.compile("^warn$|(?<!Assertion)Error$")
WHOLE = re.compile(r"^\{\}$|[.:] \{\}|\{\}\.?$")  # where what is put in may be a sentence


def name_of(node):
    """The last name of a dotted expression."""
    return getattr(node, "attr", getattr(node, "id", ""))


def words(node):
    """A text with ``{}`` for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(words, node.values))
    value = getattr(node, "value", None)
    return value if isinstance(node, ast.Constant) and isinstance(value, str) else "{}"


def test_every_message_says_what_to_do():
    files = {*ROOT.glob("skgp_sparse/**/*.py")} - {ROOT / "skgp_sparse/exceptions.py"}  # of others
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    constants = [one for tree in trees for one in tree.body if isinstance(one, ast.Assign)]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    said, wrong = [], []
    for function in functions:
        made = [node for node in ast.walk(function) if isinstance(node, ast.Call) and node.args]
        texts = [words(node.args[0]) for node in made if MAKES.search(name_of(node.func))]
        said += [(text, function) for text in texts if re.search(r"[^.]\.$|\}$", text)]
    silent = [(text, function) for text, function in said if not REMEDY.search(text)]
    assert len({*OTHERWISE.findall(str(silent))}) == OTHERWISE.groups and len(said) > 200
    for text, function in silent:  # parts of it may be made by callers and by what it calls
        names = {name_of(node) for node in ast.walk(function)}
        around = [function, *(n for n in nodes if name_of(getattr(n, "func", 0)) == function.name)]
        around += [one for one in functions if one.name in names]
        around += [one for one in constants if name_of(one.targets[0]) in names]
        parts = (node for one in around for node in ast.walk(one) if id(node) not in docstrings)
        remedy = WHOLE.search(text) and any(REMEDY.search(words(node)) for node in parts)
        wrong += [] if remedy or OTHERWISE.search(text) else [text]
    assert not wrong

"""The budget: what each room may hold, and the whole house.

`budget.json` has lines of code (no blank lines, comments and docstrings), files, and arguments
without a type of every room, and the words of the pages of docs. A change that needs more of them
raises a number by hand, and writes the reason under "reasons". Nothing raises what the whole
package may have, which is under "most". Run this file to lower the numbers to what there is: it
never raises one.
"""

import ast
import io
import json
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.second  # rules about text
ROOT = Path(__file__).parents[2]
BUDGET = Path(__file__).with_name("budget.json")
KINDS = "files", "lines_of_code", "untyped_arguments", "words"
WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
NO_CODE += (tokenize.ENCODING, tokenize.ENDMARKER)


def lines_of_code(text):
    """Lines of a source that are neither blank nor comments nor docstrings."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, WITH_DOCSTRINGS) and ast.get_docstring(node) is not None:
            lines.difference_update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def untyped_arguments(text):
    """How many arguments of functions have no type; `self` and `cls` need none."""
    count = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            named = [one for one in every if one is not None and one.arg not in ("self", "cls")]
            count += sum(one.annotation is None for one in named)
    return count


def measured():
    """The numbers of today, by kind and room."""
    kinds = {"lines_of_code": Counter(), "files": Counter(), "untyped_arguments": Counter()}
    for path in sorted((ROOT / "skgp_sparse").rglob("*.py")):
        parts = path.relative_to(ROOT / "skgp_sparse").parts
        room, text = parts[0] if len(parts) > 1 else "top", path.read_text(encoding="utf-8")
        kinds["files"][room] += 1
        kinds["lines_of_code"][room] += lines_of_code(text)
        kinds["untyped_arguments"][room] += untyped_arguments(text)
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "results" not in path.parts]
    words = sum(len(re.findall(r"\S+", page.read_text(encoding="utf-8"))) for page in pages)
    return {kind: dict(rooms) for kind, rooms in kinds.items()} | {"words": {"docs": words}}


def over_budget(now, budget):
    """What is more than it may be, of rooms and of the whole package."""
    limits = [(kind, room, count) for kind, rooms in now.items() for room, count in rooms.items()]
    over = [
        f"{kind} of {room}: {count}, at most {budget[kind].get(room, 0)}"
        for kind, room, count in limits
        if count > budget[kind].get(room, 0)
    ]
    totals = {kind: sum(now[kind].values()) for kind in budget["most"]}
    return over + [
        f"{kind} of all rooms: {count}, at most {budget['most'][kind]}"
        for kind, count in totals.items()
        if count > budget["most"][kind]
    ]


def lowered(now, budget):
    """The budget, with the numbers of today where they are lower, and without rooms that left."""
    lower = {
        kind: {room: min(count, budget[kind].get(room, 0)) for room, count in rooms.items()}
        for kind, rooms in now.items()
    }
    return lower | {key: budget[key] for key in ("most", "reasons")}


def test_the_house_is_within_its_budget():
    over = over_budget(measured(), json.loads(BUDGET.read_text(encoding="utf-8")))
    remedy = "Make it shorter, or raise the number in budget.json and write the reason beside it."
    assert not over, f"{over}. {remedy}"


def test_every_reason_names_a_number_of_the_budget():
    budget = json.loads(BUDGET.read_text(encoding="utf-8"))
    named = {f"{kind} of {room}" for kind in KINDS for room in budget[kind]}
    assert budget["reasons"].keys() <= named
    assert all(len(reason.split()) >= 3 for reason in budget["reasons"].values())


def test_the_counters_count():
    text = '"""Text."""\n\n# comment\ndef f(a, b: int, *c):\n    """More."""\n'
    text += "    return [\n        a,\n    ]\n"
    assert lines_of_code(text) == 4 and untyped_arguments(text) == 2


def test_a_budget_is_only_lowered():
    rest = {"most": {"files": 7}, "reasons": {}}
    budget = {"files": {"a": 3, "b": 2, "gone": 1}} | rest
    now = {"files": {"a": 2, "b": 5, "new": 1}}
    over = ["files of b: 5, at most 2", "files of new: 1, at most 0"]
    assert over_budget(now, budget) == [*over, "files of all rooms: 8, at most 7"]
    assert lowered(now, budget) == {"files": {"a": 2, "b": 2, "new": 0}} | rest


if __name__ == "__main__":
    numbers = lowered(measured(), json.loads(BUDGET.read_text(encoding="utf-8")))
    BUDGET.write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for kind in KINDS:
        print(kind, sum(numbers[kind].values()))

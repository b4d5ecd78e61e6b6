"""Write messages.md, the page of all errors and warnings, from the source of the package.

``python docs/make_messages.py`` rewrites the page; with ``--check`` it fails if the page is out of
date. A message is the text of an error that is raised, or of a warning. Formatted strings become
templates such as ``{name}: alpha must be ...``; a placeholder that stands for sentences of the
package, such as ``{reason}``, is listed with all of them.
"""

import argparse
import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "skgp_sparse"
PAGE = ROOT / "docs" / "messages.md"
COMMAND = "python docs/make_messages.py"

HEAD = """# Messages

This page lists every error and every warning of skgp-sparse. The words of a message say its cause,
and the line below them says what to do about it. Search the page for some words of the message that
you see. Names and numbers of your own stand in the place of words in braces, such as `{name}`,
which is the name of the estimator or of the method.

Errors of NumPy, SciPy, scikit-learn and other packages may pass through, and are not here. Each
message says its type, and the file of the package that it comes from.
"""

SECTIONS = {  # title: how the paths of its files begin
    "Files, pickles and ONNX": ("_safeguards", "onnx/", "sources", "_engine/visited_rows"),
    "Streams and clusters": ("dask/", "rows/chunks", "rows/survey", "families/labels"),
    "Kernels": ("kernels/", "_engine/fourier", "families/default_kernels"),
    "Likelihoods": ("likelihoods/",),
    "Parameters": ("families/choices", "families/parameter_checks", "posteriors/", "solvers"),
    "Tables of rows": ("rows/", "_typed_inputs", "_ground/sklearn_compat", "_engine/moments"),
    "Fits": ("inference/", "_ground/", "families/varying_noise", "families/gaussian_noise"),
    "Scores and drawings": ("metrics", "displays/"),
    "Fitted estimators and predictions": ("",),
}
ORDER = (
    "Parameters",
    "Tables of rows",
    "Kernels",
    "Likelihoods",
    "Fits",
    "Fitted estimators and predictions",
    "Streams and clusters",
    "Files, pickles and ONNX",
    "Scores and drawings",
    "Warnings",
)
HOLES = {  # words for expressions, in place of the names that they are made of
    "' and '.join(passed)": "arguments",
    "', '.join(unused)": "arguments",
    "self": "kernel",
    "d": "number",
    "p": "number",
    "len(column)": "number of rows",
    "2 * len(terms)": "twice as many",
    "2 * n_frequencies": "n_components",
    "__version__": "its version",
    "error.allowed_failures + 1": "number",
    "list(map(str, self.classes))": "classes",
    "list(range(expected))": "as many numbers",
    "np.size(self.positions)": "as many",
    "np.size(value)": "number",
    "self._names()[column]": "column",
    "self.names[j]": "column",
    "self.kinds[j]": "kind in fit",
    "names[j]": "column",
    "shape[1]": "number",
    "sum(sizes)": "number of rows",
    "X.shape": "shape of X",
    "Z.shape[1]": "number",
    "len(X)": "number of rows",
    "len(y)": "number of rows",
    "len(columns['y'])": "number of rows",
    "['gaussian', *likelihoods.BY_NAME]": "names of likelihoods",
    "sorted(BOUNDS)": "names of bounds",
    "sorted(BY_NAME)": "names of posteriors",
}
REMEDIES = {  # of messages that say it otherwise, many of them in the words of scikit-learn
    "Predicted variances smaller": "Nothing, if they are few: these are rounding errors.",
    "Gradient can only be evaluated for theta": "Pass theta, or set eval_gradient to False.",
    "Gradient can only be evaluated when Y": "Leave Y out, or set eval_gradient to False.",
    "theta must hold": "Pass as many numbers as kernel_.theta has.",
    "A product needs a C-ordered": "Please report it: no user calls this.",
    "X must have {expected} columns": "Pass the columns of fit.",
    "y_std must be positive": "Pass standard deviations, not variances or errors.",
    "is defined for Gaussian noise only": "Set bound to one of these.",
    "is close to the specified": "Widen the bounds of this hyperparameter, and call fit again.",
    "requires 2 or more distinct classes": "Pass rows, or a list of classes, of at least two.",
    "Multiple optimizer restarts": "Set finite bounds, or n_restarts_optimizer to 0.",
    "X must have a column for each": "Pass positions, such as those that transform returns.",
    "so that the fit goes on": "Nothing, if predictions are good. Otherwise, do as its end says.",
    "Categorical needs n_levels=": "Set the parameter that is none of these.",
    "All observations are 0": "Nothing, if y is right.",
    "y_train must have different": "Pass the targets of all training rows.",
    "must have a row of quantiles": "Pass the array that predict_quantiles returns for these rows.",
    "must have the same shape": "Pass arrays of one shape.",
    "lower must not be above": "Swap them, or remove the row.",
    "At most one of return_std": "Ask for one of them.",
    "different from the parameter `n_targets`": "Set n_targets to the number of columns of y.",
    "must have a standard deviation for each": "Pass an array of the shape of X.",
    "must have as many columns": "Pass a column for each target.",
    "Found array with 0 sample": "Pass at least one row.",
    "complex numbers are no levels": "Convert the column, for example by astype(str).",
    "lists and tuples are no levels": "Convert the column, for example by astype(str).",
    "the levels in fit were": "Convert the column to the type that it had in fit.",
    "must return (theta, value)": "Return both from the callable.",
    "must be or return an array": "Pass such an array, or return it from the callable.",
    "noise of Missing must be": "Set it to one of these.",
    "hyperparameters of a kernel must be": "Set those of the kernel to such numbers.",
    "must be a dask array": "Pass X as one of these.",
    "must be a dask collection or": "Pass one of these.",
    "alpha must be a scalar": "Set it to the noise of the rows of this call.",
    "offset must be numbers": "Pass one number, or one for each row.",
    "arrays must have as many rows": "Pass arrays of one length.",
    "whose optimiser told its progress": "Call fit with an optimizer and n_jobs=None.",
    "return_gradient goes with return_std": "Leave these out.",
    "The sites did not converge in {n_iter}": "The last sentence of the message says it.",
    "groups of {name} must be": "Pass as many groups as rows.",
    "A chunk must be a tuple": "Return or yield such tuples.",
    "coverage must be between": "Set coverage to a number such as 0.9.",
    "{name} of Missing must be": "Set it to one number, or to one for each of these columns.",
}
IMPERATIVES = (
    "Add Call Change Check Choose Convert Create Draw Encode Fit Give Impute Install Judge Leave "
    "Lower Make Name Pass Persist Put Raise Remove Replace Rescale Return Set Shift Subtract Try "
    "Use Wait"
).split() + ["First set"]
PASSED = {"during", "failure", "remedy", "what", "words"}  # parameters that are given sentences
LAST = {"must"}  # variables that are assigned anew before each use
CHECKS = {"check_number", "require"}  # functions that make an error of what they are given
NOT_NAMED = {"UncertainInputs"}  # a strategy that no user names: what it refuses is said elsewhere
FEWEST_WORDS = 3  # of what is listed under a message, and not beside others in its line


class Text(NamedTuple):
    """A template, whose placeholders are in braces."""

    words: str
    parts: tuple = ()  # of pairs: a placeholder, and the `Text`s that it may stand for


class Message(NamedTuple):
    """What a user can see."""

    text: Text
    kind: str  # the type of the error or warning
    room: str  # the file, from the folder of the package on


class Place(NamedTuple):
    """Where a node of a module is."""

    module: str
    owner: str = ""  # the class
    functions: tuple = ()  # the innermost last
    asked: tuple = ()  # functions and names that led here


class Source:
    """All modules: their nodes, and what is called and defined in them, by name."""

    def __init__(self):
        self.nodes, self.calls, self.functions, self.constants = [], {}, {}, {}
        for path in sorted(PACKAGE.rglob("*.py")):
            room = path.relative_to(PACKAGE).as_posix()
            if not room.startswith("testing/"):
                self._enter(ast.parse(path.read_text(encoding="utf-8")), Place(room))

    def _enter(self, node, place):
        self.nodes.append((node, place))
        if isinstance(node, ast.ClassDef):
            place = place._replace(owner=node.name)
        if isinstance(node, ast.FunctionDef):
            self.functions.setdefault(node.name, []).append((node, place))
            place = place._replace(functions=(*place.functions, node))
        if isinstance(node, ast.Call):
            self.calls.setdefault(name_of(node.func), []).append((node, place))
        if isinstance(node, ast.Assign | ast.AnnAssign) and not place.functions:
            for name, value in assigned(node):
                if re.fullmatch("[A-Z_]+", name):
                    self.constants.setdefault(name, []).append((value, place))
        for child in ast.iter_child_nodes(node):
            self._enter(child, place)


def name_of(node):
    """The last name of a dotted expression."""
    return getattr(node, "attr", getattr(node, "id", ""))


def assigned(node):
    """Pairs of a name and the expression that it is assigned."""
    for target in getattr(node, "targets", None) or [node.target]:
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(target.elts, node.value.elts)
        for one, value in pairs:
            if isinstance(one, ast.Name) and value is not None:
                yield one.id, value


def values_of(function, name):
    """The expressions that a variable of a function is assigned."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.AnnAssign)]
    return [value for node in nodes for target, value in assigned(node) if target == name]


# -- what an expression may say --------------------------------------------------------


def texts(source, node, place):
    """The `Text`s that an expression may stand for; none if it is no text of the package."""
    if isinstance(node, ast.Constant):
        return [Text(node.value)] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return [joined([piece(source, value, place) for value in node.values])]
    if isinstance(node, ast.IfExp | ast.BoolOp):
        branches = getattr(node, "values", None) or [node.body, node.orelse]
        return unique(one for branch in branches for one in texts(source, branch, place))
    if isinstance(node, ast.Name) or name_of(node).isupper():
        return unique(of_name(source, node, place))
    if isinstance(node, ast.Subscript):
        return unique(of_table(source, node, place))
    if isinstance(node, ast.Attribute) and name_of(node.value) == "domain":
        return of_domains(source, node.attr)
    if isinstance(node, ast.Call) and name_of(node.func) == "rstrip":
        return texts(source, node.func.value, place)
    if isinstance(node, ast.Call):
        return unique(of_call(source, node.func, place))
    return []


def unique(found):
    """Those that say something, each once."""
    return list(dict.fromkeys(text for text in found if text.words))


def joined(pieces):
    """One `Text` of several."""
    return Text("".join(one.words for one in pieces), sum((one.parts for one in pieces), ()))


def piece(source, node, place):
    """The `Text` of a constant, or of a formatted value, of a formatted string."""
    if isinstance(node, ast.Constant):
        return Text(node.value)
    value = node.value
    hole = Text(f"{{{placeholder(value)}}}")
    if isinstance(value, ast.IfExp | ast.BoolOp):
        branches = getattr(value, "values", None) or [value.body, value.orelse]
        if not all(is_text(branch) or texts(source, branch, place) for branch in branches):
            return hole
    found = texts(source, value, place)
    if not found:
        return hole
    if len(found) == 1:
        return found[0]
    if max(len(one.words.split()) for one in found) < FEWEST_WORDS:
        return Text(f"{{{' / '.join(one.words.strip('{}') for one in found)}}}")
    return Text(hole.words, ((placeholder(value), tuple(found)),))


def is_text(node):
    """Whether an expression is a text, which may be empty."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def of_name(source, node, place):
    """What a name stands for: a variable, what a function was given, or a constant."""
    name = name_of(node)
    if name in place.asked:
        return []
    inside = place._replace(asked=(*place.asked, name))
    for function in reversed(place.functions):
        found = values_of(function, name)
        if found and name in LAST:
            before = [value for value in found if value.lineno < node.lineno]
            found = [max(before, key=lambda value: value.lineno)]
        if found:
            return [one for value in found for one in texts(source, value, inside)]
        if name in [one.arg for one in function.args.args]:
            return of_parameter(source, function, name)
    constants = source.constants.get(name, ())
    own = [one for one in constants if one[1].module == place.module] or constants
    return [one for value, where in own for one in texts(source, value, where)]


def of_parameter(source, function, name):
    """What the callers of a function pass as a parameter, in whose name it may be passed on."""
    if name not in PASSED:
        return []
    parameters, defaults = [one.arg for one in function.args.args], function.args.defaults
    index = parameters.index(name)
    default = len(defaults) - len(parameters) + index
    found = [(defaults[default], Place(""))] if default >= 0 else []
    index -= parameters[0] == "self"
    for call, place in source.calls.get(function.name, ()):
        keywords = [keyword.value for keyword in call.keywords if keyword.arg == name]
        found += [(value, place) for value in keywords or call.args[index : index + 1]]
    if default >= 0:
        calls = sum(source.calls.values(), [])
        found += [(k.value, at) for call, at in calls for k in call.keywords if k.arg == name]
    return [one for value, place in found for one in texts(source, value, place)]


def of_call(source, called, place):
    """What the functions of a name return, of one class where it is known."""
    name, owner = name_of(called), None
    if name in place.asked:
        return
    if isinstance(called, ast.Attribute) and place.functions:
        made = values_of(place.functions[-1], name_of(called.value))
        made = [name_of(one.func) for one in made if isinstance(one, ast.Call)]
        owner = made[0] if len(made) == 1 and made[0][:1].isupper() else None
    for function, where in source.functions.get(name, ()):
        if where.owner == owner or (owner is None and where.owner not in NOT_NAMED):
            functions, asked = (*where.functions, function), (*place.asked, name)
            inside = where._replace(functions=functions, asked=asked)
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and node.value is not None:
                    yield from texts(source, node.value, inside)


def of_table(source, node, place):
    """The values of a dict, one of which an expression chooses."""
    name = name_of(node.value)
    tables = [value for value, _ in source.constants.get(name, ())]
    tables += [value for function in place.functions for value in values_of(function, name)]
    values = [value for table in tables if isinstance(table, ast.Dict) for value in table.values]
    return [one for value in values for one in texts(source, value, place)]


def of_domains(source, field):
    """The words or the remedies of the domains of likelihoods."""
    found = []
    for call, place in source.calls.get("Domain", ()):
        values = [one.value for one in call.keywords if one.arg == field]
        values = values or (call.args[:1] if field == "words" else [])
        found += [one for value in values for one in texts(source, value, place)]
    return unique(found)


def placeholder(node):
    """A short name for the value of an expression."""
    if ast.unparse(node) in HOLES:
        return HOLES[ast.unparse(node)]
    if isinstance(node, ast.Name):
        return node.id.strip("_").lower()
    if isinstance(node, ast.BinOp) and isinstance(getattr(node.right, "value", None), int):
        sign = {ast.Add: "+", ast.Sub: "-"}.get(type(node.op))
        return f"{placeholder(node.left)} {sign} {node.right.value}"
    if isinstance(node, ast.Attribute):
        if node.attr == "shape":
            return f"shape of {placeholder(node.value)}"
        is_type = isinstance(node.value, ast.Call) and name_of(node.value.func) == "type"
        if node.attr == "__name__" and is_type:
            return "class" if name_of(node.value.args[0]) in {"self", "estimator"} else "type"
        return "name" if node.attr == "__name__" else node.attr.strip("_")
    if isinstance(node, ast.Call) and name_of(node.func) == "len":
        return f"number of {placeholder(node.args[0])}"
    if isinstance(node, ast.Call):
        return placeholder(getattr(node.func, "value", None) or node.args[0])
    children = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
    return placeholder(children[0]) if children else "value"


# -- all messages ----------------------------------------------------------------------


def collect():
    """Every `Message` of the package, in the order of the files; the same from a file is one."""
    source, found = Source(), {}
    for node, place in source.nodes:
        for kind, text in said(source, node, place):
            if re.search("[A-Za-z]{3}", literal(text.words)) or text.parts:
                key = text.words, kind, place.module
                found[key] = merged(found.get(key, ()), text.parts)
    return [Message(Text(key[0], parts), *key[1:]) for key, parts in found.items()]


def merged(parts, others):
    """The parts of two texts of the same words."""
    table = {hole: list(some) for hole, some in parts}
    for hole, some in others:
        table[hole] = list(dict.fromkeys([*table.get(hole, []), *some]))
    return tuple((hole, tuple(some)) for hole, some in table.items())


def literal(words):
    """A template without its placeholders."""
    return re.sub(r"\{[^{}]*\}", "", words)


def said(source, node, place):
    """Pairs of a type and a `Text` of an error or a warning that a node makes."""
    inside = {function.name for function in place.functions}
    made = getattr(node, "exc", None) if isinstance(node, ast.Raise) else None
    made = node.value if isinstance(node, ast.Return) else made
    kind = name_of(made.func) if isinstance(made, ast.Call) and made.args else ""
    if kind.endswith("Error") and kind != "AssertionError" and not inside & CHECKS:
        for text in texts(source, made.args[0], place):
            yield kind, text
    called = name_of(node.func) if isinstance(node, ast.Call) else ""
    if called == "warn" and "warn" not in inside:
        kind = name_of(node.args[1]) if len(node.args) > 1 else "UserWarning"
        for text in texts(source, node.args[0], place):
            yield kind, text
    if called in CHECKS and not inside & CHECKS:
        yield "ValueError", checked(source, node, place)


def checked(source, node, place):
    """What `require` and `check_number` say of a parameter."""
    parameter = piece(source, ast.FormattedValue(node.args[1], -1), place)
    parameter = Text(node.args[1].value) if is_text(node.args[1]) else parameter
    begin = Text(f"The '{parameter.words}' parameter of {{name}} must be ")
    must = Text(in_range(node))
    if name_of(node.func) == "require":
        must = piece(source, ast.FormattedValue(node.args[4], -1), place)
        must = Text(node.args[4].value) if is_text(node.args[4]) else must
    return joined([begin, must, Text(". Got {value} instead.")])


def in_range(node):
    """The numbers that `check_number` takes."""
    given = dict(zip(("value", "parameter", "name", "kind", "low", "high"), node.args))
    given |= {keyword.arg: keyword.value for keyword in node.keywords}
    if "kind" not in given:
        return ""
    ends = [given.get("low"), given.get("high", ast.Constant("inf"))]
    low, high = (str(one.value) if isinstance(one, ast.Constant) else "{low}" for one in ends)
    noun = "an int" if name_of(given["kind"]) == "Integral" else "a float"
    return f"{noun} in the range [{low}, {high}{')' if high == 'inf' else ']'}"


# -- the page --------------------------------------------------------------------------


def split(words):
    """Cause and remedy of a template: the remedy begins with the first imperative sentence."""
    sentences = re.split(r"(?<=[.!?)}]) (?=[A-Z{])", words)
    imperative = rf"((For|Otherwise)\b[^,.]*, )?({'|'.join(IMPERATIVES)})\b"
    for k, sentence in enumerate(sentences):
        if k and re.match(imperative, sentence, flags=re.IGNORECASE):
            return " ".join(sentences[:k]), " ".join(sentences[k:])
    return words, derived(words)


def derived(words):
    """The remedy of a template that says what a parameter must be, or one of `REMEDIES`."""
    for part, remedy in REMEDIES.items():
        if part in words:
            return remedy
    found = re.match(r"(?:The )?(?:\S+: )?(.+?)(?: parameter of .*?)? must be (.+?)\.( |$)", words)
    return f"Set {found[1]} to {found[2]}." if found else ""


def remedy_of(message):
    """What to do, or which list of the entry says it."""
    remedy = split(message.text.words)[1]
    for hole, found in message.text.parts if not remedy else ():
        if any(split(f"It failed. {one.words}")[1] for one in found):
            return f"The last sentence of `{{{hole}}}` says it."
    return remedy


def section_of(message):
    """The title of the section that a message belongs to."""
    if message.kind.endswith("Warning"):
        return "Warnings"
    found = (title for title, begins in SECTIONS.items() if message.room.startswith(begins))
    return next(found)


def span(words):
    """Code of Markdown, whatever it contains."""
    return f"`` {words} ``" if "`" in words else f"`{words}`"


def entry(message):
    """The lines of a message: what it says, what to do, its type and file, and its parts."""
    cause = split(message.text.words)[0]
    yield f"- {span(cause)}<br> {remedy_of(message)} *({message.kind}, {message.room})*"
    for hole, found in message.text.parts:
        yield from (f"  - `{{{hole}}}`: {span(one.words.strip())}" for one in found)


def page(messages):
    """The whole page."""
    lines = [HEAD]
    for title in ORDER:
        own = [message for message in messages if section_of(message) == title]
        own.sort(key=lambda message: (message.room, message.text.words))
        lines += [f"## {title}", "", *(line for one in own for line in entry(one)), ""]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments=None):
    """Write the page, or check that it is what would be written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if the page is out of date")
    check, text = parser.parse_args(arguments).check, page(collect())
    if check and (not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text):
        sys.exit(f"{PAGE.name} is out of date. Run {COMMAND}.")
    if not check:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Sentences that state a number of `plan.py` state the one of today.

`SENTENCES` has a part of every sentence with the constant in the place of its number. If the
constant changes, the sentence is no longer on its page, and if a page states a number of the plan
in another sentence, it is not in the table. What happens to be such a number is under `OTHERS`.
"""

import ast
import re
from functools import cache

import pytest
from test_contributing import ROOT, resolve, syntax

from skgp_sparse.choices import plan

pytestmark = pytest.mark.second  # rules about text
SENTENCES = {
    "README.md": [
        "Above {plan.EXACT_ROWS} rows, it uses the nearest rows",
        "exact process up to {plan.EXACT_RIVAL} rows, and above more inducing points",
    ],
    "CONTRIBUTING.md": [
        "evidence of at most {initial_values._ROWS} rows is highest",
        "draws {plan.START_ROWS} rows by",
    ],
    "SECURITY.md": ["up to {leave_one_out._MOST_ROWS} scores of rows"],
    "docs/choose.md": ["up to {plan.EXACT_ROWS} rows of numbers and a kernel of your own"],
    "docs/differences.md": ["each a fit to {plan.START_ROWS} rows, before the fit to all"],
    "docs/maths.md": [
        "where at most {site_loop.FEW_ROWS} rows have one latent value each",
        "evidence of at most {initial_values._ROWS} rows, with noise",
        "An exact fit to {plan.START_ROWS} rows follows",
        "three nats of evidence on {plan.START_ROWS} rows",
        "Predictions of at most {mean._ROWS} rows that are left out",
        "Of n < {plan.ROWS_OF_A_MEAN} rows, these four numbers are {plan.ROWS_OF_A_MEAN} / n",
        "a global process** of {selection._FEW_POINTS} inducing points",
        "of at most {neighbors._LEFT_OUT} random rows",
    ],
    "docs/guide/inducing_points.md": [
        "regression | up to {plan.EXACT_ROWS} distinct rows | 100 to {plan.POINTS} inducing points",
        "up to {plan.EXACT_QUIET} distinct rows | 100 to {plan.POINTS} inducing points",
        "up to {plan.EXACT_LABELS} distinct rows | {plan.POINTS_OF_LABELS} inducing points",
        "if a first fit to {plan.START_ROWS} rows estimates it",
        "Of 100 to {plan.POINTS} points",
    ],
    "docs/guide/labels.md": [
        "the {neighbors.FEW} training rows that are nearest",
        "Above {plan.EXACT_ROWS} rows, `posterior",
    ],
    "docs/guide/mean.md": ["from {plan.ROWS_OF_A_MEAN} different rows on"],
    "docs/guide/new_places.md": [
        "Up to {plan.EXACT_ROWS} rows, the exact process answers",
        "a global process of {selection._FEW_POINTS} inducing points",
    ],
    "docs/guide/noise_and_weights.md": [
        "by default from {plan.ROWS_OF_NOISE} rows on",
        "The fit has inducing points, {plan.POINTS_OF_UNCERTAIN_INPUTS} unless",
    ],
    "docs/guide/posterior.md": [
        "exact process for up to {plan.EXACT_ROWS} distinct rows",
        "up to {plan.EXACT_LABELS} rows, and inducing points from there up to {plan.EXACT_ROWS}",
        "up to {plan.EXACT_FAR} rows and inducing points above",
        "(a fifth with a likelihood), at most {contract._MOST_ROWS}",
        "a global process of {selection._FEW_POINTS} inducing points",
        "exact process for up to {plan.EXACT_RIVAL} rows",
        "random rows that speed up the solve ({exact._LEADING_ROWS} by default)",
    ],
    "docs/guide/saving.md": ["the scores of at most {leave_one_out._MOST_ROWS} rows"],
    "docs/guide/tables.md": ["(above {plan.EXACT_ROWS} rows with Gaussian noise)"],
    "skgp_sparse/classification.py": [
        "{plan.ROWS_OF_A_MEAN} different rows and no approximation named",
        '"inducing" up to {plan.EXACT_ROWS} distinct ones',
        "up to {plan.EXACT_LABELS} distinct rows, and {plan.POINTS_OF_LABELS} for more",
    ],
    "skgp_sparse/inference/contracts.py": ["over at most {objectives._FEW_ROWS} rows"],
    "skgp_sparse/methods/contract.py": ["50 distinct rows are at most {plan.EXACT_ROWS}"],
    "skgp_sparse/regression.py": [
        "{plan.ROWS_OF_A_MEAN} different rows, and neither kernel",
        '("exact" up to {plan.EXACT_RIVAL} rows, then "inducing")',
        "exact for up to {plan.EXACT_ROWS} distinct rows ({plan.EXACT_QUIET} with little noise",
        "{plan.EXACT_OPAQUE} for kernels without a derivative rule",
        "{plan.EXACT_LABELS} with a `likelihood`), and 100 to {plan.POINTS} for more",
        "({plan.POINTS_OF_LABELS} with a `likelihood`, {exact._LEADING_ROWS} with",
        'is "neighbors" up to {plan.EXACT_ROWS} rows then',
        "from {plan.ROWS_OF_NOISE} rows on, where",
        "(and {plan.ROWS_OF_FOLDS} different rows)",
        "has {plan.POINTS_OF_UNCERTAIN_INPUTS} inducing points unless",
        "of all rows, or of {leave_one_out._MOST_ROWS} random ones",
    ],
    "skgp_sparse/steps/initial_values.py": ["At most {initial_values._ROWS} rows in the middle"],
}
OTHERS = {
    "README.md": ["500 to 2000 rows take 0.01 to 0.28 of its time"],
    "docs/choose.md": [".01 to .28 of the time at 500 to 2000 rows"],
    "docs/guide/inducing_points.md": [
        "learns hyperparameters and 500 inducing points",
        "With 3000 rows and 100 inducing points, an earlier version",
    ],
    "docs/guide/saving.md": ["32 MB for 2000 rows"],
    "docs/guide/troubleshooting.md": ["without noise, 5000 to 10000 rows"],
    "skgp_sparse/posteriors.py": ["InducingPoints(n_mean=2000)"],
}
COUNTED = r" ((inducing|training|distinct|different|random|held-out|these) )?(rows|points)\b"


def numbers():
    """Whole numbers of the plan, but for those of which texts have many."""
    found = {value for name, value in vars(plan).items() if name.isupper() and type(value) is int}
    return {value for value in found if value >= 100}


def prose(text):
    """A text on one line, without code and without commas in numbers."""
    text = re.sub(r"^```.*?^```|^\s*(>>>|\.\.\.) .*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return " ".join(re.sub(r"(?<=\d),(?=\d{3})", "", text).split())


@cache
def texts():
    """{page or module: its sentences}."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guide/*.md")]
    found = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in pages}
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef
    for path, nodes in syntax().items():
        docstrings = (ast.get_docstring(node) for node in nodes if isinstance(node, kinds))
        found[path] = "\n".join(text for text in docstrings if text)
    return {path: prose(text) for path, text in found.items() if path != "CHANGELOG.md"}


def stated():
    """Of each page, the parts of its sentences with the numbers of today."""
    today = {
        page: [re.sub(r"\{(.*?)\}", lambda name: str(resolve(name[1])), part) for part in parts]
        for page, parts in SENTENCES.items()
    }
    return {page: today.get(page, []) + OTHERS.get(page, []) for page in texts()}


def lost():
    """Sentences that are not on their pages."""
    pairs = [(page, part) for page, parts in stated().items() for part in parts]
    return [f"{page}: {part}" for page, part in pairs if part not in texts()[page]]


def unlisted(page, text):
    """Where a text states a number of the plan in a sentence that is not in the tables."""
    for part in sorted(stated()[page], key=len, reverse=True):
        text = text.replace(part, "")
    hits = re.finditer(r"(?<![\d.])\d+(?![\d]|\.\d)", text)
    near = [(int(hit[0]), text[hit.start() - 40 : hit.end() + 40], hit.end()) for hit in hits]
    return [
        f"{page}: {around}"
        for value, around, end in near
        if value in numbers() and (value >= 2000 or re.match(COUNTED, text[end:]))
    ]


def test_sentences_state_the_numbers_of_the_plan():
    assert not SENTENCES.keys() - texts().keys() and not OTHERS.keys() - texts().keys()
    assert not lost()


def test_no_other_sentence_states_one():
    assert not [line for page, text in texts().items() for line in unlisted(page, text)]


def test_a_number_that_changes_is_found(monkeypatch):
    monkeypatch.setattr(plan, "EXACT_ROWS", 1700)
    pages = {line.split(":")[0] for line in lost()}
    assert {"README.md", "docs/guide/posterior.md", "skgp_sparse/regression.py"} <= pages


def test_a_sentence_that_is_not_in_the_table_is_found():
    text = (
        "Fits to 1,000 rows are quick. Up to 2,000, 250 times is enough; 500 distinct rows start."
    )
    assert len(unlisted("docs/choose.md", prose(text))) == 2

"""The user guide and README: blocks run, pages are short, and links lead somewhere."""

import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import ROOT

from skgp_sparse import SparseGPRegressor

pytestmark = pytest.mark.second  # pages and their blocks
GUIDE = ROOT / "docs" / "guide"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(GUIDE.glob("*.md"))}
BLOCK = re.compile(r"(?:<!-- not run: (.+?) -->\n)?```python\n(.*?)```", flags=re.DOTALL)
FENCE = re.compile(r"^```.*?^```", flags=re.DOTALL | re.MULTILINE)
README = (ROOT / "README.md").read_text(encoding="utf-8")
FEWER_ROWS = {  # of the tables of some blocks, which run in seconds then
    "make_friedman1(5000": "make_friedman1(600",
    "size=6000": "size=1500",
    "size=(6000": "size=(1500",
    "20_000": "4_000",
    "size=3000": "size=1000",
    "size=(3000": "size=(1000",
}
WITH_CODE = [page for page, text in PAGES.items() if "```python" in text] + ["README"]
MOST_WORDS = dict.fromkeys(PAGES, 1500) | {"extending": 2150}  # all recipes, with their code
NEEDED = {  # by what a block contains, the module that it needs
    "pandas": "pandas",
    "polars": "polars",
    "matplotlib": "matplotlib",
    "skgp_sparse.displays": "matplotlib",
    "set_callbacks": "sklearn.callback",
    "ProgressBar": "rich",
    "onnxruntime": "onnxruntime",
    "skl2onnx": "skl2onnx",
    "skgp_sparse.dask": "distributed",
}


@pytest.mark.parametrize("page", WITH_CODE)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    module = ModuleType(page)  # so that objects of its classes can be pickled
    monkeypatch.setitem(sys.modules, page, module)
    for reason, block in BLOCK.findall(PAGES.get(page, README)):
        if reason:
            continue
        for many, few in FEWER_ROWS.items():
            block = block.replace(many, few)
        for part, needed in NEEDED.items():
            if part in block:
                found = pytest.importorskip(needed)
                if needed == "matplotlib":
                    found.use("Agg")
        exec(compile(block, f"{page}.md", "exec"), vars(module))


@pytest.mark.parametrize("explained", ["shap", "its frames"])
def test_shap_explains_predictions_of_a_frame_with_text(explained):
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    X = pandas.DataFrame({"a": rng.normal(size=60), "place": rng.choice(["x", "y", "z"], 60)})
    model = SparseGPRegressor(random_state=0).fit(X, X.a + 2.0 * (X.place == "x"))
    background, rows, wanted = X[:20], X[20:23], model.predict(X[20:23])
    if explained == "its frames":  # those of objects, of which it makes its questions
        np.testing.assert_array_equal(model.predict(rows.astype(object)), wanted)
        return
    shap = pytest.importorskip("shap")
    line = re.search(r"`(shap\..+?)`", PAGES["explanations"])[1]
    values = eval(line, {"shap": shap, "model": model, "background": background, "rows": rows})
    np.testing.assert_allclose(values.sum(axis=1), wanted - model.predict(background).mean(), 1e-6)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 120


def test_few_blocks_do_not_run():
    reasons = [reason for text in PAGES.values() for reason, _ in BLOCK.findall(text) if reason]
    assert len(reasons) == sum(text.count("not run:") for text in PAGES.values()) <= 2


def test_pages_are_short():
    assert not [page for page, text in PAGES.items() if len(text.split()) > MOST_WORDS[page]]


def test_pages_have_one_title_and_begin_with_a_sentence():
    texts = {page: FENCE.sub("", text) for page, text in PAGES.items()}
    begin = {page for page, text in texts.items() if re.match(r"# .+\n\n[A-Z](.+\n)+\n", text)}
    titles = {page: re.findall("^# ", text, flags=re.MULTILINE) for page, text in texts.items()}
    assert not texts.keys() - begin
    assert not [page for page, found in titles.items() if len(found) != 1]


def test_the_index_has_every_page():
    (listed,) = re.findall(r"```\{toctree\}\n(?::.*\n)*\n(.*?)```", PAGES["index"], flags=re.DOTALL)
    others = set(PAGES) - {"index"}
    assert sorted(listed.split()) == sorted(others)
    assert all(f"]({page}.md)" in PAGES["index"] for page in others)


def anchors_of(text):
    """Anchors of the headings that get one from MyST, which makes them as GitHub does."""
    found, seen = [], Counter()
    for title in re.findall(r"^#{1,3} (.+)$", FENCE.sub("", text), flags=re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links_of(text):
    """Relative links of a page."""
    links = re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text))
    return [link for link in links if not re.match(r"[a-z]+:", link)]


def test_the_gallery_knows_the_place_of_every_example():
    order = (ROOT / "docs" / "conf.py").read_text().split("ORDER = (")[1].split(").split()")[0]
    names = {path.stem.removeprefix("plot_") for path in (ROOT / "examples").glob("*.py")}
    assert names <= {*re.findall(r"\w+", order.split("\n", 1)[1])}


def resolves(link, path):
    """Whether the page of a link exists, and its anchor on that page."""
    target, _, anchor = link.partition("#")
    if "gallery/" in target:  # whose pages are made of the examples
        target = f"{ROOT}/examples/{Path(target).stem}.py"
    other = (path.parent / target).resolve() if target else path
    if anchor and other.exists():
        return anchor in anchors_of(other.read_text(encoding="utf-8"))
    return other.exists()


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [(link, page) for page in pages for link in links_of(page.read_text(encoding="utf-8"))]
    assert len(links) > 100
    assert not [(page.name, link) for link, page in links if not resolves(link, page)]

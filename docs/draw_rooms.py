"""Draws the rooms of the package, floor by floor: images/rooms.png. Run it after FLOORS change."""

import ast
from pathlib import Path

import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent
WORDS = {
    "engine": "everything O(n)",
    "acquisition": "optimisation",
    "ground": "linear algebra, threads",
    "bounds": "objectives",
    "dask": "clusters",
    "displays": "pictures",
    "choices": "names become objects",
    "explain": "answers about a fit",
    "targets": "what targets are",
    "inference": "objectives, optimisers",
    "kernels": "values and pullbacks",
    "likelihoods": "noise",
    "metrics": "scores",
    "methods": "what predictions are given",
    "data": "what users pass",
    "steps": "before and after the search",
    "sources": "rows on disk",
}


def floors():
    """Sets of rooms from the ground up, as the tests know them."""
    tree = ast.parse(
        (ROOT / "tests" / "repository" / "test_architecture.py").read_text(encoding="utf-8")
    )
    (found,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "FLOORS"
    )
    return [sorted(rooms) for rooms in ast.literal_eval(found)]


def draw(levels):
    """A row of boxes for each floor; imports point downwards."""
    figure, ax = plt.subplots(figsize=(11, 7.5), layout="constrained")
    for level, rooms in enumerate(levels):
        width = 10.0 / len(rooms)
        for k, room in enumerate(rooms):
            colour = plt.get_cmap("Blues")(0.15 + 0.45 * level / len(levels))
            box = plt.Rectangle((k * width, level), width - 0.1, 0.85, color=colour)
            ax.add_patch(box)
            text = "\n".join(filter(None, [room or "skgp_sparse", WORDS.get(room, "")]))
            middle = (k + 0.5) * width - 0.05, level + 0.42
            ax.text(*middle, text, ha="center", va="center", fontsize=9)
    arrow = {"arrowstyle": "->", "color": "#d1495b", "lw": 2}
    ax.annotate("", (10.3, 0.2), (10.3, len(levels) - 0.3), arrowprops=arrow)
    ax.text(10.45, len(levels) / 2, "may import", rotation=-90, va="center", color="#d1495b")
    ax.set(xlim=(-0.1, 10.8), ylim=(-0.1, len(levels)))
    ax.axis("off")
    return figure


if __name__ == "__main__":
    draw(floors()).savefig(ROOT / "docs" / "images" / "rooms.png", dpi=100)

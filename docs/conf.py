"""Configuration of the documentation: ``sphinx-build -W docs docs/_build/html``."""

from skgp_sparse import __version__

project = "skgp-sparse"
author = "the skgp-sparse developers"
copyright = "2026, the skgp-sparse developers"
version = release = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
exclude_patterns = ["_build", "benchmarks/results"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
html_theme = "alabaster"
html_theme_options = {"description": project, "page_width": "1100px", "sidebar_width": "240px"}

"""Configuration of the documentation: ``sphinx-build -W docs docs/_build/html``.

Two variables of the environment are for those who publish it: SITE_ADDRESS, the address of the
site, by which a sitemap, previews of links and links to the references of other packages are made,
which needs a network, and WITHOUT_GALLERY, with which examples are shown, but not run.
"""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import nbformat

from skgp_sparse import __version__

project = "skgp-sparse"
author = "the skgp-sparse developers"
copyright = "2026, the skgp-sparse developers"
version = release = __version__

address = os.environ.get("SITE_ADDRESS", "")
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "jupyterlite_sphinx",
    "sphinxext.opengraph",
]
exclude_patterns = [
    "_build",
    "_contents",
    "_templates",
    "jupyterlite_contents",
    "sg_execution_times.rst",
]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]  # the gallery has functions among its options

if address:
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
default_role = "py:obj"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# -- the gallery ---------------------------------------------------------------------------------

is_run = "WITHOUT_GALLERY" not in os.environ


ORDER = (  # first what people do with their tables, then figures of the literature
    "quickstart terrain million_rows holes swap_gpr swap_gpc columns varying_noise counts "
    "quantiles outliers softmax average universal_kriging explanations thompson_sampling stream "
    "oil_flow grid_search_bounds grid_search_classifier all_rows decoupled bounds_1d banana "
    "approximations tighter_bound count_bounds one_site m_step natural_gradients"
).split()


def in_order(file):
    """The place of an example."""
    return ORDER.index(Path(file).stem.removeprefix("plot_"))


def with_package(notebook, _):
    """A notebook for the browser: it first installs the package, and goes to where data are."""
    lines = "%pip install -q skgp-sparse pandas matplotlib", "import os", 'os.chdir("/drive")'
    notebook["cells"].insert(0, nbformat.v4.new_code_cell("\n".join(lines)))


sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py" if is_run else "^$",
    "within_subsection_order": in_order,
    "doc_module": ("skgp_sparse",),
    "backreferences_dir": "gallery/backreferences",
    "reference_url": {"skgp_sparse": None},
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "remove_config_comments": True,
    "show_memory": False,
    "download_all_examples": False,
    "nested_sections": False,
    "jupyterlite": {"notebook_modification_function": with_package},
}
# what notebooks in the browser find beside them: a wheel of this version, and the data
lite = Path(__file__).parent / "_build" / "lite"
command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
subprocess.run([*command, "-w", lite / "pypi", ".."], cwd=Path(__file__).parent, check=True)
jupyterlite_dir = str(lite)
jupyterlite_contents = ["../examples/data"]
jupyterlite_silence = True
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# -- pages ---------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_baseurl = address
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_end": ["version-switcher", "theme-switcher"],
    "switcher": {"json_url": f"{address}/_static/versions.json", "version_match": version},
    "check_switcher": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "choose": [], "changelog": [], "benchmarks/README": []}
ogp_site_url = address or "/"
ogp_social_cards = {"enable": False}
ogp_image = "_images/quickstart.png"
ogp_description_length = 200
if address:
    extensions.append("sphinx_sitemap")
    sitemap_url_scheme = "{link}"

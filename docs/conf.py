"""How Sphinx builds the site: ``make docs``. Nothing here or in the pages needs a network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

from lyra_opt.core.version import VERSION

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "extensions"))
# Scenarios that pages run find what comes along, and no traces of whoever builds.
os.environ.pop("LYRA_OPT_TRACES", None)

project = "lyra-opt"
author = "The lyra-opt authors"
project_copyright = "2026, the lyra-opt authors"
version = release = VERSION

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_gallery.gen_gallery",
    "models_beside",
    "tree_links",
]
templates_path = ["templates"]
exclude_patterns = [
    "example_scheme",
    "gallery",
    "extensions",
    "templates",
    "papers/*/overview.md",
    "papers/rule.md",
    "**/README.md",
    "**/sg_execution_times.rst",
]

# Prose
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
pages_of_files = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "README.md": "index",
    **{
        file: f"problems/{page}"
        for problem in ("allocation", "heterogeneous", "network", "preemption", "reclaim")
        for file, page in (
            (f"lyra_opt/{problem}/README.md", problem),
            (f"formulations/{problem}/README.md", f"{problem}_mathematics"),
        )
    },
    "formulations/heterogeneous/shares/README.md": "problems/shares_mathematics",
}
"""Files of the tree, outside of this folder, that a page includes."""
models_of_files = {
    "formulations/allocation/README.md": ["formulations/allocation/pulp_model.py"],
    "formulations/heterogeneous/README.md": ["formulations/heterogeneous/model.py"],
    "formulations/heterogeneous/shares/README.md": ["lyra_opt/heterogeneous/exact/shares/data.py"],
    "formulations/network/README.md": [
        "formulations/network/tiers/model.py",
        "formulations/network/patterns/model.py",
    ],
    "formulations/preemption/README.md": ["formulations/preemption/model.py"],
    "formulations/reclaim/README.md": ["formulations/reclaim/pulp_model.py"],
}
"""Files whose code is shown below the formulas of a README; other backends have the same code."""
# TeX is inside of $...$ alone: elsewhere a dollar sign is a shell's. In \texttt a name may have \_.
mathjax3_config = {
    "loader": {"load": ["[tex]/textmacros"]},
    "tex": {"inlineMath": [["\\(", "\\)"]], "packages": {"[+]": ["textmacros"]}},
}
highlight_language = "none"
lexers["csv"] = TextLexer()
suppress_warnings = ["toc.not_included"]  # pages of a folder are reached from its first one

# Reference
autosummary_generate = sorted(str(page.relative_to(DOCS)) for page in DOCS.glob("api/*.md"))
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_validation_checks = {"PR02", "PR06", "SS05", "YD01"}
# These have no source of their own: values of enumerations, and what Hypothesis composes.
numpydoc_validation_exclude = {
    r"\.(Objective|Semantics|Status|StoppedBy)\b",
    r"^lyra_opt\.testing\.strategies\.",
}

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "_gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": "True",
    "write_computation_times": False,  # its table would ask a network for scripts
    "reset_modules": (),
    "image_scrapers": ("shown_pictures",),
    "ignore_repr_types": r"Figure",
}

# Pages
html_theme = "pydata_sphinx_theme"
html_title = "lyra-opt"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "lyra-opt"},
    "secondary_sidebar_items": {"[!_]**": ["page-toc"], "_gallery/**": []},
}

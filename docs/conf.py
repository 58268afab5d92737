"""Sphinx settings of the manual. `make docs` builds it; nothing is fetched from the network."""

from __future__ import annotations

import os

# Torch picks its threads when it is imported; a build needs none of them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import qrsc

project = "qrsc"
author = "the qrsc authors"
copyright = "the qrsc authors, Apache-2.0"  # Sphinx's own name for it
version = release = qrsc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["figures/*"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False  # several parameters that share a description stay on one line
napoleon_custom_sections = ["Convention"]
# Docstrings write code in single backticks.
default_role = "code"

html_theme = "furo"
html_title = f"qrsc {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sphinx = False
copybutton_exclude = ".linenos, .gp, .go"


def resolve_annotation(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.Node | None:
    """Link a type in a signature by its last name, or show it as plain text.

    Annotations name types of other packages and aliases that the reference does not list, and they name them as the
    module imports them. Everything that a page refers to by hand uses other roles (`obj`, `func`, `meth`) and stays
    strict.
    """
    if node.get("refdomain") != "py" or node.get("reftype") not in ("class", "exc"):
        return None
    name = str(node["reftarget"]).rsplit(".", 1)[-1]
    objects = env.domains["py"].data["objects"]
    found = [full for full in objects if full.startswith("qrsc") and full.rsplit(".", 1)[-1] == name]
    if len(found) != 1:
        return contnode
    domain = env.domains["py"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, contnode) or contnode


def setup(app: Sphinx) -> None:
    """Register what this file adds to Sphinx."""
    app.connect("missing-reference", resolve_annotation)

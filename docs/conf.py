"""Sphinx's settings for the site: `make docs` writes it to `build/site`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from triton_xe import __version__

project = "triton-xe"
author = "The triton-xe maintainers"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.intersphinx"]
exclude_patterns = ["_build"]
default_role = "code"
nitpicky = False
language = "en"
highlight_language = "none"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80

INVENTORIES = Path(__file__).parent / "inventories"
intersphinx_mapping = {
    name: (address, str(INVENTORIES / f"{name}.inv"))
    for name, address in {
        "torch": "https://pytorch.org/docs/stable/", "numpy": "https://numpy.org/doc/stable/",
        "triton": "https://triton-lang.org/main/", "python": "https://docs.python.org/3/",
    }.items() if (INVENTORIES / f"{name}.inv").exists()
}

html_theme = "pydata_sphinx_theme"
html_title = "triton-xe"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "icon_links": [{
        "name": "GitHub", "url": "https://github.com/triton-xe/triton-xe",
        "icon": "fa-brands fa-github",
    }],
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": True,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def as_rst(app, what, name, obj, options, lines) -> None:  # type: ignore[no-untyped-def]
    """Convert the Markdown that docstrings use to reStructuredText: code, lists, tables."""
    found: list[str] = []
    is_example = False
    for line in lines:
        is_example = bool(line) and (is_example or line.startswith(">>> "))
        before = next((each for each in reversed(found) if each), "")
        if line.startswith("|"):
            line = f"    {line}"
        if line.startswith("    ") and not is_example and not before.startswith(("    ", "- ")):
            found += ["::", ""]
        if line.startswith("- ") and found and found[-1] and not found[-1].startswith(("- ", "  ")):
            found.append("")
        found.append(line)
    lines[:] = found


def setup(app) -> None:  # type: ignore[no-untyped-def]
    app.connect("autodoc-process-docstring", as_rst)

"""How Sphinx builds the site from docs/: make docs."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

import decabench

ROOT = Path(__file__).resolve().parent.parent

project = "decabench"
author = "the decabench authors"
version = release = decabench.__version__

extensions = ["myst_nb"]
exclude_patterns = ["_build", "_static"]
nb_execution_mode = "off"  # notebooks are kept executed: make notebook
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = [
    "misc.highlighting_failure",  # shortened JSON and TOML, with … where something was left out
    "myst.header",  # some pages go from the title to sections of the third level
]
html_theme = "furo"
html_title = f"decabench {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False


def leave_the_site(app: Sphinx, page: str, source: list[str]) -> None:
    """Make links out of docs/ work in a site: what they lead to is copied beside the pages.

    A file is copied as it is, for a folder its README; without one, the text of the link alone stays.
    """
    folder, site = (Path(app.srcdir) / page).parent, Path(app.srcdir).resolve()

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        place = (folder / target).resolve()
        if place.is_relative_to(site):
            return match.group()
        if place.is_dir():
            place, target = place / "README.md", f"{target.rstrip('/')}/README.md"
        return f"[{text}](path:{target})" if place.exists() else text

    source[0] = re.sub(r"\[([^\]]+)\]\((\.\.?/[^)#]+)(?:#[^)]*)?\)", link, source[0])


def setup(app: Sphinx) -> None:
    """Hook into the reading of pages."""
    app.connect("source-read", leave_the_site)

"""How Sphinx builds the site from docs/: make docs."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path

from sphinx.application import Sphinx

import decabench

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
schemas = import_module("schemas")

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
        if place.is_relative_to(site) and not place.is_dir():
            return match.group()
        if place.is_dir():
            place, target = place / "README.md", f"{target.rstrip('/')}/README.md"
        return f"[{text}](path:{target})" if place.exists() else text

    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\(((?!\w+:)[^)#]+)(?:#[^)]*)?\)", link, source[0])


def describe_json(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the tables of documents to docs/json.md."""
    if page == "json":
        source[0] += "\n".join(schemas.tables())


def write_schema(app: Sphinx, error: Exception | None) -> None:
    """Write schemas.json next to the pages."""
    (Path(app.outdir) / "schemas.json").write_text(json.dumps(schemas.schema(), indent=1), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Hook into the reading of pages."""
    app.connect("source-read", leave_the_site)
    app.connect("source-read", describe_json)
    app.connect("build-finished", write_schema)

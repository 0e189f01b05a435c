"""Sphinx configuration: `make docs` builds the site from docs/."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

from sphinx.application import Sphinx

import decabench

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
doc_tables, schemas = import_module("doc_tables"), import_module("schemas")

PACKAGES = (
    *("decabench", "decabench.metrics", "decabench.tasks", "decabench.submission", "decabench.prompts"),
    *("decabench.scoring", "decabench.predictors", "decabench.runs", "decabench.exchange"),
    "decabench.leaderboard",
)
"""The packages whose public names the reference describes."""

project = "decabench"
author = copyright = "the decabench authors"
version = release = decabench.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_click",
]
exclude_patterns = ["_build", "_static"]
nb_execution_mode = "off"  # notebooks are committed with their outputs: make notebook
myst_heading_anchors = 4
myst_links_external_new_tab = False
autosummary_generate = False  # write_reference writes the pages, so that only public names have one
autodoc_typehints_format = "short"
default_role = "code"  # docstrings have `names` in single backquotes
intersphinx_mapping = {
    # Without a network, Sphinx uses the empty inventory, and pages have no links to other projects.
    name: (address, (None, "_static/empty.inv"))
    for name, address in {
        "python": "https://docs.python.org/3",
        "numpy": "https://numpy.org/doc/stable",
        "pandas": "https://pandas.pydata.org/docs",
    }.items()
}
intersphinx_timeout = 5
suppress_warnings = ["misc.highlighting_failure"]  # JSON and TOML examples that are shortened with …
html_theme = "furo"
html_title = f"decabench {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False


def complete_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Add generated tables to a page, and make its links to files outside docs/ work on the site.

    Linked files are copied next to the pages. A link to a folder becomes a link to its README, and any other link
    becomes plain text.
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

    text = doc_tables.filled(source[0]) + ("\n".join(schemas.tables()) if page == "json" else "")
    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\(((?!\w+:)[^)#]+)(?:#[^)]*)?\)", link, text)


def complete_docstring(
    app: Sphinx, kind: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Escape characters that are markup in reStructuredText but not in our docstrings."""
    if kind == "data" and inspect.getdoc(value) == inspect.getdoc(type(value)):
        lines.clear()  # without this, the page would show the docstring of the value's class, such as dict
    before = ""
    for line in lines[:]:
        parts = line.split("`")
        parts[::2] = [re.sub(r"[*|]|(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
        apart = bool(line and before) and indent_of(line) != indent_of(before) and before.lstrip()[:2] != "- "
        lines[:] = [*lines[1:], *[""] * apart, "`".join(parts)]
        before = line


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def write_reference(app: Sphinx) -> None:
    """Write a page for each of PACKAGES and for each of its public names."""
    folder = Path(app.srcdir) / "reference" / "python"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    homes: dict[int, str] = {}  # an object that several packages export has its page in the first package
    for package in map(import_module, PACKAGES):
        face, names = package.__name__, []
        for name in sorted(package.__all__, key=str.lower):
            value, full = getattr(package, name), f"{face}.{name}"
            home = homes.setdefault(id(value), full) if callable(value) else full
            names.append(name if home == full else home)
            if home == full:
                write_page(folder / f"{full}.rst", full, describe(value, full))
        table = "\n   ".join(names)
        write_page(
            folder / f"{face}.rst",
            face,
            f".. automodule:: {face}\n   :no-members:\n\n.. autosummary::\n   :nosignatures:\n\n   {table}",
        )


def describe(value: object, name: str) -> str:
    """Return the autodoc directive for an object."""
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, Exception) else "class"
        return f".. auto{kind}:: {name}\n   :members:\n   :member-order: bysource\n   :show-inheritance:"
    return f".. autofunction:: {name}" if inspect.isroutine(value) else f".. autodata:: {name}\n   :no-value:"


def write_page(path: Path, title: str, body: str) -> None:
    """Write a page that isn't in the sidebar. Tables of names link to it."""
    path.write_text(f":orphan:\n\n{title}\n{'=' * len(title)}\n\n{body}\n", encoding="utf-8")


def write_schema(app: Sphinx, error: Exception | None) -> None:
    """Write schemas.json next to the pages."""
    (Path(app.outdir) / "schemas.json").write_text(json.dumps(schemas.schema(), indent=1), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect the functions above to Sphinx's events."""
    app.connect("builder-inited", write_reference)
    app.connect("source-read", complete_page)
    app.connect("autodoc-process-docstring", complete_docstring)
    app.connect("build-finished", write_schema)

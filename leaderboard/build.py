"""Writes the board as one page that needs no other file, no script and no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from decabench.atomic import replacing
from decabench.leaderboard.board import TaskColumn, board
from decabench.leaderboard.published import NOTES, PUBLISHED, SOURCE, SOURCE_URL
from decabench.leaderboard.read import Found, read
from decabench.leaderboard.result import SPLITS

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["build", "page"]

_HERE = Path(__file__).parent


def build(submissions: Path, output: Path, tasks: Sequence[TaskColumn] | None = None) -> Path:
    """Read the results under `submissions`, write `index.html` into `output` and return its path.

    The same results give the same bytes. Raises LeaderboardError where there is no such folder
    of submissions, and StorageError where the page cannot be written.
    """
    columns = _decathlon() if tasks is None else tuple(tasks)
    found = read(submissions, [task.name for task in columns])
    target = output / "index.html"
    content = page(found, columns).encode("utf-8")
    with replacing(target) as file:
        file.write(content)
    return target


def page(found: Found, tasks: Sequence[TaskColumn]) -> str:
    """The page's HTML."""
    import decabench

    style = (_HERE / "static" / "board.css").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("index.html")
        .render(
            version=decabench.__version__,
            style=_trusted(style),
            style_digest=_digest(style),
            splits=SPLITS,
            tasks=tasks,
            tables=board(found.entries, tasks),
            found=found,
            published=PUBLISHED,
            published_notes=NOTES,
            published_source=SOURCE,
            published_url=SOURCE_URL,
        )
    )


def _decathlon() -> tuple[TaskColumn, ...]:
    from decabench.tasks import DECATHLON, TASKS

    tasks = (TASKS[name] for name in DECATHLON)
    return tuple(TaskColumn(task.name, task.title, task.metric, tuple(task.hidden)) for task in tasks)


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["breakable"] = _breakable
    environment.filters["parameters"] = _parameters
    return environment


def _breakable(name: str) -> Markup:
    """A name that a narrow column may break after `_`."""
    from markupsafe import escape

    text = str(escape(name))
    return _trusted(text.replace("_", "_<wbr>"))


def _parameters(count: int) -> str:
    """`29M parameters`."""
    for size, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit} parameters"
    return f"{count} parameters"


def _trusted(html: str) -> Markup:
    """Our own markup, which autoescape leaves alone; never a submission's text."""
    from markupsafe import Markup

    return Markup(html)


def _digest(style: str) -> str:
    """What the page's content security policy allows as its only style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")

"""Fills the templates. Autoescape is on for all of them; what a submission says is text everywhere."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.files import atomic_file
from decabench.leaderboard.examples import Examples
from decabench.leaderboard.ranking import Row, Table, TaskColumn
from decabench.leaderboard.read import Found
from decabench.metrics import METRICS
from decabench.scoring import Comparison
from decabench.tasks import DECATHLON, TASKS

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = [
    "POLICY",
    "Pages",
    "TaskPlace",
    "file_stem",
    "stems",
    "write_comparison_page",
]

# ---- names

_LONGEST = 60


def stems(paths: Iterable[str]) -> dict[str, str]:
    """A name for the pages of each results file: `a/results/validation/results.json` to `a-validation`.

    It follows from the path alone, so that links stay. Names that two paths would share get a digest of the path each.
    """
    short = {path: file_stem("-".join(_telling(path))) for path in paths}
    counts = Counter(short.values())
    return {
        path: stem if stem and counts[stem] == 1 else f"{stem or 'x'}-{_digest(path)}"
        for path, stem in short.items()
    }


def file_stem(text: str) -> str:
    """Lower-case letters, digits and dashes; what had to be left out of a name is kept in a digest."""
    stem = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST].strip("-")
    if re.fullmatch(r"[a-z0-9._ /-]*", text) and len(text) <= _LONGEST:
        return stem
    return f"{stem}-{_digest(text)}" if stem else _digest(text)


def _telling(path: str) -> list[str]:
    *folders, name = path.split("/")
    stem = name.removesuffix(".json").removesuffix(".results")
    parts = [part for part in folders if part != "results"]
    return parts if stem == "results" and parts else [*parts, stem]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


# ---- comparison_page


def write_comparison_page(comparison: Comparison, path: Path) -> None:
    """Writes the page. All text of submissions and data is escaped. Raises StorageError."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("comparison.html").render(comparison=comparison)
    with atomic_file(path) as file:
        file.write(page.encode("utf-8", "replace"))


# ---- pages

_HERE = Path(__file__).parent

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The content security policy of every page: files beside the page, and nothing else."""

SIZES = (
    ("small", "under 100M", 0, 10**8),
    ("medium", "100M to 1B", 10**8, 10**9),
    ("large", "1B to 10B", 10**9, 10**10),
    ("huge", "10B and more", 10**10, 10**30),
)
"""Key, words, from, below: the parameter counts that a reader may choose."""


@dataclass(frozen=True)
class TaskPlace:
    """A line of a task's ranking."""

    rank: int | None
    """By the score as displayed; equals share it."""
    row: Row
    """The submission."""
    index: int
    """Of the task's cell."""


@dataclass(frozen=True)
class Pages:
    """All pages of one site."""

    found: Found
    """What was read."""
    tables: Sequence[Table]
    """The ranking."""
    tasks: Sequence[TaskColumn]
    """The columns."""
    stems: Mapping[str, str]
    """Path of a results file to the name of its page."""
    examples: Examples
    """What pages of submissions can show."""

    def overview(self) -> bytes:
        return self._render("overview.html", root="", years=self._years(), sizes=SIZES)

    def submission(self, table: Table, row: Row) -> bytes:
        examples = self.examples[row.entry.path]
        kept = {task: len(of.shown) for task, of in examples.items()}
        reasons: dict[str, list[str]] = {}
        for task, of in examples.items():
            if of.why:
                reasons.setdefault(of.why, []).append(task)
        return self._render(
            "submission.html",
            root="../",
            table=table,
            row=row,
            kept=kept,
            reasons=reasons,
            span_tasks={name for name, task in TASKS.items() if task.extractive},
            profile=_profile(table, row),
        )

    def task(self, task: TaskColumn) -> bytes:
        index = list(self.tasks).index(task)
        rankings = [(table, _ranking(table, index)) for table in self.tables]
        return self._render(
            "task.html",
            root="../",
            task=task,
            about=TASKS.get(task.name),
            metric=METRICS.get(task.metric),
            example=_task_examples().get(task.name),
            rankings=[(table, places) for table, places in rankings if any(places)],
        )

    def compare(self) -> bytes:
        return self._render("compare.html", root="")

    def _render(self, template: str, **values: Any) -> bytes:
        import decabench

        page = self._environment.get_template(template).render(
            policy=POLICY,
            version=decabench.__version__,
            pages=self.stems,
            tasks=self.tasks,
            tables=self.tables,
            found=self.found,
            published=DECATHLON.published,
            published_notes=DECATHLON.notes,
            published_source=DECATHLON.source,
            published_url=DECATHLON.source_url,
            **values,
        )
        return page.encode("utf-8")

    def _years(self) -> list[str]:
        return sorted({entry.year for entry in self.found.entries if entry.year}, reverse=True)

    @cached_property
    def _environment(self) -> Environment:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        environment.filters.update(
            breakable=_breakable, parameters=_parameters, stem=file_stem, json=_json, size_class=_size_class
        )
        return environment


def _profile(table: Table, row: Row) -> dict[str, Any]:
    """What the chart of a submission draws: its scores, the highest floor and the highest ceiling of each task."""
    labels = [cell.task for cell in row.cells]
    floors = [_highest(table.floors, index, row) for index in range(len(labels))]
    ceilings = [_highest(table.ceilings, index, row) for index in range(len(labels))]
    intervals = [task.interval if task else None for task in map(row.entry.tasks.get, labels)]
    scores = [cell.value for cell in row.cells]
    return {
        "labels": labels,
        "scores": scores,
        "intervals": intervals,
        "floors": floors,
        "ceilings": ceilings,
    }


def _highest(rows: Sequence[Row], index: int, but: Row) -> float | None:
    values = [other.cells[index].value for other in rows if other is not but]
    return max((value for value in values if value is not None), default=None)


def _ranking(table: Table, index: int) -> tuple[list[TaskPlace], list[TaskPlace], list[TaskPlace]]:
    """(systems ranked, floors, ceilings) that are scored on the task."""
    ordered = [_by_score(rows, index) for rows in (table.rows, table.floors, table.ceilings)]
    shown = [row.cells[index].text for row in ordered[0]]
    systems = [TaskPlace(shown.index(row.cells[index].text) + 1, row, index) for row in ordered[0]]
    floors, ceilings = ([TaskPlace(None, row, index) for row in rows] for rows in ordered[1:])
    return systems, floors, ceilings


def _by_score(rows: Sequence[Row], index: int) -> list[Row]:
    scored = [row for row in rows if row.cells[index].value is not None]
    return sorted(scored, key=lambda row: (-float(row.cells[index].text), row.entry.name, row.entry.path))


def _task_examples() -> dict[str, Any]:
    """One free example of each task, from the bundled sample."""
    content: dict[str, Any] = json.loads((_HERE / "task_examples.json").read_text(encoding="utf-8"))
    return content


def _breakable(name: str) -> Markup:
    """A name that a narrow column may break after `_` and `.`."""
    from markupsafe import Markup, escape

    text = str(escape(name))
    return Markup(text.replace("_", "_<wbr>").replace(".", ".<wbr>"))


def _parameters(count: int) -> str:
    """`29M`."""
    for size, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _size_class(count: int | None) -> str:
    if count is None:
        return ""
    return next((key for key, _, low, high in SIZES if low <= count < high), "")


def _json(value: object) -> str:
    """JSON for a data attribute; the template escapes it as any text."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)

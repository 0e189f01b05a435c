"""Render the pages of a site from templates, which escape all text."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.files import write_file
from decabench.leaderboard.datafiles import rows_of, write_json
from decabench.leaderboard.entries import (
    Board,
    Column,
    Entry,
    Place,
    Refusal,
    Row,
    Standings,
    names_by_reason,
)
from decabench.leaderboard.publishing import Build
from decabench.leaderboard.ranking import assign_places
from decabench.metrics import Metric
from decabench.scoring import SAMPLE_NOTE, Comparison, show_units
from decabench.tasks import Task

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The content security policy of every page, which allows only the site's own files and `data:` images."""

_HERE = Path(__file__).parent

_LONGEST = 60
"""The maximum length of a page's name, not counting a digest."""

_ANSWER_KINDS = ("unparseable", "refused", "truncated", "context_cut")
"""The kinds of problematic answers that a submission's page counts."""

_SIZES = (
    ("under 100M", 0, 10**8),
    ("100M to 1B", 10**8, 10**9),
    ("1B to 10B", 10**9, 10**10),
    ("10B and more", 10**10, 10**18),
)
"""(label, minimum, limit) of each range of parameter counts to filter by. The limit is outside the range."""


@dataclass(frozen=True)
class Pages:
    """The pages of a site, and the data that they show."""

    entries: Sequence[Entry]
    """The entries of all boards, including single runs."""
    refused: Sequence[Refusal]
    """Submissions and files left off the site."""
    boards: Sequence[Board]
    """The boards. The first board is on `index.html`."""
    tasks: Mapping[str, Task]
    """The known tasks, by name."""
    metrics: Mapping[str, Metric]
    """The known metrics, by name."""
    rank_reported: bool = False
    """Whether to rank reported results."""
    excerpts: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    """The number of answers shown, and the reason if none are shown, by entry path and task."""
    first_texts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The first example shown for each task."""

    @cached_property
    def submission_names(self) -> dict[str, str]:
        """The name of each entry's page, by the entry's path."""
        return name_pages([entry.path for entry in self.entries])

    @cached_property
    def task_names(self) -> dict[str, str]:
        """The name of each task's page."""
        return name_pages([column.name for board in self.boards for column in board.columns])

    @cached_property
    def board_files(self) -> dict[str, str]:
        """The base name of each board's files, by suite name: `board` for the first board."""
        names = name_pages([board.suite.name for board in self.boards])
        files = {suite: f"suite-{name}" for suite, name in names.items()}
        return files | {self.boards[0].suite.name: "board"}

    @cached_property
    def board_pages(self) -> dict[str, str]:
        """The page of each board, by suite name: `index.html` for the first board."""
        pages = {suite: f"{name}.html" for suite, name in self.board_files.items()}
        return pages | {self.boards[0].suite.name: "index.html"}

    def render_overview(self, board: Board) -> bytes:
        """Render a board's overview page."""
        entries = [row.entry for table in board.tables for row in table.all_rows]
        return self._render(
            "overview.html",
            board=board,
            table_list=board.tables or [without_results(board)],
            files=self.board_files[board.suite.name],
            short=short_names([column.name for column in board.columns]),
            years=sorted({entry.year for entry in entries if entry.year}, reverse=True),
            sizes=_SIZES,
        )

    def render_submission(self, board: Board, table: Standings, row: Row) -> bytes:
        """Render the page of a row's submission or system."""
        excerpts = self.excerpts.get(row.entry.path, {})
        return self._render(
            "submission.html",
            root="../",
            board=board,
            table=table,
            row=row,
            system=table.find_system(row),
            siblings=[
                (self.submission_names[other.path], f"{other.suite.title}, {other.split}")
                for other in self._entries_of.get(row.entry.submission, ())
                if other.path != row.entry.path
            ],
            columns={column.name: column for column in board.columns},
            excerpt_counts={task: count for task, (count, _) in excerpts.items()},
            reasons=names_by_reason((task, why) for task, (_, why) in excerpts.items() if why),
            answer_kinds=_ANSWER_KINDS,
            counted=[
                (task, result)
                for task, result in row.entry.tasks.items()
                if any(result.answers.get(kind) for kind in _ANSWER_KINDS)
            ],
            outputs=self._outputs,
            floors=[_best(table.floors, index, row, column) for index, column in enumerate(board.columns)],
            ceilings=[
                _best(table.ceilings, index, row, column) for index, column in enumerate(board.columns)
            ],
        )

    @cached_property
    def _outputs(self) -> dict[str, str]:
        return {name: type(task.output).__name__ for name, task in self.tasks.items()}

    @cached_property
    def _entries_of(self) -> dict[str, list[Entry]]:
        """The entries of each submission."""
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            if entry.submission:
                found.setdefault(entry.submission, []).append(entry)
        return found

    def render_task(self, name: str) -> bytes:
        """Render a task's page, with a ranking for every suite that includes the task."""
        boards = [board for board in self.boards if name in board.suite.tasks]
        rankings = [
            (board, table, column, rank_on_task(table, index, column))
            for board in boards
            for index, column in enumerate(board.columns)
            if column.name == name
            for table in board.tables
        ]
        column = next(column for column in boards[0].columns if column.name == name)
        return self._render(
            "task.html",
            root="../",
            boards_of_task=boards,
            task=column,
            about=self.tasks.get(name),
            metric=self.metrics.get(column.metric),
            example=self._task_example(name),
            rankings=[ranking for ranking in rankings if any(ranking[-1])],
            published=[
                (board.suite, row) for board in boards for row in board.suite.published if name in row.scores
            ],
        )

    def _task_example(self, name: str) -> dict[str, Any] | None:
        # The bundled examples work without prepared data, and replace texts that can't be redistributed.
        bundled = json.loads((_HERE / "task_examples.json").read_text(encoding="utf-8"))
        if name in bundled and name in self.tasks and self.tasks[name].origin == "decabench":
            return {**bundled[name], "source": "From the bundled sample."}
        if name not in self.first_texts:
            return None
        first = self.first_texts[name]
        return {**first, "answers": first["golds"], "note": "", "source": "From the scored data."}

    def render_changes(self, builds: Sequence[Build]) -> bytes:
        """Render the list of changes in each build, newest first."""
        body = self._pieces.changes(builds, self.boards)
        return self._render("base.html", name="What changed · decabench", body=body, here="changes")

    def render_embed(self, board: Board) -> bytes:
        """Render the first rows of a board for embedding in another page."""
        table = (board.tables or [without_results(board)])[0]
        body = self._pieces.embedded(board, table, 20, self.submission_names, self.board_pages)
        return self._render("base.html", name=board.suite.title, body=body, is_embedded=True)

    def render_badge(self, table: Standings, row: Row) -> bytes:
        """Render a row's rank and total as an image, for use on other sites."""
        value = row.total or "not ranked"
        if row.rank is not None:
            value += f" · rank {row.rank} of {table.ranked}"
        return str(self._pieces.badge(table.total_name or table.split, value)).encode()

    def render_compare(self) -> bytes:
        """Render the page for comparing systems."""
        offered = [(self.board_files[board.suite.name], board.suite.title) for board in self.boards]
        scripts = ("data", "charts", "pairs", "difference", "examples", "compare")
        body = self._pieces.compare(offered)
        return self._render(
            "base.html", name="Compare · decabench", body=body, here="compare", scripts=scripts
        )

    @cached_property
    def _pieces(self) -> Any:
        return self._environment.get_template("pieces.html").module

    def _render(self, template: str, root: str = "", is_embedded: bool = False, **values: Any) -> bytes:
        import decabench

        page = self._environment.get_template(template).render(
            root=root,
            is_embedded=is_embedded,
            policy=CONTENT_POLICY,
            version=decabench.__version__,
            pages=self.submission_names,
            task_pages=self.task_names,
            board_files=self.board_files,
            board_pages=self.board_pages,
            boards=self.boards,
            refused=self.refused,
            rank_reported=self.rank_reported,
            **values,
        )
        return page.encode("utf-8")

    @cached_property
    def _environment(self) -> Environment:
        environment = make_environment(keep_trailing_newline=True)
        environment.globals.update(bibtex=_bibtex, profile=_profile, rows_of=rows_of)
        return environment


def _best(rows: Sequence[Row], index: int, but: Row, column: Column) -> float | None:
    values = [other.cells[index].value for other in rows if other is not but]
    return max((value for value in values if value is not None), key=column.goodness, default=None)


def rank_on_task(table: Standings, index: int, column: Column) -> tuple[list[tuple[Place | None, Row]], ...]:
    """Return the systems, floors, ceilings and separately listed rows that are scored on a task.

    Each list is sorted from best to worst, except that separately listed rows keep the order of the
    table. Only systems have places.
    """

    def sort_key(row: Row) -> tuple[float, str, str]:
        return -column.goodness(row.cells[index].value or 0.0), row.entry.name, row.entry.path

    systems, floors, ceilings = (
        sorted((row for row in rows if row.cells[index].value is not None), key=sort_key)
        for rows in (table.rows, table.floors, table.ceilings)
    )
    numbers = {id(row): number for number, row in enumerate(table.compared_rows)}
    places = assign_places(
        [row.cells[index].text for row in systems],
        [row.entry.name for row in systems],
        table.tests.tasks.get(column.name),
        [numbers[id(row)] for row in systems],
    )
    return (
        list(zip(places, systems, strict=True)),
        [(None, row) for row in floors],
        [(None, row) for row in ceilings],
        [(None, row) for row in table.apart if row.cells[index].value is not None],
    )


def _profile(
    board: Board, row: Row, floors: Sequence[float | None], ceilings: Sequence[float | None]
) -> dict[str, Any]:
    results = [row.entry.tasks.get(column.name) for column in board.columns]
    drawn = [index for index, column in enumerate(board.columns) if column.high == 100]
    return {
        "labels": [board.columns[index].name for index in drawn],
        "scores": [row.cells[index].value for index in drawn],
        "intervals": [result.interval if (result := results[index]) else None for index in drawn],
        "floors": [floors[index] for index in drawn],
        "ceilings": [ceilings[index] for index in drawn],
    }


def without_results(board: Board) -> Standings:
    """Return an empty table for a board that shows only rows from papers."""
    suite, count = board.suite, len(board.columns)
    total = "" if suite.total == "none" else suite.total_name
    return Standings(suite.name, "validation", "", count, True, total, board.unit(count), (), (), (), (), ())


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return each task's name up to the first dot or underscore.

    If several tasks share that part, their full names are returned.
    """
    short = {name: re.split("[._]", name)[0] for name in names}
    counts = Counter(short.values())
    return {name: part if counts[part] == 1 else name for name, part in short.items()}


# Page names


def name_pages(keys: Sequence[str]) -> dict[str, str]:
    """Return page names for rows, tasks or suites. For example, `mqan/validation` becomes `mqan-validation`.

    A name usually depends only on its key, so that links stay valid. If several keys would get the same name, a digest
    of the key is added to each of these names.
    """
    stems = {key: _stem(key) for key in keys}
    counts = Counter(stems.values())
    return {
        key: stem if stem and counts[stem] == 1 else f"{stem or 'x'}-{_digest(key)}"
        for key, stem in stems.items()
    }


def _stem(text: str) -> str:
    stem = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST].strip("-")
    if re.fullmatch(r"[a-z0-9._ /-]*", text) and len(text) <= _LONGEST:
        return stem
    return f"{stem}-{_digest(text)}" if stem else _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


# Template filters


def _breakable(name: str) -> Markup:
    from markupsafe import Markup, escape

    text = str(escape(name))
    return Markup(re.sub(r"([_./])", r"\1<wbr>", text))


def _show_parameters(count: int) -> str:
    for size, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


_TEX = {"\\": "\\textbackslash{}", "^": "\\^{}", "~": "\\~{}"} | {one: f"\\{one}" for one in "{}%$&#_"}
"""Escapes for characters that have a meaning in TeX."""


def _bibtex(row: Row, total_name: str, page: str) -> str:
    entry = row.entry
    fields = {
        "title": entry.name,
        "author": " and ".join(entry.authors),
        "year": entry.year,
        "howpublished": entry.url,
        "note": f"{entry.suite.title}, {entry.split}" + (f", {total_name} {row.total}" if row.total else ""),
    }
    escaped = str.maketrans(_TEX)
    lines = [f"  {name} = {{{value.translate(escaped)}}}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{{page},", *lines, "}"])


def make_environment(**settings: Any) -> Environment:
    """Return the Jinja environment of all templates, which escapes everything that it renders."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        **settings,
    )
    environment.filters.update(
        breakable=_breakable, parameters=_show_parameters, json=write_json, units=show_units
    )
    return environment


def write_comparison_page(comparison: Comparison, path: Path) -> None:
    """Write the page of `decabench compare --html`. Raises StorageError if it can't be written."""
    template = make_environment().get_template("comparison.html")
    page = template.render(comparison=comparison, sample_note=SAMPLE_NOTE)
    write_file(path, page.encode("utf-8", "replace"), option="--html")

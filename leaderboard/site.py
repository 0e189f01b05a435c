"""Writes the site: pages, data that pages ask for, and what they share. It opens from the disk, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath

from decabench.files import atomic_file
from decabench.leaderboard.datafiles import (
    compare_data,
    csv_text,
    examples_data,
    json_text,
    script,
    task_data,
)
from decabench.leaderboard.evidence import Evidence
from decabench.leaderboard.examples import Examples, Policy, collect
from decabench.leaderboard.pages import Pages, file_stem, stems
from decabench.leaderboard.ranking import Shuffles, Table, TaskColumn, Tested, board
from decabench.leaderboard.read import Entry, Found, LeaderboardError, read_submissions

__all__ = ["build", "serving"]

# ---- serve


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


def serving(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server for the folder that listens on 127.0.0.1. Raises LeaderboardError where the port is taken."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=str(folder)))
    except OSError as error:
        raise LeaderboardError(
            f"Port {port} cannot be used ({error.strerror}): choose another with --port."
        ) from error


# ---- build

MANIFEST = "site.json"
FORMAT = "decabench.site/1"

_STATIC = Path(__file__).parent / "static"


def build(
    submissions: Path,
    output: Path,
    tasks: Sequence[TaskColumn] | None = None,
    *,
    home: Path | None = None,
    examples: Policy = "free",
) -> Path:
    """Read the results under `submissions`, write the site into `output` and return its `index.html`.

    The same files give the same bytes. Examples of answers are taken from the prepared data at `home`, where it is
    the data that was scored. Files of an earlier site that this one does not have are removed. Raises LeaderboardError
    where there is no such folder of submissions, and StorageError where the site cannot be written.
    """
    columns = _decathlon() if tasks is None else tuple(tasks)
    found = read_submissions(submissions)
    evidence = Evidence(submissions)
    tables = board(found.entries, columns, _tested(evidence))
    shown = collect(found.entries, [task.name for task in columns], submissions, evidence, home, examples)
    files: list[str] = []
    for name, content in _contents(found, tables, columns, shown, evidence):
        with atomic_file(output / name) as file:
            file.write(content)
        files.append(name)
    _remove_others(output, files)
    with atomic_file(output / MANIFEST) as file:
        file.write((json.dumps({"format": FORMAT, "files": sorted(files)}, indent=1) + "\n").encode())
    return output / "index.html"


def _tested(evidence: Evidence) -> Tested:
    shuffles = Shuffles()

    def p_value(first: Entry, second: Entry, names: Sequence[str]) -> float | None:
        return shuffles.p_of_total(
            [evidence.of(first, name) for name in names], [evidence.of(second, name) for name in names]
        )

    return p_value


def _contents(
    found: Found, tables: Sequence[Table], columns: Sequence[TaskColumn], shown: Examples, evidence: Evidence
) -> Iterator[tuple[str, bytes]]:
    """(path in the site, bytes)."""
    stem = stems([entry.path for entry in found.entries])
    pages = Pages(found, tables, columns, stem, shown)
    for path in sorted(path for path in _STATIC.rglob("*") if path.is_file()):
        yield f"static/{path.relative_to(_STATIC).as_posix()}", path.read_bytes()
    for table in tables:
        for row in (*table.rows, *table.floors, *table.ceilings):
            name = stem[row.entry.path]
            yield f"submissions/{name}.html", pages.submission(table, row)
            yield (
                f"data/examples/{name}.js",
                script(f"examples/{name}", examples_data(shown[row.entry.path])),
            )
    for task in columns:
        name = file_stem(task.name)
        yield f"tasks/{name}.html", pages.task(task)
        yield f"data/tasks/{name}.js", script(f"tasks/{name}", task_data(task.name, tables, stem, evidence))
    yield "data/compare.js", script("compare", compare_data(tables, columns, stem, evidence))
    yield "compare.html", pages.compare()
    yield "board.csv", csv_text(tables, columns, stem).encode("utf-8")
    yield "board.json", json_text(tables, columns, stem).encode("utf-8")
    yield "index.html", pages.overview()


def _decathlon() -> tuple[TaskColumn, ...]:
    from decabench.tasks import DECATHLON, TASKS

    tasks = (TASKS[name] for name in DECATHLON.tasks)
    return tuple(TaskColumn(task.name, task.title, task.metric, tuple(task.hidden)) for task in tasks)


def _remove_others(output: Path, files: Sequence[str]) -> None:
    """What the last build wrote here and this one did not; nothing else in the folder is touched."""
    try:
        before = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        named = before["files"] if before["format"] == FORMAT else []
    except (OSError, ValueError, KeyError, TypeError):
        return
    for name in sorted({name for name in named if isinstance(name, str)} - set(files)):
        parts = PurePosixPath(name).parts
        path = output.joinpath(*parts)
        if parts and ".." not in parts and path.resolve().is_relative_to(output.resolve()):
            path.unlink(missing_ok=True)

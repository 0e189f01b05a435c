"""Builds the site: pages, data that they load on demand, and static files. It opens from disk, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath

from decabench.errors import DecabenchError
from decabench.files import Paths, as_paths, atomic_file
from decabench.leaderboard.datafiles import (
    board_csv,
    board_json,
    compare_data,
    excerpt_data,
    make_script,
    task_data,
)
from decabench.leaderboard.entries import Entries, Entry, LeaderboardError, read_submissions
from decabench.leaderboard.evidence import Evidence, ShuffleTest
from decabench.leaderboard.excerpts import Policy, collect_excerpts
from decabench.leaderboard.pages import Pages
from decabench.leaderboard.ranking import Board, rank_suite
from decabench.metrics import METRICS, Metric
from decabench.scoring import find_metric
from decabench.tasks import DECATHLON, Suite, Task, get_suite, home_folder, known_suites, known_tasks

__all__ = ["open_server", "write_leaderboard"]

FORMAT = "decabench.site/1"

_MANIFEST = "site.json"
_STATIC = Path(__file__).parent / "static"


def write_leaderboard(
    submissions: str | Path,
    output: str | Path,
    home: str | Path | None = None,
    *,
    suites: str | Sequence[str] = (),
    include: Paths = (),
    examples: Policy = "free",
) -> Path:
    """Read the results below `submissions`, write the site to `output` and return its `index.html`.

    The same input gives the same bytes. Files of an earlier site that are no longer part of it are removed; other files
    are left alone.

    Args:
        home: The folder of prepared data, the source of example questions if it is the data that was scored.
        suites: The suites to build boards for; by default all suites that have results.
        include: Files that define tasks and suites.
        examples: Which examples go into the site: `free` (datasets that may be redistributed), `all` or `none`.

    Raises LeaderboardError if the folder of submissions does not exist, StorageError if the site cannot be written, and
    UnknownNameError for an unknown suite.
    """
    folder, site = Path(submissions), Path(output)
    paths = as_paths(include)
    tasks, known = known_tasks(paths), known_suites(paths)
    chosen = [
        get_suite(name, known) for name in dict.fromkeys([suites] if isinstance(suites, str) else suites)
    ]
    chosen.sort(key=lambda suite: suite.name != DECATHLON.name)
    found = read_submissions(folder, known)
    evidence = Evidence(folder, _load_metrics(tasks))
    boards = _rank_suites(chosen or _suites_with_results(found.entries), found, tasks, evidence)
    pages = Pages(
        found,
        boards,
        tasks,
        evidence.metrics,
        collect_excerpts(
            [row.entry for board in boards for table in board.tables for row in table.all_rows],
            [column for board in boards for column in board.columns],
            evidence,
            folder,
            home_folder(home),
            tasks,
            examples,
        ),
    )
    files: list[str] = []
    for name, content in _site_files(pages, evidence):
        with atomic_file(site / name) as file:
            file.write(content)
        files.append(name)
    _remove_stale(site, files)
    with atomic_file(site / _MANIFEST) as file:
        file.write((json.dumps({"format": FORMAT, "files": sorted(files)}, indent=1) + "\n").encode())
    return site / "index.html"


def _suites_with_results(entries: Sequence[Entry]) -> list[Suite]:
    """Return the suites of the results, sorted by name with the decathlon first; only the decathlon without results."""
    suites = {entry.suite.name: entry.suite for entry in entries} or {DECATHLON.name: DECATHLON}
    return [suites[name] for name in sorted(suites, key=lambda name: (name != DECATHLON.name, name))]


def _load_metrics(tasks: Mapping[str, Task]) -> dict[str, Metric]:
    """Return all metrics by name: the built-in ones and those of the known tasks.

    A name in a results file is never loaded, because that would run code chosen by a submission.
    """
    metrics = dict(METRICS)
    for task in tasks.values():
        try:
            metrics.setdefault(task.metric, find_metric(task.metric))
        except (DecabenchError, ImportError):
            continue  # the board shows its scores, without their scale
    return metrics


def _rank_suites(
    suites: Sequence[Suite], found: Entries, tasks: Mapping[str, Task], evidence: Evidence
) -> list[Board]:
    shuffles = ShuffleTest()

    def test(first: Entry, second: Entry, names: Sequence[str]) -> float | None:
        return shuffles.test_totals(
            [evidence.find(first, name) for name in names], [evidence.find(second, name) for name in names]
        )

    return [rank_suite(suite, found.entries, tasks, evidence.metrics, test) for suite in suites]


def _site_files(pages: Pages, evidence: Evidence) -> Iterator[tuple[str, bytes]]:
    """Yield (path in the site, content)."""
    for path in sorted(path for path in _STATIC.rglob("*") if path.is_file()):
        yield f"static/{path.relative_to(_STATIC).as_posix()}", path.read_bytes()
    names = pages.submission_names
    for board in pages.boards:
        for table in board.tables:
            for row in table.all_rows:
                name = names[row.entry.path]
                yield f"submissions/{name}.html", pages.render_submission(board, table, row)
                excerpts = excerpt_data(pages.excerpts[row.entry.path])
                yield f"data/examples/{name}.js", make_script(f"examples/{name}", excerpts)
    for task, name in pages.task_names.items():
        yield f"tasks/{name}.html", pages.render_task(task)
        data = task_data(pages.boards, task, names, evidence)
        yield f"data/tasks/{name}.js", make_script(f"tasks/{name}", data)
    yield "data/compare.js", make_script("compare", compare_data(pages.boards, names, evidence))
    yield "compare.html", pages.render_compare()
    for board in pages.boards:
        files = pages.board_files[board.suite.name]
        yield files.csv, board_csv(board, names).encode("utf-8")
        yield files.json, board_json(board, names).encode("utf-8")
        yield files.page, pages.render_overview(board)


def _remove_stale(output: Path, files: Sequence[str]) -> None:
    """Remove files that the last build wrote and this one did not; no other file is touched."""
    try:
        before = json.loads((output / _MANIFEST).read_text(encoding="utf-8"))
        named = before["files"] if before["format"] == FORMAT else []
    except (OSError, ValueError, KeyError, TypeError):
        return
    for name in sorted({name for name in named if isinstance(name, str)} - set(files)):
        parts = PurePosixPath(name).parts
        path = output.joinpath(*parts)
        if parts and ".." not in parts and path.resolve().is_relative_to(output.resolve()):
            path.unlink(missing_ok=True)


class _QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()


def open_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server for a folder, listening on 127.0.0.1. Raises LeaderboardError if the port is taken."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_QuietHandler, directory=str(folder)))
    except OSError as error:
        raise LeaderboardError(
            f"Port {port} cannot be used ({error.strerror}): choose another one with --port."
        ) from error

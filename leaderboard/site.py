"""Builds the site: pages, the data that they load on demand, and static files.

It opens from disk, without a server.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.files import Paths, as_paths, file_digest
from decabench.leaderboard.changes import CHANGES, list_builds, write_changes, write_feed
from decabench.leaderboard.datafiles import (
    board_csv,
    board_json,
    make_script,
    overview_data,
    tests_data,
    units_data,
)
from decabench.leaderboard.entries import (
    RANKED_SPLITS,
    Board,
    Entry,
    LeaderboardError,
    NoResultsError,
    Refusal,
)
from decabench.leaderboard.example_pages import File, Policy, find_right, read_answers_shown, read_texts
from decabench.leaderboard.pages import Pages, without_results
from decabench.leaderboard.publishing import find_others, inputs_of, publish
from decabench.leaderboard.ranking import rank_suite
from decabench.leaderboard.scores import Keeper, find_submissions, score_submissions
from decabench.metrics import METRICS, Metric
from decabench.scoring import code_digest, find_metric
from decabench.submission import FOLDER
from decabench.tasks import (
    DECATHLON,
    SUITES,
    Store,
    Suite,
    Task,
    get_suite,
    home_folder,
    known_suites,
    known_tasks,
)

__all__ = [
    "BoardOptions",
    "Site",
    "build_leaderboard",
    "make_keeper",
    "open_server",
    "rank_entries",
    "write_leaderboard",
]

_STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Site:
    """A finished site, with its counts."""

    index: Path
    """Its first page."""
    kinds: Mapping[str, int]
    """The number of rows by evidence (`verified`, `reported`), or `partial` or `failed`; without added
    baselines."""
    baselines: int
    """The number of rows of baselines that were added."""
    refused: Sequence[Refusal]
    """Submissions and files that were left off, with the reasons."""


@dataclass(frozen=True)
class BoardOptions:
    """The options of a site; `write_leaderboard` takes the same options by name."""

    home: str | Path | None = None
    """The folder of prepared data, on which answers are scored."""
    suites: str | Sequence[str] = ()
    """The suites to build boards for; by default those that `include` defines or, if there are none, the decathlon."""
    include: Paths = ()
    """Files that define tasks and suites."""
    examples: Policy = "free"
    """Which examples go into the site: `free` (datasets that may be redistributed), `all` or `none`."""
    rank_reported: bool = False
    """Whether to rank numbers without answers, or without data here."""
    jobs: int = 1
    """The number of processes that score."""
    baselines: Callable[[Suite, str], Iterable[Path]] | None = None
    """Makes baseline submissions for a suite and split, such as `decabench.runs.floors.make_baselines`."""
    splits: Sequence[str] = RANKED_SPLITS
    """The splits to score and rank."""


def write_leaderboard(
    submissions: str | Path, output: str | Path, home: str | Path | None = None, **options: Any
) -> Path:
    """Score the submissions below a folder, write the site to `output` and return its `index.html`.

    `submissions` may also be a submission itself. Answers are scored on the data in `home`; earlier scores of
    the same answers come from the ledger there. The site replaces an earlier one at `output` as a whole. The
    same input gives the same bytes. The options are the other fields of `BoardOptions`.

    Raises LeaderboardError if the folder of submissions does not exist or `output` is not a site, StorageError
    if the site cannot be written, and UnknownNameError for an unknown suite.
    """
    return build_leaderboard(submissions, output, BoardOptions(home, **options)).index


def build_leaderboard(
    submissions: str | Path,
    output: str | Path,
    options: BoardOptions | None = None,
    require_results: bool = False,
    report: Callable[[str], object] = str,
) -> Site:
    """Write the site as `write_leaderboard` does, and return its counts and refusals; `report` is called with
    lines of progress.

    With `require_results`, raises NoResultsError, and writes nothing, if the boards would have no row.
    """
    options = options or BoardOptions()
    find_others(Path(output))  # refuses a folder before an hour of scoring, not after it
    keeper = make_keeper(options, report)
    folder, paths, unread = find_submissions(Path(submissions))
    entries, refused = score_submissions(folder, paths, keeper)
    refused = sorted([*unread, *refused], key=lambda refusal: refusal.path)
    if require_results and not entries:
        _explain_no_rows(Path(submissions), folder, paths, refused, keeper)
    sent = [entry for entry in entries if entry.submission]
    kinds = Counter(entry.standing for entry in sent)
    site = Site(Path(output) / "index.html", kinds, len(entries) - len(sent), refused)
    inputs, earlier = _digest_inputs(entries, refused, keeper, options), inputs_of(Path(output))
    if inputs and earlier == inputs:
        return site
    boards = [rank_entries(suite, entries, keeper) for suite in keeper.suites]
    boards = [board for board in boards if board.tables or options.suites] or boards[:1]
    pages = Pages(entries, refused, boards, keeper.tasks, keeper.metrics)
    files = _site_files(pages, keeper, options.examples, Path(output), earlier is not None)
    publish(files, Path(output), inputs)
    return site


def _digest_inputs(
    entries: Sequence[Entry], refused: Sequence[Refusal], keeper: Keeper, options: BoardOptions
) -> str:
    """Return a digest of all inputs of the site; empty if one of them has no digest."""
    evidence = [
        (task, one.kind, one.why, one.key) for entry in entries for task, one in entry.evidence.items()
    ]
    if any(one.sample is not None and not one.key for entry in entries for one in entry.evidence.values()):
        return ""  # the metric is not ours, or numbers came with statistics of their own
    files = (path for path in sorted(Path(__file__).parent.rglob("*.*")) if "__pycache__" not in path.parts)
    code = [file_digest(path) for path in files if path.is_file()]
    data = sorted({(task, entry.split) for entry in entries for task in entry.suite.tasks})
    content = [
        *(code, code_digest(), [file_digest(path) for path in keeper.include], evidence, refused),
        *(options.examples, options.rank_reported, options.suites, options.splits),
        *([replace(entry, evidence={}, place=Path()) for entry in entries],),
        *([(*one, keeper.record(*one)) for one in data],),
    ]
    return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()


def make_keeper(options: BoardOptions, report: Callable[[str], object] = str) -> Keeper:
    """Return the tasks, data and choices of a board. Raises UnknownNameError for an unknown suite."""
    include = as_paths(options.include)
    tasks, suites = known_tasks(include), known_suites(include)
    names = [options.suites] if isinstance(options.suites, str) else options.suites
    chosen = [get_suite(name, suites) for name in dict.fromkeys(names)]
    return Keeper(
        Store(home_folder(options.home)),
        chosen or [suite for name, suite in suites.items() if name not in SUITES] or [DECATHLON],
        tasks,
        _load_metrics(tasks),
        include,
        options.jobs,
        options.rank_reported,
        options.splits,
        options.baselines,
        report,
    )


def _explain_no_rows(
    given: Path, folder: Path, paths: Sequence[str], refused: Sequence[Refusal], keeper: Keeper
) -> NoReturn:
    """Raise an error for a folder from which nothing can be shown."""
    names = ", ".join(suite.name for suite in keeper.suites)
    if not paths and not refused:
        raise NoResultsError(
            f"There is no finished submission in {given}: give the folder that holds your submissions, or make a "
            "submission with decabench predict. No board was written."
        )
    if refused:
        shown = "; ".join(f"{each.path}: {each.reason}" for each in refused[:3])
        more = f"; and {len(refused) - 3:,} more" if len(refused) > 3 else ""
        raise NoResultsError(
            f"Nothing in {given} can be shown on a board of {names}. {shown}{more}. No board was written."
        )
    files = (path.name for name in paths for path in folder.glob(f"{name}/{FOLDER}/*"))
    answered = {name.partition(".jsonl")[0].rpartition(".")[0] for name in files}
    others = [
        suite.name for suite in known_suites(keeper.include).values() if answered.intersection(suite.tasks)
    ]
    advice = (
        f"choose --suite {others[0]}"
        if others
        else "define a suite with these tasks, and choose it with --suite"
    )
    raise NoResultsError(
        f"No submission in {given} answers a task of {names}, only "
        f"{', '.join(sorted(answered)) or 'nothing'}: {advice}. No board was written."
    )


def _load_metrics(tasks: Mapping[str, Task]) -> dict[str, Metric]:
    """Return all metrics by name: the built-in ones and those of the known tasks."""
    metrics = dict(METRICS)
    for task in tasks.values():
        try:
            metrics.setdefault(task.metric, find_metric(task.metric))
        except (DecabenchError, ImportError):
            continue  # the board shows its scores, without their scale
    return metrics


def rank_entries(suite: Suite, entries: Sequence[Entry], keeper: Keeper) -> Board:
    """Rank the entries of a suite, with hidden splits counted as public if their labels are here."""
    tasks = {
        name: replace(task, hidden=tuple(split for split in task.hidden if not keeper.hides(name, split)))
        if task.hidden
        else task
        for name, task in keeper.tasks.items()
    }
    return rank_suite(suite, entries, tasks, keeper.metrics)


def _example_files(pages: Pages, keeper: Keeper, policy: Policy, earlier: Path | None) -> Iterator[File]:
    """Yield the texts of examples, and the answers of every entry; record for the pages how many there are.

    Only one task's data is in memory at a time.
    """
    systems = {row.entry.path for board in pages.boards for table in board.tables for row in table.rows}
    for column in {column.name: column for board in pages.boards for column in board.columns}.values():
        task = pages.task_names[column.name]
        for split in sorted({entry.split for entry in pages.entries}):
            scored = [
                entry
                for entry in pages.entries
                if entry.split == split and entry.score(column.name) is not None
            ]
            if not scored:
                continue
            data = read_texts(column.name, split, keeper, policy)
            if data.examples:
                pages.first_texts.setdefault(column.name, data.text(0))
                known = (entry.evidence[column.name].scores for entry in scored if entry.path in systems)
                right = [find_right(scores, column) for scores in known if scores is not None]
                yield from data.files(f"texts/{task}-{split}", right)
            for entry in scored:
                name = f"answers/{pages.submission_names[entry.path]}/{task}"
                found = read_answers_shown(entry, column, data, keeper, name, earlier)
                pages.excerpts.setdefault(entry.path, {})[column.name] = found.count, found.why
                yield from found.files


def _site_files(pages: Pages, keeper: Keeper, policy: Policy, site: Path, is_whole: bool) -> Iterator[File]:
    """Yield (path in the site, content); the files of unchanged answers are those of an earlier site if it is whole."""
    for path in sorted(path for path in _STATIC.rglob("*") if path.is_file()):
        yield f"static/{path.relative_to(_STATIC).as_posix()}", path.read_bytes()
    yield from _example_files(pages, keeper, policy, site if is_whole else None)
    names = pages.submission_names
    for board in pages.boards:
        for table in board.tables:
            for index in range(len(table.compared_rows)):
                name = names[table.compared_rows[index].entry.path]
                units = units_data(board, table, index, names, keeper.hides)
                yield f"data/units/{name}.js", make_script(f"units/{name}", units)
            tests = tests_data(board, table, names, keeper.hides)
            yield f"data/tests/{table.id}.js", make_script(f"tests/{table.id}", tests)
            for row in table.all_rows:
                name = names[row.entry.path]
                yield f"submissions/{name}.html", pages.render_submission(board, table, row)
                yield f"badges/{name}.svg", pages.render_badge(table, row)
    for task, name in pages.task_names.items():
        yield f"tasks/{name}.html", pages.render_task(task)
    yield "compare.html", pages.render_compare()
    outputs = {name: type(task.output).__name__ for name, task in keeper.tasks.items()}
    written = {}
    for board in pages.boards:
        file = pages.board_files[board.suite.name]
        tables = overview_data(
            board, board.tables or [without_results(board)], names, pages.task_names, outputs, keeper.hides
        )
        yield f"data/boards/{file}.js", make_script(f"boards/{file}", tables)
        yield f"{file}.csv", board_csv(board, names, pages.refused).encode("utf-8")
        written[file] = board_json(board, names, pages.refused)
        yield f"{file}.json", written[file].encode("utf-8")
        yield f"{file}-embed.html", pages.render_embed(board)
        yield pages.board_pages[board.suite.name], pages.render_overview(board)
    builds = list_builds(written, site)
    dates = [entry.date for entry in pages.entries if re.fullmatch(r"\d{4}-\d\d-\d\d", entry.date)]
    yield "changes.html", pages.render_changes(builds)
    yield CHANGES, write_changes(builds)
    yield "changes.xml", write_feed(pages.boards[0].suite.title, builds, max(dates, default="1970-01-01"))


_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""The host names under which a browser may request the site; any other name means that another website is
making the request."""


def _is_local(host: str | None) -> bool:
    """Return whether a Host header names this machine."""
    try:
        return host is not None and urlsplit(f"//{host}").hostname in _LOCAL_NAMES
    except ValueError:
        return False


class _QuietHandler(SimpleHTTPRequestHandler):
    """Serves files to this machine only, under its own names, and logs nothing."""

    def parse_request(self) -> bool:
        """Parse a request, and reject one for another host, because a rebound name must not read the site."""
        if not super().parse_request():
            return False
        if not _is_local(self.headers.get("Host")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "Open the site as localhost")
            return False
        return True

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
            f"Port {port} cannot be used ({error.strerror}): choose another with --port."
        ) from error

"""Builds the site: pages, data that they load on demand, and static files. It opens from disk, without a server."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.files import Paths, as_paths
from decabench.leaderboard.audit import FileDigests, audit
from decabench.leaderboard.datafiles import (
    board_csv,
    board_json,
    compare_data,
    excerpt_data,
    make_script,
    task_data,
)
from decabench.leaderboard.entries import (
    Entries,
    Entry,
    LeaderboardError,
    NoResultsError,
    Refusal,
    read_submissions,
    submissions_root,
)
from decabench.leaderboard.evidence import Evidence
from decabench.leaderboard.example_pages import STATIC_FILES
from decabench.leaderboard.excerpts import Policy, collect_excerpts
from decabench.leaderboard.pages import Pages
from decabench.leaderboard.publishing import publish
from decabench.leaderboard.ranking import Board, rank_suite
from decabench.leaderboard.rescoring import Verification, only_verified, verify_entries
from decabench.metrics import METRICS, Metric
from decabench.scoring import Sample, find_metric, hidden_decimals
from decabench.tasks import DECATHLON, Suite, Task, get_suite, home_folder, known_suites, known_tasks

__all__ = ["BoardOptions", "Site", "build_leaderboard", "open_server", "write_leaderboard"]

_STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Site:
    """A site that was written, and what it rests on."""

    index: Path
    """Its first page."""
    kinds: Mapping[str, int]
    """The number of rows by evidence (`verified`, `consistent`, `self-reported`), or `partial` or `failed`."""
    refused: Sequence[Refusal]
    """The results files that were left off, with the reasons."""
    submissions: Path
    """The folder that paths of results begin in: the one given, or that above a single submission."""
    too_deep: Sequence[str] = ()
    """Folders whose results lie too deep, and were not read."""
    not_evaluated: Sequence[str] = ()
    """Folders of submissions that have not been scored yet."""


@dataclass(frozen=True)
class BoardOptions:
    """What goes into a site; `write_leaderboard` takes the same by name."""

    home: str | Path | None = None
    """The folder of prepared data, the source of example questions if it is the data that was scored."""
    suites: str | Sequence[str] = ()
    """The suites to build boards for; by default all suites that have results."""
    include: Paths = ()
    """Files that define tasks and suites."""
    examples: Policy = "free"
    """Which examples go into the site: `free` (datasets that may be redistributed), `all` or `none`."""
    verify: bool = True
    """Whether to score again the answers that are at hand and of which there is no record yet."""
    jobs: int = 1
    """The number of threads that check statistics, and of processes for `verify`."""
    verified_only: bool = False
    """Whether to refuse results with a score that is not verified."""


def write_leaderboard(
    submissions: str | Path,
    output: str | Path,
    home: str | Path | None = None,
    *,
    suites: str | Sequence[str] = (),
    include: Paths = (),
    examples: Policy = "free",
    verify: bool = True,
    jobs: int = 1,
    verified_only: bool = False,
) -> Path:
    """Read the results below `submissions`, write the site to `output` and return its `index.html`.

    Submissions lie in the folder as `<submission>` or `<group>/<submission>`; it may also be a submission itself. Every
    score is recomputed from its statistics; results that contradict them are left off, with the reason on the page. The
    site replaces an earlier one at `output` as a whole. The same input gives the same bytes.

    Args:
        home: The folder of prepared data, the source of example questions if it is the data that was scored.
        suites: The suites to build boards for; by default all suites that have results.
        include: Files that define tasks and suites.
        examples: Which examples go into the site: `free` (datasets that may be redistributed), `all` or `none`.
        verify: Whether to score again all answers that are at hand, whose data is prepared, and of which there is no
            record yet.
        jobs: The number of threads that check statistics, and of processes for `verify`.
        verified_only: Whether to refuse results with a score that was not computed here from answers, now or before.

    Raises LeaderboardError if the folder of submissions does not exist or `output` holds something else than a site,
    StorageError if the site cannot be written, and UnknownNameError for an unknown suite.
    """
    options = BoardOptions(home, suites, include, examples, verify, jobs, verified_only)
    return build_leaderboard(submissions, output, options).index


def build_leaderboard(
    submissions: str | Path,
    output: str | Path,
    options: BoardOptions | None = None,
    require_results: bool = False,
    report: Callable[[str], object] = str,
) -> Site:
    """Do what `write_leaderboard` does, and return what was checked and refused too; `report` takes lines of progress.

    With `require_results`, raises NoResultsError, and writes nothing, if the boards would have no row.
    """
    options = options or BoardOptions()
    (folder, only), data = submissions_root(Path(submissions)), home_folder(options.home)
    paths = as_paths(options.include)
    tasks, known = known_tasks(paths), known_suites(paths)
    names = [options.suites] if isinstance(options.suites, str) else options.suites
    chosen = [get_suite(name, known) for name in dict.fromkeys(names)]
    chosen.sort(key=lambda suite: suite.name != DECATHLON.name)
    evidence = Evidence(folder, _load_metrics(tasks), tasks, data)
    read = read_submissions(folder, known, only)
    if require_results and not read.entries and not read.refused:
        _explain_no_results(Path(submissions), folder, read)
    digests = FileDigests()
    found = audit(read, evidence, folder, data, digests, options.jobs)
    verification = Verification(data, options.verify, paths, options.jobs, report, digests)
    found = verify_entries(found, folder, evidence, verification)
    found = only_verified(found) if options.verified_only else found
    found = replace(found, entries=tuple(_guarded(entry, evidence) for entry in found.entries))
    boards = _rank_suites(chosen or _suites_with_results(found.entries, known), found, evidence)
    rows = [row for board in boards for table in board.tables for row in table.all_rows]
    if require_results and not rows:
        _explain_no_rows(Path(submissions), folder, found, boards)
    pages = Pages(
        found,
        boards,
        tasks,
        evidence.metrics,
        collect_excerpts(
            [row.entry for row in rows],
            [column for board in boards for column in board.columns],
            evidence,
            folder,
            data,
            tasks,
            options.examples,
        ),
    )
    publish(_site_files(pages, evidence), Path(output))
    kinds = Counter(row.entry.standing for row in rows)
    return Site(
        Path(output) / "index.html", kinds, found.refused, folder, found.too_deep, found.not_evaluated
    )


def _explain_no_results(given: Path, folder: Path, read: Entries) -> NoReturn:
    """Refuse a folder without results, which is more often a typo than an empty board."""
    if read.not_evaluated:
        found = f"{len(read.not_evaluated):,} not scored yet"
        advice = f"decabench evaluate --submission {folder / read.not_evaluated[0]} scores one"
    elif read.too_deep:
        deep = folder / read.too_deep[0]
        found = f"where they may lie, in <submission> or <group>/<submission>; {deep} lies deeper"
        advice = f"give the folder above it, --submissions {deep.parent}"
    else:
        found = "nor a submission"
        advice = (
            "give the folder that holds them; decabench predict makes one, and decabench evaluate its results"
        )
    raise NoResultsError(f"No results were found in {given}, {found}: {advice}. No board was written.")


def _explain_no_rows(given: Path, folder: Path, found: Entries, boards: Sequence[Board]) -> NoReturn:
    """Refuse results of which none has a place on a board."""
    if not found.entries:
        refused = "; ".join(f"{each.path} was refused: {each.reason}" for each in found.refused[:3])
        more = f"; and {len(found.refused) - 3:,} more" if len(found.refused) > 3 else ""
        again = folder / found.refused[0].submission
        raise NoResultsError(
            f"No results in {given} can be shown. {refused}{more}. No board was written. If the answers are at hand, "
            f"score it again: decabench evaluate --submission {again}"
        )
    names = ", ".join(board.suite.name for board in boards)
    if others := [entry for board in boards for entry in board.others]:
        tasks = ", ".join(sorted({task for entry in others for task in entry.tasks}))
        why = f"they are of {tasks}, which {names} does not have"
        advice = (
            "put these tasks into a suite (docs/how-to/own-task.md), and evaluate with --suite and --include"
        )
    else:
        suites = ", ".join(sorted({entry.suite.name for entry in found.entries}))
        why = f"they were scored for {suites}"
        advice = f"choose it with --suite, or evaluate with --suite {boards[0].suite.name}"
    raise NoResultsError(
        f"None of the results in {given} is for {names}, as {why}: {advice}. No board was written."
    )


def _suites_with_results(entries: Sequence[Entry], known: Mapping[str, Suite]) -> list[Suite]:
    """Return the suites of the results, sorted by name; only the decathlon without results.

    The decathlon is first, and those known here come before those that a results file defines: no file takes the front
    page from them.
    """
    suites = {entry.suite.name: entry.suite for entry in entries} or {DECATHLON.name: DECATHLON}
    order = sorted(suites, key=lambda name: (name != DECATHLON.name, name not in known, name))
    return [suites[name] for name in order]


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


def _guarded(entry: Entry, evidence: Evidence) -> Entry:
    """Round the scores on hidden labels to the digits that pages show.

    An error's full digits reveal several labels. The digest of answers is removed: nearly perfect answers are the
    labels, so a guess could be checked against it. A fingerprint from before the labels were hidden is removed too,
    since it has no secret in it.
    """
    hidden = {name: task for name, task in entry.tasks.items() if evidence.hides(name, entry.split)}
    if not hidden:
        return entry
    spans = {name: _span(evidence.metrics.get(task.metric)) for name, task in hidden.items()}

    def cut(value: float | None, *names: str) -> float | None:
        return value if value is None else round(value, _decimals(names, value))

    def cut_ends(ends: tuple[float, float] | None, *names: str) -> tuple[float, float] | None:
        return ends and (round(ends[0], _decimals(names, *ends)), round(ends[1], _decimals(names, *ends)))

    def _decimals(names: Sequence[str], *values: float) -> int:
        return min(hidden_decimals(spans[name], *values, least=1) for name in names)

    tasks = {
        name: replace(
            task,
            score=cut(task.score, name),
            limited_score=cut(task.limited_score, name),
            scores={key: round(score, _decimals([name], score)) for key, score in task.scores.items()},
            interval=cut_ends(task.interval, name),
            predictions="",
            fingerprint=task.fingerprint
            if evidence.has_secret(name, entry.split, task.fingerprint)
            else "withheld",
        )
        for name, task in hidden.items()
    }
    return replace(
        entry,
        tasks={**entry.tasks, **tasks},
        total=cut(entry.total, *hidden),
        interval=cut_ends(entry.interval, *hidden),
    )


def _span(metric: Metric | None) -> tuple[float, float]:
    return metric.range if metric else (-math.inf, math.inf)


def _rank_suites(suites: Sequence[Suite], found: Entries, evidence: Evidence) -> list[Board]:
    """Rank the entries. Splits with hidden labels have scores only if the labels are here."""
    tasks = {
        name: replace(task, hidden=tuple(split for split in task.hidden if not evidence.hides(name, split)))
        if task.hidden
        else task
        for name, task in evidence.tasks.items()
    }

    def find_sample(entry: Entry, task: str) -> Sample | None:
        found = evidence.find(entry, task)
        return found.sample if found else None

    return [rank_suite(suite, found.entries, tasks, evidence.metrics, find_sample) for suite in suites]


def _site_files(pages: Pages, evidence: Evidence) -> Iterator[tuple[str, bytes]]:
    """Yield (path in the site, content)."""
    for path in sorted(path for path in _STATIC.rglob("*") if path.is_file()):
        if path.name in STATIC_FILES:
            continue  # of another page
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
        yield files.csv, board_csv(board, names, pages.found.refused).encode("utf-8")
        yield files.json, board_json(board, names, pages.found.refused).encode("utf-8")
        yield files.page, pages.render_overview(board)


_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""The names under which a browser may ask for the site: any other one is a page elsewhere that reaches for it."""


def _is_local(host: str | None) -> bool:
    """Return whether a Host header names this machine."""
    try:
        return host is not None and urlsplit(f"//{host}").hostname in _LOCAL_NAMES
    except ValueError:
        return False


class _QuietHandler(SimpleHTTPRequestHandler):
    """Serves files to this machine under its own name, and logs nothing."""

    def parse_request(self) -> bool:
        """Parse a request, and refuse one for another host: a rebound name must not read the site."""
        if not super().parse_request():
            return False
        if not _is_local(self.headers.get("Host")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "Ask for localhost")
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
            f"Port {port} cannot be used ({error.strerror}): choose another one with --port."
        ) from error

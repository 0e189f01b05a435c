"""Build the site: pages, the data that they load on demand, and static files.

The site can be opened from disk, without a server.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import decabench
from decabench.errors import DecabenchError
from decabench.files import as_paths, file_digest, is_within
from decabench.leaderboard.datafiles import (
    board_csv,
    board_json,
    describe_board,
    make_script,
    overview_data,
    tests_data,
    units_data,
)
from decabench.leaderboard.entries import (
    RANKED_SPLITS,
    Board,
    Entry,
    NoResultsError,
    Refusal,
)
from decabench.leaderboard.example_pages import (
    find_right,
    read_answers_shown,
    read_texts,
)
from decabench.leaderboard.pages import Pages, without_results
from decabench.leaderboard.publishing import (
    CHANGES,
    File,
    find_others,
    list_builds,
    publish,
    read_whole_site,
    static_files,
    write_changes,
    write_feed,
)
from decabench.leaderboard.ranking import rank_suite
from decabench.leaderboard.scores import BoardOptions, Keeper, find_submissions, group_runs, score_submissions
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
    is_task_name,
    known_suites,
    known_tasks,
)


@dataclass(frozen=True)
class Site:
    """A finished site, with counts of its rows."""

    index: Path
    """The front page."""
    kinds: Mapping[str, int]
    """The number of submission rows by `Entry.standing`: `verified`, `reported`, `partial` or `failed`."""
    baselines: int
    """The number of baseline rows added."""
    refused: Sequence[Refusal]
    """Submissions and files left off the site, with reasons."""
    failed: Sequence[Refusal]
    """Submissions on the site that have no score because all their tasks failed, with reasons."""


def write_leaderboard(
    submissions: str | Path, output: str | Path, home: str | Path | None = None, **options: Any
) -> Path:
    """Score the submissions in a folder, write the site to `output`, and return the path of its `index.html`.

    `submissions` can also be a single submission. Answers are scored on the data in `home`, unless the ledger there
    already has their scores. The site replaces an earlier site at `output` as a whole, and the same input always
    produces the same bytes. The options are the other fields of `BoardOptions`.

    Raises LeaderboardError if the folder of submissions doesn't exist or `output` contains files that can't be replaced
    or kept, StorageError if the site can't be written, and UnknownNameError for an unknown suite.
    """
    return build_leaderboard(submissions, output, BoardOptions(home, **options)).index


def build_leaderboard(
    submissions: str | Path,
    output: str | Path,
    options: BoardOptions | None = None,
    require_results: bool = False,
    report: Callable[[str], object] = str,
) -> Site:
    """Write the site like `write_leaderboard`, and return its counts and refusals.

    `report` is called with progress messages. With `require_results`, NoResultsError is raised and
    nothing is written if the boards would have no rows.
    """
    options = options or BoardOptions()
    given, output = Path(submissions), Path(output)
    find_others(output)  # check the output folder before an hour of scoring, not after it
    keeper = make_keeper(options, report)
    folder, paths, unread = find_submissions(given)
    inputs, earlier = _digest_inputs(given, folder, paths, output, keeper), read_whole_site(output)
    if inputs and earlier and earlier.get("inputs") == inputs:
        refused, failed = ([Refusal(*each) for each in earlier[name]] for name in ("refused", "failed"))
        return Site(output / "index.html", earlier["kinds"], earlier["baselines"], refused, failed)
    scored, refused = score_submissions(folder, paths, keeper)
    refused = sorted([*unread, *refused], key=lambda refusal: refusal.path)
    if require_results and not scored:
        _explain_no_rows(given, folder, paths, refused, keeper)
    sent = [entry for entry in scored if entry.submission]
    kinds = Counter(entry.standing for entry in sent)
    failed = [Refusal(entry.submission, entry.failure) for entry in sent if entry.failure]
    systems = group_runs(scored, keeper)
    boards = [rank_entries(suite, systems, keeper) for suite in keeper.suites]
    boards = [board for board in boards if board.tables or options.suites] or boards[:1]
    entries = [each for entry in systems for each in (entry, *entry.runs)]
    pages = Pages(entries, refused, boards, keeper.tasks, keeper.metrics, options.rank_reported)
    about = {
        "inputs": inputs if scored else "",
        "kinds": kinds,
        "baselines": len(scored) - len(sent),
        "refused": [astuple(each) for each in refused],
        "failed": [astuple(each) for each in failed],
    }
    publish(_site_files(pages, keeper, output, earlier is not None), output, about)
    return Site(output / "index.html", kinds, len(scored) - len(sent), refused, failed)


_SETTLED = 2.0
"""Seconds after which a further change to a file gets a different timestamp on any file system."""


def _digest_inputs(given: Path, folder: Path, paths: Sequence[str], output: Path, keeper: Keeper) -> str:
    """Return a digest of everything that determines the site.

    For submissions and prepared data, sizes and timestamps are used instead of contents. Returns an
    empty string if the digest could miss the next change, because a file has just been written or a
    metric isn't built in.
    """
    options, names = keeper.options, [name for suite in keeper.suites for name in suite.tasks]
    if not METRICS.keys() >= {keeper.tasks[name].metric for name in names if name in keeper.tasks}:
        return ""
    package = Path(decabench.__file__).parent
    code = [
        file_digest(path)
        for room in ("leaderboard", "predictors", "runs")
        for path in sorted((package / room).resolve().rglob("*.*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    linked = (os.path.realpath(folder / path) for path in paths)
    roots = [str(given), *sorted(path for path in linked if not is_within(given, Path(path)))]
    files = [trace for root in roots for trace in _trace_files(root, os.path.realpath(output))]
    data = [(name, split) for name in names for split in options.splits if is_task_name(name)]
    files += [_trace(str(keeper.store.path(*each))) for each in data]
    if any(max(times) > (time.time() - _SETTLED) * 1e9 for _, _, *times in files):
        return ""
    content = [
        *(code, code_digest(), [file_digest(path) for path in as_paths(options.include)], paths, files),
        *(options.examples, options.rank_reported, options.suites, options.splits, options.baselines is None),
        [keeper.record(*each) for each in data],
    ]
    return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()


def _trace_files(root: str, left_out: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield the path, size and timestamps of all files in a folder, or of a single file.

    Files and folders whose names begin with a dot are skipped, and so is the folder `left_out`.
    """
    if not os.path.isdir(root):
        yield _trace(root)
    for here, folders, names in os.walk(root):
        folders[:] = [
            name
            for name in sorted(folders)
            if name[0] != "." and os.path.realpath(os.path.join(here, name)) != left_out
        ]
        yield from (_trace(os.path.join(here, name)) for name in sorted(names) if name[0] != ".")


def _trace(path: str) -> tuple[str, int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return path, 0, 0, 0
    return path, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def make_keeper(options: BoardOptions, report: Callable[[str], object] = str) -> Keeper:
    """Return the tasks, data and settings of a board. Raises UnknownNameError for an unknown suite."""
    include = as_paths(options.include)
    tasks, suites = known_tasks(include), known_suites(include)
    names = [options.suites] if isinstance(options.suites, str) else options.suites
    chosen = [get_suite(name, suites) for name in dict.fromkeys(names)]
    suites_here = chosen or [suite for name, suite in suites.items() if name not in SUITES] or [DECATHLON]
    return Keeper(Store(options.home), suites_here, tasks, _load_metrics(tasks), options, report)


def _explain_no_rows(
    given: Path, folder: Path, paths: Sequence[str], refused: Sequence[Refusal], keeper: Keeper
) -> NoReturn:
    names = ", ".join(suite.name for suite in keeper.suites)
    if not paths and not refused:
        raise NoResultsError(
            f"There is no finished submission in {given}. Specify the folder that contains your submissions, or make a "
            "submission with decabench predict. No board was written."
        )
    if refused:
        shown = "; ".join(f"{each.path}: {each.reason}" for each in refused[:3])
        more = f"; and {len(refused) - 3:,} more" if len(refused) > 3 else ""
        raise NoResultsError(
            f"Nothing in {given} can be shown on a board for {names}. {shown}{more}. No board was written."
        )
    files = (path.name for name in paths for path in folder.glob(f"{name}/{FOLDER}/*"))
    answered = {name.partition(".jsonl")[0].rpartition(".")[0] for name in files}
    others = [
        suite.name
        for suite in known_suites(keeper.options.include).values()
        if answered.intersection(suite.tasks)
    ]
    advice = (
        f"Choose --suite {others[0]}"
        if others
        else "Define a suite with these tasks, and choose it with --suite"
    )
    listed = ", ".join(sorted(answered))
    raise NoResultsError(
        f"No submission in {given} has answers to any task in {names}"
        f"{f', only to {listed}' if listed else ''}. {advice}. No board was written."
    )


def _load_metrics(tasks: Mapping[str, Task]) -> dict[str, Metric]:
    """Return all metrics by name: the built-in metrics and the known tasks' metrics."""
    metrics = dict(METRICS)
    for task in tasks.values():
        try:
            metrics.setdefault(task.metric, find_metric(task.metric))
        except (DecabenchError, ImportError):
            continue  # the board then shows the task's scores without their scale
    return metrics


def rank_entries(suite: Suite, entries: Sequence[Entry], keeper: Keeper) -> Board:
    """Rank the entries of a suite. A split with hidden labels counts as public if its labels are available here."""
    tasks = {
        name: replace(task, hidden=tuple(split for split in task.hidden if not keeper.hides(name, split)))
        if task.hidden
        else task
        for name, task in keeper.tasks.items()
    }
    # The page computes the intervals of differences itself, unless labels are hidden.
    has_hidden = any(keeper.hides(name, split) for name in suite.tasks for split in RANKED_SPLITS)
    return rank_suite(suite, entries, tasks, keeper.metrics, intervals=has_hidden)


def _example_files(pages: Pages, keeper: Keeper, earlier: Path | None) -> Iterator[File]:
    """Yield the files with the texts of the examples and the answers of every entry.

    Also stores the first example of each task and the number of answers of each entry in `pages`, which
    shows them. Only one task's data is in memory at a time.
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
            answered = [entry for entry in scored if not entry.runs]
            data = read_texts(column.name, split, keeper)
            if data.examples:
                pages.first_texts.setdefault(column.name, data.text(0))
                known = (entry.evidence[column.name].scores for entry in scored if entry.path in systems)
                right = [find_right(scores, column) for scores in known if scores is not None]
                yield from data.files(f"texts/{task}-{split}", right)
            for entry in answered:
                name = f"answers/{pages.submission_names[entry.path]}/{task}"
                found = read_answers_shown(entry, column, data, keeper, name, earlier)
                pages.excerpts.setdefault(entry.path, {})[column.name] = found.count, found.why
                yield from found.files


def _site_files(pages: Pages, keeper: Keeper, site: Path, is_whole: bool) -> Iterator[File]:
    """Yield the path and the content of each file of the site.

    If the earlier site at `site` is complete (`is_whole`), files of unchanged answers are reused from it.
    """
    yield from static_files()
    yield from _example_files(pages, keeper, site if is_whole else None)
    names = pages.submission_names
    for board in pages.boards:
        for table in board.tables:
            for index, row in enumerate(table.compared_rows):
                name = names[row.entry.path]
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
    described = {}
    for board in pages.boards:
        file = pages.board_files[board.suite.name]
        tables = overview_data(
            board,
            board.tables or [without_results(board)],
            names,
            pages.task_names,
            keeper.tasks,
            keeper.hides,
        )
        yield f"data/boards/{file}.js", make_script(f"boards/{file}", tables)
        described[file] = describe_board(board, names, pages.refused)
        yield f"{file}.csv", board_csv(described[file]).encode("utf-8")
        yield f"{file}.json", board_json(described[file]).encode("utf-8")
        yield f"{file}-embed.html", pages.render_embed(board)
        yield pages.board_pages[board.suite.name], pages.render_overview(board)
    builds = list_builds(described, site)
    dates = [entry.date for entry in pages.entries if re.fullmatch(r"\d{4}-\d\d-\d\d", entry.date)]
    yield "changes.html", pages.render_changes(builds)
    yield CHANGES, write_changes(builds)
    yield "changes.xml", write_feed(pages.boards[0].suite.title, builds, max(dates, default="1970-01-01"))

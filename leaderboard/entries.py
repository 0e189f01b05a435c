"""Reads the results files below a folder into entries of a board: text is sanitized, refused files are listed.

Links directly in the submissions folder are the board keeper's own and are followed. A link inside a submission is
followed only if it stays there.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from decabench.errors import DecabenchError, StorageError
from decabench.files import is_within
from decabench.metrics import METRICS
from decabench.scoring import (
    InvalidResultsError,
    LimitedRun,
    Results,
    TaskResult,
    VariantScores,
    read_bounded,
    show_units,
)
from decabench.submission import METADATA_NAME
from decabench.tasks import DECATHLON, SUITES, Suite, is_task_name

__all__ = [
    "RANKED_SPLITS",
    "Check",
    "Entries",
    "Entry",
    "EvidenceKind",
    "LeaderboardError",
    "NoResultsError",
    "Refusal",
    "TaskEntry",
    "describe_submission",
    "entry_from_results",
    "is_inside",
    "is_same_suite",
    "printable_line",
    "read_submissions",
    "submission_folder",
    "submissions_root",
]

RANKED_SPLITS = ("validation", "test")
"""The splits that are ranked, in the order of the page."""

_DEPTH = 4
"""How many levels of folders to search for results: `<group>/<submission>/results/<split>`."""

_DEPTH_SEEN = 12
"""How many levels to search for results that lie too deep, only to name them."""

RESULTS_NAME = "results.json"
"""The file that `evaluate` writes."""

_MOST_TASKS = 100
"""The largest number of tasks in a suite that a results file may define: each gets a page."""

_LONGEST_PATH = 1_000
"""The longest path of a results file, in characters."""

_MOST_MARKS = 4
"""How many combining marks may follow each other: more of them cover the lines above and below."""

_JOINERS = "\u200c\u200d"
"""Invisible characters that some scripts need to be written rightly."""

_BLANKS = frozenset(
    {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}.union(
        range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
    )
)
"""Characters that are not seen, though Unicode has them as letters, marks or symbols."""

_MARKS = re.compile(
    f"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{{{_MOST_MARKS + 1},}}"
)
"""Stacks of combining marks."""


class LeaderboardError(DecabenchError, ValueError):
    """The site cannot be built or served."""


class NoResultsError(LeaderboardError):
    """There are no results to build a board from."""

    exit_code: ClassVar[int] = 1


EvidenceKind = Literal["verified", "consistent", "self-reported"]
"""What a score rests on: scored here from answers and data, recomputed here from statistics, or only stated."""


@dataclass(frozen=True)
class Check:
    """How a score was checked when the board was built."""

    kind: EvidenceKind = "self-reported"
    """What the score rests on."""
    detail: str = "it has not been checked"
    """What was checked, or why nothing could be."""
    version: str = ""
    """The version of decabench that checked it; empty if nothing was checked."""
    date: str = ""
    """The day on which its answers were scored here, such as `2026-11-22`; empty unless verified."""


@dataclass(frozen=True)
class TaskEntry:
    """One task in one results file."""

    status: str
    """`scored`, `partial` (a limited run) or `failed`; a missing task has no entry."""
    score: float | None = None
    """The headline score, in the metric's unit; None for a failed task or a limited run."""
    limited: LimitedRun | None = None
    """The limited run, if it is one."""
    limited_score: float | None = None
    """Its headline score on the examples that it answered: shown, but never summed, ranked or compared."""
    reason: str = ""
    """Why the task failed."""
    signature: str = ""
    """The headline metric's signature; scores with different signatures are not compared."""
    is_current: bool = False
    """Whether that is the signature of the metric here; False also if nothing was checked."""
    n: int | None = None
    """The number of examples scored."""
    fingerprint: str = ""
    """The fingerprint of the data; scores on different data are not compared."""
    origin: str = ""
    """`upstream`, `mirror`, `sample` or `user`."""
    verified: bool = False
    """Whether the data matched published checksums; the submitter's word unless it is at hand."""
    published_count: int | None = None
    """The number of examples in this split according to the dataset's paper, for a task that is known here."""
    note: str = ""
    """A note on the data, written when it was prepared; the submitter's words unless it is at hand."""
    at_hand: bool = False
    """Whether the data that was scored is prepared here, so that what is said of it is known."""
    metric: str = ""
    """The headline metric's name."""
    headline: str = ""
    """Which of the scores is the headline."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """All scores by name; once audited, those that were recomputed."""
    stated: Mapping[str, float] = field(default_factory=dict)
    """Further scores by name that nothing here gives: the submitter's word."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """Signatures by metric name."""
    interval: tuple[float, float] | None = None
    """The headline's 95 % interval, if the file has one."""
    units: str = ""
    """What the interval rests on: `48 articles (41.2 effective)`; empty if the file does not say."""
    empty: int | None = None
    """The number of empty answers."""
    answer_counts: Mapping[str, int] = field(default_factory=dict)
    """How many answers were `unparseable`, `truncated`, `refused` or given with `context_cut`."""
    gold_kept: float | None = None
    """If contexts were truncated: the percentage of examples that still contain the gold answer, 0–100."""
    wordings: VariantScores | None = None
    """The scores for other wordings, if the questions were also asked in those."""
    predictions: str = ""
    """The digest of the answers that were scored."""
    rows: int = 0
    """The number of examples in the data, as the file states it."""
    check: Check = Check()
    """How the score was checked."""

    @property
    def any_score(self) -> float | None:
        """The headline score, also that of a limited run."""
        return self.limited_score if self.limited else self.score


@dataclass(frozen=True)
class Entry:
    """One results file: a submission on one split, scored for one suite. All text is sanitized to one short line."""

    path: str
    """The path of the file, relative to the submissions folder."""
    name: str
    """The submission's name."""
    split: str
    """`validation` or `test`."""
    total: float | None
    """The suite's total as stated in the file; None unless all tasks of the suite are scored."""
    tasks: Mapping[str, TaskEntry]
    """Tasks by name, including those outside the suite."""
    suite: Suite = DECATHLON
    """The suite that the submission was scored for."""
    authors: tuple[str, ...] = ()
    """Who submitted it."""
    description: str = ""
    """The submission's own description."""
    url: str = ""
    """An http or https address; empty if there is none."""
    model_size: int | None = None
    """The number of parameters."""
    training_data: str = ""
    """What the submission was trained on, according to its authors."""
    date: str = ""
    """The date, as given."""
    predictor: str = ""
    """The name of the predictor that wrote the answers, if the file names one."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of the total, if the file has one."""
    open_weights: bool | None = None
    """Whether the weights are available; None if not stated."""
    version: str = ""
    """The version of decabench that scored it."""
    wording: str = ""
    """The question variant asked instead of the dataset's own, as stated; empty for none."""
    is_raw: bool = False
    """Whether the model's whole output was scored rather than the extracted answer."""

    @property
    def standing(self) -> str:
        """Its kind; `partial` for limited runs alone, and `failed` if it has no score at all."""
        has_limited = any(self.tasks[name].limited for name in self.suite.tasks if name in self.tasks)
        return self.kind or ("partial" if has_limited else "failed")

    @property
    def kind(self) -> EvidenceKind | None:
        """The weakest evidence of the scores of its suite; None if it has no score."""
        scored = [self.tasks[name] for name in self.suite.tasks if name in self.tasks]
        found = {task.check.kind for task in scored if task.score is not None}
        kinds: tuple[EvidenceKind, ...] = ("self-reported", "consistent", "verified")
        return next((kind for kind in kinds if kind in found), None)

    @property
    def apart(self) -> str:
        """Why it stands apart from the results that are ranked; empty if it does not."""
        if self.kind == "self-reported":
            return "self-reported"
        if self.wording:
            return "other wording"
        return "whole output" if self.is_raw else ""

    @property
    def year(self) -> str:
        """The year, such as `2026`; empty if the date does not start with one."""
        return self.date[:4] if len(self.date) >= 4 and self.date[:4].isdecimal() else ""


@dataclass(frozen=True)
class Refusal:
    """A file that was left off the board, and the reason."""

    path: str
    """The path of the file, relative to the submissions folder."""
    reason: str
    """What is wrong with the file."""

    @property
    def submission(self) -> str:
        """The folder of its submission, relative to the submissions folder."""
        return submission_folder(self.path)


@dataclass(frozen=True)
class Entries:
    """Everything below a submissions folder, ordered by path."""

    entries: tuple[Entry, ...] = ()
    """The results files that can be shown on a board."""
    refused: tuple[Refusal, ...] = ()
    """Files that look like results but are damaged or contradict themselves."""
    not_evaluated: tuple[str, ...] = ()
    """Folders with a `submission.toml` and no results file."""
    too_deep: tuple[str, ...] = ()
    """Folders whose results files lie too deep, and were not read."""


def submissions_root(folder: Path) -> tuple[Path, str]:
    """Return the folder of submissions, and the only one to read if `folder` is itself a submission, else "".

    Answers and links are looked for within the submission that a path begins with, so paths must begin with one.
    """
    if not (folder / METADATA_NAME).is_file():
        return folder, ""
    whole = folder if folder.name not in ("", "..") else folder.resolve()
    return (whole.parent, whole.name) if whole.name else (folder, "")


def read_submissions(submissions: Path, suites: Mapping[str, Suite] = SUITES, only: str = "") -> Entries:
    """Read every results file: `results*.json`, `*.results.json`, and any `*.json` in a folder `results`.

    `suites` are the known suites by name: a file that uses one of their names for other tasks is refused. Files may
    define other suites; where they define one name in different ways, each definition gets a name of its own.
    `only` is the one submission in the folder to read. Raises LeaderboardError if the folder does not exist.
    """
    if not submissions.is_dir():
        raise LeaderboardError(
            f"The folder {submissions} does not exist: give the folder that contains the submissions."
        )
    entries: list[Entry] = []
    refused: list[Refusal] = []
    evaluated: set[str] = set()
    seen: set[tuple[str, str]] = set()
    deep: list[str] = []
    for path, shown in _candidates(submissions, only, refused, deep):
        home = submission_folder(shown)
        if reason := _path_fault(shown):
            evaluated.add(home)
            refused.append(Refusal(printable_line(_printable(shown)), reason))
            continue
        try:
            text = read_bounded(path)
            results = Results.from_json(text, shown)
            if results.split not in RANKED_SPLITS:
                reason = f"its split is {results.split}; only {' and '.join(RANKED_SPLITS)} are ranked"
                raise InvalidResultsError(shown, reason)
            suite = _known_or_own(results.suite, suites, shown)
        except InvalidResultsError as error:
            if not error.kind.startswith("decabench.") or error.kind.startswith("decabench.results/"):
                evaluated.add(home)
                refused.append(Refusal(_printable(shown), printable_line(error.reason, 300)))
            continue
        except StorageError as error:
            reason = os.strerror(getattr(error.__cause__, "errno", 0))
            refused.append(Refusal(_printable(shown), f"it cannot be read ({reason})"))
            continue
        evaluated.add(home)
        if (home, text) not in seen:
            seen.add((home, text))
            entries.append(replace(entry_from_results(results, shown), suite=suite))
    deep = [shown for shown in deep if _is_results_file(submissions / shown, shown)]
    too_deep = sorted({submission_folder(shown) for shown in deep} - evaluated)
    evaluated.update(too_deep)
    waiting = (folder for folder in _submission_folders(submissions, only) if folder not in evaluated)
    return Entries(
        tuple(_name_suites(entries, suites)),
        tuple(sorted(refused, key=lambda refusal: refusal.path)),
        tuple(_printable(folder) for folder in waiting),
        tuple(_printable(folder) for folder in too_deep),
    )


# Suites that results files define

Definition = tuple[tuple[str, ...], str]
"""(tasks, total): what decides the total of a suite."""

_DIGEST_AT_END = re.compile(r"-[0-9a-f]{8,64}$")
"""How a name ends that holds a digest of the suite's definition."""


def _known_or_own(suite: Suite, known: Mapping[str, Suite], shown: str) -> Suite:
    """Return the known suite with a file's suite name, or the file's own suite, sanitized.

    Raises InvalidResultsError if it differs from the known suite of the same name.
    """
    if same := known.get(suite.name):
        if _definition(same) != _definition(suite):
            reason = (
                f"its suite {suite.name} is {_describe_suite(suite)}, but the suite {suite.name} that is known "
                f"here is {_describe_suite(same)}; give a suite of your own another name"
            )
            raise InvalidResultsError(shown, reason)
        return same
    if len(suite.tasks) > _MOST_TASKS or not all(map(is_task_name, (suite.name, *suite.tasks))):
        raise InvalidResultsError(
            shown,
            f"its suite has more than {_MOST_TASKS} tasks, or names of more than 80 characters or with "
            "characters other than a-z, 0-9, '.', '_' and '-'",
        )
    title = printable_line(suite.title, 80)
    title = suite.name if not title or _looks_latin(title) else title
    total_name = printable_line(suite.total_name, 40) or "total"
    names = {_folded(one.total_name) for one in known.values() if not one.total_name.islower()}
    if _looks_latin(total_name) or _folded(total_name) in names:
        total_name = "total"  # such as decaScore, which is that of one suite
    # Nothing else is taken from the file: published scores and links would be the submitter's own.
    return Suite(suite.name, title, suite.tasks, suite.total, total_name, origin="user")


def _definition(suite: Suite) -> Definition:
    return suite.tasks, suite.total


def is_same_suite(one: Suite, other: Suite) -> bool:
    """Return whether two suites have one name and one definition; titles do not matter."""
    return (one.name, _definition(one)) == (other.name, _definition(other))


def _describe_suite(suite: Suite) -> str:
    tasks = ", ".join(suite.tasks[:5]) + (f" and {len(suite.tasks) - 5} more" if len(suite.tasks) > 5 else "")
    return f"{tasks} (total: {suite.total})"


def _name_suites(entries: Sequence[Entry], known: Mapping[str, Suite]) -> Iterator[Entry]:
    """Give entries of one suite one Suite value, and every definition of a suite its own name and title.

    No file may decide what a name means for the others. So where files define one name in different ways, a digest of
    the definition is added to each name; likewise to names that end like such a digest, so that nobody can take one.
    Where files only differ in the words to display, the plain name is shown, as for a title that another suite has.
    """
    suites: dict[tuple[str, Definition], list[Suite]] = {}
    for entry in entries:
        if entry.suite.name not in known:
            suites.setdefault((entry.suite.name, _definition(entry.suite)), []).append(entry.suite)
    rivals = Counter(name for name, _ in suites)
    named: dict[tuple[str, Definition], Suite] = {}
    for (name, definition), same in suites.items():
        title = same[0].title if len({suite.title for suite in same}) == 1 else name
        total_name = same[0].total_name if len({suite.total_name for suite in same}) == 1 else "total"
        if rivals[name] > 1 or _DIGEST_AT_END.search(name):
            digest = _definition_digest(definition, [other for one, other in suites if one == name])
            title, shown_name = f"{title} ({digest})", f"{name}-{digest}"
        else:
            shown_name = name
        named[name, definition] = replace(same[0], name=shown_name, title=title, total_name=total_name)
    taken = [(suite.name, text) for suite in (*known.values(), *named.values()) for text in _labels(suite)]
    for key, suite in named.items():
        if any(name != suite.name and text == _folded(suite.title) for name, text in taken):
            named[key] = replace(suite, title=suite.name)
    for entry in entries:
        key = (entry.suite.name, _definition(entry.suite))
        yield replace(entry, suite=named[key]) if key in named else entry


def _definition_digest(definition: Definition, rivals: Sequence[Definition]) -> str:
    """Return eight hexadecimal digits of a definition, or all of them if a rival shares the eight."""

    def digest(one: Definition) -> str:
        tasks, total = one
        return hashlib.sha256("\n".join((total, *tasks)).encode()).hexdigest()

    whole = digest(definition)
    is_shared = any(other != definition and digest(other)[:8] == whole[:8] for other in rivals)
    return whole if is_shared else whole[:8]


def _labels(suite: Suite) -> set[str]:
    return {_folded(suite.name), _folded(suite.title)}


def _looks_latin(text: str) -> bool:
    """Return whether a word of a text has letters of another script that look like Latin ones.

    Beside Latin letters, or, where the text has some elsewhere, as a whole word.
    """
    words = ["".join(filter(str.isalpha, word)) for word in re.split(r"[\W\d_]+", text)]
    is_mixed = any(map(_is_latin, text))
    return any(
        any(map(_is_latin, word)) or (is_mixed and len(word) > 2 and _LIKE_LATIN.issuperset(word))
        for word in words
        if not _LIKE_LATIN.isdisjoint(word)
    )


def _is_latin(character: str) -> bool:
    return unicodedata.name(character, "").startswith("LATIN")


_LIKE_LATIN = frozenset(
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u050c"
    "\u051b\u051c\u0430\u0435\u0455\u0456\u0458\u043e\u0440\u0441\u0443\u0445\u04bb\u0501\u051b\u051d"
    "\u04cf\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf"
    "\u03b1\u03b9\u03ba\u03bd\u03c1\u03c5\u03c7\u0555\u054d\u054f\u053c\u0561\u0578\u057d\u0584\u0585"
    "\u0581\u0570"
)
"""Cyrillic, Greek and Armenian letters that look like Latin ones."""


def _folded(text: str) -> str:
    """Return a text without what the eye may miss: case, width and spaces."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


# Files


def _is_results_file(path: Path, shown: str) -> bool:
    """Return whether a file is decabench's, and not another program's of the same name."""
    try:
        Results.from_json(read_bounded(path), shown)
    except InvalidResultsError as error:
        return error.kind.startswith("decabench.results/")
    except StorageError:
        pass  # it is reported when it is read
    return True


def _candidates(
    submissions: Path, only: str, refused: list[Refusal], deep: list[str]
) -> list[tuple[Path, str]]:
    """Return (file, path to show) pairs, with each file only once even if several links lead to it."""
    found: dict[str, tuple[Path, str]] = {}
    for path, shown in sorted(
        _walk(submissions, only, refused, deep), key=lambda pair: (pair[1].count("/"), pair[1])
    ):
        if _is_results_name(path):
            found.setdefault(os.path.realpath(path), (path, shown))
    return sorted(found.values(), key=lambda pair: pair[1])


def _submission_folders(submissions: Path, only: str) -> list[str]:
    manifests = (shown for path, shown in _walk(submissions, only, [], []) if path.name == METADATA_NAME)
    return sorted(submission_folder(shown) for shown in manifests)


def _walk(
    submissions: Path, only: str, refused: list[Refusal], deep: list[str]
) -> Iterator[tuple[Path, str]]:
    """Yield every (file, path to show) that is not behind a link out of its submission.

    Paths of files `results.json` that lie too deep are added to `deep`.
    """

    def refuse(error: OSError) -> None:
        folder = os.path.relpath(error.filename or submissions, submissions)
        if len(Path(folder).parts) - bool(only) > _DEPTH:
            return
        refused.append(Refusal(_printable(folder), error.strerror or "cannot be opened"))

    def stays(path: Path) -> bool:
        if not path.is_symlink() or is_inside(path, submissions):
            return True
        shown = path.relative_to(submissions).as_posix()
        reason = (
            "it is a link that leads out of its submission: put a copy there, or link the whole submission"
        )
        if path.is_dir() or _is_results_name(path):
            refused.append(Refusal(_printable(shown), reason))
        return False

    def goes_on(path: Path, depth: int) -> bool:
        if path.name.startswith("."):
            return False
        if depth >= _DEPTH:  # links are not followed: they may lead round in circles
            return depth < _DEPTH_SEEN and not path.is_symlink()
        return stays(path)

    top = submissions / only
    for folder, folders, files in os.walk(top, onerror=refuse, followlinks=True):
        here = Path(folder)
        depth = len(here.relative_to(top).parts)
        folders[:] = sorted(name for name in folders if goes_on(here / name, depth))
        if depth > _DEPTH:
            if RESULTS_NAME in files:
                deep.append((here / RESULTS_NAME).relative_to(submissions).as_posix())
            continue
        for name in sorted(files):
            if stays(here / name):
                yield here / name, (here / name).relative_to(submissions).as_posix()


def is_inside(path: Path, submissions: Path) -> bool:
    """Return whether a path below the submissions folder really lies in the submission that it is named under."""
    first = path.relative_to(submissions).parts[0]
    return is_within(submissions / first, path)


def _is_results_name(path: Path) -> bool:
    name = path.name
    if name.startswith(".") or not name.endswith(".json"):
        return False
    return name.startswith("results") or name.endswith(".results.json") or path.parent.name == "results"


def submission_folder(shown: str) -> str:
    """Return the submission's folder that a results file belongs to; `.` is the submissions folder itself."""
    parts = Path(shown).parent.parts
    return Path(*(parts[: parts.index("results")] if "results" in parts else parts)).as_posix()


def _printable(path: str) -> str:
    return "".join(
        c if c.isprintable() else "\ufffd" for c in path.encode("utf-8", "replace").decode("utf-8")
    )


def entry_from_results(results: Results, path: str) -> Entry:
    """Convert results to an entry: text is sanitized and shortened, and extras of the wrong type are dropped."""
    return Entry(
        path=path,
        split=results.split,
        total=results.total.score if results.total.complete else None,
        tasks={printable_line(name): _task_entry(task) for name, task in results.tasks.items()},
        interval=results.interval,
        version=printable_line(results.decabench, 40),
        is_raw=results.answers == "raw",
        suite=results.suite,
        **describe_submission(results.submission),
    )


def describe_submission(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry that say who submitted it, and what."""
    predictor, authors = about.get("predictor"), about.get("authors")
    settings: Mapping[str, Any] = predictor if isinstance(predictor, Mapping) else {}
    open_weights = settings.get("open_weights")
    return {
        "name": _printable_name(about["name"]),
        "authors": tuple(
            name
            for author in (authors[:20] if isinstance(authors, list | tuple) else [authors])
            if (name := printable_line(author, 80))
        ),
        "description": printable_line(about.get("description"), 500),
        "url": _web_address(about.get("url")),
        "model_size": _count(about.get("model_size")),
        "training_data": printable_line(about.get("training_data"), 500),
        "date": printable_line(about.get("date"), 40),
        "predictor": printable_line(settings.get("name") if settings else predictor, 80),
        "open_weights": open_weights if isinstance(open_weights, bool) else None,
        "wording": _describe_wording(settings.get("variant")),
    }


def _describe_wording(variant: object) -> str:
    """Describe the stated variant of the questions; anything but none and the number 0 is another wording."""
    if variant is None or (isinstance(variant, int) and variant is not False and variant == 0):
        return ""
    return printable_line(variant if isinstance(variant, str) else repr(variant), 40) or "unnamed"


def _task_entry(task: TaskResult) -> TaskEntry:
    metric = METRICS.get(task.metric)
    score = task.score
    if score is not None and metric is not None and metric.range[1] < score <= metric.range[1] + 1e-6:
        score = metric.range[1]  # a perfect BLEU is 100.00000000000004
    limited = None
    if task.status == "partial" and task.partial:
        limited = replace(task.partial, chosen=printable_line(task.partial.chosen))
    counts = {key: task.answers.get(key, 0) for key in ("unparseable", "refused", "truncated", "context_cut")}
    return TaskEntry(
        status=task.status,
        score=score if task.status == "scored" else None,
        limited=limited,
        limited_score=score if limited else None,
        reason=printable_line(task.reason) or ("no reason given" if task.status == "failed" else ""),
        signature=printable_line(task.signatures.get(task.metric, task.signature), 300),
        n=task.n,
        fingerprint=printable_line(task.data.fingerprint),
        origin=printable_line(task.data.origin, 40),
        verified=task.data.verified,
        published_count=task.data.published_count,
        note=printable_line(task.data.note, 500),
        metric=printable_line(task.metric, 80),
        headline=printable_line(task.headline, 80),
        scores={printable_line(name, 80): value for name, value in sorted(task.scores.items())[:60]},
        signatures={
            printable_line(name, 80): printable_line(value, 300)
            for name, value in sorted(task.signatures.items())[:20]
        },
        interval=task.interval,
        units=printable_line(show_units(task.units)),
        empty=task.empty,
        answer_counts={key: count for key, count in counts.items() if count},
        gold_kept=task.ceiling,
        wordings=_wordings(task, metric is None or metric.higher_is_better),
        predictions=printable_line(task.predictions, 100),
        rows=task.data.rows,
    )


def _wordings(task: TaskResult, higher_is_better: bool) -> VariantScores | None:
    """Recompute the summary of the variants' scores rather than trust the file."""
    if task.variants is None:
        return None
    headlines = {**task.variants.scores, **task.variants.retired}
    if len(headlines) < 2:
        return None
    in_order = dict(sorted(headlines.items(), key=lambda each: int(each[0])))
    return VariantScores.of(in_order, higher_is_better, task.variants.retired)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _web_address(value: object) -> str:
    """Return a plain http or https address, or "" for anything else: `javascript:` must never become a link."""
    if not isinstance(value, str) or len(value) > 500 or not value.isprintable() or " " in value:
        return ""
    try:
        parts = urlsplit(value)
        safe = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return ""
    return value if safe else ""


def printable_line(value: object, limit: int = 200) -> str:
    """Return a value as one short line of well-formed text; anything but a string is empty."""
    if not isinstance(value, str):
        return ""
    whole = value[: 4 * limit].encode("utf-8", "replace").decode("utf-8")
    if not (whole.isascii() and whole.isprintable()):  # most are, and each character takes a look
        whole = "".join(
            " " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character
            for character in whole
            if _is_shown(character)
        )
        whole = _MARKS.sub(lambda found: found[0][:_MOST_MARKS], whole)
    line = " ".join(whole.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _path_fault(path: str) -> str:
    """Say why a path cannot be shown as it is, so that it could look like that of another file; empty if it can."""
    if len(path) > _LONGEST_PATH:
        return f"its path has more than {_LONGEST_PATH:,} characters"
    for character in path:
        is_space = unicodedata.category(character) == "Zs"
        is_kept = _is_shown(character) or character == _EMOJI
        if not is_kept or not (character.isprintable() or is_space or character in _JOINERS):
            return f"its path has the character U+{ord(character):04X}, which is not seen: rename it"
    return ""


_EMOJI = "\ufe0f"
"""Has the character before it shown as a picture."""

_IDLE_JOINERS = re.compile(f"(?<![^\\x00-\\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\\x00-\\x7f])")
"""Those beside nothing, or a character of ASCII, which they do not change."""


def _printable_name(value: object) -> str:
    """Return a submission's name so that names which look alike for what is not seen in them are the same."""
    return printable_line(_IDLE_JOINERS.sub("", printable_line(value, 120))) or "unnamed"


def _is_shown(character: str) -> bool:
    """Whether a character is seen, or needed by those beside it; marks of direction and the like are not."""
    return character in _JOINERS or not (unicodedata.category(character) == "Cf" or ord(character) in _BLANKS)

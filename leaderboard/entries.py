"""The parts of a board: entries, rows, columns and tables.

Untrusted text in an entry is always cleaned, so that it is one short line without invisible characters.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.scoring import PairTests, Sample, TaskResult, system_and_seed
from decabench.submission import TIME, PredictionFile
from decabench.tasks import DECATHLON, Suite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

RANKED_SPLITS = ("validation", "test")
"""The ranked splits, in the order of the page."""

Kind = Literal["verified", "reported"]
"""`verified` if the answers were scored on this machine, and `reported` if the submitter stated the score."""


class LeaderboardError(DecabenchError, ValueError):
    """Raised if the site can't be built."""


class NoResultsError(LeaderboardError):
    """Raised if there are no results to build a board from."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True)
class Evidence:
    """The evidence for a task's score."""

    kind: Kind = "reported"
    """Whether the score was computed on this machine or stated by the submitter."""
    why: str = ""
    """Why the score was not computed on this machine, or an empty string if it was."""
    sample: Sample | None = None
    """The condensed statistics behind the score, or None if they are not available."""
    scores: Array | None = None
    """The headline score of each example, of shape (examples,). NaN if an example has no score."""
    key: str = ""
    """The key of the result in the ledger, or an empty string if it has no entry there."""


@dataclass(frozen=True)
class Entry:
    """A submission's results on one split, for one suite."""

    path: str
    """A unique path such as `mqan/validation`. On all boards except the first, the suite's name is appended."""
    name: str
    """The submission's name."""
    split: str
    """The split: `validation` or `test`."""
    tasks: Mapping[str, TaskResult]
    """The results by task, in the order of the suite. Tasks without answers are left out."""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """The evidence for the results, by task."""
    suite: Suite = DECATHLON
    """The suite that the results are ranked in."""
    submission: str = ""
    """The submission's folder, archive or results file, relative to the folder of submissions.

    Empty for a baseline made for the board.
    """
    files: Mapping[tuple[str, str], PredictionFile] = field(default_factory=dict)
    """The answer files by (task, split), if the submission is a folder; otherwise empty."""
    total: float | None = None
    """The suite's total, or None if a task has no score or the suite has no total."""
    interval: tuple[float, float] | None = None
    """The 95% interval of the total."""
    apart: str = ""
    """Why the entry is listed separately, or an empty string if it is ranked."""
    remarks: tuple[str, ...] = ()
    """Further remarks to show on the board."""
    authors: tuple[str, ...] = ()
    """The authors' names."""
    description: str = ""
    """The submission's description, written by its authors."""
    url: str = ""
    """An http or https URL, or an empty string."""
    model_size: int | None = None
    """The number of parameters."""
    training_data: str = ""
    """The training data, according to the authors."""
    date: str = ""
    """The date, as stated by the submission."""
    predictor: str = ""
    """The name of the predictor that wrote the answers, if known."""
    open_weights: bool | None = None
    """Whether the weights are available, or None if not stated."""
    usage: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The number of tokens and the cost of the answers, as stated by the submission, by `<task>.<split>`."""
    times: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The stated `seconds` spent on answering and the number of `answers`, by `<task>.<split>`."""
    served_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The model names that servers reported, sorted, by `<task>.<split>`."""
    wording: str = ""
    """The question variant used instead of the dataset's wording, or an empty string."""
    system: str = ""
    """A digest that is equal for runs that differ only in their seeds. Empty if the model is not named."""
    seed: str = ""
    """The seed, as JSON."""
    runs: tuple[Entry, ...] = ()
    """The runs of the system, if the scores of this entry are the means of several runs."""

    @property
    def kind(self) -> Kind | None:
        """The weakest kind of evidence for the scores, or None if there are no scores."""
        kinds = {self.evidence[name].kind for name in self.tasks if self.score(name) is not None}
        return "reported" if "reported" in kinds else "verified" if kinds else None

    @property
    def standing(self) -> str:
        """The kind of evidence. If there are no scores, `partial` for a limited run, and `failed` otherwise."""
        has_limited = any(task.status == "partial" for task in self.tasks.values())
        return self.kind or ("partial" if has_limited else "failed")

    @property
    def failure(self) -> str:
        """The reasons why tasks failed, if no task has a score; an empty string otherwise."""
        if self.standing != "failed":
            return ""
        return "; ".join(f"{name}: {printable_line(task.reason, 100)}" for name, task in self.tasks.items())

    @property
    def year(self) -> str:
        """The year, for example `2026`. Empty if the date doesn't start with a year."""
        return self.date[:4] if len(self.date) >= 4 and self.date[:4].isdecimal() else ""

    def score(self, task: str) -> float | None:
        """Return a task's headline score, or None. Limited runs count as unscored, because they are never compared."""
        result = self.tasks.get(task)
        return result.score if result is not None and result.status == "scored" else None

    def sample(self, task: str) -> Sample | None:
        """Return the statistics behind a task's score, or None if they are not available."""
        return self.evidence[task].sample if self.score(task) is not None else None


def names_by_reason(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group the names in (name, reason) pairs by reason."""
    names: dict[str, list[str]] = {}
    for name, reason in found:
        names.setdefault(reason, []).append(name)
    return names


@dataclass(frozen=True)
class Refusal:
    """A submission or file that was left off the board."""

    path: str
    """The path, relative to the folder of submissions."""
    reason: str
    """Why it was left off."""


# Parts of a board


@dataclass(frozen=True)
class Column:
    """A task's column on the board, with the scale of its headline metric."""

    name: str
    """The task's name, for example `squad`."""
    title: str
    """The task's title, for example `Question answering`."""
    metric: str
    """The name of the headline metric, for example `nf1`. Empty if unknown."""
    hidden: tuple[str, ...] = ()
    """Splits whose labels are not public."""
    low: float = 0.0
    """The lowest possible score."""
    high: float = 100.0
    """The highest possible score."""
    higher_is_better: bool = True
    """Whether higher scores are better."""

    @property
    def is_percentage(self) -> bool:
        """Whether scores run from 0 to 100."""
        return (self.low, self.high) == (0, 100)

    @property
    def digits(self) -> int:
        """The number of decimal places shown: 1 for bounded scales of at least 20 points, otherwise 3."""
        return 1 if 20 <= self.high - self.low < math.inf else 3

    @property
    def scale(self) -> str:
        """A description of the scale, for example `0 to 100` or `0 and up, lower is better`."""
        if math.isfinite(self.high - self.low):
            text = f"{self.low:g} to {self.high:g}".replace("-", "−")  # noqa: RUF001
        else:
            text = f"{self.low:g} and up" if math.isfinite(self.low) else "any number"
        return text if self.higher_is_better else f"{text}, lower is better"

    def show(self, score: float) -> str:
        """Format a score."""
        return f"{score:.{self.digits}f}"

    def show_interval(self, interval: tuple[float, float]) -> str:
        """Format an interval as `48.1–51.9`, or with `to` if an end can be negative."""
        low, high = map(self.show, interval)
        return f"{low}–{high}" if self.low >= 0 else f"{low} to {high}"

    def goodness(self, score: float) -> float:
        """Return a number that increases as the score improves."""
        return score if self.higher_is_better else -score


class State(IntEnum):
    """The completeness of a row's results. Rows are shown in the order of these values."""

    COMPLETE = 0
    PARTIAL = 1
    FAILED = 2
    """Some tasks are scored, and at least one failed."""
    NOTHING = 3
    """No task is scored, not even in a limited run."""


@dataclass(frozen=True)
class Cell:
    """A score, or the reason why there is no score."""

    task: str
    """The task's name."""
    status: str
    """`scored`, `limited`, `missing`, `failed` or `hidden`."""
    text: str
    """The formatted score, or an empty string."""
    label: str
    """The text shown instead of a score, or next to the score of a limited run."""
    interval: str = ""
    """The formatted interval, for example `48.1–51.9`. Empty if unknown."""
    value: float | None = None
    """The score. None for an unscored task or a limited run, which is never compared."""
    units: str = ""
    """The number of units behind the interval, for example `48 articles (41.2 effective)`. Empty if unknown."""
    deviation: float | None = None
    """The standard deviation of the score across runs, if the row has several runs."""


@dataclass(frozen=True)
class Place:
    """A system's place in a ranking."""

    rank: int
    """The rank. All systems in a rank group have the same rank, for example 1, 1, 3."""
    group: int
    """The number of the rank group, counted from 1."""
    best: int
    """The best possible rank: 1 plus the number of significantly better systems."""
    worst: int
    """The worst possible rank: the number of systems minus the number of significantly worse ones."""
    versus: str = ""
    """A description of the comparison that decided the group. Empty for the first system."""

    @property
    def span(self) -> str:
        """The range of possible ranks, for example `4–7`. Empty if only one rank is possible."""
        return f"{self.best}–{self.worst}" if self.best != self.worst else ""


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    entry: Entry
    """The submission and its results."""
    state: State
    """How complete the results are."""
    total: str
    """The formatted total. Empty if `value` is None."""
    cells: tuple[Cell, ...]
    """The cells, in the order of the tasks."""
    remarks: tuple[str, ...]
    """Why the row is not ranked, and further remarks."""
    mark: str
    """`baseline`, `ceiling` or an empty string."""
    value: float | None = None
    """The total, or None for incomplete results or a suite without a total."""
    interval: tuple[float, float] | None = None
    """The interval of the total."""
    interval_text: str = ""
    """The formatted interval of the total."""
    place: Place | None = None
    """The place in the ranking, or None if the row is not ranked."""
    runs: tuple[Row, ...] = ()
    """The rows of the runs, if the scores of this row are the means of several runs of the system."""
    deviation: float | None = None
    """The standard deviation of the total across the runs."""

    @property
    def rank(self) -> int | None:
        """The rank, or None if the row is not ranked."""
        return self.place.rank if self.place else None


@dataclass(frozen=True)
class DataLine:
    """The data and metric behind a task's scores."""

    task: str
    """The task's name."""
    origin: str
    """Where the data came from, for example `mirror`, `upstream files` or `bundled sample`."""
    known: str
    """A note on whether the data matches published checksums, or on who stated the origin.

    Can be empty.
    """
    count: str
    """The number of examples, out of those published if known, as in `1,000 of 10,570`."""
    is_subset: bool
    """Whether fewer examples were scored than the dataset officially has."""
    fingerprint: str
    """The data's fingerprint."""
    signature: str
    """The metric's signature."""
    note: str
    """A note about the data, recorded when it was prepared. Can be empty."""


@dataclass(frozen=True)
class Tests:
    """The tests of all pairs of rows in a table, in the order of `Standings.compared_rows`."""

    total: PairTests | None = None
    """Tests of the totals, adjusted for multiple comparisons across all pairs of ranked systems."""
    tasks: Mapping[str, PairTests] = field(default_factory=dict)
    """Tests of each task, adjusted for multiple comparisons across all pairs of systems ranked on it."""


@dataclass(frozen=True)
class Standings:
    """A table of comparable rows: one suite and split, with the same data and metric for each task."""

    id: str
    """A unique id for the suite, split, data and metrics."""
    split: str
    """The split: `validation` or `test`."""
    heading: str
    """A short description of the data."""
    counted: int
    """The number of tasks that a complete result must include."""
    is_whole: bool
    """Whether a complete result must include all tasks of the suite, because all have public labels."""
    total_name: str
    """The name of the total, such as `decaScore`, or `Total` if some labels are not public. Empty without a total."""
    total_unit: str
    """The unit of the total, for example `of 1000` or `mean of 16`. Empty if scales differ or there is no total."""
    rows: tuple[Row, ...]
    """The systems."""
    floors: tuple[Row, ...]
    """The baselines, listed separately and unranked."""
    ceilings: tuple[Row, ...]
    """The ceilings, listed separately and unranked."""
    apart: tuple[Row, ...]
    """Reported results, and results for other data or other wordings. They are not tested."""
    data: tuple[DataLine, ...]
    """The data and metric of each task."""
    tests: Tests = field(default_factory=Tests)
    """The significance tests that compare the rows."""

    @property
    def notes(self) -> dict[str, list[str]]:
        """For each note on the data, the names of the tasks that it applies to."""
        return names_by_reason((line.task, line.note) for line in self.data if line.note)

    @cached_property
    def ranked(self) -> int:
        """The number of ranked systems."""
        return sum(row.rank is not None for row in self.rows)

    @cached_property
    def all_rows(self) -> tuple[Row, ...]:
        """All rows that have their own page."""
        return self.compared_rows + self.apart

    @cached_property
    def compared_rows(self) -> tuple[Row, ...]:
        """All rows that can be compared: systems, baselines, ceilings, and then single runs."""
        whole = self.rows + self.floors + self.ceilings
        return whole + runs_of(whole)

    def find_system(self, run: Row) -> Row | None:
        """Return the row of the system that a run belongs to, or None if the row isn't one of several runs."""
        return self._systems.get(run.entry.path)

    @cached_property
    def _systems(self) -> Mapping[str, Row]:
        """The row of each run's system, by the path of the run."""
        whole = self.rows + self.floors + self.ceilings
        return {run.entry.path: row for row in whole for run in row.runs}


def runs_of(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows of all runs that belong to the given rows."""
    return tuple(run for row in rows for run in row.runs)


@dataclass(frozen=True)
class Board:
    """A suite with its columns and tables."""

    suite: Suite
    """The suite."""
    columns: tuple[Column, ...]
    """The columns, one for each task of the suite."""
    tables: tuple[Standings, ...] = ()
    """The tables, in the order of the page."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher total is better. All metrics in a total have the same direction."""
        known = [column.higher_is_better for column in self.columns if column.metric]
        return any(known) or not known

    @property
    def digits(self) -> int:
        """The number of decimal places of a total."""
        return max(column.digits for column in self.columns)

    def show(self, total: float) -> str:
        """Format a total."""
        return f"{total:.{self.digits}f}"

    def show_interval(self, interval: tuple[float, float]) -> str:
        """Format the interval of a total."""
        between = " to " if any(column.low < 0 for column in self.columns) else "–"
        return between.join(map(self.show, interval))

    def public(self, split: str) -> list[str]:
        """Return the names of the tasks whose labels are public on a split."""
        return [column.name for column in self.columns if split not in column.hidden]

    def combine(self, scores: Sequence[float]) -> float:
        """Combine scores into a total.

        Returns 0 if there are no scores or the suite has no total.
        """
        if not scores or self.suite.total == "none":
            return 0.0
        return math.fsum(scores) / (len(scores) if self.suite.total == "mean" else 1)

    def unit(self, tasks: int) -> str:
        """Return the unit of a total over some tasks, for example `of 1000` or `mean of 16`."""
        if len(self.columns) == 1 and not self.columns[0].is_percentage:
            return ""
        if self.suite.total == "mean":
            return f"mean of {tasks}" if len(self.columns) > 1 else "of 100"
        is_sum_of_points = self.suite.total == "sum" and all(column.is_percentage for column in self.columns)
        return f"of {100 * tasks}" if is_sum_of_points else ""


# Untrusted text

_MOST_MARKS = 4
"""The maximum number of consecutive combining marks. More would cover the lines above and below."""

_MARKS = re.compile(
    f"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{{{_MOST_MARKS + 1},}}"
)
_JOINERS = "\u200c\u200d"
"""Invisible characters that some scripts need for correct spelling."""

_IDLE_JOINERS = re.compile(f"(?<![^\\x00-\\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\\x00-\\x7f])")
"""Matches joiners that have no effect, because they are at the beginning or end of the text, or next to an
ASCII character."""

_EMOJI = "\ufe0f"
"""The variation selector that displays the previous character as an emoji."""

_BLANKS = frozenset(
    {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}.union(
        range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
    )
)
"""Invisible characters that Unicode classifies as letters, marks or symbols."""

_MOST_ITEMS = 60
"""The maximum number of scores or signatures kept for a task."""


def clean(value: Any) -> Any:
    """Replace every string in a value, at any depth, with a short printable line."""
    if value is None or isinstance(value, int | float):  # most values
        return value
    if isinstance(value, str):
        return printable_line(value, 500)
    if isinstance(value, Mapping):
        return {printable_line(key, 80): clean(each) for key, each in list(value.items())[:_MOST_ITEMS]}
    if isinstance(value, tuple):
        return tuple(map(clean, value[:_MOST_ITEMS]))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            name: new
            for name in value.__dataclass_fields__
            if (new := clean(old := getattr(value, name))) != old
        }
        return replace(value, **changed) if changed else value
    return value


def describe_submission(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry that describe the submission and its authors, without values of the wrong type."""
    predictor, authors, size = about.get("predictor"), about.get("authors"), about.get("model_size")
    settings: Mapping[str, Any] = predictor if isinstance(predictor, Mapping) else {}
    open_weights, variant = settings.get("open_weights"), settings.get("variant")
    names = authors[:20] if isinstance(authors, list | tuple) else [authors]
    # Names that look the same must be equal, because pages add paths to tell equal names apart.
    name = printable_line(_IDLE_JOINERS.sub("", printable_line(about["name"], 120))) or "unnamed"
    wording = printable_line(variant if isinstance(variant, str) else repr(variant), 40) or "unnamed"
    system, seed = system_and_seed(settings) or ("", "")
    return {
        "name": name,
        "authors": tuple(filter(None, (printable_line(author, 80) for author in names))),
        "description": printable_line(about.get("description"), 500),
        "url": _web_address(about.get("url")),
        "model_size": size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        "training_data": printable_line(about.get("training_data"), 500),
        "date": printable_line(about.get("date"), 40),
        "predictor": printable_line(settings.get("name") if settings else predictor, 80),
        "open_weights": open_weights if isinstance(open_weights, bool) else None,
        "usage": _read_numbers(settings.get("usage"), ("prompt_tokens", "completion_tokens", "cost")),
        "times": _read_numbers(settings.get(TIME), ("seconds", "answers")),
        "served_by": _read_served(settings.get("served_by")),
        "wording": "" if variant is None or (variant == 0 and variant is not False) else wording,
        "system": hashlib.sha256(system.encode("utf-8", "surrogatepass")).hexdigest()[:12] if system else "",
        "seed": printable_line(seed, 40),
    }


def _read_numbers(table: object, names: Sequence[str]) -> dict[str, dict[str, float]]:
    return {
        printable_line(key, 80): {
            name: float(each[name])
            for name in names
            if isinstance(each.get(name), int | float) and 0 <= each[name] < 1e15
        }
        for key, each in (table.items() if isinstance(table, Mapping) else ())
        if isinstance(each, Mapping)
    }


def _read_served(table: object) -> dict[str, tuple[str, ...]]:
    """Return the model names that servers reported, by `<task>.<split>`.

    Fingerprints such as `(fp_1)` are removed, because they can change for the same model.
    """
    return {
        printable_line(key, 80): tuple(
            sorted({re.sub(r" \([^()]*\)$", "", printable_line(name)) for name in names})
        )
        for key, names in (table.items() if isinstance(table, Mapping) else ())
        if isinstance(names, list | tuple)
    }


def _web_address(value: object) -> str:
    """Return an http or https URL unchanged, and an empty string for anything else, such as a `javascript:` URL."""
    if not isinstance(value, str) or len(value) > 500 or not value.isprintable() or " " in value:
        return ""
    try:
        parts = urlsplit(value)
        safe = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return ""
    return value if safe else ""


def printable_line(value: object, limit: int = 200) -> str:
    """Return a string as a short line of well-formed text. Any other value becomes an empty string."""
    if not isinstance(value, str):
        return ""
    whole = value[: 4 * limit]
    if not (whole.isascii() and whole.isprintable()):
        whole = "".join(
            " " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character
            for character in whole.encode("utf-8", "replace").decode("utf-8")
            if _is_shown(character)
        )
        whole = _MARKS.sub(lambda found: found[0][:_MOST_MARKS], whole)
    line = " ".join(whole.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def path_fault(path: str) -> str:
    """Return why a path can't be shown, or an empty string if it can.

    For example, an invisible character can make a path look like a different one.
    """
    for character in path:
        is_seen = character.isprintable() or unicodedata.category(character) == "Zs" or character in _JOINERS
        if not is_seen or not (_is_shown(character) or character == _EMOJI):
            return (
                f"its path contains the invisible character U+{ord(character):04X}; rename the file or folder"
            )
    return (
        "its path is longer than 1,000 characters; shorten the names of its folders"
        if len(path) > 1_000
        else ""
    )


def _is_shown(character: str) -> bool:
    # Joiners affect how adjacent characters look. Other format characters, such as direction marks, are dropped.
    return character in _JOINERS or not (unicodedata.category(character) == "Cf" or ord(character) in _BLANKS)

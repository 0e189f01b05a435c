"""Entries, rows, tables and boards: what a site shows. Untrusted text in an entry is one short, visible line."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.scoring import PairTests, Sample, TaskResult
from decabench.tasks import DECATHLON, Suite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "RANKED_SPLITS",
    "Board",
    "Cell",
    "Column",
    "DataLine",
    "Entry",
    "Evidence",
    "Kind",
    "LeaderboardError",
    "NoResultsError",
    "Place",
    "Refusal",
    "Row",
    "Standings",
    "State",
    "Tests",
    "clean",
    "describe_submission",
    "path_fault",
    "printable_line",
]

RANKED_SPLITS = ("validation", "test")
"""The splits that are ranked, in the order of the page."""

Kind = Literal["verified", "reported"]
"""Whether this machine scored the answers, or the submitter stated the number."""


class LeaderboardError(DecabenchError, ValueError):
    """The site cannot be built or served."""


class NoResultsError(LeaderboardError):
    """There are no results to build a board from."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True)
class Evidence:
    """The evidence behind the score of one task."""

    kind: Kind = "reported"
    """Whether the score was computed here."""
    why: str = ""
    """Why it was not computed here, if so."""
    sample: Sample | None = None
    """The statistics behind it, condensed; None if there are none."""
    scores: Array | None = None
    """(examples,): each example's individual headline score; NaN if it has none."""
    key: str = ""
    """The name of the result's entry in the ledger; empty if it has none."""


@dataclass(frozen=True)
class Entry:
    """A submission on one split, for one suite."""

    path: str
    """Identifies the entry: `mqan/validation`, followed by the suite on every board but the first."""
    name: str
    """The name of the submission."""
    split: str
    """`validation` or `test`."""
    tasks: Mapping[str, TaskResult]
    """The results by task of the suite; tasks without answers are missing."""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """The evidence behind the results, by task."""
    suite: Suite = DECATHLON
    """The suite that the results are ranked in."""
    submission: str = ""
    """The submission's folder, archive or results file, relative to the folder of submissions; empty for a
    baseline made for the board."""
    place: Path = Path()
    """Its location on disk."""
    total: float | None = None
    """The suite's total; None unless all tasks of the suite are scored."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of the total."""
    apart: str = ""
    """Why the entry is listed apart; empty if it is ranked."""
    remarks: tuple[str, ...] = ()
    """Further remarks for readers."""
    authors: tuple[str, ...] = ()
    """The authors' names."""
    description: str = ""
    """The submission's own description."""
    url: str = ""
    """An http or https address; empty if there is none."""
    model_size: int | None = None
    """The number of parameters."""
    training_data: str = ""
    """The submission's training data, according to its authors."""
    date: str = ""
    """The date, as given."""
    predictor: str = ""
    """The name of the predictor that wrote the answers, if stated."""
    open_weights: bool | None = None
    """Whether the weights are available; None if not stated."""
    usage: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The tokens and the cost of the answers, as far as the submission states them, by `<task>.<split>`."""
    wording: str = ""
    """The question variant that was asked instead of the dataset's wording, as stated; empty for none."""

    @property
    def kind(self) -> Kind | None:
        """The weakest evidence behind the scores; None if there is no score."""
        kinds = {self.evidence[name].kind for name in self.tasks if self.score(name) is not None}
        return "reported" if "reported" in kinds else "verified" if kinds else None

    @property
    def standing(self) -> str:
        """The kind; `partial` if there are only limited runs, and `failed` if there is no score at all."""
        has_limited = any(task.status == "partial" for task in self.tasks.values())
        return self.kind or ("partial" if has_limited else "failed")

    @property
    def year(self) -> str:
        """The year, such as `2026`; empty if the date does not start with one."""
        return self.date[:4] if len(self.date) >= 4 and self.date[:4].isdecimal() else ""

    def score(self, task: str) -> float | None:
        """Return a task's headline score; None for a limited run, which is never summed or compared."""
        result = self.tasks.get(task)
        return result.score if result is not None and result.status == "scored" else None

    def sample(self, task: str) -> Sample | None:
        """Return the statistics behind a task's score; None if there are none."""
        return self.evidence[task].sample if self.score(task) is not None else None


@dataclass(frozen=True)
class Refusal:
    """Something that was left off the board, and the reason."""

    path: str
    """The path in the folder of submissions."""
    reason: str
    """What is wrong or missing."""


# The parts of a board


@dataclass(frozen=True)
class Column:
    """A task as shown on the board, with the scale of its headline metric."""

    name: str
    """The task's name: `squad`."""
    title: str
    """The task's title: `Question answering`."""
    metric: str
    """The headline metric's name: `nf1`; empty if unknown."""
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
        """The number of decimals shown: 1 for long scales, 3 for short and unbounded ones."""
        return 1 if 20 <= self.high - self.low < math.inf else 3

    @property
    def scale(self) -> str:
        """A description of the scale: `0 to 100`, `0 and up, lower is better`."""
        if math.isfinite(self.high - self.low):
            text = f"{self.low:g} to {self.high:g}".replace("-", "−")  # noqa: RUF001
        else:
            text = f"{self.low:g} and up" if math.isfinite(self.low) else "any number"
        return text if self.higher_is_better else f"{text}, lower is better"

    def show(self, score: float) -> str:
        """Format a score."""
        return f"{score:.{self.digits}f}"

    def show_interval(self, interval: tuple[float, float]) -> str:
        """Format an interval: `48.1–51.9`, or with `to` if an end may be negative."""
        low, high = map(self.show, interval)
        return f"{low}–{high}" if self.low >= 0 else f"{low} to {high}"

    def goodness(self, score: float) -> float:
        """Return a number that increases as the score gets better."""
        return score if self.higher_is_better else -score


class State(IntEnum):
    """How complete the results of a row are, in the order of the rows."""

    COMPLETE = 0
    PARTIAL = 1
    FAILED = 2
    """Some tasks are scored, and at least one failed."""
    NOTHING = 3
    """No task is scored."""


@dataclass(frozen=True)
class Cell:
    """A score, or the reason for its absence."""

    task: str
    """The task's name."""
    status: str
    """`scored`, `limited`, `missing`, `failed` or `hidden`."""
    text: str
    """The formatted score; empty if there is none."""
    label: str
    """The text to show instead of a score, or next to the score of a limited run."""
    interval: str = ""
    """`48.1–51.9`; empty if unknown."""
    value: float | None = None
    """The score; None for a limited run, which is not compared."""
    units: str = ""
    """The units behind the interval: `48 articles (41.2 effective)`; empty if unknown."""


@dataclass(frozen=True)
class Place:
    """The place of a system in a ranking."""

    rank: int
    """The rank, which the systems of a group share: 1, 1, 3."""
    group: int
    """The number of the rank group, from 1."""
    best: int
    """The best possible rank."""
    worst: int
    """The worst possible rank: the ranks of significantly different systems are impossible."""
    versus: str = ""
    """The comparison that decided the group, in words; empty for the first system."""

    @property
    def span(self) -> str:
        """The possible ranks, `4–7`; empty if there is only one."""
        return f"{self.best}–{self.worst}" if self.best != self.worst else ""


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    entry: Entry
    """The submission and its results."""
    state: State
    """How complete the results are."""
    total: str
    """The formatted total; empty unless complete."""
    cells: tuple[Cell, ...]
    """One cell for each task."""
    remarks: tuple[str, ...]
    """Why the row is not ranked, and other remarks."""
    mark: str
    """`baseline`, `ceiling` or empty."""
    value: float | None = None
    """The total; None unless complete."""
    interval: tuple[float, float] | None = None
    """The interval of the total."""
    interval_text: str = ""
    """The formatted interval of the total."""
    place: Place | None = None
    """The place in the ranking; None if the row is not ranked."""

    @property
    def rank(self) -> int | None:
        """The rank; None if not ranked."""
        return self.place.rank if self.place else None


@dataclass(frozen=True)
class DataLine:
    """The data and metric behind one task's scores."""

    task: str
    """The task's name."""
    origin: str
    """`mirror`, `upstream files`, `bundled sample`, …"""
    known: str
    """Whether published checksums confirm the origin."""
    count: str
    """The number of examples, such as `1,000 of 10,570`, as far as known."""
    is_subset: bool
    """Whether fewer examples were scored than the dataset's paper reports."""
    fingerprint: str
    """The data's fingerprint."""
    signature: str
    """The metric's signature."""
    note: str
    """A note on the data, written when it was prepared."""


@dataclass(frozen=True)
class Tests:
    """The tests between all rows of a table, in the order of `Standings.compared_rows`."""

    total: PairTests | None = None
    """Tests of the totals, adjusted for all pairs of ranked systems."""
    tasks: Mapping[str, PairTests] = field(default_factory=dict)
    """Tests of each task, adjusted for all pairs of systems that have a place on it."""


@dataclass(frozen=True)
class Standings:
    """A table of comparable rows: one suite, split, data and metric per task."""

    id: str
    """Identifies the suite, split, data and metrics."""
    split: str
    """`validation` or `test`."""
    heading: str
    """A short description of the data."""
    counted: int
    """The number of tasks in a complete result."""
    is_whole: bool
    """Whether the complete results include all tasks of the suite."""
    total_name: str
    """The name of the total: `decaScore`; `Total` over public tasks only; empty if there is none."""
    total_unit: str
    """The unit of the total: `of 1000`, `mean of 16`; empty if scales differ or there is no total."""
    rows: tuple[Row, ...]
    """The systems."""
    floors: tuple[Row, ...]
    """The baselines, listed separately and unranked."""
    ceilings: tuple[Row, ...]
    """The ceilings, listed separately and unranked."""
    apart: tuple[Row, ...]
    """Results that nothing here confirms, or that answer other questions; tests leave them out."""
    data: tuple[DataLine, ...]
    """The data and metric of each task."""
    tests: Tests = field(default_factory=Tests)
    """The tests between the rows."""

    @property
    def notes(self) -> dict[str, list[str]]:
        """The notes on the data, with the tasks that each note applies to."""
        notes: dict[str, list[str]] = {}
        for line in self.data:
            if line.note:
                notes.setdefault(line.note, []).append(line.task)
        return notes

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """All rows that have a page."""
        return self.compared_rows + self.apart

    @property
    def compared_rows(self) -> tuple[Row, ...]:
        """Systems, baselines and ceilings: all rows that may be compared and drawn together."""
        return self.rows + self.floors + self.ceilings


@dataclass(frozen=True)
class Board:
    """A suite with its columns and tables."""

    suite: Suite
    """The suite."""
    columns: tuple[Column, ...]
    """The tasks of the suite."""
    tables: tuple[Standings, ...] = ()
    """The tables, in the order of the page."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher total is better; all metrics of a suite have the same direction."""
        known = [column.higher_is_better for column in self.columns if column.metric]
        return any(known) or not known

    @property
    def digits(self) -> int:
        """The number of decimals of a total."""
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
        """Return the suite's total of scores; 0 without scores or if the suite has no total."""
        if not scores or self.suite.total == "none":
            return 0.0
        return math.fsum(scores) / (len(scores) if self.suite.total == "mean" else 1)

    def unit(self, tasks: int) -> str:
        """Return the unit of a total over some tasks: `of 1000`, `mean of 16`."""
        if len(self.columns) == 1 and not self.columns[0].is_percentage:
            return ""
        if self.suite.total == "mean":
            return f"mean of {tasks}" if len(self.columns) > 1 else "of 100"
        is_sum_of_points = self.suite.total == "sum" and all(column.is_percentage for column in self.columns)
        return f"of {100 * tasks}" if is_sum_of_points else ""


# Untrusted text

_MOST_MARKS = 4
"""The most combining marks in a row: further ones would cover the lines above and below."""

_MARKS = re.compile(
    f"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{{{_MOST_MARKS + 1},}}"
)
_JOINERS = "\u200c\u200d"
"""Invisible characters without which some scripts are misspelled."""

_IDLE_JOINERS = re.compile(f"(?<![^\\x00-\\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\\x00-\\x7f])")
"""Joiners without an effect: at an end, or next to an ASCII character."""

_EMOJI = "\ufe0f"
"""The character that makes the previous one appear as a picture."""

_BLANKS = frozenset(
    {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}.union(
        range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
    )
)
"""Invisible characters that Unicode classes as letters, marks or symbols."""

_MOST_ITEMS = 60
"""The most scores or signatures that are kept for a task."""


def clean(value: Any) -> Any:
    """Return a value in which every string, at any depth, is a short printable line."""
    if isinstance(value, str):
        return printable_line(value, 500)
    if isinstance(value, Mapping):
        return {printable_line(key, 80): clean(each) for key, each in list(value.items())[:_MOST_ITEMS]}
    if isinstance(value, tuple):
        return tuple(map(clean, value[:_MOST_ITEMS]))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: clean(getattr(value, each.name)) for each in fields(value)})
    return value


def describe_submission(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry about its submission and authors, without values of the wrong type."""
    predictor, authors, size = about.get("predictor"), about.get("authors"), about.get("model_size")
    settings: Mapping[str, Any] = predictor if isinstance(predictor, Mapping) else {}
    open_weights, variant = settings.get("open_weights"), settings.get("variant")
    names = authors[:20] if isinstance(authors, list | tuple) else [authors]
    # Names that look equal must be equal: the page then adds their paths.
    name = printable_line(_IDLE_JOINERS.sub("", printable_line(about["name"], 120))) or "unnamed"
    wording = printable_line(variant if isinstance(variant, str) else repr(variant), 40) or "unnamed"
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
        "usage": _read_usage(settings.get("usage")),
        "wording": "" if variant is None or (variant == 0 and variant is not False) else wording,
    }


_USAGE = ("prompt_tokens", "completion_tokens", "cost")


def _read_usage(usage: object) -> dict[str, dict[str, float]]:
    return {
        printable_line(key, 80): {
            name: float(each[name])
            for name in _USAGE
            if isinstance(each.get(name), int | float) and 0 <= each[name] < 1e15
        }
        for key, each in (usage.items() if isinstance(usage, Mapping) else ())
        if isinstance(each, Mapping)
    }


def _web_address(value: object) -> str:
    """Return an http or https address, or "" for anything else, such as `javascript:`."""
    if not isinstance(value, str) or len(value) > 500 or not value.isprintable() or " " in value:
        return ""
    try:
        parts = urlsplit(value)
        safe = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return ""
    return value if safe else ""


def printable_line(value: object, limit: int = 200) -> str:
    """Return a string as one short line of well-formed text, and "" for any other value."""
    if not isinstance(value, str):
        return ""
    whole = value[: 4 * limit].encode("utf-8", "replace").decode("utf-8")
    if not (whole.isascii() and whole.isprintable()):
        whole = "".join(
            " " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character
            for character in whole
            if _is_shown(character)
        )
        whole = _MARKS.sub(lambda found: found[0][:_MOST_MARKS], whole)
    line = " ".join(whole.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def path_fault(path: str) -> str:
    """Return why a path can't be shown, such as a character that makes it look like another path; empty if it can."""
    for character in path:
        is_seen = character.isprintable() or unicodedata.category(character) == "Zs" or character in _JOINERS
        if not is_seen or not (_is_shown(character) or character == _EMOJI):
            return f"its path has the invisible character U+{ord(character):04X}: rename it"
    return "its path has more than 1,000 characters" if len(path) > 1_000 else ""


def _is_shown(character: str) -> bool:
    # Joiners change how their neighbours look; direction marks and the like are dropped.
    return character in _JOINERS or not (unicodedata.category(character) == "Cf" or ord(character) in _BLANKS)

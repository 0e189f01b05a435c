"""A row of a board before it is ranked. Every untrusted text in it is reduced to one short, visible line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from decabench.errors import DecabenchError
from decabench.scoring import Sample, TaskResult
from decabench.tasks import DECATHLON, Suite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "RANKED_SPLITS",
    "Entry",
    "Evidence",
    "Kind",
    "LeaderboardError",
    "NoResultsError",
    "Refusal",
    "clean",
    "describe_submission",
    "path_fault",
    "printable_line",
]

RANKED_SPLITS = ("validation", "test")
"""The splits that are ranked, in the order of the page."""

Kind = Literal["verified", "reported"]
"""The origin of a score: this machine scored the answers, or the submitter stated the number."""


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
    """`mqan/validation`, followed by the suite on every board but the first."""
    name: str
    """The submission's name."""
    split: str
    """`validation` or `test`."""
    tasks: Mapping[str, TaskResult]
    """Results by task of the suite; a missing task has none."""
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """The evidence behind them, by task."""
    suite: Suite = DECATHLON
    """The suite."""
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
    """Why it is listed apart; empty if it is ranked."""
    remarks: tuple[str, ...] = ()
    """Further remarks for readers."""
    authors: tuple[str, ...] = ()
    """Who submitted it."""
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
        """The weakest evidence behind any of its scores; None if it has no score."""
        kinds = {self.evidence[name].kind for name in self.tasks if self.score(name) is not None}
        return "reported" if "reported" in kinds else "verified" if kinds else None

    @property
    def standing(self) -> str:
        """Its kind; `partial` if it has only limited runs, and `failed` if it has no score at all."""
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
    """Its path, relative to the folder of submissions."""
    reason: str
    """The fault, or the missing part."""


# Untrusted text

_MOST_MARKS = 4
"""The maximum number of consecutive combining marks; more would cover the lines above and below."""

_MARKS = re.compile(
    f"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{{{_MOST_MARKS + 1},}}"
)
"""Stacks of combining marks."""

_JOINERS = "\u200c\u200d"
"""Invisible characters without which some scripts are misspelled."""

_IDLE_JOINERS = re.compile(f"(?<![^\\x00-\\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\\x00-\\x7f])")
"""Joiners next to nothing, or next to an ASCII character, on which they have no effect."""

_EMOJI = "\ufe0f"
"""The character that makes the previous one appear as a picture."""

_BLANKS = frozenset(
    {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}.union(
        range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
    )
)
"""Characters that are invisible although Unicode classes them as letters, marks or symbols."""

_MOST_ITEMS = 60
"""The maximum number of scores or signatures to keep for a task."""


def clean(value: Any) -> Any:
    """Return a value with all strings in it, at any depth, reduced to short printable lines."""
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
    """Return an entry's fields about the submission and its authors, dropping values of the wrong type."""
    predictor, authors, size = about.get("predictor"), about.get("authors"), about.get("model_size")
    settings: Mapping[str, Any] = predictor if isinstance(predictor, Mapping) else {}
    open_weights, variant = settings.get("open_weights"), settings.get("variant")
    names = authors[:20] if isinstance(authors, list | tuple) else [authors]
    # Names that look alike must be equal, so that a reader is told which is which.
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
    """Return the plain numbers of a submission's usage."""
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


def path_fault(path: str) -> str:
    """Explain why a path cannot be shown unchanged, because it could look like another path; empty if it can."""
    for character in path:
        is_seen = character.isprintable() or unicodedata.category(character) == "Zs" or character in _JOINERS
        if not is_seen or not (_is_shown(character) or character == _EMOJI):
            return f"its path has the invisible character U+{ord(character):04X}: rename it"
    return "its path has more than 1,000 characters" if len(path) > 1_000 else ""


def _is_shown(character: str) -> bool:
    """Return whether a character is visible, or needed by its neighbours; direction marks are neither."""
    return character in _JOINERS or not (unicodedata.category(character) == "Cf" or ord(character) in _BLANKS)

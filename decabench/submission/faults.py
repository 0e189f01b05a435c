"""Fault codes, and reports of checks as text or JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

KEPT = 20
"""The number of faults to list for each code and file. Additional faults are only counted."""

WARNINGS = {
    "answer-form": "Some answers are numbers, lists, tags or states in an unexpected form (`3,5`, `DET, NOUN`, BILOU).",
    "answer-format": "Some answers seem to have the wrong format (pieces of words, HTML, JSON), order or language.",
    "byte-order-mark": "The file starts with a byte order mark, which was skipped.",
    "empty-answer": "An answer is empty or blank. It is scored as given.",
    "label-form": "Some answers are labels in another form (`Positive.`, quotes, a sentence) and are scored as wrong.",
    "no-label": "Some answers are not among the task's labels.",
    "other-data": "The answers were made for data with a different fingerprint.",
    "partial": "The run was limited to some examples. Only these are scored, and the run gets no total and no rank.",
    "unknown-key": "submission.toml has an unknown field.",
    "wrong-length": "Some answers do not have exactly one tag or one head for each word. They are scored as given.",
}
"""The codes of warnings. A submission with warnings is still valid."""

_FAULTS = {
    "bad-archive": "The archive is damaged, unsafe or too large; its contents were not read.",
    "bad-compression": "A .gz or .zst file is damaged or truncated, or its name does not match its compression.",
    "bad-encoding": "The text is not UTF-8, or a string contains half of a surrogate pair.",
    "bad-json": "A line is not valid JSON. Each line must be one object, without repeated keys or NaN.",
    "bad-metadata": "A field of submission.toml is missing or has the wrong type.",
    "bad-record": "A line has an invalid `raw`, `rule`, `finish`, `context_kept` or `samples`.",
    "bad-toml": "submission.toml is not valid TOML.",
    "duplicate-file": "Two files contain answers for the same split of a task.",
    "duplicate-id": "An id occurs on more than one line.",
    "incomplete": "Prediction failed for some examples. Run the same predict command again to retry these examples.",
    "missing-field": "A line has no `id` or no `answer`.",
    "missing-file": "A requested task or split has no file.",
    "missing-id": "An example of the split has no answer.",
    "no-data": "The ids of this split are unknown. Prepare the data, or specify an id list with --ids.",
    "no-predictions": "There are no answer files.",
    "no-submission-toml": "There is no submission.toml.",
    "non-string-answer": "The answer is not a string.",
    "non-string-id": "The id is not a string.",
    "not-an-object": "A line is JSON, but not an object.",
    "other-ids": "Most ids are not in the split, so the answers are probably for other data. This counts as "
    "one fault.",
    "other-text": "An imported row and the example that it was matched to have different texts.",
    "too-large": "A line is longer than 1 MiB, or a file is too large for the number of examples in its split.",
    "unknown-file": "The file does not belong in a submission.",
    "unknown-id": "The split has no example with this id.",
    "unknown-split": "The file name does not end in the name of a split.",
    "unknown-task": "The file name does not begin with the name of a task.",
    "unknown-variant": "The task has no variant with this number, so these answers are not scored.",
    "unreadable-file": "The file can't be opened or read.",
    "wrong-count": "The numbers in submission.toml for a limited or incomplete run do not match the answer file.",
}

CODES = dict(sorted((_FAULTS | WARNINGS).items()))
"""All codes that a check can report. New codes can be added, but codes are never renamed or reused."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in a submission, or a warning if its code is in `WARNINGS`."""

    code: str
    """A key of `CODES`."""
    message: str
    """A description of the fault, with the given value and advice."""
    file: str = ""
    """The file's path in the submission; empty if the fault is not in a file."""
    line: int | None = None
    """The line number, counted from 1; None if the fault doesn't belong to a line."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.code}: {self.message}" if place else f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class FileCount:
    """The number of lines and answers in one answer file."""

    file: str
    """The file's path in the submission."""
    task: str
    """The task's name."""
    split: str
    """The split: `train`, `validation` or `test`."""
    lines: int
    """The number of lines that are not blank."""
    answers: int
    """The number of the split's examples that have a readable answer."""
    expected: int | None
    """The number of examples in the split; None if its ids are unknown."""
    empty: int
    """The number of answers that are empty or blank."""


@dataclass(frozen=True)
class CheckReport:
    """The result of a check, which lists the first 20 faults of each code in each file."""

    FORMAT: ClassVar[str] = "decabench.check/1"

    submission: str
    """The name of the folder or archive."""
    faults: tuple[Fault, ...]
    """Faults, which make the submission invalid."""
    warnings: tuple[Fault, ...]
    """Warnings, which don't make the submission invalid."""
    files: tuple[FileCount, ...]
    """The files that were read."""
    totals: Mapping[tuple[str, str], int]
    """The number of faults and warnings for each (file, code), including unlisted ones."""

    @classmethod
    def of(
        cls,
        submission: str,
        found: Sequence[Fault],
        files: Sequence[FileCount],
        unlisted: Mapping[tuple[str, str], int],
    ) -> CheckReport:
        """Build a report from faults in the order in which they were found.

        `unlisted` counts faults that were found but not kept, by (file, code).
        """
        counts: Counter[tuple[str, str]] = Counter()
        listed = []
        for fault in found:
            counts[fault.file, fault.code] += 1
            if counts[fault.file, fault.code] <= KEPT:
                listed.append(fault)
        counts.update(unlisted)
        faults = tuple(fault for fault in listed if fault.code not in WARNINGS)
        warnings = tuple(fault for fault in listed if fault.code in WARNINGS)
        return cls(submission, faults, warnings, tuple(files), dict(counts))

    @property
    def ok(self) -> bool:
        """Whether the submission is valid, with or without warnings."""
        return not self.faults

    @property
    def exit_code(self) -> int:
        """0 if the submission is valid, 3 if the only faults are splits without prepared data, otherwise 1."""
        codes = {fault.code for fault in self.faults}
        return (3 if codes == {"no-data"} else 1) if codes else 0

    @property
    def fault_count(self) -> int:
        """The total number of faults, including faults that are not listed."""
        return sum(count for (_, code), count in self.totals.items() if code not in WARNINGS)

    @property
    def warning_count(self) -> int:
        """The total number of warnings, including warnings that are not listed."""
        return sum(count for (_, code), count in self.totals.items() if code in WARNINGS)

    def to_json(self) -> str:
        """Return the report as JSON. The same submission and ids always give the same string."""
        record = {
            "format": self.FORMAT,
            "submission": self.submission,
            "ok": self.ok,
            "fault_count": self.fault_count,
            "warning_count": self.warning_count,
            "totals": [
                {"file": file, "code": code, "count": count}
                for (file, code), count in sorted(self.totals.items())
            ],
            "faults": [asdict(fault) for fault in self.faults],
            "warnings": [asdict(fault) for fault in self.warnings],
            "files": [asdict(count) for count in self.files],
        }
        return json.dumps(record, ensure_ascii=False, indent=2) + "\n"

    def text(self) -> str:
        """Return the report as text: faults, warnings, the number of answers in each file, and a verdict."""
        lines = self._listing(self.faults, "") + self._listing(self.warnings, "warning: ")
        for count in self.files:
            of = "" if count.expected is None else f" of {count.expected:,}"
            lines.append(f"{count.file}: {count.answers:,}{of} answers")
        verdict = "valid" if self.ok else _plural(self.fault_count, "fault")
        extra = f", {_plural(self.warning_count, 'warning')}" if self.warning_count else ""
        lines.append(f"{self.submission}: {verdict}{extra}")
        return "\n".join(lines) + "\n"

    def _listing(self, faults: tuple[Fault, ...], prefix: str) -> list[str]:
        by_code: dict[tuple[str, str], list[Fault]] = {}
        for fault in faults:
            by_code.setdefault((fault.file, fault.code), []).append(fault)
        lines = []
        for (file, code), group in by_code.items():
            more = self.totals[file, code] - len(group)
            alike = [each for each, _ in group_faults(group, more, _OF_IDS)]
            lines += [f"{prefix}{each}" for each in alike]
            if more and len(alike) > 1:
                lines.append(f"{prefix}{file}: {code}: … and {more:,} more")
        return lines


_OF_IDS = {"duplicate-id", "missing-id", "unknown-id"}
"""The codes of faults whose messages differ only in an id."""
_PLACE = re.compile(r"\b(column|byte|number) [-+.\w]+")


def group_faults(
    faults: Iterable[Fault], more: int = 0, merged: Collection[str] = ()
) -> list[tuple[str, int]]:
    """Merge equal faults on several lines into one sentence, and return each sentence with its count.

    Faults in the same file and with the same code count as equal if their messages differ only in a column, a byte or
    a given number. If the code is in `merged`, they always count as equal. If all faults are equal, `more` is added
    to their count.
    """
    alike: dict[tuple[str, str, str], list[Fault]] = {}
    for fault in faults:
        kind = "" if fault.code in merged else _PLACE.sub(r"\1", fault.message)
        alike.setdefault((fault.file, fault.code, kind), []).append(fault)
    made = []
    for (file, code, _), same in alike.items():
        count = len(same) + (more if len(alike) == 1 else 0)
        lines = [str(fault.line) for fault in same[:3] if fault.line is not None]
        if count > 1 and lines:
            rest = f" and {count - len(lines):,} more" if count > len(lines) else ""
            differ = "for example, " if len({fault.message for fault in same}) > 1 else ""
            made.append((f"{file}: {code}: lines {', '.join(lines)}{rest}: {differ}{same[0].message}", count))
        else:
            others = f"{count - 1:,} more like this" if code in merged else f"{count:,} times"
            made.append((f"{same[0]}{f' ({others})' if count > 1 else ''}", count))
    return made


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

"""What a check found, for people and for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

__all__ = ["CODES", "KEPT", "WARNINGS", "CheckReport", "Fault", "FaultLog", "FileCount"]

# ---- faults

KEPT = 20
"""How many faults of one code in one file are kept with their lines; the rest are counted."""

CODES: dict[str, str] = {
    "bad-archive": "The archive is damaged, unsafe or too large, so nothing in it was read.",
    "bad-compression": "A .gz or .zst file is damaged or cut short.",
    "bad-encoding": "Text that is not UTF-8, or a string with half of a surrogate pair.",
    "bad-json": "A line is not JSON: one object a line, no key twice, no NaN.",
    "bad-metadata": "A field of submission.toml is missing or of the wrong kind.",
    "bad-record": "What a line says of its answer (raw, rule, finish, context_kept) is of the wrong kind.",
    "bad-toml": "submission.toml is not TOML.",
    "byte-order-mark": "A file starts with a byte order mark; it was passed over.",
    "duplicate-file": "Two files answer the same split of a task.",
    "duplicate-id": "An id stands on more than one line.",
    "empty-answer": "An answer is empty or blank; it is scored as given.",
    "incomplete": "Examples failed when the answers were made; run the same predict command again to retry them.",
    "missing-field": "A line lacks `id` or `answer`.",
    "missing-file": "A task or split that was asked for has no file.",
    "missing-id": "An example of the split has no answer.",
    "no-data": "The ids of this split are not known here: prepare its data or give an id list.",
    "no-predictions": "There is no file of predictions.",
    "no-submission-toml": "There is no submission.toml.",
    "non-string-answer": "The answer is not a string.",
    "non-string-id": "The id is not a string.",
    "not-an-object": "A line is JSON, but not an object.",
    "other-data": "The answers were made for data with another fingerprint.",
    "partial": "A limited run: it is scored on what it answered, apart, and never ranked.",
    "too-large": "A line is longer than 1 MiB, or a file far larger than its answers can be.",
    "unknown-file": "A file that no part of the format accounts for.",
    "unknown-id": "An id that the split does not have.",
    "unknown-key": "submission.toml has a field that nothing reads.",
    "unknown-split": "A file name that ends in no split.",
    "unknown-task": "A file name that begins with no task.",
    "unreadable-file": "A file that the system does not let us read.",
    "wrong-count": "The numbers of a limited or failed run in submission.toml are not those of its files.",
}
"""Every code that a check reports, for good: a code may be added, never renamed or put to another use."""

WARNINGS = frozenset({"byte-order-mark", "empty-answer", "other-data", "partial", "unknown-key"})
"""The codes that leave a submission valid."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong (or, under a code of `WARNINGS`, odd)."""

    code: str
    """A key of `CODES`."""
    message: str
    """What was wrong, what was given, what to do."""
    file: str = ""
    """Its path in the submission; empty where the fault is the submission's."""
    line: int | None = None
    """From 1; None where the fault is the file's."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.code}: {self.message}" if place else f"{self.code}: {self.message}"


class FaultLog:
    """Keeps the first `KEPT` faults of each code in each file, and counts all."""

    def __init__(self) -> None:
        self._kept: list[Fault] = []
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, code: str, message: str, file: str = "", line: int | None = None) -> None:
        """Note a fault."""
        self._counts[file, code] += 1
        if self._counts[file, code] <= KEPT:
            self._kept.append(Fault(code, message, file, line))

    def count(self, file: str, code: str) -> int:
        """How many there were, kept or not."""
        return self._counts[file, code]

    def kept(self) -> tuple[Fault, ...]:
        """The faults that were kept, in the order in which they were found."""
        return tuple(self._kept)

    def totals(self) -> dict[tuple[str, str], int]:
        """(file, code) to how many there were."""
        return dict(self._counts)


# ---- report


@dataclass(frozen=True, slots=True)
class FileCount:
    """What one file of answers has."""

    file: str
    """Its path in the submission."""
    task: str
    """The task's name."""
    split: str
    """train, validation or test."""
    lines: int
    """Lines that are not blank."""
    answers: int
    """Different examples of the split that have a readable answer."""
    expected: int | None
    """Examples of the split; None where its ids are not known."""
    empty: int
    """Answers that are empty or blank."""


@dataclass(frozen=True)
class CheckReport:
    """The result of a check. Of each code in each file the first 20 faults are here, and `totals` has all."""

    FORMAT: ClassVar[str] = "decabench.check/1"

    submission: str
    """The name of the folder or archive."""
    faults: tuple[Fault, ...]
    """What makes it invalid."""
    warnings: tuple[Fault, ...]
    """What is odd and leaves it valid."""
    files: tuple[FileCount, ...]
    """The files that were read."""
    totals: Mapping[tuple[str, str], int]
    """(file, code) to how often it was found."""

    @classmethod
    def of(cls, submission: str, log: FaultLog, files: Sequence[FileCount]) -> CheckReport:
        """The report of what a log has."""
        kept = log.kept()
        faults = tuple(fault for fault in kept if fault.code not in WARNINGS)
        warnings = tuple(fault for fault in kept if fault.code in WARNINGS)
        return cls(submission, faults, warnings, tuple(files), log.totals())

    @property
    def ok(self) -> bool:
        """Whether the submission is valid; warnings leave it so."""
        return not self.faults

    @property
    def exit_code(self) -> int:
        """0 valid; 3 valid as far as the data at hand can tell, and some is missing; 1 otherwise."""
        codes = {fault.code for fault in self.faults}
        return (3 if codes == {"no-data"} else 1) if codes else 0

    @property
    def fault_count(self) -> int:
        """How many faults there are, shown or not."""
        return sum(count for (_, code), count in self.totals.items() if code not in WARNINGS)

    @property
    def warning_count(self) -> int:
        """How many warnings there are, shown or not."""
        return sum(count for (_, code), count in self.totals.items() if code in WARNINGS)

    def faults_of(self, file: str) -> tuple[Fault, ...]:
        """The faults of one file (`PredictionFile.name`) that are kept with their lines."""
        return tuple(fault for fault in self.faults if fault.file == file)

    def count_of(self, file: str) -> int:
        """How many faults one file has, shown or not."""
        return sum(
            count for (named, code), count in self.totals.items() if named == file and code not in WARNINGS
        )

    def to_json(self) -> str:
        """The report as canonical JSON: the same submission and ids give the same text."""
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
        """The report for a person: faults, warnings, what each file has, and the sum in one line."""
        lines = self._listed(self.faults, "")
        lines += self._listed(self.warnings, "warning: ")
        for count in self.files:
            of = "" if count.expected is None else f" of {count.expected:,}"
            lines.append(f"{count.file}: {count.answers:,}{of} answers")
        verdict = "valid" if self.ok else _number(self.fault_count, "fault")
        extra = f", {_number(self.warning_count, 'warning')}" if self.warning_count else ""
        lines.append(f"{self.submission}: {verdict}{extra}")
        return "\n".join(lines) + "\n"

    def _listed(self, faults: tuple[Fault, ...], prefix: str) -> list[str]:
        """File by file, and after a file's faults how many more it has of each code."""
        by_file: dict[str, list[Fault]] = {}
        for fault in faults:
            by_file.setdefault(fault.file, []).append(fault)
        lines = []
        for file, group in by_file.items():
            lines += [f"{prefix}{fault}" for fault in group]
            for code in dict.fromkeys(fault.code for fault in group):
                more = self.totals[file, code] - sum(fault.code == code for fault in group)
                if more:
                    lines.append(f"{prefix}{file}: {code}: … and {more:,} more")
        return lines


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

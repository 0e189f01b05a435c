"""What a check found, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from decabench.faults import WARNINGS, Fault, FaultLog

__all__ = ["CheckReport", "FileCount"]


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

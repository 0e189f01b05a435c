"""What can be wrong with a submission: the codes, one fault, and a log that a flood cannot fill."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

__all__ = ["CODES", "KEPT", "WARNINGS", "Fault", "FaultLog", "printable", "shown"]

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


def shown(text: str, width: int = 60) -> str:
    """A stranger's text as a message may quote it: in quotes, short, without control characters."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def printable(text: str) -> str:
    """A file name as a report may print it: as it is, or escaped where a terminal or UTF-8 would mind."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")

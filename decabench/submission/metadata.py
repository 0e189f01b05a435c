"""submission.toml: who made a submission, how, and for which data."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from decabench.errors import SubmissionError
from decabench.files import by_dotted_key
from decabench.submission.faults import WARNINGS, Fault
from decabench.text import quoted
from decabench.untrusted import parse_toml

FORMAT = "decabench.submission/1"
METADATA_NAME = "submission.toml"
METADATA_LIMIT = 1 << 16
"""The maximum size of submission.toml, in bytes."""


@dataclass(frozen=True)
class Marks:
    """How submission.toml marks a file that does not answer every example."""

    partial: Mapping[str, Any] | None = None
    """`answered`, `of` and `chosen` of a limited run."""
    incomplete: Mapping[str, Any] | None = None
    """`failed`, `of` and `error` of a run in which examples failed."""


@dataclass(frozen=True)
class SubmissionInfo:
    """The content of submission.toml."""

    name: str
    """The name shown on a leaderboard; one line, never empty."""
    authors: tuple[str, ...] = ()
    """The authors."""
    description: str = ""
    """How it works, in a sentence or a page."""
    url: str = ""
    """Link to more information; http or https."""
    model_size: int | None = None
    """The number of parameters."""
    training_data: str = ""
    """The data that the model was trained on."""
    date: str = ""
    """When the answers were made: an ISO date."""
    predictor: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the predictor (name, version, seed, ...); JSON values only."""
    data: Mapping[str, str] = field(default_factory=dict)
    """`<task>.<split>` to the fingerprint (`sha256:...`) of the data for which the answers were made."""
    partial: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`<task>.<split>` of a limited run, which asked only some examples, to `answered`, `of` and `chosen`."""
    incomplete: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`<task>.<split>` to `failed`, `of` and `error`: failed examples have no line."""

    def described(self) -> dict[str, Any]:
        """Return everything as JSON values, `partial` and `incomplete` only if they are not empty."""
        plain = asdict(self)
        return {key: value for key, value in plain.items() if value or key not in ("partial", "incomplete")}

    def marks(self, task: str, split: str, variant: int = 0) -> Marks:
        """Return a file's marks: limits apply to all variants, failures to one (`sst.validation.variant2`)."""
        key = f"{task}.{split}"
        partial = self.partial.get(key)
        if not variant:
            return Marks(partial, self.incomplete.get(key))
        if partial:  # every variant is asked equally many questions; failures in variant 0 have no line there
            failed = self.incomplete.get(key, {}).get("failed", 0)
            partial = {**partial, "answered": partial["answered"] + failed}
        return Marks(partial, self.incomplete.get(f"{key}.variant{variant}"))


def render_metadata(info: SubmissionInfo) -> bytes:
    """Write a submission.toml: equal information gives equal bytes, and fields without a value are left out.

    Raises SubmissionError for information that could not be read back.
    """
    import tomli_w

    table: dict[str, Any] = {"format": FORMAT, **vars(info), "authors": list(info.authors)}
    for key in ("predictor", "data", "partial", "incomplete"):
        table[key] = _sorted(table[key])
    table = {key: value for key, value in table.items() if value not in ("", None, [], {})}
    try:
        raw = tomli_w.dumps(table).encode()
    except (TypeError, ValueError) as error:
        raise SubmissionError(f"This information cannot be stored in submission.toml: {error}.") from error
    _, faults = parse_metadata(raw)
    for fault in faults:
        raise SubmissionError(f"{fault}.")
    return raw


def _sorted(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _sorted(value) if isinstance(value, Mapping) else value
        for key, value in sorted(table.items())
        if value is not None
    }


def parse_metadata(raw: bytes) -> tuple[SubmissionInfo | None, list[Fault]]:
    """Parse a submission.toml and return it with every fault; None if there is a fault other than warnings."""
    if len(raw) > METADATA_LIMIT:
        return None, [Fault("too-large", f"it is larger than {METADATA_LIMIT:,} bytes", METADATA_NAME)]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return None, [Fault("bad-encoding", "it is not UTF-8; save it as UTF-8", METADATA_NAME, line)]
    try:
        table = parse_toml(text)
    except ValueError as error:
        reason = str(error)
        at = re.search(r"at line (\d+)", reason)
        line = int(at[1]) if at else text.count("\n") + 1
        return None, [Fault("bad-toml", f"it is not valid TOML: {reason}", METADATA_NAME, line)]
    reader = _Reader(table, text)
    info = reader.info()
    valid = all(fault.code in WARNINGS for fault in reader.faults)
    return (info if valid else None), reader.faults


# No library reads this table: msgspec stops at the first fault, and neither it nor pydantic gives lines or advice.
class _Reader:
    def __init__(self, table: dict[str, Any], text: str) -> None:
        self.table = table
        self.lines = _number_keys(text)
        self.faults: list[Fault] = []

    def info(self) -> SubmissionInfo:
        self.take("format", lambda value: value == FORMAT, f'this version reads only format = "{FORMAT}"')
        info = SubmissionInfo(
            name=self.take("name", _is_name, "write one line of text in quotes"),
            authors=tuple(self.take("authors", _is_strings, 'write a list of strings: ["A. Author"]', [])),
            description=self.take("description", _is_string, "write a string in quotes", ""),
            url=self.take("url", _is_url, "write an address that begins with https:// or http://", ""),
            model_size=self.take("model_size", _is_size, "write the number of parameters: 110_000_000"),
            training_data=self.take("training_data", _is_string, "write a string in quotes", ""),
            date=str(self.take("date", _is_date, "write it as YYYY-MM-DD", "")),
            predictor=self.predictor(),
            data=self.data(),
            partial=self.marks("partial", "answered", "chosen", least=0),
            incomplete=self.marks("incomplete", "failed", "error", least=1),
        )
        for key in self.table:
            self.note(key, f"the field {quoted(key)} is unknown and was ignored", "unknown-key")
        return info

    def take(self, key: str, is_valid: Callable[[Any], bool], advice: str, default: Any = None) -> Any:
        value = self.table.pop(key, default)
        if is_valid(value):
            return value
        self.note(key, f"{key} is {_shown(value)}; {advice}")
        return default

    def note(self, key: str, message: str, code: str = "bad-metadata") -> None:
        line = self.lines.get(key)
        self.faults.append(Fault(code, message, METADATA_NAME, line))

    def predictor(self) -> dict[str, Any]:
        table = self.take("predictor", _is_table, "write a table: [predictor]", {})
        try:
            return {key: _json_value(value) for key, value in table.items()}
        except ValueError as error:
            self.note("predictor", f"predictor holds {error}; use numbers, strings, lists and tables only")
            return {}

    def data(self) -> dict[str, str]:
        fingerprints = by_dotted_key(self.take("data", _is_table, "write a table: [data]", {}))
        for key, value in fingerprints.items():
            if not isinstance(value, str) or not re.fullmatch("sha256:[0-9a-f]{64}", value):
                self.note(
                    key, f'the data {quoted(key)} is {_shown(value)}; write "sha256:" and 64 hex digits'
                )
        return fingerprints

    def marks(self, name: str, count: str, text: str, least: int) -> dict[str, dict[str, Any]]:
        advice = f'write a table for each split: [{name}."task.split"]'
        entries = _entries(self.take(name, _is_table, advice, {}))
        for key, entry in entries.items():
            for reason in _mark_faults(entry, count, text, least):
                self.note(name, f"the {name} entry {quoted(key)} {reason}")
            for unknown in sorted(set(entry) - {count, "of", text}):
                message = f"the field {quoted(unknown)} of {name} {quoted(key)} is unknown and was ignored"
                self.note(unknown, message, "unknown-key")
        return {
            key: {field: entry[field] for field in (count, "of", text) if field in entry}
            for key, entry in entries.items()
        }


_KEY = re.compile(r"""[ \t]*\[?[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([\w-]+))[ \t]*[=.\]]""")


def _number_keys(text: str) -> dict[str, int]:
    """Return the line on which each key first begins, in one pass, because a file may have thousands of wrong
    keys."""
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if at := _KEY.match(line):
            lines.setdefault(at[1] or at[2] or at[3], number)
    return lines


def _mark_faults(entry: Mapping[str, Any], count: str, text: str, least: int) -> Iterator[str]:
    def given(key: str) -> str:
        return f"{key} as {_shown(entry[key])}" if key in entry else f"no {key}"

    lowest = {count: least, "of": 1}
    wrong = [key for key in lowest if type(entry.get(key)) is not int or entry[key] < lowest[key]]
    for key in wrong:
        yield f"has {given(key)}; write a number of examples: {key} = 100"
    if (
        not wrong and entry[count] >= entry["of"] + least
    ):  # a limited run answers fewer; all examples can fail
        most = "no more" if least else "fewer"
        yield f"has {count} = {entry[count]} of {entry['of']}; give {most} than the total"
    if not isinstance(entry.get(text, ""), str):
        yield f"has {given(text)}; write a string in quotes"


def _entries(table: dict[str, Any], above: str = "") -> dict[str, dict[str, Any]]:
    """Return tables by dotted key: without quotes, TOML nests `[partial.squad.validation]` one level deeper."""
    found: dict[str, dict[str, Any]] = {}
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    if above and (plain or not table):
        found[above.removesuffix(".")] = plain
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _entries(value, f"{above}{key}.")
        elif not above:
            found[key] = {}
    return found


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"the number {value}")
    return value


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_string, value))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and (not value or re.fullmatch(r"https?://[!-~]+", value) is not None)


def _is_size(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 0)


def _is_date(value: Any) -> bool:
    if not isinstance(value, str):
        return type(value) is datetime.date
    try:
        return not value or datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"the number {str(value)[:30]}"
    kinds: dict[type, str] = {type(None): "missing", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or time")

"""submission.toml: who made a submission, with what, and for which data."""

from __future__ import annotations

import datetime
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from decabench.errors import SubmissionError
from decabench.submission.faults import WARNINGS, Fault
from decabench.text import quoted

__all__ = ["FORMAT", "METADATA_NAME", "SubmissionInfo", "parse_metadata", "render_metadata"]

FORMAT = "decabench.submission/1"
METADATA_NAME = "submission.toml"
METADATA_LIMIT = 1 << 16


@dataclass(frozen=True)
class SubmissionInfo:
    """What a submission says about itself."""

    name: str
    """What it is called on a leaderboard; one line, never empty."""
    authors: tuple[str, ...] = ()
    """Who made it."""
    description: str = ""
    """A sentence or a page on how it answers."""
    url: str = ""
    """Where a person reads more; http or https."""
    model_size: int | None = None
    """Number of parameters."""
    training_data: str = ""
    """What the model has seen."""
    date: str = ""
    """When the answers were made: an ISO date."""
    predictor: Mapping[str, Any] = field(default_factory=dict)
    """The settings that made it (name, version, seed, ...); JSON values only."""
    data: Mapping[str, str] = field(default_factory=dict)
    """`<task>.<split>` to the fingerprint (`sha256:...`) of the data that the answers were made for."""
    partial: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`<task>.<split>` of a limited run to `answered`, `of` and `chosen`: only so many examples were asked."""
    incomplete: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`<task>.<split>` to `failed`, `of` and `error`: so many examples failed and have no line."""

    def described(self) -> dict[str, Any]:
        """All of it as JSON values; the marks of a limited or a failed run only where there is one."""
        plain = asdict(self)
        return {key: value for key, value in plain.items() if value or key not in ("partial", "incomplete")}


def parse_metadata(raw: bytes) -> tuple[SubmissionInfo | None, list[Fault]]:
    """The information in a submission.toml and every fault of it; None where a fault is no mere warning."""
    if len(raw) > METADATA_LIMIT:
        return None, [Fault("too-large", f"it has more than {METADATA_LIMIT:,} bytes", METADATA_NAME)]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return None, [Fault("bad-encoding", "it is not UTF-8; save it as UTF-8", METADATA_NAME, line)]
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) or "its brackets are nested too deeply"
        at = re.search(r"at line (\d+)", reason)
        line = int(at[1]) if at else text.count("\n") + 1
        return None, [Fault("bad-toml", f"it is not TOML: {reason}", METADATA_NAME, line)]
    reader = _Reader(table, text)
    info = reader.info()
    valid = all(fault.code in WARNINGS for fault in reader.faults)
    return (info if valid else None), reader.faults


def render_metadata(info: SubmissionInfo) -> bytes:
    """The submission.toml of `info`: equal information, equal bytes. Fields without a value are left out."""
    import tomli_w

    table: dict[str, Any] = {
        "format": FORMAT,
        "name": info.name,
        "authors": list(info.authors),
        "description": info.description,
        "url": info.url,
        "model_size": info.model_size,
        "training_data": info.training_data,
        "date": info.date,
        "predictor": _ordered(info.predictor),
        "data": _ordered(info.data),
        "partial": _ordered(info.partial),
        "incomplete": _ordered(info.incomplete),
    }
    table = {key: value for key, value in table.items() if value not in ("", None, [], {})}
    try:
        raw = tomli_w.dumps(table).encode()
    except (TypeError, ValueError) as error:
        raise SubmissionError(f"submission.toml cannot hold this information: {error}.") from error
    _, faults = parse_metadata(raw)
    for fault in faults:
        raise SubmissionError(f"{fault}.")
    return raw


def _ordered(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _ordered(value) if isinstance(value, Mapping) else value
        for key, value in sorted(table.items())
        if value is not None
    }


@dataclass(frozen=True)
class _Mark:
    """What the entry of one split must have, in a table that marks splits."""

    count: str
    """The field that counts examples."""
    text: str
    """The field that says more."""
    least: int
    """The lowest that the count can be."""
    is_whole: bool
    """Whether the count may be that of all examples."""


_PARTIAL = _Mark("answered", "chosen", least=0, is_whole=False)
_INCOMPLETE = _Mark("failed", "error", least=1, is_whole=True)


class _Reader:
    """Takes the fields out of a parsed submission.toml, one by one, noting what is wrong with each."""

    def __init__(self, table: dict[str, Any], text: str) -> None:
        self.table = table
        self.text = text
        self.faults: list[Fault] = []

    def info(self) -> SubmissionInfo:
        self._format()
        info = SubmissionInfo(
            name=self._name(),
            authors=self._authors(),
            description=self._string("description"),
            url=self._url(),
            model_size=self._model_size(),
            training_data=self._string("training_data"),
            date=self._date(),
            predictor=self._predictor(),
            data=self._data(),
            partial=self._marks("partial", _PARTIAL),
            incomplete=self._marks("incomplete", _INCOMPLETE),
        )
        for key in self.table:
            self._note(key, f"the field {quoted(key)} is unknown and was passed over", "unknown-key")
        return info

    def _note(self, key: str, message: str, code: str = "bad-metadata") -> None:
        at = re.search(rf"^[ \t]*\[?[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*[=.\]]", self.text, re.MULTILINE)
        line = self.text.count("\n", 0, at.start()) + 1 if at else None
        self.faults.append(Fault(code, message, METADATA_NAME, line))

    def _format(self) -> None:
        given = self.table.pop("format", None)
        if given is None:
            self._note("format", f'the format is missing; add format = "{FORMAT}"')
        elif given != FORMAT:
            self._note("format", f"the format is {quoted(str(given))}; this version reads {FORMAT!r}")

    def _name(self) -> str:
        if "name" not in self.table:
            self._note("name", 'the name is missing; add name = "..."')
            return ""
        name = self._string("name")
        if not name.strip() or not name.isprintable():
            self._note("name", f"the name is {quoted(name)}; give one line of text")
        return name

    def _string(self, key: str) -> str:
        value = self.table.pop(key, "")
        if isinstance(value, str):
            return value
        self._note(key, f"{key} is {_kind(value)}; write a string in quotes")
        return ""

    def _authors(self) -> tuple[str, ...]:
        value = self.table.pop("authors", [])
        if isinstance(value, list) and all(isinstance(author, str) for author in value):
            return tuple(value)
        self._note("authors", f'authors is {_kind(value)}; write a list of strings: ["A. Author"]')
        return ()

    def _url(self) -> str:
        url = self._string("url")
        if url and not re.fullmatch(r"https?://[!-~]+", url):
            self._note("url", f"the url is {quoted(url)}; write one that begins with https:// or http://")
        return url

    def _model_size(self) -> int | None:
        value = self.table.pop("model_size", None)
        if value is None or (type(value) is int and value >= 0):
            return value
        self._note("model_size", f"model_size is {_kind(value)}; write the number of parameters: 110_000_000")
        return None

    def _date(self) -> str:
        value = self.table.pop("date", "")
        if type(value) is datetime.date:
            return value.isoformat()
        if isinstance(value, str) and (not value or _is_date(value)):
            return value
        given = quoted(value) if isinstance(value, str) else _kind(value)
        self._note("date", f"the date is {given}; write it as YYYY-MM-DD")
        return ""

    def _predictor(self) -> dict[str, Any]:
        value = self.table.pop("predictor", {})
        if not isinstance(value, dict):
            self._note("predictor", f"predictor is {_kind(value)}; write a table: [predictor]")
            return {}
        try:
            return {key: _json_value(item) for key, item in value.items()}
        except ValueError as error:
            self._note("predictor", f"predictor holds {error}; keep to numbers, strings, lists and tables")
            return {}

    def _data(self) -> dict[str, str]:
        value = self.table.pop("data", {})
        if not isinstance(value, dict):
            self._note("data", f"data is {_kind(value)}; write a table: [data]")
            return {}
        fingerprints = _flat(value)
        for key, fingerprint in fingerprints.items():
            if not isinstance(fingerprint, str) or not re.fullmatch("sha256:[0-9a-f]{64}", fingerprint):
                given = quoted(fingerprint) if isinstance(fingerprint, str) else _kind(fingerprint)
                self._note(key, f'the data {quoted(key)} is {given}; write "sha256:" and 64 hex digits')
        return fingerprints

    def _marks(self, name: str, mark: _Mark) -> dict[str, dict[str, Any]]:
        value = self.table.pop(name, {})
        if not isinstance(value, dict):
            self._note(name, f'{name} is {_kind(value)}; write a table for each split: [{name}."task.split"]')
            return {}
        entries = _entries(value)
        for key, entry in entries.items():
            for reason in _mark_faults(entry, mark):
                self._note(name, f"the {name} entry {quoted(key)} {reason}")
            for unknown in sorted(set(entry) - {mark.count, "of", mark.text}):
                message = (
                    f"the field {quoted(unknown)} of {name} {quoted(key)} is unknown and was passed over"
                )
                self._note(unknown, message, "unknown-key")
        return {
            key: {field: entry[field] for field in (mark.count, "of", mark.text) if field in entry}
            for key, entry in entries.items()
        }


def _entries(table: dict[str, Any], above: str = "") -> dict[str, dict[str, Any]]:
    """Tables by dotted key: `[partial.squad.validation]` without quotes is nested one deeper to TOML."""
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


def _mark_faults(entry: Mapping[str, Any], mark: _Mark) -> Iterator[str]:
    least = {mark.count: mark.least, "of": 1}
    wrong = [name for name in least if type(entry.get(name)) is not int or entry[name] < least[name]]
    for name in wrong:
        yield f"has {_given(entry, name)}; write a number of examples: {name} = 100"
    if not wrong and entry[mark.count] > entry["of"] - (not mark.is_whole):
        fewer = "no more" if mark.is_whole else "fewer"
        yield f"has {mark.count} = {entry[mark.count]} of {entry['of']}; there must be {fewer} than all"
    if not isinstance(entry.get(mark.text, ""), str):
        yield f"has {_given(entry, mark.text)}; write a string in quotes"


def _given(entry: Mapping[str, Any], key: str) -> str:
    return f"{key} as {_kind(entry[key])}" if key in entry else f"no {key}"


def _flat(table: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Dotted keys joined again: `squad.validation = ...` without quotes is two tables to TOML."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return flat


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


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return f"{value}".lower()
    if isinstance(value, (int, float)):
        return f"the number {str(value)[:30]}"
    kinds: dict[type, str] = {str: "a string", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or time")

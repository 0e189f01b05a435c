"""Read TOML tables key by key, collecting all faults so that they can be reported together."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from decabench import untrusted
from decabench.errors import DataError, DecabenchError, UnknownNameError, require_name


class TomlTable:
    """A table of a TOML file.

    Methods such as `string` return the value of a key. If the value is invalid, they add a fault to `faults` and return
    the default. Nested tables share the same `faults`.
    """

    def __init__(self, content: Mapping[str, Any], title: str = "", faults: list[str] | None = None) -> None:
        self.content = content
        """The table as returned by tomllib."""
        self.title = title
        """The prefix for faults, such as `[prompt]`; empty for the top level."""
        self.faults: list[str] = [] if faults is None else faults
        """The faults, one sentence each."""

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def fault(self, sentence: str) -> None:
        """Add a fault, prefixed with the table's title."""
        self.faults.append(f"{self.title}: {sentence}" if self.title else sentence)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Record errors raised in the block as faults."""
        try:
            yield
        except (DecabenchError, ValueError) as error:
            self.fault(str(error))

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Add a fault for every key that is not in `known`, suggesting similar names."""
        names = list(known)
        for key in self.content:
            try:
                require_name(key, names, "key")
            except UnknownNameError as error:
                self.fault(str(error))

    def string(self, key: str, default: str | None = None) -> str:
        """Return a string. Without a default, the key is required, and the string can't be empty."""
        value = self._typed(key, "a string", lambda value: isinstance(value, str), default)
        if default is None and value == "":
            self.fault(f"{key!r} must be a non-empty string.")
        return str(value or "")

    def flag(self, key: str, default: bool = False) -> bool:
        """Return a boolean."""
        return bool(self._typed(key, "true or false", lambda value: isinstance(value, bool), default))

    def positive(self, key: str, default: int | None = None) -> int:
        """Return a positive integer. Without a default, the key is required."""
        return int(self._typed(key, "a whole number above 0", _is_positive, default) or 1)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number. Without a default, the key is required."""
        return float(self._typed(key, "a number", _is_number, default) or 0)

    def strings(self, key: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return a list of non-empty strings. Without a default, the key is required."""
        return tuple(self._typed(key, "a list of strings", _is_strings, default) or ())

    def choice(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return one of `choices`. Without a default, the key is required."""
        value = self.string(key, default)
        if key not in self.content or value in choices:
            return value
        if isinstance(self.content[key], str):
            with self.noting():
                require_name(value, choices, key)
        return default or ""

    def table(self, key: str, title: str = "") -> Self:
        """Return a nested table, which is empty if the key is missing."""
        value = self._typed(key, "a table", lambda value: isinstance(value, dict), {})
        return type(self)(value, title or f"[{key}]", self.faults)

    def tables(self, key: str) -> list[Self]:
        """Return the tables of an array of tables, `[[key]]`."""
        value = self._typed(key, f"a list of tables ([[{key}]])", _is_tables, [])
        return [type(self)(each, f"[[{key}]] {at}", self.faults) for at, each in enumerate(value, 1)]

    def raise_faults(self, place: str, error: type[DecabenchError] = DataError) -> None:
        """Raise `error` with all faults in its message, if there are any."""
        if len(self.faults) == 1:
            raise error(f"{place}: {self.faults[0]}")
        if self.faults:
            lines = "\n".join(f"- {fault}" for fault in self.faults)
            raise error(f"{place} has {len(self.faults)} faults:\n{lines}")

    def _typed(self, key: str, kind: str, fits: Callable[[Any], bool], default: Any) -> Any:
        if key not in self.content:
            if default is None:
                self.fault(f"{key!r} is missing; expected {kind}.")
            return default
        value = self.content[key]
        if fits(value):
            return value
        self.fault(f"{key!r} must be {kind}, not {json.dumps(value, default=str):.80}.")
        return default


def _is_positive(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def read_toml(path: Path, error: type[DecabenchError] = DataError) -> dict[str, Any]:
    """Read a TOML file. Raises `error` if it can't be read or isn't valid TOML."""
    try:
        return untrusted.parse_toml(untrusted.read_text(path, untrusted.TOML_LIMIT))
    except FileNotFoundError as reason:
        raise error(f"There is no file {path}.") from reason
    except OSError as reason:
        raise error(f"{path} can't be read ({reason.strerror}).") from reason
    except ValueError as reason:
        raise error(f"{path} is not valid TOML ({reason}).") from reason


KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "array": "a list",
    "object": "a table",
}
"""Descriptions of the types named in msgspec's errors."""
_BOUNDS = {">=": "at least {}", "<=": "at most {}", ">": "greater than {}", "<": "less than {}"}


def convert_setting(value: Any, kind: Any, name: str) -> Any:
    """Convert a setting's value to a type. Raises DecabenchError if it has another type or is out of range."""
    import msgspec  # most commands read no settings

    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        wanted = re.search(r"Expected `([\w| ]+)`(?: ([<>]=?) (\S+))?", str(error))
        place = re.search(r"at `\$\.?(.*)`", str(error))
        if wanted and wanted[2]:
            bound = wanted[3].removesuffix(".0")
            fault = f", but must be {_BOUNDS[wanted[2]].format(f'{int(bound):,}' if bound.isdecimal() else bound)}"
        elif "multiple of 2" in str(error):
            fault = ", but must be an even number"
        elif wanted:
            kinds = [KINDS.get(each, each) for each in wanted[1].split(" | ") if each != "null"]
            fault = f", but must be {' or '.join(kinds)}"
        else:
            fault = f": {error}"
        raise DecabenchError(
            f"'{name}' is {value!r:.100}{f' (at {place[1]})' if place else ''}{fault}."
        ) from error


def read_settings(settings: Mapping[str, Any] | Iterable[str], example: str) -> Iterable[tuple[str, Any]]:
    """Return the keys and values of settings, given as a mapping or as `KEY=VALUE` strings."""
    if isinstance(settings, Mapping):
        return settings.items()
    return [read_setting(text, example) for text in settings]


def read_setting(text: str, example: str) -> tuple[str, Any]:
    """Parse `KEY=VALUE`, reading the value as TOML if possible, and as a string otherwise.

    Raises DecabenchError if the setting can't be parsed. `example` is a valid setting to show in the message.
    """
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise DecabenchError(f"Invalid setting {text!r}. Use the form KEY=VALUE, such as {example}.")
    try:
        return path, untrusted.parse_toml(f"value = {value}")["value"]
    except ValueError as error:
        if value.lstrip().startswith(("[", "{", '"')):
            raise DecabenchError(
                f"Invalid setting {text!r} ({error}). In a shell, put the setting in single quotes, "
                f"such as '{path}=[\"a\"]'."
            ) from None
        return path, value

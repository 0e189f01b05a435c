"""Read untrusted JSON, TOML, CSV and parquet strictly, in bounded time and memory.

Functions raise ValueError with a reason that the caller can embed in a sentence about the file. Functions that read a
file also raise FileNotFoundError, and StorageError if the operating system can't read the file.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from decabench.files import read_errors

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

DEPTH = 64
"""The maximum nesting depth of tables, objects and lists, far below Python's recursion limit."""
KEY_PARTS = 32
"""The maximum number of parts in a dotted key. tomllib's memory use grows with the square of this number."""
JSON_LIMIT = 1 << 23
"""The default maximum size of a JSON file in bytes. The parsed content can take 25 times more memory."""
TOML_LIMIT = 1 << 18
"""The maximum size of a TOML file in bytes."""
CELL_LIMIT = 1 << 17
"""The default maximum length of a CSV cell, as in Python's csv module."""

_DIGITS = 250
"""The maximum number of digits in a number. A float has room for 308 decimal or 256 hexadecimal digits."""


# JSON


def parse_json(text: str, surrogates: bool = False) -> Any:
    """Parse JSON, rejecting repeated keys, NaN, deep nesting, and numbers outside the range of a float.

    Unpaired surrogates are rejected unless `surrogates` is set.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(explain_json_error(error)) from None
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if text.count("[") + text.count("{") > DEPTH:
        _check_depth(value)
    if not surrogates and _SURROGATE.search(text):
        _check_characters(value)
    return value


def explain_json_error(error: json.JSONDecodeError) -> str:
    """Return a plain description of an error in JSON, with its line and column."""
    line = f"line {error.lineno}, " if error.lineno > 1 else ""
    said = _IN_WORDS.get(error.msg.removesuffix(" at"), error.msg)
    return f"{said} at {line}column {error.colno}"


_IN_WORDS = {
    "Expecting value": "there is no valid JSON value",
    "Expecting property name enclosed in double quotes": "a key in double quotes is missing",
    "Illegal trailing comma before end of object": "there is an extra comma",
    "Illegal trailing comma before end of array": "there is an extra comma",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing",
    "Expecting ':' delimiter": "a colon is missing",
    "Extra data": "there is more text after the JSON value",
    "Unterminated string starting": "there is an unterminated string",
    "Unterminated string": "there is an unterminated string",
    "Invalid control character": "there is a line break or control character in a string",
    "Invalid \\escape": "there is an invalid backslash escape",
    "Invalid value": "there is an invalid value, perhaps a string without quotes,",
    "Invalid statement": "KEY = VALUE is expected",
    "Expected '=' after a key in a key/value pair": "KEY = VALUE is expected",
    "Expected newline or end of document after a statement": "there is more text after a value",
    "Unclosed array": "a comma or a closing bracket is missing",
    "Cannot overwrite a value": "a key occurs more than once",
    "Unescaped '\\' in a string": "a backslash in double quotes must be doubled",
}
"""Error messages of Python's JSON and TOML parsers, with plainer replacements."""
TOO_DEEP = "its brackets are nested too deeply"
"""Describes JSON that exceeds the parser's limit on depth."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice[:60]!r} occurs more than once in an object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def _parse_int(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"it has a number with {len(digits):,} digits, but at most {_DIGITS} are allowed")
    return int(digits)


def _parse_float(text: str) -> float:
    """Parse a float. TOML's `inf` and `nan` are accepted here; the caller must check for them."""
    value = float(text) if len(text) <= _DIGITS else math.inf
    if math.isinf(value) and "inf" not in text:
        shown = text if len(text) <= 20 else f"{text[:20]}…"
        raise ValueError(f"the number {shown} is too large or too long")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_make_object,
    parse_constant=_refuse_constant,
    parse_int=_parse_int,
    parse_float=_parse_float,
)


def _check_depth(value: Any) -> None:
    """Raise ValueError for a value nested too deeply.

    Values are checked level by level, because recursion could overflow the stack.
    """
    level = [value]
    for _ in range(DEPTH + 1):
        level = [inner for outer in level for inner in _values_in(outer)]
        if not level:
            return
    raise ValueError(TOO_DEEP)


def _values_in(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _check_characters(value: Any) -> None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        waiting += _values_in(item)
        for text in item if isinstance(item, dict) else [item]:
            if isinstance(text, str) and (half := _HALF.search(text)):
                code = f"\\u{ord(half[0]):04x}"
                raise ValueError(f"it has half of a surrogate pair ({code}), which is not a character")


_HALF = re.compile("[\ud800-\udfff]")


# TOML


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML, with limits on keys, numbers and nesting that tomllib doesn't have."""
    if len(text) > TOML_LIMIT:
        raise ValueError(f"it is longer than {TOML_LIMIT:,} characters")
    _check_toml(text)
    try:
        content = tomllib.loads(text, parse_float=_parse_float)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except tomllib.TOMLDecodeError as error:
        fault, _, place = str(error).removesuffix(")").partition(" (at ")
        raise ValueError(f"{_IN_WORDS.get(fault, fault)} at {place}") from None
    _check_depth(content)
    return content


_TOML_TOKEN = re.compile(
    r'''
      """(?:[^"\\]|\\.|"(?!""))*"{3,5}   # a multi-line string, whose text may end in up to two quotes
    | \'\'\'(?:[^']|'(?!\'\'))*'{3,5}
    | "(?:[^"\\\n]|\\.)*"
    | '[^'\n]*+'
    | \#[^\n]*+
    | [^"'\#.,=\[\]{}\n]++                # a bare key, a number or spaces
    | .
    ''',
    re.VERBOSE | re.DOTALL,
)


def _check_toml(text: str) -> None:
    """Raise ValueError for text that tomllib would need minutes or gigabytes to parse.

    Other invalid TOML is left to tomllib.
    """
    dots = depth = line = 0
    for found in _TOML_TOKEN.finditer(text):
        token = found[0]
        if token in ('"', "'"):  # an unterminated string, which tomllib reports
            return
        line += token.count("\n")
        if token == ".":
            dots += 1
            if dots >= KEY_PARTS:
                raise ValueError(f"line {line + 1} has a key with more than {KEY_PARTS} parts")
        elif token in _BETWEEN:
            dots = 0
            depth = max(0, depth + _BETWEEN[token])
            if depth > DEPTH:
                raise ValueError(f"{TOO_DEEP} on line {line + 1}")
        elif len(token) > _DIGITS and token[0] not in "\"'#" and len(token.strip()) > _DIGITS:
            raise ValueError(f"line {line + 1} has a bare key or number with more than {_DIGITS} characters")


_BETWEEN = {"[": 1, "{": 1, "]": -1, "}": -1, "=": 0, ",": 0, "\n": 0}
"""Maps each token that ends a key to the change that it makes to the nesting depth."""


# Files


def read_text(path: Path, limit: int) -> str:
    """Read a UTF-8 file of at most `limit` bytes, ignoring a byte order mark."""
    with read_errors(path), path.open("rb") as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise ValueError(f"it is larger than {limit:,} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8; save the file as UTF-8") from None


def read_json(path: Path, limit: int = JSON_LIMIT, format: str = "") -> dict[str, Any]:
    """Read a JSON object. If `format` is given, it must match the object's `format`."""
    content = parse_json(read_text(path, limit))
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    if format and content.get("format") != format:
        raise ValueError(f"its format is {str(content.get('format'))[:60]!r}, not {format!r}")
    return content


# CSV


class BrokenCsvError(ValueError):
    """Raised if a row of a file is not valid CSV.

    `first` and `last` are the row's first and last line numbers.
    """

    def __init__(self, reason: str, first: int, last: int) -> None:
        super().__init__(reason)
        self.first, self.last = first, last


def csv_rows(
    file: TextIO, delimiter: str = ",", cell_limit: int = CELL_LIMIT
) -> Iterator[tuple[int, int, list[str]]]:
    """Yield each row of a CSV file (RFC 4180) as its first line number, last line number and cells.

    The file must be opened with `newline=""`. An empty line is a row without cells. Raises BrokenCsvError for an
    invalid row.
    """
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    last = 0
    while True:
        before = csv.field_size_limit(cell_limit)  # applies to the whole process
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise BrokenCsvError(str(error), last + 1, reader.line_num) from error
        finally:
            csv.field_size_limit(before)
        if cells is None:
            return
        yield last + 1, reader.line_num, cells
        last = reader.line_num


def rows_in_quotes(cells: Sequence[str], delimiter: str) -> list[list[str]]:
    """Split a row in which stray quotation marks have merged several rows, and return all but the first.

    Returns an empty list if the row has only one cell, or if the split rows don't all have as many
    cells as the given row.
    """
    lines = [line for line in re.split("\r\n|\r|\n", delimiter.join(cells)) if line]
    rows = [line.split(delimiter) for line in lines]
    return rows[1:] if len(cells) > 1 and all(len(row) == len(cells) for row in rows) else []


# Parquet


def check_columns(schema: pa.Schema, kinds: Mapping[str, str]) -> None:
    """Raise ValueError if a table doesn't have exactly one column of each given name, with the given type.

    The types are `string`, `list of strings`, `integer` and `number`.
    """
    import pyarrow as pa

    for name, kind in kinds.items():
        if schema.names.count(name) != 1:
            given = ", ".join(repr(one[:30]) for one in islice(schema.names, 10)) or "none"
            count = "no column" if name not in schema.names else "more than one column"
            raise ValueError(f"it has {count} {name!r}; its columns are {given}")
        found = schema.field(name).type
        if not _FITS[kind](pa.types, found):
            raise ValueError(f"its column {name!r} has the type {str(found)[:60]}, not {kind}")


_FITS: Mapping[str, Any] = {
    "string": lambda types, kind: types.is_string(kind) or types.is_large_string(kind),
    "list of strings": lambda types, kind: types.is_list(kind) and types.is_string(kind.value_type),
    "integer": lambda types, kind: types.is_integer(kind),
    "number": lambda types, kind: types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind),
}


@contextmanager
def open_parquet(path: Path, **settings: Any) -> Iterator[pq.ParquetFile]:
    """Open a parquet file. Raises ArrowException or OSError if it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with read_errors(path):
        # as bytes, because pyarrow can't open paths that aren't UTF-8
        with pa.OSFile(os.fsencode(path)) as source, pq.ParquetFile(source, **settings) as file:
            yield file


def read_batches(path: Path, kinds: Mapping[str, str], size: int = 1_000) -> Iterator[pa.RecordBatch]:
    """Yield the given columns of a parquet file in batches of `size` rows."""
    import pyarrow as pa

    try:
        with open_parquet(path, buffer_size=1 << 20, pre_buffer=False) as file:
            check_columns(file.schema_arrow, kinds)
            for batch in file.iter_batches(size, columns=list(kinds)):
                batch.validate(full=True)
                for name, column in zip(kinds, batch.columns, strict=True):
                    if column.null_count or (pa.types.is_list(column.type) and column.flatten().null_count):
                        raise ValueError(f"its column {name!r} has a row without a value")
                yield batch
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError("it is not a complete parquet file") from error

"""Helpers for the readers in `datasets/`: records whose errors name their position, and URLs of pinned files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from decabench.errors import DataError
from decabench.tasks.example import Example
from decabench.tasks.task import Files, RemoteFile
from decabench.text import kind_of
from decabench.untrusted import BrokenCsvError, csv_rows, parse_json


class Record:
    """A record of a published file with typed access to its fields. Errors name the file and the position."""

    __slots__ = ("_above", "_kind", "_number", "value")

    def __init__(self, value: Any, above: Record | str, kind: str, number: int) -> None:
        self.value = value
        self._above = above
        self._kind = kind
        self._number = number

    @property
    def number(self) -> int:
        """The number of the line or row, counted from 1."""
        return self._number

    @property
    def place(self) -> str:
        """The position in the file, for example `dev-v1.1.json, article 3, paragraph 1`."""
        above = self._above.place if isinstance(self._above, Record) else self._above
        return f"{above}, {self._kind} {self._number}"

    def fault(self, reason: str) -> DataError:
        """Return a DataError that names the record's position."""
        return DataError(f"{self.place}: {reason}.")

    def field(self, key: str) -> Any:
        """Return a field of any type. Raises DataError if it is missing."""
        try:
            return self.value[key]
        except (KeyError, TypeError, IndexError):
            if isinstance(self.value, Mapping):
                raise self.fault(f"{key!r} is missing") from None
            raise self.fault(f"the value must be an object with {key!r}, not {kind_of(self.value)}") from None

    def text(self, key: str) -> str:
        """Return a text field. Raises DataError for any other type."""
        try:
            value = self.value[key]
        except (KeyError, TypeError, IndexError):
            value = self.field(key)
        if type(value) is str and value.isascii():
            return value
        return self._require_text(value, repr(key))

    def texts(self, key: str) -> list[str]:
        """Return a field that is a list of texts. Raises DataError for any other type."""
        return [self._require_text(value, f"each item of {key!r}") for value in self.list(key)]

    def list(self, key: str) -> list[Any]:
        """Return a list field. Raises DataError for any other type."""
        value = self.field(key)
        if not isinstance(value, list):
            raise self.fault(f"{key!r} must be a list, not {kind_of(value)}")
        return value

    def integer(self, key: str, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`. Raises DataError for any other value."""
        value = self.field(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fault(f"{key!r} must be a whole number, not {kind_of(value)}")
        if not low <= value <= high:
            raise self.fault(f"{key!r} must be between {low} and {high}, not {value!r:.20}")
        return value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """Return a text field that is one of the allowed values. Raises DataError for any other value."""
        value = self.text(key)
        if value not in allowed:
            raise self.fault(f"{key!r} must be {' or '.join(map(repr, allowed))}, not {value[:40]!r}")
        return value

    def records(self, key: str, kind: str) -> Iterator[Record]:
        """Yield the items of a list field as records."""
        for number, value in enumerate(self.list(key), 1):
            yield Record(value, self, kind, number)

    def record(self, key: str) -> Record:
        """Return an object field as a record. Raises DataError for any other type."""
        value = self.field(key)
        if not isinstance(value, Mapping):
            raise self.fault(f"{key!r} must be an object, not {kind_of(value)}")
        return Record(value, self._above, self._kind, self._number)

    def _require_text(self, value: Any, what: str) -> str:
        if not isinstance(value, str):
            raise self.fault(f"{what} must be text, not {kind_of(value)}")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:  # JSON escapes can contain half of a surrogate pair
                raise self.fault(f"{what} contains half of a surrogate pair") from None
        return value


@contextmanager
def open_text(path: Path, newline: str | None = None, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a text file for reading. Raises DataError, naming the line, if the text is not UTF-8."""
    with path.open(encoding=encoding, newline=newline) as file:
        try:
            yield file
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path.name}, line {_first_broken_line(path)}, is not valid UTF-8. Save the file as UTF-8."
            ) from error


def text_lines(path: Path) -> Iterator[Record]:
    """Yield the lines of a text file as records. A line that is not UTF-8 is decoded as Windows-1252.

    Only a line feed ends a line; other Unicode line breaks stay in the text. Raises DataError if a line is not valid in
    either encoding.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            content = line.removesuffix(b"\n").removesuffix(b"\r")
            try:
                text = content.decode()
            except UnicodeDecodeError:
                try:
                    text = content.decode("cp1252")
                except UnicodeDecodeError as error:
                    raise DataError(f"{path.name}, line {number}, is not UTF-8 or Windows-1252.") from error
            yield Record(text, path.name, "line", number)


def shuffle_key(seed: str, text: str) -> str:
    """Return a sort key for a random but reproducible order that keeps equal texts together."""
    return hashlib.sha256(f"{seed}\n{text}".encode()).hexdigest()


def shuffled_within(unit: int, prefix: str, examples: Iterable[Example]) -> Iterator[Example]:
    """Shuffle examples within each unit, always in the same order, and number their ids: `<prefix>.<index>`.

    `unit` is the level of the units; 0 is the outermost level. Use this for files whose ids, or whose order
    within a unit, reveal the answers. Upstream's ids go to `meta`, which predictors never receive.
    """
    index = 0
    for _, group in groupby(examples, key=lambda example: example.units[unit]):
        for example in sorted(group, key=lambda example: shuffle_key(example.context, example.question)):
            yield replace(example, id=f"{prefix}.{index}", meta={**example.meta, "id": example.id})
            index += 1


def _first_broken_line(path: Path) -> int:
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):  # noqa: B007
            try:
                line.decode()
            except UnicodeDecodeError:
                break
    return number


def stream_items(path: Path, prefix: str) -> Iterator[Any]:
    """Yield the items below `prefix` (in ijson's notation, for example `data.item`) from a large JSON document.

    Raises DataError if the document is not valid JSON.
    """
    import ijson

    with path.open("rb") as file:
        try:
            yield from ijson.items(file, prefix, use_float=True)
        except (ijson.JSONError, ValueError, ArithmeticError, RecursionError) as error:
            reason = str(error).partition("\n")[0]  # the other lines only show the position
            raise DataError(
                f"{path.name} is not valid JSON ({reason}). Prepare again with --force."
            ) from error


def json_records(path: Path, prefix: str, kind: str) -> Iterator[Record]:
    """Yield the items below `prefix` in a large JSON document as records."""
    for number, value in enumerate(stream_items(path, prefix), 1):
        yield Record(value, path.name, kind, number)


def line_record(line: str | bytes, name: str, number: int) -> Record:
    """Parse a line of JSON as a record. Raises DataError, naming the line, if it is not valid JSON."""
    try:
        text = line.decode() if isinstance(line, bytes) else line
        return Record(parse_json(text, surrogates=True), name, "line", number)
    except ValueError as error:
        raise DataError(f"{name}, line {number}, is not JSON ({error}).") from error


def line_records(path: Path) -> Iterator[Record]:
    """Yield the values of a JSON Lines file as records."""
    with open_text(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            yield line_record(line, path.name, number)


def csv_records(path: Path, columns: tuple[str, ...]) -> Iterator[Record]:
    """Yield the rows of a CSV file with a header as records.

    Raises DataError if the file is not valid CSV or lacks one of the columns.
    """
    with open_text(path, newline="") as file:
        rows = csv_rows(file)
        try:
            _, _, header = next(rows, (1, 1, []))
            if absent := [column for column in columns if column not in header]:
                raise DataError(f"{path.name}, line 1: the header has no column {', '.join(absent)}.")
            for _, line, row in rows:
                if not row:
                    continue
                record = Record(dict(zip(header, row, strict=False)), path.name, "line", line)
                if len(row) != len(header):
                    raise record.fault(f"the row has {len(row)} cells, but the header has {len(header)}")
                yield record
        except BrokenCsvError as error:
            raise DataError(f"{path.name}, line {error.last}, is not valid CSV ({error}).") from error


def column_blocks(
    path: Path, columns: int, separator: str, comment: str | None = None, skip: int = 0
) -> Iterator[list[Record]]:
    """Yield the blocks of lines between empty lines. Each line becomes a record of its cells.

    Every line must have `columns` cells, except that a line beginning with `comment` is a single cell. The
    first `skip` lines are ignored. Raises DataError, naming the line, if a line has a different number of cells.
    """
    block: list[Record] = []
    with open_text(path, newline="\n") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\r\n")
            if number <= skip:
                continue
            if not line.strip(f" {separator}"):
                if block:
                    yield block
                block = []
            elif comment is not None and line.startswith(comment):
                block.append(Record([line], path.name, "line", number))
            else:
                block.append(_columns(line, path.name, number, columns, separator))
    if block:
        yield block


def _columns(line: str, name: str, number: int, columns: int, separator: str) -> Record:
    cells = line.split(separator)
    record = Record(cells, name, "line", number)
    if len(cells) != columns:
        raise record.fault(f"the line has {len(cells)} columns, but must have {columns}")
    return record


def one_token(record: Record, column: int) -> str:
    """Return a cell that must be a single word, because answers have one item per word.

    Raises DataError if the cell is not a single word.
    """
    cell: str = record.value[column]
    if cell.split() != [cell] or "\0" in cell:
        raise record.fault(f"column {column + 1} must be a single word, not {cell[:40]!r}")
    return cell


def parquet_records(files: Files, name: str, columns: tuple[str, ...]) -> Iterator[Record]:
    """Yield the rows of a parquet file as records."""
    for number, row in enumerate(files.rows(name, columns), 1):
        yield Record(row, name, "row", number)


def github_raw(repository: str, commit: str, path: str) -> str:
    """Return the URL of a file in a GitHub repository at a given commit."""
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def hub_file(repository: str, commit: str, path: str) -> RemoteFile:
    """Return a file of a Hugging Face dataset at a given commit."""
    return RemoteFile(path, (f"https://huggingface.co/datasets/{repository}/resolve/{commit}/{path}",))


def listed_files(url: str, listed: str) -> dict[str, tuple[RemoteFile, ...]]:
    """Parse a list of files, and return the files of each split.

    Each line contains the split, digest, size and name of a file. The digest is a sha256 or a git blob id. A digest or
    size of `-` is unknown. `url` is the folder that contains the files, or an empty string for files that users supply
    themselves.
    """
    found: dict[str, tuple[RemoteFile, ...]] = {}
    for line in listed.split("\n"):
        if line.strip():
            split, digest, size, name = line.split()
            file = RemoteFile(
                name,
                (f"{url}/{name}",) if url else (),
                sha256=digest if len(digest) == 64 else None,
                size=None if size == "-" else int(size.replace("_", "")),
                git_blob=digest if len(digest) == 40 else None,
            )
            found[split] = (*found.get(split, ()), file)
    return found

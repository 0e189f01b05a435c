"""Helpers for readers in `datasets/`: records that report their position in errors, and pinned URLs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO, TypeVar

from decabench.errors import DataError
from decabench.tasks.example import Example
from decabench.tasks.task import Files, Reader, RemoteFile, Source
from decabench.text import kind_of
from decabench.untrusted import BrokenCsvError, csv_rows, parse_json

Value = TypeVar("Value", str, list[Any], dict[str, Any])


@dataclass(frozen=True, slots=True)
class Record:
    """A line, row or JSON value of a published file."""

    value: Any
    """The content: a string, a list of cells, or an object."""
    file: str
    """The name of the file."""
    position: str
    """The position in the file, for example `line 3` or `article 3, paragraph 1`."""

    def fault(self, reason: str) -> DataError:
        """Return a DataError that names the record's position."""
        return DataError(f"{self.file}, {self.position}: {reason}.")

    def field(self, key: str, kind: type[Value]) -> Value:
        """Return a field of the given type. Raises DataError if it is missing or has another type."""
        found = self.value.get(key) if isinstance(self.value, Mapping) else None
        if not isinstance(found, kind):
            fault = f"must be {_KINDS[kind]}, not {kind_of(found)}"
            raise self.fault(f"{key!r} {'is missing' if found is None else fault}")
        return found

    def text(self, key: str) -> str:
        """Return a string field. Raises DataError if it is missing or has another type."""
        return self.field(key, str)

    def texts(self, key: str) -> list[str]:
        """Return a field that is a list of strings. Raises DataError if it is anything else."""
        found = self.field(key, list)
        if not all(isinstance(item, str) for item in found):
            raise self.fault(f"{key!r} must contain only strings")
        return found

    def integer(self, key: str, low: int, high: int) -> int:
        """Return an integer field from `low` to `high`. Raises DataError for any other value."""
        found = self.value.get(key) if isinstance(self.value, Mapping) else None
        if type(found) is not int or not low <= found <= high:
            raise self.fault(f"{key!r} must be a whole number from {low} to {high}, not {kind_of(found)}")
        return found

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """Return a string field that has one of the allowed values. Raises DataError for any other value."""
        found = self.field(key, str)
        if found not in allowed:
            raise self.fault(f"{key!r} must be {' or '.join(map(repr, allowed))}, not {found[:40]!r}")
        return found

    def records(self, key: str, kind: str) -> Iterator[Record]:
        """Yield the items of a list field as records. `kind` names an item in positions, for example `paragraph`."""
        for number, value in enumerate(self.field(key, list), 1):
            yield Record(value, self.file, f"{self.position}, {kind} {number}")


_KINDS: Mapping[type, str] = {str: "a string", list: "a list", dict: "an object"}


@contextmanager
def open_text(path: Path, newline: str | None = None, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a text file for reading. Raises DataError, naming the line, if the text is not UTF-8."""
    with path.open(encoding=encoding, newline=newline) as file:
        try:
            yield file
        except UnicodeDecodeError as error:
            with path.open("rb") as content:
                lines = enumerate(content, 1)
                broken = next(at for at, line in lines if line.decode(errors="ignore").encode() != line)
            raise DataError(
                f"{path.name}, line {broken}, is not valid UTF-8. Save the file as UTF-8."
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
                    raise DataError(
                        f"{path.name}, line {number}, is neither valid UTF-8 nor valid Windows-1252."
                    ) from error
            yield Record(text, path.name, f"line {number:,}")


def line_blocks(path: Path, closed: bool = False, separator: str = " ") -> Iterator[list[Record]]:
    """Yield the blocks of lines between empty lines. A line of spaces and separators counts as empty.

    If `closed` is set, the last block is left out unless an empty line follows it. The original code
    for some datasets does the same.
    """
    block: list[Record] = []
    with open_text(path, newline="\n") as file:
        for number, line in enumerate(file, 1):
            if line.strip(f" \r\n{separator}"):
                block.append(Record(line.rstrip("\r\n"), path.name, f"line {number:,}"))
            elif block:
                yield block
                block = []
    if block and not closed:
        yield block


def column_blocks(
    path: Path, columns: int, separator: str | None, comment: str | None = None, closed: bool = False
) -> Iterator[list[Record]]:
    """Yield the blocks of lines between empty lines. Each line becomes a record of its cells.

    Every line must have at least `columns` cells; the last cell contains the rest of the line. If
    `separator` is None, cells are separated by whitespace. A line that begins with `comment` is a
    single cell. For `closed`, see `line_blocks`. Raises DataError, naming the line, if a line has too
    few cells.
    """
    for block in line_blocks(path, closed, separator or " "):
        rows = []
        for line in block:
            is_comment = comment is not None and line.value.startswith(comment)
            cells = [line.value] if is_comment else line.value.split(separator, columns - 1)
            if len(cells) < columns and not is_comment:
                raise line.fault(f"the line must have {columns} columns, but has {len(cells)}")
            rows.append(replace(line, value=cells))
        yield rows


def one_token(record: Record, column: int) -> str:
    """Return a cell that must be a single word, because answers have one item per word.

    Raises DataError if the cell is not a single word.
    """
    cell: str = record.value[column]
    if cell.split() != [cell] or "\0" in cell:
        raise record.fault(f"column {column + 1} must be a single word, not {cell[:40]!r}")
    return cell


def json_records(path: Path, prefix: str, kind: str) -> Iterator[Record]:
    """Yield the items of a list in a large JSON document as records, without reading the whole document at once.

    `prefix` is the path of the items in ijson's notation, for example `data.item`. `kind` names an item in error
    messages. Raises DataError if the document is not valid JSON.
    """
    import ijson

    with path.open("rb") as file:
        try:
            for number, value in enumerate(ijson.items(file, prefix, use_float=True), 1):
                yield Record(value, path.name, f"{kind} {number:,}")
        except (ijson.JSONError, ValueError, ArithmeticError, RecursionError) as error:
            reason = str(error).partition("\n")[0]  # the other lines only show the position
            raise DataError(
                f"{path.name} is not valid JSON ({reason}). Prepare the task again with --force."
            ) from error


def line_records(path: Path) -> Iterator[Record]:
    """Yield the values of a JSON Lines file as records. Raises DataError, naming the line, if a line is not JSON."""
    with open_text(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    value = parse_json(line, surrogates=True)
                except ValueError as error:
                    raise DataError(f"{path.name}, line {number}, is not JSON ({error}).") from error
                yield Record(value, path.name, f"line {number:,}")


def csv_records(path: Path) -> Iterator[Record]:
    """Yield the rows of a CSV file as records, with the column names of its first line as keys.

    Raises DataError if the file is not valid CSV or a row has more or fewer cells than the first line.
    """
    with open_text(path, newline="") as file:
        try:
            header: list[str] | None = None
            for _, line, cells in csv_rows(file):
                header = header or cells
                row = Record(dict(zip(header, cells, strict=False)), path.name, f"line {line:,}")
                if len(cells) not in (0, len(header)):
                    raise row.fault(
                        f"the row must have {len(header)} cells, like the header, but has {len(cells)}"
                    )
                if cells and cells is not header:
                    yield row
        except BrokenCsvError as error:
            raise DataError(f"{path.name}, line {error.last}, is not valid CSV ({error}).") from error


def parquet_records(files: Files, name: str, columns: tuple[str, ...]) -> Iterator[Record]:
    """Yield the rows of a parquet file as records."""
    for number, row in enumerate(files.rows(name, columns), 1):
        yield Record(row, name, f"row {number:,}")


def shuffle_key(seed: str, text: str) -> str:
    """Return a sort key for a random but reproducible order that keeps equal texts together."""
    return hashlib.sha256(f"{seed}\n{text}".encode()).hexdigest()


def shuffled_within(unit: int, prefix: str, examples: Iterable[Example]) -> Iterator[Example]:
    """Shuffle examples within each unit, reproducibly, and number their ids: `<prefix>.<index>`.

    `unit` is the level of the units; 0 is the outermost level. Use this function if the published ids, or the order
    of the examples within a unit, reveal the answers. The published ids go to `meta`, which predictors never receive.
    """
    index = 0
    for _, group in groupby(examples, key=lambda example: example.units[unit]):
        for example in sorted(group, key=lambda example: shuffle_key(example.context, example.question)):
            yield replace(example, id=f"{prefix}.{index}", meta={**example.meta, "id": example.id})
            index += 1


def github_raw(repository: str, commit: str, path: str) -> str:
    """Return the URL of a file in a GitHub repository at a given commit."""
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def hub_file(repository: str, commit: str, path: str) -> RemoteFile:
    """Return a file of a Hugging Face dataset at a given commit."""
    return RemoteFile(path, (f"https://huggingface.co/datasets/{repository}/resolve/{commit}/{path}",))


def hub_source(
    repository: str,
    commit: str,
    paths: Mapping[str, str | Sequence[str]],
    read: Reader,
    counts: Mapping[str, int] | None = None,
) -> Source:
    """Return the parquet files of a Hugging Face dataset at a given commit, by split, with their reader."""
    files = {
        split: tuple(
            hub_file(repository, commit, path) for path in ([each] if isinstance(each, str) else each)
        )
        for split, each in paths.items()
    }
    return Source("hub parquet", files, read, counts=counts or {})


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

"""A task from a TOML file that names a local table, its columns, a question template and a metric."""

from __future__ import annotations

import csv
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decabench.errors import DataError, require_name
from decabench.metrics import METRICS
from decabench.tasks.example import SPLITS, Example
from decabench.tasks.readers import stream_lines
from decabench.tasks.task import Files, RemoteFile, Source, Task, Variant, fixed, wrapped

__all__ = ["FORMAT", "read_toml_task"]

FORMAT = "decabench.taskfile/1"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_TEXTS = ("title", "dataset", "licence", "citation", "homepage", "notes")
_KEYS = {
    *("format", "name", "metric", "files", "question", "context", "answer", "id", "group", "variants"),
    *_TEXTS,
}
_VARIANT_KEYS = {"name", "question", "labels"}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class _Columns:
    """How a row of the table becomes an example. Templates name columns in braces: `{country}`."""

    task: str
    question: str
    context: str
    answer: str
    id: str | None
    group: str | None

    def example(self, row: Row, split: str, index: int) -> Example:
        found = _cell(row, self.answer)
        given = found if isinstance(found, list) else [found]
        answers = [str(answer) for answer in given if answer is not None]
        id = str(_cell(row, self.id)) if self.id else f"{self.task}.{split}.{index}"
        group = str(_cell(row, self.group)) if self.group else id
        return Example(id, _fill(self.question, row), _fill(self.context, row), tuple(answers), group)


def _cell(row: Row, column: str) -> Any:
    if not isinstance(row, Mapping):
        raise DataError(f"It is no object with columns but {json.dumps(row)[:80]}.")
    if row.get(column) is None:
        raise DataError(f"It has no {column!r}; it has {', '.join(map(str, row))}.")
    return row[column]


def _fill(template: str, row: Row) -> str:
    # Not str.format: a template must reach columns only, never attributes of values.
    return _PLACEHOLDER.sub(lambda match: str(_cell(row, match.group(1))), template)


def _rows(files: Files, name: str) -> Iterator[Row]:
    if name.endswith(".parquet"):
        yield from files.rows(name, ())
    elif name.endswith((".csv", ".tsv")):
        csv.field_size_limit(sys.maxsize)
        with files.path(name).open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t" if name.endswith(".tsv") else ",")
    else:
        yield from stream_lines(files.path(name))


def _reader(columns: _Columns, names: Mapping[str, str]) -> Any:
    def read(files: Files, split: str) -> Iterator[Example]:
        for index, row in enumerate(_rows(files, names[split])):
            try:
                yield columns.example(row, split, index)
            except DataError as error:
                raise DataError(f"{names[split]}, row {index + 1}: {error}") from error

    return read


def _text(content: Mapping[str, Any], key: str, path: Path, default: str | None = None) -> str:
    value = content.get(key, default)
    if not isinstance(value, str) or (default is None and not value):
        raise DataError(f"{path}: {key!r} must be a text, not {json.dumps(value, default=str)}.")
    return value


def _files(content: Mapping[str, Any], path: Path) -> dict[str, str]:
    files = content.get("files")
    if not isinstance(files, dict) or not files or not set(files) <= set(SPLITS):
        raise DataError(f"{path}: [files] must name a file for one or more of {', '.join(SPLITS)}.")
    for name in files.values():
        if not isinstance(name, str) or not name.endswith((".jsonl", ".csv", ".tsv", ".parquet")):
            raise DataError(f"{path}: a file is .jsonl, .csv, .tsv or .parquet, not {name!r}.")
    return files


def _variants(content: Mapping[str, Any], asked: str, path: Path) -> Iterator[Variant]:
    """Those of `[[variants]]`: words around any question, or another question where all examples ask the same."""
    tables = content.get("variants", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise DataError(f"{path}: variants are tables: write [[variants]], name and question.")
    for table in tables:
        if unknown := sorted(set(table) - _VARIANT_KEYS):
            raise DataError(
                f"{path}: a variant has unknown keys {', '.join(unknown)}; known: name, question, labels."
            )
        name, question = _text(table, "name", path), _text(table, "question", path)
        labels = table.get("labels", {})
        if not isinstance(labels, dict) or not all(isinstance(label, str) for label in labels.values()):
            raise DataError(f"{path}: the labels of a variant are texts: labels = {{ happy = 'positive' }}.")
        try:
            same = "{question}" not in question and not _PLACEHOLDER.search(asked)
            made = fixed(name, asked, question) if same else wrapped(name, question)
        except ValueError as error:
            raise DataError(f"{path}: {error}") from error
        yield replace(made, labels=labels)


def read_toml_task(path: Path) -> Task:
    """The task that a TOML file describes. Raises DataError with what is wrong in it."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is not TOML ({error}).") from error
    if content.get("format") != FORMAT:
        raise DataError(f"{path} has format {content.get('format')!r}: write format = {FORMAT!r}.")
    if unknown := sorted(set(content) - _KEYS):
        raise DataError(f"{path} has unknown keys {', '.join(unknown)}; known: {', '.join(sorted(_KEYS))}.")
    name = _text(content, "name", path)
    if not _NAME.fullmatch(name):
        raise DataError(f"{path}: a name is lower-case letters, digits, dots, - and _, not {name!r}.")
    files = _files(content, path)
    columns = _Columns(
        task=name,
        question=_text(content, "question", path),
        context=_text(content, "context", path, ""),
        answer=_text(content, "answer", path),
        id=_text(content, "id", path, "") or None,
        group=_text(content, "group", path, "") or None,
    )
    source = Source(
        "local files",
        # The description is a file too: where its templates change, so do the examples.
        {split: (RemoteFile(file), RemoteFile(path.resolve().name)) for split, file in files.items()},
        _reader(columns, files),
    )
    return Task(
        name=name,
        title=_text(content, "title", path, name),
        dataset=_text(content, "dataset", path, name),
        metric=require_name(_text(content, "metric", path), METRICS, "metric"),
        counts={},
        sources=(source,),
        licence=_text(content, "licence", path, "not stated"),
        citation=_text(content, "citation", path, ""),
        homepage=_text(content, "homepage", path, ""),
        notes=_text(content, "notes", path, ""),
        variants=tuple(_variants(content, columns.question, path)),
        origin="user",
        folder=path.resolve().parent,
    )
